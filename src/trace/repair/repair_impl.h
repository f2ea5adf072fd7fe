/* The engine of repair: a position in the text, the brackets that are open there, the output so
 * far, and the parts that read it. Functions kt_peek_* look ahead and change nothing; functions
 * kt_fix_* consume text and write output. A reading that fails is undone by kt_fix_restore. */
#ifndef KT_REPAIR_IMPL_H
#define KT_REPAIR_IMPL_H

#include "trace/repair/repair.h"

#define KT_FIX_DEPTH   KT_REPAIR_MAX_DEPTH
#define KT_FIX_MEMBERS 64u /* members of an event that are compared for duplicate keys */
#define KT_FIX_TRIES   8u  /* further readings of one element */

/* The kind of object that is open: it decides which names of members are known. A known name makes
 * the end of the value before it certain. */
typedef enum kt_level { KT_LEVEL_HEADER, KT_LEVEL_EVENT, KT_LEVEL_ARGS, KT_LEVEL_INNER } kt_level;

/* Whether a value can end at a place. */
typedef enum kt_certainty {
    KT_IMPOSSIBLE,
    KT_POSSIBLE, /* the text that follows has the right shape */
    KT_CERTAIN   /* a known member follows, or the end of all open brackets */
} kt_certainty;

typedef enum kt_fixed {
    KT_FIXED,
    KT_FIX_FAILED, /* no certain reading */
    KT_FIX_CUT     /* the text ends inside, or another element begins there */
} kt_fixed;

/* Offsets in `out` of a member of the event; `from` includes the comma before it. */
typedef struct kt_fix_member {
    size_t from, key, key_end, to;
} kt_fix_member;

/* The event that is being read. */
typedef struct kt_fix_event {
    uint32_t seen; /* bit i: the known member with index i was read */
    uint32_t member_count;
    char phase;
    bool has_ts, has_name, has_args;
    bool args_lost; /* the args as a whole are lost */
    bool odd_time;  /* a time did not fit, and was left out */
} kt_fix_event;

typedef struct kt_fix {
    const char *text;
    size_t size;
    bool final;
    int ts_shift; /* of times, to nanoseconds */
    bool ran_out; /* a byte beyond the end of the text was needed */
    bool no_memory;
    bool too_deep;  /* the reading failed because of KT_FIX_DEPTH */
    bool cut_short; /* the element ends at `at` because another one begins there */
    size_t at;
    kt_bytes *out;
    /* Changes so far, at most KT_REPAIR_LIST_MAX; further ones are only counted. */
    KB_VEC(kt_repair) changes;
    uint32_t uncounted[KT_REPAIR_KINDS];

    uint32_t depth; /* of open brackets: entries of open and level */
    char open[KT_FIX_DEPTH];
    uint8_t level[KT_FIX_DEPTH];
    uint32_t tries;
    kt_fix_event event;
    kt_fix_member members[KT_FIX_MEMBERS];
} kt_fix;

/* A state to return to. */
typedef struct kt_fix_mark {
    size_t at, out_count, change_count;
    uint32_t depth;
    uint32_t uncounted[KT_REPAIR_KINDS];
    kt_fix_event event;
} kt_fix_mark;

/* ---- repair.c: the state --------------------------------------------------------------------- */
void kt_fix_save(const kt_fix *f, kt_fix_mark *mark);
void kt_fix_restore(kt_fix *f, const kt_fix_mark *mark);
/** Records a change of text[offset, offset + bytes). */
void kt_fix_count(kt_fix *f, kt_repair_kind kind, size_t offset, size_t bytes);
/** Appends to the output. Without memory it sets no_memory and appends nothing. */
void kt_fix_put(kt_fix *f, const char *data, size_t bytes);
static inline void kt_fix_put_z(kt_fix *f, const char *text) { kt_fix_put(f, text, strlen(text)); }

/* ---- repair_names.c -------------------------------------------------------------------------- */
/** Index of the name of a known member; -1: unknown. */
int kt_known_member(kt_level level, kineto_string key);
/** True if readers accept this raw value of an event's member, with times in this unit. */
bool kt_fix_fits(kineto_string key, kineto_string value, int ts_shift);
/** True for a number that is too large to be a time. */
bool kt_fix_too_large(kineto_string key, kineto_string value, int ts_shift);
/** The letter in the raw value of "ph"; 0: not a single ASCII character. */
char kt_fix_phase(kineto_string value);
/** The number in a time that stands in quotes; empty: the value has another form. */
kineto_string kt_fix_quoted_time(kineto_string key, kineto_string value);
/** True for a number where a text is required. */
bool kt_fix_is_unquoted(kineto_string key, kineto_string value);
/** True for the number of a process or thread that is not an integer of 64 bits. *whole: its part
 *  that is one, if only zeros follow it; else empty. */
