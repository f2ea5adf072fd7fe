/* Several traces as one: what stays apart, what is moved, what the header and ledger say; and what
 * is odd about sets of files. */
#include "trace/transform/copy.h"
#include "trace/files/identity.h"

#include "unit.h"

#include <ckineto/files.h>
#include <sys/stat.h>

#define BASE INT64_C(1700000000000000000)

static char directory[256];
static KB_VEC(char *) made;

static int setup(void **state)
{
    (void)state;
    return make_directory(directory, sizeof directory) ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    for (size_t i = 0; i < made.count; i++) {
        unlink(made.data[i]);
        free(made.data[i]);
    }
    kb_vec_free(&made);
    return rmdir(directory);
}

static const char *path_of(const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    assert_true(kb_vec_push(&made, strdup(path)));
    return made.data[made.count - 1];
}

/* ---- made-up ranks --------------------------------------------------------------------------- */

typedef struct recipe {
    int32_t rank, world_size;
    int64_t pid, start_us;
    const char *host;
    int rows;
} recipe;

/* A step with launches and kernels, arrows between them, a wait for another call, an async range,
 * counters, and rows of other tools; ids are the same in each rank. */
static void write_rank(const char *path, recipe r)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f, "{\"schemaVersion\":1,\"deviceProperties\":[{\"id\":0,\"name\":\"dev of %d\"}],",
            r.rank);
    if (r.rank >= 0)
        fprintf(f, "\"distributedInfo\":{\"backend\":\"nccl\",\"rank\":%d,\"world_size\":%d},",
                r.rank, r.world_size);
    if (r.host)
        fprintf(f, "\"host_name\":\"%s\",", r.host);
    fprintf(f, "\"baseTimeNanoseconds\":%lld,\"traceEvents\":[\n", (long long)BASE);
    fprintf(f,
            "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%lld,\"tid\":0,\"args\":{\"name\":"
            "\"python\"}},\n"
            "{\"ph\":\"M\",\"name\":\"process_labels\",\"pid\":0,\"tid\":0,\"args\":{\"labels\":"
            "\"GPU 0\"}},\n",
            (long long)r.pid);
    for (int i = 1; i <= r.rows; i++) {
        long long at = r.start_us + 100 * i;
        fprintf(f,
                "{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"cudaLaunchKernel\",\"pid\":%lld,"
                "\"tid\":7,\"ts\":%lld,\"dur\":10,\"args\":{\"correlation\":%d,\"rank\":%d}},\n"
                "{\"ph\":\"s\",\"id\":%d,\"cat\":\"ac2g\",\"name\":\"ac2g\",\"pid\":%lld,\"tid\":7,"
                "\"ts\":%lld},\n",
                (long long)r.pid, at, i, r.rank, i, (long long)r.pid, at);
        fprintf(f,
                "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"gemm\",\"pid\":0,\"tid\":13,"
                "\"ts\":%lld,\"dur\":20,\"args\":{\"correlation\":%d,\"stream\":13}},\n"
                "{\"ph\":\"f\",\"bp\":\"e\",\"id\":%d,\"cat\":\"ac2g\",\"name\":\"ac2g\",\"pid\":0,"
                "\"tid\":13,\"ts\":%lld},\n",
                at + 30, i, i, at + 30);
    }
    fprintf(f,
            "{\"ph\":\"X\",\"cat\":\"cuda_sync\",\"name\":\"Stream Wait Event\",\"pid\":0,"
            "\"tid\":13,\"ts\":%lld,\"dur\":1,\"args\":{\"correlation\":900,"
            "\"wait_on_cuda_event_record_corr_id\":1,\"wait_on_stream\":7}},\n"
            "{\"ph\":\"b\",\"cat\":\"async\",\"name\":\"request\",\"id\":\"5\",\"pid\":%lld,"
            "\"tid\":7,\"ts\":%lld},\n"
            "{\"ph\":\"e\",\"cat\":\"async\",\"name\":\"request\",\"id\":\"5\",\"pid\":%lld,"
            "\"tid\":7,\"ts\":%lld},\n"
            "{\"ph\":\"X\",\"cat\":\"Trace\",\"name\":\"Profiler\",\"pid\":\"Spans\",\"tid\":\"P\","
            "\"ts\":%lld,\"dur\":1},\n"
            "{\"ph\":\"C\",\"name\":\"power\",\"pid\":\"GPU 0 Counters\",\"tid\":0,\"ts\":%lld,"
            "\"args\":{\"W\":%d}}\n]}\n",
            (long long)r.start_us + 5, (long long)r.pid, (long long)r.start_us, (long long)r.pid,
            (long long)r.start_us + 50, (long long)r.start_us, (long long)r.start_us, r.rank);
    assert_int_equal(fclose(f), 0);
}

