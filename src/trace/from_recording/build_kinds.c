/* Kinds of a recording → kinds of a trace: what plug-ins announced becomes what they say it is
 * like, with the name they gave it as the category; vendors' spellings become categories. */
#include "trace/from_recording/build.h"

/* The page may be written while we read: entries that are complete never change again. */
void kt_build_own_kinds(kt_build_state *s)
{
    for (uint32_t i = 0; i < KINETO_KIND_OWN_COUNT; i++) {
        const kf_own_kind *from = &s->control->own_kinds[i];
        uint32_t state = kb_load_acquire(&from->state);
        if (!kf_own_kind_at(s->control->own_kinds, KINETO_KIND_OWN_FIRST + i))
            continue;
        s->own_kinds[i] = *from;
        s->own_kinds[i].state = state;
    }
}

static void own_kind(kt_build_state *s, uint32_t kind, kt_row *row)
{
    const kf_own_kind *own = kf_own_kind_at(s->own_kinds, kind);
    row->kind = own ? own->like : KINETO_KIND_COUNT;
    if (!own)
        return;
    uint32_t *category = &s->own_category[kind - KINETO_KIND_OWN_FIRST];
    if (!*category) {
        *category = kt_string(s->b, kb_string(own->name));
        kt_own_kind(s->b, kb_string(own->name), own->like);
    }
    row->category = *category;
}

/* A spelling of another kind would read back as that kind. */
static void spelled_kind(kt_build_state *s, const kf_event *e, kt_row *row)
{
    uint32_t index = e->spelling - 1;
    if (index >= kb_kind_alias_count || kb_kind_aliases[index].kind != e->kind)
        return;
    uint32_t unused = 0,
             *category = index < KT_BUILD_SPELLINGS ? &s->spelling_category[index] : &unused;
    if (!*category)
        *category = kt_string(s->b, kb_string(kb_kind_aliases[index].name));
    row->category = *category;
}

void kt_build_special_kind(kt_build_state *s, const kf_event *e, kt_row *row)
{
    if (e->kind >= KINETO_KIND_COUNT)
        own_kind(s, e->kind, row);
    else
        spelled_kind(s, e, row);
}
