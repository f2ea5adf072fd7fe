/* Python functions as ranges: what the parts of this library share.
 *
 * It is an extension module of CPython and a client of libckineto-rt. Two binaries come from these
 * sources: stacks_profile.c hooks Python 3.9 to 3.11 by a profile function for each thread,
 * stacks_monitoring.c later versions by sys.monitoring. Both see the limited API only, which hides
 * the layout of CPython's structs, so that one binary serves all its versions. Builds without the GIL
 * have a binary for each version, from the same sources.
 *
 *   stacks_names.c    names of code objects, modules and C functions
 *   stacks_lanes.c    a lane for each thread: the functions that are running there
 *   stacks_windows.c  begin and end of sessions; rows written on behalf of other threads
 *   stacks_core.c     options, start and stop, the functions of the extension module
 *
 * A function becomes one record when it ends. It is not a range that is opened and closed on the
 * thread: closing such a range closes all that was opened inside, and `__enter__` of an annotation
 * returns while its annotation is open. So rows nest by their times alone.
 *
 * Locks: the GIL protects names and options. Builds without the GIL call the hooks on several threads at
 * once: there a lock of stacks_names.c protects names, with a cache for each thread, and start and stop
 * exclude each other; their library sees the whole API, since there is no limited one. Entries of a lane are written by
 * its own thread without a lock. To read them from another thread without the GIL, take cs_lock,
 * change the epoch (so that every thread's next event enters cs_lane_attend, which takes the lock),
 * issue a memory barrier on all threads and wait until the lane's `inside` is false. */
#ifndef CKINETO_STACKS_H
#define CKINETO_STACKS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <ckineto/plugin.h>
#include <ckineto/record.h>

#include <pthread.h>
#include <stdatomic.h>

#define CS_SOURCE "Python functions" /* in the ledger, and as a plug-in */
#define CS_LOCAL __attribute__((visibility("hidden")))
#define CS_COLD   __attribute__((cold, noinline))

/* ---- names ----------------------------------------------------------------------------------- */

enum {
    CS_IS_HIDDEN = 1, /* ckineto's own: it takes part in nesting and has no row */
    CS_IS_CALL = 2,   /* the code of nn.Module.__call__ */
    CS_IS_MODULE = 4, /* an instance of nn.Module */
    CS_IS_C = 8,      /* a function in C */
    CS_IS_PLAIN = 16, /* without ids: not a function at all */
    CS_IS_OUTSIDE = 32, /* of a file that the filter excludes: it is never entered into a lane */
    CS_ENDS_PROCESS = 64 /* a function in C that does not come back, such as os._exit */
};

/* A name with its sites. Never freed: recordings may refer to sites as long as the process
 * lives. */
typedef struct cs_name {
    kineto_site site, root; /* root: the same for a row without a parent */
    int64_t number;         /* of a module among those of its class; of a class: how many there are */
    uint32_t flags;         /* CS_IS_… */
    uint32_t bytes;
    struct cs_name *next;
    char text[];
} cs_name;

/* From objects to names, by address. An entry goes when its object does: `guard` is a weak
 * reference to it (or, where there can be none, the object itself), so a reused address is never
 * mistaken. */
typedef struct cs_slot {
    const void *key, *more; /* key NULL: free */
    cs_name *name;
    PyObject *guard;
} cs_slot;

typedef struct cs_table {
    cs_slot *slots;
    size_t mask, used;
} cs_table;

extern CS_LOCAL cs_table cs_codes;

static inline size_t cs_slot_hash(const void *key, const void *more)
{
    uint64_t h = ((uint64_t)(uintptr_t)key ^ (uint64_t)(uintptr_t)more << 21) *
                 UINT64_C(0x9e3779b97f4a7c15);
    return (size_t)(h >> 32);
}

/* NULL: not there. */
static inline cs_slot *cs_table_find(const cs_table *t, const void *key, const void *more)
{
    for (size_t i = cs_slot_hash(key, more);; i++) {
        cs_slot *slot = &t->slots[i & t->mask];
        if (slot->key == key && slot->more == more)
            return slot;
        if (!slot->key)
            return NULL;
    }
}

/** Sequences of bytes: folders that are cut off file names, longest match first as given; folders of
 *  ckineto's own; the packages and modules that are recorded (the filter; none: all). 0, or -1 with
 *  an exception. */
