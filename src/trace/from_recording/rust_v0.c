/* Rust's mangling v0 (https://doc.rust-lang.org/rustc/symbol-mangling/v0.html): a name is a tree in prefix order,
 * whose parts can refer back to earlier ones. */
#include "trace/from_recording/rust_names.h"

#define MAX_DEPTH 200u
#define MAX_STEPS 20000u

static void read_path(kt_rust_text *n, bool is_value);
static void read_type(kt_rust_text *n);
static void read_const(kt_rust_text *n, bool is_inside);

/* ---- tokens ---------------------------------------------------------------------------------- */

/* "_" is 0, "0_" 1, "1_" 2 … */
static uint64_t read_base62(kt_rust_text *n)
{
    uint64_t value = 0;
    if (kt_rust_eat(n, '_'))
        return 0;
    while (!n->failed && !kt_rust_eat(n, '_')) {
        char c = kt_rust_next(n);
        uint64_t digit = c >= '0' && c <= '9'   ? (uint64_t)(c - '0')
                         : c >= 'a' && c <= 'z' ? (uint64_t)(c - 'a') + 10
                                                : (uint64_t)(c - 'A') + 36;
        bool is_digit = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        n->failed |= !is_digit || value > (UINT64_MAX - 63) / 62;
        value = value * 62 + digit;
    }
    return value + 1;
}

/* The number after a letter; 0: the letter is not there, else the number + 1. */
static uint64_t read_optional_base62(kt_rust_text *n, char letter)
{
    return kt_rust_eat(n, letter) ? read_base62(n) + 1 : 0;
}

static kt_rust_identifier read_bare_identifier(kt_rust_text *n)
{
    kt_rust_identifier id = {.is_punycode = kt_rust_eat(n, 'u')};
    id.size = kt_rust_decimal(n);
    (void)kt_rust_eat(n, '_');
    if (n->failed || id.size > n->size - n->at) {
        n->failed = true;
        return (kt_rust_identifier){.bytes = ""};
    }
    id.bytes = n->text + n->at;
    n->at += id.size;
    return id;
}

/* ---- parts that occur in several places ------------------------------------------------------ */

/* False: too deep or too long, and the name has failed. */
static bool enter(kt_rust_text *n)
{
    n->failed |= ++n->depth > MAX_DEPTH || ++n->steps > MAX_STEPS;
    return !n->failed;
}

/* Reads an earlier part again. Its position is before this one, so that it ends. */
static void read_back(kt_rust_text *n, void (*read)(kt_rust_text *, bool), bool flag)
{
    size_t here = n->at - 1;
    uint64_t position = read_base62(n);
    size_t after = n->at;
    n->failed |= position >= here;
    if (!n->failed && !n->is_silent && enter(n)) {
        n->at = (size_t)position;
        read(n, flag);
        n->depth--;
    }
    n->at = after;
}

static void read_type_again(kt_rust_text *n, bool unused)
{
    (void)unused;
    read_type(n);
}

/* Items up to an E, which is eaten. @return how many. */
static uint32_t read_list(kt_rust_text *n, void (*read)(kt_rust_text *, bool), bool flag, const char *separator)
{
    uint32_t count = 0;
    while (!n->failed && !kt_rust_eat(n, 'E')) {
        if (count++)
            kt_rust_write_text(n, separator);
        read(n, flag);
    }
    return count;
}

/* Lifetimes are numbered from the innermost binder outwards; 0 is erased. */
static void write_lifetime(kt_rust_text *n, uint64_t index)
{
    n->failed |= index > n->bound;
    uint64_t number = n->bound - index;
    kt_rust_write_text(n, "'");
    if (index == 0) {
        kt_rust_write_text(n, "_");
    } else if (number < 26) {
        char letter = (char)('a' + number);
        kt_rust_write(n, &letter, 1);
    } else {
        kt_rust_write_text(n, "_");
        kt_rust_write_decimal(n, number);
    }
}

/* "for<'a, 'b> "; @return how many lifetimes are bound: to be unbound by the caller. */
static uint64_t read_binder(kt_rust_text *n)
{
    uint64_t count = read_optional_base62(n, 'G');
    n->failed |= count > 100;
    if (!count || n->failed)
        return 0;
    kt_rust_write_text(n, "for<");
    for (uint64_t i = 0; i < count; i++) {
        kt_rust_write_text(n, i ? ", " : "");
        n->bound++;
        write_lifetime(n, 1);
    }
    kt_rust_write_text(n, "> ");
    return count;
}

/* ---- paths ----------------------------------------------------------------------------------- */

static void read_generic_arg(kt_rust_text *n, bool unused)
{
    (void)unused;
    if (kt_rust_eat(n, 'L'))
        write_lifetime(n, read_base62(n));
    else if (kt_rust_eat(n, 'K'))
        read_const(n, false);
    else
        read_type(n);
}

