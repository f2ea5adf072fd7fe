/* Identity of a trace: rank, world size, process, host and backend. Sources are, in this order, the
 * trace's header, its process rows, the environment variables that the header may hold, the name of
 * the file, and the names of its directories. The first source that has a value wins; a source that
 * contradicts it is named in `conflict`. Implements kineto_trace_identity of <ckineto/files.h>. */
#include "trace/files/identity.h"

#include "trace/model/model.h"
#include "trace/bytes/json_value.h"

#define LEARNED (KINETO_LEARNED_DIRECTORY + 1)

/* The values of one property by source. has[i] false: source i has none. */
typedef struct reported {
    bool has[LEARNED];
    int64_t number[LEARNED];
    kineto_string text[LEARNED];
} reported;

typedef struct identity_sources {
    const kineto_trace *t;
    kineto_identity *out;
    reported rank, world_size, pid, host, backend;
    size_t conflict_size; /* bytes of out->conflict without the NUL */
} identity_sources;

const char *kineto_learned_name(uint32_t learned)
{
    static const char *const names[LEARNED] = {"nowhere",     "header",    "process row",
                                               "environment", "file name", "directory"};
    return learned < LEARNED ? names[learned] : "unknown";
}

/* ---- values by source ------------------------------------------------------------------------ */

/* The first value of a source counts. */
static void report_number(reported *s, kineto_learned from, int64_t number)
{
    s->number[from] = s->has[from] ? s->number[from] : number;
    s->has[from] = true;
}

static void report_text(reported *s, kineto_learned from, kineto_string text)
{
    if (!text.size || s->has[from])
        return;
    s->has[from] = true;
    s->text[from] = text;
}

static void append_conflict(identity_sources *l, const char *fmt, ...) KINETO_PRINTF(2, 3);
/* Appends a sentence to out->conflict, as much of it as fits, cut between characters. */
static void append_conflict(identity_sources *l, const char *fmt, ...)
{
    size_t room = sizeof l->out->conflict - l->conflict_size;
    char *at = l->out->conflict + l->conflict_size;
    va_list args;
    KB_ASSERT(l->conflict_size < sizeof l->out->conflict);
    if (room < 4)
        return;
    if (l->conflict_size) {
        memcpy(at, "; ", 3);
        at += 2;
        room -= 2;
    }
    va_start(args, fmt);
    int size = vsnprintf(at, room, fmt, args);
    va_end(args);
    at += size < 0 ? 0 : KB_MIN((size_t)size, room - 1);
    size_t all = (size_t)(at - l->out->conflict);
    /* Whole characters. */
    l->conflict_size = kb_utf8_valid_prefix(l->out->conflict, all);
    l->out->conflict[l->conflict_size] = '\0';
}

/* ---- the header ------------------------------------------------------------------------------ */

static bool key_is(kineto_string a, const char *b) { return kt_text_is(a, kb_string(b)); }

static bool key_is_one_of(kineto_string key, const char *const *list)
{
    for (; *list; list++)
        if (key_is(key, *list))
            return true;
    return false;
}

/* Values that are not valid ranks are ignored: any program may write any header. */
static void report_rank_value(reported *s, kineto_learned from, kineto_string value)
{
    int64_t number;
    if (kt_value_whole(value, &number) && number >= 0 && number <= INT32_MAX)
        report_number(s, from, number);
}

static void report_world_size_value(reported *s, kineto_learned from, kineto_string value)
{
    int64_t number;
    if (kt_value_whole(value, &number) && number > 0 && number <= INT32_MAX)
        report_number(s, from, number);
}

/* Values that are not JSON strings are ignored. */
static void report_text_value(reported *s, kineto_learned from, kineto_string value)
{
    if (kt_json_is_string(value))
        report_text(s, from, kt_value_text(value, kt_text_room(value.size)));
}

typedef void member_reader(identity_sources *l, kineto_string key, kineto_string value);

/* Calls `take` for each member of a JSON object; other texts have no members. */
static void read_members_of(identity_sources *l, kineto_string text, member_reader *take)
{
    kt_scan scan = kt_scan_of(text);
    kineto_string key, value;
    bool first = true;
    if (!text.size || text.data[0] != '{' || !kt_scan_open(&scan, '{'))
        return;
    while (kt_scan_more(&scan, &first, '{') && kt_scan_key(&scan, &key) &&
           kt_scan_value(&scan, &value))
        take(l, key, value);
}

