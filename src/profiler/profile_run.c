/* The profiler of a long run: steps, the actions that a schedule requests between them, and the
 * cycles that are recorded. Uses profiler.c for each cycle and schedule.c for the order of calls
 * between two steps; a profile is used by one thread at a time. */
#include "profiler/profile_run.h"
#include "record/record.h"

#include <inttypes.h>
#include <sys/random.h>

/* ---- making one ------------------------------------------------------------------------------ */

/* Copies the caller's schedule, which may be of another version, and logs what is odd about it. */
static kineto_status copy_schedule(kineto_profile_run *p, kineto_error *err)
{
    const char *warning;
    const kineto_schedule *schedule = p->options.schedule;
    if (schedule && p->options.action)
        return kb_fail(err, KINETO_E_ARGUMENT,
                       "profile run: schedule and action exclude each other; set one of them");
    kineto_status status = kineto_schedule_check(schedule, &warning, err);
    if (status || !schedule)
        return status;
    kineto_schedule_init(&p->schedule);
    memcpy(&p->schedule, schedule, KB_MIN(schedule->size, sizeof p->schedule));
    p->schedule.size = sizeof p->schedule;
    p->options.schedule = &p->schedule;
    if (warning)
        kb_log(KINETO_LOG_WARNING, "profile run: %s", warning);
    return KINETO_OK;
}

/* Copies the caller's config; without one, the defaults of state KINETO. */
static kineto_status copy_profile_config(kineto_profile_run *p, kineto_error *err)
{
    kineto_profiler_config usual;
    kineto_profiler_config_init(&usual, KINETO_STATE_KINETO);
    kineto_status status =
        kp_config_copy(p->options.config ? p->options.config : &usual, &p->config, err);
    p->options.config = &p->config.values;
    return status;
}

kineto_status kineto_profile_run_create(const kineto_profile_run_options *options, kineto_profile_run **out,
                                    kineto_error *err)
{
    if (!out)
        return kb_fail_null(err, __func__, "out", out);
    *out = NULL;
    kineto_profile_run_options all;
    kineto_profile_run_options_init(&all);
    kineto_status status = kb_options_read(&all, sizeof all, options,
                                           "options of a profile run, see kineto_profile_run_options_init", err);
    if (status)
        return status;
    kineto_profile_run *p = calloc(1, sizeof *p);
    if (!p)
        return kb_fail_memory(err, NULL);
    p->options = all;
    if (!p->options.activities)
        p->options.activities = (1u << KINETO_NUM_ACTIVITY_TYPES) - 1;
    status = copy_profile_config(p, err);
    if (!status && p->config.values.state == KINETO_STATE_DISABLED)
        status = kb_fail(err, KINETO_E_ARGUMENT, "profile run: the state is DISABLED");
    if (!status)
        status = copy_schedule(p, err);
    if (status)
        kineto_profile_run_destroy(p);
    else
        *out = p;
    return status;
}

/* ---- header and ledger ----------------------------------------------------------------------- */

/* Frees the header lines of a cycle; with `presets` also those that stay for all cycles. */
static void clear_header_lines(kineto_profile_run *p, bool presets)
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

/* Adds a line to the header of the next trace. Takes ownership of json_value, which may be NULL
 * after a failed allocation. */
static kineto_status put_header_line(kineto_profile_run *p, const char *key, char *json_value,
                                     bool preset, kineto_error *err)
{
    kp_header_line line = {strdup(key), json_value, preset};
    if (line.key && json_value && kb_vec_push(&p->header, line))
        return KINETO_OK;
    free(line.key);
    free(json_value);
    return kb_fail_memory(err, NULL);
}

static kineto_status add_header_json(kineto_profile_run *p, const char *function, const char *key,
                                     const char *json_value, bool preset, kineto_error *err)
{
    if (!p || !key || !json_value)
        return kb_fail_null(err, function, "profile, key, json_value", p, key, json_value);
    if (!kb_json_valid(kb_string(json_value)))
        return kb_fail(err, KINETO_E_ARGUMENT,
                       "profile run: metadata '%.60s' is not a valid JSON value: %.80s", key,
                       json_value);
    return put_header_line(p, key, strdup(json_value), preset, err);
}

