/* A batch of a trace file: what one thread reads of it at a time, before its rows get their places
 * in the trace. Texts and rows have numbers of the reading thread's own; they keep them from batch
 * to batch, and what they are in the trace is found out once. */
#ifndef KT_BATCH_H
#define KT_BATCH_H

#include "trace/model/model.h"
#include "trace/repair/repair.h"
#include "trace/read/scan.h"

#ifndef KT_BATCH_BYTES /* fuzzing has smaller ones, so that short texts have several */
#define KT_BATCH_BYTES ((size_t)1 << 20)
#endif
#define KT_UNKNOWN UINT32_MAX

/* Members of an event that are there. */
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
    KT_HAS_FLOW_IN = 16384, /* it is there, and true */
    KT_HAS_FLOW_OUT = 32768,
    KT_HAS_ODD_DUR = 65536 /* a length that is "nan" or the like: none */
};

/* One event, as it stands in the text. Spans are valid where `has` says so. */
typedef struct kt_event {
    const char *at;
    uint32_t has;
    char ph;
    kineto_string name, cat;    /* inside the quotes, escapes untouched */
    kineto_string pid, tid, id; /* raw: with quotes if texts */
    kineto_string id2, s, scope, bp, bind_id, args; /* raw */
    int64_t ts_ns, dur_ns;
    /* from args: */
    uint64_t correlation_id, external_id;
    uint32_t flags;   /* KINETO_ACTIVITY_… */
    bool other_args;  /* some that are no column */
    uint32_t repeats; /* members that were there before */
} kt_event;

/* A row that waits for its place. */
typedef struct kt_staged {
    int64_t start_ns, end_ns;
    uint64_t correlation_id, external_id;
    uint64_t args;        /* as in a block */
    uint32_t name, place; /* the thread's own numbers */
    uint32_t category;
    uint8_t kind, form, flags, args_form;
} kt_staged;

typedef struct kt_staged_flow {
    uint64_t id;
    int64_t ts_ns;
    uint32_t type, place;
    uint32_t row; /* of the batch, if it stands right behind that; else KT_UNKNOWN */
    uint32_t row_place;
    bool first;   /* no row stands before it in this batch */
    char ph;
    bool next;      /* it ends where the next row begins, not in the one around it */
    uint16_t scope; /* of its id, among those of its type */
} kt_staged_flow;

/* What has to be done in the order of the file: begins and ends, metadata. */
typedef struct kt_side {
    kt_event event;
    uint32_t row;   /* of a begin, in the batch */
    uint32_t place; /* as the event's pid and tid say, in their own type of track */
} kt_side;

/* What a flow of the program's own is called, and has for arguments. */
typedef struct kt_staged_text {
    uint32_t flow; /* of the batch */
    kineto_string category, name, args;
} kt_staged_text;

/* Members of events that are not read: how often. */
typedef struct kt_unread {
    kineto_string name;
    char phase; /* 0: no reader knows it, in no phase */
    uint64_t count;
} kt_unread;
#define KT_UNREAD_NAMES 64u /* others are counted together, without a name */

typedef KB_VEC(uint32_t) kt_numbers;
/* With the number of a place: only its process is wanted. */
#define KT_PROCESS_ONLY 0x80000000u

/* Texts → numbers from 0. */
typedef struct kt_texts {
    struct kt_text_slot *slots;
    size_t size; /* a power of two */
    KB_VEC(kineto_string) list;
    kb_arena arena;
    uint64_t seed;
} kt_texts;

/* What a thread knows of a text: its number in the trace, as a name and as a category. */
typedef struct kt_text_use {
    uint32_t id;               /* string id; KT_UNKNOWN: not asked yet */
    uint32_t category;         /* index; KT_UNKNOWN */
    int16_t kind;              /* of that spelling; -1 none, -2 not asked yet */
    bool is_name, is_category; /* wanted in the trace */
} kt_text_use;

/* A track as events name it. */
typedef struct kt_place {
    kineto_string pid, tid;  /* raw, copied; tid.size 0: counters and metadata of processes */
    uint32_t type;           /* kineto_track_type */
    uint32_t process, track; /* in the trace; KT_UNKNOWN */
    bool wanted;             /* there */
    bool process_wanted;
    uint32_t rows; /* of this batch */
} kt_place;

