/* Changes to a text that respect what it is made of, so that they pass the first check. */
#include "read.h"

#include <string.h>

/* Words of JSON, of traces, and what readers stumble over. */
static const char *const words[] = {"{",
                                    "}",
                                    "[",
                                    "]",
                                    ":",
                                    ",",
                                    "\"",
                                    "\\",
                                    "\\\"",
                                    "\\\\",
                                    "\\u0041",
                                    "\\ud83d\\ude00",
                                    "\\ud800",
                                    "\\n",
                                    "null",
                                    "true",
                                    "false",
                                    "NaN",
                                    "-Infinity",
                                    "0",
                                    "-0",
                                    "00",
                                    "1",
                                    "-1",
                                    "0.001",
                                    "0.0005",
                                    "1e3",
                                    "1E-2",
                                    "1.",
                                    ".5",
                                    "+1",
                                    "9007199254740993",
                                    "9223372036854775807",
                                    "-9223372036854775808",
                                    "9223372036854775808",
                                    "18446744073709551615",
                                    "18446744073709551616",
                                    "9223372036854775.807",
                                    "1e400",
                                    "0x1F",
                                    "1700000000000000.125",
                                    "\"\"",
                                    "\"X\"",
                                    "\"B\"",
                                    "\"E\"",
                                    "\"b\"",
                                    "\"e\"",
                                    "\"n\"",
                                    "\"i\"",
                                    "\"I\"",
                                    "\"C\"",
                                    "\"M\"",
                                    "\"s\"",
                                    "\"t\"",
                                    "\"f\"",
                                    "\"S\"",
                                    "\"F\"",
                                    "\"T\"",
                                    "\"P\"",
                                    "\"XX\"",
                                    "\"g\"",
                                    "\"name\"",
                                    "\"ph\"",
                                    "\"ts\"",
                                    "\"dur\"",
                                    "\"pid\"",
                                    "\"tid\"",
                                    "\"cat\"",
                                    "\"args\"",
                                    "\"id\"",
                                    "\"id2\"",
                                    "\"bp\"",
                                    "\"traceEvents\"",
                                    "\"baseTimeNanoseconds\"",
                                    "\"deviceProperties\"",
                                    "\"schemaVersion\"",
                                    "\"ckineto\"",
                                    "\"distributedInfo\"",
                                    "\"correlation\"",
                                    "\"External id\"",
                                    "\"external id\"",
                                    "\"stream\"",
                                    "\"device\"",
                                    "\"finished\"",
                                    "\"started\"",
                                    "\"arguments lost\"",
                                    "\"labels\"",
                                    "\"sort_index\"",
                                    "\"process_name\"",
                                    "\"process_labels\"",
                                    "\"process_sort_index\"",
                                    "\"thread_name\"",
                                    "\"thread_sort_index\"",
                                    "\"Record Window End\"",
                                    "\"[memory]\"",
                                    "\"cpu_op\"",
                                    "\"kernel\"",
                                    "\"cuda_runtime\"",
                                    "\"ac2g\"",
                                    "\"fwdbwd\"",
                                    "\"gpu_memcpy\"",
                                    "\"user_annotation\"",
                                    "\"cpu_instant_event\"",
                                    "\"stream 7\"",
                                    "\"GPU 0\"",
                                    "\"CPU\"",
                                    "\"0x1f\"",
                                    "\"traceEvents\":[",
                                    "],\"a\":1",
                                    "\"args\":{}",
                                    "\xef\xbb\xbf",
                                    "\xc3\xa9",
                                    "\xff",
                                    "\xf0\x9f\x98\x80",
                                    "\xed\xa0\x80",
                                    "// x\n",
                                    "/* x */",
                                    "'a'"};
static const char *const events[] = {
    "{\"ph\":\"X\",\"name\":\"a\",\"pid\":1,\"tid\":2,\"ts\":3,\"dur\":4}",
    "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k\",\"pid\":0,\"tid\":7,\"ts\":5.5,\"dur\":1,"
    "\"args\":{\"stream\":7,\"device\":0,\"correlation\":9,\"External id\":3,\"grid\":[1,2,3]}}",
    "{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"launch\",\"pid\":1,\"tid\":2,\"ts\":4,"
    "\"dur\":1,\"args\":{\"correlation\":9}}",
    "{\"ph\":\"B\",\"name\":\"b\",\"pid\":1,\"tid\":2,\"ts\":1}",
    "{\"ph\":\"E\",\"name\":\"b\",\"pid\":1,\"tid\":2,\"ts\":9}",
    "{\"ph\":\"b\",\"cat\":\"io\",\"id\":1,\"name\":\"r\",\"pid\":1,\"tid\":2,\"ts\":1}",
    "{\"ph\":\"e\",\"cat\":\"io\",\"id\":1,\"name\":\"r\",\"pid\":1,\"tid\":2,\"ts\":8}",
    "{\"ph\":\"s\",\"id\":5,\"pid\":1,\"tid\":2,\"ts\":4,\"cat\":\"ac2g\",\"name\":\"ac2g\"}",
    "{\"ph\":\"f\",\"id\":5,\"pid\":0,\"tid\":7,\"ts\":5.5,\"cat\":\"ac2g\",\"name\":\"ac2g\","
    "\"bp\":\"e\"}",
    "{\"ph\":\"C\",\"name\":\"c\",\"pid\":1,\"ts\":2,\"args\":{\"x\":1,\"y\":2.5}}",
    "{\"ph\":\"i\",\"name\":\"now\",\"pid\":1,\"tid\":2,\"ts\":2,\"s\":\"g\"}",
    "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":1,\"tid\":2,\"args\":{\"name\":\"t\"}}",
    "{\"ph\":\"M\",\"name\":\"process_labels\",\"pid\":0,\"args\":{\"labels\":\"GPU 0\"}}"};

