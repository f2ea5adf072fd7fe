/* The cursor with which the recorder writes records about other processes' threads. Its segments have
 * a keyframe with the recorder's own pid and tid; records state the thread that they are about. */
#include "cpu/writer.h"

#define NO_CHUNK UINT32_MAX

void ku_writer_init(ku_writer *w, const kf_pool *pool, const char *source_name)
{
    *w = (ku_writer){.pool = pool,
                     .source = kf_source_add(pool, 0, kb_string(source_name)),
                     .chunk = NO_CHUNK,
                     .pid = kb_os_pid(),
                     .tid = kb_os_tid(),
                     .ticks_clock = pool->control->ticks_clock};
    kb_clock_snapshot_take(w->ticks_clock, &w->first);
    w->ticks_per_ns = 1;
    ku_writer_read_clocks(w);
}

void ku_writer_read_clocks(ku_writer *w)
{
    kb_clock_snapshot_take(w->ticks_clock, &w->last);
    int64_t ns = w->last.monotonic_raw_ns - w->first.monotonic_raw_ns;
    if (ns > 0)
        w->ticks_per_ns = (double)(w->last.ticks - w->first.ticks) / (double)ns;
}

uint64_t ku_writer_ticks(const ku_writer *w, uint64_t raw_ns)
{
    double since_ns = (double)((int64_t)raw_ns - w->last.monotonic_raw_ns);
    return w->last.ticks + (uint64_t)(int64_t)(since_ns * w->ticks_per_ns);
}

void ku_writer_count(ku_writer *w, kf_reason reason, uint64_t count)
{
    if (count)
        kb_add_relaxed(&w->pool->control->counters[w->source][reason], count);
}

void ku_writer_add_cost(ku_writer *w, kf_cost what, uint64_t ns, uint64_t calls)
{
    kf_control *control = w->pool->control;
    kb_add_relaxed(&control->cost_ticks[what], (uint64_t)((double)ns * w->ticks_per_ns));
    kb_add_relaxed(&control->cost_calls[what], calls);
}

void ku_writer_finish(ku_writer *w)
{
    if (w->chunk != NO_CHUNK)
        kf_chunk_leave(w->pool, w->chunk, w->used, kb_ticks(w->ticks_clock));
    w->chunk = NO_CHUNK;
}

static void write_keyframe(ku_writer *w)
{
    uint64_t *at = kf_pool_chunk(w->pool, w->chunk) + w->used;
    at[1] = kb_ticks(w->ticks_clock);
    at[2] = kf_pair(w->pid, w->tid);
    at[3] = kf_pair(0, w->seq++);
    at[4] = 0;
    kb_store_release(at, kf_header(KF_KEYFRAME, KF_KEYFRAME_WORDS, 0, w->serial));
    w->used += KF_KEYFRAME_WORDS;
}

/* Continue in another chunk. False: none is free. */
static bool change_chunk(ku_writer *w, uint32_t words)
{
    uint64_t owner = (uint64_t)w->pid << 32 | w->tid;
    if (!w->serial)
        w->serial = kb_add_relaxed(&w->pool->control->cursor_serial, 1u) + 1;
    if (w->chunk != NO_CHUNK)
        kf_chunk_seal(w->pool, w->chunk, w->used, kb_ticks(w->ticks_clock));
    for (uint32_t tries = 0; tries <= w->pool->chunk_count; tries++) {
        w->chunk = kf_chunk_claim(w->pool, owner, &w->used);
        if (w->chunk == NO_CHUNK)
            return false;
        if (KF_CHUNK_WORDS - w->used >= KF_KEYFRAME_WORDS + words) {
            write_keyframe(w);
            return true;
        }
        kf_chunk_seal(w->pool, w->chunk, w->used, kb_ticks(w->ticks_clock));
    }
    w->chunk = NO_CHUNK;
    return false;
}

uint64_t *ku_writer_begin(ku_writer *w, uint32_t words)
{
    KB_ASSERT(words <= KF_MAX_RECORD_WORDS);
    if ((w->chunk == NO_CHUNK || w->used + words > KF_CHUNK_WORDS) && !change_chunk(w, words)) {
        ku_writer_count(w, KF_REASON_NO_ROOM, 1);
        return NULL;
    }
    return kf_pool_chunk(w->pool, w->chunk) + w->used;
}

void ku_writer_commit(ku_writer *w, uint64_t *record, uint64_t header)
{
    KB_ASSERT(record == kf_pool_chunk(w->pool, w->chunk) + w->used);
    kb_store_release(record, header);
    w->used += kf_header_words(header);
}
