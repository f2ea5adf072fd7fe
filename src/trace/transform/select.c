/* Selects rows of a trace into a new one: by time, steps, kinds, names, tracks, ranks, processes
 * and the ranges around them. Implements kineto_trace_select of <ckineto/files.h>. Rows are marked
 * first, in one pass over all criteria; launches and enclosing ranges are added to them; then
 * everything that is marked is copied in its order, and the ledger records the criteria. */
#include "trace/transform/select.h"

#include "trace/files/identity.h"
#include "trace/bytes/json_text.h"

#include <regex.h>

/* Marks of rows in selector.map. While rows are copied, SELECTED is replaced by the number of the
 * new row. */
#define DROPPED   KINETO_NO_ROW
#define SELECTED  0u
#define UNDECIDED 1u

/* A regular expression with the cached result for each string or track. */
typedef struct matcher {
    regex_t regex;
    bool is_set;
    uint8_t *verdicts; /* 0: not evaluated yet; 1: no match; 2: match */
    char *room;        /* NUL-terminated copy of the text, for regexec */
    size_t capacity;
} matcher;

typedef struct selector {
    const kineto_trace *t;
    kineto_selection how;
    kineto_error *err;
    matcher names, tracks;
    kt_step_filter steps;
    int32_t trace_rank; /* rank of processes without one of their own */
    uint32_t *map;      /* by row: DROPPED, CHOSEN, LATER; in the end the new row */
    uint8_t *used;      /* by track: has selected rows */
    /* By process: a device that worked for a selected process. */
    uint8_t *owned;
    /* By row: result of kt_select_calls; NULL: not a criterion. */
    uint8_t *calls;
    bool has_part; /* the selected rank is one trace of a merged one: `part` */
    kt_merged_part part;
    kt_span under; /* time of the ranges that match how.under */
    uint64_t kept; /* selected rows */
} selector;

static kineto_status fail_select_memory(const selector *s)
{
    return kb_fail(s->err, KINETO_E_MEMORY, "select from a trace of %llu activities: out of memory",
                   (unsigned long long)s->t->count);
}

/* ---- regular expressions --------------------------------------------------------------------- */

/* `count` is the number of strings or tracks that can be matched; `text` NULL: matches are not a
 * criterion. */
static kineto_status compile_matcher(selector *s, matcher *m, const char *text, const char *what,
                                     uint32_t count)
{
    if (!text)
        return KINETO_OK;
    int code = regcomp(&m->regex, text, REG_EXTENDED | REG_NOSUB);
    if (code) {
        char reason[128];
        regerror(code, &m->regex, reason, sizeof reason);
        return kb_fail(s->err, KINETO_E_ARGUMENT,
                       "'%s' for %s is not an extended regular expression: %s", text, what, reason);
    }
    m->is_set = true;
    m->verdicts = calloc((size_t)count + 1, 1);
    return m->verdicts ? KINETO_OK : fail_select_memory(s);
}

static void matcher_free(matcher *m)
{
    if (m->is_set)
        regfree(&m->regex);
    free(m->verdicts);
    free(m->room);
}

/* POSIX wants a NUL at the end; a NUL in the text is replaced by a space. Without memory nothing
 * matches. */
static bool matcher_accepts(matcher *m, kineto_string text)
{
    if (text.size + 1 > m->capacity &&
        !kb_vec_grow((void **)&m->room, &m->capacity, text.size + 1, 1))
        return false;
    for (size_t i = 0; i < text.size; i++)
        m->room[i] = text.data[i] ? text.data[i] : ' ';
    m->room[text.size] = '\0';
    return regexec(&m->regex, m->room, 0, NULL, 0) == 0;
}

/* Each name is matched once, however many rows have it. */
static bool name_matches(selector *s, uint32_t name)
{
    uint8_t *verdict = &s->names.verdicts[name];
    if (!*verdict)
        *verdict = matcher_accepts(&s->names, kineto_trace_string(s->t, name)) ? 2 : 1;
    return *verdict == 2;
}

/* A pattern of digits only is the number of a track; any other matches its name as viewers show
 * it. */
