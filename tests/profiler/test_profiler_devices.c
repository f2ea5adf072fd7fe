/* Profilers and devices: each group of activities on a device of that vendor, which the software
 * accelerator plays; times by events; the PrivateUse1 backend; profilers on demand. */
#include "unit/unit.h"

#include "base/base.h"

#include "profiler/profiler.h"

#include "profiler/profiling.h"

#include "helpers/plugins.h"

#include <ckineto/stubs.h>
#include <sim.h>

/* ---- the software accelerator, as if it were of another vendor --------------------------------------- */

int KinetoPlugin_register(const KinetoPlugin_Registry *registry);

static const char *vendor;
static KinetoPlugin_ProfilerInterface posing;
static int (*query_of_sim)(KinetoPlugin_ProfilerQuery_Params *);

static int query_posing(KinetoPlugin_ProfilerQuery_Params *p)
{
    int result = query_of_sim(p);
    (void)snprintf(p->pVendorName, p->vendorNameMaxLen + 1, "%s", vendor);
    return result;
}

static int register_posing(KinetoPlugin_RegistryHandle *h,
                           const KinetoPlugin_ProfilerInterface *profiler)
{
    posing = *profiler;
    query_of_sim = posing.profilerQuery;
    posing.profilerQuery = query_posing;
    return kineto_plugin_registry()->registerProfiler(h, &posing);
}

static void enter_sim_as(const char *name)
{
    KinetoPlugin_Registry r = *kineto_plugin_registry();
    r.registerProfiler = register_posing;
    vendor = name;
    assert_int_equal(KinetoPlugin_register(&r), 0);
}

static void leave_sim(void) { assert_int_equal(kineto_plugin_unregister(&posing), 0); }

static char from[64], to[64];

static uint64_t launch_and_copy(void)
{
    kineto_function f;
    KINETO_OPERATOR(site, "aten::on_device");
    kineto_function_begin(&f, &site, NULL, 0);
    uint64_t id = kineto_function_id(&f);
    assert_int_equal(sim_launch(SIM_COMPUTE_0, "gemm", 4, NULL, NULL), 0);
    assert_int_equal(sim_copy(SIM_COPIES, to, from, sizeof from), 0);
    kineto_function_end(&f);
    sim_synchronize(SIM_COMPUTE_0);
    sim_synchronize(SIM_COPIES);
    return id;
}

static const struct group {
    kineto_activity_type type;
    const char *vendor, *calls; /* how its calls are spelled */
    bool copies;
    uint32_t device_type;
} groups[] = {
    {KINETO_ACTIVITY_TYPE_XPU, "xpu", "xpu_runtime", true, KINETO_DEVICE_XPU},
    {KINETO_ACTIVITY_TYPE_CUDA, "cuda", "cuda_runtime", true, KINETO_DEVICE_CUDA},
    {KINETO_ACTIVITY_TYPE_HPU, "hpu", "runtime", true, KINETO_DEVICE_CUDA}, /* no name of its own */
    {KINETO_ACTIVITY_TYPE_MTIA, "mtia", "mtia_runtime", false, KINETO_DEVICE_MTIA},
    {KINETO_ACTIVITY_TYPE_PRIVATEUSE1, "privateuse1", "privateuse1_runtime", true,
     KINETO_DEVICE_PRIVATEUSE1},
};

static void check_group(const struct group *g, const kineto_profiler_result *r, uint64_t id)
{
    const kineto_trace *t = trace_of(r);
    kineto_event kernel = event_named(r, "gemm"), call = event_named(r, "simLaunch");
    assert_int_equal(kineto_event_activity_type(&kernel), KINETO_KIND_CONCURRENT_KERNEL);
    assert_int_equal(kineto_event_linked_correlation_id(&kernel), id);
    assert_int_equal(kineto_event_device_type(&kernel), g->device_type);
    assert_int_equal(kineto_event_device_type(&call), KINETO_DEVICE_CPU);
    assert_text(kineto_trace_string(t, call.activity.category), g->calls);
    assert_int_equal(kineto_profiler_result_tree_parent(r, kernel.row), call.row);
    kineto_event op = event_named(r, "aten::on_device");
    assert_int_equal(kineto_profiler_result_tree_parent(r, call.row), op.row);
    assert_int_equal(kineto_event_flow_id(&kernel), kineto_event_flow_id(&call));
    assert_int_equal(events_named(r, "Memcpy"), g->copies);
    assert_nothing_lost(t);
}

