/* The daemon's side of dyno's RPC: a JSON object with the name of a function, answered by a JSON
 * object. Requests that Dynolog does not understand are not answered, here as there. Requests are
 * untrusted. */
#include "ondemand/dynolog/dyno.h"
#include "trace/bytes/json_text.h"

#include <time.h>

/* Errors in answers have the wording of Dynolog's JSON library, so that scripts that search for it
 * keep working. */
#define TYPE_ERROR "[json.exception.type_error.302] type must be %s, but is %s"

/* Raw JSON values; empty: not given. Of duplicate keys the last one counts. */
typedef struct call {
    kineto_string fn, config, pids, job, limit, token, duration;
} call;

/* As Dynolog's JSON library names types. */
static const char *json_type_name(kineto_string raw)
{
    switch (raw.size ? raw.data[0] : 'n') {
    case '"':
        return "string";
    case '{':
        return "object";
    case '[':
        return "array";
    case 't':
    case 'f':
        return "boolean";
    case 'n':
        return "null";
    default:
        return "number";
    }
}

static kineto_status fail_wrong_type(kineto_error *err, const char *wanted, kineto_string raw)
{
    return kb_fail(err, KINETO_E_ARGUMENT, TYPE_ERROR, wanted, json_type_name(raw));
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Keys are compared as they are written: dyno escapes none of these. */
static kineto_string *find_call_member(call *c, kineto_string key)
{
    const struct {
        const char *name;
        kineto_string *value;
    } known[] = {{"fn", &c->fn},
                 {"config", &c->config},
                 {"pids", &c->pids},
                 {"job_id", &c->job},
                 {"process_limit", &c->limit},
                 {"token", &c->token},
                 {"duration_s", &c->duration}};
    for (size_t i = 0; i < KB_COUNT(known); i++)
        if (kb_string_equal(key, kb_string(known[i].name)))
            return known[i].value;
    return NULL;
}

/* Keeps the raw values of known members; unknown members are ignored. */
static kineto_status read_rpc_call(kineto_string request, call *out, kineto_error *err)
{
    kt_scan s = kt_scan_of(request);
    kineto_string key, value;
    bool first = true;
    *out = (call){0};
    if (kb_utf8_valid_prefix(request.data, request.size) != request.size)
        return kb_fail(err, KINETO_E_FORMAT, "request is not UTF-8");
    if (kt_scan_open(&s, '{')) {
        while (kt_scan_more(&s, &first, '{') && kt_scan_key(&s, &key) &&
               kt_scan_value(&s, &value)) {
            kineto_string *at = find_call_member(out, key);
            if (at)
                *at = value;
        }
    }
    if (s.problem || !kt_scan_end(&s))
        return kb_fail(err, KINETO_E_FORMAT, "request, byte %zu: %s", (size_t)(s.at - s.begin),
                       s.problem);
    return KINETO_OK;
}

/* As in Dynolog, booleans count as numbers and fractions are rounded. Out of range values saturate.
 */
static kineto_status read_json_number(kineto_string raw, int64_t *out, kineto_error *err)
{
    const char *type = json_type_name(raw);
    if (strcmp(type, "boolean") == 0)
        *out = raw.data[0] == 't';
    else if (strcmp(type, "number") != 0)
        return fail_wrong_type(err, "number", raw);
    else if (!kt_json_int(raw, out) && !kt_json_scaled(raw, 0, out))
        *out = raw.data[0] == '-' ? INT64_MIN : INT64_MAX;
    return KINETO_OK;
}

static kineto_status read_optional_number(kineto_string raw, int64_t initial, int64_t *out,
                                          kineto_error *err)
{
    *out = initial;
    return raw.size ? read_json_number(raw, out, err) : KINETO_OK;
}

typedef KB_VEC(int32_t) pid_list;

/* An array of pids, each from 0 to INT32_MAX. */
static kineto_status read_json_pids(kineto_string raw, pid_list *out, kineto_error *err)
{
    kt_scan s = kt_scan_of(raw);
    kineto_string item;
    bool first = true;
    if (raw.data[0] != '[')
        return fail_wrong_type(err, "array", raw);
    (void)kt_scan_open(&s, '[');
    while (kt_scan_more(&s, &first, '[') && kt_scan_value(&s, &item)) {
        int64_t pid;
        kineto_status status = read_json_number(item, &pid, err);
        if (status != KINETO_OK)
            return status;
        if (pid < 0 || pid > INT32_MAX)
            return kb_fail(err, KINETO_E_ARGUMENT, "invalid pid %lld", (long long)pid);
        if (!kb_vec_push(out, (int32_t)pid))
            return kb_fail_memory(err, "pids");
    }
    return KINETO_OK;
}

/* An unescaped JSON string, to be freed. */
static kineto_status read_json_text(kineto_string raw, kineto_string *out, kineto_error *err)
{
    uint64_t replaced = 0;
    if (!kt_json_is_string(raw))
        return fail_wrong_type(err, "string", raw);
    char *text = malloc(raw.size);
    if (!text)
        return kb_fail_memory(err, "configuration");
    char *end = kt_json_unescape(text, kt_json_inside(raw), &replaced);
    if (replaced) {
        free(text);
        return kb_fail(err, KINETO_E_ARGUMENT, "configuration with half a surrogate pair");
    }
    *out = (kineto_string){text, (size_t)(end - text)};
    return KINETO_OK;
}

/* ---- answers --------------------------------------------------------------------------------- */

kineto_status ko_dyno_object(ko_dyno_fill *fill, const void *context, char **text, size_t *bytes,
                             kineto_error *err)
{
    kb_sink *sink;
    kb_json j;
    kineto_status status = kb_sink_open_memory(KB_COMPRESS_NONE, &sink, err);
    if (status != KINETO_OK)
        return status;
    kb_json_init(&j, sink);
    kb_json_object_begin(&j);
    fill(&j, context);
    kb_json_object_end(&j);
    status = kb_sink_take(sink, text, bytes, err);
    kb_sink_abort(sink);
    return status;
}

static void fill_status(kb_json *j, const void *context)
{
    (void)context;
    kb_json_put_int(j, "status", 1); /* running, without DCGM */
}

static void fill_version(kb_json *j, const void *context)
{
    (void)context;
    kb_json_put_string(j, "version", kb_string("ckineto " KINETO_VERSION));
}

static void fill_time(kb_json *j, const void *context)
{
    (void)context;
    kb_json_put_uint(j, "time_ns", kb_clock_ns(CLOCK_REALTIME));
}

/* context: a kineto_error, or NULL for "failed" without a reason. */
static void fill_failed(kb_json *j, const void *context)
{
    const kineto_error *why = context;
    char text[sizeof why->message + 32];
    snprintf(text, sizeof text, "failed%s%s", why ? " with exception = " : "",
             why ? why->message : "");
    kb_json_put_string(j, "status", kb_string(text));
}

static void fill_denied(kb_json *j, const void *context)
{
    char text[256];
    snprintf(text, sizeof text, "failed: permission denied: %s", (const char *)context);
    kb_json_put_string(j, "status", kb_string(text));
}

static void fill_no_dcgm(kb_json *j, const void *context)
{
    (void)context;
    kb_json_put_bool(j, "status", false);
}

static void put_pids(kb_json *j, const char *key, const int32_t *pids, size_t count)
{
    kb_json_key_z(j, key);
    kb_json_array_begin(j);
    for (size_t i = 0; i < count; i++)
        kb_json_int(j, pids[i]);
    kb_json_array_end(j);
}

/* Keys in the order of the alphabet. */
static void fill_matches(kb_json *j, const void *context)
{
    const ko_dyno_matches *m = context;
    kb_json_put_uint(j, "activityProfilersBusy", m->busy);
    put_pids(j, "activityProfilersTriggered", m->triggered.data, m->triggered.count);
    kb_json_put_uint(j, "eventProfilersBusy", 0);
    put_pids(j, "eventProfilersTriggered", NULL, 0);
    put_pids(j, "processesMatched", m->matched.data, m->matched.count);
}

typedef struct listing {
    kb_json *j;
    const ko_dyno_caller *caller;
    uint64_t now_ns;
} listing;

/* ko_dyno_visit: omits processes that the caller may not see. */
static void put_listed_process(void *context, const ko_dyno_process *p)
{
    const listing *l = context;
    uint64_t ago_ns = l->now_ns > p->seen_ns ? l->now_ns - p->seen_ns : 0;
    if (l->caller->one_user && p->user != l->caller->user)
        return;
    kb_json_object_begin(l->j);
    kb_json_put_int(l->j, "job_id", p->job);
    kb_json_put_int(l->j, "pid", p->pid);
    put_pids(l->j, "pids", p->pids, p->pid_count);
    kb_json_put_uint(l->j, "seen_ms_ago", ago_ns / 1000000);
    kb_json_put_uint(l->j, "user", p->user);
    kb_json_put_bool(l->j, "waits", p->waits);
    kb_json_object_end(l->j);
}

typedef struct list_context {
    const ko_dyno_registry *registry;
    listing listing;
} list_context;

static void fill_processes(kb_json *j, const void *context)
{
    const list_context *c = context;
    listing l = c->listing;
    l.j = j;
    kb_json_key_z(j, "processes");
    kb_json_array_begin(j);
    ko_dyno_registry_each(c->registry, put_listed_process, &l);
    kb_json_array_end(j);
}

/* ---- functions ------------------------------------------------------------------------------- */

/* A call with its caller, and where its answer goes. */
typedef struct asked {
    ko_dyno_registry *registry;
    const ko_dyno_caller *caller;
    const call *call;
    uint64_t now_ns;
    char **answer;
    size_t *bytes;
} asked;

static kineto_status reply_object(const asked *a, ko_dyno_fill *fill, const void *context,
                                  kineto_error *err)
{
    return ko_dyno_object(fill, context, a->answer, a->bytes, err);
}

/* Converts the members of a call to a trigger. A missing limit means 1000, as in Dynolog. */
static kineto_status trigger_from_call(const asked *a, ko_dyno_matches *out, kineto_error *err)
{
    enum { USUAL_LIMIT = 1000 };
    const call *c = a->call;
    int64_t job = 0, limit = 0;
    kineto_string config = {0};
    pid_list pids = {0};
    kineto_status status = read_json_text(c->config, &config, err);
    if (status == KINETO_OK)
        status = read_json_pids(c->pids, &pids, err);
    if (status == KINETO_OK)
        status = read_optional_number(c->job, 0, &job, err);
    if (status == KINETO_OK)
        status = read_optional_number(c->limit, USUAL_LIMIT, &limit, err);
    if (status == KINETO_OK) {
        ko_dyno_trigger t = {.job = job,
                             .pids = pids.data,
                             .pid_count = (uint32_t)pids.count,
                             .limit = (int32_t)KB_MAX(KB_MIN(limit, INT32_MAX), -1),
                             .config = config,
                             .one_user = a->caller->one_user,
                             .user = a->caller->user};
        status = ko_dyno_registry_trigger(a->registry, &t, a->now_ns, out, err);
    }
    kb_vec_free(&pids);
    free((char *)(uintptr_t)config.data);
    return status;
}

/* Errors become the answer "failed with exception = …", as in Dynolog. */
static kineto_status answer_trigger(const asked *a, kineto_error *err)
{
    ko_dyno_matches matches = {0};
    kineto_error why = {0};
    if (!a->call->config.size || !a->call->pids.size)
        return reply_object(a, fill_failed, NULL, err);
    if (trigger_from_call(a, &matches, &why) != KINETO_OK)
        return reply_object(a, fill_failed, &why, err);
    kb_log(KINETO_LOG_INFO, "RPC: %zu processes match a request, %zu get it, %u are busy",
           matches.matched.count, matches.triggered.count, matches.busy);
    kineto_status status = reply_object(a, fill_matches, &matches, err);
    ko_dyno_matches_free(&matches);
    return status;
}

static kineto_status answer_status(const asked *a, kineto_error *err)
{
    return reply_object(a, fill_status, NULL, err);
}

static kineto_status answer_version(const asked *a, kineto_error *err)
{
    return reply_object(a, fill_version, NULL, err);
}

/* Not in Dynolog: lets triggers on many hosts measure how far their clocks are apart. */
static kineto_status answer_time(const asked *a, kineto_error *err)
{
    return reply_object(a, fill_time, NULL, err);
}

/* As Dynolog without DCGM: there is nothing to pause. */
static kineto_status answer_pause(const asked *a, kineto_error *err)
{
    kineto_error why = {0};
    int64_t seconds;
    if (!a->call->duration.size)
        return reply_object(a, fill_failed, NULL, err);
    if (read_json_number(a->call->duration, &seconds, &why) != KINETO_OK)
        return reply_object(a, fill_failed, &why, err);
    return reply_object(a, fill_no_dcgm, NULL, err);
}

static kineto_status answer_resume(const asked *a, kineto_error *err)
{
    return reply_object(a, fill_no_dcgm, NULL, err);
}

static kineto_status answer_processes(const asked *a, kineto_error *err)
{
    ko_dyno_registry_age(a->registry, a->now_ns);
    list_context c = {a->registry, {.caller = a->caller, .now_ns = a->now_ns}};
    return reply_object(a, fill_processes, &c, err);
}

static const struct function {
    const char *name;
    kineto_status (*answer)(const asked *a, kineto_error *err);
} functions[] = {{"setKinetOnDemandRequest", answer_trigger},
                 {"listProcesses", answer_processes},
                 {"getStatus", answer_status},
                 {"getVersion", answer_version},
                 {"getTime", answer_time},
                 {"dcgmProfPause", answer_pause},
                 {"dcgmProfResume", answer_resume}};

/* NULL: unknown, or "fn" is not a string. */
static const struct function *find_function(const call *c)
{
    for (size_t i = 0; kt_json_is_string(c->fn) && i < KB_COUNT(functions); i++)
        if (kb_string_equal(kt_json_inside(c->fn), kb_string(functions[i].name)))
            return &functions[i];
    return NULL;
}

/* ---- permissions ----------------------------------------------------------------------------- */

/* Constant-time comparison: its duration does not depend on where the texts differ. */
static bool is_same_secret(kineto_string given, kineto_string wanted)
{
    volatile unsigned char differs = given.size != wanted.size;
    for (size_t i = 0; i < wanted.size; i++)
        differs |= (unsigned char)(wanted.data[i] ^ given.data[i < given.size ? i : 0]);
    return !differs;
}

/* NULL: the token is right; else the reason for the refusal. */
static const char *check_call_token(const char *wanted, kineto_string raw)
{
    kineto_string given = {0};
    if (!raw.size || read_json_text(raw, &given, NULL) != KINETO_OK)
        return "this daemon requires its token";
    bool same = given.size && is_same_secret(given, kb_string(wanted));
    free((char *)(uintptr_t)given.data);
    return same ? NULL : "this daemon has another token";
}

static const char *find_denial(const ko_dyno_caller *caller, const call *c)
{
    return caller->token ? check_call_token(caller->token, c->token) : caller->denied;
}

kineto_status ko_dyno_rpc(ko_dyno_registry *r, const ko_dyno_caller *caller, kineto_string request,
                          uint64_t now_ns, char **answer, size_t *answer_bytes, kineto_error *err)
{
    call c;
    *answer = NULL;
    *answer_bytes = 0;
    kineto_status status = read_rpc_call(request, &c, err);
    if (status != KINETO_OK)
        return status;
    const asked a = {r, caller, &c, now_ns, answer, answer_bytes};
    const char *denied = find_denial(caller, &c);
    if (denied) {
        status = reply_object(&a, fill_denied, denied, err);
        return status ? status : kb_fail(err, KINETO_E_PERMISSION, "%s", denied);
    }
    const struct function *f = find_function(&c);
    if (f)
        return f->answer(&a, err);
    return kb_fail(err, KINETO_E_UNSUPPORTED, "request %s",
                   c.fn.size ? "of an unknown function" : "without a function, \"fn\"");
}
