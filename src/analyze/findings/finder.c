/* Functions that rules use: opening findings, texts and evidence, facts, the critical path,
 * properties of devices, and stacks.
 *
 * All texts of findings are in the arena of kineto_findings, which outlives the trace. A failed
 * allocation sets f->no_memory, which ends the run with KINETO_E_MEMORY: rules need not check
 * each call. */
#include "analyze/findings/finding.h"
#include "analyze/verify/verify.h"

/* ---- texts ----------------------------------------------------------------------------------- */

KINETO_PRINTF(2, 0)

/* A formatted text in the arena, cut at 2 KiB between characters; {NULL, 0} if memory ran out. */
static kineto_string arena_format(kb_arena *arena, const char *fmt, va_list args)
{
    char text[2048];
    int n = kb_vsnprintf(text, sizeof text, fmt, args);
    size_t size = n < 0 ? 0 : KB_MIN((size_t)n, sizeof text - 1);
    if (size < (size_t)KB_MAX(n, 0)) /* cut: not inside a character */
        size = kb_utf8_valid_prefix(text, size);
    char *copy = kb_arena_copy(arena, text, size);
    return copy ? (kineto_string){copy, size} : (kineto_string){NULL, 0};
}

/* An empty text without memory of its own; the empty text, too, if memory ran out
 * (f->no_memory). */
static kineto_string copy_to_arena(ka_finder *f, kineto_string text)
{
    char *copy = text.size ? kb_arena_copy(&f->out->arena, text.data, text.size) : NULL;
    f->no_memory |= text.size && !copy;
    return copy ? (kineto_string){copy, text.size} : (kineto_string){"", 0};
}

/* The first `bytes` of a text, not cut inside a character. */
static kineto_string text_front(kineto_string text, size_t bytes)
{
    size_t size = KB_MIN(text.size, bytes);
    while (size < text.size && size + 3 > bytes && ((unsigned char)text.data[size] & 0xc0) == 0x80)
        size--;
    return (kineto_string){text.data, size};
}

static kineto_string format_to_arena(ka_finder *f, const char *fmt, va_list args
                                     ) KINETO_PRINTF(2, 0);
static kineto_string format_to_arena(ka_finder *f, const char *fmt, va_list args)
{
    kineto_string text = arena_format(&f->out->arena, fmt, args);
    f->no_memory |= !text.data;
    return text.data ? text : (kineto_string){"", 0};
}

kb_text ka_short_name(kineto_string name)
{
    kb_text text;
    size_t room = sizeof text.s - 1, size = KB_MIN(name.size, room);
    if (name.size > room)
        size = kb_utf8_valid_prefix(name.data, KB_MIN(room - 3, name.size));
    if (size)
        memcpy(text.s, name.data, size);
    memcpy(text.s + size, name.size > room ? "..." : "", name.size > room ? 4 : 1);
    return text;
}

/* ---- findings -------------------------------------------------------------------------------- */

ka_found *ka_open_finding(ka_finder *f, int64_t saved_ns, double confidence, kineto_string subject)
{
    KB_ASSERT(f->rule < KA_FIND_COUNT && f->out->chosen >> f->rule & 1);
    ka_found fresh = {.rule = f->rule,
                      .saved_ns = saved_ns == KA_NO_SAVINGS ? saved_ns : KB_MAX(saved_ns, 0),
                      .confidence = confidence < 0   ? 0
                                    : confidence > 1 ? 1
                                                     : confidence,
                      .rank = f->s ? f->s->rank : 0,
                      .rank_count = 1,
                      .count = 1,
                      .subject = copy_to_arena(f, subject)};
    if (f->no_memory || !kb_vec_push(&f->out->found, fresh)) {
        f->no_memory = true;
        return NULL;
    }
    f->out->verdicts[f->rule].outcome = KINETO_RULE_FOUND;
    return &f->out->found.data[f->out->found.count - 1];
}

void ka_say(ka_finder *f, ka_found *x, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    if (x)
        x->sentence = format_to_arena(f, fmt, args);
    va_end(args);
}

void ka_advise(ka_finder *f, ka_found *x, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    if (x)
        x->advice = format_to_arena(f, fmt, args);
    va_end(args);
}

