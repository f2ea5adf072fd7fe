/* Creates a dataset: the definitions fill it, then come the parts that all definitions share,
 * the tree links, classes, order by time, and the work that each call launched. */
#include "analyze/dataset/dataset.h"
#include "analyze/dataset/attribution.h"

#include "trace/model/steps.h"

#include <ckineto/files.h>

/* ---- for functions that fill it --------------------------------------------------------------- */

bool ka_dataset_put_work(ka_dataset_memory *m, const kineto_trace *trace, ka_work w)
{
    const kt_block *b = kt_block_at(trace, w.row / KT_BLOCK_ROWS);
    w.name = b->name[w.row % KT_BLOCK_ROWS];
    w.kind = b->kind[w.row % KT_BLOCK_ROWS];
    return kb_vec_push(&m->work, w);
}

bool ka_dataset_put_slice(ka_dataset_memory *m, const kineto_trace *trace, ka_slice s)
{
    const kt_block *b = kt_block_at(trace, s.row / KT_BLOCK_ROWS);
    s.name = b->name[s.row % KT_BLOCK_ROWS];
    s.kind = b->kind[s.row % KT_BLOCK_ROWS];
    KB_ASSERT(s.parent == KA_NONE || s.parent < m->slices.count); /* what encloses comes first */
    if (s.parent != KA_NONE)
        s.depth = (uint16_t)KB_MIN(m->slices.data[s.parent].depth + 1, UINT16_MAX);
    return kb_vec_push(&m->slices, s);
}

/* The list of step rows is the trace's, so it also knows steps that are not selected. */
bool ka_is_step_row(const ka_dataset *s, kineto_row row, uint32_t name)
{
    return kt_step_list_find(&s->memory->step_rows, row, name) != NULL;
}

int ka_compare_steps(const void *left, const void *right)
{
    const ka_step *a = left, *b = right;
    if (a->start_ns != b->start_ns)
        return a->start_ns < b->start_ns ? -1 : 1;
    return a->slice < b->slice ? -1 : a->slice > b->slice;
}

/* ---- after it is filled ----------------------------------------------------------------------- */

static bool is_operator_or_call(const ka_slice *slice)
{
    return slice->kind == KINETO_KIND_CPU_OP || kt_kind_is_launch(slice->kind);
}

/* `around` of each slice: nesting as in nesting.c, of operators and calls alone. */
static void find_around(ka_slice *slices, uint32_t first, uint32_t end)
{
    uint32_t top = KA_NONE;
    for (uint32_t i = first; i < end; i++) {
        ka_slice *s = &slices[i];
        uint32_t around = top;
        while (around != KA_NONE &&
               (slices[around].end_ns <= s->start_ns || slices[around].end_ns < s->end_ns))
            around = slices[around].around;
        s->around = around;
        if (is_operator_or_call(s))
            top = s->end_ns > s->start_ns ? i : around;
    }
}

/* Sets `next` of each slice, walking backward: an enclosing slice ends where its last child does. */
static void close_slices(ka_dataset_memory *m)
{
    for (size_t t = 0; t < m->threads.count; t++) {
        uint32_t first = m->threads.data[t].first, end = first + m->threads.data[t].count;
        find_around(m->slices.data, first, end);
        for (uint32_t i = first; i < end; i++)
            m->slices.data[i].next = i + 1;
        for (uint32_t i = end; i-- > first;) {
            uint32_t parent = m->slices.data[i].parent;
            if (parent != KA_NONE)
                m->slices.data[parent].next =
                    KB_MAX(m->slices.data[parent].next, m->slices.data[i].next);
        }
    }
}

/* Sets class_of of the work's name; returns the type of all work of that name. */
static ka_type classify_name(const ka_dataset *s, ka_dataset_memory *m, const ka_rules *rules,
                             const ka_work *w)
{
    kineto_string name = ka_name(s, w->name);
    ka_class class = ka_classify(rules, w->kind, name);
    m->class_of[w->name] = class;
    return s->definitions->type_of_work ? s->definitions->type_of_work(name) : (ka_type) class.type;
}

/* Classifies each name of work once. The type is the definitions' own, if they have one. */
static bool classify_work(ka_dataset *s, ka_dataset_memory *m, const ka_rules *rules)
{
    size_t names = (size_t)kineto_trace_string_count(s->trace) + 1;
    uint8_t *types = calloc(names, 1);
    m->class_of = calloc(names, sizeof *m->class_of);
    for (size_t i = 0; types && m->class_of && i < m->work.count; i++) {
        ka_work *w = &m->work.data[i];
        if (!types[w->name])
            types[w->name] = (uint8_t)(1 + classify_name(s, m, rules, w));
        w->type = types[w->name] - 1;
    }
    bool ok = types && m->class_of;
    free(types);
    return ok;
}

