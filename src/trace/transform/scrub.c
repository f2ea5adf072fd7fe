/* A trace in which pseudonyms stand for what names people, machines and code. */
#include "trace/transform/scrub.h"

#include "trace/bytes/json_text.h"

static kineto_status no_memory(kineto_error *err)
{
    return kb_fail(err, KINETO_E_MEMORY, "no memory to scrub a trace");
}

/* ---- beginning ------------------------------------------------------------------------------- */

/* Two hashes of the salt under fixed keys are the key of all others. */
static void make_key(kt_scrub *s)
{
    static const uint64_t first[2] = {UINT64_C(0x636b696e65746f20), UINT64_C(0x7363727562206b31)};
    static const uint64_t second[2] = {UINT64_C(0x636b696e65746f20), UINT64_C(0x7363727562206b32)};
    s->key[0] = kb_siphash(first, s->how.salt, s->how.salt_bytes);
    s->key[1] = kb_siphash(second, s->how.salt, s->how.salt_bytes);
}

static kineto_status compile_keep(kt_scrub *s, kineto_error *err)
{
    char reason[128];
    if (!s->how.keep)
        return KINETO_OK;
    int code = regcomp(&s->keep, s->how.keep, REG_EXTENDED | REG_NOSUB);
    if (code) {
        regerror(code, &s->keep, reason, sizeof reason);
        return kb_fail(err, KINETO_E_ARGUMENT,
                       "'%s' for what to keep is no extended regular expression: %s", s->how.keep,
                       reason);
    }
    s->has_keep = true;
    return KINETO_OK;
}

/* Remember a name of this machine or another, to find it in texts. */
static void note_host(kt_scrub *s, kineto_string host)
{
    for (size_t i = 0; i < s->hosts.count; i++)
        if (kb_string_equal(s->hosts.data[i], host))
            return;
    if (host.size && !kb_vec_push(&s->hosts, host))
        s->failed = true;
}

/* Names of machines that the trace states as such. */
static void find_hosts(kt_scrub *s)
{
    for (uint32_t i = 0; i < kineto_trace_process_count(s->from); i++) {
        kineto_process p;
        kineto_trace_process(s->from, i, &p);
        note_host(s, p.host);
    }
    for (uint32_t i = 0; i < kineto_trace_metadata_count(s->from); i++) {
        kineto_string key, value;
        kineto_trace_metadata(s->from, i, &key, &value);
        if (kt_known_key(key) == KT_KEY_HOST && kt_json_is_string(value) && value.size > 2)
            note_host(s, kt_json_inside(value));
    }
}

/* ---- tables ---------------------------------------------------------------------------------- */

static uint32_t scrub_text(void *context, kt_text_role role, kineto_string text)
{
    kt_scrub *s = context;
    switch (role) {
    case KT_TEXT_CATEGORY:
        return kt_string(s->b, kt_scrub_category(s, text));
    case KT_TEXT_PROCESS:
        return kt_string(s->b, kt_scrub_place(s, false, text));
    case KT_TEXT_TRACK:
        return kt_string(s->b, kt_scrub_place(s, true, text));
    case KT_TEXT_HOST:
        return kt_string(s->b, kt_scrub_host(s, text));
    case KT_TEXT_DEVICE:
        return kt_string(s->b, kt_scrub_json(s, text, KT_KEY_UNKNOWN, KINETO_SCRUB_HEADER));
    default:
        return 0; /* names of rows depend on their kind: see rows below */
    }
}

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

static uint32_t ledger_word(kt_scrub *s, kineto_string word, bool known)
{
    if (!kt_scrubs(s, KINETO_SCRUB_HEADER))
        return kt_string(s->b, kt_scrub_inside(s, word));
    return kt_string(s->b, known ? word : kt_scrub_hash(s, "s_", word));
}

/* Sentences go whole: there is no form in them to keep. */
static uint32_t ledger_detail(kt_scrub *s, kineto_string detail)
{
    if (!kt_scrubs(s, KINETO_SCRUB_HEADER))
        return kt_string(s->b, kt_scrub_inside(s, detail));
    s->done.texts += detail.size > 0;
    return 0;
}

static void scrub_ledger(kt_scrub *s)
{
    for (uint32_t i = 0; i < kineto_trace_ledger_count(s->from); i++) {
        kineto_ledger_line line;
        kineto_trace_ledger(s->from, i, &line);
        uint32_t source = ledger_word(s, line.source, kt_known_source(line.source));
        uint32_t reason = ledger_word(s, line.reason, kt_known_reason(line.reason));
        uint32_t detail = ledger_detail(s, line.detail);
        const kb_intern *texts = &s->b->trace->strings;
        kt_ledger_add(s->b, kb_intern_get(texts, source), kb_intern_get(texts, reason), line.count,
                      line.is_loss, kb_intern_get(texts, detail));
    }
}

