/* The table of activity kinds with all their spellings, and parsing of lists of kinds. [rt] */
#include "base/base.h"

_Static_assert(KINETO_KIND_COUNT <= KINETO_KIND_OWN_DEFAULT,
               "neutral kinds have bits of their own");
_Static_assert(KINETO_KIND_OWN_FIRST + KINETO_KIND_OWN_COUNT == 64, "a mask is one word");

/* ---- the table ------------------------------------------------------------------------------- */

/* The first KINETO_KIND_COUNT rows are the neutral names in order; vendors' spellings follow, those
 * of old traces among them. Append only: recordings store the number of a row (the spelling of a
 * DEVICE record); a new neutral kind moves them all, so KF_VERSION goes up with it. Where rows
 * share a number the first one is its name. */
#define ROW(name, kind, plugin, upstream)                                                          \
    {                                                                                              \
        name, KINETO_KIND_##kind, plugin, upstream                                                 \
    }
const kb_kind_alias kb_kind_aliases[] = {
    ROW("cpu_op", CPU_OP, 1, 0),
    ROW("user_annotation", USER_ANNOTATION, 2, 1),
    ROW("gpu_user_annotation", GPU_USER_ANNOTATION, 3, 2),
    ROW("gpu_memcpy", GPU_MEMCPY, 4, 3),
    ROW("gpu_memset", GPU_MEMSET, 5, 4),
    ROW("kernel", CONCURRENT_KERNEL, 6, 5),
    ROW("external_correlation", EXTERNAL_CORRELATION, 7, 6),
    ROW("runtime", RUNTIME, 8, 7),
    ROW("driver", DRIVER, 9, 8),
    ROW("cpu_instant_event", CPU_INSTANT_EVENT, 10, 9),
    ROW("python_function", PYTHON_FUNCTION, 11, 10),
    ROW("overhead", OVERHEAD, 12, 11),
    ROW("collective_comm", COLLECTIVE_COMM, 21, 23),
    ROW("gpu_pm_counter", GPU_PM_COUNTER, 22, -1),
    ROW("mtia_insight", MTIA_INSIGHT, 15, 14),
    ROW("cuda_sync", CUDA_SYNC, 16, 15),
    ROW("cuda_event", CUDA_EVENT, 25, 16),
    ROW("cuda_profiler_range", CUDA_PROFILER_RANGE, 18, 19),
    ROW("counter", COUNTER, -1, -1),
    ROW("memory", MEMORY, -1, -1),
    ROW("cpu_sample", CPU_SAMPLE, -1, -1),
    ROW("thread_state", THREAD_STATE, -1, -1),
    ROW("blocking_call", BLOCKING_CALL, -1, -1),
    ROW("openmp", OPENMP, -1, -1),
    ROW("mpi", MPI, -1, -1),

    ROW("concurrent_kernel", CONCURRENT_KERNEL, 6, 5),
    ROW("cuda_runtime", RUNTIME, 8, 7),
    ROW("cuda_driver", DRIVER, 9, 8),
    ROW("mtia_runtime", RUNTIME, 13, 12),
    ROW("mtia_ccp_events", CONCURRENT_KERNEL, 14, 13),
    ROW("mtia_counters", GPU_PM_COUNTER, -1, 17),
    ROW("glow_runtime", RUNTIME, 17, 18),
    ROW("hpu_op", RUNTIME, 19, 20),
    ROW("xpu_runtime", RUNTIME, 20, 21),
    ROW("xpu_driver", DRIVER, -1, 22),
    ROW("privateuse1_runtime", RUNTIME, 23, 24),
    ROW("privateuse1_driver", DRIVER, 24, 25),
    ROW("xpu_scope_profiler", GPU_PM_COUNTER, -1, 26),
    ROW("xpu_sync", CUDA_SYNC, -1, 27),
    ROW("hardware_counters", GPU_PM_COUNTER, -1, 28),

    ROW("operator", CPU_OP, -1, -1),
    ROW("memcpy", GPU_MEMCPY, -1, -1),
    ROW("memset", GPU_MEMSET, -1, -1),
};
#undef ROW
const size_t kb_kind_alias_count = KB_COUNT(kb_kind_aliases);

const char *kineto_kind_name(uint32_t kind)
{
    return kind < KINETO_KIND_COUNT ? kb_kind_aliases[kind].name : "unknown";
}

int kb_kind_row(kineto_string name)
{
    for (size_t i = 0; i < kb_kind_alias_count; i++) {
        if (kb_string_is_ignoring_case(name, kb_kind_aliases[i].name))
            return (int)i;
    }
    return -1;
}