static bool track_name_matches(selector *s, uint32_t track)
{
    const kt_track_row *k = &s->t->tracks.data[track];
    const char *wanted = s->how.track;
    char number[48];
    snprintf(number, sizeof number, "%lld", (long long)k->id);
    if (strspn(wanted, "0123456789") == strlen(wanted))
        return strcmp(number, wanted) == 0;
    kineto_string name = kineto_trace_string(s->t, k->name);
    snprintf(number, sizeof number, "%s %lld", k->type == KINETO_TRACK_STREAM ? "stream" : "thread",
             (long long)k->id);
    return matcher_accepts(&s->tracks, name.size ? name : kb_string(number));
}

static bool track_matches(selector *s, uint32_t track)
{
    uint8_t *verdict = &s->tracks.verdicts[track];
    if (!*verdict)
        *verdict = track_name_matches(s, track) ? 2 : 1;
    return *verdict == 2;
}

/* ---- ranks and processes --------------------------------------------------------------------- */

/* A process without a rank has that of the trace's header. */
static bool rank_matches(const selector *s, uint32_t process)
{
    int32_t rank = s->t->processes.data[process].rank;
    return (rank >= 0 ? rank : s->trace_rank) == s->how.rank;
}

/* Devices never match a process id: their rows are selected by their launches. */
static bool process_matches(const selector *s, uint32_t process)
{
    const kt_process_row *p = &s->t->processes.data[process];
    if (s->how.use & KINETO_SELECT_RANK && !rank_matches(s, process))
        return false;
    return !(s->how.use & KINETO_SELECT_PROCESS) || (!p->is_device && p->pid == s->how.pid);
}

/* The process that launched device work; KT_COPY_NONE: unknown, or the row is the host's. */
static uint32_t launcher_process(const selector *s, kineto_row row)
{
    if (!kt_kind_is_device(kt_kind(s->t, row)))
        return KT_COPY_NONE;
    kineto_row launch = kineto_trace_launch(s->t, row);
    return launch == KINETO_NO_ROW ? KT_COPY_NONE
                                   : s->t->tracks.data[kt_row_track(s->t, launch)].process;
}

/* Marks devices that worked for the selected processes. Their rows without a known launch
 * (annotations, samples) are selected with them. */
static bool find_owned_devices(selector *s)
{
    s->owned = calloc((size_t)kineto_trace_process_count(s->t) + 1, 1);
    for (kineto_row row = 0; s->owned && row < s->t->count; row++) {
        uint32_t launcher = launcher_process(s, row);
        if (launcher != KT_COPY_NONE && process_matches(s, launcher))
            s->owned[s->t->tracks.data[kt_row_track(s->t, row)].process] = 1;
    }
    return s->owned != NULL;
}

/* Device work belongs to the process that launched it; without a known launch, to a device that
 * worked for one. */
static bool owner_matches(const selector *s, kineto_row row)
{
    uint32_t process = s->t->tracks.data[kt_row_track(s->t, row)].process;
    uint32_t launcher = launcher_process(s, row);
    if (launcher != KT_COPY_NONE)
        return process_matches(s, launcher);
    return process_matches(s, process) || s->owned[process];
}

/* ---- one row --------------------------------------------------------------------------------- */

/* Ranges count if they overlap the selected time, moments if they are inside it. */
static bool is_in_time(const selector *s, int64_t start, int64_t end)
{
    if (start == end)
        return start >= s->how.start_ns && start < s->how.end_ns;
    return start < s->how.end_ns && end > s->how.start_ns;
}

static bool row_has_length(const selector *s, kineto_row row)
{
    uint32_t form = kt_form(s->t, row);
    return form == KINETO_FORM_SLICE || form == KINETO_FORM_ASYNC;
}

static int64_t row_length_ns(const selector *s, kineto_row row)
{
    return kt_end(s->t, row) -
           kt_start(s->t, row); /* cannot overflow: the builder limits durations */
}

