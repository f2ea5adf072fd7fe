/* Selection by surrounding ranges: rows under a range, around it, before or after the first one of
 * a name. Each criterion clears the rows that do not meet it in `keep`. */
#include "trace/transform/select.h"

#include <regex.h>

typedef struct call_selector {
    const kineto_trace *t;
    kineto_error *err;
    uint8_t *keep;     /* by row: 1 while all criteria so far accept it */
    kt_span under;     /* from the first start to the last end of matching ranges */
    uint8_t *verdicts; /* by name: 0: not evaluated yet; 1: no match; 2: match */
    char *room;        /* NUL-terminated copy of the text, for regexec */
    size_t capacity;
    regex_t regex;
} call_selector;

static kineto_status fail_calls_memory(const call_selector *l)
{
    return kb_fail(l->err, KINETO_E_MEMORY, "select from a trace of %llu activities: out of memory",
                   (unsigned long long)l->t->count);
}

/* ---- names ----------------------------------------------------------------------------------- */

/* As in select.c: a NUL in the text is replaced by a space. */
static bool call_text_matches(call_selector *l, kineto_string text)
{
    if (text.size + 1 > l->capacity &&
        !kb_vec_grow((void **)&l->room, &l->capacity, text.size + 1, 1))
        return false;
    for (size_t i = 0; i < text.size; i++)
        l->room[i] = text.data[i] ? text.data[i] : ' ';
    l->room[text.size] = '\0';
    return regexec(&l->regex, l->room, 0, NULL, 0) == 0;
}

static bool call_name_matches(call_selector *l, kineto_row row)
{
    uint32_t name = kt_block_of(l->t, row)->name[row % KT_BLOCK_ROWS];
    uint8_t *verdict = &l->verdicts[name];
    if (!*verdict)
        *verdict = call_text_matches(l, kineto_trace_string(l->t, name)) ? 2 : 1;
    return *verdict == 2;
}

/* ---- under ranges, around them --------------------------------------------------------------- */

/* A row of no length lies inside a range that ends after it. */
static int64_t end_for_nesting(const kineto_trace *t, kineto_row row)
{
    int64_t end = kt_end(t, row);
    return kt_start(t, row) == end && end < INT64_MAX ? end + 1 : end;
}

/* Device work belongs to the ranges around its launch, whatever encloses it on its own track. */
static bool nests_on_track(const call_selector *l, kineto_row row)
{
    return !kt_kind_is_device(kt_kind(l->t, row));
}

/* Marks the rows inside marked ones. A row lies inside a range that precedes it in its track's
 * order and ends no earlier (nesting.c), so the latest end of the marked ones so far decides.
 * Ranges that cross others keep all that they enclose, which is more than what has them for an
 * ancestor. */
static void mark_rows_inside(const call_selector *l, uint32_t track, uint8_t *marks)
{
    const kineto_row *rows = kineto_trace_track_rows(l->t, track);
    int64_t latest_end = INT64_MIN;
    for (uint64_t i = 0; i < l->t->tracks.data[track].count; i++) {
        kineto_row row = rows[i], parent = kineto_trace_parent(l->t, row);
        if (marks[row])
            latest_end = KB_MAX(latest_end, kt_end(l->t, row));
        else if (nests_on_track(l, row))
            marks[row] = end_for_nesting(l->t, row) <= latest_end ||
                         (parent != KINETO_NO_ROW && marks[parent]);
    }
}

/* Marks the rows around marked ones: the same order, backwards. */
static void mark_rows_around(const call_selector *l, uint32_t track, uint8_t *marks)
{
    const kineto_row *rows = kineto_trace_track_rows(l->t, track);
    int64_t earliest_end = INT64_MAX;
    for (uint64_t i = l->t->tracks.data[track].count; i-- > 0;) {
        kineto_row row = rows[i], parent = kineto_trace_parent(l->t, row);
        if (marks[row])
            earliest_end = KB_MIN(earliest_end, end_for_nesting(l->t, row));
        else if (nests_on_track(l, row))
            marks[row] = kt_end(l->t, row) >= earliest_end;
        if (marks[row] && parent != KINETO_NO_ROW && nests_on_track(l, row))
            marks[parent] = 1;
    }
}

/* Marks device work whose launch is marked, or, if not `work`, launches of marked device work. */
static void mark_launch_pairs(const call_selector *l, bool work, uint8_t *marks)
{
    for (kineto_row row = 0; row < l->t->count; row++) {
        kineto_row launch = nests_on_track(l, row) ? KINETO_NO_ROW : kineto_trace_launch(l->t, row);
        if (launch != KINETO_NO_ROW && marks[work ? launch : row])
            marks[work ? row : launch] = 1;
    }
}

/* 1 for each row whose name matches; NULL: out of memory. */
static uint8_t *mark_matching_rows(call_selector *l)
{
    uint8_t *marks = calloc((size_t)l->t->count + 1, 1);
    for (kineto_row row = 0; marks && row < l->t->count; row++)
        marks[row] = call_name_matches(l, row);
    return marks;
}

