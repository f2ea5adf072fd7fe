/* Domains and strings, which the collector makes and programs keep. Each text has one structure; it
 * is never freed, since any copy of the static part may have it. The two members that are reserved
 * for the collector hold our number and a mark; structures without the mark are foreign (a program
 * made them before the collector was there) and are read, not changed. */
#include "itt.h"

static const char our_mark;

static _Atomic(ci_domain *) domains_by_number[CN_MAX_DOMAINS];
static _Atomic(ci_string *) strings_by_index[CN_MAX_NAMES];

/* For texts beyond the limits. */
static ci_domain other_domain = {.flags = 1, .name = "(other domains)"};
static ci_string other_string = {.text = "(other names)"};

/* ---- domains --------------------------------------------------------------------------------- */

/* The caller holds the lock. NULL: no memory. */
static ci_domain *add_domain_handle(uint32_t number)
{
    ci_domain *d = atomic_load(&domains_by_number[number]);
    if (d)
        return d;
    d = cn_alloc_permanent(sizeof *d);
    if (!d)
        return NULL;
    *d = (ci_domain){.flags = 1,
                     .name = cn_domain_name(number),
                     .extra1 = (int)number,
                     .extra2 = (void *)(uintptr_t)&our_mark};
    atomic_store_explicit(&domains_by_number[number], d, memory_order_release);
    return d;
}

ci_domain *ci_domain_create(const char *name)
{
    uint32_t number = cn_domain_from_handle(cn_domain_create(name));
    ci_domain *d = atomic_load_explicit(&domains_by_number[number], memory_order_acquire);
    if (!d && cn_tables_lock()) {
        d = add_domain_handle(number);
        cn_tables_unlock();
    }
    return d ? d : &other_domain;
}

uint32_t ci_domain_number(const ci_domain *d)
{
    if (!d)
        return 0;
    if (CN_LIKELY(d->extra2 == &our_mark))
        return (uint32_t)d->extra1;
    return cn_domain_from_handle(cn_domain_create(d->name));
}

/* ---- strings --------------------------------------------------------------------------------- */

/* The caller holds the lock. NULL: no memory. */
static ci_string *add_string_handle(const cn_name *name)
{
    ci_string *s = atomic_load(&strings_by_index[name->index]);
    if (s)
        return s;
    s = cn_alloc_permanent(sizeof *s);
    if (!s)
        return NULL;
    *s = (ci_string){
        .text = name->text, .extra1 = (int)name->index, .extra2 = (void *)(uintptr_t)&our_mark};
    atomic_store_explicit(&strings_by_index[name->index], s, memory_order_release);
    return s;
}

ci_string *ci_string_create(const char *text)
{
    const cn_name *name = cn_name_from_handle(cn_string_register(NULL, text));
    if (!name)
        return &other_string;
    ci_string *s = atomic_load_explicit(&strings_by_index[name->index], memory_order_acquire);
    if (!s && cn_tables_lock()) {
        s = add_string_handle(name);
        cn_tables_unlock();
    }
    return s ? s : &other_string;
}

const cn_name *ci_string_name(const ci_string *s)
{
    if (!s || s->extra2 != &our_mark)
        return NULL;
    return cn_name_from_handle((cn_handle)(uintptr_t)((uint32_t)s->extra1 + 1));
}

const cn_name *ci_string_intern(const ci_string *s)
{
    const cn_name *name = ci_string_name(s);
    if (name || !s || !s->text)
        return name;
    return cn_name_intern(s->text, strlen(s->text));
}
