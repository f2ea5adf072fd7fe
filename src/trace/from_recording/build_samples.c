/* Sampled stacks as a row of nested ranges. A sample says where a thread was at one moment, and how
 * much CPU time it had used since its last sample. Functions that are in several samples one after
 * the other, without a break in which the thread was blocked, become one range. Its ends are therefore
 * only as exact as the distance of samples; how often a function was seen is in its args:
 *
 *    samples   how many samples the range is made of
 *    cpu_ns    the CPU time that these samples stand for, of the function and what it called
 *    inlined   true: the compiler inlined the function into the one around it */
#include "trace/from_recording/build_watched.h"
#include "trace/from_recording/kernel_names.h"

#define MAX_OPEN 512u

/* A function that is open. */
typedef struct open_frame {
    uint32_t name, module; /* string ids */
    uint64_t start;        /* ticks */
    uint64_t cpu_ns;
    uint32_t samples;
    bool is_unnamed; /* stands for all functions of a module */
    bool is_inlined;
} open_frame;

typedef struct sampling {
    kt_build_state *s;
    uint32_t track, thread;
    uint32_t key_samples, key_cpu_ns, key_module, key_inlined;
    uint32_t kernel_name;
    const kt_kernel_names *kernel; /* NULL: addresses have no names */
    uint64_t last;    /* ticks of the last sample */
    size_t run;       /* index of the run of the last sample */
    uint64_t busy_start;
    open_frame open[MAX_OPEN];
    uint32_t depth;
} sampling;

/* Close the frames from `depth` inwards; the innermost is appended first, so that of ranges with
 * equal times the later one encloses the earlier one. */
static void close_frames(sampling *a, uint32_t depth)
{
    kt_build_state *s = a->s;
    while (a->depth > depth) {
        const open_frame *f = &a->open[--a->depth];
        kt_row row = {.track = a->track,
                      .kind = KINETO_KIND_CPU_SAMPLE,
                      .form = KINETO_FORM_SLICE,
                      .flags = KT_WRITER(1),
                      .name = f->name};
        if (!kt_build_place(s, f->start, a->last, false, &row))
            continue;
        kt_args_put_number(s->b, a->key_samples, f->samples);
        kt_args_put_number(s->b, a->key_cpu_ns, f->cpu_ns);
        if (f->module)
            kt_args_put_shared(s->b, a->key_module, KINETO_ARG_STRING, f->module);
        if (f->is_inlined)
            kt_args_put_bool(s->b, a->key_inlined, true);
        (void)kt_append(s->b, &row);
    }
}

/* Appends a frame. Successive ones whose functions have no names are one. */
static uint32_t append_frame(open_frame f, open_frame *frames, uint32_t count)
{
    if (f.is_unnamed && count && frames[count - 1].name == f.name)
        return count;
    frames[count] = f;
    return count + 1;
}

/* What has a name already, or is in no module. */
static open_frame make_plain_frame(const sampling *a, uint64_t return_address)
{
    const kt_build_state *s = a->s;
    if (s->frames.count && return_address < s->frames.count)
        return (open_frame){.name = s->frames.data[return_address].name,
                            .module = s->frames.data[return_address].module};
    return (open_frame){.name = kt_string(s->b, kb_string("[unknown]")), .is_unnamed = true};
}

/* Appends the functions at an address, the outermost first. */
static uint32_t append_frames(sampling *a, kt_symbols *symbols, uint64_t return_address, open_frame *frames,
                              uint32_t count)
{
    kt_build_state *s = a->s;
    if (!symbols || (s->frames.count && return_address < s->frames.count))
        return append_frame(make_plain_frame(a, return_address), frames, count);
    kt_symbol_frames at = kt_symbol_frames_at(symbols, return_address, false);
    for (uint32_t i = at.count; i-- > 0 && count < MAX_OPEN - 1;) {
        const kt_symbol_text *text = &at.frames[i];
        open_frame f = {.name = kt_string(s->b, text->function.size ? text->function : text->text),
                        .module = text->module.size ? kt_string(s->b, text->module) : 0,
                        .is_unnamed = !text->function.size && text->text.data[0] == '[',
                        .is_inlined = text->is_inlined};
        count = append_frame(f, frames, count);
    }
    return count;
}

/* Below a frame for all that is inside the kernel, its functions, where their names are known. */
static uint32_t name_kernel_frames(sampling *a, const kt_build_sample *sample, open_frame *frames,
                                   uint32_t count)
{
    kt_build_state *s = a->s;
    frames[count++] = (open_frame){.name = a->kernel_name};
    for (uint32_t i = sample->kernel_count; a->kernel && i > 0 && count < MAX_OPEN; i--) {
        bool is_exact = i == 1;
        kineto_string name = kt_kernel_name(a->kernel, sample->addresses[i - 1] - (is_exact ? 0 : 1));
        if (name.size)
            frames[count++] =
                (open_frame){.name = kt_string(s->b, name), .module = a->kernel_name};
    }
    return count;
}