/* Where an impl is says nothing that its type and trait do not say. */
static void skip_impl_path(kt_rust_text *n)
{
    bool was_silent = n->is_silent;
    n->is_silent = true;
    (void)read_optional_base62(n, 's');
    read_path(n, false);
    n->is_silent = was_silent;
}

/* "path::name", of closures and shims "path::{closure#0}". */
static void read_nested(kt_rust_text *n, bool is_value)
{
    char space = kt_rust_next(n);
    bool is_special = space >= 'A' && space <= 'Z';
    n->failed |= !is_special && !(space >= 'a' && space <= 'z');
    read_path(n, is_value);
    uint64_t number = read_optional_base62(n, 's');
    kt_rust_identifier id = read_bare_identifier(n);
    if (!is_special) {
        if (id.size)
            kt_rust_write_text(n, "::");
        kt_rust_write_identifier(n, &id);
        return;
    }
    kt_rust_write_text(n, "::{");
    if (space == 'C' || space == 'S')
        kt_rust_write_text(n, space == 'C' ? "closure" : "shim");
    else
        kt_rust_write(n, &space, 1);
    if (id.size)
        kt_rust_write_text(n, ":");
    kt_rust_write_identifier(n, &id);
    kt_rust_write_text(n, "#");
    kt_rust_write_decimal(n, number);
    kt_rust_write_text(n, "}");
}

/* "<type>" or "<type as trait>". */
static void read_self(kt_rust_text *n, bool has_impl, bool has_trait)
{
    if (has_impl)
        skip_impl_path(n);
    kt_rust_write_text(n, "<");
    read_type(n);
    if (has_trait) {
        kt_rust_write_text(n, " as ");
        read_path(n, false);
    }
    kt_rust_write_text(n, ">");
}

/* @param is_value  of a function: generic arguments follow "::". */
static void read_path(kt_rust_text *n, bool is_value)
{
    if (!enter(n))
        return;
    kt_rust_identifier id;
    switch (kt_rust_next(n)) {
    case 'C':
        (void)read_optional_base62(n, 's');
        id = read_bare_identifier(n);
        kt_rust_write_identifier(n, &id);
        break;
    case 'M':
        read_self(n, true, false);
        break;
    case 'X':
        read_self(n, true, true);
        break;
    case 'Y':
        read_self(n, false, true);
        break;
    case 'N':
        read_nested(n, is_value);
        break;
    case 'I':
        read_path(n, is_value);
        kt_rust_write_text(n, is_value ? "::<" : "<");
        (void)read_list(n, read_generic_arg, false, ", ");
        kt_rust_write_text(n, ">");
        break;
    case 'B':
        read_back(n, read_path, is_value);
        break;
    default:
        n->failed = true;
    }
    n->depth--;
}

/* ---- types ----------------------------------------------------------------------------------- */

static const char *basic_type(char c)
{
    static const char *const names[26] = {"i8",  "bool", "char", "f64", "str",  "f32",  NULL, "u8",  "isize",
                                          "usize", NULL, "i32",  "u32", "i128", "u128", "_",  NULL,  NULL,
                                          "i16", "u16",  "()",   "...", NULL,   "i64",  "u64", "!"};
    return c >= 'a' && c <= 'z' ? names[c - 'a'] : NULL;
}

static void read_reference(kt_rust_text *n, bool is_mutable)
{
    kt_rust_write_text(n, "&");
    uint64_t lifetime = kt_rust_eat(n, 'L') ? read_base62(n) : 0;
    if (lifetime) {
        write_lifetime(n, lifetime);
        kt_rust_write_text(n, " ");
    }
    kt_rust_write_text(n, is_mutable ? "mut " : "");
    read_type(n);
}

/* "unsafe extern "C" fn(A, B) -> R" */
static void read_function_type(kt_rust_text *n)
{
    uint64_t bound = read_binder(n);
    if (kt_rust_eat(n, 'U'))
        kt_rust_write_text(n, "unsafe ");
    if (kt_rust_eat(n, 'K')) {
        kt_rust_identifier abi = {.bytes = "C", .size = 1};
        if (!kt_rust_eat(n, 'C'))
            abi = read_bare_identifier(n);
        kt_rust_write_text(n, "extern \"");
        for (size_t i = 0; i < abi.size; i++)
            kt_rust_write(n, abi.bytes[i] == '_' ? "-" : &abi.bytes[i], 1);
        kt_rust_write_text(n, "\" ");
    }
    kt_rust_write_text(n, "fn(");
    (void)read_list(n, read_type_again, false, ", ");
    kt_rust_write_text(n, ")");
    if (!kt_rust_eat(n, 'u')) {
        kt_rust_write_text(n, " -> ");
        read_type(n);
    }
    n->bound -= bound;
}

