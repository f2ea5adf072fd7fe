/* Layouts of binary payloads, as programs register them. A layout is checked and copied; from then
 * on it never changes. It can only refer to layouts that were registered before it, so that cycles
 * are impossible. Unsupported entries are kept as CN_CLASS_NONE, so that the positions of the
 * others stay right. */
#include "nvtx.h"

#include <stdio.h>

#define MAX_SCHEMAS       2048u
#define MAX_DEPTH         6u
#define MAX_BYTES         (UINT32_C(1) << 30)
#define HAS(mask, number) (((mask) >> (number)) & 1)

/* ---- predefined types ------------------------------------------------------------------------ */

#define TYPE(class, c_type) {CN_CLASS_##class, sizeof(c_type), _Alignof(c_type)}
static const cn_type predefined_types[CN_TYPE_LIMIT] = {
    [CN_TYPE_CHAR] = TYPE(CHARS, char),
    [CN_TYPE_UCHAR] = TYPE(UINT, unsigned char),
    [CN_TYPE_SHORT] = TYPE(INT, short),
    [CN_TYPE_USHORT] = TYPE(UINT, unsigned short),
    [CN_TYPE_INT] = TYPE(INT, int),
    [CN_TYPE_UINT] = TYPE(UINT, unsigned),
    [CN_TYPE_LONG] = TYPE(INT, long),
    [CN_TYPE_ULONG] = TYPE(UINT, unsigned long),
    [CN_TYPE_LONGLONG] = TYPE(INT, long long),
    [CN_TYPE_ULONGLONG] = TYPE(UINT, unsigned long long),
    [CN_TYPE_INT8] = TYPE(INT, int8_t),
    [CN_TYPE_UINT8] = TYPE(UINT, uint8_t),
    [CN_TYPE_INT16] = TYPE(INT, int16_t),
    [CN_TYPE_UINT16] = TYPE(UINT, uint16_t),
    [CN_TYPE_INT32] = TYPE(INT, int32_t),
    [CN_TYPE_UINT32] = TYPE(UINT, uint32_t),
    [CN_TYPE_INT64] = TYPE(INT, int64_t),
    [CN_TYPE_UINT64] = TYPE(UINT, uint64_t),
    [CN_TYPE_FLOAT] = TYPE(FLOAT, float),
    [CN_TYPE_DOUBLE] = TYPE(FLOAT, double),
    [CN_TYPE_LONGDOUBLE] = TYPE(FLOAT, long double),
    [CN_TYPE_SIZE] = TYPE(UINT, size_t),
    [CN_TYPE_ADDRESS] = TYPE(UINT, void *),
    [CN_TYPE_WCHAR] = TYPE(CHARS, wchar_t),
    [CN_TYPE_CHAR8] = TYPE(CHARS, char),
    [CN_TYPE_CHAR16] = TYPE(CHARS, uint16_t),
    [CN_TYPE_CHAR32] = TYPE(CHARS, uint32_t),
    [CN_TYPE_BYTE] = TYPE(BYTES, char),
    [CN_TYPE_FLOAT16] = TYPE(FLOAT, uint16_t),
    [CN_TYPE_FLOAT32] = TYPE(FLOAT, float),
    [CN_TYPE_FLOAT64] = TYPE(FLOAT, double),
    [CN_TYPE_BF16] = TYPE(FLOAT, uint16_t),
    [CN_TYPE_CATEGORY] = TYPE(UINT, uint32_t),
    [CN_TYPE_COLOR_ARGB] = TYPE(UINT, uint32_t),
    [CN_TYPE_SCOPE_ID] = TYPE(UINT, uint64_t),
    [CN_TYPE_PID_UINT32] = TYPE(UINT, uint32_t),
    [CN_TYPE_PID_UINT64] = TYPE(UINT, uint64_t),
    [CN_TYPE_TID_UINT32] = TYPE(UINT, uint32_t),
    [CN_TYPE_TID_UINT64] = TYPE(UINT, uint64_t),
    [CN_TYPE_CSTRING] = TYPE(TEXT, char),
    [CN_TYPE_CSTRING_UTF8] = TYPE(TEXT, char),
    [CN_TYPE_CSTRING_UTF16] = TYPE(TEXT, uint16_t),
    [CN_TYPE_CSTRING_UTF32] = TYPE(TEXT, uint32_t),
    [CN_TYPE_NVTX_REGISTERED_STRING_HANDLE] = TYPE(HANDLE, void *),
};

