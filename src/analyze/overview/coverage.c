/* Which ranks of a job some traces cover. */
#include "analyze/overview/coverage.h"
#include "trace/trace.h"

#include <ckineto/files.h>

#define MAX_NAMED_RANKS 4u

/* A sentence that is being written; what does not fit is cut. */
typedef struct sentence {
    char *text;
    size_t size;
} sentence;

KINETO_PRINTF(2, 3) static void say(const sentence *s, const char *fmt, ...)
{
    size_t used = strlen(s->text);
    va_list args;
    va_start(args, fmt);
    (void)kb_vsnprintf(s->text + used, s->size - used, fmt, args);
    va_end(args);
}

/* ---- traces ---------------------------------------------------------------------------------- */

/* Operators and calls of the host, and work of devices. */
static void measure_activity(const kineto_trace *t, ka_covered_trace *seen)
{
    for (uint32_t b = 0; b < kt_block_count(t); b++) {
        const kt_block *block = kt_block_at(t, b);
        for (uint32_t i = 0; i < block->count; i++) {
            int64_t ns = kb_length_ns(seen->start_ns, KB_MAX(block->end_ns[i], seen->start_ns));
            if (kt_kind_is_work(block->kind[i]))
                seen->device_ns = KB_MAX(seen->device_ns, ns);
            else if (block->kind[i] == KINETO_KIND_CPU_OP || kt_kind_is_launch(block->kind[i]))
                seen->host_ns = KB_MAX(seen->host_ns, ns);
        }
    }
}

bool ka_coverage_add(ka_coverage *c, const kineto_trace *trace, const int32_t *rank)
{
    kineto_identity identity = {.size = sizeof identity};
    ka_covered_trace seen = {.activities = kineto_trace_count(trace),
                             .is_cut = kt_ledger_is_cut(trace)};
    kineto_trace_identity(trace, NULL, &identity);
    kineto_trace_window(trace, &seen.start_ns, &seen.end_ns);
    measure_activity(trace, &seen);
    seen.rank = identity.rank_count > 1 ? -1 : rank ? *rank : KB_MAX(identity.rank, 0);
    c->rank_count += KB_MAX(identity.rank_count, 1u);
    c->world_size = KB_MAX(c->world_size, (uint32_t)KB_MAX(identity.world_size, 0));
    return kb_vec_push(&c->traces, seen);
}

bool ka_coverage_merge(ka_coverage *to, const ka_coverage *from)
{
    bool fits = kb_vec_reserve(&to->traces, to->traces.count + from->traces.count);
    for (size_t i = 0; i < from->traces.count && fits; i++)
        to->traces.data[to->traces.count++] = from->traces.data[i];
    to->rank_count += from->rank_count;
    to->world_size = KB_MAX(to->world_size, from->world_size);
    to->unreadable += from->unreadable;
    return fits;
}

void ka_coverage_free(ka_coverage *c) { kb_vec_free(&c->traces); }

bool ka_coverage_has_cut(const ka_coverage *c)
{
    size_t cut = 0;
    for (size_t i = 0; i < c->traces.count; i++)
        cut += c->traces.data[i].is_cut;
    return cut && cut < c->traces.count;
}

bool ka_coverage_is_cut(const ka_coverage *c, int64_t rank)
{
    bool is_cut = false;
    for (size_t i = 0; i < c->traces.count; i++)
        is_cut |= c->traces.data[i].rank == rank && c->traces.data[i].is_cut;
    return is_cut && ka_coverage_has_cut(c);
}

uint32_t ka_coverage_missing(const ka_coverage *c)
{
    return c->traces.count == c->rank_count && c->world_size > c->rank_count
               ? c->world_size - c->rank_count
               : 0;
}

static int64_t get_length_ns(const ka_covered_trace *t)
{
    return kb_length_ns(t->start_ns, t->end_ns);
}

int64_t ka_coverage_longest_ns(const ka_coverage *c)
{
    int64_t longest_ns = 0;
    for (size_t i = 0; i < c->traces.count; i++)
        longest_ns = KB_MAX(longest_ns, get_length_ns(&c->traces.data[i]));
    return longest_ns;
}

/* ---- the sentence ---------------------------------------------------------------------------- */

static bool has_rank(const ka_coverage *c, int64_t rank)
{
    for (size_t i = 0; i < c->traces.count; i++)
        if (c->traces.data[i].rank == rank)
            return true;
    return false;
}

