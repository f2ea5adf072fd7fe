/* What the parts of repair share: the place in the text, and what is open there. */
#ifndef KT_REPAIR_IMPL_H
#define KT_REPAIR_IMPL_H

#include "trace/repair/repair.h"

#define KT_FIX_DEPTH   KT_REPAIR_MAX_DEPTH
#define KT_FIX_MEMBERS 64u /* of an event, that are looked at for duplicates */
#define KT_FIX_TRIES   8u  /* second readings of one element */

/* Which names are known: that makes an end certain. */
typedef enum kt_level { KT_LEVEL_HEADER, KT_LEVEL_EVENT, KT_LEVEL_ARGS, KT_LEVEL_INNER } kt_level;

/* Could a value end here? */
typedef enum kt_sure {
    KT_NO,
    KT_MAYBE, /* what follows has the right shape */
    KT_SURE   /* what follows is a member that is known to come here, or the end of all that is open
               */
} kt_sure;

typedef enum kt_fixed {
    KT_FIXED,
    KT_FIX_FAILED, /* no certain reading */
    KT_FIX_CUT     /* the text, or all that may belong to the element, ends inside */
} kt_fixed;

/* A member of the event, in `out`, with the comma before it. */
typedef struct kt_fix_member {
    size_t from, key, key_end, to;
} kt_fix_member;

/* What is known of the event so far. */
typedef struct kt_fix_event {
    uint32_t seen; /* known members, by their index */
    uint32_t member_count;
    char phase;
    bool has_ts, has_name, has_args;
    bool args_lost; /* as a whole */
    bool odd_time;  /* a time did not fit, and was left out */
} kt_fix_event;

typedef struct kt_fix {
    const char *text;
    size_t size;
    bool final;
    int ts_shift; /* of times, to nanoseconds */
    bool ran_out; /* something beyond the end of the text was asked for */
    bool no_memory;
    bool too_deep;  /* why it failed */
    bool cut_short; /* the element ends where another begins: at `at` */
    size_t at;
    kt_bytes *out;
    /* Changes so far; those that do not fit are only counted. */
    KB_VEC(kt_repair) changes;
    uint32_t uncounted[KT_REPAIR_KINDS];

    uint32_t depth; /* of what is open */
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

/* ---- repair_state.c ---- */
void kt_fix_save(const kt_fix *f, kt_fix_mark *mark);
void kt_fix_restore(kt_fix *f, const kt_fix_mark *mark);
void kt_fix_count(kt_fix *f, kt_repair_kind kind, size_t offset, size_t bytes);
void kt_fix_put(kt_fix *f, const char *data, size_t bytes);
static inline void kt_fix_put_z(kt_fix *f, const char *text) { kt_fix_put(f, text, strlen(text)); }

/* ---- repair_names.c ---- */
/** Index of a known member's name; -1. */
int kt_known(kt_level level, kineto_string key);
/** Can readers take this raw value of an event's member, times in this unit? */
bool kt_fix_fits(kineto_string key, kineto_string value, int ts_shift);
/** Is it a number that is no time because it is too large? */
bool kt_fix_too_large(kineto_string key, kineto_string value, int ts_shift);
/** The letter in the raw value of "ph"; 0: it is no single one, or none in what is written. */
char kt_fix_phase(kineto_string value);
/** The number in a time that stands in quotes; empty if it is none. */
kineto_string kt_fix_quoted_time(kineto_string key, kineto_string value);
/** Is it a number where a text belongs? */
bool kt_fix_is_unquoted(kineto_string key, kineto_string value);
/** Is it a number, of a process or thread, that is no whole one of 64 bits? *whole: its part that is
 *  one, if nothing but zeros is behind that; else empty. */
bool kt_fix_odd_place(kineto_string key, kineto_string value, kineto_string *whole);

/* ---- repair_look.c: looks ahead, changes nothing but ran_out ---- */
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
    return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (!first && c >= '0' && c <= '9');
}

/** Behind the comment at `at`; `at` if there is none that ends soon. */
size_t kt_look_comment(kt_fix *f, size_t at);
/** The next place that is no white space, control character or comment. */
size_t kt_look_space(kt_fix *f, size_t at);
/** Behind a known key at `at` that has its first quote only, or its last; 0: there is none. *key: its
 *  text. */
size_t kt_look_half_quoted(kt_fix *f, size_t at, kt_level level, kineto_string *key);
/** Is there a key and a colon at `at`? SURE: a known one that the event does not have yet. */
kt_sure kt_look_key(kt_fix *f, size_t at, kt_level level);
/** Can a value end just before `at`, with `depth` brackets open? */
kt_sure kt_look_end(kt_fix *f, size_t at, uint32_t depth);
/** Is an event at `at`, with its phase near; or one that begins with "ph", whatever follows? */
bool kt_look_event(kt_fix *f, size_t at);
bool kt_look_start(kt_fix *f, size_t at);
/** Is the "]" at `at` certainly that of the events? */
bool kt_look_array_end(kt_fix *f, size_t at);
/** Behind the closing bracket of what opens at `at`, strings taken as such; 0: not balanced. */
size_t kt_look_balanced(kt_fix *f, size_t at);
/** Where what is open goes on with certainty, behind a damaged member. True: at the comma before a
 *  member, or at a closing bracket. False: nowhere; *to is where the search ended. */
bool kt_look_resume(kt_fix *f, size_t from, size_t *to);

/* ---- repair_text.c ---- */
typedef struct kt_text_end {
    size_t at; /* of the closing quote */
    kt_sure sure;
    bool damaged; /* it is not the first quote */
} kt_text_end;
/** Where the string at `at` ends: not before `least`. On failure f->at is how far was looked. */
kt_fixed kt_fix_text_end(kt_fix *f, size_t at, size_t least, kt_text_end *end);
/** The same for a key. */
bool kt_fix_key_end(kt_fix *f, size_t at, kt_text_end *end);
/** Write text[from, to) as a string; `quote` is what it stood in, 0 for none. */
void kt_fix_copy(kt_fix *f, size_t from, size_t to, char quote);

/* ---- repair_scalar.c ---- */
/** A number, a word, or nothing. */
kt_fixed kt_fix_scalar(kt_fix *f);

/* ---- repair_value.c ---- */
/** White space and commas before an item; *comma: was there one? The first byte of what follows, -1
 *  at the end of the text. */
int kt_fix_next_item(kt_fix *f, bool first, bool *comma);
/** White space, comments and control characters between values. */
void kt_fix_space(kt_fix *f);
/** One more bracket is open; false if that is too deep. */
bool kt_fix_push(kt_fix *f, char bracket, kt_level level);
/** Any value; `least` as above; an object is of level `object`; *end is filled for strings. */
kt_fixed kt_fix_value(kt_fix *f, size_t least, kt_level object, kt_text_end *end);
/** A key, with quotes, with one of them, or without. */
kt_fixed kt_fix_key(kt_fix *f, kt_text_end *end);

/* ---- repair_object.c ---- */
/** The object at `at`. CUT: an event or its args are written with what is whole in them. */
kt_fixed kt_fix_object(kt_fix *f, kt_level level);
/** A member of what is open, at its key; nothing is written if it is left out. */
kt_fixed kt_fix_member_alone(kt_fix *f, kt_level level);

/* ---- repair_ledger.c --------------------------------------------------------------------------- */
/* Append the value of "ckineto", `own` (empty: there is none), with lines for what was repaired. */
kineto_status kt_repair_state_losses(kineto_string own, const kt_repairs *r, const char *problem,
                                     kt_bytes *out, kineto_error *err);
#endif
