/* Copying rows of a trace into a builder: what a selection, a scrubbed trace and a merge share. */
#ifndef KT_COPY_H
#define KT_COPY_H

#include "trace/model/model.h"

/* What a text of the source is; what becomes of it may depend on that. */
typedef enum kt_text_role {
    KT_TEXT_NAME,     /* of a row */
    KT_TEXT_CATEGORY, /* of a row */
    KT_TEXT_PROCESS,  /* name, label */
    KT_TEXT_TRACK,
    KT_TEXT_HOST,
    KT_TEXT_DEVICE /* properties: a JSON object */
} kt_text_role;

/* Source text → id in the builder. */
typedef uint32_t kt_copy_text(void *context, kt_text_role role, kineto_string text);

/* Where the things of one source are in the builder; made by kt_copy_begin. */
typedef struct kt_copy {
    kt_builder *b;
    const kineto_trace *from;
    kt_copy_text *text; /* NULL: texts stay what they are */
    void *context;
    /* For builders that take several traces: processes of different sources stay apart though they
     * have the same number or text, and ids (correlation, external, flow, async) are moved up. */
    uint64_t first_id;
    uint32_t first_process; /* of the builder's, that may be this source's */
    kineto_string apart;    /* behind the text of a process row whose text is taken */
    uint32_t *strings, *processes, *tracks, *categories, *sets; /* by source id; NONE: not yet */
    uint32_t string_count, process_count, track_count, category_count;
    uint64_t *taken; /* a bit for each process of the builder that is one of this source */
    uint32_t taken_room;
    bool failed; /* out of memory */
} kt_copy;
#define KT_COPY_NONE UINT32_MAX
/* Ids above are hashes of texts, or marks: they do not say where the next ones may begin, and are
 * moved among themselves. */
#define KT_LARGE_ID (UINT64_C(1) << 53)

/** Start copying from a trace; members after `from` may be set before the first other call.
 *  False: out of memory; free in any case. */
bool kt_copy_begin(kt_copy *c, kt_builder *b, const kineto_trace *from);
void kt_copy_free(kt_copy *c);

/** Index in the builder, copied at first use with all its properties. */
uint32_t kt_copy_process(kt_copy *c, uint32_t process);
uint32_t kt_copy_track(kt_copy *c, uint32_t track);
/** Id of a source string, unchanged. */
uint32_t kt_copy_string(kt_copy *c, uint32_t id);
/** A row without its args, ready to append: its texts, track and ids are the builder's. */
void kt_copy_columns(kt_copy *c, kineto_row row, kt_row *out);
/** Stage the args of a source row as they are: those that stand in a file stay there. Ids of other
 *  rows in them are moved. */
void kt_copy_args(kt_copy *c, kineto_row row);
/** The set of args of a source row in the builder, or KT_COPY_NONE: not yet. NULL: the row has none. */
uint32_t *kt_copy_set(kt_copy *c, const kt_args *args);
/** Append a row as it is. @return its number in the builder. */
kineto_row kt_copy_row(kt_copy *c, kineto_row row);
/** Add a flow of the source, which is there with this index, between rows of the builder
 *  (KINETO_NO_ROW: that end was not recorded). It is taken as it is: flows of the source are joined
 *  already. */
void kt_copy_flow(kt_copy *c, uint64_t index, const kineto_flow *flow, kineto_row from,
                  kineto_row to);

/** Tables that belong to no row, unchanged: own kinds with mapped categories; snapshots; header;
 *  ledger; window. */
void kt_copy_own_kinds(kt_copy *c);
void kt_copy_snapshots(kt_copy *c);
void kt_copy_metadata(kt_copy *c);
void kt_copy_ledger(kt_copy *c);
void kt_copy_window(kt_copy *c);

/** All processes, tracks, rows and flows, in their order, until memory runs out. */
void kt_copy_rows(kt_copy *c);
/** All of the trace as it is, after what the builder has: own kinds, kt_copy_rows and the other tables. */
void kt_copy_all(kt_copy *c);
#endif
