/* Readable names of Rust's functions. Its compilers write symbols in two ways: as C++'s, with a hash as the
 * last part and punctuation in words ("legacy"), and in a grammar of its own ("v0", Rust RFC 2603). Names come
 * from files, which are untrusted: depth, steps and length are limited, and a name that does not follow the
 * grammar stays as it is. */
#include "trace/from_recording/rust_names.h"

#define MAX_DEPTH 64u
#define MAX_STEPS 4096u /* references to earlier parts can repeat each other */

/* ---- legacy ---------------------------------------------------------------------------------- */

/* "::h" and 16 hexadecimal digits at the end. */
static bool has_hash(kineto_string name)
{
    enum { BYTES = 19 };
    if (name.size <= BYTES || memcmp(name.data + name.size - BYTES, "::h", 3) != 0)
        return false;
    for (size_t i = name.size - 16; i < name.size; i++)
        if (kb_hex_value(name.data[i]) < 0 || (name.data[i] >= 'A' && name.data[i] <= 'F'))
            return false;
    return true;
}

/* A word for punctuation at `at`, between two '$'. @return its bytes; 0: none. */
static size_t match_word(const char *at, const char *end, char *meaning)
{
    static const struct {
        char text[8], meaning;
    } words[] = {{"$LT$", '<'},  {"$GT$", '>'},  {"$LP$", '('},  {"$RP$", ')'},  {"$RF$", '&'},
                 {"$BP$", '*'},  {"$C$", ','},   {"$SP$", '@'},  {"$u20$", ' '}, {"$u22$", '"'},
                 {"$u27$", '\''}, {"$u2b$", '+'}, {"$u3b$", ';'}, {"$u3d$", '='}, {"$u5b$", '['}, {"$u5d$", ']'},
                 {"$u7b$", '{'}, {"$u7d$", '}'}, {"$u7e$", '~'}};
    for (size_t i = 0; i < KB_COUNT(words); i++) {
        size_t bytes = strlen(words[i].text);
        *meaning = words[i].meaning;
        if ((size_t)(end - at) >= bytes && memcmp(at, words[i].text, bytes) == 0)
            return bytes;
    }
    return 0;
}

size_t kt_rust_legacy_name(kineto_string name, char *out, size_t room)
{
    if (!has_hash(name) || name.size >= room)
        return 0;
    const char *at = name.data, *end = at + name.size - 19;
    size_t used = 0;
    while (at < end) {
        char meaning;
        size_t bytes = match_word(at, end, &meaning);
        bool is_part_start = used == 0 || (used > 1 && out[used - 1] == ':' && out[used - 2] == ':');
        if (bytes)
            out[used++] = meaning;
        else if (end - at > 1 && at[0] == '.' && at[1] == '.') {
            bytes = 2;
            out[used++] = ':';
            out[used++] = ':';
        } else if (*at == '_' && is_part_start && end - at > 1 && at[1] == '$')
            bytes = 1; /* a part must not begin with '$' */
        else {
            bytes = 1;
            out[used++] = *at;
        }
        at += bytes;
    }
    return used;
}

/* ---- v0 -------------------------------------------------------------------------------------- */

typedef struct rust_reader {
    const char *text; /* after "_R" */
    size_t size, at;
    char *out;
    size_t room, used;
    uint32_t depth, steps;
    bool failed, is_silent; /* silent: read, not written */
} rust_reader;

static void read_path(rust_reader *r, bool is_value);
static void read_type(rust_reader *r);

static void put(rust_reader *r, const char *text, size_t bytes)
{
    if (r->is_silent || r->failed)
        return;
    if (bytes > r->room - r->used) {
        r->failed = true;
        return;
    }
    memcpy(r->out + r->used, text, bytes);
    r->used += bytes;
}

static void put_text(rust_reader *r, const char *text) { put(r, text, strlen(text)); }

