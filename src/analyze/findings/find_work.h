/* What rules about kernels and programs share: what all would be shorter by if each piece of work
 * and each range of the host took another time, and sizes of operators' inputs. */
#ifndef KA_FIND_WORK_H
#define KA_FIND_WORK_H

#include "analyze/findings/finding.h"

/* ---- other times ----------------------------------------------------------------------------- */
/** Factors of times: 1 as recorded, 0 as if it were not there. */
typedef struct ka_factors {
    double *work, *slices; /* by index of the dataset's work and slices */
    double gaps;           /* from one work to the next of a stream */
} ka_factors;
/** All 1. False: out of memory, which f knows then. Free it in any case. */
bool ka_factors_make(ka_finder *f, ka_factors *x);
void ka_factors_free(ka_factors *x);
/** Like ka_saved_by: never more than what these pieces are shorter by themselves (gaps aside).
 * Pieces outside of steps, where there are any, count for nothing. */
int64_t ka_saved_with(ka_finder *f, const ka_factors *x);

/** Does it count: is it in a step, or has the trace none? */
static inline bool ka_is_in_steps(const ka_finder *f, int32_t step)
{
    return !f->step_count || step >= 0;
}
/** What a saving says of the whole, where it is known. */
static inline bool ka_is_significant(const ka_finder *f, int64_t saved_ns, double least_percent)
{
    return saved_ns != KA_NO_SAVINGS && ka_share(f, saved_ns) >= least_percent;
}

/** Show work of which chosen[index] is `which`: of each name the longest, weighed with all of the
 *  name; with its operator, shapes and stack. */
void ka_show_work(ka_finder *f, ka_found *x, const uint8_t *chosen, uint8_t which);
/** Sum of the times of work that counts, and how much of it there is. */
typedef struct ka_amount {
    int64_t ns;
    uint64_t count;
} ka_amount;
static inline void ka_amount_add(ka_amount *a, int64_t ns)
{
    a->ns = ka_add_ns(a->ns, ns);
    a->count++;
}

/* ---- operators ------------------------------------------------------------------------------- */
/** The innermost operator that a range is, or is in; KA_NONE: none, or it is very far out (traces
 * may nest as deep as they are long). */
static inline uint32_t ka_operator_of(const ka_dataset *s, uint32_t slice)
{
    bool is_one = slice == KA_NONE || s->slices[slice].kind == KINETO_KIND_CPU_OP;
    return is_one ? slice : ka_operator_around(s, slice);
}

#define KA_MAX_INPUTS 3u
#define KA_MAX_DIMS   6u
typedef struct ka_shape {
    int64_t dims[KA_MAX_DIMS];
    uint32_t rank;  /* 0: no tensor, or one of too many dimensions */
    uint32_t bytes; /* of an element of a floating type; 0: it is of none */
} ka_shape;
typedef struct ka_shapes {
    ka_shape of[KA_MAX_INPUTS]; /* the first ones */
    uint32_t count;              /* of these */
} ka_shapes;
/** "Input Dims" and "Input type" of an operator's call; false: it does not say. */
bool ka_shapes_of(const kineto_trace *t, kineto_row row, ka_shapes *out);
/** "[64, 1000], [1000, 512]". */
kb_text ka_shapes_text(const ka_shapes *in);
static inline int64_t ka_round_up(int64_t n, int64_t to)
{
    return n > INT64_MAX - to ? n : (n + to - 1) / to * to;
}

/* ---- names ----------------------------------------------------------------------------------- */
/** Answers of a question about names, asked once for each: 0 not asked, else the answer + 1. */
typedef struct ka_answers {
    uint8_t *of; /* by string id */
} ka_answers;
bool ka_answers_make(ka_finder *f, ka_answers *a);
static inline void ka_answers_free(ka_answers *a) { free(a->of); }
typedef uint8_t ka_question(kineto_string name);
static inline uint8_t ka_answer(const ka_dataset *s, ka_answers *a, uint32_t name, ka_question *ask)
{
    KB_ASSERT(a->of != NULL);
    if (!a->of[name])
        a->of[name] = (uint8_t)(ask(ka_name(s, name)) + 1);
    return (uint8_t)(a->of[name] - 1);
}

/* ---- devices --------------------------------------------------------------------------------- */
/** Units that multiply matrices, in addition to the ordinary ones. */
typedef enum ka_matrix_unit {
    KA_MATRIX_NONE,
    KA_MATRIX_TENSOR, /* NVIDIA since Volta */
    KA_MATRIX_MFMA,   /* AMD since gfx908, WMMA since RDNA 3 */
    KA_MATRIX_XMX     /* Intel */
} ka_matrix_unit;
ka_matrix_unit ka_matrix_unit_of(const kineto_trace *t, int64_t device);
const char *ka_matrix_unit_name(ka_matrix_unit unit);
/** Devices that round 32-bit inputs for them: NVIDIA since Ampere. */
bool ka_has_tf32(const kineto_trace *t, int64_t device);
/** Device of most of the work; -1: not known. */
int64_t ka_busiest_device(const ka_dataset *s);
#endif
