/* The code that a process has mapped: which file, which part, which build. Read from the kernel's
 * list with system calls alone, so that it can be looked at wherever a stack is captured. */
#include "record/stack.h"

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

/* What is left of a line, taken from the left. */
static uint64_t parse_maps_hex(char **at)
{
    uint64_t value = 0;
    for (;; ++*at) {
        char c = **at;
        if (c >= '0' && c <= '9')
            value = value << 4 | (uint64_t)(c - '0');
        else if (c >= 'a' && c <= 'f')
            value = value << 4 | (uint64_t)(c - 'a' + 10);
        else
            return value;
    }
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
    bool in_rest;      /* of a line that was cut */
} listing;

/* Take what comes next; false at the end. */
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

/* Show the lines that are whole, and one that is longer than the buffer. */
static bool visit_maps_lines(listing *l, bool (*look)(void *context, mapping *m), void *context)
{
    char *line = l->text, *end;
    bool done = false;
    mapping m;
    while (!done && (end = memchr(line, '\n', l->have - (size_t)(line - l->text))) != NULL) {
        *end = '\0';
        done = !l->in_rest && parse_maps_line(line, &m) && look(context, &m);
        l->in_rest = false;
        line = end + 1;
    }
    l->have -= (size_t)(line - l->text);
    memmove(l->text, line, l->have);
    if (!done && l->have == l->size - 1) {
        l->text[l->have] = '\0';
        done = !l->in_rest && parse_maps_line(l->text, &m) && look(context, &m);
        l->in_rest = true;
        l->have = 0;
    }
    return done;
}

/* Show each mapping until `look` is satisfied. System calls only. @return an errno. */
static int visit_mappings(char *text, size_t size, bool (*look)(void *context, mapping *m),
                          void *context)
{
    listing l = {.text = text, .size = size};
    l.fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    if (l.fd < 0)
        return errno;
    while (read_maps_text(&l) && !visit_maps_lines(&l, look, context))
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

/* Own memory, without a fault where a file was cut off since it was mapped. */
static bool read_own_memory(uint64_t address, void *to, size_t bytes)
{
    struct iovec local = {to, bytes}, remote = {(void *)(uintptr_t)address, bytes};
    return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == (ssize_t)bytes;
}

/* A segment of notes: name size, size, type, then both, each rounded up to 4 bytes. */
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

/* `image`: where the file's first byte is mapped. */
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

/* ---- what is known of ------------------------------------------------------------------------ */

typedef struct range {
    uint64_t start, end; /* the lowest bit of start: RUNTIME */
} range;
#define RANGES 4096u
/* Written with release and read with acquire, each word: readers look whether `turn` stayed the
 * same and even; those that cannot tell take it as known. */
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
    uint32_t low = 0, high = KB_MIN(kb_load_acquire(&k->count), RANGES);
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        uint64_t start = kb_load_acquire(&k->ranges[middle].start);
        if (address < (start & ~UINT64_C(1)))
            high = middle;
        else if (address >= kb_load_acquire(&k->ranges[middle].end))
            low = middle + 1;
        else
            return start & 1 ? KR_MODULE_RUNTIME : KR_MODULE_CODE;
    }
    return KR_MODULE_UNKNOWN;
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

/* Of the C library and those in which threads start: what calls a program's code there is not of
 * interest, and was rarely compiled with frame pointers. */
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
    uint64_t image, image_hash; /* where the last file's first byte is mapped, and its path */
    uint32_t count;
    uint64_t hash;
} noting;

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
        return kb_fail(err, KINETO_E_BUSY, "the libraries of this process are being listed");
    if (!known) {
        struct known_ranges *made = kb_os_map(sizeof *made);
        kb_store_release(&known, made);
    }
    if (known) {
        if (visit)
            kb_store_relaxed(&stale, 0);
        kb_store_relaxed(&known->turn, known->turn + 1);
        error = visit_mappings(text, sizeof text, note_mapping, &n);
        kb_store_release(&known->count, KB_MIN(n.count, RANGES));
        kb_store_release(&known->turn, known->turn + 1);
        /* Other code may have come to lie where addresses are believed in. */
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
