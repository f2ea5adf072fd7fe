/* Converts addresses to text (see symbols.h), from the modules of a process, the symbol tables and
 * debug information of their files (opened on first use), and perf maps of generated code.
 * Resolved addresses and stacks are cached. A handle belongs to one thread. */
#include "trace/from_recording/symbols.h"
#include "trace/from_recording/rust_names.h"
#include "trace/trace.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_MAP_BYTES  ((uint64_t)256 << 20)
#define MAX_PATH_BYTES 4096u

/* A file of one or more modules. */
typedef struct file {
    uint32_t path; /* in texts */
    kineto_string build_id;
    kt_elf *elf, *stripped; /* the file, and its debug file; NULL: none, or another build */
    char *path_of_elf, *path_of_stripped;
    kt_dwarf *dwarf;
    kt_frame_index frames;
    bool is_open, is_gone, has_looked_for_dwarf, has_looked_for_frames;
} file;

/* A mapped part of a file. */
typedef struct part {
    uint64_t start, end, file_offset;
    uint32_t file;
} part;

/* A function of generated code. */
typedef struct made {
    uint64_t start, end;
    uint32_t name;
} made;

/* The frames of an address, in kt_symbols.frames. */
typedef struct resolved {
    uint32_t first, count;
    bool is_found;
} resolved;

struct kt_symbols {
    kt_symbols *owner; /* of the files: itself, or the handle that it shares them with */
    kb_intern texts;
    KB_VEC(file) files;
    kb_map file_of_key; /* hash of what identifies a file → index */
    KB_VEC(part) parts;
    KB_VEC(made) made; /* by start */
    KB_VEC(resolved) resolved;
    KB_VEC(kt_symbol_text) frames;
    kt_symbol_text last[KT_MAX_INLINED + 1]; /* frames of the last address that was resolved */
    kt_dwarf_budget budget;
    kb_intern stacks;             /* the addresses of each, as bytes */
    KB_VEC(uint32_t) stack_texts; /* by number in stacks; 0: not yet made */
    KB_VEC(char) line;
    kb_map seen, seen_names; /* address → index of resolved, with lines and without */
    kb_map demangled;        /* text → text, in texts */
    char *(*demangle)(const char *, char *, size_t *, int *);
    void *demangler;
    bool looked_for_demangler;
};

kineto_status kt_symbols_create(kt_symbols **out, kineto_error *err)
{
    *out = calloc(1, sizeof **out);
    if (!*out)
        return kb_fail_memory(err, "symbols");
    (*out)->owner = *out;
    (*out)->budget.limit_bytes = UINT64_MAX;
    return KINETO_OK;
}

void kt_symbols_share_files(kt_symbols *s, kt_symbols *owner)
{
    KB_ASSERT(s->parts.count == 0 && s->files.count == 0);
    s->owner = owner;
}

void kt_symbols_destroy(kt_symbols *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->files.count; i++) {
        kt_elf_close(s->files.data[i].elf);
        kt_elf_close(s->files.data[i].stripped);
        kt_dwarf_close(s->files.data[i].dwarf);
        kb_vec_free(&s->files.data[i].frames);
        free(s->files.data[i].path_of_elf);
        free(s->files.data[i].path_of_stripped);
    }
    if (s->demangler)
        dlclose(s->demangler);
    kb_intern_free(&s->texts);
    kb_intern_free(&s->stacks);
    kb_vec_free(&s->stack_texts);
    kb_vec_free(&s->line);
    kb_vec_free(&s->files);
    kb_map_free(&s->file_of_key);
    kb_vec_free(&s->parts);
    kb_vec_free(&s->made);
    kb_vec_free(&s->resolved);
    kb_vec_free(&s->frames);
    kb_map_free(&s->seen);
    kb_map_free(&s->seen_names);
    kb_map_free(&s->demangled);
    free(s);
}

/* ---- modules --------------------------------------------------------------------------------- */

