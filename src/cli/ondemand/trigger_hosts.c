/* Which hosts: a list, a file, or those of a job of Slurm, whose own commands are asked. */
#include "cli/ondemand/trigger.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MOST_HOSTS 16384u
#define MOST_BYTES ((size_t)1 << 20) /* of what a command says, and of a file */
#define COMMAND_NS (15 * KC_SECOND_NS)

extern char **environ;

void kc_names_free(kc_names *names)
{
    for (size_t i = 0; i < names->count; i++)
        free(names->data[i]);
    kb_vec_free(names);
}

static bool has_name(const kc_names *names, kineto_string name)
{
    for (size_t i = 0; i < names->count; i++)
        if (kb_string_equal(kb_string(names->data[i]), name))
            return true;
    return false;
}

static kineto_status add_name(kc_names *names, kineto_string name, kineto_error *err)
{
    if (has_name(names, name))
        return KINETO_OK;
    if (names->count == MOST_HOSTS)
        return kb_fail(err, KINETO_E_LIMIT, "more than %u hosts", MOST_HOSTS);
    char *copy = strndup(name.data, name.size);
    if (copy && kb_vec_push(names, copy))
        return KINETO_OK;
    free(copy);
    return kb_fail(err, KINETO_E_MEMORY, "out of memory for names of hosts");
}

/* Names between commas, blanks and line ends; # begins a comment. */
static kineto_status split(const char *text, kc_names *out, kineto_error *err)
{
    kineto_status status = KINETO_OK;
    while (status == KINETO_OK && *text) {
        text += strspn(text, ", \t\r\n");
        if (*text == '#')
            text += strcspn(text, "\n");
        size_t size = strcspn(text, ", \t\r\n#");
        if (size)
            status = add_name(out, (kineto_string){text, size}, err);
        text += size;
    }
    return status;
}

static kineto_status read_list(const char *path, kc_names *out, kineto_error *err)
{
    char *text = malloc(MOST_BYTES);
    if (!text)
        return kb_fail(err, KINETO_E_MEMORY, "out of memory for names of hosts");
    errno = 0;
    size_t bytes = kb_os_read_file(path, text, MOST_BYTES);
    kineto_status status = KINETO_OK;
    if (bytes == MOST_BYTES - 1)
        status = kb_fail(err, KINETO_E_LIMIT, "'%s' is too long for a list of hosts", path);
    else if (!bytes && errno)
        status = kb_fail_os(err, errno, "cannot read '%s'", path);
    else
        status = split(text, out, err);
    free(text);
    return status;
}

kineto_status kc_hosts_parse(const char *text, kc_names *out, kineto_error *err)
{
    kineto_status status = text[0] == '@' ? read_list(text + 1, out, err) : split(text, out, err);
    if (status == KINETO_OK && !out->count)
        status = kb_fail(err, KINETO_E_ARGUMENT, "'%s' names no host", text);
    if (status != KINETO_OK)
        kc_names_free(out);
    return status;
}

/* ---- Slurm's commands ------------------------------------------------------------------------ */

