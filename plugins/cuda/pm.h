/* Counters of the multiprocessors through CUPTI's PM sampling:
 *
 *   pm_setup.c   from metric names to a configured sampler; reasons for refusals
 *   pm_clock.c   finds the clock of the samples' times
 *   pm.c         the session: a thread decodes the hardware buffer and delivers the samples
 */
#ifndef CP_PM_H
#define CP_PM_H

#include "counters.h"
#include "pm_api.h"

#define CP_PM_SAMPLES      1024u /* in the image that is decoded into */
#define CP_PM_BUFFER_BYTES ((size_t)64 << 20)

extern cp_pm_api cp_pm;

/* Initialise the parameters of a call, with the size that CUPTI expects. */
#define CP_PM_PARAMS(type, last, ...) ((type){.struct_size = CP_PM_SIZE(type, last), __VA_ARGS__})

/* ---- pm_setup.c ------------------------------------------------------------------------------ */
typedef struct cp_pm_setup {
    int32_t device;
    uint32_t interval_us;
    char text[512]; /* of the names, cut at commas */
    const char *names[KINETO_PLUGIN_MAX_SERIES];
    uint32_t count;
    uint8_t *availability, *config;
    size_t config_size;
    cp_pm_host *host;
    cp_pm_sampler *sampler;
    uint8_t *image; /* decoded samples */
    size_t image_size;
    /* The interval counts cycles of the system clock: older GPUs. */
    bool by_cycles;
} cp_pm_setup;

/** Everything before the start of sampling. False: the reason is in `why`, and all is released. */
bool cp_pm_prepare(cp_pm_setup *p, const cp_options *options, char why[CP_TEXT_BYTES]);
/** Release everything; sampling must not be running. */
void cp_pm_release(cp_pm_setup *p);
/** Empty the image of decoded samples. */
cp_result cp_pm_clear(const cp_pm_setup *p);
/** Write a message for a call that failed. */
void cp_pm_explain(const char *call, cp_result result, int32_t device, char why[CP_TEXT_BYTES]);
/** Unit of a metric, by its name; NULL: a plain number. */
const char *cp_pm_unit(const char *metric);

/* ---- pm_clock.c ------------------------------------------------------------------------------ */
#define CP_PM_CLOCKS 5

typedef struct cp_pm_clock {
    /* KINETO_PLUGIN_CLOCK_…; -1: not known yet. */
    int32_t number;
    /* Not a clock of the host: the host fits it. */
    bool is_own;
    int64_t began[CP_PM_CLOCKS]; /* the host's clocks before sampling */
    uint64_t decoded_ticks;      /* host ticks when the buffer was last empty */
} cp_pm_clock;

/** To be called right before sampling starts. */
void cp_pm_clock_begin(cp_pm_clock *c, const KinetoPlugin_TraceBuilder *builder);
/** The clock of samples from `first` to `last`, which have just been decoded; -1: unknown. */
int32_t cp_pm_clock_of(cp_pm_clock *c, const KinetoPlugin_TraceBuilder *builder, int64_t first,
                       int64_t last);
#endif
