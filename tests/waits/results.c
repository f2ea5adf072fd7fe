/* Prints the results and errno of every interposed function in its corners: what it prints may not
 * depend on the library. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

#define KEPT_ERRNO 12345
/* errno of a function that does not set it must stay. */
#define SHOW(call)                                                                                 \
    do {                                                                                           \
        errno = KEPT_ERRNO;                                                                        \
        long long result_ = (long long)(call);                                                     \
        printf("%s: %lld, errno %d\n", #call, result_, errno);                                     \
    } while (0)

static const struct timespec past = {1, 0}, broken = {1, 1000000000}, negative = {-1, 0}, soon = {0, 1000000};

static void init_mutex(pthread_mutex_t *m, int type, int protocol, int robust)
{
    pthread_mutexattr_t a;
    pthread_mutexattr_init(&a);
    pthread_mutexattr_settype(&a, type);
    pthread_mutexattr_setprotocol(&a, protocol);
    pthread_mutexattr_setrobust(&a, robust);
    pthread_mutex_init(m, &a);
    pthread_mutexattr_destroy(&a);
}

static void *lock_and_leave(void *m)
{
    (void)pthread_mutex_lock(m);
    return NULL;
}

static void *lock_from_elsewhere(void *of)
{
    pthread_mutex_t *m = of;
    SHOW(pthread_mutex_timedlock(m, &past));
    SHOW(pthread_mutex_timedlock(m, &broken));
    SHOW(pthread_mutex_clocklock(m, CLOCK_MONOTONIC, &past));
    SHOW(pthread_mutex_clocklock(m, CLOCK_PROCESS_CPUTIME_ID, &past));
    return NULL;
}

static void run_thread(void *(*function)(void *), void *argument)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, function, argument) == 0)
        (void)pthread_join(thread, NULL);
}

static void show_mutex(int type, int protocol, int robust)
{
    pthread_mutex_t mutex, *m = &mutex;
    init_mutex(m, type, protocol, robust);
    printf("type %d protocol %d robust %d\n", type, protocol, robust);
    SHOW(pthread_mutex_lock(m));
    run_thread(lock_from_elsewhere, m);
    if (type == PTHREAD_MUTEX_ERRORCHECK || type == PTHREAD_MUTEX_RECURSIVE) {
        SHOW(pthread_mutex_lock(m));
        SHOW(pthread_mutex_timedlock(m, &past));
        SHOW(pthread_mutex_unlock(m));
    }
    SHOW(pthread_mutex_unlock(m));
    SHOW(pthread_mutex_unlock(m));
    SHOW(pthread_mutex_clocklock(m, CLOCK_PROCESS_CPUTIME_ID, &past));
    SHOW(pthread_mutex_timedlock(m, &broken));
    if (!robust)
        return;
    init_mutex(m, type, protocol, robust);
    run_thread(lock_and_leave, m);
    SHOW(pthread_mutex_lock(m));
    SHOW(pthread_mutex_unlock(m)); /* not made consistent */
    SHOW(pthread_mutex_lock(m));
    init_mutex(m, type, protocol, robust);
    run_thread(lock_and_leave, m);
    SHOW(pthread_mutex_timedlock(m, &past));
    SHOW(pthread_mutex_consistent(m));
    SHOW(pthread_mutex_unlock(m));
    SHOW(pthread_mutex_lock(m));
}

static void show_mutexes(void)
{
    static const int types[] = {PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_ERRORCHECK, PTHREAD_MUTEX_RECURSIVE,
                                PTHREAD_MUTEX_ADAPTIVE_NP};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        for (int inherit = 0; inherit < 2; inherit++)
            for (int robust = 0; robust < 2; robust++)
                show_mutex(types[i], inherit ? PTHREAD_PRIO_INHERIT : PTHREAD_PRIO_NONE, robust);
    pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
    memset(&m, 0x7f, sizeof m); /* of no type */
    m.__data.__lock = 0;
    SHOW(pthread_mutex_lock(&m));
    mtx_t c11;
    SHOW(mtx_init(&c11, mtx_timed | mtx_recursive));
    SHOW(mtx_lock(&c11));
    SHOW(mtx_lock(&c11));
    SHOW(mtx_timedlock(&c11, &past));
}

