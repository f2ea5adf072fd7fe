/* Repair of broken trace text: one element of "traceEvents", or one member of the header, at a
 * time, where strict reading of it failed. What comes out is strict JSON; every change is counted
 * with its place. Nothing is guessed: where the structure allows two readings, neither is taken.
 *
 * A call looks at the text from `at` on and nowhere else; it keeps nothing between calls. It goes
 * forward: the work is linear in what it steps over, times a constant (look-ahead and second tries
 * are bounded by KT_REPAIR_REACH_BYTES). */
#ifndef KT_REPAIR_H
#define KT_REPAIR_H

#include "base/base.h"

/** Deepest nesting of an event: with what is around it, readers' limit of 128 holds. */
#define KT_REPAIR_MAX_DEPTH 120u

/** What is said of a text that is cut off. */
#define KT_REPAIR_CUT "the text ends early: what followed is missing, how many events is not known"

/** Every kind of change: X(ID, name, what is lost, what was found and done). Append only. */
#define KT_REPAIR_MAP(X)                                                                           \
    X(BAD_ESCAPE, bad_escape, NOTHING, "a backslash that escapes nothing: kept as a backslash")    \
    X(CONTROL_CHAR, control_char, NOTHING, "control characters in a string: escaped")              \
    X(RAW_QUOTE, raw_quote, NOTHING, "a quote inside a string: escaped")                           \
    X(INVALID_UTF8, invalid_utf8, NOTHING,                                                         \
      "bytes that are no UTF-8: kept, or U+FFFD where UTF-8 is a must")                            \
    X(SINGLE_QUOTES, single_quotes, NOTHING, "a string in single quotes")                          \
    X(BARE_KEY, bare_key, NOTHING, "a key without quotes, or with one")                            \
    X(NAN_INF, nan_inf, NOTHING,                                                                   \
      "a number that JSON does not know: kept as \"nan\", \"inf\" or \"-inf\"")                    \
    X(BAD_NUMBER, bad_number, NOTHING, "a malformed number: put right, or kept as a string")       \
    X(BAD_LITERAL, bad_literal, NOTHING, "a word that is no value: put right, or kept as a string") \
    X(NO_VALUE, no_value, NOTHING, "a key without a value: null")                                  \
    X(TRAILING_COMMA, trailing_comma, NOTHING, "a comma with nothing behind it")                   \
    X(MISSING_COMMA, missing_comma, NOTHING, "a comma was missing")                                \
    X(COMMENT, comment, NOTHING, "a comment")                                                      \
    X(UNBALANCED, unbalanced, NOTHING, "brackets that do not match: put right")                     \
    X(DUPLICATE_KEY, duplicate_key, VALUES, "a member given twice: the last one counts")           \
    X(AMBIGUOUS, ambiguous, VALUES, "a member that cannot be read with certainty: left out")       \
    X(TOO_DEEP, too_deep, VALUES, "a member nested deeper than 120 levels: left out")              \
    X(TRUNCATED, truncated, EVENTS,                                                                \
      KT_REPAIR_CUT)                                                                               \
    X(LOST_EVENT, lost_event, EVENTS, "an event that has no \"ph\" or no \"ts\" left")             \
    X(WRONG_TYPE, wrong_type, VALUES, "a member of the wrong type: left out")                       \
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

/** "raw_quote", its sentence, and what is lost by it. */
const char *kt_repair_name(kt_repair_kind kind);
const char *kt_repair_text(kt_repair_kind kind);
kt_repair_loss kt_repair_loses(kt_repair_kind kind);

typedef struct kt_repair {
    uint32_t kind;
    uint64_t offset, bytes; /* in the input text; bytes 0: something was missing at offset */
} kt_repair;

/** All that was repaired, in the order of the text. The list is bounded, the counts are not. */
#define KT_REPAIR_LIST_MAX 4096u
typedef struct kt_repairs {
    uint64_t base; /* set by the caller: added to offsets, for text that comes in windows */
    uint64_t ts_unit_ns; /* set by the caller: as kineto_open_options has it */
    KB_VEC(kt_repair) list;
    uint64_t total;
    struct {
        uint64_t count, first_offset, bytes; /* bytes: at least */
    } kinds[KT_REPAIR_KINDS];
} kt_repairs;

/** The reason of a ledger line, of the kind's sentence; and that of a file that is damaged below
 *  its text. */
#define KT_REPAIR_REASON_OF(text) "repaired: " text
#define KT_REPAIR_REASON          KT_REPAIR_REASON_OF("%s")
#define KT_REPAIR_DAMAGED         "the compressed data is damaged"

void kt_repairs_free(kt_repairs *r);
/** Was something lost by any of them? */
bool kt_repairs_lose(const kt_repairs *r);
/** Add one. False when out of memory; the counts are right even then. */
bool kt_repairs_add(kt_repairs *r, kt_repair_kind kind, uint64_t offset, uint64_t bytes);
/** More of a kind, without their places. */
void kt_repairs_more(kt_repairs *r, kt_repair_kind kind, uint64_t times);
/** The text ended at `offset` inside the object that is the whole: a loss, unless it is told by what
 *  the end cut off. False when out of memory. */
