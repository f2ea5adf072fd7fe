/* A plug-in that is part of a benchmark and does nothing. Benchmarks override the measured
 * functions:
 *
 *     static const KinetoPlugin_ProfilerInterface mine = {
 *         NULL_PLUGIN, .profilerPushCorrelationId = push_id};
 */
#ifndef BENCH_NULL_PLUGIN_H
#define BENCH_NULL_PLUGIN_H

#include <ckineto/ckineto.h>
#include <ckineto/plugin.h>

#include <stdio.h>

/* The host's builder; set when a session starts. */
static const KinetoPlugin_TraceBuilder *builder;

/* Names end with a number: a host accepts each name once. */
static inline int null_query(KinetoPlugin_ProfilerQuery_Params *p)
{
    static int n;
    (void)snprintf(p->pProfilerName, p->profilerNameMaxLen, "bench %d", n++);
    p->pSupportedActivityTypes[0] = KINETO_PLUGIN_PROFILE_EVENT_TYPE_CONCURRENT_KERNEL;
    return 0;
}
static inline int null_create(KinetoPlugin_ProfilerCreate_Params *p)
{
    p->pProfilerHandle = (KinetoPlugin_ProfilerHandle *)(void *)&builder;
    return 0;
}
static inline int null_start(KinetoPlugin_ProfilerStart_Params *p)
{
    builder = p->pLiveBuilder;
    return 0;
}
static inline int null_stop(KinetoPlugin_ProfilerStop_Params *p)
{
    (void)p;
    return 0;
}
static inline int null_process(KinetoPlugin_ProfilerProcessEvents_Params *p)
{
    (void)p;
    return 0;
}
static inline int null_destroy(KinetoPlugin_ProfilerDestroy_Params *p)
{
    (void)p;
    return 0;
}

/* Its size is the one that hosts of every revision accept. */
#define NULL_PLUGIN                                                                                \
    .unpaddedStructSize =                                                                          \
        KINETO_PLUGIN_SIZE(KinetoPlugin_ProfilerInterface, profilerProcessEvents),                 \
    .profilerQuery = null_query, .profilerCreate = null_create, .profilerDestroy = null_destroy,   \
    .profilerStart = null_start, .profilerStop = null_stop, .profilerProcessEvents = null_process

#endif
