/* Recordings made by hand, for tests: a pool on the heap whose dictionary and chunks are written
 * word by word. Takes ticks as nanoseconds after KW_EPOCH unless a test says otherwise. */
#ifndef TESTS_KF_WRITE_H
#define TESTS_KF_WRITE_H

#include "format/format.h"
#include <ckineto/plugin.h>

#define KW_TICKS UINT64_C(1000000000000)
#define KW_EPOCH INT64_C(1700000000000000000)

typedef struct kw_recording {
    void *map;
    kf_pool pool;
    uint32_t chunk, at; /* where the next record goes */
    kf_input input;
} kw_recording;

static inline const uint64_t *kw_get(void *context, uint32_t index, uint32_t *words,
                                     kineto_error *err)
{
    (void)err;
    *words = KF_CHUNK_WORDS;
    return (const uint64_t *)context + (size_t)index * KF_CHUNK_WORDS;
}

/* One tick is one ns; three snapshots, a second apart. */
static inline void kw_snapshots(kw_recording *w)
{
    for (uint32_t i = 0; i < 3; i++) {
        int64_t ns = (int64_t)i * 1000000000;
        kb_clock_snapshot s = {.ticks = KW_TICKS + (uint64_t)ns,
                               .monotonic_ns = 5000000000 + ns,
                               .monotonic_raw_ns = 7000000000 + ns,
                               .boottime_ns = 9000000000 + ns,
                               .realtime_ns = KW_EPOCH + ns,
                               .width_ticks = 20};
        kf_snapshot_add(w->pool.control, &s);
    }
}

static inline bool kw_create(kw_recording *w, uint32_t chunks, size_t dictionary_bytes)
{
    size_t bytes = kf_pool_size((size_t)chunks * KF_CHUNK_BYTES, dictionary_bytes);
    memset(w, 0, sizeof *w);
    w->map = aligned_alloc(4096, kb_align(bytes, 4096));
    if (!w->map)
        return false;
    memset(w->map, 0, kb_align(bytes, 4096));
    kf_pool_format(w->map, (size_t)chunks * KF_CHUNK_BYTES, dictionary_bytes);
    if (kf_pool_open(w->map, bytes, &w->pool, NULL))
        return false;
    w->input = (kf_input){.dictionary = w->pool.dictionary,
                          .dictionary_words = w->pool.dictionary_words,
                          .chunk_count = w->pool.chunk_count,
                          .get = kw_get,
                          .context = w->pool.chunks};
    kw_snapshots(w);
    return true;
}

static inline void kw_free(kw_recording *w) { free(w->map); }

/* ---- dictionary ---- */

static inline uint32_t kw_string(kw_recording *w, const char *text)
{
    kf_part part = {text, strlen(text)};
    return kf_dictionary_add(&w->pool, KF_ENTRY_STRING, &part, 1);
}

/* An entry of a struct and up to three texts (NULL: no more). */
static inline uint32_t kw_entry(kw_recording *w, kf_entry_type type, const void *data, size_t bytes,
                                const char *a, const char *b, const char *c)
{
    const char *texts[] = {a, b, c};
    uint32_t sizes[3], n = 1;
    kf_part parts[7] = {{data, bytes}};
    for (int i = 0; i < 3 && texts[i]; i++) {
        sizes[i] = (uint32_t)strlen(texts[i]);
        parts[n++] = (kf_part){&sizes[i], sizeof sizes[i]};
        parts[n++] = (kf_part){texts[i], sizes[i]};
    }
    return kf_dictionary_add(&w->pool, type, parts, n);
}

/* Metadata that was said at `ticks`, or that holds for all (0). */
static inline uint32_t kw_meta(kw_recording *w, uint32_t process, uint64_t ticks, const char *key,
                               const char *json_value)
{
    kf_meta_entry e = {.process = process, .ticks = ticks};
    return kw_entry(w, KF_ENTRY_META, &e, sizeof e, key, json_value, NULL);
}

static inline uint32_t kw_process(kw_recording *w, uint32_t pid, const char *comm,
                                  const char *command)
{
    kf_process_entry e = {.pid = pid, .ppid = 1, .start_time = 100 + pid, .exec_id = 7};
    return kw_entry(w, KF_ENTRY_PROCESS, &e, sizeof e, comm, command, NULL);
}

/* A site whose args are named "a0", "a1" … */
static inline uint32_t kw_site(kw_recording *w, const char *name, kineto_kind kind,
                               const uint8_t *types, uint32_t count)
{
    kf_site_entry e = {(uint8_t)kind, 0, (uint8_t)count, 0};
    uint32_t sizes[KINETO_SITE_MAX_ARGS + 1], n = 2;
    char names[KINETO_SITE_MAX_ARGS][4];
    kf_part parts[2 + 2 * (KINETO_SITE_MAX_ARGS + 1)] = {{&e, sizeof e}, {types, count}};
    for (uint32_t i = 0; i <= count; i++) {
        const char *text = i ? names[i - 1] : name;
        if (i)
            snprintf(names[i - 1], sizeof names[0], "a%u", (i - 1) % 100);
        sizes[i] = (uint32_t)strlen(text);
        parts[n++] = (kf_part){&sizes[i], sizeof sizes[i]};
        parts[n++] = (kf_part){text, sizes[i]};
    }
    return kf_dictionary_add(&w->pool, KF_ENTRY_SITE, parts, n);
}

