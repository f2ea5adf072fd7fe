/* gen_trace: write a trace of any size with the text that libkineto writes.
 *
 *   gen_trace --events N --layout torch1.8|torch1.13|torch2 --out FILE [--seed N]
 *
 * The same options give the same bytes. Frequencies of events follow traces of real trainings of
 * each era. The standard output is "-". */
#include "gen/gen.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STEP_EVENTS  12000
#define MIN_EVENTS 200

typedef struct options {
    uint64_t events, seed;
    gen_layout layout;
    const char *out;
} options;

typedef struct generator {
    gen_names names;
    gen_step step;
    gen_writer writer;
    const options *options;
    uint64_t steps, step_events;
    int64_t end_ns;
} generator;

static const char *const layout_names[] = {"torch1.8", "torch1.13", "torch2"};

static void exit_with_usage(void)
{
    fputs("usage: gen_trace --events N --layout torch1.8|torch1.13|torch2 --out FILE [--seed N]\n"
          "Writes a trace with exactly N events (200 at least) as Kineto of that time would.\n",
          stderr);
    exit(2);
}

/* ---- sections ------------------------------------------------------------------------------------ */

static void host_all(gen_writer *w, const gen_step *s) { gen_write_host(w, s, -1); }
static void host_main(gen_writer *w, const gen_step *s) { gen_write_host(w, s, GEN_MAIN); }
static void host_autograd(gen_writer *w, const gen_step *s) { gen_write_host(w, s, GEN_AUTOGRAD); }
static void host_loader(gen_writer *w, const gen_step *s) { gen_write_host(w, s, GEN_LOADER); }

typedef void (*section)(gen_writer *, const gen_step *);
/* In the order of the file. */
static const section sections[][6] = {
    [GEN_TORCH1_8] = {host_all, gen_write_memory, gen_write_device},
    [GEN_TORCH1_13] = {host_all, gen_write_device},
    [GEN_TORCH2] = {host_autograd, host_main, host_loader, gen_write_device,
                    gen_write_device_annotations},
};

static void run_section(generator *g, section write)
{
    uint64_t left = g->step_events;
    gen_step_init(&g->step, &g->names, g->options->layout, g->options->seed);
    for (uint64_t i = 0; i < g->steps && !g->step.failed && !g->writer.failed; i++) {
        uint64_t budget = left / (g->steps - i);
        gen_step_run(&g->step, budget);
        write(&g->writer, &g->step);
        left -= budget;
    }
    g->end_ns = g->step.now_ns[GEN_MAIN] + 400000;
}

/* Number of events outside of steps. */
static uint64_t fixed_events(generator *g)
{
    gen_write_rows(&g->writer, GEN_START_NS, GEN_START_NS);
    uint64_t count = g->writer.events;
    g->writer.events = 0;
    g->writer.at = g->writer.buffer;
    return count;
}

static bool generate_trace(generator *g)
{
    g->step_events = g->options->events - fixed_events(g);
    g->steps = (g->step_events + STEP_EVENTS / 2) / STEP_EVENTS;
    g->steps += g->steps == 0;
    gen_write_header(&g->writer);
    for (const section *s = sections[g->options->layout]; *s; s++)
        run_section(g, *s);
    gen_write_rows(&g->writer, GEN_START_NS, g->end_ns);
    gen_write_footer(&g->writer);
    return !g->step.failed && !g->writer.failed;
}

/* ---- the command --------------------------------------------------------------------------------- */

static uint64_t parse_number(const char *text)
{
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (*end || end == text || *text == '-' || errno)
        exit_with_usage();
    return value;
}

static gen_layout parse_layout(const char *text)
{
    for (int i = 0; i < 3; i++)
        if (strcmp(text, layout_names[i]) == 0)
            return (gen_layout)i;
    exit_with_usage();
    return GEN_TORCH2;
}

static void parse_options(int argc, char **argv, options *o)
{
    *o = (options){.events = 1000000, .seed = 1, .layout = GEN_TORCH1_13};
    for (int i = 1; i < argc; i += 2) {
        if (i + 1 == argc)
            exit_with_usage();
        if (strcmp(argv[i], "--events") == 0)
            o->events = parse_number(argv[i + 1]);
        else if (strcmp(argv[i], "--seed") == 0)
            o->seed = parse_number(argv[i + 1]);
        else if (strcmp(argv[i], "--layout") == 0)
            o->layout = parse_layout(argv[i + 1]);
        else if (strcmp(argv[i], "--out") == 0)
            o->out = argv[i + 1];
        else
            exit_with_usage();
    }
    if (!o->out || o->events < MIN_EVENTS)
        exit_with_usage();
}

int main(int argc, char **argv)
{
    options o;
    parse_options(argc, argv, &o);
    generator g = {.options = &o};
    int fd = strcmp(o.out, "-") ? open(o.out, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644) : 1;
    if (fd < 0) {
        fprintf(stderr, "gen_trace: %s: %s\n", o.out, strerror(errno));
        return 1;
    }
    bool ok = gen_names_make(&g.names, o.layout, o.seed) &&
              gen_writer_init(&g.writer, fd, o.layout, &g.names) && generate_trace(&g);
    if (close(fd) && ok) {
        ok = false;
        g.writer.error = errno;
    }
    if (!ok)
        fprintf(stderr, "gen_trace: %s: %s\n", o.out,
                g.writer.error ? strerror(g.writer.error) : "out of memory");
    else
        fprintf(stderr, "%s: %llu events, %llu bytes, %llu steps, %u names\n", o.out,
                (unsigned long long)g.writer.events, (unsigned long long)g.writer.bytes,
                (unsigned long long)g.steps, g.names.count);
    gen_writer_free(&g.writer);
    gen_step_free(&g.step);
    gen_names_free(&g.names);
    return ok ? 0 : 1;
}
