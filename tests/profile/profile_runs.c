/* Whole runs of a profile, for test_runs.py to compare. Reads lines
 *   schedule skip_first wait warmup active repeat skip_first_wait steps
 *   actions DIGITS
 * runs one step after the other with one operator in each, and writes for each line what was handed
 * over, "ready" with the steps whose annotation and operator are in the trace, and how many steps'
 * operators were discarded. */
#include <ckineto/profile_run.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

KINETO_OPERATOR(op_site, "op");

static char digits[64];

static kineto_action own_action(uint64_t step, void *user)
{
    (void)user;
    return step < strlen(digits) ? (kineto_action)(digits[step] - '0') : KINETO_ACTION_NONE;
}

/* The operator's step is its only input. */
static void run_operator(uint64_t step)
{
    kineto_function f;
    kineto_input in = kineto_input_int((int64_t)step);
    kineto_function_begin(&f, &op_site, &in, 1);
    kineto_function_end(&f);
}

static bool is_named(const kineto_activity *a, const char *name, size_t size)
{
    return a->name.size >= size && memcmp(a->name.data, name, size) == 0;
}

static void show_row(const kineto_trace *t, kineto_row row)
{
    kineto_activity a, parent;
    kineto_arg arg;
    kineto_trace_get(t, row, &a);
    bool cut = a.flags & (KINETO_ACTIVITY_OPEN_START | KINETO_ACTIVITY_OPEN_END);
    if (is_named(&a, "ProfilerStep#", 13)) {
        printf(" %.*s%s", (int)a.name.size - 13, a.name.data + 13, cut ? "?" : "");
    } else if (is_named(&a, "op", 2)) {
        kineto_trace_get(t, kineto_trace_parent(t, row), &parent);
        bool found = kineto_args_find(t, row, "Concrete Inputs", &arg);
        /* ["3"], within ProfilerStep#3 */
        bool inside = found && arg.text.size > 4 && parent.name.size == 13 + arg.text.size - 4 &&
                      memcmp(parent.name.data + 13, arg.text.data + 2, arg.text.size - 4) == 0;
        printf("%s", inside && !cut ? "+" : "!");
    }
}

static kineto_status on_ready(kineto_profile_run *profile, void *user, kineto_error *err)
{
    (void)user;
    (void)err;
    const kineto_trace *t = kineto_profiler_result_trace(kineto_profile_run_result(profile));
    const kineto_row *order = kineto_trace_time_order(t);
    printf(" ready");
    for (uint64_t i = 0; i < kineto_trace_count(t); i++)
        show_row(t, order[i]);
    return KINETO_OK;
}

static int run(const kineto_profile_run_options *options, uint64_t steps)
{
    kineto_error err;
    kineto_profile_run *profile;
    kineto_status status = kineto_profile_run_create(options, &profile, &err);
    if (!status)
        status = kineto_profile_run_start(profile, &err);
    for (uint64_t i = 0; i < steps && !status; i++) {
        run_operator(i);
        if (i + 1 < steps)
            status = kineto_profile_run_step(profile, &err);
    }
    if (!status)
        status = kineto_profile_run_stop(profile, &err);
    if (status)
        printf(" %s", err.message);
    printf(" discarded %" PRIu64 "\n", profile ? kineto_profile_run_discarded(profile) : 0);
    kineto_profile_run_destroy(profile);
    return 0;
}

int main(void)
{
    char line[256];
    kineto_profiler_config config;
    kineto_profiler_config_init(&config, KINETO_STATE_KINETO);
    config.report_input_shapes = true;
    config.buffer_bytes = 1 << 20;
    while (fgets(line, sizeof line, stdin)) {
        kineto_schedule s;
        kineto_schedule_init(&s);
        kineto_profile_run_options o;
        kineto_profile_run_options_init(&o);
        uint64_t steps;
        o.config = &config;
        o.activities = KINETO_ACTIVITY_SET(CPU);
        o.on_trace_ready = on_ready;
        if (sscanf(line, "actions %60[0-3]", digits) == 1) {
            o.action = own_action;
            steps = strlen(digits);
        } else if (sscanf(line,
                          "schedule %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64
                          " %" SCNu64 " %" SCNu64,
                          &s.skip_first, &s.wait, &s.warmup, &s.active, &s.repeat,
                          &s.skip_first_wait, &steps) == 7) {
            o.schedule = &s;
        } else {
            return 2;
        }
        if (run(&o, steps))
            return 1;
    }
    return 0;
}
