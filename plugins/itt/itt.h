/* The ITT source: a collector for programs and libraries that report to Intel's tools. Tasks, frames,
 * regions, markers, counters and metadata become ranges, moments, counters and arguments.
 *
 *   init.c       the entry point: sets the functions of each copy of ITT's static part; pausing
 *   handles.c    domains and strings, which the collector makes
 *   events.c     events from a domain, ids and a name: how they become those of the front
 *   tasks.c      tasks, markers, relations
 *   spans.c      what may end on another thread: overlapped tasks, frames, regions, user events
 *   metadata.c   arguments that are added to a task
 *   counters.c   counters
 *   syncs.c      waits for synchronization objects
 *
 * What it shares with other sources of annotations is in ../annotations.
 */
#ifndef CI_ITT_H
#define CI_ITT_H

#include "../annotations/annotations.h"
#include "abi.h"

#include <stdarg.h>

/* ---- notes in the ledger: X(NAME, 1 if events are lost, "reason", "detail") ------------------- */

#define CI_TALLY_MAP(X)                                                                            \
    X(METADATA_TYPE, 1, "metadata of unknown type", NULL)                                          \
    X(KEYS, 1, "metadata with further keys", "there are more than 1024 keys")                      \
    X(OWN_TIME, 0, "events with a time of their own",                                              \
      "they are recorded at the time of the call, whatever time they bring along")                 \
    X(FRAME_TIME, 0, "frames that were submitted later",                                           \
      "a submitted frame is recorded until the time of the call")                                  \
    X(FRAME_LOST, 1, "submitted frames without a time",                                            \
      "the begin is no result of __itt_get_timestamp")                                             \
    X(COUNTERS, 1, "samples of counters that were not kept", "there are more than 1024 counters")  \
    X(HISTOGRAMS, 0, "histograms", "they are not recorded")                                        \
    X(VERSION, 0, "libraries with an unknown version of ITT", "their calls are not recorded")

enum {
    CI_TALLY_BEFORE = CN_TALLY_FRONT_COUNT - 1,
#define CI_X(name, loss, reason, detail) CI_TALLY_##name,
    CI_TALLY_MAP(CI_X)
#undef CI_X
        CI_TALLY_COUNT
};

/* ---- init.c ---------------------------------------------------------------------------------- */

/* The program has paused the collection: __itt_pause. */
extern atomic_bool ci_paused;
/** False: events are not recorded now, but begins and ends still count. */
static inline bool ci_recording(void)
{
    return cn_recording() && !atomic_load_explicit(&ci_paused, memory_order_relaxed);
}
void ci_pause(void);
void ci_resume(void);
void ci_detach(void);

/* ---- handles.c ------------------------------------------------------------------------------- */

ci_domain *ci_domain_create(const char *name);
ci_string *ci_string_create(const char *text);
/** Number of a domain in the front; 0: NULL. */
uint32_t ci_domain_number(const ci_domain *domain);
/** The interned text of a string; NULL: it is not one of ours. */
const cn_name *ci_string_name(const ci_string *string);
/** Same, interned if it is foreign; NULL: NULL, or there are too many. */
const cn_name *ci_string_intern(const ci_string *string);

/* ---- events.c -------------------------------------------------------------------------------- */

enum { CI_MAX_VALUES = 8 };
/** An event of the front with its values, on the stack of the call. */
typedef struct ci_event {
    cn_event event;
    kineto_value values[CI_MAX_VALUES];
} ci_event;

static inline bool ci_id_is_null(ci_id id) { return !(id.d1 | id.d2 | id.d3); }
/** A number for an id; 0 only for the null id. */
static inline uint64_t ci_id_number(ci_id id)
{
    if (ci_id_is_null(id))
        return 0;
    uint64_t number = (id.d1 ^ id.d2 * UINT64_C(0x9e3779b97f4a7c15)) + id.d3;
    return number ? number : 1;
}
/** Fill an event: the domain, the ids that are not null, and the name become its parts. `other` is its
 * name if the program gave none. */
void ci_event_make(ci_event *e, uint32_t domain, ci_id id, ci_id parent, const ci_string *name,
                   const char *other);
/** Set the shape for values that the caller wrote in the order of CN_HAS_…. */
void ci_event_set_shape(ci_event *e, uint32_t flags);

/* ---- tasks.c --------------------------------------------------------------------------------- */

void ci_task_begin(const ci_domain *domain, ci_id id, ci_id parent, ci_string *name);
void ci_task_begin_fn(const ci_domain *domain, ci_id id, ci_id parent, void *function);
void ci_task_end(const ci_domain *domain);
void ci_task_begin_ex(const ci_domain *domain, void *clock, unsigned long long time, ci_id id,
                      ci_id parent, ci_string *name);
