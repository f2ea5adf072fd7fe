/* What a recording costs: counted, timed, estimated; and the budget that it is to stay within. */
#ifndef KS_SELF_COST_H
#define KS_SELF_COST_H

#include "base/base.h"
#include "format/format.h"
#include "trace/trace.h"

/* ---- self_cost.c: the account ------------------------------------------------------------------- */

/* Records that were seen in chunks. */
typedef struct ks_tally {
    uint64_t records[KF_TYPE_COUNT];
    uint64_t more_words; /* beyond the least that a record of its type has */
    uint64_t bytes, chunks;
    uint64_t shed; /* ranges that were left out by their sites */
    uint64_t operators, with_stack, with_inputs;
} ks_tally;
/* A part of a recording, by ticks. */
typedef struct ks_part {
    uint64_t from_ticks, until_ticks;
} ks_part;
/** part: what was recorded in it; NULL: all. */
void ks_tally_chunk(ks_tally *t, const uint64_t *words, uint32_t count, const ks_part *part);
/** Events among them. Ranges count where they end. */
uint64_t ks_tally_events(const ks_tally *t);
/** What was not given back: threads still write to it, or have ended without filling it. */
void ks_tally_rest(ks_tally *t, const kf_pool *pool);

/* All since the recording began. */
typedef struct ks_cost {
    uint64_t estimated_ns; /* in the programs' threads: records, by what one takes */
    uint64_t fixed_ns;     /* in there, timed: attaching, and what sources do that goes on anyway */
    uint64_t measured_ns;  /* in there, timed: all else */
    uint64_t helpers_ns;   /* of that: threads of the library in a program that records itself */
    uint64_t recorder_ns;  /* CPU of the recorder, as the kernel says */
    uint64_t recorder_system_ns; /* of that: in the kernel */
    uint64_t program_ns; /* CPU of the recorded programs, ours in them included; the kernel's */
} ks_cost;
static inline uint64_t ks_cost_hooks(const ks_cost *c)
{
    return c->estimated_ns + c->fixed_ns + c->measured_ns;
}
/* What records take is an estimate, no more exact than a hundredth of a program's time: of one that does
 * little else it would leave anything, or nothing. */
#define KS_MIN_OWN_SHARE 100
/** What the program took without ours in it: one in KS_MIN_OWN_SHARE of its time at least. */
static inline uint64_t ks_cost_own(const ks_cost *c)
{
    uint64_t hooks = ks_cost_hooks(c), least = c->program_ns / KS_MIN_OWN_SHARE;
    return c->program_ns > hooks + least ? c->program_ns - hooks : least;
}
/** Of that, in millionths. */
double ks_cost_share_ppm(const ks_cost *c);
/** Whether that share means anything: a program that sleeps, or one so short that starting a recorder takes
 *  longer, has too little CPU time of its own to compare with. */
bool ks_cost_is_comparable(const ks_cost *c, uint64_t lasted_ns);

typedef struct ks_cpu {
    uint32_t pid;
    bool is_gone;
    uint64_t ns;       /* at the last look, also of those who have ended */
    uint64_t begun_ns; /* when the account began */
} ks_cpu;

/* Whose account it is. */
typedef enum ks_account_by {
    KS_BY_RECORDER = 0, /* the process that collects: all that it does counts */
    KS_BY_PROGRAM = 1,  /* a recorded program: its recorder may be another process, or nobody */
    KS_BY_NOBODY = 2    /* who recorded is dead: CPU times are not known */
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
    uint64_t ticks[KF_COST_COUNT], calls[KF_COST_COUNT]; /* since then, at the last look */
    double ns_per_tick;                                  /* as of the last look */
    KB_VEC(ks_cpu) processes;
} ks_account;

