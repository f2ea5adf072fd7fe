/* Reads header and features of a perf.data file, decompresses what is compressed, and lists the records
 * in order of time. All forms are read: the one with sections; the one that `perf record -o -` writes
 * into a pipe, in which attributes and features are records as well; and the directory of `perf record
 * --threads`, a file with sections and files with the records of a CPU each. */
#include "trace/import/perf_file.h"

#if defined(KB_WITH_ZSTD)
#include <zstd.h>
#endif

#define MAX_ATTRS   65536u
#define MAX_TIME_NS (UINT64_C(1) << 61)
/* Decompressed records may have this many times the size of the file, and this much besides: copies of
 * stacks are mostly zeros. */
#define MAX_COMPRESSION     1000u
#define FREE_DECOMPRESSED   ((size_t)64 << 20)
#define PIPE_HEADER_BYTES   16u
#define FILE_HEADER_BYTES   104u
#define SECTION_BYTES       16u
#define FEATURE_BITMAP_AT   72u
#define FEATURE_BITS        256u

/* Records that perf itself writes, besides those of the kernel (PERF_RECORD_… of perf's event.h). */
enum {
    RECORD_HEADER_ATTR = 64,
    RECORD_TRACING_DATA = 66,
    RECORD_BUILD_ID = 67,
    RECORD_AUXTRACE = 71,
    RECORD_EVENT_UPDATE = 78,
    RECORD_HEADER_FEATURE = 80,
    RECORD_COMPRESSED = 81,
    RECORD_COMPRESSED2 = 83
};
enum { EVENT_UPDATE_NAME = 2 };

/* Flags of perf_event_attr. */
enum {
    ATTR_FREQ = 10,
    ATTR_SAMPLE_ID_ALL = 18,
    ATTR_USE_CLOCKID = 25,
    ATTR_CONTEXT_SWITCH = 26
};
#define BRANCH_HW_INDEX (UINT64_C(1) << 17)
#define BRANCH_COUNTERS (UINT64_C(1) << 19)

typedef struct perf_reading {
    kt_perf_file *file;
    const kt_perf_part *parts;
    size_t part_count;
    uint64_t all_bytes; /* of all parts */
    kineto_error *err;
    uint64_t last_time_ns;
    bool in_decompressed; /* reading records that were compressed */
#if defined(KB_WITH_ZSTD)
    ZSTD_DStream *zstd;
#endif
} perf_reading;

/* The part that has this byte; the first one also counts for its end. */
static const kt_perf_part *find_part(const perf_reading *r, const uint8_t *at)
{
    for (size_t i = 1; i < r->part_count; i++) {
        const uint8_t *begin = (const uint8_t *)r->parts[i].bytes.data;
        if (at >= begin && at < begin + r->parts[i].bytes.size)
            return &r->parts[i];
    }
    return &r->parts[0];
}

/* KINETO_E_FORMAT that names the byte and, of a directory, the file. */
static kineto_status fail_at(const perf_reading *r, const uint8_t *at, const char *problem)
{
    if (r->in_decompressed)
        return kb_fail(r->err, KINETO_E_FORMAT, "perf.data: %s (in its compressed records)", problem);
    const kt_perf_part *part = find_part(r, at);
    uint64_t offset = (uint64_t)(at - (const uint8_t *)part->bytes.data);
    kineto_status status = kb_fail(r->err, KINETO_E_FORMAT, "perf.data: %s (byte %llu%s%s)", problem,
                                   (unsigned long long)offset, part->name ? " of " : "",
                                   part->name ? part->name : "");
    if (r->err)
        r->err->offset = offset;
    return status;
}

/* ---- attributes ------------------------------------------------------------------------------ */

/* The fields of struct perf_event_attr that are used, in their order. Older
 * files have fewer: the rest is 0. */
