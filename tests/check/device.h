/* A plug-in that keeps all rules, and one fault at a time. */
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

/* clang-format off */
#define FAULTS(X) \
    X(GOOD) X(LOAD_CRASHES) X(LOAD_UNRESOLVED) X(NO_SYMBOL) X(REGISTER_REFUSES) \
    X(REGISTER_LACKS) X(REGISTER_HANDLE) X(QUERY_TOUCHES_HANDLE) X(QUERY_NO_NAME) \
    X(QUERY_KIND_TWICE) X(QUERY_CHANGES) X(QUERY_OVERFLOWS) X(START_CRASHES) X(START_FAILS) \
    X(STOP_HANGS) X(STOP_EXITS) X(CREATE_UNKNOWN_KIND) X(START_TWICE) X(STOP_UNSTARTED) \
    X(DELIVERS_TWICE) X(DESTROY_UNSTARTED) X(ONCE_ONLY) X(READS_BEHIND) X(SIZE_EQUALS) \
    X(SIZE_IGNORED) X(SIZE_IGNORED_CREATE) X(TAKES_SHORT) X(NO_SIZE) X(DISABLED_KIND) \
    X(ALL_OR_NOTHING) X(PUSH_ON_ONE_THREAD) X(LIFE_ON_ONE_THREAD) X(EMPTY_FAILS) X(LONG_LOSES) \
    X(ENDS_BEFORE) X(WRONG_CLOCK) X(FLOW_WITHOUT_END) X(STRANGE_ID) X(META_NO_JSON) \
    X(META_KEY_TWICE) X(NO_NAME) X(BAD_NAME_POINTER) X(NO_ROWS) X(LATE) X(OTHER_THREAD) \
    X(BAD_HANDLE) X(MISCOUNTS) X(ERROR_UNTERMINATED) X(TALKS) X(SIGNAL_HANDLER) X(LEAKS_MEMORY) \
    X(LEAKS_FILES) X(LEAKS_THREADS) X(THREAD_STAYS)
/* of a device that delivers at once */
#define LIVE_FAULTS(X) \
    X(TOGGLE_IGNORED) X(CLOCK_GOES_BACK) X(COUNTER_NAN) X(SET_UNKNOWN) X(SET_REPEATED)
/* clang-format on */
#define NUMBER(name) name,
enum fault { FAULTS(NUMBER) LIVE, LIVE_FAULTS(NUMBER) NO_FAULT };
/* Which one the name of the file says: the same library lies there as check-NAME.so for each. */
extern enum fault broken;
#define IS(fault) (broken == (fault))
#define IS_LIVE   (broken >= LIVE)

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