/* Takes the marks and frees them. False: `marks` is NULL, out of memory. */
static bool keep_marked_rows(call_selector *l, uint8_t *marks)
{
    for (kineto_row row = 0; marks && row < l->t->count; row++)
        l->keep[row] &= marks[row];
    free(marks);
    return marks != NULL;
}

/* Rows on the same track by nesting, then the device work of their launches. */
static bool keep_rows_under(call_selector *l)
{
    uint8_t *marks = mark_matching_rows(l);
    for (kineto_row row = 0; marks && row < l->t->count; row++)
        if (marks[row]) {
            l->under.start_ns = KB_MIN(l->under.start_ns, kt_start(l->t, row));
            l->under.end_ns = KB_MAX(l->under.end_ns, kt_end(l->t, row));
        }
    for (uint32_t track = 0; marks && track < l->t->tracks.count; track++)
        mark_rows_inside(l, track, marks);
    if (marks)
        mark_launch_pairs(l, true, marks);
    return keep_marked_rows(l, marks);
}

/* Launches of matching device work first, then the rows that enclose them. */
static bool keep_rows_around(call_selector *l)
{
    uint8_t *marks = mark_matching_rows(l);
    if (marks)
        mark_launch_pairs(l, false, marks);
    for (uint32_t track = 0; marks && track < l->t->tracks.count; track++)
        mark_rows_around(l, track, marks);
    return keep_marked_rows(l, marks);
}

/* ---- before, after --------------------------------------------------------------------------- */

/* The matching range with the earliest start, the longest of equals. */
static kineto_row first_matching_range(call_selector *l)
{
    kineto_row first = KINETO_NO_ROW;
    for (kineto_row row = 0; row < l->t->count; row++) {
        if (!call_name_matches(l, row))
            continue;
        if (first == KINETO_NO_ROW || kt_start(l->t, row) < kt_start(l->t, first) ||
            (kt_start(l->t, row) == kt_start(l->t, first) &&
             kt_end(l->t, row) > kt_end(l->t, first)))
            first = row;
    }
    return first;
}

/* Device work counts at the time of its launch. */
static kineto_row row_in_host_time(const call_selector *l, kineto_row row)
{
    kineto_row launch =
        kt_kind_is_device(kt_kind(l->t, row)) ? kineto_trace_launch(l->t, row) : KINETO_NO_ROW;
    return launch == KINETO_NO_ROW ? row : launch;
}

/* Rows that begin when the first matching range has ended. */
static bool keep_rows_after(call_selector *l)
{
    kineto_row first = first_matching_range(l);
    for (kineto_row row = 0; row < l->t->count; row++)
        l->keep[row] &= first != KINETO_NO_ROW && row != first &&
                        kt_start(l->t, row_in_host_time(l, row)) >= kt_end(l->t, first);
    return true;
}

/* Rows that have ended when the first matching range begins. */
static bool keep_rows_before(call_selector *l)
{
    kineto_row first = first_matching_range(l);
    for (kineto_row row = 0; row < l->t->count; row++)
        l->keep[row] &= first != KINETO_NO_ROW && row != first &&
                        kt_end(l->t, row_in_host_time(l, row)) <= kt_start(l->t, first);
    return true;
}

/* ---- all criteria ---------------------------------------------------------------------------- */

/* Compiles the pattern and runs one criterion; NULL: the selection does not have it. */
static kineto_status apply_call_pattern(call_selector *l, const char *pattern,
                                        bool (*keep)(call_selector *))
{
    if (!pattern)
        return KINETO_OK;
    int code = regcomp(&l->regex, pattern, REG_EXTENDED | REG_NOSUB);
    if (code) {
        char reason[128];
        regerror(code, &l->regex, reason, sizeof reason);
        return kb_fail(l->err, KINETO_E_ARGUMENT,
                       "'%s' for ranges is not an extended regular expression: %s", pattern,
                       reason);
    }
    l->verdicts = calloc((size_t)kineto_trace_string_count(l->t) + 1, 1);
    KB_ASSERT(l->keep);
    bool ok = l->verdicts && keep(l);
    free(l->verdicts);
    l->verdicts = NULL;
    regfree(&l->regex);
    return ok ? KINETO_OK : fail_calls_memory(l);
}

bool kt_selects_calls(const kineto_selection *how)
{
    return how->under || how->around || how->after || how->before;
}

kineto_status kt_select_calls(const kineto_trace *t, const kineto_selection *how, uint8_t **keep,
                              kt_span *under, kineto_error *err)
{
    call_selector l = {.t = t, .err = err, .under = {.start_ns = INT64_MAX, .end_ns = INT64_MIN}};
    *keep = l.keep = malloc((size_t)t->count + 1);
    if (!l.keep || !kt_prepare(t, true, true))
        return fail_calls_memory(&l);
    memset(l.keep, 1, (size_t)t->count + 1);
    kineto_status status = apply_call_pattern(&l, how->under, keep_rows_under);
    if (!status)
        status = apply_call_pattern(&l, how->around, keep_rows_around);
    if (!status)
        status = apply_call_pattern(&l, how->after, keep_rows_after);
    if (!status)
        status = apply_call_pattern(&l, how->before, keep_rows_before);
    free(l.room);
    *under = l.under;
    return status;
}
