/* Single arguments of many rows. They are searched in the text that a row came with, because parsing
 * all of its arguments costs more. */
#ifndef KA_ARG_LOOKUP_H
#define KA_ARG_LOOKUP_H

#include "trace/bytes/json_value.h"
#include "trace/trace.h"

/** Names of members that are searched together, in one walk. */
#define KA_MAX_KEYS 6
#define KA_KEY(text) {text, sizeof(text) - 1}
typedef struct ka_keys {
    uint32_t count;
    char firsts[4]; /* letters that they begin with, some of them again if there are fewer */
    kineto_string key[KA_MAX_KEYS];
} ka_keys;
extern const ka_keys ka_dims_and_types; /* "Input Dims" and "Input type" */
/** Members of a JSON object, as they stand there; empty if it has none of this name. */
void ka_json_members(kineto_string object, const ka_keys *keys, kineto_string *values);
kineto_string ka_json_member(kineto_string object, const char *key);
/** The same of one member, a text without quotes and escapes. Valid as texts of arguments. */
kineto_string ka_json_text(kineto_string object, const char *key);
/** Arguments as texts: texts without quotes and escapes, numbers as JSON has them, lists and objects as they
 *  are spelled (see trace/bytes/json_value.h); empty if a row has none. Valid until the args of KT_ARGS_TEXT_VIEWS
 *  other rows, or KT_TEXT_ROOMS other arguments are read. */
void ka_arg_texts(const kineto_trace *t, kineto_row row, const ka_keys *keys,
                  kineto_string *values);
kineto_string ka_arg_text(const kineto_trace *t, kineto_row row, const char *key);
/** Lists of sizes in their one spelling; those of an operator's inputs. Valid as texts of arguments. */
kineto_string ka_sizes_text(kineto_string raw);
kineto_string ka_input_sizes(const kineto_trace *t, kineto_row row);
/** Numbers of arguments. @return bits of those that there are; others have no value, whole ones
 *  keep what `out` had. */
uint32_t ka_arg_numbers(const kineto_trace *t, kineto_row row, const ka_keys *keys, double *out);
uint32_t ka_arg_ints(const kineto_trace *t, kineto_row row, const ka_keys *keys, int64_t *out);
bool ka_arg_int(const kineto_trace *t, kineto_row row, const char *key, int64_t *out);
/** Bytes of tensors, by their sizes and types: those of "Input Dims" and "Input type". */
int64_t ka_input_bytes(const kineto_trace *t, kineto_row row, bool with_scalars);
/** Bytes that a kernel says it sent: "In msg nelems" and "dtype". -1: it does not say. */
int64_t ka_message_bytes(const kineto_trace *t, kineto_row row);
#endif
