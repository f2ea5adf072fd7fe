/* Repair of broken trace text: one element of "traceEvents", or one member of the header, at a
 * time, after strict reading of it failed. The output is strict JSON; every change is counted with
 * its offset. Nothing is guessed: where the structure allows two readings, neither is used.
 *
 * A call reads the text from `at` on only, and keeps no state between calls. Its work is linear in
 * the bytes that it consumes, times a constant: look-ahead and second attempts are bounded by
 * KT_REPAIR_REACH_BYTES. docs/reference/reading.md describes the changes for users. */
#ifndef KT_REPAIR_H
#define KT_REPAIR_H

#include "base/base.h"

/** Deepest nesting of an event: with what is around it, readers' limit of 128 holds. */
#define KT_REPAIR_MAX_DEPTH 120u

/** The sentence about a text that is cut off. */
#define KT_REPAIR_CUT "the text ends early: an unknown number of events is missing"

/** Every kind of change: X(ID, name, what is lost, what was found and done). Append only. */
#define KT_REPAIR_MAP(X)                                                                           \
    X(BAD_ESCAPE, bad_escape, NOTHING, "a backslash that escapes nothing: kept as a backslash")    \
    X(CONTROL_CHAR, control_char, NOTHING, "control characters in a string: escaped")              \
    X(RAW_QUOTE, raw_quote, NOTHING, "a quote inside a string: escaped")                           \
    X(INVALID_UTF8, invalid_utf8, NOTHING,                                                         \
      "bytes that are not UTF-8: kept, or U+FFFD where UTF-8 is required")                         \
    X(SINGLE_QUOTES, single_quotes, NOTHING, "a string in single quotes")                          \
    X(BARE_KEY, bare_key, NOTHING, "a key without quotes, or with one")                            \
    X(NAN_INF, nan_inf, NOTHING,                                                                   \
      "a number that JSON does not know: kept as \"nan\", \"inf\" or \"-inf\"")                    \
    X(BAD_NUMBER, bad_number, NOTHING, "a malformed number: corrected, or kept as a string")       \
    X(BAD_LITERAL, bad_literal, NOTHING,                                                           \
      "a word that is not a value: corrected, or kept as a string")                                \
    X(NO_VALUE, no_value, NOTHING, "a key without a value: null")                                  \
    X(TRAILING_COMMA, trailing_comma, NOTHING, "a trailing comma")                                 \
    X(MISSING_COMMA, missing_comma, NOTHING, "a comma was missing")                                \
    X(COMMENT, comment, NOTHING, "a comment")                                                      \
    X(UNBALANCED, unbalanced, NOTHING, "brackets that do not match: corrected")                    \
    X(DUPLICATE_KEY, duplicate_key, VALUES, "a member given twice: the last one counts")           \
    X(AMBIGUOUS, ambiguous, VALUES, "a member that cannot be read with certainty: left out")       \
    X(TOO_DEEP, too_deep, VALUES, "a member nested deeper than 120 levels: left out")              \
    X(TRUNCATED, truncated, EVENTS, KT_REPAIR_CUT)                                                 \
    X(LOST_EVENT, lost_event, EVENTS, "an event that has no \"ph\" or no \"ts\" left")             \
    X(WRONG_TYPE, wrong_type, VALUES, "a member of the wrong type: left out")                      \
    X(GARBAGE, garbage, EVENTS, "bytes that belong to no event: skipped")                          \
    X(OTHER_BASE, other_base, EVENTS, "a document that counts time from another base: left out")   \
    X(NEW_DOCUMENT, new_document, NOTHING, "another document follows in the same text")            \
    X(TIME_RANGE, time_range, EVENTS,                                                              \
      "a time too large for the unit of \"ts\": left out; if it counts nanoseconds, --ts-unit ns " \
      "reads it")                                                                                  \
    X(NESTED_EVENTS, nested_events, NOTHING, "the list of events lies one level down: read there") \
    X(DUPLICATE_HEADER, duplicate_header, VALUES,                                                  \
      "a member given twice in the header, with another value: the first one counts")              \
    X(TRAILING, trailing, NOTHING, "bytes after the end of a trace that hold no event: skipped")

typedef enum kt_repair_kind {
#define KT_X(id, name, loss, text) KT_REPAIR_##id,
    KT_REPAIR_MAP(KT_X)
#undef KT_X
        KT_REPAIR_KINDS
} kt_repair_kind;

/** Values: members of an event or of the header; the event itself is kept. */
typedef enum kt_repair_loss { KT_LOSES_NOTHING, KT_LOSES_VALUES, KT_LOSES_EVENTS } kt_repair_loss;

/** The id of a kind ("raw_quote"), its sentence, and the data that is lost by it. */
const char *kt_repair_name(kt_repair_kind kind);
const char *kt_repair_text(kt_repair_kind kind);
kt_repair_loss kt_repair_loss_of(kt_repair_kind kind);

typedef struct kt_repair {
    uint32_t kind;
    uint64_t offset, bytes; /* in the input text; bytes 0: an insertion at offset */
} kt_repair;

/** All repairs, in the order of the text. The list is bounded; the counts are exact. */
#define KT_REPAIR_LIST_MAX 4096u
typedef struct kt_repairs {
    /* Set by the caller: added to offsets, for text that is read in windows. */
    uint64_t base;
    uint64_t ts_unit_ns; /* set by the caller: as in kineto_open_options */
    KB_VEC(kt_repair) list;
    uint64_t total;
    struct {
        uint64_t count, first_offset;
        /* A lower bound: repairs beyond the list count without bytes. */
        uint64_t bytes;
    } kinds[KT_REPAIR_KINDS];
} kt_repairs;

