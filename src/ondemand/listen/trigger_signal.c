/* A signal requests a trace with the values of the configuration file. The program's own handler
 * for the same signal is called as before. The handler only rings a bell; the request is made on
 * the controller's thread. One signal per process. */
#include "ondemand/listen/listeners.h"
#include "ondemand/support/wake.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <strings.h>
#include <time.h>

#define MAX_SIGNALS    65
#define NAME_BYTES     16
#define HANDLER_ROUNDS 1000 /* of 10 µs: wait for handlers that are ringing on other threads */

/* ---- names ----------------------------------------------------------------------------------- */

/* Signals that are safe to use. Others end or stop a program, or report its faults, timers and
 * children. */
static const struct {
    const char *name;
    int number;
} names[] = {{"USR1", SIGUSR1}, {"USR2", SIGUSR2}, {"URG", SIGURG}, {"WINCH", SIGWINCH},
             {"IO", SIGIO},     {"POLL", SIGIO},   {"PWR", SIGPWR}};

static bool is_usable_signal(int signal)
{
    for (size_t i = 0; i < KB_COUNT(names); i++)
        if (names[i].number == signal)
            return true;
    return signal >= SIGRTMIN && signal <= SIGRTMAX;
}

/* "SIGUSR2", "SIGRTMIN+1" or a number. */
static void format_signal_name(int signal, char out[NAME_BYTES])
{
    snprintf(out, NAME_BYTES, "%d", signal);
    for (size_t i = KB_COUNT(names); i-- > 0;)
        if (names[i].number == signal)
            snprintf(out, NAME_BYTES, "SIG%s", names[i].name);
    if (signal >= SIGRTMIN)
        snprintf(out, NAME_BYTES, "SIGRTMIN+%d", signal - SIGRTMIN);
}

static kineto_status check_signal(int signal, kineto_error *err)
{
    if (is_usable_signal(signal))
        return KINETO_OK;
    return kb_fail(err, KINETO_E_ARGUMENT,
                   "signal %d is needed by the program or the system; use USR1, USR2, "
                   "PWR, URG, WINCH, IO or RTMIN+0 to RTMIN+%d",
                   signal, SIGRTMAX - SIGRTMIN);
}

/* 0 to 999; -1: something else. */
static int parse_small_number(const char *text)
{
    int number = 0;
    size_t i = 0;
    for (; kb_is_digit(text[i]) && i < 3; i++)
        number = number * 10 + (text[i] - '0');
    return i > 0 && text[i] == '\0' ? number : -1;
}

/* Any spelling; -1: unknown. The caller checks whether it can be used. */
static int find_signal(const char *text)
{
    if (parse_small_number(text) >= 0)
        return parse_small_number(text);
    if (strncasecmp(text, "SIG", 3) == 0)
        text += 3;
    for (size_t i = 0; i < KB_COUNT(names); i++)
        if (strcasecmp(text, names[i].name) == 0)
            return names[i].number;
    if (strncasecmp(text, "RTMIN", 5) == 0 && text[5] == '\0')
        return SIGRTMIN;
    if (strncasecmp(text, "RTMAX", 5) == 0 && text[5] == '\0')
        return SIGRTMAX;
    bool above = strncasecmp(text, "RTMIN+", 6) == 0, below = strncasecmp(text, "RTMAX-", 6) == 0;
    int by = above || below ? parse_small_number(text + 6) : -1;
    if (by < 0)
        return -1;
    return above ? SIGRTMIN + by : SIGRTMAX - by;
}

kineto_status ko_signal_parse(const char *text, int *signal, kineto_error *err)
{
    int found = find_signal(text);
    if (found < 0)
        return kb_fail(err, KINETO_E_ARGUMENT,
                       "unknown signal '%.32s'; use USR1, USR2, PWR, URG, WINCH, "
                       "IO or RTMIN+0 to RTMIN+%d",
                       text, SIGRTMAX - SIGRTMIN);
    kineto_status status = check_signal(found, err);
    if (status == KINETO_OK)
        *signal = found;
    return status;
}

