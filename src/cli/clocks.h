/* Several traces on one clock: hosts have clocks of their own, which the ends of collectives bring together
 * (docs/explanation/ranks.md). */
#ifndef KC_CLOCKS_H
#define KC_CLOCKS_H

#include "cli/cli.h"
#include "trace/transform/merge.h"

/** Set by KC_ALIGN_OPTION. */
extern bool kc_no_align;
#define KC_ALIGN_OPTION                                                                            \
    {                                                                                              \
        "no-align", 0, KC_FLAG, &kc_no_align, NULL,                                                \
            "leave the clocks of several hosts as they are recorded"                               \
    }

typedef struct kc_file_clock {
    char *path;
    int32_t rank;
    bool is_known;
    kt_clock clock;
} kc_file_clock;

typedef struct kc_clocks {
    KB_VEC(kc_file_clock) files;
    size_t next; /* of files: the one that is probably asked for next */
    char note[320];
    bool is_refused; /* note says why */
    kt_merge_clocks merge; /* for kt_open_many */
} kc_clocks;

struct ka_rank_model;
/** A file and the rank by which the model knows it. False: out of memory. */
bool kc_clocks_add(kc_clocks *c, const char *path, int32_t rank);
/** Take the clocks of the files from a model. */
void kc_clocks_set(kc_clocks *c, const struct ka_rank_model *m);
/** Read all files and compare them. Files that cannot be read are left out. @param c  to be freed, also on failure. */
kineto_status kc_clocks_compare(kc_clocks *c, char *const *paths, int count, kineto_error *err);
void kc_clocks_free(kc_clocks *c);
#endif
