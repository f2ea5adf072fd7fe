/* Arguments of rows: staging them in a builder, and reading them back from a block.
 *
 * Two forms exist. Packed arguments (recordings) are a byte stream of keys, types and
 * values in the heap of the block; trace.h describes it at KT_ARG_HEAD. Verbatim arguments
 * (files) are the JSON object as the file spells it, either copied into the heap or as an
 * offset into the text of the file (KT_ARGS_IN_FILE). The public iterator hides the
 * difference. Readers may be in any thread; strings that need memory of their own
 * (unescaped ones) lie in buffers of the thread. */
#include "trace/bytes/input.h"
#include "trace/bytes/json_value.h"
#include "trace/model/model.h"

/* ---- staging --------------------------------------------------------------------------------- */

/* Appends one packed argument to the staged ones; `value` has the fixed number of bytes of
 * its type. */
KB_INLINE void stage_arg(kt_builder *b, uint32_t key, uint32_t type, const void *value,
                         size_t bytes)
{
    size_t old = b->staged.count, need = KT_ARG_HEAD + bytes;
    if (!kb_vec_reserve(&b->staged, old + need)) {
        b->status = b->status == KINETO_OK ? KINETO_E_MEMORY : b->status;
        return;
    }
    uint8_t *at = b->staged.data + old;
    memcpy(at, &key, sizeof key);
    at[4] = (uint8_t)type;
    memcpy(at + KT_ARG_HEAD, value, bytes);
    b->staged.count += need;
    b->staged_form = KT_ARGS_PACKED;
}

/* Appends an argument of variable size: its size, then its bytes. */
static void stage_text_arg(kt_builder *b, uint32_t key, uint32_t type, kineto_string text)
{
    uint32_t size = (uint32_t)KB_MIN(text.size, (size_t)UINT32_MAX >> 1);
    size_t old = b->staged.count;
    stage_arg(b, key, type, &size, sizeof size);
    if (b->staged.count == old)
        return;
    if (!kb_vec_reserve(&b->staged, b->staged.count + size)) {
        b->staged.count = old;
        b->status = b->status == KINETO_OK ? KINETO_E_MEMORY : b->status;
        return;
    }
    if (size)
        memcpy(b->staged.data + b->staged.count, text.data, size);
    b->staged.count += size;
}

void kt_args_put_int(kt_builder *b, uint32_t key, int64_t v)
{
    stage_arg(b, key, KINETO_ARG_INT, &v, sizeof v);
}

void kt_args_put_uint(kt_builder *b, uint32_t key, uint64_t v)
{
    stage_arg(b, key, KINETO_ARG_UINT, &v, sizeof v);
}

/* Saves four bytes where the number allows it: every row of an operator has several. */
void kt_args_put_number(kt_builder *b, uint32_t key, uint64_t v)
{
    uint32_t small = (uint32_t)v;
    if (v == small)
        stage_arg(b, key, KINETO_ARG_UINT | KT_ARG_SMALL, &small, sizeof small);
    else
        kt_args_put_uint(b, key, v);
}

void kt_args_put_double(kt_builder *b, uint32_t key, double v)
{
    stage_arg(b, key, KINETO_ARG_DOUBLE, &v, sizeof v);
}

void kt_args_put_bool(kt_builder *b, uint32_t key, bool v)
{
    uint64_t u = v;
    stage_arg(b, key, KINETO_ARG_BOOL, &u, sizeof u);
}

void kt_args_put_string(kt_builder *b, uint32_t key, kineto_string raw_bytes)
{
    stage_text_arg(b, key, KINETO_ARG_STRING, raw_bytes);
}

void kt_args_put_json(kt_builder *b, uint32_t key, kineto_arg_type type, kineto_string json)
{
    /* JSON of the recorded program may be invalid; lists were written by this library. */
    bool valid = type != KINETO_ARG_JSON || kb_json_valid(json);
    stage_text_arg(b, key, valid ? type : KINETO_ARG_STRING, json);
}

void kt_args_put_shared(kt_builder *b, uint32_t key, kineto_arg_type type, uint32_t text)
{
    stage_arg(b, key, type | KT_ARG_SHARED, &text, sizeof text);
}

uint32_t kt_args_make_set(kt_builder *b)
{
    KB_ASSERT(b->staged_form == KT_ARGS_NONE || b->staged_form == KT_ARGS_PACKED);
    kineto_string bytes = {(const char *)b->staged.data, b->staged.count};
    bool fits = bytes.size >> 24 == 0 && b->trace;
    uint32_t set = bytes.size && fits ? kb_intern_id(&b->trace->sets, bytes) : 0;
    b->staged.count = 0;
    b->staged_form = KT_ARGS_NONE;
    if (set != KB_INTERN_NONE)
        return set;
    b->status = b->status == KINETO_OK ? KINETO_E_MEMORY : b->status;
    return 0;
}