/* Members of PyTorch's "distributedInfo". */
static void read_distributed_member(identity_sources *l, kineto_string key, kineto_string value)
{
    if (key_is(key, "rank"))
        report_rank_value(&l->rank, KINETO_LEARNED_HEADER, value);
    else if (key_is(key, "world_size"))
        report_world_size_value(&l->world_size, KINETO_LEARNED_HEADER, value);
    else if (key_is(key, "backend"))
        report_text_value(&l->backend, KINETO_LEARNED_HEADER, value);
}

/* Variables of launchers: torchrun, MPI, Slurm. They also occur as members of the header itself. */
static void read_environment_variable(identity_sources *l, kineto_string key, kineto_string value)
{
    static const char *const ranks[] = {"RANK",      "OMPI_COMM_WORLD_RANK", "PMI_RANK",
                                        "PMIX_RANK", "SLURM_PROCID",         NULL};
    static const char *const sizes[] = {"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE",
                                        "SLURM_NTASKS", NULL};
    static const char *const hosts[] = {"HOSTNAME", "SLURMD_NODENAME", NULL};
    if (key_is_one_of(key, ranks))
        report_rank_value(&l->rank, KINETO_LEARNED_ENVIRONMENT, value);
    else if (key_is_one_of(key, sizes))
        report_world_size_value(&l->world_size, KINETO_LEARNED_ENVIRONMENT, value);
    else if (key_is_one_of(key, hosts))
        report_text_value(&l->host, KINETO_LEARNED_ENVIRONMENT, value);
}

/* Members of the header itself; some writers nest the environment. */
static void read_header_member(identity_sources *l, kineto_string key, kineto_string value)
{
    static const char *const hosts[] = {"host_name", "hostname", "host", NULL};
    static const char *const environments[] = {"environment", "env", NULL};
    if (key_is(key, "distributedInfo"))
        read_members_of(l, value, read_distributed_member);
    else if (key_is(key, "rank"))
        report_rank_value(&l->rank, KINETO_LEARNED_HEADER, value);
    else if (key_is(key, "world_size"))
        report_world_size_value(&l->world_size, KINETO_LEARNED_HEADER, value);
    else if (key_is_one_of(key, hosts))
        report_text_value(&l->host, KINETO_LEARNED_HEADER, value);
    else if (key_is_one_of(key, environments))
        read_members_of(l, value, read_environment_variable);
    else
        read_environment_variable(l, key, value);
}

/* Reads distributedInfo first: it takes precedence over members that users add. */
static void read_header_identity(identity_sources *l)
{
    kineto_string key, value;
    uint32_t count = kineto_trace_metadata_count(l->t);
    for (uint32_t i = 0; i < 2 * count; i++) {
        kineto_trace_metadata(l->t, i % count, &key, &value);
        if (key_is(key, "distributedInfo") == (i < count))
            read_header_member(l, key, value);
    }
}

/* Only rank is evaluated, so the identity that conflicts are written to is not needed. */
int32_t kt_header_rank(const kineto_trace *trace)
{
    kineto_identity unused;
    identity_sources l = {.t = trace, .out = &unused};
    read_header_identity(&l);
    return l.rank.has[KINETO_LEARNED_HEADER] ? (int32_t)l.rank.number[KINETO_LEARNED_HEADER] : -1;
}

/* ---- process rows ---------------------------------------------------------------------------- */

/* Rows that are named by a text instead of a number ("Spans") are not processes. */
static bool is_host_process(const kineto_trace *t, uint32_t index)
{
    return !t->processes.data[index].is_device && !kt_process_text_of(t, index).data;
}

/* True if the trace has rows of a process with this number. */
static bool has_host_process(const kineto_trace *t, int64_t pid)
{
    for (uint32_t i = 0; t && i < t->processes.count; i++)
        if (is_host_process(t, i) && t->processes.data[i].pid == pid)
            return true;
    return false;
}

#define NO_PROCESS UINT32_MAX
/* The process with the most activities, the first one of equals; NO_PROCESS: there is none, or no
 * memory to count them. */
