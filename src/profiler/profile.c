/* The profiler of a long run: steps, what the schedule asks for between them, and cycles. */
#include "profiler/profile.h"
#include "record/record.h"

#include <inttypes.h>
#include <sys/random.h>

/* ---- making one ------------------------------------------------------------------------------- */

static kineto_status take_schedule(kineto_profile *p, kineto_error *err)
{
    const char *warning;
    const kineto_schedule *schedule = p->options.schedule;
    if (schedule && p->options.action)
        return kb_fail(err, KINETO_E_ARGUMENT,
                       "profile: a schedule and an action of one's own "
                       "cannot both say what to do in a step");
    kineto_status status = kineto_schedule_check(schedule, &warning, err);
    if (status || !schedule)
        return status;
    p->schedule = (kineto_schedule)KINETO_SCHEDULE_INIT;
    memcpy(&p->schedule, schedule, KB_MIN(schedule->size, sizeof p->schedule));
    p->schedule.size = sizeof p->schedule;
    p->options.schedule = &p->schedule;
    if (warning)
        kb_log(KINETO_LOG_WARNING, "profile: %s", warning);
    return KINETO_OK;
}

static kineto_status take_config(kineto_profile *p, kineto_error *err)
{
    kineto_profiler_config usual;
    kineto_profiler_config_init(&usual, KINETO_STATE_KINETO);
    kineto_status status =
        kp_config_copy(p->options.config ? p->options.config : &usual, &p->config, err);
    p->options.config = &p->config.values;
    return status;
}

kineto_status kineto_profile_create(const kineto_profile_options *options, kineto_profile **out,
                                    kineto_error *err)
{
    if (!out)
        return kb_fail(err, KINETO_E_ARGUMENT, "kineto_profile_create: out is NULL");
    *out = NULL;
    kineto_profile_options all = KINETO_PROFILE_OPTIONS_INIT;
    kineto_status status = kb_options_read(&all, sizeof all, options,
                                           "profile options, see KINETO_PROFILE_OPTIONS_INIT", err);
    if (status)
        return status;
    kineto_profile *p = calloc(1, sizeof *p);
    if (!p)
        return kb_fail(err, KINETO_E_MEMORY, "out of memory");
    p->options = all;
    if (!p->options.activities)
        p->options.activities = (1u << KINETO_NUM_ACTIVITY_TYPES) - 1;
    status = take_config(p, err);
    if (!status && p->config.values.state == KINETO_STATE_DISABLED)
        status = kb_fail(err, KINETO_E_ARGUMENT, "profile: the state is DISABLED");
    if (!status)
        status = take_schedule(p, err);
    if (status)
        kineto_profile_destroy(p);
    else
        *out = p;
    return status;
}

/* ---- header and ledger -------------------------------------------------------------------------- */

static void header_clear(kineto_profile *p, bool presets)
{
    size_t kept = 0;
    for (size_t i = 0; i < p->header.count; i++) {
        kp_header_line *line = &p->header.data[i];
        if (line->preset && !presets) {
            p->header.data[kept++] = *line;
            continue;
        }
        free(line->key);
        free(line->json_value);
    }
    p->header.count = kept;
}

static kineto_status header_put(kineto_profile *p, const char *key, char *json_value, bool preset,
                                kineto_error *err)
{
    kp_header_line line = {strdup(key), json_value, preset};
    if (line.key && json_value && kb_vec_push(&p->header, line))
        return KINETO_OK;
    free(line.key);
    free(json_value);
    return kb_fail(err, KINETO_E_MEMORY, "out of memory");
}

static kineto_status add_json(kineto_profile *p, const char *key, const char *json_value,
                              bool preset, kineto_error *err)
{
    if (!p || !key || !json_value)
        return kb_fail(err, KINETO_E_ARGUMENT, "profile metadata: an argument is NULL");
    if (!kb_json_valid(kb_string(json_value)))
        return kb_fail(err, KINETO_E_ARGUMENT,
                       "profile metadata '%.60s' is not one JSON value: %.80s", key, json_value);
    return header_put(p, key, strdup(json_value), preset, err);
}

