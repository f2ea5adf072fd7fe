/* The script: a text file, a statement a line; README.md lists them. */
#include "standin.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

si_script si_plan;
static const char *path;
static unsigned line_number;

static _Noreturn void mistake(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    fprintf(stderr, "stand-in: %s:%u: ", path ? path : "script", line_number);
    vfprintf(stderr, format, list);
    fputc('\n', stderr);
    va_end(list);
    _exit(98);
}

static void *grow(void *list, size_t count, size_t size)
{
    if (count && (count & (count - 1)))
        return list; /* doubled at powers of two */
    list = realloc(list, (count ? count * 2 : 1) * size);
    if (!list)
        mistake("out of memory");
    return list;
}

/* The next word, its quotes and escapes resolved, at *at; NULL: the line ends. Changes the line. */
static char *word(char **at)
{
    char *from = *at + strspn(*at, " \t"), *to = from, *begin = from;
    bool quoted = false;
    if (!*from || (*from == '#' && !quoted))
        return NULL;
    for (; *from && (quoted || !strchr(" \t", *from)); from++) {
        if (*from == '"')
            quoted = !quoted;
        else if (*from == '\\' && from[1])
            *to++ = *++from;
        else
            *to++ = *from;
    }
    if (quoted)
        mistake("no closing quote");
    *at = *from ? from + 1 : from;
    *to = 0;
    return begin;
}

static char *need_word(char **at, const char *what)
{
    char *w = word(at);
    if (!w)
        mistake("%s is missing", what);
    return w;
}

static uint64_t number(const char *text)
{
    char *end;
    errno = 0;
    uint64_t value = *text == '-' ? (uint64_t)strtoll(text, &end, 0) : strtoull(text, &end, 0);
    if (end == text || *end || errno)
        mistake("'%s' is not a number", text);
    return value;
}

/* ---- devices -------------------------------------------------------------------------------- */

static const struct {
    const char *word;
    si_device device;
} presets[] = {
    {"h100",
     {"NVIDIA H100 80GB HBM3", UINT64_C(85028896768), 9, 0, 132, 32, 2048, 32, 65536, 65536, 233472,
      49152, 232448, 1024, 1024}},
    {"a100",
     {"NVIDIA A100-SXM4-80GB", UINT64_C(85097971712), 8, 0, 108, 32, 2048, 32, 65536, 65536, 167936,
      49152, 166912, 1024, 1024}},
    {"v100",
     {"Tesla V100-SXM2-16GB", UINT64_C(16945512448), 7, 0, 80, 32, 2048, 32, 65536, 65536, 98304,
      49152, 98304, 0, 1024}},
    {"t4",
     {"Tesla T4", UINT64_C(15843721216), 7, 5, 40, 32, 1024, 16, 65536, 65536, 65536, 49152, 65536,
      0, 1024}},
    {"mig",
     {"NVIDIA A100-SXM4-40GB MIG 1g.5gb", UINT64_C(5100273664), 8, 0, 14, 32, 2048, 32, 65536,
      65536, 167936, 49152, 166912, 1024, 1024}},
};

static const struct {
    const char *word;
    size_t offset;
} device_values[] = {
    {"major", offsetof(si_device, major)},
    {"minor", offsetof(si_device, minor)},
    {"sm", offsetof(si_device, sm_count)},
    {"warp", offsetof(si_device, warp_size)},
    {"threads_per_sm", offsetof(si_device, threads_per_sm)},
    {"blocks_per_sm", offsetof(si_device, blocks_per_sm)},
    {"registers_per_sm", offsetof(si_device, registers_per_sm)},
    {"registers_per_block", offsetof(si_device, registers_per_block)},
    {"shared_per_sm", offsetof(si_device, shared_per_sm)},
    {"shared_per_block", offsetof(si_device, shared_per_block)},
    {"shared_optin", offsetof(si_device, shared_optin)},
    {"shared_reserved", offsetof(si_device, shared_reserved)},
    {"threads_per_block", offsetof(si_device, threads_per_block)},
};

