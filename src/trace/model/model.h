/* Inside of a trace and of its builder. For files of this room only. */
#ifndef KT_MODEL_H
#define KT_MODEL_H

#include "trace/model/slab.h"
#include "trace/model/store.h"
#include "trace/repair/repair.h"
#include "trace/trace.h"

#include <pthread.h>

typedef struct kt_process_row {
    bool is_device;
    int32_t rank;
    int64_t pid, ppid, sort_index;
    uint64_t exec;
    uint32_t name, label, host, properties; /* string ids */
    uint32_t text;                          /* instead of pid; 0: none */
    uint32_t place; /* of its properties in the file's list, from 1 on; 0: not from there */
    int64_t number; /* of a row with a text: the device's or the process'; -1: not known */
} kt_process_row;

/** The number to show: where a text stands instead of the pid, `pid` is only a mark. */
static inline int64_t kt_process_number(const kt_process_row *p)
{
    return p->pid == INT64_MIN + (int64_t)p->text ? p->number : p->pid;
}

typedef struct kt_track_row {
    uint32_t process, type;
    int64_t id, sort_index;
    uint32_t name, text;
    uint64_t count;
    bool has_other_tid; /* the file that it is from has another number for it than its id */
} kt_track_row;

typedef struct kt_async_row {
    kineto_row row;
    uint64_t id;
} kt_async_row;

typedef struct kt_ledger_row {
    uint32_t source, reason, detail;
    bool is_loss;
    uint64_t count;
} kt_ledger_row;

typedef struct kt_meta_row {
    uint32_t key, value;
} kt_meta_row;

/* A category of a plug-in's own. They are looked for one by one: files may not have any number. */
#define KT_MAX_OWN_KINDS 256u
typedef struct kt_own_kind_row {
    uint32_t category, kind;
} kt_own_kind_row;

/* One end of a flow as stated. Scopes are those of a file that has an id twice in one type. */
typedef struct kt_flow_end {
    uint64_t id;
    kineto_row row;
    uint32_t type : 16, scope : 15, start : 1;
} kt_flow_end;
#define KT_FLOW_TYPES  0xffffu
#define KT_FLOW_SCOPES 0x7fffu

/* A flow end whose row is found once all rows are known; or for which none was found. */
typedef struct kt_late_flow {
    uint32_t track;
    bool next; /* it is the row that begins next */
    int64_t ts_ns;
    size_t end; /* index into ends */
} kt_late_flow;

/* What an end of a flow of the program's own is called, and its arguments: string ids, 0: none. */
typedef struct kt_flow_text {
    size_t end; /* index into ends */
    uint32_t category, name, args;
} kt_flow_text;

/* All ends of a trace's flows. The lists of what is known of some are in the order of ends. */
typedef struct kt_stated_flows {
    const kt_flow_end *ends;
    size_t count;
    const kt_late_flow *nowhere; /* without a row, but with their time */
    size_t nowhere_count;
    const kt_flow_text *texts;
    size_t text_count;
} kt_stated_flows;

/* Of a flow in a trace, in the order of flows. */
typedef struct kt_flow_row_text {
    uint64_t flow;
    kt_flow_about about;
} kt_flow_row_text;

/* A pair of rows, in arrays sorted by `from`. */
typedef struct kt_link {
    kineto_row from, to;
} kt_link;

/* Columns that follow from the others; each stage is built on first use under the mutex and never
 * changes afterwards. */
typedef enum kt_stage {
    KT_STAGE_ORDER = 1,   /* order, track_first, time_order */
    KT_STAGE_LANES = 2,   /* lane_count, lane */
    KT_STAGE_NESTING = 4, /* parent, self_ns */
    KT_STAGE_LINKS = 16   /* launch, launched */
} kt_stage;

typedef struct kt_derived {
    pthread_mutex_t mutex;
    uint32_t ready; /* kt_stage bits, stored with release */
    kineto_row *order, *time_order, *parent;
    uint64_t *track_first; /* track → first position in order; one more than tracks */
    uint32_t *lane;        /* NULL: every row is in lane 0 */
    uint32_t *lane_count;  /* by track */
    int64_t *self_ns;
    kt_link *launch, *launched; /* device → launch, launch → first device activity */
    size_t launch_count, launched_count;
} kt_derived;

struct kineto_trace {
    uint32_t references;
    kt_store *store; /* of what grows with the number of rows; NULL: the heap */
    bool has_window;
    uint64_t text_bytes; /* that it was read from */
    char writer_version[24]; /* of the ckineto that wrote the file; "" if none did */
    bool was_read;       /* from a file: what that did not say, writers do not add */
    int64_t file_base_ns; /* what times in the file counted from; 0: from 1970 */
    uint64_t count;
    int64_t window_start_ns, window_end_ns;
    kb_intern strings;
    kb_intern sets; /* of args: packed, as in a block; they are no texts */
    KB_VEC(kt_block *) blocks;
    KB_VEC(uint32_t) categories; /* string ids */
    KB_VEC(kt_own_kind_row) own_kinds;
    KB_VEC(kt_process_row) processes;
    KB_VEC(kt_track_row) tracks;
    KB_VEC(kt_async_row) async_ids; /* by row */
    KB_VEC(kineto_flow) flows;
    KB_VEC(kt_flow_row_text) flow_texts;
    KB_VEC(kt_ledger_row) ledger;
    KB_VEC(kt_meta_row) metadata; /* by key */
    KB_VEC(kb_clock_snapshot) snapshots;
    bool has_writers;   /* some rows are a KT_WRITER's */
    kt_repairs repairs; /* of the text that it was read from */
    kt_derived derived;
};

