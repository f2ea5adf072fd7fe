/* A spool with anything in it, read as `ckineto recover` reads it: refused with a word, or a sound
 * trace.
 *
 * The first byte counts triples {offset, value} that change the spool's head and control page; the
 * rest are frames as they lie in the file. */
#include "read.h"
#include "session/session.h"

#include <string.h>
#include <unistd.h>

#define FRONT_BYTES (sizeof(kf_spool_header) + 2 * (sizeof(kf_frame) + sizeof(kf_control)))
#define TICKS       UINT64_C(1000000000000)

static void put_control(kf_control *c)
{
    for (uint32_t i = 0; i < 2; i++) {
        int64_t ns = (int64_t)i * 1000000000;
        c->snapshots[i] = (kb_clock_snapshot){.ticks = TICKS + (uint64_t)ns,
                                              .monotonic_ns = ns,
                                              .monotonic_raw_ns = ns,
                                              .boottime_ns = ns,
                                              .realtime_ns = INT64_C(1700000000000000000) + ns};
    }
    c->snapshot_count = 2;
    c->magic = KF_MAGIC;
}

static void put_front(uint8_t *at)
{
    static kf_control control;
    const kf_spool_header header = {.magic = KF_SPOOL_MAGIC,
                                    .version = KF_VERSION,
                                    .header_bytes = (uint32_t)sizeof header,
                                    .control_bytes = (uint32_t)sizeof(kf_control),
                                    .chunk_bytes = KF_CHUNK_BYTES,
                                    .dictionary_bytes = 1u << 16};
    put_control(&control);
    memcpy(at, &header, sizeof header);
    at += sizeof header;
    for (uint32_t i = 0; i < 2; i++) {
        const kf_frame frame = {KF_FRAME_CONTROL, (uint32_t)sizeof control, 0, i};
        memcpy(at, &frame, sizeof frame);
        memcpy(at + sizeof frame, &control, sizeof control);
        at += sizeof frame + sizeof control;
    }
}

static char path_of_spool[64];
static void remove_spool(void) { (void)unlink(path_of_spool); }

/* A file of its own: spools are not opened through symbolic links. */
static const char *spool_file(const void *data, size_t size)
{
    static int fd = -1;
    if (fd < 0) {
        snprintf(path_of_spool, sizeof path_of_spool, "%s/fuzz-spool-XXXXXX",
                 access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
        fd = mkstemp(path_of_spool);
        (void)atexit(remove_spool);
    }
    fuzz_check(ftruncate(fd, 0) == 0 && pwrite(fd, data, size, 0) == (ssize_t)size,
               "no room for a file");
    return path_of_spool;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t changes = size ? KB_MIN((size_t)data[0], (size - 1) / 3) : 0;
    if (size < 1)
        return 0;
    const uint8_t *frames = data + 1 + 3 * changes;
    size_t frame_bytes = size - 1 - 3 * changes;
    uint8_t *spool = malloc(FRONT_BYTES + frame_bytes);
    if (!spool)
        return 0;
    put_front(spool);
    memcpy(spool + FRONT_BYTES, frames, frame_bytes);
    for (size_t i = 0; i < changes; i++)
        spool[(data[1 + 3 * i] | (size_t)data[2 + 3 * i] << 8) % FRONT_BYTES] = data[3 + 3 * i];
    memset(((kf_spool_header *)(void *)spool)->pool_path, 0, 1024); /* no files but this one */
    ks_orphan what;
    kineto_trace *trace = NULL;
    kineto_error err = {.message = ""};
    const char *path = spool_file(spool, FRONT_BYTES + frame_bytes);
    kineto_status status = ks_recover(path, true, &what, &trace, &err);
    fuzz_check((status == KINETO_OK) == (trace != NULL), "status and trace do not agree");
    fuzz_check(trace || err.message[0], "refused without a word");
    if (trace)
        fuzz_visit(trace);
    kineto_trace_release(trace);
    free(spool);
    return 0;
}
