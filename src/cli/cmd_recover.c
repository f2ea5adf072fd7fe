/* ckineto recover: make a trace from the raw recording of a recorder that was killed, or of a
 * program that crashed. The work is ks_recover (src/session). A recording may come from any user,
 * so its contents never choose a path outside the current directory. */
#include "cli/cli.h"
#include "cli/summary/summary.h"
#include "session/session.h"

#include <sys/stat.h>
#include <unistd.h>

static const char *output;
static bool force, remove_files;
static const kc_option option_list[] = {
    {"output", 'o', KC_TEXT, &output, "FILE",
     "the trace; by default the name in the recording, in this directory"},
    {"remove", 0, KC_FLAG, &remove_files, NULL,
     "remove the raw recording when the trace is written"},
    {"force", 0, KC_FLAG, &force, NULL, "recover even while the recorder is running"},
};
static const kc_options options = {
    "recover",
    "[options] [POOL|SPOOL]",
    "Make a trace from the raw recording of a recorder that was killed or could not\n"
    "write its output, or from the ring of a program that crashed (.ckpool). Without\n"
    "a file, list the raw recordings. Without -o no file is replaced.",
    "ckineto recover\n"
    "ckineto recover -o trace.json --remove /dev/shm/ckineto-1234.ckpool",
    option_list,
    KB_COUNT(option_list),
    false};

/* "90 s", "3 min", "5 h". */
static kb_text format_age(int64_t seconds)
{
    kb_text t;
    if (seconds < 120)
        snprintf(t.s, sizeof t.s, "%lld s", (long long)seconds);
    else if (seconds < 7200)
        snprintf(t.s, sizeof t.s, "%lld min", (long long)seconds / 60);
    else
        snprintf(t.s, sizeof t.s, "%lld h", (long long)seconds / 3600);
    return t;
}

/* How many recordings were listed, and how many of these can be read. */
typedef struct orphan_counts {
    uint32_t count, readable;
} orphan_counts;

/* Print one recording without a running recorder. @return true: continue. */
static bool list_orphan(void *context, const ks_orphan *o)
{
    orphan_counts *l = context;
    if (o->recorder_alive)
        return true;
    l->readable += !o->problem[0];
    if (l->count++ == 0)
        printf("Recordings without a running recorder:\n");
    kc_print(stdout, "  %s\n    %s, last written %s ago, ", o->pool_path, kb_bytes(o->bytes).s,
             format_age(o->age_seconds).s);
    if (o->problem[0])
        kc_print(stdout, "cannot be read: %s; to free its memory: rm %s\n", o->problem,
                 o->pool_path);
    else
        kc_print(stdout, "program: %s\n", o->program[0] ? o->program : "none attached");
    return true;
}

/* All raw recordings of this user. */
static int list_orphans(void)
{
    orphan_counts all = {0};
    ks_orphans_each(list_orphan, &all);
    if (all.count == 0)
        printf("No recording to recover.\n");
    else if (all.readable)
        printf("Next: ckineto recover -o FILE.json --remove POOL\n");
    return kc_finish_stdout("recover", 0);
}

/* A failure is reported, and does not change the exit status: the trace is complete. */
static void remove_raw_recording(const ks_orphan *o)
{
    if (o->pool_path[0] && unlink(o->pool_path) != 0)
        kc_complain("recover: cannot remove %s", o->pool_path);
    if (o->spool_path[0] && unlink(o->spool_path) != 0)
        kc_complain("recover: cannot remove %s", o->spool_path);
}

/* The default output. A recording may come from anyone, so only the last part of the name that it
 * contains is used, in this directory, and no existing file is replaced. */
static kineto_status choose_recovered_output(const ks_orphan *o, const char **to, kineto_error *err)
{
    const char *slash = strrchr(o->output_path, '/');
    const char *name = slash ? slash + 1 : o->output_path;
    struct stat st;
    *to = name[0] ? name : "trace.json";
    if (lstat(*to, &st) == 0)
        return kb_fail(err, KINETO_E_ARGUMENT, "'%s' exists already; name the output with -o FILE",
                       *to);
    return KINETO_OK;
}

/* *to is --output or NULL; it receives the default name then. */
static kineto_status save_recovered_trace(const kineto_trace *trace, const ks_orphan *what,
                                          const char **to, kineto_error *err)
{
    kineto_status status = *to ? KINETO_OK : choose_recovered_output(what, to, err);
    return status ? status : kineto_trace_save(trace, *to, err);
}

/* Builds and writes the trace of one recording. The raw recording is removed only after the
 * trace was written, and not while its recorder is running. Returns the exit status. */
static int recover_trace(const char *path)
{
    static ks_orphan what;
    kineto_error err = {0};
    kineto_trace *trace = NULL;
    const char *to = output;
    kineto_status status = ks_recover(path, force, &what, &trace, &err);
    if (status == KINETO_OK)
        status = save_recovered_trace(trace, &what, &to, &err);
    if (status) {
        kc_complain("recover: %s", err.message);
    } else {
        uint64_t count = kineto_trace_count(trace);
        kc_print(stderr, "ckineto: %s %s; the trace is in %s\n", kc_count(count).s,
                 kc_noun(count, "activity", "activities"), to);
        kc_ledger_print(trace, false, stderr);
        if (remove_files && !what.recorder_alive)
            remove_raw_recording(&what);
        kc_print(stderr, "\nckineto: next: ckineto info %s\n", to);
    }
    bool is_read = trace != NULL;
    kineto_trace_release(trace);
    return kc_exit_of(status, is_read);
}

/* Without an operand the command lists recordings; then -o would have no meaning, and is
 * refused. */
int kc_recover(int argc, char **argv)
{
    int operands;
    kineto_status status = kc_parse_options(&options, argc, argv, &operands);
    if (status == KINETO_E_NOT_FOUND)
        return kc_finish_stdout("recover", 0);
    if (status == KINETO_OK && operands > 1)
        status =
            kc_usage_error("recover", "unexpected operand '%s': one recording at a time", argv[2]);
    if (status == KINETO_OK && operands == 0 && output)
        status = kc_usage_error("recover", "no recording given; 'ckineto recover' lists them");
    if (status)
        return KC_EXIT_USAGE;
    return operands ? recover_trace(argv[1]) : list_orphans();
}
