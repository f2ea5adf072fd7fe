/* What reaches the web server of `ckineto view`, with anything in it: only who knows the token, and
 * names this machine, gets a document; everything else is refused in whole lines.
 *
 * A request is taken as a whole: what comes in pieces ends up in the same buffer. */
#include "cli/report/serve.c"

#include "read.h"

#include <string.h>

#define TOKEN "0123456789abcdef0123456789abcdef"

static const kc_document documents[] = {
    {.path = "/" TOKEN "/", .type = "text/html; charset=utf-8", .file = "/dev/null"},
    {.path = "/" TOKEN "/trace.json",
     .type = "application/json",
     .file = "/proc/self/exe",
     .origin = "https://ui.perfetto.dev"},
};
static const kc_server server = {
    .port = 9001, .documents = documents, .count = KB_COUNT(documents)};

/* The head of an answer: lines that end as they should, with an empty one last. */
static void check_head(const connection *c)
{
    fuzz_check(c->phase == PHASE_ANSWERING && c->head_size < sizeof c->head &&
                   strlen(c->head) == c->head_size,
               "an answer that is cut");
    fuzz_check(!strncmp(c->head, "HTTP/1.1 ", 9) &&
                   strstr(c->head, "\r\n\r\n") == c->head + c->head_size - 4,
               "no head of an answer");
}

static bool has_line(const char *request, const char *line)
{
    const char *at = strcasestr(request, line);
    return at && strchr(" \t\r\n", at[strlen(line)]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static connection c;
    c = (connection){.socket = -1, .file = -1, .got = KB_MIN(size, (size_t)REQUEST_BYTES)};
    if (c.got)
        memcpy(c.request, data, c.got);
    if (!strstr(c.request, "\r\n\r\n"))
        return 0; /* more is waited for, or it is refused */
    answer_http_request(&server, &c);
    check_head(&c);
    bool given = !strncmp(c.head + 9, "200", 3);
    fuzz_check(given || c.file < 0 || !strncmp(c.head + 9, "404", 3), "a file for who is refused");
    if (given)
        fuzz_check(
            strstr(c.request, " /" TOKEN "/") == c.request + strcspn(c.request, " ") &&
                (has_line(c.request, "127.0.0.1:9001") || has_line(c.request, "localhost:9001")),
            "a document for who does not know the way");
    if (c.file >= 0)
        close(c.file);
    return 0;
}
