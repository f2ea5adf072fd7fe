/* Whose trace a file is: forms of names, headers of all versions, process rows; who disagrees. */
#include "trace/files/identity.h"
#include "trace/trace.h"

#include "unit.h"

static void names_say_ranks_hosts_and_processes(void **state)
{
    (void)state;
    static const struct {
        const char *path;
        int rank, directory_rank;
        const char *host;
        int64_t pid;
        bool guess;
    } rows[] = {
        {"rank3.json", 3, -1, "", -1, true},
        {"rank_3.json.gz", 3, -1, "", 3, true},
        {"rank_3_step_10.json", 3, -1, "", 10, true},
        {"trace_rank-3.json", 3, -1, "", -1, true},
        {"run_rank0_final.json.zst", 0, -1, "", -1, true},
        {"RANK12.JSON.GZ", 12, -1, "", -1, true},
        {"Rank[7].json", 7, -1, "", -1, true},
        {"rank=5,step=2.json", 5, -1, "", -1, true},
        {"dp0_pp0_tp0_dcp0_ep0_rank9.1694128201545.pt.trace.json.gz", 9, -1, "", -1, true},
        {"abc-TP-0-DP-1-PP-0-EP-0.trace.json.gz", -1, -1, "", -1, true},
        {"local_rank3_rank11.json", 11, -1, "", -1, true},
        {"local_rank3.json", -1, -1, "", -1, true},
        {"node-rank2.json", -1, -1, "", -1, true},
        {"frank3.json", -1, -1, "", -1, true},
        {"ranking.json", -1, -1, "", -1, true},
        {"rank_-1.json", -1, -1, "", -1, true},
        {"rank99999999999.json", -1, -1, "", -1, true},
        {"rank.json", -1, -1, "", -1, true},
        {"rank", -1, -1, "", -1, true},
        {"", -1, -1, "", -1, true},
        {"/", -1, -1, "", -1, true},
        {"-", -1, -1, "", -1, true},
        {"node7_4711.1694128201545.pt.trace.json.gz", -1, -1, "node7", 4711, true},
        {"gpu-node_7.cluster.org_4711.1694128201545123456.pt.trace.json", -1, -1,
         "gpu-node_7.cluster.org", 4711, true},
        {"node7_4711.pt.trace.json", -1, -1, "node7", 4711, true},
        {"worker0.1694128201545.pt.trace.json.gz", -1, -1, "", -1, true},
        {"libkineto_trace_4711.json", -1, -1, "", 4711, false},
        {"libkineto_activities_4711.json", -1, -1, "", 4711, false},
        {"/tmp/my_trace_4711.json", -1, -1, "", 4711, true},
        {"runs/rank3/trace.json", -1, 3, "", -1, true},
        {"runs/rank-3/deep/trace.json", -1, 3, "", -1, true},
        {"rank1/rank2/trace.json", -1, 2, "", -1, true},
        {"rank_2024_runs/trace.json", -1, -1, "", -1, true},
        {"rank4/rank5.json", 5, 4, "", -1, true},
    };
    for (size_t i = 0; i < KB_COUNT(rows); i++) {
        kt_name_facts facts;
        kt_name_facts_of(rows[i].path, &facts);
        if (facts.rank != rows[i].rank || facts.directory_rank != rows[i].directory_rank ||
            facts.pid != rows[i].pid || (facts.pid >= 0 && facts.pid_is_guess != rows[i].guess) ||
            !kb_string_equal(facts.host, kb_string(rows[i].host)))
            fail_msg("%s: rank %d, directory %d, host %.*s, pid %lld", rows[i].path, facts.rank,
                     facts.directory_rank, (int)facts.host.size, facts.host.data,
                     (long long)facts.pid);
    }
}

/* What can be made of the pieces that names are made of: within the name, and the order a total
 * one. */
