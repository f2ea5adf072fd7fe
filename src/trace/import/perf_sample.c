/* Reads one record of a perf.data file: the fields of samples, and the id that ends other records. The
 * fields that are there, and so the place of each, follow from the attribute's sample_type. */
#include "trace/import/perf_file.h"

#define BRANCH_BYTES 24u

/* The attribute with this id; the only one if there are no ids. UINT32_MAX: unknown. */
static uint32_t find_attr(const kt_perf_file *file, uint64_t id, bool has_id)
{
    const uint64_t *known = has_id ? kb_map_find(&file->attr_of_id, id) : NULL;
    if (known)
        return (uint32_t)*known;
    return has_id && id != 0 && file->attrs.count > 1 ? UINT32_MAX : 0;
}

/* Where the id of a sample is, in words after the header. It is at the same place in all samples of the
 * file, or first. -1: they have none. */
static int word_of_sample_id(uint64_t type)
{
    static const uint64_t before[] = {PERF_SAMPLE_IP, PERF_SAMPLE_TID, PERF_SAMPLE_TIME,
                                      PERF_SAMPLE_ADDR};
    int word = 0;
    if (type & PERF_SAMPLE_IDENTIFIER)
        return 0;
    if (!(type & PERF_SAMPLE_ID))
        return -1;
    for (size_t i = 0; i < KB_COUNT(before); i++)
        word += (type & before[i]) != 0;
    return word;
}

static uint32_t attr_of_sample(const kt_perf_file *file, kt_perf_cursor c)
{
    int word = word_of_sample_id(file->attrs.data[0].sample_type);
    if (word < 0 || !kt_perf_take(&c, 8 * (uint64_t)word))
        return 0;
    uint64_t id = kt_perf_u64(&c);
    return find_attr(file, id, !c.failed);
}

/* Counter values, with which nothing is done here. */
static void skip_read_values(kt_perf_cursor *c, uint64_t format)
{
    uint64_t times = (format & PERF_FORMAT_TOTAL_TIME_ENABLED ? 8u : 0u) +
                     (format & PERF_FORMAT_TOTAL_TIME_RUNNING ? 8u : 0u);
    uint64_t each = 8u + (format & PERF_FORMAT_ID ? 8u : 0u) + (format & 16u ? 8u : 0u); /* LOST */
    uint64_t count = 1;
    if (format & PERF_FORMAT_GROUP)
        count = kt_perf_u64(c);
    if (count > (uint64_t)(c->end - c->at) / each)
        c->failed = true;
    else
        (void)kt_perf_take(c, times + count * each);
}

static void read_chain(kt_perf_cursor *c, kt_perf_sample *out)
{
    uint64_t count = kt_perf_u64(c);
    if (count > (uint64_t)(c->end - c->at) / 8)
        c->failed = true;
    else if ((out->chain = kt_perf_take(c, 8 * count)) != NULL)
        out->chain_count = count;
}

static void skip_branches(kt_perf_cursor *c, const kt_perf_attr *attr)
{
    uint64_t count = kt_perf_u64(c), each = BRANCH_BYTES + (attr->has_branch_counters ? 8u : 0u);
    if (count > (uint64_t)(c->end - c->at) / each)
        c->failed = true;
    else
        (void)kt_perf_take(c, (attr->branch_has_index ? 8u : 0u) + count * each);
}

static void read_user_registers(kt_perf_cursor *c, uint64_t mask, kt_perf_sample *out)
{
    out->registers_abi = kt_perf_u64(c);
    if (out->registers_abi != PERF_SAMPLE_REGS_ABI_NONE)
        out->registers = kt_perf_take(c, 8 * (uint64_t)__builtin_popcountll(mask));
}

/* The copy has room for `size` bytes, of which the kernel could fill some. */
static void read_user_stack(kt_perf_cursor *c, kt_perf_sample *out)
{
    uint64_t size = kt_perf_u64(c);
    if (!size)
        return;
    out->stack = kt_perf_take(c, size);
    uint64_t filled = kt_perf_u64(c);
    out->stack_bytes = out->stack ? KB_MIN(filled, size) : 0;
}