static void *lock_rwlock_elsewhere(void *of)
{
    pthread_rwlock_t *l = of;
    SHOW(pthread_rwlock_timedrdlock(l, &past));
    SHOW(pthread_rwlock_timedwrlock(l, &past));
    SHOW(pthread_rwlock_clockrdlock(l, CLOCK_MONOTONIC, &broken));
    SHOW(pthread_rwlock_clockwrlock(l, CLOCK_MONOTONIC, &past));
    SHOW(pthread_rwlock_clockwrlock(l, CLOCK_PROCESS_CPUTIME_ID, &past));
    return NULL;
}

static void show_rwlocks(void)
{
    pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER, *l = &lock;
    SHOW(pthread_rwlock_wrlock(l));
    SHOW(pthread_rwlock_wrlock(l));
    SHOW(pthread_rwlock_rdlock(l));
    run_thread(lock_rwlock_elsewhere, l);
    SHOW(pthread_rwlock_unlock(l));
    SHOW(pthread_rwlock_rdlock(l));
    SHOW(pthread_rwlock_rdlock(l));
    run_thread(lock_rwlock_elsewhere, l);
    SHOW(pthread_rwlock_unlock(l));
    SHOW(pthread_rwlock_unlock(l));
}

static int one_done;
static pthread_mutex_t one_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t one_condition = PTHREAD_COND_INITIALIZER;
static void *set_done(void *unused)
{
    pthread_mutex_lock(&one_lock);
    one_done = 1;
    pthread_cond_broadcast(&one_condition);
    pthread_mutex_unlock(&one_lock);
    return unused;
}

static void show_conditions(void)
{
    pthread_cond_t c = PTHREAD_COND_INITIALIZER;
    pthread_mutex_t m;
    pthread_t thread;
    init_mutex(&m, PTHREAD_MUTEX_ERRORCHECK, PTHREAD_PRIO_NONE, PTHREAD_MUTEX_STALLED);
    SHOW(pthread_cond_wait(&c, &m)); /* not locked */
    SHOW(pthread_mutex_lock(&m));
    SHOW(pthread_cond_timedwait(&c, &m, &past));
    SHOW(pthread_cond_timedwait(&c, &m, &broken));
    SHOW(pthread_cond_clockwait(&c, &m, CLOCK_MONOTONIC, &past));
    SHOW(pthread_cond_clockwait(&c, &m, CLOCK_PROCESS_CPUTIME_ID, &past));
    pthread_mutex_lock(&one_lock);
    if (pthread_create(&thread, NULL, set_done, NULL) == 0) {
        while (!one_done)
            (void)pthread_cond_wait(&one_condition, &one_lock);
        pthread_mutex_unlock(&one_lock);
        SHOW(pthread_join(thread, NULL));
    }
    SHOW(pthread_join(pthread_self(), NULL));
    cnd_t cnd;
    mtx_t mtx;
    SHOW(cnd_init(&cnd));
    SHOW(mtx_init(&mtx, mtx_plain));
    SHOW(mtx_lock(&mtx));
    SHOW(cnd_timedwait(&cnd, &mtx, &past));
}

static void show_semaphores(void)
{
    sem_t s;
    SHOW(sem_init(&s, 0, 1));
    SHOW(sem_wait(&s));
    SHOW(sem_timedwait(&s, &past));
    SHOW(sem_timedwait(&s, &broken));
    SHOW(sem_clockwait(&s, CLOCK_MONOTONIC, &past));
    SHOW(sem_clockwait(&s, CLOCK_PROCESS_CPUTIME_ID, &past));
    pthread_barrier_t b;
    SHOW(pthread_barrier_init(&b, NULL, 1));
    SHOW(pthread_barrier_wait(&b));
}

static void ignore_signal(int number) { (void)number; }
static void interrupt_soon(void)
{
    /* Again and again: the first one may come before the wait. */
    struct itimerval often = {{0, 50000}, {0, 50000}};
    (void)setitimer(ITIMER_REAL, &often, NULL);
}
static void interrupt_no_more(void)
{
    struct itimerval never = {{0, 0}, {0, 0}};
    (void)setitimer(ITIMER_REAL, &never, NULL);
}

