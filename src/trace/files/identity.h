/* Whose trace it is, and sets of traces: what identity, files, set and merge share. */
#ifndef KT_IDENTITY_H
#define KT_IDENTITY_H

#include "base/base.h"

#include <ckineto/files.h>

/* What the name of a file says. Numbers are -1, the host has no bytes, if it says nothing. */
typedef struct kt_name_facts {
    int32_t rank, directory_rank;
    kineto_string host;
    int64_t pid;
    /* The name has the form only because a number stands at a place where writers put the pid:
     * that is certain only if the trace has such a process. */
    bool pid_is_guess;
} kt_name_facts;

/* ---- identity_name.c ---- */
void kt_name_facts_of(const char *path, kt_name_facts *out);
/** Compare names as people count: "rank2" is before "rank10". */
int kt_compare_names(const char *a, const char *b);
/** Bytes of the directories that all paths begin with, with the last slash. */
size_t kt_common_directory(const char *const *paths, size_t count);

/* ---- identity.c ---- */
/** Members of an object that say whose it is: rank, world_size, host, pid, backend, if known. */
void kt_put_identity(kb_json *j, const kineto_identity *id);
/** The rank that the header of a trace states; -1: none. */
int32_t kt_header_rank(const kineto_trace *trace);

/** Ranks in order, each once. */
typedef KB_VEC(int32_t) kt_ranks;
/** Add a rank; -1 is none. False: out of memory. */
bool kt_note_rank(kt_ranks *ranks, int32_t rank);
/** Add the ranks that rows of processes and devices state. False: out of memory. */
bool kt_note_ranks(kt_ranks *ranks, const kineto_trace *trace);
/** Write "there are ranks 0 to 3, 7", as much as fits; without any, "none states its rank". */
void kt_put_ranks(const kt_ranks *ranks, char *text, size_t size);

/* ---- files.c ---- */
/** How often a file was named again. */
uint32_t kt_files_repeated(const kineto_files *files, const char **first);

/* ---- survey.c: a table of files and what is odd about it ---- */
kineto_survey *kt_survey_create(void); /* NULL: out of memory */
/** Note a file; `trace` is NULL if it could not be read, as `error` says. */
bool kt_survey_add(kineto_survey *s, const char *path, const kineto_trace *trace,
                   const kineto_identity *identity, const kineto_error *error);
/** All are in: order them, and find what is odd. `whole`: it is about all ranks, so that some may
 * be missing. False: out of memory. */
bool kt_survey_settle(kineto_survey *s, const kineto_files *files, bool whole);
#endif
