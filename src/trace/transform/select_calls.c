/* Choosing rows by the ranges around them, in them, before and after them. */
#include "trace/transform/select.h"

#include <regex.h>

typedef struct looking {
    const kineto_trace *t;
    kineto_error *err;
    uint8_t *keep;     /* by row */
    kt_span under;     /* from the first start to the last end of such ranges */
    uint8_t *verdicts; /* by name: 0 not asked yet, 1 no, 2 yes */
    char *room;        /* texts with a NUL behind them */
    size_t capacity;
    regex_t regex;
} looking;

static kineto_status no_memory(const looking *l)
{
    return kb_fail(l->err, KINETO_E_MEMORY, "no memory to select from a trace of %llu activities",
                   (unsigned long long)l->t->count);
}

/* ---- names ------------------------------------------------------------------------------------- */

static bool text_matches(looking *l, kineto_string text)
{
    if (text.size + 1 > l->capacity &&
        !kb_vec_grow((void **)&l->room, &l->capacity, text.size + 1, 1))
        return false;
    for (size_t i = 0; i < text.size; i++)
        l->room[i] = text.data[i] ? text.data[i] : ' ';
    l->room[text.size] = '\0';
    return regexec(&l->regex, l->room, 0, NULL, 0) == 0;
}

static bool matches(looking *l, kineto_row row)
{
    uint8_t *verdict = &l->verdicts[kt_block_of(l->t, row)->name[row % KT_BLOCK_ROWS]];
    if (!*verdict)
        *verdict = text_matches(l, kineto_trace_string(
                                       l->t, kt_block_of(l->t, row)->name[row % KT_BLOCK_ROWS]))
                       ? 2
                       : 1;
    return *verdict == 2;
}

/* ---- in ranges, around them -------------------------------------------------------------------- */

/* A row of no length lies inside what ends after it. */
static int64_t end_inside(const kineto_trace *t, kineto_row row)
{
    int64_t end = kt_end(t, row);
    return kt_start(t, row) == end && end < INT64_MAX ? end + 1 : end;
}

/* Device work belongs to the ranges around its launch, whatever encloses it on its own track. */
static bool is_enclosed(const looking *l, kineto_row row)
{
    return !kt_kind_is_device(kt_kind(l->t, row));
}

/* Mark the rows inside marked ones: a row lies inside a range that precedes it in its track's order and
 * ends no earlier (nesting.c), so the latest end of the marked ones so far decides. Ranges that cross
 * others keep all that they enclose, which is more than what has them for an ancestor. */
static void mark_enclosed(const looking *l, uint32_t track, uint8_t *marks)
{
    const kineto_row *rows = kineto_trace_track_rows(l->t, track);
    int64_t latest_end = INT64_MIN;
    for (uint64_t i = 0; i < l->t->tracks.data[track].count; i++) {
        kineto_row row = rows[i], parent = kineto_trace_parent(l->t, row);
        if (marks[row])
            latest_end = KB_MAX(latest_end, kt_end(l->t, row));
        else if (is_enclosed(l, row))
            marks[row] = end_inside(l->t, row) <= latest_end ||
                         (parent != KINETO_NO_ROW && marks[parent]);
    }
}

/* Mark the rows around marked ones: the same, backwards. */
static void mark_enclosing(const looking *l, uint32_t track, uint8_t *marks)
{
    const kineto_row *rows = kineto_trace_track_rows(l->t, track);
    int64_t earliest_end = INT64_MAX;
    for (uint64_t i = l->t->tracks.data[track].count; i-- > 0;) {
        kineto_row row = rows[i], parent = kineto_trace_parent(l->t, row);
        if (marks[row])
            earliest_end = KB_MIN(earliest_end, end_inside(l->t, row));
        else if (is_enclosed(l, row))
            marks[row] = kt_end(l->t, row) >= earliest_end;
        if (marks[row] && parent != KINETO_NO_ROW && is_enclosed(l, row))
            marks[parent] = 1;
    }
}

/* Mark device work whose launch is marked, or launches of marked device work. */
static void mark_linked(const looking *l, bool work, uint8_t *marks)
{
    for (kineto_row row = 0; row < l->t->count; row++) {
        kineto_row launch =
            is_enclosed(l, row) ? KINETO_NO_ROW : kineto_trace_launch(l->t, row);
        if (launch != KINETO_NO_ROW && marks[work ? launch : row])
            marks[work ? row : launch] = 1;
    }
}

static uint8_t *mark_matches(looking *l)
{
    uint8_t *marks = calloc((size_t)l->t->count + 1, 1);
    for (kineto_row row = 0; marks && row < l->t->count; row++)
        marks[row] = matches(l, row);
    return marks;
}