/** Reasons of ledger lines: of a kind's sentence, and of a file whose compressed data is
 *  damaged. */
#define KT_REPAIR_REASON_OF(text) "repaired: " text
#define KT_REPAIR_REASON          KT_REPAIR_REASON_OF("%s")
#define KT_REPAIR_DAMAGED         "the compressed data is damaged"

void kt_repairs_free(kt_repairs *r);
/** True if any of the repairs lost data. */
bool kt_repairs_have_loss(const kt_repairs *r);
/** Adds a repair. False: out of memory; the counts are exact even then. */
bool kt_repairs_add(kt_repairs *r, kt_repair_kind kind, uint64_t offset, uint64_t bytes);
/** Counts further repairs of a kind without their offsets. */
void kt_repairs_count(kt_repairs *r, kt_repair_kind kind, uint64_t times);
/** Records that the text ended at `offset` inside the outermost object: a loss, unless the
 *  truncation has been counted already. False: out of memory. */
bool kt_repairs_cut(kt_repairs *r, uint64_t offset);
/** Appends the repairs of the text that follows. False: out of memory. */
bool kt_repairs_append(kt_repairs *r, const kt_repairs *later);

/* A growing buffer; free it with kb_vec_free. */
typedef KB_VEC(char) kt_bytes;

typedef enum kt_piece {
    KT_PIECE_EVENT,   /* an event was appended to `out` */
    KT_PIECE_NOTHING, /* bytes were skipped, and counted unless they hold nothing ("{}"); continue
                         at `next` */
    KT_PIECE_END,     /* of the array: `next` is at its "]", at the header's next key or closing
                         bracket if "]" is missing, or at the end of the text */
    KT_PIECE_MORE /* only if not `final`: the text ends too early to decide. Nothing was appended
                         or counted. Call again from the same place with more text. */
} kt_piece;

typedef struct kt_repaired {
    kt_piece piece;
    size_t next;    /* where to continue; > at, or the end of the text */
    bool comma_due; /* a comma has to precede the next element */
    bool truncated; /* END: the text ended inside the array, or the header */
} kt_repaired;

/** Maximum of bytes that are searched for the end of a damaged string or member. */
#define KT_REPAIR_REACH_BYTES 65536u

/** Repairs ONE element of "traceEvents".
 *  @param at         just after the previous element, or after "[": white space and commas come
 *                    first.
 *  @param comma_due  false after "[" and if the caller has skipped the comma.
 *  @param final      no more text follows. If false, decides only what more text cannot change.
 *  @param out        gets the event, a strict JSON object of at most 120 levels (strings may hold
 *                    bytes that are not UTF-8). An event that lost arguments has a member
 *                    "arguments lost": true in its args.
 *  @return KINETO_E_MEMORY, with out and repairs unspecified but to be freed; else KINETO_OK. */
kineto_status kt_repair_element(kineto_string text, size_t at, bool comma_due, bool final,
                                kt_bytes *out, kt_repairs *repairs, kt_repaired *result,
                                kineto_error *err);

/** The same for ONE member of the header object, key and value: `"key":value` without commas.
 *  KT_PIECE_EVENT: appended. KT_PIECE_END: at the header's "}", at the end of
 *  the text, or at an event that stands there.
 *  A "traceEvents" whose value is an array is not entered: `"traceEvents":` is appended, and
 *  `next` is at its "[". */
kineto_status kt_repair_member(kineto_string text, size_t at, bool comma_due, bool final,
                               kt_bytes *out, kt_repairs *repairs, kt_repaired *result,
                               kineto_error *err);

/** text[at, size) follows a complete document. True: another one begins at *next, counted as
 *  NEW_DOCUMENT. False: only white space follows, or bytes that are counted: GARBAGE if an event
 *  begins in them, else TRAILING. */
bool kt_repair_next_document(kineto_string text, size_t at, kt_repairs *repairs, size_t *next);

/** True if a text that begins with an object begins with an event, that is, has no list around its
 *  events. An object with members of a header is not an event; a damaged event is recognised by its
 *  first key. *cut: the text ends before this can be decided. */
bool kt_repair_begins_event(kineto_string text, bool *cut);
/** True if the object that the text begins with has a member "traceEvents" that is a list. */
bool kt_repair_holds_events(kineto_string text);
/** True if the document's text states this base time; empty: states none. *next is NULL at first,
 *  and kept between calls for later documents of the same text. */
bool kt_repair_same_base(kineto_string base, kineto_string text, const char **next);
/** Reports why no event of a text is left. KINETO_E_FORMAT. */
kineto_status kt_fail_no_events_left(const kt_repairs *r, kineto_error *err);

/* ---- repair_document.c: a whole text --------------------------------------------------------- */
/** Counts of events. */
typedef struct kt_repair_events {
    uint64_t whole;    /* copied unchanged */
    uint64_t repaired; /* rewritten */
} kt_repair_events;

/** Writes all of a text that can be kept as one strict trace: the object form, the members of the
 *  header where they stood, every sound event byte for byte. Documents that follow add their
 *  events. If data was lost, the ledger in the member "ckineto" records it.
 *  @param problem damage of the file that held the text, so that the text is incomplete; NULL.
 *  @param utf8    replace bytes that are not UTF-8 by U+FFFD; otherwise they are copied.
 *  @param out     closed by the caller, which gets errors of writing then.
 *  @param repairs offsets are those of `text`. Empty afterwards: the text was sound.
 *  @return KINETO_E_FORMAT if the text holds no trace at all, KINETO_E_MEMORY. */
kineto_status kt_repair_document(kineto_string text, const char *problem, bool utf8, kb_sink *out,
                                 kt_repairs *repairs, kt_repair_events *events, kineto_error *err);
#endif
