/* Parsing options from tables: --name VALUE, --name=VALUE, -x VALUE, -xVALUE, and "--"; printing
 * the help; error lines. Which options were given is kept in a list of their values, so that a verb
 * can distinguish a default from the same value on the command line. */
#include "cli/options.h"
#include "cli/names.h"
#include "cli/open_many.h"
#include "cli/print.h"
#include "cli/style.h"

#include <errno.h>
#include <sys/stat.h>

void (*kc_help_hook)(const kc_options *options);
const char *kc_json_path;

enum { HELP_COLUMN = 28 };

/* ---- errors ---------------------------------------------------------------------------------- */

/* The command line. If it asks for JSON, an error is a JSON object, too. */
static struct {
    const char *verb; /* NULL: errors are text */
    char **argv;
    int argc; /* of the operands, when the options are parsed */
} json_errors;

bool kc_errors_are_json(void) { return json_errors.verb != NULL; }

/* The operand that the message names, the longest one; NULL: none. */
static const char *find_named_operand(const char *message)
{
    const char *found = NULL;
    for (int i = 1; i < json_errors.argc; i++) {
        const char *word = json_errors.argv[i];
        if (word && *word && strstr(message, word) &&
            (!found || strlen(word) > strlen(found)))
            found = word;
    }
    return found;
}

/* Members that are unknown are omitted; null if all are. */
static void put_error_place(kb_json *j, const char *message, uint64_t offset)
{
    const char *file = find_named_operand(message);
    kb_json_key_z(j, "place");
    if (!file && offset == KC_NO_PLACE) {
        kb_json_null(j);
        return;
    }
    kb_json_object_begin(j);
    if (file)
        kb_json_put_string(j, "file", kb_string(file));
    if (offset != KC_NO_PLACE)
        kb_json_put_uint(j, "offset", offset);
    kb_json_object_end(j);
}

/* docs/error.schema.json: one object on one line. False: it could not be made. */
static bool print_json_error(kineto_status status, uint64_t offset, const char *message)
{
    kb_sink *sink;
    kb_json j;
    char *text = NULL;
    size_t bytes = 0;
    if (kb_sink_open_memory(KB_COMPRESS_NONE, &sink, NULL))
        return false;
    kb_json_init(&j, sink);
    kb_json_document_begin(&j, "ckineto.error/1");
    kb_json_put_string(&j, "verb", kb_string(json_errors.verb));
    kb_json_put_string(&j, "status", kb_string(status ? kineto_status_name(status) : "E_UNKNOWN"));
    kb_json_put_string(&j, "message", kb_string(message));
    put_error_place(&j, message, offset);
    kb_json_object_end(&j);
    bool made = kb_sink_take(sink, &text, &bytes, NULL) == KINETO_OK;
    kb_sink_abort(sink);
    if (made)
        fprintf(stderr, "%s\n", text);
    free(text);
    return made;
}

/* "VERB: " in front of a message says in text what JSON has in a member. */
static const char *skip_verb(const char *message)
{
    size_t size = strlen(json_errors.verb);
    bool is_there = strncmp(message, json_errors.verb, size) == 0 && strncmp(message + size, ": ", 2) == 0;
    return message + (is_there ? size + 2 : 0);
}

/* stdout is flushed first, so that both streams stay in order on a terminal. */
static void print_error(const char *verb, kineto_status status, uint64_t offset, const char *fmt,
                        va_list args)
{
    char *text = NULL;
    const char *message = vasprintf(&text, fmt, args) < 0 ? fmt : text;
    fflush(stdout);
    if (!kc_errors_are_json() || !print_json_error(status, offset, skip_verb(message))) {
        char first[64];
        snprintf(first, sizeof first, verb ? "ckineto %s: " : "ckineto: ", verb);
        kc_put_message(stderr, first, message);
    }
    free(text);
}

kineto_status(kc_usage_error)(const char *verb, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    print_error(verb, KINETO_E_ARGUMENT, KC_NO_PLACE, fmt, args);
    va_end(args);
    if (!kc_errors_are_json())
        fprintf(stderr, "Try 'ckineto %s%s--help'.\n", verb ? verb : "", verb ? " " : "");
    return KINETO_E_ARGUMENT;
}

void kc_complain(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    print_error(NULL, KINETO_OK, KC_NO_PLACE, fmt, args);
    va_end(args);
}