static void put_number(rust_reader *r, uint64_t number)
{
    char text[24];
    snprintf(text, sizeof text, "%llu", (unsigned long long)number);
    put_text(r, text);
}

static char peek_letter(const rust_reader *r) { return r->at < r->size ? r->text[r->at] : '\0'; }

static bool take_letter(rust_reader *r, char letter)
{
    bool is_next = !r->failed && r->at < r->size && r->text[r->at] == letter;
    r->at += is_next;
    return is_next;
}

static uint64_t read_decimal(rust_reader *r)
{
    uint64_t n = 0;
    bool any = false;
    if (take_letter(r, '0'))
        return 0;
    for (char c; (c = peek_letter(r)) >= '0' && c <= '9' && n < r->size; any = true) {
        n = n * 10 + (uint64_t)(c - '0');
        r->at++;
    }
    r->failed |= !any;
    return n;
}

/* "_" is 0, "0_" is 1, … */
static uint64_t read_base_62(rust_reader *r)
{
    uint64_t n = 0;
    if (take_letter(r, '_'))
        return 0;
    for (char c; !r->failed && !take_letter(r, '_'); r->at++) {
        c = peek_letter(r);
        uint64_t digit = c >= '0' && c <= '9'   ? (uint64_t)(c - '0')
                         : c >= 'a' && c <= 'z' ? (uint64_t)(c - 'a') + 10
                         : c >= 'A' && c <= 'Z' ? (uint64_t)(c - 'A') + 36
                                                : 62;
        r->failed |= digit == 62 || n > (UINT64_MAX - 64) / 62;
        n = n * 62 + digit;
    }
    return n + 1;
}

static uint64_t read_disambiguator(rust_reader *r)
{
    return take_letter(r, 's') ? read_base_62(r) + 1 : 0;
}

/* An identifier that is not ASCII is written as it is encoded (Punycode). */
static kineto_string read_plain_identifier(rust_reader *r)
{
    (void)take_letter(r, 'u');
    uint64_t bytes = read_decimal(r);
    (void)take_letter(r, '_');
    r->failed |= bytes > r->size - r->at;
    if (r->failed)
        return (kineto_string){"", 0};
    kineto_string name = {r->text + r->at, (size_t)bytes};
    r->at += (size_t)bytes;
    return name;
}

/* One level deeper. False: too deep, or too many steps. Each true one is left by leave_level. */
static bool enter_level(rust_reader *r)
{
    r->failed |= r->depth >= MAX_DEPTH || ++r->steps > MAX_STEPS;
    r->depth += !r->failed;
    return !r->failed;
}

static void leave_level(rust_reader *r) { r->depth--; }

/* What was written earlier in the symbol, again. */
static void read_reference(rust_reader *r, void (*read)(rust_reader *))
{
    size_t before = r->at - 1;
    uint64_t to = read_base_62(r);
    size_t after = r->at;
    r->failed |= to >= before;
    if (r->failed || r->is_silent)
        return;
    r->at = (size_t)to;
    read(r);
    r->at = after;
}

static void read_value_path(rust_reader *r) { read_path(r, true); }
static void read_type_path(rust_reader *r) { read_path(r, false); }

/* The path of an implementation says where it is written, not what it is of. */
static void skip_implementation_path(rust_reader *r)
{
    bool was_silent = r->is_silent;
    (void)read_disambiguator(r);
    r->is_silent = true;
    read_path(r, false);
    r->is_silent = was_silent;
}

static void read_nested_path(rust_reader *r, bool is_value)
{
    char space = peek_letter(r);
    r->at++;
    read_path(r, is_value);
    uint64_t number = read_disambiguator(r);
    kineto_string name = read_plain_identifier(r);
    if (space >= 'A' && space <= 'Z') {
        put_text(r, space == 'C' ? "::{closure" : space == 'S' ? "::{shim" : "::{");
        if (space != 'C' && space != 'S')
            put(r, &space, 1);
        if (name.size) {
            put_text(r, ":");
            put(r, name.data, name.size);
        }
        put_text(r, "#");
        put_number(r, number);
        put_text(r, "}");
    } else if (name.size) {
        put_text(r, "::");
        put(r, name.data, name.size);
    }
}

