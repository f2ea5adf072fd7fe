/* The NVTX source: NVTX calls of a program and its libraries become ranges, moments and counters of
 * the recording.
 *
 *   inject.c     entry points: filling in the function tables of each copy of NVTX's header
 *   events.c     ranges and moments: from NVTX's attributes to a site and its values
 *   threads.c    open ranges of each thread; ranges of different domains that cross
 *   process.c    ranges with ids, which may end on any thread
 *   names.c      interned texts; sites for texts that recur
 *   shapes.c     the arguments of an event: one description for all events with the same ones
 *   domains.c    domains, categories, names of threads and streams
 *   schemas.c    layouts of binary payloads, as registered
 *   payload.c    reading binary payloads
 *   write.c      values of payloads that have no type of their own, as JSON
 *   counters.c   counters
 *   tally.c      notes in the ledger
 *
 * While no session records, an event costs a load and a branch. While one does, an event takes no
 * lock and no memory, except for the first events of a kind. Handles and ids that programs get are
 * numbers, so that nothing that a program passes is ever used as an address of ours.
 */
#ifndef CN_NVTX_H
#define CN_NVTX_H

#include "abi.h"

#include <ckineto/record.h>

#include <stdatomic.h>
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

/* ---- tally.c --------------------------------------------------------------------------------- */

/** Notes in the ledger: X(NAME, 1 if events are lost, "reason", "detail"). */
#define CN_TALLY_MAP(X)                                                                            \
    X(POP_ALONE, 0, "pops without a push",                                                         \
      "the program popped a range that it had not pushed on that thread and in that domain since " \
      "recording began")                                                                           \
    X(END_ALONE, 0, "ends of ranges that are not open",                                            \
      "the program ended a range that had ended, or whose begin was not recorded")                 \
    X(CROSSED, 0, "ranges continued as another piece",                                             \
      "a range of one domain ended while a later one of another domain was open on its thread: "   \
      "what was open goes on as a range with the argument \"continued\"")                          \
    X(TOO_DEEP, 1, "ranges nested too deeply", "256 are open on a thread at most")                 \
    X(BUSY, 1, "events inside of events", "a signal handler interrupted the recording of another") \
    X(NO_THREAD, 1, "events of threads without memory", "no memory for what is open on a thread")  \
    X(DOMAINS, 0, "domains without a name of their own",                                           \
      "there are more than 1023: events of further ones have the domain \"(other domains)\"")      \
    X(STRINGS, 0, "registered strings that were not kept",                                         \
      "there are more than 32768, or no memory: their events have no name")                        \
    X(SHAPES, 0, "events without their arguments",                                                 \
      "there are more than 1024 combinations of arguments")                                        \
    X(ARGUMENTS, 0, "arguments left out", "an event has 64 at most, and 4 binary payloads")        \
    X(CUT, 0, "texts and lists that were cut", "6 KiB of an event are converted")                  \
    X(SCHEMA, 0, "payload layouts that were not understood",                                       \
      "their payloads are left out, the events are there")                                         \
    X(ENTRY, 0, "entries of payload layouts that were not understood",                             \
      "their values are left out, the events are there")                                           \
    X(UNKNOWN_SCHEMA, 0, "payloads of unknown layout", "their schema was not registered")          \
    X(SHORT_PAYLOAD, 0, "payloads shorter than their layout", "what is missing is left out or 0")  \
    X(POINTER, 0, "pointers of payloads that lead elsewhere",                                      \
      "only what lies in a payload of the same event is read")                                     \
    X(END_PAYLOAD, 0, "payloads at the end of process ranges",                                     \
      "only those at their begin are kept")                                                        \
    X(DEFERRED, 1, "deferred events", "events with times of their own are not recorded")           \
    X(BATCHED, 0, "counter samples of batches",                                                    \
      "they are recorded at the time of their submission, whatever times they bring along")        \
    X(COUNTER, 1, "samples of counters that are not known", NULL)                                  \
    X(EXTENSION, 0, "extensions that were not understood",                                         \
      "a library was built with an extension of NVTX in a version that is not known here")         \
    X(HANDLE, 0, "invalid handles", "treated as the default domain or as no text")

