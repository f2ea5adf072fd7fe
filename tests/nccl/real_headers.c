/* Our declarations compared with NVIDIA's, and a host that is compiled with theirs: real_headers VERSION. */
#include <stdint.h>
#include <sys/types.h>

#include "nccl/err.h"
#include "nccl/profiler.h"

#include "abi.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define AT(v, ours, theirs)                                                                                            \
    _Static_assert(offsetof(nc_descriptor_##v, ours) == offsetof(ncclProfilerEventDescr_v##v##_t, theirs), #v " " #theirs)
#define COLL(v)                                                                                                        \
    AT(v, parent, parentObj);                                                                                          \
    AT(v, rank, rank);                                                                                                 \
    AT(v, coll.sequence, coll.seqNumber);                                                                              \
    AT(v, coll.func, coll.func);                                                                                       \
    AT(v, coll.send, coll.sendBuff);                                                                                   \
    AT(v, coll.receive, coll.recvBuff);                                                                                \
    AT(v, coll.count, coll.count);                                                                                     \
    AT(v, coll.root, coll.root);                                                                                       \
    AT(v, coll.type, coll.datatype);                                                                                   \
    AT(v, coll.warps, coll.nWarps);                                                                                    \
    AT(v, coll.algorithm, coll.algo);                                                                                  \
    AT(v, coll.protocol, coll.proto);                                                                                  \
    AT(v, p2p.func, p2p.func);                                                                                         \
    AT(v, p2p.buffer, p2p.buff);                                                                                       \
    AT(v, p2p.type, p2p.datatype);                                                                                     \
    AT(v, p2p.count, p2p.count);                                                                                       \
    AT(v, p2p.peer, p2p.peer);                                                                                         \
    AT(v, proxy_op.pid, proxyOp.pid);                                                                                  \
    AT(v, proxy_op.channel, proxyOp.channelId);                                                                        \
    AT(v, proxy_op.peer, proxyOp.peer);                                                                                \
    AT(v, proxy_op.steps, proxyOp.nSteps);                                                                             \
    AT(v, proxy_op.chunk_bytes, proxyOp.chunkSize);                                                                    \
    AT(v, proxy_op.is_send, proxyOp.isSend);                                                                           \
    AT(v, proxy_step.step, proxyStep.step)
#define NAMED(v)                                                                                                       \
    AT(v, coll.name, coll.name);                                                                                       \
    AT(v, coll.comm, coll.commHash);                                                                                   \
    AT(v, coll.channels, coll.nMaxChannels);                                                                           \
    AT(v, p2p.name, p2p.name);                                                                                         \
    AT(v, p2p.comm, p2p.commHash)
#define NET(v)                                                                                                         \
    AT(v, kernel_ch.channel, kernelCh.channelId);                                                                      \
    AT(v, net.id, netPlugin.id);                                                                                       \
    AT(v, net.data, netPlugin.data)
#define TIMED(v)                                                                                                       \
    AT(v, coll.channels, coll.nChannels);                                                                              \
    AT(v, p2p.channels, p2p.nChannels);                                                                                \
    AT(v, kernel_ch.timer, kernelCh.pTimer)
#define SIZE(v)                                                                                                        \
    _Static_assert(sizeof(nc_descriptor_##v) == sizeof(ncclProfilerEventDescr_v##v##_t), "size of descriptor " #v);    \
    _Static_assert(sizeof(nc_table) == sizeof(ncclProfiler_v##v##_t), "size of table " #v);                            \
    _Static_assert(offsetof(nc_table, record) == offsetof(ncclProfiler_v##v##_t, recordEventState), "table " #v);      \
    _Static_assert(offsetof(nc_table, finalize) == offsetof(ncclProfiler_v##v##_t, finalize), "table " #v)
#define STATE(v, type) _Static_assert(sizeof(type) == sizeof(ncclProfilerEventStateArgs_v##v##_t), "state " #v)
COLL(1);
NAMED(1);
AT(1, coll.operation, coll.op);
AT(1, coll.traffic, coll.trafficBytes);
AT(1, coll.is_collnet, coll.isCollnet);
AT(1, coll.is_nvls, coll.isNvls);
SIZE(1);
STATE(1, nc_state_1);
COLL(2);
NAMED(2);
AT(2, coll.traffic, coll.trafficBytes);
SIZE(2);
STATE(2, nc_state_1);
#if NEWEST >= 3
COLL(3);
NAMED(3);
NET(3);
SIZE(3);
STATE(3, nc_state_1);
#endif
#if NEWEST >= 4
COLL(4);
NET(4);
TIMED(4);
SIZE(4);
STATE(4, nc_state_4);
#endif
#if NEWEST >= 5
typedef nc_descriptor_6 nc_descriptor_5;
#define CALLS(v)                                                                                                       \
    COLL(v);                                                                                                           \
    NET(v);                                                                                                            \
    TIMED(v);                                                                                                          \
    SIZE(v);                                                                                                           \
    STATE(v, nc_state_4);                                                                                              \
    AT(v, coll.parent_group, coll.parentGroup);                                                                        \
    AT(v, p2p.parent_group, p2p.parentGroup);                                                                          \
    AT(v, group_api.is_captured, groupApi.graphCaptured);                                                              \
    AT(v, group_api.depth, groupApi.groupDepth);                                                                       \
    AT(v, coll_api.func, collApi.func);                                                                                \
    AT(v, coll_api.count, collApi.count);                                                                              \
    AT(v, coll_api.type, collApi.datatype);                                                                            \
    AT(v, coll_api.root, collApi.root);                                                                                \
    AT(v, coll_api.stream, collApi.stream);                                                                            \
    AT(v, coll_api.is_captured, collApi.graphCaptured);                                                                \
    AT(v, p2p_api.func, p2pApi.func);                                                                                  \
    AT(v, p2p_api.count, p2pApi.count);                                                                                \
    AT(v, p2p_api.type, p2pApi.datatype);                                                                              \
    AT(v, p2p_api.stream, p2pApi.stream);                                                                              \
    AT(v, p2p_api.is_captured, p2pApi.graphCaptured);                                                                  \
    AT(v, kernel_launch.stream, kernelLaunch.stream)
CALLS(5);
#endif
#if NEWEST >= 6
CALLS(6);
AT(6, ce_coll.sequence, ceColl.seqNumber);
AT(6, ce_coll.func, ceColl.func);
AT(6, ce_coll.count, ceColl.count);
AT(6, ce_coll.root, ceColl.root);
AT(6, ce_coll.type, ceColl.datatype);
AT(6, ce_coll.sync_strategy, ceColl.syncStrategy);
AT(6, ce_coll.is_synced_in_batch, ceColl.intraBatchSync);
AT(6, ce_coll.batch_size, ceColl.batchSize);
AT(6, ce_coll.batches, ceColl.numBatches);
AT(6, ce_coll.ce_sequence, ceColl.ceSeqNum);
AT(6, ce_coll.stream, ceColl.stream);
AT(6, ce_sync.is_complete, ceCollSync.isComplete);
AT(6, ce_sync.ranks, ceCollSync.nRanks);
AT(6, ce_batch.operations, ceCollBatch.numOps);
AT(6, ce_batch.bytes, ceCollBatch.totalBytes);
AT(6, ce_batch.is_synced, ceCollBatch.useIntraSync);
#endif
#define SAME(a, b) _Static_assert((int)(a) == (int)(b), #b)
SAME(NC_GROUP, ncclProfileGroup);
SAME(NC_COLL, ncclProfileColl);
SAME(NC_P2P, ncclProfileP2p);
SAME(NC_PROXY_OP, ncclProfileProxyOp);
SAME(NC_PROXY_STEP, ncclProfileProxyStep);
SAME(NC_PROXY_CTRL, ncclProfileProxyCtrl);
#if NEWEST >= 4
SAME(NC_KERNEL_CH, ncclProfileKernelCh);
SAME(NC_NET_PLUGIN, ncclProfileNetPlugin);
SAME(NC_STATE_OP_IN_PROGRESS, ncclProfilerProxyOpInProgress_v4);
SAME(NC_STATE_STEP_PEER_WAIT, ncclProfilerProxyStepSendPeerWait_v4);
SAME(NC_STATE_KERNEL_CH_STOP, ncclProfilerKernelChStop);
SAME(NC_STATE_NET_UPDATE, ncclProfilerNetPluginUpdate);
#endif
SAME(NC_STATE_STEP_FIRST, ncclProfilerProxyStepSendGPUWait);
SAME(NC_STATE_STEP_LAST, ncclProfilerProxyStepRecvGPUWait);
SAME(NC_STATE_CTRL_FIRST, ncclProfilerProxyCtrlIdle);
SAME(NC_STATE_CTRL_LAST, ncclProfilerProxyCtrlAppendEnd);
#if NEWEST >= 6
SAME(NC_GROUP_API, ncclProfileGroupApi);
SAME(NC_KERNEL_LAUNCH, ncclProfileKernelLaunch);
SAME(NC_CE_COLL, ncclProfileCeColl);
SAME(NC_CE_BATCH, ncclProfileCeBatch);
#endif

/* ---- a host ---------------------------------------------------------------------------------------- */

static void *library;
static int mask, errors;
static void log_nothing(ncclDebugLogLevel level, unsigned long flags, const char *file, int line, const char *format, ...) {}

#define START(v, set)                                                                                                  \
    ({                                                                                                                 \
        ncclProfilerEventDescr_v##v##_t d;                                                                             \
        void *handle_ = NULL;                                                                                          \
        memset(&d, 0, sizeof d);                                                                                       \
        set;                                                                                                           \
        errors += p->startEvent(context, &handle_, &d) != ncclSuccess;                                                 \
        handle_;                                                                                                       \
    })
#define STOP(h) (errors += p->stopEvent(h) != ncclSuccess)
#define NUMBERS(v) d.coll.func = 4, d.coll.datatype = 7, d.coll.algo = 1, d.coll.proto = 2
#define TEXTS(v) d.coll.func = "AllReduce", d.coll.datatype = "ncclFloat32", d.coll.algo = "RING", d.coll.proto = "LL"
#define RUN(v, init_, texts, send_func, parents, more)                                                                 \
    static void run_##v(void)                                                                                          \
    {                                                                                                                  \
        ncclProfiler_v##v##_t *p = dlsym(library, "ncclProfiler_v" #v);                                                \
        void *context = NULL, *api = NULL;                                                                             \
        errors += init_ != ncclSuccess;                                                                                \
        more;                                                                                                          \
        void *group = START(v, d.type = ncclProfileGroup);                                                             \
        void *coll = START(v, (d.type = ncclProfileColl, texts(v), d.coll.count = 4096, d.coll.seqNumber = 7, parents)); \
        void *op = START(v, (d.type = ncclProfileProxyOp, d.parentObj = coll, d.proxyOp.pid = getpid(), d.proxyOp.peer = 1)); \
        void *step = START(v, (d.type = ncclProfileProxyStep, d.parentObj = op, d.proxyStep.step = 3));                \
        ncclProfilerEventStateArgs_v##v##_t a;                                                                         \
        memset(&a, 0, sizeof a);                                                                                       \
        *(size_t *)&a = v >= 4 ? 512 : 513;                                                                            \
        errors += p->recordEventState(step, ncclProfilerProxyStepSendWait, &a) != ncclSuccess;                         \
        STOP(step);                                                                                                    \
        STOP(op);                                                                                                      \
        STOP(coll);                                                                                                    \
        STOP(START(v, (d.type = ncclProfileP2p, send_func, d.p2p.peer = 1)));                                          \
        STOP(group);                                                                                                   \
        errors += p->finalize(context) != ncclSuccess;                                                                 \
    }
RUN(1, p->init(&context, &mask), NUMBERS, (d.p2p.func = 6, d.p2p.datatype = 7), d.parentObj = group, )
RUN(2, p->init(&context, &mask), TEXTS, (d.p2p.func = "Send", d.p2p.datatype = "ncclFloat32"), d.parentObj = group, )
#if NEWEST >= 3
RUN(3, p->init(&context, &mask), TEXTS, (d.p2p.func = "Send", d.p2p.datatype = "ncclFloat32"), d.parentObj = group, )
#endif
#if NEWEST >= 4
RUN(4, p->init(&context, &mask, "real", 0x44, 1, 2, 0, log_nothing), TEXTS,
    (d.p2p.func = "Send", d.p2p.datatype = "ncclFloat32"), d.parentObj = group, )
#endif
#define CALL(v)                                                                                                        \
    api = START(v, (d.type = ncclProfileCollApi, d.collApi.func = "AllReduce", d.collApi.count = 4096, d.collApi.stream = &mask)); \
    STOP(api)
#if NEWEST >= 5
RUN(5, p->init(&context, 0x44, &mask, "real", 1, 2, 0, log_nothing), TEXTS,
    (d.p2p.func = "Send", d.p2p.datatype = "ncclFloat32"), (d.parentObj = api, d.coll.parentGroup = group), CALL(5))
#endif
#if NEWEST >= 6
RUN(6, p->init(&context, 0x44, &mask, "real", 1, 2, 0, log_nothing), TEXTS,
    (d.p2p.func = "Send", d.p2p.datatype = "ncclFloat32"), (d.parentObj = api, d.coll.parentGroup = group),
    CALL(6); STOP(START(6, (d.type = ncclProfileCeColl, d.ceColl.func = "AllGather", d.ceColl.datatype = "ncclInt8"))))
#endif

int main(int argc, char **argv)
{
    static void (*const runs[])(void) = {NULL, run_1, run_2,
#if NEWEST >= 3
                                         run_3,
#endif
#if NEWEST >= 4
                                         run_4,
#endif
#if NEWEST >= 5
                                         run_5,
#endif
#if NEWEST >= 6
                                         run_6,
#endif
    };
    library = dlopen(getenv("NCCL_PROFILER_PLUGIN"), RTLD_NOW | RTLD_LOCAL);
    if (!library || argc < 2)
        return 2;
    runs[atoi(argv[1])]();
    return errors != 0;
}
