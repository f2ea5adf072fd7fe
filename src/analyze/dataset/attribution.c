/* Makes an attribution when an analysis first needs one, and again if another needs more parts:
 * then the earlier one is kept, as other threads may still read it. All under the lock of the
 * dataset. */
#include "analyze/dataset/attribution.h"

/* Parts by table. Tables that are not listed ask for what they need themselves (memory,
 * modules). */
uint32_t ka_attribution_parts(kineto_analysis *a)
{
    static const struct {
        ka_table_id table;
        uint32_t parts;
    } needs[] = {{KA_TABLE_steps, KA_ATTRIBUTION_ROLES},
                 {KA_TABLE_operators, KA_ATTRIBUTION_OPERATORS | KA_ATTRIBUTION_CALLS | KA_ATTRIBUTION_FLOPS},
                 {KA_TABLE_roofline, KA_ATTRIBUTION_FLOPS},
                 {KA_TABLE_mfu, KA_ATTRIBUTION_FLOPS},
                 {KA_TABLE_gpu_summary, KA_ATTRIBUTION_WORK},
                 {KA_TABLE_kernel_use, KA_ATTRIBUTION_WORK},
                 {KA_TABLE_kernel_operators, KA_ATTRIBUTION_WORK | KA_ATTRIBUTION_OPERATORS},
                 {KA_TABLE_distributed_overlap, KA_ATTRIBUTION_ROLES},
                 {KA_TABLE_distributed_marks, KA_ATTRIBUTION_COMMUNICATION}};
    uint32_t parts = 0;
    for (size_t i = 0; i < KB_COUNT(needs); i++)
        parts |= ka_table_of(a, needs[i].table) ? needs[i].parts : 0;
    return parts;
}

/* Operators that only memory or modules need are made when those find that there is something. */
static bool make_parts_wanted(const ka_dataset *s, uint32_t parts)
{
    ka_dataset_memory *m = s->memory;
    if (m->attribution && (parts & ~m->attribution_parts) == 0)
        return true;
    ka_attribution *fresh = calloc(1, sizeof *fresh);
    if (!fresh)
        return false;
    fresh->dataset = s;
    fresh->inputs = m->attribution ? m->attribution->inputs : ka_inputs_create(s->attribution_parts);
    fresh->before = m->attribution; /* other threads may still read it */
    m->attribution = fresh;
    m->attribution_parts |= s->definitions->fills_all_parts ? UINT32_MAX : parts | s->attribution_parts;
    return fresh->inputs && s->definitions->fill_attribution(fresh, m->attribution_parts);
}

kineto_status ka_attribution_get(const ka_dataset *s, uint32_t parts, ka_attribution *v, kineto_error *err)
{
    ka_dataset_memory *m = s->memory;
    pthread_mutex_lock(&m->lock);
    m->no_memory |= !make_parts_wanted(s, parts);
    bool ok = !m->no_memory;
    *v = ok ? *m->attribution : (ka_attribution){.dataset = s};
    pthread_mutex_unlock(&m->lock);
    return ok ? KINETO_OK : kb_fail_memory(err, NULL);
}

void ka_attribution_destroy(ka_attribution *v)
{
    ka_inputs_free(v ? v->inputs : NULL);
    for (ka_attribution *before; v; v = before) {
        before = v->before;
        kb_vec_free(&v->ops);
        kb_vec_free(&v->work);
        kb_vec_free(&v->communication);
        kb_vec_free(&v->windows);
        for (uint32_t i = 0; i < KA_ROLE_COUNT; i++) {
            kb_vec_free(&v->roles[i]);
            for (size_t team = 0; team < v->teams.count; team++)
                kb_vec_free(&v->teams.data[team].roles[i]);
        }
        kb_vec_free(&v->teams);
        free(v);
    }
}

int64_t ka_attribution_end_ns(const ka_attribution *v)
{
    int64_t end_ns = INT64_MIN;
    for (size_t i = 0; i < v->windows.count; i++)
        end_ns = KB_MAX(end_ns, v->windows.data[i].end_ns);
    return end_ns;
}

kb_text ka_window_name(const ka_attribution *v, const ka_window *w)
{
    kb_text text = {"all"};
    if (v->has_steps)
        (void)snprintf(text.s, sizeof text.s, "%llu", (unsigned long long)w->number);
    return text;
}

/* Walks backward: callees follow their caller, so each is complete before it is added. */
void ka_ops_add_up(ka_op_list *ops)
{
    for (uint32_t i = 0; i < ops->count; i++)
        ops->data[i].next = i + 1;
    for (uint32_t i = (uint32_t)ops->count; i-- > 0;) {
        ka_op *op = &ops->data[i], *parent = op->parent == KA_NONE ? NULL : &ops->data[op->parent];
        op->device_ns = ka_add_ns(op->device_ns, op->device_self_ns);
        op->tensor_ns = ka_add_ns(op->tensor_ns, op->tensor_self_ns);
        if (!parent)
            continue;
        KB_ASSERT(op->parent < i);
        parent->device_ns = ka_add_ns(parent->device_ns, op->device_ns);
        parent->tensor_ns = ka_add_ns(parent->tensor_ns, op->tensor_ns);
        parent->next = KB_MAX(parent->next, op->next);
    }
}
