/* Scrubs a trace: copies it with pseudonyms for texts that identify people, machines or code
 * (kineto_trace_scrub of <ckineto/files.h>). The same text gets the same pseudonym wherever it
 * stands, for the same salt. */
#include "trace/transform/scrub.h"

#include "trace/bytes/json_text.h"

static kineto_status fail_scrub_memory(kineto_error *err)
{
    return kb_fail_memory(err, "scrub a trace");
}

/* ---- preparation ----------------------------------------------------------------------------- */

/* Derives the 128-bit key of all pseudonyms: hashes of the salt under two fixed keys. */
static void derive_hash_key(kt_scrub *s)
{
    static const uint64_t first[2] = {UINT64_C(0x636b696e65746f20), UINT64_C(0x7363727562206b31)};
    static const uint64_t second[2] = {UINT64_C(0x636b696e65746f20), UINT64_C(0x7363727562206b32)};
    s->key[0] = kb_siphash(first, s->how.salt, s->how.salt_bytes);
    s->key[1] = kb_siphash(second, s->how.salt, s->how.salt_bytes);
}

static kineto_status compile_keep_pattern(kt_scrub *s, kineto_error *err)
{
    char reason[128];
    if (!s->how.keep)
        return KINETO_OK;
    int code = regcomp(&s->keep, s->how.keep, REG_EXTENDED | REG_NOSUB);
    if (code) {
        regerror(code, &s->keep, reason, sizeof reason);
        return kb_fail(err, KINETO_E_ARGUMENT,
                       "'%s' for texts to keep is not an extended regular expression: %s",
                       s->how.keep, reason);
    }
    s->has_keep = true;
    return KINETO_OK;
}

/* Remembers the name of a machine, to replace it inside of other texts. */
static void add_host_name(kt_scrub *s, kineto_string host)
{
    for (size_t i = 0; i < s->hosts.count; i++)
        if (kb_string_equal(s->hosts.data[i], host))
            return;
    if (host.size && !kb_vec_push(&s->hosts, host))
        s->failed = true;
}

/* Names in columns of processes and in members of the header that hold host names. */
static void collect_host_names(kt_scrub *s)
{
    for (uint32_t i = 0; i < kineto_trace_process_count(s->from); i++) {
        kineto_process p;
        kineto_trace_process(s->from, i, &p);
        add_host_name(s, p.host);
    }
    for (uint32_t i = 0; i < kineto_trace_metadata_count(s->from); i++) {
        kineto_string key, value;
        kineto_trace_metadata(s->from, i, &key, &value);
        if (kt_known_key(key) == KT_KEY_HOST && kt_json_is_string(value) && value.size > 2)
            add_host_name(s, kt_json_inside(value));
    }
}

/* ---- tables ---------------------------------------------------------------------------------- */

/* Callback of kt_copy for texts of processes, tracks and categories. */
static uint32_t map_scrubbed_text(void *context, kt_text_role role, kineto_string text)
{
    kt_scrub *s = context;
    switch (role) {
    case KT_TEXT_CATEGORY:
        return kt_string(s->b, kt_scrub_category(s, text));
    case KT_TEXT_PROCESS:
        return kt_string(s->b, kt_scrub_numbers_in(s, kt_scrub_place(s, false, text)));
    case KT_TEXT_TRACK:
        return kt_string(s->b, kt_scrub_numbers_in(s, kt_scrub_place(s, true, text)));
    case KT_TEXT_HOST:
        return kt_string(s->b, kt_scrub_host(s, text));
    case KT_TEXT_DEVICE:
        return kt_string(s->b, kt_scrub_json(s, text, KT_KEY_UNKNOWN, KINETO_SCRUB_HEADER));
    default:
        return 0; /* names of rows depend on their kind: scrubbed_name_id */
    }
}

/* Callback of kt_copy. */
static int64_t map_number(void *context, int64_t number) { return kt_scrub_number(context, number); }

/* Members of the header, by the class of their keys. */
static void scrub_metadata(kt_scrub *s)
{
    for (uint32_t i = 0; i < kineto_trace_metadata_count(s->from); i++) {
        kineto_string key, value;
        kt_key_class class;
        kineto_trace_metadata(s->from, i, &key, &value);
        uint32_t id = kt_scrub_key_id(s, key, KINETO_SCRUB_HEADER, &class);
        value = kt_scrub_json(s, value, class, KINETO_SCRUB_HEADER);
        kt_metadata(s->b, kb_intern_get(&s->b->trace->strings, id), value);
    }
}

