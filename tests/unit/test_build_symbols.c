/* Addresses to text: functions and lines of this program and its libraries, code made in memory,
 * files that are gone, another build, or damaged in any way. */
#include "record/unwind.h"
#include "trace/from_recording/symbols.h"

#include "unit.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>

#if defined(__clang__)
#define NOINLINE __attribute__((noinline))
#else
#define NOINLINE __attribute__((noinline, noclone))
#endif

static kt_symbols *symbols(void)
{
    kt_symbols *s;
    assert_int_equal(kt_symbols_create(&s, NULL), KINETO_OK);
    return s;
}

static void add_module(void *context, const kr_module *m)
{
    kt_module module = {m->start,
                        m->end,
                        m->file_offset,
                        kb_string(m->path),
                        {(const char *)m->build_id, m->build_id_bytes},
                        m->is_gone};
    assert_int_equal(kt_symbols_add(context, &module, NULL), KINETO_OK);
}

static kt_symbols *symbols_of_this_process(void)
{
    kt_symbols *s = symbols();
    assert_int_equal(kr_modules_note(add_module, s, NULL), KINETO_OK);
    return s;
}

static uint64_t address_of(const void *function) { return (uint64_t)(uintptr_t)function; }

static bool equals(kineto_string a, const char *b) { return kb_string_equal(a, kb_string(b)); }

static bool ends_with(kineto_string a, const char *b)
{
    size_t size = strlen(b);
    return a.size >= size && memcmp(a.data + a.size - size, b, size) == 0;
}

static bool begins_with(kineto_string a, const char *b)
{
    size_t size = strlen(b);
    return a.size >= size && memcmp(a.data, b, size) == 0;
}

/* ---- this process ---------------------------------------------------------------------------- */

static int first_line;
static NOINLINE uint64_t where_am_i(void)
{
    first_line = __LINE__;
    uint64_t here = address_of(__builtin_return_address(0));
    __asm__ volatile("" ::: "memory");
    return here;
}

static NOINLINE uint64_t a_caller_with_a_name(int *line)
{
    *line = __LINE__ + 1;
    uint64_t at = where_am_i();
    __asm__ volatile("" ::: "memory");
    return at;
}

static void functions_of_the_program_have_name_file_and_line(void **state)
{
    (void)state;
    int line;
    kt_symbols *s = symbols_of_this_process();
    kt_symbol_text t, again;
    uint64_t at = a_caller_with_a_name(&line);
    assert_true(kt_symbol(s, at, &t));
    assert_true(equals(t.function, "a_caller_with_a_name"));
    assert_true(begins_with(t.module, "test_build_symbols"));
#ifdef KT_WITH_DW
    char text[64];
    assert_true(ends_with(t.file, "test_build_symbols.c"));
    assert_int_equal(t.line, line);
    snprintf(text, sizeof text, "test_build_symbols.c(%d): a_caller_with_a_name", line);
    assert_true(ends_with(t.text, text));
#else
    assert_true(ends_with(t.text, "!a_caller_with_a_name"));
#endif
    assert_true(kt_symbol(s, at, &again));
    assert_ptr_equal(again.text.data, t.text.data);
    kt_symbols_destroy(s);
}

static void functions_of_libraries_have_name_and_library(void **state)
{
    (void)state;
    kt_symbols *s = symbols_of_this_process();
    kt_symbol_text t;
    assert_true(kt_symbol(s, address_of(dlsym(RTLD_DEFAULT, "gnu_get_libc_version")) + 1, &t));
    assert_true(equals(t.function, "gnu_get_libc_version"));
    assert_true(begins_with(t.module, "libc"));
    kt_symbols_destroy(s);
}

