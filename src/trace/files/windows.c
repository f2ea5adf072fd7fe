/* Which traces of a set were recorded at the same time: a trace of another run lies apart from the majority. The survey
 * of files and the description of the ranks of a job (ka_coverage) use the same rule. */
#include "trace/files/identity.h"

static int compare_times(const void *left, const void *right)
{
    const int64_t *a = left, *b = right;
    return (*a > *b) - (*a < *b);
}

/* The instant that most windows contain, and how many do: starts and ends, each in order, are passed together. */
static size_t find_fullest_instant(const int64_t *starts, const int64_t *ends, size_t count, int64_t *instant_ns)
{
    size_t most = 0, ended = 0;
    for (size_t i = 0; i < count; i++) {
        while (ends[ended] < starts[i])
            ended++;
        if (i + 1 - ended > most) {
            most = i + 1 - ended;
            *instant_ns = starts[i];
        }
    }
    return most;
}

static void join_windows_at(const kt_time_window *windows, size_t count, int64_t instant_ns, kt_time_window *joined)
{
    *joined = (kt_time_window){instant_ns, instant_ns};
    for (size_t i = 0; i < count; i++) {
        if (windows[i].start_ns > instant_ns || windows[i].end_ns < instant_ns)
            continue;
        joined->start_ns = KB_MIN(joined->start_ns, windows[i].start_ns);
        joined->end_ns = KB_MAX(joined->end_ns, windows[i].end_ns);
    }
}

bool kt_find_majority_window(const kt_time_window *windows, size_t count, kt_time_window *majority)
{
    int64_t *times = malloc((2 * count + 1) * sizeof *times), instant_ns = 0;
    if (!times || count < 2) {
        free(times);
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        times[i] = windows[i].start_ns;
        times[count + i] = KB_MAX(windows[i].start_ns, windows[i].end_ns);
    }
    qsort(times, count, sizeof *times, compare_times);
    qsort(times + count, count, sizeof *times, compare_times);
    size_t most = find_fullest_instant(times, times + count, count, &instant_ns);
    free(times);
    if (most < 2 || most <= count / 2)
        return false;
    join_windows_at(windows, count, instant_ns, majority);
    return true;
}

bool kt_window_is_of_other_run(const kt_time_window *window, const kt_time_window *majority)
{
    const int64_t APART_NS = INT64_C(60000000000);
    return kb_length_ns(window->end_ns, majority->start_ns) >= APART_NS ||
           kb_length_ns(majority->end_ns, window->start_ns) >= APART_NS;
}
