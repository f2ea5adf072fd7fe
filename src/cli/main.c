/* ckineto: the table of verbs. */
#include "cli/cli.h"
#include "trace/bytes/input.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

typedef kc_verb verb;

static int help(int argc, char **argv);
static int completion(int argc, char **argv);

/* What loads libraries, or lets ours into other programs, is not in a command without any. */
#ifdef KB_LINKED_STATICALLY
static int reads_only(int argc, char **argv)
{
    (void)argc;
    fprintf(
        stderr,
        "ckineto: this command is linked statically: it reads traces, and has no '%s'. Use the one "
        "of the packages, or of 'make install'.\n",
        argv[0]);
    return strcmp(argv[0], "record") == 0 ? KC_EXIT_OWN_FAILURE : KC_EXIT_FAILURE;
}
#define LOADS(run, about) reads_only, NULL
#else
#define LOADS(run, about) run, about
#endif

static const verb verbs[] = {
    {"record", LOADS(kc_record, "run a program and record its timeline")},
    {"info", kc_info, "say what is in a trace"},
    {"verify", kc_verify, "say whether a trace is sound"},
    {"analyze", kc_analyze, "say where the time went: of one rank or of many"},
    {"report", kc_report, "write what is slow, the numbers and the timeline as one page"},
    {"view", kc_view, "show the report in a browser, or the trace in the Perfetto UI"},
    {"diff", kc_diff, "say what changed between two traces, and whether it may pass"},
    {"table", kc_table, "say what each function cost, as PyTorch's profiler does"},
    {"query", kc_query, "ask a trace questions in SQL"},
    {"convert", kc_convert, "write a trace in another format"},
    {"export", kc_export, "write a trace in several formats at once"},
    {"trigger", kc_trigger, "ask running programs for traces of themselves"},
    {"ps", kc_ps, "list processes that can be asked for a trace"},
    {"daemon", kc_daemon, "serve processes that can be traced on demand"},
    {"plugin", LOADS(kc_plugin, "list plug-ins, or check one")},
    {"doctor", LOADS(kc_doctor, "say what can be recorded on this machine, and why not")},
    {"recover", kc_recover, "make a trace of what a recorder that died left behind"},
    {"slice", kc_slice, "take a part of a trace: of a time, of steps, the longest …"},
    {"scrub", kc_scrub, "replace what names people, machines and code, to share a trace"},
    {"repair", kc_repair, "make a sound trace of a broken or cut one, and say what was changed"},
    {"help", help, "explain a verb: ckineto help VERB"},
    {"completion", completion, NULL}, /* for the build */
};

static void print_usage(FILE *out)
{
    fputs("Usage: ckineto VERB [options] …\n\n"
          "Record the timeline of any program and of the devices it uses; read traces.\n\n",
          out);
    for (size_t i = 0; i < KB_COUNT(verbs); i++)
        if (verbs[i].about)
            fprintf(out, "  %-9s %s\n", verbs[i].name, verbs[i].about);
    fputs("\n'ckineto VERB --help' lists the options of a verb; 'ckineto --version' the version.\n"
          "First steps: ckineto doctor; ckineto record -o trace.json -- PROGRAM ARGS\n",
          out);
}

static const verb *find(const char *name)
{
    for (size_t i = 0; i < KB_COUNT(verbs); i++)
        if (strcmp(verbs[i].name, name) == 0)
            return &verbs[i];
    return NULL;
}

/* What other tools call it. */
static const struct {
    const char *said, *meant;
} synonyms[] = {
    {"run", "record"},        {"profile", "record"},  {"trace", "record"},   {"start", "record"},
    {"show", "info"},         {"dump", "info"},       {"stat", "info"},      {"stats", "info"},
    {"summary", "info"},      {"open", "view"},       {"serve", "view"},     {"list", "ps"},
    {"top", "table"},         {"compare", "diff"},    {"check", "verify"},   {"validate", "verify"},
    {"sql", "query"},         {"merge", "convert"},   {"attach", "trigger"}, {"cut", "slice"},
    {"flame", "convert -o FLAME.svg TRACE"},
    {"filter", "slice"},      {"anonymize", "scrub"}, {"fix", "repair"},     {"plugins", "plugin"},
    {"version", "--version"},
};

