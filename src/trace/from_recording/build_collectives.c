/* Collectives: the operator that starts one records sizes and process group, the kernel
 * records its duration. Tools expect both on the kernel, so it gets a copy of the
 * operator's args, as one set for all kernels of the operator (kt_row_add_set). The header
 * gets the process groups ("distributedInfo"). Runs after all events (see the passes in
 * build.c). */
#include "trace/from_recording/build.h"

#include "trace/model/messages.h"

/* The args that are copied. As in Kineto, the members of a group are copied together or not
 * at all. */
enum {
    NAME,
    IN_COUNT,
    OUT_COUNT,
    GROUP_SIZE,
    DTYPE,
    IN_SPLIT,
    OUT_SPLIT,
    PG_NAME,
    PG_TEXT,
    PG_RANKS
};
enum { ALONE, MESSAGE, SPLIT };
static const struct {
    const char *key;
    int group;
} copied[] = {
    [NAME] = {"Collective name", MESSAGE},
    [IN_COUNT] = {"In msg nelems", MESSAGE},
    [OUT_COUNT] = {"Out msg nelems", MESSAGE},
    [GROUP_SIZE] = {"Group size", MESSAGE},
    [DTYPE] = {"dtype", MESSAGE},
    [IN_SPLIT] = {"In split size", SPLIT},
    [OUT_SPLIT] = {"Out split size", SPLIT},
    [PG_NAME] = {"Process Group Name", ALONE},
    [PG_TEXT] = {"Process Group Description", ALONE},
    [PG_RANKS] = {"Process Group Ranks", ALONE},
    {"Input Tensors start", ALONE},
    {"Output Tensors start", ALONE},
    {"Dst Rank", ALONE},
    {"Src Rank", ALONE},
    {"Seq", ALONE},
    {"Comms Id", ALONE},
};
/* The rank is only for the header. */
enum { COPIED = KB_COUNT(copied), RANK = COPIED, KEYS };

/* The args of one operator, by index of the key. */
typedef struct operator_args {
    bool has[KEYS];
    kt_arg args[KEYS];
} operator_args;

typedef struct process_group {
    uint64_t name_hash;
    kineto_row row; /* of the first operator that named it */
} process_group;

/* State of the pass. */
typedef struct collectives {
    kt_build_state *s;
    uint32_t keys[KEYS];
    kb_map by_id;   /* external id → index in s->collectives */
    uint32_t *sets; /* by that index: number of its set; KT_NONE: not made yet */
    KB_VEC(process_group) groups;
    uint32_t process; /* process row of the last operator */
    bool several;     /* operators belong to several processes */
    bool hccl;        /* kernels are of HCCL, else of NCCL */
    bool any;         /* an operator was seen */
} collectives;

bool kt_build_is_collective(kineto_string name)
{
    static const char operator_name[] = "record_param_comms", annotation[] = "nccl:";
    return kb_string_equal(name, (kineto_string){operator_name, sizeof operator_name - 1}) ||
           (name.size > sizeof annotation - 1 &&
            memcmp(name.data, annotation, sizeof annotation - 1) == 0);
}

void kt_build_add_collective(kt_build_state *s, const kf_event *e, const kt_row *row)
{
    kt_build_collective c = {row->external_id, (kineto_row)(s->b->trace->count - 1),
                             e->name.size && e->name.data[0] == 'r'};
    s->out_of_memory |= !kb_vec_push(&s->collectives, c);
}

/* ---- args of operators ----------------------------------------------------------------------- */

/* Index of a key; KEYS: another key. */
static uint32_t find_key_index(const collectives *c, uint32_t key)
{
    uint32_t i = 0;
    while (i < KEYS && c->keys[i] != key)
        i++;
    return i;
}

/* Reads the args of an operator's row. */
static void read_operator_args(const collectives *c, kineto_row row, operator_args *t)
{
    kt_args args =
        kt_args_of(c->s->b->trace, kt_block_of(c->s->b->trace, row), row % KT_BLOCK_ROWS);
    kt_arg arg = {0};
    memset(t->has, 0, sizeof t->has);
    while (kt_args_step(&args, &arg)) {
        uint32_t i = find_key_index(c, arg.key);
        if (i < KEYS && !t->has[i]) {
            t->has[i] = true;
            t->args[i] = arg;
        }
    }
}

static bool is_group_complete(const operator_args *t, int group)
{
    for (uint32_t i = 0; i < COPIED && group != ALONE; i++)
        if (copied[i].group == group && !t->has[i])
            return false;
    return true;
}

/* Stages a copy of an arg. */
static void stage_copied_arg(kt_builder *b, const kt_arg *arg)
{
    if (arg->shared)
        kt_args_put_shared(b, arg->key, (kineto_arg_type)arg->type, arg->text_id);
    else if (arg->type == KINETO_ARG_INT)
        kt_args_put_int(b, arg->key, arg->i);
    else if (arg->type == KINETO_ARG_UINT)
        kt_args_put_number(b, arg->key, arg->u);
    else if (arg->type == KINETO_ARG_DOUBLE)
        kt_args_put_double(b, arg->key, arg->d);
    else if (arg->type == KINETO_ARG_BOOL)
        kt_args_put_bool(b, arg->key, arg->u != 0);
    else if (arg->type == KINETO_ARG_STRING)
        kt_args_put_string(b, arg->key, arg->text);
    else
        kt_args_put_json(b, arg->key, (kineto_arg_type)arg->type, arg->text);
}

