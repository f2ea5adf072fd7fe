/* Writers: one cursor per thread, a second one for signal handlers that interrupt the first.
 *
 * The hot path touches the cursor, the site and the chunk, nothing else. `kr_me` is the only TLS.
 * Cursors live in pages that a fork's child sees zeroed, so that the child of any kind of fork
 * finds an empty cursor, takes the slow path and attaches as itself.
 */
#ifndef KR_CURSOR_H
#define KR_CURSOR_H

#include "record/record.h"

#define KR_NO_CHUNK   UINT32_MAX
#define KR_NAME_BYTES 64u
#define KR_PUSH_DEPTH 64u
/* A range token: depth + 1, and this bit for the signal cursor. */
#define KR_RANGE_SIGNAL (UINT32_C(1) << 16)

typedef struct kr_cursor {
    uint64_t *at;    /* next free word of the chunk; NULL: no chunk */
    uint64_t *limit; /* end of the chunk less one word per open range, kept for its END */
    uint64_t *base;  /* start of the chunk */
    uint32_t depth;  /* open ranges */
    uint8_t busy;    /* inside a record call: a signal handler must take `second` */
    uint8_t tsc;     /* ticks are the hardware counter */
    uint8_t in_use;  /* 0: zeroed by a fork, or a free slot */
    uint8_t is_second;
    uint32_t chunk;
    uint32_t epoch;      /* upper bits of ticks, as of the last full ones that ENDs rely on */
    uint32_t skip;       /* attempts to drop before a claim is tried again */
    uint64_t skip_while; /* room_key() then: when it changes there may be room at once */
    uint32_t source;     /* whose loss it is when there is no room */
    uint32_t pid, tid;
    uint32_t serial, seq; /* identity in the pool; serial 0: none yet */
    struct kr_cursor *second;
    uint32_t ticks_clock;
    uint32_t name_id; /* string id of name, once it is in the dictionary */
    char name[KR_NAME_BYTES];
    uint32_t system_name; /* hash of the system's name for the thread that was written last; 0: none */
    uint16_t open[KF_MAX_DEPTH]; /* word offset, in this chunk, of each open range's BEGIN */
    uint8_t inside;              /* a call of a plug-in, or of one into the host, is under way */
    uint8_t inside_more;         /* and so many within it */
    uint16_t pushed_depth[2];    /* by stack: pushes that were passed on and not popped */
    uint32_t pushed_epoch;
    uint32_t pushed_at[2][KR_PUSH_DEPTH]; /* by stack: listeners' generation at each push */
    uint64_t function_next, function_end; /* ids to be given to operators */
    uint32_t number;                      /* of the thread, 0: none yet */
    uint32_t joined;       /* sessions of some threads that this one is in: a bit for each window */
    uint32_t inspect;      /* so many ranges are to be looked at: is their site to be left out? */
    uint32_t leaving;      /* the chunk before, until it is sealed */
    uint64_t *shed_at;     /* word of this chunk that counts ranges that were left out; NULL: none */
    uint32_t stacks;       /* call stacks taken, to time some of them */
    uint8_t functions_off; /* neither callbacks nor records of operators */
    uint8_t functions_fast; /* it has a number, a fast clock, and they are not off */
    void *callbacks;        /* of this thread: see callbacks.c */
    void *extras;           /* the same, for stacks and counters: see function.c */
} kr_cursor;

/* Stand-ins that are always busy, so that the hot path needs no NULL test. */
extern kr_cursor kr_unattached, kr_attaching;

#if defined(__GLIBC__) && defined(__GNUC__)
#define KR_TLS_MODEL __attribute__((tls_model("initial-exec")))
#else
#define KR_TLS_MODEL
#endif
extern __thread kr_cursor *kr_me KR_TLS_MODEL;

/* Nobody else changes it while this thread lives. Others' attempts to take the slot, which fail,
 * count as writes for GCC's thread sanitizer. */
#if defined(__SANITIZE_THREAD__)
#define KR_IN_USE(c) kb_load_relaxed(&(c)->in_use)
#else
#define KR_IN_USE(c) ((c)->in_use)
#endif

KB_INLINE uint64_t kr_ticks(const kr_cursor *c)
{
    return KINETO_LIKELY(c->tsc) ? kb_ticks_hw() : kb_ticks(c->ticks_clock);
}

KB_INLINE void kr_enter(kr_cursor *c)
{
    c->busy = 1;
    kb_signal_fence();
}
KB_INLINE void kr_leave(kr_cursor *c)
{
    kb_signal_fence();
    c->busy = 0;
}

/** The cursor to use when the thread's own is busy or missing: attaches the thread, or gives the
 *  signal cursor. NULL: counted as dropped. The result is not entered yet. */
kr_cursor *kr_cursor_slow(void);

/** The calling thread's cursor, entered; NULL: counted as dropped. */
KB_INLINE kr_cursor *kr_cursor_enter(void)
{
    kr_cursor *c = kr_me;
    if (KINETO_UNLIKELY(c->busy | !KR_IN_USE(c))) {
        c = kr_cursor_slow();
        if (!c)
            return NULL;
    }
    kr_enter(c);
    return c;
}

