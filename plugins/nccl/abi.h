/* The profiler interface of NCCL and RCCL, versions 1 to 6, as far as we use it: own declarations of binary facts
 * (LP64). Every offset is asserted here, and compared with NVIDIA's headers by tests/nccl where these are available. */
#ifndef NC_ABI_H
#define NC_ABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define NC_VERSIONS 6u /* the newest one that is exported */

/** Types of events, and bits of the mask with which a plug-in requests them. */
enum {
    NC_GROUP = 1 << 0,
    NC_COLL = 1 << 1,
    NC_P2P = 1 << 2,
    NC_PROXY_OP = 1 << 3,
    NC_PROXY_STEP = 1 << 4,
    NC_PROXY_CTRL = 1 << 5,
    NC_KERNEL_CH = 1 << 6,
    NC_NET_PLUGIN = 1 << 7, /* since version 3, as the one before */
    NC_GROUP_API = 1 << 8,  /* since version 5 */
    NC_COLL_API = 1 << 9,
    NC_P2P_API = 1 << 10,
    NC_KERNEL_LAUNCH = 1 << 11,
    NC_CE_COLL = 1 << 12, /* since version 6 */
    NC_CE_SYNC = 1 << 13,
    NC_CE_BATCH = 1 << 14
};

/** States of events. */
enum {
    NC_STATE_STEP_FIRST = 8, /* 8 to 12, and 20: steps of the proxy */
    NC_STATE_STEP_LAST = 12,
    NC_STATE_CTRL_FIRST = 13, /* 13 to 18: the proxy's thread */
    NC_STATE_CTRL_IDLE = 13,
    NC_STATE_CTRL_SLEEP = 15,
    NC_STATE_CTRL_LAST = 18,
    NC_STATE_OP_IN_PROGRESS = 19,
    NC_STATE_STEP_PEER_WAIT = 20,
    NC_STATE_NET_UPDATE = 21,
    NC_STATE_KERNEL_CH_STOP = 22,
    NC_STATE_GROUP_STARTED = 23,
    NC_STATE_GROUP_END_CALLED = 24
};

typedef void (*nc_logger)(int level, unsigned long flags, const char *file, int line, const char *format, ...);

/* ---- members that several versions share ------------------------------------------------------ */

/** An operation of the proxy. `pid` is the process to which the parent's handle belongs. */
typedef struct nc_proxy_op {
    pid_t pid;
    uint8_t channel;
    int peer, steps, chunk_bytes, is_send;
} nc_proxy_op;
/** A transfer of it. */
typedef struct nc_proxy_step {
    int step;
} nc_proxy_step;
/** An event that a network plug-in defines. */
typedef struct nc_net {
    int64_t id;
    void *data;
} nc_net;
typedef struct nc_channel { /* version 3 has no timer */
    uint8_t channel;
    uint64_t timer; /* ns of the GPU's globaltimer */
} nc_channel;
typedef struct nc_p2p_old { /* versions 1 to 3; texts of version 1 are numbers, see nc_p2p_1 */
    const char *name;
    uint64_t comm;
    const char *func;
    void *buffer;
    const char *type;
    size_t count;
    int peer;
} nc_p2p_old;

/* ---- descriptors ------------------------------------------------------------------------------ */

/** NCCL 2.23: names are numbers of enumerations. */
typedef struct nc_descriptor_1 {
    uint8_t type;
    void *parent;
    int rank;
    union {
        struct {
            const char *name;
            uint64_t comm, sequence;
            uint8_t func;
            const void *send;
            void *receive;
            size_t count;
            int root;
            uint8_t type;
            uint32_t operation;
            size_t traffic;
            uint8_t channels, warps, algorithm, protocol;
            int is_collnet, is_nvls;
        } coll;
        struct nc_p2p_1 {
            const char *name;
            uint64_t comm;
            uint8_t func;
            void *buffer;
            uint8_t type;
            size_t count;
            int peer;
        } p2p;
        nc_proxy_op proxy_op;
        nc_proxy_step proxy_step;
    };
} nc_descriptor_1;

