/* Starts and ends the source "energy", and writes what could not be measured into the ledger. */
#include "cli/launch/energy.h"
#include "cli/options.h"
#include "cpu/energy.h"

#define SOURCE "energy"

const char *kc_energy_sysfs(void)
{
    const char *given = kb_setting("CKINETO_SYSFS");
    return given ? given : "/sys";
}

kineto_status kc_energy_parse(kc_energy *e, const char *verb)
{
    const char *text = kb_setting("CKINETO_ENERGY");
    bool is_on = text && strcmp(text, "on") == 0;
    if (text && !is_on && strcmp(text, "off") != 0)
        return kc_usage_error(verb, "CKINETO_ENERGY is on or off, not '%s'", text);
    e->is_wanted |= is_on;
    return KINETO_OK;
}

void kc_energy_start(kc_energy *e, ks_collector *c)
{
    kineto_error err = {0};
    if (e->is_wanted && ku_energy_create(kc_energy_sysfs(), ks_collector_pool(c), &e->source, &err))
        ks_collector_note(c, SOURCE, "not available here", 1, false, err.message);
}

void kc_energy_finish(kc_energy *e, ks_collector *c)
{
    char list[400], detail[500];
    if (!e->source)
        return;
    const ku_energy_counters *counted = ku_energy_finish(e->source);
    uint32_t still = ku_energy_list(counted, false, list, sizeof list);
    snprintf(detail, sizeof detail, "%s did not grow while it was recorded, as in virtual machines", list);
    if (still)
        ks_collector_note(c, SOURCE, "not measured", still, false, detail);
    if (counted->failed_reads)
        ks_collector_note(c, SOURCE, "readings that failed", counted->failed_reads, true,
                          "a counter of energy could not be read");
    ku_energy_destroy(e->source);
    e->source = NULL;
}
