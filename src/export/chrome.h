/* Inside of the Chrome JSON writer.
 *
 * How rows become pids and tids. Perfetto keeps 32 bits of each, so that is what all of them differ
 * in; a sum that is too large wraps round.
 *   host process   its pid; a second one with that pid (reuse, exec) pid + n * 10^9
 *   device         its id, as Kineto does; + n * 10^9 while a process or device has that number
 *   text           the text itself
 *   lane 0         the track's id, in 32 bits if it is negative; + n * 10^8 while another track of
 *                  the process has that number
 *   lane k         the same, starting from id + k * 10^8, named "... (lane k+1)"
 * What cannot be seen from that is stated under the key "ckineto", so that reading gives back the
 * same trace. */
#ifndef KE_CHROME_H
#define KE_CHROME_H

#include "export/export.h"
#include "trace/trace.h"

#define KE_ROOM         8192u /* reserved in the sink for one event, besides its places */
#define KE_LONGEST_TEXT 1024u /* bytes of a pid or tid that is a text, as written; more are cut */
#define KE_FAST_ARGS    640u  /* bytes of packed args that surely fit into it */
#define KE_NAME_SLOTS   1024u /* powers of two */
#define KE_KEY_SLOTS    512u
#define KE_PIECE        64u /* short texts are copied as one piece of this size */

/* `,"pid":1,"tid":2,"ts":` of one (track, lane). */
typedef struct ke_place {
    const char *text; /* at least KE_PIECE bytes may be read */
    size_t size;
} ke_place;

/* What a track looks like in the file. */
typedef struct ke_track {
    kineto_track view;
    ke_place *places;               /* by lane */
    int64_t *tids;                  /* by lane */
    kineto_string counter_category; /* what a reader takes counters there for */
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
    uint16_t columns; /* KE_COLUMN_… that it would repeat */
    char text[64];
} ke_key_slot;

/* Members of args that come from columns and flags. */
enum {
    KE_COLUMN_EXTERNAL = 1,
    KE_COLUMN_CORRELATION = 2,
    KE_COLUMN_FINISHED = 4,
    KE_COLUMN_STARTED = 8,
    KE_COLUMN_LOST = 16,
    KE_COLUMN_PLACE = 32 /* device and stream, unless among the args */
};

/* One member of args on the careful path; key is [key_at, key_at + key_size) of `keys_text`. */
typedef struct ke_member {
    size_t key_at, key_size;
    kt_arg arg; /* lists and JSON: text is JSON */
} ke_member;

/* A flow end at a row. An arrow that goes on from a row starts behind the end of what came there. */
typedef enum ke_flow_place { KE_FLOW_LOOP, KE_FLOW_FINISH, KE_FLOW_START } ke_flow_place;
typedef struct ke_flow_end {
    kineto_row row;
    uint64_t id;
    uint32_t type;
    ke_flow_place place; /* LOOP: the start of an arrow to its own row */
    uint64_t flow;       /* the first that has this end: for what it is called */
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
    bool was_read; /* rows and args are written as the file had them: nothing is added */

    ke_name_slot *names;
    ke_key_slot *keys;
    uint64_t stamp;

    kb_map header_keys;  /* hashes */
    kineto_string *pids; /* JSON text, by process */
    int64_t *pid_numbers;
    ke_track *tracks;
    uint32_t *process_order, *track_order; /* in which they are written */
    uint32_t *device_order;                /* processes with properties, as the list has them */
    uint32_t *device_place;                /* by process, from 0 */
    uint32_t device_count;

    KB_VEC(ke_member) members;
    KB_VEC(char) keys_text;

    ke_flow_end *flows; /* by row */
    size_t flow_count;
    uint64_t *flow_rows; /* a bit per row that has some; NULL: none has */
} ke_chrome;

/* Copy a text of which at least KE_PIECE bytes may be read, into room for as many. */
KB_INLINE char *ke_copy(char *out, const char *text, size_t size)
{
    memcpy(out, text, KE_PIECE);
    if (KINETO_UNLIKELY(size > KE_PIECE))
        memcpy(out + KE_PIECE, text + KE_PIECE, size - KE_PIECE);
    return out + size;
}
#define KE_PUT(out, literal)                                                                       \
    (memcpy((out), (literal), sizeof(literal) - 1), (out) += sizeof(literal) - 1)

/* Everything assembled up to `at` belongs to the file. */
KB_INLINE void ke_commit(ke_chrome *c, const char *at)
{
    kb_sink_advance(c->sink, (size_t)(at - c->sink->at));
}

/* Activities of these tracks are told apart by ids of their own, not by thread ids. */
static inline bool ke_shares_tid(const kineto_track *track)
{
    return track->type == KINETO_TRACK_COUNTER || track->type == KINETO_TRACK_ASYNC;
}

/* ---- chrome_plan.c ---- */
/** Decide order, pids, tids and the base time. False: out of memory. */
bool ke_plan(ke_chrome *c);

/* ---- chrome_meta.c ---- */
/** Do rows of names tell of it? */
bool ke_process_has_names(const ke_chrome *c, uint32_t index);
bool ke_track_has_names(const ke_chrome *c, uint32_t index);
void ke_write_head(ke_chrome *c);
void ke_write_rows_meta(ke_chrome *c);
void ke_write_tail(ke_chrome *c, const char *trace_name);

/* ---- chrome_args.c ---- */
/** `,"args":{…}` of a row, or nothing. Takes and returns the place in the sink's room. */
char *ke_put_args(ke_chrome *c, char *out, const kt_block *block, uint32_t index);
/** Escaped string with quotes, straight into the sink, any length. */
void ke_write_string(ke_chrome *c, kineto_string s);
/** JSON text without the white space between its tokens. */
void ke_write_compact(ke_chrome *c, kineto_string json);
/** JSON text as it is, but for bytes that are no UTF-8. */
void ke_write_valid(ke_chrome *c, kineto_string json);

/* ---- chrome_flows.c ---- */
bool ke_plan_flows(ke_chrome *c);
/** Flow events of a row, behind its own event. */
char *ke_put_flows(ke_chrome *c, char *out, kineto_row row, const ke_place *place,
                   int64_t start_ns);
#endif
