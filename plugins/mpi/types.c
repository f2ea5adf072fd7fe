/* Sizes and names of datatypes, and names of operations. A datatype that PyTorch knows is named as
 * there; all others count as bytes. Each thread remembers its last datatypes, until one is freed. */
#include "mpi.h"

#include <stdio.h>
#include <string.h>

/* The first name that fits counts. Names of C and Fortran. */
static const struct {
    const char *mpi, *dtype;
    int bytes;
} names[] = {
    {"MPI_DOUBLE", "double", 8},
    {"MPI_FLOAT", "float", 4},
    {"MPI_INT", "int", 4},
    {"MPI_LONG", "long", 8},
    {"MPI_BYTE", "byte", 1},
    {"MPI_CHAR", "char", 1},
    {"MPI_SIGNED_CHAR", "int8", 1},
    {"MPI_UNSIGNED_CHAR", "uint8", 1},
    {"MPI_SHORT", "short", 2},
    {"MPI_UNSIGNED_SHORT", "uint16", 2},
    {"MPI_UNSIGNED", "uint32", 4},
    {"MPI_UNSIGNED_LONG", "uint64", 8},
    {"MPI_LONG_LONG", "int64", 8},
    {"MPI_LONG_LONG_INT", "int64", 8},
    {"MPI_UNSIGNED_LONG_LONG", "uint64", 8},
    {"MPI_INT8_T", "int8", 1},
    {"MPI_INT16_T", "int16", 2},
    {"MPI_INT32_T", "int32", 4},
    {"MPI_INT64_T", "int64", 8},
    {"MPI_UINT8_T", "uint8", 1},
    {"MPI_UINT16_T", "uint16", 2},
    {"MPI_UINT32_T", "uint32", 4},
    {"MPI_UINT64_T", "uint64", 8},
    {"MPI_C_BOOL", "bool", 1},
    {"MPI_C_FLOAT_COMPLEX", "complexfloat", 8},
    {"MPI_C_COMPLEX", "complexfloat", 8},
    {"MPI_C_DOUBLE_COMPLEX", "complexdouble", 16},
    {"MPI_DOUBLE_PRECISION", "double", 8},
    {"MPI_REAL", "float", 4},
    {"MPI_REAL4", "float", 4},
    {"MPI_REAL8", "double", 8},
    {"MPI_INTEGER", "int", 4},
    {"MPI_INTEGER4", "int32", 4},
    {"MPI_INTEGER8", "int64", 8},
    {"MPI_COMPLEX", "complexfloat", 8},
    {"MPI_DOUBLE_COMPLEX", "complexdouble", 16},
};

static atomic_uint_fast64_t freed_types = 1; /* the version of all that is remembered */
#define REMEMBERED 8u
static __thread cx_type remembered[REMEMBERED] CX_TLS;

void cx_types_forget(void) { atomic_fetch_add(&freed_types, 1); }

static cx_type describe_type(cx_word handle)
{
    char name[512] = ""; /* MPI_MAX_OBJECT_NAME is at most 128 */
    int bytes = 0, size = 0;
    cx_type type = {.handle = handle, .dtype = "byte"};
    if (cx_mpi.type_size(handle, &bytes) || bytes < 0)
        return type;
    type.bytes = bytes;
    if (cx_mpi.type_get_name(handle, name, &size))
        return type;
    for (size_t i = 0; i < CX_COUNT_OF(names); i++)
        if (strcmp(names[i].mpi, name) == 0 && names[i].bytes == bytes) {
            type.dtype = names[i].dtype;
            type.is_plain = true;
            break;
        }
    return type;
}

cx_type cx_type_find(cx_word handle)
{
    uint64_t version = atomic_load_explicit(&freed_types, memory_order_relaxed);
    cx_type *r = &remembered[cx_mix(handle, 0) % REMEMBERED];
    if (KINETO_UNLIKELY(r->handle != handle || r->version != version)) {
        *r = describe_type(handle);
        r->version = version;
    }
    return *r;
}

/* ---- operations ------------------------------------------------------------------------------ */

/* Handles of MPICH, of the standard ABI, and the symbol of Open MPI. */
static const struct {
    const char *name, *symbol;
    uint32_t mpich, standard;
} operations[] = {
    {"sum", "ompi_mpi_op_sum", 0x58000003, 0x21},
    {"max", "ompi_mpi_op_max", 0x58000001, 0x23},
    {"min", "ompi_mpi_op_min", 0x58000002, 0x22},
    {"prod", "ompi_mpi_op_prod", 0x58000004, 0x24},
    {"land", "ompi_mpi_op_land", 0x58000005, 0x30},
    {"band", "ompi_mpi_op_band", 0x58000006, 0x28},
    {"lor", "ompi_mpi_op_lor", 0x58000007, 0x31},
    {"bor", "ompi_mpi_op_bor", 0x58000008, 0x29},
    {"lxor", "ompi_mpi_op_lxor", 0x58000009, 0x32},
    {"bxor", "ompi_mpi_op_bxor", 0x5800000a, 0x2a},
    {"minloc", "ompi_mpi_op_minloc", 0x5800000b, 0x38},
    {"maxloc", "ompi_mpi_op_maxloc", 0x5800000c, 0x39},
    {"replace", "ompi_mpi_op_replace", 0x5800000d, 0x3c},
};
static _Atomic(void *) symbols[CX_COUNT_OF(operations)];

/* The handle of an operation of Open MPI, looked up once. */
static cx_word find_operation_symbol(size_t i)
{
    void *symbol = atomic_load_explicit(&symbols[i], memory_order_relaxed);
    if (!symbol) {
        symbol = cx_find_data(operations[i].symbol);
        atomic_store_explicit(&symbols[i], symbol ? symbol : &symbols[i], memory_order_relaxed);
    }
    return (cx_word)symbol;
}

const char *cx_op_name(cx_word handle)
{
    bool standard = cx_library_facts.world == 0x101;
    for (size_t i = 0; i < CX_COUNT_OF(operations); i++) {
        cx_word this = cx_library_facts.has_int_handles ? operations[i].mpich
                       : standard                       ? operations[i].standard
                                                        : find_operation_symbol(i);
        if (this == handle)
            return operations[i].name;
    }
    return "user-defined";
}