static void each_group_enables_its_kinds_on_its_device(void **state)
{
    (void)state;
    kineto_profiler_config c = config_of(KINETO_STATE_KINETO);
    for (size_t i = 0; i < COUNT_OF(groups); i++) {
        enter_sim_as(groups[i].vendor);
        enable_with(&c, ONLY(CPU) | 1u << groups[i].type);
        uint64_t id = launch_and_copy();
        kineto_profiler_result *r = disabled();
        check_group(&groups[i], r, id);
        kineto_profiler_result_release(r);
        leave_sim();
    }
}

/* Of the host alone: calls of runtimes are the host's, kernels are not. */
static void without_a_group_its_kernels_are_not_recorded(void **state)
{
    (void)state;
    enter_sim_as("cuda");
    enable_plain();
    (void)launch_and_copy();
    kineto_profiler_result *r = disabled();
    assert_int_equal(events_named(r, "gemm"), 0);
    assert_int_equal(events_named(r, "Memcpy"), 0);
    assert_int_equal(events_named(r, "simLaunch"), 1);
    kineto_profiler_result_release(r);
    kineto_profiler_config c = config_of(KINETO_STATE_CPU);
    enable_with(&c, ONLY(CUDA)); /* the state decides */
    (void)launch_and_copy();
    r = disabled();
    assert_int_equal(events_named(r, "gemm"), 0);
    (void)event_named(r, "aten::on_device");
    kineto_profiler_result_release(r);
    c.state = KINETO_STATE_CUDA;
    enable_with(&c, 0);
    (void)launch_and_copy();
    r = disabled();
    (void)event_named(r, "gemm"), (void)event_named(r, "aten::on_device");
    kineto_profiler_result_release(r);
    leave_sim();
}

static void pauses_reach_the_device(void **state)
{
    (void)state;
    kineto_profiler_config c = config_of(KINETO_STATE_KINETO);
    enter_sim_as("cuda");
    enable_with(&c, ONLY(CPU) | ONLY(CUDA));
    (void)launch_and_copy();
    assert_int_equal(kineto_profiler_pause_collection(true, ONLY(CUDA), NULL), KINETO_OK);
    (void)launch_and_copy();
    assert_int_equal(kineto_profiler_pause_collection(false, ONLY(CUDA), NULL), KINETO_OK);
    (void)launch_and_copy();
    kineto_profiler_result *r = disabled();
    assert_int_equal(events_named(r, "gemm"), 2);
    assert_int_equal(events_named(r, "aten::on_device"), 2);
    assert_nothing_lost(trace_of(r));
    kineto_profiler_result_release(r);
    leave_sim();
}

/* Asked by a plug-in that is being toggled, created, stopped. */
static int asked;
static void ask(fake *f, char letter, const builder *b)
{
    kineto_profiler_config c = {.size = sizeof c};
    (void)f, (void)letter, (void)b;
    asked += kineto_profiler_enabled();
    asked += kineto_profiler_config_get(&c);
}

static void plug_ins_may_ask_for_the_profiler(void **state)
{
    (void)state;
    kineto_profiler_config c = config_of(KINETO_STATE_KINETO);
    fake *f = enter_with(0, "curious", TOGGLES);
    f->at = ask;
    enable_with(&c, ONLY(CPU) | ONLY(CUDA));
    asked = 0;
    for (int on = 0; on < 4; on++)
        assert_int_equal(kineto_profiler_pause_collection(!(on & 1), ONLY(CUDA), NULL),
                         KINETO_OK);
    assert_int_equal(asked, 8);
    kineto_profiler_result_release(disabled());
    assert_non_null(strstr(f->calls, "s-+-+tpd"));
    leave(0);
}

/* A device that fails is a line of the ledger; the host's operators are there. */
static void a_device_that_fails_costs_its_own_events_only(void **state)
{
    (void)state;
    static const char letters[] = "cstp";
    for (const char *at = letters; *at; at++) {
        fake *f = enter_with(0, "broken", SPEAKS);
        f->fails = *at;
        f->why = "the fan is loose";
        kineto_profiler_config c = config_of(KINETO_STATE_KINETO);
        enable_with(&c, ONLY(CPU) | ONLY(CUDA));
        run_op("aten::mm");
        kineto_profiler_result *r = disabled();
        (void)event_named(r, "aten::mm");
        char detail[256] = "";
        bool said = false;
        for (uint32_t i = 0; i < kineto_trace_ledger_count(kineto_profiler_result_trace(r)); i++) {
            kineto_ledger_line l;
            kineto_trace_ledger(kineto_profiler_result_trace(r), i, &l);
            (void)snprintf(detail, sizeof detail, "%.*s", (int)l.detail.size, l.detail.data);
            said |= strstr(detail, "the fan is loose") != NULL;
        }
        if (!said) {
            print_ledger(kineto_profiler_result_trace(r));
            fail_msg("'%c' that failed is not reported", *at);
        }
        kineto_profiler_result_release(r);
        leave(0);
    }
}

