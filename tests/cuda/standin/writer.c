/* Records into buffers that the tool gives, and the thread that hands them back. */
#include "standin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* One for all threads, and one of each thread where the tool has asked for that. */
typedef struct writer {
    pthread_mutex_t lock;
    uint8_t *buffer;
    size_t size, used, max_records;
    struct extent *extent;
    uint64_t since_ns;
    struct writer *next;
} writer;

/* Where the records of a buffer begin: GetNextRecord tells it, whatever their kinds are. */
typedef struct extent {
    uint8_t *buffer;
    uint32_t *offsets;
    size_t count, room;
    struct extent *next;
} extent;

typedef struct filled {
    uint8_t *buffer;
    size_t size, valid;
    struct filled *next;
} filled;

static writer common = {.lock = PTHREAD_MUTEX_INITIALIZER};
static _Thread_local writer *own;
static pthread_key_t own_key;
static pthread_once_t key_once = PTHREAD_ONCE_INIT;

/* Guarded by si_lock. */
static writer *writers, *forgotten; /* the latter of threads that do not exist after a fork */
static extent *extents;
static filled *first_filled, *last_filled;
static uint64_t sealed, handed_back;
static size_t dropped;
static bool thread_runs;
static uint64_t buffer_number;
static pthread_cond_t more = PTHREAD_COND_INITIALIZER, settled = PTHREAD_COND_INITIALIZER;

static _Atomic(si_request) request_buffer;
static _Atomic(si_complete) complete_buffer;
static atomic_bool per_thread;
static atomic_bool kinds[128];
static _Thread_local bool is_worker;

void si_writer_callbacks(si_request request, si_complete complete)
{
    request_buffer = request;
    complete_buffer = complete;
}

bool si_writer_has_callbacks(void) { return request_buffer && complete_buffer; }
void si_writer_per_thread(bool on) { per_thread = on; }
bool si_kind_on(uint32_t kind) { return kind < SI_COUNT(kinds) && kinds[kind]; }

void si_kind_set(uint32_t kind, bool on)
{
    if (kind < SI_COUNT(kinds))
        kinds[kind] = on;
}

void si_kinds_off(void)
{
    for (size_t i = 0; i < SI_COUNT(kinds); i++)
        kinds[i] = false;
}

void si_drop(uint32_t count)
{
    pthread_mutex_lock(&si_lock);
    dropped += count;
    pthread_mutex_unlock(&si_lock);
}

size_t si_take_dropped(void)
{
    pthread_mutex_lock(&si_lock);
    size_t n = dropped;
    dropped = 0;
    pthread_mutex_unlock(&si_lock);
    return n;
}

/* ---- the thread ----------------------------------------------------------------------------- */

static filled *take_filled(void)
{
    filled *f = first_filled;
    if (f)
        first_filled = f->next;
    if (!first_filled)
        last_filled = NULL;
    return f;
}

/* With si_lock; lets go of it meanwhile. */
static void hand_back(filled *f)
{
    si_complete complete = complete_buffer;
    pthread_mutex_unlock(&si_lock);
    if (si_plan.options.complete_slow_us)
        usleep(si_plan.options.complete_slow_us);
    if (complete)
        complete(NULL, 0, f->buffer, f->size, f->valid);
    free(f);
    pthread_mutex_lock(&si_lock);
    handed_back++;
    pthread_cond_broadcast(&settled);
}

static void seal_old(void)
{
    uint64_t since_ns;
    if (!si_plan.options.hand_back_us)
        return;
    pthread_mutex_lock(&common.lock);
    since_ns = common.buffer && common.used ? common.since_ns : UINT64_MAX;
    pthread_mutex_unlock(&common.lock);
    if (since_ns != UINT64_MAX &&
        si_now_ns() - since_ns > UINT64_C(1000) * si_plan.options.hand_back_us)
        si_writer_seal();
}

