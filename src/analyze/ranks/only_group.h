/* The process group of collectives that do not name theirs, as those in a replayed graph. */
#ifndef KA_ONLY_GROUP_H
#define KA_ONLY_GROUP_H

#include <ckineto/trace.h>

typedef struct ka_only_group {
    kineto_string name, description, members; /* borrowed from the trace */
    uint32_t size;               /* 0: the header names none, or several that it may be */
} ka_only_group;

/** By the groups that the header of the trace lists: the only one with more than one rank, but for the one of all
 *  ranks if there is another. */
ka_only_group ka_find_only_group(const kineto_trace *t);
/** All groups that the header lists with more than one rank, in its order; at most `room`.
 *  @return how many were put. */
uint32_t ka_list_header_groups(const kineto_trace *t, ka_only_group *out, uint32_t room);
#endif
