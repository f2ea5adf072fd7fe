/* Writers: one cursor per thread, and a second one for signal handlers that interrupt the first.
 *
 * The hot path touches the cursor, the site and the chunk, nothing else. `kr_me` is the only TLS.
 * Cursors live in pages that a fork's child sees zeroed, so that the child of any kind of fork
 * finds an empty cursor, takes the slow path and attaches as itself.
 *
 * Invariants of a cursor with a chunk:
 *   base <= at, and the words from `at` to the end of the chunk are zero until they are written;
 *   limit + depth == base + KF_CHUNK_WORDS: one word is reserved for the END of each open range;
 *   only the cursor's thread writes, and between kr_enter and kr_leave no signal handler does.
 * A record is published by the release store of its header (kr_commit): a reader that sees a header
 * sees the whole record.
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
    uint64_t *limit; /* end of the chunk less one word per open range, reserved for its END */
    uint64_t *base;  /* start of the chunk */
    uint32_t depth;  /* open ranges */
    uint8_t busy;    /* inside a record call: a signal handler must use `second` */
    uint8_t tsc;     /* ticks are the hardware counter */
    uint8_t in_use;  /* 0: zeroed by a fork, or a free slot */
    uint8_t is_second;
    uint32_t chunk;
    uint32_t epoch;      /* upper bits of ticks, as of the last full ones that ENDs rely on */
    uint32_t skip;       /* attempts to drop before a claim is tried again */
    uint64_t skip_while; /* room_key() then: when it changes there may be room at once */
    uint32_t source;     /* the source whose loss is counted when there is no room */
    uint32_t pid, tid;
    uint32_t serial, seq; /* identity in the pool; serial 0: none yet */
    struct kr_cursor *second;
    uint32_t ticks_clock;
    uint32_t name_id; /* string id of name, once it is in the dictionary */
    char name[KR_NAME_BYTES];
    /* Hash of the thread's name in the system that was recorded last; 0: none. */
    uint32_t system_name;
    uint16_t open[KF_MAX_DEPTH]; /* word offset, in this chunk, of each open range's BEGIN */
    /* See quiesce.c: the thread is inside a plug-in, or a plug-in's call of the host; and how many
     * such calls are nested in the first one. Read by other threads. */
    uint8_t in_plugin;
    uint8_t in_plugin_nested;
    /* Correlation ids passed on to listeners (listen.c), by stack: pushes not popped yet, and the
     * generation of listeners at each. They are void when pushed_epoch is not the listeners'. */
    uint16_t pushed_depth[2];
    uint32_t pushed_epoch;
    uint32_t pushed_at[2][KR_PUSH_DEPTH];
    uint64_t function_next, function_end; /* operator ids reserved for this thread */
    uint32_t number;                      /* of the thread, 0: none yet */
    uint32_t joined;  /* sessions of selected threads that this one joined: a bit per window */
    uint32_t inspect; /* ranges still to inspect for throttling, see throttle.c */
    uint32_t leaving; /* the previous chunk, until it is sealed */
    uint64_t *throttled_at; /* word of this chunk that counts throttled ranges; NULL: none yet */
    uint32_t stacks;        /* call stacks captured, to time some of them */
    uint8_t functions_off;  /* neither callbacks nor records of operators */
    uint8_t functions_fast; /* it has a number, a fast clock, and they are not off */
    void *callbacks;        /* of this thread: see callbacks.c */
    void *extras;           /* stacks and counters of this thread: see function_extras.c */
} kr_cursor;

/* Stand-ins that are always busy, so that the hot path needs no NULL test: before a thread is
 * attached, and while it attaches or exits. */
extern kr_cursor kr_unattached, kr_attaching;

#if defined(__GLIBC__) && defined(__GNUC__)
#define KR_TLS_MODEL __attribute__((tls_model("initial-exec")))
#else
#define KR_TLS_MODEL
#endif
extern __thread kr_cursor *kr_me KR_TLS_MODEL;

/* No other thread changes it while this one lives. Their attempts to claim the slot, which fail,
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

/** Begin and end a record call. A signal handler that interrupts the thread in between sees `busy`
 *  and uses the second cursor; the fences keep the compiler from moving stores across. */
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

/** Get room for `words` in a new chunk; called when at + words > limit. False: there is none, the
 *  loss was counted. */
bool kr_cursor_refill(kr_cursor *c, uint32_t words);

/** The same for what is not counted as a loss. */
bool kr_cursor_try_refill(kr_cursor *c, uint32_t words);