kineto_status kineto_profile_run_add_metadata_json(kineto_profile_run *p, const char *key,
                                               const char *json_value, kineto_error *err)
{
    return add_header_json(p, __func__, key, json_value, false, err);
}

kineto_status kineto_profile_run_preset_metadata_json(kineto_profile_run *p, const char *key,
                                                  const char *json_value, kineto_error *err)
{
    return add_header_json(p, __func__, key, json_value, true, err);
}

kineto_status kineto_profile_run_add_metadata(kineto_profile_run *p, const char *key, const char *text,
                                          kineto_error *err)
{
    if (!p || !key || !text)
        return kb_fail_null(err, __func__, "profile, key, text", p, key, text);
    size_t size = strlen(text);
    char *json = size < SIZE_MAX / 8 ? malloc(6 * size + 3) : NULL;
    if (json)
        *kb_json_escape(json, kb_string(text), NULL) = '\0';
    return put_header_line(p, key, json, false, err);
}

/* Adds the trace id to the header. False: out of memory. An id may be any text, so it is
 * escaped. */
static bool put_trace_id(kineto_profile_run *p)
{
    return !p->trace_id[0] || !kineto_profile_run_add_metadata(p, "trace_id", p->trace_id, NULL);
}

/* The header lines and ledger notes that one stop adds to its trace. A note for each kind of
 * warning and one for discarded events. */
typedef struct ledger_additions {
    KB_VEC(kt_build_header) header;
    kt_build_note notes[KINETO_CALL_COUNT + 1];
    uint32_t note_count;
} ledger_additions;

/* The texts stay the profile's. False: out of memory. */
static bool collect_header_lines(const kineto_profile_run *p, ledger_additions *a)
{
    for (size_t i = 0; i < p->header.count; i++) {
        const kp_header_line *line = &p->header.data[i];
        if (!kb_vec_push(&a->header, (kt_build_header){line->key, line->json_value}))
            return false;
    }
    return true;
}

/* Warnings and discarded events that no ledger reports yet. */
static void collect_ledger_notes(const kineto_profile_run *p, ledger_additions *a)
{
    for (uint32_t call = 0; call < KINETO_CALL_COUNT; call++)
        if (p->unreported & 1u << call)
            a->notes[a->note_count++] =
                (kt_build_note){"profile", kineto_call_warning((kineto_call)call),
                                "the schedule says so", 1, false};
    if (p->discarded > p->reported_discarded)
        a->notes[a->note_count++] =
            (kt_build_note){"profile", "events of incomplete cycles, discarded",
                            "the schedule went on before they were complete",
                            p->discarded - p->reported_discarded, false};
}

/* ---- the calls of a transition --------------------------------------------------------------- */

/* Writes a new id to p->next_id: the program's function decides, else a random UUID (RFC 4122,
 * version 4) as libkineto writes it. Without entropy, early at boot, the clock has to do. */
static void generate_trace_id(kineto_profile_run *p)
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

/* Creates the profiler of the next cycle. The new one is created before the old one is destroyed,
 * so that they share the recorder's memory. */
