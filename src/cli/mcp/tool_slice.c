/* The tool `slice`: a part of a trace as a new file in the folder that the user allowed. */
#include "cli/mcp/mcp.h"
#include "cli/time_range.h"
#include "export/export.h"

#include <errno.h>
#include <limits.h>
#include <sys/stat.h>

/* The path of the new file: a plain name in the allowed folder, which does not exist yet. */
static kineto_status choose_new_path(const kc_mcp_call *call, char path[PATH_MAX], kineto_error *err)
{
    const char *name = kc_mcp_text(call, "name"), *folder = call->server->output_dir;
    struct stat s;
    if (strchr(name, '/') || name[0] == '.')
        return kb_fail(err, KINETO_E_ARGUMENT,
                       "argument 'name' must be the name of a file, without '/' and not beginning with '.', not '%.80s'",
                       name);
    if (snprintf(path, PATH_MAX, "%s/%s", folder, name) >= PATH_MAX)
        return kb_fail(err, KINETO_E_ARGUMENT, "argument 'name' is too long");
    if (lstat(path, &s) == 0)
        return kb_fail(err, KINETO_E_BUSY, "%s exists: choose another name", path);
    if (errno != ENOENT)
        return kb_fail_os(err, errno, "cannot write %s", path);
    return ke_check_path(path, err);
}

/* Arguments that need the trace, or not: all in one selection. */
static kineto_status read_selection(const kc_mcp_call *call, const kineto_trace *trace, kineto_selection *how,
                                    kineto_error *err)
{
    const char *time = kc_mcp_text(call, "time"), *steps = kc_mcp_text(call, "steps");
    const char *kinds = kc_mcp_text(call, "kinds"), *shortest = kc_mcp_text(call, "min_duration");
    *how = (kineto_selection){.size = sizeof *how,
                              .name = kc_mcp_text(call, "names"),
                              .track = kc_mcp_text(call, "track"),
                              .under = kc_mcp_text(call, "under"),
                              .top = kc_mcp_number(call, "top")};
    if (time) {
        how->use |= KINETO_SELECT_TIME;
        if (!kc_parse_time_range(time, trace, &how->start_ns, &how->end_ns) || how->end_ns <= how->start_ns)
            return kb_fail(err, KINETO_E_ARGUMENT, "argument 'time' needs %s, not '%.80s'", KC_TIME_RANGE_FORM, time);
    }
    if (steps) {
        how->use |= KINETO_SELECT_STEPS;
        if (!kc_parse_number_range(steps, &how->first_step, &how->last_step))
            return kb_fail(err, KINETO_E_ARGUMENT, "argument 'steps' needs N or N..M, not '%.80s'", steps);
    }
    if (shortest && !kc_parse_duration(kb_string(shortest), &how->min_duration_ns))
        return kb_fail(err, KINETO_E_ARGUMENT, "argument 'min_duration' needs a time such as 10us, not '%.80s'",
                       shortest);
    return kinds ? kineto_kinds_parse(kinds, &how->kinds, err) : KINETO_OK;
}

static kineto_status answer_slice(kc_mcp_call *call, const kineto_trace *from, const kineto_trace *part,
                                  const char *path, kineto_error *err)
{
    int64_t start, end;
    kb_json *j = kc_mcp_begin(call, "ckineto.mcp_slice/1", err);
    if (!j)
        return err->code;
    kineto_trace_window(part, &start, &end);
    kc_mcp_put_member(j, "path", kb_string(path), KC_MCP_ANSWER_BYTES / 2);
    kb_json_put_uint(j, "activities", kineto_trace_count(part));
    kb_json_put_uint(j, "of", kineto_trace_count(from));
    kb_json_put_us(j, "dur_us", kb_length_ns(start, end));
    kb_json_object_end(j);
    return KINETO_OK;
}

static kineto_status run_slice(kc_mcp_call *call, kineto_error *err)
{
    char path[PATH_MAX];
    kc_mcp_trace *t;
    kineto_trace *part = NULL;
    kineto_selection how;
    kineto_status status = choose_new_path(call, path, err);
    if (!status)
        status = kc_mcp_open_trace(call, &t, err);
    if (!status)
        status = read_selection(call, t->trace, &how, err);
    if (!status)
        status = kineto_trace_select(t->trace, &how, &part, err);
    if (!status && !kineto_trace_count(part))
        status = kb_fail(err, KINETO_E_NOT_FOUND, "no activity matches");
    if (!status)
        status = kineto_trace_save(part, path, err);
    if (!status)
        status = answer_slice(call, t->trace, part, path, err);
    kineto_trace_release(part);
    return status;
}

static const kc_mcp_argument slice_arguments[] = {
    KC_MCP_TRACE,
    {"name", KC_MCP_TEXT, true, 0, 200, 0, NULL, "name of the new file: part.json.gz, part.pftrace …"},
    {"time", KC_MCP_TEXT, false, 0, 0, 0, NULL, "A:B: +1.5s:+2s from the start, -200ms: from the end, 10%:20%"},
    {"steps", KC_MCP_TEXT, false, 0, 0, 0, NULL, "step N, or N..M"},
    {"kinds", KC_MCP_TEXT, false, 0, 0, 0, NULL, "kinds of activities: kernel,gpu_memcpy"},
    {"names", KC_MCP_TEXT, false, 0, 0, 0, NULL, "extended regular expression that names match"},
    {"track", KC_MCP_TEXT, false, 0, 0, 0, NULL, "thread or stream: a number, or an expression that its name matches"},
    {"under", KC_MCP_TEXT, false, 0, 0, 0, NULL, "expression: ranges that match, all in them, and work they launched"},
    {"min_duration", KC_MCP_TEXT, false, 0, 0, 0, NULL, "ranges of at least this duration: 10us"},
    {"top", KC_MCP_NUMBER, false, 0, UINT32_MAX, 0, NULL, "only the N longest; 0: all"},
};
const kc_mcp_tool kc_mcp_slice_tool = {
    "slice", "Cut out a part", "Write the part of a trace that meets all conditions as a new trace file.", true,
    slice_arguments, KB_COUNT(slice_arguments), run_slice};
