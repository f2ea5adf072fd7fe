/* Plug-ins of a program that is about to be recorded: only those that a probe has loaded get into
 * the program. The others are reported and noted in the ledger. A plug-in that the user named must
 * work, or the program is not started. */
#include "cli/launch/plugins.h"
#include "record/record.h"

/* Given plug-ins first: they have precedence over the same file in a directory. */
kineto_status kc_plugins_for_record(kc_plugins *p, const kc_texts *given, bool only_given,
                                    kineto_error *err)
{
    kineto_status status = KINETO_OK;
    for (size_t i = 0; i < given->count && status == KINETO_OK; i++)
        status = kc_plugins_add_file(p, given->data[i], KC_PLUGIN_GIVEN, err);
    if (status == KINETO_OK && !only_given)
        status = kc_plugins_add_default(p, err);
    if (status == KINETO_OK)
        status = kc_plugins_probe(p, KC_PLUGIN_TIMEOUT_MS, err);
    for (size_t i = 0; i < p->list.count && status == KINETO_OK; i++) {
        const kc_plugin_file *plugin = &p->list.data[i];
        if (plugin->origin == KC_PLUGIN_GIVEN && kc_plugin_failed(plugin))
            status = kb_fail(err, KINETO_E_PLUGIN, "--plugin %s: %s: %s", plugin->path,
                             kc_plugin_state_name(plugin->state), plugin->reason);
    }
    return status;
}

/* The table of own kinds is limited; what exceeds it is reported. */
void kc_plugins_announce(const kc_plugins *p)
{
    for (size_t i = 0; i < p->list.count; i++) {
        const kc_plugin_file *plugin = &p->list.data[i];
        for (uint32_t k = 0; k < plugin->own_count && plugin->state == KC_PLUGIN_LOADED; k++) {
            const kf_own_kind *own = &plugin->own[k];
            if (!kineto_rt_own_kind(own->name, own->like, own->by_default))
                kb_log(KINETO_LOG_WARNING, "%s: too many kinds: %s is not recorded", plugin->path,
                       own->name);
        }
    }
}

/* The union over all profilers of loaded plug-ins. */
uint64_t kc_plugins_kinds(const kc_plugins *p)
{
    uint64_t kinds = 0;
    for (size_t i = 0; i < p->list.count; i++) {
        const kc_plugin_file *plugin = &p->list.data[i];
        for (size_t k = 0; k < plugin->profilers.count && plugin->state == KC_PLUGIN_LOADED; k++)
            for (uint32_t n = 0; n < plugin->profilers.data[k].type_count; n++)
                if (plugin->profilers.data[k].types[n].kind < KINETO_KIND_COUNT)
                    kinds |= KINETO_KIND_BIT(plugin->profilers.data[k].types[n].kind);
    }
    return kinds;
}

/* For the message about an unknown kind. */
void kc_plugins_own_names(const kc_plugins *p, char *buf, size_t size)
{
    size_t used = 0;
    buf[0] = 0;
    for (size_t i = 0; i < p->list.count; i++)
        for (uint32_t k = 0; k < p->list.data[i].own_count && used < size; k++)
            used += (size_t)snprintf(buf + used, size - used, "%s%s", used ? ", " : "",
                                     p->list.data[i].own[k].name);
}

/* One line for each loaded plug-in; a path cannot contain a line break. */
char *kc_plugins_environment(const kc_plugins *p)
{
    size_t size = 1, used = 0;
    for (size_t i = 0; i < p->list.count; i++)
        size += strlen(p->list.data[i].path) + sizeof p->list.data[i].revision + 8;
    char *text = calloc(1, size);
    for (size_t i = 0; i < p->list.count && text; i++) {
        const kc_plugin_file *plugin = &p->list.data[i];
        if (plugin->state != KC_PLUGIN_LOADED)
            continue;
        used +=
            (size_t)snprintf(text + used, size - used, "%s%s%s%s", used ? "\n" : "", plugin->path,
                             plugin->revision[0] ? ",rev=" : "", plugin->revision);
    }
    return text;
}

/* Skipped files are logged at a lower level, because a directory of plug-ins may contain other
 * libraries. */
void kc_plugins_report(const kc_plugins *p, kc_entry_note *note, void *context)
{
    char detail[1024];
    for (size_t i = 0; i < p->list.count; i++) {
        const kc_plugin_file *plugin = &p->list.data[i];
        if (plugin->state == KC_PLUGIN_LOADED || plugin->state == KC_PLUGIN_REPEATED)
            continue;
        snprintf(detail, sizeof detail, "%.500s: %s", plugin->path, plugin->reason);
        /* A directory of plug-ins may contain the libraries that they depend on. */
        kb_log(plugin->state == KC_PLUGIN_SKIPPED ? KINETO_LOG_INFO : KINETO_LOG_WARNING,
               "plug-in not loaded: %s", detail);
        note(context, "plug-ins", kc_plugin_state_name(plugin->state), detail);
    }
}