static void whole_stacks_get_their_texts(void **state)
{
    (void)state;
    uint64_t addresses[KR_STACK_MAX];
    kr_stack_thread thread = {0, 0};
    assert_int_equal(kr_stack_prepare(KR_STACK_AUTO, NULL), KINETO_OK);
    uint32_t count = kr_stack_capture(&thread, __builtin_frame_address(0), addresses, KR_STACK_MAX);
    kt_symbols *s = symbols_of_this_process();
    bool has_main = false;
    for (uint32_t i = 0; i < count; i++) {
        kt_symbol_text t;
        assert_true(kt_symbol(s, addresses[i], &t));
        assert_true(t.text.size > 0);
        has_main |= equals(t.function, "main");
    }
    assert_true(has_main);
    kineto_string whole = kt_symbols_stack(s, addresses, count), outer;
    outer = kt_symbols_stack(s, addresses + 1, count - 1);
    assert_true(ends_with(whole, ";") && whole.size > outer.size);
    assert_true(memcmp(whole.data + whole.size - outer.size, outer.data, outer.size) == 0);
    uint32_t frames = 0;
    for (size_t i = 0; i < whole.size; i++)
        frames += whole.data[i] == ';';
    assert_true(frames >= count); /* also those of inlined functions */
    assert_ptr_equal(kt_symbols_stack(s, addresses, count).data, whole.data);
    assert_int_equal(kt_symbols_stack(s, addresses, 0).size, 0);
    kt_symbols_destroy(s);
}

static void the_kernels_own_code_is_named(void **state)
{
    (void)state;
    uint64_t image = getauxval(AT_SYSINFO_EHDR);
    if (!image)
        skip();
    kt_symbols *s = symbols_of_this_process();
    kt_symbol_text t;
    uint32_t named = 0;
    for (uint64_t at = image; at < image + 4096; at += 16)
        if (kt_symbol(s, at, &t) && t.function.size)
            named += begins_with(t.text, "[vdso]!");
    assert_true(named > 0);
    kt_symbols_destroy(s);
}

static void what_lies_nowhere_stays_a_number(void **state)
{
    (void)state;
    kt_symbols *s = symbols();
    kt_symbol_text t;
    assert_false(kt_symbol(s, 0x1234, &t));
    assert_true(equals(t.text, "0x1234"));
    assert_false(kt_symbol(s, 0, &t));
    assert_true(equals(t.text, "0x0"));
    assert_false(kt_symbol(s, UINT64_MAX, &t));
    assert_true(equals(t.text, "0xffffffffffffffff"));
    assert_false(kt_symbol(s, 0x1234, &t)); /* remembered */
    assert_true(equals(t.text, "0x1234"));
    kt_symbols_destroy(s);
    kt_symbols_destroy(NULL);
}

/* ---- modules --------------------------------------------------------------------------------- */

static void add(kt_symbols *s, uint64_t start, uint64_t end, uint64_t offset, const char *path,
                const char *id)
{
    kt_module m = {start, end, offset, kb_string(path), kb_string(id), false};
    assert_int_equal(kt_symbols_add(s, &m, NULL), KINETO_OK);
}

static void a_file_that_is_gone_leaves_module_and_offset(void **state)
{
    (void)state;
    kt_symbols *s = symbols();
    kt_symbol_text t;
    add(s, 0x10000, 0x20000, 0x1000, "/nowhere/libgone.so", "");
    assert_true(kt_symbol(s, 0x10020, &t));
    assert_true(equals(t.text, "libgone.so+0x1020"));
    assert_true(equals(t.module, "libgone.so"));
    assert_int_equal(t.line, 0);
    kt_symbol_frames sample = kt_symbol_frames_at(s, 0x10020, false); /* a sample at 0x1001f */
    assert_true(sample.is_found && sample.count == 1);
    assert_true(equals(sample.frames[0].text, "[libgone.so]"));
    assert_true(kt_symbol(s, 0x20000, &t)); /* the call before its end */
    assert_false(kt_symbol(s, 0x20001, &t));
    assert_false(kt_symbol(s, 0x10000, &t));
    add(s, 0x30000, 0x31000, 0, "/nowhere/a;b.so", "");
    assert_true(kt_symbol(s, 0x30001, &t));
    assert_true(equals(t.text, "a,b.so+0x1"));
    add(s, 0x10000, 0x20000, 0, "/nowhere/later.so", "");
    assert_true(kt_symbol(s, 0x10030, &t));
    assert_true(equals(t.text, "later.so+0x30"));
    kt_module wrong = {5, 5, 0, kb_string("x"), kb_string(""), false};
    assert_int_equal(kt_symbols_add(s, &wrong, NULL), KINETO_E_ARGUMENT);
    kt_symbols_destroy(s);
}

