/* The last traces and facts files that were used, which stay open: a client asks several questions about one trace. A trace is read
 * again when one of its files has changed. */
#include "cli/mcp/mcp.h"
#include "analyze/overview/overview.h"
#include "analyze/saved/facts_paths.h"
#include "cli/open_many.h"

#include <errno.h>
#include <sys/stat.h>

/* ---- files ----------------------------------------------------------------------------------- */

/* Only files and folders: reading a pipe or a device might never end, and the standard input is the client's. */
static kineto_status check_path(const char *path, kineto_error *err)
{
    struct stat s;
    if (strcmp(path, "-") == 0)
        return kb_fail(err, KINETO_E_ARGUMENT, "'-' is not a file: name a trace by its path");
    if (stat(path, &s) != 0)
        return kb_fail_os(err, errno, "cannot open %s", path);
    if (!S_ISREG(s.st_mode) && !S_ISDIR(s.st_mode))
        return kb_fail(err, KINETO_E_ARGUMENT, "%s is neither a file nor a folder", path);
    return KINETO_OK;
}

static void add_to_identity(const char *name, uint64_t *identity)
{
    struct stat s;
    if (stat(name, &s) != 0)
        s = (struct stat){0};
    const uint64_t parts[] = {kb_hash(name, strlen(name)), (uint64_t)s.st_dev,         (uint64_t)s.st_ino,
                              (uint64_t)s.st_size,         (uint64_t)s.st_mtim.tv_sec, (uint64_t)s.st_mtim.tv_nsec};
    *identity = kb_hash_seeded(*identity, parts, sizeof parts);
}

/* A hash of the names, sizes and times of all files of the path. *of_facts: they are facts files. */
static kineto_status identify_files(const char *path, uint64_t *identity, bool *of_facts, kineto_error *err)
{
    char *paths[] = {(char *)(uintptr_t)path};
    ka_operands_kind kind;
    ka_path_list list = {0};
    kineto_files *files = NULL;
    *identity = kb_hash(path, strlen(path));
    kineto_status status = ka_find_facts(paths, 1, &kind, &list, err);
    *of_facts = !status && kind == KA_OPERANDS_FACTS;
    for (size_t i = 0; i < list.list.count; i++)
        add_to_identity(list.list.data[i], identity);
    ka_path_list_free(&list);
    if (!status && !*of_facts)
        status = kineto_files_find(&path, 1, &files, err);
    for (uint32_t i = 0; i < kineto_files_count(files); i++)
        add_to_identity(kineto_files_path(files, i), identity);
    kineto_files_destroy(files);
    return status;
}

/* ---- the cache ------------------------------------------------------------------------------- */

/* Frees what belongs to a trace; the place is free then. */
static void close_trace(kc_mcp_trace *t)
{
    kineto_overview_destroy(t->overview);
    kineto_findings_destroy(t->found);
    kineto_analysis_destroy(t->facts);
    kineto_facts_destroy(t->run);
    kineto_trace_release(t->trace);
    ka_coverage_free(&t->coverage);
    free(t->path);
    free(t->table);
    *t = (kc_mcp_trace){0};
}

void kc_mcp_close_all(kc_mcp_server *server)
{
    for (size_t i = 0; i < KC_MCP_TRACES; i++)
        close_trace(&server->traces[i]);
    kineto_analysis_destroy(server->diff);
    server->diff = NULL;
}

/* The place of this path; else a free one, else that of the trace that was not used for the longest time. */
static kc_mcp_trace *choose_place(kc_mcp_server *server, const char *path, uint64_t kept)
{
    kc_mcp_trace *oldest = NULL;
    for (size_t i = 0; i < KC_MCP_TRACES; i++) {
        kc_mcp_trace *t = &server->traces[i];
        if (t->serial && strcmp(t->path, path) == 0)
            return t;
        if (!(kept && t->serial == kept) && (!oldest || t->used < oldest->used))
            oldest = t;
    }
    return oldest;
}

/* With a limit of memory the others are closed first: it is one of the whole process. */
static void close_others(kc_mcp_server *server, uint64_t kept)
{
    for (size_t i = 0; i < KC_MCP_TRACES && kc_reading.memory_bytes; i++)
        if (server->traces[i].serial && server->traces[i].serial != kept)
            close_trace(&server->traces[i]);
}

kineto_status kc_mcp_open(kc_mcp_server *server, const char *path, uint64_t kept, kc_mcp_trace **out,
                          kineto_error *err)
{
    uint64_t identity;
    bool of_facts;
    char *names[] = {(char *)(uintptr_t)path, NULL};
    kineto_status status = check_path(path, err);
    if (!status)
        status = identify_files(path, &identity, &of_facts, err);
    if (status)
        return status;
    kc_mcp_trace *t = choose_place(server, path, kept);
    *out = t;
    if (t->serial && strcmp(t->path, path) == 0 && t->identity == identity) {
        t->used = ++server->clock;
        return KINETO_OK;
    }
    close_trace(t);
    close_others(server, kept);
    status = of_facts ? kineto_facts_open(&path, 1, kc_reading.memory_bytes, &t->run, err)
                      : kc_open_covered_traces(names, 1, -1, &t->coverage, &t->trace, err);
    t->path = status ? NULL : strdup(path);
    if (!status && !t->path)
        status = kb_fail_memory(err, NULL);
    if (status) {
        close_trace(t);
        return status;
    }
    t->identity = identity;
    t->serial = t->used = ++server->clock;
    return KINETO_OK;
}

