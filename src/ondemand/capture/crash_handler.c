/* Crash handling: the signal handler writes the ring to a file, once, and then does what would have
 * happened without it: it calls the program's own handler, or restores the default action with its
 * exit status and core. Everything in the handler is async-signal-safe.
 *
 * State: OFF → ARMED (ko_crash_arm) → WRITING (the thread that wins the compare-and-swap) → DONE.
 * Other threads that crash meanwhile wait for DONE; the writing thread, if it crashes itself, gives
 * up. */
#include "ondemand/capture/ring.h"
#include "record/record.h"

#include <ckineto/record.h>

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define STACK_BYTES 65536u
#define PATIENCE_MS 10000u /* a thread that crashes while another one writes waits this long */

static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};

enum { OFF = 0, ARMED = 1, WRITING = 2, DONE = 3 };

static struct {
    uint32_t state;  /* atomic */
    uint32_t pid;    /* only this process writes: a fork's child does not */
    uint32_t writer; /* atomic: the thread that writes */
    int signal;      /* the signal that it handles */
    ko_crash_file file;
    bool armed; /* its directory is open */
    /* The previous actions, to be called after ours. Two copies each: the one in use is never
     * written, since another thread's handler may be reading it. */
    struct sigaction before[KB_COUNT(signals)][2];
    uint32_t in_use[KB_COUNT(signals)]; /* atomic */
    bool installed[KB_COUNT(signals)];  /* our handler may be called */
} crash;

/* ---- texts ----------------------------------------------------------------------------------- */

/* A line being built without the heap; truncated to what fits. */
typedef struct line {
    size_t used;
    char text[1400];
} line;

static void append_text(line *l, const char *text)
{
    for (; *text && l->used + 1 < sizeof l->text; text++)
        l->text[l->used++] = *text;
}

/* Decimal or hexadecimal; snprintf is not async-signal-safe. */
static void append_number(line *l, uint64_t value, uint32_t base)
{
    char digits[24];
    size_t n = sizeof digits;
    digits[--n] = '\0';
    do
        digits[--n] = "0123456789abcdef"[value % base];
    while (value /= base);
    append_text(l, digits + n);
}

static const char *signal_name(int sig)
{
    switch (sig) {
    case SIGSEGV:
        return "SIGSEGV";
    case SIGBUS:
        return "SIGBUS";
    case SIGFPE:
        return "SIGFPE";
    case SIGILL:
        return "SIGILL";
    default:
        return "SIGABRT";
    }
}

/* strerror is not async-signal-safe. */
static void append_os_error(line *l, int os_error)
{
    switch (os_error) {
    case ENOSPC:
    case EDQUOT:
        append_text(l, "no space left");
        break;
    case EFBIG:
        append_text(l, "it exceeds the file size limit");
        break;
    case EACCES:
    case EPERM:
        append_text(l, "not permitted");
        break;
    case EROFS:
        append_text(l, "the file system is read-only");
        break;
    case EMFILE:
    case ENFILE:
        append_text(l, "out of file descriptors");
        break;
    case EEXIST:
        append_text(l, "ten files of this name exist already");
        break;
    default:
        append_text(l, "error ");
        append_number(l, (uint64_t)os_error, 10);
    }
}

/* For example "SIGSEGV at address 0x10 in thread 42", or the process that sent the signal. */
static void append_cause(line *l, int sig, const siginfo_t *info)
{
    append_text(l, signal_name(sig));
    if (info->si_code > 0) {
        append_text(l, " at address 0x");
        append_number(l, (uint64_t)(uintptr_t)info->si_addr, 16);
    } else if (info->si_pid && info->si_pid != getpid()) {
        append_text(l, " from process ");
        append_number(l, (uint64_t)info->si_pid, 10);
    }
    append_text(l, " in thread ");
    append_number(l, kb_os_tid(), 10);
}

/* To standard error, unless writing would block. */
static void print_line(line *l)
{
    struct pollfd p = {.fd = STDERR_FILENO, .events = POLLOUT};
    append_text(l, "\n");
    if (poll(&p, 1, 0) == 1 && (p.revents & POLLOUT))
        (void)kb_os_write_quiet(STDERR_FILENO, l->text, l->used);
}