/* The digits of a number, as a decimal one if it is short enough. */
static void put_hex_digits(rust_reader *r, char type, const char *digits, size_t count)
{
    uint64_t value = 0;
    for (size_t i = 0; i < count && count <= 16; i++)
        value = value << 4 | (uint64_t)kb_hex_value(digits[i]);
    if (type == 'b' && value <= 1 && count <= 16)
        put_text(r, value ? "true" : "false");
    else if (count <= 16)
        put_number(r, value);
    else {
        put_text(r, "0x");
        put(r, digits, count);
    }
}

/* A number; "_" for what is not known. */
static void read_constant(rust_reader *r)
{
    if (!enter_level(r))
        return;
    if (take_letter(r, 'B'))
        read_reference(r, read_constant);
    else if (take_letter(r, 'p'))
        put_text(r, "_");
    else {
        bool was_silent = r->is_silent;
        char type = peek_letter(r);
        r->is_silent = true;
        read_type(r);
        r->is_silent = was_silent;
        if (take_letter(r, 'n'))
            put_text(r, "-");
        size_t digits = r->at;
        while (r->at < r->size && kb_hex_value(r->text[r->at]) >= 0)
            r->at++;
        put_hex_digits(r, type, r->text + digits, r->at - digits);
        r->failed |= !take_letter(r, '_');
    }
    leave_level(r);
}

static void read_generic_arguments(rust_reader *r)
{
    for (bool is_first = true; !r->failed && !take_letter(r, 'E');) {
        if (take_letter(r, 'L')) {
            (void)read_base_62(r); /* a lifetime */
            continue;
        }
        put_text(r, is_first ? "" : ", ");
        is_first = false;
        if (take_letter(r, 'K'))
            read_constant(r);
        else
            read_type(r);
    }
}

static void read_as_trait(rust_reader *r)
{
    put_text(r, "<");
    read_type(r);
    put_text(r, " as ");
    read_path(r, false);
    put_text(r, ">");
}

static void read_path_kind(rust_reader *r, char kind, bool is_value)
{
    kineto_string name;
    switch (kind) {
    case 'C':
        (void)read_disambiguator(r);
        name = read_plain_identifier(r);
        put(r, name.data, name.size);
        break;
    case 'M':
        skip_implementation_path(r);
        put_text(r, "<");
        read_type(r);
        put_text(r, ">");
        break;
    case 'X':
        skip_implementation_path(r);
        read_as_trait(r);
        break;
    case 'Y':
        read_as_trait(r);
        break;
    case 'N':
        read_nested_path(r, is_value);
        break;
    case 'I':
        read_path(r, is_value);
        put_text(r, is_value ? "::<" : "<");
        read_generic_arguments(r);
        put_text(r, ">");
        break;
    case 'B':
        read_reference(r, is_value ? read_value_path : read_type_path);
        break;
    default:
        r->failed = true;
    }
}

static void read_path(rust_reader *r, bool is_value)
{
    if (!enter_level(r))
        return;
    char kind = peek_letter(r);
    r->at++;
    read_path_kind(r, kind, is_value);
    leave_level(r);
}

/* ---- v0: types ------------------------------------------------------------------------------- */

static const char *find_basic_type(char letter)
{
    static const char *const names[26] = {"i8",  "bool", "char", "f64",  "str",   "f32",  NULL, "u8",  "isize",
                                          "usize", NULL, "i32",  "u32",  "i128",  "u128", "_",  NULL,  NULL,
                                          "i16", "u16",  "()",   "...",  NULL,    "i64",  "u64", "!"};
    return letter >= 'a' && letter <= 'z' ? names[letter - 'a'] : NULL;
}

