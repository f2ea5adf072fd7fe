/* The collector: owns the pool of a recording, copies full chunks out to the spool, takes the clock
 * snapshots, and builds the trace in the end. It never makes a recorded program wait: chunks that
 * it cannot copy stay in the pool, and writers that find no free chunk drop events and count them.
 *
 * One thread polls it (ks_collector_poll, which returns when to call again). A chunk passes through
 * these steps: a writer seals it, claim_chunk takes it, flush_pending writes it to the spool, and
 * only then kf_chunk_free gives it back. On-demand windows and the ring are in windows.c.
 */
#include "session/collector.h"

#include "record/record.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define MIN_INTERVAL_NS    (KB_MILLISECOND_NS / 5)
#define MAX_INTERVAL_NS    (10 * KB_MILLISECOND_NS)
#define SCAN_INTERVAL_NS   (100 * KB_MILLISECOND_NS)
#define SCAN_SHARE         50u /* full scans take at most 1/50 of the time */
#define BATCH              64u
#define MAX_KEPT_NAME                                                                              \
    180 /* bytes of the output's name that go into the spool's: NAME_MAX holds the rest */
/* With a cost limit: the interval of its evaluation, and longer intervals of polls and scans. */
#define BUDGET_INTERVAL_NS (20 * KB_MILLISECOND_NS)
#define SPARING_NS         (100 * KB_MILLISECOND_NS)
#define SPARING_SCAN_NS    (500 * KB_MILLISECOND_NS)

/* ---- ledger and header entries --------------------------------------------------------------- */

void ks_collector_metadata(ks_collector *c, const char *key, const char *json_value)
{
    ks_pool_metadata(&c->pool, key, json_value);
}

void ks_collector_note(ks_collector *c, const char *source, const char *reason, uint64_t count,
                       bool is_loss, const char *detail)
{
    ks_pool_note(&c->pool, source, reason, count, is_loss, detail);
}

/* How to count the events of a chunk that will not be in the trace; they are added to the pool's
 * counters, by source. */
typedef struct loss_count {
    const kf_pool *pool;
    kf_reason reason;
    bool at_end;   /* ranges count where they end: open ones are repeated by the next chunk */
    uint32_t open; /* ranges, at this point of the chunk */
} loss_count;

static void count_lost(const loss_count *l, uint32_t source, uint32_t count)
{
    if (count)
        kb_add_relaxed(&l->pool->control->counters[source % KF_MAX_SOURCES][l->reason], count);
}

static void count_lost_record(loss_count *l, const uint64_t *record, uint32_t words)
{
    uint32_t type = kf_header_type(record[0]), depth = kf_header_aux(record[0]) & 0xff;
    switch (type) {
    case KF_KEYFRAME:
        l->open = 0;
        break;
    case KF_BEGIN:
        if (!l->at_end)
            count_lost(l, KF_SOURCE_API, 1);
        l->open = depth + 1;
        break;
    case KF_REOPEN:
        l->open = depth + 1;
        break;
    case KF_END:
        depth = (uint32_t)(record[0] >> 6 & 1023);
        if (l->at_end && l->open > depth)
            count_lost(l, KF_SOURCE_API, l->open - depth);
        l->open = KB_MIN(l->open, depth);
        break;
    case KF_INSTANT:
    case KF_ASYNC_BEGIN:
    case KF_COUNTER:
    case KF_MEMORY:
        count_lost(l, KF_SOURCE_API, 1);
        break;
    case KF_THROTTLED:
        if (words > 2) /* the lost record holds a count of losses itself */
            kb_add_relaxed(&l->pool->control->counters[KF_SOURCE_API][KF_REASON_THROTTLED], record[2]);
        break;
    case KF_DEVICE:
        count_lost(l, words > 5 ? (uint32_t)(record[5] >> 48 & 0xff) : KF_SOURCE_API, 1);
        break;
    default:
        break;
    }
}

