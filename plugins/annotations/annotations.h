/* The front that the sources of annotations share (NVTX, ITT, ROCTX): ranges, moments and names that
 * a program reports become records. Each source is a library with its own copy of this code and
 * state; what differs between them is in one structure, cn_source.
 *
 *   text.c       events that have only a text
 *   threads.c    open ranges of each thread; ranges of different domains that cross
 *   process.c    ranges with ids, which may end on any thread
 *   names.c      interned texts; sites for texts that recur
 *   shapes.c     the arguments of an event: one description for all events with the same ones
 *   domains.c    domains, names that one thread gives to another
 *   tally.c      notes in the ledger
 *
 * While no session records, an event costs a load and a branch. While one does, an event takes no
 * lock and no memory, except for the first events of a kind. Handles and ids that the front gives
 * out are numbers, so that nothing that a program passes is ever used as an address of ours.
 */
#ifndef CN_ANNOTATIONS_H
#define CN_ANNOTATIONS_H

#include <ckineto/record.h>

#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#define CN_COLD      __attribute__((noinline, cold))
#define CN_NOINLINE  __attribute__((noinline))
#define CN_LIKELY(x) __builtin_expect(!!(x), 1)
#define CN_COUNT(a)  (sizeof(a) / sizeof((a)[0]))
#define CN_MIN(a, b) ((a) < (b) ? (a) : (b))
#if defined(__GLIBC__) && defined(__GNUC__)
#define CN_TLS __attribute__((tls_model("initial-exec")))
#else
#define CN_TLS
#endif

static inline bool cn_recording(void) { return kineto_enabled(KINETO_KIND_USER_ANNOTATION); }

/* Of a domain, a registered string or a resource. */
typedef void *cn_handle;

/* ---- the source ------------------------------------------------------------------------------ */

/** A note in the ledger that a source counts. */
typedef struct cn_tally_kind {
    bool is_loss;
    const char *reason, *detail;
} cn_tally_kind;
typedef struct cn_arg_list cn_arg_list;

/** What differs between the sources; each defines it once. */
typedef struct cn_source {
    /* In lines of the ledger; name of events without a name of their own. */
    const char *name, *site_name;
    /* Its own notes, numbered from CN_TALLY_FRONT_COUNT. */
    const cn_tally_kind *tallies;
    uint32_t tally_count;
    /* Describes the arguments that cn_key.payloads[i] stands for; NULL: it has none. */
    void (*describe_payload)(cn_arg_list *list, const void *payload);
} cn_source;
extern const cn_source cn_this_source;

/* ---- tally.c --------------------------------------------------------------------------------- */

/** Notes that all sources have: X(NAME, 1 if events are lost, "reason", "detail"). */
#define CN_FRONT_TALLY_MAP(X)                                                                      \
    X(POP_ALONE, 0, "pops without a push",                                                         \
      "the program popped a range that it had not pushed on that thread and in that domain since " \
      "recording began")                                                                           \
    X(END_ALONE, 0, "ends of ranges that are not open",                                            \
      "the program ended a range that had ended, or whose begin was not recorded")                 \
    X(CROSSED, 0, "ranges continued as another piece",                                             \
      "a range ended while a later one of another domain or interface was open on its thread: "    \
      "what was open goes on as a range with the argument \"continued\"")                          \
    X(TOO_DEEP, 1, "ranges nested too deeply", "256 are open on a thread at most")                 \
    X(BUSY, 1, "events inside of events", "a signal handler interrupted the recording of another") \
    X(NO_THREAD, 1, "events of threads without memory", "no memory for what is open on a thread")  \
    X(KEYED, 1, "ranges with ids that were not kept", "4096 are open at most")                     \
    X(DOMAINS, 0, "domains without a name of their own",                                           \
      "there are more than 1023: events of further ones have the domain \"(other domains)\"")      \
    X(STRINGS, 0, "registered strings that were not kept",                                         \
      "there are more than 32768, or no memory: their events have no name")                        \
    X(SHAPES, 0, "events without their arguments",                                                 \
      "there are more than 1024 combinations of arguments")                                        \
    X(CUT, 0, "texts and lists that were cut", "6 KiB of an event are converted")                  \
    X(HANDLE, 0, "invalid handles", "treated as the default domain or as no text")