static const char *rank_file(const char *name, recipe r)
{
    const char *path = path_of(name);
    write_rank(path, r);
    return path;
}

static kineto_trace *open_one(const char *path)
{
    kineto_trace *t = NULL;
    kineto_error err = {.message = ""};
    if (kineto_trace_open(path, &t, &err) != KINETO_OK)
        fail_msg("%s", err.message);
    return t;
}

static kineto_trace *open_many(const char *const *paths, size_t count)
{
    kineto_trace *t = NULL;
    kineto_error err = {.message = ""};
    if (kineto_trace_open_many(paths, count, NULL, &t, &err) != KINETO_OK)
        fail_msg("%s", err.message);
    return t;
}

static kineto_string header_of(const kineto_trace *t, const char *wanted)
{
    kineto_string key, value, found = {NULL, 0};
    for (uint32_t i = 0; i < kineto_trace_metadata_count(t); i++) {
        kineto_trace_metadata(t, i, &key, &value);
        found = kb_string_equal(key, kb_string(wanted)) ? value : found;
    }
    return found;
}

static bool ledger_has(const kineto_trace *t, const char *reason, const char *detail)
{
    for (uint32_t i = 0; i < kineto_trace_ledger_count(t); i++) {
        kineto_ledger_line line;
        kineto_trace_ledger(t, i, &line);
        if (kb_string_equal(line.reason, kb_string(reason)) &&
            memmem(line.detail.data, line.detail.size, detail, strlen(detail)))
            return true;
    }
    return false;
}

/* Every row of `part` is in `whole` from `first` on, in its order, and says the same. */
static void assert_rows_are_in(const kineto_trace *part, const kineto_trace *whole,
                               kineto_row first, int32_t rank)
{
    for (kineto_row row = 0; row < kineto_trace_count(part); row++) {
        kineto_activity a, b;
        kineto_track ta, tb;
        kineto_process pa, pb;
        kineto_trace_get(part, row, &a);
        kineto_trace_get(whole, first + row, &b);
        assert_true(kb_string_equal(a.name, b.name));
        assert_true(kb_string_equal(kineto_trace_string(part, a.category),
                                    kineto_trace_string(whole, b.category)));
        assert_true(a.start_ns == b.start_ns && a.end_ns == b.end_ns && a.kind == b.kind &&
                    a.form == b.form && a.flags == b.flags);
        kineto_trace_track(part, a.track, &ta);
        kineto_trace_track(whole, b.track, &tb);
        assert_true(ta.type == tb.type && ta.count == tb.count && ta.lane_count == tb.lane_count);
        kineto_trace_process(part, ta.process, &pa);
        kineto_trace_process(whole, tb.process, &pb);
        assert_int_equal(pa.is_device, pb.is_device);
        assert_true(kb_string_equal(pa.name, pb.name));
        assert_true(kb_string_equal(pa.properties_json, pb.properties_json));
        assert_int_equal(pb.rank, rank);
        kineto_args_iterator ia, ib;
        kineto_arg x, y;
        kineto_args_begin(part, row, &ia);
        kineto_args_begin(whole, first + row, &ib);
        while (kineto_args_next(&ia, &x)) {
            assert_true(kineto_args_next(&ib, &y));
            assert_true(kb_string_equal(x.key, y.key) && x.type == y.type);
            if (!kb_string_equal(x.key, kb_string("wait_on_cuda_event_record_corr_id")))
                assert_true(x.type < KINETO_ARG_STRING ? x.u == y.u
                                                       : kb_string_equal(x.text, y.text));
        }
        assert_false(kineto_args_next(&ib, &y));
    }
}

/* Arrows, launches and waits stay in their rank. */
static void assert_ranks_do_not_meet(const kineto_trace *t, size_t rows_each)
{
    size_t launches = 0;
    for (uint64_t i = 0; i < kineto_trace_flow_count(t); i++) {
        kineto_flow f;
        kineto_trace_flow(t, i, &f);
        assert_int_equal(f.from / rows_each, f.to / rows_each);
    }
    for (kineto_row row = 0; row < kineto_trace_count(t); row++) {
        kineto_row launch = kineto_trace_launch(t, row);
        launches += launch != KINETO_NO_ROW;
        if (launch != KINETO_NO_ROW)
            assert_int_equal(launch / rows_each, row / rows_each);
        kineto_arg arg;
        kineto_activity a, of;
        if (!kineto_args_find(t, row, "wait_on_cuda_event_record_corr_id", &arg))
            continue;
        kineto_trace_get(t, row, &a);
        kineto_row first = (kineto_row)(row / rows_each * rows_each);
        for (kineto_row other = first;; other++) {
            kineto_trace_get(t, other, &of);
            if (of.correlation_id == arg.u)
                break;
            assert_true(other < first + rows_each);
        }
    }
    assert_true(launches > 0);
}

