/* Loops and sections. GCC calls the runtime for loops with a schedule other than static only: those of
 * static schedules are divided by the code itself, and have only their barrier. */
#include "gomp.h"

#define CT_X(schedule)                                                                             \
    bool GOMP_loop_##schedule##_start(long start, long end, long step, long chunk, long *from,     \
                                      long *to)                                                    \
    {                                                                                              \
        const ct_gomp *next = CT_NEXT;                                                             \
        ct_open_of(next, CT_LOOP, 0, CT_CALLER);                                                   \
        return next->GOMP_loop_##schedule##_start(start, end, step, chunk, from, to);              \
    }                                                                                              \
    bool GOMP_loop_ull_##schedule##_start(bool up, ct_ull start, ct_ull end, ct_ull step,          \
                                          ct_ull chunk, ct_ull *from, ct_ull *to)                  \
    {                                                                                              \
        const ct_gomp *next = CT_NEXT;                                                             \
        ct_open_of(next, CT_LOOP, 0, CT_CALLER);                                                   \
        return next->GOMP_loop_ull_##schedule##_start(up, start, end, step, chunk, from, to);      \
    }
CT_CHUNK_LOOPS(CT_X)
#undef CT_X

#define CT_X(schedule)                                                                             \
    bool GOMP_loop_##schedule##_start(long start, long end, long step, long *from, long *to)       \
    {                                                                                              \
        const ct_gomp *next = CT_NEXT;                                                             \
        ct_open_of(next, CT_LOOP, 0, CT_CALLER);                                                   \
        return next->GOMP_loop_##schedule##_start(start, end, step, from, to);                     \
    }                                                                                              \
    bool GOMP_loop_ull_##schedule##_start(bool up, ct_ull start, ct_ull end, ct_ull step,          \
                                          ct_ull *from, ct_ull *to)                                \
    {                                                                                              \
        const ct_gomp *next = CT_NEXT;                                                             \
        ct_open_of(next, CT_LOOP, 0, CT_CALLER);                                                   \
        return next->GOMP_loop_ull_##schedule##_start(up, start, end, step, from, to);             \
    }
CT_RUNTIME_LOOPS(CT_X)
#undef CT_X

unsigned GOMP_sections_start(unsigned count)
{
    const ct_gomp *next = CT_NEXT;
    ct_open_of(next, CT_SECTIONS, 0, CT_CALLER);
    return next->GOMP_sections_start(count);
}

/* The ends: with a barrier, without one, and with one that a cancellation may end. */
#define ENDS(construct, what)                                                                      \
    void GOMP_##construct##_end(void)                                                              \
    {                                                                                              \
        const ct_gomp *next = CT_NEXT;                                                             \
        ct_close_of(next, what, 0);                                                                \
        ct_open_of(next, CT_IMPLICIT_BARRIER, 0, CT_CALLER);                                       \
        next->GOMP_##construct##_end();                                                            \
        ct_close_of(next, CT_IMPLICIT_BARRIER, 0);                                                 \
    }                                                                                              \
    void GOMP_##construct##_end_nowait(void)                                                       \
    {                                                                                              \
        const ct_gomp *next = CT_NEXT;                                                             \
        ct_close_of(next, what, 0);                                                                \
        next->GOMP_##construct##_end_nowait();                                                     \
    }                                                                                              \
    bool GOMP_##construct##_end_cancel(void)                                                       \
    {                                                                                              \
        const ct_gomp *next = CT_NEXT;                                                             \
        ct_close_of(next, what, 0);                                                                \
        ct_open_of(next, CT_IMPLICIT_BARRIER, 0, CT_CALLER);                                       \
        bool is_cancelled = next->GOMP_##construct##_end_cancel();                                 \
        ct_close_of(next, CT_IMPLICIT_BARRIER, 0);                                                 \
        return is_cancelled;                                                                       \
    }
ENDS(loop, CT_LOOP)
ENDS(sections, CT_SECTIONS)
