/* Operators: what runs when one begins and ends. An operator is a range with a part of its own for
 * inputs, ids and stacks (KF_PROP_FUNCTION in format.h); uncommon parts are in function_part.c,
 * callbacks in callbacks.c, stacks and counters in function_extras.c.
 *
 * As in record.c a fast path handles frequent operators and falls back to a general one. Budget:
 * two clock reads, eight words for two matrices, and passing the id to plug-ins. */
#include "record/function.h"

/* ---- ids and numbers of threads -------------------------------------------------------------- */

/* Used without a pool; far from the ids of any pool. */
static uint64_t early_ids = UINT64_C(1) << 40;
static uint32_t thread_numbers;

KB_COLD uint64_t kr_function_ids_refill(kr_cursor *c)
{
    const kf_pool *pool = kr_pool_get();
    uint64_t *counter = pool ? &pool->control->function_ids : &early_ids;
    c->function_next = kb_add_relaxed(counter, KR_FUNCTION_IDS) + 1;
    c->function_end = c->function_next + KR_FUNCTION_IDS;
    return c->function_next++;
}

void kr_functions_update(kr_cursor *c)
{
    c->functions_fast = c->number && c->tsc && !c->functions_off;
}

KB_COLD uint32_t kr_thread_number_new(kr_cursor *c)
{
    if (c->is_second && kr_me != c) /* a signal handler: the number is the thread's */
        return c->number = kr_me->number ? kr_me->number : kr_thread_number_new(kr_me);
    c->number = kb_add_relaxed(&thread_numbers, 1u) + 1;
    kr_functions_update(c);
    return c->number;
}

void kineto_rt_join(uint32_t window, bool in)
{
    kr_cursor *c = kr_cursor_enter();
    uint32_t bit = UINT32_C(1) << (window % KF_MAX_WINDOWS);
    if (!c)
        return;
    c->joined = in ? c->joined | bit : c->joined & ~bit;
    kr_leave(c);
}

bool kineto_rt_joined(uint32_t window) { return kr_me->joined >> (window % KF_MAX_WINDOWS) & 1; }

uint64_t kineto_function_thread_id(void)
{
    kr_cursor *c = kr_cursor_enter();
    if (!c)
        return 0;
    uint64_t number = kr_thread_number(c);
    kr_leave(c);
    return number;
}

/* The KF_WANT_… bits of an operator of this scope on this thread; 0: it is not recorded. */
KB_INLINE uint32_t wanted_parts(const kr_cursor *c, uint32_t of_scope)
{
    const kf_control *control = kb_load_acquire(&kr_pool.control);
    uint32_t wants = control ? (uint32_t)kb_load_relaxed(&control->wants) : 0;
    bool scope = (wants & KF_WANT_SCOPE(of_scope & 15u)) != 0;
    bool thread = (wants & KF_WANT_ALL_THREADS) || c->joined;
    return scope && thread && !c->functions_off ? wants : 0;
}

/* ---- recording ------------------------------------------------------------------------------- */

/* A contiguous tensor of up to four sizes below 65536, as nearly all inputs are: two words, or one
 * without sizes. NULL: the tensor is none of these. */
static KB_NOINLINE uint64_t *write_small_tensor(uint64_t *at, const kineto_tensor *t)
{
    if (t->rank > 4)
        return NULL;
    uint64_t all = 0, packed = 0, step = 1, odd = 0;
    for (uint32_t i = t->rank; i-- > 0;) {
        uint64_t size = (uint64_t)t->sizes[i];
        all |= size;
        packed = packed << 16 | (size & 0xffff);
        odd |= t->strides ? (uint64_t)t->strides[i] ^ step : 0;
        step *= size + !size;
    }
    if (all > 0xffff || odd)
        return NULL;
    at[0] = kr_tensor_word(t, KF_INPUT_SMALL);
    at[1] = packed;
    return at + 1 + (t->rank != 0);
}

