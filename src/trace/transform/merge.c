/* Merges traces: each is copied after those before it. Its processes stay processes of their own,
 * its ids are shifted past all earlier ones, its ledger lines get its label as a prefix. Times are
 * copied unchanged: clocks of different machines are not aligned. */
#include "trace/transform/merge.h"

#include <math.h>

/* Added by Kineto to the sort index of devices, so that viewers show them after processes. */
#define DEVICE_SORT_INDEX 5000000

static kineto_status fail_merge_memory(kineto_error *err)
{
    return kb_fail_memory(err, "merge traces");
}

kineto_status kt_merger_begin(kt_merger *m, const char *const *paths, size_t count,
                              kineto_error *err)
{
    *m = (kt_merger){.common = kt_common_directory(paths, count)};
    m->survey = kt_survey_create();
    if (!m->survey || kb_intern_id(&m->texts, kb_string("")) == KB_INTERN_NONE)
        return fail_merge_memory(err);
    return kt_builder_create(&m->b, err);
}

void kt_merger_free(kt_merger *m)
{
    for (size_t i = 0; i < m->sources.count; i++)
        free(m->sources.data[i].path);
    kb_vec_free(&m->sources);
    kb_vec_free(&m->members);
    kb_vec_free(&m->snapshots);
    kb_vec_free(&m->messages);
    kb_intern_free(&m->texts);
    kineto_survey_destroy(m->survey);
    kineto_trace_release(m->only);
    kt_builder_destroy(m->b);
}

/* ---- copying one source ---------------------------------------------------------------------- */

/* Ids above KT_LARGE_ID are shifted within their own range; they count as 1, so that the next
 * source is shifted at all. */
static void raise_largest_id(uint64_t *most, uint64_t id)
{
    *most = KB_MAX(*most, id < KT_LARGE_ID ? id : 1);
}

/* The largest id of a trace that joins rows. */
static uint64_t largest_source_id(const kineto_trace *t)
{
    uint64_t most = 0;
    for (size_t i = 0; i < t->blocks.count; i++) {
        const kt_block *b = t->blocks.data[i];
        for (uint32_t row = 0; row < b->count; row++) {
            raise_largest_id(&most, b->correlation_id[row]);
            raise_largest_id(&most, b->external_id[row]);
        }
    }
    for (size_t i = 0; i < t->flows.count; i++)
        raise_largest_id(&most, KB_MAX(t->flows.data[i].id, 1u));
    for (size_t i = 0; i < t->async_ids.count; i++)
        raise_largest_id(&most, t->async_ids.data[i].id);
    return most;
}

/* Copies the ledger with the label before each detail. */
static void copy_source_ledger(kt_merger *m, const kt_merge_source *s, const kineto_trace *t)
{
    for (uint32_t i = 0; i < kineto_trace_ledger_count(t); i++) {
        kineto_ledger_line line;
        kineto_trace_ledger(t, i, &line);
        size_t label = strlen(s->label), size = label + 2 + line.detail.size;
        char *detail = malloc(size + 1);
        m->out_of_memory |= !detail;
        if (!detail)
            return;
        memcpy(detail, s->label, label);
        memcpy(detail + label, ": ", 3);
        if (line.detail.size)
            memcpy(detail + label + 2, line.detail.data, line.detail.size);
        kt_ledger_add(m->b, line.source, line.reason, line.count, line.is_loss,
                      (kineto_string){detail, line.detail.size ? size : label});
        free(detail);
    }
}

/* In one trace a category of a plug-in has one kind: that of the first source. Counts sources that
 * differ. */
static void copy_source_kinds(kt_merger *m, kt_copy *c)
{
    for (uint32_t i = 0; i < kt_own_kind_count(c->from); i++) {
        uint32_t kind;
        int known = kt_own_kind_find(m->b, kt_own_kind_at(c->from, i, &kind));
        m->kind_conflicts += known >= 0 && (uint32_t)known != kind;
    }
    kt_copy_own_kinds(c);
}

/* A source without window and activities does not extend it. */
static void extend_window(kt_merger *m, const kt_merge_source *s, bool has_window)
{
    kineto_trace *t = m->b->trace;
    if (!has_window && !s->activities)
        return;
    int64_t start = s->window_start_ns, end = s->window_end_ns;
    if (t->has_window) {
        start = KB_MIN(start, t->window_start_ns);
        end = KB_MAX(end, t->window_end_ns);
    }
    kt_window(m->b, start, end);
}