/* Applies all criteria to a row, the cheap ones first. */
static uint32_t decide_row(selector *s, kineto_row row)
{
    const kineto_selection *how = &s->how;
    if (how->kinds && !(how->kinds & KINETO_KIND_BIT(kt_kind(s->t, row))))
        return DROPPED;
    if (s->calls && !s->calls[row])
        return DROPPED;
    if (how->use & KINETO_SELECT_TIME && !is_in_time(s, kt_start(s->t, row), kt_end(s->t, row)))
        return DROPPED;
    if (how->min_duration_ns > 0 &&
        (!row_has_length(s, row) || row_length_ns(s, row) < how->min_duration_ns))
        return DROPPED;
    if (s->tracks.is_set && !track_matches(s, kt_row_track(s->t, row)))
        return DROPPED;
    if (s->names.is_set && !name_matches(s, kt_block_of(s->t, row)->name[row % KT_BLOCK_ROWS]))
        return DROPPED;
    if (how->use & (KINETO_SELECT_RANK | KINETO_SELECT_PROCESS) && !owner_matches(s, row))
        return DROPPED;
    if (how->use & KINETO_SELECT_STEPS) {
        kt_in_steps in = kt_step_filter_check(&s->steps, s->t, row);
        return in == KT_INSIDE ? SELECTED : in == KT_UNDECIDED ? UNDECIDED : DROPPED;
    }
    return SELECTED;
}

/* ---- the longest rows ------------------------------------------------------------------------ */

typedef struct candidate {
    int64_t length_ns;
    uint32_t group;
    kineto_row row;
} candidate;

static int compare_candidates(const void *left, const void *right)
{
    const candidate *a = left, *b = right;
    if (a->group != b->group)
        return a->group < b->group ? -1 : 1;
    if (a->length_ns != b->length_ns)
        return a->length_ns > b->length_ns ? -1 : 1;
    return a->row < b->row ? -1 : a->row > b->row;
}

/* The group of a row for "the longest of each …". */
static uint32_t top_group_of(const selector *s, kineto_row row)
{
    switch (s->how.top_per) {
    case KINETO_TOP_PER_KIND:
        return kt_kind(s->t, row);
    case KINETO_TOP_PER_TRACK:
        return kt_row_track(s->t, row);
    case KINETO_TOP_PER_NAME:
        return kt_block_of(s->t, row)->name[row % KT_BLOCK_ROWS];
    default:
        return 0;
    }
}

/* Of the rows selected so far only the `top` longest of each group stay. */
static kineto_status keep_longest_rows(selector *s)
{
    KB_VEC(candidate) all = {0};
    bool ok = true;
    for (kineto_row row = 0; ok && row < s->t->count; row++) {
        if (s->map[row] != SELECTED)
            continue;
        s->map[row] = DROPPED;
        if (row_has_length(s, row))
            ok = kb_vec_push(&all, (candidate){row_length_ns(s, row), top_group_of(s, row), row});
    }
    if (ok && all.count)
        qsort(all.data, all.count, sizeof *all.data, compare_candidates);
    uint64_t in_group = 0;
    for (size_t i = 0; ok && i < all.count; i++) {
        in_group = i && all.data[i].group == all.data[i - 1].group ? in_group + 1 : 0;
        if (in_group < s->how.top)
            s->map[all.data[i].row] = SELECTED;
    }
    kb_vec_free(&all);
    return ok ? KINETO_OK : fail_select_memory(s);
}

/* ---- rows that belong to the selected ones --------------------------------------------------- */

static void mark_launches(selector *s)
{
    for (kineto_row row = 0; row < s->t->count; row++) {
        if (s->map[row] != SELECTED || !kt_kind_is_device(kt_kind(s->t, row)))
            continue;
        kineto_row launch = kineto_trace_launch(s->t, row);
        if (launch != KINETO_NO_ROW)
            s->map[launch] = SELECTED;
    }
}

/* Stops at a range that is marked already: its own parents are, or will be when its row is
 * reached. */
static void mark_parents(selector *s)
{
    for (kineto_row row = 0; row < s->t->count; row++) {
        if (s->map[row] != SELECTED)
            continue;
        kineto_row parent = kineto_trace_parent(s->t, row);
        while (parent != KINETO_NO_ROW && s->map[parent] != SELECTED) {
            s->map[parent] = SELECTED;
            parent = kineto_trace_parent(s->t, parent);
        }
    }
}

/* Annotations of devices, track by track. `used` serves as the list of such tracks and is clear
 * afterwards. */
static kineto_status settle_undecided(selector *s)
{
    for (kineto_row row = 0; row < s->t->count; row++)
        if (s->map[row] == UNDECIDED)
            s->used[kt_row_track(s->t, row)] = 1;
    for (uint32_t track = 0; track < s->t->tracks.count; track++) {
        if (s->used[track] && !kt_step_filter_settle(&s->steps, s->t, track, s->map, UNDECIDED))
            return fail_select_memory(s);
        s->used[track] = 0;
    }
    return KINETO_OK;
}