/* A path, of which the list of arguments stays open: more may follow. */
static void read_open_path(kt_rust_text *n, bool unused)
{
    (void)unused;
    n->is_open = false;
    if (kt_rust_eat(n, 'B')) {
        read_back(n, read_open_path, false);
    } else if (kt_rust_eat(n, 'I')) {
        read_path(n, false);
        kt_rust_write_text(n, "<");
        (void)read_list(n, read_generic_arg, false, ", ");
        n->is_open = true;
    } else {
        read_path(n, false);
    }
}

/* "Trait<A, Name = B>": associated types stand among the arguments of the path. */
static void read_dyn_trait(kt_rust_text *n, bool unused)
{
    (void)unused;
    read_open_path(n, false);
    bool is_open = n->is_open;
    while (kt_rust_eat(n, 'p')) {
        kt_rust_write_text(n, is_open ? ", " : "<");
        is_open = true;
        kt_rust_identifier name = read_bare_identifier(n);
        kt_rust_write_identifier(n, &name);
        kt_rust_write_text(n, " = ");
        read_type(n);
    }
    kt_rust_write_text(n, is_open ? ">" : "");
}

static void read_dyn_type(kt_rust_text *n)
{
    kt_rust_write_text(n, "dyn ");
    uint64_t bound = read_binder(n);
    (void)read_list(n, read_dyn_trait, false, " + ");
    n->bound -= bound;
    n->failed |= !kt_rust_eat(n, 'L');
    uint64_t lifetime = n->failed ? 0 : read_base62(n);
    if (lifetime) {
        kt_rust_write_text(n, " + ");
        write_lifetime(n, lifetime);
    }
}

static void read_sequence(kt_rust_text *n, bool has_length)
{
    kt_rust_write_text(n, "[");
    read_type(n);
    if (has_length) {
        kt_rust_write_text(n, "; ");
        read_const(n, true);
    }
    kt_rust_write_text(n, "]");
}

/* A type that begins with a capital letter; false: it is a path. */
static bool read_compound_type(kt_rust_text *n, char first)
{
    switch (first) {
    case 'A':
    case 'S':
        read_sequence(n, first == 'A');
        return true;
    case 'T':
        kt_rust_write_text(n, "(");
        kt_rust_write_text(n, read_list(n, read_type_again, false, ", ") == 1 ? ",)" : ")");
        return true;
    case 'R':
    case 'Q':
        read_reference(n, first == 'Q');
        return true;
    case 'P':
    case 'O':
        kt_rust_write_text(n, first == 'P' ? "*const " : "*mut ");
        read_type(n);
        return true;
    case 'F':
        read_function_type(n);
        return true;
    case 'D':
        read_dyn_type(n);
        return true;
    case 'B':
        read_back(n, read_type_again, false);
        return true;
    default:
        return false;
    }
}

static void read_type(kt_rust_text *n)
{
    if (!enter(n))
        return;
    char first = kt_rust_next(n);
    const char *basic = basic_type(first);
    if (basic) {
        kt_rust_write_text(n, basic);
    } else if (!read_compound_type(n, first)) {
        n->at -= n->at > 0;
        read_path(n, false);
    }
    n->depth--;
}

/* ---- constants ------------------------------------------------------------------------------- */

/* Hexadecimal digits up to a "_"; @return the value, saturated at 64 bits. */
static uint64_t read_hex(kt_rust_text *n, const char **digits, size_t *count)
{
    uint64_t value = 0;
    *digits = n->text + n->at;
    *count = 0;
    while (!n->failed && !kt_rust_eat(n, '_')) {
        char c = kt_rust_next(n);
        bool is_digit = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
        n->failed |= !is_digit;
        value = value << 4 | (uint64_t)(c <= '9' ? c - '0' : c - 'a' + 10);
        ++*count;
    }
    return value;
}

static void write_integer(kt_rust_text *n)
{
    const char *digits;
    size_t count;
    uint64_t value = read_hex(n, &digits, &count);
    if (count <= 16) {
        kt_rust_write_decimal(n, value);
    } else {
        kt_rust_write_text(n, "0x");
        kt_rust_write(n, digits, count);
    }
}

static void write_quoted_character(kt_rust_text *n, uint64_t value, char quote)
{
    n->failed |= value > UINT32_MAX || !kt_rust_is_character((uint32_t)value);
    if (value == (uint64_t)quote || value == '\\')
        kt_rust_write_text(n, "\\");
    if (value < 32) {
        char text[16];
        snprintf(text, sizeof text, "\\u{%llx}", (unsigned long long)value);
        kt_rust_write_text(n, text);
    } else if (!n->failed) {
        kt_rust_write_character(n, (uint32_t)value);
    }
}

