/* Where our own files are: beside the command (a build tree, a moved installation), or where they
 * were installed. */
#include "cli/install_paths.h"

#include <limits.h>
#include <unistd.h>

#define TEXT_OF(x)      #x
#define TEXT(x)         TEXT_OF(x)
#define RT              "libckineto-rt.so"
#define RT_WITH_VERSION RT "." TEXT(KINETO_VERSION_MAJOR)

/* "/usr/lib/x86_64-linux-gnu" → "lib/x86_64-linux-gnu": what to look for beside ../bin. */
static const char *library_part(const char *directory)
{
    const char *found = directory, *at = directory;
    while ((at = strstr(at, "/lib")))
        found = ++at;
    return found;
}

/* The directory above the one that holds the running command. */
static bool prefix_of_command(char *buf, size_t size)
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

static bool try_path(char *buf, size_t size, const char *directory, const char *below,
                     const char *file)
{
    char path[PATH_MAX], real[PATH_MAX];
    int n = snprintf(path, sizeof path, "%s%s%s/%s", directory, below[0] ? "/" : "", below, file);
    if (n < 0 || (size_t)n >= sizeof path || access(path, R_OK) != 0 || !realpath(path, real))
        return false;
    return (size_t)snprintf(buf, size, "%s", real) < size;
}

static bool find_file(const char *installed, const char *below, const char *file, char *buf,
                      size_t size)
{
    char prefix[PATH_MAX], part[PATH_MAX];
    if (prefix_of_command(prefix, sizeof prefix)) {
        snprintf(part, sizeof part, "lib%s%s", below[0] ? "/" : "", below);
        if (try_path(buf, size, prefix, part, file) ||
            try_path(buf, size, prefix, library_part(installed), file))
            return true;
    }
    return try_path(buf, size, installed, "", file);
}

bool kc_find_plugin(const char *file, char *buf, size_t size)
{
    const char *given = kb_setting("CKINETO_PLUGIN_DIR");
    if (given)
        return try_path(buf, size, given, "", file);
    return find_file(CKINETO_PLUGINDIR, "ckineto", file, buf, size);
}

bool kc_find_rt(char *buf, size_t size)
{
    return find_file(CKINETO_LIBDIR, "", RT, buf, size) ||
           find_file(CKINETO_LIBDIR, "", RT_WITH_VERSION, buf, size);
}

bool kc_plugins_directory(char *buf, size_t size)
{
    char rt[PATH_MAX] = CKINETO_LIBDIR "/";
    (void)kc_find_rt(rt, sizeof rt); /* the library looks beside itself */
    int n = snprintf(buf, size, "%.*s/ckineto/plugins", (int)(strrchr(rt, '/') - rt), rt);
    return n > 0 && (size_t)n < size;
}