/* Sources and reasons of this library are public; those of plug-ins are replaced. */
static uint32_t scrub_ledger_word(kt_scrub *s, kineto_string word, bool known)
{
    if (!kt_scrubs(s, KINETO_SCRUB_HEADER))
        return kt_string(s->b, kt_scrub_inside(s, word));
    return kt_string(s->b, known ? word : kt_scrub_hash(s, "s_", word));
}

/* Details are sentences without a form that could be kept: they are dropped as a whole. */
static uint32_t scrub_ledger_detail(kt_scrub *s, kineto_string detail)
{
    if (!kt_scrubs(s, KINETO_SCRUB_HEADER))
        return kt_string(s->b, kt_scrub_inside(s, detail));
    s->done.texts += detail.size > 0;
    return 0;
}

/* Counts stay, texts are scrubbed. */
static void scrub_ledger(kt_scrub *s)
{
    for (uint32_t i = 0; i < kineto_trace_ledger_count(s->from); i++) {
        kineto_ledger_line line;
        kineto_trace_ledger(s->from, i, &line);
        uint32_t source = scrub_ledger_word(s, line.source, kt_known_source(line.source));
        uint32_t reason = scrub_ledger_word(s, line.reason, kt_known_reason(line.reason));
        uint32_t detail = scrub_ledger_detail(s, line.detail);
        const kb_intern *texts = &s->b->trace->strings;
        kt_ledger_add(s->b, kb_intern_get(texts, source), kb_intern_get(texts, reason), line.count,
                      line.is_loss, kb_intern_get(texts, detail));
    }
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* The scrubbed name of a row. Cached by kind and name: the same name may be public for one kind
 * only. */
static uint32_t scrubbed_name_id(kt_scrub *s, uint32_t kind, uint32_t name)
{
    uint64_t key = (uint64_t)kind << 32 | name;
    uint64_t *known = kb_map_find(&s->names, key);
    if (known)
        return (uint32_t)*known;
    uint32_t id = kt_string(s->b, kt_scrub_name(s, kind, kineto_trace_string(s->from, name)));
    if (!kb_map_insert(&s->names, key, id, NULL))
        s->failed = true;
    return id;
}

/* Readers hash ids that are texts without a key, so these hashes could be reproduced: they are
 * hashed again. Small ids are numbers. */
static uint64_t scrubbed_row_id(const kt_scrub *s, uint64_t id)
{
    uint8_t bytes[8];
    if (id <= UINT32_MAX || !kt_scrubs(s, KINETO_SCRUB_NAMES))
        return id;
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(id >> 8 * i);
    return kb_siphash(s->key, bytes, sizeof bytes);
}

/* Rows keep their numbers, times and ids; names and args are scrubbed. */
static void scrub_rows(kt_scrub *s)
{
    for (kineto_row row = 0; row < s->from->count && !s->failed; row++) {
        const kt_block *block = kt_block_of(s->from, row);
        kt_row columns;
        kt_copy_columns(&s->copy, row, &columns);
        columns.name = scrubbed_name_id(s, columns.kind, block->name[row % KT_BLOCK_ROWS]);
        columns.async_id = scrubbed_row_id(s, columns.async_id);
        kt_scrub_args(s, row);
        kt_append(s->b, &columns);
    }
}

static void scrub_flows(kt_scrub *s)
{
    for (uint64_t i = 0; i < kineto_trace_flow_count(s->from); i++) {
        kineto_flow f;
        kineto_trace_flow(s->from, i, &f);
        f.id = scrubbed_row_id(s, f.id);
        kt_copy_flow(&s->copy, i, &f, f.from, f.to);
    }
}

/* ---- the call -------------------------------------------------------------------------------- */

/* The ledger records how many texts of each class were replaced. */
static void write_scrub_ledger(kt_scrub *s)
{
    const kineto_scrub_result *r = &s->done;
    char text[256];
    snprintf(
        text, sizeof text,
        "names %llu, paths %llu, machines %llu, stacks %llu, keys %llu, texts %llu, sizes %llu",
        (unsigned long long)r->names, (unsigned long long)r->paths, (unsigned long long)r->hosts,
        (unsigned long long)r->stacks, (unsigned long long)r->keys, (unsigned long long)r->texts,
        (unsigned long long)r->shapes);
    kt_ledger_add(s->b, kb_string("scrub"), kb_string("texts replaced by pseudonyms"),
                  r->names + r->paths + r->hosts + r->stacks + r->keys + r->texts + r->shapes,
                  false, kb_string(text));
}

/* Places first, then rows, flows and tables; the ledger comes last because it has the counts. */
static void scrub_trace(kt_scrub *s)
{
    for (uint32_t i = 0; i < kineto_trace_process_count(s->from); i++)
        kt_copy_process(&s->copy, i);
    for (uint32_t i = 0; i < kineto_trace_track_count(s->from); i++)
        kt_copy_track(&s->copy, i);
    kt_copy_own_kinds(&s->copy);
    kt_copy_window(&s->copy);
    scrub_rows(s);
    scrub_flows(s);
    scrub_metadata(s);
    kt_copy_snapshots(&s->copy);
    scrub_ledger(s);
    KB_ASSERT(s->failed || s->copy.failed || s->b->status || s->b->trace->count == s->from->count);
    write_scrub_ledger(s);
}

static void free_scrub(kt_scrub *s)
{
    kt_copy_free(&s->copy);
    kt_builder_destroy(s->b);
    if (s->has_keep)
        regfree(&s->keep);
    kb_vec_free(&s->out);
    kb_vec_free(&s->json);
    kb_vec_free(&s->scratch);
    kb_vec_free(&s->plain);
    kb_vec_free(&s->numbered);
    kb_map_free(&s->numbers);
    kb_vec_free(&s->hosts);
    kb_vec_free(&s->key_rows);
    kb_intern_free(&s->keys);
    kb_map_free(&s->names);
    memset(s->key, 0, sizeof s->key);
}

#define KNOWN_BITS (KINETO_SCRUB_ALL | KINETO_SCRUB_PACKAGES | KINETO_SCRUB_IDS | KINETO_SCRUB_TIMES)

/* An empty salt would make pseudonyms guessable. */
static kineto_status check_scrub_options(const kineto_scrub *how, kineto_error *err)
{
    if (how->what & ~KNOWN_BITS || !(how->what & KNOWN_BITS))
        return kb_fail(err, KINETO_E_ARGUMENT,
                       "kineto_trace_scrub: no bits of what are set, or unknown ones");
    if (!how->salt || !how->salt_bytes)
        return kb_fail(err, KINETO_E_ARGUMENT, "kineto_trace_scrub: salt must not be empty");
    return KINETO_OK;
}

kineto_status kineto_trace_scrub(const kineto_trace *trace, const kineto_scrub *how,
                                 kineto_trace **out, kineto_scrub_result *result, kineto_error *err)
{
    if (out)
        *out = NULL;
    if (!trace || !how || !out)
        return kb_fail_null(err, __func__, "trace, how, out", trace, how, out);
    kt_scrub s = {.from = trace};
    kineto_status status = kb_options_read(&s.how, sizeof s.how, how, "kineto_scrub", err);
    if (!status)
        status = kb_size_check(result, "kineto_scrub_result", err);
    if (!status)
        status = check_scrub_options(&s.how, err);
    if (status == KINETO_OK)
        status = compile_keep_pattern(&s, err);
    if (status == KINETO_OK)
        status = kt_builder_create(&s.b, err);
    if (status != KINETO_OK)
        goto done;
    derive_hash_key(&s);
    collect_host_names(&s);
    if (!kt_copy_begin(&s.copy, s.b, trace) || kb_intern_id(&s.keys, kb_string("")) != 0) {
        status = fail_scrub_memory(err);
        goto done;
    }
    s.copy.text = map_scrubbed_text;
    s.copy.context = &s;
    if (kt_scrubs(&s, KINETO_SCRUB_IDS)) {
        kt_scrub_number_places(&s);
        s.copy.number = map_number;
    }
    if (kt_scrubs(&s, KINETO_SCRUB_TIMES))
        kineto_trace_window(trace, &s.copy.shift_ns, &(int64_t){0});
    scrub_trace(&s);
    status = s.failed || s.copy.failed ? fail_scrub_memory(err) : kt_builder_finish(s.b, out, err);
    if (status == KINETO_OK && result) {
        s.done.size = result->size;
        memcpy(result, &s.done, KB_MIN(result->size, sizeof s.done));
    }
done:
    free_scrub(&s);
    return status;
}
