/* Names of entry points, and sizes of work groups, from SPIR-V. A size is the execution mode
 * LocalSize or LocalSizeId, or the constant decorated as WorkgroupSize, which takes precedence; its
 * words may be specialisation constants.
 *
 * The code is the program's and may be malformed, which is the driver's matter: nothing beyond its end is
 * read, ids beyond its bound are ignored, and reading stops at an instruction that has no length. */
#include "vulkan.h"

#include <stdlib.h>
#include <string.h>

#define SPIRV_MAGIC       UINT32_C(0x07230203)
#define HEADER_WORDS      5u
#define MAX_IDS           (UINT32_C(1) << 22)
#define MODEL_GL_COMPUTE  5u
#define MAX_NAME_BYTES    4096u

enum {
    OP_ENTRY_POINT = 15,
    OP_EXECUTION_MODE = 16,
    OP_CONSTANT = 43,
    OP_CONSTANT_COMPOSITE = 44,
    OP_SPEC_CONSTANT = 50,
    OP_SPEC_CONSTANT_COMPOSITE = 51,
    OP_DECORATE = 71,
    OP_EXECUTION_MODE_ID = 331
};
enum { MODE_LOCAL_SIZE = 17, MODE_LOCAL_SIZE_ID = 38 };
enum { DECORATION_SPEC_ID = 1, DECORATION_BUILTIN = 11, BUILTIN_WORKGROUP_SIZE = 25 };

/* What a word of the module's ids is known to be. */
typedef struct constant {
    uint32_t value, spec_id;
    bool is_known, is_spec;
} constant;

typedef struct parser {
    vl_shader *out;
    uint32_t ids[VL_MAX_ENTRIES]; /* functions of the entry points */
    constant *constants;          /* [bound] */
    uint32_t bound;
    uint32_t size_id; /* the constant that is WorkgroupSize; 0: none */
    bool has_size_words;
    uint32_t size_words[3];
    bool has_mode_ids[VL_MAX_ENTRIES];
    uint32_t mode_ids[VL_MAX_ENTRIES][3];
} parser;

/* Its name is a literal of the module, which may lack its end. */
static void parse_entry_point(parser *p, const uint32_t *op, uint32_t words)
{
    vl_shader *out = p->out;
    size_t room = words > 3 ? (words - 3) * 4u : 0;
    const char *name = (const char *)&op[3];

    if (room == 0 || op[1] != MODEL_GL_COMPUTE || out->entry_count == VL_MAX_ENTRIES)
        return;
    size_t size = strnlen(name, room < MAX_NAME_BYTES ? room : MAX_NAME_BYTES);
    p->ids[out->entry_count] = op[2];
    out->entries[out->entry_count++].name = vl_intern_text(name, size);
}

/* Modes come after all entry points. */
static void parse_execution_mode(parser *p, const uint32_t *op, uint32_t words)
{
    for (uint32_t i = 0; words >= 6 && i < p->out->entry_count; i++) {
        vl_entry *e = &p->out->entries[i];
        if (p->ids[i] != op[1])
            continue;
        if (op[2] == MODE_LOCAL_SIZE) {
            e->has_size = true;
            for (uint32_t k = 0; k < 3; k++)
                e->size[k] = (vl_size_word){.value = op[3 + k]};
        } else if (op[2] == MODE_LOCAL_SIZE_ID) {
            p->has_mode_ids[i] = true;
            memcpy(p->mode_ids[i], &op[3], sizeof p->mode_ids[i]);
        }
    }
}

/* Decorations come before the constants that they are about. */
static void parse_decoration(parser *p, const uint32_t *op, uint32_t words)
{
    if (words < 4 || op[1] >= p->bound)
        return;
    if (op[2] == DECORATION_SPEC_ID) {
        p->constants[op[1]].is_spec = true;
        p->constants[op[1]].spec_id = op[3];
    } else if (op[2] == DECORATION_BUILTIN && op[3] == BUILTIN_WORKGROUP_SIZE) {
        p->size_id = op[1];
    }
}

/* The first word is enough: sizes have 32 bits. */
static void parse_constant(parser *p, const uint32_t *op, uint32_t words)
{
    if (words < 4 || op[2] >= p->bound)
        return;
    p->constants[op[2]].value = op[3];
    p->constants[op[2]].is_known = true;
}

/* Only the one that is decorated as the size. */
static void parse_composite(parser *p, const uint32_t *op, uint32_t words)
{
    if (words != 6 || !p->size_id || op[2] != p->size_id)
        return;
    p->has_size_words = true;
    memcpy(p->size_words, &op[3], sizeof p->size_words);
}

static void parse_instruction(parser *p, const uint32_t *op, uint32_t words)
{
    switch (op[0] & 0xffff) {
    case OP_ENTRY_POINT:
        parse_entry_point(p, op, words);
        break;
    case OP_EXECUTION_MODE:
    case OP_EXECUTION_MODE_ID:
        parse_execution_mode(p, op, words);
        break;
    case OP_DECORATE:
        parse_decoration(p, op, words);
        break;
    case OP_CONSTANT:
    case OP_SPEC_CONSTANT:
        parse_constant(p, op, words);
        break;
    case OP_CONSTANT_COMPOSITE:
    case OP_SPEC_CONSTANT_COMPOSITE:
        parse_composite(p, op, words);
        break;
    default:
        break;
    }
}

/* Takes a size from three ids of constants. False: one of them is unknown. */
static bool resolve_size(const parser *p, const uint32_t *ids, vl_entry *entry)
{
    vl_size_word size[3];

    for (uint32_t k = 0; k < 3; k++) {
        if (ids[k] >= p->bound || !p->constants[ids[k]].is_known)
            return false;
        const constant *c = &p->constants[ids[k]];
        size[k] = (vl_size_word){c->value, c->spec_id, c->is_spec};
    }
    memcpy(entry->size, size, sizeof size);
    entry->has_size = true;
    return true;
}

/* Part of the names of shaders that have no name of their own. */
static uint32_t hash_code_words(const uint32_t *code, size_t words)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);

    for (size_t i = 0; i < words; i++)
        h = (h ^ code[i]) * UINT64_C(0x100000001b3);
    return (uint32_t)(h ^ h >> 32);
}

void vl_shader_parse(vl_shader *shader, const uint32_t *code, size_t bytes)
{
    size_t words = bytes / 4;
    parser p = {.out = shader};

    shader->hash = hash_code_words(code, words);
    if (words < HEADER_WORDS || code[0] != SPIRV_MAGIC || code[3] > MAX_IDS)
        return;
    p.bound = code[3];
    p.constants = calloc((size_t)p.bound + 1, sizeof *p.constants);
    if (!p.constants)
        return;
    for (size_t at = HEADER_WORDS; at < words;) {
        uint32_t length = code[at] >> 16;
        if (length == 0 || length > words - at)
            break;
        parse_instruction(&p, &code[at], length);
        at += length;
    }
    for (uint32_t i = 0; i < shader->entry_count; i++)
        if (!p.has_size_words || !resolve_size(&p, p.size_words, &shader->entries[i]))
            if (p.has_mode_ids[i])
                (void)resolve_size(&p, p.mode_ids[i], &shader->entries[i]);
    free(p.constants);
}
