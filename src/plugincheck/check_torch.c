/* The check with PyTorch: a Python process imports it and runs KV_TORCH_SCRIPT, which checks the
 * plug-in and prints the report on its standard output. Messages of libraries go to its standard
 * error, whose last line explains a failure. */
#include "plugincheck/isolate.h"
#include "plugincheck/plugincheck.h"

#include <errno.h>
#include <unistd.h>

#define DEFAULT_PYTHON "python3"
#define MAX_TEXT_BYTES 4096u

/* Exit statuses of the script, and of exec_python. */
enum { SCRIPT_CONFORMS = 0, SCRIPT_FAILED = 1, SCRIPT_REFUSED = 2, CANNOT_EXECUTE = 127 };

/* In the child. The report becomes the data of the outcome, stderr its text. */
static void exec_python(void *context, int to)
{
    const kv_torch_options *o = context;
    const char *arguments[] = {o->python, o->script, o->plugin, o->as_json ? "--json" : NULL, NULL};
    if (dup2(to, STDOUT_FILENO) >= 0)
        execvp(o->python, (char *const *)(uintptr_t)arguments);
    dprintf(STDERR_FILENO, "%s: %s", o->python, strerror(errno));
    _exit(CANNOT_EXECUTE);
}

/* The script ends its messages with a line "ckineto: REASON". */
static void describe_refusal(kv_torch_result *r, kv_outcome *o)
{
    static const char prefix[] = "ckineto: ";
    const char *line = kv_outcome_last_line(o);
    bool is_script = strncmp(line, prefix, sizeof prefix - 1) == 0;
    r->ending = KV_TORCH_REFUSED;
    snprintf(r->text, sizeof r->text, "%s%.370s", is_script ? "" : "plugin check --torch: ",
             is_script ? line + sizeof prefix - 1 : line);
}

static void describe_crash(kv_torch_result *r, kv_outcome *o, const kv_isolation *how)
{
    char ending[80];
    const char *line = kv_outcome_last_line(o);
    r->ending = KV_TORCH_CRASHED;
    snprintf(r->text, sizeof r->text, "%s%s%.300s", kv_outcome_text(o, how, ending, sizeof ending),
             *line ? "; it printed: " : "", line);
}

/* A status of 0 or 1 with output is a report; 2 a refusal; anything else a crash. */
kineto_status kv_torch_run(const kv_torch_options *options, kv_torch_result *out, kineto_error *err)
{
    kv_isolation how = {.limit_ms = options->limit_ms, .max_text_bytes = MAX_TEXT_BYTES};
    kv_torch_options given = *options;
    kv_outcome o;
    *out = (kv_torch_result){0};
    if (!given.python || !*given.python)
        given.python = DEFAULT_PYTHON;
    kineto_status status = kv_isolate(&how, exec_python, &given, &o, err);
    if (status)
        return status;
    bool exited = o.ending == KV_EXITED;
    if (exited && (o.code == SCRIPT_REFUSED || o.code == CANNOT_EXECUTE)) {
        describe_refusal(out, &o);
    } else if (exited && o.code <= SCRIPT_FAILED && o.data_bytes) {
        out->ending = KV_TORCH_REPORTED;
        out->conforms = o.code == SCRIPT_CONFORMS;
        out->report = o.data;
        out->report_bytes = o.data_bytes;
        o.data = NULL; /* the result owns it */
    } else {
        describe_crash(out, &o, &how);
    }
    kv_outcome_free(&o);
    return KINETO_OK;
}

void kv_torch_result_free(kv_torch_result *r)
{
    free(r->report);
    *r = (kv_torch_result){0};
}
