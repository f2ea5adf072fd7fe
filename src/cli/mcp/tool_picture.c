/* The tool `timeline_picture`: an image of a part of the timeline, with its legend as text; or the picture itself as
 * text, for clients without images. */
#include "cli/mcp/picture.h"
#include "cli/mcp/mcp.h"
#include "cli/time_range.h"

#define IMAGE_WIDTH     800u
#define TEXT_WIDTH      72u
#define MAX_IMAGE_BYTES 32768u

/* ---- which part ------------------------------------------------------------------------------ */

/* The window of the steps. */
static kineto_status find_step_window(const kineto_trace *trace, const char *steps, int64_t *from, int64_t *to,
                                      kineto_error *err)
{
    kineto_selection how = {.size = sizeof how, .use = KINETO_SELECT_STEPS};
    kineto_trace *part = NULL;
    if (!kc_parse_number_range(steps, &how.first_step, &how.last_step))
        return kb_fail(err, KINETO_E_ARGUMENT, "argument 'steps' needs N or N..M, not '%.80s'", steps);
    kineto_status status = kineto_trace_select(trace, &how, &part, err);
    if (!status)
        kineto_trace_window(part, from, to);
    kineto_trace_release(part);
    return status;
}

static kineto_status choose_window(const kc_mcp_call *call, const kineto_trace *trace, int64_t *from, int64_t *to,
                                   kineto_error *err)
{
    const char *time = kc_mcp_text(call, "time"), *steps = kc_mcp_text(call, "steps");
    int64_t first, last;
    if (time && steps)
        return kb_fail(err, KINETO_E_ARGUMENT, "give 'time' or 'steps', not both");
    if (steps)
        return find_step_window(trace, steps, from, to, err);
    kineto_trace_window(trace, from, to);
    if (time && !kc_parse_time_range(time, trace, &first, &last))
        return kb_fail(err, KINETO_E_ARGUMENT, "argument 'time' needs %s, not '%.80s'", KC_TIME_RANGE_FORM, time);
    if (time) {
        *from = KB_MAX(*from, first);
        *to = KB_MIN(*to, last);
    }
    return *from < *to ? KINETO_OK
                       : kb_fail(err, KINETO_E_NOT_FOUND, "this part of the trace is empty: its window has %s",
                                 kb_duration(kb_length_ns(*from, *to)).s);
}

/* ---- the answer ------------------------------------------------------------------------------ */

/* A letter for each name of the legend, '+' for others, '.' where nothing runs. */
static char choose_letter(uint32_t name)
{
    return name == UINT32_MAX ? '.' : name < KC_PICTURE_NAMES ? (char)('A' + name) : '+';
}

static void put_text_row(kb_json *j, const kc_picture *p, uint32_t row)
{
    char text[TEXT_WIDTH];
    for (uint32_t x = 0; x < p->width; x++)
        text[x] = choose_letter(kc_picture_name_at(p, row, x));
    kb_json_string(j, (kineto_string){text, p->width});
}

/* Lanes with their numbers; as text with their rows. */
static kineto_status put_lane(kb_json *j, void *context, uint64_t index, uint64_t limit, kineto_error *err)
{
    const kc_picture *p = context;
    const kc_picture_lane *lane = &p->lanes[index];
    ke_label label = kc_picture_label(p, (uint32_t)index);
    (void)err;
    kb_json_object_begin(j);
    kb_json_put_uint(j, "lane", index + 1);
    kc_mcp_put_member(j, "label", (kineto_string){label.text, label.size}, limit);
    kb_json_put_double(j, "busy_pct",
                       (double)(int64_t)(1000 * KB_MIN(lane->covered_ns / (double)(p->to_ns - p->from_ns), 1.0)) / 10);
    if (p->width == TEXT_WIDTH) {
        kb_json_key_z(j, "rows");
        kb_json_array_begin(j);
        for (uint32_t k = 0; k < lane->levels; k++)
            put_text_row(j, p, lane->row + k);
        kb_json_array_end(j);
    }
    kb_json_object_end(j);
    return KINETO_OK;
}

static void put_names(kb_json *j, const kc_picture *p, bool is_text)
{
    enum { NAME_BYTES = 80 };
    kb_json_key_z(j, "names");
    kb_json_array_begin(j);
    for (uint32_t i = 0; i < p->name_count; i++) {
        char letter[] = {choose_letter(i), '\0'};
        ke_label name = kc_picture_name_of(p, i);
        kb_json_object_begin(j);
        kb_json_put_string(j, is_text ? "letter" : "colour", kb_string(is_text ? letter : kc_picture_colour(i)));
        kb_json_put_us(j, "us", (int64_t)p->names[i].ns);
        kc_mcp_put_member(j, "name", (kineto_string){name.text, name.size}, NAME_BYTES);
        kb_json_object_end(j);
    }
    kb_json_array_end(j);
}

