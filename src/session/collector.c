/* The collector: owns the pool of a recording, copies full chunks out to the spool, takes the clock
 * snapshots, and builds the trace in the end. It never makes a recorded program wait: what it
 * cannot copy stays in the pool, and writers that find no room drop and count.
 */
#include "session/session.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define MILLISECOND        UINT64_C(1000000)
#define MIN_INTERVAL_NS    (MILLISECOND / 5)
#define MAX_INTERVAL_NS    (10 * MILLISECOND)
#define SCAN_INTERVAL_NS   (100 * MILLISECOND)
#define SECOND_INTERVAL_NS (1000 * MILLISECOND)
#define BATCH              64u

struct ks_collector {
    ks_collector_options options;
    kf_pool pool;
    ks_spool *spool;
    uint32_t window;
    uint64_t start_ticks, end_ticks;
    uint32_t dictionary_at; /* words that are in the spool */
    bool dictionary_holes;  /* stepped over entries that were not committed */
    uint64_t dictionary_stuck_ns;
    kb_map start_times; /* of attached processes, by pid */
    uint64_t interval_ns, next_scan_ns, next_second_ns, spool_retry_ns;
    uint64_t kept_bytes, spool_failures;
    uint32_t in_use; /* chunks, at the last look */
    ks_children *children;
    char spool_error[256];
    char pool_path[KS_PATH_BYTES], spool_path[KS_PATH_BYTES];
};

static uint64_t now_ns(void) { return kb_clock_ns(CLOCK_MONOTONIC); }

/* ---- ledger and header entries ------------------------------------------------------------------- */

void ks_pool_note(const kf_pool *pool, const char *source, const char *reason, uint64_t count,
                  bool is_loss, const char *detail)
{
    kf_ledger_entry entry = {0, is_loss, count};
    uint32_t sizes[3] = {(uint32_t)strlen(source), (uint32_t)strlen(reason),
                         (uint32_t)strlen(detail)};
    kf_part parts[] = {{&entry, sizeof entry}, {&sizes[0], sizeof sizes[0]},
                       {source, sizes[0]},     {&sizes[1], sizeof sizes[1]},
                       {reason, sizes[1]},     {&sizes[2], sizeof sizes[2]},
                       {detail, sizes[2]}};
    if (!kf_dictionary_add(pool, KF_ENTRY_LEDGER, parts, KB_COUNT(parts)))
        kb_log(KINETO_LOG_WARNING, "%s: %s: %llu (%s)", source, reason, (unsigned long long)count,
               detail);
}

void ks_pool_metadata(const kf_pool *pool, const char *key, const char *json_value)
{
    uint32_t process = 0, key_bytes = (uint32_t)strlen(key), bytes = (uint32_t)strlen(json_value);
    kf_part parts[] = {{&process, sizeof process},
                       {&key_bytes, sizeof key_bytes},
                       {key, key_bytes},
                       {&bytes, sizeof bytes},
                       {json_value, bytes}};
    (void)kf_dictionary_add(pool, KF_ENTRY_META, parts, KB_COUNT(parts));
}

void ks_collector_note(ks_collector *c, const char *source, const char *reason, uint64_t count,
                       bool is_loss, const char *detail)
{
    ks_pool_note(&c->pool, source, reason, count, is_loss, detail);
}

void ks_collector_metadata(ks_collector *c, const char *key, const char *json_value)
{
    ks_pool_metadata(&c->pool, key, json_value);
}

/* Events in words that will not be in the trace, by source. */
static void count_lost(void *context, const uint64_t *words, uint32_t count, kf_reason reason)
{
    const kf_pool *pool = context;
    const uint32_t events = 1u << KF_BEGIN | 1u << KF_INSTANT | 1u << KF_ASYNC_BEGIN |
                            1u << KF_COUNTER | 1u << KF_MEMORY | 1u << KF_DEVICE;
    for (uint32_t at = 0; at < count;) {
        uint32_t type = kf_header_type(words[at]), n = kf_header_words(words[at]);
        if (type == KF_NONE || n == 0 || n > count - at)
            break;
        uint32_t source = type == KF_DEVICE && n > 5 ? (uint32_t)(words[at + 5] >> 48 & 0xff) : 0;
        if (type < KF_TYPE_COUNT && (events >> type & 1))
            kb_add_relaxed(&pool->control->counters[source % KF_MAX_SOURCES][reason], 1);
        at += n;
    }
}