/* The frames of a sample, the outermost first. The innermost address is where the thread was, and not a return address: one more is that of its end. */
static uint32_t name_frames(sampling *a, const kt_build_sample *sample, open_frame *frames)
{
    kt_build_state *s = a->s;
    kt_symbols *symbols = s->processes.data[s->threads.data[a->thread].process].symbols;
    uint32_t count = 0;
    for (uint32_t i = sample->count; i > sample->kernel_count && count < MAX_OPEN - 1; i--) {
        bool is_exact = i - 1 == sample->kernel_count && !s->frames.count;
        count = append_frames(a, symbols, sample->addresses[i - 1] + (is_exact ? 1 : 0), frames, count);
    }
    return sample->kernel_count ? name_kernel_frames(a, sample, frames, count) : count;
}

/* Since when the thread has been running, or could have been: while it is preempted it stays where it is.
 * `run` moves on to the run of the sample. 0: not known. */
static uint64_t find_busy_start(sampling *a, const kt_build_sample *sample)
{
    const kt_build_state *s = a->s;
    while (a->run < s->runs.count) {
        const kt_build_run *r = &s->runs.data[a->run];
        bool is_before = r->thread < sample->thread ||
                         (r->thread == sample->thread && r->end < sample->ticks);
        bool goes_on = a->run > 0 && r[-1].thread == r->thread && r[-1].flags & KF_RUN_PREEMPTED;
        if (!goes_on)
            a->busy_start = r->start;
        if (!is_before)
            return r->thread == sample->thread && r->start <= sample->ticks ? a->busy_start : 0;
        a->run++;
    }
    return 0;
}

/* Since when a sample is valid: since the last one (then ranges go on), or since the thread was blocked.
 * Without states, not longer than the CPU time that it stands for. */
static uint64_t covered_since(const sampling *a, const kt_build_sample *sample, uint64_t busy_start)
{
    double ticks = (double)sample->cpu_ns / a->s->fit.ns_per_tick;
    uint64_t most = sample->ticks - KB_MIN(sample->ticks, (uint64_t)(1.5 * ticks));
    if (busy_start || a->last >= most)
        return KB_MAX(a->last, busy_start);
    return sample->ticks - KB_MIN(sample->ticks, (uint64_t)ticks);
}

static void add_sample(sampling *a, const kt_build_sample *sample)
{
    open_frame frames[MAX_OPEN];
    uint32_t count = name_frames(a, sample, frames), same = 0;
    uint64_t since = covered_since(a, sample, find_busy_start(a, sample));
    if (since == a->last)
        while (same < count && same < a->depth && a->open[same].name == frames[same].name)
            same++;
    close_frames(a, same);
    for (uint32_t i = 0; i < same; i++) {
        a->open[i].samples++;
        a->open[i].cpu_ns += sample->cpu_ns;
    }
    for (uint32_t i = same; i < count; i++) {
        a->open[i] = frames[i];
        a->open[i].start = KB_MAX(since, a->last);
        a->open[i].samples = 1;
        a->open[i].cpu_ns = sample->cpu_ns;
    }
    a->depth = count;
    a->last = sample->ticks;
}

/* What others stand for must not count in a trace of a part of a recording. */
static bool is_in_window(const kt_build_state *s, const kt_build_sample *sample)
{
    int64_t ns = kb_clock_fit_ns(&s->fit, sample->ticks);
    return ns >= s->start_ns && ns <= s->end_ns;
}

void kt_build_samples(kt_build_state *s)
{
    sampling *a = s->samples.count ? calloc(1, sizeof *a) : NULL;
    if (!s->samples.count)
        return;
    if (!a) {
        s->out_of_memory = true;
        return;
    }
    *a = (sampling){.s = s,
                    .thread = KT_NONE,
                    .key_samples = kt_string(s->b, kb_string("samples")),
                    .key_cpu_ns = kt_string(s->b, kb_string("cpu_ns")),
                    .key_module = kt_string(s->b, kb_string("module")),
                    .key_inlined = kt_string(s->b, kb_string("inlined")),
                    .kernel_name = kt_string(s->b, kb_string("[kernel]"))};
    if (s->control && kb_os_is_this_boot((const char *)s->control->boot_id, sizeof s->control->boot_id))
        a->kernel = kt_kernel_names_get();
    qsort(s->samples.data, s->samples.count, sizeof *s->samples.data, kt_build_compare_samples);
    for (size_t i = 0; i < s->samples.count; i++) {
        const kt_build_sample *sample = &s->samples.data[i];
        if (!is_in_window(s, sample))
            continue;
        if (sample->thread != a->thread) {
            close_frames(a, 0);
            a->thread = sample->thread;
            a->track = kt_build_watched_track(s, a->thread, "samples");
            a->last = 0;
        }
        add_sample(a, sample);
    }
    close_frames(a, 0);
    free(a);
}
