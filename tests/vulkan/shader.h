/* A compute shader as SPIR-V, assembled at run time: b[i] = b[i] * 3 + 1, in work groups of 64. */
#ifndef TEST_VULKAN_SHADER_H
#define TEST_VULKAN_SHADER_H

#include <stddef.h>
#include <stdint.h>

#define SHADER_WORDS 512
#define SHADER_GROUP 64u

/** @return the number of words. The entry point gets this name. */
size_t shader_assemble(uint32_t code[SHADER_WORDS], const char *entry);
#endif