void kt_args_put_set(kt_builder *b, uint32_t set)
{
    KB_ASSERT(!set || !b->staged.count); /* the set comes first, see KT_ARG_SET */
    if (set)
        stage_arg(b, set, KT_ARG_SET, "", 0);
}

void kt_args_verbatim(kt_builder *b, kineto_string json_object)
{
    b->staged.count = 0;
    if (!kb_vec_reserve(&b->staged, json_object.size)) {
        b->status = b->status == KINETO_OK ? KINETO_E_MEMORY : b->status;
        return;
    }
    memcpy(b->staged.data, json_object.data, json_object.size);
    b->staged.count = json_object.size;
    b->staged_form = KT_ARGS_JSON;
}

void kt_args_in_text(kt_builder *b, struct kt_input *text, uint64_t word)
{
    KB_ASSERT(text && (word & 0xffffff));
    b->staged.count = 0;
    b->staged_form = KT_ARGS_IN_FILE;
    b->staged_text = text;
    b->staged_word = word;
}

/* ---- reading --------------------------------------------------------------------------------- */

kt_args_form kt_args_form_of(const kt_block *block, uint32_t index)
{
    kt_args_form form = kt_kept_form(block, index);
    return form == KT_ARGS_IN_FILE ? KT_ARGS_JSON : form;
}

/* The bytes of a row's args in either form, from the heap or the file; empty if it has none. */
static kineto_string row_args_bytes(const kt_block *block, uint32_t index)
{
    uint64_t word = block->args[index];
    if (!(word & 0xffffff))
        return (kineto_string){"", 0};
    if (kt_kept_form(block, index) == KT_ARGS_IN_FILE)
        return kt_input_text(kt_block_text(block, index), word >> 24, word & 0xffffff);
    return (kineto_string){(const char *)block->args_heap + (word >> 24), word & 0xffffff};
}

kt_args kt_args_of(const kineto_trace *t, const kt_block *block, uint32_t index)
{
    if (kt_args_form_of(block, index) != KT_ARGS_PACKED)
        return (kt_args){.trace = t};
    kineto_string bytes = row_args_bytes(block, index);
    const uint8_t *at = (const uint8_t *)bytes.data, *end = at + bytes.size;
    if (!bytes.size || at[KT_ARG_HEAD - 1] != KT_ARG_SET)
        return (kt_args){.at = at, .end = end, .trace = t};
    uint32_t set;
    memcpy(&set, at, sizeof set);
    kt_args args = kt_args_of_set(t, set);
    args.rest = at + KT_ARG_HEAD;
    args.rest_end = end;
    args.set = set;
    return args;
}

kt_args kt_args_of_set(const kineto_trace *t, uint32_t set)
{
    if (!set || set >= t->sets.strings.count)
        return (kt_args){.trace = t};
    kineto_string bytes = kb_intern_get(&t->sets, set);
    const uint8_t *at = (const uint8_t *)bytes.data;
    return (kt_args){.at = at, .end = at + bytes.size, .trace = t};
}

kineto_string kt_args_text(const kineto_trace *t, kineto_row row)
{
    if (row >= t->count)
        return (kineto_string){"", 0};
    const kt_block *block = kt_block_of(t, row);
    uint32_t index = row % KT_BLOCK_ROWS;
    bool is_verbatim = kt_args_form_of(block, index) == KT_ARGS_JSON;
    return is_verbatim ? row_args_bytes(block, index) : (kineto_string){"", 0};
}

const char *kt_args_lost_file(const kineto_trace *t)
{
    const kt_input *before = NULL;
    for (size_t i = 0; i < t->blocks.count; i++) {
        const kt_block *block = t->blocks.data[i];
        for (uint32_t k = 0; k <= block->more_text_count; k++) {
            kt_input *text = k ? block->more_texts[k - 1].text : block->text;
            if (text && text != before && kt_input_has_lost_text(text))
                return text->path;
            before = text;
        }
    }
    return NULL;
}

/* ---- the iterator ---------------------------------------------------------------------------- */

/* Buffers of one thread: one for an unescaped key, one for an unescaped value, and
 * KT_TEXT_ROOMS others that kt_text_room hands out in turn. Freed when the thread ends. */
enum { KEY, VALUE, FIRST_ROOM, BUFFERS = FIRST_ROOM + KT_TEXT_ROOMS };
typedef struct thread_buffers {
    char *data[BUFFERS];
    size_t capacity[BUFFERS];
    uint32_t rooms; /* number of rooms handed out so far */
} thread_buffers;
static pthread_key_t buffers_key;
static pthread_once_t buffers_once = PTHREAD_ONCE_INIT;

static void free_thread_buffers(void *p)
{
    thread_buffers *s = p;
    for (int i = 0; i < BUFFERS; i++)
        free(s->data[i]);
    free(s);
}