static void ranks_stay_apart_in_one_trace(void **state)
{
    (void)state;
    enum { RANKS = 3 };
    const char *paths[RANKS];
    kineto_trace *parts[RANKS];
    kineto_row first = 0;
    for (int i = 0; i < RANKS; i++) {
        char name[32], host[16];
        snprintf(name, sizeof name, "rank%d.json", i);
        snprintf(host, sizeof host, "node%d", i);
        /* One number for all of them, as in containers. */
        paths[i] = rank_file(name, (recipe){i, RANKS, 42, 1000 * i, host, 5});
        parts[i] = open_one(paths[i]);
    }
    kineto_trace *t = open_many(paths, RANKS);
    size_t each = kineto_trace_count(parts[0]);
    assert_int_equal(kineto_trace_count(t), RANKS * each);
    assert_int_equal(kineto_trace_flow_count(t), RANKS * 5);
    for (int i = 0; i < RANKS; i++, first += (kineto_row)each)
        assert_rows_are_in(parts[i], t, first, i);
    assert_ranks_do_not_meet(t, each);
    int processes = 0, devices = 0;
    for (uint32_t i = 0; i < kineto_trace_process_count(t); i++) {
        kineto_process p;
        char label[32], host[16];
        kineto_trace_process(t, i, &p);
        processes += !p.is_device && p.pid == 42;
        devices += p.is_device && p.pid == 0;
        snprintf(label, sizeof label, "rank %d, node%d", p.rank, p.rank);
        snprintf(host, sizeof host, "node%d", p.rank);
        assert_true(p.rank >= 0);
        assert_true(kb_string_equal(p.host, kb_string(host)));
        assert_non_null(memmem(p.label.data, p.label.size, label, strlen(label)));
    }
    assert_int_equal(processes, RANKS);
    assert_int_equal(devices, RANKS);
    assert_true(ledger_has(t, "traces merged", "not aligned"));
    assert_true(ledger_has(t, "processes with a number that another one has", ""));
    int64_t start, end, start0, end0, start2, end2;
    kineto_trace_window(t, &start, &end);
    kineto_trace_window(parts[0], &start0, &end0);
    kineto_trace_window(parts[2], &start2, &end2);
    assert_true(start == start0 && end == end2);
    for (int i = 0; i < RANKS; i++)
        kineto_trace_release(parts[i]);
    kineto_trace_release(t);
}

static void a_merged_trace_is_written_and_read_back_whole(void **state)
{
    (void)state;
    const char *paths[2] = {rank_file("w-rank0.json", (recipe){0, 2, 42, 0, "a", 3}),
                            rank_file("w-rank1.json", (recipe){1, 2, 42, 50, "b", 3})};
    const char *out = path_of("merged.json");
    kineto_error err = {.message = ""};
    kineto_trace *t = open_many(paths, 2);
    if (kineto_trace_save(t, out, &err) != KINETO_OK)
        fail_msg("%s", err.message);
    kineto_trace *u = open_one(out);
    assert_int_equal(kineto_trace_count(u), kineto_trace_count(t));
    assert_int_equal(kineto_trace_flow_count(u), kineto_trace_flow_count(t));
    assert_int_equal(kineto_trace_process_count(u), kineto_trace_process_count(t));
    assert_true(kb_string_equal(header_of(u, "mergedTraces"), header_of(t, "mergedTraces")));
    uint64_t links[2] = {0, 0};
    for (kineto_row row = 0; row < kineto_trace_count(u); row++) {
        kineto_row launch = kineto_trace_launch(u, row);
        links[0] += kineto_trace_launch(t, row) != KINETO_NO_ROW;
        if (launch == KINETO_NO_ROW)
            continue;
        links[1]++;
        kineto_activity a, b;
        kineto_track ta, tb;
        kineto_process pa, pb;
        kineto_trace_get(u, row, &a);
        kineto_trace_get(u, launch, &b);
        kineto_trace_track(u, a.track, &ta);
        kineto_trace_track(u, b.track, &tb);
        kineto_trace_process(u, ta.process, &pa);
        kineto_trace_process(u, tb.process, &pb);
        assert_int_equal(pa.rank, pb.rank);
    }
    assert_int_equal(links[0], links[1]);
    for (uint32_t i = 0; i < kineto_trace_process_count(u); i++) {
        kineto_process p;
        kineto_trace_process(u, i, &p);
        char name[16];
        snprintf(name, sizeof name, "dev of %d", p.rank);
        assert_true(p.rank >= 0 && p.host.size == 1);
        if (p.is_device && p.pid == 0)
            assert_non_null(
                memmem(p.properties_json.data, p.properties_json.size, name, strlen(name)));
    }
    kineto_identity id = {.size = sizeof id};
    kineto_trace_identity(u, out, &id);
    assert_int_equal(id.rank_count, 2);
    assert_int_equal(id.rank, -1);
    kineto_trace_release(t);
    kineto_trace_release(u);
}