void ci_task_begin_fn_ex(const ci_domain *domain, void *clock, unsigned long long time, ci_id id,
                         ci_id parent, void *function);
void ci_task_end_ex(const ci_domain *domain, void *clock, unsigned long long time);
void ci_task_group(const ci_domain *domain, ci_id id, ci_id parent, ci_string *name);
void ci_marker(const ci_domain *domain, ci_id id, ci_string *name, int scope);
void ci_marker_ex(const ci_domain *domain, void *clock, unsigned long long time, ci_id id,
                  ci_string *name, int scope);
int ci_mark_create(const char *name);
int ci_mark(int type, const char *parameter);
/** Count events that bring a time along. */
void ci_count_own_time(const void *clock, unsigned long long time);

/* ---- spans.c --------------------------------------------------------------------------------- */

void ci_overlapped_begin(const ci_domain *domain, ci_id id, ci_id parent, ci_string *name);
void ci_overlapped_end(const ci_domain *domain, ci_id id);
void ci_overlapped_begin_ex(const ci_domain *domain, void *clock, unsigned long long time, ci_id id,
                            ci_id parent, ci_string *name);
void ci_overlapped_end_ex(const ci_domain *domain, void *clock, unsigned long long time, ci_id id);
void ci_region_begin(const ci_domain *domain, ci_id id, ci_id parent, ci_string *name);
void ci_region_end(const ci_domain *domain, ci_id id);
void ci_frame_begin(const ci_domain *domain, const ci_id *id);
void ci_frame_end(const ci_domain *domain, const ci_id *id);
void ci_frame_submit(const ci_domain *domain, const ci_id *id, unsigned long long begin,
                     unsigned long long end);
unsigned long long ci_get_timestamp(void);
void ci_old_frame_begin(ci_domain *frame);
void ci_old_frame_end(ci_domain *frame);
int ci_event_create(const char *name, int size);
int ci_event_start(int event);
int ci_event_end(int event);

/* ---- metadata.c ------------------------------------------------------------------------------ */

void ci_metadata_add(const ci_domain *domain, ci_id id, ci_string *key, int type, size_t count,
                     void *data);
void ci_metadata_text_add(const ci_domain *domain, ci_id id, ci_string *key, const char *data,
                          size_t size);
void ci_metadata_add_scoped(const ci_domain *domain, int scope, ci_string *key, int type,
                            size_t count, void *data);
void ci_metadata_text_add_scoped(const ci_domain *domain, int scope, ci_string *key,
                                 const char *data, size_t size);
void ci_metadata_format(const ci_domain *domain, ci_string *format, ...);
void ci_metadata_format_overlapped(const ci_domain *domain, ci_id id, ci_string *format, ...);
void ci_relate_current(const ci_domain *domain, int relation, ci_id tail);
void ci_relate(const ci_domain *domain, ci_id head, int relation, ci_id tail);
/** One number of a type; false: the type is unknown. */
bool ci_read_number(int type, const void *data, size_t index, kineto_value *out);
/** KINETO_ARG_… of a type; 0: it is unknown. */
uint32_t ci_type_arg(int type);

/* ---- counters.c ------------------------------------------------------------------------------ */

typedef struct ci_counter ci_counter;
ci_counter *ci_counter_create(const char *name, const char *domain);
ci_counter *ci_counter_create_typed(const char *name, const char *domain, int type);
ci_counter *ci_counter_create_v3(const ci_domain *domain, const char *name, int type);
void ci_counter_inc(ci_counter *counter);
void ci_counter_inc_delta(ci_counter *counter, unsigned long long value);
void ci_counter_dec(ci_counter *counter);
void ci_counter_dec_delta(ci_counter *counter, unsigned long long value);
void ci_counter_set(ci_counter *counter, void *value);
void ci_counter_set_ex(ci_counter *counter, void *clock, unsigned long long time, void *value);
void ci_counter_inc_v3(const ci_domain *domain, ci_string *name);
void ci_counter_inc_delta_v3(const ci_domain *domain, ci_string *name, unsigned long long value);
void ci_counter_dec_v3(const ci_domain *domain, ci_string *name);
void ci_counter_dec_delta_v3(const ci_domain *domain, ci_string *name, unsigned long long value);

/* ---- syncs.c --------------------------------------------------------------------------------- */

void ci_sync_create(void *object, const char *type, const char *name, int attribute);
void ci_sync_rename(void *object, const char *name);
void ci_sync_destroy(void *object);
void ci_sync_prepare(void *object);
void ci_sync_cancel(void *object);
void ci_sync_acquired(void *object);
#endif
