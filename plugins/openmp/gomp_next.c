/* Finds the functions that calls are passed on to. A process may have several copies of libgomp: Python wheels
 * bring their own under other names, visible to their own libraries only. So the runtime of a call is that of
 * the library that calls: what the dynamic linker finds after ours, else what the caller's own dependencies
 * have. It is looked up at the first call of each library. A runtime that was found is never unloaded.
 *
 * A body whose last statement is a construct may jump to it instead of calling it: the return address is then in
 * this library, in the function that called the body; runtime and place are those of the body then. */
#include "gomp.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#define MAX_RUNTIMES 16u
#define MAX_CALLERS  1024u

typedef struct caller_range {
    uintptr_t start, end; /* of the library that calls */
    const ct_gomp *next;
} caller_range;

static ct_gomp runtimes[MAX_RUNTIMES];
static uint32_t runtime_count; /* under the lock */
static caller_range callers[MAX_CALLERS];
static atomic_uint caller_count;
static atomic_flag lookup_lock = ATOMIC_FLAG_INIT;
static caller_range own_code; /* of this library; constant once it is initialised */
static __thread caller_range last_caller CT_TLS;
static __thread ct_running_body running_body CT_TLS; /* the innermost one that this library called */

static void lock_lookup(void)
{
    while (atomic_flag_test_and_set_explicit(&lookup_lock, memory_order_acquire))
        (void)sched_yield();
}
static void unlock_lookup(void)
{
    atomic_flag_clear_explicit(&lookup_lock, memory_order_release);
}

static bool is_in_range(const caller_range *r, uintptr_t address)
{
    return address - r->start < r->end - r->start;
}

ct_running_body ct_exchange_body(ct_running_body body)
{
    ct_running_body outer = running_body;
    running_body = body;
    return outer;
}

uintptr_t ct_construct_place(uintptr_t caller)
{
    bool is_jump = running_body.fn && is_in_range(&own_code, caller);
    return is_jump ? (uintptr_t)running_body.fn + 1 : caller;
}

/* ---- runtimes -------------------------------------------------------------------------------- */

/* Through memcpy, because ISO C does not convert object pointers to function pointers. */
static void find_function(void *handle, const char *name, void *function)
{
    void *found = dlsym(handle, name);
    if (!found)
        found = dlsym(RTLD_NEXT, name);
    memcpy(function, &found, sizeof found);
}

static void find_functions(void *handle, ct_gomp *r)
{
#define CT_FIND(name) find_function(handle, #name, &r->name);
#define CT_X(result, name, parameters) CT_FIND(name)
    CT_GOMP_MAP(CT_X) CT_GOMP_QUERY_MAP(CT_X)
#undef CT_X
#define CT_X(schedule)                                                                             \
    CT_FIND(GOMP_loop_##schedule##_start) CT_FIND(GOMP_loop_ull_##schedule##_start)
    CT_CHUNK_LOOPS(CT_X) CT_RUNTIME_LOOPS(CT_X)
#undef CT_X
#define CT_X(schedule) CT_FIND(GOMP_parallel_loop_##schedule)
    CT_CHUNK_REGIONS(CT_X) CT_RUNTIME_REGIONS(CT_X)
#undef CT_X
#undef CT_FIND
}

/* The runtime that an address of its code belongs to, added on first use; NULL: there are too many. The
 * handle stays open, so that the functions stay. */
static const ct_gomp *find_or_add_runtime(void *address)
{
    Dl_info info;
    if (!dladdr(address, &info) || !info.dli_fname)
        return NULL;
    for (uint32_t i = 0; i < runtime_count; i++)
        if (runtimes[i].base == info.dli_fbase)
            return &runtimes[i];
    void *handle = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    if (!handle || runtime_count == MAX_RUNTIMES)
        return NULL;
    ct_gomp *r = &runtimes[runtime_count++];
    r->base = info.dli_fbase;
    r->has_tool = dlsym(handle, "__kmpc_fork_call") != NULL;
    find_functions(handle, r);
    return r;
}

/* ---- callers --------------------------------------------------------------------------------- */

typedef struct caller_search {
    uintptr_t address, start, end;
    const char *path;
} caller_search;

/* Callback of dl_iterate_phdr: sets the range of the library that has the address. */
static int match_caller(struct dl_phdr_info *info, size_t size, void *context)
{
    caller_search *c = context;
    uintptr_t start = UINTPTR_MAX, end = 0;
    bool has_it = false;
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        uintptr_t from = info->dlpi_addr + p->p_vaddr, to = from + p->p_memsz;
        if (p->p_type != PT_LOAD)
            continue;
        start = from < start ? from : start;
        end = to > end ? to : end;
        has_it |= c->address >= from && c->address < to;
    }
    if (has_it)
        *c = (caller_search){c->address, start, end, info->dlpi_name};
    return has_it;
}

