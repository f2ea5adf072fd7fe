/* Which ranks of a job some traces cover. */
#include "analyze/overview/coverage.h"
#include "trace/files/survey.h"
#include "trace/import/import.h"
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

bool ka_coverage_add(ka_coverage *c, const kineto_trace *trace, const int32_t *rank)
{
    kineto_identity identity = {.size = sizeof identity};
    kt_measured_reach reach = kt_measure_reach(trace);
    ka_covered_trace seen = {.activities = kineto_trace_count(trace),
                             .host_ns = reach.host_ns,
                             .device_ns = reach.device_ns,
                             .is_dump = reach.is_dump,
                             .is_cut = kt_ledger_is_cut(trace)};
    kineto_trace_identity(trace, NULL, &identity);
    kineto_trace_window(trace, &seen.start_ns, &seen.end_ns);
    seen.rank = identity.rank_count > 1 ? -1 : rank ? *rank : KB_MAX(identity.rank, 0);
    bool fits = seen.rank < 0 ? kt_add_trace_ranks(&c->ranks, trace) : kt_add_rank(&c->ranks, (int32_t)seen.rank);
    c->rank_count += KB_MAX(identity.rank_count, 1u);
    c->world_size = KB_MAX(c->world_size, (uint32_t)KB_MAX(identity.world_size, 0));
    return kb_vec_push(&c->traces, seen) && fits;
}

bool ka_coverage_add_surveyed(ka_coverage *c, const kineto_survey *survey)
{
    kineto_survey_file f;
    bool fits = true;
    for (uint32_t i = 0; fits && kineto_survey_file_at(survey, i, &f); i++) {
        if (f.status)
            continue;
        const kt_measured_reach *reach = &survey->rows.data[i]->reach;
        ka_covered_trace seen = {.rank = f.identity->rank_count > 1 ? -1 : KB_MAX(f.identity->rank, 0),
                                 .start_ns = f.window_start_ns,
                                 .end_ns = f.window_end_ns,
                                 .host_ns = reach->host_ns,
                                 .device_ns = reach->device_ns,
                                 .activities = f.activities,
                                 .is_dump = reach->is_dump,
                                 .is_cut = f.is_cut};
        c->rank_count += KB_MAX(f.identity->rank_count, 1u);
        c->world_size = KB_MAX(c->world_size, (uint32_t)KB_MAX(f.identity->world_size, 0));
        fits = kt_add_rank(&c->ranks, f.identity->rank) && kb_vec_push(&c->traces, seen);
    }
    return fits;
}

/* ---- bad files ------------------------------------------------------------------------------- */

static bool add_bad_file(ka_coverage *c, const char *problem, const char *name, kineto_string reason)
{
    ka_bad_file f = {problem, strdup(name), strndup(reason.data, reason.size)};
    if (f.name && f.reason && kb_vec_push(&c->bad_files, f))
        return true;
    free(f.name);
    free(f.reason);
    return false;
}

bool ka_coverage_add_unreadable(ka_coverage *c, const char *path, const char *reason)
{
    const char *slash = strrchr(path, '/');
    c->unreadable++;
    return add_bad_file(c, "file.unreadable", slash ? slash + 1 : path, kb_string(reason));
}

/* Do its first two files have the same rank? A copy without a rank may stand for another one. */
static bool is_of_one_rank(const kineto_files_finding *f, const kineto_survey *survey)
{
    kineto_survey_file a, b;
    return f->file_count > 1 && kineto_survey_file_at(survey, f->files[0], &a) &&
           kineto_survey_file_at(survey, f->files[1], &b) && a.identity->rank >= 0 &&
           a.identity->rank == b.identity->rank;
}

bool ka_is_bad_files_finding(const kineto_files_finding *f, const kineto_survey *survey)
{
    switch (f->kind) {
    case KINETO_FILES_UNREADABLE:
    case KINETO_FILES_WORLD_SIZE:
    case KINETO_FILES_RANK_REPEATED:
    case KINETO_FILES_SEVERAL_RANKS:
    case KINETO_FILES_CUT:
    case KINETO_FILES_OTHER_RUN: return true;
    case KINETO_FILES_SAME_CONTENT: return is_of_one_rank(f, survey);
    default: return false;
    }
}

