/* Checks arguments: are they valid JSON, do sizes and bandwidths of copies fit their durations,
 * do counters that only grow do so? Validation reads every byte of the arguments, so it is
 * skipped for traces that the reader has validated already. */
#include "analyze/verify/verify.h"

/* ---- JSON objects: top-level keys ------------------------------------------------------------ */

/* A member of an object: key with its quotes, value as it is spelled. */
typedef struct member {
    kineto_string key, value;
} member;

/* Members of an object that are compared; more are not checked. */
#define MAX_KEYS 64u

/* The first byte at or after `at` that is not white space. */
static const char *skip_blank(const char *at, const char *end)
{
    while (at < end && (*at == ' ' || *at == '\t' || *at == '\n' || *at == '\r'))
        at++;
    return at;
}

/* Past the string that begins at `at`. */
static const char *skip_string(const char *at, const char *end)
{
    const char *begin = at + 1;
    for (at = begin; at < end; at++) {
        at = memchr(at, '"', (size_t)(end - at));
        if (!at)
            return end;
        size_t escapes = 0;
        while (at - escapes > begin && at[-1 - (ptrdiff_t)escapes] == '\\')
            escapes++;
        if (escapes % 2 == 0)
            return at + 1;
    }
    return end;
}

/* The end of the value that begins at `at`: the comma or bracket of the object around it, or
 * `end`. */
static const char *skip_value(const char *at, const char *end)
{
    static const bool matters[256] = {
        ['"'] = true, [','] = true, ['['] = true, [']'] = true, ['{'] = true, ['}'] = true};
    uint32_t depth = 0;
    while (true) {
        while (at < end && !matters[(unsigned char)*at])
            at++;
        if (at == end)
            return end;
        if (*at == '"') {
            at = skip_string(at, end);
            continue;
        }
        if (!depth && (*at == ',' || *at == '}'))
            return at;
        depth += *at == '{' || *at == '[';
        depth -= depth && (*at == '}' || *at == ']');
        at++;
    }
}

/* Splits valid JSON into the members of its outer object; returns how many there are, at most
 * MAX_KEYS. Nothing is copied. */
static size_t members_of(kineto_string text, member *out)
{
    const char *at = text.data, *end = text.data + text.size;
    size_t count = 0;
    at = skip_blank(at, end);
    for (at += at < end; count < MAX_KEYS;) {
        at = skip_blank(at, end);
        if (at >= end || *at != '"')
            break;
        const char *key = at;
        at = skip_string(at, end);
        out[count].key = (kineto_string){key, (size_t)(at - key)};
        at = skip_blank(at, end);
        const char *value = skip_blank(at + (at < end), end);
        at = skip_value(value, end);
        out[count++].value = (kineto_string){value, (size_t)(at - value)};
        at += at < end;
    }
    return count;
}

/* One of 64 bits for a key, by its size and two of its bytes. Equal keys have equal bits, so
 * that only keys whose bit was seen before are compared. */
static uint64_t bit_of(kineto_string key)
{
    const unsigned char *bytes = (const unsigned char *)key.data;
    size_t size = key.size;
    uint32_t hash = (uint32_t)size * 31 + bytes[size / 2] * 7u + bytes[size > 2 ? size - 2 : 0];
    return UINT64_C(1) << ((hash ^ hash >> 6) & 63);
}

/* Has the object a key twice, with different values? */
static bool contradicts_itself(kineto_string text)
{
    member members[MAX_KEYS];
    size_t count = members_of(text, members);
    uint64_t seen = 0; /* hash bits of keys met: only collisions are compared */
    for (size_t i = 0; i < count; i++) {
        uint64_t bit = bit_of(members[i].key);
        bool maybe = seen & bit;
        seen |= bit;
        for (size_t j = 0; maybe && j < i; j++)
            if (kb_string_equal(members[i].key, members[j].key) &&
                !kb_string_equal(members[i].value, members[j].value))
                return true;
    }
    return false;
}

