/* Rules about several trace files together, one function for each finding of
 * KINETO_FILES_FINDING_MAP: repeated, missing and unknown ranks, equal content, shared process ids,
 * windows that do not overlap. They run over rows in the order of ranks; rows of unreadable files
 * take part in no rule but their own. */
#include "trace/files/survey.h"

/* A row and the key that it is grouped by. */
typedef struct group {
    uint64_t key;
    uint32_t file;
} group;
typedef KB_VEC(group) groups;

static const kt_survey_row *survey_row(const kineto_survey *s, size_t file)
{
    return s->rows.data[file];
}

static bool is_readable_row(const kt_survey_row *row) { return row->view.status == KINETO_OK; }

static bool has_activities(const kt_survey_row *row)
{
    return is_readable_row(row) && row->view.activities && !row->reach.is_dump;
}

static kt_time_window get_window(const kt_survey_row *row)
{
    return (kt_time_window){row->view.window_start_ns, row->view.window_end_ns};
}

static int compare_row_groups(const void *left, const void *right)
{
    const group *a = left, *b = right;
    if (a->key != b->key)
        return a->key < b->key ? -1 : 1;
    return a->file < b->file ? -1 : a->file > b->file;
}

/* The row indices of a group in a new array; NULL: out of memory. */
static uint32_t *files_of_group(kineto_survey *s, const group *first, size_t count)
{
    uint32_t *files = malloc((count + 1) * sizeof *files);
    s->out_of_memory |= !files;
    for (size_t i = 0; files && i < count; i++)
        files[i] = first[i].file;
    return files;
}

/* Computes the key of a row. False: the row is in no group. */
typedef bool group_key(const kt_survey_row *row, uint64_t *key);
typedef void group_rule(kineto_survey *s, const uint32_t *files, size_t count);

/* Calls `rule` for each group of at least two rows with equal keys. */
static void run_group_rule(kineto_survey *s, group_key *key, group_rule *rule)
{
    groups all = {0};
    for (size_t i = 0; i < s->rows.count; i++) {
        group g = {0, (uint32_t)i};
        if (is_readable_row(survey_row(s, i)) && key(survey_row(s, i), &g.key))
            s->out_of_memory |= !kb_vec_push(&all, g);
    }
    if (all.count)
        qsort(all.data, all.count, sizeof *all.data, compare_row_groups);
    for (size_t i = 0, end; i < all.count; i = end) {
        for (end = i + 1; end < all.count && all.data[end].key == all.data[i].key;)
            end++;
        uint32_t *files = end - i > 1 ? files_of_group(s, all.data + i, end - i) : NULL;
        if (files)
            rule(s, files, end - i);
        free(files);
    }
    kb_vec_free(&all);
}

/* ---- each file by itself --------------------------------------------------------------------- */

static void report_single_files(kineto_survey *s)
{
    for (uint32_t i = 0; i < s->rows.count; i++) {
        const kt_survey_row *row = survey_row(s, i);
        if (!is_readable_row(row))
            kt_survey_add_finding(s, KINETO_FILES_UNREADABLE, &i, 1, "%s", row->view.error);
        if (row->identity.conflict[0])
            kt_survey_add_finding(s, KINETO_FILES_IDENTITY, &i, 1, "%s", row->identity.conflict);
        if (row->identity.rank_count > 1 && s->rows.count > 1)
            kt_survey_add_finding(
                s, KINETO_FILES_SEVERAL_RANKS, &i, 1,
                "the file holds %u ranks; if it was merged from the others, they are "
                "there twice",
                row->identity.rank_count);
    }
}

/* ---- ranks ----------------------------------------------------------------------------------- */

static bool key_by_rank(const kt_survey_row *row, uint64_t *key)
{
    *key = (uint32_t)row->identity.rank | (uint64_t)row->reach.is_dump << 32;
    return row->identity.rank >= 0;
}