/* ---- chunks ---- */

static inline uint64_t *kw_words(kw_recording *w)
{
    return kf_pool_chunk(&w->pool, w->chunk) + w->at;
}

/* Go on writing in this chunk. */
static inline void kw_chunk(kw_recording *w, uint32_t index)
{
    w->chunk = index;
    w->at = 0;
}

static inline void kw_put(kw_recording *w, uint64_t word)
{
    if (w->at < KF_CHUNK_WORDS)
        kw_words(w)[0] = word;
    w->at++;
}

static inline void kw_segment(kw_recording *w, uint32_t cursor, uint32_t seq, uint32_t process,
                              uint32_t pid, uint32_t tid, uint64_t ticks, uint32_t reopens)
{
    kw_put(w, kf_header(KF_KEYFRAME, KF_KEYFRAME_WORDS, 0, cursor));
    kw_put(w, ticks);
    kw_put(w, kf_pair(pid, tid));
    kw_put(w, kf_pair(process, seq));
    kw_put(w, kf_pair(0, reopens));
}

/* Any record that has ticks: header, ticks, then count words. */
static inline void kw_record(kw_recording *w, kf_type type, uint32_t aux, uint32_t id,
                             uint64_t ticks, const uint64_t *words, uint32_t count)
{
    kw_put(w, kf_header(type, 2 + count, aux, id));
    kw_put(w, ticks);
    for (uint32_t i = 0; i < count; i++)
        kw_put(w, words[i]);
}

static inline void kw_begin(kw_recording *w, uint32_t depth, uint32_t site, uint64_t ticks)
{
    kw_record(w, KF_BEGIN, depth, site, ticks, NULL, 0);
}

static inline void kw_begin_args(kw_recording *w, uint32_t depth, uint32_t site, uint64_t ticks,
                                 uint32_t props, const uint64_t *words, uint32_t count)
{
    kw_record(w, KF_BEGIN, depth | props << 8, site, ticks, words, count);
}

static inline void kw_reopen(kw_recording *w, uint32_t depth, uint32_t site, uint64_t ticks)
{
    kw_record(w, KF_REOPEN, depth, site, ticks, NULL, 0);
}

static inline void kw_end(kw_recording *w, uint32_t depth, uint64_t ticks)
{
    kw_put(w, kf_end(depth, ticks));
}

/* A text of at most 64 bytes, inline; returns words. */
static inline uint32_t kw_text(uint64_t *out, const char *text)
{
    size_t bytes = strlen(text);
    memset(out, 0, 8 + kb_align(bytes, 8));
    out[0] = kf_text_word((uint32_t)bytes, 0);
    memcpy(out + 1, text, bytes);
    return (uint32_t)(1 + (bytes + 7) / 8);
}

typedef struct kw_device {
    uint32_t kind, clock, name, source;
    uint64_t start, end, correlation;
    int32_t device, resource;
    uint32_t flow_type, flow_id;
    bool flow_start;
    uint32_t spelling;
    bool site; /* `name` is a site, and the args are its */
    uint64_t external;
    uint32_t set; /* of args */
} kw_device;

/* With loose args, or those of its site. */
static inline void kw_device_record(kw_recording *w, const kw_device *d, const uint64_t *args,
                                    uint32_t count)
{
    uint64_t words[4] = {
        d->end, d->correlation, kf_pair((uint32_t)d->device, (uint32_t)d->resource),
        kf_device_word(d->flow_id, d->flow_type, d->flow_start, d->source, d->spelling)};
    uint32_t props = d->site ? KF_DEVICE_SITE : count ? KF_DEVICE_LOOSE : 0;
    uint32_t more = (d->external ? 1u : 0) + (d->set ? 1u : 0);
    props |= (d->external ? KF_DEVICE_EXTERNAL : 0) | (d->set ? KF_DEVICE_SET : 0);
    kw_put(w, kf_header(KF_DEVICE, 6 + more + count, kf_device_aux(d->kind, d->clock, props),
                        d->name));
    kw_put(w, d->start);
    for (int i = 0; i < 4; i++)
        kw_put(w, words[i]);
    if (d->external)
        kw_put(w, d->external);
    if (d->set)
        kw_put(w, d->set);
    for (uint32_t i = 0; i < count; i++)
        kw_put(w, args[i]);
}

/* A set of args that events name by its id. */
static inline uint32_t kw_set(kw_recording *w, const uint64_t *words, uint32_t count)
{
    kf_part part = {words, count * sizeof *words};
    return kf_dictionary_add(&w->pool, KF_ENTRY_ARGS, &part, 1);
}

/* A loose STRING or JSON without a text word, of at most 64 bytes; returns words. */
static inline uint32_t kw_loose_text(uint64_t *out, uint32_t key, kineto_arg_type type,
                                     const char *text)
{
    size_t bytes = strlen(text);
    out[0] = kf_loose_word(key, type, (uint32_t)bytes + 1);
    memset(out + 1, 0, kb_align(bytes, 8));
    memcpy(out + 1, text, bytes);
    return (uint32_t)(1 + (bytes + 7) / 8);
}
#endif
