/* Recognises devices and device work in files of any writer. Kineto's categories mark
 * device work; other writers (torch_npu and msprof, XLA, rocprof, RPD, converters of
 * Nsight's files) mark it by labels and names of process rows, some by names of threads.
 * A reader decides it once, when all events are there, so that every analysis and
 * writer agrees. */
#include "trace/model/model.h"

#include "trace/bytes/json_value.h"

static bool name_is(kineto_string a, const char *b) { return kb_string_equal(a, kb_string(b)); }

static kineto_string text_with_id(const kineto_trace *t, uint32_t id)
{
    return kb_intern_get(&t->strings, id);
}

/* ---- names of devices ------------------------------------------------------------------------ */

/* The number at the beginning of a text, up to nine digits; -1: none. *rest: the text after it. */
static int64_t parse_device_number(kineto_string s, kineto_string *rest)
{
    int64_t number = 0;
    size_t at = 0;
    for (; at < s.size && at < 9 && kb_is_digit(s.data[at]); at++)
        number = number * 10 + (s.data[at] - '0');
    *rest = kb_string_skip(s, at);
    return at > 0 ? number : -1;
}

/* True if the text begins with the word for a type of device. *rest: the text after the word. */
static bool begins_with_device(kineto_string s, kineto_string *rest)
{
    static const char *const words[] = {"GPU", "NPU", "TPU", "XPU", "HPU", "MLU", "DCU"};
    for (size_t i = 0; i < KB_COUNT(words); i++)
        if (kb_string_starts_with(s, words[i])) {
            *rest = kb_string_skip(s, strlen(words[i]));
            return true;
        }
    return false;
}

/* A process label of a device: "GPU 0", "NPU", "GPU 3, rank 1". *number: -1 if it has none. */
static bool is_device_label(kineto_string label, int64_t *number)
{
    kineto_string rest;
    if (!begins_with_device(label, &rest) || (rest.size && rest.data[0] != ' '))
        return false;
    *number = rest.size ? parse_device_number(kb_string_skip(rest, 1), &rest) : -1;
    return true;
}

/* A process name of XLA: "/device:GPU:0", also after the name of a host. "/device:CUSTOM:…"
 * are derived lists, and "/device:CPU:0" is the host. */
static bool is_xla_device(kineto_string name, int64_t *number)
{
    static const char mark[] = "/device:";
    kineto_string rest;
    const char *at = memmem(name.data, name.size, mark, sizeof mark - 1);
    if (!at ||
        !begins_with_device(kb_string_skip(name, (size_t)(at - name.data) + sizeof mark - 1),
                            &rest))
        return false;
    *number = -1;
    if (rest.size && rest.data[0] == ':')
        *number = parse_device_number(kb_string_skip(rest, 1), &rest);
    return true;
}

/* "GPU0" (rocprof, RPD), "GPU 0" and "Device 0" (converters): nothing follows the number. */
static bool is_numbered_device(kineto_string name, int64_t *number)
{
    kineto_string rest;
    if (kb_string_starts_with(name, "Device "))
        rest = kb_string_skip(name, 7);
    else if (!begins_with_device(name, &rest))
        return false;
    if (rest.size && rest.data[0] == ' ')
        rest = kb_string_skip(rest, 1);
    *number = parse_device_number(rest, &rest);
    return *number >= 0 && !rest.size;
}

bool kt_is_device_name(kineto_string name, int64_t *number)
{
    *number = -1;
    return name_is(name, "Ascend Hardware") || is_xla_device(name, number) ||
           is_numbered_device(name, number);
}

/* ---- numbers of devices ---------------------------------------------------------------------- */

/* The device in a pid of msprof, which encodes process, sort index, and device (the low
 * five bits); -1: no such pid. */
static int64_t device_in_msprof_pid(const kt_process_row *p)
{
    bool packed = p->pid >= 1024 && (p->pid >> 5 & 31) == p->sort_index;
    return packed ? p->pid & 31 : -1;
}

/* True for process rows in which torch_npu and msprof write collectives and overviews of an NPU. */
static bool is_part_of_npu(kineto_string name)
{
    return name_is(name, "Communication") || name_is(name, "HCCL") ||
           name_is(name, "Overlap Analysis");
}

