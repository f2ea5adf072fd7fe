/* The macros of the headers as programs use them: strict C11 and C++17, with all warnings, take them. */
#include <ckineto/ckineto.h>

KINETO_SITE(a_site, KINETO_KIND_USER_ANNOTATION, "a");
KINETO_SITE_ARGS(b_site, KINETO_KIND_CPU_OP, "b", {"m", KINETO_ARG_INT}, {"n", KINETO_ARG_DOUBLE});
KINETO_OPERATOR(c_site, "aten::c");
KINETO_FUNCTION_SITE(d_site, KINETO_SCOPE_USER_SCOPE, "d");

static void scopes(void)
{
    KINETO_SCOPED("e");
    KINETO_FUNCTION("f");
    KINETO_FUNCTION("g", kineto_input_int(1), kineto_input_bool(true));
    KINETO_BACKWARD_FUNCTION("h");
    KINETO_USER_SCOPE("i");
    KINETO_FUNCTIONS_DISABLED(disabled);
}

static bool keep(const kineto_visit *visit, void *user)
{
    kineto_trace **kept = (kineto_trace **)user;
    *kept = kineto_trace_retain(visit->trace);
    return false;
}

int main(void)
{
    kineto_function f;
    kineto_value values[2];
    kineto_survey_options o = {sizeof(kineto_survey_options), NULL, keep, NULL};
    kineto_schedule schedule;
    kineto_schedule_init(&schedule);
    kineto_profile_run_options profile;
    kineto_profile_run_options_init(&profile);
    kineto_control_options control;
    kineto_control_options_init(&control);
    kineto_function_callback callback;
    kineto_function_callback_init(&callback);
    kineto_stubs stubs;
    kineto_stubs_init(&stubs);
    kineto_privateuse1_observer observer;
    kineto_privateuse1_observer_init(&observer);
    const uint64_t kinds = KINETO_KINDS_DEFAULT | KINETO_KINDS_ALL;
    values[0].i = 1;
    values[1].d = 2;
    kineto_range_end(kineto_range_begin(&a_site));
    kineto_range_end(kineto_range_begin_args(&b_site, values));
    kineto_function_begin(&f, &c_site, NULL, 0);
    kineto_function_end(&f);
    kineto_function_begin(&f, &d_site, NULL, 0);
    kineto_function_end(&f);
    scopes();
    return !kinds || !o.size || !schedule.size || !profile.size || !control.size ||
           !callback.size || !stubs.size || !observer.size;
}
