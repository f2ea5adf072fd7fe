/* What a recording costs: counted, timed, estimated; and the budget that it is to stay within. */
#ifndef KS_SELF_COST_H
#define KS_SELF_COST_H

#include "base/base.h"
#include "format/format.h"

/* ---- self_cost.c: the account ------------------------------------------------------------------- */

/* Records that were seen in chunks. */
typedef struct ks_tally {
    uint64_t records[KF_TYPE_COUNT];
    uint64_t more_words; /* beyond the least that a record of its type has */
    uint64_t bytes, chunks;
    uint64_t shed; /* ranges that were left out by their sites */
    uint64_t operators, with_stack, with_inputs;
} ks_tally;
void ks_tally_chunk(ks_tally *t, const uint64_t *words, uint32_t count);

/* All since the recording began. */
typedef struct ks_cost {
    uint64_t estimated_ns; /* in the programs' threads: records, by what one takes */
    uint64_t fixed_ns;    /* in there, timed: attaching, and what sources do that goes on anyway */
    uint64_t measured_ns;  /* in there, timed: all else */
    uint64_t recorder_ns;  /* CPU of the recorder, as the kernel says */
    uint64_t recorder_system_ns; /* of that: in the kernel */
    uint64_t program_ns;   /* CPU of the recorded programs, ours in them included; the kernel's */
} ks_cost;
static inline uint64_t ks_cost_hooks(const ks_cost *c)
{
    return c->estimated_ns + c->fixed_ns + c->measured_ns;
}
/** Of what the program itself took, in millionths. */
double ks_cost_share_ppm(const ks_cost *c);

typedef struct ks_cpu {
    uint32_t pid;
    uint64_t ns; /* at the last look, also of those who have ended */
} ks_cpu;

typedef struct ks_account {
    ks_tally tally;
    kb_clock_snapshot begun;
    uint64_t begun_ns, recorder_ns, recorder_system_ns, children_ns; /* when it began */
    double ns_per_tick;                          /* as of the last look */
    KB_VEC(ks_cpu) processes;
} ks_account;

void ks_account_begin(ks_account *a, const kf_control *control);
void ks_account_free(ks_account *a);
/** A process records. */
void ks_account_process(ks_account *a, uint32_t pid);
/** How it stands. `over`: the programs have ended, and were waited for. */
void ks_account_look(ks_account *a, const kf_control *control, bool over, ks_cost *out);

/** What came since: of the tally in the account, and of the cost. */
void ks_account_since(ks_account *a, ks_cost *cost, const ks_tally *tally_then, const ks_cost *then);

/* ---- budget.c: what is left out, and when ---------------------------------------------------------
 * Levels, each with what those before it leave out; see docs/self-cost.md. */
#define KS_LEVELS 6u /* 0: nothing is left out */

typedef struct ks_level {
    const char *what;
    uint64_t kinds, wants, mute; /* see kf_shed */
    double shortness; /* times what a range of a site may be, so that it keeps the budget by itself */
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
    double share_ppm;            /* lately */
    double share_at[KS_LEVELS];  /* the last time */
    double events_per_ns;        /* of the programs' CPU, before kinds were left out */
    ks_period periods[KS_PERIODS]; /* the last one is under way */
    uint32_t period_count;
    double left_out_events; /* about so many, of kinds that nobody came to tell of */
    uint64_t closed_ns;
} ks_budget;

/** Look again: cost since the beginning, `now_ns` since then. @return whether the level changed. */
bool ks_budget_look(ks_budget *b, uint64_t now_ns, const ks_cost *cost, const ks_tally *tally);
/** What is left out at its level. pair: kf_control.unit_costs[KF_UNIT_PAIR]. */
void ks_budget_shed(const ks_budget *b, uint32_t pair, kf_shed *out);
void ks_budget_end(ks_budget *b, uint64_t now_ns);

/* ---- cost_report.c: what is said of it ------------------------------------------------------------ */
typedef void ks_cost_note(void *context, const char *source, const char *reason, uint64_t count,
                          bool is_loss, const char *detail);
/** Lines of the ledger, and the JSON object of the header into `json`, if it is not NULL. */
void ks_cost_report(const ks_account *a, const ks_budget *b, const kf_control *control,
                    const ks_cost *cost, uint64_t lasted_ns, ks_cost_note *note, void *context,
                    char *json, size_t json_size);
#endif
