/* Parts of a merged trace, by the list that merge_header.c writes. A file may state anything in it: windows
 * that do not lie in the trace's are not used. */
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

static bool next_item(kt_scan *scan, bool *first, kineto_string *item)
{
    return kt_scan_more(scan, first, '[') && kt_scan_value(scan, item);
}

static bool read_window(const kineto_trace *t, kineto_string array, kt_merged_part *out)
{
    kt_scan scan = kt_scan_of(array);
    kineto_string start, end;
    bool first = true;
    int64_t start_ns, end_ns;
    kineto_trace_window(t, &start_ns, &end_ns);
    return array.size && kt_scan_open(&scan, '[') && next_item(&scan, &first, &start) &&
           next_item(&scan, &first, &end) && kt_value_whole(start, &out->start_ns) &&
           kt_value_whole(end, &out->end_ns) && out->start_ns >= start_ns && out->end_ns <= end_ns &&
           out->start_ns < out->end_ns;
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
    while (next_item(&scan, &first, &item))
        if (kt_value_whole(kt_member_of(item, "rank"), &number) && number == rank) {
            found = item;
            count++;
        }
    out->header = kt_member_of(found, "header");
    return count == 1 && read_window(t, kt_member_of(found, "window"), out);
}