/* Does a matrix not fit the same form? Branches that always go the same way cost less here than
 * combining the conditions. */
KB_INLINE bool is_matrix_unpackable(const kineto_tensor *t, uint64_t rows, uint64_t columns)
{
    const int64_t *strides = t->strides;
    return (rows | columns) > 0xffff ||
           (strides && ((uint64_t)strides[0] != columns + !columns || strides[1] != 1));
}

/* A number, or an input without a recorded value. NULL: it is a list. */
KB_INLINE uint64_t *write_scalar_input(uint64_t *at, const kineto_input *input, uint32_t wants)
{
    uint32_t type = input->type, value = wants & KF_WANT_VALUES;
    bool is_number = type >= KINETO_INPUT_INT && type <= KINETO_INPUT_BOOL;
    if (KINETO_UNLIKELY(!is_number && type != KINETO_INPUT_NONE && type != KINETO_INPUT_OTHER))
        return NULL;
    at[0] = kf_input_word(type, is_number && !value ? KF_INPUT_NOT_RECORDED : 0, 0);
    at[1] = type == KINETO_INPUT_BOOL ? input->u != 0 : input->u;
    return at + 1 + (is_number && value);
}

/* Small tensors and numbers. NULL: there is another input among them. */
KB_INLINE uint64_t *write_small_inputs(uint64_t *at, const kineto_input *inputs, size_t count,
                                       uint32_t wants)
{
    for (const kineto_input *end = inputs + count; inputs < end; inputs++) {
        const kineto_tensor *t = inputs->tensor;
        if (inputs->type != KINETO_INPUT_TENSOR) {
            at = write_scalar_input(at, inputs, wants);
            if (KINETO_UNLIKELY(!at))
                return NULL;
            continue;
        }
        if (KINETO_UNLIKELY(!t))
            return NULL;
        if (KINETO_UNLIKELY(t->rank != 2)) {
            at = write_small_tensor(at, t);
            if (!at)
                return NULL;
            continue;
        }
        uint64_t rows = (uint64_t)t->sizes[0], columns = (uint64_t)t->sizes[1];
        if (KINETO_UNLIKELY(is_matrix_unpackable(t, rows, columns)))
            return NULL;
        at[0] = kr_tensor_word(t, KF_INPUT_SMALL);
        at[1] = rows | columns << 16;
        at += 2;
    }
    return at;
}

#define FEW_INPUTS 8u
#define FEW_WORDS  (7u + 2 * FEW_INPUTS)

/* The inputs, after the head of a part; *head receives the head's lower half. NULL: no room. */
KB_INLINE uint64_t *write_few_inputs(const kr_cursor *c, uint64_t *at, const kineto_input *inputs,
                                     size_t count, uint32_t wants, uint32_t *head)
{
    *head = 0;
    if (!(wants & KF_WANT_INPUTS) || !inputs)
        return at;
    *head = (uint32_t)count << 12 | (wants & KF_WANT_IDS ? KF_FUNCTION_IDS : 0) |
            KF_FUNCTION_INPUTS | (wants & KF_WANT_VALUES) * (KF_FUNCTION_VALUES / KF_WANT_VALUES);
    uint64_t *end = wants & KF_WANT_IDS ? NULL : write_small_inputs(at, inputs, count, wants);
    return KINETO_LIKELY(end != NULL)
               ? end
               : kr_inputs_write(at, kr_record_limit(c, c->at) - 1, inputs, (uint32_t)count, wants);
}

/* The parts of a frequent operator: a few inputs, and its place in the autograd graph. */
typedef struct few_parts {
    const kineto_input *inputs;
    size_t count;
    int64_t sequence_number;    /* -1: none */
    uint64_t forward_thread_id; /* 0: none */
} few_parts;

