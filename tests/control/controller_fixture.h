/* A controller with a driver that only writes down what it is asked for, for the tests of the
 * controller. */
#ifndef CONTROLLER_FIXTURE_H
#define CONTROLLER_FIXTURE_H

#include "ondemand/controller/controller.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define MS         INT64_C(1000000)
#define MOST_CALLS 64u
#define HANG_NS    (INT64_C(30000) * MS) /* a test that waits so long has failed */

typedef enum call { PREPARE, ARM, STARTED, STOP, WRITE, DROP, SNAP_START, SNAP_STOP, DUMP } call;

typedef struct fake {
    pthread_mutex_t lock;
    call calls[MOST_CALLS];
    int64_t at_ns[MOST_CALLS];
    uint32_t call_count;
    int64_t start_ns, end_ns; /* as given to stop */
    int64_t block_ns[DUMP + 1];
    int fails; /* a call, or -1 */
    bool prepared, armed;
    uint32_t misuses; /* calls in an order that must not be */
    char path[KO_REQUEST_PATH_BYTES];
    ko_request_source source;
    ko_request request;
    char reason[64]; /* of the last dump */
    uint64_t steps;  /* of a host that counts itself */
    int64_t step_ns[64];
    bool hold;                /* write waits for this to end */
    const uint32_t *progress; /* prepare waits for ten more of this */
} fake;

typedef struct heard {
    uint64_t ticket;
    uint32_t stage;
    int64_t time_ns;
    char text[512], path[KO_REQUEST_PATH_BYTES], trace_id[128];
    uint64_t bytes;
} heard;

typedef struct fixture {
    fake driver;
    ko_controller *controller;
    heard notes[256];
    uint32_t note_count;
    pthread_mutex_t note_lock;
    char directory[64];
    pthread_t thread;
    bool turning, stop; /* atomic */
    uint64_t turns;     /* atomic */
} fixture;

static inline int64_t now_ns(void) { return (int64_t)kb_clock_ns(CLOCK_REALTIME); }

static inline void pause_ns(int64_t ns)
{
    struct timespec t = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    nanosleep(&t, NULL);
}

/* ---- the driver ---------------------------------------------------------------------------------- */

static inline kineto_status called(fake *f, call what, kineto_error *err)
{
    pthread_mutex_lock(&f->lock);
    if (f->call_count < MOST_CALLS) {
        f->calls[f->call_count] = what;
        f->at_ns[f->call_count++] = now_ns();
    }
    int64_t block_ns = f->block_ns[what];
    bool fails = f->fails == (int)what;
    pthread_mutex_unlock(&f->lock);
    if (block_ns > 0)
        pause_ns(block_ns);
    return fails ? kb_fail(err, KINETO_E_IO, "call %d fails", (int)what) : KINETO_OK;
}

static inline void must(fake *f, bool that)
{
    if (!that)
        kb_add_relaxed(&f->misuses, 1);
}

static inline kineto_status fake_prepare(void *context, const ko_request *request,
                                         kineto_error *err)
{
    fake *f = context;
    must(f, !f->prepared);
    f->prepared = true;
    f->request = *request;
    if (f->progress) {
        uint32_t enough = kb_load_acquire(f->progress) + 10;
        for (int64_t until_ns = now_ns() + HANG_NS; kb_load_acquire(f->progress) < enough;)
            if (now_ns() > until_ns)
                return kb_fail(err, KINETO_E_BUSY, "the awaited thread does not continue");
            else
                pause_ns(MS);
    }
    return called(f, PREPARE, err);
}

static inline kineto_status fake_arm(void *context, kineto_error *err)
{
    fake *f = context;
    must(f, f->prepared && !f->armed);
    f->armed = true;
    return called(f, ARM, err);
}

static inline void fake_started(void *context, int64_t start_ns)
{
    fake *f = context;
    (void)start_ns;
    (void)called(f, STARTED, NULL);
}

