/* The output of a trigger: progress on stderr, files on stdout, or all of it as JSON. On a terminal
 * the progress is one line that is overwritten; otherwise each change of a state is a line, which
 * scripts can read. */
#include "cli/ondemand/trigger.h"

#include <time.h>
#include <unistd.h>

#define DRAW_PERIOD_NS (KB_SECOND_NS / 10)

/* The line of a terminal that shows the progress and is overwritten. */
static struct {
    bool allowed, shown;
    uint64_t drawn_ns;
} progress_line;

/* Before anything else is written to the terminal. */
static void clear_progress_line(void)
{
    if (progress_line.shown)
        fputs("\r\033[K", stderr);
    progress_line.shown = false;
}

/* The progress line is erased first. Texts may contain names of strangers. */
void kc_show_message(const char *fmt, ...)
{
    va_list args;
    char text[2048];
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    clear_progress_line();
    kc_put_message(stderr, "ckineto trigger: ", text);
}

void kc_show_begin(const kc_trigger_run *run)
{
    double until_s = (double)(run->start_ns - (int64_t)kb_clock_ns(CLOCK_REALTIME)) / 1e9;
    progress_line.allowed = isatty(STDERR_FILENO) == 1;
    if (run->start_ns && (run->targets.count || run->endpoints.count))
        kc_show_message("start in %.1f s", until_s);
}

/* ---- progress -------------------------------------------------------------------------------- */

/* Without --wait, DONE means that the request was sent. */
static const char *choose_state_name(const kc_trigger_run *run, const kc_target *t)
{
    bool only_asked = t->state == KC_DONE && !run->request->has_wait && !run->request->cancel;
    bool at_daemon = t->via == KC_VIA_DAEMON;
    return kc_target_state_name(only_asked ? at_daemon ? KC_ASKED : KC_TAKEN : t->state);
}

/* "PID NAME STATE"; names come from processes, and are escaped. */
static void print_target_change(const kc_trigger_run *run, const kc_target *t)
{
    fprintf(stderr, "%u ", t->pid);
    kc_put_name(stderr, kb_string(t->name), 0);
    fprintf(stderr, "%s%s\n", t->name[0] ? " " : "", choose_state_name(run, t));
}

/* Without a terminal: a line for each state that has changed. */
static void print_target_changes(const kc_trigger_run *run)
{
    for (size_t i = 0; i < run->targets.count; i++) {
        kc_target *t = run->targets.data[i];
        if (t->shown == t->state && t->is_shown)
            continue;
        t->shown = t->state;
        t->is_shown = true;
        print_target_change(run, t);
    }
}

/* Number of targets in one state. */
static size_t count_targets_in(const kc_trigger_run *run, kc_target_state state)
{
    size_t n = 0;
    for (size_t i = 0; i < run->targets.count; i++)
        n += run->targets.data[i]->state == state;
    return n;
}

/* "[==== ] 2 collect, 1 done": filled by the sum of the states of all targets. */
static void format_progress_bar(const kc_trigger_run *run, char *out, size_t size)
{
    enum { COLUMNS = 20 };
    size_t all = KB_MAX(run->targets.count, (size_t)1) * KC_DONE, sum = 0;
    for (size_t i = 0; i < run->targets.count; i++)
        sum += KB_MIN(run->targets.data[i]->state, KC_DONE);
    size_t filled = sum * COLUMNS / all;
    int n = snprintf(out, size, "[%.*s%*s]", (int)filled,
                     "====================", (int)(COLUMNS - filled), "");
    const char *before = " ";
    for (int state = KC_FOUND; state <= KC_FAILED && n > 0 && (size_t)n < size; state++) {
        size_t count = count_targets_in(run, (kc_target_state)state);
        if (!count)
            continue;
        n += snprintf(out + n, size - (size_t)n, "%s%zu %s", before, count,
                      kc_target_state_name((kc_target_state)state));
        before = ", ";
    }
}

/* On a terminal: the bar and the time, in one line. */
static void draw_progress(const kc_trigger_run *run, uint64_t now_ns)
{
    char text[256] = "";
    int reported = (int)kc_terminal_columns(stderr), columns = reported ? reported : 80;
    format_progress_bar(run, text, sizeof text);
    size_t used = strlen(text);
    double start_s = (double)(run->start_ns - (int64_t)kb_clock_ns(CLOCK_REALTIME)) / 1e9;
    if (now_ns < run->discover_until_ns && !run->targets.count)
        snprintf(text + used, sizeof text - used, " waiting for processes to poll");
    else if (start_s > 0)
        snprintf(text + used, sizeof text - used, "; start in %.0f s", start_s);
    else
        snprintf(text + used, sizeof text - used, "; %.0f s",
                 (double)(now_ns - run->begun_ns) / 1e9);
    fprintf(stderr, "\r%.*s\033[K", columns - 1, text);
    fflush(stderr);
    progress_line.shown = true;
    progress_line.drawn_ns = now_ns;
}

