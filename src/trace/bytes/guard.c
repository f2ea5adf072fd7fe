/* Protects the process against mapped files that are truncated while they are read. A read
 * from a page that the file no longer has raises SIGBUS, which kills the process. While
 * files are mapped, and if the program has no SIGBUS handler of its own, a handler here
 * maps zero pages over the lost ones and sets `cut` of the input: reading continues, and
 * ends with an error (kt_input_check).
 *
 * The handler runs in any thread at any time: it takes no lock and allocates nothing. Slots
 * are never freed, so that it may read them at any time; a thread that reads a mapped file
 * holds a reference to the input, so the slot of a faulting address stays in use. */
#include "trace/bytes/input.h"

#include <signal.h>
#include <sys/mman.h>

#define SLOTS 64u

/* The range of one mapped file. A thread owns the slot by changing `claimed` from 0 to 1;
 * the handler sees the slot from the moment `base` is stored, which is last, and until it
 * is cleared, which is first. */
typedef struct guard_slot {
    uintptr_t base; /* 0: free */
    size_t bytes;
    uint32_t claimed;
    kt_input *input;
} guard_slot;

typedef struct guard_slots {
    guard_slot slots[SLOTS];
    struct guard_slots *next; /* set once */
} guard_slots;

static guard_slots first_guard_slots;
static pthread_once_t install_once = PTHREAD_ONCE_INIT;

/* Path of the first file that was truncated. The handler that wins `cut_claimed` writes it,
 * once. */
static char cut_path[1024];
static uint32_t cut_claimed, cut_known;

const char *kt_guard_cut_file(void) { return kb_load_acquire(&cut_known) ? cut_path : NULL; }

/* Marks the input as cut and records its path, if it is the first. Async-signal-safe. */
static void mark_input_cut(kt_input *in)
{
    uint32_t first = 0;
    kb_store_relaxed(&in->cut, 1u);
    if (!kb_cas_acqrel(&cut_claimed, &first, 1u))
        return;
    for (size_t i = 0; i + 1 < sizeof cut_path && in->path[i]; i++)
        cut_path[i] = in->path[i];
    kb_store_release(&cut_known, 1u);
}

/* The slot whose mapping contains the address; NULL: the fault is not in a mapped trace. */
static const guard_slot *find_guard_slot(uintptr_t address)
{
    for (const guard_slots *s = &first_guard_slots; s; s = kb_load_acquire(&s->next))
        for (uint32_t i = 0; i < SLOTS; i++) {
            uintptr_t base = kb_load_acquire(&s->slots[i].base);
            if (base && address >= base && address - base < s->slots[i].bytes)
                return &s->slots[i];
        }
    return NULL;
}

/* Maps zeros from the faulting page to the end of the mapping: pages after a lost page are
 * lost, too. */
static bool map_zeros_over_lost_pages(uintptr_t address)
{
    const guard_slot *s = find_guard_slot(address);
    if (!s)
        return false;
    uintptr_t page = address - address % kb_os_page_bytes();
    mark_input_cut(s->input);
    return mmap((void *)page, s->base + s->bytes - page, PROT_READ,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) != MAP_FAILED;
}

/* The SIGBUS handler. For a fault outside our mappings it restores the default action and
 * returns: the instruction faults again, with the effect that it would have had without
 * this handler. */
static void on_bus_error(int number, siginfo_t *info, void *context)
{
    (void)context;
    if (info->si_code == BUS_ADRERR && map_zeros_over_lost_pages((uintptr_t)info->si_addr))
        return;
    signal(number, SIG_DFL);
    if (info->si_code <= 0) /* sent by kill() or the like: it does not come again by itself */
        raise(number);
}

/* Installs the handler, unless the program has one already. Once per process. */
static void install_sigbus_handler(void)
{
    struct sigaction action, before;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = on_bus_error;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    if (sigaction(SIGBUS, NULL, &before) == 0 && !(before.sa_flags & SA_SIGINFO) &&
        before.sa_handler == SIG_DFL)
        (void)sigaction(SIGBUS, &action, NULL);
}

/* Takes a free slot for the mapping; false: it is in use. */
static bool claim_guard_slot(guard_slot *s, kt_input *in, size_t bytes)
{
    uint32_t is_free = 0;
    if (!kb_cas_acqrel(&s->claimed, &is_free, 1u))
        return false;
    KB_ASSERT(in->base && !kb_load_relaxed(&s->base)); /* the handler cannot see the slot yet */
    s->bytes = bytes;
    s->input = in;
    kb_store_release(&s->base, (uintptr_t)in->base);
    return true;
}

/* The next array of slots, allocated on first use; NULL: out of memory. Of two threads that
 * append at the same time, one wins the compare-and-swap and the other frees its array. */
static guard_slots *next_guard_slots(guard_slots *s)
{
    guard_slots *next = kb_load_acquire(&s->next), *none = NULL;
    if (next)
        return next;
    next = calloc(1, sizeof *next);
    if (next && !kb_cas_acqrel(&s->next, &none, next)) {
        free(next);
        next = none;
    }
    return next;
}

void kt_guard_begin(kt_input *in, size_t bytes)
{
    (void)pthread_once(&install_once, install_sigbus_handler);
    for (guard_slots *s = &first_guard_slots; s; s = next_guard_slots(s))
        for (uint32_t i = 0; i < SLOTS; i++)
            if (claim_guard_slot(&s->slots[i], in, bytes))
                return;
}

void kt_guard_end(const kt_input *in)
{
    for (guard_slots *s = &first_guard_slots; s; s = kb_load_acquire(&s->next))
        for (uint32_t i = 0; i < SLOTS; i++)
            if (kb_load_relaxed(&s->slots[i].base) == (uintptr_t)in->base) {
                kb_store_release(&s->slots[i].base, (uintptr_t)0);
                kb_store_release(&s->slots[i].claimed, 0u);
                return;
            }
}