/* ---- times by events ------------------------------------------------------------------------------------ */

static struct {
    int64_t now_ns, live;
} clock_of_events;

static kineto_status make_event(void *context, int32_t *number, void **event, int64_t *cpu_ns,
                                kineto_error *err)
{
    (void)context, (void)number, (void)cpu_ns, (void)err;
    int64_t *e = malloc(sizeof *e);
    *e = __atomic_add_fetch(&clock_of_events.now_ns, 5000, __ATOMIC_RELAXED);
    __atomic_add_fetch(&clock_of_events.live, 1, __ATOMIC_RELAXED);
    *event = e;
    return KINETO_OK;
}
static kineto_status between(void *context, void *start, void *end, int64_t *ns, kineto_error *err)
{
    (void)context, (void)err;
    *ns = *(int64_t *)end - *(int64_t *)start;
    return KINETO_OK;
}
static void give_back(void *context, void *event)
{
    (void)context;
    __atomic_sub_fetch(&clock_of_events.live, 1, __ATOMIC_RELAXED);
    free(event);
}

static void register_stubs(kineto_stubs_slot slot)
{
    kineto_stubs s;
    kineto_stubs_init(&s);
    s.record = make_event;
    s.elapsed_ns = between;
    s.release_event = give_back;
    assert_int_equal(kineto_stubs_register(slot, &s, NULL), KINETO_OK);
}

static int64_t elapsed(const kineto_event *e, bool cuda)
{
    return cuda ? kineto_event_cuda_elapsed_us(e) : kineto_event_privateuse1_elapsed_us(e);
}

static void *op_elsewhere(void *unused)
{
    run_op("aten::stranger");
    return unused;
}
static void *op_of_child(void *unused)
{
    assert_int_equal(kineto_profiler_enable_in_child_thread(NULL), KINETO_OK);
    run_op("aten::child");
    return unused;
}

static void fallbacks_time_operators_of_their_threads(void **state)
{
    (void)state;
    static const kineto_profiler_state fallbacks[] = {KINETO_STATE_KINETO_PRIVATEUSE1_FALLBACK,
                                                      KINETO_STATE_KINETO_GPU_FALLBACK};
    for (int cuda = 0; cuda < 2; cuda++) {
        kineto_stubs_slot slot = cuda ? KINETO_STUBS_CUDA : KINETO_STUBS_PRIVATEUSE1;
        kineto_function outer;
        KINETO_OPERATOR(site, "aten::outer");
        register_stubs(slot);
        kineto_profiler_config c = config_of(fallbacks[cuda]);
        enable_with(&c, ONLY(CPU));
        expect(KINETO_E_BUSY, "", kineto_stubs_unregister(slot, &err));
        kineto_function_begin(&outer, &site, NULL, 0);
        run_op("aten::inner");
        kineto_function_end(&outer);
        on_thread(op_elsewhere, NULL); /* makes no event */
        on_thread(op_of_child, NULL);
        assert_int_equal(kineto_profiler_pause_collection(true, ONLY(CPU), NULL),
                         KINETO_OK);
        run_op("aten::paused");
        kineto_profiler_result *r = disabled();
        kineto_event e = event_named(r, "aten::inner");
        assert_int_equal(elapsed(&e, cuda), 5);
        assert_int_equal(elapsed(&e, !cuda), -1);
        e = event_named(r, "aten::outer");
        assert_int_equal(elapsed(&e, cuda), 15);
        e = event_named(r, "aten::child");
        assert_int_equal(elapsed(&e, cuda), 5);
        assert_int_equal(kineto_profiler_result_event_count(r), 3);
        assert_int_equal(clock_of_events.now_ns, 30000);
        assert_int_equal(clock_of_events.live, 0);
        assert_int_equal(kineto_stubs_unregister(slot, NULL), KINETO_E_BUSY); /* of the result */
        kineto_profiler_result_release(r);
        assert_int_equal(kineto_stubs_unregister(slot, NULL), KINETO_OK);
        clock_of_events.now_ns = 0;
    }
}