static uint32_t busiest_process(const kineto_trace *t)
{
    uint32_t best = NO_PROCESS;
    uint64_t *counts = calloc(t->processes.count + 1, sizeof *counts);
    for (size_t i = 0; counts && i < t->tracks.count; i++)
        if (t->tracks.data[i].process < t->processes.count)
            counts[t->tracks.data[i].process] += t->tracks.data[i].count;
    for (uint32_t i = 0; counts && i < t->processes.count; i++)
        if (is_host_process(t, i) && (best == NO_PROCESS || counts[i] > counts[best]))
            best = i;
    free(counts);
    return best;
}

bool kt_add_rank(kt_ranks *ranks, int32_t rank)
{
    size_t at = ranks->count;
    while (at && ranks->data[at - 1] > rank)
        at--;
    if (rank < 0 || (at && ranks->data[at - 1] == rank))
        return true;
    if (!kb_vec_push(ranks, rank))
        return false;
    memmove(ranks->data + at + 1, ranks->data + at, (ranks->count - 1 - at) * sizeof rank);
    ranks->data[at] = rank;
    return true;
}

static int compare_rank_numbers(const void *a, const void *b)
{
    const int32_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

bool kt_add_trace_ranks(kt_ranks *ranks, const kineto_trace *t)
{
    bool ok = true;
    size_t kept = 0;
    for (uint32_t i = 0; ok && i < t->processes.count; i++)
        ok = t->processes.data[i].rank < 0 || kb_vec_push(ranks, t->processes.data[i].rank);
    if (ranks->count)
        qsort(ranks->data, ranks->count, sizeof *ranks->data, compare_rank_numbers);
    for (size_t i = 0; i < ranks->count; i++)
        if (!kept || ranks->data[i] != ranks->data[kept - 1])
            ranks->data[kept++] = ranks->data[i];
    ranks->count = kept;
    return ok;
}

void kt_format_ranks(const kt_ranks *ranks, char *text, size_t size)
{
    size_t at = (size_t)kb_snprintf(text, size, !ranks->count       ? "none states its rank"
                                                : ranks->count == 1 ? "there is rank"
                                                                    : "there are ranks");
    for (size_t first = 0, next; first < ranks->count && at + 1 < size; first = next) {
        int32_t rank = ranks->data[first];
        for (next = first + 1; next < ranks->count && ranks->data[next] - ranks->data[next - 1] == 1;)
            next++;
        at += (size_t)kb_snprintf(text + at, size - at, "%s %d", first ? "," : "", rank);
        if (next > first + 1)
            at += (size_t)kb_snprintf(text + at, size - at, " to %d", ranks->data[next - 1]);
    }
}

static void read_process_identity(identity_sources *l)
{
    const kineto_trace *t = l->t;
    uint32_t index = busiest_process(t);
    kt_ranks ranks = {0};
    (void)kt_add_trace_ranks(&ranks, t); /* if memory runs out, the ranks so far */
    l->out->rank_count = (uint32_t)ranks.count;
    kb_vec_free(&ranks);
    if (index == NO_PROCESS)
        return;
    const kt_process_row *p = &t->processes.data[index];
    report_number(&l->pid, KINETO_LEARNED_PROCESS, p->pid);
    if (l->out->rank_count > 1)
        return; /* a merged trace: the process is one of many */
    if (p->rank >= 0)
        report_number(&l->rank, KINETO_LEARNED_PROCESS, p->rank);
    report_text(&l->host, KINETO_LEARNED_PROCESS, kineto_trace_string(t, p->host));
}

/* ---- the file's name ------------------------------------------------------------------------- */

/* A process number that the name only seems to contain counts if the trace has that process. */
static void read_path_identity(identity_sources *l, const char *path)
{
    kt_name_facts facts;
    kt_name_facts_of(path, &facts);
    if (facts.rank >= 0)
        report_number(&l->rank, KINETO_LEARNED_FILE_NAME, facts.rank);
    if (facts.directory_rank >= 0)
        report_number(&l->rank, KINETO_LEARNED_DIRECTORY, facts.directory_rank);
    bool known = facts.pid >= 0 && has_host_process(l->t, facts.pid);
    if (facts.pid < 0 || (facts.pid_is_guess && !known))
        return;
    /* The file may be named after another process of the trace than the busiest one. */
    report_number(&l->pid, KINETO_LEARNED_FILE_NAME,
                  known ? l->pid.number[KINETO_LEARNED_PROCESS] : facts.pid);
    report_text(&l->host, KINETO_LEARNED_FILE_NAME, facts.host);
}

/* ---- which source wins ----------------------------------------------------------------------- */

/* The value of the first source in order, `none` if there is none. *learned: that source. */
static int64_t resolve_number(identity_sources *l, const reported *s, const char *what,
                              int64_t none, uint8_t *learned)
{
    uint32_t first = 0;
    for (uint32_t i = 1; i < LEARNED; i++) {
        if (!s->has[i])
            continue;
        if (first && s->number[i] != s->number[first])
            append_conflict(l, "%s is %lld by the %s but %lld by the %s, which does not count",
                            what, (long long)s->number[first], kineto_learned_name(first),
                            (long long)s->number[i], kineto_learned_name(i));
        first = first ? first : i;
    }
    *learned = (uint8_t)first;
    return first ? s->number[first] : none;
}

/* "node7" and "node7.cluster" are one machine. */
static bool is_same_host(kineto_string a, kineto_string b)
{
    kineto_string shorter = a.size < b.size ? a : b, longer = a.size < b.size ? b : a;
    return shorter.size && memcmp(shorter.data, longer.data, shorter.size) == 0 &&
           (shorter.size == longer.size || longer.data[shorter.size] == '.');
}

/* As resolve_number, for texts; cut to the room of the identity. */
static void resolve_text(identity_sources *l, const reported *s, const char *what, char *out,
                         size_t room, uint8_t *learned)
{
    uint32_t first = 0;
    for (uint32_t i = 1; i < LEARNED; i++) {
        if (!s->has[i])
            continue;
        if (first && !is_same_host(s->text[i], s->text[first]))
            append_conflict(l, "%s is %.*s by the %s but %.*s by the %s, which does not count",
                            what, (int)KB_MIN(s->text[first].size, (size_t)100),
                            s->text[first].data, kineto_learned_name(first),
                            (int)KB_MIN(s->text[i].size, (size_t)100), s->text[i].data,
                            kineto_learned_name(i));
        first = first ? first : i;
    }
    *learned = (uint8_t)first;
    size_t size = first ? KB_MIN(s->text[first].size, room - 1) : 0;
    if (size)
        memcpy(out, s->text[first].data, size);
    out[size] = '\0';
}

/* Fills the identity, and checks it against itself. */
static void resolve_identity(identity_sources *l)
{
    kineto_identity *out = l->out;
    bool several = out->rank_count > 1;
    if (several) /* a merged trace has no rank, whatever its name states */
        memset(&l->rank, 0, sizeof l->rank);
    out->rank = (int32_t)resolve_number(l, &l->rank, "the rank", -1, &out->rank_learned);
    out->world_size =
        (int32_t)resolve_number(l, &l->world_size, "the world size", 0, &out->world_size_learned);
    out->pid = resolve_number(l, &l->pid, "the process id", -1, &out->pid_learned);
    resolve_text(l, &l->host, "the host", out->host, sizeof out->host, &out->host_learned);
    resolve_text(l, &l->backend, "the backend", out->backend, sizeof out->backend,
                 &out->backend_learned);
    if (out->world_size && out->rank >= out->world_size)
        append_conflict(l, "rank %d is out of range for world size %d", out->rank, out->world_size);
}

/* Copies no more than the caller's structure holds: it may be of an older version. */
void kineto_trace_identity(const kineto_trace *trace, const char *path, kineto_identity *out)
{
    kineto_identity id = {.rank = -1, .pid = -1};
    identity_sources l = {.t = trace, .out = &id};
    if (!out)
        return;
    if (trace) {
        read_header_identity(&l);
        read_process_identity(&l);
    }
    if (path)
        read_path_identity(&l, path);
    resolve_identity(&l);
    size_t size = KB_MIN(out->size, sizeof id);
    id.size = out->size;
    memcpy(out, &id, size);
}

/* ---- as JSON --------------------------------------------------------------------------------- */

void kt_put_identity(kb_json *j, const kineto_identity *id)
{
    if (id->rank >= 0)
        kb_json_put_int(j, "rank", id->rank);
    if (id->world_size)
        kb_json_put_int(j, "world_size", id->world_size);
    if (id->host[0])
        kb_json_put_string(j, "host", kb_string(id->host));
    if (id->pid >= 0)
        kb_json_put_int(j, "pid", id->pid);
    if (id->backend[0])
        kb_json_put_string(j, "backend", kb_string(id->backend));
}
