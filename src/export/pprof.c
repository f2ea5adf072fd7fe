/* A profile for pprof: one sample for each different stack of each track, with its own values: of
 * activities their number and time; of CPU samples their number and CPU time; of blocked threads
 * their time. The profile has those types of values that the trace has. Message and field numbers
 * are those of pprof's profile.proto. */
#include "export/proto.h"
#include "export/stacks.h"

enum { /* Profile */
       SAMPLE_TYPE = 1,
       SAMPLE = 2,
       MAPPING = 3,
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
enum { MAPPING_ID = 1, MAPPING_FILENAME = 5, MAPPING_HAS_FUNCTIONS = 7 };
enum { LOCATION_ID = 1, LOCATION_MAPPING = 2, LOCATION_LINE = 4 };
enum { LINE_FUNCTION = 1, LINE_LINE = 2 };
enum { FUNCTION_ID = 1, FUNCTION_NAME = 2, FUNCTION_SYSTEM = 3, FUNCTION_FILE = 4 };

#define FLUSH_BYTES 65536u

/* A place in the code: a function, or one that was inlined into that of another location. */
typedef struct pprof_location {
    uint32_t frame;
    uint32_t caller; /* id of the location that it was inlined into; 0: it was called */
} pprof_location;

typedef struct pprof_writer {
    const ke_job *job;
    const ke_stacks *stacks;
    ke_proto p;
    kb_intern strings; /* the string table; pprof requires that id 0 is "" */
    uint32_t types;      /* mask of the types of values, by pprof_type */
    KB_VEC(pprof_location) locations; /* by id - 1 */
    KB_VEC(uint32_t) location_of;     /* id by node */
    kb_map location_ids;
    KB_VEC(uint32_t) mappings; /* by string id: the mapping's id; 0: none */
    uint32_t mapping_count;
    uint64_t cpu_ns, cpu_samples; /* sums */
    uint64_t samples;
    bool failed;
} pprof_writer;

/* Types of values, in the order of the values of a sample. */
enum pprof_type { ACTIVITIES, TIME, SAMPLES, CPU, OFF_CPU, TYPES };
static const char *const type_names[TYPES][2] = {{"activities", "count"},
                                                 {"time", "nanoseconds"},
                                                 {"samples", "count"},
                                                 {"cpu", "nanoseconds"},
                                                 {"offcpu", "nanoseconds"}};

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
    uint32_t tid;
    bool of_thread = ke_cpu_track(t, n->track, &tid) != KE_CPU_ROW_NONE;
    ke_label process = ke_process_label(t, track.process);
    ke_label row = of_thread ? ke_cpu_thread_label(t, n->track) : ke_track_label(t, n->track);
    put_pprof_label(f, "process", (kineto_string){process.text, process.size});
    put_pprof_label(f, of_thread ? "thread" : ke_track_type_name(track.type),
                    (kineto_string){row.text, row.size});
}

/* Own values of a node that are negative come of traces whose inner ranges have more. */
static uint64_t value_of_type(const ke_node *n, uint32_t type)
{
    switch (type) {
    case ACTIVITIES:
        return n->count;
    case TIME:
        return n->self_ns;
    case SAMPLES:
        return (uint64_t)KB_MAX(n->samples, INT64_C(0));
    case CPU:
        return (uint64_t)KB_MAX(n->cpu_ns, INT64_C(0));
    default:
        return n->blocked_ns;
    }
}

static void put_pprof_values(pprof_writer *f, const ke_node *n)
{
    size_t list = ke_proto_begin(&f->p, SAMPLE_VALUE);
    for (uint32_t type = 0; type < TYPES; type++)
        if (f->types & 1u << type)
            ke_proto_item(&f->p, (uint64_t)clamp_to_int64(value_of_type(n, type)));
    ke_proto_end(&f->p, list);
}

/* The node of the function that a node's function was inlined into; KE_NO_NODE: it was called. */
static uint32_t inlined_into(const pprof_writer *f, uint32_t node)
{
    const ke_node *n = &f->stacks->nodes.data[node];
    const ke_frame *frames = f->stacks->frames.data;
    bool is_inlined = !n->is_called && frames[n->frame].kind == KINETO_KIND_CPU_SAMPLE && n->parent != KE_NO_NODE &&
                      frames[f->stacks->nodes.data[n->parent].frame].kind == KINETO_KIND_CPU_SAMPLE;
    return is_inlined ? n->parent : KE_NO_NODE;
}

