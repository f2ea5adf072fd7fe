/* ckineto: the table of verbs, `help`, and the process around a verb: closed standard streams, a
 * small stack, and files that change while they are read. Verbs get their own arguments and return
 * the exit status. */
#include "cli/cli.h"
#include "cli/open_many.h"
#include "cli/style.h"
#include "trace/bytes/input.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static int run_help(int argc, char **argv);
static int run_completion(int argc, char **argv);

/* Verbs that load libraries, or bring ours into other programs, do not work in a static command. */
#ifdef KB_LINKED_STATICALLY
/* In place of verbs that the static command does not have. */
static int refuse_static(int argc, char **argv)
{
    (void)argc;
    fprintf(
        stderr,
        "ckineto: this command is linked statically: it reads traces, and has no '%s'; use the one "
        "of the packages, or of 'make install'\n",
        argv[0]);
    return strcmp(argv[0], "record") == 0 ? KC_EXIT_OWN_FAILURE : KC_EXIT_FAILURE;
}
#define LOADS(run, about) refuse_static, NULL /* not listed */
#else
#define LOADS(run, about) run, about
#endif

/* In the order of the help, where a group begins with its name. */
static const kc_verb verbs[] = {
    {"record", LOADS(kc_record, "run a program and record its timeline"), "Record"},
    {"top", LOADS(kc_top, "show what a program does, while it runs"), NULL},
    {"bench", LOADS(kc_bench, "record a command many times, or two in turn, and compare"), NULL},
    {"doctor", LOADS(kc_doctor, "show what can be recorded on this machine"), NULL},
    {"plugin", LOADS(kc_plugin, "list plug-ins, or check one"), NULL},
    {"recover", kc_recover, "make a trace from the files of a recorder that was killed", NULL},
    {"analyze", kc_analyze, "show where the time went, and what to change", "Look"},
    {"report", kc_report, "write findings, tables and the timeline as one HTML page", NULL},
    {"view", kc_view, "show the report in a browser, or the trace in the Perfetto UI", NULL},
    {"info", kc_info, "print a summary of a trace", NULL},
    {"table", kc_table, "print the cost of each function, as PyTorch's profiler does", NULL},
    {"query", kc_query, "query a trace in SQL", NULL},
    {"diff", kc_diff, "compare two traces, and evaluate regression gates", "Compare"},
    {"history", kc_history_verb, "find the run from which on steps take longer, and by what", NULL},
    {"facts", kc_facts, "keep what comparing ranks needs of traces, in small files", "Many ranks"},
    {"reduce", kc_reduce, "join facts files of ranks to one of the run", NULL},
    {"trigger", kc_trigger, "request traces of running programs", "Serve"},
    {"mcp", kc_mcp, "serve traces to programs that use language models", NULL},
    {"ps", kc_ps, "list traceable processes", NULL},
    {"daemon", kc_daemon, "serve processes that are traced on demand", NULL},
    {"convert", kc_convert, "write a trace in other formats", "Files"},
    {"export", kc_export, "write many ranks and runs as Parquet files, for SQL", NULL},
    {"slice", kc_slice, "select a part of a trace: a time range, steps, the longest …", NULL},
    {"scrub", kc_scrub, "replace names of people, machines and code, to share a trace", NULL},
    {"verify", kc_verify, "check whether a trace is sound", NULL},
    {"repair", kc_repair, "repair a broken or cut trace, and list the changes", NULL},
    {"help", run_help, "show the help of a verb: ckineto help VERB", ""},
    {"completion", run_completion, NULL, NULL}, /* for the build */
};

/* The list of verbs, in groups. */
static void print_main_usage(FILE *out)
{
    kc_put_styled(out, KC_BOLD, "Usage:");
    fputs(" ckineto VERB [options] …, or ckineto TRACE\n\n"
          "Record the timeline of any program and of the devices it uses; read traces.\n",
          out);
    for (size_t i = 0; i < KB_COUNT(verbs); i++) {
        if (!verbs[i].about)
            continue;
        if (verbs[i].group)
            fputc('\n', out);
        if (verbs[i].group && *verbs[i].group) {
            kc_put_styled(out, KC_BOLD, "%s", verbs[i].group);
            fputc('\n', out);
        }
        fprintf(out, "  %-9s %s\n", verbs[i].name, verbs[i].about);
    }
    fputs("\n'ckineto VERB --help' lists the options of a verb, with examples; 'ckineto --version' the\n"
          "version.\n\n",
          out);
    kc_put_styled(out, KC_BOLD, "First steps:");
    fputs("\n"
          "  ckineto record -- PROGRAM ARGS    record a program\n"
          "  ckineto trace.json                what the trace shows, and what to change\n"
          "  ckineto view trace.json           the timeline in a browser\n",
          out);
}