bool kt_repairs_cut(kt_repairs *r, uint64_t offset);
/** Append what was repaired in the text that follows. */
bool kt_repairs_append(kt_repairs *r, const kt_repairs *later);

/* Bytes that grow; free with kb_vec_free. */
typedef KB_VEC(char) kt_bytes;

typedef enum kt_piece {
    KT_PIECE_EVENT,   /* one was appended to `out` */
    KT_PIECE_NOTHING, /* bytes were skipped and counted, unless they hold nothing ("{}"); look again
                         at `next` */
    KT_PIECE_END,     /* of the array: `next` is at its "]", at the header's next key or closing
                         bracket if "]" is missing, or at the end of the text */
    KT_PIECE_MORE     /* only if not `final`: the text ends too early to tell. Nothing was appended
                         or counted. Call again from the same place with more text. */
} kt_piece;

typedef struct kt_repaired {
    kt_piece piece;
    size_t next;    /* where to go on; > at, or the end of the text */
    bool comma_due; /* a comma is to come before the next element */
    bool truncated; /* END: the text ended inside the array, or the header */
} kt_repaired;

/** Most bytes that are searched for the end of a damaged string or member. */
#define KT_REPAIR_REACH_BYTES 65536u

/** Look at ONE element of "traceEvents".
 *  @param at         just behind the element before, or behind "[": white space and commas come
 * first.
 *  @param comma_due  false behind "[" and where the caller has stepped over the comma.
 *  @param final      no more text follows. With false, only what more text cannot change is
 * decided.
 *  @param out        gets the event, a strict JSON object of at most 120 levels (strings may hold
 *                    bytes that are no UTF-8). An event that lost arguments has a member
 *                    "arguments lost": true in its args.
 *  @return KINETO_E_MEMORY, with out and repairs unspecified but to be freed; else KINETO_OK. */
kineto_status kt_repair_element(kineto_string text, size_t at, bool comma_due, bool final,
                                kt_bytes *out, kt_repairs *repairs, kt_repaired *result,
                                kineto_error *err);

/** The same for ONE member of the header object, key and value: `"key":value` without commas.
 *  KT_PIECE_EVENT: appended. KT_PIECE_END: at the header's "}", at the end of
 *  the text, or at an event that stands there.
 *  A "traceEvents" whose value is an array is not gone into: `"traceEvents":` is appended, and
 *  `next` is at its "[". */
kineto_status kt_repair_member(kineto_string text, size_t at, bool comma_due, bool final,
                               kt_bytes *out, kt_repairs *repairs, kt_repaired *result,
                               kineto_error *err);

/** text[at, size) is what follows a whole document. True: another one begins at *next, counted as
 *  NEW_DOCUMENT. False: nothing but white space, or bytes that are counted: GARBAGE if an event begins
 *  in them, else TRAILING. */
bool kt_repair_next_document(kineto_string text, size_t at, kt_repairs *repairs, size_t *next);

/** Does a text that begins with an object begin with an event, so that there is no list around it? What
 *  has members of a header is none, whatever else it has; a damaged one is known by its first key.
 *  *cut: the text ends before that is known. */
bool kt_repair_begins_event(kineto_string text, bool *cut);
/** Does a text that begins with an object have "traceEvents" in it, a list? */
bool kt_repair_holds_events(kineto_string text);
/** Is the base time that the text of a document states this one? Empty: none is stated. *next is NULL
 *  at first, and kept between calls for later documents of the same text. */
bool kt_repair_same_base(kineto_string base, kineto_string text, const char **next);
/** Why nothing of a text is left. KINETO_E_FORMAT. */
kineto_status kt_repair_nothing_left(const kt_repairs *r, kineto_error *err);

/* ---- repair_document.c: a whole text ------------------------------------------------------------- */
/** What became of the events. */
typedef struct kt_repair_events {
    uint64_t whole;    /* copied as they stood */
    uint64_t repaired; /* written anew */
} kt_repair_events;

/** Write all of a text that can be kept as one strict trace: the object form, the members of the
 *  header where they stood, every sound event byte for byte. Documents that follow add their
 * events. If something was lost, the ledger in the member "ckineto" says so.
 *  @param problem what is wrong with the file that had the text, which is not whole then; NULL.
 *  @param utf8    bytes that are no UTF-8 become U+FFFD; else they stay, and the output has them.
 *  @param out     the caller closes it, and learns there what failed in writing.
 *  @param repairs offsets are those of `text`. Nothing in it: the text was sound.
 *  @return KINETO_E_FORMAT if there is no trace in the text at all, KINETO_E_MEMORY. */
kineto_status kt_repair_document(kineto_string text, const char *problem, bool utf8, kb_sink *out,
                                 kt_repairs *repairs, kt_repair_events *events, kineto_error *err);
#endif
