/* ckineto doctor: what can be recorded on this machine, and why not. */
#include "cli/cli.h"
#include "cli/probes.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#define PATIENCE_MS 30000

static bool as_json;
static const kc_option option_list[] = {
    {"json", 'j', KC_FLAG, &as_json, NULL, "one JSON object instead of text"},
};
static const kc_options options = {
    "doctor",
    "[options]",
    "Say what can be recorded on this machine, and why something cannot. The exit\n"
    "status is 1 if something that every recording needs is broken.",
    option_list,
    KB_COUNT(option_list),
    false};

static const char *const verdict_names[] = {"ok", "absent", "broken", "note"};

/* ---- asking in a child ----------------------------------------------------------------------------- */

static _Noreturn void answer(const kc_probe *probe, int to)
{
    kc_finding f = {KC_BROKEN, ""};
    int null = open("/dev/null", O_WRONLY);
    if (null >= 0) { /* drivers talk */
        dup2(null, STDOUT_FILENO);
        dup2(null, STDERR_FILENO);
    }
    probe->ask(&f);
    ssize_t n = kb_os_write_quiet(to, &f, sizeof f);
    _exit(n == (ssize_t)sizeof f ? 0 : 1);
}

static bool read_answer(int from, kc_finding *f)
{
    size_t done = 0;
    struct pollfd p = {.fd = from, .events = POLLIN};
    while (done < sizeof *f) {
        int ready = poll(&p, 1, PATIENCE_MS);
        if (ready < 0 && errno == EINTR)
            continue;
        ssize_t n = ready > 0 ? read(from, (char *)f + done, sizeof *f - done) : 0;
        if (n <= 0)
            return false;
        done += (size_t)n;
    }
    f->text[sizeof f->text - 1] = 0;
    return true;
}

static void ask_in_child(const kc_probe *probe, kc_finding *f)
{
    int ends[2], status = 0;
    if (pipe2(ends, O_CLOEXEC) != 0) {
        kc_find(f, KC_BROKEN, "cannot make a pipe: %s", strerror(errno));
        return;
    }
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        answer(probe, ends[1]);
    close(ends[1]);
    bool answered = pid > 0 && read_answer(ends[0], f);
    close(ends[0]);
    if (pid < 0) {
        kc_find(f, KC_BROKEN, "cannot make a process: %s", strerror(errno));
        return;
    }
    int ended = waitpid(pid, &status, answered ? 0 : WNOHANG);
    if (!answered && ended == 0) {
        /* It closed the pipe a moment ago, or hangs. */
        usleep(100000);
        ended = waitpid(pid, &status, WNOHANG);
    }
    if (ended == 0) {
        kill(pid, SIGKILL);
        waitpid(pid, &status, 0);
        kc_find(f, KC_BROKEN, "no answer within %d s", PATIENCE_MS / 1000);
    } else if (WIFSIGNALED(status) && !answered) {
        kc_find(f, KC_BROKEN, "it crashed when asked: signal %d (%s)", WTERMSIG(status),
                strsignal(WTERMSIG(status)));
    } else if (!answered) {
        kc_find(f, KC_BROKEN, "it ended the process when asked");
    }
}

/* ---- telling ---------------------------------------------------------------------------------------- */

typedef struct answers {
    const kc_finding *findings;
    bool works;
} answers;

static void put_answers(kb_json *j, const void *what)
{
    const answers *a = what;
    kb_json_object_begin(j);
    kb_json_put_string(j, "version", kb_string(kineto_version()));
    kb_json_put_bool(j, "recording_works", a->works);
    kb_json_key_z(j, "probes");
    kb_json_array_begin(j);
    for (size_t i = 0; i < kc_probe_count; i++) {
        const kc_finding *f = &a->findings[i];
        kb_json_object_begin(j);
        kb_json_put_string(j, "name", kb_string(kc_probes[i].name));
        kb_json_put_string(j, "verdict",
                           kb_string(verdict_names[f->verdict % KB_COUNT(verdict_names)]));
        kb_json_put_bool(j, "needed", kc_probes[i].needed);
        kb_json_put_string(j, "text", kb_string(f->text));
        kb_json_object_end(j);
    }
    kb_json_array_end(j);
    kb_json_object_end(j);
}

/* The command without the files that are installed with it records few programs. */
static void print_conclusion(bool works)
{
    char path[PATH_MAX];
    if (!works)
        puts("\nRecording does not work here: see what is broken above.");
    else if (kc_find_rt(path, sizeof path))
        puts("\nRecording works. Next: ckineto record -o trace.json -- PROGRAM ARGS");
    else
        puts("\nOnly programs that are linked with ckineto can be recorded: its libraries and plug-ins were\n"
             "not found, neither in ../lib (from the directory of the command) nor in " CKINETO_LIBDIR ".\n"
             "To install them: ckineto's package, its tarball or 'make install' (docs/how-to/install.md).");
}

static void print_text(const kc_finding *findings, bool works)
{
    for (size_t i = 0; i < kc_probe_count; i++) {
        printf("%-7s %-15s ", verdict_names[findings[i].verdict % KB_COUNT(verdict_names)],
               kc_probes[i].name);
        kc_put_name(stdout, kb_string(findings[i].text), 0);
        putchar('\n');
    }
    print_conclusion(works);
}

int kc_doctor(int argc, char **argv)
{
    int operands;
    kineto_status status = kc_parse(&options, argc, argv, &operands);
    if (status == KINETO_E_NOT_FOUND)
        return kc_finish_stdout("doctor", 0);
    if (status == KINETO_OK && operands)
        status = kc_usage_error("doctor", "no operand is needed, not '%s'", argv[1]);
    if (status)
        return KC_EXIT_USAGE;
    kc_finding *findings = calloc(kc_probe_count, sizeof *findings);
    bool works = findings != NULL;
    for (size_t i = 0; i < kc_probe_count && findings; i++) {
        if (kc_probes[i].in_child)
            ask_in_child(&kc_probes[i], &findings[i]);
        else
            kc_probes[i].ask(&findings[i]);
        works = works && !(kc_probes[i].needed && findings[i].verdict == KC_BROKEN);
    }
    answers all = {findings, works};
    kineto_error err = {0};
    if (findings && as_json)
        status = kc_put_json(put_answers, &all, &err);
    else if (findings)
        print_text(findings, works);
    if (status)
        kc_complain_of("doctor", &err);
    free(findings);
    return kc_finish_stdout("doctor", works && !status ? 0 : KC_EXIT_FAILURE);
}