static void count_evicted(void *context, const uint64_t *words, uint32_t count)
{
    count_lost(context, words, count, KF_REASON_EVICTED);
}

/* ---- making one ---------------------------------------------------------------------------------- */

/* Beside the output, hidden: the file system that is to take the trace has room for it. */
static kineto_status spool_name(const char *output, char path[KS_PATH_BYTES], kineto_error *err)
{
    const char *slash = strrchr(output, '/');
    int directory = slash ? (int)(slash - output + 1) : 0;
    char relative[KS_PATH_BYTES], here[KS_PATH_BYTES] = "";
    int n = snprintf(relative, sizeof relative, "%.*s.%s.ckspool-%u", directory, output,
                     slash ? slash + 1 : output, kb_os_pid());
    if (relative[0] != '/' && !getcwd(here, sizeof here))
        return kb_fail_os(err, errno, "cannot tell the current directory");
    int m = snprintf(path, KS_PATH_BYTES, "%s%s%s", here, here[0] ? "/" : "", relative);
    if (n < 0 || m < 0 || (size_t)n >= sizeof relative || (size_t)m >= KS_PATH_BYTES)
        return kb_fail(err, KINETO_E_ARGUMENT, "'%s': the path is too long", output);
    return KINETO_OK;
}

static void fill_control(ks_collector *c)
{
    kf_control *control = c->pool.control;
    const char *output = c->options.output_path;
    control->external = 1;
    control->collector_pid = kb_os_pid();
    control->collector_start_time = kb_os_start_time(control->collector_pid);
    control->full_policy = KF_FULL_DROP;
    snprintf(control->spool_path, sizeof control->spool_path, "%s", c->spool_path);
    char *absolute = output[0] == '/' ? NULL : realpath(".", NULL);
    snprintf(control->output_path, sizeof control->output_path, "%s%s%s", absolute ? absolute : "",
             absolute ? "/" : "", output);
    free(absolute);
}

static void take_snapshot(ks_collector *c)
{
    kb_clock_snapshot snapshot;
    kb_clock_snapshot_take(c->pool.control->ticks_clock, &snapshot);
    kf_snapshot_add(c->pool.control, &snapshot);
}

kineto_status ks_collector_create(const ks_collector_options *options, ks_collector **out,
                                  kineto_error *err)
{
    *out = NULL;
    ks_collector *c = calloc(1, sizeof *c);
    if (!c)
        return kb_fail(err, KINETO_E_MEMORY, "out of memory");
    c->options = *options;
    c->window = UINT32_MAX;
    c->interval_ns = MAX_INTERVAL_NS;
    c->dictionary_at = 1;
    size_t buffer = options->buffer_bytes ? options->buffer_bytes : KS_BUFFER_BYTES;
    uint64_t ring = options->policy == KS_POLICY_RING ? options->keep_bytes / KF_CHUNK_BYTES : 0;
    if (options->policy == KS_POLICY_RING && ring == 0)
        ring = 1;
    kineto_status status = spool_name(options->output_path, c->spool_path, err);
    if (status == KINETO_OK)
        status = ks_pool_file_create(buffer, KS_DICTIONARY_BYTES, c->pool_path, &c->pool, err);
    if (status == KINETO_OK) {
        fill_control(c);
        kb_os_prefault(c->pool.control, c->pool.bytes);
        status = ks_spool_create(c->spool_path, &c->pool, c->pool_path, ring, &c->spool, err);
        if (status)
            c->spool_path[0] = 0;
    }
    if (status)
        ks_collector_destroy(c, false);
    else
        *out = c;
    return status;
}

kineto_status ks_collector_start(ks_collector *c, kineto_error *err)
{
    take_snapshot(c);
    c->start_ticks = kb_ticks(c->pool.control->ticks_clock);
    c->window = kf_window_open(c->pool.control, c->options.kinds, c->start_ticks);
    if (c->window == UINT32_MAX)
        return kb_fail(err, KINETO_E_LIMIT, "too many recording windows are open");
    c->next_second_ns = now_ns() + SECOND_INTERVAL_NS;
    return ks_spool_control(c->spool, c->pool.control, err);
}

