/* Whose trace it is: by its header, its process rows, the environment that it may have kept, and
 * the names of its file and directories, in this order. Who disagrees is named. */
#include "trace/files/identity.h"

#include "trace/model/model.h"
#include "trace/bytes/json_value.h"

#define LEARNED (KINETO_LEARNED_DIRECTORY + 1)

/* What each source says; those that say nothing have none. */
typedef struct said {
    bool is[LEARNED];
    int64_t number[LEARNED];
    kineto_string text[LEARNED];
} said;

typedef struct learner {
    const kineto_trace *t;
    kineto_identity *out;
    said rank, world_size, pid, host, backend;
    size_t conflict_size;
} learner;

const char *kineto_learned_name(uint32_t learned)
{
    static const char *const names[LEARNED] = {"nowhere",     "header",    "process row",
                                               "environment", "file name", "directory"};
    return learned < LEARNED ? names[learned] : "unknown";
}

/* ---- saying ---------------------------------------------------------------------------------- */

static void say_number(said *s, kineto_learned from, int64_t number)
{
    s->number[from] = s->is[from] ? s->number[from] : number;
    s->is[from] = true;
}

static void say_text(said *s, kineto_learned from, kineto_string text)
{
    if (!text.size || s->is[from])
        return;
    s->is[from] = true;
    s->text[from] = text;
}

static void object(learner *l, const char *fmt, ...) KINETO_PRINTF(2, 3);
static void object(learner *l, const char *fmt, ...)
{
    size_t room = sizeof l->out->conflict - l->conflict_size;
    char *at = l->out->conflict + l->conflict_size;
    va_list args;
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
    l->conflict_size = kb_utf8_valid_prefix(l->out->conflict, all); /* whole characters */
    l->out->conflict[l->conflict_size] = '\0';
}

/* ---- the header ------------------------------------------------------------------------------ */

static bool is(kineto_string a, const char *b) { return kt_text_is(a, kb_string(b)); }

static bool is_one_of(kineto_string key, const char *const *list)
{
    for (; *list; list++)
        if (is(key, *list))
            return true;
    return false;
}

static void say_if_rank(said *s, kineto_learned from, kineto_string value)
{
    int64_t number;
    if (kt_value_whole(value, &number) && number >= 0 && number <= INT32_MAX)
        say_number(s, from, number);
}

static void say_if_size(said *s, kineto_learned from, kineto_string value)
{
    int64_t number;
    if (kt_value_whole(value, &number) && number > 0 && number <= INT32_MAX)
        say_number(s, from, number);
}

static void say_if_text(said *s, kineto_learned from, kineto_string value)
{
    if (kt_json_is_string(value))
        say_text(s, from, kt_value_text(value, kt_text_room(value.size)));
}

typedef void take_member(learner *l, kineto_string key, kineto_string value);

static void each_member(learner *l, kineto_string text, take_member *take)
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

static void take_distributed(learner *l, kineto_string key, kineto_string value)
{
    if (is(key, "rank"))
        say_if_rank(&l->rank, KINETO_LEARNED_HEADER, value);
    else if (is(key, "world_size"))
        say_if_size(&l->world_size, KINETO_LEARNED_HEADER, value);
    else if (is(key, "backend"))
        say_if_text(&l->backend, KINETO_LEARNED_HEADER, value);
}

/* Variables of launchers: torchrun, MPI, Slurm. */
static void take_variable(learner *l, kineto_string key, kineto_string value)
{
    static const char *const ranks[] = {"RANK",      "OMPI_COMM_WORLD_RANK", "PMI_RANK",
                                        "PMIX_RANK", "SLURM_PROCID",         NULL};
    static const char *const sizes[] = {"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE",
                                        "SLURM_NTASKS", NULL};
    static const char *const hosts[] = {"HOSTNAME", "SLURMD_NODENAME", NULL};
    if (is_one_of(key, ranks))
        say_if_rank(&l->rank, KINETO_LEARNED_ENVIRONMENT, value);
    else if (is_one_of(key, sizes))
        say_if_size(&l->world_size, KINETO_LEARNED_ENVIRONMENT, value);
    else if (is_one_of(key, hosts))
        say_if_text(&l->host, KINETO_LEARNED_ENVIRONMENT, value);
}

