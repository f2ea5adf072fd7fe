/* A batch of a trace file: KT_BATCH_BYTES of text, parsed by one thread.
 *
 * Life of a batch: kt_batch_read parses it (in parallel with others), kt_batch_commit commits
 * it in the order of the file (under the lock of load.c), kt_batch_write_rows copies its rows
 * into blocks (in parallel again). Each thread reuses one kt_batch; its numbers of texts
 * and places stay valid from batch to batch, so that each is mapped to the trace once. */
#ifndef KT_BATCH_H
#define KT_BATCH_H

#include "trace/model/model.h"
#include "trace/repair/repair.h"
#include "trace/read/scan.h"

#ifndef KT_BATCH_BYTES /* fuzzing sets smaller ones, so that short texts have several */
#define KT_BATCH_BYTES ((size_t)1 << 20)
#endif
#define KT_UNKNOWN UINT32_MAX

/* Bits of the members that an event has; the bit numbers are those of enum member in event.c. */
enum {
    KT_HAS_PH = 1,
    KT_HAS_NAME = 2,
    KT_HAS_CAT = 4,
    KT_HAS_PID = 8,
    KT_HAS_TID = 16,
    KT_HAS_TS = 32,
    KT_HAS_DUR = 64,
    KT_HAS_ARGS = 128,
    KT_HAS_ID = 256,
    KT_HAS_ID2 = 512,
    KT_HAS_S = 1024,
    KT_HAS_SCOPE = 2048,
    KT_HAS_BP = 4096,
    KT_HAS_BIND_ID = 8192,
    KT_HAS_FLOW_IN = 16384, /* present and true */
    KT_HAS_FLOW_OUT = 32768,
    KT_HAS_ODD_DUR = 65536 /* "dur" is "nan" or similar: no duration */
};

/* One event as in the text. A member is valid if its bit is in `has`; spans point into the text. */
typedef struct kt_event {
    const char *at;
    uint32_t has;
    char ph;
    kineto_string name, cat;                        /* inside the quotes, escapes untouched */
    kineto_string pid, tid, id;                     /* raw: with quotes if texts */
    kineto_string id2, s, scope, bp, bind_id, args; /* raw */
    int64_t ts_ns, dur_ns;
    /* from args: */
    uint64_t correlation_id, external_id;
    uint32_t flags;   /* KINETO_ACTIVITY_… */
    bool other_args;  /* it has args that do not become columns */
    uint32_t repeats; /* number of repeated members */
} kt_event;

/* A row before it is copied into its block. */
typedef struct kt_staged {
    int64_t start_ns, end_ns;
    uint64_t correlation_id, external_id;
    uint64_t args;        /* as in a block */
    uint32_t name, place; /* the thread's own numbers */
    uint32_t category;
    uint8_t kind, form, flags, args_form;
} kt_staged;

/* A flow end, see flow_end in batch.c. */
typedef struct kt_staged_flow {
    uint64_t id;
    int64_t ts_ns;
    uint32_t type, place;
    uint32_t row; /* row of the batch that it directly follows; else KT_UNKNOWN */
    uint32_t row_place;
    bool first;   /* no row precedes it in this batch */
    char ph;
    bool next;      /* it binds to the next row that begins, not to the enclosing one */
    uint16_t scope; /* of its id, among those of its type */
} kt_staged_flow;

/* An event that is committed in the order of the file: a begin, an end, metadata. */
typedef struct kt_side {
    kt_event event;
    uint32_t row;   /* of a begin: its row in the batch */
    uint32_t place; /* of the event's pid and tid, with the type of track of its phase */
} kt_side;

/* Category, name and args of a program's own flow. */
typedef struct kt_staged_text {
    uint32_t flow; /* of the batch */
    kineto_string category, name, args;
} kt_staged_text;

/* Number of occurrences of a member that is not read. */
typedef struct kt_unread {
    kineto_string name;
    char phase; /* 0: the member is unknown in every phase */
    uint64_t count;
} kt_unread;
#define KT_UNREAD_NAMES 64u /* others are counted together, without a name */

typedef KB_VEC(uint32_t) kt_numbers;
/* Flag in the number of a place: only its process is used. */
#define KT_PROCESS_ONLY 0x80000000u

/* A hash table from texts to numbers from 0 on. */
typedef struct kt_texts {
    struct kt_text_slot *slots;
    size_t size; /* a power of two */
    KB_VEC(kineto_string) list;
    kb_arena arena;
    uint64_t seed;
} kt_texts;

/* A text of the thread in the trace: as a name and as a category. */
typedef struct kt_text_use {
    uint32_t id;               /* string id; KT_UNKNOWN: not committed yet */
    uint32_t category;         /* category index; KT_UNKNOWN: not committed yet */
    int16_t kind;              /* kind of this category; -1: none, -2: not parsed yet */
    bool is_name, is_category; /* used so, and in the lists of new ones until committed */
} kt_text_use;

