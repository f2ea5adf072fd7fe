/* What symbols_dwarf.c and symbols_inlined.c share: an open file with debug information, and its units. */
#ifndef KT_SYMBOLS_DWARF_H
#define KT_SYMBOLS_DWARF_H

#include "trace/from_recording/symbols.h"

#ifdef KT_WITH_DW
#include <dwarf.h>
#include <elfutils/libdw.h>

/* Code of a function. One whose code is in several places has an entry for each. */
typedef struct kt_dwarf_function {
    uint64_t start, end;
    uint32_t first, after; /* what was inlined into it: indexes of `inlined` */
} kt_dwarf_function;

/* Code of a function that was inlined; outer ones precede those inlined into them. */
typedef struct kt_dwarf_inlining {
    uint64_t start, end;
    Dwarf_Die entry;
} kt_dwarf_inlining;

/* A namespace, class or function that others are declared in. */
typedef struct kt_dwarf_scope {
    Dwarf_Die entry;
    uint32_t parent; /* index of `scopes`; 0: none */
} kt_dwarf_scope;

/* A compilation unit. */
typedef struct kt_dwarf_unit {
    Dwarf_Die entry;
    uint64_t bytes; /* of its debug information */
    bool is_indexed;
    KB_VEC(kt_dwarf_function) functions; /* by start */
    KB_VEC(kt_dwarf_inlining) inlined;
    KB_VEC(kt_dwarf_scope) scopes; /* the first one is the unit */
    kb_map scope_of;               /* entry of a function → index of `scopes` */
} kt_dwarf_unit;

/* Code of a unit. */
typedef struct kt_dwarf_range {
    uint64_t start, end;
    uint32_t unit;
} kt_dwarf_range;

struct kt_dwarf {
    int fd;
    Elf *elf;
    Dwarf *dwarf;
    bool has_units; /* they were listed */
    KB_VEC(kt_dwarf_unit) units;
    KB_VEC(kt_dwarf_range) ranges; /* by start */
    kb_arena texts;
    kb_map names; /* entry of a function → its name in texts */
};

/* The unit with the code at an address; NULL: none, or out of memory. Valid until kt_dwarf_close. */
kt_dwarf_unit *kt_dwarf_unit_at(kt_dwarf *d, uint64_t address);
#endif
#endif
