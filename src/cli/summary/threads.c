/* Shows what the threads of watched programs did: the time in each state, where they were blocked, and
 * the functions with the most sampled CPU time. The numbers are the analyser's. */
#include "cli/summary/summary.h"
#include "cli/style.h"

static void print_more(size_t count, FILE *out)
{
    uint64_t shown = kc_count_shown(count, kc_shown_rows);
    if (count > shown)
        kc_put_more(out, count - shown);
}

static int compare_running(const void *left, const void *right, void *context)
{
    const ka_watched_thread *threads = context;
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    int64_t a_ns = threads[a].ns[KA_STATE_RUNNING], b_ns = threads[b].ns[KA_STATE_RUNNING];
    return a_ns != b_ns ? (a_ns > b_ns ? -1 : 1) : KB_COMPARE(a, b);
}

/* Indexes of the threads that have states, the longest running first; to free. NULL: out of memory.
 * Without those of folded processes; NULL: all. */
static uint32_t *order_threads(const ka_watched *w, const kc_folded *folded, size_t *count)
{
    uint32_t *order = malloc((w->threads.count + 1) * sizeof *order);
    *count = 0;
    for (uint32_t i = 0; order && i < w->threads.count; i++)
        if (w->threads.data[i].count &&
            !(folded && kc_is_folded(folded, w->threads.data[i].process)))
            order[(*count)++] = i;
    if (*count)
        qsort_r(order, *count, sizeof *order, compare_running, w->threads.data);
    return order;
}

static void print_threads(const ka_watched *w, const kc_folded *folded, FILE *out)
{
    size_t count;
    uint32_t *order = order_threads(w, folded, &count);
    if (count) {
        fputs("\n  ", out);
        kc_put_styled(out, KC_BOLD, "%-40s %10s %17s %12s", "threads", "running", "waiting for a CPU", "blocked");
        fputc('\n', out);
    }
    for (size_t i = 0; i < kc_count_shown(count, kc_shown_rows); i++) {
        const ka_watched_thread *t = &w->threads.data[order[i]];
        fputs("  ", out);
        kc_put_name(out, t->name, 40);
        fprintf(out, " %10s %17s %12s\n", kb_duration(t->ns[KA_STATE_RUNNING]).s,
                kb_duration(t->ns[KA_STATE_WAITING]).s, kb_duration(t->ns[KA_STATE_BLOCKED]).s);
    }
    print_more(count, out);
    kc_folded_print(folded, w->trace, "  ", out);
    free(order);
}

/* The kernel samples a thread when it has used so much CPU time: one that ends earlier has no sample. */
static void print_sample_coverage(const ka_watched *w, FILE *out)
{
    const int64_t NOTICEABLE_NS = 50 * KB_MILLISECOND_NS;
    int64_t running_ns = 0;
    for (size_t i = 0; i < w->threads.count; i++)
        running_ns += w->threads.data[i].ns[KA_STATE_RUNNING];
    if (running_ns - w->sampled_ns < NOTICEABLE_NS || w->sampled_ns > running_ns / 4 * 3)
        return;
    fprintf(out,
            "  samples stand for %s of %s of running: threads that end before their first sample have\n"
            "  none; --cpu HZ takes more\n",
            kb_duration(w->sampled_ns).s, kb_duration(running_ns).s);
}

static void print_missing_names(const ka_watched *w, FILE *out)
{
    for (size_t i = 0; i < w->of_all.count; i++)
        if (kb_string_equal(kineto_trace_string(w->trace, w->of_all.data[i].name),
                            kb_string(KT_JIT_CODE))) {
            fputs("  " KT_JIT_CODE " gets names by a perf map: node --perf-basic-prof, --python-perf, for Java and\n"
                  "  others see docs/reference/stacks.md#symbols\n",
                  out);
            return;
        }
}

