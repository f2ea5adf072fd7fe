/* Layouts of NVTX's binary payloads, and payloads: whatever a program registers and hands over,
 * nothing is read but what is in the payloads, and what was made of it is sound.
 *
 * A list of commands: 's' a layout with its entries, 'e' an enumeration, 'p' a payload. Every byte
 * that is missing is 0. */
#include "nvtx.h"
#include "nvtx_parts.h"

#include "base/base.h"

#define MOST_COMMANDS 24
#define MOST_ENTRIES  12
#define SCHEMA(n)     (CN_SCHEMA_STATIC_FIRST + (n) % 8u)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct input {
    const uint8_t *at;
    size_t left;
} input;

static uint8_t take(input *in)
{
    if (!in->left)
        return 0;
    in->left--;
    return *in->at++;
}

/* Small, and now and then anything. */
static uint64_t take_number(input *in)
{
    uint8_t first = take(in);
    if (first < 0xf0)
        return first;
    uint64_t value = 0;
    for (uint8_t i = 0; i <= first % 8; i++)
        value = value << 8 | take(in);
    return value;
}

static uint64_t take_type(input *in)
{
    uint8_t type = take(in);
    return type < 0xe0 ? type % CN_TYPE_LIMIT : SCHEMA(type);
}

static void take_entry(input *in, cn_entry *e)
{
    static const char *const names[] = {"a", "b", "", NULL, "a", "\xff"};
    *e = (cn_entry){.flags = take_number(in), .type = take_type(in)};
    e->name = names[take(in) % CN_COUNT(names)];
    e->detail = take_number(in);
    e->offset = take_number(in);
}

static void add_schema(input *in)
{
    cn_entry entries[MOST_ENTRIES];
    cn_schema_attributes a = {.field_mask = 0x1fe, .name = "S", .entries = entries};
    uint8_t mask = take(in);
    if (mask >= 0xf0)
        a.field_mask &= ~(UINT64_C(2) << mask % 16); /* something is not said */
    a.schema_id = SCHEMA(take(in));
    a.type = take(in) % 6;
    a.pack_align = take_number(in);
    a.static_size = take_number(in);
    a.entry_count = take(in) % (MOST_ENTRIES + 1);
    for (size_t i = 0; i < a.entry_count; i++)
        take_entry(in, &entries[i]);
    (void)cn_schema_register(NULL, &a);
}

static void add_enum(input *in)
{
    cn_enum_entry entries[MOST_ENTRIES];
    cn_enum_attributes a = {.field_mask = 0x3e, .name = "E", .entries = entries};
    a.schema_id = SCHEMA(take(in));
    a.size_of_enum = take_number(in);
    a.entry_count = take(in) % (MOST_ENTRIES + 1);
    for (size_t i = 0; i < a.entry_count; i++)
        entries[i] =
            (cn_enum_entry){take(in) % 2 ? "one" : NULL, take_number(in), (int8_t)take(in)};
    (void)cn_enum_register(NULL, &a);
}

static void check_text(const char *text, uint32_t type)
{
    if (!text)
        return;
    size_t bytes = strlen(text);
    char copy[CN_SCRATCH_BYTES + 1];
    if (bytes >= sizeof copy)
        abort();
    for (size_t i = 0; i <= bytes; i++) /* programs' bytes, which need not be UTF-8 */
        copy[i] = text[i] & 0x80 ? '?' : text[i];
    if (type == KINETO_ARG_JSON && !kb_json_valid((kineto_string){copy, bytes}))
        abort();
}

/* Values follow one another as arguments of the shape would: as fields do, those within in place.
 */
static uint32_t check_values(const cn_schema *s, const kineto_value *values, uint32_t at,
                             uint32_t count)
{
    for (uint32_t i = 0; i < s->count && at < count; i++) {
        const cn_field *f = &s->fields[i];
        if (f->class == CN_CLASS_NONE || f->is_message)
            continue;
        uint32_t type = cn_field_arg_type(f);
        if (!type) {
            at = check_values(f->nested, values, at, count);
            continue;
        }
        if (type == KINETO_ARG_STRING || type == KINETO_ARG_JSON)
            check_text(values[at].s, type);
        at++;
    }
    return at;
}

static void read_payload(input *in)
{
    static cn_scratch scratch;
    kineto_value values[CN_MAX_FIELDS];
    uint8_t which = take(in);
    const cn_schema *s = cn_schema_find(0, which < 0x80 ? SCHEMA(which) : which % CN_TYPE_LIMIT);
    size_t bytes = take_number(in);
    bytes = CN_MIN(bytes, in->left);
    char *copy = malloc(bytes ? bytes : 1); /* its end is watched */
    if (!copy)
        return;
    memcpy(copy, in->at, bytes);
    in->at += bytes;
    in->left -= bytes;
    cn_view views[1] = {{copy, bytes}};
    scratch.used = 0;
    scratch.cut = false;
    cn_reader r = {.views = views,
                   .view_count = 1,
                   .scratch = &scratch,
                   .values = values,
                   .limit = CN_COUNT(values)};
    if (s && !s->is_enum) {
        cn_payload_read(&r, s, views[0]);
        if (r.count > r.limit)
            abort();
        (void)check_values(s, values, 0, r.count);
    }
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    input in = {data, size};
    fuzz_names_forget();
    fuzz_schemas_forget();
    for (int i = 0; i < MOST_COMMANDS && in.left; i++) {
        switch (take(&in)) {
        case 's':
            add_schema(&in);
            break;
        case 'e':
            add_enum(&in);
            break;
        case 'p':
            read_payload(&in);
            break;
        default:
            break;
        }
    }
    return 0;
}
