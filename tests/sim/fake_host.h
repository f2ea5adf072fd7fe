/* A host that is a script: it calls a plug-in as the tests say and keeps what it delivers. */
#ifndef FAKE_HOST_H
#define FAKE_HOST_H

#include <ckineto/plugin.h>

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* Which host it plays: as it was proposed first, last, and as it is today. */
typedef enum fake_revision { FAKE_REVISION_0, FAKE_REVISION_B, FAKE_TODAY } fake_revision;

#define FAKE_MAX_EVENTS   4096
#define FAKE_OWN_TYPE     1029
#define FAKE_DEVICE_CLOCK 7

typedef struct fake_event {
    KinetoPlugin_ProfileEvent event;
    int32_t clock, flow_type;
    uint32_t flow_id;
    bool flow_start, emitted;
    uint64_t external_id;
    char name[64], key[32], json[64]; /* of the last metadata but the external id */
} fake_event;

typedef struct fake_sample {
    char name[32], unit[8];
    int64_t time;
    uint64_t value;
} fake_sample;

/* What has come since the last fake_begin. */
typedef struct fake_seen {
    fake_event events[FAKE_MAX_EVENTS];
    size_t event_count;
    fake_sample samples[FAKE_MAX_EVENTS];
    size_t sample_count;
    int64_t clock_samples[256];
    size_t clock_sample_count;
    uint64_t requested, dropped;
    size_t device_count, row_count, property_count, late_count;
    int32_t display_order[16];
    int64_t sort_index;
    char device_name[32], device_label[32], row_names[16][32];
    int64_t began_utc_ns, ended_utc_ns;
} fake_seen;
extern fake_seen seen;

/** Register the plug-in with a host of this revision; the interface that it registered. */
const KinetoPlugin_ProfilerInterface *fake_register(fake_revision revision,
                                                    KinetoPlugin_registerFn function);
/** create and start with these kinds (NULL: all that it supports). First result that is not 0. */
int fake_begin(const int32_t *kinds, size_t count, const char *custom_config);
/** The same with all kinds, but start is that of an old host, which has no live builder. */
int fake_begin_with_start_of(fake_revision revision);
/** stop, processEvents, destroy. First result that is not 0. */
int fake_end(void);
int fake_create(const int32_t *kinds, size_t count, const char *custom_config);
int fake_start(void);
int fake_stop(void);
int fake_process(void);
int fake_destroy(void);
int fake_toggle(bool on);
int fake_push(uint64_t id);
int fake_pop(void);
const char *fake_error_text(void);
/** How many events there are of this type. */
size_t fake_count(int32_t type);
/** The n-th of this type; NULL past the last. */
const fake_event *fake_find(int32_t type, size_t n);

#endif
