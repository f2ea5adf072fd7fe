/* ckineto plugin list: find plug-ins, load each in a process of its own, and print their profilers
 * and kinds. `plugin check` is in cmd_plugin_check.c. */
#include "cli/page.h"
#include "cli/cli.h"
#include "cli/install_paths.h"
#include "cli/launch/plugins.h"
#include "cli/style.h"

#include <limits.h>
#include <unistd.h>

static const char *directories;
static uint64_t limit_s = KC_PLUGIN_TIMEOUT_MS / 1000;

static const kc_option option_list[] = {
    {"dir", 'd', KC_TEXT, &directories, "DIRS", "list these directories, separated by ':'"},
    {"limit", 0, KC_NUMBER, &limit_s, "SECONDS", "time limit for loading one (30)"},
    KC_JSON_OPTION,
    KC_COLOR_OPTION,
};
static const kc_options options = {
    "plugin list",
    "[options] [FILE[,rev=early|a|b] …]",
    "Load plug-ins, each in a process of its own, and list their profilers and the\n"
    "kinds of activities that these record. Without FILE and --dir these are the\n"
    "plug-ins that recording would use: those in the directories of\n"
    "KINETO_PLUGIN_LIB_DIR_PATH, those of the installation, and ckineto's own.\n"
    "The exit status is 1 if a plug-in cannot be loaded.",
    "ckineto plugin list ./libmyplugin.so",
    option_list,
    KB_COUNT(option_list),
    false};

/* ---- finding --------------------------------------------------------------------------------- */

/* The given files and directories; without any, those that recording would use. */
static kineto_status find_listed_plugins(kc_plugins *p, char **files, int count, kineto_error *err)
{
    kineto_status status = KINETO_OK;
    if (count == 0 && !directories)
        status = kc_plugins_add_default(p, err);
    for (int i = 0; i < count && status == KINETO_OK; i++)
        status = kc_plugins_add_file(p, files[i], KC_PLUGIN_GIVEN, err);
    if (directories && status == KINETO_OK)
        status = kc_plugins_add_directories(p, directories, KC_PLUGIN_DIRECTORY, err);
    if (count == 0 && !directories && status == KINETO_OK)
        status = kc_plugins_add_interfaces(p, err);
    return status;
}

/* Number of files in one state, for the last line. */
static size_t count_plugins_in(const kc_plugins *p, kc_plugin_state state)
{
    size_t count = 0;
    for (size_t i = 0; i < p->list.count; i++)
        count += p->list.data[i].state == state;
    return count;
}

/* ---- as text --------------------------------------------------------------------------------- */

static FILE *page; /* the text, which is wrapped when it is complete */

static void print_name(const char *text) { kc_put_name(page, kb_string(text), 0); }

/* One line: name, vendor, revision, and kinds with their numbers. */
static void print_plugin_profiler(const kc_plugin_profiler *p)
{
    fputs("           ", page);
    print_name(p->name);
    fputs(" (", page);
    if (p->vendor[0]) {
        fputs("vendor ", page);
        print_name(p->vendor);
        fputs(", ", page);
    }
    fputs("revision ", page);
    print_name(p->revision);
    fputs("):", page);
    for (uint32_t i = 0; i < p->type_count; i++) {
        fputs(i ? ", " : " ", page);
        print_name(p->types[i].name);
        fprintf(page, " %d%s", p->types[i].number, p->types[i].own ? " (its own)" : "");
    }
    fprintf(page, "%s\n", p->type_count ? "" : " no kinds");
}

/* The state and path of a file, then its profilers or the reason why it was not loaded. */
static void print_plugin_entry(const kc_plugin_file *p)
{
    kc_put_styled(page, p->state == KC_PLUGIN_LOADED ? KC_GREEN : p->state == KC_PLUGIN_SKIPPED || p->state == KC_PLUGIN_REPEATED
                            ? KC_DIM
                            : KC_RED,
                  "%-10s", kc_plugin_state_name(p->state));
    fputc(' ', page);
    print_name(p->path);
    if (p->revision[0])
        fprintf(page, ",rev=%s", p->revision);
    if (p->interface)
        fprintf(page, " (loaded through %s)", p->interface);
    fputc('\n', page);
    for (size_t i = 0; i < p->profilers.count; i++)
        print_plugin_profiler(&p->profilers.data[i]);
    if (p->state == KC_PLUGIN_LOADED)
        return;
    fputs("           ", page);
    print_name(p->interface && p->state == KC_PLUGIN_SKIPPED /* one of ours: no error */
                   ? "not a plug-in: it records by itself once a program has loaded it"
                   : p->reason);
    fputc('\n', page);
}