/* CN_CLASS_NONE for numbers that stand for no supported type. */
static cn_type get_predefined_type(uint64_t type)
{
    return predefined_types[type < CN_TYPE_LIMIT ? type : 0];
}

static bool is_text_field(const cn_field *f)
{
    return f->class == CN_CLASS_TEXT || (f->class == CN_CLASS_CHARS && f->array) ||
           (f->class == CN_CLASS_CHARS && f->is_pointer);
}

uint32_t cn_field_arg_type(const cn_field *f)
{
    bool is_single = !f->array && !f->is_pointer;
    if (is_text_field(f) || f->class == CN_CLASS_BYTES ||
        (is_single && f->class == CN_CLASS_HANDLE) || (is_single && f->class == CN_CLASS_ENUM))
        return KINETO_ARG_STRING;
    if (!is_single) {
        bool fits_int64 = f->class == CN_CLASS_INT || (f->class == CN_CLASS_UINT && f->size < 8);
        return fits_int64 ? KINETO_ARG_INTS : KINETO_ARG_JSON;
    }
    switch (f->class) {
    case CN_CLASS_INT:
    case CN_CLASS_CHARS:
        return KINETO_ARG_INT;
    case CN_CLASS_UINT:
        return KINETO_ARG_UINT;
    case CN_CLASS_FLOAT:
        return KINETO_ARG_DOUBLE;
    case CN_CLASS_NESTED:
        return 0;
    default:
        return KINETO_ARG_JSON;
    }
}

/* ---- the registry ---------------------------------------------------------------------------- */

static _Atomic(cn_schema *) schema_table[2 * MAX_SCHEMAS], predefined[CN_TYPE_LIMIT + 2];
static uint32_t schema_count;
static atomic_uint_fast64_t next_schema_id = CN_SCHEMA_DYNAMIC_FIRST;

/* Ids that a program chooses are local to a domain; those that we gave out are global. */
static uint32_t get_schema_key_domain(uint32_t domain, uint64_t id)
{
    return id < CN_SCHEMA_DYNAMIC_FIRST ? domain : 0;
}

/* The slot of a schema, or the free one where it belongs. The table is twice as large as the
 * limit. */
static _Atomic(cn_schema *) *find_schema_slot(uint32_t domain, uint64_t id)
{
    domain = get_schema_key_domain(domain, id);
    uint64_t hash = (id ^ (uint64_t)domain << 40) * UINT64_C(0x9e3779b97f4a7c15);
    for (uint32_t i = (uint32_t)(hash >> 40) % CN_COUNT(schema_table);;
         i = (i + 1) % CN_COUNT(schema_table)) {
        const cn_schema *s = atomic_load_explicit(&schema_table[i], memory_order_acquire);
        if (!s || (s->id == id && s->domain == domain))
            return &schema_table[i];
    }
}

/* The schema of a payload that is one value, a text, or raw bytes; NULL: no memory. */
static cn_schema *create_predefined(uint64_t id)
{
    cn_type type = get_predefined_type(id == CN_SCHEMA_RAW ? CN_TYPE_BYTE : id);
    cn_schema *s = cn_alloc_permanent(sizeof *s + sizeof(cn_field));
    if (!s)
        return NULL;
    bool is_remainder =
        type.class == CN_CLASS_CHARS || type.class == CN_CLASS_TEXT || type.class == CN_CLASS_BYTES;
    *s = (cn_schema){.id = id, .align = 1, .count = id != CN_SCHEMA_REFERENCED};
    s->size = is_remainder || !s->count ? 0 : type.size;
    s->fields[0] = (cn_field){.class = type.class,
                              .unit = type.size,
                              .size = type.size,
                              .align = 1,
                              .type = id,
                              .array = is_remainder ? CN_ARRAY_REMAINDER : 0};
    return s;
}

