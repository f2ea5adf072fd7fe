/* A diff as a comment on a pull request: a short table, and the rest in folded sections. All texts
 * of the traces are escaped. */
#include "cli/diff/diff.h"

#include <math.h>

/* At most `max` characters. Escapes every character that Markdown, HTML or a forge (mentions,
 * references) could interpret. */
static void put_escaped_text(FILE *out, kineto_string text, size_t max)
{
    kineto_string rest = {text.data, text.size}, piece;
    size_t left = max;
    while (left && (piece = kb_utf8_next(&rest, NULL)).size)
        for (size_t i = 0; i < piece.size && left; i++) {
            unsigned char c = (unsigned char)piece.data[i];
            left -= (c & 0xc0) != 0x80; /* characters, not bytes */
            if (c < ' ' || c == 0x7f)
                fputc(' ', out);
            else if (strchr("&<>\"'`*_~[]()|\\#@$!{}", c) ||
                     (c == ':' && i + 1 < piece.size && piece.data[i + 1] == '/'))
                fprintf(out, "&#%u;", (unsigned)c);
            else
                fputc(c, out);
        }
    if (!left)
        fputs("…", out);
}

/* Without a percentage, "new" or "gone" says why. */
static void put_percentage(FILE *out, double pct, double after)
{
    if (isfinite(pct))
        fprintf(out, "%+.1f %%", pct);
    else
        fputs(isnan(after) ? "gone" : after != 0 ? "new" : "", out);
}

/* The interval, or why there is none; empty without a difference. */
static void put_interval_cell(const kc_diff_output *d, uint32_t t, uint64_t row, FILE *out)
{
    double low = kc_fact_number(d->facts, t, row, "ci_low_pct"),
           high = kc_fact_number(d->facts, t, row, "ci_high_pct");
    if (kc_fact_number(d->facts, t, row, "delta_us") == 0)
        fputs("no difference", out);
    else if (isfinite(low) &&
             !kb_string_equal(kc_fact_text(d->facts, t, row, "sure"), kb_string("ranks")))
        fprintf(out, "%+.1f … %+.1f %%", low, high);
    else if (isfinite(kc_fact_number(d->facts, t, row, "delta_us")))
        fputs(kc_interval(d->facts, t, row).s, out);
}

/* @param kind column whose text precedes the name; NULL: none. */
static void put_comparison_row(const kc_diff_output *d, uint32_t t, uint64_t row, const char *kind,
                               const char *name, FILE *out)
{
    fputs("| ", out);
    if (kind) {
        put_escaped_text(out, kc_fact_text(d->facts, t, row, kind), 40);
        fputs(": ", out);
    }
    put_escaped_text(out, kc_fact_text(d->facts, t, row, name), 100);
    fprintf(out, " | %s | %s | %s | ",
            kc_us(kc_fact_number(d->facts, t, row, "before_us"), false).s,
            kc_us(kc_fact_number(d->facts, t, row, "after_us"), false).s,
            kc_us(kc_fact_number(d->facts, t, row, "delta_us"), true).s);
    put_percentage(out, kc_fact_number(d->facts, t, row, "delta_pct"),
                   kc_fact_number(d->facts, t, row, "after_us"));
    fputs(" | ", out);
    put_interval_cell(d, t, row, out);
    fputs(" |\n", out);
}

/* The head of the columns of put_comparison_row. */
static void put_comparison_head(FILE *out)
{
    fputs("| of a step | before | after | difference | | 95 % interval |\n"
          "|---|--:|--:|--:|--:|--:|\n",
          out);
}

/* Nothing without gates. */
static void put_gate_table(const kc_diff_output *d, FILE *out)
{
    static const char *const signs[] = {"✅ passed", "❌ failed", "⚠️ skipped"};
    if (!d->gate_count)
        return;
    fputs("| gate | | |\n|---|---|---|\n", out);
    for (size_t i = 0; i < d->gate_count; i++) {
        fputs("| ", out);
        put_escaped_text(out, kb_string(d->gates[i].text), 100);
        fprintf(out, " | %s | ", signs[d->gates[i].verdict.outcome % 3]);
        put_escaped_text(out, kb_string(d->gates[i].verdict.sentence), 300);
        fputs(" |\n", out);
    }
    fputc('\n', out);
}

