/* Capturing call stacks: by frame pointers or constant frame sizes where those are known to be
 * right, otherwise by the unwinder. unwind.h explains the method; unwind_cfi.c reads the unwinder's
 * tables; modules.c knows what is code. Runs in signal handlers: no heap, no locks, little
 * stack. */
#include "record/unwind.h"

#include <dlfcn.h>
#include <unwind.h>

#if defined(__x86_64__)
#define FRAME_REGISTER 6
#elif defined(__aarch64__)
#define FRAME_REGISTER 29
#endif

/* ---- the unwinder ---------------------------------------------------------------------------- */

/* Second result of _Unwind_Find_FDE (struct dwarf_eh_bases in libgcc). */
struct entry_bases {
    void *text, *data, *function;
};

static struct unwinder {
    _Unwind_Reason_Code (*backtrace)(_Unwind_Trace_Fn, void *);
    _Unwind_Ptr (*ip)(struct _Unwind_Context *, int *);
    _Unwind_Word (*cfa)(struct _Unwind_Context *);
    _Unwind_Word (*reg)(struct _Unwind_Context *, int);
    const void *(*entry)(void *,
                         struct entry_bases *); /* NULL: this unwinder has no such function */
} unwinder;

static _Unwind_Reason_Code visit_once(struct _Unwind_Context *context, void *argument)
{
    (void)argument;
    (void)unwinder.cfa(context);
    return _URC_NO_REASON;
}