static void merged_traces_are_merged_again(void **state)
{
    (void)state;
    const char *paths[3] = {rank_file("m-rank0.json", (recipe){0, 3, 42, 0, "a", 2}),
                            rank_file("m-rank1.json", (recipe){1, 3, 42, 50, "b", 2}),
                            rank_file("m-rank2.json", (recipe){2, 3, 42, 70, "c", 2})};
    const char *merged = path_of("m-two.json"), *again[2] = {paths[2], merged};
    kineto_trace *two = open_many(paths, 2);
    assert_int_equal(kineto_trace_save(two, merged, NULL), KINETO_OK);
    kineto_trace *t = open_many(again, 2);
    size_t each = kineto_trace_count(two) / 2, seen[3] = {0, 0, 0};
    assert_int_equal(kineto_trace_count(t), 3 * each);
    for (kineto_row row = 0; row < 3 * each; row++) {
        kineto_activity a;
        kineto_track track;
        kineto_process p;
        kineto_trace_get(t, row, &a);
        kineto_trace_track(t, a.track, &track);
        kineto_trace_process(t, track.process, &p);
        assert_in_range(p.rank, 0, 2);
        seen[p.rank]++;
    }
    for (int i = 0; i < 3; i++)
        assert_int_equal(seen[i], each);
    kineto_string list = header_of(t, "mergedTraces");
    assert_non_null(memmem(list.data, list.size, "\"mergedTraces\":[", 16));
    assert_true(ledger_has(t, "a file among others holds several ranks itself", "m-two.json"));
    kineto_trace_release(t);
    kineto_trace_release(two);
}

static void the_header_keeps_what_all_have_alike(void **state)
{
    (void)state;
    const char *paths[2] = {rank_file("h-rank0.json", (recipe){0, 2, 1, 0, "same", 1}),
                            rank_file("h-rank1.json", (recipe){1, 2, 2, 0, "same", 1})};
    kineto_trace *t = open_many(paths, 2);
    assert_true(kb_string_equal(header_of(t, "host_name"), kb_string("\"same\"")));
    assert_null(header_of(t, "distributedInfo").data);
    kineto_string list = header_of(t, "mergedTraces");
    assert_non_null(memmem(list.data, list.size, "\"name\":\"h-rank1.json\",\"rank\":1", 30));
    assert_non_null(memmem(list.data, list.size, "\"world_size\":2}", 15)); /* as it stood */
    assert_true(kb_json_valid(list));
    kineto_trace_release(t);
}

static void one_trace_is_itself(void **state)
{
    (void)state;
    const char *path = rank_file("one.json", (recipe){0, 1, 1, 0, NULL, 1});
    kineto_trace *t = open_one(path), *same = NULL;
    const kineto_trace *list[] = {t};
    assert_int_equal(kineto_trace_merge(list, 1, NULL, &same, NULL), KINETO_OK);
    assert_ptr_equal(same, t);
    kineto_trace_release(same);
    kineto_trace_release(t);
    kineto_error err = {.message = ""};
    assert_int_equal(kineto_trace_merge(list, 0, NULL, &same, &err), KINETO_E_ARGUMENT);
    assert_int_equal(kineto_trace_merge(NULL, 1, NULL, &same, &err), KINETO_E_ARGUMENT);
    assert_int_equal(kineto_trace_merge(list, 1, NULL, NULL, &err), KINETO_E_ARGUMENT);
}

static void arguments_in_files_are_not_copied(void **state)
{
    (void)state;
    const char *paths[2] = {rank_file("s-rank0.json", (recipe){0, 2, 1, 0, NULL, 20}),
                            rank_file("s-rank1.json", (recipe){1, 2, 1, 0, NULL, 20})};
    kineto_trace *t = open_many(paths, 2);
    const kt_block *block = kt_block_at(t, 0);
    assert_int_equal(kt_block_count(t), 1);
    assert_int_equal(block->more_text_count, 1);
    assert_true(block->args_bytes < 200); /* a wait whose id was moved */
    kineto_selection how = {.size = sizeof how, .kinds = KINETO_KIND_BIT(KINETO_KIND_RUNTIME)};
    kineto_trace *part = NULL;
    assert_int_equal(kineto_trace_select(t, &how, &part, NULL), KINETO_OK);
    kineto_trace_release(t); /* the part holds the texts */
    assert_int_equal(kineto_trace_count(part), 40);
    assert_int_equal(kt_block_at(part, 0)->args_bytes, 0);
    for (kineto_row row = 0; row < 40; row++) {
        kineto_arg arg;
        assert_true(kineto_args_find(part, row, "rank", &arg));
        assert_int_equal(arg.i, row / 20);
    }
    kineto_trace_release(part);
}