static bool keep_marked(looking *l, uint8_t *marks)
{
    for (kineto_row row = 0; marks && row < l->t->count; row++)
        l->keep[row] &= marks[row];
    free(marks);
    return marks != NULL;
}

static bool keep_under(looking *l)
{
    uint8_t *marks = mark_matches(l);
    for (kineto_row row = 0; marks && row < l->t->count; row++)
        if (marks[row]) {
            l->under.start_ns = KB_MIN(l->under.start_ns, kt_start(l->t, row));
            l->under.end_ns = KB_MAX(l->under.end_ns, kt_end(l->t, row));
        }
    for (uint32_t track = 0; marks && track < l->t->tracks.count; track++)
        mark_enclosed(l, track, marks);
    if (marks)
        mark_linked(l, true, marks);
    return keep_marked(l, marks);
}

static bool keep_around(looking *l)
{
    uint8_t *marks = mark_matches(l);
    if (marks)
        mark_linked(l, false, marks);
    for (uint32_t track = 0; marks && track < l->t->tracks.count; track++)
        mark_enclosing(l, track, marks);
    return keep_marked(l, marks);
}

/* ---- before, after ------------------------------------------------------------------------------- */

/* The first range of the name; of those that begin together the longest. */
static kineto_row find_first(looking *l)
{
    kineto_row first = KINETO_NO_ROW;
    for (kineto_row row = 0; row < l->t->count; row++) {
        if (!matches(l, row))
            continue;
        if (first == KINETO_NO_ROW || kt_start(l->t, row) < kt_start(l->t, first) ||
            (kt_start(l->t, row) == kt_start(l->t, first) &&
             kt_end(l->t, row) > kt_end(l->t, first)))
            first = row;
    }
    return first;
}

/* Device work is when it was launched. */
static kineto_row moment_of(const looking *l, kineto_row row)
{
    kineto_row launch =
        kt_kind_is_device(kt_kind(l->t, row)) ? kineto_trace_launch(l->t, row) : KINETO_NO_ROW;
    return launch == KINETO_NO_ROW ? row : launch;
}

static bool keep_after(looking *l)
{
    kineto_row first = find_first(l);
    for (kineto_row row = 0; row < l->t->count; row++)
        l->keep[row] &= first != KINETO_NO_ROW && row != first &&
                        kt_start(l->t, moment_of(l, row)) >= kt_end(l->t, first);
    return true;
}

static bool keep_before(looking *l)
{
    kineto_row first = find_first(l);
    for (kineto_row row = 0; row < l->t->count; row++)
        l->keep[row] &= first != KINETO_NO_ROW && row != first &&
                        kt_end(l->t, moment_of(l, row)) <= kt_start(l->t, first);
    return true;
}

/* ---- all of them --------------------------------------------------------------------------------- */

static kineto_status keep_by(looking *l, const char *pattern, bool (*keep)(looking *))
{
    if (!pattern)
        return KINETO_OK;
    int code = regcomp(&l->regex, pattern, REG_EXTENDED | REG_NOSUB);
    if (code) {
        char reason[128];
        regerror(code, &l->regex, reason, sizeof reason);
        return kb_fail(l->err, KINETO_E_ARGUMENT,
                       "'%s' for ranges is no extended regular expression: %s", pattern, reason);
    }
    l->verdicts = calloc((size_t)kineto_trace_string_count(l->t) + 1, 1);
    bool ok = l->verdicts && keep(l);
    free(l->verdicts);
    l->verdicts = NULL;
    regfree(&l->regex);
    return ok ? KINETO_OK : no_memory(l);
}

bool kt_selects_calls(const kineto_selection *how)
{
    return how->under || how->around || how->after || how->before;
}

kineto_status kt_select_calls(const kineto_trace *t, const kineto_selection *how, uint8_t **keep,
                              kt_span *under, kineto_error *err)
{
    looking l = {.t = t, .err = err, .under = {.start_ns = INT64_MAX, .end_ns = INT64_MIN}};
    *keep = l.keep = malloc((size_t)t->count + 1);
    if (!l.keep || !kt_prepare(t, true, true))
        return no_memory(&l);
    memset(l.keep, 1, (size_t)t->count + 1);
    kineto_status status = keep_by(&l, how->under, keep_under);
    if (!status)
        status = keep_by(&l, how->around, keep_around);
    if (!status)
        status = keep_by(&l, how->after, keep_after);
    if (!status)
        status = keep_by(&l, how->before, keep_before);
    free(l.room);
    *under = l.under;
    return status;
}