/* The set of the args that are copied; 0: none. */
static uint32_t make_collective_set(const collectives *c, const operator_args *t)
{
    for (uint32_t i = 0; i < COPIED; i++)
        if (t->has[i] && is_group_complete(t, copied[i].group))
            stage_copied_arg(c->s->b, &t->args[i]);
    return kt_args_make_set(c->s->b);
}

/* ---- process groups -------------------------------------------------------------------------- */

static uint32_t process_row_of(const collectives *c, kineto_row row)
{
    const kineto_trace *t = c->s->b->trace;
    return t->tracks.data[kt_row_track(t, row)].process;
}

/* Records the process group of an operator, once for each name. */
static void record_process_group(collectives *c, kineto_row row, const operator_args *t)
{
    uint32_t process = process_row_of(c, row);
    c->several |= c->any && process != c->process;
    c->process = process;
    c->any = true;
    kineto_string name = t->args[PG_NAME].text;
    if (!t->has[PG_NAME] || t->args[PG_NAME].type < KINETO_ARG_STRING)
        return;
    process_group g = {kb_hash(name.data, name.size), row};
    for (size_t i = 0; i < c->groups.count; i++)
        if (c->groups.data[i].name_hash == g.name_hash)
            return;
    c->s->out_of_memory |= !kb_vec_push(&c->groups, g);
}

/* ---- kernels --------------------------------------------------------------------------------- */

/* True if a kernel has such args already, from its source. */
static bool has_collective_args(const collectives *c, const kt_block *block, uint32_t i)
{
    kt_args args = kt_args_of(c->s->b->trace, block, i);
    kt_arg arg = {0};
    while (kt_args_step(&args, &arg))
        if (find_key_index(c, arg.key) < COPIED)
            return true;
    return false;
}

/* The set of a collective, made on first use; 0: it has no such args. */
static uint32_t find_collective_set(collectives *c, uint64_t index)
{
    if (c->sets[index] == KT_NONE) {
        KB_ASSERT(index < c->s->collectives.count);
        operator_args t;
        kineto_row row = c->s->collectives.data[index].row;
        read_operator_args(c, row, &t);
        c->sets[index] = make_collective_set(c, &t);
        if (c->sets[index])
            record_process_group(c, row, &t);
    }
    return c->sets[index];
}

/* Adds the set of its collective to a kernel. */
static void add_set_to_kernel(collectives *c, const kt_block *block, uint32_t i, kineto_row row)
{
    uint32_t kind = block->kind[i];
    bool device = kind == KINETO_KIND_CONCURRENT_KERNEL || kind == KINETO_KIND_COLLECTIVE_COMM;
    const uint64_t *index =
        device && block->external_id[i] ? kb_map_find(&c->by_id, block->external_id[i]) : NULL;
    uint32_t set = index ? find_collective_set(c, *index) : 0;
    if (!set || has_collective_args(c, block, i))
        return;
    kineto_string name = kineto_trace_string(c->s->b->trace, block->name[i]);
    c->hccl |= name.size >= 6 && memcmp(name.data, "hccl::", 6) == 0;
    kt_row_add_set(c->s->b, row, set);
}

static void add_sets_to_kernels(collectives *c)
{
    const kineto_trace *t = c->s->b->trace;
    for (size_t k = 0; k < t->blocks.count; k++)
        for (uint32_t i = 0; i < t->blocks.data[k]->count; i++)
            add_set_to_kernel(c, t->blocks.data[k], i, (kineto_row)(k * KT_BLOCK_ROWS + i));
}

/* ---- the header ------------------------------------------------------------------------------ */

static void append_quoted_text(kt_build_state *s, kineto_string text)
{
    uint64_t replaced = 0;
    char *at = kt_build_reserve(s, text.size * 6 + 2);
    if (at)
        kt_build_advance(s, kb_json_escape(at, text, &replaced));
}

/* Appends a value as JSON: a number, a list that is valid JSON, or a string. */
static void append_header_value(kt_build_state *s, const kt_arg *arg)
{
    if (arg->type == KINETO_ARG_INT || arg->type == KINETO_ARG_UINT)
        kt_build_append_int(s, arg->i);
    else if (arg->text.size && arg->text.data[0] == '[' && kb_json_valid(arg->text))
        kt_build_append_text(s, arg->text);
    else
        append_quoted_text(s, arg->type >= KINETO_ARG_STRING ? arg->text : (kineto_string){"", 0});
}