static void another_build_of_a_file_is_not_looked_at(void **state)
{
    (void)state;
    Dl_info info;
    assert_true(dladdr(dlsym(RTLD_DEFAULT, "gnu_get_libc_version"), &info) != 0);
    for (int wrong = 0; wrong < 2; wrong++) {
        kt_symbols *s = symbols();
        kt_symbol_text t;
        kt_elf *e;
        assert_int_equal(kt_elf_open(info.dli_fname, &e, NULL), KINETO_OK);
        char id[64];
        kineto_string real = kt_elf_build_id(e);
        assert_true(real.size > 4 && real.size <= sizeof id);
        memcpy(id, real.data, real.size);
        id[2] = (char)(id[2] + wrong);
        uint64_t at = address_of(info.dli_saddr) - address_of(info.dli_fbase);
        /* The library as one piece from its first byte on: true of where its code is. */
        kt_module m = {0x100000,
                       0x100000 + (UINT64_C(1) << 24),
                       0,
                       kb_string(info.dli_fname),
                       {id, real.size},
                       false};
        kt_symbols_add(s, &m, NULL);
        assert_true(kt_symbol(s, 0x100000 + at + 1, &t));
        assert_int_equal(t.function.size == 0, wrong);
        assert_int_equal(t.text.size > 0, 1);
        kt_elf_close(e);
        kt_symbols_destroy(s);
    }
}

static void what_took_the_place_of_a_file_is_not_looked_at(void **state)
{
    (void)state;
    Dl_info info;
    assert_true(dladdr(dlsym(RTLD_DEFAULT, "gnu_get_libc_version"), &info) != 0);
    uint64_t at = address_of(info.dli_saddr) - address_of(info.dli_fbase);
    for (int gone = 0; gone < 2; gone++) {
        kt_symbols *s = symbols();
        kt_symbol_text t;
        kt_module m = {.start = 0x100000,
                       .end = 0x100000 + (UINT64_C(1) << 24),
                       .path = kb_string(info.dli_fname),
                       .is_gone = gone};
        kt_symbols_add(s, &m, NULL);
        assert_true(kt_symbol(s, 0x100000 + at + 1, &t));
        assert_int_equal(t.function.size == 0, gone);
        assert_true(begins_with(t.module, "libc"));
        kt_symbols_destroy(s);
    }
}

typedef struct sought {
    const char *path;
    uint32_t there, gone;
} sought;

static void seek_module(void *context, const kr_module *m)
{
    sought *s = context;
    if (strcmp(m->path, s->path) == 0)
        (*(m->is_gone ? &s->gone : &s->there))++;
}

static void a_process_knows_which_of_its_files_are_gone(void **state)
{
    (void)state;
    char folder[256], path[300];
    assert_non_null(make_directory(folder, sizeof folder));
    snprintf(path, sizeof path, "%s/code", folder);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0700);
    assert_int_equal(ftruncate(fd, 4096), 0);
    void *code = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
    close(fd);
    if (code == MAP_FAILED) {
        unlink(path);
        rmdir(folder);
        skip(); /* a file system for which nothing is code */
    }
    sought s = {.path = path};
    assert_int_equal(kr_modules_note(seek_module, &s, NULL), KINETO_OK);
    unlink(path);
    rmdir(folder);
    assert_int_equal(kr_modules_note(seek_module, &s, NULL), KINETO_OK);
    munmap(code, 4096);
    assert_int_equal(s.there, 1);
    assert_int_equal(s.gone, 1);
}

static void what_is_not_a_file_is_not_opened(void **state)
{
    (void)state;
    char folder[256], path[300];
    assert_non_null(make_directory(folder, sizeof folder));
    snprintf(path, sizeof path, "%s/fifo", folder);
    assert_int_equal(mkfifo(path, 0600), 0);
    kt_elf *e;
    kineto_error err;
    assert_int_equal(kt_elf_open(path, &e, &err), KINETO_E_FORMAT); /* and it does not wait */
    assert_null(e);
    assert_int_equal(kt_elf_open(folder, &e, &err), KINETO_E_FORMAT);
    assert_int_equal(kt_elf_open("/nowhere/at/all", &e, &err), KINETO_E_NOT_FOUND);
    assert_int_equal(kt_elf_open("/dev/null", &e, NULL), KINETO_E_FORMAT);
    assert_int_equal(kt_elf_open(CKINETO_SOURCE_DIR "/CMakeLists.txt", &e, NULL), KINETO_E_FORMAT);
    kt_elf_close(NULL);
    kt_symbols *s = symbols();
    kt_symbol_text t;
    add(s, 0x1000, 0x2000, 0, path, "");
    add(s, 0x2000, 0x3000, 0, "relative.so", "");
    add(s, 0x3000, 0x4000, 0, "[stack]", "");
    add(s, 0x4000, 0x5000, 0, "", "");
    assert_true(kt_symbol(s, 0x1001, &t));
    assert_true(equals(t.text, "fifo+0x1"));
    assert_true(kt_symbol(s, 0x2001, &t));
    assert_true(equals(t.text, "relative.so+0x1"));
    assert_true(kt_symbol(s, 0x3001, &t));
    assert_true(equals(t.text, "[stack]+0x1"));
    assert_true(kt_symbol(s, 0x4001, &t));
    assert_true(equals(t.text, "0x4001"));
    kt_symbols_destroy(s);
    unlink(path);
    rmdir(folder);
}

