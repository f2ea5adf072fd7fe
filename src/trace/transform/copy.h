/* Copies rows of a trace into a builder, with the texts, tracks, args and tables that they refer
 * to. Selection, scrubbing, merging and the builder of <ckineto/builder.h> use it. Ids of strings,
 * tracks, processes and sets of args differ between source and builder; the tables of kt_copy map
 * them. */
#ifndef KT_COPY_H
#define KT_COPY_H

#include "trace/model/model.h"

/* The role of a text in the source: a mapping of texts (scrubbing) depends on it. */
typedef enum kt_text_role {
    KT_TEXT_NAME,     /* of a row */
    KT_TEXT_CATEGORY, /* of a row */
    KT_TEXT_PROCESS,  /* name, label */
    KT_TEXT_TRACK,
    KT_TEXT_HOST,
    KT_TEXT_DEVICE /* properties: a JSON object */
} kt_text_role;

/* The clock of a source: what has to be added to its times, offset_ns + drift * (t - middle_ns), and how wrong that may
 * be. */
typedef struct kt_clock {
    double offset_ns, drift;
    int64_t middle_ns, error_ns;
} kt_clock;
/* A moment on the corrected clock; NULL: it stays. Saturates. */
int64_t kt_correct_time(const kt_clock *clock, int64_t ns);

/* Maps a text of the source to a string id of the builder. */
typedef uint32_t kt_copy_text(void *context, kt_text_role role, kineto_string text);

/* The state of copying one source; made by kt_copy_begin. */
typedef struct kt_copy {
    kt_builder *b;
    const kineto_trace *from;
    kt_copy_text *text; /* NULL: texts stay as they are */
    /* Maps a number of a process, or of a thread of one; NULL: they stay. */
    int64_t (*number)(void *context, int64_t number);
    void *context;
    int64_t shift_ns; /* is subtracted from all times */
    const kt_clock *clock; /* corrects all times; NULL: they stay */
    /* For builders that take several traces: processes of different sources stay apart even if they
     * have the same number or text, and ids (correlation, external, flow, async) are shifted by
     * first_id. */
    uint64_t first_id;
    /* Processes of the builder below belong to other sources. */
    uint32_t first_process;
    /* Suffix for the text of a process row that another source has. */
    kineto_string apart;
    uint32_t *strings, *processes, *tracks, *categories,
        *sets; /* by source id; KT_COPY_NONE: not copied yet */
    uint32_t string_count, process_count, track_count, category_count;
    /* Bit set: processes of the builder that this source uses. */
    uint64_t *taken;
    uint32_t taken_room; /* bits in `taken` */
    bool failed; /* out of memory */
} kt_copy;
#define KT_COPY_NONE UINT32_MAX
/* Ids from here on are hashes of texts, or marks. They do not count for the first free id of the
 * next source, and are shifted modulo their own range. */
#define KT_LARGE_ID (UINT64_C(1) << 53)

/** Starts copying from a trace; the caller may set members after `from` before the first other
 *  call. False: out of memory. Call kt_copy_free in any case. */
bool kt_copy_begin(kt_copy *c, kt_builder *b, const kineto_trace *from);
void kt_copy_free(kt_copy *c);

/** Index in the builder, copied at first use with all its properties. */
uint32_t kt_copy_process(kt_copy *c, uint32_t process);
uint32_t kt_copy_track(kt_copy *c, uint32_t track);
/** Id in the builder of a source string, not mapped by `text`. */
uint32_t kt_copy_string(kt_copy *c, uint32_t id);
/** A row without its args, ready to append: its texts, track and ids are the builder's. */
void kt_copy_columns(kt_copy *c, kineto_row row, kt_row *out);
/** Stages the args of a source row unchanged, except for ids of other rows, which are shifted. Args
 *  that are kept in the text of a file stay there. */
void kt_copy_args(kt_copy *c, kineto_row row);
/** Entry of the row's set of args in the map; KT_COPY_NONE in it: not copied yet. NULL: no set. */
uint32_t *kt_copy_set(kt_copy *c, const kt_args *args);
/** Appends a row with its args. @return its number in the builder. */
kineto_row kt_copy_row(kt_copy *c, kineto_row row);
/** Adds flow `index` of the source between rows of the builder (KINETO_NO_ROW: an end that was not
 *  recorded). Flows of the source have been matched already, so it is not matched again. */
void kt_copy_flow(kt_copy *c, uint64_t index, const kineto_flow *flow, kineto_row from,
                  kineto_row to);

/** Copy tables that belong to no row: kinds of plug-ins with mapped categories; snapshots; header;
 *  ledger; window. */
void kt_copy_own_kinds(kt_copy *c);
void kt_copy_snapshots(kt_copy *c);
void kt_copy_metadata(kt_copy *c);
void kt_copy_ledger(kt_copy *c);
void kt_copy_window(kt_copy *c);

/** All processes, tracks, rows and flows, in their order, until memory runs out. */
void kt_copy_rows(kt_copy *c);
/** Appends the whole trace: kinds of plug-ins, kt_copy_rows and the other tables. */
void kt_copy_all(kt_copy *c);
#endif
