/* kineto_execution_trace_save: the operators of a trace as a graph in the Chakra schema, in the
 * form of PyTorch's ExecutionTraceObserver
 * (torch/csrc/profiler/standalone/execution_trace_observer.cpp). Values that a trace does not have
 * are 0 or empty. Nodes are numbered in the order of time; the node of a thread comes just before
 * the first operator of that thread. */
#include "analyze/summary/summary.h"
#include "trace/bytes/json_value.h"

#include <ckineto/function.h>

#include <time.h>

#define SCHEMA    "1.1.1-chakra.0.0.4"
#define ROOT_NODE 1u
/* PyTorch's numbers of scopes. */
#define USER_SCOPE 7
#define BACKWARD   1

/* The graph of one trace while it is written. */
typedef struct execution_graph {
    const kineto_trace *t;
    kb_sink *sink;
    kb_json j;
    uint32_t *node_of_row, *node_of_track; /* 0: none */
    kineto_row *rows;                      /* operators in the order of time */
    uint64_t count;
    kb_map forward; /* by row of a backward operator: its forward one, and one more */
    int64_t pid;
    uint32_t process;
} execution_graph;

/* The inputs or the outputs of an operator: JSON lists of its arguments, parallel to each other
 * except `ids`, which has an entry for each tensor. */
typedef struct tensor_lists {
    kineto_string dims, strides, types, values, ids;
} tensor_lists;

/* An operator with all that its arguments hold; the root nodes have only a name. */
typedef struct graph_node {
    kineto_activity a;
    uint32_t id, parent;
    int64_t sequence;
    uint64_t function_id, forward_thread;
    tensor_lists in, out;
} graph_node;

static bool is_text(kineto_string s, const char *text)
{
    return kb_string_equal(s, kb_string(text));
}

/* Writes a list as it stands in the trace; an empty one if it is missing or is not valid JSON. */
static void write_list(kb_json *j, kineto_string list)
{
    bool good = list.size && list.data[0] == '[' && kb_json_valid(list);
    kb_json_raw(j, good ? list : kb_string("[]"));
}

/* ---- inputs ---------------------------------------------------------------------------------- */

typedef enum input_kind {
    INPUT_NONE,
    INPUT_SCALAR,
    INPUT_SCALARS,
    INPUT_TENSORS,
    INPUT_TENSOR
} input_kind;

/* One input or output. type and value are without quotes. */
typedef struct operator_input {
    input_kind kind;
    kineto_string type, value, dims, strides;
} operator_input;

/* An iterator over parallel lists. */
typedef struct input_walk {
    kt_items types, values, dims, strides, ids;
    bool ids_fit; /* one id for each tensor: else none can be assigned */
} input_walk;

/* Members of a JSON list; 0 for anything else. */
static size_t count_members(kineto_string list)
{
    kt_items items = kt_items_of(list);
    kineto_string member;
    size_t count = 0;
    while (kt_items_next(&items, &member))
        count++;
    return count;
}

static input_walk walk_inputs(const tensor_lists *s)
{
    return (input_walk){kt_items_of(s->types),   kt_items_of(s->values), kt_items_of(s->dims),
                        kt_items_of(s->strides), kt_items_of(s->ids),    true};
}

/* The text of a JSON string without quotes and escapes; temporary room of the thread holds it. */
static kineto_string decode_text(kineto_string raw)
{
    bool escaped = kt_json_is_string(raw) && memchr(raw.data, '\\', raw.size);
    return kt_value_text(raw, escaped ? kt_text_room(raw.size) : NULL);
}

/* The kind of an input by the type that PyTorch recorded. */
static input_kind find_input_kind(kineto_string type, bool has_value)
{
    if (is_text(type, "Scalar"))
        return has_value ? INPUT_SCALAR : INPUT_NONE;
    if (is_text(type, "ScalarList"))
        return has_value ? INPUT_SCALARS : INPUT_NONE;
    if (is_text(type, "TensorList"))
        return INPUT_TENSORS;
    return type.size ? INPUT_TENSOR : INPUT_NONE;
}

