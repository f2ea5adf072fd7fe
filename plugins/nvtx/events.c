/* Ranges and moments: the functions that programs call, and the conversion from NVTX's attributes
 * and payloads to a site and its values. */
#include "nvtx.h"

/* An event while its attributes are converted, on the stack of the call. */
typedef struct event_draft {
    cn_event event;
    cn_key key;
    cn_view views[CN_MAX_PAYLOADS];
    kineto_value values[KINETO_SITE_MAX_ARGS];
    cn_scratch scratch;
} event_draft;

/* Neither values nor scratch are cleared: only what is written is read. */
static void begin_draft(event_draft *d, uint32_t domain)
{
    d->event = (cn_event){.domain = domain, .shape = &cn_plain, .text = ""};
    d->key.flags = domain ? CN_HAS_DOMAIN : 0;
    d->key.payload_count = 0;
    d->scratch.used = 0;
    d->scratch.cut = false;
}

/* ---- messages -------------------------------------------------------------------------------- */

/* Converts a wide text into the scratch space, which begins with it. */
static const char *convert_wide_text(cn_scratch *scratch, const wchar_t *wide)
{
    char *to = scratch->bytes;
    if (!wide)
        return "";
    if (!cn_text_from_wide(wide, to, 2048))
        cn_count(CN_TALLY_CUT);
    scratch->used = (strlen(to) + 8) & ~(size_t)7;
    return to;
}

/* The name of an event from its attributes. */
static void set_event_message(event_draft *d, const cn_attributes *a)
{
    if (a->message_type == CN_MESSAGE_ASCII && a->message.ascii)
        d->event.text = a->message.ascii;
    else if (a->message_type == CN_MESSAGE_WIDE)
        d->event.text = convert_wide_text(&d->scratch, a->message.wide);
    else if (a->message_type == CN_MESSAGE_REGISTERED)
        d->event.name = cn_name_from_handle(a->message.registered);
}

/* ---- arguments ------------------------------------------------------------------------------- */

/* The size that the program passed, else that of the layout. */
static size_t get_payload_size(const cn_payload *p, const cn_schema *schema)
{
    if (!p->data)
        return 0;
    if (p->size != SIZE_MAX)
        return p->size;
    if (schema->id == CN_TYPE_CSTRING || schema->id == CN_TYPE_CSTRING_UTF8)
        return strlen(p->data);
    return schema->is_dynamic ? 0 : schema->size;
}

/* Adds the payloads whose layout is known and which are long enough; the others are counted. */
static void add_draft_payloads(event_draft *d, const cn_payload *payloads, uint64_t count)
{
    if (!payloads || (uintptr_t)payloads % _Alignof(cn_payload))
        return;
    if (count > CN_MAX_PAYLOADS)
        cn_count(CN_TALLY_ARGUMENTS);
    for (uint32_t i = 0; i < CN_MIN(count, CN_MAX_PAYLOADS); i++) {
        const cn_payload *p = &payloads[i];
        const cn_schema *schema = cn_schema_find(d->event.domain, p->schema);
        if (!schema || schema->is_enum || schema->is_union) {
            cn_count(CN_TALLY_UNKNOWN_SCHEMA);
            continue;
        }
        cn_view view = {p->data, get_payload_size(p, schema)};
        if (!schema->is_dynamic && view.size < schema->size) {
            cn_count(CN_TALLY_SHORT_PAYLOAD);
            continue;
        }
        d->views[d->key.payload_count] = view;
        d->key.payloads[d->key.payload_count++] = schema;
    }
}

/* The type of the argument that a simple payload becomes, KINETO_ARG_…; 0: none. */
static uint32_t get_payload_type(const cn_attributes *a)
{
    static const uint8_t types[] = {
        [CN_PAYLOAD_UINT64] = KINETO_ARG_UINT,   [CN_PAYLOAD_INT64] = KINETO_ARG_INT,
        [CN_PAYLOAD_DOUBLE] = KINETO_ARG_DOUBLE, [CN_PAYLOAD_UINT32] = KINETO_ARG_UINT,
        [CN_PAYLOAD_INT32] = KINETO_ARG_INT,     [CN_PAYLOAD_FLOAT] = KINETO_ARG_DOUBLE};
    return a->payload_type >= CN_PAYLOAD_UINT64 && a->payload_type <= CN_PAYLOAD_FLOAT
               ? types[a->payload_type]
               : 0;
}

/* Completes the key of the shape from the attributes. */
static void set_shape_flags(event_draft *d, const cn_attributes *a, const char *category)
{
    if (a->category)
        d->key.flags |= category ? CN_HAS_CATEGORY_NAME : CN_HAS_CATEGORY;
    if (a->color_type == CN_COLOR_ARGB)
        d->key.flags |= CN_HAS_COLOR;
    d->key.flags |= get_payload_type(a) << CN_PAYLOAD_SHIFT;
}

