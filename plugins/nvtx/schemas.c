/* Layouts of binary payloads. What a program registers is copied and checked; from then on a layout
 * never changes. A layout consists of those that were registered before it, so it has no circles.
 */
#include "nvtx.h"

#define MAX_SCHEMAS       2048u
#define MAX_DEPTH         6u
#define MAX_BYTES         (UINT32_C(1) << 30)
#define HAS(mask, number) (((mask) >> (number)) & 1)

/* ---- predefined types -------------------------------------------------------------------------- */

#define TYPE(class, c_type)                                                                        \
    {                                                                                              \
        CN_CLASS_##class, sizeof(c_type), _Alignof(c_type)                                         \
    }
static const cn_type types[CN_TYPE_LIMIT] = {
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

static cn_type type_of(uint64_t type) { return types[type < CN_TYPE_LIMIT ? type : 0]; }

static bool is_text(const cn_field *f)
{
    return f->class == CN_CLASS_TEXT || (f->class == CN_CLASS_CHARS && f->array) ||
           (f->class == CN_CLASS_CHARS && f->is_pointer);
}

uint32_t cn_field_arg_type(const cn_field *f)
{
    bool alone = !f->array && !f->is_pointer;
    if (is_text(f) || f->class == CN_CLASS_BYTES || (alone && f->class == CN_CLASS_HANDLE) ||
        (alone && f->class == CN_CLASS_ENUM))
        return KINETO_ARG_STRING;
    if (!alone) {
        bool small = f->class == CN_CLASS_INT || (f->class == CN_CLASS_UINT && f->size < 8);
        return small ? KINETO_ARG_INTS : KINETO_ARG_JSON;
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

/* ---- the registry ------------------------------------------------------------------------------ */

static _Atomic(cn_schema *) table[2 * MAX_SCHEMAS], predefined[CN_TYPE_LIMIT + 2];
static uint32_t schema_count;
static atomic_uint_fast64_t next_id = CN_SCHEMA_DYNAMIC_FIRST;

/* Those that a program numbers itself are its domain's. */
static uint32_t key_domain(uint32_t domain, uint64_t id)
{
    return id < CN_SCHEMA_DYNAMIC_FIRST ? domain : 0;
}

static _Atomic(cn_schema *) *slot_of(uint32_t domain, uint64_t id)
{
    domain = key_domain(domain, id);
    uint64_t hash = (id ^ (uint64_t)domain << 40) * UINT64_C(0x9e3779b97f4a7c15);
    for (uint32_t i = (uint32_t)(hash >> 40) % CN_COUNT(table);; i = (i + 1) % CN_COUNT(table)) {
        const cn_schema *s = atomic_load_explicit(&table[i], memory_order_acquire);
        if (!s || (s->id == id && s->domain == domain))
            return &table[i];
    }
}

/* A payload that is one value, a text, or bytes that nobody knows. */
static cn_schema *predefined_make(uint64_t id)
{
    cn_type type = type_of(id == CN_SCHEMA_RAW ? CN_TYPE_BYTE : id);
    cn_schema *s = cn_keep(sizeof *s + sizeof(cn_field));
    if (!s)
        return NULL;
    bool rest =
        type.class == CN_CLASS_CHARS || type.class == CN_CLASS_TEXT || type.class == CN_CLASS_BYTES;
    *s = (cn_schema){.id = id, .align = 1, .count = id != CN_SCHEMA_REFERENCED};
    s->size = rest || !s->count ? 0 : type.size;
    s->fields[0] = (cn_field){.class = type.class,
                              .unit = type.size,
                              .size = type.size,
                              .align = 1,
                              .type = id,
                              .array = rest ? CN_ARRAY_REST : 0};
    return s;
}

static const cn_schema *predefined_find(uint64_t id)
{
    bool special = id == CN_SCHEMA_RAW || id == CN_SCHEMA_REFERENCED;
    if (!special && type_of(id).class == CN_CLASS_NONE)
        return NULL;
    _Atomic(cn_schema *) *slot =
        &predefined[special ? CN_TYPE_LIMIT + (id - CN_SCHEMA_REFERENCED) : id];
    cn_schema *s = atomic_load_explicit(slot, memory_order_acquire);
    if (s || !cn_lock_take())
        return s;
    s = atomic_load(slot);
    if (!s && (s = predefined_make(id)))
        atomic_store_explicit(slot, s, memory_order_release);
    cn_lock_give();
    return s;
}

const cn_schema *cn_schema_find(uint32_t domain, uint64_t id)
{
    return id < CN_SCHEMA_STATIC_FIRST
               ? predefined_find(id)
               : atomic_load_explicit(slot_of(domain, id), memory_order_acquire);
}

static uint64_t hash_bytes(uint64_t hash, const void *data, size_t size)
{
    const unsigned char *at = data;
    while (size--)
        hash = (hash ^ *at++) * UINT64_C(0x100000001b3);
    return hash;
}

/* Registered again as it was, it stays: each copy of a library does so. */
static bool publish(const cn_schema *draft, const void *tail, size_t tail_bytes, bool labels)
{
    size_t head = sizeof *draft;
    if (!cn_lock_take())
        return false;
    _Atomic(cn_schema *) *slot = slot_of(draft->domain, draft->id);
    cn_schema *there = atomic_load(slot);
    bool done = there && there->hash == draft->hash;
    if (!done && schema_count < MAX_SCHEMAS) {
        cn_schema *s = cn_keep(head + tail_bytes);
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
    cn_lock_give();
    return done;
}

static const char *text_keep(const char *text)
{
    const cn_name *name = text && *text ? cn_name_intern(text, strlen(text)) : NULL;
    return name ? name->text : NULL;
}

/* ---- fields ------------------------------------------------------------------------------------ */

typedef struct builder {
    cn_field fields[CN_MAX_FIELDS];
    uint32_t domain, end, pack;
    bool is_lost;     /* where the next field begins is not known */
    cn_schema schema; /* last: it ends in a list */
} builder;

static void set_nested(const builder *b, cn_field *f)
{
    const cn_schema *s =
        f->type >= CN_SCHEMA_STATIC_FIRST ? cn_schema_find(b->domain, f->type) : NULL;
    if (!s || (!s->size && !s->is_enum) || s->is_dynamic || s->depth >= MAX_DEPTH)
        return;
    f->nested = s;
    f->size = s->size;
    f->align = (uint8_t)s->align;
    f->class = s->is_enum ? CN_CLASS_ENUM : s->is_union ? CN_CLASS_UNION : CN_CLASS_NESTED;
}

static bool is_number_before(const builder *b, uint64_t index)
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
            return text_keep(((const cn_counter_semantics *)(const void *)semantics)->unit);
    return NULL;
}

/* A text without a length is an address where nothing else is said. */
static void set_text(cn_field *f)
{
    if (!f->array && f->detail && !f->is_pointer)
        f->array = CN_ARRAY_FIXED;
    else if (!f->array) {
        f->is_pointer = true;
        f->array = CN_ARRAY_ZERO_TERMINATED;
    } else if (f->array == CN_ARRAY_ZERO_TERMINATED && f->detail)
        f->class = CN_CLASS_NONE;
}

static bool is_understood(const builder *b, const cn_field *f)
{
    switch (f->array) {
    case CN_ARRAY_NONE:
        break;
    case CN_ARRAY_FIXED:
        if (!f->detail || f->detail > MAX_BYTES / f->size)
            return false;
        break;
    case CN_ARRAY_LENGTH_INDEX:
        if (!is_number_before(b, f->detail))
            return false;
        break;
    default:
        break;
    }
    if (f->class == CN_CLASS_UNION)
        return !f->array && !f->is_pointer && is_number_before(b, f->detail);
    if (f->class == CN_CLASS_HANDLE)
        return !f->array && !f->is_pointer;
    return true;
}

static void field_classify(const builder *b, cn_field *f, const cn_entry *e)
{
    cn_type type = type_of(e->type);
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
                    .name = text_keep(e->name),
                    .unit_name = cn_unit_of(e->semantics)};
    if (f->class == CN_CLASS_NONE)
        set_nested(b, f);
    if (f->class == CN_CLASS_TEXT)
        set_text(f);
    if ((e->flags & CN_ENTRY_OFFSETS) || array > CN_ARRAY_LENGTH_INDEX ||
        (f->class != CN_CLASS_NONE && (!f->size || !is_understood(b, f))))
        f->class = CN_CLASS_NONE;
    if (f->is_message && !is_text(f) && f->class != CN_CLASS_HANDLE)
        f->is_message = false;
}

/* Bytes within the struct; 0: only the data tells. */
static uint32_t field_bytes(const cn_field *f)
{
    if (f->is_pointer)
        return sizeof(void *);
    if (f->array == CN_ARRAY_FIXED)
        return (uint32_t)(f->detail * f->size);
    return f->array ? 0 : f->size;
}

static void field_place(builder *b, cn_field *f, const cn_entry *e)
{
    cn_schema *s = &b->schema;
    uint32_t align = f->is_pointer ? (uint32_t) _Alignof(void *) : f->align;
    align = b->pack && b->pack < align ? b->pack : align ? align : 1;
    f->align = (uint8_t)align;
    bool given = e->offset != 0 || s->count == 0 || s->is_union;
    if ((!given && b->is_lost) || e->offset > MAX_BYTES)
        f->class = CN_CLASS_NONE;
    uint32_t at = given ? (uint32_t)CN_MIN(e->offset, MAX_BYTES) : (b->end + align - 1) & -align;
    f->offset = s->is_dynamic && !given ? CN_BEHIND : at;
    if (f->class == CN_CLASS_NONE) {
        b->is_lost = true;
        cn_count(CN_TALLY_ENTRY);
        return;
    }
    b->is_lost = false;
    uint32_t bytes = field_bytes(f);
    s->is_dynamic |= bytes == 0;
    uint32_t end = at + bytes < MAX_BYTES ? at + bytes : MAX_BYTES;
    b->end = end;
    s->size = s->size > end ? s->size : end;
    s->align = s->align > align ? s->align : align;
}

static void add_field(builder *b, const cn_entry *e)
{
    cn_field *f = &b->fields[b->schema.count];
    field_classify(b, f, e);
    field_place(b, f, e);
    if (f->nested && b->schema.depth <= f->nested->depth)
        b->schema.depth = f->nested->depth + 1;
    b->schema.count++;
}

/* ---- registering ------------------------------------------------------------------------------- */

static uint64_t take_id(bool given, uint64_t id)
{
    bool usable = given && id >= CN_SCHEMA_STATIC_FIRST && id < CN_SCHEMA_DYNAMIC_FIRST;
    return usable ? id : atomic_fetch_add(&next_id, 1);
}

static bool begin_schema(builder *b, uint32_t domain, const cn_schema_attributes *a)
{
    uint64_t mask = a->field_mask;
    bool whole = HAS(mask, CN_FIELD_TYPE) && HAS(mask, CN_FIELD_ENTRIES) &&
                 HAS(mask, CN_FIELD_ENTRY_COUNT) && a->entries;
    if (!whole || a->type < CN_SCHEMA_STATIC || a->type > CN_SCHEMA_UNION)
        return false;
    b->domain = domain;
    b->end = 0;
    b->is_lost = false;
    b->pack = HAS(mask, CN_FIELD_ALIGNMENT) && a->pack_align < 128 ? (uint32_t)a->pack_align : 0;
    if (b->pack & (b->pack - 1))
        return false;
    uint64_t id = take_id(HAS(mask, CN_FIELD_SCHEMA_ID), a->schema_id);
    b->schema = (cn_schema){.id = id,
                            .domain = key_domain(domain, id),
                            .is_union = a->type == CN_SCHEMA_UNION,
                            .is_dynamic = a->type == CN_SCHEMA_DYNAMIC,
                            .align = 1};
    if (HAS(mask, CN_FIELD_NAME))
        b->schema.name = text_keep(a->name);
    return true;
}

static void finish_schema(builder *b, const cn_schema_attributes *a)
{
    cn_schema *s = &b->schema;
    uint32_t align = b->pack && b->pack < s->align ? b->pack : s->align;
    s->size = s->size < MAX_BYTES ? (s->size + align - 1) & -align : MAX_BYTES;
    if (HAS(a->field_mask, CN_FIELD_STATIC_SIZE) && a->static_size >= s->size &&
        a->static_size < MAX_BYTES)
        s->size = (uint32_t)a->static_size;
    s->hash = hash_bytes(s->size, b->fields, s->count * sizeof *b->fields);
    s->hash = hash_bytes(s->hash, &s->name, sizeof s->name);
}

uint64_t cn_schema_register(cn_handle domain, const cn_schema_attributes *a)
{
    builder b;
    memset(&b, 0, sizeof b); /* padding is hashed */
    if (!a || !begin_schema(&b, cn_domain_of(domain), a)) {
        cn_count(CN_TALLY_SCHEMA);
        return 0;
    }
    for (size_t i = 0; i < a->entry_count; i++) {
        if (b.schema.count == CN_MAX_FIELDS) {
            cn_count(CN_TALLY_ENTRY);
            break;
        }
        if (a->entries[i].type) /* programs may end the list with an empty one */
            add_field(&b, &a->entries[i]);
    }
    finish_schema(&b, a);
    if (!publish(&b.schema, b.fields, b.schema.count * sizeof *b.fields, false))
        cn_count(CN_TALLY_SCHEMA);
    return b.schema.id;
}

static bool enum_is_whole(const cn_enum_attributes *a)
{
    return a && HAS(a->field_mask, CN_ENUM_FIELD_ENTRIES) &&
           HAS(a->field_mask, CN_ENUM_FIELD_ENTRY_COUNT) && a->entries;
}

uint64_t cn_enum_register(cn_handle domain, const cn_enum_attributes *a)
{
    cn_label labels[256];
    uint64_t size =
        enum_is_whole(a) && HAS(a->field_mask, CN_ENUM_FIELD_SIZE) ? a->size_of_enum : 4;
    if (!enum_is_whole(a) || a->entry_count > CN_COUNT(labels) || size > 8 || (size & (size - 1)) ||
        !size) {
        cn_count(CN_TALLY_SCHEMA);
        return 0;
    }
    memset(labels, 0, sizeof labels);
    uint32_t count = (uint32_t)a->entry_count;
    for (uint32_t i = 0; i < count; i++) {
        labels[i].name = text_keep(a->entries[i].name);
        labels[i].value = a->entries[i].value;
        labels[i].is_flag = a->entries[i].is_flag != 0;
    }
    uint64_t id = take_id(HAS(a->field_mask, CN_ENUM_FIELD_SCHEMA_ID), a->schema_id);
    cn_schema s = {.id = id,
                   .domain = key_domain(cn_domain_of(domain), id),
                   .size = (uint32_t)size,
                   .align = (uint32_t)size,
                   .count = count,
                   .is_enum = true,
                   .hash = hash_bytes(size, labels, count * sizeof *labels)};
    if (!publish(&s, labels, count * sizeof *labels, true))
        cn_count(CN_TALLY_SCHEMA);
    return id;
}