static void wait_for_more(void)
{
    uint64_t now = si_now_ns(), next = si_work_next_ns(), wait = 20000000;
    struct timespec until;
    if (next != UINT64_MAX)
        wait = next <= now ? 0 : next - now < wait ? next - now : wait;
    pthread_mutex_lock(&si_lock);
    if (!first_filled && wait) {
        clock_gettime(CLOCK_REALTIME, &until);
        wait += (uint64_t)until.tv_nsec + 1000;
        until.tv_sec += (time_t)(wait / 1000000000);
        until.tv_nsec = (long)(wait % 1000000000);
        pthread_cond_timedwait(&more, &si_lock, &until);
    }
    for (filled *f; (f = take_filled());)
        hand_back(f);
    pthread_mutex_unlock(&si_lock);
}

static void *work(void *unused)
{
    (void)unused;
    is_worker = true;
    for (;;) {
        si_work_collect();
        seal_old();
        wait_for_more();
    }
    return NULL;
}

/* With si_lock. */
static void start_thread(void)
{
    pthread_t thread;
    pthread_attr_t attributes;
    if (thread_runs)
        return;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    thread_runs = pthread_create(&thread, &attributes, work, NULL) == 0;
    pthread_attr_destroy(&attributes);
}

void si_writer_settle(void)
{
    if (is_worker)
        return;
    pthread_mutex_lock(&si_lock);
    uint64_t wanted = sealed;
    start_thread();
    pthread_cond_signal(&more);
    while (thread_runs && handed_back < wanted)
        pthread_cond_wait(&settled, &si_lock);
    pthread_mutex_unlock(&si_lock);
}

void si_writer_after_fork(void)
{
    pthread_mutex_init(&common.lock, NULL);
    pthread_cond_init(&more, NULL);
    pthread_cond_init(&settled, NULL);
    thread_runs = false;
    forgotten = writers;
    writers = NULL;
    own = NULL;
}

/* ---- where records are ---------------------------------------------------------------------- */

/* With si_lock. */
static extent *find_extent(const uint8_t *buffer)
{
    extent *e = extents;
    while (e && e->buffer != buffer)
        e = e->next;
    return e;
}

static extent *fresh_extent(uint8_t *buffer)
{
    pthread_mutex_lock(&si_lock);
    extent *e = find_extent(buffer);
    if (!e) {
        e = calloc(1, sizeof *e);
        if (!e)
            abort();
        e->buffer = buffer;
        e->next = extents;
        extents = e;
    }
    e->count = 0;
    pthread_mutex_unlock(&si_lock);
    return e;
}

static void note_record(extent *e, size_t offset)
{
    if (e->count == e->room) {
        e->room = e->room ? e->room * 2 : 256;
        e->offsets = realloc(e->offsets, e->room * sizeof *e->offsets);
        if (!e->offsets)
            abort();
    }
    e->offsets[e->count++] = (uint32_t)offset;
}

/* Buffers that are not ours: as CUPTI of the version lays them out. */
static bool next_by_kind(uint8_t *buffer, size_t valid, uint8_t **record)
{
    size_t at = 0;
    uint32_t kind;
    if (*record) {
        memcpy(&kind, *record, sizeof kind);
        const si_layout *layout = si_layout_for(kind, si_plan.options.version);
        at = layout ? (size_t)(*record - buffer) + layout->size : valid;
    }
    *record = buffer + at;
    return at + sizeof kind <= valid;
}