/* Equal process ids; hosts are compared if both files state one. */
static bool is_same_process(const kt_survey_row *a, const kt_survey_row *b)
{
    bool hosts = a->identity.host[0] && b->identity.host[0];
    return a->identity.pid == b->identity.pid && a->identity.pid >= 0 &&
           (!hosts || strcmp(a->identity.host, b->identity.host) == 0);
}

static bool windows_overlap(const kt_survey_row *a, const kt_survey_row *b)
{
    return a->view.window_start_ns < b->view.window_end_ns &&
           b->view.window_start_ns < a->view.window_end_ns;
}

/* Another rule reports files with the same content: they do not count as repeated ranks. */
static bool have_same_content(const kineto_survey *s, const uint32_t *files, size_t count)
{
    for (size_t i = 1; i < count; i++)
        if (survey_row(s, files[i])->fingerprint != survey_row(s, files[0])->fingerprint)
            return false;
    return true;
}

typedef struct window {
    int64_t start_ns;
    uint32_t file;
} window;

static int compare_windows(const void *left, const void *right)
{
    const window *a = left, *b = right;
    return a->start_ns < b->start_ns ? -1 : a->start_ns > b->start_ns;
}

/* True if all files are of one process and their windows do not overlap: it was profiled several
 * times. */
static bool are_successive_windows(kineto_survey *s, const uint32_t *files, size_t count)
{
    window *windows = malloc(count * sizeof *windows);
    bool are = windows != NULL;
    s->out_of_memory |= !windows;
    for (size_t i = 0; are && i < count; i++) {
        windows[i] = (window){survey_row(s, files[i])->view.window_start_ns, files[i]};
        are = is_same_process(survey_row(s, files[0]), survey_row(s, files[i]));
    }
    if (are)
        qsort(windows, count, sizeof *windows, compare_windows);
    for (size_t i = 1; are && i < count; i++)
        are = !windows_overlap(survey_row(s, windows[i - 1].file), survey_row(s, windows[i].file));
    free(windows);
    return are;
}

static void report_repeated_rank(kineto_survey *s, const uint32_t *files, size_t count)
{
    int32_t rank = survey_row(s, files[0])->identity.rank;
    if (have_same_content(s, files, count))
        return; /* reported by report_same_content */
    if (are_successive_windows(s, files, count))
        kt_survey_add_finding(s, KINETO_FILES_SEVERAL_WINDOWS, files, count,
                              "rank %d has %zu windows, one after the other", rank, count);
    else
        kt_survey_add_finding(s, KINETO_FILES_RANK_REPEATED, files, count,
                              "%zu files claim rank %d", count, rank);
}

/* Only if other files state theirs; a merged trace has no rank of its own. */
static void report_unknown_ranks(kineto_survey *s)
{
    size_t known = 0, unknown = 0;
    uint32_t *files = malloc((s->rows.count + 1) * sizeof *files);
    s->out_of_memory |= !files;
    for (uint32_t i = 0; files && i < s->rows.count; i++) {
        const kt_survey_row *row = survey_row(s, i);
        known += is_readable_row(row) && row->identity.rank >= 0;
        if (is_readable_row(row) && row->identity.rank < 0 && row->identity.rank_count < 2)
            files[unknown++] = i;
    }
    if (known && unknown)
        kt_survey_add_finding(s, KINETO_FILES_RANK_UNKNOWN, files, unknown,
                              "%zu of %zu files do not state their rank", unknown, known + unknown);
    free(files);
}

/* ---- the world ------------------------------------------------------------------------------- */

/* The number of ranks that the files state; 0: none states it, or they disagree, which is
 * reported. */
static int32_t agreed_world_size(kineto_survey *s)
{
    uint32_t pair[2];
    size_t distinct = 0;
    int32_t size = 0;
    for (uint32_t i = 0; i < s->rows.count; i++) {
        int32_t other = survey_row(s, i)->identity.world_size;
        if (!other || !is_readable_row(survey_row(s, i)))
            continue;
        if (distinct == 0 || (distinct == 1 && other != size)) {
            pair[distinct++] = i;
            size = distinct == 1 ? other : size;
        }
    }
    if (distinct == 2)
        kt_survey_add_finding(s, KINETO_FILES_WORLD_SIZE, pair, 2,
                              "the world has %d ranks by one file and %d by another", size,
                              survey_row(s, pair[1])->identity.world_size);
    return distinct == 1 ? size : 0;
}

