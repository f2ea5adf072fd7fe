/* The code that a process has mapped: which file, which part, which build. It is read from the
 * kernel's list (/proc/self/maps) with system calls only, because stacks are captured in signal
 * handlers, too. */
#include "record/unwind.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <sys/uio.h>
#include <unistd.h>

/* ---- the kernel's list ----------------------------------------------------------------------- */

#define LINE_BYTES 6144u /* a path may have 4096, and more where bytes are escaped */

typedef struct mapping {
    uint64_t start, end, offset;
    bool is_code;
    char *path; /* NUL-terminated; may be changed */
} mapping;

/* Parsers of a line: each advances *at past what it has read. */
static uint64_t parse_maps_hex(char **at)
{
    uint64_t value = 0;
    for (; kb_is_hex_digit(**at); ++*at)
        value = value << 4 | (uint64_t)kb_hex_value(**at);
    return value;
}

static bool skip_maps_char(char **at, char c)
{
    if (**at != c)
        return false;
    ++*at;
    return true;
}

static void skip_maps_word(char **at)
{
    while (**at && **at != ' ')
        ++*at;
    while (**at == ' ')
        ++*at;
}

/* "start-end perm offset device inode path" */
static bool parse_maps_line(char *line, mapping *m)
{
    char *at = line;
    m->start = parse_maps_hex(&at);
    if (!skip_maps_char(&at, '-'))
        return false;
    m->end = parse_maps_hex(&at);
    if (!skip_maps_char(&at, ' ') || strlen(at) < 5)
        return false;
    m->is_code = at[2] == 'x';
    skip_maps_word(&at);
    m->offset = parse_maps_hex(&at);
    if (!skip_maps_char(&at, ' '))
        return false;
    skip_maps_word(&at);
    skip_maps_word(&at);
    m->path = at;
    return true;
}

/* The lines of the kernel's list, through a buffer that may be small: paths are cut to what it
 * holds. */
typedef struct listing {
    int fd, error;
    char *text;
    size_t size, have; /* bytes of text */
    bool in_rest;      /* the next text is the rest of a line that was cut: to be skipped */
} listing;

/* Append what the kernel has next; false at the end or on an error. */
static bool read_maps_text(listing *l)
{
    ssize_t got;
    do
        got = read(l->fd, l->text + l->have, l->size - 1 - l->have);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        l->error = errno;
    l->have += got > 0 ? (size_t)got : 0;
    return got > 0;
}

/* Pass each complete line, and one that is longer than the buffer, to `visit`; keep the incomplete
 * rest. @return whether `visit` is done. */
static bool visit_maps_lines(listing *l, bool (*match)(void *context, mapping *m), void *context)
{
    char *line = l->text, *end;
    bool done = false;
    mapping m;
    while (!done && (end = memchr(line, '\n', l->have - (size_t)(line - l->text))) != NULL) {
        *end = '\0';
        done = !l->in_rest && parse_maps_line(line, &m) && match(context, &m);
        l->in_rest = false;
        line = end + 1;
    }
    l->have -= (size_t)(line - l->text);
    memmove(l->text, line, l->have);
    if (!done && l->have == l->size - 1) {
        l->text[l->have] = '\0';
        done = !l->in_rest && parse_maps_line(l->text, &m) && match(context, &m);
        l->in_rest = true;
        l->have = 0;
    }
    return done;
}

/* Call `visit` for each mapping until it returns true. System calls only. @return 0 or an errno. */
static int visit_mappings(char *text, size_t size, bool (*match)(void *context, mapping *m),
                          void *context)
{
    listing l = {.text = text, .size = size};
    l.fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    if (l.fd < 0)
        return errno;
    while (read_maps_text(&l) && !visit_maps_lines(&l, match, context))
        ;
    close(l.fd);
    return l.error;
}

typedef struct wanted {
    uint64_t address, start, end;
} wanted;

static bool match_address(void *context, mapping *m)
{
    wanted *w = context;
    if (w->address < m->start || w->address >= m->end)
        return false;
    w->start = m->start;
    w->end = m->end;
    return true;
}

bool kr_mapping_of(uint64_t address, uint64_t *start, uint64_t *end)
{
    int before = errno;
    wanted w = {.address = address};
    char text[256]; /* in a signal handler there may be little room */
    visit_mappings(text, sizeof text, match_address, &w);
    errno = before;
    *start = w.start;
    *end = w.end;
    return w.end != 0;
}