/* The number of the NPU if the trace has exactly one; else -1. */
static int64_t find_only_npu(const kineto_trace *t, const kt_process_row *final)
{
    int64_t number = -1;
    uint32_t count = 0;
    for (uint32_t i = 0; i < t->processes.count; i++)
        if (name_is(text_with_id(t, final[i].name), "Ascend Hardware")) {
            number = device_in_msprof_pid(&final[i]) < 0 ? final[i].pid : -1;
            count++;
        }
    return count == 1 ? number : -1;
}

uint32_t kt_device_process(const kineto_trace *t, uint32_t process)
{
    const kt_process_row *all = t->processes.data, *part = &all[process];
    uint32_t found = process;
    if (!part->is_device || !is_part_of_npu(text_with_id(t, part->name)))
        return process;
    for (uint32_t i = 0; i < t->processes.count && (i < process || found == process); i++)
        if (name_is(text_with_id(t, all[i].name), "Ascend Hardware") &&
            all[i].pid == part->pid &&
            all[i].rank == part->rank)
            found = i;
    return found;
}

/* Finds the numbers of devices whose pid is a text: "device" in the args of one of their
 * first rows. False: out of memory. */
static bool read_device_numbers(const kineto_trace *t, kt_process_row *final)
{
    enum { MAX_TRIED_ROWS = 100 };
    uint8_t *left = calloc(t->processes.count + 1, 1);
    for (uint32_t i = 0; left && i < t->processes.count; i++)
        if (final[i].is_device && kt_process_text_of(t, i).data)
            left[i] = MAX_TRIED_ROWS;
    for (kineto_row row = 0; left && row < t->count; row++) {
        uint32_t process = t->tracks.data[kt_row_track(t, row)].process;
        int64_t number;
        if (!left[process])
            continue;
        left[process]--;
        kineto_string args = kt_args_text(t, row);
        if (!args.size || !kt_json_int(kt_member_of(args, "device"), &number) || number < 0)
            continue;
        final[process].number = number;
        left[process] = 0;
    }
    bool ok = left != NULL;
    free(left);
    return ok;
}

/* Sets the number of a device: the stated one, else the one encoded in its pid. */
static void set_device_number(const kineto_trace *t, uint32_t index, kt_process_row *p,
                              int64_t stated)
{
    bool has_text = kt_process_text_of(t, index).data != NULL;
    int64_t number = stated < 0 && !has_text ? device_in_msprof_pid(p) : stated;
    if (number >= 0)
        *(has_text ? &p->number : &p->pid) = number;
}

/* ---- device processes ------------------------------------------------------------------------ */

static bool is_device_work_kind(uint32_t kind)
{
    return kt_kind_is_work(kind) || kind == KINETO_KIND_GPU_USER_ANNOTATION;
}

/* Marks processes with rows of device work as devices, unless they are labelled "CPU". */
static void mark_devices_by_rows(const kineto_trace *t, kt_process_row *final)
{
    const uint64_t kinds = KINETO_KIND_BIT(KINETO_KIND_CONCURRENT_KERNEL) |
                           KINETO_KIND_BIT(KINETO_KIND_GPU_MEMCPY) |
                           KINETO_KIND_BIT(KINETO_KIND_GPU_MEMSET) |
                           KINETO_KIND_BIT(KINETO_KIND_GPU_USER_ANNOTATION);
    for (size_t b = 0; b < t->blocks.count; b++) {
        const kt_block *block = t->blocks.data[b];
        for (uint32_t i = 0; block->kinds & kinds && i < block->count; i++)
            if (is_device_work_kind(block->kind[i])) {
                kt_process_row *p = &final[t->tracks.data[block->track[i]].process];
                p->is_device = p->is_device || !name_is(text_with_id(t, p->label), "CPU");
            }
    }
}

