/* The loop's part of a live view: intervals, keys, and traces of the buffer. */
#include "cli/live/live.h"
#include "cli/live/screen.h"

#include <time.h>

#define KEYS_NS (100 * (uint64_t)KB_MILLISECOND_NS) /* keys are looked for so often */

struct kc_live {
    kc_live_options options;
    kc_screen screen;
    kc_view_options view;
    uint64_t started_ns, next_ns;
    int64_t shown_until_ns; /* Unix time: the last interval's end */
    uint64_t shown;
    kineto_trace *trace; /* of the last interval, to be shown again after a key */
    size_t rows, columns;
    bool is_over;
    char keys[160];
};

kineto_status kc_live_open(const kc_live_options *options, kc_live **out, kineto_error *err)
{
    kc_live *l = calloc(1, sizeof *l);
    *out = NULL;
    if (!l)
        return kb_fail_memory(err, "live view");
    l->options = *options;
    l->screen.fd = -1;
    kineto_status status = options->is_batch ? KINETO_OK : kc_screen_open(&l->screen, err);
    if (status) {
        free(l);
        return status;
    }
    snprintf(l->keys, sizeof l->keys, "q: %s, space: pause, s: sort threads, t: self or total",
             options->on_quit);
    l->view = (kc_view_options){.sort = options->sort,
                                .title = options->title,
                                .keys = options->is_batch ? NULL : l->keys,
                                .interval_ns = (int64_t)options->interval_ns};
    l->started_ns = kb_monotonic_ns();
    l->next_ns = l->started_ns + options->interval_ns;
    l->shown_until_ns = (int64_t)kb_clock_ns(CLOCK_REALTIME);
    *out = l;
    return KINETO_OK;
}

static void draw_on_screen(kc_live *l)
{
    char *text;
    size_t size;
    kineto_error err;
    kc_screen_size(&l->screen, &l->view.rows, &l->view.columns);
    l->rows = l->view.rows;
    l->columns = l->view.columns;
    FILE *out = open_memstream(&text, &size);
    if (!out)
        return;
    if (kc_view_write(l->trace, &l->view, out, &err))
        fprintf(out, "%s\n", err.message);
    if (fclose(out) == 0)
        kc_screen_show(&l->screen, text);
    free(text);
}

static void draw_view(kc_live *l)
{
    kineto_error err;
    if (!l->trace)
        return;
    if (!l->options.is_batch) {
        draw_on_screen(l);
        return;
    }
    if (kc_view_write(l->trace, &l->view, stdout, &err))
        printf("%s\n", err.message);
    putchar('\n');
    if (fflush(stdout) != 0)
        l->is_over = true; /* nobody reads it any more */
}

/* What was recorded since the last time. */
static void take_interval(kc_live *l, ks_collector *c)
{
    kineto_trace *trace = NULL;
    kineto_error err;
    int64_t until_ns = (int64_t)(kb_clock_ns(CLOCK_REALTIME) - l->options.lag_ns);
    ks_window_cut cut = {.from_ns = l->shown_until_ns, .until_ns = until_ns, .is_quick = true};
    l->view.passed_ns = kb_monotonic_ns() - l->started_ns;
    if (until_ns <= l->shown_until_ns || ks_ring_build(c, &cut, &trace, &err) != KINETO_OK)
        return;
    l->view.interval_ns = KB_MAX(until_ns - l->shown_until_ns, 1);
    l->shown_until_ns = until_ns;
    kineto_trace_release(l->trace);
    l->trace = trace;
    l->shown++;
    draw_view(l);
    l->is_over |= l->options.screens && l->shown >= l->options.screens;
}

/* @return whether the view is to be drawn again. */
static bool handle_key(kc_live *l, int key)
{
    switch (key) {
    case 'q':
        l->is_over = true;
        return false;
    case ' ':
    case 'p':
        l->view.is_paused = !l->view.is_paused;
        return true;
    case 's':
        l->view.sort = (l->view.sort + 1) % KC_SORT_COUNT;
        return true;
    case 't':
        l->view.by_total = !l->view.by_total;
        return true;
    default:
        return false;
    }
}

/* Keys, and another size of the terminal. */
static void handle_terminal(kc_live *l)
{
    size_t rows, columns;
    bool is_changed = false;
    for (int key; (key = kc_screen_key(&l->screen)) != 0;)
        is_changed |= handle_key(l, key);
    kc_screen_size(&l->screen, &rows, &columns);
    is_changed |= rows != l->rows || columns != l->columns;
    if (is_changed)
        draw_view(l);
}

uint64_t kc_live_turn(kc_live *l, ks_collector *c)
{
    if (!l->options.is_batch)
        handle_terminal(l);
    uint64_t now_ns = kb_monotonic_ns();
    if (now_ns >= l->next_ns) {
        l->next_ns = now_ns + l->options.interval_ns;
        if (l->view.is_paused)
            l->shown_until_ns =
                (int64_t)(kb_clock_ns(CLOCK_REALTIME) - l->options.lag_ns - l->options.interval_ns);
        else
            take_interval(l, c);
    }
    now_ns = kb_monotonic_ns();
    return KB_MIN(KEYS_NS, l->next_ns > now_ns ? l->next_ns - now_ns : 1);
}

bool kc_live_is_over(const kc_live *l) { return l->is_over; }

void kc_live_close(kc_live *l)
{
    if (!l)
        return;
    kc_screen_close(&l->screen);
    kineto_trace_release(l->trace);
    free(l);
}
