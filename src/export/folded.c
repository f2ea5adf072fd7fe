/* Folded stacks, the input of flamegraph.pl and speedscope: "frame;frame;frame weight" on each
 * line, where the weight is the innermost frame's own time, or another weight (stacks.h). Names keep their bytes, except those
 * that would end a frame or a line: ";" becomes \x3b, control characters likewise, and a backslash
 * \\. */
#include "export/stacks.h"

typedef struct folded {
    const ke_job *job;
    kb_sink *sink;
    const ke_stacks *stacks;
    uint64_t unit_ns, lines;
    KB_VEC(uint32_t) path; /* frames of a stack, the innermost first */
} folded;

static bool is_plain_frame_char(unsigned char c)
{
    return c >= 0x20 && c != 0x7f && c != ';' && c != '\\';
}

static void write_escaped_char(kb_sink *sink, unsigned char c)
{
    char text[8];
    int n =
        c == '\\' ? snprintf(text, sizeof text, "\\\\") : snprintf(text, sizeof text, "\\x%02x", c);
    kb_sink_write(sink, text, (size_t)n);
}

static void write_folded_frame(kb_sink *sink, kineto_string s)
{
    size_t from = 0;
    if (s.size == 0) /* readers would drop an empty frame */
        kb_sink_write(sink, "(no name)", 9);
    for (size_t i = 0; i < s.size; i++) {
        if (is_plain_frame_char((unsigned char)s.data[i]))
            continue;
        kb_sink_write(sink, s.data + from, i - from);
        write_escaped_char(sink, (unsigned char)s.data[i]);
        from = i + 1;
    }
    kb_sink_write(sink, s.data + from, s.size - from);
}

/* Collects the frames from a node up to its root. */
static bool collect_frames(folded *f, uint32_t node)
{
    f->path.count = 0;
    for (; node != KE_NO_NODE; node = f->stacks->nodes.data[node].parent)
        if (!kb_vec_push(&f->path, f->stacks->nodes.data[node].frame))
            return false;
    return true;
}

/* Writes the stack that ends at the node, unless nothing was recorded there itself. */
static bool write_folded_line(folded *f, uint32_t node)
{
    const ke_node *n = &f->stacks->nodes.data[node];
    uint64_t weight = ke_stacks_weight(f->job, n);
    if (ke_stacks_count(n) == 0 && weight == 0)
        return true;
    if (!collect_frames(f, node))
        return false;
    for (size_t i = f->path.count; i-- > 0;) {
        write_folded_frame(f->sink, f->stacks->frames.data[f->path.data[i]].text);
        kb_sink_write(f->sink, i ? ";" : " ", 1);
    }
    char number[24], *end = number;
    KB_ASSERT(f->unit_ns > 0);
    uint64_t rest = weight % f->unit_ns; /* rounds to the nearest unit */
    end = kb_json_format_uint(end, weight / f->unit_ns + (rest >= f->unit_ns - rest));
    *end++ = '\n';
    kb_sink_write(f->sink, number, (size_t)(end - number));
    f->lines++;
    return true;
}

kineto_status ke_folded_write(ke_job *job, kineto_error *err)
{
    ke_stacks stacks;
    bool is_time = job->options->weight != KINETO_EXPORT_WEIGHT_SAMPLES;
    folded f = {.job = job,
                .sink = job->sink,
                .stacks = &stacks,
                .unit_ns = is_time ? KB_MAX(job->options->weight_ns, 1u) : 1};
    bool ok = ke_stacks_make(&stacks, job, KE_MAX_FRAMES, ke_stacks_rows(job));
    for (size_t i = 0; ok && i < stacks.nodes.count && !kb_sink_failed(job->sink); i++)
        ok = write_folded_line(&f, (uint32_t)i);
    ke_stacks_account(job, &stacks);
    ke_stacks_account_depth(job, &stacks);
    job->result->records = f.lines;
    job->result->record_noun = "stacks";
    kb_vec_free(&f.path);
    ke_stacks_free(&stacks);
    return ok ? KINETO_OK : ke_fail_memory(job, err);
}