/* Gives a location to each node; parents precede their children. */
static void find_locations(pprof_writer *f)
{
    for (size_t i = 0; i < f->stacks->nodes.count && !f->failed; i++) {
        uint32_t into = inlined_into(f, (uint32_t)i);
        pprof_location location = {.frame = f->stacks->nodes.data[i].frame,
                                   .caller = into == KE_NO_NODE ? 0 : f->location_of.data[into]};
        bool is_new = false;
        uint64_t key = (uint64_t)location.caller << 32 | location.frame;
        uint64_t *id = kb_map_insert(&f->location_ids, key, f->locations.count + 1, &is_new);
        f->failed |= !id || (is_new && !kb_vec_push(&f->locations, location)) ||
                     !kb_vec_push(&f->location_of, (uint32_t)*id);
    }
}

/* The locations of a stack, the innermost first. What was inlined has none of its own. */
static void put_pprof_stack(pprof_writer *f, uint32_t node)
{
    size_t list = ke_proto_begin(&f->p, SAMPLE_LOCATION);
    while (node != KE_NO_NODE) {
        ke_proto_item(&f->p, f->location_of.data[node]);
        for (uint32_t into = inlined_into(f, node); into != KE_NO_NODE; into = inlined_into(f, node))
            node = into;
        node = f->stacks->nodes.data[node].parent;
    }
    ke_proto_end(&f->p, list);
}

/* A node that no activity ended at has no sample. */
static void put_pprof_sample(pprof_writer *f, uint32_t node)
{
    const ke_node *n = &f->stacks->nodes.data[node];
    if (ke_stacks_count(n) == 0 && n->cpu_ns <= 0)
        return;
    size_t m = ke_proto_begin(&f->p, SAMPLE);
    put_pprof_stack(f, node);
    put_pprof_values(f, n);
    put_pprof_labels(f, n);
    ke_proto_end(&f->p, m);
    f->samples++;
    flush_if_large(f);
}

/* The mapping of a file of code, written at its first use. Addresses are not known. 0: none. */
static uint32_t mapping_id(pprof_writer *f, kineto_string file)
{
    if (!file.size)
        return 0;
    size_t name = (size_t)string_id(f, file), old = f->mappings.count;
    if (f->failed || !kb_vec_reserve(&f->mappings, name + 1)) {
        f->failed = true;
        return 0;
    }
    if (name >= old) {
        memset(f->mappings.data + old, 0, (name + 1 - old) * sizeof *f->mappings.data);
        f->mappings.count = name + 1;
    }
    if (f->mappings.data[name])
        return f->mappings.data[name];
    f->mappings.data[name] = ++f->mapping_count;
    size_t m = ke_proto_begin(&f->p, MAPPING);
    ke_proto_uint(&f->p, MAPPING_ID, f->mapping_count);
    ke_proto_uint(&f->p, MAPPING_FILENAME, name);
    ke_proto_bool(&f->p, MAPPING_HAS_FUNCTIONS, true);
    ke_proto_end(&f->p, m);
    return f->mapping_count;
}

/* File and line of the source of a frame, as far as known; *code: the file of its code. */
static void split_frame_place(const ke_frame *frame, kineto_string *file, uint32_t *line,
                              kineto_string *code)
{
    kineto_string function;
    *file = *code = (kineto_string){"", 0};
    *line = frame->line;
    if (frame->kind == KINETO_KIND_PYTHON_FUNCTION)
        ke_parse_python_name(frame->text, file, line, &function);
    else if (frame->line)
        *file = frame->file;
    else
        *code = frame->file;
}

/* A location has a line for its function, and one for each that it was inlined into; ids begin with 1. */
static void put_location(pprof_writer *f, size_t index)
{
    const ke_frame *frames = f->stacks->frames.data;
    kineto_string file, code;
    uint32_t line;
    split_frame_place(&frames[f->locations.data[index].frame], &file, &line, &code);
    uint32_t mapping = mapping_id(f, code);
    size_t m = ke_proto_begin(&f->p, LOCATION);
    ke_proto_uint(&f->p, LOCATION_ID, index + 1);
    if (mapping)
        ke_proto_uint(&f->p, LOCATION_MAPPING, mapping);
    for (size_t id = index + 1; id; id = f->locations.data[id - 1].caller) {
        uint32_t frame = f->locations.data[id - 1].frame;
        split_frame_place(&frames[frame], &file, &line, &code);
        size_t inner = ke_proto_begin(&f->p, LOCATION_LINE);
        ke_proto_uint(&f->p, LINE_FUNCTION, (uint64_t)frame + 1);
        if (line)
            ke_proto_uint(&f->p, LINE_LINE, line);
        ke_proto_end(&f->p, inner);
    }
    ke_proto_end(&f->p, m);
    flush_if_large(f);
}