static kt_perf_attr parse_attr(kt_perf_cursor c)
{
    kt_perf_attr a = {.clock = -1};
    a.type = kt_perf_u32(&c);
    (void)kt_perf_u32(&c); /* size */
    a.config = kt_perf_u64(&c);
    a.period = kt_perf_u64(&c);
    a.sample_type = kt_perf_u64(&c);
    a.read_format = kt_perf_u64(&c);
    uint64_t flags = kt_perf_u64(&c);
    (void)kt_perf_take(&c, 24); /* wakeup_events to config2 */
    uint64_t branches = kt_perf_u64(&c);
    a.registers = kt_perf_u64(&c);
    (void)kt_perf_u32(&c); /* sample_stack_user */
    int32_t clock = (int32_t)kt_perf_u32(&c);
    a.is_freq = flags >> ATTR_FREQ & 1;
    a.has_sample_id = flags >> ATTR_SAMPLE_ID_ALL & 1;
    a.has_switches = flags >> ATTR_CONTEXT_SWITCH & 1;
    a.clock = flags >> ATTR_USE_CLOCKID & 1 && !c.failed ? clock : -1;
    a.branch_has_index = (branches & BRANCH_HW_INDEX) != 0;
    a.has_branch_counters = (branches & BRANCH_COUNTERS) != 0;
    return a;
}

static bool add_ids(kt_perf_file *file, kt_perf_cursor ids, size_t attr)
{
    while (ids.end - ids.at >= 8)
        if (!kb_map_insert(&file->attr_of_id, kt_perf_u64(&ids), attr, NULL))
            return false;
    return true;
}

/* Adds an attribute of `bytes` bytes at `at`, with its ids. */
static kineto_status add_attr(perf_reading *r, const uint8_t *at, uint64_t bytes, kt_perf_cursor ids)
{
    kt_perf_file *file = r->file;
    if (bytes < PERF_ATTR_SIZE_VER0)
        return fail_at(r, at, "an event's attributes are too short");
    if (file->attrs.count >= MAX_ATTRS)
        return fail_at(r, at, "too many events");
    kt_perf_attr attr = parse_attr((kt_perf_cursor){at, at + bytes, false});
    if (!add_ids(file, ids, file->attrs.count) || !kb_vec_push(&file->attrs, attr))
        return kb_fail_memory(r->err, "perf.data");
    return KINETO_OK;
}

/* The bytes of a section; false: they are outside of the file. */
static bool find_section(const kt_perf_file *file, uint64_t offset, uint64_t size,
                         kt_perf_cursor *out)
{
    if (offset > file->size || size > file->size - offset)
        return false;
    *out = (kt_perf_cursor){file->base + offset, file->base + offset + size, false};
    return true;
}

/* Each item is an attribute of attr_size bytes, of which the last 16 are offset and size of its list of
 * ids; ids tell whose sample a record is. */
static kineto_status read_attr_section(perf_reading *r, uint64_t offset, uint64_t size,
                                       uint64_t attr_size)
{
    kt_perf_cursor section, ids;
    if (!find_section(r->file, offset, size, &section))
        return fail_at(r, r->file->base + 24, "the list of events is outside of the file");
    if (attr_size < PERF_ATTR_SIZE_VER0 + SECTION_BYTES || attr_size > 4096)
        return fail_at(r, r->file->base + 16, "wrong size of an event's attributes");
    for (; (uint64_t)(section.end - section.at) >= attr_size; section.at += attr_size) {
        const uint8_t *attr = section.at;
        kt_perf_cursor place = {attr + attr_size - SECTION_BYTES, attr + attr_size, false};
        uint64_t ids_at = kt_perf_u64(&place), ids_bytes = kt_perf_u64(&place);
        if (!find_section(r->file, ids_at, ids_bytes, &ids))
            return fail_at(r, place.at - SECTION_BYTES, "ids of an event are outside of the file");
        kineto_status status = add_attr(r, attr, attr_size - SECTION_BYTES, ids);
        if (status)
            return status;
    }
    return KINETO_OK;
}

/* ---- features -------------------------------------------------------------------------------- */

/* A text after its size, which includes zeros at its end. */
static kineto_string take_feature_text(kt_perf_cursor *c)
{
    uint32_t size = kt_perf_u32(c);
    const uint8_t *text = kt_perf_take(c, size);
    return text ? (kineto_string){(const char *)text, strnlen((const char *)text, size)}
                : (kineto_string){"", 0};
}