/* The runtime among the caller's own dependencies, never this library; NULL: there is none. */
static void *find_own_runtime(const char *path)
{
    void *handle = path && *path ? dlopen(path, RTLD_LAZY | RTLD_NOLOAD) : NULL;
    void *address = handle ? dlsym(handle, "GOMP_parallel") : NULL;
    if (handle)
        (void)dlclose(handle);
    return is_in_range(&own_code, (uintptr_t)address) ? NULL : address;
}

/* Callback of dl_iterate_phdr: finds the function in any library. */
static int match_any_runtime(struct dl_phdr_info *info, size_t size, void *context)
{
    void *address = find_own_runtime(info->dlpi_name);
    (void)size;
    if (!address)
        return 0;
    *(void **)context = address;
    return 1;
}

/* A caller that depends on no runtime is code without a file, or a function that called us last and whose
 * place on the stack its own caller has: it gets any runtime of the process. */
static const ct_gomp *look_up_runtime(const caller_search *c)
{
    void *address = dlsym(RTLD_NEXT, "GOMP_parallel");
    if (!address)
        address = find_own_runtime(c->path);
    if (!address && runtime_count)
        return &runtimes[0];
    if (!address) {
        ct_count(CT_TALLY_NO_NEXT);
        (void)dl_iterate_phdr(match_any_runtime, &address);
    }
    return address ? find_or_add_runtime(address) : NULL;
}

static CT_COLD const ct_gomp *add_caller(uintptr_t address)
{
    caller_search c = {.address = address, .start = address, .end = address + 1};
    int saved = errno;
    (void)dl_iterate_phdr(match_caller, &c);
    lock_lookup();
    const ct_gomp *next = look_up_runtime(&c);
    uint32_t count = atomic_load_explicit(&caller_count, memory_order_relaxed);
    if (!next)
        abort(); /* the call cannot be passed on, and ignoring it would change results */
    last_caller = (caller_range){c.start, c.end, next};
    if (count < MAX_CALLERS) {
        callers[count] = last_caller;
        atomic_store_explicit(&caller_count, count + 1, memory_order_release);
    }
    unlock_lookup();
    errno = saved;
    return next;
}

static CT_COLD const ct_gomp *find_caller(uintptr_t address)
{
    if (running_body.fn && is_in_range(&own_code, address))
        return running_body.next;
    uint32_t count = atomic_load_explicit(&caller_count, memory_order_acquire);
    for (uint32_t i = 0; i < count; i++)
        if (is_in_range(&callers[i], address)) {
            last_caller = callers[i];
            return last_caller.next;
        }
    return add_caller(address);
}

const ct_gomp *ct_find_gomp(uintptr_t address)
{
    if (KINETO_LIKELY(is_in_range(&last_caller, address)))
        return last_caller.next;
    return find_caller(address);
}

/* In the child of a fork no other thread looks up. */
__attribute__((constructor)) static void init_lookup(void)
{
    caller_search c = {.address = (uintptr_t)&ct_find_gomp};
    (void)dl_iterate_phdr(match_caller, &c);
    own_code = (caller_range){c.start, c.end, NULL};
    ct_register_fork(lock_lookup, unlock_lookup, unlock_lookup);
}