/* With --json progress is shown on a terminal only. */
void kc_show_progress(const kc_trigger_run *run)
{
    uint64_t now_ns = kb_monotonic_ns();
    if (run->request->json && !progress_line.allowed)
        return;
    if (!progress_line.allowed)
        print_target_changes(run);
    else if (now_ns - progress_line.drawn_ns >= DRAW_PERIOD_NS)
        draw_progress(run, now_ns);
}

/* ---- the end --------------------------------------------------------------------------------- */

/* The path; with --wait its size and activities. */
static void print_target_file(const kc_trigger_run *run, const kc_target *t)
{
    if (run->request->cancel || t->state != KC_DONE)
        return;
    kc_put_name(stdout, kb_string(t->path), 0);
    if (run->request->has_wait)
        printf("\t%s", kb_bytes(t->bytes).s);
    if (t->activities != KC_NOT_GIVEN)
        printf("\t%s %s", kc_count(t->activities).s,
               kc_noun(t->activities, "activity", "activities"));
    putchar('\n');
}

/* What to type next, for traces that are complete. */
static void print_next(const kc_trigger_run *run)
{
    enum { MAX_PATHS = 4 };
    size_t count = count_targets_in(run, KC_DONE);
    if (!run->request->has_wait || run->request->cancel || !count || count > MAX_PATHS)
        return;
    fputs("next: ckineto", stderr);
    for (size_t i = 0; i < run->targets.count; i++)
        if (run->targets.data[i]->state == KC_DONE)
            kc_print(stderr, " %s", kc_command_word(run->targets.data[i]->path, SIZE_MAX));
    fputc('\n', stderr);
}

/* The words of the JSON output. */
static const char *get_via_name(kc_via via)
{
    KB_ASSERT(via <= KC_VIA_OWN);
    static const char *const words[] = {"", "control socket", "daemon", "dynolog socket"};
    return words[via];
}

/* Why a target is not DONE. */
static void print_target_reason(const kc_target *t)
{
    if (t->state == KC_FAILED)
        kc_show_message("%u%s%s: %s", t->pid, t->name[0] ? " " : "", t->name, t->why);
    else if (t->state != KC_DONE)
        kc_show_message("%u%s%s: %s; %s", t->pid, t->name[0] ? " " : "", t->name,
                        t->state == KC_FOUND ? "it got no request"
                                             : "it has the request and continues",
                        t->state == KC_FOUND ? "it is not affected" : t->path);
}

/* "error" is empty unless the target failed. */
static void put_target(kb_json *j, const kc_trigger_run *run, const kc_target *t)
{
    kb_json_object_begin(j);
    kb_json_put_uint(j, "pid", t->pid);
    kb_json_put_string(j, "name", kb_string(t->name));
    kb_json_put_string(j, "via", kb_string(get_via_name(t->via)));
    kb_json_put_string(j, "state", kb_string(choose_state_name(run, t)));
    kb_json_put_string(j, "file", kb_string(t->path));
    kb_json_put_uint(j, "bytes", t->bytes);
    if (t->activities != KC_NOT_GIVEN)
        kb_json_put_uint(j, "activities", t->activities);
    kb_json_put_string(j, "error", kb_string(t->state == KC_FAILED ? t->why : ""));
    kb_json_object_end(j);
}

/* The result as JSON; keys are an interface. */
static void put_run(kb_json *j, const void *what)
{
    const kc_trigger_run *run = what;
    kb_json_document_begin(j, "ckineto.trigger/1");
    kb_json_put_int(j, "start_time_ns", run->start_ns);
    kb_json_key_z(j, "processes");
    kb_json_array_begin(j);
    for (size_t i = 0; i < run->targets.count; i++)
        put_target(j, run, run->targets.data[i]);
    kb_json_array_end(j);
    kb_json_object_end(j);
}

/* Every target that is not DONE makes the exit status a failure. */
int kc_show_end(const kc_trigger_run *run, bool interrupted)
{
    int status = run->targets.count ? 0 : KC_EXIT_FAILURE;
    kineto_error err;
    clear_progress_line();
    for (size_t i = 0; i < run->targets.count; i++) {
        const kc_target *t = run->targets.data[i];
        if (t->state != KC_DONE)
            status = KC_EXIT_FAILURE;
        if (!run->request->json)
            print_target_file(run, t);
        if (!run->request->json || interrupted)
            print_target_reason(t);
    }
    if (!run->request->json)
        print_next(run);
    if (run->request->json && kc_put_json(put_run, run, &err)) {
        kc_complain_of("trigger", &err);
        status = KC_EXIT_FAILURE;
    }
    return kc_finish_stdout("trigger", status);
}
