/* Matches the things of one trace with those of the other. Most have the same name. Kernels
 * change names with builds and libraries: they are matched by less and less of the name, then by
 * the operator that launches them. A key that occurs equally often on both sides pairs its
 * things in their order; other keys pair nothing and leave them to the next, weaker key. */
#include "analyze/diff/diff.h"

/* A thing that may be paired, by the id of its key. */
typedef struct candidate {
    uint32_t key; /* id */
    uint32_t order, thing;
    bool after;
} candidate;

/* Both sides, and the keys and candidates of the attempt under way. */
typedef struct matching {
    ka_side *sides[2];
    kb_intern keys;
    KB_VEC(candidate) candidates;
    bool no_memory;
} matching;

/** The key of a thing by which those of both sides are put together; false: it has none. */
typedef bool key_of(const ka_side *side, const ka_thing *x, ka_text *out);

/* ---- pairs ---------------------------------------------------------------------------------- */

/* By key, side, then the order in which things came. */
static int compare_candidates(const void *left, const void *right)
{
    const candidate *a = left, *b = right;
    if (a->key != b->key)
        return a->key < b->key ? -1 : 1;
    if (a->after != b->after)
        return a->after ? 1 : -1;
    return a->order < b->order ? -1 : a->order > b->order;
}

/* Things of a side that have no partner yet, with their keys. */
static void collect_candidates(matching *m, bool after, uint8_t kind, key_of *key)
{
    const ka_side *side = m->sides[after];
    ka_text text;
    for (uint32_t i = 0; i < side->things.count && !m->no_memory; i++) {
        const ka_thing *x = &side->things.data[i];
        if (x->kind != kind || x->other != KA_NONE || !key(side, x, &text))
            continue;
        uint32_t id = kb_intern_id(&m->keys, (kineto_string){text.s, text.size});
        m->no_memory |= id == KB_INTERN_NONE ||
                        !kb_vec_push(&m->candidates, (candidate){id, x->order, i, after});
    }
}

/* As many on both sides: in the order in which they came. */
static void pair_in_order(matching *m, size_t from, size_t to, const char *how)
{
    size_t middle = from;
    while (middle < to && !m->candidates.data[middle].after)
        middle++;
    if (middle - from != to - middle)
        return;
    for (size_t i = from; i < middle; i++) {
        uint32_t a = m->candidates.data[i].thing, b = m->candidates.data[middle + i - from].thing;
        KB_ASSERT(m->sides[0]->things.data[a].other == KA_NONE);
        KB_ASSERT(m->sides[1]->things.data[b].other == KA_NONE);
        m->sides[0]->things.data[a].other = b;
        m->sides[1]->things.data[b].other = a;
        m->sides[1]->things.data[b].how = m->sides[0]->things.data[a].how = how;
    }
}

/* Pairs the things of a kind that have the same key. */
static void match_by(matching *m, uint8_t kind, key_of *key, const char *how)
{
    m->candidates.count = 0;
    collect_candidates(m, false, kind, key);
    size_t before = m->candidates.count;
    if (!before)
        return;
    collect_candidates(m, true, kind, key);
    if (m->candidates.count == before)
        return;
    qsort(m->candidates.data, m->candidates.count, sizeof *m->candidates.data, compare_candidates);
    for (size_t from = 0, to; from < m->candidates.count && !m->no_memory; from = to) {
        for (to = from + 1; to < m->candidates.count; to++)
            if (m->candidates.data[to].key != m->candidates.data[from].key)
                break;
        pair_in_order(m, from, to, how);
    }
}

/* ---- keys ----------------------------------------------------------------------------------- */

/* Cut at the size of ka_text. */
static void append_key(ka_text *out, kineto_string s)
{
    size_t size = KB_MIN(s.size, sizeof out->s - out->size);
    memcpy(out->s + out->size, s.data, size);
    out->size += size;
}

/* Long texts keep their beginning and a hash. */
static void append_whole(ka_text *out, kineto_string s)
{
    uint64_t hash = kb_hash(s.data, s.size);
    append_key(out, (kineto_string){s.data, KB_MIN(s.size, (size_t)300)});
    append_key(out, (kineto_string){(const char *)&hash, sizeof hash});
}

/* Keys of operators also tell operators from calls. */
static bool by_name(const ka_side *side, const ka_thing *x, ka_text *out)
{
    (void)side;
    out->size = 0;
    append_whole(out, x->name);
    append_whole(out, x->detail);
    append_key(out, (kineto_string){(const char *)&x->activity, x->kind == KA_THING_OPERATOR});
    return true;
}

/* Functions, calls and locks by kind and name, not by the module they are in, which has another name if it is
 * built elsewhere … */
static bool by_subject(const ka_side *side, const ka_thing *x, ka_text *out)
{
    (void)side;
    out->size = 0;
    append_key(out, (kineto_string){(const char *)&x->family, 1});
    append_whole(out, x->name);
    return true;
}

