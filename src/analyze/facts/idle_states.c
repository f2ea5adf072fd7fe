/* What the launching thread did while a device was idle, by its states: it was running, waited for a CPU,
 * or was blocked, in which function or for which lock. Only time before the launch counts: later the
 * thread could do nothing more. */
#include "analyze/facts/idle.h"

void ka_gap_states(ka_idleness *idle, const ka_gap *gap, ka_state_use *use, void *context)
{
    const ka_dataset *s = idle->s;
    uint32_t call = s->work[gap->after].call;
    if (call == KA_NONE)
        return;
    const ka_thread *thread = &s->threads[s->slices[call].thread];
    ka_thread_time(idle->watched, &idle->blocking, thread->process, thread->id, gap->start_ns,
                   KB_MIN(gap->end_ns, idle->hosts.launches[gap->after].queued_ns), use, context);
}

/* ---- the table ------------------------------------------------------------------------------- */

/* Sums of one gap under way are added to `gaps` once for each of its words. */
struct ka_idle_states {
    kb_intern words;
    kb_map by_key; /* (device, words) → index of sums */
    KB_VEC(ka_idle_state) sums;
    KB_VEC(ka_idle_state) gap; /* of one gap */
    uint32_t device;
    bool no_memory;
};

static void add_to_gap(void *context, kineto_string words, int64_t ns)
{
    struct ka_idle_states *x = context;
    uint32_t id = kb_intern_id(&x->words, words);
    for (size_t i = 0; i < x->gap.count; i++)
        if (x->gap.data[i].words == id) {
            x->gap.data[i].ns = ka_add_ns(x->gap.data[i].ns, ns);
            return;
        }
    x->no_memory |= id == KB_INTERN_NONE ||
                    !kb_vec_push(&x->gap, ((ka_idle_state){.device = x->device, .words = id, .ns = ns}));
}

static void add_gap_sum(struct ka_idle_states *x, const ka_idle_state *part)
{
    bool created;
    uint64_t *at = kb_map_insert(&x->by_key, ((uint64_t)part->device << 32 | part->words) + 1,
                                 x->sums.count, &created);
    x->no_memory |= !at || (created && !kb_vec_push(&x->sums, ((ka_idle_state){
                                                                  .device = part->device,
                                                                  .words = part->words})));
    if (x->no_memory)
        return;
    ka_idle_state *sum = &x->sums.data[*at];
    sum->count++;
    sum->ns = ka_add_ns(sum->ns, part->ns);
    sum->longest_ns = KB_MAX(sum->longest_ns, part->ns);
}

ka_idle_states *ka_idle_states_create(void) { return calloc(1, sizeof(ka_idle_states)); }

bool ka_idle_states_add(ka_idle_states *x, ka_idleness *idle, const ka_gap *gap)
{
    int64_t left = kb_length_ns(gap->start_ns, gap->end_ns);
    x->device = gap->device;
    x->gap.count = 0;
    ka_gap_states(idle, gap, add_to_gap, x);
    for (size_t i = 0; i < x->gap.count; i++)
        left -= x->gap.data[i].ns;
    KB_ASSERT(left >= 0);
    if (left > 0)
        add_to_gap(x, kb_string(idle->s->work[gap->after].call == KA_NONE ? "(its launch was not recorded)"
                                                                          : "(launched already)"),
                   left);
    for (size_t i = 0; i < x->gap.count && !x->no_memory; i++)
        add_gap_sum(x, &x->gap.data[i]);
    return !x->no_memory;
}

void ka_idle_states_put(const ka_idle_states *x, const ka_idleness *idle, ka_table *t)
{
    const ka_dataset *s = idle->s;
    if (!ka_has_host_states(idle)) {
        ka_note(t, "the trace has no states of threads: 'ckineto record' has them on Linux");
        return;
    }
    for (size_t i = 0; i < x->sums.count; i++) {
        const ka_idle_state *sum = &x->sums.data[i];
        int64_t all_ns = 0;
        for (size_t k = 0; k < x->sums.count; k++)
            if (x->sums.data[k].device == sum->device)
                all_ns = ka_add_ns(all_ns, x->sums.data[k].ns);
        ka_put_int(t, s->rank);
        ka_put_int(t, idle->devices.data[sum->device].id);
        ka_put_text(t, kb_intern_get(&x->words, sum->words));
        ka_put_int(t, (int64_t)sum->count);
        ka_put_ns(t, sum->ns);
        ka_put_number(t, ka_percent((double)sum->ns, (double)all_ns));
        ka_put_ns(t, sum->longest_ns);
    }
    KA_SORT(t, KA_UP(idle_states, device), KA_DOWN(idle_states, idle_us),
            KA_UP(idle_states, thread_was));
}

void ka_idle_states_destroy(ka_idle_states *x)
{
    if (!x)
        return;
    kb_intern_free(&x->words);
    kb_map_free(&x->by_key);
    kb_vec_free(&x->sums);
    kb_vec_free(&x->gap);
    free(x);
}
