/* Recovery (`ckineto recover`): finds the pools of recorders that died, and builds traces from pool
 * and spool. The files are untrusted and pass the same checks as a live recording. A pool or spool
 * may be missing; what is missing becomes a line of the ledger.
 */
#include "session/self_cost.h"
#include "session/session.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static void copy_bounded_text(char *to, size_t size, const char *from, size_t from_size)
{
    snprintf(to, size, "%.*s", (int)strnlen(from, from_size), from);
}

/* ---- one pool -------------------------------------------------------------------------------- */

/* ks_process_visit: the first process that attached is the program, or its wrapper. Stops there. */
static bool note_first_program(void *context, const kf_process_entry *p, kineto_string name)
{
    ks_orphan *o = context;
    (void)p;
    copy_bounded_text(o->program, sizeof o->program, name.size ? name.data : "", name.size);
    return false;
}

static bool is_this_boot(const uint8_t *boot_id, size_t size)
{
    return kb_os_is_this_boot((const char *)boot_id, size);
}

/* Adds the disk space of a file to the orphan; *newest: its modification time, if later. */
static void add_file_size(ks_orphan *o, const char *path, int64_t *newest)
{
    struct stat st;
    if (!path[0] || stat(path, &st) != 0)
        return;
    o->bytes += (uint64_t)st.st_blocks * 512u;
    *newest = KB_MAX(*newest, (int64_t)st.st_mtim.tv_sec);
}

/* Fills in what is known of a recording, from its control page and files. */
static void describe_orphan(const kf_pool *pool, const char *pool_path, ks_orphan *o)
{
    const kf_control *c = pool->control;
    int64_t newest = 0;
    memset(o, 0, sizeof *o);
    copy_bounded_text(o->pool_path, sizeof o->pool_path, pool_path, sizeof o->pool_path - 1);
    copy_bounded_text(o->spool_path, sizeof o->spool_path, c->spool_path, sizeof c->spool_path - 1);
    copy_bounded_text(o->output_path, sizeof o->output_path, c->output_path,
                      sizeof c->output_path - 1);
    ks_pool_processes(pool, true, note_first_program, o);
    o->recorder_pid = c->collector_pid;
    o->recorder_alive = is_this_boot(c->boot_id, sizeof c->boot_id) &&
                        kb_os_alive(c->collector_pid, c->collector_start_time);
    add_file_size(o, o->pool_path, &newest);
    add_file_size(o, o->spool_path, &newest);
    o->age_seconds = kb_max_i64((int64_t)time(NULL) - newest, 0);
}

/* Reads bytes [at, end) of a file to the same offsets of `map`. False: errno is set. */
static bool read_file_range(int fd, char *map, off_t at, off_t end)
{
    while (at < end) {
        ssize_t n = pread(fd, map + at, (size_t)(end - at), at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n == 0; /* it is shorter by now */
        at += n;
    }
    return true;
}

/* Reads only the data of a sparse file: its holes read as zeros, which the map already holds. */
static bool read_sparse_file(int fd, char *map, off_t bytes)
{
    off_t at = 0, end;
    while (at < bytes && (at = lseek(fd, at, SEEK_DATA)) >= 0) {
        end = lseek(fd, at, SEEK_HOLE);
        if (!read_file_range(fd, map, at, KB_MIN(end < at ? bytes : end, bytes)))
            return false;
        at = KB_MAX(end, at + 1);
    }
    return true;
}

/* Reads the file into private memory, to be unmapped. NULL: err is set. */
static void *load_pool_file(int fd, const char *path, size_t *bytes, kineto_error *err)
{
    struct stat st;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size <= 0) {
        kb_fail(err, KINETO_E_FORMAT, "'%s' is not a regular file with contents", path);
        return NULL;
    }
    if (st.st_uid != geteuid()) {
        kb_fail(err, KINETO_E_PERMISSION, "'%s' belongs to another user", path);
        return NULL;
    }
    *bytes = (size_t)st.st_size;
    void *map = kb_os_map(*bytes);
    if (!map)
        kb_fail(err, KINETO_E_MEMORY, "%zu bytes of '%s': out of memory", *bytes, path);
    else if (!read_sparse_file(fd, map, st.st_size)) {
        kb_fail_os(err, errno, "cannot read '%s'", path);
        kb_os_unmap(map, *bytes);
        map = NULL;
    }
    return map;
}