/* The next input; false at the end. The list of types decides how many there are. */
static bool next_input(input_walk *w, operator_input *in)
{
    kineto_string type, value = {"", 0};
    *in = (operator_input){.kind = INPUT_NONE};
    if (!kt_items_next(&w->types, &type))
        return false;
    (void)kt_items_next(&w->values, &value);
    (void)kt_items_next(&w->dims, &in->dims);
    (void)kt_items_next(&w->strides, &in->strides);
    in->type = decode_text(type);
    in->value = decode_text(value);
    in->kind = find_input_kind(in->type, in->value.size > 0);
    return true;
}

/* Tensors that are listed. There may be more ids than that: those of long lists, which are cut, and
 * of * lists with undefined tensors. */
static size_t count_tensors(const tensor_lists *s)
{
    input_walk w = walk_inputs(s);
    operator_input in;
    size_t count = 0;
    while (next_input(&w, &in))
        count += in.kind == INPUT_TENSOR    ? 1
                 : in.kind == INPUT_TENSORS ? count_members(in.dims)
                                            : 0;
    return count;
}

static bool is_bool_text(kineto_string s) { return is_text(s, "True") || is_text(s, "False"); }

/* The type of a printed number: "1." and "1e-3" and "inf" are doubles. */
static const char *get_scalar_type(kineto_string s)
{
    if (is_bool_text(s))
        return "Bool";
    for (size_t i = 0; i < s.size; i++)
        if (s.data[i] != '-' && !kb_is_digit(s.data[i]))
            return "Double";
    return "Int";
}

/* "1." is not valid JSON but "1" is; "inf" becomes a string. */
static void write_scalar(kb_json *j, kineto_string s)
{
    kineto_string shorter = {s.data, s.size - (s.size && s.data[s.size - 1] == '.')};
    if (is_bool_text(s))
        kb_json_bool(j, is_text(s, "True"));
    else if (kb_json_valid(shorter))
        kb_json_raw(j, shorter);
    else
        kb_json_string(j, s);
}

static void write_wrapped_type(execution_graph *g, const char *before, kineto_string middle,
                               const char *after)
{
    kb_json *j = &g->j;
    char text[160];
    snprintf(text, sizeof text, "%s%.*s%s", before, (int)KB_MIN(middle.size, (size_t)100),
             middle.data, after);
    kb_json_string_z(j, text);
}

/* The elements of an input that is a list: tensors, which are JSON; or scalars as PyTorch prints
 * them, "[1, 2., True]", which is not. */
typedef struct element_walk {
    kt_items tensors;
    kineto_string scalars; /* after the bracket */
    bool of_scalars;
} element_walk;

static element_walk walk_elements(const operator_input *in)
{
    element_walk w = {.tensors = kt_items_of(in->dims), .of_scalars = in->kind == INPUT_SCALARS};
    bool is_list = w.of_scalars && kt_value_is_list(in->value);
    w.scalars =
        is_list ? (kineto_string){in->value.data + 1, in->value.size - 1} : (kineto_string){"", 0};
    return w;
}

/* The next element as a text; false at the end. */
static bool next_element(element_walk *w, kineto_string *part)
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

/* "GenericList[Int,Int]". Long lists are cut to the size of the buffer. */
static void write_list_type(execution_graph *g, const operator_input *in)
{
    char text[512] = "GenericList[";
    size_t used = strlen(text);
    element_walk rest = walk_elements(in);
    kineto_string member;
    for (bool first = true; next_element(&rest, &member) && used + 16 < sizeof text; first = false)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", first ? "" : ",",
                                 in->kind == INPUT_SCALARS ? get_scalar_type(member) : "Tensor()");
    snprintf(text + used, sizeof text - used, "]");
    kb_json_string_z(&g->j, text);
}

/* The type in the spelling of the observer: "Tensor(float)", "Int", "GenericList[…]". */
static void write_input_type(execution_graph *g, const operator_input *in)
{
    if (in->kind == INPUT_TENSOR)
        write_wrapped_type(g, "Tensor(", in->type, ")");
    else if (in->kind == INPUT_SCALAR)
        kb_json_string_z(&g->j, get_scalar_type(in->value));
    else if (in->kind == INPUT_NONE)
        kb_json_string_z(&g->j, "None");
    else
        write_list_type(g, in);
}

