/* Scrubbing: pseudonyms for texts of a trace that identify people, machines or code.
 *
 * A text stays only if it is known to be public: one of the words, keys and forms of scrub_known.c.
 * Every other text is replaced by a keyed hash of itself, or, if its form is useful to readers (a
 * path, a line of Python, a kernel's name in C++), replaced piece by piece. docs/how-to/sharing-traces.md
 * describes the forms of pseudonyms. */
#ifndef KT_SCRUB_H
#define KT_SCRUB_H

#include "trace/transform/copy.h"

#include <regex.h>

typedef KB_VEC(char) kt_chars;

/* The class of a key decides how its values are scrubbed. */
typedef enum kt_key_class {
    KT_KEY_UNKNOWN, /* a key that only this program uses: it is replaced itself */
    KT_KEY_PLAIN,   /* numbers, and words that are checked one by one */
    KT_KEY_PRIVATE, /* a key of the format whose values identify users or jobs */
    KT_KEY_STACK,
    KT_KEY_SHAPE,
    KT_KEY_HOST,
    KT_KEY_KERNEL, /* name of a kernel */
    KT_KEY_PLACE   /* number of a process or thread, or the name of one */
} kt_key_class;

/* The class of a key and its replacement. */
typedef struct kt_scrub_key {
    kt_key_class class;
    /* In the builder: as a key of args, and of the header; or KT_COPY_NONE. */
    uint32_t id[2];
} kt_scrub_key;

typedef struct kt_scrub {
    const kineto_trace *from;
    kt_builder *b;
    kineto_scrub how;
    uint64_t key[2]; /* of all hashes, derived from the salt */
    regex_t keep;
    bool has_keep;
    bool failed; /* out of memory */
    kt_copy copy;
    kt_chars out;     /* the text that is being written */
    kt_chars json;    /* the JSON that such texts are written into */
    kt_chars scratch; /* NUL-terminated copy of a text, for regexec */
    kt_chars plain;   /* an unescaped text of the source */
    kt_chars numbered; /* a text with other numbers of threads */
    kb_intern keys;
    KB_VEC(kt_scrub_key) key_rows; /* by id in keys */
    /* Names of machines, searched for in other texts. */
    KB_VEC(kineto_string) hosts;
    /* kind << 32 | string id → string id in the builder. */
    kb_map names;
    /* Numbers of processes and threads → those of the copy; empty unless they are replaced. */
    kb_map numbers;
    kineto_scrub_result done;
} kt_scrub;

/* True if one of the bits KINETO_SCRUB_… is requested. */
static inline bool kt_scrubs(const kt_scrub *s, uint32_t what) { return (s->how.what & what) != 0; }

/* ---- scrub_known.c: texts that are public ---------------------------------------------------- */
bool kt_known_name(uint32_t kind, kineto_string name);
/** Names of processes and devices: "python", "GPU 0". */
bool kt_known_place(kineto_string name);
bool kt_known_category(kineto_string category);
kt_key_class kt_known_key(kineto_string key);
/** Values: data types, collectives …; under a known key also models of devices, and texts that hold
 *  numbers. */
bool kt_known_value(kineto_string value, bool known_key);
bool kt_known_reason(kineto_string reason);
bool kt_known_source(kineto_string source);
/** Words of C++ and of public libraries in names of kernels. */
bool kt_known_word(kineto_string word);
/** @param word  the first part of a name with `::`
 *  @param rest  the word and the text after it */
bool kt_known_namespace(kineto_string word, kineto_string rest);
/** torch.nn's classes. */
bool kt_known_module(kineto_string name);
bool kt_known_optimizer(kineto_string name);
/** Directories of public packages; `at_root`: the component is first, or follows site-packages. */
bool kt_known_package(kineto_string component, bool at_root);
bool kt_known_file(kineto_string path);
bool kt_known_extension(kineto_string extension);
bool kt_is_step_name(kineto_string name);
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
/** `prefix` and the hash of the text. */
kineto_string kt_scrub_hash(kt_scrub *s, const char *prefix, kineto_string text);
/** A text of a class that is not scrubbed: only paths and machines in it are replaced. */
kineto_string kt_scrub_inside(kt_scrub *s, kineto_string text);
/** True if the text matches kineto_scrub.keep. */
bool kt_scrub_kept(kt_scrub *s, kineto_string text);
/** Appends bytes. False: out of memory, which sets `failed`. */
bool kt_chars_add(kt_scrub *s, kt_chars *to, const void *data, size_t size);

/* ---- scrub_numbers.c: processes and threads ---------------------------------------------------- */
/** Numbers all processes and threads of the trace, for KINETO_SCRUB_IDS. */
void kt_scrub_number_places(kt_scrub *s);
/** The number that a process or thread gets; others stay. */
int64_t kt_scrub_number(const kt_scrub *s, int64_t number);
/** The same for the numbers in a text ("thread 42 (name)"). Valid until the next call of a function for texts. */
kineto_string kt_scrub_numbers_in(kt_scrub *s, kineto_string text);

/* ---- scrub_args.c: args and JSON ------------------------------------------------------------- */
/** Stage the args of a row. */
void kt_scrub_args(kt_scrub *s, kineto_row row);
/** Scrubs a JSON value; `what`: KINETO_SCRUB_ARGS or …_HEADER, depending on where it stands. */
kineto_string kt_scrub_json(kt_scrub *s, kineto_string raw, kt_key_class class, uint32_t what);
/** Id of a key in the builder; *class: its class. `what` as above. */
uint32_t kt_scrub_key_id(kt_scrub *s, kineto_string key, uint32_t what, kt_key_class *class);
#endif
