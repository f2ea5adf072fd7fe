/* The table kernels: device work by name with count, sum, extremes, mean and deviation. */
#include "analyze/facts/analyses.h"

typedef struct of_name {
    uint32_t name;
    uint8_t type;
    ka_tally_ns tally;
} of_name;
typedef KB_VEC(of_name) of_names;

static const char *type_text(uint32_t type)
{
    static const char *const texts[] = {[KA_TYPE_OTHER] = "OTHER",
                                        [KA_TYPE_COMPUTATION] = "COMPUTATION",
                                        [KA_TYPE_COMMUNICATION] = "COMMUNICATION",
                                        [KA_TYPE_MEMORY] = "MEMORY"};
    return texts[type < KB_COUNT(texts) ? type : KA_TYPE_OTHER];
}

/* `place`: by string id, 0 not met, else where it is + 1. A name has one type. */
static bool add_work_name(of_names *names, uint32_t *place, const ka_work *w)
{
    if (!place[w->name]) {
        if (!kb_vec_push(names, ((of_name){.name = w->name, .type = w->type})))
            return false;
        place[w->name] = (uint32_t)names->count;
    }
    KB_ASSERT(place[w->name] <= names->count);
    ka_tally_ns_add(&names->data[place[w->name] - 1].tally, ka_work_ns(w));
    return true;
}

static bool collect_work_names(const ka_dataset *s, of_names *names)
{
    uint32_t *place = calloc((size_t)s->name_count + 1, sizeof *place);
    bool ok = place;
    for (uint32_t i = 0; ok && i < s->work_count; i++)
        if (!s->definitions->omit_other_work || s->work[i].type != KA_TYPE_OTHER)
            ok = add_work_name(names, place, &s->work[i]);
    free(place);
    return ok;
}

static void put_work_name(const ka_dataset *s, ka_table *t, const of_name *n)
{
    ka_put_int(t, s->rank);
    ka_put_text(t, kb_string(type_text(n->type)));
    ka_put_text(t, ka_name(s, n->name));
    ka_put_tally(t, &n->tally);
}

/* Table kernels. Rows are in the order of the most time. */
kineto_status ka_analyze_kernels(const ka_dataset *s, kineto_analysis *a, kineto_error *err)
{
    ka_table *t = ka_table_of(a, KA_TABLE_kernels);
    of_names names = {0};
    if (!s->work_count) {
        ka_note_no_device(t);
        return KINETO_OK;
    }
    bool ok = collect_work_names(s, &names);
    for (size_t i = 0; ok && i < names.count; i++)
        put_work_name(s, t, &names.data[i]);
    kb_vec_free(&names);
    if (!ok)
        return kb_fail_memory(err, NULL);
    if (s->definitions->rows_by_name)
        KA_SORT(t, KA_UP(kernels, kernel_type), KA_UP(kernels, name));
    else
        KA_SORT(t, KA_DOWN(kernels, sum_us), KA_UP(kernels, kernel_type), KA_UP(kernels, name));
    return KINETO_OK;
}
