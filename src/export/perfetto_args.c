/* Args as typed debug annotations, on the general path: numbers, texts and booleans as such, lists
 * and objects item by item. Values without a type in Perfetto (null, empty lists and objects)
 * become their JSON text. */
#include "export/perfetto.h"

#include "trace/bytes/json_text.h"

static const char *const column_keys[KE_PF_OWN_END] = {
    "", "correlation", "External id", "finished", "started", "arguments lost", "async id"};

/* ---- keys ------------------------------------------------------------------------------------ */

/* Whether a key may repeat an id or a flag of the row. */
static uint32_t column_kind_of_key(kineto_string key)
{
    for (uint32_t i = KE_PF_OWN_CORRELATION; i < KE_PF_OWN_ASYNC; i++)
        if (kb_string_equal(key, kb_string(column_keys[i])))
            return i < KE_PF_OWN_FINISHED ? KE_PF_ID_COLUMN : KE_PF_FLAG_COLUMN;
    return kb_string_equal(key, kb_string("external id")) ? KE_PF_ID_COLUMN : KE_PF_NO_COLUMN;
}

/* The text of a raw JSON string; valid until the next call. */
static kineto_string unescape_into_scratch(ke_perfetto *w, kineto_string raw)
{
    if (!raw.size || !memchr(raw.data, '\\', raw.size))
        return raw;
    if (!kb_vec_reserve(&w->unescaped, raw.size)) {
        w->out_of_memory = true;
        return (kineto_string){"", 0};
    }
    char *end = kt_json_unescape(w->unescaped.data, raw, &w->packets.replaced);
    return (kineto_string){w->unescaped.data, (size_t)(end - w->unescaped.data)};
}

/* The properties of a key by its raw spelling, computed at first use; NULL: out of memory. Also
 * enters the key into the table of the fast path. */
static const ke_pf_key *lookup_raw_key(ke_perfetto *w, kineto_string raw, uint32_t *id)
{
    *id = kb_intern_id(&w->raw_keys, raw);
    while (*id != KB_INTERN_NONE && w->raw_info.count <= *id) {
        kineto_string text =
            unescape_into_scratch(w, kb_intern_get(&w->raw_keys, (uint32_t)w->raw_info.count));
        ke_pf_key key = {.column = column_kind_of_key(text)};
        key.text.data = kb_arena_copy(&w->arena, text.data, text.size);
        key.text.size = text.size;
        if (!key.text.data || !kb_vec_push(&w->raw_info, key))
            *id = KB_INTERN_NONE;
    }
    if (*id == KB_INTERN_NONE) {
        w->out_of_memory = true;
        return NULL;
    }
    const ke_pf_key *key = &w->raw_info.data[*id];
    /* A copy that outlives the source's text. */
    raw = kb_intern_get(&w->raw_keys, *id);
    *ke_pf_slot_of(w, raw) = (ke_pf_slot){raw, KE_PF_OWN_INDEX(*id), key->column};
    return key;
}

/* Interns the keys of columns first, so that their ids are those of the enumeration. */
bool ke_pf_plan_args(ke_perfetto *w)
{
    uint32_t id;
    for (uint32_t i = KE_PF_OWN_CORRELATION; i < KE_PF_OWN_END; i++)
        if (!lookup_raw_key(w, kb_string(column_keys[i]), &id))
            return false;
    return true;
}

/* `index` as in KE_PF_OWN_INDEX: even for packed args, odd for raw texts. */
static void put_annotation_key(ke_perfetto *w, uint32_t index, kineto_string text)
{
    bool fresh;
    uint32_t number = ke_pf_intern_id(w, &w->keys, index, &fresh);
    if (KINETO_UNLIKELY(fresh))
        ke_pf_intern_text(w, KE_PF_INTERNED_KEY, number, text);
    ke_proto_uint(&w->packets, KE_PF_VALUE_KEY, number);
}

static size_t begin_packed_annotation(ke_perfetto *w, uint32_t key)
{
    size_t mark = ke_proto_begin(&w->packets, KE_PF_EVENT_ANNOTATION);
    put_annotation_key(w, 2 * key, kineto_trace_string(w->trace, key));
    return mark;
}

