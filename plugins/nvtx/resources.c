/* Categories, resources with names, and what takes wide texts. The table of categories is written
 * under the lock of the names and read without it. */
#include "nvtx.h"

#include <pthread.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#define WIDE_BYTES 1024u

cn_handle cn_domain_create_wide(const wchar_t *name)
{
    char text[WIDE_BYTES] = "";
    if (name)
        (void)cn_text_from_wide(name, text, sizeof text);
    return cn_domain_create(text);
}

/* Domains are never freed: other copies may use the same one, and open events have its name. */
void cn_domain_destroy(cn_handle domain) { (void)domain; }

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
    const cn_name *name = a->message_type == CN_MESSAGE_REGISTERED
                              ? cn_name_from_handle(a->message.registered)
                              : NULL;
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

void cn_resource_name_wide(const char *what, uint64_t id, const wchar_t *name)
{
    char text[WIDE_BYTES];
    if (!name)
        return;
    (void)cn_text_from_wide(name, text, sizeof text);
    cn_resource_name(what, id, text);
}