static void create_buffers_key(void)
{
    if (pthread_key_create(&buffers_key, free_thread_buffers) != 0)
        buffers_key = (pthread_key_t)-1;
}

/* Buffers of the calling thread; NULL: out of memory. */
static thread_buffers *buffers_of_thread(void)
{
    pthread_once(&buffers_once, create_buffers_key);
    thread_buffers *s = pthread_getspecific(buffers_key);
    if (!s) {
        s = calloc(1, sizeof *s);
        if (!s || pthread_setspecific(buffers_key, s) != 0) {
            free(s);
            return NULL;
        }
    }
    return s;
}

/* Buffer `which` with at least `bytes`; its content is undefined. NULL: out of memory. */
static char *reserve_buffer(thread_buffers *s, uint32_t which, size_t bytes)
{
    KB_ASSERT(which < BUFFERS);
    if (!s || (bytes > s->capacity[which] &&
               !kb_vec_grow((void **)&s->data[which], &s->capacity[which], bytes, 1)))
        return NULL;
    return s->data[which];
}

char *kt_text_room(size_t bytes)
{
    thread_buffers *s = buffers_of_thread();
    return s ? reserve_buffer(s, FIRST_ROOM + s->rooms++ % KT_TEXT_ROOMS, KB_MAX(bytes, 1u)) : NULL;
}

/* The bytes that a raw JSON string stands for, in buffer `which`; if out of memory, with
 * escapes. */
static kineto_string unescape_into_buffer(uint32_t which, kineto_string raw)
{
    if (!raw.size || !memchr(raw.data, '\\', raw.size))
        return raw;
    char *room = reserve_buffer(buffers_of_thread(), which, raw.size);
    if (!room)
        return raw;
    uint64_t replaced = 0;
    char *end = kt_json_unescape(room, raw, &replaced);
    return (kineto_string){room, (size_t)(end - room)};
}

/* Parses a JSON number that is neither a 64-bit integer nor short. */
static double parse_double_arg(kineto_string raw)
{
    char text[400];
    size_t size = KB_MIN(raw.size, sizeof text - 1);
    memcpy(text, raw.data, size);
    text[size] = '\0';
    return kb_strtod(text, NULL);
}

/* Sets type and value of an argument from the raw JSON of its value, which is valid and not
 * empty. */
static void parse_arg_value(kineto_string raw, kineto_arg *arg)
{
    KB_ASSERT(raw.size > 0);
    arg->type = KINETO_ARG_JSON;
    arg->text = raw;
    switch (raw.data[0]) {
    case '"':
        arg->type = KINETO_ARG_STRING;
        arg->text = unescape_into_buffer(VALUE, kt_json_inside(raw));
        return;
    case 't':
    case 'f':
        arg->type = KINETO_ARG_BOOL;
        arg->u = raw.data[0] == 't';
        return;
    case '{':
    case '[':
    case 'n':
        return;
    default:
        if (kt_json_int(raw, &arg->i)) {
            arg->type = KINETO_ARG_INT;
        } else if (kt_json_uint(raw, &arg->u)) {
            arg->type = KINETO_ARG_UINT;
        } else {
            arg->type = KINETO_ARG_DOUBLE;
            arg->d = parse_double_arg(raw);
        }
    }
}

/* ---- numbers of arguments -------------------------------------------------------------------- */

bool kt_arg_number(const kineto_arg *arg, double *out)
{
    switch (arg->type) {
    case KINETO_ARG_INT:
        *out = (double)arg->i;
        return true;
    case KINETO_ARG_UINT:
    case KINETO_ARG_BOOL:
        *out = (double)arg->u;
        return true;
    case KINETO_ARG_DOUBLE:
        *out = arg->d;
        return true;
    case KINETO_ARG_STRING:
    case KINETO_ARG_JSON:
        return kt_value_number(arg->text, out);
    default:
        return false;
    }
}

bool kt_arg_whole(const kineto_arg *arg, int64_t *out)
{
    switch (arg->type) {
    case KINETO_ARG_INT:
        *out = arg->i;
        return true;
    case KINETO_ARG_UINT:
        *out = arg->i;
        return arg->i >= 0;
    case KINETO_ARG_DOUBLE:
        if (!(arg->d > -9.2e18 && arg->d < 9.2e18))
            return false;
        *out = (int64_t)arg->d;
        return true;
    case KINETO_ARG_STRING:
    case KINETO_ARG_JSON:
        return kt_json_int(arg->text, out);
    default:
        return false;
    }
}

