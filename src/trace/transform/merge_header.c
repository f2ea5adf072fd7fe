/* The header of a merged trace: members that all sources have alike stay members; the list
 * "mergedTraces" has an entry for each source with its identity, window and the members that
 * differ. merged_part.c reads the list. */
#include "trace/transform/merge.h"

bool kt_merge_keep_header(kt_merger *m, uint32_t source, const kineto_trace *trace)
{
    bool ok = true;
    for (uint32_t i = 0; ok && i < kineto_trace_metadata_count(trace); i++) {
        kineto_string key, value;
        kineto_trace_metadata(trace, i, &key, &value);
        kt_merge_member member = {source, kb_intern_id(&m->texts, key),
                                  kb_intern_id(&m->texts, value)};
        ok = member.key != KB_INTERN_NONE && member.value != KB_INTERN_NONE &&
             kb_vec_push(&m->members, member);
    }
    kt_merge_source *s = &m->sources.data[source];
    s->first_snapshot = m->snapshots.count;
    s->snapshot_count = trace->snapshots.count;
    for (size_t i = 0; ok && i < trace->snapshots.count; i++)
        ok = kb_vec_push(&m->snapshots, trace->snapshots.data[i]);
    return ok;
}

/* ---- members that all have alike ------------------------------------------------------------- */

/* By id of the key: the value of the first source that has it, and how many sources have that
 * value. */
typedef struct shared_value {
    uint32_t value;
    size_t count;
} shared_value;

/* NULL: out of memory. By id of the key, for all members of all sources. */
static shared_value *count_shared_members(const kt_merger *m)
{
    shared_value *keys = calloc(m->texts.strings.count + 1, sizeof *keys);
    for (size_t i = 0; keys && i < m->members.count; i++) {
        const kt_merge_member *member = &m->members.data[i];
        shared_value *key = &keys[member->key];
        if (!key->count)
            key->value = member->value;
        key->count += key->value == member->value;
    }
    return keys;
}

/* A list of an earlier merge belongs to its own trace, even if all sources have the same. */
static bool is_shared_member(const kt_merger *m, const shared_value *keys,
                             const kt_merge_member *member)
{
    return keys[member->key].count == m->sources.count &&
           !kb_string_equal(kb_intern_get(&m->texts, member->key), kb_string("mergedTraces"));
}

/* Readings of one machine's clocks do not apply to another machine. */
static bool have_same_snapshots(const kt_merger *m)
{
    const kt_merge_source *first = &m->sources.data[0];
    for (size_t i = 1; i < m->sources.count; i++) {
        const kt_merge_source *s = &m->sources.data[i];
        if (s->snapshot_count != first->snapshot_count ||
            (s->snapshot_count && memcmp(m->snapshots.data + s->first_snapshot,
                                         m->snapshots.data + first->first_snapshot,
                                         s->snapshot_count * sizeof *m->snapshots.data) != 0))
            return false;
    }
    return true;
}

/* ---- the list "mergedTraces" ----------------------------------------------------------------- */

/* Readings of a source's clocks, if they differ between sources. */
static void write_part_snapshots(const kt_merger *m, const kt_merge_source *s, kb_json *j)
{
    kb_json_key_z(j, "snapshots");
    kb_json_array_begin(j);
    for (size_t i = 0; i < s->snapshot_count; i++) {
        const kb_clock_snapshot *c = &m->snapshots.data[s->first_snapshot + i];
        kb_json_object_begin(j);
        kb_json_put_uint(j, "ticks", c->ticks);
        kb_json_put_int(j, "monotonic_ns", c->monotonic_ns);
        kb_json_put_int(j, "monotonic_raw_ns", c->monotonic_raw_ns);
        kb_json_put_int(j, "realtime_ns", c->realtime_ns);
        kb_json_put_int(j, "boottime_ns", c->boottime_ns);
        kb_json_put_uint(j, "width_ticks", c->width_ticks);
        kb_json_object_end(j);
    }
    kb_json_array_end(j);
}

/* What was added to the times of the source: offset_ns + drift * (t - middle_ns). */
static void write_part_clock(const kt_clock *c, kb_json *j)
{
    kb_json_key_z(j, "clock");
    kb_json_object_begin(j);
    kb_json_put_double(j, "offset_ns", c->offset_ns);
    kb_json_put_double(j, "drift", c->drift);
    kb_json_put_int(j, "middle_ns", c->middle_ns);
    kb_json_put_int(j, "error_ns", c->error_ns);
    kb_json_object_end(j);
}