void kt_find_device_rows(kt_builder *b, kt_process_row *final)
{
    const kineto_trace *t = b->trace;
    bool any_text = false;
    int64_t only_npu = find_only_npu(t, final);
    mark_devices_by_rows(t, final);
    for (uint32_t i = 0; i < t->processes.count; i++) {
        kt_process_row *p = &final[i];
        kineto_string label = text_with_id(t, p->label);
        int64_t of_label = -1, of_name = -1;
        bool by_label = is_device_label(label, &of_label);
        bool by_name =
            !name_is(label, "CPU") && kt_is_device_name(text_with_id(t, p->name), &of_name);
        if (of_name < 0 && of_label < 0 && is_part_of_npu(text_with_id(t, p->name)))
            of_name = only_npu;
        p->is_device = p->is_device || by_label || by_name;
        if (p->is_device)
            set_device_number(t, i, p, of_name >= 0 ? of_name : of_label);
        any_text |= p->is_device && kt_process_text_of(t, i).data;
    }
    if (any_text && !read_device_numbers(t, final))
        b->status = KINETO_E_MEMORY;
}

uint32_t kt_track_type_of(const kineto_trace *t, uint32_t track, const kt_process_row *process)
{
    uint32_t type = t->tracks.data[track].type;
    bool of_text = kt_process_text_of(t, t->tracks.data[track].process).data != NULL;
    bool is_numbered = of_text && process->number >= 0 && !kt_track_text_of(t, track).data;
    if (type == KINETO_TRACK_OTHER && is_numbered)
        type = KINETO_TRACK_THREAD;
    return type == KINETO_TRACK_THREAD && process->is_device ? KINETO_TRACK_STREAM : type;
}

/* ---- device work ----------------------------------------------------------------------------- */

/* The meaning of the ranges of a track. LISTS repeat the work of other tracks, by module,
 * scope or step. */
typedef enum track_role { HOST, WORK, COPIES, LISTS, XLA_OPS } track_role;

static track_role xla_track_role(kineto_string track)
{
    static const char *const lists[] = {
        "Steps",       "XLA Modules",    "XLA TraceMe",           "Framework Ops",
        "Framework Name Scope",          "Source code",           "TensorFlow Ops",
        "Source Code", "TensorFlow Name Scope", "Async XLA Ops",  "Launch Stats",
        "Name Scope"};
    for (size_t i = 0; i < KB_COUNT(lists); i++)
        if (kb_string_starts_with(track, lists[i]))
            return LISTS;
    return kb_string_starts_with(track, "XLA Ops") ? XLA_OPS : WORK;
}

static track_role device_track_role(const kineto_trace *t, const kt_track_row *track)
{
    const kt_process_row *p = &t->processes.data[track->process];
    kineto_string process = text_with_id(t, p->name), name = text_with_id(t, track->name);
    int64_t number;
    if (!p->is_device || track->type == KINETO_TRACK_COUNTER || track->type == KINETO_TRACK_ASYNC)
        return HOST;
    if (name_is(process, "Overlap Analysis") || kb_string_starts_with(name, "Step Trace"))
        return LISTS;
    if (is_part_of_npu(process) && kb_string_starts_with(name, "Plane"))
        return LISTS; /* tasks of a collective, on the track of its group */
    if (is_xla_device(process, &number))
        return xla_track_role(name);
    return name_is(process, "COPY") ? COPIES : WORK;
}

bool kt_row_is_summary(const kineto_trace *t, kineto_row row)
{
    const kt_block *b = kt_block_at(t, row / KT_BLOCK_ROWS);
    uint32_t i = row % KT_BLOCK_ROWS;
    if (b->kind[i] == KINETO_KIND_OVERHEAD)
        return name_is(kt_category_string(t, b->category[i]), "Trace");
    if (b->kind[i] != KINETO_KIND_GPU_USER_ANNOTATION)
        return false;
    track_role role = device_track_role(t, &t->tracks.data[b->track[i]]);
    return role == LISTS || role == XLA_OPS;
}

/* XLA's list of operators repeats the streams of a device, if it has any (GPU); a TPU has
 * only the list. */
static bool resolve_xla_ops(const kineto_trace *t, uint8_t *roles)
{
    uint8_t *has_streams = calloc(t->processes.count + 1, 1);
    for (size_t i = 0; has_streams && i < t->tracks.count; i++)
        has_streams[t->tracks.data[i].process] |= roles[i] == WORK && t->tracks.data[i].count;
    for (size_t i = 0; has_streams && i < t->tracks.count; i++)
        if (roles[i] == XLA_OPS && has_streams[t->tracks.data[i].process])
            roles[i] = LISTS;
    bool ok = has_streams != NULL;
    free(has_streams);
    return ok;
}

