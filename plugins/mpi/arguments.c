/* Values of arguments. In C an int is in the low half of its word, whatever the high half holds; in
 * Fortran each word is the address of a value, handles are numbers of their own, and an index begins
 * at 1. */
#include "mpi.h"

#include <stdlib.h>
#include <string.h>

int cx_int(const cx_call *c, cx_role role)
{
    cx_word word = cx_word_of(c, role);
    return cx_is_fortran(c) ? *(const int *)word : (int)(uint32_t)word;
}

int64_t cx_size(const cx_call *c, cx_role role)
{
    return c->language == CX_C_LARGE ? (int64_t)cx_word_of(c, role) : cx_int(c, role);
}

int64_t cx_sizes_sum(const cx_call *c, cx_role role, int ranks, int only)
{
    const void *list = (const void *)cx_word_of(c, role);
    int64_t sum = 0;
    for (int i = only < 0 ? 0 : only; list && i < (only < 0 ? ranks : only + 1); i++)
        sum += c->language == CX_C_LARGE ? ((const int64_t *)list)[i] : ((const int *)list)[i];
    return sum;
}

/* ---- handles --------------------------------------------------------------------------------- */

/* The handle of C for one of Fortran. */
static cx_word convert_handle(int number, cx_handle_kind kind)
{
    cx_word (*const convert[])(int) = {
        [CX_KIND_COMM] = cx_mpi.comm_f2c,       [CX_KIND_TYPE] = cx_mpi.type_f2c,
        [CX_KIND_REQUEST] = cx_mpi.request_f2c, [CX_KIND_OP] = cx_mpi.op_f2c,
        [CX_KIND_MESSAGE] = cx_mpi.message_f2c,
    };
    if (cx_library_facts.has_int_handles || !convert[kind])
        return (uint32_t)number;
    return convert[kind](number);
}

cx_word cx_handle(const cx_call *c, cx_role role, cx_handle_kind kind)
{
    cx_word word = cx_word_of(c, role);
    if (cx_is_fortran(c))
        return convert_handle(*(const int *)word, kind);
    return cx_library_facts.has_int_handles ? (uint32_t)word : word;
}

cx_word cx_handle_at(const cx_call *c, cx_role role, cx_handle_kind kind, size_t index)
{
    const void *list = (const void *)cx_word_of(c, role);
    if (cx_is_fortran(c))
        return convert_handle(((const int *)list)[index], kind);
    return cx_library_facts.has_int_handles ? ((const uint32_t *)list)[index]
                                            : ((const cx_word *)list)[index];
}

/* ---- results --------------------------------------------------------------------------------- */

int cx_result(const cx_call *c, cx_role role, size_t index)
{
    int value = ((const int *)cx_word_of(c, role))[index];
    return role == CX_INDEX && cx_is_fortran(c) ? value - 1 : value;
}

/* Variables of the library that hold the address of Fortran's ignored statuses. MPICH's module for
 * Fortran 2008 passes these on to the functions of C. */
static const char *const ignored_names[] = {"MPI_F_STATUS_IGNORE", "MPI_F_STATUSES_IGNORE",
                                            "MPI_F08_STATUS_IGNORE", "MPI_F08_STATUSES_IGNORE"};
static cx_word ignored[CX_COUNT_OF(ignored_names)];

void cx_find_ignored_statuses(void)
{
    for (size_t i = 0; i < CX_COUNT_OF(ignored_names); i++) {
        const cx_word *variable = cx_find_data(ignored_names[i]);
        ignored[i] = variable ? *variable : 0;
    }
}

bool cx_ignores_status(const cx_call *c)
{
    cx_word status = cx_word_of(c, CX_STATUS);
    if (status == 0 || (!cx_is_fortran(c) && status == cx_library_facts.ignored_status))
        return true;
    for (size_t i = 0; i < CX_COUNT_OF(ignored); i++)
        if (status == ignored[i])
            return true;
    return false;
}

bool cx_copy_requests(cx_call *c)
{
    size_t count = cx_has(c, CX_REQUESTS) ? (size_t)cx_int(c, CX_REQUESTS) : 1;
    c->pending_count = 0;
    if ((int64_t)count < 0 || count > UINT32_MAX / 2)
        return false;
    c->pending =
        count <= CX_INLINE_PENDING ? c->inline_pending : malloc(count * sizeof *c->pending);
    if (!c->pending)
        return false;
    for (size_t i = 0; i < count; i++)
        (void)cx_request_find(cx_handle_at(c, CX_REQUEST, CX_KIND_REQUEST, i), &c->pending[i]);
    c->pending_count = (uint32_t)count;
    return true;
}

void cx_free_requests(cx_call *c)
{
    if (c->pending && c->pending != c->inline_pending)
        free(c->pending);
    if (c->statuses && c->statuses != c->inline_status)
        free(c->statuses);
    c->pending = NULL;
    c->statuses = NULL;
}

/* Fortran's texts are padded with blanks; their length is the last argument, after the error. */
void cx_file_name(const cx_call *c, char *out, size_t size)
{
    const char *text = (const char *)cx_word_of(c, CX_FILE_NAME);
    size_t length = cx_is_fortran(c) ? (size_t)c->words[c->spec->argument_count + 1] : SIZE_MAX;
    length = text ? strnlen(text, length < size - 1 ? length : size - 1) : 0;
    while (cx_is_fortran(c) && length && text[length - 1] == ' ')
        length--;
    if (length)
        memcpy(out, text, length);
    out[length] = '\0';
}