static kineto_status prepare_cycle(kineto_profile_run *p, kineto_error *err)
{
    kineto_profiler_config config = p->config.values;
    kineto_profiler *profiler;
    if (!config.trace_id) {
        generate_trace_id(p);
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

static kineto_status start_cycle(kineto_profile_run *p, kineto_error *err)
{
    kineto_status status = p->profiler ? KINETO_OK : prepare_cycle(p, err);
    return status ? status : kineto_profiler_start(p->profiler, err);
}

/* Drops the result of a cycle that ended before it was complete. It counts its events also if the
 * config exposes no list of them. */
static void discard_cycle(kineto_profile_run *p, kineto_profiler_result *result, kineto_action action)
{
    const kineto_trace *trace = kineto_profiler_result_trace(result);
    uint64_t count = action == KINETO_ACTION_RECORD && trace ? kineto_trace_count(trace) : 0;
    kineto_profiler_result_release(result);
    p->discarded += count;
    if (count)
        kb_log(KINETO_LOG_WARNING,
               "profile run: %" PRIu64 " events were discarded: their cycle ended at step %" PRIu64
               ", before it was complete",
               count, p->step);
}

/* Stops the profiler with header lines and notes in the trace. They count as reported only if the
 * trace is kept. */
static kineto_status stop_with_additions(kineto_profile_run *p, ledger_additions *a, bool keep,
                                         kineto_profiler_result **result, kineto_error *err)
{
    if (!put_trace_id(p) || !collect_header_lines(p, a))
        return kb_fail_memory(err, NULL);
    collect_ledger_notes(p, a);
    if (p->profiler->session) {
        ks_extras *extras = ks_session_extras(p->profiler->session);
        extras->header = a->header.data;
        extras->header_count = (uint32_t)a->header.count;
        extras->notes = a->notes;
        extras->note_count = a->note_count;
    }
    kineto_status status = kineto_profiler_stop(p->profiler, result, err);
    if (!status && keep) {
        p->unreported = 0;
        p->reported_discarded = p->discarded;
    }
    return status;
}

/* Stops the cycle after `action`. `keep`: the result becomes p->stopped; else it is discarded. The
 * session may free its memory if `next` needs no profiler. */
static kineto_status stop_cycle(kineto_profile_run *p, kineto_action action, kineto_action next,
                                bool keep, kineto_error *err)
{
    kineto_profiler_result *result = NULL;
    ledger_additions a = {.note_count = 0};
    if (!p->profiler || !p->profiler->running) /* its start failed and was reported then */
        return KINETO_OK;
    p->profiler->last = next == KINETO_ACTION_NONE || next == KINETO_ACTION_END;
    kineto_status status = stop_with_additions(p, &a, keep, &result, err);
    kb_vec_free(&a.header);
    if (keep)
        clear_header_lines(p, false);
    if (status) {
        kineto_profiler_destroy(p->profiler);
        p->profiler = NULL;
    } else if (keep) {
        kineto_profiler_result_release(p->stopped);
        p->stopped = result;
    } else {
        discard_cycle(p, result, action);
    }
    return status;
}

/* Adds the stopped result to the cycles, in place of the last one unless acc_events, and calls
 * on_trace_ready. */
static kineto_status hand_over_cycle(kineto_profile_run *p, kineto_error *err)
{
    if (!p->stopped)
        return KINETO_OK;
    if (!p->options.acc_events && p->cycles.count)
        kineto_profiler_result_release(p->cycles.data[--p->cycles.count]);
    if (!kb_vec_push(&p->cycles, p->stopped)) {
        kineto_profiler_result_release(p->stopped);
        p->stopped = NULL;
        return kb_fail_memory(err, NULL);
    }
    p->stopped = NULL;
    return p->options.on_trace_ready ? p->options.on_trace_ready(p, p->options.user, err)
                                     : KINETO_OK;
}

/* Logs a warning of the schedule once and notes it for the next ledger. */
static void warn_of_call(kineto_profile_run *p, kineto_call call)
{
    KB_ASSERT((unsigned)call < KINETO_CALL_COUNT);
    const char *text = kineto_call_warning(call);
    p->unreported |= 1u << call;
    if (text && !(p->warned & 1u << call))
        kb_log(KINETO_LOG_WARNING, "profile run: %s", text);
    p->warned |= 1u << call;
}

/* Makes the calls between two actions (schedule.c), in their order. All calls are made even if one
 * fails; the first failure is returned. A cycle whose preparation failed is not started. */
static kineto_status run_transition(kineto_profile_run *p, kineto_action previous, kineto_action next,
                                    kineto_error *err)
{
    KB_ASSERT((unsigned)previous < KINETO_ACTION_END && (unsigned)next <= KINETO_ACTION_END);
    kineto_call calls[KINETO_TRANSITION_CALLS];
    kineto_error ignored;
    kineto_status status = KINETO_OK, result = KINETO_OK, prepared = KINETO_OK;
    uint32_t count = kineto_schedule_transition(previous, next, calls);
    for (uint32_t i = 0; i < count; i++) {
        kineto_error *e = result ? &ignored : err;
        status = KINETO_OK;
        if (calls[i] == KINETO_CALL_PREPARE)
            status = prepared = prepare_cycle(p, e);
        else if (calls[i] == KINETO_CALL_START && !prepared)
            status = start_cycle(p, e);
        else if (calls[i] == KINETO_CALL_STOP)
            status = stop_cycle(p, previous, next,
                                i + 1 < count && calls[i + 1] == KINETO_CALL_READY, e);
        else if (calls[i] == KINETO_CALL_READY)
            status = hand_over_cycle(p, e);
        else if (calls[i] != KINETO_CALL_START)
            warn_of_call(p, calls[i]);
        result = result ? result : status;
    }
    if (next == KINETO_ACTION_NONE || next == KINETO_ACTION_END) {
        kineto_profiler_destroy(p->profiler);
        p->profiler = NULL;
    }
    return result;
}

/* ---- steps ----------------------------------------------------------------------------------- */

/* While a profile runs it marks steps itself: iterations that the program counts are not marked
 * then. */
static void set_profile_running(kineto_profile_run *p, bool on)
{
    if (p->running != on)
        kineto_rt_steps_marked(on);
    p->running = on;
}

/* The action of a step by the program's function or by the schedule; NONE for an unknown number. */
static kineto_action action_of_step(const kineto_profile_run *p, uint64_t step)
{
    if (!p->options.action)
        return kineto_schedule_action(p->options.schedule, step);
    kineto_action action = p->options.action(step, p->options.user);
    return (unsigned)action < KINETO_ACTION_COUNT ? action : KINETO_ACTION_NONE;
}

/* Opens the annotation "ProfilerStep#N". Without a schedule there are no steps. */
static void begin_step_annotation(kineto_profile_run *p)
{
    KINETO_FUNCTION_SITE(site, KINETO_SCOPE_USER_SCOPE, "ProfilerStep");
    char name[48];
    kineto_function_info info;
    kineto_function_info_init(&info);
    if (!p->options.schedule && !p->options.action)
        return;
    snprintf(name, sizeof name, "ProfilerStep#%" PRIu64, p->step);
    info.name = name;
    kineto_function_begin_info(&p->annotation, &site, &info);
    p->annotation_thread = kb_os_tid();
}

/* Ends annotations of this thread that another thread left open, the innermost first. */
static void end_own_orphans(kineto_profile_run *p)
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

/* A range can only end on its own thread: from another thread the annotation becomes an orphan,
 * which its thread ends at its next call. */
static void end_step_annotation(kineto_profile_run *p)
{
    end_own_orphans(p);
    if (p->annotation_thread == kb_os_tid())
        kineto_function_end(&p->annotation);
    else if (p->annotation_thread && p->annotation.state)
        (void)kb_vec_push(&p->orphans, (kp_orphan){p->annotation, p->annotation_thread});
    p->annotation_thread = 0;
}

/* Refuses calls from the program's functions that a step calls: the rest of that step would undo
 * them. */
static kineto_status check_not_in_step(const kineto_profile_run *p, kineto_error *err)
{
    return p->busy ? kb_fail(err, KINETO_E_STATE,
                             "the profile run is within a step, start or stop that called this "
                             "function; call it after that has returned")
                   : KINETO_OK;
}

/* Ends a step, start or stop: destroys the profile if a function of the program asked for that
 * meanwhile. */
static kineto_status leave_step(kineto_profile_run *p, kineto_status status)
{
    KB_ASSERT(p->busy);
    p->busy = false;
    if (p->doomed)
        kineto_profile_run_destroy(p);
    return status;
}

/* The transition into the first step. A failure leaves the profile stopped. */
static kineto_status begin_profile(kineto_profile_run *p, kineto_error *err)
{
    p->current = action_of_step(p, p->step);
    kineto_status status = run_transition(p, KINETO_ACTION_NONE, p->current, err);
    if (status) {
        kineto_profiler_destroy(p->profiler);
        p->profiler = NULL;
        return status;
    }
    set_profile_running(p, true);
    p->first_step = p->step;
    p->base_step = kineto_profiler_step_count();
    begin_step_annotation(p);
    return KINETO_OK;
}

kineto_status kineto_profile_run_start(kineto_profile_run *p, kineto_error *err)
{
    if (!p)
        return kb_fail_null(err, __func__, "profile", p);
    kineto_status status = check_not_in_step(p, err);
    if (status)
        return status;
    if (p->running)
        return kb_fail(err, KINETO_E_STATE, "the profile run is started already; stop it first");
    p->busy = true;
    return leave_step(p, begin_profile(p, err));
}

static kineto_status check_profile_started(const kineto_profile_run *p, const char *function,
                                           kineto_error *err)
{
    if (!p)
        return kb_fail_null(err, function, "profile", p);
    kineto_status status = check_not_in_step(p, err);
    if (!status && !p->running)
        status = kb_fail(err, KINETO_E_STATE, "the profile run is not started; start it first");
    return status;
}

/* The transition from a step into the next one. */
static kineto_status advance_step(kineto_profile_run *p, kineto_error *err)
{
    end_step_annotation(p);
    p->step++;
    kineto_action previous = p->current;
    p->current = action_of_step(p, p->step);
    kineto_status status = run_transition(p, previous, p->current, err);
    /* Several profiles may follow one loop: the process counts the steps of the furthest. */
    if (kineto_profiler_step_count() - p->base_step < p->step - p->first_step)
        kineto_profiler_step();
    begin_step_annotation(p);
    return status;
}

kineto_status kineto_profile_run_step(kineto_profile_run *p, kineto_error *err)
{
    kineto_status status = check_profile_started(p, __func__, err);
    if (status)
        return status;
    p->busy = true;
    return leave_step(p, advance_step(p, err));
}

kineto_status kineto_profile_run_stop(kineto_profile_run *p, kineto_error *err)
{
    kineto_status status = check_profile_started(p, __func__, err);
    if (status)
        return status;
    p->busy = true;
    end_step_annotation(p);
    set_profile_running(p, false);
    return leave_step(p, run_transition(p, p->current, KINETO_ACTION_END, err));
}

kineto_status kineto_profile_run_pause(kineto_profile_run *p, bool paused, kineto_error *err)
{
    kineto_status status = check_profile_started(p, __func__, err);
    if (status)
        return status;
    if (p->current != KINETO_ACTION_RECORD && p->current != KINETO_ACTION_RECORD_AND_SAVE)
        return kb_fail(err, KINETO_E_STATE,
                       "the profile run records no cycle that could be paused");
    return kineto_profiler_pause(p->profiler, paused, err);
}

void kineto_profile_run_destroy(kineto_profile_run *p)
{
    if (!p)
        return;
    p->doomed = true;
    if (p->busy)
        return;
    end_step_annotation(p);
    set_profile_running(p, false);
    end_own_orphans(p);
    kb_vec_free(&p->orphans);
    kineto_profiler_destroy(p->profiler);
    for (size_t i = 0; i < p->cycles.count; i++)
        kineto_profiler_result_release(p->cycles.data[i]);
    kb_vec_free(&p->cycles);
    kineto_profiler_result_release(p->stopped);
    clear_header_lines(p, true);
    kb_vec_free(&p->header);
    kp_config_free(&p->config);
    free(p);
}

/* ---- questions ------------------------------------------------------------------------------- */

uint64_t kineto_profile_run_step_number(const kineto_profile_run *p) { return p ? p->step : 0; }

kineto_action kineto_profile_run_current_action(const kineto_profile_run *p)
{
    return p && p->running ? p->current : KINETO_ACTION_NONE;
}

const char *kineto_profile_run_trace_id(const kineto_profile_run *p) { return p ? p->trace_id : ""; }

uint64_t kineto_profile_run_discarded(const kineto_profile_run *p) { return p ? p->discarded : 0; }

kineto_profiler_result *kineto_profile_run_result(const kineto_profile_run *p)
{
    return p && p->cycles.count ? p->cycles.data[p->cycles.count - 1] : NULL;
}

uint32_t kineto_profile_run_cycle_count(const kineto_profile_run *p)
{
    return p ? (uint32_t)p->cycles.count : 0;
}

kineto_profiler_result *kineto_profile_run_cycle(const kineto_profile_run *p, uint32_t index)
{
    return index < kineto_profile_run_cycle_count(p) ? p->cycles.data[index] : NULL;
}
