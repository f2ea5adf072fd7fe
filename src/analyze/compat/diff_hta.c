/* The comparison that HolisticTraceAnalysis makes (TraceDiff): names in the first step of both
 * traces, how often and how long each occurs, in whole microseconds. No statistics; the exact
 * comparison is in analyze/diff. */
#include "analyze/compat/compat.h"

#include "analyze/diff/diff.h"

/* Occurrences and time of a name on both sides. */
typedef struct sums {
    kineto_string name;
    int64_t count[2], ns[2];
} sums;

/* Names of both sides share ids. */
typedef struct comparing {
    const kineto_diff_options *options;
    kb_intern names;
    KB_VEC(sums) list; /* by id of the name */
    bool no_memory;
} comparing;

/* ---- short names ---------------------------------------------------------------------------- */

/* Names of copies are not shortened. */
static bool is_copy(kineto_string name)
{
    return kb_string_starts_with(name, "Memcpy") || kb_string_starts_with(name, "Memset") ||
           kb_string_starts_with(name, "dma");
}

/* A closing bracket removes all from its opening one, or everything if there is none; "->" is not a
 * bracket. The name is the text after the last space of the rest. */
static void shorten_name(kineto_string name, ka_text *out)
{
    out->size = 0;
    for (size_t i = 0; i < name.size; i++) {
        char c = name.data[i];
        if (c == '-' && i + 1 < name.size && name.data[i + 1] == '>') {
            i++;
            continue;
        }
        if (c == '>' || c == ')') {
            while (out->size && out->s[out->size - 1] != (c == '>' ? '<' : '('))
                out->size--;
            out->size -= out->size > 0;
        } else if (out->size < sizeof out->s) {
            out->s[out->size++] = c;
        }
    }
    size_t from = out->size;
    while (from && out->s[from - 1] != ' ')
        from--;
    memmove(out->s, out->s + from, out->size - from);
    out->size -= from;
}

/* ---- sums ----------------------------------------------------------------------------------- */

/* Adds one occurrence of a name to a side; short names merge names that differ in template
 * arguments. */
static void add_duration(comparing *c, uint32_t side, kineto_string name, int64_t ns)
{
    ka_text text;
    bool plain = !memchr(name.data, '<', name.size) && !memchr(name.data, '(', name.size);
    if (c->options->short_names && !plain && !is_copy(name)) {
        shorten_name(name, &text);
        name = (kineto_string){text.s, text.size};
    }
    uint32_t id = kb_intern_id(&c->names, name);
    c->no_memory |= id == KB_INTERN_NONE;
    while (!c->no_memory && c->list.count <= id)
        c->no_memory |= !kb_vec_push(&c->list, (sums){.name = {"", 0}});
    if (c->no_memory)
        return;
    sums *s = &c->list.data[id];
    s->name = kb_intern_get(&c->names, id);
    s->count[side]++;
    s->ns[side] = ka_add_ns(s->ns[side], ns);
}

/* The smallest step number; false: the trace has no steps. */
static bool first_number(const ka_dataset *s, uint64_t *number)
{
    for (uint32_t i = 0; i < s->step_count; i++)
        *number = i ? KB_MIN(*number, s->steps[i].number) : s->steps[i].number;
    return s->step_count > 0;
}

/* Adds host ranges, device work or both of one step to a side. */
static void add_side(comparing *c, uint32_t side, const ka_dataset *s, uint64_t number)
{
    for (uint32_t i = 0; i < s->slice_count && c->options->devices != KINETO_DIFF_DEVICE; i++) {
        const ka_slice *x = &s->slices[i];
        if (x->step >= 0 && s->steps[x->step].number == number)
            add_duration(c, side, ka_name(s, x->name), ka_slice_ns(x));
    }
    for (uint32_t i = 0; i < s->work_count && c->options->devices != KINETO_DIFF_HOST; i++) {
        const ka_work *x = &s->work[i];
        if (x->step >= 0 && s->steps[x->step].number == number)
            add_duration(c, side, ka_name(s, x->name), ka_work_ns(x));
    }
}

/* Measures a trace with these definitions and adds its first step. KINETO_E_NOT_FOUND: it has no
 * steps. */
static kineto_status add_trace(comparing *c, uint32_t side, const kineto_trace *trace,
                               kineto_error *err)
{
    kineto_analysis_options o = {.size = sizeof o};
    ka_measured m;
    uint64_t number = 0;
    if (c->options->analyze)
        memcpy(&o, c->options->analyze, KB_MIN(c->options->analyze->size, sizeof o));
    o.definitions = KINETO_DEFINITIONS_HTA;
    o.tables = "steps";
    if (o.steps == KINETO_STEPS_USUAL)
        o.steps = KINETO_STEPS_ALL;
    kineto_status status = ka_measure(trace, &o, &m, err);
    if (!status && !first_number(&m.dataset, &number))
        status = kb_fail(err, KINETO_E_NOT_FOUND,
                         "the trace %s has no steps: HTA compares the first ones",
                         side ? "after" : "before");
    if (!status)
        add_side(c, side, &m.dataset, number);
    ka_measured_free(&m);
    return status;
}

/* ---- the table ------------------------------------------------------------------------------ */

/* A row of the table diff_hta. */
static void put_sums_row(ka_table *t, const sums *s)
{
    int64_t more = s->count[1] - s->count[0];
    ka_put_text(t, s->name);
    for (uint32_t side = 0; side < 2; side++) {
        ka_put_int(t, s->count[side]);
        ka_put_ns(t, s->ns[side]);
    }
    ka_put_int(t, more);
    ka_put_ns(t, kb_length_ns(s->ns[0], s->ns[1]));
    ka_put_text(t, kb_string(more > 0 ? "+" : more < 0 ? "-" : "="));
    ka_put_text(t, kb_string(!s->count[0]   ? "added"
                             : !s->count[1] ? "deleted"
                             : more > 0     ? "increased"
                             : more < 0     ? "decreased"
                                            : "unchanged"));
}

/* Names that occur in neither first step have no row. */
kineto_status ka_hta_compare_traces(const kineto_trace *before, const kineto_trace *after,
                                    const kineto_diff_options *options, kineto_analysis *facts,
                                    kineto_error *err)
{
    comparing c = {.options = options};
    ka_table *t = &facts->tables[KA_TABLE_diff_hta];
    kineto_status status = add_trace(&c, 0, before, err);
    if (!status)
        status = add_trace(&c, 1, after, err);
    for (size_t i = 0; !status && i < c.list.count; i++)
        if (c.list.data[i].count[0] || c.list.data[i].count[1])
            put_sums_row(t, &c.list.data[i]);
    if (!status && c.no_memory)
        status = kb_fail_memory(err, "compare two traces");
    if (!status)
        ka_sort(t, (const int[]){1, 0});
    kb_intern_free(&c.names);
    kb_vec_free(&c.list);
    return status;
}