static inline kineto_status fake_stop(void *context, int64_t start_ns, int64_t end_ns,
                                      kineto_error *err)
{
    fake *f = context;
    must(f, f->armed && end_ns >= start_ns);
    f->armed = f->prepared = false;
    f->start_ns = start_ns;
    f->end_ns = end_ns;
    return called(f, STOP, err);
}

static inline kineto_status fake_write(void *context, const ko_request *request,
                                       ko_request_source source, const char *path, uint64_t *bytes,
                                       kineto_error *err)
{
    fake *f = context;
    kineto_status status = called(f, WRITE, err);
    while (kb_load_acquire(&f->hold))
        pause_ns(MS);
    pthread_mutex_lock(&f->lock);
    f->request = *request;
    f->source = source;
    snprintf(f->path, sizeof f->path, "%s", path);
    pthread_mutex_unlock(&f->lock);
    *bytes = 1234;
    return status;
}

static inline void fake_drop(void *context)
{
    fake *f = context;
    f->armed = f->prepared = false;
    (void)called(f, DROP, NULL);
}

static inline kineto_status fake_snapshot_start(void *context, const ko_request *request,
                                                kineto_error *err)
{
    (void)request;
    return called(context, SNAP_START, err);
}

static inline kineto_status fake_snapshot_stop(void *context, const ko_request *request,
                                               ko_request_source source, const char *path,
                                               uint64_t *bytes, kineto_error *err)
{
    (void)request;
    (void)source;
    (void)path;
    *bytes = 99;
    return called(context, SNAP_STOP, err);
}

static inline kineto_status fake_dump(void *context, ko_request_source source, const char *path,
                                      const char *reason, uint64_t *bytes, kineto_error *err)
{
    (void)source;
    (void)path;
    snprintf(((fake *)context)->reason, sizeof((fake *)context)->reason, "%s", reason);
    *bytes = 77;
    kineto_status status = called(context, DUMP, err);
    while (kb_load_acquire(&((fake *)context)->hold))
        pause_ns(MS);
    return status;
}

static inline uint64_t fake_steps(void *context, int64_t times_ns[64])
{
    fake *f = context;
    pthread_mutex_lock(&f->lock);
    uint64_t count = f->steps;
    memcpy(times_ns, f->step_ns, sizeof f->step_ns);
    pthread_mutex_unlock(&f->lock);
    return count;
}

/* ---- what watchers hear -------------------------------------------------------------------------- */

static inline void hear(void *context, const ko_stage_note *note)
{
    fixture *f = context;
    pthread_mutex_lock(&f->note_lock);
    if (f->note_count < KB_COUNT(f->notes)) {
        heard *h = &f->notes[f->note_count++];
        h->ticket = note->ticket;
        h->stage = note->stage;
        h->time_ns = note->time_ns;
        h->bytes = note->bytes;
        snprintf(h->text, sizeof h->text, "%s", note->text);
        snprintf(h->path, sizeof h->path, "%s", note->path);
        snprintf(h->trace_id, sizeof h->trace_id, "%s", note->trace_id);
    }
    pthread_mutex_unlock(&f->note_lock);
}

/* What was said of a ticket; false: not that (yet). */
static inline bool find_note(fixture *f, uint64_t ticket, ko_stage stage, heard *out)
{
    bool found = false;
    pthread_mutex_lock(&f->note_lock);
    for (uint32_t i = 0; i < f->note_count && !found; i++) {
        found = f->notes[i].ticket == ticket && f->notes[i].stage == (uint32_t)stage;
        if (found && out)
            *out = f->notes[i];
    }
    pthread_mutex_unlock(&f->note_lock);
    return found;
}

static inline heard wait_note(fixture *f, uint64_t ticket, ko_stage stage)
{
    heard h = {0};
    int64_t until_ns = now_ns() + HANG_NS;
    while (!find_note(f, ticket, stage, &h)) {
        assert_true(now_ns() < until_ns);
        if (f->turning)
            pause_ns(MS / 4);
        else
            ko_controller_turn(f->controller, MS);
    }
    return h;
}

