/* Parts of a merged trace, read from the list "mergedTraces" of the header that merge_header.c
 * writes. A file may state anything in it, so windows that are not inside the trace's window are
 * rejected. */
#include "trace/transform/merged_part.h"

#include "trace/bytes/json_text.h"
#include "trace/bytes/json_value.h"

kineto_string kt_header_member(const kineto_trace *t, const char *key)
{
    kineto_string name, value;
    for (uint32_t i = kineto_trace_metadata_count(t); i-- > 0;) {
        kineto_trace_metadata(t, i, &name, &value);
        if (kb_string_equal(name, kb_string(key)))
            return value;
    }
    return (kineto_string){"", 0};
}

static bool next_part_item(kt_scan *scan, bool *first, kineto_string *item)
{
    return kt_scan_more(scan, first, '[') && kt_scan_value(scan, item);
}

/* Reads [start, end]. False: not two whole numbers in order, or outside the trace's window. */
static bool read_part_window(const kineto_trace *t, kineto_string array, kt_merged_part *out)
{
    kt_scan scan = kt_scan_of(array);
    kineto_string start, end;
    bool first = true;
    int64_t start_ns, end_ns;
    kineto_trace_window(t, &start_ns, &end_ns);
    return array.size && kt_scan_open(&scan, '[') && next_part_item(&scan, &first, &start) &&
           next_part_item(&scan, &first, &end) && kt_value_whole(start, &out->start_ns) &&
           kt_value_whole(end, &out->end_ns) && out->start_ns >= start_ns &&
           out->end_ns <= end_ns && out->start_ns < out->end_ns;
}

bool kt_merged_part_of(const kineto_trace *t, int32_t rank, kt_merged_part *out)
{
    kineto_string list = kt_header_member(t, "mergedTraces"), item, found = {"", 0};
    kt_scan scan = kt_scan_of(list);
    bool first = true;
    uint32_t count = 0;
    int64_t number;
    if (rank < 0 || !list.size || !kt_scan_open(&scan, '['))
        return false;
    while (next_part_item(&scan, &first, &item))
        if (kt_value_whole(kt_member_of(item, "rank"), &number) && number == rank) {
            found = item;
            count++;
        }
    out->header = kt_member_of(found, "header");
    return count == 1 && read_part_window(t, kt_member_of(found, "window"), out);
}
/* ---- the header of a selected rank ----------------------------------------------------------- */

/* Returns the offset after the bytes; the caller has made room for them. */
static size_t append_header_bytes(char *text, size_t at, kineto_string bytes)
{
    memcpy(text + at, bytes.data, bytes.size);
    return at + bytes.size;
}

/* Copies the members that only the rank's own trace had. */
static void put_part_header(const kt_merged_part *part, kt_builder *b)
{
    kineto_string key, value;
    bool first = true;
    if (!part || !part->header.size)
        return;
    kt_scan scan = kt_scan_of(part->header);
    bool ok = kt_scan_open(&scan, '{');
    while (ok && kt_scan_more(&scan, &first, '{') && kt_scan_key(&scan, &key) &&
           kt_scan_value(&scan, &value)) {
        char room[KT_PLAIN_KEY_BYTES];
        kt_metadata(b, kt_json_plain_key(key, room), value);
    }
}

bool kt_put_rank_header(const kineto_trace *t, int32_t rank, const kt_merged_part *part,
                        kt_builder *b)
{
    kineto_string key, value, info = kt_header_member(t, "distributedInfo");
    put_part_header(part, b);
    if (!info.size && part)
        info = kt_member_of(part->header, "distributedInfo");
    kt_scan scan = kt_scan_of(info);
    bool first = true, is_open = info.size && kt_scan_open(&scan, '{');
    size_t room = info.size + 64;
    char *text = malloc(room);
    if (!text)
        return false;
    size_t at = (size_t)snprintf(text, room, "{\"rank\":%d", rank);
    while (is_open && kt_scan_more(&scan, &first, '{') && kt_scan_key(&scan, &key) &&
           kt_scan_value(&scan, &value)) {
        if (kt_json_is_key(key, "rank"))
            continue;
        at = append_header_bytes(text, append_header_bytes(text, at, kb_string(",\"")), key);
        at = append_header_bytes(text, append_header_bytes(text, at, kb_string("\":")), value);
    }
    at = append_header_bytes(text, at, kb_string("}"));
    KB_ASSERT(at <= room);
    kt_metadata(b, kb_string("distributedInfo"), (kineto_string){text, at});
    free(text);
    return true;
}
