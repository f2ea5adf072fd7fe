/* ckineto scrub: replace names in a trace by pseudonyms, so that it can be shared. The replacement
 * is kineto_trace_scrub; this file chooses the classes and the salt. A random salt is not stored,
 * so that its pseudonyms cannot be tested by guessing. */
#include "cli/open_many.h"
#include "cli/written.h"

#include <ckineto/export.h>

#include <errno.h>
#include <sys/random.h>

static const char *output, *salt_text, *salt_file, *keep, *rank;
static bool scrub_names, scrub_paths, scrub_hosts, scrub_stacks, drop_stacks, scrub_args,
    scrub_header, scrub_shapes, scrub_packages, scrub_ids, scrub_times, known_names, all, quiet;
static const kc_option option_list[] = {
    {"output", 'o', KC_TEXT, &output, "FILE", "the new trace; its extension determines the format"},
    KC_RANK_OPTION(rank),
    KC_ALIGN_OPTION,
    KC_READING_OPTIONS,
    {"names", 0, KC_FLAG, &scrub_names, NULL,
     "functions, modules, annotations, threads, processes,\n"
     "categories; public operators, kernels and calls stay"},
    {"paths", 0, KC_FLAG, &scrub_paths, NULL, "paths of files, wherever they occur"},
    {"hosts", 0, KC_FLAG, &scrub_hosts, NULL, "names and addresses of machines"},
    {"stacks", 0, KC_FLAG, &scrub_stacks, NULL, "call stacks"},
    {"args", 0, KC_FLAG, &scrub_args, NULL,
     "texts in arguments, and keys that the program defines"},
    {"header", 0, KC_FLAG, &scrub_header, NULL, "the same in the header, devices and ledger"},
    {"shapes", 0, KC_FLAG, &scrub_shapes, NULL, "sizes of tensors and messages"},
    {"known-names", 0, KC_FLAG, &known_names, NULL,
     "also the names of public operators, kernels and calls;\n"
     "few analyses work then"},
    {"packages", 0, KC_FLAG, &scrub_packages, NULL,
     "files and functions of public packages (torch/optim/sgd.py)"},
    {"ids", 0, KC_FLAG, &scrub_ids, NULL, "numbers of processes and threads"},
    {"times", 0, KC_FLAG, &scrub_times, NULL, "the date: the trace begins at 0"},
    {"drop-stacks", 0, KC_FLAG, &drop_stacks, NULL, "remove call stacks, for a smaller file"},
    {"all", 0, KC_FLAG, &all, NULL, "all of the above except --times and --drop-stacks"},
    {"keep", 0, KC_TEXT, &keep, "RE",
     "texts that match this extended regular expression are\n"
     "not replaced"},
    {"salt-file", 0, KC_TEXT, &salt_file, "FILE",
     "the same salt gives the same pseudonyms, which the ranks\n"
     "of a job need; with the salt, guesses can be tested. The\n"
     "default is a random salt that is not stored"},
    {"salt", 0, KC_TEXT, &salt_text, "TEXT",
     "the salt itself; it is visible in the list of processes"},
    KC_QUIET_OPTION(quiet),
};
static const kc_options options = {
    "scrub",
    "[options] TRACE... -o FILE",
    "Replace names of people, machines and code in a trace by pseudonyms, so that it\n"
    "can be shared. Times, numbers and structure stay. The default is --names --paths\n"
    "--hosts --stacks --args --header. Several files, and those in a directory, become\n"
    "one trace.",
    "ckineto scrub trace.json -o shared.json.gz\n"
    "ckineto scrub --all --salt-file secret run/ -o shared.json.gz",
    option_list,
    KB_COUNT(option_list),
    false};

/* KINETO_SCRUB_ bits of the selected options; of the default if none is selected.
 * --packages, --ids, --times and --drop-stacks add to both. */
