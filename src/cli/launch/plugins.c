/* Finding plug-ins in the same directories, and in the same order, as the library does
 * (src/record). Entries are never removed: a file that is missing, repeated or not a library stays
 * in the list with its reason. */
#include "cli/launch/plugins.h"
#include "cli/install_paths.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const state_names[] = {"unknown",  "loaded",  "refused",  "skipped",
                                          "repeated", "crashed", "timed out"};
static const char *const origin_names[] = {"given", "directory", "environment", "installation",
                                           "tool interface"};

const char *kc_plugin_state_name(kc_plugin_state state)
{
    return state_names[(size_t)state % KB_COUNT(state_names)];
}

const char *kc_plugin_origin_name(kc_plugin_origin origin)
{
    return origin_names[(size_t)origin % KB_COUNT(origin_names)];
}

/* A file that is not a plug-in is a failure only if the user named it. */
bool kc_plugin_failed(const kc_plugin_file *p)
{
    switch (p->state) {
    case KC_PLUGIN_LOADED:
    case KC_PLUGIN_REPEATED:
        return false;
    case KC_PLUGIN_SKIPPED:
        return p->origin == KC_PLUGIN_GIVEN;
    default:
        return true;
    }
}

void kc_plugins_free(kc_plugins *p)
{
    for (size_t i = 0; i < p->list.count; i++) {
        free(p->list.data[i].path);
        kb_vec_free(&p->list.data[i].profilers);
    }
    kb_vec_free(&p->list);
}

/* ---- one entry ------------------------------------------------------------------------------- */

/* The length of the path in "path,rev=…". *revision points to the revision, or to "". */
static size_t split_revision(const char *given, size_t size, const char **revision)
{
    KB_ASSERT(size <= strlen(given));
    static const char *const known[] = {"early", "a", "b"};
    for (size_t i = 0; i < KB_COUNT(known); i++) {
        char tail[16];
        size_t n = (size_t)snprintf(tail, sizeof tail, ",rev=%s", known[i]);
        if (size > n && memcmp(given + size - n, tail, n) == 0) {
            *revision = known[i];
            return size - n;
        }
    }
    *revision = "";
    return size;
}

/* Absolute, because the program may change its directory. To be freed; NULL: out of memory. */
static char *make_absolute_path(const char *path, size_t size)
{
    char here[PATH_MAX] = "", *text = NULL;
    if (path[0] != '/' && !getcwd(here, sizeof here))
        here[0] = 0;
    if (asprintf(&text, "%s%s%.*s", here, here[0] ? "/" : "", (int)size, path) < 0)
        return NULL;
    return text;
}

/* By device and inode. NULL: no earlier entry is this file. */
static kc_plugin_file *find_same_file(const kc_plugins *p, const struct stat *st)
{
    for (size_t i = 0; i < p->list.count; i++) {
        kc_plugin_file *other = &p->list.data[i];
        if (other->inode == st->st_ino && other->device == st->st_dev && st->st_ino)
            return other;
    }
    return NULL;
}

/* Owns the path, which may be NULL (out of memory). */
static kineto_status append_plugin(kc_plugins *p, char *path, const char *revision,
                                   kc_plugin_origin origin, kineto_error *err)
{
    kc_plugin_file plugin = {.path = path, .origin = origin};
    struct stat st;
    if (!path)
        return kb_fail_memory(err, NULL);
    snprintf(plugin.revision, sizeof plugin.revision, "%s", revision);
    if (stat(path, &st) != 0) {
        plugin.state = KC_PLUGIN_REFUSED;
        snprintf(plugin.reason, sizeof plugin.reason, "%s%s", strerror(errno),
                 strstr(path, ",rev=") ? " (revisions are early, a and b)" : "");
    } else if (!S_ISREG(st.st_mode)) {
        plugin.state = KC_PLUGIN_SKIPPED;
        snprintf(plugin.reason, sizeof plugin.reason, "not a regular file");
    } else if (strchr(path, '\n')) {
        plugin.state = KC_PLUGIN_REFUSED;
        snprintf(plugin.reason, sizeof plugin.reason, "the path contains a line break");
    } else {
        const kc_plugin_file *same = find_same_file(p, &st);
        if (same) {
            plugin.state = KC_PLUGIN_REPEATED;
            snprintf(plugin.reason, sizeof plugin.reason, "the same file as %.450s", same->path);
        } else {
            plugin.device = st.st_dev;
            plugin.inode = st.st_ino;
        }
    }
    if (kb_vec_push(&p->list, plugin))
        return KINETO_OK;
    free(path);
    return kb_fail_memory(err, NULL);
}

static bool does_path_exist(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0;
}