/* The simple payload as the union of values; smaller types are widened. */
static kineto_value get_payload_value(const cn_attributes *a)
{
    kineto_value v = {.u = a->payload.u64};
    if (a->payload_type == CN_PAYLOAD_UINT32)
        v.u = a->payload.u32;
    else if (a->payload_type == CN_PAYLOAD_INT32)
        v.i = a->payload.i32;
    else if (a->payload_type == CN_PAYLOAD_FLOAT)
        v.d = (double)a->payload.f32;
    return v;
}

/* Writes the values of attributes in the order of CN_HAS_…; returns their number. */
static uint32_t write_attribute_values(event_draft *d, const cn_attributes *a, const char *category)
{
    uint32_t n = 0, flags = d->key.flags;
    if (flags & CN_HAS_DOMAIN)
        d->values[n++].s = cn_domain_name(d->event.domain);
    if (flags & CN_HAS_CATEGORY)
        d->values[n++].u = a->category;
    if (flags & CN_HAS_CATEGORY_NAME)
        d->values[n++].s = category;
    if (flags & CN_HAS_COLOR)
        d->values[n++].u = a->color;
    if (flags >> CN_PAYLOAD_SHIFT)
        d->values[n++] = get_payload_value(a);
    return n;
}

/* Reads the payloads into the values from `n` on. */
static CN_NOINLINE void write_payload_values(event_draft *d, uint32_t n)
{
    cn_reader r = {.views = d->views,
                   .view_count = d->key.payload_count,
                   .scratch = &d->scratch,
                   .values = d->values,
                   .count = n,
                   .limit = d->event.shape->site.arg_count};
    for (uint32_t i = 0; i < d->key.payload_count; i++)
        cn_payload_read(&r, d->key.payloads[i], d->views[i]);
    while (r.count < r.limit) /* does not happen: shapes.c describes the same fields */
        d->values[r.count++].u = 0;
    if (r.message)
        d->event.text = r.message;
    if (r.is_short)
        cn_count(CN_TALLY_SHORT_PAYLOAD);
    if (r.is_foreign)
        cn_count(CN_TALLY_POINTER);
    if (d->event.shape->left_out)
        cn_count(CN_TALLY_ARGUMENTS);
}

/* The attributes of an event that has none; also the defaults of members that older headers
 * lack. */
static const cn_attributes no_attributes = {.version = CN_NVTX_VERSION,
                                            .size = sizeof no_attributes};

/* Finds the shape and writes the values. Without a shape the event is recorded without
 * arguments. */
static void finish_draft(event_draft *d, const cn_attributes *a)
{
    const char *category = a->category ? cn_category_name(d->event.domain, a->category) : NULL;
    set_shape_flags(d, a, category);
    const cn_shape *shape = cn_shape_get(&d->key);
    if (!shape) {
        cn_count(CN_TALLY_SHAPES);
        return;
    }
    d->event.shape = shape;
    uint32_t n = write_attribute_values(d, a, category);
    if (d->key.payload_count)
        write_payload_values(d, n);
    d->event.values = shape->site.arg_count ? d->values : NULL;
    if (d->scratch.cut)
        cn_count(CN_TALLY_CUT);
}

/* Attributes of a newer header as they are; those of an older one completed by defaults in
 * `copy`. */
static const cn_attributes *get_full_attributes(const cn_attributes *a, cn_attributes *copy)
{
    if (a && CN_LIKELY(a->size >= sizeof *a))
        return a;
    *copy = no_attributes;
    if (a && a->size >= offsetof(cn_attributes, category))
        memcpy(copy, a, a->size);
    return copy;
}

/* Converts attributes of any version, including binary payloads. */
static void draft_from_attributes(event_draft *d, uint32_t domain, const cn_attributes *attributes)
{
    cn_attributes copy;
    const cn_attributes *a = get_full_attributes(attributes, &copy);
    begin_draft(d, domain);
    set_event_message(d, a);
    if (a->payload_type == CN_PAYLOAD_EXTENDED)
        add_draft_payloads(d, (const cn_payload *)(uintptr_t)a->payload.u64, (uint32_t)a->reserved);
    finish_draft(d, a);
}

/* Converts the payloads of the extension's functions, which have no attributes. */
static void draft_from_payloads(event_draft *d, cn_handle domain, const cn_payload *payloads,
                                size_t count)
{
    begin_draft(d, cn_domain_from_handle(domain));
    add_draft_payloads(d, payloads, count);
    finish_draft(d, &no_attributes);
}

/* ---- ranges of a thread ----------------------------------------------------------------------
 * A push returns its level, or CN_NO_TRACKING while no session records and the thread has no open
 * range. Plain texts take a fast path (text.c of the front) without a draft, whose frame is
 * large. */

static CN_NOINLINE int push_draft(uint32_t domain, const cn_attributes *a)
{
    event_draft d;
    draft_from_attributes(&d, domain, a);
    return cn_push(&d.event);
}

