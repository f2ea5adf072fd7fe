/* The text of a request, in both dialects of the wire, and the names of the files it leads to. */
#include "cli/ondemand/trigger.h"

#include <errno.h>
#include <limits.h>
#include <time.h>
#include <unistd.h>

/* ---- text ------------------------------------------------------------------------------------ */

typedef struct writer {
    kb_sink *sink;
    bool plain;
    kineto_error *err;
    kineto_status status; /* the first mistake */
} writer;

static void put_text(writer *w, const char *text) { kb_sink_write(w->sink, text, strlen(text)); }

static void put_quoted(writer *w, const char *value)
{
    put_text(w, "\"");
    for (; *value; value++) {
        if (*value == '"' || *value == '\\')
            put_text(w, "\\");
        kb_sink_write(w->sink, value, 1);
    }
    put_text(w, "\"");
}

static bool needs_quotes(const char *value)
{
    size_t size = strlen(value);
    bool blank_ends = size && (strchr(" \t\r", value[0]) || strchr(" \t\r", value[size - 1]));
    return blank_ends || value[0] == '"' || strchr(value, '#');
}

/* libkineto splits at each '=', and cuts at each '#'. */
static kineto_status check_value(const writer *w, const char *key, const char *value)
{
    if (strpbrk(value, "\n\r"))
        return kb_fail(w->err, KINETO_E_ARGUMENT, "a line break in the value of %s", key);
    if (w->plain && strpbrk(value, "=#"))
        return kb_fail(w->err, KINETO_E_ARGUMENT,
                       "%s='%s' has '=' or '#' in it, which libkineto cannot read: it can be asked "
                       "only for what has none",
                       key, value);
    return KINETO_OK;
}

static void put(writer *w, const char *key, const char *value)
{
    if (w->status == KINETO_OK)
        w->status = check_value(w, key, value);
    put_text(w, key);
    put_text(w, "=");
    if (!w->plain && needs_quotes(value))
        put_quoted(w, value);
    else
        put_text(w, value);
    put_text(w, "\n");
}

static void put_number(writer *w, const char *key, uint64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    if (value != KC_NOT_GIVEN)
        put(w, key, text);
}

static void put_flag(writer *w, const char *key, bool value)
{
    if (value) /* what a file of the process turned on stays on */
        put(w, key, "true");
}

static uint64_t whole_seconds(uint64_t ms) { return ms / 1000 + (ms % 1000 != 0); }

static void put_warmup(writer *w, const kc_request *request)
{
    if (request->warmup_ms != KC_NOT_GIVEN)
        put_number(w, "ACTIVITIES_WARMUP_PERIOD_SECS", whole_seconds(request->warmup_ms));
    else if (!w->plain && !kc_by_iteration(request))
        put_number(w, "ACTIVITIES_WARMUP_PERIOD_SECS", 0);
    put_number(w, "ACTIVITIES_WARMUP_ITERATIONS", request->warmup_iterations);
}

static void put_window(writer *w, const kc_request *request, int64_t start_ns)
{
    if (kc_by_iteration(request)) {
        put_number(w, "PROFILE_START_ITERATION",
                   request->start_iteration == KC_NOT_GIVEN ? 0 : request->start_iteration);
        put_number(w, "PROFILE_START_ITERATION_ROUNDUP",
                   request->roundup == KC_NOT_GIVEN ? 1 : request->roundup);
        put_number(w, "ACTIVITIES_ITERATIONS", request->iterations);
    } else if (start_ns) {
        put_number(w, "PROFILE_START_TIME", (uint64_t)start_ns / KC_MS_NS);
    }
    put_number(w, "ACTIVITIES_DURATION_MSECS", request->duration_ms);
    put_warmup(w, request);
}

/* libkineto knows names of kinds, but no name for many of them. */
static void put_kinds(writer *w, const kc_request *request)
{
    bool many = request->activities && (strcmp(request->activities, "default") == 0);
    if (request->activities && !(w->plain && many))
        put(w, "ACTIVITY_TYPES", request->activities);
}

/* In the order of the command line, after all else: of a key that comes twice the last one counts.
 */
static void put_set(writer *w, const kc_request *request)
{
    for (size_t i = 0; i < request->set.count && w->status == KINETO_OK; i++) {
        const char *pair = request->set.data[i], *equals = strchr(pair, '=');
        char key[96];
        if (!equals || equals == pair || (size_t)(equals - pair) >= sizeof key) {
            w->status = kb_fail(w->err, KINETO_E_ARGUMENT, "--set needs KEY=VALUE, not '%s'", pair);
            return;
        }
        snprintf(key, sizeof key, "%.*s", (int)(equals - pair), pair);
        put(w, key, equals + 1);
    }
}

