/* The option --waits of record: its threshold. The library is preloaded by environment.c. */
#include "cli/launch/waits.h"

#include <inttypes.h>

#define MAX_THRESHOLD_US (UINT64_C(3600) * 1000000)

kineto_status kc_waits_parse(kc_waits *w, const char *verb)
{
    const char *text = w->option.text;
    char *end;
    if (!text)
        return KINETO_OK;
    w->threshold_us = strtoull(text, &end, 10);
    if (!kb_is_digit(text[0]) || *end || w->threshold_us > MAX_THRESHOLD_US)
        return kc_usage_error(verb, "--waits is a number of microseconds from 0 to %" PRIu64
                                    ", not '%s'",
                              MAX_THRESHOLD_US, text);
    return KINETO_OK;
}

void kc_waits_note(const kc_waits *w, ks_collector *c)
{
    char number[32];
    snprintf(number, sizeof number, "%" PRIu64, w->threshold_us);
    if (w->option.given)
        ks_collector_metadata(c, "ckineto_waits_threshold_us", number);
}