enum {
#define CN_X(name, loss, reason, detail) CN_TALLY_##name,
    CN_FRONT_TALLY_MAP(CN_X)
#undef CN_X
        CN_TALLY_FRONT_COUNT
};
/* Of all notes of a source. */
#define CN_MAX_TALLIES 40u
/** Count one. The ledger gets the first at once, then a line each time that the count has
 * doubled. */
CN_COLD void cn_count(uint32_t what);
void cn_tally_forked(void);
uint64_t cn_tally_count(uint32_t what);

/* ---- names.c --------------------------------------------------------------------------------- */

typedef struct cn_shape cn_shape;

/** The site of a text and a shape. Never freed: the recorder may read sites at any time. */
typedef struct cn_named_site {
    const cn_shape *shape;
    struct cn_named_site *next;
    kineto_site site;
} cn_named_site;

/** An interned text, with the sites of events that have it as their name. Never freed. */
typedef struct cn_name {
    uint64_t hash;
    uint32_t size, index;
    _Atomic(cn_named_site *) places;
    char text[]; /* NUL-terminated */
} cn_name;

#define CN_MAX_NAMES       32768u
#define CN_MAX_NAMED_SITES 4096u
/* Bytes of the recording's dictionary that our sites may take: all sources share it. */
#define CN_MAX_SITE_BYTES (UINT32_C(256) << 10)
#define CN_MAX_TEXT       65535u

/** Memory that is never freed; NULL: the limit is reached. The caller holds the lock. */
void *cn_alloc_permanent(size_t bytes);
/** Take the lock of all tables. False, and not taken: this thread holds it already (a signal
 * handler), or another one has held it for very long. */
bool cn_tables_lock(void);
void cn_tables_unlock(void);

/** The name with these bytes, added if there is none; NULL: no space. */
const cn_name *cn_name_intern(const char *text, size_t size);
/** The name that a handle stands for; NULL: none. */
const cn_name *cn_name_from_handle(cn_handle handle);
static inline cn_handle cn_name_handle(const cn_name *name)
{
    return name ? (cn_handle)(uintptr_t)(name->index + 1u) : NULL;
}
/** The name of a text that has come twice from the same address; else NULL. */
const cn_name *cn_name_seen(const char *text);
/** The site of a name and shape, added if there is none; NULL: the limit is reached. */
kineto_site *cn_get_named_site(const cn_name *name, const cn_shape *shape);

/* ---- shapes.c -------------------------------------------------------------------------------- */

#define CN_MAX_SHAPES   1024u
#define CN_MAX_PAYLOADS 4u
enum { /* of cn_key.flags, in the order of the arguments; the simple payload is between CONTINUED and ID */
       CN_HAS_DOMAIN = 1,
       CN_HAS_CATEGORY = 2,
       CN_HAS_CATEGORY_NAME = 4,
       CN_HAS_COLOR = 8,
       CN_HAS_CONTINUED = 16,
       CN_PAYLOAD_SHIFT = 5, /* three bits: the KINETO_ARG_… type of a simple payload */
       CN_HAS_ID = 256,
       CN_HAS_PARENT = 512,
       CN_HAS_FRAME = 1024,
       CN_SIMPLE_SHAPES = 2048
};
/** Identifies a shape: which arguments an event has. */
typedef struct cn_key {
    uint32_t flags, payload_count;
    const void *payloads[CN_MAX_PAYLOADS];
} cn_key;

struct cn_shape {
    /* Of events whose names have no site of their own. */
    kineto_site site;
    cn_key key;
    uint32_t index;
    /* Fields beyond the maximum of arguments. */
    uint32_t left_out;
    /* That a site with these arguments takes in the dictionary. */
    uint32_t bytes;
    kineto_arg_desc args[];
};
/** The arguments of a shape while they are described. */
struct cn_arg_list {
    kineto_arg_desc args[KINETO_SITE_MAX_ARGS];
    uint32_t count, left_out;
};
/** Add one argument, or count it as left out. */
void cn_describe_arg(cn_arg_list *list, const char *name, uint32_t type);

extern cn_shape cn_plain; /* of events without arguments */

/** The shape of a key, added if there is none; NULL: the limit is reached. */
const cn_shape *cn_shape_get(const cn_key *key);
/* Shapes without payloads, by their flags. */
extern _Atomic(cn_shape *) cn_simple_shapes[CN_SIMPLE_SHAPES];
/** The same for flags alone. */
static inline const cn_shape *cn_shape_of_flags(uint32_t flags)
{
    const cn_shape *shape = atomic_load_explicit(&cn_simple_shapes[flags], memory_order_acquire);
    return CN_LIKELY(shape != NULL) ? shape : cn_shape_get(&(cn_key){.flags = flags});
}
const cn_shape *cn_shape_at(uint32_t index);
static inline kineto_site *cn_shape_site(const cn_shape *shape)
{
    return (kineto_site *)(uintptr_t)&shape->site; /* the recorder writes its id into it */
}