/* The file of a crashed program is read, not mapped: touching a hole through a mapping may need
 * disk space, which a full file system does not have. */
static void *read_pool_file(const char *path, size_t *bytes, kineto_error *err)
{
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) {
        kb_fail_os(err, errno, "cannot open '%s'", path);
        return NULL;
    }
    void *map = load_pool_file(fd, path, bytes, err);
    close(fd);
    return map;
}

/* Crash dumps of a ring end in ".ckpool"; see crash_file.c. */
static bool is_left_by_crash(const char *path)
{
    static const char ending[] = ".ckpool";
    size_t n = strlen(path), k = sizeof ending - 1;
    return n > k && strcmp(path + n - k, ending) == 0;
}

static kineto_status open_pool_file(const char *path, kf_pool *pool, void **map, size_t *bytes,
                                    kineto_error *err)
{
    kineto_error why = {0};
    *map = is_left_by_crash(path) ? read_pool_file(path, bytes, &why)
                                  : kb_os_map_open(path, bytes, &why);
    if (!*map) {
        if (err)
            *err = why;
        return why.code ? why.code : KINETO_E_IO;
    }
    kineto_status status = kf_pool_open(*map, *bytes, pool, &why);
    if (status) {
        kb_os_unmap(*map, *bytes);
        *map = NULL;
        return kb_fail(err, status, "'%s': %s", path, why.message);
    }
    return KINETO_OK;
}

static kineto_status inspect_pool_file(const char *pool_path, ks_orphan *out, kineto_error *err)
{
    kf_pool pool;
    void *map;
    size_t bytes;
    kineto_status status = open_pool_file(pool_path, &pool, &map, &bytes, err);
    if (status)
        return status;
    describe_orphan(&pool, pool_path, out);
    kb_os_unmap(map, bytes);
    return KINETO_OK;
}

/* A pool with an overwritten header cannot be read; its file name still holds the recorder's pid.
 */
static void describe_broken(const char *pool_path, const char *name, const kineto_error *why,
                            ks_orphan *o)
{
    char program[64] = "";
    const char *at = strchr(name, '-');
    int64_t newest = 0;
    memset(o, 0, sizeof *o);
    copy_bounded_text(o->pool_path, sizeof o->pool_path, pool_path, sizeof o->pool_path - 1);
    copy_bounded_text(o->problem, sizeof o->problem, why->message, sizeof o->problem - 1);
    at = at ? strchr(at + 1, '-') : NULL;
    o->recorder_pid = at ? (uint32_t)strtoul(at + 1, NULL, 10) : 0;
    (void)kb_os_process_name(o->recorder_pid, program, sizeof program);
    o->recorder_alive = strncmp(program, "ckineto", 7) == 0;
    add_file_size(o, o->pool_path, &newest);
    o->age_seconds = kb_max_i64((int64_t)time(NULL) - newest, 0);
}

void ks_orphans_each(ks_orphan_visit *visit, void *context)
{
    char directory[KS_PATH_BYTES / 2], path[KS_PATH_BYTES];
    ks_orphan orphan;
    bool on = true;
    for (uint32_t i = 0; on && ks_pool_directory(i, directory, sizeof directory); i++) {
        DIR *d = opendir(directory);
        if (!d)
            continue;
        for (struct dirent *e; on && (e = readdir(d));) {
            if (!ks_pool_file_name(e->d_name))
                continue;
            snprintf(path, sizeof path, "%s/%s", directory, e->d_name);
            kineto_error why = {0};
            if (inspect_pool_file(path, &orphan, &why))
                describe_broken(path, e->d_name, &why, &orphan);
            on = visit(context, &orphan);
        }
        closedir(d);
    }
}