/* Index of the file of a module, added on first use; UINT32_MAX: out of memory. */
static uint32_t find_or_add_file(kt_symbols *user, const kt_module *module)
{
    kt_symbols *s = user->owner;
    uint32_t path = kb_intern_id(&s->texts, module->path);
    uint32_t id = kb_intern_id(&s->texts, module->build_id);
    if (path == KB_INTERN_NONE || id == KB_INTERN_NONE)
        return UINT32_MAX;
    kineto_string build_id = kb_intern_get(&s->texts, id);
    uint32_t key[3] = {path, id, module->is_gone};
    bool is_new = false;
    const uint64_t *index =
        kb_map_insert(&s->file_of_key, kb_hash(key, sizeof key), s->files.count, &is_new);
    if (!index || !is_new)
        return index ? (uint32_t)*index : UINT32_MAX;
    file f = {.path = path, .build_id = build_id, .is_gone = module->is_gone};
    if (!kb_vec_push(&s->files, f)) {
        kb_map_free(&s->file_of_key); /* it names an index that does not exist */
        return UINT32_MAX;
    }
    return (uint32_t)s->files.count - 1;
}

kineto_status kt_symbols_add(kt_symbols *s, const kt_module *module, kineto_error *err)
{
    if (module->end <= module->start)
        return kb_fail(err, KINETO_E_ARGUMENT, "a module ends before it starts");
    uint32_t index = find_or_add_file(s, module);
    part p = {module->start, module->end, module->file_offset, index};
    if (index == UINT32_MAX || !kb_vec_push(&s->parts, p))
        return kb_fail_memory(err, "symbols");
    return KINETO_OK;
}

/* ---- generated code -------------------------------------------------------------------------- */

/* Parses up to 16 hexadecimal digits, with or without 0x, and moves *at; false: none. */
static bool parse_map_hex(const char **at, const char *end, uint64_t *value)
{
    const char *from = *at;
    *value = 0;
    if (end - *at > 2 && (*at)[0] == '0' && ((*at)[1] | 32) == 'x')
        from = *at += 2;
    for (; *at < end; ++*at) {
        int digit = kb_hex_value(**at);
        if (digit < 0)
            break;
        *value = *value << 4 | (uint64_t)digit;
    }
    return *at > from && *at - from <= 16;
}

static bool skip_map_spaces(const char **at, const char *end)
{
    const char *from = *at;
    while (*at < end && **at == ' ')
        ++*at;
    return *at > from;
}

/* Adds a line of a perf map, "START SIZE name" with hexadecimal numbers; other lines are
 * skipped. False: out of memory. */
static bool add_map_line(kt_symbols *s, const char *at, const char *end)
{
    made m;
    uint64_t size;
    if (!parse_map_hex(&at, end, &m.start) || !skip_map_spaces(&at, end) ||
        !parse_map_hex(&at, end, &size) ||
        !skip_map_spaces(&at, end) || at == end || __builtin_add_overflow(m.start, size, &m.end) ||
        size == 0)
        return true;
    m.name = kb_intern_id(&s->texts, (kineto_string){at, (size_t)(end - at)});
    return m.name != KB_INTERN_NONE && kb_vec_push(&s->made, m);
}

static int compare_generated_functions(const void *a, const void *b)
{
    const made *x = a, *y = b;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    return (x->name > y->name) - (x->name < y->name);
}

/* The content of a perf map, which the caller frees; NULL: missing, untrusted, or too large. */
static char *read_perf_map(const char *path, size_t *bytes)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
    char *text = NULL;
    *bytes = 0;
    if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
        (st.st_uid == geteuid() || st.st_uid == 0) && (uint64_t)st.st_size <= MAX_MAP_BYTES)
        text = malloc((size_t)st.st_size + 1);
    while (text && *bytes < (size_t)st.st_size) {
        ssize_t got = read(fd, text + *bytes, (size_t)st.st_size - *bytes);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        *bytes += (size_t)got;
    }
    if (fd >= 0)
        close(fd);
    return text;
}

kineto_status kt_symbols_add_map(kt_symbols *s, uint32_t pid, const char *path, kineto_error *err)
{
    char usual[64];
    size_t bytes;
    snprintf(usual, sizeof usual, "/tmp/perf-%u.map", pid);
    char *text = read_perf_map(path ? path : usual, &bytes);
    if (!text)
        return KINETO_OK;
    bool ok = true;
    for (const char *at = text, *end = text + bytes; ok && at < end;) {
        const char *line_end = memchr(at, '\n', (size_t)(end - at));
        line_end = line_end ? line_end : end;
        ok = add_map_line(s, at, line_end);
        at = line_end + 1;
    }
    free(text);
    if (s->made.count)
        qsort(s->made.data, s->made.count, sizeof s->made.data[0], compare_generated_functions);
    return ok ? KINETO_OK : kb_fail_memory(err, "symbols");
}

