/* Dynolog's messages byte by byte, all that is not such a message, addresses, ancestors. */
#include "unit.h"

#include "ondemand/dynolog/dyno.h"

#include <sys/prctl.h>
#include <sys/wait.h>

/* Seen between Dynolog 0.6.0 and PyTorch, on a little-endian machine. */
static const unsigned char real_context[56] = {16, 0,   0,   0,   0,   0,           0,
                                               0,  'c', 't', 'x', 't', [44] = 0xa2, 0x6a};
static const unsigned char real_count[44] = {4, 0, 0, 0, 0, 0, 0, 0, 'c', 't', 'x', 't', [40] = 1};
static const unsigned char real_request[64] = {24, 0, 0,    0,        0,           0,
                                               0,  0, 'r',  'e',      'q',         [40] = 2,
                                               0,  0, 0,    [44] = 2, [56] = 0xa2, 0x6a,
                                               0,  0, 0x9e, 0x6a};
static const unsigned char real_nothing[40] = {0, 0, 0, 0, 0, 0, 0, 0, 'r', 'e', 'q'};

static ko_dyno_message some_request(uint32_t pids)
{
    ko_dyno_message m = {.type = KO_DYNO_REQUEST, .job = 77, .wants = 2, .pid_count = pids};
    for (uint32_t i = 0; i < KO_DYNO_MAX_PIDS; i++)
        m.pids[i] = (int32_t)(1000 + i);
    return m;
}

static void what_is_written_is_what_was_seen(void **state)
{
    (void)state;
    unsigned char out[512];
    ko_dyno_message context = {.type = KO_DYNO_CONTEXT, .pid = 0x6aa2};
    ko_dyno_message request = {
        .type = KO_DYNO_REQUEST, .wants = 2, .pid_count = 2, .pids = {0x6aa2, 0x6a9e}};
    kineto_string one = {"\1\0\0\0", 4};
    assert_int_equal(ko_dyno_encode(&context, out, sizeof out), sizeof real_context);
    assert_memory_equal(out, real_context, sizeof real_context);
    assert_int_equal(ko_dyno_encode(&request, out, sizeof out), sizeof real_request);
    assert_memory_equal(out, real_request, sizeof real_request);
    assert_int_equal(ko_dyno_encode_answer(KO_DYNO_CONTEXT, one, out, sizeof out), sizeof real_count);
    assert_memory_equal(out, real_count, sizeof real_count);
    assert_int_equal(ko_dyno_encode_answer(KO_DYNO_REQUEST, kb_string(""), out, sizeof out),
                     sizeof real_nothing);
    assert_memory_equal(out, real_nothing, sizeof real_nothing);
}

static void what_was_seen_is_read(void **state)
{
    (void)state;
    ko_dyno_message m;
    ko_dyno_type type;
    kineto_string payload;
    assert_true(ko_dyno_decode(real_context, sizeof real_context, &m, NULL));
    assert_int_equal(m.type, KO_DYNO_CONTEXT);
    assert_int_equal(m.pid, 0x6aa2);
    assert_true(ko_dyno_decode(real_request, sizeof real_request, &m, NULL));
    assert_int_equal(m.type, KO_DYNO_REQUEST);
    assert_int_equal(m.wants, KO_DYNO_WANTS_ACTIVITIES);
    assert_int_equal(m.pid_count, 2);
    assert_int_equal(m.pids[0], 0x6aa2);
    assert_int_equal(m.pids[1], 0x6a9e);
    assert_int_equal(m.job, 0);
    assert_true(ko_dyno_decode_answer(real_nothing, sizeof real_nothing, &type, &payload, NULL));
    assert_int_equal(type, KO_DYNO_REQUEST);
    assert_int_equal(payload.size, 0);
    assert_true(ko_dyno_decode_answer(real_count, sizeof real_count, &type, &payload, NULL));
    assert_int_equal(type, KO_DYNO_CONTEXT);
    assert_int_equal(payload.data[0], 1);
}

