/* Sets of args that many events of a recording share: each becomes one of the trace when it is met
 * first. */
#include "trace/from_recording/build.h"

/* A set is as bounded as the args of a row are; what is longer is left out and flagged. */
#define MOST_BYTES ((size_t)1 << 24)

/* The words were checked by the decoder, but they may be another program's. */
static bool convert(kt_build_state *s, uint32_t entry, kt_build_set *set)
{
    kf_args args = kf_set_args(s->input->dictionary, s->input->dictionary_words, entry);
    const kf_event none = {.source = s->args_source};
    s->keys.count = s->shared_bytes = 0;
    if (args.words)
        kt_build_put_loose(s, &none, &args, &set->flags);
    s->shared_bytes = 0; /* the set's, not the row's */
    if (s->b->staged.count >= MOST_BYTES) {
        s->long_args++;
        set->flags |= KINETO_ACTIVITY_ARGS_LOST;
    }
    set->number = kt_args_make_set(s->b);
    set->first_key = (uint32_t)s->set_keys.count;
    set->key_count = (uint32_t)s->keys.count;
    for (size_t i = 0; i < s->keys.count; i++)
        if (!kb_vec_push(&s->set_keys, s->keys.data[i]))
            return false;
    return true;
}

/* NULL: out of memory. */
static KB_COLD const kt_build_set *set_add(kt_build_state *s, uint32_t entry, uint32_t source,
                                           uint32_t hint)
{
    s->args_source = source;
    kt_build_set set = {0};
    bool created;
    uint64_t *index = kb_map_insert(&s->set_of_entry, entry, s->sets.count, &created);
    if (!index)
        return NULL;
    uint32_t found = (uint32_t)*index;
    if (created && (!convert(s, entry, &set) || !kb_vec_push(&s->sets, set)))
        return NULL;
    s->set_hints[hint].entry = entry;
    s->set_hints[hint].index = found;
    return &s->sets.data[found];
}

/* Entries lie several words apart. */
KB_INLINE const kt_build_set *set_of(kt_build_state *s, uint32_t entry, uint32_t source)
{
    uint32_t hint = (entry * UINT32_C(0x9e3779b1)) >> (32 - KT_BUILD_SET_BITS);
    if (KINETO_LIKELY(s->set_hints[hint].entry == entry))
        return &s->sets.data[s->set_hints[hint].index];
    return set_add(s, entry, source, hint);
}

/* What the row has itself besides may not have the same keys. */
static KB_COLD void remember_keys(kt_build_state *s, const kt_build_set *set)
{
    s->keys.count = 0;
    for (uint32_t i = 0; i < set->key_count; i++)
        kt_build_key_add(s, s->set_keys.data[set->first_key + i]);
}

void kt_build_put_set(kt_build_state *s, const kf_event *e, uint32_t *flags)
{
    const kt_build_set *set = set_of(s, e->set, e->source);
    if (KINETO_UNLIKELY(!set)) {
        s->out_of_memory = true;
        return;
    }
    kt_args_stage_set(s->b, set->number);
    *flags |= set->flags;
    if (e->args.words || e->more_count)
        remember_keys(s, set);
}
