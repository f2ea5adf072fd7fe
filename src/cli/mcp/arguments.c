/* Arguments of tools: one table for each tool gives their JSON Schema and checks what a client passes. Errors name
 * the argument and what it should be, since a language model reads them. */
#include "cli/mcp/mcp.h"
#include "trace/bytes/json_value.h"

#define MAX_TEXT_BYTES 4096u

/* NULL: the tool has no such argument. */
static const kc_mcp_value *find_value(const kc_mcp_call *call, const char *name)
{
    for (size_t i = 0; i < call->tool->argument_count; i++)
        if (strcmp(call->tool->arguments[i].name, name) == 0)
            return &call->values[i];
    return NULL;
}

const char *kc_mcp_text(const kc_mcp_call *call, const char *name)
{
    const kc_mcp_value *v = find_value(call, name);
    return v ? v->text : NULL;
}

uint64_t kc_mcp_number(const kc_mcp_call *call, const char *name)
{
    const kc_mcp_value *v = find_value(call, name);
    return v ? v->number : 0;
}

bool kc_mcp_is_given(const kc_mcp_call *call, const char *name)
{
    const kc_mcp_value *v = find_value(call, name);
    return v && v->is_given;
}

/* ---- checks ---------------------------------------------------------------------------------- */

/* Is the text one of "a|b|c"? */
static bool is_choice(const char *choices, const char *text)
{
    size_t size = strlen(text);
    for (const char *at = choices; *at;) {
        size_t n = strcspn(at, "|");
        if (n == size && memcmp(at, text, n) == 0)
            return true;
        at += n + (at[n] == '|');
    }
    return false;
}

/* A copy without quotes and escapes. NUL is refused: it would end a path early. */
static kineto_status read_text(kc_mcp_call *call, const kc_mcp_argument *a, kineto_string raw,
                               kc_mcp_value *out, kineto_error *err)
{
    uint64_t max = a->max ? a->max : MAX_TEXT_BYTES;
    if (!kt_json_is_string(raw))
        return kb_fail(err, KINETO_E_ARGUMENT, "argument '%s' must be a string", a->name);
    char *text = kb_arena_alloc(&call->arena, raw.size + 1, 1);
    if (!text)
        return kb_fail_memory(err, NULL);
    kineto_string plain = kt_value_text(raw, text);
    if (plain.size > max)
        return kb_fail(err, KINETO_E_ARGUMENT, "argument '%s' is longer than %llu bytes", a->name,
                       (unsigned long long)max);
    memmove(text, plain.data, plain.size);
    text[plain.size] = '\0';
    if (strlen(text) != plain.size)
        return kb_fail(err, KINETO_E_ARGUMENT, "argument '%s' contains a NUL character", a->name);
    if (!plain.size)
        return kb_fail(err, KINETO_E_ARGUMENT, "argument '%s' must not be empty", a->name);
    if (a->choices && !is_choice(a->choices, text))
        return kb_fail(err, KINETO_E_ARGUMENT, "argument '%s' must be one of %s, not '%.80s'",
                       a->name, a->choices, text);
    *out = (kc_mcp_value){.is_given = true, .text = text};
    return KINETO_OK;
}

/* Whole numbers, which some clients write as 7.0 or "7". */
static kineto_status read_number(const kc_mcp_argument *a, kineto_string raw, kc_mcp_value *out,
                                 kineto_error *err)
{
    int64_t n = -1;
    if (!kt_value_whole(kt_json_is_string(raw) ? raw : kt_json_whole_part(raw), &n) || n < 0 ||
        (uint64_t)n < a->min || (uint64_t)n > a->max)
        return kb_fail(err, KINETO_E_ARGUMENT, "argument '%s' must be a whole number from %llu to %llu",
                       a->name, (unsigned long long)a->min, (unsigned long long)a->max);
    *out = (kc_mcp_value){.is_given = true, .number = (uint64_t)n};
    return KINETO_OK;
}

