/* The overview: sections of facts as overview_specs.c declares them, the headline and the tiles. Everything of one overview runs on one thread. */
#ifndef KA_OVERVIEW_H
#define KA_OVERVIEW_H

#include "analyze/findings/finding.h"
#include "analyze/overview/coverage.h"
#include "analyze/tables/table.h"

#include <ckineto/overview.h>

/** Places of the overview; each shows one of the sections that are declared for it. */
enum { KA_SLOTS = 4 };
#define KA_OVERVIEW_ROWS 10u
#define KA_MAX_OUTPUTS   12u

/** How a column of a section is made of the rows with the same keys. */
typedef enum ka_output_kind {
    KA_OUT_KEY,   /* the cell, text or number: rows with equal keys become one */
    KA_OUT_RANK,  /* a key only where the section is about ranks */
    KA_OUT_CUT,   /* "cut off" for ranks whose file is; only where some are and others not */
    KA_OUT_AT,    /* the least time, from the begin of its trace */
    KA_OUT_COUNT, /* sum of whole numbers */
    KA_OUT_ROWS,  /* number of rows */
    KA_OUT_SUM,   /* sum of nanoseconds; the first one of a section orders its rows */
    KA_OUT_LONGEST,
    KA_OUT_TYPICAL, /* a median or percentile in microseconds: not of several traces */
    KA_OUT_MEAN,  /* the first sum divided by the first count */
    KA_OUT_SHARE, /* percent of the first sum over all rows of the section */
    KA_OUT_PART,  /* this column as a percentage of the first sum of the row */
    KA_OUT_VALUE  /* the mean of numbers */
} ka_output_kind;

typedef struct ka_output {
    ka_output_kind kind;
    const char *name; /* with its unit at the end: "mean_us", "share_pct" */
    const char *column; /* of the table of facts; NULL: needs none */
} ka_output;

/** A section: its place, the table of facts, and its columns. Of the sections of one slot the
 * first that has rows is shown. */
typedef struct ka_section_spec {
    const char *title;
    uint32_t slot;
    ka_table_id source;
    const char *filter, *is; /* a column, and the text or number that it must have; NULL: all rows */
    bool of_ranks;           /* only where there are several */
    ka_output outputs[KA_MAX_OUTPUTS]; /* the first without a name ends them */
} ka_section_spec;

/** One section that is shown. */
typedef struct ka_overview_section {
    const ka_section_spec *spec;
    ka_column columns[KA_MAX_OUTPUTS];
    ka_table table; /* with these columns */
    uint64_t left_out;
} ka_overview_section;

#define KA_MAX_TILES 4u
typedef struct ka_overview_tile {
    const char *label;
    char value[64], detail[160];
} ka_overview_tile;

struct kineto_overview {
    kineto_findings *found;
    kineto_analysis *facts;
    ka_coverage coverage;
    char repeated_steps[100]; /* the name of the ranges that are steps as they repeat like steps; "" */
    bool is_made; /* the members below are up to date */
    bool no_memory;
    char headline[1000];
    uint32_t tile_count, section_count;
    ka_overview_tile tiles[KA_MAX_TILES];
    ka_overview_section sections[KA_SLOTS];
};

/** The traces that it is of. */
const ka_coverage *ka_overview_coverage(const kineto_overview *o);
/** The begin of the trace of a rank; 0: not known. */
int64_t ka_overview_origin(const kineto_overview *o, int64_t rank);
/** A table of the overview; NULL: there are not as many. */
const ka_table *ka_overview_table(kineto_overview *o, uint32_t index);
/** overview_specs.c. NULL past the end. */
const ka_section_spec *ka_section_spec_of(uint32_t index);
/** overview_sections.c: the section of a slot, if one has rows. False: none. */
bool ka_overview_fill(kineto_overview *o, uint32_t slot, ka_overview_section *out);
void ka_overview_section_free(ka_overview_section *s);
/** overview_ranks.c: ranks by what the others wait for: the run would be shorter most without them, then those that wait
 *  least themselves. */
typedef struct ka_rank_places {
    uint32_t count; /* 0: ranks were not compared */
    struct ka_rank_weight *ranks;
} ka_rank_places;
/** @param out  to be freed. False: out of memory. */
bool ka_find_rank_places(const kineto_overview *o, ka_rank_places *out);
void ka_rank_places_free(ka_rank_places *p);
/** UINT32_MAX: it was not compared. */
uint32_t ka_place_of_rank(const ka_rank_places *p, int64_t rank);
/** overview_headline.c */
void ka_overview_describe(kineto_overview *o);
#endif
