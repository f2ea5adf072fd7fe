/* Benchmark of comparing ranks: a synthetic job whose rows are computed when they are read.
 *
 *   bench_ranks [--ranks N] [--steps N] [--rows N] [--mem MB] [--slow RANK] [--facts DIR]
 *
 * By default 4,096 ranks with 60 steps of 250 collectives: 61 million rows. Prints the CPU time of the process, the time of
 * reading alone (once; the comparison reads twice), the peak of its memory, and what it found. With --facts it writes the
 * job as facts files to a directory that is there, to be compared by `ckineto reduce`. */
#include "bench.h"
#include "ranks/rank_rows.h"

#include "analyze/ranks/rank_set.h"
#include "analyze/saved/facts_file.h"

#include <string.h>
#include <sys/resource.h>

static double read_all(const ka_rank_source *sources, uint32_t count)
{
    static ka_comm rows[4096];
    double begin = bench_process_ns();
    for (uint32_t r = 0; r < count; r++)
        for (uint32_t at = 0, n; at < sources[r].row_count; at += n) {
            n = KB_MIN((uint32_t)KB_COUNT(rows), sources[r].row_count - at);
            (void)sources[r].read(sources[r].context, 0, at, n, rows, NULL);
        }
    return bench_process_ns() - begin;
}

/* The facts file of a rank. */
static kineto_status save_facts(rank_generator *g, const char *folder, kineto_error *err)
{
    const kineto_analysis_options usual = {.size = sizeof usual};
    char path[4096], name[64];
    (void)snprintf(name, sizeof name, "/run/rank%u.json", g->rank);
    (void)snprintf(path, sizeof path, "%s/rank%u.ckfacts", folder, g->rank);
    ka_trace_facts facts = {.source = {.version = kb_string(KINETO_VERSION),
                                       .path = kb_string(name),
                                       .options = kb_string("default"),
                                       .rank = g->rank,
                                       .rank_count = 1,
                                       .world_size = g->job.ranks}};
    kineto_status status = ka_facts_create_for(&usual, KA_TABLE_BIT(KA_TABLE_rank_marks), &facts.analysis, err);
    ka_rank_facts *rows = status ? NULL : rank_generator_facts(g);
    if (!status && (!rows || !ka_rank_set_put(&facts.analysis->ranks, rows)))
        status = KINETO_E_MEMORY;
    if (!status)
        status = ka_facts_file_save(path, &facts, NULL, err);
    if (rows)
        kb_vec_free(&rows->rows); /* the rest is the generator's */
    kineto_analysis_destroy(facts.analysis);
    return status;
}

static int save_all_facts(rank_generator *of, uint32_t count, const char *folder)
{
    kineto_error err = {.message = ""};
    for (uint32_t r = 0; r < count; r++)
        if (save_facts(&of[r], folder, &err)) {
            fprintf(stderr, "bench_ranks: %s\n", err.message);
            return 1;
        }
    return 0;
}

static void show_causes(const ka_rank_view *v, const rank_job *job)
{
    for (size_t i = 0; i < v->causes.list.count; i++) {
        const ka_rank_cause *c = &v->causes.list.data[i];
        printf("{\"cause\": %d, \"rank\": %d, \"group\": %d, \"saved_ms\": %.3f, \"gain_ms\": %.3f}\n", (int)c->kind, (int)c->rank,
               (int)c->group, (double)c->saved_ns / 1e6, (double)rank_job_gain_ns(job) / 1e6);
    }
}

int main(int argc, char **argv)
{
    rank_job job = {.ranks = 4096, .steps = 60, .rows_of_step = 250, .work_ns = 100000, .transfer_ns = 20000, .slow_rank = 1777,
                    .slow_share = 0.1};
    size_t bytes = 0;
    const char *folder = NULL;
    for (int i = 1; i + 1 < argc; i += 2) {
        uint32_t value = (uint32_t)strtoul(argv[i + 1], NULL, 10);
        if (!strcmp(argv[i], "--ranks"))
            job.ranks = KB_MAX(value / 8 * 8, 16u);
        else if (!strcmp(argv[i], "--steps"))
            job.steps = value;
        else if (!strcmp(argv[i], "--rows"))
            job.rows_of_step = value;
        else if (!strcmp(argv[i], "--mem"))
            bytes = (size_t)value << 20;
        else if (!strcmp(argv[i], "--facts"))
            folder = argv[i + 1];
        else if (!strcmp(argv[i], "--slow"))
            job.slow_rank = value < job.ranks ? value : KA_NONE;
    }
    rank_generator *of = calloc(job.ranks, sizeof *of);
    ka_rank_source *sources = calloc(job.ranks, sizeof *sources);
    ka_rank_view v;
    kineto_error err = {0};
    rank_generators_start(&job, of, sources);
    if (folder)
        return save_all_facts(of, job.ranks, folder);
    double reading = read_all(sources, job.ranks), begin = bench_process_ns();
    if (ka_compare_ranks(sources, job.ranks, bytes, &v, &err)) {
        fprintf(stderr, "bench_ranks: %s\n", err.message);
        return 1;
    }
    double cpu = bench_process_ns() - begin, rows = (double)job.ranks * (job.steps * job.rows_of_step + 1);
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    printf("{\"ranks\": %u, \"rows\": %.0f, \"windows\": %u, \"cpu_s\": %.2f, \"ns_per_row\": %.0f, \"read_s\": %.2f, "
           "\"peak_mb\": %.0f, \"causes\": %zu, \"damage\": %zu, \"refused\": \"%s%s\", \"apart_ms\": %.3f, \"length_ms\": %.3f}\n",
           job.ranks, rows, v.window_count, cpu / 1e9, cpu / rows, reading / 1e9, (double)use.ru_maxrss / 1024,
           v.causes.list.count, v.damage.count, v.model.refused, v.causes.refused, (double)v.causes.apart_ns / 1e6,
           (double)v.causes.length_ns / 1e6);
    show_causes(&v, &job);
    ka_rank_view_free(&v);
    rank_generators_free(of, job.ranks);
    free(of);
    free(sources);
    return 0;
}
