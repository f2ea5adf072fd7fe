/* Plug-ins' numbers of activity types: the published ones in each revision of the interface, and
 * those that plug-ins announce by name. An announced number is valid in this process, its kind in
 * the whole recording: each process finds or adds the kind by name in the pool's table
 * (own_kinds.c). Elsewhere a type is an index: 0..31 the published numbers, from OWN_INDEX on the
 * announced ones. */
#include "record/host.h"

#define OWN_INDEX  32u /* index of the first own number */
#define OWN_TYPES  (KR_MAX_TYPES - OWN_INDEX)
#define NO_TYPE    UINT32_MAX
#define NO_KIND    0xffu
#define OWN_NUMBER KINETO_PLUGIN_PROFILE_EVENT_TYPE_OWN_FIRST

_Static_assert(KINETO_PLUGIN_PROFILE_EVENT_TYPE_COUNT <= OWN_INDEX, "numbers are indexes");
_Static_assert(KINETO_PLUGIN_PROFILE_EVENT_TYPE_RUNTIME == 8 &&
                   KINETO_PLUGIN_PROFILE_EVENT_TYPE_CUDA_RUNTIME == 8,
               "published");
_Static_assert(KINETO_PLUGIN_PROFILE_EVENT_TYPE_DRIVER == 9 &&
                   KINETO_PLUGIN_PROFILE_EVENT_TYPE_CUDA_DRIVER == 9,
               "published");

/* A number that this process assigned. Entries stay when their plug-in is unloaded. */
typedef struct own_type {
    char name[KF_OWN_NAME];
    uint8_t like; /* kind, for a name of the plug-in's own */
    uint8_t by_default;
    int16_t row; /* of kb_kind_aliases, if the name is in it; else -1 */
} own_type;

static own_type own_types[OWN_TYPES];
static uint32_t own_type_count; /* released when the entries before it are whole */
static kb_lock types_lock;      /* guards own_types and the table of kinds against other writers */

/* ---- the table of kinds: the pool's, or that of the pool to come -------------------------------- */

static kf_own_kind kinds_without_pool[KINETO_KIND_OWN_COUNT];

static kf_own_kind *own_kind_table(void)
{
    const kf_pool *pool = kr_pool_get();
    return pool ? pool->control->own_kinds : kinds_without_pool;
}

KINETO_API const kf_own_kind *kineto_rt_own_kinds(void) { return own_kind_table(); }

/* Is it a word that lists of kinds already know? */
static bool is_reserved_name(kineto_string name)
{
    return kb_string_is(name, "all") || kb_string_is(name, "default") || kb_kind_row(name) >= 0;
}

KINETO_API uint32_t kineto_rt_own_kind(const char *name, uint32_t like, bool by_default)
{
    kineto_string text = kb_string(name);
    if (is_reserved_name(text) || !kr_lock_take(&types_lock))
        return 0;
    uint32_t kind = kf_own_kind_add(own_kind_table(), text, like, by_default);
    kb_lock_drop(&types_lock);
    return kind;
}

void kr_types_adopted(void)
{
    if (!kr_lock_take(&types_lock))
        return;
    for (uint32_t i = 0; i < KINETO_KIND_OWN_COUNT; i++) {
        const kf_own_kind *k = kf_own_kind_at(kinds_without_pool, KINETO_KIND_OWN_FIRST + i);
        if (k)
            (void)kf_own_kind_add(own_kind_table(), kb_string(k->name), k->like, k->by_default);
    }
    kb_lock_drop(&types_lock);
}

/* ---- numbers ------------------------------------------------------------------------------------ */

/* The interface as it was published for review had fewer kinds, and two of them at other
 * numbers. */
static uint32_t index_of_early_type(int32_t type)
{
    if (type == 13)
        return KINETO_PLUGIN_PROFILE_EVENT_TYPE_CUDA_SYNC;
    if (type == 14)
        return KINETO_PLUGIN_PROFILE_EVENT_TYPE_GPU_PM_COUNTER;
    return type > 0 && type < 13 ? (uint32_t)type : NO_TYPE;
}