bool ka_coverage_add_bad_files(ka_coverage *c, const kineto_survey *survey)
{
    kineto_files_finding f;
    kineto_survey_file file;
    bool fits = true;
    for (uint32_t i = 0; kineto_survey_finding(survey, i, &f); i++) {
        if (!ka_is_bad_files_finding(&f, survey))
            continue;
        c->unreadable += f.kind == KINETO_FILES_UNREADABLE;
        for (uint32_t k = 0; k < f.file_count && fits; k++) {
            kineto_survey_file_at(survey, f.files[k], &file);
            fits = add_bad_file(c, f.id, file.name, f.sentence);
        }
    }
    return fits;
}

bool ka_coverage_copy_bad_files(ka_coverage *to, const ka_coverage *from)
{
    bool fits = true;
    for (size_t i = 0; i < from->bad_files.count && fits; i++)
        fits = add_bad_file(to, from->bad_files.data[i].problem, from->bad_files.data[i].name,
                            kb_string(from->bad_files.data[i].reason));
    to->world_size = KB_MAX(to->world_size, from->world_size);
    to->unreadable += from->unreadable;
    return fits;
}

bool ka_coverage_merge(ka_coverage *to, const ka_coverage *from)
{
    bool fits = kb_vec_reserve(&to->traces, to->traces.count + from->traces.count);
    for (size_t i = 0; i < from->traces.count && fits; i++)
        to->traces.data[to->traces.count++] = from->traces.data[i];
    for (size_t i = 0; i < from->ranks.count && fits; i++)
        fits = kt_add_rank(&to->ranks, from->ranks.data[i]);
    to->rank_count += from->rank_count;
    return fits && ka_coverage_copy_bad_files(to, from);
}

void ka_coverage_free(ka_coverage *c)
{
    for (size_t i = 0; i < c->bad_files.count; i++) {
        free(c->bad_files.data[i].name);
        free(c->bad_files.data[i].reason);
    }
    kb_vec_free(&c->bad_files);
    kb_vec_free(&c->traces);
    kb_vec_free(&c->ranks);
}

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

/* How many ranks of the job there are. */
static uint32_t count_present(const ka_coverage *c)
{
    uint32_t present = 0;
    for (size_t i = 0; i < c->ranks.count; i++)
        present += (uint32_t)c->ranks.data[i] < c->world_size;
    return present;
}

uint32_t ka_coverage_missing(const ka_coverage *c)
{
    return c->ranks.count ? c->world_size - count_present(c) : 0;
}

int64_t ka_coverage_next_missing(const ka_coverage *c, int64_t rank)
{
    size_t first = 0, end = c->ranks.count;
    while (first < end) {
        size_t middle = first + (end - first) / 2;
        if (c->ranks.data[middle] < rank)
            first = middle + 1;
        else
            end = middle;
    }
    for (; first < c->ranks.count && c->ranks.data[first] == rank; first++)
        rank++;
    return c->ranks.count && rank < (int64_t)c->world_size ? rank : -1;
}

bool ka_coverage_is_whole(const ka_coverage *c)
{
    return !ka_coverage_missing(c) && !c->bad_files.count && !c->unreadable;
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

/* The rank that ends the range of missing ones that begins with this one. */
static int64_t find_last_of_range(const ka_coverage *c, int64_t rank)
{
    while (ka_coverage_next_missing(c, rank + 1) == rank + 1)
        rank++;
    return rank;
}

/* "; missing: 41, 50-57 and 12 more": the first ranges. */
static void say_missing_ranks(const ka_coverage *c, const sentence *s)
{
    uint32_t missing = ka_coverage_missing(c), ranges = 0;
    for (int64_t rank = missing ? ka_coverage_next_missing(c, 0) : -1; rank >= 0 && ranges < MAX_NAMED_RANKS; ranges++) {
        int64_t last = find_last_of_range(c, rank);
        say(s, "%s%lld", ranges ? ", " : "; missing: ", (long long)rank);
        if (last > rank)
            say(s, "%s%lld", last == rank + 1 ? ", " : "-", (long long)last);
        missing -= (uint32_t)(last - rank + 1);
        rank = ka_coverage_next_missing(c, last + 1);
    }
    if (missing)
        say(s, " and %u more", missing);
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
        if (c->traces.data[i].is_dump)
            continue;
        start_ns = KB_MAX(start_ns, c->traces.data[i].start_ns);
        end_ns = KB_MIN(end_ns, c->traces.data[i].end_ns);
    }
    return start_ns <= end_ns;
}

