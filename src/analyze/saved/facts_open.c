/* Opens facts files: scans the heads of all sections, so that each can be read when it is needed. */
#include "analyze/saved/facts_sections.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct added_trace {
    kb_arena *arena;
    ka_stored_trace trace;
} added_trace;

static bool decode_source(ka_byte_reader *r, void *context)
{
    added_trace *added = context;
    return ka_read_source(r, added->arena, &added->trace.source);
}

static kineto_status add_trace(ka_facts_file *f, uint64_t at, kineto_error *err)
{
    added_trace added = {&f->arena, {.at = at, .first_rank = (uint32_t)f->ranks.count}};
    kineto_status status = ka_decode_section(f, at, decode_source, &added, err);
    if (!status && !kb_vec_push(&f->traces, added.trace))
        status = kb_fail_memory(err, f->path);
    return status;
}

/* A section of the trace that began last. */
static kineto_status add_part(ka_facts_file *f, const ka_section_head *head, uint64_t at, kineto_error *err)
{
    ka_stored_trace *t = f->traces.count ? &f->traces.data[f->traces.count - 1] : NULL;
    bool ok = true;
    if (head->id == KA_SECTION_RESULTS)
        f->results_at = at;
    else if (!t)
        return KINETO_OK;
    else if (head->id == KA_SECTION_ERROR)
        t->error_at = at;
    else if (head->id == KA_SECTION_HEALTH)
        t->health_at = at;
    else if (head->id == KA_SECTION_TABLES)
        t->tables_at = at;
    else if (head->id == KA_SECTION_FINDINGS)
        t->findings_at = at;
    else if (head->id == KA_SECTION_RANK && (ok = kb_vec_push(&f->ranks, (ka_stored_rank){.head_at = at})))
        t->rank_count++, f->ranks.data[f->ranks.count - 1].trace = (uint32_t)f->traces.count - 1;
    else if (head->id == KA_SECTION_ROWS && t->rank_count)
        f->ranks.data[f->ranks.count - 1].rows_at = at;
    return ok ? KINETO_OK : kb_fail_memory(err, f->path);
}

static bool decode_count(ka_byte_reader *r, void *count)
{
    *(uint64_t *)count = ka_read_varint(r);
    return true;
}

/* The end says how many sections there are: a file that was cut between two of them is found. */
static kineto_status check_end(ka_facts_file *f, uint64_t at, uint64_t count, kineto_error *err)
{
    uint64_t stored = 0;
    kineto_status status = ka_decode_section(f, at, decode_count, &stored, err);
    if (!status && stored != count)
        status = ka_fail_damaged(f, "the number of sections is wrong", at, err);
    return status;
}

static void end_trace(ka_facts_file *f, uint64_t at)
{
    if (f->traces.count && !f->traces.data[f->traces.count - 1].end)
        f->traces.data[f->traces.count - 1].end = at;
}

static kineto_status scan_sections(ka_facts_file *f, kineto_error *err)
{
    uint64_t at = KA_FILE_HEAD_BYTES, count = 0;
    for (;; count++) {
        ka_section_head head;
        kineto_status status = ka_read_head_at(f, at, &head, err);
        if (status)
            return status;
        bool ends_trace = head.id == KA_SECTION_SOURCE || head.id == KA_SECTION_RESULTS || head.id == KA_SECTION_END;
        if (ends_trace)
            end_trace(f, at);
        if (head.id == KA_SECTION_END)
            return check_end(f, at, count, err);
        status = head.id == KA_SECTION_SOURCE ? add_trace(f, at, err) : add_part(f, &head, at, err);
        if (status)
            return status;
        at += KA_SECTION_HEAD_BYTES + head.stored_bytes;
    }
}

bool ka_is_facts_file(const char *path)
{
    struct stat st;
    uint8_t head[KA_FILE_HEAD_BYTES];
    if (stat(path, &st) != 0 || !S_ISREG(st.st_mode))
        return false;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : read(fd, head, sizeof head);
    if (fd >= 0)
        close(fd);
    return got > 0 && ka_has_facts_magic(head, (size_t)got);
}

static kineto_status open_file(ka_facts_file *f, kineto_error *err)
{
    struct stat st;
    uint8_t head[KA_FILE_HEAD_BYTES];
    f->fd = open(f->path, O_RDONLY | O_CLOEXEC);
    if (f->fd < 0 || fstat(f->fd, &st) != 0)
        return kb_fail_os(err, errno, "cannot open %s", f->path);
    f->bytes = (uint64_t)st.st_size;
    kineto_status status = ka_read_file_bytes(f, 0, head, sizeof head, err);
    if (!status)
        status = ka_read_file_head(head, f->path, &f->kind, err);
    return status ? status : scan_sections(f, err);
}

kineto_status ka_facts_file_open(const char *path, ka_facts_file **out, kineto_error *err)
{
    ka_facts_file *f = calloc(1, sizeof *f);
    *out = NULL;
    if (!f)
        return kb_fail_memory(err, path);
    f->fd = -1;
    f->path = strdup(path);
    kineto_status status = f->path ? open_file(f, err) : kb_fail_memory(err, path);
    if (status)
        ka_facts_file_close(f);
    else
        *out = f;
    return status;
}

void ka_facts_file_rest(ka_facts_file *f)
{
    if (f->fd >= 0)
        close(f->fd);
    f->fd = -1;
    kb_vec_free(&f->buffer);
    kb_vec_free(&f->stored);
    if (f->keeps_rows)
        return;
    ka_row_reader_destroy(f->reader);
    f->reader = NULL;
}

void ka_facts_file_close(ka_facts_file *f)
{
    if (!f)
        return;
    ka_facts_file_rest(f);
    ka_forget_rows(f);
    for (size_t i = 0; i < f->ranks.count; i++)
        kb_vec_free(&f->ranks.data[i].blocks);
    kb_vec_free(&f->ranks);
    kb_vec_free(&f->traces);
    kb_arena_free(&f->arena);
    free(f->path);
    free(f);
}
