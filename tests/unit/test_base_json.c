/* The JSON writer, its numbers and strings, the check for JSON, UTF-8; held against Python. */
#include "decimal_comma.h"

#include "base/base.h"

#include <float.h>
#include <math.h>

/* ---- the writer ------------------------------------------------------------------------------- */

static char *finish(kb_sink *sink)
{
    char *text = NULL;
    size_t bytes = 0;
    assert_int_equal(kb_sink_take(sink, &text, &bytes, NULL), KINETO_OK);
    assert_int_equal(kb_sink_close(sink, NULL), KINETO_OK);
    assert_int_equal(strlen(text), bytes);
    return text;
}

static void commas_colons_and_nesting_are_the_writers(void **state)
{
    (void)state;
    kb_sink *sink;
    kb_json j;
    assert_int_equal(kb_sink_open_memory(KB_COMPRESS_NONE, &sink, NULL), KINETO_OK);
    kb_json_init(&j, sink);
    kb_json_object_begin(&j);
    kb_json_key_z(&j, "a");
    kb_json_array_begin(&j);
    kb_json_int(&j, -1);
    kb_json_newline(&j);
    kb_json_uint(&j, UINT64_MAX);
    kb_json_object_begin(&j);
    kb_json_object_end(&j);
    kb_json_array_begin(&j);
    kb_json_array_end(&j);
    kb_json_bool(&j, true);
    kb_json_null(&j);
    kb_json_newline(&j);
    kb_json_array_end(&j);
    kb_json_key(&j, (kineto_string){"q\"\0", 3});
    kb_json_double(&j, 0.5);
    kb_json_key_z(&j, "raw");
    kb_json_raw(&j, kb_string("[1, 2]"));
    kb_json_key_z(&j, "s");
    kb_json_string(&j, (kineto_string){NULL, 0});
    kb_json_object_end(&j);
    char *text = finish(sink);
    assert_string_equal(text, "{\"a\":[-1,\n18446744073709551615,{},[],true,null\n],"
                              "\"q\\\"\\u0000\":0.5,\"raw\":[1, 2],\"s\":\"\"}");
    assert_true(kb_json_valid(kb_string(text)));
    free(text);
}

static void too_deep_is_an_error_and_not_a_wrong_file(void **state)
{
    (void)state;
    for (int depth = 64; depth <= 300; depth += 236) {
        kb_sink *sink;
        kb_json j;
        kineto_error err;
        assert_int_equal(kb_sink_open_memory(KB_COMPRESS_NONE, &sink, NULL), KINETO_OK);
        kb_json_init(&j, sink);
        for (int i = 0; i < depth; i++)
            kb_json_array_begin(&j);
        kb_json_int(&j, 1);
        for (int i = 0; i < depth; i++)
            kb_json_array_end(&j);
        kb_json_array_end(&j); /* one too many: harmless for memory */
        assert_int_equal(kb_sink_close(sink, &err), depth <= 64 ? KINETO_OK : KINETO_E_LIMIT);
    }
}

/* A writer's string, through a sink, must be the escaped whole, wherever it is cut. */
static void long_strings_are_cut_between_characters(void **state)
{
    (void)state;
    uint64_t seed = 5;
    for (int round = 0; round < 40; round++) {
        size_t n = 8180 + next_random(&seed) % 20000;
        char *s = malloc(n), *whole = malloc(6 * n + 3);
        for (size_t i = 0; i < n; i++) /* mostly lead and continuation bytes */
            s[i] = round % 2 ? (char)(0x80 | next_random(&seed)) : "\xf0\x9f\x98\x80"[i % 4];
        uint64_t replaced = 0;
        char *end = kb_json_escape(whole, (kineto_string){s, n}, &replaced);
        *end = '\0';
        kb_sink *sink;
        kb_json j;
        assert_int_equal(kb_sink_open_memory(KB_COMPRESS_NONE, &sink, NULL), KINETO_OK);
        kb_json_init(&j, sink);
        kb_json_string(&j, (kineto_string){s, n});
        char *text = finish(sink);
        assert_string_equal(text, whole);
        assert_int_equal(j.replaced_bytes, replaced);
        free(text);
        free(whole);
        free(s);
    }
}

/* ---- strings ---------------------------------------------------------------------------------- */