/* Missing ranks as text: "6, 9-11". */
typedef struct rank_gaps {
    char text[512];
    size_t size;
    int64_t count;
} rank_gaps;

/* Appends the ranks first to last; an ellipsis once the text is full. The count is always exact. */
static void append_rank_gap(rank_gaps *g, int64_t first, int64_t last)
{
    char text[64];
    if (first > last)
        return;
    int size = first == last
                   ? snprintf(text, sizeof text, "%s%lld", g->count ? ", " : "", (long long)first)
                   : snprintf(text, sizeof text, "%s%lld-%lld", g->count ? ", " : "",
                              (long long)first, (long long)last);
    g->count += last - first + 1;
    if (g->size + (size_t)size + 8 < sizeof g->text) {
        memcpy(g->text + g->size, text, (size_t)size + 1);
        g->size += (size_t)size;
    } else if (g->text[g->size - 1] != '\xa6') { /* the ellipsis' last byte */
        memcpy(g->text + g->size, ", \xe2\x80\xa6", 6);
        g->size += 5;
    }
}

/* Rows are in the order of ranks, so each step from one rank to the next shows a gap. `world` 0:
 * unknown. */
static void report_missing_ranks(kineto_survey *s, int32_t world)
{
    rank_gaps g = {.text = ""};
    int64_t next = 0;
    bool any = false;
    for (size_t i = 0; i < s->rows.count; i++) {
        int64_t rank = survey_row(s, i)->identity.rank;
        if (rank < 0 || !is_readable_row(survey_row(s, i)))
            continue;
        append_rank_gap(&g, next, rank - 1);
        next = rank + 1;
        any = true;
    }
    append_rank_gap(&g, next, (int64_t)world - 1);
    if (!any || !g.count)
        return;
    if (world)
        kt_survey_add_finding(s, KINETO_FILES_RANK_MISSING, NULL, 0,
                              "%lld of %d ranks %s missing: %s", (long long)g.count, world,
                              g.count == 1 ? "is" : "are", g.text);
    else
        kt_survey_add_finding(s, KINETO_FILES_RANK_MISSING, NULL, 0,
                              "%s missing between the existing ones: %s",
                              g.count == 1 ? "a rank is" : "ranks are", g.text);
}

/* ---- content --------------------------------------------------------------------------------- */

static bool key_by_content(const kt_survey_row *row, uint64_t *key)
{
    *key = row->fingerprint;
    return row->view.activities > 0;
}

static void report_same_content(kineto_survey *s, const uint32_t *files, size_t count)
{
    kt_survey_add_finding(s, KINETO_FILES_SAME_CONTENT, files, count,
                          "%zu files have the same %llu activities", count,
                          (unsigned long long)survey_row(s, files[0])->view.activities);
}

static bool key_by_pid(const kt_survey_row *row, uint64_t *key)
{
    *key = (uint64_t)row->identity.pid;
    return row->identity.pid >= 0;
}

/* The same process id on different hosts, or of different ranks: tools that know processes by their
 * number mix them up. */
static void report_shared_pid(kineto_survey *s, const uint32_t *files, size_t count)
{
    const kineto_identity *first = &survey_row(s, files[0])->identity;
    bool hosts = false, ranks = false, unknown = false;
    for (size_t i = 0; i < count; i++) {
        const kineto_identity *id = &survey_row(s, files[i])->identity;
        hosts |= strcmp(id->host, first->host) != 0;
        ranks |= id->rank != first->rank;
        unknown |= !id->host[0];
    }
    if (hosts || ranks)
        kt_survey_add_finding(s, KINETO_FILES_PID_SHARED, files, count,
                              "process %lld is in %zu files, as %s", (long long)first->pid, count,
                              hosts && !unknown ? "different processes of different hosts"
                                                : "different processes");
}

