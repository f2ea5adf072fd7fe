/* The headline and the tiles of an overview: how much was recorded, how busy devices or processors
 * were, and what the rest of the time waits for. */
#include "analyze/overview/overview.h"

#include "analyze/dataset/watched_threads.h"
#include "analyze/ranks/rank_names.h"
#include "analyze/ranks/rank_set.h"
#include "analyze/ranks/rank_warnings.h"
#include "base/strings.h"

#include <math.h>

/* ---- sentences ------------------------------------------------------------------------------- */

/* Appends to the headline; what does not fit is cut. */
KINETO_PRINTF(2, 3) static void say(kineto_overview *o, const char *fmt, ...)
{
    size_t used = strlen(o->headline);
    va_list args;
    va_start(args, fmt);
    (void)kb_vsnprintf(o->headline + used, sizeof o->headline - used, fmt, args);
    va_end(args);
}

/* A new tile; NULL if all places are taken. */
static ka_overview_tile *add_tile(kineto_overview *o, const char *label)
{
    if (o->tile_count == KA_MAX_TILES)
        return NULL;
    ka_overview_tile *tile = &o->tiles[o->tile_count++];
    *tile = (ka_overview_tile){.label = label};
    return tile;
}

KINETO_PRINTF(3, 4)
static void set_text(char *text, size_t size, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    (void)kb_vsnprintf(text, size, fmt, args);
    va_end(args);
}

#define SET_VALUE(tile, ...)  set_text((tile)->value, sizeof(tile)->value, __VA_ARGS__)
#define SET_DETAIL(tile, ...) set_text((tile)->detail, sizeof(tile)->detail, __VA_ARGS__)

static const ka_table *find_table(const kineto_overview *o, ka_table_id id)
{
    return &o->facts->tables[id];
}

/* The sum of a column of times. */
static double sum_column(const ka_table *t, uint32_t column)
{
    double sum = 0;
    for (uint64_t row = 0; row < ka_table_rows(t); row++) {
        ka_cell cell = ka_cell_at(t, row, column);
        if (!ka_is_none(t, column, cell))
            sum += (double)cell.i;
    }
    return sum;
}

/* The section that is made of this table; NULL: it is not shown. */
static const ka_overview_section *find_shown(const kineto_overview *o, ka_table_id id)
{
    for (uint32_t i = 0; i < o->section_count; i++)
        if (o->sections[i].spec->source == id)
            return &o->sections[i];
    return NULL;
}

/* A number of the first row of a section, the largest; NAN: it has no such column or value. */
static double read_first(const ka_overview_section *s, const char *column)
{
    for (uint32_t i = 0; i < s->table.column_count; i++)
        if (kb_string_equal(s->columns[i].name, kb_string(column))) {
            ka_cell cell = ka_cell_at(&s->table, 0, i);
            return s->columns[i].type == KINETO_CELL_NUMBER ? cell.d : (double)cell.i;
        }
    return (double)NAN;
}

/* Its name: the first column. */
static kb_text read_first_name(const ka_overview_section *s)
{
    return ka_short_name(ka_text_at(&s->table, 0, 0));
}

/* ---- what was recorded ----------------------------------------------------------------------- */

static int64_t find_longest_window(const kineto_overview *o)
{
    return ka_coverage_longest_ns(&o->coverage);
}

/* Nothing of a single whole trace. */
static void say_ranks(kineto_overview *o)
{
    char text[400];
    ka_coverage_describe(&o->coverage, text, sizeof text);
    if (*text)
        say(o, "%s ", text);
}

/* NULL: ranks are not compared. */
static const ka_rank_view *find_rank_view(const kineto_overview *o)
{
    return o->found && o->found->across ? ka_view_several_ranks(o->found->across->ranks) : NULL;
}

/* What makes a comparison of ranks doubtful, or a run hang. */
static void say_rank_warnings(kineto_overview *o)
{
    char text[400];
    const ka_rank_view *v = find_rank_view(o);
    if (v && ka_warn_of_mismatches(v, text, sizeof text))
        say(o, "Collectives differ: %s. ", text);
    if (v && ka_warn_of_clocks(v, text, sizeof text))
        say(o, "R%s. ", text + 1); /* "Ranks …" */
}