/* One record of the list of build ids: header, pid, 20 bytes of id and 4 of padding, path. Newer
 * versions of perf write the size of the id into the first byte of padding, and set a bit of misc. */
static bool add_build_id(kt_perf_file *file, const uint8_t *at)
{
    enum { HAS_SIZE = 1 << 15, ID_ROOM = 24, USUAL_BYTES = 20 };
    struct perf_event_header header = kt_perf_header(at);
    kt_perf_cursor c = {at + sizeof header, at + header.size, false};
    (void)kt_perf_u32(&c);
    const uint8_t *id = kt_perf_take(&c, ID_ROOM);
    if (!id)
        return true;
    size_t bytes = header.misc & HAS_SIZE ? KB_MIN(id[USUAL_BYTES], (uint8_t)USUAL_BYTES)
                                          : USUAL_BYTES;
    while (!(header.misc & HAS_SIZE) && bytes > 4 && memcmp(id + bytes - 4, "\0\0\0", 4) == 0)
        bytes -= 4; /* a short id, padded */
    return kt_perf_file_add_build_id(file, kt_perf_rest_text(&c),
                                     (kineto_string){(const char *)id, bytes});
}

static bool read_build_ids(kt_perf_file *file)
{
    kineto_string list = file->features[KT_PERF_BUILD_ID];
    const uint8_t *at = (const uint8_t *)list.data, *end = at + list.size;
    while ((size_t)(end - at) >= sizeof(struct perf_event_header)) {
        uint16_t size = kt_perf_header(at).size;
        if (size < sizeof(struct perf_event_header) || size > end - at)
            return true;
        if (!add_build_id(file, at))
            return false;
        at += size;
    }
    return true;
}

/* Names of events: for each its attributes, ids and name. */
static void read_event_names(kt_perf_file *file)
{
    kineto_string text = file->features[KT_PERF_EVENT_DESC];
    const uint8_t *at = (const uint8_t *)text.data;
    kt_perf_cursor c = {at, at + text.size, false};
    uint32_t count = kt_perf_u32(&c), attr_bytes = kt_perf_u32(&c);
    for (uint32_t i = 0; i < count && i < file->attrs.count && !c.failed; i++) {
        (void)kt_perf_take(&c, attr_bytes);
        uint32_t ids = kt_perf_u32(&c);
        kineto_string name = take_feature_text(&c);
        (void)kt_perf_take(&c, 8 * (uint64_t)ids);
        if (!c.failed)
            file->attrs.data[i].name = name;
    }
}

/* Sections of features follow the records; their list has an entry for each bit that is set. Features
 * are optional: one that is outside of the file is absent. */
static void read_feature_sections(kt_perf_file *file, uint64_t list_at)
{
    const uint8_t *bits = file->base + FEATURE_BITMAP_AT;
    kt_perf_cursor list, section;
    if (!find_section(file, list_at, file->size - KB_MIN(list_at, (uint64_t)file->size), &list))
        return;
    for (uint32_t bit = 0; bit < FEATURE_BITS; bit++) {
        if (!(bits[bit / 8] >> bit % 8 & 1))
            continue;
        uint64_t at = kt_perf_u64(&list), size = kt_perf_u64(&list);
        if (list.failed)
            return;
        if (bit < KT_PERF_FEATURES && find_section(file, at, size, &section))
            file->features[bit] = (kineto_string){(const char *)section.at, (size_t)size};
    }
}

kineto_string kt_perf_file_text(const kt_perf_file *file, kt_perf_feature feature)
{
    const uint8_t *at = (const uint8_t *)file->features[feature].data;
    kt_perf_cursor c = {at, at + file->features[feature].size, false};
    return take_feature_text(&c);
}

kineto_string kt_perf_file_build_id(const kt_perf_file *file, kineto_string path)
{
    const uint64_t *index = kb_map_find(&file->build_id_of_path, kb_hash(path.data, path.size));
    if (index && kb_string_equal(file->build_ids.data[*index].path, path))
        return file->build_ids.data[*index].id;
    return (kineto_string){"", 0};
}

