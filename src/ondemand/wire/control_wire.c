/* Shared by both ends of a control socket: the directory of the sockets, their addresses, and the
 * format of packets. The directory must be private to the user; every step of finding it assumes
 * that other users may create or rename files in /tmp at the same time. */
#include "ondemand/wire/control_wire.h"

#include <dirent.h>
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- the directory --------------------------------------------------------------------------- */

#define SHARED       "/tmp"
#define OTHERS       (S_IRWXG | S_IRWXO)
#define MAY_BE_MOVED (S_IWGRP | S_IWOTH) /* entries of such a directory can be renamed by others */

static bool is_mine_or_roots(const struct stat *st)
{
    return st->st_uid == 0 || st->st_uid == geteuid();
}

/* A user who may rename entries of the parent directory could replace our directory by another. */
static kineto_status check_parent_directory(const char *above, kineto_error *err)
{
    struct stat st;
    if (stat(above, &st) != 0)
        return kb_fail_os(err, errno, "cannot examine '%s', where control sockets are", above);
    if (!S_ISDIR(st.st_mode))
        return kb_fail(err, KINETO_E_PERMISSION,
                       "'%s', where control sockets would be, is not a directory", above);
    if (!is_mine_or_roots(&st))
        return kb_fail(err, KINETO_E_PERMISSION,
                       "'%s', where control sockets would be, belongs to user %u: set "
                       "XDG_RUNTIME_DIR to a directory of your own, or unset it",
                       above, (unsigned)st.st_uid);
    if ((st.st_mode & MAY_BE_MOVED) && !(st.st_mode & S_ISVTX))
        return kb_fail(err, KINETO_E_PERMISSION,
                       "'%s', where control sockets would be, can be changed by others (mode "
                       "%03o): set XDG_RUNTIME_DIR to a directory of your own",
                       above, (unsigned)st.st_mode & 0777u);
    return KINETO_OK;
}

/* Must be a real directory of this user, without access for others. */
static kineto_status check_socket_directory(const char *path, kineto_error *err)
{
    struct stat st;
    if (lstat(path, &st) != 0)
        return errno == ENOENT
                   ? kb_fail(err, KINETO_E_NOT_FOUND,
                             "no directory '%s'; no process of this user listens", path)
                   : kb_fail_os(err, errno, "cannot examine '%s', where control sockets are", path);
    if (S_ISLNK(st.st_mode))
        return kb_fail(err, KINETO_E_PERMISSION,
                       "'%s', where control sockets are, is a symbolic link; remove it", path);
    if (!S_ISDIR(st.st_mode))
        return kb_fail(err, KINETO_E_PERMISSION,
                       "'%s', where control sockets are, is not a directory; remove it", path);
    if (st.st_uid != geteuid())
        return kb_fail(err, KINETO_E_PERMISSION,
                       "'%s', where control sockets are, belongs to user %u, not to %u", path,
                       (unsigned)st.st_uid, (unsigned)geteuid());
    if (st.st_mode & OTHERS)
        return kb_fail(err, KINETO_E_PERMISSION,
                       "'%s', where control sockets are, is accessible to other users (mode %03o); "
                       "check its contents, then chmod 700 or remove it",
                       path, (unsigned)st.st_mode & 0777u);
    return KINETO_OK;
}

