/* kineto_execution_trace_save: operators of a trace as a graph in the schema of Chakra, as
 * PyTorch's ExecutionTraceObserver writes it, as far as the trace tells it. */
#include "analyze/summary/summary.h"
#include "trace/bytes/json_value.h"

#include <ckineto/function.h>

#include <time.h>

#define SCHEMA     "1.1.1-chakra.0.0.4"
#define ROOT       1u
#define USER_SCOPE 7 /* PyTorch's numbers of scopes */
#define BACKWARD   1

typedef struct graph {
    const kineto_trace *t;
    kb_sink *sink;
    kb_json j;
    uint32_t *node_of_row, *node_of_track; /* 0: none */
    kineto_row *rows;                      /* operators in the order of time */
    uint64_t count;
    kb_map forward; /* by row of a backward operator: its forward one, and one more */
    int64_t pid;
    uint32_t process;
} graph;

/* What arguments say of an operator's inputs, or outputs: JSON lists. */
typedef struct side {
    kineto_string dims, strides, types, values, ids;
} side;

/* What arguments of an operator say. */
typedef struct node {
    kineto_activity a;
    uint32_t id, parent;
    int64_t sequence;
    uint64_t function_id, forward_thread;
    side in, out;
} node;

static bool is(kineto_string s, const char *text) { return kb_string_equal(s, kb_string(text)); }

/* A list as it is, or an empty one where it is missing or broken. */
static void put_list(kb_json *j, kineto_string list)
{
    bool good = list.size && list.data[0] == '[' && kb_json_valid(list);
    kb_json_raw(j, good ? list : kb_string("[]"));
}

/* ---- inputs ---------------------------------------------------------------------------------- */

typedef enum input_kind { NOTHING, SCALAR, SCALARS, TENSORS, TENSOR } input_kind;

typedef struct input {
    input_kind kind;
    kineto_string type, value, dims, strides; /* type and value without quotes */
} input;

typedef struct input_walk {
    kt_items types, values, dims, strides, ids;
    bool ids_fit; /* there are as many as there are tensors */
} input_walk;

static size_t member_count(kineto_string list)
{
    kt_items items = kt_items_of(list);
    kineto_string member;
    size_t count = 0;
    while (kt_items_next(&items, &member))
        count++;
    return count;
}

static input_walk walk_side(const side *s)
{
    return (input_walk){kt_items_of(s->types),   kt_items_of(s->values), kt_items_of(s->dims),
                        kt_items_of(s->strides), kt_items_of(s->ids),    true};
}

static kineto_string text_of(kineto_string raw)
{
    bool escaped = kt_json_is_string(raw) && memchr(raw.data, '\\', raw.size);
    return kt_value_text(raw, escaped ? kt_text_room(raw.size) : NULL);
}

static bool next_input(input_walk *w, input *in)
{
    kineto_string type, value = {"", 0};
    *in = (input){.kind = NOTHING};
    if (!kt_items_next(&w->types, &type))
        return false;
    (void)kt_items_next(&w->values, &value);
    (void)kt_items_next(&w->dims, &in->dims);
    (void)kt_items_next(&w->strides, &in->strides);
    in->type = text_of(type);
    in->value = text_of(value);
    bool told = in->value.size > 0;
    in->kind = is(in->type, "Scalar")       ? told ? SCALAR : NOTHING
               : is(in->type, "ScalarList") ? told ? SCALARS : NOTHING
               : is(in->type, "TensorList") ? TENSORS
               : in->type.size              ? TENSOR
                                            : NOTHING;
    return true;
}

/* Tensors that are told; ids of long lists, and of lists with undefined tensors, are of others too.
 */
static size_t tensor_count(const side *s)
{
    input_walk w = walk_side(s);
    input in;
    size_t count = 0;
    while (next_input(&w, &in))
        count += in.kind == TENSOR ? 1 : in.kind == TENSORS ? member_count(in.dims) : 0;
    return count;
}

static bool is_bool(kineto_string s) { return is(s, "True") || is(s, "False"); }

static const char *scalar_type(kineto_string s)
{
    if (is_bool(s))
        return "Bool";
    for (size_t i = 0; i < s.size; i++)
        if (s.data[i] != '-' && (s.data[i] < '0' || s.data[i] > '9'))
            return "Double"; /* "1.", "1e-3", "inf" */
    return "Int";
}

