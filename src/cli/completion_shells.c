/* Completion scripts for bash, zsh and fish. Each shell has a head, a part for each option table,
 * and a tail; all texts are quoted for that shell. tests/cli/test_completion.py runs the scripts in
 * the shells. */
#include "cli/completion.h"

/* The first line of a text, for use between single quotes. @param more characters to escape with a
 * backslash. */
static void print_quoted(const char *text, const char *more)
{
    for (; *text && *text != '\n'; text++) {
        if (*text == '\'')
            fputs("'\\''", stdout);
        else if (strchr(more, *text))
            printf("\\%c", *text);
        else
            putchar(*text);
    }
}

/* Hidden verbs, which have no description, are left out. */
static void print_verb_names(const kc_verb *verbs, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (verbs[i].about)
            printf("%s%s", i ? " " : "", verbs[i].name);
}

/* ---- bash ------------------------------------------------------------------------------------ */

/* The function, the list of verbs, and the words of verbs that have parts. */
static void print_bash_head(const kc_verb *verbs, size_t count)
{
    puts("# bash completion of ckineto; made by 'ckineto completion bash'.\n"
         "_ckineto()\n{\n"
         "    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]}\n"
         "    local place=${COMP_WORDS[1]} first=2 options='' value=file words='' command='' before='' i\n"
         "    COMPREPLY=()");
    fputs("    local verbs='", stdout);
    print_verb_names(verbs, count);
    puts("'\n"
         "    if ((COMP_CWORD == 1)); then\n"
         "        COMPREPLY=($(compgen -W \"$verbs --help --version\" -- \"$current\"))\n"
         "        return\n"
         "    fi\n"
         "    case $place in\n"
         "    help) words=$verbs ;;");
    for (size_t i = 0; i < count; i++)
        if (verbs[i].about && kc_subverbs_of(&verbs[i]))
            printf("    %s) words='%s' place=\"$place ${COMP_WORDS[2]}\" first=3 ;;\n",
                   verbs[i].name, kc_subverbs_of(&verbs[i]));
    puts("    esac\n"
         "    if [[ $words ]] && ((COMP_CWORD == 2)); then\n"
         "        COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
         "        return\n"
         "    fi\n"
         "    words=''\n"
         "    [[ $previous == '=' ]] && previous=${COMP_WORDS[COMP_CWORD-2]}\n"
         "    [[ $current == '=' ]] && previous=${COMP_WORDS[COMP_CWORD-1]} current=''\n"
         "    case $place in");
}

/* A case of the previous word: which value may follow the option. Nothing for options without
 * a value. */
static void print_bash_value(const kc_option *o)
{
    static const char *const names[] = {
        [KC_VALUE_FILE] = "file", [KC_VALUE_DIRECTORY] = "directory", [KC_VALUE_OTHER] = "other"};
    char words[KC_WORDS_BYTES];
    kc_value_type value = kc_value_of(o, words);
    if (value == KC_VALUE_NONE)
        return;
    printf("        --%s", o->name);
    if (o->letter)
        printf("|-%c", o->letter);
    if (value == KC_VALUE_WORDS || value == KC_VALUE_LIST)
        printf(") value=%s words='%s' ;;\n", value == KC_VALUE_LIST ? "list" : "words", words);
    else
        printf(") value=after-%s ;;\n", names[value]);
}

/* The options of one verb, and a case for each that takes a value. */
static void print_bash_table(const kc_options *options)
{
    printf("    '%s')\n        options='", options->verb);
    for (size_t i = 0; i < options->count; i++) {
        const kc_option *o = &options->list[i];
        if (o->type == KC_ALIAS)
            continue;
        printf("--%s ", o->name);
        if (o->letter)
            printf("-%c ", o->letter);
    }
    puts("--help'");
    if (options->stop_at_operand)
        puts("        command=yes");
    puts("        case $previous in");
    for (size_t i = 0; i < options->count; i++)
        if (options->list[i].type != KC_ALIAS)
            print_bash_value(&options->list[i]);
    puts("        esac ;;");
}

