/* Work and counters of GPUs in a Perfetto trace, as drivers of Android and of other systems record them. */
#include "trace/import/perfetto_read.h"

/* Fields of messages: work, its old specifications, further data of the driver, and counters. */
enum {
    STAGE_EVENT_ID = 1, STAGE_DURATION = 2, STAGE_QUEUE = 3, STAGE_STAGE = 4, STAGE_CONTEXT = 5, STAGE_EXTRA = 6,
    STAGE_SPECIFICATIONS = 7, STAGE_SUBMISSION = 10, STAGE_GPU = 11, STAGE_QUEUE_IID = 13, STAGE_STAGE_IID = 14,
    STAGE_NAME = 17, STAGE_NAME_IID = 20,
    SPECIFIED_QUEUE = 2, SPECIFIED_STAGE = 3, SPECIFIED_NAME = 1,
    EXTRA_NAME = 1, EXTRA_VALUE = 2,
    COUNTER_DESCRIPTOR = 1, COUNTER_SAMPLE = 2, COUNTER_GPU = 3, DESCRIBED_COUNTER = 1, COUNTER_ID = 1, COUNTER_NAME = 2,
    SAMPLE_ID = 1, SAMPLE_INTEGER = 2, SAMPLE_DOUBLE = 3
};
/* Spaces of numbers in the map of names. */
enum { NAMES_OF_QUEUES = 1, NAMES_OF_STAGES = 2, NAMES_OF_COUNTERS = 3 };

/* A piece of work. */
typedef struct gpu_stage {
    uint64_t duration, queue, submission, event;
    int64_t gpu;
    uint32_t name, stage_name, queue_name;
    bool has_submission, has_event;
} gpu_stage;

/* The last name of a number counts: descriptions are repeated. */
static void set_name(kt_perfetto *p, uint64_t space, uint64_t number, kineto_string name)
{
    uint64_t *at = kb_map_insert(&p->gpu_names, space << 56 | (number & (UINT64_MAX >> 8)), 0, NULL);
    p->no_memory |= !at;
    if (at)
        *at = kt_string(p->m.b, name);
}

/* 0: it was not described. */
static uint32_t find_name(const kt_perfetto *p, uint64_t space, uint64_t number)
{
    const uint64_t *at = kb_map_find(&p->gpu_names, space << 56 | (number & (UINT64_MAX >> 8)));
    return at ? (uint32_t)*at : 0;
}

/* The text in a field of a message. */
static kineto_string text_in(kineto_string message, uint32_t field)
{
    kt_wire w = kt_wire_of(message);
    kt_field f;
    while (kt_wire_next(&w, &f))
        if (kt_field_is(&f, field, KT_WIRE_BYTES))
            return f.bytes;
    return (kineto_string){"", 0};
}

/* Names of queues and stages by their order, in files before 2021. */
static void read_specifications(kt_perfetto *p, kineto_string bytes)
{
    kt_wire w = kt_wire_of(bytes);
    kt_field f;
    uint64_t queues = 0, stages = 0;
    while (kt_wire_next(&w, &f)) {
        if (kt_field_is(&f, SPECIFIED_QUEUE, KT_WIRE_BYTES))
            set_name(p, NAMES_OF_QUEUES, queues++, text_in(f.bytes, SPECIFIED_NAME));
        else if (kt_field_is(&f, SPECIFIED_STAGE, KT_WIRE_BYTES))
            set_name(p, NAMES_OF_STAGES, stages++, text_in(f.bytes, SPECIFIED_NAME));
    }
}

/* Queue and stage are numbers of interned specifications, or in files before 2021 of a list. */
static void take_stage_number(kt_perfetto *p, const pf_sequence *s, gpu_stage *g, const kt_field *f)
{
    switch (f->id) {
    case STAGE_EVENT_ID:
        g->event = f->n;
        g->has_event = true;
        break;
    case STAGE_DURATION: g->duration = f->n; break;
    case STAGE_GPU: g->gpu = (int32_t)f->n; break;
    case STAGE_SUBMISSION:
        g->submission = f->n;
        g->has_submission = true;
        break;
    case STAGE_QUEUE:
        g->queue = f->n;
        g->queue_name = find_name(p, NAMES_OF_QUEUES, f->n);
        break;
    case STAGE_STAGE: g->stage_name = find_name(p, NAMES_OF_STAGES, f->n); break;
    case STAGE_QUEUE_IID:
        g->queue = f->n;
        (void)pf_text(s, PF_TEXT_GPU_STAGE, f->n, &g->queue_name);
        break;
    case STAGE_STAGE_IID: (void)pf_text(s, PF_TEXT_GPU_STAGE, f->n, &g->stage_name); break;
    case STAGE_NAME_IID: (void)pf_text(s, PF_TEXT_NAME, f->n, &g->name); break;
    case STAGE_CONTEXT: break;
    default: pf_count_unread(p, &p->unread_gpu_fields, f->id);
    }
}

/* The fields of one piece of work; which of them exist depends on the driver. */
static gpu_stage read_stage(kt_perfetto *p, const pf_sequence *s, kineto_string event)
{
    gpu_stage g = {0};
    kt_wire w = kt_wire_of(event);
    kt_field f;
    while (kt_wire_next(&w, &f)) {
        if (f.wire == KT_WIRE_VARINT)
            take_stage_number(p, s, &g, &f);
        else if (kt_field_is(&f, STAGE_NAME, KT_WIRE_BYTES))
            g.name = kt_string(p->m.b, f.bytes);
        else if (kt_field_is(&f, STAGE_SPECIFICATIONS, KT_WIRE_BYTES))
            read_specifications(p, f.bytes);
        else if (f.id != STAGE_EXTRA)
            pf_count_unread(p, &p->unread_gpu_fields, f.id);
    }
    return g;
}

