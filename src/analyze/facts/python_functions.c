/* The table python_functions: functions of Python by the time that they take themselves, and with what they call. Methods of objects count as
 * one function whatever the address of the object is. Of each rank the calls of all threads are added up. */
#include "analyze/facts/analyses.h"

#define MAX_NAME_BYTES 512u /* longer names are not merged */

typedef struct python_function {
    uint32_t name; /* in texts */
    int64_t calls, self_ns, total_ns;
} python_function;

typedef struct python_sums {
    const kineto_trace *trace;
    kb_intern texts;
    KB_VEC(python_function) functions; /* by name */
    kb_map of_row_name;                /* name in the trace → index */
    kb_map calls_on_track;             /* function and track → index of its end in ends_ns */
    KB_VEC(int64_t) ends_ns;           /* how far total_ns covers the track already */
    int64_t self_ns;
    bool no_memory;
} python_sums;

/* The function of a name that is met first. Ids of texts are dense. */
static uint32_t add_function(python_sums *p, uint32_t row_name)
{
    char buffer[MAX_NAME_BYTES];
    kineto_string name = kb_drop_address(kineto_trace_string(p->trace, row_name), buffer, sizeof buffer);
    uint32_t id = kb_intern_id(&p->texts, name);
    p->no_memory |= id == KB_INTERN_NONE;
    while (!p->no_memory && p->functions.count <= id) {
        python_function f = {.name = (uint32_t)p->functions.count};
        p->no_memory |= !kb_vec_push(&p->functions, f);
    }
    return id;
}

/* Time of a thread in the function and in what it called: calls come in the order of their start, and one inside another
 * adds only what lies outside. */
static void add_time_with_callees(python_sums *p, uint32_t function, const kt_block *block, uint32_t i)
{
    int64_t start_ns = block->start_ns[i], end_ns = block->end_ns[i];
    bool is_new = false;
    uint64_t *at = kb_map_insert(&p->calls_on_track, (uint64_t)function << 32 | block->track[i], p->ends_ns.count,
                                 &is_new);
    if (!at || (is_new && !kb_vec_push(&p->ends_ns, start_ns))) {
        p->no_memory = true;
        return;
    }
    int64_t *covered_ns = &p->ends_ns.data[*at], from_ns = KB_MAX(start_ns, *covered_ns);
    python_function *f = &p->functions.data[function];
    if (end_ns <= from_ns)
        return;
    f->total_ns = ka_add_ns(f->total_ns, kb_length_ns(from_ns, end_ns));
    *covered_ns = end_ns;
}

/* @param row  that of the block with the index i. */
static void add_call(python_sums *p, const kt_block *block, uint32_t i, kineto_row row)
{
    bool is_new = false;
    uint32_t row_name = block->name[i];
    uint64_t *at = kb_map_insert(&p->of_row_name, row_name, 0, &is_new);
    if (at && is_new)
        *at = add_function(p, row_name);
    p->no_memory |= !at;
    if (p->no_memory)
        return;
    python_function *f = &p->functions.data[*at];
    int64_t self_ns = kineto_trace_self_ns(p->trace, row);
    add_time_with_callees(p, (uint32_t)*at, block, i);
    f->calls++;
    f->self_ns = ka_add_ns(f->self_ns, self_ns);
    p->self_ns = ka_add_ns(p->self_ns, self_ns);
}

/* Blocks without a function of Python are skipped by their set of kinds. */
static void collect_python_calls(python_sums *p)
{
    kineto_row row = 0;
    for (uint32_t b = 0; b < kt_block_count(p->trace) && !p->no_memory; b++) {
        const kt_block *block = kt_block_at(p->trace, b);
        bool may_have = (block->kinds & KINETO_KIND_BIT(KINETO_KIND_PYTHON_FUNCTION)) != 0;
        for (uint32_t i = 0; i < block->count && may_have && !p->no_memory; i++)
            if (block->kind[i] == KINETO_KIND_PYTHON_FUNCTION && block->form[i] == KINETO_FORM_SLICE)
                add_call(p, block, i, row + i);
        row += block->count;
    }
}

static void put_functions(const ka_dataset *s, const python_sums *p, ka_table *t)
{
    for (size_t i = 0; i < p->functions.count; i++) {
        const python_function *f = &p->functions.data[i];
        if (!f->calls)
            continue;
        ka_put_int(t, s->rank);
        ka_put_text(t, kb_intern_get(&p->texts, f->name));
        ka_put_int(t, f->calls);
        ka_put_ns(t, f->self_ns);
        ka_put_number(t, ka_percent((double)f->self_ns, (double)p->self_ns));
        ka_put_ns(t, f->total_ns);
    }
    KA_SORT(t, KA_DOWN(python_functions, self_us), KA_UP(python_functions, function));
}

kineto_status ka_analyze_python_functions(const ka_dataset *s, kineto_analysis *a, kineto_error *err)
{
    ka_table *t = ka_table_of(a, KA_TABLE_python_functions);
    python_sums p = {.trace = s->trace};
    if (!t)
        return KINETO_OK;
    collect_python_calls(&p);
    if (!p.no_memory)
        put_functions(s, &p, t);
    bool no_memory = p.no_memory;
    if (!no_memory && !ka_table_rows(t))
        ka_note(t, "the trace has no functions of Python: 'ckineto record --python' has them");
    kb_intern_free(&p.texts);
    kb_vec_free(&p.functions);
    kb_map_free(&p.of_row_name);
    kb_map_free(&p.calls_on_track);
    kb_vec_free(&p.ends_ns);
    return no_memory ? kb_fail_memory(err, NULL) : KINETO_OK;
}