/* With the names that are known. */
static kineto_status report_unknown_argument(const kc_mcp_tool *tool, kineto_string key, kineto_error *err)
{
    char names[256] = "";
    for (size_t i = 0, at = 0; i < tool->argument_count && at < sizeof names; i++)
        at += (size_t)snprintf(names + at, sizeof names - at, "%s%s", i ? ", " : "", tool->arguments[i].name);
    return kb_fail(err, KINETO_E_ARGUMENT, "unknown argument '%.*s'; %s takes %s",
                   (int)KB_MIN(key.size, (size_t)60), key.data, tool->name, names);
}

/* null is the same as nothing. */
static kineto_status read_argument(kc_mcp_call *call, kineto_string key, kineto_string raw,
                                   kineto_error *err)
{
    const kc_mcp_tool *tool = call->tool;
    for (size_t i = 0; i < tool->argument_count; i++) {
        const kc_mcp_argument *a = &tool->arguments[i];
        if (!kt_json_is_key(key, a->name))
            continue;
        if (kb_string_equal(raw, kb_string("null")))
            return KINETO_OK;
        return a->type == KC_MCP_TEXT ? read_text(call, a, raw, &call->values[i], err)
                                      : read_number(a, raw, &call->values[i], err);
    }
    return report_unknown_argument(tool, key, err);
}

kineto_status kc_mcp_read_arguments(kc_mcp_call *call, kineto_string given, kineto_error *err)
{
    const kc_mcp_tool *tool = call->tool;
    kineto_status status = KINETO_OK;
    KB_ASSERT(tool->argument_count <= KC_MCP_ARGUMENTS);
    for (size_t i = 0; i < tool->argument_count; i++)
        call->values[i] = (kc_mcp_value){.number = tool->arguments[i].initial};
    kt_scan scan = kt_scan_of(given);
    bool first = true;
    if (given.size && kt_scan_open(&scan, '{'))
        while (!status && kt_scan_more(&scan, &first, '{')) {
            kineto_string key, raw;
            if (!kt_scan_key(&scan, &key) || !kt_scan_value(&scan, &raw))
                break;
            status = read_argument(call, key, raw, err);
        }
    for (size_t i = 0; i < tool->argument_count && !status; i++)
        if (tool->arguments[i].is_required && !call->values[i].is_given)
            status = kb_fail(err, KINETO_E_ARGUMENT, "argument '%s' is missing: %s",
                             tool->arguments[i].name, tool->arguments[i].about);
    return status;
}

/* ---- the schema ------------------------------------------------------------------------------ */

static void put_choices(kb_json *j, const char *choices)
{
    kb_json_key_z(j, "enum");
    kb_json_array_begin(j);
    for (const char *at = choices; *at;) {
        size_t n = strcspn(at, "|");
        kb_json_string(j, (kineto_string){at, n});
        at += n + (at[n] == '|');
    }
    kb_json_array_end(j);
}

static void put_argument(kb_json *j, const kc_mcp_argument *a)
{
    kb_json_key_z(j, a->name);
    kb_json_object_begin(j);
    kb_json_put_string(j, "type", kb_string(a->type == KC_MCP_TEXT ? "string" : "integer"));
    kb_json_put_string(j, "description", kb_string(a->about));
    if (a->choices)
        put_choices(j, a->choices);
    if (a->type == KC_MCP_NUMBER) {
        kb_json_put_uint(j, "minimum", a->min);
        kb_json_put_uint(j, "maximum", a->max);
        kb_json_put_uint(j, "default", a->initial);
    }
    kb_json_object_end(j);
}

void kc_mcp_put_schema(kb_json *j, const kc_mcp_tool *tool)
{
    kb_json_object_begin(j);
    kb_json_put_string(j, "type", kb_string("object"));
    kb_json_key_z(j, "properties");
    kb_json_object_begin(j);
    for (size_t i = 0; i < tool->argument_count; i++)
        put_argument(j, &tool->arguments[i]);
    kb_json_object_end(j);
    kb_json_key_z(j, "required");
    kb_json_array_begin(j);
    for (size_t i = 0; i < tool->argument_count; i++)
        if (tool->arguments[i].is_required)
            kb_json_string_z(j, tool->arguments[i].name);
    kb_json_array_end(j);
    kb_json_put_bool(j, "additionalProperties", false);
    kb_json_object_end(j);
}
