/* Reads binary payloads. A payload is untrusted: nothing outside of the bytes that the program
 * passed is read, whatever its layout, lengths and addresses claim. Fields are visited in the order
 * in which shapes.c described them, so that values and descriptions match. */
#include "nvtx.h"

#include <stdio.h>

/* ---- scratch --------------------------------------------------------------------------------- */

/* Space for `bytes`, aligned to 8; NULL: none left, which sets `cut`. */
static void *alloc_scratch(cn_scratch *s, size_t bytes)
{
    bytes = (bytes + 7) & ~(size_t)7;
    if (bytes > sizeof s->bytes - s->used) {
        s->cut = true;
        return NULL;
    }
    void *taken = s->bytes + s->used;
    s->used += bytes;
    return taken;
}

const char *cn_scratch_text(cn_scratch *s, const char *text, size_t size)
{
    size_t room = sizeof s->bytes - s->used;
    if (size >= room) {
        s->cut = true;
        if (room < 8)
            return "";
        size = room - 1;
    }
    char *copy = alloc_scratch(s, size + 1);
    if (!copy)
        return "";
    memcpy(copy, text, size);
    copy[size] = 0;
    return copy;
}

/* ---- numbers --------------------------------------------------------------------------------- */

/* True if `size` bytes at `at` are within the view; cannot overflow. */
static bool is_in_view(const cn_view *view, size_t at, size_t size)
{
    return at <= view->size && size <= view->size - at;
}

bool cn_read_unsigned(const cn_view *view, size_t at, unsigned size, uint64_t *out)
{
    uint8_t b;
    uint16_t h;
    uint32_t w;
    *out = 0;
    if (!is_in_view(view, at, size))
        return false;
    const char *from = view->data + at;
    if (size == 1) {
        memcpy(&b, from, sizeof b);
        *out = b;
    } else if (size == 2) {
        memcpy(&h, from, sizeof h);
        *out = h;
    } else if (size == 4) {
        memcpy(&w, from, sizeof w);
        *out = w;
    } else if (size == 8) {
        memcpy(out, from, sizeof *out);
    }
    return true;
}

bool cn_read_signed(const cn_view *view, size_t at, unsigned size, int64_t *out)
{
    uint64_t bits;
    bool there = cn_read_unsigned(view, at, size, &bits);
    *out = (int64_t)bits;
    if (size < 8 && size) {
        uint64_t sign = UINT64_C(1) << (8 * size - 1);
        *out = (int64_t)((bits ^ sign) - sign);
    }
    return there;
}

/* IEEE 754 half precision: 1 bit of sign, 5 of exponent, 10 of mantissa. */
static double convert_half(uint64_t bits)
{
    uint64_t exponent = bits >> 10 & 31, mantissa = bits & 1023, sign = bits >> 15 & 1;
    double value = exponent ? 1024.0 + (double)mantissa : (double)mantissa;
    uint64_t special = sign << 63 | UINT64_C(0x7ff) << 52 | (mantissa ? UINT64_C(1) << 51 : 0);
    if (exponent == 31) {
        memcpy(&value, &special, sizeof value);
        return value;
    }
    for (uint64_t e = exponent ? exponent : 1; e < 25; e++)
        value /= 2;
    for (uint64_t e = 25; e < exponent; e++)
        value *= 2;
    return sign ? -value : value;
}

/* A number of any floating type of NVTX. bfloat16 is the upper half of a float. */
static double read_float_bytes(const char *from, const cn_field *field)
{
    float f;
    double d;
    long double l;
    uint16_t h;
    if (field->type == CN_TYPE_FLOAT16 || field->type == CN_TYPE_BF16) {
        memcpy(&h, from, sizeof h);
        uint32_t wide = (uint32_t)h << 16;
        memcpy(&f, &wide, sizeof f);
        return field->type == CN_TYPE_BF16 ? (double)f : convert_half(h);
    }
    if (field->type == CN_TYPE_LONGDOUBLE) {
        memcpy(&l, from, sizeof l);
        return (double)l;
    }
    if (field->size == sizeof f) {
        memcpy(&f, from, sizeof f);
        return (double)f;
    }
    memcpy(&d, from, sizeof d);
    return d;
}

bool cn_read_float(const cn_view *view, size_t at, const cn_field *field, double *out)
{
    *out = 0;
    if (!is_in_view(view, at, field->size))
        return false;
    *out = read_float_bytes(view->data + at, field);
    return true;
}

/* ---- positions ------------------------------------------------------------------------------- */

void cn_struct_begin(cn_struct *s, const cn_schema *schema, cn_view view, size_t base)
{
    s->schema = schema;
    s->view = view;
    s->base = s->at = base;
}

/* Turns an address into a position within one of the event's payloads. False: it is NULL or leads
 * outside of them. */
static bool follow_payload_pointer(cn_reader *r, uint64_t address, cn_extent *out)
{
    for (uint32_t i = 0; i < r->view_count; i++) {
        uint64_t into = address - (uint64_t)(uintptr_t)r->views[i].data;
        if (r->views[i].data && into < r->views[i].size) {
            out->view = r->views[i];
            out->at = (size_t)into;
            return true;
        }
    }
    r->is_foreign |= address != 0;
    return false;
}