/* ---- domains.c ------------------------------------------------------------------------------- */

#define CN_MAX_DOMAINS 1024u

/** Number of a domain; 0 is the default domain, which has no name. */
uint32_t cn_domain_from_handle(cn_handle handle);
const char *cn_domain_name(uint32_t domain);
/** The domain with this name, created if there is none. */
cn_handle cn_domain_create(const char *name);
/** Intern a text and return its handle; NULL: there are too many, which is counted. */
cn_handle cn_string_register(cn_handle domain, const char *text);
/** Name the calling thread if another thread has named it. */
void cn_thread_name_apply(uint32_t tid);
/* Changes when a thread was named by another one. */
extern atomic_uint cn_thread_names;
void cn_thread_name(uint32_t tid, const char *name);
/** Put the name of a stream, context or device into the header of the trace. */
void cn_resource_name(const char *what, uint64_t id, const char *name);

/* ---- threads.c ------------------------------------------------------------------------------- */

#define CN_MAX_OPEN 256u

/** An open range of a thread. */
typedef struct cn_open_range {
    kineto_range range;     /* 0: it is not recorded */
    uint64_t id;            /* that the program gave it; 0: none */
    uint16_t domain, level; /* level: among those of its domain */
    bool is_mixed;          /* an outer range belongs to another domain */
    uint32_t name_at; /* offset in cn_thread.text of its name, if it has no site; else UINT32_MAX */
    const kineto_site *site;
} cn_open_range;

/** The open ranges of a thread. Only the thread itself changes it, except `in_use`. */
typedef struct cn_thread {
    /* An event is being handled: events of signal handlers are dropped. `is_ending`: the stack is whole all
     * the same, while a range of it ends. */
    bool busy, is_ending;
    atomic_bool in_use;
    /* Open ranges that are stored; those beyond the limit. */
    uint32_t count, over;
    uint32_t names_seen, tid;
    uint32_t text_used;
    cn_open_range open[CN_MAX_OPEN];
    char text[2000];
} cn_thread;

extern __thread cn_thread *cn_this_thread CN_TLS;

/** True if a push or pop has anything to do. */
static inline bool cn_has_work(void)
{
    const cn_thread *t = cn_this_thread;
    return cn_recording() || (t && t->count + t->over);
}

/** An event, converted for the recording. */
typedef struct cn_event {
    uint32_t domain;
    const cn_shape *shape;
    const char *text;    /* its name */
    const cn_name *name; /* its name as a registered string; NULL: see text */
    const kineto_value *values;
    uint64_t id;    /* by which cn_find_open finds it; 0: none */
    bool is_hidden; /* a range that only keeps the levels right */
} cn_event;
/* Result of push and pop if levels are not tracked: nothing records and no range is open. */
#define CN_NO_TRACKING (-2)
int cn_push(const cn_event *event);
int cn_pop(uint32_t domain);
/** The innermost open range of a domain on this thread; 0: none, or it is not recorded. */
kineto_range cn_find_innermost(uint32_t domain);
/** The open range of a domain with this id on this thread; 0: none, or it is not recorded. */
kineto_range cn_find_open(uint32_t domain, uint64_t id);
/** The site of an event whose name has come before; else NULL. */
kineto_site *cn_event_site(const cn_event *event);
kineto_props cn_event_props(const cn_event *event);
/** Record a moment, by its site if it has one. */
void cn_mark_event(const cn_event *event);

/* ---- process.c ------------------------------------------------------------------------------- */

/* Id of ranges that are not recorded. */
#define CN_NOT_RECORDED UINT64_C(1)
uint64_t cn_start(const cn_event *event);
void cn_end(uint64_t id);
/** A range that is found by a key, not 0, which the source makes of what the program passes. */
void cn_start_keyed(uint64_t key, const cn_event *event);
void cn_end_keyed(uint64_t key);
void cn_process_forked(void);

/* ---- text.c ---------------------------------------------------------------------------------- */

int cn_range_push(const char *text);
int cn_range_pop(void);
void cn_mark(const char *text);
uint64_t cn_range_start(const char *text);
void cn_range_end(uint64_t id);

#endif
