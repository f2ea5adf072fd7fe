/* The table page_faults: functions that touched memory which the kernel had to map first, or to read (ckineto record
 * --page-faults). Of each rank the functions of all threads are added up. */
#include "analyze/facts/analyses.h"

typedef struct fault_function {
    uint32_t name, module; /* in texts */
    int64_t major, minor;
    kineto_row most;      /* the row that stands for most faults, the first of them */
    int64_t most_faults;
} fault_function;

typedef struct fault_sums {
    const kineto_trace *trace;
    kb_intern texts;
    KB_VEC(fault_function) functions;
    kb_map of_name; /* name << 32 | module → index */
    int64_t faults;
    bool no_memory;
} fault_sums;

static uint32_t intern_arg(fault_sums *f, kineto_row row, const char *key)
{
    kineto_arg arg;
    kineto_string text = {"", 0};
    if (kineto_args_find(f->trace, row, key, &arg) && arg.type == KINETO_ARG_STRING)
        text = arg.text;
    uint32_t id = kb_intern_id(&f->texts, text);
    f->no_memory |= id == KB_INTERN_NONE;
    return id;
}

static void add_fault(fault_sums *f, kineto_row row, bool is_major)
{
    kineto_arg arg;
    int64_t faults = 0;
    if (!kineto_args_find(f->trace, row, "faults", &arg) || !kt_arg_whole(&arg, &faults) || faults <= 0)
        return;
    fault_function one = {intern_arg(f, row, "in"), intern_arg(f, row, "module"), 0, 0, row, faults};
    bool is_new = false;
    uint64_t *at = kb_map_insert(&f->of_name, (uint64_t)one.name << 32 | one.module, f->functions.count, &is_new);
    f->no_memory |= !at || (is_new && !kb_vec_push(&f->functions, one));
    if (f->no_memory)
        return;
    fault_function *sum = &f->functions.data[*at];
    int64_t *count = is_major ? &sum->major : &sum->minor;
    *count = ka_add_ns(*count, faults);
    f->faults = ka_add_ns(f->faults, faults);
    if (faults > sum->most_faults) {
        sum->most_faults = faults;
        sum->most = row;
    }
}

/* Scans all blocks; those without such a row are skipped by their set of kinds. */
static void collect_faults(fault_sums *f)
{
    kineto_row row = 0;
    for (uint32_t b = 0; b < kt_block_count(f->trace) && !f->no_memory; b++) {
        const kt_block *block = kt_block_at(f->trace, b);
        bool may_have = (block->kinds & KINETO_KIND_BIT(KINETO_KIND_CPU_INSTANT_EVENT)) != 0;
        for (uint32_t i = 0; i < block->count && may_have; i++) {
            if (block->kind[i] != KINETO_KIND_CPU_INSTANT_EVENT)
                continue;
            kineto_string name = kineto_trace_string(f->trace, block->name[i]);
            bool is_major = kb_string_equal(name, kb_string("major page fault"));
            if (is_major || kb_string_equal(name, kb_string("page fault")))
                add_fault(f, row + i, is_major);
        }
        row += block->count;
    }
}

static void put_faults(const ka_dataset *s, const fault_sums *f, ka_table *t)
{
    for (size_t i = 0; i < f->functions.count; i++) {
        const fault_function *one = &f->functions.data[i];
        int64_t both = ka_add_ns(one->major, one->minor);
        ka_put_int(t, s->rank);
        ka_put_text(t, kb_intern_get(&f->texts, one->name));
        ka_put_text(t, kb_intern_get(&f->texts, one->module));
        ka_put_int(t, both);
        ka_put_int(t, one->major);
        ka_put_int(t, one->minor);
        ka_put_number(t, ka_percent((double)both, (double)f->faults));
        ka_put_int(t, (int64_t)one->most);
    }
    KA_SORT(t, KA_DOWN(page_faults, faults), KA_UP(page_faults, function), KA_UP(page_faults, module));
}

kineto_status ka_analyze_page_faults(const ka_dataset *s, kineto_analysis *a, kineto_error *err)
{
    ka_table *t = ka_table_of(a, KA_TABLE_page_faults);
    fault_sums f = {.trace = s->trace};
    if (!t)
        return KINETO_OK;
    collect_faults(&f);
    if (!f.no_memory)
        put_faults(s, &f, t);
    bool no_memory = f.no_memory;
    if (!no_memory && !f.functions.count)
        ka_note(t, "page faults were not recorded: record --page-faults");
    kb_intern_free(&f.texts);
    kb_vec_free(&f.functions);
    kb_map_free(&f.of_name);
    return no_memory ? kb_fail_memory(err, NULL) : KINETO_OK;
}
