/* Programs that wait in known ways, and count for themselves what they did.
 *
 *   contended N     N times a thread waits for a mutex that main holds for 2 ms and more
 *   counts DIR N    N calls of each function; prints how many of each, and the bytes
 *   sockets DIR     connections over TCP and a socket file
 *   byte_by_byte FILE N   N writes of one byte
 *   holders         a wait for each kind of lock
 *   futex N         N waits by syscall
 *   processes       children of fork that wait, too, and are waited for
 *   cancel          threads that are cancelled while they wait
 *   signals N       waits in a signal handler that interrupts waits
 *
 * Lines "name count" are compared with the trace. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

#define HOLD_NS 2000000

static pthread_mutex_t the_lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_int waiter_tid;

static int get_tid(void) { return (int)syscall(SYS_gettid); }

static void sleep_ns(long ns) { (void)nanosleep(&(struct timespec){0, ns}, NULL); }

static uint64_t read_clock(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Is the thread blocked in a system call? By system calls that nothing interposes. */
static int is_thread_asleep(int tid)
{
    char path[64], text[512], *at;
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", tid);
    long fd = syscall(SYS_openat, AT_FDCWD, path, O_RDONLY, 0);
    long n = fd >= 0 ? syscall(SYS_read, fd, text, sizeof text - 1) : -1;
    if (fd >= 0)
        (void)syscall(SYS_close, fd);
    text[n > 0 ? n : 0] = 0;
    at = strrchr(text, ')');
    return at && at[1] && at[2] == 'S';
}

static void await_sleep(int tid)
{
    while (!is_thread_asleep(tid))
        (void)syscall(SYS_sched_yield);
}

/* ---- contended ------------------------------------------------------------------------------- */

static atomic_int round_number, rounds_done;
static uint64_t measured_ns;

static void *wait_in_rounds(void *rounds)
{
    for (int i = 1; i <= *(int *)rounds; i++) {
        while (atomic_load(&round_number) < i)
            (void)syscall(SYS_sched_yield);
        atomic_store(&waiter_tid, get_tid());
        uint64_t begin = read_clock();
        (void)pthread_mutex_lock(&the_lock);
        measured_ns += read_clock() - begin;
        (void)pthread_mutex_unlock(&the_lock);
        atomic_store(&rounds_done, i);
    }
    return NULL;
}

static int run_contended(int rounds)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, wait_in_rounds, &rounds))
        return 1;
    for (int i = 1; i <= rounds; i++) {
        (void)pthread_mutex_lock(&the_lock);
        atomic_store(&waiter_tid, 0);
        atomic_store(&round_number, i);
        while (!atomic_load(&waiter_tid))
            (void)syscall(SYS_sched_yield);
        await_sleep(atomic_load(&waiter_tid));
        sleep_ns(HOLD_NS);
        (void)pthread_mutex_unlock(&the_lock);
        while (atomic_load(&rounds_done) < i)
            (void)syscall(SYS_sched_yield);
    }
    printf("address %llu\nholder %d\nwaiter %d\n", (unsigned long long)(uintptr_t)&the_lock, get_tid(),
           atomic_load(&waiter_tid));
    (void)pthread_join(thread, NULL);
    printf("waited_ns %llu\npthread_mutex_lock %d\nnanosleep %d\npthread_join 1\n",
           (unsigned long long)measured_ns, rounds, rounds);
    return 0;
}

/* ---- counts ---------------------------------------------------------------------------------- */

static void count_files(const char *directory, int n)
{
    char path[4096], text[100] = "";
    struct iovec parts[2] = {{text, 10}, {text, 20}};
    snprintf(path, sizeof path, "%s/counted", directory);
    for (int i = 0; i < n; i++) {
        int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
        (void)!write(fd, text, 100);
        (void)!pwrite(fd, text, 50, 100);
        (void)!writev(fd, parts, 2);
        (void)fsync(fd);
        (void)fdatasync(fd);
        (void)!pread(fd, text, 40, 0);
        (void)!lseek(fd, 0, SEEK_SET);
        (void)!read(fd, text, 30);
        (void)!readv(fd, parts, 2);
        (void)close(fd);
    }
    printf("open %d\nwrite %d\npwrite %d\nwritev %d\nfsync %d\nfdatasync %d\npread %d\nread %d\n"
           "readv %d\nclose %d\n",
           n, n, n, n, n, n, n, n, n, n);
    printf("bytes write %d\nbytes pwrite %d\nbytes writev %d\nbytes pread %d\nbytes read %d\nbytes readv %d\n",
           100 * n, 50 * n, 30 * n, 40 * n, 30 * n, 30 * n);
}

