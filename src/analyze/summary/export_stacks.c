/* kineto_stacks_save: folded stacks of function events, one line "outer;inner weight" each, the
 * input of flame graph tools. As in PyTorch one line per event, or merged into one line per stack;
 * weights are whole microseconds. */
#include "analyze/summary/summary.h"

typedef struct stacks_writer {
    const kineto_function_events *e;
    /* Not const: with options.functions the function's name is pushed as a frame of its own. */
    ka_event_arguments *arguments;
    kineto_stacks_options options;
    ka_metric metric;
    kb_sink *sink;
    uint64_t lines;
    KB_VEC(uint32_t) path;  /* frames of a line, the innermost first */
    KB_VEC(uint32_t) order; /* frames that have a sum, in the order of their first events */
    kb_map sums;            /* by frame, if lines are merged */
} stacks_writer;

static kineto_status choose_stack_metric(stacks_writer *w, kineto_error *err)
{
    const char *text = w->options.metric ? w->options.metric : "self_cpu_time_total";
    w->metric = KA_METRIC_CALLS;
    if (ka_metric_parse(text, &w->metric, NULL) == KINETO_OK &&
        (w->metric == KA_METRIC_SELF_CPU_TIME_TOTAL ||
         w->metric == KA_METRIC_SELF_DEVICE_TIME_TOTAL))
        return KINETO_OK;
    return kb_fail(err, KINETO_E_ARGUMENT,
                   "unknown metric '%.80s' for stacks; use self_cpu_time_total or "
                   "self_device_time_total (or self_cuda_time_total and so on)",
                   text);
}

/* The weight of an event in whole microseconds, truncated as in PyTorch; 0: the event has no
 * line. */
static uint64_t get_weight(const stacks_writer *w, uint32_t event)
{
    ka_event_sums sums;
    ka_event_sums_get(w->e, event, &sums);
    int64_t ns =
        w->metric == KA_METRIC_SELF_CPU_TIME_TOTAL ? sums.self_cpu_ns : sums.self_device_ns;
    return ns > 0 ? (uint64_t)ns / 1000 : 0;
}

/* Blanks and semicolons would break the format: they become underscores. */
static void write_frame(kb_sink *sink, kineto_string frame)
{
    kineto_string piece;
    while ((piece = kb_utf8_next(&frame, NULL)).size)
        for (size_t i = 0; i < piece.size; i++) {
            char c = piece.data[i];
            bool blank = c == ' ' || c == ';' || c == '\t' || c == '\n' || c == '\r';
            kb_sink_write(sink, blank ? "_" : &c, 1);
        }
}

/* One line from the outermost frame to `frame`. False: out of memory. */
static bool write_stack_line(stacks_writer *w, uint32_t frame, uint64_t weight)
{
    const ka_stacks *s = &w->arguments->stacks;
    char digits[24];
    w->path.count = 0;
    for (; frame; frame = s->frames.data[frame].parent)
        if (!kb_vec_push(&w->path, frame))
            return false;
    for (size_t i = w->path.count; i-- > 0;) {
        write_frame(w->sink, kb_intern_get(&s->texts, s->frames.data[w->path.data[i]].text));
        kb_sink_write(w->sink, i ? ";" : " ", 1);
    }
    kb_sink_write(w->sink, digits, (size_t)(kb_json_format_uint(digits, weight) - digits));
    kb_sink_write(w->sink, "\n", 1);
    w->lines++;
    return true;
}

/* Adds to the sum of a stack for the merged lines. False: out of memory. */
static bool add_to_stack_sum(stacks_writer *w, uint32_t frame, uint64_t weight)
{
    bool created;
    uint64_t *sum = kb_map_insert(&w->sums, frame, 0, &created);
    if (!sum || (created && !kb_vec_push(&w->order, frame)))
        return false;
    *sum = ka_add_saturated_u64(*sum, weight);
    return true;
}

/* Writes or sums the stack of one event. False: out of memory. */
static bool write_event_stack(stacks_writer *w, uint32_t i)
{
    uint32_t frame = w->arguments->stack[i];
    uint64_t weight = frame || w->options.functions ? get_weight(w, i) : 0;
    if (!weight)
        return true;
    if (w->options.functions) {
        uint32_t text = kb_intern_id(&w->arguments->stacks.texts, ka_event_name_key(w->e, i));
        if (text == KB_INTERN_NONE)
            return false;
        KB_ASSERT(frame < w->arguments->stacks.frames.count);
        frame = ka_stacks_push(&w->arguments->stacks, frame, text);
        if (frame == UINT32_MAX)
            return false;
    }
    return w->options.merge ? add_to_stack_sum(w, frame, weight)
                            : write_stack_line(w, frame, weight);
}

static bool write_all_stacks(stacks_writer *w)
{
    for (uint32_t i = 0; i < w->e->count; i++)
        if (!write_event_stack(w, i))
            return false;
    for (size_t i = 0; i < w->order.count; i++)
        if (!write_stack_line(w, w->order.data[i], *kb_map_find(&w->sums, w->order.data[i])))
            return false;
    return true;
}

static kineto_status write_stacks_file(stacks_writer *w, const char *path, kineto_error *err)
{
    kineto_status status = kb_sink_open_file(path, kb_compression_of(path), &w->sink, err);
    if (status)
        return status;
    if (!write_all_stacks(w))
        kb_sink_fail(w->sink, KINETO_E_MEMORY, "out of memory: writing stacks");
    return kb_sink_close(w->sink, err);
}

kineto_status kineto_stacks_save(const kineto_function_events *events,
                                 const kineto_stacks_options *options, const char *path,
                                 uint64_t *lines, kineto_error *err)
{
    stacks_writer w = {.e = events};
    ka_event_arguments arguments = {0};
    if (!events || !path)
        return kb_fail_null(err, __func__, "events, path", events, path);
    kineto_status status =
        kb_options_read(&w.options, sizeof w.options, options, "kineto_stacks_options", err);
    if (status == KINETO_OK)
        status = choose_stack_metric(&w, err);
    if (status == KINETO_OK)
        status = ka_event_arguments_read(events, KA_WANT_STACKS, &arguments, err);
    w.arguments = &arguments;
    if (status == KINETO_OK)
        status = write_stacks_file(&w, path, err);
    if (status == KINETO_OK && lines)
        *lines = w.lines;
    ka_event_arguments_free(&arguments);
    kb_vec_free(&w.path);
    kb_vec_free(&w.order);
    kb_map_free(&w.sums);
    return status;
}