/* Criteria first, then the longest of what is left, then additions: an added launch or parent does
 * not have to meet the criteria. */
static kineto_status mark_rows(selector *s)
{
    kineto_status status = KINETO_OK;
    for (kineto_row row = 0; row < s->t->count; row++)
        s->map[row] = decide_row(s, row);
    if (s->how.use & KINETO_SELECT_STEPS)
        status = settle_undecided(s);
    if (status == KINETO_OK && s->how.top)
        status = keep_longest_rows(s);
    if (status == KINETO_OK && s->how.use & KINETO_SELECT_LAUNCHES)
        mark_launches(s);
    if (status == KINETO_OK && s->how.use & KINETO_SELECT_PARENTS)
        mark_parents(s);
    for (kineto_row row = 0; row < s->t->count; row++) {
        bool is_selected = s->map[row] == SELECTED;
        KB_ASSERT(s->map[row] != UNDECIDED);
        s->kept += is_selected;
        s->used[kt_row_track(s->t, row)] |= is_selected;
    }
    return status;
}

/* ---- building the new trace ------------------------------------------------------------------ */

/* Copies processes and tracks that have selected rows, in the order of the source, and those that
 * never had rows: they describe the machine. */
static bool copy_viewer_rows(selector *s, kt_copy *c)
{
    uint32_t processes = kineto_trace_process_count(s->t);
    uint8_t *needed = calloc((size_t)processes + 1, 1), *had = calloc((size_t)processes + 1, 1);
    if (!needed || !had) {
        free(needed);
        free(had);
        return false;
    }
    for (uint32_t i = 0; i < s->t->tracks.count; i++) {
        const kt_track_row *k = &s->t->tracks.data[i];
        needed[k->process] |= s->used[i];
        had[k->process] |= k->count > 0;
    }
    for (uint32_t i = 0; i < processes; i++) {
        needed[i] |= !had[i] && process_matches(s, i);
        if (needed[i])
            kt_copy_process(c, i);
    }
    for (uint32_t i = 0; i < s->t->tracks.count; i++) {
        const kt_track_row *k = &s->t->tracks.data[i];
        bool empty = !k->count && needed[k->process] && (!s->tracks.is_set || track_matches(s, i));
        if (s->used[i] || empty)
            kt_copy_track(c, i);
    }
    free(needed);
    free(had);
    return !c->failed;
}

/* Cuts a row to the selected time and marks the ends that were cut. */
static void clip_row(const selector *s, kt_row *row)
{
    if (!is_in_time(s, row->start_ns, row->end_ns))
        return; /* selected as a launch or parent, not by its time */
    if (row->start_ns < s->how.start_ns) {
        row->start_ns = s->how.start_ns;
        row->flags |= KINETO_ACTIVITY_OPEN_START;
    }
    if (row->end_ns > s->how.end_ns) {
        row->end_ns = s->how.end_ns;
        row->flags |= KINETO_ACTIVITY_OPEN_END;
    }
}

/* Copies a row and replaces its mark by its new number, which flows need. */
static void copy_selected_row(selector *s, kt_copy *c, kineto_row row, bool clips)
{
    kt_row columns;
    kt_copy_columns(c, row, &columns);
    kt_copy_args(c, row);
    if (clips)
        clip_row(s, &columns);
    s->map[row] = kt_append(c->b, &columns);
}

/* Ranges that are clipped at the same edges nest by their order in the file, so an enclosing range
 * has to come first: they are copied in the order of time. Traces of a recorder nest by their
 * writers. */
static bool copy_selected_rows(selector *s, kt_copy *c)
{
    bool clips = (s->how.use & KINETO_SELECT_CLIP) && (s->how.use & KINETO_SELECT_TIME);
    bool sorts = clips && !s->t->has_writers;
    const kineto_row *order = sorts ? kineto_trace_time_order(s->t) : NULL;
    for (kineto_row i = 0; i < s->t->count && (order || !sorts); i++) {
        kineto_row row = sorts ? order[i] : i;
        if (s->map[row] == SELECTED)
            copy_selected_row(s, c, row, clips);
    }
    return order || !sorts;
}

/* Drops flows that lose an end by the selection; an end that was never recorded stays unknown.
 * Returns how many were dropped. */
