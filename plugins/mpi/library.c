/* The MPI library of the process. Its functions are those after ours in the order of the dynamic
 * linker, or of a library that was loaded with local scope, as extension modules of Python load it.
 * What differs between libraries is known by their own description of themselves. */
#include "mpi.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

cx_library cx_library_facts;
cx_functions cx_mpi;

/* ---- finding functions ----------------------------------------------------------------------- */

static void *local_library; /* the library, if it is not in the global scope */

/* dl_iterate_phdr: an object with MPI functions that is not ours. */
static int find_local_library(struct dl_phdr_info *info, size_t size, void *context)
{
    (void)size;
    Dl_info ours, theirs;
    void **found = context;
    void *handle = info->dlpi_name && strstr(info->dlpi_name, "mpi")
                       ? dlopen(info->dlpi_name, RTLD_LAZY | RTLD_NOLOAD)
                       : NULL;
    void *function = handle ? dlsym(handle, "PMPI_Init") : NULL;
    if (function && dladdr(function, &theirs) && dladdr((void *)cx_specs, &ours) &&
        theirs.dli_fbase != ours.dli_fbase) {
        *found = handle; /* stays open: it is in use */
        return 1;
    }
    if (handle)
        (void)dlclose(handle);
    return 0;
}

static void *find_symbol(const char *name)
{
    void *symbol = dlsym(RTLD_NEXT, name);
    if (symbol)
        return symbol;
    if (!local_library)
        (void)dl_iterate_phdr(find_local_library, &local_library);
    return local_library ? dlsym(local_library, name) : NULL;
}

/* The program may have a copy of the library's variable, which is then the one that counts. */
void *cx_find_data(const char *name)
{
    void *symbol = dlsym(RTLD_DEFAULT, name);
    return symbol ? symbol : find_symbol(name);
}

/* The program calls a function that no library has: any error code of MPI. */
static int fail_missing_call(void)
{
    cx_count(CX_TALLY_MISSING);
    return 15; /* MPI_ERR_OTHER of MPICH, MPI_ERR_UNKNOWN of others */
}

static _Atomic(void *) next_functions[CX_LANGUAGE_COUNT][CX_CALL_COUNT];
static atomic_bool is_narrow[CX_CALL_COUNT]; /* its _c is the function with int counts */

/* "mpi_send_" → "mpi_send_f08_", "MPI_Send" → "MPI_Send_c". */
static void write_symbol_name(char *out, size_t size, cx_number number, cx_language language)
{
    const cx_spec *s = &cx_specs[number];
    snprintf(out, size, "%s%s", language >= CX_FORTRAN ? s->fortran : s->name,
             language == CX_C_LARGE        ? "_c"
             : language == CX_FORTRAN_2008 ? "f08_"
                                           : "");
}

static CX_COLD void *find_next_function(cx_number number, cx_language language)
{
    char name[80];
    write_symbol_name(name + 1, sizeof name - 1, number, language);
    void *function = find_symbol(name + 1);
    if (!function) {
        name[0] = language >= CX_FORTRAN ? 'p' : 'P';
        function = find_symbol(name);
    }
    if (!function && language == CX_C_LARGE) {
        function = find_symbol(cx_specs[number].name);
        atomic_store(&is_narrow[number], function != NULL);
    }
    if (!function)
        *(int (**)(void)) & function = fail_missing_call;
    atomic_store_explicit(&next_functions[language][number], function, memory_order_release);
    return function;
}

void *cx_next(cx_number number, cx_language language)
{
    void *function = atomic_load_explicit(&next_functions[language][number], memory_order_acquire);
    return KINETO_LIKELY(function != NULL) ? function : find_next_function(number, language);
}

bool cx_is_too_large(cx_number number, const cx_word *words)
{
    static const cx_role counts[] = {CX_COUNT, CX_COUNT2};
    const uint8_t *at = cx_specs[number].at;
    for (size_t i = 0; i < CX_COUNT_OF(counts); i++)
        if (atomic_load_explicit(&is_narrow[number], memory_order_relaxed) && at[counts[i]] &&
            words[at[counts[i]] - 1] > INT32_MAX)
            return true;
    return false;
}

/* ---- facts ----------------------------------------------------------------------------------- */

/* Offsets in MPI_Status, special values, predefined handles. */
static const cx_library open_mpi = {.is_known = true,
                                    .tag_at = 4,
                                    .status_bytes = 24,
                                    .any_source = -1,
                                    .any_tag = -1,
                                    .name = "Open MPI"};
static const cx_library mpich = {.is_known = true,
                                 .has_int_handles = true,
                                 .source_at = 8,
                                 .tag_at = 12,
                                 .status_bytes = 20,
                                 .any_source = -2,
                                 .any_tag = -1,
                                 .world = 0x44000000,
                                 .self = 0x44000001,
                                 .null_comm = 0x04000000,
                                 .ignored_status = 1,
                                 .name = "MPICH"};