/* kc_complain with what JSON has besides the message. */
static void complain_with(kineto_status status, uint64_t offset, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    print_error(NULL, status, offset, fmt, args);
    va_end(args);
}

/* A missing file may be a mistyped name. */
static void suggest_file(const kineto_error *err, char *text, size_t size)
{
    const char *file = err->os_error == ENOENT ? find_named_operand(err->message) : NULL;
    *text = '\0';
    if (file)
        kc_did_you_mean_file(file, text, size);
}

/* An offset means something only in malformed files: others leave 0 there. */
void kc_complain_of(const char *verb, const kineto_error *err)
{
    char suggestion[512];
    if (err->os_error == EPIPE)
        return;
    suggest_file(err, suggestion, sizeof suggestion);
    complain_with(err->code, err->code == KINETO_E_FORMAT ? err->offset : KC_NO_PLACE, "%s: %s%s", verb,
                  err->message, suggestion);
}

void kc_complain_at(const char *verb, kineto_status status, uint64_t offset, const char *message)
{
    complain_with(status, offset, "%s: %s", verb, message);
}

/* Their value can only be joined with '=': a following word is an operand. */
static bool is_value_optional(const kc_option *o)
{
    return o->type == KC_OPTIONAL_SIZE || o->type == KC_OPTIONAL_TEXT || o->type == KC_JSON ||
           o->type == KC_JSON_WORD;
}

void kc_notice_renamed(const char *old, const char *now)
{
    kc_complain("'%s' is now '%s'; the old form goes with the next minor version", old, now);
}

/* One option: names and argument, then the help at HELP_COLUMN. */
static void print_option_help(const kc_option *o, FILE *out)
{
    char head[64], letter[8] = "    ";
    if (o->letter)
        snprintf(letter, sizeof letter, "-%c, ", o->letter);
    const char *argument = o->argument ? o->argument : "";
    snprintf(head, sizeof head, "%s--%s%s%s", letter, o->name,
             *argument && !is_value_optional(o) ? " " : "", argument);
    int columns = 0; /* characters, which may have several bytes */
    for (const char *at = head; *at; at++)
        columns += ((unsigned char)*at & 0xc0) != 0x80;
    fprintf(out, "  %s%*s", head, KB_MAX(HELP_COLUMN - 2 - columns, 0), "");
    if (columns >= HELP_COLUMN - 2) /* the help begins on a line of its own */
        fprintf(out, "\n%*s", HELP_COLUMN, "");
    /* Further lines of the help are indented like the first. */
    for (const char *at = o->help; *at; at++) {
        fputc(*at, out);
        if (*at == '\n')
            fprintf(out, "%*s", HELP_COLUMN, "");
    }
    fputc('\n', out);
}

static void print_help_heading(const char *heading, const char *after, FILE *out)
{
    kc_put_styled(out, KC_BOLD, "%s", heading);
    fputs(after, out);
}

/* Each line of `examples`, indented. */
static void print_examples(const char *examples, FILE *out)
{
    if (!examples)
        return;
    fputc('\n', out);
    print_help_heading(strchr(examples, '\n') ? "Examples:" : "Example:", "\n", out);
    for (const char *at = examples; *at; at += strcspn(at, "\n"), at += *at == '\n')
        fprintf(out, "  %.*s\n", (int)strcspn(at, "\n"), at);
}

/* The same layout for every verb; --help itself is the last option. */
static void print_help(const kc_options *options, FILE *out)
{
    print_help_heading("Usage:", " ", out);
    fprintf(out, "ckineto %s %s\n\n%s\n\n", options->verb, options->usage, options->about);
    print_help_heading("Options:", "\n", out);
    for (size_t i = 0; i < options->count; i++)
        if (options->list[i].type != KC_ALIAS)
            print_option_help(&options->list[i], out);
    kc_option help = {"help", 'h', KC_FLAG, NULL, NULL, "show this text"};
    print_option_help(&help, out);
    print_examples(options->examples, out);
}

/* NULL: unknown. The name need not be NUL-terminated. */
static const kc_option *find_long_option(const kc_options *options, const char *name, size_t size)
{
    for (size_t i = 0; i < options->count; i++)
        if (strlen(options->list[i].name) == size &&
            strncmp(options->list[i].name, name, size) == 0)
            return &options->list[i];
    return NULL;
}

