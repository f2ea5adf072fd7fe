/* The rule sync.stall: calls that wait for the device and then leave it idle until the host has
 * launched again, by the place in the program that makes them.
 *
 * Waits come from ka_waits_find. A place is an operator with the stack around it. The savings
 * of each place are computed on the critical path without its waits; those of all places
 * together are limited by the idle time because of the host. */
#include "analyze/findings/find_time.h"

/* ---- sites ----------------------------------------------------------------------------------- */

/* A place of the program: an operator, or a call, with its stack. */
typedef struct site {
    kineto_string name, stack; /* of its heaviest wait; the stack is in the arena of the findings */
    uint64_t count; /* of operators, or calls outside of them, that wait */
    int64_t ns, idle_ns, saved_ns;
    uint32_t copy; /* of its heaviest wait */
} site;

typedef struct sites {
    ka_finder *f;
    ka_waits waits;
    KB_VEC(site) list;
    kb_map index;  /* of name and stack → index of list */
    kb_map places; /* of an operator and what called it → index of stacks */
    KB_VEC(kineto_string) stacks;
    uint32_t *site_of; /* by wait; KA_NONE: it is not about it */
} sites;

#define MAX_STACKS 256u /* that are looked for: those of the heaviest waits */
#define MAX_FRAMES 6u   /* of Python, that a stack has */
#define MAX_AROUND 256u /* ranges that are searched for these */
#define MAX_SITES  10u  /* that are left out of the path one by one */

static int compare_wait_weights(const void *left, const void *right, void *context)
{
    const ka_wait *waits = context, *a = &waits[*(const uint32_t *)left],
                  *b = &waits[*(const uint32_t *)right];
    if (a->idle_ns != b->idle_ns)
        return a->idle_ns > b->idle_ns ? -1 : 1;
    if (a->ns != b->ns)
        return a->ns > b->ns ? -1 : 1;
    return (a->call > b->call) - (a->call < b->call);
}

/* Indexes of waits, the heaviest first; freed by the caller. NULL: out of memory. */
static uint32_t *sort_waits(const ka_waits *waits)
{
    uint32_t *order = malloc((waits->list.count + 1) * sizeof *order);
    for (uint32_t i = 0; order && i < waits->list.count; i++)
        order[i] = i;
    if (order && waits->list.count)
        qsort_r(order, waits->list.count, sizeof *order, compare_wait_weights, waits->list.data);
    return order;
}

/* Adds a wait to the site of its name and stack, which is appended if it is new. */
static void add_wait_to_site(sites *all, uint32_t wait, kineto_string stack)
{
    const ka_wait *w = &all->waits.list.data[wait];
    kineto_string name = ka_name(all->f->s, all->f->s->slices[w->site].name);
    uint64_t key = kb_hash_seeded(kb_hash(name.data, name.size), stack.data, stack.size);
    bool created;
    uint64_t *at = kb_map_insert(&all->index, key, all->list.count, &created);
    if (!at || (created &&
                !kb_vec_push(&all->list, (site){.name = name, .stack = stack, .copy = w->copy}))) {
        all->f->no_memory = true;
        return;
    }
    site *to = &all->list.data[*at];
    to->count += w->is_first;
    to->ns = ka_add_ns(to->ns, w->ns);
    to->idle_ns = ka_add_ns(to->idle_ns, w->idle_ns);
    all->site_of[wait] = (uint32_t)*at;
}

/* Hash of a place: its name with the recorded stack or the functions of Python around it. The
 * text of the stack is made only once for each place, as it is slow to make and stays in
 * memory. */
static uint64_t hash_place(const ka_dataset *s, uint32_t slice)
{
    uint32_t names[MAX_FRAMES], count = 0, out = 0;
    kineto_arg arg;
    if (kineto_args_find(s->trace, s->slices[slice].row, "Call stack", &arg) &&
        arg.type == KINETO_ARG_STRING && arg.text.size)
        return kb_hash_seeded(s->slices[slice].name, arg.text.data, arg.text.size);
    for (uint32_t i = s->slices[slice].parent;
         i != KA_NONE && count < MAX_FRAMES && out < MAX_AROUND; i = s->slices[i].parent, out++)
        if (s->slices[i].kind == KINETO_KIND_PYTHON_FUNCTION)
            names[count++] = s->slices[i].name;
    return kb_hash_seeded(s->slices[slice].name, names, count * sizeof *names);
}

/* The stack of a place, from the cache; the empty text for places after the first MAX_STACKS. */
static kineto_string wait_stack(sites *all, uint32_t slice)
{
    kineto_string stack = {"", 0};
    bool created;
    uint64_t *at =
        kb_map_insert(&all->places, hash_place(all->f->s, slice), all->stacks.count, &created);
    if (at && !created)
        return all->stacks.data[*at];
    if (all->stacks.count < MAX_STACKS)
        stack = ka_stack_of(all->f, slice);
    all->f->no_memory |= !at || !kb_vec_push(&all->stacks, stack);
    return stack;
}

