/* The state of reading one Chrome trace, and the functions that the files of this folder
 * share.
 *
 * Order: open.c walks the document; load.c reads each list of events, batch by batch
 * (batch.c, event.c, scan.c), and commits batches in order (commit.c, join_ends.c); at the
 * end finish.c applies the header (read_header.c, devices.c, ranks.c) and builds the trace.
 * A kt_reader is changed only by the thread that commits, under the mutex of load.c, or
 * when no other thread runs. */
#ifndef KT_READ_H
#define KT_READ_H

#include "trace/model/model.h"
#include "trace/read/batch.h"

/* A begin that waits for its end. Begins with the same key form a stack, linked by `below`.
 * States: open (not closed), closed (end_ns is its end). A closed begin is never opened
 * again. */
typedef struct kt_pending {
    kineto_row row;
    bool closed;
    bool open_end;  /* its args state that it had not ended, or its end is doubtful */
    bool doubtful;  /* an end without a name may be another's: an end near it matched none */
    bool bounded;   /* an enclosing range ended first, at end_ns: without an end it ends there */
    bool has_key;   /* `key` is valid: an asynchronous range whose id is valid in all processes */
    uint32_t name, category; /* string ids; 0: none */
    char *args;              /* owned copy while it is open; NULL: none */
    size_t args_bytes;
    uint64_t below; /* index + 1 of the next open begin of the stack; 0: none */
    union {
        int64_t end_ns; /* if closed or bounded */
        uint64_t key;   /* else, if has_key: matches ends in other processes */
    };
} kt_pending;

/* Args and columns of an end event. */
typedef struct kt_end_args {
    kineto_string text; /* the object; empty: none */
    uint64_t correlation_id, external_id;
    uint32_t flags;
} kt_end_args;

/* An end that matched no begin of its process; `before`: number of begins that precede it
 * in the file. */
typedef struct kt_loose_end {
    uint64_t key;
    int64_t end_ns;
    size_t before;
    kt_end_args args;
} kt_loose_end;

/* The args of a row that include those of its end; in the file, or in memory of the reader. */
typedef struct kt_joined_args {
    kineto_row row;
    kt_end_args args;
    uint64_t word; /* not 0: position of args.text in the file, as in kt_block.args */
} kt_joined_args;

typedef struct kt_reader {
    kt_store *store; /* NULL: no memory limit */
    kt_builder *b;
    kineto_error *err;
    kt_input *input;
    bool strict;
    uint64_t ts_unit_ns;  /* of kineto_open_options */
    bool refused_at_once; /* refused by its first bytes: the rest was not read */
    kb_arena repaired;    /* copies: members of the header, joined args, names of members */
    kb_map properties;    /* index in deviceProperties → device, where its id is ambiguous */
    uint32_t threads;
    uint64_t seed;
    uint64_t lists;       /* number of lists of events so far */
    int64_t base_ns;      /* base time of the header */
    int64_t used_base_ns; /* base time that rows were made with, before the header was complete */

    /* The last row of the previous batch. */
    kineto_row last_row;
    uint32_t last_track;
    int64_t last_start_ns; /* without the base time */

    kb_map open; /* match key of ends → index + 1 of the innermost open begin, 0: none */
    KB_VEC(kt_pending) pending;
    KB_VEC(kt_loose_end) loose_ends;
    KB_VEC(kt_flow_end) ends;
    KB_VEC(kt_late_flow) late;
    KB_VEC(kt_flow_text) flow_texts;
    KB_VEC(kt_joined_args) joined_args;
    KB_VEC(kt_unread) unread;
    kb_map header_keys;               /* hash of a key of the header → hash of its first value */
    kineto_string base_text;          /* base time of the first document, as spelled */
    KB_VEC(kineto_row) host_counters; /* counters with a category of the host, sorted */
    uint16_t kind_category[KINETO_KIND_COUNT];
    uint64_t kind_category_known;

    bool has_window_end, has_window;
    int64_t window_start_ns, window_end_ns;
    /* Counts for the ledger. */
    uint64_t other_phases, other_metadata, unmatched_ends, unclosed, lost_ends, lone_surrogates;
    uint64_t end_args_twice, doubtful_ends, empty_objects, repeated_header, nameless_devices;
    uint64_t wrong_events; /* "traceEvents" that are not a list */
    uint64_t events, second_events, repeated_members, negative_durations, long_args;
} kt_reader;

/** Fails with a problem at a position of the text. */
kineto_status kt_read_fail(kt_reader *r, const char *at, const char *problem);
kineto_status kt_read_no_memory(kt_reader *r);
/** Parses the next item of an object or array again, from the end of the previous one, with
 *  the strict parser, for a more precise error. KINETO_OK: it is valid JSON. */
kineto_status kt_read_explain(kt_reader *r, size_t offset, bool first, char bracket);
/** Interns the text between quotes, with escapes resolved. */
uint32_t kt_read_text(kt_reader *r, kineto_string inside);
/** Interns a raw JSON string. */
uint32_t kt_read_string(kt_reader *r, kineto_string raw);

/* ---- load.c ---- */
/** Reads all elements of the array that begins at `offset` (after its bracket), with
 *  r->threads threads. *stop receives the end of the array. */
kineto_status kt_read_events(kt_reader *r, size_t offset, size_t *stop);

/* ---- commit.c: the ordered part of reading a batch ---- */
/** Commits a batch: maps its texts and places to the trace, reserves its rows, and joins
 *  flows and ends. In the order of the file, by one thread at a time. */
kineto_status kt_batch_commit(kt_reader *r, kt_batch *p);
/** Process and track of a place, created in the trace on first use. *named: the pid is a text. */
uint32_t kt_read_process(kt_reader *r, kt_place *place, bool *named);
uint32_t kt_read_track(kt_reader *r, kt_place *place);
/** String id of a text of the batch. */
uint32_t kt_read_name_id(kt_reader *r, kt_batch *p, uint32_t number);

/* ---- join_ends.c: begins and ends of ranges ---- */
/** Commits a begin or an end. */
kineto_status kt_read_begin(kt_reader *r, kt_batch *p, const kt_side *side);
kineto_status kt_read_end(kt_reader *r, kt_batch *p, const kt_side *side);
/** Joins asynchronous begins that are still open with ends in other processes. */
kineto_status kt_read_join_processes(kt_reader *r);
/** Writes the args of ends into the rows of their begins, when all batches are settled. */
void kt_read_write_end_args(kt_reader *r);

/* ---- finish.c ---- */
/** Turns what was read into a trace; `devices` and `own` are members of the header. */
kineto_status kt_read_finish(kt_reader *r, kineto_string devices, kineto_string own,
                             kineto_trace **out);

/* ---- read_header.c ---- */
/** Takes one member of the header, except "traceEvents". */
kineto_status kt_read_header(kt_reader *r, kineto_string raw_key, kineto_string value);
/** Parses a base time, also in quotes; false: it is not a valid one. */
bool kt_read_base(kineto_string value, int64_t *base_ns);
/** Records in the ledger that a stated window was ignored. */
void kt_read_ignore_window(kt_reader *r);
/** Takes the categories and kinds of plug-ins from the header. */
void kt_read_own_kinds(kt_reader *r, kineto_string own);
/** Applies the header's lists of processes, tracks and devices, ledger, clock and window. */
void kt_read_apply(kt_reader *r, kineto_string devices, kineto_string own);

/* ---- ranks.c: several ranks in one file ---- */
/** Sets ranks from the texts of pids, and makes the ids of the ranks unique. */
void kt_read_ranks(kt_reader *r);

#endif
