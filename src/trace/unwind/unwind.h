/* Call stacks of other processes, from copies of their registers and of the top of their stack. The
 * process need not exist any more: the unwinder's tables are read from its files. */
#ifndef KU_UNWIND_H
#define KU_UNWIND_H

#include "base/base.h"
#include "base/cfi.h"

/* ---- images.c: files with code --------------------------------------------------------------- */

typedef struct ku_image ku_image;
/* All files that were needed so far; zeroed at first. threads: owner. */
typedef struct ku_images {
    KB_VEC(ku_image *) list;
    kb_map of_path; /* hash of the path → index + 1 */
} ku_images;
/** The file at `path` as process `pid` sees it, read on first use. NULL: generated code, or out of
 *  memory. A file that cannot be read has no rows. */
ku_image *ku_image_get(ku_images *all, const char *path, uint32_t pid);
uint32_t ku_image_number(const ku_image *image);
/** The address, in the numbering of the file, of a byte of the file. */
bool ku_image_address(const ku_image *image, uint64_t file_offset, uint64_t *address);
/** The row for such an address, with the entry for expressions in it. False: the tables have none,
 *  or it cannot be evaluated. */
bool ku_image_row(const ku_image *image, uint64_t address, kb_cfi_row *row, const uint8_t **entry,
                  kb_cfi_bounds *bounds);
kineto_string ku_image_build_id(const ku_image *image); /* bytes; empty: unknown */
void ku_images_free(ku_images *all);

/* ---- address_space.c: what is mapped where --------------------------------------------------- */

/* A piece of code in the memory of a process. */
typedef struct ku_mapping {
    uint64_t start, end, file_offset; /* file_offset: of start */
    char *path;
    kineto_string build_id; /* of the file that was mapped; borrowed; empty: unknown */
    ku_image *image; /* NULL: not looked up yet, or generated code */
    bool is_looked_up;
    bool is_noted; /* the recording describes it */
} ku_mapping;
typedef struct ku_address_space {
    uint32_t pid;
    KB_VEC(ku_mapping) mappings; /* by start; they do not overlap */
} ku_address_space;
/** Add a mapping; it replaces what it overlaps. False: out of memory. */
bool ku_space_add(ku_address_space *space, uint64_t start, uint64_t bytes, uint64_t file_offset,
                  const char *path);
bool ku_space_copy(ku_address_space *to, const ku_address_space *from);
/** NULL: no code is known there. Valid until the next change. */
ku_mapping *ku_space_find(const ku_address_space *space, uint64_t address);
void ku_space_free(ku_address_space *space);

/* ---- unwind.c -------------------------------------------------------------------------------- */

#define KU_MAX_FRAMES 127u

/* Copied state of a thread. */
typedef struct ku_stack_copy {
    uint64_t registers[KB_CFI_REGISTERS]; /* by DWARF's numbers */
    uint64_t instruction;                 /* the address where the thread was */
    const uint8_t *bytes;                 /* of its stack, from its stack pointer upwards */
    uint64_t size;
} ku_stack_copy;

/* Rows that were evaluated. */
typedef struct ku_unwinder ku_unwinder;
ku_unwinder *ku_unwinder_create(void); /* NULL: out of memory */
void ku_unwinder_destroy(ku_unwinder *u);
/** The frames of a stack, innermost first: the address where the thread was, then return addresses.
 *  @param is_cut  receives whether there are more frames, which cannot be found: the copy ends, or
 *                 code has no tables.
 *  @return how many, at most KU_MAX_FRAMES. threads: owner. */
uint32_t ku_unwind(ku_unwinder *u, ku_images *images, ku_address_space *space,
                   const ku_stack_copy *copy, uint64_t *frames, bool *is_cut);
#endif