static void put_scalar(kb_json *j, kineto_string s)
{
    kineto_string shorter = {s.data, s.size - (s.size && s.data[s.size - 1] == '.')};
    if (is_bool(s))
        kb_json_bool(j, is(s, "True"));
    else if (kb_json_valid(shorter))
        kb_json_raw(j, shorter); /* "1." is no JSON, "1" is */
    else
        kb_json_string(j, s);
}

static void put_type_text(graph *g, const char *before, kineto_string middle, const char *behind)
{
    kb_json *j = &g->j;
    char text[160];
    snprintf(text, sizeof text, "%s%.*s%s", before, (int)KB_MIN(middle.size, (size_t)100),
             middle.data, behind);
    kb_json_string_z(j, text);
}

/* Parts of an input that is a list: its tensors, in JSON; or scalars as PyTorch prints them, "[1,
 * 2., True]", which is not JSON. */
typedef struct part_walk {
    kt_items tensors;
    kineto_string scalars; /* after the bracket */
    bool of_scalars;
} part_walk;

static part_walk walk_parts(const input *in)
{
    part_walk w = {.tensors = kt_items_of(in->dims), .of_scalars = in->kind == SCALARS};
    bool is_list = w.of_scalars && kt_value_is_list(in->value);
    w.scalars =
        is_list ? (kineto_string){in->value.data + 1, in->value.size - 1} : (kineto_string){"", 0};
    return w;
}

static bool next_part(part_walk *w, kineto_string *part)
{
    kineto_string *rest = &w->scalars;
    size_t size = 0;
    if (!w->of_scalars)
        return kt_items_next(&w->tensors, part);
    while (rest->size && (rest->data[0] == ' ' || rest->data[0] == ','))
        *rest = (kineto_string){rest->data + 1, rest->size - 1};
    while (size < rest->size && !strchr(" ,]", rest->data[size]))
        size++;
    *part = (kineto_string){rest->data, size};
    *rest = (kineto_string){rest->data + size, rest->size - size};
    return size > 0;
}

/* "GenericList[Int,Int]" */
static void put_list_type(graph *g, const input *in)
{
    char text[512] = "GenericList[";
    size_t used = strlen(text);
    part_walk rest = walk_parts(in);
    kineto_string member;
    for (bool first = true; next_part(&rest, &member) && used + 16 < sizeof text; first = false)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", first ? "" : ",",
                                 in->kind == SCALARS ? scalar_type(member) : "Tensor()");
    snprintf(text + used, sizeof text - used, "]");
    kb_json_string_z(&g->j, text);
}

static void put_type(graph *g, const input *in)
{
    if (in->kind == TENSOR)
        put_type_text(g, "Tensor(", in->type, ")");
    else if (in->kind == SCALAR)
        kb_json_string_z(&g->j, scalar_type(in->value));
    else if (in->kind == NOTHING)
        kb_json_string_z(&g->j, "None");
    else
        put_list_type(g, in);
}

static int64_t element_bytes(kineto_string type)
{
    static const struct {
        const char *name;
        int bytes;
    } types[] = {
#define KINETO_X(name, value, text, bytes) {text, bytes},
        KINETO_DTYPE_MAP(KINETO_X)
#undef KINETO_X
    };
    for (size_t i = 0; i < KB_COUNT(types); i++)
        if (is(type, types[i].name))
            return types[i].bytes;
    return 0;
}

/* A tensor's id, its memory's, where in it; 0 where the trace does not tell. */
static void put_ids(kb_json *j, input_walk *w)
{
    kineto_string entry = {"", 0}, number;
    if (w->ids_fit)
        (void)kt_items_next(&w->ids, &entry);
    kt_items parts = kt_items_of(entry);
    for (int i = 0; i < 3; i++) {
        bool is_number = kt_items_next(&parts, &number) && !kt_value_is_list(number);
        kb_json_raw(j, is_number ? kt_value_text(number, NULL) : kb_string("0"));
    }
}

/* [tensor, storage, offset, elements, bytes of one, device]: 0 and "" is what a trace does not
 * tell. */