/* What the run alone cannot show: a reader would take silence for "all is well". */
static void say_lone_links(kineto_overview *o)
{
    char text[400];
    const ka_rank_view *v = find_rank_view(o);
    if (v && ka_say_lone_links(v, text, sizeof text))
        say(o, " No rank makes the run longer by more than noise; %s.", text);
}

/* The row with the longest time on a CPU. */
static uint64_t find_busiest_thread(const ka_table *t)
{
    uint64_t busiest = 0;
    for (uint64_t row = 1; row < ka_table_rows(t); row++)
        if (ka_cell_at(t, row, KA_COL_thread_states_running_us).i >
            ka_cell_at(t, busiest, KA_COL_thread_states_running_us).i)
            busiest = row;
    return busiest;
}

/* Threads of the program that was recorded, without the small ones that a shell script around it starts: those of the
 * process with the busiest thread, if it has most of the CPU time; else all. */
static uint64_t count_program_threads(const ka_table *t)
{
    int64_t pid = ka_cell_at(t, find_busiest_thread(t), KA_COL_thread_states_pid).i;
    double all = sum_column(t, KA_COL_thread_states_running_us), own = 0;
    uint64_t count = 0;
    for (uint64_t row = 0; row < ka_table_rows(t); row++)
        if (ka_cell_at(t, row, KA_COL_thread_states_pid).i == pid) {
            own += (double)ka_cell_at(t, row, KA_COL_thread_states_running_us).i;
            count++;
        }
    return own >= 0.8 * all ? count : ka_table_rows(t);
}

/* "6 steps of 176.3 ms", or "8.510 s recorded". */
static void say_extent(kineto_overview *o)
{
    uint32_t steps;
    int64_t step_ns = kineto_findings_mean_step_ns(o->found, &steps);
    ka_overview_tile *tile = add_tile(o, steps ? "Step time" : "Recorded");
    if (!steps) {
        const ka_table *threads = find_table(o, KA_TABLE_thread_states);
        int64_t window_ns = find_longest_window(o);
        say(o, "%s recorded", kb_short_duration(window_ns).s);
        SET_VALUE(tile, "%s", kb_short_duration(window_ns).s);
        if (ka_table_rows(threads)) {
            uint64_t count = ka_table_rows(threads), own = count_program_threads(threads);
            say(o, " of %llu %s", (unsigned long long)own, own == 1 ? "thread" : "threads");
            if (count > own)
                say(o, " (and %llu in other processes)", (unsigned long long)(count - own));
            SET_DETAIL(tile, "%llu %s", (unsigned long long)count,
                       count == 1 ? "thread" : "threads");
        }
        say(o, ".");
        return;
    }
    uint32_t of_each = steps / KB_MAX(o->coverage.rank_count, 1u);
    say(o, "%u %s", KB_MAX(of_each, 1u), of_each > 1 ? "steps" : "step");
    if (*o->repeated_steps)
        say(o, " (ranges named '%s')", o->repeated_steps);
    say(o, " of %s.", kb_short_duration(step_ns).s);
    SET_VALUE(tile, "%s", kb_short_duration(step_ns).s);
    SET_DETAIL(tile, "mean of %u steps%s", steps, o->coverage.rank_count > 1 ? " of all ranks" : "");
}

/* ---- devices --------------------------------------------------------------------------------- */

/* Utilization over all devices. */
typedef struct use {
    double sum, least, most;
    int64_t least_rank, most_rank;
    uint32_t count;
} use;

static use measure_use(const kineto_overview *o)
{
    const ka_table *t = find_table(o, KA_TABLE_gpu_summary);
    use u = {0};
    for (uint64_t row = 0; row < ka_table_rows(t); row++) {
        ka_cell cell = ka_cell_at(t, row, KA_COL_gpu_summary_utilization_pct);
        int64_t rank = ka_cell_at(t, row, KA_COL_gpu_summary_rank).i;
        if (ka_is_none(t, KA_COL_gpu_summary_utilization_pct, cell) ||
            ka_coverage_is_cut(ka_overview_coverage(o), rank))
            continue;
        if (!u.count || cell.d < u.least) {
            u.least = cell.d;
            u.least_rank = rank;
        }
        if (!u.count || cell.d > u.most) {
            u.most = cell.d;
            u.most_rank = rank;
        }
        u.sum += cell.d;
        u.count++;
    }
    return u;
}

