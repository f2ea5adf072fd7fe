/* Callbacks around operators: global ones, which run on all threads, and each thread's own.
 *
 * A thread that runs a callback is marked as inside (quiesce.c). A global callback is removed in
 * two steps: it is taken out of the table, then kr_wait_quiescent makes sure that no other thread
 * is inside; only then is its place used again. So a thread that is inside reads places without a
 * lock, and when the removal returns the program may free what the callback used. States of a
 * place:
 *
 *   free (taken false) → taken, handle 0 → in the table (handle set) → taken, handle 0 → free
 */
#include "record/function.h"
#include "record/host.h"

/* Places of a table. A step's members have a bit for each place: the low half is the global
 * table. */
#define KR_CALLBACKS 32u

typedef struct kr_callback {
    kineto_callback handle; /* 0: not in the table; stored last, cleared first */
    bool taken, disabled;
    kineto_function_callback c;
} kr_callback;

/* The masks by scope hold those that are not disabled. */
typedef struct kr_callbacks {
    uint32_t of_scope[KINETO_NUM_SCOPES];
    kr_callback list[KR_CALLBACKS];
} kr_callbacks;

/* What an operator with callbacks needs at its end: which callbacks to call, and their view. Owned
 * by the operator; afterwards it goes to `unused` of the thread that ended it. */
typedef struct kineto_function_calls {
    struct kineto_function_calls *next; /* of the unused ones */
    struct kr_thread *thread;           /* whose own callbacks these are */
    kineto_function_view view;
    char *name; /* a copy, if the operator was given a temporary name */
    const kineto_input *outputs;
    uint32_t output_count, count;
    struct {
        kineto_callback handle;
        uint32_t place; /* KR_CALLBACKS and up: the thread's own */
        void *context;
    } list[2 * KR_CALLBACKS];
} calls;

typedef struct kr_thread {
    /* The list of all threads exists for leak checkers, which do not search the cursors. */
    struct kr_thread *next, **link;
    kr_callbacks own;
    calls *unused;
    uint64_t random;
    bool running; /* a callback runs on this thread: operators inside it have no callbacks */
} kr_thread;

uint32_t kineto_function_watchers;
static kr_callbacks everywhere;
static kr_thread *threads;
static kb_lock threads_lock;
static kb_lock edit_lock; /* of `everywhere`, against other editors */
static uint64_t last_handle;
static int64_t node_id = -1;

/* ---- this thread ----------------------------------------------------------------------------- */

/* The calling thread's state; NULL: it has none yet, or runs a signal handler. */
static kr_thread *find_thread_state(void)
{
    const kr_cursor *c = kr_me;
    return c->busy || !KR_IN_USE(c) ? NULL : c->callbacks;
}

static void link_thread_state(kr_thread *t)
{
    (void)kr_lock_take(&threads_lock);
    t->next = threads;
    t->link = &threads;
    if (threads)
        threads->link = &t->next;
    threads = t;
    kb_lock_drop(&threads_lock);
}

static void unlink_thread_state(kr_thread *t)
{
    (void)kr_lock_take(&threads_lock);
    *t->link = t->next;
    if (t->next)
        t->next->link = t->link;
    kb_lock_drop(&threads_lock);
}

/* The same, made if there is none; NULL: in a signal handler, or out of memory. */
static kr_thread *get_thread_state(void)
{
    kr_cursor *c = kr_cursor_enter();
    if (!c)
        return NULL;
    bool handler = c->is_second;
    kr_leave(c);
    if (handler)
        return NULL;
    if (!c->callbacks) {
        kr_thread *t = calloc(1, sizeof *t);
        if (t) {
            t->random = kr_identity() * UINT64_C(0x9e3779b97f4a7c15) | 1;
            link_thread_state(t);
        }
        c->callbacks = t;
    }
    return c->callbacks;
}

static uint32_t count_enabled_callbacks(const kr_callbacks *all)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < KR_CALLBACKS; i++)
        n += all->list[i].handle && !all->list[i].disabled;
    return n;
}

void kr_callbacks_thread_exit(kr_cursor *c)
{
    kr_thread *t = c->callbacks;
    if (!t)
        return;
    c->callbacks = NULL;
    unlink_thread_state(t);
    kb_sub_relaxed(&kineto_function_watchers, count_enabled_callbacks(&t->own));
    for (calls *next, *at = t->unused; at; at = next) {
        next = at->next;
        free(at);
    }
    free(t);
}