static void show_time(void)
{
    struct timespec rest = {0, 0};
    SHOW(usleep(1000));
    SHOW(nanosleep(&soon, &rest));
    SHOW(nanosleep(&broken, NULL));
    SHOW(nanosleep(&negative, NULL));
    SHOW(nanosleep(NULL, NULL));
    SHOW(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &past, NULL));
    SHOW(clock_nanosleep(CLOCK_MONOTONIC, 0, &broken, NULL));
    SHOW(clock_nanosleep(CLOCK_THREAD_CPUTIME_ID, 0, &soon, NULL));
    SHOW(thrd_sleep(&soon, NULL));
    SHOW(thrd_sleep(&broken, NULL));
    SHOW(sleep(0));
    struct sigaction action = {.sa_handler = ignore_signal};
    sigaction(SIGALRM, &action, NULL);
    interrupt_soon();
    SHOW(sleep(1000) > 900);
    interrupt_soon();
    SHOW(nanosleep(&(struct timespec){1000, 0}, &rest));
    interrupt_no_more();
    printf("rest %d\n", rest.tv_sec >= 990 && rest.tv_sec < 1000);
}

static void show_files(const char *directory)
{
    char path[4096], text[64] = "text";
    struct iovec part = {text, 4};
    int pipes[2];
    snprintf(path, sizeof path, "%s/results", directory);
    int fd = -2;
    const char *volatile nowhere = NULL;
    SHOW((fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_EXCL, 0640)) >= 0);
    SHOW(open(path, O_RDWR | O_CREAT | O_EXCL, 0640));
    SHOW(open("/nonexistent/file", O_RDONLY));
    SHOW(open(nowhere, O_RDONLY));
    SHOW(open((const char *)1, O_RDONLY));
    SHOW(openat(-1, "relative", O_RDONLY));
    SHOW(close(openat(AT_FDCWD, "/dev/null", O_RDONLY)));
    SHOW(close(open64("/dev/null", O_RDONLY)));
    SHOW(close(openat64(AT_FDCWD, "/dev/null", O_RDONLY)));
    SHOW(close(open("/tmp", O_TMPFILE | O_RDWR, 0600)) <= 0);
    SHOW(write(fd, text, 4));
    SHOW(write(fd, NULL, 4));
    SHOW(write(-1, text, 4));
    SHOW(writev(fd, &part, 1));
    SHOW(writev(fd, &part, -1));
    SHOW(pwrite(fd, text, 4, 100));
    SHOW(pwrite(fd, text, 4, -1));
    SHOW(pread(fd, text, 4, 100));
    SHOW(pread64(fd, text, 4, 1000));
    SHOW(pwrite64(fd, text, 4, 1000));
    SHOW(lseek(fd, 0, SEEK_SET));
    SHOW(read(fd, text, sizeof text));
    SHOW(read(fd, (void *)1, 4));
    SHOW(read(-1, text, 4));
    SHOW(readv(fd, &part, 1));
    SHOW(fsync(fd));
    SHOW(fsync(-1));
    SHOW(fdatasync(fd));
    SHOW(pipe(pipes));
    SHOW(fsync(pipes[0]));
    SHOW(flock(fd, LOCK_EX | LOCK_NB));
    SHOW(flock(-1, LOCK_EX));
    SHOW(sendfile(pipes[1], fd, &(off_t){0}, 10));
    SHOW(fcntl(pipes[0], F_SETFL, O_NONBLOCK));
    SHOW(read(pipes[0], text, 64));
    SHOW(read(pipes[0], text, 64));
    SHOW(close(fd));
    SHOW(close(fd));
    SHOW(close(-1));
    (void)unlink(path);
}

