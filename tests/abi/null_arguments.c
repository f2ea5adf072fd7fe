/* Public functions with NULL for a pointer that must not be NULL, one at a time: none crashes, a status is
 * KINETO_E_ARGUMENT with the one text for it, a bool is false, what is made is NULL. The cases are generated from the
 * headers by null_arguments.py. They run in a child, so that after a crash the others still run.
 *
 * usage: test_null_arguments TRACE FACTS */
#include <ckineto/ckineto.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* What functions are asked about. */
static kineto_trace *a_kineto_trace;
static kineto_files *a_kineto_files;
static kineto_survey *a_kineto_survey;
static kineto_builder *a_kineto_builder;
static kineto_verify_report *a_kineto_verify_report;
static kineto_analysis *a_kineto_analysis;
static kineto_critical_path *a_kineto_critical_path;
static kineto_findings *a_kineto_findings;
static kineto_overview *a_kineto_overview;
static kineto_facts *a_kineto_facts;
static kineto_function_events *a_kineto_function_events;
static kineto_averages *a_kineto_averages;
static kineto_session *a_kineto_session;
static kineto_profiler *a_kineto_profiler;
static kineto_profiler_result *a_kineto_profiler_result;
static kineto_profile_run *a_kineto_profile_run;
static kineto_event the_event, *const a_kineto_event = &the_event;
static _Alignas(max_align_t) char room[8192];
/* Made only within a callback; with NULL for a text it is not read. */
#define a_kineto_post_event ((kineto_post_event *)(void *)room)

static kineto_error err;

/* Shared with the child. */
static struct {
    unsigned faults;
    volatile size_t next;
} *shared;

static void nothing(void) {}

static void fail_case(const char *function, const char *parameter, const char *text)
{
    printf("%s with NULL for %s: %s\n", function, parameter, text);
    shared->faults++;
}

static void expect_status(const char *function, const char *parameter, bool has_error, kineto_status status)
{
    char text[sizeof err.message];
    snprintf(text, sizeof text, "%s: %s must not be NULL", function, parameter);
    if (status != KINETO_E_ARGUMENT)
        fail_case(function, parameter, kineto_status_name(status));
    else if (has_error && strcmp(err.message, text) != 0)
        fail_case(function, parameter, err.message[0] ? err.message : "no message");
}

static void expect_false(const char *function, const char *parameter, bool result)
{
    if (result)
        fail_case(function, parameter, "true");
}

static void expect_made_nothing(const char *function, const char *parameter, const void *made)
{
    if (made)
        fail_case(function, parameter, "something was made");
}

#include "null_arguments.inc"

static bool record_a_result(void)
{
    kineto_profiler_config config;
    kineto_profiler_config_init(&config, KINETO_STATE_KINETO);
    return !kineto_profiler_create(&config, KINETO_ACTIVITY_SET(CPU), 0, &a_kineto_profiler, &err) &&
           !kineto_profiler_start(a_kineto_profiler, &err) &&
           !kineto_profiler_stop(a_kineto_profiler, &a_kineto_profiler_result, &err);
}

static bool make_all(const char *path, const char *facts)
{
    return !kineto_trace_open(path, &a_kineto_trace, &err) &&
           !kineto_files_find(&path, 1, &a_kineto_files, &err) &&
           !kineto_files_survey(a_kineto_files, NULL, &a_kineto_survey, &err) &&
           !kineto_builder_create(&a_kineto_builder, &err) &&
           !kineto_verify_run(a_kineto_trace, NULL, &a_kineto_verify_report, &err) &&
           !kineto_diff_run(a_kineto_trace, a_kineto_trace, NULL, &a_kineto_analysis, &err) &&
           !kineto_critical_path_create(a_kineto_trace, NULL, &a_kineto_critical_path, &err) &&
           !kineto_findings_find(a_kineto_trace, NULL, &a_kineto_findings, &err) &&
           !kineto_overview_create(a_kineto_trace, NULL, &a_kineto_overview, &err) &&
           !kineto_facts_open(&facts, 1, 0, &a_kineto_facts, &err) &&
           !kineto_function_events_create(a_kineto_trace, NULL, &a_kineto_function_events, &err) &&
           !kineto_averages_create(a_kineto_function_events, NULL, &a_kineto_averages, &err) &&
           !kineto_session_create(NULL, &a_kineto_session, &err) &&
           !kineto_profile_run_create(NULL, &a_kineto_profile_run, &err) && record_a_result() &&
           kineto_event_of(a_kineto_trace, 0, &the_event);
}

static void destroy_all(void)
{
    kineto_profile_run_destroy(a_kineto_profile_run);
    kineto_profiler_result_release(a_kineto_profiler_result);
    kineto_profiler_destroy(a_kineto_profiler);
    kineto_session_destroy(a_kineto_session);
    kineto_averages_destroy(a_kineto_averages);
    kineto_function_events_destroy(a_kineto_function_events);
    kineto_overview_destroy(a_kineto_overview);
    kineto_facts_destroy(a_kineto_facts);
    kineto_findings_destroy(a_kineto_findings);
    kineto_critical_path_destroy(a_kineto_critical_path);
    kineto_analysis_destroy(a_kineto_analysis);
    kineto_verify_report_destroy(a_kineto_verify_report);
    kineto_builder_destroy(a_kineto_builder);
    kineto_survey_destroy(a_kineto_survey);
    kineto_files_destroy(a_kineto_files);
    kineto_trace_release(a_kineto_trace);
}

static void run_remaining_cases(void)
{
    while (shared->next < sizeof cases / sizeof *cases) {
        memset(&err, 0, sizeof err);
        cases[shared->next].run();
        shared->next++;
    }
    fflush(stdout);
    _exit(0);
}

/* False: a child ended within a case. */
static bool run_in_child(void)
{
    int status = 0;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        run_remaining_cases();
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

int main(int argc, char **argv)
{
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (argc != 3 || shared == MAP_FAILED || !make_all(argv[1], argv[2])) {
        puts(argc == 2 ? err.message : "name a trace");
        return 2;
    }
    while (!run_in_child() && shared->next < sizeof cases / sizeof *cases) {
        printf("%s: crashed\n", cases[shared->next].title);
        shared->next++;
        shared->faults++;
    }
    printf("%zu cases, %u faults\n", sizeof cases / sizeof *cases, shared->faults);
    destroy_all();
    return shared->faults != 0;
}
