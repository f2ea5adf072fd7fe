/* Verifying a trace: rules, the report under way, and the passes that fill it. */
#ifndef KA_VERIFY_H
#define KA_VERIFY_H

#include "trace/trace.h"
#include <ckineto/analyze.h>

typedef enum ka_rule {
#define X(name, id, severity, meaning, why, remedy) KA_RULE_##name,
#include "analyze/verify/verify_rules.def"
#undef X
    KA_RULE_COUNT
} ka_rule;

/* Thresholds, all in one place. docs/reference/verify.md says them in words. */
#define KA_ROUNDING_NS     1000 /* Kineto's clock before 2.2: whole us */
#define KA_EARLIEST_NS     INT64_C(946684800000000000)  /* 2000: no Kineto trace is older */
#define KA_LATEST_NS       INT64_C(3150000000000000000) /* 2069: an epoch added twice is later */
#define KA_DEVICE_LIMIT_NS KB_HOUR_NS                   /* no kernel or copy takes an hour */
#define KA_HOST_LIMIT_NS   (7 * KB_DAY_NS)
#define KA_RESIDUAL_NS     10000u

/* ---- verify_report.c ---- */
/** How often something was seen, and the first rows where. */
typedef struct ka_tally {
    uint64_t count;
    KB_VEC(kineto_row) rows;
} ka_tally;

/** What is known of each track after the pass over the rows. */
typedef struct ka_track {
    uint32_t process;
    uint8_t type;
    int64_t min_start_ns, max_end_ns, last_start_ns;
    uint64_t work, host; /* rows of device work; slices of the host */
} ka_track;

/** What a name says, by string id. Hints only: structure decides where it can. */
enum {
    KA_NAME_STEP = 1,
    KA_NAME_LAUNCH = 2,
    KA_NAME_WAIT = 4,
    KA_NAME_SCOPE = 8,
    KA_NAME_CAPTURE = 16, /* a capture of a stream into a graph begins … */
    KA_NAME_CAPTURED = 32 /* … and ends */
};

/* State of one verification: the trace, the report, and what the first pass (ka_verify_rows)
 * found, which all later passes use. */
typedef struct ka_verify {
    const kineto_trace *t;
    kineto_verify_report *report;
    uint64_t wanted; /* bits of rules */
    uint32_t places;
    bool no_memory; /* sticks */
    int64_t window_start_ns, window_end_ns;

    ka_track *tracks;
    uint32_t track_count;
    uint8_t *names; /* KA_NAME_… by string id */
    uint32_t name_count;
    uint64_t kinds[KINETO_KIND_COUNT];
    uint64_t waits, launches; /* calls by their name's hint */
    bool units_are_mixed;
    uint64_t *implausible; /* a bit for each row that times.implausible names; NULL: none is */
} ka_verify;

/** Is the time of a row one that cannot be? Only times.implausible speaks of such rows: what other
 *  rules would make of them follows from that. */
static inline bool ka_is_implausible(const ka_verify *v, kineto_row row)
{
    return KINETO_UNLIKELY(v->implausible != NULL) && v->implausible[row / 64] >> row % 64 & 1;
}

static inline bool ka_wants(const ka_verify *v, ka_rule rule) { return v->wanted >> rule & 1; }
void ka_tally_add(ka_verify *v, ka_tally *tally, kineto_row row);
/** Make a finding of a tally, if it counted anything and the rule is wanted; frees the tally. */
void ka_find(ka_verify *v, ka_rule rule, kineto_severity severity, ka_tally *tally, const char *fmt,
             ...) KINETO_PRINTF(5, 6);
/** The finding has no row, but a text. Several calls in a row for a rule give one finding with
 * several places; the first call has the sentence. */
void ka_find_text(ka_verify *v, ka_rule rule, kineto_severity severity, uint64_t count,
                  const char *place, uint64_t offset, const char *fmt, ...) KINETO_PRINTF(7, 8);
bool ka_report_create(kineto_verify_report **out);
/** "stream 7 of device 0", cut to the size; returns its length. */
size_t ka_track_words(const kineto_trace *t, uint32_t track, char *text, size_t size);
/** Worst first. */
void ka_report_sort(kineto_verify_report *report);

/* ---- columns of one row ---- */
typedef struct ka_row {
    const kt_block *block;
    uint32_t index;
} ka_row;
static inline ka_row ka_row_at(const ka_verify *v, kineto_row row)
{
    return (ka_row){kt_block_at(v->t, row / KT_BLOCK_ROWS), row % KT_BLOCK_ROWS};
}
/** Is it a range that a thread opened and closed? */
static inline bool ka_is_host(uint32_t kind)
{
    return kt_kind_is_launch(kind) || kind == KINETO_KIND_CPU_OP ||
           kind == KINETO_KIND_USER_ANNOTATION || kind == KINETO_KIND_PYTHON_FUNCTION;
}

/* ---- verify_capture.c: launches that become nodes of a graph ---- */
/** From the begin of a capture to its end; owner: a track, or a process. */
typedef struct ka_capture {
    uint32_t owner;
    int64_t start_ns, end_ns;
} ka_capture;

/* Captures of streams into graphs. Found once, after the pass over the rows;
 * ka_captures_see_linked must have seen all linked launches before ka_is_captured is asked. */
typedef struct ka_captures {
    ka_verify *v;
    KB_VEC(ka_capture) of_tracks, of_processes; /* by owner and start, disjoint */
    kb_map executing; /* threads whose launches have work while their process captures */
} ka_captures;
/** Out of memory: v->no_memory. To be freed in any case. */
void ka_captures_find(ka_verify *v, ka_captures *out);
void ka_captures_free(ka_captures *c);
/** A launch of this track has work. All of them must be reported before the first question. */
void ka_captures_see_linked(ka_captures *c, uint32_t track, int64_t ns);
/** Did a launch without work, that began then, go into a graph? */
bool ka_is_captured(const ka_captures *c, uint32_t track, int64_t ns);
/** How many calls named like launches did. */
uint64_t ka_count_captured_launches(const ka_captures *c);

/* ---- passes ---- */
void ka_verify_rows(ka_verify *v);   /* first: fills tracks, names, kinds */
void ka_verify_tables(ka_verify *v); /* ledger, processes, tracks, header */
void ka_verify_links(ka_verify *v);  /* launches and device work */
void ka_verify_flows(ka_verify *v);
void ka_verify_tracks(ka_verify *v); /* overlaps, duplicates */
void ka_verify_args(ka_verify *v);   /* counters, copies, JSON */
void ka_verify_steps(ka_verify *v);
#endif