/* Was the trace read from texts that needed no repair? Then the reader has validated every
 * byte of the arguments. Merged traces have only ledger lines about repairs. */
static bool is_known_valid(const kineto_trace *t)
{
    static const char repaired[] = "repaired";
    bool valid = kineto_trace_text_bytes(t) > 0 && kineto_trace_repair_total(t) == 0;
    for (uint32_t i = 0; valid && i < kineto_trace_ledger_count(t); i++) {
        kineto_ledger_line line; /* of a merged trace only the ledger has it */
        kineto_trace_ledger(t, i, &line);
        valid = line.reason.size < sizeof repaired ||
                memcmp(line.reason.data, repaired, sizeof repaired - 1) != 0;
    }
    return valid;
}

/* Keys may be repeated with the same value, which readers agree on. */
static void check_json(ka_verify *v)
{
    ka_tally invalid = {0}, twice = {0};
    bool valid = is_known_valid(v->t);
    kineto_row row = 0;
    for (uint32_t n = 0; n < kt_block_count(v->t); n++) {
        const kt_block *b = kt_block_at(v->t, n);
        for (uint32_t i = 0; b && i < b->count; i++, row++) {
            if (kt_args_form_of(b, i) != KT_ARGS_JSON)
                continue;
            kineto_string text = kt_args_text(v->t, row);
            if (!text.size || *text.data != '{' || !(valid || kb_json_valid(text)))
                ka_tally_add(v, &invalid, row);
            else if (contradicts_itself(text))
                ka_tally_add(v, &twice, row);
        }
    }
    ka_find(v, KA_RULE_ARGS_INVALID, KINETO_SEVERITY_ERROR, &invalid,
            "activities have arguments that are not a JSON object");
    ka_find(v, KA_RULE_ARGS_INVALID, KINETO_SEVERITY_ERROR, &twice,
            "activities have arguments with a repeated key and different values");
}

/* ---- numbers --------------------------------------------------------------------------------- */

/* Booleans and texts without a number are not numbers. */
static bool finite_arg(const kineto_arg *arg, double *value)
{
    return arg->type != KINETO_ARG_BOOL && kt_arg_number(arg, value) && *value - *value == 0;
}

/* A positive number among the arguments. */
static bool find_number(const ka_verify *v, kineto_row row, const char *key, double *value)
{
    kineto_arg arg;
    return kineto_args_find(v->t, row, key, &arg) && finite_arg(&arg, value) && *value > 0;
}

/* Copies whose ratio is computed: a median needs no more. Four times as many rows are examined
 * at most, since arguments are slow to read. */
#define MAX_COPIES 256u

/* Size and bandwidth of a copy give its duration. If the recorded one is 100 times as long or
 * short for the median copy, times have another unit than they should. */
static void check_copies(ka_verify *v)
{
    double ratios[MAX_COPIES];
    ka_tally rows = {0};
    size_t count = 0, examined = 0;
    kineto_row row = 0;
    for (uint32_t n = 0; n < kt_block_count(v->t) && examined < 4 * MAX_COPIES; n++) {
        const kt_block *b = kt_block_at(v->t, n);
        for (uint32_t i = 0; b && i < b->count && examined < 4 * MAX_COPIES; i++, row++) {
            double bytes, bandwidth;
            int64_t ns = kb_length_ns(b->start_ns[i], b->end_ns[i]);
            if (ns <= 0 || !kt_kind_is_work(b->kind[i]) || ka_is_implausible(v, row) ||
                b->kind[i] == KINETO_KIND_CONCURRENT_KERNEL)
                continue;
            examined++;
            if (count == MAX_COPIES || !find_number(v, row, "bytes", &bytes) ||
                !find_number(v, row, "memory bandwidth (GB/s)", &bandwidth))
                continue;
            ratios[count++] = (double)ns / (bytes / bandwidth);
            ka_tally_add(v, &rows, row);
        }
    }
    if (count)
        qsort(ratios, count, sizeof *ratios, kb_compare_doubles);
    double median = count ? ratios[count / 2] : 1;
    if (count >= 3 && (median > 100 || median < 0.01)) {
        v->units_are_mixed = true;
        ka_find(v, KA_RULE_UNITS_MIXED, KINETO_SEVERITY_ERROR, &rows,
                "copies last %.3g times as long as their bytes and bandwidth say", median);
    }
    kb_vec_free(&rows.rows);
}

