/* What the threads of watched programs did: the time in each state, and the functions with the most
 * sampled CPU time. */
#include "cli/summary/summary.h"
#include "cli/print.h"

enum { BLOCKED = 2 };
static const char *const state_names[KC_STATES] = {"running", "waiting for a CPU", "blocked"};

/* ---- adding up ------------------------------------------------------------------------------- */

static kc_thread_states *find_thread(kc_threads *w, uint32_t track)
{
    bool created;
    uint64_t *at = kb_map_insert(&w->by_track, track, w->threads.count, &created);
    kc_thread_states fresh = {.track = track};
    if (!at || (created && !kb_vec_push(&w->threads, fresh)))
        return NULL;
    return &w->threads.data[*at];
}

static kc_sampled *find_function(kc_threads *w, uint32_t name_id)
{
    bool created;
    uint64_t *at = kb_map_insert(&w->by_name, name_id, w->functions.count, &created);
    kc_sampled fresh = {.name_id = name_id};
    if (!at || (created && !kb_vec_push(&w->functions, fresh)))
        return NULL;
    return &w->functions.data[*at];
}

static int64_t number_of_arg(const kineto_trace *trace, kineto_row row, const char *key)
{
    kineto_arg arg;
    if (!kineto_args_find(trace, row, key, &arg))
        return 0;
    return arg.type == KINETO_ARG_UINT ? (int64_t)KB_MIN(arg.u, (uint64_t)INT64_MAX)
           : arg.type == KINETO_ARG_INT ? arg.i
                                        : 0;
}

/* Is a function with this name around the row? Then its time is counted there already. */
static bool is_recursive(const kineto_trace *trace, kineto_row row, uint32_t name_id)
{
    kineto_activity a;
    for (row = kineto_trace_parent(trace, row); row != KINETO_NO_ROW;
         row = kineto_trace_parent(trace, row)) {
        kineto_trace_get(trace, row, &a);
        if (a.name_id == name_id)
            return true;
    }
    return false;
}

/* Own time is that of the range without what it called: it is subtracted from the caller's. */
static bool add_sampled_function(kc_threads *w, const kineto_trace *trace, kineto_row row,
                                 const kineto_activity *a)
{
    int64_t cpu_ns = number_of_arg(trace, row, "cpu_ns");
    kineto_row parent = kineto_trace_parent(trace, row);
    kc_sampled *f = find_function(w, a->name_id);
    if (!f)
        return false;
    f->samples += (uint64_t)number_of_arg(trace, row, "samples");
    f->self_ns = kc_sum_ns(f->self_ns, cpu_ns);
    if (!is_recursive(trace, row, a->name_id))
        f->total_ns = kc_sum_ns(f->total_ns, cpu_ns);
    if (parent == KINETO_NO_ROW)
        return true;
    kineto_activity caller;
    kineto_trace_get(trace, parent, &caller);
    f = find_function(w, caller.name_id);
    if (f && caller.kind == KINETO_KIND_CPU_SAMPLE)
        f->self_ns -= cpu_ns;
    return f != NULL;
}

/* The function in which a thread was blocked, if it was recorded (--off-cpu). */
static bool add_blocked(kc_threads *w, const kineto_trace *trace, kineto_row row, int64_t ns)
{
    kineto_arg arg;
    bool created;
    if (!kineto_args_find(trace, row, "in", &arg) || arg.type != KINETO_ARG_STRING)
        return true;
    uint32_t id = kb_intern_id(&w->names, arg.text);
    uint64_t *at = kb_map_insert(&w->by_function, id, w->blocked.count, &created);
    if (id == KB_INTERN_NONE || !at ||
        (created && !kb_vec_push(&w->blocked, (kc_blocked){.function = id})))
        return false;
    kc_blocked *b = &w->blocked.data[*at];
    b->count++;
    b->total_ns = kc_sum_ns(b->total_ns, ns);
    return true;
}

