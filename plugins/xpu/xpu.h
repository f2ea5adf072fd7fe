/* The Intel source: a plug-in that turns the records of Intel's PTI into activities.
 *
 *   pti.h         PTI and Level Zero as far as we use them
 *   libs.c        finds the library; why it is not usable
 *   plugin.c      the plug-in interface, and how the preloaded library enters a program
 *   options.c     the user's options
 *   source.c      the session: views that are enabled and disabled; other users of PTI; forks
 *   buffers.c     memory that PTI writes records to
 *   records.c     one pass over a buffer of records
 *   kernels.c transfers.c calls.c   one kind of record each, to activities
 *   devices.c     devices as rows and properties
 *   doctor.c      the check of `ckineto doctor`
 *
 * Data flows in one direction: PTI → buffers → records → kinds → builder. A buffer is read within
 * PTI's callback, on a thread of PTI, under one lock.
 */
#ifndef XP_XPU_H
#define XP_XPU_H

#include "../common/support.h"
#include "../common/value_sets.h"
#include "pti.h"

#include <stdatomic.h>
#include <string.h>

#define XP_MAX_DEVICES 64

/* ---- libs.c ---------------------------------------------------------------------------------- */

/* Functions of PTI, filled once. Members that the library does not have are NULL. */
extern xp_pti_api xp_pti;
/** Open the PTI that the program has loaded, or an installed one. False: `why` is a message with
 * advice. threads: one. */
bool xp_libs_open(char why[CP_TEXT_BYTES]);
/** XP_VERSION of the library, 0 before it is open. */
uint32_t xp_pti_version(void);
/** Write what PTI refused, and why, as far as it says. */
void xp_explain(xp_status status, const char *doing, char why[CP_TEXT_BYTES]);

/* ---- options.c ------------------------------------------------------------------------------- */
typedef struct xp_options {
    uint64_t types;         /* bit per KINETO_PLUGIN_PROFILE_EVENT_TYPE_… */
    size_t buffer_bytes;    /* of a buffer; each thread that submits work has one */
    size_t bound_bytes;     /* of all buffers */
    bool driver;            /* calls of Level Zero */
    bool all_runtime_calls; /* also those that submit no work */
    bool times;             /* when a kernel was appended and submitted, relative to its start */
} xp_options;
/** Parse the environment variable CKINETO_XPU and then the user's text for plug-ins. False: `why` says
 * what is wrong. */
bool xp_options_read(const char *text, xp_options *out, char why[CP_TEXT_BYTES]);

/* ---- records.c ------------------------------------------------------------------------------- */

/* Records that became no activity or an incomplete one: X(name, 1 if it is a loss that is not counted
 * elsewhere, text; NULL: the host reports it). */
#define XP_TALLY_MAP(X)                                                                            \
    X(UNKNOWN_KIND, 1, "records of a kind that is not known here")                                 \
    X(CUT_SHORT, 1, "records that are shorter than this version's")                                \
    X(NO_TIME, 0, "activities without a time of the device")                                       \
    X(NOT_DELIVERED, 0, NULL)                                                                      \
    X(NO_NAME, 0, "kernels and calls without a name")                                              \
    X(NO_DEVICE, 0, "activities of a device that Level Zero does not list")
typedef enum xp_tally {
#define XP_X(name, loss, text) XP_TALLY_##name,
    XP_TALLY_MAP(XP_X)
#undef XP_X
        XP_TALLY_COUNT
} xp_tally;

#define XP_OPERATOR_SLOTS 65536u /* launches whose operator is known at a time */
#define XP_API_SLOTS      4096u
#define XP_QUEUES         256u
typedef struct xp_text {
    const char *data;
    uint32_t size;
} xp_text;
typedef struct xp_decoder {
    const KinetoPlugin_TraceBuilder *builder;
    uint64_t types; /* bit per type to be delivered */
    int32_t clock;  /* of the records' times */
    uint32_t version, pid;
    bool times;
    bool overheads; /* the row of overheads has been announced */
    bool has_sycl;  /* calls of SYCL have been seen */
    bool devices;   /* the devices have been announced */
    cp_sets *sets;
    struct {
        uint32_t correlation;
        uint64_t id;
    } * operators; /* [XP_OPERATOR_SLOTS], by the low bits of the correlation id */
    struct {
        uint32_t group, api;
        xp_text name;
    } * apis; /* [XP_API_SLOTS] */
    struct {
        const void *queue;
        uint32_t stream;
    } queues[XP_QUEUES]; /* of the driver */
    uint32_t queue_count;
    uint64_t delivered, tally[XP_TALLY_COUNT];
    uint64_t reported, reported_dropped;
    uint64_t buffers, records;
} xp_decoder;

bool xp_decoder_init(xp_decoder *d, const KinetoPlugin_TraceBuilder *builder, const xp_options *options,
                     uint32_t version, int32_t clock);