bool kt_args_member_is_column(kineto_string key, kineto_string raw_value, uint32_t flags)
{
    int64_t id;
    if (kb_string_equal(key, kb_string("External id")) ||
        kb_string_equal(key, kb_string("external id")) ||
        kb_string_equal(key, kb_string("correlation")))
        return kt_value_whole(raw_value, &id) && id >= 0;
    bool is_false = kb_string_equal(raw_value, kb_string("false"));
    if (kb_string_equal(key, kb_string("finished")))
        return is_false && (flags & KINETO_ACTIVITY_OPEN_END);
    if (kb_string_equal(key, kb_string("started")))
        return is_false && (flags & KINETO_ACTIVITY_OPEN_START);
    if (kb_string_equal(key, kb_string("arguments lost")))
        return kb_string_equal(raw_value, kb_string("true")) && (flags & KINETO_ACTIVITY_ARGS_LOST);
    return false;
}

/* Stores the position of a packed walk in the public iterator. */
static void save_packed_position(kineto_args_iterator *it, kt_args args)
{
    it->position = args.at;
    it->end = args.end;
    it->state[2] = (uintptr_t)args.rest;
    it->state[3] = (uintptr_t)args.rest_end;
}

/* Members of the iterator: state[0] is the form; state[1] is 1 before the first member of
 * an object; state[2] and state[3] are begin and end of the row's own args, which follow
 * those of its set. */
void kineto_args_begin(const kineto_trace *trace, kineto_row row, kineto_args_iterator *it)
{
    if (!it)
        return;
    memset(it, 0, sizeof *it);
    it->trace = trace;
    it->row = row;
    if (!trace || row >= trace->count)
        return;
    const kt_block *block = kt_block_of(trace, row);
    uint32_t index = (uint32_t)(row % KT_BLOCK_ROWS);
    kineto_string bytes = row_args_bytes(block, index);
    it->state[0] = bytes.size ? kt_args_form_of(block, index) : KT_ARGS_NONE;
    it->state[1] = 1;
    it->position = bytes.data;
    it->end = bytes.data + bytes.size;
    if (it->state[0] == KT_ARGS_PACKED)
        save_packed_position(it, kt_args_of(trace, block, index));
    if (it->state[0] != KT_ARGS_JSON)
        return;
    kt_scan scan = kt_scan_of(bytes);
    if (kt_scan_open(&scan, '{'))
        it->position = scan.at;
    else
        it->state[0] = KT_ARGS_NONE;
}

/* The next argument of a packed walk; false at the end. */
static bool next_packed_arg(kineto_args_iterator *it, kineto_arg *arg)
{
    kt_args args = {.at = it->position,
                    .end = it->end,
                    .trace = it->trace,
                    .rest = (const uint8_t *)(uintptr_t)it->state[2],
                    .rest_end = (const uint8_t *)(uintptr_t)it->state[3]};
    kt_arg packed = {0};
    if (!kt_args_step(&args, &packed))
        return false;
    save_packed_position(it, args);
    arg->key = kineto_trace_string(it->trace, packed.key);
    arg->type = packed.type;
    arg->text = (kineto_string){"", 0};
    if (packed.type < KINETO_ARG_STRING)
        arg->u = packed.u;
    else
        arg->text = packed.text;
    return true;
}

/* The next member of a verbatim object that does not repeat a column; false at the end, or
 * where the text is malformed. */
static bool next_verbatim_arg(kineto_args_iterator *it, kineto_arg *arg)
{
    const char *at = it->position, *end = it->end;
    kt_scan scan = {at, at, end, NULL};
    bool first = it->state[1] != 0;
    uint32_t flags = kt_block_of(it->trace, it->row)->flags[it->row % KT_BLOCK_ROWS];
    kineto_string raw_key, raw_value;
    while (kt_scan_more(&scan, &first, '{')) {
        if (!kt_scan_key(&scan, &raw_key) || !kt_scan_value(&scan, &raw_value))
            break;
        it->position = scan.at;
        it->state[1] = 0;
        arg->key = unescape_into_buffer(KEY, raw_key);
        if (kt_args_member_is_column(arg->key, raw_value, flags))
            continue;
        parse_arg_value(raw_value, arg);
        return true;
    }
    it->state[0] = KT_ARGS_NONE;
    return false;
}

bool kineto_args_next(kineto_args_iterator *it, kineto_arg *arg)
{
    if (!it || !arg)
        return false;
    arg->u = 0;
    if (it->state[0] == KT_ARGS_PACKED)
        return next_packed_arg(it, arg);
    return it->state[0] == KT_ARGS_JSON && next_verbatim_arg(it, arg);
}

bool kineto_args_find(const kineto_trace *trace, kineto_row row, const char *key, kineto_arg *arg)
{
    kineto_args_iterator it;
    if (!key || !arg)
        return false;
    kineto_string wanted = kb_string(key);
    kineto_args_begin(trace, row, &it);
    while (kineto_args_next(&it, arg))
        if (kb_string_equal(arg->key, wanted))
            return true;
    return false;
}
