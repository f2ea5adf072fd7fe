/* ckineto completion: completion scripts, generated from the option tables of all verbs, so that
 * they cannot differ from the help. The build installs them; other installations use: source
 * <(ckineto completion bash). */
#include "cli/completion.h"
#include "cli/names.h"

static const kc_shell *const shells[] = {&kc_bash, &kc_zsh, &kc_fish};
static const kc_shell *chosen_shell;

/* Words are separated by blanks; what does not fit is left out. */
static void append_completion_word(char *words, const char *word, size_t size)
{
    size_t used = strlen(words);
    if (used + size + 2 <= KC_WORDS_BYTES)
        snprintf(words + used, KC_WORDS_BYTES - used, "%s%.*s", used ? " " : "", (int)size, word);
}

/* Small letters and hyphens: "N..M" or "ID" are placeholders, not words. */
static bool is_plain_word(const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (!kb_is_lower(text[i]) && text[i] != '-')
            return false;
    return size > 0;
}

/* "all|drop-last|N..M" → "all drop-last" */
static void append_alternatives(const char *argument, char *words)
{
    while (*argument) {
        size_t size = strcspn(argument, "|");
        if (is_plain_word(argument, size))
            append_completion_word(words, argument, size);
        argument += size + (argument[size] == '|');
    }
}

/* A kc_name_receiver. */
static void append_name(const char *name, void *words)
{
    append_completion_word(words, name, strlen(name));
}

static bool has_prefix(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* The type follows from the name of the argument in the help: DIR, FILE, a|b and so on. A table
 * therefore needs no separate data for completion. */
kc_value_type kc_value_of(const kc_option *o, char *words)
{
    bool several;
    words[0] = 0;
    if (o->type == KC_FLAG || o->type == KC_OPTIONAL_SIZE || o->type == KC_OPTIONAL_TEXT ||
        o->type == KC_JSON || o->type == KC_JSON_WORD || !o->argument)
        return KC_VALUE_NONE;
    kc_name_list *list = kc_names_of_argument(o->argument, &several);
    if (list)
        list(append_name, words);
    else if (strchr(o->argument, '|'))
        append_alternatives(o->argument, words);
    if (words[0])
        return list && several ? KC_VALUE_LIST : KC_VALUE_WORDS;
    if (has_prefix(o->argument, "DIR"))
        return KC_VALUE_DIRECTORY;
    static const char *const files[] = {"FILE", "OUT", "[FORMAT:]OUT", "TRACE", "PATH", "SOCKET"};
    for (size_t i = 0; i < KB_COUNT(files); i++)
        if (has_prefix(o->argument, files[i]))
            return KC_VALUE_FILE;
    return KC_VALUE_OTHER;
}

const char *kc_subverbs_of(const kc_verb *verb)
{
    return strcmp(verb->name, "plugin") == 0    ? "list check"
           : strcmp(verb->name, "history") == 0 ? "add list regress"
                                                : NULL;
}

/* ---- the walk -------------------------------------------------------------------------------- */

/* The kc_help_hook: receives the option table of the verb that runs with --help. */
static void write_verb_table(const kc_options *options) { chosen_shell->table(options); }

/* Run the verb with --help: kc_help_hook passes its table to write_verb_table. */
static void collect_verb_table(const kc_verb *verb)
{
    char name[32], part[32], help[] = "--help";
    snprintf(name, sizeof name, "%s", verb->name);
    const char *parts = kc_subverbs_of(verb);
    if (!parts) {
        char *arguments[] = {name, help, NULL};
        verb->run(2, arguments);
        return;
    }
    for (const char *at = parts; *at;) {
        size_t size = strcspn(at, " ");
        snprintf(part, sizeof part, "%.*s", (int)size, at);
        char *arguments[] = {name, part, help, NULL};
        verb->run(3, arguments);
        at += size + (at[size] == ' ');
    }
}

static void print_completion_usage(FILE *out)
{
    fputs("Usage: ckineto completion bash|zsh|fish\n\nWrite the completion script of a shell.\n"
          "Example: source <(ckineto completion bash)\n",
          out);
}

/* The verbs run with --help one after the other, while kc_help_hook is set. */
int kc_completion(int argc, char **argv, const kc_verb *verbs, size_t count)
{
    for (size_t i = 0; argc == 2 && i < KB_COUNT(shells); i++)
        if (strcmp(argv[1], shells[i]->name) == 0)
            chosen_shell = shells[i];
    if (argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
        print_completion_usage(stdout);
        return kc_finish_stdout("completion", 0);
    }
    if (!chosen_shell) {
        print_completion_usage(stderr);
        return KC_EXIT_USAGE;
    }
    chosen_shell->head(verbs, count);
    kc_help_hook = write_verb_table;
    for (size_t i = 0; i < count; i++)
        if (verbs[i].about && strcmp(verbs[i].name, "help") != 0)
            collect_verb_table(&verbs[i]);
    chosen_shell->tail(verbs, count);
    return kc_finish_stdout("completion", 0);
}