static void large_ids_do_not_push_others_away(void **state)
{
    (void)state;
    kineto_trace *parts[2], *t;
    for (int i = 0; i < 2; i++) {
        kt_builder *b;
        assert_int_equal(kt_builder_create(&b, NULL), KINETO_OK);
        uint32_t track = kt_track(b, kt_process(b, false, 1, 0), KINETO_TRACK_THREAD, 1);
        kt_append(b, &(kt_row){.track = track, .correlation_id = UINT64_MAX});
        kt_append(b, &(kt_row){.track = track, .correlation_id = 7, .external_id = 9});
        kt_append(b, &(kt_row){.track = track});
        assert_int_equal(kt_builder_finish(b, &parts[i], NULL), KINETO_OK);
        kt_builder_destroy(b);
    }
    assert_int_equal(kineto_trace_merge((const kineto_trace *const *)parts, 2, NULL, &t, NULL),
                     KINETO_OK);
    kineto_activity a;
    kineto_trace_get(t, 4, &a);
    assert_int_equal(a.correlation_id, 16);
    assert_int_equal(a.external_id, 18);
    kineto_trace_get(t, 5, &a);
    assert_int_equal(a.correlation_id, 0);
    kineto_trace_get(t, 3, &a);
    assert_true(a.correlation_id > UINT64_C(1) << 53 && a.correlation_id != UINT64_MAX);
    kineto_trace_release(t);
    kineto_trace_release(parts[0]);
    kineto_trace_release(parts[1]);
}

/* Texts are ids by their hash, and 0 is an id of a flow. */
static void flows_stay_apart_without_small_ids(void **state)
{
    (void)state;
    kineto_trace *parts[2], *t;
    for (int i = 0; i < 2; i++) {
        kt_builder *b;
        assert_int_equal(kt_builder_create(&b, NULL), KINETO_OK);
        uint32_t track = kt_track(b, kt_process(b, false, 1, 0), KINETO_TRACK_THREAD, 1);
        kineto_row from = kt_append(b, &(kt_row){.track = track});
        kineto_row to = kt_append(b, &(kt_row){.track = track});
        const uint64_t ids[] = {0, kb_hash("req-1", 5)};
        for (size_t k = 0; k < KB_COUNT(ids); k++) {
            kt_flow(b, KINETO_FLOW_USER, ids[k], from, true);
            kt_flow(b, KINETO_FLOW_USER, ids[k], to, false);
        }
        assert_int_equal(kt_builder_finish(b, &parts[i], NULL), KINETO_OK);
        kt_builder_destroy(b);
    }
    assert_int_equal(kineto_trace_merge((const kineto_trace *const *)parts, 2, NULL, &t, NULL),
                     KINETO_OK);
    kineto_flow flows[4];
    assert_int_equal(kineto_trace_flow_count(t), 4);
    for (uint64_t i = 0; i < 4; i++) {
        kineto_trace_flow(t, i, &flows[i]);
        for (uint64_t k = 0; k < i; k++)
            assert_true(flows[k].id != flows[i].id);
    }
    kineto_trace_release(t);
    kineto_trace_release(parts[0]);
    kineto_trace_release(parts[1]);
}

static void ledgers_say_whose_their_lines_are(void **state)
{
    (void)state;
    kineto_trace *parts[2], *t;
    for (int i = 0; i < 2; i++) {
        kt_builder *b;
        assert_int_equal(kt_builder_create(&b, NULL), KINETO_OK);
        kt_ledger_add(b, kb_string("program"), kb_string("buffer full"), 5, true,
                      kb_string(i ? "late" : ""));
        kt_metadata(b, kb_string("rank"), kb_string(i ? "1" : "0"));
        kt_snapshot(b, &(kb_clock_snapshot){.ticks = (uint64_t)i, .realtime_ns = BASE});
        assert_int_equal(kt_builder_finish(b, &parts[i], NULL), KINETO_OK);
        kt_builder_destroy(b);
    }
    assert_int_equal(kineto_trace_merge((const kineto_trace *const *)parts, 2, NULL, &t, NULL),
                     KINETO_OK);
    assert_int_equal(kineto_trace_lost(t), 10);
    assert_true(ledger_has(t, "buffer full", "rank 0"));
    assert_true(ledger_has(t, "buffer full", "rank 1: late"));
    /* Clocks of different machines are no clock: they are in the list. */
    assert_int_equal(kineto_trace_snapshot_count(t), 0);
    kineto_string list = header_of(t, "mergedTraces");
    assert_non_null(memmem(list.data, list.size, "\"snapshots\":[{\"ticks\":1,", 24));
    kineto_trace_release(t);
    kineto_trace_release(parts[0]);
    kineto_trace_release(parts[1]);
}