CS_LOCAL int cs_names_configure(PyObject *prefixes, PyObject *own_folders, PyObject *only);
/** Name of a code object that is not in the table yet. NULL: out of memory. */
CS_LOCAL cs_name *cs_name_new_code(PyObject *code);
/** Name of an instance of nn.Module; NULL if it cannot be named. */
CS_LOCAL cs_name *cs_name_module(PyObject *module);
/** Name of a function in C; `first` is the first argument of a method descriptor, or NULL. */
CS_LOCAL cs_name *cs_name_c_function(PyObject *callable, PyObject *first);
/** The process ends: report the names of the filter that no function had. */
CS_LOCAL void cs_names_report_unused(void);
/** Release the objects that names of C functions keep alive. */
CS_LOCAL void cs_names_release(void);
/** Functions in C that are called by hidden functions: hidden as well. */
extern CS_LOCAL cs_name cs_hidden_c_function;
/** The name of an activity of the interpreter itself, such as a collection of garbage. */
CS_LOCAL cs_name *cs_name_plain(const char *text, uint32_t flags);

/** Look for the code of nn.Module.__call__, if PyTorch is loaded. */
CS_LOCAL void cs_find_call_code(void);

#ifdef Py_GIL_DISABLED
/** Name of a code object, new or known. */
CS_LOCAL cs_name *cs_name_code(PyObject *code);
/** Around fork(): no other thread holds the lock of names then. */
CS_LOCAL void cs_names_lock(void);
CS_LOCAL void cs_names_unlock(void);
#else
static inline cs_name *cs_name_code(PyObject *code)
{
    const cs_slot *slot = cs_table_find(&cs_codes, code, NULL);
    return KINETO_LIKELY(slot != NULL) ? slot->name : cs_name_new_code(code);
}
static inline void cs_names_lock(void) {}
static inline void cs_names_unlock(void) {}
#endif

/* ---- state ----------------------------------------------------------------------------------- */

typedef struct cs_state {
    atomic_uint epoch;     /* changes when lanes have to be brought up to date; never 0 */
    atomic_bool recording; /* a session of ours runs: see stacks_windows.c */
    bool active;           /* started, and hooks are installed; with the GIL */
    bool functions, modules, c_functions, collections; /* options */
    bool has_filter;       /* some functions may be CS_IS_OUTSIDE */
    _Atomic uint64_t last_id;  /* of the blocks of "Python id" that lanes took */
    _Atomic uint64_t too_deep; /* functions that were too deep for their lane */
    PyObject *call_code;   /* code of nn.Module.__call__; NULL while there is none */
    atomic_uint pid;
} cs_state;
extern CS_LOCAL cs_state cs;

/* ---- lanes ----------------------------------------------------------------------------------- */

/* A function that is running. */
typedef struct cs_entry {
    const void *key; /* its code object, or its callable in C; only compared */
    cs_name *name;
    uint64_t id;    /* "Python id"; of a hidden one: its parent's */
    uint64_t start; /* ticks */
} cs_entry;

#define CS_MAX_DEPTH 65536u

/* Running functions of a thread, outermost first from entries[1]; entries[0] stands for none. */
typedef struct cs_lane {
    atomic_uint epoch; /* equal to cs.epoch: entries are the thread's frames, nothing else to do */
    atomic_bool inside;
    bool check_next;    /* the next function that begins may be there already */
    uint32_t synced;    /* epoch in which the entries were last brought up to date; 0: they are void */
    uint32_t idle;      /* epoch in which the thread was seen while no session recorded */
    atomic_uint depth;
    uint32_t capacity;  /* entries after entries[0] */
    uint32_t beyond;    /* functions that are running below CS_MAX_DEPTH */
    cs_entry *entries;
    uint32_t pid, tid;  /* 0: the thread was not seen yet */
    uint64_t last_id;   /* "Python id" that was given out last */
    bool has_owner;     /* false: a placeholder for a thread that made no call in this recording */
    struct cs_lane *next, **link;
} cs_lane;

/** A new lane of a thread, in the list of all; NULL: out of memory. */
CS_LOCAL cs_lane *cs_lane_new(bool has_owner);
/** The lane's thread ends: write rows of the functions that are still running, and free the
 *  lane. */
CS_LOCAL void cs_lane_free(cs_lane *lane);
/** Discard a lane's entries without rows; with the lock, or by its own thread. */
CS_LOCAL void cs_lane_forget(cs_lane *lane);

/** The slow path of an event: the lane's epoch is not the present one, or no session records.
 *  `frame` is the frame of the event; `begins` is true when its function begins, so that it is not
 *  running yet. False: no session records, and the event is to be ignored. */
CS_LOCAL bool cs_lane_attend(cs_lane *lane, PyObject *frame, bool begins);
/** Make room for more entries. False: the lane has CS_MAX_DEPTH, or memory ran out. */
CS_LOCAL bool cs_lane_grow(cs_lane *lane);
/** Write the row of an entry that is hidden or has no parent; by its own thread, ending now. */
CS_LOCAL void cs_record_slow(const cs_entry *entry);
/** Add placeholder lanes for threads that made no call since recording began; needs the GIL.
 *  `threads` maps identifiers of Python to those of the kernel. */