static size_t begin_text_annotation(ke_perfetto *w, uint32_t id)
{
    size_t mark = ke_proto_begin(&w->packets, KE_PF_EVENT_ANNOTATION);
    put_annotation_key(w, KE_PF_OWN_INDEX(id), w->raw_info.data[id].text);
    return mark;
}

/* ---- values of JSON -------------------------------------------------------------------------- */

const double ke_pf_powers[16] = {1e0, 1e1, 1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};

/* For long numbers and exponents. */
static double parse_double_by_library(kineto_string raw)
{
    char text[400];
    size_t size = KB_MIN(raw.size, sizeof text - 1);
    memcpy(text, raw.data, size);
    text[size] = '\0';
    return kb_strtod(text, NULL);
}

/* Numbers of up to 15 digits without an exponent are the quotient of two exact doubles, which is
 * rounded correctly. */
static double parse_json_double(kineto_string raw)
{
    uint64_t digits = 0;
    size_t at = raw.data[0] == '-', decimals = 0;
    if (raw.size > 17)
        return parse_double_by_library(raw);
    for (bool point = false; at < raw.size; at++) {
        unsigned digit = (unsigned char)raw.data[at] - (unsigned)'0';
        if (digit > 9 && (point || raw.data[at] != '.'))
            return parse_double_by_library(raw);
        decimals += point;
        point |= digit > 9;
        digits = digit > 9 ? digits : digits * 10 + digit;
    }
    if (digits > UINT64_C(999999999999999) || decimals > 15)
        return parse_double_by_library(raw);
    double value = (double)digits / ke_pf_powers[decimals];
    return raw.data[0] == '-' ? -value : value;
}

static void put_json_number(ke_perfetto *w, kineto_string raw)
{
    int64_t i;
    uint64_t u;
    if (kt_json_int(raw, &i))
        ke_proto_int(&w->packets, KE_PF_VALUE_INT, i);
    else if (kt_json_uint(raw, &u))
        ke_proto_uint(&w->packets, KE_PF_VALUE_UINT, u);
    else
        ke_proto_double(&w->packets, KE_PF_VALUE_DOUBLE, parse_json_double(raw));
}

static void put_text_value(ke_perfetto *w, kineto_string text)
{
    if (ke_pf_is_word(text))
        ke_proto_bool(&w->packets, KE_PF_VALUE_IS_TEXT, true);
    ke_proto_string(&w->packets, KE_PF_VALUE_STRING, text);
}

static void put_json_value(ke_perfetto *w, kineto_string raw);

/* The items of a list or object; false: there are none. The text was validated when it was read,
 * and nests no deeper than KT_JSON_MAX_DEPTH. */
static bool put_json_items(ke_perfetto *w, kineto_string raw)
{
    kt_scan scan = kt_scan_of(raw);
    kineto_string key = {"", 0}, value;
    bool first = true, any = false, object = raw.data[0] == '{';
    if (!kt_scan_open(&scan, raw.data[0]))
        return false;
    while (kt_scan_more(&scan, &first, raw.data[0])) {
        if ((object && !kt_scan_key(&scan, &key)) || !kt_scan_value(&scan, &value))
            break;
        size_t mark = ke_proto_begin(&w->packets, object ? KE_PF_VALUE_ENTRY : KE_PF_VALUE_ITEM);
        if (object)
            ke_proto_string(&w->packets, KE_PF_VALUE_KEY_TEXT, unescape_into_scratch(w, key));
        put_json_value(w, value);
        ke_proto_end(&w->packets, mark);
        any = true;
    }
    return any;
}

static void put_json_value(ke_perfetto *w, kineto_string raw)
{
    switch (raw.size ? raw.data[0] : 'n') {
    case '"':
        put_text_value(w, unescape_into_scratch(w, kt_json_inside(raw)));
        return;
    case 't':
    case 'f':
        ke_proto_bool(&w->packets, KE_PF_VALUE_BOOL, raw.data[0] == 't');
        return;
    case '{':
    case '[':
        if (put_json_items(w, raw))
            return;
        break;
    case 'n':
        break;
    default:
        put_json_number(w, raw);
        return;
    }
    ke_proto_string(&w->packets, KE_PF_VALUE_STRING, raw);
}

