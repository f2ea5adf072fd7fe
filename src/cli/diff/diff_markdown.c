/* A diff as a comment on a pull request: three lines with the answer, or four with the origin first, and tables in a folded section, at most
 * MAX_BYTES in all. All texts of the traces are escaped. */
#include "cli/diff/diff.h"

#include <math.h>

#define MAX_BYTES  4096u
#define TAIL_BYTES 160u /* of the end of the folded section, which always fits */

/* A comment that grows row by row until it is full. */
typedef struct comment {
    FILE *out;
    size_t left_bytes;
    uint64_t dropped; /* rows for which there was no space */
} comment;

/* ---- texts ----------------------------------------------------------------------------------- */

/* Escapes every character that Markdown, HTML or a forge (mentions, references) could interpret. */
static void put_escaped_byte(FILE *out, unsigned char c, bool begins_url)
{
    if (c < ' ' || c == 0x7f)
        fputc(' ', out);
    else if (strchr("&<>\"'`*_~[]()|\\#@$!{}", c) || begins_url)
        fprintf(out, "&#%u;", (unsigned)c);
    else
        fputc(c, out);
}

/* At most `max` characters, not bytes. */
static void put_escaped_text(FILE *out, kineto_string text, size_t max)
{
    kineto_string rest = {text.data, text.size}, piece;
    size_t left = max;
    while ((piece = kb_utf8_next(&rest, NULL)).size)
        for (size_t i = 0; i < piece.size; i++) {
            unsigned char c = (unsigned char)piece.data[i];
            bool begins_character = (c & 0xc0) != 0x80;
            if (begins_character && left-- == 0) {
                fputs("…", out);
                return;
            }
            put_escaped_byte(out, c, c == ':' && i + 1 < piece.size && piece.data[i + 1] == '/');
        }
}

/* The same in the comment everywhere it is written: relative to the working directory or, of other absolute paths,
 * the last directory and the name. */
static const char *relative_path(const char *path)
{
    path = kc_relative_path(path);
    if (path[0] != '/')
        return path;
    const char *name = strrchr(path, '/');
    while (name > path && name[-1] != '/')
        name--;
    return *name == '/' ? name + 1 : name;
}

/* "a.json", or "a1.json and 4 more runs". */
static void put_side_name(const kc_diff_output *d, uint32_t side, FILE *out)
{
    put_escaped_text(out, kb_string(relative_path(d->paths[side][0])), 80);
    if (d->run_count[side] > 1)
        fprintf(out, " and %u more %s", d->run_count[side] - 1,
                kc_noun(d->run_count[side] - 1, "run", "runs"));
}

/* Without a percentage, "new" or "gone" says why. */
static void put_percentage(FILE *out, double pct, double after)
{
    fputs(isfinite(pct)    ? kc_relative_change(pct).s
          : isnan(after) ? "gone"
          : after != 0   ? "new"
                         : "",
          out);
}

/* ---- the first lines -------------------------------------------------------------------------- */

/* The rank or link that makes one of the runs longer, if there is one. */
static void put_origin_line(const kc_diff_output *d, FILE *out)
{
    enum { MAX_SENTENCE = 300 };
    if (!kc_diff_has_origin(d->facts))
        return;
    fputs("**Origin:** ", out);
    put_escaped_text(out, kc_fact_text(d->facts, kineto_analysis_find_table(d->facts, "diff_ranks"), 0, "sentence"), MAX_SENTENCE);
    fputs("  \n", out);
}

