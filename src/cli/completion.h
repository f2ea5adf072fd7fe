/* Completion of shells: what the walk over all verbs (cmd_completion.c) hands to the writer of each
 * shell (completion_shells.c). */
#ifndef KC_COMPLETION_H
#define KC_COMPLETION_H

#include "cli/cli.h"

/* What may follow an option on the command line. */
typedef enum kc_value_type {
    KC_VALUE_NONE, /* nothing: a flag */
    KC_VALUE_FILE,
    KC_VALUE_DIRECTORY,
    KC_VALUE_WORDS, /* one of a few */
    KC_VALUE_LIST,  /* some of a few, with commas between them */
    KC_VALUE_OTHER  /* a value that cannot be completed */
} kc_value_type;

enum { KC_WORDS_BYTES = 8192 };
/** What may follow `o`. @param words  KC_WORDS_BYTES; receives the words, separated by blanks. */
kc_value_type kc_value_of(const kc_option *o, char *words);

/** Words that follow the verb, each with its own options, separated by blanks; NULL: none. */
const char *kc_subverbs_of(const kc_verb *verb);

/* The writer of one shell. `table` is called for each verb, or part of one, with its options. */
typedef struct kc_shell {
    const char *name;
    void (*head)(const kc_verb *verbs, size_t count);
    void (*table)(const kc_options *options);
    void (*tail)(const kc_verb *verbs, size_t count);
} kc_shell;
extern const kc_shell kc_bash, kc_zsh, kc_fish;

#endif
