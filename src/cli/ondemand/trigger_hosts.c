/* The hosts of a trigger: a list, a file, or the hosts of a Slurm job, which Slurm's own commands
 * report. */
#include "cli/ondemand/trigger.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MAX_HOSTS          16384u
#define MAX_TEXT_BYTES     ((size_t)1 << 20) /* of the output of a command, and of a file */

extern char **environ;

void kc_names_free(kc_names *names)
{
    for (size_t i = 0; i < names->count; i++)
        free(names->data[i]);
    kb_vec_free(names);
}

static bool has_host_name(const kc_names *names, kineto_string name)
{
    for (size_t i = 0; i < names->count; i++)
        if (kb_string_equal(kb_string(names->data[i]), name))
            return true;
    return false;
}

/* Names that are listed already are skipped. */
static kineto_status append_host_name(kc_names *names, kineto_string name, kineto_error *err)
{
    if (has_host_name(names, name))
        return KINETO_OK;
    if (names->count == MAX_HOSTS)
        return kb_fail(err, KINETO_E_LIMIT, "more than %u hosts", MAX_HOSTS);
    char *copy = strndup(name.data, name.size);
    if (copy && kb_vec_push(names, copy))
        return KINETO_OK;
    free(copy);
    return kb_fail_memory(err, "names of hosts");
}

/* Names are separated by commas, blanks and line breaks; # begins a comment. */
static kineto_status split_host_names(const char *text, kc_names *out, kineto_error *err)
{
    kineto_status status = KINETO_OK;
    while (status == KINETO_OK && *text) {
        text += strspn(text, ", \t\r\n");
        if (*text == '#')
            text += strcspn(text, "\n");
        size_t size = strcspn(text, ", \t\r\n#");
        if (size)
            status = append_host_name(out, (kineto_string){text, size}, err);
        text += size;
    }
    return status;
}

/* @FILE: one name per line. */
static kineto_status read_host_file(const char *path, kc_names *out, kineto_error *err)
{
    char *text = malloc(MAX_TEXT_BYTES);
    if (!text)
        return kb_fail_memory(err, "names of hosts");
    errno = 0;
    size_t bytes = kb_os_read_file(path, text, MAX_TEXT_BYTES);
    kineto_status status = KINETO_OK;
    if (bytes == MAX_TEXT_BYTES - 1)
        status = kb_fail(err, KINETO_E_LIMIT, "'%s' is too long for a list of hosts", path);
    else if (!bytes && errno)
        status = kb_fail_os(err, errno, "cannot read '%s'", path);
    else
        status = split_host_names(text, out, err);
    free(text);
    return status;
}

/* A list without names is an error. */
kineto_status kc_hosts_parse(const char *text, kc_names *out, kineto_error *err)
{
    kineto_status status =
        text[0] == '@' ? read_host_file(text + 1, out, err) : split_host_names(text, out, err);
    if (status == KINETO_OK && !out->count)
        status = kb_fail(err, KINETO_E_ARGUMENT, "'%s' names no host", text);
    if (status != KINETO_OK)
        kc_names_free(out);
    return status;
}

/* ---- Slurm's commands ------------------------------------------------------------------------ */

