/* The waiting part of the controller, on the owner's thread. A timerfd on CLOCK_REALTIME, the clock
 * of requests, fires when something is due, and also when that clock is set. If nothing is due and
 * no listener is ready, nothing runs.
 *
 * Programs may close any descriptor. If they close ours, poll reports the hang-up of the socket
 * pair, and all descriptors are opened again. If another file gets the number first, poll does not
 * notice: therefore no wait is longer than 10 s. */
#include "ondemand/controller/controller_impl.h"

#include <errno.h>
#include <poll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define LOOK_NS INT64_C(10000000000) /* interval of the check whether descriptors are still ours */
#define SOON_NS INT64_C(100000000)   /* the same, while the program closes and opens descriptors */
#define DECADES (INT64_C(1) << 30)   /* in seconds */

static struct timespec timespec_of(int64_t ns)
{
    return (struct timespec){.tv_sec = ns / KB_SECOND_NS, .tv_nsec = ns % KB_SECOND_NS};
}

void ko_controller_wake(ko_controller *c)
{
    pthread_mutex_lock(&c->wake_lock);
    ko_wake_ring(&c->wake);
    pthread_mutex_unlock(&c->wake_lock);
}

/* ---- the timer ------------------------------------------------------------------------------- */

/* A timerfd has no identity that could be queried. Ours is recognised by its interval: decades,
 * plus an unusual number of nanoseconds. */
static bool is_own_timer(const ko_controller *c)
{
    struct itimerspec is;
    return c->timer_fd >= 0 && timerfd_gettime(c->timer_fd, &is) == 0 &&
           is.it_interval.tv_sec == c->timer_mark.tv_sec &&
           is.it_interval.tv_nsec == c->timer_mark.tv_nsec;
}

static bool program_timer(const ko_controller *c, int flags, int64_t at_ns)
{
    /* 0 would disarm it; any time in the past fires at once. */
    struct itimerspec when = {.it_value = timespec_of(at_ns == INT64_MAX ? 0 : KB_MAX(at_ns, 1)),
                              .it_interval = c->timer_mark};
    return timerfd_settime(c->timer_fd, flags, &when, NULL) == 0;
}

static void set_timer_due(ko_controller *c, int64_t at_ns)
{
    if (at_ns == c->timer_ns)
        return;
    if (!program_timer(c, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, at_ns) && errno != ECANCELED)
        (void)program_timer(c, TFD_TIMER_ABSTIME, at_ns);
    c->timer_ns = at_ns;
}

/* Reads the expirations, so that poll does not report them again. The timer is disarmed afterwards.
 */
static void empty_timer(ko_controller *c)
{
    uint64_t count;
    while (is_own_timer(c) && read(c->timer_fd, &count, sizeof count) < 0 && errno == EINTR)
        ;
    c->timer_ns = INT64_MIN;
}

/* ---- opening, and opening again -------------------------------------------------------------- */

kineto_status ko_waiting_open(ko_controller *c, kineto_error *err)
{
    c->timer_fd = -1;
    c->timer_ns = INT64_MAX;
    c->timer_mark = timespec_of(DECADES * KB_SECOND_NS + (int64_t)kb_monotonic_ns() % KB_SECOND_NS);
    kineto_status status = ko_wake_open(&c->wake, err);
    if (status != KINETO_OK)
        return status;
    c->timer_fd =
        kb_os_clear_of_standard(timerfd_create(CLOCK_REALTIME, TFD_CLOEXEC | TFD_NONBLOCK));
    if (c->timer_fd >= 0 && program_timer(c, 0, c->timer_ns))
        return KINETO_OK;
    int why = errno;
    if (c->timer_fd >= 0)
        close(c->timer_fd);
    c->timer_fd = -1;
    ko_wake_close(&c->wake);
    return kb_fail_os(err, why, "cannot listen for requests: no descriptor to wait with");
}

void ko_waiting_close(ko_controller *c)
{
    ko_wake_close(&c->wake);
    if (is_own_timer(c))
        close(c->timer_fd);
    c->timer_fd = -1;
}

/* Reopens the descriptors if the program has closed them. @return whether it did: then listeners
 * must check theirs, too, and for a second checks are frequent, since a program that closes
 * descriptors may go on. */
