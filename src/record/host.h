/* Profilers of plug-ins and the builders through which they deliver. */
#ifndef KR_HOST_H
#define KR_HOST_H

#include "record/encode.h"
#include <ckineto/plugin.h>

#define KR_MAX_TYPES   64u
#define KR_MAX_PENDING 32u
#define KR_LOOSE_WORDS (KF_MAX_RECORD_WORDS - 16u)

/* The event that setLast… and addLast… are about: one per thread that uses them. */
typedef struct kr_pending {
    uint32_t tid; /* 0: none */
    uint32_t kind, clock, name_id, flow_type, flow_id;
    bool flow_start, dropped; /* dropped: refused, but setLast… may follow */
    int64_t start, end;
    uint64_t correlation_id, external_id;
    int32_t device, resource;
    uint32_t loose_words;
    uint64_t loose[KR_LOOSE_WORDS];
} kr_pending;

struct KinetoPlugin_TraceBuilderHandle {
    uint32_t source; /* whose counters */
    uint32_t open;   /* calls are accepted */
    uint32_t live;   /* has delivered during the session */
    uint64_t kinds;  /* enabled for this session */
    kb_lock lock;    /* guards pending */
    kr_pending *pending[KR_MAX_PENDING];
    KinetoPlugin_TraceBuilder table;
};
typedef struct KinetoPlugin_TraceBuilderHandle kr_builder;

void kr_builder_init(kr_builder *b, uint32_t source);
void kr_builder_open(kr_builder *b, uint64_t kinds);
/** Write what is pending; refuse calls from now on. */
void kr_builder_close(kr_builder *b);
void kr_builder_free(kr_builder *b);

#endif
