/* Sentences about clocks that cannot be aligned, and about collectives that differ between ranks. */
#include "analyze/ranks/rank_warnings.h"

#define MAX_NAMED 2u

bool ka_warn_of_clocks(const ka_rank_view *v, char *text, size_t size)
{
    text[0] = '\0';
    if (v->model.refused[0] && v->is_compared)
        (void)kb_snprintf(text, size, "ranks%s were not compared: clocks cannot be aligned: %s",
                          v->causes.list.count ? " of different hosts" : "", v->model.refused);
    return text[0];
}

/* Not so a file that is missing, cut off or of another run. */
static bool is_mismatch(const ka_rank_damage *d) { return d->kind >= KA_DAMAGE_WRONG_OP; }

static const char *describe_mismatch(ka_damage_kind kind)
{
    switch (kind) {
    case KA_DAMAGE_WRONG_OP:
        return "calls another collective than its group";
    case KA_DAMAGE_WRONG_SIZE:
        return "calls a collective with another size than its group";
    case KA_DAMAGE_HOLE:
        return "lacks a collective that its group calls";
    case KA_DAMAGE_DUPLICATE:
        return "has a number of its group twice";
    case KA_DAMAGE_SHIFT:
        return "numbers its collectives differently than its group";
    default:
        return "calls collectives out of the order of their numbers";
    }
}

/* "; rank 10 calls another collective than its group: group 0, number 50". */
static void append_mismatch(const ka_rank_model *m, const ka_rank_damage *d, char *text, size_t size)
{
    size_t used = strlen(text);
    (void)kb_snprintf(text + used, size - used, "%srank %lld %s", used ? "; " : "", (long long)d->rank,
                      describe_mismatch(d->kind));
    if (d->group == KA_NONE)
        return;
    kineto_string group = m->groups.data[d->group].name;
    used = strlen(text);
    (void)kb_snprintf(text + used, size - used, ": %s%.*s", group.size ? "group " : "a group without a name",
                      (int)KB_MIN(group.size, (size_t)40), group.data);
    used = strlen(text);
    if (d->sequence != KA_NO_SEQUENCE)
        (void)kb_snprintf(text + used, size - used, ", number %u%s", d->sequence, d->count > 1 ? " and later" : "");
}

static bool describe_mismatches(const ka_rank_model *m, const ka_rank_damages *list, char *text, size_t size)
{
    uint32_t count = 0;
    text[0] = '\0';
    for (size_t i = 0; i < list->count; i++)
        if (is_mismatch(&list->data[i]) && count++ < MAX_NAMED)
            append_mismatch(m, &list->data[i], text, size);
    size_t used = strlen(text);
    if (count > MAX_NAMED)
        (void)kb_snprintf(text + used, size - used, "; and %u more (--only rank_damage)", count - MAX_NAMED);
    return count;
}

bool ka_warn_of_mismatches(const ka_rank_view *v, char *text, size_t size)
{
    return describe_mismatches(&v->model, &v->damage, text, size) ||
           describe_mismatches(&v->dumps, &v->in_dumps, text, size);
}
