/* Trains a small transformer on sentences of a small grammar, structured and profiled as a PyTorch
 * program is. `transformer --help` lists the options; docs/tutorial/training.md explains the
 * output. */
#include "device.h"
#include "kernels.h"
#include "model.h"
#include "profile.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct settings {
    model_config model;
    profile_options profile;
    const char *device;
    uint64_t steps, seed, operators, every;
    int64_t threads;
    double rate;
    bool check;
} settings;

/* ---- command line ---------------------------------------------------------------------------- */

static const char help[] =
    "usage: transformer [OPTION…]\n"
    "Train a small transformer on generated text.\n\n"
    "  --steps N          steps to train (120)\n"
    "  --profile DIR      profile, and write trace, tables, memory and stacks to DIR\n"
    "  --device NAME      none: this processor; sim: the software accelerator (none)\n"
    "  --ops N            train until N operators were recorded, and report losses\n"
    "  --seed N           of data and parameters (1)\n"
    "  --threads N        of a matrix product (1)\n"
    "  --rate X           of learning (0.003)\n"
    "  --every N          print the loss of each N-th step (10)\n"
    "  --layers N --heads N --width N --context N --batch N\n"
    "                     sizes of the model (2, 4, 64, 32, 16)\n"
    "  --wait N --warmup N --active N --repeat N\n"
    "                     steps and cycles of the profiler (10, 2, 3, 1)\n"
    "  --no-stacks        without call stacks\n"
    "  --buffer N         MiB that the profiler may take for a cycle (64)\n"
    "  --check            compare the gradients with measured ones and exit\n"
    "  --help\n";

enum {
    HELP = 256,
    STEPS,
    PROFILE,
    DEVICE,
    OPS,
    SEED,
    THREADS,
    RATE,
    EVERY,
    LAYERS,
    HEADS,
    WIDTH,
    CONTEXT,
    BATCH,
    WAIT,
    WARMUP,
    ACTIVE,
    REPEAT,
    NO_STACKS,
    BUFFER,
    CHECK
};
static const struct option long_options[] = {{"help", no_argument, NULL, HELP},
                                             {"steps", required_argument, NULL, STEPS},
                                             {"profile", required_argument, NULL, PROFILE},
                                             {"device", required_argument, NULL, DEVICE},
                                             {"ops", required_argument, NULL, OPS},
                                             {"seed", required_argument, NULL, SEED},
                                             {"threads", required_argument, NULL, THREADS},
                                             {"rate", required_argument, NULL, RATE},
                                             {"every", required_argument, NULL, EVERY},
                                             {"layers", required_argument, NULL, LAYERS},
                                             {"heads", required_argument, NULL, HEADS},
                                             {"width", required_argument, NULL, WIDTH},
                                             {"context", required_argument, NULL, CONTEXT},
                                             {"batch", required_argument, NULL, BATCH},
                                             {"wait", required_argument, NULL, WAIT},
                                             {"warmup", required_argument, NULL, WARMUP},
                                             {"active", required_argument, NULL, ACTIVE},
                                             {"repeat", required_argument, NULL, REPEAT},
                                             {"no-stacks", no_argument, NULL, NO_STACKS},
                                             {"buffer", required_argument, NULL, BUFFER},
                                             {"check", no_argument, NULL, CHECK},
                                             {NULL, 0, NULL, 0}};

/* A number from `min` to `max`. False: it is something else, which was printed. */
static bool parse_number(const char *text, uint64_t min, uint64_t max, uint64_t *out)
{
    char *end;
    errno = 0;
    *out = strtoull(text, &end, 10);
    if (!errno && end != text && !*end && *text != '-' && *out >= min && *out <= max)
        return true;
    fprintf(stderr, "transformer: '%s': expected a number from %" PRIu64 " to %" PRIu64 "\n", text,
            min, max);
    return false;
}

/* The options of sizes are consecutive, in the order of the places. */
static bool set_model_size(int option, const char *text, settings *s)
{
    uint64_t value, max = option == LAYERS ? MAX_LAYERS : 4096;
    model_config *m = &s->model;
    int64_t *places[] = {&m->layers, &m->heads, &m->width, &m->context, &m->batch};
    if (!parse_number(text, 1, max, &value))
        return false;
    *places[option - LAYERS] = (int64_t)value;
    return true;
}