static void any_name_is_harmless(void **state)
{
    (void)state;
    static const char *const pieces[] = {"rank",
                                         "Rank",
                                         "_",
                                         "-",
                                         "[",
                                         "]",
                                         "/",
                                         ".",
                                         "0",
                                         "7",
                                         "00",
                                         "4711",
                                         "99999999999999999999",
                                         ".pt",
                                         ".trace",
                                         ".json",
                                         ".gz",
                                         ".zst",
                                         "local",
                                         "node",
                                         "libkineto_trace",
                                         "h",
                                         "\xff",
                                         " ",
                                         "=",
                                         "1694128201545"};
    uint64_t seed = 7;
    char last[400] = "", before[400] = "";
    for (int i = 0; i < 50000; i++) {
        size_t count = next_random(&seed) % 9, size = 0;
        char *name = calloc(400, 1); /* of its own, so that sanitizers see its ends */
        for (size_t k = 0; k < count; k++) {
            const char *piece = pieces[next_random(&seed) % KB_COUNT(pieces)];
            memcpy(name + size, piece, strlen(piece));
            size += strlen(piece);
        }
        char *exact = strdup(name);
        kt_name_facts facts;
        kt_name_facts_of(exact, &facts);
        assert_true(facts.rank >= -1 && facts.directory_rank >= -1 && facts.pid >= -1);
        assert_true(!facts.host.size || (facts.host.data >= exact &&
                                         facts.host.data + facts.host.size <= exact + size));
        assert_int_equal(kt_compare_names(exact, exact), 0);
        int ab = kt_compare_names(exact, last), ba = kt_compare_names(last, exact);
        assert_true((ab > 0) == (ba < 0) && (ab == 0) == (ba == 0));
        int bc = kt_compare_names(last, before), ac = kt_compare_names(exact, before);
        assert_true(!(ab <= 0 && bc <= 0) || ac <= 0);
        memcpy(before, last, sizeof before);
        memcpy(last, name, sizeof last);
        free(exact);
        free(name);
    }
}

static void numbers_in_names_count_as_numbers(void **state)
{
    (void)state;
    static const char *const ordered[] = {"",
                                          "a",
                                          "a1",
                                          "a01",
                                          "a2",
                                          "a10",
                                          "a10b",
                                          "a010c",
                                          "a99999999999999999998",
                                          "a99999999999999999999",
                                          "b",
                                          "b1/z",
                                          "b2/a"};
    for (size_t i = 0; i < KB_COUNT(ordered); i++)
        for (size_t k = 0; k < KB_COUNT(ordered); k++) {
            int order = kt_compare_names(ordered[i], ordered[k]);
            assert_int_equal((order > 0) - (order < 0), (i > k) - (i < k));
        }
}

static void paths_share_directories(void **state)
{
    (void)state;
    const char *const two[] = {"run/rank1/a.json", "run/rank10/a.json"};
    const char *const other[] = {"a.json", "/b.json"};
    assert_int_equal(kt_common_directory(two, 2), 4);
    assert_int_equal(kt_common_directory(two, 1), 10);
    assert_int_equal(kt_common_directory(other, 2), 0);
    assert_int_equal(kt_common_directory(NULL, 0), 0);
}

/* ---- traces ---------------------------------------------------------------------------------- */

typedef struct made {
    int64_t pid;
    int32_t rank;
    const char *host;
    const char *header[6]; /* key, value, … */
} made;

static kineto_trace *make(const made *how)
{
    kt_builder *b;
    kineto_trace *t;
    assert_int_equal(kt_builder_create(&b, NULL), KINETO_OK);
    uint32_t helper = kt_process(b, false, 1, 0), process = kt_process(b, false, how->pid, 0);
    kineto_process p = {.rank = how->rank, .host = kb_string(how->host)};
    kt_process_set(b, process, &p);
    kt_process(b, true, 0, 0);
    kt_process_text(b, kb_string("Spans"));
    uint32_t few = kt_track(b, helper, KINETO_TRACK_THREAD, 1);
    uint32_t many = kt_track(b, process, KINETO_TRACK_THREAD, 2);
    for (int i = 0; i < 4; i++)
        kt_append(b, &(kt_row){.start_ns = i, .end_ns = i + 1, .track = i ? many : few});
    for (size_t i = 0; i + 1 < KB_COUNT(how->header) && how->header[i]; i += 2)
        kt_metadata(b, kb_string(how->header[i]), kb_string(how->header[i + 1]));
    assert_int_equal(kt_builder_finish(b, &t, NULL), KINETO_OK);
    kt_builder_destroy(b);
    return t;
}

