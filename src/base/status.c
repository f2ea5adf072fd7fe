/* Errors, status names, and the table of activity kinds with every spelling of them. [rt] */
#include "base/base.h"

#include <errno.h>

/* ---- status -----------------------------------------------------------------------------------
 */

const char *kineto_status_name(kineto_status status)
{
    switch (status) {
#define KINETO_X(name, value, text)                                                                \
    case KINETO_##name:                                                                            \
        return #name;
        KINETO_STATUS_MAP(KINETO_X)
#undef KINETO_X
    }
    return "E_UNKNOWN";
}

const char *kineto_status_text(kineto_status status)
{
    switch (status) {
#define KINETO_X(name, value, text)                                                                \
    case KINETO_##name:                                                                            \
        return text;
        KINETO_STATUS_MAP(KINETO_X)
#undef KINETO_X
    }
    return "unknown status";
}

const char *kineto_version(void) { return KINETO_VERSION; }

/* ---- errors -----------------------------------------------------------------------------------
 */

/* Bytes of text to keep in `room` (without the NUL), not cutting through a UTF-8 sequence. */
static size_t cut_length(const char *text, size_t size, size_t room)
{
    if (size <= room)
        return size;
    size_t n = room;
    while (n > 0 && ((unsigned char)text[n] & 0xc0) == 0x80)
        n--;
    return n;
}

static void set_message(kineto_error *err, const char *text)
{
    size_t n = cut_length(text, strlen(text), sizeof(err->message) - 1);
    memcpy(err->message, text, n);
    err->message[n] = '\0';
}

kineto_status kb_fail(kineto_error *err, kineto_status code, const char *fmt, ...)
{
    if (!err)
        return code;
    /* Through a buffer of its own: the arguments may point into err. */
    char text[sizeof(err->message) + 8];
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    set_message(err, n < 0 ? kineto_status_text(code) : text);
    err->code = code;
    err->os_error = 0;
    err->offset = 0;
    return code;
}

static kineto_status status_of_errno(int os_error)
{
    switch (os_error) {
    case ENOMEM:
        return KINETO_E_MEMORY;
    case EACCES:
    case EPERM:
    case EROFS:
        return KINETO_E_PERMISSION;
    case ENOENT:
    case ENOTDIR:
    case ESRCH:
        return KINETO_E_NOT_FOUND;
    case EBUSY:
    case ETXTBSY:
    case EEXIST:
        return KINETO_E_BUSY;
    case EISDIR:
    case ENAMETOOLONG:
        return KINETO_E_ARGUMENT;
    case EMFILE:
    case ENFILE:
    case EFBIG:
        return KINETO_E_LIMIT;
    case ENOSYS:
    case EOPNOTSUPP:
        return KINETO_E_UNSUPPORTED;
    default:
        return KINETO_E_IO;
    }
}

static const char *errno_text(int os_error)
{
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 32)
    const char *text = strerrordesc_np(os_error);
    return text ? text : "unknown error";
#else
    return strerror(os_error);
#endif
}

kineto_status kb_fail_os(kineto_error *err, int os_error, const char *fmt, ...)
{
    kineto_status code = status_of_errno(os_error);
    if (!err)
        return code;
    const char *why = errno_text(os_error);
    char text[sizeof(err->message) + 8];
    /* The reason matters more than the end of a long path: keep room for it. */
    size_t why_room = KB_MIN(strlen(why) + 2, sizeof(text) / 2);
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(text, sizeof(err->message) - why_room, fmt, args);
    va_end(args);
    size_t used = 0;
    if (n > 0)
        used = cut_length(text, (size_t)n, sizeof(err->message) - why_room - 1);
    snprintf(text + used, sizeof(text) - used, ": %s", why);
    set_message(err, text);
    err->code = code;
    err->os_error = os_error;
    err->offset = 0;
    return code;
}

/* ---- kinds ------------------------------------------------------------------------------------
 */

/* The first KINETO_KIND_COUNT rows are the neutral names in order; vendors' spellings follow, then
 * those of old traces. Where rows share a number the first one is its name. */
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
    ROW("cuda_event", CUDA_EVENT, -1, 16),
    ROW("cuda_profiler_range", CUDA_PROFILER_RANGE, 18, 19),
    ROW("counter", COUNTER, -1, -1),
    ROW("memory", MEMORY, -1, -1),

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

/* ASCII only: the locale of the program must not change what a kind is. */
static char lower(char c) { return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c; }

static bool equal_any_case(kineto_string a, const char *lower_case)
{
    for (size_t i = 0; i < a.size; i++) {
        if (lower_case[i] == '\0' || lower(a.data[i]) != lower_case[i])
            return false;
    }
    return lower_case[a.size] == '\0';
}

int kb_kind_parse(kineto_string name)
{
    for (size_t i = 0; i < kb_kind_alias_count; i++) {
        if (equal_any_case(name, kb_kind_aliases[i].name))
            return kb_kind_aliases[i].kind;
    }
    return -1;
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

static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

/* The next comma-separated item without blanks around it; moves *list behind its comma. */
static kineto_string next_item(const char **list)
{
    const char *begin = *list, *end = begin + strcspn(begin, ",");
    *list = *end ? end + 1 : end;
    while (begin < end && is_blank(*begin))
        begin++;
    while (end > begin && is_blank(end[-1]))
        end--;
    return (kineto_string){begin, (size_t)(end - begin)};
}

static uint64_t kinds_of_item(kineto_string item)
{
    if (equal_any_case(item, "default"))
        return KINETO_KINDS_DEFAULT;
    if (equal_any_case(item, "all"))
        return KINETO_KINDS_ALL;
    int kind = kb_kind_parse(item);
    return kind < 0 ? 0 : KINETO_KIND_BIT(kind);
}

kineto_status kineto_kinds_parse(const char *list, uint64_t *mask, kineto_error *err)
{
    if (!list || !mask)
        return kb_fail(err, KINETO_E_ARGUMENT, "kinds: list and mask must not be NULL");
    uint64_t all = 0;
    while (*list) {
        kineto_string item = next_item(&list);
        if (item.size == 0)
            continue;
        uint64_t kinds = kinds_of_item(item);
        if (!kinds)
            return kb_fail(
                err, KINETO_E_ARGUMENT,
                "'%.*s' is no kind of activity; kinds are cpu_op, kernel, runtime, … and "
                "the words default and all",
                (int)KB_MIN(item.size, 64), item.data);
        all |= kinds;
    }
    if (!all)
        return kb_fail(err, KINETO_E_ARGUMENT, "the list of kinds is empty");
    *mask = all;
    return KINETO_OK;
}