/* Its stdout goes to out_fd, stdin is empty; stderr is ours. */
static kineto_status spawn_command(const char *const *argv, int out_fd, pid_t *pid,
                                   kineto_error *err)
{
    posix_spawn_file_actions_t actions;
    if (posix_spawn_file_actions_init(&actions) != 0)
        return kb_fail(err, KINETO_E_MEMORY, "run %s: out of memory", argv[0]);
    posix_spawn_file_actions_adddup2(&actions, out_fd, STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    int os_error =
        posix_spawnp(pid, argv[0], &actions, NULL, (char *const *)(uintptr_t)argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (os_error == ENOENT)
        return kb_fail(err, KINETO_E_NOT_FOUND,
                       "'%s' was not found: --slurm needs Slurm's commands on this host; --hosts "
                       "and --job do not",
                       argv[0]);
    return os_error ? kb_fail_os(err, os_error, "cannot run '%s'", argv[0]) : KINETO_OK;
}

/* Read until the command closes its output. False: it took too long, or wrote too much. */
static bool read_command_output(int fd, char *out)
{
    uint64_t until_ns = kb_monotonic_ns() + KC_HOSTS_COMMAND_TIMEOUT_NS;
    size_t used = 0;
    for (;;) {
        uint64_t now_ns = kb_monotonic_ns();
        struct pollfd p = {.fd = fd, .events = POLLIN};
        out[used] = '\0';
        if (now_ns >= until_ns || used == MAX_TEXT_BYTES - 1)
            return false;
        if (poll(&p, 1, (int)((until_ns - now_ns) / KC_MS_NS) + 1) <= 0)
            continue;
        ssize_t n = read(fd, out + used, MAX_TEXT_BYTES - 1 - used);
        if (n == 0)
            return true;
        if (n < 0 && errno != EINTR)
            return false;
        used += (size_t)KB_MAX(n, 0);
    }
}

/* @param read its output was read completely; else the command is killed. */
static kineto_status wait_for_command(const char *name, pid_t pid, bool read, kineto_error *err)
{
    int status = 0;
    if (!read)
        (void)kill(pid, SIGKILL);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    if (!read)
        return kb_fail(err, KINETO_E_BUSY, "'%s' did not end within %d s", name,
                       (int)(KC_HOSTS_COMMAND_TIMEOUT_NS / KB_SECOND_NS));
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return KINETO_OK;
    return kb_fail(err, KINETO_E_NOT_FOUND, "'%s' failed: see its messages above", name);
}

/* Run a command. @param out receives its output, to be freed; NULL on failure. */
static kineto_status capture_command(const char *const *argv, char **out, kineto_error *err)
{
    int ends[2];
    pid_t pid;
    *out = malloc(MAX_TEXT_BYTES);
    if (!*out || pipe2(ends, O_CLOEXEC) != 0) {
        free(*out);
        *out = NULL;
        return kb_fail(err, KINETO_E_MEMORY, "cannot run '%s'", argv[0]);
    }
    kineto_status status = spawn_command(argv, ends[1], &pid, err);
    close(ends[1]);
    if (status == KINETO_OK) {
        bool whole = read_command_output(ends[0], *out);
        status = wait_for_command(argv[0], pid, whole, err);
    }
    close(ends[0]);
    if (status != KINETO_OK) {
        free(*out);
        *out = NULL;
    }
    return status;
}

/* 4711, 4711_3 of an array, 4711+1 of a heterogeneous job. */
static bool is_job_name(const char *job)
{
    return kb_is_digit(job[0]) && strspn(job, "0123456789_+") == strlen(job) &&
           strlen(job) < 64;
}

/* "NUMBER NODES" in one line: exactly one running job. NODES may be kilobytes; *nodes points into
 * `line`. */
static kineto_status parse_job_line(const char *job, char *line, char **nodes, int64_t *number,
                                    kineto_error *err)
{
    char *end;
    *number = strtoll(line, &end, 10);
    *nodes = end + strspn(end, " \t");
    char *rest = *nodes + strcspn(*nodes, " \t\r\n");
    if (end == line || rest == *nodes)
        return kb_fail(err, KINETO_E_NOT_FOUND, "job %s has no hosts: does it run?", job);
    if (rest[strspn(rest, " \t\r\n")])
        return kb_fail(err, KINETO_E_ARGUMENT,
                       "'%s' is several jobs: name one, for example %s_1 of an array", job, job);
    *rest = '\0';
    return KINETO_OK;
}

/* "node[1-3]" as single names, by scontrol. */
static kineto_status expand_node_list(char *nodes, kc_names *out, kineto_error *err)
{
    char *output;
    const char *const argv[] = {"scontrol", "show", "hostnames", nodes, NULL};
    kineto_status status = capture_command(argv, &output, err);
    if (status == KINETO_OK)
        status = split_host_names(output, out, err);
    free(output);
    return status;
}

/* squeue gives the number and the compressed node list of a running job, scontrol expands it. */
kineto_status kc_slurm_hosts(const char *job, kc_names *out, int64_t *number, kineto_error *err)
{
    char name[64];
    char *output, *nodes;
    if (!is_job_name(job))
        return kb_fail(err, KINETO_E_ARGUMENT, "'%s' is not the number of a Slurm job", job);
    snprintf(name, sizeof name, "%s", job);
    const char *const argv[] = {
        "squeue", "--noheader", "--states=RUNNING", "--format=%A %N", "--jobs", name, NULL};
    kineto_status status = capture_command(argv, &output, err);
    if (status != KINETO_OK)
        return status;
    status = parse_job_line(job, output, &nodes, number, err);
    if (status == KINETO_OK)
        status = expand_node_list(nodes, out, err);
    free(output);
    return status;
}
