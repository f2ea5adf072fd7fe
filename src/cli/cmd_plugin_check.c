/* ckineto plugin check: does a plug-in keep the rules of the interface? Options, the printed
 * report and the exit status; the check itself is src/plugincheck. */
#include "cli/names.h"
#include "cli/cli.h"
#include "cli/install_paths.h"
#include "cli/plugin_check_print.h"
#include "cli/style.h"
#include "plugincheck/plugincheck.h"

#include <ckineto/plugin.h>
#include <errno.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#define VERB            "plugin check"
#define DEFAULT_LIMIT_S 60u
#define MAX_LIMIT_S     3600

static bool list_rules, verbose;
static uint64_t limit_s = DEFAULT_LIMIT_S;
static kc_texts wanted;
static kc_optional_text torch_python;
static const kc_option option_list[] = {
    KC_JSON_OPTION,
    {"rule", 'r', KC_TEXTS, &wanted, "ID", "only this rule, and those it needs (repeatable)"},
    {"list-rules", 'l', KC_FLAG, &list_rules, NULL, "list all rules with their texts"},
    {"limit", 0, KC_NUMBER, &limit_s, "SECONDS", "time limit of each part of the check (60)"},
    KC_VERBOSE_OPTION(verbose, "also list the rules that hold"),
    {"torch", 0, KC_OPTIONAL_TEXT, &torch_python, "[=PYTHON]",
     "check that it records in a process with PyTorch, of python3 if no\n"
     "interpreter is named, instead of the rules above"},
    KC_COLOR_OPTION,
};
static const kc_options options = {
    VERB,
    "[options] FILE.so",
    "Run a plug-in through the life of a profiler, and through calls that hosts and programs\n"
    "may make, and report which rules of the interface it keeps. If it exports\n"
    "KinetoPlugin_exercise, its device is made to work and the delivered events are checked.\n"
    "Everything runs in child processes: a crash is a verdict. The exit status is 0 if no\n"
    "rule is broken, 1 if one is, 2 if nothing could be checked.",
    "ckineto plugin check ./libmyplugin.so",
    option_list,
    KB_COUNT(option_list),
    false};

/* ---- the command line ------------------------------------------------------------------------ */

/* Combinations of options that exclude each other, and the number of operands. */
static kineto_status check_options(int operands)
{
    bool has_other_options =
        operands || kc_json_path || wanted.count || kc_option_given(&limit_s) || torch_python.given;
    if (list_rules && has_other_options)
        return kc_usage_error(VERB, "--list-rules takes no FILE.so and no other options");
    if (list_rules)
        return KINETO_OK;
    if (operands != 1)
        return kc_usage_error(VERB, "one plug-in is needed: FILE.so");
    if (limit_s < 1 || limit_s > MAX_LIMIT_S)
        return kc_usage_error(VERB, "--limit is from 1 to %d", MAX_LIMIT_S);
    if (torch_python.given && wanted.count)
        return kc_usage_error(VERB, "--torch has its own rules; omit --rule");
    return KINETO_OK;
}

static void list_plugin_rules(kc_name_receiver *add, void *user)
{
    for (uint32_t i = 0; i < KV_RULE_COUNT; i++)
        add(kv_rules[i].id, user);
}

/* The set of rules that the options select. */
static kineto_status parse_wanted_rules(uint64_t *rules)
{
    *rules = wanted.count ? 0 : KV_RULES_ALL;
    for (size_t i = 0; i < wanted.count; i++) {
        kv_rule rule = kv_rule_find(wanted.data[i]);
        if (rule == KV_RULE_COUNT)
            return kc_usage_error(VERB, "unknown rule '%s'%s (see --list-rules)", wanted.data[i],
                                  kc_did_you_mean(list_plugin_rules, wanted.data[i]).s);
        *rules |= KV_RULE_BIT(rule);
    }
    return KINETO_OK;
}

/* All rules, for --list-rules; no plug-in is needed. */
static int print_rules(void)
{
    for (size_t i = 0; i < KV_RULE_COUNT; i++)
        printf("%-25s %s\n", kv_rules[i].id, kv_rules[i].text);
    return kc_finish_stdout(VERB, 0);
}

/* By the magic number at its beginning. */
static bool is_elf(FILE *f)
{
    char magic[4] = "";
    return fread(magic, 1, sizeof magic, f) == sizeof magic &&
           memcmp(magic, "\177ELF", sizeof magic) == 0;
}

/* Sets `path` to the file, or to a plug-in of the installation with that name. A file that is
 * not an ELF library gets an error message and no report. False: the reason was printed. */
