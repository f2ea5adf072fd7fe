/* The files of a run: which table goes where, and the tables of all ranks, for which each rank adds
 * what it has before it is released. */
#include "export/parquet_run.h"

#include "analyze/dataset/each_rank.h"
#include "analyze/facts/analyses.h"

#include <unistd.h>

struct ke_parquet_run {
    const char *directory, *run;
    ka_table_set tables;
    bool activities;
    kineto_analysis *all; /* what tables of all ranks need; NULL: no rank was added */
    kb_map ranks;         /* that are written */
    ke_parquet_account account;
    int32_t rank; /* of the trace that is being added */
};

/* Is the table computed when all ranks are there? */
static bool is_reduction(ka_table_id id)
{
    static const bool reductions[] = {
#define ANALYSIS(name)          false
#define REDUCTION(name, source) true
#define DIFF                    false
#define TABLE(id, made_by, ...) [KA_TABLE_##id] = made_by,
#include "analyze/tables/tables.def"
    };
    return reductions[id];
#undef ANALYSIS
#undef REDUCTION
#undef DIFF
}

static bool is_of_all_ranks(ka_table_id id) { return is_reduction(id) || ka_table_flags(id) & KA_SUMMED; }

ka_table_set ke_parquet_tables(void)
{
    ka_table_set of_files = KA_TABLE_BIT(KA_TABLE_execution_trace) | KA_TABLE_BIT(KA_TABLE_memory_timeline);
    ka_table_set set = 0;
    for (uint32_t i = 0; i < KA_TABLE_COUNT; i++)
        if (!(ka_table_flags((ka_table_id)i) & (KA_HIDDEN | KA_DIFF)))
            set |= KA_TABLE_BIT(i);
    return set & ~of_files;
}

bool ke_is_partition_value(const char *value)
{
    for (const char *at = value; *at; at++)
        if ((unsigned char)*at <= ' ' || strchr("/=%*?[]{}'\"\\:#\x7f", *at))
            return false;
    return *value && strcmp(value, ".") != 0 && strcmp(value, "..") != 0 && strlen(value) < 200;
}

kineto_status ke_parquet_run_open(const char *directory, const char *run, ka_table_set tables, bool activities,
                                  ke_parquet_run **out, kineto_error *err)
{
    ke_parquet_run *r = calloc(1, sizeof *r);
    if (!r)
        return kb_fail_memory(err, directory);
    *r = (ke_parquet_run){.directory = directory, .run = run, .tables = tables, .activities = activities};
    *out = r;
    return KINETO_OK;
}

/* The path of a table's file, in a directory that is there; rank < 0: of all ranks. */
static kineto_status make_part_path(const ke_parquet_run *r, const char *table, int32_t rank, char *path, size_t size,
                                    kineto_error *err)
{
    char part[32] = "";
    if (rank >= 0)
        snprintf(part, sizeof part, "/rank=%d", rank);
    int length = snprintf(path, size, "%s/%s/run=%s%s", r->directory, table, r->run, part);
    if (length < 0 || (size_t)length + sizeof "/part.parquet" > size)
        return kb_fail(err, KINETO_E_ARGUMENT, "%s: path too long", r->directory);
    kineto_status status = kb_os_make_directories(path, err);
    if (!status)
        memcpy(path + length, "/part.parquet", sizeof "/part.parquet");
    return status;
}

/* A table without rows has a file only of the first rank, so that it can be queried; of other ranks the file
 * of an earlier export goes. */
static kineto_status save_rank_table(ke_parquet_run *r, const ka_table *t, int32_t rank, kineto_error *err)
{
    char path[4096];
    if (!ka_table_rows(t) && r->account.ranks) {
        snprintf(path, sizeof path, "%s/%s/run=%s/rank=%d/part.parquet", r->directory, ka_table_name(t->id), r->run, rank);
        (void)unlink(path);
        return KINETO_OK;
    }
    kineto_status status = make_part_path(r, ka_table_name(t->id), rank, path, sizeof path, err);
    return status ? status : ke_parquet_save_table(t, path, true, &r->account, err);
}

