/* The structs of kineto_trace and kt_builder, and internal functions of src/trace.
 * Other folders use trace.h.
 *
 * A trace is immutable once kt_builder_finish has returned it, except for kt_derived, which
 * is built on first use. String ids index kineto_trace.strings; id 0 is "". */
#ifndef KT_MODEL_H
#define KT_MODEL_H

#include "trace/model/slab.h"
#include "trace/model/store.h"
#include "trace/repair/repair.h"
#include "trace/trace.h"

#include <pthread.h>

/* A process, a device, or a row that other tools know by a text. */
typedef struct kt_process_row {
    bool is_device;
    int32_t rank;
    int64_t pid, ppid, sort_index;
    uint64_t exec;
    uint32_t name, label, host, properties; /* string ids */
    uint32_t text;                          /* instead of pid; 0: none */
    uint32_t place; /* of its properties in the file's list, from 1 on; 0: not from there */
    int64_t number; /* of a row with a text: number of the device or process; -1: unknown */
} kt_process_row;

/** The number to show: of a row with a text, `pid` is only a key. */
static inline int64_t kt_process_number(const kt_process_row *p)
{
    return p->pid == INT64_MIN + (int64_t)p->text ? p->number : p->pid;
}

typedef struct kt_track_row {
    uint32_t process, type;
    int64_t id, sort_index;
    uint32_t name, text;
    uint64_t count;
    bool has_other_tid; /* its "tid" in the file differs from its id */
} kt_track_row;

/* Id of an asynchronous row; the list is sorted by row. */
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

/* A category that a plug-in defines, and the kind of its rows. The search is linear, so a
 * file may define at most KT_MAX_OWN_KINDS. */
#define KT_MAX_OWN_KINDS 256u
typedef struct kt_own_kind_row {
    uint32_t category, kind;
} kt_own_kind_row;

/* One end of a flow as stated by a recording or file. Scopes separate flows of a file that
 * uses an id several times in one type; see separate_flow_scopes in links.c. */
typedef struct kt_flow_end {
    uint64_t id;
    kineto_row row;
    uint32_t type : 16, scope : 15, start : 1;
} kt_flow_end;
#define KT_FLOW_TYPES  0xffffu
#define KT_FLOW_SCOPES 0x7fffu

/* A flow end whose row is found when all rows are known, or for which none was found. */
typedef struct kt_late_flow {
    uint32_t track;
    bool next; /* its row is the next one that begins, not the enclosing one */
    int64_t ts_ns;
    size_t end; /* index into ends */
} kt_late_flow;

/* Category, name and arguments of an end of a flow of the program: string ids, 0: none. */
typedef struct kt_flow_text {
    size_t end; /* index into ends */
    uint32_t category, name, args;
} kt_flow_text;

/* All flow ends of a trace. The lists about some of the ends are sorted by index of the end. */
typedef struct kt_stated_flows {
    const kt_flow_end *ends;
    size_t count;
    const kt_late_flow *nowhere; /* ends without a row, with their time */
    size_t nowhere_count;
    const kt_flow_text *texts;
    size_t text_count;
} kt_stated_flows;

/* Category, name and args of a flow in a trace; the list is sorted by flow. */
typedef struct kt_flow_row_text {
    uint64_t flow;
    kt_flow_about about;
} kt_flow_row_text;

/* A pair of rows, in arrays sorted by `from`. */
typedef struct kt_link {
    kineto_row from, to;
} kt_link;

/* Derived columns. Each stage is built on first use under the mutex and never changes
 * afterwards. */
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
    uint64_t *track_first; /* by track: first position in `order`; one more item than tracks */
    uint32_t *lane;        /* by row; NULL: every row is in lane 0 */
    uint32_t *lane_count;  /* by track */
    int64_t *self_ns;
    kt_link *launch, *launched; /* device row → launch row, launch row → first device row */
    size_t launch_count, launched_count;
} kt_derived;