/* ---- rows ------------------------------------------------------------------------------------ */

static uint32_t name_of(kt_scrub *s, uint32_t kind, uint32_t name)
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

/* Readers make numbers of ids that are texts, in a way that anyone can repeat: those are hashed
 * again. Small ones are numbers. */
static uint64_t id_of(const kt_scrub *s, uint64_t id)
{
    uint8_t bytes[8];
    if (id <= UINT32_MAX || !kt_scrubs(s, KINETO_SCRUB_NAMES))
        return id;
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(id >> 8 * i);
    return kb_siphash(s->key, bytes, sizeof bytes);
}

static void scrub_rows(kt_scrub *s)
{
    for (kineto_row row = 0; row < s->from->count && !s->failed; row++) {
        const kt_block *block = kt_block_of(s->from, row);
        kt_row columns;
        kt_copy_columns(&s->copy, row, &columns);
        columns.name = name_of(s, columns.kind, block->name[row % KT_BLOCK_ROWS]);
        columns.async_id = id_of(s, columns.async_id);
        kt_scrub_args(s, row);
        kt_append(s->b, &columns);
    }
}

static void scrub_flows(kt_scrub *s)
{
    for (uint64_t i = 0; i < kineto_trace_flow_count(s->from); i++) {
        kineto_flow f;
        kineto_trace_flow(s->from, i, &f);
        f.id = id_of(s, f.id);
        kt_copy_flow(&s->copy, i, &f, f.from, f.to);
    }
}

/* ---- the call -------------------------------------------------------------------------------- */

static void tell(kt_scrub *s)
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

static void scrub_all(kt_scrub *s)
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
    tell(s);
}

static void release(kt_scrub *s)
{
    kt_copy_free(&s->copy);
    kt_builder_destroy(s->b);
    if (s->has_keep)
        regfree(&s->keep);
    kb_vec_free(&s->out);
    kb_vec_free(&s->json);
    kb_vec_free(&s->scratch);
    kb_vec_free(&s->plain);
    kb_vec_free(&s->hosts);
    kb_vec_free(&s->key_rows);
    kb_intern_free(&s->keys);
    kb_map_free(&s->names);
    memset(s->key, 0, sizeof s->key);
}

static kineto_status check(const kineto_scrub *how, kineto_error *err)
{
    if (how->what & ~KINETO_SCRUB_ALL || !(how->what & KINETO_SCRUB_ALL))
        return kb_fail(err, KINETO_E_ARGUMENT, "say what to scrub, of what this version knows");
    if (!how->salt || !how->salt_bytes)
        return kb_fail(err, KINETO_E_ARGUMENT, "pseudonyms need a salt that is not empty");
    return KINETO_OK;
}

kineto_status kineto_trace_scrub(const kineto_trace *trace, const kineto_scrub *how,
                                 kineto_trace **out, kineto_scrub_result *result, kineto_error *err)
{
    if (out)
        *out = NULL;
    if (!trace || !how || !out)
        return kb_fail(err, KINETO_E_ARGUMENT, "a trace and what to scrub are needed");
    kt_scrub s = {.from = trace};
    kineto_status status = kb_options_read(&s.how, sizeof s.how, how, "kineto_scrub", err);
    if (!status)
        status = kb_size_check(result, "kineto_scrub_result", err);
    if (!status)
        status = check(&s.how, err);
    if (status == KINETO_OK)
        status = compile_keep(&s, err);
    if (status == KINETO_OK)
        status = kt_builder_create(&s.b, err);
    if (status != KINETO_OK)
        goto done;
    make_key(&s);
    find_hosts(&s);
    if (!kt_copy_begin(&s.copy, s.b, trace) || kb_intern_id(&s.keys, kb_string("")) != 0) {
        status = no_memory(err);
        goto done;
    }
    s.copy.text = scrub_text;
    s.copy.context = &s;
    scrub_all(&s);
    status = s.failed || s.copy.failed ? no_memory(err) : kt_builder_finish(s.b, out, err);
    if (status == KINETO_OK && result) {
        s.done.size = result->size;
        memcpy(result, &s.done, KB_MIN(result->size, sizeof s.done));
    }
done:
    release(&s);
    return status;
}
