/* What the plug-ins for vendors' GPUs (plugins/cuda, plugins/rocm) share: threads of their own, lines
 * of the ledger, the thread of a sampler, values of activities, and the user's options. Each plug-in is
 * built with its own copy. */
#ifndef PLUGINS_SUPPORT_H
#define PLUGINS_SUPPORT_H

#include <ckineto/plugin.h>

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define CP_COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define CP_TEXT_BYTES   320 /* a message for the user, with its NUL */

/* ---- threads.c, ledger.c, loaded_library.c ------------------------------------------------------------------- */

/** Start a thread that handles none of the program's signals; `name` has up to 15 bytes. @return 0
 * or an errno. */
int cp_thread_start(pthread_t *thread, const char *name, void *(*run)(void *), void *argument);
/** Initialise a condition that waits by cp_monotonic_ns, a clock that cannot be set. */
void cp_condition_init(pthread_cond_t *condition);
/** @return ETIMEDOUT if `until_ns` has passed. */
int cp_condition_wait(pthread_cond_t *condition, pthread_mutex_t *mutex, int64_t until_ns);
int64_t cp_monotonic_ns(void);

/** Write a line of the ledger, if the host has one. */
__attribute__((format(printf, 5, 6))) void cp_note(const KinetoPlugin_TraceBuilder *builder,
                                                   const char *reason, uint64_t count, bool is_loss,
                                                   const char *format, ...);
/** A reason of a source's own, for records that became no activity or an incomplete one. */
typedef struct cp_reason {
    const char *text; /* NULL: the host reports it */
    bool is_loss;     /* and it is not counted elsewhere */
} cp_reason;
/** Write a line for each reason that was counted. */
void cp_note_counts(const KinetoPlugin_TraceBuilder *builder, const cp_reason *reasons,
                    const uint64_t *counts, size_t count);

/** Open the library whose file is `stem`, ".so" and any version, if the program has loaded it from any folder; else NULL.
 *  The caller closes it. */
void *cp_open_loaded(const char *stem);

/* ---- ticker.c -------------------------------------------------------------------------------- */

/* A thread that calls `tick` at a fixed rate. It handles no signals and ends at once when it is
 * stopped. A forked child does not have the thread and finds the ticker stopped. */
typedef struct cp_ticker {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool ending;
    /* Process that has the thread; 0: none. */
    pid_t owner;
    int64_t interval_ns;
    /* Ticks that were skipped because the one before took too long. */
    uint64_t skipped;
    void (*tick)(void);
} cp_ticker;

/** The first tick comes at once. `name` is the thread's, up to 15 bytes. */
bool cp_ticker_start(cp_ticker *t, const char *name, int64_t interval_ns, void (*tick)(void),
                     char why[CP_TEXT_BYTES]);
/** Stop and wait for the thread. False: it was not running in this process. */
bool cp_ticker_stop(cp_ticker *t);
/** True if the thread runs in this process. */
bool cp_ticker_runs(const cp_ticker *t);

/** True if the host supports counters. */
bool cp_check_counters(const KinetoPlugin_TraceBuilder *builder, char why[CP_TEXT_BYTES]);
/** The moment halfway between two readings of the host's clock. */
static inline int64_t cp_midpoint(uint64_t before, uint64_t after)
{
    return (int64_t)(before + (after - before) / 2);
}

/* ---- options.c ------------------------------------------------------------------------------- */

/** An option by name; `wanted` completes the message about an invalid value. */
typedef struct cp_option {
    const char *name;
    bool (*set)(void *options, const char *value);
    const char *wanted;
} cp_option;
/** The options of one plug-in, whose names begin with `prefix` ("cuda."). */
typedef struct cp_option_table {
    const char *prefix;
    const cp_option *list;
    size_t count;
} cp_option_table;
/** Parse a text for all plug-ins, "cuda.memory=on rocm.hsa=on"; words with another prefix are skipped.
 * False: `why` has the valid names or values. */
bool cp_parse_options(const char *text, const cp_option_table *table, void *options,
                      char why[CP_TEXT_BYTES]);
/** A number with an optional unit (KiB, MiB, GiB), up to `limit`. False: malformed or too large. */
bool cp_parse_number(const char *value, uint64_t limit, uint64_t *out);
/** "1", "on", "yes" or "0", "off", "no". False: another word. */
bool cp_parse_switch(const char *value, bool *out);

/* ---- values of one activity ------------------------------------------------------------------ */
#define CP_MAX_VALUES 24
typedef struct cp_values {
    KinetoPlugin_Metadata items[CP_MAX_VALUES];
    uint32_t count;
} cp_values;
static inline KinetoPlugin_Metadata *cp_value(cp_values *v, const char *key, int32_t type)
{
    KinetoPlugin_Metadata *item = &v->items[v->count++];
    *item = (KinetoPlugin_Metadata){.pKey = key, .valueType = type, .count = 1};
    return item;
}
static inline void cp_value_int(cp_values *v, const char *key, int64_t value)
{
    cp_value(v, key, KINETO_PLUGIN_VALUE_INT)->i = value;
}
static inline void cp_value_uint(cp_values *v, const char *key, uint64_t value)
{
    cp_value(v, key, KINETO_PLUGIN_VALUE_UINT)->u = value;
}
static inline void cp_value_double(cp_values *v, const char *key, double value)
{
    cp_value(v, key, KINETO_PLUGIN_VALUE_DOUBLE)->d = value;
}
static inline void cp_value_bytes(cp_values *v, const char *key, int32_t type, const void *data,
                                  size_t count)
{
    KinetoPlugin_Metadata *item = cp_value(v, key, type);
    item->pointer = data;
    item->count = (uint32_t)count;
}

#endif