static const kc_option *find_letter_option(const kc_options *options, char letter)
{
    for (size_t i = 0; i < options->count; i++)
        if (options->list[i].letter == letter)
            return &options->list[i];
    return NULL;
}

/* Other words for options, for verbs that have them. */
static const struct {
    const char *given, *meant;
} option_synonyms[] = {
    {"io", "waits"},       {"locks", "waits"},    {"lock", "waits"},    {"mutex", "waits"},   {"sleep", "waits"},
    {"sleeps", "waits"},   {"files", "waits"},    {"wait", "waits"},    {"syscalls", "waits"}, {"futex", "waits"},
    {"blocked", "off-cpu"}, {"offcpu", "off-cpu"}, {"malloc", "memory"}, {"heap", "memory"},   {"alloc", "memory"},
    {"omp", "openmp"},     {"py", "python"},      {"freq", "cpu"},      {"frequency", "cpu"}, {"rate", "cpu"},
    {"hz", "cpu"},         {"gpu", "kinds"},      {"cuda", "kinds"},    {"duration", "seconds"}, {"time", "seconds"},
    {"attach", "pid"},     {"format", "to"},      {"limit", "top"},     {"rows", "top"},      {"filter", "name"},
    {"range", "time"},     {"file", "output"},    {"table", "only"},    {"rule", "only"},     {"anonymize", "all"}};

/* The option of this verb that is meant by another word; NULL: none. */
static const char *find_option_synonym(const kc_options *options, const char *word)
{
    for (size_t i = 0; i < KB_COUNT(option_synonyms); i++)
        if (strcmp(word, option_synonyms[i].given) == 0 &&
            find_long_option(options, option_synonyms[i].meant, strlen(option_synonyms[i].meant)))
            return option_synonyms[i].meant;
    return NULL;
}

/* With the most similar option, or the one of which it is a prefix. */
static kineto_status report_unknown_option(const kc_options *options, const char *text, size_t size)
{
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)KB_MIN(size, sizeof name - 1), text);
    const char *best = name[1] == '-' ? find_option_synonym(options, name + 2) : NULL;
    bool has_synonym = best != NULL;
    size_t best_distance = KB_MIN((size_t)3, size > 3 ? (size - 1) / 2 : 1); /* "--io" is no mistyped "--pid" */
    for (size_t i = 0; i < options->count && name[1] == '-' && !has_synonym; i++) {
        if (options->list[i].type == KC_ALIAS)
            continue;
        const char *known = options->list[i].name;
        bool begins = size > 3 && strncmp(known, name + 2, strlen(name + 2)) == 0;
        size_t d = begins ? 0 : kc_edit_distance(name + 2, known);
        if (d < best_distance) {
            best_distance = d;
            best = known;
        }
    }
    return kc_usage_error(options->verb, "unknown option '%s'%s%s%s", name,
                          best ? "; did you mean --" : "", best ? best : "", best ? "?" : "");
}

/* 4096, 512K, 64M, 1G, 1GiB: always powers of 1024. False: malformed, or too large. */
static bool parse_size(const char *text, uint64_t *bytes)
{
    static const char letters[] = "KMGT";
    char *end = NULL;
    errno = 0;
    unsigned long long n = strtoull(text, &end, 10);
    if (errno || end == text || !kb_is_digit(text[0]))
        return false;
    const char *letter = *end ? strchr(letters, *end & ~32) : NULL;
    unsigned shift = letter ? 10 * (unsigned)(letter - letters + 1) : 0;
    end += letter != NULL;
    if (*end && strcmp(end, "B") != 0 && strcmp(end, "iB") != 0)
        return false;
    *bytes = (uint64_t)n << shift;
    return *bytes >> shift == n;
}

/* A malformed size is a usage error of the option. */
static kineto_status store_size(const kc_options *options, const kc_option *o, const char *text,
                                uint64_t *bytes)
{
    if (parse_size(text, bytes))
        return KINETO_OK;
    return kc_usage_error(options->verb, "--%s needs a size such as 512M or 2G, not '%s'", o->name,
                          text);
}

/* The unit of times, as its length in nanoseconds. */
static kineto_status store_ts_unit(const kc_options *options, const kc_option *o, const char *text)
{
    static const char *const units[] = {"ns", "us", "ms", "s"};
    uint64_t ns = 1;
    for (size_t i = 0; i < KB_COUNT(units); i++, ns *= 1000)
        if (strcmp(text, units[i]) == 0) {
            *(uint64_t *)o->value = ns;
            return KINETO_OK;
        }
    return kc_usage_error(options->verb, "--%s needs ns, us, ms or s, not '%s'", o->name, text);
}

