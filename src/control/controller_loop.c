/* Waiting. One descriptor is set to the time at which something is due, by the clock that requests
 * count in, and is ready, too, when somebody sets that clock. Where nothing is due and nobody asks,
 * nothing runs. */
#include "control/controller_impl.h"

#include <errno.h>
#include <poll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define SECOND INT64_C(1000000000)

static struct timespec timespec_of(int64_t ns)
{
    return (struct timespec){.tv_sec = ns / SECOND, .tv_nsec = ns % SECOND};
}

void ko_controller_wake(ko_controller *c)
{
    int before = errno;
    uint64_t one = 1;
    while (write(c->wake_fd, &one, sizeof one) < 0 && errno == EINTR)
        ;
    errno = before;
}

/* Takes what is there, so that it is not ready any more. */
static void empty(int fd)
{
    uint64_t count;
    while (read(fd, &count, sizeof count) < 0 && errno == EINTR)
        ;
}

/* ---- until when ---------------------------------------------------------------------------------- */

static void set_timer(ko_controller *c, int64_t at_ns)
{
    if (at_ns == c->timer_ns)
        return;
    /* 0 would switch it off. What is long past is as ready as what is just past. */
    struct itimerspec when = {.it_value = timespec_of(at_ns == INT64_MAX ? 0 : KB_MAX(at_ns, 1))};
    int flags = TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET;
    if (timerfd_settime(c->timer_fd, flags, &when, NULL) != 0 && errno != ECANCELED)
        (void)timerfd_settime(c->timer_fd, TFD_TIMER_ABSTIME, &when, NULL);
    c->timer_ns = at_ns;
}

/* The longest that poll may wait, for what does not go by the clock of requests. Negative: for
 * ever. */
static int64_t wait_of(const ko_controller *c, int64_t wait_ns, int64_t poll_at_ns, int64_t now_ns)
{
    uint64_t monotonic_ns = kb_clock_ns(CLOCK_MONOTONIC), next_ns = UINT64_MAX;
    int64_t wait = wait_ns < 0 ? INT64_MAX : wait_ns;
    for (uint32_t i = 0; i < c->listener_count; i++)
        next_ns = KB_MIN(next_ns, c->listeners[i]->wake_ns);
    if (next_ns != UINT64_MAX) {
        uint64_t left = next_ns > monotonic_ns ? next_ns - monotonic_ns : 0;
        wait = KB_MIN(wait, (int64_t)KB_MIN(left, (uint64_t)INT64_MAX));
    }
    if (poll_at_ns != INT64_MAX)
        wait = KB_MIN(wait, KB_MAX(poll_at_ns - now_ns, 0));
    return wait == INT64_MAX ? -1 : wait;
}

/* Everything that is due is done; says until when nothing is. */
static int64_t plan(ko_controller *c, int64_t wait_ns)
{
    ko_controller_lock(c);
    ko_steps_poll(c);
    ko_tick(c);
    int64_t due_ns = ko_due_ns(c), now_ns = ko_now_ns();
    int64_t wait = wait_of(c, wait_ns, ko_steps_poll_ns(c, now_ns), now_ns);
    c->planned_ns = due_ns; /* whoever makes it earlier wakes this thread */
    set_timer(c, due_ns);
    ko_controller_unlock(c);
    return wait;
}

static void done_waiting(ko_controller *c)
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

/* ---- a turn -------------------------------------------------------------------------------------- */

static void turn_listeners(ko_controller *c, const struct pollfd *fds)
{
    for (uint32_t i = 0; i < c->listener_count; i++) {
        ko_listener *l = c->listeners[i];
        uint64_t monotonic_ns = kb_clock_ns(CLOCK_MONOTONIC);
        if ((fds[i].fd >= 0 && fds[i].revents) || monotonic_ns >= l->wake_ns)
            l->turn(l, c, monotonic_ns);
    }
}

void ko_controller_turn(ko_controller *c, int64_t wait_ns)
{
    struct pollfd fds[KO_MOST_LISTENERS + 2];
    uint32_t n = c->listener_count;
    int64_t wait = plan(c, wait_ns);
    struct timespec limit = timespec_of(KB_MAX(wait, 0));
    for (uint32_t i = 0; i < n; i++)
        fds[i] = (struct pollfd){.fd = c->listeners[i]->fd, .events = c->listeners[i]->events};
    fds[n] = (struct pollfd){.fd = c->wake_fd, .events = POLLIN};
    fds[n + 1] = (struct pollfd){.fd = c->timer_fd, .events = POLLIN};
    if (ppoll(fds, n + 2, wait < 0 ? NULL : &limit, NULL) < 0)
        memset(fds, 0, sizeof fds); /* a signal: the host may want to look at something */
    if (fds[n].revents)
        empty(c->wake_fd);
    if (fds[n + 1].revents) {
        empty(c->timer_fd);
        c->timer_ns = INT64_MIN; /* it is off now */
    }
    done_waiting(c);
    turn_listeners(c, fds);
}
