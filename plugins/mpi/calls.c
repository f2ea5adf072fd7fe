/* The entry points of C, made of calls.def. */
#include "calls.h"

#define COUNT(n)     .at[CX_COUNT] = n,
#define TYPE(n)      .at[CX_TYPE] = n,
#define PEER(n)      .at[CX_PEER] = n,
#define TAG(n)       .at[CX_TAG] = n,
#define COUNT2(n)    .at[CX_COUNT2] = n,
#define TYPE2(n)     .at[CX_TYPE2] = n,
#define PEER2(n)     .at[CX_PEER2] = n,
#define TAG2(n)      .at[CX_TAG2] = n,
#define COMM(n)      .at[CX_COMM] = n,
#define ROOT(n)      .at[CX_ROOT] = n,
#define OP(n)        .at[CX_OP] = n,
#define REQUEST(n)   .at[CX_REQUEST] = n,
#define REQUESTS(n)  .at[CX_REQUESTS] = n,
#define STATUS(n)    .at[CX_STATUS] = n,
#define FLAG(n)      .at[CX_FLAG] = n,
#define INDEX(n)     .at[CX_INDEX] = n,
#define DONE(n)      .at[CX_DONE] = n,
#define MESSAGE(n)   .at[CX_MESSAGE] = n,
#define NEW_COMM(n)  .at[CX_NEW_COMM] = n,
#define FILE_NAME(n) .at[CX_FILE_NAME] = n,

/* Designators of arrays in members: {.at[CX_COUNT] = 2, .at[CX_TYPE] = 3} */
const cx_spec cx_specs[CX_CALL_COUNT] = {
#define CALL(name, fortran, n, how, sizes, ...)                                                    \
    [CX_CALL_##name] = {"MPI_" #name, "mpi_" #fortran "_", n,                                      \
                        CX_HOW_##how, CX_SIZES_##sizes,    __VA_ARGS__},
#include "calls.def"
};

/* The words are an array, so that a status can be replaced. */
#define ENTRY(name, symbol, n, language)                                                           \
    KINETO_API int symbol(PARAMETERS_##n);                                                         \
    KINETO_API int symbol(PARAMETERS_##n)                                                          \
    {                                                                                              \
        cx_call c;                                                                                 \
        cx_word w[] = {WORDS_##n};                                                                 \
        int (*next)(TYPES_##n);                                                                    \
        *(void **)&next = cx_next(CX_CALL_##name, language);                                       \
        if (language == CX_C_LARGE && cx_is_too_large(CX_CALL_##name, w))                          \
            return CX_ERROR_COUNT;                                                                 \
        if (!cx_begin(&c, CX_CALL_##name, language, w))                                            \
            return next(PASSED_##n);                                                               \
        int error = next(PASSED_##n);                                                              \
        cx_end(&c, error);                                                                         \
        return error;                                                                              \
    }
#define CALL(name, fortran, n, ...) ENTRY(name, MPI_##name, n, CX_C)
#define LARGE(name, fortran, n, ...)                                                               \
    ENTRY(name, MPI_##name, n, CX_C)                                                               \
    ENTRY(name, MPI_##name##_c, n, CX_C_LARGE)
#include "calls.def"
