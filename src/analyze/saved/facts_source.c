/* Describes the trace that facts are of. */
#include "analyze/saved/facts_source.h"
#include "trace/files/identity.h"
#include "trace/trace.h"

#include <limits.h>
#include <sys/stat.h>

void ka_write_source(ka_byte_writer *w, const ka_facts_source *s)
{
    ka_write_text(w, s->version); /* first, in all versions: errors name it */
    ka_write_text(w, s->path);
    ka_write_text(w, s->options);
    ka_write_varint(w, s->bytes);
    ka_write_signed(w, s->modified_ns);
    ka_write_signed(w, s->rank);
    ka_write_varint(w, s->rank_count);
    ka_write_varint(w, s->world_size);
    ka_write_signed(w, s->pid);
    ka_write_text(w, s->host);
    ka_write_text(w, s->backend);
    ka_write_text(w, s->conflict);
    ka_write_signed(w, s->start_ns);
    ka_write_signed(w, s->end_ns);
    ka_write_varint(w, s->activities);
    ka_write_varint(w, s->lost);
    ka_write_varint(w, s->text_bytes);
    ka_write_varint(w, s->is_cut);
    ka_write_fixed(w, s->fingerprint, 8);
    ka_write_bytes(w, s->learned, sizeof s->learned);
}

static bool keep_text(kb_arena *arena, kineto_string *s)
{
    const char *copy = kb_arena_copy(arena, s->data, s->size);
    s->data = copy;
    return copy != NULL;
}

bool ka_read_source(ka_byte_reader *r, kb_arena *arena, ka_facts_source *s)
{
    *s = (ka_facts_source){.version = ka_read_text(r)};
    s->path = ka_read_text(r);
    s->options = ka_read_text(r);
    s->bytes = ka_read_varint(r);
    s->modified_ns = ka_read_signed(r);
    s->rank = ka_read_signed(r);
    s->rank_count = (uint32_t)ka_read_varint(r);
    s->world_size = (uint32_t)ka_read_varint(r);
    s->pid = ka_read_signed(r);
    s->host = ka_read_text(r);
    s->backend = ka_read_text(r);
    s->conflict = ka_read_text(r);
    s->start_ns = ka_read_signed(r);
    s->end_ns = ka_read_signed(r);
    s->activities = ka_read_varint(r);
    s->lost = ka_read_varint(r);
    s->text_bytes = ka_read_varint(r);
    s->is_cut = ka_read_varint(r) != 0;
    s->fingerprint = ka_read_fixed(r, 8);
    const uint8_t *learned = ka_read_bytes(r, sizeof s->learned);
    for (size_t i = 0; learned && i < sizeof s->learned; i++)
        s->learned[i] = learned[i];
    r->is_bad |= s->rank < -1 || s->rank > INT32_MAX || s->world_size > INT32_MAX;
    kineto_string *const texts[] = {&s->version, &s->path, &s->options, &s->host, &s->backend, &s->conflict};
    bool ok = !r->is_bad;
    for (size_t i = 0; i < KB_COUNT(texts) && ok; i++)
        ok = keep_text(arena, texts[i]);
    return ok;
}

/* Also of a path that leads to no file: then only its directory is resolved. */
static const char *resolve_path(const char *path, char *room)
{
    char directory[PATH_MAX], *slash;
    if (realpath(path, room))
        return room;
    snprintf(directory, sizeof directory, "%s%s", strchr(path, '/') ? "" : "./", path);
    slash = strrchr(directory, '/');
    const char *name = path + strlen(path) - strlen(slash + 1);
    slash[slash == directory] = '\0';
    if (!realpath(directory, room) || strlen(room) + strlen(name) + 2 > PATH_MAX)
        return path;
    strcpy(stpcpy(room + strlen(room), room[1] ? "/" : ""), name);
    return room;
}

bool ka_describe_source_file(const char *path, kb_arena *arena, ka_facts_source *s)
{
    char absolute[PATH_MAX];
    struct stat st;
    s->path = kb_string(resolve_path(path, absolute));
    s->version = kb_string(KINETO_VERSION);
    if (stat(path, &st) == 0) {
        s->bytes = (uint64_t)st.st_size;
        s->modified_ns = (int64_t)st.st_mtim.tv_sec * KB_SECOND_NS + st.st_mtim.tv_nsec;
    }
    s->rank = s->pid = -1;
    s->host = s->backend = s->conflict = kb_string("");
    return keep_text(arena, &s->path);
}

bool ka_describe_source_trace(const kineto_trace *trace, int32_t rank, kb_arena *arena, ka_facts_source *s)
{
    kineto_identity id = {.size = sizeof id};
    kineto_trace_identity(trace, s->path.data, &id);
    s->rank = id.rank_count > 1 ? -1 : id.rank >= 0 ? id.rank : rank;
    s->rank_count = id.rank_count;
    s->world_size = (uint32_t)KB_MAX(id.world_size, 0);
    s->pid = id.pid;
    s->host = kb_string(id.host);
    s->backend = kb_string(id.backend);
    s->conflict = kb_string(id.conflict);
    s->activities = kineto_trace_count(trace);
    s->lost = kineto_trace_lost(trace);
    s->text_bytes = kineto_trace_text_bytes(trace);
    s->is_cut = kt_ledger_is_cut(trace);
    s->fingerprint = kt_trace_fingerprint(trace, &id);
    const uint8_t learned[] = {id.rank_learned, id.world_size_learned, id.pid_learned, id.host_learned, id.backend_learned};
    memcpy(s->learned, learned, sizeof s->learned);
    kineto_trace_window(trace, &s->start_ns, &s->end_ns);
    return keep_text(arena, &s->host) && keep_text(arena, &s->backend) && keep_text(arena, &s->conflict);
}

static void copy_text(char *out, size_t size, kineto_string s)
{
    snprintf(out, size, "%.*s", (int)KB_MIN(s.size, size - 1), s.data);
}

void ka_source_identity(const ka_facts_source *s, kineto_identity *out)
{
    *out = (kineto_identity){.size = sizeof *out,
                             .rank = s->learned[0] ? (int32_t)s->rank : -1,
                             .world_size = (int32_t)s->world_size,
                             .pid = s->pid,
                             .rank_count = s->rank_count,
                             .rank_learned = s->learned[0],
                             .world_size_learned = s->learned[1],
                             .pid_learned = s->learned[2],
                             .host_learned = s->learned[3],
                             .backend_learned = s->learned[4]};
    copy_text(out->host, sizeof out->host, s->host);
    copy_text(out->backend, sizeof out->backend, s->backend);
    copy_text(out->conflict, sizeof out->conflict, s->conflict);
}

uint64_t ka_hash_source_path(kineto_string path) { return kb_hash(path.data, path.size); }

/* "default" < "findings" < "all": facts of more have those of less. */
static int measure_options(kineto_string options)
{
    return kb_string_is(options, "all") ? 2 : kb_string_is(options, "findings");
}

bool ka_is_same_source(const ka_facts_source *made, const ka_facts_source *now)
{
    return made->bytes == now->bytes && made->modified_ns == now->modified_ns &&
           kb_string_equal(made->path, now->path) && kb_string_equal(made->version, now->version) &&
           measure_options(made->options) >= measure_options(now->options);
}
