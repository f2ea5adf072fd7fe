/* The Model Context Protocol on the standard streams: one JSON-RPC 2.0 message on each line. Both kinds of clients
 * are served: those that begin with `initialize` (revisions until 2025-11-25), and those that send their version with
 * each request (2026-07-28). No answer depends on requests before it, except that traces stay open. */
#include "cli/mcp/mcp.h"
#include "cli/print.h"
#include "trace/bytes/json_value.h"

#include <errno.h>
#include <unistd.h>

#define MAX_MESSAGE_BYTES ((size_t)4 << 20)
#define META_VERSION      "io.modelcontextprotocol/protocolVersion"
#define META_CAPABILITIES "io.modelcontextprotocol/clientCapabilities"
#define META_SERVER       "io.modelcontextprotocol/serverInfo"

enum {
    PARSE_ERROR = -32700,
    INVALID_REQUEST = -32600,
    METHOD_NOT_FOUND = -32601,
    INVALID_PARAMS = -32602,
    INTERNAL_ERROR = -32603,
    UNSUPPORTED_VERSION = -32022
};

/* The newest first. */
static const char *const handshake_versions[] = {"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"};
static const char modern_version[] = "2026-07-28";

/* One request and its answer. */
typedef struct exchange {
    kc_mcp_server *server;
    kineto_string id, method, params; /* raw; id empty: a notification, which gets no answer */
    bool is_modern;
    kb_json *j;
} exchange;

/* ---- answers --------------------------------------------------------------------------------- */

static void begin_response(exchange *x)
{
    kb_json_object_begin(x->j);
    kb_json_put_string(x->j, "jsonrpc", kb_string("2.0"));
    kb_json_key_z(x->j, "id");
    kb_json_raw(x->j, x->id.size ? x->id : kb_string("null"));
}

static void put_implementation(kb_json *j)
{
    kb_json_object_begin(j);
    kb_json_put_string(j, "name", kb_string("ckineto"));
    kb_json_put_string(j, "title", kb_string("ckineto: performance traces"));
    kb_json_put_string(j, "version", kb_string(kineto_version()));
    kb_json_object_end(j);
}

/* The members that results have since 2026-07-28. */
static void begin_result(exchange *x)
{
    begin_response(x);
    kb_json_key_z(x->j, "result");
    kb_json_object_begin(x->j);
    if (!x->is_modern)
        return;
    kb_json_put_string(x->j, "resultType", kb_string("complete"));
    kb_json_key_z(x->j, "_meta");
    kb_json_object_begin(x->j);
    kb_json_key_z(x->j, META_SERVER);
    put_implementation(x->j);
    kb_json_object_end(x->j);
}

static void end_result(exchange *x)
{
    kb_json_object_end(x->j);
    kb_json_object_end(x->j);
}

/* A client may keep lists: they do not change while the server runs. */
static void put_caching(exchange *x)
{
    if (!x->is_modern)
        return;
    kb_json_put_uint(x->j, "ttlMs", 3600000);
    kb_json_put_string(x->j, "cacheScope", kb_string("private"));
}

static void begin_error(exchange *x, int code, const char *message)
{
    begin_response(x);
    kb_json_key_z(x->j, "error");
    kb_json_object_begin(x->j);
    kb_json_put_int(x->j, "code", code);
    kb_json_put_string(x->j, "message", kb_string(message));
}

static void put_error(exchange *x, int code, const char *message)
{
    begin_error(x, code, message);
    end_result(x);
}

/* ---- methods --------------------------------------------------------------------------------- */

static void put_server_members(exchange *x)
{
    kb_json_key_z(x->j, "capabilities");
    kb_json_object_begin(x->j);
    kb_json_key_z(x->j, "tools");
    kb_json_object_begin(x->j);
    kb_json_object_end(x->j);
    kb_json_object_end(x->j);
    kb_json_put_string(
        x->j, "instructions",
        kb_string("Performance traces of programs on CPUs and GPUs. Call open with the path of a trace first, then "
                  "findings for what to change, analyze and query for numbers, timeline_picture to look. Answers are "
                  "JSON of at most 4 KB; if one has 'more', call again with offset = more.offset."));
}

