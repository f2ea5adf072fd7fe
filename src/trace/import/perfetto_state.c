/* The incremental state of a sequence of packets: interned texts, and defaults of its packets. */
#include "trace/import/perfetto_read.h"

#define LOW_NUMBERS 65536u /* interned numbers are small and dense, in files that are not made to harm */

/* Packets of a sequence often come one after the other, so that the last one is tried first. */
pf_sequence *pf_sequence_find(kt_perfetto *p, uint32_t id)
{
    bool created;
    if (p->sequence && p->sequence->id == id)
        return p->sequence;
    uint64_t *at = kb_map_insert(&p->sequence_of_id, id, p->sequences.count, &created);
    pf_sequence *fresh = at && created ? calloc(1, sizeof *fresh) : NULL;
    if (!at || (created && (!fresh || !kb_vec_push(&p->sequences, fresh)))) {
        free(fresh);
        p->no_memory = true;
        return NULL;
    }
    if (fresh)
        fresh->id = id;
    return p->sequence = p->sequences.data[*at];
}

/* Also forgets the numbers. */
static void free_texts(pf_texts *t)
{
    kb_vec_free(&t->low);
    kb_map_free(&t->high);
    *t = (pf_texts){0};
}

/* After the recorder cleared its state, all numbers may mean other texts. The thread of an old descriptor stays. */
void pf_sequence_clear(pf_sequence *s)
{
    for (size_t i = 0; i < PF_TEXT_KINDS; i++)
        free_texts(&s->texts[i]);
    s->has_track = false;
    s->clock = s->counter_count = 0;
}

/* The struct as well. */
void pf_sequence_free(pf_sequence *s)
{
    pf_sequence_clear(s);
    free(s);
}

/* Small numbers are an index. New entries are 0, which stands for none. */
static bool set_low_text(pf_texts *t, size_t number, uint32_t value)
{
    size_t old = t->low.count;
    if (!kb_vec_reserve(&t->low, number + 1))
        return false;
    if (number >= old) {
        memset(t->low.data + old, 0, (number + 1 - old) * sizeof *t->low.data);
        t->low.count = number + 1;
    }
    t->low.data[number] = value;
    return true;
}

/* A number that is interned again gets the new text. */
static void set_text(kt_perfetto *p, pf_texts *t, uint64_t iid, uint32_t value)
{
    if (iid < LOW_NUMBERS) {
        p->no_memory |= !set_low_text(t, (size_t)iid, value + 1);
        return;
    }
    uint64_t *at = kb_map_insert(&t->high, iid, value, NULL);
    p->no_memory |= !at;
    if (at)
        *at = value;
}

/* Large numbers are in a map, so that a file cannot make the index large. */
bool pf_text(const pf_sequence *s, uint32_t kind, uint64_t iid, uint32_t *id)
{
    const pf_texts *t = &s->texts[kind];
    *id = 0;
    if (iid < LOW_NUMBERS) {
        bool known = iid < t->low.count && t->low.data[iid];
        *id = known ? t->low.data[iid] - 1 : 0;
        return known;
    }
    const uint64_t *at = kb_map_find(&t->high, iid);
    *id = at ? (uint32_t)*at : 0;
    return at != NULL;
}

/* The entry of a table: its number and its text. A context of graphics has a pid instead. */
static void intern_entry(kt_perfetto *p, pf_sequence *s, uint32_t kind, kineto_string entry)
{
    kt_wire w = kt_wire_of(entry);
    kt_field f;
    uint64_t iid = 0, pid = 0;
    kineto_string text = {"", 0};
    while (kt_wire_next(&w, &f)) {
        if (kt_field_is(&f, PF_INTERNED_IID, KT_WIRE_VARINT))
            iid = f.n;
        else if (kt_field_is(&f, PF_INTERNED_STRING, KT_WIRE_BYTES))
            text = f.bytes;
        else if (kt_field_is(&f, PF_INTERNED_STRING, KT_WIRE_VARINT))
            pid = f.n;
    }
    if (iid)
        set_text(p, &s->texts[kind], iid, kind == PF_TEXT_CONTEXT ? (uint32_t)pid : kt_string(p->m.b, text));
}

/* Of fields with other contents, such as call stacks, nothing is kept. */
void pf_intern(kt_perfetto *p, pf_sequence *s, kineto_string interned_data)
{
    static const uint8_t kinds[PF_INTERNED_LAST] = {
        [PF_INTERNED_CATEGORY] = PF_TEXT_CATEGORY + 1,   [PF_INTERNED_NAME] = PF_TEXT_NAME + 1,
        [PF_INTERNED_KEY] = PF_TEXT_KEY + 1,             [PF_INTERNED_TEXT] = PF_TEXT_VALUE + 1,
        [PF_INTERNED_GPU_STAGE] = PF_TEXT_GPU_STAGE + 1, [PF_INTERNED_CONTEXT] = PF_TEXT_CONTEXT + 1};
    kt_wire w = kt_wire_of(interned_data);
    kt_field f;
    while (kt_wire_next(&w, &f))
        if (f.id < PF_INTERNED_LAST && kinds[f.id] && f.wire == KT_WIRE_BYTES)
            intern_entry(p, s, kinds[f.id] - 1u, f.bytes);
}

/* A new list of counters replaces the one before. */
static void set_event_defaults(pf_sequence *s, kineto_string defaults)
{
    kt_wire w = kt_wire_of(defaults);
    kt_field f;
    s->counter_count = 0;
    while (kt_wire_next(&w, &f)) {
        if (kt_field_is(&f, PF_EVENT_DEFAULTS_TRACK, KT_WIRE_VARINT)) {
            s->track = f.n;
            s->has_track = true;
        } else if (kt_field_is(&f, PF_EVENT_DEFAULTS_COUNTERS, KT_WIRE_VARINT) &&
                   s->counter_count < KB_COUNT(s->counters)) {
            s->counters[s->counter_count++] = f.n;
        }
    }
}

/* Defaults that a packet does not repeat no longer count. */
void pf_set_defaults(pf_sequence *s, kineto_string defaults)
{
    kt_wire w = kt_wire_of(defaults);
    kt_field f;
    s->has_track = false;
    s->clock = 0;
    while (kt_wire_next(&w, &f)) {
        if (kt_field_is(&f, PF_DEFAULTS_EVENT, KT_WIRE_BYTES))
            set_event_defaults(s, f.bytes);
        else if (kt_field_is(&f, PF_DEFAULTS_CLOCK, KT_WIRE_VARINT))
            s->clock = (uint32_t)KB_MIN(f.n, UINT32_MAX);
    }
}
