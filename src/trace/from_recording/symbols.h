/* Addresses of native call stacks as text: which function, which file and line. Of this process, of
 * another, of one that has ended: all that is needed is the list of its modules. */
#ifndef KT_SYMBOLS_H
#define KT_SYMBOLS_H

#include "base/base.h"

typedef struct kt_symbols kt_symbols; /* threads: owner */

/* A piece of code as it was mapped. */
typedef struct kt_module {
    uint64_t start, end;
    uint64_t file_offset;   /* of start */
    kineto_string path;     /* "[vdso]"; empty, or "[anon:...]": code that was made in memory */
    kineto_string build_id; /* bytes; empty: unknown. A file with another one is not looked at */
    bool is_gone;           /* nor one that took its place, if nothing says that it is the same */
} kt_module;

typedef struct kt_symbol_text {
    /* "file(line): function" as in PyTorch's stacks; "module!function" if the line is unknown,
     * "module+0x1f" if the function is. A ';', which separates frames, is written ','. */
    kineto_string text;
    kineto_string function, file, module; /* empty: unknown */
    uint32_t line;                        /* 0: unknown */
} kt_symbol_text;

kineto_status kt_symbols_create(kt_symbols **out, kineto_error *err);
void kt_symbols_destroy(kt_symbols *s); /* NULL is fine */
/* Where modules overlap the one that was added last counts. @return KINETO_E_MEMORY,
 * KINETO_E_ARGUMENT for one that ends before it starts. */
kineto_status kt_symbols_add(kt_symbols *s, const kt_module *module, kineto_error *err);
/* Names of code made in memory, as Java, node and others write them for perf. `path` NULL:
 * /tmp/perf-PID.map; only a file of this user or root is believed. A missing file is no error.
 * @return KINETO_E_MEMORY. */
kineto_status kt_symbols_add_map(kt_symbols *s, uint32_t pid, const char *path, kineto_error *err);

/* What a return address stands for: the call before it. Texts are the handle's. False: it lies in
 * no module; the text is then the address. Every address is resolved once. */
bool kt_symbol(kt_symbols *s, uint64_t address, kt_symbol_text *out);

/* A whole stack, innermost first, as PyTorch writes it: "inner;outer;". What was made once is the
 * same text again; borrowed until the handle is destroyed. Empty without memory. */
kineto_string kt_symbols_stack(kt_symbols *s, const uint64_t *addresses, uint32_t count);

/* ---- symbols_elf.c: the tables of an ELF file, which may be anything ------------------------- */
typedef struct kt_elf kt_elf;
/* @return KINETO_E_FORMAT for what is no ELF file of this machine's kind; what opening met. */
kineto_status kt_elf_open(const char *path, kt_elf **out, kineto_error *err);
/* An image in memory, which must stay. */
kineto_status kt_elf_open_memory(const void *image, size_t bytes, kt_elf **out, kineto_error *err);
void kt_elf_close(kt_elf *e); /* NULL is fine */
kineto_string kt_elf_build_id(const kt_elf *e);
/* Where a byte of the file is mapped, in the file's own numbering. */
bool kt_elf_address(const kt_elf *e, uint64_t file_offset, uint64_t *address);
/* The function around an address of that numbering. */
bool kt_elf_function(const kt_elf *e, uint64_t address, kineto_string *name);
/* Does it have all functions, or only those that it exports? */
bool kt_elf_is_full(const kt_elf *e);
/* Name of the file with what was stripped from this one; empty if it says none. */
kineto_string kt_elf_debug_link(const kt_elf *e);

/* ---- symbols_lines.c: file and line, with libdw ---------------------------------------------- */
typedef struct kt_lines kt_lines;
/* Lines of the file at `path`, or of the one with what was stripped from it. NULL: there are none.
 */
kt_lines *kt_lines_open(const char *path);
void kt_lines_close(kt_lines *l); /* NULL is fine */
/* `file` is valid until kt_lines_close. */
bool kt_lines_find(kt_lines *l, uint64_t address, const char **file, uint32_t *line);
#endif
