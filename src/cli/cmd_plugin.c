/* ckineto plugin: what plug-ins there are, and whether one keeps to the interface. */
#include "cli/cli.h"
#include "cli/install_paths.h"
#include "cli/launch/plugins.h"

#include <limits.h>

static bool as_json;
static const char *directories;
static uint64_t limit_s = KC_PLUGIN_TIMEOUT_MS / 1000;

static const kc_option option_list[] = {
    {"dir", 'd', KC_TEXT, &directories, "DIRS", "list these directories, separated by ':'"},
    {"limit", 0, KC_NUMBER, &limit_s, "SECONDS", "how long loading one may take (30)"},
    {"json", 'j', KC_FLAG, &as_json, NULL, "one JSON object instead of text"},
};
static const kc_options options = {
    "plugin list",
    "[options] [FILE[,rev=early|a|b] …]",
    "Load plug-ins, each in a process of its own, and say what they are: their\n"
    "profilers and the kinds of activities that these record. Without FILE and --dir\n"
    "these are the plug-ins that recording would use: those of the directories in\n"
    "KINETO_PLUGIN_LIB_DIR_PATH, those of the installation, and ckineto's own.\n"
    "The exit status is 1 if a plug-in cannot be loaded.",
    option_list,
    KB_COUNT(option_list),
    false};

/* ---- what to list ---------------------------------------------------------------------------- */

static kineto_status gather(kc_plugins *p, char **files, int count, kineto_error *err)
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

static size_t count_states(const kc_plugins *p, kc_plugin_state state)
{
    size_t count = 0;
    for (size_t i = 0; i < p->list.count; i++)
        count += p->list.data[i].state == state;
    return count;
}

/* ---- as text --------------------------------------------------------------------------------- */

static void put(const char *text) { kc_put_name(stdout, kb_string(text), 0); }

static void print_profiler(const kc_plugin_profiler *p)
{
    fputs("           ", stdout);
    put(p->name);
    fputs(" (", stdout);
    if (p->vendor[0]) {
        fputs("vendor ", stdout);
        put(p->vendor);
        fputs(", ", stdout);
    }
    fputs("revision ", stdout);
    put(p->revision);
    fputs("):", stdout);
    for (uint32_t i = 0; i < p->type_count; i++) {
        fputs(i ? ", " : " ", stdout);
        put(p->types[i].name);
        printf(" %d%s", p->types[i].number, p->types[i].own ? " (its own)" : "");
    }
    puts(p->type_count ? "" : " no kinds");
}

static void print_plugin(const kc_plugin_file *p)
{
    printf("%-10s ", kc_plugin_state_name(p->state));
    put(p->path);
    if (p->revision[0])
        printf(",rev=%s", p->revision);
    if (p->interface)
        printf(" (comes in through %s)", p->interface);
    putchar('\n');
    for (size_t i = 0; i < p->profilers.count; i++)
        print_profiler(&p->profilers.data[i]);
    if (p->state == KC_PLUGIN_LOADED)
        return;
    fputs("           ", stdout);
    put(p->interface && p->state == KC_PLUGIN_SKIPPED /* of ours: nothing is wrong with it */
            ? "not a plug-in: it records on its own once a program has loaded it"
            : p->reason);
    putchar('\n');
}

static void print_nothing_found(void)
{
    char installed[PATH_MAX] = "";
    (void)kc_plugins_directory(installed, sizeof installed);
    if (directories)
        printf("No plug-in in %s.\n", directories);
    else
        printf("No plug-in: %s, and there is none in %s.\n",
               kb_setting("KINETO_PLUGIN_LIB_DIR_PATH")
                   ? "none in the directories of KINETO_PLUGIN_LIB_DIR_PATH"
                   : "KINETO_PLUGIN_LIB_DIR_PATH is not set",
               installed);
}

static void print_text(const kc_plugins *p)
{
    const char *separator = "\n";
    for (size_t i = 0; i < p->list.count; i++)
        print_plugin(&p->list.data[i]);
    if (p->list.count == 0)
        print_nothing_found();
    for (int state = KC_PLUGIN_LOADED; state <= KC_PLUGIN_TIMED_OUT; state++) {
        size_t count = count_states(p, (kc_plugin_state)state);
        if (count == 0)
            continue;
        printf("%s%zu %s", separator, count, kc_plugin_state_name((kc_plugin_state)state));
        separator = ", ";
    }
    if (p->list.count)
        puts(".");
}

/* ---- as JSON --------------------------------------------------------------------------------- */

static void put_text(kb_json *j, const char *key, const char *text)
{
    kb_json_put_string(j, key, kb_string(text));
}

static void put_kind(kb_json *j, const char *key, uint32_t kind)
{
    kb_json_key_z(j, key);
    if (kind < KINETO_KIND_COUNT)
        kb_json_string_z(j, kineto_kind_name(kind));
    else
        kb_json_null(j);
}