/* Elements of `size` bytes before the first that is all zero, or before the end of the view. */
static size_t count_until_zero(const cn_extent *where, size_t size)
{
    static const char zeros[16];
    size_t count = 0, at = where->at;
    while (is_in_view(&where->view, at, size)) {
        const char *element = where->view.data + at;
        bool is_end = true;
        for (size_t i = 0; i < size && is_end; i += sizeof zeros)
            is_end = memcmp(element + i, zeros, CN_MIN(size - i, sizeof zeros)) == 0;
        if (is_end)
            break;
        count++;
        at += size;
    }
    return count;
}

/* The number of elements that the layout claims; cn_struct_next limits it to the data. */
static uint64_t get_element_count(const cn_struct *s, const cn_field *f, const cn_extent *where)
{
    uint64_t count = 1;
    int64_t number = 0;
    const cn_field *holder;
    switch (f->array) {
    case CN_ARRAY_FIXED:
        return f->detail;
    case CN_ARRAY_ZERO_TERMINATED:
        return count_until_zero(where, f->size);
    case CN_ARRAY_LENGTH_INDEX:
        holder = &s->schema->fields[f->detail];
        if (holder->class == CN_CLASS_UINT)
            (void)cn_read_unsigned(&s->view, s->offsets[f->detail], holder->size, &count);
        else if (cn_read_signed(&s->view, s->offsets[f->detail], holder->size, &number))
            count = number > 0 ? (uint64_t)number : 0;
        return count;
    case CN_ARRAY_REMAINDER:
        return UINT64_MAX;
    default:
        return 1;
    }
}

bool cn_struct_next(cn_reader *r, cn_struct *s, uint32_t i, cn_extent *out)
{
    const cn_field *f = &s->schema->fields[i];
    size_t align = f->align ? f->align : 1;
    size_t at = f->offset == CN_AFTER_PREVIOUS
                    ? s->base + (((s->at - s->base) + align - 1) & ~(align - 1))
                    : s->base + f->offset;
    s->offsets[i] = at;
    *out = (cn_extent){s->view, at, 0};
    if (f->is_pointer) {
        uint64_t address;
        s->at = at + sizeof(void *);
        bool there = cn_read_unsigned(&s->view, at, sizeof(void *), &address);
        r->is_short |= !there;
        if (!there || !follow_payload_pointer(r, address, out))
            return false;
    }
    if (out->at > out->view.size) {
        r->is_short = true;
        return false;
    }
    uint64_t count = get_element_count(s, f, out), available = (out->view.size - out->at) / f->size;
    if (count > available && f->array != CN_ARRAY_REMAINDER)
        r->is_short = true;
    out->count = (size_t)CN_MIN(count, available);
    if (!f->is_pointer)
        s->at = at + (out->count + (f->array == CN_ARRAY_ZERO_TERMINATED)) * f->size;
    return out->count != 0 || f->array;
}

/* ---- values ---------------------------------------------------------------------------------- */

const char *cn_read_text(cn_reader *r, const cn_field *f, const cn_extent *where)
{
    const char *from = where->view.data + where->at;
    size_t bytes = where->count * f->unit;
    if (!where->count)
        return "";
    if (f->unit == 1) {
        const char *end = memchr(from, 0, bytes);
        return end ? from : cn_scratch_text(r->scratch, from, bytes);
    }
    char text[1024];
    if (!cn_text_from_units(from, where->count, f->unit, text, sizeof text))
        r->scratch->cut = true;
    return cn_scratch_text(r->scratch, text, strlen(text));
}

/* Bytes as hexadecimal digits, cut to 512 bytes. */
static const char *write_hex(cn_reader *r, const cn_extent *where)
{
    static const char digits[] = "0123456789abcdef";
    size_t count = CN_MIN(where->count, 512u);
    char *text = alloc_scratch(r->scratch, 2 * count + 1);
    if (count < where->count)
        r->scratch->cut = true;
    if (!text)
        return "";
    for (size_t i = 0; i < count; i++) {
        unsigned char byte = (unsigned char)where->view.data[where->at + i];
        text[2 * i] = digits[byte >> 4];
        text[2 * i + 1] = digits[byte & 15];
    }
    text[2 * count] = 0;
    return text;
}

size_t cn_enum_name(const cn_schema *e, uint64_t value, char *to, size_t room)
{
    size_t used = 0;
    uint64_t left = value;
    *to = 0;
    for (uint32_t i = 0; i < e->count; i++)
        if (e->labels[i].name && e->labels[i].value == value)
            return (size_t)snprintf(to, room, "%s", e->labels[i].name);
    for (uint32_t i = 0; i < e->count && used < room; i++) {
        const cn_label *l = &e->labels[i];
        if (!l->is_flag || !l->name || !l->value || (left & l->value) != l->value)
            continue;
        used += (size_t)snprintf(to + used, room - used, "%s%s", used ? "|" : "", l->name);
        left &= ~l->value;
    }
    if ((left || !used) && used < room)
        used += (size_t)snprintf(to + used, room - used, "%s%llu", used ? "|" : "",
                                 (unsigned long long)left);
    return used;
}

