/* The entry points of Fortran, made of calls.def: mpi_send_ of mpif.h and "use mpi", and mpi_send_f08_ of
 * Open MPI's "use mpi_f08" (MPICH's module calls the functions of C). All arguments are addresses; the
 * last one receives the error, and may be absent in Fortran 2008. */
#include "calls.h"

/* What the call returned, if it has a place for it. */
static inline int read_error(const int *error) { return error ? *error : 0; }

#define ENTRY(name, symbol, n, language)                                                           \
    KINETO_API void symbol(LEADING_##n int *error);                                                \
    KINETO_API void symbol(LEADING_##n int *error)                                                 \
    {                                                                                              \
        cx_call c;                                                                                 \
        cx_word w[] = {WORDS_##n};                                                                 \
        void (*next)(LEADING_TYPES_##n int *);                                                     \
        *(void **)&next = cx_next(CX_CALL_##name, language);                                       \
        if (!cx_begin(&c, CX_CALL_##name, language, w)) {                                          \
            next(LEADING_PASSED_##n error);                                                        \
            return;                                                                                \
        }                                                                                          \
        next(LEADING_PASSED_##n error);                                                            \
        cx_end(&c, read_error(error));                                                             \
    }
#define CALL(name, fortran, n, ...)                                                                \
    ENTRY(name, mpi_##fortran##_, n, CX_FORTRAN)                                                   \
    ENTRY(name, mpi_##fortran##_f08_, n, CX_FORTRAN_2008)
#define SPECIAL(name, fortran, n, ...)
#include "calls.def"

/* Without the arguments of main. */
ENTRY(Init, mpi_init_, 0, CX_FORTRAN)
ENTRY(Init, mpi_init_f08_, 0, CX_FORTRAN_2008)
ENTRY(Init_thread, mpi_init_thread_, 2, CX_FORTRAN)
ENTRY(Init_thread, mpi_init_thread_f08_, 2, CX_FORTRAN_2008)

/* The length of the file's name follows the error. */
#define OPEN_ENTRY(symbol, language)                                                               \
    KINETO_API void symbol(LEADING_5 int *error, size_t length);                                   \
    KINETO_API void symbol(LEADING_5 int *error, size_t length)                                    \
    {                                                                                              \
        cx_call c;                                                                                 \
        cx_word w[] = {WORDS_5, (cx_word)error, length};                                           \
        void (*next)(LEADING_TYPES_5 int *, size_t);                                               \
        *(void **)&next = cx_next(CX_CALL_File_open, language);                                    \
        if (!cx_begin(&c, CX_CALL_File_open, language, w)) {                                       \
            next(LEADING_PASSED_5 error, length);                                                  \
            return;                                                                                \
        }                                                                                          \
        next(LEADING_PASSED_5 error, length);                                                      \
        cx_end(&c, read_error(error));                                                             \
    }
OPEN_ENTRY(mpi_file_open_, CX_FORTRAN)
OPEN_ENTRY(mpi_file_open_f08_, CX_FORTRAN_2008)