/* The schema of a predefined type, created at its first use; NULL: unsupported. */
static const cn_schema *find_predefined(uint64_t id)
{
    bool special = id == CN_SCHEMA_RAW || id == CN_SCHEMA_REFERENCED;
    if (!special && get_predefined_type(id).class == CN_CLASS_NONE)
        return NULL;
    _Atomic(cn_schema *) *slot =
        &predefined[special ? CN_TYPE_LIMIT + (id - CN_SCHEMA_REFERENCED) : id];
    cn_schema *s = atomic_load_explicit(slot, memory_order_acquire);
    if (s || !cn_tables_lock())
        return s;
    s = atomic_load(slot);
    if (!s && (s = create_predefined(id)))
        atomic_store_explicit(slot, s, memory_order_release);
    cn_tables_unlock();
    return s;
}

const cn_schema *cn_schema_find(uint32_t domain, uint64_t id)
{
    return id < CN_SCHEMA_STATIC_FIRST
               ? find_predefined(id)
               : atomic_load_explicit(find_schema_slot(domain, id), memory_order_acquire);
}

static uint64_t hash_schema_bytes(uint64_t hash, const void *data, size_t size)
{
    const unsigned char *at = data;
    while (size--)
        hash = (hash ^ *at++) * UINT64_C(0x100000001b3);
    return hash;
}

/* Adds a schema. Each copy of a library registers its schemas again: an equal one stays, and one
 * that differs replaces the old one. False: the limit is reached or no memory. */
static bool publish_schema(const cn_schema *draft, const void *tail, size_t tail_bytes, bool labels)
{
    size_t head = sizeof *draft;
    if (!cn_tables_lock())
        return false;
    _Atomic(cn_schema *) *slot = find_schema_slot(draft->domain, draft->id);
    cn_schema *there = atomic_load(slot);
    bool done = there && there->hash == draft->hash;
    if (!done && schema_count < MAX_SCHEMAS) {
        cn_schema *s = cn_alloc_permanent(head + tail_bytes);
        if (s) {
            *s = *draft;
            memcpy(s->fields, tail, tail_bytes);
            if (labels)
                s->labels = (const cn_label *)(const void *)s->fields;
            atomic_store_explicit(slot, s, memory_order_release);
            schema_count += there == NULL;
            done = true;
        }
    }
    cn_tables_unlock();
    return done;
}

static const char *intern_schema_text(const char *text)
{
    const cn_name *name = text && *text ? cn_name_intern(text, strlen(text)) : NULL;
    return name ? name->text : NULL;
}

/* ---- fields ---------------------------------------------------------------------------------- */

/* A schema under construction. `end`: the end of the last field; `pack`: largest alignment, 0:
 * any. */
typedef struct schema_builder {
    cn_field fields[CN_MAX_FIELDS];
    uint32_t domain, end, pack;
    /* The position of the next field is unknown. */
    bool is_lost;
    /* Last, because it ends in a flexible array. */
    cn_schema schema;
} schema_builder;

/* Resolves a type that is a registered schema; leaves CN_CLASS_NONE if it cannot be nested. */
static void set_nested_schema(const schema_builder *b, cn_field *f)
{
    const cn_schema *s =
        f->type >= CN_SCHEMA_STATIC_FIRST ? cn_schema_find(b->domain, f->type) : NULL;
    if (!s || (!s->size && !s->is_enum) || s->is_dynamic || s->depth >= MAX_DEPTH)
        return;
    f->nested = s;
    f->size = s->size;
    f->align = (uint8_t)s->align;
    if (s->is_enum)
        f->class = CN_CLASS_ENUM;
    else
        f->class = s->is_union ? CN_CLASS_UNION : CN_CLASS_NESTED;
}

/* True if field `index` can hold a length or a selector: a single number before this field. */
static bool is_earlier_number(const schema_builder *b, uint64_t index)
{
    if (index >= b->schema.count)
        return false;
    const cn_field *f = &b->fields[index];
    return (f->class == CN_CLASS_INT || f->class == CN_CLASS_UINT) && !f->array && !f->is_pointer;
}

const char *cn_unit_of(const cn_semantics *semantics)
{
    for (uint32_t i = 0; semantics && i < 16; i++, semantics = semantics->next)
        if (semantics->id == CN_SEMANTICS_COUNTER &&
            semantics->struct_size >= offsetof(cn_counter_semantics, unit_numerator))
            return intern_schema_text(
                ((const cn_counter_semantics *)(const void *)semantics)->unit);
    return NULL;
}