static void device_value(si_device *d, const char *key, const char *value)
{
    if (strcmp(key, "name") == 0) {
        snprintf(d->name, sizeof d->name, "%s", value);
        return;
    }
    if (strcmp(key, "memory") == 0) {
        d->memory = number(value);
        return;
    }
    for (size_t i = 0; i < SI_COUNT(device_values); i++) {
        if (strcmp(device_values[i].word, key) == 0) {
            int32_t n = (int32_t)number(value);
            memcpy((char *)d + device_values[i].offset, &n, sizeof n);
            return;
        }
    }
    mistake("a device has no '%s'", key);
}

static char *split(char *text)
{
    char *equals = strchr(text, '=');
    if (!equals)
        mistake("'%s': KEY=VALUE is wanted", text);
    *equals = 0;
    return equals + 1;
}

static void add_device(char *at)
{
    const char *preset = need_word(&at, "the kind of device");
    size_t i = 0;
    while (i < SI_COUNT(presets) && strcmp(presets[i].word, preset) != 0)
        i++;
    if (i == SI_COUNT(presets) || si_plan.device_count == SI_MAX_DEVICES)
        mistake("device '%s' is not known, or is one too many", preset);
    si_device *d = &si_plan.devices[si_plan.device_count++];
    *d = presets[i].device;
    for (char *w; (w = word(&at));) {
        const char *value = split(w);
        device_value(d, w, value);
    }
}

/* ---- what fails, what is slow --------------------------------------------------------------- */

static void calls(si_rule *r, char *text)
{
    char *dash = strchr(text, '-');
    r->first = 1;
    r->last = UINT32_MAX;
    if (strcmp(text, "*") == 0)
        return;
    if (dash)
        *dash = 0;
    r->first = (uint32_t)number(text);
    if (!dash)
        r->last = r->first;
    else if (dash[1])
        r->last = (uint32_t)number(dash + 1);
}

static si_rule *add_rule(char **at)
{
    si_plan.rules = grow(si_plan.rules, si_plan.rule_count, sizeof *si_plan.rules);
    si_rule *r = &si_plan.rules[si_plan.rule_count++];
    *r = (si_rule){0};
    snprintf(r->function, sizeof r->function, "%s", need_word(at, "the function"));
    calls(r, need_word(at, "which calls"));
    return r;
}

static void fail_line(char *at)
{
    si_rule *r = add_rule(&at);
    r->code = (int32_t)number(need_word(&at, "the error's number"));
}

static void slow_line(char *at)
{
    si_rule *r = add_rule(&at);
    r->slow_us = (uint32_t)number(need_word(&at, "microseconds"));
}

static void callback_line(char *at)
{
    uint32_t domain = (uint32_t)number(need_word(&at, "the domain"));
    uint32_t id = (uint32_t)number(need_word(&at, "the id"));
    char *name = strdup(need_word(&at, "the name"));
    if (!name)
        mistake("out of memory");
    si_callback_add(domain, id, name);
}

/* ---- records -------------------------------------------------------------------------------- */

static si_item *add_item(int what)
{
    si_plan.items = grow(si_plan.items, si_plan.item_count, sizeof *si_plan.items);
    si_item *item = &si_plan.items[si_plan.item_count++];
    *item = (si_item){.what = what};
    return item;
}

static uint32_t usual_kind(const char *layout)
{
    static const struct {
        const char *prefix;
        uint32_t kind;
    } kinds[] = {{"Kernel", 10},
                 {"MemcpyPtoP", 22},
                 {"Memcpy", 1},
                 {"Memset", 2},
                 {"API", 5},
                 {"MemoryPool", 50},
                 {"Memory", 49},
                 {"Overhead", 17},
                 {"CudaEvent", 36},
                 {"Stream", 37},
                 {"Synchronization", 38},
                 {"ExternalCorrelation", 39},
                 {"GraphTrace", 51},
                 {"Device", 8},
                 {"Context", 9}};
    for (size_t i = 0; i < SI_COUNT(kinds); i++)
        if (strncmp(layout, kinds[i].prefix, strlen(kinds[i].prefix)) == 0)
            return kinds[i].kind;
    return 0;
}

