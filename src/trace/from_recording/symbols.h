/* Converts addresses of native call stacks to text: function, file and line. Works for this
 * process, another one, or one that has ended: it needs only the list of its modules. Files
 * come from the machine of the reader and are checked by build id. */
#ifndef KT_SYMBOLS_H
#define KT_SYMBOLS_H

#include "base/base.h"

typedef struct kt_symbols kt_symbols; /* threads: owner */

/* A piece of code as it was mapped. */
typedef struct kt_module {
    uint64_t start, end;
    uint64_t file_offset;   /* of start */
    kineto_string path;     /* "[vdso]"; empty or "[anon:...]": code generated in memory */
    kineto_string build_id; /* bytes; empty: unknown. A file with another build id is ignored */
    bool is_gone;           /* the file was replaced: without a build id, its path is ignored */
} kt_module;

typedef struct kt_symbol_text {
    /* "file(line): function" as in PyTorch's stacks; "module!function" if the line is unknown,
     * "module+0x1f" if the function is. A ';', which separates frames, is written ','. */
    kineto_string text;
    kineto_string function, file, module; /* empty: unknown */
    uint32_t line;                        /* 0: unknown */
    bool is_inlined;                      /* into the next one */
} kt_symbol_text;

kineto_status kt_symbols_create(kt_symbols **out, kineto_error *err);
void kt_symbols_destroy(kt_symbols *s); /* NULL is ignored */
/* The files of modules are opened in `owner`, once for all processes that share them. Before the first
 * module; the owner is in use until `s` is not any more. */
void kt_symbols_share_files(kt_symbols *s, kt_symbols *owner);
/* Adds a module. Where modules overlap, the last one counts. @return KINETO_E_MEMORY,
 * KINETO_E_ARGUMENT for a module that ends before it starts. */
kineto_status kt_symbols_add(kt_symbols *s, const kt_module *module, kineto_error *err);
/* The copy of a file that `perf record` keeps below ~/.debug. False: it has none with this build id. */
bool kt_symbols_cached_file(kineto_string build_id, char *path, size_t bytes);
/* Adds names of generated code, as Java, node and others write them for perf. `path` NULL:
 * /tmp/perf-PID.map. Only a file of this user or root is trusted; a missing file is not an
 * error. @return KINETO_E_MEMORY. */
kineto_status kt_symbols_add_map(kt_symbols *s, uint32_t pid, const char *path, kineto_error *err);

/* The functions at an address, innermost first: those that were inlined there, then the one that has the code. */
typedef struct kt_symbol_frames {
    const kt_symbol_text *frames; /* valid until the next address; their texts until the handle is destroyed */
    uint32_t count;               /* at least 1 */
    bool is_found;                /* false: it is not in a module */
} kt_symbol_frames;

/* Resolves a return address, to the call before it. Every address is resolved once.
 * @param with_lines  source files and lines, which take much longer to read. Without them, as for sampled
 *                    stacks, all addresses of a function have one text, also where its name is unknown:
 *                    "module+0x1f", where it begins by the unwinder's tables, else "[module]", "[JIT code]" for
 *                    code generated in memory, or "[unknown]". */
kt_symbol_frames kt_symbol_frames_at(kt_symbols *s, uint64_t address, bool with_lines);

/* The innermost of them, with its line. False: it is not in a module. */
bool kt_symbol(kt_symbols *s, uint64_t address, kt_symbol_text *out);

/* How much debug information may be read for inlined functions, of all files; 0: none. Before the first
 * address, on the owner of the files. */
void kt_symbols_limit_inlined(kt_symbols *s, uint64_t limit_bytes);
/* Addresses for which the limit was too low. */
uint64_t kt_symbols_skipped_inlined(const kt_symbols *s);

/* The demangled form of a C++ name, or the name itself; owned by the handle. */
kineto_string kt_symbols_demangle(kt_symbols *s, kineto_string name);

/* The text of a stack, innermost frame first, as PyTorch writes it: "inner;outer;". Equal
 * stacks have the same text, which is valid until the handle is destroyed. Empty: out of
 * memory. */
kineto_string kt_symbols_stack(kt_symbols *s, const uint64_t *addresses, uint32_t count);

