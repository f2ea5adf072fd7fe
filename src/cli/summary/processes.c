/* Processes that shells and launchers (pyenv's shims, env, uname) start on the way to the program: they
 * used hardly any CPU time and recorded nothing, so summaries have one line for all of them. */
#include "cli/summary/summary.h"
#include "cli/print.h"

#include "trace/trace.h"

#define MAX_PERCENT 1  /* of the CPU time of all processes */
#define MIN_FOLDED  2u /* one process has a line of its own */
#define MAX_NAMES   3u

/* Rows that every watched process has; those of `record --waits` are its calls that wait. */
static bool is_row_of_any_process(const kineto_trace *t, const kt_block *block, uint32_t at)
{
    switch (block->kind[at]) {
    case KINETO_KIND_THREAD_STATE:
    case KINETO_KIND_CPU_SAMPLE:
    case KINETO_KIND_BLOCKING_CALL:
        return true;
    case KINETO_KIND_COUNTER:
        return kb_string_ends_with(kineto_trace_string(t, block->name[at]), " below the threshold");
    default:
        return false;
    }
}

/* Sets other[process] where a process has rows of its own. */
static void mark_processes_with_rows(const kineto_trace *t, uint8_t *other)
{
    for (uint32_t b = 0; b < kt_block_count(t); b++) {
        const kt_block *block = kt_block_at(t, b);
        for (uint32_t i = 0; i < block->count; i++) {
            kineto_track track;
            if (is_row_of_any_process(t, block, i))
                continue;
            kineto_trace_track(t, block->track[i], &track);
            other[track.process] = 1;
        }
    }
}

/* Running time by process, and at [count] that of all. NULL: out of memory. */
static int64_t *sum_running(const ka_watched *w, uint32_t count)
{
    int64_t *ns = calloc((size_t)count + 1, sizeof *ns);
    for (size_t i = 0; ns && i < w->threads.count; i++) {
        const ka_watched_thread *t = &w->threads.data[i];
        ns[t->process] = kc_sum_ns(ns[t->process], t->ns[KA_STATE_RUNNING]);
        ns[count] = kc_sum_ns(ns[count], t->ns[KA_STATE_RUNNING]);
    }
    return ns;
}

bool kc_folded_make(const kineto_trace *trace, const ka_watched *w, kc_folded *out)
{
    uint32_t count = kineto_trace_process_count(trace);
    *out = (kc_folded){0};
    if (!w->states.count || count <= MIN_FOLDED)
        return true;
    out->is_folded = calloc((size_t)count + 1, 1);
    uint8_t *other = calloc((size_t)count + 1, 1);
    int64_t *ns = sum_running(w, count);
    bool ok = out->is_folded && other && ns;
    if (ok)
        mark_processes_with_rows(trace, other);
    for (size_t i = 0; ok && i < w->threads.count; i++) {
        uint32_t process = w->threads.data[i].process;
        if (out->is_folded[process] || other[process] || ns[process] > ns[count] / 100 * MAX_PERCENT)
            continue;
        out->is_folded[process] = 1;
        out->count++;
        out->ns = kc_sum_ns(out->ns, ns[process]);
    }
    if (ok && out->count < MIN_FOLDED)
        kc_folded_free(out);
    free(other);
    free(ns);
    return ok;
}

void kc_folded_free(kc_folded *f)
{
    free(f->is_folded);
    *f = (kc_folded){0};
}

/* Is there a process before this one with the same name? */
static bool is_named_before(const kc_folded *f, const kineto_trace *trace, uint32_t process)
{
    kineto_process p, q;
    kineto_trace_process(trace, process, &p);
    for (uint32_t i = 0; i < process; i++) {
        kineto_trace_process(trace, i, &q);
        if (f->is_folded[i] && kb_string_equal(p.name, q.name))
            return true;
    }
    return false;
}

void kc_folded_print(const kc_folded *f, const kineto_trace *trace, const char *indent, FILE *out)
{
    uint32_t named = 0;
    kineto_process p;
    if (!f->count)
        return;
    fprintf(out, "%s%s more processes", indent, kc_count(f->count).s);
    for (uint32_t i = 0; i < kineto_trace_process_count(trace); i++) {
        kineto_trace_process(trace, i, &p);
        if (!f->is_folded[i] || !p.name.size || is_named_before(f, trace, i))
            continue;
        if (named < MAX_NAMES) {
            fputs(named ? ", " : " (", out);
            kc_put_name(out, p.name, 0);
        }
        named++;
    }
    fprintf(out, "%s took %s of CPU time\n", named > MAX_NAMES ? ", …)" : named ? ")" : "",
            kb_duration(f->ns).s);
}