kineto_status kineto_profile_add_metadata_json(kineto_profile *p, const char *key,
                                               const char *json_value, kineto_error *err)
{
    return add_json(p, key, json_value, false, err);
}

kineto_status kineto_profile_preset_metadata_json(kineto_profile *p, const char *key,
                                                  const char *json_value, kineto_error *err)
{
    return add_json(p, key, json_value, true, err);
}

kineto_status kineto_profile_add_metadata(kineto_profile *p, const char *key, const char *text,
                                          kineto_error *err)
{
    if (!p || !key || !text)
        return kb_fail(err, KINETO_E_ARGUMENT, "profile metadata: an argument is NULL");
    size_t size = strlen(text);
    char *json = size < SIZE_MAX / 8 ? malloc(6 * size + 3) : NULL;
    if (json)
        *kb_json_escape(json, kb_string(text), NULL) = '\0';
    return header_put(p, key, json, false, err);
}

/* An id may be any text. */
static bool put_id(kineto_profile *p)
{
    return !p->trace_id[0] || !kineto_profile_add_metadata(p, "trace_id", p->trace_id, NULL);
}

typedef struct additions {
    KB_VEC(kt_build_header) header;
    kt_build_note notes[KINETO_CALL_COUNT + 1];
    uint32_t note_count;
} additions;

static bool collect_header(const kineto_profile *p, additions *a)
{
    for (size_t i = 0; i < p->header.count; i++) {
        const kp_header_line *line = &p->header.data[i];
        if (!kb_vec_push(&a->header, (kt_build_header){line->key, line->json_value}))
            return false;
    }
    return true;
}

static void collect_notes(const kineto_profile *p, additions *a)
{
    for (uint32_t call = 0; call < KINETO_CALL_COUNT; call++)
        if (p->untold & 1u << call)
            a->notes[a->note_count++] =
                (kt_build_note){"profile", kineto_call_warning((kineto_call)call),
                                "the schedule says so", 1, false};
    if (p->discarded > p->told_discarded)
        a->notes[a->note_count++] =
            (kt_build_note){"profile", "events of incomplete cycles, discarded",
                            "the schedule went on before they were complete",
                            p->discarded - p->told_discarded, false};
}

/* ---- what a transition calls ---------------------------------------------------------------------- */

static void make_id(kineto_profile *p)
{
    uint8_t random[16] = {0};
    char *out = p->next_id;
    memset(out, 0, sizeof p->next_id);
    if (p->options.make_trace_id) {
        p->options.make_trace_id(out, sizeof p->next_id, p->options.user);
        out[sizeof p->next_id - 1] = '\0';
        return;
    }
    if (getrandom(random, sizeof random, GRND_NONBLOCK) != (ssize_t)sizeof random) {
        uint64_t other[2] = {kb_clock_ns(CLOCK_REALTIME), kb_os_self()};
        memcpy(random, other, sizeof random);
    }
    random[6] = (uint8_t)((random[6] & 0x0f) | 0x40); /* a random UUID, version 4 */
    random[8] = (uint8_t)((random[8] & 0x3f) | 0x80);
    for (size_t i = 0; i < sizeof random; i++)
        snprintf(out + 2 * i, 3, "%02X", random[i]);
}

/* The new one comes before the old one goes, so that they share the recorder's memory. */
static kineto_status prepare(kineto_profile *p, kineto_error *err)
{
    kineto_profiler_config config = p->config.values;
    kineto_profiler *profiler;
    if (!config.trace_id) {
        make_id(p);
        config.trace_id = p->next_id;
    } else {
        snprintf(p->next_id, sizeof p->next_id, "%s", config.trace_id);
    }
    kineto_status status =
        kineto_profiler_create(&config, p->options.activities, p->options.scopes, &profiler, err);
    if (status)
        return status;
    kineto_profiler_destroy(p->profiler);
    p->profiler = profiler;
    memcpy(p->trace_id, p->next_id, sizeof p->trace_id);
    return KINETO_OK;
}