static void print_functions(const ka_watched *w, FILE *out)
{
    bool has_shares = w->samples >= KA_MIN_SAMPLES;
    char title[60] = "functions, sampled CPU time";
    if (!w->of_all.count)
        return;
    if (!has_shares)
        snprintf(title, sizeof title, "functions (only %llu samples)", (unsigned long long)w->samples);
    kc_put_table_head(out, title, has_shares ? "share" : "", "self", "with callees");
    for (size_t i = 0; i < kc_count_shown(w->of_all.count, kc_shown_rows); i++) {
        const ka_sampled *f = &w->of_all.data[i];
        double share = w->sampled_ns ? 100.0 * (double)f->self_ns / (double)w->sampled_ns : 0.0;
        fputs("  ", out);
        kc_put_name(out, kineto_trace_string(w->trace, f->name), 40);
        if (has_shares)
            fprintf(out, " %8.1f %%", share);
        else
            fprintf(out, " %10s", "");
        fprintf(out, " %12s %12s\n", kb_duration(f->self_ns).s, kb_duration(f->total_ns).s);
    }
    print_more(w->of_all.count, out);
    print_sample_coverage(w, out);
    print_missing_names(w, out);
}

static void print_blocked(const ka_watched *w, FILE *out)
{
    if (!w->blocked_of_all.count)
        return;
    kc_put_table_head(out, "threads blocked in", "count", "total", "mean");
    for (size_t i = 0; i < kc_count_shown(w->blocked_of_all.count, kc_shown_rows); i++) {
        const ka_blocked *b = &w->blocked_of_all.data[i];
        fputs("  ", out);
        kc_put_name(out, ka_watched_text(w, b->function), 40);
        fprintf(out, " %10s %12s %12s\n", kc_count(b->count).s, kb_duration(b->ns).s,
                kb_duration(b->ns / (int64_t)b->count).s);
    }
    print_more(w->blocked_of_all.count, out);
}

void kc_threads_print(const ka_watched *w, const kc_folded *folded, FILE *out)
{
    print_threads(w, folded, out);
    print_blocked(w, out);
    print_functions(w, out);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void put_thread_array(const ka_watched *w, kb_json *j)
{
    size_t count;
    uint32_t *order = order_threads(w, NULL, &count);
    kb_json_key_z(j, "threads");
    kb_json_array_begin(j);
    for (size_t i = 0; i < count; i++) {
        const ka_watched_thread *t = &w->threads.data[order[i]];
        kb_json_object_begin(j);
        kb_json_put_string(j, "name", t->name);
        kb_json_put_int(j, "running_ns", t->ns[KA_STATE_RUNNING]);
        kb_json_put_int(j, "waiting_ns", t->ns[KA_STATE_WAITING]);
        kb_json_put_int(j, "blocked_ns", t->ns[KA_STATE_BLOCKED]);
        kb_json_object_end(j);
    }
    kb_json_array_end(j);
    free(order);
}

static void put_blocked_array(const ka_watched *w, kb_json *j)
{
    kb_json_key_z(j, "blocked_in");
    kb_json_array_begin(j);
    for (size_t i = 0; i < w->blocked_of_all.count; i++) {
        const ka_blocked *b = &w->blocked_of_all.data[i];
        kb_json_object_begin(j);
        kb_json_put_string(j, "function", ka_watched_text(w, b->function));
        kb_json_put_uint(j, "count", b->count);
        kb_json_put_int(j, "total_ns", b->ns);
        kb_json_object_end(j);
    }
    kb_json_array_end(j);
}

static void put_function_array(const ka_watched *w, kb_json *j)
{
    kb_json_key_z(j, "sampled_functions");
    kb_json_array_begin(j);
    for (size_t i = 0; i < w->of_all.count; i++) {
        const ka_sampled *f = &w->of_all.data[i];
        kb_json_object_begin(j);
        kb_json_put_string(j, "name", kineto_trace_string(w->trace, f->name));
        kb_json_put_string(j, "module", ka_watched_text(w, f->module));
        kb_json_put_uint(j, "samples", f->samples);
        kb_json_put_int(j, "self_cpu_ns", f->self_ns);
        kb_json_put_int(j, "total_cpu_ns", f->total_ns);
        kb_json_object_end(j);
    }
    kb_json_array_end(j);
}

void kc_threads_json(const ka_watched *w, kb_json *j)
{
    put_thread_array(w, j);
    put_blocked_array(w, j);
    put_function_array(w, j);
}