bool kt_perf_file_add_build_id(kt_perf_file *file, kineto_string path, kineto_string id)
{
    bool is_new = false;
    kt_perf_build_id item = {path, id};
    if (!kb_map_insert(&file->build_id_of_path, kb_hash(path.data, path.size),
                       file->build_ids.count, &is_new))
        return false;
    return !is_new || kb_vec_push(&file->build_ids, item);
}

bool kt_perf_file_is_of_this_arch(const kt_perf_file *file)
{
    kineto_string arch = kt_perf_file_text(file, KT_PERF_ARCH);
#if defined(__aarch64__)
    return arch.size == 0 || kb_string_is(arch, "aarch64");
#else
    return arch.size == 0 || kb_string_is(arch, "x86_64");
#endif
}

/* ---- compressed records ---------------------------------------------------------------------- */

#if defined(KB_WITH_ZSTD)
static bool reserve_decompressed(kt_perf_file *file, size_t bytes)
{
    size_t capacity = KB_MAX(file->decompressed_capacity * 2, file->decompressed_bytes + bytes);
    if (file->decompressed_capacity - file->decompressed_bytes >= bytes)
        return true;
    uint8_t *grown = realloc(file->decompressed, capacity);
    if (!grown)
        return false;
    file->decompressed = grown;
    file->decompressed_capacity = capacity;
    return true;
}

/* All compressed records of a part are one stream. The output may be at most MAX_COMPRESSION times as
 * large as all files, and FREE_DECOMPRESSED: a damaged or malicious file must not fill the memory.
 * Records in it are read later, when the buffer does not move any more. */
static kineto_status decompress_record(perf_reading *r, const uint8_t *data, size_t bytes)
{
    kt_perf_file *file = r->file;
    size_t most = FREE_DECOMPRESSED + KB_MIN(r->all_bytes, SIZE_MAX / (2 * MAX_COMPRESSION)) *
                                          MAX_COMPRESSION;
    ZSTD_inBuffer in = {data, bytes, 0};
    if (!r->zstd && !(r->zstd = ZSTD_createDStream()))
        return kb_fail_memory(r->err, "perf.data");
    for (bool is_full = true; in.pos < in.size || is_full;) {
        if (!reserve_decompressed(file, ZSTD_DStreamOutSize()))
            return kb_fail_memory(r->err, "perf.data");
        ZSTD_outBuffer out = {file->decompressed + file->decompressed_bytes,
                              file->decompressed_capacity - file->decompressed_bytes, 0};
        size_t left = ZSTD_decompressStream(r->zstd, &out, &in);
        if (ZSTD_isError(left))
            return fail_at(r, data, "damaged compressed records (zstd)");
        file->decompressed_bytes += out.pos;
        is_full = out.pos == out.size;
        if (file->decompressed_bytes > most)
            return kb_fail(r->err, KINETO_E_LIMIT,
                           "perf.data: its records have more than %zu MB when decompressed; record "
                           "without -z, or for a shorter time",
                           most >> 20);
    }
    return KINETO_OK;
}

/* The end of a part, after which another stream begins. */
static kineto_status end_stream(perf_reading *r)
{
    (void)ZSTD_freeDStream(r->zstd);
    r->zstd = NULL;
    return kb_vec_push(&r->file->decompressed_ends, r->file->decompressed_bytes)
               ? KINETO_OK
               : kb_fail_memory(r->err, "perf.data");
}
#else
static kineto_status end_stream(perf_reading *r)
{
    (void)r;
    return KINETO_OK;
}

static kineto_status decompress_record(perf_reading *r, const uint8_t *data, size_t bytes)
{
    (void)data;
    (void)bytes;
    return kb_fail(r->err, KINETO_E_UNSUPPORTED,
                   "perf.data: its records are compressed with zstd, which this build does not "
                   "support; record without -z");
}
#endif

/* ---- records --------------------------------------------------------------------------------- */