/** Get room for `words` in a new chunk; called when at + words > limit. False: counted. */
bool kr_cursor_refill(kr_cursor *c, uint32_t words);

/** Room for `words`, or NULL (counted). */
KB_INLINE uint64_t *kr_room(kr_cursor *c, uint32_t words)
{
    /* A cursor without a chunk has at == limit == NULL. */
    if (KINETO_UNLIKELY((uintptr_t)c->limit - (uintptr_t)c->at < words * 8u) &&
        !kr_cursor_refill(c, words))
        return NULL;
    return c->at;
}

/** Room for the longest record and its END; what does not fit there fits nowhere. False: counted. */
KB_INLINE bool kr_room_for_longest(kr_cursor *c)
{
    const size_t most = (KF_MAX_RECORD_WORDS + 1) * sizeof(uint64_t);
    return (uintptr_t)c->limit - (uintptr_t)c->at >= most ||
           kr_cursor_refill(c, KF_MAX_RECORD_WORDS + 1);
}

/** Where a record that starts at `at` must end: the cursor's room, and the longest record. */
KB_INLINE const uint64_t *kr_record_limit(const kr_cursor *c, const uint64_t *at)
{
    return KB_MIN(c->limit, at + KF_MAX_RECORD_WORDS);
}

/** Publish a record of `words` whose payload is written. */
KB_INLINE void kr_commit(kr_cursor *c, uint64_t *at, uint64_t header, uint32_t words)
{
    kb_store_release(at, header);
    c->at = at + words;
}

void kr_count(uint32_t source, kf_reason reason, uint64_t n);

/* ---- record calls ---- */
/* May this thread record right here, right now? If not (a signal handler, a new thread, a fork's
 * child, a machine without a usable counter) the general path finds out why. */
KB_INLINE bool kr_ready(const kr_cursor *c) { return KINETO_LIKELY(!(c->busy | !c->tsc)); }

KB_INLINE bool kr_room_for(const kr_cursor *c, size_t words)
{
    return KINETO_LIKELY((uintptr_t)c->limit - (uintptr_t)c->at >= words * 8u);
}

KB_INLINE kineto_range kr_range_opened(kr_cursor *c, const uint64_t *at)
{
    uint32_t depth = c->depth;
    c->open[depth] = (uint16_t)(at - c->base);
    c->depth = depth + 1;
    c->limit--; /* the word of its END */
    return (depth + 1) | (c->is_second ? KR_RANGE_SIGNAL : 0);
}

/* A range on the thread's first cursor, all checks passed: `words` without the END. */
KB_INLINE kineto_range kr_range_begin(kr_cursor *c, uint64_t *at, uint32_t words, uint32_t props,
                                      uint32_t id)
{
    uint32_t depth = c->depth;
    c->open[depth] = (uint16_t)(at - c->base);
    c->depth = depth + 1;
    c->limit--;
    kr_commit(c, at, kf_header(KF_BEGIN, words, depth | props << 8, id), words);
    kr_leave(c);
    return depth + 1;
}

KB_INLINE bool kr_too_deep(const kr_cursor *c)
{
    if (KINETO_LIKELY(c->depth < KF_MAX_DEPTH))
        return false;
    kr_count(KF_SOURCE_API, KF_REASON_TOO_DEEP, 1);
    return true;
}

/* An END has the lower 48 bits of its time, to be completed by the record before it. Where that may be
 * a day ago, the time is said in full first. */
#define KR_EPOCH_BITS 46
static inline uint32_t kr_epoch_of(uint64_t ticks) { return (uint32_t)(ticks >> KR_EPOCH_BITS); }
void kr_epoch_begin(kr_cursor *c, uint64_t ticks);

/* Closes all that is open from `depth` on. Room was kept when the range was opened. */
KB_INLINE void kr_end_write(kr_cursor *c, uint32_t depth, uint64_t ticks)
{
    if (KINETO_UNLIKELY(kr_epoch_of(ticks) != c->epoch))
        kr_epoch_begin(c, ticks);
    uint64_t *at = c->at;
    kb_store_release(at, kf_end(depth, ticks));
    c->at = at + 1;
    c->limit += c->depth - depth;
    c->depth = depth;
}

/** A range of the signal cursor, one with unclosed ranges inside, or one that is not ours. */
void kr_end_slow(kineto_range range);

KB_INLINE void kr_range_end(kineto_range range)
{
    kr_cursor *c = kr_me;
    if (!kr_ready(c) || KINETO_UNLIKELY(c->depth != range)) {
        kr_end_slow(range);
        return;
    }
    kr_enter(c);
    kr_end_write(c, range - 1, kb_ticks_hw());
    kr_leave(c);
}

/* What was written of a record that is given up must not be taken for records later: beyond the
 * last one there are only zeros. */
static inline void kr_undo(kr_cursor *c)
{
    const uint64_t *limit = kr_record_limit(c, c->at);
    memset(c->at, 0, (size_t)(limit - c->at) * sizeof *c->at);
}

