/* What processes and commands say to each other over control sockets, and the lists of CKINETO_RING
 * and CKINETO_CONTROL: any bytes are read, or refused with a word.
 *
 * The first byte says what the rest is: '0' a packet, '1' CKINETO_RING, '2' CKINETO_CONTROL, '3'
 * the address of a daemon, else a URL for output. */
#include "ondemand/process/process.h"
#include "ondemand/wire/control_wire.h"
#include "ondemand/capture/ring.h"
#include "ondemand/dynolog/rpc_client.h"
#include "read.h"

#include <string.h>

/* What is put into a packet comes out of it. */
static void write_again(const char *key, kineto_string value)
{
    char text[512], back[512];
    ko_packet p;
    ko_packet_view view;
    kineto_string lines, k, v;
    const char *why = NULL;
    ko_packet_unescape(value, text, sizeof text);
    fuzz_check(memchr(text, 0, sizeof text) != NULL, "a text without an end");
    ko_packet_begin(&p, "status");
    ko_packet_put(&p, key, text);
    fuzz_check(p.bytes <= sizeof p.data, "a packet beyond its end");
    fuzz_check(ko_packet_read(p.data, p.bytes, &view, &why), "our own packet is none");
    lines = view.lines;
    fuzz_check(ko_packet_next(&lines, &k, &v) && kb_string_equal(k, kb_string("v")), "no version");
    fuzz_check(ko_packet_next(&lines, &k, &v) && kb_string_equal(k, kb_string(key)), "a lost line");
    ko_packet_unescape(v, back, sizeof back);
    fuzz_check(strcmp(back, text) == 0, "a text that comes back otherwise");
}

static void take_packet(const char *data, size_t size)
{
    ko_packet_view view;
    kineto_string key, value;
    const char *why = NULL;
    int64_t number;
    if (!ko_packet_read(data, size, &view, &why)) {
        fuzz_check(why != NULL, "refused without a word");
        return;
    }
    fuzz_check(memchr(view.verb, 0, sizeof view.verb) != NULL, "a verb without an end");
    fuzz_check(view.text.size <= size, "a text longer than the packet");
    while (ko_packet_next(&view.lines, &key, &value)) {
        (void)ko_packet_number(value, &number);
        write_again("key", value);
    }
}

static void take_ring(const char *text)
{
    kineto_control_options o, before;
    kineto_error err = {.message = ""};
    memset(&o, 0, sizeof o);
    o.size = sizeof o;
    before = o;
    if (ko_ring_parse(text, &o, &err) != KINETO_OK) {
        fuzz_check(err.message[0], "refused without a word");
        fuzz_check(memcmp(&o, &before, sizeof o) == 0, "a refused text changed something");
    } else if (ko_ring_check(&o, &err) != KINETO_OK)
        fuzz_check(err.message[0], "refused without a word");
}

/* Not setenv: libc keeps every value that it ever copied, and millions come by. */
static void take_list(const char *text)
{
    static char variable[64 << 10];
    ko_settings s;
    int bytes = snprintf(variable, sizeof variable, "CKINETO_CONTROL=%s", text);
    if (bytes < 0 || (size_t)bytes >= sizeof variable || putenv(variable))
        return;
    memset(&s, 0, sizeof s);
    s.options.size = sizeof s.options;
    ko_environment_add(&s);
    (void)unsetenv("CKINETO_CONTROL");
}

static void take_address(const char *text)
{
    ko_rpc_daemon d;
    kineto_error err = {.message = ""};
    memset(&d, 0, sizeof d);
    if (ko_rpc_parse_address(text, &d, &err) != KINETO_OK)
        fuzz_check(err.message[0], "refused without a word");
    else
        fuzz_check(memchr(d.host, 0, sizeof d.host) != NULL, "a host without an end");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    (void)kb_log_configure(KINETO_LOG_ERROR, NULL, NULL); /* what is left out is warned of */
    char *text = malloc(size);                            /* its end is watched */
    if (!text)
        return 0;
    memcpy(text, data + 1, size - 1);
    if (data[0] == '0') {
        char *exact = malloc(size - 1 ? size - 1 : 1);
        if (exact)
            take_packet(memcpy(exact, text, size - 1), size - 1);
        free(exact);
    }
    text[size - 1] = 0;
    if (data[0] == '1')
        take_ring(text);
    else if (data[0] == '2')
        take_list(text);
    else if (data[0] == '3')
        take_address(text);
    else if (data[0] != '0') {
        char out[KO_REQUEST_PATH_BYTES];
        kineto_error err = {.message = ""};
        if (ko_request_output_url(text, 4242, out, &err) != KINETO_OK)
            fuzz_check(err.message[0], "refused without a word");
    }
    free(text);
    return 0;
}