/* The client's version if it is known, else ours: the client decides whether it goes on. */
static void answer_initialize(exchange *x)
{
    kineto_string wanted = kt_member_of(x->params, "protocolVersion");
    const char *version = handshake_versions[0];
    if (!kt_json_is_string(wanted)) {
        put_error(x, INVALID_PARAMS, "initialize: protocolVersion is missing");
        return;
    }
    for (size_t i = 0; i < KB_COUNT(handshake_versions); i++)
        if (kt_text_is(kt_json_inside(wanted), kb_string(handshake_versions[i])))
            version = handshake_versions[i];
    x->is_modern = false;
    begin_result(x);
    kb_json_put_string(x->j, "protocolVersion", kb_string(version));
    kb_json_key_z(x->j, "serverInfo");
    put_implementation(x->j);
    put_server_members(x);
    end_result(x);
}

static void answer_discover(exchange *x)
{
    begin_result(x);
    kb_json_key_z(x->j, "supportedVersions");
    kb_json_array_begin(x->j);
    kb_json_string_z(x->j, modern_version);
    for (size_t i = 0; i < KB_COUNT(handshake_versions); i++)
        kb_json_string_z(x->j, handshake_versions[i]);
    kb_json_array_end(x->j);
    put_server_members(x);
    put_caching(x);
    end_result(x);
}

static void answer_ping(exchange *x)
{
    begin_result(x);
    end_result(x);
}

static void put_tool(kb_json *j, const kc_mcp_tool *tool)
{
    kb_json_object_begin(j);
    kb_json_put_string(j, "name", kb_string(tool->name));
    kb_json_put_string(j, "title", kb_string(tool->title));
    kb_json_put_string(j, "description", kb_string(tool->about));
    kb_json_key_z(j, "inputSchema");
    kc_mcp_put_schema(j, tool);
    kb_json_key_z(j, "annotations");
    kb_json_object_begin(j);
    kb_json_put_bool(j, "readOnlyHint", !tool->writes);
    kb_json_put_bool(j, "destructiveHint", false);
    kb_json_put_bool(j, "idempotentHint", !tool->writes);
    kb_json_put_bool(j, "openWorldHint", false);
    kb_json_object_end(j);
    kb_json_object_end(j);
}

static void answer_tools_list(exchange *x)
{
    begin_result(x);
    kb_json_key_z(x->j, "tools");
    kb_json_array_begin(x->j);
    for (size_t i = 0; kc_mcp_tool_at(x->server, i); i++)
        put_tool(x->j, kc_mcp_tool_at(x->server, i));
    kb_json_array_end(x->j);
    put_caching(x);
    end_result(x);
}

static void put_text_content(kb_json *j, kineto_string text)
{
    kb_json_object_begin(j);
    kb_json_put_string(j, "type", kb_string("text"));
    kb_json_put_string(j, "text", text);
    kb_json_object_end(j);
}

/* base64 */
static char *encode_image(const char *data, size_t size)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char *text = malloc((size + 2) / 3 * 4 + 1), *end = text;
    for (size_t i = 0; i < size && text; i += 3) {
        uint32_t left = (uint32_t)KB_MIN(size - i, (size_t)3), three = 0;
        for (uint32_t k = 0; k < 3; k++)
            three = three << 8 | (k < left ? (uint8_t)data[i + k] : 0);
        for (uint32_t k = 0; k < 4; k++)
            *end++ = k <= left ? digits[three >> (18 - 6 * k) & 63] : '=';
    }
    if (text)
        *end = '\0';
    return text;
}

