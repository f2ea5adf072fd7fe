/* Guarded memory: blocks that a plug-in receives end at a page without access, so that reading
 * too far raises SIGSEGV, which is recorded in the crash site; and copies from memory of the
 * plug-in that survive bad pointers. The fault handler distinguishes both by the thread-local
 * flag `probing`. */
#include "plugincheck/check_guard.h"

#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

/* A slot is a pair of an accessible and an inaccessible page. Slots form two rings: one for blocks
 * that live during a call, and one for blocks that a plug-in may keep. */
#define PASSING_SLOTS 64u
#define KEPT_SLOTS    192u
#define PINNED_SLOTS  8u /* the first kept ones, never reused: the registry */
#define ALL_SLOTS     (PASSING_SLOTS + KEPT_SLOTS)

static struct {
    char *base;
    size_t page;
    /* counters of the two rings: the next slots */
    unsigned passing, kept;
    /* for the message; NULL: never used */
    const char *what[ALL_SLOTS];
    bool closed[ALL_SLOTS];
    kv_crash_site *site;
} guard;

/* While `probing` is set, a fault of this thread returns to `probe_return`. */
static _Thread_local sigjmp_buf probe_return;
static _Thread_local volatile sig_atomic_t probing;

/* Into the crash site: which block was accessed past its end, or after it was closed. */
static void describe_access(const char *at)
{
    size_t slot = (size_t)(at - guard.base) / (2 * guard.page);
    size_t offset = (size_t)(at - guard.base) % (2 * guard.page);
    bool past_end = offset >= guard.page;
    KB_ASSERT(slot < ALL_SLOTS);
    if (!guard.what[slot] || !(past_end || guard.closed[slot]))
        return;
    snprintf(guard.site->guard, sizeof guard.site->guard, "%s %s",
             past_end ? "it read past the end of" : "it kept after the call", guard.what[slot]);
}

/* Return into kv_copy_in while that probes memory. Otherwise record the access in the crash site
 * and let the default action end the process. */
static void handle_fault(int number, siginfo_t *info, void *context)
{
    (void)context;
    if (probing)
        siglongjmp(probe_return, 1);
    const char *at = info->si_addr;
    if (at >= guard.base && at < guard.base + 2 * ALL_SLOTS * guard.page)
        describe_access(at);
    signal(number, SIG_DFL);
    if (info->si_code <= 0) /* sent by kill(): it does not recur by itself */
        raise(number);
}

/* SA_NODEFER: a probe may fault again right after a fault. */
bool kv_guard_init(kv_crash_site *site)
{
    struct sigaction action = {.sa_sigaction = handle_fault, .sa_flags = SA_SIGINFO | SA_NODEFER};
    guard.page = kb_os_page_bytes();
    guard.site = site;
    void *base =
        mmap(NULL, 2 * ALL_SLOTS * guard.page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED)
        return false;
    guard.base = base;
    sigemptyset(&action.sa_mask);
    return sigaction(SIGSEGV, &action, NULL) == 0 && sigaction(SIGBUS, &action, NULL) == 0;
}

/* The previous block of the slot becomes accessible again, so a pointer that was kept for too long
 * may be missed. */
void *kv_guard_new(size_t bytes, const char *what, bool keep)
{
    unsigned slot = keep ? PASSING_SLOTS + guard.kept : guard.passing++ % PASSING_SLOTS;
    if (keep && ++guard.kept == KEPT_SLOTS)
        guard.kept = PINNED_SLOTS;
    char *page = guard.base + 2 * slot * guard.page;
    bytes = kb_align(bytes, 8);
    if (bytes > guard.page || mprotect(page, guard.page, PROT_READ | PROT_WRITE) != 0)
        _exit(KV_NO_MEMORY); /* ends the child; its parent reports it */
    guard.what[slot] = what;
    guard.closed[slot] = false;
    return memset(page + guard.page - bytes, 0, bytes);
}

void kv_guard_close(void *p, size_t bytes)
{
    size_t slot = (size_t)((char *)p + bytes - 1 - guard.base) / (2 * guard.page);
    KB_ASSERT(slot < ALL_SLOTS && guard.what[slot] && !guard.closed[slot]);
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

/* Byte by byte instead of memcpy: a fault may occur at any byte, and sanitizers must not check the
 * access. */
static KV_UNCHECKED void copy_unchecked(volatile char *to, const volatile char *from, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        to[i] = from[i];
}

/* SIZE_MAX: no NUL among `max` bytes. Not checked by sanitizers, as above. */
static KV_UNCHECKED size_t find_nul_unchecked(const volatile char *text, size_t max)
{
    size_t n = 0;
    while (n <= max && text[n])
        n++;
    return n <= max ? n : SIZE_MAX;
}

/* Thread-safe: each thread has its own return point. */
bool kv_copy_in(void *to, const void *from, size_t bytes)
{
    if (!from && bytes)
        return false;
    if (sigsetjmp(probe_return, 0)) {
        probing = 0;
        return false;
    }
    probing = 1;
    copy_unchecked(to, from, bytes);
    probing = 0;
    return true;
}

/* By copying it in pieces. */
bool kv_readable(const void *from, size_t bytes)
{
    char buf[4096];
    const char *at = from;
    for (size_t done = 0; done < bytes; done += sizeof buf)
        if (!kv_copy_in(buf, at + done, KB_MIN(bytes - done, sizeof buf)))
            return false;
    return true;
}

size_t kv_text_size(const char *text, size_t max)
{
    if (!text || sigsetjmp(probe_return, 0)) {
        probing = 0;
        return SIZE_MAX;
    }
    probing = 1;
    size_t n = find_nul_unchecked(text, max);
    probing = 0;
    return n;
}

/* "(unreadable)" instead of a text that cannot be read. */
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
