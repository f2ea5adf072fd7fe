/* Requests and configuration files: any text is read or refused with a word, and a text that is
 * refused changes nothing.
 *
 * The first byte says whom the text comes from (ko_request_source); '3' and above: it is a file. */
#include "read.h"
#include "ondemand/request/request.h"

#include <string.h>

#define NOW_NS INT64_C(1700000000000000000)

static void check_values(const ko_request *r)
{
    fuzz_check(memchr(r->log_file, 0, sizeof r->log_file) && memchr(r->custom, 0, sizeof r->custom),
               "a text without an end");
    fuzz_check(memchr(r->trace_id, 0, sizeof r->trace_id) &&
                   memchr(r->group_id, 0, sizeof r->group_id),
               "an id without an end");
    fuzz_check(r->duration_ns >= -1 && r->iterations >= -1 && r->warmup_ns >= -1 &&
                   r->max_buffer_bytes >= -1,
               "a negative number");
}

static void read_text(kineto_string text, ko_request_source source)
{
    ko_request r, before, under;
    kineto_error err = {.message = ""};
    kb_text unknown;
    uint32_t unknown_count = 0;
    char path[KO_REQUEST_PATH_BYTES];
    ko_request_init(&r);
    ko_request_init(&under);
    before = r;
    kineto_status status = ko_request_parse(&r, text, source, &unknown, &unknown_count, &err);
    if (status) {
        fuzz_check(memcmp(&r, &before, sizeof r) == 0, "a refused text changed something");
        fuzz_check(err.message[0], "refused without a word");
        return;
    }
    check_values(&r);
    ko_request_layer(&r, &under);
    if (ko_request_complete(&r, NOW_NS, &err) == KINETO_OK) {
        check_values(&r);
        fuzz_check(r.duration_ns >= 0 || r.iterations > 0 || r.memory_snapshot, "it has no end");
        if (ko_request_output_path(&r, source, 4242, path, &err) == KINETO_OK)
            fuzz_check(memchr(path, 0, sizeof path) != NULL, "a path without an end");
    }
}

/* The same again is not a change. */
static void read_file(const uint8_t *data, size_t size)
{
    ko_config_file f;
    ko_request r, again;
    kineto_error err = {.message = ""};
    bool changed = false;
    ko_config_file_init(&f);
    snprintf(f.path, sizeof f.path, "%s", fuzz_file(FUZZ_IN, data, size));
    ko_request_init(&r);
    if (ko_config_file_load(&f, &r, &changed, &err) != KINETO_OK)
        return;
    check_values(&r);
    again = r;
    fuzz_check(ko_config_file_load(&f, &again, &changed, &err) == KINETO_OK && !changed,
               "what did not change was read as another text");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    (void)kb_log_configure(KINETO_LOG_ERROR, NULL, NULL); /* unknown keys are warned of */
    char *text = malloc(size);                            /* its end is watched */
    if (!text)
        return 0;
    memcpy(text, data + 1, size - 1);
    if (data[0] >= '0' && data[0] < '3')
        read_text((kineto_string){text, size - 1}, (ko_request_source)(data[0] - '0'));
    else
        read_file(data + 1, size - 1);
    free(text);
    return 0;
}