typedef enum cn_tally {
#define CN_X(name, loss, reason, detail) CN_TALLY_##name,
    CN_TALLY_MAP(CN_X)
#undef CN_X
        CN_TALLY_COUNT
} cn_tally;
/** Count one. The ledger gets the first at once, then a line each time that the count has
 * doubled. */
CN_COLD void cn_count(cn_tally what);
void cn_tally_forked(void);
uint64_t cn_tally_count(cn_tally what);

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

/** UTF-8 of a wide text, or of units of 2 or 4 bytes; NUL-terminated. False: it was cut. */
bool cn_text_from_wide(const wchar_t *from, char *to, size_t room);
bool cn_text_from_units(const void *from, size_t count, unsigned width, char *to, size_t room);

/* ---- schemas.c ------------------------------------------------------------------------------- */

#define CN_MAX_FIELDS 64u

/* How a field is read. */
typedef enum cn_class {
    CN_CLASS_NONE, /* unsupported: the field is skipped */
    CN_CLASS_INT,
    CN_CLASS_UINT,
    CN_CLASS_FLOAT,
    CN_CLASS_CHARS, /* an array of them is a text */
    CN_CLASS_BYTES,
    CN_CLASS_TEXT,
    CN_CLASS_HANDLE, /* of a registered string */
    CN_CLASS_NESTED,
    CN_CLASS_UNION,
    CN_CLASS_ENUM
} cn_class;

/** Properties of a predefined type. */
typedef struct cn_type {
    uint8_t class, size, align; /* size: of one unit */
} cn_type;

/* The array takes the rest of the payload. */
#define CN_ARRAY_REMAINDER 8u
/* Offset of a field that follows the previous one. */
#define CN_AFTER_PREVIOUS UINT32_MAX

/** One field of a schema. */
typedef struct cn_field {
    const char *name;
    uint64_t type;
    /* Struct, union or enumeration; else NULL. */
    const struct cn_schema *nested;
    uint8_t class, unit, align, array;
    bool is_pointer, is_message, is_time;
    uint32_t size;         /* of one element */
    const char *unit_name; /* of a counter; NULL: none */
    uint32_t offset;
    /* Length, or index of the field that holds it or selects a union's member. */
    uint64_t detail;
} cn_field;

/** The unit that semantics give to a counter; NULL: none. */
const char *cn_unit_of(const cn_semantics *semantics);

typedef struct cn_label {
    const char *name;
    uint64_t value;
    bool is_flag;
} cn_label;

/** The layout of a payload, or an enumeration. Immutable once registered; never freed. */
typedef struct cn_schema {
    uint64_t id, hash;
    uint32_t domain, size, align, count, depth;
    bool is_enum, is_union, is_dynamic;
    const char *name;
    const cn_label *labels; /* an enumeration's */
    cn_field fields[];
} cn_schema;

/** NULL: not registered. Predefined types are schemas of one field. */
const cn_schema *cn_schema_find(uint32_t domain, uint64_t id);
uint64_t cn_schema_register(cn_handle domain, const cn_schema_attributes *attributes);
uint64_t cn_enum_register(cn_handle domain, const cn_enum_attributes *attributes);
/** KINETO_ARG_… type of the argument that a field becomes; 0: none, or several
 * (CN_CLASS_NESTED). */
uint32_t cn_field_arg_type(const cn_field *field);

/* ---- shapes.c -------------------------------------------------------------------------------- */