struct kineto_trace {
    uint32_t references;
    kt_store *store; /* memory for data that grows with the number of rows; NULL: the heap */
    bool has_window;
    uint64_t text_bytes;     /* size of the text of the file */
    char writer_version[24]; /* version of the ckineto that wrote the file; "" if none did */
    bool was_read;           /* from a file: writers add nothing that the file did not contain */
    int64_t file_base_ns;    /* the time that times in the file are relative to; 0: 1970 */
    uint64_t count;
    int64_t window_start_ns, window_end_ns;
    kb_intern strings;
    kb_intern sets; /* sets of args in packed form, as in a block; not texts */
    KB_VEC(kt_block *) blocks;
    KB_VEC(uint32_t) categories; /* string ids */
    KB_VEC(kt_own_kind_row) own_kinds;
    KB_VEC(kt_process_row) processes;
    KB_VEC(kt_track_row) tracks;
    KB_VEC(kt_async_row) async_ids; /* sorted by row */
    KB_VEC(kineto_flow) flows;
    KB_VEC(kt_flow_row_text) flow_texts;
    KB_VEC(kt_ledger_row) ledger;
    KB_VEC(kt_meta_row) metadata; /* sorted by key */
    KB_VEC(kb_clock_snapshot) snapshots;
    bool has_writers;   /* some rows have a KT_WRITER */
    kt_repairs repairs; /* of the text of the file */
    kt_derived derived;
};

/* Cache of a category that was searched recently. */
typedef struct kt_category_hint {
    uint32_t id;
    uint16_t index;
    bool valid;
} kt_category_hint;

/* A trace under construction. The builder owns `trace` until kt_builder_finish sets it to NULL. */
struct kt_builder {
    kineto_trace *trace;
    kt_store *store;
    kineto_status status; /* first failure; sticks */
    kt_block *open;       /* last block of the trace while it has room */
    kt_slab *slab;        /* memory of all blocks but the first, unless there is a store */
    kb_map processes, tracks, categories, metadata;
    uint32_t kind_names[KINETO_KIND_COUNT];
    /* By kind: category index of the kind's own name + 1; 0: not used yet. */
    uint16_t kind_category[KINETO_KIND_COUNT];
    kt_category_hint category_hints[2];
    KB_VEC(uint8_t) staged; /* args of the next row */
    kt_args_form staged_form;
    uint64_t staged_word; /* KT_ARGS_IN_FILE: position in staged_text, which is borrowed */
    struct kt_input *staged_text;
    KB_VEC(kt_flow_end) flow_ends;
    /* Counts for the ledger: changes and losses by the builder itself. */
    uint64_t negative_durations, unknown_kinds, long_args, lost_categories;
};

/** As kt_args_put_set, inline, on empty staged args. */
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

/** The stored form of a row's args; kt_args_form_of hides KT_ARGS_IN_FILE. */
static inline kt_args_form kt_kept_form(const kt_block *block, uint32_t index)
{
    return (kt_args_form)(block->flags[index] >> 8 & 3);
}

/* ---- block.c ---- */
/** An empty block with one reference, from the slab, or if that is NULL, from the store. */
kt_block *kt_block_create(kt_store *store, kt_slab **slab);
/** Grows the args heap to at least `bytes`. slab NULL: for a block that other threads fill
 *  as well. */
bool kt_block_grow_args(kt_block *block, kt_slab **slab, size_t bytes);
/** Releases unused memory of a complete block. Returns the block, which may have moved. */
kt_block *kt_block_shrink(kt_block *block);
void kt_block_release(kt_block *block);
/** The text that contains the args of a row in form KT_ARGS_IN_FILE. */
struct kt_input *kt_block_text(const kt_block *block, uint32_t index);
/** Rows from `index` on have their args in `text`, which is retained. False: out of memory. */
bool kt_block_add_text(kt_block *block, uint32_t index, struct kt_input *text);

/* ---- builder.c ---- */
/** Sets the store for data that grows with the rows; directly after kt_builder_create. */
void kt_builder_store(kt_builder *b, kt_store *store);
/** Index of the track with this identity, which is created on first use. */
uint32_t kt_track_intern(kt_builder *b, const kt_track_row *wanted);
/** kt_category_index without its cache. */
uint16_t kt_category_find(kt_builder *b, uint32_t kind, uint32_t category);
/** Index of a category in the trace's table; category 0 is the kind's own name. */
KB_INLINE uint16_t kt_category_index(kt_builder *b, uint32_t kind, uint32_t category)
{
    uint16_t known = b->kind_category[kind];
    return KINETO_LIKELY(!category && known) ? (uint16_t)(known - 1)
                                             : kt_category_find(b, kind, category);
}
/** Appends verbatim args to the heap of a block that only this function fills. False: too
 *  long, or out of memory. */
bool kt_block_append_json(kt_builder *b, kt_block *block, kineto_string json_object,
                          uint64_t *word);
