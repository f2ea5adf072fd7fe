/* The file of a crash dump, written by a process that is about to die: a pool (format/format.h)
 * with only the chunks in use, from which `ckineto recover` builds a trace. Async-signal-safe: no
 * heap, no locks, no waiting for other threads; only ko_crash_file_open is called in advance. */
#include "ondemand/capture/ring.h"
#include "ondemand/output/output.h"
#include "record/record.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define SUFFIX      ".ckpool"
#define MAX_NUMBER  9u /* highest number that is appended if the file exists */
#define FILE_MODE   0600
#define PATH_FOLDER "/tmp" /* as in output_path.c */
#define RUN_CHUNKS  256u   /* in one write */

/* ---- the path -------------------------------------------------------------------------------- */

/* The path that a trace of the dump would have: from the options, or the default in the directory
 * for requests.
 */
static kineto_status find_trace_path(const kineto_control_options *o, ko_request_source *source,
                                     char out[KO_REQUEST_PATH_BYTES], kineto_error *err)
{
    ko_request r;
    ko_request_init(&r);
    bool own = o->dump_path && !ko_output_is_url(o->dump_path);
    const char *setting = kb_setting("KINETO_ONDEMAND_TRACE_DIR");
    *source = own ? KO_FROM_ARGUMENT : KO_FROM_REQUEST;
    int n = own ? snprintf(r.log_file, sizeof r.log_file, "%s", o->dump_path)
                : snprintf(r.log_file, sizeof r.log_file, "%s/ckineto_ring.json",
                           setting ? setting : PATH_FOLDER);
    if (n < 0 || (size_t)n >= sizeof r.log_file)
        return kb_fail(err, KINETO_E_ARGUMENT, "ring: the path of dumps is too long");
    return ko_request_output_path(&r, *source, kb_os_pid(), out, err);
}