/* Name, identity, counts, and the window, which a selection by rank restores. */
static void write_part_identity(const kt_merge_source *s, kb_json *j)
{
    kb_json_put_string(j, "name", kb_string(s->name));
    kt_put_identity(j, &s->identity);
    kb_json_put_uint(j, "activities", s->activities);
    kb_json_put_uint(j, "flows", s->flows);
    kb_json_put_uint(j, "first_id", s->first_id);
    kb_json_key_z(j, "window");
    kb_json_array_begin(j);
    kb_json_int(j, s->window_start_ns);
    kb_json_int(j, s->window_end_ns);
    kb_json_array_end(j);
    if (s->clock)
        write_part_clock(s->clock, j);
}

/* Members are in the order of their sources, so one pass over them serves all entries. */
static void write_parts(const kt_merger *m, const shared_value *keys, bool snapshots, kb_json *j)
{
    size_t next = 0;
    kb_json_array_begin(j);
    for (uint32_t i = 0; i < m->sources.count; i++) {
        kb_json_newline(j);
        kb_json_object_begin(j);
        write_part_identity(&m->sources.data[i], j);
        kb_json_key_z(j, "header");
        kb_json_object_begin(j);
        for (; next < m->members.count && m->members.data[next].source == i; next++) {
            const kt_merge_member *member = &m->members.data[next];
            if (is_shared_member(m, keys, member))
                continue;
            kb_json_key(j, kb_intern_get(&m->texts, member->key));
            kb_json_raw(j, kb_intern_get(&m->texts, member->value));
        }
        kb_json_object_end(j);
        if (snapshots && m->sources.data[i].snapshot_count)
            write_part_snapshots(m, &m->sources.data[i], j);
        kb_json_object_end(j);
    }
    KB_ASSERT(next == m->members.count);
    kb_json_array_end(j);
}

/* Formats the list in memory and makes it a member of the header. */
static kineto_status write_merged_member(kt_merger *m, const shared_value *keys, bool snapshots,
                                         kineto_error *err)
{
    kb_sink *sink;
    kb_json j;
    char *text = NULL;
    size_t size = 0;
    kineto_error unused; /* a memory sink cannot fail to close */
    kineto_status status = kb_sink_open_memory(KB_COMPRESS_NONE, &sink, err);
    if (status != KINETO_OK)
        return status;
    kb_json_init(&j, sink);
    write_parts(m, keys, snapshots, &j);
    status = kb_sink_take(sink, &text, &size, err);
    (void)kb_sink_close(sink, &unused);
    if (status == KINETO_OK)
        kt_metadata(m->b, kb_string("mergedTraces"), (kineto_string){text, size});
    free(text);
    return status;
}

/* How the clocks of the sources are aligned, or why they are not. */
static void put_clock_note(kt_merger *m)
{
    char text[2048];
    uint64_t replaced = 0;
    if (!m->clocks || strlen(m->clocks->note) > sizeof text / 8)
        return;
    const char *end = kb_json_escape(text, kb_string(m->clocks->note), &replaced);
    kt_metadata(m->b, kb_string("clocks"), (kineto_string){text, (size_t)(end - text)});
}

kineto_status kt_merge_put_header(kt_merger *m, kineto_error *err)
{
    shared_value *keys = count_shared_members(m);
    if (!keys)
        return kb_fail_memory(err, "header of a merged trace");
    for (size_t i = 0; i < m->members.count; i++) {
        const kt_merge_member *member = &m->members.data[i];
        if (member->source == 0 && is_shared_member(m, keys, member))
            kt_metadata(m->b, kb_intern_get(&m->texts, member->key),
                        kb_intern_get(&m->texts, member->value));
    }
    bool alike = have_same_snapshots(m);
    for (size_t i = 0; alike && i < m->sources.data[0].snapshot_count; i++)
        kt_snapshot(m->b, &m->snapshots.data[i]);
    put_clock_note(m);
    kineto_status status = write_merged_member(m, keys, !alike, err);
    free(keys);
    return status;
}