/* The latest start against the earliest end: if the one is after the other, no time is common to
 * all windows. */
static void report_windows_apart(kineto_survey *s)
{
    uint32_t last = UINT32_MAX, first = UINT32_MAX;
    for (uint32_t i = 0; i < s->rows.count; i++) {
        const kt_survey_row *row = survey_row(s, i);
        if (!has_activities(row))
            continue;
        if (last == UINT32_MAX ||
            row->view.window_start_ns > survey_row(s, last)->view.window_start_ns)
            last = i;
        if (first == UINT32_MAX ||
            row->view.window_end_ns < survey_row(s, first)->view.window_end_ns)
            first = i;
    }
    if (last == first)
        return;
    int64_t gap = kb_length_ns(survey_row(s, first)->view.window_end_ns,
                               survey_row(s, last)->view.window_start_ns);
    if (gap >= 0)
        kt_survey_add_finding(s, KINETO_FILES_WINDOWS_APART, (uint32_t[]){first, last}, 2,
                              "one window ends %s before another begins", kb_duration(gap).s);
}

/* Files of a run that is not that of the majority. False: there are none. */
static bool report_other_runs(kineto_survey *s)
{
    kt_time_window *windows = malloc((s->rows.count + 1) * sizeof *windows), majority;
    uint32_t *files = malloc((s->rows.count + 1) * sizeof *files);
    size_t count = 0, apart = 0;
    s->out_of_memory |= !windows || !files;
    for (size_t i = 0; windows && files && i < s->rows.count; i++)
        if (has_activities(survey_row(s, i)))
            windows[count++] = get_window(survey_row(s, i));
    bool has_majority = windows && files && kt_find_majority_window(windows, count, &majority);
    for (uint32_t i = 0; has_majority && i < s->rows.count; i++) {
        kt_time_window own = get_window(survey_row(s, i));
        if (has_activities(survey_row(s, i)) && kt_window_is_of_other_run(&own, &majority))
            files[apart++] = i;
    }
    if (apart)
        kt_survey_add_finding(s, KINETO_FILES_OTHER_RUN, files, apart,
                              "%zu of %zu files %s recorded more than a minute apart from the others", apart, count,
                              apart == 1 ? "was" : "were");
    free(windows);
    free(files);
    return apart > 0;
}

/* Files whose end is missing, among others. */
static void report_cut_files(kineto_survey *s)
{
    size_t cut = 0, readable = 0;
    uint32_t *files = malloc((s->rows.count + 1) * sizeof *files);
    s->out_of_memory |= !files;
    for (uint32_t i = 0; files && i < s->rows.count; i++) {
        readable += is_readable_row(survey_row(s, i));
        if (survey_row(s, i)->view.is_cut)
            files[cut++] = i;
    }
    if (cut && s->rows.count > 1)
        kt_survey_add_finding(s, KINETO_FILES_CUT, files, cut, "%zu of %zu files end early", cut, readable);
    free(files);
}

/* Windows are compared only if no rank was profiled several times: its windows are apart by
 * design. */
void kt_survey_run_rules(kineto_survey *s, bool whole)
{
    report_single_files(s);
    int32_t world = agreed_world_size(s);
    run_group_rule(s, key_by_content, report_same_content);
    size_t windows = s->findings.count;
    run_group_rule(s, key_by_rank, report_repeated_rank);
    bool successive = false;
    for (size_t i = windows; i < s->findings.count; i++)
        successive |= s->findings.data[i]->view.kind == KINETO_FILES_SEVERAL_WINDOWS;
    report_unknown_ranks(s);
    if (whole)
        report_missing_ranks(s, world);
    run_group_rule(s, key_by_pid, report_shared_pid);
    report_cut_files(s);
    if (!successive && !report_other_runs(s))
        report_windows_apart(s);
}
