/* What is odd about several files together: one function for each rule. */
#include "trace/files/survey.h"

/* Rows that are alike by some key; files are their indices. */
typedef struct group {
    uint64_t key;
    uint32_t file;
} group;
typedef KB_VEC(group) groups;

static const kt_survey_row *row_of(const kineto_survey *s, size_t file)
{
    return s->rows.data[file];
}

static bool is_read(const kt_survey_row *row) { return row->view.status == KINETO_OK; }

static bool has_activities(const kt_survey_row *row)
{
    return is_read(row) && row->view.activities;
}

static int compare_groups(const void *left, const void *right)
{
    const group *a = left, *b = right;
    if (a->key != b->key)
        return a->key < b->key ? -1 : 1;
    return a->file < b->file ? -1 : a->file > b->file;
}

/* The files of a group, in an array of its own; NULL: out of memory. */
static uint32_t *files_of(kineto_survey *s, const group *first, size_t count)
{
    uint32_t *files = malloc((count + 1) * sizeof *files);
    s->out_of_memory |= !files;
    for (size_t i = 0; files && i < count; i++)
        files[i] = first[i].file;
    return files;
}

typedef bool key_of(const kt_survey_row *row, uint64_t *key);
typedef void judge(kineto_survey *s, const uint32_t *files, size_t count);

/* Call `rule` for each group of at least two rows with one key. */
static void each_group(kineto_survey *s, key_of *key, judge *rule)
{
    groups all = {0};
    for (size_t i = 0; i < s->rows.count; i++) {
        group g = {0, (uint32_t)i};
        if (is_read(row_of(s, i)) && key(row_of(s, i), &g.key))
            s->out_of_memory |= !kb_vec_push(&all, g);
    }
    if (all.count)
        qsort(all.data, all.count, sizeof *all.data, compare_groups);
    for (size_t i = 0, end; i < all.count; i = end) {
        for (end = i + 1; end < all.count && all.data[end].key == all.data[i].key;)
            end++;
        uint32_t *files = end - i > 1 ? files_of(s, all.data + i, end - i) : NULL;
        if (files)
            rule(s, files, end - i);
        free(files);
    }
    kb_vec_free(&all);
}

/* ---- each file by itself --------------------------------------------------------------------- */

static void judge_files(kineto_survey *s)
{
    for (uint32_t i = 0; i < s->rows.count; i++) {
        const kt_survey_row *row = row_of(s, i);
        if (!is_read(row))
            kt_survey_state(s, KINETO_FILES_UNREADABLE, &i, 1, "%s", row->view.error);
        if (row->identity.conflict[0])
            kt_survey_state(s, KINETO_FILES_IDENTITY, &i, 1, "%s", row->identity.conflict);
        if (row->identity.rank_count > 1 && s->rows.count > 1)
            kt_survey_state(s, KINETO_FILES_SEVERAL_RANKS, &i, 1,
                            "%u ranks are in one file; if it was made of the others, they count "
                            "twice",
                            row->identity.rank_count);
    }
}

/* ---- ranks ----------------------------------------------------------------------------------- */

static bool rank_key(const kt_survey_row *row, uint64_t *key)
{
    *key = (uint32_t)row->identity.rank;
    return row->identity.rank >= 0;
}

static bool same_process(const kt_survey_row *a, const kt_survey_row *b)
{
    bool hosts = a->identity.host[0] && b->identity.host[0];
    return a->identity.pid == b->identity.pid && a->identity.pid >= 0 &&
           (!hosts || strcmp(a->identity.host, b->identity.host) == 0);
}

static bool overlap(const kt_survey_row *a, const kt_survey_row *b)
{
    return a->view.window_start_ns < b->view.window_end_ns &&
           b->view.window_start_ns < a->view.window_end_ns;
}

static bool all_the_same(const kineto_survey *s, const uint32_t *files, size_t count)
{
    for (size_t i = 1; i < count; i++)
        if (row_of(s, files[i])->fingerprint != row_of(s, files[0])->fingerprint)
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

/* One process, profiled again and again. */
static bool one_after_the_other(kineto_survey *s, const uint32_t *files, size_t count)
{
    window *windows = malloc(count * sizeof *windows);
    bool are = windows != NULL;
    s->out_of_memory |= !windows;
    for (size_t i = 0; are && i < count; i++) {
        windows[i] = (window){row_of(s, files[i])->view.window_start_ns, files[i]};
        are = same_process(row_of(s, files[0]), row_of(s, files[i]));
    }
    if (are)
        qsort(windows, count, sizeof *windows, compare_windows);
    for (size_t i = 1; are && i < count; i++)
        are = !overlap(row_of(s, windows[i - 1].file), row_of(s, windows[i].file));
    free(windows);
    return are;
}

static void judge_rank(kineto_survey *s, const uint32_t *files, size_t count)
{
    int32_t rank = row_of(s, files[0])->identity.rank;
    if (all_the_same(s, files, count))
        return; /* another rule says so */
    if (one_after_the_other(s, files, count))
        kt_survey_state(s, KINETO_FILES_SEVERAL_WINDOWS, files, count,
                        "rank %d has %zu windows, one after the other", rank, count);
    else
        kt_survey_state(s, KINETO_FILES_RANK_REPEATED, files, count,
                        "%zu files say they are rank %d", count, rank);
}

static void judge_unknown(kineto_survey *s)
{
    size_t known = 0, unknown = 0;
    uint32_t *files = malloc((s->rows.count + 1) * sizeof *files);
    s->out_of_memory |= !files;
    for (uint32_t i = 0; files && i < s->rows.count; i++) {
        const kt_survey_row *row = row_of(s, i);
        known += is_read(row) && row->identity.rank >= 0;
        if (is_read(row) && row->identity.rank < 0 && row->identity.rank_count < 2)
            files[unknown++] = i;
    }
    if (known && unknown)
        kt_survey_state(s, KINETO_FILES_RANK_UNKNOWN, files, unknown,
                        "%zu of %zu files do not say their rank", unknown, known + unknown);
    free(files);
}

/* ---- the world ------------------------------------------------------------------------------- */

/* The number of ranks that files agree on; 0: they do not say, or do not agree. */
static int32_t judge_world_size(kineto_survey *s)
{
    uint32_t pair[2];
    size_t distinct = 0;
    int32_t size = 0;
    for (uint32_t i = 0; i < s->rows.count; i++) {
        int32_t other = row_of(s, i)->identity.world_size;
        if (!other || !is_read(row_of(s, i)))
            continue;
        if (distinct == 0 || (distinct == 1 && other != size)) {
            pair[distinct++] = i;
            size = distinct == 1 ? other : size;
        }
    }
    if (distinct == 2)
        kt_survey_state(s, KINETO_FILES_WORLD_SIZE, pair, 2,
                        "the world has %d ranks by one file and %d by another", size,
                        row_of(s, pair[1])->identity.world_size);
    return distinct == 1 ? size : 0;
}

/* Ranks that are missing, as "6, 9-11". */
typedef struct gaps {
    char text[512];
    size_t size;
    int64_t count;
} gaps;

static void add_gap(gaps *g, int64_t first, int64_t last)
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
    } else if (g->text[g->size - 1] != '\xa6') {
        memcpy(g->text + g->size, ", \xe2\x80\xa6", 6);
        g->size += 5;
    }
}

