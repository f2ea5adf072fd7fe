/* The interposed functions. Threads are known from their creation on. Of signals the program sees
 * nothing of ours: it reads as unused, and blocking all signals does not block it. A program that uses
 * this very signal gets it (cs_stand_aside). */
#include "timers.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- the next functions ---------------------------------------------------------------------- */

const cs_functions *cs_next(void)
{
    static cs_functions next;
    static uint32_t is_found;
    if (KINETO_LIKELY(__atomic_load_n(&is_found, __ATOMIC_ACQUIRE)))
        return &next;
    int saved = errno;
    cs_functions found;
    *(void **)&found.pthread_create = dlsym(RTLD_NEXT, "pthread_create");
    *(void **)&found.thrd_create = dlsym(RTLD_NEXT, "thrd_create");
    *(void **)&found.signal = dlsym(RTLD_NEXT, "signal");
    *(void **)&found.sysv_signal = dlsym(RTLD_NEXT, "__sysv_signal");
    *(void **)&found.sigaction = dlsym(RTLD_NEXT, "sigaction");
    *(void **)&found.pthread_sigmask = dlsym(RTLD_NEXT, "pthread_sigmask");
    *(void **)&found.sigprocmask = dlsym(RTLD_NEXT, "sigprocmask");
    next = found;
    __atomic_store_n(&is_found, 1, __ATOMIC_RELEASE);
    errno = saved;
    return &next;
}

/* ---- threads --------------------------------------------------------------------------------- */

/* What a new thread is to run; it frees this. */
typedef struct beginning {
    union {
        void *(*of_posix)(void *);
        int (*of_c11)(void *);
    } run;
    void *argument;
} beginning;

/* These two call the thread's function last, as a jump, so that they are in no stack. */
#if defined(__GNUC__) && !defined(__clang__)
#define LAST_CALL __attribute__((optimize("O2")))
#else
#define LAST_CALL
#endif

static LAST_CALL void *run_posix_thread(void *argument)
{
    beginning *given = argument;
    void *(*run)(void *) = given->run.of_posix;
    argument = given->argument;
    free(given);
    cs_thread_begin();
    return run(argument);
}

static LAST_CALL int run_c11_thread(void *argument)
{
    beginning *given = argument;
    int (*run)(void *) = given->run.of_c11;
    argument = given->argument;
    free(given);
    cs_thread_begin();
    return run(argument);
}

static beginning *make_beginning(void *argument)
{
    beginning *given = cs_is_on() ? malloc(sizeof *given) : NULL;
    if (given)
        given->argument = argument;
    return given;
}

KINETO_API int pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                              void *(*run)(void *), void *argument)
{
    beginning *given = make_beginning(argument);
    if (!given)
        return cs_next()->pthread_create(thread, attributes, run, argument);
    given->run.of_posix = run;
    int error = cs_next()->pthread_create(thread, attributes, run_posix_thread, given);
    if (error)
        free(given);
    return error;
}

KINETO_API int thrd_create(thrd_t *thread, thrd_start_t run, void *argument)
{
    beginning *given = make_beginning(argument);
    if (!given)
        return cs_next()->thrd_create(thread, run, argument);
    given->run.of_c11 = run;
    int error = cs_next()->thrd_create(thread, run_c11_thread, given);
    if (error != thrd_success)
        free(given);
    return error;
}

/* ---- signals --------------------------------------------------------------------------------- */

/* What the program has set for our signal: SIG_DFL or SIG_IGN. */
static struct sigaction of_program;

static bool has_handler(const struct sigaction *action)
{
    return (action->sa_flags & SA_SIGINFO) ||
           (action->sa_handler != SIG_DFL && action->sa_handler != SIG_IGN);
}

KINETO_API int sigaction(int number, const struct sigaction *action, struct sigaction *old)
{
    if (number != cs_signal || !cs_is_on())
        return cs_next()->sigaction(number, action, old);
    struct sigaction before = of_program;
    int result = 0;
    if (action && has_handler(action)) {
        cs_stand_aside();
        result = cs_next()->sigaction(number, action, NULL);
    } else if (action) {
        of_program = *action;
    }
    if (old)
        *old = before;
    return result;
}

/* Our signal by these functions. */
static void (*set_handler(void (*handler)(int), int flags))(int)
{
    struct sigaction old, action = {.sa_flags = flags};
    action.sa_handler = handler;
    sigemptyset(&action.sa_mask);
    return sigaction(cs_signal, &action, &old) == 0 ? old.sa_handler : SIG_ERR;
}

KINETO_API void (*signal(int number, void (*handler)(int)))(int)
{
    bool is_ours = number == cs_signal && cs_is_on();
    return is_ours ? set_handler(handler, SA_RESTART) : cs_next()->signal(number, handler);
}

/* signal of System V: the handler is called once. */
KINETO_API void (*__sysv_signal(int number, void (*handler)(int)))(int)
{
    bool is_ours = number == cs_signal && cs_is_on();
    return is_ours ? set_handler(handler, (int)(SA_RESETHAND | SA_NODEFER))
                   : cs_next()->sysv_signal(number, handler);
}

bool cs_is_set_of_all(const sigset_t *set)
{
    for (int number = SIGRTMIN; number <= SIGRTMAX; number++)
        if (sigismember(set, number) != 1)
            return false;
    return true;
}

/* The set to block in place of the program's. */
static const sigset_t *choose_set(int how, const sigset_t *set, sigset_t *other)
{
    if (!set || how == SIG_UNBLOCK || !cs_is_on() || sigismember(set, cs_signal) != 1)
        return set;
    if (!cs_is_set_of_all(set)) {
        cs_stand_aside();
        return set;
    }
    *other = *set;
    sigdelset(other, cs_signal);
    return other;
}

KINETO_API int pthread_sigmask(int how, const sigset_t *set, sigset_t *old)
{
    sigset_t other;
    return cs_next()->pthread_sigmask(how, choose_set(how, set, &other), old);
}

KINETO_API int sigprocmask(int how, const sigset_t *set, sigset_t *old)
{
    sigset_t other;
    return cs_next()->sigprocmask(how, choose_set(how, set, &other), old);
}