void ka_set_severity(ka_found *x, kineto_finding_severity severity)
{
    if (!x)
        return;
    x->severity = (uint8_t)severity;
    x->severity_is_set = true;
}

void ka_skip_rule(ka_finder *f, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    f->out->verdicts[f->rule] = (ka_verdict){KINETO_RULE_SKIPPED, format_to_arena(f, fmt, args)};
    va_end(args);
}

/* ---- evidence -------------------------------------------------------------------------------- */

/* A place for evidence of this weight among the evidence_limit heaviest: a new one, or the
 * lightest if that weighs less. NULL: there are enough heavier ones. */
static ka_evidence *find_evidence_slot(ka_finder *f, ka_found *x, int64_t weight_ns)
{
    size_t lightest = 0;
    KB_ASSERT(x->evidence.count <= f->evidence_limit);
    if (x->evidence.count < f->evidence_limit) {
        if (!kb_vec_push(&x->evidence, (ka_evidence){.weight_ns = weight_ns})) {
            f->no_memory = true;
            return NULL;
        }
        return &x->evidence.data[x->evidence.count - 1];
    }
    for (size_t i = 1; i < x->evidence.count; i++)
        if (x->evidence.data[i].weight_ns <= x->evidence.data[lightest].weight_ns)
            lightest = i;
    return x->evidence.count && x->evidence.data[lightest].weight_ns < weight_ns
               ? &x->evidence.data[lightest]
               : NULL;
}

/* Room of one piece of evidence in the arena, for its name and for its track. */
enum { NAME_BYTES = 200, WHERE_BYTES = 320 };

/* `room` must hold the text. */
static kineto_string copy_into(char *room, kineto_string text)
{
    KB_ASSERT(room && text.size <= WHERE_BYTES);
    if (text.size)
        memcpy(room, text.data, text.size);
    return (kineto_string){room, text.size};
}

/* Resets a place but for its weight and its room: each place keeps one room for all evidence
 * that it ever holds, since a trace may show a million pieces, each heavier than the one
 * before. NULL: out of memory. */
static ka_evidence *clear_evidence(ka_finder *f, ka_evidence *e)
{
    char *room = e->room ? e->room : kb_arena_alloc(&f->out->arena, NAME_BYTES + WHERE_BYTES, 1);
    f->no_memory |= !room;
    *e = (ka_evidence){.row = KINETO_NO_ROW,
                       .weight_ns = e->weight_ns,
                       .name = {"", 0},
                       .where = {"", 0},
                       .text = {"", 0},
                       .room = room};
    return room ? e : NULL;
}

void ka_show_row(ka_finder *f, ka_found *x, kineto_row row, int64_t weight_ns, const char *fmt, ...)
{
    ka_evidence *e = x ? find_evidence_slot(f, x, weight_ns) : NULL;
    kineto_activity a;
    char where[WHERE_BYTES];
    va_list args;
    if (!e || !clear_evidence(f, e))
        return;
    kineto_trace_get(f->s->trace, row, &a);
    size_t size = ka_track_words(f->s->trace, a.track, where, sizeof where);
    e->row = row;
    e->rank = f->s->rank;
    e->start_ns = a.start_ns;
    e->end_ns = a.end_ns;
    e->weight_ns = weight_ns;
    e->name = copy_into(e->room, text_front(a.name, NAME_BYTES));
    e->where = copy_into(e->room + NAME_BYTES, (kineto_string){where, size});
    va_start(args, fmt);
    if (fmt)
        e->text = format_to_arena(f, fmt, args);
    va_end(args);
}

void ka_show_span(ka_finder *f, ka_found *x, int64_t start_ns, int64_t end_ns, int64_t weight_ns,
                  const char *fmt, ...)
{
    ka_evidence *e = x ? find_evidence_slot(f, x, weight_ns) : NULL;
    va_list args;
    if (!e || !clear_evidence(f, e))
        return;
    e->rank = x->rank;
    e->start_ns = start_ns;
    e->end_ns = end_ns;
    e->weight_ns = weight_ns;
    va_start(args, fmt);
    if (fmt)
        e->text = format_to_arena(f, fmt, args);
    va_end(args);
}

/* ---- facts ----------------------------------------------------------------------------------- */