static void count_time(int n)
{
    struct timespec one = {0, 1000000};
    fd_set none;
    FD_ZERO(&none);
    int epoll = epoll_create1(0);
    struct epoll_event event;
    for (int i = 0; i < n; i++) {
        (void)usleep(1000);
        (void)nanosleep(&one, NULL);
        (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &one, NULL);
        (void)thrd_sleep(&one, NULL);
        (void)poll(NULL, 0, 1);
        (void)ppoll(NULL, 0, &one, NULL);
        (void)select(0, &none, NULL, NULL, &(struct timeval){0, 1000});
        (void)pselect(0, &none, NULL, NULL, &one, NULL);
        (void)epoll_wait(epoll, &event, 1, 1);
        (void)epoll_pwait(epoll, &event, 1, 1, NULL);
    }
    (void)sleep(0);
    printf("usleep %d\nnanosleep %d\nclock_nanosleep %d\nthrd_sleep %d\npoll %d\nppoll %d\nselect %d\n"
           "pselect %d\nepoll_wait %d\nepoll_pwait %d\nsleep 1\n",
           n, n, n, n, n, n, n, n, n, n);
}

static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t barrier;
static sem_t semaphore;
static int posted;

static void *answer(void *rounds)
{
    for (int i = 0; i < *(int *)rounds; i++) {
        (void)sem_wait(&semaphore);
        (void)pthread_mutex_lock(&the_lock);
        posted = 1;
        (void)pthread_cond_signal(&condition);
        (void)pthread_mutex_unlock(&the_lock);
        (void)pthread_barrier_wait(&barrier);
    }
    return NULL;
}

/* The condition's waits are counted, since it may wake without a reason. */
static int count_threads(int n)
{
    pthread_t thread;
    struct timespec past = {0, 0};
    int waits = 0;
    (void)sem_init(&semaphore, 0, 0);
    (void)pthread_barrier_init(&barrier, NULL, 2);
    if (pthread_create(&thread, NULL, answer, &n))
        return 1;
    for (int i = 0; i < n; i++) {
        (void)pthread_mutex_lock(&the_lock);
        posted = 0;
        (void)sem_post(&semaphore);
        for (; !posted; waits++)
            (void)pthread_cond_wait(&condition, &the_lock);
        (void)pthread_cond_timedwait(&condition, &the_lock, &past);
        (void)pthread_mutex_unlock(&the_lock);
        (void)pthread_barrier_wait(&barrier);
    }
    (void)pthread_join(thread, NULL);
    printf("sem_wait %d\npthread_cond_wait %d\npthread_cond_timedwait %d\npthread_barrier_wait %d\npthread_join 1\n",
           n, waits, n, 2 * n);
    return 0;
}

/* ---- sockets --------------------------------------------------------------------------------- */

typedef struct peer {
    int type, listening;
    struct sockaddr_storage address;
    socklen_t size;
} peer;

static void *talk_to_main(void *of)
{
    peer *p = of;
    char text[64] = "";
    int fd = socket(p->address.ss_family, SOCK_STREAM, 0);
    if (connect(fd, (struct sockaddr *)&p->address, p->size))
        return NULL;
    (void)!send(fd, text, 64, 0);
    (void)!recv(fd, text, 64, MSG_WAITALL);
    (void)close(fd);
    return NULL;
}

static int serve_one(peer *p)
{
    pthread_t thread;
    char text[64] = "";
    p->size = p->address.ss_family == AF_UNIX ? sizeof(struct sockaddr_un) : sizeof(struct sockaddr_in);
    p->listening = socket(p->address.ss_family, SOCK_STREAM, 0);
    if (bind(p->listening, (struct sockaddr *)&p->address, p->size) || listen(p->listening, 1) ||
        getsockname(p->listening, (struct sockaddr *)&p->address, &p->size))
        return 1;
    if (pthread_create(&thread, NULL, talk_to_main, p))
        return 1;
    int fd = accept(p->listening, NULL, NULL);
    (void)!recv(fd, text, 64, MSG_WAITALL);
    (void)!send(fd, text, 64, 0);
    (void)pthread_join(thread, NULL);
    (void)close(fd);
    (void)close(p->listening);
    return 0;
}