static bool add_state(kc_threads *w, const kineto_trace *trace, kineto_row row,
                      const kineto_activity *a)
{
    kineto_string name = kineto_trace_string(trace, a->name_id);
    for (uint32_t i = 0; i < KC_STATES; i++) {
        if (!kb_string_equal(name, kb_string(state_names[i])))
            continue;
        kc_thread_states *t = find_thread(w, a->track);
        if (!t)
            return false;
        int64_t ns = kb_length_ns(a->start_ns, a->end_ns);
        t->ns[i] = kc_sum_ns(t->ns[i], ns);
        return i != BLOCKED || add_blocked(w, trace, row, ns);
    }
    return true;
}

bool kc_threads_add(kc_threads *w, const kineto_trace *trace, kineto_row row,
                    const kineto_activity *a)
{
    if (a->form != KINETO_FORM_SLICE)
        return true;
    return a->kind == KINETO_KIND_THREAD_STATE ? add_state(w, trace, row, a)
                                               : add_sampled_function(w, trace, row, a);
}

static int compare_functions(const void *left, const void *right)
{
    const kc_sampled *a = left, *b = right;
    if (a->self_ns != b->self_ns)
        return a->self_ns > b->self_ns ? -1 : 1;
    return a->total_ns != b->total_ns ? (a->total_ns > b->total_ns ? -1 : 1)
                                      : KB_COMPARE(a->name_id, b->name_id);
}

static int compare_blocked(const void *left, const void *right)
{
    const kc_blocked *a = left, *b = right;
    return a->total_ns != b->total_ns ? (a->total_ns > b->total_ns ? -1 : 1)
                                      : KB_COMPARE(a->function, b->function);
}

static int compare_threads(const void *left, const void *right)
{
    const kc_thread_states *a = left, *b = right;
    return a->ns[0] != b->ns[0] ? (a->ns[0] > b->ns[0] ? -1 : 1) : KB_COMPARE(a->track, b->track);
}

void kc_threads_sort(kc_threads *w)
{
    if (w->functions.count)
        qsort(w->functions.data, w->functions.count, sizeof *w->functions.data, compare_functions);
    if (w->blocked.count)
        qsort(w->blocked.data, w->blocked.count, sizeof *w->blocked.data, compare_blocked);
    if (w->threads.count)
        qsort(w->threads.data, w->threads.count, sizeof *w->threads.data, compare_threads);
}

void kc_threads_free(kc_threads *w)
{
    kb_vec_free(&w->threads);
    kb_vec_free(&w->functions);
    kb_vec_free(&w->blocked);
    kb_map_free(&w->by_function);
    kb_intern_free(&w->names);
    kb_map_free(&w->by_track);
    kb_map_free(&w->by_name);
}

/* ---- showing --------------------------------------------------------------------------------- */

/* "thread 42 (worker)": the name of the track without what the track shows. */
static kineto_string thread_of_track(const kineto_trace *trace, uint32_t track)
{
    kineto_track view;
    static const char ending[] = ": state";
    size_t size = sizeof ending - 1;
    kineto_trace_track(trace, track, &view);
    if (view.name.size > size && memcmp(view.name.data + view.name.size - size, ending, size) == 0)
        view.name.size -= size;
    return view.name;
}

static void print_more(size_t count, FILE *out)
{
    if (count > KC_TOP)
        fprintf(out, "  … and %s more\n", kc_count(count - KC_TOP).s);
}

static void print_threads(const kc_threads *w, const kineto_trace *trace, FILE *out)
{
    if (!w->threads.count)
        return;
    fprintf(out, "\n  %-40s %10s %17s %12s\n", "threads", "running", "waiting for a CPU", "blocked");
    for (size_t i = 0; i < w->threads.count && i < KC_TOP; i++) {
        const kc_thread_states *t = &w->threads.data[i];
        fputs("  ", out);
        kc_put_name(out, thread_of_track(trace, t->track), 40);
        fprintf(out, " %10s %17s %12s\n", kb_duration(t->ns[0]).s, kb_duration(t->ns[1]).s,
                kb_duration(t->ns[2]).s);
    }
    print_more(w->threads.count, out);
}

