/* Reading Chrome traces: what the parts of the reader share. */
#ifndef KT_READ_H
#define KT_READ_H

#include "trace/model/model.h"
#include "trace/read/batch.h"

/* A begin that waits for its end; stacks of them, linked by `below`. */
typedef struct kt_pending {
    kineto_row row;
    bool closed;
    bool open_end;  /* its args say that it had not ended, or its end is in doubt */
    bool doubtful;  /* an end without a name may be another's: one on its thread fitted no begin */
    bool bounded;   /* a range around it ended first, at end_ns: without an end it ends there */
    bool has_key;   /* of asynchronous ranges whose id counts in all processes: */
    uint32_t name, category; /* string ids; 0: none */
    char *args;              /* a copy, while it is open; NULL: none */
    size_t args_bytes;
    uint64_t below; /* index + 1 */
    union {
        int64_t end_ns; /* if closed or bounded */
        uint64_t key;   /* else, if it has one: what an end in another process is matched by */
    };
} kt_pending;

/* What an end says besides its time. */
typedef struct kt_end_args {
    kineto_string text; /* the object; empty: none */
    uint64_t correlation_id, external_id;
    uint32_t flags;
} kt_end_args;

/* An end that no begin of its process matched, with how many begins came before it. */
typedef struct kt_loose_end {
    uint64_t key;
    int64_t end_ns;
    size_t before;
    kt_end_args args;
} kt_loose_end;

/* The arguments of a row that has some of its end's; in the file, or in memory of the reader. */
typedef struct kt_joined_args {
    kineto_row row;
    kt_end_args args;
    uint64_t word; /* not 0: args.text stands in the file */
} kt_joined_args;

typedef struct kt_reader {
    kt_store *store; /* NULL: no limit of memory */
    kt_builder *b;
    kineto_error *err;
    kt_input *input;
    bool strict;
    uint64_t ts_unit_ns; /* as kineto_open_options has it */
    bool refused_at_once; /* by its first bytes: the rest was not read */
    kb_arena repaired; /* members of the header, joined arguments, names of members */
    kb_map properties; /* place in deviceProperties → device, where its id is not enough */
    uint32_t threads;
    uint64_t seed;
    uint64_t lists; /* of events, so far */
    int64_t base_ns;      /* as the header says */
    int64_t used_base_ns; /* that rows were made with */

    /* the last row of the batch before */
    kineto_row last_row;
    uint32_t last_track;
    int64_t last_start_ns; /* without the base */

    kb_map open; /* hash of what an end is matched by → index + 1 of its innermost begin */
    KB_VEC(kt_pending) pending;
    KB_VEC(kt_loose_end) loose_ends;
    KB_VEC(kt_flow_end) ends;
    KB_VEC(kt_late_flow) late;
    KB_VEC(kt_flow_text) flow_texts;
    KB_VEC(kt_joined_args) joined_args;
    KB_VEC(kt_unread) unread;
    kb_map header_keys;     /* hashes of keys of the header → of the first value */
    kineto_string base_text; /* of the first document: what it states as its base */
    KB_VEC(kineto_row) host_counters; /* that say they are; others are what their process is */
    uint16_t kind_category[KINETO_KIND_COUNT];
    uint64_t kind_category_known;

    bool has_window_end, has_window;
    int64_t window_start_ns, window_end_ns;
    /* for the ledger */
    uint64_t other_phases, other_metadata, unmatched_ends, unclosed, lost_ends, lone_surrogates;
    uint64_t end_args_twice, doubtful_ends, empty_objects, repeated_header, nameless_devices;
    uint64_t wrong_events; /* "traceEvents" that hold no list */
    uint64_t events, second_events, repeated_members, negative_durations, long_args;
} kt_reader;

/** Fail at a place of the text. */
kineto_status kt_read_fail(kt_reader *r, const char *at, const char *problem);
kineto_status kt_read_no_memory(kt_reader *r);
/** Say more exactly what is wrong with the next item of an object or array, from behind the one
 *  before; KINETO_OK if nothing is, as far as JSON goes. */
kineto_status kt_read_explain(kt_reader *r, size_t offset, bool first, char bracket);
/** Text between quotes → interned id of the bytes that it stands for. */
uint32_t kt_read_text(kt_reader *r, kineto_string inside);
/** Raw JSON string → interned id of its bytes. */
uint32_t kt_read_string(kt_reader *r, kineto_string raw);

/* ---- load.c ---- */
/** All elements of the array that begins behind `offset`, by r->threads threads; *stop: behind it.
 */
kineto_status kt_read_events(kt_reader *r, size_t offset, size_t *stop);

/* ---- turn.c: what batches do one after the other ---- */
/** Give all that a batch refers to its number in the trace, its rows their places; join what
 *  belongs together over batches. */
kineto_status kt_read_turn(kt_reader *r, kt_batch *p);
/** Give asynchronous begins that are still open the ends that other processes have. */
kineto_status kt_read_join_processes(kt_reader *r);
/** Give rows the arguments of their ends, once all batches have their places. */
void kt_read_give_end_args(kt_reader *r);

/* ---- read_header.c ---- */
/** One key of the header that is not traceEvents. */
kineto_status kt_read_header(kt_reader *r, kineto_string raw_key, kineto_string value);
/** Base time of a header, also in quotes; false for what cannot be one. */
bool kt_read_base(kineto_string value, int64_t *base_ns);
/** Say in the ledger that a stated window is not believed. */
void kt_read_distrust_window(kt_reader *r);
/** Own kinds, which the events refer to. */
void kt_read_own_kinds(kt_reader *r, kineto_string own);
/** Devices, tracks and processes as the header describes them. */
void kt_read_apply(kt_reader *r, kineto_string devices, kineto_string own);

/* ---- devices.c: devices and their work in files of any writer ---- */
/** Mark the process rows that are devices, with their numbers: by label, name, or what ran there. */
void kt_read_find_devices(kt_reader *r, kt_process_row *final);
/** The type of a track of this process: threads and streams are what their process is. */
uint32_t kt_read_track_type(const kineto_trace *t, uint32_t track, const kt_process_row *process);
/** Give ranges in rows of devices that have no category of Kineto's the kind of device work. */
void kt_read_device_work(kt_reader *r);

/* ---- ranks.c: several ranks in one file ---- */
/** Give processes the ranks that the texts of their pids state, and tell the ids of ranks apart. */
void kt_read_ranks(kt_reader *r);

#endif
