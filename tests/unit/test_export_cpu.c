/* CPU profiles of random recordings: what the recorder wrote about threads and samples comes out of every
 * way in which formats read it, as many samples and as much CPU time. */
#include "export/sampled_walk.h"
#include "export/stacks.h"

#include "pftrace.h"
#include "unit.h"

#include "../helpers/kf_write.h"

#define THREADS    3u
#define RECORDINGS 60u

/* What was recorded. */
typedef struct truth {
    uint64_t samples, cpu_ns, blocked_ns, running_ns;
} truth;

/* A stack of up to six functions out of eight, of which the last one may be the kernel's. */
static void put_sample(kw_recording *w, uint64_t *state, uint32_t process, uint32_t tid,
                       uint64_t ticks, truth *all)
{
    uint64_t words[3 + 6], count = 1 + next_random(state) % 6, cpu_ns = 1 + next_random(state) % 2000;
    uint64_t kernel = next_random(state) % 4 ? 0 : 1 + next_random(state) % count;
    words[0] = cpu_ns;
    words[1] = kf_pair(10, tid);
    words[2] = kf_pair(process, (uint32_t)kernel);
    for (uint64_t i = 0; i < count; i++)
        words[3 + i] = 0x1000 * (1 + next_random(state) % 8);
    kw_record(w, KF_STACK_SAMPLE, 0, 0, ticks, words, (uint32_t)(3 + count));
    all->samples++;
    all->cpu_ns += cpu_ns;
}

static void put_run(kw_recording *w, uint32_t process, uint32_t tid, uint64_t start, uint64_t end,
                    bool preempted, uint32_t cpu)
{
    uint64_t words[] = {end, kf_pair(10, tid), kf_pair(process, 0)};
    kw_record(w, KF_THREAD_RUN, preempted ? KF_RUN_PREEMPTED : 0, cpu, start, words, 3);
}

/* Runs of one thread, with samples in them; each thread has a CPU of its own. */
static void put_thread(kw_recording *w, uint64_t *state, uint32_t process, uint32_t tid, truth *all)
{
    uint64_t at = KW_TICKS + 1 + next_random(state) % 100, runs = 1 + next_random(state) % 12;
    bool preempted = false;
    for (uint64_t i = 0; i < runs; i++) {
        uint64_t end = at + 1 + next_random(state) % 1000;
        uint64_t gap = next_random(state) % 3 ? 1 + next_random(state) % 500 : 0;
        preempted = next_random(state) % 2;
        put_run(w, process, tid, at, end, preempted, tid);
        all->running_ns += end - at;
        for (uint64_t t = at; next_random(state) % 3 && t < end;) {
            t += 1 + next_random(state) % 400;
            t = KB_MIN(end, t);
            put_sample(w, state, process, tid, t, all);
        }
        all->blocked_ns += preempted || i + 1 == runs ? 0 : gap;
        at = end + gap;
    }
}

static kineto_trace *make_recording(uint64_t seed, truth *all)
{
    kw_recording w;
    kineto_trace *t = NULL;
    kineto_error err = {.message = ""};
    kt_build_options options = {.kinds = KINETO_KINDS_ALL};
    uint64_t state = seed * 77 + 1;
    *all = (truth){0};
    assert_true(kw_create(&w, 2, 65536));
    uint32_t process = kw_process(&w, 10, "prog", "prog");
    kw_segment(&w, 1, 0, process, 10, 10, KW_TICKS, 0);
    for (uint32_t i = 0; i < THREADS; i++)
        put_thread(&w, &state, process, 10 + i, all);
    assert_true(w.at < KF_CHUNK_WORDS);
    if (kt_build(&w.input, w.pool.control, &options, &t, &err))
        fail_msg("%s", err.message);
    kw_free(&w);
    return t;
}

/* ---- stacks: folded, flame, pprof -------------------------------------------------------------- */

static void check_stacks(const kineto_trace *t, const truth *all)
{
    kineto_export_options options = {.size = sizeof options, .roots = KINETO_EXPORT_MERGED};
    kineto_export_result result = {.size = sizeof result};
    ke_job job = {.trace = t, .path = "x", .options = &options, .result = &result};
    ke_stacks stacks;
    truth found = {0};
    ke_census_count(t, &job.census);
    assert_true(kt_prepare(t, true, false));
    assert_true(ke_stacks_make(&stacks, &job, 0, KE_STACKS_SAMPLES | KE_STACKS_BLOCKED));
    for (size_t i = 0; i < stacks.nodes.count; i++) {
        const ke_node *n = &stacks.nodes.data[i];
        assert_true(n->cpu_ns >= 0 && n->samples >= 0 && n->self_ns == 0);
        found.cpu_ns += (uint64_t)n->cpu_ns;
        found.samples += (uint64_t)n->samples;
        found.blocked_ns += n->blocked_ns;
    }
    assert_int_equal(found.cpu_ns, all->cpu_ns);
    assert_int_equal(found.samples, all->samples);
    assert_int_equal(found.blocked_ns, all->blocked_ns);
    ke_stacks_free(&stacks);
}