/** All records of one buffer. */
void xp_decoder_read(xp_decoder *d, unsigned char *buffer, size_t used);
/** Write the ledger. */
void xp_decoder_finish(xp_decoder *d);
void xp_decoder_free(xp_decoder *d);
/** The number of records in a buffer that no session wants. */
uint64_t xp_count_records(unsigned char *buffer, size_t used);

static inline bool xp_wants(const xp_decoder *d, int32_t type) { return d->types >> type & 1; }
/** Initialise an activity and check its times. False: it must not be delivered, and was counted. */
bool xp_begin_activity(xp_decoder *d, KinetoPlugin_Activity *a, int32_t type, uint64_t start,
                       uint64_t end);
void xp_name_activity(xp_decoder *d, KinetoPlugin_Activity *a, const char *name, const char *otherwise);
/** Set where device work ran, and what launched it. */
void xp_place_on_device(xp_decoder *d, KinetoPlugin_Activity *a, int32_t device, uint32_t stream,
                        uint32_t correlation);
/** Set the thread that made a call. */
void xp_place_on_thread(xp_decoder *d, KinetoPlugin_Activity *a, uint32_t thread, uint32_t correlation);
void xp_deliver_activity(xp_decoder *d, KinetoPlugin_Activity *a, const cp_values *values);
/** The stream of a record: its SYCL queue, or in programs without SYCL a number for the driver's. */
uint32_t xp_stream_of(xp_decoder *d, uint64_t sycl_queue, const void *queue);
/** The stream of a fill, in which some versions do not set the SYCL queue: that of other work on the
 * driver's queue, if there was any. */
uint32_t xp_stream_of_fill(xp_decoder *d, uint64_t sycl_queue, const void *queue);

/* Kinds of value sets: the first word of a key. */
enum { XP_SET_KERNEL = 1, XP_SET_TRANSFER };
static inline void xp_put_key(cp_set_key *key, size_t at, uint64_t value)
{
    key->words[at] = (uint32_t)value;
    key->words[at + 1] = (uint32_t)(value >> 32);
}
static inline uint64_t xp_get_key(const cp_set_key *key, size_t at)
{
    return key->words[at] | (uint64_t)key->words[at + 1] << 32;
}
/** A hash of a text, for keys: PTI stores the same text anew for each record. 0: none. */
static inline uint64_t xp_hash_text(const char *text)
{
    size_t size = text ? strlen(text) : 0;
    uint64_t hash = size, word;
    for (; size >= sizeof word; size -= sizeof word, text += sizeof word) {
        memcpy(&word, text, sizeof word);
        hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 29;
    }
    for (; size; size--, text++)
        hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    return hash;
}
/** A handle as Kineto writes it; `text` must live until the values are delivered. */
void xp_value_handle(cp_values *v, const char *key, uint64_t handle, char text[24]);

void xp_read_kernel(xp_decoder *d, const xp_kernel_record *r);
void xp_read_copy(xp_decoder *d, const xp_copy_record *r);
void xp_read_p2p(xp_decoder *d, const xp_p2p_record *r);
void xp_read_fill(xp_decoder *d, const xp_fill_record *r);
void xp_read_call(xp_decoder *d, const xp_api_record *r);
void xp_read_named_call(xp_decoder *d, const xp_named_call_record *r);
void xp_read_sync(xp_decoder *d, const xp_sync_record *r);
void xp_read_comms(xp_decoder *d, const xp_comms_record *r);
void xp_read_overhead(xp_decoder *d, const xp_overhead_record *r);

/* ---- devices.c ------------------------------------------------------------------------------- */
/** The number of the device with this UUID; a device that Level Zero does not list gets the next
 * one, and is counted. */
int32_t xp_device_of(xp_decoder *d, const uint8_t uuid[16]);
/** Announce rows, properties and versions. */
void xp_devices_announce(xp_decoder *d);

/* ---- buffers.c ------------------------------------------------------------------------------- */
typedef struct xp_buffer_stats {
    uint64_t dropped; /* records that had no buffer */
    uint64_t late;    /* records that came when no session wanted them */
    uint64_t kept;    /* buffers that PTI did not give back */
} xp_buffer_stats;
/** From here on records go to the decoder. */
void xp_buffers_attach(xp_decoder *decoder, const xp_options *options);
/** From here on records are late; returns when none is being read. */
xp_buffer_stats xp_buffers_detach(void);
void xp_buffers_after_fork(void);
xp_request_fn xp_buffers_request;
xp_complete_fn xp_buffers_complete;

/* ---- source.c -------------------------------------------------------------------------------- */
bool xp_source_prepare(const xp_options *options, char why[CP_TEXT_BYTES]);
bool xp_source_start(const KinetoPlugin_TraceBuilder *builder, char why[CP_TEXT_BYTES]);
void xp_source_stop(void);
/** End the session, after prepare or stop. */
void xp_source_end(void);
void xp_source_drain(void);
void xp_source_toggle(bool on);
/** Another user is about to take PTI: give it up. threads: any. */
void xp_source_yield(void);
void xp_operators_push(uint64_t id);
void xp_operators_pop(void);

#endif