/** Stages args of the next row that lie in a text: `word` is as in kt_block.args (args.c). */
void kt_args_in_text(kt_builder *b, struct kt_input *text, uint64_t word);
/** Reserves rows at the end of the trace, whose columns the caller fills. KINETO_E_LIMIT,
 *  KINETO_E_MEMORY. */
kineto_status kt_rows_reserve(kt_builder *b, size_t count, kineto_row *first);

/* ---- rework.c: changes to rows and tracks that exist ---- */
/** Sets the end of a row; open_end: the range did not end, and this is the last known time. */
void kt_row_close(kt_builder *b, kineto_row row, int64_t end_ns, bool open_end);
/** Changes the kind of a row; its category becomes the name of the kind. */
void kt_row_set_kind(kt_builder *b, kineto_row row, uint32_t kind);
/** Adds a set of args to a row, before the row's own args and after those of the set that
 *  it has. */
void kt_row_add_set(kt_builder *b, kineto_row row, uint32_t set);
/** Replaces the table of tracks by `wanted`, indexed by old track. Equal ones become one
 *  track. new_index (by old track) may be NULL. */
void kt_replace_tracks(kt_builder *b, const kt_track_row *wanted, uint32_t *new_index);

/* ---- devices.c: devices and their work in files of any writer ---- */
/** Marks the process rows that are devices, with their numbers: by label, name, or kinds of
 *  their rows. */
void kt_find_device_rows(kt_builder *b, kt_process_row *final);
/** The type of a track: a thread of a device process is a stream. */
uint32_t kt_track_type_of(const kineto_trace *t, uint32_t track, const kt_process_row *process);
/** Gives rows on device tracks without a category of Kineto the kind of device work. */
void kt_set_device_work(kt_builder *b);
/** True for the process name of a device by any writer. *number: -1 if it has none. */
bool kt_is_device_name(kineto_string name, int64_t *number);

/* ---- order.c: the total order ---- */
/* Sort key of a row: (start, longer first, rank). */
typedef struct kt_sort_item {
    int64_t start_ns, end_ns;
    uint64_t rank; /* see kt_sort_rank */
    kineto_row row;
} kt_sort_item;
static inline uint32_t kt_writer(const kineto_trace *t, kineto_row row)
{
    return KT_WRITER_OF(kt_block_of(t, row)->flags[row % KT_BLOCK_ROWS]);
}
/** The tie-break between rows with equal times: the row number. Rows of writers come first,
 *  and of one writer the row that was recorded last, because it encloses the others. Rows
 *  without a duration enclose nothing: their rank is the row number. */
static inline uint64_t kt_sort_rank(const kineto_trace *t, kineto_row row)
{
    if (!t->has_writers)
        return row;
    uint64_t writer = kt_writer(t, row);
    return writer && kt_start(t, row) < kt_end(t, row) ? writer << 32 | (UINT32_MAX - row)
                                                       : UINT64_C(4) << 32 | row;
}
static inline kt_sort_item kt_sort_key(const kineto_trace *t, kineto_row row)
{
    return (kt_sort_item){kt_start(t, row), kt_end(t, row), kt_sort_rank(t, row), row};
}
/** True if row a precedes row b in the total order. */
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
/** Joins the stated ends into t->flows. A start whose row is not known takes its finishes
 *  as well: they are not joined with an older start of the same id. */
bool kt_join_flows(kineto_trace *t, const kt_stated_flows *stated);
/** Sets category, name and args of the flow that was added last. */
bool kt_flow_add_about(kineto_trace *t, const kt_flow_about *about);

/** A launch or a device activity and its correlation id. */
typedef struct kt_correlated {
    uint64_t id;
    int64_t start_ns;
    kineto_row row;
} kt_correlated;
/** Sorts by id, start and row. */
void kt_sort_correlated(kt_correlated *items, size_t count);
/** Of the launches with this id the last that starts at or before start_ns, else the first;
 *  NULL: none. */
const kt_correlated *kt_find_launch(const kt_correlated *launches, size_t count, uint64_t id,
                                    int64_t start_ns);

/* ---- radix.c ---- */
/** A row or number with its sort key. */
typedef struct kt_keyed {
    uint64_t key;
    uint32_t value;
} kt_keyed;
/** Stable sort by key. False: out of memory. */
bool kt_sort_keyed(kt_store *store, kt_keyed *items, size_t count);

/* ---- derived.c ---- */
/** Builds the stage unless it exists. False: out of memory. Any thread. */
bool kt_need(const kineto_trace *t, kt_stage stage);
void kt_derived_free(kt_store *store, kt_derived *d);
#endif