int kb_kind_parse(kineto_string name)
{
    int row = kb_kind_row(name);
    return row < 0 ? -1 : kb_kind_aliases[row].kind;
}

int kb_kind_from_plugin(int32_t plugin_number)
{
    if (plugin_number < 0)
        return -1;
    for (size_t i = 0; i < kb_kind_alias_count; i++) {
        if (kb_kind_aliases[i].plugin_number == plugin_number)
            return kb_kind_aliases[i].kind;
    }
    return -1;
}

/* ---- suggestions for misspelt names ---------------------------------------------------------- */

#define MAX_NAME_BYTES 40u /* longer than every name */

/* Levenshtein distance, ignoring the case of `a`: letters to insert, delete or replace. */
static uint32_t edit_distance(kineto_string a, kineto_string b)
{
    uint32_t row[MAX_NAME_BYTES + 1];
    for (uint32_t j = 0; j <= b.size; j++)
        row[j] = j;
    for (uint32_t i = 1; i <= a.size; i++) {
        uint32_t diagonal = row[0];
        row[0] = i;
        for (uint32_t j = 1; j <= b.size; j++) {
            uint32_t replace = diagonal + (kb_lower(a.data[i - 1]) != b.data[j - 1]);
            diagonal = row[j];
            row[j] = KB_MIN(replace, KB_MIN(row[j], row[j - 1]) + 1);
        }
    }
    return row[b.size];
}

/* The spelling with the smallest distance to the item; NULL: all are too far from it. */
static const char *nearest_name(kineto_string item)
{
    const char *best = NULL;
    uint32_t best_distance = (uint32_t)KB_MIN(item.size / 3 + 1, 3u) + 1;
    if (item.size > MAX_NAME_BYTES)
        return NULL;
    for (size_t i = 0; i < kb_kind_alias_count; i++) {
        kineto_string name = kb_string(kb_kind_aliases[i].name);
        uint32_t distance = name.size <= MAX_NAME_BYTES ? edit_distance(item, name) : UINT32_MAX;
        if (distance < best_distance) {
            best_distance = distance;
            best = name.data;
        }
    }
    return best;
}

static kineto_status refuse_unknown_kind(kineto_string item, kineto_error *err)
{
    const char *near = nearest_name(item);
    int size = (int)KB_MIN(item.size, 64u);
    if (near)
        return kb_fail(err, KINETO_E_ARGUMENT, "unknown activity kind '%.*s'; did you mean '%s'?",
                       size, item.data, near);
    return kb_fail(
        err, KINETO_E_ARGUMENT,
        "unknown activity kind '%.*s'; use cpu_op, kernel, runtime, …, those of plug-ins "
        "(see `ckineto plugin list`), or the words default and all",
        size, item.data);
}

/* ---- lists ----------------------------------------------------------------------------------- */

static bool is_list_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

/* The next comma-separated item without blanks around it; moves *list past its comma. */
static kineto_string next_kind_item(const char **list)
{
    const char *begin = *list, *end = begin + strcspn(begin, ",");
    *list = *end ? end + 1 : end;
    while (begin < end && is_list_space(*begin))
        begin++;
    while (end > begin && is_list_space(end[-1]))
        end--;
    return (kineto_string){begin, (size_t)(end - begin)};
}

static uint64_t kinds_of_name(kineto_string item, uint64_t (*own)(kineto_string name))
{
    if (kb_string_is_ignoring_case(item, "default"))
        return KINETO_KINDS_DEFAULT;
    if (kb_string_is_ignoring_case(item, "all"))
        return KINETO_KINDS_ALL;
    int kind = kb_kind_parse(item);
    if (kind >= 0)
        return KINETO_KIND_BIT(kind);
    return own ? own(item) : 0;
}

kineto_status kb_kinds_parse(const char *list, uint64_t *mask, uint64_t (*own)(kineto_string name),
                             kineto_error *err)
{
    if (!list || !mask)
        return kb_fail_null(err, "kineto_kinds_parse", "list, mask", list, mask);
    uint64_t all = 0;
    while (*list) {
        kineto_string item = next_kind_item(&list);
        if (item.size == 0)
            continue;
        uint64_t kinds = kinds_of_name(item, own);
        if (!kinds)
            return refuse_unknown_kind(item, err);
        all |= kinds;
    }
    if (!all)
        return kb_fail(err, KINETO_E_ARGUMENT, "the list of kinds is empty");
    *mask = all;
    return KINETO_OK;
}