CS_LOCAL void cs_lanes_add_placeholders(PyObject *threads);
CS_LOCAL void cs_lanes_drop_placeholders(void);

/* The lock of the list of lanes, and of what belongs to sessions. Held for short times; nothing
 * that may need the GIL is done with it. */
extern CS_LOCAL pthread_mutex_t cs_lock;
extern CS_LOCAL cs_lane *cs_lanes;

/* Between cs_enter and cs_leave a thread changes its own entries. Entering is a plain store: the
 * signal fence keeps the compiler from moving it, and the thread that reads the entries issues the
 * memory barrier instead (stacks_windows.c). */
static inline void cs_enter(cs_lane *l)
{
    atomic_store_explicit(&l->inside, true, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst);
}
static inline void cs_leave(cs_lane *l)
{
    atomic_store_explicit(&l->inside, false, memory_order_release);
}

/** May the event take the fast path? Call it after cs_enter only: the order is the invariant that
 *  makes the reader's barrier sufficient. */
static inline bool cs_is_current(const cs_lane *l)
{
    return KINETO_LIKELY(kineto_enabled(KINETO_KIND_PYTHON_FUNCTION) &&
                         atomic_load_explicit(&cs.epoch, memory_order_relaxed) ==
                             atomic_load_explicit(&l->epoch, memory_order_relaxed));
}

static inline uint32_t cs_depth(const cs_lane *l)
{
    return atomic_load_explicit(&l->depth, memory_order_relaxed);
}
static inline void cs_set_depth(cs_lane *l, uint32_t depth)
{
    atomic_store_explicit(&l->depth, depth, memory_order_relaxed);
}

/** A new "Python id", from a block of the lane: a counter of all threads would be slow without the GIL. */
static inline uint64_t cs_next_id(cs_lane *l)
{
    enum { BLOCK = 1024 };
    if (KINETO_UNLIKELY(l->last_id % BLOCK == 0))
        l->last_id = atomic_fetch_add_explicit(&cs.last_id, BLOCK, memory_order_relaxed);
    return ++l->last_id;
}

/** A function begins. The lane is entered and has room for one more entry. */
static inline void cs_push(cs_lane *l, const void *key, cs_name *name)
{
    uint32_t depth = cs_depth(l);
    cs_entry *e = &l->entries[depth + 1];
    e->key = key;
    e->name = name;
    e->id = name->flags & CS_IS_HIDDEN ? e[-1].id : cs_next_id(l);
    e->start = kineto_record_ticks();
    cs_set_depth(l, depth + 1);
}

/** Write the row of a function that ends now on its own thread. */
static inline void cs_record(const cs_entry *e)
{
    cs_name *name = e->name;
    if (KINETO_UNLIKELY(!e[-1].id || (name->flags & CS_IS_HIDDEN))) {
        cs_record_slow(e);
        return;
    }
    kineto_value values[3] = {
        {.i = (int64_t)e->id}, {.i = (int64_t)e[-1].id}, {.i = name->number}};
    kineto_record_past(&name->site, e->start, values);
}

/** The innermost function ends: write its row. The lane is entered and not empty. */
static inline void cs_pop(cs_lane *l)
{
    uint32_t depth = cs_depth(l);
    cs_record(&l->entries[depth]);
    cs_set_depth(l, depth - 1);
}

/** No session records, and the lane has no entries to discard: the event needs no work. */
static inline bool cs_is_idle(const cs_lane *l)
{
    return !kineto_enabled(KINETO_KIND_PYTHON_FUNCTION) && !l->synced &&
           l->idle == atomic_load_explicit(&cs.epoch, memory_order_relaxed);
}

/* ---- events, from either kind of hook ---------------------------------------------------------
 * `frame` may be NULL where the hook does not have it: cs_current_frame finds it. */

/** The frame that is running in this thread, a new reference; NULL if there is none. */
CS_LOCAL PyObject *cs_current_frame(void);
/** The value of `self` in a frame of nn.Module.__call__, a new reference; NULL if there is none. */
CS_LOCAL PyObject *cs_frame_self(PyObject *frame);

/** Slow paths of cs_begin, cs_end and cs_end_c: they bring the lane up to date first. */
CS_LOCAL void cs_begin_slow(cs_lane *l, const void *key, cs_name *name, PyObject *frame);
CS_LOCAL void cs_end_slow(cs_lane *l, const void *key, PyObject *frame);
CS_LOCAL void cs_end_c_slow(cs_lane *l, const void *key);
/** The name of a frame's code, or of the module that is called there. NULL: out of memory, or the
 *  filter excludes it. */
