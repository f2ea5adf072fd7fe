/* ckineto ps: the processes that can be traced, in which way, and their states. The list is made by
 * ondemand/traceable.c from control sockets of this machine and from the list of a daemon. */
#include "cli/cli.h"
#include "cli/ondemand/timeouts.h"
#include "cli/ondemand/traceable.h"
#include "cli/style.h"

#include <pwd.h>

/* Three polling periods. */
#define SILENT_MS 15000u

static const char *host, *token_file;
static const kc_option option_list[] = {
    {"host", 'H', KC_TEXT, &host, "HOST[:PORT]",
     "query this daemon, ckineto's or Dynolog's (127.0.0.1:1778)"},
    {"token-file", 't', KC_TEXT, &token_file, "FILE", "the secret that the daemon requires"},
    KC_JSON_OPTION,
    KC_COLOR_OPTION,
};
static const kc_options options = {
    "ps",
    "[options]",
    "List the processes that can be traced now: those with a control socket of their own on\n"
    "this machine, and those that poll a daemon.",
    "ckineto ps\n"
    "ckineto ps --host node7",
    option_list,
    KB_COUNT(option_list),
    false,
};

/* How requests reach the process. */
static const char *get_via(const kc_process *p)
{
    if (p->is_recorder)
        return "recorder";
    if (p->has_socket && p->has_daemon)
        return "both";
    return p->has_socket ? "socket" : "daemon";
}

/* The state that the process reports, or what is known from its polling. */
static const char *get_state(const kc_process *p)
{
    if (p->answers)
        return p->state;
    if (p->has_socket && !p->has_daemon)
        return "no answer";
    if (p->waits)
        return "request waits";
    return p->seen_ms_ago > SILENT_MS ? "silent" : "asks";
}

/* ---- text ------------------------------------------------------------------------------------ */

/* The name of the user, or the number if the name is not known here (containers). */
static void print_user(uint32_t user)
{
    const struct passwd *entry = getpwuid(user);
    char number[16];
    snprintf(number, sizeof number, "%u", user);
    kc_put_name(stdout, kb_string(entry ? entry->pw_name : number), 10);
}

static void print_number_or_dash(bool there, int64_t number, int columns)
{
    if (there)
        printf(" %*lld", columns, (long long)number);
    else
        printf(" %*s", columns, "-");
}

/* One row of the table; unknown numbers are dashes. */
static void print_process_row(const kc_process *p)
{
    printf("%8lld ", (long long)p->pid);
    print_user(p->user);
    putchar(' ');
    kc_put_name(stdout, kb_string(*p->name ? p->name : "-"), 26);
    printf(" %-9s %-13s", get_via(p), get_state(p));
    print_number_or_dash(p->iteration >= 0, p->iteration, 9);
    print_number_or_dash(p->has_daemon, p->job, 9);
    printf("  %s\n", p->answers ? p->ring ? "on" : "off" : "-");
}

/* Texts of a daemon may contain anything. */
static void print_untrusted(const char *text) { kc_put_name(stdout, kb_string(text), 0); }

/* What the daemon is, or why it gave no list. */
static void print_daemon_line(const kc_traceable *r)
{
    kineto_status code = r->daemon_error.code;
    bool cannot_list = code == KINETO_E_UNSUPPORTED && r->version[0];
    if (r->version[0]) {
        printf("The daemon at %s is ", r->daemon);
        print_untrusted(r->version);
        puts(cannot_list ? ", which does not list its processes." : ".");
    }
    if (code == KINETO_E_NOT_FOUND) {
        printf("No daemon listens at %s.\n", r->daemon);
    } else if (code && !cannot_list) {
        fputs("No list from a daemon: ", stdout);
        print_untrusted(r->daemon_error.message);
        putchar('\n');
    }
}

