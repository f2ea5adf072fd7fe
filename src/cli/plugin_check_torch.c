/* ckineto plugin check --torch: a Python with PyTorch checks the plug-in and prints the report
 * (python/ckineto_attach/plugin_check.py). It runs in a child process, so that a crash or a hang is
 * a verdict as well. */
#include "plugincheck/check.h"
#include "cli/cli.h"
#include "plugincheck/isolate.h"

#include <errno.h>
#include <limits.h>
#include <unistd.h>

#define TORCH_SCRIPT   "python/ckineto_attach/plugin_check.py"
#define DEFAULT_PYTHON "python3"
#define MAX_TEXT_BYTES 4096u
#define CANNOT_EXECUTE KC_EXIT_NOT_FOUND

typedef struct torch_check {
    const char *python, *plugin;
    char script[PATH_MAX];
    bool as_json;
} torch_check;

/* The report goes to stdout, which becomes the outcome's data; what libraries print is its text. */
static void exec_python(void *context, int to)
{
    const torch_check *t = context;
    const char *arguments[] = {t->python, t->script, t->plugin, t->as_json ? "--json" : NULL, NULL};
    if (dup2(to, STDOUT_FILENO) >= 0)
        execvp(t->python, (char *const *)(uintptr_t)arguments);
    dprintf(STDERR_FILENO, "%s: %s", t->python, strerror(errno));
    _exit(CANNOT_EXECUTE);
}

/* The last line of what was printed to stderr. */
static const char *find_last_line(kv_outcome *o)
{
    while (o->text_bytes && o->text[o->text_bytes - 1] == '\n')
        o->text[--o->text_bytes] = 0;
    const char *line = strrchr(o->text, '\n');
    return line ? line + 1 : o->text;
}

typedef struct torch_crash {
    const char *plugin, *seen;
} torch_crash;

#define CRASH_RULE "torch.survives"
#define CRASH_TEXT "The process with PyTorch survives the check."

static void write_crash(kb_json *j, const void *what)
{
    const torch_crash *c = what;
    kb_json_object_begin(j);
    kb_json_put_string(j, "file", kb_string(c->plugin));
    kb_json_put_bool(j, "conforms", false);
    kb_json_put_uint(j, "ok", 0);
    kb_json_put_uint(j, "failed", 1);
    kb_json_put_uint(j, "untested", 0);
    kb_json_key_z(j, "rules");
    kb_json_array_begin(j);
    kb_json_object_begin(j);
    kb_json_put_string(j, "id", kb_string(CRASH_RULE));
    kb_json_put_string(j, "verdict", kb_string("failed"));
    kb_json_put_string(j, "seen", kb_string(c->seen));
    kb_json_put_string(j, "rule", kb_string(CRASH_TEXT));
    kb_json_object_end(j);
    kb_json_array_end(j);
    kb_json_object_end(j);
}

static void print_crash(const torch_crash *c)
{
    kc_put_name(stdout, kb_string(c->plugin), 0);
    printf("\n\n%-25s %-11s %s\n", "rule", "verdict", "what was seen");
    printf("%-25s %-11s ", CRASH_RULE, "FAILED");
    kc_put_name(stdout, kb_string(c->seen), 0);
    printf("\n%25s rule: " CRASH_TEXT "\n\n", "");
    puts("0 rules hold, 1 failed, 0 not tested: it does not conform");
}

static int report_crash(const torch_check *t, kv_outcome *o, const kv_isolation *how)
{
    char ending[80], seen[400];
    kineto_error err;
    const char *line = find_last_line(o);
    snprintf(seen, sizeof seen, "%s%s%s", kv_outcome_text(o, how, ending, sizeof ending),
             *line ? "; it printed: " : "", line);
    torch_crash crash = {t->plugin, seen};
    if (t->as_json && kc_put_json(write_crash, &crash, &err))
        return KC_EXIT_USAGE;
    if (!t->as_json)
        print_crash(&crash);
    return kc_finish_stdout("plugin check", KC_EXIT_FAILURE);
}

/* There was nothing that could be checked: the last line of the script, or of exec_python. */
static int report_obstacle(kv_outcome *o)
{
    static const char prefix[] = "ckineto: ";
    const char *line = find_last_line(o);
    if (strncmp(line, prefix, sizeof prefix - 1) == 0)
        kc_complain("%s", line + sizeof prefix - 1);
    else
        kc_complain("plugin check --torch: %s", line);
    return KC_EXIT_USAGE;
}

static int report_outcome(const torch_check *t, kv_outcome *o, const kv_isolation *how)
{
    bool has_report = o->ending == KV_EXITED && o->code <= KC_EXIT_FAILURE && o->data_bytes;
    bool has_exited = o->ending == KV_EXITED;
    if (has_exited && (o->code == KC_EXIT_USAGE || o->code == CANNOT_EXECUTE))
        return report_obstacle(o);
    if (!has_report)
        return report_crash(t, o, how);
    fwrite(o->data, 1, o->data_bytes, stdout);
    return kc_finish_stdout("plugin check", o->code);
}

int kv_check_torch(const char *python, const char *plugin, bool as_json, uint32_t limit_ms)
{
    static torch_check t;
    kv_isolation how = {.limit_ms = limit_ms, .most_text_bytes = MAX_TEXT_BYTES};
    kv_outcome o;
    kineto_error err;
    t.python = python && *python ? python : DEFAULT_PYTHON;
    t.plugin = plugin;
    t.as_json = as_json;
    if (!kc_find_plugin(TORCH_SCRIPT, t.script, sizeof t.script)) {
        kc_complain("plugin check --torch: the Python package of ckineto is not installed next to "
                    "its plug-ins");
        return KC_EXIT_USAGE;
    }
    if (kv_isolate(&how, exec_python, &t, &o, &err)) {
        kc_complain_of("plugin check", &err);
        return KC_EXIT_USAGE;
    }
    int status = report_outcome(&t, &o, &how);
    kv_outcome_free(&o);
    return status;
}
