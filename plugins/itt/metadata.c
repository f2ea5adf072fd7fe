/* Metadata and relations become arguments of a task that is open on the calling thread: each key with
 * its type is a description of one argument, which is made at its first use. */
#include "itt.h"

#include <stdio.h>

#define MAX_KEYS        1024u
#define MAX_TEXT_BYTES  4096u
#define MAX_LIST_VALUES 64u

/* ---- values ---------------------------------------------------------------------------------- */

uint32_t ci_type_arg(int type)
{
    static const uint8_t args[] = {0,
#define CI_X(name, number, ctype, arg, member) [CI_TYPE_##name] = KINETO_ARG_##arg,
                                   CI_TYPE_MAP(CI_X)
#undef CI_X
    };
    return type > 0 && (size_t)type < sizeof args ? args[type] : 0;
}

/* Data of a program need not be aligned. */
bool ci_read_number(int type, const void *data, size_t index, kineto_value *out)
{
    switch (type) {
#define CI_X(name, number, ctype, arg, member)                                                     \
    case CI_TYPE_##name: {                                                                         \
        ctype value;                                                                               \
        memcpy(&value, (const char *)data + index * sizeof value, sizeof value);                   \
        out->member = value;                                                                       \
        return true;                                                                               \
    }
        CI_TYPE_MAP(CI_X)
#undef CI_X
    default:
        return false;
    }
}

/* ---- sites ----------------------------------------------------------------------------------- */

/* A key with a type. Never freed. */
typedef struct metadata_key {
    const cn_name *name;
    kineto_arg_desc arg;
    kineto_site site;
} metadata_key;
static _Atomic(metadata_key *) key_table[2 * MAX_KEYS];
static uint32_t key_count;

/* The slot of a key, or the free one where it belongs. The table is twice as large as the limit. */
static _Atomic(metadata_key *) *find_key_slot(const cn_name *name, uint32_t type)
{
    uint64_t hash = name->hash * UINT64_C(0x9e3779b97f4a7c15) + type;
    for (uint32_t i = (uint32_t)(hash >> 32) % CN_COUNT(key_table);;
         i = (i + 1) % CN_COUNT(key_table)) {
        const metadata_key *k = atomic_load_explicit(&key_table[i], memory_order_acquire);
        if (!k || (k->name == name && k->arg.type == type))
            return &key_table[i];
    }
}

/* NULL: the limit is reached, or the lock is not available. */
static CN_NOINLINE metadata_key *add_metadata_key(const cn_name *name, uint32_t type)
{
    if (!cn_tables_lock())
        return NULL;
    _Atomic(metadata_key *) *slot = find_key_slot(name, type);
    metadata_key *k = atomic_load(slot);
    if (!k && key_count < MAX_KEYS && (k = cn_alloc_permanent(sizeof *k))) {
        *k = (metadata_key){.name = name, .arg = {name->text, type}};
        k->site = (kineto_site){.kind = KINETO_KIND_USER_ANNOTATION,
                                .arg_count = 1,
                                .name = cn_this_source.site_name,
                                .args = &k->arg};
        key_count++;
        atomic_store_explicit(slot, k, memory_order_release);
    }
    cn_tables_unlock();
    return k;
}

/* ---- the target ------------------------------------------------------------------------------ */

/* What metadata belongs to: an open task, or something that has only its id here. */
typedef struct metadata_target {
    uint32_t domain;
    ci_id id;
    kineto_range range; /* 0: no open task of this thread */
} metadata_target;

/* The task with an id, or the innermost one of the domain for the null id. False: nothing records. */
static bool find_target(metadata_target *t, const ci_domain *domain, ci_id id)
{
    if (!ci_recording())
        return false;
    t->domain = ci_domain_number(domain);
    t->id = id;
    t->range = ci_id_is_null(id) ? cn_find_innermost(t->domain)
                                 : cn_find_open(t->domain, ci_id_number(id));
    return true;
}

/* Metadata of what is not an open task of this thread is a moment with the name of the key. */
static void mark_value(const metadata_target *t, const cn_name *key, uint32_t type,
                       kineto_value value)
{
    uint32_t flags = type << CN_PAYLOAD_SHIFT, n = 0;
    ci_event e = {.event = {.domain = t->domain, .text = key->text, .name = key}};
    if (t->domain) {
        flags |= CN_HAS_DOMAIN;
        e.values[n++].s = cn_domain_name(t->domain);
    }
    e.values[n++] = value;
    if (!ci_id_is_null(t->id)) {
        flags |= CN_HAS_ID;
        e.values[n++].u = t->id.d1;
        e.values[n++].u = t->id.d2;
    }
    ci_event_set_shape(&e, flags);
    cn_mark_event(&e.event);
}

static void attach_value(const metadata_target *t, const cn_name *key, uint32_t type,
                         kineto_value value)
{
    if (key && !t->range) {
        mark_value(t, key, type, value);
        return;
    }
    metadata_key *k =
        key ? atomic_load_explicit(find_key_slot(key, type), memory_order_acquire) : NULL;
    if (!k && key)
        k = add_metadata_key(key, type);
    if (k)
        kineto_range_args(t->range, &k->site, &value);
    else
        cn_count(CI_TALLY_KEYS);
}

/* ---- numbers --------------------------------------------------------------------------------- */

