/* Functions that use much of the CPU time of a program, by its samples: one function with a large share,
 * the allocator, and the kernel's handling of page faults. */
#include "analyze/findings/find_threads.h"

#define MIN_HOT_PERCENT   30.0
#define MIN_CHURN_PERCENT 10.0
#define MIN_FAULT_PERCENT 10.0

/* ---- how long ------------------------------------------------------------------------------- */

/* Time in which some thread was running, or could have been; without states at most the sampled time. */
static int64_t find_busy_ns(ka_finder *f, const ka_watched *w)
{
    ka_load load;
    int64_t busy_ns = 0;
    if (!w->states.count)
        return kb_min_i64(w->sampled_ns, ka_watched_span_ns(w));
    f->no_memory |= !ka_load_make(w, NULL, NULL, &load);
    for (size_t i = 0; i < load.points.count; i++)
        if (load.points.data[i].running || load.points.data[i].waiting)
            busy_ns = ka_add_ns(busy_ns, ka_load_length_ns(&load, i));
    ka_load_free(&load);
    return busy_ns;
}

/* What the program would be shorter by if functions with this share of its CPU time took half of it. */
static int64_t half_of_share(ka_finder *f, const ka_watched *w, double percent)
{
    return (int64_t)((double)find_busy_ns(f, w) * percent / 200);
}

static bool has_enough_samples(const ka_watched *w)
{
    return w && w->samples >= KA_MIN_SAMPLES && w->sampled_ns >= KA_MIN_CPU_NS;
}

typedef bool function_filter(const ka_watched *w, const ka_sampled *s, uint32_t name);

/* The longest sampled range of each thread for which `wanted` says so. */
static void show_functions(ka_finder *f, ka_found *x, const ka_watched *w, function_filter *wanted,
                           uint32_t name)
{
    for (size_t i = 0; i < w->functions.count; i++) {
        const ka_sampled *s = &w->functions.data[i];
        if (wanted(w, s, name) && s->self_ns > 0)
            ka_show_row(f, x, s->row, s->self_ns, "%s of its own in this thread",
                        kb_duration(s->self_ns).s);
    }
}

/* Opens a finding about all functions for which `wanted` says so, if they have that share of the CPU time, of
 * their own or with what they called. NULL: they have not, or out of memory. */
static ka_found *open_share_finding(ka_finder *f, const ka_watched *w, function_filter *wanted,
                                    bool by_total, double min_percent, const char *what)
{
    int64_t ns = 0;
    uint64_t samples = 0;
    for (size_t i = 0; has_enough_samples(w) && i < w->of_all.count; i++) {
        const ka_sampled *s = &w->of_all.data[i];
        if (!wanted(w, s, 0))
            continue;
        ns = ka_add_ns(ns, by_total ? s->total_ns : s->self_ns);
        samples += by_total ? s->samples : (uint64_t)KB_MAX(s->own_samples, 0);
    }
    double percent = w ? ka_percent((double)ns, (double)w->sampled_ns) : 0;
    if (percent < min_percent || samples < KA_MIN_SAMPLES / 2)
        return NULL;
    ka_found *x = ka_open_thread_finding(f, w, half_of_share(f, w, percent), 0.4, "");
    if (!x)
        return NULL;
    x->count = samples;
    ka_say(f, x, "%.1f %% of the sampled CPU time (%s) is in %s", percent, kb_duration(ns).s, what);
    return x;
}

/* ---- memory allocation ----------------------------------------------------------------------- */