/* Bytes of one element by the name of its type; 0: unknown. */
static int64_t get_element_bytes(kineto_string type)
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
        if (is_text(type, types[i].name))
            return types[i].bytes;
    return 0;
}

/* The id of a tensor, the id of its storage and the offset in it; 0 for each that is unknown. */
static void write_tensor_ids(kb_json *j, input_walk *w)
{
    kineto_string entry = {"", 0}, number;
    if (w->ids_fit)
        (void)kt_items_next(&w->ids, &entry);
    kt_items parts = kt_items_of(entry);
    for (int i = 0; i < 3; i++) {
        bool is_number =
            kt_items_next(&parts, &number) && !kt_value_is_list(number);
        kb_json_raw(j, is_number ? kt_value_text(number, NULL) : kb_string("0"));
    }
}

/* [tensor, storage, offset, elements, bytes of one, device]: 0 and "" stand for unknown. */
static void write_tensor(kb_json *j, input_walk *w, kineto_string dims, kineto_string type)
{
    int64_t elements;
    if (!kt_sizes_product(dims, &elements))
        elements = 1;
    kb_json_array_begin(j);
    write_tensor_ids(j, w);
    kb_json_int(j, elements);
    kb_json_int(j, get_element_bytes(type));
    kb_json_string_z(j, "");
    kb_json_array_end(j);
}

static void write_input_value(execution_graph *g, input_walk *w, const operator_input *in)
{
    kb_json *j = &g->j;
    element_walk rest = walk_elements(in);
    kineto_string member;
    if (in->kind == INPUT_NONE)
        kb_json_string_z(j, "<None>");
    else if (in->kind == INPUT_SCALAR)
        write_scalar(j, in->value);
    else if (in->kind == INPUT_TENSOR)
        write_tensor(j, w, in->dims, in->type);
    if (in->kind != INPUT_SCALARS && in->kind != INPUT_TENSORS)
        return;
    kb_json_array_begin(j);
    while (next_element(&rest, &member))
        if (in->kind == INPUT_SCALARS)
            write_scalar(j, member);
        else
            write_tensor(j, w, member, (kineto_string){"", 0});
    kb_json_array_end(j);
}

/* Shapes or strides of an input; for a list of numbers an empty list for each of them. */
static void write_input_sizes(execution_graph *g, const operator_input *in, kineto_string sizes)
{
    element_walk rest = walk_elements(in);
    kineto_string member;
    if (in->kind != INPUT_SCALARS) {
        write_list(&g->j, in->kind == INPUT_NONE ? kb_string("[]") : sizes);
        return;
    }
    kb_json_array_begin(&g->j);
    while (next_element(&rest, &member))
        kb_json_raw(&g->j, kb_string("[]"));
    kb_json_array_end(&g->j);
}

/* The object "inputs" or "outputs": the inputs are walked once for each of its four lists. */
static void write_inputs(execution_graph *g, const tensor_lists *s)
{
    static const char *const keys[] = {"values", "shapes", "types", "strides"};
    bool ids_fit = count_members(s->ids) == count_tensors(s);
    kb_json_object_begin(&g->j);
    for (int part = 0; part < 4; part++) {
        input_walk w = walk_inputs(s);
        operator_input in;
        w.ids_fit = ids_fit;
        kb_json_key_z(&g->j, keys[part]);
        kb_json_array_begin(&g->j);
        while (next_input(&w, &in)) {
            if (part == 0)
                write_input_value(g, &w, &in);
            else if (part == 2)
                write_input_type(g, &in);
            else
                write_input_sizes(g, &in, part == 1 ? in.dims : in.strides);
        }
        kb_json_array_end(&g->j);
    }
    kb_json_object_end(&g->j);
}

/* ---- nodes ----------------------------------------------------------------------------------- */

/* One entry of "attrs". The first letter of the type decides how the value is written. */
static void write_attribute(execution_graph *g, const char *name, const char *type,
                            int64_t number)
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