/* The words between the head of a part and its inputs: see KF_FUNCTION_… in format.h. */
KB_INLINE uint64_t *write_graph_words(uint64_t *at, const few_parts *few, uint32_t *head)
{
    if (few->sequence_number >= 0) {
        *head |= KF_FUNCTION_SEQUENCE;
        *at++ = (uint64_t)few->sequence_number;
    }
    if (KINETO_UNLIKELY(few->forward_thread_id)) {
        *head |= KF_FUNCTION_FORWARD;
        *at++ = few->forward_thread_id;
    }
    return at;
}

/* Record a frequent operator: its site is registered, it has few parts, there is room. 0:
 * otherwise, nothing was written. */
KB_INLINE kineto_range begin_operator_fast(kr_cursor *c, kineto_site *site, uint64_t id,
                                           const few_parts *few, uint32_t wants)
{
    uint32_t site_id = kb_load_acquire(&site->id), head, graph = 0, depth = c->depth;
    if (KINETO_UNLIKELY(!site_id || !kr_room_for(c, FEW_WORDS) || depth >= KF_MAX_DEPTH ||
                        few->count > FEW_INPUTS))
        return 0;
    uint64_t *at = c->at;
    at[1] = kb_ticks_hw();
    at[2] = id;
    uint64_t *end = write_graph_words(at + 4, few, &graph);
    end = write_few_inputs(c, end, few->inputs, few->count, wants, &head);
    if (KINETO_UNLIKELY(!end)) {
        kr_undo(c);
        return 0;
    }
    uint32_t words = (uint32_t)(end - at);
    KB_ASSERT(words <= KF_MAX_RECORD_WORDS && c->number);
    at[3] = head | graph | (uint64_t)(words - 3) << 24 | (uint64_t)c->number << 40;
    c->open[depth] = (uint16_t)(at - c->base);
    c->depth = depth + 1;
    c->limit--; /* the word of its END */
    uint32_t aux = depth | (KF_PROP_EXTERNAL | KF_PROP_FUNCTION) << 8;
    kr_commit(c, at, kf_header(KF_BEGIN, words, aux, site_id), words);
    return depth + 1;
}

/* After the header: [ticks, async id, id, name, part]. @return the end; NULL: they do not fit. */
static uint64_t *write_operator_record(kr_cursor *c, uint64_t *at, const kineto_function *f,
                                       const kr_operator *op, uint32_t wants, uint32_t *props)
{
    const uint64_t *limit = kr_record_limit(c, at) - 1;
    if (!kr_fits(at, limit, 4))
        return NULL;
    *props = KF_PROP_EXTERNAL | KF_PROP_FUNCTION;
    uint64_t *end = at + 1;
    *end++ = kr_ticks(c);
    if (f->state & KR_FUNCTION_ASYNC)
        *end++ = f->id;
    *end++ = f->id;
    if (op->info.name) {
        *props |= KF_PROP_NAME;
        end = kr_text_write(end, limit, op->info.name, strlen(op->info.name), KF_MAX_INLINE_NAME);
    }
    return end ? kr_part_write(c, end, limit, op, wants) : NULL;
}

/* Write the record into the current chunk; if it does not fit, into a fresh one; if it does not fit
 * there, without inputs, counting the loss. @return the end; NULL: no room (counted). */
static uint64_t *place_operator_record(kr_cursor *c, const kineto_function *f,
                                       const kr_operator *op, uint32_t wants, uint32_t *props)
{
    if (!kr_room(c, 10))
        return NULL;
    uint64_t *end = write_operator_record(c, c->at, f, op, wants, props);
    if (end)
        return end;
    kr_undo(c);
    if (!kr_room_for_longest(c))
        return NULL;
    end = write_operator_record(c, c->at, f, op, wants, props);
    if (end)
        return end;
    kr_undo(c);
    kr_count(c->source, KF_REASON_ARGS_LOST, 1);
    end = write_operator_record(c, c->at, f, op, 0, props);
    *props |= KF_PROP_ARGS_LOST;
    return end;
}

