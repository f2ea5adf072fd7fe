/* The NVTX source: NVTX calls of a program and its libraries become ranges, moments and counters of
 * the recording.
 *
 *   inject.c     entry points: filling in the function tables of each copy of NVTX's header
 *   events.c     ranges and moments: from NVTX's attributes to a site and its values
 *   resources.c  categories, wide texts, names of streams and devices
 *   schemas.c    layouts of binary payloads, as registered
 *   payload.c    reading binary payloads
 *   wide.c       wide texts as UTF-8
 *   write.c      values of payloads that have no type of their own, as JSON
 *   counters.c   counters
 *
 * What it shares with other sources of annotations is in ../annotations.
 */
#ifndef CN_NVTX_H
#define CN_NVTX_H

#include "../annotations/annotations.h"
#include "abi.h"

/* ---- notes in the ledger: X(NAME, 1 if events are lost, "reason", "detail") ------------------- */

#define CN_NVTX_TALLY_MAP(X)                                                                       \
    X(ARGUMENTS, 0, "arguments left out", "an event has 64 at most, and 4 binary payloads")        \
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
      "a library was built with an extension of NVTX in a version that is not known here")

enum {
    CN_TALLY_BEFORE_NVTX = CN_TALLY_FRONT_COUNT - 1,
#define CN_X(name, loss, reason, detail) CN_TALLY_##name,
    CN_NVTX_TALLY_MAP(CN_X)
#undef CN_X
        CN_TALLY_COUNT
};

/* ---- wide.c ---------------------------------------------------------------------------------- */

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

/** Describe the arguments of a payload of this layout, for cn_source. */
void cn_describe_schema(cn_arg_list *list, const void *schema);

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

/* ---- resources.c ----------------------------------------------------------------------------- */

/** The name of a category; NULL: none. */
const char *cn_category_name(uint32_t domain, uint32_t category);
cn_handle cn_domain_create_wide(const wchar_t *name);
void cn_domain_destroy(cn_handle domain);
cn_handle cn_string_register_wide(cn_handle domain, const wchar_t *text);
void cn_category_set(cn_handle domain, uint32_t category, const char *name);
void cn_category_set_wide(cn_handle domain, uint32_t category, const wchar_t *name);
void cn_thread_name_wide(uint32_t tid, const wchar_t *name);
cn_handle cn_resource_create(cn_handle domain, const cn_resource *attributes);
void cn_resource_name_wide(const char *what, uint64_t id, const wchar_t *name);

/* ---- events.c -------------------------------------------------------------------------------- */

int cn_range_push_wide(const wchar_t *text);
int cn_range_push_ex(const cn_attributes *attributes);
void cn_mark_wide(const wchar_t *text);
void cn_mark_ex(const cn_attributes *attributes);
uint64_t cn_range_start_wide(const wchar_t *text);
uint64_t cn_range_start_ex(const cn_attributes *attributes);
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