static kineto_identity learn(const made *how, const char *path)
{
    kineto_trace *t = make(how);
    kineto_identity id = {.size = sizeof id};
    kineto_trace_identity(t, path, &id);
    kineto_trace_release(t);
    return id;
}

static void headers_of_every_form_are_understood(void **state)
{
    (void)state;
    static const struct {
        const char *key, *value;
        int rank, world;
        const char *backend, *host;
        uint8_t rank_learned;
    } rows[] = {
        {"distributedInfo", "{\"backend\": \"nccl\", \"rank\": 3, \"world_size\": 8}", 3, 8, "nccl",
         "", KINETO_LEARNED_HEADER},
        {"distributedInfo", "{\"rank\": 0}", 0, 0, "", "", KINETO_LEARNED_HEADER},
        {"distributedInfo", "{\"rank\": \"2\", \"world_size\": \"4\"}", 2, 4, "", "",
         KINETO_LEARNED_HEADER},
        {"distributedInfo",
         "{\"backend\":\"gloo\",\"rank\":34,\"world_size\":300,\"pg_count\":1,\"pg_config\":[{"
         "\"pg_name\":\"0\",\"rank\":99,\"ranks\":[0,1]}]}",
         34, 300, "gloo", "", KINETO_LEARNED_HEADER},
        {"distributedInfo", "{\"rank\": -1, \"world_size\": 0}", -1, 0, "", "", 0},
        {"distributedInfo", "{\"rank\": 99999999999999}", -1, 0, "", "", 0},
        {"distributedInfo", "[]", -1, 0, "", "", 0},
        {"distributedInfo", "7", -1, 0, "", "", 0},
        {"rank", "5", 5, 0, "", "", KINETO_LEARNED_HEADER},
        {"host_name", "\"capture\"", -1, 0, "", "capture", 0},
        {"environment", "{\"RANK\":\"6\",\"WORLD_SIZE\":\"16\",\"HOSTNAME\":\"n1\"}", 6, 16, "",
         "n1", KINETO_LEARNED_ENVIRONMENT},
        {"SLURM_PROCID", "\"9\"", 9, 0, "", "", KINETO_LEARNED_ENVIRONMENT},
    };
    for (size_t i = 0; i < KB_COUNT(rows); i++) {
        made how = {100, -1, "", {rows[i].key, rows[i].value}};
        kineto_identity id = learn(&how, NULL);
        assert_int_equal(id.rank, rows[i].rank);
        assert_int_equal(id.world_size, rows[i].world);
        assert_string_equal(id.backend, rows[i].backend);
        assert_string_equal(id.host, rows[i].host);
        assert_int_equal(id.rank_learned, rows[i].rank_learned);
        assert_int_equal(id.pid, 100); /* the busy one */
        assert_int_equal(id.pid_learned, KINETO_LEARNED_PROCESS);
        assert_string_equal(id.conflict, "");
    }
}

static void nothing_is_known_of_a_bare_trace(void **state)
{
    (void)state;
    made how = {100, -1, "", {NULL}};
    kineto_identity id = learn(&how, "trace.json");
    assert_int_equal(id.rank, -1);
    assert_int_equal(id.world_size, 0);
    assert_string_equal(id.host, "");
    assert_int_equal(id.rank_learned, KINETO_LEARNED_NOWHERE);
}