static KB_NOINLINE void begin_operator_general(kineto_function *f, kineto_site *site,
                                               const kr_operator *op, uint32_t wants)
{
    kr_cursor *c = kr_cursor_enter();
    if (!c)
        return;
    bool async = f->state & KR_FUNCTION_ASYNC;
    uint32_t site_id = async ? kr_site_id(site) : kr_site_id_or_throttled(c, site), props;
    if (KINETO_UNLIKELY(site_id == KR_SITE_THROTTLED)) {
        kr_throttle_count(c);
        kr_leave(c);
        return;
    }
    uint64_t *end =
        !async && kr_too_deep(c) ? NULL : place_operator_record(c, f, op, wants, &props);
    if (end) {
        uint64_t *at = c->at;
        uint32_t words = (uint32_t)(end - at), depth = 0;
        if (!async) {
            depth = c->depth;
            f->range = kr_range_opened(c, at);
        }
        kr_commit(c, at,
                  kf_header(async ? KF_ASYNC_BEGIN : KF_BEGIN, words, depth | props << 8, site_id),
                  words);
        f->state |= KR_FUNCTION_RECORDED;
    }
    kr_leave(c);
}

KB_INLINE void push_operator_id(kineto_function *f, const kineto_site *site, uint32_t wants)
{
    /* An asynchronous operator may end on another thread, which cannot pop this thread's push. */
    if (!(wants & KF_WANT_CORRELATION) || !kineto__heard() || (f->state & KR_FUNCTION_ASYNC))
        return;
    bool user = site->scope == KINETO_SCOPE_USER_SCOPE;
    f->pushed_at = kr_listen_push(user ? KINETO_CORRELATION_USER : KINETO_CORRELATION, f->id);
    f->state |= (f->pushed_at ? KR_FUNCTION_PUSHED : 0) | (user ? KR_FUNCTION_USER : 0);
}

uint64_t kr_function_id_slow(void)
{
    kr_cursor *c = kr_cursor_enter();
    if (!c)
        return 0;
    uint64_t id = kr_function_id(c);
    kr_leave(c);
    return id;
}

/* ---- recording: the general path -------------------------------------------------------------- */

static KB_NOINLINE void record_operator_general(kineto_function *f, kineto_site *site,
                                                const kineto_function_info *info, uint32_t wants,
                                                const kr_place *place)
{
    kr_operator op = {.info = *info};
    uint64_t room[KR_STACK_MAX];
    if (!f->id && !(f->id = kr_function_id_slow()))
        return; /* counted */
    if ((wants & KF_WANT_STACK) && (!info->stack || (wants & KF_WANT_BOTH)))
        kr_stack_take(&op, place, room);
    if (!(f->state & KR_FUNCTION_PUSHED))
        push_operator_id(f, site, wants);
    begin_operator_general(f, site, &op, wants);
    if ((wants & KF_WANT_COUNTERS) && !(f->state & KR_FUNCTION_ASYNC))
        kr_counters_begin(f);
}

bool kr_function_recorded(uint32_t scope)
{
    uint32_t kind = KINETO_SCOPE_KIND(scope);
    return kineto_enabled(kind) && wanted_parts(kr_me, scope);
}

void kr_function_record(kineto_function *f, kineto_site *site, const kineto_function_info *info,
                        const kr_place *place)
{
    uint32_t wants = wanted_parts(kr_me, site->scope);
    if (wants && kineto_enabled(site->kind))
        record_operator_general(f, site, info, wants, place);
}

/* ---- outputs --------------------------------------------------------------------------------- */

/* A record of args by name: "Outputs", a part of its own kind. */
static uint64_t *write_outputs_part(kr_cursor *c, uint64_t *at, const kineto_input *outputs,
                                    uint32_t count, uint32_t wants)
{
    const uint64_t *limit = kr_record_limit(c, at);
    if (!kr_fits(at, limit, 4))
        return NULL;
    at[1] = kr_ticks(c);
    uint64_t *end = kr_inputs_write(at + 3, limit, outputs, count, wants);
    if (end)
        at[2] = kf_function_word(KF_FUNCTION_INPUTS | KF_FUNCTION_IDS |
                                     (wants & KF_WANT_VALUES ? KF_FUNCTION_VALUES : 0),
                                 count, (uint32_t)(end - at - 2), 0);
    return end;
}