/* "A step takes 1.1 ms, before 1.0 ms: +10.0 % (95 % interval +9.1 … +10.9 %)" */
static void put_step_line(const kc_diff_output *d, FILE *out)
{
    uint32_t t = kineto_analysis_find_table(d->facts, "diff_steps");
    double pct = kc_fact_number(d->facts, t, 0, "delta_pct"),
           after = kc_fact_number(d->facts, t, 0, "after_us");
    bool is_run = strcmp(kc_diff_unit(d->facts), "run") == 0;
    fprintf(out, "**%s: %s → %s", is_run ? "Run" : "Step",
            kc_us(kc_fact_number(d->facts, t, 0, "before_us"), false).s, kc_us(after, false).s);
    if (kc_fact_number(d->facts, t, 0, "delta_us") == 0) {
        fputs("**, no difference", out);
    } else {
        fputs(", ", out);
        put_percentage(out, pct, after);
        fprintf(out, "** (%s)", kc_interval(d->facts, t, 0).s);
    }
    fputs("; ", out);
    put_side_name(d, 0, out);
    fputs(" → ", out);
    put_side_name(d, 1, out);
    fputs("  \n", out);
}

/* Says that the largest change is no origin, if one is known that explains it. */
static void put_change_head(const kc_diff_output *d, FILE *out)
{
    double step_us = kc_fact_number(d->facts, kineto_analysis_find_table(d->facts, "diff_steps"), 0, "delta_us");
    fputs(kc_diff_is_step_consequence(d->facts, step_us) ? "Largest change, as a consequence: " : "Largest change: ", out);
}

/* The typical call with the largest effect on the step. False: none differs. */
static bool put_typical_line(const kc_diff_output *d, FILE *out)
{
    uint32_t t = kineto_analysis_find_table(d->facts, "diff_calls");
    for (uint64_t row = 0; row < kc_fact_rows(d->facts, t); row++) {
        kineto_string kind = kc_fact_text(d->facts, t, row, "kind");
        if (kb_string_equal(kind, kb_string("step")))
            continue;
        put_change_head(d, out);
        put_escaped_text(out, kind, 30);
        fputc(' ', out);
        put_escaped_text(out, kc_fact_text(d->facts, t, row, "name"), 60);
        fputs(": ", out);
        kc_put_typical_call(d->facts, t, row, out);
        fputs("  \n", out);
        return true;
    }
    return false;
}

/* The change with the largest effect on the step. */
static void put_change_line(const kc_diff_output *d, FILE *out)
{
    if (put_typical_line(d, out))
        return;
    uint32_t t = kineto_analysis_find_table(d->facts, "diff_summary");
    uint64_t rows = kc_fact_rows(d->facts, t);
    if (!rows) {
        fputs("No part of it differs by more than noise.  \n", out);
        return;
    }
    double after = kc_fact_number(d->facts, t, 0, "after_us"), worth = kc_fact_number(d->facts, t, 0, "worth_pct");
    put_change_head(d, out);
    put_escaped_text(out, kc_fact_text(d->facts, t, 0, "kind"), 30);
    fputc(' ', out);
    put_escaped_text(out, kc_fact_text(d->facts, t, 0, "name"), 60);
    fprintf(out, ", %s → %s (%s", kc_us(kc_fact_number(d->facts, t, 0, "before_us"), false).s,
            kc_us(after, false).s, kc_us(kc_fact_number(d->facts, t, 0, "delta_us"), true).s);
    if (isfinite(worth))
        fprintf(out, ", %.1f %% of a %s", fabs(worth), kc_diff_unit(d->facts));
    fprintf(out, ")  \n");
}