/* A list of floating point numbers as JSON: lists of arguments have integers only. */
static void write_json_list(char *to, size_t room, int type, const void *data, size_t count)
{
    size_t used = 0;
    kineto_value v = {.d = 0};
    to[used++] = '[';
    for (size_t i = 0; i < count && used + 40 < room; i++) {
        (void)ci_read_number(type, data, i, &v);
        int size = v.d - v.d == 0 ? snprintf(to + used, room - used, "%s%.9g", i ? "," : "", v.d)
                                  : snprintf(to + used, room - used, "%snull", i ? "," : "");
        for (char *c = to + used + (i ? 1 : 0); *c; c++)
            if (!strchr("0123456789+-e.nul", *c))
                *c = '.'; /* the decimal point of the program's locale */
        used += (size_t)size;
    }
    to[used++] = ']';
    to[used] = 0;
}

static void attach_list(const metadata_target *t, const cn_name *key, int type, const void *data,
                        size_t count)
{
    int64_t numbers[MAX_LIST_VALUES];
    char json[MAX_LIST_VALUES * 24 + 64];
    kineto_ints ints = {numbers, CN_MIN(count, MAX_LIST_VALUES)};
    if (count > MAX_LIST_VALUES)
        cn_count(CN_TALLY_CUT);
    if (ci_type_arg(type) == KINETO_ARG_DOUBLE) {
        write_json_list(json, sizeof json, type, data, ints.count);
        attach_value(t, key, t->range ? KINETO_ARG_JSON : KINETO_ARG_STRING,
                     (kineto_value){.s = json});
        return;
    }
    for (size_t i = 0; i < ints.count; i++) {
        kineto_value v = {.i = 0};
        (void)ci_read_number(type, data, i, &v);
        numbers[i] = v.i;
    }
    attach_value(t, key, KINETO_ARG_INTS, (kineto_value){.ints = &ints});
}

void ci_metadata_add(const ci_domain *domain, ci_id id, ci_string *key, int type, size_t count,
                     void *data)
{
    metadata_target t;
    kineto_value value = {.u = 0};
    if (!count || !data || !find_target(&t, domain, id))
        return;
    if (!ci_read_number(type, data, 0, &value))
        cn_count(CI_TALLY_METADATA_TYPE);
    else if (count == 1)
        attach_value(&t, ci_string_intern(key), ci_type_arg(type), value);
    else
        attach_list(&t, ci_string_intern(key), type, data, count);
}

/* ---- texts ----------------------------------------------------------------------------------- */

static CN_NOINLINE void attach_text(const metadata_target *t, const cn_name *key, const char *data,
                                    size_t size)
{
    char text[MAX_TEXT_BYTES];
    size_t used = strnlen(data, CN_MIN(size, sizeof text - 1));
    if (used < size && used == sizeof text - 1)
        cn_count(CN_TALLY_CUT);
    memcpy(text, data, used);
    text[used] = 0;
    attach_value(t, key, KINETO_ARG_STRING, (kineto_value){.s = text});
}

void ci_metadata_text_add(const ci_domain *domain, ci_id id, ci_string *key, const char *data,
                          size_t size)
{
    metadata_target t;
    if (data && find_target(&t, domain, id))
        attach_text(&t, ci_string_intern(key), data, size);
}

/* The scope is that of the current task, or wider: then the task is where the program is. */
static const ci_id current_task;

void ci_metadata_add_scoped(const ci_domain *domain, int scope, ci_string *key, int type,
                            size_t count, void *data)
{
    (void)scope;
    ci_metadata_add(domain, current_task, key, type, count, data);
}
void ci_metadata_text_add_scoped(const ci_domain *domain, int scope, ci_string *key,
                                 const char *data, size_t size)
{
    (void)scope;
    ci_metadata_text_add(domain, current_task, key, data, size);
}

/* The text that a format makes is the argument "metadata". */
static CN_NOINLINE void attach_formatted(const metadata_target *t, const ci_string *format,
                                         va_list values)
{
    char text[MAX_TEXT_BYTES];
    if (!format || !format->text)
        return;
    int size = vsnprintf(text, sizeof text, format->text, values);
    if (size >= (int)sizeof text)
        cn_count(CN_TALLY_CUT);
    if (size >= 0)
        attach_value(t, cn_name_intern("metadata", 8), KINETO_ARG_STRING,
                     (kineto_value){.s = text});
}

void ci_metadata_format(const ci_domain *domain, ci_string *format, ...)
{
    metadata_target t;
    if (!find_target(&t, domain, current_task))
        return;
    va_list values;
    va_start(values, format);
    attach_formatted(&t, format, values);
    va_end(values);
}

void ci_metadata_format_overlapped(const ci_domain *domain, ci_id id, ci_string *format, ...)
{
    metadata_target t;
    if (!find_target(&t, domain, id))
        return;
    va_list values;
    va_start(values, format);
    attach_formatted(&t, format, values);
    va_end(values);
}

/* ---- relations ------------------------------------------------------------------------------- */

/* The argument has the name of the relation and the first number of the other's id. */
static void attach_relation(const metadata_target *t, int relation, ci_id tail)
{
    static const char *const names[CI_RELATION_COUNT] = {
        "related to",      "dependent on", "sibling of",   "parent of",
        "continuation of", "child of",     "continued by", "predecessor of"};
    const char *name = names[relation > 0 && relation < CI_RELATION_COUNT ? relation : 0];
    attach_value(t, cn_name_intern(name, strlen(name)), KINETO_ARG_UINT,
                 (kineto_value){.u = tail.d1});
}

void ci_relate_current(const ci_domain *domain, int relation, ci_id tail)
{
    ci_relate(domain, current_task, relation, tail);
}

void ci_relate(const ci_domain *domain, ci_id head, int relation, ci_id tail)
{
    metadata_target t;
    if (find_target(&t, domain, head))
        attach_relation(&t, relation, tail);
}
