/* A stack machine for the opcodes of pickle that build plain values (pickletools.py of Python describes them). Values are
 * nodes; a list that was stored in the memo may be reached several times, so that the text is limited. */
#include "trace/import/pickle.h"

#include <math.h>

#define MAX_DEPTH     64u
#define MAX_GROWTH    64u /* bytes of JSON for one of the pickle */
#define MIN_JSON_BYTES ((size_t)1 << 20)

typedef enum node_kind { NODE_MARK, NODE_WORD, NODE_INTEGER, NODE_REAL, NODE_TEXT, NODE_LIST, NODE_DICTIONARY } node_kind;

typedef struct node {
    node_kind kind;
    int64_t integer;
    double real;
    kineto_string text;        /* of the pickle, or a constant */
    KB_VEC(uint32_t) children; /* of a dictionary: keys and values in turn */
} node;

typedef struct machine {
    const char *begin, *at, *end;
    KB_VEC(node) nodes;
    KB_VEC(uint32_t) stack, memo;
    kb_sink *out;
    size_t limit;
    const char *problem; /* NULL: none so far */
    bool no_memory, is_done;
} machine;

static void fail_at(machine *m, const char *problem) { m->problem = m->problem ? m->problem : problem; }

/* ---- bytes ------------------------------------------------------------------------------------ */

static const char *take_bytes(machine *m, size_t size)
{
    if ((size_t)(m->end - m->at) < size) {
        fail_at(m, "the pickle ends early");
        return NULL;
    }
    m->at += size;
    return m->at - size;
}

static uint64_t take_number(machine *m, size_t size)
{
    const char *bytes = take_bytes(m, size);
    uint64_t n = 0;
    for (size_t i = size; bytes && i-- > 0;)
        n = n << 8 | (unsigned char)bytes[i];
    return n;
}

/* ---- the stack -------------------------------------------------------------------------------- */

static void push_index(machine *m, uint32_t index) { m->no_memory |= !kb_vec_push(&m->stack, index); }

static void push_node(machine *m, node n)
{
    if (m->nodes.count >= UINT32_MAX || !kb_vec_push(&m->nodes, n))
        m->no_memory = true;
    else
        push_index(m, (uint32_t)m->nodes.count - 1);
}

/* UINT32_MAX: the stack is empty. */
static uint32_t pop_index(machine *m)
{
    if (!m->stack.count)
        fail_at(m, "the pickle takes more values than it makes");
    return m->stack.count ? m->stack.data[--m->stack.count] : UINT32_MAX;
}

/* The place after the last mark. */
static size_t find_mark(machine *m)
{
    for (size_t i = m->stack.count; i-- > 0;)
        if (m->nodes.data[m->stack.data[i]].kind == NODE_MARK)
            return i + 1;
    fail_at(m, "the pickle has no mark where one is needed");
    return m->stack.count;
}

/* Moves the values from `first` on into a container. */
static void move_into(machine *m, uint32_t container, size_t first)
{
    for (size_t i = first; i < m->stack.count && container < m->nodes.count; i++)
        m->no_memory |= !kb_vec_push(&m->nodes.data[container].children, m->stack.data[i]);
    m->stack.count = first;
}

/* Into the container before them, of this kind; `marked`: those after the mark, which goes. */
static void extend_container(machine *m, node_kind kind, size_t first, bool marked)
{
    size_t below = first - (marked && first ? 1 : 0);
    bool is_even = kind != NODE_DICTIONARY || (m->stack.count - first) % 2 == 0;
    if (m->problem || below == 0 || m->nodes.data[m->stack.data[below - 1]].kind != kind || !is_even) {
        fail_at(m, "the pickle adds values to something that is no list or dictionary");
        return;
    }
    move_into(m, m->stack.data[below - 1], first);
    m->stack.count = below;
}

/* The last `count` values, or those after the mark, as a new container. */
static void make_container(machine *m, node_kind kind, size_t first, bool marked)
{
    if (m->problem || first > m->stack.count) {
        fail_at(m, "the pickle takes more values than it makes");
        return;
    }
    node n = {.kind = kind};
    for (size_t i = first; i < m->stack.count; i++)
        m->no_memory |= !kb_vec_push(&n.children, m->stack.data[i]);
    m->stack.count = first - (marked && first ? 1 : 0);
    push_node(m, n);
}

/* ---- opcodes ---------------------------------------------------------------------------------- */

static void push_integer(machine *m, int64_t value) { push_node(m, (node){.kind = NODE_INTEGER, .integer = value}); }
static void push_word(machine *m, const char *word) { push_node(m, (node){.kind = NODE_WORD, .text = kb_string(word)}); }

