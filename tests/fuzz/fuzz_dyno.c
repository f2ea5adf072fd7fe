/* What processes and dyno send to a daemon, and what a daemon answers to a process: any bytes are
 * read or refused, what is read says the same when it is written, and a registry goes on.
 *
 * The first byte says what the rest is: '0' a datagram to the daemon, '1' an answer to a process,
 * '2' a request over TCP without its length, '3' a connection's bytes in two pieces, '4' a sender's
 * address. */
#include "ondemand/dynolog/dyno_connection.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#define TOKEN "0123456789abcdef"

static ko_dyno_registry *registry_of_some(void)
{
    ko_dyno_registry *r = ko_dyno_registry_create();
    for (int32_t pid = 1; r && pid <= 8; pid++) {
        ko_dyno_message m = {
            .type = KO_DYNO_REQUEST, .job = pid % 2, .pid_count = 2, .pids = {100 + pid, 10}};
        free(ko_dyno_registry_poll(r, &m, (uint32_t)pid % 2, 1));
    }
    return r;
}

static void take_message(ko_dyno_registry *r, const uint8_t *data, size_t size)
{
    ko_dyno_message m;
    char again[1024];
    const char *why = NULL;
    if (!ko_dyno_decode(data, size, &m, &why)) {
        if (!why)
            abort();
        return;
    }
    size_t n = ko_dyno_encode(&m, again, sizeof again);
    /* Bytes after the name of the type have no meaning. */
    if (n != size || memcmp(again, data, 8) != 0 || memcmp(again + 40, data + 40, n - 40) != 0)
        abort();
    if (m.type == KO_DYNO_CONTEXT)
        (void)ko_dyno_registry_context(r, &m, 2);
    else
        free(ko_dyno_registry_poll(r, &m, 0, 2));
}

static void take_answer(const uint8_t *data, size_t size)
{
    ko_dyno_type type;
    kineto_string payload;
    const char *why = NULL;
    if (!ko_dyno_decode_answer(data, size, &type, &payload, &why)) {
        if (!why)
            abort();
        return;
    }
    if ((const uint8_t *)payload.data != data + KO_DYNO_HEAD_BYTES ||
        payload.size != size - KO_DYNO_HEAD_BYTES)
        abort();
}

static void take_request(ko_dyno_registry *r, const uint8_t *data, size_t size)
{
    static const ko_dyno_caller callers[] = {
        {0}, {.token = TOKEN}, {.denied = "because"}, {.one_user = true, .user = 1}};
    for (size_t i = 0; i < KB_COUNT(callers); i++) {
        char *answer = NULL;
        size_t bytes = 0;
        kineto_string request = {(const char *)data, size};
        (void)ko_dyno_rpc(r, &callers[i], request, 3, &answer, &bytes, NULL);
        if (answer && !kb_json_valid((kineto_string){answer, bytes}))
            abort();
        free(answer);
    }
}

/* In two pieces, the second one after the first was served. */
static void take_connection(ko_dyno_registry *r, const uint8_t *data, size_t size)
{
    int ends[2];
    kineto_error refused = {0};
    size_t first = size ? data[0] % size : 0;
    if (size > 4096 ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0)
        return;
    ko_dyno_connection c = {.fd = ends[1]};
    bool goes_on = true;
    for (int piece = 0; piece < 2 && goes_on; piece++) {
        const uint8_t *from = piece ? data + first : data;
        size_t n = piece ? size - first : first;
        if (n && send(ends[0], from, n, MSG_NOSIGNAL) != (ssize_t)n)
            abort();
        goes_on = ko_dyno_connection_serve(&c, r, 4, &refused);
        if (c.body_bytes > size || c.body_room > KB_MAX((size_t)4096, 2 * size))
            abort(); /* more memory than what has come asks for */
    }
    ko_dyno_connection_close(&c);
    close(ends[0]);
}

static void take_address(const uint8_t *data, size_t size)
{
    ko_dyno_address a = {.address.sun_family = AF_UNIX};
    char name[KO_DYNO_NAME_BYTES + 1];
    size_t n = KB_MIN(size, sizeof a.address - sizeof a.address.sun_family);
    memcpy(a.address.sun_path, data, n);
    a.size = (socklen_t)(sizeof a.address.sun_family + n);
    static const char *const directories[] = {NULL, "/tmp", "/"};
    for (size_t i = 0; i < KB_COUNT(directories); i++)
        if (ko_dyno_address_name(&a, directories[i], name) && (!*name || strchr(name, '/')))
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ko_dyno_registry *r = size ? registry_of_some() : NULL;
    if (!r)
        return 0;
    switch (data[0]) {
    case '0':
        take_message(r, data + 1, size - 1);
        break;
    case '1':
        take_answer(data + 1, size - 1);
        break;
    case '2':
        take_request(r, data + 1, size - 1);
        break;
    case '3':
        take_connection(r, data + 1, size - 1);
        break;
    default:
        take_address(data + 1, size - 1);
        break;
    }
    ko_dyno_registry_destroy(r);
    return 0;
}