/* The fields of one word each. */
static void read_words(kt_perf_cursor *c, const kt_perf_attr *attr, kt_perf_sample *out)
{
    uint64_t type = attr->sample_type;
    if (type & PERF_SAMPLE_IDENTIFIER)
        (void)kt_perf_u64(c);
    if (type & PERF_SAMPLE_IP)
        out->ip = kt_perf_u64(c);
    if (type & PERF_SAMPLE_TID) {
        out->pid = kt_perf_u32(c);
        out->tid = kt_perf_u32(c);
    }
    if (type & PERF_SAMPLE_TIME)
        out->time_ns = kt_perf_u64(c);
    if (type & PERF_SAMPLE_ADDR)
        (void)kt_perf_u64(c);
    if (type & PERF_SAMPLE_ID)
        (void)kt_perf_u64(c);
    if (type & PERF_SAMPLE_STREAM_ID)
        (void)kt_perf_u64(c);
    if (type & PERF_SAMPLE_CPU)
        out->cpu = (uint32_t)kt_perf_u64(c);
    out->period = type & PERF_SAMPLE_PERIOD ? kt_perf_u64(c) : attr->is_freq ? 0 : attr->period;
}

bool kt_perf_sample_read(const kt_perf_file *file, const uint8_t *record, kt_perf_sample *out)
{
    kt_perf_cursor c = {record + sizeof(struct perf_event_header),
                        record + kt_perf_header(record).size, false};
    *out = (kt_perf_sample){.attr = attr_of_sample(file, c)};
    if (out->attr >= file->attrs.count)
        return false;
    const kt_perf_attr *attr = &file->attrs.data[out->attr];
    uint64_t type = attr->sample_type;
    read_words(&c, attr, out);
    if (type & PERF_SAMPLE_READ)
        skip_read_values(&c, attr->read_format);
    if (type & PERF_SAMPLE_CALLCHAIN)
        read_chain(&c, out);
    if (type & PERF_SAMPLE_RAW) {
        out->raw_bytes = kt_perf_u32(&c);
        out->raw = kt_perf_take(&c, out->raw_bytes);
    }
    if (type & PERF_SAMPLE_BRANCH_STACK)
        skip_branches(&c, attr);
    if (type & PERF_SAMPLE_REGS_USER)
        read_user_registers(&c, attr->registers, out);
    if (type & PERF_SAMPLE_STACK_USER)
        read_user_stack(&c, out);
    return !c.failed;
}

/* Its size follows from the same bits, without those that only samples have. */
static size_t size_of_id(uint64_t type)
{
    static const uint64_t fields[] = {PERF_SAMPLE_TID,       PERF_SAMPLE_TIME, PERF_SAMPLE_ID,
                                      PERF_SAMPLE_STREAM_ID, PERF_SAMPLE_CPU,  PERF_SAMPLE_IDENTIFIER};
    size_t bytes = 0;
    for (size_t i = 0; i < KB_COUNT(fields); i++)
        bytes += type & fields[i] ? 8u : 0u;
    return bytes;
}

kt_perf_id kt_perf_id_read(const kt_perf_file *file, const uint8_t *record)
{
    const kt_perf_attr *attr = &file->attrs.data[0];
    struct perf_event_header header = kt_perf_header(record);
    kt_perf_id id = {.bytes = attr->has_sample_id ? size_of_id(attr->sample_type) : 0};
    if (!id.bytes || header.size < sizeof header + id.bytes)
        return (kt_perf_id){0};
    kt_perf_cursor c = {record + header.size - id.bytes, record + header.size, false};
    if (attr->sample_type & PERF_SAMPLE_TID) {
        id.pid = kt_perf_u32(&c);
        id.tid = kt_perf_u32(&c);
    }
    if (attr->sample_type & PERF_SAMPLE_TIME)
        id.time_ns = kt_perf_u64(&c);
    if (attr->sample_type & PERF_SAMPLE_ID)
        (void)kt_perf_u64(&c);
    if (attr->sample_type & PERF_SAMPLE_STREAM_ID)
        (void)kt_perf_u64(&c);
    if (attr->sample_type & PERF_SAMPLE_CPU)
        id.cpu = kt_perf_u32(&c);
    return id;
}