static kineto_status read_attr_record(perf_reading *r, const uint8_t *at, size_t size)
{
    kt_perf_cursor c = {at + sizeof(struct perf_event_header), at + size, false};
    kt_perf_cursor peek = c;
    (void)kt_perf_u32(&peek);
    uint32_t attr_bytes = kt_perf_u32(&peek);
    const uint8_t *attr = kt_perf_take(&c, attr_bytes);
    if (!attr || peek.failed)
        return fail_at(r, at, "an event's attributes are longer than their record");
    return add_attr(r, attr, attr_bytes, c);
}

static void read_feature_record(kt_perf_file *file, const uint8_t *at, size_t size)
{
    kt_perf_cursor c = {at + sizeof(struct perf_event_header), at + size, false};
    uint64_t feature = kt_perf_u64(&c);
    if (!c.failed && feature < KT_PERF_FEATURES)
        file->features[feature] = (kineto_string){(const char *)c.at, (size_t)(c.end - c.at)};
}

/* A later name of an event. */
static void read_event_update(kt_perf_file *file, const uint8_t *at, size_t size)
{
    kt_perf_cursor c = {at + sizeof(struct perf_event_header), at + size, false};
    uint64_t type = kt_perf_u64(&c), id = kt_perf_u64(&c);
    const uint64_t *attr = kb_map_find(&file->attr_of_id, id);
    if (!c.failed && type == EVENT_UPDATE_NAME && attr)
        file->attrs.data[*attr].name = kt_perf_rest_text(&c);
}

/* Data that follow a record, besides its size. PERF_RECORD_AUXTRACE is followed by its hardware trace,
 * and the records of a pipe with tracepoints by their formats (TRACING_DATA), padded to 8 bytes. */
static uint64_t size_after_record(perf_reading *r, const uint8_t *at, size_t size, const uint8_t *end)
{
    struct perf_event_header header = kt_perf_header(at);
    kt_perf_cursor c = {at + sizeof header, at + size, false};
    uint64_t left = (uint64_t)(end - at) - size;
    if (header.type == RECORD_AUXTRACE) {
        uint64_t bytes = kt_perf_u64(&c);
        r->file->aux_bytes += KB_MIN(bytes, left);
        return bytes;
    }
    if (header.type == RECORD_TRACING_DATA) {
        uint64_t bytes = ((uint64_t)kt_perf_u32(&c) + 7) & ~UINT64_C(7);
        if (bytes <= left)
            r->file->features[KT_PERF_TRACING_DATA] =
                (kineto_string){(const char *)at + size, (size_t)bytes};
        return bytes;
    }
    return 0;
}

/* Lists a record of the kernel, with its time. One without an id has the time of the one before. In a
 * sample the time is a field, other records end with it where sample_id_all is set. */
static kineto_status list_record(perf_reading *r, const uint8_t *at)
{
    kt_perf_file *file = r->file;
    kt_perf_record record = {r->last_time_ns, at};
    kt_perf_sample sample;
    if (!file->attrs.count)
        return fail_at(r, file->base, "records come before the list of events");
    if (kt_perf_header(at).type == PERF_RECORD_SAMPLE) {
        if (!kt_perf_sample_read(file, at, &sample)) {
            file->bad_records++;
            return KINETO_OK;
        }
        record.time_ns = sample.time_ns;
    } else {
        kt_perf_id id = kt_perf_id_read(file, at);
        if (id.bytes)
            record.time_ns = id.time_ns;
    }
    if (record.time_ns > MAX_TIME_NS) {
        file->bad_records++;
        return KINETO_OK;
    }
    r->last_time_ns = record.time_ns;
    return kb_vec_push(&file->records, record) ? KINETO_OK : kb_fail_memory(r->err, "perf.data");
}

static bool is_record_wanted(uint32_t type)
{
    switch (type) {
    case PERF_RECORD_MMAP:
    case PERF_RECORD_MMAP2:
    case PERF_RECORD_LOST:
    case PERF_RECORD_LOST_SAMPLES:
    case PERF_RECORD_COMM:
    case PERF_RECORD_EXIT:
    case PERF_RECORD_FORK:
    case PERF_RECORD_SAMPLE:
    case PERF_RECORD_SWITCH:
    case PERF_RECORD_SWITCH_CPU_WIDE:
        return true;
    default:
        return false;
    }
}