/* ---- sets ------------------------------------------------------------------------------------ */

static kineto_survey *survey_of(const char *const *paths, size_t count)
{
    kineto_files *files;
    kineto_survey *survey;
    kineto_error err = {.message = ""};
    if (kineto_files_find(paths, count, &files, &err) != KINETO_OK)
        fail_msg("%s", err.message);
    assert_int_equal(kineto_files_survey(files, NULL, &survey, &err), KINETO_OK);
    kineto_files_destroy(files);
    return survey;
}

static bool finds(const kineto_survey *survey, const char *id, const char *words)
{
    kineto_files_finding f;
    for (uint32_t i = 0; kineto_survey_finding(survey, i, &f); i++)
        if (strcmp(f.id, id) == 0 && memmem(f.sentence.data, f.sentence.size, words, strlen(words)))
            return true;
    return false;
}

static void assert_found(const char *const *paths, size_t count, const char *id, const char *words)
{
    kineto_survey *survey = survey_of(paths, count);
    if (!finds(survey, id, words)) {
        kineto_files_finding f;
        for (uint32_t i = 0; kineto_survey_finding(survey, i, &f); i++)
            print_message("%s: %.*s\n", f.id, (int)f.sentence.size, f.sentence.data);
        fail_msg("no finding %s with '%s'", id, words);
    }
    kineto_survey_destroy(survey);
}

static void sound_sets_have_no_findings(void **state)
{
    (void)state;
    const char *paths[3];
    for (int i = 0; i < 3; i++) {
        char name[32];
        snprintf(name, sizeof name, "sound-rank%d.json", i);
        paths[i] = rank_file(name, (recipe){i, 3, 100 + i, i, "h", 2});
    }
    kineto_survey *survey = survey_of(paths, 3);
    kineto_survey_file f;
    assert_int_equal(kineto_survey_count(survey), 3);
    assert_int_equal(kineto_survey_finding_count(survey), 0);
    assert_true(kineto_survey_file_at(survey, 2, &f));
    assert_int_equal(f.identity->rank, 2);
    assert_string_equal(f.name, "sound-rank2.json");
    assert_false(kineto_survey_file_at(survey, 3, &f));
    assert_null(f.path);
    kineto_survey_destroy(survey);
}

static void what_is_odd_about_a_set_is_found(void **state)
{
    (void)state;
    const char *a = rank_file("odd-a.json", (recipe){0, 4, 7, 0, "h1", 4});
    const char *b = rank_file("odd-b.json", (recipe){0, 4, 8, 10, "h1", 4});
    const char *c = rank_file("odd-c.json", (recipe){1, 8, 7, 20, "h2", 4});
    const char *d = rank_file("odd-d.json", (recipe){-1, 0, 9, 30, NULL, 4});
    const char *e = rank_file("odd-e.json", (recipe){0, 4, 7, 900000, "h1", 4});
    const char *f = rank_file("odd-f.json", (recipe){3, 4, 10, 900000, "h1", 4});
    const char *g = rank_file("odd-rank9.json", (recipe){0, 4, 7, 0, "h1", 4});
    const char *bad = path_of("odd-bad.json");
    FILE *out = fopen(bad, "w");
    fputs("no trace", out);
    fclose(out);
    assert_found((const char *[]){a, b}, 2, "rank.repeated", "rank 0: odd-a.json, odd-b.json");
    assert_found((const char *[]){a, e}, 2, "rank.windows", "rank 0 has 2 windows");
    assert_found((const char *[]){a, c}, 2, "world.conflict", "4 ranks by one file and 8 by");
    assert_found((const char *[]){a, c}, 2, "pid.shared", "different processes of different hosts");
    assert_found((const char *[]){a, d}, 2, "rank.unknown", "1 of 2 files do not state");
    assert_found((const char *[]){a, f}, 2, "rank.missing", "2 of 4 ranks are missing: 1-2");
    assert_found((const char *[]){a, f}, 2, "window.apart", "before another begins");
    assert_found((const char *[]){a, g}, 2, "file.same", "have the same 12 activities");
    assert_found((const char *[]){a, g}, 2, "identity.conflict", "9 by the file name");
    assert_found((const char *[]){a, a}, 2, "file.repeated", "odd-a.json");
    assert_found((const char *[]){a, bad}, 2, "file.unreadable", "odd-bad.json");
    assert_found((const char *[]){a, "/nowhere/t.json"}, 2, "file.unreadable", "/nowhere/t.json");
}