const ka_table *ka_fact_table(const ka_finder *f, ka_table_id id)
{
    KB_ASSERT(ka_finding_spec_of(f->rule)->reads & KA_TABLE_BIT(id));
    KB_ASSERT(f->facts->tables[id].wanted);
    return &f->facts->tables[id];
}

int64_t ka_idle_ns(const ka_finder *f, uint32_t reasons)
{
    const ka_table *t = ka_fact_table(f, KA_TABLE_idle_named);
    int64_t sum = 0;
    for (uint64_t row = 0; row < ka_table_rows(t); row++)
        if (ka_fact_int(t, row, KA_COL_idle_named_stream) == -1 &&
            reasons >> ka_idle_of(ka_text_at(t, row, KA_COL_idle_named_reason)) & 1)
            sum = ka_add_ns(sum, ka_fact_int(t, row, KA_COL_idle_named_idle_us));
    return sum / KB_MAX(f->device_count, 1u);
}

/* Makes the critical path at its first use; a failure is remembered, so that it is not tried
 * by each rule. False: the path is not known. */
static bool ensure_path(ka_finder *f)
{
    kineto_error err = {0};
    if (f->path || f->path_failed)
        return f->path != NULL;
    ka_path *path = calloc(1, sizeof *path);
    ka_path_window all = {NULL, 0};
    if (path && ka_path_create(f->s, &all, path, &err) == KINETO_OK) {
        f->path = path;
        return true;
    }
    if (path)
        ka_path_free(path);
    free(path);
    f->path_failed = true;
    return false;
}

int64_t ka_saved_by(ka_finder *f, const kineto_what_if_scale *scales, size_t count)
{
    kineto_what_if_result r = {.size = sizeof r};
    kineto_error err = {0};
    if (!f->s || !ensure_path(f) || ka_what_if(f->path, scales, count, &r, &err))
        return KA_NO_SAVINGS;
    return r.before_ns - r.after_ns;
}

/* ---- devices --------------------------------------------------------------------------------- */

/* JSON object of a device's properties; of the first device with some for -1. Empty: none. */
static kineto_string device_properties(const kineto_trace *t, int64_t device)
{
    kineto_process p;
    for (uint32_t i = 0; i < kineto_trace_process_count(t); i++) {
        kineto_trace_process(t, i, &p);
        if (kt_is_described_device(&p) && (device < 0 || p.pid == device))
            return p.properties_json;
    }
    return (kineto_string){"", 0};
}

double ka_property_number(kineto_string properties, const char *key)
{
    double number;
    bool is = kt_value_number(ka_json_member(properties, key), &number) && number - number == 0;
    return is ? number : -1;
}

kineto_string ka_device_text(const kineto_trace *t, int64_t device, const char *key)
{
    return ka_json_text(device_properties(t, device), key);
}

double ka_device_number(const kineto_trace *t, int64_t device, const char *key)
{
    return ka_property_number(device_properties(t, device), key);
}

/* ---- stacks ---------------------------------------------------------------------------------- */

/* Stacks are evidence in a report: the innermost frames, next to the operator, show the place. */
#define STACK_FRAMES 6u
#define STACK_BYTES  1024u

/* Functions of Python around a slice, innermost first; at most STACK_FRAMES. */
static kineto_string python_stack(ka_finder *f, uint32_t slice)
{
    const ka_dataset *s = f->s;
    char text[STACK_BYTES];
    size_t n = 0;
    uint32_t frames = 0;
    for (uint32_t i = s->slices[slice].parent; i != KA_NONE && frames < STACK_FRAMES;
         i = s->slices[i].parent) {
        if (s->slices[i].kind != KINETO_KIND_PYTHON_FUNCTION)
            continue;
        kb_text name = ka_short_name(ka_name(s, s->slices[i].name));
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%s", frames++ ? ";" : "", name.s);
    }
    return copy_to_arena(f, (kineto_string){text, n});
}

kineto_string ka_stack_of(ka_finder *f, uint32_t slice)
{
    kineto_arg arg;
    if (slice == KA_NONE)
        return (kineto_string){"", 0};
    if (kineto_args_find(f->s->trace, f->s->slices[slice].row, "Call stack", &arg) &&
        arg.type == KINETO_ARG_STRING && arg.text.size)
        return copy_to_arena(f, text_front(arg.text, STACK_BYTES));
    return python_stack(f, slice);
}