static kineto_status start(kineto_profile *p, kineto_error *err)
{
    kineto_status status = p->profiler ? KINETO_OK : prepare(p, err);
    return status ? status : kineto_profiler_start(p->profiler, err);
}

/* Also where the config wants no list of events. */
static void discard(kineto_profile *p, kineto_profiler_result *result, kineto_action action)
{
    const kineto_trace *trace = kineto_result_trace(result);
    uint64_t count = action == KINETO_ACTION_RECORD && trace ? kineto_trace_count(trace) : 0;
    kineto_result_release(result);
    p->discarded += count;
    if (count)
        kb_log(KINETO_LOG_WARNING,
               "profile: %" PRIu64 " events of a cycle that ended at step %" PRIu64
               ", before it was complete, were discarded",
               count, p->step);
}

/* What was said to be in the trace is, once there is one. */
static kineto_status stop_with(kineto_profile *p, additions *a, bool keep,
                               kineto_profiler_result **result, kineto_error *err)
{
    if (!put_id(p) || !collect_header(p, a))
        return kb_fail(err, KINETO_E_MEMORY, "out of memory");
    collect_notes(p, a);
    if (p->profiler->session) {
        ks_extras *extras = ks_session_extras(p->profiler->session);
        extras->header = a->header.data;
        extras->header_count = (uint32_t)a->header.count;
        extras->notes = a->notes;
        extras->note_count = a->note_count;
    }
    kineto_status status = kineto_profiler_stop(p->profiler, result, err);
    if (!status && keep) {
        p->untold = 0;
        p->told_discarded = p->discarded;
    }
    return status;
}

static kineto_status stop(kineto_profile *p, kineto_action action, kineto_action next, bool keep,
                          kineto_error *err)
{
    kineto_profiler_result *result = NULL;
    additions a = {.note_count = 0};
    if (!p->profiler || !p->profiler->running) /* starting failed, and was said */
        return KINETO_OK;
    p->profiler->last = next == KINETO_ACTION_NONE || next == KINETO_ACTION_END;
    kineto_status status = stop_with(p, &a, keep, &result, err);
    kb_vec_free(&a.header);
    if (keep)
        header_clear(p, false);
    if (status) {
        kineto_profiler_destroy(p->profiler);
        p->profiler = NULL;
    } else if (keep) {
        kineto_result_release(p->stopped);
        p->stopped = result;
    } else {
        discard(p, result, action);
    }
    return status;
}

static kineto_status ready(kineto_profile *p, kineto_error *err)
{
    if (!p->stopped)
        return KINETO_OK;
    if (!p->options.acc_events && p->cycles.count)
        kineto_result_release(p->cycles.data[--p->cycles.count]);
    if (!kb_vec_push(&p->cycles, p->stopped)) {
        kineto_result_release(p->stopped);
        p->stopped = NULL;
        return kb_fail(err, KINETO_E_MEMORY, "out of memory");
    }
    p->stopped = NULL;
    return p->options.on_trace_ready ? p->options.on_trace_ready(p, p->options.user, err)
                                     : KINETO_OK;
}

static void warn(kineto_profile *p, kineto_call call)
{
    const char *text = kineto_call_warning(call);
    p->untold |= 1u << call;
    if (text && !(p->warned & 1u << call))
        kb_log(KINETO_LOG_WARNING, "profile: %s", text);
    p->warned |= 1u << call;
}