/* ---- code made in memory --------------------------------------------------------------------- */

static void names_of_code_made_in_memory_are_read(void **state)
{
    (void)state;
    static const char map[] = "7f0000001000 40 LazyCompile:~main /app/x.js:1\n"
                              "0x7f0000002000 0x10 _ZN3foo3barEi\n"
                              "7f0000003000 0 empty\n"
                              "nonsense\n\n \n7f00\n7f0000004000 10\n7f0000004000 10 \n"
                              "ffffffffffffffff ffff wraps\n"
                              "11111111111111111111 10 too long\n"
                              "7f0000005000 10 last;one";
    char folder[256], path[300], link[300];
    assert_non_null(make_directory(folder, sizeof folder));
    snprintf(path, sizeof path, "%s/map", folder);
    snprintf(link, sizeof link, "%s/link", folder);
    FILE *f = fopen(path, "wb");
    fwrite(map, 1, sizeof map - 1, f);
    fclose(f);
    assert_int_equal(symlink(path, link), 0);
    kt_symbols *s = symbols();
    kt_symbol_text t;
    assert_int_equal(kt_symbols_add_map(s, 1, link, NULL),
                     KINETO_OK); /* others might have made it */
    assert_int_equal(kt_symbols_add_map(s, 1, "/nowhere", NULL), KINETO_OK);
    assert_false(kt_symbol(s, 0x7f0000001003, &t));
    assert_int_equal(kt_symbols_add_map(s, 1, path, NULL), KINETO_OK);
    add(s, 0x7f0000001000, 0x7f0000006000, 0, "", "");
    assert_true(kt_symbol(s, 0x7f0000001001, &t));
    assert_true(equals(t.text, "LazyCompile:~main /app/x.js:1"));
    assert_true(kt_symbol(s, 0x7f0000001040, &t)); /* the call before */
    assert_true(equals(t.text, "LazyCompile:~main /app/x.js:1"));
    assert_true(kt_symbol(s, 0x7f0000001041, &t));
    assert_true(equals(t.text, "0x7f0000001041"));
    assert_true(kt_symbol(s, 0x7f0000002001, &t));
    assert_true(equals(t.text, "foo::bar(int)") || equals(t.text, "_ZN3foo3barEi"));
    assert_true(kt_symbol(s, 0x7f0000005001, &t));
    assert_true(equals(t.text, "last,one")); /* a ; ends a frame */
    kt_symbols_destroy(s);
    unlink(path);
    unlink(link);
    rmdir(folder);
}

/* ---- samples --------------------------------------------------------------------------------- */

static void sampled_functions_without_names_count_as_one(void **state)
{
    (void)state;
    static const char path[] = "/sampled-by-nobody/lib.so";
    kt_symbols *s = symbols();
    kt_module modules[] = {{0x1000, 0x3000, 0, kb_string(path), {NULL, 0}, false},
                           {0x4000, 0x5000, 0, kb_string("//anon"), {NULL, 0}, false},
                           {0x6000, 0x7000, 0, kb_string(""), {NULL, 0}, false}};
    for (size_t i = 0; i < KB_COUNT(modules); i++)
        assert_int_equal(kt_symbols_add(s, &modules[i], NULL), KINETO_OK);
    static const struct {
        uint64_t address;
        const char *text;
    } expected[] = {{0x1100, "[lib.so]"},   {0x2fff, "[lib.so]"},  {0x4100, "[JIT code]"},
                    {0x4fff, "[JIT code]"}, {0x6001, "[JIT code]"}, {0x9000, "[unknown]"}};
    for (size_t i = 0; i < KB_COUNT(expected); i++) {
        kt_symbol_frames at = kt_symbol_frames_at(s, expected[i].address, false);
        assert_int_equal(at.count, 1);
        assert_int_equal(at.frames[0].function.size, 0);
        assert_true(equals(at.frames[0].text, expected[i].text));
    }
    kt_symbols_destroy(s);
}

