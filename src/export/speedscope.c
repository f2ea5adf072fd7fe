/* speedscope's file format: for each lane of each track a profile over one shared list of frames.
 * Ranges are open and close events, at nanoseconds since the start of the trace. Sampled stacks are
 * a list of stacks in the order of time, each with the CPU time that it stands for. */
#include "export/sampled_walk.h"
#include "export/stacks.h"

#define EVENT_ROOM 80u

typedef struct speedscope_writer {
    const ke_job *job;
    const kineto_trace *trace;
    kb_json json;
    ke_stacks frames; /* only its list of frames is used */
    KB_VEC(kineto_row) lane_rows;
    KB_VEC(uint64_t) lane_first;
    KB_VEC(kineto_row) open;
    ke_sampled_walk walk;
    KB_VEC(int64_t) weights; /* of the sampled stacks that were written */
    uint64_t last_ns; /* time of the previous event of the profile */
    uint64_t events, profiles;
    /* The profile with the most rows, which is shown first. */
    uint64_t max_rows, active;
    uint64_t forms[4];
    bool failed;
} speedscope_writer;

static int64_t row_start_ns(const speedscope_writer *s, kineto_row row)
{
    return kt_block_at(s->trace, row / KT_BLOCK_ROWS)->start_ns[row % KT_BLOCK_ROWS];
}

static int64_t row_end_ns(const speedscope_writer *s, kineto_row row)
{
    return kt_block_at(s->trace, row / KT_BLOCK_ROWS)->end_ns[row % KT_BLOCK_ROWS];
}

static uint32_t row_form(const speedscope_writer *s, kineto_row row)
{
    return kt_block_at(s->trace, row / KT_BLOCK_ROWS)->form[row % KT_BLOCK_ROWS];
}

/* Index of the row's frame; sets `failed` if memory runs out. */
static uint32_t row_frame(speedscope_writer *s, kineto_row row)
{
    uint32_t frame = ke_stacks_frame(&s->frames, s->trace, row);
    s->failed |= frame == UINT32_MAX;
    return frame;
}

static uint64_t ns_since_start(const speedscope_writer *s, int64_t ns)
{
    return (uint64_t)ns - (uint64_t)s->job->census.start_ns;
}

/* ---- events ---------------------------------------------------------------------------------- */

static void put_speedscope_event(speedscope_writer *s, char type, kineto_row row, int64_t ns,
                                 bool first)
{
    kb_sink *sink = s->job->sink;
    char *out = kb_sink_reserve(sink, EVENT_ROOM), *at = out;
    s->last_ns = KB_MAX(
        s->last_ns, ns_since_start(s, ns)); /* rows of a lane nest, so time never runs backwards */
    at += snprintf(at, 40, "%s{\"type\":\"%c\",\"frame\":", first ? "" : ",\n", type);
    at = kb_json_format_uint(at, row_frame(s, row));
    memcpy(at, ",\"at\":", 6);
    at = kb_json_format_uint(at + 6, s->last_ns);
    *at++ = '}';
    KB_ASSERT((size_t)(at - out) <= EVENT_ROOM);
    kb_sink_advance(sink, (size_t)(at - out));
    s->events++;
}

/* Closes the ranges that have ended by `ns`. Rows of a lane nest, so an open range never lies below
 * one that has ended. */
static void close_frames_until(speedscope_writer *s, int64_t ns)
{
    while (s->open.count && row_end_ns(s, s->open.data[s->open.count - 1]) <= ns) {
        kineto_row top = s->open.data[--s->open.count];
        put_speedscope_event(s, 'C', top, row_end_ns(s, top), false);
    }
}

/* Opens and closes the rows of a lane in the order of time. */
static void put_lane_events(speedscope_writer *s, const kineto_row *rows, uint64_t count)
{
    s->last_ns = 0;
    s->open.count = 0;
    for (uint64_t i = 0; i < count && !s->failed; i++) {
        close_frames_until(s, row_start_ns(s, rows[i]));
        put_speedscope_event(s, 'O', rows[i], row_start_ns(s, rows[i]), i == 0);
        s->failed |= !kb_vec_push(&s->open, rows[i]);
        s->forms[row_form(s, rows[i])]++;
    }
    close_frames_until(s, INT64_MAX);
}

/* ---- sampled stacks -------------------------------------------------------------------------- */

/* Writes a stack; its weight follows when all are written. */
static bool put_sampled_stack(void *context, const ke_sampled_piece *piece)
{
    speedscope_writer *s = context;
    if (piece->cpu_ns == 0)
        return true;
    kb_json_array_begin(&s->json);
    for (size_t i = 0; i < piece->depth; i++)
        kb_json_uint(&s->json, row_frame(s, s->walk.rows[piece->stack[i]]));
    kb_json_array_end(&s->json);
    s->events++;
    return !s->failed && kb_vec_push(&s->weights, piece->cpu_ns);
}