/* Walks the records of a chunk; stops at the first that is malformed. */
static void count_lost_chunk(loss_count l, const uint64_t *words, uint32_t count)
{
    for (uint32_t at = 0; at < count;) {
        uint32_t n = kf_header_words(words[at]);
        if (words[at] == 0 || n == 0 || n > count - at)
            return;
        count_lost_record(&l, words + at, n);
        at += n;
    }
}

/* ks_spool_evict: a slot of the spool's ring is about to be overwritten; its events are lost. */
static void count_spool_evicted(void *context, const uint64_t *words, uint32_t count)
{
    const kf_pool *pool = context;
    ks_tally tally = {.chunks = 0};
    count_lost_chunk((loss_count){pool, KF_REASON_EVICTED, true, 0}, words, count);
    ks_tally_chunk(&tally, words, count, NULL);
    kb_add_relaxed(&pool->control->counters[KF_SOURCE_API][KF_REASON_IN_SPOOL],
                   UINT64_C(0) - ks_tally_events(&tally));
}

/* On demand, ring dumps read the account on other threads; else only the polling thread uses it. */
static void account_lock(ks_collector *c, bool take)
{
    if (c->options.on_demand)
        (void)(take ? pthread_mutex_lock(&c->lock) : pthread_mutex_unlock(&c->lock));
}

/* ---- creating and destroying ----------------------------------------------------------------- */

/* The path as the user gave it, or relative to it. A device or FIFO has no directory that could
 * hold files next to it: then a temporary directory takes the spool. @return snprintf's result. */
static int format_spool_name(const char *output, char *out, size_t size)
{
    unsigned long long random = kb_os_random();
    struct stat st;
    if (stat(output, &st) == 0 && !S_ISREG(st.st_mode)) {
        const char *folder = kb_setting("TMPDIR");
        return snprintf(out, size, "%s/.ckspool-%u-%016llx", folder ? folder : "/tmp", kb_os_pid(),
                        random);
    }
    const char *slash = strrchr(output, '/'), *name = slash ? slash + 1 : output;
    return snprintf(out, size, "%.*s.%.*s.ckspool-%u-%016llx", (int)(name - output), output,
                    MAX_KEPT_NAME, name, kb_os_pid(), random);
}

/* A hidden file in the directory of the output: its file system will have to hold the trace anyway.
 * The name is random, so that no other user can create it first in a shared directory. The path is
 * absolute, since programs may change their directory. */
static kineto_status choose_spool_path(const char *output, char path[KS_PATH_BYTES],
                                       kineto_error *err)
{
    char name[KS_PATH_BYTES], here[KS_PATH_BYTES];
    int bytes = format_spool_name(output, name, sizeof name);
    if (bytes < 0 || (size_t)bytes >= sizeof name)
        return kb_fail(err, KINETO_E_ARGUMENT, "'%s': the path is too long", output);
    if (name[0] == '/') {
        memcpy(path, name, (size_t)bytes + 1);
        return KINETO_OK;
    }
    if (!getcwd(here, sizeof here))
        return kb_fail_os(err, errno, "cannot find the current directory");
    bytes = snprintf(path, KS_PATH_BYTES, "%s/%s", here, name);
    if (bytes < 0 || (size_t)bytes >= KS_PATH_BYTES)
        return kb_fail(err, KINETO_E_ARGUMENT, "'%s': the path is too long", output);
    return KINETO_OK;
}

/* Fills the control page before any program can attach: programs trust these fields. */
static void fill_control(ks_collector *c)
{
    kf_control *control = c->pool.control;
    const char *output = c->options.output_path;
    control->external = 1;
    memcpy(control->own_kinds, kineto_rt_own_kinds(), sizeof control->own_kinds);
    control->collector_pid = kb_os_pid();
    control->collector_start_time = kb_os_start_time(control->collector_pid);
    kb_os_pid_namespace(control->pid_namespace);
    control->full_policy = KF_FULL_DROP;
    snprintf(control->spool_path, sizeof control->spool_path, "%s", c->spool_path);
    if (c->options.custom_config)
        snprintf(control->custom_config, sizeof control->custom_config, "%s",
                 c->options.custom_config);
    char *absolute = output[0] == '/' ? NULL : realpath(".", NULL);
    snprintf(control->output_path, sizeof control->output_path, "%s%s%s", absolute ? absolute : "",
             absolute ? "/" : "", output);
    free(absolute);
}

