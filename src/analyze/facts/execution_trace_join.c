/* Ranges of the host together with the nodes of PyTorch's execution trace of the same run, which
 * knows schemas and values of operators. A node's rf_id is the range's "Record function id".
 * Traces of PyTorch before 2.4 do not have that; in some of them the external id is the same
 * number, in others it counts other things. Numbers of two files say nothing alone: a range and a
 * node are joined only if they have the same name, and external ids only if nearly all of them
 * lead to the same names. */
#include "analyze/facts/analyses.h"

#include "trace/bytes/input.h"
#include "trace/bytes/json_text.h"

/* Columns of a node. From INPUTS on they are verbatim JSON, as the file has them. */
enum { NAME, SCHEMA, INPUTS, SHAPES, TYPES, OUTPUTS, OUTPUT_SHAPES, OUTPUT_TYPES, TEXTS };

/* A node with an rf_id. Texts are views of the file, which stays open while they are used. */
typedef struct node {
    uint64_t id, parent;
    kineto_string texts[TEXTS];
} node;

/* State of the analysis. `room` is scratch memory for a name without escapes. */
typedef struct joining {
    const ka_dataset *s;
    kt_input *input;
    KB_VEC(node) nodes;
    kb_map by_rf_id; /* to index of nodes */
    KB_VEC(char) room;
    ka_calls calls;
    bool by_external_id; /* no range has a "Record function id" */
    uint64_t same, other; /* ranges with a node of the same name, and of another one */
    bool no_memory;
} joining;

/* ---- reading --------------------------------------------------------------------------------- */

static bool is_key(kineto_string key, const char *name)
{
    return kb_string_equal(key, kb_string(name));
}

/* {"values": …, "shapes": …, "types": …}, as schema 1.1 has it; or the values alone. */
static void read_values(kineto_string raw, kineto_string *out)
{
    kt_scan scan = kt_scan_of(raw);
    kineto_string key, value;
    bool first = true;
    if (kt_scan_peek(&scan) != '{') {
        out[0] = raw;
        return;
    }
    (void)kt_scan_open(&scan, '{');
    while (kt_scan_more(&scan, &first, '{') && kt_scan_key(&scan, &key) &&
           kt_scan_value(&scan, &value)) {
        int at = is_key(key, "values")   ? 0
                 : is_key(key, "shapes") ? 1
                 : is_key(key, "types")  ? 2
                                         : -1;
        if (at >= 0)
            out[at] = value;
    }
}

/* One member of a node. The parent is "parent" or "ctrl_deps", depending on the schema.
 * Unknown keys are ignored. */
static void take_attribute(node *n, uint64_t *rf_id, kineto_string key, kineto_string value)
{
    static const char *const names[TEXTS] = {[NAME] = "name",
                                             [SCHEMA] = "op_schema",
                                             [SHAPES] = "input_shapes",
                                             [TYPES] = "input_types",
                                             [INPUTS] = "inputs",
                                             [OUTPUTS] = "outputs",
                                             [OUTPUT_SHAPES] = "output_shapes",
                                             [OUTPUT_TYPES] = "output_types"};
    if (is_key(key, "id"))
        (void)kt_json_uint(value, &n->id);
    else if (is_key(key, "rf_id"))
        (void)kt_json_uint(value, rf_id);
    else if (is_key(key, "parent") || is_key(key, "ctrl_deps"))
        (void)kt_json_uint(value, &n->parent);
    else if (is_key(key, "inputs"))
        read_values(value, &n->texts[INPUTS]);
    else if (is_key(key, "outputs"))
        read_values(value, &n->texts[OUTPUTS]);
    else
        for (int i = 0; i < TEXTS; i++)
            if (is_key(key, names[i]))
                n->texts[i] = value;
}

/* One attribute of a node: {"name": "rf_id", "type": "uint64", "value": 3}. Only rf_id and
 * op_schema are read; others may have names that the node itself uses. */
static void read_attribute(node *n, uint64_t *rf_id, kineto_string raw)
{
    kt_scan scan = kt_scan_of(raw);
    kineto_string key, value, name = {0}, attribute = {0};
    bool first = true;
    if (!kt_scan_open(&scan, '{'))
        return;
    while (kt_scan_more(&scan, &first, '{') && kt_scan_key(&scan, &key) &&
           kt_scan_value(&scan, &value)) {
        if (is_key(key, "name") && kt_json_is_string(value))
            name = kt_json_inside(value);
        else if (is_key(key, "value"))
            attribute = value;
    }
    if (attribute.size && (is_key(name, "rf_id") || is_key(name, "op_schema")))
        take_attribute(n, rf_id, name, attribute);
}

static void read_attributes(node *n, uint64_t *rf_id, kineto_string raw)
{
    kt_scan scan = kt_scan_of(raw);
    kineto_string value;
    bool first = true;
    if (!kt_scan_open(&scan, '['))
        return;
    while (kt_scan_more(&scan, &first, '[') && kt_scan_value(&scan, &value))
        read_attribute(n, rf_id, value);
}

