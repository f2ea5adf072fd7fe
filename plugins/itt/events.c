/* Events: the domain, the ids and the name that a program passes become those of the front. */
#include "itt.h"

void ci_event_set_shape(ci_event *e, uint32_t flags)
{
    const cn_shape *shape = cn_shape_of_flags(flags);
    e->event.shape = shape ? shape : &cn_plain;
    e->event.values = shape && flags ? e->values : NULL;
    if (!shape)
        cn_count(CN_TALLY_SHAPES);
}

/* Values are in the order of CN_HAS_…, as shapes.c describes the arguments. */
void ci_event_make(ci_event *e, uint32_t domain, ci_id id, ci_id parent, const ci_string *name,
                   const char *other)
{
    uint32_t flags = 0, n = 0;
    if (domain) {
        flags |= CN_HAS_DOMAIN;
        e->values[n++].s = cn_domain_name(domain);
    }
    if (!ci_id_is_null(id)) {
        flags |= CN_HAS_ID;
        e->values[n++].u = id.d1;
        e->values[n++].u = id.d2;
    }
    if (!ci_id_is_null(parent)) {
        flags |= CN_HAS_PARENT;
        e->values[n++].u = parent.d1;
        e->values[n++].u = parent.d2;
    }
    e->event = (cn_event){.domain = domain,
                          .text = name && name->text ? name->text : other,
                          .name = ci_string_name(name),
                          .id = ci_id_number(id)};
    ci_event_set_shape(e, flags);
}
