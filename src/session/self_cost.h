/* The cost of recording: counted records, timed calls, CPU times, an estimate from these; and the
 * cost limit (option --budget). "Budget" in this room always means this limit, never memory. */
#ifndef KS_SELF_COST_H
#define KS_SELF_COST_H

#include "base/base.h"
#include "format/format.h"
#include "trace/trace.h"

/* ---- cost_account.c: the account ---------------------------------------------------------------- */

/* Counts of records in chunks. */
typedef struct ks_tally {
    uint64_t records[KF_TYPE_COUNT];
    uint64_t more_words; /* beyond the minimum of each record's type */
    uint64_t bytes, chunks;
    uint64_t throttled; /* ranges that throttled sites dropped */
    uint64_t operators, with_stack, with_inputs;
} ks_tally;
/* A part of a recording, by ticks. */
typedef struct ks_part {
    uint64_t from_ticks, until_ticks;
} ks_part;
/** Add a chunk's records. @param part  only records within it; NULL: all. */
void ks_tally_chunk(ks_tally *t, const uint64_t *words, uint32_t count, const ks_part *part);
/** Events among them. Ranges count where they end. */
uint64_t ks_tally_events(const ks_tally *t);
/** Add the chunks still in the pool: in use by threads, or left partly filled by ended ones. */
void ks_tally_rest(ks_tally *t, const kf_pool *pool);

/* All times since the account began. */
typedef struct ks_cost {
    uint64_t estimated_ns; /* in the programs' threads: number of records times cost of one */
    /* in the programs' threads, timed: attaching, and work of sources that cannot be avoided */
    uint64_t fixed_ns;
    uint64_t measured_ns; /* in the programs' threads, timed: everything else */
    uint64_t helpers_ns;  /* of that: threads of the library in a program that records itself */
    uint64_t recorder_ns; /* CPU of the recorder, as the kernel says */
    uint64_t recorder_system_ns; /* of that: in the kernel */
    uint64_t program_ns; /* CPU of the recorded programs, ours in them included; the kernel's */
} ks_cost;
static inline uint64_t ks_cost_hooks(const ks_cost *c)
{
    return c->estimated_ns + c->fixed_ns + c->measured_ns;
}
/* The cost of records is an estimate, exact to about a hundredth of a program's time. For a program
 * that does little besides recording, the difference would be meaningless or negative. */
#define KS_MIN_OWN_SHARE 100
/** CPU time of the program without the recording in it; at least 1 / KS_MIN_OWN_SHARE of its time.
 */
static inline uint64_t ks_cost_own(const ks_cost *c)
{
    uint64_t hooks = ks_cost_hooks(c), least = c->program_ns / KS_MIN_OWN_SHARE;
    return c->program_ns > hooks + least ? c->program_ns - hooks : least;
}
/** Cost of recording in millionths of the program's own time. */
double ks_cost_share_ppm(const ks_cost *c);
/** Is that share meaningful? A program that mostly sleeps, or that is shorter than the start of a
 *  recorder, has too little CPU time of its own. */
bool ks_cost_is_comparable(const ks_cost *c, uint64_t lasted_ns);

typedef struct ks_cpu {
    uint32_t pid;
    bool is_gone;
    uint64_t ns;       /* when it was last read; stays when the process has ended */
    uint64_t begun_ns; /* when the account began */
} ks_cpu;

/* Whose account it is. */
typedef enum ks_account_by {
    KS_BY_RECORDER = 0, /* the process that collects: all that it does counts */
    KS_BY_PROGRAM = 1,  /* a recorded program: its recorder is another process, or itself */
    KS_BY_NOBODY = 2    /* the recorder is dead: CPU times are not known */
} ks_account_by;

typedef struct ks_spent {
    uint64_t recorder_ns, recorder_system_ns, helpers_ns, children_ns;
} ks_spent;

typedef struct ks_account {
    ks_account_by by;      /* to be set before it begins, with its processes */
    uint32_t recorder_pid; /* BY_PROGRAM: of the recorder; 0: there is none */
    ks_tally tally;
    kb_clock_snapshot begun;
    uint64_t begun_ns;
    ks_spent then;                                                 /* when it began */
    uint64_t ticks_then[KF_COST_COUNT], calls_then[KF_COST_COUNT]; /* of the control page, then */
    uint64_t ticks[KF_COST_COUNT], calls[KF_COST_COUNT];           /* since then, when last read */
    double ns_per_tick;                                            /* when last read */
    KB_VEC(ks_cpu) processes;
} ks_account;