/* A category that was looked for a moment ago. */
typedef struct kt_category_hint {
    uint32_t id;
    uint16_t index;
    bool valid;
} kt_category_hint;

struct kt_builder {
    kineto_trace *trace;
    kt_store *store;
    kineto_status status; /* first failure; sticks */
    kt_block *open;       /* last block of the trace while it has room */
    kt_slab *slab;        /* of all blocks but the first, without a store */
    kb_map processes, tracks, categories, metadata;
    uint32_t kind_names[KINETO_KIND_COUNT];
    uint16_t kind_category[KINETO_KIND_COUNT]; /* its own name's index + 1; 0: not met yet */
    kt_category_hint category_hints[2];
    KB_VEC(uint8_t) staged; /* args of the next row */
    kt_args_form staged_form;
    uint64_t staged_word; /* KT_ARGS_IN_FILE: place in staged_text, which is borrowed */
    struct kt_input *staged_text;
    KB_VEC(kt_flow_end) flow_ends;
    uint64_t negative_durations, unknown_kinds, long_args, lost_categories;
};

/** kt_args_put_set, in place. */
KB_INLINE void kt_args_stage_set(kt_builder *b, uint32_t set)
{
    if (KINETO_UNLIKELY(!set || b->staged.capacity < KT_ARG_HEAD)) {
        kt_args_put_set(b, set);
        return;
    }
    memcpy(b->staged.data, &set, sizeof set);
    b->staged.data[KT_ARG_HEAD - 1] = KT_ARG_SET;
    b->staged.count = KT_ARG_HEAD;
    b->staged_form = KT_ARGS_PACKED;
}

static inline const kt_block *kt_block_of(const kineto_trace *t, kineto_row row)
{
    return t->blocks.data[row / KT_BLOCK_ROWS];
}
static inline int64_t kt_start(const kineto_trace *t, kineto_row row)
{
    return kt_block_of(t, row)->start_ns[row % KT_BLOCK_ROWS];
}
static inline int64_t kt_end(const kineto_trace *t, kineto_row row)
{
    return kt_block_of(t, row)->end_ns[row % KT_BLOCK_ROWS];
}
static inline uint32_t kt_kind(const kineto_trace *t, kineto_row row)
{
    return kt_block_of(t, row)->kind[row % KT_BLOCK_ROWS];
}
static inline uint32_t kt_form(const kineto_trace *t, kineto_row row)
{
    return kt_block_of(t, row)->form[row % KT_BLOCK_ROWS];
}
static inline uint32_t kt_row_track(const kineto_trace *t, kineto_row row)
{
    return kt_block_of(t, row)->track[row % KT_BLOCK_ROWS];
}
static inline uint64_t kt_correlation(const kineto_trace *t, kineto_row row)
{
    return kt_block_of(t, row)->correlation_id[row % KT_BLOCK_ROWS];
}

/** The form of a row's args as it is kept; see kt_args_form_of. */
static inline kt_args_form kt_kept_form(const kt_block *block, uint32_t index)
{
    return (kt_args_form)(block->flags[index] >> 8 & 3);
}

/* ---- block.c ---- */
/** slab: where to take it from; NULL: the store. */
kt_block *kt_block_create(kt_store *store, kt_slab **slab);
/** Room for so many bytes of args. Of a block that others fill as well: slab NULL. */
bool kt_block_grow_args(kt_block *block, kt_slab **slab, size_t bytes);
/** Give back the unused room of a finished block. */
kt_block *kt_block_shrink(kt_block *block);
void kt_block_release(kt_block *block);
/** The text that args of a row in form KT_ARGS_IN_FILE stand in. */
struct kt_input *kt_block_text(const kt_block *block, uint32_t index);
/** Rows from here on have their args in `text`, which is retained. False: out of memory. */
bool kt_block_add_text(kt_block *block, uint32_t index, struct kt_input *text);

