/* Checks step numbers (once each, without gaps, by process and kind) and external ids of
 * operators, which are unique. */
#include "analyze/verify/verify.h"
#include "trace/model/steps.h"

/* A step by its name, "ProfilerStep#N". */
typedef struct step {
    uint64_t number;
    uint32_t process, kind;
    kineto_row row;
} step;

/* Steps and operator ids of the whole trace. */
typedef struct pass {
    ka_verify *v;
    KB_VEC(step) steps;
    kb_map operators; /* external id → row + 1 */
    ka_tally reused;
    uint64_t annotations;
} pass;

/* Collects a step with its number. */
static void add_step(pass *p, kineto_row row, const kt_block *b, uint32_t i)
{
    step s = {.process = p->v->tracks[b->track[i]].process, .kind = b->kind[i], .row = row};
    if (kt_step_number(kineto_trace_string(p->v->t, b->name[i]), &s.number) &&
        !kb_vec_push(&p->steps, s))
        p->v->no_memory = true;
}

/* Ids of operators are unique; other rows repeat them to say whose they are. */
static void note_operator_id(pass *p, kineto_row row, uint64_t id)
{
    bool created = false;
    if (!kb_map_insert(&p->operators, id, row, &created))
        p->v->no_memory = true;
    else if (!created)
        ka_tally_add(p->v, &p->reused, row);
}

/* Collects steps, and ids of operators if that rule is wanted. */
static void collect_steps(pass *p)
{
    ka_verify *v = p->v;
    kineto_row row = 0;
    bool ids = ka_wants(v, KA_RULE_IDS_REUSED);
    for (uint32_t n = 0; n < kt_block_count(v->t); n++) {
        const kt_block *b = kt_block_at(v->t, n);
        for (uint32_t i = 0; b && i < b->count; i++, row++) {
            uint32_t kind = b->kind[i];
            if ((kind != KINETO_KIND_CPU_OP && kind != KINETO_KIND_USER_ANNOTATION) ||
                b->form[i] != KINETO_FORM_SLICE || b->track[i] >= v->track_count)
                continue;
            bool is_step = v->names[KB_MIN(b->name[i], v->name_count)] & KA_NAME_STEP;
            if (is_step)
                add_step(p, row, b, i);
            p->annotations += !is_step && kind == KINETO_KIND_USER_ANNOTATION;
            if (ids && kind == KINETO_KIND_CPU_OP && b->external_id[i])
                note_operator_id(p, row, b->external_id[i]);
        }
    }
}

/* By process, kind, number and row. */
static int compare_steps(const void *left, const void *right)
{
    const step *a = left, *b = right;
    if (a->process != b->process)
        return a->process < b->process ? -1 : 1;
    if (a->kind != b->kind)
        return a->kind < b->kind ? -1 : 1;
    if (a->number != b->number)
        return a->number < b->number ? -1 : 1;
    return a->row < b->row ? -1 : a->row > b->row;
}

/* Are there steps of another kind, such as those that inference servers mark? */
static bool has_known_steps(ka_verify *v)
{
    kt_step_list list;
    v->no_memory |= !kt_step_list_make(v->t, NULL, true, &list);
    bool has = list.rows.count > 0;
    kt_step_list_free(&list);
    return has;
}

/* Sorted by process, kind and number, neighbours show repetitions and gaps. */
static void check_steps(pass *p)
{
    ka_verify *v = p->v;
    ka_tally after_gap = {0}, repeated = {0};
    uint64_t missing = 0;
    if (p->steps.count)
        qsort(p->steps.data, p->steps.count, sizeof(step), compare_steps);
    for (size_t i = 1; i < p->steps.count; i++) {
        const step *a = &p->steps.data[i - 1], *b = &p->steps.data[i];
        if (a->process != b->process || a->kind != b->kind)
            continue;
        if (a->number == b->number) {
            ka_tally_add(v, &repeated, b->row);
        } else if (b->number - a->number > 1) {
            ka_tally_add(v, &after_gap, b->row);
            missing += b->number - a->number - 1;
        }
    }
    ka_find(v, KA_RULE_STEPS_MISSING, KINETO_SEVERITY_WARNING, &after_gap,
            "%llu steps are missing; the step after each gap is shown",
            (unsigned long long)missing);
    ka_find(v, KA_RULE_STEPS_REPEATED, KINETO_SEVERITY_WARNING, &repeated,
            "steps repeat the number of another one");
    if (!p->steps.count && p->annotations && !has_known_steps(v))
        ka_find_text(v, KA_RULE_STEPS_NONE, KINETO_SEVERITY_NOTE, p->annotations, NULL,
                     KINETO_NO_OFFSET, "%llu annotations, and no step",
                     (unsigned long long)p->annotations);
}

/* One pass over the rows, then one over the sorted steps. */
void ka_verify_steps(ka_verify *v)
{
    pass p = {.v = v};
    collect_steps(&p);
    check_steps(&p);
    ka_find(v, KA_RULE_IDS_REUSED, KINETO_SEVERITY_WARNING, &p.reused,
            "operators repeat the external id of another one");
    kb_vec_free(&p.steps);
    kb_map_free(&p.operators);
}
