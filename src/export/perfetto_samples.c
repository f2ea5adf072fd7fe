/* CPU samples for Perfetto: a packet for each sample, with the stack as an interned list of frames,
 * so that Perfetto shows its own rows of samples and flame graphs. The ranges of the trace hold how
 * many samples each stack has, and not when each of them was taken: they are spread evenly over the
 * range. */
#include "export/perfetto.h"
#include "export/sampled_walk.h"
#include "export/stacks.h"

#define NO_STACK UINT32_MAX

/* Bounds for files whose numbers of samples cannot be true: more than one in a microsecond, beyond the
 * first ones of a range, and all in all. */
#define MAX_SAMPLES      ((size_t)1 << 24)
#define SAMPLES_OF_RANGE  1000
#define NS_BETWEEN        1000

/* A stack, as a tree: its innermost frame and the stack without it. */
typedef struct stack_node {
    uint32_t above; /* NO_STACK: none */
    uint32_t frame; /* of ke_stacks */
    bool is_interned;
} stack_node;

typedef struct sample {
    int64_t ns, cpu_ns;
    uint32_t watched, stack;
} sample;

typedef struct sample_writer {
    ke_perfetto *w;
    ke_sampled_walk walk;
    ke_stacks frames; /* only its list of frames is used */
    kb_map node_ids;
    KB_VEC(stack_node) nodes;
    KB_VEC(sample) samples;
    KB_VEC(bool) is_frame_interned;
    KB_VEC(uint32_t) path;
    kb_intern files; /* of mappings; ids are interned numbers less 1 */
    uint32_t mappings;
    KB_VEC(uint64_t) cpu_ns; /* by CPU, until now */
    uint32_t watched;        /* of the track that is read */
} sample_writer;

/* ---- reading --------------------------------------------------------------------------------- */

/* The node of a stack that is longer by one frame. NO_STACK: out of memory. */
static uint32_t find_stack(sample_writer *s, uint32_t above, uint32_t frame)
{
    bool created;
    uint64_t *at = frame == UINT32_MAX ? NULL
                                       : kb_map_insert(&s->node_ids, (uint64_t)above << 32 | frame,
                                                       s->nodes.count, &created);
    stack_node fresh = {.above = above, .frame = frame};
    if (!at)
        return NO_STACK;
    uint32_t node = (uint32_t)*at;
    return !created || (s->nodes.count < NO_STACK && kb_vec_push(&s->nodes, fresh)) ? node : NO_STACK;
}

/* How many samples are written of a piece. */
static int64_t bound_samples(sample_writer *s, const ke_sampled_piece *p)
{
    int64_t length = kb_length_ns(p->start_ns, p->end_ns);
    int64_t most = s->samples.count < MAX_SAMPLES ? SAMPLES_OF_RANGE + length / NS_BETWEEN : 0;
    int64_t count = KB_MIN(p->samples, KB_MIN(most, (int64_t)(MAX_SAMPLES - s->samples.count)));
    s->w->dropped_samples += (uint64_t)(p->samples - count);
    return count;
}

static bool add_piece(void *context, const ke_sampled_piece *p)
{
    sample_writer *s = context;
    uint32_t stack = NO_STACK;
    int64_t length = kb_length_ns(p->start_ns, p->end_ns), count = bound_samples(s, p);
    for (size_t i = 0; i < p->depth; i++) {
        uint32_t frame = ke_stacks_frame(&s->frames, s->w->trace, s->walk.rows[p->stack[i]]);
        if ((stack = find_stack(s, stack, frame)) == NO_STACK)
            return false;
    }
    for (int64_t i = 1; i <= count; i++) {
        int64_t at = i == count ? p->end_ns
                                : p->start_ns + (int64_t)((double)length * (double)i / (double)count);
        int64_t part = p->cpu_ns / count + (i <= p->cpu_ns % count);
        sample one = {at, part, s->watched, stack};
        if (!kb_vec_push(&s->samples, one))
            return false;
    }
    return true;
}