/* All calls are made, whatever fails; the first failure counts. */
static kineto_status pass_to(kineto_profile *p, kineto_action previous, kineto_action next,
                             kineto_error *err)
{
    kineto_call calls[KINETO_TRANSITION_CALLS];
    kineto_error ignored;
    kineto_status status = KINETO_OK, result = KINETO_OK, prepared = KINETO_OK;
    uint32_t count = kineto_schedule_transition(previous, next, calls);
    for (uint32_t i = 0; i < count; i++) {
        kineto_error *e = result ? &ignored : err;
        status = KINETO_OK;
        if (calls[i] == KINETO_CALL_PREPARE)
            status = prepared = prepare(p, e);
        else if (calls[i] == KINETO_CALL_START && !prepared)
            status = start(p, e);
        else if (calls[i] == KINETO_CALL_STOP)
            status = stop(p, previous, next, i + 1 < count && calls[i + 1] == KINETO_CALL_READY, e);
        else if (calls[i] == KINETO_CALL_READY)
            status = ready(p, e);
        else if (calls[i] != KINETO_CALL_START)
            warn(p, calls[i]);
        result = result ? result : status;
    }
    if (next == KINETO_ACTION_NONE || next == KINETO_ACTION_END) {
        kineto_profiler_destroy(p->profiler);
        p->profiler = NULL;
    }
    return result;
}

/* ---- steps -------------------------------------------------------------------------------------- */

/* While it runs, iterations that the program counts are not marked by themselves. */
static void running_set(kineto_profile *p, bool on)
{
    if (p->running != on)
        kineto_rt_steps_marked(on);
    p->running = on;
}

static kineto_action action_of(const kineto_profile *p, uint64_t step)
{
    if (!p->options.action)
        return kineto_schedule_action(p->options.schedule, step);
    kineto_action action = p->options.action(step, p->options.user);
    return (unsigned)action < KINETO_ACTION_COUNT ? action : KINETO_ACTION_NONE;
}

/* Without a schedule there are no steps to be told apart. */
static void annotation_begin(kineto_profile *p)
{
    KINETO_FUNCTION_SITE(site, KINETO_SCOPE_USER_SCOPE, "ProfilerStep");
    char name[48];
    kineto_function_info info = KINETO_FUNCTION_INFO_INIT;
    if (!p->options.schedule && !p->options.action)
        return;
    snprintf(name, sizeof name, "ProfilerStep#%" PRIu64, p->step);
    info.name = name;
    kineto_function_begin_info(&p->annotation, &site, &info);
    p->annotation_thread = kb_os_tid();
}

/* Those of this thread that another one left open, the innermost first. */
static void orphans_end(kineto_profile *p)
{
    size_t kept = p->orphans.count;
    for (size_t i = p->orphans.count; i-- > 0;) {
        if (p->orphans.data[i].thread != kb_os_tid())
            continue;
        kineto_function_end(&p->orphans.data[i].function);
        kept--;
        memmove(&p->orphans.data[i], &p->orphans.data[i + 1], (kept - i) * sizeof *p->orphans.data);
    }
    p->orphans.count = kept;
}

/* A range ends on its own thread only. */
static void annotation_end(kineto_profile *p)
{
    orphans_end(p);
    if (p->annotation_thread == kb_os_tid())
        kineto_function_end(&p->annotation);
    else if (p->annotation_thread && p->annotation.state)
        (void)kb_vec_push(&p->orphans, (kp_orphan){p->annotation, p->annotation_thread});
    p->annotation_thread = 0;
}

/* What the program's functions ask for from within a step would be overtaken by its rest. */
static kineto_status check_idle(const kineto_profile *p, kineto_error *err)
{
    return p->busy ? kb_fail(err, KINETO_E_STATE,
                             "the profile is within a step, start or stop that called this "
                             "function: call it once that has returned")
                   : KINETO_OK;
}

static kineto_status leave(kineto_profile *p, kineto_status status)
{
    p->busy = false;
    if (p->doomed)
        kineto_profile_destroy(p);
    return status;
}

static kineto_status begin(kineto_profile *p, kineto_error *err)
{
    p->current = action_of(p, p->step);
    kineto_status status = pass_to(p, KINETO_ACTION_NONE, p->current, err);
    if (status) {
        kineto_profiler_destroy(p->profiler);
        p->profiler = NULL;
        return status;
    }
    running_set(p, true);
    p->first_step = p->step;
    p->base_step = kineto_profiler_step_count();
    annotation_begin(p);
    return KINETO_OK;
}