bool kineto_function_enable(bool on)
{
    kr_cursor *c = kr_cursor_enter();
    if (!c)
        return true;
    bool was = !c->functions_off;
    c->functions_off = !on;
    kr_functions_update(c);
    kr_leave(c);
    return was;
}

bool kineto_function_is_enabled(void) { return !kr_me->functions_off; }

void kineto_function_seed(uint32_t seed)
{
    kr_thread *t = get_thread_state();
    if (t)
        t->random = (seed + UINT64_C(1)) * UINT64_C(0x9e3779b97f4a7c15) | 1;
}

kineto_status kineto_function_set_node_id(int64_t id)
{
    if (id < -1)
        return KINETO_E_ARGUMENT;
    kb_store_relaxed(&node_id, id);
    return KINETO_OK;
}

int64_t kineto_function_node_id(void) { return kb_load_relaxed(&node_id); }

/* ---- the table ------------------------------------------------------------------------------- */

/* Recompute the masks by scope after a change; readers take the new ones with acquire. */
static void update_scope_masks(kr_callbacks *all)
{
    for (uint32_t scope = 0; scope < KINETO_NUM_SCOPES; scope++) {
        uint32_t mask = 0;
        for (uint32_t i = 0; i < KR_CALLBACKS; i++) {
            const kr_callback *k = &all->list[i];
            bool shown = k->handle && !k->disabled && (k->c.scopes >> scope & 1);
            mask |= (uint32_t)shown << i;
        }
        kb_store_release(&all->of_scope[scope], mask);
    }
}

static kineto_status check_callback_options(const kineto_function_callback *in,
                                            kineto_function_callback *out, kineto_error *err)
{
    kineto_function_callback_init(out);
    kineto_status status = kb_options_read(
        out, sizeof *out, in, "callback of operators, see kineto_function_callback_init", err);
    if (status)
        return status;
    if (!(out->probability >= 0 && out->probability <= 1))
        return kb_fail(err, KINETO_E_ARGUMENT,
                       "callback of operators: probability %g is not between 0 and 1",
                       out->probability);
    if (!out->enter && !out->exit)
        return kb_fail(err, KINETO_E_ARGUMENT, "callback of operators: no function is given");
    if (out->scopes >> KINETO_NUM_SCOPES)
        return kb_fail(err, KINETO_E_ARGUMENT,
                       "callback of operators: scopes %#x has bits above those of kineto_scope",
                       out->scopes);
    if (!out->scopes)
        out->scopes = (1u << KINETO_NUM_SCOPES) - 1;
    return KINETO_OK;
}

static kineto_status add_callback(kr_callbacks *all, const kineto_function_callback *c,
                                  kineto_callback *out, kineto_error *err)
{
    kr_callback *k = NULL;
    for (uint32_t i = 0; i < KR_CALLBACKS && !k; i++)
        if (!all->list[i].taken)
            k = &all->list[i];
    if (!k)
        return kb_fail(err, KINETO_E_LIMIT, "there are %u callbacks of operators already",
                       KR_CALLBACKS);
    KB_ASSERT(k->handle == 0);
    k->taken = true;
    k->disabled = false;
    k->c = *c;
    kineto_callback handle = kb_add_relaxed(&last_handle, 1) + 1;
    kb_store_release(&k->handle, handle);
    update_scope_masks(all);
    kb_add_relaxed(&kineto_function_watchers, 1u);
    if (out)
        *out = handle;
    return KINETO_OK;
}

kineto_status kineto_function_add_global(const kineto_function_callback *callback,
                                         kineto_callback *out, kineto_error *err)
{
    kineto_function_callback c;
    if (out)
        *out = 0;
    if (!callback)
        return kb_fail_null(err, __func__, "callback", callback);
    kineto_status status = check_callback_options(callback, &c, err);
    if (status)
        return status;
    kr_quiesce_init();
    (void)kr_lock_take(&edit_lock);
    status = add_callback(&everywhere, &c, out, err);
    kb_lock_drop(&edit_lock);
    return status;
}

kineto_status kineto_function_add_local(const kineto_function_callback *callback,
                                        kineto_callback *out, kineto_error *err)
{
    kineto_function_callback c;
    if (out)
        *out = 0;
    if (!callback)
        return kb_fail_null(err, __func__, "callback", callback);
    kineto_status status = check_callback_options(callback, &c, err);
    kr_thread *t = status ? NULL : get_thread_state();
    if (!status && !t)
        status = kb_fail_memory(err, "callbacks of a thread");
    return status ? status : add_callback(&t->own, &c, out, err);
}

static kr_callback *find_callback(kr_callbacks *all, kineto_callback handle)
{
    for (uint32_t i = 0; i < KR_CALLBACKS && handle; i++)
        if (all->list[i].handle == handle)
            return &all->list[i];
    return NULL;
}