static bool find_library(const char *file, char path[PATH_MAX])
{
    struct stat st;
    bool is_installed = file[0] && !strchr(file, '/') && access(file, F_OK) != 0 &&
                        kc_find_plugin(file, path, PATH_MAX);
    FILE *f = NULL;
    if ((!is_installed && !realpath(file, path)) || stat(path, &st) != 0 ||
        (S_ISREG(st.st_mode) && !(f = fopen(path, "rb")))) {
        kc_complain(VERB ": %s: %s", file[0] ? file : "''", strerror(errno));
        return false;
    }
    bool is_library = f && is_elf(f);
    if (f)
        fclose(f);
    if (!is_library)
        kc_complain(VERB ": %s: not a library that can be loaded", file);
    return is_library;
}

/* ---- running --------------------------------------------------------------------------------- */

/* Print the report. A report that could not be written is not the verdict of a broken rule. */
static int print_report(const kv_check_report *r)
{
    kineto_error err;
    bool blocked = r->blocked && !r->failed;
    if (blocked)
        kc_complain(VERB ": a precondition of these rules does not hold%s",
                    wanted.count ? "; run it without --rule" : "");
    if (!kc_json_path) {
        kc_check_report_print(r, verbose);
    } else if (kc_check_report_json(r, &err)) {
        kc_complain_of(VERB, &err);
        return KC_EXIT_USAGE;
    }
    if (kc_finish_stdout(VERB, 0) || blocked)
        return KC_EXIT_USAGE;
    return r->failed ? KC_EXIT_FAILURE : 0;
}

/* @return the exit status of a check run without PyTorch. */
static int check_plugin(const char *path, uint64_t rules)
{
    static kv_check_report report;
    kineto_error err;
    if (kv_check_run(path, rules, (uint32_t)limit_s * 1000u, &report, &err)) {
        kc_complain_of(VERB, &err);
        return KC_EXIT_USAGE;
    }
    if (!report.is_plugin) {
        kc_complain(VERB ": %s: not a plug-in: it exports no %s", path,
                    KINETO_PLUGIN_REGISTER_SYMBOL);
        return KC_EXIT_USAGE;
    }
    return print_report(&report);
}

/* ---- with PyTorch ---------------------------------------------------------------------------- */

/* Print the report of the script, or describe how its process ended. @return the exit status. */
static int print_torch_result(const kv_torch_options *o, const kv_torch_result *r)
{
    kineto_error err;
    switch (r->ending) {
    case KV_TORCH_REFUSED:
        kc_complain("%s", r->text);
        return KC_EXIT_USAGE;
    case KV_TORCH_REPORTED:
        fwrite(r->report, 1, r->report_bytes, stdout);
        return kc_finish_stdout(VERB, r->conforms ? 0 : KC_EXIT_FAILURE);
    default:
        break;
    }
    if (!o->as_json)
        kc_torch_crash_print(o->plugin, r->text);
    else if (kc_torch_crash_json(o->plugin, r->text, &err))
        return KC_EXIT_USAGE;
    return kc_finish_stdout(VERB, KC_EXIT_FAILURE);
}

/* @return the exit status of a check with PyTorch. */
static int check_with_torch(const char *path)
{
    static char script[PATH_MAX];
    kv_torch_options o = {.python = torch_python.text,
                          .script = script,
                          .plugin = path,
                          .as_json = (kc_json_path != NULL),
                          .limit_ms = (uint32_t)limit_s * 1000u};
    kv_torch_result result;
    kineto_error err;
    if (!kc_find_plugin(KV_TORCH_SCRIPT, script, sizeof script)) {
        kc_complain(VERB " --torch: the Python package of ckineto is not installed next to its "
                         "plug-ins");
        return KC_EXIT_USAGE;
    }
    if (kv_torch_run(&o, &result, &err)) {
        kc_complain_of(VERB, &err);
        return KC_EXIT_USAGE;
    }
    int status = print_torch_result(&o, &result);
    kv_torch_result_free(&result);
    return status;
}

int kc_plugin_check(int argc, char **argv)
{
    static char path[PATH_MAX];
    uint64_t rules;
    int operands;
    kineto_status status = kc_parse_options(&options, argc, argv, &operands);
    if (status == KINETO_E_NOT_FOUND)
        return kc_finish_stdout(VERB, 0);
    if (status || check_options(operands))
        return KC_EXIT_USAGE;
    if (list_rules)
        return print_rules();
    if (parse_wanted_rules(&rules) || !find_library(argv[1], path))
        return KC_EXIT_USAGE;
    return torch_python.given ? check_with_torch(path) : check_plugin(path, rules);
}