/* The stages of a ticket, as letters. */
static inline const char *stages_of(fixture *f, uint64_t ticket, char out[32])
{
    uint32_t n = 0;
    pthread_mutex_lock(&f->note_lock);
    for (uint32_t i = 0; i < f->note_count && n < 31; i++)
        if (f->notes[i].ticket == ticket)
            out[n++] = "ARWCPwfc"[f->notes[i].stage];
    pthread_mutex_unlock(&f->note_lock);
    out[n] = '\0';
    return out;
}

static inline uint32_t count_calls(fake *f, call what)
{
    uint32_t n = 0;
    pthread_mutex_lock(&f->lock);
    for (uint32_t i = 0; i < f->call_count; i++)
        n += f->calls[i] == what;
    pthread_mutex_unlock(&f->lock);
    return n;
}

/* ---- the controller ------------------------------------------------------------------------------ */

static inline ko_driver fake_driver(fake *f)
{
    pthread_mutex_init(&f->lock, NULL);
    f->fails = -1;
    return (ko_driver){.context = f,
                       .prepare = fake_prepare,
                       .arm = fake_arm,
                       .started = fake_started,
                       .stop = fake_stop,
                       .write = fake_write,
                       .drop = fake_drop,
                       .snapshot_start = fake_snapshot_start,
                       .snapshot_stop = fake_snapshot_stop,
                       .dump = fake_dump};
}

static inline void fixture_make(fixture *f, const ko_driver *driver)
{
    ko_controller_options options = {.pid = 4321, .host = "process", .ring = true};
    kineto_error err;
    pthread_mutex_init(&f->note_lock, NULL);
    snprintf(f->directory, sizeof f->directory, "/tmp/ckineto-controller-XXXXXX");
    assert_non_null(mkdtemp(f->directory));
    setenv("KINETO_ONDEMAND_TRACE_DIR", f->directory, 1);
    setenv("KINETO_CONFIG", "/nonexistent/kineto.conf", 0);
    if (ko_controller_create(&options, driver, &f->controller, &err) != KINETO_OK)
        fail_msg("%s", err.message);
    assert_true(ko_controller_watch(f->controller, hear, f));
}

static inline fixture *fixture_new(void)
{
    fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    ko_driver d = fake_driver(&f->driver);
    fixture_make(f, &d);
    return f;
}

static inline void *turn_on(void *argument)
{
    fixture *f = argument;
    while (!kb_load_acquire(&f->stop)) {
        ko_controller_turn(f->controller, -1);
        kb_add_relaxed(&f->turns, 1);
    }
    return NULL;
}

static inline void fixture_turn(fixture *f)
{
    f->turning = true;
    assert_int_equal(pthread_create(&f->thread, NULL, turn_on, f), 0);
}

static inline void fixture_stop(fixture *f)
{
    if (!f->turning)
        return;
    kb_store_release(&f->stop, true);
    ko_controller_wake(f->controller);
    pthread_join(f->thread, NULL);
    f->turning = f->stop = false;
}

static inline void fixture_end(fixture *f)
{
    fixture_stop(f);
    ko_controller_destroy(f->controller);
    assert_int_equal(f->driver.misuses, 0);
    rmdir(f->directory);
    free(f);
}

static inline uint64_t ask(fixture *f, const char *text)
{
    uint64_t ticket = 0;
    kineto_error err;
    if (ko_controller_request(f->controller, kb_string(text), KO_FROM_REQUEST, &ticket, &err))
        fail_msg("%s", err.message);
    return ticket;
}

static inline kineto_status ask_in_vain(fixture *f, const char *text, kineto_error *err)
{
    uint64_t ticket;
    kineto_status status =
        ko_controller_request(f->controller, kb_string(text), KO_FROM_REQUEST, &ticket, err);
    assert_int_not_equal(status, KINETO_OK);
    heard h;
    assert_true(find_note(f, ticket, KO_STAGE_REFUSED, &h));
    assert_string_equal(h.text, err->message);
    return status;
}

static inline ko_controller_status status_of(fixture *f)
{
    ko_controller_status s;
    ko_controller_get_status(f->controller, &s);
    return s;
}

#endif
