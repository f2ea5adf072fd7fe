/* Probing plug-ins: each is loaded in a process of its own by the same loader that programs use,
 * and the child sends a description. The plug-in may have corrupted the child, so nothing in the
 * description is trusted. */
#include "cli/launch/plugins.h"
#include "plugincheck/isolate.h"
#include "record/record.h"

#include <sys/stat.h>

/* The data of the child: a load_answer, then a profiler_description for each profiler. */
typedef struct load_answer {
    /* of kineto_plugin_load */
    int32_t status;
    char message[sizeof(((kineto_error *)0)->message)];
    kf_own_kind own[KINETO_KIND_OWN_COUNT];
} load_answer;

typedef struct profiler_description {
    kineto_plugin_info info;
    char names[KINETO_PLUGIN_MAX_TYPES][KF_OWN_NAME]; /* of its types */
} profiler_description;

/* ---- in the child ---------------------------------------------------------------------------- */

/* The early revision numbers two kinds differently. Returns the present number. */
static int32_t map_early_number(const char *revision, int32_t number)
{
    bool early = strcmp(revision, "early") == 0;
    if (early && number == 13)
        return KINETO_PLUGIN_PROFILE_EVENT_TYPE_CUDA_SYNC;
    if (early && number == 14)
        return KINETO_PLUGIN_PROFILE_EVENT_TYPE_GPU_PM_COUNTER;
    return number;
}

/* Fill the description of the loaded profiler `index`. */
static void describe_profiler(uint32_t index, profiler_description *p)
{
    memset(p, 0, sizeof *p);
    p->info.size = sizeof p->info;
    if (!kineto_plugin_info_get(index, &p->info))
        return;
    for (uint32_t i = 0; i < KB_MIN(p->info.type_count, KINETO_PLUGIN_MAX_TYPES); i++) {
        const char *name =
            kineto_plugin_type_name(map_early_number(p->info.revision, p->info.types[i]));
        snprintf(p->names[i], sizeof p->names[i], "%s", name ? name : "unknown");
    }
}

/* By path, or by file if the paths differ. */
static bool is_profiler_of(const profiler_description *p, const kc_plugin_file *plugin)
{
    struct stat st;
    if (strcmp(p->info.path, plugin->path) == 0)
        return true;
    return p->info.path[0] && stat(p->info.path, &st) == 0 && st.st_ino == plugin->inode &&
           st.st_dev == plugin->device;
}

/* A plug-in that is loaded already (this command may be recorded itself) counts as loaded. */
static void load_in_child(void *context, int to)
{
    static load_answer a;
    static profiler_description p;
    const kc_plugin_file *plugin = context;
    kineto_error err = {0};
    char options[16];
    snprintf(options, sizeof options, "rev=%s", plugin->revision);
    a.status = kineto_plugin_load(plugin->path, plugin->revision[0] ? options : NULL, &err);
    memcpy(a.message, err.message, sizeof a.message);
    memcpy(a.own, kineto_rt_own_kinds(), sizeof a.own);
    (void)kv_isolated_write(to, &a, sizeof a);
    for (uint32_t i = 0, count = kineto_plugin_count(); i < count; i++) {
        describe_profiler(i, &p);
        if (is_profiler_of(&p, plugin))
            (void)kv_isolated_write(to, &p, sizeof p);
    }
}

/* ---- reading the answer: nothing in it is trusted -------------------------------------------- */

#define COPY_TEXT(to, from) copy_bounded_text(to, sizeof(to), from, sizeof(from))
static void copy_bounded_text(char *to, size_t size, const char *from, size_t from_size)
{
    snprintf(to, size, "%.*s", (int)strnlen(from, from_size), from);
}

static const kf_own_kind *find_own_kind_named(const kc_plugin_file *plugin, const char *name)
{
    for (uint32_t i = 0; i < plugin->own_count; i++)
        if (strcmp(plugin->own[i].name, name) == 0)
            return &plugin->own[i];
    return NULL;
}

/* Only valid entries of the table of the child. */
static void store_own_kinds(kc_plugin_file *plugin, const kf_own_kind *table)
{
    for (uint32_t i = 0; i < KINETO_KIND_OWN_COUNT; i++) {
        const kf_own_kind *kind = kf_own_kind_at(table, KINETO_KIND_OWN_FIRST + i);
        KB_ASSERT(plugin->own_count < KINETO_KIND_OWN_COUNT);
        if (kind)
            plugin->own[plugin->own_count++] = *kind;
    }
}

