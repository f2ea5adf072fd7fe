/* Configurations of profilers: PyTorch's numbers and names, copies that own their texts, and the
 * session that each config requests. The names and numbers are those of
 * torch/csrc/profiler/orchestration/observer.h and c10/core; tests/pytorch_index compares them. */
#include "profiler/profiler.h"

/* The numbers are PyTorch's; programs store them. */
_Static_assert(KINETO_STATE_KINETO == 6 && KINETO_STATE_KINETO_ONDEMAND == 9 &&
                   KINETO_STATE_KINETO_PRIVATEUSE1 == 10 && KINETO_NUM_PROFILER_STATES == 11,
               "states");
_Static_assert(KINETO_ACTIVE_PRIVATEUSE1 == 5 && KINETO_NUM_ACTIVE_PROFILERS == 6, "active");
_Static_assert(KINETO_ACTIVITY_TYPE_PRIVATEUSE1 == 5 && KINETO_NUM_ACTIVITY_TYPES == 6, "types");
_Static_assert(KINETO_SCOPE_STATIC_RUNTIME_MODEL == 9 && KINETO_NUM_SCOPES == 10, "scopes");

const char *kineto_activity_type_name(kineto_activity_type type)
{
    static const char *const names[] = {"CPU", "XPU", "CUDA", "HPU", "MTIA", "PrivateUse1"};
    return (uint32_t)type < KB_COUNT(names) ? names[type] : "unknown";
}

const char *kineto_profiler_state_name(kineto_profiler_state state)
{
    static const char *const names[] = {
#define KINETO_X(name, value) [value] = #name,
        KINETO_STATE_MAP(KINETO_X)
#undef KINETO_X
    };
    return (uint32_t)state < KB_COUNT(names) ? names[state] : "unknown";
}

/* ---- activities ------------------------------------------------------------------------------ */

#define BIT(kind)  KINETO_KIND_BIT(KINETO_KIND_##kind)
#define DEVICE_OWN KINETO_KIND_BIT(KINETO_KIND_OWN_DEFAULT)

/* The kinds of activities that Kineto records for each of PyTorch's activity types. */
uint64_t kineto_activity_kinds(uint32_t activities)
{
    static const uint64_t kinds[KINETO_NUM_ACTIVITY_TYPES] = {
        [KINETO_ACTIVITY_TYPE_CPU] = BIT(CPU_OP) | BIT(CPU_INSTANT_EVENT) | BIT(USER_ANNOTATION) |
                                     BIT(EXTERNAL_CORRELATION) | BIT(RUNTIME) | BIT(DRIVER) |
                                     BIT(PYTHON_FUNCTION) | BIT(COUNTER),
        [KINETO_ACTIVITY_TYPE_XPU] = BIT(GPU_MEMCPY) | BIT(GPU_MEMSET) | BIT(CONCURRENT_KERNEL) |
                                     BIT(RUNTIME) | BIT(DRIVER) | DEVICE_OWN,
        [KINETO_ACTIVITY_TYPE_CUDA] = BIT(GPU_MEMCPY) | BIT(GPU_MEMSET) | BIT(GPU_USER_ANNOTATION) |
                                      BIT(CONCURRENT_KERNEL) | BIT(RUNTIME) | BIT(DRIVER) |
                                      BIT(OVERHEAD) | DEVICE_OWN,
        [KINETO_ACTIVITY_TYPE_HPU] =
            BIT(GPU_MEMCPY) | BIT(GPU_MEMSET) | BIT(CONCURRENT_KERNEL) | BIT(RUNTIME) | DEVICE_OWN,
        [KINETO_ACTIVITY_TYPE_MTIA] = BIT(CONCURRENT_KERNEL) | BIT(RUNTIME) | BIT(MTIA_INSIGHT) |
                                      BIT(GPU_PM_COUNTER) | DEVICE_OWN,
        [KINETO_ACTIVITY_TYPE_PRIVATEUSE1] = BIT(GPU_MEMCPY) | BIT(GPU_MEMSET) |
                                             BIT(GPU_USER_ANNOTATION) | BIT(CONCURRENT_KERNEL) |
                                             BIT(RUNTIME) | BIT(DRIVER) | DEVICE_OWN,
    };
    uint64_t mask = 0;
    for (uint32_t i = 0; i < KINETO_NUM_ACTIVITY_TYPES; i++)
        mask |= activities >> i & 1 ? kinds[i] : 0;
    return mask;
}

/* ---- configs --------------------------------------------------------------------------------- */

bool kineto_profiler_config_disabled(const kineto_profiler_config *config)
{
    return config && config->state == KINETO_STATE_DISABLED;
}

bool kineto_profiler_config_global(const kineto_profiler_config *config)
{
    return config && config->state == KINETO_STATE_KINETO_ONDEMAND;
}

bool kineto_profiler_config_push_global_callbacks(const kineto_profiler_config *config)
{
    return config && (kineto_profiler_config_global(config) ||
                      config->experimental.profile_all_threads);
}

bool kineto_experimental_config_is_set(const kineto_experimental_config *config)
{
    return config && config->profiler_metric_count != 0;
}