bool kt_fix_odd_place(kineto_string key, kineto_string value, kineto_string *whole);

/* ---- repair_peek.c: looks ahead, changes nothing but ran_out --------------------------------- */
/** Byte at a place, -1 at the end of the text. */
static inline int kt_fix_byte(kt_fix *f, size_t at)
{
    if (at < f->size)
        return (unsigned char)f->text[at];
    f->ran_out = true;
    return -1;
}
/** May a key without quotes hold this byte? */
static inline bool kt_bare_char(int c, bool first)
{
    return c == '_' || kb_is_letter((char)c) || (!first && kb_is_digit((char)c));
}

/** The end of the comment at `at`; `at`: there is none that ends soon. */
size_t kt_peek_comment_end(kt_fix *f, size_t at);
/** The next position that is not white space, a control character or part of a comment. */
size_t kt_peek_space_end(kt_fix *f, size_t at);
/** The end of a known key at `at` that has only its first or only its last quote; 0: there is none.
 *  *key: its text. */
size_t kt_peek_half_quoted(kt_fix *f, size_t at, kt_level level, kineto_string *key);
/** Whether a key and a colon stand at `at`. CERTAIN: a known one that the event does not have
 *  yet. */
kt_certainty kt_peek_key(kt_fix *f, size_t at, kt_level level);
/** Whether a value can end just before `at`, with `depth` brackets open. */
kt_certainty kt_peek_value_end(kt_fix *f, size_t at, uint32_t depth);
/** kt_peek_event: an event with its phase nearby begins at `at`. kt_peek_event_start: or one that
 *  begins with "ph", whatever follows. */
bool kt_peek_event(kt_fix *f, size_t at);
bool kt_peek_event_start(kt_fix *f, size_t at);
/** True if the "]" at `at` certainly ends the array of events. */
bool kt_peek_array_end(kt_fix *f, size_t at);
/** The end of the balanced brackets that open at `at`, skipping strings; 0: not balanced. */
size_t kt_peek_balanced_end(kt_fix *f, size_t at);
/** Finds where the open object certainly continues after a damaged member. True: *to is at the
 *  comma before a member, or at a closing bracket. False: nowhere; *to is where the search
 *  ended. */
bool kt_peek_resume(kt_fix *f, size_t from, size_t *to);

/* ---- repair_value.c -------------------------------------------------------------------------- */
typedef struct kt_text_end {
    size_t at; /* position of the closing quote */
    kt_certainty certainty;
    bool damaged; /* the string holds quotes before this one */
} kt_text_end;
/** Finds the end of the string at `at`, at or after `min_end`. On failure f->at is where the search
 *  ended. */
kt_fixed kt_fix_text_end(kt_fix *f, size_t at, size_t min_end, kt_text_end *end);
/** The same for a key. */
bool kt_fix_key_end(kt_fix *f, size_t at, kt_text_end *end);
/** Writes text[from, to) as a strict string; `quote` is the quote it had, 0: none. */
void kt_fix_copy(kt_fix *f, size_t from, size_t to, char quote);

/** Consumes a number, a word, or nothing. */
kt_fixed kt_fix_scalar(kt_fix *f);

/* ---- repair_value.c -------------------------------------------------------------------------- */
/** Skips white space and commas before an item; *comma: there was a comma. Returns the byte that
 *  follows, -1 at the end of the text. */
int kt_fix_next_item(kt_fix *f, bool first, bool *comma);
/** Skips white space, comments and control characters between values. */
void kt_fix_space(kt_fix *f);
/** Opens a bracket. False: KT_FIX_DEPTH are open already. */
bool kt_fix_push(kt_fix *f, char bracket, kt_level level);
/** Consumes any value; `min_end` as above; objects are of level `object`; *end is set for
 *  strings. */
kt_fixed kt_fix_value(kt_fix *f, size_t min_end, kt_level object, kt_text_end *end);
/** Consumes a key, with quotes, with one of them, or without. */
kt_fixed kt_fix_key(kt_fix *f, kt_text_end *end);

/* ---- repair_object.c ------------------------------------------------------------------------- */
/** Consumes the object at f->at. KT_FIX_CUT: an event or its args are written with their complete
 *  members. */
kt_fixed kt_fix_object(kt_fix *f, kt_level level);
/** Consumes a member of the open object, at its key; writes nothing if the member is dropped. */
kt_fixed kt_fix_member_alone(kt_fix *f, kt_level level);

/* ---- repair_changes.c ------------------------------------------------------------------------ */
/** Appends the value of "ckineto", `own` (empty: there is none), with ledger lines about the
 *  repairs. */
kineto_status kt_repair_state_losses(kineto_string own, const kt_repairs *r, const char *problem,
                                     kt_bytes *out, kineto_error *err);
#endif
