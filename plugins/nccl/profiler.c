/* The plug-in interface of ckineto: one session at a time. Threads of NCCL may be anywhere, so that the builder is entered
 * and left by count, and stop waits until no thread is inside. */
#include "nccl.h"

#include "../common/profiler.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <time.h>

/* The kind of the rows below communicators: "nccl", of our own, which is recorded by default; of a host without such kinds
 * the one that is like it. */
static int32_t rows_type = KINETO_PLUGIN_PROFILE_EVENT_TYPE_COLLECTIVE_COMM;
#define ROWS_BIT 63

struct KinetoPlugin_ProfilerHandle {
    atomic_bool is_created;
    bool is_live;
    uint64_t types; /* bit per enabled type */
    nc_options options;
};

static KinetoPlugin_ProfilerHandle profiler;
static atomic_bool is_registered;
static atomic_uint session_number; /* of the last session, from 1 */
static atomic_uint live_session;   /* 0: none records */
static atomic_int live_mask;
static atomic_uint_fast64_t live_types;
static _Atomic(const KinetoPlugin_TraceBuilder *) live_builder;
static atomic_uint builder_users;
static char reason[NC_TEXT_BYTES]; /* why the last call failed */

/* ---- what others ask -------------------------------------------------------------------------- */

uint32_t nc_session(void) { return atomic_load_explicit(&live_session, memory_order_acquire); }
int nc_session_mask(void) { return atomic_load_explicit(&live_mask, memory_order_relaxed); }
bool nc_session_wants(int32_t type) { return nc_get(&live_types) >> type & 1; }
bool nc_session_wants_rows(void) { return nc_get(&live_types) >> ROWS_BIT & 1; }
int32_t nc_rows_type(void) { return rows_type; }

const KinetoPlugin_TraceBuilder *nc_builder_enter(void)
{
    if (!atomic_load_explicit(&live_builder, memory_order_relaxed))
        return NULL;
    atomic_fetch_add(&builder_users, 1);
    const KinetoPlugin_TraceBuilder *builder = atomic_load(&live_builder);
    if (!builder)
        atomic_fetch_sub(&builder_users, 1);
    return builder;
}

void nc_builder_leave(void) { atomic_fetch_sub_explicit(&builder_users, 1, memory_order_release); }

/* Of a clock that cannot be set. */
static int64_t now_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Nothing blocks inside, but a thread may be descheduled: after a second it is given up. */
static void wait_for_users(void)
{
    int64_t limit = now_ms() + 1000;
    while (atomic_load(&builder_users) && now_ms() < limit)
        sched_yield();
}

/* ---- the ledger ------------------------------------------------------------------------------- */

static const struct {
    bool is_loss;
    const char *reason, *detail;
} tally_texts[NC_TALLY_COUNT] = {
#define NC_X(name, is_loss, reason, detail) [NC_TALLY_##name] = {is_loss, reason, detail},
    NC_TALLY_MAP(NC_X)
#undef NC_X
};
static atomic_uint_fast64_t tallies[NC_TALLY_COUNT];

NC_COLD void nc_count(nc_tally what) { atomic_fetch_add_explicit(&tallies[what], 1, memory_order_relaxed); }

static void report_tallies(const KinetoPlugin_TraceBuilder *builder)
{
    KinetoPlugin_Counts counts = {.unpaddedStructSize = KINETO_PLUGIN_SIZE(KinetoPlugin_Counts, dropped),
                                  .requested = nc_slots_take_emitted() + nc_launches_take_emitted()};
    for (size_t i = 0; i < NC_TALLY_COUNT; i++) {
        uint64_t n = atomic_exchange(&tallies[i], 0);
        counts.requested += tally_texts[i].is_loss ? n : 0;
        counts.dropped += tally_texts[i].is_loss ? n : 0;
        if (n && KINETO_PLUGIN_HAS(builder, KinetoPlugin_TraceBuilder, addLedgerLine))
            (void)builder->addLedgerLine(builder->pTraceBuilderHandle, tally_texts[i].reason, n, 0,
                                         tally_texts[i].detail); /* losses are in the counts */
    }
    if (counts.requested)
        (void)builder->addCounts(builder->pTraceBuilderHandle, &counts);
}

/* ---- the session ------------------------------------------------------------------------------ */

