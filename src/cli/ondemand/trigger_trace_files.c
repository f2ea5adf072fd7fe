/* Where traces are written, when they are complete, and moving them to --output.
 *
 * A process writes the trace of a request only below one directory (KINETO_ONDEMAND_TRACE_DIR, else
 * /tmp). With --wait a trace that is wanted elsewhere is first written there under a name that
 * cannot be guessed, and then moved. */
#include "cli/ondemand/trigger.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define CHECK_PERIOD_NS (KB_SECOND_NS / 10)
/* Times of files lag by up to one tick of the kernel. */
#define FILE_TICK_NS INT64_C(50000000)

/* ---- choosing -------------------------------------------------------------------------------- */

static void find_allowed_directory(uint32_t pid, char *out, size_t size)
{
    if (!kc_process_setting(pid, "KINETO_ONDEMAND_TRACE_DIR", out, size) || out[0] != '/')
        snprintf(out, size, "/tmp");
}

/* The part of the name after the place of the pid, which determines the format. libkineto writes
 * only JSON, and inserts pids only before ".json". */
static const char *find_extension(const char *path, bool json)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    return json && !strstr(name, ".json") ? ".json" : name + ko_request_output_pid_place(name);
}

/* The same for all processes of one command, so that they can share a request. */
static uint64_t choose_hidden_number(void)
{
    static uint64_t number;
    if (!number && getrandom(&number, sizeof number, GRND_NONBLOCK) != (ssize_t)sizeof number)
        number = kb_monotonic_ns() ^ (uint64_t)getpid() << 32;
    return number;
}

/* @param n result of snprintf; the target is FAILED if the path was cut. */
static bool check_path_fits(kc_target *t, int n)
{
    bool ok = n > 0 && n < (int)KO_REQUEST_PATH_BYTES;
    if (!ok)
        kc_target_fail(t, "the path of its trace would be too long");
    return ok;
}

/* A name in the allowed directory that cannot be guessed; the trace is moved to t->wanted
 * afterwards. */
static bool choose_hidden_path(const kc_request *request, kc_target *t, const char *directory,
                               bool json)
{
    size_t size = strlen(directory);
    while (size > 0 && directory[size - 1] == '/')
        size--;
    int n = snprintf(t->asked_path, sizeof t->asked_path, "%.*s/ckineto-%016llx%s", (int)size,
                     directory, (unsigned long long)choose_hidden_number(),
                     find_extension(request->out, json));
    return check_path_fits(t, n) &&
           check_path_fits(t, kc_path_with_pid(request->out, t->pid, t->wanted) ? 1 : 0);
}

static bool choose_direct_path(kc_target *t, const char *path, bool json)
{
    const char *slash = strrchr(path, '/');
    bool named = strstr(slash ? slash : path, ".json");
    return check_path_fits(t, snprintf(t->asked_path, sizeof t->asked_path, "%s%s", path,
                                       json && !named ? ".json" : ""));
}

/* Is `out` below the allowed directory? Then *path names it through that directory as the process
 * knows it, which may be a link. */
static bool is_path_allowed(const char *out, const char *allowed,
                            char path[2 * KO_REQUEST_PATH_BYTES])
{
    char real[PATH_MAX];
    size_t size = strlen(allowed);
    if (!realpath(allowed, real) || !kc_is_below(out, real))
        return false;
    while (size > 0 && allowed[size - 1] == '/')
        size--;
    snprintf(path, 2 * KO_REQUEST_PATH_BYTES, "%.*s%s", (int)size, allowed,
             out + (strcmp(real, "/") == 0 ? 0 : strlen(real)));
    return true;
}

/* As the process sees it, which may be in a container. A process without a control socket could not
 * report a missing directory. False: the target is FAILED. */
static bool check_directory_exists(kc_target *t)
{
    char root[32], path[KO_REQUEST_PATH_BYTES + sizeof root];
    const char *slash = strrchr(t->asked_path, '/');
    struct stat st;
    snprintf(root, sizeof root, "/proc/%u/root", t->pid);
    snprintf(path, sizeof path, "%s%.*s/", root, (int)(slash - t->asked_path), t->asked_path);
    if (access(root, X_OK) != 0 || stat(path, &st) == 0 || (errno != ENOENT && errno != ENOTDIR))
        return true;
    kc_target_fail(t, "the directory '%.*s' does not exist for this process; create it first",
                   (int)(slash - t->asked_path), t->asked_path);
    return false;
}