/* More than there is room for at once. */
static void threads_of_a_fallback_come_and_go(void **state)
{
    (void)state;
    enum { MANY = 1100 };
    kineto_profiler_config c = config_of(KINETO_STATE_KINETO_GPU_FALLBACK);
    uint64_t timed = 0;
    register_stubs(KINETO_STUBS_CUDA);
    enable_with(&c, ONLY(CPU));
    for (int i = 0; i < MANY; i++)
        on_thread(op_of_child, NULL);
    kineto_profiler_result *r = disabled();
    for (uint64_t i = 0; i < kineto_profiler_result_event_count(r); i++) {
        kineto_event e;
        assert_true(kineto_profiler_result_event(r, i, &e));
        timed += kineto_event_cuda_elapsed_us(&e) == 5;
    }
    assert_int_equal(kineto_profiler_result_event_count(r), MANY);
    assert_int_equal(timed, MANY);
    kineto_profiler_result_release(r);
    assert_int_equal(kineto_stubs_unregister(KINETO_STUBS_CUDA, NULL), KINETO_OK);
}

static void *join_in_vain(void *p)
{
    expect(KINETO_E_LIMIT, "1024 threads", kineto_profiler_join(p, &err));
    run_op("aten::child");
    return p;
}

static void who_finds_no_room_in_a_fallback_is_reported_and_not_recorded(void **state)
{
    (void)state;
    kineto_profiler_config c = config_of(KINETO_STATE_KINETO_GPU_FALLBACK);
    kineto_profiler *p = NULL;
    kineto_profiler_result *r = NULL;
    register_stubs(KINETO_STUBS_CUDA);
    assert_int_equal(kineto_profiler_create(&c, ONLY(CPU), 0, &p, NULL), KINETO_OK);
    assert_int_equal(kineto_profiler_start(p, NULL), KINETO_OK);
    while (p->member_count < KP_MEMBERS) /* as if they had joined, and lived */
        p->members[p->member_count++] = UINT64_MAX;
    on_thread(join_in_vain, p);
    run_op("aten::mm");
    assert_int_equal(kineto_profiler_stop(p, &r, NULL), KINETO_OK);
    (void)event_named(r, "aten::mm");
    assert_int_equal(kineto_profiler_result_event_count(r), 1);
    kineto_profiler_result_release(r);
    kineto_profiler_destroy(p);
    assert_int_equal(kineto_stubs_unregister(KINETO_STUBS_CUDA, NULL), KINETO_OK);
}

static void a_fallback_can_be_started_again(void **state)
{
    (void)state;
    kineto_profiler_config c = config_of(KINETO_STATE_KINETO_GPU_FALLBACK);
    kineto_profiler *p = NULL;
    register_stubs(KINETO_STUBS_CUDA);
    assert_int_equal(kineto_profiler_create(&c, ONLY(CPU), 0, &p, NULL), KINETO_OK);
    for (int i = 0; i < 3; i++) {
        kineto_profiler_result *r = NULL;
        assert_int_equal(kineto_profiler_start(p, NULL), KINETO_OK);
        run_op("aten::mm");
        assert_int_equal(kineto_profiler_stop(p, i == 1 ? NULL : &r, NULL), KINETO_OK);
        if (r) {
            kineto_event e = event_named(r, "aten::mm");
            assert_int_equal(kineto_event_cuda_elapsed_us(&e), 5);
        }
        kineto_profiler_result_release(r);
    }
    kineto_profiler_destroy(p);
    assert_int_equal(clock_of_events.live, 0);
    assert_int_equal(kineto_stubs_unregister(KINETO_STUBS_CUDA, NULL), KINETO_OK);
}

static bool device_works;
static bool works(void *context)
{
    (void)context;
    return device_works;
}