/* The events of NCCL that the kinds and options need. Collectives are always counted. */
static int choose_mask(uint64_t types, const nc_options *o)
{
    int mask = NC_COLL;
    if (types >> KINETO_PLUGIN_PROFILE_EVENT_TYPE_RUNTIME & 1)
        mask |= NC_GROUP_API | NC_COLL_API | NC_P2P_API;
    if (types >> KINETO_PLUGIN_PROFILE_EVENT_TYPE_USER_ANNOTATION & 1)
        mask |= NC_GROUP_API | NC_KERNEL_LAUNCH | NC_P2P | NC_GROUP;
    if (types >> ROWS_BIT & 1)
        mask |= NC_P2P | NC_GROUP | (o->channels ? NC_KERNEL_CH : 0) |
                (o->copies ? NC_CE_COLL | NC_CE_SYNC | NC_CE_BATCH : 0) | (o->proxy ? NC_PROXY_OP | NC_PROXY_CTRL : 0) |
                (o->steps ? NC_PROXY_OP | NC_PROXY_STEP : 0) | (o->net ? NC_NET_PLUGIN : 0);
    return mask;
}

/* Options and kinds are there before the session's number lets threads use them. */
static void begin_recording(void)
{
    nc_set(&live_types, profiler.types);
    atomic_store(&live_mask, choose_mask(profiler.types, &profiler.options));
    atomic_store_explicit(&live_session, atomic_load(&session_number), memory_order_release);
    nc_masks_update();
}

/* First NCCL is asked for less, then events in flight see that nothing records. */
static void end_recording(void)
{
    nc_events_flush();
    atomic_store(&live_session, 0);
    nc_masks_update();
}

/* The builder is there before NCCL is asked for events. */
static void start_session(const KinetoPlugin_TraceBuilder *builder)
{
    if (atomic_fetch_add(&session_number, 1) + 1 == 0)
        atomic_store(&session_number, 1);
    (void)nc_slots_take_emitted();
    (void)nc_launches_take_emitted();
    atomic_store(&live_builder, builder);
    begin_recording();
    profiler.is_live = true;
}

/* Has no effect without a session. */
static void end_session(void)
{
    const KinetoPlugin_TraceBuilder *builder = atomic_load(&live_builder);
    if (!profiler.is_live)
        return;
    profiler.is_live = false;
    end_recording();
    wait_for_users();
    report_tallies(builder);
    atomic_store(&live_builder, NULL);
    wait_for_users();
}

/* ---- the interface ---------------------------------------------------------------------------- */

#define IS_OURS(params, Type, last) (PLUGIN_IS_WHOLE(params, Type, last) && (params)->pProfilerHandle == &profiler)

static int fail_with(const char *text)
{
    (void)snprintf(reason, sizeof reason, "%s", text);
    return -1;
}

/* Types that plug-ins have announced have no bit in plugin_types_wanted. */
static uint64_t read_types(const KinetoPlugin_ProfilerCreate_Params *params)
{
    uint64_t types = plugin_types_wanted(params) & ~(UINT64_C(1) << ROWS_BIT);
    if (!KINETO_PLUGIN_HAS(params, KinetoPlugin_ProfilerCreate_Params, enabledActivityTypesMaxLen))
        return UINT64_MAX;
    for (size_t i = 0; i < params->enabledActivityTypesMaxLen; i++)
        if (params->pEnabledActivityTypes[i] == rows_type)
            types |= UINT64_C(1) << ROWS_BIT;
    return types;
}

/* One session at a time; several hosts may try. */
static int create_session(KinetoPlugin_ProfilerCreate_Params *params)
{
    bool is_free = false;
    if (!PLUGIN_IS_WHOLE(params, KinetoPlugin_ProfilerCreate_Params, pProfilerHandle))
        return fail_with("the host's parameters are too short");
    if (!atomic_compare_exchange_strong(&profiler.is_created, &is_free, true))
        return fail_with("another session records NCCL already");
    bool has_text = KINETO_PLUGIN_HAS(params, KinetoPlugin_ProfilerCreate_Params, pCustomConfig);
    if (!nc_options_read(has_text ? params->pCustomConfig : NULL, &profiler.options, reason)) {
        atomic_store(&profiler.is_created, false);
        return -1;
    }
    profiler.types = read_types(params);
    params->pProfilerHandle = &profiler;
    return 0;
}

static int destroy_session(KinetoPlugin_ProfilerDestroy_Params *params)
{
    if (!IS_OURS(params, KinetoPlugin_ProfilerDestroy_Params, pProfilerHandle))
        return -1;
    end_session();
    atomic_store(&profiler.is_created, false);
    return 0;
}

static int query_nccl(KinetoPlugin_ProfilerQuery_Params *params)
{
    const int32_t types[] = {KINETO_PLUGIN_PROFILE_EVENT_TYPE_RUNTIME, KINETO_PLUGIN_PROFILE_EVENT_TYPE_USER_ANNOTATION,
                             rows_type};
    return plugin_query(params, "NCCL", "nccl", types, NC_COUNT(types));
}