static void what_is_written_reads_the_same(void **state)
{
    (void)state;
    for (uint32_t n = 1; n <= KO_DYNO_MAX_PIDS; n++) {
        char bytes[512];
        ko_dyno_message in = some_request(n), out;
        in.job = INT64_MIN + n;
        size_t size = ko_dyno_encode(&in, bytes, sizeof bytes);
        assert_int_equal(size, 56 + 4 * n);
        assert_true(ko_dyno_decode(bytes, size, &out, NULL));
        assert_int_equal(out.job, in.job);
        assert_int_equal(out.pid_count, n);
        assert_memory_equal(out.pids, in.pids, n * 4);
        assert_int_equal(ko_dyno_encode(&in, bytes, size - 1), 0);
    }
}

static void what_cannot_be_said_is_not_written(void **state)
{
    (void)state;
    static char out[KO_DYNO_MAX_BYTES + 64];
    ko_dyno_message none = some_request(0), many = some_request(KO_DYNO_MAX_PIDS + 1);
    ko_dyno_message context = {.type = KO_DYNO_CONTEXT}, other = {.type = (ko_dyno_type)7};
    assert_int_equal(ko_dyno_encode(&none, out, sizeof out), 0);
    assert_int_equal(ko_dyno_encode(&many, out, sizeof out), 0);
    assert_int_equal(ko_dyno_encode(&other, out, sizeof out), 0);
    assert_int_equal(ko_dyno_encode(&context, out, 55), 0);
    kineto_string most = {out, KO_DYNO_MAX_BYTES}, more = {out, KO_DYNO_MAX_BYTES + 1};
    char *big = malloc(KO_DYNO_MAX_BYTES + 64);
    assert_int_equal(ko_dyno_encode_answer(KO_DYNO_REQUEST, most, big, KO_DYNO_MAX_BYTES + 64),
                     KO_DYNO_MAX_BYTES + 40);
    assert_int_equal(ko_dyno_encode_answer(KO_DYNO_REQUEST, more, big, KO_DYNO_MAX_BYTES + 64), 0);
    free(big);
    assert_int_equal(ko_dyno_encode_answer(KO_DYNO_REQUEST, kb_string("text"), out, 43), 0);
    assert_int_equal(ko_dyno_encode_answer(KO_DYNO_CONTEXT, kb_string("text!"), out, sizeof out), 0);
    assert_int_equal(ko_dyno_encode_answer((ko_dyno_type)7, kb_string("text"), out, sizeof out), 0);
}

/* In memory of exactly that size, so that reading beyond is seen. */
static bool is_read(const void *bytes, size_t size, bool answer, const char **why)
{
    ko_dyno_message m;
    ko_dyno_type type;
    kineto_string payload;
    char *copy = malloc(size ? size : 1);
    memcpy(copy, bytes, size);
    bool ok = answer ? ko_dyno_decode_answer(copy, size, &type, &payload, why)
                     : ko_dyno_decode(copy, size, &m, why);
    free(copy);
    return ok;
}

static void refused(const void *bytes, size_t size, const char *reason)
{
    const char *why = NULL;
    assert_false(is_read(bytes, size, false, &why));
    assert_non_null(why);
    assert_string_equal(why, reason);
}

static void refused_answer(const void *bytes, size_t size, const char *reason)
{
    const char *why = NULL;
    assert_false(is_read(bytes, size, true, &why));
    assert_non_null(why);
    assert_string_equal(why, reason);
}

static void messages_that_are_cut_are_refused(void **state)
{
    (void)state;
    refused("", 0, "empty message");
    refused_answer("", 0, "empty message");
    for (size_t n = 1; n < sizeof real_request; n++)
        refused(real_request, n,
                n < 40 ? "message is shorter than its head" : "message is not as long as it says");
    for (size_t n = 1; n < sizeof real_count; n++)
        refused_answer(real_count, n,
                       n < 40 ? "message is shorter than its head"
                              : "message is not as long as it says");
}