/* The name of the generated function that contains an address. */
static bool find_generated_name(const kt_symbols *s, uint64_t address, kineto_string *name)
{
    size_t after = 0;
    KB_LOWER_BOUND(after, s->made.count, s->made.data[after].start <= address);
    if (after == 0 || address >= s->made.data[after - 1].end)
        return false;
    *name = kb_intern_get(&s->texts, s->made.data[after - 1].name);
    return true;
}

/* ---- files ----------------------------------------------------------------------------------- */

/* Opens a file if its build id is the given one, or that is unknown; else NULL. */
static kt_elf *open_elf_build(const char *path, kineto_string build_id)
{
    kt_elf *e;
    if (kt_elf_open(path, &e, NULL) != KINETO_OK)
        return NULL;
    if (build_id.size == 0 || kb_string_equal(kt_elf_build_id(e), build_id))
        return e;
    kt_elf_close(e);
    return NULL;
}

/* Opens the vdso, which is not a file: that of this process is the same if the kernel is.
 * NULL: another one. */
static kt_elf *open_vdso(kineto_string build_id)
{
    kt_elf *e;
    if (kt_elf_open_vdso(&e, NULL, NULL) != KINETO_OK)
        return NULL;
    if (kb_string_equal(kt_elf_build_id(e), build_id))
        return e;
    kt_elf_close(e);
    return NULL;
}

/* Opens the file at before + folder + between + name, see open_debug_elf; `path` receives its path. */
static kt_elf *open_debug_at(const char *before, kineto_string folder, const char *between,
                             kineto_string name, kineto_string build_id, char path[MAX_PATH_BYTES])
{
    int bytes = snprintf(path, MAX_PATH_BYTES, "%s%.*s%s%.*s", before, (int)folder.size, folder.data,
                         between, (int)name.size, name.data);
    return bytes > 0 && (size_t)bytes < MAX_PATH_BYTES ? open_elf_build(path, build_id) : NULL;
}

/* Opens the debug file of a file: by build id, else by its .gnu_debuglink. `found` receives its path.
 * NULL: none. */
static kt_elf *open_debug_elf(const char *path, const kt_elf *e, char found[MAX_PATH_BYTES])
{
    kineto_string id = kt_elf_build_id(e), link = kt_elf_debug_link(e);
    if (id.size < 3 || id.size > 64)
        return NULL; /* without a build id, a debug file cannot be verified */
    char *at = found + snprintf(found, MAX_PATH_BYTES, "/usr/lib/debug/.build-id/");
    for (size_t i = 0; i < id.size; i++)
        at += snprintf(at, 4, i == 0 ? "%02x/" : "%02x", (uint8_t)id.data[i]);
    snprintf(at, 8, ".debug");
    kt_elf *elf = open_elf_build(found, id);
    const char *slash = strrchr(path, '/');
    if (elf || !slash || !link.size)
        return elf;
    kineto_string folder = {path, (size_t)(slash - path)};
    elf = open_debug_at("", folder, "/", link, id, found);
    if (!elf)
        elf = open_debug_at("", folder, "/.debug/", link, id, found);
    return elf ? elf : open_debug_at("/usr/lib/debug", folder, "/", link, id, found);
}

bool kt_symbols_cached_file(kineto_string build_id, char *path, size_t bytes)
{
    const char *home = kb_os_getenv("HOME");
    if (!home || home[0] != '/' || build_id.size < 3 || build_id.size > 64)
        return false;
    int at = snprintf(path, bytes, "%s/.debug/.build-id/", home);
    for (size_t i = 0; i < build_id.size && at > 0 && (size_t)at < bytes; i++)
        at += snprintf(path + at, bytes - (size_t)at, i == 0 ? "%02x/" : "%02x",
                       (uint8_t)build_id.data[i]);
    if (at > 0 && (size_t)at < bytes)
        at += snprintf(path + at, bytes - (size_t)at, "/elf");
    return at > 0 && (size_t)at < bytes && access(path, R_OK) == 0;
}