/* Store the text as the type of the option requires. */
static kineto_status store_value(const kc_options *options, const kc_option *o, const char *text)
{
    if (o->type != KC_NUMBER && !*text)
        return kc_usage_error(options->verb, "--%s needs a value that is not empty", o->name);
    if (o->type == KC_OPTIONAL_TEXT) {
        ((kc_optional_text *)o->value)->text = text;
        return KINETO_OK;
    }
    if (o->type == KC_TEXT || o->type == KC_JSON || o->type == KC_JSON_WORD) {
        *(const char **)o->value = text;
        return KINETO_OK;
    }
    if (o->type == KC_TEXTS) {
        kc_texts *texts = o->value;
        if (texts->count == KB_COUNT(texts->data))
            return kc_usage_error(options->verb, "--%s may be given %zu times at most", o->name,
                                  KB_COUNT(texts->data));
        texts->data[texts->count++] = text;
        return KINETO_OK;
    }
    if (o->type == KC_TS_UNIT)
        return store_ts_unit(options, o, text);
    if (o->type == KC_SIZE)
        return store_size(options, o, text, o->value);
    if (o->type == KC_OPTIONAL_SIZE)
        return store_size(options, o, text, &((kc_optional_size *)o->value)->bytes);
    char *end = NULL;
    errno = 0;
    unsigned long long n = strtoull(text, &end, 10);
    if (errno || end == text || *end || !kb_is_digit(text[0]))
        return kc_usage_error(options->verb, "--%s needs a whole number, not '%s'", o->name, text);
    *(uint64_t *)o->value = n;
    return KINETO_OK;
}

/* Variables of the options that were given: a process parses one table, which has fewer
 * options than this. */
static const void *given_values[64];
static size_t given_count;

bool kc_option_given(const void *value)
{
    for (size_t i = 0; i < given_count; i++)
        if (given_values[i] == value)
            return true;
    return false;
}

static void mark_given(const kc_option *o)
{
    KB_ASSERT(o->value);
    if (!kc_option_given(o->value) && given_count < KB_COUNT(given_values))
        given_values[given_count++] = o->value;
}

/* The option that a word names, and its value if that is in the same word. */
static const kc_option *find_option(const kc_options *options, const char *word, size_t *size,
                                    const char **text)
{
    if (word[1] != '-') {
        *size = 2;
        *text = word[2] ? word + 2 : NULL;
        return find_letter_option(options, word[1]);
    }
    const char *equals = strchr(word, '=');
    *size = equals ? (size_t)(equals - word) : strlen(word);
    *text = equals ? equals + 1 : NULL;
    const kc_option *o = find_long_option(options, word + 2, *size - 2);
    if (!o || o->type != KC_ALIAS)
        return o;
    char old[64], now[64];
    snprintf(old, sizeof old, "--%s", o->name);
    snprintf(now, sizeof now, "--%s", o->argument);
    kc_notice_renamed(old, now);
    return find_long_option(options, o->argument, strlen(o->argument));
}

/* May this word be the file of a --json before it? A new file, a device, or an earlier result. Every other
 * file is a trace to read. */
static bool is_json_file(const char *word)
{
    static const char *const keys[] = {"\"version\"", "\"schema\"", "\"tables\"", "\"facts\""};
    char head[512];
    struct stat st;
    if (word[0] == '-')
        return !word[1];
    if (stat(word, &st) != 0)
        return true;
    if (!S_ISREG(st.st_mode))
        return !S_ISDIR(st.st_mode) && !S_ISFIFO(st.st_mode);
    if (st.st_size == 0)
        return true;
    size_t size = kb_os_read_file(word, head, sizeof head);
    bool is_result = false;
    for (size_t i = 0; i < KB_COUNT(keys); i++)
        is_result |= size && head[0] == '{' && memmem(head, size, keys[i], strlen(keys[i]));
    return is_result && !kc_is_trace_file(word);
}

/* The word after --json, if it is its value in the old form. */
static const char *take_json_word(const kc_option *o, char *next)
{
    if (o->type != KC_JSON_WORD || !next || !is_json_file(next))
        return NULL;
    if (strcmp(next, "-") != 0)
        kc_complain("'--json %s' is now '--json=%s'; the old form goes with the next minor version",
                    next, next);
    return next;
}

