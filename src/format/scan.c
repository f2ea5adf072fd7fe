/* The decoder's first pass: find the segments of all chunks and order them by (cursor, seq). It
 * reads only headers, so that it is cheap enough for everything that was recorded. A segment may
 * occur twice, in the pool and in the spool: the longer copy is used. */
#include "format/decode.h"

const uint8_t kf_min_words_of[64] = {
    [KF_PAD] = 1,         [KF_KEYFRAME] = KF_KEYFRAME_WORDS,
    [KF_BEGIN] = 2,       [KF_REOPEN] = 2,
    [KF_END] = 1,         [KF_INSTANT] = 2,
    [KF_ASYNC_BEGIN] = 3, [KF_ASYNC_END] = 3,
    [KF_COUNTER] = 2,     [KF_ARGS] = 2,
    [KF_FLOW] = 3,        [KF_MEMORY] = 7,
    [KF_DEVICE] = 6,      [KF_CLOCK_SAMPLE] = 4,
    [KF_THREAD_NAME] = 2, [KF_THREAD_EXIT] = 2,
    [KF_OUTPUTS] = 3,     [KF_RANGE] = 3,
    [KF_THROTTLED] = 3,   [KF_THREAD_RUN] = KF_RUN_WORDS,
    [KF_STACK_SAMPLE] = KF_STACK_SAMPLE_WORDS, [KF_THREAD_LIFE] = 5,
    [KF_OPEN_CALL] = KF_CALL_WORDS,
};

/* Append the segment whose keyframe is `record`. False: out of memory. */
static bool append_segment(kf_segments *segments, const uint64_t *record, uint32_t chunk,
                           uint32_t offset)
{
    KB_ASSERT(offset < KF_CHUNK_WORDS);
    return kb_vec_push(segments, (kf_segment){.cursor = kf_header_id(record[0]),
                                              .seq = (uint32_t)(record[3] >> 32),
                                              .chunk = chunk,
                                              .offset = (uint16_t)offset});
}

/* The last segment from index `first` on, if there is one, ends at word `at`. */
static void end_last_segment(kf_segments *segments, size_t first, uint32_t at)
{
    kf_segment *last = segments->count > first ? &segments->data[segments->count - 1] : NULL;
    KB_ASSERT(!last || (at >= last->offset && at <= KF_CHUNK_WORDS));
    if (last)
        last->words = (uint16_t)(at - last->offset);
}

/* Append the segments of one chunk. A malformed record, or one before the first keyframe, ends the
 * scan of the chunk. False: out of memory. */
static bool scan_chunk_segments(const uint64_t *words, uint32_t count, uint32_t chunk,
                                kf_segments *segments, kf_decode_result *result)
{
    size_t first = segments->count;
    uint32_t at = 0;
    while (at < count) {
        uint64_t header = kb_load_acquire(&words[at]);
        uint32_t type = kf_header_type(header), n = kf_header_words(header);
        uint32_t min = kf_min_words(type);
        if (header == 0)
            break;
        bool outside = segments->count == first && type != KF_KEYFRAME && type != KF_PAD;
        if (KINETO_UNLIKELY(min == 0 || n < min || n > count - at || outside)) {
            result->bad_records++;
            break;
        }
        if (KINETO_UNLIKELY(type == KF_KEYFRAME)) {
            end_last_segment(segments, first, at);
            if (!append_segment(segments, words + at, chunk, at))
                return false;
        }
        at += n;
    }
    end_last_segment(segments, first, at);
    return true;
}

/* By (cursor, seq); of two copies the longer one comes first; chunk and offset make the order
 * total. */
static int compare_segments(const void *left, const void *right)
{
    const kf_segment *a = left, *b = right;
    if (a->cursor != b->cursor)
        return KB_COMPARE(a->cursor, b->cursor);
    if (a->seq != b->seq)
        return KB_COMPARE(a->seq, b->seq);
    if (a->words != b->words)
        return KB_COMPARE(b->words, a->words);
    if (a->chunk != b->chunk)
        return KB_COMPARE(a->chunk, b->chunk);
    return KB_COMPARE(a->offset, b->offset);
}

/* Of the segments with the same (cursor, seq), keep the first. */
static void drop_segment_copies(kf_segments *segments)
{
    size_t kept = 0;
    for (size_t i = 0; i < segments->count; i++) {
        kf_segment s = segments->data[i];
        const kf_segment *previous = kept ? &segments->data[kept - 1] : NULL;
        if (!previous || previous->cursor != s.cursor || previous->seq != s.seq)
            segments->data[kept++] = s;
    }
    segments->count = kept;
}

kineto_status kf_scan(const kf_input *input, kf_segments *segments, kf_decode_result *result,
                      kineto_error *err)
{
    for (uint32_t i = 0; i < input->chunk_count; i++) {
        uint32_t count = 0;
        kineto_error why = {.code = KINETO_OK};
        const uint64_t *words = input->peek ? input->peek(input->context, i, &count) : NULL;
        if (!words)
            words = input->get(input->context, i, &count, &why);
        if (!words)
            return kb_fail(err, why.code ? why.code : KINETO_E_IO, "chunk %u cannot be read: %s", i,
                           why.code ? why.message : "no reason given");
        if (!scan_chunk_segments(words, KB_MIN(count, KF_CHUNK_WORDS), i, segments, result))
            return kb_fail_memory(err, "index of segments");
    }
    if (segments->count)
        qsort(segments->data, segments->count, sizeof *segments->data, compare_segments);
    drop_segment_copies(segments);
    result->segments = segments->count;
    return KINETO_OK;
}