/* How to make a process traceable. */
static void print_advice(void)
{
    fputs("No process can be traced. To make one traceable, start it\n"
          "  with KINETO_USE_DAEMON=1, and run 'ckineto daemon' (stock PyTorch, and ckineto), or\n"
          "  with CKINETO_CONTROL=socket (programs with ckineto), or\n"
          "  by 'ckineto record --on-demand -- PROGRAM' (any program).\n"
          "Processes of other users, other containers and other network namespaces are not\n"
          "visible.\n",
          stdout);
}

/* Processes in which another profiler answers the daemon. */
static void print_daemon_clients(const kc_traceable *r)
{
    for (size_t i = 0; i < r->processes.count; i++) {
        const kc_process *p = &r->processes.data[i];
        if (!p->daemon_client[0])
            continue;
        printf("Requests of a daemon to process %lld are answered by ", (long long)p->pid);
        print_untrusted(p->daemon_client);
        puts(".");
    }
}

/* The command that requests a trace of the first process that answers; of a ring, what it has. */
static void print_next_trigger(const kc_traceable *r)
{
    for (size_t i = 0; i < r->processes.count; i++) {
        const kc_process *p = &r->processes.data[i];
        bool is_silent = p->has_daemon && !p->waits && p->seen_ms_ago > SILENT_MS;
        if (!p->answers && (!p->has_daemon || is_silent))
            continue;
        fputs("next: ckineto trigger ", stdout);
        if (host && !p->answers) {
            fputs("--host ", stdout);
            print_untrusted(host);
            putchar(' ');
        }
        printf("--pid %lld %s --wait\n", (long long)p->pid, p->ring ? "--dump" : "--duration-ms 500");
        return;
    }
}