static bool are_sampled(const speedscope_writer *s, const kineto_row *rows, uint64_t count)
{
    uint64_t i = 0;
    while (i < count && ke_row_is_kind(s->trace, rows[i], KINETO_KIND_CPU_SAMPLE))
        i++;
    return i == count;
}

/* ---- profiles -------------------------------------------------------------------------------- */

static void put_profile_name(speedscope_writer *s, uint32_t track, uint32_t lane)
{
    kineto_track view;
    char name[640];
    kineto_trace_track(s->trace, track, &view);
    uint32_t tid;
    bool of_thread = ke_cpu_track(s->trace, track, &tid) != KE_CPU_ROW_NONE;
    ke_label process = ke_process_label(s->trace, view.process);
    ke_label row =
        of_thread ? ke_cpu_thread_label(s->trace, track) : ke_track_label(s->trace, track);
    int n = snprintf(name, sizeof name, "%.*s / %.*s", (int)process.size, process.text,
                     (int)row.size, row.text);
    if (lane)
        n += snprintf(name + n, sizeof name - (size_t)n, " (lane %u)", lane + 1);
    kb_json_put_string(&s->json, "name", (kineto_string){name, (size_t)n});
}

static void begin_profile_of(speedscope_writer *s, const char *type)
{
    kb_json_newline(&s->json);
    kb_json_object_begin(&s->json);
    kb_json_put_string(&s->json, "type", kb_string(type));
    kb_json_put_string(&s->json, "unit", kb_string("nanoseconds"));
    kb_json_put_uint(&s->json, "startValue", 0);
}

/* All profiles of events have the same range, so that they line up. */
static void begin_profile(speedscope_writer *s)
{
    begin_profile_of(s, "evented");
    kb_json_put_uint(&s->json, "endValue", ns_since_start(s, s->job->census.end_ns));
}

/* Stacks, weights and, as the end of the profile, the sum of the weights. */
static void put_sampled_members(speedscope_writer *s)
{
    uint64_t sum = 0;
    s->weights.count = 0;
    kb_json_key_z(&s->json, "samples");
    kb_json_array_begin(&s->json);
    s->failed |= !ke_sampled_walk_run(&s->walk);
    kb_json_array_end(&s->json);
    kb_json_key_z(&s->json, "weights");
    kb_json_array_begin(&s->json);
    for (size_t i = 0; i < s->weights.count; i++) {
        kb_json_int(&s->json, s->weights.data[i]);
        sum += (uint64_t)s->weights.data[i];
    }
    kb_json_array_end(&s->json);
    kb_json_put_uint(&s->json, "endValue", sum);
}

static void put_sampled_profile(speedscope_writer *s, uint32_t track, uint32_t lane,
                                const kineto_row *rows, uint64_t count)
{
    begin_profile_of(s, "sampled");
    put_profile_name(s, track, lane);
    s->walk.trace = s->trace;
    s->walk.rows = rows;
    s->walk.count = count;
    s->walk.piece = put_sampled_stack;
    s->walk.context = s;
    for (uint64_t i = 0; i < count; i++)
        s->forms[row_form(s, rows[i])]++;
    put_sampled_members(s);
    kb_json_object_end(&s->json);
}

static void put_evented_profile(speedscope_writer *s, uint32_t track, uint32_t lane,
                                const kineto_row *rows, uint64_t count)
{
    begin_profile(s);
    put_profile_name(s, track, lane);
    kb_json_key_z(&s->json, "events");
    kb_json_array_begin(&s->json);
    put_lane_events(s, rows, count);
    kb_json_array_end(&s->json);
    kb_json_object_end(&s->json);
}

/* Lanes without rows are left out. */
static void put_lane_profile(speedscope_writer *s, uint32_t track, uint32_t lane,
                             const kineto_row *rows, uint64_t count)
{
    if (count == 0)
        return;
    if (are_sampled(s, rows, count))
        put_sampled_profile(s, track, lane, rows, count);
    else
        put_evented_profile(s, track, lane, rows, count);
    if (count > s->max_rows) {
        s->max_rows = count;
        s->active = s->profiles;
    }
    s->profiles++;
}

/* Sorts the rows of a track that have a length by lane, keeping their order (counting sort).
 * lane_first[lane] is where each lane begins. */
static bool sort_rows_by_lane(speedscope_writer *s, const kineto_row *rows,
                              const kineto_track *track)
{
    uint32_t lanes = KB_MAX(track->lane_count, 1u);
    if (!kb_vec_reserve(&s->lane_rows, track->count) ||
        !kb_vec_reserve(&s->lane_first, (size_t)lanes + 2))
        return false;
    uint64_t *first = s->lane_first.data;
    memset(first, 0, ((size_t)lanes + 2) * sizeof *first);
    for (uint64_t i = 0; i < track->count; i++)
        if (ke_row_has_frame(s->trace, rows[i]))
            first[KB_MIN(kineto_trace_lane(s->trace, rows[i]), lanes - 1) + 2]++;
    for (uint32_t lane = 1; lane <= lanes; lane++)
        first[lane + 1] += first[lane];
    for (uint64_t i = 0; i < track->count; i++)
        if (ke_row_has_frame(s->trace, rows[i]))
            s->lane_rows
                .data[first[KB_MIN(kineto_trace_lane(s->trace, rows[i]), lanes - 1) + 1]++] =
                rows[i];
    return true;
}