void ks_collector_follow(ks_collector *c, uint32_t pid)
{
    c->children = ks_children_create(pid);
    if (c->children)
        ks_children_sample(c->children);
}

void ks_collector_destroy(ks_collector *c, bool keep_files)
{
    if (!c)
        return;
    ks_spool_close(c->spool);
    ks_children_destroy(c->children);
    kb_map_free(&c->start_times);
    if (c->pool.control)
        kb_os_unmap(c->pool.control, c->pool.bytes);
    if (!keep_files && c->pool.control)
        unlink(c->pool_path);
    if (!keep_files && c->spool)
        unlink(c->spool_path);
    free(c);
}

/* ---- names ------------------------------------------------------------------------------------------ */

static void remember_process(ks_collector *c, const uint64_t *entry, uint32_t words)
{
    kf_process_entry p;
    if ((words - 1) * 8u < sizeof p)
        return;
    memcpy(&p, entry + 1, sizeof p);
    uint64_t *known = kb_map_insert(&c->start_times, p.pid, p.start_time, NULL);
    if (known)
        *known = p.start_time;
}

/* Words of committed entries from `at`. An entry that stays uncommitted for a second belongs to
 * somebody who died or sleeps: it is stepped over, and all is written again at the end. */
static uint32_t dictionary_end(ks_collector *c, uint32_t at, bool last)
{
    const kf_pool *pool = &c->pool;
    while (at < pool->dictionary_words) {
        uint64_t header = kb_load_acquire(&pool->dictionary[at]);
        uint32_t words = (uint32_t)(header >> 8 & 0xffffff), type = (uint32_t)(header & 0xff);
        if (words == 0 || words > pool->dictionary_words - at)
            break;
        if (type == KF_ENTRY_NONE && !last) {
            uint64_t now = now_ns();
            if (c->dictionary_stuck_ns == 0)
                c->dictionary_stuck_ns = now;
            if (now - c->dictionary_stuck_ns < SECOND_INTERVAL_NS)
                break;
            c->dictionary_holes = true;
        }
        c->dictionary_stuck_ns = 0;
        if (type == KF_ENTRY_PROCESS)
            remember_process(c, pool->dictionary + at, words);
        at += words;
    }
    return at;
}

static void spool_fails(ks_collector *c, const kineto_error *err)
{
    if (c->spool_failures++ == 0) {
        snprintf(c->spool_error, sizeof c->spool_error, "%.*s", (int)sizeof c->spool_error - 1,
                 err->message);
        kb_log(KINETO_LOG_WARNING, "%s: copying out is suspended", err->message);
    }
    c->spool_retry_ns = now_ns() + SECOND_INTERVAL_NS;
}

static void copy_dictionary(ks_collector *c, bool last)
{
    kineto_error err;
    uint32_t from = last && c->dictionary_holes ? 1 : c->dictionary_at;
    uint32_t end = dictionary_end(c, from, last);
    if (end == from)
        return;
    if (ks_spool_dictionary(c->spool, c->pool.dictionary, from, end - from, &err))
        spool_fails(c, &err);
    else
        c->dictionary_at = end;
}

/* ---- chunks ----------------------------------------------------------------------------------------- */

typedef struct batch {
    ks_spool_chunk chunks[BATCH];
    uint32_t count;
} batch;

static bool keep_is_full(ks_collector *c, uint64_t bytes)
{
    return c->options.policy == KS_POLICY_OLDEST && c->kept_bytes + bytes > c->options.keep_bytes;
}

/* Write what was gathered and give the chunks back. Nothing is given back that was not written. */
static bool flush(ks_collector *c, batch *b)
{
    kineto_error err;
    uint64_t bytes = 0;
    uint32_t count = b->count;
    b->count = 0;
    for (uint32_t i = 0; i < count; i++)
        bytes += b->chunks[i].count * 8u;
    if (count == 0)
        return true;
    if (keep_is_full(c, bytes)) {
        c->kept_bytes = c->options.keep_bytes; /* what follows may not slip in behind a hole */
        for (uint32_t i = 0; i < count; i++)
            count_lost(&c->pool, b->chunks[i].words, b->chunks[i].count, KF_REASON_NOT_KEPT);
    } else {
        if (ks_spool_chunks(c->spool, b->chunks, count, count_evicted, &c->pool, &err)) {
            spool_fails(c, &err);
            return false;
        }
        c->kept_bytes += bytes;
        c->pool.control->spool_frames += count;
    }
    for (uint32_t i = 0; i < count; i++)
        kf_chunk_free(&c->pool, b->chunks[i].index);
    return true;
}