/* In this order: --output directly, a hidden path that is moved later (--wait), the default path of
 * the process. */
bool kc_files_choose(const kc_trigger_run *run, kc_target *t, bool wire)
{
    KB_ASSERT(t->state == KC_FOUND);
    const kc_request *request = run->request;
    char allowed[KO_REQUEST_PATH_BYTES], usual[KO_REQUEST_PATH_BYTES + 32];
    char path[2 * KO_REQUEST_PATH_BYTES];
    bool chosen, json = wire && !kc_is_snapshot(request);
    find_allowed_directory(t->pid, allowed, sizeof allowed);
    snprintf(usual, sizeof usual, "%s/%s", allowed, kc_default_name(request));
    if (is_path_allowed(request->out, allowed, path))
        chosen = choose_direct_path(t, path, json);
    else if (request->has_wait)
        chosen = choose_hidden_path(request, t, allowed, json);
    else if (!request->has_out)
        chosen = choose_direct_path(t, usual, json);
    else {
        kc_target_fail(t,
                       "it writes traces only below '%s', not '%s'; name a file there with --output, "
                       "or let the trace be moved with --wait",
                       allowed, request->out);
        return false;
    }
    if (chosen && wire)
        chosen = check_directory_exists(t);
    return chosen && check_path_fits(t, kc_path_with_pid(t->asked_path, t->pid, t->path) ? 1 : 0);
}

/* ---- moving ---------------------------------------------------------------------------------- */

/* False with errno: a read or write failed. */
static bool copy_file_bytes(int from, int to)
{
    char buffer[1 << 16];
    ssize_t n;
    while ((n = read(from, buffer, sizeof buffer)) > 0)
        for (ssize_t done = 0; done < n;) {
            ssize_t written = kb_os_write_quiet(to, buffer + done, (size_t)(n - done));
            if (written < 0 && errno != EINTR)
                return false;
            done += KB_MAX(written, 0);
        }
    return n == 0;
}

