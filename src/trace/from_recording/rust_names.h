/* What rust_names.c and rust_v0.c share: a name that is parsed and written in one pass. Names are untrusted:
 * output, depth and steps are limited, and what is malformed sets `failed`. */
#ifndef KT_RUST_NAMES_H
#define KT_RUST_NAMES_H

#include "trace/from_recording/symbols.h"

typedef struct kt_rust_text {
    const char *text; /* after "_R" */
    size_t size, at;
    char *out;
    size_t room, written;
    uint32_t depth, steps;
    uint64_t bound; /* lifetimes that are bound here */
    bool is_silent; /* parse only */
    bool is_open;   /* the path that was read last has an open list */
    bool failed;
} kt_rust_text;

typedef struct kt_rust_identifier {
    const char *bytes;
    size_t size;
    bool is_punycode;
} kt_rust_identifier;

/* ---- rust_names.c ---------------------------------------------------------------------------- */
char kt_rust_peek(const kt_rust_text *n); /* 0: the end, or failed */
char kt_rust_next(kt_rust_text *n);
bool kt_rust_eat(kt_rust_text *n, char c);
size_t kt_rust_decimal(kt_rust_text *n);
void kt_rust_write(kt_rust_text *n, const char *bytes, size_t size);
void kt_rust_write_text(kt_rust_text *n, const char *text);
void kt_rust_write_decimal(kt_rust_text *n, uint64_t value);
void kt_rust_write_character(kt_rust_text *n, uint32_t c);
void kt_rust_write_identifier(kt_rust_text *n, const kt_rust_identifier *id);
/* What tools append to names. */
void kt_rust_write_suffix(kt_rust_text *n, kineto_string suffix);
bool kt_rust_is_character(uint32_t c);

/* ---- rust_v0.c ------------------------------------------------------------------------------- */
/* False: malformed, or too long. */
bool kt_rust_write_v0(kineto_string mangled, char *out, size_t room);
#endif
