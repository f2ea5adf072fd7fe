/* The header of one rank of a trace. */
#include "trace/transform/select.h"

#include "trace/bytes/json_text.h"
#include "trace/bytes/json_value.h"

static size_t put_bytes(char *text, size_t at, kineto_string bytes)
{
    memcpy(text + at, bytes.data, bytes.size);
    return at + bytes.size;
}

/* Members that the header of the rank's own trace had. */
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

bool kt_select_put_rank(const kineto_trace *t, int32_t rank, const kt_merged_part *part, kt_builder *b)
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
        at = put_bytes(text, put_bytes(text, at, kb_string(",\"")), key);
        at = put_bytes(text, put_bytes(text, at, kb_string("\":")), value);
    }
    at = put_bytes(text, at, kb_string("}"));
    kt_metadata(b, kb_string("distributedInfo"), (kineto_string){text, at});
    free(text);
    return true;
}
