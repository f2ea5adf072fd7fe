/* `analyze --what-if`: predicted durations when kernels, copies, operators, classes or launches are
 * scaled by a factor. The model is kineto_critical_path_what_if (ckineto/analyze.h), which recomputes the
 * critical path with changed durations. */
#include "cli/what_if_option.h"

#include <math.h>

/* "kernel:PATTERN=FACTOR": the last '=' ends the pattern, which may contain others. `text` is
 * cut up, and `scale` points into it. False: malformed, or the factor is negative or not
 * finite. */
static bool parse_scale(char *text, kineto_what_if_scale *scale)
{
    static const struct {
        const char *word;
        uint32_t kind;
    } kinds[] = {{"kernel", KINETO_WHAT_IF_KERNEL},
                 {"copy", KINETO_WHAT_IF_COPY},
                 {"op", KINETO_WHAT_IF_OPERATOR},
                 {"class", KINETO_WHAT_IF_CLASS},
                 {"launch", KINETO_WHAT_IF_LAUNCH}};
    char *colon = strchr(text, ':'), *equals = strrchr(text, '='), *end;
    if (!colon || !equals || equals < colon || !equals[1])
        return false;
    *colon = *equals = 0;
    for (size_t i = 0; i < KB_COUNT(kinds); i++)
        if (strcmp(text, kinds[i].word) == 0) {
            *scale = (kineto_what_if_scale){kinds[i].kind, colon + 1, strtod(equals + 1, &end)};
            return !*end && isfinite(scale->factor) && scale->factor >= 0;
        }
    return false;
}

static double to_ms(int64_t ns) { return (double)ns / 1e6; }

/* 0 if there is nothing to compare with. */
static double compute_percent_change(int64_t after, int64_t before)
{
    return before ? 100 * ((double)after - (double)before) / (double)before : 0;
}

/* One prediction: the path, and the median of steps if there are any. */
static kineto_status print_what_if(const kineto_critical_path *path,
                                   const kineto_what_if_scale *scales, size_t count,
                                   const char *what, FILE *out, kineto_error *err)
{
    kineto_what_if_result r = {.size = sizeof r};
    kineto_status status = kineto_critical_path_what_if(path, scales, count, &r, err);
    if (status)
        return status;
    fprintf(out, "what if %s: %.6f ms -> %.6f ms (%+.1f %%)", what, to_ms(r.before_ns),
            to_ms(r.after_ns), compute_percent_change(r.after_ns, r.before_ns));
    if (r.step_count)
        fprintf(out, ",\n  a step %.6f ms -> %.6f ms (%+.1f %%, median of %u)",
                to_ms(r.step_before_ns), to_ms(r.step_after_ns),
                compute_percent_change(r.step_after_ns, r.step_before_ns), r.step_count);
    fprintf(out, "%s\n", r.scaled ? "" : "; nothing is scaled by that");
    return KINETO_OK;
}

/* Each scale alone, then all of them together. */
static kineto_status print_all_what_ifs(const kineto_critical_path *path, const kc_texts *texts,
                                        char *const *copies, FILE *out, kineto_error *err)
{
    kineto_what_if_scale scales[KB_COUNT(texts->data)];
    kineto_status status = KINETO_OK;
    for (size_t i = 0; i < texts->count && !status; i++) {
        if (!parse_scale(copies[i], &scales[i]))
            return kb_fail(err, KINETO_E_ARGUMENT,
                           "--what-if is kernel:, op:, class:, launch: or copy: with a pattern and "
                           "=FACTOR, as in 'kernel:gemm=0.5'; not '%.80s'",
                           texts->data[i]);
        status = print_what_if(path, &scales[i], 1, texts->data[i], out, err);
    }
    return status || texts->count < 2
               ? status
               : print_what_if(path, scales, texts->count, "all of that", out, err);
}

/* The path is computed once for all scales. The texts are copied, because parsing cuts them up. */
kineto_status kc_what_if(const kineto_trace *trace, const kineto_analysis_options *options,
                         const kc_texts *texts, FILE *out, kineto_error *err)
{
    kineto_critical_path *path;
    char *copies[KB_COUNT(texts->data)] = {0};
    kineto_status status = kineto_critical_path_create(trace, options, &path, err);
    for (size_t i = 0; i < texts->count && !status; i++)
        if (!(copies[i] = strdup(texts->data[i])))
            status = kb_fail_memory(err, NULL);
    if (!status)
        status = print_all_what_ifs(path, texts, copies, out, err);
    for (size_t i = 0; i < texts->count; i++)
        free(copies[i]);
    kineto_critical_path_destroy(path);
    return status;
}