static uint64_t copy_selected_flows(selector *s, kt_copy *c)
{
    uint64_t cut = 0;
    for (uint64_t i = 0; i < kineto_trace_flow_count(s->t); i++) {
        kineto_flow f;
        kineto_trace_flow(s->t, i, &f);
        kineto_row from = f.from < s->t->count ? s->map[f.from] : KINETO_NO_ROW;
        kineto_row to = f.to < s->t->count ? s->map[f.to] : KINETO_NO_ROW;
        if ((from == KINETO_NO_ROW) == (f.from == KINETO_NO_ROW) &&
            (to == KINETO_NO_ROW) == (f.to == KINETO_NO_ROW))
            kt_copy_flow(c, i, &f, from, to);
        else
            cut++;
    }
    return cut;
}

/* The window of the new trace: that of the rank's own part, the steps (from where the one before them
 * ended, also on devices), or the ranges around,
 * extended by the device work that was selected, and cut to the selected time. */
static void set_selected_window(const selector *s, kt_builder *b)
{
    int64_t start, end;
    kineto_trace_window(s->t, &start, &end);
    if (s->has_part) {
        start = s->part.start_ns;
        end = s->part.end_ns;
    }
    if (s->how.use & KINETO_SELECT_STEPS) {
        const kt_spans *steps = &s->steps.everywhere;
        start = KB_MAX(steps->data[0].start_ns, kt_step_filter_border(&s->steps, s->t));
        end = KB_MAX(steps->data[steps->count - 1].end_ns, start);
    }
    if (s->how.under && s->kept) {
        start = KB_MAX(start, s->under.start_ns);
        end = KB_MIN(end, s->under.end_ns);
    }
    bool extends = s->how.under || s->how.use & KINETO_SELECT_STEPS;
    for (kineto_row row = 0; extends && row < s->t->count; row++)
        if (s->map[row] != DROPPED && kt_kind_is_device(kt_kind(s->t, row)))
            end = KB_MAX(end, kt_end(s->t, row));
    if (s->how.use & KINETO_SELECT_TIME) {
        bool disjoint = s->how.end_ns <= start || s->how.start_ns >= end;
        start = disjoint ? s->how.start_ns : KB_MAX(start, s->how.start_ns);
        end = disjoint ? s->how.end_ns : KB_MIN(end, s->how.end_ns);
    }
    if (s->t->has_window || s->t->count || s->how.use & KINETO_SELECT_TIME)
        kt_window(b, start, end);
}

/* ---- the selection in words, for the ledger -------------------------------------------------- */

typedef struct sentence {
    char text[1024];
    size_t size;
} sentence;

static void append_criterion(sentence *s, const char *fmt, ...) KINETO_PRINTF(2, 3);
static void append_criterion(sentence *s, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    size_t room = sizeof s->text - s->size;
    int size = vsnprintf(s->text + s->size, room, fmt, args);
    va_end(args);
    s->size += size < 0 ? 0 : KB_MIN((size_t)size, room - 1);
    /* No half characters of a long pattern. */
    s->size = kb_utf8_valid_prefix(s->text, s->size);
    s->text[s->size] = '\0';
}

/* INT64_MIN and INT64_MAX stand for an open end. */
static void append_time(sentence *out, const kineto_selection *how)
{
    append_criterion(out, "time from ");
    if (how->start_ns == INT64_MIN)
        append_criterion(out, "the start");
    else
        append_criterion(out, "%lld ns", (long long)how->start_ns);
    if (how->end_ns == INT64_MAX)
        append_criterion(out, " to the end; ");
    else
        append_criterion(out, " up to %lld ns%s; ", (long long)how->end_ns,
                         how->use & KINETO_SELECT_CLIP ? ", clipped" : "");
}

static void append_kinds(sentence *out, uint64_t kinds)
{
    append_criterion(out, "kinds");
    for (uint32_t kind = 0; kind < KINETO_KIND_COUNT; kind++)
        if (kinds & KINETO_KIND_BIT(kind))
            append_criterion(out, " %s", kineto_kind_name(kind));
    append_criterion(out, "; ");
}

