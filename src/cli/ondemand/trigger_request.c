/* The text of a request, and the names of the files that it leads to. The text has two dialects:
 * the full one of ckineto (quotes, any kind of activity), and the plain one that libkineto reads
 * over Dynolog's wire. */
#include "cli/ondemand/trigger.h"

#include <errno.h>
#include <limits.h>
#include <time.h>
#include <unistd.h>

/* ---- text ------------------------------------------------------------------------------------ */

typedef struct request_writer {
    kb_sink *sink;
    bool plain;
    kineto_error *err;
    /* the first mistake */
    kineto_status status;
} request_writer;

/* As it is, without quotes. */
static void write_request_text(request_writer *w, const char *text)
{
    kb_sink_write(w->sink, text, strlen(text));
}

/* Backslashes before quotes and backslashes. */
static void write_quoted(request_writer *w, const char *value)
{
    write_request_text(w, "\"");
    for (; *value; value++) {
        if (*value == '"' || *value == '\\')
            write_request_text(w, "\\");
        kb_sink_write(w->sink, value, 1);
    }
    write_request_text(w, "\"");
}

/* Leading and trailing blanks, quotes and comments would be lost. */
static bool does_value_need_quotes(const char *value)
{
    size_t size = strlen(value);
    bool blank_ends = size && (strchr(" \t\r", value[0]) || strchr(" \t\r", value[size - 1]));
    return blank_ends || value[0] == '"' || strchr(value, '#');
}

/* A value is one line. libkineto splits at every '=' and cuts at every '#'. */
static kineto_status check_request_value(const request_writer *w, const char *key,
                                         const char *value)
{
    if (strpbrk(value, "\n\r"))
        return kb_fail(w->err, KINETO_E_ARGUMENT, "a line break in the value of %s", key);
    if (w->plain && strpbrk(value, "=#"))
        return kb_fail(w->err, KINETO_E_ARGUMENT,
                       "%s='%s' contains '=' or '#', which libkineto cannot read in a value", key,
                       value);
    return KINETO_OK;
}

/* KEY=VALUE and a line break; a value that cannot be written sets the status. */
static void write_pair(request_writer *w, const char *key, const char *value)
{
    if (w->status == KINETO_OK)
        w->status = check_request_value(w, key, value);
    write_request_text(w, key);
    write_request_text(w, "=");
    if (!w->plain && does_value_need_quotes(value))
        write_quoted(w, value);
    else
        write_request_text(w, value);
    write_request_text(w, "\n");
}

static void write_number_pair(request_writer *w, const char *key, uint64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    if (value != KC_NOT_GIVEN)
        write_pair(w, key, text);
}

static void write_flag_pair(request_writer *w, const char *key, bool value)
{
    if (value) /* a flag that a configuration file of the process sets stays set */
        write_pair(w, key, "true");
}

static uint64_t round_up_to_seconds(uint64_t ms) { return ms / 1000 + (ms % 1000 != 0); }

/* Without an option control sockets need no warm-up; libkineto keeps its default. */
static void write_warmup(request_writer *w, const kc_request *request)
{
    if (request->warmup_ms != KC_NOT_GIVEN)
        write_number_pair(w, "ACTIVITIES_WARMUP_PERIOD_SECS",
                          round_up_to_seconds(request->warmup_ms));
    else if (!w->plain && !kc_by_iteration(request))
        write_number_pair(w, "ACTIVITIES_WARMUP_PERIOD_SECS", 0);
    write_number_pair(w, "ACTIVITIES_WARMUP_ITERATIONS", request->warmup_iterations);
}

/* By iteration, or by time with an optional start. */
static void write_window(request_writer *w, const kc_request *request, int64_t start_ns)
{
    if (kc_by_iteration(request)) {
        write_number_pair(w, "PROFILE_START_ITERATION",
                          request->start_iteration == KC_NOT_GIVEN ? 0 : request->start_iteration);
        write_number_pair(w, "PROFILE_START_ITERATION_ROUNDUP",
                          request->roundup == KC_NOT_GIVEN ? 1 : request->roundup);
        write_number_pair(w, "ACTIVITIES_ITERATIONS", request->iterations);
    } else if (start_ns) {
        write_number_pair(w, "PROFILE_START_TIME", (uint64_t)start_ns / KC_MS_NS);
    }
    write_number_pair(w, "ACTIVITIES_DURATION_MSECS", request->duration_ms);
    write_warmup(w, request);
}