static kineto_status read_record(perf_reading *r, const uint8_t *at, size_t size)
{
    uint32_t type = kt_perf_header(at).type;
    kt_perf_cursor c = {at + sizeof(struct perf_event_header), at + size, false};
    if (r->in_decompressed) /* which are records of the kernel, and do not move any more */
        return is_record_wanted(type) ? list_record(r, at) : KINETO_OK;
    switch (type) {
    case RECORD_HEADER_ATTR:
        return read_attr_record(r, at, size);
    case RECORD_HEADER_FEATURE:
        read_feature_record(r->file, at, size);
        return KINETO_OK;
    case RECORD_EVENT_UPDATE:
        read_event_update(r->file, at, size);
        return KINETO_OK;
    case RECORD_BUILD_ID:
        return add_build_id(r->file, at) ? KINETO_OK : kb_fail_memory(r->err, "perf.data");
    case RECORD_COMPRESSED:
        return decompress_record(r, c.at, (size_t)(c.end - c.at));
    case RECORD_COMPRESSED2: {
        uint64_t bytes = kt_perf_u64(&c);
        return decompress_record(r, c.at, (size_t)KB_MIN(bytes, (uint64_t)(c.end - c.at)));
    }
    default:
        return is_record_wanted(type) ? list_record(r, at) : KINETO_OK;
    }
}

/* Records one after the other. An end inside a record is that of a recording that was
 * interrupted: what is before it counts, and is_cut is reported. A size below that of the
 * header would not end: it is refused. */
static kineto_status read_records(perf_reading *r, const uint8_t *at, const uint8_t *end)
{
    while (at < end) {
        size_t left = (size_t)(end - at);
        uint16_t size = left >= sizeof(struct perf_event_header) ? kt_perf_header(at).size : 0;
        if (size > left || left < sizeof(struct perf_event_header)) {
            r->file->is_cut = true;
            return KINETO_OK;
        }
        if (size < sizeof(struct perf_event_header))
            return fail_at(r, at, "a record without a size");
        kineto_status status = read_record(r, at, size);
        uint64_t after = size_after_record(r, at, size, end);
        if (status)
            return status;
        if (after > left - size) {
            r->file->is_cut = true;
            return KINETO_OK;
        }
        at += size + after;
    }
    return KINETO_OK;
}

/* In order of time; records of one time stay in the order of the file. */
static kineto_status sort_records(perf_reading *r)
{
    kt_perf_file *file = r->file;
    size_t count = file->records.count;
    kt_keyed *keys = count && count < UINT32_MAX ? malloc(count * sizeof *keys) : NULL;
    kt_perf_record *sorted = keys ? malloc(count * sizeof *sorted) : NULL;
    bool is_sorted = sorted != NULL;
    for (size_t i = 0; is_sorted && i < count; i++)
        keys[i] = (kt_keyed){file->records.data[i].time_ns, (uint32_t)i};
    is_sorted = is_sorted && kt_sort_keyed(NULL, keys, count);
    for (size_t i = 0; is_sorted && i < count; i++)
        sorted[i] = file->records.data[keys[i].value];
    free(keys);
    if (!is_sorted) {
        free(sorted);
        return count ? kb_fail_memory(r->err, "perf.data") : KINETO_OK;
    }
    free(file->records.data);
    file->records.data = sorted;
    file->records.capacity = count;
    return KINETO_OK;
}

/* ---- the file -------------------------------------------------------------------------------- */

/* The header after its magic: size, size of an attribute, then offset and size of the
 * attributes and of the records, 8 bytes each. perf writes the size of the records last: 0 is a
 * recording that was not finished. */
