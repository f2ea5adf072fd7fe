/* What took the time of each step, by kind and name: work of devices, operators, ranges and functions, and
 * what the step's own thread did (its states, blocking calls and CPU samples). */
#ifndef KA_STEP_CONTENTS_H
#define KA_STEP_CONTENTS_H

#include "analyze/facts/analyses.h"

/** Kinds without names are sums over all names. */
typedef enum ka_content_kind {
    KA_CONTENT_KERNELS,
    KA_CONTENT_KERNEL, /* … of one name */
    KA_CONTENT_MEMCPY,
    KA_CONTENT_MEMSET,
    KA_CONTENT_COMMUNICATION,
    KA_CONTENT_SYNCHRONIZATION,
    KA_CONTENT_DATA_LOADER,
    KA_CONTENT_OPERATOR,
    KA_CONTENT_RANGE,
    KA_CONTENT_PYTHON,
    KA_CONTENT_STATE,  /* of the step's thread: "blocked in usleep" */
    KA_CONTENT_SAMPLED /* sampled CPU time of a function in the step's thread */
} ka_content_kind;

/** How long one thing took in one step. */
typedef struct ka_portion {
    uint64_t key; /* kind << 32 | id of the name */
    int32_t step;
    int64_t ns;
} ka_portion;

typedef struct ka_step_contents {
    const ka_dataset *s;
    KB_VEC(ka_portion) portions; /* by key and step, one for each */
    kb_intern words;             /* names of KA_CONTENT_STATE */
    bool no_memory;
} ka_step_contents;

/** Fills *c, to be freed in any case. False: out of memory. */
bool ka_step_contents_make(ka_step_contents *c, const ka_dataset *s);
void ka_step_contents_free(ka_step_contents *c);

/** What a key stands for: "aten::mm", "all kernels", "blocked in usleep", and its kind in a word. */
kineto_string ka_content_text(const ka_step_contents *c, uint64_t key);
const char *ka_content_kind_text(const ka_step_contents *c, uint64_t key);
/** Does `part` name a part of the time of `whole` more exactly? */
bool ka_content_is_part(const ka_step_contents *c, uint64_t part, uint64_t whole);
#endif
