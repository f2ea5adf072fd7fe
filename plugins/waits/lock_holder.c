/* Which thread holds a lock. glibc and musl keep the thread's number in the lock itself, which
 * costs nothing to keep and is right for locks that nobody took through us.
 *
 * glibc: __data.__owner of a mutex of any kind, set after the lock was taken and cleared before it
 * is released; __data.__cur_writer of an rwlock. Both have the same place on all 64-bit machines,
 * and their sizes are part of its ABI. Checked with mutexes of our own when the library starts: if
 * the number is not that of the thread, holders are not reported.
 * musl: the lower 30 bits of the second word, for all kinds of mutexes but the normal one.
 *
 * The value is read without a lock: 0 where the holder is just changing. */
#include "waits.h"

#include <dlfcn.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MUSL_TYPE_MASK  15u
#define MUSL_OWNER_MASK 0x3fffffffu

static bool is_glibc, is_musl;
const char *cw_single_threaded;

static uint32_t read_word(const void *lock, size_t index)
{
    return __atomic_load_n((const uint32_t *)lock + index, __ATOMIC_RELAXED);
}

#ifdef __GLIBC__
#define OWNER_WORD  (offsetof(pthread_mutex_t, __data.__owner) / sizeof(uint32_t))
#define WRITER_WORD (offsetof(pthread_rwlock_t, __data.__cur_writer) / sizeof(uint32_t))
#else
#define OWNER_WORD  2u
#define WRITER_WORD 6u
#endif

int64_t cw_holder_of_mutex(const pthread_mutex_t *m)
{
    if (is_glibc)
        return read_word(m, OWNER_WORD);
    if (is_musl && (read_word(m, 0) & MUSL_TYPE_MASK))
        return read_word(m, 1) & MUSL_OWNER_MASK;
    return 0;
}

int64_t cw_holder_of_rwlock(const pthread_rwlock_t *m)
{
    return is_glibc ? read_word(m, WRITER_WORD) : 0;
}

void cw_lock_holder_start(void)
{
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
    static pthread_mutex_t counted;
    uint32_t me = (uint32_t)syscall(SYS_gettid);
    if (cw_next.pthread_mutex_trylock(&mutex) || cw_next.pthread_rwlock_trywrlock(&rwlock))
        return;
    is_glibc = read_word(&mutex, OWNER_WORD) == me && read_word(&rwlock, WRITER_WORD) == me;
    (void)pthread_rwlock_unlock(&rwlock);
    (void)pthread_mutex_unlock(&mutex);
    is_glibc &= read_word(&mutex, OWNER_WORD) == 0 && read_word(&rwlock, WRITER_WORD) == 0;
    if (is_glibc) {
        cw_single_threaded = dlsym(RTLD_DEFAULT, "__libc_single_threaded"); /* of 2.32 and later */
        return;
    }
    memset(&counted, 0, sizeof counted);
    *(uint32_t *)(void *)&counted = PTHREAD_MUTEX_RECURSIVE; /* musl: the kind is the first word */
    if (cw_next.pthread_mutex_trylock(&counted))
        return;
    is_musl = (read_word(&counted, 1) & MUSL_OWNER_MASK) == me;
    (void)pthread_mutex_unlock(&counted);
}