/** Write a THREAD_NAME record if the cursor has a name and a chunk. Entered cursors only. */
void kr_cursor_put_name(kr_cursor *c);
kineto_status kr_threads_init(void);

/* ---- cost.c: what we cost ---- */
/** Find out what records cost here, before anything is recorded. */
void kr_cost_calibrate(kf_control *control);
void kr_cost_add(kf_cost what, uint64_t ticks, uint64_t calls);

/* ---- shed.c: frequent short ranges that are left out to stay within a budget ---- */
#define KR_SITE_SHED (UINT32_MAX - 1) /* instead of an id: leave this range out */
/** A chunk of this cursor is full, and still its own: judge its sites. */
void kr_shed_judge(kr_cursor *c);
/** A range of this site begins while the cursor inspects. @return its id, or KR_SITE_SHED. */
uint32_t kr_shed_inspect(kr_cursor *c, kineto_site *site, uint32_t id);
/** Id of a site that is left out, or was: KR_SITE_SHED if it still is. 0: it is none such. */
uint32_t kr_shed_site(kineto_site *site);
/** Its id, also while it is left out. */
uint32_t kr_shed_site_id(const kineto_site *site);
/** Count a range that is left out. */
void kr_shed_count(kr_cursor *c);

/* ---- names.c: the dictionary ---- */
/** Register on first use. Returns the id; UINT32_MAX when the dictionary is full. */
uint32_t kr_site_register(kineto_site *site);
KB_INLINE uint32_t kr_site_id(kineto_site *site)
{
    uint32_t id = kb_load_acquire(&site->id);
    return KINETO_LIKELY(id) ? id : kr_site_register(site);
}
/** The same for a range that may be left out: KR_SITE_SHED if it is. */
uint32_t kr_site_id_slow(kr_cursor *c, kineto_site *site);
KB_INLINE uint32_t kr_site_id_or_shed(kr_cursor *c, kineto_site *site)
{
    uint32_t id = kb_load_acquire(&site->id);
    return KINETO_LIKELY(id && !c->inspect) ? id : kr_site_id_slow(c, site);
}
#define KR_SITE_FIXED    1u /* flag of a site: all args are single words */
#define KR_SITE_SHAPES   2u /* its only arg is SHAPES: what an operator carries */
#define KR_SITE_MUTED    8u /* left out: its id is 0, and known to shed.c */
#define KR_SITE_OVERLOAD 4u /* an operator: args[0].name is its overload */
/** String id of the bytes, the same for the same bytes where memory allows; 0: dictionary full. */
uint32_t kr_intern(const char *data, size_t bytes);
/** Is this the string with this id? 0 is none. */
bool kr_string_is(uint32_t id, const char *s);
/** The same of so many bytes. */
bool kr_bytes_are(uint32_t id, const char *data, size_t bytes);
/** The same, but a full dictionary is the caller's to count. */
uint32_t kr_intern_quiet(const char *data, size_t bytes);

/* ---- attach.c ---- */
extern kf_pool kr_pool; /* control == NULL: not attached */
KB_INLINE const kf_pool *kr_pool_get(void)
{
    return kb_load_acquire(&kr_pool.control) ? &kr_pool : NULL;
}

/** A fork's child in another pid namespace than the recorder: nothing is recorded in it. */
bool kr_process_is_foreign(void);
/** Is this the name that the process had when it attached, as far as the system keeps one? */
bool kr_process_has_name(const char *name, size_t size);
extern const uint64_t kr_closed_gate;

/** In a fork's child, where the kernel cannot wipe pages: it says anew who it is. */
void kr_process_forget(void);

/* ---- step.c ---- */
/** The same: its iterations are its own. */
void kr_steps_forget(void);

/* ---- host.c: profilers of plug-ins ---- */
void kr_host_exit(void);
/** The calling thread ends: what it left unfinished in builders is delivered. */
void kr_host_thread_exit(void);

/* ---- listen.c: who hears of operators ---- */
/** Pass an operator's id on. @return what to pop it with; 0: nobody listens. */
uint32_t kr_listen_push(uint32_t stack, uint64_t id);
void kr_listen_pop(uint32_t stack, uint32_t pushed_at);

/* ---- cursor.c: all of them ---- */
/** See every other thread of this process outside once (see inside.c), not all at the same time.
 *  `wait` is called between looks; false when it loses patience. */
bool kr_cursors_outside(bool (*wait)(uint32_t *turns, uint32_t patience_ms), uint32_t patience_ms);

/** Each cursor of a thread of this process. The thread may end meanwhile, and another one take the cursor. */
void kr_cursors_each(void (*visit)(kr_cursor *c, void *context), void *context);

/* ---- thread_names.c ---- */
/** The calling thread ends: its name in the system, if it has one of its own, as a record. */
void kr_thread_name_at_exit(kr_cursor *c);

/** pid << 32 | tid of the caller, without a system call once the thread is attached. */
uint64_t kr_identity(void);
static inline bool kr_lock_take(kb_lock *lock) { return kb_lock_take(lock, kr_identity()); }
#endif
