/* Mapped files that become shorter while they are read. To touch a page that is no longer in the file raises SIGBUS,
 * which kills the process without a word. While files are mapped and no other code handles SIGBUS, a handler puts
 * zeros in the place of what is gone, and notes it: reading goes on, and ends with an error.
 *
 * Slots are never freed, so that the handler may look at them at any time. A slot that a thread faults in is in
 * use: who reads a file holds it. */
#include "trace/bytes/input.h"

#include <signal.h>
#include <sys/mman.h>

#define SLOTS 64u

typedef struct slot {
    uintptr_t base; /* 0: free; set last */
    size_t bytes;
    uint32_t claimed;
    kt_input *input;
} slot;

typedef struct slots {
    slot slots[SLOTS];
    struct slots *next; /* set once */
} slots;

static slots first_slots;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Of the first file that became shorter; written once, by a handler. */
static char cut_path[1024];
static uint32_t cut_claimed, cut_known;

const char *kt_guard_cut_file(void) { return kb_load_acquire(&cut_known) ? cut_path : NULL; }

static void note_cut(kt_input *in)
{
    uint32_t first = 0;
    kb_store_relaxed(&in->cut, 1u);
    if (!kb_cas_acqrel(&cut_claimed, &first, 1u))
        return;
    for (size_t i = 0; i + 1 < sizeof cut_path && in->path[i]; i++)
        cut_path[i] = in->path[i];
    kb_store_release(&cut_known, 1u);
}

/* The mapping around an address; NULL: it is none of ours. */
static const slot *find_slot(uintptr_t address)
{
    for (const slots *s = &first_slots; s; s = kb_load_acquire(&s->next))
        for (uint32_t i = 0; i < SLOTS; i++) {
            uintptr_t base = kb_load_acquire(&s->slots[i].base);
            if (base && address >= base && address - base < s->slots[i].bytes)
                return &s->slots[i];
        }
    return NULL;
}

/* What lies behind a page that the file no longer has, it has not either. */
static bool replace_lost_pages(uintptr_t address)
{
    const slot *s = find_slot(address);
    if (!s)
        return false;
    uintptr_t page = address - address % kb_os_page_bytes();
    note_cut(s->input);
    return mmap((void *)page, s->base + s->bytes - page, PROT_READ,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) != MAP_FAILED;
}

/* A fault of others: it comes again, and does what it would have done without us. */
static void on_bus_error(int number, siginfo_t *info, void *context)
{
    (void)context;
    if (info->si_code == BUS_ADRERR && replace_lost_pages((uintptr_t)info->si_addr))
        return;
    signal(number, SIG_DFL);
    if (info->si_code <= 0) /* somebody sent it */
        raise(number);
}

/* Who handles the signal already keeps it. */
static void install(void)
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

static bool claim(slot *s, kt_input *in, size_t bytes)
{
    uint32_t is_free = 0;
    if (!kb_cas_acqrel(&s->claimed, &is_free, 1u))
        return false;
    s->bytes = bytes;
    s->input = in;
    kb_store_release(&s->base, (uintptr_t)in->base);
    return true;
}

static slots *more_slots(slots *s)
{
    slots *next = kb_load_acquire(&s->next), *none = NULL;
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
    (void)pthread_once(&once, install);
    for (slots *s = &first_slots; s; s = more_slots(s))
        for (uint32_t i = 0; i < SLOTS; i++)
            if (claim(&s->slots[i], in, bytes))
                return;
}

void kt_guard_end(const kt_input *in)
{
    for (slots *s = &first_slots; s; s = kb_load_acquire(&s->next))
        for (uint32_t i = 0; i < SLOTS; i++)
            if (kb_load_relaxed(&s->slots[i].base) == (uintptr_t)in->base) {
                kb_store_release(&s->slots[i].base, (uintptr_t)0);
                kb_store_release(&s->slots[i].claimed, 0u);
                return;
            }
}