/* A typing mistake changes half of a word at most. */
static const char *meant_by(const char *name)
{
    const char *best = NULL;
    size_t best_distance = KB_MIN(strlen(name) / 2, (size_t)3) + 1;
    for (size_t i = 0; i < KB_COUNT(synonyms); i++)
        if (strcmp(name, synonyms[i].said) == 0)
            return synonyms[i].meant;
    for (size_t i = 0; i < KB_COUNT(verbs); i++) {
        size_t d = kc_edit_distance(name, verbs[i].name);
        if (d < best_distance) {
            best_distance = d;
            best = verbs[i].name;
        }
    }
    return best;
}

static int unknown_verb(const char *name)
{
    const char *meant = meant_by(name);
    if (!meant && access(name, F_OK) == 0)
        kc_complain("'%s' is no verb of ckineto. If it is a trace: ckineto info %s. If it is a "
                    "program: ckineto record -- %s",
                    name, name, name);
    else
        kc_complain("'%s' is no verb of ckineto%s%s%s", name, meant ? ": did you mean '" : "",
                    meant ? meant : "", meant ? "'?" : "");
    fputs("Try 'ckineto --help'.\n", stderr);
    return KC_EXIT_USAGE;
}

static int help(int argc, char **argv)
{
    if (argc < 2 || strcmp(argv[1], "help") == 0) {
        print_usage(stdout);
        return kc_finish_stdout("help", 0);
    }
    const verb *v = find(argv[1]);
    if (!v)
        return unknown_verb(argv[1]);
    char ask[] = "--help";
    char *arguments[] = {argv[1], ask, NULL};
    return v->run(2, arguments);
}

static int completion(int argc, char **argv)
{
    return kc_completion(argc, argv, verbs, KB_COUNT(verbs));
}

/* Streams that we were given closed are closed to us and to what we start, but no file of ours gets
 * their numbers: what is said there would be written into it. */
static void keep_closed_streams_closed(void)
{
    static const int useless[] = {O_WRONLY, O_RDONLY, O_RDONLY};
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0)
            (void)open("/dev/null", useless[fd] | O_CLOEXEC); /* the lowest that is free */
}

/* ---- the stack ------------------------------------------------------------------------------- */

#define STACK_BYTES       ((size_t)8 << 20)
#define SMALL_STACK_BYTES ((size_t)1 << 20)

typedef struct call {
    const verb *v;
    int argc, result;
    char **argv;
    sigset_t mask;
} call;

static void *run_call(void *argument)
{
    call *c = argument;
    (void)pthread_sigmask(SIG_SETMASK, &c->mask, NULL);
    c->result = c->v->run(c->argc, c->argv);
    return NULL;
}

/* Below a small `ulimit -s` a verb runs on a stack of its own, and gets the signals. What it starts has the
 * limit that we have. */
static int run_with_stack(const verb *v, int argc, char **argv)
{
    struct rlimit limit;
    pthread_attr_t with;
    pthread_t thread;
    sigset_t all;
    call c = {.v = v, .argc = argc, .argv = argv};
    if (getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur >= SMALL_STACK_BYTES ||
        pthread_attr_init(&with) != 0)
        return v->run(argc, argv);
    sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &c.mask);
    int failed = pthread_attr_setstacksize(&with, STACK_BYTES);
    if (!failed)
        failed = pthread_create(&thread, &with, run_call, &c);
    (void)pthread_attr_destroy(&with);
    if (!failed)
        failed = pthread_join(thread, NULL);
    else
        run_call(&c);
    return c.result;
}

/* A file that became shorter when it had been opened: what was computed of it is of half a file. */
static int check_files(int status)
{
    const char *file = kt_guard_cut_file();
    if (!file || status == KC_EXIT_USAGE)
        return status;
    kc_complain("%s: the file became shorter while it was read, so the result is not to be relied on; "
                "read it again when it is written",
                file);
    return status ? status : KC_EXIT_FAILURE;
}

int main(int argc, char **argv)
{
    keep_closed_streams_closed();
    if (argc < 2) {
        print_usage(stderr);
        return KC_EXIT_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
        return help(1, argv);
    if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0) {
        printf("ckineto %s\n", kineto_version());
        return kc_finish_stdout("--version", 0);
    }
    if (argv[1][0] == '-') {
        kc_complain("unknown option '%s'", argv[1]);
        fputs("Try 'ckineto --help'.\n", stderr);
        return KC_EXIT_USAGE;
    }
    const verb *v = find(argv[1]);
    return v ? check_files(run_with_stack(v, argc - 1, argv + 1)) : unknown_verb(argv[1]);
}