static int run_sockets(const char *directory)
{
    peer tcp = {0}, local = {0};
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    snprintf(un.sun_path, sizeof un.sun_path, "%.80s/s", directory);
    memcpy(&tcp.address, &in, sizeof in);
    memcpy(&local.address, &un, sizeof un);
    if (serve_one(&tcp) || serve_one(&local))
        return 1;
    memcpy(&in, &tcp.address, sizeof in);
    printf("port %d\npath %s\n", ntohs(in.sin_port), un.sun_path);
    puts("connect 2\naccept 2\nsend 4\nrecv 4\nclose 6\npthread_join 2");
    return 0;
}

/* ---- others ---------------------------------------------------------------------------------- */

/* The kinds of locks, each held by main while a thread waits for it. */
typedef struct held_lock {
    const char *name;
    int type, inherit, robust, is_rwlock;
    pthread_mutex_t mutex;
    pthread_rwlock_t rwlock;
} held_lock;

static void *wait_for_held(void *of)
{
    held_lock *l = of;
    atomic_store(&waiter_tid, get_tid());
    if (l->is_rwlock) {
        (void)(l->is_rwlock == 1 ? pthread_rwlock_rdlock(&l->rwlock) : pthread_rwlock_wrlock(&l->rwlock));
        (void)pthread_rwlock_unlock(&l->rwlock);
    } else if (l->type == PTHREAD_MUTEX_ERRORCHECK) {
        struct timespec far;
        (void)clock_gettime(CLOCK_REALTIME, &far);
        far.tv_sec += 1000;
        (void)pthread_mutex_timedlock(&l->mutex, &far);
        (void)pthread_mutex_unlock(&l->mutex);
    } else {
        (void)pthread_mutex_lock(&l->mutex);
        (void)pthread_mutex_unlock(&l->mutex);
    }
    return NULL;
}

static int hold_lock(held_lock *l)
{
    pthread_t thread;
    pthread_mutexattr_t a;
    (void)pthread_mutexattr_init(&a);
    (void)pthread_mutexattr_settype(&a, l->type);
    (void)pthread_mutexattr_setprotocol(&a, l->inherit ? PTHREAD_PRIO_INHERIT : PTHREAD_PRIO_NONE);
    (void)pthread_mutexattr_setrobust(&a, l->robust ? PTHREAD_MUTEX_ROBUST : PTHREAD_MUTEX_STALLED);
    (void)pthread_rwlock_init(&l->rwlock, NULL);
    if (pthread_mutex_init(&l->mutex, &a))
        return 1;
    (void)(l->is_rwlock ? pthread_rwlock_wrlock(&l->rwlock) : pthread_mutex_lock(&l->mutex));
    atomic_store(&waiter_tid, 0);
    if (pthread_create(&thread, NULL, wait_for_held, l))
        return 1;
    while (!atomic_load(&waiter_tid))
        (void)syscall(SYS_sched_yield);
    await_sleep(atomic_load(&waiter_tid));
    sleep_ns(HOLD_NS);
    (void)(l->is_rwlock ? pthread_rwlock_unlock(&l->rwlock) : pthread_mutex_unlock(&l->mutex));
    (void)pthread_join(thread, NULL);
    printf("%s %llu\n", l->name,
           (unsigned long long)(l->is_rwlock ? (uintptr_t)&l->rwlock : (uintptr_t)&l->mutex));
    return 0;
}

static int hold_locks(void)
{
    static held_lock all[] = {{.name = "normal"},
                              {.name = "error-checking", .type = PTHREAD_MUTEX_ERRORCHECK},
                              {.name = "recursive", .type = PTHREAD_MUTEX_RECURSIVE},
                              {.name = "adaptive", .type = PTHREAD_MUTEX_ADAPTIVE_NP},
                              {.name = "inherits", .inherit = 1},
                              {.name = "robust", .robust = 1},
                              {.name = "robust-inherits", .inherit = 1, .robust = 1},
                              {.name = "read", .is_rwlock = 1},
                              {.name = "written", .is_rwlock = 2}};
    printf("holder %d\n", get_tid());
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (hold_lock(&all[i]))
            return 1;
    return 0;
}