/* ---- build ids ------------------------------------------------------------------------------- */

/* Read this process' own memory with a system call, which fails where a file was truncated since it
 * was mapped; an ordinary read would raise SIGBUS. */
static bool read_own_memory(uint64_t address, void *to, size_t bytes)
{
    struct iovec local = {to, bytes}, remote = {(void *)(uintptr_t)address, bytes};
    return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == (ssize_t)bytes;
}

/* Search a segment of ELF notes: name size, size, type, then name and contents, each rounded up to
 * 4 bytes. @return the bytes of the build id, which `id` receives; 0: it has none. */
static uint32_t find_build_id(uint64_t at, uint64_t bytes, uint8_t *id)
{
    uint64_t end = at + KB_MIN(bytes, (uint64_t)4096);
    ElfW(Nhdr) note;
    char name[4];
    while (end - at >= sizeof note && read_own_memory(at, &note, sizeof note)) {
        at += sizeof note;
        uint64_t names = kb_align(note.n_namesz, 4), body = kb_align(note.n_descsz, 4);
        if (names > end - at || body > end - at - names)
            return 0;
        if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && read_own_memory(at, name, 4) &&
            memcmp(name, "GNU", 4) == 0 && note.n_descsz > 0 &&
            note.n_descsz <= KR_BUILD_ID_BYTES && read_own_memory(at + names, id, note.n_descsz))
            return note.n_descsz;
        at += names + body;
    }
    return 0;
}

/* Find the build id of an ELF file; `image` is the address of its first byte. */
static void read_build_id(uint64_t image, kr_module *module)
{
    ElfW(Ehdr) head;
    ElfW(Phdr) segment;
    uint64_t base = 0;
    bool has_base = false;
    if (!read_own_memory(image, &head, sizeof head) || memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 ||
        head.e_phentsize != sizeof segment)
        return;
    for (uint32_t i = 0; i < head.e_phnum && !module->build_id_bytes; i++) {
        if (!read_own_memory(image + head.e_phoff + i * sizeof segment, &segment, sizeof segment))
            return;
        if (segment.p_type == PT_LOAD && !has_base) {
            base = image - (segment.p_vaddr - segment.p_offset);
            has_base = true;
        }
        if (segment.p_type == PT_NOTE)
            module->build_id_bytes =
                find_build_id(has_base ? base + segment.p_vaddr : image + segment.p_offset,
                              segment.p_memsz, module->build_id);
    }
}

/* ---- known ranges of code -------------------------------------------------------------------- */

typedef struct range {
    uint64_t start, end; /* the lowest bit of start: it is a runtime library */
} range;
#define RANGES 4096u
/* A sequence lock: the writer makes `turn` odd, changes the ranges, and makes it even again.
 * Readers check that `turn` was even and did not change; otherwise they treat the address as known
 * code. */
static struct known_ranges {
    uint32_t turn, count;
    uint64_t hash; /* of all ranges: the writer's */
    range ranges[RANGES];
} * known;
static uint32_t stale;

bool kr_modules_are_stale(void) { return kb_load_relaxed(&stale) != 0; }
void kr_modules_set_stale(void) { kb_store_relaxed(&stale, 1); }

static kr_module_is find_known_range(const struct known_ranges *k, uint64_t address)
{
    uint32_t i = 0, count = kb_min_u32(kb_load_acquire(&k->count), RANGES);
    KB_LOWER_BOUND(i, count, kb_load_acquire(&k->ranges[i].end) <= address);
    if (i == count)
        return KR_MODULE_UNKNOWN;
    uint64_t start = kb_load_acquire(&k->ranges[i].start);
    if (address < (start & ~UINT64_C(1)))
        return KR_MODULE_UNKNOWN;
    return start & 1 ? KR_MODULE_RUNTIME : KR_MODULE_CODE;
}

kr_module_is kr_module_of(uint64_t address)
{
    const struct known_ranges *k = kb_load_acquire(&known);
    if (!k)
        return KR_MODULE_UNKNOWN;
    uint32_t turn = kb_load_acquire(&k->turn);
    kr_module_is is = find_known_range(k, address);
    if ((turn & 1) || kb_load_relaxed(&k->turn) != turn)
        return KR_MODULE_CODE;
    return is;
}

