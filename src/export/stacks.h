/* Stacks of activities, with equal ones aggregated: the data of flame graphs and profiles. Rows
 * with a length (slices, asynchronous ranges) stand below the rows that enclose them in their
 * lane. Ranges of samples count by the CPU time that they stand for, without that of the ranges in
 * them; blocked states by their length, below the functions of their "Call stack". */
#ifndef KE_STACKS_H
#define KE_STACKS_H

#include "export/cpu_rows.h"

#define KE_NO_NODE UINT32_MAX

/* A frame: a name of activities of one kind, or a root (process, track, kind). */
typedef struct ke_frame {
    kineto_string text;
    uint32_t kind; /* KINETO_KIND_COUNT: a root */
    uint32_t line; /* of file; 0: not known */
    /* Of sampled functions the file of their code; of functions in which threads were blocked the
     * source, or without a line the code. Empty: not known. */
    kineto_string file;
} ke_frame;

typedef struct ke_node {
    uint32_t parent; /* precedes its children; KE_NO_NODE: none */
    uint32_t frame;
    uint32_t depth;   /* 1 at the top */
    uint32_t track;   /* UINT32_MAX: tracks are merged */
    bool is_called;   /* of a sampled function: false if it was always inlined into the one around it */
    uint64_t self_ns; /* of activities other than samples; saturates */
    uint64_t count;   /* of them; 0 for roots */
    int64_t cpu_ns, samples;      /* own ones of ranges of samples */
    uint64_t blocked_ns, blocked; /* time and number of blocked states */
} ke_node;

/* Which rows are in the stacks: a mask. */
enum { KE_STACKS_RANGES = 1, KE_STACKS_SAMPLES = 2, KE_STACKS_BLOCKED = 4 };

typedef struct ke_stacks {
    KB_VEC(ke_frame) frames;
    KB_VEC(ke_node) nodes;
    uint32_t rows;     /* mask of KE_STACKS_… */
    uint64_t forms[4]; /* activities that are in stacks */
    uint64_t unselected; /* activities with a frame that `rows` leaves out */
    uint64_t states;     /* states of threads that are not in stacks */
    /* Of them deeper than max_depth: aggregated in a node below the last one. */
    uint64_t cut;
    uint32_t max_depth, deeper_frame;
    char deeper_text[48];
    kb_map frame_ids, node_ids, thread_roots;
    kb_intern texts;             /* files, and functions of stacks in args */
    KB_VEC(ke_stack_frame) path; /* of the stack of a blocked state, the innermost first */
    kb_arena arena;
} ke_stacks;

/* The limit of formats that write out each stack: their size grows with the square of its depth. */
#define KE_MAX_FRAMES 1024u
/** The rows that the option `weight` of an export selects. */
uint32_t ke_stacks_rows(const ke_job *job);
/** Builds the stacks of a trace.
 *  @param max_depth  deeper frames are aggregated; 0: no limit.
 *  @param rows       mask of KE_STACKS_…
 *  @return false: out of memory. Free in any case. */
bool ke_stacks_make(ke_stacks *stacks, const ke_job *job, uint32_t max_depth, uint32_t rows);
void ke_stacks_free(ke_stacks *stacks);
/** The weight of a node in formats with one, as the option `weight` selects it: ns or samples. */
uint64_t ke_stacks_weight(const ke_job *job, const ke_node *node);
/** The number of what a node's weight consists of: activities, samples or blocked states. */
uint64_t ke_stacks_count(const ke_node *node);
/** The frame of an activity, made at first use; UINT32_MAX: out of memory. */
uint32_t ke_stacks_frame(ke_stacks *stacks, const kineto_trace *trace, kineto_row row);
/** True if a row has a length and is neither a summary of other rows nor the state of a thread, so
 *  that it has a place in a stack. */
bool ke_row_has_frame(const kineto_trace *trace, kineto_row row);
/** Records frames that were too deep in the job's result. */
void ke_stacks_account_depth(const ke_job *job, const ke_stacks *stacks);
/** Fills the job's result for a format that has names and lengths only, from the counts of
 *  activities in `stacks`. */
void ke_stacks_account(const ke_job *job, const ke_stacks *stacks);
#endif