static void judge_missing(kineto_survey *s, int32_t world)
{
    gaps g = {.text = ""};
    int64_t next = 0;
    bool any = false;
    for (size_t i = 0; i < s->rows.count; i++) {
        int64_t rank = row_of(s, i)->identity.rank;
        if (rank < 0 || !is_read(row_of(s, i)))
            continue;
        add_gap(&g, next, rank - 1);
        next = rank + 1;
        any = true;
    }
    add_gap(&g, next, (int64_t)world - 1);
    if (!any || !g.count)
        return;
    if (world)
        kt_survey_state(s, KINETO_FILES_RANK_MISSING, NULL, 0, "%lld of %d ranks are missing: %s",
                        (long long)g.count, world, g.text);
    else
        kt_survey_state(s, KINETO_FILES_RANK_MISSING, NULL, 0,
                        "%s missing between those that are there: %s",
                        g.count == 1 ? "a rank is" : "ranks are", g.text);
}

/* ---- content --------------------------------------------------------------------------------- */

static bool content_key(const kt_survey_row *row, uint64_t *key)
{
    *key = row->fingerprint;
    return row->view.activities > 0;
}

static void judge_content(kineto_survey *s, const uint32_t *files, size_t count)
{
    kt_survey_state(s, KINETO_FILES_SAME_CONTENT, files, count,
                    "%zu files have the same %llu activities", count,
                    (unsigned long long)row_of(s, files[0])->view.activities);
}

static bool pid_key(const kt_survey_row *row, uint64_t *key)
{
    *key = (uint64_t)row->identity.pid;
    return row->identity.pid >= 0;
}

static void judge_pid(kineto_survey *s, const uint32_t *files, size_t count)
{
    const kineto_identity *first = &row_of(s, files[0])->identity;
    bool hosts = false, ranks = false, unknown = false;
    for (size_t i = 0; i < count; i++) {
        const kineto_identity *id = &row_of(s, files[i])->identity;
        hosts |= strcmp(id->host, first->host) != 0;
        ranks |= id->rank != first->rank;
        unknown |= !id->host[0];
    }
    if (hosts || ranks)
        kt_survey_state(s, KINETO_FILES_PID_SHARED, files, count,
                        "process %lld is in %zu files, as %s", (long long)first->pid, count,
                        hosts && !unknown ? "different processes of different hosts"
                                          : "different processes");
}

static void judge_windows(kineto_survey *s)
{
    uint32_t last = UINT32_MAX, first = UINT32_MAX;
    for (uint32_t i = 0; i < s->rows.count; i++) {
        const kt_survey_row *row = row_of(s, i);
        if (!has_activities(row))
            continue;
        if (last == UINT32_MAX || row->view.window_start_ns > row_of(s, last)->view.window_start_ns)
            last = i;
        if (first == UINT32_MAX || row->view.window_end_ns < row_of(s, first)->view.window_end_ns)
            first = i;
    }
    if (last == first)
        return;
    int64_t gap =
        kb_length_ns(row_of(s, first)->view.window_end_ns, row_of(s, last)->view.window_start_ns);
    if (gap >= 0)
        kt_survey_state(s, KINETO_FILES_WINDOWS_APART, (uint32_t[]){first, last}, 2,
                        "one window ends %s before another begins", kb_duration(gap).s);
}

void kt_survey_judge(kineto_survey *s, bool whole)
{
    judge_files(s);
    int32_t world = judge_world_size(s);
    each_group(s, content_key, judge_content);
    size_t windows = s->findings.count;
    each_group(s, rank_key, judge_rank);
    bool later = false;
    for (size_t i = windows; i < s->findings.count; i++)
        later |= s->findings.data[i]->view.kind == KINETO_FILES_SEVERAL_WINDOWS;
    judge_unknown(s);
    if (whole)
        judge_missing(s, world);
    each_group(s, pid_key, judge_pid);
    if (!later)
        judge_windows(s);
}
