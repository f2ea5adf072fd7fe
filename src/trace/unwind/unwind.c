/* Walks a copied stack from frame to frame. For each address the row of the unwinder's tables says
 * where the caller's frame is. Rows are cached in a short form, which is enough for almost all code;
 * the others are evaluated each time. Code without tables (generated code) is walked by its frame
 * pointers. The copy and the tables are untrusted: every read is checked, every frame has to be
 * above the one before. */
#include "trace/unwind/unwind.h"
#include "trace/from_recording/symbols.h"

#define CACHED_ROWS 16384u /* a power of two */

/* Registers that a function has to restore, and the return address: those that can be of use in
 * callers. */
#if defined(__aarch64__)
static const uint8_t preserved[] = {19, 20, 21, 22, 23, 24, 25, 26, 27, 28, KB_CFI_FRAME,
                                    KB_CFI_LINK};
#define RETURN_REGISTER KB_CFI_LINK
#define ADDRESS_BITS    UINT64_C(0x0000ffffffffffff) /* above: the signature of a pointer */
#else
static const uint8_t preserved[] = {3, KB_CFI_FRAME, 12, 13, 14, 15, KB_CFI_RETURN};
#define RETURN_REGISTER KB_CFI_RETURN
#define ADDRESS_BITS    UINT64_MAX
#endif

typedef enum row_form {
    ROW_EMPTY = 0, /* the place in the cache is free */
    ROW_SHORT,     /* CFA = register + distance; registers are saved at constant distances */
    ROW_LONG,      /* to be evaluated from the tables */
    ROW_OUTERMOST, /* there is no caller */
    ROW_NONE       /* no tables */
} row_form;

typedef struct short_row {
    uint64_t address; /* in the numbering of the file */
    uint32_t image;
    int32_t cfa_distance;
    uint8_t form, cfa_register;
    bool is_signal_frame;
    int16_t saved[KB_COUNT(preserved)]; /* words from the CFA; 0: not saved */
} short_row;

struct ku_unwinder {
    short_row rows[CACHED_ROWS];
};

/* The frame that the walk is at. */
typedef struct walk {
    const ku_stack_copy *copy;
    uint64_t registers[KB_CFI_REGISTERS];
    uint64_t pc;
    bool is_exact; /* pc is an instruction that ran, not the one after a call */
} walk;

ku_unwinder *ku_unwinder_create(void) { return calloc(1, sizeof(ku_unwinder)); }
void ku_unwinder_destroy(ku_unwinder *u) { free(u); }

