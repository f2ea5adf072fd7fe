/* Outputs that the program registered, by protocol (kineto_output_register). The table is guarded
 * by the lock of callback_calls.h, which is released while an output runs. */
#include "ondemand/output/output_impl.h"
#include "ondemand/support/callback_calls.h"

#include <ckineto/control.h>

enum { MAX_OUTPUTS = 16 };

/* A slot is free if it has no output, and no call to its former output is in progress. */
typedef struct registered {
    char protocol[KO_PROTOCOL_BYTES]; /* lower case */
    kineto_output output;
    void *user;
    bool from_requests;
} registered;

static registered table[MAX_OUTPUTS];

static bool is_protocol_char(char c)
{
    return kb_is_lower(c) || kb_is_digit(c) || c == '+' || c == '-' || c == '.';
}

/* Converts to lower case; false: not a valid name. */
static bool normalize_protocol(const char *text, char out[KO_PROTOCOL_BYTES])
{
    size_t n = 0;
    for (; text[n] != '\0'; n++) {
        char c = kb_lower(text[n]);
        if (!is_protocol_char(c) || n + 1 >= KO_PROTOCOL_BYTES)
            return false;
        out[n] = c;
    }
    out[n] = '\0';
    return n > 0;
}

/* Handled in output.c; cannot be registered. */
static bool is_builtin_protocol(const char *protocol)
{
    return strcmp(protocol, "file") == 0 || strcmp(protocol, "fd") == 0 ||
           strcmp(protocol, "exec") == 0;
}

/* With the lock. NULL: not registered. */
static registered *find_output(const char *protocol)
{
    for (size_t i = 0; i < MAX_OUTPUTS; i++)
        if (table[i].output && strcmp(table[i].protocol, protocol) == 0)
            return &table[i];
    return NULL;
}

/* With the lock. NULL: the table is full. */
static registered *find_free_output(void)
{
    for (size_t i = 0; i < MAX_OUTPUTS; i++)
        if (!table[i].output && !ko_calls_any(&table[i]))
            return &table[i];
    return NULL;
}

/* With the lock. */
static kineto_status add_output(const registered *r, kineto_error *err)
{
    if (is_builtin_protocol(r->protocol) || find_output(r->protocol))
        return kb_fail(err, KINETO_E_STATE, "protocol '%s' is already registered", r->protocol);
    registered *place = find_free_output();
    if (!place)
        return kb_fail(err, KINETO_E_LIMIT, "%d protocols are registered already; unregister one",
                       MAX_OUTPUTS);
    KB_ASSERT(!place->output && r->output && r->protocol[0]);
    *place = *r;
    return KINETO_OK;
}

kineto_status kineto_output_register(const char *protocol, kineto_output output, void *user,
                                     bool from_requests, kineto_error *err)
{
    registered r = {.output = output, .user = user, .from_requests = from_requests};
    if (!protocol || !output)
        return kb_fail_null(err, __func__, "protocol, output", protocol, output);
    if (!normalize_protocol(protocol, r.protocol))
        return kb_fail(
            err, KINETO_E_ARGUMENT,
            "invalid protocol '%.64s'; it has up to %u letters, digits, '+', '-' and '.'", protocol,
            KO_PROTOCOL_BYTES - 1);
    ko_calls_lock();
    kineto_status status = add_output(&r, err);
    ko_calls_unlock();
    return status;
}

void kineto_output_unregister(const char *protocol)
{
    char name[KO_PROTOCOL_BYTES];
    if (!protocol || !normalize_protocol(protocol, name))
        return;
    ko_calls_lock();
    registered *place = find_output(name);
    if (place) {
        KB_ASSERT(place->output);
        place->output = NULL;
        ko_calls_wait(place);
    }
    ko_calls_unlock();
}

kineto_status ko_registry_check(const char *protocol, ko_request_source source, kineto_error *err)
{
    ko_calls_lock();
    const registered *r = find_output(protocol);
    bool is_there = r, allowed = r && (r->from_requests || source != KO_FROM_REQUEST);
    ko_calls_unlock();
    if (allowed)
        return KINETO_OK;
    if (is_there)
        return kb_fail(err, KINETO_E_PERMISSION,
                       "protocol '%s' is not open to requests of other processes", protocol);
    return kb_fail(err, source == KO_FROM_REQUEST ? KINETO_E_PERMISSION : KINETO_E_ARGUMENT,
                   "protocol '%s' is not registered in this process (a file of that name is "
                   "./%s:…)",
                   protocol, protocol);
}

/* Fills in what the output's error lacks. */
static void complete_output_error(kineto_error *failure, kineto_status status, const char *protocol)
{
    failure->message[sizeof failure->message - 1] = '\0';
    if (!failure->message[0])
        kb_fail(failure, status, "the output '%s' failed: %s", protocol,
                kineto_status_text(status));
    failure->code = status;
}

kineto_status ko_registry_write(const char *protocol, const kineto_trace *trace, const char *url,
                                kineto_error *err)
{
    ko_call call;
    kineto_error failure = {0};
    ko_calls_lock();
    const registered *place = find_output(protocol);
    registered r = place ? *place : (registered){.output = NULL};
    if (place)
        ko_calls_begin(&call, place);
    ko_calls_unlock();
    if (!place)
        return ko_registry_check(protocol, KO_FROM_ARGUMENT, err);
    kineto_status status = r.output(trace, url, r.user, &failure);
    ko_calls_end(&call);
    if (status != KINETO_OK)
        complete_output_error(&failure, status, protocol);
    if (status != KINETO_OK && err)
        *err = failure;
    return status;
}
