/* Constructs: what is open on a thread, and the record that is written when it ends. */
#include "openmp.h"

#define IDS_PER_THREAD 1024u

/* ---- sites ----------------------------------------------------------------------------------- */

/* "code" names the row (src/trace/from_recording/build_code.c). */
static const kineto_arg_desc args_none[] = {{"code", KINETO_ARG_UINT}, {"region", KINETO_ARG_UINT}};
static const kineto_arg_desc args_team[] = {{"code", KINETO_ARG_UINT},
                                            {"region", KINETO_ARG_UINT},
                                            {"thread", KINETO_ARG_UINT},
                                            {"threads", KINETO_ARG_UINT}};
static const kineto_arg_desc args_task[] = {
    {"code", KINETO_ARG_UINT}, {"region", KINETO_ARG_UINT}, {"task", KINETO_ARG_UINT}};
static const kineto_arg_desc args_lock[] = {
    {"code", KINETO_ARG_UINT}, {"region", KINETO_ARG_UINT}, {"lock", KINETO_ARG_UINT}};

#define ARGS_NONE args_none
#define ARGS_TEAM args_team
#define ARGS_TASK args_task
#define ARGS_LOCK args_lock
static kineto_site construct_sites[CT_CONSTRUCT_COUNT] = {
#define CT_X(name, text, args)                                                                     \
    [CT_##name] = {0, KINETO_KIND_OPENMP, KINETO_SCOPE_FUNCTION, CT_COUNT(ARGS_##args), 0, (text), \
                   ARGS_##args},
    CT_CONSTRUCT_MAP(CT_X)
#undef CT_X
};
KINETO_SITE_ARGS(region_site, KINETO_KIND_OPENMP, "omp parallel", {"code", KINETO_ARG_UINT},
                 {"region", KINETO_ARG_UINT}, {"requested", KINETO_ARG_UINT});
KINETO_SITE_ARGS(team_site, KINETO_KIND_OPENMP, "omp parallel", {"threads", KINETO_ARG_UINT});
KINETO_SITE_ARGS(create_site, KINETO_KIND_CPU_INSTANT_EVENT, "omp task created",
                 {"region", KINETO_ARG_UINT}, {"task", KINETO_ARG_UINT});

/* ---- records --------------------------------------------------------------------------------- */

void ct_record_construct(const ct_open *open, uint64_t ended)
{
    const ct_region *r = open->region;
    kineto_value values[4] = {{.u = open->code ? open->code : r ? r->code : 0},
                              {.u = r ? r->id : 0},
                              {.u = open->key},
                              {.u = r ? r->threads : 0}};
    if (!open->began || !ct_recording())
        return;
    uint64_t late = r ? atomic_load_explicit(&r->ended, memory_order_acquire) : 0;
    if (late && (!ended || late < ended))
        ended = late;
    if (open->code)
        kineto_code_note((const void *)open->code);
    if (open->what == CT_IMPLICIT_TASK)
        values[2].u = open->number;
    if (!ended)
        kineto_record_past(&construct_sites[open->what], open->began, values);
    else
        kineto_record_span(&construct_sites[open->what], open->began,
                           ended < open->began ? open->began : ended, values);
}

/* ---- the stack of a thread ------------------------------------------------------------------- */

/* The block of a thread that has to follow its constructs; NULL: nothing is recorded, and nothing was
 * when those that are open began. */
static ct_thread *follow_thread(void)
{
    ct_thread *t = ct_this_thread;
    if (KINETO_LIKELY(ct_recording()))
        return t ? t : ct_attach_thread();
    return t && t->count ? t : NULL;
}

static ct_open *push_construct(ct_thread *t, ct_construct what)
{
    if (t->count == CT_MAX_OPEN) {
        ct_count(CT_TALLY_TOO_DEEP);
        return NULL;
    }
    ct_open *open = &t->open[t->count++];
    *open = (ct_open){.what = (uint8_t)what,
                      .began = ct_recording() ? kineto_record_ticks() : 0,
                      .region = t->region};
    return open;
}

void ct_open_construct(ct_construct what, uint64_t key, uintptr_t code)
{
    ct_thread *t = follow_thread();
    ct_open *open = t ? push_construct(t, what) : NULL;
    if (!open)
        return;
    open->key = key;
    open->code = code;
}

/* Constructs need not nest: a lock may be released before one that was taken later. */
static void remove_construct(ct_thread *t, uint32_t place)
{
    t->count--;
    for (uint32_t i = place; i < t->count; i++)
        t->open[i] = t->open[i + 1];
}

/* Only locks may be released by another implicit task of the thread than the one that took them. */
void ct_close_construct(ct_construct what, uint64_t key)
{
    ct_thread *t = ct_this_thread;
    bool is_lock = what >= CT_CRITICAL;
    for (uint32_t i = t ? t->count : 0; i > 0; i--) {
        const ct_open *open = &t->open[i - 1];
        if (open->what == CT_IMPLICIT_TASK && !is_lock)
            return;
        if (open->what == what && open->key == key) {
            ct_record_construct(open, 0);
            remove_construct(t, i - 1);
            return;
        }
    }
}

/* ---- regions --------------------------------------------------------------------------------- */

ct_region *ct_begin_region(uintptr_t code, uint32_t requested)
{
    static atomic_uint_fast64_t last_id;
    ct_thread *t = follow_thread();
    ct_region *r = t && ct_recording() ? ct_claim_region(t) : NULL;
    if (!r)
        return NULL;
    r->id = atomic_fetch_add_explicit(&last_id, 1, memory_order_relaxed) + 1;
    r->code = code;
    r->requested = requested;
    r->threads = 0;
    atomic_store_explicit(&r->ended, 0, memory_order_relaxed);
    kineto_code_note((const void *)code);
    kineto_value values[] = {{.u = code}, {.u = r->id}, {.u = requested}};
    r->range = kineto_range_begin_args(&region_site, values);
    return r;
}

void ct_end_region(ct_region *r)
{
    kineto_value threads = {.u = r->threads};
    atomic_store_explicit(&r->ended, kineto_record_ticks(), memory_order_release);
    kineto_range_args(r->range, &team_site, &threads);
    kineto_range_end(r->range);
    ct_release_region(r);
}

/* The entry is pushed also for a region that is not recorded, if others are open: its end has to find its
 * own begin. */
void ct_begin_implicit_task(ct_region *region, uint32_t threads, uint32_t number)
{
    ct_thread *t = follow_thread();
    ct_open *open = t ? push_construct(t, CT_IMPLICIT_TASK) : NULL;
    if (!open)
        return;
    open->key = (uintptr_t)t->region;
    open->number = number;
    open->region = t->region = region;
    if (!region) {
        open->began = 0;
        return;
    }
    atomic_fetch_add_explicit(&region->users, 1, memory_order_relaxed);
    if (number == 0)
        region->threads = threads;
}

void ct_end_implicit_task(void)
{
    ct_thread *t = ct_this_thread;
    uint32_t i = t ? t->count : 0;
    while (i > 0 && t->open[i - 1].what != CT_IMPLICIT_TASK)
        i--;
    if (i == 0)
        return;
    ct_open *open = &t->open[i - 1];
    ct_record_construct(open, 0);
    t->count = i - 1; /* with constructs that were left by a cancellation */
    t->region = (ct_region *)(uintptr_t)open->key;
    if (open->region)
        ct_release_region(open->region);
}

/* ---- explicit tasks -------------------------------------------------------------------------- */

/* A task's number: a count << 13 | the place of its code in code_table << 1 | 1. */
#define CODE_BITS  12
#define CODE_SLOTS (1u << CODE_BITS)
static atomic_uintptr_t code_table[CODE_SLOTS]; /* place 0 is not used */

/* The place of an address, added on first use; 0: the table is full there. */
static uint32_t find_code_place(uintptr_t code)
{
    uint32_t place = (uint32_t)((code ^ code >> 7 ^ code >> 17) % CODE_SLOTS);
    for (uint32_t tries = 0; tries < 32; tries++, place = (place + 1) % CODE_SLOTS) {
        uintptr_t there = atomic_load_explicit(&code_table[place], memory_order_relaxed);
        if (place && !there && !atomic_compare_exchange_strong(&code_table[place], &there, code) &&
            there != code)
            continue;
        if (place && (there == code || !there))
            return place;
    }
    return 0;
}

uintptr_t ct_code_of_task(uint64_t task)
{
    return atomic_load_explicit(&code_table[task >> 1 & (CODE_SLOTS - 1)], memory_order_relaxed);
}

/* A number of its own for each task; threads take them in blocks. */
static uint64_t next_task_number(ct_thread *t)
{
    static atomic_uint_fast64_t taken;
    if (t->next_task == t->tasks_end) {
        t->next_task = atomic_fetch_add(&taken, IDS_PER_THREAD) + 1;
        t->tasks_end = t->next_task + IDS_PER_THREAD;
    }
    return t->next_task++;
}

uint64_t ct_create_task(uintptr_t code)
{
    ct_thread *t = ct_recording() ? follow_thread() : NULL;
    if (!t)
        return 0;
    uint64_t task = (next_task_number(t) << CODE_BITS | find_code_place(code)) << 1 | 1;
    kineto_value values[] = {{.u = t->region ? t->region->id : 0}, {.u = task}};
    kineto_instant_mark(&create_site, values);
    return task;
}