static void lengths_that_are_not_true_are_refused(void **state)
{
    (void)state;
    static const uint64_t large[] = {UINT64_C(1) << 62, UINT64_MAX, UINT64_MAX - 39,
                                     KO_DYNO_MAX_BYTES + 1, UINT64_C(1) << 32};
    unsigned char bytes[64];
    for (size_t i = 0; i < KB_COUNT(large); i++) {
        memcpy(bytes, real_request, sizeof bytes);
        memcpy(bytes, &large[i], 8);
        refused(bytes, sizeof bytes, "message is too large");
        refused_answer(bytes, sizeof bytes, "message is too large");
    }
    for (uint64_t said = 0; said < 64; said++) {
        memcpy(bytes, real_request, sizeof bytes);
        memcpy(bytes, &said, 8);
        if (said != 24)
            refused(bytes, sizeof bytes, "message is not as long as it says");
    }
}

static void counts_that_are_not_true_are_refused(void **state)
{
    (void)state;
    static const struct {
        int32_t count;
        const char *why;
    } bad[] = {{0, "request of no process"},
               {-1, "request of no process"},
               {INT32_MIN, "request of no process"},
               {65, "request of too many processes"},
               {1000, "request of too many processes"},
               {INT32_MAX, "request of too many processes"},
               {1, "request has not as many processes as it says"},
               {3, "request has not as many processes as it says"},
               {64, "request has not as many processes as it says"}};
    unsigned char bytes[64];
    for (size_t i = 0; i < KB_COUNT(bad); i++) {
        memcpy(bytes, real_request, sizeof bytes);
        memcpy(bytes + 44, &bad[i].count, 4);
        refused(bytes, sizeof bytes, bad[i].why);
    }
    unsigned char odd[57] = {17, [8] = 'r', 'e', 'q', [40] = 2, [44] = 1};
    refused(odd, sizeof odd, "request has not as many processes as it says");
}

static void types_are_whole_words(void **state)
{
    (void)state;
    static const char *const types[] = {"request-xyz", "re",    "",     "REQ",
                                        "ctx",         "ctxt2", "reqq", "kick"};
    for (size_t i = 0; i < KB_COUNT(types); i++) {
        unsigned char bytes[64];
        memcpy(bytes, real_request, sizeof bytes);
        memset(bytes + 8, 0, 32);
        memcpy(bytes + 8, types[i], strlen(types[i]));
        refused(bytes, sizeof bytes, "message of an unknown type");
        refused_answer(bytes, sizeof bytes, "message of an unknown type");
    }
    unsigned char full[64];
    memcpy(full, real_request, sizeof full);
    memset(full + 8, 'r', 32);
    refused(full, sizeof full, "message of an unknown type");
}

static void types_with_another_payload_are_refused(void **state)
{
    (void)state;
    unsigned char bytes[64];
    memcpy(bytes, real_request, sizeof bytes);
    memcpy(bytes + 8, "ctxt", 4);
    refused(bytes, sizeof bytes, "context is not 16 bytes long");
    refused_answer(bytes, sizeof bytes, "count is not 4 bytes long");
    refused(real_nothing, sizeof real_nothing, "request is too short");
}

static void random_bytes_are_read_or_refused(void **state)
{
    (void)state;
    uint64_t random = 9, taken = 0;
    for (int i = 0; i < FEWER(300000, 30000); i++) {
        unsigned char bytes[96];
        size_t size = next_random(&random) % sizeof bytes;
        memcpy(bytes, real_request, KB_MIN(size, sizeof real_request));
        for (size_t at = sizeof real_request; at < size; at++)
            bytes[at] = (unsigned char)next_random(&random);
        for (uint64_t change = next_random(&random) % 6; change > 0 && size > 0; change--)
            bytes[next_random(&random) % size] = (unsigned char)next_random(&random);
        if (size >= 40 && next_random(&random) % 2) {
            uint64_t said = size - 40;
            memcpy(bytes, &said, 8);
        }
        const char *why = NULL;
        bool message = is_read(bytes, size, false, &why);
        assert_true(message || why);
        bool answer = is_read(bytes, size, true, &why);
        taken += message + answer;
    }
    assert_true(taken > 0);
}

