/* Completion of shells: what the walk over all verbs hands to the writer for each shell. */
#ifndef KC_COMPLETION_H
#define KC_COMPLETION_H

#include "cli/cli.h"

/* What may follow an option. */
typedef enum kc_value_type {
    KC_VALUE_NONE, /* nothing does: a flag */
    KC_VALUE_FILE,
    KC_VALUE_DIRECTORY,
    KC_VALUE_WORDS, /* one of a few */
    KC_VALUE_OTHER  /* something that nobody can guess */
} kc_value_type;

enum { KC_WORDS_BYTES = 512 };
/** What may follow `o`; @param words  of KC_WORDS_BYTES, receives the words, blanks between them.
 */
kc_value_type kc_value_of(const kc_options *options, const kc_option *o, char *words);

/** Words that follow the verb, each with options of its own, blanks between them; or NULL. */
const char *kc_subverbs_of(const kc_verb *verb);

/* A language to write in. `table` is called for each verb, or part of one, with its options. */
typedef struct kc_shell {
    const char *name;
    void (*head)(const kc_verb *verbs, size_t count);
    void (*table)(const kc_options *options);
    void (*tail)(const kc_verb *verbs, size_t count);
} kc_shell;
extern const kc_shell kc_bash, kc_zsh, kc_fish;

#endif