/* The label names a source in ledger lines and process labels. */
static void label_source(kt_merge_source *s)
{
    if (s->identity.rank >= 0) {
        snprintf(s->label, sizeof s->label, "rank %d", s->identity.rank);
        return;
    }
    snprintf(s->label, sizeof s->label, "%s", s->name);
    s->label[kb_utf8_valid_prefix(s->label, strlen(s->label))] = '\0';
}

/* Copies a source into the builder. Memory errors of the builder itself are reported when it is
 * finished. */
static kineto_status copy_source(kt_merger *m, uint32_t index, const kineto_trace *t,
                                 kineto_error *err)
{
    kt_copy c;
    kt_merge_source *s = &m->sources.data[index];
    kineto_trace *to = m->b->trace;
    KB_ASSERT(index < m->sources.count);
    KB_ASSERT(index == 0 || s[-1].end_process <= to->processes.count);
    bool ok = kt_copy_begin(&c, m->b, t) && kt_merge_keep_header(m, index, t);
    if (ok) {
        c.first_id = s->first_id = m->next_id;
        c.first_process = s->first_process = (uint32_t)to->processes.count;
        c.apart = kb_string(s->label);
        c.clock = s->clock;
        copy_source_kinds(m, &c);
        m->out_of_memory |= !kt_list_messages(t, (kineto_row)to->count, index, &m->messages);
        kt_copy_rows(&c);
        copy_source_ledger(m, s, t);
        extend_window(m, s, t->has_window);
        s->end_process = (uint32_t)to->processes.count;
        to->text_bytes += t->text_bytes;
        m->next_id += largest_source_id(t);
    }
    kt_copy_free(&c);
    return ok && !m->out_of_memory ? KINETO_OK : fail_merge_memory(err);
}

/* The first source is held back: if no other comes, it is the result. */
static kineto_status copy_held_source(kt_merger *m, kineto_error *err)
{
    kineto_trace *first = m->only;
    if (!first)
        return KINETO_OK;
    m->only = NULL;
    kineto_status status = copy_source(m, 0, first, err);
    kineto_trace_release(first);
    return status;
}

kineto_status kt_merger_add(kt_merger *m, kineto_trace *trace, const char *path,
                            const kineto_identity *identity, kineto_error *err)
{
    if (!kt_survey_add(m->survey, path, trace, identity, NULL))
        return fail_merge_memory(err);
    if (m->skips_repeated && kt_survey_last_is_repeated(m->survey, trace))
        return KINETO_OK;
    kt_merge_source s = {.identity = *identity, .path = strdup(path)};
    if (!s.path || !kb_vec_push(&m->sources, s)) {
        free(s.path);
        return fail_merge_memory(err);
    }
    uint32_t index = (uint32_t)m->sources.count - 1;
    kt_merge_source *source = &m->sources.data[index];
    source->name = source->path + KB_MIN(m->common, strlen(path));
    source->activities = kineto_trace_count(trace);
    source->flows = kineto_trace_flow_count(trace);
    source->clock = m->clocks ? m->clocks->find(m->clocks->context, path) : NULL;
    kineto_trace_window(trace, &source->window_start_ns, &source->window_end_ns);
    source->window_start_ns = kt_correct_time(source->clock, source->window_start_ns);
    source->window_end_ns = kt_correct_time(source->clock, source->window_end_ns);
    label_source(source);
    if (index == 0) {
        m->only = kineto_trace_retain(trace);
        return KINETO_OK;
    }
    kineto_status status = copy_held_source(m, err);
    return status == KINETO_OK ? copy_source(m, index, trace, err) : status;
}

kineto_status kt_merger_add_unreadable(kt_merger *m, const char *path, const kineto_error *why,
                             kineto_error *err)
{
    return kt_survey_add(m->survey, path, NULL, NULL, why) ? KINETO_OK : fail_merge_memory(err);
}

/* ---- messages between sources ---------------------------------------------------------------- */

/* An arrow. Messages within one source have theirs from its file. */
static void join_message(void *context, const kt_message_end *sent, const kt_message_end *received)
{
    kt_merger *m = context;
    kineto_flow flow = {KINETO_FLOW_USER, ++m->next_id, sent->row, received->row};
    if (sent->part != received->part)
        m->out_of_memory |= !kt_flow_add(m->b->trace, flow);
}

/* ---- rows of processes ----------------------------------------------------------------------- */

/* Appends to a comma-separated text of the builder; *text becomes its new id. */
static void append_to_label(kt_merger *m, uint32_t *text, const char *more)
{
    kineto_string old = kb_intern_get(&m->b->trace->strings, *text);
    size_t size = strlen(more), comma = old.size ? 2 : 0;
    char *all = malloc(old.size + size + 3);
    m->out_of_memory |= !all;
    if (!all)
        return;
    if (old.size)
        memcpy(all, old.data, old.size);
    memcpy(all + old.size, ", ", comma);
    memcpy(all + old.size + comma, more, size);
    *text = kt_string(m->b, (kineto_string){all, old.size + comma + size});
    free(all);
}