/** NCCL 2.24: names are texts. */
typedef struct nc_descriptor_2 {
    uint8_t type;
    void *parent;
    int rank;
    union {
        struct {
            const char *name;
            uint64_t comm, sequence;
            const char *func;
            const void *send;
            void *receive;
            size_t count;
            int root;
            const char *type;
            size_t traffic;
            uint8_t channels, warps;
            const char *algorithm, *protocol;
        } coll;
        nc_p2p_old p2p;
        nc_proxy_op proxy_op;
        nc_proxy_step proxy_step;
    };
} nc_descriptor_2;

/** NCCL 2.26: channels of kernels, events of network plug-ins; no traffic. */
typedef struct nc_descriptor_3 {
    uint8_t type;
    void *parent;
    int rank;
    union {
        struct {
            const char *name;
            uint64_t comm, sequence;
            const char *func;
            const void *send;
            void *receive;
            size_t count;
            int root;
            const char *type;
            uint8_t channels, warps;
            const char *algorithm, *protocol;
        } coll;
        nc_p2p_old p2p;
        nc_proxy_op proxy_op;
        nc_proxy_step proxy_step;
        struct {
            uint8_t channel;
        } kernel_ch;
        nc_net net;
    };
} nc_descriptor_3;

/** NCCL 2.27: the communicator is described by init; channels have the time of the GPU. */
typedef struct nc_descriptor_4 {
    uint8_t type;
    void *parent;
    int rank;
    union {
        struct {
            uint64_t sequence;
            const char *func;
            const void *send;
            void *receive;
            size_t count;
            int root;
            const char *type;
            uint8_t channels, warps;
            const char *algorithm, *protocol;
        } coll;
        struct {
            const char *func;
            void *buffer;
            const char *type;
            size_t count;
            int peer;
            uint8_t channels;
        } p2p;
        nc_proxy_op proxy_op;
        nc_proxy_step proxy_step;
        nc_channel kernel_ch;
        nc_net net;
    };
} nc_descriptor_4;

/** NCCL 2.28 (version 5) and 2.29 (version 6).
 *  Version 5 is the same, without the three members of copy engines, and ends where coll does. */
typedef struct nc_descriptor_6 {
    uint64_t type;
    void *parent;
    int rank;
    union {
        struct {
            bool is_captured;
            int depth;
        } group_api;
        struct {
            const char *func;
            size_t count;
            const char *type;
            int root;
            void *stream;
            bool is_captured;
        } coll_api;
        struct {
            const char *func;
            size_t count;
            const char *type;
            void *stream;
            bool is_captured;
        } p2p_api;
        struct {
            void *stream;
        } kernel_launch;
        struct {
            uint64_t sequence;
            const char *func;
            const void *send;
            void *receive;
            size_t count;
            int root;
            const char *type;
            uint8_t channels, warps;
            const char *algorithm, *protocol;
            void *parent_group; /* what `parent` was until version 4 */
        } coll;
        struct {
            const char *func;
            void *buffer;
            const char *type;
            size_t count;
            int peer;
            uint8_t channels;
            void *parent_group;
        } p2p;
        nc_proxy_op proxy_op;
        nc_proxy_step proxy_step;
        nc_channel kernel_ch;
        nc_net net;
        struct {
            uint64_t sequence;
            const char *func;
            const void *send;
            void *receive;
            size_t count;
            int root;
            const char *type, *sync_strategy;
            bool is_synced_in_batch;
            uint32_t batch_size, batches, ce_sequence;
            void *stream;
        } ce_coll;
        struct {
            bool is_complete;
            int ranks;
        } ce_sync;
        struct {
            int operations;
            size_t bytes;
            bool is_synced;
        } ce_batch;
    };
} nc_descriptor_6;

#define NC_DESCRIPTOR_5_BYTES 112u

/* ---- states ----------------------------------------------------------------------------------- */

/** Until version 3. */
typedef union nc_state_1 {
    struct {
        size_t bytes;
        int steps;
    } proxy_op;
    struct {
        int appended;
    } proxy_ctrl;
} nc_state_1;

/** Since version 4: one value, of a type that the state implies. */
typedef union nc_state_4 {
    size_t bytes;
    int appended;
    void *data;
    uint64_t timer;
} nc_state_4;

/* ---- tables ----------------------------------------------------------------------------------- */

