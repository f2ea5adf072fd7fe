/* Collectives: the operator that starts one knows what it moves and among whom, the kernel knows
 * how long it took. Readers look for both on the kernel, so it gets a copy, as one set for all
 * kernels of an operator; and the header says which ranks there are. */
#include "trace/from_recording/build.h"

/* What is copied, and as Kineto does: members of a group are there together or not at all. */
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
enum { COPIED = KB_COUNT(copied), RANK = COPIED, KEYS }; /* the rank is for the header only */

/* What one operator says. */
typedef struct told {
    bool has[KEYS];
    kt_arg args[KEYS];
} told;

typedef struct process_group {
    uint64_t name_hash;
    kineto_row row; /* of the first operator that named it */
} process_group;

typedef struct collectives {
    kt_build_state *s;
    uint32_t keys[KEYS];
    kb_map by_id;   /* external id → index of s->collectives */
    uint32_t *sets; /* by that index; KT_NONE: not made yet */
    KB_VEC(process_group) groups;
    uint32_t process; /* of the trace, whose they are */
    bool several;     /* they are of more than one */
    bool hccl;
    bool any;
} collectives;

bool kt_build_is_collective(kineto_string name)
{
    static const char operator_name[] = "record_param_comms", annotation[] = "nccl:";
    return kb_string_equal(name, (kineto_string){operator_name, sizeof operator_name - 1}) ||
           (name.size > sizeof annotation - 1 &&
            memcmp(name.data, annotation, sizeof annotation - 1) == 0);
}

void kt_build_keep_collective(kt_build_state *s, const kf_event *e, const kt_row *row)
{
    kt_build_collective c = {row->external_id, (kineto_row)(s->b->trace->count - 1),
                             e->name.size && e->name.data[0] == 'r'};
    s->out_of_memory |= !kb_vec_push(&s->collectives, c);
}

/* ---- what an operator says ------------------------------------------------------------------- */

static uint32_t key_index(const collectives *c, uint32_t key)
{
    uint32_t i = 0;
    while (i < KEYS && c->keys[i] != key)
        i++;
    return i;
}

static void listen(const collectives *c, kineto_row row, told *t)
{
    kt_args args =
        kt_args_of(c->s->b->trace, kt_block_of(c->s->b->trace, row), row % KT_BLOCK_ROWS);
    kt_arg arg = {0};
    memset(t->has, 0, sizeof t->has);
    while (kt_args_step(&args, &arg)) {
        uint32_t i = key_index(c, arg.key);
        if (i < KEYS && !t->has[i]) {
            t->has[i] = true;
            t->args[i] = arg;
        }
    }
}

static bool group_is_whole(const told *t, int group)
{
    for (uint32_t i = 0; i < COPIED && group != ALONE; i++)
        if (copied[i].group == group && !t->has[i])
            return false;
    return true;
}

static void put(kt_builder *b, const kt_arg *arg)
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

static uint32_t make_set(const collectives *c, const told *t)
{
    for (uint32_t i = 0; i < COPIED; i++)
        if (t->has[i] && group_is_whole(t, copied[i].group))
            put(c->s->b, &t->args[i]);
    return kt_args_make_set(c->s->b);
}

/* ---- process groups -------------------------------------------------------------------------- */

static uint32_t process_of(const collectives *c, kineto_row row)
{
    const kineto_trace *t = c->s->b->trace;
    return t->tracks.data[kt_row_track(t, row)].process;
}