void ks_collector_clock(ks_collector *c)
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
        return kb_fail_memory(err, NULL);
    c->options = *options;
    c->window = UINT32_MAX;
    c->interval_ns = MAX_INTERVAL_NS;
    c->dictionary_at = 1;
    c->thread_names = ks_thread_names_create();
    size_t buffer = options->buffer_bytes ? options->buffer_bytes : KS_DEFAULT_BUFFER_BYTES;
    uint64_t ring = options->policy == KS_POLICY_RING ? options->keep_bytes / KF_CHUNK_BYTES : 0;
    if (options->policy == KS_POLICY_RING && ring == 0)
        ring = 1;
    kineto_status status = choose_spool_path(options->output_path, c->spool_path, err);
    if (status == KINETO_OK)
        status = ks_pool_file_create(buffer, KS_DICTIONARY_BYTES, c->pool_path, &c->pool, err);
    if (status == KINETO_OK && options->on_demand)
        status = ks_windows_init(c, err);
    if (status == KINETO_OK) {
        fill_control(c);
        kb_os_prefault(c->pool.control, c->pool.bytes);
        ks_pool_put_job(&c->pool);
        status = ks_spool_create(c->spool_path, &c->pool, c->pool_path, ring, &c->spool, err);
        if (status)
            c->spool_path[0] = 0;
    }
    if (status) {
        ks_collector_destroy(c, false);
        return status;
    }
    memcpy(c->head, c->pool.control, sizeof c->head);
    *out = c;
    return KINETO_OK;
}

kineto_status ks_collector_start(ks_collector *c, kineto_error *err)
{
    ks_collector_clock(c);
    KB_ASSERT(c->window == UINT32_MAX && !c->start_ticks);
    c->start_ticks = kb_ticks(c->pool.control->ticks_clock);
    c->budget.ppm = c->options.cost_limit_ppm;
    ks_account_begin(&c->account, c->pool.control);
    if (c->options.on_demand)
        return ks_windows_start(c, err);
    c->window = kf_window_open(c->pool.control, c->options.kinds, c->start_ticks);
    if (c->window == UINT32_MAX)
        return kb_fail(err, KINETO_E_LIMIT, "too many recording windows are open");
    if (c->options.wants)
        kf_window_want(c->pool.control, c->window, c->options.wants);
    c->next_second_ns = kb_monotonic_ns() + KB_SECOND_NS;
    return ks_spool_control(c->spool, c->pool.control, err);
}

void ks_collector_follow(ks_collector *c, uint32_t pid)
{
    c->children = ks_children_create(pid, &c->options, c->pool_path, c->pool.bytes);
    if (c->children)
        ks_children_sample(c->children);
}

void ks_collector_account(ks_collector *c, uint32_t pid)
{
    account_lock(c, true);
    ks_account_process(&c->account, pid);
    ks_account_read_processes(&c->account);
    account_lock(c, false);
}

void ks_collector_program_ends(ks_collector *c, uint32_t pid)
{
    c->program_ns = ks_process_cpu_ns(pid);
    ks_thread_names_finish(c->thread_names, &c->pool);
    account_lock(c, true);
    ks_account_read_processes(&c->account);
    account_lock(c, false);
}

void ks_collector_destroy(ks_collector *c, bool keep_files)
{
    if (!c)
        return;
    if (c->options.on_demand)
        ks_windows_free(c);
    ks_children_destroy(c->children);
    ks_thread_names_destroy(c->thread_names);
    kb_map_free(&c->start_times);
    kb_vec_free(&c->pending);
    ks_account_free(&c->account);
    if (!keep_files && c->spool && ks_collector_find_spool(c))
        unlink(c->spool_path);
    if (!keep_files && c->pool.control)
        unlink(c->pool_path);
    if (c->pool.control)
        kb_os_unmap(c->pool.control, c->pool.bytes);
    ks_spool_close(c->spool);
    free(c);
}

