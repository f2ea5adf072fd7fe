/* What may end on another thread than it began, and need not nest: overlapped tasks, regions, frames,
 * user events. The front finds them by a key, which is made of what the program passes: a domain and an
 * id, say. */
#include "itt.h"

/* ---- keys ------------------------------------------------------------------------------------ */

typedef enum span_kind { SPAN_OVERLAPPED, SPAN_REGION, SPAN_FRAME, SPAN_USER_EVENT } span_kind;

static uint64_t make_span_key(span_kind kind, uint64_t owner, uint64_t id)
{
    uint64_t key = (id ^ owner * UINT64_C(0xff51afd7ed558ccd)) * UINT64_C(0x9e3779b97f4a7c15);
    key ^= key >> 29 ^ (uint64_t)kind << 60;
    return key ? key : 1;
}

/* ---- tasks and regions ----------------------------------------------------------------------- */

static void begin_named_span(span_kind kind, const ci_domain *domain, ci_id id, ci_id parent,
                             const ci_string *name)
{
    if (!ci_recording())
        return;
    ci_event e;
    uint32_t number = ci_domain_number(domain);
    ci_event_make(&e, number, id, parent, name, kind == SPAN_REGION ? "region" : "task");
    cn_start_keyed(make_span_key(kind, number, ci_id_number(id)), &e.event);
}

/* Spans that were recorded at their begin are ended even if recording has stopped or paused. */
static void end_named_span(span_kind kind, const ci_domain *domain, ci_id id)
{
    cn_end_keyed(make_span_key(kind, ci_domain_number(domain), ci_id_number(id)));
}

void ci_overlapped_begin(const ci_domain *domain, ci_id id, ci_id parent, ci_string *name)
{
    begin_named_span(SPAN_OVERLAPPED, domain, id, parent, name);
}
void ci_overlapped_end(const ci_domain *domain, ci_id id)
{
    end_named_span(SPAN_OVERLAPPED, domain, id);
}

void ci_overlapped_begin_ex(const ci_domain *domain, void *clock, unsigned long long time, ci_id id,
                            ci_id parent, ci_string *name)
{
    ci_count_own_time(clock, time);
    ci_overlapped_begin(domain, id, parent, name);
}
void ci_overlapped_end_ex(const ci_domain *domain, void *clock, unsigned long long time, ci_id id)
{
    ci_count_own_time(clock, time);
    ci_overlapped_end(domain, id);
}

void ci_region_begin(const ci_domain *domain, ci_id id, ci_id parent, ci_string *name)
{
    begin_named_span(SPAN_REGION, domain, id, parent, name);
}
void ci_region_end(const ci_domain *domain, ci_id id) { end_named_span(SPAN_REGION, domain, id); }

/* ---- frames ---------------------------------------------------------------------------------- */

/* A frame is named after its domain and numbered in it. */
static void make_frame_event(ci_event *e, uint32_t domain, ci_id id)
{
    static atomic_uint_fast64_t frame_counts[CN_MAX_DOMAINS];
    uint32_t flags = CN_HAS_FRAME, n = 0;
    if (!ci_id_is_null(id)) {
        flags |= CN_HAS_ID;
        e->values[n++].u = id.d1;
        e->values[n++].u = id.d2;
    }
    e->values[n].u = atomic_fetch_add(&frame_counts[domain], 1) + 1;
    e->event = (cn_event){.domain = domain, .text = cn_domain_name(domain)};
    ci_event_set_shape(e, flags);
}

static ci_id get_frame_id(const ci_id *id) { return id ? *id : (ci_id){0, 0, 0}; }

void ci_frame_begin(const ci_domain *domain, const ci_id *id)
{
    if (!ci_recording())
        return;
    ci_event e;
    uint32_t number = ci_domain_number(domain);
    make_frame_event(&e, number, get_frame_id(id));
    cn_start_keyed(make_span_key(SPAN_FRAME, number, ci_id_number(get_frame_id(id))), &e.event);
}
void ci_frame_end(const ci_domain *domain, const ci_id *id)
{
    end_named_span(SPAN_FRAME, domain, get_frame_id(id));
}

unsigned long long ci_get_timestamp(void) { return kineto_record_ticks(); }

/* Both times are results of ci_get_timestamp; all ones, or an end of 0, mean now. The recording takes
 * a range that ends now. */
void ci_frame_submit(const ci_domain *domain, const ci_id *id, unsigned long long begin,
                     unsigned long long end)
{
    if (!ci_recording())
        return;
    uint64_t now = kineto_record_ticks();
    if (!begin || begin > now) {
        cn_count(CI_TALLY_FRAME_LOST);
        return;
    }
    if (end && end < now && now - end > (now - begin) / 64)
        cn_count(CI_TALLY_FRAME_TIME);
    ci_event e;
    uint32_t number = ci_domain_number(domain);
    make_frame_event(&e, number, get_frame_id(id));
    const char *name = cn_domain_name(number);
    e.event.name = cn_name_intern(name, strlen(name));
    kineto_site *site = cn_event_site(&e.event);
    kineto_record_past(site ? site : cn_shape_site(e.event.shape), begin, e.event.values);
}

/* The functions before version 3: a frame is a domain of its own. */
void ci_old_frame_begin(ci_domain *frame) { ci_frame_begin(frame, NULL); }
void ci_old_frame_end(ci_domain *frame) { ci_frame_end(frame, NULL); }

/* ---- user events ----------------------------------------------------------------------------- */

/* Events are numbers of names. Each thread may have one of each open. */
int ci_event_create(const char *name, int size)
{
    char text[256];
    size_t room = size < 0 ? 0 : CN_MIN((size_t)size, sizeof text - 1);
    size_t used = name ? strnlen(name, room) : 0;
    if (used)
        memcpy(text, name, used);
    text[used] = 0;
    return (int)(uintptr_t)cn_string_register(NULL, text);
}

static uint64_t make_user_event_key(int event)
{
    return make_span_key(SPAN_USER_EVENT, (uint64_t)(uintptr_t)pthread_self(), (uint64_t)event);
}

int ci_event_start(int event)
{
    const cn_name *name =
        ci_recording() && event > 0 ? cn_name_from_handle((cn_handle)(uintptr_t)event) : NULL;
    if (name) {
        cn_event e = {.shape = &cn_plain, .text = name->text, .name = name};
        cn_start_keyed(make_user_event_key(event), &e);
    }
    return 0;
}

int ci_event_end(int event)
{
    if (event > 0)
        cn_end_keyed(make_user_event_key(event));
    return 0;
}