static const cx_library standard_abi = {.is_known = true,
                                        .tag_at = 4,
                                        .status_bytes = 32,
                                        .any_source = -1,
                                        .any_tag = -2,
                                        .world = 0x101,
                                        .self = 0x102,
                                        .null_comm = 0x100,
                                        .name = "MPI standard ABI"};

/* Is this the library of the standard ABI? By its file name, which the standard prescribes. */
static bool has_standard_abi(void)
{
    Dl_info info;
    void *function = find_symbol("PMPI_Init");
    const char *slash =
        function && dladdr(function, &info) && info.dli_fname ? strrchr(info.dli_fname, '/') : NULL;
    return slash && strncmp(slash, "/libmpi_abi.", 12) == 0;
}

/* Libraries that are made from MPICH have its binary interface. */
static bool is_of_mpich(const char *version)
{
    static const char *const words[] = {"MPICH", "Intel(R) MPI", "MVAPICH", "ParaStation"};
    for (size_t i = 0; i < CX_COUNT_OF(words); i++)
        if (strstr(version, words[i]))
            return true;
    return false;
}

static void find_library_facts(void)
{
    char version[8192] = ""; /* MPI_MAX_LIBRARY_VERSION_STRING of MPICH, the largest */
    int size = 0;
    if (cx_mpi.get_library_version)
        (void)cx_mpi.get_library_version(version, &size);
    if (has_standard_abi())
        cx_library_facts = standard_abi;
    else if (strstr(version, "Open MPI"))
        cx_library_facts = open_mpi;
    else if (is_of_mpich(version))
        cx_library_facts = mpich;
    if (cx_library_facts.world || !cx_library_facts.is_known)
        return;
    cx_library_facts.world = (cx_word)cx_find_data("ompi_mpi_comm_world");
    cx_library_facts.self = (cx_word)cx_find_data("ompi_mpi_comm_self");
    cx_library_facts.null_comm = (cx_word)cx_find_data("ompi_mpi_comm_null");
    cx_library_facts.is_known = cx_library_facts.world != 0;
}

/* Where a function of cx_mpi is, and its name. */
#define FUNCTION(member, name, needed)                                                             \
    {                                                                                              \
        offsetof(cx_functions, member), name, needed                                               \
    }
static const struct {
    size_t at;
    const char *name;
    bool is_needed;
} functions[] = {
    FUNCTION(type_size, "PMPI_Type_size", true),
    FUNCTION(type_get_name, "PMPI_Type_get_name", true),
    FUNCTION(comm_size, "PMPI_Comm_size", true),
    FUNCTION(comm_rank, "PMPI_Comm_rank", true),
    FUNCTION(comm_group, "PMPI_Comm_group", true),
    FUNCTION(comm_test_inter, "PMPI_Comm_test_inter", true),
    FUNCTION(comm_remote_group, "PMPI_Comm_remote_group", true),
    FUNCTION(group_size, "PMPI_Group_size", true),
    FUNCTION(group_translate_ranks, "PMPI_Group_translate_ranks", true),
    FUNCTION(group_free, "PMPI_Group_free", true),
    FUNCTION(get_count, "PMPI_Get_count", true),
    FUNCTION(get_library_version, "PMPI_Get_library_version", false),
    FUNCTION(comm_f2c, "PMPI_Comm_f2c", false),
    FUNCTION(type_f2c, "PMPI_Type_f2c", false),
    FUNCTION(request_f2c, "PMPI_Request_f2c", false),
    FUNCTION(op_f2c, "PMPI_Op_f2c", false),
    FUNCTION(message_f2c, "PMPI_Message_f2c", false),
};

/* Handles of Fortran in the standard ABI are converted by functions of other names. */
static void find_conversions_of_abi(void)
{
    static const char *const names[] = {"PMPI_Comm_fromint", "PMPI_Type_fromint",
                                        "PMPI_Request_fromint", "PMPI_Op_fromint",
                                        "PMPI_Message_fromint"};
    cx_word (**const to[])(int) = {&cx_mpi.comm_f2c, &cx_mpi.type_f2c, &cx_mpi.request_f2c,
                                   &cx_mpi.op_f2c, &cx_mpi.message_f2c};
    for (size_t i = 0; i < CX_COUNT_OF(names); i++)
        if (!*to[i])
            *(void **)to[i] = find_symbol(names[i]);
}

CX_COLD void cx_library_find(void)
{
    bool is_complete = true;
    for (size_t i = 0; i < CX_COUNT_OF(functions); i++) {
        void *function = find_symbol(functions[i].name);
        memcpy((char *)&cx_mpi + functions[i].at, &function, sizeof function);
        is_complete = is_complete && (function || !functions[i].is_needed);
    }
    find_conversions_of_abi();
    find_library_facts();
    cx_library_facts.is_known = cx_library_facts.is_known && is_complete;
    if (!cx_library_facts.is_known)
        cx_count(CX_TALLY_LIBRARY);
}