void kr_function_outputs(const kineto_function *f, const kineto_input *outputs, size_t count)
{
    kr_cursor *c = kr_cursor_enter();
    if (!c)
        return;
    uint32_t wants = wanted_parts(c, f->site->scope),
             n = (uint32_t)KB_MIN(count, (size_t)KF_MAX_INPUTS);
    uint32_t depth = f->range & (KR_RANGE_SIGNAL - 1);
    bool ours = depth != 0 && depth <= c->depth && !(f->range & KR_RANGE_SIGNAL) == !c->is_second;
    if (ours && (wants & KF_WANT_IDS) && kr_room(c, 5)) {
        uint64_t *end = write_outputs_part(c, c->at, outputs, n, wants);
        if (!end) {
            kr_undo(c);
            if (kr_room_for_longest(c))
                end = write_outputs_part(c, c->at, outputs, n, wants);
        }
        if (end)
            kr_commit(c, c->at, kf_header(KF_OUTPUTS, (uint32_t)(end - c->at), depth - 1, 0),
                      (uint32_t)(end - c->at));
        else if (c->at)
            kr_undo(c);
    }
    kr_leave(c);
}

/* ---- the calls ------------------------------------------------------------------------------- */

KB_INLINE void init_function(kineto_function *f, kineto_site *site)
{
    f->range = 0;
    f->id = 0;
    f->site = site;
}

/* `caller`: where the program called kineto_function_record_begin. That function calls this one or jumps
 * to it, as the compiler chooses, so that its own frame cannot be passed on. */
static KB_NOINLINE void start_function_slow(kineto_function *f, kineto_site *site,
                                            const kineto_input *inputs, size_t count,
                                            const void *caller)
{
    kr_place place = {__builtin_frame_address(0), caller};
    kineto_function_info info;
    kineto_function_info_init(&info);
    info.inputs = inputs;
    info.input_count = (uint32_t)KB_MIN(count, (size_t)UINT32_MAX);
    if (kb_load_relaxed(&kineto_function_watchers))
        kr_callbacks_begin(f, site, &info, &place);
    else
        kr_function_record(f, site, &info, &place);
}

/* Record a frequent operator. False: it needs the general path; `f` is initialised. */
KB_INLINE bool start_function_fast(kineto_function *f, kineto_site *site, const few_parts *few)
{
    kr_cursor *c = kr_me;
    const kf_control *control = kb_load_acquire(&kr_pool.control);
    init_function(f, site);
    uint32_t wants = control ? (uint32_t)kb_load_relaxed(&control->wants) : 0;
    uint32_t must = KF_WANT_SCOPE(site->scope & 15u) | (c->joined ? 0 : KF_WANT_ALL_THREADS);
    if (KINETO_UNLIKELY((wants & (must | KF_WANT_SLOW)) != must || c->busy || !c->functions_fast ||
                        kb_load_relaxed(&kineto_function_watchers)))
        return false;
    kr_enter(c); /* a signal handler must not get the same one */
    f->id = kr_function_id(c);
    kr_leave(c);
    if (KINETO_LIKELY(wants & KF_WANT_CORRELATION) && kineto__heard())
        push_operator_id(f, site, wants);
    kr_enter(c);
    kineto_range range = begin_operator_fast(c, site, f->id, few, wants);
    kr_leave(c);
    f->range = range;
    if (KINETO_LIKELY(range))
        f->state |= KR_FUNCTION_RECORDED;
    return range != 0;
}