static void write_node(execution_graph *g, const graph_node *n, kineto_string name, int scope,
                       int64_t tid, uint32_t forward)
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
    write_inputs(g, &n->in);
    kb_json_key_z(j, "outputs");
    write_inputs(g, &n->out);
    kb_json_key_z(j, "attrs");
    kb_json_array_begin(j);
    write_attribute(g, "rf_id", "uint64", (int64_t)n->function_id);
    write_attribute(g, "fw_parent", "uint64", forward);
    write_attribute(g, "seq_id", "int64", n->sequence);
    write_attribute(g, "scope", "uint64", scope);
    write_attribute(g, "tid", "uint64", tid);
    write_attribute(g, "fw_tid", "uint64", (int64_t)n->forward_thread);
    for (size_t i = 0; i < KB_COUNT(texts); i++)
        write_attribute(g, texts[i], "string", 0);
    kb_json_array_end(j);
    kb_json_object_end(j);
}

/* The node of the process or of a thread. */
static void write_root_node(execution_graph *g, uint32_t id, uint32_t parent, const char *what,
                            int64_t tid)
{
    graph_node n = {.id = id, .parent = parent, .sequence = -1};
    char name[64];
    snprintf(name, sizeof name, "[pytorch|profiler|execution_trace|%s]", what);
    write_node(g, &n, kb_string(name), USER_SCOPE, tid, 0);
}

static int64_t get_whole_number(const kineto_arg *arg, int64_t otherwise)
{
    int64_t value;
    return kt_arg_whole(arg, &value) ? value : otherwise;
}

/* The list of a node that an argument's key stands for; NULL: the key is another one. */
static kineto_string *list_for_key(graph_node *n, kineto_string key)
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
        if (is_text(key, lists[i].key))
            return lists[i].list;
    return NULL;
}

/* Collects the arguments of a row. The engine's frames repeat the numbers of the function inside,
 * so that theirs are ignored. */
static void read_graph_node(const execution_graph *g, kineto_row row, graph_node *n)
{
    kineto_args_iterator it;
    kineto_arg arg;
    *n = (graph_node){.id = g->node_of_row[row], .sequence = -1};
    kineto_trace_get(g->t, row, &n->a);
    kineto_args_begin(g->t, row, &it);
    while (kineto_args_next(&it, &arg)) {
        kineto_string *list = list_for_key(n, arg.key);
        if (list)
            *list = arg.type >= KINETO_ARG_STRING ? arg.text : (kineto_string){"", 0};
        else if (is_text(arg.key, "Sequence number"))
            n->sequence = get_whole_number(&arg, -1);
        else if (is_text(arg.key, "Fwd thread id"))
            n->forward_thread = (uint64_t)get_whole_number(&arg, 0);
        else if (is_text(arg.key, "Record function id"))
            n->function_id = (uint64_t)get_whole_number(&arg, 0);
    }
    if (ka_engine_frame_name(n->a.name).data) {
        n->sequence = -1;
        n->forward_thread = 0;
    }
    if (!n->function_id) /* recorded without ids of functions */
        n->function_id = n->a.external_id;
}

/* PyTorch's scope of an operator. Backward functions are those inside of an engine frame with their
 * name. */
static int find_node_scope(const execution_graph *g, const graph_node *n)
{
    if (n->a.kind == KINETO_KIND_USER_ANNOTATION)
        return USER_SCOPE;
    kineto_activity parent;
    kineto_trace_get(g->t, kineto_trace_parent(g->t, n->a.row), &parent);
    kineto_string framed = ka_engine_frame_name(parent.name);
    return framed.data && kb_string_equal(framed, n->a.name) ? BACKWARD : 0;
}

/* ---- the graph ------------------------------------------------------------------------------- */

static bool is_graph_operator(const kineto_activity *a)
{
    return a->form == KINETO_FORM_SLICE &&
           !(a->kind != KINETO_KIND_CPU_OP && a->kind != KINETO_KIND_USER_ANNOTATION);
}

/* Lists the operators in the order of time and numbers them; each thread gets a number just before
 * its first operator. Fails if there are several processes. */