/* A table in a folded section, at most `max` rows. */
static void put_folded_table(const kc_diff_output *d, const char *table, const char *title,
                             const char *kind, const char *name, uint64_t max, FILE *out)
{
    uint32_t t = kineto_analysis_find_table(d->facts, table);
    uint64_t rows = KB_MIN(kc_fact_rows(d->facts, t), max);
    if (t == UINT32_MAX || !rows)
        return;
    fprintf(out, "\n<details><summary>%s</summary>\n\n", title);
    put_comparison_head(out);
    for (uint64_t row = 0; row < rows; row++)
        put_comparison_row(d, t, row, kind, name, out);
    fputs("\n</details>\n", out);
}

/* Findings that differ, at most 40. */
static void put_folded_findings(const kc_diff_output *d, FILE *out)
{
    uint32_t t = kineto_analysis_find_table(d->facts, "diff_findings");
    uint64_t rows = kc_fact_rows(d->facts, t);
    if (t == UINT32_MAX || !rows)
        return;
    fputs("\n<details><summary>Findings that differ</summary>\n\n| finding | | savings before | "
          "after "
          "| |\n|---|---|--:|--:|---|\n",
          out);
    for (uint64_t row = 0; row < KB_MIN(rows, (uint64_t)40); row++) {
        fputs("| ", out);
        put_escaped_text(out, kc_fact_text(d->facts, t, row, "id"), 60);
        fputs(" ", out);
        put_escaped_text(out, kc_fact_text(d->facts, t, row, "subject"), 60);
        fputs(" | ", out);
        put_escaped_text(out, kc_fact_text(d->facts, t, row, "change"), 20);
        fprintf(out, " | %s | %s | ", kc_us(kc_fact_number(d->facts, t, row, "before_us"), false).s,
                kc_us(kc_fact_number(d->facts, t, row, "after_us"), false).s);
        kineto_string before = kc_fact_text(d->facts, t, row, "sentence_before");
        if (before.size) {
            fputs("before: ", out);
            put_escaped_text(out, before, 300);
            fputs("; after: ", out);
        }
        put_escaped_text(out, kc_fact_text(d->facts, t, row, "sentence"), 300);
        fputs(" |\n", out);
    }
    fputs("\n</details>\n", out);
}

/* Gates and the eight largest changes are visible; the rest is folded, so that the comment
 * stays short. */
static void put_comment(const kc_diff_output *d, FILE *out)
{
    uint32_t steps = kineto_analysis_find_table(d->facts, "diff_steps"),
             summary = kineto_analysis_find_table(d->facts, "diff_summary");
    fputs("### ckineto diff: ", out);
    put_escaped_text(out, kb_string(d->paths[0]), 100);
    fputs(" → ", out);
    put_escaped_text(out, kb_string(d->paths[1]), 100);
    fputs("\n\n", out);
    put_gate_table(d, out);
    put_comparison_head(out);
    put_comparison_row(d, steps, 0, NULL, "what", out);
    for (uint64_t row = 0; row < KB_MIN(kc_fact_rows(d->facts, summary), (uint64_t)8); row++)
        put_comparison_row(d, summary, row, "kind", "name", out);
    put_folded_findings(d, out);
    put_folded_table(d, "diff_categories", "Parts of a step, and kinds of device work", "group",
                     "name", 60, out);
    put_folded_table(d, "diff_kernels", "Kernels, copies and memsets", "change", "name", 40, out);
    put_folded_table(d, "diff_operators", "Operators and calls", "change", "name", 40, out);
    put_folded_table(d, "diff_threads", "What threads did", "kind", "name", 40, out);
}

kineto_status kc_diff_save_markdown(const kc_diff_output *d, const char *path, kineto_error *err)
{
    return kc_save_text(d, put_comment, path, err);
}