/** Room for `words`, or NULL (the loss was counted). */
KB_INLINE uint64_t *kr_room(kr_cursor *c, uint32_t words)
{
    /* A cursor without a chunk has at == limit == NULL. */
    if (KINETO_UNLIKELY((uintptr_t)c->limit - (uintptr_t)c->at < words * 8u) &&
        !kr_cursor_refill(c, words))
        return NULL;
    return c->at;
}

/** Room for the longest record and its END: what does not fit then fits nowhere. False: there is
 *  none, the loss was counted. */
KB_INLINE bool kr_room_for_longest(kr_cursor *c)
{
    const size_t most = (KF_MAX_RECORD_WORDS + 1) * sizeof(uint64_t);
    return (uintptr_t)c->limit - (uintptr_t)c->at >= most ||
           kr_cursor_refill(c, KF_MAX_RECORD_WORDS + 1);
}

/** Where a record that starts at `at` must end: the cursor's room, and the longest record. */
KB_INLINE const uint64_t *kr_record_limit(const kr_cursor *c, const uint64_t *at)
{
    KB_ASSERT(!KR_IN_USE(c) || (at >= c->base && at <= c->limit + c->depth));
    return KB_MIN(c->limit, at + KF_MAX_RECORD_WORDS);
}

/** Publish a record of `words` whose payload is written. It may reach into the words that are
 *  reserved for ENDs only when the thread exits. */
KB_INLINE void kr_commit(kr_cursor *c, uint64_t *at, uint64_t header, uint32_t words)
{
    KB_ASSERT(kf_header_words(header) == words && words > 0);
    KB_ASSERT(!KR_IN_USE(c) || (at == c->at && at + words <= c->limit + c->depth));
    kb_store_release(at, header);
    c->at = at + words;
}

/** Count a loss (or another ledger reason) of a source; without a pool there is nothing to
 *  count. */
void kr_count(uint32_t source, kf_reason reason, uint64_t n);

/* ---- record calls ---- */
/* Can this thread record at once? If not (a signal handler, a new thread, a fork's child, a machine
 * without a usable counter) the general path finds out why. */
KB_INLINE bool kr_ready(const kr_cursor *c) { return KINETO_LIKELY(!(c->busy | !c->tsc)); }

KB_INLINE bool kr_room_for(const kr_cursor *c, size_t words)
{
    return KINETO_LIKELY((uintptr_t)c->limit - (uintptr_t)c->at >= words * 8u);
}

/* Enter the range whose BEGIN is being written at `at` into the stack of open ranges, and reserve
 * the word of its END. @return its token. */
