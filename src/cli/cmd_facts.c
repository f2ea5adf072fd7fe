/* ckineto facts: one small file for each trace, with what comparing ranks needs. The work can be split over any number
 * of tasks, and repeated: a file that is there and up to date is not made again. The exit status is 3 if some traces
 * could not be read, which their files then say; 1 if a file could not be written; 2 if none was. */
#include "cli/open_many.h"

#include "analyze/saved/facts_make.h"
#include "analyze/saved/facts_paths.h"
#include "trace/bytes/json_text.h"
#include "trace/files/identity.h"
#include "trace/trace.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#define FACTS_ENDING ".ckfacts"

static const char *output, *shard, *list_path;
static bool every, force, findings;
static const kc_option option_list[] = {
    {"output", 'o', KC_TEXT, &output, "DIR", "write the facts files to this directory, which is made"},
    {"shard", 0, KC_TEXT, &shard, "I/N", "only every N-th trace, beginning with the I-th; I counts from 0"},
    {"list", 0, KC_TEXT, &list_path, "FILE", "also the traces whose names are in FILE (-: the standard\ninput), one a line"},
    {"findings", 'f', KC_FLAG, &findings, NULL, "also the findings of each trace, not only those that compare ranks"},
    {"all", 'a', KC_FLAG, &every, NULL, "also the overview, findings, and all tables but those with a row for\neach event, not only what compares ranks"},
    {"force", 0, KC_FLAG, &force, NULL, "also traces whose facts are there and up to date"},
    KC_READING_OPTIONS,
};
static const kc_options options = {
    "facts",
    "[options] -o DIR TRACE...",
    "Keep what comparing ranks needs of each trace in a file of its own in DIR, of about 1 % of\n"
    "the size. Directories are searched for traces, also below. Facts that are up to date stay.\n"
    "A trace that cannot be read becomes a facts file that says so, and the exit status is 3. The\n"
    "directory DIR must have no traces itself.",
    "ckineto facts run/ -o run.facts/\n"
    "ckineto facts run/ -o run.facts/ --shard $SLURM_ARRAY_TASK_ID/64\n"
    "ckineto reduce run.facts/ -o run.ckrun",
    option_list,
    KB_COUNT(option_list),
    false};

/* ---- which traces ---------------------------------------------------------------------------- */

/* "3/64" */
static kineto_status parse_shard(uint32_t *index, uint32_t *count)
{
    *index = 0;
    *count = 1;
    if (!shard)
        return KINETO_OK;
    const char *slash = strchr(shard, '/');
    int64_t i = -1, n = 0;
    bool ok = slash && kt_json_int((kineto_string){shard, (size_t)(slash - shard)}, &i) &&
              kt_json_int(kb_string(slash + 1), &n);
    if (!ok || i < 0 || n < 1 || i >= n || n > INT32_MAX)
        return kc_usage_error("facts", "--shard is I/N with I from 0 to N - 1, not '%s'", shard);
    *index = (uint32_t)i;
    *count = (uint32_t)n;
    return KINETO_OK;
}

static kineto_status read_list(ka_path_list *paths, kineto_error *err)
{
    bool is_stdin = strcmp(list_path, "-") == 0;
    FILE *in = is_stdin ? stdin : fopen(list_path, "re");
    char *line = NULL;
    size_t room = 0;
    kineto_status status = KINETO_OK;
    if (!in)
        return kb_fail_os(err, errno, "cannot open %s", list_path);
    for (ssize_t size; !status && (size = getline(&line, &room, in)) >= 0;) {
        while (size && (line[size - 1] == '\n' || line[size - 1] == '\r'))
            line[--size] = '\0';
        if (size)
            status = ka_list_files(line, ka_is_trace_path, paths, err);
    }
    if (!status && ferror(in))
        status = kb_fail_os(err, errno, "cannot read %s", list_path);
    free(line);
    if (!is_stdin)
        fclose(in);
    return status;
}

/* A path of the command line that does not exist is a mistake, and no trace that cannot be read: its facts file would stay.
 * Tasks of a split run name traces that were there when the run was split. */
static kineto_status check_operand(const char *path, kineto_error *err)
{
    struct stat st;
    const char *slash = strrchr(path, '/');
    bool may_be_gone = shard && kt_is_trace_name(slash ? slash + 1 : path);
    if (strcmp(path, "-") == 0 || may_be_gone || lstat(path, &st) == 0)
        return KINETO_OK;
    return kb_fail_os(err, errno, "cannot open %s", path);
}

/* In one order for all shards: that of ranks, then of names. */
static kineto_status find_traces(char *const *operands, int count, kineto_files **out, kineto_error *err)
{
    ka_path_list paths = {0};
    kineto_status status = list_path ? read_list(&paths, err) : KINETO_OK;
    for (int i = 0; i < count && !status; i++) {
        status = check_operand(operands[i], err);
        if (!status)
            status = ka_list_files(operands[i], ka_is_trace_path, &paths, err);
    }
    if (!status && !paths.list.count)
        status = kb_fail(err, KINETO_E_NOT_FOUND, "no trace there: no file ends in .json, .json.gz or .json.zst");
    if (!status)
        status = kineto_files_find((const char *const *)paths.list.data, paths.list.count, out, err);
    ka_path_list_free(&paths);
    return status;
}