/* By start, the longer first, then row. */
static int compare_work(const void *left, const void *right, void *context)
{
    const ka_work *work = context, *a = &work[*(const uint32_t *)left],
                  *b = &work[*(const uint32_t *)right];
    if (a->start_ns != b->start_ns)
        return a->start_ns < b->start_ns ? -1 : 1;
    if (a->end_ns != b->end_ns)
        return a->end_ns > b->end_ns ? -1 : 1;
    return a->row < b->row ? -1 : a->row > b->row;
}

int ka_compare_starts(const void *left, const void *right, void *slices)
{
    const ka_slice *all = slices, *a = &all[*(const uint32_t *)left],
                   *b = &all[*(const uint32_t *)right];
    if (a->start_ns != b->start_ns)
        return a->start_ns < b->start_ns ? -1 : 1;
    return a->row < b->row ? -1 : a->row > b->row;
}

int ka_compare_slices(const void *left, const void *right, void *slices)
{
    const ka_slice *all = slices, *a = &all[*(const uint32_t *)left],
                   *b = &all[*(const uint32_t *)right];
    if (a->start_ns == b->start_ns && a->end_ns != b->end_ns)
        return a->end_ns > b->end_ns ? -1 : 1;
    return ka_compare_starts(left, right, slices);
}

/* Streams are in order: what comes of them is merged, two and two. */
static bool order_work(ka_dataset_memory *m)
{
    if (!kb_vec_reserve(&m->by_time, m->work.count + 1))
        return false;
    for (uint32_t i = 0; i < m->work.count; i++)
        m->by_time.data[i] = i;
    m->by_time.count = m->work.count;
    qsort_r(m->by_time.data, m->work.count, sizeof *m->by_time.data, compare_work, m->work.data);
    return true;
}

/* A counting sort of by_time by call, so work of one call stays in the order of starts. */
static bool group_by_call(ka_dataset_memory *m)
{
    if (!kb_vec_reserve(&m->launched, m->work.count + 1))
        return false;
    for (size_t i = 0; i < m->work.count; i++)
        if (m->work.data[i].call != KA_NONE)
            m->slices.data[m->work.data[i].call].work_count++;
    uint32_t at = 0;
    for (size_t i = 0; i < m->slices.count; i++) {
        m->slices.data[i].first_work = at;
        at += m->slices.data[i].work_count;
        m->slices.data[i].work_count = 0;
    }
    m->launched.count = at;
    for (size_t i = 0; i < m->work.count; i++) {
        uint32_t call = m->work.data[m->by_time.data[i]].call;
        if (call == KA_NONE)
            continue;
        ka_slice *s = &m->slices.data[call];
        m->launched.data[s->first_work + s->work_count++] = m->by_time.data[i];
    }
    return true;
}

/* Sets the read-only pointers and the extent. From here on nothing changes. */
static void publish_arrays(ka_dataset *s, const ka_dataset_memory *m)
{
    KB_ASSERT(m->by_time.count == m->work.count && m->launched.count <= m->work.count);
    s->work = m->work.data;
    s->work_count = (uint32_t)m->work.count;
    s->by_time = m->by_time.data;
    s->slices = m->slices.data;
    s->slice_count = (uint32_t)m->slices.count;
    s->launched = m->launched.data;
    s->streams = m->streams.data;
    s->stream_count = (uint32_t)m->streams.count;
    s->threads = m->threads.data;
    s->thread_count = (uint32_t)m->threads.count;
    s->steps = m->steps.data;
    s->step_count = (uint32_t)m->steps.count;
    s->class_of = m->class_of;
    s->name_count = kineto_trace_string_count(s->trace);
    s->start_ns = INT64_MAX;
    s->end_ns = INT64_MIN;
    for (uint32_t i = 0; i < s->work_count; i++) {
        s->start_ns = KB_MIN(s->start_ns, s->work[i].start_ns);
        s->end_ns = KB_MAX(s->end_ns, s->work[i].end_ns);
    }
    for (uint32_t i = 0; i < s->slice_count; i++) {
        s->start_ns = KB_MIN(s->start_ns, s->slices[i].start_ns);
        s->end_ns = KB_MAX(s->end_ns, s->slices[i].end_ns);
    }
    if (s->start_ns > s->end_ns)
        s->start_ns = s->end_ns = 0;
}

/* The rank of the options, else of the trace's identity, else 0. */
static int32_t rank_of_trace(const kineto_trace *t, const kineto_analysis_options *options)
{
    kineto_identity identity = {.size = sizeof identity};
    if (options->rank)
        return *options->rank;
    kineto_trace_identity(t, NULL, &identity);
    return identity.rank > 0 ? (int32_t)identity.rank : 0;
}