static void a_device_that_goes_away_costs_the_next_run_not_the_finished_one(void **state)
{
    (void)state;
    kineto_profiler_config c = config_of(KINETO_STATE_KINETO_GPU_FALLBACK);
    kineto_profiler *p = NULL;
    kineto_profiler_result *r = NULL;
    kineto_stubs s;
    kineto_stubs_init(&s);
    s.record = make_event;
    s.elapsed_ns = between;
    s.release_event = give_back;
    s.enabled = works;
    device_works = true;
    assert_int_equal(kineto_stubs_register(KINETO_STUBS_CUDA, &s, NULL), KINETO_OK);
    assert_int_equal(kineto_profiler_create(&c, ONLY(CPU), 0, &p, NULL), KINETO_OK);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(kineto_profiler_start(p, NULL), KINETO_OK);
        run_op("aten::mm");
        device_works = false;
        assert_int_equal(kineto_profiler_stop(p, &r, NULL), KINETO_OK);
        kineto_event e = event_named(r, "aten::mm");
        assert_int_equal(kineto_event_cuda_elapsed_us(&e), 5);
        kineto_profiler_result_release(r);
        expect(KINETO_E_STATE, "", kineto_profiler_start(p, &err));
        device_works = true;
    }
    kineto_profiler_destroy(p);
    assert_int_equal(clock_of_events.live, 0);
    assert_int_equal(kineto_stubs_unregister(KINETO_STUBS_CUDA, NULL), KINETO_OK);
}

/* ---- PrivateUse1 ----------------------------------------------------------------------------------------- */

static void profile_once(kineto_profiler_state s)
{
    kineto_profiler_config c = config_of(s);
    enable_with(&c, ONLY(CPU) | ONLY(PRIVATEUSE1));
    run_op("aten::mm");
    kineto_profiler_result_release(disabled());
}

static void the_registered_backend_is_let_in_by_its_own_state(void **state)
{
    (void)state;
    fake *f = make_fake(1, "backend", 0);
    assert_int_equal(kineto_privateuse1_register(&interfaces[1]), KINETO_OK);
    profile_once(KINETO_STATE_KINETO);
    assert_string_equal(f->calls, "");
    profile_once(KINETO_STATE_KINETO_PRIVATEUSE1);
    const char *calls = strchr(f->calls, 'c');
    assert_non_null(calls);
    assert_string_equal(calls, "cstpd");
    profile_once(KINETO_STATE_KINETO); /* once let in it stays, as in PyTorch */
    assert_string_equal(calls, "cstpdcstpd");
    assert_int_equal(kineto_privateuse1_unregister(), KINETO_OK);
    profile_once(KINETO_STATE_KINETO_PRIVATEUSE1); /* no backend: the host's own */
    assert_int_equal(strlen(strchr(f->calls, 'c')), 10);
}

static int enabled_times, disabled_times;
static uint32_t reported_scopes;
static bool reported_shapes, refuses;

static kineto_status observer_enable(void *context, const kineto_profiler_config *config,
                                     uint32_t scopes, kineto_error *err)
{
    assert_ptr_equal(context, &enabled_times);
    if (refuses)
        return kb_fail(err, KINETO_E_PLUGIN, "not today");
    enabled_times++;
    reported_scopes = scopes;
    reported_shapes = config->report_input_shapes;
    return KINETO_OK;
}
static kineto_status observer_disable(void *context, kineto_error *err)
{
    (void)err;
    assert_ptr_equal(context, &enabled_times);
    disabled_times++;
    return KINETO_OK;
}

static void observed(void)
{
    kineto_profiler_config c = config_of(KINETO_STATE_PRIVATEUSE1);
    c.report_input_shapes = true;
    uint32_t scopes = 1u << KINETO_SCOPE_FUNCTION;
    assert_int_equal(kineto_profiler_enable(&c, 0, scopes, NULL), KINETO_OK);
    expect(KINETO_E_BUSY, "", kineto_privateuse1_observer_unregister(&err));
    kineto_profiler_result *r = disabled();
    assert_null(kineto_profiler_result_trace(r));
    assert_int_equal(kineto_profiler_result_event_count(r), 0);
    kineto_profiler_result_release(r);
    assert_int_equal(enabled_times, 1);
    assert_int_equal(disabled_times, 1);
    assert_int_equal(reported_scopes, scopes);
    assert_true(reported_shapes);
    refuses = true;
    expect(KINETO_E_PLUGIN, "not today", kineto_profiler_enable(&c, 0, 0, &err));
    assert_false(kineto_profiler_enabled());
    assert_int_equal(disabled_times, 1);
}

static void the_observer_of_a_backend_is_notified_of_begin_and_end(void **state)
{
    (void)state;
    kineto_privateuse1_observer o;
    kineto_privateuse1_observer_init(&o);
    o.context = &enabled_times;
    o.enable = observer_enable;
    o.disable = observer_disable;
    assert_int_equal(kineto_privateuse1_observer_register(&o, NULL), KINETO_OK);
    observed();
    assert_int_equal(kineto_privateuse1_observer_unregister(NULL), KINETO_OK);
}

