/* Where the files of the installation are: next to the command (a build tree, or an installation
 * that was moved), else in the directories that were configured. */
#include "cli/install_paths.h"

#include <limits.h>
#include <unistd.h>

#define STRINGIFY_VALUE(x)   #x
#define STRINGIFY(x)         STRINGIFY_VALUE(x)
#define RT_FILE              "libckineto-rt.so"
#define RT_FILE_WITH_VERSION RT_FILE "." STRINGIFY(KINETO_VERSION_MAJOR)

/* "/usr/lib/x86_64-linux-gnu" → "lib/x86_64-linux-gnu": the path relative to the prefix, next to
 * "bin". */
static const char *get_library_part(const char *directory)
{
    const char *found = directory, *at = directory;
    while ((at = strstr(at, "/lib")))
        found = ++at;
    return found;
}

/* The directory above the one that contains the running command. */
static bool find_command_prefix(char *buf, size_t size)
{
    char exe[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    if (n <= 0)
        return false;
    exe[n] = 0;
    for (int levels = 0; levels < 2; levels++) {
        char *slash = strrchr(exe, '/');
        if (!slash)
            return false;
        *slash = 0;
    }
    return (size_t)snprintf(buf, size, "%s", exe) < size;
}

/* The real path of directory/below/file; false: it cannot be read. */
static bool resolve_installed_path(char *buf, size_t size, const char *directory, const char *below,
                                   const char *file)
{
    char path[PATH_MAX], real[PATH_MAX];
    int n = snprintf(path, sizeof path, "%s%s%s/%s", directory, below[0] ? "/" : "", below, file);
    if (n < 0 || (size_t)n >= sizeof path || access(path, R_OK) != 0 || !realpath(path, real))
        return false;
    return (size_t)snprintf(buf, size, "%s", real) < size;
}

/* Next to the command in "lib", then in the configured path relative to the prefix, then in the
 * configured path. */
static bool find_installed_file(const char *installed, const char *below, const char *file,
                                char *buf, size_t size)
{
    char prefix[PATH_MAX], part[PATH_MAX];
    if (find_command_prefix(prefix, sizeof prefix)) {
        snprintf(part, sizeof part, "lib%s%s", below[0] ? "/" : "", below);
        if (resolve_installed_path(buf, size, prefix, part, file) ||
            resolve_installed_path(buf, size, prefix, get_library_part(installed), file))
            return true;
    }
    return resolve_installed_path(buf, size, installed, "", file);
}

bool kc_find_plugin(const char *file, char *buf, size_t size)
{
    const char *given = kb_setting("CKINETO_PLUGIN_DIR");
    if (given)
        return resolve_installed_path(buf, size, given, "", file);
    return find_installed_file(CKINETO_PLUGINDIR, "ckineto", file, buf, size);
}

bool kc_find_rt(char *buf, size_t size)
{
    return find_installed_file(CKINETO_LIBDIR, "", RT_FILE, buf, size) ||
           find_installed_file(CKINETO_LIBDIR, "", RT_FILE_WITH_VERSION, buf, size);
}

/* Relative to libckineto-rt.so, as the library itself computes it. */
bool kc_plugins_directory(char *buf, size_t size)
{
    char rt[PATH_MAX] = CKINETO_LIBDIR "/";
    (void)kc_find_rt(rt, sizeof rt); /* the library searches its own directory */
    KB_ASSERT(strrchr(rt, '/'));
    int n = snprintf(buf, size, "%.*s/ckineto/plugins", (int)(strrchr(rt, '/') - rt), rt);
    return n > 0 && (size_t)n < size;
}
