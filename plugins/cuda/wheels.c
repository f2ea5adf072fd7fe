/* Finds CUPTI in the packages of a Python installation: wheels of PyTorch bring it along as
 * nvidia/cu13/lib/libcupti.so.13 or nvidia/cuda_cupti/lib/libcupti.so.12, where the linker does not
 * search. */
#include "cuda.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The release in the name of a file "…/libcupti.so.N", if it fits the driver; else 0. */
static int get_release(const char *path, int driver_release)
{
    const char *slash = strrchr(path, '/');
    int release = 0;
    if (!slash || sscanf(slash, "/libcupti.so.%d", &release) != 1 || release > driver_release)
        return 0;
    return release;
}

/* Looks in one installation, such as "/usr/local", for a newer release than that in `best`. */
static void search_prefix(const char *prefix, int driver_release, int *best, char path[PATH_MAX])
{
    static const char *const folders[] = {"site", "dist"};
    for (size_t i = 0; i < CP_COUNT(folders); i++) {
        char pattern[PATH_MAX];
        glob_t found = {.gl_pathc = 0};
        int size = snprintf(pattern, sizeof pattern,
                            "%s/lib/python3*/%s-packages/nvidia/*/lib/libcupti.so.*", prefix,
                            folders[i]);
        if (size < 0 || (size_t)size >= sizeof pattern || glob(pattern, 0, NULL, &found) != 0)
            continue;
        for (size_t j = 0; j < found.gl_pathc; j++) {
            int release = get_release(found.gl_pathv[j], driver_release);
            if (release <= *best || strlen(found.gl_pathv[j]) >= PATH_MAX)
                continue;
            *best = release;
            strcpy(path, found.gl_pathv[j]);
        }
        globfree(&found);
    }
}

/* The installation whose python3 comes first in PATH; "": none. Links are not followed, because a
 * virtual environment's python3 is one. */
static void find_python_prefix(char prefix[PATH_MAX])
{
    const char *at = secure_getenv("PATH");
    prefix[0] = '\0';
    for (; at && *at; at += *at == ':') {
        size_t size = strcspn(at, ":");
        char file[PATH_MAX];
        int n = snprintf(file, sizeof file, "%.*s/python3", (int)size, at);
        at += size;
        if (n <= 0 || (size_t)n >= sizeof file || access(file, X_OK) != 0)
            continue;
        snprintf(prefix, PATH_MAX, "%.*s/..", (int)size, at - size);
        return;
    }
}

bool cp_find_wheel_cupti(int driver_release, char path[PATH_MAX])
{
    char of_python[PATH_MAX], of_user[PATH_MAX];
    const char *home = secure_getenv("HOME");
    find_python_prefix(of_python);
    snprintf(of_user, sizeof of_user, "%s%s", home ? home : "", home ? "/.local" : "");
    const char *const prefixes[] = {secure_getenv("VIRTUAL_ENV"), secure_getenv("CONDA_PREFIX"),
                                    of_python, of_user, "/usr/local"};
    for (size_t i = 0; i < CP_COUNT(prefixes); i++) {
        int best = 0;
        if (prefixes[i] && prefixes[i][0])
            search_prefix(prefixes[i], driver_release, &best, path);
        if (best)
            return true;
    }
    return false;
}