static void put_track_profiles(speedscope_writer *s, uint32_t index)
{
    kineto_track track;
    kineto_trace_track(s->trace, index, &track);
    const kineto_row *rows = kineto_trace_track_rows(s->trace, index);
    if (track.count == 0)
        return;
    s->failed |= !rows || !sort_rows_by_lane(s, rows, &track);
    for (uint32_t lane = 0; !s->failed && lane < KB_MAX(track.lane_count, 1u); lane++) {
        const uint64_t *first = s->lane_first.data;
        put_lane_profile(s, index, lane, s->lane_rows.data + first[lane],
                         first[lane + 1] - first[lane]);
    }
    ke_progress(s->job, s->forms[KINETO_FORM_SLICE] + s->forms[KINETO_FORM_ASYNC]);
}

/* ---- the file -------------------------------------------------------------------------------- */

/* speedscope requires at least one profile. */
static void put_empty_profile(speedscope_writer *s)
{
    begin_profile(s);
    kb_json_put_string(&s->json, "name", kb_string("nothing with a length"));
    kb_json_key_z(&s->json, "events");
    kb_json_array_begin(&s->json);
    kb_json_array_end(&s->json);
    kb_json_object_end(&s->json);
}

/* The frames of all profiles; it is complete only after them. */
static void put_frame_list(speedscope_writer *s)
{
    kb_json *j = &s->json;
    kb_json_key_z(j, "shared");
    kb_json_object_begin(j);
    kb_json_key_z(j, "frames");
    kb_json_array_begin(j);
    for (size_t i = 0; i < s->frames.frames.count; i++) {
        const ke_frame *f = &s->frames.frames.data[i];
        kineto_string file, function;
        uint32_t line;
        kb_json_newline(j);
        kb_json_object_begin(j);
        kb_json_put_string(j, "name", f->text);
        if (f->kind == KINETO_KIND_PYTHON_FUNCTION &&
            ke_parse_python_name(f->text, &file, &line, &function)) {
            kb_json_put_string(j, "file", file);
            kb_json_put_uint(j, "line", line);
        } else if (f->file.size) {
            kb_json_put_string(j, "file", f->file);
        }
        kb_json_object_end(j);
    }
    kb_json_array_end(j);
    kb_json_object_end(j);
}

/* The order of members is free, so the frames come after the profiles that collect them. */
static void write_speedscope_file(speedscope_writer *s)
{
    kb_json *j = &s->json;
    char exporter[64];
    snprintf(exporter, sizeof exporter, "ckineto %s", kineto_version());
    kb_json_object_begin(j);
    kb_json_put_string(j, "$schema",
                       kb_string("https://www.speedscope.app/file-format-schema.json"));
    kb_json_put_string(j, "name", kb_string(s->job->trace_name));
    kb_json_put_string(j, "exporter", kb_string(exporter));
    kb_json_key_z(j, "profiles");
    kb_json_array_begin(j);
    for (uint32_t i = 0; !s->failed && i < kineto_trace_track_count(s->trace); i++)
        put_track_profiles(s, i);
    if (s->profiles == 0)
        put_empty_profile(s);
    kb_json_array_end(j);
    kb_json_put_uint(j, "activeProfileIndex", s->active);
    put_frame_list(s);
    kb_json_object_end(j);
    kb_sink_write(s->job->sink, "\n", 1);
}

static uint64_t count_states(const kineto_trace *t)
{
    uint64_t count = 0;
    for (kineto_row row = 0; row < kineto_trace_count(t); row++) {
        uint32_t form = kt_block_at(t, row / KT_BLOCK_ROWS)->form[row % KT_BLOCK_ROWS];
        count += ke_row_is_kind(t, row, KINETO_KIND_THREAD_STATE) && !kt_row_is_summary(t, row) &&
                 (form == KINETO_FORM_SLICE || form == KINETO_FORM_ASYNC);
    }
    return count;
}

kineto_status ke_speedscope_write(ke_job *job, kineto_error *err)
{
    speedscope_writer s = {.job = job, .trace = job->trace};
    kb_json_init(&s.json, job->sink);
    write_speedscope_file(&s);
    memcpy(s.frames.forms, s.forms, sizeof s.forms);
    s.frames.states = count_states(job->trace);
    ke_stacks_account(job, &s.frames);
    job->result->records = s.events;
    job->result->record_noun = "events";
    job->result->replaced_bytes = s.json.replaced_bytes;
    kb_vec_free(&s.lane_rows);
    kb_vec_free(&s.lane_first);
    kb_vec_free(&s.open);
    ke_sampled_walk_free(&s.walk);
    kb_vec_free(&s.weights);
    ke_stacks_free(&s.frames);
    return s.failed ? ke_fail_memory(job, err) : KINETO_OK;
}