static void push_text(machine *m, size_t size_bytes)
{
    uint64_t size = take_number(m, size_bytes);
    const char *bytes = size <= (uint64_t)(m->end - m->at) ? take_bytes(m, (size_t)size) : NULL;
    if (!bytes)
        fail_at(m, "the pickle ends early");
    else
        push_node(m, (node){.kind = NODE_TEXT, .text = {bytes, (size_t)size}});
}

/* Little endian, with a sign; numbers of more than eight bytes are none of a dump. */
static void push_long(machine *m)
{
    uint64_t size = take_number(m, 1), n = size <= 8 ? take_number(m, (size_t)size) : 0;
    if (size > 8)
        fail_at(m, "the pickle has a number of more than 64 bits");
    if (size && size < 8 && n >> (8 * size - 1) & 1)
        n |= ~UINT64_C(0) << (8 * size);
    push_integer(m, (int64_t)n);
}

static void push_real(machine *m)
{
    const char *bytes = take_bytes(m, 8);
    uint64_t n = 0;
    double value;
    for (size_t i = 0; bytes && i < 8; i++)
        n = n << 8 | (unsigned char)bytes[i];
    memcpy(&value, &n, sizeof value);
    push_node(m, (node){.kind = NODE_REAL, .real = value});
}

static void put_memo(machine *m, uint64_t at)
{
    if (!m->stack.count || at > m->nodes.count) { /* numbers of the memo are dense */
        fail_at(m, "the pickle stores a value that is not there");
        return;
    }
    while (m->memo.count <= at && !m->no_memory)
        m->no_memory = !kb_vec_push(&m->memo, UINT32_MAX);
    if (!m->no_memory)
        m->memo.data[at] = m->stack.data[m->stack.count - 1];
}

static void get_memo(machine *m, uint64_t at)
{
    if (at < m->memo.count && m->memo.data[at] != UINT32_MAX)
        push_index(m, m->memo.data[at]);
    else
        fail_at(m, "the pickle takes a value that was not stored");
}

/* Numbers, texts and words, by the names of pickletools: NONE N, NEWTRUE 0x88, NEWFALSE 0x89; BININT1 K, BININT2 M,
 * BININT J, LONG1 0x8a, BINFLOAT G (big endian); SHORT_BINUNICODE 0x8c, SHORT_BINSTRING U, SHORT_BINBYTES C,
 * BINUNICODE X, BINSTRING T, BINBYTES B, BINUNICODE8 0x8d. False: it is none of these. */
static bool run_scalar(machine *m, unsigned char op)
{
    switch (op) {
    case 'N': push_word(m, "null"); return true;
    case 0x88: push_word(m, "true"); return true;
    case 0x89: push_word(m, "false"); return true;
    case 'K': push_integer(m, (int64_t)take_number(m, 1)); return true;
    case 'M': push_integer(m, (int64_t)take_number(m, 2)); return true;
    case 'J': push_integer(m, (int32_t)take_number(m, 4)); return true;
    case 0x8a: push_long(m); return true;
    case 'G': push_real(m); return true;
    case 0x8c: case 'U': case 'C': push_text(m, 1); return true;
    case 'X': case 'T': case 'B': push_text(m, 4); return true;
    case 0x8d: push_text(m, 8); return true;
    default: return false;
    }
}

/* Lists (also tuples) and dictionaries: EMPTY_LIST ], EMPTY_TUPLE ), EMPTY_DICT }; APPEND a, SETITEM s, APPENDS e,
 * SETITEMS u; LIST l, TUPLE t, DICT d; TUPLE1 to TUPLE3 from 0x85. False: it is none of these. */
static bool run_container(machine *m, unsigned char op)
{
    size_t count = m->stack.count;
    switch (op) {
    case ']': case ')': push_node(m, (node){.kind = NODE_LIST}); return true;
    case '}': push_node(m, (node){.kind = NODE_DICTIONARY}); return true;
    case 'a': extend_container(m, NODE_LIST, count - KB_MIN(count, (size_t)1), false); return true;
    case 's': extend_container(m, NODE_DICTIONARY, count - KB_MIN(count, (size_t)2), false); return true;
    case 'e': extend_container(m, NODE_LIST, find_mark(m), true); return true;
    case 'u': extend_container(m, NODE_DICTIONARY, find_mark(m), true); return true;
    case 'l': case 't': make_container(m, NODE_LIST, find_mark(m), true); return true;
    case 'd': make_container(m, NODE_DICTIONARY, find_mark(m), true); return true;
    case 0x85: case 0x86: case 0x87: make_container(m, NODE_LIST, count - (size_t)(op - 0x84), false); return true;
    default: return false;
    }
}