/* ---- names ----------------------------------------------------------------------------------- */

typedef struct facts_work {
    kineto_files *files;
    uint32_t shard, shards;
    ka_path_list made; /* names of facts files in the directory, when the command began */
    kb_map by_hash;    /* hash of a path → place in `made` + 1, of the last such; their order is that of `next` */
    KB_VEC(uint64_t) next;
    ka_section_packer packer;
    uint32_t written, kept, failed; /* failed: of these the traces that could not be read */
} facts_work;

/* The number at the end of a name; false: it is not one of ours. */
static bool read_name_hash(const char *name, uint64_t *hash)
{
    size_t size = strlen(name), ending = strlen(FACTS_ENDING);
    if (size < 17 + ending || strcmp(name + size - ending, FACTS_ENDING) != 0)
        return false;
    *hash = 0;
    for (const char *at = name + size - ending - 16; at < name + size - ending; at++) {
        int digit = kb_hex_value(*at);
        if (digit < 0)
            return false;
        *hash = *hash << 4 | (uint64_t)digit;
    }
    return true;
}

static bool is_made_name(const char *path, const char *name)
{
    uint64_t hash;
    (void)path;
    return read_name_hash(name, &hash);
}

static kineto_status list_made(facts_work *w, kineto_error *err)
{
    kineto_status status = ka_list_files(output, is_made_name, &w->made, err);
    for (size_t i = 0; i < w->made.list.count && !status; i++) {
        uint64_t hash = 0;
        (void)read_name_hash(w->made.list.data[i], &hash);
        uint64_t *last = kb_map_insert(&w->by_hash, hash, 0, NULL);
        if (!last || !kb_vec_push(&w->next, *last))
            return kb_fail_memory(err, "list of files");
        *last = i + 1;
    }
    return status;
}

/* The name of the file without its directory and endings, with only letters, digits and '-', '_', '.'. */
static void name_source(kineto_string path, char *out, size_t size)
{
    static const char *const endings[] = {".gz", ".zst", ".json"};
    const char *slash = memrchr(path.data, '/', path.size);
    kineto_string name = slash ? kb_string_skip(path, (size_t)(slash + 1 - path.data)) : path;
    for (size_t i = 0; i < KB_COUNT(endings); i++)
        if (kb_string_ends_with(name, endings[i]))
            name.size -= strlen(endings[i]);
    size_t used = 0;
    for (size_t i = 0; i < name.size && used + 1 < size; i++) {
        char c = name.data[i];
        out[used++] = kb_is_letter_or_digit(c) || strchr("-_.", c) ? c : '_';
    }
    out[used] = '\0';
}

/* DIR/rank7-NAME-HASH.ckfacts: the hash is of the path, so that different traces never have one name. */
static void name_facts(const ka_facts_source *s, char *out, size_t size)
{
    char base[101], rank[32] = "";
    name_source(s->path, base, sizeof base);
    if (s->rank >= 0)
        snprintf(rank, sizeof rank, "rank%lld-", (long long)s->rank);
    bool has_rank = !*rank || (strncmp(base, rank, strlen(rank) - 1) == 0 && !kb_is_digit(base[strlen(rank) - 1]));
    bool has_slash = *output && output[strlen(output) - 1] == '/';
    snprintf(out, size, "%s%s%s%s-%016llx" FACTS_ENDING, output, has_slash ? "" : "/", has_rank ? "" : rank, base,
             (unsigned long long)ka_hash_source_path(s->path));
}

/* ---- one trace ------------------------------------------------------------------------------- */

/* Files of the same trace that the new one stands in for: of the same rank, or of when it could not be read. */
static void remove_replaced(const facts_work *w, const ka_facts_source *s, const char *name)
{
    const uint64_t *last = kb_map_find(&w->by_hash, ka_hash_source_path(s->path));
    for (uint64_t at = last ? *last : 0; at; at = w->next.data[at - 1]) {
        const char *path = w->made.list.data[at - 1];
        ka_facts_file *f;
        if (strcmp(path, name) == 0 || ka_facts_file_open(path, &f, NULL))
            continue;
        const ka_facts_source *old = ka_facts_file_trace_count(f) == 1 ? ka_facts_file_source(f, 0) : NULL;
        kineto_error why;
        if (old && kb_string_equal(old->path, s->path) && (old->rank == s->rank || ka_facts_file_error(f, 0, &why)))
            (void)unlink(path);
        ka_facts_file_close(f);
    }
}