/* An option whose value may be left out. */
static kineto_status parse_optional(const kc_options *options, const kc_option *o, const char *text)
{
    if (o->type == KC_OPTIONAL_SIZE)
        ((kc_optional_size *)o->value)->given = true;
    else if (o->type == KC_OPTIONAL_TEXT)
        ((kc_optional_text *)o->value)->given = true;
    else
        *(const char **)o->value = "-";
    return text ? store_value(options, o, text) : KINETO_OK;
}

/* The option at argv[*at]; *at is left at the last word that belongs to it. */
static kineto_status parse_option(const kc_options *options, int argc, char **argv, int *at)
{
    const char *text;
    size_t size;
    const kc_option *o = find_option(options, argv[*at], &size, &text);
    if (!o)
        return report_unknown_option(options, argv[*at], size);
    mark_given(o);
    if (o->type == KC_FLAG) {
        if (text)
            return kc_usage_error(options->verb, "--%s takes no value", o->name);
        *(bool *)o->value = true;
        return KINETO_OK;
    }
    if (is_value_optional(o)) {
        if (!text && *at + 1 < argc && (text = take_json_word(o, argv[*at + 1])))
            ++*at;
        return parse_optional(options, o, text);
    }
    if (!text && ++*at >= argc)
        return kc_usage_error(options->verb, "--%s needs a value: %s", o->name, o->argument);
    return store_value(options, o, text ? text : argv[*at]);
}

/* --help wins over all options after it. */
static bool is_help_option(const char *word)
{
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

/* Options that ask for JSON. */
static const char *const json_names[] = {"json", "brief"};

void kc_expect_json_errors(int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        for (size_t n = 0; n < KB_COUNT(json_names); n++)
            if (strncmp(argv[i], "--", 2) == 0 && strcspn(argv[i] + 2, "=") == strlen(json_names[n]) &&
                strncmp(argv[i] + 2, json_names[n], strlen(json_names[n])) == 0)
                json_errors.verb = "ckineto";
}

/* Does the command line ask for JSON? Only options of the verb that are so named count, and nothing that
 * belongs to another program. */
static bool is_json_wanted(const kc_options *options, int argc, char **argv)
{
    for (size_t n = 0; n < KB_COUNT(json_names); n++) {
        const kc_option *o = find_long_option(options, json_names[n], strlen(json_names[n]));
        for (int i = 1; i < argc && o && strcmp(argv[i], "--") != 0; i++) {
            size_t size = strcspn(argv[i] + KB_MIN(strlen(argv[i]), (size_t)2), "=");
            if ((strncmp(argv[i], "--", 2) == 0 && size == strlen(o->name) &&
                 strncmp(argv[i] + 2, o->name, size) == 0) ||
                (o->letter && argv[i][0] == '-' && argv[i][1] == o->letter))
                return true;
        }
    }
    return false;
}

/* Operands before "--"; -1: there is no "--". */
static int operands_before_dashes = -1;

int kc_operands_before_dashes(void) { return operands_before_dashes; }

/* Operands are moved to the front in order. After "--", or after the first operand with
 * stop_at_operand, everything is an operand. */
kineto_status kc_parse_options(const kc_options *options, int argc, char **argv, int *operands)
{
    int count = 0;
    bool only_operands = false;
    json_errors.argv = argv;
    if (is_json_wanted(options, argc, argv))
        json_errors.verb = options->verb;
    for (int i = 1; i < argc; i++) {
        bool is_option = !only_operands && argv[i][0] == '-' && argv[i][1];
        if (is_option && strcmp(argv[i], "--") == 0) {
            only_operands = true;
            operands_before_dashes = count;
        } else if (is_option && is_help_option(argv[i])) {
            if (kc_help_hook)
                kc_help_hook(options);
            else
                print_help(options, stdout);
            return KINETO_E_NOT_FOUND;
        } else if (is_option) {
            kineto_status status = parse_option(options, argc, argv, &i);
            if (status)
                return status;
        } else {
            argv[1 + count++] = argv[i];
            only_operands |= options->stop_at_operand;
        }
    }
    KB_ASSERT(count < argc);
    argv[1 + count] = NULL;
    json_errors.argc = 1 + count;
    *operands = count;
    return kc_check_color(options->verb);
}