/* Functions of init by version; all are called once for each communicator. */
typedef int nc_init_1(void **context, int *mask);
typedef int nc_init_4(void **context, int *mask, const char *name, uint64_t comm, int nodes, int ranks, int rank,
                      nc_logger log);
typedef int nc_init_5(void **context, uint64_t comm, int *mask, const char *name, int nodes, int ranks, int rank,
                      nc_logger log);

/** ncclProfiler_v1 … v6: data symbols of one shape. Functions return 0 or an error of NCCL. */
typedef struct nc_table {
    const char *name;
    union {
        nc_init_1 *init_1; /* until version 3 */
        nc_init_4 *init_4;
        nc_init_5 *init_5; /* since version 5 */
    };
    int (*start)(void *context, void **handle, const void *descriptor);
    int (*stop)(void *handle);
    int (*record)(void *handle, int state, const void *values);
    int (*finalize)(void *context);
} nc_table;

/* ---- facts ------------------------------------------------------------------------------------ */

/* Facts of LP64 systems, from NVIDIA's headers of NCCL 2.23 to 2.30. A member that moved between two versions is listed
 * for each of them; one that is not listed lies as in the version before. Members of types that versions share are
 * listed once. NCCL runs on no other systems. */
#if UINTPTR_MAX == UINT64_MAX
#define NC_AT(version, member, offset)                                                                                 \
    _Static_assert(offsetof(nc_descriptor_##version, member) == (offset), "layout of NCCL's version " #version)
#define NC_BYTES(type, bytes) _Static_assert(sizeof(type) == (bytes), "size of " #type)

NC_BYTES(nc_descriptor_1, 120);
NC_AT(1, parent, 8);
NC_AT(1, rank, 16);
NC_AT(1, coll.name, 24);
NC_AT(1, coll.comm, 32);
NC_AT(1, coll.sequence, 40);
NC_AT(1, coll.func, 48);
NC_AT(1, coll.send, 56);
NC_AT(1, coll.receive, 64);
NC_AT(1, coll.count, 72);
NC_AT(1, coll.root, 80);
NC_AT(1, coll.type, 84);
NC_AT(1, coll.operation, 88);
NC_AT(1, coll.traffic, 96);
NC_AT(1, coll.channels, 104);
NC_AT(1, coll.warps, 105);
NC_AT(1, coll.algorithm, 106);
NC_AT(1, coll.protocol, 107);
NC_AT(1, coll.is_collnet, 108);
NC_AT(1, coll.is_nvls, 112);
NC_AT(1, p2p.name, 24);
NC_AT(1, p2p.comm, 32);
NC_AT(1, p2p.func, 40);
NC_AT(1, p2p.buffer, 48);
NC_AT(1, p2p.type, 56);
NC_AT(1, p2p.count, 64);
NC_AT(1, p2p.peer, 72);

NC_BYTES(nc_descriptor_2, 128);
NC_AT(2, parent, 8);
NC_AT(2, rank, 16);
NC_AT(2, coll.name, 24);
NC_AT(2, coll.comm, 32);
NC_AT(2, coll.sequence, 40);
NC_AT(2, coll.func, 48);
NC_AT(2, coll.send, 56);
NC_AT(2, coll.receive, 64);
NC_AT(2, coll.count, 72);
NC_AT(2, coll.root, 80);
NC_AT(2, coll.type, 88);
NC_AT(2, coll.traffic, 96);
NC_AT(2, coll.channels, 104);
NC_AT(2, coll.warps, 105);
NC_AT(2, coll.algorithm, 112);
NC_AT(2, coll.protocol, 120);
NC_AT(2, p2p.func, 40);
NC_AT(2, p2p.buffer, 48);
NC_AT(2, p2p.type, 56);
NC_AT(2, p2p.count, 64);
NC_AT(2, p2p.peer, 72);

NC_BYTES(nc_descriptor_3, 120);
NC_AT(3, coll.type, 88);
NC_AT(3, coll.channels, 96);
NC_AT(3, coll.warps, 97);
NC_AT(3, coll.algorithm, 104);
NC_AT(3, coll.protocol, 112);
NC_AT(3, p2p.peer, 72);
NC_AT(3, kernel_ch.channel, 24);
NC_AT(3, net.id, 24);
NC_AT(3, net.data, 32);

NC_BYTES(nc_descriptor_4, 104);
NC_AT(4, parent, 8);
NC_AT(4, rank, 16);
NC_AT(4, coll.sequence, 24);
NC_AT(4, coll.func, 32);
NC_AT(4, coll.send, 40);
NC_AT(4, coll.receive, 48);
NC_AT(4, coll.count, 56);
NC_AT(4, coll.root, 64);
NC_AT(4, coll.type, 72);
NC_AT(4, coll.channels, 80);
NC_AT(4, coll.warps, 81);
NC_AT(4, coll.algorithm, 88);
NC_AT(4, coll.protocol, 96);
NC_AT(4, p2p.func, 24);
NC_AT(4, p2p.buffer, 32);
NC_AT(4, p2p.type, 40);
NC_AT(4, p2p.count, 48);
NC_AT(4, p2p.peer, 56);
NC_AT(4, p2p.channels, 60);
NC_AT(4, proxy_op.pid, 24);
NC_AT(4, proxy_op.channel, 28);
NC_AT(4, proxy_op.peer, 32);
NC_AT(4, proxy_op.steps, 36);
NC_AT(4, proxy_op.chunk_bytes, 40);
NC_AT(4, proxy_op.is_send, 44);
NC_AT(4, proxy_step.step, 24);
NC_AT(4, kernel_ch.channel, 24);
NC_AT(4, kernel_ch.timer, 32);
NC_AT(4, net.id, 24);
NC_AT(4, net.data, 32);

NC_BYTES(nc_descriptor_6, 112);
NC_AT(6, parent, 8);
NC_AT(6, rank, 16);
NC_AT(6, group_api.is_captured, 24);
NC_AT(6, group_api.depth, 28);
NC_AT(6, coll_api.func, 24);
NC_AT(6, coll_api.count, 32);
NC_AT(6, coll_api.type, 40);
NC_AT(6, coll_api.root, 48);
NC_AT(6, coll_api.stream, 56);
NC_AT(6, coll_api.is_captured, 64);
NC_AT(6, p2p_api.stream, 48);
NC_AT(6, p2p_api.is_captured, 56);
NC_AT(6, kernel_launch.stream, 24);
NC_AT(6, coll.sequence, 24);
NC_AT(6, coll.protocol, 96);
NC_AT(6, coll.parent_group, 104);
NC_AT(6, p2p.channels, 60);
NC_AT(6, p2p.parent_group, 64);
NC_AT(6, proxy_op.is_send, 44);
NC_AT(6, kernel_ch.timer, 32);
NC_AT(6, net.data, 32);
NC_AT(6, ce_coll.sequence, 24);
NC_AT(6, ce_coll.func, 32);
NC_AT(6, ce_coll.send, 40);
NC_AT(6, ce_coll.receive, 48);
NC_AT(6, ce_coll.count, 56);
NC_AT(6, ce_coll.root, 64);
NC_AT(6, ce_coll.type, 72);
NC_AT(6, ce_coll.sync_strategy, 80);
NC_AT(6, ce_coll.is_synced_in_batch, 88);
NC_AT(6, ce_coll.batch_size, 92);
NC_AT(6, ce_coll.batches, 96);
NC_AT(6, ce_coll.ce_sequence, 100);
NC_AT(6, ce_coll.stream, 104);
NC_AT(6, ce_sync.is_complete, 24);
NC_AT(6, ce_sync.ranks, 28);
NC_AT(6, ce_batch.operations, 24);
NC_AT(6, ce_batch.bytes, 32);
NC_AT(6, ce_batch.is_synced, 40);

NC_BYTES(nc_state_1, 16);
NC_BYTES(nc_state_4, 8);
NC_BYTES(nc_table, 48);
_Static_assert(offsetof(nc_table, init_1) == 8 && offsetof(nc_table, start) == 16 && offsetof(nc_table, stop) == 24 &&
                   offsetof(nc_table, record) == 32 && offsetof(nc_table, finalize) == 40,
               "layout of NCCL's table");
#undef NC_AT
#undef NC_BYTES
#endif
#endif