/* Take a callback out of the table; its place stays taken until no thread can be running it. */
static void hide_callback(kr_callbacks *all, kr_callback *k)
{
    KB_ASSERT(k->taken && k->handle);
    if (!k->disabled)
        kb_sub_relaxed(&kineto_function_watchers, 1u);
    kb_store_release(&k->handle, 0);
    update_scope_masks(all);
}

#define CALLBACK_TIMEOUT_MS 30000u

static kineto_status remove_global_callback(kineto_callback handle)
{
    (void)kr_lock_take(&edit_lock);
    kr_callback *k = find_callback(&everywhere, handle);
    if (k)
        hide_callback(&everywhere, k);
    kb_lock_drop(&edit_lock);
    if (!k)
        return KINETO_E_NOT_FOUND;
    if (!kr_wait_quiescent(CALLBACK_TIMEOUT_MS)) {
        kb_log(KINETO_LOG_WARNING,
               "a callback of operators does not return; its place is not used again");
        return KINETO_E_BUSY;
    }
    KB_ASSERT(k->taken && k->handle == 0);
    kb_store_release(&k->taken, false);
    return KINETO_OK;
}

kineto_status kineto_function_remove(kineto_callback handle)
{
    kr_thread *t = find_thread_state();
    kr_callback *k = t ? find_callback(&t->own, handle) : NULL;
    if (!k)
        return remove_global_callback(handle);
    hide_callback(&t->own, k);
    k->taken = false;
    return KINETO_OK;
}

static bool set_callback_disabled(kr_callbacks *all, kineto_callback handle, bool disabled)
{
    kr_callback *k = find_callback(all, handle);
    if (!k)
        return false;
    if (k->disabled != disabled) {
        k->disabled = disabled;
        update_scope_masks(all);
        if (disabled)
            kb_sub_relaxed(&kineto_function_watchers, 1u);
        else
            kb_add_relaxed(&kineto_function_watchers, 1u);
    }
    return true;
}

static kineto_status change_callback_state(kineto_callback handle, bool disabled)
{
    kr_thread *t = find_thread_state();
    if (t && set_callback_disabled(&t->own, handle, disabled))
        return KINETO_OK;
    (void)kr_lock_take(&edit_lock);
    bool found = set_callback_disabled(&everywhere, handle, disabled);
    kb_lock_drop(&edit_lock);
    return found ? KINETO_OK : KINETO_E_NOT_FOUND;
}

kineto_status kineto_function_disable(kineto_callback handle)
{
    return change_callback_state(handle, true);
}
kineto_status kineto_function_reenable(kineto_callback handle)
{
    return change_callback_state(handle, false);
}

static bool has_enabled_callbacks(const kr_callbacks *all)
{
    uint32_t mask = 0;
    for (uint32_t scope = 0; scope < KINETO_NUM_SCOPES; scope++)
        mask |= kb_load_relaxed(&all->of_scope[scope]);
    return mask != 0;
}

bool kineto_function_has_global(void) { return has_enabled_callbacks(&everywhere); }

bool kineto_function_has_local(void)
{
    const kr_thread *t = find_thread_state();
    return t && has_enabled_callbacks(&t->own);
}

bool kineto_function_has_callbacks(void)
{
    return kineto_function_has_global() || kineto_function_has_local();
}

void kineto_function_clear_global(void)
{
    for (uint32_t i = 0; i < KR_CALLBACKS; i++) {
        kineto_callback handle = kb_load_acquire(&everywhere.list[i].handle);
        if (handle)
            (void)remove_global_callback(handle);
    }
}

void kineto_function_clear_local(void)
{
    kr_thread *t = find_thread_state();
    for (uint32_t i = 0; t && i < KR_CALLBACKS; i++)
        if (t->own.list[i].handle)
            (void)kineto_function_remove(t->own.list[i].handle);
}

void kineto_function_clear(void)
{
    kineto_function_clear_local();
    kineto_function_clear_global();
}

/* ---- a step: which callbacks run for an operator ---------------------------------------------- */

/* xorshift64* */
static uint64_t draw_random(kr_thread *t)
{
    uint64_t x = t->random;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    t->random = x;
    return x * UINT64_C(0x2545f4914f6cdd1d);
}

static bool is_drawn(kr_thread *t, double probability)
{
    if (KINETO_LIKELY(probability >= 1))
        return true;
    return (double)(draw_random(t) >> 11) * 0x1p-53 < probability;
}