/* A string: its bytes as pairs of digits. */
static void write_string(kt_rust_text *n)
{
    const char *digits;
    size_t count;
    (void)read_hex(n, &digits, &count);
    n->failed |= count % 2 != 0;
    kt_rust_write_text(n, "\"");
    for (size_t i = 0; i + 1 < count && !n->failed; i += 2) {
        uint8_t byte = (uint8_t)(kb_hex_value(digits[i]) << 4 | kb_hex_value(digits[i + 1]));
        if (byte < 0x80)
            write_quoted_character(n, byte, '"');
        else
            kt_rust_write(n, (const char *)&byte, 1);
    }
    kt_rust_write_text(n, "\"");
}

static void read_field(kt_rust_text *n, bool is_inside)
{
    (void)read_optional_base62(n, 's');
    kt_rust_identifier name = read_bare_identifier(n);
    kt_rust_write_identifier(n, &name);
    kt_rust_write_text(n, ": ");
    read_const(n, is_inside);
}

/* A value of a struct or enum. */
static void read_record(kt_rust_text *n)
{
    read_path(n, true);
    switch (kt_rust_next(n)) {
    case 'U':
        break;
    case 'T':
        kt_rust_write_text(n, "(");
        (void)read_list(n, read_const, true, ", ");
        kt_rust_write_text(n, ")");
        break;
    case 'S':
        kt_rust_write_text(n, " { ");
        (void)read_list(n, read_field, true, ", ");
        kt_rust_write_text(n, " }");
        break;
    default:
        n->failed = true;
    }
}

/* A value that is made of others. */
static void read_compound_const(kt_rust_text *n, char type)
{
    switch (type) {
    case 'e':
        kt_rust_write_text(n, "*");
        write_string(n);
        break;
    case 'R':
    case 'Q':
        kt_rust_write_text(n, type == 'R' ? "&" : "&mut ");
        read_const(n, true);
        break;
    case 'A':
        kt_rust_write_text(n, "[");
        (void)read_list(n, read_const, true, ", ");
        kt_rust_write_text(n, "]");
        break;
    case 'T':
        kt_rust_write_text(n, "(");
        kt_rust_write_text(n, read_list(n, read_const, true, ", ") == 1 ? ",)" : ")");
        break;
    case 'V':
        read_record(n);
        break;
    default:
        n->failed = true;
    }
}

/* A number, a bool or a char; false: another type. */
static bool read_simple_const(kt_rust_text *n, char type)
{
    const char *digits;
    size_t count;
    if (strchr("aslxni", type) && kt_rust_eat(n, 'n'))
        kt_rust_write_text(n, "-");
    if (strchr("htmyojaslxni", type)) {
        write_integer(n);
    } else if (type == 'b') {
        kt_rust_write_text(n, read_hex(n, &digits, &count) ? "true" : "false");
    } else if (type == 'c') {
        kt_rust_write_text(n, "'");
        write_quoted_character(n, read_hex(n, &digits, &count), '\'');
        kt_rust_write_text(n, "'");
    } else if (type == 'p') {
        kt_rust_write_text(n, "_");
    } else {
        return false;
    }
    return true;
}

/* @param is_inside  of another value: else what is not a simple value stands in braces. */
static void read_const(kt_rust_text *n, bool is_inside)
{
    if (!enter(n))
        return;
    char type = kt_rust_next(n);
    if (type == 'B') {
        read_back(n, read_const, is_inside);
    } else if (type == 'R' && kt_rust_eat(n, 'e')) {
        write_string(n);
    } else if (type && !read_simple_const(n, type)) {
        kt_rust_write_text(n, is_inside ? "" : "{");
        read_compound_const(n, type);
        kt_rust_write_text(n, is_inside ? "" : "}");
    }
    n->depth--;
}

/* ---- the whole name -------------------------------------------------------------------------- */

bool kt_rust_write_v0(kineto_string mangled, char *out, size_t room)
{
    kt_rust_text n = {.text = mangled.data + 2, .size = mangled.size - 2, .out = out, .room = room};
    if (kt_rust_peek(&n) < 'A' || kt_rust_peek(&n) > 'Z') /* a number: a later version */
        return false;
    read_path(&n, true);
    if (!n.failed && kt_rust_peek(&n) >= 'A' && kt_rust_peek(&n) <= 'Z') {
        n.is_silent = true; /* the crate that has this instance */
        read_path(&n, false);
        n.is_silent = false;
    }
    kineto_string rest = {n.text + n.at, n.size - n.at};
    if (n.failed || (rest.size && rest.data[0] != '.' && rest.data[0] != '$'))
        return false;
    kt_rust_write_suffix(&n, rest);
    return !n.failed && n.written;
}