static bool is_time(const si_field *f)
{
    static const char *const names[] = {"start",     "end",       "timestamp",      "queued",
                                        "submitted", "completed", "deviceTimestamp"};
    for (size_t i = 0; i < SI_COUNT(names); i++)
        if (f->size == 8 && strcmp(f->name, names[i]) == 0)
            return true;
    return false;
}

/* Times count from the start of the replay; 0 stays 0, and raw:N stays N. */
static uint64_t time_value(si_item *item, const si_field *f, const char *text)
{
    if (strncmp(text, "raw:", 4) == 0)
        return number(text + 4);
    uint64_t value = number(text);
    if (!value)
        return 0;
    item->times |= UINT64_C(1) << (f->offset / 8);
    if (!si_plan.first_ns || value < si_plan.first_ns)
        si_plan.first_ns = value;
    if (value > si_plan.last_ns)
        si_plan.last_ns = value;
    return value;
}

/* Names of kernels repeat in a row and among each other: kept once where that is easily seen. */
static const char *kept_text(const char *text)
{
    static const char *last[256];
    unsigned slot = (unsigned)strlen(text) * 31 + (unsigned char)*text;
    for (const char *c = text; *c; c++)
        slot = slot * 33 + (unsigned char)*c;
    slot %= SI_COUNT(last);
    if (!last[slot] || strcmp(last[slot], text) != 0)
        last[slot] = strdup(text);
    if (!last[slot])
        mistake("out of memory");
    return last[slot];
}

static uint64_t field_value(si_item *item, const si_field *f, const char *text)
{
    if (f->is_text)
        return strcmp(text, "null") == 0 ? 0 : (uint64_t)(uintptr_t)kept_text(text);
    if (strcmp(text, "self") == 0)
        return (uint64_t)getpid();
    return is_time(f) ? time_value(item, f, text) : number(text);
}

static void record_line(char *at)
{
    const char *name = need_word(&at, "the record's layout");
    const si_layout *layout = si_layout_of(name);
    if (!layout)
        mistake("no record is called '%s'", name);
    si_item *item = add_item(SI_ITEM_RECORD);
    item->size = layout->size;
    item->bytes = calloc(1, layout->size);
    if (!item->bytes)
        mistake("out of memory");
    si_set(item->bytes, layout, "kind", usual_kind(name));
    si_set(item->bytes, layout, "processId", (uint64_t)getpid());
    for (char *w; (w = word(&at));) {
        const char *value = split(w);
        const si_field *f = si_field_of(layout, w);
        if (!f)
            mistake("%s has no '%s'", name, w);
        si_set(item->bytes, layout, w, field_value(item, f, value));
    }
}

static void bytes_line(char *at)
{
    si_item *item = add_item(SI_ITEM_BYTES);
    item->bytes = calloc(1, SI_MAX_RECORD);
    for (char *w; item->bytes && (w = word(&at));) {
        for (unsigned byte; *w && item->size < SI_MAX_RECORD; w += w[1] ? 2 : 1) {
            if (sscanf(w, "%2x", &byte) != 1)
                mistake("'%s' is not hexadecimal", w);
            item->bytes[item->size++] = (uint8_t)byte;
        }
    }
}

static void replay_line(char *at)
{
    si_options *o = &si_plan.options;
    const char *w = need_word(&at, "what of the replay");
    if (strcmp(w, "at") == 0) {
        snprintf(o->replay_at, sizeof o->replay_at, "%s", need_word(&at, "the function"));
        o->replay_call = (uint32_t)number(need_word(&at, "which call"));
    } else if (strcmp(w, "times") == 0) {
        o->replay_times = (uint32_t)number(need_word(&at, "how often"));
    } else if (strcmp(w, "anchor") == 0) {
        const char *where = need_word(&at, "end, begin or none");
        o->replay_anchor = *where == 'b'   ? SI_ANCHOR_BEGIN
                           : *where == 'n' ? SI_ANCHOR_NONE
                                           : SI_ANCHOR_END;
    } else {
        mistake("'replay %s' is not known", w);
    }
}