CS_LOCAL cs_name *cs_name_of_frame(PyObject *code, PyObject *frame);

/** Does the filter exclude the functions of this code? */
static inline bool cs_is_outside(PyObject *code)
{
    if (KINETO_LIKELY(!cs.has_filter))
        return false;
    const cs_name *name = cs_name_code(code);
    return name && (name->flags & CS_IS_OUTSIDE);
}

/** A function with this name begins. `key` is its code object, or its callable in C. */
static inline void cs_begin(cs_lane *l, const void *key, cs_name *name, PyObject *frame)
{
    cs_enter(l);
    if (KINETO_LIKELY(cs_is_current(l) && cs_depth(l) < l->capacity)) {
        cs_push(l, key, name);
        cs_leave(l);
        return;
    }
    cs_leave(l);
    cs_begin_slow(l, key, name, frame);
}

/** The function with this code object ends. */
static inline void cs_end(cs_lane *l, const void *key, PyObject *frame)
{
    cs_enter(l);
    if (KINETO_LIKELY(cs_is_current(l) && l->entries[cs_depth(l)].key == key)) {
        cs_pop(l);
        cs_leave(l);
        return;
    }
    cs_leave(l);
    if (!cs_is_idle(l))
        cs_end_slow(l, key, frame);
}

/** The function in C with this callable ends. */
static inline void cs_end_c(cs_lane *l, const void *key)
{
    cs_enter(l);
    if (KINETO_LIKELY(cs_is_current(l) && l->entries[cs_depth(l)].key == key)) {
        cs_pop(l);
        cs_leave(l);
        return;
    }
    cs_leave(l);
    if (!cs_is_idle(l))
        cs_end_c_slow(l, key);
}

/** Write rows of all functions that are running in all threads, and start a new epoch. With or
 *  without the GIL. */
CS_LOCAL void cs_windows_flush(void);

/** A function in C begins. One that ends the process is the last event: all functions that are
 *  running have their rows before it. */
static inline void cs_begin_c(cs_lane *l, const void *key, cs_name *name, PyObject *frame)
{
    const cs_name *caller = l->entries[cs_depth(l)].name; /* NULL: none */
    if (KINETO_UNLIKELY(caller && (caller->flags & CS_IS_HIDDEN)))
        name = &cs_hidden_c_function;
    cs_begin(l, key, name, frame);
    if (KINETO_UNLIKELY(name->flags & CS_ENDS_PROCESS)) {
        cs_windows_flush();
        cs_names_report_unused();
    }
}

/** A Python function begins: find the name of its code, or of the module that it calls. */
static inline void cs_begin_code(cs_lane *l, PyObject *code, PyObject *frame)
{
    if (KINETO_UNLIKELY(!kineto_enabled(KINETO_KIND_PYTHON_FUNCTION))) {
        if (!cs_is_idle(l))
            cs_begin_slow(l, code, NULL, frame);
        return;
    }
    cs_name *name = cs_name_code(code);
    if (KINETO_UNLIKELY(!name || (name->flags & (CS_IS_CALL | CS_IS_OUTSIDE))))
        name = cs_name_of_frame(code, frame);
    if (KINETO_LIKELY(name != NULL))
        cs_begin(l, code, name, frame);
}

/* ---- sessions -------------------------------------------------------------------------------- */

/** Register as a plug-in, whose callbacks report the begin and end of sessions. Without the GIL. */
CS_LOCAL void cs_windows_register(void);
/** Start a new epoch: every thread rebuilds its lane, and functions found then begin now. */
CS_LOCAL void cs_windows_renew(void);
/** When the present epoch began. With the lock. */
CS_LOCAL uint64_t cs_windows_began(void);
/** Write the row of a function on any thread, while a session runs; with the lock held. */
CS_LOCAL void cs_emit(const cs_lane *lane, const cs_entry *entry, uint64_t end);

/* ---- the hook: stacks_profile.c or stacks_monitoring.c ---------------------------------------- */

/** Install hooks in all threads according to cs's options, or change those that are installed.
 *  False: that is impossible, and *why is a sentence in static storage. */
CS_LOCAL bool cs_hook_install(const char **why);
/** Remove the hooks, and restore the interpreter's state. */
CS_LOCAL void cs_hook_remove(void);
/** Create what lasts as long as the process. 0, or -1 with an exception. */
CS_LOCAL int cs_hook_init(void);
/** "profile" or "monitoring". */
extern CS_LOCAL const char cs_hook_name[];

#endif