/* Is it the C library, or one in which threads start? Callers of a program's code in there are of
 * no interest, and were rarely compiled with frame pointers. */
static bool is_runtime_library(const char *path)
{
    static const char *const names[] = {"libc.so",    "libc-",        "ld-linux",  "ld-musl",
                                        "libpthread", "libstdc++.so", "libc++.so", "libgomp.so",
                                        "libomp.so",  "libiomp5.so"};
    const char *slash = strrchr(path, '/');
    for (size_t i = 0; slash && i < KB_COUNT(names); i++)
        if (strncmp(slash + 1, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

/* ---- noting ---------------------------------------------------------------------------------- */

typedef struct noting {
    kr_module_visit visit;
    void *context;
    uint64_t image, image_hash; /* address of the last file's first byte, hash of its path */
    uint32_t count;
    uint64_t hash;
} noting;

/* @return whether the kernel marked the path as deleted or replaced; the mark is cut off. */
static bool strip_deleted_mark(char *path)
{
    static const char mark[] = " (deleted)";
    size_t size = strlen(path);
    if (size < sizeof mark || strcmp(path + size - (sizeof mark - 1), mark) != 0)
        return false;
    path[size - (sizeof mark - 1)] = '\0';
    return true;
}

/* The kernel writes a line break in a path as \012. */
static void unescape_newlines(char *path)
{
    char *to = path;
    for (const char *at = path; *at; to++) {
        bool is = strncmp(at, "\\012", 4) == 0;
        *to = is ? '\n' : *at;
        at += is ? 4 : 1;
    }
    *to = '\0';
}

static uint64_t hash_module_path(const char *text)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (; *text; text++)
        hash = (hash ^ (uint8_t)*text) * UINT64_C(0x100000001b3);
    return hash;
}

static void store_known_range(uint32_t index, const mapping *m, bool runtime)
{
    if (index >= RANGES)
        return;
    kb_store_release(&known->ranges[index].start, m->start | (runtime ? 1u : 0u));
    kb_store_release(&known->ranges[index].end, m->end);
}

static bool note_mapping(void *context, mapping *m)
{
    noting *n = context;
    kr_module module = {.start = m->start, .end = m->end, .file_offset = m->offset};
    uint64_t hash = hash_module_path(m->path);
    if (m->offset == 0) {
        n->image = m->start;
        n->image_hash = hash;
    }
    if (!m->is_code)
        return false;
    n->hash = (n->hash ^ m->start ^ (m->end << 20) ^ hash) * UINT64_C(0x100000001b3);
    module.is_gone = strip_deleted_mark(m->path);
    unescape_newlines(m->path);
    module.path = m->path;
    store_known_range(n->count++, m, is_runtime_library(m->path));
    if (n->visit) {
        if (m->path[0] && n->image_hash == hash)
            read_build_id(n->image, &module);
        n->visit(n->context, &module);
    }
    return false;
}

static kb_lock lock; /* not broken by a fork */

kineto_status kr_modules_note(kr_module_visit visit, void *context, kineto_error *err)
{
    noting n = {.visit = visit, .context = context};
    char text[LINE_BYTES];
    int error = ENOMEM;
    if (!kb_lock_take(&lock, kb_os_self()))
        return kb_fail(err, KINETO_E_BUSY, "this thread is already listing the libraries");
    if (!known) {
        struct known_ranges *made = kb_os_map(sizeof *made);
        kb_store_release(&known, made);
    }
    if (known) {
        if (visit)
            kb_store_relaxed(&stale, 0);
        KB_ASSERT(known->turn % 2 == 0);
        kb_store_relaxed(&known->turn, known->turn + 1);
        error = visit_mappings(text, sizeof text, note_mapping, &n);
        kb_store_release(&known->count, KB_MIN(n.count, RANGES));
        kb_store_release(&known->turn, known->turn + 1);
        /* Different code may be mapped now at addresses that unwind.c has learned. */
        if (n.hash != known->hash)
            kr_stack_forget();
        known->hash = n.hash;
    }
    kb_lock_drop(&lock);
    if (error)
        return kb_fail_os(err, error,
                          "cannot list the libraries of this process (/proc/self/maps)");
    return KINETO_OK;
}