KB_INLINE kineto_range kr_range_opened(kr_cursor *c, const uint64_t *at)
{
    uint32_t depth = c->depth;
    KB_ASSERT(!KR_IN_USE(c) || (depth < KF_MAX_DEPTH && at == c->at && at < c->limit));
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
    KB_ASSERT(!KR_IN_USE(c) || (depth < KF_MAX_DEPTH && !c->is_second && c->busy));
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

/* An END has the lower 48 bits of its time; the decoder completes them from the record before it.
 * Where that record may be a day old, kr_epoch_begin first writes a record with the full time. */
#define KR_EPOCH_BITS 46
static inline uint32_t kr_epoch_of(uint64_t ticks) { return (uint32_t)(ticks >> KR_EPOCH_BITS); }
void kr_epoch_begin(kr_cursor *c, uint64_t ticks);

/* Close all ranges from `depth` inwards. There is room: it was reserved when the range was
 * opened. */
KB_INLINE void kr_end_write(kr_cursor *c, uint32_t depth, uint64_t ticks)
{
    KB_ASSERT(!KR_IN_USE(c) || (depth < c->depth && c->depth <= KF_MAX_DEPTH));
    if (KINETO_UNLIKELY(kr_epoch_of(ticks) != c->epoch))
        kr_epoch_begin(c, ticks);
    uint64_t *at = c->at;
    kb_store_release(at, kf_end(depth, ticks));
    c->at = at + 1;
    c->limit += c->depth - depth;
    c->depth = depth;
}

/** End a range of the signal cursor, one with unclosed ranges inside, or ignore a token that is not
 *  of an open range of this thread. */
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

/* Discard a record that was begun at `at` and not committed: readers rely on there being only zeros
 * after the last record. */
static inline void kr_undo(kr_cursor *c)
{
    const uint64_t *limit = kr_record_limit(c, c->at);
    memset(c->at, 0, (size_t)(limit - c->at) * sizeof *c->at);
}

/** Write a THREAD_NAME record if the cursor has a name and a chunk. Entered cursors only. */
void kr_cursor_put_name(kr_cursor *c);
kineto_status kr_threads_init(void);

/* ---- unit_cost.c: the cost of recording itself ---- */
/** Measure what records cost on this machine, before anything is recorded. */
void kr_cost_calibrate(kf_control *control);
void kr_cost_add(kf_cost what, uint64_t ticks, uint64_t calls);

/* ---- throttle.c: frequent short ranges are dropped to stay within the budget ---- */
#define KR_SITE_THROTTLED (UINT32_MAX - 1) /* in place of a site's id: drop this range */
/** The cursor's chunk is full and still its own: find sites to throttle in it. */
void kr_throttle_scan_chunk(kr_cursor *c);
/** A range of this site begins while c->inspect > 0. @return its id, or KR_SITE_THROTTLED. */
uint32_t kr_throttle_inspect(kr_cursor *c, kineto_site *site, uint32_t id);
/** Id of a muted site: KR_SITE_THROTTLED if it is still to be dropped, else its own id, which is
 *  restored. 0: the site was never muted. */
uint32_t kr_throttle_site(kineto_site *site);
/** Id of a muted site, also while it is throttled; 0: it was never muted. */
uint32_t kr_throttle_site_id(const kineto_site *site);
/** Count a dropped range. */
void kr_throttle_count(kr_cursor *c);

/* ---- dictionary.c: sites and interned strings ---- */
/** Register on first use. Returns the id; UINT32_MAX when the dictionary is full. */
uint32_t kr_site_register(kineto_site *site);
KB_INLINE uint32_t kr_site_id(kineto_site *site)
{
    uint32_t id = kb_load_acquire(&site->id);
    return KINETO_LIKELY(id) ? id : kr_site_register(site);
}
/** The same for a range that may be throttled: KR_SITE_THROTTLED if it is. */
uint32_t kr_site_id_slow(kr_cursor *c, kineto_site *site);
KB_INLINE uint32_t kr_site_id_or_throttled(kr_cursor *c, kineto_site *site)
{
    uint32_t id = kb_load_acquire(&site->id);
    return KINETO_LIKELY(id && !c->inspect) ? id : kr_site_id_slow(c, site);
}
#define KR_SITE_FIXED    1u /* flag of a site: all args are single words */
#define KR_SITE_SHAPES   2u /* its only arg is SHAPES: what an operator carries */
#define KR_SITE_MUTED    8u /* throttled: its id is 0, and stored in throttle.c */
#define KR_SITE_OVERLOAD 4u /* an operator: args[0].name is its overload */
/** String id of the bytes, the same for the same bytes where memory allows; 0: the dictionary is
 *  full, which was counted as a loss of the API source. */
uint32_t kr_intern(const char *data, size_t bytes);
/** The same; the caller counts a full dictionary. */
uint32_t kr_intern_quiet(const char *data, size_t bytes);
/** Is this the string with this id? False for id 0. */
bool kr_string_is(uint32_t id, const char *s);
bool kr_bytes_are(uint32_t id, const char *data, size_t bytes);

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

/** In a fork's child, where the kernel cannot wipe pages: it registers as a new process. */
void kr_process_forget(void);

/* ---- step.c ---- */
/** The same for its iterations: the child counts its own. */
void kr_steps_forget(void);

/* ---- host.c: profilers of plug-ins ---- */
void kr_host_exit(void);
/** The calling thread ends: deliver the events that it left unfinished in builders. */
void kr_host_thread_exit(void);

/* ---- listen.c: plug-ins that receive correlation ids ---- */
/** Pass an operator's id on. @return the generation to pop it with; 0: there are no listeners. */
uint32_t kr_listen_push(uint32_t stack, uint64_t id);
void kr_listen_pop(uint32_t stack, uint32_t pushed_at);

/* ---- cursor.c: all cursors ---- */
/** Wait until every other thread of this process was seen outside once (see quiesce.c); not all at
 *  the same time. `wait` is called between two tries; its result false gives up. */
bool kr_cursors_wait_outside(bool (*wait)(uint32_t *turns, uint32_t limit_ms), uint32_t limit_ms);

/** Visit the first cursor of each thread of this process. The thread may end meanwhile, and its
 *  cursor be claimed by another thread. */
void kr_cursors_each(void (*visit)(kr_cursor *c, void *context), void *context);

/* ---- own_thread_names.c ---- */
/** The calling thread ends: record its name in the system, if it has one of its own. */
void kr_thread_name_at_exit(kr_cursor *c);

/** pid << 32 | tid of the caller, without a system call once the thread is attached. */
uint64_t kr_identity(void);
static inline bool kr_lock_take(kb_lock *lock) { return kb_lock_take(lock, kr_identity()); }
#endif
