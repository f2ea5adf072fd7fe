/* A plug-in that keeps all rules, and one fault at a time: BROKEN is the name of one below. */
#ifndef CKINETO_TESTS_CHECK_DEVICE_H
#define CKINETO_TESTS_CHECK_DEVICE_H

#include <ckineto/plugin.h>

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define EXPORT __attribute__((visibility("default")))

enum fault {
    GOOD,
    LOAD_CRASHES,
    LOAD_UNRESOLVED,
    NO_SYMBOL,
    REGISTER_REFUSES,
    REGISTER_LACKS,
    REGISTER_HANDLE,
    QUERY_TOUCHES_HANDLE,
    QUERY_NO_NAME,
    QUERY_KIND_TWICE,
    QUERY_CHANGES,
    QUERY_OVERFLOWS,
    START_CRASHES,
    START_FAILS,
    STOP_HANGS,
    STOP_EXITS,
    CREATE_UNKNOWN_KIND,
    START_TWICE,
    STOP_UNSTARTED,
    DELIVERS_TWICE,
    DESTROY_UNSTARTED,
    ONCE_ONLY,
    READS_BEHIND,
    SIZE_EQUALS,
    SIZE_IGNORED,
    SIZE_IGNORED_CREATE,
    TAKES_SHORT,
    NO_SIZE,
    DISABLED_KIND,
    ALL_OR_NOTHING,
    TOGGLE_IGNORED,
    PUSH_ON_ONE_THREAD,
    LIFE_ON_ONE_THREAD,
    EMPTY_FAILS,
    LONG_LOSES,
    ENDS_BEFORE,
    WRONG_CLOCK,
    CLOCK_GOES_BACK,
    FLOW_WITHOUT_END,
    STRANGE_ID,
    META_NO_JSON,
    META_KEY_TWICE,
    NO_NAME,
    BAD_NAME_POINTER,
    NO_ROWS,
    LATE,
    OTHER_THREAD,
    BAD_HANDLE,
    MISCOUNTS,
    COUNTER_NAN,
    SET_UNKNOWN,
    SET_REPEATED,
    ERROR_UNTERMINATED,
    TALKS,
    SIGNAL_HANDLER,
    LEAKS_MEMORY,
    LEAKS_FILES,
    LEAKS_THREADS,
    THREAD_STAYS
};
#ifndef BROKEN
#define BROKEN GOOD
#endif
#define IS(fault) (BROKEN == (fault))

#define SIZE(type, last)     KINETO_PLUGIN_SIZE(KinetoPlugin_##type, last)
#define HAS(p, type, member) KINETO_PLUGIN_HAS(p, KinetoPlugin_##type, member)

enum {
    KERNEL = KINETO_PLUGIN_PROFILE_EVENT_TYPE_CONCURRENT_KERNEL,
    CALL = KINETO_PLUGIN_PROFILE_EVENT_TYPE_RUNTIME,
    COUNTER = KINETO_PLUGIN_PROFILE_EVENT_TYPE_GPU_PM_COUNTER
};

#define MOST_PIECES 8192u

/* A launch and its kernel. */
typedef struct piece {
    int64_t call_ns, start_ns, end_ns;
    uint64_t operator_id;
    uint32_t id;
} piece;

typedef struct session {
    bool started, stopped, kernels, calls, counters;
    const KinetoPlugin_TraceBuilder *live;
    int starter; /* thread */
    piece pieces[MOST_PIECES];
    uint32_t count, delivered, taken; /* taken: ever */
    int32_t clock, set;
} session;

extern session *current; /* NULL: nothing is recorded */
extern pthread_mutex_t device_lock;

int64_t now_ns(clockid_t clock);
/** Deliver what was gathered, in steps. */
int deliver_in_steps(session *s, const KinetoPlugin_TraceBuilder *b);
/** Deliver a piece at once. */
void deliver_live(session *s, const piece *p);
void announce_live(session *s);
void announce_rows(const KinetoPlugin_TraceBuilder *b);
#endif
