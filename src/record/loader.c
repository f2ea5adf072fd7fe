/* Loading plug-ins, and the table of what happened to each file.
 *
 * The lock guards the table and nothing else: no library is opened or closed, no function of a
 * plug-in or of the host is called under it, because constructors may load, register and record.
 * While a file is being opened or closed its entry is BUSY, and only the thread that made it so
 * changes it:
 *
 *   free → BUSY → LOADED | SKIPPED | REFUSED        (load_plugin_file)
 *   LOADED → BUSY → UNLOADED | LOADED               (kineto_plugin_unload)
 *   SKIPPED, REFUSED, UNLOADED → BUSY               (the entry is reused)
 */
#include "record/host.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#define KR_MAX_FILES 64u
/* In addition to kineto_plugin_state: being opened or closed by one thread of busy_pid. */
#define KR_FILE_BUSY  100u
#define KR_RT_LIBRARY "libckineto-rt.so"
#define KR_INSTALLED  "ckineto/plugins"

/* A library or directory that was to be loaded, with the result of the last time. Its number is
 * index + 1. */
typedef struct kr_file {
    uint32_t state;
    uint32_t busy_pid;
    uint64_t order; /* serial of the load; 0: the entry is free */
    dev_t device;
    ino_t inode;
    void *library;
    bool pinned; /* registered by itself while it was opened: never closed */
    char path[sizeof((kineto_plugin_info *)0)->path];
    char reason[sizeof((kineto_plugin_info *)0)->reason];
    KinetoPlugin_RegistryHandle registrant;
    KinetoPlugin_Registry registry;
} kr_file;

static kr_file kr_files[KR_MAX_FILES];
static uint64_t kr_file_orders;
static kb_lock kr_files_lock;
static uint32_t kr_prepared; /* 1 once a thread has begun to load the environment's plug-ins */

static const struct {
    const char *name;
    kr_revision revision;
} kr_revisions[] = {{"b", KR_REVISION_B}, {"a", KR_REVISION_A}, {"early", KR_REVISION_EARLY}};

/* False: this thread, interrupted by a signal handler, holds the lock already. The handler goes on
 * without it, and must not drop it. */
static bool lock_files(void) { return kr_lock_take(&kr_files_lock); }
static void unlock_files(bool taken)
{
    if (taken)
        kb_lock_drop(&kr_files_lock);
}

static uint32_t number_of_file(const kr_file *f) { return (uint32_t)(f - kr_files) + 1; }

static const char *name_of_revision(kr_revision revision)
{
    for (size_t i = 0; i < KB_COUNT(kr_revisions); i++)
        if (kr_revisions[i].revision == revision)
            return kr_revisions[i].name;
    return "";
}

/* ---- the table: all of these under the lock --------------------------------------------------- */

/* A thread that was at it when this process was forked exists only in the parent. */
static bool is_file_busy(const kr_file *f)
{
    return f->state == KR_FILE_BUSY && f->busy_pid == kb_os_pid();
}

static bool is_file_settled(const kr_file *f)
{
    return f->order && f->state != KINETO_PLUGIN_LOADED && !is_file_busy(f);
}

static kr_file *find_active_file(dev_t device, ino_t inode)
{
    for (uint32_t i = 0; i < KR_MAX_FILES; i++) {
        kr_file *f = &kr_files[i];
        if ((f->state == KINETO_PLUGIN_LOADED || is_file_busy(f)) && f->order &&
            f->inode == inode && f->device == device)
            return f;
    }
    return NULL;
}

/* The entry for loading `path`: its previous one, a free one, or the oldest that is not in use.
 * NULL: all are loaded or busy. */
static kr_file *find_file_place(const char *path)
{
    kr_file *place = NULL, *oldest = NULL;
    for (uint32_t i = 0; i < KR_MAX_FILES; i++) {
        kr_file *f = &kr_files[i];
        bool settled = is_file_settled(f);
        if (settled && strcmp(f->path, path) == 0)
            return f;
        if (!f->order && !place)
            place = f;
        if (settled && (!oldest || f->order < oldest->order))
            oldest = f;
    }
    return place ? place : oldest;
}

static kr_file *begin_file_entry(const char *path, kr_revision revision)
{
    kr_file *f = find_file_place(path);
    if (!f)
        return NULL;
    KB_ASSERT(!f->order || is_file_settled(f));
    memset(f, 0, sizeof *f);
    f->state = KR_FILE_BUSY;
    f->busy_pid = kb_os_pid();
    f->order = ++kr_file_orders;
    f->registrant.revision = revision;
    f->registrant.file = number_of_file(f);
    memcpy(f->path, path, strlen(path) + 1);
    return f;
}

