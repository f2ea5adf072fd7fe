/* The open ranges of each thread. Programs have a stack for each domain and thread, the recording
 * one for each thread: where ranges of two domains, or of two interfaces, cross, the inner range is
 * ended and continued as another piece. */
#include "annotations.h"

#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

__thread cn_thread *cn_this_thread CN_TLS;

/* ---- blocks of threads ----------------------------------------------------------------------- */

#define SLAB_THREADS 8u
#define MAX_SLABS    1024u

static _Atomic(cn_thread *) slabs[MAX_SLABS];
static pthread_key_t thread_key;
static bool key_usable;

/* A free block of a slab; NULL: all are used. */
static cn_thread *claim_block(cn_thread *slab)
{
    for (uint32_t i = 0; i < SLAB_THREADS; i++) {
        bool is_free = false;
        if (!atomic_load_explicit(&slab[i].in_use, memory_order_relaxed) &&
            atomic_compare_exchange_strong(&slab[i].in_use, &is_free, true))
            return &slab[i];
    }
    return NULL;
}

/* Maps a slab; errno is unchanged. */
static cn_thread *map_slab(void)
{
    int saved = errno;
    void *map = mmap(NULL, SLAB_THREADS * sizeof(cn_thread), PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    errno = saved;
    return map == MAP_FAILED ? NULL : map;
}

/* A free block, from a new slab if all are used. Blocks of ended threads are reused; slabs stay. */
static cn_thread *claim_thread_block(void)
{
    for (uint32_t i = 0; i < MAX_SLABS; i++) {
        cn_thread *slab = atomic_load_explicit(&slabs[i], memory_order_acquire), *none = NULL;
        if (!slab) {
            cn_thread *fresh = map_slab();
            if (!fresh)
                return NULL;
            slab = fresh;
            if (!atomic_compare_exchange_strong(&slabs[i], &none, fresh)) {
                (void)munmap(fresh, SLAB_THREADS * sizeof *fresh);
                slab = none;
            }
        }
        cn_thread *thread = claim_block(slab);
        if (thread)
            return thread;
    }
    return NULL;
}

/* Gives the calling thread a block; NULL: no memory, which is counted. */
static CN_COLD cn_thread *attach_thread(void)
{
    cn_thread *t = claim_thread_block();
    if (!t) {
        cn_count(CN_TALLY_NO_THREAD);
        return NULL;
    }
    t->busy = t->is_ending = false;
    t->count = t->over = t->text_used = t->names_seen = 0;
    t->tid = (uint32_t)syscall(SYS_gettid);
    if (key_usable)
        (void)pthread_setspecific(thread_key, t);
    cn_this_thread = t;
    return t;
}

static void on_annotating_thread_exit(void *block)
{
    cn_thread *t = block;
    cn_this_thread = NULL;
    atomic_store(&t->in_use, false);
}

/* ---- forks ----------------------------------------------------------------------------------- */

/* Per thread, because several may fork at once. */
static __thread bool held_for_fork CN_TLS;

static void lock_before_fork(void) { held_for_fork = cn_tables_lock(); }
static void unlock_after_fork(void)
{
    if (held_for_fork)
        cn_tables_unlock();
}
/* In the child: the other threads do not exist there, so their blocks are free. */
static void release_other_blocks(const cn_thread *mine)
{
    for (uint32_t i = 0; i < MAX_SLABS; i++) {
        cn_thread *slab = atomic_load(&slabs[i]);
        if (!slab)
            return;
        for (uint32_t k = 0; k < SLAB_THREADS; k++)
            if (&slab[k] != mine)
                atomic_store(&slab[k].in_use, false);
    }
}

/* Ranges that are open at the fork end in the parent. In the child they only keep the levels
 * right. */
static void reset_child(void)
{
    cn_thread *t = cn_this_thread;
    cn_tables_unlock();
    cn_process_forked();
    cn_tally_forked();
    release_other_blocks(t);
    if (!t)
        return;
    t->tid = (uint32_t)syscall(SYS_gettid);
    for (uint32_t i = 0; i < t->count; i++)
        t->open[i].range = 0;
}

static kineto_range find_next_open(kineto_range after);
static void begin_range_again(kineto_range range);
static const kineto_range_stack this_stack = {sizeof this_stack, find_next_open, begin_range_again};

__attribute__((constructor)) static void start_annotations(void)
{
    (void)kineto_range_stack_add(&this_stack);
    key_usable = pthread_key_create(&thread_key, on_annotating_thread_exit) == 0;
    (void)pthread_atfork(lock_before_fork, unlock_after_fork, reset_child);
}

/* ---- sites ----------------------------------------------------------------------------------- */

kineto_site *cn_event_site(const cn_event *e)
{
    const cn_name *name = e->name ? e->name : cn_name_seen(e->text);
    return name ? cn_get_named_site(name, e->shape) : NULL;
}

kineto_props cn_event_props(const cn_event *e)
{
    return (kineto_props){.size = sizeof(kineto_props),
                          .name = e->name ? e->name->text : e->text,
                          .values = e->values};
}

/* The recorder has a shorter way for sites whose arguments are all numbers; a domain is a text. */
static kineto_range begin_recorded_range(const cn_event *e, kineto_site *site)
{
    if (CN_LIKELY(site && !e->values))
        return kineto_range_begin(site);
    if (site && e->domain) {
        kineto_props values_only = {.size = sizeof values_only, .values = e->values};
        return kineto_range_begin_props(site, &values_only);
    }
    if (site)
        return kineto_range_begin_args(site, e->values);
    kineto_props props = cn_event_props(e);
    return kineto_range_begin_props(cn_shape_site(e->shape), &props);
}

/* ---- the stack ------------------------------------------------------------------------------- */

/* The position after the innermost open range of a domain; 0: it has none. */
static uint32_t find_innermost_range(const cn_thread *t, uint32_t domain)
{
    uint32_t i = t->count;
    while (i && t->open[i - 1].domain != domain)
        i--;
    return i;
}

/* Copies the name of a range without a site, which is needed if the range is continued; UINT32_MAX:
 * no space. */
static uint32_t keep_range_name(cn_thread *t, const cn_event *e)
{
    const char *text = e->name ? e->name->text : e->text;
    size_t left = sizeof t->text - t->text_used, size = strlen(text);
    uint32_t at = t->text_used;
    if (left < 2)
        return UINT32_MAX;
    size = CN_MIN(size, left - 1);
    memcpy(t->text + at, text, size);
    t->text[at + size] = 0;
    t->text_used += (uint32_t)size + 1;
    return at;
}

/* Opens a range and returns its level in its domain. */
static int push_range(cn_thread *t, const cn_event *e)
{
    if (t->count == CN_MAX_OPEN) {
        t->over++;
        if (cn_recording())
            cn_count(CN_TALLY_TOO_DEEP);
        return (int)(t->count + t->over) - 1;
    }
    kineto_site *site = e->is_hidden ? NULL : cn_event_site(e);
    uint32_t below = find_innermost_range(t, e->domain);
    cn_open_range *open = &t->open[t->count];
    const cn_open_range *last = t->count ? open - 1 : NULL;
    open->domain = (uint16_t)e->domain;
    open->level = below ? (uint16_t)(t->open[below - 1].level + 1) : 0;
    open->is_mixed = last && (last->is_mixed || last->domain != e->domain);
    open->site = site;
    open->id = e->id;
    open->name_at = UINT32_MAX;
    if (!site && (open->is_mixed || !kineto_range_is_alone(&this_stack)))
        open->name_at = keep_range_name(t, e);
    open->range = e->is_hidden ? 0 : begin_recorded_range(e, site);
    t->count++;
    return open->level;
}

/* Only a signal handler of the same thread could find the stack half changed: `busy` keeps it
 * out. */
static inline cn_thread *enter_thread(void)
{
    cn_thread *t = cn_this_thread;
    if (!t)
        t = attach_thread();
    if (!t)
        return NULL;
    if (t->busy) {
        if (cn_recording())
            cn_count(CN_TALLY_BUSY);
        return NULL;
    }
    t->busy = true;
    atomic_signal_fence(memory_order_seq_cst);
    return t;
}
static inline void leave_thread(cn_thread *t)
{
    atomic_signal_fence(memory_order_seq_cst);
    t->busy = false;
}

int cn_push(const cn_event *e)
{
    cn_thread *t = enter_thread();
    if (!t)
        return -1;
    uint32_t names = atomic_load_explicit(&cn_thread_names, memory_order_acquire);
    if (t->names_seen != names) {
        t->names_seen = names;
        cn_thread_name_apply(t->tid);
    }
    int level = push_range(t, e);
    leave_thread(t);
    return level;
}

/* Begins another piece of a range that had to be ended because an outer one of another domain
 * ended. */
static CN_COLD void continue_range(cn_thread *t, cn_open_range *open)
{
    if (!open->range)
        return;
    cn_key k = {.flags = CN_HAS_CONTINUED | (open->domain ? CN_HAS_DOMAIN : 0u)};
    const cn_shape *shape = cn_shape_get(&k);
    kineto_value values[] = {{.s = cn_domain_name(open->domain)}, {.u = 1}};
    const char *text = "";
    if (open->site)
        text = open->site->name;
    else if (open->name_at != UINT32_MAX)
        text = t->text + open->name_at;
    kineto_props props = {.size = sizeof props, .name = text};
    if (shape)
        props.values = open->domain ? values : values + 1;
    open->range = kineto_range_begin_props(cn_shape_site(shape ? shape : &cn_plain), &props);
    cn_count(CN_TALLY_CROSSED);
}

/* ---- kineto_range_stack ---- */

/* The open ranges of this thread, unless it is just changing them: then a signal handler asks. */
static cn_thread *get_whole_thread(void)
{
    cn_thread *t = cn_this_thread;
    return t && (!t->busy || t->is_ending) ? t : NULL;
}

static kineto_range find_next_open(kineto_range after)
{
    const cn_thread *t = get_whole_thread();
    kineto_range next = 0;
    for (uint32_t i = t ? t->count : 0; i; i--) { /* inner ones have greater tokens, or 0 */
        kineto_range range = t->open[i - 1].range;
        if (range && range <= after)
            break;
        if (range && (!next || range < next))
            next = range;
    }
    return next;
}

static void begin_range_again(kineto_range range)
{
    cn_thread *t = get_whole_thread();
    if (!t)
        return;
    bool was_busy = t->busy;
    t->busy = true;
    for (uint32_t i = 0; i < t->count; i++)
        if (t->open[i].range == range) {
            continue_range(t, &t->open[i]);
            break;
        }
    t->busy = was_busy;
}

/* Removes a name; later ones move up. */
static void drop_range_name(cn_thread *t, uint32_t at)
{
    if (at == UINT32_MAX)
        return;
    uint32_t size = (uint32_t)strlen(t->text + at) + 1;
    t->text_used -= size;
    memmove(t->text + at, t->text + at + size, t->text_used - at);
    for (uint32_t i = 0; i < t->count; i++)
        if (t->open[i].name_at != UINT32_MAX && t->open[i].name_at > at)
            t->open[i].name_at -= size;
}

/* Ends a range and those inside of it, and continues the latter. Ending an outer range ends the
 * inner ones in the recording. */
static void remove_range(cn_thread *t, uint32_t at)
{
    cn_open_range ended = t->open[at];
    memmove(&t->open[at], &t->open[at + 1], (t->count - at - 1) * sizeof *t->open);
    t->count--;
    t->is_ending = true;
    kineto_range_end_crossing(ended.range);
    t->is_ending = false;
    drop_range_name(t, ended.name_at);
}

/* Ends the innermost range of a domain and returns its level; -1: there is none. */
static int pop_range(cn_thread *t, uint32_t domain)
{
    if (t->over)
        return (int)(t->count + t->over--) - 1;
    uint32_t after = find_innermost_range(t, domain);
    if (!after) {
        if (cn_recording())
            cn_count(CN_TALLY_POP_ALONE);
        return -1;
    }
    int level = t->open[after - 1].level;
    remove_range(t, after - 1);
    return level;
}

int cn_pop(uint32_t domain)
{
    cn_thread *t = enter_thread();
    if (!t)
        return -1;
    int level = pop_range(t, domain);
    leave_thread(t);
    return level;
}

kineto_range cn_find_innermost(uint32_t domain)
{
    const cn_thread *t = cn_this_thread;
    uint32_t after = t && !t->busy ? find_innermost_range(t, domain) : 0;
    return after ? t->open[after - 1].range : 0;
}

kineto_range cn_find_open(uint32_t domain, uint64_t id)
{
    const cn_thread *t = cn_this_thread;
    for (uint32_t i = t && !t->busy ? t->count : 0; i; i--)
        if (t->open[i - 1].id == id && t->open[i - 1].domain == domain)
            return t->open[i - 1].range;
    return 0;
}