/* Complete the current word from what the cases have set. */
static void print_bash_tail(const kc_verb *verbs, size_t count)
{
    (void)verbs;
    (void)count;
    puts("    esac\n"
         "    # After '--' is the command line of another program.\n"
         "    for ((i = first; i < COMP_CWORD; i++)); do\n"
         "        if [[ $command && ${COMP_WORDS[i]} == -- ]]; then\n"
         "            if declare -F _command_offset >/dev/null; then\n"
         "                _command_offset $((i + 1))\n"
         "            elif ((COMP_CWORD == i + 1)); then\n"
         "                mapfile -t COMPREPLY < <(compgen -c -- \"$current\")\n"
         "            else\n"
         "                mapfile -t COMPREPLY < <(compgen -f -- \"$current\")\n"
         "            fi\n"
         "            return\n"
         "        fi\n"
         "    done\n"
         "    case $value in\n"
         "    words) COMPREPLY=($(compgen -W \"$words\" -- \"$current\")) ;;\n"
         "    list)\n"
         "        [[ $current == *,* ]] && before=${current%,*},\n"
         "        COMPREPLY=($(compgen -P \"$before\" -W \"$words\" -- \"${current##*,}\")) ;;\n"
         "    after-directory) mapfile -t COMPREPLY < <(compgen -d -- \"$current\") ;;\n"
         "    after-other) ;;\n"
         "    *)\n"
         "        if [[ $value == file && $current == -* ]]; then\n"
         "            COMPREPLY=($(compgen -W \"$options\" -- \"$current\"))\n"
         "        else\n"
         "            compopt -o filenames 2>/dev/null\n"
         "            mapfile -t COMPREPLY < <(compgen -f -- \"$current\")\n"
         "        fi ;;\n"
         "    esac\n"
         "}\n"
         "complete -F _ckineto ckineto");
}

const kc_shell kc_bash = {"bash", print_bash_head, print_bash_table, print_bash_tail};

/* ---- zsh ------------------------------------------------------------------------------------- */

/* The verbs with their descriptions. */
static void print_zsh_head(const kc_verb *verbs, size_t count)
{
    puts("#compdef ckineto\n"
         "# zsh completion of ckineto; made by 'ckineto completion zsh'.\n"
         "_ckineto() {\n"
         "  local -a verbs=(");
    for (size_t i = 0; i < count; i++) {
        if (!verbs[i].about)
            continue;
        printf("    '%s:", verbs[i].name);
        print_quoted(verbs[i].about, "");
        puts("'");
    }
    puts("  )\n"
         "  if (( CURRENT == 2 )); then\n"
         "    _describe verb verbs\n"
         "    return\n"
         "  fi\n"
         "  local place=$words[2]\n"
         "  shift words; (( CURRENT-- ))\n"
         "  case $place in\n"
         "  help) _describe verb verbs; return ;;");
    for (size_t i = 0; i < count; i++)
        if (verbs[i].about && kc_subverbs_of(&verbs[i]))
            printf("  %s)\n    if (( CURRENT == 2 )); then compadd %s; return; fi\n"
                   "    place=\"$place $words[2]\"; shift words; (( CURRENT-- )) ;;\n",
                   verbs[i].name, kc_subverbs_of(&verbs[i]));
    puts("  esac\n"
         "  case $place in");
}

/* One specification of _arguments. */
static void print_zsh_option(const kc_option *o)
{
    char words[KC_WORDS_BYTES];
    kc_value_type value = kc_value_of(o, words);
    const char *equals = value == KC_VALUE_NONE ? "" : "=";
    if (o->letter)
        printf("      '(-%c --%s)'{-%c%s,--%s%s}'[", o->letter, o->name, o->letter,
               value == KC_VALUE_NONE ? "" : "+", o->name, equals);
    else
        printf("      '--%s%s[", o->name, equals);
    print_quoted(o->help, "[]");
    putchar(']');
    if (value != KC_VALUE_NONE) {
        putchar(':');
        print_quoted(o->argument, ":[]");
        putchar(':');
    }
    if (value == KC_VALUE_FILE)
        fputs("_files", stdout);
    else if (value == KC_VALUE_DIRECTORY)
        fputs("_files -/", stdout);
    else if (value == KC_VALUE_WORDS)
        printf("(%s)", words);
    else if (value == KC_VALUE_LIST)
        printf("_values -s , name %s", words);
    puts("' \\");
}