/* How many of the gates failed, or were skipped; else the number of findings that are new. */
static void put_gate_line(const kc_diff_output *d, FILE *out)
{
    uint32_t t = kineto_analysis_find_table(d->facts, "diff_findings");
    const char *gates = kc_noun(d->gate_count, "gate", "gates");
    size_t counts[4] = {0};
    uint64_t added = 0;
    for (size_t i = 0; i < d->gate_count; i++)
        counts[d->gates[i].verdict.outcome % 4]++;
    for (uint64_t row = 0; row < kc_fact_rows(d->facts, t); row++)
        added += kb_string_equal(kc_fact_text(d->facts, t, row, "change"), kb_string("added")) &&
                 !kc_is_circumstance(d->facts, t, row) && !kc_is_finding_in_noise(d->facts, t, row);
    if (!d->gate_count)
        fputs("No gates", out);
    else if (counts[KINETO_DIFF_FAILED])
        fprintf(out, "❌ %zu of %zu %s failed", counts[KINETO_DIFF_FAILED], d->gate_count, gates);
    else if (counts[KINETO_DIFF_INCONCLUSIVE])
        fprintf(out, "⚠️ %zu of %zu %s inconclusive", counts[KINETO_DIFF_INCONCLUSIVE], d->gate_count, gates);
    else if (counts[KINETO_DIFF_SKIPPED])
        fprintf(out, "⚠️ %zu of %zu %s skipped", counts[KINETO_DIFF_SKIPPED], d->gate_count, gates);
    else
        fprintf(out, "✅ all gates passed: %zu", d->gate_count);
    if (t != UINT32_MAX)
        fprintf(out, "; new findings: %llu", (unsigned long long)added);
    fputs("\n", out);
}

/* ---- the folded section ---------------------------------------------------------------------- */

/** Writes row `row` of a table; nothing: it is left out without being missed. */
typedef void put_row(const kc_diff_output *d, uint32_t table, uint64_t row, FILE *out);

/* The row, if there is space for it with `head` in front. */
static bool put_row_that_fits(comment *c, const kc_diff_output *d, const char *head, put_row *put, uint32_t t,
                              uint64_t row)
{
    char *text = NULL;
    size_t size = 0;
    FILE *piece = open_memstream(&text, &size);
    if (!piece)
        return false;
    put(d, t, row, piece);
    (void)fclose(piece);
    bool is_row = size > 0, fits = is_row && size + strlen(head) <= c->left_bytes;
    if (fits) {
        fputs(head, c->out);
        (void)fwrite(text, 1, size, c->out);
        c->left_bytes -= size + strlen(head);
    }
    c->dropped += is_row && !fits;
    free(text);
    return fits;
}

/* Rows of a table under its head, as many as fit. */
static void put_rows(comment *c, const kc_diff_output *d, const char *head, put_row *put, uint32_t t,
                     uint64_t rows)
{
    for (uint64_t row = 0; row < rows; row++)
        if (put_row_that_fits(c, d, head, put, t, row))
            head = "";
}

static void put_gate_row(const kc_diff_output *d, uint32_t table, uint64_t row, FILE *out)
{
    static const char *const signs[] = {"✅", "❌", "⚠️ skipped", "⚠️ inconclusive"};
    const kc_gate *g = &d->gates[row];
    (void)table;
    fprintf(out, "| %s ", signs[g->verdict.outcome % 4]);
    put_escaped_text(out, kb_string(g->text), 60);
    fputs(" | ", out);
    put_escaped_text(out, kb_string(g->verdict.sentence), 240);
    fputs(" |\n", out);
}

/* A change of the summary: all of them exceed noise. */
static void put_change_row(const kc_diff_output *d, uint32_t t, uint64_t row, FILE *out)
{
    double after = kc_fact_number(d->facts, t, row, "after_us");
    fputs("| ", out);
    put_escaped_text(out, kc_fact_text(d->facts, t, row, "kind"), 30);
    fputs(" | ", out);
    put_escaped_text(out, kc_fact_text(d->facts, t, row, "name"), 60);
    fprintf(out, " | %s | %s | %s | ", kc_us(kc_fact_number(d->facts, t, row, "before_us"), false).s,
            kc_us(after, false).s, kc_us(kc_fact_number(d->facts, t, row, "delta_us"), true).s);
    put_percentage(out, kc_fact_number(d->facts, t, row, "delta_pct"), after);
    fputs(" |\n", out);
}

