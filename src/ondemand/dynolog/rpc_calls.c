/* Calls of dyno's RPC: builds the request as JSON, and parses the reply strictly. */
#include "ondemand/dynolog/dyno.h"
#include "ondemand/dynolog/rpc_client.h"
#include "trace/bytes/json_text.h"

/* How our daemon's refusals begin; see fill_denied in dyno_rpc.c. */
#define DENIED "failed: permission denied"

/* ---- questions ------------------------------------------------------------------------------- */

typedef struct question {
    const ko_rpc_daemon *daemon;
    const char *function;
    ko_dyno_fill *fill; /* NULL: it has no arguments */
    const void *context;
} question;

/* ko_dyno_fill: function, arguments, and the token if the daemon requires one. */
static void fill_question(kb_json *j, const void *context)
{
    const question *q = context;
    kb_json_put_string(j, "fn", kb_string(q->function));
    if (q->fill)
        q->fill(j, q->context);
    if (q->daemon->token)
        kb_json_put_string(j, "token", kb_string(q->daemon->token));
}

/* ---- answers --------------------------------------------------------------------------------- */

static kineto_status fail_malformed(const char *what, kineto_error *err)
{
    return kb_fail(err, KINETO_E_FORMAT, "malformed reply from the daemon: %s", what);
}

/* The raw value of a member; of duplicate keys the last one counts; empty: not there. */
static kineto_string find_answer_member(kineto_string object, const char *name)
{
    kt_scan s = kt_scan_of(object);
    kineto_string key, value, found = {0};
    bool first = true;
    if (!kt_scan_open(&s, '{'))
        return found;
    while (kt_scan_more(&s, &first, '{') && kt_scan_key(&s, &key) && kt_scan_value(&s, &value))
        if (kb_string_equal(key, kb_string(name)))
            found = value;
    return found;
}

static bool is_json_array(kineto_string raw) { return raw.size && raw.data[0] == '['; }