/* Functions of allocators: libc's, those of C++ and Rust, jemalloc, tcmalloc, mimalloc, Python. */
static bool is_allocator(kineto_string name)
{
    static const char *const exact[] = {"malloc", "free", "calloc", "realloc", "reallocarray", "cfree",
                                        "memalign", "aligned_alloc", "posix_memalign", "valloc",
                                        "malloc_consolidate", "sysmalloc", "systrim", "unlink_chunk",
                                        "tcache_get", "tcache_put", "alloc_perturb", "arena_get2",
                                        "_PyObject_Malloc", "_PyObject_Free", "PyObject_Malloc",
                                        "PyObject_Free"},
                      *const begins[] = {"_int_malloc", "_int_free", "_int_realloc", "_int_memalign",
                                         "unlink_chunk.", "sysmalloc.", "systrim.",
                                         "malloc_consolidate.", "__libc_malloc", "__libc_free",
                                         "__libc_calloc", "__libc_realloc", "__GI___libc_malloc",
                                         "__GI___libc_free", "__GI___libc_realloc", "operator new",
                                         "operator delete", "__rust_alloc", "__rust_dealloc",
                                         "__rust_realloc", "je_", "tc_malloc", "tc_free", "tc_new",
                                         "tc_delete", "mi_malloc", "mi_free", "mi_heap_malloc",
                                         "_mi_malloc", "_mi_page", "_mi_heap"};
    for (size_t i = 0; i < KB_COUNT(exact); i++)
        if (kb_string_equal(name, kb_string(exact[i])))
            return true;
    for (size_t i = 0; i < KB_COUNT(begins); i++)
        if (kb_string_starts_with(name, begins[i]))
            return true;
    return false;
}

static bool is_of_allocator(const ka_watched *w, const ka_sampled *s, uint32_t name)
{
    (void)name;
    return is_allocator(kineto_trace_string(w->trace, s->name));
}

void ka_find_allocation_churn(ka_finder *f)
{
    const ka_watched *w = ka_watched_of(f);
    ka_found *x = open_share_finding(f, w, is_of_allocator, false, MIN_CHURN_PERCENT,
                                     "functions that allocate and release memory");
    if (x)
        show_functions(f, x, w, is_of_allocator, 0);
}

/* ---- page faults ----------------------------------------------------------------------------- */

/* Where the kernel is entered by a page fault, on x86-64 and arm64; nothing else contains them. */
static bool handles_faults(const ka_watched *w, const ka_sampled *s, uint32_t name)
{
    static const char *const entries[] = {"asm_exc_page_fault", "page_fault", "el0_da", "el0_ia"};
    kineto_string function = kineto_trace_string(w->trace, s->name);
    (void)name;
    for (size_t i = 0; i < KB_COUNT(entries); i++)
        if (kb_string_equal(function, kb_string(entries[i])))
            return kb_string_equal(ka_watched_text(w, s->module), kb_string("[kernel]"));
    return false;
}

/* The functions that touched the memory, where they were recorded: they have the time in proportion. */
static void show_faulting_functions(ka_finder *f, ka_found *x, int64_t sampled_ns)
{
    const ka_table *t = ka_fact_table(f, KA_TABLE_page_faults);
    for (uint64_t row = 0; row < ka_table_rows(t) && row < 5; row++) {
        double percent = ka_fact_number(t, row, KA_COL_page_faults_faults_pct);
        kb_text name = ka_short_name(ka_text_at(t, row, KA_COL_page_faults_function));
        ka_show_row(f, x, (kineto_row)ka_fact_int(t, row, KA_COL_page_faults_row),
                    (int64_t)((double)sampled_ns * percent / 100),
                    "%s: %lld page faults (%.1f %%), of which %lld read something", name.s,
                    (long long)ka_fact_int(t, row, KA_COL_page_faults_faults), percent,
                    (long long)ka_fact_int(t, row, KA_COL_page_faults_major));
    }
}

void ka_find_page_faults(ka_finder *f)
{
    int64_t sampled_ns = 0;
    const ka_watched *w = ka_watched_of(f);
    ka_found *x = open_share_finding(f, w, handles_faults, true, MIN_FAULT_PERCENT,
                                     "the kernel for page faults: memory that is touched for the first "
                                     "time");
    for (size_t i = 0; x && i < w->functions.count; i++) {
        const ka_sampled *s = &w->functions.data[i];
        if (!handles_faults(w, s, 0))
            continue;
        sampled_ns = ka_add_ns(sampled_ns, s->total_ns);
        ka_show_row(f, x, s->row, s->total_ns, "%s in this thread", kb_duration(s->total_ns).s);
    }
    if (x)
        show_faulting_functions(f, x, sampled_ns);
}