/* libkineto knows the names of single kinds, but not "default". */
static void write_activity_kinds(request_writer *w, const kc_request *request)
{
    bool is_default = request->activities && (strcmp(request->activities, "default") == 0);
    if (request->activities && !(w->plain && is_default))
        write_pair(w, "ACTIVITY_TYPES", request->activities);
}

/* --set comes last, in the order of the command line: of a key that occurs twice the last one
 * counts. */
static void write_set_options(request_writer *w, const kc_request *request)
{
    for (size_t i = 0; i < request->set.count && w->status == KINETO_OK; i++) {
        const char *pair = request->set.data[i], *equals = strchr(pair, '=');
        char key[96];
        if (!equals || equals == pair || (size_t)(equals - pair) >= sizeof key) {
            w->status = kb_fail(w->err, KINETO_E_ARGUMENT, "--set needs KEY=VALUE, not '%s'", pair);
            return;
        }
        snprintf(key, sizeof key, "%.*s", (int)(equals - pair), pair);
        write_pair(w, key, equals + 1);
    }
}

/* All settings, --set last. */
static void write_request(request_writer *w, const kc_request *request,
                          const kc_request_format *how)
{
    write_pair(w, "ACTIVITIES_LOG_FILE", how->path);
    if (kc_is_snapshot(request)) {
        write_flag_pair(w, "PROFILE_MEMORY", true);
        write_number_pair(w, "PROFILE_MEMORY_DURATION_MSECS", request->snapshot_ms);
        if (how->start_ns)
            write_number_pair(w, "PROFILE_START_TIME", (uint64_t)how->start_ns / KC_MS_NS);
    } else {
        write_window(w, request, how->start_ns);
    }
    write_activity_kinds(w, request);
    write_flag_pair(w, "PROFILE_REPORT_INPUT_SHAPES", request->shapes);
    write_flag_pair(w, "PROFILE_PROFILE_MEMORY", request->memory);
    write_flag_pair(w, "PROFILE_WITH_STACK", request->stack);
    write_flag_pair(w, "PROFILE_WITH_FLOPS", request->flops);
    write_flag_pair(w, "PROFILE_WITH_MODULES", request->modules);
    if (request->group[0])
        write_pair(w, "REQUEST_GROUP_TRACE_ID", request->group);
    write_set_options(w, request);
}

/* The first mistake in a value is kept while the text is completed. */
kineto_status kc_request_text(const kc_request *request, const kc_request_format *how, char **out,
                              kineto_error *err)
{
    request_writer w = {.plain = how->plain, .err = err};
    size_t bytes;
    *out = NULL;
    kineto_status status = kb_sink_open_memory(KB_COMPRESS_NONE, &w.sink, err);
    if (status != KINETO_OK)
        return status;
    write_request(&w, request, how);
    status = w.status == KINETO_OK ? kb_sink_take(w.sink, out, &bytes, err) : w.status;
    kb_sink_abort(w.sink);
    return status;
}

/* Unknown keys are reported and sent, because the process may know them. */
kineto_status kc_request_check(const kc_request *request, kineto_error *err)
{
    ko_request parsed;
    kb_text unknown = {""};
    uint32_t unknown_count = 0;
    char *text;
    kc_request_format how = {.path = request->out, .start_ns = request->start_ns};
    kineto_status status = kc_request_text(request, &how, &text, err);
    if (status != KINETO_OK)
        return status;
    ko_request_init(&parsed);
    status =
        ko_request_parse(&parsed, kb_string(text), KO_FROM_REQUEST, &unknown, &unknown_count, err);
    if (status == KINETO_OK)
        status = ko_request_complete(&parsed, (int64_t)kb_clock_ns(CLOCK_REALTIME), err);
    if (status == KINETO_OK && unknown_count)
        kc_show_message("unknown key %s; it is sent as it is", unknown.s);
    free(text);
    return status;
}