/* The line on standard error: where the dump is and how to make a trace of it, or why there is
 * none. */
static void print_dump_result(int sig, int os_error, bool made)
{
    line l = {.used = 0};
    append_text(&l, "ckineto: ");
    append_text(&l, signal_name(sig));
    if (made) {
        append_text(&l, os_error ? ": part of the ring is in " : ": the ring is in ");
        append_text(&l, crash.file.path);
        if (os_error) {
            append_text(&l, " (");
            append_os_error(&l, os_error);
            append_text(&l, ")");
        }
        append_text(&l, "; for the trace: ckineto recover -o FILE.json ");
        append_text(&l, crash.file.path);
    } else {
        append_text(&l, ": the ring could not be written to ");
        append_text(&l, crash.file.path);
        append_text(&l, ": ");
        append_os_error(&l, os_error);
    }
    print_line(&l);
}

/* ---- the previous action --------------------------------------------------------------------- */

static size_t signal_index(int sig)
{
    size_t i = 0;
    while (i + 1 < KB_COUNT(signals) && signals[i] != sig)
        i++;
    return i;
}

/* The copy that is in use. */
static struct sigaction *previous_action(size_t i)
{
    return &crash.before[i][kb_load_acquire(&crash.in_use[i])];
}

/* Writes the other copy and then switches to it, so that handlers on other threads always read a
 * complete one. */
static void set_previous_action(size_t i, const struct sigaction *a)
{
    KB_ASSERT(i < KB_COUNT(signals) && kb_load_relaxed(&crash.in_use[i]) <= 1);
    uint32_t other = !kb_load_relaxed(&crash.in_use[i]);
    crash.before[i][other] = *a;
    kb_store_release(&crash.in_use[i], other);
}

/* A fault recurs when its instruction is repeated; a signal that was sent must be sent again. */
static bool will_recur(int sig, const siginfo_t *info)
{
    return info->si_code > 0 && !(sig == SIGBUS && info->si_code == BUS_MCEERR_AO);
}

/* Sends it with the same siginfo; it is pending until the handler returns. */
static void resend_signal(int sig, siginfo_t *info)
{
    if (syscall(SYS_rt_tgsigqueueinfo, getpid(), (pid_t)kb_os_tid(), sig, info) != 0)
        (void)syscall(SYS_tgkill, getpid(), (pid_t)kb_os_tid(), sig);
}

/* Calls the program's handler as the kernel would have: with its mask, SA_NODEFER and
 * SA_RESETHAND. */
static void call_previous_handler(struct sigaction *before, int sig, siginfo_t *info, void *context)
{
    struct sigaction a = *before;
    if (a.sa_flags & (int)SA_RESETHAND)
        *before = (struct sigaction){.sa_handler = SIG_DFL};
    if (!(a.sa_flags & SA_NODEFER))
        sigaddset(&a.sa_mask, sig);
    pthread_sigmask(SIG_BLOCK, &a.sa_mask, NULL); /* until our handler returns */
    if (a.sa_flags & SA_SIGINFO)
        a.sa_sigaction(sig, info, context);
    else
        a.sa_handler(sig);
}

/* Ignored, handled or default: in the last case the default action is restored, and the signal
 * recurs or is sent again. */
static void run_previous_handler(int sig, siginfo_t *info, void *context)
{
    struct sigaction *before = previous_action(signal_index(sig));
    bool plain = !(before->sa_flags & SA_SIGINFO);
    if (plain && before->sa_handler == SIG_IGN && !will_recur(sig, info))
        return;
    if (!plain || (before->sa_handler != SIG_DFL && before->sa_handler != SIG_IGN)) {
        call_previous_handler(before, sig, info, context);
        return;
    }
    (void)sigaction(sig, before, NULL);
    if (!will_recur(sig, info))
        resend_signal(sig, info);
}

/* ---- the handler ----------------------------------------------------------------------------- */

/* Closes the gate meanwhile, so that the other threads stop recording and the file is consistent;
 * they go on if the program survives the signal. Values that another thread sets meanwhile, as when
 * a session begins, are kept: compare-and-swap. */