kineto_status ka_dataset_create(const kineto_trace *trace, const kineto_analysis_options *options,
                                const ka_rules *rules, ka_dataset *s, kineto_error *err)
{
    *s = (ka_dataset){
        .trace = trace, .options = options, .definitions = ka_definitions_of(options->definitions)};
    s->memory = calloc(1, sizeof *s->memory);
    if (!s->memory)
        return kb_fail_memory(err, NULL);
    pthread_mutex_init(&s->memory->lock, NULL);
    s->rank = rank_of_trace(trace, options);
    if (!kt_step_list_make(trace, options->step_pattern, !s->definitions->plain_step_names,
                           &s->memory->step_rows))
        return kb_fail_memory(err, NULL);
    kineto_status status = s->definitions->fill_dataset(s, err);
    if (status)
        return status;
    close_slices(s->memory);
    if (!classify_work(s, s->memory, rules) || !order_work(s->memory) || !group_by_call(s->memory))
        return kb_fail_memory(err, NULL);
    publish_arrays(s, s->memory);
    return KINETO_OK;
}

kineto_string ka_repeated_step_name(const ka_dataset *s)
{
    uint32_t name = s->memory->step_rows.repeated_name;
    return name == KB_INTERN_NONE ? (kineto_string){"", 0} : kineto_trace_string(s->trace, name);
}

void ka_dataset_free(ka_dataset *s)
{
    ka_dataset_memory *m = s->memory;
    if (m) {
        kb_vec_free(&m->work);
        kb_vec_free(&m->slices);
        kb_vec_free(&m->streams);
        kb_vec_free(&m->threads);
        kb_vec_free(&m->steps);
        kb_vec_free(&m->by_time);
        kb_vec_free(&m->launched);
        kt_step_list_free(&m->step_rows);
        free(m->class_of);
        ka_attribution_destroy(m->attribution);
        if (m->watched)
            ka_watched_free(m->watched);
        free(m->watched);
        pthread_mutex_destroy(&m->lock);
    }
    free(m);
    *s = (ka_dataset){0};
}

/* Made when first asked for. */
const ka_watched *ka_dataset_watched(const ka_dataset *s)
{
    ka_dataset_memory *m = s->memory;
    pthread_mutex_lock(&m->lock);
    if (!m->watched && !m->no_memory) {
        m->watched = calloc(1, sizeof *m->watched);
        m->no_memory = !m->watched || !ka_watched_make(s->trace, m->watched);
    }
    const ka_watched *w = m->no_memory ? NULL : m->watched;
    pthread_mutex_unlock(&m->lock);
    return w;
}

/* ---- streams ---------------------------------------------------------------------------------- */

bool ka_stream_wanted(const kineto_analysis_options *options, int64_t id)
{
    const char *at = options->streams;
    while (at && *at) {
        char *end;
        if (strtoll(at, &end, 10) == id && end != at)
            return true;
        at = *end ? end + 1 : end;
    }
    return !options->streams;
}

/* "7, 20", each once, of `ids` in order. */
static void list_stream_ids(const int64_t *ids, size_t count, char *text, size_t size)
{
    size_t used = 0;
    for (size_t i = 0; i < count && used + 24 < size; i++)
        if (!i || ids[i] != ids[i - 1])
            used += (size_t)snprintf(text + used, size - used, "%s%lld", i ? ", " : "",
                                     (long long)ids[i]);
    if (used + 24 >= size)
        snprintf(text + used, size - used, ", ...");
}

bool ka_streams_missing(const kineto_trace *t, const char *streams, int64_t rank, char *text,
                        size_t size)
{
    const kineto_analysis_options options = {.streams = streams};
    KB_VEC(int64_t) ids = {0};
    bool wanted = !streams, ok = true;
    char there[160];
    for (uint32_t i = 0; i < kineto_trace_track_count(t) && !wanted && ok; i++) {
        kineto_track k;
        kineto_trace_track(t, i, &k);
        if (k.type != KINETO_TRACK_STREAM || !k.count)
            continue;
        wanted = ka_stream_wanted(&options, k.id);
        ok = kb_vec_push(&ids, k.id);
    }
    text[0] = '\0';
    if (!wanted && ids.count) {
        qsort(ids.data, ids.count, sizeof *ids.data, kb_compare_int64);
        list_stream_ids(ids.data, ids.count, there, sizeof there);
        (void)kb_snprintf(text, size,
                          "none of the streams %.60s is in the trace of rank %lld, which has %s",
                          streams, (long long)rank, there);
    }
    kb_vec_free(&ids);
    return ok;
}
