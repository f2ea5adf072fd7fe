/* The tables collectives and collective_groups: size, bandwidth and exposed time of each
 * collective.
 *
 * Bytes, type and group come from the arguments of the kernel or, in traces before these had
 * them, of the operator that launched it (record_param_comms). algbw = bytes / duration; busbw
 * = algbw times the factor of the collective and the number of ranks, as nccl-tests define it. */
#include "analyze/facts/analyses.h"
#include "analyze/dataset/sums.h"

/* Selects the factor from algorithm bandwidth to bus bandwidth, with which collectives of all
 * kinds compare with the bandwidth of a link (nccl-tests, doc/PERFORMANCE.md). */
typedef enum scheme {
    OTHER,
    ALL_REDUCE,
    ALL_GATHER,
    REDUCE_SCATTER,
    ALL_TO_ALL,
    GATHER,
    ONCE
} scheme;

/* The first entry whose part is in the name decides: "reducescatter" stands before "reduce"
 * and "scatter", "allgather" before "gather". */
static const struct {
    const char *part; /* of a name in lower case without '_' */
    const char *name;
    scheme scheme;
} schemes[] = {
    {"allreduce", "allreduce", ALL_REDUCE},
    {"reducescatter", "reduce_scatter", REDUCE_SCATTER},
    {"allgather", "allgather", ALL_GATHER},
    {"alltoall", "all_to_all", ALL_TO_ALL},
    {"sendrecv", "sendrecv", ONCE},
    {"broadcast", "broadcast", ONCE},
    {"barrier", "barrier", ALL_REDUCE},
    {"reduce", "reduce", ONCE},
    {"scatter", "scatter", GATHER},
    {"gather", "gather", GATHER},
    {"send", "send", ONCE},
    {"recv", "recv", ONCE},
};

/* Copies the name in lower case and without '_', so that "ncclDevKernel_AllReduce" and
 * "all_reduce" have the same parts. A long name is cut. Returns the size. */
static size_t remove_spaces(kineto_string name, char *out, size_t room)
{
    size_t n = 0;
    for (size_t i = 0; i < name.size && n + 1 < room; i++)
        if (name.data[i] != '_')
            out[n++] = (char)((uint8_t)name.data[i] - 'A' < 26 ? name.data[i] + 32 : name.data[i]);
    out[n] = '\0';
    return n;
}

/* Index of schemes; KB_COUNT: none. */
static size_t scheme_of(kineto_string name)
{
    char text[128];
    size_t size = remove_spaces(name, text, sizeof text), i = 0;
    while (i < KB_COUNT(schemes) && !memmem(text, size, schemes[i].part, strlen(schemes[i].part)))
        i++;
    return i;
}

/* 2 (n - 1) / n for all-reduce, (n - 1) / n for others that exchange with all ranks, 1 for one
 * sender. 0: not known. */
static double bus_factor(scheme how, int64_t ranks)
{
    double n = (double)ranks;
    if (how == ONCE)
        return 1;
    if (ranks < 1 || how == OTHER)
        return 0;
    return how == ALL_REDUCE ? 2 * (n - 1) / n : (n - 1) / n;
}

/* ---- arguments of one --------------------------------------------------------------------- */

/* A number that the trace does not have. */
#define UNKNOWN_NUMBER INT64_MIN
typedef struct collective {
    const ka_work *work; /* NULL: a call of MPI */
    int64_t ns;
    uint32_t name, group, dtype; /* of texts */
    int64_t seq, ranks, in, out, bytes, exposed_ns;
    scheme scheme;
} collective;

/* State of the analysis. Texts of collectives are ids in `texts`, where 0 is the empty text.
 * `starters` is filled at the first collective whose launch has no range with its arguments. */
typedef struct gathering {
    const ka_dataset *s;
    KB_VEC(collective) all;
    kb_intern texts;
    ka_sums *computing; /* by stream: the first of a device has it */
    uint32_t *first_of; /* by stream: the first of its device */
    kb_map starters;    /* external id → slice of what started a collective */
    bool starters_made, no_memory;
} gathering;

/* Id of a text; 0, the empty one, if memory ran out (g->no_memory is set). */
static uint32_t keep_collective(gathering *g, kineto_string text)
{
    uint32_t id = kb_intern_id(&g->texts, text);
    g->no_memory |= id == KB_INTERN_NONE;
    return id == KB_INTERN_NONE ? 0 : id;
}