static void many_missing_ranks_are_said_in_ranges(void **state)
{
    (void)state;
    const char *a = rank_file("far-a.json", (recipe){5, 2000000000, 7, 0, "h1", 1});
    const char *b = rank_file("far-b.json", (recipe){7, 2000000000, 8, 0, "h1", 1});
    assert_found((const char *[]){a, b}, 2, "rank.missing",
                 "1999999998 of 2000000000 ranks are missing: 0-4, 6, 8-1999999999");
}

static void files_are_found_in_the_order_of_ranks_and_numbers(void **state)
{
    (void)state;
    static const char *const names[] = {"d/rank2.json",  "d/rank10.json.gz", "d/x10.json",
                                        "d/x9.json.zst", "d/.hidden.json",   "d/notes.txt",
                                        "d/.json"};
    static const char *const ordered[] = {"rank2.json", "rank10.json.gz", "x9.json.zst",
                                          "x10.json"};
    char path[512];
    kineto_files *files;
    kineto_error err = {.message = ""};
    snprintf(path, sizeof path, "%s/d", directory);
    assert_int_equal(mkdir(path, 0700), 0);
    const char *list[] = {path};
    assert_int_equal(kineto_files_find(list, 1, &files, &err), KINETO_E_NOT_FOUND);
    assert_null(files);
    for (size_t i = 0; i < KB_COUNT(names); i++)
        fclose(fopen(path_of(names[i]), "w"));
    assert_int_equal(kineto_files_find(list, 1, &files, &err), KINETO_OK);
    assert_int_equal(kineto_files_count(files), KB_COUNT(ordered));
    assert_int_equal(kineto_files_skipped(files), 3);
    for (uint32_t i = 0; i < KB_COUNT(ordered); i++) {
        assert_string_equal(strrchr(kineto_files_path(files, i), '/') + 1, ordered[i]);
        assert_true(kineto_files_was_found(files, i));
    }
    assert_null(kineto_files_path(files, KB_COUNT(ordered)));
    kineto_files_destroy(files);
    for (size_t i = 0; i < KB_COUNT(names); i++)
        unlink(made.data[made.count - 1 - i]);
    assert_int_equal(rmdir(path), 0);
}

static void the_rank_that_is_asked_for_is_opened(void **state)
{
    (void)state;
    const char *paths[2] = {rank_file("o-rank0.json", (recipe){0, 2, 5, 0, NULL, 1}),
                            rank_file("o-rank1.json", (recipe){1, 2, 6, 0, NULL, 2})};
    const char *wrong[2] = {rank_file("p-rank0.json", (recipe){1, 2, 5, 0, NULL, 1}),
                            rank_file("p-rank1.json", (recipe){0, 2, 6, 0, NULL, 2})};
    kineto_open_many_options how = {.size = sizeof how, .only_rank = true, .rank = 1};
    kineto_error err = {.message = ""};
    kineto_trace *t;
    assert_int_equal(kineto_trace_open_many(paths, 2, &how, &t, &err), KINETO_OK);
    assert_int_equal(kineto_trace_count(t), 8);
    kineto_trace_release(t);
    assert_int_equal(kineto_trace_open_many(wrong, 2, &how, &t, &err), KINETO_OK);
    assert_int_equal(kineto_trace_count(t), 6); /* headers know better than names */
    kineto_trace_release(t);
    how.rank = 7;
    assert_int_equal(kineto_trace_open_many(paths, 2, &how, &t, &err), KINETO_E_NOT_FOUND);
    assert_null(t);
    assert_non_null(strstr(err.message, "no trace has rank 7: there are ranks 0 to 1"));
    kineto_trace *both = open_many(paths, 2);
    const char *merged = path_of("o-merged.json");
    assert_int_equal(kineto_trace_save(both, merged, NULL), KINETO_OK);
    kineto_trace_release(both);
    how.rank = 1;
    assert_int_equal(kineto_trace_open_many(&merged, 1, &how, &t, &err), KINETO_OK);
    assert_int_equal(kineto_trace_count(t), 8); /* rows of other tools too */
    kineto_trace_release(t);
}

static void ranks_are_listed_in_runs(void **state)
{
    (void)state;
    static const int32_t noted[] = {7, 0, 2, 1, 2, -1, INT32_MAX, 9};
    kt_ranks ranks = {0};
    char text[64], small[24];
    kt_format_ranks(&ranks, text, sizeof text);
    assert_string_equal(text, "none states its rank");
    for (size_t i = 0; i < KB_COUNT(noted); i++) {
        assert_true(kt_add_rank(&ranks, noted[i]));
        kt_format_ranks(&ranks, text, sizeof text);
        if (!i)
            assert_string_equal(text, "there is rank 7");
    }
    assert_string_equal(text, "there are ranks 0 to 2, 7, 9, 2147483647");
    kt_format_ranks(&ranks, small, sizeof small);
    assert_memory_equal(small, "there are ranks 0 to 2", 22);
    kb_vec_free(&ranks);
}