/* "; 41 is missing": of traces of one rank each, the first ones. */
static void say_missing_ranks(const ka_coverage *c, const sentence *s)
{
    uint32_t missing = ka_coverage_missing(c), named = 0;
    if (!missing)
        return;
    for (uint32_t rank = 0; rank < c->world_size && named < MAX_NAMED_RANKS; rank++)
        if (!has_rank(c, rank)) {
            say(s, "%s%u", named ? ", " : "; ", rank);
            named++;
        }
    if (missing > named)
        say(s, " and %u more", missing - named);
    say(s, missing == 1 ? " is missing" : " are missing");
}

/* What the largest of the whole traces have; all 0: none is whole. */
static ka_covered_trace find_whole(const ka_coverage *c)
{
    ka_covered_trace most = {.activities = 0};
    for (size_t i = 0; i < c->traces.count; i++) {
        const ka_covered_trace *t = &c->traces.data[i];
        if (t->is_cut)
            continue;
        most.activities = KB_MAX(most.activities, t->activities);
        most.host_ns = KB_MAX(most.host_ns, t->host_ns);
        most.device_ns = KB_MAX(most.device_ns, t->device_ns);
    }
    return most;
}

static double get_share(int64_t part_ns, int64_t whole_ns)
{
    return whole_ns > 0 ? KB_MIN(100 * (double)part_ns / (double)whole_ns, 100) : 100;
}

/* After which part of the time a file ends: the last work of devices, or of a file that has all of that, or of
 * programs without devices, the last activity of the host. Compared with the longest whole trace, else with its own
 * window. */
static double find_cut_percent(const ka_covered_trace *t, const ka_covered_trace *whole)
{
    const double ALL = 99;
    int64_t window_ns = get_length_ns(t);
    double device = get_share(t->device_ns, whole->activities ? whole->device_ns : window_ns),
           host = get_share(t->host_ns, whole->activities ? whole->host_ns : window_ns);
    bool has_devices = whole->activities ? whole->device_ns > 0 : t->device_ns > 0;
    return has_devices && device < ALL ? device : host;
}

/* ", 50 is cut off after 49 % of the time (51 % of the activities)": of files whose end is missing. */
static void say_cut_traces(const ka_coverage *c, const sentence *s)
{
    uint32_t named = 0, cut = 0;
    const ka_covered_trace whole = find_whole(c);
    for (size_t i = 0; i < c->traces.count; i++) {
        const ka_covered_trace *t = &c->traces.data[i];
        cut += t->is_cut;
        if (!t->is_cut || named == MAX_NAMED_RANKS)
            continue;
        say(s, "%s%lld is cut off after %.0f %% of the time", named++ ? ", " : "; ", (long long)t->rank,
            find_cut_percent(t, &whole));
        if (whole.activities)
            say(s, " (%.0f %% of the activities)",
                100 * (double)KB_MIN(t->activities, whole.activities) / (double)whole.activities);
    }
    if (cut > named)
        say(s, " and %u more are cut off", cut - named);
}

/* Did all traces record at one moment? Ranks of one job do. */
static bool has_common_time(const ka_coverage *c)
{
    int64_t start_ns = INT64_MIN, end_ns = INT64_MAX;
    for (size_t i = 0; i < c->traces.count; i++) {
        start_ns = KB_MAX(start_ns, c->traces.data[i].start_ns);
        end_ns = KB_MIN(end_ns, c->traces.data[i].end_ns);
    }
    return start_ns <= end_ns;
}

static void say_unreadable(const ka_coverage *c, const sentence *s)
{
    if (c->unreadable)
        say(s, "; %u %s cannot be read", c->unreadable, c->unreadable == 1 ? "file" : "files");
}

void ka_coverage_describe(const ka_coverage *c, char *text, size_t size)
{
    sentence s = {text, size};
    text[0] = '\0';
    if (c->rank_count < 2 && !c->unreadable) {
        if (c->traces.count && c->traces.data[0].is_cut)
            say(&s, "The file is cut off: its end is missing.");
        return;
    }
    if (!has_common_time(c)) {
        say(&s, "%u traces that have no time in common: they may not be ranks of one job", c->rank_count);
        say_unreadable(c, &s);
        say(&s, ".");
        return;
    }
    if (c->world_size > c->rank_count)
        say(&s, "%u of %u ranks", c->rank_count, c->world_size);
    else
        say(&s, "%u %s", c->rank_count, c->rank_count == 1 ? "rank" : "ranks");
    say_missing_ranks(c, &s);
    say_cut_traces(c, &s);
    say_unreadable(c, &s);
    say(&s, ".");
}