/* ---- building -------------------------------------------------------------------------------- */

/* The window to recover: the union of the recorder's own open windows; else one that it closed,
 * which keeps its times but not its kinds. */
static kt_build_options recovered_window(const kf_control *c)
{
    kt_build_options options = {.kinds = KINETO_KINDS_ALL, .clip_open = true};
    uint64_t kinds = 0, start_ticks = 0;
    for (uint32_t i = 0; i < KF_MAX_WINDOWS; i++) {
        const kf_window *w = &c->windows[i];
        if (w->start_ticks == 0 || w->owner_start_time != c->collector_start_time)
            continue;
        if (w->state == KF_WINDOW_OPEN && w->kinds) {
            kinds |= w->kinds;
            start_ticks = start_ticks ? KB_MIN(start_ticks, w->start_ticks) : w->start_ticks;
        } else if (!options.start_ticks) {
            options.start_ticks = w->start_ticks;
            options.end_ticks = w->end_ticks;
        }
    }
    if (kinds) {
        options.kinds = kinds;
        options.start_ticks = start_ticks;
        options.end_ticks = 0;
    }
    return options;
}

/* A recorder that died in its first second left only one clock snapshot. On the same boot the
 * clocks are the same, so a second snapshot now gives their rate. */
static void complete_snapshots(kf_control *c)
{
    kb_clock_snapshot snapshot;
    if (c->snapshot_count >= 2 || c->ticks_clock != kb_ticks_clock() ||
        !is_this_boot(c->boot_id, sizeof c->boot_id))
        return;
    c->window_lock = 0;
    kb_clock_snapshot_take(c->ticks_clock, &snapshot);
    kf_snapshot_add(c, &snapshot);
}

/* CPU times are lost; the duration comes from the clock snapshots. */
static ks_cost_part recovered_cost(const kf_control *c)
{
    ks_cost_part part = {.account = {.by = KS_BY_NOBODY, .ns_per_tick = 1},
                         .part = {0, UINT64_MAX}};
    uint32_t count = KB_MIN(c->snapshot_count, KF_MAX_SNAPSHOTS);
    const kb_clock_snapshot *first = &c->snapshots[0], *last = &c->snapshots[count ? count - 1 : 0];
    if (count && last->monotonic_raw_ns > first->monotonic_raw_ns && last->ticks > first->ticks) {
        part.summary.lasted_ns = (uint64_t)(last->monotonic_raw_ns - first->monotonic_raw_ns);
        part.account.ns_per_tick =
            (double)part.summary.lasted_ns / (double)(last->ticks - first->ticks);
    }
    ks_account_read_timers(&part.account, c, &part.summary.cost);
    return part;
}

/* The ledger line for missing parts: all or part of the spool, by the pool's count of events that
 * were copied out; or the pool, whose contents are unknown. count 0: nothing is missing. */
static kt_build_note describe_missing_part(ks_input *input, const kf_pool *pool, const char *why)
{
    kt_build_note note = {.source = "recording", .detail = why, .is_loss = true};
    if (!pool) {
        note.reason = "buffers missing, with what was not yet copied out of them";
        note.count = 1;
        return note;
    }
    uint64_t copied = kb_load_relaxed(&input->control->counters[KF_SOURCE_API][KF_REASON_IN_SPOOL]);
    uint64_t there = ks_input_spool_events(input);
    note.reason = "copied out of the buffer, and not in the spool";
    note.count = copied > there && copied <= INT64_MAX ? copied - there : 0;
    return note;
}

/* @param why  the reason, should a part of the recording be missing. */
static kineto_status build_orphan_trace(const char *spool_path, const kf_pool *pool,
                                        const char *why, kineto_trace **out, kineto_error *err)
{
    ks_input *input = NULL;
    kineto_status status = ks_input_open(spool_path, pool, &input, err);
    if (status)
        return status;
    kt_build_note note = describe_missing_part(input, pool, why);
    complete_snapshots(input->control);
    kt_build_options options = recovered_window(input->control);
    options.is_over = true;
    if (options.end_ticks == 0)
        options.incomplete_reason = "from then on only what found room in the buffer was kept";
    options.notes = &note;
    options.note_count = note.count ? 1 : 0;
    ks_cost_part part = recovered_cost(input->control);
    ks_cost_part_attach(&part, input->control, &input->input, &options);
    status = kt_build(&input->input, input->control, &options, out, err);
    ks_input_close(input);
    return status;
}

