/* Files of a recording that is a directory; see directory.h. */
#include "trace/import/directory.h"
#include "trace/import/text_line.h"

#include <dirent.h>
#include <errno.h>
#include <sys/stat.h>

#define MAX_PATH_BYTES 4096u

/* ---- one file -------------------------------------------------------------------------------- */

kineto_status kt_directory_open(const kt_directory *d, const char *name, kt_input **out,
                                kineto_string *bytes, kineto_error *err)
{
    char path[MAX_PATH_BYTES];
    struct stat st;
    int size = snprintf(path, sizeof path, "%s/%s", d->path, name);
    *out = NULL;
    *bytes = (kineto_string){"", 0};
    if (size < 0 || (size_t)size >= sizeof path || stat(path, &st) != 0 || !S_ISREG(st.st_mode))
        return kb_fail(err, KINETO_E_NOT_FOUND, "its file %s is missing", name);
    kineto_status status = kt_input_open(path, out, err);
    if (status)
        return status;
    *bytes = (kineto_string){(*out)->base, kt_input_wait(*out, SIZE_MAX)};
    if (!kt_input_status(*out))
        return KINETO_OK;
    status = kt_input_status(*out);
    if (err)
        *err = (*out)->error;
    kt_input_release(*out);
    *out = NULL;
    return status;
}

kineto_status kt_directory_release(kt_input *input, kineto_error *err)
{
    if (!input)
        return KINETO_OK;
    kineto_status status = kt_input_check(input, err);
    kt_input_release(input);
    return status;
}

kineto_status kt_directory_read(kt_directory *d, const char *name, kineto_string *bytes,
                                kineto_error *err)
{
    kt_input *input;
    kineto_status status = kt_directory_open(d, name, &input, bytes, err);
    if (status || kb_vec_push(&d->inputs, input))
        return status;
    kt_input_release(input);
    return kb_fail_memory(err, name);
}

kineto_status kt_directory_check(const kt_directory *d, kineto_error *err)
{
    kineto_status status = KINETO_OK;
    for (size_t i = 0; i < d->inputs.count && !status; i++)
        status = kt_input_check(d->inputs.data[i], err);
    return status;
}

void kt_directory_close(kt_directory *d)
{
    for (size_t i = 0; i < d->inputs.count; i++)
        kt_input_release(d->inputs.data[i]);
    kb_vec_free(&d->inputs);
}

/* ---- names ----------------------------------------------------------------------------------- */

static int compare_file_names(const void *left, const void *right)
{
    return strverscmp(*(char *const *)left, *(char *const *)right);
}

static bool is_name_between(const char *name, const char *begin, const char *end)
{
    kineto_string s = kb_string(name);
    return s.size > strlen(begin) + strlen(end) && kb_string_starts_with(s, begin) &&
           kb_string_ends_with(s, end);
}

static bool append_file_name(kt_directory_names *out, const char *name)
{
    char *copy = strdup(name);
    if (copy && kb_vec_push(&out->list, copy))
        return true;
    free(copy);
    return false;
}

kineto_status kt_directory_find(const char *path, const char *begin, const char *end,
                                kt_directory_names *out, kineto_error *err)
{
    *out = (kt_directory_names){0};
    DIR *d = opendir(path);
    if (!d)
        return kb_fail_os(err, errno, "cannot read directory %s", path);
    bool has_memory = true;
    for (struct dirent *entry; has_memory && (entry = readdir(d)) != NULL;)
        if (is_name_between(entry->d_name, begin, end))
            has_memory = append_file_name(out, entry->d_name);
    closedir(d);
    if (out->list.count)
        qsort(out->list.data, out->list.count, sizeof *out->list.data, compare_file_names);
    return has_memory ? KINETO_OK : kb_fail_memory(err, "list of files");
}

void kt_directory_names_free(kt_directory_names *names)
{
    for (size_t i = 0; i < names->list.count; i++)
        free(names->list.data[i]);
    kb_vec_free(&names->list);
}

uint64_t kt_directory_number(const char *name, const char *begin, const char *end)
{
    if (!is_name_between(name, begin, end))
        return KT_NO_NUMBER;
    size_t size = strlen(name) - strlen(begin) - strlen(end);
    return kt_line_number((kineto_string){name + strlen(begin), size});
}
