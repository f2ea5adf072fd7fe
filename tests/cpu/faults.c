/* Touches memory in ways that test_faults.py knows: new pages, the same pages again, and those of a file that is not
 * in memory. Prints the faults of each by getrusage(2). Arguments: pages, a file. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static volatile char sink;

__attribute__((noinline)) static void touch_new_pages(char *memory, size_t pages, size_t page)
{
    for (size_t i = 0; i < pages; i++)
        memory[i * page] = 1;
}

__attribute__((noinline)) static void touch_old_pages(char *memory, size_t pages, size_t page)
{
    for (size_t i = 0; i < pages; i++)
        memory[i * page] = (char)(memory[i * page] + 2);
}

__attribute__((noinline)) static void read_file_pages(const char *memory, size_t pages, size_t page)
{
    for (size_t i = 0; i < pages; i++)
        sink = memory[i * page];
}

/* Maps a file without what the kernel keeps of it, as far as it lets go. */
static char *map_file(const char *path, size_t *bytes)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) != 0)
        exit(1);
    *bytes = (size_t)st.st_size;
    (void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    char *memory = mmap(NULL, *bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (memory == MAP_FAILED || madvise(memory, *bytes, MADV_RANDOM) != 0)
        exit(1);
    return memory;
}

static void print_faults(const char *function, const struct rusage *before)
{
    struct rusage now;
    getrusage(RUSAGE_SELF, &now);
    printf("%s %ld %ld\n", function, now.ru_minflt - before->ru_minflt, now.ru_majflt - before->ru_majflt);
}

int main(int argc, char **argv)
{
    struct rusage before;
    size_t page = (size_t)sysconf(_SC_PAGESIZE), pages = argc > 1 ? strtoul(argv[1], NULL, 10) : 4096, bytes;
    char *memory = mmap(NULL, pages * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return 1;
    (void)madvise(memory, pages * page, MADV_NOHUGEPAGE);
    getrusage(RUSAGE_SELF, &before);
    touch_new_pages(memory, pages, page);
    print_faults("touch_new_pages", &before);
    getrusage(RUSAGE_SELF, &before);
    touch_old_pages(memory, pages, page);
    print_faults("touch_old_pages", &before);
    if (argc > 2) {
        char *file = map_file(argv[2], &bytes);
        getrusage(RUSAGE_SELF, &before);
        read_file_pages(file, bytes / page, page);
        print_faults("read_file_pages", &before);
    }
    return 0;
}