typedef struct draft {
    uint8_t *data;
    size_t size, most;
    uint64_t chance;
} draft;

static size_t draw(draft *d, size_t below)
{
    uint64_t z = (d->chance += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return below ? (size_t)((z ^ (z >> 31)) % below) : 0;
}

/* Put bytes in the place of others; nothing if there is no room. */
static void replace(draft *d, size_t from, size_t to, const void *with, size_t size)
{
    if (d->size - (to - from) + size > d->most)
        return;
    memmove(d->data + from + size, d->data + to, d->size - to);
    memcpy(d->data + from, with, size);
    d->size = d->size - (to - from) + size;
}

static bool is_mark(uint8_t c) { return c && strchr("{}[]:,\"", c) != NULL; }

/* The next structural character from somewhere on. */
static size_t any_mark(draft *d)
{
    size_t at = draw(d, d->size);
    while (at < d->size && !is_mark(d->data[at]))
        at++;
    return at;
}

/* The position after the word, text or bracket at `at`. */
static size_t token_end(const draft *d, size_t at)
{
    if (at >= d->size)
        return at;
    if (d->data[at] == '"') {
        for (at++; at < d->size && d->data[at] != '"'; at++)
            at += d->data[at] == '\\';
        return KB_MIN(at + 1, d->size);
    }
    if (is_mark(d->data[at]))
        return at + 1;
    while (at < d->size && !is_mark(d->data[at]))
        at++;
    return at;
}

static const char *any_word(draft *d) { return words[draw(d, KB_COUNT(words))]; }

static void insert_word(draft *d)
{
    const char *word = any_word(d);
    size_t at = any_mark(d) + draw(d, 2);
    at = KB_MIN(at, d->size);
    replace(d, at, at, word, strlen(word));
}

static void replace_token(draft *d)
{
    const char *word = any_word(d);
    size_t at = any_mark(d), begin = token_end(d, at), end = token_end(d, begin);
    if (draw(d, 2))
        replace(d, at, begin, word, strlen(word));
    else
        replace(d, begin, end, word, strlen(word));
}

static void remove_token(draft *d)
{
    size_t at = any_mark(d), end = at;
    for (size_t i = 0, most = 1 + draw(d, 4); i < most; i++)
        end = token_end(d, end);
    replace(d, at, end, "", 0);
}

/* The position after the bracket that closes what is open at `at`, ignoring texts. */
static size_t object_end(const draft *d, size_t at)
{
    size_t depth = 0;
    for (; at < d->size; at++) {
        depth += d->data[at] == '{';
        if (d->data[at] == '}' && --depth == 0)
            return at + 1;
    }
    return d->size;
}

static bool any_object(draft *d, size_t *begin, size_t *end)
{
    size_t at = draw(d, d->size);
    while (at < d->size && d->data[at] != '{')
        at++;
    *begin = at;
    *end = object_end(d, at);
    return at < d->size;
}

static void insert_event(draft *d)
{
    char text[512];
    size_t begin, end;
    const char *event = events[draw(d, KB_COUNT(events))];
    if (!any_object(d, &begin, &end))
        return;
    size_t size = strlen(event);
    text[0] = ',';
    memcpy(text + 1, event, size);
    replace(d, end, end, text, size + 1);
}

static void repeat_object(draft *d)
{
    char text[2048];
    size_t begin, end, to, unused;
    if (!any_object(d, &begin, &end) || end - begin >= sizeof text || !any_object(d, &unused, &to))
        return;
    text[0] = ',';
    memcpy(text + 1, d->data + begin, end - begin);
    replace(d, to, to, text, end - begin + 1);
}

static void remove_object(draft *d)
{
    size_t begin, end;
    if (!any_object(d, &begin, &end))
        return;
    end += end < d->size && d->data[end] == ',';
    replace(d, begin, end, "", 0);
}

/* So that what follows lies elsewhere in blocks, windows and batches. */
static void insert_blanks(draft *d)
{
    char blanks[128];
    size_t at = any_mark(d);
    memset(blanks, draw(d, 4) ? ' ' : '\n', sizeof blanks);
    replace(d, at, at, blanks, 1 + draw(d, sizeof blanks));
}

static void lengthen_text(draft *d)
{
    char text[256];
    size_t at = any_mark(d) + 1;
    static const char fill[] = "a\\\"\xc3\xa9{},:";
    if (at > d->size)
        return;
    memset(text, "aaaa\\ "[draw(d, 6)], sizeof text);
    text[draw(d, sizeof text)] = fill[draw(d, sizeof fill - 1)];
    replace(d, at, at, text, draw(d, sizeof text));
}

static void swap_byte(draft *d)
{
    if (d->size)
        d->data[draw(d, d->size)] = (uint8_t)draw(d, 256);
}

size_t fuzz_mutate_json(uint8_t *data, size_t size, size_t most, unsigned seed)
{
    static void (*const changes[])(draft *) = {
        insert_word,   replace_token, replace_token, remove_token,  insert_event, repeat_object,
        remove_object, insert_blanks, insert_blanks, lengthen_text, swap_byte};
    static const char start[] = "{\"traceEvents\":[{\"ph\":\"X\",\"name\":\"a\",\"ts\":1}]}";
    draft d = {data, size, most, seed};
    if (!size)
        replace(&d, 0, 0, start, sizeof start - 1);
    for (size_t i = 0, count = 1 + draw(&d, 4); i < count; i++)
        changes[draw(&d, KB_COUNT(changes))](&d);
    return d.size;
}