static void write_ring_file(const kf_pool *pool, int sig, const siginfo_t *info)
{
    kf_control *control = pool->control;
    line reason = {.used = 0};
    bool made;
    append_text(&reason, "\"");
    append_cause(&reason, sig, info);
    append_text(&reason, "\"");
    uint64_t gate = kb_exchange_acqrel(&control->gate, UINT64_C(0));
    uint32_t policy = kb_exchange_acqrel(&control->full_policy, (uint32_t)KF_FULL_DROP);
    int os_error =
        ko_crash_file_write(&crash.file, pool, (kineto_string){reason.text, reason.used}, &made);
    uint32_t dropping = KF_FULL_DROP;
    uint64_t closed = 0;
    (void)kb_cas_acqrel(&control->full_policy, &dropping, policy);
    (void)kb_cas_acqrel(&control->gate, &closed, gate & kf_held_kinds(control));
    print_dump_result(sig, os_error, made);
}

/* Records an instant, so that the trace shows the signal on its thread. */
static void record_signal_instant(int sig)
{
    KINETO_SITE(site, KINETO_KIND_CPU_INSTANT_EVENT, "signal");
    kineto_props props = {.size = sizeof props, .name = signal_name(sig)};
    kineto_instant_mark_props(&site, &props);
}

/* Writing has crashed as well: does what the first signal would have done. */
static void abandon_dump(void)
{
    line l = {.used = 0};
    int sig = crash.signal;
    append_text(&l, "ckineto: the ring could not be written: it is damaged");
    kb_store_release(&crash.state, (uint32_t)DONE);
    print_line(&l);
    (void)sigaction(sig, previous_action(signal_index(sig)), NULL);
    (void)syscall(SYS_tgkill, getpid(), (pid_t)kb_os_tid(), sig);
}

/* Another thread is writing: this one must not end the process before that is done. */
static void wait_for_crash_writer(void)
{
    struct timespec ms = {0, KB_MILLISECOND_NS};
    for (uint32_t i = 0; i < PATIENCE_MS && kb_load_acquire(&crash.state) == WRITING; i++)
        nanosleep(&ms, NULL);
}

/* The winner of the compare-and-swap writes; see the states above. */
static void dump_ring_once(int sig, const siginfo_t *info)
{
    uint32_t state = ARMED, self = kb_os_tid();
    if (kb_cas_acqrel(&crash.state, &state, (uint32_t)WRITING)) {
        kb_store_release(&crash.writer, self);
        crash.signal = sig;
        record_signal_instant(sig);
        write_ring_file(kineto_rt_pool(), sig, info);
        kb_store_release(&crash.state, (uint32_t)DONE);
    } else if (state == WRITING && kb_load_acquire(&crash.writer) == self) {
        abandon_dump();
    } else if (state == WRITING) {
        wait_for_crash_writer();
    }
}

static bool is_ignored(int sig, const siginfo_t *info)
{
    const struct sigaction *before = previous_action(signal_index(sig));
    return !(before->sa_flags & SA_SIGINFO) && before->sa_handler == SIG_IGN &&
           !will_recur(sig, info);
}

static void on_crash(int sig, siginfo_t *info, void *context)
{
    int saved = errno;
    if (kb_os_pid() == kb_load_acquire(&crash.pid) && !is_ignored(sig, info))
        dump_ring_once(sig, info);
    errno = saved;
    run_previous_handler(sig, info, context);
}

/* ---- life ------------------------------------------------------------------------------------ */

/* Only for the calling thread: other threads have one if the program gave it to them. */
void ko_crash_stack(void)
{
    stack_t known, own = {.ss_size = STACK_BYTES};
    size_t guard = kb_os_page_bytes();
    if (sigaltstack(NULL, &known) != 0 || !(known.ss_flags & SS_DISABLE))
        return;
    char *memory = kb_os_map(STACK_BYTES + guard);
    if (!memory)
        return;
    (void)mprotect(memory, guard, PROT_NONE);
    own.ss_sp = memory + guard;
    (void)sigaltstack(&own, NULL);
}