static void append_criteria(sentence *out, const kineto_selection *how)
{
    static const char *const per[] = {"", " of each kind", " of each track", " of each name"};
    if (how->use & KINETO_SELECT_TIME)
        append_time(out, how);
    if (how->use & KINETO_SELECT_STEPS)
        append_criterion(out, "steps %llu to %llu; ", (unsigned long long)how->first_step,
                         (unsigned long long)how->last_step);
    if (how->kinds)
        append_kinds(out, how->kinds);
    if (how->use & KINETO_SELECT_RANK)
        append_criterion(out, "rank %d; ", how->rank);
    if (how->use & KINETO_SELECT_PROCESS)
        append_criterion(out, "process %lld; ", (long long)how->pid);
    if (how->track)
        append_criterion(out, "tracks like '%s'; ", how->track);
    if (how->name)
        append_criterion(out, "names like '%s'; ", how->name);
    if (how->under)
        append_criterion(out, "in ranges like '%s'; ", how->under);
    if (how->around)
        append_criterion(out, "around ranges like '%s'; ", how->around);
    if (how->after)
        append_criterion(out, "after the first range like '%s'; ", how->after);
    if (how->before)
        append_criterion(out, "before the first range like '%s'; ", how->before);
    if (how->min_duration_ns > 0)
        append_criterion(out, "at least %lld ns; ", (long long)how->min_duration_ns);
    if (how->top)
        append_criterion(out, "the %llu longest%s; ", (unsigned long long)how->top,
                         per[how->top_per]);
    if (how->use & KINETO_SELECT_LAUNCHES)
        append_criterion(out, "with launches; ");
    if (how->use & KINETO_SELECT_PARENTS)
        append_criterion(out, "with enclosing ranges; ");
}

/* Records the criteria and the number of rows that were dropped, which is not a loss. */
static void write_selection_ledger(const selector *s, kt_builder *b, uint64_t cut)
{
    sentence what = {.size = 0};
    append_criteria(&what, &s->how);
    append_criterion(&what, "kept %llu of %llu", (unsigned long long)s->kept,
                     (unsigned long long)s->t->count);
    kineto_string source = kb_string("selection");
    kt_ledger_add(b, source, kb_string("activities left out by selection"), s->t->count - s->kept,
                  false, kb_string(what.text));
    if (cut)
        kt_ledger_add(b, source, kb_string("flows left out by selection"), cut, false,
                      kb_string("an end of each was left out"));
}

/* ---- the call -------------------------------------------------------------------------------- */

/* Rows first, then flows between the new rows; the kinds of plug-ins have to be known before the
 * rows. */
static kineto_status build_selection(selector *s, kineto_trace **out)
{
    kt_builder *b = NULL;
    kt_copy copy = {0};
    kineto_status status = kt_builder_create(&b, s->err);
    if (status != KINETO_OK)
        return status;
    bool ok = kt_copy_begin(&copy, b, s->t) && copy_viewer_rows(s, &copy);
    if (ok) {
        kt_copy_own_kinds(&copy);
        set_selected_window(s, b);
        ok = copy_selected_rows(s, &copy);
    }
    if (!ok) {
        status = fail_select_memory(s);
        goto done;
    }
    uint64_t cut = copy_selected_flows(s, &copy);
    kt_copy_metadata(&copy);
    if (s->how.use & KINETO_SELECT_RANK &&
        !kt_put_rank_header(s->t, s->how.rank, s->has_part ? &s->part : NULL, b)) {
        status = fail_select_memory(s);
        goto done;
    }
    kt_copy_snapshots(&copy);
    kt_copy_ledger(&copy);
    write_selection_ledger(s, b, cut);
    status = kt_builder_finish(b, out, s->err);
done:
    kt_copy_free(&copy);
    kt_builder_destroy(b);
    return status;
}

/* Rejects criteria that contradict each other. */
static kineto_status check_selection(const kineto_selection *how, kineto_error *err)
{
    if (how->use & ~KINETO_SELECT_ALL || how->top_per > KINETO_TOP_PER_NAME)
        return kb_fail(err, KINETO_E_ARGUMENT,
                       "kineto_trace_select: unknown bits in use, or unknown top_per");
    if (how->use & KINETO_SELECT_TIME && how->end_ns <= how->start_ns)
        return kb_fail(err, KINETO_E_ARGUMENT,
                       "the time to select ends before it starts: %lld ns to "
                       "%lld ns",
                       (long long)how->start_ns, (long long)how->end_ns);
    if (how->use & KINETO_SELECT_CLIP && !(how->use & KINETO_SELECT_TIME))
        return kb_fail(err, KINETO_E_ARGUMENT, "only a selection by time can clip");
    if (how->use & KINETO_SELECT_STEPS && how->last_step < how->first_step)
        return kb_fail(err, KINETO_E_ARGUMENT,
                       "the last step to select, %llu, is before the first, "
                       "%llu",
                       (unsigned long long)how->last_step, (unsigned long long)how->first_step);
    return KINETO_OK;
}

