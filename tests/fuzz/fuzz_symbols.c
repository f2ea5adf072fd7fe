/* Files that say what addresses are called: ELF images ('0' first) and lists of code made in memory
 * (any other byte). Whatever is in them, nothing outside of them is read, and every function that
 * is found has a name. Lines are libdw's to find, which has fuzzers of its own. */
#include "read.h"
#include "trace/from_recording/symbols.h"

#include <elf.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void look_up(const kt_elf *e, uint64_t file_offset)
{
    uint64_t address = file_offset;
    kt_elf_symbol found = {0};
    (void)kt_elf_address(e, file_offset, &address);
    if (kt_elf_function(e, address, &found))
        fuzz_check(found.name.size && strlen(found.name.data) == found.name.size,
                   "a function without a name");
}

static void take_elf(const uint8_t *data, size_t size)
{
    kt_elf *e = NULL;
    kineto_error err = {.message = ""};
    uint8_t *exact = malloc(size ? size : 1); /* its end is watched */
    if (!exact)
        return;
    memcpy(exact, data, size);
    kineto_status status = kt_elf_open_memory(exact, size, &e, &err);
    free(exact);
    fuzz_check((status == KINETO_OK) == (e != NULL), "status and image do not agree");
    fuzz_check(e || err.message[0], "refused without a word");
    if (!e)
        return;
    fuzz_check(kt_elf_build_id(e).size <= 64, "a build id that is too long");
    fuzz_check(!memchr(kt_elf_debug_link(e).data, '/', kt_elf_debug_link(e).size),
               "a path as a name");
    (void)kt_elf_is_full(e);
    for (uint64_t at = 0; at < size; at += 1 + size / 64)
        look_up(e, at);
    for (uint32_t bit = 0; bit < 64; bit++)
        look_up(e, (UINT64_C(1) << bit) - 1);
    kt_elf_close(e);
}

/* Of this user, not a link: else it would not be believed. */
static const char *map_file(const uint8_t *data, size_t size)
{
    static char path[64];
    snprintf(path, sizeof path, "/dev/shm/fuzz-symbols-%d.map", (int)getpid());
    FILE *f = fopen(path, "wb");
    fuzz_check(f && fwrite(data, 1, size, f) == size, "no memory for a file");
    fclose(f);
    return path;
}

static void take_map(const uint8_t *data, size_t size)
{
    kt_symbols *s = NULL;
    kt_symbol_text text;
    uint64_t stack[64];
    const char *path = map_file(data, size);
    fuzz_check(kt_symbols_create(&s, NULL) == KINETO_OK, "no memory for symbols");
    fuzz_check(kt_symbols_add_map(s, 1, path, NULL) == KINETO_OK, "a list was refused");
    (void)remove(path);
    for (uint32_t i = 0; i < 64; i++) {
        stack[i] = (UINT64_C(1) << i) + i % 3;
        bool found = kt_symbol(s, stack[i], &text);
        fuzz_check(text.text.size && !memchr(text.text.data, ';', text.text.size),
                   "no text of a frame");
        fuzz_check(!found || text.function.size, "found without a name");
        kt_symbol_frames at = kt_symbol_frames_at(s, stack[i], false);
        text = at.frames[at.count - 1];
        fuzz_check(text.function.size || kb_string_equal(text.text, kb_string("[unknown]")),
                   "a sample has neither a function nor the text for none");
    }
    fuzz_check(kt_symbols_stack(s, stack, 64).size > 64, "no text of a stack");
    kt_symbols_destroy(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size && data[0] == '0')
        take_elf(data + 1, size - 1);
    else if (size)
        take_map(data + 1, size - 1);
    return 0;
}