/* Labels mention hosts only if there are several. */
static bool has_several_hosts(const kt_merger *m)
{
    const char *first = NULL;
    for (size_t i = 0; i < m->sources.count; i++) {
        const char *host = m->sources.data[i].identity.host;
        if (host[0] && first && strcmp(host, first) != 0)
            return true;
        first = host[0] ? host : first;
    }
    return false;
}

/* "clock +1.234 ms ± 800 ns": what was added to its times, in the middle of the run. */
static kb_text describe_clock(const kt_clock *c)
{
    kb_text text;
    int64_t offset = llround(c->offset_ns);
    kb_snprintf(text.s, sizeof text.s, "clock %s%s ± %s", offset < 0 ? "" : "+", kb_duration(offset).s,
                kb_duration(c->error_ns).s);
    return text;
}

/* Sets rank and host of a source's processes, and appends them to the labels that viewers show. A
 * source that is a merged trace itself has them already. */
static void mark_processes(kt_merger *m, const kt_merge_source *s, bool with_host)
{
    uint32_t host = kt_string(m->b, kb_string(s->identity.host));
    bool several = s->identity.rank_count > 1;
    for (uint32_t i = s->first_process; i < s->end_process; i++) {
        kt_process_row *p = &m->b->trace->processes.data[i];
        if (p->rank < 0 && !several)
            p->rank = s->identity.rank;
        if (!p->host && !several)
            p->host = host;
        if (several)
            continue;
        uint32_t label = p->label;
        append_to_label(m, &label, s->label);
        if (with_host && s->identity.host[0])
            append_to_label(m, &label, s->identity.host);
        if (s->clock)
            append_to_label(m, &label, describe_clock(s->clock).s);
        m->b->trace->processes.data[i].label = label;
    }
}

typedef struct process_place {
    uint32_t rank, source;
    int64_t index;
    uint32_t process;
} process_place;

static int compare_process_places(const void *left, const void *right)
{
    const process_place *a = left, *b = right;
    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    if (a->source != b->source)
        return a->source < b->source ? -1 : 1;
    if (a->index != b->index)
        return a->index < b->index ? -1 : 1;
    return a->process < b->process ? -1 : a->process > b->process;
}

/* Numbers the sort indices so that viewers show rank after rank, each in its own order. */
static void order_processes(kt_merger *m)
{
    kineto_trace *t = m->b->trace;
    process_place *places = malloc((t->processes.count + 1) * sizeof *places);
    size_t count = 0;
    m->out_of_memory |= !places;
    for (uint32_t s = 0; places && s < m->sources.count; s++) {
        for (uint32_t i = m->sources.data[s].first_process; i < m->sources.data[s].end_process;
             i++) {
            const kt_process_row *p = &t->processes.data[i];
            int64_t usual = p->is_device ? (p->pid & INT32_MAX) + DEVICE_SORT_INDEX : p->pid;
            KB_ASSERT(count < t->processes.count);
            places[count++] =
                (process_place){(uint32_t)p->rank, s, p->sort_index ? p->sort_index : usual, i};
        }
    }
    if (count)
        qsort(places, count, sizeof *places, compare_process_places);
    for (size_t i = 0; i < count; i++)
        t->processes.data[places[i].process].sort_index = (int64_t)i + 1;
    free(places);
}

/* ---- the ledger ------------------------------------------------------------------------------ */

/* Host processes whose number an earlier process of another source has. */
static uint64_t count_shared_pids(kt_merger *m)
{
    const kineto_trace *t = m->b->trace;
    uint64_t shared = 0;
    kb_map seen = {0};
    for (uint32_t i = 0; i < t->processes.count; i++) {
        bool created;
        if (t->processes.data[i].is_device || kt_process_text_of(t, i).data)
            continue;
        if (!kb_map_insert(&seen, (uint64_t)t->processes.data[i].pid, 1, &created))
            m->out_of_memory = true;
        else
            shared += !created;
    }
    kb_map_free(&seen);
    return shared;
}

