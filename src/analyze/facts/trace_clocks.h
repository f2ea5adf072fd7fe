/* Several traces on one clock: hosts have clocks of their own, which the ends of collectives bring together
 * (docs/explanation/ranks.md). */
#ifndef KA_TRACE_CLOCKS_H
#define KA_TRACE_CLOCKS_H

#include "trace/transform/merge.h"

#include <ckineto/files.h>

typedef struct ka_file_clock {
    char *path;
    int32_t rank;
    bool is_known;
    kt_clock clock;
} ka_file_clock;

typedef struct ka_trace_clocks {
    KB_VEC(ka_file_clock) files;
    size_t next; /* of files: the one that is probably asked for next */
    char note[320];
    bool is_refused; /* note says why */
    kt_merge_clocks merge; /* for kt_open_many */
} ka_trace_clocks;

struct ka_rank_model;
/** A file and the rank by which the model knows it. False: out of memory. */
bool ka_trace_clocks_add(ka_trace_clocks *c, const char *path, int32_t rank);
/** Take the clocks of the files from a model. */
void ka_trace_clocks_set(ka_trace_clocks *c, const struct ka_rank_model *m);
void ka_trace_clocks_free(ka_trace_clocks *c);

/** How ka_open_many opens; all 0 is fine. */
typedef struct ka_open_hooks {
    ka_trace_clocks *clocks;  /* known already: files are not compared; NULL */
    kineto_survey **survey;   /* as kt_open_hooks.survey; NULL */
    char *refused;            /* receives why clocks could not be aligned, else ""; NULL */
    size_t refused_bytes;
} ka_open_hooks;
/** kineto_trace_open_many with hooks; NULL: none. */
kineto_status ka_open_many(const char *const *paths, size_t count, const kineto_open_many_options *options,
                           const ka_open_hooks *hooks, kineto_trace **out, kineto_error *err);
#endif
