/* Messages between a process and Dynolog: a head of 40 bytes (8 length, 32 type name), then the
 * payload, all in the byte order of the machine. Received bytes are untrusted: every length is
 * checked before use. */
#include "ondemand/dynolog/dyno.h"

enum { TYPE_AT = 8, TYPE_BYTES = 32, CONTEXT_BYTES = 16, COUNT_BYTES = 4, REQUEST_BYTES = 16 };

static const char *const type_names[] = {[KO_DYNO_CONTEXT] = "ctxt", [KO_DYNO_REQUEST] = "req"};

/* ---- writing --------------------------------------------------------------------------------- */

/* The put_… functions write without bounds checks and return the end; callers check the size first.
 */
static char *put_message_head(char *at, ko_dyno_type type, uint64_t payload_bytes)
{
    KB_ASSERT((size_t)type < KB_COUNT(type_names));
    memset(at, 0, KO_DYNO_HEAD_BYTES);
    memcpy(at, &payload_bytes, sizeof payload_bytes);
    memcpy(at + TYPE_AT, type_names[type], strlen(type_names[type]));
    return at + KO_DYNO_HEAD_BYTES;
}

static char *put_int32(char *at, int32_t value)
{
    memcpy(at, &value, sizeof value);
    return at + sizeof value;
}

static char *put_int64(char *at, int64_t value)
{
    memcpy(at, &value, sizeof value);
    return at + sizeof value;
}

static size_t encode_context(const ko_dyno_message *m, char *out, size_t size)
{
    if (size < KO_DYNO_HEAD_BYTES + CONTEXT_BYTES)
        return 0;
    char *at = put_message_head(out, KO_DYNO_CONTEXT, CONTEXT_BYTES);
    at = put_int32(at, m->gpu);
    at = put_int32(at, m->pid);
    at = put_int64(at, m->job);
    return (size_t)(at - out);
}

static size_t encode_request(const ko_dyno_message *m, char *out, size_t size)
{
    if (m->pid_count < 1 || m->pid_count > KO_DYNO_MAX_PIDS)
        return 0;
    size_t payload = REQUEST_BYTES + m->pid_count * sizeof m->pids[0];
    if (size < KO_DYNO_HEAD_BYTES + payload)
        return 0;
    char *at = put_message_head(out, KO_DYNO_REQUEST, payload);
    at = put_int32(at, m->wants);
    at = put_int32(at, (int32_t)m->pid_count);
    at = put_int64(at, m->job);
    for (uint32_t i = 0; i < m->pid_count; i++)
        at = put_int32(at, m->pids[i]);
    return (size_t)(at - out);
}

size_t ko_dyno_encode(const ko_dyno_message *m, void *out, size_t size)
{
    switch (m->type) {
    case KO_DYNO_CONTEXT:
        return encode_context(m, out, size);
    case KO_DYNO_REQUEST:
        return encode_request(m, out, size);
    }
    return 0;
}

size_t ko_dyno_encode_answer(ko_dyno_type type, kineto_string payload, void *out, size_t size)
{
    if (payload.size > KO_DYNO_MAX_BYTES || size < KO_DYNO_HEAD_BYTES + payload.size)
        return 0;
    if (type != KO_DYNO_REQUEST && (type != KO_DYNO_CONTEXT || payload.size != COUNT_BYTES))
        return 0;
    char *at = put_message_head(out, type, payload.size);
    if (payload.size > 0)
        memcpy(at, payload.data, payload.size);
    return KO_DYNO_HEAD_BYTES + payload.size;
}

/* ---- reading --------------------------------------------------------------------------------- */

static bool refuse_message(const char **why, const char *text)
{
    if (why)
        *why = text;
    return false;
}

static int32_t get_int32(const char *at)
{
    int32_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

static int64_t get_int64(const char *at)
{
    int64_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

/* Compares the whole name with its NUL; Dynolog compares only a prefix. */
static bool decode_type(const char *at, ko_dyno_type *type)
{
    for (size_t i = 0; i < KB_COUNT(type_names); i++) {
        if (memcmp(at, type_names[i], strlen(type_names[i]) + 1) == 0) {
            *type = (ko_dyno_type)i;
            return true;
        }
    }
    return false;
}

/* Checks the announced length against the received one. */
static bool read_message_head(const char *data, size_t size, ko_dyno_type *type,
                              kineto_string *payload, const char **why)
{
    uint64_t claimed;
    if (size == 0)
        return refuse_message(why, "empty message");
    if (size < KO_DYNO_HEAD_BYTES)
        return refuse_message(why, "message is shorter than its head");
    memcpy(&claimed, data, sizeof claimed);
    if (claimed > KO_DYNO_MAX_BYTES)
        return refuse_message(why, "message is too large");
    if (claimed != size - KO_DYNO_HEAD_BYTES)
        return refuse_message(why, "message is not as long as it says");
    if (!decode_type(data + TYPE_AT, type))
        return refuse_message(why, "message of an unknown type");
    *payload = (kineto_string){data + KO_DYNO_HEAD_BYTES, (size_t)claimed};
    return true;
}

static bool decode_context(kineto_string payload, ko_dyno_message *out, const char **why)
{
    if (payload.size != CONTEXT_BYTES)
        return refuse_message(why, "context is not 16 bytes long");
    *out = (ko_dyno_message){.type = KO_DYNO_CONTEXT,
                             .gpu = get_int32(payload.data),
                             .pid = get_int32(payload.data + 4),
                             .job = get_int64(payload.data + 8)};
    return true;
}

/* Checks the number of pids against the payload's size before copying them. */
static bool decode_request(kineto_string payload, ko_dyno_message *out, const char **why)
{
    if (payload.size < REQUEST_BYTES)
        return refuse_message(why, "request is too short");
    int32_t count = get_int32(payload.data + 4);
    if (count < 1)
        return refuse_message(why, "request of no process");
    if ((uint32_t)count > KO_DYNO_MAX_PIDS)
        return refuse_message(why, "request of too many processes");
    if (payload.size != REQUEST_BYTES + (size_t)count * sizeof out->pids[0])
        return refuse_message(why, "request has not as many processes as it says");
    *out = (ko_dyno_message){.type = KO_DYNO_REQUEST,
                             .wants = get_int32(payload.data),
                             .job = get_int64(payload.data + 8),
                             .pid_count = (uint32_t)count};
    memcpy(out->pids, payload.data + REQUEST_BYTES, (size_t)count * sizeof out->pids[0]);
    return true;
}

bool ko_dyno_decode(const void *data, size_t size, ko_dyno_message *out, const char **why)
{
    ko_dyno_type type;
    kineto_string payload;
    if (!read_message_head(data, size, &type, &payload, why))
        return false;
    return type == KO_DYNO_CONTEXT ? decode_context(payload, out, why)
                                   : decode_request(payload, out, why);
}

bool ko_dyno_decode_answer(const void *data, size_t size, ko_dyno_type *type, kineto_string *payload,
                         const char **why)
{
    ko_dyno_type read_as;
    kineto_string bytes;
    if (!read_message_head(data, size, &read_as, &bytes, why))
        return false;
    if (read_as == KO_DYNO_CONTEXT && bytes.size != COUNT_BYTES)
        return refuse_message(why, "count is not 4 bytes long");
    *type = read_as;
    *payload = bytes;
    return true;
}
