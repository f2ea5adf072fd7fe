/* What a daemon answers over its RPC, with anything in it: it is read strictly, or refused with a
 * word, and nothing of it reaches a terminal that a terminal would obey. */
#include "ondemand/dynolog/rpc_client.h"
#include "read.h"

#include <ctype.h>
#include <string.h>

static const uint8_t *answer_data;
static size_t answer_size;

/* In the place of the connection: this is the answer, whatever was asked. */
kineto_status ko_rpc_exchange(const ko_rpc_daemon *d, kineto_string question, char **answer,
                              size_t *bytes, kineto_error *err)
{
    (void)d;
    fuzz_check(kb_json_valid(question), "a question that is not JSON");
    *answer = malloc(answer_size + 1);
    if (!*answer)
        return kb_fail(err, KINETO_E_MEMORY, "no memory");
    if (answer_size)
        memcpy(*answer, answer_data, answer_size);
    (*answer)[answer_size] = 0;
    *bytes = answer_size;
    return KINETO_OK;
}

static void check(kineto_status status, const kineto_error *err)
{
    fuzz_check(status == KINETO_OK || err->message[0], "refused without a word");
    for (const char *c = status ? err->message : ""; *c; c++)
        fuzz_check(!iscntrl((unsigned char)*c), "it would do something to a terminal");
}

static void list(const ko_rpc_daemon *d)
{
    ko_rpc_list l;
    kineto_error err = {.message = ""};
    check(ko_rpc_list_processes(d, &l, &err), &err);
    for (size_t i = 0; i < l.processes.count; i++)
        fuzz_check((uint64_t)l.processes.data[i].pids_at + l.processes.data[i].pid_count <=
                       l.pids.count,
                   "pids that are not there");
    ko_rpc_list_free(&l);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ko_rpc_daemon d = {.host = "", .token = "0123456789abcdef"};
    ko_rpc_request request = {.job = 7, .limit = 3, .config = kb_string("A=\"b\"\n")};
    ko_rpc_result result;
    kineto_error err = {.message = ""};
    int64_t number;
    char version[64];
    answer_data = data;
    answer_size = size;
    check(ko_rpc_trigger(&d, &request, &result, &err), &err);
    ko_rpc_result_free(&result);
    list(&d);
    check(ko_rpc_status(&d, &number, &err), &err);
    check(ko_rpc_time(&d, &number, &err), &err);
    kineto_status status = ko_rpc_version(&d, version, &err);
    check(status, &err);
    fuzz_check(status || memchr(version, 0, sizeof version), "a version without an end");
    return 0;
}

#if defined(WITH_FUZZER)
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed);

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed)
{
    if (size < 2 || seed % 4 == 0)
        return LLVMFuzzerMutate(data, size, most);
    return fuzz_mutate_json(data, size, most, seed);
}
#endif
