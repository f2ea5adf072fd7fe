/* Events that have only a text: no domain and no arguments, and therefore no draft, whose frame is
 * large. */
#include "annotations.h"

/* An event in the default domain that has only a text. */
static cn_event make_plain_event(const char *text)
{
    return (cn_event){.shape = &cn_plain, .text = text ? text : ""};
}

int cn_range_push(const char *text)
{
    if (!cn_has_work())
        return CN_NO_TRACKING;
    cn_event e = make_plain_event(text);
    return cn_push(&e);
}

int cn_range_pop(void) { return cn_has_work() ? cn_pop(0) : CN_NO_TRACKING; }

void cn_mark_event(const cn_event *e)
{
    kineto_site *site = cn_event_site(e);
    if (site) {
        kineto_instant_mark(site, e->values);
        return;
    }
    kineto_props props = cn_event_props(e);
    kineto_instant_mark_props(cn_shape_site(e->shape), &props);
}

void cn_mark(const char *text)
{
    if (!cn_recording())
        return;
    cn_event e = make_plain_event(text);
    cn_mark_event(&e);
}

uint64_t cn_range_start(const char *text)
{
    if (!cn_recording())
        return CN_NOT_RECORDED;
    cn_event e = make_plain_event(text);
    return cn_start(&e);
}

void cn_range_end(uint64_t id) { cn_end(id); }