static void put_tensor(kb_json *j, input_walk *w, kineto_string dims, kineto_string type)
{
    int64_t elements;
    if (!kt_sizes_product(dims, &elements))
        elements = 1;
    kb_json_array_begin(j);
    put_ids(j, w);
    kb_json_int(j, elements);
    kb_json_int(j, element_bytes(type));
    kb_json_string_z(j, "");
    kb_json_array_end(j);
}

static void put_value(graph *g, input_walk *w, const input *in)
{
    kb_json *j = &g->j;
    part_walk rest = walk_parts(in);
    kineto_string member;
    if (in->kind == NOTHING)
        kb_json_string_z(j, "<None>");
    else if (in->kind == SCALAR)
        put_scalar(j, in->value);
    else if (in->kind == TENSOR)
        put_tensor(j, w, in->dims, in->type);
    if (in->kind != SCALARS && in->kind != TENSORS)
        return;
    kb_json_array_begin(j);
    while (next_part(&rest, &member))
        if (in->kind == SCALARS)
            put_scalar(j, member);
        else
            put_tensor(j, w, member, (kineto_string){"", 0});
    kb_json_array_end(j);
}

/* Shapes and strides of lists of numbers are empty ones, as many as there are numbers. */
static void put_sizes(graph *g, const input *in, kineto_string sizes)
{
    part_walk rest = walk_parts(in);
    kineto_string member;
    if (in->kind != SCALARS) {
        put_list(&g->j, in->kind == NOTHING ? kb_string("[]") : sizes);
        return;
    }
    kb_json_array_begin(&g->j);
    while (next_part(&rest, &member))
        kb_json_raw(&g->j, kb_string("[]"));
    kb_json_array_end(&g->j);
}