/* NULL: unknown. Names must be complete. */
static const kc_verb *find_verb(const char *name)
{
    for (size_t i = 0; i < KB_COUNT(verbs); i++)
        if (strcmp(verbs[i].name, name) == 0)
            return &verbs[i];
    return NULL;
}

/* Names in other tools. */
static const struct {
    const char *given, *meant;
} synonyms[] = {
    {"run", "record"},      {"profile", "record"},    {"trace", "record"},
    {"start", "record"},    {"show", "info"},         {"dump", "info"},
    {"stat", "info"},       {"stats", "info"},        {"summary", "info"},
    {"open", "view"},       {"serve", "view"},        {"list", "ps"},
    {"top", "table"},       {"compare", "diff"},      {"check", "verify"},
    {"validate", "verify"}, {"sql", "query"},         {"merge", "convert"},
    {"attach", "trigger"},  {"cut", "slice"},         {"flame", "convert -o FLAME.svg TRACE"},
    {"filter", "slice"},    {"anonymize", "scrub"},   {"fix", "repair"},
    {"plugins", "plugin"},  {"version", "--version"}, {"benchmark", "bench"},
    {"repeat", "bench"},
};

/* The verb that was probably meant; NULL: none. A typing mistake changes at most half of the
 * letters. */
static const char *guess_verb(const char *name)
{
    const char *best = NULL;
    size_t best_distance = KB_MIN(strlen(name) / 2, (size_t)3) + 1;
    for (size_t i = 0; i < KB_COUNT(synonyms); i++)
        if (strcmp(name, synonyms[i].given) == 0)
            return synonyms[i].meant;
    for (size_t i = 0; i < KB_COUNT(verbs); i++) {
        size_t d = verbs[i].about ? kc_edit_distance(name, verbs[i].name) : best_distance;
        if (d < best_distance) {
            best_distance = d;
            best = verbs[i].name;
        }
    }
    return best;
}

/* "acme.so", "libacme.so.1". */
static bool is_library_name(const char *name)
{
    const char *end = strstr(name, ".so");
    return end && (end[3] == '\0' || end[3] == '.');
}

/* With the likely verb, or a hint if the word is an existing file. */
static int report_unknown_verb(const char *name)
{
    const char *meant = guess_verb(name);
    if (!meant && is_library_name(name) && access(name, F_OK) == 0)
        (void)kc_usage_error(NULL, "unknown command '%s'. To check a plug-in: ckineto plugin check %s", name, name);
    else if (!meant && access(name, X_OK) == 0)
        (void)kc_usage_error(NULL, "unknown command '%s'. To record it: ckineto record -- %s", name, name);
    else
        (void)kc_usage_error(NULL, "unknown command '%s'%s%s%s", name, meant ? "; did you mean '" : "",
                             meant ? meant : "", meant ? "'?" : "");
    return KC_EXIT_USAGE;
}

/* Is it a file or a directory of traces, in place of a verb? Programs are no traces. Of what does not exist,
 * words with a dot or a slash are paths: no verb has one. */
static bool is_trace(const char *name)
{
    struct stat s;
    if (stat(name, &s) != 0)
        return strpbrk(name, "./") != NULL;
    return S_ISDIR(s.st_mode) || S_ISFIFO(s.st_mode) ||
           (S_ISREG(s.st_mode) && access(name, X_OK) != 0);
}

/* `help VERB` is `VERB --help`. */
static int run_help(int argc, char **argv)
{
    if (argc < 2 || strcmp(argv[1], "help") == 0) {
        print_main_usage(stdout);
        return kc_finish_stdout("help", 0);
    }
    const kc_verb *v = find_verb(argv[1]);
    if (!v)
        return report_unknown_verb(argv[1]);
    char ask[] = "--help";
    char *arguments[] = {argv[1], ask, NULL};
    return v->run(2, arguments);
}