/* Lifetimes that a function or a trait object introduces. */
static void skip_binder(rust_reader *r)
{
    if (take_letter(r, 'G'))
        (void)read_base_62(r);
}

static void read_function_type(rust_reader *r)
{
    skip_binder(r);
    put_text(r, take_letter(r, 'U') ? "unsafe fn(" : "fn(");
    if (take_letter(r, 'K') && !take_letter(r, 'C'))
        (void)read_plain_identifier(r);
    for (bool is_first = true; !r->failed && !take_letter(r, 'E'); is_first = false) {
        put_text(r, is_first ? "" : ", ");
        read_type(r);
    }
    put_text(r, ")");
    if (take_letter(r, 'u')) /* returns nothing */
        return;
    put_text(r, " -> ");
    read_type(r);
}

/* A trait, whose associated types are written with its arguments: "FnOnce<(), Output = u8>". */
static void read_bound(rust_reader *r)
{
    read_path(r, false);
    bool is_open = !r->is_silent && r->used && r->out[r->used - 1] == '>' && peek_letter(r) == 'p';
    bool is_first = !is_open;
    r->used -= is_open; /* its '>' is written again at the end */
    for (; take_letter(r, 'p'); is_open = true, is_first = false) {
        kineto_string name = read_plain_identifier(r);
        put_text(r, is_first ? "<" : ", ");
        put(r, name.data, name.size);
        put_text(r, " = ");
        read_type(r);
    }
    if (is_open)
        put_text(r, ">");
}

static void read_trait_object(rust_reader *r)
{
    skip_binder(r);
    put_text(r, "dyn ");
    for (bool is_first = true; !r->failed && !take_letter(r, 'E'); is_first = false) {
        put_text(r, is_first ? "" : " + ");
        read_bound(r);
    }
    r->failed |= !take_letter(r, 'L');
    (void)read_base_62(r);
}

static void read_tuple(rust_reader *r)
{
    uint32_t count = 0;
    put_text(r, "(");
    for (; !r->failed && !take_letter(r, 'E'); count++) {
        put_text(r, count ? ", " : "");
        read_type(r);
    }
    put_text(r, count == 1 ? ",)" : ")");
}

static void read_array(rust_reader *r, bool has_length)
{
    put_text(r, "[");
    read_type(r);
    if (has_length) {
        put_text(r, "; ");
        read_constant(r);
    }
    put_text(r, "]");
}

static void read_type_kind(rust_reader *r, char kind)
{
    const char *basic = find_basic_type(kind);
    if (basic)
        put_text(r, basic);
    else if (kind == 'A' || kind == 'S')
        read_array(r, kind == 'A');
    else if (kind == 'T')
        read_tuple(r);
    else if (kind == 'R' || kind == 'Q' || kind == 'P' || kind == 'O') {
        put_text(r, kind == 'R' ? "&" : kind == 'Q' ? "&mut " : kind == 'P' ? "*const " : "*mut ");
        if (kind != 'P' && kind != 'O' && take_letter(r, 'L'))
            (void)read_base_62(r);
        read_type(r);
    } else if (kind == 'F')
        read_function_type(r);
    else if (kind == 'D')
        read_trait_object(r);
    else if (kind == 'B')
        read_reference(r, read_type);
    else {
        r->at--;
        read_path(r, false);
    }
}

static void read_type(rust_reader *r)
{
    if (!enter_level(r))
        return;
    char kind = peek_letter(r);
    r->at++;
    read_type_kind(r, kind);
    leave_level(r);
}

size_t kt_rust_v0_name(kineto_string name, char *out, size_t room)
{
    if (name.size < 3 || memcmp(name.data, "_R", 2) != 0)
        return 0;
    rust_reader r = {.text = name.data + 2, .size = name.size - 2, .out = out, .room = room};
    read_path(&r, true);
    return r.failed ? 0 : r.used; /* a crate that instantiated it, and suffixes of tools, may follow */
}
