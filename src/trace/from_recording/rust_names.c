/* Names of Rust's functions as in its source, from those that the linker knows. Two manglings: the legacy one,
 * which looks like C++ ("_ZN…17h<hash>E") and is read here, and v0 ("_R…", rust_v0.c). */
#include "trace/from_recording/rust_names.h"

/* ---- output ---------------------------------------------------------------------------------- */

void kt_rust_write(kt_rust_text *n, const char *bytes, size_t size)
{
    if (n->is_silent || n->failed)
        return;
    if (size >= n->room - n->written) {
        n->failed = true;
        return;
    }
    memcpy(n->out + n->written, bytes, size);
    n->written += size;
    n->out[n->written] = '\0';
}

void kt_rust_write_text(kt_rust_text *n, const char *text) { kt_rust_write(n, text, strlen(text)); }

void kt_rust_write_decimal(kt_rust_text *n, uint64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    kt_rust_write_text(n, text);
}

static size_t encode_utf8(uint32_t c, char out[4])
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    size_t size = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const uint8_t first[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = size - 1; i > 0; i--, c >>= 6)
        out[i] = (char)(0x80 | (c & 0x3f));
    out[0] = (char)(first[size] | c);
    return size;
}

bool kt_rust_is_character(uint32_t c) { return c <= 0x10ffff && (c < 0xd800 || c > 0xdfff); }

void kt_rust_write_character(kt_rust_text *n, uint32_t c)
{
    char bytes[4];
    kt_rust_write(n, bytes, encode_utf8(c, bytes));
}

/* ---- input ----------------------------------------------------------------------------------- */

char kt_rust_peek(const kt_rust_text *n) { return n->at < n->size && !n->failed ? n->text[n->at] : '\0'; }

char kt_rust_next(kt_rust_text *n)
{
    char c = kt_rust_peek(n);
    n->failed |= c == '\0';
    n->at += c != '\0';
    return c;
}

bool kt_rust_eat(kt_rust_text *n, char c)
{
    bool is_it = kt_rust_peek(n) == c;
    n->at += is_it;
    return is_it;
}

size_t kt_rust_decimal(kt_rust_text *n)
{
    size_t value = 0;
    n->failed |= kt_rust_peek(n) < '0' || kt_rust_peek(n) > '9';
    if (kt_rust_eat(n, '0'))
        return 0;
    while (kt_rust_peek(n) >= '0' && kt_rust_peek(n) <= '9' && value < n->size)
        value = value * 10 + (size_t)(kt_rust_next(n) - '0');
    return value;
}

/* ---- identifiers ----------------------------------------------------------------------------- */

#define MAX_PUNYCODE 128u

/* The weight of the next digits (RFC 3492, section 6.1). */
static uint32_t adapt_bias(uint32_t delta, uint32_t points, bool is_first)
{
    uint32_t k = 0;
    delta = is_first ? delta / 700 : delta / 2;
    for (delta += delta / points; delta > 455; k += 36)
        delta /= 35;
    return k + 36 * delta / (delta + 38);
}

/* Decodes Punycode; the number of characters, 0: malformed or too long. */
static uint32_t decode_punycode(const kt_rust_identifier *id, uint32_t points[MAX_PUNYCODE])
{
    const char *mark = id->size ? memrchr(id->bytes, '_', id->size) : NULL;
    size_t at = mark ? (size_t)(mark - id->bytes) + 1 : 0;
    uint32_t count = 0, c = 128, i = 0, bias = 72;
    for (size_t k = 0; mark && id->bytes + k < mark && count < MAX_PUNYCODE; k++)
        points[count++] = (uint8_t)id->bytes[k];
    while (at < id->size) {
        uint32_t before = i, weight = 1;
        for (uint32_t k = 36;; k += 36) {
            if (at == id->size)
                return 0;
            char digit = id->bytes[at++];
            uint32_t value = digit >= 'a' && digit <= 'z' ? (uint32_t)(digit - 'a')
                                                          : (uint32_t)(digit - '0') + 26;
            uint32_t limit = k <= bias ? 1 : k >= bias + 26 ? 26 : k - bias;
            if (value > 35 || weight > (1u << 26) || i > (1u << 26))
                return 0;
            i += value * weight;
            if (value < limit)
                break;
            weight *= 36 - limit;
        }
        if (count >= MAX_PUNYCODE)
            return 0;
        bias = adapt_bias(i - before, ++count, before == 0);
        c += i / count;
        i %= count;
        if (!kt_rust_is_character(c))
            return 0;
        memmove(points + i + 1, points + i, (count - 1 - i) * sizeof *points);
        points[i++] = c;
    }
    return count;
}

