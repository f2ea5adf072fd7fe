/* Stacks of activities, equal ones added up: what flame graphs and profiles show. What has a length
 * (slices, asynchronous ranges) stands in a stack below what encloses it in its lane. */
#ifndef KE_STACKS_H
#define KE_STACKS_H

#include "export/export.h"

#define KE_NO_NODE UINT32_MAX

/* A word in stacks: a name of activities of one kind; or a root. */
typedef struct ke_frame {
    kineto_string text;
    uint32_t kind; /* KINETO_KIND_COUNT: a root */
} ke_frame;

typedef struct ke_node {
    uint32_t parent; /* stands before its children; KE_NO_NODE at the top */
    uint32_t frame;
    uint32_t depth;   /* 1 at the top */
    uint32_t track;   /* UINT32_MAX where tracks are merged */
    uint64_t self_ns; /* ends at what a number holds */
    uint64_t count;   /* activities; 0 for roots */
} ke_node;

typedef struct ke_stacks {
    KB_VEC(ke_frame) frames;
    KB_VEC(ke_node) nodes;
    uint64_t forms[4]; /* activities that are in stacks */
    uint64_t cut;      /* of them deeper than most_depth: added up in a node below the last one */
    uint32_t most_depth, deeper_frame;
    char deeper_text[48];
    kb_map frame_ids, node_ids;
    kb_arena arena;
} ke_stacks;

/* Formats that write each stack out grow with the square of its depth. */
#define KE_MAX_FRAMES 1024u
/** @param most_depth  deeper frames are added up; 0: there is no limit.
 *  @return false: out of memory. Free in any case. */
bool ke_stacks_make(ke_stacks *stacks, const ke_job *job, uint32_t most_depth);
void ke_stacks_free(ke_stacks *stacks);
/** Frame of an activity, made at first use; UINT32_MAX when out of memory. */
uint32_t ke_stacks_frame(ke_stacks *stacks, const kineto_trace *trace, uint32_t name,
                         uint32_t kind);
/** Does a row have a length, and so a place in a stack? Rows that are about others have none. */
bool ke_row_has_frame(const kineto_trace *trace, kineto_row row);
/** Account for frames that were too deep. */
void ke_stacks_account_depth(const ke_job *job, const ke_stacks *stacks);
/** Account for a format that has names and lengths only. */
void ke_stacks_account(const ke_job *job, const uint64_t forms[4]);
#endif