/* What an idle device waits for, as the end of "… of the idle time is spent". */
static const char *describe_reason(kineto_string reason)
{
    static const char *const words[][2] = {
        {"synchronizing", "in calls that wait for the device"},
        {"data_loader", "waiting for the data loader"},
        {"between_operators", "on the host between operators"},
        {"in_operator", "on the host inside operators, before they launch work"},
        {"in_runtime", "in runtime calls"},
        {"launching", "in launching calls"},
        {"full_queue", "waiting for room in the launch queue"},
        {"profiler_overhead", "in the profiler"},
        {"other_stream", "waiting for another stream"},
        {"other_rank", "waiting for another rank"},
        {"unrecorded_work", "on work that was not recorded"},
        {"device_latency", "as latency between kernels"}};
    for (size_t i = 0; i < KB_COUNT(words); i++)
        if (kb_string_equal(reason, kb_string(words[i][0])))
            return words[i][1];
    return NULL;
}

/* "; 72 % of the idle time between its first and last work is spent waiting for the data loader": the reasons
 * are of gaps, which lie between two pieces of work, utilization is of all of the time. */
static void say_idle_reason(kineto_overview *o)
{
    const ka_overview_section *s = find_shown(o, KA_TABLE_idle_named);
    const char *words = s ? describe_reason(ka_text_at(&s->table, 0, 0)) : NULL;
    double share = s ? read_first(s, "share_pct") : 0;
    if (words && share >= 1)
        say(o, "; %.0f %% of the idle time between first and last work is spent %s", share, words);
}

static bool has_steps(const kineto_overview *o)
{
    uint32_t steps;
    (void)kineto_findings_mean_step_ns(o->found, &steps);
    return steps > 0;
}

/* " of the 19.93 ms between the first and the last event", where the recording was longer than that: profilers also
 * record the time in which they start and stop. */
static void say_span(kineto_overview *o)
{
    const double SAME = 0.95;
    int64_t span_ns = kineto_findings_mean_step_ns(o->found, NULL);
    if (!has_steps(o) && (double)span_ns < SAME * (double)find_longest_window(o))
        say(o, " of the %s between the first and the last event", kb_short_duration(span_ns).s);
}

/* False: no utilization of a device is known. */
static bool say_devices(kineto_overview *o)
{
    use u = measure_use(o);
    if (!u.count)
        return false;
    double mean = u.sum / u.count;
    if (u.count == 1)
        say(o, " The GPU is busy for %.0f %%", mean);
    else
        say(o, " The %u GPUs are busy for %.0f %% on average", u.count, mean);
    say_span(o);
    if (u.count > 1 && o->coverage.rank_count > 1 && u.most - u.least >= 1)
        say(o, ", from %.0f %% (rank %lld) to %.0f %% (rank %lld)", u.least,
            (long long)u.least_rank, u.most, (long long)u.most_rank);
    if (mean < 95)
        say_idle_reason(o);
    say(o, ".");
    ka_overview_tile *tile = add_tile(o, "GPU utilization");
    if (tile) {
        SET_VALUE(tile, "%.1f %%", mean);
        SET_DETAIL(tile, "time in which a kernel runs, %s%s",
                   has_steps(o) ? "of the time of the steps" : "from the first event to the last",
                   u.count > 1 ? "; mean of all devices" : "");
    }
    return true;
}

/* ---- programs without devices ---------------------------------------------------------------- */

static bool is_kernel_row(const ka_table *t, uint64_t row)
{
    return kb_string_is(ka_text_at(t, row, KA_COL_cpu_functions_module), "[kernel]") ||
           kb_string_is(ka_text_at(t, row, KA_COL_cpu_functions_function), "[kernel]");
}

/* "leaf takes 61 % of the CPU time."; "only 7 samples" of too few for a share. Functions of the kernel are
 * one, as what they do was asked for by others. False: there are no samples. */
static bool say_function(kineto_overview *o)
{
    const ka_table *t = find_table(o, KA_TABLE_cpu_functions);
    const ka_overview_section *s = find_shown(o, KA_TABLE_cpu_functions);
    double samples = sum_column(t, KA_COL_cpu_functions_own_samples),
           whole = sum_column(t, KA_COL_cpu_functions_self_us), in_kernel = 0;
    if (!s || !(whole > 0))
        return false;
    if (samples < KA_MIN_SAMPLES) {
        say(o, " Only %.0f CPU %s taken: too few to say which function takes the CPU time.", samples,
            samples == 1 ? "sample was" : "samples were");
        return true;
    }
    for (uint64_t row = 0; row < ka_table_rows(t); row++)
        if (is_kernel_row(t, row))
            in_kernel += (double)ka_cell_at(t, row, KA_COL_cpu_functions_self_us).i;
    double share = read_first(s, "share_pct");
    if (100 * in_kernel / whole > share)
        say(o, " %.0f %% of the CPU time is in the kernel.", 100 * in_kernel / whole);
    else if (share >= 1)
        say(o, " %s takes %.0f %% of the CPU time.", read_first_name(s).s, share);
    return true;
}