static int start_nccl(KinetoPlugin_ProfilerStart_Params *params)
{
    const KinetoPlugin_TraceBuilder *builder = plugin_live_builder(params);
    if (!IS_OURS(params, KinetoPlugin_ProfilerStart_Params, pProfilerHandle) || profiler.is_live)
        return fail_with("start without create");
    if (!builder || !KINETO_PLUGIN_HAS(builder, KinetoPlugin_TraceBuilder, registerMetadataSet))
        return fail_with("the host is too old: it has no live delivery");
    start_session(builder);
    return 0;
}

static int stop_nccl(KinetoPlugin_ProfilerStop_Params *params)
{
    if (!IS_OURS(params, KinetoPlugin_ProfilerStop_Params, pProfilerHandle) || !profiler.is_live)
        return fail_with("stop without start");
    end_session();
    return 0;
}

/* Events are delivered as they end: there is nothing more. */
static int process_nccl_events(KinetoPlugin_ProfilerProcessEvents_Params *params)
{
    return IS_OURS(params, KinetoPlugin_ProfilerProcessEvents_Params, pTraceBuilder) ? 0 : -1;
}

/* A pause ends open events as the end of a session does. */
static int toggle_nccl(KinetoPlugin_ProfilerToggleCollection_Params *params)
{
    if (!IS_OURS(params, KinetoPlugin_ProfilerToggleCollection_Params, enable) || !profiler.is_live)
        return -1;
    if (params->enable && !nc_session())
        begin_recording();
    else if (!params->enable && nc_session())
        end_recording();
    return 0;
}

static int write_error(KinetoPlugin_ProfilerErrorText_Params *params)
{
    if (!PLUGIN_IS_WHOLE(params, KinetoPlugin_ProfilerErrorText_Params, textMaxLen) || !params->pText)
        return -1;
    (void)snprintf(params->pText, params->textMaxLen + 1, "%s", reason);
    return 0;
}

static const KinetoPlugin_ProfilerInterface nccl_interface = {
    .unpaddedStructSize = KINETO_PLUGIN_SIZE(KinetoPlugin_ProfilerInterface, profilerErrorText),
    .profilerCreate = create_session,
    .profilerDestroy = destroy_session,
    .profilerQuery = query_nccl,
    .profilerStart = start_nccl,
    .profilerStop = stop_nccl,
    .profilerProcessEvents = process_nccl_events,
    .profilerToggleCollection = toggle_nccl,
    .profilerErrorText = write_error,
};

NC_EXPORT int KinetoPlugin_register(const KinetoPlugin_Registry *registry);

/* Before the profiler is registered, since query names the kind. */
static void announce_kind(const KinetoPlugin_Registry *registry)
{
    KinetoPlugin_ActivityTypeInfo kind = {"nccl", KINETO_PLUGIN_PROFILE_EVENT_TYPE_COLLECTIVE_COMM, 1};
    KinetoPlugin_RegisterActivityTypes_Params params = {
        .unpaddedStructSize = KINETO_PLUGIN_SIZE(KinetoPlugin_RegisterActivityTypes_Params, firstEventType),
        .pTypes = &kind,
        .count = 1};
    if (KINETO_PLUGIN_HAS(registry, KinetoPlugin_Registry, registerActivityTypes) &&
        registry->registerActivityTypes(registry->pRegistryHandle, &params) == 0)
        rows_type = params.firstEventType;
}

/* Called when NCCL makes its first communicator, or by a host that loads plug-ins; the first one registers. */
int KinetoPlugin_register(const KinetoPlugin_Registry *registry)
{
    return plugin_register_once(registry, &nccl_interface, &is_registered, announce_kind);
}

/* Threads that held a lock, or were inside the builder, do not exist in the child. */
static void reset_in_child(void)
{
    atomic_store(&builder_users, 0);
    for (size_t i = 0; i < NC_TALLY_COUNT; i++)
        atomic_store(&tallies[i], 0);
    nc_comms_after_fork();
    nc_clocks_after_fork();
    nc_values_after_fork();
}

static void set_fork_handler(void) { (void)pthread_atfork(NULL, NULL, reset_in_child); }

void nc_profiler_register(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    const KinetoPlugin_Registry *registry = kineto_plugin_registry();
    (void)pthread_once(&once, set_fork_handler);
    if (registry && !atomic_load(&is_registered))
        (void)KinetoPlugin_register(registry);
}