/* Rows of another kind on such a track, or overlapping ones, have no samples. */
static bool read_sampled_track(sample_writer *s, uint32_t index)
{
    const ke_pf_track *t = &s->w->tracks[index];
    s->walk.rows = kineto_trace_track_rows(s->w->trace, index);
    s->walk.count = t->view.count;
    s->watched = t->watched - 1;
    if (!s->walk.rows)
        return false;
    for (uint64_t i = 0; i < s->walk.count; i++)
        if (!ke_row_is_kind(s->w->trace, s->walk.rows[i], KINETO_KIND_CPU_SAMPLE))
            return true;
    return t->view.lane_count != 1 || ke_sampled_walk_run(&s->walk);
}

static int compare_samples(const void *left, const void *right)
{
    const sample *a = left, *b = right;
    return a->ns != b->ns             ? KB_COMPARE(a->ns, b->ns)
           : a->watched != b->watched ? KB_COMPARE(a->watched, b->watched)
                                      : KB_COMPARE(a->stack, b->stack);
}

/* ---- interning ------------------------------------------------------------------------------- */

/* The interned number of the file of a frame; 0: out of memory. */
static uint32_t intern_mapping(sample_writer *s, kineto_string file)
{
    ke_proto *p = &s->w->interned;
    uint32_t id = kb_intern_id(&s->files, file.size ? file : kb_string("[unknown]"));
    if (id == KB_INTERN_NONE || id <= s->mappings)
        return id == KB_INTERN_NONE ? 0 : id;
    s->mappings = id;
    ke_pf_intern_text(s->w, KE_PF_INTERNED_PATH, id, kb_intern_get(&s->files, id));
    size_t mapping = ke_proto_begin(p, KE_PF_INTERNED_MAPPING);
    ke_proto_uint(p, KE_PF_INTERNED_IID, id);
    ke_proto_uint(p, KE_PF_MAPPING_PATH, id);
    ke_proto_end(p, mapping);
    return id;
}

/* Addresses are not known; a frame is known by its function. */
static bool intern_frame(sample_writer *s, uint32_t index)
{
    const ke_frame *f = &s->frames.frames.data[index];
    ke_proto *p = &s->w->interned;
    if (s->is_frame_interned.data[index])
        return true;
    s->is_frame_interned.data[index] = true;
    bool is_kernel = !f->file.size && kb_string_equal(f->text, kb_string("[kernel]"));
    uint32_t mapping = intern_mapping(s, is_kernel ? kb_string("kernel") : f->file);
    ke_pf_intern_text(s->w, KE_PF_INTERNED_FUNCTION, index + 1, f->text);
    size_t frame = ke_proto_begin(p, KE_PF_INTERNED_FRAME);
    ke_proto_uint(p, KE_PF_INTERNED_IID, index + 1);
    ke_proto_uint(p, KE_PF_FRAME_FUNCTION, index + 1);
    ke_proto_uint(p, KE_PF_FRAME_MAPPING, mapping);
    ke_proto_uint(p, KE_PF_FRAME_PC, 0);
    ke_proto_end(p, frame);
    return mapping != 0;
}

/* A stack has the number of its node, + 1. False: out of memory. */
static bool intern_stack(sample_writer *s, uint32_t node)
{
    ke_proto *p = &s->w->interned;
    if (s->nodes.data[node].is_interned)
        return true;
    s->nodes.data[node].is_interned = true;
    s->path.count = 0;
    for (uint32_t at = node; at != NO_STACK; at = s->nodes.data[at].above)
        if (!kb_vec_push(&s->path, s->nodes.data[at].frame) ||
            !intern_frame(s, s->nodes.data[at].frame))
            return false;
    size_t stack = ke_proto_begin(p, KE_PF_INTERNED_CALLSTACK);
    ke_proto_uint(p, KE_PF_INTERNED_IID, (uint64_t)node + 1);
    for (size_t i = s->path.count; i-- > 0;)
        ke_proto_uint(p, KE_PF_CALLSTACK_FRAME, (uint64_t)s->path.data[i] + 1);
    ke_proto_end(p, stack);
    return true;
}

/* ---- writing --------------------------------------------------------------------------------- */

/* The CPU time of the samples of a CPU until this one. An unknown CPU counts as the first one. */
static bool count_cpu_time(sample_writer *s, uint32_t cpu, int64_t ns, uint64_t *sum)
{
    size_t old = s->cpu_ns.count;
    if (!kb_vec_reserve(&s->cpu_ns, (size_t)cpu + 1))
        return false;
    if (cpu >= old) {
        memset(s->cpu_ns.data + old, 0, (cpu + 1 - old) * sizeof *s->cpu_ns.data);
        s->cpu_ns.count = (size_t)cpu + 1;
    }
    *sum = s->cpu_ns.data[cpu] += (uint64_t)ns;
    return true;
}