/* A finding of both sides has two sentences. */
static void put_finding_row(const kc_diff_output *d, uint32_t t, uint64_t row, FILE *out)
{
    kineto_string before = kc_fact_text(d->facts, t, row, "sentence_before");
    if (kc_is_finding_in_noise(d->facts, t, row))
        return;
    fputs("| ", out);
    put_escaped_text(out, kc_is_circumstance(d->facts, t, row) ? kb_string("circumstance")
                                                               : kc_fact_text(d->facts, t, row, "change"), 20);
    fputs(" | ", out);
    put_escaped_text(out, kc_fact_text(d->facts, t, row, "id"), 60);
    fputs(" | ", out);
    if (before.size) {
        fputs("before: ", out);
        put_escaped_text(out, before, 200);
        fputs("; after: ", out);
    }
    put_escaped_text(out, kc_fact_text(d->facts, t, row, "sentence"), 200);
    fputs(" |\n", out);
}

static void put_rank_row(const kc_diff_output *d, uint32_t t, uint64_t row, FILE *out)
{
    enum { MAX_SENTENCE = 300 };
    fputs("| ", out);
    put_escaped_text(out, kc_fact_text(d->facts, t, row, "sentence"), MAX_SENTENCE);
    fprintf(out, " | %s | %s |\n", kc_us(kc_fact_number(d->facts, t, row, "before_us"), false).s,
            kc_us(kc_fact_number(d->facts, t, row, "after_us"), false).s);
}

static void put_condition_row(const kc_diff_output *d, uint32_t t, uint64_t row, FILE *out)
{
    static const char *const columns[] = {"what", "before", "after"};
    for (size_t i = 0; i < KB_COUNT(columns); i++) {
        fputs("| ", out);
        put_escaped_text(out, kc_fact_text(d->facts, t, row, columns[i]), 60);
        fputc(' ', out);
    }
    fputs("|\n", out);
}

/* Gates first: they decide. */
static void put_details(comment *c, const kc_diff_output *d)
{
    const struct {
        const char *table, *head;
        put_row *put;
    } tables[] = {
        {"diff_ranks", "\n| ranks that differ | before | after |\n|---|---|---|\n", put_rank_row},
        {"diff_conditions", "\n| different condition | before | after |\n|---|---|---|\n", put_condition_row},
        {"diff_summary",
         "\n| change | name | before | after | difference | |\n|---|---|--:|--:|--:|--:|\n",
         put_change_row},
        {"diff_findings", "\n| finding | rule | |\n|---|---|---|\n", put_finding_row},
    };
    put_rows(c, d, "\n| gate | verdict |\n|---|---|\n", put_gate_row, 0, d->gate_count);
    for (size_t i = 0; i < KB_COUNT(tables); i++) {
        uint32_t t = kineto_analysis_find_table(d->facts, tables[i].table);
        put_rows(c, d, tables[i].head, tables[i].put, t, kc_fact_rows(d->facts, t));
    }
}

/* The first lines have limited texts: what is left of MAX_BYTES is for the details. */
static void put_comment(const kc_diff_output *d, FILE *out)
{
    comment c = {.out = out};
    put_origin_line(d, out);
    put_step_line(d, out);
    put_change_line(d, out);
    put_gate_line(d, out);
    fputs("\n<details><summary>Gates, changes and findings</summary>\n", out);
    (void)fflush(out);
    long used = ftell(out);
    c.left_bytes = used < 0 || (size_t)used + TAIL_BYTES > MAX_BYTES ? 0 : MAX_BYTES - TAIL_BYTES - (size_t)used;
    put_details(&c, d);
    if (c.dropped)
        fprintf(out, "\n… and %llu more %s: `ckineto diff` of the traces shows all\n",
                (unsigned long long)c.dropped, kc_noun(c.dropped, "row", "rows"));
    fputs("\n</details>\n", out);
}

kineto_status kc_diff_save_markdown(const kc_diff_output *d, const char *path, kineto_error *err)
{
    return kc_save_text(d, put_comment, path, err);
}
