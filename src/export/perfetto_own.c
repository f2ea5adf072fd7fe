/* The table by which ckineto reads its own Perfetto traces back: identities of processes, tracks and counters, which
 * Perfetto has no place for, and the ledger. It is an entry of the metadata, which viewers ignore.
 *
 * Perfetto knows processes and threads by numbers of 31 bits, and other rows by names only: whether a row is a device, a
 * stream or a text of the file is lost there, and so are lanes, which are rows of their own. Events refer to tracks by
 * their uuids, and the table says what each of them is in the trace. What can be told from an event is not in the table:
 * ids, flags and the kind of an activity are in its packet. */
#include "export/perfetto.h"

/* An empty text is left out: readers take it as the default. */
static void put_text_member(kb_json *j, const char *key, kineto_string text)
{
    if (text.size)
        kb_json_put_string(j, key, text);
}

/* A number that is the usual one is left out, so that the table of an ordinary trace stays small. */
static void put_number_member(kb_json *j, const char *key, int64_t n, int64_t usual)
{
    if (n != usual)
        kb_json_put_int(j, key, n);
}

/* Begins a list under this key; the caller ends it. */
static void begin_list(kb_json *j, const char *key)
{
    kb_json_key_z(j, key);
    kb_json_array_begin(j);
}

/* Images of one pid are told apart by the number of those before. */
static int64_t count_same_pid(const ke_perfetto *w, uint32_t index)
{
    const kineto_process *p = &w->processes[index].view;
    int64_t count = 0;
    for (uint32_t i = 0; i < index; i++) {
        const kineto_process *other = &w->processes[i].view;
        count += other->pid == p->pid && other->is_device == p->is_device && !kt_process_text_of(w->trace, i).data;
    }
    return count;
}

/* Processes and devices, in the order of the trace: tracks refer to them by their place. Properties of devices are
 * entries of their own (perfetto_meta.c), in the order of those that are marked here. */
static void put_own_processes(ke_perfetto *w, kb_json *j)
{
    begin_list(j, "processes");
    for (uint32_t i = 0; i < kineto_trace_process_count(w->trace); i++) {
        const kineto_process *p = &w->processes[i].view;
        kineto_string text = kt_process_text_of(w->trace, i);
        kb_json_object_begin(j);
        if (p->is_device)
            kb_json_put_bool(j, "device", true);
        if (text.data)
            kb_json_put_string(j, "text", text);
        kb_json_put_int(j, "pid", p->pid);
        if (!text.data)
            put_number_member(j, "exec", count_same_pid(w, i), 0);
        put_number_member(j, "ppid", p->ppid, 0);
        put_number_member(j, "sort", p->sort_index, 0);
        put_number_member(j, "rank", p->rank, -1);
        put_text_member(j, "name", p->name);
        put_text_member(j, "label", p->label);
        put_text_member(j, "host", p->host);
        put_number_member(j, "place", kt_process_place(w->trace, i), 0);
        if (p->properties_json.size)
            kb_json_put_bool(j, "properties", true);
        kb_json_object_end(j);
    }
    kb_json_array_end(j);
}

/* All tracks, also those that have no packet of their own, such as rows of states that became events of the scheduler.
 * Lanes are not here: readers find them by their parent. */
static void put_own_tracks(ke_perfetto *w, kb_json *j)
{
    begin_list(j, "tracks");
    for (uint32_t i = 0; i < kineto_trace_track_count(w->trace); i++) {
        const kineto_track *t = &w->tracks[i].view;
        kineto_string text = kt_track_text_of(w->trace, i);
        kb_json_object_begin(j);
        kb_json_put_uint(j, "uuid", w->tracks[i].uuid);
        kb_json_put_uint(j, "process", t->process);
        put_number_member(j, "type", t->type, KINETO_TRACK_OTHER);
        if (text.data)
            kb_json_put_string(j, "text", text);
        put_number_member(j, "id", t->id, 0);
        put_number_member(j, "sort", t->sort_index, 0);
        put_text_member(j, "name", t->name);
        if (kt_is_from_file(w->trace) && !kt_track_has_own_tid(w->trace, i))
            kb_json_put_bool(j, "other_tid", true);
        kb_json_object_end(j);
    }
    kb_json_array_end(j);
}