static int64_t parse_collective_number(const kineto_arg *arg)
{
    int64_t n;
    return kt_arg_whole(arg, &n) && n >= 0 ? n : UNKNOWN_NUMBER;
}

static bool is_collective_key(const kineto_arg *arg, const char *key)
{
    return kb_string_equal(arg->key, kb_string(key));
}

/* Arguments as libkineto and PyTorch name them. The ranks of a process group stand for its
 * name only if it has none. */
static void take_collective_value(gathering *g, collective *c, const kineto_arg *arg)
{
    if (is_collective_key(arg, "Collective name"))
        c->name = keep_collective(g, arg->text);
    else if (is_collective_key(arg, "dtype"))
        c->dtype = keep_collective(g, arg->text);
    else if (is_collective_key(arg, "Process Group Name") ||
             (is_collective_key(arg, "Process Group Ranks") && !c->group))
        c->group = keep_collective(g, arg->type == KINETO_ARG_STRING ? arg->text
                                                                     : ka_sizes_text(arg->text));
    else if (is_collective_key(arg, "In msg nelems"))
        c->in = parse_collective_number(arg);
    else if (is_collective_key(arg, "Out msg nelems"))
        c->out = parse_collective_number(arg);
    else if (is_collective_key(arg, "Group size"))
        c->ranks = parse_collective_number(arg);
    else if (is_collective_key(arg, "Seq"))
        c->seq = parse_collective_number(arg);
}

/* Reads the arguments of a row. True if they contain the kind or the size of the collective. */
static bool read_row(gathering *g, collective *c, kineto_row row)
{
    kineto_args_iterator it;
    kineto_arg arg;
    kineto_args_begin(g->s->trace, row, &it);
    while (kineto_args_next(&it, &arg))
        take_collective_value(g, c, &arg);
    return c->name != 0 || c->in != UNKNOWN_NUMBER;
}

/* Ranges with the arguments of a collective: PyTorch's record_param_comms, or its annotation
 * "nccl:…". */
static bool starts_collective(kineto_string name)
{
    return kb_string_equal(name, kb_string("record_param_comms")) ||
           (name.size > 5 && memcmp(name.data, "nccl:", 5) == 0);
}

/* Saturates: sizes come from files. */
static int64_t multiply_sizes(int64_t a, int64_t b)
{
    int64_t product;
    return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}

/* Elements of the first tensor of "[[2, 3], …]", or of "[2, 3]"; UNKNOWN_NUMBER if the list is
 * empty or malformed. */
static int64_t first_elements(kineto_string dims)
{
    kineto_string first = kt_item_at(dims, 0);
    int64_t elements;
    if (!kt_value_is_list(first))
        first = dims;
    return kt_item_at(first, 0).size && kt_sizes_product(first, &elements) ? elements
                                                                           : UNKNOWN_NUMBER;
}

/* "float" of ["float", …]. */
static uint32_t keep_first_type(gathering *g, kineto_string types)
{
    char room[128];
    kineto_string raw = kt_item_at(types, 0);
    return keep_collective(g, kt_value_text(raw, raw.size <= sizeof room ? room : NULL));
}

/* For traces of PyTorch before arguments had names: "nccl:all_reduce" with the dimensions of
 * the input tensor. Fills only what is not known. */
static void read_annotation(gathering *g, collective *c, const ka_slice *s)
{
    kineto_arg arg;
    kineto_string name = ka_name(g->s, s->name);
    if (name.size <= 5 || memcmp(name.data, "nccl:", 5) != 0)
        return;
    if (!c->name)
        c->name = keep_collective(g, (kineto_string){name.data + 5, name.size - 5});
    if (c->in != UNKNOWN_NUMBER)
        return;
    if (kineto_args_find(g->s->trace, s->row, "Input Dims", &arg))
        c->in = first_elements(arg.text);
    if (!c->dtype && kineto_args_find(g->s->trace, s->row, "Input type", &arg))
        c->dtype = keep_first_type(g, arg.text);
}

static uint64_t external_id(const ka_dataset *s, kineto_row row)
{
    const kt_block *block = kt_block_at(s->trace, row / KT_BLOCK_ROWS);
    return block->external_id[row % KT_BLOCK_ROWS];
}