/* Fills the sites, heaviest waits first. Waits of copies are left out: copy.* reports them. */
static void gather_wait_sites(sites *all)
{
    uint32_t *order = sort_waits(&all->waits);
    all->site_of = malloc((all->waits.list.count + 1) * sizeof *all->site_of);
    all->f->no_memory |= !order || !all->site_of;
    for (size_t i = 0; !all->f->no_memory && i < all->waits.list.count; i++) {
        const ka_wait *w = &all->waits.list.data[order[i]];
        all->site_of[order[i]] = KA_NONE;
        if (w->kind != KA_WAIT_OTHER)
            continue;
        kineto_string stack = wait_stack(all, w->site);
        add_wait_to_site(all, order[i], stack);
    }
    free(order);
}

/* ---- savings --------------------------------------------------------------------------------- */

/* Savings without the waits of one site, or of all for KA_NONE. */
static int64_t savings_of_site(sites *all, uint32_t which)
{
    ka_what_if_mask without = {0};
    int64_t saved = KA_NO_SAVINGS;
    if (ka_what_if_mask_create(all->f, &without, false)) {
        for (size_t i = 0; i < all->waits.list.count; i++)
            if (all->site_of[i] != KA_NONE && (which == KA_NONE || all->site_of[i] == which))
                without.slices[all->waits.list.data[i].call] |= KA_NO_WAIT;
        saved = ka_saved_by_mask(all->f, &without);
    }
    ka_what_if_mask_free(&without);
    return saved;
}

/* Savings without each site alone. Sites after the first MAX_SITES are assumed to save as much of
 * the idle time after them as the first do; where that is nothing, of what they wait. */
static int64_t share_site_savings(sites *all)
{
    int64_t alone = 0, idle = 0, waited = 0;
    for (uint32_t i = 0; i < all->list.count; i++) {
        site *x = &all->list.data[i];
        double like = idle > 0     ? (double)alone / (double)idle * (double)x->idle_ns
                      : waited > 0 ? (double)alone / (double)waited * (double)x->ns
                                   : 0;
        int64_t saved = i < MAX_SITES ? savings_of_site(all, i) : (int64_t)like;
        x->saved_ns = KB_MIN(saved, x->ns);
        alone = ka_add_ns(alone, KB_MAX(x->saved_ns, 0));
        idle = ka_add_ns(idle, x->idle_ns);
        waited = ka_add_ns(waited, x->ns);
    }
    return alone;
}

/* Where one wait follows another, doing away with either alone saves nothing: what all of them
 * together save beyond each alone is shared by the idle time after them. They never save more
 * than all of them together. */
static void set_site_savings(sites *all, int64_t total)
{
    int64_t alone = share_site_savings(all), idle = 0;
    for (uint32_t i = 0; i < all->list.count; i++)
        idle = ka_add_ns(idle, all->list.data[i].idle_ns);
    for (uint32_t i = 0; i < all->list.count; i++) {
        site *x = &all->list.data[i];
        if (alone > total)
            x->saved_ns = (int64_t)((double)x->saved_ns * (double)total / (double)alone);
        else if (idle > 0)
            x->saved_ns += (int64_t)((double)(total - alone) * (double)x->idle_ns / (double)idle);
        x->saved_ns = KB_MIN(x->saved_ns, x->ns);
    }
}

/* ---- saying it ------------------------------------------------------------------------------- */

/* The innermost frame that is not of the framework: it stays the same when that is updated. */
static kineto_string find_own_frame(kineto_string stack)
{
    static const char *const foreign[] = {"site-packages", "dist-packages", "<built-in",
                                          "torch/",        "<string>",      "nn.Module"};
    kineto_string first = {"", 0};
    for (size_t at = 0; at < stack.size;) {
        const char *semicolon = memchr(stack.data + at, ';', stack.size - at);
        size_t end = semicolon ? (size_t)(semicolon - stack.data) : stack.size;
        kineto_string frame = {stack.data + at, end - at};
        bool is_foreign = !frame.size;
        for (size_t i = 0; i < KB_COUNT(foreign); i++)
            is_foreign |= kb_string_contains(frame, foreign[i]);
        if (!is_foreign)
            return frame;
        if (!first.size)
            first = frame;
        at = end + 1;
    }
    return first;
}