/* Those of the program before those of the interpreter. False: there are none. */
static bool say_python_function(kineto_overview *o)
{
    const ka_overview_section *s = find_shown(o, KA_TABLE_python_functions);
    double share = s ? read_first(s, "share_pct") : 0;
    if (share >= 1)
        say(o, " %s takes %.0f %% of the time in Python functions.", read_first_name(s).s, share);
    return share >= 1;
}

/* What takes most of the time of functions, operators or kernels. */
static void say_consumer(kineto_overview *o)
{
    static const struct {
        ka_table_id table;
        const char *whole;
    } consumers[] = {{KA_TABLE_operators, "the operators' own time on the host"},
                     {KA_TABLE_kernels, "the kernels' time"}};
    if (say_python_function(o) || say_function(o))
        return;
    for (size_t i = 0; i < KB_COUNT(consumers); i++) {
        const ka_overview_section *s = find_shown(o, consumers[i].table);
        double share = s ? read_first(s, "share_pct") : 0;
        if (share >= 1) {
            say(o, " %s takes %.0f %% of %s.", read_first_name(s).s, share, consumers[i].whole);
            return;
        }
    }
}

/* "communication takes 85 % of the steps": the part that takes most of them, unless the host does; then its
 * operators say more. False: it does, or there are no steps. */
static bool say_largest_part(kineto_overview *o)
{
    static const struct {
        uint32_t column;
        const char *name;
    } parts[] = {{KA_COL_steps_communication_us, "communication"},
                 {KA_COL_steps_dataloader_us, "the data loader"},
                 {KA_COL_steps_memcpy_us, "copying"},
                 {KA_COL_steps_runtime_us, "runtime calls"}};
    const ka_table *t = find_table(o, KA_TABLE_steps);
    double whole = sum_column(t, KA_COL_steps_dur_us), most = 0.2 * whole;
    const char *name = NULL;
    if (!find_shown(o, KA_TABLE_steps))
        return false;
    for (size_t i = 0; i < KB_COUNT(parts); i++) {
        double part = sum_column(t, parts[i].column);
        if (part > most) {
            most = part;
            name = parts[i].name;
        }
    }
    if (name)
        say(o, " %.0f %% of it is %s.", 100 * most / whole, name);
    return name != NULL;
}

/* The longest range of the user, where nothing else says what the program did. */
static void say_range(kineto_overview *o)
{
    const ka_overview_section *s = find_shown(o, KA_TABLE_annotations);
    double window = (double)find_longest_window(o), total = s ? read_first(s, "total_us") : 0;
    if (s && kb_string_equal(kb_string(read_first_name(s).s), kb_string(o->repeated_steps)))
        return; /* the steps are named already */
    if (s && window > 0 && total > 0)
        say(o, " The range %s takes %s in %.0f %s.", read_first_name(s).s,
            kb_short_duration((int64_t)KB_MIN(total, 0x1p62)).s, read_first(s, "calls"),
            read_first(s, "calls") == 1 ? "call" : "calls");
}

/* "The busiest thread, thread 42 (server), runs for 31 % of its time, waits for a CPU for 63 % and is blocked for 6 %." */
static void say_busiest_thread(kineto_overview *o, const ka_table *t)
{
    static const uint32_t columns[] = {KA_COL_thread_states_running_pct, KA_COL_thread_states_waiting_pct,
                                       KA_COL_thread_states_blocked_pct};
    uint64_t row = find_busiest_thread(t);
    double percent[KB_COUNT(columns)];
    for (size_t i = 0; i < KB_COUNT(columns); i++) {
        ka_cell cell = ka_cell_at(t, row, columns[i]);
        if (ka_is_none(t, columns[i], cell))
            return;
        percent[i] = cell.d;
    }
    if (ka_table_rows(t) == 1)
        say(o, " The thread");
    else
        say(o, " The busiest thread, %s,", ka_short_name(ka_text_at(t, row, KA_COL_thread_states_thread)).s);
    say(o, " runs for %.0f %% of its time, waits for a CPU for %.0f %% and is blocked for %.0f %%.", percent[0],
        percent[1], percent[2]);
}

