/* Inside of a survey: the table, and the rules that look at it. */
#ifndef KT_SURVEY_H
#define KT_SURVEY_H

#include "trace/files/identity.h"

typedef struct kt_survey_row {
    kineto_survey_file view; /* path and error are owned, name points into the path */
    kineto_identity identity;
    uint64_t fingerprint; /* of the activities */
    size_t number;        /* as it came */
} kt_survey_row;

typedef struct kt_survey_finding {
    kineto_files_finding view;
    size_t sentence_at;
    uint32_t files[64];
} kt_survey_finding;

struct kineto_survey {
    KB_VEC(kt_survey_row *) rows;
    KB_VEC(kt_survey_finding *) findings;
    KB_VEC(char) texts; /* sentences, one behind the other */
    bool out_of_memory;
};

/* ---- survey_rules.c ---- */
/** Look at the rows, which are in order, by all rules. */
void kt_survey_judge(kineto_survey *s, bool whole);

/* ---- survey.c ---- */
/** A finding about files: its sentence is the text, and their names if there are any. */
void kt_survey_state(kineto_survey *s, kineto_files_finding_kind kind, const uint32_t *files,
                     size_t count, const char *fmt, ...) KINETO_PRINTF(5, 6);
#endif