static void expect_escaped(const char *s, size_t n, const char *expected, uint64_t count)
{
    char out[512];
    uint64_t replaced = 0;
    char *end = kb_json_escape(out, (kineto_string){s, n}, &replaced);
    *end = '\0';
    assert_string_equal(out, expected);
    assert_int_equal(replaced, count);
}
#define EXPECT(s, expected, count) expect_escaped(s, sizeof(s) - 1, expected, count)

static void what_must_be_escaped_is_and_nothing_else(void **state)
{
    (void)state;
    EXPECT("", "\"\"", 0);
    EXPECT("plain / text", "\"plain / text\"", 0);
    EXPECT("\"\\", "\"\\\"\\\\\"", 0);
    EXPECT("\b\f\n\r\t", "\"\\b\\f\\n\\r\\t\"", 0);
    EXPECT("\0\x01\x0b\x1f\x7f", "\"\\u0000\\u0001\\u000b\\u001f\x7f\"", 0);
    EXPECT("\xc3\xa9 \xe2\x80\xa8\xe2\x80\xa9 \xf0\x9f\x98\x80",
           "\"\xc3\xa9 \xe2\x80\xa8\xe2\x80\xa9 \xf0\x9f\x98\x80\"", 0);
}

#define R "\xef\xbf\xbd"
static void invalid_bytes_become_one_replacement_per_maximal_part(void **state)
{
    (void)state;
    EXPECT("\xff", "\"" R "\"", 1);
    EXPECT("a\x80z", "\"a" R "z\"", 1);
    EXPECT("\xe2\x82", "\"" R "\"", 1);
    EXPECT("\xe2\x82x", "\"" R "x\"", 1);
    EXPECT("\xc0\xaf", "\"" R R "\"", 2);
    EXPECT("\xe0\x9f\x80", "\"" R R R "\"", 3);
    EXPECT("\xed\xa0\x80", "\"" R R R "\"", 3);
    EXPECT("\xf0\x9f\x98", "\"" R "\"", 1);
    EXPECT("\xf4\x90\x80\x80", "\"" R R R R "\"", 4);
    EXPECT("\xf1\x80\x80\xe2\x82\xac", "\"" R "\xe2\x82\xac\"", 1);
}

/* The fast paths look at 16 and 8 bytes: put each kind of byte at each place of each length. */
static void every_place_in_a_block_is_looked_at(void **state)
{
    (void)state;
    for (size_t n = 1; n <= 40; n++) {
        for (size_t at = 0; at < n; at++) {
            for (int c = 0; c < 256; c++) {
                char s[40], fast[256], slow[256], *end, *p = slow;
                memset(s, 'a' + (int)(at % 20), n);
                s[at] = (char)c;
                end = kb_json_escape_body(fast, (kineto_string){s, n}, NULL);
                for (size_t i = 0; i < n; i++)
                    p = kb_json_escape_body(p, (kineto_string){s + i, 1}, NULL);
                assert_int_equal(end - fast, p - slow);
                assert_memory_equal(fast, slow, (size_t)(p - slow));
            }
        }
    }
}

static void valid_prefix_stops_at_the_first_bad_byte(void **state)
{
    (void)state;
    assert_int_equal(kb_utf8_valid_prefix("", 0), 0);
    assert_int_equal(kb_utf8_valid_prefix("0123456789abcdef\xff", 17), 16);
    assert_int_equal(kb_utf8_valid_prefix("\xc3\xa9\xe2\x82", 4), 2);
    assert_int_equal(kb_utf8_valid_prefix("\xed\x9f\xbf\xee\x80\x80\xf4\x8f\xbf\xbf", 10), 10);
    assert_int_equal(kb_utf8_bad_length("\xf0\x90\x80"
                                        "a",
                                        4),
                     3);
    assert_int_equal(kb_utf8_bad_length("\xf0\x80\x80\x80", 4), 1);
}

