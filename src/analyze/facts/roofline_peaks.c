/* Peaks of devices: the row of device_peaks.def that fits the name of a device, and the device
 * that did most of the work of a trace. */
#include "analyze/facts/analyses.h"

#include <strings.h>

static const ka_peaks peaks[] = {
#define X(...) {__VA_ARGS__},
#include "analyze/facts/device_peaks.def"
#undef X
};
static const ka_peaks nothing;

static bool is_part_of_word(char c) { return kb_is_letter_or_digit(c); }

/* As a word of its own, small or not: "A10" is not in "A100". */
static bool has_word(kineto_string name, const char *word, size_t size)
{
    for (size_t at = 0; at + size <= name.size; at++) {
        if (strncasecmp(name.data + at, word, size) != 0)
            continue;
        bool begins = at == 0 || !is_part_of_word(name.data[at - 1]),
             ends = at + size == name.size || !is_part_of_word(name.data[at + size]);
        if (begins && ends)
            return true;
    }
    return false;
}

/* `words` has spaces between; the order in the name does not matter. */
static bool has_words(kineto_string name, const char *words)
{
    while (*words) {
        size_t size = strcspn(words, " ");
        if (!has_word(name, words, size))
            return false;
        words += size + (words[size] == ' ');
    }
    return true;
}

/* Does the name have a word that makes it another product than `words` alone, with other
 * peaks? */
static bool is_variant(kineto_string name, const char *words)
{
    static const char *const variants[] = {"Ti", "SUPER", "D", "Laptop", "Mobile", "Max-Q", "MIG"};
    for (size_t i = 0; i < KB_COUNT(variants); i++)
        if (has_word(name, variants[i], strlen(variants[i])) &&
            !has_words(kb_string(words), variants[i]))
            return true;
    return false;
}

/* The first row that matches: special names stand before general ones in device_peaks.def. */
static const ka_peaks *peaks_named(kineto_string name)
{
    for (size_t i = 0; i < KB_COUNT(peaks); i++)
        if (has_words(name, peaks[i].words) && !is_variant(name, peaks[i].words))
            return &peaks[i];
    return NULL;
}

/* Compute capabilities that only one line of data center devices has. */
static const char *line_of(int64_t major, int64_t minor)
{
    return minor != 0    ? NULL
           : major == 7  ? "V100"
           : major == 8  ? "A100"
           : major == 9  ? "H100"
           : major == 10 ? "B200"
                         : NULL;
}

const ka_peaks *ka_peaks_of(kineto_string name, int64_t major, int64_t minor)
{
    const ka_peaks *p = peaks_named(name);
    const char *line = line_of(major, minor);
    if (p)
        return p;
    if (line && !is_variant(name, "") && (has_words(name, "NVIDIA") || has_words(name, "Tesla")))
        return peaks_named(kb_string(line));
    return &nothing;
}

double ka_peak_tflops(const ka_peaks *p, uint32_t precision)
{
    switch (precision) {
    case KA_PRECISION_FP64:
        return p->fp64;
    case KA_PRECISION_FP32:
        return p->fp32;
    case KA_PRECISION_TF32:
        return p->tf32;
    case KA_PRECISION_FP16:
        return p->fp16;
    case KA_PRECISION_BF16:
        return p->bf16;
    case KA_PRECISION_FP8:
        return p->fp8;
    default:
        return 0;
    }
}

/* ---- properties ------------------------------------------------------------------------------ */

/* A number of the device's properties under its key of today or of older traces; -1: not
 * present. */
static int64_t whole_member(kineto_string json, const char *key, const char *old_key)
{
    int64_t n;
    return (kt_value_whole(ka_json_member(json, key), &n) ||
            kt_value_whole(ka_json_member(json, old_key), &n)) &&
                   n >= 0
               ? n
               : -1;
}

/* JSON object of the stream's device. Traces of libkineto have it in a process row of the
 * device, which need not be the row of the stream. Empty: none. */
static kineto_string properties_of(const ka_dataset *s, const ka_stream *stream)
{
    kineto_process p;
    kineto_trace_process(s->trace, stream->process, &p);
    if (p.properties_json.size)
        return p.properties_json;
    for (uint32_t i = 0; i < kineto_trace_process_count(s->trace); i++) {
        kineto_trace_process(s->trace, i, &p);
        if (kt_is_described_device(&p) && p.pid == stream->device)
            return p.properties_json;
    }
    return (kineto_string){"", 0};
}

/* Number of devices with streams; *busiest is the stream with the most work. If memory runs
 * out, some devices are not counted. */
static uint32_t count_devices(const ka_dataset *s, uint32_t *busiest)
{
    kb_map seen = {0};
    uint32_t count = 0;
    *busiest = 0;
    for (uint32_t i = 0; i < s->stream_count; i++) {
        bool created = false;
        uint64_t key = (uint64_t)s->streams[i].process << 32 | (uint32_t)s->streams[i].device;
        (void)kb_map_insert(&seen, key, 0, &created);
        count += created;
        if (s->streams[i].count > s->streams[*busiest].count)
            *busiest = i;
    }
    kb_map_free(&seen);
    return count;
}

bool ka_devices_by_process(const ka_dataset *s, uint32_t *devices)
{
    kb_map seen = {0};
    bool ok = true;
    uint64_t last[2] = {UINT64_MAX, UINT64_MAX};
    for (uint32_t i = 0; ok && i < s->work_count; i++) {
        const ka_work *w = &s->work[i];
        const ka_stream *stream = &s->streams[w->stream];
        if (w->call == KA_NONE)
            continue;
        uint64_t key[] = {s->threads[s->slices[w->call].thread].process,
                          (uint64_t)stream->process << 32 | (uint32_t)stream->device};
        if (memcmp(key, last, sizeof key) == 0)
            continue;
        bool created = false;
        ok = kb_map_insert(&seen, kb_hash(key, sizeof key), 0, &created) != NULL;
        devices[key[0]] += created;
        memcpy(last, key, sizeof key);
    }
    kb_map_free(&seen);
    return ok;
}

const ka_peaks *ka_peaks_of_dataset(const ka_dataset *s, kineto_string *name, uint32_t *devices)
{
    uint32_t busiest = 0;
    *name = (kineto_string){"", 0};
    *devices = count_devices(s, &busiest);
    if (!s->stream_count)
        return &nothing;
    kineto_string json = properties_of(s, &s->streams[busiest]);
    *name = ka_json_text(json, "name");
    return ka_peaks_of(*name, whole_member(json, "computeMajor", "major"),
                       whole_member(json, "computeMinor", "minor"));
}