uint32_t kr_type_index(kr_revision revision, int32_t type)
{
    if (type >= OWN_NUMBER) {
        uint32_t own = (uint32_t)(type - OWN_NUMBER);
        return own < kb_load_acquire(&own_type_count) ? OWN_INDEX + own : NO_TYPE;
    }
    if (revision == KR_REVISION_EARLY)
        return index_of_early_type(type);
    return type > 0 && type < KINETO_PLUGIN_PROFILE_EVENT_TYPE_COUNT ? (uint32_t)type : NO_TYPE;
}

static const own_type *own_type_at(uint32_t index)
{
    uint32_t own = index - OWN_INDEX;
    return own < kb_load_acquire(&own_type_count) ? &own_types[own] : NULL;
}

static uint8_t own_type_kind(const own_type *type)
{
    if (type->row >= 0)
        return kb_kind_aliases[type->row].kind;
    uint32_t kind = kineto_rt_own_kind(type->name, type->like, type->by_default);
    return kind ? (uint8_t)kind : NO_KIND;
}

uint8_t kr_type_kind(uint32_t index)
{
    if (index >= OWN_INDEX) {
        const own_type *type = own_type_at(index);
        return type ? own_type_kind(type) : NO_KIND;
    }
    int kind = kb_kind_from_plugin((int32_t)index);
    return kind < 0 ? NO_KIND : (uint8_t)kind;
}

/* ---- names -------------------------------------------------------------------------------------- */

/* First row of kb_kind_aliases with this plug-in number; -1: none. */
static int row_of_number(uint32_t number)
{
    for (size_t i = 0; number && i < kb_kind_alias_count; i++)
        if (kb_kind_aliases[i].plugin_number == (int32_t)number)
            return (int)i;
    return -1;
}

static uint8_t spelling_of_row(int row)
{
    return row >= KINETO_KIND_COUNT ? (uint8_t)(row + 1) : 0;
}

/* Calls and synchronisation are spelled as tools know them from the vendor ("xpu_runtime"). Without
 * a vendor's name they are CUDA's, as in the proposal of the interface. */
static uint8_t spelling_of_call(const char *vendor, const char *call)
{
    char name[64];
    int n = snprintf(name, sizeof name, "%s_%s", vendor[0] ? vendor : "cuda", call);
    if (n < 0 || (size_t)n >= sizeof name)
        return 0;
    return spelling_of_row(kb_kind_row(kb_string(name)));
}

uint8_t kr_type_spelling(uint32_t index, const char *vendor)
{
    const own_type *own = index >= OWN_INDEX ? own_type_at(index) : NULL;
    if (own)
        return spelling_of_row(own->row);
    if (index == KINETO_PLUGIN_PROFILE_EVENT_TYPE_RUNTIME)
        return spelling_of_call(vendor ? vendor : "", "runtime");
    if (index == KINETO_PLUGIN_PROFILE_EVENT_TYPE_DRIVER)
        return spelling_of_call(vendor ? vendor : "", "driver");
    if (index == KINETO_PLUGIN_PROFILE_EVENT_TYPE_CUDA_SYNC)
        return spelling_of_call(vendor ? vendor : "", "sync");
    return index < OWN_INDEX ? spelling_of_row(row_of_number(index)) : 0;
}

const char *kineto_plugin_type_name(int32_t type)
{
    uint32_t index = kr_type_index(KR_REVISION_B, type);
    if (index == NO_TYPE)
        return NULL;
    if (index >= OWN_INDEX)
        return own_types[index - OWN_INDEX].name;
    int row = row_of_number(index);
    return row < 0 ? NULL : kb_kind_aliases[row].name;
}

/* ---- announcing --------------------------------------------------------------------------------- */

static bool is_kind_name_valid(kineto_string name)
{
    for (size_t i = 0; i < name.size; i++) {
        char c = name.data[i];
        if (!kb_is_lower(c) && !kb_is_digit(c) && c != '_')
            return false;
    }
    return name.size > 0 && name.size < KF_OWN_NAME && !kb_string_is(name, "all") &&
           !kb_string_is(name, "default");
}

