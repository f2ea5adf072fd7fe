/* Reads what collectives say of themselves; one walk over the arguments of a row has all of it. */
#include "analyze/dataset/collective_args.h"
#include "analyze/dataset/arg_lookup.h"

/* The first entry whose part is in the name decides: "reducescatter" stands before "reduce"
 * and "scatter", "allgather" before "gather". */
static const struct {
    const char *part; /* of a name in lower case without '_' */
    const char *name;
    ka_collective_op op;
} op_names[] = {
    {"allreduce", "allreduce", KA_OP_ALL_REDUCE},
    {"reducescatter", "reduce_scatter", KA_OP_REDUCE_SCATTER},
    {"allgather", "allgather", KA_OP_ALL_GATHER},
    {"alltoall", "all_to_all", KA_OP_ALL_TO_ALL},
    {"sendrecv", "sendrecv", KA_OP_SEND_RECV},
    {"broadcast", "broadcast", KA_OP_BROADCAST},
    {"barrier", "barrier", KA_OP_BARRIER},
    {"reduce", "reduce", KA_OP_REDUCE},
    {"scatter", "scatter", KA_OP_SCATTER},
    {"gather", "gather", KA_OP_GATHER},
    {"send", "send", KA_OP_SEND},
    {"recv", "recv", KA_OP_RECV},
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

/* Index of op_names; KB_COUNT: none. */
static size_t find_op_name(kineto_string name)
{
    char text[128];
    size_t size = remove_spaces(name, text, sizeof text), i = 0;
    while (i < KB_COUNT(op_names) && !memmem(text, size, op_names[i].part, strlen(op_names[i].part)))
        i++;
    return i;
}

ka_collective_op ka_collective_op_of(kineto_string name)
{
    size_t which = find_op_name(name);
    return which < KB_COUNT(op_names) ? op_names[which].op : KA_OP_OTHER;
}

kineto_string ka_collective_op_name(ka_collective_op op)
{
    for (size_t i = 0; i < KB_COUNT(op_names); i++)
        if (op_names[i].op == op)
            return kb_string(op_names[i].name);
    return kb_string("other");
}

/* ---- one row --------------------------------------------------------------------------------- */

/* Id of a text; 0, the empty one, if memory ran out (r->no_memory is set). */
static uint32_t keep_collective(ka_collective_reader *r, kineto_string text)
{
    uint32_t id = kb_intern_id(&r->texts, text);
    r->no_memory |= id == KB_INTERN_NONE;
    return id == KB_INTERN_NONE ? 0 : id;
}

void ka_collective_reader_create(ka_collective_reader *r, const ka_dataset *s)
{
    *r = (ka_collective_reader){.s = s};
    (void)keep_collective(r, (kineto_string){"", 0});
}

void ka_collective_reader_free(ka_collective_reader *r)
{
    kb_intern_free(&r->texts);
    kb_map_free(&r->starters);
}

static int64_t parse_collective_number(const kineto_arg *arg)
{
    int64_t n;
    return kt_arg_whole(arg, &n) && n >= 0 ? n : KA_UNKNOWN_NUMBER;
}

/* Arguments as libkineto and PyTorch name them. */
static const struct {
    const char *key;
    uint8_t is_text;
    uint16_t at; /* offset in ka_collective_args */
} known_args[] = {
    {"Collective name", 1, offsetof(ka_collective_args, name)},
    {"dtype", 1, offsetof(ka_collective_args, dtype)},
    {"Process Group Name", 1, offsetof(ka_collective_args, group)},
    {"Process Group Description", 1, offsetof(ka_collective_args, description)},
    {"Process Group Ranks", 1, offsetof(ka_collective_args, members)},
    {"In msg nelems", 0, offsetof(ka_collective_args, in)},
    {"Out msg nelems", 0, offsetof(ka_collective_args, out)},
    {"Group size", 0, offsetof(ka_collective_args, ranks)},
    {"Seq", 0, offsetof(ka_collective_args, sequence)},
    {"Src Rank", 0, offsetof(ka_collective_args, source)},
    {"Dst Rank", 0, offsetof(ka_collective_args, destination)},
};

static void take_collective_value(ka_collective_reader *r, ka_collective_args *c, const kineto_arg *arg)
{
    for (size_t i = 0; i < KB_COUNT(known_args); i++) {
        if (!kb_string_equal(arg->key, kb_string(known_args[i].key)))
            continue;
        void *to = (char *)c + known_args[i].at;
        if (known_args[i].is_text)
            *(uint32_t *)to = keep_collective(
                r, arg->type == KINETO_ARG_STRING ? arg->text : ka_sizes_text(arg->text));
        else
            *(int64_t *)to = parse_collective_number(arg);
        return;
    }
}

/* Reads the arguments of a row. True if they contain the kind or the size of the collective. */
static bool read_row(ka_collective_reader *r, ka_collective_args *c, kineto_row row)
{
    kineto_args_iterator it;
    kineto_arg arg;
    kineto_args_begin(r->s->trace, row, &it);
    while (kineto_args_next(&it, &arg))
        take_collective_value(r, c, &arg);
    return c->name != 0 || c->in != KA_UNKNOWN_NUMBER;
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

/* Elements of the first tensor of "[[2, 3], …]", or of "[2, 3]"; KA_UNKNOWN_NUMBER if the list is
 * empty or malformed. */
static int64_t first_elements(kineto_string dims)
{
    kineto_string first = kt_item_at(dims, 0);
    int64_t elements;
    if (!kt_value_is_list(first))
        first = dims;
    return kt_item_at(first, 0).size && kt_sizes_product(first, &elements) ? elements
                                                                           : KA_UNKNOWN_NUMBER;
}

/* "float" of ["float", …]. */
static uint32_t keep_first_type(ka_collective_reader *r, kineto_string types)
{
    char room[128];
    kineto_string raw = kt_item_at(types, 0);
    return keep_collective(r, kt_value_text(raw, raw.size <= sizeof room ? room : NULL));
}

/* For traces of PyTorch before arguments had names: "nccl:all_reduce" with the dimensions of
 * the input tensor. Fills only what is not known. */
static void read_annotation(ka_collective_reader *r, ka_collective_args *c, const ka_slice *s)
{
    kineto_arg arg;
    kineto_string name = ka_name(r->s, s->name);
    if (name.size <= 5 || (memcmp(name.data, "nccl:", 5) != 0 && memcmp(name.data, "gloo:", 5) != 0))
        return;
    if (!c->name)
        c->name = keep_collective(r, (kineto_string){name.data + 5, name.size - 5});
    if (c->in != KA_UNKNOWN_NUMBER)
        return;
    if (kineto_args_find(r->s->trace, s->row, "Input Dims", &arg))
        c->in = first_elements(arg.text);
    if (!c->dtype && kineto_args_find(r->s->trace, s->row, "Input type", &arg))
        c->dtype = keep_first_type(r, arg.text);
}

static void read_slice(ka_collective_reader *r, ka_collective_args *c, const ka_slice *s)
{
    if (!read_row(r, c, s->row))
        read_annotation(r, c, s);
}

/* ---- what started a kernel ------------------------------------------------------------------- */

static uint64_t external_id(const ka_dataset *s, kineto_row row)
{
    const kt_block *block = kt_block_at(s->trace, row / KT_BLOCK_ROWS);
    return block->external_id[row % KT_BLOCK_ROWS];
}

/* Maps external ids to ranges that started a collective; the first range of an id counts. */
static void list_starters(ka_collective_reader *r)
{
    for (uint32_t i = 0; i < r->s->slice_count && !r->no_memory; i++) {
        const ka_slice *s = &r->s->slices[i];
        if (s->kind != KINETO_KIND_CPU_OP && s->kind != KINETO_KIND_USER_ANNOTATION)
            continue;
        uint64_t id = external_id(r->s, s->row);
        if (id && starts_collective(ka_name(r->s, s->name)))
            r->no_memory |= !kb_map_insert(&r->starters, id, i, NULL);
    }
    r->starters_made = true;
}

/* NCCL before 2.28 reports its collective right after the launch, on the same thread, as a range of its own (the NCCL
 * source), before anything else is launched. Few ranges are visited. */
static void read_follower(ka_collective_reader *r, ka_collective_args *c, const ka_work *w)
{
    const ka_dataset *s = r->s;
    kineto_arg arg;
    if (w->call == KA_NONE)
        return;
    const ka_slice *call = &s->slices[w->call];
    const ka_thread *thread = &s->threads[call->thread];
    for (uint32_t at = w->call + 1, left = 16; at < thread->first + thread->count && left--; at++) {
        const ka_slice *next = &s->slices[at];
        if (next->start_ns >= call->end_ns && next->work_count)
            return;
        if (starts_collective(ka_name(s, next->name)) && kineto_args_find(s->trace, next->row, "protocol", &arg)) {
            read_slice(r, c, next);
            return;
        }
    }
}

/* Completes a collective from the ranges around its launch or, if none of these started it,
 * from the range with the kernel's external id, or from what follows. At most 32 ranges are visited. */
static void read_starter(ka_collective_reader *r, ka_collective_args *c, const ka_work *w)
{
    const ka_dataset *s = r->s;
    bool found = false;
    uint32_t at = w->call;
    for (uint32_t depth = 0; at != KA_NONE && depth < 32; at = s->slices[at].parent, depth++) {
        if (!starts_collective(ka_name(s, s->slices[at].name)))
            continue;
        found = true;
        read_slice(r, c, &s->slices[at]);
    }
    if (found)
        return;
    if (!r->starters_made)
        list_starters(r);
    const uint64_t *slice = kb_map_find(&r->starters, external_id(s, w->row));
    if (slice)
        read_slice(r, c, &s->slices[*slice]);
    else
        read_follower(r, c, w);
}

/* ---- all of it ------------------------------------------------------------------------------- */

/* Sets name, kind and bytes from what was read. Bytes are of the larger side: all-gather
 * moves its output, reduce-scatter its input, and with others both are the same. The ranks of a
 * process group stand for its name only if it has none. */
static void conclude_collective(ka_collective_reader *r, ka_collective_args *c, kineto_string kernel)
{
    size_t which = find_op_name(c->name ? kb_intern_get(&r->texts, c->name) : kernel);
    bool is_known = which < KB_COUNT(op_names);
    c->op = is_known ? op_names[which].op : KA_OP_OTHER;
    if (!c->name)
        c->name = keep_collective(r, is_known ? kb_string(op_names[which].name) : kernel);
    if (!c->group)
        c->group = c->members;
    int64_t elements = KB_MAX(c->in, c->out),
            size = ka_dtype_of(kb_intern_get(&r->texts, c->dtype)).bytes;
    /* Before arguments had names only the size of the input was recorded. */
    if (c->op == KA_OP_ALL_GATHER && c->out == KA_UNKNOWN_NUMBER && c->in != KA_UNKNOWN_NUMBER)
        elements = c->ranks > 0 ? multiply_sizes(c->in, c->ranks) : KA_UNKNOWN_NUMBER;
    c->bytes = elements != KA_UNKNOWN_NUMBER && size ? multiply_sizes(elements, size) : KA_UNKNOWN_NUMBER;
}

static const ka_collective_args nothing_known = {.sequence = KA_UNKNOWN_NUMBER,
                                                 .ranks = KA_UNKNOWN_NUMBER,
                                                 .in = KA_UNKNOWN_NUMBER,
                                                 .out = KA_UNKNOWN_NUMBER,
                                                 .bytes = KA_UNKNOWN_NUMBER,
                                                 .source = KA_UNKNOWN_NUMBER,
                                                 .destination = KA_UNKNOWN_NUMBER};

ka_collective_args ka_read_collective(ka_collective_reader *r, const ka_work *w)
{
    ka_collective_args c = nothing_known;
    if (!read_row(r, &c, w->row))
        read_starter(r, &c, w);
    conclude_collective(r, &c, ka_name(r->s, w->name));
    return c;
}

ka_collective_args ka_read_collective_call(ka_collective_reader *r, const ka_slice *call)
{
    ka_collective_args c = nothing_known;
    read_slice(r, &c, call);
    conclude_collective(r, &c, kb_string(""));
    return c;
}

/* ---- several messages at once ---------------------------------------------------------------- */

/* Reads a range if it is a message. */
static bool read_message(ka_collective_reader *r, uint32_t slice, ka_collective_args *out)
{
    const ka_slice *s = &r->s->slices[slice];
    if (!kb_string_equal(ka_name(r->s, s->name), kb_string("record_param_comms")))
        return false;
    *out = ka_read_collective_call(r, s);
    return ka_is_message(out->op) &&
           (out->source != KA_UNKNOWN_NUMBER || out->destination != KA_UNKNOWN_NUMBER);
}

uint32_t ka_read_messages(ka_collective_reader *r, const ka_work *w, ka_collective_args *out, uint32_t room)
{
    const ka_dataset *s = r->s;
    uint32_t count = 0;
    if (w->call == KA_NONE || !ka_is_message(ka_collective_op_of(ka_name(s, w->name))))
        return 0;
    uint32_t first = s->threads[s->slices[w->call].thread].first;
    for (uint32_t at = w->call, left = 64; at-- > first && count < room && left--;) {
        if (s->slices[at].work_count)
            break;
        count += read_message(r, at, &out[count]);
    }
    return count;
}