/* ---- builder.c ---- */
/** Where what grows with the rows is to be; at once after the builder was made. NULL: the heap. */
void kt_builder_store(kt_builder *b, kt_store *store);
/** Index of the track like this one, added if there is none. */
uint32_t kt_track_intern(kt_builder *b, const kt_track_row *wanted);
uint16_t kt_category_find(kt_builder *b, uint32_t kind, uint32_t category);
/** Index of a category in the trace's table; category 0 is the kind's own name. */
KB_INLINE uint16_t kt_category_index(kt_builder *b, uint32_t kind, uint32_t category)
{
    uint16_t known = b->kind_category[kind];
    return KINETO_LIKELY(!category && known) ? (uint16_t)(known - 1)
                                             : kt_category_find(b, kind, category);
}
/** Put verbatim args into a block that only this function adds to. False: too long, or no memory.
 */
bool kt_heap_put(kt_builder *b, kt_block *block, kineto_string json_object, uint64_t *word);
/** Stage args of the next row that stand in a text already (args.c): their word, see kt_block. */
void kt_args_in_text(kt_builder *b, struct kt_input *text, uint64_t word);
/** Room for rows at the end of the trace, which the caller fills in. KINETO_E_LIMIT,
 * KINETO_E_MEMORY. */
kineto_status kt_rows_reserve(kt_builder *b, size_t count, kineto_row *first);

/* ---- rework.c: second thoughts of a reader ---- */
/** Set a row's end, and whether that is only the last known moment. */
void kt_row_close(kt_builder *b, kineto_row row, int64_t end_ns, bool open_end);
/** Give a row another kind, with its name as the category. */
void kt_row_set_kind(kt_builder *b, kineto_row row, uint32_t kind);
/** Put a set of args in front of those that a row has; behind those of its own set, if it has one.
 */
void kt_row_add_set(kt_builder *b, kineto_row row, uint32_t set);
/** Replace the table of tracks: `wanted` says by old index what each really is. Equal ones become
 *  one track. new_index (by old index) may be NULL. Further kt_track calls are not possible. */
void kt_retrack(kt_builder *b, const kt_track_row *wanted, uint32_t *new_index);

/* ---- order.c: the total order ---- */
/* Sort key of a row: (start, longer first, rank). */
typedef struct kt_sort_item {
    int64_t start_ns, end_ns;
    uint64_t rank; /* the row; rows of writers come before, the later of each first. Nothing
                      encloses what takes no time: there it is the row */
    kineto_row row;
} kt_sort_item;
static inline uint32_t kt_writer(const kineto_trace *t, kineto_row row)
{
    return KT_WRITER_OF(kt_block_of(t, row)->flags[row % KT_BLOCK_ROWS]);
}
static inline uint64_t kt_rank(const kineto_trace *t, kineto_row row)
{
    if (!t->has_writers)
        return row;
    uint64_t writer = kt_writer(t, row);
    return writer && kt_start(t, row) < kt_end(t, row) ? writer << 32 | (UINT32_MAX - row)
                                                       : UINT64_C(4) << 32 | row;
}
static inline kt_sort_item kt_sort_key(const kineto_trace *t, kineto_row row)
{
    return (kt_sort_item){kt_start(t, row), kt_end(t, row), kt_rank(t, row), row};
}
static inline bool kt_before(const kt_sort_item *a, const kt_sort_item *b)
{
    if (a->start_ns != b->start_ns)
        return a->start_ns < b->start_ns;
    if (a->end_ns != b->end_ns)
        return a->end_ns > b->end_ns;
    return a->rank < b->rank;
}
bool kt_build_order(kineto_trace *t);

/* ---- lanes.c ---- */
bool kt_build_lanes(kineto_trace *t);

/* ---- nesting.c ---- */
bool kt_build_nesting(kineto_trace *t);

/* ---- links.c ---- */
bool kt_build_links(kineto_trace *t);
bool kt_flow_add(kineto_trace *t, kineto_flow flow);
/** Join stated ends into t->flows. A start without a row takes its finishes, too: they are joined
 *  with no older start of the same id. */
bool kt_join_flows(kineto_trace *t, const kt_stated_flows *stated);
/** Say of the flow that was added last what it is called. */
bool kt_flow_add_about(kineto_trace *t, const kt_flow_about *about);

/** A launch or a device activity by its correlation id; sorted by (id, start, row). */
typedef struct kt_correlated {
    uint64_t id;
    int64_t start_ns;
    kineto_row row;
} kt_correlated;
/** By id, start and row. */
void kt_sort_correlated(kt_correlated *items, size_t count);
/** Of the launches with this id the last one that starts at or before start_ns, else the first;
 *  NULL if there is none. */
const kt_correlated *kt_find_launch(const kt_correlated *launches, size_t count, uint64_t id,
                                    int64_t start_ns);

/* ---- radix.c ---- */
/** A row or number to be sorted by something else. */
typedef struct kt_keyed {
    uint64_t key;
    uint32_t value;
} kt_keyed;
/** By key; equal keys stay in their order. False: out of memory. */
bool kt_sort_keyed(kt_store *store, kt_keyed *items, size_t count);

/* ---- derived.c ---- */
/** Is the stage there, after building it if need be? False: out of memory. */
bool kt_need(const kineto_trace *t, kt_stage stage);
void kt_derived_free(kt_store *store, kt_derived *d);
#endif
