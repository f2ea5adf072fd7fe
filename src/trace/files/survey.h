/* Data of a survey: the table of files, and the findings of its rules. */
#ifndef KT_SURVEY_H
#define KT_SURVEY_H

#include "trace/files/identity.h"

typedef struct kt_survey_row {
    /* Path and error are owned, name points into the path. */
    kineto_survey_file view;
    kineto_identity identity;
    uint64_t fingerprint; /* equal for equal activities */
    kt_measured_reach reach;
    size_t number;        /* position in the order of adding */
} kt_survey_row;

typedef struct kt_survey_finding {
    kineto_files_finding view;
    /* Offset of the sentence in texts; view.sentence points there once the survey is settled. */
    size_t sentence_at;
    /* Rows that the finding is about; view.total counts all of them. */
    uint32_t files[64];
} kt_survey_finding;

struct kineto_survey {
    KB_VEC(kt_survey_row *) rows;
    KB_VEC(kt_survey_finding *) findings;
    KB_VEC(char) texts; /* sentences, one after the other */
    bool out_of_memory;
};

/* ---- survey_rules.c -------------------------------------------------------------------------- */
/** Runs all rules over the rows, which are in the order of ranks. */
void kt_survey_run_rules(kineto_survey *s, bool whole);

/* ---- survey.c -------------------------------------------------------------------------------- */
/** Adds a finding about `count` rows. Its sentence is the formatted text and the names of the
 *  files, if `files` is not NULL. */
void kt_survey_add_finding(kineto_survey *s, kineto_files_finding_kind kind, const uint32_t *files,
                           size_t count, const char *fmt, ...) KINETO_PRINTF(5, 6);
#endif