static void put_image_content(kb_json *j, const kc_mcp_call *call)
{
    char *text = encode_image(call->image, call->image_bytes);
    kb_json_object_begin(j);
    kb_json_put_string(j, "type", kb_string("image"));
    kb_json_put_string(j, "data", kb_string(text ? text : ""));
    kb_json_put_string(j, "mimeType", kb_string(call->image_type));
    kb_json_object_end(j);
    free(text);
}

/* Errors of a tool are results, too: the language model reads them and can do better. */
static void put_call_result(exchange *x, const kc_mcp_call *call, kineto_string text, bool is_error)
{
    begin_result(x);
    kb_json_key_z(x->j, "content");
    kb_json_array_begin(x->j);
    put_text_content(x->j, text);
    if (call->image && !is_error)
        put_image_content(x->j, call);
    kb_json_array_end(x->j);
    kb_json_put_bool(x->j, "isError", is_error);
    end_result(x);
}

static void run_tool(exchange *x, kc_mcp_call *call, kineto_string arguments)
{
    kineto_error err = {.message = ""};
    char *text = NULL;
    size_t size = 0;
    kineto_status status = kc_mcp_read_arguments(call, arguments, &err);
    if (!status)
        status = call->tool->run(call, &err);
    if (!status)
        status = kb_sink_take(call->answer.sink, &text, &size, &err);
    const char *why = call->explanation ? call->explanation : err.message[0] ? err.message : kineto_status_text(status);
    KB_ASSERT(status || size <= KC_MCP_ANSWER_BYTES);
    put_call_result(x, call, status ? kb_utf8_cut(kb_string(why), KC_MCP_ANSWER_BYTES) : (kineto_string){text, size},
                    status != KINETO_OK);
    free(text);
}

static void answer_tools_call(exchange *x)
{
    kc_mcp_call call = {.server = x->server};
    kineto_string name = kt_member_of(x->params, "name"), arguments = kt_member_of(x->params, "arguments");
    char room[KT_PLAIN_KEY_BYTES], message[160];
    if (!kt_json_is_string(name)) {
        put_error(x, INVALID_PARAMS, "tools/call: name is missing");
        return;
    }
    if (arguments.size && arguments.data[0] != '{' && !kb_string_equal(arguments, kb_string("null"))) {
        put_error(x, INVALID_PARAMS, "tools/call: arguments must be an object");
        return;
    }
    name = kt_json_plain_key(kt_json_inside(name), room);
    call.tool = kc_mcp_find_tool(x->server, name);
    if (!call.tool) {
        snprintf(message, sizeof message, "Unknown tool: %.*s", (int)KB_MIN(name.size, (size_t)80), name.data);
        put_error(x, INVALID_PARAMS, message);
        return;
    }
    run_tool(x, &call, arguments.size && arguments.data[0] == '{' ? arguments : (kineto_string){"", 0});
    if (call.answer.sink)
        kb_sink_abort(call.answer.sink);
    free(call.explanation);
    free(call.image);
    kb_arena_free(&call.arena);
}

static const struct {
    const char *name;
    void (*answer)(exchange *x);
} methods[] = {{"initialize", answer_initialize},
               {"server/discover", answer_discover},
               {"ping", answer_ping},
               {"tools/list", answer_tools_list},
               {"tools/call", answer_tools_call}};

/* ---- requests -------------------------------------------------------------------------------- */

static void put_unsupported_version(exchange *x, kineto_string version)
{
    begin_error(x, UNSUPPORTED_VERSION, "Unsupported protocol version");
    kb_json_key_z(x->j, "data");
    kb_json_object_begin(x->j);
    kb_json_key_z(x->j, "supported");
    kb_json_array_begin(x->j);
    kb_json_string_z(x->j, modern_version);
    kb_json_array_end(x->j);
    kb_json_key_z(x->j, "requested");
    kb_json_raw(x->j, version);
    kb_json_object_end(x->j);
    end_result(x);
}

