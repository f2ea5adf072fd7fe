/* A profile for pprof: one sample for each different stack of each track, with its own time and the
 * number of activities. Message and field numbers are those of pprof's profile.proto. */
#include "export/proto.h"
#include "export/stacks.h"

enum { /* Profile */
       SAMPLE_TYPE = 1,
       SAMPLE = 2,
       LOCATION = 4,
       FUNCTION = 5,
       STRING_TABLE = 6,
       TIME_NANOS = 9,
       DURATION_NANOS = 10,
       PERIOD_TYPE = 11,
       PERIOD = 12,
       COMMENT = 13,
       DEFAULT_SAMPLE_TYPE = 14
};
enum { VALUE_TYPE = 1, VALUE_UNIT = 2 };
enum { SAMPLE_LOCATION = 1, SAMPLE_VALUE = 2, SAMPLE_LABEL = 3 };
enum { LABEL_KEY = 1, LABEL_STR = 2 };
enum { LOCATION_ID = 1, LOCATION_LINE = 4 };
enum { LINE_FUNCTION = 1, LINE_LINE = 2 };
enum { FUNCTION_ID = 1, FUNCTION_NAME = 2, FUNCTION_SYSTEM = 3, FUNCTION_FILE = 4 };

#define FLUSH_BYTES 65536u

typedef struct pprof_writer {
    const ke_job *job;
    const ke_stacks *stacks;
    ke_proto p;
    kb_intern strings; /* the string table; pprof requires that id 0 is "" */
    uint64_t samples;
    bool failed;
} pprof_writer;

/* The index of a text in the string table, added at first use. */
static uint64_t string_id(pprof_writer *f, kineto_string s)
{
    uint32_t id = kb_intern_id(&f->strings, s);
    f->failed |= id == KB_INTERN_NONE;
    return id;
}

static uint64_t word_id(pprof_writer *f, const char *s) { return string_id(f, kb_string(s)); }

/* No message may be open: its length would be in the part that is written. */
static void flush_if_large(pprof_writer *f)
{
    if (f->p.count >= FLUSH_BYTES)
        ke_proto_flush(&f->p, f->job->sink);
}

/* Type and unit of one of the values of every sample. */
static void put_pprof_value_type(pprof_writer *f, uint32_t field, const char *type,
                                 const char *unit)
{
    size_t m = ke_proto_begin(&f->p, field);
    ke_proto_uint(&f->p, VALUE_TYPE, word_id(f, type));
    ke_proto_uint(&f->p, VALUE_UNIT, word_id(f, unit));
    ke_proto_end(&f->p, m);
}

static int64_t clamp_to_int64(uint64_t v) { return (int64_t)KB_MIN(v, (uint64_t)INT64_MAX); }

static void put_pprof_label(pprof_writer *f, const char *key, kineto_string value)
{
    size_t m = ke_proto_begin(&f->p, SAMPLE_LABEL);
    ke_proto_uint(&f->p, LABEL_KEY, word_id(f, key));
    ke_proto_uint(&f->p, LABEL_STR, string_id(f, value));
    ke_proto_end(&f->p, m);
}

/* Labels of a sample: kind, process and track, by which pprof can filter and group. */
static void put_pprof_labels(pprof_writer *f, const ke_node *n)
{
    const kineto_trace *t = f->job->trace;
    put_pprof_label(f, "kind", kb_string(kineto_kind_name(f->stacks->frames.data[n->frame].kind)));
    if (n->track == UINT32_MAX)
        return;
    kineto_track track;
    kineto_trace_track(t, n->track, &track);
    ke_label process = ke_process_label(t, track.process), row = ke_track_label(t, n->track);
    put_pprof_label(f, "process", (kineto_string){process.text, process.size});
    put_pprof_label(f, ke_track_type_name(track.type), (kineto_string){row.text, row.size});
}

/* A node that no activity ended at has no sample. */
static void put_pprof_sample(pprof_writer *f, uint32_t node)
{
    const ke_node *n = &f->stacks->nodes.data[node];
    if (n->count == 0)
        return;
    size_t m = ke_proto_begin(&f->p, SAMPLE);
    /* The innermost frame first. */
    size_t list = ke_proto_begin(&f->p, SAMPLE_LOCATION);
    for (uint32_t at = node; at != KE_NO_NODE; at = f->stacks->nodes.data[at].parent)
        ke_proto_item(&f->p, (uint64_t)f->stacks->nodes.data[at].frame + 1);
    ke_proto_end(&f->p, list);
    list = ke_proto_begin(&f->p, SAMPLE_VALUE);
    ke_proto_item(&f->p, (uint64_t)clamp_to_int64(n->count));
    ke_proto_item(&f->p, (uint64_t)clamp_to_int64(n->self_ns));
    ke_proto_end(&f->p, list);
    put_pprof_labels(f, n);
    ke_proto_end(&f->p, m);
    f->samples++;
    flush_if_large(f);
}