/* Opens the tables of a file, once; missing ones stay NULL. */
static void open_module_file(kt_symbols *s, file *f)
{
    KB_ASSERT(!f->is_open);
    char path[MAX_PATH_BYTES], debug_path[MAX_PATH_BYTES];
    kineto_string text = kb_intern_get(&s->texts, f->path);
    f->is_open = true;
    if (kb_string_equal(text, kb_string("[vdso]"))) {
        f->elf = open_vdso(f->build_id);
        return;
    }
    bool may_be_other = f->is_gone && f->build_id.size == 0;
    if (may_be_other || text.size == 0 || text.size >= sizeof path || text.data[0] != '/' ||
        memchr(text.data, '\0', text.size))
        return;
    memcpy(path, text.data, text.size);
    path[text.size] = '\0';
    f->elf = open_elf_build(path, f->build_id);
    if (!f->elf && kt_symbols_cached_file(f->build_id, path, sizeof path))
        f->elf = open_elf_build(path, f->build_id);
    f->path_of_elf = f->elf ? strdup(path) : NULL;
    if (f->elf && !kt_elf_is_full(f->elf))
        f->stripped = open_debug_elf(path, f->elf, debug_path);
    f->path_of_stripped = f->stripped ? strdup(debug_path) : NULL;
}

/* The functions of an open file by its unwinder's tables, read when one is wanted first: they may be large. */
static const kt_frame_index *frames_of_file(file *f)
{
    kt_elf *e;
    kt_frames frames;
    if (!f->has_looked_for_frames && f->path_of_elf &&
        kt_elf_open_frames(f->path_of_elf, &e, &frames, NULL) == KINETO_OK) {
        if (kb_string_equal(kt_elf_build_id(e), kt_elf_build_id(f->elf)))
            kt_frames_index(&frames, &f->frames);
        free(frames.bytes);
        kt_elf_close(e);
    }
    f->has_looked_for_frames = true;
    return &f->frames;
}

/* The debug information of an open file, or of its debug file, opened when it is wanted first. */
static kt_dwarf *dwarf_of_file(file *f)
{
    char path[MAX_PATH_BYTES];
    if (f->has_looked_for_dwarf || !f->path_of_elf)
        return f->dwarf;
    f->has_looked_for_dwarf = true;
    f->dwarf = kt_dwarf_open(f->path_of_stripped ? f->path_of_stripped : f->path_of_elf);
    if (f->dwarf || f->stripped)
        return f->dwarf;
    kt_elf *separate = open_debug_elf(f->path_of_elf, f->elf, path);
    f->dwarf = separate ? kt_dwarf_open(path) : NULL;
    kt_elf_close(separate);
    return f->dwarf;
}

/* ---- text ------------------------------------------------------------------------------------ */

