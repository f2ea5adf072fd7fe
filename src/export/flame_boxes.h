/* Boxes of a flame graph: for every stack its time with that of its callees, and a place in the box of its
 * caller, the widest first. flame.c writes them as SVG, report_stacks.c as data of the report. */
#ifndef KE_FLAME_BOXES_H
#define KE_FLAME_BOXES_H

#include "export/stacks.h"

#define KE_FLAME_WIDTH 1200.0 /* of the whole graph */
#define KE_FLAME_DEPTH 400u   /* deeper boxes are not written */

typedef struct ke_flame_box {
    double total_ns; /* a double: sums of arbitrary times may not fit an integer */
    uint64_t inner;  /* samples, or blocked states, of it and the boxes below */
    double x, width;
    uint32_t depth;
    uint32_t first, count; /* its range of ke_flame.children */
} ke_flame_box;

typedef struct ke_flame {
    const ke_job *job;
    ke_stacks stacks;
    ke_flame_box *boxes; /* by node */
    uint32_t *children;  /* nodes, by parent; those of one parent in the order of their places */
    uint32_t *roots;     /* nodes without a parent, likewise */
    uint32_t root_count;
    double whole_ns;
} ke_flame;

typedef struct ke_flame_colour {
    unsigned hue, saturation, lightness;
} ke_flame_colour;

/** Makes the boxes of all stacks that the job's weight selects. @return false: out of memory. Free in any case. */
bool ke_flame_make(ke_flame *flame, const ke_job *job);
void ke_flame_free(ke_flame *flame);
const ke_frame *ke_flame_frame(const ke_flame *flame, uint32_t node);
/** Sorts nodes, the widest box first; of equals the one that comes first in the stacks. */
void ke_flame_sort(const ke_flame *flame, uint32_t *nodes, size_t count);
/** The name that a box shows; never empty. */
kineto_string ke_flame_name(const ke_frame *frame);
/** How often a box was recorded: activities, samples within it, or how often threads were blocked.
 *  @param noun  receives the word for one of them. */
uint64_t ke_flame_count(const ke_flame *flame, uint32_t node, const char **noun);
/** Warm hues for the host, cool ones for devices, grey for roots; a name always has the same shade. */
ke_flame_colour ke_flame_colour_of(const ke_frame *frame);
#endif