static kineto_status start_command(const char *const *argv, int out_fd, pid_t *pid,
                                   kineto_error *err)
{
    posix_spawn_file_actions_t actions;
    if (posix_spawn_file_actions_init(&actions) != 0)
        return kb_fail(err, KINETO_E_MEMORY, "out of memory to run %s", argv[0]);
    posix_spawn_file_actions_adddup2(&actions, out_fd, STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    int os_error =
        posix_spawnp(pid, argv[0], &actions, NULL, (char *const *)(uintptr_t)argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (os_error == ENOENT)
        return kb_fail(err, KINETO_E_NOT_FOUND,
                       "'%s' was not found: --slurm needs Slurm's commands here; --hosts and --job "
                       "do without",
                       argv[0]);
    return os_error ? kb_fail_os(err, os_error, "cannot run '%s'", argv[0]) : KINETO_OK;
}

/* All that it says; false: it took too long, or says too much. */
static bool read_all(int fd, char *out)
{
    uint64_t until_ns = kb_clock_ns(CLOCK_MONOTONIC) + COMMAND_NS;
    size_t used = 0;
    for (;;) {
        uint64_t now_ns = kb_clock_ns(CLOCK_MONOTONIC);
        struct pollfd p = {.fd = fd, .events = POLLIN};
        out[used] = '\0';
        if (now_ns >= until_ns || used == MOST_BYTES - 1)
            return false;
        if (poll(&p, 1, (int)((until_ns - now_ns) / KC_MS_NS) + 1) <= 0)
            continue;
        ssize_t n = read(fd, out + used, MOST_BYTES - 1 - used);
        if (n == 0)
            return true;
        if (n < 0 && errno != EINTR)
            return false;
        used += (size_t)KB_MAX(n, 0);
    }
}

static kineto_status finish_command(const char *name, pid_t pid, bool read, kineto_error *err)
{
    int status = 0;
    if (!read)
        (void)kill(pid, SIGKILL);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    if (!read)
        return kb_fail(err, KINETO_E_BUSY, "'%s' did not end within %d s", name,
                       (int)(COMMAND_NS / KC_SECOND_NS));
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return KINETO_OK;
    return kb_fail(err, KINETO_E_NOT_FOUND, "'%s' failed: what it says stands above", name);
}

/* @param out  receives what it says, to be freed. */
static kineto_status run_command(const char *const *argv, char **out, kineto_error *err)
{
    int ends[2];
    pid_t pid;
    *out = malloc(MOST_BYTES);
    if (!*out || pipe2(ends, O_CLOEXEC) != 0) {
        free(*out);
        *out = NULL;
        return kb_fail(err, KINETO_E_MEMORY, "cannot run '%s'", argv[0]);
    }
    kineto_status status = start_command(argv, ends[1], &pid, err);
    close(ends[1]);
    if (status == KINETO_OK) {
        bool whole = read_all(ends[0], *out);
        status = finish_command(argv[0], pid, whole, err);
    }
    close(ends[0]);
    if (status != KINETO_OK) {
        free(*out);
        *out = NULL;
    }
    return status;
}

/* 4711, 4711_3 of an array, 4711+1 of a heterogeneous job. */
static bool is_job(const char *job)
{
    return isdigit((unsigned char)job[0]) && strspn(job, "0123456789_+") == strlen(job) &&
           strlen(job) < 64;
}

/* "NUMBER NODES" in one line: one job, and it runs. A large one has kilobytes of nodes. */
static kineto_status read_job(const char *job, char *said, char **nodes, int64_t *number,
                              kineto_error *err)
{
    char *end;
    *number = strtoll(said, &end, 10);
    *nodes = end + strspn(end, " \t");
    char *rest = *nodes + strcspn(*nodes, " \t\r\n");
    if (end == said || rest == *nodes)
        return kb_fail(err, KINETO_E_NOT_FOUND, "job %s has no hosts: does it run?", job);
    if (rest[strspn(rest, " \t\r\n")])
        return kb_fail(err, KINETO_E_ARGUMENT,
                       "'%s' is several jobs: name one, as %s_1 of an array", job, job);
    *rest = '\0';
    return KINETO_OK;
}

static kineto_status expand(char *nodes, kc_names *out, kineto_error *err)
{
    char *said;
    const char *const argv[] = {"scontrol", "show", "hostnames", nodes, NULL};
    kineto_status status = run_command(argv, &said, err);
    if (status == KINETO_OK)
        status = split(said, out, err);
    free(said);
    return status;
}

kineto_status kc_slurm_hosts(const char *job, kc_names *out, int64_t *number, kineto_error *err)
{
    char name[64];
    char *said, *nodes;
    if (!is_job(job))
        return kb_fail(err, KINETO_E_ARGUMENT, "'%s' is no number of a job of Slurm", job);
    snprintf(name, sizeof name, "%s", job);
    const char *const argv[] = {
        "squeue", "--noheader", "--states=RUNNING", "--format=%A %N", "--jobs", name, NULL};
    kineto_status status = run_command(argv, &said, err);
    if (status != KINETO_OK)
        return status;
    status = read_job(job, said, &nodes, number, err);
    if (status == KINETO_OK)
        status = expand(nodes, out, err);
    free(said);
    return status;
}
