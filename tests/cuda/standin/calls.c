/* What every function of the stand-in does first, and what happens once. */
#include "standin.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

pthread_mutex_t si_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static atomic_bool initialized, lost; /* cuInit has been called; by a parent of this process */
static atomic_bool over;              /* CUPTI's exit handlers have run */
static int log_fd = -1;

/* Counts of calls, by function. */
typedef struct count {
    const char *function;
    uint32_t calls;
} count;
static count counts[256];

static void child(void)
{
    /* No lock may be taken here: other threads of the parent may hold them. */
    lost = lost || initialized;
    if (lost)
        return;
    pthread_mutex_init(&si_lock, NULL);
    si_writer_after_fork();
}

static void start(void)
{
    const char *path = getenv("CKINETO_STANDIN_LOG");
    if (path && *path)
        log_fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    si_layouts_init();
    si_script_load();
    pthread_atfork(NULL, NULL, child);
}

void si_once(void) { pthread_once(&once, start); }

bool si_is_lost(void) { return lost; }
bool si_is_over(void) { return over; }
void si_set_over(void) { over = true; }
bool si_is_initialized(void) { return initialized; }
void si_set_initialized(void) { initialized = true; }

uint64_t si_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static uint32_t count_call(const char *function)
{
    uint32_t calls = 0;
    pthread_mutex_lock(&si_lock);
    for (size_t i = 0; i < SI_COUNT(counts) && !calls; i++) {
        if (!counts[i].function)
            counts[i].function = function;
        if (strcmp(counts[i].function, function) == 0)
            calls = ++counts[i].calls;
    }
    pthread_mutex_unlock(&si_lock);
    return calls;
}

static void log_call(const char *function, uint64_t detail, int32_t code)
{
    char line[160];
    if (log_fd < 0)
        return;
    int size = snprintf(line, sizeof line, "%d %s %llu %d\n", (int)gettid(), function,
                        (unsigned long long)detail, code);
    if (write(log_fd, line, (size_t)size) != size)
        log_fd = -1;
}

static bool is_meant(const si_rule *rule, const char *function, uint32_t call)
{
    return call >= rule->first && call <= rule->last &&
           (strcmp(rule->function, "*") == 0 || strcmp(rule->function, function) == 0);
}

int32_t si_enter(const char *function, uint64_t detail)
{
    int32_t code = 0;
    uint32_t slow_us = 0;
    si_once();
    if (lost) {
        log_call(function, detail, -1);
        return 0;
    }
    if (over && strncmp(function, "cupti", 5) == 0) {
        log_call(function, detail, -2);
        return 0;
    }
    uint32_t call = count_call(function);
    for (size_t i = 0; i < si_plan.rule_count; i++) {
        if (!is_meant(&si_plan.rules[i], function, call))
            continue;
        slow_us += si_plan.rules[i].slow_us;
        code = code ? code : si_plan.rules[i].code;
    }
    log_call(function, detail, code);
    if (slow_us)
        usleep(slow_us);
    if (strcmp(function, si_plan.options.replay_at) == 0 && call == si_plan.options.replay_call)
        si_replay();
    return code;
}