void kineto_function_record_begin(kineto_function *f, kineto_site *site, const kineto_input *inputs,
                           size_t count)
{
    few_parts few = {inputs, count, -1, 0};
    if (KINETO_UNLIKELY(!start_function_fast(f, site, &few)))
        start_function_slow(f, site, inputs, count, KR_CALLER);
}

static KB_NOINLINE void start_function_info_slow(kineto_function *f, kineto_site *site,
                                                 const kineto_function_info *given,
                                                 const void *caller)
{
    kineto_function_info info;
    kineto_function_info_init(&info);
    if (given)
        memcpy(&info, given, KB_MIN(given->size, sizeof info));
    if (info.is_async)
        f->state |= KR_FUNCTION_ASYNC;
    kr_place place = {__builtin_frame_address(0), caller};
    if (KINETO_UNLIKELY(kb_load_relaxed(&kineto_function_watchers)))
        kr_callbacks_begin(f, site, &info, &place);
    else
        kr_function_record(f, site, &info, &place);
    if (f->state == KR_FUNCTION_ASYNC)
        f->state = 0;
}

/* Does the info have nothing but inputs and the place in the graph? A program of another version,
 * with another struct size, uses the general path. */
KB_INLINE bool has_few_parts(const kineto_function_info *info)
{
    return info && info->size == sizeof *info && !info->keyword_count && !info->name &&
           !info->stack && !info->modules && !info->is_async && info->debug_handle == -1;
}

void kineto_function_record_begin_info(kineto_function *f, kineto_site *site,
                                const kineto_function_info *info)
{
    f->state = 0;
    if (KINETO_LIKELY(has_few_parts(info))) {
        few_parts few = {info->inputs, info->input_count, info->sequence_number,
                         info->forward_thread_id};
        if (KINETO_LIKELY(start_function_fast(f, site, &few)))
            return;
    } else {
        init_function(f, site);
    }
    start_function_info_slow(f, site, info, KR_CALLER);
}

_Static_assert(KF_WANT_INPUTS == KINETO_OPERATORS_INPUTS &&
                   KF_WANT_VALUES == KINETO_OPERATORS_VALUES &&
                   KF_WANT_IDS == KINETO_OPERATORS_IDS && KF_WANT_STACK == KINETO_OPERATORS_STACK,
               "what is wanted of operators has the numbers of the interface");

uint32_t kineto_function_wants(void)
{
    const kf_control *control = kb_load_acquire(&kr_pool.control);
    uint32_t wants = control ? (uint32_t)kb_load_relaxed(&control->wants) : 0;
    return wants & (KF_WANT_INPUTS | KF_WANT_VALUES | KF_WANT_IDS | KF_WANT_STACK);
}

static KB_NOINLINE void finish_async_operator(kineto_function *f)
{
    kr_cursor *c = kr_cursor_enter();
    if (!c)
        return;
    uint32_t site_id = kr_site_id(f->site);
    uint64_t *at = kr_room(c, 3);
    if (at) {
        at[1] = kr_ticks(c);
        at[2] = f->id;
        kr_commit(c, at, kf_header(KF_ASYNC_END, 3, 0, site_id), 3);
    }
    kr_leave(c);
}

void kineto_function_record_end(kineto_function *f)
{
    uint32_t state = f->state;
    f->state = 0;
    if (KINETO_UNLIKELY(state & KR_FUNCTION_ASYNC)) {
        if (state & KR_FUNCTION_RECORDED)
            finish_async_operator(f);
    } else if (KINETO_LIKELY(f->range)) {
        if (KINETO_UNLIKELY(state & KR_FUNCTION_COUNTED))
            kr_counters_end(f);
        else
            kr_range_end(f->range);
    }
    if (state & KR_FUNCTION_PUSHED)
        kr_listen_pop(state & KR_FUNCTION_USER ? KINETO_CORRELATION_USER : KINETO_CORRELATION,
                      f->pushed_at);
    if (KINETO_UNLIKELY(state & KR_FUNCTION_CALLS))
        kr_callbacks_end(f);
}