/* The owner died if its thread is gone, or the process is another one by now. */
static bool owner_is_dead(const ks_collector *c, uint64_t owner)
{
    uint32_t pid = (uint32_t)(owner >> 32), tid = (uint32_t)owner;
    char path[64], stat[1024];
    if (syscall(SYS_tgkill, pid, tid, 0) != 0 && errno == ESRCH)
        return true;
    snprintf(path, sizeof path, "/proc/%u/task/%u/stat", pid, tid);
    if (!kb_os_read_file(path, stat, sizeof stat))
        return false; /* hidden, perhaps */
    const char *name_end = strrchr(stat, ')');
    if (name_end && name_end[1] == ' ' && (name_end[2] == 'Z' || name_end[2] == 'X'))
        return true;
    const uint64_t *known = kb_map_find(&c->start_times, pid);
    uint64_t now = kb_os_start_time(pid);
    return known && now && *known != now;
}

/* Words to copy out of a chunk now; 0: leave it alone. */
static uint32_t words_to_take(const ks_collector *c, uint32_t index, bool look_for_dead)
{
    const kf_descriptor *d = &c->pool.descriptors[index];
    uint32_t state = kb_load_acquire(&d->state);
    if (state == KF_CHUNK_SEALED)
        return KB_MIN(kb_load_relaxed(&d->used), KF_CHUNK_WORDS);
    uint64_t owner = kb_load_acquire(&d->owner);
    if (!look_for_dead || owner == 0 || !owner_is_dead(c, owner))
        return 0;
    if (kb_load_acquire(&d->owner) != owner)
        return 0;
    return ks_committed_words(kf_pool_chunk(&c->pool, index), KF_CHUNK_WORDS);
}

/* A chunk whose owner died before it wrote anything. */
static bool dead_and_empty(const ks_collector *c, uint32_t index)
{
    const kf_descriptor *d = &c->pool.descriptors[index];
    uint64_t owner = kb_load_acquire(&d->owner);
    return owner != 0 && kb_load_acquire(&d->state) != KF_CHUNK_SEALED && owner_is_dead(c, owner) &&
           kb_load_acquire(&d->owner) == owner;
}

static bool take_chunk(ks_collector *c, batch *b, uint32_t index, bool look_for_dead)
{
    const kf_descriptor *d = &c->pool.descriptors[index];
    uint32_t words = words_to_take(c, index, look_for_dead);
    if (words == 0) {
        bool sealed = kb_load_acquire(&d->state) == KF_CHUNK_SEALED;
        if (sealed || (look_for_dead && dead_and_empty(c, index)))
            kf_chunk_free(&c->pool, index);
        return true;
    }
    b->chunks[b->count++] =
        (ks_spool_chunk){kf_pool_chunk(&c->pool, index), words, index, kb_load_relaxed(&d->serial)};
    return b->count < BATCH || flush(c, b);
}

/* One pass over the chunks, lowest first, so that writers stay on few and warm pages. The map of
 * free chunks tells where to look; now and then every chunk is looked at, since it is a hint. */
static bool drain(ks_collector *c, bool all, uint32_t *taken)
{
    batch b = {.count = 0};
    bool ok = true;
    uint32_t in_use = 0, count = c->pool.chunk_count;
    uint64_t before = c->pool.control->spool_frames;
    for (uint32_t base = 0; base < count && ok; base += 64) {
        uint64_t bits = all ? UINT64_MAX : ~kb_load_relaxed(&c->pool.free_map[base / 64]);
        for (; bits && ok; bits &= bits - 1) {
            uint32_t index = base + (uint32_t)__builtin_ctzll(bits);
            if (index >= count)
                break;
            const kf_descriptor *d = &c->pool.descriptors[index];
            if (kb_load_relaxed(&d->state) == KF_CHUNK_FREE && kb_load_relaxed(&d->owner) == 0)
                continue;
            in_use++;
            ok = take_chunk(c, &b, index, all);
        }
    }
    ok = ok && flush(c, &b);
    c->in_use = in_use;
    *taken = (uint32_t)(c->pool.control->spool_frames - before);
    return ok;
}

