/* Addresses of the sockets of Dynolog and its clients (abstract names, or files in
 * KINETO_IPC_SOCKET_DIR), and the ancestors of a process. */
#include "ondemand/dynolog/dyno.h"

#include <unistd.h>

/* As many as Kineto reports to the daemon. */
#define MAX_ANCESTORS 11u

static const size_t path_at = offsetof(struct sockaddr_un, sun_path);

static bool is_directory_given(const char *directory) { return directory && *directory; }

/* Leading NUL, the name, and a trailing NUL that Dynolog counts as part of the name. */
static kineto_status make_abstract_address(const char *name, ko_dyno_address *out,
                                           kineto_error *err)
{
    size_t n = strlen(name);
    if (n + 2 > sizeof out->address.sun_path)
        return kb_fail(err, KINETO_E_ARGUMENT,
                       "socket name '%.64s…' is too long: at most %zu bytes", name,
                       sizeof out->address.sun_path - 2);
    memcpy(out->address.sun_path + 1, name, n + 1);
    out->size = (socklen_t)(path_at + n + 2);
    return KINETO_OK;
}

/* The path is not normalised: Dynolog compares texts. */
static kineto_status make_path_address(const char *name, const char *directory,
                                       ko_dyno_address *out, kineto_error *err)
{
    size_t directory_bytes = strlen(directory), n = strlen(name);
    if (strchr(name, '/'))
        return kb_fail(err, KINETO_E_ARGUMENT, "socket name '%s' has a '/'", name);
    if (directory_bytes > KO_DYNO_NAME_BYTES || directory_bytes + 1 + n > KO_DYNO_NAME_BYTES)
        return kb_fail(err, KINETO_E_ARGUMENT,
                       "directory of sockets '%.128s' is too long: a path of a socket has at most "
                       "%u bytes, of which '/%s' takes %zu",
                       directory, KO_DYNO_NAME_BYTES, name, n + 1);
    char *at = out->address.sun_path;
    memcpy(at, directory, directory_bytes);
    at[directory_bytes] = '/';
    memcpy(at + directory_bytes + 1, name, n + 1);
    out->size = (socklen_t)(path_at + directory_bytes + 1 + n + 1);
    return KINETO_OK;
}

kineto_status ko_dyno_address_of(const char *name, const char *directory, ko_dyno_address *out,
                                 kineto_error *err)
{
    memset(out, 0, sizeof *out);
    out->address.sun_family = AF_UNIX;
    if (!*name)
        return kb_fail(err, KINETO_E_ARGUMENT, "a socket needs a name");
    return is_directory_given(directory) ? make_path_address(name, directory, out, err)
                                         : make_abstract_address(name, out, err);
}

/* False: empty, too long, or with characters that no name of ours has. */
static bool copy_socket_name(kineto_string found, char name[KO_DYNO_NAME_BYTES + 1])
{
    if (found.size == 0 || found.size > KO_DYNO_NAME_BYTES || memchr(found.data, '/', found.size) ||
        memchr(found.data, '\0', found.size))
        return false;
    memcpy(name, found.data, found.size);
    name[found.size] = '\0';
    return true;
}

/* The NUL at the end is part of an abstract name; the daemon answers to no other form. */
static bool name_of_abstract(kineto_string path, char name[KO_DYNO_NAME_BYTES + 1])
{
    if (path.size < 3 || path.data[0] != '\0' || path.data[path.size - 1] != '\0')
        return false;
    return copy_socket_name((kineto_string){path.data + 1, path.size - 2}, name);
}

/* The path must be DIRECTORY/NAME; repeated slashes between them are ignored. */
static bool name_of_path(kineto_string path, const char *directory,
                         char name[KO_DYNO_NAME_BYTES + 1])
{
    size_t n = strlen(directory);
    while (n > 0 && directory[n - 1] == '/')
        n--;
    path.size = strnlen(path.data, path.size);
    if (path.size <= n || memcmp(path.data, directory, n) != 0 || path.data[n] != '/')
        return false;
    while (n < path.size && path.data[n] == '/')
        n++;
    return copy_socket_name((kineto_string){path.data + n, path.size - n}, name);
}

bool ko_dyno_address_name(const ko_dyno_address *a, const char *directory,
                          char name[KO_DYNO_NAME_BYTES + 1])
{
    if (a->size <= path_at || a->size > sizeof a->address || a->address.sun_family != AF_UNIX)
        return false;
    kineto_string path = {a->address.sun_path, a->size - path_at};
    return is_directory_given(directory) ? name_of_path(path, directory, name)
                                         : name_of_abstract(path, name);
}

uint32_t ko_dyno_ancestors(uint32_t pid, int32_t pids[KO_DYNO_MAX_PIDS])
{
    uint32_t count = 0;
    do {
        pids[count++] = (int32_t)pid;
        pid = kb_os_parent(pid);
    } while (pid > 1 && count < MAX_ANCESTORS);
    return count;
}