/* Maps external ids to ranges that started a collective; the first range of an id counts. */
static void list_starters(gathering *g)
{
    for (uint32_t i = 0; i < g->s->slice_count && !g->no_memory; i++) {
        const ka_slice *s = &g->s->slices[i];
        if (s->kind != KINETO_KIND_CPU_OP && s->kind != KINETO_KIND_USER_ANNOTATION)
            continue;
        uint64_t id = external_id(g->s, s->row);
        if (id && starts_collective(ka_name(g->s, s->name)))
            g->no_memory |= !kb_map_insert(&g->starters, id, i, NULL);
    }
    g->starters_made = true;
}

/* Completes a collective from the ranges around its launch or, if none of these started it,
 * from the range with the kernel's external id. At most 32 ranges are visited. */
static void read_starter(gathering *g, collective *c)
{
    const ka_dataset *s = g->s;
    bool found = false;
    uint32_t at = c->work->call;
    for (uint32_t depth = 0; at != KA_NONE && depth < 32; at = s->slices[at].parent, depth++) {
        if (!starts_collective(ka_name(s, s->slices[at].name)))
            continue;
        found = true;
        if (!read_row(g, c, s->slices[at].row))
            read_annotation(g, c, &s->slices[at]);
    }
    if (found)
        return;
    if (!g->starters_made)
        list_starters(g);
    const uint64_t *slice = kb_map_find(&g->starters, external_id(s, c->work->row));
    if (slice && !read_row(g, c, s->slices[*slice].row))
        read_annotation(g, c, &s->slices[*slice]);
}

/* Sets name, scheme and bytes from what was read. Bytes are of the larger side: all-gather
 * moves its output, reduce-scatter its input, and with others both are the same. */
static void conclude_collective(gathering *g, collective *c)
{
    kineto_string kernel = c->work ? ka_name(g->s, c->work->name) : kb_string("");
    size_t which = scheme_of(c->name ? kb_intern_get(&g->texts, c->name) : kernel);
    c->scheme = which < KB_COUNT(schemes) ? schemes[which].scheme : OTHER;
    if (!c->name)
        c->name =
            keep_collective(g, which < KB_COUNT(schemes) ? kb_string(schemes[which].name) : kernel);
    int64_t elements = KB_MAX(c->in, c->out),
            size = ka_dtype_of(kb_intern_get(&g->texts, c->dtype)).bytes;
    /* Before arguments had names only the size of the input was recorded. */
    if (c->scheme == ALL_GATHER && c->out == UNKNOWN_NUMBER && c->in != UNKNOWN_NUMBER)
        elements = c->ranks > 0 ? multiply_sizes(c->in, c->ranks) : UNKNOWN_NUMBER;
    c->bytes = elements != UNKNOWN_NUMBER && size ? multiply_sizes(elements, size) : UNKNOWN_NUMBER;
}

/* ---- what computation hides ------------------------------------------------------------------ */

/* Unions of computation by device, stored at the device's first stream (g->first_of). False:
 * out of memory. */
static bool find_computing(gathering *g)
{
    const ka_dataset *s = g->s;
    ka_spans *spans = calloc((size_t)s->stream_count + 1, sizeof *spans);
    kb_map first = {0};
    bool ok = spans != NULL;
    for (uint32_t i = 0; ok && i < s->stream_count; i++) {
        uint64_t key = (uint64_t)s->streams[i].process << 32 | (uint32_t)s->streams[i].device;
        uint64_t *at = kb_map_insert(&first, key, i, NULL);
        ok = at != NULL;
        g->first_of[i] = at ? (uint32_t)*at : i;
    }
    for (uint32_t i = 0; ok && i < s->work_count; i++) {
        const ka_work *w = &s->work[s->by_time[i]];
        if (w->type == KA_TYPE_COMPUTATION)
            ok = kb_vec_push(&spans[g->first_of[w->stream]], (ka_span){w->start_ns, w->end_ns});
    }
    for (uint32_t i = 0; ok && i < s->stream_count; i++)
        ok = ka_sums_make(&g->computing[i], &spans[i]);
    for (uint32_t i = 0; spans && i < s->stream_count; i++)
        kb_vec_free(&spans[i]);
    free(spans);
    kb_map_free(&first);
    return ok;
}