int cn_range_push_wide(const wchar_t *text)
{
    cn_attributes a = {.size = sizeof a, .message_type = CN_MESSAGE_WIDE, .message.wide = text};
    return cn_has_work() ? push_draft(0, &a) : CN_NO_TRACKING;
}

int cn_range_push_ex(const cn_attributes *a)
{
    return cn_has_work() ? push_draft(0, a) : CN_NO_TRACKING;
}

int cn_domain_push(cn_handle domain, const cn_attributes *a)
{
    return cn_has_work() ? push_draft(cn_domain_from_handle(domain), a) : CN_NO_TRACKING;
}

int cn_domain_pop(cn_handle domain)
{
    return cn_has_work() ? cn_pop(cn_domain_from_handle(domain)) : CN_NO_TRACKING;
}

int cn_payload_push(cn_handle domain, const cn_payload *payloads, size_t count)
{
    if (!cn_has_work())
        return CN_NO_TRACKING;
    event_draft d;
    draft_from_payloads(&d, domain, payloads, count);
    return cn_push(&d.event);
}

/* Payloads at the end of a range become additional arguments of it. */
static CN_NOINLINE void add_range_payloads(cn_handle domain, const cn_payload *payloads,
                                           size_t count)
{
    event_draft d;
    kineto_range range = cn_find_innermost(cn_domain_from_handle(domain));
    if (!range)
        return;
    begin_draft(&d, cn_domain_from_handle(domain));
    d.key.flags = 0; /* the range already has the domain as an argument */
    add_draft_payloads(&d, payloads, count);
    finish_draft(&d, &no_attributes);
    if (d.event.values)
        kineto_range_args(range, cn_shape_site(d.event.shape), d.event.values);
}

int cn_payload_pop(cn_handle domain, const cn_payload *payloads, size_t count)
{
    if (!cn_has_work())
        return CN_NO_TRACKING;
    if (cn_recording())
        add_range_payloads(domain, payloads, count);
    return cn_pop(cn_domain_from_handle(domain));
}

/* ---- moments --------------------------------------------------------------------------------- */

static CN_NOINLINE void mark_draft(uint32_t domain, const cn_attributes *a)
{
    event_draft d;
    draft_from_attributes(&d, domain, a);
    cn_mark_event(&d.event);
}

void cn_mark_wide(const wchar_t *text)
{
    cn_attributes a = {.size = sizeof a, .message_type = CN_MESSAGE_WIDE, .message.wide = text};
    if (cn_recording())
        mark_draft(0, &a);
}

void cn_mark_ex(const cn_attributes *a)
{
    if (cn_recording())
        mark_draft(0, a);
}

void cn_domain_mark(cn_handle domain, const cn_attributes *a)
{
    if (cn_recording())
        mark_draft(cn_domain_from_handle(domain), a);
}

void cn_payload_mark(cn_handle domain, const cn_payload *payloads, size_t count)
{
    if (!cn_recording())
        return;
    event_draft d;
    draft_from_payloads(&d, domain, payloads, count);
    cn_mark_event(&d.event);
}

/* ---- ranges with ids -------------------------------------------------------------------------
 * They may end on another thread. Ranges that are not recorded have the id CN_NOT_RECORDED. */

static CN_NOINLINE uint64_t start_draft(uint32_t domain, const cn_attributes *a)
{
    event_draft d;
    draft_from_attributes(&d, domain, a);
    return cn_start(&d.event);
}

uint64_t cn_range_start_wide(const wchar_t *text)
{
    cn_attributes a = {.size = sizeof a, .message_type = CN_MESSAGE_WIDE, .message.wide = text};
    return cn_recording() ? start_draft(0, &a) : CN_NOT_RECORDED;
}

uint64_t cn_range_start_ex(const cn_attributes *a)
{
    return cn_recording() ? start_draft(0, a) : CN_NOT_RECORDED;
}

uint64_t cn_domain_start(cn_handle domain, const cn_attributes *a)
{
    return cn_recording() ? start_draft(cn_domain_from_handle(domain), a) : CN_NOT_RECORDED;
}

uint64_t cn_payload_start(cn_handle domain, const cn_payload *payloads, size_t count)
{
    if (!cn_recording())
        return CN_NOT_RECORDED;
    event_draft d;
    draft_from_payloads(&d, domain, payloads, count);
    return cn_start(&d.event);
}

/* The id alone identifies the range. */
void cn_domain_end(cn_handle domain, uint64_t id)
{
    (void)domain;
    cn_end(id);
}

void cn_payload_end(cn_handle domain, uint64_t id, const cn_payload *payloads, size_t count)
{
    (void)domain;
    if (payloads && count && cn_recording())
        cn_count(CN_TALLY_END_PAYLOAD);
    cn_end(id);
}