bool ks_collector_find_spool(ks_collector *c)
{
    kf_control *control = c->pool.control;
    if (!c->spool || !ks_spool_find(c->spool, c->spool_path))
        return false;
    if (strcmp(control->spool_path, c->spool_path) != 0)
        snprintf(control->spool_path, sizeof control->spool_path, "%s", c->spool_path);
    return true;
}

/* ---- the dictionary -------------------------------------------------------------------------- */

/* A process attached: for the cost account, the sampling of children, and recognising reused pids.
 */
static void remember_process(ks_collector *c, const uint64_t *entry, uint32_t words)
{
    kf_process_entry p;
    if ((words - 1) * 8u < sizeof p)
        return;
    memcpy(&p, entry + 1, sizeof p);
    uint64_t *known = kb_map_insert(&c->start_times, p.pid, p.start_time, NULL);
    if (known)
        *known = p.start_time;
    if (c->children)
        ks_children_attached(c->children, p.pid);
    account_lock(c, true);
    ks_account_process(&c->account, p.pid);
    account_lock(c, false);
}

/* End of the committed entries from `at`, in words. An entry that stays uncommitted for a second
 * belongs to a thread that died or sleeps: it is skipped, and the whole dictionary is written again
 * at the end (`last`). */
static uint32_t dictionary_end(ks_collector *c, uint32_t at, bool last)
{
    const kf_pool *pool = &c->pool;
    while (at < pool->dictionary_words) {
        uint64_t header = kb_load_acquire(&pool->dictionary[at]);
        uint32_t words = kf_entry_header_words(header), type = kf_entry_header_type(header);
        if (words == 0 || words > pool->dictionary_words - at)
            break;
        if (type == KF_ENTRY_NONE && !last) {
            uint64_t now = kb_monotonic_ns();
            if (c->dictionary_stuck_ns == 0)
                c->dictionary_stuck_ns = now;
            if (now - c->dictionary_stuck_ns < KB_SECOND_NS)
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

/* Copying out is suspended for a second; only the first failure is logged. */
static void note_spool_failure(ks_collector *c, const kineto_error *err)
{
    if (c->spool_failures++ == 0) {
        snprintf(c->spool_error, sizeof c->spool_error, "%.*s", (int)sizeof c->spool_error - 1,
                 err->message);
        kb_log(KINETO_LOG_WARNING, "%s: copying out is suspended", err->message);
    }
    c->spool_retry_ns = kb_monotonic_ns() + KB_SECOND_NS;
}

/* Writes entries that are new since the last call; at the end (`last`) also skipped ones, by
 * writing all again. */
static void copy_dictionary(ks_collector *c, bool last)
{
    kineto_error err;
    uint32_t from = last && c->dictionary_holes ? 1 : c->dictionary_at;
    uint32_t end = dictionary_end(c, from, last);
    KB_ASSERT(from >= 1 && end >= from && end <= c->pool.dictionary_words);
    if (end == from)
        return;
    if (ks_spool_dictionary(c->spool, c->pool.dictionary, from, end - from, &err))
        note_spool_failure(c, &err);
    else
        c->dictionary_at = end;
}

/* ---- chunks ---------------------------------------------------------------------------------- */

/* How many of these chunks may still be kept (KS_POLICY_OLDEST). After the first that does not fit
 * none is kept, so that the recording has no gaps. */
static uint32_t count_to_keep(ks_collector *c, const ks_spool_chunk *chunks, uint32_t count)
{
    uint32_t fit = 0;
    uint64_t bytes = c->kept_bytes;
    if (c->options.policy != KS_POLICY_OLDEST)
        return count;
    for (; fit < count && !c->keep_is_full; fit++) {
        bytes += chunks[fit].count * 8u;
        c->keep_is_full = bytes > c->options.keep_bytes;
    }
    return c->keep_is_full && fit > 0 ? fit - 1 : fit;
}

/* Called before the chunk is freed: at any moment IN_SPOOL is the number of events that
 * the spool must hold, which recover.c relies on. */
static void count_copied(ks_collector *c, const ks_spool_chunk *chunk, bool is_kept)
{
    uint64_t before = ks_tally_events(&c->account.tally);
    ks_tally_chunk(&c->account.tally, chunk->words, chunk->count, NULL);
    if (!is_kept)
        return;
    c->kept_bytes += chunk->count * 8u;
    kb_add_relaxed(&c->pool.control->counters[KF_SOURCE_API][KF_REASON_IN_SPOOL],
                   ks_tally_events(&c->account.tally) - before);
}

/* Writes chunks to the spool and frees them. A chunk that was not written is not freed. */
static bool copy_out(ks_collector *c, const ks_spool_chunk *chunks, const uint64_t *claims,
                     uint32_t count)
{
    kineto_error err;
    bool was_full = c->keep_is_full;
    uint32_t keep = count_to_keep(c, chunks, count);
    KB_ASSERT(count <= BATCH && keep <= count);
    if (keep && ks_spool_chunks(c->spool, chunks, keep, count_spool_evicted, &c->pool, &err)) {
        c->keep_is_full = was_full;
        note_spool_failure(c, &err);
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        count_copied(c, &chunks[i], i < keep);
        if (i >= keep)
            count_lost_chunk((loss_count){&c->pool, KF_REASON_NOT_KEPT, false, 0}, chunks[i].words,
                             chunks[i].count);
        (void)kf_chunk_free(&c->pool, chunks[i].index, claims[i]);
    }
    return true;
}

/* The owner died if its thread is gone, is a zombie, or its pid belongs to another process now. */
static bool owner_is_dead(const ks_collector *c, uint64_t owner)
{
    uint32_t pid = (uint32_t)(owner >> 32), tid = (uint32_t)owner;
    char path[64], stat[1024];
    if (syscall(SYS_tgkill, pid, tid, 0) != 0 && errno == ESRCH)
        return true;
    snprintf(path, sizeof path, "/proc/%u/task/%u/stat", pid, tid);
    if (!kb_os_read_file(path, stat, sizeof stat))
        return false; /* hidden, perhaps */
    ks_thread_names_note(c->thread_names, &c->pool, owner, stat);
    const char *name_end = strrchr(stat, ')');
    if (name_end && name_end[1] == ' ' && (name_end[2] == 'Z' || name_end[2] == 'X'))
        return true;
    const uint64_t *known = kb_map_find(&c->start_times, pid);
    uint64_t now = kb_os_start_time(pid);
    return known && *known && now && *known != now; /* 0: a fork's child could not read it */
}

/* Takes a chunk for copying: sealed ones, and with `look_for_dead` those whose owner died. *words:
 * words to copy out, perhaps 0; *claim: the claim word with which it is freed later. The state is
 * read once; a chunk that is sealed after that is for the next pass. A dead owner's chunk is
 * inherited by compare-and-swap and sealed, so that no other process can take it, however late it
 * is copied. @return whether the chunk is the collector's now. */
static bool claim_chunk(const ks_collector *c, uint32_t index, bool look_for_dead, uint64_t *claim,
                        uint32_t *words)
{
    const kf_descriptor *d = &c->pool.descriptors[index];
    *claim = kf_chunk_claim_of(&c->pool, index);
    if (kf_claim_state(*claim) == KF_CHUNK_SEALED) {
        *words = kb_min_u32(kb_load_relaxed(&d->used), KF_CHUNK_WORDS);
        return true;
    }
    uint64_t owner = look_for_dead ? kf_claim_owner(*claim) : 0;
    if (owner == 0 || !owner_is_dead(c, owner) || !kf_chunk_inherit(&c->pool, index, *claim))
        return false;
    *claim = kf_chunk_claim_of(&c->pool, index);
    uint64_t *chunk = kf_pool_chunk(&c->pool, index), now = kb_ticks(c->pool.control->ticks_clock);
    kf_open_call call = kf_open_call_read(d);
    *words = kf_committed_words(chunk, KF_CHUNK_WORDS);
    *words = kf_open_call_append(&call, now, KF_CALL_DEAD, chunk, *words);
    if (!*words)
        return true;
    kf_chunk_seal(&c->pool, index, *words, now);
    *claim = kf_claim_sealed(*claim);
    return true;
}

/* Queues a chunk for copying out, or leaves it to the ring. */
static void collect_chunk(ks_collector *c, uint32_t index, bool look_for_dead)
{
    uint32_t words = 0;
    uint64_t claim;
    if (!claim_chunk(c, index, look_for_dead, &claim, &words))
        return;
    if (words == 0) {
        (void)kf_chunk_free(&c->pool, index, claim);
        return;
    }
    const kf_descriptor *d = &c->pool.descriptors[index];
    KB_ASSERT(words <= KF_CHUNK_WORDS && kf_claim_state(claim) == KF_CHUNK_SEALED);
    ks_pending p = {{kf_pool_chunk(&c->pool, index), words, index, kb_load_relaxed(&d->serial)},
                    kb_load_relaxed(&d->last_ticks),
                    claim};
    kb_fence_seqcst();
    if (kf_chunk_claim_of(&c->pool, index) != claim)
        return; /* a ring writer reclaimed it meanwhile: the fields may be of two owners */
    if (c->options.on_demand && !ks_window_wants(c, p.last_ticks))
        ks_window_skip_chunk(c, &p);
    else
        (void)kb_vec_push(&c->pending, p); /* out of memory: the next pass finds it again */
}

/* qsort: oldest first; ties by index, so that the order is reproducible. */
static int compare_pending_age(const void *left, const void *right)
{
    const ks_pending *a = left, *b = right;
    if (a->last_ticks != b->last_ticks)
        return a->last_ticks < b->last_ticks ? -1 : 1;
    return a->chunk.index < b->chunk.index ? -1 : 1;
}

/* Copies out the pending chunks in batches; sorted by age where the policy keeps only some of them.
 */
static bool flush_pending(ks_collector *c)
{
    ks_spool_chunk batch[BATCH];
    uint64_t claims[BATCH];
    bool ok = true;
    uint32_t used = 0;
    if (c->options.policy != KS_POLICY_STREAM && c->pending.count)
        qsort(c->pending.data, c->pending.count, sizeof *c->pending.data, compare_pending_age);
    for (size_t i = 0; i < c->pending.count && ok; i++) {
        claims[used] = c->pending.data[i].claim;
        batch[used++] = c->pending.data[i].chunk;
        KB_ASSERT(used <= BATCH);
        if (used == BATCH || i + 1 == c->pending.count) {
            ok = copy_out(c, batch, claims, used);
            used = 0;
        }
    }
    c->pending.count = 0;
    return ok;
}

/* One pass over the chunks, lowest index first, so that writers reuse few and warm pages. The map
 * of free chunks is only a hint: now and then (`all`) every chunk is visited. */
bool ks_collector_drain(ks_collector *c, bool all, uint32_t *taken)
{
    uint32_t in_use = 0, count = c->pool.chunk_count;
    for (uint32_t base = 0; base < count; base += 64) {
        uint64_t bits = all ? UINT64_MAX : ~kb_load_relaxed(&c->pool.free_map[base / 64]);
        for (; bits; bits &= bits - 1) {
            uint32_t index = base + (uint32_t)__builtin_ctzll(bits);
            if (index >= count)
                break;
            const kf_descriptor *d = &c->pool.descriptors[index];
            uint64_t claim = kb_load_relaxed(&d->claim);
            if (kf_claim_state(claim) == KF_CHUNK_FREE && kf_claim_owner(claim) == 0)
                continue;
            in_use++;
            collect_chunk(c, index, all);
        }
    }
    c->in_use = c->options.on_demand ? (uint32_t)c->pending.count : in_use;
    *taken = (uint32_t)c->pending.count;
    return flush_pending(c);
}

/* ---- tasks of every second ------------------------------------------------------------------- */

/* A clock snapshot, the spool's current path, the control page in the spool, CPU times. */
static void run_second_tasks(ks_collector *c)
{
    kineto_error err;
    ks_collector_clock(c);
    (void)ks_collector_find_spool(c);
    if (ks_spool_control(c->spool, c->pool.control, &err))
        note_spool_failure(c, &err);
    account_lock(c, true);
    ks_account_read_processes(&c->account);
    account_lock(c, false);
}

/* ---- the cost limit -------------------------------------------------------------------------- */

static uint64_t recording_ns(const ks_collector *c)
{
    return kb_monotonic_ns() - c->account.begun_ns;
}

/* Measures the cost and, if the level changes, has writers throttle what the new level drops. */
static void update_cost_limit(ks_collector *c)
{
    kf_control *control = c->pool.control;
    uint64_t now = kb_monotonic_ns();
    ks_cost cost;
    kf_throttle throttled;
    if (c->budget.ppm <= 0 || now < c->next_budget_ns)
        return;
    c->next_budget_ns = now + BUDGET_INTERVAL_NS;
    account_lock(c, true);
    ks_account_read(&c->account, control, false, &cost);
    account_lock(c, false);
    if (!ks_cost_limit_update(&c->budget, recording_ns(c), &cost, &c->account.tally))
        return;
    ks_cost_limit_throttle(&c->budget, kb_load_relaxed(&control->unit_costs[KF_UNIT_PAIR]), &throttled);
    kf_throttle_set(control, &throttled);
    kb_log(KINETO_LOG_INFO, "budget: level %u: %s left out", c->budget.level,
           ks_levels[c->budget.level].what);
}

static void note_cost_line(void *context, const char *source, const char *reason, uint64_t count,
                           bool is_loss, const char *detail)
{
    ks_collector_note(context, source, reason, count, is_loss, detail);
}

/* Adds the cost to ledger and header, after all full chunks were counted. */
static void report_recording_cost(ks_collector *c, uint64_t lasted)
{
    ks_tally_rest(&c->account.tally, &c->pool);
    char json[KS_COST_JSON_BYTES];
    ks_cost_summary summary = {.account = &c->account,
                            .budget = &c->budget,
                            .control = c->pool.control,
                            .lasted_ns = lasted};
    ks_account_read(&c->account, c->pool.control, true, &summary.cost);
    ks_cost_report(&summary, note_cost_line, c, json);
    ks_collector_metadata(c, KS_COST_KEY, json);
    copy_dictionary(c, true);
}

/* The longest poll interval while nothing happens: shorter the fewer chunks are free. At least 1
 * ms, since idle threads may hold all chunks for a long time. */
static uint64_t longest_interval(const ks_collector *c)
{
    uint64_t most_ns = c->budget.ppm > 0 ? SPARING_NS : MAX_INTERVAL_NS;
    uint32_t count = c->pool.chunk_count, room = count - KB_MIN(c->in_use, count);
    return KB_MAX(most_ns * room / count, KB_MILLISECOND_NS);
}

/* Adapts the poll interval: short while the pool fills, long while nothing happens. */
static uint64_t next_interval(ks_collector *c, uint32_t taken)
{
    bool crowded = c->in_use > c->pool.chunk_count / 8;
    if (taken > c->pool.chunk_count / 64 || (taken && crowded))
        c->interval_ns = MIN_INTERVAL_NS;
    else if (taken)
        c->interval_ns = KB_MAX(c->interval_ns / 2, MIN_INTERVAL_NS);
    else
        c->interval_ns = kb_min_u64(c->interval_ns * 5 / 4, longest_interval(c));
    return c->interval_ns;
}

/* A full scan takes longer the more processes and threads there are, so its interval grows with its
 * duration. */
static void schedule_scan(ks_collector *c, uint64_t now, uint64_t took_ns)
{
    uint64_t least_ns = c->budget.ppm > 0 ? SPARING_SCAN_NS : SCAN_INTERVAL_NS;
    c->next_scan_ns = now + KB_MAX(least_ns, SCAN_SHARE * took_ns);
}

/* Closes windows of programs that died, before it is determined what windows need. */
static void sweep_windows(ks_collector *c, uint64_t now)
{
    if (now < c->next_sweep_ns)
        return;
    c->next_sweep_ns = now + SCAN_INTERVAL_NS;
    kf_windows_sweep(c->pool.control);
}

uint64_t ks_collector_poll(ks_collector *c)
{
    uint64_t now = kb_monotonic_ns();
    uint32_t taken = 0;
    bool all = now >= c->next_scan_ns;
    sweep_windows(c, now);
    if (c->options.on_demand && !ks_windows_update(c))
        return ks_windows_idle(c);
    uint64_t cpu_ns = all ? kb_clock_ns(CLOCK_THREAD_CPUTIME_ID) : 0;
    if (all) {
        schedule_scan(c, now, 0);
        if (c->children)
            ks_children_sample(c->children);
    }
    if (now >= c->next_second_ns) {
        c->next_second_ns = now + KB_SECOND_NS;
        run_second_tasks(c);
    }
    if (now < c->spool_retry_ns)
        return MAX_INTERVAL_NS;
    copy_dictionary(c, false);
    (void)ks_collector_drain(c, all, &taken);
    if (all)
        schedule_scan(c, now, kb_clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu_ns);
    update_cost_limit(c);
    return next_interval(c, taken);
}

/* ---- the end --------------------------------------------------------------------------------- */

/* Ledger lines about the recording as a whole: failed copies, processes that did not attach. */
static void note_collector_problems(ks_collector *c)
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
        ks_children_report(c->children, &c->pool, 0);
    if (c->children && c->program_ns)
        ks_children_report_unseen(c->children, &c->pool,
                                  ks_account_waited_ns(&c->account, c->program_ns));
}

/* A program may have overwritten the shared control page: restores the part that never changes, on
 * which readers of the pool rely. */
static void restore_head(ks_collector *c)
{
    if (memcmp(c->head, c->pool.control, sizeof c->head) == 0)
        return;
    memcpy(c->pool.control, c->head, sizeof c->head);
    ks_collector_note(c, "recording", "the program wrote over the buffer's header", 1, true,
                      "it was restored; what else was overwritten is unknown");
}

kineto_status ks_collector_finish(ks_collector *c, kineto_trace **out, kineto_error *err)
{
    ks_input *input = NULL;
    kineto_error ignored;
    uint32_t taken = 0;
    *out = NULL;
    KB_ASSERT(c->start_ticks && !c->end_ticks); /* started, finished once */
    restore_head(c);
    c->end_ticks = kb_ticks(c->pool.control->ticks_clock);
    uint64_t lasted = recording_ns(c);
    ks_cost_limit_end(&c->budget, lasted);
    kf_window_close(c->pool.control, c->window, c->end_ticks);
    c->window = UINT32_MAX;
    ks_collector_clock(c);
    c->spool_retry_ns = 0;
    note_collector_problems(c);
    ks_thread_names_finish(c->thread_names, &c->pool);
    copy_dictionary(c, true);
    while (ks_collector_drain(c, true, &taken) && taken > c->pool.chunk_count / 2)
        ; /* ends although writers may go on */
    report_recording_cost(c, lasted);
    (void)ks_spool_control(c->spool, c->pool.control, &ignored);
    kineto_status status = ks_input_open_written(c->spool, &c->pool, &input, err);
    if (status)
        return status;
    kt_build_options options = {.kinds = c->options.kinds,
                                .start_ticks = c->start_ticks,
                                .end_ticks = c->end_ticks,
                                .is_over = true,
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

const kf_pool *ks_collector_pool(const ks_collector *c) { return &c->pool; }

const char *ks_collector_pool_path(const ks_collector *c) { return c->pool_path; }
const char *ks_collector_spool_path(const ks_collector *c) { return c->spool_path; }
