/* ckineto doctor: what can be recorded on this machine. Probes that run foreign code (drivers,
 * plug-ins) run in a child process with a time limit, so that a crash or a hang is a verdict. */
#include "cli/page.h"
#include "cli/cli.h"
#include "cli/install_paths.h"
#include "cli/doctor_probes.h"
#include "cli/style.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

/* Of one probe: loading the driver of a device may take seconds. */
#define PROBE_TIMEOUT_MS 30000

static const kc_option option_list[] = {
    KC_JSON_OPTION,
    KC_COLOR_OPTION,
};
static const kc_options options = {
    "doctor",
    "[options]",
    "Show what can be recorded on this machine, with a reason where it cannot. The exit\n"
    "status is 1 if something that every recording needs is broken.",
    "ckineto doctor",
    option_list,
    KB_COUNT(option_list),
    false};

static const char *const verdict_names[] = {"ok", "absent", "broken", "note"};
static const kc_style verdict_styles[] = {KC_GREEN, KC_DIM, KC_RED, KC_YELLOW};

/* ---- probes in a child ----------------------------------------------------------------------- */

/* Only this process sees messages of drivers: its streams go to /dev/null. The result is written as
 * a whole struct. */
static _Noreturn void run_probe_in_child(const kc_probe *probe, int to)
{
    kc_probe_result f = {KC_PROBE_BROKEN, ""};
    int null = open("/dev/null", O_WRONLY);
    if (null >= 0) { /* drivers print messages */
        dup2(null, STDOUT_FILENO);
        dup2(null, STDERR_FILENO);
    }
    probe->run(&f);
    ssize_t n = kb_os_write_quiet(to, &f, sizeof f);
    _exit(n == (ssize_t)sizeof f ? 0 : 1);
}

/* False: the child ended, or the time was over, before the result was complete. */
static bool read_probe_result(int from, kc_probe_result *f)
{
    size_t done = 0;
    struct pollfd p = {.fd = from, .events = POLLIN};
    while (done < sizeof *f) {
        int ready = poll(&p, 1, PROBE_TIMEOUT_MS);
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

/* Run the probe in a child; store how the child ended if it sent no result. */
static void run_isolated_probe(const kc_probe *probe, kc_probe_result *f)
{
    int ends[2], status = 0;
    if (pipe2(ends, O_CLOEXEC) != 0) {
        kc_probe_answer(f, KC_PROBE_BROKEN, "cannot make a pipe: %s", strerror(errno));
        return;
    }
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        run_probe_in_child(probe, ends[1]);
    close(ends[1]);
    bool answered = pid > 0 && read_probe_result(ends[0], f);
    close(ends[0]);
    if (pid < 0) {
        kc_probe_answer(f, KC_PROBE_BROKEN, "cannot make a process: %s", strerror(errno));
        return;
    }
    int ended = waitpid(pid, &status, answered ? 0 : WNOHANG);
    if (!answered && ended == 0) {
        /* It has just closed the pipe and is about to end, or it hangs. */
        usleep(100000);
        ended = waitpid(pid, &status, WNOHANG);
    }
    if (ended == 0) {
        kill(pid, SIGKILL);
        waitpid(pid, &status, 0);
        kc_probe_answer(f, KC_PROBE_BROKEN, "no answer within %d s", PROBE_TIMEOUT_MS / 1000);
    } else if (WIFSIGNALED(status) && !answered) {
        kc_probe_answer(f, KC_PROBE_BROKEN, "the probe crashed: signal %d (%s)", WTERMSIG(status),
                        strsignal(WTERMSIG(status)));
    } else if (!answered) {
        kc_probe_answer(f, KC_PROBE_BROKEN, "the probe ended its process");
    }
}

/* ---- output ---------------------------------------------------------------------------------- */

/* Results in the order of kc_probes, and whether all needed ones are usable. */
typedef struct doctor_report {
    const kc_probe_result *findings;
    bool works;
} doctor_report;

/* Keys are an interface; verdicts are the words of the text. */
static void put_doctor_report(kb_json *j, const void *what)
{
    const doctor_report *a = what;
    kb_json_document_begin(j, "ckineto.doctor/1");
    kb_json_put_string(j, "version", kb_string(kineto_version()));
    kb_json_put_bool(j, "recording_works", a->works);
    kb_json_key_z(j, "probes");
    kb_json_array_begin(j);
    for (size_t i = 0; i < kc_probe_count; i++) {
        const kc_probe_result *f = &a->findings[i];
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

static FILE *page; /* the text, which is wrapped when it is complete */

static void print_conclusion_line(kc_style style, const char *verdict, const char *more)
{
    fputc('\n', page);
    kc_put_styled(page, style, "%s", verdict);
    fprintf(page, "%s\n", more);
}

/* Without the files that are installed with it, the command can record few programs. */
static void print_doctor_conclusion(bool works)
{
    char path[PATH_MAX];
    if (!works)
        print_conclusion_line(KC_RED, "Recording does not work here; see the broken probes above.", "");
    else if (kc_find_rt(path, sizeof path))
        print_conclusion_line(KC_GREEN, "Recording works.", " Next: ckineto record -o trace.json -- PROGRAM ARGS");
    else
        fprintf(page, "%s\n", "\nOnly programs that are linked with ckineto can be recorded: its libraries and "
             "plug-ins were\n"
             "not found, neither in ../lib (from the directory of the command) nor "
             "in " CKINETO_LIBDIR ".\n"
             "To install them: ckineto's package, its tarball or 'make install' "
             "(docs/how-to/install.md).");
}

/* A line for each probe, then the conclusion. */
static void print_probe_results(const kc_probe_result *findings, bool works)
{
    kc_page whole;
    page = kc_page_begin(&whole, stdout);
    for (size_t i = 0; i < kc_probe_count; i++) {
        size_t verdict = findings[i].verdict % KB_COUNT(verdict_names);
        kc_put_styled(page, verdict_styles[verdict], "%-7s", verdict_names[verdict]);
        fprintf(page, " %-15s ", kc_probes[i].name);
        kc_put_name(page, kb_string(findings[i].text), 0);
        fputc('\n', page);
    }
    print_doctor_conclusion(works);
    kc_page_end(&whole);
}

/* Probes run in the order of the table. Recording works unless a needed probe is broken. */
int kc_doctor(int argc, char **argv)
{
    int operands;
    kineto_status status = kc_parse_options(&options, argc, argv, &operands);
    if (status == KINETO_E_NOT_FOUND)
        return kc_finish_stdout("doctor", 0);
    if (status == KINETO_OK && operands)
        status = kc_usage_error("doctor", "unexpected operand '%s'", argv[1]);
    if (status)
        return KC_EXIT_USAGE;
    kc_probe_result *findings = calloc(kc_probe_count, sizeof *findings);
    bool works = findings != NULL;
    for (size_t i = 0; i < kc_probe_count && findings; i++) {
        if (kc_probes[i].in_child)
            run_isolated_probe(&kc_probes[i], &findings[i]);
        else
            kc_probes[i].run(&findings[i]);
        works = works && !(kc_probes[i].needed && findings[i].verdict == KC_PROBE_BROKEN);
    }
    doctor_report all = {findings, works};
    kineto_error err = {0};
    if (findings && kc_json_path)
        status = kc_put_json(put_doctor_report, &all, &err);
    else if (findings)
        print_probe_results(findings, works);
    if (status)
        kc_complain_of("doctor", &err);
    free(findings);
    return kc_finish_stdout("doctor", works && !status ? 0 : KC_EXIT_FAILURE);
}