static void take_header(learner *l, kineto_string key, kineto_string value)
{
    static const char *const hosts[] = {"host_name", "hostname", "host", NULL};
    static const char *const environments[] = {"environment", "env", NULL};
    if (is(key, "distributedInfo"))
        each_member(l, value, take_distributed);
    else if (is(key, "rank"))
        say_if_rank(&l->rank, KINETO_LEARNED_HEADER, value);
    else if (is(key, "world_size"))
        say_if_size(&l->world_size, KINETO_LEARNED_HEADER, value);
    else if (is_one_of(key, hosts))
        say_if_text(&l->host, KINETO_LEARNED_HEADER, value);
    else if (is_one_of(key, environments))
        each_member(l, value, take_variable);
    else
        take_variable(l, key, value);
}

/* distributedInfo counts before members that users add. */
static void learn_header(learner *l)
{
    kineto_string key, value;
    uint32_t count = kineto_trace_metadata_count(l->t);
    for (uint32_t i = 0; i < 2 * count; i++) {
        kineto_trace_metadata(l->t, i % count, &key, &value);
        if (is(key, "distributedInfo") == (i < count))
            take_header(l, key, value);
    }
}

int32_t kt_header_rank(const kineto_trace *trace)
{
    kineto_identity unused;
    learner l = {.t = trace, .out = &unused};
    learn_header(&l);
    return l.rank.is[KINETO_LEARNED_HEADER] ? (int32_t)l.rank.number[KINETO_LEARNED_HEADER] : -1;
}

/* ---- process rows ---------------------------------------------------------------------------- */

static bool is_process(const kineto_trace *t, uint32_t index)
{
    return !t->processes.data[index].is_device && !kt_process_text_of(t, index).data;
}

static bool has_process(const kineto_trace *t, int64_t pid)
{
    for (uint32_t i = 0; i < t->processes.count; i++)
        if (is_process(t, i) && t->processes.data[i].pid == pid)
            return true;
    return false;
}

/* The one with the most activities, of equals the first; NONE: there is no process. */
#define NONE UINT32_MAX
static uint32_t main_process(const kineto_trace *t)
{
    uint32_t best = NONE;
    uint64_t *counts = calloc(t->processes.count + 1, sizeof *counts);
    for (size_t i = 0; counts && i < t->tracks.count; i++)
        if (t->tracks.data[i].process < t->processes.count)
            counts[t->tracks.data[i].process] += t->tracks.data[i].count;
    for (uint32_t i = 0; counts && i < t->processes.count; i++)
        if (is_process(t, i) && (best == NONE || counts[i] > counts[best]))
            best = i;
    free(counts);
    return best;
}

bool kt_note_rank(kt_ranks *ranks, int32_t rank)
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