/* The table, then remarks about daemons, and advice if no process was found. */
static void print_process_table(const kc_traceable *r)
{
    if (r->processes.count) {
        kc_put_styled(stdout, KC_BOLD, "%8s %-10s %-26s %-9s %-13s %9s %9s  %s", "PID", "USER", "NAME", "VIA", "STATE",
                      "ITERATION", "JOB", "RING");
        putchar('\n');
    }
    for (size_t i = 0; i < r->processes.count; i++)
        print_process_row(&r->processes.data[i]);
    print_daemon_clients(r);
    print_daemon_line(r);
    if (!r->processes.count)
        print_advice();
    print_next_trigger(r);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

/* null without a control socket; without a reply only "answers". */
static void put_socket_status(kb_json *j, const kc_process *p)
{
    kb_json_key_z(j, "socket");
    if (!p->has_socket) {
        kb_json_null(j);
        return;
    }
    kb_json_object_begin(j);
    kb_json_put_bool(j, "answers", p->answers);
    if (p->answers) {
        kb_json_put_string(j, "host", kb_string(p->is_recorder ? "recorder" : "process"));
        kb_json_key_z(j, "iteration");
        if (p->iteration >= 0)
            kb_json_int(j, p->iteration);
        else
            kb_json_null(j);
        kb_json_put_bool(j, "ring", p->ring);
        kb_json_put_uint(j, "traces", p->traces);
        if (p->daemon_client[0])
            kb_json_put_string(j, "daemon_client", kb_string(p->daemon_client));
    }
    kb_json_object_end(j);
}

/* null if the daemon does not know the process. */
static void put_daemon_status(kb_json *j, const kc_process *p)
{
    kb_json_key_z(j, "daemon");
    if (!p->has_daemon) {
        kb_json_null(j);
        return;
    }
    kb_json_object_begin(j);
    kb_json_put_int(j, "job_id", p->job);
    kb_json_put_uint(j, "seen_ms_ago", p->seen_ms_ago);
    kb_json_put_bool(j, "waits", p->waits);
    kb_json_object_end(j);
}

/* All that is known of one process; `pids` are those that the daemon lists for it. */
static void put_process_status(kb_json *j, const kc_process *p)
{
    kb_json_object_begin(j);
    kb_json_put_int(j, "pid", p->pid);
    kb_json_put_uint(j, "user", p->user);
    kb_json_put_string(j, "name", kb_string(p->name));
    kb_json_put_string(j, "via", kb_string(get_via(p)));
    kb_json_put_string(j, "state", kb_string(get_state(p)));
    kb_json_key_z(j, "pids");
    kb_json_array_begin(j);
    for (uint32_t i = 0; i < p->pid_count; i++)
        kb_json_int(j, p->pids[i]);
    kb_json_array_end(j);
    put_socket_status(j, p);
    put_daemon_status(j, p);
    kb_json_object_end(j);
}

static void put_process_list(kb_json *j, const void *what)
{
    const kc_traceable *r = what;
    kb_json_document_begin(j, "ckineto.ps/1");
    kb_json_key_z(j, "daemon");
    kb_json_object_begin(j);
    kb_json_put_string(j, "address", kb_string(r->daemon));
    kb_json_put_bool(j, "answers", r->version[0] != '\0');
    kb_json_put_bool(j, "lists", r->daemon_error.code == KINETO_OK);
    kb_json_put_string(j, "version", kb_string(r->version));
    kb_json_put_string(j, "error", kb_string(r->daemon_error.code ? r->daemon_error.message : ""));
    kb_json_object_end(j);
    kb_json_newline(j);
    kb_json_key_z(j, "processes");
    kb_json_array_begin(j);
    for (size_t i = 0; i < r->processes.count; i++) {
        kb_json_newline(j);
        put_process_status(j, &r->processes.data[i]);
    }
    kb_json_array_end(j);
    kb_json_object_end(j);
}

/* ---- the verb -------------------------------------------------------------------------------- */

/* The address and the token of the daemon. A mistake is reported. */
static kineto_status parse_daemon_options(ko_rpc_daemon *out)
{
    static char token[KO_RPC_TOKEN_BYTES];
    kineto_error err;
    *out = (ko_rpc_daemon){.limit_ms = KC_PS_DAEMON_TIMEOUT_MS};
    if (host && ko_rpc_parse_address(host, out, &err))
        return kc_usage_error("ps", "--host: %s", err.message);
    out->token = token_file ? token : NULL;
    return kc_read_token("ps", token_file, token);
}

/* Control sockets exist only on this machine; a remote daemon is asked alone. */
static kineto_status find_processes(kc_traceable *r, const ko_rpc_daemon *daemon, kineto_error *err)
{
    bool is_here = kc_is_local_host(daemon->host);
    kineto_status status = is_here ? kc_traceable_add_sockets(r, err) : KINETO_OK;
    return status == KINETO_OK ? kc_traceable_add_daemon(r, daemon, is_here, err) : status;
}

/* An empty list is a result. A daemon that was named with --host and did not answer is an error. */
static kineto_status show_processes(const kc_traceable *r, kineto_error *err)
{
    bool is_missing = host && !r->version[0];
    kineto_status status = kc_json_path ? kc_put_json(put_process_list, r, err) : KINETO_OK;
    if (!kc_json_path && (r->processes.count || !is_missing))
        print_process_table(r);
    if (status == KINETO_OK && is_missing) {
        *err = r->daemon_error;
        status = err->code;
    }
    return status;
}

/* An empty list is a success; a daemon that was named and does not answer is not. */
int kc_ps(int argc, char **argv)
{
    int operands;
    kc_traceable all = {.version = ""};
    ko_rpc_daemon daemon;
    kineto_error err = {0};
    kineto_status status = kc_parse_options(&options, argc, argv, &operands);
    if (status == KINETO_E_NOT_FOUND)
        return kc_finish_stdout("ps", 0);
    if (status == KINETO_OK && operands)
        status = kc_usage_error("ps", "unexpected operand '%s'", argv[1]);
    if (status == KINETO_OK)
        status = parse_daemon_options(&daemon);
    if (status)
        return KC_EXIT_USAGE;
    status = find_processes(&all, &daemon, &err);
    if (status == KINETO_OK)
        status = show_processes(&all, &err);
    if (status)
        kc_complain_of("ps", &err);
    kc_traceable_free(&all);
    return kc_finish_stdout("ps", status ? KC_EXIT_FAILURE : 0);
}