static void put_side(graph *g, const side *s)
{
    static const char *const keys[] = {"values", "shapes", "types", "strides"};
    bool ids_fit = member_count(s->ids) == tensor_count(s);
    kb_json_object_begin(&g->j);
    for (int part = 0; part < 4; part++) {
        input_walk w = walk_side(s);
        input in;
        w.ids_fit = ids_fit;
        kb_json_key_z(&g->j, keys[part]);
        kb_json_array_begin(&g->j);
        while (next_input(&w, &in)) {
            if (part == 0)
                put_value(g, &w, &in);
            else if (part == 2)
                put_type(g, &in);
            else
                put_sizes(g, &in, part == 1 ? in.dims : in.strides);
        }
        kb_json_array_end(&g->j);
    }
    kb_json_object_end(&g->j);
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static void put_attribute(graph *g, const char *name, const char *type, int64_t number)
{
    kb_json *j = &g->j;
    kb_json_object_begin(j);
    kb_json_put_string(j, "name", kb_string(name));
    kb_json_put_string(j, "type", kb_string(type));
    if (type[0] == 's')
        kb_json_put_string(j, "value", kb_string(""));
    else if (type[0] == 'u')
        kb_json_put_uint(j, "value", (uint64_t)number);
    else
        kb_json_put_int(j, "value", number);
    kb_json_object_end(j);
}

static void put_node(graph *g, const node *n, kineto_string name, int scope, int64_t tid,
                     uint32_t forward)
{
    static const char *const texts[] = {"op_schema", "kernel_backend", "kernel_file",
                                        "tensor_range"};
    kb_json *j = &g->j;
    kb_json_newline(j);
    kb_json_object_begin(j);
    kb_json_put_uint(j, "id", n->id);
    kb_json_put_string(j, "name", name);
    kb_json_put_uint(j, "ctrl_deps", n->parent);
    kb_json_key_z(j, "inputs");
    put_side(g, &n->in);
    kb_json_key_z(j, "outputs");
    put_side(g, &n->out);
    kb_json_key_z(j, "attrs");
    kb_json_array_begin(j);
    put_attribute(g, "rf_id", "uint64", (int64_t)n->function_id);
    put_attribute(g, "fw_parent", "uint64", forward);
    put_attribute(g, "seq_id", "int64", n->sequence);
    put_attribute(g, "scope", "uint64", scope);
    put_attribute(g, "tid", "uint64", tid);
    put_attribute(g, "fw_tid", "uint64", (int64_t)n->forward_thread);
    for (size_t i = 0; i < KB_COUNT(texts); i++)
        put_attribute(g, texts[i], "string", 0);
    kb_json_array_end(j);
    kb_json_object_end(j);
}

static void put_root(graph *g, uint32_t id, uint32_t parent, const char *what, int64_t tid)
{
    node n = {.id = id, .parent = parent, .sequence = -1};
    char name[64];
    snprintf(name, sizeof name, "[pytorch|profiler|execution_trace|%s]", what);
    put_node(g, &n, kb_string(name), USER_SCOPE, tid, 0);
}

static int64_t number(const kineto_arg *arg, int64_t otherwise)
{
    int64_t value;
    return kt_arg_whole(arg, &value) ? value : otherwise;
}

/* The list that a key is for; NULL: none. */
static kineto_string *list_of(node *n, kineto_string key)
{
    const struct {
        const char *key;
        kineto_string *list;
    } lists[] = {{"Input Dims", &n->in.dims},        {"Output Dims", &n->out.dims},
                 {"Input Strides", &n->in.strides},  {"Output Strides", &n->out.strides},
                 {"Input type", &n->in.types},       {"Output type", &n->out.types},
                 {"Concrete Inputs", &n->in.values}, {"Concrete Outputs", &n->out.values},
                 {"Input Tensors", &n->in.ids},      {"Output Tensors", &n->out.ids}};
    for (size_t i = 0; i < KB_COUNT(lists); i++)
        if (is(key, lists[i].key))
            return lists[i].list;
    return NULL;
}

static void read_node(const graph *g, kineto_row row, node *n)
{
    kineto_args_iterator it;
    kineto_arg arg;
    *n = (node){.id = g->node_of_row[row], .sequence = -1};
    kineto_trace_get(g->t, row, &n->a);
    kineto_args_begin(g->t, row, &it);
    while (kineto_args_next(&it, &arg)) {
        kineto_string *list = list_of(n, arg.key);
        if (list)
            *list = arg.type >= KINETO_ARG_STRING ? arg.text : (kineto_string){"", 0};
        else if (is(arg.key, "Sequence number"))
            n->sequence = number(&arg, -1);
        else if (is(arg.key, "Fwd thread id"))
            n->forward_thread = (uint64_t)number(&arg, 0);
        else if (is(arg.key, "Record function id"))
            n->function_id = (uint64_t)number(&arg, 0);
    }
    if (ka_engine_frame_name(n->a.name).data) { /* a trace repeats there what is the function's */
        n->sequence = -1;
        n->forward_thread = 0;
    }
    if (!n->function_id) /* nobody asked for ids when it was recorded */
        n->function_id = n->a.external_id;
}

static int scope_of(const graph *g, const node *n)
{
    if (n->a.kind == KINETO_KIND_USER_ANNOTATION)
        return USER_SCOPE;
    kineto_activity parent;
    kineto_trace_get(g->t, kineto_trace_parent(g->t, n->a.row), &parent);
    kineto_string framed = ka_engine_frame_name(parent.name);
    return framed.data && kb_string_equal(framed, n->a.name) ? BACKWARD : 0;
}

/* ---- the graph ------------------------------------------------------------------------------- */

static bool is_operator(const kineto_activity *a)
{
    return a->form == KINETO_FORM_SLICE &&
           !(a->kind != KINETO_KIND_CPU_OP && a->kind != KINETO_KIND_USER_ANNOTATION);
}

/* Operators in the order of time; numbers for them and, before its first one, for each thread. */
static kineto_status number_nodes(graph *g, kineto_error *err)
{
    const kineto_row *order = kineto_trace_time_order(g->t);
    uint64_t rows = kineto_trace_count(g->t);
    uint32_t next = ROOT + 1;
    for (uint64_t i = 0; order && i < rows; i++) {
        kineto_activity a;
        kineto_track track;
        int64_t pid;
        kineto_trace_get(g->t, order[i], &a);
        if (!is_operator(&a) || kt_track_device(g->t, a.track, &pid))
            continue;
        if (!g->node_of_track[a.track]) {
            kineto_trace_track(g->t, a.track, &track);
            if (g->count && track.process != g->process)
                return kb_fail(err, KINETO_E_UNSUPPORTED,
                               "an execution trace is of one process, and there are several: "
                               "choose one");
            g->process = track.process;
            g->pid = pid;
            g->node_of_track[a.track] = next++;
        }
        g->node_of_row[order[i]] = next++;
        g->rows[g->count++] = order[i];
    }
    return order || !rows ? KINETO_OK : kb_fail(err, KINETO_E_MEMORY, "no memory for a graph");
}

static bool join_flows(graph *g)
{
    uint64_t flows = kineto_trace_flow_count(g->t);
    for (uint64_t i = 0; i < flows; i++) {
        kineto_flow f;
        kineto_trace_flow(g->t, i, &f);
        if (f.type == KINETO_FLOW_FWD_BWD && f.from != KINETO_NO_ROW && f.to != KINETO_NO_ROW &&
            !kb_map_insert(&g->forward, f.to, f.from, NULL))
            return false;
    }
    return true;
}

static uint32_t parent_of(const graph *g, const kineto_activity *a)
{
    kineto_row at = kineto_trace_parent(g->t, a->row);
    while (at != KINETO_NO_ROW && !g->node_of_row[at])
        at = kineto_trace_parent(g->t, at);
    return at == KINETO_NO_ROW ? g->node_of_track[a->track] : g->node_of_row[at];
}

static void put_nodes(graph *g)
{
    uint32_t last = ROOT;
    put_root(g, ROOT, ROOT, "process", 0);
    for (uint64_t i = 0; i < g->count; i++) {
        node n;
        kineto_track track;
        read_node(g, g->rows[i], &n);
        kineto_trace_track(g->t, n.a.track, &track);
        if (g->node_of_track[n.a.track] == last + 1)
            put_root(g, ++last, ROOT, "thread", track.id);
        last = n.id;
        n.parent = parent_of(g, &n.a);
        const uint64_t *forward = kb_map_find(&g->forward, n.a.row);
        put_node(g, &n, n.a.name, scope_of(g, &n), track.id,
                 forward ? g->node_of_row[*forward] : 0);
    }
}

static void put_document(graph *g)
{
    int64_t start_ns, end_ns;
    char when[32] = "";
    struct tm parts;
    kb_json *j = &g->j;
    kineto_trace_window(g->t, &start_ns, &end_ns);
    time_t seconds = (time_t)(start_ns / 1000000000);
    if (gmtime_r(&seconds, &parts))
        strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S", &parts);
    kb_json_object_begin(j);
    kb_json_put_string(j, "schema", kb_string(SCHEMA));
    kb_json_put_int(j, "pid", g->pid);
    kb_json_put_string(j, "time", kb_string(when));
    kb_json_put_int(j, "start_ts", start_ns / 1000000);
    kb_json_key_z(j, "nodes");
    kb_json_array_begin(j);
    put_nodes(g);
    kb_json_array_end(j);
    kb_json_put_int(j, "finish_ts", end_ns / 1000000);
    kb_json_object_end(j);
    kb_sink_write(g->sink, "\n", 1);
}

kineto_status kineto_execution_trace_save(const kineto_trace *trace, const char *path,
                                          kineto_error *err)
{
    if (!trace || !path)
        return kb_fail(err, KINETO_E_ARGUMENT, "a trace and a path are needed");
    graph g = {.t = trace};
    uint64_t rows = KB_MAX(kineto_trace_count(trace), 1u);
    g.node_of_row = calloc(rows, sizeof *g.node_of_row);
    g.rows = malloc(rows * sizeof *g.rows);
    g.node_of_track = calloc((size_t)kineto_trace_track_count(trace) + 1, sizeof *g.node_of_track);
    kineto_status status = KINETO_OK;
    if (!g.node_of_row || !g.rows || !g.node_of_track || !kt_prepare(trace, true, false) ||
        !join_flows(&g))
        status = kb_fail(err, KINETO_E_MEMORY, "no memory for an execution trace");
    if (status == KINETO_OK)
        status = number_nodes(&g, err);
    if (status == KINETO_OK && !g.count)
        status = kb_fail(err, KINETO_E_NOT_FOUND, "there are no operators in it");
    if (status == KINETO_OK)
        status = kb_sink_open_file(path, kb_compression_of(path), &g.sink, err);
    if (status == KINETO_OK) {
        kb_json_init(&g.j, g.sink);
        put_document(&g);
        status = kb_sink_close(g.sink, err);
    }
    free(g.node_of_row);
    free(g.node_of_track);
    free(g.rows);
    kb_map_free(&g.forward);
    return status;
}
