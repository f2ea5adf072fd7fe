/* One kind of steps for all traces of a comparison. Steps that a trace is only found to have because its ranges repeat
 * (trace/model/repeated_ranges.h) may be missed in another run, whose ranges cover a little less of their time: steps of
 * one trace would be compared with the whole of another. */
#include "analyze/diff/diff.h"

#include "trace/model/steps.h"

/* What the traces have that were looked at. */
typedef struct step_names {
    uint32_t repeated, marked, without; /* traces by the kind of their steps */
    bool differ;                        /* ranges of several names repeat */
    char *name;                         /* of those that repeat */
} step_names;

/* False: out of memory. */
static bool add_step_names(const kineto_trace *t, step_names *names)
{
    kt_step_list list;
    bool ok = kt_step_list_make(t, NULL, true, &list);
    uint32_t id = list.repeated_name;
    names->marked += ok && id == KB_INTERN_NONE && list.rows.count;
    names->without += ok && !list.rows.count;
    if (ok && id != KB_INTERN_NONE) {
        kineto_string name = kineto_trace_string(t, id);
        names->repeated++;
        names->differ |= names->name && !kb_string_equal(name, kb_string(names->name));
        if (!names->name)
            names->name = strndup(name.data, name.size);
        ok = names->name != NULL;
    }
    kt_step_list_free(&list);
    return ok;
}

/* Has a trace ranges of this name? */
static bool has_ranges(const kineto_trace *t, const char *name)
{
    kt_step_list list;
    bool has = kt_step_list_make(t, name, false, &list) && list.rows.count;
    kt_step_list_free(&list);
    return has;
}

bool ka_agree_on_steps(const kineto_trace *const *traces[2], const size_t counts[2], kineto_analysis_options *how,
                       char **pattern)
{
    step_names names = {0};
    bool ok = true, is_name;
    *pattern = NULL;
    for (uint32_t side = 0; side < 2 && !how->step_pattern; side++)
        for (size_t i = 0; ok && i < counts[side]; i++)
            ok = add_step_names(traces[side][i], &names);
    if (!ok || !names.repeated || names.marked || (!names.without && !names.differ)) {
        free(names.name);
        return ok;
    }
    is_name = !names.differ && *names.name && !strpbrk(names.name, "*|");
    for (uint32_t side = 0; side < 2; side++)
        for (size_t i = 0; is_name && i < counts[side]; i++)
            is_name = has_ranges(traces[side][i], names.name);
    if (!is_name)
        *names.name = '\0'; /* the empty pattern matches nothing: all traces are compared as a whole */
    how->step_pattern = *pattern = names.name;
    return true;
}