kineto_status kc_mcp_open_trace(kc_mcp_call *call, kc_mcp_trace **out, kineto_error *err)
{
    kineto_status status = kc_mcp_open(call->server, kc_mcp_text(call, "path"), 0, out, err);
    if (!status && !(*out)->trace)
        status = kb_fail(err, KINETO_E_UNSUPPORTED,
                         "%s: facts have no activities: %s needs the traces themselves; findings, analyze and diff take facts",
                         (*out)->path, call->tool->name);
    return status;
}

/* ---- facts ----------------------------------------------------------------------------------- */

kineto_status kc_mcp_overview(kc_mcp_trace *t, kineto_overview **out, kineto_error *err)
{
    kineto_analysis_options options = {.size = sizeof options, .threads = kc_reading.memory_bytes ? 1 : 0};
    bool is_made = t->overview;
    kineto_status status = is_made    ? KINETO_OK
                           : t->trace ? kineto_overview_create(t->trace, &options, &t->overview, err)
                                      : kineto_facts_overview(t->run, &t->overview, err);
    if (!status && !is_made && t->trace && !ka_coverage_copy_bad_files(&t->overview->coverage, &t->coverage))
        status = kb_fail_memory(err, NULL);
    *out = t->overview;
    return status;
}

/* The most similar name, or the first one that begins so. */
static kineto_status report_unknown_table(const char *name, kineto_error *err)
{
    const char *best = NULL;
    size_t best_distance = 4;
    for (uint32_t i = 0; i < kineto_fact_table_count(); i++) {
        const char *known = kineto_fact_table_name(i);
        size_t d = strncmp(known, name, strlen(name)) == 0 ? 0 : kc_edit_distance(name, known);
        if (d < best_distance) {
            best_distance = d;
            best = known;
        }
    }
    return kb_fail(err, KINETO_E_ARGUMENT, "unknown table '%.80s'%s%s%s; analyze without a table lists all", name,
                   best ? "; did you mean '" : "", best ? best : "", best ? "'?" : "");
}

/* Of facts that were not made with --all there is no overview, but findings of those that were kept. */
kineto_status kc_mcp_findings(kc_mcp_trace *t, const kineto_findings **out, int64_t *start_ns, kineto_error *err)
{
    kineto_overview *overview;
    int64_t end_ns;
    if (!t->trace) {
        kineto_status status = t->found ? KINETO_OK : kineto_facts_find(t->run, NULL, &t->found, err);
        *out = t->found;
        *start_ns = ka_facts_set_start_ns(t->run);
        return status;
    }
    kineto_trace_window(t->trace, start_ns, &end_ns);
    kineto_status status = kc_mcp_overview(t, &overview, err);
    *out = status ? NULL : kineto_overview_findings(overview);
    return status;
}

/* A table that the overview does not have, which is kept until another one is wanted. @param name  "": all of facts files. */
static kineto_status analyze_table(kc_mcp_trace *t, const char *name, kineto_error *err)
{
    kineto_analysis_options options = {.size = sizeof options,
                                       .tables = name,
                                       .threads = kc_reading.memory_bytes ? 1 : 0};
    if (t->facts && strcmp(t->table, name) == 0)
        return KINETO_OK;
    kineto_analysis_destroy(t->facts);
    free(t->table);
    t->facts = NULL;
    t->table = strdup(name);
    if (!t->table)
        return kb_fail_memory(err, NULL);
    return t->trace ? kineto_analysis_run(t->trace, &options, &t->facts, err)
                    : kineto_facts_analyze(t->run, *name ? name : NULL, &t->facts, err);
}

kineto_status kc_mcp_kept_tables(kc_mcp_trace *t, const kineto_analysis **out, kineto_error *err)
{
    kineto_status status = analyze_table(t, "", err);
    *out = t->facts;
    return status;
}

kineto_status kc_mcp_find_table(kc_mcp_trace *t, const char *name, const kineto_analysis **facts,
                                uint32_t *table, kineto_error *err)
{
    kineto_overview *overview;
    bool is_known = false;
    kineto_status status = t->trace ? kc_mcp_overview(t, &overview, err) : KINETO_OK;
    if (status)
        return status;
    *facts = t->trace ? kineto_overview_facts(overview) : NULL;
    *table = kineto_analysis_find_table(*facts, name);
    if (*table != UINT32_MAX)
        return KINETO_OK;
    for (uint32_t i = 0; i < kineto_fact_table_count(); i++)
        is_known |= strcmp(kineto_fact_table_name(i), name) == 0;
    if (!is_known)
        return report_unknown_table(name, err);
    status = analyze_table(t, name, err);
    *facts = t->facts;
    if (!status)
        *table = kineto_analysis_find_table(t->facts, name);
    return status;
}