static bool check_type_info(const KinetoPlugin_ActivityTypeInfo *info)
{
    kineto_string name = kb_string(info->pName);
    if (!is_kind_name_valid(name)) {
        kb_log(KINETO_LOG_WARNING,
               "kind '%.*s' of a plug-in: invalid name; use 1 to %u of a-z, 0-9 and _, but not "
               "'all' or 'default'",
               (int)KB_MIN(name.size, 64u), name.data, KF_OWN_NAME - 1);
        return false;
    }
    if (kb_kind_from_plugin(info->likeEventType) < 0) {
        kb_log(KINETO_LOG_WARNING, "kind '%s' of a plug-in: unknown likeEventType %d", info->pName,
               info->likeEventType);
        return false;
    }
    return true;
}

static bool check_type_infos(const KinetoPlugin_RegisterActivityTypes_Params *p)
{
    if (!p || !KINETO_PLUGIN_HAS(p, KinetoPlugin_RegisterActivityTypes_Params, firstEventType) ||
        !p->pTypes || p->count == 0 || p->count > OWN_TYPES)
        return false;
    for (size_t i = 0; i < p->count; i++)
        if (!check_type_info(&p->pTypes[i]))
            return false;
    return true;
}

/* The first of consecutive entries with these names in this order; `own_type_count` if there are
 * none. A plug-in that announces its kinds again gets the same numbers. */
static uint32_t find_type_run(const KinetoPlugin_ActivityTypeInfo *infos, uint32_t count)
{
    for (uint32_t first = 0; first + count <= own_type_count; first++) {
        uint32_t i = 0;
        while (i < count && strcmp(own_types[first + i].name, infos[i].pName) == 0)
            i++;
        if (i == count)
            return first;
    }
    return own_type_count;
}

static void fill_own_type(own_type *type, const KinetoPlugin_ActivityTypeInfo *info)
{
    kineto_string name = kb_string(info->pName);
    memset(type, 0, sizeof *type);
    memcpy(type->name, name.data, KB_MIN(name.size, sizeof type->name - 1));
    type->like = (uint8_t)kb_kind_from_plugin(info->likeEventType);
    type->by_default = info->enabledByDefault != 0;
    type->row = (int16_t)kb_kind_row(name);
}

/* @return the number of the first, -1 when not enough numbers are left. With the lock. */
static int32_t add_own_types(const KinetoPlugin_ActivityTypeInfo *infos, uint32_t count)
{
    uint32_t first = find_type_run(infos, count);
    if (first == own_type_count) {
        if (count > OWN_TYPES - own_type_count)
            return -1;
        KB_ASSERT(first + count <= OWN_TYPES);
        for (uint32_t i = 0; i < count; i++)
            fill_own_type(&own_types[first + i], &infos[i]);
        kb_store_release(&own_type_count, first + count);
    }
    return OWN_NUMBER + (int32_t)first;
}

int kr_types_register(KinetoPlugin_RegisterActivityTypes_Params *params)
{
    if (!check_type_infos(params) || !kr_lock_take(&types_lock))
        return 1;
    uint32_t count = (uint32_t)params->count;
    int32_t first = add_own_types(params->pTypes, count);
    kb_lock_drop(&types_lock);
    if (first < 0) {
        kb_log(KINETO_LOG_WARNING, "a plug-in's kinds were refused: all %u numbers are taken",
               OWN_TYPES);
        return 1;
    }
    params->firstEventType = first;
    /* Add them to the pool's table now, so that lists of kinds know their names. */
    for (uint32_t i = 0; i < count; i++)
        if (kr_type_kind(OWN_INDEX + (uint32_t)(first - OWN_NUMBER) + i) == NO_KIND)
            kb_log(KINETO_LOG_WARNING, "kind '%s' of a plug-in is not recorded: too many kinds",
                   params->pTypes[i].pName);
    return 0;
}

/* ---- lists of kinds ----------------------------------------------------------------------------- */

static uint64_t own_kind_bit(kineto_string name)
{
    uint32_t kind = kf_own_kind_find(own_kind_table(), name);
    return kind ? KINETO_KIND_BIT(kind) : 0;
}

kineto_status kineto_kinds_parse(const char *list, uint64_t *mask, kineto_error *err)
{
    return kb_kinds_parse(list, mask, own_kind_bit, err);
}