/* ---- lines ---------------------------------------------------------------------------------- */

#define OPTION(word, member)                                                                       \
    {                                                                                              \
        word, offsetof(si_options, member), sizeof(((si_options *)0)->member)                      \
    }
static const struct {
    const char *word;
    size_t offset, size;
} options[] = {
    OPTION("version", version),
    OPTION("driver", driver_version),
    OPTION("runtime", runtime_version),
    OPTION("correlation", correlation),
    OPTION("latency_ns", latency_ns),
    OPTION("kernel_ns", kernel_ns),
    OPTION("copy_ns", copy_ns),
    OPTION("skew_ns", skew_ns),
    OPTION("own_clock", own_clock),
    OPTION("fill", fill),
    OPTION("empty_every", empty_every),
    OPTION("shuffle", shuffle_seed),
    OPTION("hand_back_us", hand_back_us),
    OPTION("complete_slow_us", complete_slow_us),
    OPTION("overhead_every", overhead_every),
};

static bool option_line(const char *key, char *at)
{
    for (size_t i = 0; i < SI_COUNT(options); i++) {
        if (strcmp(options[i].word, key) == 0) {
            uint64_t value = number(need_word(&at, "a number"));
            memcpy((char *)&si_plan.options + options[i].offset, &value, options[i].size);
            return true;
        }
    }
    return false;
}

static void drop_line(char *at)
{
    uint32_t count = (uint32_t)number(need_word(&at, "how many"));
    add_item(SI_ITEM_DROP)->size = count;
}
static void buffer_line(char *at) { (void)at, add_item(SI_ITEM_BUFFER); }
static void empty_line(char *at) { (void)at, add_item(SI_ITEM_EMPTY); }

static const struct {
    const char *word;
    void (*read)(char *at);
} statements[] = {
    {"device", add_device},      {"fail", fail_line},     {"slow", slow_line},
    {"callback", callback_line}, {"record", record_line}, {"bytes", bytes_line},
    {"replay", replay_line},     {"drop", drop_line},     {"buffer", buffer_line},
    {"empty", empty_line},
};

static void read_line(char *line)
{
    line[strcspn(line, "\r\n")] = 0;
    const char *key = word(&line);
    if (!key || option_line(key, line))
        return;
    for (size_t i = 0; i < SI_COUNT(statements); i++) {
        if (strcmp(statements[i].word, key) == 0) {
            statements[i].read(line);
            return;
        }
    }
    mistake("'%s' is not known", key);
}

static void read_file(FILE *file)
{
    char *line = NULL;
    size_t size = 0;
    while (getline(&line, &size, file) >= 0) {
        line_number++;
        read_line(line);
    }
    free(line);
}

void si_script_load(void)
{
    uint32_t version = si_layouts_version();
    bool new = SI_MAJOR == 13;
    si_plan.options = (si_options){.version = new == (version > 1000) ? version
                                              : new                   ? 130202
                                                                      : 22,
                                   .driver_version = new ? 13020 : 12040,
                                   .runtime_version = new ? 13020 : 12040,
                                   .correlation = 1,
                                   .latency_ns = 3000,
                                   .kernel_ns = 20000,
                                   .copy_ns = 10000,
                                   .replay_times = 1,
                                   .replay_at = "cudaDeviceSynchronize",
                                   .replay_call = 1};
    path = getenv("CKINETO_STANDIN");
    FILE *file = path && *path ? fopen(path, "re") : NULL;
    if (path && *path && !file)
        mistake("cannot be read: %s", strerror(errno));
    if (file) {
        read_file(file);
        fclose(file);
    }
    if (!si_plan.device_count) {
        char h100[] = "h100";
        add_device(h100);
    }
}