/* Series of counters: Perfetto has only one name for the counter and the key. */
static void put_own_series(ke_perfetto *w, kb_json *j)
{
    begin_list(j, "series");
    for (size_t i = 0; i < w->series_list.count; i++) {
        const ke_pf_series *s = &w->series_list.data[i];
        kb_json_object_begin(j);
        kb_json_put_uint(j, "uuid", s->uuid);
        kb_json_put_uint(j, "track", s->track);
        kb_json_put_string(j, "name", s->name);
        kb_json_put_string(j, "key", s->key);
        put_number_member(j, "kind", s->kind, KINETO_KIND_COUNTER);
        put_text_member(j, "category", kt_category_string(w->trace, s->category));
        kb_json_object_end(j);
    }
    kb_json_array_end(j);
}

/* Categories that plug-ins defined, with the kind that their activities have. */
static void put_own_kinds(ke_perfetto *w, kb_json *j)
{
    uint32_t kind;
    begin_list(j, "kinds");
    for (uint32_t i = 0; i < kt_own_kind_count(w->trace); i++) {
        kineto_string category = kt_own_kind_at(w->trace, i, &kind);
        kb_json_object_begin(j);
        kb_json_put_string(j, "category", category);
        kb_json_put_uint(j, "kind", kind);
        kb_json_object_end(j);
    }
    kb_json_array_end(j);
}

/* The ledger in full; the entries for viewers are cut. */
static void put_own_ledger(ke_perfetto *w, kb_json *j)
{
    kineto_ledger_line line;
    begin_list(j, "ledger");
    for (uint32_t i = 0; i < kineto_trace_ledger_count(w->trace); i++) {
        kineto_trace_ledger(w->trace, i, &line);
        kb_json_object_begin(j);
        kb_json_put_string(j, "source", line.source);
        kb_json_put_string(j, "reason", line.reason);
        kb_json_put_uint(j, "count", line.count);
        if (line.is_loss)
            kb_json_put_bool(j, "loss", true);
        put_text_member(j, "detail", line.detail);
        kb_json_object_end(j);
    }
    kb_json_array_end(j);
}

/* The whole table. Keys are the same in all versions; readers take what is missing as the default. */
static void put_own_table(ke_perfetto *w, kb_json *j)
{
    int64_t start, end;
    kineto_trace_window(w->trace, &start, &end);
    kb_json_object_begin(j);
    kb_json_put_string(j, "version", kb_string(KINETO_VERSION));
    if (kt_is_from_file(w->trace))
        kb_json_put_bool(j, "read", true);
    put_number_member(j, "base", kt_file_base_ns(w->trace), 0);
    begin_list(j, "window");
    kb_json_int(j, start);
    kb_json_int(j, end);
    kb_json_array_end(j);
    put_own_processes(w, j);
    put_own_tracks(w, j);
    put_own_series(w, j);
    if (kt_own_kind_count(w->trace))
        put_own_kinds(w, j);
    put_own_ledger(w, j);
    kb_json_object_end(j);
}

/* The text is made in memory first, as a packet needs its size. */
void ke_pf_write_own(ke_perfetto *w)
{
    kb_sink *sink = NULL;
    kineto_error unused;
    char *text = NULL;
    size_t size = 0;
    kb_json j;
    if (kb_sink_open_memory(KB_COMPRESS_NONE, &sink, &unused)) {
        w->out_of_memory = true;
        return;
    }
    kb_json_init(&j, sink);
    put_own_table(w, &j);
    if (kb_sink_take(sink, &text, &size, &unused))
        w->out_of_memory = true;
    else
        ke_pf_write_json_entry(w, kb_string("ckineto"), (kineto_string){text, size});
    kb_sink_abort(sink);
    free(text);
}