/* Texts may have a fixed length; by default they are an address of a terminated text. */
static void set_text_array(cn_field *f)
{
    if (!f->array && f->detail && !f->is_pointer)
        f->array = CN_ARRAY_FIXED;
    else if (!f->array) {
        f->is_pointer = true;
        f->array = CN_ARRAY_ZERO_TERMINATED;
    } else if (f->array == CN_ARRAY_ZERO_TERMINATED && f->detail)
        f->class = CN_CLASS_NONE;
}

/* False if the field's length or selector is invalid, or its class cannot be an array. */
static bool is_supported_field(const schema_builder *b, const cn_field *f)
{
    switch (f->array) {
    case CN_ARRAY_NONE:
        break;
    case CN_ARRAY_FIXED:
        if (!f->detail || f->detail > MAX_BYTES / f->size)
            return false;
        break;
    case CN_ARRAY_LENGTH_INDEX:
        if (!is_earlier_number(b, f->detail))
            return false;
        break;
    default:
        break;
    }
    if (f->class == CN_CLASS_UNION)
        return !f->array && !f->is_pointer && is_earlier_number(b, f->detail);
    if (f->class == CN_CLASS_HANDLE)
        return !f->array && !f->is_pointer;
    return true;
}

/* Fills a field from its entry, all but the position; CN_CLASS_NONE if it is unsupported. */
static void classify_field(const schema_builder *b, cn_field *f, const cn_entry *e)
{
    cn_type type = get_predefined_type(e->type);
    uint32_t array = CN_ENTRY_ARRAY(e->flags);
    *f = (cn_field){.type = e->type,
                    .class = type.class,
                    .unit = type.size,
                    .size = type.size,
                    .align = type.align,
                    .array = (uint8_t)array,
                    .detail = e->detail,
                    .is_pointer = (e->flags & CN_ENTRY_POINTER) != 0,
                    .is_message = (e->flags & CN_ENTRY_EVENT_MESSAGE) != 0,
                    .is_time = (e->flags & CN_ENTRY_TIMESTAMP) != 0,
                    .name = intern_schema_text(e->name),
                    .unit_name = cn_unit_of(e->semantics)};
    if (f->class == CN_CLASS_NONE)
        set_nested_schema(b, f);
    if (f->class == CN_CLASS_TEXT)
        set_text_array(f);
    if ((e->flags & CN_ENTRY_OFFSETS) || array > CN_ARRAY_LENGTH_INDEX ||
        (f->class != CN_CLASS_NONE && (!f->size || !is_supported_field(b, f))))
        f->class = CN_CLASS_NONE;
    if (f->is_message && !is_text_field(f) && f->class != CN_CLASS_HANDLE)
        f->is_message = false;
}

/* Bytes of a field within the struct; 0: they depend on the data. */
static uint32_t count_field_bytes(const cn_field *f)
{
    if (f->is_pointer)
        return sizeof(void *);
    if (f->array == CN_ARRAY_FIXED)
        return (uint32_t)(f->detail * f->size);
    return f->array ? 0 : f->size;
}

/* The alignment of a field, limited by the packing of the schema; at least 1. */
static uint32_t get_field_alignment(const schema_builder *b, const cn_field *f)
{
    uint32_t align = f->is_pointer ? (uint32_t)_Alignof(void *) : f->align;
    if (!align)
        align = 1;
    return b->pack && b->pack < align ? b->pack : align;
}

/* True if the entry states its offset. 0 is an offset only for the first entry and in unions;
 * elsewhere it means "after the previous field". */
static bool has_given_offset(const schema_builder *b, const cn_entry *e)
{
    return e->offset != 0 || b->schema.count == 0 || b->schema.is_union;
}

/* Makes the schema large and aligned enough for a field. `at` and `bytes` are at most MAX_BYTES. */
static void extend_schema(schema_builder *b, uint32_t at, uint32_t bytes, uint32_t align)
{
    cn_schema *s = &b->schema;
    b->end = CN_MIN(at + bytes, MAX_BYTES);
    if (s->size < b->end)
        s->size = b->end;
    if (s->align < align)
        s->align = align;
}