/* Which directories were searched. */
static void print_no_plugins(void)
{
    char installed[PATH_MAX] = "";
    (void)kc_plugins_directory(installed, sizeof installed);
    if (directories)
        fprintf(page, "No plug-in in %s.\n", directories);
    else
        fprintf(page, "No plug-in: %s, and none in %s.\n",
               kb_setting("KINETO_PLUGIN_LIB_DIR_PATH")
                   ? "none in the directories of KINETO_PLUGIN_LIB_DIR_PATH"
                   : "KINETO_PLUGIN_LIB_DIR_PATH is not set",
               installed);
}

/* All entries, and their number by state. */
static void print_plugin_list(const kc_plugins *p)
{
    const char *separator = "\n";
    for (size_t i = 0; i < p->list.count; i++)
        print_plugin_entry(&p->list.data[i]);
    if (p->list.count == 0)
        print_no_plugins();
    for (int state = KC_PLUGIN_LOADED; state <= KC_PLUGIN_TIMED_OUT; state++) {
        size_t count = count_plugins_in(p, (kc_plugin_state)state);
        if (count == 0)
            continue;
        fprintf(page, "%s%zu %s", separator, count, kc_plugin_state_name((kc_plugin_state)state));
        separator = ", ";
    }
    if (p->list.count)
        fprintf(page, "%s\n", ".");
}

static void print_plugin_page(const kc_plugins *p)
{
    kc_page whole;
    page = kc_page_begin(&whole, stdout);
    print_plugin_list(p);
    kc_page_end(&whole);
}

/* ---- as JSON --------------------------------------------------------------------------------- */

static void put_plugin_text(kb_json *j, const char *key, const char *text)
{
    kb_json_put_string(j, key, kb_string(text));
}

/* null for a number without a kind. */
static void put_kind_or_null(kb_json *j, const char *key, uint32_t kind)
{
    kb_json_key_z(j, key);
    if (kind < KINETO_KIND_COUNT)
        kb_json_string_z(j, kineto_kind_name(kind));
    else
        kb_json_null(j);
}

/* Members of the JSON object are an interface; `kind` is null for numbers that name no kind
 * here. */
static void put_profiler(kb_json *j, const kc_plugin_profiler *p)
{
    kb_json_object_begin(j);
    put_plugin_text(j, "name", p->name);
    put_plugin_text(j, "vendor", p->vendor);
    put_plugin_text(j, "revision", p->revision);
    kb_json_key_z(j, "types");
    kb_json_array_begin(j);
    for (uint32_t i = 0; i < p->type_count; i++) {
        kb_json_object_begin(j);
        kb_json_put_int(j, "number", p->types[i].number);
        put_plugin_text(j, "name", p->types[i].name);
        put_kind_or_null(j, "kind", p->types[i].kind);
        kb_json_put_bool(j, "own", p->types[i].own);
        kb_json_object_end(j);
    }
    kb_json_array_end(j);
    kb_json_object_end(j);
}

static void put_own_kinds(kb_json *j, const kc_plugin_file *p)
{
    kb_json_key_z(j, "own_kinds");
    kb_json_array_begin(j);
    for (uint32_t i = 0; i < p->own_count; i++) {
        kb_json_object_begin(j);
        put_plugin_text(j, "name", p->own[i].name);
        put_kind_or_null(j, "like", p->own[i].like);
        kb_json_put_bool(j, "default", p->own[i].by_default);
        kb_json_object_end(j);
    }
    kb_json_array_end(j);
}