/* States of threads: workers that are idle tell nothing, so the busiest one is described. False: they were not
 * watched. */
static bool say_threads(kineto_overview *o)
{
    const ka_table *t = find_table(o, KA_TABLE_thread_states);
    double lifetime = sum_column(t, KA_COL_thread_states_lifetime_us),
           running = sum_column(t, KA_COL_thread_states_running_us);
    double window = (double)find_longest_window(o);
    if (!(lifetime > 0) || !(window > 0))
        return false;
    ka_overview_tile *tile = add_tile(o, "CPUs in use");
    if (tile) {
        SET_VALUE(tile, "%.2f", running / window / KB_MAX((double)o->coverage.traces.count, 1));
        SET_DETAIL(tile, "CPU time of all threads / recorded time%s",
                   o->coverage.traces.count > 1 ? ", of a rank" : "");
    }
    double cpus = running / window / KB_MAX((double)o->coverage.traces.count, 1);
    if (ka_table_rows(t) > 1)
        say(o, " %.2g %s in use on average.", cpus, cpus > 0.995 && cpus < 1.005 ? "CPU is" : "CPUs are");
    say_busiest_thread(o, t);
    return true;
}

/* ---- the rest of the tiles ------------------------------------------------------------------- */

/* The finding that would save most. */
static void add_saving_tile(kineto_overview *o)
{
    kineto_finding f, most = {.savings_ns = -1};
    kineto_finding_rule rule;
    for (uint32_t i = 0; kineto_findings_get(o->found, i, &f); i++)
        if (f.has_savings && f.savings_pct >= 0.05 && f.savings_ns > most.savings_ns)
            most = f;
    ka_overview_tile *tile = most.savings_ns >= 0 ? add_tile(o, "Largest saving") : NULL;
    if (!tile)
        return;
    kineto_finding_rule_get(most.rule, &rule);
    SET_VALUE(tile, "%.1f %%", most.savings_pct);
    SET_DETAIL(tile, "%s: %s", kb_short_duration(most.savings_ns).s, rule.title);
}

/* The largest peak of a device other than the host's, else of the host. */
static void add_memory_tile(kineto_overview *o)
{
    const ka_table *t = find_table(o, KA_TABLE_memory);
    int64_t peak = 0;
    kineto_string device = {"", 0};
    for (int pass = 0; pass < 2 && !peak; pass++)
        for (uint64_t row = 0; row < ka_table_rows(t); row++) {
            ka_cell cell = ka_cell_at(t, row, KA_COL_memory_peak_allocated_bytes);
            kineto_string name = ka_text_at(t, row, KA_COL_memory_device);
            bool is_host = name.size >= 3 && memcmp(name.data, "CPU", 3) == 0;
            if (is_host == (pass == 0) || cell.i == KA_NO_INT || cell.i <= peak)
                continue;
            peak = cell.i;
            device = name;
        }
    ka_overview_tile *tile = peak > 0 ? add_tile(o, "Memory at its peak") : NULL;
    if (!tile)
        return;
    SET_VALUE(tile, "%s", kb_bytes((uint64_t)peak).s);
    SET_DETAIL(tile, "allocated on %.*s", (int)KB_MIN(device.size, (size_t)60), device.data);
}

void ka_overview_describe(kineto_overview *o)
{
    uint64_t activities = 0;
    o->headline[0] = 0;
    for (size_t i = 0; i < o->coverage.traces.count; i++)
        activities += o->coverage.traces.data[i].activities;
    say_ranks(o);
    say_rank_warnings(o);
    if (!activities) {
        say(o, "The trace has no activities.");
        return;
    }
    say_extent(o);
    if (!say_devices(o)) {
        bool watched = say_threads(o);
        if (find_shown(o, KA_TABLE_annotations))
            say_range(o);
        if (!say_largest_part(o) && (watched || !find_shown(o, KA_TABLE_annotations)))
            say_consumer(o);
    }
    say_lone_links(o);
    add_saving_tile(o);
    add_memory_tile(o);
}