static void put_all(writer *w, const kc_request *request, const kc_request_format *how)
{
    put(w, "ACTIVITIES_LOG_FILE", how->path);
    if (kc_is_snapshot(request)) {
        put_flag(w, "PROFILE_MEMORY", true);
        put_number(w, "PROFILE_MEMORY_DURATION_MSECS", request->snapshot_ms);
        if (how->start_ns)
            put_number(w, "PROFILE_START_TIME", (uint64_t)how->start_ns / KC_MS_NS);
    } else {
        put_window(w, request, how->start_ns);
    }
    put_kinds(w, request);
    put_flag(w, "PROFILE_REPORT_INPUT_SHAPES", request->shapes);
    put_flag(w, "PROFILE_PROFILE_MEMORY", request->memory);
    put_flag(w, "PROFILE_WITH_STACK", request->stack);
    put_flag(w, "PROFILE_WITH_FLOPS", request->flops);
    put_flag(w, "PROFILE_WITH_MODULES", request->modules);
    if (request->group[0])
        put(w, "REQUEST_GROUP_TRACE_ID", request->group);
    put_set(w, request);
}

kineto_status kc_request_text(const kc_request *request, const kc_request_format *how, char **out, kineto_error *err)
{
    writer w = {.plain = how->plain, .err = err};
    size_t bytes;
    *out = NULL;
    kineto_status status = kb_sink_open_memory(KB_COMPRESS_NONE, &w.sink, err);
    if (status != KINETO_OK)
        return status;
    put_all(&w, request, how);
    status = w.status == KINETO_OK ? kb_sink_take(w.sink, out, &bytes, err) : w.status;
    kb_sink_abort(w.sink);
    return status;
}

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
        kc_show_message("%s is no key that ckineto knows; it is sent as it is", unknown.s);
    free(text);
    return status;
}

/* ---- times ----------------------------------------------------------------------------------- */

int64_t kc_request_lead_ns(const kc_request *request, bool wire)
{
    enum { SOCKET_NS = 250000000 }; /* to say it to all, and 100 ms to get ready */
    uint64_t warmup_ns = wire ? KC_WARMUP_NS : 0;
    if (request->warmup_ms != KC_NOT_GIVEN)
        warmup_ns = whole_seconds(request->warmup_ms) * KC_SECOND_NS;
    return (int64_t)(warmup_ns + (wire ? KC_POLL_NS + KC_TICK_NS + KC_SLACK_NS : SOCKET_NS));
}

uint64_t kc_request_length_ns(const kc_request *request)
{
    enum { USUAL_MS = 500, SNAPSHOT_MS = 1000 };
    const uint64_t ITERATIONS_NS = 600 * KC_SECOND_NS;
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

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

bool kc_path_with_suffix(const char *path, const char *text, char out[KO_REQUEST_PATH_BYTES])
{
    const char *name = last_part(path), *at = name + ko_request_output_pid_place(name);
    int n = snprintf(out, KO_REQUEST_PATH_BYTES, "%.*s_%s%s", (int)(at - path), path, text, at);
    return n > 0 && n < (int)KO_REQUEST_PATH_BYTES;
}

bool kc_path_with_pid(const char *path, uint32_t pid, char out[KO_REQUEST_PATH_BYTES])
{
    char text[12];
    snprintf(text, sizeof text, "%u", pid);
    return kc_path_with_suffix(path, text, out);
}

bool kc_is_below(const char *path, const char *directory)
{
    size_t size = strlen(directory);
    while (size > 0 && directory[size - 1] == '/')
        size--;
    return strncmp(path, directory, size) == 0 && path[size] == '/' && path[size + 1] &&
           !strstr(path, "/../");
}

/* The directory, as the system sees it; the file need not be there. */
static kineto_status resolve(const char *path, char out[KO_REQUEST_PATH_BYTES], kineto_error *err)
{
    char directory[PATH_MAX], real[PATH_MAX];
    const char *name = last_part(path);
    if (!*name || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return kb_fail(err, KINETO_E_ARGUMENT, "'%s' is a directory: name a file", path);
    snprintf(directory, sizeof directory, "%.*s", (int)(name - path), path);
    if (!realpath(directory[0] ? directory : ".", real))
        return kb_fail_os(err, errno, "cannot write '%s'", path);
    int n = snprintf(out, KO_REQUEST_PATH_BYTES, "%s/%s", strcmp(real, "/") ? real : "", name);
    return n > 0 && n < (int)KO_REQUEST_PATH_BYTES
               ? KINETO_OK
               : kb_fail(err, KINETO_E_ARGUMENT, "'%s' is too long a path", path);
}

kineto_status kc_absolute_path(const char *path, char out[KO_REQUEST_PATH_BYTES], kineto_error *err)
{
    return strlen(path) >= KO_REQUEST_PATH_BYTES
               ? kb_fail(err, KINETO_E_ARGUMENT, "'%.100s…' is too long a path", path)
               : resolve(path, out, err);
}
