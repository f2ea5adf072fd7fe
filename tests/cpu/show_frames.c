/* Prints the functions at addresses of a file, for test_inlined.py: reads addresses, in the numbering of the
 * file and hexadecimal, from the input; writes for each "ADDRESS" and lines "function<TAB>file<TAB>line", the
 * innermost function first. */
#include "trace/from_recording/symbols.h"

#include <elf.h>
#include <inttypes.h>
#include <stdio.h>

/* Adds the loaded segments of an ELF file of 64 bits as modules that are mapped at their own addresses. */
static bool add_segments(kt_symbols *s, const char *path)
{
    FILE *f = fopen(path, "rb");
    Elf64_Ehdr head;
    Elf64_Phdr segment;
    bool ok = f && fread(&head, sizeof head, 1, f) == 1;
    for (int i = 0; ok && i < head.e_phnum; i++) {
        ok = fseek(f, (long)(head.e_phoff + (uint64_t)i * sizeof segment), SEEK_SET) == 0 &&
             fread(&segment, sizeof segment, 1, f) == 1;
        kt_module m = {.start = segment.p_vaddr,
                       .end = segment.p_vaddr + segment.p_filesz,
                       .file_offset = segment.p_offset,
                       .path = kb_string(path)};
        if (ok && segment.p_type == PT_LOAD && segment.p_filesz)
            ok = kt_symbols_add(s, &m, NULL) == KINETO_OK;
    }
    if (f)
        fclose(f);
    return ok;
}

/* Damaged files have names with any bytes. */
static void print_text(kineto_string text)
{
    for (size_t i = 0; i < text.size; i++)
        putchar((unsigned char)text.data[i] < ' ' ? '?' : text.data[i]);
}

int main(int argc, char **argv)
{
    uint64_t address;
    kt_symbols *s;
    if (argc < 2 || kt_symbols_create(&s, NULL) || !add_segments(s, argv[1]))
        return 1;
    if (argc > 2)
        kt_symbols_limit_inlined(s, strtoull(argv[2], NULL, 10));
    while (scanf("%" SCNx64, &address) == 1) {
        kt_symbol_frames at = kt_symbol_frames_at(s, address + 1, true);
        printf("0x%" PRIx64 "\n", address);
        for (uint32_t i = 0; i < at.count; i++) {
            print_text(at.frames[i].function);
            putchar('\t');
            print_text(at.frames[i].file);
            printf("\t%u\n", at.frames[i].line);
        }
    }
    fprintf(stderr, "skipped %" PRIu64 "\n", kt_symbols_skipped_inlined(s));
    kt_symbols_destroy(s);
    return 0;
}
