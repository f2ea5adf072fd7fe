/* Checking the traces that a trigger has received. A trace without activities is a failure: a
 * process that is still importing PyTorch answers with libkineto's empty trace, and a later request
 * to it works. */
#include "cli/ondemand/trigger.h"
#include "cli/summary/summary.h"
#include "export/export.h"
#include "session/session.h"

#include <unistd.h>

#define YOUNG_S 30.0 /* seconds in which a program may still be importing PyTorch */

/* Only Chrome traces can be opened; other formats are written only. */
static bool is_format_readable(const kc_request *request, const char *path)
{
    kb_compression compression;
    bool needs_file;
    const char *format = ke_format_by_ending(path, &compression, &needs_file);
    return !kc_is_snapshot(request) && format && strcmp(format, "chrome") == 0;
}

static bool is_target_young(const kc_target *t) { return t->born && kc_age_s(t->born) < YOUNG_S; }

/* The process lives, and --retry allows another request. */
static bool can_retry(const kc_trigger_run *run, const kc_target *t)
{
    return !run->request->dump && t->tries < run->request->retry &&
           (!t->born || kb_os_alive(t->pid, t->born));
}

/* Back to FOUND: the target gets another request, which begins at once. */
static void retry_target(const kc_trigger_run *run, kc_target *t)
{
    uint64_t window_ns = kc_request_length_ns(run->request) +
                         (uint64_t)kc_request_lead_ns(run->request, t->via != KC_VIA_SOCKET) +
                         KC_RETURN_NS;
    KB_ASSERT(t->state == KC_DONE && t->tries < run->request->retry);
    t->tries++;
    kc_show_message(
        "%u%s%s: its trace has no activities%s; trying again (%u of %llu, --retry)", t->pid,
        t->name[0] ? " " : "", t->name,
        is_target_young(t) ? ": it has just started, and may have been loading libraries" : "",
        t->tries, (unsigned long long)run->request->retry);
    (void)unlink(t->path); /* else it would be mistaken for the next trace */
    t->state = KC_FOUND;
    t->busy_ns = t->idle_ns = t->bytes = 0;
    t->asked_path[0] = t->wanted[0] = 0;
    if (!run->request->wait_ns)
        t->more_ns += window_ns;
}

/* @param unrecorded its ledger names processes that could not be recorded. */
static void fail_empty_trace(const kc_trigger_run *run, kc_target *t, bool unrecorded)
{
    const char *why =
        "the program had no activities of these kinds in the window (--duration-ms, -a)";
    if (run->request->dump)
        why = "the ring has none of this time";
    else if (unrecorded)
        why = "its ledger names the processes that could not be recorded ('ckineto info')";
    else if (is_target_young(t))
        why = "it has just started, and may still have been loading libraries: try again later, or "
              "with --retry";
    else if (t->via != KC_VIA_SOCKET)
        why =
            "nothing ran in the window, or its profiler was not ready: try again, or with a longer "
            "--duration-ms";
    kc_target_fail(t, "its trace '%s' has no activities: %s", t->path, why);
}

/* A snapshot of memory, or a format that cannot be read, is not checked. */
void kc_trace_check(const kc_trigger_run *run, kc_target *t)
{
    kineto_trace *trace = NULL;
    kineto_error err;
    KB_ASSERT(t->state == KC_DONE);
    if (!is_format_readable(run->request, t->path))
        return;
    if (kineto_trace_open(t->path, &trace, &err) != KINETO_OK) {
        kc_target_fail(t, "its trace cannot be read: %s", err.message);
        return;
    }
    t->activities = kineto_trace_count(trace);
    if (run->request->dump)
        kc_ring_print(trace, "ckineto: the ring: ", stderr);
    bool unrecorded = ks_children_has_unrecorded(trace);
    kineto_trace_release(trace);
    if (t->activities)
        return;
    if (can_retry(run, t))
        retry_target(run, t);
    else
        fail_empty_trace(run, t, unrecorded);
}