/* Chooses the parent directory, and the name of our directory in it. */
static kineto_status choose_parent_directory(char above[KO_REQUEST_PATH_BYTES], char name[32],
                                             kineto_error *err)
{
    const char *setting = kb_setting("XDG_RUNTIME_DIR");
    struct stat st;
    snprintf(name, 32, "ckineto");
    if (setting && setting[0] != '/')
        return kb_fail(err, KINETO_E_ARGUMENT, "XDG_RUNTIME_DIR is not an absolute path");
    if (setting && strlen(setting) >= sizeof((struct sockaddr_un *)NULL)->sun_path)
        return kb_fail(err, KINETO_E_LIMIT,
                       "XDG_RUNTIME_DIR has %zu bytes: the path of a socket has 107 at most",
                       strlen(setting));
    if (setting) {
        snprintf(above, KO_REQUEST_PATH_BYTES, "%s", setting);
        return KINETO_OK;
    }
    snprintf(above, KO_REQUEST_PATH_BYTES, "/run/user/%u", (unsigned)geteuid());
    if (lstat(above, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid())
        return KINETO_OK;
    snprintf(above, KO_REQUEST_PATH_BYTES, SHARED);
    snprintf(name, 32, "ckineto-%u", (unsigned)geteuid());
    return KINETO_OK;
}

/* Another user may have taken our name in /tmp. Then our directory has that name with a random
 * suffix. Both ends search for it and use the first one in the order of names. @return whether
 * there is one. */
static bool find_private_directory(const char *usual, char path[KO_REQUEST_PATH_BYTES])
{
    const char *name = usual + sizeof SHARED;
    size_t n = strlen(name);
    char candidate[KO_REQUEST_PATH_BYTES];
    kineto_error why;
    bool found = false;
    DIR *all = opendir(SHARED);
    for (struct dirent *e; all && (e = readdir(all));) {
        if (strncmp(e->d_name, name, n) != 0 || e->d_name[n] != '-')
            continue;
        int bytes = snprintf(candidate, sizeof candidate, SHARED "/%s", e->d_name);
        if (bytes < 0 || (size_t)bytes >= sizeof candidate ||
            check_socket_directory(candidate, &why) || (found && strcmp(candidate, path) > 0))
            continue;
        memcpy(path, candidate, sizeof candidate);
        found = true;
    }
    if (all)
        closedir(all);
    return found;
}

/* Another process of this user may do the same at this moment: the first one in the order of names
 * is used, the other one is removed. */
static kineto_status make_private_directory(const char *usual, char path[KO_REQUEST_PATH_BYTES],
                                            kineto_error *err)
{
    char mine[KO_REQUEST_PATH_BYTES];
    int n = snprintf(mine, sizeof mine, "%s-XXXXXX", usual);
    if (n < 0 || (size_t)n >= sizeof mine || kb_os_make_own_temporary(mine) != 0)
        return kb_fail_os(err, errno, "cannot make '%s' for control sockets", mine);
    if (!find_private_directory(usual, path))
        memcpy(path, mine, sizeof mine);
    else if (strcmp(path, mine) != 0)
        (void)rmdir(mine);
    return check_socket_directory(path, err);
}

/* `path` holds the default path, and receives the one to use. */
static kineto_status find_directory_in_tmp(bool make, char path[KO_REQUEST_PATH_BYTES],
                                           kineto_error *err)
{
    char usual[KO_REQUEST_PATH_BYTES];
    struct stat st;
    memcpy(usual, path, sizeof usual);
    bool is_there = lstat(usual, &st) == 0, is_mine = is_there && st.st_uid == geteuid();
    if (is_mine || (!find_private_directory(usual, path) && !is_there && !make))
        return check_socket_directory(usual, err);
    if (strcmp(path, usual) != 0)
        return check_socket_directory(path, err);
    if (make && kb_os_make_own_directory(usual) == 0)
        return check_socket_directory(usual, err);
    return make ? make_private_directory(usual, path, err) : check_socket_directory(usual, err);
}

kineto_status ko_control_directory(bool make, char path[KO_REQUEST_PATH_BYTES], kineto_error *err)
{
    char above[KO_REQUEST_PATH_BYTES], name[32];
    struct sockaddr_un longest;
    kineto_status status = choose_parent_directory(above, name, err);
    if (status == KINETO_OK)
        status = check_parent_directory(above, err);
    if (status != KINETO_OK)
        return status;
    int n = snprintf(path, KO_REQUEST_PATH_BYTES, "%s/%s", above, name);
    if (n < 0 || n >= (int)KO_REQUEST_PATH_BYTES)
        return kb_fail(err, KINETO_E_LIMIT, "the path of XDG_RUNTIME_DIR is too long");
    status = ko_control_address(path, UINT32_MAX, true, &longest, err);
    if (status != KINETO_OK)
        return status;
    if (strcmp(above, SHARED) == 0)
        return find_directory_in_tmp(make, path, err);
    if (make && kb_os_make_own_directory(path) != 0 && errno != EEXIST)
        return kb_fail_os(err, errno, "cannot make '%s' for control sockets", path);
    return check_socket_directory(path, err);
}

kineto_status ko_control_address(const char *directory, uint32_t pid, bool unborn,
                                 struct sockaddr_un *out, kineto_error *err)
{
    memset(out, 0, sizeof *out);
    out->sun_family = AF_UNIX;
    int n = unborn ? snprintf(out->sun_path, sizeof out->sun_path, "%s/.%u.new", directory, pid)
                   : snprintf(out->sun_path, sizeof out->sun_path, "%s/%u.sock", directory, pid);
    if (n < 0 || n >= (int)sizeof out->sun_path)
        return kb_fail(err, KINETO_E_LIMIT,
                       "the path of a control socket in '%s' has %d bytes, more than %zu: set "
                       "XDG_RUNTIME_DIR to a shorter one",
                       directory, n, sizeof out->sun_path - 1);
    return KINETO_OK;
}

/* ---- writing packets ------------------------------------------------------------------------- */

void ko_packet_begin(ko_packet *p, const char *verb)
{
    int n = snprintf(p->data, sizeof p->data, "%s\nv=%d\n", verb, KO_CONTROL_VERSION);
    p->bytes = n > 0 ? (size_t)n : 0;
}

/* Escapes newlines and backslashes, as much of the value as fits. @return bytes written. */
static size_t append_escaped(char *out, size_t room, const char *value)
{
    size_t used = 0;
    for (; *value; value++) {
        bool special = *value == '\n' || *value == '\\';
        if (used + (special ? 2 : 1) > room)
            break;
        if (special)
            out[used++] = '\\';
        out[used++] = *value == '\n' ? 'n' : *value;
    }
    return used;
}

void ko_packet_put(ko_packet *p, const char *key, const char *value)
{
    size_t size = strlen(key), room = sizeof p->data - p->bytes;
    if (room < size + 2)
        return;
    KB_ASSERT(p->bytes <= sizeof p->data);
    char *at = p->data + p->bytes;
    memcpy(at, key, size);
    at[size++] = '=';
    size += append_escaped(at + size, room - size - 1, value ? value : "");
    at[size++] = '\n';
    p->bytes += size;
    KB_ASSERT(p->bytes <= sizeof p->data && p->data[p->bytes - 1] == '\n');
}

void ko_packet_put_int(ko_packet *p, const char *key, int64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)value);
    ko_packet_put(p, key, text);
}