/* The version and the capabilities that a request of the newer kind carries. False: an error was answered. */
static bool check_meta(exchange *x)
{
    kineto_string meta = kt_member_of(x->params, "_meta");
    kineto_string version = kt_member_of(meta, META_VERSION), capabilities = kt_member_of(meta, META_CAPABILITIES);
    bool is_handshake = kt_json_is_key(x->method, "initialize");
    if (is_handshake || (!version.size && !kt_json_is_key(x->method, "server/discover")))
        return true;
    if (!kt_json_is_string(version)) {
        put_error(x, INVALID_PARAMS, "_meta: " META_VERSION " is missing");
        return false;
    }
    x->is_modern = true;
    if (!kt_text_is(kt_json_inside(version), kb_string(modern_version))) {
        put_unsupported_version(x, version);
        return false;
    }
    if (!capabilities.size || capabilities.data[0] != '{') {
        put_error(x, INVALID_PARAMS, "_meta: " META_CAPABILITIES " is missing");
        return false;
    }
    return true;
}

static void answer_request(exchange *x)
{
    char message[160];
    if (x->params.size && x->params.data[0] != '{') {
        put_error(x, INVALID_PARAMS, "params must be an object");
        return;
    }
    if (!check_meta(x))
        return;
    for (size_t i = 0; i < KB_COUNT(methods); i++)
        if (kt_json_is_key(x->method, methods[i].name)) {
            methods[i].answer(x);
            return;
        }
    snprintf(message, sizeof message, "Method not found: %.*s", (int)KB_MIN(x->method.size, (size_t)80),
             x->method.data);
    put_error(x, METHOD_NOT_FOUND, message);
}

static bool is_valid_id(kineto_string id)
{
    return kt_json_is_string(id) || (id.size && (id.data[0] == '-' || kb_is_digit(id.data[0])));
}

/* One message of valid JSON. Responses and notifications get no answer: nothing was asked of the client, and
 * cancelling has nothing to cancel, since requests are answered one after the other. */
static void answer_message(kc_mcp_server *server, kineto_string message, kb_json *j)
{
    exchange x = {.server = server, .j = j};
    bool is_object = message.size && message.data[0] == '{';
    kineto_string method = is_object ? kt_member_of(message, "method") : (kineto_string){"", 0};
    kineto_string version = is_object ? kt_member_of(message, "jsonrpc") : (kineto_string){"", 0};
    if (is_object)
        x.id = kt_member_of(message, "id");
    if (is_object && !method.size && (kt_member_of(message, "result").size || kt_member_of(message, "error").size))
        return;
    if (!kb_string_equal(version, kb_string("\"2.0\"")) || !kt_json_is_string(method) ||
        (x.id.size && !is_valid_id(x.id))) {
        if (!is_valid_id(x.id))
            x.id = (kineto_string){"", 0};
        put_error(&x, INVALID_REQUEST, "Invalid Request: expected an object with jsonrpc \"2.0\", method and id");
        return;
    }
    if (!x.id.size)
        return;
    x.method = kt_json_inside(method);
    x.params = kt_member_of(message, "params");
    answer_request(&x);
}

/* A batch, which revision 2025-03-26 had: its answers are a list, or nothing at all. */
static void answer_batch(kc_mcp_server *server, kineto_string list, kb_sink *out)
{
    kt_items items = kt_items_of(list);
    kineto_string item;
    const char *before = "[";
    while (kt_items_next(&items, &item)) {
        kb_sink *one;
        kb_json j;
        char *text = NULL;
        size_t size = 0;
        if (kb_sink_open_memory(KB_COMPRESS_NONE, &one, NULL))
            break;
        kb_json_init(&j, one);
        answer_message(server, item, &j);
        if (kb_sink_take(one, &text, &size, NULL) == KINETO_OK && size) {
            kb_sink_write_z(out, before);
            kb_sink_write(out, text, size);
            before = ",";
        }
        kb_sink_abort(one);
        free(text);
    }
    if (*before == ',')
        kb_sink_write_z(out, "]");
}

