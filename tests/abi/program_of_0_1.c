/* A program as it was written for version 0.1, with the names of that version: it compiles, with warnings that
 * say what to use instead, and behaves as before. Also compiled as C++.
 *
 * usage: test_program_of_0_1 */
#include <ckineto/ckineto.h>
#include <ckineto/profile.h>

#include <stdio.h>

static unsigned faults;

static void expect(const char *what, bool holds)
{
    if (!holds) {
        printf("%s: does not hold\n", what);
        faults++;
    }
}

static kineto_trace *record_a_range(void)
{
    KINETO_SITE(work, KINETO_KIND_USER_ANNOTATION, "work");
    KINETO_SITE(mark, KINETO_KIND_CPU_INSTANT_EVENT, "mark");
    kineto_session *session = NULL;
    kineto_trace *trace = NULL;
    expect("a session begins", kineto_session_begin(NULL, &session, NULL) == KINETO_OK);
    kineto_range range = kineto_range_begin(&work);
    kineto_flow_start(KINETO_FLOW_USER, 7);
    kineto_flow_finish(KINETO_FLOW_USER, 7);
    kineto_instant(&mark, NULL);
    kineto_step();
    kineto_range_end(range);
    expect("it pauses", kineto_session_toggle(session, false, NULL) == KINETO_OK);
    kineto_instant(&mark, NULL); /* in no trace */
    expect("it resumes", kineto_session_toggle(session, true, NULL) == KINETO_OK);
    expect("it ends", kineto_session_end(session, &trace, NULL) == KINETO_OK);
    return trace;
}

static uint64_t count_named(const kineto_trace *trace, const char *name)
{
    uint64_t found = 0;
    for (kineto_row row = 0; row < kineto_trace_count(trace); row++) {
        kineto_activity activity;
        kineto_trace_get(trace, row, &activity);
        found += activity.name.size == strlen(name) && !memcmp(activity.name.data, name, strlen(name));
    }
    return found;
}

static void analyse(const kineto_trace *trace)
{
    kineto_analyze_options options;
    kineto_analysis *facts = NULL;
    kineto_findings *found = NULL;
    kineto_finding first;
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.tables = "kernels";
    expect("facts", kineto_analyze(trace, &options, &facts, NULL) == KINETO_OK);
    expect("one table", kineto_analysis_count(facts) == 1 && kineto_analysis_find(facts, "kernels") == 0);
    kineto_analysis_release(facts);
    expect("findings", kineto_find(trace, NULL, &found, NULL) == KINETO_OK);
    if (kineto_findings_get(found, 0, &first))
        expect("old members are the new ones",
               first.worth_ns == first.savings_ns && first.has_worth == first.has_savings);
    expect("a rule has an outcome", kineto_findings_judgement(found, 0, NULL) != KINETO_NOT_ASKED);
    kineto_findings_release(found);
}

static void run_a_schedule(void)
{
    kineto_profile_options options = KINETO_PROFILE_OPTIONS_INIT;
    kineto_schedule schedule = KINETO_SCHEDULE_INIT;
    kineto_profile *profile = NULL;
    schedule.active = 2;
    options.schedule = &schedule;
    expect("a profile", kineto_profile_create(&options, &profile, NULL) == KINETO_OK);
    expect("it starts", kineto_profile_start(profile, NULL) == KINETO_OK);
    expect("it steps", kineto_profile_step(profile, NULL) == KINETO_OK);
    expect("it stops", kineto_profile_stop(profile, NULL) == KINETO_OK);
    expect("it has a trace", kineto_result_trace(kineto_profile_result(profile)) != NULL);
    kineto_profile_destroy(profile);
}

static void get_by_status(void)
{
    kineto_stubs stubs = KINETO_STUBS_INIT;
    kineto_profiler_config config;
    kineto_error err;
    kineto_profiler_config_init(&config, KINETO_STATE_KINETO);
    expect("stubs of an empty slot", kineto_stubs_get(KINETO_STUBS_ITT, &stubs, &err) == KINETO_OK);
    expect("no unknown slot", kineto_stubs_get(KINETO_STUBS_SLOT_COUNT, &stubs, &err) == KINETO_E_ARGUMENT);
    expect("no config without a profiler",
           kineto_profiler_get_config(&config, &err) == KINETO_E_STATE && err.code == KINETO_E_STATE);
    expect("a profiler", kineto_profiler_enable(&config, KINETO_ACTIVITY_SET(CPU), 0, NULL) == KINETO_OK);
    expect("its config", kineto_profiler_get_config(&config, NULL) == KINETO_OK);
    expect("it is disabled", kineto_profiler_disable(NULL, NULL) == KINETO_OK);
}

int main(void)
{
    kineto_trace *trace = record_a_range();
    expect("the range is there", count_named(trace, "work") == 1);
    expect("one mark is there", count_named(trace, "mark") == 1);
    analyse(trace);
    kineto_trace_release(trace);
    run_a_schedule();
    get_by_status();
    return faults != 0;
}
