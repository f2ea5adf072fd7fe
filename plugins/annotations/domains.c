/* Domains, registered strings, and names that programs give to threads, streams and devices. Tables
 * are written under the lock of names.c and read without it. */
#include "annotations.h"

#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

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

cn_handle cn_string_register(cn_handle domain, const char *text)
{
    (void)domain;
    const cn_name *name = cn_name_intern(text ? text : "", text ? strlen(text) : 0);
    if (!name)
        cn_count(CN_TALLY_STRINGS);
    return cn_name_handle(name);
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

/* ---- other resources ------------------------------------------------------------------------- */

#define MAX_NAME_BYTES 1024u

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
    char key[64], value[MAX_NAME_BYTES];
    if (!name || atomic_fetch_add(&count, 1) >= MAX_RESOURCE_NAMES)
        return;
    (void)snprintf(key, sizeof key, "%s %s %#llx", cn_this_source.name, what,
                   (unsigned long long)id);
    quote_resource_name(name, value, sizeof value);
    (void)kineto_process_set_metadata(key, value);
}