/* Appends a node. Without an rf_id it cannot be joined; of several with one id, the first
 * counts. */
static void read_node(joining *j, kineto_string raw)
{
    kt_scan scan = kt_scan_of(raw);
    kineto_string key, value;
    uint64_t rf_id = 0;
    bool first = true;
    node n = {0};
    if (!kt_scan_open(&scan, '{'))
        return;
    while (kt_scan_more(&scan, &first, '{') && kt_scan_key(&scan, &key) &&
           kt_scan_value(&scan, &value)) {
        if (is_key(key, "attrs"))
            read_attributes(&n, &rf_id, value);
        else
            take_attribute(&n, &rf_id, key, value);
    }
    if (!rf_id)
        return;
    bool created = false;
    uint64_t *at = kb_map_insert(&j->by_rf_id, rf_id, j->nodes.count, &created);
    j->no_memory |= !at || (created && !kb_vec_push(&j->nodes, n));
}

static void read_nodes(joining *j, kt_scan *scan)
{
    kineto_string value;
    bool first = true;
    if (!kt_scan_open(scan, '['))
        return;
    while (!j->no_memory && kt_scan_more(scan, &first, '[') && kt_scan_value(scan, &value))
        read_node(j, value);
}

/* Finds "nodes" in the outer object. If memory ran out it returns OK: the caller checks
 * j->no_memory. */
static kineto_status read_node_list(joining *j, kineto_string text, const char *path,
                                    kineto_error *err)
{
    kt_scan scan = kt_scan_of(text);
    kineto_string key, value;
    bool first = true, found = false;
    if (kt_scan_open(&scan, '{'))
        while (!j->no_memory && kt_scan_more(&scan, &first, '{') && kt_scan_key(&scan, &key)) {
            if (is_key(key, "nodes") && kt_scan_peek(&scan) == '[') {
                read_nodes(j, &scan);
                found = true;
            } else if (!kt_scan_value(&scan, &value)) {
                break;
            }
        }
    if (j->no_memory)
        return KINETO_OK;
    if (scan.problem)
        return kb_fail(err, KINETO_E_FORMAT, "%s: %s at byte %zu", path, scan.problem,
                       (size_t)(scan.at - scan.begin));
    return found
               ? KINETO_OK
               : kb_fail(err, KINETO_E_FORMAT,
                         "%s is not an execution trace of PyTorch: it has no list of nodes", path);
}

/* The whole file is read first; an error of the input takes precedence over that of the
 * format. */
static kineto_status open_node_file(joining *j, const char *path, kineto_error *err)
{
    kineto_status status = kt_input_open(path, &j->input, err);
    if (status)
        return status;
    kineto_string text = {j->input->base, kt_input_wait(j->input, SIZE_MAX)};
    if (!j->input->status) {
        status = read_node_list(j, text, path, err);
        return kt_input_check(j->input, NULL) ? kt_input_check(j->input, err) : status;
    }
    if (err)
        *err = j->input->error;
    return j->input->status;
}

/* ---- joining --------------------------------------------------------------------------------- */

/* 0: the range has no "Record function id". */
static uint64_t function_id_of(const ka_dataset *s, const ka_slice *slice)
{
    kineto_arg arg;
    int64_t number;
    bool has = kineto_args_find(s->trace, slice->row, "Record function id", &arg) &&
               kt_arg_whole(&arg, &number) && number > 0;
    return has ? (uint64_t)number : 0;
}

static bool is_joinable(const ka_slice *slice)
{
    return slice->kind == KINETO_KIND_CPU_OP || slice->kind == KINETO_KIND_USER_ANNOTATION;
}

static bool has_function_ids(const ka_dataset *s)
{
    for (uint32_t i = 0; i < s->slice_count; i++)
        if (is_joinable(&s->slices[i]) && function_id_of(s, &s->slices[i]))
            return true;
    return false;
}

/* Node with the id of a range, whatever its name. NULL: none. */
static const node *node_of(joining *j, const ka_slice *slice)
{
    kineto_activity a;
    if (!is_joinable(slice))
        return NULL;
    uint64_t id = 0;
    if (j->by_external_id) {
        kineto_trace_get(j->s->trace, slice->row, &a);
        id = a.external_id;
    } else {
        id = function_id_of(j->s, slice);
    }
    uint64_t *at = id ? kb_map_find(&j->by_rf_id, id) : NULL;
    return at ? &j->nodes.data[*at] : NULL;
}

