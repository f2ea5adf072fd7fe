/* Reads facts files: opening scans the heads of all sections, then sections are read when they are needed. */
#include "analyze/saved/facts_file.h"
#include "analyze/ranks/rank_set.h"
#include "analyze/saved/analysis_section.h"
#include "analyze/saved/facts_read.h"
#include "analyze/saved/findings_section.h"
#include "analyze/saved/row_blocks.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/* A rank of the file, and where its blocks are. */
typedef struct stored_rank {
    uint64_t head_at, rows_at; /* heads of its sections; rows_at 0: none */
    uint32_t trace;
    bool is_read;              /* the members below are there */
    ka_row_coding coding;
    uint32_t row_count, group_count;
    KB_VEC(ka_stored_block) blocks;
    ka_facts_file *file;
} stored_rank;

typedef struct stored_trace {
    ka_facts_source source;
    uint64_t at, end; /* its sections */
    uint64_t error_at, health_at, tables_at, findings_at; /* 0: none */
    uint32_t first_rank, rank_count;
} stored_trace;

struct ka_facts_file {
    char *path;
    int fd;
    uint64_t bytes, results_at;
    ka_facts_kind kind;
    kb_arena arena;
    KB_VEC(stored_trace) traces;
    KB_VEC(stored_rank) ranks;
    KB_VEC(uint8_t) buffer, stored; /* a section, and as it is in the file */
    bool keeps_rows;                /* ka_facts_file_keep_rows */
    uint32_t cached_rank, cached_block, cached_count;
    ka_comm *cached; /* rows of the block that was decoded last; KA_BLOCK_ROWS of them, or NULL */
};

/* ---- bytes of the file ----------------------------------------------------------------------- */

static kineto_status fail_damaged(const ka_facts_file *f, const char *what, uint64_t at, kineto_error *err)
{
    return kb_fail(err, KINETO_E_FORMAT, "%s: damaged facts file: %s at byte %llu; run 'ckineto facts' again", f->path,
                   what, (unsigned long long)at);
}

