/* The third way to reach processes: while no daemon runs, this command binds Dynolog's socket
 * itself and gives the request to every matching process at its first poll. */
#include "cli/ondemand/trigger.h"

#include <poll.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define BIND_RETRY_NS (KB_SECOND_NS / 4)
/* A process whose first poll was the last try of a long back-off reads the reply at its next
 * poll: the socket has to exist until then. */
#define NEXT_POLL_NS (KC_POLL_NS + KB_SECOND_NS)

/* ---- handing over ---------------------------------------------------------------------------- */

/* libkineto drops a request whose start is nearer than its warm-up. False: the target is FAILED. */
static bool has_time_to_start(const kc_trigger_run *run, kc_target *t)
{
    int64_t left_ns = kc_start_of(run, t) - (int64_t)kb_clock_ns(CLOCK_REALTIME);
    int64_t need_ns = kc_request_lead_ns(run->request, true) - (int64_t)(KC_POLL_NS + KC_SLACK_NS);
    if (!kc_start_of(run, t) || left_ns >= need_ns)
        return true;
    kc_target_fail(
        t, "it missed the start: it polled %.1f s before the start and needs %.1f s to prepare",
        (double)left_ns / 1e9, (double)need_ns / 1e9);
    return false;
}

/* Daemons give each request an id. NULL: out of memory; else to be freed. */
static char *append_request_id(const char *text, uint32_t pid)
{
    uint64_t seed[2] = {kb_clock_ns(CLOCK_REALTIME), pid};
    size_t size = strlen(text) + 64;
    char *out = malloc(size);
    if (out)
        snprintf(out, size, "%sREQUEST_TRACE_ID=%llu\n", text,
                 (unsigned long long)kb_hash(seed, sizeof seed));
    return out;
}

/* The text for a target, which becomes TAKEN; NULL: it is FAILED. To be freed by the daemon. */
static char *make_request_for(kc_trigger_run *run, kc_target *t)
{
    KB_ASSERT(t->via == KC_VIA_OWN && t->state == KC_FOUND);
    char *text = NULL, *whole = NULL;
    kineto_error err = {0};
    if (!has_time_to_start(run, t) || !kc_files_choose(run, t, true))
        return NULL;
    kc_request_format how = {.path = t->asked_path, .start_ns = kc_start_of(run, t), .plain = true};
    if (kc_request_text(run->request, &how, &text, &err) == KINETO_OK)
        whole = append_request_id(text, t->pid);
    free(text);
    if (!whole) {
        kc_target_fail(t, "%s", err.code ? err.message : "out of memory for the request");
        return NULL;
    }
    t->asked_ns = kb_monotonic_ns();
    t->asked_real_ns = (int64_t)kb_clock_ns(CLOCK_REALTIME);
    t->state = KC_TAKEN;
    return whole;
}

/* A process that has the request reports with each poll whether it would accept another one: if
 * not, it is busy with ours. */
static void store_poll_result(kc_target *t, int32_t wants)
{
    KB_ASSERT(t->via == KC_VIA_OWN && t->state > KC_FOUND);
    bool idle = wants & KO_DYNO_WANTS_ACTIVITIES;
    if (idle)
        t->idle_ns = kb_monotonic_ns();
    else
        t->busy_ns = kb_monotonic_ns();
    if (!idle && t->state == KC_TAKEN)
        t->state = KC_COLLECT;
}

/* Other users may claim any pid: the request for a visible process is given only to its own user.
 */
static bool is_user_plausible(const ko_dyno_process *p)
{
    char path[32];
    struct stat st;
    snprintf(path, sizeof path, "/proc/%d", p->pid);
    return p->user == geteuid() || stat(path, &st) != 0 || st.st_uid == p->user;
}

/* Called by the daemon for each poll. @return the request for this process; NULL: none. */
static char *offer_request(void *context, const ko_dyno_process *p, int32_t wants)
{
    kc_trigger_run *run = context;
    if (p->pid <= 0 || !is_user_plausible(p) ||
        !kc_matches(run->request, p->pids, p->pid_count, p->job))
        return NULL;
    kc_target *t = kc_target_find(run, (uint32_t)p->pid);
    if (!t)
        t = kc_target_add(run, (uint32_t)p->pid, p->job, KC_VIA_OWN);
    if (!t || t->via != KC_VIA_OWN || kc_target_over(t))
        return NULL;
    if (t->state > KC_FOUND)
        store_poll_result(t, wants);
    else if (wants & KO_DYNO_WANTS_ACTIVITIES)
        return make_request_for(run, t);
    return NULL;
}

/* ---- serving --------------------------------------------------------------------------------- */

/* A name in use (KINETO_E_BUSY) may become free; other errors are final. */
void kc_own_daemon_start(kc_trigger_run *run)
{
    ko_dyno_daemon_options o = {.directory = run->request->socket_directory, .no_rpc = true};
    if (kb_monotonic_ns() < run->bind_again_ns)
        return;
    run->bind_again_ns = kb_monotonic_ns() + BIND_RETRY_NS;
    if (ko_dyno_daemon_create(&o, &run->own_daemon, &run->bind_error) == KINETO_OK) {
        run->bind_error.code = KINETO_OK;
        ko_dyno_registry_offer(ko_dyno_daemon_registry(run->own_daemon), offer_request, run);
    } else if (run->bind_error.code != KINETO_E_BUSY) {
        run->bind_again_ns = UINT64_MAX; /* for example no directory: retrying does not help */
    }
}

/* Without a daemon this is only the wait of the loop. */
void kc_own_daemon_serve(kc_trigger_run *run, int64_t wait_ms)
{
    kineto_error err;
    struct pollfd peers = {.fd = run->peers, .events = POLLIN};
    if (!run->own_daemon)
        (void)poll(&peers, 1, (int)wait_ms);
    else if (ko_dyno_daemon_run(run->own_daemon, wait_ms, run->peers, &err) != KINETO_OK)
        kc_show_message("%s", err.message);
}

/* Without --wait: a process that polls again has certainly read its request. Waiting for it is
 * bounded by NEXT_POLL_NS. */
bool kc_own_daemon_settled(const kc_trigger_run *run)
{
    for (size_t i = 0; run->own_daemon && i < run->targets.count; i++) {
        const kc_target *t = run->targets.data[i];
        bool has_polled = t->busy_ns || t->idle_ns || kc_target_over(t);
        if (t->via == KC_VIA_OWN && !has_polled && kb_monotonic_ns() - t->asked_ns < NEXT_POLL_NS)
            return false;
    }
    return true;
}
