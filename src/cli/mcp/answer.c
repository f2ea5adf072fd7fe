/* Answers of at most KC_MCP_ANSWER_BYTES: items are rendered one by one and added as long as there is room; the
 * answer then says where the next part begins. An item that alone has no room gets shorter texts. */
#include "cli/mcp/mcp.h"

/* Room for the end of an answer: "more" with two numbers, and brackets. */
#define TAIL_BYTES 96u

kb_json *kc_mcp_begin(kc_mcp_call *call, const char *schema, kineto_error *err)
{
    kc_mcp_answer *a = &call->answer;
    KB_ASSERT(!a->sink);
    if (kb_sink_open_memory(KB_COMPRESS_NONE, &a->sink, err))
        return NULL;
    kb_json_init(&a->j, a->sink);
    kb_json_document_begin(&a->j, schema);
    return &a->j;
}

void kc_mcp_put_text(kb_json *j, kineto_string text, uint64_t limit)
{
    enum { MAX_BYTES = 4096 };
    static const char dots[] = "…";
    char cut[MAX_BYTES + sizeof dots];
    if (text.size <= limit) {
        kb_json_string(j, text);
        return;
    }
    kineto_string kept = kb_utf8_cut(text, (size_t)KB_MIN(limit, (uint64_t)MAX_BYTES));
    memcpy(cut, kept.data, kept.size);
    memcpy(cut + kept.size, dots, sizeof dots - 1);
    kb_json_string(j, (kineto_string){cut, kept.size + sizeof dots - 1});
}

void kc_mcp_put_number(kb_json *j, double value)
{
    char text[32];
    int64_t whole = value > -1e15 && value < 1e15 ? (int64_t)value : 0;
    if ((double)whole == value) {
        kb_json_int(j, whole);
        return;
    }
    kb_snprintf(text, sizeof text, "%.6g", value);
    kb_json_double(j, kb_strtod(text, NULL));
}

void kc_mcp_put_member(kb_json *j, const char *key, kineto_string text, uint64_t limit)
{
    kb_json_key_z(j, key);
    kc_mcp_put_text(j, text, limit);
}

kc_mcp_page kc_mcp_page_of(const kc_mcp_call *call, const char *key, uint64_t count, kc_mcp_put_item *put,
                           void *context)
{
    return (kc_mcp_page){.key = key,
                         .first = kc_mcp_number(call, "offset"),
                         .limit = kc_mcp_number(call, "limit"),
                         .count = count,
                         .text_limit = kc_mcp_number(call, "text_limit"),
                         .put = put,
                         .context = context};
}

/* One item as text, to be freed. */
static kineto_status render_item(const kc_mcp_page *page, uint64_t index, uint64_t text_limit, char **text,
                                 size_t *size, kineto_error *err)
{
    kb_sink *sink;
    kb_json j;
    *text = NULL;
    kineto_status status = kb_sink_open_memory(KB_COMPRESS_NONE, &sink, err);
    if (status)
        return status;
    kb_json_init(&j, sink);
    status = page->put(&j, page->context, index, text_limit, err);
    if (!status)
        status = kb_sink_take(sink, text, size, err);
    kb_sink_abort(sink);
    return status;
}

/* With shorter and shorter texts until it has room. */
static kineto_status render_item_within(const kc_mcp_page *page, uint64_t index, size_t room, char **text,
                                        size_t *size, kineto_error *err)
{
    for (uint64_t limit = page->text_limit;; limit /= 2) {
        kineto_status status = render_item(page, index, limit, text, size, err);
        if (status || *size <= room)
            return status;
        free(*text);
        *text = NULL;
        if (!limit)
            return kb_fail(err, KINETO_E_LIMIT, "item %llu has no room in an answer of %u bytes",
                           (unsigned long long)index, KC_MCP_ANSWER_BYTES);
    }
}

static size_t find_room(const kc_mcp_call *call)
{
    size_t used = (size_t)kb_sink_bytes(call->answer.sink) + TAIL_BYTES;
    return used < KC_MCP_ANSWER_BYTES ? KC_MCP_ANSWER_BYTES - used : 0;
}

/* The first item is always written. *next receives the index after the last one; *has_more whether there is an
 * item with it. */
static kineto_status put_items(kc_mcp_call *call, const kc_mcp_page *page, uint64_t *next, bool *has_more,
                               kineto_error *err)
{
    *has_more = false;
    for (*next = page->first; *next < page->count; ++*next) {
        size_t room = find_room(call), size = 0;
        char *text = NULL;
        kineto_status status = *next == page->first
                                   ? render_item_within(page, *next, room, &text, &size, err)
                                   : render_item(page, *next, page->text_limit, &text, &size, err);
        if (status)
            return status == KINETO_E_NOT_FOUND ? KINETO_OK : status;
        *has_more = *next > page->first && (size + 1 > room || *next - page->first >= page->limit);
        if (!*has_more)
            kb_json_raw(&call->answer.j, (kineto_string){text, size});
        free(text);
        if (*has_more)
            return KINETO_OK;
    }
    return KINETO_OK;
}

kineto_status kc_mcp_put_page(kc_mcp_call *call, const kc_mcp_page *page, kineto_error *err)
{
    kb_json *j = &call->answer.j;
    uint64_t next;
    bool has_more;
    kb_json_key_z(j, page->key);
    kb_json_array_begin(j);
    kineto_status status = put_items(call, page, &next, &has_more, err);
    kb_json_array_end(j);
    if (status || !has_more)
        return status;
    kb_json_key_z(j, "more");
    kb_json_object_begin(j);
    kb_json_put_uint(j, "offset", next);
    if (page->count != UINT64_MAX)
        kb_json_put_uint(j, "left", page->count - next);
    kb_json_object_end(j);
    return KINETO_OK;
}