/* Loads __cxa_demangle of the C++ library if the machine has one, instead of depending on it. */
static void load_demangler(kt_symbols *s)
{
    s->looked_for_demangler = true;
#ifdef KB_LINKED_STATICALLY /* a static program cannot load libraries: names stay mangled */
    return;
#endif
    s->demangler = dlopen("libstdc++.so.6", RTLD_LAZY | RTLD_LOCAL);
    if (!s->demangler)
        s->demangler = dlopen("libc++abi.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (s->demangler)
        *(void **)&s->demangle = dlsym(s->demangler, "__cxa_demangle");
}

#define MAX_MANGLED_BYTES 4096u /* time and stack of demangling grow with the length */

/* A copy owned by the handle. */
static kineto_string intern_symbol_text(kt_symbols *s, kineto_string text)
{
    return kb_intern_get(&s->texts, kb_intern_id(&s->texts, text));
}

/* The text id of a name of C++ or of Rust's older kind as in the source; KB_INTERN_NONE: unknown. */
static uint32_t demangle_itanium(kt_symbols *s, kineto_string name)
{
    char rust[MAX_MANGLED_BYTES];
    if (!s->looked_for_demangler)
        load_demangler(s);
    char *text = s->demangle ? s->demangle(name.data, NULL, NULL, NULL) : NULL;
    if (!text)
        return KB_INTERN_NONE;
    size_t bytes = kt_rust_legacy_name(kb_string(text), rust, sizeof rust);
    uint32_t id = kb_intern_id(&s->texts, bytes ? (kineto_string){rust, bytes} : kb_string(text));
    free(text);
    return id;
}

/* Without the suffix of a function that only one unit sees. */
static kineto_string cut_llvm_suffix(kineto_string name)
{
    const char *suffix = memmem(name.data, name.size, ".llvm.", 6);
    return suffix ? (kineto_string){name.data, (size_t)(suffix - name.data)} : name;
}

/* Each is demangled once. */
kineto_string kt_symbols_demangle(kt_symbols *s, kineto_string name)
{
    char rust[MAX_MANGLED_BYTES];
    uint32_t id = kb_intern_id(&s->texts, cut_llvm_suffix(name)), readable;
    name = kb_intern_get(&s->texts, id);
    if (id == KB_INTERN_NONE || name.size < 3 || name.size > MAX_MANGLED_BYTES || name.data[0] != '_' ||
        (name.data[1] != 'Z' && name.data[1] != 'R'))
        return name;
    bool is_new = false;
    uint64_t *kept = kb_map_insert(&s->demangled, id, id, &is_new);
    name = kb_intern_get(&s->texts, kept ? (uint32_t)*kept : id);
    if (!kept || !is_new)
        return name;
    size_t bytes = kt_rust_v0_name(name, rust, sizeof rust);
    readable = bytes ? kb_intern_id(&s->texts, (kineto_string){rust, bytes}) : demangle_itanium(s, name);
    *kept = readable == KB_INTERN_NONE ? id : readable;
    return kb_intern_get(&s->texts, (uint32_t)*kept);
}

/* The linker keeps the version of an exported function in its name: "pthread_mutex_lock@@GLIBC_2.2.5". */
static kineto_string cut_version(kineto_string name)
{
    const char *at = name.size > 1 ? memchr(name.data + 1, '@', name.size - 1) : NULL;
    return at ? (kineto_string){name.data, (size_t)(at - name.data)} : name;
}

static kineto_string file_base_name(kineto_string path)
{
    size_t from = path.size;
    while (from > 0 && path.data[from - 1] != '/')
        from--;
    return (kineto_string){path.data + from, path.size - from};
}

/* Formats a text owned by the handle. ';' becomes ',', because it separates frames. */
static kineto_string KINETO_PRINTF(2, 3) format_symbol_text(kt_symbols *s, const char *fmt, ...)
{
    char *text = NULL;
    va_list args;
    va_start(args, fmt);
    int size = vasprintf(&text, fmt, args);
    va_end(args);
    if (size < 0)
        return (kineto_string){"", 0};
    for (int i = 0; i < size; i++)
        if (text[i] == ';')
            text[i] = ',';
    kineto_string kept = intern_symbol_text(s, (kineto_string){text, (size_t)size});
    free(text);
    return kept;
}
#define TEXT(string) (int)KB_MIN((string).size, (size_t)MAX_PATH_BYTES), (string).data

/* The last added part that contains an address; NULL: none. */
static const part *find_part(const kt_symbols *s, uint64_t address)
{
    for (size_t i = s->parts.count; i-- > 0;)
        if (address >= s->parts.data[i].start && address < s->parts.data[i].end)
            return &s->parts.data[i];
    return NULL;
}

/* The symbol of a function, of the debug file before the file itself. One without a size does not reach into a
 * function that begins after it by the unwinder's tables. */
static bool find_symbol_name(file *f, uint64_t at, kineto_string *name)
{
    kt_elf_symbol found;
    if (!(f->stripped && kt_elf_function(f->stripped, at, &found)) &&
        !kt_elf_function(f->elf, at, &found))
        return false;
    const kt_frame_function *function = found.size ? NULL : kt_frames_find(frames_of_file(f), at);
    *name = found.name;
    return !function || function->start <= found.start;
}

/* The functions that were inlined at an address, the innermost first. @param place  receives, for the function
 * with the code, where it calls the outermost of them. */
static uint32_t look_up_inlined(kt_symbols *s, kt_dwarf *dwarf, uint64_t address, bool with_lines,
                                kt_symbol_text *place, kt_symbol_text *out)
{
    kt_inlined inlined[KT_MAX_INLINED];
    uint32_t count = kt_dwarf_inlined(dwarf, address, with_lines, &s->owner->budget, inlined);
    for (uint32_t i = 0; i < count; i++) {
        const kt_inlined *in = &inlined[i];
        out[i] = *place;
        out[i].function = kt_symbols_demangle(s, kb_string(in->name));
        out[i].is_inlined = true;
        place->line = in->call_file ? in->call_line : 0;
        place->file = place->line ? intern_symbol_text(s, kb_string(in->call_file)) : (kineto_string){"", 0};
    }
    return count;
}

/* Sets functions and, with_lines, source files and lines, as far as the tables of the file have them. `out`
 * has the module in its first frame. @return the number of frames. */
static uint32_t look_up_frames(kt_symbols *s, file *f, uint64_t at, bool with_lines, kt_symbol_text *out)
{
    uint32_t inlined = 0;
    kineto_string name;
    const char *source;
    kt_symbol_text frame = *out;
    kt_dwarf *dwarf = with_lines || s->owner->budget.limit_bytes ? dwarf_of_file(f) : NULL;
    if (dwarf && with_lines && kt_dwarf_line(dwarf, at, &source, &frame.line))
        frame.file = intern_symbol_text(s, kb_string(source));
    else
        frame.line = 0;
    if (dwarf)
        inlined = look_up_inlined(s, dwarf, at, with_lines, &frame, out);
    if (find_symbol_name(f, at, &name))
        frame.function = kt_symbols_demangle(s, cut_version(name));
    out[inlined] = frame;
    return inlined + 1;
}

/* Sets the text of a frame from its parts. */
static void write_frame_text(kt_symbols *s, uint64_t offset, kt_symbol_text *out)
{
    if (out->file.size && out->function.size)
        out->text = format_symbol_text(s, "%.*s(%u): %.*s", TEXT(out->file), out->line,
                                       TEXT(out->function));
    else if (out->function.size && out->module.size)
        out->text = format_symbol_text(s, "%.*s!%.*s", TEXT(out->module), TEXT(out->function));
    else if (out->function.size)
        out->text = format_symbol_text(s, "%.*s", TEXT(out->function));
    else if (out->module.size)
        out->text = format_symbol_text(s, "%.*s+0x%llx", TEXT(out->module),
                                       (unsigned long long)offset);
}

/* A sample counts for its function also where that has no name: by where it begins, else by its module.
 * `at` is in the numbering of the file, `offset` in the file; `f` NULL: generated code. */
static void write_unnamed_function(kt_symbols *s, file *f, uint64_t at, uint64_t offset,
                                   kt_symbol_text *out)
{
    const kt_frame_function *function =
        f && f->elf ? kt_frames_find(frames_of_file(f), at) : NULL;
    if (function)
        write_frame_text(s, offset - (at - function->start), out);
    else if (f)
        out->text = format_symbol_text(s, "[%.*s]", TEXT(out->module));
    else
        out->text = intern_symbol_text(s, kb_string(KT_JIT_CODE));
}

/* Code of a file, or of the vdso; else it was generated in memory: perf calls that "//anon". */
static bool is_file_path(kineto_string path)
{
    return (path.size > 1 && path.data[0] == '/' && path.data[1] != '/') ||
           kb_string_equal(path, kb_string("[vdso]"));
}

/* Resolves an address that is not cached, to s->last. @return the number of frames. */
static uint32_t resolve_address(kt_symbols *s, uint64_t address, bool with_lines, bool *is_found)
{
    uint64_t call = address ? address - 1 : 0; /* the return address may be on the next line */
    const part *p = find_part(s, call);
    uint64_t offset = p ? call - p->start + p->file_offset : 0, at = 0;
    uint32_t count = 1;
    kineto_string name;
    file *f = p ? &s->owner->files.data[p->file] : NULL;
    *is_found = p != NULL;
    s->last[0] = (kt_symbol_text){.line = 0};
    if (f && kb_intern_get(&s->owner->texts, f->path).size) {
        if (!f->is_open)
            open_module_file(s->owner, f);
        s->last[0].module = file_base_name(kb_intern_get(&s->owner->texts, f->path));
        if (f->elf && kt_elf_address(f->elf, offset, &at))
            count = look_up_frames(s, f, at, with_lines, s->last);
    }
    kt_symbol_text *outermost = &s->last[count - 1];
    if (!outermost->function.size && find_generated_name(s, call, &name)) {
        outermost->function = kt_symbols_demangle(s, name);
        outermost->module = (kineto_string){"", 0};
        *is_found = true;
    }
    bool is_unnamed = p && !with_lines && !outermost->function.size;
    for (uint32_t i = 0; i < count; i++) /* other tools show the offset of the return address */
        write_frame_text(s, offset + 1, &s->last[i]);
    if (is_unnamed)
        write_unnamed_function(s, is_file_path(kb_intern_get(&s->owner->texts, f->path)) ? f : NULL, at,
                               offset, outermost);
    if (!outermost->text.size)
        outermost->text = with_lines ? format_symbol_text(s, "0x%llx", (unsigned long long)address)
                                     : intern_symbol_text(s, kb_string("[unknown]"));
    return count;
}

/* False: out of memory. */
static bool keep_frames(kt_symbols *s, uint32_t count, bool is_found)
{
    resolved r = {(uint32_t)s->frames.count, count, is_found};
    for (uint32_t i = 0; i < count; i++)
        if (!kb_vec_push(&s->frames, s->last[i]))
            return false;
    return kb_vec_push(&s->resolved, r);
}

kt_symbol_frames kt_symbol_frames_at(kt_symbols *s, uint64_t address, bool with_lines)
{
    bool created, is_found;
    kb_map *seen = with_lines ? &s->seen : &s->seen_names;
    uint64_t *index = kb_map_insert(seen, address, s->resolved.count, &created);
    if (index && !created) {
        const resolved *r = &s->resolved.data[*index];
        return (kt_symbol_frames){s->frames.data + r->first, r->count, r->is_found};
    }
    uint32_t count = resolve_address(s, address, with_lines, &is_found);
    /* Out of memory: the cache is cleared, because its map names an index that does not exist. */
    if (index && !keep_frames(s, count, is_found)) {
        kb_map_free(&s->seen);
        kb_map_free(&s->seen_names);
        s->resolved.count = s->frames.count = 0;
    }
    return (kt_symbol_frames){s->last, count, is_found};
}

bool kt_symbol(kt_symbols *s, uint64_t address, kt_symbol_text *out)
{
    kt_symbol_frames at = kt_symbol_frames_at(s, address, true);
    *out = at.frames[0];
    return at.is_found;
}

void kt_symbols_limit_inlined(kt_symbols *s, uint64_t limit_bytes)
{
    KB_ASSERT(s->owner == s);
    s->budget.limit_bytes = limit_bytes;
}

uint64_t kt_symbols_skipped_inlined(const kt_symbols *s) { return s->owner->budget.skipped; }

/* ---- stacks ---------------------------------------------------------------------------------- */

static bool append_stack_text(kt_symbols *s, kineto_string text)
{
    size_t old = s->line.count;
    if (!kb_vec_reserve(&s->line, old + text.size + 1))
        return false;
    if (text.size)
        memcpy(s->line.data + old, text.data, text.size);
    s->line.data[old + text.size] = ';';
    s->line.count = old + text.size + 1;
    return true;
}

static bool append_stack_frames(kt_symbols *s, uint64_t address)
{
    kt_symbol_frames at = kt_symbol_frames_at(s, address, true);
    for (uint32_t i = 0; i < at.count; i++)
        if (!append_stack_text(s, at.frames[i].text))
            return false;
    return true;
}

/* The text of a stack as string id; 0: out of memory. */
static uint32_t make_stack_text(kt_symbols *s, const uint64_t *addresses, uint32_t count)
{
    s->line.count = 0;
    for (uint32_t i = 0; i < count; i++)
        if (!append_stack_frames(s, addresses[i]))
            return 0;
    uint32_t id = kb_intern_id(&s->texts, (kineto_string){s->line.data, s->line.count});
    return id == KB_INTERN_NONE ? 0 : id;
}

kineto_string kt_symbols_stack(kt_symbols *s, const uint64_t *addresses, uint32_t count)
{
    kineto_string key = {(const char *)addresses, count * sizeof *addresses};
    uint32_t id = count ? kb_intern_id(&s->stacks, key) : KB_INTERN_NONE;
    if (id == KB_INTERN_NONE)
        return (kineto_string){"", 0};
    while (s->stack_texts.count <= id)
        if (!kb_vec_push(&s->stack_texts, 0))
            return (kineto_string){"", 0};
    KB_ASSERT(id < s->stack_texts.count);
    if (!s->stack_texts.data[id])
        s->stack_texts.data[id] = make_stack_text(s, addresses, count);
    return kb_intern_get(&s->texts, s->stack_texts.data[id]);
}