static void cleaned_text_is_what_an_escaped_one_shows(void **state)
{
    (void)state;
    static const struct {
        const char *text, *clean;
        uint64_t replaced;
    } cases[] = {{"", "", 0},
                 {"plain \xc3\xa9", "plain \xc3\xa9", 0},
                 {"\xff", "\xef\xbf\xbd", 1},
                 {"a\xf0\x90\x80 b\xc3", "a\xef\xbf\xbd b\xef\xbf\xbd", 2},
                 {"\xff\xfe\xe2\x82\xac", "\xef\xbf\xbd\xef\xbf\xbd\xe2\x82\xac", 2}};
    for (size_t i = 0; i < KB_COUNT(cases); i++) {
        char out[40], escaped[100];
        uint64_t replaced = 0, again = 0;
        char *end = kb_utf8_clean(out, kb_string(cases[i].text), &replaced);
        *end = '\0';
        assert_string_equal(out, cases[i].clean);
        assert_int_equal(replaced, cases[i].replaced);
        *kb_json_escape_body(escaped, kb_string(cases[i].text), &again) = '\0';
        assert_string_equal(out, escaped);
        assert_int_equal(again, replaced);
    }
    kineto_string rest = {NULL, 0};
    assert_int_equal(kb_utf8_next(&rest, NULL).size, 0);
}

static void a_text_is_cut_between_characters(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t most, size;
    } cases[] = {{"", 0, 0},
                 {"abc", 3, 3},
                 {"abc", 2, 2},
                 {"a\xc3\xa9", 3, 3},
                 {"a\xc3\xa9", 2, 1},
                 {"a\xe4\xb8\xad", 3, 1},
                 {"\xf0\x9f\x98\x80z", 4, 4},
                 {"\xf0\x9f\x98\x80z", 3, 0},
                 {"a\xf0\x9f\x98\x80", 2, 1},
                 {"\x80\x80\x80\x80\x80\x80", 5, 5}, /* are no characters */
                 {"\x80\x80", 1, 1}};
    for (size_t i = 0; i < KB_COUNT(cases); i++)
        assert_int_equal(kb_utf8_cut(kb_string(cases[i].text), cases[i].most).size, cases[i].size);
}

static void durations_have_a_fitting_unit(void **state)
{
    (void)state;
    assert_string_equal(kb_duration(0).s, "0 ns");
    assert_string_equal(kb_duration(-999).s, "-999 ns");
    assert_string_equal(kb_duration(1500).s, "1.500 us");
    assert_string_equal(kb_duration(999999499).s, "999.999 ms");
    assert_string_equal(kb_duration(999999500).s, "1.000 s");
    assert_string_equal(kb_duration(999999999).s, "1.000 s");
    assert_string_equal(kb_duration(999999).s, "999.999 us");
    assert_string_equal(kb_short_duration(999949999).s, "999.9 ms");
    assert_string_equal(kb_short_duration(999960000).s, "1.000 s");
    assert_string_equal(kb_short_duration(99996000).s, "100.0 ms");
    assert_string_equal(kb_duration(INT64_C(-90000000000)).s, "-90.000 s");
    assert_string_equal(kb_duration(INT64_C(7200000000000)).s, "2.000 h");
    assert_string_equal(kb_duration(INT64_MAX).s, "106751.991 days");
    assert_true(kb_length_ns(INT64_MIN, INT64_MAX) == INT64_MAX);
    assert_true(kb_length_ns(INT64_MAX, INT64_MIN) == INT64_MIN);
    assert_int_equal(kb_length_ns(5, 3), -2);
}

/* ---- numbers ---------------------------------------------------------------------------------- */

static const char *text_of(char *(*format)(char *, int64_t), int64_t v)
{
    static char buf[40];
    *format(buf, v) = '\0';
    return buf;
}

static void integers_print_as_the_c_library_prints_them(void **state)
{
    (void)state;
    char expected[40], out[40];
    uint64_t seed = 9, power = 1;
    for (int i = 0; i < 20000; i++) {
        uint64_t v = next_random(&seed) >> (next_random(&seed) % 64);
        if (i < 60) { /* around the powers of ten */
            v = power + (uint64_t)(i % 3) - 1;
            power *= i % 3 == 2 ? 10 : 1;
        }
        snprintf(expected, sizeof(expected), "%llu", (unsigned long long)v);
        *kb_json_format_uint(out, v) = '\0';
        assert_string_equal(out, expected);
        snprintf(expected, sizeof(expected), "%lld", (long long)v);
        assert_string_equal(text_of(kb_json_format_int, (int64_t)v), expected);
    }
    assert_string_equal(text_of(kb_json_format_int, INT64_MIN), "-9223372036854775808");
    *kb_json_format_uint(out, UINT64_MAX) = '\0';
    assert_string_equal(out, "18446744073709551615");
}