static kr_callback *callback_at(kr_thread *t, uint32_t place)
{
    return place < KR_CALLBACKS ? &everywhere.list[place] : &t->own.list[place - KR_CALLBACKS];
}

static uint64_t callbacks_of_scope(const kr_thread *t, uint32_t scope)
{
    return kb_load_acquire(&everywhere.of_scope[scope]) | (uint64_t)t->own.of_scope[scope]
                                                              << KR_CALLBACKS;
}

/* Choose among the enabled callbacks of the scope by their probabilities. The thread is inside. */
static void select_step_callbacks(kr_thread *t, uint32_t scope, kineto_function_step *out)
{
    uint64_t members = callbacks_of_scope(t, scope);
    for (uint64_t left = members; left; left &= left - 1) {
        uint32_t place = (uint32_t)__builtin_ctzll(left);
        const kr_callback *k = callback_at(t, place);
        if (!is_drawn(t, k->c.probability)) {
            members &= ~(UINT64_C(1) << place);
            continue;
        }
        out->count++;
        out->needs_inputs |= k->c.needs_inputs;
        out->needs_outputs |= k->c.needs_outputs;
        out->needs_ids |= k->c.needs_ids;
    }
    out->members = members;
}

/* The thread's state, with the thread marked as inside until kr_plugin_exit(*c). NULL: no callbacks
 * can run now, and it is not inside. */
static kr_thread *enter_callbacks(kr_cursor **c)
{
    kr_thread *t = kr_me->functions_off ? NULL : get_thread_state();
    if (!t || t->running)
        return NULL;
    *c = kr_plugin_enter();
    return *c ? t : NULL;
}

bool kineto_function_step_callbacks(kineto_scope scope, kineto_function_step *out)
{
    kr_cursor *c;
    *out = (kineto_function_step){.scope = scope};
    if ((uint32_t)scope >= KINETO_NUM_SCOPES)
        return false;
    out->recorded = kr_function_recorded(scope);
    kr_thread *t = kb_load_relaxed(&kineto_function_watchers) ? enter_callbacks(&c) : NULL;
    if (t) {
        select_step_callbacks(t, scope, out);
        kr_plugin_exit(c);
    }
    out->needs_ids |= out->recorded;
    return out->recorded || out->count;
}

/* ---- running --------------------------------------------------------------------------------- */

static calls *alloc_calls(kr_thread *t)
{
    calls *k = t->unused;
    if (k)
        t->unused = k->next;
    else
        k = malloc(sizeof *k);
    if (k) {
        k->thread = t;
        k->name = NULL;
        k->outputs = NULL;
        k->output_count = k->count = 0;
    }
    return k;
}

static void fill_function_view(kineto_function_view *v, const kineto_function *f,
                               const kineto_site *site, const kineto_function_info *info)
{
    *v = (kineto_function_view){
        .size = sizeof *v,
        .name = info->name ? info->name : site->name,
        .overload = kb_load_relaxed(&site->flags) & KR_SITE_OVERLOAD ? site->args[0].name : "",
        .scope = (kineto_scope)site->scope,
        .is_async = info->is_async,
        .id = f->id,
        .thread_id = kineto_function_thread_id(),
        .sequence_number = info->sequence_number,
        .forward_thread_id = info->forward_thread_id,
        .debug_handle = info->debug_handle,
        .inputs = info->inputs,
        .keywords = info->keywords,
        .input_count = info->inputs ? info->input_count : 0,
        .keyword_count = info->keywords ? info->keyword_count : 0,
    };
}

/* A view without what this callback did not request. */
static kineto_function_view restrict_view(const kineto_function_view *whole, const kr_callback *k)
{
    kineto_function_view v = *whole;
    if (!k->c.needs_inputs)
        v.inputs = NULL, v.keywords = NULL, v.input_count = v.keyword_count = 0;
    if (!k->c.needs_outputs)
        v.outputs = NULL, v.output_count = 0;
    if (!k->c.needs_ids)
        v.id = 0;
    return v;
}

/* Call the `enter` functions in the order of places, and store in *k which `exit` functions to
 * call. The thread is inside. */
static void run_enter_callbacks(kr_thread *t, calls *k, uint64_t members)
{
    KB_ASSERT(!t->running && k->count == 0);
    t->running = true;
    for (; members; members &= members - 1) {
        uint32_t place = (uint32_t)__builtin_ctzll(members);
        const kr_callback *callback = callback_at(t, place);
        kineto_callback handle = kb_load_acquire(&callback->handle);
        if (!handle)
            continue;
        kineto_function_view view = restrict_view(&k->view, callback);
        kineto_function_exit exit = callback->c.exit;
        void *context = callback->c.enter ? callback->c.enter(&view, callback->c.user) : NULL;
        if (!exit)
            continue;
        KB_ASSERT(k->count < KB_COUNT(k->list));
        k->list[k->count].handle = handle;
        k->list[k->count].place = place;
        k->list[k->count++].context = context;
    }
    t->running = false;
}

