/* Domains, registered strings, categories, and names that programs give to threads, streams and
 * devices. Tables are written under the lock of names.c and read without it. */
#include "nvtx.h"

#include <pthread.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#define WIDE_BYTES 1024u

/* ---- domains --------------------------------------------------------------------------------- */

#define OTHER_DOMAINS (CN_MAX_DOMAINS - 1)

static _Atomic(const cn_name *) domains[CN_MAX_DOMAINS]; /* 0 is the default domain */
static atomic_uint domain_count = 1;

/* A handle is the number of the domain. An unknown one, for example of another tool, is counted and
 * means the default domain. */
uint32_t cn_domain_from_handle(cn_handle handle)
{
    uintptr_t number = (uintptr_t)handle;
    if (CN_LIKELY(number < atomic_load_explicit(&domain_count, memory_order_acquire)) ||
        number == OTHER_DOMAINS)
        return (uint32_t)number;
    cn_count(CN_TALLY_HANDLE);
    return 0;
}

const char *cn_domain_name(uint32_t domain)
{
    const cn_name *name = atomic_load_explicit(&domains[domain], memory_order_acquire);
    return name ? name->text : domain == OTHER_DOMAINS ? "(other domains)" : "";
}

/* Domains with the same name are one domain: each copy of a library's header creates its own. */
static uint32_t add_domain(const cn_name *name)
{
    uint32_t count = atomic_load(&domain_count);
    for (uint32_t i = 1; i < count; i++)
        if (atomic_load(&domains[i]) == name)
            return i;
    if (count == OTHER_DOMAINS)
        return OTHER_DOMAINS;
    atomic_store_explicit(&domains[count], name, memory_order_release);
    atomic_store_explicit(&domain_count, count + 1, memory_order_release);
    return count;
}

cn_handle cn_domain_create(const char *text)
{
    const cn_name *name = cn_name_intern(text ? text : "", text ? strlen(text) : 0);
    uint32_t domain = OTHER_DOMAINS;
    if (name && cn_tables_lock()) {
        domain = add_domain(name);
        cn_tables_unlock();
    }
    if (domain == OTHER_DOMAINS)
        cn_count(CN_TALLY_DOMAINS);
    return (cn_handle)(uintptr_t)domain;
}

cn_handle cn_domain_create_wide(const wchar_t *name)
{
    char text[WIDE_BYTES] = "";
    if (name)
        (void)cn_text_from_wide(name, text, sizeof text);
    return cn_domain_create(text);
}

/* Domains are never freed: other copies may use the same one, and open events have its name. */
void cn_domain_destroy(cn_handle domain) { (void)domain; }

cn_handle cn_string_register(cn_handle domain, const char *text)
{
    (void)domain;
    const cn_name *name = cn_name_intern(text ? text : "", text ? strlen(text) : 0);
    if (!name)
        cn_count(CN_TALLY_STRINGS);
    return cn_name_handle(name);
}

cn_handle cn_string_register_wide(cn_handle domain, const wchar_t *wide)
{
    char text[4 * WIDE_BYTES] = "";
    if (wide && !cn_text_from_wide(wide, text, sizeof text))
        cn_count(CN_TALLY_CUT);
    return cn_string_register(domain, text);
}

/* ---- categories ------------------------------------------------------------------------------ */

#define CATEGORY_SLOTS 4096u

/* A slot of the open-addressing table of categories. The key is domain << 32 | number; 0 is a free
 * slot, because number 0 stands for no category. The name is stored before the key, so a reader
 * that sees the key sees a name. */
typedef struct domain_category {
    atomic_uint_fast64_t key;
    _Atomic(const cn_name *) name;
} domain_category;
static domain_category categories[CATEGORY_SLOTS];

/* The slot of a category, or the free one where it belongs; NULL: the table is full. */
static domain_category *find_category_slot(uint64_t key)
{
    uint32_t at = (uint32_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> 52);
    for (uint32_t i = 0; i < CATEGORY_SLOTS; i++) {
        domain_category *c = &categories[(at + i) % CATEGORY_SLOTS];
        uint64_t found = atomic_load_explicit(&c->key, memory_order_acquire);
        if (!found || found == key)
            return c;
    }
    return NULL;
}

const char *cn_category_name(uint32_t domain, uint32_t number)
{
    const domain_category *c = find_category_slot((uint64_t)domain << 32 | number);
    const cn_name *name = c ? atomic_load_explicit(&c->name, memory_order_acquire) : NULL;
    return name && atomic_load(&c->key) == ((uint64_t)domain << 32 | number) ? name->text : NULL;
}

void cn_category_set(cn_handle domain, uint32_t number, const char *text)
{
    uint64_t key = (uint64_t)cn_domain_from_handle(domain) << 32 | number;
    const cn_name *name = text && number ? cn_name_intern(text, strlen(text)) : NULL;
    if (!name || !cn_tables_lock())
        return;
    domain_category *c = find_category_slot(key);
    if (c) {
        atomic_store_explicit(&c->name, name, memory_order_release);
        atomic_store_explicit(&c->key, key, memory_order_release);
    }
    cn_tables_unlock();
}