/* ---- stacks in the order of time: speedscope, Perfetto ----------------------------------------- */

static bool add_piece(void *context, const ke_sampled_piece *p)
{
    truth *found = context;
    assert_true(p->depth > 0 && p->start_ns <= p->end_ns && p->samples >= 0 && p->cpu_ns >= 0);
    found->samples += (uint64_t)p->samples;
    found->cpu_ns += (uint64_t)p->cpu_ns;
    return true;
}

static void check_walk(const kineto_trace *t, const truth *all)
{
    truth found = {0};
    ke_sampled_walk walk = {.trace = t, .piece = add_piece, .context = &found};
    for (uint32_t i = 0; i < kineto_trace_track_count(t); i++) {
        uint32_t tid;
        kineto_track track;
        kineto_trace_track(t, i, &track);
        if (ke_cpu_track(t, i, &tid) != KE_CPU_ROW_SAMPLES)
            continue;
        assert_int_equal(track.lane_count, 1);
        walk.rows = kineto_trace_track_rows(t, i);
        walk.count = track.count;
        assert_true(ke_sampled_walk_run(&walk));
    }
    ke_sampled_walk_free(&walk);
    assert_int_equal(found.samples, all->samples);
    assert_int_equal(found.cpu_ns, all->cpu_ns);
}

/* ---- Perfetto's packets ------------------------------------------------------------------------ */

static uint64_t number_in(pf_bytes message, uint32_t id)
{
    pf_field f;
    uint64_t found = 0;
    while (pf_next(&message, &f))
        if (f.id == id)
            found = f.number;
    return found;
}

/* Adds the time on a CPU that a switch ends: [0] when its thread came, [1] the thread. */
static void add_switch(pf_bytes event, uint64_t came[2], truth *found)
{
    pf_field f;
    uint64_t ns = number_in(event, 1);
    while (pf_next(&event, &f)) {
        if (f.id != 4)
            continue;
        if (number_in(f.bytes, 2)) {
            assert_int_equal(number_in(f.bytes, 2), came[1]);
            found->running_ns += ns - came[0];
        }
        came[0] = ns;
        came[1] = number_in(f.bytes, 6);
    }
}

static void add_bundle(pf_bytes bundle, truth *found)
{
    uint64_t came[2] = {0};
    pf_field f;
    while (pf_next(&bundle, &f))
        if (f.id == 2)
            add_switch(f.bytes, came, found);
}

static void add_packet(pf_bytes packet, truth *found, uint64_t *counts)
{
    pf_field f;
    while (pf_next(&packet, &f)) {
        if (f.id == 1 && f.wire == 2)
            add_bundle(f.bytes, found);
        if (f.id != 66)
            continue;
        found->samples++;
        uint64_t cpu = number_in(f.bytes, 1), count = number_in(f.bytes, 6);
        assert_true(cpu < 16 && count >= counts[cpu]);
        counts[cpu] = count;
    }
}

static void check_perfetto(const kineto_trace *t, const truth *all)
{
    kb_sink *sink;
    truth found = {0};
    uint64_t counts[16] = {0};
    kineto_export_result result = {.size = sizeof result};
    assert_int_equal(kb_sink_open_memory(KB_COMPRESS_NONE, &sink, NULL), KINETO_OK);
    assert_int_equal(ke_perfetto_write(t, sink, "x", &result, NULL), KINETO_OK);
    size_t bytes;
    char *data;
    assert_int_equal(kb_sink_take(sink, &data, &bytes, NULL), KINETO_OK);
    assert_int_equal(kb_sink_close(sink, NULL), KINETO_OK);
    pf_bytes file = {(const uint8_t *)data, (const uint8_t *)data + bytes};
    for (pf_field f; pf_next(&file, &f);)
        add_packet(f.bytes, &found, counts);
    for (size_t i = 0; i < 16; i++)
        found.cpu_ns += counts[i];
    assert_int_equal(found.samples, all->samples);
    assert_int_equal(found.cpu_ns, all->cpu_ns);
    assert_int_equal(found.running_ns, all->running_ns);
    free(data);
}

static void all_formats_have_the_samples_and_the_time_of_the_recording(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < RECORDINGS; seed++) {
        truth all;
        kineto_trace *t = make_recording(seed, &all);
        check_stacks(t, &all);
        check_walk(t, &all);
        check_perfetto(t, &all);
        kineto_trace_release(t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_formats_have_the_samples_and_the_time_of_the_recording),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