/* ---- reading packets ------------------------------------------------------------------------- */

/* Takes the next line, without its newline, off *rest. */
static kineto_string take_packet_line(kineto_string *rest)
{
    const char *end = rest->size ? memchr(rest->data, '\n', rest->size) : NULL;
    kineto_string line = {rest->data, end ? (size_t)(end - rest->data) : rest->size};
    size_t taken = line.size + (end ? 1 : 0);
    *rest = (kineto_string){rest->data + taken, rest->size - taken};
    return line;
}

/* Lower-case letters and hyphens. */
static bool is_verb(kineto_string s)
{
    if (s.size == 0 || s.size >= sizeof((ko_packet_view *)NULL)->verb)
        return false;
    for (size_t i = 0; i < s.size; i++)
        if (!kb_is_lower(s.data[i]) && s.data[i] != '-')
            return false;
    return true;
}

/* All lines before an empty one must be KEY=VALUE. @return NULL, or what is wrong. */
static const char *check_packet_lines(kineto_string *rest, kineto_string *lines)
{
    *lines = (kineto_string){rest->data, 0};
    while (rest->size > 0) {
        kineto_string line = take_packet_line(rest);
        if (line.size == 0)
            break;
        const char *is = memchr(line.data, '=', line.size);
        if (!is || is == line.data)
            return "a line is not KEY=VALUE";
        if (memchr(line.data, '\0', line.size))
            return "it contains a NUL byte";
        lines->size = (size_t)(rest->data - lines->data);
    }
    return NULL;
}

/* Later versions only add verbs and keys, so every version from 1 is accepted. */
static const char *check_packet_version(kineto_string lines)
{
    kineto_string key, value;
    int64_t version;
    while (ko_packet_next(&lines, &key, &value))
        if (kb_string_equal(key, kb_string("v")) &&
            (!ko_packet_number(value, &version) || version < 1))
            return "its version (v) is not a positive number";
    return NULL;
}

bool ko_packet_read(const void *data, size_t bytes, ko_packet_view *out, const char **why)
{
    kineto_string rest = {data, bytes};
    *why = NULL;
    memset(out, 0, sizeof *out);
    kineto_string verb = take_packet_line(&rest);
    if (bytes == 0)
        *why = "it is empty";
    else if (!is_verb(verb))
        *why = "it does not begin with a verb on a line of its own";
    else
        *why = check_packet_lines(&rest, &out->lines);
    if (!*why)
        *why = check_packet_version(out->lines);
    if (*why)
        return false;
    memcpy(out->verb, verb.data, verb.size);
    out->text = rest;
    return true;
}

bool ko_packet_next(kineto_string *lines, kineto_string *key, kineto_string *value)
{
    while (lines->size > 0) {
        kineto_string line = take_packet_line(lines);
        const char *is = line.size ? memchr(line.data, '=', line.size) : NULL;
        if (!is)
            continue;
        *key = (kineto_string){line.data, (size_t)(is - line.data)};
        *value = (kineto_string){is + 1, line.size - key->size - 1};
        return true;
    }
    return false;
}

void ko_packet_unescape(kineto_string value, char *out, size_t size)
{
    size_t used = 0;
    for (size_t i = 0; i < value.size && used + 1 < size; i++) {
        char c = value.data[i];
        if (c == '\\' && i + 1 < value.size) {
            c = value.data[++i];
            if (c == 'n')
                c = '\n';
        }
        out[used++] = c;
    }
    out[used] = '\0';
}

bool ko_packet_number(kineto_string value, int64_t *out)
{
    char text[24];
    char *end;
    if (value.size == 0 || value.size >= sizeof text || value.data[0] == ' ')
        return false;
    memcpy(text, value.data, value.size);
    text[value.size] = '\0';
    errno = 0;
    long long number = strtoll(text, &end, 10);
    if (errno != 0 || *end != '\0' || end == text)
        return false;
    *out = number;
    return true;
}
