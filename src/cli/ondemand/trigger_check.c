/* What is in the traces that a trigger has brought. A trace without activities is a failure: a process that
 * is asked while it still loads PyTorch gives libkineto's answer of nothing, and a later request works. */
#include "cli/ondemand/trigger.h"
#include "export/export.h"
#include "session/session.h"

#include <unistd.h>

#define YOUNG_S 30.0 /* a program that imports PyTorch on a busy machine */

/* Formats that we only write are not opened. */
static bool is_readable(const kc_request *request, const char *path)
{
    kb_compression compression;
    bool needs_file;
    const char *format = ke_format_of_ending(path, &compression, &needs_file);
    return !kc_is_snapshot(request) && format && strcmp(format, "chrome") == 0;
}

static bool is_young(const kc_target *t) { return t->born && kc_age_s(t->born) < YOUNG_S; }

static bool asks_again(const kc_trigger_run *run, const kc_target *t)
{
    return !run->request->dump && t->tries < run->request->retry &&
           (!t->born || kb_os_alive(t->pid, t->born));
}

static void ask_again(const kc_trigger_run *run, kc_target *t)
{
    uint64_t window_ns = kc_request_length_ns(run->request) +
                         (uint64_t)kc_request_lead_ns(run->request, t->via != KC_VIA_SOCKET) + KC_RETURN_NS;
    t->tries++;
    kc_show_message("%u%s%s: its trace has no activities%s; asking again (%u of %llu, --retry)", t->pid,
                 t->name[0] ? " " : "", t->name,
                 is_young(t) ? ": it has just begun, and may have been loading libraries" : "",
                 t->tries, (unsigned long long)run->request->retry);
    (void)unlink(t->path); /* or it would be taken for the next answer */
    t->state = KC_FOUND;
    t->busy_ns = t->idle_ns = t->bytes = 0;
    t->asked_path[0] = t->wanted[0] = 0;
    if (!run->request->wait_ns)
        t->more_ns += window_ns;
}

static void fail_empty(const kc_trigger_run *run, kc_target *t, bool could_not)
{
    const char *why = "the program did nothing of these kinds in the window (--duration-ms, -a)";
    if (run->request->dump)
        why = "the ring holds none of this time";
    else if (could_not)
        why = "its ledger names the processes that could not be recorded ('ckineto info')";
    else if (is_young(t))
        why = "it has just begun, and may still have been loading libraries: ask again later, or with "
              "--retry";
    else if (t->via != KC_VIA_SOCKET)
        why = "nothing ran in the window, or its profiler was not ready: ask again, or with a longer "
              "--duration-ms";
    kc_target_fail(t, "its trace '%s' has no activities: %s", t->path, why);
}

void kc_trace_check(const kc_trigger_run *run, kc_target *t)
{
    kineto_trace *trace = NULL;
    kineto_error err;
    if (!is_readable(run->request, t->path))
        return;
    if (kineto_trace_open(t->path, &trace, &err) != KINETO_OK) {
        kc_target_fail(t, "its trace cannot be read: %s", err.message);
        return;
    }
    t->activities = kineto_trace_count(trace);
    bool could_not = ks_children_could_not(trace);
    kineto_trace_release(trace);
    if (t->activities)
        return;
    if (asks_again(run, t))
        ask_again(run, t);
    else
        fail_empty(run, t, could_not);
}