/* ---- addresses -----------------------------------------------------------------------------------
 */

static void abstract_addresses_end_in_a_nul(void **state)
{
    (void)state;
    ko_dyno_address a;
    char name[KO_DYNO_NAME_BYTES + 1];
    assert_int_equal(ko_dyno_address_of("dynolog", NULL, &a, NULL), KINETO_OK);
    assert_int_equal(a.size, 11);
    assert_memory_equal(a.address.sun_path, "\0dynolog\0", 9);
    assert_true(ko_dyno_address_name(&a, NULL, name));
    assert_string_equal(name, "dynolog");
    assert_false(ko_dyno_address_name(&a, "/tmp", name));
    a.size--; /* without the NUL */
    assert_false(ko_dyno_address_name(&a, NULL, name));
    assert_int_equal(ko_dyno_address_of("dynolog", "", &a, NULL), KINETO_OK);
    assert_int_equal(a.size, 11);
}

static void addresses_in_a_directory_are_paths(void **state)
{
    (void)state;
    ko_dyno_address a;
    char name[KO_DYNO_NAME_BYTES + 1];
    assert_int_equal(ko_dyno_address_of("dynolog", "/run/d", &a, NULL), KINETO_OK);
    assert_string_equal(a.address.sun_path, "/run/d/dynolog");
    assert_int_equal(a.size, 2 + strlen("/run/d/dynolog") + 1);
    assert_true(ko_dyno_address_name(&a, "/run/d", name));
    assert_string_equal(name, "dynolog");
    assert_true(ko_dyno_address_name(&a, "/run/d/", name));
    assert_true(ko_dyno_address_name(&a, "/run//", name) == false);
    assert_false(ko_dyno_address_name(&a, "/run", name));
    assert_false(ko_dyno_address_name(&a, "/run/dx", name));
    assert_false(ko_dyno_address_name(&a, "/run/d/dynolog", name));
    assert_false(ko_dyno_address_name(&a, NULL, name));
}

static void names_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    char text[256];
    ko_dyno_address a;
    kineto_error err;
    char name[KO_DYNO_NAME_BYTES + 1];
    memset(text, 'n', sizeof text);
    text[106] = '\0';
    assert_int_equal(ko_dyno_address_of(text, NULL, &a, &err), KINETO_OK);
    assert_true(ko_dyno_address_name(&a, NULL, name));
    assert_string_equal(name, text);
    text[106] = 'n', text[107] = '\0';
    assert_int_equal(ko_dyno_address_of(text, NULL, &a, &err), KINETO_E_ARGUMENT);
    text[99] = '\0'; /* with "/dynolog" 107 bytes */
    assert_int_equal(ko_dyno_address_of("dynolog", text, &a, &err), KINETO_OK);
    text[99] = 'n', text[100] = '\0';
    assert_int_equal(ko_dyno_address_of("dynolog", text, &a, &err), KINETO_E_ARGUMENT);
    assert_non_null(strstr(err.message, "at most 107 bytes"));
    assert_int_equal(ko_dyno_address_of("", NULL, &a, &err), KINETO_E_ARGUMENT);
    assert_int_equal(ko_dyno_address_of("../dynolog", "/run", &a, &err), KINETO_E_ARGUMENT);
}

static void senders_without_a_name_have_none(void **state)
{
    (void)state;
    char name[KO_DYNO_NAME_BYTES + 1];
    ko_dyno_address a = {.size = 0};
    uint64_t random = 3;
    assert_false(ko_dyno_address_name(&a, NULL, name));
    a.address.sun_family = AF_UNIX;
    for (socklen_t size = 0; size < 4; size++) {
        a.size = size;
        assert_false(ko_dyno_address_name(&a, NULL, name));
        assert_false(ko_dyno_address_name(&a, "/", name));
    }
    memcpy(a.address.sun_path, "\0a\0b\0", 5);
    a.size = 7;
    assert_false(ko_dyno_address_name(&a, NULL, name));
    for (int i = 0; i < 20000; i++) { /* anything: within bounds, always */
        for (size_t at = 0; at < sizeof a.address.sun_path; at++)
            a.address.sun_path[at] = (char)(next_random(&random) % 5 ? 'x' : "/\0d"[at % 3]);
        a.size = (socklen_t)(next_random(&random) % 130);
        if (ko_dyno_address_name(&a, i % 2 ? "x/" : NULL, name))
            assert_true(strlen(name) > 0 && !strchr(name, '/'));
    }
}