/* The stage is an argument if the work has a name of its own. Further data of the driver keeps its keys. */
static void stage_gpu_args(kt_perfetto *p, const gpu_stage *g, kineto_string event)
{
    kt_builder *b = p->m.b;
    kt_wire w = kt_wire_of(event);
    kt_field f;
    if (g->name && g->stage_name)
        kt_args_put_shared(b, kt_string(b, kb_string("stage")), KINETO_ARG_STRING, g->stage_name);
    if (g->has_submission)
        kt_args_put_number(b, kt_string(b, kb_string("submission_id")), g->submission);
    if (g->has_event)
        kt_args_put_number(b, kt_string(b, kb_string("event_id")), g->event);
    while (kt_wire_next(&w, &f)) {
        kineto_string key = kt_field_is(&f, STAGE_EXTRA, KT_WIRE_BYTES) ? text_in(f.bytes, EXTRA_NAME)
                                                                        : (kineto_string){"", 0};
        if (key.size)
            kt_args_put_string(b, kt_string(b, key), text_in(f.bytes, EXTRA_VALUE));
    }
}

/* A packet that only describes queues and stages has no row. */
void pf_read_gpu_stage(kt_perfetto *p, const pf_packet *packet, kineto_string event)
{
    gpu_stage g = read_stage(p, packet->sequence, event);
    int64_t end_ns;
    bool is_specification = !g.name && !g.stage_name && !g.duration && !g.has_event;
    if (is_specification)
        return;
    if (!packet->has_time || g.duration > INT64_MAX ||
        __builtin_add_overflow(packet->ns, (int64_t)g.duration, &end_ns)) {
        p->bad_events++;
        return;
    }
    uint32_t track = kt_import_stream(&p->m, g.gpu, (int64_t)(g.queue & INT64_MAX));
    kt_track_set(p->m.b, track, kineto_trace_string(p->m.b->trace, g.queue_name), 0);
    kt_row row = {.start_ns = packet->ns, .end_ns = end_ns, .track = track, .kind = KINETO_KIND_CONCURRENT_KERNEL,
                  .form = KINETO_FORM_SLICE, .name = g.name ? g.name : g.stage_name};
    stage_gpu_args(p, &g, event);
    (void)kt_append(p->m.b, &row);
}

/* ---- counters --------------------------------------------------------------------------------- */

/* Names of counters, which come once, before their samples. */
static void describe_gpu_counters(kt_perfetto *p, kineto_string descriptor)
{
    kt_wire w = kt_wire_of(descriptor), of_one;
    kt_field f, g;
    while (kt_wire_next(&w, &f)) {
        uint64_t id = 0;
        if (!kt_field_is(&f, DESCRIBED_COUNTER, KT_WIRE_BYTES))
            continue;
        for (of_one = kt_wire_of(f.bytes); kt_wire_next(&of_one, &g);)
            id = kt_field_is(&g, COUNTER_ID, KT_WIRE_VARINT) ? g.n : id;
        set_name(p, NAMES_OF_COUNTERS, id, text_in(f.bytes, COUNTER_NAME));
    }
}

/* One sample is one row, as counters of a device are in Kineto's traces. */
static void add_gpu_sample(kt_perfetto *p, const pf_packet *packet, int64_t gpu, kineto_string sample)
{
    kt_wire w = kt_wire_of(sample);
    kt_field f;
    uint64_t id = 0;
    bool has_value = false;
    kt_builder *b = p->m.b;
    while (kt_wire_next(&w, &f)) {
        if (kt_field_is(&f, SAMPLE_ID, KT_WIRE_VARINT))
            id = f.n;
        else if (kt_field_is(&f, SAMPLE_INTEGER, KT_WIRE_VARINT) && !has_value) {
            kt_args_put_int(b, p->value_key, (int64_t)f.n);
            has_value = true;
        } else if (kt_field_is(&f, SAMPLE_DOUBLE, KT_WIRE_FIXED64) && !has_value) {
            kt_args_put_double(b, p->value_key, kt_field_double(&f));
            has_value = true;
        }
    }
    p->bad_counters += !has_value;
    if (!has_value)
        return;
    char number[40];
    kb_snprintf(number, sizeof number, "GPU counter %llu", (unsigned long long)id);
    uint32_t name = find_name(p, NAMES_OF_COUNTERS, id);
    kt_row row = {.start_ns = packet->ns, .end_ns = packet->ns, .track = kt_import_device_counters(&p->m, gpu),
                  .kind = KINETO_KIND_GPU_PM_COUNTER, .form = KINETO_FORM_COUNTER,
                  .name = name ? name : kt_string(b, kb_string(number))};
    (void)kt_append(b, &row);
}

/* Descriptions may be in the same packet as samples, before or after them. */
void pf_read_gpu_counter(kt_perfetto *p, const pf_packet *packet, kineto_string event)
{
    kt_wire w = kt_wire_of(event);
    kt_field f;
    int64_t gpu = 0;
    while (kt_wire_next(&w, &f)) {
        if (kt_field_is(&f, COUNTER_DESCRIPTOR, KT_WIRE_BYTES))
            describe_gpu_counters(p, f.bytes);
        else if (kt_field_is(&f, COUNTER_GPU, KT_WIRE_VARINT))
            gpu = (int32_t)f.n;
    }
    w = kt_wire_of(event);
    while (packet->has_time && kt_wire_next(&w, &f))
        if (kt_field_is(&f, COUNTER_SAMPLE, KT_WIRE_BYTES))
            add_gpu_sample(p, packet, gpu, f.bytes);
}