/* The name of an enumeration's value in the scratch space. */
static const char *get_enum_text(cn_reader *r, const cn_field *f, const cn_extent *where)
{
    char text[256];
    uint64_t value;
    if (!cn_read_unsigned(&where->view, where->at, f->size, &value))
        return "";
    size_t size = cn_enum_name(f->nested, value, text, sizeof text);
    return cn_scratch_text(r->scratch, text, CN_MIN(size, sizeof text - 1));
}

/* The text of a field of any class that becomes a string argument. */
static const char *get_string_value(cn_reader *r, const cn_field *f, const cn_extent *where)
{
    uint64_t handle;
    if (f->class == CN_CLASS_BYTES)
        return write_hex(r, where);
    if (f->class == CN_CLASS_ENUM)
        return get_enum_text(r, f, where);
    if (f->class != CN_CLASS_HANDLE)
        return cn_read_text(r, f, where);
    (void)cn_read_unsigned(&where->view, where->at, f->size, &handle);
    const cn_name *name = cn_name_from_handle((cn_handle)(uintptr_t)handle);
    return name ? name->text : "";
}

/* A list of whole numbers, cut to the free scratch space; NULL: there is none. */
static const kineto_ints *get_ints_value(cn_reader *r, const cn_field *f, const cn_extent *where)
{
    size_t room = (sizeof r->scratch->bytes - r->scratch->used) / sizeof(int64_t);
    size_t count = room > 2 ? CN_MIN(where->count, room - 2) : 0;
    kineto_ints *list = room > 2 ? alloc_scratch(r->scratch, sizeof *list) : NULL;
    int64_t *data = list ? alloc_scratch(r->scratch, count * sizeof *data) : NULL;
    if (!list || count < where->count)
        r->scratch->cut = true;
    if (!data)
        return NULL;
    for (size_t i = 0; i < count; i++) {
        size_t at = where->at + i * f->size;
        uint64_t u = 0;
        if (f->class == CN_CLASS_INT)
            (void)cn_read_signed(&where->view, at, f->size, &data[i]);
        else if (cn_read_unsigned(&where->view, at, f->size, &u))
            data[i] = (int64_t)u;
        else
            data[i] = 0;
    }
    *list = (kineto_ints){data, count};
    return list;
}

/* The value of a field as an argument of the given type. */
static kineto_value get_field_value(cn_reader *r, const cn_struct *s, const cn_field *f,
                                    const cn_extent *where, uint32_t type)
{
    kineto_value v = {.u = 0};
    switch (type) {
    case KINETO_ARG_INT:
        (void)cn_read_signed(&where->view, where->at, f->size, &v.i);
        break;
    case KINETO_ARG_UINT:
        (void)cn_read_unsigned(&where->view, where->at, f->size, &v.u);
        break;
    case KINETO_ARG_DOUBLE:
        (void)cn_read_float(&where->view, where->at, f, &v.d);
        break;
    case KINETO_ARG_STRING:
        v.s = get_string_value(r, f, where);
        break;
    case KINETO_ARG_INTS:
        v.ints = get_ints_value(r, f, where);
        break;
    default:
        v.s = cn_field_json(r, s, f, where);
    }
    return v;
}

/* The value of a field that the payload is too short for. */
static kineto_value make_missing_value(uint32_t type)
{
    kineto_value v = {.u = 0};
    if (type == KINETO_ARG_STRING)
        v.s = "";
    else if (type == KINETO_ARG_JSON)
        v.s = "null";
    return v;
}

static void read_payload_struct(cn_reader *r, const cn_schema *schema, cn_view view, size_t base);

/* Reads one field: as the event's message, as an argument, or as a nested struct with several. */
static void read_payload_field(cn_reader *r, cn_struct *s, uint32_t i)
{
    const cn_field *f = &s->schema->fields[i];
    cn_extent where;
    bool there = cn_struct_next(r, s, i, &where);
    if (f->is_message) {
        if (there)
            r->message = get_string_value(r, f, &where);
        return;
    }
    uint32_t type = cn_field_arg_type(f);
    if (!type) {
        read_payload_struct(r, f->nested, where.view, where.at);
        return;
    }
    kineto_value v = there ? get_field_value(r, s, f, &where, type) : make_missing_value(type);
    if (r->count < r->limit)
        r->values[r->count++] = v;
}

/* All fields, in the order in which shapes.c describes them. */
static void read_payload_struct(cn_reader *r, const cn_schema *schema, cn_view view, size_t base)
{
    cn_struct s;
    cn_struct_begin(&s, schema, view, base);
    for (uint32_t i = 0; i < schema->count; i++)
        if (schema->fields[i].class != CN_CLASS_NONE)
            read_payload_field(r, &s, i);
}

void cn_payload_read(cn_reader *r, const cn_schema *schema, cn_view view)
{
    read_payload_struct(r, schema, view, 0);
}