static bool is_crash_handler(const struct sigaction *a)
{
    return (a->sa_flags & SA_SIGINFO) && a->sa_sigaction == on_crash;
}

static bool has_program_handler(const struct sigaction *a)
{
    return (a->sa_flags & SA_SIGINFO) || (a->sa_handler != SIG_DFL && a->sa_handler != SIG_IGN);
}

/* No signal is blocked in our handler, so that it is called again if writing crashes. SA_RESTART as
 * in the previous action, so that interrupted system calls behave as before. */
static struct sigaction make_crash_action(const struct sigaction *before)
{
    struct sigaction ours = {.sa_sigaction = on_crash,
                             .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
    sigemptyset(&ours.sa_mask);
    ours.sa_flags |= has_program_handler(before) ? before->sa_flags & SA_RESTART : SA_RESTART;
    return ours;
}

/* May be called again by a fork's child, whose handlers were inherited. */
static void install_crash_handler(size_t i)
{
    struct sigaction now, ours, replaced;
    if (sigaction(signals[i], NULL, &now) != 0 || is_crash_handler(&now))
        return;
    if (crash.installed[i] && has_program_handler(&now))
        return; /* this handler may call ours: installing ours above it would make a loop */
    ours = make_crash_action(&now);
    set_previous_action(i, &now);
    kb_store_release(&crash.pid, kb_os_pid());
    if (sigaction(signals[i], &ours, &replaced) != 0)
        return;
    crash.installed[i] = true;
    if (!is_crash_handler(&replaced)) /* another thread has installed its own in between */
        set_previous_action(i, &replaced);
}

/* A handler that the program installed meanwhile stays, also one that it installed in between. */
static void remove_crash_handler(size_t i)
{
    struct sigaction now, replaced;
    if (sigaction(signals[i], NULL, &now) != 0 || !is_crash_handler(&now) ||
        sigaction(signals[i], previous_action(i), &replaced) != 0)
        return;
    crash.installed[i] = !is_crash_handler(&replaced);
    if (crash.installed[i])
        (void)sigaction(signals[i], &replaced, NULL);
}

kineto_status ko_crash_arm(const kineto_control_options *options, kineto_error *err)
{
    const kf_pool *pool = kineto_rt_pool();
    if (!pool)
        return kb_fail(err, KINETO_E_STATE,
                       "ring: it is not recording; start it before arming crash dumps");
    if (pool->control->external)
        return KINETO_OK;
    uint32_t state = kb_load_acquire(&crash.state);
    if (crash.pid == kb_os_pid() && (state == ARMED || state == WRITING))
        return kb_fail(err, KINETO_E_STATE, "ring: crash dumps are armed already");
    ko_crash_file file;
    kineto_status status = ko_crash_file_open(options, &file, err);
    if (status)
        return status;
    if (crash.armed) /* by this process, or by a parent */
        ko_crash_file_close(&crash.file);
    crash.file = file;
    crash.armed = true;
    kb_store_release(&crash.pid, kb_os_pid());
    crash.file.kinds = options->ring_kinds ? options->ring_kinds : KINETO_KINDS_DEFAULT;
    crash.file.ring_ns = (uint64_t)(options->ring_seconds * (double)KB_SECOND_NS);
    crash.file.from_ticks = kb_ticks(pool->control->ticks_clock);
    crash.file.process = kineto_rt_process();
    ko_crash_stack();
    kb_store_release(&crash.state, (uint32_t)ARMED);
    for (size_t i = 0; i < KB_COUNT(signals); i++)
        install_crash_handler(i);
    return KINETO_OK;
}

/* A handler that was installed after ours may still call it: then it only passes signals on. */
void ko_crash_disarm(void)
{
    uint32_t armed = ARMED;
    bool was = kb_cas_acqrel(&crash.state, &armed, (uint32_t)OFF);
    if (!was && armed != DONE)
        return;
    for (size_t i = 0; i < KB_COUNT(signals); i++)
        remove_crash_handler(i);
    if (crash.armed)
        ko_crash_file_close(&crash.file);
    crash.armed = false;
}
