/* Memory with an end: what a plug-in is given lies before a page that cannot be read, so that
 * reading more than there is shows; and memory of a plug-in is read so that nothing it gives can
 * crash us. */
#include "plugincheck/check.h"

#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

/* Pairs of a page that can be used and one that cannot: a ring for the length of a call, and one
 * for what a plug-in may keep longer. */
#define PASSING 64u
#define KEPT    192u
#define FOREVER 8u /* the first ones: the registry */
#define SLOTS   (PASSING + KEPT)

static struct {
    char *base;
    size_t page;
    unsigned passing, kept; /* the next ones */
    const char *what[SLOTS];
    bool closed[SLOTS];
    kv_where *where;
} guard;

static _Thread_local sigjmp_buf probe;
static _Thread_local volatile sig_atomic_t probing;

static void describe(const char *at)
{
    size_t slot = (size_t)(at - guard.base) / (2 * guard.page);
    size_t offset = (size_t)(at - guard.base) % (2 * guard.page);
    bool behind = offset >= guard.page;
    if (!guard.what[slot] || !(behind || guard.closed[slot]))
        return;
    snprintf(guard.where->guard, sizeof guard.where->guard, "%s %s",
             behind ? "it went behind the end of" : "it kept after the call", guard.what[slot]);
}

/* Back into kv_copy_in, or say what it was and let the crash happen. */
static void on_fault(int number, siginfo_t *info, void *context)
{
    (void)context;
    if (probing)
        siglongjmp(probe, 1);
    const char *at = info->si_addr;
    if (at >= guard.base && at < guard.base + 2 * SLOTS * guard.page)
        describe(at);
    signal(number, SIG_DFL);
    if (info->si_code <= 0) /* somebody sent it: it would not come again by itself */
        raise(number);
}

bool kv_guard_init(kv_where *where)
{
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_NODEFER};
    guard.page = kb_os_page_bytes();
    guard.where = where;
    void *base = mmap(NULL, 2 * SLOTS * guard.page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED)
        return false;
    guard.base = base;
    sigemptyset(&action.sa_mask);
    return sigaction(SIGSEGV, &action, NULL) == 0 && sigaction(SIGBUS, &action, NULL) == 0;
}

void *kv_guard_new(size_t bytes, const char *what, bool keep)
{
    unsigned slot = keep ? PASSING + guard.kept : guard.passing++ % PASSING;
    if (keep && ++guard.kept == KEPT)
        guard.kept = FOREVER;
    char *page = guard.base + 2 * slot * guard.page;
    bytes = kb_align(bytes, 8);
    if (bytes > guard.page || mprotect(page, guard.page, PROT_READ | PROT_WRITE) != 0)
        _exit(KV_NO_MEMORY); /* of the child: its parent says so */
    guard.what[slot] = what;
    guard.closed[slot] = false;
    return memset(page + guard.page - bytes, 0, bytes);
}

void kv_guard_close(void *p, size_t bytes)
{
    size_t slot = (size_t)((char *)p + bytes - 1 - guard.base) / (2 * guard.page);
    guard.closed[slot] = true;
    mprotect(guard.base + 2 * slot * guard.page, guard.page, PROT_NONE);
}

#if defined(__has_feature)
#define KV_HAS_FEATURE(x) __has_feature(x)
#else
#define KV_HAS_FEATURE(x) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || KV_HAS_FEATURE(address_sanitizer)
#define KV_UNCHECKED __attribute__((noinline, no_sanitize_address))
#else
#define KV_UNCHECKED __attribute__((noinline))
#endif

/* Byte by byte, and not by memcpy: a page may end anywhere, and a sanitizer has its own ideas of
 * what may be read. */
static KV_UNCHECKED void copy_bytes(volatile char *to, const volatile char *from, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        to[i] = from[i];
}

static KV_UNCHECKED size_t find_end(const volatile char *text, size_t most)
{
    size_t n = 0;
    while (n <= most && text[n])
        n++;
    return n <= most ? n : SIZE_MAX;
}

bool kv_copy_in(void *to, const void *from, size_t bytes)
{
    if (!from && bytes)
        return false;
    if (sigsetjmp(probe, 0)) {
        probing = 0;
        return false;
    }
    probing = 1;
    copy_bytes(to, from, bytes);
    probing = 0;
    return true;
}

bool kv_readable(const void *from, size_t bytes)
{
    char buf[4096];
    const char *at = from;
    for (size_t done = 0; done < bytes; done += sizeof buf)
        if (!kv_copy_in(buf, at + done, KB_MIN(bytes - done, sizeof buf)))
            return false;
    return true;
}

size_t kv_text_size(const char *text, size_t most)
{
    if (!text || sigsetjmp(probe, 0)) {
        probing = 0;
        return SIZE_MAX;
    }
    probing = 1;
    size_t n = find_end(text, most);
    probing = 0;
    return n;
}

const char *kv_quote(const char *text, char *buf, size_t size)
{
    size_t n = kv_text_size(text, 4096), used = 0;
    if (n == SIZE_MAX)
        return "(unreadable)";
    for (size_t i = 0; i < n && used + 5 < size; i++) {
        unsigned char c = (unsigned char)text[i];
        bool plain = c >= 0x20 && c < 0x7f;
        used += (size_t)snprintf(buf + used, size - used, plain ? "%c" : "\\x%02x", c);
    }
    buf[KB_MIN(used, size - 1)] = 0;
    return buf;
}
