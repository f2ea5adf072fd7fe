/* ckineto completion: what shells complete, written from the option tables of the verbs. It is for
 * the build, which installs it, and for shells of other installations: source <(ckineto completion
 * bash). */
#include "cli/completion.h"
#include "export/export.h"

static const kc_shell *const shells[] = {&kc_bash, &kc_zsh, &kc_fish};
static const kc_shell *chosen;

static void append_word(char *words, const char *word, size_t size)
{
    size_t used = strlen(words);
    if (used + size + 2 <= KC_WORDS_BYTES)
        snprintf(words + used, KC_WORDS_BYTES - used, "%s%.*s", used ? " " : "", (int)size, word);
}

static bool is_word(const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (!(text[i] >= 'a' && text[i] <= 'z') && text[i] != '-')
            return false;
    return size > 0;
}

/* "all|drop-last|N..M" → "all drop-last" */
static void split_words(const char *argument, char *words)
{
    while (*argument) {
        size_t size = strcspn(argument, "|");
        if (is_word(argument, size))
            append_word(words, argument, size);
        argument += size + (argument[size] == '|');
    }
}

static void format_names(char *words)
{
    kineto_export_format f = {.size = sizeof f};
    for (uint32_t i = 0; kineto_export_format_at(i, &f); i++)
        append_word(words, f.name, strlen(f.name));
}

static bool begins_with(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

kc_value_type kc_value_of(const kc_options *options, const kc_option *o, char *words)
{
    words[0] = 0;
    if (o->type == KC_FLAG || o->type == KC_OPTIONAL_SIZE || o->type == KC_OPTIONAL_TEXT ||
        !o->argument)
        return KC_VALUE_NONE;
    if (strcmp(options->verb, "convert") == 0 && strcmp(o->argument, "FORMAT") == 0)
        format_names(words);
    else if (strchr(o->argument, '|'))
        split_words(o->argument, words);
    if (words[0])
        return KC_VALUE_WORDS;
    if (begins_with(o->argument, "DIR"))
        return KC_VALUE_DIRECTORY;
    static const char *const files[] = {"FILE", "OUT", "TRACE", "PATH", "SOCKET"};
    for (size_t i = 0; i < KB_COUNT(files); i++)
        if (begins_with(o->argument, files[i]))
            return KC_VALUE_FILE;
    return KC_VALUE_OTHER;
}

const char *kc_subverbs_of(const kc_verb *verb)
{
    return strcmp(verb->name, "plugin") == 0 ? "list check" : NULL;
}

/* ---- the walk -------------------------------------------------------------------------------- */

static void write_table(const kc_options *options) { chosen->table(options); }

/* Verbs explain themselves; what they would print as help comes to write_table(). */
static void ask_verb(const kc_verb *verb)
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

static void print_usage(FILE *out)
{
    fputs("Usage: ckineto completion bash|zsh|fish\n\nWrite what this shell completes after "
          "'ckineto': source <(ckineto completion bash)\n",
          out);
}

int kc_completion(int argc, char **argv, const kc_verb *verbs, size_t count)
{
    for (size_t i = 0; argc == 2 && i < KB_COUNT(shells); i++)
        if (strcmp(argv[1], shells[i]->name) == 0)
            chosen = shells[i];
    if (argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
        print_usage(stdout);
        return kc_finish_stdout("completion", 0);
    }
    if (!chosen) {
        print_usage(stderr);
        return KC_EXIT_USAGE;
    }
    chosen->head(verbs, count);
    kc_help_hook = write_table;
    for (size_t i = 0; i < count; i++)
        if (verbs[i].about && strcmp(verbs[i].name, "help") != 0)
            ask_verb(&verbs[i]);
    chosen->tail(verbs, count);
    return kc_finish_stdout("completion", 0);
}