void cn_category_set_wide(cn_handle domain, uint32_t number, const wchar_t *name)
{
    char text[WIDE_BYTES];
    if (!name)
        return;
    (void)cn_text_from_wide(name, text, sizeof text);
    cn_category_set(domain, number, text);
}

/* ---- threads --------------------------------------------------------------------------------- */

#define NAMED_THREADS 256u

/* Names given by other threads, until the thread itself pushes a range. A ring: a new name may
 * replace one that was never applied. */
static struct {
    atomic_uint tid;
    _Atomic(const cn_name *) name;
} named_threads[NAMED_THREADS];
static atomic_uint next_named_thread;
atomic_uint cn_thread_names;

void cn_thread_name_apply(uint32_t tid)
{
    for (uint32_t i = 0; i < NAMED_THREADS; i++) {
        unsigned expected = tid;
        const cn_name *name = atomic_load(&named_threads[i].name);
        if (name && atomic_load(&named_threads[i].tid) == tid &&
            atomic_compare_exchange_strong(&named_threads[i].tid, &expected, 0))
            kineto_thread_set_name(name->text);
    }
}

void cn_thread_name(uint32_t tid, const char *text)
{
    if (!text)
        return;
    if (tid == (uint32_t)syscall(SYS_gettid)) {
        kineto_thread_set_name(text);
        return;
    }
    const cn_name *name = cn_name_intern(text, strlen(text));
    if (!name || !cn_tables_lock())
        return;
    uint32_t at = atomic_fetch_add(&next_named_thread, 1) % NAMED_THREADS;
    atomic_store(&named_threads[at].tid, 0);
    atomic_store(&named_threads[at].name, name);
    atomic_store(&named_threads[at].tid, tid);
    cn_tables_unlock();
    atomic_fetch_add(&cn_thread_names, 1);
}

void cn_thread_name_wide(uint32_t tid, const wchar_t *name)
{
    char text[WIDE_BYTES];
    if (!name)
        return;
    (void)cn_text_from_wide(name, text, sizeof text);
    cn_thread_name(tid, text);
}

/* ---- other resources ------------------------------------------------------------------------- */

/* The text of a resource's name; NULL: none. `wide` holds converted texts. */
static const char *get_resource_text(const cn_resource *a, char wide[WIDE_BYTES])
{
    if (a->message_type == CN_MESSAGE_ASCII)
        return a->message.ascii;
    if (a->message_type == CN_MESSAGE_WIDE && a->message.wide) {
        (void)cn_text_from_wide(a->message.wide, wide, WIDE_BYTES);
        return wide;
    }
    const cn_name *name =
        a->message_type == CN_MESSAGE_REGISTERED ? cn_name_from_handle(a->message.registered) : NULL;
    return name ? name->text : NULL;
}

cn_handle cn_resource_create(cn_handle domain, const cn_resource *a)
{
    char wide[WIDE_BYTES];
    static atomic_uint next;
    (void)domain;
    const char *text = a && a->size >= sizeof *a ? get_resource_text(a, wide) : NULL;
    if (text && a->identifier_type == CN_RESOURCE_THREAD_NATIVE)
        cn_thread_name((uint32_t)a->identifier, text);
    pthread_t self = pthread_self();
    if (text && a->identifier_type == CN_RESOURCE_THREAD_POSIX &&
        memcmp(&a->identifier, &self, CN_MIN(sizeof self, sizeof a->identifier)) == 0)
        kineto_thread_set_name(text);
    return (cn_handle)(uintptr_t)(atomic_fetch_add(&next, 1) + 1u);
}

/* Each name is a member of the trace's header, so their number is limited. */
#define MAX_RESOURCE_NAMES 256u

/* Writes a text as a JSON string, cut to `room` bytes. */
static void quote_resource_name(const char *text, char *to, size_t room)
{
    char *end = to + room - 8;
    *to++ = '"';
    for (; *text && to < end; text++) {
        unsigned char c = (unsigned char)*text;
        if (c < 0x20) {
            to += snprintf(to, 8, "\\u%04x", c);
            continue;
        }
        if (c == '"' || c == '\\')
            *to++ = '\\';
        *to++ = (char)c;
    }
    *to++ = '"';
    *to = 0;
}

void cn_resource_name(const char *what, uint64_t id, const char *name)
{
    static atomic_uint count;
    char key[64], value[WIDE_BYTES];
    if (!name || atomic_fetch_add(&count, 1) >= MAX_RESOURCE_NAMES)
        return;
    (void)snprintf(key, sizeof key, "nvtx %s %#llx", what, (unsigned long long)id);
    quote_resource_name(name, value, sizeof value);
    (void)kineto_process_set_metadata(key, value);
}

void cn_resource_name_wide(const char *what, uint64_t id, const wchar_t *name)
{
    char text[WIDE_BYTES];
    if (!name)
        return;
    (void)cn_text_from_wide(name, text, sizeof text);
    cn_resource_name(what, id, text);
}