/* A plain name that does not exist as a file may be a plug-in of the installation. NULL: it is not.
 */
static char *find_installed_by_name(const char *name, size_t size)
{
    char file[NAME_MAX + 1], path[PATH_MAX];
    if (!size || memchr(name, '/', size) || size >= sizeof file)
        return NULL;
    memcpy(file, name, size);
    file[size] = 0;
    return !does_path_exist(file) && kc_find_plugin(file, path, sizeof path) ? strdup(path) : NULL;
}

/* In this order: an existing file, a file with a revision, a plug-in of the installation. */
kineto_status kc_plugins_add_file(kc_plugins *p, const char *given, kc_plugin_origin origin,
                                  kineto_error *err)
{
    const char *revision = "";
    size_t size = strlen(given);
    if (!does_path_exist(given)) /* else all of it is the path, even if it ends in ",rev=…" */
        size = split_revision(given, size, &revision);
    char *path = find_installed_by_name(given, size);
    return append_plugin(p, path ? path : make_absolute_path(given, size), revision, origin, err);
}

/* ---- directories ----------------------------------------------------------------------------- */

static int has_library_name(const struct dirent *entry)
{
    size_t size = strlen(entry->d_name);
    return size >= 3 && strcmp(entry->d_name + size - 3, ".so") == 0;
}

/* By bytes: the order must not depend on the locale. */
static int compare_entry_names(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

/* A directory that cannot be read is an entry, so that it is reported. Owns the path. */
static kineto_status append_directory_error(kc_plugins *p, char *directory, kc_plugin_origin origin,
                                            int os_error, kineto_error *err)
{
    kc_plugin_file plugin = {.path = directory, .origin = origin, .state = KC_PLUGIN_REFUSED};
    snprintf(plugin.reason, sizeof plugin.reason, "cannot read the directory: %s",
             strerror(os_error));
    if (kb_vec_push(&p->list, plugin))
        return KINETO_OK;
    free(directory);
    return kb_fail_memory(err, NULL);
}

/* Owns the path of the directory. */
static kineto_status append_directory(kc_plugins *p, char *directory, const char *revision,
                                      kc_plugin_origin origin, kineto_error *err)
{
    struct dirent **names = NULL;
    kineto_status status = KINETO_OK;
    if (!directory)
        return kb_fail_memory(err, NULL);
    int count = scandir(directory, &names, has_library_name, compare_entry_names);
    if (count < 0 && !(origin == KC_PLUGIN_INSTALLED && errno == ENOENT))
        return append_directory_error(p, directory, origin, errno, err);
    for (int i = 0; i < count; i++) {
        char *path = NULL;
        if (status == KINETO_OK && asprintf(&path, "%s/%s", directory, names[i]->d_name) < 0)
            path = NULL;
        if (status == KINETO_OK)
            status = append_plugin(p, path, revision, origin, err);
        free(names[i]);
    }
    free(names);
    free(directory);
    return status;
}

/* Empty parts of the list are skipped. */
kineto_status kc_plugins_add_directories(kc_plugins *p, const char *list, kc_plugin_origin origin,
                                         kineto_error *err)
{
    kineto_status status = KINETO_OK;
    while (*list && status == KINETO_OK) {
        size_t size = strcspn(list, ":");
        const char *revision;
        size_t bytes = split_revision(list, size, &revision);
        if (bytes)
            status = append_directory(p, make_absolute_path(list, bytes), revision, origin, err);
        list += size + (list[size] == ':');
    }
    return status;
}

/* The order in which the library loads them. */
kineto_status kc_plugins_add_default(kc_plugins *p, kineto_error *err)
{
    char installed[PATH_MAX];
    const char *list = kb_setting("KINETO_PLUGIN_LIB_DIR_PATH");
    kineto_status status = KINETO_OK;
    if (list)
        status = kc_plugins_add_directories(p, list, KC_PLUGIN_ENVIRONMENT, err);
    if (status == KINETO_OK && kc_plugins_directory(installed, sizeof installed))
        status = append_directory(p, strdup(installed), "", KC_PLUGIN_INSTALLED, err);
    return status;
}

/* Only those that were built. */
kineto_status kc_plugins_add_interfaces(kc_plugins *p, kineto_error *err)
{
    char path[PATH_MAX];
    for (size_t i = 0; i < kc_interface_count; i++) {
        if (!kc_find_plugin(kc_interfaces[i].plugin, path, sizeof path))
            continue; /* not built; `ckineto doctor` reports it */
        kineto_status status = append_plugin(p, strdup(path), "", KC_PLUGIN_INTERFACE, err);
        if (status)
            return status;
        p->list.data[p->list.count - 1].interface = kc_interfaces[i].variable;
    }
    return KINETO_OK;
}