static void the_header_counts_and_who_disagrees_is_named(void **state)
{
    (void)state;
    made how = {100, 4, "node7", {"distributedInfo", "{\"rank\":3,\"world_size\":8}"}};
    kineto_identity id = learn(&how, "rank6/rank5.json");
    assert_int_equal(id.rank, 3);
    assert_int_equal(id.rank_learned, KINETO_LEARNED_HEADER);
    assert_string_equal(
        id.conflict, "the rank is 3 by the header but 4 by the process row, which does not count; "
                     "the rank is 3 by the header but 5 by the file name, which does not count; "
                     "the rank is 3 by the header but 6 by the directory, which does not count");
    made only_name = {100, -1, "", {NULL}};
    id = learn(&only_name, "rank6/rank5.json");
    assert_int_equal(id.rank, 5);
    assert_int_equal(id.rank_learned, KINETO_LEARNED_FILE_NAME);
    assert_non_null(strstr(id.conflict, "6 by the directory"));
    id = learn(&only_name, "rank6/t.json");
    assert_int_equal(id.rank, 6);
    assert_int_equal(id.rank_learned, KINETO_LEARNED_DIRECTORY);
    made outside = {100, -1, "", {"distributedInfo", "{\"rank\":8,\"world_size\":8}"}};
    id = learn(&outside, NULL);
    assert_string_equal(id.conflict, "rank 8 is out of range for world size 8");
}

static void numbers_in_names_are_processes_only_if_the_trace_has_them(void **state)
{
    (void)state;
    made how = {4711, -1, "", {NULL}};
    kineto_identity id = learn(&how, "node7_4711.1694128201545.pt.trace.json");
    assert_string_equal(id.host, "node7");
    assert_int_equal(id.host_learned, KINETO_LEARNED_FILE_NAME);
    assert_string_equal(id.conflict, "");
    id = learn(&how, "worker0_step_12.1694128201545.pt.trace.json");
    assert_string_equal(id.host, "");
    assert_string_equal(id.conflict, "");
    id = learn(&how, "libkineto_trace_12.json");
    assert_int_equal(id.pid, 4711);
    assert_non_null(strstr(id.conflict, "the process id is 4711 by the process row but 12 by the"));
    id = learn(&how, "node7_1.1694128201545.pt.trace.json"); /* the other process of it */
    assert_int_equal(id.pid, 4711);
    assert_string_equal(id.conflict, "");
}

static void short_and_long_names_of_a_host_agree(void **state)
{
    (void)state;
    made how = {4711, -1, "node7", {"host_name", "\"node7.cluster.org\""}};
    kineto_identity id = learn(&how, NULL);
    assert_string_equal(id.host, "node7.cluster.org");
    assert_string_equal(id.conflict, "");
    made other = {4711, -1, "node70", {"host_name", "\"node7\""}};
    id = learn(&other, NULL);
    assert_non_null(strstr(id.conflict, "the host is node7 by the header but node70"));
}

static void long_texts_are_cut_and_old_callers_served(void **state)
{
    (void)state;
    char host[2000], value[2010];
    memset(host, 'h', sizeof host - 1);
    host[sizeof host - 1] = '\0';
    snprintf(value, sizeof value, "\"%s\"", host);
    made how = {1, -1, "other", {"host_name", value, "distributedInfo", "{\"rank\":1}"}};
    kineto_identity id = learn(&how, "rank2.json");
    assert_int_equal(strlen(id.host), sizeof id.host - 1);
    assert_true(strlen(id.conflict) < sizeof id.conflict);
    kineto_trace *t = make(&how);
    struct {
        kineto_identity id;
    } guard;
    memset(&guard, 0x5a, sizeof guard);
    guard.id.size = offsetof(kineto_identity, world_size);
    kineto_trace_identity(t, NULL, &guard.id);
    assert_int_equal(guard.id.rank, 1);
    assert_int_equal(guard.id.world_size, 0x5a5a5a5a);
    kineto_trace_release(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_say_ranks_hosts_and_processes),
        cmocka_unit_test(any_name_is_harmless),
        cmocka_unit_test(numbers_in_names_count_as_numbers),
        cmocka_unit_test(paths_share_directories),
        cmocka_unit_test(headers_of_every_form_are_understood),
        cmocka_unit_test(nothing_is_known_of_a_bare_trace),
        cmocka_unit_test(the_header_counts_and_who_disagrees_is_named),
        cmocka_unit_test(numbers_in_names_are_processes_only_if_the_trace_has_them),
        cmocka_unit_test(short_and_long_names_of_a_host_agree),
        cmocka_unit_test(long_texts_are_cut_and_old_callers_served),
    };
    return RUN_TESTS(tests);
}