/* The kind of a number: a published one, or the one that an own kind resembles. */
static void store_type(const kc_plugin_file *plugin, const profiler_description *p, uint32_t i,
                       kc_plugin_type *type)
{
    int32_t number = p->info.types[i];
    COPY_TEXT(type->name, p->names[i]);
    type->number = number;
    type->own = number >= KINETO_PLUGIN_PROFILE_EVENT_TYPE_OWN_FIRST;
    const kf_own_kind *own = type->own ? find_own_kind_named(plugin, type->name) : NULL;
    int kind = own ? own->like : kb_kind_from_plugin(map_early_number(p->info.revision, number));
    type->kind = kind < 0 ? KINETO_KIND_COUNT : (uint8_t)kind;
}

/* Texts are copied with a bound: they may lack a NUL. False: out of memory. */
static bool store_profiler(kc_plugin_file *plugin, const profiler_description *p)
{
    kc_plugin_profiler profiler = {.type_count =
                                       KB_MIN(p->info.type_count, KINETO_PLUGIN_MAX_TYPES)};
    COPY_TEXT(profiler.name, p->info.name);
    COPY_TEXT(profiler.vendor, p->info.vendor);
    COPY_TEXT(profiler.revision, p->info.revision);
    for (uint32_t i = 0; i < profiler.type_count; i++)
        store_type(plugin, p, i, &profiler.types[i]);
    return kb_vec_push(&plugin->profilers, profiler);
}

/* A file without a profiler has a description with the reason. */
static kineto_status store_description(kc_plugin_file *plugin, const profiler_description *p,
                                       kineto_error *err)
{
    if (p->info.state == KINETO_PLUGIN_LOADED && p->info.name[0] && !store_profiler(plugin, p))
        return kb_fail_memory(err, NULL);
    if (p->info.state == KINETO_PLUGIN_SKIPPED && plugin->state != KC_PLUGIN_LOADED)
        plugin->state = KC_PLUGIN_SKIPPED;
    if (p->info.reason[0] && plugin->state != KC_PLUGIN_LOADED)
        COPY_TEXT(plugin->reason, p->info.reason);
    return KINETO_OK;
}

/* Verify and store the data of a child that returned. */
static kineto_status parse_answer(kc_plugin_file *plugin, const kv_outcome *outcome,
                                  kineto_error *err)
{
    load_answer a;
    profiler_description p;
    memcpy(&a, outcome->data, sizeof a);
    size_t count = (outcome->data_bytes - sizeof a) / sizeof p;
    bool loaded = a.status == KINETO_OK || a.status == KINETO_E_STATE;
    plugin->state = loaded ? KC_PLUGIN_LOADED : KC_PLUGIN_REFUSED;
    if (!loaded)
        COPY_TEXT(plugin->reason, a.message);
    store_own_kinds(plugin, a.own);
    kineto_status status = KINETO_OK;
    for (size_t i = 0; i < count && status == KINETO_OK; i++) {
        memcpy(&p, outcome->data + sizeof a + i * sizeof p, sizeof p);
        status = store_description(plugin, &p, err);
    }
    if (plugin->state == KC_PLUGIN_LOADED && plugin->profilers.count == 0) {
        plugin->state = KC_PLUGIN_REFUSED;
        snprintf(plugin->reason, sizeof plugin->reason, "it registered no profiler");
    }
    return status;
}

/* Load one plug-in in a child, and store its state, reason and profilers. */
static kineto_status probe_plugin(kc_plugin_file *plugin, const kv_isolation *how,
                                  kineto_error *err)
{
    char text[128];
    kv_outcome outcome;
    kineto_status status = kv_isolate(how, load_in_child, plugin, &outcome, err);
    if (status)
        return status;
    kv_outcome_text(&outcome, how, text, sizeof text);
    if (outcome.ending == KV_RETURNED && outcome.data_bytes >= sizeof(load_answer)) {
        status = parse_answer(plugin, &outcome, err);
    } else if (outcome.ending == KV_TIMED_OUT) {
        plugin->state = KC_PLUGIN_TIMED_OUT;
        snprintf(plugin->reason, sizeof plugin->reason, "loading it timed out: %s", text);
    } else {
        plugin->state = KC_PLUGIN_CRASHED;
        snprintf(plugin->reason, sizeof plugin->reason, "it ended the process that loaded it: %s",
                 outcome.ending == KV_RETURNED ? "no answer" : text);
    }
    kv_outcome_free(&outcome);
    return status;
}

/* One after the other: each probe is a process with a time limit. */
kineto_status kc_plugins_probe(kc_plugins *p, uint32_t limit_ms, kineto_error *err)
{
    const kv_isolation how = {.limit_ms = limit_ms};
    kineto_status status = KINETO_OK;
    for (size_t i = 0; i < p->list.count && status == KINETO_OK; i++)
        if (p->list.data[i].state == KC_PLUGIN_UNKNOWN)
            status = probe_plugin(&p->list.data[i], &how, err);
    return status;
}