/* The answer to one line, without its end; nothing for a notification. */
static void answer_line(kc_mcp_server *server, kineto_string line, kb_sink *out)
{
    exchange x = {.server = server};
    kb_json j;
    kb_json_init(&j, out);
    x.j = &j;
    while (line.size && strchr(" \t\r", line.data[0])) {
        line.data++;
        line.size--;
    }
    if (!line.size)
        return;
    if (!kb_json_valid(line))
        put_error(&x, PARSE_ERROR, "Parse error: a line must be one JSON value in UTF-8, at most 128 levels deep");
    else if (line.data[0] == '[' && kt_item_at(line, 0).size)
        answer_batch(server, line, out);
    else
        answer_message(server, line, &j);
}

/* ---- lines ----------------------------------------------------------------------------------- */

/* The bytes of a line so far. One that is too long is skipped to its end. */
typedef struct line_reader {
    KB_VEC(char) line;
    bool is_too_long;
} line_reader;

static kineto_status write_all(const char *data, size_t size, kineto_error *err)
{
    while (size) {
        ssize_t n = kb_os_write_quiet(STDOUT_FILENO, data, size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return kb_fail_os(err, errno, "cannot write to the client");
        data += n;
        size -= (size_t)n;
    }
    return KINETO_OK;
}

/* Answer the line that has ended, and begin the next one. */
static kineto_status end_line(kc_mcp_server *server, line_reader *r, kineto_error *err)
{
    kb_sink *out;
    char *text = NULL;
    size_t size = 0;
    kineto_status status = kb_sink_open_memory(KB_COMPRESS_NONE, &out, err);
    if (status)
        return status;
    if (r->is_too_long) {
        kb_json j;
        kb_json_init(&j, out);
        put_error(&(exchange){.j = &j}, PARSE_ERROR, "Parse error: the line is longer than 4 MiB");
    } else {
        answer_line(server, (kineto_string){r->line.data, r->line.count}, out);
    }
    r->line.count = 0;
    r->is_too_long = false;
    if (kb_sink_bytes(out))
        kb_sink_write_z(out, "\n");
    status = kb_sink_take(out, &text, &size, err);
    kb_sink_abort(out);
    if (!status)
        status = write_all(text, size, err);
    free(text);
    return status;
}

static void append_to_line(line_reader *r, const char *data, size_t size)
{
    if (r->is_too_long || r->line.count + size > MAX_MESSAGE_BYTES ||
        !kb_vec_reserve(&r->line, r->line.count + size)) {
        r->is_too_long = true;
        return;
    }
    if (size)
        memcpy(r->line.data + r->line.count, data, size);
    r->line.count += size;
}

static kineto_status read_bytes(kc_mcp_server *server, line_reader *r, const char *data, size_t size,
                                kineto_error *err)
{
    for (const char *end = data + size; data < end;) {
        const char *newline = memchr(data, '\n', (size_t)(end - data));
        append_to_line(r, data, (size_t)((newline ? newline : end) - data));
        if (!newline)
            break;
        kineto_status status = end_line(server, r, err);
        if (status)
            return status;
        data = newline + 1;
    }
    return KINETO_OK;
}

/* Ends at the end of the standard input, which is how a client ends the server. */
kineto_status kc_mcp_serve(kc_mcp_server *server, kineto_error *err)
{
    line_reader r = {.is_too_long = false};
    kineto_status status = KINETO_OK;
    char bytes[16384];
    for (ssize_t n = 1; n && !status;) {
        n = read(STDIN_FILENO, bytes, sizeof bytes);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            status = kb_fail_os(err, errno, "cannot read from the client");
        else
            status = read_bytes(server, &r, bytes, (size_t)n, err);
        if (!n && !status && r.line.count)
            status = end_line(server, &r, err);
    }
    kb_vec_free(&r.line);
    return status;
}