#define CN_MAX_SHAPES   1024u
#define CN_MAX_PAYLOADS 4u
enum { /* of cn_key.flags, in the order of the arguments; the type of a simple payload is above */
       CN_HAS_DOMAIN = 1,
       CN_HAS_CATEGORY = 2,
       CN_HAS_CATEGORY_NAME = 4,
       CN_HAS_COLOR = 8,
       CN_HAS_CONTINUED = 16,
       CN_PAYLOAD_SHIFT = 5
};
/** Identifies a shape: which arguments an event has. */
typedef struct cn_key {
    uint32_t flags, payload_count;
    const cn_schema *payloads[CN_MAX_PAYLOADS];
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
extern cn_shape cn_plain; /* of events without arguments */

/** The shape of a key, added if there is none; NULL: the limit is reached. */
const cn_shape *cn_shape_get(const cn_key *key);
const cn_shape *cn_shape_at(uint32_t index);
static inline kineto_site *cn_shape_site(const cn_shape *shape)
{
    return (kineto_site *)(uintptr_t)&shape->site; /* the recorder writes its id into it */
}

/* ---- payload.c ------------------------------------------------------------------------------- */

#define CN_SCRATCH_BYTES 6144u

/** Memory for converted texts and lists of one event. `cut`: it did not suffice. */
typedef struct cn_scratch {
    size_t used;
    bool cut;
    _Alignas(8) char bytes[CN_SCRATCH_BYTES];
} cn_scratch;
/** A NUL-terminated copy of a text, cut to the free space. */
const char *cn_scratch_text(cn_scratch *scratch, const char *text, size_t size);

/** A range of bytes that may be read. */
typedef struct cn_view {
    const char *data;
    size_t size;
} cn_view;

/** The state while the payloads of one event are read. */
typedef struct cn_reader {
    /* Of all payloads of the event: pointers may go into them. */
    const cn_view *views;
    uint32_t view_count;
    /* Data ended too early; a pointer led outside of the payloads. */
    bool is_short, is_foreign;
    /* Of the field that is the event's message; NULL: none. */
    const char *message;
    cn_scratch *scratch;
    kineto_value *values;
    uint32_t count, limit;
} cn_reader;

/** One struct while it is read. */
typedef struct cn_struct {
    const cn_schema *schema;
    cn_view view;
    /* Where it begins; the end of the last field. */
    size_t base, at;
    size_t offsets[CN_MAX_FIELDS];
} cn_struct;

/** Position and number of a field's elements. */
typedef struct cn_extent {
    cn_view view;
    size_t at, count;
} cn_extent;

bool cn_read_unsigned(const cn_view *view, size_t at, unsigned size, uint64_t *out);
bool cn_read_signed(const cn_view *view, size_t at, unsigned size, int64_t *out);
bool cn_read_float(const cn_view *view, size_t at, const cn_field *field, double *out);
/** Iterate over the fields of a struct, in order: cn_struct_next finds field i and moves `at` past
 * it. False: the field is not there. */
void cn_struct_begin(cn_struct *s, const cn_schema *schema, cn_view view, size_t base);
bool cn_struct_next(cn_reader *r, cn_struct *s, uint32_t i, cn_extent *out);
/** The text of a field, NUL-terminated. */
const char *cn_read_text(cn_reader *r, const cn_field *field, const cn_extent *where);
/** All arguments of a payload, as many as its shape has. */
void cn_payload_read(cn_reader *r, const cn_schema *schema, cn_view view);
/** Write the name of an enumeration's value, flags joined by '|'; returns its length. */
size_t cn_enum_name(const cn_schema *e, uint64_t value, char *to, size_t room);

/* ---- write.c --------------------------------------------------------------------------------- */

/** The value of a field as JSON. */
const char *cn_field_json(cn_reader *r, const cn_struct *s, const cn_field *field,
                          const cn_extent *where);

/* ---- domains.c ------------------------------------------------------------------------------- */

#define CN_MAX_DOMAINS 1024u

/** Number of a domain; 0 is the default domain, which has no name. */
uint32_t cn_domain_from_handle(cn_handle handle);
const char *cn_domain_name(uint32_t domain);
/** The name of a category; NULL: none. */
const char *cn_category_name(uint32_t domain, uint32_t category);
/** Name the calling thread if another thread has named it. */
void cn_thread_name_apply(uint32_t tid);
/* Changes when a thread was named by another one. */
extern atomic_uint cn_thread_names;

cn_handle cn_domain_create(const char *name);
cn_handle cn_domain_create_wide(const wchar_t *name);
void cn_domain_destroy(cn_handle domain);
cn_handle cn_string_register(cn_handle domain, const char *text);
cn_handle cn_string_register_wide(cn_handle domain, const wchar_t *text);
void cn_category_set(cn_handle domain, uint32_t category, const char *name);
void cn_category_set_wide(cn_handle domain, uint32_t category, const wchar_t *name);
void cn_thread_name(uint32_t tid, const char *name);
void cn_thread_name_wide(uint32_t tid, const wchar_t *name);
cn_handle cn_resource_create(cn_handle domain, const cn_resource *attributes);
/** Put the name of a stream, context or device into the header of the trace. */
void cn_resource_name(const char *what, uint64_t id, const char *name);
void cn_resource_name_wide(const char *what, uint64_t id, const wchar_t *name);

/* ---- threads.c ------------------------------------------------------------------------------- */

#define CN_MAX_OPEN 256u

/** An open range of a thread. */
typedef struct cn_open_range {
    kineto_range range;     /* 0: it is not recorded */
    uint16_t domain, level; /* level: among those of its domain */
    bool is_mixed;          /* an outer range belongs to another domain */
    uint32_t name_at; /* offset in cn_thread.text of its name, if it has no site; else UINT32_MAX */
    const kineto_site *site;
} cn_open_range;

/** The open ranges of a thread. Only the thread itself changes it, except `in_use`. */
typedef struct cn_thread {
    /* An event is being handled: events of signal handlers are dropped. */
    bool busy;
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
} cn_event;
int cn_push(const cn_event *event);
int cn_pop(uint32_t domain);
/** The innermost open range of a domain on this thread; 0: none, or it is not recorded. */
kineto_range cn_find_innermost(uint32_t domain);
/** The site of an event whose name has come before; else NULL. */
kineto_site *cn_event_site(const cn_event *event);
kineto_props cn_event_props(const cn_event *event);

/* ---- process.c ------------------------------------------------------------------------------- */

/* Id of ranges that are not recorded. */
#define CN_NOT_RECORDED UINT64_C(1)
uint64_t cn_start(const cn_event *event);
void cn_end(uint64_t id);
void cn_process_forked(void);

/* ---- events.c -------------------------------------------------------------------------------- */

int cn_range_push(const char *text);
int cn_range_push_wide(const wchar_t *text);
int cn_range_push_ex(const cn_attributes *attributes);
int cn_range_pop(void);
void cn_mark(const char *text);
void cn_mark_wide(const wchar_t *text);
void cn_mark_ex(const cn_attributes *attributes);
uint64_t cn_range_start(const char *text);
uint64_t cn_range_start_wide(const wchar_t *text);
uint64_t cn_range_start_ex(const cn_attributes *attributes);
void cn_range_end(uint64_t id);
void cn_domain_mark(cn_handle domain, const cn_attributes *attributes);
uint64_t cn_domain_start(cn_handle domain, const cn_attributes *attributes);
void cn_domain_end(cn_handle domain, uint64_t id);
int cn_domain_push(cn_handle domain, const cn_attributes *attributes);
int cn_domain_pop(cn_handle domain);
void cn_payload_mark(cn_handle domain, const cn_payload *payloads, size_t count);
int cn_payload_push(cn_handle domain, const cn_payload *payloads, size_t count);
int cn_payload_pop(cn_handle domain, const cn_payload *payloads, size_t count);
uint64_t cn_payload_start(cn_handle domain, const cn_payload *payloads, size_t count);
void cn_payload_end(cn_handle domain, uint64_t id, const cn_payload *payloads, size_t count);

/* ---- counters.c ------------------------------------------------------------------------------ */

uint64_t cn_counter_register(cn_handle domain, const cn_counter_attributes *attributes);
void cn_counter_int(cn_handle domain, uint64_t counter, int64_t value);
void cn_counter_double(cn_handle domain, uint64_t counter, double value);
void cn_counter_sample(cn_handle domain, uint64_t counter, const void *data, size_t size);
void cn_counter_no_value(cn_handle domain, uint64_t counter, uint8_t reason);
void cn_counter_batch_submit(cn_handle domain, const cn_counter_batch *batch);

#endif