static void unreadable_files_are_errors_if_named_and_losses_if_found(void **state)
{
    (void)state;
    char path[512];
    kineto_error err = {.message = ""};
    kineto_trace *t;
    snprintf(path, sizeof path, "%s/u", directory);
    assert_int_equal(mkdir(path, 0700), 0);
    const char *good = rank_file("u/rank0.json", (recipe){0, 2, 5, 0, NULL, 1});
    const char *bad = path_of("u/rank1.json");
    fclose(fopen(bad, "w"));
    const char *named[] = {good, bad}, *found[] = {path};
    assert_int_equal(kineto_trace_open_many(named, 2, NULL, &t, &err), KINETO_E_FORMAT);
    assert_non_null(strstr(err.message, "rank1.json"));
    assert_int_equal(kineto_trace_open_many(found, 1, NULL, &t, &err), KINETO_OK);
    assert_int_equal(kineto_trace_count(t), 6);
    assert_int_equal(kineto_trace_lost(t), 1);
    assert_true(ledger_has(t, "a file cannot be read as a trace", "rank1.json"));
    kineto_trace_release(t);
    unlink(good);
    assert_int_equal(kineto_trace_open_many(found, 1, NULL, &t, &err), KINETO_E_FORMAT);
    unlink(bad);
    assert_int_equal(rmdir(path), 0);
}

/* ---- real ones ------------------------------------------------------------------------------- */

static void real_pairs_of_all_versions_are_merged(void **state)
{
    (void)state;
    static const struct {
        const char *version;
        bool says_rank;
    } versions[] = {{"1.8.1", false}, {"1.11.0", true}, {"1.13.1", true},
                    {"2.1.2", true},  {"2.5.1", true},  {"2.15.0", true}};
    for (size_t v = 0; v < KB_COUNT(versions); v++) {
        char paths[2][512];
        const char *list[2] = {paths[0], paths[1]};
        kineto_row first = 0;
        for (int i = 0; i < 2; i++)
            snprintf(paths[i], sizeof paths[i], "%s/tests/data/torch-%s/gloo-rank%d.json.gz",
                     CKINETO_SOURCE_DIR, versions[v].version, i);
        kineto_trace *both = open_many(list, 2);
        for (int i = 0; i < 2; i++) {
            kineto_trace *part = open_one(paths[i]);
            kineto_identity id = {.size = sizeof id};
            kineto_trace_identity(part, paths[i], &id);
            assert_int_equal(id.rank, i);
            assert_int_equal(id.rank_learned, versions[v].says_rank ? KINETO_LEARNED_HEADER
                                                                    : KINETO_LEARNED_FILE_NAME);
            assert_int_equal(id.world_size, versions[v].says_rank ? 2 : 0);
            assert_string_equal(id.backend, versions[v].says_rank ? "gloo" : "");
            assert_string_equal(id.host, v == 5 ? "capture" : "");
            assert_string_equal(id.conflict, "");
            assert_rows_are_in(part, both, first, i);
            first += (kineto_row)kineto_trace_count(part);
            kineto_trace_release(part);
        }
        assert_int_equal(kineto_trace_count(both), first);
        kineto_trace_release(both);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_stay_apart_in_one_trace),
        cmocka_unit_test(a_merged_trace_is_written_and_read_back_whole),
        cmocka_unit_test(merged_traces_are_merged_again),
        cmocka_unit_test(the_header_keeps_what_all_have_alike),
        cmocka_unit_test(one_trace_is_itself),
        cmocka_unit_test(arguments_in_files_are_not_copied),
        cmocka_unit_test(large_ids_do_not_push_others_away),
        cmocka_unit_test(flows_stay_apart_without_small_ids),
        cmocka_unit_test(ledgers_say_whose_their_lines_are),
        cmocka_unit_test(sound_sets_have_no_findings),
        cmocka_unit_test(what_is_odd_about_a_set_is_found),
        cmocka_unit_test(many_missing_ranks_are_said_in_ranges),
        cmocka_unit_test(files_are_found_in_the_order_of_ranks_and_numbers),
        cmocka_unit_test(the_rank_that_is_asked_for_is_opened),
        cmocka_unit_test(ranks_are_listed_in_runs),
        cmocka_unit_test(unreadable_files_are_errors_if_named_and_losses_if_found),
        cmocka_unit_test(real_pairs_of_all_versions_are_merged),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