static kineto_status read_file_with_sections(perf_reading *r)
{
    kt_perf_file *file = r->file;
    kt_perf_cursor c = {file->base + 16, file->base + file->size, false}, data;
    if (file->size < FILE_HEADER_BYTES)
        return fail_at(r, file->base + file->size, "the header is not complete");
    uint64_t attr_size = kt_perf_u64(&c), attrs_at = kt_perf_u64(&c), attrs_bytes = kt_perf_u64(&c);
    uint64_t data_at = kt_perf_u64(&c), data_bytes = kt_perf_u64(&c);
    kineto_status status = read_attr_section(r, attrs_at, attrs_bytes, attr_size);
    if (status)
        return status;
    if (data_at > file->size)
        return fail_at(r, file->base + 40, "the records are outside of the file");
    file->is_unfinished = data_bytes == 0;
    if (data_bytes == 0 || data_bytes > file->size - data_at) {
        file->is_cut = data_bytes != 0;
        data_bytes = file->size - data_at;
    } else {
        read_feature_sections(file, data_at + data_bytes);
    }
    read_event_names(file);
    data = (kt_perf_cursor){file->base + data_at, file->base + data_at + data_bytes, false};
    return read_records(r, data.at, data.end);
}

static kineto_status read_first_part(perf_reading *r)
{
    kt_perf_file *file = r->file;
    kt_perf_cursor c = {file->base, file->base + file->size, false};
    (void)kt_perf_u64(&c);
    uint64_t header_bytes = kt_perf_u64(&c);
    if (c.failed)
        return fail_at(r, c.at, "the header is not complete");
    kineto_status status = header_bytes == PIPE_HEADER_BYTES ? read_records(r, c.at, c.end)
                                                             : read_file_with_sections(r);
    if (!status && file->features[KT_PERF_DIR_FORMAT].size && r->part_count == 1)
        status = kb_fail(r->err, KINETO_E_UNSUPPORTED,
                         "perf.data: a part of the directory of 'perf record --threads'; name the "
                         "directory, which ckineto reads");
    return status ? status : end_stream(r);
}

/* The other parts are records from the first byte on. */
static kineto_status read_other_parts(perf_reading *r)
{
    kineto_status status = KINETO_OK;
    for (size_t i = 1; i < r->part_count && !status; i++) {
        const uint8_t *at = (const uint8_t *)r->parts[i].bytes.data;
        r->last_time_ns = 0;
        status = read_records(r, at, at + r->parts[i].bytes.size);
        if (!status)
            status = end_stream(r);
    }
    return status;
}

static kineto_status read_decompressed(perf_reading *r)
{
    const uint8_t *base = r->file->decompressed;
    kineto_status status = KINETO_OK;
    size_t from = 0;
    r->in_decompressed = true;
    for (size_t i = 0; i < r->file->decompressed_ends.count && base && !status; i++) {
        size_t end = r->file->decompressed_ends.data[i];
        r->last_time_ns = 0;
        status = read_records(r, base + from, base + end);
        from = end;
    }
    r->in_decompressed = false;
    return status;
}

static kineto_status read_parts(perf_reading *r)
{
    kt_perf_file *file = r->file;
    kineto_status status = read_first_part(r);
    if (!status)
        status = read_other_parts(r);
    if (!status)
        status = read_decompressed(r);
    if (!status && !file->attrs.count)
        status = fail_at(r, file->base, "no list of events");
    if (!status && !read_build_ids(file))
        status = kb_fail_memory(r->err, "perf.data");
    if (status)
        return status;
    read_event_names(file);
    return sort_records(r);
}

kineto_status kt_perf_file_read(const kt_perf_part *parts, size_t count, kt_perf_file *file,
                                kineto_error *err)
{
    KB_ASSERT(count != 0);
    *file = (kt_perf_file){.base = (const uint8_t *)parts[0].bytes.data, .size = parts[0].bytes.size};
    perf_reading r = {.file = file, .err = err, .parts = parts, .part_count = count};
    for (size_t i = 0; i < count; i++)
        r.all_bytes += parts[i].bytes.size;
    kineto_status status = read_parts(&r);
#if defined(KB_WITH_ZSTD)
    (void)ZSTD_freeDStream(r.zstd);
#endif
    return status;
}

void kt_perf_file_free(kt_perf_file *file)
{
    kb_vec_free(&file->attrs);
    kb_map_free(&file->attr_of_id);
    kb_vec_free(&file->build_ids);
    kb_map_free(&file->build_id_of_path);
    kb_vec_free(&file->records);
    free(file->decompressed);
    kb_vec_free(&file->decompressed_ends);
}