/* Is the range's name that of the node? The trace may append the overload: "aten::add.Tensor". */
static bool has_same_name(joining *j, const ka_slice *slice, const node *n)
{
    kineto_string raw = n->texts[NAME], name = ka_name(j->s, slice->name);
    uint64_t replaced = 0;
    if (!kt_json_is_string(raw) || !kb_vec_reserve(&j->room, raw.size)) {
        j->no_memory |= raw.size && !j->room.data;
        return false;
    }
    char *end = kt_json_unescape(j->room.data, kt_json_inside(raw), &replaced);
    size_t size = (size_t)(end - j->room.data);
    return name.size >= size && (!size || memcmp(name.data, j->room.data, size) == 0) &&
           (name.size == size || name.data[size] == '.');
}

/* Strings lose quotes and escapes; lists stay as they are written. */
static void put_json(joining *j, ka_table *t, kineto_string raw)
{
    if (!raw.size) {
        ka_put_none(t);
        return;
    }
    if (!kt_json_is_string(raw)) {
        ka_put_text(t, raw);
        return;
    }
    uint64_t replaced = 0;
    if (!kb_vec_reserve(&j->room, raw.size)) {
        j->no_memory = true;
        ka_put_none(t);
        return;
    }
    char *end = kt_json_unescape(j->room.data, kt_json_inside(raw), &replaced);
    ka_put_text(t, (kineto_string){j->room.data, (size_t)(end - j->room.data)});
}

static void put_joined(joining *j, ka_table *t, uint32_t index, const node *n)
{
    const ka_slice *slice = &j->s->slices[index];
    ka_put_int(t, j->s->rank);
    ka_put_int(t, slice->row);
    ka_put_text(t, ka_name(j->s, slice->name));
    ka_put_int(t, (int64_t)KB_MIN(n->id, (uint64_t)INT64_MAX));
    ka_put_int(t, (int64_t)KB_MIN(n->parent, (uint64_t)INT64_MAX));
    for (int i = SCHEMA; i < TEXTS; i++)
        put_json(j, t, n->texts[i]);
    ka_put_ns(t, slice->start_ns);
    ka_put_ns(t, ka_slice_ns(slice));
    ka_put_int(t, j->calls.kernels[index]);
    ka_put_ns(t, j->calls.kernel_ns[index]);
}

/* Fills `nodes` by slice (NULL: none of the same name) and counts same and other. False: out
 * of memory. */
static bool find_nodes(joining *j, const node **nodes)
{
    j->by_external_id = !has_function_ids(j->s);
    for (uint32_t i = 0; i < j->s->slice_count && !j->no_memory; i++) {
        const node *n = node_of(j, &j->s->slices[i]);
        bool same = n && has_same_name(j, &j->s->slices[i], n);
        nodes[i] = same ? n : NULL;
        j->same += same;
        j->other += n && !same;
    }
    return !j->no_memory;
}

#define MAX_OTHER_PERCENT 10.0 /* names that may differ if only external ids are there */

static void note_names(const joining *j, ka_table *t, bool joined)
{
    unsigned long long other = j->other, all = j->same + j->other;
    if (!all)
        ka_note(t, "no operator of the trace is in the execution trace: are both of the same run?");
    else if (!joined)
        ka_note(t,
                "the trace has no 'Record function id' (PyTorch 2.4 and later write it), and by "
                "external id %llu of %llu operators have another name in the execution trace: "
                "nothing was joined",
                other, all);
    else if (j->other)
        ka_note(
            t,
            "%llu of %llu operators have another name in the execution trace and were left out: "
            "are both of the same run?",
            other, all);
}

static void join_nodes(joining *j, ka_table *t)
{
    const node **nodes = kb_array((size_t)j->s->slice_count + 1, sizeof *nodes);
    if (!nodes || !ka_calls_create(j->s, &j->calls) || !find_nodes(j, nodes)) {
        j->no_memory = true;
        free(nodes);
        return;
    }
    bool joined = !j->by_external_id ||
                  ka_percent((double)j->other, (double)(j->same + j->other)) <= MAX_OTHER_PERCENT;
    for (uint32_t i = 0; joined && i < j->s->slice_count && !j->no_memory; i++)
        if (nodes[i])
            put_joined(j, t, i, nodes[i]);
    note_names(j, t, joined);
    free(nodes);
}

/* Table execution_trace, from the file options->execution_trace: nodes are read into memory,
 * then joined with the rows of the trace. */
kineto_status ka_analyze_execution_trace(const ka_dataset *s, kineto_analysis *a, kineto_error *err)
{
    ka_table *t = ka_table_of(a, KA_TABLE_execution_trace);
    joining j = {.s = s};
    if (!s->options->execution_trace) {
        ka_note(t, "no execution trace was named: --execution-trace FILE");
        return KINETO_OK;
    }
    kineto_status status = open_node_file(&j, s->options->execution_trace, err);
    if (!status && !j.no_memory)
        join_nodes(&j, t);
    if (!status && j.no_memory)
        status = kb_fail_memory(err, "join an execution trace");
    ka_calls_free(&j.calls);
    kb_vec_free(&j.nodes);
    kb_vec_free(&j.room);
    kb_map_free(&j.by_rf_id);
    kt_input_release(j.input);
    return status;
}