/* Each frame is a location and a function; their ids begin with 1. */
static void put_location(pprof_writer *f, size_t index)
{
    const ke_frame *frame = &f->stacks->frames.data[index];
    kineto_string file = {"", 0}, function;
    uint32_t line = 0;
    if (frame->kind == KINETO_KIND_PYTHON_FUNCTION)
        ke_parse_python_name(frame->text, &file, &line, &function);
    size_t m = ke_proto_begin(&f->p, LOCATION);
    ke_proto_uint(&f->p, LOCATION_ID, index + 1);
    size_t inner = ke_proto_begin(&f->p, LOCATION_LINE);
    ke_proto_uint(&f->p, LINE_FUNCTION, index + 1);
    if (line)
        ke_proto_uint(&f->p, LINE_LINE, line);
    ke_proto_end(&f->p, inner);
    ke_proto_end(&f->p, m);
    m = ke_proto_begin(&f->p, FUNCTION);
    ke_proto_uint(&f->p, FUNCTION_ID, index + 1);
    ke_proto_uint(&f->p, FUNCTION_NAME, string_id(f, frame->text));
    ke_proto_uint(&f->p, FUNCTION_SYSTEM, string_id(f, frame->text));
    if (file.size)
        ke_proto_uint(&f->p, FUNCTION_FILE, string_id(f, file));
    ke_proto_end(&f->p, m);
    flush_if_large(f);
}

/* Times, comment and the string table, which is complete only at the end. */
static void put_profile_trailer(pprof_writer *f)
{
    const ke_census *c = &f->job->census;
    char comment[64];
    ke_proto_int(&f->p, TIME_NANOS, c->start_ns);
    ke_proto_int(&f->p, DURATION_NANOS,
                 clamp_to_int64((uint64_t)c->end_ns - (uint64_t)c->start_ns));
    put_pprof_value_type(f, PERIOD_TYPE, "time", "nanoseconds");
    ke_proto_uint(&f->p, PERIOD, 1); /* not sampled: every activity counts */
    snprintf(comment, sizeof comment, "written by ckineto %s", kineto_version());
    ke_proto_uint(&f->p, COMMENT, word_id(f, comment));
    ke_proto_uint(&f->p, COMMENT, word_id(f, f->job->trace_name));
    ke_proto_uint(&f->p, DEFAULT_SAMPLE_TYPE, word_id(f, "time"));
    for (size_t i = 0; i < f->strings.strings.count; i++) {
        ke_proto_string(&f->p, STRING_TABLE, f->strings.strings.data[i]);
        flush_if_large(f);
    }
}

/* The order of the value types is that of the values in samples. */
static void write_profile(pprof_writer *f)
{
    put_pprof_value_type(f, SAMPLE_TYPE, "activities", "count");
    put_pprof_value_type(f, SAMPLE_TYPE, "time", "nanoseconds");
    for (size_t i = 0; i < f->stacks->nodes.count && !f->failed && !f->p.failed; i++)
        put_pprof_sample(f, (uint32_t)i);
    for (size_t i = 0; i < f->stacks->frames.count && !f->failed && !f->p.failed; i++)
        put_location(f, i);
    put_profile_trailer(f);
    ke_proto_flush(&f->p, f->job->sink);
}

kineto_status ke_pprof_write(ke_job *job, kineto_error *err)
{
    ke_stacks stacks;
    pprof_writer f = {.job = job, .stacks = &stacks};
    bool ok = ke_stacks_make(&stacks, job, KE_MAX_FRAMES);
    if (ok)
        write_profile(&f);
    ok = ok && !f.failed && !f.p.failed;
    ke_stacks_account(job, stacks.forms);
    ke_stacks_account_depth(job, &stacks);
    job->result->records = f.samples;
    job->result->record_noun = "samples";
    job->result->replaced_bytes = f.p.replaced;
    ke_proto_free(&f.p);
    kb_intern_free(&f.strings);
    ke_stacks_free(&stacks);
    return ok ? KINETO_OK : ke_fail_memory(job, err);
}