static bool load_unwinder(void)
{
    if (unwinder.backtrace)
        return true;
#ifdef KB_LINKED_STATICALLY /* such a program cannot load libraries */
    return false;
#endif
    void *library = dlopen("libgcc_s.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return false;
    struct unwinder found;
    *(void **)&found.backtrace = dlsym(library, "_Unwind_Backtrace");
    *(void **)&found.ip = dlsym(library, "_Unwind_GetIPInfo");
    *(void **)&found.cfa = dlsym(library, "_Unwind_GetCFA");
    *(void **)&found.reg = dlsym(library, "_Unwind_GetGR");
    *(void **)&found.entry = dlsym(library, "_Unwind_Find_FDE");
    if (!found.backtrace || !found.ip || !found.cfa || !found.reg)
        return false;
    unwinder = found;
    /* Its first use allocates memory: that is done now, not in a signal handler. */
    unwinder.backtrace(visit_once, NULL);
    return true;
}

/* ---- the table of learned return addresses --------------------------------------------------- */

/* How the caller of an address is found: GOOD, by the frame pointer; SIZED, at a constant distance
 * from the stack pointer; BAD, by the unwinder only. After END there is only the start of the
 * program or thread. */
enum { BAD = 0, GOOD = 1, SIZED = 2, END = 3 };
#define UNMET UINT32_MAX /* not in the table */
/* An entry's value (`what`): kind:2 | frame_at:3 | size:11. The distances, in words of 8 bytes, are
 * for SIZED: of the caller's frame, and of the saved frame pointer. */
#define KIND(what)           ((what)&3u)
#define SIZE_BYTES(what)     ((uint64_t)((what) >> 5) * 8)
#define FRAME_AT_BYTES(what) ((uint64_t)((what) >> 2 & 7u) * 8)
#define MAX_SIZE_WORDS       2047u
#define MAX_FRAME_AT_WORDS   7u

/* A 4-way set-associative cache: address:48 | what:16. An address that was evicted is learned
 * again. Each word is read and written as a whole, so no lock is needed. */
#define SETS 2048u
#define WAYS 4u
static uint64_t (*known)[WAYS];
static uint32_t known_turn; /* the way to evict next */

static uint64_t *address_set(uint64_t address)
{
    return known[(address * UINT64_C(0x9e3779b97f4a7c15)) >> 53];
}

static uint32_t lookup_address(uint64_t address)
{
    const uint64_t *set = address_set(address);
    for (uint32_t i = 0; i < WAYS; i++) {
        uint64_t word = kb_load_relaxed(&set[i]);
        if (word >> 16 == address)
            return (uint32_t)(word & 0xffff);
    }
    return UNMET;
}

static void remember_address(uint64_t address, uint32_t what)
{
    KB_ASSERT(what <= 0xffff);
    uint64_t *set = address_set(address);
    uint32_t way = WAYS;
    if (address >> 48)
        return; /* not a user-space address */
    for (uint32_t i = 0; i < WAYS && way == WAYS; i++) {
        uint64_t word = kb_load_relaxed(&set[i]);
        if (word == 0 || word >> 16 == address)
            way = i;
    }
    if (way == WAYS)
        way = kb_add_relaxed(&known_turn, 1) % WAYS;
    kb_store_relaxed(&set[way], address << 16 | what);
}

void kr_stack_forget(void)
{
    for (uint32_t i = 0; known && i < SETS * WAYS; i++)
        kb_store_relaxed(&known[i / WAYS][i % WAYS], 0);
}

/* ---- preparing ------------------------------------------------------------------------------- */

#define NOT_PREPARED UINT32_MAX
static uint32_t mode = NOT_PREPARED;

bool kr_stack_by_parse(const char *word, kr_stack_by *by)
{
    static const char *const words[] = {"auto", "frames", "tables"};
    for (uint32_t i = 0; word && i < KB_COUNT(words); i++) {
        if (strcmp(word, words[i]) == 0) {
            *by = (kr_stack_by)i;
            return true;
        }
    }
    return false;
}

kr_stack_by kr_stack_by_setting(void)
{
    kr_stack_by by = KR_STACK_AUTO;
    const char *word = kb_os_getenv("CKINETO_STACK_BY");
    if (word && *word && !kr_stack_by_parse(word, &by))
        kb_log(KINETO_LOG_WARNING,
               "CKINETO_STACK_BY: unknown value '%.40s'; use auto, frames or tables (auto is used)",
               word);
    return by;
}

kr_stack_by kr_stack_is_by(void)
{
    uint32_t is = kb_load_relaxed(&mode);
    return is == NOT_PREPARED ? KR_STACK_AUTO : (kr_stack_by)is;
}

kineto_status kr_stack_prepare(kr_stack_by by, kineto_error *err)
{
    static kb_lock lock; /* not broken by a fork */
    kineto_status status = KINETO_OK;
    if (!kb_lock_take(&lock, kb_os_self()))
        return kb_fail(err, KINETO_E_BUSY, "this thread is already preparing call stacks");
    if (!known)
        known = kb_os_map(SETS * sizeof *known);
    bool can_unwind = by != KR_STACK_FRAMES && load_unwinder();
#ifdef FRAME_REGISTER
    if (!can_unwind && by == KR_STACK_AUTO)
        by = KR_STACK_FRAMES;
#else
    by = KR_STACK_TABLES;
    can_unwind = load_unwinder();
#endif
    if (!known)
        status = kb_fail_memory(err, "call stacks");
    else if (by == KR_STACK_TABLES && !can_unwind)
        status =
            kb_fail(err, KINETO_E_UNSUPPORTED,
                    "call stacks by tables need libgcc_s.so.1, which cannot be loaded: install "
                    "it (libgcc-s1), or use frame pointers");
    else
        status = kr_modules_note(NULL, NULL, err);
    if (status == KINETO_OK && mode != (uint32_t)by) {
        kr_stack_forget(); /* entries have another meaning in the other mode */
        kb_store_release(&mode, (uint32_t)by);
    }
    kb_lock_drop(&lock);
    return status;
}

/* ---- frame pointers -------------------------------------------------------------------------- */

/* A frame pointer points to the saved frame pointer of the caller; the return address follows. */
typedef struct frame_record {
    uint64_t caller, address;
} frame_record;

/* Code that reads other functions' stack frames, which AddressSanitizer would report. */
#if defined(__SANITIZE_ADDRESS__)
#define ANY_STACK __attribute__((no_sanitize_address))
#else
#define ANY_STACK
#endif

static ANY_STACK uint64_t return_address(const frame_record *frame)
{
#if defined(__aarch64__)
    /* The address may be signed (pointer authentication): XPACLRI strips the signature, and is a
     * hint that old processors ignore. */
    register uint64_t x30 __asm__("x30") = frame->address;
    __asm__("hint #7" : "+r"(x30));
    return x30;
#else
    return frame->address;
#endif
}

/* Look up the bounds of the stack that `frame` lies on: once for a thread, and again when it runs
 * on another stack (a signal's, a coroutine's). */
static void find_stack_bounds(kr_stack_thread *thread, uint64_t frame)
{
    if (!kr_mapping_of(frame, &thread->low, &thread->high)) {
        thread->low = frame;
        thread->high = frame + sizeof(frame_record);
    }
}

/* Walking by frame pointers alone ends at an address outside all code: the chain is broken
 * there. */
static bool is_code_address(uint64_t address, uint32_t what)
{
    if (what != UNMET)
        return true;
    if (kr_module_of(address) == KR_MODULE_UNKNOWN) {
        kr_modules_set_stale();
        return false;
    }
    if (kb_load_relaxed(&mode) == KR_STACK_FRAMES)
        remember_address(address, GOOD); /* avoids the search next time */
    return true;
}

/* Is `next` an aligned frame record above `frame`, within the thread's stack? */
static bool is_frame_above(const kr_stack_thread *thread, uint64_t next, uint64_t frame)
{
    return next > frame && next % sizeof(uint64_t) == 0 &&
           next <= thread->high - sizeof(frame_record);
}

static ANY_STACK uint32_t walk_frame_pointers(const kr_stack_thread *thread, uint64_t frame,
                                              uint64_t *addresses, uint32_t limit)
{
    uint32_t n = 0;
    while (n < limit) {
        const frame_record *at = (const frame_record *)(uintptr_t)frame;
        uint64_t address = return_address(at);
        if (!is_code_address(address, lookup_address(address)))
            break;
        addresses[n++] = address;
        if (!is_frame_above(thread, at->caller, frame))
            break;
        frame = at->caller;
    }
    return n;
}

/* State while walking: a return address, the stack pointer and the frame pointer after the
 * return. */
typedef struct position {
    uint64_t address, stack, frame;
} position;

static ANY_STACK bool step_by_frame(const kr_stack_thread *thread, position *p)
{
    if (!is_frame_above(thread, p->frame, p->stack - 1))
        return false;
    const frame_record *at = (const frame_record *)(uintptr_t)p->frame;
    p->address = return_address(at);
    p->stack = p->frame + sizeof *at;
    p->frame = at->caller;
    return true;
}

static ANY_STACK bool step_by_size(const kr_stack_thread *thread, uint32_t what, position *p)
{
    uint64_t next = p->stack + SIZE_BYTES(what);
    if (next > thread->high)
        return false;
    p->address = *(const uint64_t *)(uintptr_t)(next - 8);
    if (FRAME_AT_BYTES(what) > 0)
        p->frame = *(const uint64_t *)(uintptr_t)(next - FRAME_AT_BYTES(what));
    p->stack = next;
    return true;
}

/* Walk by what was learned for each address. USE_TABLES: an address is unknown or needs the
 * unwinder. */
#define USE_TABLES UINT32_MAX
static ANY_STACK uint32_t walk_known_addresses(const kr_stack_thread *thread, uint64_t frame,
                                               uint64_t *addresses, uint32_t limit)
{
    const frame_record *at = (const frame_record *)(uintptr_t)frame;
    position p = {return_address(at), frame + sizeof *at, at->caller};
    KB_ASSERT(limit > 0 && thread->low < thread->high);
    for (uint32_t n = 0; n < limit;) {
        uint32_t what = lookup_address(p.address);
        addresses[n++] = p.address;
        if (what == UNMET || KIND(what) == BAD)
            return USE_TABLES;
        if (KIND(what) == END || n == limit)
            return n;
        bool may = KIND(what) == GOOD ? step_by_frame(thread, &p) : step_by_size(thread, what, &p);
        if (KINETO_UNLIKELY(!may))
            return USE_TABLES;
    }
    return limit;
}

/* ---- tables ---------------------------------------------------------------------------------- */

#define END_FRAMES 2u /* at most this many follow an address where a program or thread starts */
#define WINDOW     (END_FRAMES + 2)

typedef struct unwound {
    uint64_t address, stack, frame; /* instruction, stack pointer, frame pointer */
    bool is_exact; /* interrupted by a signal at this instruction; not a return address */
    uint32_t what; /* to learn for its address */
} unwound;
/* Small, since the stack of a signal handler may be small: only the last frames are stored. */
typedef struct unwinding {
    uint64_t above; /* frames below this are the recorder's own */
    uint64_t *addresses;
    uint32_t limit, count;
    bool is_whole;
    unwound last[WINDOW];
} unwinding;

/* Does the frame pointer, while `f` runs, lead to its caller? Memory is read only between the two
 * stack pointers that the unwinder found. */
static ANY_STACK bool frame_leads_to(const unwound *f, const unwound *caller)
{
    if (caller->is_exact || f->frame % sizeof(uint64_t) != 0 || f->frame < f->stack ||
        caller->stack < sizeof(frame_record) || f->frame > caller->stack - sizeof(frame_record))
        return false;
#if defined(__x86_64__)
    if (f->frame != caller->stack - sizeof(frame_record))
        return false;
#endif
    return return_address((const frame_record *)(uintptr_t)f->frame) == caller->address;
}

/* The SIZED entry for `f`, if the unwinder's tables state a constant distance and the caller is
 * really there; otherwise BAD. */
static ANY_STACK uint32_t constant_frame_size(const unwound *f, const unwound *caller)
{
    struct entry_bases bases = {NULL, NULL, NULL};
    kr_frame_size size = {0, 0};
    uint64_t call = f->address - 1;
    const void *entry = unwinder.entry ? unwinder.entry((void *)(uintptr_t)call, &bases) : NULL;
    if (!entry || caller->is_exact ||
        !kr_frame_size_of(entry, (uint64_t)(uintptr_t)bases.function, call, &size))
        return BAD;
    uint64_t words = size.bytes / 8, frame_at = size.frame_at / 8;
    if (size.bytes % 8 || size.frame_at % 8 || words > MAX_SIZE_WORDS ||
        frame_at > MAX_FRAME_AT_WORDS || frame_at >= words + 1 ||
        f->stack + size.bytes != caller->stack ||
        *(const uint64_t *)(uintptr_t)(caller->stack - 8) != caller->address)
        return BAD;
    uint64_t frame =
        frame_at ? *(const uint64_t *)(uintptr_t)(caller->stack - size.frame_at) : f->frame;
    return frame == caller->frame ? (uint32_t)(words << 5 | frame_at << 2 | SIZED) : BAD;
}

/* Store what was found for the address of frame i; `may_end`: the stack ends within END_FRAMES. */
static void learn_address(const unwinding *u, uint32_t i, bool may_end)
{
    KB_ASSERT(i < u->count && i + WINDOW >= u->count);
    const unwound *f = &u->last[i % WINDOW];
    /* An interrupted instruction is not a return address, though it may equal one. */
    if (f->is_exact || lookup_address(f->address) != UNMET)
        return;
    kr_module_is module = kr_module_of(f->address);
    if (module == KR_MODULE_UNKNOWN)
        kr_modules_set_stale();
    bool ends = may_end && module == KR_MODULE_RUNTIME;
    remember_address(f->address, ends ? END : f->what);
}

static _Unwind_Reason_Code unwind_frame(struct _Unwind_Context *context, void *argument)
{
    unwinding *u = argument;
    int exact = 0;
    unwound f = {.address = unwinder.ip(context, &exact), .stack = unwinder.cfa(context)};
    /* Skip the recorder's own frames, which are below `above`. Later ones may be on another
     * stack. */
    if ((u->count == 0 && f.stack <= u->above) || f.address == 0)
        return _URC_NO_REASON;
    if (u->count == u->limit + END_FRAMES + 1) {
        u->is_whole = false;
        return _URC_END_OF_STACK;
    }
    f.is_exact = exact != 0;
#ifdef FRAME_REGISTER
    f.frame = unwinder.reg(context, FRAME_REGISTER);
#endif
    if (u->count > 0) {
        unwound *before = &u->last[(u->count - 1) % WINDOW];
        if (!before->is_exact && lookup_address(before->address) == UNMET)
            before->what = frame_leads_to(before, &f) ? GOOD : constant_frame_size(before, &f);
    }
    if (u->count < u->limit)
        u->addresses[u->count] = f.address;
    u->last[u->count++ % WINDOW] = f;
    if (u->count >= WINDOW)
        learn_address(u, u->count - WINDOW, false);
    return _URC_NO_REASON;
}

/* Learn the frames that are left in the window, except the last one of a stack that was cut off:
 * nothing is known about its caller. */
static void learn_remaining(const unwinding *u)
{
    uint32_t first = u->count >= WINDOW ? u->count - WINDOW + 1 : 0;
    for (uint32_t i = first; i < u->count; i++)
        if (u->is_whole || i + 1 < u->count)
            learn_address(u, i, u->is_whole);
}

/* Code that was made in memory has no tables: the unwinder ends at it. It often keeps frame
 * pointers. */
static uint32_t continue_by_frames(const unwinding *u, const kr_stack_thread *thread)
{
    const unwound *last = &u->last[(u->count - 1) % WINDOW];
    if (kr_module_of(last->address) == KR_MODULE_RUNTIME ||
        !is_frame_above(thread, last->frame, last->stack - 1))
        return 0;
    return walk_frame_pointers(thread, last->frame, u->addresses + u->count, u->limit - u->count);
}

static KB_NOINLINE uint32_t unwind_by_tables(const kr_stack_thread *thread, uint64_t frame,
                                             uint64_t *addresses, uint32_t limit)
{
    unwinding u = {.above = frame, .addresses = addresses, .limit = limit, .is_whole = true};
    unwinder.backtrace(unwind_frame, &u);
    learn_remaining(&u);
    uint32_t n = KB_MIN(u.count, limit);
    for (uint32_t i = 0; i < n; i++)
        if (KIND(lookup_address(addresses[i])) == END && lookup_address(addresses[i]) != UNMET)
            return i + 1;
    if (u.is_whole && u.count > 0 && u.count < limit)
        n += continue_by_frames(&u, thread);
    return n;
}

uint32_t kr_stack_capture(kr_stack_thread *thread, const void *frame, uint64_t *addresses,
                          uint32_t limit)
{
    uint32_t by = kb_load_acquire(&mode);
    uint64_t from = (uint64_t)(uintptr_t)frame;
    limit = KB_MIN(limit, KR_STACK_MAX);
    if (by == NOT_PREPARED || !frame || limit == 0)
        return 0;
    if (from < thread->low || from >= thread->high)
        find_stack_bounds(thread, from);
    if (by == KR_STACK_TABLES)
        return unwind_by_tables(thread, from, addresses, limit);
    if (by == KR_STACK_FRAMES)
        return walk_frame_pointers(thread, from, addresses, limit);
    uint32_t n = walk_known_addresses(thread, from, addresses, limit);
    return n != USE_TABLES ? n : unwind_by_tables(thread, from, addresses, limit);
}