/* `profilers` is empty unless the file could be loaded. */
static void put_plugin(kb_json *j, const kc_plugin_file *p)
{
    kb_json_newline(j);
    kb_json_object_begin(j);
    put_plugin_text(j, "file", p->path);
    put_plugin_text(j, "state", kc_plugin_state_name(p->state));
    put_plugin_text(j, "reason", p->reason);
    put_plugin_text(j, "from", kc_plugin_origin_name(p->origin));
    if (p->interface)
        put_plugin_text(j, "interface", p->interface);
    kb_json_key_z(j, "profilers");
    kb_json_array_begin(j);
    for (size_t i = 0; i < p->profilers.count; i++)
        put_profiler(j, &p->profilers.data[i]);
    kb_json_array_end(j);
    put_own_kinds(j, p);
    kb_json_object_end(j);
}

static void put_plugin_list(kb_json *j, const void *what)
{
    const kc_plugins *p = what;
    kb_json_document_begin(j, "ckineto.plugins/1");
    put_plugin_text(j, "version", kineto_version());
    kb_json_key_z(j, "plugins");
    kb_json_array_begin(j);
    for (size_t i = 0; i < p->list.count; i++)
        put_plugin(j, &p->list.data[i]);
    kb_json_array_end(j);
    kb_json_object_end(j);
}

/* ---- the verb -------------------------------------------------------------------------------- */

/* Finds, probes and prints. Each plug-in is loaded in a process of its own, since its code may
 * crash or hang. The exit status is 1 if one could not be loaded. */
static int list_plugins(char **files, int count)
{
    kc_plugins plugins = {0};
    kineto_error err = {0};
    bool failed = false;
    kineto_status status = find_listed_plugins(&plugins, files, count, &err);
    if (status == KINETO_OK)
        status = kc_plugins_probe(&plugins, (uint32_t)limit_s * 1000u, &err);
    if (status == KINETO_OK && kc_json_path)
        status = kc_put_json(put_plugin_list, &plugins, &err);
    else if (status == KINETO_OK)
        print_plugin_page(&plugins);
    if (status)
        kc_complain_of("plugin list", &err);
    for (size_t i = 0; i < plugins.list.count; i++)
        failed |= kc_plugin_failed(&plugins.list.data[i]);
    kc_plugins_free(&plugins);
    return kc_finish_stdout("plugin list", status || failed ? KC_EXIT_FAILURE : 0);
}

/* `plugin list`. */
static int run_plugin_list(int argc, char **argv)
{
    enum { MAX_S = 3600 };
    int operands;
    kineto_status status = kc_parse_options(&options, argc, argv, &operands);
    if (status == KINETO_E_NOT_FOUND)
        return kc_finish_stdout("plugin list", 0);
    if (status == KINETO_OK && (limit_s < 1 || limit_s > MAX_S))
        status = kc_usage_error("plugin list", "--limit is from 1 to %d", MAX_S);
    return status ? KC_EXIT_USAGE : list_plugins(argv + 1, operands);
}

static int print_plugin_usage(FILE *out, int status)
{
    kc_put_styled(out, KC_BOLD, "Usage:");
    fputs(" ckineto plugin list [options] [FILE …]\n"
          "       ckineto plugin check [options] FILE\n\n"
          "Plug-ins are libraries that record accelerators.\n\n"
          "  list   list plug-ins and the kinds that they record\n"
          "  check  check whether a plug-in keeps the rules of the interface\n\n"
          "'ckineto plugin list --help' and 'ckineto plugin check --help' list the options.\n",
          out);
    return kc_finish_stdout("plugin", status);
}

/* A verb with two parts; each part has its own options. */
int kc_plugin(int argc, char **argv)
{
    if (argc < 2) {
        print_plugin_usage(stderr, 0);
        return KC_EXIT_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
        return print_plugin_usage(stdout, 0);
    if (strcmp(argv[1], "list") == 0)
        return run_plugin_list(argc - 1, argv + 1);
    if (strcmp(argv[1], "check") == 0)
        return kc_plugin_check(argc - 1, argv + 1);
    if (access(argv[1], F_OK) == 0)
        (void)kc_usage_error("plugin", "no command given for '%s', for example: ckineto plugin check %s", argv[1],
                             argv[1]);
    else
        (void)kc_usage_error("plugin", "unknown command '%s'; known are list and check", argv[1]);
    return KC_EXIT_USAGE;
}