/* Kind of a task of a stream by its name: copies, fills and waits, else a kernel. */
static uint32_t device_task_kind(kineto_string name)
{
    static const struct {
        const char *word;
        uint32_t kind;
    } tasks[] = {{"memcpy", KINETO_KIND_GPU_MEMCPY},       {"memset", KINETO_KIND_GPU_MEMSET},
                 {"copydeviceto", KINETO_KIND_GPU_MEMCPY}, {"copyhostto", KINETO_KIND_GPU_MEMCPY},
                 {"event_wait", KINETO_KIND_CUDA_SYNC},    {"event_record", KINETO_KIND_CUDA_SYNC},
                 {"notify_wait", KINETO_KIND_CUDA_SYNC},
                 {"notify_record", KINETO_KIND_CUDA_SYNC}};
    for (size_t i = 0; i < KB_COUNT(tasks); i++)
        if (kb_string_contains_ignoring_case(name, tasks[i].word))
            return tasks[i].kind;
    return KINETO_KIND_CONCURRENT_KERNEL;
}

static uint32_t kind_for_role(track_role role, kineto_string name)
{
    switch (role) {
    case COPIES:
        return KINETO_KIND_GPU_MEMCPY;
    case LISTS:
        return KINETO_KIND_GPU_USER_ANNOTATION;
    default:
        return device_task_kind(name);
    }
}

/* By index of the category: 1 if it is neither Kineto's nor a plug-in's. NULL: out of
 * memory. The caller frees it. */
static uint8_t *find_foreign_categories(kt_builder *b)
{
    const kineto_trace *t = b->trace;
    uint8_t *foreign = calloc(t->categories.count + 1, 1);
    for (size_t i = 0; foreign && i < t->categories.count; i++) {
        kineto_string category = text_with_id(t, t->categories.data[i]);
        foreign[i] = kb_kind_parse(category) < 0 && kt_own_kind_find(b, category) < 0;
    }
    return foreign;
}

/* Gives rows on device tracks the kind of their role, if their category does not determine it. */
static void set_device_kinds(kt_builder *b, const uint8_t *roles, const uint8_t *foreign)
{
    const uint64_t bit = KINETO_KIND_BIT(KINETO_KIND_USER_ANNOTATION);
    kineto_trace *t = b->trace;
    for (size_t n = 0; n < t->blocks.count; n++) {
        kt_block *block = t->blocks.data[n];
        for (uint32_t i = 0; block->kinds & bit && i < block->count; i++) {
            track_role role = (track_role)roles[block->track[i]];
            if (role == HOST || block->kind[i] != KINETO_KIND_USER_ANNOTATION ||
                block->form[i] != KINETO_FORM_SLICE || !foreign[block->category[i]])
                continue;
            uint32_t kind = kind_for_role(role, text_with_id(t, block->name[i]));
            bool has_category = text_with_id(t, t->categories.data[block->category[i]]).size > 0;
            if (has_category) { /* which it keeps */
                block->kind[i] = (uint8_t)kind;
                block->kinds |= KINETO_KIND_BIT(kind);
            } else {
                kt_row_set_kind(b, (kineto_row)(n * KT_BLOCK_ROWS + i), kind);
            }
        }
    }
}

void kt_set_device_work(kt_builder *b)
{
    const kineto_trace *t = b->trace;
    uint8_t *roles = calloc(t->tracks.count + 1, 1), *foreign = find_foreign_categories(b);
    bool any = false;
    for (size_t i = 0; roles && i < t->tracks.count; i++) {
        roles[i] = (uint8_t)device_track_role(t, &t->tracks.data[i]);
        any |= roles[i] != HOST;
    }
    if (!roles || !foreign || (any && !resolve_xla_ops(t, roles)))
        b->status = KINETO_E_MEMORY;
    else if (any)
        set_device_kinds(b, roles, foreign);
    free(roles);
    free(foreign);
}