/* Records the merge itself, then the findings of the survey. */
static void write_merge_ledger(kt_merger *m)
{
    kineto_string source = kb_string("merge");
    uint64_t shared = count_shared_pids(m);
    kt_ledger_add(m->b, source, kb_string("traces merged"), m->sources.count, false,
                  kb_string(m->clocks ? m->clocks->note : "their clocks are not aligned: times are those of each file"));
    if (shared)
        kt_ledger_add(m->b, source, kb_string("processes with a number that another one has"),
                      shared, false,
                      kb_string("they stay apart; formats that know processes by their number "
                                "show them with another"));
    if (m->kind_conflicts)
        kt_ledger_add(m->b, source, kb_string("categories with another kind in another trace"),
                      m->kind_conflicts, false, kb_string("the first one counts"));
    for (uint32_t i = 0; i < kineto_survey_finding_count(m->survey); i++) {
        kineto_files_finding f;
        kineto_survey_finding(m->survey, i, &f);
        kt_ledger_add(m->b, source, kb_string(f.meaning), KB_MAX(f.total, 1u),
                      f.kind == KINETO_FILES_UNREADABLE, f.sentence);
    }
}

/* Settles the survey first, so that its findings are in the ledger; the header is written when all
 * sources are known. */
kineto_status kt_merger_finish(kt_merger *m, const kineto_files *files, bool whole,
                               kineto_trace **out, kineto_error *err)
{
    if (!kt_survey_settle(m->survey, files, whole))
        return fail_merge_memory(err);
    if (m->only && kineto_survey_count(m->survey) == 1) {
        *out = m->only;
        m->only = NULL;
        return KINETO_OK;
    }
    kineto_status status = copy_held_source(m, err);
    if (status != KINETO_OK)
        return status;
    if (m->b->status == KINETO_OK) {
        bool several = has_several_hosts(m);
        for (size_t i = 0; i < m->sources.count; i++)
            mark_processes(m, &m->sources.data[i], several);
        order_processes(m);
        kt_join_messages(&m->messages, join_message, m);
        status = kt_merge_put_header(m, err);
        write_merge_ledger(m);
    }
    if (status == KINETO_OK && m->out_of_memory)
        status = fail_merge_memory(err);
    return status == KINETO_OK ? kt_builder_finish(m->b, out, err) : status;
}

/* ---- the call -------------------------------------------------------------------------------- */

/* Reads element `index`: the caller's structures have the size of its version of the library. */
static kineto_status read_caller_identity(const kineto_merge_options *how, size_t index,
                                          kineto_identity *out, kineto_error *err)
{
    const char *first = (const char *)how->identities;
    kineto_status status = kb_size_check(first, "kineto_identity", err);
    if (status || !first)
        return status;
    size_t size = how->identities->size;
    memcpy(out, first + index * size, KB_MIN(size, sizeof *out));
    return KINETO_OK;
}

/* Adds a trace of kineto_trace_merge, with the caller's identity if it gave one. */
static kineto_status add_caller_trace(kt_merger *m, const kineto_merge_options *how, size_t index,
                                      const kineto_trace *trace, kineto_error *err)
{
    char number[32];
    kineto_identity identity = {.size = sizeof identity, .rank = -1, .pid = -1};
    const char *path = how->paths ? how->paths[index] : NULL;
    if (!trace)
        return kb_fail(err, KINETO_E_ARGUMENT, "kineto_trace_merge: trace %zu must not be NULL",
                       index + 1);
    kineto_status status = read_caller_identity(how, index, &identity, err);
    if (status)
        return status;
    if (!how->identities)
        kineto_trace_identity(trace, path, &identity);
    snprintf(number, sizeof number, "trace %zu", index + 1);
    /* Retained while it waits for a second one, and never changed. */
    return kt_merger_add(m, (kineto_trace *)(uintptr_t)trace, path ? path : number, &identity, err);
}

kineto_status kineto_trace_merge(const kineto_trace *const *traces, size_t count,
                                 const kineto_merge_options *options, kineto_trace **out,
                                 kineto_error *err)
{
    kt_merger m;
    kineto_merge_options how = {0};
    if (out)
        *out = NULL;
    if (!traces || !out)
        return kb_fail_null(err, __func__, "traces, out", traces, out);
    if (!count)
        return kb_fail(err, KINETO_E_ARGUMENT, "kineto_trace_merge: count must not be 0");
    kineto_status status = kb_options_read(&how, sizeof how, options, "kineto_merge_options", err);
    if (status)
        return status;
    status = kt_merger_begin(&m, how.paths, how.paths ? count : 0, err);
    for (size_t i = 0; status == KINETO_OK && i < count; i++)
        status = add_caller_trace(&m, &how, i, traces[i], err);
    if (status == KINETO_OK)
        status = kt_merger_finish(&m, NULL, false, out, err);
    kt_merger_free(&m);
    return status;
}