/* ---- the handler ----------------------------------------------------------------------------- */

/* A handler has no argument, and a handler that the program installed over ours may still call it
 * when the listener is gone: its data is static. */
static struct {
    struct sigaction before;
    bool installed; /* our handler may still be called */
} signals[MAX_SIGNALS];
static ko_wake bell;
static int listened;     /* atomic: the signal that rings it; 0: none */
static uint32_t ringing; /* atomic: number of handlers that are running */
static uint32_t
    own_pid; /* a child that did not go through fork handlers must not ring its parent's bell */

/* @param before  receives the previous action, to be called afterwards; copied while `ringing`
 *                 holds it. */
static void ring_bell(int signal, struct sigaction *before)
{
    (void)kb_add_acqrel(&ringing, 1u);
    kb_fence_seqcst(); /* see wait_for_handlers */
    if (kb_load_acquire(&listened) == signal && kb_os_pid() == own_pid)
        ko_wake_ring(&bell);
    *before = signals[signal].before;
    (void)__atomic_fetch_sub(&ringing, 1u, __ATOMIC_ACQ_REL);
}

/* The signal handler: async-signal-safe, keeps errno. */
static void handle_trigger_signal(int signal, siginfo_t *info, void *context)
{
    int saved = errno;
    struct sigaction before;
    ring_bell(signal, &before);
    errno = saved;
    if (before.sa_flags & SA_SIGINFO)
        before.sa_sigaction(signal, info, context);
    else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN)
        before.sa_handler(signal);
}

static bool is_trigger_handler(const struct sigaction *a)
{
    return (a->sa_flags & SA_SIGINFO) && a->sa_sigaction == handle_trigger_signal;
}

/* Installs our handler with the flags and mask of the program's own, which runs within ours. */
static kineto_status install_trigger_handler(int signal, kineto_error *err)
{
    struct sigaction now, ours = {.sa_sigaction = handle_trigger_signal};
    if (sigaction(signal, NULL, &now) != 0)
        return kb_fail_os(err, errno, "cannot query signal %d", signal);
    /* Ours is installed, or another handler calls it: installing it again would make a loop. */
    if (is_trigger_handler(&now) || signals[signal].installed)
        return KINETO_OK;
    bool handled =
        (now.sa_flags & SA_SIGINFO) || (now.sa_handler != SIG_DFL && now.sa_handler != SIG_IGN);
    ours.sa_flags = SA_SIGINFO | SA_ONSTACK; /* threads may have small stacks */
    ours.sa_flags |= handled ? now.sa_flags & (SA_RESTART | SA_NODEFER) : SA_RESTART;
    if (handled)
        ours.sa_mask = now.sa_mask;
    else
        sigemptyset(&ours.sa_mask);
    KB_ASSERT(signal > 0 && signal < MAX_SIGNALS);
    signals[signal].before = now;
    (void)kb_add_acqrel(&ringing, 0u); /* release: the handler sees `before` */
    if (sigaction(signal, &ours, NULL) != 0)
        return kb_fail_os(err, errno, "cannot take signal %d", signal);
    signals[signal].installed = true;
    return KINETO_OK;
}

/* A handler that the program installed meanwhile stays. */
static void remove_trigger_handler(int signal)
{
    struct sigaction now;
    if (sigaction(signal, NULL, &now) != 0 || !is_trigger_handler(&now))
        return;
    if (sigaction(signal, &signals[signal].before, NULL) == 0)
        signals[signal].installed = false;
}

/* Before the bell is closed: waits until no handler can ring it. `listened` was cleared before;
 * together with the fence in ring_bell, a handler either sees that or is counted in `ringing`. */
static void wait_for_handlers(void)
{
    const struct timespec moment = {.tv_nsec = 10000};
    kb_fence_seqcst();
    for (int i = 0; i < HANDLER_ROUNDS && kb_load_acquire(&ringing) != 0; i++)
        (void)nanosleep(&moment, NULL);
}

/* ---- the listener ---------------------------------------------------------------------------- */