static size_t place_of(const extent *e, size_t offset)
{
    size_t low = 0, high = e->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (e->offsets[middle] < offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool si_next_record(uint8_t *buffer, size_t valid, uint8_t **record)
{
    pthread_mutex_lock(&si_lock);
    const extent *e = find_extent(buffer);
    pthread_mutex_unlock(&si_lock);
    if (!e)
        return next_by_kind(buffer, valid, record);
    size_t i = *record ? place_of(e, (size_t)(*record - buffer)) + 1 : 0;
    if (i >= e->count || e->offsets[i] >= valid)
        return false;
    *record = buffer + e->offsets[i];
    return true;
}

/* ---- writing: with the writer's lock -------------------------------------------------------- */

static void seal(writer *w, bool empty_too)
{
    if (!w->buffer || (!w->used && !empty_too))
        return;
    filled *f = malloc(sizeof *f);
    if (!f)
        abort();
    *f = (filled){.buffer = w->buffer, .size = w->size, .valid = w->used};
    w->buffer = NULL;
    pthread_mutex_lock(&si_lock);
    if (last_filled)
        last_filled->next = f;
    else
        first_filled = f;
    last_filled = f;
    sealed++;
    start_thread();
    pthread_cond_signal(&more);
    pthread_mutex_unlock(&si_lock);
}

/* Every n-th buffer comes back without a record, if the script wants that. */
static bool must_be_empty(void)
{
    pthread_mutex_lock(&si_lock);
    uint64_t n = ++buffer_number;
    pthread_mutex_unlock(&si_lock);
    return si_plan.options.empty_every && n % si_plan.options.empty_every == 0;
}

static bool ask(writer *w)
{
    si_request request = request_buffer;
    w->buffer = NULL;
    w->size = w->used = w->max_records = 0;
    if (request)
        request(&w->buffer, &w->size, &w->max_records);
    if (!w->buffer && request && si_plan.options.version < 27) {
        fputs("standin: CUPTI before CUDA 12.9 can crash without a buffer\n", stderr);
        abort();
    }
    if (!w->buffer)
        return false;
    w->extent = fresh_extent(w->buffer);
    w->since_ns = si_now_ns();
    return true;
}

static bool has_room(const writer *w, uint32_t size)
{
    uint32_t fill = si_plan.options.fill;
    return w->buffer && w->used + size <= w->size && (!fill || w->extent->count < fill) &&
           (!w->max_records || w->extent->count < w->max_records);
}

static void write_to(writer *w, const void *record, uint32_t size)
{
    pthread_mutex_lock(&w->lock);
    if (w->buffer && !has_room(w, size))
        seal(w, false);
    if (!w->buffer && ask(w) && must_be_empty()) {
        seal(w, true);
        ask(w);
    }
    if (has_room(w, size)) {
        note_record(w->extent, w->used);
        memcpy(w->buffer + w->used, record, size);
        w->used += (size + 7) & ~(size_t)7;
    } else {
        si_drop(1);
    }
    pthread_mutex_unlock(&w->lock);
}

/* A thread that ends leaves its buffer to be handed back. */
static void thread_ends(void *of_thread)
{
    writer *w = of_thread;
    if (si_is_lost())
        return;
    pthread_mutex_lock(&w->lock);
    seal(w, false);
    pthread_mutex_unlock(&w->lock);
}

static void make_key(void) { pthread_key_create(&own_key, thread_ends); }

static writer *own_writer(void)
{
    if (own)
        return own;
    own = calloc(1, sizeof *own);
    if (!own)
        abort();
    pthread_mutex_init(&own->lock, NULL);
    pthread_once(&key_once, make_key);
    pthread_setspecific(own_key, own);
    pthread_mutex_lock(&si_lock);
    own->next = writers;
    writers = own;
    pthread_mutex_unlock(&si_lock);
    return own;
}

void si_write(const void *record, uint32_t size, bool of_thread)
{
    write_to(of_thread && per_thread ? own_writer() : &common, record, size);
}

static void seal_all(bool empty_too)
{
    pthread_mutex_lock(&si_lock);
    writer *w = writers; /* others are only put in front */
    start_thread();
    pthread_mutex_unlock(&si_lock);
    pthread_mutex_lock(&common.lock);
    if (empty_too && !common.buffer)
        ask(&common);
    seal(&common, empty_too);
    pthread_mutex_unlock(&common.lock);
    for (; w; w = w->next) {
        pthread_mutex_lock(&w->lock);
        seal(w, false);
        pthread_mutex_unlock(&w->lock);
    }
}

void si_writer_seal(void) { seal_all(false); }
void si_writer_seal_empty(void) { seal_all(true); }
