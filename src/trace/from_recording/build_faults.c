/* Page faults of watched threads, as moments in a row of their own (record --page-faults): "page fault", or "major
 * page fault" if something was read for it. Only some of the minor ones are recorded. Args:
 *
 *    faults      how many it stands for
 *    in, module  the function that touched the memory, and the file that it is in
 *    Call stack */
#include "trace/from_recording/build_watched.h"

/* The keys of the args, and the names. */
typedef struct fault_texts {
    uint32_t faults, in, module, minor, major;
} fault_texts;

static void stage_place(kt_build_state *s, const fault_texts *texts, const kt_build_sample *fault)
{
    kt_symbols *symbols = s->processes.data[s->threads.data[fault->thread].process].symbols;
    kt_symbol_text text;
    if (!symbols || !fault->count)
        return;
    (void)kt_symbol(symbols, fault->addresses[0], &text);
    kt_args_put_shared(s->b, texts->in, KINETO_ARG_STRING,
                       kt_string(s->b, text.function.size ? text.function : text.text));
    if (text.module.size)
        kt_args_put_shared(s->b, texts->module, KINETO_ARG_STRING, kt_string(s->b, text.module));
    kineto_string stack = kt_symbols_stack(symbols, fault->addresses, fault->count);
    kt_args_put_shared(s->b, s->function_keys.call_stack, KINETO_ARG_STRING, kt_string(s->b, stack));
}

static void append_fault(kt_build_state *s, const fault_texts *texts, uint32_t track, const kt_build_sample *fault)
{
    kt_row row = {.track = track,
                  .kind = KINETO_KIND_CPU_INSTANT_EVENT,
                  .form = KINETO_FORM_INSTANT,
                  .flags = KT_WRITER(1),
                  .name = fault->flags & KF_SAMPLE_MAJOR ? texts->major : texts->minor};
    if (!kt_build_place(s, fault->ticks, fault->ticks, false, &row))
        return;
    kt_args_put_number(s->b, texts->faults, fault->cpu_ns);
    stage_place(s, texts, fault);
    (void)kt_append(s->b, &row);
}

void kt_build_faults(kt_build_state *s)
{
    uint32_t thread = KT_NONE, track = 0;
    if (!s->faults.count)
        return;
    fault_texts texts = {.faults = kt_string(s->b, kb_string("faults")),
                         .in = kt_string(s->b, kb_string("in")),
                         .module = kt_string(s->b, kb_string("module")),
                         .minor = kt_string(s->b, kb_string("page fault")),
                         .major = kt_string(s->b, kb_string("major page fault"))};
    qsort(s->faults.data, s->faults.count, sizeof *s->faults.data, kt_build_compare_samples);
    for (size_t i = 0; i < s->faults.count; i++) {
        const kt_build_sample *fault = &s->faults.data[i];
        if (fault->thread != thread)
            track = kt_build_watched_track(s, fault->thread, "page faults");
        thread = fault->thread;
        append_fault(s, &texts, track, fault);
    }
}
