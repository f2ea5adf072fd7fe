/* Preloaded: the clock of the day goes wrong. Each CHAOS_CLOCK_MS of the true time it is set ahead
 * or back by up to an hour, for all who ask the C library. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static int64_t shift_seconds(void)
{
    static int64_t every_ms;
    struct timespec now;
    if (!every_ms) {
        const char *text = getenv("CHAOS_CLOCK_MS");
        every_ms = text && atoi(text) > 0 ? atoi(text) : 50;
    }
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
    uint64_t turn = (uint64_t)(now.tv_sec * 1000 + now.tv_nsec / 1000000) / (uint64_t)every_ms;
    uint64_t mixed = (turn ^ turn >> 7) * UINT64_C(0x9e3779b97f4a7c15) >> 40;
    return (int64_t)(mixed % 7200) - 3600;
}

int clock_gettime(clockid_t clock, struct timespec *out);
int clock_gettime(clockid_t clock, struct timespec *out)
{
    long status = syscall(SYS_clock_gettime, clock, out);
    if (status == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        out->tv_sec += shift_seconds();
    return (int)status;
}

int gettimeofday(struct timeval *restrict out, void *restrict zone)
{
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    *out = (struct timeval){now.tv_sec, now.tv_nsec / 1000};
    return 0;
}

time_t time(time_t *out)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out)
        *out = now.tv_sec;
    return now.tv_sec;
}
