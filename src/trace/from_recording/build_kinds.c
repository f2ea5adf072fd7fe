/* Converts kinds of a recording to kinds of a trace. A kind that a plug-in defined becomes
 * the kind that it declared it to be like, with the plug-in's name for it as category;
 * vendors' spellings of a kind become categories. */
#include "trace/from_recording/build.h"

/* The control page may be written meanwhile: an entry that is complete (state) never
 * changes again. */
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

/* Sets kind and category of a row with a kind of a plug-in. */
static void set_plugin_kind(kt_build_state *s, uint32_t kind, kt_row *row)
{
    const kf_own_kind *own = kf_own_kind_at(s->own_kinds, kind);
    KB_ASSERT(kind >= KINETO_KIND_COUNT);
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

/* Sets the category of a row to the vendor's spelling, unless it is a spelling of another
 * kind: a reader would take the row for that kind. */
static void set_spelled_category(kt_build_state *s, const kf_event *e, kt_row *row)
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
        set_plugin_kind(s, e->kind, row);
    else
        set_spelled_category(s, e, row);
}
