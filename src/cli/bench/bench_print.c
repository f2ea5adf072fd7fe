/* The times of a benchmark, one line for each command, as users of hyperfine know them: mean, standard deviation,
 * least and most of all runs; and which command is faster. */
#include "cli/bench/bench.h"
#include "cli/launch/cost_advice.h"
#include "cli/style.h"

#include <math.h>

/* Of the runs of a command. */
typedef struct times {
    double mean_us, deviation_us, min_us, max_us;
    uint32_t count;
    bool of_steps;
} times;

/* Of the rows of one side in the table of runs. */
static times measure_side(const kineto_analysis *facts, const char *side)
{
    uint32_t t = kineto_analysis_find_table(facts, "diff_runs");
    double sum = 0, squares = 0;
    times s = {.min_us = (double)INFINITY};
    for (uint32_t pass = 0; pass < 2; pass++)
        for (uint64_t row = 0; row < kc_fact_rows(facts, t); row++) {
            double us = kc_fact_number(facts, t, row, "step_us");
            if (!kb_string_equal(kc_fact_text(facts, t, row, "side"), kb_string(side)))
                continue;
            if (pass) {
                squares += (us - s.mean_us) * (us - s.mean_us);
                continue;
            }
            sum += us;
            s.mean_us = sum / ++s.count;
            s.min_us = fmin(s.min_us, us);
            s.max_us = fmax(s.max_us, us);
            s.of_steps |= kc_fact_number(facts, t, row, "steps") > 0;
        }
    s.deviation_us = s.count > 1 ? sqrt(squares / (s.count - 1)) : 0;
    return s;
}

/* The words of a command. */
static void put_command(char *const *words, FILE *out)
{
    bool is_shell = words[0] && words[1] && words[2] && !words[3] && strcmp(words[0], "sh") == 0 &&
                    strcmp(words[1], "-c") == 0;
    for (char *const *word = is_shell ? words + 2 : words; *word; word++) {
        fputs(word == words || is_shell ? "" : " ", out);
        kc_put_name(out, kb_string(*word), 0);
    }
}

static void print_times(const times *s, const char *name, char *const *command, FILE *out)
{
    kc_put_styled(out, KC_BOLD, "%s%s", name, s->of_steps ? "mean step" : "mean");
    fprintf(out, " %s ± %s, min %s, max %s, %u %s: ",
            kc_us(s->mean_us, false).s, kc_us(s->deviation_us, false).s, kc_us(s->min_us, false).s,
            kc_us(s->max_us, false).s, s->count, kc_noun(s->count, "run", "runs"));
    put_command(command, out);
    fputc('\n', out);
}

/* What recording took: part of what was measured, the same for both. */
static void print_cost(const kc_bench_runs *b, const kc_diff_output *d, FILE *out)
{
    double cost_ns = 0, length_ns = 0;
    for (uint32_t side = 0; side < b->command_count; side++)
        for (uint32_t i = 0; i < d->run_count[side]; i++) {
            int64_t start_ns = 0, end_ns = 0;
            kineto_trace_window(d->traces[side][i], &start_ns, &end_ns);
            cost_ns += kc_recording_cpu_ns(d->traces[side][i]);
            length_ns += (double)(end_ns - start_ns);
        }
    if (length_ns > 0)
        fprintf(out, "overhead of recording: %s of CPU time in each run (%.1f %% of its time)\n",
                kc_us(cost_ns / 1000 / (b->command_count * b->repeat), false).s, 100 * cost_ns / length_ns);
}

/* "B is 1.12 ± 0.03 times slower than A", if the difference is not noise. The error is that of a quotient. */
static void print_verdict(const kc_diff_output *d, const times *a, const times *b, FILE *out)
{
    uint32_t t = kineto_analysis_find_table(d->facts, "diff_steps");
    kineto_string sure = kc_fact_text(d->facts, t, 0, "sure");
    double ratio = fmax(a->mean_us, b->mean_us) / fmin(a->mean_us, b->mean_us);
    double error = ratio * hypot(a->deviation_us / a->mean_us, b->deviation_us / b->mean_us);
    if (!isfinite(ratio) || !isfinite(error))
        return;
    bool is_noise = kb_string_equal(sure, kb_string("no")), is_unknown = kb_string_equal(sure, kb_string("unknown"));
    bool is_slower = b->mean_us > a->mean_us;
    kc_put_styled(out, is_noise || is_unknown ? KC_PLAIN : is_slower ? KC_RED : KC_GREEN, "B is %.2f ± %.2f times %s than A",
                  ratio, error, is_slower ? "slower" : "faster");
    fprintf(out, "%s\n",
            is_noise     ? ": no more than noise"
            : is_unknown ? ": too few runs to distinguish it from noise"
                         : "");
}

void kc_bench_print(const kc_bench_runs *b, const kc_diff_output *d, FILE *out)
{
    times sides[2] = {measure_side(d->facts, "before"), measure_side(d->facts, "after")};
    bool are_two = b->command_count > 1;
    for (uint32_t i = 0; i < b->command_count; i++)
        print_times(&sides[i], are_two ? i ? "B: " : "A: " : "", b->commands[i], out);
    print_cost(b, d, out);
    if (are_two)
        print_verdict(d, &sides[0], &sides[1], out);
    kc_put_styled(out, KC_DIM, "traces: %s", b->directory);
    fputc('\n', out);
}