void kt_rust_write_identifier(kt_rust_text *n, const kt_rust_identifier *id)
{
    uint32_t points[MAX_PUNYCODE];
    uint32_t count = id->is_punycode ? decode_punycode(id, points) : 0;
    for (uint32_t i = 0; i < count; i++)
        kt_rust_write_character(n, points[i]);
    if (count == 0)
        kt_rust_write(n, id->bytes, id->size);
}

/* ---- legacy names ---------------------------------------------------------------------------- */

/* What tools append to names: that of LLVM is a number without meaning. */
void kt_rust_write_suffix(kt_rust_text *n, kineto_string suffix)
{
    static const char llvm[] = ".llvm.";
    if (suffix.size && !(suffix.size >= 6 && memcmp(suffix.data, llvm, 6) == 0))
        kt_rust_write(n, suffix.data, suffix.size);
}

/* "$LT$" and so on in a legacy name; *size receives its bytes. 0: none. */
static uint32_t find_escape(const char *at, size_t bytes, size_t *size)
{
    static const struct {
        const char *text;
        char c;
    } escapes[] = {{"$SP$", '@'}, {"$BP$", '*'}, {"$RF$", '&'}, {"$LT$", '<'},
                   {"$GT$", '>'}, {"$LP$", '('}, {"$RP$", ')'}, {"$C$", ','}};
    for (size_t i = 0; i < KB_COUNT(escapes); i++) {
        *size = strlen(escapes[i].text);
        if (bytes >= *size && memcmp(at, escapes[i].text, *size) == 0)
            return (uint32_t)escapes[i].c;
    }
    uint32_t value = 0;
    if (bytes < 4 || at[0] != '$' || at[1] != 'u')
        return 0;
    for (*size = 2; *size < bytes && *size < 9 && kb_hex_value(at[*size]) >= 0; ++*size)
        value = value << 4 | (uint32_t)kb_hex_value(at[*size]);
    bool is_whole = *size > 2 && *size < bytes && at[*size] == '$';
    ++*size;
    return is_whole && value >= 32 && kt_rust_is_character(value) ? value : 0;
}

static void write_legacy_part(kt_rust_text *n, const char *part, size_t bytes)
{
    if (bytes > 1 && part[0] == '_' && part[1] == '$') {
        part++; /* a name may not begin with $ */
        bytes--;
    }
    for (size_t i = 0, size; i < bytes; i += size) {
        uint32_t c = part[i] == '$' ? find_escape(part + i, bytes - i, &size) : 0;
        bool is_colons = bytes - i > 1 && part[i] == '.' && part[i + 1] == '.';
        if (c) {
            kt_rust_write_character(n, c);
            continue;
        }
        size = is_colons ? 2 : 1;
        kt_rust_write(n, is_colons ? "::" : part + i, size);
    }
}

static bool is_legacy_hash(const char *part, size_t bytes)
{
    for (size_t i = 1; i < bytes; i++)
        if (kb_hex_value(part[i]) < 0)
            return false;
    return bytes == 17 && part[0] == 'h';
}

/* "_ZN", parts after their lengths of which the last is a hash, "E". */
static bool write_legacy(kineto_string mangled, char *out, size_t room)
{
    kt_rust_text n = {.text = mangled.data + 3, .size = mangled.size - 3, .out = out, .room = room};
    bool has_hash = false, is_first = true;
    while (!n.failed && !has_hash && !kt_rust_eat(&n, 'E')) {
        size_t bytes = kt_rust_decimal(&n);
        if (n.failed || bytes == 0 || bytes > n.size - n.at)
            return false;
        const char *part = n.text + n.at;
        n.at += bytes;
        has_hash = kt_rust_peek(&n) == 'E' && is_legacy_hash(part, bytes);
        if (has_hash)
            break;
        kt_rust_write_text(&n, is_first ? "" : "::");
        write_legacy_part(&n, part, bytes);
        is_first = false;
    }
    if (n.failed || !has_hash || is_first)
        return false;
    kt_rust_write_suffix(&n, (kineto_string){n.text + n.at + 1, n.size - n.at - 1});
    return !n.failed;
}

bool kt_rust_name(kineto_string mangled, char *out, size_t room)
{
    if (!room)
        return false;
    out[0] = '\0';
    if (mangled.size > 3 && memcmp(mangled.data, "_R", 2) == 0)
        return kt_rust_write_v0(mangled, out, room);
    return mangled.size > 24 && memcmp(mangled.data, "_ZN", 3) == 0 && write_legacy(mangled, out, room);
}
