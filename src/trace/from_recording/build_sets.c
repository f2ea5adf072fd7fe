/* Sets of args that many events of a recording share: each becomes a set of the trace when
 * the first event uses it, and rows refer to it by number (KT_ARG_SET). */
#include "trace/from_recording/build.h"

/* Limit of a set, as for the args of a row. A longer set is dropped and flagged. */
#define MAX_SET_BYTES ((size_t)1 << 24)

/* Converts a dictionary entry into a set. The decoder has checked its words. False: out of
 * memory. */
static bool convert_set(kt_build_state *s, uint32_t entry, kt_build_set *set)
{
    kf_args args = kf_set_args(s->input->dictionary, s->input->dictionary_words, entry);
    const kf_event none = {.source = s->args_source};
    s->keys.count = s->shared_bytes = 0;
    if (args.words)
        kt_build_stage_loose_args(s, &none, &args, &set->flags);
    s->shared_bytes = 0; /* they count for the set, not for the row */
    if (s->b->staged.count >= MAX_SET_BYTES) {
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

/* The set of an entry, converted on first use, and now in the cache. NULL: out of memory. */
static KB_COLD const kt_build_set *add_set(kt_build_state *s, uint32_t entry, uint32_t source,
                                           uint32_t hint)
{
    s->args_source = source;
    kt_build_set set = {0};
    bool created;
    uint64_t *index = kb_map_insert(&s->set_of_entry, entry, s->sets.count, &created);
    if (!index)
        return NULL;
    uint32_t found = (uint32_t)*index;
    KB_ASSERT(hint < KT_BUILD_SET_HINTS && (created || found < s->sets.count));
    if (created && (!convert_set(s, entry, &set) || !kb_vec_push(&s->sets, set)))
        return NULL;
    s->set_hints[hint].entry = entry;
    s->set_hints[hint].index = found;
    return &s->sets.data[found];
}

/* The set of an entry, by a direct-mapped cache. NULL: out of memory. */
KB_INLINE const kt_build_set *find_or_add_set(kt_build_state *s, uint32_t entry, uint32_t source)
{
    uint32_t hint = (entry * UINT32_C(0x9e3779b1)) >> (32 - KT_BUILD_SET_BITS);
    if (KINETO_LIKELY(s->set_hints[hint].entry == entry))
        return &s->sets.data[s->set_hints[hint].index];
    return add_set(s, entry, source, hint);
}

/* Adds the keys of the set to those of the row: its own args must not repeat them. */
static KB_COLD void add_set_keys_to_row(kt_build_state *s, const kt_build_set *set)
{
    s->keys.count = 0;
    for (uint32_t i = 0; i < set->key_count; i++)
        kt_build_add_key(s, s->set_keys.data[set->first_key + i]);
}

void kt_build_stage_set(kt_build_state *s, const kf_event *e, uint32_t *flags)
{
    const kt_build_set *set = find_or_add_set(s, e->set, e->source);
    if (KINETO_UNLIKELY(!set)) {
        s->out_of_memory = true;
        return;
    }
    kt_args_stage_set(s->b, set->number);
    *flags |= set->flags;
    if (e->args.words || e->more_count)
        add_set_keys_to_row(s, set);
}