/* Decides where a field lies. After an unsupported field the position of the next one is unknown
 * unless its entry states it: such fields are unsupported, too. */
static void place_field(schema_builder *b, cn_field *f, const cn_entry *e)
{
    uint32_t align = get_field_alignment(b, f), at = (b->end + align - 1) & -align;
    bool is_given = has_given_offset(b, e);
    if (is_given)
        at = (uint32_t)CN_MIN(e->offset, MAX_BYTES);
    f->align = (uint8_t)align;
    f->offset = b->schema.is_dynamic && !is_given ? CN_AFTER_PREVIOUS : at;
    if ((!is_given && b->is_lost) || e->offset > MAX_BYTES)
        f->class = CN_CLASS_NONE;
    b->is_lost = f->class == CN_CLASS_NONE;
    if (b->is_lost) {
        cn_count(CN_TALLY_ENTRY);
        return;
    }
    uint32_t bytes = count_field_bytes(f);
    b->schema.is_dynamic |= bytes == 0;
    extend_schema(b, at, bytes, align);
}

/* Adds a field for an entry, also if it is unsupported. */
static void add_schema_field(schema_builder *b, const cn_entry *e)
{
    cn_field *f = &b->fields[b->schema.count];
    classify_field(b, f, e);
    place_field(b, f, e);
    if (f->nested && b->schema.depth <= f->nested->depth)
        b->schema.depth = f->nested->depth + 1;
    b->schema.count++;
}

/* ---- registering ----------------------------------------------------------------------------- */

/* The program's id if it is in the range for such, else a new one. */
static uint64_t choose_schema_id(bool given, uint64_t id)
{
    bool usable = given && id >= CN_SCHEMA_STATIC_FIRST && id < CN_SCHEMA_DYNAMIC_FIRST;
    return usable ? id : atomic_fetch_add(&next_schema_id, 1);
}

/* Starts a schema from its attributes. False: they are incomplete or of an unsupported type. */
static bool begin_schema(schema_builder *b, uint32_t domain, const cn_schema_attributes *a)
{
    uint64_t mask = a->field_mask;
    bool is_complete = HAS(mask, CN_FIELD_TYPE) && HAS(mask, CN_FIELD_ENTRIES) &&
                       HAS(mask, CN_FIELD_ENTRY_COUNT) && a->entries;
    if (!is_complete || a->type < CN_SCHEMA_STATIC || a->type > CN_SCHEMA_UNION)
        return false;
    b->domain = domain;
    b->end = 0;
    b->is_lost = false;
    b->pack = HAS(mask, CN_FIELD_ALIGNMENT) && a->pack_align < 128 ? (uint32_t)a->pack_align : 0;
    if (b->pack & (b->pack - 1))
        return false;
    uint64_t id = choose_schema_id(HAS(mask, CN_FIELD_SCHEMA_ID), a->schema_id);
    b->schema = (cn_schema){.id = id,
                            .domain = get_schema_key_domain(domain, id),
                            .is_union = a->type == CN_SCHEMA_UNION,
                            .is_dynamic = a->type == CN_SCHEMA_DYNAMIC,
                            .align = 1};
    if (HAS(mask, CN_FIELD_NAME))
        b->schema.name = intern_schema_text(a->name);
    return true;
}

/* Computes the final size and the hash by which an equal schema is recognised. */
static void finish_schema(schema_builder *b, const cn_schema_attributes *a)
{
    cn_schema *s = &b->schema;
    uint32_t align = b->pack && b->pack < s->align ? b->pack : s->align;
    s->size = s->size < MAX_BYTES ? (s->size + align - 1) & -align : MAX_BYTES;
    if (HAS(a->field_mask, CN_FIELD_STATIC_SIZE) && a->static_size >= s->size &&
        a->static_size < MAX_BYTES)
        s->size = (uint32_t)a->static_size;
    s->hash = hash_schema_bytes(s->size, b->fields, s->count * sizeof *b->fields);
    s->hash = hash_schema_bytes(s->hash, &s->name, sizeof s->name);
}