static bool write_sample(sample_writer *s, const sample *one)
{
    ke_perfetto *w = s->w;
    const ke_pf_watched *t = &w->watched.data[one->watched];
    const ke_frame *leaf = &s->frames.frames.data[s->nodes.data[one->stack].frame];
    bool is_kernel = kb_string_equal(leaf->text, kb_string("[kernel]"));
    uint32_t cpu = 0;
    uint64_t sum;
    bool known = ke_pf_cpu_at(w, one->watched, one->ns, &cpu);
    if (!count_cpu_time(s, cpu, one->cpu_ns, &sum) || !intern_stack(s, one->stack))
        return false;
    int64_t time = KB_MAX(ke_pf_time(one->ns), w->last_ns);
    size_t packet = ke_proto_begin(&w->packets, KE_PF_TRACE_PACKET);
    ke_proto_uint(&w->packets, KE_PF_PACKET_TIMESTAMP, (uint64_t)(time - w->last_ns));
    w->last_ns = time;
    ke_proto_uint(&w->packets, KE_PF_PACKET_SEQUENCE, w->sequence);
    ke_proto_uint(&w->packets, KE_PF_PACKET_FLAGS, KE_PF_STATE_NEEDED);
    size_t m = ke_proto_begin(&w->packets, KE_PF_PACKET_SAMPLE);
    if (known)
        ke_proto_uint(&w->packets, KE_PF_SAMPLE_CPU, cpu);
    ke_proto_uint(&w->packets, KE_PF_SAMPLE_PID, (uint64_t)w->processes[t->process].pid);
    ke_proto_uint(&w->packets, KE_PF_SAMPLE_TID, (uint64_t)t->tid);
    ke_proto_uint(&w->packets, KE_PF_SAMPLE_CALLSTACK, (uint64_t)one->stack + 1);
    ke_proto_uint(&w->packets, KE_PF_SAMPLE_MODE, is_kernel ? KE_PF_MODE_KERNEL : KE_PF_MODE_USER);
    ke_proto_uint(&w->packets, KE_PF_SAMPLE_COUNT, sum);
    ke_proto_end(&w->packets, m);
    ke_pf_end_packet(w, packet);
    w->all.records++;
    return true;
}

static bool write_all_samples(sample_writer *s)
{
    uint64_t sum = 0;
    size_t count = s->samples.count;
    if (!count)
        return true;
    qsort(s->samples.data, count, sizeof *s->samples.data, compare_samples);
    if (!kb_vec_reserve(&s->is_frame_interned, s->frames.frames.count))
        return false;
    memset(s->is_frame_interned.data, 0, s->frames.frames.count);
    for (size_t i = 0; i < count; i++)
        sum += (uint64_t)s->samples.data[i].cpu_ns;
    ke_pf_begin_samples(s->w, KB_MAX(sum / count, UINT64_C(1)));
    for (size_t i = 0; i < count; i++)
        if (!write_sample(s, &s->samples.data[i]))
            return false;
    return true;
}

void ke_pf_write_samples(ke_perfetto *w)
{
    uint32_t tid;
    sample_writer s = {.w = w, .walk = {.trace = w->trace, .piece = add_piece}};
    bool ok = !w->out_of_memory;
    s.walk.context = &s;
    for (uint32_t i = 0; ok && i < kineto_trace_track_count(w->trace); i++)
        if (w->tracks[i].watched && w->tracks[i].view.count &&
            ke_cpu_track(w->trace, i, &tid) == KE_CPU_ROW_SAMPLES)
            ok = read_sampled_track(&s, i);
    w->out_of_memory |= !ok || !write_all_samples(&s);
    ke_sampled_walk_free(&s.walk);
    ke_stacks_free(&s.frames);
    kb_map_free(&s.node_ids);
    kb_intern_free(&s.files);
    kb_vec_free(&s.nodes);
    kb_vec_free(&s.samples);
    kb_vec_free(&s.is_frame_interned);
    kb_vec_free(&s.path);
    kb_vec_free(&s.cpu_ns);
}
