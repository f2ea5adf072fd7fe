/* Stacks of activities, with equal ones aggregated: the data of flame graphs and profiles. Rows
 * with a length (slices, asynchronous ranges) stand below the rows that enclose them in their
 * lane. */
#ifndef KE_STACKS_H
#define KE_STACKS_H

#include "export/export.h"

#define KE_NO_NODE UINT32_MAX

/* A frame: a name of activities of one kind, or a root (process, track, kind). */
typedef struct ke_frame {
    kineto_string text;
    uint32_t kind; /* KINETO_KIND_COUNT: a root */
} ke_frame;

typedef struct ke_node {
    uint32_t parent; /* precedes its children; KE_NO_NODE: none */
    uint32_t frame;
    uint32_t depth;   /* 1 at the top */
    uint32_t track;   /* UINT32_MAX: tracks are merged */
    uint64_t self_ns; /* saturates */
    uint64_t count;   /* activities; 0 for roots */
} ke_node;

typedef struct ke_stacks {
    KB_VEC(ke_frame) frames;
    KB_VEC(ke_node) nodes;
    uint64_t forms[4]; /* activities that are in stacks */
    /* Of them deeper than max_depth: aggregated in a node below the last one. */
    uint64_t cut;
    uint32_t max_depth, deeper_frame;
    char deeper_text[48];
    kb_map frame_ids, node_ids;
    kb_arena arena;
} ke_stacks;

/* The limit of formats that write out each stack: their size grows with the square of its depth. */
#define KE_MAX_FRAMES 1024u
/** Builds the stacks of a trace.
 *  @param max_depth  deeper frames are aggregated; 0: no limit.
 *  @return false: out of memory. Free in any case. */
bool ke_stacks_make(ke_stacks *stacks, const ke_job *job, uint32_t max_depth);
void ke_stacks_free(ke_stacks *stacks);
/** The frame of an activity, made at first use; UINT32_MAX: out of memory. */
uint32_t ke_stacks_frame(ke_stacks *stacks, const kineto_trace *trace, uint32_t name,
                         uint32_t kind);
/** True if a row has a length and is not a summary of other rows, so that it has a place in a
 *  stack. */
bool ke_row_has_frame(const kineto_trace *trace, kineto_row row);
/** Records frames that were too deep in the job's result. */
void ke_stacks_account_depth(const ke_job *job, const ke_stacks *stacks);
/** Fills the job's result for a format that has names and lengths only. */
void ke_stacks_account(const ke_job *job, const uint64_t forms[4]);
#endif