kineto_status kineto_profile_start(kineto_profile *p, kineto_error *err)
{
    if (!p)
        return kb_fail(err, KINETO_E_ARGUMENT, "kineto_profile_start: profile is NULL");
    kineto_status status = check_idle(p, err);
    if (status)
        return status;
    if (p->running)
        return kb_fail(err, KINETO_E_STATE, "the profile runs already: stop it first");
    p->busy = true;
    return leave(p, begin(p, err));
}

static kineto_status check_running(const kineto_profile *p, kineto_error *err)
{
    if (!p)
        return kb_fail(err, KINETO_E_ARGUMENT, "profile is NULL");
    kineto_status status = check_idle(p, err);
    if (!status && !p->running)
        status = kb_fail(err, KINETO_E_STATE, "the profile does not run: start it first");
    return status;
}

static kineto_status advance(kineto_profile *p, kineto_error *err)
{
    annotation_end(p);
    p->step++;
    kineto_action previous = p->current;
    p->current = action_of(p, p->step);
    kineto_status status = pass_to(p, previous, p->current, err);
    /* Of several profiles of one loop, the one that is furthest counts. */
    if (kineto_profiler_step_count() - p->base_step < p->step - p->first_step)
        kineto_profiler_step();
    annotation_begin(p);
    return status;
}

kineto_status kineto_profile_step(kineto_profile *p, kineto_error *err)
{
    kineto_status status = check_running(p, err);
    if (status)
        return status;
    p->busy = true;
    return leave(p, advance(p, err));
}

kineto_status kineto_profile_stop(kineto_profile *p, kineto_error *err)
{
    kineto_status status = check_running(p, err);
    if (status)
        return status;
    p->busy = true;
    annotation_end(p);
    running_set(p, false);
    return leave(p, pass_to(p, p->current, KINETO_ACTION_END, err));
}

kineto_status kineto_profile_pause(kineto_profile *p, bool paused, kineto_error *err)
{
    kineto_status status = check_running(p, err);
    if (status)
        return status;
    if (p->current != KINETO_ACTION_RECORD && p->current != KINETO_ACTION_RECORD_AND_SAVE)
        return kb_fail(err, KINETO_E_STATE, "profile: no cycle is recorded that could be paused");
    return kineto_profiler_pause(p->profiler, paused, err);
}

void kineto_profile_destroy(kineto_profile *p)
{
    if (!p)
        return;
    p->doomed = true;
    if (p->busy)
        return;
    annotation_end(p);
    running_set(p, false);
    orphans_end(p);
    kb_vec_free(&p->orphans);
    kineto_profiler_destroy(p->profiler);
    for (size_t i = 0; i < p->cycles.count; i++)
        kineto_result_release(p->cycles.data[i]);
    kb_vec_free(&p->cycles);
    kineto_result_release(p->stopped);
    header_clear(p, true);
    kb_vec_free(&p->header);
    kp_config_free(&p->config);
    free(p);
}

/* ---- questions ---------------------------------------------------------------------------------- */

uint64_t kineto_profile_step_number(const kineto_profile *p) { return p ? p->step : 0; }

kineto_action kineto_profile_current_action(const kineto_profile *p)
{
    return p && p->running ? p->current : KINETO_ACTION_NONE;
}

const char *kineto_profile_trace_id(const kineto_profile *p) { return p ? p->trace_id : ""; }

uint64_t kineto_profile_discarded(const kineto_profile *p) { return p ? p->discarded : 0; }

kineto_profiler_result *kineto_profile_result(const kineto_profile *p)
{
    return p && p->cycles.count ? p->cycles.data[p->cycles.count - 1] : NULL;
}

uint32_t kineto_profile_cycle_count(const kineto_profile *p)
{
    return p ? (uint32_t)p->cycles.count : 0;
}

kineto_profiler_result *kineto_profile_cycle(const kineto_profile *p, uint32_t index)
{
    return index < kineto_profile_cycle_count(p) ? p->cycles.data[index] : NULL;
}