/* A selection without criteria returns the trace itself. */
static bool selects_all(const kineto_selection *how)
{
    return !how->use && !how->kinds && !how->name && !how->track && how->min_duration_ns <= 0 &&
           !how->top && !kt_selects_calls(how);
}

/* Evaluates everything that does not depend on single rows. selector_free frees it in any case. */
static kineto_status prepare_selector(selector *s)
{
    s->map = malloc((s->t->count + 1) * sizeof *s->map);
    s->used = calloc(s->t->tracks.count + 1, 1);
    if (!s->map || !s->used)
        return fail_select_memory(s);
    bool of_rank = s->how.use & KINETO_SELECT_RANK;
    s->trace_rank = of_rank ? kt_header_rank(s->t) : -1;
    s->has_part = of_rank && kt_merged_part_of(s->t, s->how.rank, &s->part);
    kineto_status status =
        compile_matcher(s, &s->names, s->how.name, "names", kineto_trace_string_count(s->t));
    if (status == KINETO_OK)
        status =
            compile_matcher(s, &s->tracks, s->how.track, "tracks", (uint32_t)s->t->tracks.count);
    if (status == KINETO_OK && s->how.use & (KINETO_SELECT_RANK | KINETO_SELECT_PROCESS) &&
        !find_owned_devices(s))
        status = fail_select_memory(s);
    if (status == KINETO_OK && kt_selects_calls(&s->how))
        status = kt_select_calls(s->t, &s->how, &s->calls, &s->under, s->err);
    if (status == KINETO_OK && s->how.use & KINETO_SELECT_STEPS)
        status = kt_step_filter_make(&s->steps, s->t, s->how.step_pattern, s->how.first_step,
                                     s->how.last_step, s->err);
    return status;
}

static void selector_free(selector *s)
{
    matcher_free(&s->names);
    matcher_free(&s->tracks);
    kt_step_filter_free(&s->steps);
    free(s->map);
    free(s->used);
    free(s->owned);
    free(s->calls);
}

static kineto_status run_selector(selector *s, kineto_trace **out)
{
    kineto_status status = prepare_selector(s);
    if (status == KINETO_OK)
        status = mark_rows(s);
    return status == KINETO_OK ? build_selection(s, out) : status;
}

kineto_status kineto_trace_select(const kineto_trace *trace, const kineto_selection *selection,
                                  kineto_trace **out, kineto_error *err)
{
    if (out)
        *out = NULL;
    if (!trace || !selection || !out)
        return kb_fail_null(err, __func__, "trace, selection, out", trace, selection, out);
    selector s = {.t = trace, .err = err};
    kineto_status status =
        kb_options_read(&s.how, sizeof s.how, selection, "kineto_selection", err);
    if (!status)
        status = check_selection(&s.how, err);
    if (status)
        return status;
    if (selects_all(&s.how)) {
        *out = kineto_trace_retain(trace);
        return KINETO_OK;
    }
    status = run_selector(&s, out);
    selector_free(&s);
    return status;
}

kineto_status kt_select_rank(const kineto_trace *t, int32_t rank, kineto_trace **out,
                             kineto_row **rows, kineto_error *err)
{
    selector s = {.t = t, .err = err};
    s.how = (kineto_selection){.size = sizeof s.how, .use = KINETO_SELECT_RANK, .rank = rank};
    *out = NULL;
    kineto_status status = run_selector(&s, out);
    *rows = status ? NULL : malloc((s.kept + 1) * sizeof **rows);
    if (!status && !*rows) {
        kineto_trace_release(*out);
        *out = NULL;
        status = fail_select_memory(&s);
    }
    for (kineto_row row = 0; !status && row < t->count; row++)
        if (s.map[row] != DROPPED)
            (*rows)[s.map[row]] = row;
    selector_free(&s);
    return status;
}