static kineto_status open_crash_directory(ko_crash_file *f, ko_request_source source,
                                          kineto_error *err)
{
    const char *name;
    char parent[KO_REQUEST_PATH_BYTES];
    int fd = -1;
    if (source == KO_FROM_REQUEST) {
        kineto_status status = ko_request_output_directory(f->trace_path, &fd, &name, err);
        if (status != KINETO_OK)
            return status;
    } else {
        snprintf(parent, sizeof parent, "%s", f->trace_path);
        char *slash = strrchr(parent, '/');
        if (slash)
            slash[slash == parent] = '\0';
        fd = open(slash ? parent : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    }
    return kb_fd_adopt(&f->directory, fd)
               ? KINETO_OK
               : kb_fail_os(err, errno, "cannot open the directory of '%s'", f->trace_path);
}

kineto_status ko_crash_file_open(const kineto_control_options *o, ko_crash_file *f,
                                 kineto_error *err)
{
    ko_request_source source;
    memset(f, 0, sizeof *f);
    f->directory = f->spare = (kb_guarded_fd)KB_GUARDED_FD_NONE;
    kineto_status status = find_trace_path(o, &source, f->trace_path, err);
    if (status == KINETO_OK)
        status = open_crash_directory(f, source, err);
    if (status != KINETO_OK)
        return status;
    /* An unconnected socket: its inode identifies the descriptor as ours. */
    (void)kb_fd_adopt(&f->spare, socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    f->number_at = (uint32_t)snprintf(f->path, sizeof f->path, "%s" SUFFIX, f->trace_path) -
                   (uint32_t)strlen(SUFFIX);
    const char *slash = strrchr(f->path, '/');
    f->name_at = slash ? (uint32_t)(slash + 1 - f->path) : 0;
    return KINETO_OK;
}

/* AT_FDCWD if the program has closed the directory: then the whole path is used. */
static int crash_directory_fd(const ko_crash_file *f)
{
    return kb_fd_still_ours(&f->directory) ? f->directory.fd : AT_FDCWD;
}

void ko_crash_file_close(ko_crash_file *f)
{
    kb_fd_close(&f->directory);
    kb_fd_close(&f->spare);
}

/* Relative to crash_directory_fd. */
static const char *crash_file_name(const ko_crash_file *f)
{
    return f->path + (crash_directory_fd(f) == AT_FDCWD ? 0 : f->name_at);
}

/* Creates PATH.ckpool, or PATH.1.ckpool and so on: no existing file is overwritten. */
static int create_crash_file(ko_crash_file *f)
{
    int directory = crash_directory_fd(f), fd = -1;
    const char *name = crash_file_name(f);
    kb_fd_close(&f->spare); /* the crash may be due to a lack of descriptors */
    for (uint32_t i = 0; i <= MAX_NUMBER && fd < 0; i++) {
        char *at = f->path + f->number_at;
        KB_ASSERT(f->number_at + 2 + sizeof SUFFIX <= sizeof f->path);
        if (i > 0) {
            *at++ = '.';
            *at++ = (char)('0' + i);
        }
        memcpy(at, SUFFIX, sizeof SUFFIX);
        fd = kb_os_create(directory, name, O_RDWR, FILE_MODE);
        if (fd < 0 && errno != EEXIST)
            break;
    }
    return fd;
}

/* ---- writing --------------------------------------------------------------------------------- */

typedef struct output {
    int fd, os_error;
    uint64_t bytes;
} output;

/* Writes all of it, or keeps the first error; later calls are then skipped. */
static void write_bytes_at(output *out, const void *data, size_t bytes, uint64_t at)
{
    for (size_t done = 0; done < bytes && !out->os_error;) {
        ssize_t n = pwrite(out->fd, (const char *)data + done, bytes - done, (off_t)(at + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            out->os_error = n < 0 ? errno : EIO;
        else
            done += (size_t)n;
        out->bytes += n > 0 ? (uint64_t)n : 0;
    }
}

/* Words up to the end of the last entry; the rest was never touched. */
static uint32_t dictionary_words(const kf_pool *pool)
{
    uint32_t at = 1;
    while (at < pool->dictionary_words) {
        uint32_t words = kf_entry_header_words(kb_load_acquire(&pool->dictionary[at]));
        if (words == 0 || words > pool->dictionary_words - at)
            break;
        at += words;
    }
    return at;
}

static bool is_chunk_in_use(const kf_pool *pool, uint32_t index)
{
    return kf_chunk_state_of(&pool->descriptors[index]) != KF_CHUNK_FREE;
}

/* Consecutive chunks in use are written together. */
static void write_chunks(output *out, const kf_pool *pool, const kf_control *header)
{
    uint32_t count = KB_MIN(header->chunk_count, pool->chunk_count), first = 0;
    while (first < count && !out->os_error) {
        uint32_t end = first;
        while (end < count && end - first < RUN_CHUNKS && is_chunk_in_use(pool, end))
            end++;
        write_bytes_at(out, kf_pool_chunk(pool, first), (size_t)(end - first) * KF_CHUNK_BYTES,
                       header->chunks_offset + (uint64_t)first * KF_CHUNK_BYTES);
        KB_ASSERT(end <= count && end - first <= RUN_CHUNKS);
        first = KB_MAX(end, first + 1);
    }
}

/* Written twice: before the chunks, and again with the names of threads. */
static void write_dictionary(output *out, const kf_pool *pool, const kf_control *header)
{
    write_bytes_at(out, pool->dictionary, dictionary_words(pool) * sizeof *pool->dictionary,
                   header->dictionary_offset);
}

/* The control page first: then the file is readable, however much of the rest is written. Thread
 * names come last, since reading them opens files and walks data that the program may have damaged.
 */
static void write_pool(output *out, const kf_pool *pool, const kf_control *header)
{
    if (ftruncate(out->fd, (off_t)header->pool_bytes) != 0)
        out->os_error = errno;
    write_bytes_at(out, header, sizeof *header, 0);
    write_bytes_at(out, pool->descriptors, header->chunk_count * sizeof *pool->descriptors,
                   header->descriptors_offset);
    write_dictionary(out, pool, header);
    write_chunks(out, pool, header);
    kineto_rt_thread_names();
    write_dictionary(out, pool, header);
}

/* ---- the control page ------------------------------------------------------------------------ */

static uint64_t ring_ticks(const kb_clock_snapshot *first, const kb_clock_snapshot *now,
                           uint64_t ring_ns)
{
    int64_t raw_ns = now->monotonic_raw_ns - first->monotonic_raw_ns;
    uint64_t ticks = now->ticks - first->ticks;
    if (raw_ns <= 0 || (uint64_t)raw_ns <= ring_ns)
        return ticks; /* it has not recorded that long yet */
    return (uint64_t)((double)ticks / (double)raw_ns * (double)ring_ns);
}

/* A control page with one window, that of the ring, which has ended; without a recorder. */
static void make_pool_header(kf_control *c, const ko_crash_file *f, const kf_pool *pool)
{
    memcpy(c, pool->control, sizeof *c);
    kb_clock_snapshot now;
    kb_clock_snapshot_take(c->ticks_clock, &now);
    uint32_t n = KB_MIN(c->snapshot_count, KF_MAX_SNAPSHOTS);
    uint64_t end = kb_ticks(c->ticks_clock);
    uint64_t length = n ? ring_ticks(&c->snapshots[0], &now, f->ring_ns) : 0;
    uint64_t from = KB_MAX(f->from_ticks, end - KB_MIN(length, end));
    c->snapshots[KB_MIN(n, KF_MAX_SNAPSHOTS - 1)] = now;
    c->snapshot_count = KB_MIN(n + 1, KF_MAX_SNAPSHOTS);
    c->collector_pid = c->external = 0;
    c->window_lock = 0;
    memset(c->windows, 0, sizeof c->windows);
    c->windows[0] = (kf_window){.state = KF_WINDOW_OPEN,
                                .owner_start_time = c->collector_start_time,
                                .kinds = f->kinds,
                                .held = f->kinds,
                                .start_ticks = from,
                                .end_ticks = end,
                                .keep_newest = 1,
                                .wants = KF_WANT_USUAL};
    memcpy(c->output_path, f->trace_path, KB_MIN(sizeof c->output_path, sizeof f->trace_path));
    for (uint32_t i = 0; i < KF_MAX_SOURCES && c->forgotten_ticks < from; i++)
        c->counters[i][KF_REASON_EVICTED] = 0; /* evicted records were older than the ring */
    KB_ASSERT(c->snapshot_count <= KF_MAX_SNAPSHOTS);
    kf_pool_shorten(c, c->chunk_high);
}

/* Like kineto_process_set_metadata, but without its lock. */
static void add_dump_reason(const ko_crash_file *f, const kf_pool *pool, kineto_string reason)
{
    static const char key[] = "ckineto_dump_reason";
    kf_meta_entry entry = {.process = f->process};
    uint32_t key_size = sizeof key - 1, size = (uint32_t)reason.size;
    kf_part parts[] = {{&entry, sizeof entry},
                       {&key_size, sizeof key_size},
                       {key, key_size},
                       {&size, sizeof size},
                       {reason.data, reason.size}};
    (void)kf_dictionary_add(pool, KF_ENTRY_META, parts, KB_COUNT(parts));
}

int ko_crash_file_write(ko_crash_file *f, const kf_pool *pool, kineto_string reason, bool *made)
{
    static kf_control header; /* too large for the stack of a signal */
    sigset_t size_signal, before;
    sigemptyset(&size_signal);
    sigaddset(&size_signal, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &size_signal, &before);
    output out = {.fd = create_crash_file(f)};
    *made = out.fd >= 0;
    if (*made) {
        add_dump_reason(f, pool, reason);
        make_pool_header(&header, f, pool);
        write_pool(&out, pool, &header);
        close(out.fd);
        *made = out.bytes >= sizeof header;
        if (!*made)
            (void)unlinkat(crash_directory_fd(f), crash_file_name(f), 0);
    } else {
        out.os_error = errno;
    }
    if (out.os_error == EFBIG) {
        struct timespec at_once = {0, 0};
        (void)sigtimedwait(&size_signal, NULL, &at_once);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    f->bytes = out.bytes;
    return out.os_error;
}