static void advise_sync(ka_finder *f, ka_found *x, const site *of, const char *where)
{
    kineto_string name = of->name;
    bool reads = kb_string_contains(name, "item") ||
                 kb_string_contains(name, "_local_scalar_dense") ||
                 kb_string_contains(name, "is_nonzero");
    bool masks = kb_string_contains(name, "nonzero") || kb_string_contains(name, "index") ||
                 kb_string_contains(name, "masked_select") || kb_string_contains(name, "unique");
    bool copies = of->copy != KA_NONE;
    if (reads)
        ka_advise(f, x,
                  "Do not read this value in every step%s: keep it as a tensor (loss_sum += "
                  "loss.detach()) and call item() once in many steps; where it decides "
                  "something, torch.where() decides on the device",
                  where);
    else if (masks)
        ka_advise(f, x,
                  "The size of the result is not known before it is computed%s: use "
                  "torch.where(mask, a, b), or multiply by the mask; nonzero_static(size=N) if "
                  "the number is known",
                  where);
    else if (copies && ka_is_upload(ka_name(f->s, f->s->work[of->copy].name)))
        ka_advise(f, x,
                  "Do not wait for this copy%s: tensor.to(device, non_blocking=True), from "
                  "pinned memory",
                  where);
    else if (copies)
        ka_advise(f, x,
                  "Copy to the host without waiting%s: tensor.to(\"cpu\", non_blocking=True) into "
                  "pinned memory, and read it a step later, after an event",
                  where);
    else
        ka_advise(f, x,
                  "Remove this wait%s: work of a stream is in order without it; for times use "
                  "events that are read later",
                  where);
}

/* Those after which devices are idle; if there are none, the longest. */
static void show_sync_waits(ka_finder *f, ka_found *x, const sites *all, uint32_t which)
{
    const site *of = &all->list.data[which];
    int size = (int)KB_MIN(of->stack.size, (size_t)400);
    for (size_t i = 0; i < all->waits.list.count; i++) {
        const ka_wait *w = &all->waits.list.data[i];
        kineto_row row = f->s->slices[w->call].row;
        if (all->site_of[i] != which || (of->idle_ns && !w->idle_ns))
            continue;
        if (w->idle_ns)
            ka_show_row(f, x, row, w->idle_ns, "devices are idle for %s after it%s%.*s",
                        kb_duration(w->idle_ns).s, size ? "; " : "", size, of->stack.data);
        else
            ka_show_row(f, x, row, w->ns, "%.*s", size, of->stack.data);
    }
}

/* The idle time right after the waits was measured; that the host would keep its lead over the
 * device for longer is what the critical path foretells. */
static double sync_confidence(const site *x)
{
    double measured = (double)x->idle_ns / (double)KB_MAX(x->saved_ns, 1);
    return 0.4 + 0.4 * KB_MIN(measured, 1);
}

static void report_sync_stall(sites *all, uint32_t which)
{
    ka_finder *f = all->f;
    const site *of = &all->list.data[which];
    kineto_string frame = find_own_frame(of->stack);
    kb_text name = ka_short_name(of->name), place = ka_short_name(frame);
    char subject[200], where[100] = "";
    snprintf(subject, sizeof subject, "%s%s%s", name.s, frame.size ? " at " : "", place.s);
    if (frame.size)
        snprintf(where, sizeof where, " (%s)", place.s);
    ka_found *x = ka_open_finding(f, of->saved_ns, sync_confidence(of), kb_string(subject));
    if (!x)
        return;
    x->count = of->count;
    ka_say(f, x,
           "%s waits for the device %llu %s, %s each; after that devices are idle for %s in all, "
           "until the host has launched again%s",
           subject, (unsigned long long)of->count, of->count == 1 ? "time" : "times",
           kb_duration(of->ns / (int64_t)KB_MAX(of->count, 1u)).s, kb_duration(of->idle_ns).s,
           ka_later_text(of->saved_ns, of->idle_ns).s);
    advise_sync(f, x, of, where);
    show_sync_waits(f, x, all, which);
}

/* What waiting costs is bounded by what devices were idle because of the host. */
void ka_find_sync_stall(ka_finder *f)
{
    sites all = {.f = f};
    if (ka_waits_find(f, &all.waits))
        gather_wait_sites(&all);
    int64_t total = KA_NO_SAVINGS;
    if (!f->no_memory && all.list.count)
        total = ka_min_savings(savings_of_site(&all, KA_NONE), ka_host_idle_ns(f));
    if (!f->no_memory && total != KA_NO_SAVINGS && ka_share(f, total) >= KA_MIN_SAVINGS_PCT) {
        set_site_savings(&all, total);
        for (uint32_t i = 0; i < all.list.count && !f->no_memory; i++) {
            all.list.data[i].saved_ns = KB_MIN(all.list.data[i].saved_ns, total);
            if (ka_share(f, all.list.data[i].saved_ns) >= KA_MIN_SAVINGS_PCT)
                report_sync_stall(&all, i);
        }
    }
    ka_waits_free(&all.waits);
    kb_vec_free(&all.list);
    kb_vec_free(&all.stacks);
    kb_map_free(&all.index);
    kb_map_free(&all.places);
    free(all.site_of);
}