static void print_functions(const kc_threads *w, const kineto_trace *trace, FILE *out)
{
    int64_t all = 0;
    for (size_t i = 0; i < w->functions.count; i++)
        all = kc_sum_ns(all, w->functions.data[i].self_ns);
    if (!w->functions.count)
        return;
    fprintf(out, "\n  %-40s %10s %12s %12s\n", "functions, sampled CPU time", "share", "self",
            "with callees");
    for (size_t i = 0; i < w->functions.count && i < KC_TOP; i++) {
        const kc_sampled *f = &w->functions.data[i];
        fputs("  ", out);
        kc_put_name(out, kineto_trace_string(trace, f->name_id), 40);
        fprintf(out, " %8.1f %% %12s %12s\n", all ? 100.0 * (double)f->self_ns / (double)all : 0.0,
                kb_duration(f->self_ns).s, kb_duration(f->total_ns).s);
    }
    print_more(w->functions.count, out);
}

static void print_blocked(const kc_threads *w, FILE *out)
{
    if (!w->blocked.count)
        return;
    fprintf(out, "\n  %-40s %10s %12s %12s\n", "threads blocked in", "count", "total", "mean");
    for (size_t i = 0; i < w->blocked.count && i < KC_TOP; i++) {
        const kc_blocked *b = &w->blocked.data[i];
        fputs("  ", out);
        kc_put_name(out, kb_intern_get(&w->names, b->function), 40);
        fprintf(out, " %10s %12s %12s\n", kc_count(b->count).s, kb_duration(b->total_ns).s,
                kb_duration(b->total_ns / (int64_t)b->count).s);
    }
    print_more(w->blocked.count, out);
}

void kc_threads_print(const kc_threads *w, const kineto_trace *trace, FILE *out)
{
    print_threads(w, trace, out);
    print_blocked(w, out);
    print_functions(w, trace, out);
}

void kc_threads_json(const kc_threads *w, const kineto_trace *trace, kb_json *j)
{
    kb_json_key_z(j, "threads");
    kb_json_array_begin(j);
    for (size_t i = 0; i < w->threads.count; i++) {
        const kc_thread_states *t = &w->threads.data[i];
        kb_json_object_begin(j);
        kb_json_put_string(j, "name", thread_of_track(trace, t->track));
        kb_json_put_int(j, "running_ns", t->ns[0]);
        kb_json_put_int(j, "waiting_ns", t->ns[1]);
        kb_json_put_int(j, "blocked_ns", t->ns[2]);
        kb_json_object_end(j);
    }
    kb_json_array_end(j);
    kb_json_key_z(j, "blocked_in");
    kb_json_array_begin(j);
    for (size_t i = 0; i < w->blocked.count; i++) {
        const kc_blocked *b = &w->blocked.data[i];
        kb_json_object_begin(j);
        kb_json_put_string(j, "function", kb_intern_get(&w->names, b->function));
        kb_json_put_uint(j, "count", b->count);
        kb_json_put_int(j, "total_ns", b->total_ns);
        kb_json_object_end(j);
    }
    kb_json_array_end(j);
    kb_json_key_z(j, "sampled_functions");
    kb_json_array_begin(j);
    for (size_t i = 0; i < w->functions.count; i++) {
        const kc_sampled *f = &w->functions.data[i];
        kb_json_object_begin(j);
        kb_json_put_string(j, "name", kineto_trace_string(trace, f->name_id));
        kb_json_put_uint(j, "samples", f->samples);
        kb_json_put_int(j, "self_cpu_ns", f->self_ns);
        kb_json_put_int(j, "total_cpu_ns", f->total_ns);
        kb_json_object_end(j);
    }
    kb_json_array_end(j);
}