/* A rate of learning, strictly between 0 and 1. */
static bool set_rate(const char *text, settings *s)
{
    char *end;
    s->rate = strtod(text, &end);
    if (end != text && !*end && s->rate > 0 && s->rate < 1)
        return true;
    fprintf(stderr, "transformer: '%s': expected a rate between 0 and 1\n", text);
    return false;
}

/* Applies one option. False: its value is invalid, which was printed. */
static bool set_option(int option, settings *s)
{
    uint64_t threads = 1;
    profile_options *p = &s->profile;
    switch (option) {
    case STEPS:
        return parse_number(optarg, 1, UINT32_MAX, &s->steps);
    case PROFILE:
        p->directory = optarg;
        return true;
    case DEVICE:
        s->device = optarg;
        return true;
    case OPS:
        return parse_number(optarg, 1, UINT32_MAX, &s->operators);
    case SEED:
        return parse_number(optarg, 0, UINT64_MAX, &s->seed);
    case THREADS:
        if (!parse_number(optarg, 1, 256, &threads))
            return false;
        s->threads = (int64_t)threads;
        return true;
    case RATE:
        return set_rate(optarg, s);
    case EVERY:
        return parse_number(optarg, 1, UINT32_MAX, &s->every);
    case WAIT:
        return parse_number(optarg, 0, UINT32_MAX, &p->wait);
    case WARMUP:
        return parse_number(optarg, 0, UINT32_MAX, &p->warmup);
    case ACTIVE:
        return parse_number(optarg, 1, UINT32_MAX, &p->active);
    case REPEAT:
        return parse_number(optarg, 0, UINT32_MAX, &p->repeat);
    case BUFFER:
        return parse_number(optarg, 1, 1 << 20, &p->buffer_mib);
    case CHECK:
        s->check = true;
        return true;
    case NO_STACKS:
        p->stacks = false;
        return true;
    default:
        return option >= LAYERS && option <= BATCH && set_model_size(option, optarg, s);
    }
}