/* {"status": "failed…"} is a refusal: its text becomes the message, without control characters. */
static kineto_status check_refusal(kineto_string answer, kineto_error *err)
{
    kineto_string status = find_answer_member(answer, "status");
    char text_shown[256];
    if (!kt_json_is_string(status))
        return KINETO_OK;
    status = kt_json_inside(status);
    snprintf(text_shown, sizeof text_shown, "%.*s", (int)KB_MIN(status.size, sizeof text_shown - 1),
             status.data);
    for (char *c = text_shown; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            *c = '?';
    bool denied = kb_string_starts_with(status, DENIED);
    return kb_fail(err, denied ? KINETO_E_PERMISSION : KINETO_E_ARGUMENT, "the daemon says: %s",
                   text_shown);
}

/* Makes one call. *text: the reply, to be freed; *answer: the same, a valid JSON object. */
static kineto_status call_daemon(const ko_rpc_daemon *d, const char *function, ko_dyno_fill *fill,
                                 const void *context, char **text, kineto_string *answer,
                                 kineto_error *err)
{
    const question q = {d, function, fill, context};
    char *asked = NULL;
    size_t bytes = 0;
    *text = NULL;
    kineto_status status = ko_dyno_object(fill_question, &q, &asked, &bytes, err);
    if (status == KINETO_OK)
        status = ko_rpc_exchange(d, (kineto_string){asked, bytes}, text, &bytes, err);
    free(asked);
    if (status != KINETO_OK)
        return status;
    *answer = (kineto_string){*text, bytes};
    if (!kb_json_valid(*answer))
        status = fail_malformed("not JSON", err);
    else if (answer->data[strspn(answer->data, " \t\r\n")] != '{')
        status = fail_malformed("not an object", err);
    else
        status = check_refusal(*answer, err);
    return status;
}

static kineto_status read_answer_pids(kineto_string raw, ko_rpc_pids *out, kineto_error *err)
{
    kt_scan s = kt_scan_of(raw);
    kineto_string item;
    bool first = true;
    if (!is_json_array(raw) || !kt_scan_open(&s, '['))
        return fail_malformed("pids are missing", err);
    while (kt_scan_more(&s, &first, '[') && kt_scan_value(&s, &item)) {
        int64_t pid;
        if (!kt_json_int(item, &pid) || pid < INT32_MIN || pid > INT32_MAX)
            return fail_malformed("a pid is not a number", err);
        if (!kb_vec_push(out, (int32_t)pid))
            return kb_fail_memory(err, "pids");
    }
    return KINETO_OK;
}

/* ---- triggers -------------------------------------------------------------------------------- */

static void fill_trigger(kb_json *j, const void *context)
{
    const ko_rpc_request *r = context;
    kb_json_put_string(j, "config", r->config);
    kb_json_put_int(j, "job_id", r->job);
    kb_json_key_z(j, "pids");
    kb_json_array_begin(j);
    for (uint32_t i = 0; i < r->pid_count; i++)
        kb_json_int(j, r->pids[i]);
    kb_json_array_end(j);
    kb_json_put_int(j, "process_limit", r->limit < 0 ? -1 : KB_MIN(r->limit, INT32_MAX));
}

static kineto_status read_trigger_result(kineto_string answer, ko_rpc_result *out,
                                         kineto_error *err)
{
    kineto_string matched = find_answer_member(answer, "processesMatched");
    kineto_status status = read_answer_pids(matched, &out->matched, err);
    if (status == KINETO_OK)
        status = read_answer_pids(find_answer_member(answer, "activityProfilersTriggered"),
                                  &out->triggered, err);
    if (status == KINETO_OK &&
        !kt_json_uint(find_answer_member(answer, "activityProfilersBusy"), &out->busy))
        status = fail_malformed("the number of busy processes is missing", err);
    return status;
}

kineto_status ko_rpc_trigger(const ko_rpc_daemon *d, const ko_rpc_request *request,
                             ko_rpc_result *out, kineto_error *err)
{
    char *text;
    kineto_string answer;
    *out = (ko_rpc_result){0};
    kineto_status status =
        call_daemon(d, "setKinetOnDemandRequest", fill_trigger, request, &text, &answer, err);
    if (status == KINETO_OK)
        status = read_trigger_result(answer, out, err);
    if (status != KINETO_OK)
        ko_rpc_result_free(out);
    free(text);
    return status;
}

void ko_rpc_result_free(ko_rpc_result *r)
{
    kb_vec_free(&r->matched);
    kb_vec_free(&r->triggered);
    r->busy = 0;
}

/* ---- the list -------------------------------------------------------------------------------- */

static bool read_bounded_int(kineto_string raw, int64_t least, int64_t most, int64_t *out)
{
    return kt_json_int(raw, out) && *out >= least && *out <= most;
}

/* One element of "processes"; all members are required. */
static kineto_status read_listed_process(kineto_string raw, ko_rpc_list *out, kineto_error *err)
{
    ko_rpc_process p = {.pids_at = (uint32_t)out->pids.count};
    kineto_string waits = find_answer_member(raw, "waits");
    int64_t pid, user;
    if (!read_bounded_int(find_answer_member(raw, "pid"), INT32_MIN, INT32_MAX, &pid) ||
        !read_bounded_int(find_answer_member(raw, "user"), 0, UINT32_MAX, &user) ||
        !kt_json_int(find_answer_member(raw, "job_id"), &p.job) ||
        !kt_json_uint(find_answer_member(raw, "seen_ms_ago"), &p.seen_ms_ago) || !waits.size)
        return fail_malformed("a process is incomplete", err);
    p.pid = (int32_t)pid;
    p.user = (uint32_t)user;
    p.waits = waits.data[0] == 't';
    kineto_status status = read_answer_pids(find_answer_member(raw, "pids"), &out->pids, err);
    if (status != KINETO_OK)
        return status;
    p.pid_count = (uint32_t)out->pids.count - p.pids_at;
    return kb_vec_push(&out->processes, p)
               ? KINETO_OK
               : kb_fail_memory(err, "list of processes");
}

static kineto_status read_processes(kineto_string raw, ko_rpc_list *out, kineto_error *err)
{
    kt_scan s = kt_scan_of(raw);
    kineto_string item;
    bool first = true;
    if (!is_json_array(raw) || !kt_scan_open(&s, '['))
        return fail_malformed("processes are missing", err);
    while (kt_scan_more(&s, &first, '[') && kt_scan_value(&s, &item)) {
        kineto_status status = read_listed_process(item, out, err);
        if (status != KINETO_OK)
            return status;
    }
    return KINETO_OK;
}

kineto_status ko_rpc_list_processes(const ko_rpc_daemon *d, ko_rpc_list *out, kineto_error *err)
{
    char *text;
    kineto_string answer;
    *out = (ko_rpc_list){0};
    kineto_status status = call_daemon(d, "listProcesses", NULL, NULL, &text, &answer, err);
    if (status == KINETO_OK)
        status = read_processes(find_answer_member(answer, "processes"), out, err);
    if (status != KINETO_OK)
        ko_rpc_list_free(out);
    free(text);
    return status;
}

void ko_rpc_list_free(ko_rpc_list *l)
{
    kb_vec_free(&l->processes);
    kb_vec_free(&l->pids);
}

/* ---- status, version, time ------------------------------------------------------------------- */

kineto_status ko_rpc_status(const ko_rpc_daemon *d, int64_t *out, kineto_error *err)
{
    char *text;
    kineto_string answer;
    kineto_status status = call_daemon(d, "getStatus", NULL, NULL, &text, &answer, err);
    if (status == KINETO_OK && !kt_json_int(find_answer_member(answer, "status"), out))
        status = fail_malformed("its status is missing", err);
    free(text);
    return status;
}

kineto_status ko_rpc_version(const ko_rpc_daemon *d, char version[64], kineto_error *err)
{
    char *text;
    kineto_string answer;
    kineto_status status = call_daemon(d, "getVersion", NULL, NULL, &text, &answer, err);
    kineto_string text_shown =
        status == KINETO_OK ? find_answer_member(answer, "version") : (kineto_string){0};
    if (status == KINETO_OK && !kt_json_is_string(text_shown))
        status = fail_malformed("its version is missing", err);
    if (status == KINETO_OK) {
        text_shown = kt_json_inside(text_shown);
        snprintf(version, 64, "%.*s", (int)KB_MIN(text_shown.size, (size_t)63), text_shown.data);
    }
    free(text);
    return status;
}

kineto_status ko_rpc_time(const ko_rpc_daemon *d, int64_t *time_ns, kineto_error *err)
{
    char *text;
    kineto_string answer;
    kineto_status status = call_daemon(d, "getTime", NULL, NULL, &text, &answer, err);
    /* Not negative, so that callers can subtract another time without overflow. */
    if (status == KINETO_OK &&
        !read_bounded_int(find_answer_member(answer, "time_ns"), 0, INT64_MAX, time_ns))
        status = fail_malformed("its time is missing or invalid", err);
    free(text);
    return status;
}
