/* The live view of `record --live` and `top`: its options, and what the recording does for it. The buffer keeps
 * the newest for the view; what is to become the trace is a window that lasts as long as the recording. */
#include "cli/launch/record_live.h"
#include "cli/options.h"
#include "cpu/source.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

static void set_live_options(kc_record_live *l, ks_collector_options *c, kc_watch *watch)
{
    c->on_demand = true;
    c->ring_ns = 2 * l->options.interval_ns + (uint64_t)KB_SECOND_NS;
    watch->progress_ns = l->options.interval_ns / 8;
    l->options.lag_ns = watch->progress_ns + KU_READING_NS;
}

static kineto_status parse_interval(kc_record_live *l, const char *verb)
{
    char *end;
    double length = l->interval ? strtod(l->interval, &end) : 1;
    if (l->interval && (end == l->interval || *end || !(length >= 0.1 && length <= 3600)))
        return kc_usage_error(verb, "--interval is a number of seconds from 0.1 to 3600, not '%s'",
                              l->interval);
    l->options.interval_ns = (uint64_t)(length * KB_SECOND_NS);
    return KINETO_OK;
}

static kineto_status parse_sort_key(kc_record_live *l, const char *verb)
{
    for (size_t i = 0; l->sort_key && i < KC_SORT_COUNT; i++)
        if (strcmp(l->sort_key, kc_view_sorts[i]) == 0) {
            l->options.sort = (kc_view_sort)i;
            return KINETO_OK;
        }
    return l->sort_key ? kc_usage_error(verb, "--sort is running, waiting, blocked or name, not '%s'",
                                     l->sort_key)
                    : KINETO_OK;
}

kineto_status kc_record_live_parse(kc_record_live *l, const char *verb, bool is_attached,
                                   ks_collector_options *c, kc_watch *watch)
{
    if (c->on_demand || c->policy == KS_POLICY_RING)
        return kc_usage_error(verb, "--live cannot be used with --on-demand, --ring and --policy ring");
    if (parse_interval(l, verb) || parse_sort_key(l, verb))
        return KINETO_E_ARGUMENT;
    l->options.on_quit = l->is_top && !is_attached ? "end it and the program"
                           : l->is_top               ? "end it"
                           : is_attached          ? "end the recording"
                                                  : "close this view";
    set_live_options(l, c, watch);
    return KINETO_OK;
}

kineto_status kc_record_live_start(kc_record_live *l, ks_collector *c,
                                   const ks_collector_options *of_collector, const char *title,
                                   kineto_error *err)
{
    ks_window_options window = {
        .kinds = of_collector->kinds, .wants = of_collector->wants, .custom_config = ""};
    kineto_status status = KINETO_OK;
    l->options.title = title;
    if (!l->is_top)
        status = ks_window_prepare(c, &window, &l->whole, err);
    if (status == KINETO_OK && l->whole)
        status = ks_window_arm(c, l->whole, err);
    return status ? status : kc_live_open(&l->options, &l->view, err);
}

void kc_record_live_close(kc_record_live *l)
{
    kc_live_close(l->view);
    l->view = NULL;
}

int kc_record_live_open_output(void)
{
    if (!isatty(STDOUT_FILENO) && !isatty(STDERR_FILENO))
        return -1;
    const char *directory = kb_setting("TMPDIR");
    return open(directory ? directory : "/tmp", O_TMPFILE | O_RDWR | O_APPEND | O_CLOEXEC, 0600);
}

void kc_record_live_show_output(int fd)
{
    char buffer[65536];
    ssize_t n;
    if (fd < 0)
        return;
    (void)lseek(fd, 0, SEEK_SET);
    while ((n = read(fd, buffer, sizeof buffer)) > 0)
        fwrite(buffer, 1, (size_t)n, stdout);
    fflush(stdout);
    close(fd);
}

uint64_t kc_record_live_show(kc_record_live *l, ks_collector *c, kc_child *child)
{
    uint64_t wait_ns = kc_live_turn(l->view, c);
    if (!kc_live_is_over(l->view))
        return wait_ns;
    kc_record_live_close(l);
    if (child->is_attached)
        child->done = true;
    else if (l->is_top)
        kill(child->pid, SIGTERM);
    return wait_ns;
}