static uint32_t choose_scrub_parts(void)
{
    const struct {
        bool wanted;
        uint32_t what;
    } rows[] = {{scrub_names || known_names, KINETO_SCRUB_NAMES},
                {scrub_paths, KINETO_SCRUB_PATHS},
                {scrub_hosts, KINETO_SCRUB_HOSTS},
                {scrub_stacks, KINETO_SCRUB_STACKS},
                {scrub_args, KINETO_SCRUB_ARGS},
                {scrub_header, KINETO_SCRUB_HEADER},
                {scrub_shapes, KINETO_SCRUB_SHAPES},
                {known_names, KINETO_SCRUB_KNOWN}};
    uint32_t what = 0;
    for (size_t i = 0; i < KB_COUNT(rows); i++)
        what |= rows[i].wanted ? rows[i].what : 0;
    if (all)
        what = KINETO_SCRUB_ALL & ~KINETO_SCRUB_DROP_STACKS;
    what = what ? what : KINETO_SCRUB_USUAL;
    what |= (scrub_packages || all ? KINETO_SCRUB_PACKAGES : 0) | (scrub_ids || all ? KINETO_SCRUB_IDS : 0) |
            (scrub_times ? KINETO_SCRUB_TIMES : 0);
    return drop_stacks ? what | KINETO_SCRUB_STACKS | KINETO_SCRUB_DROP_STACKS : what;
}

/* ---- the salt -------------------------------------------------------------------------------- */

#define SALT_BYTES 4096u

/* 1 to SALT_BYTES bytes, without trailing line breaks. */
static kineto_status read_salt_file(char *salt, size_t *size, kineto_error *err)
{
    FILE *f = fopen(salt_file, "rb");
    if (!f)
        return kb_fail_os(err, errno, "cannot read the salt from %s", salt_file);
    *size = fread(salt, 1, SALT_BYTES, f);
    bool failed = ferror(f) != 0, more = *size == SALT_BYTES && fgetc(f) != EOF;
    fclose(f);
    /* The final line break of a text editor is not part of the salt. */
    while (*size && (salt[*size - 1] == '\n' || salt[*size - 1] == '\r'))
        --*size;
    if (failed)
        return kb_fail(err, KINETO_E_IO, "cannot read the salt from %s", salt_file);
    if (more || !*size)
        return kb_fail(err, KINETO_E_ARGUMENT, "the salt in %s must have 1 to %u bytes", salt_file,
                       SALT_BYTES);
    return KINETO_OK;
}

/* From the file, or 32 random bytes, which are not stored: pseudonyms then differ in each run,
 * and guesses cannot be tested. */
static kineto_status choose_salt(char *salt, size_t *size, kineto_error *err)
{
    if (salt_file)
        return read_salt_file(salt, size, err);
    *size = 32;
    if (getrandom(salt, *size, 0) != (ssize_t)*size)
        return kb_fail_os(err, errno, "cannot make a random salt; give one with --salt-file");
    return KINETO_OK;
}

/* ---- the verb -------------------------------------------------------------------------------- */

/* The trace contains its own name; the directory is omitted. */
static kineto_status save_scrubbed_trace(const kineto_trace *trace, kineto_error *err)
{
    const char *slash = strrchr(output, '/');
    kineto_export_options how = {.size = sizeof how, .trace_name = slash ? slash + 1 : output};
    return kineto_trace_export(trace, output, &how, NULL, err);
}

/* Numbers of replaced texts by class. */
static void report_replacements(const kineto_scrub_result *r)
{
    const struct {
        uint64_t count;
        const char *one, *many;
    } rows[] = {{r->names, "name", "names"},       {r->paths, "path", "paths"},
                {r->hosts, "machine", "machines"}, {r->stacks, "stack", "stacks"},
                {r->keys, "key", "keys"},          {r->texts, "text", "texts"},
                {r->shapes, "size", "sizes"}};
    const char *separator = "";
    fputs("ckineto: replaced", stderr);
    for (size_t i = 0; i < KB_COUNT(rows); i++) {
        if (!rows[i].count)
            continue;
        fprintf(stderr, "%s %s %s", separator, kc_count(rows[i].count).s,
                kc_noun(rows[i].count, rows[i].one, rows[i].many));
        separator = ",";
    }
    fputs(*separator ? "\n" : " nothing\n", stderr);
}