/* ---- symbols_elf.c: the tables of an ELF file, which is untrusted ---------------------------- */
typedef struct kt_elf kt_elf;
/* @return KINETO_E_FORMAT: not an ELF file for this type of machine; or the error of opening it. */
kineto_status kt_elf_open(const char *path, kt_elf **out, kineto_error *err);
/* The same for an image in memory, which is borrowed. */
kineto_status kt_elf_open_memory(const void *image, size_t bytes, kt_elf **out, kineto_error *err);
void kt_elf_close(kt_elf *e); /* NULL is ignored */
/* The unwinder's tables of a file: its section .eh_frame. */
typedef struct kt_frames {
    char *bytes; /* NULL: it has none; free() */
    size_t size;
    uint64_t address; /* in the numbering of the file */
} kt_frames;
/* Opens a file without its functions, and reads its tables for unwinding. */
kineto_status kt_elf_open_frames(const char *path, kt_elf **out, kt_frames *frames,
                                 kineto_error *err);
/* The code that the kernel maps into every process, as this one has it: its functions, or if `frames`
 * is given the tables. */
kineto_status kt_elf_open_vdso(kt_elf **out, kt_frames *frames, kineto_error *err);
kineto_string kt_elf_build_id(const kt_elf *e);
/* The virtual address, in the numbering of the file, at which a byte of the file is mapped. */
bool kt_elf_address(const kt_elf *e, uint64_t file_offset, uint64_t *address);
typedef struct kt_elf_symbol {
    kineto_string name;
    uint64_t start, size; /* size 0: not stated, as in assembler */
} kt_elf_symbol;
/* The function that contains such an address, or the nearest one before it, if that has no size. */
bool kt_elf_function(const kt_elf *e, uint64_t address, kt_elf_symbol *out);
/* True if it has a table of all functions; false: only of exported ones. */
bool kt_elf_is_full(const kt_elf *e);
/* Name of the file with its stripped debug data (.gnu_debuglink); empty: none. */
kineto_string kt_elf_debug_link(const kt_elf *e);

/* ---- symbols_frames.c: functions by the unwinder's tables ------------------------------------ */
typedef struct kt_frame_function {
    uint64_t start, size; /* in the numbering of the file */
    uint32_t entry;       /* offset of its entry (FDE) in the tables */
} kt_frame_function;
typedef KB_VEC(kt_frame_function) kt_frame_index; /* by start; kb_vec_free() */
void kt_frames_index(const kt_frames *frames, kt_frame_index *index);
/* The function that contains an address. NULL: the tables have none. */
const kt_frame_function *kt_frames_find(const kt_frame_index *index, uint64_t address);

/* ---- symbols_dwarf.c: debug information, with libdw ------------------------------------------ */
typedef struct kt_dwarf kt_dwarf;
bool kt_dwarf_is_read(void); /* false: built without libdw, no file has any */
/* Opens the debug information in the file at `path`. NULL: it has none, or more compressed than is inflated. */
kt_dwarf *kt_dwarf_open(const char *path);
void kt_dwarf_close(kt_dwarf *d); /* NULL is ignored */
/* `file` is valid until kt_dwarf_close. */
bool kt_dwarf_line(kt_dwarf *d, uint64_t address, const char **file, uint32_t *line);

/* ---- symbols_inlined.c: functions that were inlined, from it --------------------------------- */
#define KT_MAX_INLINED 48u
typedef struct kt_inlined {
    const char *name;      /* as the linker knows it, else with its scopes; valid until kt_dwarf_close */
    const char *call_file; /* where it would have been called; NULL: not known */
    uint32_t call_line;
} kt_inlined;
/* The time and memory of reading debug information grow with its size. */
typedef struct kt_dwarf_budget {
    uint64_t limit_bytes, read_bytes;
    uint64_t skipped; /* addresses that were not looked up, since their unit would have exceeded the limit */
} kt_dwarf_budget;
/* The functions inlined at an address, the innermost first.
 * @param out  has room for KT_MAX_INLINED; of more the innermost ones are given.
 * @return how many. */
uint32_t kt_dwarf_inlined(kt_dwarf *d, uint64_t address, bool with_lines, kt_dwarf_budget *budget,
                          kt_inlined *out);
#endif