static void begin_callbacks(kineto_function *f, kr_thread *t, const kineto_function_step *step,
                            kineto_site *site, const kineto_function_info *info)
{
    calls *k = alloc_calls(t);
    if (!k)
        return;
    if (step->needs_ids && !f->id)
        f->id = kr_function_id_slow();
    fill_function_view(&k->view, f, site, info);
    /* Since the step was made, places of removed callbacks may have been given to new ones. */
    run_enter_callbacks(t, k, step->members & callbacks_of_scope(t, step->scope));
    if (k->count == 0) {
        k->next = t->unused;
        t->unused = k;
        return;
    }
    k->view.inputs = NULL;
    k->view.keywords = NULL;
    k->view.input_count = k->view.keyword_count = 0;
    if (info->name) {
        k->name = strdup(info->name);
        k->view.name = k->name ? k->name : site->name;
    }
    f->calls = k;
    f->state |= KR_FUNCTION_CALLS;
}

void kr_callbacks_begin(kineto_function *f, kineto_site *site, const kineto_function_info *info,
                        const kr_place *place)
{
    kr_cursor *c;
    kr_thread *t = site->scope < KINETO_NUM_SCOPES ? enter_callbacks(&c) : NULL;
    if (t) {
        kineto_function_step step = {.scope = site->scope};
        select_step_callbacks(t, site->scope, &step);
        if (step.count)
            begin_callbacks(f, t, &step, site, info);
        kr_plugin_exit(c);
    }
    kr_function_record(f, site, info, place);
}

void kineto_function_begin_step(kineto_function *f, const kineto_function_step *step,
                                kineto_site *site, const kineto_function_info *given)
{
    kr_cursor *c;
    kineto_function_info info;
    kineto_function_info_init(&info);
    if (given)
        memcpy(&info, given, KB_MIN(given->size, sizeof info));
    *f = (kineto_function){.site = site, .state = info.is_async ? KR_FUNCTION_ASYNC : 0};
    kr_thread *t = step->count ? enter_callbacks(&c) : NULL;
    if (t) {
        begin_callbacks(f, t, step, site, &info);
        kr_plugin_exit(c);
    }
    kr_place place = {__builtin_frame_address(0), KR_CALLER};
    if (step->recorded)
        kr_function_record(f, site, &info, &place);
    if (f->state == KR_FUNCTION_ASYNC)
        f->state = 0;
}

void kineto_function_set_outputs(kineto_function *f, const kineto_input *outputs, size_t count)
{
    if ((f->state & KR_FUNCTION_CALLS) && outputs) {
        f->calls->outputs = outputs;
        f->calls->output_count = (uint32_t)KB_MIN(count, (size_t)UINT32_MAX);
    }
    if (f->state & KR_FUNCTION_RECORDED)
        kr_function_outputs(f, outputs, outputs ? count : 0);
}

/* Call the `exit` functions of callbacks that are still in their table, in reverse order. Those of
 * a thread's own table are called on that thread only. */
static void run_exit_callbacks(kr_thread *t, calls *k)
{
    bool within = t->running; /* true when a callback ends an operator that began outside of it */
    t->running = true;
    for (uint32_t i = k->count; i-- > 0;) {
        uint32_t place = k->list[i].place;
        if (place >= KR_CALLBACKS && k->thread != t)
            continue;
        const kr_callback *callback = callback_at(t, place);
        if (kb_load_acquire(&callback->handle) != k->list[i].handle)
            continue;
        kineto_function_view view = restrict_view(&k->view, callback);
        callback->c.exit(&view, k->list[i].context, callback->c.user);
    }
    t->running = within;
}

void kr_callbacks_end(kineto_function *f)
{
    calls *k = f->calls;
    kr_cursor *c = kr_plugin_enter();
    kr_thread *t = c ? get_thread_state() : NULL;
    k->view.outputs = k->outputs;
    k->view.output_count = k->output_count;
    f->calls = NULL;
    if (t)
        run_exit_callbacks(t, k);
    free(k->name);
    if (t) {
        k->next = t->unused;
        t->unused = k;
    } else {
        free(k);
    }
    if (c)
        kr_plugin_exit(c);
}