/* Arguments come from the kernel's row, or from what started it. Exposed time is the part of
 * the kernel during which its device computed nothing. */
static void add_collective(gathering *g, const ka_work *w)
{
    collective c = {.work = w,
                    .ns = ka_work_ns(w),
                    .seq = UNKNOWN_NUMBER,
                    .ranks = UNKNOWN_NUMBER,
                    .in = UNKNOWN_NUMBER,
                    .out = UNKNOWN_NUMBER,
                    .bytes = UNKNOWN_NUMBER};
    if (!read_row(g, &c, w->row))
        read_starter(g, &c);
    conclude_collective(g, &c);
    c.exposed_ns = ka_work_ns(w) -
                   ka_sums_within(&g->computing[g->first_of[w->stream]], w->start_ns, w->end_ns);
    g->no_memory |= !kb_vec_push(&g->all, c);
}

/* A collective of MPI: its thread computes nothing meanwhile. */
static void add_mpi_collective_row(gathering *g, const ka_slice *s)
{
    collective c = {.ns = ka_slice_ns(s),
                    .seq = UNKNOWN_NUMBER,
                    .ranks = UNKNOWN_NUMBER,
                    .in = UNKNOWN_NUMBER,
                    .out = UNKNOWN_NUMBER,
                    .bytes = UNKNOWN_NUMBER,
                    .exposed_ns = ka_slice_ns(s)};
    (void)read_row(g, &c, s->row);
    conclude_collective(g, &c);
    g->no_memory |= !kb_vec_push(&g->all, c);
}

/* Work first, by start: rules walk over it and these rows together. */
static bool gather_collective(gathering *g)
{
    const ka_dataset *s = g->s;
    g->computing = calloc((size_t)s->stream_count + 1, sizeof *g->computing);
    g->first_of = calloc((size_t)s->stream_count + 1, sizeof *g->first_of);
    (void)keep_collective(g, (kineto_string){"", 0});
    if (!g->computing || !g->first_of || !find_computing(g))
        return false;
    for (uint32_t i = 0; i < s->work_count && !g->no_memory; i++) {
        const ka_work *w = &s->work[s->by_time[i]];
        if (w->type == KA_TYPE_COMMUNICATION)
            add_collective(g, w);
    }
    for (uint32_t i = 0; i < s->slice_count && !g->no_memory; i++)
        if (s->slices[i].kind == KINETO_KIND_COLLECTIVE_COMM)
            add_mpi_collective_row(g, &s->slices[i]);
    return !g->no_memory;
}

static void gathering_free(gathering *g)
{
    for (uint32_t i = 0; g->computing && i < g->s->stream_count; i++)
        ka_sums_free(&g->computing[i]);
    free(g->computing);
    free(g->first_of);
    kb_vec_free(&g->all);
    kb_intern_free(&g->texts);
    kb_map_free(&g->starters);
}

/* ---- tables ---------------------------------------------------------------------------------- */

static void put_int_or_none(ka_table *t, int64_t v)
{
    if (v == UNKNOWN_NUMBER)
        ka_put_none(t);
    else
        ka_put_int(t, v);
}

static void put_positive_or_none(ka_table *t, double v)
{
    if (v > 0)
        ka_put_number(t, v);
    else
        ka_put_none(t);
}

/* algbw in GB/s: 10^9 bytes a second are one byte a nanosecond. 0: not known. */
static double bandwidth_gbps(const collective *c)
{
    int64_t ns = c->ns;
    return c->bytes != UNKNOWN_NUMBER && ns > 0 ? (double)c->bytes / (double)ns : 0;
}

/* Rows of all collectives are in the order of time: findings rely on it. */
static void put_collective(const gathering *g, ka_table *t, const collective *c)
{
    ka_put_int(t, g->s->rank);
    ka_put_text(t, kb_intern_get(&g->texts, c->name));
    ka_put_text(t, kb_intern_get(&g->texts, c->group));
    put_int_or_none(t, c->seq);
    put_int_or_none(t, c->bytes);
    ka_put_text(t, kb_intern_get(&g->texts, c->dtype));
    ka_put_ns(t, c->ns);
    put_positive_or_none(t, bandwidth_gbps(c));
    put_positive_or_none(t, bandwidth_gbps(c) * bus_factor(c->scheme, c->ranks));
    ka_put_ns(t, c->exposed_ns);
}