/* The memo, marks and the end: PROTO 0x80 and FRAME 0x95, whose numbers are not needed; MARK (, STOP ., POP 0;
 * BINPUT q, LONG_BINPUT r, MEMOIZE 0x94; BINGET h, LONG_BINGET j. False: it is none of these. */
static bool run_control(machine *m, unsigned char op)
{
    switch (op) {
    case 0x80: (void)take_number(m, 1); return true;
    case 0x95: (void)take_number(m, 8); return true;
    case '(': push_node(m, (node){.kind = NODE_MARK}); return true;
    case '.': m->is_done = true; return true;
    case '0': (void)pop_index(m); return true;
    case 'q': put_memo(m, take_number(m, 1)); return true;
    case 'r': put_memo(m, take_number(m, 4)); return true;
    case 0x94: put_memo(m, m->memo.count); return true;
    case 'h': get_memo(m, take_number(m, 1)); return true;
    case 'j': get_memo(m, take_number(m, 4)); return true;
    default: return false;
    }
}

static void run_machine(machine *m)
{
    while (!m->is_done && !m->problem && !m->no_memory) {
        const char *op = take_bytes(m, 1);
        if (op && !run_scalar(m, (unsigned char)*op) && !run_container(m, (unsigned char)*op) &&
            !run_control(m, (unsigned char)*op)) {
            m->at--;
            fail_at(m, "the pickle has more than plain values: objects are not made, and nothing is called");
        }
    }
}

/* ---- JSON ------------------------------------------------------------------------------------- */

static void put_node(machine *m, kb_json *j, uint32_t index, uint32_t depth)
{
    const node *n = &m->nodes.data[index];
    if (depth > MAX_DEPTH || kb_sink_bytes(m->out) > m->limit) {
        fail_at(m, "the values of the pickle are nested too deep, or repeated too often");
        return;
    }
    switch (n->kind) {
    case NODE_INTEGER: kb_json_int(j, n->integer); return;
    case NODE_REAL: kb_json_double(j, isfinite(n->real) ? n->real : 0); return;
    case NODE_TEXT: kb_json_string(j, n->text); return;
    case NODE_WORD: n->text.data[0] == 'n' ? kb_json_null(j) : kb_json_bool(j, n->text.data[0] == 't'); return;
    case NODE_LIST:
        kb_json_array_begin(j);
        for (size_t i = 0; i < n->children.count && !m->problem; i++)
            put_node(m, j, n->children.data[i], depth + 1);
        kb_json_array_end(j);
        return;
    case NODE_DICTIONARY:
        kb_json_object_begin(j);
        for (size_t i = 0; i + 1 < n->children.count && !m->problem; i += 2) {
            const node *key = &m->nodes.data[n->children.data[i]];
            kb_json_key(j, key->kind == NODE_TEXT ? key->text : kb_string("?"));
            put_node(m, j, n->children.data[i + 1], depth + 1);
        }
        kb_json_object_end(j);
        return;
    default: fail_at(m, "the pickle has a mark in place of a value"); return;
    }
}

static void free_machine(machine *m)
{
    for (size_t i = 0; i < m->nodes.count; i++)
        kb_vec_free(&m->nodes.data[i].children);
    kb_vec_free(&m->nodes);
    kb_vec_free(&m->stack);
    kb_vec_free(&m->memo);
}

bool kt_is_pickle(kineto_string head)
{
    return head.size > 2 && (unsigned char)head.data[0] == 0x80 && head.data[1] >= 2 && head.data[1] <= 5;
}

kineto_status kt_pickle_to_json(kineto_string bytes, char **json, size_t *size, kineto_error *err)
{
    machine m = {.begin = bytes.data, .at = bytes.data, .end = bytes.data + bytes.size};
    m.limit = bytes.size > SIZE_MAX / MAX_GROWTH ? SIZE_MAX : KB_MAX(bytes.size * MAX_GROWTH, MIN_JSON_BYTES);
    *json = NULL;
    kineto_status status = kb_sink_open_memory(KB_COMPRESS_NONE, &m.out, err);
    if (status)
        return status;
    run_machine(&m);
    kb_json j;
    kb_json_init(&j, m.out);
    if (!m.problem && !m.no_memory && !m.stack.count)
        fail_at(&m, "the pickle has no value");
    if (!m.problem && !m.no_memory)
        put_node(&m, &j, m.stack.data[m.stack.count - 1], 0);
    if (m.no_memory)
        status = kb_fail_memory(err, "read a pickle");
    else if (m.problem)
        status = kb_fail(err, KINETO_E_FORMAT, "%s (byte %llu)", m.problem, (unsigned long long)(m.at - m.begin));
    else
        status = kb_sink_take(m.out, json, size, err);
    kb_sink_abort(m.out);
    free_machine(&m);
    return status;
}