/* -1: run the program; else the exit status. */
static int parse_arguments(int argc, char **argv, settings *s)
{
    int option;
    while ((option = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
        if (option == HELP) {
            fputs(help, stdout);
            return 0;
        }
        if (!set_option(option, s))
            return 2;
    }
    if (optind < argc) {
        fprintf(stderr, "transformer: unexpected argument '%s'\n", argv[optind]);
        return 2;
    }
    if (s->model.width % s->model.heads) {
        fprintf(stderr, "transformer: the width must be a multiple of the heads\n");
        return 2;
    }
    return -1;
}

/* ---- training -------------------------------------------------------------------------------- */

typedef struct training {
    settings *settings;
    model *model;
    adam *optimizer;
    data data;
    int64_t *tokens, *targets; /* buffers of the host */
    uint64_t kept;             /* operators in steps that the profiler records */
} training;

/* A tensor on the device with these numbers. */
static tensor *upload_tokens(const int64_t *from, uint32_t rank, const int64_t *sizes)
{
    tensor *x = tensor_new(KINETO_DTYPE_INT64, rank, sizes);
    op_copy_from_host(x, from);
    return x;
}

/* Makes a batch of text and copies it to the device. */
static void load_batch(training *t, tensor **tokens, tensor **targets)
{
    KINETO_USER_SCOPE("load_batch");
    const model_config *c = &t->model->config;
    const int64_t sizes[] = {c->batch, c->context}, count = c->batch * c->context;
    data_batch(&t->data, c->batch, c->context, t->tokens, t->targets);
    *tokens = upload_tokens(t->tokens, 2, sizes);
    *targets = upload_tokens(t->targets, 1, &count);
}

static tensor *run_forward(training *t, tensor *tokens, tensor *targets)
{
    KINETO_USER_SCOPE("forward");
    tensor *logits = model_forward(t->model, tokens);
    return then(logits, op_cross_entropy(logits, targets));
}

static void run_backward(tensor *loss)
{
    KINETO_USER_SCOPE("backward");
    grad_backward(loss);
}

/* One training step; the ranges are those that PyTorch programs have. Returns the loss. */
static double train_step(training *t)
{
    tensor *tokens, *targets;
    adam_zero_grad(t->optimizer);
    load_batch(t, &tokens, &targets);
    tensor *loss = run_forward(t, tokens, targets);
    run_backward(loss);
    adam_step(t->optimizer);
    double value = op_item(loss);
    tensor_release(loss);
    tensor_release(tokens);
    tensor_release(targets);
    return value;
}

/* The training loop: a number of steps, or until enough operators were recorded. False after a
 * failure, which was printed. */
static bool train_steps(training *t)
{
    settings *s = t->settings;
    for (uint64_t i = 0; s->operators ? t->kept < s->operators : i < s->steps; i++) {
        bool is_kept = profile_is_recording();
        uint64_t before = op_total();
        double loss = train_step(t);
        t->kept += is_kept ? op_total() - before : 0;
        if (i % s->every == 0 || (!s->operators && i + 1 == s->steps))
            printf("step %" PRIu64 ": loss %.6f\n", i, loss);
        if (!isfinite(loss)) {
            fprintf(stderr, "transformer: the loss is not finite; use a lower --rate\n");
            return false;
        }
        if (!profile_step())
            return false;
    }
    return true;
}

/* The check of --check, on one batch. */
static bool check_gradients(training *t)
{
    tensor *tokens, *targets;
    load_batch(t, &tokens, &targets);
    bool good = model_check_gradients(t->model, tokens, targets);
    tensor_release(tokens);
    tensor_release(targets);
    return good;
}

/* ---- the program ----------------------------------------------------------------------------- */

/* Creates the model, the optimizer and the buffers of a batch. */
static void open_training(training *t, settings *s)
{
    size_t tokens = (size_t)(s->model.batch * s->model.context);
    *t = (training){.settings = s, .model = model_new(&s->model, s->seed)};
    t->optimizer = adam_new(t->model, s->rate);
    t->tokens = zeroed(tokens, sizeof *t->tokens);
    t->targets = zeroed(tokens, sizeof *t->targets);
    data_init(&t->data, s->seed);
    printf("%" PRId64 " parameters, products by %s, device %s\n", model_parameter_count(t->model),
           kernels_product_by(), s->device);
}

/* Called after the engine's thread has ended. */
static void close_training(training *t)
{
    adam_zero_grad(t->optimizer);
    adam_free(t->optimizer);
    model_free(t->model);
    free(t->tokens);
    free(t->targets);
}

/* Compares the operators that ran with those that were recorded. */
static void print_totals(const training *t)
{
    profile_totals p = profile_get_totals();
    printf("%" PRIu64 " operators ran, %" PRIu64 " recorded in %" PRIu64 " cycle%s, %" PRIu64
           " lost; peak memory %" PRIu64 " MiB",
           t->kept, p.operators, p.cycles, p.cycles == 1 ? "" : "s", p.lost, p.peak_kib >> 10);
    if (p.cycles > 3)
        printf(", %" PRIu64 " MiB after three cycles", p.peak_kib_early >> 10);
    putchar('\n');
}

/* Everything in order: device, profiler, training, reports. Returns the exit status. */
static int run_program(settings *s)
{
    training t;
    bool profiled = !s->check && (s->profile.directory || s->operators);
    if (!device_open(s->device))
        return 1;
    kineto_thread_set_name("training");
    kernels_set_threads((int)s->threads);
    if (s->operators) {
        s->profile.wait = 0;
        s->profile.repeat = 0;
    }
    s->profile.each_cycle = !s->operators;
    open_training(&t, s);
    bool good = (!profiled || profile_start(&s->profile)) &&
                (s->check ? check_gradients(&t) : train_steps(&t)) && profile_stop();
    grad_shutdown();
    if (good && profiled) {
        print_totals(&t);
        good = profile_report();
    }
    profile_close();
    close_training(&t);
    memory_statistics m = memory_get_statistics();
    printf("at most %" PRIu64 " KiB of tensors, %" PRIu64 " at the end\n", m.peak_bytes >> 10,
           m.allocated_bytes >> 10);
    memory_empty_cache();
    return good ? 0 : 1;
}

int main(int argc, char **argv)
{
    settings s = {
        .model = {DATA_VOCABULARY, 32, 16, 64, 4, 2},
        .profile =
            {.wait = 10, .warmup = 2, .active = 3, .repeat = 1, .stacks = true, .buffer_mib = 64},
        .device = "none",
        .steps = 120,
        .seed = 1,
        .every = 10,
        .threads = 1,
        .rate = 0.003};
    int status = parse_arguments(argc, argv, &s);
    return status >= 0 ? status : run_program(&s);
}