/* A track by the pid and tid of its events. */
typedef struct kt_place {
    kineto_string pid, tid;  /* raw, copied; tid.size 0: counters and metadata of processes */
    uint32_t type;           /* kineto_track_type */
    uint32_t process, track; /* in the trace; KT_UNKNOWN */
    bool wanted;             /* the track is used */
    bool process_wanted;     /* only its process is used */
    uint32_t rows;           /* of this batch */
} kt_place;

/* Args of a repaired event, which are not in the file. */
typedef struct kt_loose_args {
    uint32_t row;
    kineto_string json;
} kt_loose_args;

typedef struct kt_batch {
    kt_cursor *cursor; /* the current one: &text, or &repaired */
    kt_cursor text, repaired;
    bool strict;
    uint64_t ts_unit_ns; /* of kineto_open_options */

    kt_texts texts;
    KB_VEC(kt_text_use) uses;
    KB_VEC(kt_place) places;
    uint32_t *place_slots; /* number + 1 */
    size_t place_slots_size;
    uint32_t last_place;

    /* Reset for each batch: */
    size_t start, stop; /* offsets; start SIZE_MAX: no beginning was found */
    bool comma_due;     /* a comma must follow at `stop` */
    bool at_end;        /* `stop` is the end of the array */
    bool failed;        /* the problem is in the cursor */
    bool out_of_memory;
    kt_repairs repairs;
    kb_arena repaired_text;
    KB_VEC(char) joined; /* the name of a counter with an id */
    KB_VEC(kt_loose_args) loose_args;
    KB_VEC(kt_staged) rows;
    KB_VEC(kt_staged_flow) flows;
    KB_VEC(kt_staged_text) flow_texts;
    KB_VEC(kt_side) sides;
    kt_numbers host_counters;                         /* rows with a category of the host */
    kt_numbers used_places;                           /* places that have rows */
    kt_numbers new_names, new_categories, new_places; /* used for the first time */
    uint64_t kinds, kinds_without_category;
    KB_VEC(kt_block *) blocks; /* the blocks that hold its rows, set by the commit */
    kineto_row first_row;
    uint32_t last_row, last_row_place;
    int64_t last_start_ns;
    int64_t min_start_ns, max_end_ns;
    /* for the ledger */
    uint64_t other_phases, long_args, negative_durations, repeated_members, events;
    uint64_t empty_objects;
    KB_VEC(kt_unread) unread;
    KB_VEC(int64_t) window_ends;
} kt_batch;

/** Saturating sum. */
static inline int64_t kt_shifted(int64_t ns, int64_t base_ns)
{
    int64_t sum;
    if (KINETO_LIKELY(!__builtin_add_overflow(ns, base_ns, &sum)))
        return sum;
    return ns < 0 ? INT64_MIN : INT64_MAX;
}

/* ---- event.c ---- */
/** Parses the event at `p`, the '{' that the cursor returned last. Returns its end; NULL: a
 *  problem in the cursor. */
const char *kt_event_scan(kt_cursor *c, const char *p, kt_event *e);
/** Parses a number, also in quotes, as in "25738" or, in traces of PyTorch 1.8, "stream 7". */
bool kt_event_number(kineto_string raw, int64_t *number);
/** The id of an event: a number in any spelling, or the hash of a text; combined with
 *  "scope", if any. */
uint64_t kt_event_id(const kt_event *e);
/** The same for "bind_id". */
uint64_t kt_event_bind_id(const kt_event *e);
/** True if the id is unique only in its process ("id2": {"local": …}). */
bool kt_event_id_is_local(const kt_event *e);

/* ---- batch.c ---- */
kt_batch *kt_batch_create(uint64_t seed, bool strict, uint64_t ts_unit_ns);
void kt_batch_free(kt_batch *p);
/** Copies the rows into their blocks. After the commit, without a lock. */
void kt_batch_write_rows(kt_batch *p, int64_t base_ns, const uint16_t *kind_category);
/** Parses the elements from `start` (the end of the previous one) up to the first that ends
 *  at or after `limit`. `first`: there is no previous one. */
void kt_batch_read(kt_batch *p, kt_input *input, size_t start, size_t limit, bool first);

/* ---- texts.c ---- */
/** Number of a text of the thread, which is copied on first use; KT_UNKNOWN: out of memory. */
uint32_t kt_text_number(kt_batch *p, kineto_string raw);
/** The text, with or without quotes, without escapes; unchanged if it needs escapes. */
kineto_string kt_batch_plain_text(kt_batch *p, kineto_string raw);
/** Number of a place; KT_UNKNOWN: out of memory. */
uint32_t kt_place_number(kt_batch *p, kineto_string pid, kineto_string tid, uint32_t type);
bool kt_texts_init(kt_batch *p, uint64_t seed);
void kt_texts_free(kt_batch *p);
#endif
