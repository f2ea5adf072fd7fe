/* Command line options as tables, mistakes on the command line, and error lines. Every verb has one
 * kc_options table; options.c parses argv with it and prints the help from it, and completion.c
 * writes the completion of shells from the same table. Used by the main thread only. */
#ifndef KC_OPTIONS_H
#define KC_OPTIONS_H

#include "base/base.h"

/* Exit statuses. `record` passes on the status of the program, so its own failures use the numbers
 * of env(1). */
enum {
    /* The work was done and the answer is no: a gate failed, a trace is not sound, an output could
     * not be written. */
    KC_EXIT_FAILURE = 1,
    /* The work could not begin: a mistake on the command line, a trace that cannot be read. */
    KC_EXIT_USAGE = 2,
    /* The work was done, but some of the traces cannot be read. */
    KC_EXIT_PARTIAL = 3,
    KC_EXIT_OWN_FAILURE = 125,
    KC_EXIT_NOT_EXECUTABLE = 126,
    KC_EXIT_NOT_FOUND = 127
};

typedef enum kc_option_type {
    KC_FLAG,
    KC_TEXT,
    KC_TEXTS,
    KC_NUMBER,
    KC_SIZE,
    KC_TS_UNIT,       /* ns, us, ms or s: the unit in ns */
    KC_OPTIONAL_SIZE, /* --name or --name=SIZE */
    KC_OPTIONAL_TEXT, /* --name or --name=TEXT */
    KC_JSON,          /* --json or --json=FILE: const char *, "-" without a value */
    KC_JSON_WORD,     /* KC_JSON that also takes its file as the next word, as it did until 0.9 */
    KC_ALIAS          /* an old name, not listed: `argument` is the option that it means now */
} kc_option_type;

/* Values of an option that may be repeated, in the order of the command line. */
typedef struct kc_texts {
    const char *data[64];
    size_t count;
} kc_texts;

/* An option whose value may be omitted: then `bytes` keeps its default. */
typedef struct kc_optional_size {
    bool given;
    uint64_t bytes;
} kc_optional_size;

typedef struct kc_optional_text {
    bool given;
    /* NULL: without a value */
    const char *text;
} kc_optional_text;

/* One option and its line of the help. The parser stores into *value: bool, const char *, kc_texts
 * or kc_optional_…; uint64_t for numbers, and for sizes in bytes (with the suffix K, M or G). */
typedef struct kc_option {
    /* without the dashes */
    const char *name;
    char letter; /* 0: none */
    kc_option_type type;
    void *value;
    /* its name in the help */
    const char *argument;
    const char *help;
} kc_option;

typedef struct kc_options {
    /* usage: what follows "ckineto VERB"; examples: complete command lines, one a line */
    const char *verb, *usage, *about, *examples;
    const kc_option *list;
    size_t count;
    /* the operands are another program's command line */
    bool stop_at_operand;
} kc_options;

/* ---- options that several verbs share: one name, one meaning ---------------------------------- */

/** Value of --json; NULL: not given, "-": the standard output. kc_put_json writes there. */
extern const char *kc_json_path;
#define KC_JSON_OPTION                                                                             \
    {                                                                                              \
        "json", 'j', KC_JSON, &kc_json_path, "[=FILE]",                                            \
            "write JSON instead of text, to FILE or the standard output"                           \
    }
/** `usual` is a literal, the number without the option. */
#define KC_TOP_OPTION(value, usual)                                                                \
    {                                                                                              \
        "top", 0, KC_NUMBER, &(value), "N", "show N rows of a table (" usual "); 0: all"           \
    }
#define KC_RANK_OPTION(value)                                                                      \
    {                                                                                              \
        "rank", 'r', KC_TEXT, &(value), "N",                                                       \
            "use only this rank, of several files or of a merged trace"                            \
    }
#define KC_QUIET_OPTION(value)                                                                     \
    {                                                                                              \
        "quiet", 'q', KC_FLAG, &(value), NULL, "print only errors"                                 \
    }
#define KC_VERBOSE_OPTION(value, more)                                                             \
    {                                                                                              \
        "verbose", 'v', KC_FLAG, &(value), NULL, more                                              \
    }
/** `old` is accepted with a notice. */
#define KC_ALIAS_OPTION(old, now)                                                                  \
    {                                                                                              \
        old, 0, KC_ALIAS, NULL, now, NULL                                                          \
    }

/** Parse argv[1..]; operands are moved to the front of argv+1.
 *  @param operands  receives their number.
 *  @return KINETO_OK; KINETO_E_NOT_FOUND after --help was answered; KINETO_E_ARGUMENT after the
 *          mistake was explained on stderr. */
kineto_status kc_parse_options(const kc_options *options, int argc, char **argv, int *operands);
/** After kc_parse_options: the number of operands before the word "--"; -1: there was none. */
int kc_operands_before_dashes(void);
/** Was the option with this value (kc_option.value) on the command line? */
bool kc_option_given(const void *value);
/** Say that a name from the command line has a new one. */
void kc_notice_renamed(const char *old, const char *now);
/** Receives a verb's table in place of printing its help; NULL: print it. For completion.c. */
extern void (*kc_help_hook)(const kc_options *options);
/** Print "ckineto VERB: message" and "Try 'ckineto VERB --help'." on stderr. @param verb  NULL: none is known.
 *  @return KINETO_E_ARGUMENT. */
kineto_status kc_usage_error(const char *verb, const char *fmt, ...) KINETO_PRINTF(2, 3);
#if defined(__clang_analyzer__) || defined(KB_ANALYZED)
#define kc_usage_error(...) (kc_usage_error(__VA_ARGS__), KINETO_E_ARGUMENT)
#endif
/** Print "ckineto: message" on stderr. */
void kc_complain(const char *fmt, ...) KINETO_PRINTF(1, 2);
/** Print "ckineto: VERB: message"; nothing for a broken pipe, whose reader has seen enough. */
void kc_complain_of(const char *verb, const kineto_error *err);
/** With a place. @param offset  KC_NO_PLACE: none. */
#define KC_NO_PLACE UINT64_MAX
void kc_complain_at(const char *verb, kineto_status status, uint64_t offset, const char *message);
/** For mistakes before a verb is known: with --json or --brief on the command line their errors are JSON. */
void kc_expect_json_errors(int argc, char **argv);
/** Does the command line ask for JSON? Then the functions above print one JSON object on a line, and explanations
 *  for people are left out. */
bool kc_errors_are_json(void);
#endif