/* Did most traces record at one moment? *others: how many are of another run. */
static bool has_majority(const ka_coverage *c, uint32_t *others)
{
    kt_time_window *windows = calloc(c->traces.count + 1, sizeof *windows), majority;
    *others = 0;
    size_t count = 0;
    for (size_t i = 0; windows && i < c->traces.count; i++)
        if (!c->traces.data[i].is_dump)
            windows[count++] = (kt_time_window){c->traces.data[i].start_ns, c->traces.data[i].end_ns};
    bool has = windows && kt_find_majority_window(windows, count, &majority);
    for (size_t i = 0; has && i < count; i++)
        *others += kt_window_is_of_other_run(&windows[i], &majority);
    free(windows);
    return has;
}

/* The rank that the name of a missing file has, which cannot be read; -1: there is none. */
static int64_t find_unreadable_rank(const ka_coverage *c, const ka_bad_file *f)
{
    kt_name_facts facts;
    if (strcmp(f->problem, "file.unreadable") != 0)
        return -1;
    kt_name_facts_of(f->name, &facts);
    return facts.rank >= 0 && ka_coverage_next_missing(c, facts.rank) == facts.rank ? facts.rank : -1;
}

/* "; unreadable: 12 (rank12.json) and 3 more". @param there  receives the ranks that are not missing: those of `c`, and
 * of these files, which are not said again. @return how many files this is about. */
static uint32_t say_unreadable_ranks(const ka_coverage *c, ka_coverage *there, const sentence *s)
{
    uint32_t count = 0;
    *there = (ka_coverage){.world_size = c->world_size};
    bool ok = kb_vec_reserve(&there->ranks, c->ranks.count + c->bad_files.count);
    for (size_t i = 0; i < c->ranks.count && ok; i++)
        there->ranks.data[there->ranks.count++] = c->ranks.data[i];
    for (size_t i = 0; i < c->bad_files.count && ok; i++) {
        int64_t rank = find_unreadable_rank(c, &c->bad_files.data[i]);
        if (rank < 0)
            continue;
        ok = kt_add_rank(&there->ranks, (int32_t)rank);
        if (count++ < MAX_NAMED_RANKS)
            say(s, "%s%lld (%s)", count > 1 ? ", " : "; unreadable: ", (long long)rank, c->bad_files.data[i].name);
    }
    if (count > MAX_NAMED_RANKS)
        say(s, " and %u more", count - MAX_NAMED_RANKS);
    return count;
}

/* @param named  how many of the files were named already. */
static void say_unreadable(const ka_coverage *c, uint32_t named, const sentence *s)
{
    uint32_t others = c->unreadable - KB_MIN(c->unreadable, named);
    if (others)
        say(s, "; %u %s%s cannot be read", others, named ? "other " : "", others == 1 ? "file" : "files");
}

/* @return how many files that cannot be read were named. */
static uint32_t say_ranks(const ka_coverage *c, const sentence *s)
{
    char unreadable[200] = "";
    sentence later = {unreadable, sizeof unreadable};
    uint32_t missing = ka_coverage_missing(c), ranks = KB_MAX((uint32_t)c->ranks.count, c->traces.count ? 1u : 0u);
    ka_coverage there;
    uint32_t named = say_unreadable_ranks(c, &there, &later);
    if (missing)
        say(s, "%u of %u ranks", c->world_size - missing, c->world_size);
    else
        say(s, "%u %s", ranks, ranks == 1 ? "rank" : "ranks");
    say_missing_ranks(&there, s);
    say(s, "%s", unreadable);
    say_cut_traces(c, s);
    ka_coverage_free(&there);
    return named;
}

void ka_coverage_describe(const ka_coverage *c, char *text, size_t size)
{
    sentence s = {text, size};
    uint32_t others, named = 0;
    text[0] = '\0';
    if (c->rank_count < 2 && !c->unreadable && !c->facts_left_out) {
        if (c->traces.count && c->traces.data[0].is_cut)
            say(&s, "The file is cut off: its end is missing.");
        return;
    }
    if (!has_common_time(c) && !has_majority(c, &others))
        say(&s, "%u traces that have no time in common: they may not be ranks of one job", c->rank_count);
    else
        named = say_ranks(c, &s);
    if (has_majority(c, &others) && others)
        say(&s, "; %u %s of another run", others, others == 1 ? "file is" : "files are");
    say_unreadable(c, named, &s);
    if (c->facts_left_out)
        say(&s, "; %u facts %s skipped", c->facts_left_out, c->facts_left_out == 1 ? "file was" : "files were");
    say(&s, ".");
}