/** CPU time of any process; 0: it is gone. */
uint64_t ks_process_cpu_ns(uint32_t pid);
/** CPU time of all children that ended and were waited for, without the program's own. */
uint64_t ks_account_waited_ns(const ks_account *a, uint64_t program_ns);
void ks_account_begin(ks_account *a, const kf_control *control);
void ks_account_free(ks_account *a);
/** Add a recorded process. */
void ks_account_process(ks_account *a, uint32_t pid);
/** Add all processes that have attached by now. */
void ks_account_find_processes(ks_account *a, const kf_pool *pool);
/** Update CPU times; often enough that little is missed of processes that end. */
void ks_account_read_processes(ks_account *a);
/** Add the processes of another account, with their last known CPU times. */
void ks_account_join(ks_account *a, const ks_account *of);
/** Compute the cost up to now. @param over  the programs have ended and were waited for. */
void ks_account_read(ks_account *a, const kf_control *control, bool over, ks_cost *out);
/** Only the part that was timed in the programs. */
void ks_account_read_timers(ks_account *a, const kf_control *control, ks_cost *out);
/** Compute the estimate again after the tally has changed. */
void ks_account_estimate(const ks_account *a, const kf_control *control, ks_cost *cost);

/* ---- cost_limit.c: dropping events to stay within the limit -------------------------------------
 * Levels, each with what those before it leave out; see docs/reference/self-cost.md. */
#define KS_LEVELS 6u /* 0: nothing is dropped */

typedef struct ks_level {
    const char *what;
    uint64_t kinds, wants, mute; /* see kf_throttle */
    /* Factor on the minimum duration of a range below which its site is throttled; see
     * ks_cost_limit_throttle. */
    double shortness;
} ks_level;
extern const ks_level ks_levels[KS_LEVELS];

#define KS_PERIODS 64u
typedef struct ks_period {
    uint32_t level;
    uint64_t from_ns, until_ns; /* since the beginning */
} ks_period;

typedef struct ks_cost_limit {
    double ppm; /* 0: there is none */
    uint32_t level;
    /* start of this level; minimum time before going down; last time it went down */
    uint64_t since_ns, hold_ns, last_down_ns;
    uint64_t last_ns; /* last evaluation */
    ks_cost last;
    uint64_t last_bytes, last_events;
    double share_ppm;              /* lately */
    double share_at[KS_LEVELS];    /* the last time */
    double events_per_ns;          /* of the programs' CPU, before kinds were left out */
    ks_period periods[KS_PERIODS]; /* the last one is under way */
    uint32_t period_count;
    double left_out_events; /* estimate, for kinds whose gate is closed */
    uint64_t closed_ns;
} ks_cost_limit;

/** Evaluate again. @param now_ns  since the recording began, as are cost and tally.
 *  @return whether the level changed. */
bool ks_cost_limit_update(ks_cost_limit *b, uint64_t now_ns, const ks_cost *cost, const ks_tally *tally);
/** What writers drop at the current level. @param pair  kf_control.unit_costs[KF_UNIT_PAIR]. */
void ks_cost_limit_throttle(const ks_cost_limit *b, uint32_t pair, kf_throttle *out);
/** The recording ended: ends the last period. */
void ks_cost_limit_end(ks_cost_limit *b, uint64_t now_ns);

/* ---- cost_report.c: ledger lines and JSON of the cost ---------------------------------------- */
typedef void ks_cost_note(void *context, const char *source, const char *reason, uint64_t count,
                          bool is_loss, const char *detail);
#define KS_COST_JSON_BYTES 8192u
#define KS_COST_KEY        "ckineto_self_cost" /* of the header */

/* The contents of the report. */
typedef struct ks_cost_summary {
    const ks_account *account;
    const ks_cost_limit *budget; /* NULL: there is none */
    const kf_control *control;
    ks_cost cost;
    uint64_t lasted_ns;
    uint64_t prepare_ns, build_ns; /* BY_PROGRAM: CPU time of its threads, before and after */
} ks_cost_summary;
/** Lines of the ledger, and the JSON object of the header into `json`. */
void ks_cost_report(const ks_cost_summary *summary, ks_cost_note *note, void *context,
                    char json[KS_COST_JSON_BYTES]);

/* ---- cost_part.c: the cost of a part of a recording, counted while its trace is built -------- */
typedef struct ks_cost_part {
    ks_account account; /* as of the end of the part; its processes are not looked at any more */
    ks_cost_summary summary;
    ks_part part;
    kf_input input;  /* whose chunks are counted on their way */
    uint32_t next;   /* chunk to count: the decoder takes them in order at first */
    uint64_t cpu_ns; /* of this thread, when building began */
} ks_cost_part;
/** Wrap `input` so that its chunks are counted as kt_build reads them, and have kt_build add the
 *  report to the trace. The caller fills in p->account, p->part and p->summary before. */
void ks_cost_part_attach(ks_cost_part *p, const kf_control *control, kf_input *input,
                         kt_build_options *options);
#endif
