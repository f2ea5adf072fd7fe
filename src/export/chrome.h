/* The writer of Kineto's Chrome JSON: its state, and what its parts provide to each other.
 *
 * How rows become pids and tids: Perfetto keeps 32 bits of each, so they are made unique in their
 * lower 32 bits; a sum that is too large wraps around.
 *   host process   its pid; a second one with that pid (reuse, exec) pid + n * 10^9
 *   device         its id, as Kineto does; + n * 10^9 while a process or device has that number
 *   text           the text itself
 *   lane 0         the track's id, in 32 bits if it is negative; + n * 10^8 while another track of
 *                  the process has that number
 *   lane k         the same, starting from id + k * 10^8, named "... (lane k+1)"
 * Identities that cannot be derived from that are written under the key "ckineto", so that reading
 * restores the same trace. */
#ifndef KE_CHROME_H
#define KE_CHROME_H

#include "export/export.h"
#include "trace/trace.h"

#define KE_ROOM         8192u /* reserved in the sink for one event, besides its places */
#define KE_LONGEST_TEXT 1024u /* maximum bytes of a pid or tid that is a text, as written */
#define KE_FAST_ARGS    640u  /* bytes of packed args that fit into KE_ROOM in any spelling */
#define KE_NAME_SLOTS   1024u /* powers of two */
#define KE_KEY_SLOTS    512u
#define KE_PIECE        64u /* short texts are copied as one piece of this size */

/* `,"pid":1,"tid":2,"ts":` of one (track, lane). */
typedef struct ke_place {
    const char *text; /* at least KE_PIECE bytes may be read */
    size_t size;
} ke_place;

/* A track in the file. */
typedef struct ke_track {
    kineto_track view;
    ke_place *places;               /* by lane */
    int64_t *tids;                  /* by lane */
    /* The category that a reader assumes for counters there. */
    kineto_string counter_category;
} ke_track;

/* Escaped beginning of an event, up to and including the name. */
typedef struct ke_name_slot {
    uint64_t key; /* 0: free */
    uint32_t size, replaced;
    char text[240];
} ke_name_slot;

/* Escaped key of an argument: `,"key":`. */
typedef struct ke_key_slot {
    uint64_t stamp; /* event that used it last */
    uint32_t key;   /* string id + 1; 0: free */
    uint16_t size;
    uint16_t columns; /* the KE_COLUMN_… that this key would repeat */
    char text[64];
} ke_key_slot;

/* Members of args that come from columns and flags of a row. */
enum {
    KE_COLUMN_EXTERNAL = 1,
    KE_COLUMN_CORRELATION = 2,
    KE_COLUMN_FINISHED = 4,
    KE_COLUMN_STARTED = 8,
    KE_COLUMN_LOST = 16,
    KE_COLUMN_PLACE = 32 /* device and stream, unless among the args */
};

/* A member of args on the general path; key is [key_at, key_at + key_size) of `keys_text`. */
typedef struct ke_member {
    size_t key_at, key_size;
    kt_arg arg; /* lists and JSON: text is JSON */
} ke_member;

/* An end of a flow at a row. An arrow that continues from a row starts after the one that ended
 * there. */
typedef enum ke_flow_place { KE_FLOW_LOOP, KE_FLOW_FINISH, KE_FLOW_START } ke_flow_place;
typedef struct ke_flow_end {
    kineto_row row;
    uint64_t id;
    uint32_t type;
    ke_flow_place place; /* LOOP: the start of an arrow to its own row */
    uint64_t flow;       /* the first flow with this end, which names it */
} ke_flow_end;

typedef struct ke_chrome {
    const ke_job *job;
    const kineto_trace *trace;
    kb_sink *sink;
    kb_json json;
    kb_arena arena; /* places and pids */
    size_t room;    /* to reserve for an event */
    int64_t base_ns;
    uint64_t replaced, written;
    kineto_row row; /* being written */
    bool out_of_memory;
    /* The trace comes from a file: rows and args are written as they were. */
    bool was_read;

    ke_name_slot *names;
    ke_key_slot *keys;
    uint64_t stamp;

    kb_map header_keys;  /* hashes of the keys that are taken */
    kineto_string *pids; /* JSON text, by process */
    int64_t *pid_numbers;
    ke_track *tracks;
    uint32_t *process_order, *track_order; /* the order in which they are written */
    /* Processes in the order of deviceProperties. */
    uint32_t *device_order;
    uint32_t *device_place; /* by process: its position there */
    uint32_t device_count;

    KB_VEC(ke_member) members;
    KB_VEC(char) keys_text;

    ke_flow_end *flows; /* sorted by row */
    size_t flow_count;
    uint64_t *flow_rows; /* a bit per row: it has flows; NULL: no row has */
} ke_chrome;

/* Copies a text. At least KE_PIECE bytes must be readable and writable, whatever its size: a copy
 * of constant size is one or two instructions. */
KB_INLINE char *ke_copy(char *out, const char *text, size_t size)
{
    memcpy(out, text, KE_PIECE);
    if (KINETO_UNLIKELY(size > KE_PIECE))
        memcpy(out + KE_PIECE, text + KE_PIECE, size - KE_PIECE);
    return out + size;
}
#define KE_PUT(out, literal)                                                                       \
    (memcpy((out), (literal), sizeof(literal) - 1), (out) += sizeof(literal) - 1)

/* Makes everything up to `at` part of the file. */
KB_INLINE void ke_commit(ke_chrome *c, const char *at)
{
    kb_sink_advance(c->sink, (size_t)(at - c->sink->at));
}

/* Activities of these tracks are distinguished by their own ids, not by thread ids. */
static inline bool ke_shares_tid(const kineto_track *track)
{
    return track->type == KINETO_TRACK_COUNTER || track->type == KINETO_TRACK_ASYNC;
}

/* ---- chrome_plan.c --------------------------------------------------------------------------- */
/** Plans order, pids, tids and the base time. False: out of memory. */
bool ke_plan(ke_chrome *c);

/* ---- chrome_meta.c --------------------------------------------------------------------------- */
/** True if names are written for it, so that a reader meets it before the events. */
bool ke_process_has_names(const ke_chrome *c, uint32_t index);
bool ke_track_has_names(const ke_chrome *c, uint32_t index);
void ke_write_head(ke_chrome *c);
void ke_write_rows_meta(ke_chrome *c);
void ke_write_tail(ke_chrome *c, const char *trace_name);

/* ---- chrome_args.c --------------------------------------------------------------------------- */
/** `,"args":{…}` of a row, or nothing. Takes and returns the position in the sink's buffer. */
char *ke_put_args(ke_chrome *c, char *out, const kt_block *block, uint32_t index);
/** Escaped string with quotes, straight into the sink, any length. */
void ke_write_string(ke_chrome *c, kineto_string s);
/** JSON text without the white space between its tokens. */
void ke_write_compact(ke_chrome *c, kineto_string json);
/** JSON text unchanged, except for bytes that are not UTF-8. */
void ke_write_valid(ke_chrome *c, kineto_string json);

/* ---- chrome_flows.c -------------------------------------------------------------------------- */
/** Collects and sorts the ends of flows. False: out of memory. */
bool ke_plan_flows(ke_chrome *c);
/** Flow events of a row, after its own event. */
char *ke_put_flows(ke_chrome *c, char *out, kineto_row row, const ke_place *place,
                   int64_t start_ns);
#endif