static void microseconds_keep_every_nanosecond(void **state)
{
    (void)state;
    assert_string_equal(text_of(kb_json_format_us, 0), "0.000");
    assert_string_equal(text_of(kb_json_format_us, 1234567), "1234.567");
    assert_string_equal(text_of(kb_json_format_us, -1), "-0.001");
    assert_string_equal(text_of(kb_json_format_us, -1234567), "-1234.567");
    assert_string_equal(text_of(kb_json_format_us, 1700000000123456789), "1700000000123456.789");
    assert_string_equal(text_of(kb_json_format_us, INT64_MIN), "-9223372036854775.808");
    assert_string_equal(text_of(kb_json_format_us, INT64_MAX), "9223372036854775.807");
}

static const char *double_text(double v)
{
    static char buf[40];
    *kb_json_format_double(buf, v) = '\0';
    return buf;
}

static void doubles_stay_doubles_and_are_short(void **state)
{
    (void)state;
    assert_string_equal(double_text(3), "3.0");
    assert_string_equal(double_text(-3), "-3.0");
    assert_string_equal(double_text(0.0), "0.0");
    assert_string_equal(double_text(-0.0), "-0.0");
    assert_string_equal(double_text(0.1), "0.1");
    assert_string_equal(double_text(-12.345), "-12.345");
    assert_string_equal(double_text(0.1 + 0.2), "0.30000000000000004");
    assert_string_equal(double_text(1e22), "1e+22");
    assert_string_equal(double_text(123456789012345680.0), "1.2345678901234568e+17");
    assert_string_equal(double_text(9007199254740992.0), "9007199254740992.0");
    assert_string_equal(double_text(-0.001), "-0.001");
    assert_string_equal(double_text(DBL_TRUE_MIN), "4.94065645841247e-324");
    assert_string_equal(double_text(NAN), "\"nan\"");
    assert_string_equal(double_text(INFINITY), "\"inf\"");
    assert_string_equal(double_text(-INFINITY), "\"-inf\"");
}

static void every_double_reads_back_as_itself(void **state)
{
    (void)state;
    uint64_t seed = 21;
    for (int i = 0; i < 200000; i++) {
        uint64_t bits = next_random(&seed);
        double v;
        memcpy(&v, &bits, sizeof(v));
        if (i % 2)
            v = (double)(int64_t)(bits >> (bits % 60)) / (double)(1 << (bits % 20));
        if (i % 5 == 0)
            v = (double)(int64_t)(bits % 100000000) / 1000;
        if (!isfinite(v))
            continue;
        const char *text = double_text(v);
        assert_true(strlen(text) <= 32);
        assert_true(kb_json_valid(kb_string(text)));
        assert_non_null(strpbrk(text, ".e"));
        double back = strtod(text, NULL);
        assert_memory_equal(&back, &v, sizeof(v));
    }
}

static void the_locale_does_not_reach_numbers(void **state)
{
    (void)state;
    if (!begin_decimal_comma())
        skip();
    assert_string_equal(double_text(0.1 + 0.2), "0.30000000000000004");
    assert_string_equal(double_text(-1e22 / 7), "-1.4285714285714287e+21");
    assert_string_equal(double_text(1e22), "1e+22");
    end_decimal_comma();
}

/* ---- the check -------------------------------------------------------------------------------- */

static void only_json_is_json(void **state)
{
    (void)state;
    const char *good[] = {"0",        "-0",
                          "1.5e-7",   "\"\"",
                          "[]",       "{}",
                          " [1 , 2]", "{\"a\":[{}],\"b\":null}",
                          "true ",    "\"\\u12aF\\/\"",
                          "-1E+3",    "\"\xc3\xa9\"",
                          "[[[]]]"};
    const char *bad[] = {"",         " ",           "01",
                         "1.",       ".5",          "+1",
                         "-",        "1e",          "nul",
                         "nulls",    "[1,]",        "[,1]",
                         "[1 2]",    "{\"a\"}",     "{\"a\":}",
                         "{a:1}",    "{\"a\":1,}",  "[",
                         "]",        "[}",          "\"",
                         "\"\\x\"",  "\"\\u12g4\"", "\"\t\"",
                         "1 2",      "\"\xff\"",    "NaN",
                         "Infinity", "\"\\\"",      "{\"a\":1",
                         "'a'",      "[1]]",        "\"\xed\xa0\x80\""};
    for (size_t i = 0; i < KB_COUNT(good); i++)
        assert_true(kb_json_valid(kb_string(good[i])));
    for (size_t i = 0; i < KB_COUNT(bad); i++)
        assert_false(kb_json_valid(kb_string(bad[i])));
    assert_false(kb_json_valid((kineto_string){NULL, 0}));
    assert_false(kb_json_valid((kineto_string){"1\0", 2}));
    assert_false(kb_json_valid((kineto_string){"\"\\\0\"", 4}));
}