/* ---- on demand -------------------------------------------------------------------------------------------- */

static struct {
    int times;
    uint64_t count;
    bool has_shapes;
} received;

static void on_ready(const kineto_trace *trace, void *user)
{
    assert_ptr_equal(user, &received);
    received.times++;
    received.count = kineto_trace_count(trace);
    kineto_event e;
    received.has_shapes =
        received.count && kineto_event_of(trace, 0, &e) && kineto_event_has_shapes(&e);
}

static void profilers_on_demand_are_driven_from_outside(void **state)
{
    (void)state;
    kineto_profiler_config c = config_of(KINETO_STATE_DISABLED);
    c.report_input_shapes = true;
    kineto_ondemand_set_ready(on_ready, &received);
    assert_int_equal(kineto_ondemand_prepare(&c, NULL), KINETO_OK);
    assert_false(kineto_profiler_enabled());
    assert_int_equal(kineto_ondemand_start(NULL), KINETO_OK);
    expect(KINETO_E_STATE, "already enabled", kineto_ondemand_start(&err));
    assert_int_equal(kineto_profiler_type(), KINETO_ACTIVE_KINETO);
    uint64_t steps = kineto_profiler_step_count();
    for (uint32_t s = 0; s < KINETO_NUM_SCOPES; s++)
        run_scoped("thing", (kineto_scope)s); /* three of these scopes count */
    on_thread(op_elsewhere, NULL);
    kineto_profiler_step();
    assert_int_equal(kineto_profiler_step_count(), steps + 1);
    assert_int_equal(kineto_ondemand_stop(NULL), KINETO_OK);
    assert_int_equal(received.times, 1);
    assert_int_equal(received.count, 4);
    expect(KINETO_E_STATE, "not running", kineto_ondemand_stop(&err));
    expect(KINETO_E_STATE, "not prepared", kineto_ondemand_start(&err)); /* once */
    kineto_ondemand_set_ready(NULL, NULL);
    assert_int_equal(kineto_ondemand_prepare(&c, NULL), KINETO_OK);
    assert_int_equal(kineto_ondemand_start(NULL), KINETO_OK);
    assert_int_equal(kineto_ondemand_stop(NULL), KINETO_OK); /* discarded */
    assert_int_equal(received.times, 1);
}

/* What was prepared on demand waits for its start, whatever others prepare and enable. */
static void what_is_prepared_on_demand_is_for_its_requester_only(void **state)
{
    (void)state;
    kineto_profiler_config c = config_of(KINETO_STATE_KINETO_ONDEMAND);
    kineto_profiler_config all = config_of(KINETO_STATE_KINETO);
    all.experimental.profile_all_threads = true;
    assert_int_equal(kineto_ondemand_prepare(&c, NULL), KINETO_OK);
    assert_int_equal(kineto_profiler_prepare(&all, ONLY(CPU), NULL), KINETO_OK);
    enable_with(&all, ONLY(CPU));
    run_op("aten::mm");
    kineto_profiler_result *r = disabled();
    assert_int_equal(kineto_profiler_result_event_count(r), 1);
    kineto_profiler_result_release(r);
    assert_int_equal(kineto_ondemand_start(NULL), KINETO_OK);
    assert_int_equal(kineto_ondemand_stop(NULL), KINETO_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ROW(each_group_enables_its_kinds_on_its_device),
        ROW(without_a_group_its_kernels_are_not_recorded),
        ROW(pauses_reach_the_device),
        ROW(plug_ins_may_ask_for_the_profiler),
        ROW(a_device_that_fails_costs_its_own_events_only),
        ROW(fallbacks_time_operators_of_their_threads),
        ROW(threads_of_a_fallback_come_and_go),
        ROW(who_finds_no_room_in_a_fallback_is_reported_and_not_recorded),
        ROW(a_fallback_can_be_started_again),
        ROW(a_device_that_goes_away_costs_the_next_run_not_the_finished_one),
        ROW(the_registered_backend_is_let_in_by_its_own_state),
        ROW(the_observer_of_a_backend_is_notified_of_begin_and_end),
        ROW(profilers_on_demand_are_driven_from_outside),
        ROW(what_is_prepared_on_demand_is_for_its_requester_only),
    };
    return RUN_TESTS(tests);
}