/* Where this program's functions begin by the unwinder's tables is where its symbols begin. */
static void the_unwinders_tables_know_where_functions_begin(void **state)
{
    (void)state;
    kt_elf *e, *with_frames;
    kt_frames frames;
    kt_frame_index index = {0};
    kt_elf_symbol symbol;
    assert_int_equal(kt_elf_open("/proc/self/exe", &e, NULL), KINETO_OK);
    assert_int_equal(kt_elf_open_frames("/proc/self/exe", &with_frames, &frames, NULL), KINETO_OK);
    kt_frames_index(&frames, &index);
    size_t same = 0, sized = 0;
    for (size_t i = 0; i < index.count; i++) {
        const kt_frame_function *f = &index.data[i];
        assert_true(i == 0 || index.data[i - 1].start <= f->start);
        assert_ptr_equal(kt_frames_find(&index, f->start + f->size - 1), f);
        if (!kt_elf_function(e, f->start, &symbol) || !symbol.size)
            continue;
        sized++;
        same += symbol.start == f->start && symbol.size == f->size;
    }
    assert_true(sized > 20);
    assert_true(same * 10 >= sized * 9); /* functions that share their code have one entry */
    kb_vec_free(&index);
    free(frames.bytes);
    kt_elf_close(with_frames);
    kt_elf_close(e);
}

/* ---- damaged files --------------------------------------------------------------------------- */

static void look_everywhere(kt_elf *e)
{
    kt_elf_symbol found;
    uint64_t address;
    for (uint64_t at = 0; at < 8192; at += 64)
        if (kt_elf_address(e, at, &address) && kt_elf_function(e, address, &found))
            assert_true(found.name.size > 0 && found.name.data[found.name.size] == '\0');
    kt_elf_function(e, UINT64_MAX, &found);
    kt_elf_address(e, UINT64_MAX, &address);
    (void)kt_elf_debug_link(e);
    (void)kt_elf_build_id(e);
}

/* ---- versions -------------------------------------------------------------------------------- */

static NOINLINE void a_function__VERSION_1(void) { __asm__ volatile("" ::: "memory"); }
static NOINLINE void _ZN5space5namedEv__VERSION_1(void) { __asm__ volatile(" " ::: "memory"); }

/* A copy of this program in which names of functions have versions, as those of libraries. */
static void copy_with_versions(const char *path)
{
    struct stat st;
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    assert_int_equal(fstat(fd, &st), 0);
    size_t bytes = (size_t)st.st_size;
    char *image = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0), *at = image;
    close(fd);
    assert_ptr_not_equal(image, MAP_FAILED);
    while ((at = memmem(at, bytes - (size_t)(at - image), "__VERSION_1", 11)) != NULL)
        memcpy(at, "@@", 2);
    fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(write(fd, image, bytes), bytes);
    close(fd);
    munmap(image, bytes);
}

typedef struct copied_module {
    kt_symbols *symbols;
    const char *path;
    uint64_t inside;
} copied_module;

static void add_copied_module(void *context, const kr_module *m)
{
    const copied_module *c = context;
    kt_module module = {.start = m->start,
                        .end = m->end,
                        .file_offset = m->file_offset,
                        .path = kb_string(c->path)};
    if (c->inside >= m->start && c->inside < m->end)
        assert_int_equal(kt_symbols_add(c->symbols, &module, NULL), KINETO_OK);
}

static void names_of_functions_are_without_version(void **state)
{
    (void)state;
    char folder[256], path[300];
    kt_symbol_text t;
    assert_non_null(make_directory(folder, sizeof folder));
    snprintf(path, sizeof path, "%s/code", folder);
    copy_with_versions(path);
    copied_module c = {symbols(), path, address_of(a_function__VERSION_1)};
    assert_int_equal(kr_modules_note(add_copied_module, &c, NULL), KINETO_OK);
    assert_true(kt_symbol(c.symbols, address_of(a_function__VERSION_1) + 1, &t));
    assert_true(equals(t.function, "a_function"));
    assert_true(kt_symbol(c.symbols, address_of(_ZN5space5namedEv__VERSION_1) + 1, &t));
    if (dlopen("libstdc++.so.6", RTLD_LAZY))
        assert_true(equals(t.function, "space::named()"));
    kt_symbols_destroy(c.symbols);
    unlink(path);
    rmdir(folder);
}

