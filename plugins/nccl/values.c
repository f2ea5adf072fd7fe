/* Texts of NCCL with the names that are made from them, and values that calls of one kind share: they are registered with
 * the host once in a session, so that an activity has one number for all of them. */
#include "nccl.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* ---- texts ------------------------------------------------------------------------------------
 * A hash table without removal. A text is complete when its pointer is stored. */

#define TEXTS 512u

static _Atomic(const nc_text *) table[TEXTS];
static nc_text texts[TEXTS / 2];
static uint32_t text_count;
static pthread_mutex_t texts_lock = PTHREAD_MUTEX_INITIALIZER;
static const nc_text empty_text = {.name_size = 4, .name = "nccl"};

static char lower(char c) { return c >= 'A' && c <= 'Z' ? (char)(c + 'a' - 'A') : c; }

/* "AllReduce" → "nccl:all_reduce". */
static void make_name(nc_text *t)
{
    size_t n = 5;
    memcpy(t->name, "nccl:", 5);
    for (uint32_t i = 0; i < t->size && n + 2 < sizeof t->name; i++) {
        bool is_capital = t->text[i] >= 'A' && t->text[i] <= 'Z';
        if (is_capital && i && t->text[i - 1] >= 'a' && t->text[i - 1] <= 'z')
            t->name[n++] = '_';
        t->name[n++] = lower(t->text[i]);
    }
    t->name_size = (uint32_t)n;
}

/* Bytes outside of ASCII and control characters are replaced: names go into traces as they are. */
static void fill_text(nc_text *t, const char *text)
{
    while (t->size + 1 < sizeof t->text && text[t->size]) {
        char c = text[t->size];
        t->text[t->size++] = c < 0x20 || c > 0x7e ? '?' : c;
    }
    t->call_size = t->size + 4;
    memcpy(t->call, "nccl", 4);
    memcpy(t->call + 4, t->text, t->size);
    make_name(t);
}

/* False: it is longer than can be kept, and is compared by what is kept. */
static bool is_text(const nc_text *t, const char *text)
{
    return strncmp(t->text, text, sizeof t->text - 1) == 0;
}

/* Of as much as is kept. */
static uint32_t hash_text(const char *text)
{
    uint64_t hash = 1;
    for (size_t i = 0; i + 1 < NC_TEXT && text[i]; i++)
        hash = hash * 31 + (unsigned char)text[i];
    return (uint32_t)(nc_mix(hash, 0) % TEXTS);
}

/* Looks again with the lock: two threads may bring the same text. A full table gives the empty text. */
NC_COLD static const nc_text *add_text(const char *text, uint32_t at)
{
    const nc_text *found = &empty_text;
    (void)pthread_mutex_lock(&texts_lock);
    for (uint32_t i = 0; i < TEXTS; i++, at = (at + 1) % TEXTS) {
        const nc_text *there = atomic_load(&table[at]);
        if (there && !is_text(there, text))
            continue;
        if (!there && text_count == NC_COUNT(texts))
            break;
        if (!there) {
            nc_text *t = &texts[text_count++];
            fill_text(t, text);
            there = t;
            atomic_store_explicit(&table[at], t, memory_order_release);
        }
        found = there;
        break;
    }
    (void)pthread_mutex_unlock(&texts_lock);
    return found;
}

/* Without a lock: texts repeat, and few are ever added. */
const nc_text *nc_keep_text(const char *text)
{
    if (!text || !*text)
        return &empty_text;
    uint32_t first = hash_text(text), at = first;
    for (uint32_t i = 0; i < 16; i++, at = (at + 1) % TEXTS) {
        const nc_text *there = atomic_load_explicit(&table[at], memory_order_acquire);
        if (!there)
            break;
        if (is_text(there, text))
            return there;
    }
    return add_text(text, first);
}

void nc_values_after_fork(void) { (void)pthread_mutex_init(&texts_lock, NULL); }

/* ---- values of an operation ------------------------------------------------------------------- */

#define MAX_VALUES 14u
typedef struct values {
    KinetoPlugin_Metadata items[MAX_VALUES];
    uint32_t count;
} values;

static void add_int(values *v, const char *key, int64_t value)
{
    v->items[v->count++] =
        (KinetoPlugin_Metadata){.pKey = key, .valueType = KINETO_PLUGIN_VALUE_INT, .count = 1, .i = value};
}

static void add_text_value(values *v, const char *key, const char *text)
{
    v->items[v->count++] = (KinetoPlugin_Metadata){.pKey = key,
                                                   .valueType = KINETO_PLUGIN_VALUE_STRING,
                                                   .count = (uint32_t)strlen(text),
                                                   .pointer = text};
}