static kineto_status read_bytes(ka_facts_file *f, uint64_t at, void *out, size_t size, kineto_error *err)
{
    if (f->fd < 0)
        f->fd = open(f->path, O_RDONLY | O_CLOEXEC);
    if (f->fd < 0)
        return kb_fail_os(err, errno, "cannot open %s", f->path);
    for (size_t done = 0; done < size;) {
        ssize_t got = pread(f->fd, (char *)out + done, size - done, (off_t)(at + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return kb_fail_os(err, errno, "cannot read %s", f->path);
        if (!got)
            return kb_fail(err, KINETO_E_FORMAT, "%s: the facts file is cut off after %llu bytes; run 'ckineto facts' again",
                           f->path, (unsigned long long)(at + done));
        done += (size_t)got;
    }
    return KINETO_OK;
}

/* Is the section within the file, and in reason? */
static kineto_status read_head(ka_facts_file *f, uint64_t at, ka_section_head *head, kineto_error *err)
{
    uint8_t bytes[KA_SECTION_HEAD_BYTES];
    kineto_status status = read_bytes(f, at, bytes, sizeof bytes, err);
    if (status)
        return status;
    if (!ka_read_section_head(bytes, head))
        return fail_damaged(f, "the checksum of a section head is wrong", at, err);
    if (head->stored_bytes > f->bytes - at - sizeof bytes)
        return kb_fail(err, KINETO_E_FORMAT, "%s: the facts file is cut off after %llu bytes; run 'ckineto facts' again",
                       f->path, (unsigned long long)f->bytes);
    return KINETO_OK;
}

static kineto_status unpack_section(ka_facts_file *f, const void *stored, size_t stored_bytes, size_t size, uint64_t at,
                            kineto_error *err)
{
    kineto_status status;
    if (!kb_vec_reserve(&f->buffer, size + 1))
        return kb_fail_memory(err, f->path);
    if (ka_unpack_section(stored, stored_bytes, f->buffer.data, size, &status))
        return KINETO_OK;
    return status ? kb_fail(err, status, "%s: this ckineto is built without zstd, and cannot read it", f->path)
                  : fail_damaged(f, "a section cannot be decompressed", at, err);
}

static kineto_status check_version(ka_facts_file *f, const ka_section_head *head, kineto_error *err)
{
    size_t trace = f->traces.count;
    if (head->version <= 1)
        return KINETO_OK;
    return kb_fail(err, KINETO_E_UNSUPPORTED,
                   "%s: section %.4s has version %u; this ckineto " KINETO_VERSION
                   " reads version 1: use ckineto %s or newer",
                   f->path, (const char *)&(uint32_t){head->id}, head->version,
                   trace ? f->traces.data[trace - 1].source.version.data : "that wrote it");
}

/* The content of a section, in f->buffer until the next one is read. */
static kineto_status load_section(ka_facts_file *f, uint64_t at, ka_byte_reader *out, kineto_error *err)
{
    ka_section_head head;
    kineto_status status = read_head(f, at, &head, err);
    if (!status)
        status = check_version(f, &head, err);
    if (status)
        return status;
    if (head.bytes > KA_MAX_SECTION_BYTES || head.is_compressed > 1 ||
        (!head.is_compressed && head.bytes != head.stored_bytes))
        return fail_damaged(f, "impossible section", at, err);
    if (!kb_vec_reserve(&f->stored, head.stored_bytes + 1))
        return kb_fail_memory(err, f->path);
    status = read_bytes(f, at + KA_SECTION_HEAD_BYTES, f->stored.data, head.stored_bytes, err);
    if (!status && ka_crc32c(0, f->stored.data, head.stored_bytes) != head.crc)
        status = fail_damaged(f, "the checksum of a section is wrong", at, err);
    if (!status && head.is_compressed)
        status = unpack_section(f, f->stored.data, head.stored_bytes, head.bytes, at, err);
    if (!status)
        *out = ka_read_from(head.is_compressed ? f->buffer.data : f->stored.data, head.bytes);
    return status;
}

/* After decoding: which of both went wrong? */
static kineto_status check_decoded(const ka_facts_file *f, const ka_byte_reader *r, bool ok, uint64_t at,
                                   kineto_error *err)
{
    if (r->is_bad)
        return fail_damaged(f, "a section makes no sense", at, err);
    return ok ? KINETO_OK : kb_fail_memory(err, f->path);
}

/* ---- opening --------------------------------------------------------------------------------- */

static kineto_status add_trace(ka_facts_file *f, uint64_t at, kineto_error *err)
{
    ka_byte_reader r;
    stored_trace t = {.at = at, .first_rank = (uint32_t)f->ranks.count};
    kineto_status status = load_section(f, at, &r, err);
    if (!status)
        status = check_decoded(f, &r, ka_read_source(&r, &f->arena, &t.source), at, err);
    if (!status && !kb_vec_push(&f->traces, t))
        status = kb_fail_memory(err, f->path);
    return status;
}

/* A section of the trace that began last. */
static kineto_status add_part(ka_facts_file *f, const ka_section_head *head, uint64_t at, kineto_error *err)
{
    stored_trace *t = f->traces.count ? &f->traces.data[f->traces.count - 1] : NULL;
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
    else if (head->id == KA_SECTION_RANK && (ok = kb_vec_push(&f->ranks, (stored_rank){.head_at = at})))
        t->rank_count++, f->ranks.data[f->ranks.count - 1].trace = (uint32_t)f->traces.count - 1;
    else if (head->id == KA_SECTION_ROWS && t->rank_count)
        f->ranks.data[f->ranks.count - 1].rows_at = at;
    return ok ? KINETO_OK : kb_fail_memory(err, f->path);
}

/* The end says how many sections there are: a file that was cut between two of them is found. */
static kineto_status check_end(ka_facts_file *f, uint64_t at, uint64_t count, kineto_error *err)
{
    ka_byte_reader r;
    kineto_status status = load_section(f, at, &r, err);
    if (!status && ka_read_varint(&r) != count)
        status = fail_damaged(f, "the number of sections is wrong", at, err);
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
        kineto_status status = read_head(f, at, &head, err);
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
    kineto_status status = read_bytes(f, 0, head, sizeof head, err);
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
    f->cached_rank = UINT32_MAX;
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
    free(f->cached);
    f->cached = NULL;
    f->cached_rank = UINT32_MAX;
}

void ka_facts_file_close(ka_facts_file *f)
{
    if (!f)
        return;
    ka_facts_file_rest(f);
    for (size_t i = 0; i < f->ranks.count; i++)
        kb_vec_free(&f->ranks.data[i].blocks);
    kb_vec_free(&f->ranks);
    kb_vec_free(&f->traces);
    kb_arena_free(&f->arena);
    free(f->path);
    free(f);
}

/* ---- traces ---------------------------------------------------------------------------------- */

const char *ka_facts_file_path(const ka_facts_file *f) { return f->path; }
bool ka_facts_file_is_run(const ka_facts_file *f) { return f->kind == KA_FACTS_OF_RUN; }
uint32_t ka_facts_file_trace_count(const ka_facts_file *f) { return (uint32_t)f->traces.count; }
uint32_t ka_facts_file_rank_count(const ka_facts_file *f) { return (uint32_t)f->ranks.count; }

const ka_facts_source *ka_facts_file_source(const ka_facts_file *f, uint32_t trace)
{
    return &f->traces.data[trace].source;
}

bool ka_facts_file_has_error(const ka_facts_file *f, uint32_t trace) { return f->traces.data[trace].error_at != 0; }

kineto_status ka_facts_file_error(ka_facts_file *f, uint32_t trace, kineto_error *message)
{
    ka_byte_reader r;
    const stored_trace *t = &f->traces.data[trace];
    if (!t->error_at)
        return KINETO_OK;
    kineto_status status = load_section(f, t->error_at, &r, message);
    if (status)
        return status;
    int64_t code = ka_read_signed(&r);
    kineto_string text = ka_read_text(&r);
    if (r.is_bad || code >= 0 || code < KINETO_E_PLUGIN)
        return fail_damaged(f, "a section makes no sense", t->error_at, message);
    return kb_fail(message, (kineto_status)code, "%.*s", (int)KB_MIN(text.size, (size_t)4096), text.data);
}

kineto_status ka_facts_file_health(ka_facts_file *f, uint32_t trace, ka_trace_health *out, kineto_error *err)
{
    ka_byte_reader r;
    uint64_t at = f->traces.data[trace].health_at;
    *out = (ka_trace_health){.activities = 0};
    if (!at)
        return KINETO_OK;
    kineto_status status = load_section(f, at, &r, err);
    return status ? status : check_decoded(f, &r, ka_read_health(&r, out), at, err);
}

kineto_status ka_facts_file_tables(ka_facts_file *f, uint32_t trace, ka_table_set *out, kineto_error *err)
{
    ka_byte_reader r;
    uint64_t at = f->traces.data[trace].tables_at;
    *out = 0;
    if (!at)
        return KINETO_OK;
    kineto_status status = load_section(f, at, &r, err);
    if (status)
        return status;
    *out = ka_list_saved_tables(&r);
    return check_decoded(f, &r, true, at, err);
}

static kineto_status check_loaded(const ka_facts_file *f, const kineto_analysis *a, ka_table_set loaded,
                                  kineto_error *err)
{
    ka_table_set absent = ka_wanted_tables(a) & ~loaded & ~ka_reduced_tables();
    for (uint32_t i = 0; i < KA_TABLE_COUNT; i++)
        if (absent >> i & 1)
            return kb_fail(err, KINETO_E_NOT_FOUND,
                           "%s: the facts have no table '%s'; 'ckineto facts --all' keeps all of them", f->path,
                           ka_table_name((ka_table_id)i));
    return KINETO_OK;
}

void ka_facts_file_keep_rows(ka_facts_file *f) { f->keeps_rows = true; }

/* A ka_rank_source.read: the file is not left open, as there may be thousands. */
static kineto_status read_rank_rows(void *context, uint32_t first, uint32_t count, ka_comm *out, kineto_error *err)
{
    stored_rank *rank = context;
    ka_facts_file *f = rank->file;
    kineto_status status = ka_facts_file_rows(f, (uint32_t)(rank - f->ranks.data), first, count, out, err);
    if (f->kind != KA_FACTS_OF_RUN)
        ka_facts_file_rest(f);
    return status;
}

/* Takes over `facts`, also on failure. */
static kineto_status put_source(ka_facts_file *f, uint32_t index, ka_rank_facts *facts, kineto_analysis *to, kineto_error *err)
{
    stored_rank *rank = &f->ranks.data[index];
    rank->file = f;
    const ka_rank_source source = {facts, rank->row_count, read_rank_rows, rank};
    return ka_rank_set_put_source(&to->ranks, facts, &source) ? KINETO_OK : kb_fail_memory(err, f->path);
}

static kineto_status load_ranks(ka_facts_file *f, const stored_trace *t, kineto_analysis *to, kineto_error *err)
{
    kineto_status status = KINETO_OK;
    for (uint32_t i = 0; i < t->rank_count && !status; i++) {
        ka_rank_facts *facts;
        uint32_t rank = t->first_rank + i, rows;
        status = ka_facts_file_rank(f, rank, &rows, &facts, err);
        if (!status && f->keeps_rows) {
            status = put_source(f, rank, facts, to, err);
            continue;
        }
        if (!status && !kb_vec_reserve(&facts->rows, rows))
            status = kb_fail_memory(err, f->path);
        if (!status)
            status = ka_facts_file_rows(f, rank, 0, rows, facts->rows.data, err);
        if (status) {
            ka_rank_facts_release(facts);
            return status;
        }
        facts->rows.count = rows;
        if (!ka_rank_set_put(&to->ranks, facts))
            status = kb_fail_memory(err, f->path);
    }
    return status;
}

static kineto_status load_tables(ka_facts_file *f, uint64_t at, kineto_analysis *to, ka_table_set *loaded,
                                 kineto_error *err)
{
    ka_byte_reader r;
    *loaded = 0;
    kineto_status status = at ? load_section(f, at, &r, err) : KINETO_OK;
    if (at && !status)
        status = check_decoded(f, &r, ka_read_analysis(&r, to, loaded), at, err);
    return status;
}

kineto_status ka_facts_file_load(ka_facts_file *f, uint32_t trace, kineto_analysis *to, kineto_error *err)
{
    const stored_trace *t = &f->traces.data[trace];
    ka_table_set loaded;
    kineto_status status = load_tables(f, t->tables_at, to, &loaded, err);
    if (!status)
        status = check_loaded(f, to, loaded, err);
    return status || !to->tables[KA_TABLE_rank_marks].wanted ? status : load_ranks(f, t, to, err);
}

kineto_status ka_facts_file_load_results(ka_facts_file *f, kineto_analysis *to, kineto_error *err)
{
    ka_table_set loaded;
    return load_tables(f, f->results_at, to, &loaded, err);
}

bool ka_facts_file_has_results(const ka_facts_file *f) { return f->results_at != 0; }

/* ---- findings -------------------------------------------------------------------------------- */

/* @param repeated_steps  receives kineto_overview.repeated_steps; may be NULL. */
static kineto_status read_findings(ka_facts_file *f, uint64_t at, kineto_findings *out, char *repeated_steps,
                                   size_t size, kineto_error *err)
{
    ka_byte_reader r;
    kineto_string text;
    kineto_status status = at ? load_section(f, at, &r, err)
                              : kb_fail(err, KINETO_E_NOT_FOUND,
                                        "%s: the facts have no findings; 'ckineto facts --findings' keeps them", f->path);
    if (status)
        return status;
    for (uint32_t i = 0; i < KA_FIND_COUNT; i++)
        out->verdicts[i] = (ka_verdict){KINETO_RULE_NOT_SELECTED, {"", 0}};
    status = check_decoded(f, &r, ka_read_findings(&r, out, &text), at, err);
    if (!status && repeated_steps)
        snprintf(repeated_steps, size, "%.*s", (int)KB_MIN(text.size, size - 1), text.data);
    return status;
}

static kineto_status load_findings(ka_facts_file *f, uint32_t trace, kineto_findings *out, char *repeated_steps,
                                   size_t size, kineto_error *err)
{
    kineto_status status = read_findings(f, f->traces.data[trace].findings_at, out, repeated_steps, size, err);
    if (!status)
        status = ka_findings_create_across(&out->across, err);
    return status ? status : ka_facts_file_load(f, trace, out->across, err);
}

kineto_status ka_facts_file_findings(ka_facts_file *f, uint32_t trace, ka_rule_set rules, kineto_findings **out,
                                     kineto_error *err)
{
    kineto_findings *found = calloc(1, sizeof *found);
    *out = NULL;
    if (!found)
        return kb_fail_memory(err, f->path);
    found->chosen = rules;
    kineto_status status = load_findings(f, trace, found, NULL, 0, err);
    if (status)
        kineto_findings_destroy(found);
    else
        *out = found;
    return status;
}

static ka_table_set list_overview_tables(void)
{
    const ka_section_spec *spec;
    ka_table_set set = ka_findings_tables(UINT64_MAX) | KA_TABLE_BIT(KA_TABLE_steps) | KA_TABLE_BIT(KA_TABLE_memory);
    for (uint32_t i = 0; (spec = ka_section_spec_of(i)) != NULL; i++)
        set |= KA_TABLE_BIT(spec->source);
    return set;
}

static kineto_status load_overview(ka_facts_file *f, uint32_t trace, ka_table_set tables, kineto_overview *o,
                                   kineto_error *err)
{
    ka_trace_health health;
    const kineto_analysis_options usual = {.size = sizeof usual};
    o->found = calloc(1, sizeof *o->found);
    if (!o->found)
        return kb_fail_memory(err, f->path);
    o->found->chosen = UINT64_MAX;
    kineto_status status =
        load_findings(f, trace, o->found, o->repeated_steps, sizeof o->repeated_steps, err);
    if (!status)
        status = ka_facts_create_for(&usual, tables | list_overview_tables(), &o->facts, err);
    if (!status)
        status = ka_facts_file_load(f, trace, o->facts, err);
    if (status)
        return status;
    status = ka_facts_file_health(f, trace, &health, err);
    if (!status && !ka_coverage_merge(&o->coverage, &health.coverage))
        status = kb_fail_memory(err, f->path);
    ka_trace_health_free(&health);
    return status;
}

kineto_status ka_facts_file_overview(ka_facts_file *f, uint32_t trace, ka_table_set tables, kineto_overview **out,
                                     kineto_error *err)
{
    kineto_overview *o = calloc(1, sizeof *o);
    *out = NULL;
    kineto_status status = o ? load_overview(f, trace, tables, o, err) : kb_fail_memory(err, f->path);
    if (status)
        kineto_overview_destroy(o);
    else
        *out = o;
    return status;
}

/* ---- ranks ----------------------------------------------------------------------------------- */

static bool read_groups(ka_byte_reader *r, ka_rank_facts *out)
{
    enum { MIN_GROUP_BYTES = 12 };
    uint64_t texts = ka_read_count(r, 1);
    for (uint64_t i = 0; i < texts && !r->is_bad; i++)
        if (kb_intern_id(&out->texts, ka_read_text(r)) == KB_INTERN_NONE)
            return false;
    r->is_bad |= out->texts.strings.count != texts;
    uint64_t groups = ka_read_count(r, MIN_GROUP_BYTES);
    for (uint64_t i = 0; i < groups && !r->is_bad; i++) {
        ka_comm_group g = {.id = ka_read_fixed(r, 8)};
        g.name = (uint32_t)ka_read_varint(r);
        g.description = (uint32_t)ka_read_varint(r);
        g.members = (uint32_t)ka_read_varint(r);
        g.size = (uint32_t)ka_read_varint(r);
        r->is_bad |= g.name >= texts || g.description >= texts || g.members >= texts;
        if (!kb_vec_push(&out->groups, g))
            return false;
    }
    return true;
}

static bool read_rank_head(ka_byte_reader *r, ka_rank_facts *out)
{
    int64_t rank = ka_read_signed(r), world = ka_read_signed(r);
    out->rank = (int32_t)rank;
    out->world_size = (int32_t)world;
    out->host = (uint32_t)ka_read_varint(r);
    out->start_ns = ka_read_signed(r);
    out->end_ns = ka_read_signed(r);
    out->begin_ns = ka_read_signed(r);
    out->latency_ns = ka_read_signed(r);
    out->step_count = (uint32_t)ka_read_varint(r);
    r->is_bad |= rank < -1 || rank > INT32_MAX || world < 0 || world > INT32_MAX || out->latency_ns < 0;
    if (!read_groups(r, out))
        return false;
    r->is_bad |= out->host >= KB_MAX(out->texts.strings.count, (size_t)1);
    return true;
}

/* Where the blocks are, in the section of the rows. */
static bool read_blocks(ka_byte_reader *r, stored_rank *rank)
{
    enum { MIN_BLOCK_BYTES = 6 };
    uint64_t rows = ka_read_varint(r), block_rows = ka_read_varint(r), at = 0;
    uint64_t blocks = (rows + KA_BLOCK_ROWS - 1) / KA_BLOCK_ROWS;
    r->is_bad |= block_rows != KA_BLOCK_ROWS || !rows || rows > INT32_MAX ||
                 blocks > (size_t)(r->end - r->at) / MIN_BLOCK_BYTES;
    rank->row_count = (uint32_t)rows;
    rank->blocks.count = 0;
    for (uint64_t i = 0; i < blocks && !r->is_bad; i++) {
        ka_stored_block b = {.at = at, .stored_bytes = (uint32_t)ka_read_varint(r)};
        b.bytes = (uint32_t)ka_read_varint(r);
        b.crc = (uint32_t)ka_read_fixed(r, 4);
        at += b.stored_bytes;
        r->is_bad |= b.bytes > KA_MAX_BLOCK_BYTES || b.stored_bytes > KA_MAX_BLOCK_BYTES ||
                     b.stored_bytes < KA_MIN_BLOCK_BYTES;
        if (!kb_vec_push(&rank->blocks, b))
            return false;
    }
    return true;
}

/* Files before this was known end here, or before the device. */
static void read_rank_kind(ka_byte_reader *r, ka_rank_facts *out)
{
    out->device = -1;
    if (r->is_bad || r->at == r->end)
        return;
    uint64_t kind = ka_read_varint(r), unmatched = ka_read_varint(r);
    out->on_host = kind & KA_RANK_ON_HOST;
    out->is_dump = kind & KA_RANK_IS_DUMP;
    out->unmatched = (uint8_t)unmatched;
    r->is_bad |= unmatched > UINT8_MAX;
    if (!r->is_bad && r->at < r->end)
        out->device = (int64_t)ka_read_varint(r) - 1;
    r->is_bad |= out->device < -1;
}

/* Do the blocks fill the section of the rows? */
static kineto_status check_rows_section(ka_facts_file *f, const stored_rank *rank, kineto_error *err)
{
    ka_section_head head;
    const ka_stored_block *last = &rank->blocks.data[rank->blocks.count - 1];
    if (!rank->rows_at)
        return fail_damaged(f, "a rank without rows", rank->head_at, err);
    kineto_status status = read_head(f, rank->rows_at, &head, err);
    if (!status)
        status = check_version(f, &head, err);
    if (!status && (head.is_compressed || last->at + last->stored_bytes != head.stored_bytes))
        status = fail_damaged(f, "rows outside of their section", rank->head_at, err);
    return status;
}

kineto_status ka_facts_file_rank(ka_facts_file *f, uint32_t rank_index, uint32_t *row_count, ka_rank_facts **out,
                                 kineto_error *err)
{
    stored_rank *rank = &f->ranks.data[rank_index];
    ka_byte_reader r;
    *out = NULL;
    kineto_status status = load_section(f, rank->head_at, &r, err);
    if (status)
        return status;
    ka_rank_facts *facts = calloc(1, sizeof *facts);
    if (!facts)
        return kb_fail_memory(err, f->path);
    atomic_init(&facts->references, 1);
    bool ok = read_rank_head(&r, facts) && read_blocks(&r, rank);
    read_rank_kind(&r, facts);
    status = check_decoded(f, &r, ok, rank->head_at, err);
    if (!status)
        status = check_rows_section(f, rank, err);
    if (status) {
        ka_rank_facts_release(facts);
        return status;
    }
    rank->is_read = true;
    rank->coding = (ka_row_coding){facts->latency_ns, facts->on_host};
    rank->group_count = (uint32_t)facts->groups.count;
    *row_count = rank->row_count;
    *out = facts;
    return KINETO_OK;
}

/* Where the blocks of a rank are is read once. */
static kineto_status find_blocks(ka_facts_file *f, uint32_t rank_index, kineto_error *err)
{
    ka_rank_facts *facts = NULL;
    uint32_t rows;
    kineto_status status =
        f->ranks.data[rank_index].is_read ? KINETO_OK : ka_facts_file_rank(f, rank_index, &rows, &facts, err);
    ka_rank_facts_release(facts);
    return status;
}

/* Rows name others of the rank, and groups that it has, or none; the last one is the end, and no other. */
static bool are_rows_sound(const stored_rank *rank, uint32_t first, uint32_t count, const ka_comm *rows)
{
    for (uint32_t i = 0; i < count; i++) {
        const ka_comm *c = &rows[i];
        int64_t at = (int64_t)first + i;
        bool is_last = at == (int64_t)rank->row_count - 1, has_group = c->group < rank->group_count || c->group == KA_NONE;
        bool is_back = c->previous >= KA_NO_COMM && c->previous < at && c->after >= KA_NO_COMM && c->after < at &&
                       c->sync_row >= KA_NO_COMM && c->sync_row < at;
        bool waits = c->wait_row == KA_NO_COMM || (c->wait_row > at && c->wait_row < (int64_t)rank->row_count);
        if (!is_back || !waits || c->op >= KA_OP_COUNT || (c->flags & KA_COMM_LAST ? !is_last : !has_group))
            return false;
    }
    return true;
}

/* The bytes of a block, decompressed, in a buffer of the file. */
static kineto_status read_block(ka_facts_file *f, const stored_rank *rank, const ka_stored_block *b,
                                const uint8_t **bytes, kineto_error *err)
{
    uint64_t at = rank->rows_at + KA_SECTION_HEAD_BYTES + b->at;
    if (!kb_vec_reserve(&f->stored, b->stored_bytes + 1))
        return kb_fail_memory(err, f->path);
    kineto_status status = read_bytes(f, at, f->stored.data, b->stored_bytes, err);
    if (!status && ka_crc32c(0, f->stored.data, b->stored_bytes) != b->crc)
        status = fail_damaged(f, "the checksum of rows is wrong", at, err);
    if (!status && b->bytes)
        status = unpack_section(f, f->stored.data, b->stored_bytes, b->bytes, at, err);
    *bytes = b->bytes ? f->buffer.data : f->stored.data;
    return status;
}

static kineto_status load_block(ka_facts_file *f, uint32_t rank_index, uint32_t index, kineto_error *err)
{
    const stored_rank *rank = &f->ranks.data[rank_index];
    const ka_stored_block *b = &rank->blocks.data[index];
    uint32_t first = index * KA_BLOCK_ROWS, count = KB_MIN(rank->row_count - first, KA_BLOCK_ROWS);
    const uint8_t *bytes = NULL;
    f->cached_rank = UINT32_MAX;
    f->cached = f->cached ? f->cached : malloc(KA_BLOCK_ROWS * sizeof *f->cached);
    if (!f->cached)
        return kb_fail_memory(err, f->path);
    kineto_status status = read_block(f, rank, b, &bytes, err);
    if (status)
        return status;
    if (!ka_decode_rows(bytes, b->bytes ? b->bytes : b->stored_bytes, rank->coding, first, count, f->cached) ||
        !are_rows_sound(rank, first, count, f->cached))
        return fail_damaged(f, "rows make no sense", rank->rows_at, err);
    f->cached_rank = rank_index;
    f->cached_block = index;
    f->cached_count = count;
    return KINETO_OK;
}

kineto_status ka_facts_file_rows(ka_facts_file *f, uint32_t rank_index, uint32_t first, uint32_t count, ka_comm *out,
                                 kineto_error *err)
{
    if (rank_index >= f->ranks.count)
        return kb_fail(err, KINETO_E_ARGUMENT, "%s: there is no rank %u", f->path, rank_index);
    kineto_status status = find_blocks(f, rank_index, err);
    if (status)
        return status;
    uint32_t rows = f->ranks.data[rank_index].row_count;
    if (first > rows || count > rows - first)
        return kb_fail(err, KINETO_E_ARGUMENT, "%s: rank %u has %u rows", f->path, rank_index, rows);
    for (uint32_t done = 0; done < count;) {
        uint32_t row = first + done, block = row / KA_BLOCK_ROWS, in = row % KA_BLOCK_ROWS;
        if (f->cached_rank != rank_index || f->cached_block != block)
            status = load_block(f, rank_index, block, err);
        if (status)
            return status;
        uint32_t n = KB_MIN(count - done, f->cached_count - in);
        memcpy(out + done, f->cached + in, n * sizeof *out);
        done += n;
    }
    return KINETO_OK;
}

/* ---- for those who join files ------------------------------------------------------------------ */

kineto_status ka_facts_file_row_count(ka_facts_file *f, uint32_t trace, uint64_t *rows, kineto_error *err)
{
    const stored_trace *t = &f->traces.data[trace];
    kineto_status status = KINETO_OK;
    *rows = 0;
    for (uint32_t i = 0; i < t->rank_count && !status; i++) {
        status = find_blocks(f, t->first_rank + i, err);
        *rows += status ? 0 : f->ranks.data[t->first_rank + i].row_count;
    }
    return status;
}

/* The content of a section as it is in the file. @param to  NULL: only its checksum is compared. */
static kineto_status copy_content(ka_facts_file *f, uint64_t at, const ka_section_head *head, kb_sink *to,
                                  kineto_error *err)
{
    enum { PIECE_BYTES = 1 << 16 };
    uint64_t left = head->stored_bytes;
    uint32_t crc = 0;
    if (!kb_vec_reserve(&f->stored, PIECE_BYTES))
        return kb_fail_memory(err, f->path);
    while (left) {
        size_t piece = (size_t)KB_MIN(left, (uint64_t)PIECE_BYTES);
        kineto_status status = read_bytes(f, at, f->stored.data, piece, err);
        if (status)
            return status;
        crc = ka_crc32c(crc, f->stored.data, piece);
        if (to)
            kb_sink_write(to, f->stored.data, piece);
        at += piece;
        left -= piece;
    }
    return crc == head->crc ? KINETO_OK : fail_damaged(f, "the checksum of a section is wrong", at, err);
}

kineto_status ka_facts_file_copy(ka_facts_file *f, uint32_t trace, ka_section_writer *to, kineto_error *err)
{
    const stored_trace *t = &f->traces.data[trace];
    kineto_status status = KINETO_OK;
    for (uint64_t at = t->at; at < t->end && !status; to->count++) {
        ka_section_head head;
        uint8_t bytes[KA_SECTION_HEAD_BYTES];
        status = read_head(f, at, &head, err);
        if (!status)
            status = read_bytes(f, at, bytes, sizeof bytes, err);
        if (status)
            return status;
        kb_sink_write(to->sink, bytes, sizeof bytes);
        status = copy_content(f, at + sizeof bytes, &head, to->sink, err);
        at += sizeof bytes + head.stored_bytes;
    }
    return status;
}

kineto_status ka_facts_file_digest(ka_facts_file *f, uint32_t trace, uint32_t *digest, kineto_error *err)
{
    const stored_trace *t = &f->traces.data[trace];
    kineto_status status = KINETO_OK;
    *digest = 0;
    for (uint64_t at = t->at; at < t->end && !status;) {
        ka_section_head head;
        status = read_head(f, at, &head, err);
        if (status)
            return status;
        *digest = ka_crc32c(*digest, &head.crc, sizeof head.crc);
        at += KA_SECTION_HEAD_BYTES + head.stored_bytes;
    }
    return status;
}

kineto_status ka_facts_file_check(ka_facts_file *f, kineto_error *err)
{
    uint64_t at = KA_FILE_HEAD_BYTES;
    for (;;) {
        ka_section_head head;
        kineto_status status = read_head(f, at, &head, err);
        if (!status)
            status = copy_content(f, at + KA_SECTION_HEAD_BYTES, &head, NULL, err);
        if (status || head.id == KA_SECTION_END)
            return status;
        at += KA_SECTION_HEAD_BYTES + head.stored_bytes;
    }
}