static kineto_status number_nodes(execution_graph *g, kineto_error *err)
{
    const kineto_row *order = kineto_trace_time_order(g->t);
    uint64_t rows = kineto_trace_count(g->t);
    uint32_t next = ROOT_NODE + 1;
    for (uint64_t i = 0; order && i < rows; i++) {
        kineto_activity a;
        kineto_track track;
        int64_t pid;
        kineto_trace_get(g->t, order[i], &a);
        if (!is_graph_operator(&a) || kt_track_device(g->t, a.track, &pid))
            continue;
        if (!g->node_of_track[a.track]) {
            kineto_trace_track(g->t, a.track, &track);
            if (g->count && track.process != g->process)
                return kb_fail(err, KINETO_E_UNSUPPORTED,
                               "an execution trace covers one process, and the trace has several; "
                               "select one");
            g->process = track.process;
            g->pid = pid;
            g->node_of_track[a.track] = next++;
        }
        g->node_of_row[order[i]] = next++;
        KB_ASSERT(g->count < rows);
        g->rows[g->count++] = order[i];
    }
    return order || !rows ? KINETO_OK
                          : kb_fail_memory(err, "numbering operators");
}

/* Maps backward operators to their forward ones. False: out of memory. */
static bool index_forward_flows(execution_graph *g)
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

/* The nearest enclosing operator, else the node of the thread. */
static uint32_t find_parent_node(const execution_graph *g, const kineto_activity *a)
{
    KB_ASSERT(g->node_of_track[a->track]);
    kineto_row at = kineto_trace_parent(g->t, a->row);
    while (at != KINETO_NO_ROW && !g->node_of_row[at])
        at = kineto_trace_parent(g->t, at);
    return at == KINETO_NO_ROW ? g->node_of_track[a->track] : g->node_of_row[at];
}

/* Writes all nodes in the order of their numbers, which number_nodes gave them. */
static void write_nodes(execution_graph *g)
{
    uint32_t last = ROOT_NODE;
    write_root_node(g, ROOT_NODE, ROOT_NODE, "process", 0);
    for (uint64_t i = 0; i < g->count; i++) {
        graph_node n;
        kineto_track track;
        read_graph_node(g, g->rows[i], &n);
        kineto_trace_track(g->t, n.a.track, &track);
        if (g->node_of_track[n.a.track] == last + 1)
            write_root_node(g, ++last, ROOT_NODE, "thread", track.id);
        KB_ASSERT(n.id == last + 1);
        last = n.id;
        n.parent = find_parent_node(g, &n.a);
        const uint64_t *forward = kb_map_find(&g->forward, n.a.row);
        write_node(g, &n, n.a.name, find_node_scope(g, &n), track.id,
                   forward ? g->node_of_row[*forward] : 0);
    }
}

static void write_graph(execution_graph *g)
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
    write_nodes(g);
    kb_json_array_end(j);
    kb_json_put_int(j, "finish_ts", end_ns / 1000000);
    kb_json_object_end(j);
    kb_sink_write(g->sink, "\n", 1);
}

kineto_status kineto_execution_trace_save(const kineto_trace *trace, const char *path,
                                          kineto_error *err)
{
    if (!trace || !path)
        return kb_fail_null(err, __func__, "trace, path", trace, path);
    execution_graph g = {.t = trace};
    uint64_t rows = KB_MAX(kineto_trace_count(trace), 1u);
    g.node_of_row = calloc(rows, sizeof *g.node_of_row);
    g.rows = malloc(rows * sizeof *g.rows);
    g.node_of_track = calloc((size_t)kineto_trace_track_count(trace) + 1, sizeof *g.node_of_track);
    kineto_status status = KINETO_OK;
    if (!g.node_of_row || !g.rows || !g.node_of_track || !kt_prepare(trace, true, false) ||
        !index_forward_flows(&g))
        status = kb_fail_memory(err, "execution trace");
    if (status == KINETO_OK)
        status = number_nodes(&g, err);
    if (status == KINETO_OK && !g.count)
        status = kb_fail(err, KINETO_E_NOT_FOUND, "the trace has no operators");
    if (status == KINETO_OK)
        status = kb_sink_open_file(path, kb_compression_of(path), &g.sink, err);
    if (status == KINETO_OK) {
        kb_json_init(&g.j, g.sink);
        write_graph(&g);
        status = kb_sink_close(g.sink, err);
    }
    free(g.node_of_row);
    free(g.node_of_track);
    free(g.rows);
    kb_map_free(&g.forward);
    return status;
}
