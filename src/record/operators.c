/* Sites of operators whose names are known only at run time: one for each (name, overload, scope),
 * in a hash table with open addressing. They are never freed, since recordings refer to them until
 * the process ends. */
#include "record/function.h"

typedef struct operator_site {
    kineto_site site;
    kineto_arg_desc overload;
    uint32_t hash;
    char text[]; /* name, NUL, overload, NUL */
} operator_site;

static operator_site **table; /* a power of two of places, at most half full */
static uint32_t place_count, used_count;
static kb_lock table_lock;

static uint32_t hash_operator_text(uint32_t hash, const char *text)
{
    for (; *text; text++)
        hash = (hash ^ (uint8_t)*text) * UINT32_C(16777619);
    return (hash ^ 0xff) * UINT32_C(16777619);
}

static bool is_same_operator(const operator_site *o, uint32_t hash, const char *name,
                             const char *overload, kineto_scope scope)
{
    return o->hash == hash && o->site.scope == scope && strcmp(o->site.name, name) == 0 &&
           strcmp(o->overload.name, overload) == 0;
}

/* The place of this operator, or the empty one where it belongs. */
static operator_site **find_operator_place(uint32_t hash, const char *name, const char *overload,
                                           kineto_scope scope)
{
    KB_ASSERT(used_count < place_count); /* else the loop would not end */
    uint32_t at = hash & (place_count - 1);
    while (table[at] && !is_same_operator(table[at], hash, name, overload, scope))
        at = (at + 1) & (place_count - 1);
    return &table[at];
}

static bool grow_operator_table(void)
{
    uint32_t count = place_count ? place_count * 2 : 256;
    operator_site **bigger = calloc(count, sizeof(void *));
    if (!bigger)
        return false;
    for (uint32_t i = 0; i < place_count; i++) {
        if (!table[i])
            continue;
        uint32_t at = table[i]->hash & (count - 1);
        while (bigger[at])
            at = (at + 1) & (count - 1);
        bigger[at] = table[i];
    }
    free(table);
    table = bigger;
    place_count = count;
    return true;
}

static operator_site *make_operator_site(uint32_t hash, const char *name, const char *overload,
                                         kineto_scope scope)
{
    size_t name_bytes = strlen(name) + 1, overload_bytes = strlen(overload) + 1;
    operator_site *o = calloc(1, sizeof *o + name_bytes + overload_bytes);
    if (!o)
        return NULL;
    memcpy(o->text, name, name_bytes);
    memcpy(o->text + name_bytes, overload, overload_bytes);
    o->hash = hash;
    o->overload.name = o->text + name_bytes;
    o->site.kind = KINETO_SCOPE_KIND(scope);
    o->site.scope = (uint8_t)scope;
    o->site.name = o->text;
    if (overload[0]) {
        o->site.args = &o->overload;
        o->site.flags = KR_SITE_OVERLOAD;
    }
    return o;
}

kineto_site *kineto_function_site(const char *name, const char *overload, kineto_scope scope)
{
    if (!name || (uint32_t)scope >= KINETO_NUM_SCOPES)
        return NULL;
    overload = overload ? overload : "";
    uint32_t hash = hash_operator_text(
        hash_operator_text(UINT32_C(2166136261) + (uint32_t)scope, name), overload);
    operator_site *found = NULL;
    (void)kr_lock_take(&table_lock);
    if (used_count * 2 < place_count || grow_operator_table()) {
        operator_site **place = find_operator_place(hash, name, overload, scope);
        if (!*place && (*place = make_operator_site(hash, name, overload, scope)) != NULL)
            used_count++;
        found = *place;
    }
    kb_lock_drop(&table_lock);
    return found ? &found->site : NULL;
}