static void write_profiler(kb_json *j, const kc_plugin_profiler *p)
{
    kb_json_object_begin(j);
    put_text(j, "name", p->name);
    put_text(j, "vendor", p->vendor);
    put_text(j, "revision", p->revision);
    kb_json_key_z(j, "types");
    kb_json_array_begin(j);
    for (uint32_t i = 0; i < p->type_count; i++) {
        kb_json_object_begin(j);
        kb_json_put_int(j, "number", p->types[i].number);
        put_text(j, "name", p->types[i].name);
        put_kind(j, "kind", p->types[i].kind);
        kb_json_put_bool(j, "own", p->types[i].own);
        kb_json_object_end(j);
    }
    kb_json_array_end(j);
    kb_json_object_end(j);
}

static void write_own_kinds(kb_json *j, const kc_plugin_file *p)
{
    kb_json_key_z(j, "own_kinds");
    kb_json_array_begin(j);
    for (uint32_t i = 0; i < p->own_count; i++) {
        kb_json_object_begin(j);
        put_text(j, "name", p->own[i].name);
        put_kind(j, "like", p->own[i].like);
        kb_json_put_bool(j, "default", p->own[i].by_default);
        kb_json_object_end(j);
    }
    kb_json_array_end(j);
}

static void write_plugin(kb_json *j, const kc_plugin_file *p)
{
    kb_json_newline(j);
    kb_json_object_begin(j);
    put_text(j, "file", p->path);
    put_text(j, "state", kc_plugin_state_name(p->state));
    put_text(j, "reason", p->reason);
    put_text(j, "from", kc_plugin_origin_name(p->origin));
    if (p->interface)
        put_text(j, "interface", p->interface);
    kb_json_key_z(j, "profilers");
    kb_json_array_begin(j);
    for (size_t i = 0; i < p->profilers.count; i++)
        write_profiler(j, &p->profilers.data[i]);
    kb_json_array_end(j);
    write_own_kinds(j, p);
    kb_json_object_end(j);
}

static void write_plugins(kb_json *j, const void *what)
{
    const kc_plugins *p = what;
    kb_json_object_begin(j);
    put_text(j, "version", kineto_version());
    kb_json_key_z(j, "plugins");
    kb_json_array_begin(j);
    for (size_t i = 0; i < p->list.count; i++)
        write_plugin(j, &p->list.data[i]);
    kb_json_array_end(j);
    kb_json_object_end(j);
}

/* ---- the verb -------------------------------------------------------------------------------- */

static int list_plugins(char **files, int count)
{
    kc_plugins plugins = {0};
    kineto_error err = {0};
    bool failed = false;
    kineto_status status = gather(&plugins, files, count, &err);
    if (status == KINETO_OK)
        status = kc_plugins_probe(&plugins, (uint32_t)limit_s * 1000u, &err);
    if (status == KINETO_OK && as_json)
        status = kc_put_json(write_plugins, &plugins, &err);
    else if (status == KINETO_OK)
        print_text(&plugins);
    if (status)
        kc_complain_of("plugin list", &err);
    for (size_t i = 0; i < plugins.list.count; i++)
        failed |= kc_plugin_failed(&plugins.list.data[i]);
    kc_plugins_free(&plugins);
    return kc_finish_stdout("plugin list", status || failed ? KC_EXIT_FAILURE : 0);
}

static int run_list(int argc, char **argv)
{
    enum { MOST_S = 3600 };
    int operands;
    kineto_status status = kc_parse(&options, argc, argv, &operands);
    if (status == KINETO_E_NOT_FOUND)
        return kc_finish_stdout("plugin list", 0);
    if (status == KINETO_OK && (limit_s < 1 || limit_s > MOST_S))
        status = kc_usage_error("plugin list", "--limit is from 1 to %d", MOST_S);
    return status ? KC_EXIT_USAGE : list_plugins(argv + 1, operands);
}

static int print_usage(FILE *out, int status)
{
    fputs("Usage: ckineto plugin list [options] [FILE …]\n"
          "       ckineto plugin check [options] FILE\n\n"
          "Plug-ins are libraries that record accelerators.\n\n"
          "  list   say which there are, and what they record\n"
          "  check  say whether one keeps to the rules of the interface\n\n"
          "'ckineto plugin list --help' and 'ckineto plugin check --help' list the options.\n",
          out);
    return kc_finish_stdout("plugin", status);
}

int kc_plugin(int argc, char **argv)
{
    if (argc < 2) {
        print_usage(stderr, 0);
        return KC_EXIT_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
        return print_usage(stdout, 0);
    if (strcmp(argv[1], "list") == 0)
        return run_list(argc - 1, argv + 1);
    if (strcmp(argv[1], "check") == 0)
        return kc_plugin_check(argc - 1, argv + 1);
    (void)kc_usage_error("plugin", "'%s' is neither list nor check", argv[1]);
    return KC_EXIT_USAGE;
}
