/* What `verify` prints for people: one trace with its findings, or several with equal findings joined. */
#ifndef KC_VERIFY_TEXT_H
#define KC_VERIFY_TEXT_H

#include "analyze/overview/coverage.h"
#include "cli/open_many.h"

#include <ckineto/analyze.h>

/** Findings of one rule in several traces. */
typedef struct kc_verify_group {
    uint32_t rule, severity;
    uint64_t count;
    uint32_t files;
    char *sentence;  /* of the first one; NULL: out of memory */
    char *places;    /* the same */
    char names[200]; /* of the first traces: "rank 3, rank 50" */
} kc_verify_group;

/** All zero but the first members: no trace yet. */
typedef struct kc_verify_text {
    bool has_notes, has_note_places; /* notes are printed, and their places */
    bool is_set;                     /* several traces */
    bool is_verbose;                 /* of several traces, also those that are sound */
    uint32_t sound;
    uint32_t counts[3]; /* findings by severity */
    ka_coverage coverage;
    KB_VEC(kc_verify_group) groups;
    KB_VEC(char) verdicts; /* a line for each trace that is printed */
} kc_verify_text;

void kc_verify_text_add(kc_verify_text *t, const char *path, const kineto_trace *trace,
                        const kineto_verify_report *report);
/** @param survey  findings about the set; NULL: none. */
void kc_verify_text_print(const kc_verify_text *t, const kineto_survey *survey, FILE *out);
void kc_verify_text_free(kc_verify_text *t);
#endif