static void note_group(collectives *c, kineto_row row, const told *t)
{
    uint32_t process = process_of(c, row);
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

/* Its source may know it all itself. */
static bool knows_already(const collectives *c, const kt_block *block, uint32_t i)
{
    kt_args args = kt_args_of(c->s->b->trace, block, i);
    kt_arg arg = {0};
    while (kt_args_step(&args, &arg))
        if (key_index(c, arg.key) < COPIED)
            return true;
    return false;
}

/* The set of a collective; 0: it says nothing. */
static uint32_t set_of(collectives *c, uint64_t index)
{
    if (c->sets[index] == KT_NONE) {
        told t;
        kineto_row row = c->s->collectives.data[index].row;
        listen(c, row, &t);
        c->sets[index] = make_set(c, &t);
        if (c->sets[index])
            note_group(c, row, &t);
    }
    return c->sets[index];
}

static void visit_row(collectives *c, const kt_block *block, uint32_t i, kineto_row row)
{
    uint32_t kind = block->kind[i];
    bool device = kind == KINETO_KIND_CONCURRENT_KERNEL || kind == KINETO_KIND_COLLECTIVE_COMM;
    const uint64_t *index =
        device && block->external_id[i] ? kb_map_find(&c->by_id, block->external_id[i]) : NULL;
    uint32_t set = index ? set_of(c, *index) : 0;
    if (!set || knows_already(c, block, i))
        return;
    kineto_string name = kineto_trace_string(c->s->b->trace, block->name[i]);
    c->hccl |= name.size >= 6 && memcmp(name.data, "hccl::", 6) == 0;
    kt_row_add_set(c->s->b, row, set);
}

static void visit_rows(collectives *c)
{
    const kineto_trace *t = c->s->b->trace;
    for (size_t k = 0; k < t->blocks.count; k++)
        for (uint32_t i = 0; i < t->blocks.data[k]->count; i++)
            visit_row(c, t->blocks.data[k], i, (kineto_row)(k * KT_BLOCK_ROWS + i));
}

/* ---- the header ------------------------------------------------------------------------------ */

static void put_quoted(kt_build_state *s, kineto_string text)
{
    uint64_t replaced = 0;
    char *at = kt_build_room(s, text.size * 6 + 2);
    if (at)
        kt_build_advance(s, kb_json_escape(at, text, &replaced));
}

/* A number, a list that is JSON, or a text. */
static void put_value(kt_build_state *s, const kt_arg *arg)
{
    if (arg->type == KINETO_ARG_INT || arg->type == KINETO_ARG_UINT)
        kt_build_put_int(s, arg->i);
    else if (arg->text.size && arg->text.data[0] == '[' && kb_json_valid(arg->text))
        kt_build_put_text(s, arg->text);
    else
        put_quoted(s, arg->type >= KINETO_ARG_STRING ? arg->text : (kineto_string){"", 0});
}

static void put_member(kt_build_state *s, const char *before, const told *t, uint32_t key)
{
    if (!t->has[key])
        return;
    kt_build_put_text(s, kb_string(before));
    put_value(s, &t->args[key]);
}

static void put_groups(collectives *c)
{
    kt_build_state *s = c->s;
    kt_build_put_text(s, kb_string(",\"pg_count\":"));
    kt_build_put_int(s, (int64_t)c->groups.count);
    kt_build_put_text(s, kb_string(",\"pg_config\":["));
    for (size_t i = 0; i < c->groups.count; i++) {
        told t;
        listen(c, c->groups.data[i].row, &t);
        put_member(s, i ? ",{\"pg_name\":" : "{\"pg_name\":", &t, PG_NAME);
        put_member(s, ",\"pg_desc\":", &t, PG_TEXT);
        kt_build_put_text(s, kb_string(c->hccl ? ",\"backend_config\":\"mtia:hccl\""
                                               : ",\"backend_config\":\"cuda:nccl\""));
        put_member(s, ",\"pg_size\":", &t, GROUP_SIZE);
        put_member(s, ",\"ranks\":", &t, PG_RANKS);
        kt_build_put_text(s, kb_string("}"));
    }
    kt_build_put_text(s, kb_string("]"));
}

/* The default group tells this rank and how many there are. */
static void put_default_group(collectives *c)
{
    for (size_t i = 0; i < c->groups.count; i++) {
        told t;
        listen(c, c->groups.data[i].row, &t);
        bool is_text = t.has[PG_TEXT] && t.args[PG_TEXT].type >= KINETO_ARG_STRING;
        if (!is_text || !kb_string_equal(t.args[PG_TEXT].text, kb_string("default_pg")))
            continue;
        put_member(c->s, ",\"rank\":", &t, RANK);
        put_member(c->s, ",\"world_size\":", &t, GROUP_SIZE);
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

/* A recording of several ranks is no rank. */
static void put_header(collectives *c)
{
    kt_build_state *s = c->s;
    if (!c->groups.count || c->several || kt_build_header_has(s, "distributedInfo"))
        return;
    s->text.count = 0;
    kt_build_put_text(s, kb_string(c->hccl ? "{\"backend\":\"hccl\"" : "{\"backend\":\"nccl\""));
    put_default_group(c);
    put_groups(c);
    kt_build_put_text(s, kb_string(",\"nccl_version\":\"unknown\"}"));
    kt_metadata(s->b, kb_string("distributedInfo"), (kineto_string){s->text.data, s->text.count});
}

/* ---- all ------------------------------------------------------------------------------------- */

/* An id is the operator's, if an annotation has it too. */
static bool index_ids(collectives *c)
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
    if (index_ids(&c)) {
        visit_rows(&c);
        put_header(&c);
    } else {
        s->out_of_memory = true;
    }
    kb_map_free(&c.by_id);
    kb_vec_free(&c.groups);
    free(c.sets);
}
