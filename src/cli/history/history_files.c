/* Files of the history: DATASET/history/run=NAME/facts.json, one line of JSON that `regress` reads, and next
 * to it part.parquet with the same, for SQL. A name belongs to the process that links facts.json first, so
 * that no run is lost, however many are added at the same time. */
#include "cli/history/history.h"

#include "export/parquet_run.h"
#include "trace/bytes/json_value.h"

#include <dirent.h>
#include <errno.h>
#include <unistd.h>

#define MAX_FACTS_BYTES ((size_t)4 << 20)

void kc_history_run_free(kc_history_run *run)
{
    for (size_t i = 0; i < run->parts.count; i++) {
        free(run->parts.data[i].kind);
        free(run->parts.data[i].name);
    }
    kb_vec_free(&run->parts);
    free(run->name);
    free(run->commit);
    free(run->label);
}

void kc_history_free(kc_history *h)
{
    for (size_t i = 0; i < h->runs.count; i++)
        kc_history_run_free(&h->runs.data[i]);
    kb_vec_free(&h->runs);
}

/* ---- writing ---------------------------------------------------------------------------------- */

static void put_facts(kb_json *j, const void *what)
{
    const kc_history_run *run = what;
    kb_json_document_begin(j, "ckineto.history/1");
    kb_json_put_string(j, "run", kb_string(run->name));
    kb_json_put_string(j, "commit", kb_string(run->commit));
    kb_json_put_string(j, "label", kb_string(run->label));
    kb_json_put_int(j, "time_ns", run->time_ns);
    kb_json_put_uint(j, "ranks", run->ranks);
    kb_json_put_uint(j, "steps", run->steps);
    kb_json_put_double(j, "step_ns", run->step_ns);
    kb_json_key_z(j, "parts");
    kb_json_array_begin(j);
    for (size_t i = 0; i < run->parts.count; i++) {
        kb_json_array_begin(j);
        kb_json_string_z(j, run->parts.data[i].kind);
        kb_json_string_z(j, run->parts.data[i].name);
        kb_json_double(j, run->parts.data[i].ns);
        kb_json_array_end(j);
    }
    kb_json_array_end(j);
    kb_json_object_end(j);
}

static const ke_parquet_spec history_specs[] = {
    {"commit", KE_PARQUET_TEXT, true, NULL, NULL},
    {"label", KE_PARQUET_TEXT, true, NULL, NULL},
    {"time", KE_PARQUET_TIME_NS, false, "ns", "when the run began"},
    {"kind", KE_PARQUET_TEXT, false, NULL, "step: the median step; else a kind of its parts"},
    {"name", KE_PARQUET_TEXT, false, NULL, NULL},
    {"ns", KE_PARQUET_DOUBLE, false, "ns", "of a step and rank"},
};

static void put_history_row(ke_parquet *w, const kc_history_run *run, const char *kind, const char *name, double ns)
{
    if (*run->commit)
        ke_parquet_put_text(w, 0, kb_string(run->commit));
    if (*run->label)
        ke_parquet_put_text(w, 1, kb_string(run->label));
    ke_parquet_put_int(w, 2, run->time_ns);
    ke_parquet_put_text(w, 3, kb_string(kind));
    ke_parquet_put_text(w, 4, kb_string(name));
    ke_parquet_put_double(w, 5, ns);
    ke_parquet_end_row(w);
}

static kineto_status save_history_table(const char *directory, const kc_history_run *run, kineto_error *err)
{
    char path[4096];
    ke_parquet *w = NULL;
    snprintf(path, sizeof path, "%s/part.parquet", directory);
    kineto_status status = ke_parquet_open(path, history_specs, KB_COUNT(history_specs), NULL, &w, err);
    if (status)
        return status;
    ke_parquet_describe(w, "history", "The step time of a run, and its parts.", history_specs, KB_COUNT(history_specs));
    put_history_row(w, run, "step", "median", run->step_ns);
    for (size_t i = 0; i < run->parts.count; i++)
        put_history_row(w, run, run->parts.data[i].kind, run->parts.data[i].name, run->parts.data[i].ns);
    return ke_parquet_close(w, NULL, NULL, err);
}

/* Makes `path` a second name of the written file, unless there is one. */
static kineto_status claim_name(const char *written, const char *path, const char *run, kineto_error *err)
{
    int failed = link(written, path) == 0 ? 0 : errno;
    (void)unlink(written);
    if (failed == EEXIST)
        return kb_fail(err, KINETO_E_BUSY, "run %s is in the data set already; name this one with --run, or give --replace", run);
    return failed ? kb_fail_os(err, failed, "cannot create %s", path) : KINETO_OK;
}

kineto_status kc_history_save(const char *data_set, const kc_history_run *run, bool replace, kineto_error *err)
{
    char directory[3500], path[4096], written[4096];
    int size = snprintf(directory, sizeof directory, "%s/history/run=%s", data_set, run->name);
    if (size < 0 || (size_t)size >= sizeof directory)
        return kb_fail(err, KINETO_E_ARGUMENT, "%s: path too long", data_set);
    snprintf(path, sizeof path, "%s/facts.json", directory);
    snprintf(written, sizeof written, "%s/.facts.%u-%016llx.json", directory, kb_os_pid(), (unsigned long long)kb_os_random());
    kineto_status status = kb_os_make_directories(directory, err);
    if (!status)
        status = kc_save_json(replace ? path : written, put_facts, run, err);
    if (!status && !replace)
        status = claim_name(written, path, run->name, err);
    return status ? status : save_history_table(directory, run, err);
}

