/* speedscope's file format: a profile of opens and closes for each lane of each track, over one
 * list of frames. Times are nanoseconds since the beginning of the trace. */
#include "export/stacks.h"

#define EVENT_ROOM 80u

typedef struct scope {
    const ke_job *job;
    const kineto_trace *trace;
    kb_json json;
    ke_stacks frames; /* its frames only */
    KB_VEC(kineto_row) lane_rows;
    KB_VEC(uint64_t) lane_first;
    KB_VEC(kineto_row) open;
    uint64_t last; /* time of the event before */
    uint64_t events, profiles, most_rows, active;
    uint64_t forms[4];
    bool failed;
} scope;

static int64_t start_of(const scope *s, kineto_row row)
{
    return kt_block_at(s->trace, row / KT_BLOCK_ROWS)->start_ns[row % KT_BLOCK_ROWS];
}

static int64_t end_of(const scope *s, kineto_row row)
{
    return kt_block_at(s->trace, row / KT_BLOCK_ROWS)->end_ns[row % KT_BLOCK_ROWS];
}

static uint32_t form_of(const scope *s, kineto_row row)
{
    return kt_block_at(s->trace, row / KT_BLOCK_ROWS)->form[row % KT_BLOCK_ROWS];
}

static uint32_t frame_of(scope *s, kineto_row row)
{
    const kt_block *b = kt_block_at(s->trace, row / KT_BLOCK_ROWS);
    uint32_t i = row % KT_BLOCK_ROWS;
    uint32_t frame = ke_stacks_frame(&s->frames, s->trace, b->name[i], b->kind[i]);
    s->failed |= frame == UINT32_MAX;
    return frame;
}

static uint64_t since(const scope *s, int64_t ns)
{
    return (uint64_t)ns - (uint64_t)s->job->census.start_ns;
}

/* ---- events --------------------------------------------------------------------------------------- */

static void put_event(scope *s, char type, kineto_row row, int64_t ns, bool first)
{
    kb_sink *sink = s->job->sink;
    char *out = kb_sink_reserve(sink, EVENT_ROOM), *at = out;
    s->last = KB_MAX(s->last, since(s, ns)); /* never backwards: the lanes see to that */
    at += snprintf(at, 40, "%s{\"type\":\"%c\",\"frame\":", first ? "" : ",\n", type);
    at = kb_json_format_uint(at, frame_of(s, row));
    memcpy(at, ",\"at\":", 6);
    at = kb_json_format_uint(at + 6, s->last);
    *at++ = '}';
    kb_sink_advance(sink, (size_t)(at - out));
    s->events++;
}

/* Close what has ended by then: rows of a lane nest, so nothing that goes on is above it. */
static void close_until(scope *s, int64_t ns)
{
    while (s->open.count && end_of(s, s->open.data[s->open.count - 1]) <= ns) {
        kineto_row top = s->open.data[--s->open.count];
        put_event(s, 'C', top, end_of(s, top), false);
    }
}

static void put_events(scope *s, const kineto_row *rows, uint64_t count)
{
    s->last = 0;
    s->open.count = 0;
    for (uint64_t i = 0; i < count && !s->failed; i++) {
        close_until(s, start_of(s, rows[i]));
        put_event(s, 'O', rows[i], start_of(s, rows[i]), i == 0);
        s->failed |= !kb_vec_push(&s->open, rows[i]);
        s->forms[form_of(s, rows[i])]++;
    }
    close_until(s, INT64_MAX);
}

/* ---- profiles ------------------------------------------------------------------------------------- */

static void put_name(scope *s, uint32_t track, uint32_t lane)
{
    kineto_track view;
    char name[640];
    kineto_trace_track(s->trace, track, &view);
    ke_label process = ke_process_label(s->trace, view.process),
             row = ke_track_label(s->trace, track);
    int n = snprintf(name, sizeof name, "%.*s / %.*s", (int)process.size, process.text,
                     (int)row.size, row.text);
    if (lane)
        n += snprintf(name + n, sizeof name - (size_t)n, " (lane %u)", lane + 1);
    kb_json_put_string(&s->json, "name", (kineto_string){name, (size_t)n});
}

static void begin_profile(scope *s)
{
    kb_json_newline(&s->json);
    kb_json_object_begin(&s->json);
    kb_json_put_string(&s->json, "type", kb_string("evented"));
    kb_json_put_string(&s->json, "unit", kb_string("nanoseconds"));
    kb_json_put_uint(&s->json, "startValue", 0);
    kb_json_put_uint(&s->json, "endValue", since(s, s->job->census.end_ns));
}

static void put_lane(scope *s, uint32_t track, uint32_t lane, const kineto_row *rows,
                     uint64_t count)
{
    if (count == 0)
        return;
    begin_profile(s);
    put_name(s, track, lane);
    kb_json_key_z(&s->json, "events");
    kb_json_array_begin(&s->json);
    put_events(s, rows, count);
    kb_json_array_end(&s->json);
    kb_json_object_end(&s->json);
    if (count > s->most_rows) {
        s->most_rows = count;
        s->active = s->profiles;
    }
    s->profiles++;
}

/* Sort what has a length of a track by lane, keeping its order. lane_first gets where each begins.
 */
static bool sort_lanes(scope *s, const kineto_row *rows, const kineto_track *track)
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

static void put_track(scope *s, uint32_t index)
{
    kineto_track track;
    kineto_trace_track(s->trace, index, &track);
    const kineto_row *rows = kineto_trace_track_rows(s->trace, index);
    if (track.count == 0)
        return;
    s->failed |= !rows || !sort_lanes(s, rows, &track);
    for (uint32_t lane = 0; !s->failed && lane < KB_MAX(track.lane_count, 1u); lane++) {
        const uint64_t *first = s->lane_first.data;
        put_lane(s, index, lane, s->lane_rows.data + first[lane], first[lane + 1] - first[lane]);
    }
    ke_progress(s->job, s->forms[KINETO_FORM_SLICE] + s->forms[KINETO_FORM_ASYNC]);
}

/* ---- the file --------------------------------------------------------------------------------------- */

/* The program wants at least one profile. */
static void put_empty(scope *s)
{
    begin_profile(s);
    kb_json_put_string(&s->json, "name", kb_string("nothing with a length"));
    kb_json_key_z(&s->json, "events");
    kb_json_array_begin(&s->json);
    kb_json_array_end(&s->json);
    kb_json_object_end(&s->json);
}

static void put_frames(scope *s)
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
        }
        kb_json_object_end(j);
    }
    kb_json_array_end(j);
    kb_json_object_end(j);
}

static void write_file(scope *s)
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
        put_track(s, i);
    if (s->profiles == 0)
        put_empty(s);
    kb_json_array_end(j);
    kb_json_put_uint(j, "activeProfileIndex", s->active);
    put_frames(s);
    kb_json_object_end(j);
    kb_sink_write(s->job->sink, "\n", 1);
}

kineto_status ke_speedscope_write(ke_job *job, kineto_error *err)
{
    scope s = {.job = job, .trace = job->trace};
    kb_json_init(&s.json, job->sink);
    write_file(&s);
    ke_stacks_account(job, s.forms);
    job->result->records = s.events;
    job->result->record_noun = "events";
    job->result->replaced_bytes = s.json.replaced_bytes;
    kb_vec_free(&s.lane_rows);
    kb_vec_free(&s.lane_first);
    kb_vec_free(&s.open);
    ke_stacks_free(&s.frames);
    return s.failed ? ke_fail_memory(job, err) : KINETO_OK;
}