static int run_completion(int argc, char **argv)
{
    return kc_completion(argc, argv, verbs, KB_COUNT(verbs));
}

/* Standard streams that were closed stay unusable, for us and for the programs that we start, but
 * their numbers are taken: otherwise messages would be written into a file that gets one of them.
 */
static void reserve_closed_streams(void)
{
    static const int useless[] = {O_WRONLY, O_RDONLY, O_RDONLY};
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0)
            (void)open("/dev/null", useless[fd] | O_CLOEXEC); /* the lowest that is free */
}

/* ---- the stack ------------------------------------------------------------------------------- */

/* Stack of the thread that runs a verb, if `ulimit -s` is below SMALL_STACK_BYTES. */
#define STACK_BYTES       ((size_t)8 << 20)
#define SMALL_STACK_BYTES ((size_t)1 << 20)

/* A verb with its arguments, for the thread that runs it; `mask` is the signal mask of the
 * caller. */
typedef struct verb_call {
    const kc_verb *v;
    int argc, result;
    char **argv;
    sigset_t mask;
} verb_call;

/* Thread function: restores the signal mask, which was blocked while the thread was created. */
static void *run_verb_call(void *argument)
{
    verb_call *c = argument;
    (void)pthread_sigmask(SIG_SETMASK, &c->mask, NULL);
    c->result = c->v->run(c->argc, c->argv);
    return NULL;
}

/* With a small `ulimit -s` the verb runs on a thread with a larger stack, which receives the
 * signals; the first thread only waits, with all signals blocked. Programs that the verb
 * starts inherit the limit. If no thread can be made, the verb runs here. */
static int run_with_large_stack(const kc_verb *v, int argc, char **argv)
{
    struct rlimit limit;
    pthread_attr_t with;
    pthread_t thread;
    sigset_t all;
    verb_call c = {.v = v, .argc = argc, .argv = argv};
    if (getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur >= SMALL_STACK_BYTES ||
        pthread_attr_init(&with) != 0)
        return v->run(argc, argv);
    sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &c.mask);
    int failed = pthread_attr_setstacksize(&with, STACK_BYTES);
    if (!failed)
        failed = pthread_create(&thread, &with, run_verb_call, &c);
    (void)pthread_attr_destroy(&with);
    if (!failed)
        failed = pthread_join(thread, NULL);
    else
        run_verb_call(&c);
    return c.result;
}

/* A file that became shorter after it was opened makes the result unreliable. */
static int check_read_files(int status)
{
    const char *file = kt_guard_cut_file();
    if (!file || status == KC_EXIT_USAGE)
        return status;
    kc_complain("%s: the file became shorter while it was read, so the result is unreliable; "
                "read it again when it is complete",
                file);
    return status ? status : KC_EXIT_FAILURE;
}

/* `ckineto --json TRACE` is `ckineto TRACE --json`: a trace after options moves to the front. */
static void move_trace_to_front(int argc, char **argv)
{
    int at = 1;
    while (at < argc && argv[at][0] == '-' && strcmp(argv[at], "--") != 0)
        at++;
    if (at == 1 || at == argc || !is_trace(argv[at]))
        return;
    char *trace = argv[at];
    memmove(argv + 2, argv + 1, (size_t)(at - 1) * sizeof *argv);
    argv[1] = trace;
}

/* Options of the command itself have no verb; everything else is a verb. */
int main(int argc, char **argv)
{
    reserve_closed_streams();
    if (argc < 2) {
        print_main_usage(stderr);
        return KC_EXIT_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
        return run_help(1, argv);
    if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0) {
        printf("ckineto %s\n", kineto_version());
        return kc_finish_stdout("--version", 0);
    }
    move_trace_to_front(argc, argv);
    const kc_verb *v = find_verb(argv[1]);
    if (!v)
        kc_expect_json_errors(argc, argv);
    if (argv[1][0] == '-') {
        (void)kc_usage_error(NULL, "unknown option '%s'", argv[1]);
        return KC_EXIT_USAGE;
    }
    if (!v && is_trace(argv[1])) {
        v = find_verb("analyze"); /* whose argv[0] is then ours */
        argc++;
        argv--;
    }
    return v ? kc_exit_with_bad_files(check_read_files(run_with_large_stack(v, argc - 1, argv + 1)))
             : report_unknown_verb(argv[1]);
}