/* ---- ancestors -----------------------------------------------------------------------------------
 */

static void a_process_comes_first_then_its_parents(void **state)
{
    (void)state;
    int32_t pids[KO_DYNO_MAX_PIDS];
    uint32_t n = ko_dyno_ancestors((uint32_t)getpid(), pids);
    assert_in_range(n, 1, 11);
    assert_int_equal(pids[0], getpid());
    if (getppid() > 1)
        assert_int_equal(pids[1], getppid());
    for (uint32_t i = 1; i < n; i++)
        assert_true(pids[i] > 1);
    assert_int_equal(ko_dyno_ancestors(1, pids), 1);
    assert_int_equal(pids[0], 1);
    assert_int_equal(ko_dyno_ancestors(0x7ffffff0, pids), 1);
    assert_int_equal(pids[0], 0x7ffffff0);
}

/* Whether this process, `depth` generations below the test, sees all of them. */
static int descend(int depth, int32_t *line, int at, const char *name)
{
    line[at] = getpid();
    prctl(PR_SET_NAME, name);
    if (depth > 0) {
        int status = 1;
        pid_t child = fork();
        if (child == 0)
            _exit(descend(depth - 1, line, at + 1, name));
        waitpid(child, &status, 0);
        return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
    }
    int32_t pids[KO_DYNO_MAX_PIDS];
    uint32_t n = ko_dyno_ancestors((uint32_t)getpid(), pids);
    if (n > 11 || n < (uint32_t)KB_MIN(at + 1, 11))
        return 2;
    for (uint32_t i = 0; i < n && (int)i <= at; i++)
        if (pids[i] != line[at - (int)i])
            return 3;
    return 0;
}

static void names_of_ancestors_may_hold_anything(void **state)
{
    (void)state;
    static const char *const names[] = {") S 1 1 1", "a) b (c",    "))))",
                                        "",          "with space", "x\ny) Z 0"};
    int32_t line[16];
    for (size_t i = 0; i < KB_COUNT(names); i++) {
        int status = 1;
        pid_t child = fork();
        if (child == 0)
            _exit(descend(2, line, 0, names[i]));
        waitpid(child, &status, 0);
        assert_int_equal(status, 0);
    }
}

static void at_most_eleven_are_reported(void **state)
{
    (void)state;
    int32_t line[16];
    int status = 1;
    pid_t child = fork();
    if (child == 0)
        _exit(descend(13, line, 0, "deep"));
    waitpid(child, &status, 0);
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_what_was_seen),
        cmocka_unit_test(what_was_seen_is_read),
        cmocka_unit_test(what_is_written_reads_the_same),
        cmocka_unit_test(what_cannot_be_said_is_not_written),
        cmocka_unit_test(messages_that_are_cut_are_refused),
        cmocka_unit_test(lengths_that_are_not_true_are_refused),
        cmocka_unit_test(counts_that_are_not_true_are_refused),
        cmocka_unit_test(types_are_whole_words),
        cmocka_unit_test(types_with_another_payload_are_refused),
        cmocka_unit_test(random_bytes_are_read_or_refused),
        cmocka_unit_test(abstract_addresses_end_in_a_nul),
        cmocka_unit_test(addresses_in_a_directory_are_paths),
        cmocka_unit_test(names_that_do_not_fit_are_refused),
        cmocka_unit_test(senders_without_a_name_have_none),
        cmocka_unit_test(a_process_comes_first_then_its_parents),
        cmocka_unit_test(names_of_ancestors_may_hold_anything),
        cmocka_unit_test(at_most_eleven_are_reported),
    };
    return RUN_TESTS(tests);
}