/* ---- reading ---------------------------------------------------------------------------------- */

static char *copy_json_text(kineto_string object, const char *key)
{
    kineto_string raw = key ? kt_member_of(object, key) : object;
    char *room = malloc(raw.size + 1);
    if (!room)
        return NULL;
    kineto_string text = kt_value_text(raw, room);
    memmove(room, text.data, text.size);
    room[text.size] = '\0';
    return room;
}

static bool read_parts(kineto_string list, kc_history_run *run)
{
    kt_items items = kt_items_of(list);
    kineto_string item;
    while (kt_items_next(&items, &item)) {
        kc_history_part part = {copy_json_text(kt_item_at(item, 0), NULL), copy_json_text(kt_item_at(item, 1), NULL), 0};
        bool ok = part.kind && part.name && kt_value_number(kt_item_at(item, 2), &part.ns);
        if (!ok || !kb_vec_push(&run->parts, part)) {
            free(part.kind);
            free(part.name);
            return false;
        }
    }
    return kt_items_are_over(&items);
}

static bool parse_facts(kineto_string text, kc_history_run *run)
{
    int64_t ranks = 0, steps = 0;
    if (!kb_json_valid(text) || !kt_json_is_string(kt_member_of(text, "run")))
        return false;
    run->name = copy_json_text(text, "run");
    run->commit = copy_json_text(text, "commit");
    run->label = copy_json_text(text, "label");
    bool ok = run->name && run->commit && run->label && kt_value_whole(kt_member_of(text, "time_ns"), &run->time_ns) &&
              kt_value_whole(kt_member_of(text, "ranks"), &ranks) && kt_value_whole(kt_member_of(text, "steps"), &steps) &&
              kt_value_number(kt_member_of(text, "step_ns"), &run->step_ns) && run->step_ns > 0 &&
              read_parts(kt_member_of(text, "parts"), run);
    run->ranks = (uint64_t)ranks;
    run->steps = (uint64_t)steps;
    return ok;
}

/* A file that is damaged is reported and left out. False: out of memory. */
static bool load_facts(const char *path, char *room, kc_history *out)
{
    kc_history_run run = {0};
    size_t size = kb_os_read_file(path, room, MAX_FACTS_BYTES);
    while (size && (room[size - 1] == '\n' || room[size - 1] == ' '))
        size--;
    if (size && parse_facts((kineto_string){room, size}, &run))
        return kb_vec_push(&out->runs, run);
    kc_complain("history: %s: cannot be read as the facts of a run; add the run again with --replace", path);
    out->bad++;
    kc_history_run_free(&run);
    return true;
}

static int compare_runs(const void *left, const void *right)
{
    const kc_history_run *a = left, *b = right;
    return a->time_ns != b->time_ns ? KB_COMPARE(a->time_ns, b->time_ns) : strcmp(a->name, b->name);
}

/* Runs of one begin have no order in time. `runs` are sorted. */
static void warn_of_ties(const kc_history *h)
{
    char text[1024];
    size_t ties = 0, first = 0;
    for (size_t i = 1; i < h->runs.count; i++)
        if (h->runs.data[i].time_ns == h->runs.data[i - 1].time_ns && !ties++)
            first = i;
    if (!ties)
        return;
    snprintf(text, sizeof text, "history: runs %.300s and %.300s%s begin at the same time: ordered by name",
             h->runs.data[first - 1].name, h->runs.data[first].name, ties > 1 ? ", and others," : "");
    kc_put_message(stderr, "ckineto: ", text);
}

kineto_status kc_history_load(const char *data_set, kc_history *out, kineto_error *err)
{
    char path[4096];
    *out = (kc_history){0};
    snprintf(path, sizeof path, "%s/history", data_set);
    DIR *directory = opendir(path);
    if (!directory)
        return kb_fail_os(err, errno, "%s: no history in this data set; add runs with 'ckineto history add'", data_set);
    char *room = malloc(MAX_FACTS_BYTES);
    bool ok = room != NULL;
    for (const struct dirent *entry; ok && (entry = readdir(directory));) {
        if (strncmp(entry->d_name, "run=", 4) != 0)
            continue;
        snprintf(path, sizeof path, "%s/history/%s/facts.json", data_set, entry->d_name);
        ok = access(path, F_OK) != 0 || load_facts(path, room, out); /* a run that is being added has none yet */
    }
    free(room);
    (void)closedir(directory);
    if (!ok)
        return kb_fail_memory(err, data_set);
    if (out->runs.count)
        qsort(out->runs.data, out->runs.count, sizeof *out->runs.data, compare_runs);
    warn_of_ties(out);
    return KINETO_OK;
}

kineto_status kc_history_parse(const char *verb, const kc_options *options, int argc, char **argv, const char *const *data_set)
{
    int operands;
    kineto_status status = kc_parse_options(options, argc, argv, &operands);
    if (!status && operands)
        status = kc_usage_error(verb, "unexpected argument '%s'", argv[1]);
    if (!status && !*data_set)
        status = kc_usage_error(verb, "no data set given, for example -d history/");
    return status;
}