/* Rows of tables that are written and that no other table needs. */
static void drop_rows(ka_table *t)
{
    kb_vec_free(&t->cells);
    kb_intern_free(&t->texts);
    t->texts = (kb_intern){0};
}

static kineto_status save_rank_tables(ke_parquet_run *r, kineto_analysis *a, int32_t rank, kineto_error *err)
{
    kineto_status status = KINETO_OK;
    for (uint32_t i = 0; i < KA_TABLE_COUNT && !status; i++) {
        if (!(r->tables >> i & 1) || is_of_all_ranks((ka_table_id)i))
            continue;
        status = save_rank_table(r, &a->tables[i], rank, err);
        drop_rows(&a->tables[i]);
    }
    return status;
}

/* Adds what the tables of all ranks need; takes `a` over. */
static kineto_status keep_for_all_ranks(ke_parquet_run *r, kineto_analysis *a, kineto_error *err)
{
    if (!r->all) {
        r->all = a;
        ka_facts_defer(a);
        return KINETO_OK;
    }
    kineto_status status = kineto_analysis_add(r->all, a, err);
    kineto_analysis_destroy(a);
    return status;
}

static kineto_status add_tables(ke_parquet_run *r, const kineto_trace *trace, int32_t rank, kineto_error *err)
{
    kineto_analysis_options o = {.size = sizeof o, .series = true, .rank = &rank};
    kineto_analysis *a = NULL;
    kineto_status status = ka_analyze_tables(trace, &o, r->tables, &a, err);
    if (status)
        return status;
    status = save_rank_tables(r, a, rank, err);
    if (!status)
        return keep_for_all_ranks(r, a, err);
    kineto_analysis_destroy(a);
    return status;
}

/* A ka_rank_visitor. */
static kineto_status add_rank_part(void *context, const kineto_trace *part, int32_t rank, const kineto_row *rows,
                                   kineto_error *err)
{
    ke_parquet_run *r = context;
    char path[4096];
    bool is_new = false;
    kineto_status status = KINETO_OK;
    (void)rows;
    if (!kb_map_insert(&r->ranks, (uint64_t)(uint32_t)rank, 0, &is_new))
        return kb_fail_memory(err, "list of ranks");
    if (!is_new)
        return kb_fail(err, KINETO_E_ARGUMENT, "rank %d was exported from another file already; export it with another --run", rank);
    if (r->activities)
        status = make_part_path(r, "activities", rank, path, sizeof path, err);
    if (r->activities && !status)
        status = ke_parquet_save_activities(part, path, &r->account, err);
    if (!status && r->tables)
        status = add_tables(r, part, rank, err);
    r->account.ranks += !status;
    return status;
}

kineto_status ke_parquet_run_add(ke_parquet_run *r, const kineto_trace *trace, int32_t rank, kineto_error *err)
{
    uint64_t without;
    return ka_has_ranks(trace) ? ka_visit_ranks(trace, add_rank_part, r, &without, err)
                               : add_rank_part(r, trace, rank, NULL, err);
}

kineto_status ke_parquet_run_finish(ke_parquet_run *r, kineto_error *err)
{
    char path[4096];
    kineto_status status = r->all ? ka_facts_complete(r->all, err) : KINETO_OK;
    for (uint32_t i = 0; r->all && i < KA_TABLE_COUNT && !status; i++) {
        const ka_table *t = &r->all->tables[i];
        if (!(r->tables >> i & 1) || !is_of_all_ranks(t->id))
            continue;
        status = make_part_path(r, ka_table_name(t->id), -1, path, sizeof path, err);
        if (!status)
            status = ke_parquet_save_table(t, path, false, &r->account, err);
    }
    return status;
}

const ke_parquet_account *ke_parquet_run_account(const ke_parquet_run *r) { return &r->account; }

void ke_parquet_run_free(ke_parquet_run *r)
{
    if (!r)
        return;
    kineto_analysis_destroy(r->all);
    kb_map_free(&r->ranks);
    free(r);
}
