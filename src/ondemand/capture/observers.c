/* The program's observers of stages, and the stage log. The table of observers is guarded by the
 * lock of callback_calls.h, which is released while an observer runs. */
#include "ondemand/capture/observers.h"

#include "ondemand/support/callback_calls.h"

#include <ckineto/control.h>
#include <ckineto/record.h>

enum { MAX_OBSERVERS = 8 };

/* A slot is free if it has no observer, and no call to its former observer is in progress. */
typedef struct observer {
    kineto_stage_observer call;
    void *user;
} observer;

static observer table[MAX_OBSERVERS];

#define KINETO_X(name, value)                                                                      \
    _Static_assert((int)KO_STAGE_##name == (value), "public stages are those of the controller");
KINETO_STAGE_MAP(KINETO_X)
#undef KINETO_X

const char *kineto_stage_name(kineto_stage stage) { return ko_stage_name((uint32_t)stage); }

/* ---- the program's --------------------------------------------------------------------------- */

static observer *find_free_observer(void)
{
    for (size_t i = 0; i < MAX_OBSERVERS; i++)
        if (!table[i].call && !ko_calls_any(&table[i]))
            return &table[i];
    return NULL;
}

kineto_status kineto_control_add_observer(kineto_stage_observer call, void *user, kineto_error *err)
{
    if (!call)
        return kb_fail_null(err, __func__, "observer", NULL);
    ko_calls_lock();
    observer *place = find_free_observer();
    if (place)
        *place = (observer){call, user};
    ko_calls_unlock();
    return place ? KINETO_OK
                 : kb_fail(err, KINETO_E_LIMIT, "%d observers are registered already; remove one",
                           MAX_OBSERVERS);
}

/* With the lock. NULL: not registered. */
static observer *find_observer(kineto_stage_observer call, const void *user)
{
    for (size_t i = 0; i < MAX_OBSERVERS; i++)
        if (table[i].call == call && table[i].user == user)
            return &table[i];
    return NULL;
}

void kineto_control_remove_observer(kineto_stage_observer call, void *user)
{
    if (!call)
        return;
    ko_calls_lock();
    observer *place = find_observer(call, user);
    if (place) {
        KB_ASSERT(place->call == call && place->user == user);
        place->call = NULL;
        ko_calls_wait(place);
    }
    ko_calls_unlock();
}

static const char *text_or_empty(const char *text) { return text ? text : ""; }

/* The public form of a note; its texts are borrowed from the note. */
static kineto_stage_event make_stage_event(const ko_stage_note *note)
{
    bool has_path = note->stage == KO_STAGE_ACCEPTED || note->stage == KO_STAGE_WRITTEN;
    return (kineto_stage_event){.size = sizeof(kineto_stage_event),
                                .ticket = note->ticket,
                                .stage = (kineto_stage)note->stage,
                                .time_ns = note->time_ns,
                                .trace_id = text_or_empty(note->trace_id),
                                .group_trace_id = text_or_empty(note->group_id),
                                .text = text_or_empty(note->text),
                                .path = has_path ? text_or_empty(note->path) : "",
                                .bytes = note->stage == KO_STAGE_WRITTEN ? note->bytes : 0};
}

void ko_observers_watch(void *context, const ko_stage_note *note)
{
    (void)context;
    kineto_stage_event event = make_stage_event(note);
    for (size_t i = 0; i < MAX_OBSERVERS; i++) {
        ko_call call;
        ko_calls_lock();
        observer o = table[i];
        if (o.call)
            ko_calls_begin(&call, &table[i]);
        ko_calls_unlock();
        if (!o.call)
            continue;
        o.call(&event, o.user);
        ko_calls_end(&call);
    }
}

/* ---- the log --------------------------------------------------------------------------------- */

typedef struct line {
    char s[768];
} line;

/* " (trace id 7, group 3)", or nothing. */
static line format_ids(const kineto_stage_event *e)
{
    line l;
    bool trace = e->trace_id[0], group = e->group_trace_id[0];
    snprintf(l.s, sizeof l.s, "%s%s%s%s%s%s", trace || group ? " (" : "", trace ? "trace id " : "",
             e->trace_id, group ? (trace ? ", group " : "group ") : "", e->group_trace_id,
             trace || group ? ")" : "");
    return l;
}

/* Path, size and text of a stage. */
static line format_detail(const kineto_stage_event *e)
{
    line l = {""};
    if (e->stage == KINETO_STAGE_WRITTEN && e->bytes > 0)
        snprintf(l.s, sizeof l.s, " %.500s, %llu bytes", e->path, (unsigned long long)e->bytes);
    else if (e->path[0])
        snprintf(l.s, sizeof l.s, " %.500s", e->path);
    size_t used = strlen(l.s);
    if (e->text[0])
        snprintf(l.s + used, sizeof l.s - used, ": %s", e->text);
    return l;
}

void ko_log_watch(void *context, const ko_stage_note *note)
{
    (void)context;
    if (!kb_log_enabled(KINETO_LOG_STAGE))
        return;
    kineto_stage_event e = make_stage_event(note);
    kb_log(KINETO_LOG_STAGE, "on-demand tracing: request %llu%s: %s%s",
           (unsigned long long)e.ticket, format_ids(&e).s, ko_stage_name(note->stage),
           format_detail(&e).s);
}

/* ---- violated invariants --------------------------------------------------------------------- */

static uint64_t violations;

void ko_report_violation(const char *what)
{
    (void)kb_add_relaxed(&violations, UINT64_C(1));
    kb_log(KINETO_LOG_ERROR,
           "on-demand tracing: %s; this is a bug in the library, please report it", what);
    (void)kineto_ledger_add("control", "invariant violated", 1, false, what);
}

uint64_t ko_violation_count(void) { return kb_load_relaxed(&violations); }