/* _arguments with all options of one verb; -s allows joined letters, -S ends options at "--". */
static void print_zsh_table(const kc_options *options)
{
    printf("  '%s')\n    _arguments -s -S \\\n", options->verb);
    for (size_t i = 0; i < options->count; i++)
        if (options->list[i].type != KC_ALIAS)
            print_zsh_option(&options->list[i]);
    printf("      '(- *)'{-h,--help}'[show this text]' \\\n      '%s' ;;\n",
           options->stop_at_operand ? "*::program:_normal" : "*:trace:_files");
}

static void print_zsh_tail(const kc_verb *verbs, size_t count)
{
    (void)verbs;
    (void)count;
    puts("  esac\n"
         "}\n"
         "if [[ $funcstack[1] == _ckineto ]]; then _ckineto \"$@\"; else compdef _ckineto ckineto; "
         "fi");
}

const kc_shell kc_zsh = {"zsh", print_zsh_head, print_zsh_table, print_zsh_tail};

/* ---- fish ------------------------------------------------------------------------------------ */

/* The verbs with their descriptions, and the words of verbs that have parts. */
static void print_fish_head(const kc_verb *verbs, size_t count)
{
    puts("# fish completion of ckineto; made by 'ckineto completion fish'.");
    fputs("set -l verbs ", stdout);
    print_verb_names(verbs, count);
    puts("\n"
         "complete -c ckineto -n \"not __fish_seen_subcommand_from $verbs\" -f\n"
         "complete -c ckineto -n '__fish_seen_subcommand_from help' -f -a \"$verbs\"");
    for (size_t i = 0; i < count; i++) {
        if (!verbs[i].about)
            continue;
        printf("complete -c ckineto -n \"not __fish_seen_subcommand_from $verbs\" -a %s -d '",
               verbs[i].name);
        print_quoted(verbs[i].about, "");
        puts("'");
        if (kc_subverbs_of(&verbs[i]))
            printf("complete -c ckineto -n '__fish_seen_subcommand_from %s; and not "
                   "__fish_seen_subcommand_from %s' -f -a '%s'\n",
                   verbs[i].name, kc_subverbs_of(&verbs[i]), kc_subverbs_of(&verbs[i]));
    }
}

/* The condition that the words of a verb ("plugin list") were typed. */
static void print_fish_condition(const char *verb)
{
    size_t size = strcspn(verb, " ");
    printf("complete -c ckineto -n '__fish_seen_subcommand_from %.*s", (int)size, verb);
    if (verb[size])
        printf("; and __fish_seen_subcommand_from %s", verb + size + 1);
    putchar('\'');
}

/* One `complete` line. */
static void print_fish_option(const kc_options *options, const kc_option *o)
{
    char words[KC_WORDS_BYTES];
    kc_value_type value = kc_value_of(o, words);
    print_fish_condition(options->verb);
    printf(" -l %s", o->name);
    if (o->letter)
        printf(" -s %c", o->letter);
    if (value == KC_VALUE_FILE)
        fputs(" -r -F", stdout);
    else if (value == KC_VALUE_DIRECTORY)
        fputs(" -x -a '(__fish_complete_directories)'", stdout);
    else if (value == KC_VALUE_WORDS || value == KC_VALUE_LIST)
        printf(" -x -a '%s'", words);
    else if (value == KC_VALUE_OTHER)
        fputs(" -x", stdout);
    fputs(" -d '", stdout);
    print_quoted(o->help, "");
    puts("'");
}

/* All options of one verb. */
static void print_fish_table(const kc_options *options)
{
    for (size_t i = 0; i < options->count; i++)
        if (options->list[i].type != KC_ALIAS)
            print_fish_option(options, &options->list[i]);
    print_fish_condition(options->verb);
    puts(" -l help -s h -d 'show this text'");
    if (options->stop_at_operand) {
        print_fish_condition(options->verb);
        puts(" -a '(__fish_complete_subcommand)'");
    }
}

static void print_fish_tail(const kc_verb *verbs, size_t count)
{
    (void)verbs;
    (void)count;
}

const kc_shell kc_fish = {"fish", print_fish_head, print_fish_table, print_fish_tail};
