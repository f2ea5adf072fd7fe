/* Facts files: any bytes are refused with a reason, or read. The first byte says what the others are: a file; a file
 * whose checksums are put right, so that what is after them is reached; or the content of a section. */
#include "analyze/saved/analysis_section.h"
#include "analyze/saved/facts_file.h"
#include "analyze/saved/findings_section.h"
#include "analyze/saved/row_blocks.h"
#include "read.h"

static void put_checksum(uint8_t *at, uint32_t crc)
{
    for (int i = 0; i < 4; i++)
        at[i] = (uint8_t)(crc >> 8 * i);
}

static void repair_checksums(uint8_t *data, size_t size)
{
    size_t at = KA_FILE_HEAD_BYTES;
    if (size >= at)
        put_checksum(data + at - 4, ka_crc32c(0, data, at - 4));
    while (size - at >= KA_SECTION_HEAD_BYTES && at <= size) {
        ka_section_head head;
        (void)ka_read_section_head(data + at, &head);
        size_t left = size - at - KA_SECTION_HEAD_BYTES;
        if (head.stored_bytes > left)
            return;
        put_checksum(data + at + 24, ka_crc32c(0, data + at + KA_SECTION_HEAD_BYTES, head.stored_bytes));
        put_checksum(data + at + 28, ka_crc32c(0, data + at, KA_SECTION_HEAD_BYTES - 4));
        at += KA_SECTION_HEAD_BYTES + head.stored_bytes;
    }
}

static void read_file(const uint8_t *data, size_t size)
{
    const char *path = fuzz_file(FUZZ_IN, data, size);
    ka_facts_set *set = NULL;
    kineto_analysis *a = NULL;
    kineto_overview *o = NULL;
    kineto_survey *survey = NULL;
    ka_coverage coverage = {.rank_count = 0};
    kineto_error err = {.message = ""};
    const kineto_analysis_options usual = {.size = sizeof usual, .tables = "rank_causes,rank_clocks,rank_damage,steps"};
    if (ka_facts_set_open(&path, 1, &set, &err))
        return;
    if (ka_facts_set_analyze(set, &usual, 0, &a, &err))
        fuzz_check(err.message[0] != '\0', "refused without a word");
    (void)ka_facts_set_overview(set, 0, &o, &err);
    if (!ka_facts_set_survey(set, &survey, &err))
        (void)ka_facts_set_coverage(set, survey, &coverage, &err);
    kineto_analysis_destroy(a);
    kineto_overview_destroy(o);
    kineto_survey_destroy(survey);
    ka_coverage_free(&coverage);
    ka_facts_set_destroy(set);
}

static void read_rows(const uint8_t *data, size_t size)
{
    static ka_comm rows[KA_BLOCK_ROWS];
    for (uint32_t count = 1; count <= KA_BLOCK_ROWS; count += 51)
        (void)ka_decode_rows(data, size, (ka_row_coding){5, count % 2}, 0, count, rows);
}

static void read_sections(const uint8_t *data, size_t size)
{
    ka_byte_reader r = ka_read_from(data, size);
    ka_trace_health health;
    kb_arena arena = {.head = NULL};
    ka_facts_source source;
    (void)ka_read_source(&r, &arena, &source);
    r = ka_read_from(data, size);
    (void)ka_read_health(&r, &health);
    ka_trace_health_free(&health);
    kb_arena_free(&arena);
}

static void read_tables(const uint8_t *data, size_t size)
{
    ka_byte_reader r = ka_read_from(data, size);
    kineto_analysis *a = NULL;
    ka_table_set loaded;
    const kineto_analysis_options usual = {.size = sizeof usual};
    if (ka_facts_create_for(&usual, 0, &a, NULL))
        return;
    (void)ka_read_analysis(&r, a, &loaded);
    kineto_analysis_destroy(a);
}

static void read_findings(const uint8_t *data, size_t size)
{
    ka_byte_reader r = ka_read_from(data, size);
    kineto_findings *f = calloc(1, sizeof *f);
    kineto_string steps;
    if (!f)
        return;
    f->chosen = UINT64_MAX;
    (void)ka_read_findings(&r, f, &steps);
    kineto_findings_destroy(f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const readers[])(const uint8_t *, size_t) = {read_file, read_file,   read_rows,
                                                               read_sections, read_tables, read_findings};
    size_t kind = size ? data[0] % KB_COUNT(readers) : 0;
    uint8_t *copy = size ? malloc(size) : NULL; /* its end is watched */
    if (!copy)
        return 0;
    memcpy(copy, data + 1, size - 1);
    uint8_t *exact = realloc(copy, size - 1 ? size - 1 : 1);
    if (kind == 1)
        repair_checksums(exact, size - 1);
    readers[kind](exact, size - 1);
    free(exact);
    return 0;
}
