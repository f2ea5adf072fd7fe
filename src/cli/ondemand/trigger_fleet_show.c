/* The report of a trigger on many hosts: problems on stderr, files on stdout, or all of it as JSON.
 * Problems of hosts are reported once, those of processes one line each. */
#include "cli/ondemand/trigger_fleet.h"

/* Clocks that differ by less do not shift windows noticeably. */
#define CLOCK_LIMIT_NS INT64_C(50000000)

size_t kc_host_count(const kc_host *host, kc_target_state state)
{
    size_t n = 0;
    for (size_t i = 0; i < host->processes.count; i++)
        n += host->processes.data[i].state == state;
    return n;
}

void kc_fleet_show_limits(const kc_fleet *fleet)
{
    for (size_t i = 0; i < fleet->hosts.count; i++)
        if (fleet->hosts.data[i].over_limit)
            kc_show_message(
                "%s: more than %llu processes match: the others get no request (--limit)",
                fleet->hosts.data[i].name, (unsigned long long)fleet->request->limit);
}

/* The uncertainty of the measurement is subtracted, so that only certain differences are reported.
 */
void kc_fleet_show_clocks(const kc_fleet *fleet)
{
    for (size_t i = 0; i < fleet->hosts.count; i++) {
        const kc_host *h = &fleet->hosts.data[i];
        int64_t apart_ns = (h->clock_ns < 0 ? -h->clock_ns : h->clock_ns) - h->clock_doubt_ns;
        if (h->clock_known && apart_ns > CLOCK_LIMIT_NS)
            kc_show_message(
                "%s: its clock is %.3f s %s ours: its windows will be shifted by as much", h->name,
                (double)(h->clock_ns < 0 ? -h->clock_ns : h->clock_ns) / 1e9,
                h->clock_ns < 0 ? "behind" : "ahead of");
    }
}

/* Without --wait, a process that has the request is done. */
static bool is_process_done(const kc_fleet *fleet, const kc_remote *p)
{
    return fleet->request->has_wait ? p->state == KC_DONE
                                    : p->state >= KC_ASKED && p->state < KC_FAILED;
}

/* The path on stdout, or the problem on stderr. */
static void print_remote_process(const kc_fleet *fleet, const kc_host *h, const kc_remote *p)
{
    char path[KO_REQUEST_PATH_BYTES] = "";
    (void)kc_path_with_pid(h->path, (uint32_t)p->pid, path);
    if (p->state == KC_FAILED)
        kc_show_message("%s, process %d: %s", h->name, p->pid, p->why);
    else if (!is_process_done(fleet, p))
        kc_show_message("%s, process %d: '%s' is not visible from here: does this host share its "
                        "directory?",
                        h->name, p->pid, path);
    else if (fleet->hosts.count > 1)
        kc_print(stdout, "%s:%s%s%s\n", h->name, path, fleet->request->has_wait ? "\t" : "",
                 fleet->request->has_wait ? kb_bytes(p->bytes).s : "");
    else
        kc_print(stdout, "%s%s%s\n", path, fleet->request->has_wait ? "\t" : "",
                 fleet->request->has_wait ? kb_bytes(p->bytes).s : "");
}

/* Why a host has no processes, or each of its processes. */
static void print_host_report(const kc_fleet *fleet, const kc_host *h)
{
    if (!h->reached)
        kc_show_message("%s was not reached: %s", h->name, h->error.message);
    else if (!h->processes.count)
        kc_show_message("%s: no process matches", h->name);
    for (size_t i = 0; h->reached && i < h->processes.count; i++)
        print_remote_process(fleet, h, &h->processes.data[i]);
}

/* Paths are those of the request; the files need not be visible here. */
static void put_host(kb_json *j, const kc_fleet *fleet, const kc_host *h)
{
    char path[KO_REQUEST_PATH_BYTES] = "";
    kb_json_object_begin(j);
    kb_json_put_string(j, "host", kb_string(h->name));
    kb_json_put_string(j, "error", kb_string(h->reached ? "" : h->error.message));
    if (h->clock_known)
        kb_json_put_int(j, "clock_ahead_ns", h->clock_ns);
    kb_json_key_z(j, "processes");
    kb_json_array_begin(j);
    for (size_t i = 0; h->reached && i < h->processes.count; i++) {
        const kc_remote *p = &h->processes.data[i];
        (void)kc_path_with_pid(h->path, (uint32_t)p->pid, path);
        kb_json_object_begin(j);
        kb_json_put_int(j, "pid", p->pid);
        kb_json_put_string(j, "via", kb_string("daemon"));
        kb_json_put_string(j, "state", kb_string(kc_target_state_name(p->state)));
        kb_json_put_string(j, "file", kb_string(path));
        kb_json_put_uint(j, "bytes", p->bytes);
        kb_json_put_string(j, "error",
                           kb_string(p->state == KC_FAILED ? p->why
                                     : is_process_done(fleet, p)
                                         ? ""
                                         : "its trace is not visible from here"));
        kb_json_object_end(j);
    }
    kb_json_array_end(j);
    kb_json_object_end(j);
}

/* The result as JSON; keys are an interface. */
static void put_fleet(kb_json *j, const void *what)
{
    const kc_fleet *fleet = what;
    kb_json_document_begin(j, "ckineto.trigger_hosts/1");
    kb_json_put_int(j, "start_time_ns", fleet->start_ns);
    kb_json_key_z(j, "hosts");
    kb_json_array_begin(j);
    for (size_t i = 0; i < fleet->hosts.count; i++)
        put_host(j, fleet, &fleet->hosts.data[i]);
    kb_json_array_end(j);
    kb_json_object_end(j);
}

/* A host that was named and has no matching process is a failure, too. */
static bool is_fleet_done(const kc_fleet *fleet)
{
    for (size_t i = 0; i < fleet->hosts.count; i++) {
        const kc_host *h = &fleet->hosts.data[i];
        if (!h->reached || !h->processes.count)
            return false;
        for (size_t k = 0; k < h->processes.count; k++)
            if (!is_process_done(fleet, &h->processes.data[k]))
                return false;
    }
    return fleet->hosts.count > 0;
}

/* @return 0 only if every host and every process is done. */
int kc_fleet_show(const kc_fleet *fleet, bool interrupted)
{
    kineto_error err;
    bool well = is_fleet_done(fleet);
    if (interrupted)
        kc_show_message("interrupted: requests that were sent continue");
    if (fleet->request->json && kc_put_json(put_fleet, fleet, &err)) {
        kc_complain_of("trigger", &err);
        well = false;
    }
    if (!fleet->request->json)
        for (size_t i = 0; i < fleet->hosts.count; i++)
            print_host_report(fleet, &fleet->hosts.data[i]);
    return kc_finish_stdout("trigger", well ? 0 : KC_EXIT_FAILURE);
}