/* … and with '#' for numbers: of ports, pipes and temporary files. */
static bool by_numberless_subject(const ka_side *side, const ka_thing *x, ka_text *out)
{
    (void)side;
    out->size = 0;
    append_key(out, (kineto_string){(const char *)&x->family, 1});
    for (size_t i = 0; i < x->name.size; i++) {
        bool digit = kb_is_digit(x->name.data[i]);
        if (!digit || !i || !kb_is_digit(x->name.data[i - 1]))
            append_key(out, digit ? kb_string("#") : (kineto_string){x->name.data + i, 1});
    }
    return true;
}

/* Copies and memsets have names of their own, which do not change. */
static bool is_kernel(const ka_thing *x)
{
    return x->activity != KINETO_KIND_GPU_MEMCPY && x->activity != KINETO_KIND_GPU_MEMSET;
}

/* Without return type, parameters and clones. */
static bool by_spelling(const ka_side *side, const ka_thing *x, ka_text *out)
{
    (void)side;
    ka_spell_kernel(x->name, out);
    return is_kernel(x) && out->size;
}

/* Also without template arguments. */
static bool by_skeleton(const ka_side *side, const ka_thing *x, ka_text *out)
{
    (void)side;
    ka_skeleton_of(x->name, out);
    return is_kernel(x) && out->size;
}

/* Also without namespaces. */
static bool by_last_component(const ka_side *side, const ka_thing *x, ka_text *out)
{
    (void)side;
    ka_last_component_of(x->name, out);
    return is_kernel(x) && out->size;
}

/* Also with '#' for numbers. */
static bool by_numberless(const ka_side *side, const ka_thing *x, ka_text *out)
{
    (void)side;
    ka_numberless(x->name, out);
    return is_kernel(x) && out->size;
}

/* The operator that launched it first, its shapes if `shapes`, and which work of it this is. */
static bool append_launch(const ka_side *side, const ka_thing *x, bool shapes, ka_text *out)
{
    const ka_dataset *s = &side->m.dataset;
    char place[32];
    if (!is_kernel(x) || x->op == KA_NONE)
        return false;
    const ka_slice *op = &s->slices[x->op];
    int size = snprintf(place, sizeof place, "|%u|", x->place);
    append_key(out, (kineto_string){place, (size_t)size});
    append_whole(out, ka_name(s, op->name));
    if (shapes)
        append_whole(out, ka_input_sizes(s->trace, op->row));
    return true;
}

static bool by_skeleton_and_launch(const ka_side *side, const ka_thing *x, ka_text *out)
{
    return by_skeleton(side, x, out) && append_launch(side, x, true, out);
}

static bool by_last_and_launch(const ka_side *side, const ka_thing *x, ka_text *out)
{
    return by_last_component(side, x, out) && append_launch(side, x, true, out);
}

static bool by_numberless_and_launch(const ka_side *side, const ka_thing *x, ka_text *out)
{
    return by_numberless(side, x, out) && append_launch(side, x, true, out);
}

/* By the operator, its shapes and the place among its work only. */
static bool by_launch(const ka_side *side, const ka_thing *x, ka_text *out)
{
    out->size = 0;
    return append_launch(side, x, true, out);
}

/* Another kernel for the same purpose. */
static bool by_family_and_operator(const ka_side *side, const ka_thing *x, ka_text *out)
{
    out->size = 0;
    append_key(out, kb_string(ka_family_name(x->family)));
    return append_launch(side, x, false, out);
}

/* ---- all of it ------------------------------------------------------------------------------ */

/* From the strongest key to the weakest; `how` is shown in the table. */
static void match_kernels(matching *m)
{
    static const struct {
        key_of *key;
        const char *how;
    } tries[] = {
        {by_name, "name"},
        {by_spelling, "spelling"},
        {by_skeleton_and_launch, "template arguments"},
        {by_skeleton, "template arguments"},
        {by_last_and_launch, "namespace"},
        {by_last_component, "namespace"},
        {by_numberless_and_launch, "numbers"},
        {by_numberless, "numbers"},
        {by_launch, "operator and shapes"},
        {by_family_and_operator, "operator"},
    };
    for (size_t i = 0; i < KB_COUNT(tries) && !m->no_memory; i++)
        match_by(m, KA_THING_KERNEL, tries[i].key, tries[i].how);
}

/* Only kernels and what threads did need more than their names. */
bool ka_match_sides(ka_side *before, ka_side *after)
{
    matching m = {.sides = {before, after}};
    for (uint8_t kind = 0; kind < KA_THING_KINDS && !m.no_memory; kind++)
        if (kind != KA_THING_KERNEL)
            match_by(&m, kind, kind == KA_THING_THREADS ? by_subject : by_name, "name");
    match_by(&m, KA_THING_THREADS, by_numberless_subject, "numbers");
    match_kernels(&m);
    kb_intern_free(&m.keys);
    kb_vec_free(&m.candidates);
    return !m.no_memory;
}