static int wait_by_number(int n)
{
    static uint32_t word;
    for (int i = 0; i < n; i++)
        (void)syscall(SYS_futex, &word, 0 /* FUTEX_WAIT */, 0, &(struct timespec){0, 1000000}, NULL, 0);
    printf("futex %d\naddress %llu\n", n, (unsigned long long)(uintptr_t)&word);
    return 0;
}

static int write_bytes(const char *path, int n)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    for (int i = 0; i < n; i++)
        (void)!write(fd, "x", 1);
    (void)close(fd);
    printf("write %d\nopen 1\nclose 1\n", n);
    return 0;
}

static int run_processes(void)
{
    for (int i = 0; i < 5; i++) {
        int status = 0;
        pid_t child = fork();
        if (child == 0) {
            sleep_ns(3000000);
            exit(i);
        }
        if (waitpid(child, &status, 0) != child || WEXITSTATUS(status) != i)
            return 1;
    }
    puts("waitpid 5\nnanosleep 5");
    return 0;
}

static void unlock_mutex(void *mutex) { (void)pthread_mutex_unlock(mutex); }

static void *wait_forever(void *how)
{
    int pipes[2];
    if (pipe(pipes))
        return NULL;
    atomic_store(&waiter_tid, get_tid());
    switch (*(int *)how) {
    case 0:
        (void)sem_wait(&semaphore);
        break;
    case 1:
        (void)pthread_mutex_lock(&the_lock);
        pthread_cleanup_push(unlock_mutex, &the_lock);
        for (;;)
            (void)pthread_cond_wait(&condition, &the_lock);
        pthread_cleanup_pop(1);
        break;
    case 2:
        (void)!read(pipes[0], pipes, 1);
        break;
    default:
        (void)poll(NULL, 0, -1);
        break;
    }
    return NULL;
}

static int run_cancel(void)
{
    (void)sem_init(&semaphore, 0, 0);
    for (int how = 0; how < 4; how++) {
        pthread_t thread;
        void *value = NULL;
        atomic_store(&waiter_tid, 0);
        if (pthread_create(&thread, NULL, wait_forever, &how))
            return 1;
        while (!atomic_load(&waiter_tid))
            (void)syscall(SYS_sched_yield);
        await_sleep(atomic_load(&waiter_tid));
        (void)pthread_cancel(thread);
        (void)pthread_join(thread, &value);
        printf("cancelled %d\n", value == PTHREAD_CANCELED);
    }
    printf("free again %d\n", pthread_mutex_trylock(&the_lock));
    return 0;
}

static volatile sig_atomic_t handled;
static int handler_pipe[2];

static void handle_signal(int number)
{
    (void)number;
    int saved = errno;
    (void)!write(handler_pipe[1], "x", 1);
    (void)!read(handler_pipe[0], &(char){0}, 1);
    handled++;
    errno = saved;
}

static int run_signals(int n)
{
    int interrupted = 0;
    struct sigaction action = {.sa_handler = handle_signal};
    if (pipe(handler_pipe) || sigaction(SIGUSR1, &action, NULL))
        return 1;
    sigset_t blocked, old;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR1);
    (void)sigprocmask(SIG_BLOCK, &blocked, &old);
    for (int i = 0; i < n; i++) {
        (void)kill(getpid(), SIGUSR1);
        interrupted += ppoll(NULL, 0, NULL, &old) == -1 && errno == EINTR;
    }
    printf("interrupted %d\nhandled %d\nppoll %d\nread %d\nwrite %d\n", interrupted, (int)handled, n, n, n);
    return 0;
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "", *path = argc > 2 ? argv[2] : "";
    int last = argc > 2 ? atoi(argv[argc - 1]) : 0;
    setvbuf(stdout, NULL, _IOFBF, 1 << 16);
    if (strcmp(mode, "contended") == 0)
        return run_contended(last);
    if (strcmp(mode, "counts") == 0) {
        count_files(path, last);
        count_time(last);
        return count_threads(last);
    }
    if (strcmp(mode, "sockets") == 0)
        return run_sockets(path);
    if (strcmp(mode, "byte_by_byte") == 0)
        return write_bytes(path, last);
    if (strcmp(mode, "holders") == 0)
        return hold_locks();
    if (strcmp(mode, "futex") == 0)
        return wait_by_number(last);
    if (strcmp(mode, "processes") == 0)
        return run_processes();
    if (strcmp(mode, "cancel") == 0)
        return run_cancel();
    if (strcmp(mode, "signals") == 0)
        return run_signals(last);
    return 2;
}