/* Each frame is a function; ids begin with 1. */
static void put_function(pprof_writer *f, size_t index)
{
    const ke_frame *frame = &f->stacks->frames.data[index];
    kineto_string file, code;
    uint32_t line;
    split_frame_place(frame, &file, &line, &code);
    size_t m = ke_proto_begin(&f->p, FUNCTION);
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
    bool is_sampled = !(f->types & 1u << TIME) && f->cpu_samples;
    uint32_t type = f->types & 1u << TIME ? TIME : f->types & 1u << CPU ? CPU : OFF_CPU;
    put_pprof_value_type(f, PERIOD_TYPE, type_names[type][0], type_names[type][1]);
    /* Else nothing is sampled: every activity counts. */
    ke_proto_uint(&f->p, PERIOD, is_sampled ? f->cpu_ns / f->cpu_samples : 1);
    snprintf(comment, sizeof comment, "written by ckineto %s", kineto_version());
    ke_proto_uint(&f->p, COMMENT, word_id(f, comment));
    ke_proto_uint(&f->p, COMMENT, word_id(f, f->job->trace_name));
    /* Where there are samples, readers expect CPU time first; others are a choice of theirs. */
    uint32_t first = f->cpu_samples ? CPU : type;
    ke_proto_uint(&f->p, DEFAULT_SAMPLE_TYPE, word_id(f, type_names[first][0]));
    for (size_t i = 0; i < f->strings.strings.count; i++) {
        ke_proto_string(&f->p, STRING_TABLE, f->strings.strings.data[i]);
        flush_if_large(f);
    }
}

/* The order of the value types is that of the values in samples. */
static void write_profile(pprof_writer *f)
{
    for (uint32_t type = 0; type < TYPES; type++)
        if (f->types & 1u << type)
            put_pprof_value_type(f, SAMPLE_TYPE, type_names[type][0], type_names[type][1]);
    find_locations(f);
    for (size_t i = 0; i < f->stacks->nodes.count && !f->failed && !f->p.failed; i++)
        put_pprof_sample(f, (uint32_t)i);
    for (size_t i = 0; i < f->locations.count && !f->failed && !f->p.failed; i++)
        put_location(f, i);
    for (size_t i = 0; i < f->stacks->frames.count && !f->failed && !f->p.failed; i++)
        put_function(f, i);
    put_profile_trailer(f);
    ke_proto_flush(&f->p, f->job->sink);
}

/* The types of values that the stacks have; a trace without any has the first two. */
static void choose_types(pprof_writer *f)
{
    enum { OF_SAMPLES = 1u << SAMPLES | 1u << CPU, OF_RANGES = 1u << ACTIVITIES | 1u << TIME };
    for (size_t i = 0; i < f->stacks->nodes.count; i++) {
        const ke_node *n = &f->stacks->nodes.data[i];
        f->types |= n->count ? OF_RANGES : 0;
        f->types |= n->samples || n->cpu_ns ? OF_SAMPLES : 0;
        f->types |= n->blocked ? 1u << OFF_CPU : 0;
        f->cpu_ns += value_of_type(n, CPU);
        f->cpu_samples += value_of_type(n, SAMPLES);
    }
    f->types = f->types ? f->types : OF_RANGES;
}

/* True if a blocked state of the trace has a stack: without any, its time says nothing of code. */
static bool has_blocked_stacks(const kineto_trace *t)
{
    for (kineto_row row = 0; row < kineto_trace_count(t); row++)
        if (ke_row_is_kind(t, row, KINETO_KIND_THREAD_STATE) && ke_state_stack(t, row).size)
            return true;
    return false;
}

kineto_status ke_pprof_write(ke_job *job, kineto_error *err)
{
    ke_stacks stacks;
    pprof_writer f = {.job = job, .stacks = &stacks};
    uint32_t rows = ke_stacks_rows(job);
    if (job->options->weight == KINETO_EXPORT_WEIGHT_TIME) /* each has a value of its own */
        rows = KE_STACKS_RANGES | KE_STACKS_SAMPLES |
               (has_blocked_stacks(job->trace) ? KE_STACKS_BLOCKED : 0u);
    bool ok = ke_stacks_make(&stacks, job, KE_MAX_FRAMES, rows);
    choose_types(&f);
    if (ok)
        write_profile(&f);
    ok = ok && !f.failed && !f.p.failed;
    ke_stacks_account(job, &stacks);
    ke_stacks_account_depth(job, &stacks);
    job->result->records = f.samples;
    job->result->record_noun = "samples";
    job->result->replaced_bytes = f.p.replaced;
    ke_proto_free(&f.p);
    kb_intern_free(&f.strings);
    kb_vec_free(&f.mappings);
    kb_vec_free(&f.locations);
    kb_vec_free(&f.location_of);
    kb_map_free(&f.location_ids);
    ke_stacks_free(&stacks);
    return ok ? KINETO_OK : ke_fail_memory(job, err);
}