/* A word of the copied stack. */
static bool read_stack_word(void *context, uint64_t address, uint64_t *word)
{
    const walk *w = context;
    uint64_t at = address - w->copy->registers[KB_CFI_STACK];
    if (w->copy->size < sizeof *word || at > w->copy->size - sizeof *word)
        return false;
    memcpy(word, w->copy->bytes + at, sizeof *word);
    return true;
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* Put a row into the short form. False: it does not fit. */
static bool shorten_row(const kb_cfi_row *row, short_row *out)
{
    if (row->cfa_by != KB_CFI_OFFSET || row->return_register != RETURN_REGISTER)
        return false;
    out->cfa_register = row->cfa_register;
    out->cfa_distance = row->cfa_value;
    for (size_t i = 0; i < KB_COUNT(preserved); i++) {
        const kb_cfi_rule *rule = &row->rules[preserved[i]];
        out->saved[i] = 0;
        if (rule->by == KB_CFI_SAME)
            continue;
        if (rule->by != KB_CFI_OFFSET || rule->value % 8 || rule->value / 8 > INT16_MAX ||
            rule->value / 8 < INT16_MIN || rule->value == 0)
            return false;
        out->saved[i] = (int16_t)(rule->value / 8);
    }
    return true;
}

static void load_row(const ku_image *image, uint64_t address, short_row *out)
{
    kb_cfi_row row;
    const uint8_t *entry;
    kb_cfi_bounds bounds;
    *out = (short_row){.address = address, .image = ku_image_number(image), .form = ROW_NONE};
    if (!ku_image_row(image, address, &row, &entry, &bounds))
        return;
    out->is_signal_frame = row.is_signal_frame;
    if (row.rules[row.return_register].by == KB_CFI_UNDEFINED)
        out->form = ROW_OUTERMOST;
    else
        out->form = shorten_row(&row, out) ? ROW_SHORT : ROW_LONG;
}

static const short_row *find_row(ku_unwinder *u, const ku_image *image, uint64_t address)
{
    uint64_t hash = (address ^ (uint64_t)ku_image_number(image) << 40) *
                    UINT64_C(0x9e3779b97f4a7c15);
    short_row *row = &u->rows[hash >> 40 & (CACHED_ROWS - 1)];
    if (row->form == ROW_EMPTY || row->address != address || row->image != ku_image_number(image))
        load_row(image, address, row);
    return row;
}

/* ---- steps ----------------------------------------------------------------------------------- */

/* Move to the caller, whose frame is above this one. False: it cannot be. */
static bool enter_caller(walk *w, uint64_t cfa, uint64_t pc, bool is_exact)
{
    uint64_t stack = w->registers[KB_CFI_STACK];
    bool is_leaf = w->is_exact; /* a leaf function of arm64 may have no frame */
    if (cfa < stack || (cfa == stack && !is_leaf) || pc == 0)
        return false;
    w->registers[KB_CFI_STACK] = cfa;
    w->pc = pc & ADDRESS_BITS;
    w->is_exact = is_exact;
    return true;
}

/* At the end of a function, registers have been restored whose rows still say where they were saved,
 * which is below the stack pointer then and not in the copy: they keep their values. The return
 * address, which is the last of the preserved registers, has to be found. */
static bool step_by_short_row(walk *w, const short_row *row)
{
    uint64_t cfa = w->registers[row->cfa_register] + (uint64_t)(int64_t)row->cfa_distance;
    uint64_t words[KB_COUNT(preserved)];
    bool has_return = w->is_exact, is_read;
    for (size_t i = 0; i < KB_COUNT(preserved); i++) {
        words[i] = w->registers[preserved[i]];
        if (!row->saved[i])
            continue;
        is_read = read_stack_word(w, cfa + 8 * (uint64_t)(int64_t)row->saved[i], &words[i]);
        if (preserved[i] == RETURN_REGISTER)
            has_return = is_read;
    }
    for (size_t i = 0; i < KB_COUNT(preserved); i++)
        w->registers[preserved[i]] = words[i];
    return has_return &&
           enter_caller(w, cfa, w->registers[RETURN_REGISTER], row->is_signal_frame);
}

/* The value of a register in the caller. */
static bool apply_rule(const walk *w, const kb_cfi_machine *m, const uint8_t *entry,
                       kb_cfi_bounds bounds, const kb_cfi_rule *rule, uint64_t cfa, uint64_t *value)
{
    uint64_t at = cfa + (uint64_t)(int64_t)rule->value;
    switch (rule->by) {
    case KB_CFI_SAME:
        return true;
    case KB_CFI_OFFSET:
        return m->read(m->context, at, value);
    case KB_CFI_VAL_OFFSET:
        *value = at;
        return true;
    case KB_CFI_REGISTER:
        *value = (uint32_t)rule->value < KB_CFI_REGISTERS ? w->registers[rule->value] : 0;
        return true;
    case KB_CFI_EXPRESSION:
        return kb_cfi_evaluate(entry, bounds, rule->value, m, &cfa, &at) &&
               m->read(m->context, at, value);
    case KB_CFI_VAL_EXPRESSION:
        return kb_cfi_evaluate(entry, bounds, rule->value, m, &cfa, value);
    default:
        *value = 0;
        return true;
    }
}

static bool step_by_tables(walk *w, const ku_image *image, uint64_t address)
{
    kb_cfi_row row;
    const uint8_t *entry;
    kb_cfi_bounds bounds;
    uint64_t old[KB_CFI_REGISTERS], cfa;
    if (!ku_image_row(image, address, &row, &entry, &bounds))
        return false;
    memcpy(old, w->registers, sizeof old);
    kb_cfi_machine m = {.registers = old, .read = read_stack_word, .context = w};
    if (row.cfa_by == KB_CFI_OFFSET)
        cfa = old[row.cfa_register] + (uint64_t)(int64_t)row.cfa_value;
    else if (!kb_cfi_evaluate(entry, bounds, row.cfa_value, &m, NULL, &cfa))
        return false;
    for (uint32_t i = 0; i < KB_CFI_REGISTERS; i++)
        if (!apply_rule(w, &m, entry, bounds, &row.rules[i], cfa, &w->registers[i]) &&
            i == row.return_register)
            return false;
    uint64_t pc = w->registers[row.return_register];
    if (row.rules[KB_CFI_STACK].by != KB_CFI_SAME) /* the handler of a signal had its own stack */
        cfa = w->registers[KB_CFI_STACK];
    w->registers[KB_CFI_STACK] = old[KB_CFI_STACK];
    return enter_caller(w, cfa, pc, row.is_signal_frame);
}

/* Code without tables that keeps a frame pointer: it points to the caller's one, after which the
 * return address is. */
static bool step_by_frame_pointer(walk *w)
{
    uint64_t frame = w->registers[KB_CFI_FRAME], next, back;
    if (!read_stack_word(w, frame, &next) || !read_stack_word(w, frame + 8, &back))
        return false;
    w->registers[KB_CFI_FRAME] = next;
    return enter_caller(w, frame + 16, back, false);
}

static bool is_mapped_build(const ku_mapping *m, const ku_image *image)
{
    return m->build_id.size == 0 || kb_string_equal(m->build_id, ku_image_build_id(image));
}

/* The file of a mapping. If its path has another file now, perf may have kept a copy. NULL: it is gone,
 * or generated code. */
static ku_image *find_mapped_image(ku_images *images, const ku_mapping *m, uint32_t pid)
{
    char copy[4096];
    ku_image *image = ku_image_get(images, m->path, pid);
    if (!image || is_mapped_build(m, image))
        return image;
    image = kt_symbols_cached_file(m->build_id, copy, sizeof copy)
                ? ku_image_get(images, copy, pid)
                : NULL;
    return image && is_mapped_build(m, image) ? image : NULL;
}

/* The mapping with the code of the frame, its file opened. */
static ku_mapping *find_code(ku_images *images, ku_address_space *space, uint64_t address)
{
    ku_mapping *m = ku_space_find(space, address);
    if (m && !m->is_looked_up) {
        m->image = find_mapped_image(images, m, space->pid);
        m->is_looked_up = true;
    }
    return m;
}

/* @return 1: the walk is at the caller. 0: this was the outermost frame. -1: not known. */
static int step_to_caller(ku_unwinder *u, ku_images *images, ku_address_space *space, walk *w)
{
    uint64_t call = w->pc - (w->is_exact ? 0 : 1), address;
    const ku_mapping *m = find_code(images, space, call);
    if (!m)
        return -1;
    if (!m->image || !ku_image_address(m->image, call - m->start + m->file_offset, &address))
        return step_by_frame_pointer(w) ? 1 : -1;
    const short_row *row = find_row(u, m->image, address);
    switch (row->form) {
    case ROW_OUTERMOST:
        return 0;
    case ROW_SHORT:
        return step_by_short_row(w, row) ? 1 : -1;
    case ROW_LONG:
        return step_by_tables(w, m->image, address) ? 1 : -1;
    default:
        return step_by_frame_pointer(w) ? 1 : -1;
    }
}

uint32_t ku_unwind(ku_unwinder *u, ku_images *images, ku_address_space *space,
                   const ku_stack_copy *copy, uint64_t *frames, bool *is_cut)
{
    walk w = {.copy = copy, .pc = copy->instruction, .is_exact = true};
    uint32_t count = 0;
    int found = 1;
    memcpy(w.registers, copy->registers, sizeof w.registers);
#if !defined(__aarch64__)
    w.registers[KB_CFI_RETURN] = w.pc; /* expressions of the procedure linkage table read it */
#endif
    while (found == 1 && count < KU_MAX_FRAMES) {
        frames[count++] = w.pc;
        found = step_to_caller(u, images, space, &w);
    }
    KB_ASSERT(count > 0);
    *is_cut = found != 0;
    return count;
}