/* ---- one function ---------------------------------------------------------------------------- */

static bool has_name(const ka_watched *w, const ka_sampled *s, uint32_t name)
{
    (void)w;
    return s->name == name;
}

/* The function with the most time of its own that is no allocator's. NULL: there is none. */
static const ka_sampled *find_hottest(const ka_watched *w)
{
    for (size_t i = 0; i < w->of_all.count; i++)
        if (!is_of_allocator(w, &w->of_all.data[i], 0))
            return &w->of_all.data[i];
    return NULL;
}

/* "[JIT code]", "[library.so]": all functions of a module that have no names. */
static bool is_unnamed(kineto_string name)
{
    return name.size > 2 && name.data[0] == '[' && name.data[name.size - 1] == ']';
}

/* All functions of the kernel as one: which of them it is says little of the program. */
static ka_sampled sum_kernel(const ka_watched *w, const ka_sampled *first)
{
    ka_sampled sum = *first;
    sum.self_ns = 0;
    sum.own_samples = 0;
    for (size_t i = 0; i < w->of_all.count; i++)
        if (ka_is_in_kernel(w, &w->of_all.data[i])) {
            sum.self_ns = ka_add_ns(sum.self_ns, w->of_all.data[i].self_ns);
            sum.own_samples += w->of_all.data[i].own_samples;
        }
    return sum;
}

static bool is_kernel_function(const ka_watched *w, const ka_sampled *s, uint32_t name)
{
    (void)name;
    return ka_is_in_kernel(w, s);
}

static void report_kernel(ka_finder *f, const ka_watched *w, const ka_sampled *hot, double percent)
{
    ka_found *x = ka_open_thread_finding(f, w, half_of_share(f, w, percent), 0.3, "[kernel]");
    if (!x)
        return;
    x->count = (uint64_t)hot->own_samples;
    ka_say(f, x, "%.1f %% of the sampled CPU time (%s) is in the kernel", percent, kb_duration(hot->self_ns).s);
    ka_advise(f, x,
              "Make fewer and larger system calls, and touch less new memory; 'strace -cf' counts "
              "the calls, 'perf stat -e page-faults' the pages");
    show_functions(f, x, w, is_kernel_function, 0);
}

static void report_hot(ka_finder *f, const ka_watched *w, const ka_sampled *hot, double percent)
{
    kb_text name = ka_short_name(kineto_trace_string(w->trace, hot->name));
    kineto_string module = ka_watched_text(w, hot->module);
    ka_found *x = ka_open_thread_finding(f, w, half_of_share(f, w, percent), 0.3, name.s);
    if (!x)
        return;
    x->count = hot->samples;
    bool unnamed = is_unnamed(kineto_trace_string(w->trace, hot->name));
    module.size = unnamed ? 0 : module.size;
    ka_say(f, x, "%.1f %% of the sampled CPU time (%s) is in %s itself%s%.*s", percent,
           kb_duration(hot->self_ns).s, name.s, module.size ? ", of " : "",
           (int)KB_MIN(module.size, (size_t)80), module.data);
    if (unnamed)
        ka_advise(f, x,
                  "These are all functions there that have no names: install the file's debug symbols; "
                  "for generated code have a perf map written, and record again "
                  "(docs/reference/stacks.md#symbols)");
    show_functions(f, x, w, has_name, hot->name);
}

void ka_find_hot_function(ka_finder *f)
{
    const ka_watched *w = ka_watched_of(f);
    const ka_sampled *first = has_enough_samples(w) ? find_hottest(w) : NULL;
    bool in_kernel = first && ka_is_in_kernel(w, first);
    ka_sampled kernel = in_kernel ? sum_kernel(w, first) : (ka_sampled){0};
    const ka_sampled *hot = in_kernel ? &kernel : first;
    double percent = hot ? ka_percent((double)hot->self_ns, (double)w->sampled_ns) : 0;
    if (percent < MIN_HOT_PERCENT || hot->own_samples < (int64_t)KA_MIN_SAMPLES)
        return;
    if (in_kernel)
        report_kernel(f, w, hot, percent);
    else
        report_hot(f, w, hot, percent);
}
