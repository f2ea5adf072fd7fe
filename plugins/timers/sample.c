/* The signal handler: one sample. */
#include "timers.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#define PAGE_BYTES 4096u /* or a multiple */

/* ---- slots ----------------------------------------------------------------------------------- */

/* Where so many slots in a row are full, the sample is lost. */
#define MAX_TRIES 1024u

static uint32_t index_of_slot(const kf_slot *slot)
{
    return (uint32_t)(slot - kf_timers_slot(cs_memory, 0));
}

kf_slot *cs_slot_claim(kf_slot_type type)
{
    kf_timers *m = cs_memory;
    uint32_t begin = cs_me.tid * UINT32_C(2654435761); /* mostly the same slot, in warm memory */
    for (uint32_t n = 0; n < MAX_TRIES && n < m->slot_count; n++) {
        uint32_t i = (begin + n) % m->slot_count, state = KF_SLOT_FREE;
        if (__atomic_load_n(&m->states[i], __ATOMIC_RELAXED) != KF_SLOT_FREE ||
            !__atomic_compare_exchange_n(&m->states[i], &state, KF_SLOT_WRITING, false,
                                         __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
            continue;
        struct timespec t = {0, 0};
        kf_slot *slot = kf_timers_slot(m, i);
        (void)clock_gettime(CLOCK_MONOTONIC_RAW, &t);
        slot->type = type;
        slot->pid = (uint32_t)getpid();
        slot->tid = cs_me.tid;
        slot->bytes = 0;
        slot->time_ns = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
        return slot;
    }
    return NULL;
}

void cs_slot_publish(const kf_slot *slot)
{
    __atomic_store_n(&cs_memory->states[index_of_slot(slot)], KF_SLOT_FULL, __ATOMIC_RELEASE);
}

static void discard_slot(const kf_slot *slot)
{
    __atomic_store_n(&cs_memory->states[index_of_slot(slot)], KF_SLOT_FREE, __ATOMIC_RELEASE);
}

/* ---- the stack ------------------------------------------------------------------------------- */

/* The kernel reads the set before it looks at the invalid operation: EFAULT for a page that cannot
 * be read, else EINVAL. */
static bool is_readable(uintptr_t address)
{
    enum { INVALID_OPERATION = 0x7fff, KERNEL_SET_BYTES = 8 };
    return syscall(SYS_rt_sigprocmask, INVALID_OPERATION, address & ~(uintptr_t)7, NULL,
                   KERNEL_SET_BYTES) != 0 && errno != EFAULT;
}

/* The thread's memory for thread-local variables lies at the upper end of its stack; in the first
 * thread it does not, nor on other stacks (of coroutines, of signals). So each page is tried. */
static uint32_t find_stack_bytes(uintptr_t stack)
{
    uintptr_t end = stack + KF_TIMERS_STACK, known = (uintptr_t)&cs_me;
    if (known > stack && known < end)
        end = known & ~(uintptr_t)7;
    for (uintptr_t at = stack; at < end; at = (at & ~(uintptr_t)(PAGE_BYTES - 1)) + PAGE_BYTES)
        if (!is_readable(at))
            return (uint32_t)(at - stack);
    return (uint32_t)(end - stack);
}

/* Word by word, and not by memcpy, which in a program with AddressSanitizer is that of the sanitizer: it
 * would report what lies between the variables. */
#if defined(__SANITIZE_ADDRESS__) /* the library itself, in a test */
__attribute__((no_sanitize_address))
#endif
static uint32_t copy_stack(uintptr_t stack, kf_slot *slot)
{
    const volatile uint64_t *from = (const volatile uint64_t *)stack;
    uint64_t *to = (uint64_t *)(void *)slot->stack;
    uint32_t words = stack % sizeof *from ? 0 : find_stack_bytes(stack) / sizeof *from;
    for (uint32_t i = 0; i < words; i++)
        to[i] = from[i];
    return words * (uint32_t)sizeof *from;
}

/* ---- registers ------------------------------------------------------------------------------- */

static uintptr_t copy_registers(const ucontext_t *u, kf_slot *slot)
{
#if defined(__x86_64__)
    /* by DWARF's numbers */
    static const uint8_t order[16] = {REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI,
                                      REG_RBP, REG_RSP, REG_R8,  REG_R9,  REG_R10, REG_R11,
                                      REG_R12, REG_R13, REG_R14, REG_R15};
    for (uint32_t i = 0; i < 16; i++)
        slot->registers[i] = (uint64_t)u->uc_mcontext.gregs[order[i]];
    slot->instruction = slot->registers[16] = (uint64_t)u->uc_mcontext.gregs[REG_RIP];
    return (uintptr_t)slot->registers[7];
#elif defined(__aarch64__)
    memcpy(slot->registers, u->uc_mcontext.regs, 31 * sizeof slot->registers[0]);
    slot->registers[31] = u->uc_mcontext.sp;
    slot->instruction = u->uc_mcontext.pc;
    return (uintptr_t)u->uc_mcontext.sp;
#else
    (void)u, (void)slot;
    return 0;
#endif
}

/* ---- the handler ----------------------------------------------------------------------------- */

/* Is the recorder gone, so that slots stay full? */
static bool is_recorder_gone(void)
{
    return kill((pid_t)cs_memory->recorder_pid, 0) != 0 && errno == ESRCH;
}

/* @param periods  of CPU time that have passed since the last sample. */
static void take_sample(const ucontext_t *u, uint64_t periods)
{
    kf_slot *slot = cs_slot_claim(KF_SLOT_SAMPLE);
    if (!slot) {
        cs_count(KF_TIMERS_LOST, 1);
        if (is_recorder_gone())
            cs_stand_aside();
        return;
    }
    int cpu = sched_getcpu();
    slot->cpu = cpu < 0 ? 0 : (uint32_t)cpu;
    slot->period_ns = periods * cs_me.period_ns;
    slot->bytes = copy_stack(copy_registers(u, slot), slot);
    if (cs_me.is_measuring) {
        discard_slot(slot);
        return;
    }
    cs_slot_publish(slot);
    cs_count(KF_TIMERS_TAKEN, 1);
}

void cs_handle_signal(int number, siginfo_t *info, void *context)
{
    int saved = errno;
    (void)number;
    bool is_ours = (info->si_code == SI_TIMER && cs_me.entry) || cs_me.is_measuring;
    if (is_ours && cs_is_on()) {
        uint64_t period_ns = __atomic_load_n(&cs_memory->period_ns, __ATOMIC_RELAXED);
        if (period_ns)
            take_sample(context, cs_me.is_measuring ? 1 : 1 + (uint64_t)info->si_overrun);
        if (!period_ns)
            cs_thread_end(); /* the recording is over */
        else if (period_ns != cs_me.period_ns)
            cs_thread_set_period(period_ns, period_ns);
    }
    errno = saved;
}