void kineto_profiler_config_to_values(const kineto_profiler_config *config,
                                      int64_t values[KINETO_CONFIG_VALUES])
{
    if (!config || !values)
        return;
    values[0] = config->state;
    values[1] = config->report_input_shapes;
    values[2] = config->profile_memory;
}

kineto_status kineto_profiler_config_from_values(const int64_t *values, size_t count,
                                                 kineto_profiler_config *config, kineto_error *err)
{
    kineto_profiler_config all;
    if (!values || !config)
        return kb_fail_null(err, __func__, "values, config", values, config);
    if (count != KINETO_CONFIG_VALUES)
        return kb_fail(err, KINETO_E_ARGUMENT, "profiler config: %d values are expected, not %zu",
                       KINETO_CONFIG_VALUES, count);
    if (values[0] < 0 || values[0] >= KINETO_NUM_PROFILER_STATES)
        return kb_fail(err, KINETO_E_ARGUMENT, "profiler config: unknown state %lld",
                       (long long)values[0]);
    if (config->size < sizeof config->size)
        return kb_fail(err, KINETO_E_ARGUMENT,
                       "profiler config: its size is not set; begin with "
                       "kineto_profiler_config_init");
    kineto_profiler_config_init(&all, (kineto_profiler_state)values[0]);
    all.report_input_shapes = values[1] != 0;
    all.profile_memory = values[2] != 0;
    kp_config_write(&all, config);
    return KINETO_OK;
}

void kp_config_write(const kineto_profiler_config *all, kineto_profiler_config *out)
{
    size_t size = out->size;
    memcpy(out, all, KB_MIN(size, sizeof *out));
    out->size = size;
}

/* Replaces a borrowed text by a copy in the arena. False: out of memory. */
static bool copy_config_text(kp_config *c, const char **text)
{
    if (!*text)
        return true;
    *text = kb_arena_copy(&c->arena, *text, strlen(*text) + 1);
    return *text != NULL;
}

/* The same for a list of texts. The copy has one entry more than `count`, so that it is never
 * empty. */
static bool copy_config_texts(kp_config *c, const char *const **list, size_t count)
{
    const char **copy = kb_arena_alloc(&c->arena, (count + 1) * sizeof *copy, sizeof *copy);
    if (!copy)
        return false;
    for (size_t i = 0; i < count; i++) {
        copy[i] = (*list)[i];
        if (!copy_config_text(c, &copy[i]))
            return false;
    }
    *list = copy;
    return true;
}

/* Metrics or counters in one config. */
#define KP_MAX_NAMES 256u

/* True if the list has `count` names, none of them NULL, and not too many. */
static bool are_valid_names(const char *const *list, size_t count)
{
    if (count > KP_MAX_NAMES || (count && !list))
        return false;
    for (size_t i = 0; i < count; i++)
        if (!list[i])
            return false;
    return true;
}

/* Checks of a copied config that do not depend on the request. */
static kineto_status check_profiler_config(const kineto_profiler_config *c, kineto_error *err)
{
    const kineto_experimental_config *x = &c->experimental;
    if (c->state >= KINETO_NUM_PROFILER_STATES)
        return kb_fail(err, KINETO_E_ARGUMENT, "profiler config: unknown state %u", c->state);
    if (!are_valid_names(x->profiler_metrics, x->profiler_metric_count) ||
        !are_valid_names(x->performance_events, x->performance_event_count))
        return kb_fail(err, KINETO_E_ARGUMENT,
                       "profiler config: a list of names is NULL, has a NULL name, or has "
                       "more than %u",
                       KP_MAX_NAMES);
    if (x->adjust_timestamps)
        return kb_fail(err, KINETO_E_UNSUPPORTED,
                       "profiler config: adjust_timestamps is not supported: it is for Vulkan's "
                       "times, which this library does not record");
    return KINETO_OK;
}

kineto_status kp_config_copy(const kineto_profiler_config *from, kp_config *out, kineto_error *err)
{
    memset(out, 0, sizeof *out);
    kineto_profiler_config_init(&out->values, KINETO_STATE_DISABLED);
    if (!from)
        return kb_fail(err, KINETO_E_ARGUMENT,
                       "profiler config: fill it with kineto_profiler_config_init");
    kineto_profiler_config *v = &out->values;
    kineto_status status = kb_options_read(v, sizeof *v, from,
                                           "profiler config, see kineto_profiler_config_init", err);
    if (!status)
        status = check_profiler_config(v, err);
    if (status)
        return status;
    kineto_experimental_config *x = &v->experimental;
    if (copy_config_text(out, &v->trace_id) && copy_config_text(out, &x->custom_profiler_config) &&
        copy_config_texts(out, &x->profiler_metrics, x->profiler_metric_count) &&
        copy_config_texts(out, &x->performance_events, x->performance_event_count))
        return KINETO_OK;
    kp_config_free(out);
    return kb_fail_memory(err, NULL);
}

void kp_config_free(kp_config *config)
{
    kb_arena_free(&config->arena);
    kineto_profiler_config_init(&config->values, KINETO_STATE_DISABLED);
}

