/* What the files of the decoder share: decode.c (second pass), scan.c (first pass), sites.c
 * (dictionary), args.c (packed args), async.c (parts and asynchronous ranges), function.c
 * (operators). Only in libckineto; the interface is at the end of format.h. */
#ifndef KF_DECODE_H
#define KF_DECODE_H

#include "format/format.h"
#include <ckineto/plugin.h>

/** A neutral kind, or one that can be a plug-in's own. */
KB_INLINE bool kf_kind_possible(uint32_t kind)
{
    return kind < KINETO_KIND_COUNT ||
           (kind >= KINETO_KIND_OWN_FIRST && kind < KINETO_KIND_OWN_FIRST + KINETO_KIND_OWN_COUNT);
}

/* ---- args.c ---- */
/** Words that a packed value of this type takes, 0 if it is malformed or longer than `words`. */
uint32_t kf_value_words(uint32_t type, const uint64_t *value, uint32_t words);
/** Are these words exactly the args of the site, or exactly a list of loose args? */
bool kf_site_args_valid(const kf_site *site, const uint64_t *words, uint32_t count);
bool kf_loose_args_valid(const uint64_t *words, uint32_t count);
/** Bytes of a STRING entry; empty when the id is not that of one. */
kineto_string kf_dictionary_string(const uint64_t *dictionary, uint32_t words, uint32_t id);

/* ---- sites.c ---- */
/* Sites parsed so far, by dictionary id. Parsed on demand: a dictionary may grow meanwhile. */
typedef struct kf_sites {
    const kf_input *input;
    uint32_t *slots; /* per dictionary word: index into list + 1 */
    uint8_t *sets;   /* per dictionary word: a set of args? 0 not known yet, 1 yes, 2 no */
    KB_VEC(const kf_site *) list;
    kb_arena arena;
    uint64_t bad_entries;
} kf_sites;
extern const kf_site kf_site_unknown;
kineto_status kf_sites_init(kf_sites *sites, const kf_input *input, kineto_error *err);
void kf_sites_free(kf_sites *sites);
const kf_site *kf_site_load(kf_sites *sites, uint32_t id);
KB_INLINE const kf_site *kf_site_of(kf_sites *sites, uint32_t id)
{
    uint32_t slot = id < sites->input->dictionary_words ? sites->slots[id] : 0;
    return KINETO_LIKELY(slot != 0) ? sites->list.data[slot - 1] : kf_site_load(sites, id);
}
/** The id itself if it is that of a valid set of args, else 0 (counted as a bad entry). */
uint32_t kf_set_load(kf_sites *sites, uint32_t id);
KB_INLINE uint32_t kf_set_of(kf_sites *sites, uint32_t id)
{
    bool known = id < sites->input->dictionary_words && sites->sets[id] == 1;
    return KINETO_LIKELY(known) ? id : kf_set_load(sites, id);
}
/** Call visitor->entry for each table entry. */
kineto_status kf_dictionary_walk(const kf_input *input, const kf_visitor *visitor,
                                 uint64_t *bad_entries);

/* ---- scan.c ---- */
typedef struct kf_segment {
    uint32_t cursor, seq, chunk;
    uint16_t offset, words;
} kf_segment;
typedef KB_VEC(kf_segment) kf_segments;
/** Shortest valid length of a record of this type; 0: unknown type. */
extern const uint8_t kf_min_words_of[64];
KB_INLINE uint32_t kf_min_words(uint32_t type) { return kf_min_words_of[type & 63]; }
/** Find the segments of all chunks, ordered by (cursor, seq), each once. */
kineto_status kf_scan(const kf_input *input, kf_segments *segments, kf_decode_result *result,
                      kineto_error *err);

/* ---- async.c ---- */
/* The optional parts of BEGIN and its like. Pointers into the record. */
typedef struct kf_parts_view {
    const kf_site *site;
    kineto_string name;
    uint64_t correlation_id, external_id;
    kf_args args;
    const uint64_t *function; /* part of an operator, checked; NULL */
    uint32_t flags;           /* KF_EVENT_… */
} kf_parts_view;
/** Parse a record whose parts start at word `first`; false if they are inconsistent. */
bool kf_parts_parse(kf_sites *sites, const uint64_t *record, uint32_t words, uint32_t first,
                    kf_parts_view *out);
/** Same; the two most frequent cases in place. */
KB_INLINE bool kf_parts_read(kf_sites *sites, const uint64_t *record, uint32_t words,
                             uint32_t first, kf_parts_view *out)
{
    uint32_t props = kf_header_aux(record[0]) >> 8;
    const kf_site *site = kf_site_of(sites, kf_header_id(record[0]));
    bool fixed = props == KF_PROP_ARGS && site->fixed_args && words > first;
    if (props != 0 && !fixed)
        return kf_parts_parse(sites, record, words, first, out);
    *out = (kf_parts_view){.site = site, .name = site->name};
    if (!fixed)
        return words == first;
    out->args = (kf_args){record + first, words - first, site};
    return words - first == site->arg_count;
}
void kf_event_set_parts(kf_event *event, const kf_parts_view *parts);

/* One end of an asynchronous range; they are joined when all are known. */
typedef struct kf_half {
    uint64_t ticks, id, order;
    const uint64_t *record; /* a copy */
    uint32_t process, site, cursor, pid, tid;
    bool is_end;
} kf_half;
typedef struct kf_halves {
    KB_VEC(kf_half) list;
    kb_arena arena;
} kf_halves;
/** Keep a copy; false: out of memory. */
bool kf_half_add(kf_halves *halves, kf_half half, const uint64_t *record, uint32_t words);
kineto_status kf_halves_emit(kf_halves *halves, kf_sites *sites, const kf_visitor *visitor,
                             kf_decode_result *result);
void kf_halves_free(kf_halves *halves);
#endif
