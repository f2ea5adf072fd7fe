/* Runs a fuzz target without a fuzzer: every file that is named (or lies in a directory that is
 * named), then changed copies of it, the same ones in every run. fuzz_X [--mutations N] PATH… */
#include "recording.h"

#include <dirent.h>
#include <sys/stat.h>

static uint64_t seed = 1;

static uint64_t next_random(void)
{
    uint64_t z = (seed += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* Flip a bit, set a byte or a word, copy a piece over another, or cut the end off. */
static size_t change(uint8_t *data, size_t size)
{
    static const uint64_t words[] = {0, 1, UINT32_MAX, UINT64_MAX, UINT64_C(1) << 63, 0x3ff << 6};
    size_t at = next_random() % size, n = next_random() % 64, to = next_random() % size;
    switch (next_random() % 8) {
    case 0:
        data[at] = (uint8_t)next_random();
        break;
    case 1:
        if (at / 8 * 8 + 8 <= size)
            memcpy(data + at / 8 * 8, &words[next_random() % KB_COUNT(words)], 8);
        break;
    case 2:
        memmove(data + to, data + at, KB_MIN(n, size - KB_MAX(at, to)));
        break;
    case 3:
        return next_random() % 16 ? size : at + 1;
    default:
        data[at] ^= (uint8_t)(1u << next_random() % 8);
    }
    return size;
}

static void run_changed(const uint8_t *data, size_t size, int mutations)
{
    uint8_t *copy = malloc(size);
    for (int i = 0; copy && i < mutations; i++) {
        size_t n = size;
        memcpy(copy, data, size);
        for (uint64_t k = next_random() % 6; k < 6; k++)
            n = change(copy, n);
        (void)LLVMFuzzerTestOneInput(copy, n);
    }
    free(copy);
}

static int run_file(const char *path, int mutations)
{
    struct stat st;
    FILE *f = fopen(path, "rb");
    if (!f || fstat(fileno(f), &st) != 0) {
        perror(path);
        return 1;
    }
    size_t size = (size_t)st.st_size;
    uint8_t *data = malloc(size + 1);
    bool whole = data && fread(data, 1, size, f) == size;
    fclose(f);
    if (whole) {
        (void)LLVMFuzzerTestOneInput(data, size);
        if (size)
            run_changed(data, size, mutations);
    }
    free(data);
    return !whole;
}

static int run_path(const char *path, int mutations)
{
    struct dirent **names;
    int n = scandir(path, &names, NULL, alphasort), failed = 0;
    if (n < 0)
        return run_file(path, mutations);
    for (int i = 0; i < n; i++) {
        char file[4096];
        snprintf(file, sizeof file, "%s/%s", path, names[i]->d_name);
        if (names[i]->d_name[0] != '.')
            failed |= run_path(file, mutations);
        free(names[i]);
    }
    free(names);
    return failed;
}

int main(int argc, char **argv)
{
    int mutations = 0, failed = 0;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--mutations") == 0 && i + 1 < argc)
            mutations = atoi(argv[++i]);
        else
            failed |= run_path(argv[i], mutations);
    }
    return failed;
}