static void show_sockets(const char *directory)
{
    int pair[2];
    char text[16] = "text";
    struct iovec part = {text, 4};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    snprintf(un.sun_path, sizeof un.sun_path, "%.80s/none", directory);
    SHOW(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    SHOW(send(pair[0], text, 4, 0));
    SHOW(recv(pair[1], text, 16, 0));
    SHOW(sendto(pair[0], text, 4, 0, NULL, 0));
    SHOW(recvfrom(pair[1], text, 16, 0, NULL, NULL));
    SHOW(sendmsg(pair[0], &message, 0));
    SHOW(recvmsg(pair[1], &message, 0));
    SHOW(recv(pair[1], text, 16, MSG_DONTWAIT));
    SHOW(recv(-1, text, 16, 0));
    SHOW(send(0, text, 16, 0));
    SHOW(connect(pair[0], (struct sockaddr *)&un, sizeof un));
    SHOW(connect(pair[0], NULL, 0));
    SHOW(connect(-1, (struct sockaddr *)&un, sizeof un));
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    SHOW(connect(fd, (struct sockaddr *)&un, sizeof un));
    SHOW(connect(fd, (struct sockaddr *)1, sizeof un));
    SHOW(accept(fd, NULL, NULL));
    SHOW(accept4(pair[0], NULL, NULL, SOCK_CLOEXEC));
    (void)signal(SIGPIPE, SIG_IGN);
    SHOW(close(pair[1]));
    SHOW(send(pair[0], text, 4, 0));
    SHOW(recv(pair[0], text, 4, 0));
}

static void show_polls(void)
{
    int pipes[2];
    (void)!pipe(pipes);
    struct pollfd list[2] = {{.fd = pipes[0], .events = POLLIN}, {.fd = pipes[1], .events = POLLOUT}};
    fd_set set;
    FD_ZERO(&set);
    FD_SET(pipes[1], &set);
    SHOW(poll(list, 2, 0));
    SHOW(poll(list, 1, 1));
    SHOW(poll((struct pollfd *)1, 1, 1));
    SHOW(ppoll(list, 1, &soon, NULL));
    SHOW(ppoll(list, 1, &broken, NULL));
    SHOW(select(pipes[1] + 1, NULL, &set, NULL, NULL));
    SHOW(select(-1, NULL, &set, NULL, NULL));
    SHOW(pselect(pipes[1] + 1, NULL, &set, NULL, &soon, NULL));
    SHOW(pselect(1, NULL, NULL, NULL, &broken, NULL));
    int fd = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLOUT};
    SHOW(epoll_wait(fd, &event, 1, 1));
    SHOW(epoll_wait(fd, &event, 0, 1));
    SHOW(epoll_wait(-1, &event, 1, 1));
    SHOW(epoll_ctl(fd, EPOLL_CTL_ADD, pipes[1], &event));
    SHOW(epoll_pwait(fd, &event, 1, -1, NULL));
    SHOW(epoll_pwait(fd, (struct epoll_event *)1, 1, -1, NULL));
}

static void show_processes(void)
{
    int status;
    struct rusage usage;
    siginfo_t info;
    SHOW(wait(&status));
    SHOW(waitpid(-1, &status, 0));
    SHOW(waitpid(1, &status, 0));
    SHOW(waitid(P_ALL, 0, &info, WEXITED));
    SHOW(wait4(-1, &status, 0, &usage));
    for (int i = 0; i < 4; i++) {
        pid_t child = fork();
        if (child == 0)
            _exit(3);
        SHOW((i == 0   ? wait(&status)
              : i == 1 ? waitpid(child, &status, 0)
              : i == 2 ? wait4(child, &status, 0, &usage)
                       : waitid(P_PID, (id_t)child, NULL, WEXITED)) == (i == 3 ? 0 : child));
    }
}

static void show_kernel(void)
{
    static uint32_t word = 1;
    char name[32] = "";
    SHOW(syscall(SYS_gettid) > 0);
    SHOW(syscall(-1));
    SHOW(syscall(SYS_futex, &word, 0, 0, NULL, NULL, 0)); /* FUTEX_WAIT: another value */
    SHOW(syscall(SYS_futex, &word, 0, 1, &soon, NULL, 0));
    SHOW(syscall(SYS_futex, &word, 1, 1, NULL, NULL, 0)); /* FUTEX_WAKE */
    SHOW(syscall(SYS_pread64, -1, name, 1, 2));
    SHOW(syscall(SYS_mmap, NULL, 0, 0, 0, -1, 0));
    SHOW(prctl(PR_SET_NAME, "renamed"));
    SHOW(prctl(PR_GET_NAME, name));
    SHOW(strcmp(name, "renamed"));
    SHOW(prctl(-1, 0, 0, 0, 0));
}

/* Calls before main. */
__attribute__((constructor)) static void show_early(void)
{
    static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
    SHOW(pthread_mutex_lock(&m));
    SHOW(close(open("/dev/null", O_RDONLY)));
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return 2;
    show_mutexes();
    show_rwlocks();
    show_conditions();
    show_semaphores();
    show_time();
    show_files(argv[1]);
    show_sockets(argv[1]);
    show_polls();
    show_processes();
    show_kernel();
    return 0;
}
