/* Pseudonyms for what a trace says of people, machines and code: what the parts share.
 *
 * A text survives only if it is known to be public: one of the words, keys and forms of
 * scrub_known.c. Everything else is replaced by a keyed hash of itself, or taken apart where its
 * form is worth keeping (a path, a line of Python, a kernel's name in C++) and replaced piece by
 * piece. */
#ifndef KT_SCRUB_H
#define KT_SCRUB_H

#include "trace/transform/copy.h"

#include <regex.h>

typedef KB_VEC(char) kt_chars;

/* What the values under a key are. */
typedef enum kt_key_class {
    KT_KEY_UNKNOWN, /* keys of a program's own */
    KT_KEY_PLAIN,   /* numbers, and words that are public or not */
    KT_KEY_PRIVATE, /* a key of the format, but what is under it says who and where */
    KT_KEY_STACK,
    KT_KEY_SHAPE,
    KT_KEY_HOST,
    KT_KEY_KERNEL /* name of a kernel */
} kt_key_class;

/* What is known of a key, and what stands for it. */
typedef struct kt_scrub_key {
    kt_key_class class;
    uint32_t id[2]; /* in the builder: as a key of args, of the header; KT_COPY_NONE: not yet */
} kt_scrub_key;

typedef struct kt_scrub {
    const kineto_trace *from;
    kt_builder *b;
    kineto_scrub how;
    uint64_t key[2];
    regex_t keep;
    bool has_keep, failed;
    kt_copy copy;
    kt_chars out;     /* the text that is being made */
    kt_chars json;    /* the JSON that is being made of such texts */
    kt_chars scratch; /* a text without its escapes, or with a NUL behind it */
    kt_chars plain;   /* a text of the source without its escapes */
    kb_intern keys;
    KB_VEC(kt_scrub_key) key_rows; /* by id in keys */
    KB_VEC(kineto_string) hosts;   /* names of machines, to be found inside of other texts */
    kb_map names;                  /* kind << 32 | name → id in the builder */
    kineto_scrub_result done;
} kt_scrub;

static inline bool kt_scrubs(const kt_scrub *s, uint32_t what) { return (s->how.what & what) != 0; }

/* ---- scrub_known.c: what is public ---- */
bool kt_known_name(uint32_t kind, kineto_string name);
/** Names of processes and devices: "python", "GPU 0". */
bool kt_known_place(kineto_string name);
bool kt_known_category(kineto_string category);
kt_key_class kt_known_key(kineto_string key);
/** Values: data types, collectives …; under a key that is known also models of devices, and texts
 * that are numbers. */
bool kt_known_value(kineto_string value, bool known_key);
bool kt_known_reason(kineto_string reason);
bool kt_known_source(kineto_string source);
/** Words of C++ and of public libraries in names of kernels. */
bool kt_known_word(kineto_string word);
/** @param word  the first part of a name with `::`
 *  @param rest  it and what follows */
bool kt_known_namespace(kineto_string word, kineto_string rest);
/** torch.nn's classes. */
bool kt_known_module(kineto_string name);
bool kt_known_optimizer(kineto_string name);
/** Files of public packages; `at_root`: nothing, or site-packages stands before it. */
bool kt_known_package(kineto_string component, bool at_root);
bool kt_known_file(kineto_string path);
bool kt_known_extension(kineto_string extension);
bool kt_is_step(kineto_string name);
bool kt_is_ipv4(kineto_string text);

/* ---- scrub_text.c: one text ----
 * Each returns a view that is valid until the next call of any of them. */
kineto_string kt_scrub_name(kt_scrub *s, uint32_t kind, kineto_string name);
kineto_string kt_scrub_place(kt_scrub *s, bool is_track, kineto_string name);
kineto_string kt_scrub_category(kt_scrub *s, kineto_string category);
kineto_string kt_scrub_host(kt_scrub *s, kineto_string host);
kineto_string kt_scrub_stack(kt_scrub *s, kineto_string stack);
/** A value in args or the header; `known`: its key is. */
kineto_string kt_scrub_value(kt_scrub *s, kineto_string value, bool known, uint32_t what);
/** `prefix` and the hash. */
kineto_string kt_scrub_hash(kt_scrub *s, const char *prefix, kineto_string text);
/** A text of a class that is not asked for: only paths and machines in it are replaced. */
kineto_string kt_scrub_inside(kt_scrub *s, kineto_string text);
/** Did the user ask to keep it? */
bool kt_scrub_kept(kt_scrub *s, kineto_string text);
bool kt_chars_add(kt_scrub *s, kt_chars *to, const void *data, size_t size);

/* ---- scrub_args.c: args and JSON ---- */
/** Stage the args of a row. */
void kt_scrub_args(kt_scrub *s, kineto_row row);
/** A JSON value as text; `what`: KINETO_SCRUB_ARGS or …_HEADER, as where it stands. */
kineto_string kt_scrub_json(kt_scrub *s, kineto_string raw, kt_key_class class, uint32_t what);
/** Id of a key in the builder; *class receives what it is. `what` as above. */
uint32_t kt_scrub_key_id(kt_scrub *s, kineto_string key, uint32_t what, kt_key_class *class);
#endif