/* Below 64 KiB the cost of a collective is mostly its latency, not its transfer. */
#define SMALL_BYTES 65536
/* Collectives of one name and group. sized_ns and bus_ns are the durations of those whose
 * bytes, or factor too, are known: bandwidths are over these only. */
typedef struct sums {
    uint32_t group, name;
    int64_t count, small_count, bytes, sized_ns, ns, exposed_ns, small_ns;
    double bus_bytes;
    int64_t bus_ns; /* of those whose factor is known */
} sums;

static void add_to(sums *to, const collective *c)
{
    int64_t ns = c->ns;
    double factor = bus_factor(c->scheme, c->ranks);
    to->count++;
    to->ns = ka_add_ns(to->ns, ns);
    to->exposed_ns = ka_add_ns(to->exposed_ns, c->exposed_ns);
    if (c->bytes == UNKNOWN_NUMBER)
        return;
    to->bytes = ka_add_ns(to->bytes, c->bytes);
    to->sized_ns = ka_add_ns(to->sized_ns, ns);
    if (factor > 0) {
        to->bus_bytes += (double)c->bytes * factor;
        to->bus_ns = ka_add_ns(to->bus_ns, ns);
    }
    if (c->bytes < SMALL_BYTES) {
        to->small_count++;
        to->small_ns = ka_add_ns(to->small_ns, ns);
    }
}

static void put_group_sums(const gathering *g, ka_table *t, const sums *s)
{
    ka_put_int(t, g->s->rank);
    ka_put_text(t, kb_intern_get(&g->texts, s->group));
    ka_put_text(t, kb_intern_get(&g->texts, s->name));
    ka_put_int(t, s->count);
    put_int_or_none(t, s->sized_ns ? s->bytes : UNKNOWN_NUMBER);
    ka_put_ns(t, s->ns);
    ka_put_ns(t, s->exposed_ns);
    put_positive_or_none(t, s->sized_ns > 0 ? (double)s->bytes / (double)s->sized_ns : 0);
    put_positive_or_none(t, s->bus_ns > 0 ? s->bus_bytes / (double)s->bus_ns : 0);
    ka_put_int(t, s->small_count);
    ka_put_ns(t, s->small_ns);
}

/* A row for each pair of group and name. False: out of memory. */
static bool put_collective_groups(const gathering *g, ka_table *t)
{
    KB_VEC(sums) all = {0};
    kb_map index = {0};
    bool ok = true;
    for (size_t i = 0; ok && i < g->all.count; i++) {
        const collective *c = &g->all.data[i];
        bool created;
        uint64_t *at =
            kb_map_insert(&index, (uint64_t)c->group << 32 | c->name, all.count, &created);
        ok = at && (!created || kb_vec_push(&all, (sums){.group = c->group, .name = c->name}));
        if (ok)
            add_to(&all.data[*at], c);
    }
    for (size_t i = 0; ok && i < all.count; i++)
        put_group_sums(g, t, &all.data[i]);
    KA_SORT(t, KA_UP(collective_groups, rank), KA_UP(collective_groups, group),
            KA_DOWN(collective_groups, sum_us), KA_UP(collective_groups, name));
    kb_vec_free(&all);
    kb_map_free(&index);
    return ok;
}

static void note_none(const ka_dataset *s, ka_table *t)
{
    if (!s->work_count)
        ka_note_no_device(t);
    else
        ka_note(t, "nothing communicated");
}

/* Tables collectives and collective_groups. Collectives are read in the order of starts;
 * arguments of each only once. */
kineto_status ka_analyze_collectives(const ka_dataset *s, kineto_analysis *a, kineto_error *err)
{
    ka_table *each = ka_table_of(a, KA_TABLE_collectives),
             *groups = ka_table_of(a, KA_TABLE_collective_groups);
    gathering g = {.s = s};
    bool ok = gather_collective(&g);
    for (size_t i = 0; ok && each && i < g.all.count; i++)
        put_collective(&g, each, &g.all.data[i]);
    if (ok && groups)
        ok = put_collective_groups(&g, groups);
    if (ok && !g.all.count) {
        note_none(s, each);
        note_none(s, groups);
    }
    gathering_free(&g);
    return ok ? KINETO_OK : kb_fail_memory(err, NULL);
}
