/* Recognises files of other formats by their magic numbers, so that the error
 * message can name the format and the remedy. Called once per file, with its first bytes,
 * before any parsing. */
#include "trace/bytes/not_a_trace.h"

static bool head_begins_with(kineto_string head, const char *bytes, size_t size)
{
    return head.size >= size && memcmp(head.data, bytes, size) == 0;
}

bool kt_is_utf16_or_utf32(kineto_string head)
{
    static const char little[] = "\xff\xfe", big[] = "\xfe\xff";
    if (head_begins_with(head, little, 2) || head_begins_with(head, big, 2))
        return true;
    return head.size >= 4 && (head.data[0] == 0) != (head.data[1] == 0) &&
           (head.data[2] == 0 || head.data[3] == 0);
}

const char *kt_foreign_format_problem(kineto_string head)
{
    static const struct {
        const char *begin;
        size_t bytes;
        const char *problem;
    } known[] = {
#define EXPECTED "expected an object: a Chrome trace begins with { or [, and this is "
        {"\x89PNG", 4, EXPECTED "a picture (PNG)"},
        {"SQLite format 3", 15, EXPECTED "an SQLite database"},
        {"\x7f"
         "ELF",
         4, EXPECTED "a program or library"},
        {"PK\x03\x04", 4, EXPECTED "a zip archive"},
        {"\x80\x02", 2, EXPECTED "a Python pickle"},
        {"\x80\x04", 2, EXPECTED "a Python pickle"},
        {"\x80\x05", 2, EXPECTED "a Python pickle"},
        {"\n", 1, EXPECTED
         "binary, a Perfetto trace perhaps: ui.perfetto.dev opens it, and ckineto reads the .json "
         "that it can write as well"},
        {"<", 1, EXPECTED "a page or XML"},
#undef EXPECTED
    };
    if (kt_is_utf16_or_utf32(head))
        return "the text is UTF-16 or UTF-32, and a trace is UTF-8; convert it with "
               "'iconv -f UTF-16 -t UTF-8'";
    for (size_t i = 0; i < KB_COUNT(known); i++)
        if (head_begins_with(head, known[i].begin, known[i].bytes))
            return known[i].problem;
    return NULL;
}