/* ---- states ---------------------------------------------------------------------------------- */

bool kp_state_records(uint32_t state)
{
    return state == KINETO_STATE_CPU || state == KINETO_STATE_CUDA ||
           (state >= KINETO_STATE_KINETO && state < KINETO_NUM_PROFILER_STATES);
}

kineto_active_profiler kp_state_active(uint32_t state)
{
    switch (state) {
    case KINETO_STATE_DISABLED:
        return KINETO_ACTIVE_NONE;
    case KINETO_STATE_CPU:
    case KINETO_STATE_CUDA:
        return KINETO_ACTIVE_LEGACY;
    case KINETO_STATE_NVTX:
        return KINETO_ACTIVE_NVTX;
    case KINETO_STATE_ITT:
        return KINETO_ACTIVE_ITT;
    case KINETO_STATE_PRIVATEUSE1:
        return KINETO_ACTIVE_PRIVATEUSE1;
    default:
        return KINETO_ACTIVE_KINETO;
    }
}

/* ---- settings of the process ----------------------------------------------------------------- */

/* Atomic. The names say what a value other than 0 means, so that 0 is PyTorch's default. */
static uint32_t no_concrete_inputs, no_fwd_bwd, cuda_waits, tensor_ids;

#define SWITCH(name, variable, on)                                                                 \
    void kineto_profiler_set_##name(bool value) { kb_store_relaxed(&variable, value == (on)); }    \
    bool kineto_profiler_get_##name(void) { return (kb_load_relaxed(&variable) != 0) == (on); }
SWITCH(record_concrete_inputs, no_concrete_inputs, false)
SWITCH(fwd_bwd, no_fwd_bwd, false)
SWITCH(cuda_sync, cuda_waits, true)
SWITCH(record_tensor_ids, tensor_ids, true)
#undef SWITCH

/* ---- options of the session ------------------------------------------------------------------ */

/* The mask of kinds to record. The legacy states CPU and CUDA stand for fixed activities. Waits of
 * the device cost much, so CUDA's are only recorded on request. */
static uint64_t kinds_of_config(const kineto_profiler_config *c, uint32_t activities)
{
    const kineto_experimental_config *x = &c->experimental;
    const char *collective = kb_setting("TORCH_PROFILER_ENABLE_COLLECTIVE_PROFILING");
    if (c->state == KINETO_STATE_CPU)
        activities = KINETO_ACTIVITY_SET(CPU);
    if (c->state == KINETO_STATE_CUDA)
        activities = KINETO_ACTIVITY_SET(CPU) | KINETO_ACTIVITY_SET(CUDA);
    KB_ASSERT(!(activities >> KINETO_NUM_ACTIVITY_TYPES));
    uint64_t kinds = kineto_activity_kinds(activities);
    if (x->enable_cuda_sync_events || kineto_profiler_get_cuda_sync())
        kinds |= activities & KINETO_ACTIVITY_SET(CUDA) ? BIT(CUDA_SYNC) | BIT(CUDA_EVENT) : 0;
    if (collective && strcmp(collective, "1") == 0)
        kinds |= BIT(COLLECTIVE_COMM);
    if (kineto_experimental_config_is_set(x))
        kinds |= BIT(CUDA_PROFILER_RANGE);
    return kinds | (c->profile_memory ? BIT(MEMORY) : 0);
}

/* The details of operators to record, KINETO_OPERATORS_… bits. FLOPs are computed from shapes, ids
 * imply inputs, and texts are only sent to plug-ins if something needs them. */
static uint32_t operators_of_config(const kineto_profiler_config *c)
{
    bool shapes = c->report_input_shapes || c->with_flops;
    uint32_t o = shapes ? KINETO_OPERATORS_INPUTS : 0;
    if (shapes && kineto_profiler_get_record_concrete_inputs())
        o |= KINETO_OPERATORS_VALUES;
    if (c->record_tensor_ids || kineto_profiler_get_record_tensor_ids())
        o |= KINETO_OPERATORS_INPUTS | KINETO_OPERATORS_IDS;
    o |= c->with_stack ? KINETO_OPERATORS_STACK : 0;
    o |= c->with_stack && c->experimental.verbose ? KINETO_OPERATORS_BOTH_STACKS : 0;
    o |= c->with_stack || c->with_modules ? 0 : KINETO_OPERATORS_NO_TEXTS;
    o |= c->experimental.disable_external_correlation ? KINETO_OPERATORS_NO_CORRELATION : 0;
    o |= c->experimental.capture_overload_names ? KINETO_OPERATORS_OVERLOADS : 0;
    return o;
}

void kp_session_options(const kineto_profiler_config *c, uint32_t activities, uint32_t scopes,
                        kineto_session_options *out)
{
    kineto_session_options_init(out);
    out->kinds = kinds_of_config(c, activities);
    out->buffer_bytes = c->buffer_bytes;
    out->retention = c->retention;
    out->threads = kineto_profiler_config_push_global_callbacks(c) ? KINETO_THREADS_ALL
                                                                   : KINETO_THREADS_CALLER;
    out->operators = operators_of_config(c);
    out->scopes = scopes;
}