/** CPU time of any process; 0: it is gone. */
uint64_t ks_process_cpu_ns(uint32_t pid);
/** CPU time of all who ended and were waited for, besides what the program itself took. */
uint64_t ks_account_waited_ns(const ks_account *a, uint64_t program_ns);
void ks_account_begin(ks_account *a, const kf_control *control);
void ks_account_free(ks_account *a);
/** A process records. */
void ks_account_process(ks_account *a, uint32_t pid);
/** All who have attached by now do. */
void ks_account_find_processes(ks_account *a, const kf_pool *pool);
/** Now and then, so that less is missed of those who end. */
void ks_account_read_processes(ks_account *a);
/** Processes of another account are those of this one, too, as they were looked at last. */
void ks_account_join(ks_account *a, const ks_account *of);
/** How it stands. `over`: the programs have ended, and were waited for. */
void ks_account_read(ks_account *a, const kf_control *control, bool over, ks_cost *out);
/** Of that, only what was timed in the programs. */
void ks_account_read_timers(ks_account *a, const kf_control *control, ks_cost *out);
/** Of the last look, anew, after its tally has changed. */
void ks_account_estimate(const ks_account *a, const kf_control *control, ks_cost *cost);

/* ---- budget.c: what is left out, and when ---------------------------------------------------------
 * Levels, each with what those before it leave out; see docs/self-cost.md. */
#define KS_LEVELS 6u /* 0: nothing is left out */

typedef struct ks_level {
    const char *what;
    uint64_t kinds, wants, mute; /* see kf_shed */
    /* Times what a range of a site may be, so that it keeps the budget by itself. */
    double shortness;
} ks_level;
extern const ks_level ks_levels[KS_LEVELS];

#define KS_PERIODS 64u
typedef struct ks_period {
    uint32_t level;
    uint64_t from_ns, until_ns; /* since the beginning */
} ks_period;

typedef struct ks_budget {
    double ppm; /* 0: there is none */
    uint32_t level;
    uint64_t since_ns, hold_ns, last_down_ns; /* of this level; how long one is kept at least */
    uint64_t last_ns;                         /* the last look */
    ks_cost last;
    uint64_t last_bytes, last_events;
    double share_ppm;              /* lately */
    double share_at[KS_LEVELS];    /* the last time */
    double events_per_ns;          /* of the programs' CPU, before kinds were left out */
    ks_period periods[KS_PERIODS]; /* the last one is under way */
    uint32_t period_count;
    double left_out_events; /* about so many, of kinds that nobody came to tell of */
    uint64_t closed_ns;
} ks_budget;

/** Look again: cost since the beginning, `now_ns` since then. @return whether the level changed. */
bool ks_budget_look(ks_budget *b, uint64_t now_ns, const ks_cost *cost, const ks_tally *tally);
/** What is left out at its level. pair: kf_control.unit_costs[KF_UNIT_PAIR]. */
void ks_cost_limit_throttle(const ks_budget *b, uint32_t pair, kf_shed *out);
void ks_budget_end(ks_budget *b, uint64_t now_ns);

/* ---- cost_report.c: what is said of it ------------------------------------------------------------ */
typedef void ks_cost_note(void *context, const char *source, const char *reason, uint64_t count,
                          bool is_loss, const char *detail);
#define KS_COST_JSON_BYTES 8192u
#define KS_COST_KEY        "ckineto_self_cost" /* of the header */

/* What is told. */
typedef struct ks_cost_said {
    const ks_account *account;
    const ks_budget *budget; /* NULL: there is none */
    const kf_control *control;
    ks_cost cost;
    uint64_t lasted_ns;
    uint64_t prepare_ns, build_ns; /* BY_PROGRAM: CPU time of its threads, before and after */
} ks_cost_said;
/** Lines of the ledger, and the JSON object of the header into `json`. */
void ks_cost_report(const ks_cost_said *said, ks_cost_note *note, void *context,
                    char json[KS_COST_JSON_BYTES]);

/* ---- cost_part.c: of a part of a recording, when its trace is built ------------------------------- */
typedef struct ks_cost_part {
    ks_account account; /* as of the end of the part; its processes are not looked at any more */
    ks_cost_said said;
    ks_part part;
    kf_input input;  /* whose chunks are counted on their way */
    uint32_t next;   /* chunk to count: the decoder takes them in order at first */
    uint64_t cpu_ns; /* of this thread, when building began */
} ks_cost_part;
/** Chunks of `input` are counted from now on, as kt_build reads them; it says what was found. What
 *  `p->account`, `p->part` and `p->said` hold is the caller's to fill in before. */
void ks_cost_part_attach(ks_cost_part *p, const kf_control *control, kf_input *input,
                         kt_build_options *options);
#endif