/* What an option would replace, too. */
static void report_kept(uint32_t what)
{
    const struct {
        uint32_t unless;
        const char *kept;
    } rows[] = {{KINETO_SCRUB_NAMES, "names (--names)"},
                {KINETO_SCRUB_PATHS, "paths (--paths)"},
                {KINETO_SCRUB_HOSTS, "machines (--hosts)"},
                {KINETO_SCRUB_STACKS, "call stacks (--stacks)"},
                {KINETO_SCRUB_ARGS, "texts in arguments (--args)"},
                {KINETO_SCRUB_HEADER, "texts in the header (--header)"},
                {KINETO_SCRUB_KNOWN, "public operators, kernels and calls (--known-names)"},
                {KINETO_SCRUB_KNOWN | KINETO_SCRUB_PACKAGES, "files of public packages (--packages)"},
                {KINETO_SCRUB_SHAPES, "sizes of tensors (--shapes)"},
                {KINETO_SCRUB_IDS, "numbers of processes and threads (--ids)"},
                {KINETO_SCRUB_TIMES, "the date (--times)"}};
    char text[600] = "";
    size_t at = 0;
    for (size_t i = 0; i < KB_COUNT(rows); i++)
        if (!(what & rows[i].unless))
            at += (size_t)kb_snprintf(text + at, sizeof text - at, "%s%s", at ? ", " : "", rows[i].kept);
    if (at)
        kc_put_wrapped(stderr, kc_page_width(stderr), "ckineto: kept ", "  ", 0, kb_string(text));
}

/* All that is said about the result. */
static void report_scrub(const kineto_scrub_result *done, uint32_t what, uint64_t activities)
{
    report_replacements(done);
    report_kept(what);
    if (!salt_text && !salt_file)
        kc_put_wrapped(stderr, kc_page_width(stderr), "ckineto: ", "  ", 0,
                       kb_string("the salt was random: for the same pseudonyms in other files, scrub all of them with "
                                 "the same --salt-file"));
    kc_print_written_trace(output, activities);
}

/* Opens, scrubs and writes. The original is released before the copy is written, as both may
 * be large. Returns the exit status. */
static int scrub_trace(char *const *files, int count, int32_t of_rank)
{
    kineto_error err = {.message = ""};
    kineto_trace *trace = NULL, *scrubbed = NULL;
    kineto_scrub_result done = {.size = sizeof done};
    char salt[SALT_BYTES];
    size_t size = 0;
    kineto_scrub how = {.size = sizeof how, .what = choose_scrub_parts(), .keep = keep};
    int result = KC_EXIT_USAGE;
    if ((!salt_text && choose_salt(salt, &size, &err) != KINETO_OK) ||
        kc_open_traces(files, count, of_rank, &trace, &err) != KINETO_OK)
        goto done;
    how.salt = salt_text ? salt_text : salt;
    how.salt_bytes = salt_text ? strlen(salt_text) : size;
    kineto_status status = kineto_trace_scrub(trace, &how, &scrubbed, &done, &err);
    result = status == KINETO_E_ARGUMENT ? KC_EXIT_USAGE : KC_EXIT_FAILURE;
    kineto_trace_release(trace);
    trace = NULL;
    if (status != KINETO_OK || save_scrubbed_trace(scrubbed, &err) != KINETO_OK)
        goto done;
    if (!quiet)
        report_scrub(&done, how.what, kineto_trace_count(scrubbed));
    result = 0;
done:
    if (result)
        kc_complain("scrub: %s", err.message);
    kineto_trace_release(scrubbed);
    kineto_trace_release(trace);
    return result;
}

/* Before a long trace is read. */
static kineto_status check_scrub_output(char *const *files, int count)
{
    if (!output)
        return kc_usage_error("scrub", "no output given, for example -o shared.json.gz");
    kineto_status status = kc_check_trace_name("scrub", output);
    return status ? status : kc_check_outputs("scrub", files, count, &output, 1, true);
}

/* The output is checked before the trace is read, which may take long. */
int kc_scrub(int argc, char **argv)
{
    int operands;
    int32_t of_rank = -1;
    kineto_status status = kc_parse_options(&options, argc, argv, &operands);
    if (status == KINETO_E_NOT_FOUND)
        return kc_finish_stdout("scrub", 0);
    if (status == KINETO_OK && !operands)
        status = kc_usage_error("scrub", "no trace given");
    if (status == KINETO_OK)
        status = kc_parse_rank("scrub", rank, &of_rank);
    if (status == KINETO_OK)
        status = check_scrub_output(argv + 1, operands);
    if (status == KINETO_OK && salt_text && salt_file)
        status = kc_usage_error("scrub", "--salt cannot be used with --salt-file");
    return status ? KC_EXIT_USAGE : scrub_trace(argv + 1, operands, of_rank);
}
