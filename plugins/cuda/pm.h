/* Counters of the multiprocessors through CUPTI's PM sampling:
 *
 *   pm_setup.c   from metric names to a configured sampler; why it cannot be had
 *   pm_clock.c   which clock the samples' times are
 *   pm.c         the session: a thread decodes what the hardware buffer holds, and delivers it
 */
#ifndef CP_PM_H
#define CP_PM_H

#include "counters.h"
#include "pm_api.h"

#define CP_PM_SAMPLES      1024u /* in the image that is decoded into */
#define CP_PM_BUFFER_BYTES ((size_t)64 << 20)

extern cp_pm_api cp_pm;

/* Fill a call's struct as CUPTI wants it: CP_PM_CALL(start, call, .sampler = s). */
#define CP_PM_PARAMS(type, last, ...) ((type){.struct_size = CP_PM_SIZE(type, last), __VA_ARGS__})

/* ---- pm_setup.c ---------------------------------------------------------------------------------- */
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
    bool by_cycles; /* the interval is cycles of the system clock: older GPUs */
} cp_pm_setup;

/** Everything up to, but without, the start of sampling. False: `why`, and nothing is left behind.
 */
bool cp_pm_prepare(cp_pm_setup *p, const cp_options *options, char why[CP_TEXT_BYTES]);
/** Sampling has been stopped or never began. */
void cp_pm_release(cp_pm_setup *p);
/** Make the image empty again. */
cp_result cp_pm_clear(const cp_pm_setup *p);
/** A sentence for a call that failed. */
void cp_pm_explain(const char *call, cp_result result, int32_t device, char why[CP_TEXT_BYTES]);
/** Unit of a metric, by its name; NULL: a plain number. */
const char *cp_pm_unit(const char *metric);

/* ---- pm_clock.c ---------------------------------------------------------------------------------- */
#define CP_PM_CLOCKS 5

typedef struct cp_pm_clock {
    int32_t number;              /* KINETO_PLUGIN_CLOCK_…; -1: not known yet */
    bool is_own;                 /* none of the host's: the host fits it */
    int64_t began[CP_PM_CLOCKS]; /* the host's clocks before sampling */
    uint64_t decoded_ticks;      /* host ticks when the buffer was last empty */
} cp_pm_clock;

/** Right before sampling starts. */
void cp_pm_clock_begin(cp_pm_clock *c, const KinetoPlugin_TraceBuilder *builder);
/** Samples from `first` to `last` have just been decoded: in which clock are they? -1: no number.
 */
int32_t cp_pm_clock_of(cp_pm_clock *c, const KinetoPlugin_TraceBuilder *builder, int64_t first,
                       int64_t last);
#endif
