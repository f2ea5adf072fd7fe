/* Choosing rows by the ranges around them, in them, before and after them. */
#include "trace/change/select.h"

#include <regex.h>

typedef struct looking {
    const kineto_trace *t;
    kineto_error *err;
    uint8_t *keep;     /* by row */
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

/* What encloses it; of device work, what launched it. */
static kineto_row above(const looking *l, kineto_row row)
{
    return kt_kind_is_device(kt_kind(l->t, row)) ? kineto_trace_launch(l->t, row)
                                                 : kineto_trace_parent(l->t, row);
}

enum { UNKNOWN, OUTSIDE, INSIDE };

/* Up to the first one of which it is known, and down again: each row is passed twice. */
static bool find_inside(looking *l, uint8_t *inside)
{
    for (kineto_row row = 0; row < l->t->count; row++) {
        kineto_row top = row;
        uint8_t is = OUTSIDE;
        while (top != KINETO_NO_ROW && inside[top] == UNKNOWN && !matches(l, top))
            top = above(l, top);
        if (top != KINETO_NO_ROW)
            is = inside[top] == UNKNOWN ? INSIDE : inside[top];
        if (top != KINETO_NO_ROW)
            inside[top] = is;
        for (kineto_row r = row; r != top; r = above(l, r))
            inside[r] = is;
    }
    return true;
}

static bool keep_under(looking *l)
{
    uint8_t *inside = calloc((size_t)l->t->count + 1, 1);
    if (!inside)
        return false;
    find_inside(l, inside);
    for (kineto_row row = 0; row < l->t->count; row++)
        l->keep[row] &= inside[row] == INSIDE;
    free(inside);
    return true;
}

static bool keep_around(looking *l)
{
    uint8_t *around = calloc((size_t)l->t->count + 1, 1);
    if (!around)
        return false;
    for (kineto_row row = 0; row < l->t->count; row++)
        if (matches(l, row))
            for (kineto_row r = row; r != KINETO_NO_ROW && !around[r]; r = above(l, r))
                around[r] = 1;
    for (kineto_row row = 0; row < l->t->count; row++)
        l->keep[row] &= around[row];
    free(around);
    return true;
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
                              kineto_error *err)
{
    looking l = {.t = t, .err = err};
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
    return status;
}
