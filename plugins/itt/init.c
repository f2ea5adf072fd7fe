/* The entry point: each copy of ITT's static part calls it once, with its own list of functions. All
 * copies get the same functions; nothing is stored about any of them. */
#include "itt.h"

#include <dlfcn.h>
#include <stdlib.h>

#define CI_EXPORT __attribute__((visibility("default")))

static const cn_tally_kind itt_tallies[] = {
#define CI_X(name, loss, reason, detail)                                                           \
    [CI_TALLY_##name - CN_TALLY_FRONT_COUNT] = {(loss) != 0, (reason), (detail)},
    CI_TALLY_MAP(CI_X)
#undef CI_X
};
_Static_assert((int)CI_TALLY_COUNT <= (int)CN_MAX_TALLIES, "counters of notes");
const cn_source cn_this_source = {.name = "itt",
                                  .site_name = "ITT",
                                  .tallies = itt_tallies,
                                  .tally_count = CN_COUNT(itt_tallies)};

/* ---- pausing --------------------------------------------------------------------------------- */

atomic_bool ci_paused;
static atomic_bool is_detached;
/* Of the range that shows the pause. */
static atomic_uint_fast64_t pause_id;

/* A pause concerns the events of ITT only; other sources go on. */
void ci_pause(void)
{
    if (atomic_load(&ci_paused))
        return;
    uint64_t id = cn_recording() ? cn_range_start("ITT paused") : 0;
    atomic_store(&pause_id, id);
    atomic_store(&ci_paused, true);
}

void ci_resume(void)
{
    if (atomic_load(&is_detached) || !atomic_exchange(&ci_paused, false))
        return;
    uint64_t id = atomic_exchange(&pause_id, 0);
    if (id)
        cn_range_end(id);
}

void ci_detach(void)
{
    atomic_store(&is_detached, true);
    ci_pause();
}

/* ---- functions without a module of their own ------------------------------------------------- */

/* Programs ask for it to learn whether a collector is there. OpenCV then reports its functions, and
 * writes a warning to the standard error at its end, so this is provided on request only. */
static const char *get_collector_version(void) { return "ckineto, ITT 3.0"; }
static bool is_announced(void)
{
    const char *setting = secure_getenv("CKINETO_ITT");
    return setting && strcmp(setting, "announce") == 0;
}

static void name_this_thread(const char *name)
{
    if (name)
        kineto_thread_set_name(name);
}

static int name_this_thread_sized(const char *name, int size)
{
    (void)size; /* the text is NUL-terminated */
    name_this_thread(name);
    return 0;
}

static void name_sync_object(void *object, const char *type, int type_size, const char *name,
                             int name_size, int attribute)
{
    (void)type_size, (void)name_size;
    ci_sync_create(object, type, name, attribute);
}

static ci_histogram *create_histogram(const ci_domain *domain, const char *name, int x_type,
                                      int y_type)
{
    static ci_histogram unrecorded;
    (void)domain, (void)name, (void)x_type, (void)y_type;
    return &unrecorded;
}
static void count_histogram(ci_histogram *histogram, size_t size, void *x, void *y)
{
    (void)histogram, (void)size, (void)x, (void)y;
    if (ci_recording())
        cn_count(CI_TALLY_HISTOGRAMS);
}

static void relate_current_ex(const ci_domain *domain, void *clock, unsigned long long time,
                              int relation, ci_id tail)
{
    ci_count_own_time(clock, time);
    ci_relate_current(domain, relation, tail);
}
static void relate_ex(const ci_domain *domain, void *clock, unsigned long long time, ci_id head,
                      int relation, ci_id tail)
{
    ci_count_own_time(clock, time);
    ci_relate(domain, head, relation, tail);
}

/* ---- the list -------------------------------------------------------------------------------- */

typedef struct itt_function {
    const char *name; /* without "__itt_" */
    ci_function function;
} itt_function;

/* Functions of many types in one list: each name implies the type with which it is called. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wcast-function-type"
#endif
#define ENTRY(name, function) {name, (ci_function)(function)}

/* Functions that are not here stay unset: heap, model, suppression, stack stitching, modules, ids and
 * clocks, whose calls have no effect on a timeline. */
static const itt_function itt_functions[] = {
    ENTRY("domain_create", ci_domain_create),
    ENTRY("string_handle_create", ci_string_create),
    ENTRY("get_timestamp", ci_get_timestamp),
    ENTRY("pause", ci_pause),
    ENTRY("resume", ci_resume),
    ENTRY("detach", ci_detach),
    ENTRY("thread_set_name", name_this_thread),
    ENTRY("thr_name_set", name_this_thread_sized),
    ENTRY("task_begin", ci_task_begin),
    ENTRY("task_begin_ex", ci_task_begin_ex),
    ENTRY("task_begin_fn", ci_task_begin_fn),
    ENTRY("task_begin_fn_ex", ci_task_begin_fn_ex),
    ENTRY("task_end", ci_task_end),
    ENTRY("task_end_ex", ci_task_end_ex),
    ENTRY("task_group", ci_task_group),
    ENTRY("task_begin_overlapped", ci_overlapped_begin),
    ENTRY("task_begin_overlapped_ex", ci_overlapped_begin_ex),
    ENTRY("task_end_overlapped", ci_overlapped_end),
    ENTRY("task_end_overlapped_ex", ci_overlapped_end_ex),
    ENTRY("region_begin", ci_region_begin),
    ENTRY("region_end", ci_region_end),
    ENTRY("frame_begin_v3", ci_frame_begin),
    ENTRY("frame_end_v3", ci_frame_end),
    ENTRY("frame_submit_v3", ci_frame_submit),
    ENTRY("frame_create", ci_domain_create),
    ENTRY("frame_begin", ci_old_frame_begin),
    ENTRY("frame_end", ci_old_frame_end),
    ENTRY("marker", ci_marker),
    ENTRY("marker_ex", ci_marker_ex),
    ENTRY("event_create", ci_event_create),
    ENTRY("event_start", ci_event_start),
    ENTRY("event_end", ci_event_end),
    ENTRY("mark_create", ci_mark_create),
    ENTRY("mark", ci_mark),
    ENTRY("mark_global", ci_mark),
    ENTRY("metadata_add", ci_metadata_add),
    ENTRY("metadata_str_add", ci_metadata_text_add),
    ENTRY("metadata_add_with_scope", ci_metadata_add_scoped),
    ENTRY("metadata_str_add_with_scope", ci_metadata_text_add_scoped),
    ENTRY("formatted_metadata_add", ci_metadata_format),
    ENTRY("formatted_metadata_add_overlapped", ci_metadata_format_overlapped),
    ENTRY("relation_add_to_current", ci_relate_current),
    ENTRY("relation_add_to_current_ex", relate_current_ex),
    ENTRY("relation_add", ci_relate),
    ENTRY("relation_add_ex", relate_ex),
    ENTRY("counter_create", ci_counter_create),
    ENTRY("counter_create_typed", ci_counter_create_typed),
    ENTRY("counter_create_v3", ci_counter_create_v3),
    ENTRY("counter_inc", ci_counter_inc),
    ENTRY("counter_inc_delta", ci_counter_inc_delta),
    ENTRY("counter_dec", ci_counter_dec),
    ENTRY("counter_dec_delta", ci_counter_dec_delta),
    ENTRY("counter_set_value", ci_counter_set),
    ENTRY("counter_set_value_ex", ci_counter_set_ex),
    ENTRY("counter_set_value_v3", ci_counter_set),
    ENTRY("counter_inc_v3", ci_counter_inc_v3),
    ENTRY("counter_inc_delta_v3", ci_counter_inc_delta_v3),
    ENTRY("counter_dec_v3", ci_counter_dec_v3),
    ENTRY("counter_dec_delta_v3", ci_counter_dec_delta_v3),
    ENTRY("histogram_create", create_histogram),
    ENTRY("histogram_submit", count_histogram),
    ENTRY("sync_create", ci_sync_create),
    ENTRY("sync_set_name", ci_sync_create),
    ENTRY("notify_sync_name", name_sync_object),
    ENTRY("sync_rename", ci_sync_rename),
    ENTRY("sync_destroy", ci_sync_destroy),
    ENTRY("sync_prepare", ci_sync_prepare),
    ENTRY("sync_cancel", ci_sync_cancel),
    ENTRY("sync_acquired", ci_sync_acquired),
    ENTRY("notify_sync_prepare", ci_sync_prepare),
    ENTRY("notify_sync_cancel", ci_sync_cancel),
    ENTRY("notify_sync_acquired", ci_sync_acquired),
};

/* ---- entry points ---------------------------------------------------------------------------- */

CI_EXPORT void __itt_api_init(ci_global *global, int groups);
CI_EXPORT void __itt_api_fini(ci_global *global);

/* NULL: it is not provided. */
static ci_function find_itt_function(const char *name)
{
    static const char prefix[] = "__itt_";
    if (strncmp(name, prefix, sizeof prefix - 1) != 0)
        return NULL;
    for (size_t i = 0; i < CN_COUNT(itt_functions); i++)
        if (strcmp(name + sizeof prefix - 1, itt_functions[i].name) == 0)
            return itt_functions[i].function;
    if (is_announced() && strcmp(name, "__itt_api_version") == 0)
        return (ci_function)get_collector_version;
    return NULL;
}

/* A function that is not provided gets what the program has in its place, mostly NULL: libomp takes a
 * pointer that is left as it was for a function that works, and aborts. */
static void set_itt_function(const ci_api *api, bool is_wanted)
{
    ci_function function = is_wanted ? find_itt_function(api->name) : NULL;
    if (api->pointer)
        *api->pointer = function ? function : api->absent;
}

/* LLVM's and Intel's OpenMP report to ITT, too. Where ckineto's tool of OpenMP (OMPT) is in the process,
 * that records more, and the same regions would be there twice. */
static bool is_recorded_otherwise(const ci_global *global)
{
    const char *tools = secure_getenv("OMP_TOOL_LIBRARIES"), *use = secure_getenv("OMP_TOOL");
    Dl_info info;
    if (!tools || !strstr(tools, "ckineto") || (use && strcmp(use, "disabled") == 0) ||
        !dladdr(global, &info) || !info.dli_fname)
        return false;
    const char *slash = strrchr(info.dli_fname, '/'), *file = slash ? slash + 1 : info.dli_fname;
    return strncmp(file, "libomp", 6) == 0 || strncmp(file, "libiomp", 7) == 0;
}

/* `groups`: those that the program wants; a function is in one or more. */
void __itt_api_init(ci_global *global, int groups)
{
    static const unsigned char magic[] = CI_MAGIC;
    if (!global || memcmp(global->magic, magic, sizeof magic) != 0)
        return;
    if (global->version_major != CI_VERSION_MAJOR ||
        global->version_build <= CI_LAST_SHORT_BUILD || !global->api_list) {
        cn_count(CI_TALLY_VERSION);
        return;
    }
    bool is_left_out = is_recorded_otherwise(global);
    for (const ci_api *api = global->api_list; api->name; api++)
        set_itt_function(api, !is_left_out && (api->group & groups) != 0);
}

/* Nothing to undo: events may come until the process ends. */
void __itt_api_fini(ci_global *global) { (void)global; }