uint64_t cn_schema_register(cn_handle domain, const cn_schema_attributes *a)
{
    schema_builder b;
    memset(&b, 0, sizeof b); /* padding is hashed */
    if (!a || !begin_schema(&b, cn_domain_from_handle(domain), a)) {
        cn_count(CN_TALLY_SCHEMA);
        return 0;
    }
    for (size_t i = 0; i < a->entry_count; i++) {
        if (b.schema.count == CN_MAX_FIELDS) {
            cn_count(CN_TALLY_ENTRY);
            break;
        }
        if (a->entries[i].type) /* programs may end the list with an empty one */
            add_schema_field(&b, &a->entries[i]);
    }
    finish_schema(&b, a);
    if (!publish_schema(&b.schema, b.fields, b.schema.count * sizeof *b.fields, false))
        cn_count(CN_TALLY_SCHEMA);
    return b.schema.id;
}

static bool is_complete_enum(const cn_enum_attributes *a)
{
    return a && HAS(a->field_mask, CN_ENUM_FIELD_ENTRIES) &&
           HAS(a->field_mask, CN_ENUM_FIELD_ENTRY_COUNT) && a->entries;
}

uint64_t cn_enum_register(cn_handle domain, const cn_enum_attributes *a)
{
    cn_label labels[256];
    uint64_t size =
        is_complete_enum(a) && HAS(a->field_mask, CN_ENUM_FIELD_SIZE) ? a->size_of_enum : 4;
    if (!is_complete_enum(a) || a->entry_count > CN_COUNT(labels) || size > 8 ||
        (size & (size - 1)) || !size) {
        cn_count(CN_TALLY_SCHEMA);
        return 0;
    }
    memset(labels, 0, sizeof labels);
    uint32_t count = (uint32_t)a->entry_count;
    for (uint32_t i = 0; i < count; i++) {
        labels[i].name = intern_schema_text(a->entries[i].name);
        labels[i].value = a->entries[i].value;
        labels[i].is_flag = a->entries[i].is_flag != 0;
    }
    uint64_t id = choose_schema_id(HAS(a->field_mask, CN_ENUM_FIELD_SCHEMA_ID), a->schema_id);
    cn_schema s = {.id = id,
                   .domain = get_schema_key_domain(cn_domain_from_handle(domain), id),
                   .size = (uint32_t)size,
                   .align = (uint32_t)size,
                   .count = count,
                   .is_enum = true,
                   .hash = hash_schema_bytes(size, labels, count * sizeof *labels)};
    if (!publish_schema(&s, labels, count * sizeof *labels, true))
        cn_count(CN_TALLY_SCHEMA);
    return id;
}

/* ---- arguments of a layout ------------------------------------------------------------------- */

#define MAX_ARG_NAME 256u

/* A permanent copy of "prefix.name", or "prefix.number" for a field without a name; NULL: no
 * memory. */
static const char *join_arg_name(const char *prefix, const char *name, uint32_t number)
{
    char text[MAX_ARG_NAME];
    const char *dot = prefix && *prefix ? "." : "";
    if (!prefix)
        prefix = "";
    int size = name && *name ? snprintf(text, sizeof text, "%s%s%s", prefix, dot, name)
                             : snprintf(text, sizeof text, "%s%s%u", prefix, dot, number);
    char *kept = size > 0 ? cn_alloc_permanent(strlen(text) + 1) : NULL;
    return kept ? memcpy(kept, text, strlen(text) + 1) : NULL;
}

/* Describes the arguments of a payload, in the order in which payload.c reads them. */
static void describe_payload_args(cn_arg_list *l, const char *prefix, const cn_schema *schema)
{
    for (uint32_t i = 0; i < schema->count; i++) {
        const cn_field *field = &schema->fields[i];
        const char *name = schema->count == 1 && !field->name ? prefix : NULL;
        if (field->class == CN_CLASS_NONE || field->is_message)
            continue;
        if (!name)
            name = join_arg_name(prefix, field->name, i);
        uint32_t type = cn_field_arg_type(field);
        if (type)
            cn_describe_arg(l, name, type);
        else
            describe_payload_args(l, name, field->nested);
    }
}

void cn_describe_schema(cn_arg_list *l, const void *payload)
{
    const cn_schema *schema = payload;
    describe_payload_args(l, schema->name ? schema->name : "payload", schema);
}