/* ---- times ----------------------------------------------------------------------------------- */

/* Over the wire: warm-up, one poll, one tick and the slack that libkineto demands. */
int64_t kc_request_lead_ns(const kc_request *request, bool wire)
{
    enum { SOCKET_NS = 250000000 }; /* to send it to all, and 100 ms to prepare */
    uint64_t warmup_ns = wire ? KC_WARMUP_NS : 0;
    if (request->warmup_ms != KC_NOT_GIVEN)
        warmup_ns = round_up_to_seconds(request->warmup_ms) * KB_SECOND_NS;
    return (int64_t)(warmup_ns + (wire ? KC_POLL_NS + KC_TICK_NS + KC_SLACK_NS : SOCKET_NS));
}

/* The number of iterations says nothing about time: ten minutes. */
uint64_t kc_request_length_ns(const kc_request *request)
{
    enum { USUAL_MS = 500, SNAPSHOT_MS = 1000 };
    const uint64_t ITERATIONS_NS = 600 * KB_SECOND_NS;
    uint64_t ms = kc_is_snapshot(request) ? SNAPSHOT_MS : USUAL_MS;
    if (kc_is_snapshot(request))
        ms = request->snapshot_ms;
    else if (request->duration_ms != KC_NOT_GIVEN)
        ms = request->duration_ms;
    else if (kc_by_iteration(request))
        return ITERATIONS_NS;
    return ms * KC_MS_NS;
}

/* ---- names ----------------------------------------------------------------------------------- */

static const char *find_file_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

bool kc_path_with_suffix(const char *path, const char *text, char out[KO_REQUEST_PATH_BYTES])
{
    const char *name = find_file_name(path), *at = name + ko_request_output_pid_place(name);
    int n = snprintf(out, KO_REQUEST_PATH_BYTES, "%.*s_%s%s", (int)(at - path), path, text, at);
    return n > 0 && n < (int)KO_REQUEST_PATH_BYTES;
}

bool kc_path_with_pid(const char *path, uint32_t pid, char out[KO_REQUEST_PATH_BYTES])
{
    char text[12];
    snprintf(text, sizeof text, "%u", pid);
    return kc_path_with_suffix(path, text, out);
}

/* Textually; a path with "/../" is never below. */
bool kc_is_below(const char *path, const char *directory)
{
    size_t size = strlen(directory);
    while (size > 0 && directory[size - 1] == '/')
        size--;
    return strncmp(path, directory, size) == 0 && path[size] == '/' && path[size + 1] &&
           !strstr(path, "/../");
}

/* Resolve links of the directory; the file need not exist. */
static kineto_status resolve_directory(const char *path, char out[KO_REQUEST_PATH_BYTES],
                                       kineto_error *err)
{
    char directory[PATH_MAX], real[PATH_MAX];
    const char *name = find_file_name(path);
    if (!*name || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return kb_fail(err, KINETO_E_ARGUMENT, "'%s' is a directory: name a file", path);
    snprintf(directory, sizeof directory, "%.*s", (int)(name - path), path);
    if (!realpath(directory[0] ? directory : ".", real))
        return kb_fail_os(err, errno, "cannot write '%s'", path);
    int n = snprintf(out, KO_REQUEST_PATH_BYTES, "%s/%s", strcmp(real, "/") ? real : "", name);
    return n > 0 && n < (int)KO_REQUEST_PATH_BYTES
               ? KINETO_OK
               : kb_fail(err, KINETO_E_ARGUMENT, "'%s': the path is too long", path);
}

kineto_status kc_absolute_path(const char *path, char out[KO_REQUEST_PATH_BYTES], kineto_error *err)
{
    return strlen(path) >= KO_REQUEST_PATH_BYTES
               ? kb_fail(err, KINETO_E_ARGUMENT, "'%.100s…': the path is too long", path)
               : resolve_directory(path, out, err);
}