static void every_byte_counts_wherever_it_stands_in_a_string(void **state)
{
    (void)state;
    for (int byte = 0; byte < 256; byte++) {
        for (size_t at = 1; at <= 24; at++) {
            char text[26];
            memset(text, 'a', sizeof text);
            text[0] = text[25] = '"';
            text[at] = (char)byte;
            bool plain = byte >= 0x20 && byte < 0x80 && byte != '"' && byte != '\\';
            assert_int_equal(kb_json_valid((kineto_string){text, sizeof text}), plain);
        }
    }
}

static void depth_is_bounded(void **state)
{
    (void)state;
    char text[300];
    for (size_t depth = 127; depth <= 129; depth++) {
        memset(text, '[', depth);
        memset(text + depth, ']', depth);
        assert_int_equal(kb_json_valid((kineto_string){text, 2 * depth}), depth <= 128);
    }
}

/* ---- Python ----------------------------------------------------------------------------------- */

static bool have_python(void)
{
    return access("/usr/bin/python3", X_OK) == 0 || system("python3 -c '' 2>/dev/null") == 0;
}

static size_t random_text(uint64_t *seed, unsigned char *s, size_t limit)
{
    static const unsigned char edges[] = {0x00, 0x1f, '"',  '\\', 0x7f, 0x80, 0x8f, 0x90,
                                          0x9f, 0xa0, 0xbf, 0xc0, 0xc1, 0xc2, 0xdf, 0xe0,
                                          0xed, 0xef, 0xf0, 0xf4, 0xf5, 0xff, 'a',  'b'};
    size_t n = next_random(seed) % limit;
    for (size_t i = 0; i < n; i++) {
        uint64_t r = next_random(seed);
        s[i] = r % 3 ? edges[(r >> 8) % sizeof(edges)] : (unsigned char)(r >> 8);
    }
    return n;
}

/* Run a Python script over a file of cases; both are in the directory. */
typedef struct python {
    char directory[200], data[256], program[256];
    FILE *cases;
} python;

static void python_open(python *p, const char *script)
{
    if (!have_python()) {
        print_message("python3 is not installed\n");
        skip();
    }
    assert_non_null(make_directory(p->directory, sizeof(p->directory)));
    snprintf(p->data, sizeof(p->data), "%s/cases", p->directory);
    snprintf(p->program, sizeof(p->program), "%s/check.py", p->directory);
    FILE *f = fopen(p->program, "w");
    assert_non_null(f);
    fputs(script, f);
    fclose(f);
    p->cases = fopen(p->data, "w");
    assert_non_null(p->cases);
}

static void python_run(python *p)
{
    char command[700];
    fclose(p->cases);
    snprintf(command, sizeof(command), "python3 %s %s", p->program, p->data);
    assert_int_equal(system(command), 0);
    unlink(p->data);
    unlink(p->program);
    rmdir(p->directory);
}

static void put_hex(FILE *f, const unsigned char *s, size_t n)
{
    for (size_t k = 0; k < n; k++)
        fprintf(f, "%02x", s[k]);
}

/* Python reads our strings as JSON, and must get what its own decoder makes of the bytes; and its
 * count of replacements must be ours. */
