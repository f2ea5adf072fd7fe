/* A program to be recorded: does what its arguments say, one after the other.
 *   ranges N      N times an "outer" range around an "inner" one with its number
 *   threads T N   the same on T threads at once
 *   fork N        a child records N pairs and ends; waits for it
 *   orphan N      a child goes on after us: sleeps, records N pairs
 *   elsewhere N   a child in another pid namespace does, and what it executes; 77: not allowed here
 *   daemon N      a child of a child in a session of its own records N pairs, and lives for 3 s more
 *   user ID       give up all privileges for those of this user and group
 *   space MB      the address space is so large from here on
 *   root PATH     this is the root directory from here on
 *   exec PROGRAM  become this program, with the arguments that follow
 *   scribble N    write over the first N bytes of the buffer that the recorder shares with us
 *   pause US      between pairs from here on
 *   files N       at most N may be open from here on
 *   print TEXT    to stdout, flushed
 *   sleep MS, exit N, _exit N, abort, kill N (signal itself), segv
 *   wait FILE     until the file exists
 */
#include <ckineto/record.h>

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

KINETO_SITE(outer, KINETO_KIND_USER_ANNOTATION, "outer");
KINETO_SITE_ARGS(inner, KINETO_KIND_CPU_OP, "inner", {"i", KINETO_ARG_INT});

static pid_t parent;
static useconds_t pause_us;

static void ranges(long count)
{
    for (long i = 0; i < count; i++) {
        kineto_range o = kineto_range_begin(&outer);
        kineto_value value = {.i = i};
        kineto_range r = kineto_range_begin_args(&inner, &value);
        kineto_range_end(r);
        kineto_range_end(o);
        if (pause_us)
            usleep(pause_us);
    }
}

static void allow_files(long count)
{
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = (rlim_t)count;
    setrlimit(RLIMIT_NOFILE, &limit);
}

static void *thread_main(void *count)
{
    ranges(*(const long *)count);
    return NULL;
}

static void threads(long threads_count, long count)
{
    pthread_t ids[64];
    long started = 0;
    while (started < threads_count && started < 64 &&
           pthread_create(&ids[started], NULL, thread_main, &count) == 0)
        started++;
    for (long i = 0; i < started; i++)
        pthread_join(ids[i], NULL);
}

static void in_child(long count, int stay)
{
    pid_t pid = fork();
    if (pid == 0) {
        if (stay)
            usleep(600000);
        ranges(count);
        _exit(0);
    }
    if (pid > 0 && !stay)
        waitpid(pid, NULL, 0);
}

/* The child is the first process there, and looks for its files in our /proc. */
static void in_namespace(const char *count)
{
    pid_t pid = fork();
    int status = 0;
    if (pid == 0) {
        if (unshare(CLONE_NEWUSER | CLONE_NEWPID) != 0)
            _exit(77);
        pid = fork();
        if (pid == 0) {
            ranges(strtol(count, NULL, 10));
            execl("/proc/self/exe", "elsewhere", "ranges", count, "sleep", "300", NULL);
            _exit(77);
        }
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status)
        _exit(77);
    if (getpid() != parent)
        _exit(0);
}

static void leave_daemon(long count)
{
    pid_t pid = fork();
    if (pid == 0) {
        setsid();
        if (fork() == 0) {
            ranges(count);
            usleep(3000000);
        }
        _exit(0);
    }
    waitpid(pid, NULL, 0);
}

static void limit_space(long mib)
{
    struct rlimit limit = {(rlim_t)mib << 20, (rlim_t)mib << 20};
    setrlimit(RLIMIT_AS, &limit);
}

static void scribble(long bytes)
{
    char line[600], access[8];
    unsigned long from, to;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps))
        if (sscanf(line, "%lx-%lx %4s", &from, &to, access) == 3 && access[1] == 'w' &&
            strstr(line, "/ckineto-") && strstr(line, ".pool"))
            memset((void *)from, 0x5a, (size_t)bytes < to - from ? (size_t)bytes : to - from);
    if (maps)
        fclose(maps);
}

/* 77: not allowed here. */
static void change(const char *verb, const char *text)
{
    bool ok = true;
    if (strcmp(verb, "user") == 0)
        ok = setgid((gid_t)atoi(text)) == 0 && setuid((uid_t)atoi(text)) == 0;
    else if (strcmp(verb, "root") == 0)
        ok = chroot(text) == 0 && chdir("/") == 0;
    else if (strcmp(verb, "space") == 0)
        limit_space(atol(text));
    if (!ok)
        _exit(77);
}

static void end(const char *how, int number)
{
    if (strcmp(how, "exit") == 0)
        exit(number);
    if (strcmp(how, "_exit") == 0)
        _exit(number);
    if (strcmp(how, "abort") == 0)
        abort();
    if (strcmp(how, "kill") == 0)
        kill(getpid(), number);
    if (strcmp(how, "segv") == 0) {
        signal(SIGSEGV, SIG_DFL); /* a sanitizer would answer it */
        raise(SIGSEGV);
    }
}

int main(int argc, char **argv)
{
    parent = getpid();
    for (int i = 1; i < argc; i += 2) {
        const char *verb = argv[i];
        const char *text = i + 1 < argc ? argv[i + 1] : "";
        long number = strtol(text, NULL, 10);
        end(verb, (int)number);
        change(verb, text);
        if (strcmp(verb, "exec") == 0 && i + 1 < argc) {
            execv(text, argv + i + 1);
            return 77;
        }
        if (strcmp(verb, "threads") == 0 && i + 2 < argc)
            threads(number, strtol(argv[++i + 1], NULL, 10));
        else if (strcmp(verb, "ranges") == 0)
            ranges(number);
        else if (strcmp(verb, "fork") == 0 || strcmp(verb, "orphan") == 0)
            in_child(number, verb[0] == 'o');
        else if (strcmp(verb, "daemon") == 0)
            leave_daemon(number);
        else if (strcmp(verb, "scribble") == 0)
            scribble(number);
        else if (strcmp(verb, "pause") == 0)
            pause_us = (useconds_t)number;
        else if (strcmp(verb, "files") == 0)
            allow_files(number);
        else if (strcmp(verb, "elsewhere") == 0)
            in_namespace(text);
        else if (strcmp(verb, "sleep") == 0)
            usleep((useconds_t)number * 1000);
        else if (strcmp(verb, "wait") == 0)
            while (access(text, F_OK) != 0)
                usleep(1000);
        else if (strcmp(verb, "print") == 0)
            printf("%s\n", text);
        fflush(stdout);
    }
    return 0;
}