static void damaged_files_are_refused_or_read(void **state)
{
    (void)state;
    const ElfW(Ehdr) *image = (const ElfW(Ehdr) *)(uintptr_t)getauxval(AT_SYSINFO_EHDR);
    if (!image)
        skip();
    size_t bytes = (size_t)image->e_shoff + (size_t)image->e_shnum * image->e_shentsize;
    uint8_t *copy = malloc(bytes);
    uint64_t seed = 7;
    kt_elf *e;
    for (size_t cut = 0; cut < bytes; cut += 13) {
        uint8_t *part = malloc(cut + 1);
        memcpy(part, image, cut);
        if (kt_elf_open_memory(part, cut, &e, NULL) == KINETO_OK)
            look_everywhere(e), kt_elf_close(e);
        free(part);
    }
    for (int i = 0; i < 20000; i++) {
        memcpy(copy, image, bytes);
        for (int k = 0; k < 1 + i % 4; k++) {
            /* Mostly in headers: at both ends. */
            size_t at = next_random(&seed) % (i % 2 ? 64 + 56 * 4 : 64 * 20);
            at = i % 2 ? at : bytes - 1 - at % bytes;
            copy[at] = (uint8_t)(next_random(&seed) % 5 == 0 ? 0xff : next_random(&seed));
        }
        if (kt_elf_open_memory(copy, bytes, &e, NULL) == KINETO_OK)
            look_everywhere(e), kt_elf_close(e);
    }
    free(copy);
}

/* Each of many sections is the whole file, which is all notes: it would be read for hours. */
static void notes_without_end_are_not_all_read(void **state)
{
    (void)state;
    enum { SECTIONS = 65000, BYTES = 16 << 20 };
    uint8_t *image = calloc(1, BYTES);
    ElfW(Ehdr) *head = (ElfW(Ehdr) *)(void *)image;
    ElfW(Shdr) *sections = (ElfW(Shdr) *)(void *)(image + sizeof *head);
    const void *ours = (const void *)(uintptr_t)getauxval(AT_SYSINFO_EHDR);
    kt_elf *e;
    if (!ours)
        skip();
    memcpy(image, ours, EI_NIDENT);
    head->e_shoff = sizeof *head;
    head->e_shentsize = sizeof *sections;
    head->e_shnum = SECTIONS;
    for (uint32_t i = 0; i < SECTIONS; i++)
        sections[i] = (ElfW(Shdr)){
            .sh_type = SHT_NOTE, .sh_offset = BYTES / 2, .sh_size = BYTES / 2};
    assert_int_equal(kt_elf_open_memory(image, BYTES, &e, NULL), KINETO_OK);
    assert_int_equal(kt_elf_build_id(e).size, 0);
    kt_elf_close(e);
    free(image);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(notes_without_end_are_not_all_read),
        cmocka_unit_test(functions_of_the_program_have_name_file_and_line),
        cmocka_unit_test(functions_of_libraries_have_name_and_library),
        cmocka_unit_test(whole_stacks_get_their_texts),
        cmocka_unit_test(the_kernels_own_code_is_named),
        cmocka_unit_test(what_lies_nowhere_stays_a_number),
        cmocka_unit_test(a_file_that_is_gone_leaves_module_and_offset),
        cmocka_unit_test(another_build_of_a_file_is_not_looked_at),
        cmocka_unit_test(what_took_the_place_of_a_file_is_not_looked_at),
        cmocka_unit_test(a_process_knows_which_of_its_files_are_gone),
        cmocka_unit_test(what_is_not_a_file_is_not_opened),
        cmocka_unit_test(names_of_code_made_in_memory_are_read),
        cmocka_unit_test(names_of_functions_are_without_version),
        cmocka_unit_test(damaged_files_are_refused_or_read),
        cmocka_unit_test(sampled_functions_without_names_count_as_one),
        cmocka_unit_test(the_unwinders_tables_know_where_functions_begin),
    };
    return RUN_TESTS(tests);
}
