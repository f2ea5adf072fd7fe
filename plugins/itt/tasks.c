/* Tasks, which nest on a thread and in a domain, and moments. A task that begins while the program
 * has paused the collection is kept as open, so that its end is not taken for that of another. */
#include "itt.h"

#include <dlfcn.h>
#include <stdio.h>

void ci_count_own_time(const void *clock, unsigned long long time)
{
    if ((clock || time) && ci_recording())
        cn_count(CI_TALLY_OWN_TIME);
}

/* ---- tasks ----------------------------------------------------------------------------------- */

/* Most tasks: no ids, a name of ours. */
static inline void begin_plain_task(uint32_t domain, const cn_name *name)
{
    kineto_value value = {.s = cn_domain_name(domain)};
    const cn_shape *shape = cn_shape_of_flags(domain ? CN_HAS_DOMAIN : 0);
    cn_event e = {.domain = domain,
                  .shape = shape ? shape : &cn_plain,
                  .name = name,
                  .text = name->text,
                  .values = shape && domain ? &value : NULL,
                  .is_hidden = !ci_recording()};
    (void)cn_push(&e);
}

void ci_task_begin(const ci_domain *domain, ci_id id, ci_id parent, ci_string *name)
{
    if (!cn_has_work())
        return;
    const cn_name *own = ci_string_name(name);
    if (CN_LIKELY(own && ci_id_is_null(id) && ci_id_is_null(parent))) {
        begin_plain_task(ci_domain_number(domain), own);
        return;
    }
    ci_event e;
    ci_event_make(&e, ci_domain_number(domain), id, parent, name, "task");
    e.event.is_hidden = !ci_recording();
    (void)cn_push(&e.event);
}

void ci_task_end(const ci_domain *domain)
{
    if (cn_has_work())
        (void)cn_pop(ci_domain_number(domain));
}

/* Names of functions by address. A slot has the name and the address in one entry, which is replaced
 * as a whole. */
#define FUNCTION_SLOTS 1024u
typedef struct named_function {
    const void *address;
    ci_string *name;
} named_function;
static _Atomic(const named_function *) named_functions[FUNCTION_SLOTS];

/* The name of the symbol at an address, else the address. */
static ci_string *name_function(const void *function)
{
    char text[32];
    Dl_info info;
    (void)snprintf(text, sizeof text, "%p", function);
    bool is_named = dladdr(function, &info) && info.dli_sname;
    return ci_string_create(is_named ? info.dli_sname : text);
}

static ci_string *find_function_name(const void *function)
{
    size_t at = (uintptr_t)function * UINT64_C(0x9e3779b97f4a7c15) >> 54;
    const named_function *f = atomic_load_explicit(&named_functions[at], memory_order_acquire);
    if (f && f->address == function)
        return f->name;
    ci_string *name = name_function(function);
    named_function *fresh = NULL;
    if (!f && cn_tables_lock()) { /* an entry stays: addresses that share its slot are looked up */
        fresh = cn_alloc_permanent(sizeof *fresh);
        if (fresh) {
            *fresh = (named_function){function, name};
            atomic_store_explicit(&named_functions[at], fresh, memory_order_release);
        }
        cn_tables_unlock();
    }
    return name;
}

void ci_task_begin_fn(const ci_domain *domain, ci_id id, ci_id parent, void *function)
{
    if (cn_has_work())
        ci_task_begin(domain, id, parent, find_function_name(function));
}

void ci_task_begin_ex(const ci_domain *domain, void *clock, unsigned long long time, ci_id id,
                      ci_id parent, ci_string *name)
{
    ci_count_own_time(clock, time);
    ci_task_begin(domain, id, parent, name);
}

void ci_task_begin_fn_ex(const ci_domain *domain, void *clock, unsigned long long time, ci_id id,
                         ci_id parent, void *function)
{
    ci_count_own_time(clock, time);
    ci_task_begin_fn(domain, id, parent, function);
}

void ci_task_end_ex(const ci_domain *domain, void *clock, unsigned long long time)
{
    ci_count_own_time(clock, time);
    ci_task_end(domain);
}

/* ---- moments --------------------------------------------------------------------------------- */

static const ci_id null_id;

void ci_marker(const ci_domain *domain, ci_id id, ci_string *name, int scope)
{
    (void)scope;
    if (!ci_recording())
        return;
    ci_event e;
    ci_event_make(&e, ci_domain_number(domain), id, null_id, name, "marker");
    cn_mark_event(&e.event);
}

void ci_marker_ex(const ci_domain *domain, void *clock, unsigned long long time, ci_id id,
                  ci_string *name, int scope)
{
    ci_count_own_time(clock, time);
    ci_marker(domain, id, name, scope);
}

/* A group has no duration: the moment at which it was named. */
void ci_task_group(const ci_domain *domain, ci_id id, ci_id parent, ci_string *name)
{
    if (!ci_recording())
        return;
    ci_event e;
    ci_event_make(&e, ci_domain_number(domain), id, parent, name, "task group");
    cn_mark_event(&e.event);
}

/* Types of marks are numbers of names; 0 is an error. */
int ci_mark_create(const char *name) { return (int)(uintptr_t)cn_string_register(NULL, name); }

int ci_mark(int type, const char *parameter)
{
    const cn_name *name =
        ci_recording() && type > 0 ? cn_name_from_handle((cn_handle)(uintptr_t)type) : NULL;
    if (!name)
        return 0;
    ci_event e = {.event = {.shape = &cn_plain, .text = name->text, .name = name}};
    if (parameter) {
        e.values[0].s = parameter;
        ci_event_set_shape(&e, KINETO_ARG_STRING << CN_PAYLOAD_SHIFT);
    }
    cn_mark_event(&e.event);
    return 0;
}
