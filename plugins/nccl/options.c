/* The user's options "nccl.name=on|off", separated by blanks: from CKINETO_NCCL, then from the text for plug-ins. */
#include "nccl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    size_t at;
} nccl_options[] = {
    {"channels", offsetof(nc_options, channels)}, {"proxy", offsetof(nc_options, proxy)},
    {"steps", offsetof(nc_options, steps)},       {"net", offsetof(nc_options, net)},
    {"copies", offsetof(nc_options, copies)},
};

static bool read_switch(const char *value, bool *out)
{
    bool on = strcmp(value, "1") == 0 || strcmp(value, "on") == 0 || strcmp(value, "yes") == 0;
    bool off = strcmp(value, "0") == 0 || strcmp(value, "off") == 0 || strcmp(value, "no") == 0;
    *out = on;
    return on || off;
}

/* False: `why` names what is valid. */
static bool set_nccl_option(const char *name, const char *value, nc_options *o, char *why)
{
    for (size_t i = 0; i < NC_COUNT(nccl_options); i++) {
        if (strcmp(name, nccl_options[i].name) != 0)
            continue;
        if (read_switch(value, (bool *)((char *)o + nccl_options[i].at)))
            return true;
        snprintf(why, NC_TEXT_BYTES, "nccl.%.40s=%.60s: invalid value; use on or off", name, value);
        return false;
    }
    size_t n = (size_t)snprintf(why, NC_TEXT_BYTES, "unknown option nccl.%.40s; use one of", name);
    for (size_t i = 0; i < NC_COUNT(nccl_options) && n < NC_TEXT_BYTES; i++)
        n += (size_t)snprintf(why + n, NC_TEXT_BYTES - n, "%s nccl.%s", i ? "," : "", nccl_options[i].name);
    return false;
}

/* Words that do not begin with "nccl." are for other plug-ins. */
static bool read_text(const char *text, nc_options *o, char *why)
{
    static const char prefix[] = "nccl.", blanks[] = " \t\r\n;";
    char word[128];
    for (const char *at = text + strspn(text, blanks); *at; at += strspn(at, blanks)) {
        size_t size = strcspn(at, blanks);
        if (strncmp(at, prefix, sizeof prefix - 1) == 0) {
            snprintf(word, sizeof word, "%.*s", (int)(size < sizeof word ? size : sizeof word - 1), at);
            char *value = strchr(word, '=');
            if (value)
                *value++ = '\0';
            if (!set_nccl_option(word + sizeof prefix - 1, value ? value : "", o, why))
                return false;
        }
        at += size;
    }
    return true;
}

/* What costs NCCL more than a call for each launch is off: operations of the proxy and their steps. */
bool nc_options_read(const char *text, nc_options *out, char why[NC_TEXT_BYTES])
{
    const char *own = secure_getenv("CKINETO_NCCL");
    *out = (nc_options){.channels = true, .copies = true};
    return (!own || read_text(own, out, why)) && (!text || read_text(text, out, why));
}