static int compare_ranks(const void *a, const void *b)
{
    const int32_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

bool kt_note_ranks(kt_ranks *ranks, const kineto_trace *t)
{
    bool ok = true;
    size_t kept = 0;
    for (uint32_t i = 0; ok && i < t->processes.count; i++)
        ok = t->processes.data[i].rank < 0 || kb_vec_push(ranks, t->processes.data[i].rank);
    if (ranks->count)
        qsort(ranks->data, ranks->count, sizeof *ranks->data, compare_ranks);
    for (size_t i = 0; i < ranks->count; i++)
        if (!kept || ranks->data[i] != ranks->data[kept - 1])
            ranks->data[kept++] = ranks->data[i];
    ranks->count = kept;
    return ok;
}

void kt_put_ranks(const kt_ranks *ranks, char *text, size_t size)
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

static void learn_processes(learner *l)
{
    const kineto_trace *t = l->t;
    uint32_t index = main_process(t);
    kt_ranks ranks = {0};
    (void)kt_note_ranks(&ranks, t); /* as many as there is memory for */
    l->out->rank_count = (uint32_t)ranks.count;
    kb_vec_free(&ranks);
    if (index == NONE)
        return;
    const kt_process_row *p = &t->processes.data[index];
    say_number(&l->pid, KINETO_LEARNED_PROCESS, p->pid);
    if (l->out->rank_count > 1)
        return; /* it is one of many */
    if (p->rank >= 0)
        say_number(&l->rank, KINETO_LEARNED_PROCESS, p->rank);
    say_text(&l->host, KINETO_LEARNED_PROCESS, kineto_trace_string(t, p->host));
}

/* ---- the file's name ------------------------------------------------------------------------- */

static void learn_path(learner *l, const char *path)
{
    kt_name_facts facts;
    kt_name_facts_of(path, &facts);
    if (facts.rank >= 0)
        say_number(&l->rank, KINETO_LEARNED_FILE_NAME, facts.rank);
    if (facts.directory_rank >= 0)
        say_number(&l->rank, KINETO_LEARNED_DIRECTORY, facts.directory_rank);
    bool known = facts.pid >= 0 && has_process(l->t, facts.pid);
    if (facts.pid < 0 || (facts.pid_is_guess && !known))
        return;
    /* Of several processes in a trace, the file may be called after another than the busiest. */
    say_number(&l->pid, KINETO_LEARNED_FILE_NAME,
               known ? l->pid.number[KINETO_LEARNED_PROCESS] : facts.pid);
    say_text(&l->host, KINETO_LEARNED_FILE_NAME, facts.host);
}

/* ---- who counts ------------------------------------------------------------------------------ */

static int64_t settle_number(learner *l, const said *s, const char *what, int64_t none,
                             uint8_t *learned)
{
    uint32_t first = 0;
    for (uint32_t i = 1; i < LEARNED; i++) {
        if (!s->is[i])
            continue;
        if (first && s->number[i] != s->number[first])
            object(l, "%s is %lld by the %s but %lld by the %s, which does not count", what,
                   (long long)s->number[first], kineto_learned_name(first), (long long)s->number[i],
                   kineto_learned_name(i));
        first = first ? first : i;
    }
    *learned = (uint8_t)first;
    return first ? s->number[first] : none;
}

/* "node7" and "node7.cluster" are one machine. */
static bool same_host(kineto_string a, kineto_string b)
{
    kineto_string shorter = a.size < b.size ? a : b, longer = a.size < b.size ? b : a;
    return shorter.size && memcmp(shorter.data, longer.data, shorter.size) == 0 &&
           (shorter.size == longer.size || longer.data[shorter.size] == '.');
}

static void settle_text(learner *l, const said *s, const char *what, char *out, size_t room,
                        uint8_t *learned)
{
    uint32_t first = 0;
    for (uint32_t i = 1; i < LEARNED; i++) {
        if (!s->is[i])
            continue;
        if (first && !same_host(s->text[i], s->text[first]))
            object(l, "%s is %.*s by the %s but %.*s by the %s, which does not count", what,
                   (int)KB_MIN(s->text[first].size, (size_t)100), s->text[first].data,
                   kineto_learned_name(first), (int)KB_MIN(s->text[i].size, (size_t)100),
                   s->text[i].data, kineto_learned_name(i));
        first = first ? first : i;
    }
    *learned = (uint8_t)first;
    size_t size = first ? KB_MIN(s->text[first].size, room - 1) : 0;
    if (size)
        memcpy(out, s->text[first].data, size);
    out[size] = '\0';
}

static void settle(learner *l)
{
    kineto_identity *out = l->out;
    bool several = out->rank_count > 1;
    if (several) /* a merged trace: it has no rank, whatever its name is */
        memset(&l->rank, 0, sizeof l->rank);
    out->rank = (int32_t)settle_number(l, &l->rank, "the rank", -1, &out->rank_learned);
    out->world_size =
        (int32_t)settle_number(l, &l->world_size, "the world size", 0, &out->world_size_learned);
    out->pid = settle_number(l, &l->pid, "the process id", -1, &out->pid_learned);
    settle_text(l, &l->host, "the host", out->host, sizeof out->host, &out->host_learned);
    settle_text(l, &l->backend, "the backend", out->backend, sizeof out->backend,
                &out->backend_learned);
    if (out->world_size && out->rank >= out->world_size)
        object(l, "rank %d is none of a world of %d", out->rank, out->world_size);
}

void kineto_trace_identity(const kineto_trace *trace, const char *path, kineto_identity *out)
{
    kineto_identity id = {.rank = -1, .pid = -1};
    learner l = {.t = trace, .out = &id};
    learn_header(&l);
    learn_processes(&l);
    if (path)
        learn_path(&l, path);
    settle(&l);
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
