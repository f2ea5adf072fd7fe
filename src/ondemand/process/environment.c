/* Settings from the environment and the configuration file: which listeners this process starts,
 * and its ring. Mistakes are logged and skipped: they must not stop the program. */
#include "ondemand/capture/ring.h"
#include "ondemand/process/process.h"

#include <sys/auxv.h>

#define WORDS "socket, daemon, signal, signal=NAME, file=PATH"

static void warn_bad_word(kineto_string word, const char *why)
{
    kb_log(KINETO_LOG_WARNING, "CKINETO_CONTROL: '%.*s' %s; use " WORDS ", separated by commas",
           (int)word.size, word.data, why);
}

/* "signal=NAME". */
static void read_signal_word(kineto_string word, kineto_string value, ko_settings *s)
{
    char name[32];
    kineto_error why;
    if (value.size >= sizeof name) {
        warn_bad_word(word, "names no signal");
        return;
    }
    memcpy(name, value.data, value.size);
    name[value.size] = 0;
    if (ko_signal_parse(name, &s->options.signal, &why) != KINETO_OK)
        warn_bad_word(word, why.message);
}

/* "file=PATH"; the path may not contain a comma. */
static void read_file_word(kineto_string word, kineto_string value, ko_settings *s)
{
    if (value.size == 0 || value.size >= sizeof s->file) {
        warn_bad_word(word, "names no file");
        return;
    }
    memcpy(s->file, value.data, value.size);
    s->file[value.size] = 0;
    s->options.trigger_file = s->file;
}

/* One word of CKINETO_CONTROL; "1" means socket, "0" is ignored. */
static void read_control_word(kineto_string word, ko_settings *s)
{
    kineto_error none;
    if (kb_string_is_ignoring_case(word, "socket") || kb_string_is_ignoring_case(word, "1"))
        s->options.socket = true;
    else if (kb_string_is_ignoring_case(word, "daemon"))
        s->options.daemon = true;
    else if (kb_string_is_ignoring_case(word, "signal"))
        (void)ko_signal_parse("USR2", &s->options.signal, &none);
    else if (kb_string_starts_with(word, "signal="))
        read_signal_word(word, (kineto_string){word.data + 7, word.size - 7}, s);
    else if (kb_string_starts_with(word, "file="))
        read_file_word(word, (kineto_string){word.data + 5, word.size - 5}, s);
    else if (word.size && !kb_string_is_ignoring_case(word, "0"))
        warn_bad_word(word, "is not known");
}

/* Words are separated by commas, with optional spaces. */
static void read_control_words(const char *list, ko_settings *s)
{
    for (const char *at = list; at; at = strchr(at, ',')) {
        at += *at == ',';
        at += strspn(at, " ");
        size_t size = strcspn(at, ",");
        while (size && at[size - 1] == ' ')
            size--;
        read_control_word((kineto_string){at, size}, s);
    }
}

/* ENABLE_IPC_FABRIC of the file takes precedence; the variable counts with any value, also an empty
 * one. */
static void add_daemon_setting(ko_settings *s)
{
    ko_config_file file;
    ko_request r;
    bool changed;
    ko_request_init(&r);
    ko_config_file_init(&file);
    (void)ko_config_file_load(&file, &r, &changed, NULL); /* the controller will report errors */
    if (r.use_daemon >= 0 ? r.use_daemon == 1 : kb_os_getenv("KINETO_USE_DAEMON") != NULL)
        s->options.daemon = true;
    if (r.poll_interval_ns > 0)
        s->poll_interval_ns = (uint64_t)r.poll_interval_ns;
}

/* An invalid value leaves the ring off. */
static void add_ring_setting(ko_settings *s)
{
    const char *text = kb_setting("CKINETO_RING");
    kineto_error why;
    kineto_control_options options = s->options;
    if (!text)
        return;
    kineto_status status = ko_ring_parse(text, &options, &why);
    if (!status)
        status = ko_ring_check(&options, &why);
    if (!status && options.dump_path && strlen(options.dump_path) >= sizeof s->dump_path)
        status = kb_fail(&why, KINETO_E_ARGUMENT, "ring: the path is too long");
    if (status) {
        kb_log(KINETO_LOG_WARNING, "CKINETO_RING: %s; the ring stays off", why.message);
        return;
    }
    s->options = options;
    ko_settings_own(s);
}

void ko_environment_add(ko_settings *s)
{
    if (getauxval(AT_SECURE))
        return;
    add_daemon_setting(s);
    add_ring_setting(s);
    const char *list = kb_setting("CKINETO_CONTROL");
    if (list)
        read_control_words(list, s);
}
