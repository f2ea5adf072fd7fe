/* Errors, the names of status codes, and checks of structs that begin with their size. [rt] */
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
static size_t length_cut_at_character(const char *text, size_t size, size_t room)
{
    if (size <= room)
        return size;
    size_t n = room;
    while (n > 0 && ((unsigned char)text[n] & 0xc0) == 0x80)
        n--;
    return n;
}

static void set_error_message(kineto_error *err, const char *text)
{
    size_t n = length_cut_at_character(text, strlen(text), sizeof(err->message) - 1);
    memcpy(err->message, text, n);
    err->message[n] = '\0';
}

kineto_status (kb_fail)(kineto_error *err, kineto_status code, const char *fmt, ...)
{
    if (!err)
        return code;
    /* Through a buffer of its own: the arguments may point into err. */
    char text[sizeof(err->message) + 8];
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    set_error_message(err, n < 0 ? kineto_status_text(code) : text);
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

#ifdef __GLIBC_PREREQ /* not everywhere: musl has no such macro */
#if __GLIBC_PREREQ(2, 32)
#define HAS_PLAIN_TEXT
#pragma weak strerrordesc_np
#endif
#endif

static const char *errno_text(int os_error)
{
#ifdef HAS_PLAIN_TEXT
    if (!strerrordesc_np) /* built with glibc, loaded into a program of musl */
        return strerror(os_error);
    const char *text = strerrordesc_np(os_error);
    return text ? text : "unknown error";
#else
    return strerror(os_error);
#endif
}

kineto_status (kb_fail_os)(kineto_error *err, int os_error, const char *fmt, ...)
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
        used = length_cut_at_character(text, (size_t)n, sizeof(err->message) - why_room - 1);
    snprintf(text + used, sizeof(text) - used, ": %s", why);
    set_error_message(err, text);
    err->code = code;
    err->os_error = os_error;
    err->offset = 0;
    return code;
}

kineto_status (kb_fail_first_null)(kineto_error *err, const char *function, const char *names,
                                   const void *const *pointers)
{
    while (*pointers++) {
        names += strcspn(names, ",");
        KB_ASSERT(*names); /* at least one pointer is NULL */
        names += strspn(names, ", ");
    }
    return kb_fail(err, KINETO_E_ARGUMENT, "%s: %.*s must not be NULL", function,
                   (int)strcspn(names, ","), names);
}

kineto_status (kb_fail_memory)(kineto_error *err, const char *what)
{
    if (what)
        return kb_fail(err, KINETO_E_MEMORY, "%s: out of memory", what);
    return kb_fail(err, KINETO_E_MEMORY, "out of memory");
}

/* ---- structs that begin with their size -------------------------------------------------------
 */

/* More than any struct of the interface will have: a larger value was never set. */
#define MAX_STRUCT_BYTES 4096u

kineto_status kb_size_check(const void *given, const char *what, kineto_error *err)
{
    size_t size = sizeof size;
    if (given)
        memcpy(&size, given, sizeof size);
    if (size >= sizeof size && size <= MAX_STRUCT_BYTES)
        return KINETO_OK;
    return kb_fail(err, KINETO_E_ARGUMENT, "%s: size is %zu, not that of the struct; fill it with its _init function", what,
                   size);
}

kineto_status kb_options_read(void *known, size_t known_size, const void *given, const char *what,
                              kineto_error *err)
{
    size_t size = sizeof size;
    kineto_status status = kb_size_check(given, what, err);
    if (status || !given)
        return status;
    memcpy(&size, given, sizeof size);
    for (size_t i = known_size; i < size; i++)
        if (((const unsigned char *)given)[i])
            return kb_fail(err, KINETO_E_UNSUPPORTED, "%s: a member of a newer version is set",
                           what);
    size_t from = sizeof size;
    memcpy((char *)known + from, (const char *)given + from, KB_MIN(size, known_size) - from);
    return KINETO_OK;
}