static kr_file *next_file_after(uint64_t order)
{
    kr_file *next = NULL;
    for (uint32_t i = 0; i < KR_MAX_FILES; i++)
        if (kr_files[i].order > order && (!next || kr_files[i].order < next->order))
            next = &kr_files[i];
    return next;
}

/* ---- the result for a file --------------------------------------------------------------------- */

static const char *name_without_directory(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

/* BUSY → state: stores the result in the table, logs it and adds it to the ledger. Returns
 * status. */
static kineto_status KINETO_PRINTF(5, 6)
    settle_file(kr_file *f, kineto_plugin_state state, kineto_status status, kineto_error *err,
                const char *fmt, ...)
{
    char reason[sizeof f->reason], path[sizeof f->path], detail[sizeof path + sizeof reason + 3];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(reason, sizeof reason, fmt, args);
    va_end(args);
    bool taken = lock_files();
    KB_ASSERT(f->state == KR_FILE_BUSY);
    memcpy(path, f->path, sizeof path);
    memcpy(f->reason, reason, sizeof reason);
    f->state = state;
    unlock_files(taken);
    if (state == KINETO_PLUGIN_LOADED) {
        kb_log(KINETO_LOG_INFO, "plug-in loaded: %s", path);
        kineto_rt_note("plug-ins", "loaded", 1, false, path);
        return status;
    }
    bool refused = state == KINETO_PLUGIN_REFUSED;
    kb_log(refused ? KINETO_LOG_WARNING : KINETO_LOG_INFO, "plug-in %s: %s: %s",
           refused ? "refused" : "skipped", path, reason);
    (void)snprintf(detail, sizeof detail, "%s: %s", name_without_directory(path), reason);
    kineto_rt_note("plug-ins", refused ? "refused" : "skipped", 1, false, detail);
    return kb_fail(err, status, "%s: %s", path, reason);
}

/* ---- loading one ------------------------------------------------------------------------------- */

/* Absolute, because the dynamic linker searches for a name without a directory in other places.
 * False: it does not fit. */
static bool make_absolute_path(const char *path, char *buf, size_t size)
{
    char here[PATH_MAX];
    if (path[0] == '/')
        return (size_t)snprintf(buf, size, "%s", path) < size;
    if (!getcwd(here, sizeof here))
        return false;
    return (size_t)snprintf(buf, size, "%s/%s", here, path) < size;
}

/* Profilers that were registered by the program or by a constructor, not through a file's
 * registry. */
static uint32_t count_built_in_profilers(void)
{
    kineto_plugin_info info;
    uint32_t file = 0, count = kineto_privateuse1_has_profiler();
    for (uint32_t n = 0; kr_host_profiler(n, &info, &file); n++)
        count += file == 0;
    return count;
}

static const char *skip_path_prefix(const char *text, const char *path)
{
    size_t n = strlen(path);
    return strncmp(text, path, n) == 0 && strncmp(text + n, ": ", 2) == 0 ? text + n + 2 : text;
}

static void close_plugin_library(kr_file *f)
{
    if (f->library && !f->pinned)
        (void)dlclose(f->library);
    f->library = NULL;
}

static kineto_status register_plugin_file(kr_file *f, kineto_error *err)
{
    KinetoPlugin_registerFn enter = NULL;
    void *symbol = dlsym(f->library, KINETO_PLUGIN_REGISTER_SYMBOL);
    memcpy(&enter, &symbol, sizeof enter);
    if (!enter) {
        const char *kept = f->pinned ? ", but registered a profiler when it was opened: kept" : "";
        close_plugin_library(f);
        return settle_file(f, KINETO_PLUGIN_SKIPPED, KINETO_E_FORMAT, err,
                           "exports no " KINETO_PLUGIN_REGISTER_SYMBOL "%s", kept);
    }
    kr_registry_init(&f->registry, &f->registrant);
    int result = enter(&f->registry);
    if (result == 0)
        return settle_file(f, KINETO_PLUGIN_LOADED, KINETO_OK, err, "%s", "");
    const char *why = f->registrant.error;
    (void)kr_host_withdraw_file(f->registrant.file);
    close_plugin_library(f);
    return settle_file(f, KINETO_PLUGIN_REFUSED, KINETO_E_PLUGIN, err,
                       "its " KINETO_PLUGIN_REGISTER_SYMBOL " returned %d%s%s", result,
                       why[0] ? ": " : "", why);
}

static void *open_plugin_library(const char *path)
{
#ifdef KB_LINKED_STATICALLY /* such a program cannot load libraries */
    (void)path;
    return NULL;
#else
    return dlopen(path, RTLD_LAZY | RTLD_LOCAL);
#endif
}

static kineto_status open_plugin_file(kr_file *f, kineto_error *err)
{
    uint32_t before = count_built_in_profilers();
    if (kb_os_library_is_cut_off(f->path))
        return settle_file(f, KINETO_PLUGIN_REFUSED, KINETO_E_FORMAT, err,
                           "the file ends early: copy it again");
    f->library = open_plugin_library(f->path);
    if (!f->library) {
        const char *text = dlerror();
        return settle_file(f, KINETO_PLUGIN_REFUSED, KINETO_E_FORMAT, err, "%s",
                           text ? skip_path_prefix(text, f->path) : "cannot be opened");
    }
    f->pinned = count_built_in_profilers() != before;
    return register_plugin_file(f, err);
}

/* Begin an entry for `path` (it is BUSY). If the same file is loaded or being loaded already,
 * known_path receives its path, else "". NULL: the table is full. */
static kr_file *enter_plugin_file(const char *path, kr_revision revision, const struct stat *st,
                                  char *known_path, bool *known_loaded)
{
    bool taken = lock_files();
    kr_file *known = st ? find_active_file(st->st_dev, st->st_ino) : NULL;
    known_path[0] = 0;
    if (known) {
        memcpy(known_path, known->path, sizeof known->path);
        *known_loaded = known->state == KINETO_PLUGIN_LOADED;
    }
    kr_file *f = begin_file_entry(path, revision);
    if (f && st && !known) {
        f->device = st->st_dev;
        f->inode = st->st_ino;
    }
    unlock_files(taken);
    return f;
}

static kineto_status refuse_too_many_plugins(const char *path, kineto_error *err)
{
    kb_log(KINETO_LOG_WARNING, "plug-in refused: %s: %u are loaded already", path, KR_MAX_FILES);
    return kb_fail(err, KINETO_E_LIMIT, "%s: %u plug-ins are loaded already", path, KR_MAX_FILES);
}

/* `path` is absolute and fits. */
static kineto_status load_plugin_file(const char *path, kr_revision revision, kineto_error *err)
{
    struct stat st;
    char known_path[sizeof((kr_file *)0)->path];
    bool known_loaded = false, there = stat(path, &st) == 0;
    int os_error = errno;
    kr_file *f = enter_plugin_file(path, revision, there ? &st : NULL, known_path, &known_loaded);
    if (!f)
        return refuse_too_many_plugins(path, err);
    if (!there)
        return settle_file(f, KINETO_PLUGIN_REFUSED,
                           os_error == EACCES ? KINETO_E_PERMISSION : KINETO_E_NOT_FOUND, err, "%s",
                           strerror(os_error));
    if (!S_ISREG(st.st_mode)) /* a FIFO would block */
        return settle_file(f, KINETO_PLUGIN_SKIPPED, KINETO_E_FORMAT, err, "not a regular file");
    if (known_path[0])
        return settle_file(f, KINETO_PLUGIN_SKIPPED, KINETO_E_STATE, err, "%s as %s",
                           known_loaded ? "loaded already" : "being loaded", known_path);
    return open_plugin_file(f, err);
}

/* "", "rev=a", "rev=b" or "rev=early"; false: something else. */
static bool parse_plugin_options(const char *options, kr_revision *revision)
{
    *revision = KR_REVISION_B;
    if (!options || !options[0])
        return true;
    if (strncmp(options, "rev=", 4) != 0)
        return false;
    for (size_t i = 0; i < KB_COUNT(kr_revisions); i++) {
        *revision = kr_revisions[i].revision;
        if (strcmp(options + 4, kr_revisions[i].name) == 0)
            return true;
    }
    return false;
}

KINETO_API kineto_status kineto_plugin_load(const char *path, const char *options,
                                            kineto_error *err)
{
    kr_revision revision;
    char whole[sizeof((kr_file *)0)->path];
    if (!path)
        return kb_fail_null(err, __func__, "path", path);
    if (!path[0])
        return kb_fail(err, KINETO_E_ARGUMENT, "kineto_plugin_load: path must not be empty");
    if (!parse_plugin_options(options, &revision))
        return kb_fail(err, KINETO_E_ARGUMENT,
                       "%s: unknown plug-in option '%s'; use rev=b, rev=a or rev=early", path,
                       options);
    if (!make_absolute_path(path, whole, sizeof whole))
        return kb_fail(err, KINETO_E_ARGUMENT, "plug-in path is longer than %zu bytes: %s",
                       sizeof whole - 1, path);
    return load_plugin_file(whole, revision, err);
}

/* ---- lists and directories ----------------------------------------------------------------------- */

/* Cut a trailing ",rev=…" off the path, unless a file of the whole name exists. */
static kr_revision split_revision(char *item)
{
    kr_revision revision = KR_REVISION_B;
    char *comma = strrchr(item, ',');
    struct stat st;
    if (comma && comma[1] && parse_plugin_options(comma + 1, &revision) && stat(item, &st) != 0)
        *comma = 0;
    else
        revision = KR_REVISION_B;
    return revision;
}

/* The next non-empty item of a list, as an absolute path. @return the rest of the list; NULL: there
 * are no more items. */
static const char *next_list_item(const char *list, char separator, char *path, size_t size,
                                  kr_revision *revision)
{
    while (*list) {
        char item[PATH_MAX + 16];
        const char *end = strchr(list, separator);
        size_t n = end ? (size_t)(end - list) : strlen(list);
        const char *next = end ? end + 1 : list + n;
        if (n > 0 && n < sizeof item) {
            memcpy(item, list, n);
            item[n] = 0;
            *revision = split_revision(item);
            if (make_absolute_path(item, path, size))
                return next;
        }
        if (n > 0)
            kb_log(KINETO_LOG_WARNING, "plug-ins: a path of %zu bytes is too long; skipped", n);
        list = next;
    }
    return NULL;
}

static int is_shared_library(const struct dirent *entry)
{
    size_t n = strlen(entry->d_name);
    return n >= 3 && strcmp(entry->d_name + n - 3, ".so") == 0;
}

/* By bytes and not by the locale, so that plug-ins load in the same order everywhere. */
static int compare_entry_names(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static void report_unreadable_directory(const char *path, kr_revision revision, int os_error)
{
    char known[sizeof((kr_file *)0)->path];
    bool loaded;
    kr_file *f = enter_plugin_file(path, revision, NULL, known, &loaded);
    if (f)
        (void)settle_file(f, KINETO_PLUGIN_REFUSED, KINETO_E_NOT_FOUND, NULL,
                          "cannot read the directory: %s", strerror(os_error));
}

/* Load all libraries of a directory. `optional`: a missing directory is not reported. @return how
 * many were loaded. */
static uint32_t load_plugin_directory(const char *directory, kr_revision revision, bool optional)
{
    struct dirent **entries = NULL;
    uint32_t loaded = 0;
    int count = scandir(directory, &entries, is_shared_library, compare_entry_names);
    if (count < 0 && !(optional && errno == ENOENT))
        report_unreadable_directory(directory, revision, errno);
    for (int i = 0; i < count; i++) {
        char path[sizeof((kr_file *)0)->path];
        int n = snprintf(path, sizeof path, "%s/%s", directory, entries[i]->d_name);
        if (n > 0 && (size_t)n < sizeof path)
            loaded += load_plugin_file(path, revision, NULL) == KINETO_OK;
        else
            kb_log(KINETO_LOG_WARNING, "plug-ins: path is too long, skipped: %s/%s", directory,
                   entries[i]->d_name);
        free(entries[i]);
    }
    free(entries);
    return loaded;
}

KINETO_API uint32_t kineto_plugin_load_directories(const char *list)
{
    char path[sizeof((kr_file *)0)->path];
    kr_revision revision;
    uint32_t loaded = 0;
    while (list && (list = next_list_item(list, ':', path, sizeof path, &revision)))
        loaded += load_plugin_directory(path, revision, false);
    return loaded;
}

/* ---- unloading ----------------------------------------------------------------------------------- */

/* LOADED → BUSY. NULL: no loaded file has this path or identity. */
static kr_file *claim_loaded_file(const char *path)
{
    struct stat st;
    bool there = stat(path, &st) == 0, taken = lock_files();
    kr_file *f = there ? find_active_file(st.st_dev, st.st_ino) : NULL;
    for (uint32_t i = 0; i < KR_MAX_FILES && !f; i++) /* removed or replaced since */
        if (kr_files[i].state == KINETO_PLUGIN_LOADED && strcmp(kr_files[i].path, path) == 0)
            f = &kr_files[i];
    if (f && (!f->order || f->state != KINETO_PLUGIN_LOADED))
        f = NULL;
    if (f) {
        f->state = KR_FILE_BUSY;
        f->busy_pid = kb_os_pid();
    }
    unlock_files(taken);
    return f;
}

static void set_file_state(kr_file *f, kineto_plugin_state state)
{
    bool taken = lock_files();
    f->state = state;
    unlock_files(taken);
}

KINETO_API kineto_status kineto_plugin_unload(const char *path, kineto_error *err)
{
    char whole[sizeof((kr_file *)0)->path];
    if (!path)
        return kb_fail_null(err, __func__, "path", path);
    if (!make_absolute_path(path, whole, sizeof whole))
        return kb_fail(err, KINETO_E_ARGUMENT, "plug-in path is longer than %zu bytes: %s",
                       sizeof whole - 1, path);
    kr_file *f = claim_loaded_file(whole);
    if (!f)
        return kb_fail(err, KINETO_E_NOT_FOUND, "%s: not a loaded plug-in", path);
    uint32_t withdrawn = kr_me->in_plugin ? UINT32_MAX : kr_host_withdraw_file(f->registrant.file);
    if (withdrawn == UINT32_MAX) {
        set_file_state(f, KINETO_PLUGIN_LOADED);
        return kb_fail(err, KINETO_E_STATE,
                       "%s: cannot be unloaded by a thread that is inside a plug-in", path);
    }
    if (!kr_wait_quiescent(KR_PLUGIN_TIMEOUT_MS)) {
        kb_log(KINETO_LOG_WARNING, "plug-in %s: a thread does not return from it; not closed",
               f->path);
        f->pinned = true;
    }
    close_plugin_library(f);
    kb_log(KINETO_LOG_INFO, "plug-in unloaded: %s (%u profilers)", f->path, withdrawn);
    set_file_state(f, KINETO_PLUGIN_UNLOADED);
    return KINETO_OK;
}

/* ---- listing plug-ins ---------------------------------------------------------------------------- */

/* Copy the file after *order, in the order of loading, skipping busy ones. @return its number; 0:
 * there are no more. */
static uint32_t describe_next_file(uint64_t *order, kineto_plugin_info *info)
{
    uint32_t number = 0;
    bool taken = lock_files();
    const kr_file *f = next_file_after(*order);
    while (f && is_file_busy(f))
        f = next_file_after(f->order);
    memset(info, 0, sizeof *info);
    if (f) {
        number = number_of_file(f);
        *order = f->order;
        info->state = f->state == KR_FILE_BUSY ? KINETO_PLUGIN_UNLOADED : f->state;
        memcpy(info->path, f->path, sizeof info->path);
        memcpy(info->reason, f->reason, sizeof info->reason);
        (void)snprintf(info->revision, sizeof info->revision, "%s",
                       name_of_revision(f->registrant.revision));
    }
    unlock_files(taken);
    return number;
}

/* Walk the profilers of a library, counting in *at. True: *at reached `index`, *info is filled. */
static bool find_profiler_of_file(uint32_t number, const kineto_plugin_info *file, uint32_t index,
                                  uint32_t *at, kineto_plugin_info *info)
{
    uint32_t owner = 0, n = 0;
    memset(info, 0, sizeof *info);
    while (kr_host_profiler(n++, info, &owner)) {
        if (owner == number) {
            if ((*at)++ != index)
                continue;
            info->state = file->state;
            memcpy(info->path, file->path, sizeof info->path);
            memcpy(info->reason, file->reason, sizeof info->reason);
            memcpy(info->revision, file->revision, sizeof info->revision);
            return true;
        }
    }
    return false;
}

/* Entries are the profilers of each file, a file itself if it has none, then built-in profilers.
 * True: entry `index` is in *info. False: there are only *count. */
static bool find_plugin_entry(uint32_t index, kineto_plugin_info *info, uint32_t *count)
{
    kineto_plugin_info file;
    uint64_t order = 0;
    uint32_t number, at = 0;
    while ((number = describe_next_file(&order, &file))) {
        uint32_t before = at;
        if (file.state == KINETO_PLUGIN_LOADED &&
            find_profiler_of_file(number, &file, index, &at, info))
            return true;
        if (at == before && at++ == index) {
            *info = file;
            return true;
        }
    }
    file.state = KINETO_PLUGIN_BUILT_IN;
    (void)snprintf(file.revision, sizeof file.revision, "%s", name_of_revision(KR_REVISION_B));
    if (find_profiler_of_file(0, &file, index, &at, info))
        return true;
    *count = at;
    return false;
}

KINETO_API uint32_t kineto_plugin_count(void)
{
    kineto_plugin_info info;
    uint32_t count = 0;
    (void)find_plugin_entry(UINT32_MAX, &info, &count);
    return count;
}

KINETO_API bool kineto_plugin_info_get(uint32_t index, kineto_plugin_info *info)
{
    kineto_plugin_info found;
    uint32_t count = 0;
    if (!info || info->size < sizeof found.size)
        return false;
    bool exists = find_plugin_entry(index, &found, &count);
    if (!exists)
        memset(&found, 0, sizeof found);
    found.size = info->size;
    memcpy(info, &found, KB_MIN(info->size, sizeof found));
    return exists;
}

/* ---- plug-ins of the environment and of the installation ----------------------------------------- */

static bool claim_preparation(void)
{
    uint32_t no = 0;
    return kb_cas_acqrel(&kr_prepared, &no, 1);
}

/* Load ckineto/plugins from the folder of this library. If this code is linked into a program or
 * another library, use the folder where ckineto was installed. */
static void load_installed_plugins(void)
{
    char path[sizeof((kr_file *)0)->path];
    Dl_info info;
    const char *directory = CKINETO_LIBDIR, *slash = NULL;
    int n = (int)strlen(directory);
    if (dladdr(&kr_prepared, &info) && info.dli_fname)
        slash = strrchr(info.dli_fname, '/');
    if (slash && strncmp(slash + 1, KR_RT_LIBRARY, sizeof KR_RT_LIBRARY - 1) == 0) {
        directory = info.dli_fname;
        n = (int)(slash - info.dli_fname);
    }
    char joined[PATH_MAX];
    if ((size_t)snprintf(joined, sizeof joined, "%.*s/%s", n, directory, KR_INSTALLED) <
            sizeof joined &&
        make_absolute_path(joined, path, sizeof path))
        (void)load_plugin_directory(path, KR_REVISION_B, true);
}

static void load_environment_plugins(void)
{
    if (!claim_preparation() || kb_os_getenv("CKINETO_PLUGINS"))
        return;
    (void)kineto_plugin_load_directories(kb_os_getenv("KINETO_PLUGIN_LIB_DIR_PATH"));
    load_installed_plugins();
}

/* Did another copy of the recorder in this process attach before this one? Then that copy has
 * loaded the plug-ins. */
static bool has_other_copy_attached(const kf_pool *pool)
{
    uint32_t self = kineto_rt_process(), pid = kb_os_pid();
    uint64_t start_time = kb_os_start_time(pid), exec_id = kb_os_exec_id();
    uint32_t used = kb_load_acquire(&pool->control->dictionary_used);
    for (uint32_t at = 1; at < used && at < pool->dictionary_words;) {
        uint64_t header = kb_load_acquire(&pool->dictionary[at]);
        uint32_t words = kf_entry_header_words(header);
        kf_process_entry entry;
        if (words == 0 || at == self)
            break;
        if (kf_entry_header_type(header) == KF_ENTRY_PROCESS &&
            kf_entry_header_size(header) >= sizeof entry && words > sizeof entry / 8 &&
            at + words <= pool->dictionary_words) {
            memcpy(&entry, pool->dictionary + at + 1, sizeof entry);
            if (entry.pid == pid && entry.start_time == start_time && entry.exec_id == exec_id)
                return true;
        }
        at += words;
    }
    return false;
}

void kr_loader_attached(void)
{
    char path[sizeof((kr_file *)0)->path];
    kr_revision revision;
    const kf_pool *pool = kr_pool_get();
    const char *list = kb_os_getenv("CKINETO_PLUGINS");
    if (!claim_preparation() || !list || !pool || has_other_copy_attached(pool))
        return;
    while ((list = next_list_item(list, '\n', path, sizeof path, &revision)))
        (void)load_plugin_file(path, revision, NULL);
}

KINETO_API void kineto_rt_plugins_prepare(bool privateuse1)
{
    load_environment_plugins();
    if (privateuse1)
        (void)kineto_privateuse1_init();
}