/* ---- counters -------------------------------------------------------------------------------- */

/* One series of one counter. */
typedef struct series {
    double last;
    uint64_t rises, drops;
    kineto_row first_drop;
} series;

/* All series of all counters, by a hash of track, counter and series. */
typedef struct counters {
    ka_verify *v;
    KB_VEC(series) list;
    kb_map by_key;
} counters;

/* Does the name promise a counter that only grows? A hint only: check_counters wants the
 * samples to agree. */
static bool promises_growth(kineto_string s)
{
    static const char *const parts[] = {"_total", "cumulative", "timestamp", "energy", "uptime"};
    for (size_t i = 0; i < KB_COUNT(parts); i++)
        if (kb_string_contains_ignoring_case(s, parts[i]))
            return true;
    return false;
}

/* A drop is counted; a counter that is reset rises again. */
static void add_counter_sample(counters *c, uint64_t key, double value, kineto_row row)
{
    bool created = false;
    uint64_t *index = kb_map_insert(&c->by_key, key, c->list.count, &created);
    if (index && created && !kb_vec_push(&c->list, (series){.last = value}))
        index = NULL;
    if (!index) {
        c->v->no_memory = true;
        return;
    }
    series *s = &c->list.data[*index];
    if (value < s->last && !s->drops++)
        s->first_drop = row;
    s->rises += value > s->last;
    s->last = value;
}

/* Only series whose counter or own name promises growth. */
static void add_counter_row(counters *c, uint32_t track, kineto_row row)
{
    kineto_activity a;
    kineto_args_iterator it;
    kineto_arg arg;
    double value;
    kineto_trace_get(c->v->t, row, &a);
    bool promised = promises_growth(a.name);
    kineto_args_begin(c->v->t, row, &it);
    while (kineto_args_next(&it, &arg)) {
        uint64_t key[3] = {track, a.name_id, kb_hash(arg.key.data, arg.key.size)};
        if ((promised || promises_growth(arg.key)) && finite_arg(&arg, &value))
            add_counter_sample(c, kb_hash(key, sizeof key), value, row);
    }
}

/* Three rises for each drop: the counter does grow, so its drops are wrong. */
static void check_counters(ka_verify *v)
{
    counters c = {.v = v};
    ka_tally backwards = {0};
    for (uint32_t i = 0; i < v->track_count && !v->no_memory; i++) {
        if (v->tracks[i].type != KINETO_TRACK_COUNTER)
            continue;
        kineto_track track;
        const kineto_row *rows = kineto_trace_track_rows(v->t, i);
        kineto_trace_track(v->t, i, &track);
        for (uint64_t k = 0; rows && k < track.count; k++)
            add_counter_row(&c, i, rows[k]);
    }
    for (size_t i = 0; i < c.list.count; i++)
        if (c.list.data[i].drops && c.list.data[i].rises >= 3 * c.list.data[i].drops)
            ka_tally_add(v, &backwards, c.list.data[i].first_drop);
    ka_find(v, KA_RULE_COUNTER_BACKWARDS, KINETO_SEVERITY_WARNING, &backwards,
            "series grow and fall back; the first fall of each is given");
    kb_vec_free(&c.list);
    kb_vec_free(&backwards.rows);
    kb_map_free(&c.by_key);
}

/* check_copies runs whether its rule is wanted or not: it sets units_are_mixed. */
void ka_verify_args(ka_verify *v)
{
    if (ka_wants(v, KA_RULE_ARGS_INVALID))
        check_json(v);
    check_copies(v); /* others ask whether units are mixed */
    if (ka_wants(v, KA_RULE_COUNTER_BACKWARDS))
        check_counters(v);
}