/* Facts of a trace that could not be read are made again: the reason may be gone. */
static bool is_up_to_date(const facts_work *w, const ka_facts_source *s)
{
    const uint64_t *last = kb_map_find(&w->by_hash, ka_hash_source_path(s->path));
    bool is = false;
    for (uint64_t at = last && !force ? *last : 0; at && !is; at = w->next.data[at - 1]) {
        ka_facts_file *f;
        kineto_error why;
        if (ka_facts_file_open(w->made.list.data[at - 1], &f, NULL))
            continue;
        is = ka_facts_file_trace_count(f) == 1 && ka_is_same_source(ka_facts_file_source(f, 0), s) &&
             ka_facts_file_error(f, 0, &why) == KINETO_OK;
        ka_facts_file_close(f);
    }
    return is;
}

static kineto_status make_facts(facts_work *w, uint32_t index, kineto_error *err)
{
    const char *path = kineto_files_path(w->files, index);
    kb_arena arena = {.head = NULL};
    kineto_error why = {.message = ""};
    ka_trace_facts facts = {.message = ""};
    char *name = malloc(strlen(output) + 256);
    kineto_status status = name && ka_describe_source_file(path, &arena, &facts.source) ? KINETO_OK
                                                                                         : kb_fail_memory(err, path);
    ka_facts_level level = every ? KA_FACTS_WITH_ALL : findings ? KA_FACTS_WITH_FINDINGS : KA_FACTS_OF_RANKS;
    facts.source.options = kb_string(ka_facts_level_name(level));
    bool is_kept = !status && is_up_to_date(w, &facts.source);
    w->kept += is_kept;
    if (!status && !is_kept) {
        status = ka_trace_facts_make(path, index, level, &kc_reading, &arena, &facts, &why);
        if (status && err)
            *err = why;
        if (!status) {
            name_facts(&facts.source, name, strlen(output) + 256);
            status = ka_facts_file_save(name, &facts, &w->packer, err);
        }
        if (!status) {
            remove_replaced(w, &facts.source, name);
            w->written++;
            w->failed += facts.status != KINETO_OK;
        }
        if (!status && facts.status)
            kc_complain("facts: %s", facts.message);
    }
    ka_trace_facts_free(&facts);
    kb_arena_free(&arena);
    free(name);
    return status;
}

/* ---- the verb -------------------------------------------------------------------------------- */

static void print_sum(const facts_work *w)
{
    uint32_t all = w->written + w->kept;
    printf("%s: facts of %s %s", output, kc_count(all).s, kc_noun(all, "trace", "traces"));
    if (w->shards > 1)
        printf(" of %s (shard %u of %u)", kc_count(kineto_files_count(w->files)).s, w->shard, w->shards);
    if (w->kept)
        printf(", %s up to date", kc_count(w->kept).s);
    if (w->failed)
        printf(", %s not readable", kc_count(w->failed).s);
    fputs(".\n", stdout);
}

static kineto_status make_all(facts_work *w, kineto_error *err)
{
    kineto_status status = kb_os_make_directories(output, err);
    if (!status)
        status = list_made(w, err);
    uint32_t count = kineto_files_count(w->files);
    for (uint32_t i = w->shard; i < count && !status; i += w->shards) {
        kc_show_reading(i, count, kineto_files_path(w->files, i));
        status = make_facts(w, i, err);
        if (w->shards > count - i)
            break;
    }
    kc_show_reading(0, 0, NULL);
    return status;
}

static int finish_facts(facts_work *w, kineto_status status, const kineto_error *err)
{
    if (status)
        kc_complain_of("facts", err);
    if (w->files && (w->written || !status))
        print_sum(w);
    int result = status ? (w->written ? KC_EXIT_FAILURE : KC_EXIT_USAGE) : w->failed ? KC_EXIT_INCOMPLETE : 0;
    kineto_files_destroy(w->files);
    ka_path_list_free(&w->made);
    kb_map_free(&w->by_hash);
    kb_vec_free(&w->next);
    ka_section_packer_free(&w->packer);
    return kc_finish_stdout("facts", result);
}

int kc_facts(int argc, char **argv)
{
    int operands;
    facts_work w = {.files = NULL};
    kineto_error err = {.message = ""};
    kineto_status status = kc_parse_options(&options, argc, argv, &operands);
    if (status == KINETO_E_NOT_FOUND)
        return kc_finish_stdout("facts", 0);
    if (!status && !operands && !list_path)
        status = kc_usage_error("facts", "name the traces, a directory of them, or a list with --list");
    if (!status && !output)
        status = kc_usage_error("facts", "name the directory for the facts files with -o");
    if (!status)
        status = parse_shard(&w.shard, &w.shards);
    if (!status && ka_has_traces(output))
        status = kc_usage_error("facts", "%s has traces, and facts files next to traces are not read; name another directory with -o",
                                output);
    if (status)
        return KC_EXIT_USAGE;
    status = find_traces(argv + 1, operands, &w.files, &err);
    if (!status)
        status = make_all(&w, &err);
    return finish_facts(&w, status, &err);
}
