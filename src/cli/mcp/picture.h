/* A picture of a part of the timeline: lanes of the busiest tracks, as a raster of names, which is written as SVG,
 * PNG or text. Each row of a lane is one level of nesting; a cell has the name that covers most of it. */
#ifndef KC_MCP_PICTURE_H
#define KC_MCP_PICTURE_H

#include "export/export.h"

#define KC_PICTURE_LANES  12u
#define KC_PICTURE_LEVELS 4u
#define KC_PICTURE_NAMES  12u

typedef struct kc_picture_cell {
    float covered; /* share of the cell with any activity, 0 … 1 */
    float largest; /* of it by one activity */
    uint32_t name; /* id + 1 of that one; 0: empty */
} kc_picture_cell;

typedef struct kc_picture_lane {
    uint32_t track, levels;
    double covered_ns; /* by activities of the outermost level */
    uint32_t row;      /* the first row */
} kc_picture_lane;

/* Names that differ only in a number after '#' are one: ProfilerStep#5 and #6. */
typedef struct kc_picture_name {
    uint32_t id; /* of the first of them */
    double ns; /* in the picture, of all levels */
} kc_picture_name;

typedef struct kc_picture {
    const kineto_trace *trace;
    int64_t from_ns, to_ns, start_ns; /* start_ns: of the trace */
    uint32_t width;                   /* cells of a row */
    kc_picture_lane lanes[KC_PICTURE_LANES];
    uint32_t lane_count, lanes_left, row_count;
    kc_picture_name names[KC_PICTURE_NAMES]; /* the heaviest */
    uint32_t name_count;
    kc_picture_cell *cells; /* row_count * width */
    kb_map stems;           /* hash of a name without its number → id of the first */
} kc_picture;

/** Fill a picture of [from_ns, to_ns). @param lanes  tracks at most. */
kineto_status kc_picture_make(const kineto_trace *trace, int64_t from_ns, int64_t to_ns, uint32_t width,
                              uint32_t lanes, kc_picture *out, kineto_error *err);
void kc_picture_free(kc_picture *p);
/** Number of the name in the legend, from 0; KC_PICTURE_NAMES: not one of them; UINT32_MAX: the cell is empty. */
uint32_t kc_picture_name_at(const kc_picture *p, uint32_t row, uint32_t x);
/** The name of a number of the legend, "ProfilerStep#…" for several; cut to 120 bytes. */
ke_label kc_picture_name_of(const kc_picture *p, uint32_t name);
/** "#rrggbb" of a number of the legend. */
const char *kc_picture_colour(uint32_t name);
/** Into a memory sink. */
void kc_picture_write_svg(const kc_picture *p, kb_sink *sink);
/** Lanes are numbered from the top; the legend is left to the text of the answer. @return KINETO_E_MEMORY. */
kineto_status kc_picture_write_png(const kc_picture *p, kb_sink *sink, kineto_error *err);
/** "3 python3 (1234): thread 5" */
ke_label kc_picture_label(const kc_picture *p, uint32_t lane);
#endif