/* As PyTorch spells it in the arguments of collectives. */
static const char *dtype_name(const nc_text *dtype)
{
    static const struct {
        const char *nccl, *name;
    } names[] = {{"ncclInt8", "char"},        {"ncclUint8", "byte"},     {"ncclInt32", "int"},
                 {"ncclUint32", "uint32"},    {"ncclInt64", "long"},     {"ncclUint64", "uint64"},
                 {"ncclFloat16", "half"},     {"ncclFloat32", "float"},  {"ncclFloat64", "double"},
                 {"ncclBfloat16", "bfloat16"}, {"ncclFloat8e4m3", "float8_e4m3fn"}, {"ncclFloat8e5m2", "float8_e5m2"}};
    for (size_t i = 0; i < NC_COUNT(names); i++)
        if (strcmp(dtype->text, names[i].nccl) == 0)
            return names[i].name;
    return dtype->text;
}

static bool is_func(const nc_text *func, const char *name) { return strcmp(func->text, name) == 0; }

/* Elements of the buffers of this rank. NCCL states those of one rank's part, except where all ranks have the same. */
static void add_counts(values *v, const nc_comm *c, const nc_event *e, const nc_text *func)
{
    bool all_to_all = is_func(func, "AlltoAll") || is_func(func, "AllToAll");
    bool many_in = is_func(func, "ReduceScatter") || is_func(func, "Scatter") || all_to_all;
    bool many_out = is_func(func, "AllGather") || is_func(func, "Gather") || all_to_all;
    int64_t one = (int64_t)e->count, all = 0;
    bool is_known = c->ranks > 0 && !__builtin_mul_overflow(one, (int64_t)c->ranks, &all);
    if (!many_in || is_known)
        add_int(v, "In msg nelems", many_in ? all : one);
    if (!many_out || is_known)
        add_int(v, "Out msg nelems", many_out ? all : one);
}

/* The others report a root that means nothing. */
static bool has_root(const nc_text *func)
{
    return is_func(func, "Broadcast") || is_func(func, "Reduce") || is_func(func, "Gather") || is_func(func, "Scatter");
}

/* The key has all that goes into the values. */
static uint64_t make_key(const nc_comm *c, const nc_event *e, const nc_text *const named[4])
{
    uint64_t key = nc_mix(nc_get(&c->id), e->count);
    for (int i = 0; i < 4; i++)
        key = nc_mix(key, (uint64_t)(uintptr_t)named[i]);
    key = nc_mix(key, (uint64_t)(uint32_t)e->root << 32 | (uint32_t)(e->channels << 16) | e->warps);
    return key | 1;
}

/* Keys as PyTorch and MPI have them, by which the analyses find them; then NCCL's own. */
static void list_values(values *v, const nc_comm *c, const nc_event *e, const nc_text *const named[4], char id[24])
{
    const nc_text *func = named[0];
    add_text_value(v, "Collective name", nc_collective_name(func));
    add_counts(v, c, e, func);
    add_text_value(v, "dtype", dtype_name(named[1]));
    if (c->ranks > 0)
        add_int(v, "Group size", c->ranks);
    snprintf(id, 24, "%llx", (unsigned long long)nc_get(&c->id));
    add_text_value(v, "Process Group Name", id);
    if (c->name[0])
        add_text_value(v, "Process Group Description", c->name);
    if (has_root(func))
        add_int(v, "Root Rank", e->root);
    if (named[2]->size)
        add_text_value(v, "algorithm", named[2]->text);
    if (named[3]->size)
        add_text_value(v, "protocol", named[3]->text);
    if (e->channels)
        add_int(v, "channels", e->channels);
    if (e->warps)
        add_int(v, "warps", e->warps);
}

/* A table of sets that is full leaves the operation without these values. */
static uint32_t register_set(nc_comm *c, const nc_event *e, const nc_text *const named[4])
{
    values v = {.count = 0};
    char id[24];
    uint32_t number = 0;
    const KinetoPlugin_TraceBuilder *builder = nc_builder_enter();
    if (!builder)
        return 0;
    list_values(&v, c, e, named, id);
    if (builder->registerMetadataSet(builder->pTraceBuilderHandle, v.items, v.count, &number) != 0)
        number = 0;
    nc_builder_leave();
    if (!number)
        nc_count(NC_TALLY_VALUES);
    return number;
}

/* Two entries per key's place; the flag is never waited for: without it the host is asked, which knows equal values. */
uint32_t nc_register_values(nc_comm *c, const nc_event *e, const nc_text *func)
{
    const nc_text *const named[4] = {func, nc_keep_text(e->dtype), nc_keep_text(e->algorithm), nc_keep_text(e->protocol)};
    uint64_t key = make_key(c, e, named);
    nc_value_set *entry = &c->sets[key / 2 % NC_SETS];
    uint32_t session = nc_session();
    if (atomic_flag_test_and_set_explicit(&c->is_busy, memory_order_acquire))
        return register_set(c, e, named);
    uint32_t number = entry->key == key && entry->session == session ? entry->number : 0;
    if (!number) {
        number = register_set(c, e, named);
        *entry = (nc_value_set){key, session, number};
    }
    atomic_flag_clear_explicit(&c->is_busy, memory_order_release);
    return number;
}