/* ---- the rhythm --------------------------------------------------------------------------------------- */

static void each_second(ks_collector *c)
{
    kineto_error err;
    take_snapshot(c);
    if (ks_spool_control(c->spool, c->pool.control, &err))
        spool_fails(c, &err);
}

/* Often while the pool fills, seldom while nothing happens. */
static uint64_t next_interval(ks_collector *c, uint32_t taken)
{
    bool busy = c->in_use > c->pool.chunk_count / 8 || taken > c->pool.chunk_count / 64;
    if (busy)
        c->interval_ns = MIN_INTERVAL_NS;
    else if (taken)
        c->interval_ns = KB_MAX(c->interval_ns / 2, MIN_INTERVAL_NS);
    else
        c->interval_ns = KB_MIN(c->interval_ns * 5 / 4, MAX_INTERVAL_NS);
    return c->interval_ns;
}

uint64_t ks_collector_poll(ks_collector *c)
{
    uint64_t now = now_ns();
    uint32_t taken = 0;
    bool all = now >= c->next_scan_ns;
    if (all) {
        c->next_scan_ns = now + SCAN_INTERVAL_NS;
        if (c->children)
            ks_children_sample(c->children);
    }
    if (now >= c->next_second_ns) {
        c->next_second_ns = now + SECOND_INTERVAL_NS;
        each_second(c);
    }
    if (now < c->spool_retry_ns)
        return MAX_INTERVAL_NS;
    copy_dictionary(c, false);
    (void)drain(c, all, &taken);
    return next_interval(c, taken);
}

/* ---- the end ------------------------------------------------------------------------------------------ */

static void note_problems(ks_collector *c)
{
    char detail[512];
    if (c->spool_failures) {
        snprintf(detail, sizeof detail,
                 "%s; full chunks stayed in the buffer, and what found no room there is counted as "
                 "lost",
                 c->spool_error);
        ks_collector_note(c, "recorder", "copying out failed", c->spool_failures, false, detail);
    }
    if (c->children)
        ks_children_report(c->children, &c->pool);
}

kineto_status ks_collector_finish(ks_collector *c, kineto_trace **out, kineto_error *err)
{
    ks_input *input = NULL;
    kineto_error ignored;
    uint32_t taken = 0;
    *out = NULL;
    c->end_ticks = kb_ticks(c->pool.control->ticks_clock);
    kf_window_close(c->pool.control, c->window, c->end_ticks);
    c->window = UINT32_MAX;
    take_snapshot(c);
    c->spool_retry_ns = 0;
    note_problems(c);
    copy_dictionary(c, true);
    while (drain(c, true, &taken) && taken > c->pool.chunk_count / 2)
        ; /* writers that go on must not keep the recorder here */
    (void)ks_spool_control(c->spool, c->pool.control, &ignored);
    kineto_status status = ks_input_open(c->spool_path, &c->pool, &input, err);
    if (status)
        return status;
    kt_build_options options = {.kinds = c->options.kinds,
                                .start_ticks = c->start_ticks,
                                .end_ticks = c->end_ticks,
                                .clip_open = true};
    status = kt_build(&input->input, input->control, &options, out, err);
    ks_input_close(input);
    return status;
}

void ks_collector_stats_get(const ks_collector *c, ks_collector_stats *out)
{
    memset(out, 0, sizeof *out);
    out->bytes = c->kept_bytes;
    out->spool_failed = c->spool_failures != 0;
    memcpy(out->spool_error, c->spool_error, sizeof out->spool_error);
    for (uint32_t s = 0; s < KF_MAX_SOURCES; s++)
        for (uint32_t r = 0; r < KF_REASON_COUNT; r++)
            if (kf_reason_is_drop(r))
                out->lost += kb_load_relaxed(&c->pool.control->counters[s][r]);
}

const char *ks_collector_pool_path(const ks_collector *c) { return c->pool_path; }
const char *ks_collector_spool_path(const ks_collector *c) { return c->spool_path; }
