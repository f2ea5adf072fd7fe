/* See shader.h. The numbers of operations and decorations are those of SPIR-V 1.0. */
#include "shader.h"

#include <string.h>

typedef struct assembler {
    uint32_t *code;
    size_t count;
} assembler;

/* One instruction: its length and number, then its operands. */
static void put(assembler *a, uint32_t op, uint32_t count, const uint32_t *operands)
{
    a->code[a->count++] = (count + 1) << 16 | op;
    for (uint32_t i = 0; i < count; i++)
        a->code[a->count++] = operands[i];
}

#define OP(op, ...)                                                                                \
    put(&a, op, sizeof((uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t), (uint32_t[]){__VA_ARGS__})

enum {
    MAIN = 1,
    GID,
    BUFFER,
    VOID,
    FUNCTION,
    UINT,
    VEC3,
    IN_VEC3,
    IN_UINT,
    ARRAY,
    BLOCK,
    AT_BLOCK,
    AT_UINT,
    ZERO,
    ONE,
    THREE,
    LABEL,
    AT_X,
    X,
    AT_ITEM,
    ITEM,
    PRODUCT,
    SUM,
    BOUND
};

/* A literal is padded with zeros to whole words, with at least one zero byte. */
static void put_entry_point(assembler *a, const char *entry)
{
    uint32_t operands[64] = {5, MAIN}; /* GLCompute */
    uint32_t words = (uint32_t)(strlen(entry) / 4 + 1);

    memcpy(&operands[2], entry, strlen(entry));
    operands[2 + words] = GID;
    put(a, 15, 3 + words, operands);
}

size_t shader_assemble(uint32_t code[SHADER_WORDS], const char *entry)
{
    assembler a = {code, 5};

    memset(code, 0, SHADER_WORDS * sizeof *code);
    memcpy(code, (uint32_t[]){0x07230203, 0x00010000, 0, BOUND, 0}, 5 * sizeof *code);
    OP(17, 1);    /* Capability Shader */
    OP(14, 0, 1); /* MemoryModel Logical GLSL450 */
    put_entry_point(&a, entry);
    OP(16, MAIN, 17, SHADER_GROUP, 1, 1); /* ExecutionMode LocalSize */
    OP(71, GID, 11, 28);                  /* Decorate BuiltIn GlobalInvocationId */
    OP(71, ARRAY, 6, 4);                  /* ArrayStride */
    OP(72, BLOCK, 0, 35, 0);              /* MemberDecorate Offset */
    OP(71, BLOCK, 3);                     /* BufferBlock */
    OP(71, BUFFER, 34, 0);                /* DescriptorSet */
    OP(71, BUFFER, 33, 0);                /* Binding */
    OP(19, VOID);
    OP(33, FUNCTION, VOID);
    OP(21, UINT, 32, 0);
    OP(23, VEC3, UINT, 3);
    OP(32, IN_VEC3, 1, VEC3); /* pointers: Input, Uniform */
    OP(32, IN_UINT, 1, UINT);
    OP(29, ARRAY, UINT);
    OP(30, BLOCK, ARRAY);
    OP(32, AT_BLOCK, 2, BLOCK);
    OP(32, AT_UINT, 2, UINT);
    OP(43, UINT, ZERO, 0);
    OP(43, UINT, ONE, 1);
    OP(43, UINT, THREE, 3);
    OP(59, IN_VEC3, GID, 1);
    OP(59, AT_BLOCK, BUFFER, 2);
    OP(54, VOID, MAIN, 0, FUNCTION);
    OP(248, LABEL);
    OP(65, IN_UINT, AT_X, GID, ZERO);
    OP(61, UINT, X, AT_X);
    OP(65, AT_UINT, AT_ITEM, BUFFER, ZERO, X);
    OP(61, UINT, ITEM, AT_ITEM);
    OP(132, UINT, PRODUCT, ITEM, THREE);
    OP(128, UINT, SUM, PRODUCT, ONE);
    OP(62, AT_ITEM, SUM);
    put(&a, 253, 0, NULL); /* Return */
    put(&a, 56, 0, NULL);
    return a.count;
}