static kineto_status answer_picture(kc_mcp_call *call, kc_picture *p, kineto_error *err)
{
    kb_json *j = kc_mcp_begin(call, "ckineto.mcp_picture/1", err);
    if (!j)
        return err->code;
    kb_json_put_us(j, "at_us", p->from_ns - p->start_ns);
    kb_json_put_us(j, "dur_us", p->to_ns - p->from_ns);
    kb_json_put_uint(j, "lanes_left_out", p->lanes_left);
    put_names(j, p, p->width == TEXT_WIDTH);
    kc_mcp_page page = {.key = "lanes", .limit = KC_PICTURE_LANES, .count = p->lane_count, .text_limit = 80,
                        .put = put_lane, .context = p};
    kineto_status status = kc_mcp_put_page(call, &page, err);
    kb_json_object_end(j);
    return status;
}

/* ---- images ---------------------------------------------------------------------------------- */

static kineto_status take_image(kc_mcp_call *call, kb_sink *sink, const char *type, kineto_error *err)
{
    free(call->image);
    call->image = NULL;
    call->image_type = type;
    return kb_sink_take(sink, &call->image, &call->image_bytes, err);
}

static kineto_status draw_image(kc_mcp_call *call, const kc_picture *p, bool is_svg, kineto_error *err)
{
    kb_sink *sink;
    kineto_status status = kb_sink_open_memory(KB_COMPRESS_NONE, &sink, err);
    if (status)
        return status;
    if (is_svg)
        kc_picture_write_svg(p, sink);
    else
        status = kc_picture_write_png(p, sink, err);
    if (!status)
        status = take_image(call, sink, is_svg ? "image/svg+xml" : "image/png", err);
    kb_sink_abort(sink);
    return status;
}

/* Fewer cells make a smaller image. */
static kineto_status run_picture(kc_mcp_call *call, kineto_error *err)
{
    const char *format = kc_mcp_text(call, "format");
    bool is_text = format && strcmp(format, "text") == 0, is_svg = format && strcmp(format, "svg") == 0;
    uint32_t width = is_text ? TEXT_WIDTH : IMAGE_WIDTH, lanes = (uint32_t)kc_mcp_number(call, "lanes");
    int64_t from, to;
    kc_mcp_trace *t;
    kc_picture p = {.cells = NULL};
    kineto_status status = kc_mcp_open_trace(call, &t, err);
    if (!status)
        status = choose_window(call, t->trace, &from, &to, err);
    for (bool is_small = false; !status && !is_small; width /= 2) {
        kc_picture_free(&p);
        status = kc_picture_make(t->trace, from, to, width, lanes, &p, err);
        if (!status && !is_text)
            status = draw_image(call, &p, is_svg, err);
        is_small = is_text || call->image_bytes <= MAX_IMAGE_BYTES || width <= TEXT_WIDTH * 2;
    }
    if (!status && !p.lane_count)
        status = kb_fail(err, KINETO_E_NOT_FOUND, "no activity has a duration in this part of the trace");
    if (!status)
        status = answer_picture(call, &p, err);
    kc_picture_free(&p);
    return status;
}

static const kc_mcp_argument picture_arguments[] = {
    KC_MCP_TRACE,
    {"time", KC_MCP_TEXT, false, 0, 0, 0, NULL,
     "A:B: +1.5s:+2s from the start, -200ms: from the end, 10%:20%; the whole trace without it"},
    {"steps", KC_MCP_TEXT, false, 0, 0, 0, NULL, "step N, or N..M, in place of time"},
    {"format", KC_MCP_TEXT, false, 0, 0, 0, "png|svg|text",
     "png (the default), svg, or text: letters in place of an image"},
    {"lanes", KC_MCP_NUMBER, false, 1, KC_PICTURE_LANES, 8, NULL, "the busiest threads and streams, at most"},
};
const kc_mcp_tool kc_mcp_picture_tool = {
    "timeline_picture", "Picture of the timeline",
    "Draw a part of a trace: time from left to right, a lane for each of the busiest threads and streams, nesting "
    "downwards, colours for the names that take most time. The text of the answer has the legend and the lanes.",
    false, picture_arguments, KB_COUNT(picture_arguments), run_picture};