static bool reopen_if_lost(ko_controller *c)
{
    kineto_error err;
    if (ko_wake_is_ours(&c->wake) && is_own_timer(c))
        return false;
    pthread_mutex_lock(&c->wake_lock);
    ko_waiting_close(c);
    bool blind = ko_waiting_open(c, &err) != KINETO_OK;
    pthread_mutex_unlock(&c->wake_lock);
    if (blind && !c->blind)
        kb_log(KINETO_LOG_WARNING, "on-demand tracing: %s: it is tried again", err.message);
    c->blind = blind;
    c->look_until_ns = kb_monotonic_ns() + (uint64_t)KB_SECOND_NS;
    return true;
}

/* ---- limits of a wait ------------------------------------------------------------------------ */

/* Limits wait_ns by what the timer does not cover: listeners (CLOCK_MONOTONIC) and polling of
 * steps. */
static int64_t limit_wait(const ko_controller *c, int64_t wait_ns, int64_t poll_at_ns,
                          int64_t now_ns)
{
    uint64_t monotonic_ns = kb_monotonic_ns(), next_ns = UINT64_MAX;
    int64_t wait = wait_ns;
    for (uint32_t i = 0; i < c->listener_count; i++)
        next_ns = KB_MIN(next_ns, c->listeners[i]->wake_ns);
    if (next_ns != UINT64_MAX) {
        uint64_t left = next_ns > monotonic_ns ? next_ns - monotonic_ns : 0;
        wait = KB_MIN(wait, (int64_t)KB_MIN(left, (uint64_t)INT64_MAX));
    }
    if (poll_at_ns != INT64_MAX)
        wait = KB_MIN(wait, KB_MAX(poll_at_ns - now_ns, 0));
    return wait;
}

/* Handles what is due, then sets the timer. @return the maximum wait in ns. */
static int64_t plan_wait(ko_controller *c, int64_t wait_ns)
{
    ko_controller_lock(c);
    ko_steps_poll(c);
    ko_tick(c);
    int64_t due_ns = ko_due_ns(c), now_ns = ko_now_ns();
    int64_t wait = limit_wait(c, wait_ns, ko_steps_poll_ns(c, now_ns), now_ns);
    c->planned_ns = due_ns; /* a thread that makes it earlier wakes this one */
    set_timer_due(c, due_ns);
    ko_controller_unlock(c);
    return wait;
}

static void finish_wait(ko_controller *c)
{
    ko_controller_lock(c);
    c->planned_ns = INT64_MIN;
    ko_steps_poll(c);
    ko_tick(c);
    bool jobs = c->jobs;
    ko_controller_unlock(c);
    if (jobs)
        ko_jobs_join(c, false);
}

/* ---- a turn ---------------------------------------------------------------------------------- */

void ko_listener_ring(ko_listener *l, ko_controller *c)
{
    kb_store_release(&l->rung, true);
    ko_controller_wake(c);
}

static void turn_ready_listeners(ko_controller *c, const struct pollfd *fds, bool all)
{
    for (uint32_t i = 0; i < c->listener_count; i++) {
        ko_listener *l = c->listeners[i];
        uint64_t monotonic_ns = kb_monotonic_ns();
        bool rung = kb_exchange_acqrel(&l->rung, false);
        if (all || rung || (fds[i].fd >= 0 && fds[i].revents) || monotonic_ns >= l->wake_ns)
            l->turn(l, c, monotonic_ns);
    }
}

void ko_controller_turn(ko_controller *c, int64_t wait_ns)
{
    struct pollfd fds[KO_MAX_LISTENERS + 2];
    uint32_t n = c->listener_count;
    bool lost = reopen_if_lost(c);
    int64_t look_ns = kb_monotonic_ns() < c->look_until_ns ? SOON_NS : LOOK_NS;
    int64_t wait = plan_wait(c, wait_ns < 0 ? look_ns : KB_MIN(wait_ns, look_ns));
    struct timespec limit = timespec_of(wait);
    KB_ASSERT(n <= KO_MAX_LISTENERS && wait >= 0);
    for (uint32_t i = 0; i < n; i++)
        fds[i] = (struct pollfd){.fd = c->listeners[i]->fd, .events = c->listeners[i]->events};
    fds[n] = (struct pollfd){.fd = ko_wake_fd(&c->wake), .events = POLLIN};
    fds[n + 1] = (struct pollfd){.fd = c->timer_fd, .events = POLLIN};
    if (ppoll(fds, n + 2, &limit, NULL) < 0)
        memset(fds, 0, sizeof fds); /* interrupted by a signal: return to the host */
    if (fds[n].revents)
        (void)ko_wake_take(&c->wake);
    if (fds[n + 1].revents)
        empty_timer(c);
    finish_wait(c);
    turn_ready_listeners(c, fds, lost);
}