typedef struct signal_listener {
    ko_listener listener; /* first */
    int signal;
    char name[NAME_BYTES];
    bool in_child;
} signal_listener;

/* Several signals before a turn make one request. */
static void submit_signal_request(const signal_listener *s, ko_controller *c, uint32_t count)
{
    kineto_error err;
    uint64_t ticket;
    if (count > 1)
        kb_log(KINETO_LOG_WARNING,
               "on-demand tracing: %s arrived %u times at once: one trace is requested", s->name,
               count);
    if (ko_controller_request(c, kb_string(""), KO_FROM_FILE, &ticket, &err) == KINETO_OK)
        kb_log(KINETO_LOG_INFO, "on-demand tracing: request %llu came by %s",
               (unsigned long long)ticket, s->name);
    else
        kb_log(KINETO_LOG_WARNING, "on-demand tracing: refused the request by %s: %s", s->name,
               err.message);
}

/* The program has closed the bell: other files may have its numbers. */
static void reopen_bell(signal_listener *s)
{
    kineto_error err;
    kb_store_release(&listened, 0);
    wait_for_handlers();
    ko_wake_close(&bell);
    if (ko_wake_open(&bell, &err) == KINETO_OK)
        kb_store_release(&listened, s->signal);
    else
        kb_log(KINETO_LOG_WARNING, "on-demand tracing: %s no longer requests traces: %s", s->name,
               err.message);
    s->listener.fd = ko_wake_fd(&bell);
}

static void turn_signal_listener(ko_listener *l, ko_controller *c, uint64_t now_ns)
{
    signal_listener *s = (signal_listener *)l;
    (void)now_ns;
    if (s->in_child || l->fd < 0)
        return;
    if (!kb_fd_still_ours(&bell.reads)) {
        reopen_bell(s);
        return;
    }
    uint32_t count = ko_wake_take(&bell);
    if (count > 0)
        submit_signal_request(s, c, count);
}

/* The handler stays installed in the child until the listener is destroyed. */
static void forget_parent_bell(ko_listener *l)
{
    signal_listener *s = (signal_listener *)l;
    kb_store_release(&listened, 0);
    kb_store_release(&ringing, 0u);
    ko_wake_close(&bell);
    s->in_child = true;
    l->fd = -1;
}

static void destroy_signal_listener(ko_listener *l)
{
    signal_listener *s = (signal_listener *)l;
    kb_store_release(&listened, 0);
    remove_trigger_handler(s->signal);
    wait_for_handlers();
    ko_wake_close(&bell);
    free(s);
}

/* Opens the bell before the handler is installed, so that the handler never finds it closed. */
static kineto_status open_bell(int signal, kineto_error *err)
{
    if (kb_load_acquire(&listened) != 0)
        return kb_fail(err, KINETO_E_STATE,
                       "signal %d is in use already; only one signal can request traces", listened);
    kineto_status status = ko_wake_open(&bell, err);
    if (status != KINETO_OK)
        return status;
    own_pid = kb_os_pid();
    kb_store_release(&listened, signal);
    status = install_trigger_handler(signal, err);
    if (status != KINETO_OK) {
        kb_store_release(&listened, 0);
        ko_wake_close(&bell);
    }
    return status;
}

ko_listener *ko_signal_listener_create(int signal, kineto_error *err)
{
    signal_listener *s = calloc(1, sizeof *s);
    if (!s)
        kb_fail_memory(err, "signal listener");
    if (!s || check_signal(signal, err) != KINETO_OK || open_bell(signal, err) != KINETO_OK) {
        free(s);
        return NULL;
    }
    s->signal = signal;
    format_signal_name(signal, s->name);
    s->listener = (ko_listener){.name = "signal",
                                .fd = ko_wake_fd(&bell),
                                .events = POLLIN,
                                .wake_ns = UINT64_MAX,
                                .turn = turn_signal_listener,
                                .forked = forget_parent_bell,
                                .destroy = destroy_signal_listener};
    return &s->listener;
}