/* ---- args ------------------------------------------------------------------------------------ */

static void put_packed_annotations(ke_perfetto *w, const kt_block *b, uint32_t i)
{
    kt_args args = kt_args_of(w->trace, b, i);
    kt_arg arg = {0};
    while (kt_args_step(&args, &arg)) {
        size_t mark = begin_packed_annotation(w, arg.key);
        if (arg.type == KINETO_ARG_INT)
            ke_proto_int(&w->packets, KE_PF_VALUE_INT, arg.i);
        else if (arg.type == KINETO_ARG_UINT)
            ke_proto_uint(&w->packets, KE_PF_VALUE_UINT, arg.u);
        else if (arg.type == KINETO_ARG_DOUBLE)
            ke_proto_double(&w->packets, KE_PF_VALUE_DOUBLE, arg.d);
        else if (arg.type == KINETO_ARG_BOOL)
            ke_proto_bool(&w->packets, KE_PF_VALUE_BOOL, arg.u != 0);
        else if (arg.type == KINETO_ARG_STRING)
            put_text_value(w, arg.text);
        else
            put_json_value(w, arg.text);
        ke_proto_end(&w->packets, mark);
    }
}

static void put_verbatim_annotations(ke_perfetto *w, kineto_row row, uint32_t flags)
{
    kt_scan scan = kt_scan_of(kt_args_text(w->trace, row));
    kineto_string raw, value;
    bool first = true;
    uint32_t id;
    if (!kt_scan_open(&scan, '{'))
        return;
    while (kt_scan_more(&scan, &first, '{')) {
        if (!kt_scan_key(&scan, &raw) || !kt_scan_value(&scan, &value))
            return;
        const ke_pf_key *key = lookup_raw_key(w, raw, &id);
        if (!key)
            return;
        if (key->column != KE_PF_NO_COLUMN && kt_args_member_is_column(key->text, value, flags))
            continue;
        size_t mark = begin_text_annotation(w, id);
        put_json_value(w, value);
        ke_proto_end(&w->packets, mark);
    }
}

static void put_uint_column(ke_perfetto *w, uint32_t key, uint64_t value)
{
    size_t mark = begin_text_annotation(w, key);
    ke_proto_uint(&w->packets, KE_PF_VALUE_UINT, value);
    ke_proto_end(&w->packets, mark);
}

static void put_bool_column(ke_perfetto *w, uint32_t key, bool value)
{
    size_t mark = begin_text_annotation(w, key);
    ke_proto_bool(&w->packets, KE_PF_VALUE_BOOL, value);
    ke_proto_end(&w->packets, mark);
}

/* The order is that of the fast path, so that a trace does not depend on which path wrote an
 * event. */
void ke_pf_put_args(ke_perfetto *w, const kt_block *b, uint32_t i, kineto_row row)
{
    uint32_t flags = b->flags[i];
    kt_args_form form = kt_args_form_of(b, i);
    if (b->external_id[i])
        put_uint_column(w, KE_PF_OWN_EXTERNAL, b->external_id[i]);
    if (b->correlation_id[i])
        put_uint_column(w, KE_PF_OWN_CORRELATION, b->correlation_id[i]);
    if (b->form[i] == KINETO_FORM_ASYNC)
        put_uint_column(w, KE_PF_OWN_ASYNC, kt_async_id(w->trace, row));
    if (form == KT_ARGS_PACKED)
        put_packed_annotations(w, b, i);
    else if (form == KT_ARGS_JSON)
        put_verbatim_annotations(w, row, flags);
    if (flags & KINETO_ACTIVITY_OPEN_END)
        put_bool_column(w, KE_PF_OWN_FINISHED, false);
    if (flags & KINETO_ACTIVITY_OPEN_START)
        put_bool_column(w, KE_PF_OWN_STARTED, false);
    if (flags & KINETO_ACTIVITY_ARGS_LOST)
        put_bool_column(w, KE_PF_OWN_LOST, true);
}