/* Copy to a temporary file and rename it. */
static kineto_status copy_trace_file(int from, const char *to, kineto_error *err)
{
    /* a temporary file in the same directory */
    kb_atomic_file *replacement;
    kineto_status status = kb_atomic_file_open(to, &replacement, err);
    if (status != KINETO_OK)
        return status;
    int fd = open(kb_atomic_file_path(replacement), O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
    bool copied = fd >= 0 && copy_file_bytes(from, fd);
    int os_error = errno;
    if (fd >= 0)
        close(fd);
    if (copied)
        return kb_atomic_file_commit(replacement, err);
    kb_atomic_file_abort(replacement);
    return kb_fail_os(err, os_error, "cannot write '%s'", to);
}

/* Rename, or copy if the file belongs to another user or is on another file system. A file that is
 * not regular is refused, and links are not followed. */
static kineto_status move_trace_file(const char *from, const char *to, kineto_error *err)
{
    struct stat st;
    int fd = open(from, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return kb_fail_os(err, errno, "cannot read '%s'", from);
    kineto_status status = KINETO_OK;
    bool renamed = false;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
        status = kb_fail(err, KINETO_E_PERMISSION, "'%s' is not a regular file", from);
    else if (st.st_uid != geteuid() || rename(from, to) != 0)
        status = copy_trace_file(fd, to, err);
    else
        renamed = true;
    if (status == KINETO_OK && !renamed)
        (void)unlink(from);
    close(fd);
    return status;
}

/* DONE first: moving or checking the file may then turn it into FAILED, or into FOUND for a retry.
 */
void kc_files_done(const kc_trigger_run *run, kc_target *t)
{
    struct stat st;
    kineto_error err;
    t->state = KC_DONE;
    if (t->wanted[0]) {
        if (move_trace_file(t->path, t->wanted, &err) != KINETO_OK) {
            kc_target_fail(t, "its trace is '%s', and could not be moved to '%s': %s", t->path,
                           t->wanted, err.message);
            return;
        }
        memcpy(t->path, t->wanted, sizeof t->path);
    }
    if (stat(t->path, &st) == 0)
        t->bytes = (uint64_t)st.st_size;
    kc_trace_check(run, t);
}

/* ---- looking for them ------------------------------------------------------------------------ */

/* Was it written since then? libkineto writes a temporary file and renames it, so that an existing
 * file is complete. */
static bool is_file_new(const char *path, int64_t since_ns)
{
    struct stat st;
    if (lstat(path, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size == 0)
        return false;
    return (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec >= since_ns - FILE_TICK_NS;
}

/* Where libkineto writes in other cases: the pid inserted before ".json", and its default path in
 * /tmp. */
static void make_fallback_paths(const kc_request *request, const kc_target *t,
                                char out[2][KO_REQUEST_PATH_BYTES])
{
    const char *at = strstr(t->asked_path, ".pt.trace.json");
    if (!at)
        at = strstr(t->asked_path, ".json");
    snprintf(out[0], KO_REQUEST_PATH_BYTES, "%.*s_%u%s", (int)(at ? at - t->asked_path : 0),
             t->asked_path, t->pid, at ? at : "");
    snprintf(out[1], KO_REQUEST_PATH_BYTES, "/tmp/%s_%u.%s",
             kc_is_snapshot(request) ? "memory_snapshot" : "libkineto_activities", t->pid,
             kc_is_snapshot(request) ? "pickle" : "json");
}

/* True: t->path is the complete trace. */
static bool find_trace_file(const kc_request *request, kc_target *t)
{
    char others[2][KO_REQUEST_PATH_BYTES];
    if (is_file_new(t->path, t->asked_real_ns))
        return true;
    make_fallback_paths(request, t, others);
    for (size_t i = 0; i < KB_COUNT(others); i++)
        if (is_file_new(others[i], t->asked_real_ns)) {
            memcpy(t->path, others[i], sizeof t->path);
            return true;
        }
    return false;
}

/* When the window should be over, as far as that is known. */
static uint64_t estimate_end_ns(const kc_trigger_run *run, const kc_target *t)
{
    if (kc_by_iteration(run->request))
        return t->busy_ns ? t->busy_ns : UINT64_MAX / 2;
    uint64_t begins_ns = (uint64_t)kc_request_lead_ns(run->request, true);
    if (kc_start_of(run, t))
        begins_ns = (uint64_t)KB_MAX(run->start_ns - t->asked_real_ns, 0);
    return t->asked_ns + begins_ns + kc_request_length_ns(run->request);
}

/* The process reports that it is not busy any more, and has had time to write. */
static bool has_given_up(const kc_trigger_run *run, const kc_target *t)
{
    return t->via == KC_VIA_OWN && t->idle_ns > t->busy_ns &&
           t->idle_ns > estimate_end_ns(run, t) + KC_APPEAR_TIMEOUT_NS;
}

/* The trace is complete, the process has ended, or it has given up. */
static void check_target_file(const kc_trigger_run *run, kc_target *t)
{
    bool ended =
        t->born &&
        !kb_os_alive(t->pid,
                     t->born); /* checked first: the file may be written just before the end */
    if (find_trace_file(run->request, t))
        kc_files_done(run, t);
    else if (ended)
        kc_target_fail(t, "it ended before its trace was written");
    else if (has_given_up(run, t))
        kc_target_fail(t,
                       t->busy_ns ? "it traced, but did not write '%s'; see its messages"
                                  : "it has the request, but did not trace: '%s' does not exist; "
                                    "see its messages",
                       t->path);
}

/* Targets with a control socket report completion themselves. */
void kc_files_poll(kc_trigger_run *run)
{
    if (!run->request->has_wait || kb_monotonic_ns() < run->files_again_ns)
        return;
    run->files_again_ns = kb_monotonic_ns() + CHECK_PERIOD_NS;
    for (size_t i = 0; i < run->targets.count; i++) {
        kc_target *t = run->targets.data[i];
        if (t->via != KC_VIA_SOCKET && t->state > KC_FOUND && !kc_target_over(t))
            check_target_file(run, t);
    }
}