/* The path comes from the untrusted pool: only a spool of the same recording is used. */
static bool is_spool_of_pool(const char *path, const kf_control *c, kineto_error *why)
{
    kf_spool_header h;
    if (ks_spool_header(path, &h, why)) {
        kb_log(KINETO_LOG_WARNING, "%s; going on without the spool", why->message);
        return false;
    }
    bool same = h.collector_pid == c->collector_pid &&
                h.collector_start_time == c->collector_start_time &&
                strncmp((const char *)h.boot_id, (const char *)c->boot_id, sizeof h.boot_id) == 0;
    if (!same)
        kb_fail(why, KINETO_E_FORMAT, "'%s' is the spool of another recording", path);
    return same;
}

/* Refuses a recording in progress, unless forced. */
static kineto_status recover_pool(const char *path, bool force, ks_orphan *what, kineto_trace **out,
                                  kineto_error *err)
{
    kf_pool pool;
    void *map;
    size_t bytes;
    kineto_error why = {.message = "the spool was cut short"};
    kineto_status status = open_pool_file(path, &pool, &map, &bytes, err);
    if (status)
        return status;
    describe_orphan(&pool, path, what);
    if (what->recorder_alive && !force) {
        status = kb_fail(err, KINETO_E_BUSY,
                         "'%s' is being recorded by process %u: wait for it, or use --force for a "
                         "trace of what is there now",
                         path, what->recorder_pid);
        goto done;
    }
    if (what->spool_path[0] && !is_spool_of_pool(what->spool_path, pool.control, &why))
        what->spool_path[0] = 0;
    status = build_orphan_trace(what->spool_path[0] ? what->spool_path : NULL, &pool, why.message,
                                out, err);
done:
    kb_os_unmap(map, bytes);
    return status;
}

/* Does the pool that the spool names exist, and belong to the same recording? */
static bool has_matching_pool(const char *spool_path, const kf_spool_header *h)
{
    kf_pool pool;
    void *map;
    size_t bytes;
    if (!h->pool_path[0] || open_pool_file(h->pool_path, &pool, &map, &bytes, NULL))
        return false;
    kineto_error why = {0};
    bool same = is_spool_of_pool(spool_path, pool.control, &why);
    kb_os_unmap(map, bytes);
    return same;
}

kineto_status ks_recover(const char *path, bool force, ks_orphan *what, kineto_trace **out,
                         kineto_error *err)
{
    kf_spool_header header = {.magic = 0};
    kineto_error why = {0};
    memset(what, 0, sizeof *what);
    *out = NULL;
    kineto_status status = ks_spool_header(path, &header, &why);
    if (status && header.magic == KF_SPOOL_MAGIC) /* of another version, or cut off */
        return kb_fail(err, status, "%s", why.message);
    if (status)
        return recover_pool(path, force, what, out, err);
    if (has_matching_pool(path, &header))
        return recover_pool(header.pool_path, force, what, out, err);
    copy_bounded_text(what->spool_path, sizeof what->spool_path, path, sizeof what->spool_path - 1);
    what->recorder_pid = header.collector_pid;
    what->recorder_alive = is_this_boot(header.boot_id, sizeof header.boot_id) &&
                           kb_os_alive(header.collector_pid, header.collector_start_time);
    if (what->recorder_alive && !force)
        return kb_fail(err, KINETO_E_BUSY, "'%s' is being written by process %u", path,
                       header.collector_pid);
    char gone[KS_PATH_BYTES + 64];
    snprintf(gone, sizeof gone, "'%s' is gone, or belongs to another recording", header.pool_path);
    return build_orphan_trace(path, NULL, gone, out, err);
}
