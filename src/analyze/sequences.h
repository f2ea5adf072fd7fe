/* Where sequences of kernels that come back are. */
#ifndef KA_SEQUENCES_H
#define KA_SEQUENCES_H

#include "analyze/scope.h"

/** One time that an operator launched a sequence. */
typedef struct ka_occurrence {
    uint32_t slice;    /* the operator */
    uint32_t sequence; /* 0: the one with the most time on the device */
    uint32_t kernels;
} ka_occurrence;
typedef KB_VEC(ka_occurrence) ka_occurrence_list;

/** Those of the sequences that the table shows. False: out of memory. */
bool ka_sequences_find(const ka_scope *s, ka_occurrence_list *out);
#endif