/* Args of a repaired event: they stand in no file. */
typedef struct kt_loose_args {
    uint32_t row;
    kineto_string json;
} kt_loose_args;

typedef struct kt_batch {
    kt_cursor *cursor; /* of the text, or of a repaired event */
    kt_cursor text, repaired;
    bool strict;
    uint64_t ts_unit_ns; /* as kineto_open_options has it */

    kt_texts texts;
    KB_VEC(kt_text_use) uses;
    KB_VEC(kt_place) places;
    uint32_t *place_slots; /* number + 1 */
    size_t place_slots_size;
    uint32_t last_place;

    /* of this batch */
    size_t start, stop; /* offsets; start SIZE_MAX: could not be guessed */
    bool comma_due;     /* at stop */
    bool at_end;        /* it saw the end of the array */
    bool failed;        /* cursor.problem says why */
    bool out_of_memory;
    kt_repairs repairs;
    kb_arena repaired_text;
    KB_VEC(char) joined; /* a name of two texts */
    KB_VEC(kt_loose_args) loose_args;
    KB_VEC(kt_staged) rows;
    KB_VEC(kt_staged_flow) flows;
    KB_VEC(kt_staged_text) flow_texts;
    KB_VEC(kt_side) sides;
    kt_numbers host_counters;                         /* rows that say so */
    kt_numbers used_places;                           /* that have rows */
    kt_numbers new_names, new_categories, new_places; /* wanted for the first time */
    uint64_t kinds, kinds_without_category;
    KB_VEC(kt_block *) blocks; /* where its rows belong */
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

/** Sum that ends at what a number holds. */
static inline int64_t kt_shifted(int64_t ns, int64_t base_ns)
{
    int64_t sum;
    if (KINETO_LIKELY(!__builtin_add_overflow(ns, base_ns, &sum)))
        return sum;
    return ns < 0 ? INT64_MIN : INT64_MAX;
}

/* ---- event.c ---- */
/** The event at `p` ('{', stepped onto); where it ends, NULL with a problem in the cursor. */
const char *kt_event_scan(kt_cursor *c, const char *p, kt_event *e);
/** The number that a text is, as in "25738" or, in traces of PyTorch 1.8, "stream 7". */
bool kt_event_number(kineto_string raw, int64_t *number);
/** An id is a number, a text of one, or any text; another one in each scope that is named. */
uint64_t kt_event_id(const kt_event *e);
/** The same of the member that binds arrows to rows. */
uint64_t kt_event_bind_id(const kt_event *e);
/** Does it count in its process only? */
bool kt_event_id_is_local(const kt_event *e);

/* ---- batch.c ---- */
kt_batch *kt_batch_create(uint64_t seed, bool strict, uint64_t ts_unit_ns);
void kt_batch_free(kt_batch *p);
/** Offset behind the first element of the array that ends at or behind `offset`, as it looks;
 *  SIZE_MAX if none is near. */
size_t kt_batch_guess(kt_input *input, size_t offset);
/** Copy the rows into their blocks, when all that they refer to is known. */
void kt_batch_settle(kt_batch *p, int64_t base_ns, const uint16_t *kind_category);
/** Read the elements that follow what ends at `start`, up to the first that ends at or behind
 *  `limit`. `first`: none came before. */
void kt_batch_read(kt_batch *p, kt_input *input, size_t start, size_t limit, bool first);

/* ---- texts.c ---- */
/** Number of a text; KT_UNKNOWN: out of memory. */
uint32_t kt_text_number(kt_batch *p, kineto_string raw);
/** The same text, with or without quotes, spelled without escapes; itself where it needs some. */
kineto_string kt_plain(kt_batch *p, kineto_string raw);
uint32_t kt_place_number(kt_batch *p, kineto_string pid, kineto_string tid, uint32_t type);
bool kt_texts_init(kt_batch *p, uint64_t seed);
void kt_texts_free(kt_batch *p);
#endif
