/* Our client of Dynolog's wire as a program: one that the scripted daemon of conformance.py talks
 * to, or many, for the daemon to serve.
 *
 * usage: control_dyno_client [--interval-ms MS] [--processes N] [--busy]
 * Each process writes a line "text PID BYTES TEXT" for every configuration it gets, a text cut to
 * 300 bytes and its line ends made '|'; and once the standard input is closed, "end PID RUN_US
 * STOP_US FDS": how long the longest call and stopping took. */
#include "base/base.h"
#include "ondemand/dynolog/dyno.h"

#include <dirent.h>
#include <poll.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef struct setup {
    uint64_t interval_ns;
    uint32_t processes;
    bool busy;
} setup;

static uint64_t now(void) { return kb_clock_ns(CLOCK_MONOTONIC); }

/* Now, less what this thread has waited for a processor: how long a call takes is its own doing then. */
static int64_t now_of_its_own(void)
{
    char text[128];
    unsigned long long ran = 0, waited = 0;
    if (!kb_os_read_file("/proc/thread-self/schedstat", text, sizeof text) ||
        sscanf(text, "%llu %llu", &ran, &waited) != 2)
        waited = 0;
    return (int64_t)now() - (int64_t)waited;
}

/* The two are not read at the same moment: less than nothing is nothing. */
static uint64_t since(int64_t before)
{
    int64_t after = now_of_its_own();
    return after > before ? (uint64_t)(after - before) : 0;
}

/* In one piece, so that lines of many processes in one pipe stay whole. */
static void say(const char *line, int size)
{
    if (write(STDOUT_FILENO, line, (size_t)size) != size)
        _exit(3);
}

static void say_text(kineto_string text)
{
    char line[512];
    int n = snprintf(line, sizeof line, "text %d %zu %.*s", (int)getpid(), text.size,
                     (int)KB_MIN(text.size, (size_t)300), text.data);
    for (int i = 0; i < n; i++)
        if (line[i] == '\n')
            line[i] = '|';
    line[n] = '\n';
    say(line, n + 1);
}

static int descriptors(void)
{
    int count = 0;
    DIR *all = opendir("/proc/self/fd");
    while (all && readdir(all))
        count++;
    if (all)
        closedir(all);
    return count;
}

static int run(const setup *s)
{
    ko_dyno_client *c = NULL;
    kineto_error err = {0};
    uint64_t longest = 0, wake = 0;
    char line[128];
    if (ko_dyno_client_create(kb_setting("KINETO_IPC_SOCKET_DIR"), &c, &err) != KINETO_OK) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    for (;;) {
        kineto_string text;
        int64_t before = now_of_its_own();
        (void)ko_dyno_client_run(c, now(), s->busy, s->interval_ns, &text, &wake, NULL);
        longest = KB_MAX(longest, since(before));
        uint64_t after = now();
        if (text.size)
            say_text(text);
        struct pollfd p[] = {{STDIN_FILENO, POLLIN, 0}, {ko_dyno_client_fd(c), POLLIN, 0}};
        uint64_t wait = wake > after ? (wake - after + 999999) / 1000000 : 0;
        if (poll(p, 2, (int)KB_MIN(wait, UINT64_C(60000))) > 0 && p[0].revents)
            break;
    }
    int64_t before = now_of_its_own();
    int fds = descriptors();
    ko_dyno_client_destroy(c);
    int n = snprintf(line, sizeof line, "end %d %llu %llu %d\n", (int)getpid(),
                     (unsigned long long)longest / 1000,
                     (unsigned long long)since(before) / 1000, fds);
    say(line, n);
    return 0;
}

static int run_many(const setup *s)
{
    int failed = 0, status;
    for (uint32_t i = 0; i < s->processes; i++) {
        pid_t child = fork();
        if (child == 0)
            _exit(run(s));
        failed |= child < 0;
    }
    while (wait(&status) > 0)
        failed |= status;
    return failed != 0;
}

int main(int argc, char **argv)
{
    setup s = {.interval_ns = 20000000};
    for (int i = 1; i < argc; i++) {
        unsigned long value = i + 1 < argc ? strtoul(argv[i + 1], NULL, 10) : 0;
        if (strcmp(argv[i], "--busy") == 0)
            s.busy = true;
        else if (strcmp(argv[i], "--interval-ms") == 0)
            s.interval_ns = value * 1000000;
        else if (strcmp(argv[i], "--processes") == 0)
            s.processes = (uint32_t)value;
    }
    return s.processes ? run_many(&s) : run(&s);
}