static void python_reads_back_every_string(void **state)
{
    (void)state;
    python p;
    python_open(&p, "import json,sys\n"
                    "for line in open(sys.argv[1],'rb'):\n"
                    "    raw,count,text=line.rstrip(b'\\n').split(b'\\t',2)\n"
                    "    raw=bytes.fromhex(raw.decode())\n"
                    "    want=raw.decode('utf-8','replace')\n"
                    "    own=raw.decode('utf-8','ignore').count('\\ufffd')\n"
                    "    got=json.loads(text.decode('utf-8'))\n"
                    "    assert got==want,(raw,got,want)\n"
                    "    assert want.count('\\ufffd')-own==int(count),raw\n");
    uint64_t seed = 77;
    for (int i = 0; i < 40000; i++) {
        unsigned char s[64];
        char out[6 * sizeof(s) + 2];
        uint64_t replaced = 0;
        size_t n = random_text(&seed, s, sizeof(s));
        char *end = kb_json_escape(out, (kineto_string){(char *)s, n}, &replaced);
        put_hex(p.cases, s, n);
        fprintf(p.cases, "\t%d\t%.*s\n", (int)replaced, (int)(end - out), out);
        assert_true(kb_json_valid((kineto_string){out, (size_t)(end - out)}));
    }
    python_run(&p);
}

/* Random runs of tokens: what is JSON is for Python to say (without its NaN and Infinity). */
static void python_agrees_on_what_is_json(void **state)
{
    (void)state;
    static const char *const tokens[] = {
        "{",    "}", "[",           "]",  ",",  ":",     "\"a\"", "1",  "-0.5", "1e5",     "true",
        "null", " ", "\"\\u00e9\"", "01", "\"", "false", "2E-",   "\\", "\xff", "\xc3\xa9"};
    python p;
    python_open(&p, "import json,sys\n"
                    "def no(x): raise ValueError(x)\n"
                    "def ok(raw):\n"
                    "    try: json.loads(raw.decode('utf-8'),parse_constant=no)\n"
                    "    except ValueError: return 0\n"
                    "    return 1\n"
                    "for line in open(sys.argv[1]):\n"
                    "    raw,said=line.rstrip('\\n').split('\\t')\n"
                    "    raw=bytes.fromhex(raw)\n"
                    "    assert ok(raw)==int(said),(raw,said)\n");
    uint64_t seed = 78;
    for (int i = 0; i < 40000; i++) {
        char s[256] = "";
        size_t count = next_random(&seed) % 8 + 1;
        const char *wrap = i % 3 == 0 ? "[]" : i % 3 == 1 ? "{}" : NULL;
        size_t n = 0;
        if (wrap)
            s[n++] = wrap[0];
        for (size_t k = 0; k < count; k++) {
            const char *t = tokens[next_random(&seed) % KB_COUNT(tokens)];
            if (wrap && i % 2) /* close to valid: items in order */
                t = tokens[k % 2 ? (wrap[0] == '{' && k % 4 == 1 ? 5 : 4)
                                 : 6 + next_random(&seed) % 8];
            memcpy(s + n, t, strlen(t));
            n += strlen(t);
        }
        if (wrap)
            s[n++] = wrap[1];
        put_hex(p.cases, (unsigned char *)s, n);
        fprintf(p.cases, "\t%d\n", kb_json_valid((kineto_string){s, n}));
    }
    python_run(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(commas_colons_and_nesting_are_the_writers),
        cmocka_unit_test(too_deep_is_an_error_and_not_a_wrong_file),
        cmocka_unit_test(long_strings_are_cut_between_characters),
        cmocka_unit_test(what_must_be_escaped_is_and_nothing_else),
        cmocka_unit_test(invalid_bytes_become_one_replacement_per_maximal_part),
        cmocka_unit_test(every_place_in_a_block_is_looked_at),
        cmocka_unit_test(valid_prefix_stops_at_the_first_bad_byte),
        cmocka_unit_test(cleaned_text_is_what_an_escaped_one_shows),
        cmocka_unit_test(a_text_is_cut_between_characters),
        cmocka_unit_test(durations_have_a_fitting_unit),
        cmocka_unit_test(integers_print_as_the_c_library_prints_them),
        cmocka_unit_test(microseconds_keep_every_nanosecond),
        cmocka_unit_test(doubles_stay_doubles_and_are_short),
        cmocka_unit_test(every_double_reads_back_as_itself),
        cmocka_unit_test(the_locale_does_not_reach_numbers),
        cmocka_unit_test(only_json_is_json),
        cmocka_unit_test(every_byte_counts_wherever_it_stands_in_a_string),
        cmocka_unit_test(depth_is_bounded),
        cmocka_unit_test(python_reads_back_every_string),
        cmocka_unit_test(python_agrees_on_what_is_json),
    };
    return RUN_TESTS(tests);
}
