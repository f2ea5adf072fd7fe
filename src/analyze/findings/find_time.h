/* What several rules measure: time that nothing hides, calls that wait, and how long it would have
 * taken without them. */
#ifndef KA_FIND_TIME_H
#define KA_FIND_TIME_H

#include "analyze/findings/find_work.h"

/** Rules do not report smaller savings: percent of the time of all steps, or of the trace. */
#define KA_MIN_SAVINGS_PCT 0.5

/** Copies by direction, recognized by their names, of all vendors. */
bool ka_is_upload(kineto_string name);
bool ka_is_within_device(kineto_string name);
/** Is there a range of the host whose name begins so? Its first one; KA_NONE. */
uint32_t ka_find_range(const ka_dataset *s, const char *begins);
/** An operator that begins with "aten::" around a slice, the outermost of them that follow one
 *  another; else the innermost operator, else the slice. */
uint32_t ka_site_of(const ka_dataset *s, uint32_t slice);
/** Where a call was made, in words: the operator, else the range around it; may be empty. */
kineto_string ka_place_of(const ka_dataset *s, uint32_t call);

/* ---- time that nothing hides ----------------------------------------------------------------- */
enum { KA_SELECTED, KA_HIDES, KA_IGNORE };
/** Which is it? */
typedef int ka_select(const ka_finder *f, const ka_work *w, void *context);
typedef struct ka_exposure {
    int64_t ns, exposed_ns; /* moments with selected work; of these: without hiding work. The mean
                               of all devices */
    uint64_t count;         /* of selected work */
} ka_exposure;
/** How much of a piece of selected work nothing hides. */
typedef void ka_each(ka_finder *f, uint32_t work, int64_t exposed_ns, void *context);
/** @param each  called for each selected piece; may be NULL. False: out of memory; f->no_memory is
 * set. */
bool ka_exposed_time(ka_finder *f, ka_select *pick, ka_each *each, void *context, ka_exposure *out);

/* ---- the critical path without something ----------------------------------------------------- */
typedef struct ka_what_if_mask {
    uint8_t *slices;  /* by slice: bits */
    int64_t *work_ns; /* by work: how much shorter it would be; NULL */
} ka_what_if_mask;
enum {
    KA_NO_WAIT = 1, /* a call returns without waiting for work */
    KA_ZERO_COST = 2
};
bool ka_what_if_mask_create(ka_finder *f, ka_what_if_mask *w, bool with_work);
void ka_what_if_mask_free(ka_what_if_mask *w);
/** How much shorter all would be; KA_NO_SAVINGS if that is not known. Bits of a slice become those
 * of all that is in it. */
int64_t ka_saved_by_mask(ka_finder *f, ka_what_if_mask *w);

/* ---- calls in which the host waited ---------------------------------------------------------- */
typedef enum ka_wait_kind {
    KA_WAIT_OTHER,
    KA_WAIT_COPY_CALL, /* a copy or memset that is not Async */
    KA_WAIT_UPLOAD     /* of an operator that copies from pageable memory to the device */
} ka_wait_kind;
typedef struct ka_wait {
    uint32_t call, site; /* slices: the call; the operator it is of, or the call itself */
    uint32_t copy;       /* work: a copy of that operator; KA_NONE */
    uint8_t kind;
    bool is_first;   /* no earlier wait of this kind is in the same `site` */
    int64_t ns;      /* how long the call took */
    int64_t idle_ns; /* devices idle from then on until there was work again, at most ns */
} ka_wait;
typedef struct ka_waits {
    KB_VEC(ka_wait) list; /* by their ends */
} ka_waits;
/** Calls that allocate or release are not among them. Empty without a path. False: no memory. */
bool ka_waits_find(ka_finder *f, ka_waits *out);
void ka_waits_free(ka_waits *waits);
/** Idle time of devices because of the host, whatever it did: no change of its waiting saves more.
 */
int64_t ka_host_idle_ns(const ka_finder *f);
/** Says how much of a saving is more than what was measured right after the waits; may be empty. */
kb_text ka_later_text(int64_t saved_ns, int64_t measured_ns);
#endif
