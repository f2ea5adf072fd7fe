/* Options of a plug-in as the user writes them: words "prefix.name=value", separated by blanks. */
#include "support.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool cp_parse_number(const char *value, uint64_t limit, uint64_t *out)
{
    char *end;
    errno = 0;
    unsigned long long n = strtoull(value, &end, 10);
    if (end == value || *value == '-' || errno || n > limit)
        return false;
    static const struct {
        const char *name;
        unsigned shift;
    } units[] = {{"", 0}, {"KiB", 10}, {"MiB", 20}, {"GiB", 30}};
    for (size_t i = 0; i < CP_COUNT(units); i++)
        if (strcmp(end, units[i].name) == 0 && n <= limit >> units[i].shift) {
            *out = n << units[i].shift;
            return true;
        }
    return false;
}

bool cp_parse_switch(const char *value, bool *out)
{
    bool on = strcmp(value, "1") == 0 || strcmp(value, "on") == 0 || strcmp(value, "yes") == 0;
    bool off = strcmp(value, "0") == 0 || strcmp(value, "off") == 0 || strcmp(value, "no") == 0;
    *out = on;
    return on || off;
}

/* Sets one option. False: `why` has the valid names or values. */
static bool set_option(const cp_option_table *t, void *options, const char *name, const char *value,
                       char why[CP_TEXT_BYTES])
{
    for (size_t i = 0; i < t->count; i++) {
        if (strcmp(name, t->list[i].name) != 0)
            continue;
        if (t->list[i].set(options, value))
            return true;
        snprintf(why, CP_TEXT_BYTES, "%s%.40s=%.60s: invalid value; use %.160s", t->prefix, name,
                 value, t->list[i].wanted);
        return false;
    }
    size_t n = (size_t)snprintf(why, CP_TEXT_BYTES, "unknown option %s%.40s; use one of", t->prefix,
                                name);
    for (size_t i = 0; i < t->count && n < CP_TEXT_BYTES; i++)
        n += (size_t)snprintf(why + n, CP_TEXT_BYTES - n, "%s %s%s", i ? "," : "", t->prefix,
                              t->list[i].name);
    return false;
}

/* Sets the option of one word of ours, without its prefix. */
static bool parse_word(const char *at, size_t size, const cp_option_table *t, void *options,
                       char why[CP_TEXT_BYTES])
{
    char word[640];
    if (size >= sizeof word) {
        snprintf(why, CP_TEXT_BYTES, "%.40s…: longer than %zu characters", at, sizeof word - 1);
        return false;
    }
    memcpy(word, at, size);
    word[size] = '\0';
    char *value = strchr(word, '=');
    if (value)
        *value++ = '\0';
    return set_option(t, options, word + strlen(t->prefix), value ? value : "", why);
}

bool cp_parse_options(const char *text, const cp_option_table *table, void *options,
                      char why[CP_TEXT_BYTES])
{
    static const char blanks[] = " \t\r\n;";
    for (const char *at = text + strspn(text, blanks); *at; at += strspn(at, blanks)) {
        size_t size = strcspn(at, blanks);
        if (strncmp(at, table->prefix, strlen(table->prefix)) == 0 &&
            !parse_word(at, size, table, options, why))
            return false;
        at += size;
    }
    return true;
}
