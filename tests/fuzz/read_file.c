/* Bytes as files, without a disk. */
#include "read.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

void fuzz_check(bool right, const char *what)
{
    if (right)
        return;
    fprintf(stderr, "fuzz: %s\n", what);
    abort();
}

const char *fuzz_file(unsigned file, const void *data, size_t size)
{
    static char paths[FUZZ_FILES][64];
    static int fds[FUZZ_FILES];
    if (!fds[file]) {
        fds[file] = memfd_create("fuzz", MFD_CLOEXEC);
        fuzz_check(fds[file] > 0, "no memory for a file");
        snprintf(paths[file], sizeof paths[file], "/proc/self/fd/%d", fds[file]);
    }
    bool put = ftruncate(fds[file], 0) == 0 &&
               (!size || pwrite(fds[file], data, size, 0) == (ssize_t)size);
    fuzz_check(put, "no memory for a file");
    return paths[file];
}

kineto_trace *fuzz_open(const char *path, uint32_t threads, bool strict, kineto_error *err)
{
    kineto_open_options options = {.size = sizeof options, .threads = threads, .strict = strict};
    kineto_trace *trace = NULL;
    *err = (kineto_error){.message = ""};
    kineto_status status = kineto_trace_open_with(path, &options, &trace, err);
    fuzz_check((status == KINETO_OK) == (trace != NULL), "status and trace do not agree");
    if (!trace) {
        fuzz_check(err->message[0], "refused without a word");
        fuzz_check(status == KINETO_E_FORMAT || status == KINETO_E_LIMIT ||
                       status == KINETO_E_UNSUPPORTED,
                   err->message);
    }
    return trace;
}