static void append_header_member(kt_build_state *s, const char *before, const operator_args *t,
                                 uint32_t key)
{
    if (!t->has[key])
        return;
    kt_build_append_text(s, kb_string(before));
    append_header_value(s, &t->args[key]);
}

static void append_process_groups(collectives *c)
{
    kt_build_state *s = c->s;
    kt_build_append_text(s, kb_string(",\"pg_count\":"));
    kt_build_append_int(s, (int64_t)c->groups.count);
    kt_build_append_text(s, kb_string(",\"pg_config\":["));
    for (size_t i = 0; i < c->groups.count; i++) {
        operator_args t;
        read_operator_args(c, c->groups.data[i].row, &t);
        append_header_member(s, i ? ",{\"pg_name\":" : "{\"pg_name\":", &t, PG_NAME);
        append_header_member(s, ",\"pg_desc\":", &t, PG_TEXT);
        kt_build_append_text(s, kb_string(c->hccl ? ",\"backend_config\":\"mtia:hccl\""
                                               : ",\"backend_config\":\"cuda:nccl\""));
        append_header_member(s, ",\"pg_size\":", &t, GROUP_SIZE);
        append_header_member(s, ",\"ranks\":", &t, PG_RANKS);
        kt_build_append_text(s, kb_string("}"));
    }
    kt_build_append_text(s, kb_string("]"));
}

/* Appends rank and world size, which operators of the default group state. */
static void append_default_group(collectives *c)
{
    for (size_t i = 0; i < c->groups.count; i++) {
        operator_args t;
        read_operator_args(c, c->groups.data[i].row, &t);
        bool is_text = t.has[PG_TEXT] && t.args[PG_TEXT].type >= KINETO_ARG_STRING;
        if (!is_text || !kb_string_equal(t.args[PG_TEXT].text, kb_string("default_pg")))
            continue;
        append_header_member(c->s, ",\"rank\":", &t, RANK);
        append_header_member(c->s, ",\"world_size\":", &t, GROUP_SIZE);
        return;
    }
}

bool kt_build_header_has(const kt_build_state *s, const char *key)
{
    const kineto_trace *t = s->b->trace;
    for (size_t i = 0; i < t->metadata.count; i++)
        if (kb_string_equal(kineto_trace_string(t, t->metadata.data[i].key), kb_string(key)))
            return true;
    return false;
}

/* Adds "distributedInfo" to the header, unless the recording has several ranks. */
static void add_distributed_info(collectives *c)
{
    kt_build_state *s = c->s;
    if (!c->groups.count || c->several || kt_build_header_has(s, "distributedInfo"))
        return;
    s->text.count = 0;
    kt_build_append_text(s, kb_string(c->hccl ? "{\"backend\":\"hccl\"" : "{\"backend\":\"nccl\""));
    append_default_group(c);
    append_process_groups(c);
    kt_build_append_text(s, kb_string(",\"nccl_version\":\"unknown\"}"));
    kt_metadata(s->b, kb_string("distributedInfo"), (kineto_string){s->text.data, s->text.count});
}

/* ---- all ------------------------------------------------------------------------------------- */

/* Indexes collectives by external id. If an operator and an annotation have the same id,
 * the operator counts. */
static bool index_collective_ids(collectives *c)
{
    const kt_build_state *s = c->s;
    for (int annotations = 0; annotations < 2; annotations++)
        for (size_t i = 0; i < s->collectives.count; i++)
            if (s->collectives.data[i].is_operator != annotations &&
                !kb_map_insert(&c->by_id, s->collectives.data[i].external_id, i, NULL))
                return false;
    c->sets = malloc(s->collectives.count * sizeof *c->sets);
    for (size_t i = 0; c->sets && i < s->collectives.count; i++)
        c->sets[i] = KT_NONE;
    return c->sets != NULL;
}

void kt_build_collectives(kt_build_state *s)
{
    collectives c = {.s = s};
    if (!s->collectives.count)
        return;
    for (uint32_t i = 0; i < COPIED; i++)
        c.keys[i] = kt_string(s->b, kb_string(copied[i].key));
    c.keys[RANK] = kt_string(s->b, kb_string("Rank"));
    if (index_collective_ids(&c)) {
        add_sets_to_kernels(&c);
        add_distributed_info(&c);
    } else {
        s->out_of_memory = true;
    }
    kb_map_free(&c.by_id);
    kb_vec_free(&c.groups);
    free(c.sets);
}

/* ---- messages -------------------------------------------------------------------------------- */

static void add_message_flow(void *context, const kt_message_end *sent,
                             const kt_message_end *received)
{
    kt_build_state *s = context;
    kt_flow(s->b, KINETO_FLOW_USER, (uint64_t)sent->id, sent->row, true);
    kt_flow(s->b, KINETO_FLOW_USER, (uint64_t)sent->id, received->row, false);
}

void kt_build_messages(kt_build_state *s)
{
    kt_message_ends ends = {0};
    s->out_of_memory |= !kt_list_messages(s->b->trace, 0, 0, &ends);
    kt_join_messages(&ends, add_message_flow, s);
    kb_vec_free(&ends);
}
