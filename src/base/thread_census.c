/* Detects when only the library's own threads are left. A program whose main thread ends by
 * pthread_exit lives until its last thread ends, and the library's permanent threads must not keep
 * it alive. The end of the main thread is reported by the destructor of a thread-specific key; the
 * other threads are listed in /proc/self/task and the library's are recognised by name. */
#include "base/thread_census.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

/* ---- the end of the main thread ------------------------------------------------------------------ */

static pthread_key_t main_key;
static bool has_main_key;
static void (*main_callback)(void);
static uint32_t main_ended; /* atomic */

static void on_main_end(void *unused)
{
    (void)unused;
    kb_store_release(&main_ended, 1u);
    if (main_callback)
        main_callback();
}

static void create_main_key(void)
{
    has_main_key = pthread_key_create(&main_key, on_main_end) == 0;
}

bool kb_main_thread_watch(void (*on_end)(void))
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (kb_os_tid() != kb_os_pid())
        return false;
    (void)pthread_once(&once, create_main_key);
    main_callback = on_end;
    kb_store_release(&main_ended, 0u);
    return has_main_key && pthread_setspecific(main_key, &main_key) == 0;
}

bool kb_main_thread_ended(void) { return kb_load_acquire(&main_ended); }

/* ---- the other threads --------------------------------------------------------------------------- */

/* Read the beginning of /proc/self/task/TID/FILE; `out` is always terminated. @return its bytes. */
static size_t read_task_file(const char *tid, const char *file, char *out, size_t size)
{
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/self/task/%.20s/%s", tid, file);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, out, size - 1);
    if (fd >= 0)
        close(fd);
    out[n > 0 ? n : 0] = '\0';
    return n > 0 ? (size_t)n : 0;
}

static bool has_task_ended(const char *tid)
{
    char stat[256];
    (void)read_task_file(tid, "stat", stat, sizeof stat);
    const char *state = strrchr(stat, ')'); /* the name before it may contain any character */
    return !state || state[1] == '\0' || state[2] == 'Z' || state[2] == 'X';
}

static bool is_library_task(const char *tid)
{
    char name[32];
    (void)read_task_file(tid, "comm", name, sizeof name);
    name[strcspn(name, "\n")] = '\0';
    return strcmp(name, KB_THREAD_CONTROL) == 0 || strcmp(name, KB_THREAD_FOLLOW) == 0;
}

bool kb_only_library_threads_left(void)
{
    DIR *tasks = opendir("/proc/self/task");
    bool only = tasks != NULL;
    for (struct dirent *e; only && (e = readdir(tasks)) != NULL;)
        only = e->d_name[0] == '.' || is_library_task(e->d_name) || has_task_ended(e->d_name);
    if (tasks)
        closedir(tasks);
    return only;
}
