/* Communicators: who they are, which events NCCL is asked for, the rows of each in the trace, and the rank of the process.
 *
 * NCCL has one mask of events, to which each plug-in keeps a pointer and may store at any time; NVIDIA's example does so.
 * So the value that another one has stored is told from our own by what we stored last, and is what it wants; ours is added
 * to it. A communicator that begins or ends, and a session that begins or ends, set the mask anew.
 * While nothing records ours asks for collectives only, which it counts, so that all ranks agree about their numbers. */
#include "nccl.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COMM_FREE, COMM_BEGUN, COMM_OPEN };
#define MAX_MASKS 16u

static nc_comm comms[NC_MAX_COMMS];
static nc_mask masks[MAX_MASKS];
static uint32_t comm_count; /* all that ever were */
static pthread_mutex_t comms_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- masks ------------------------------------------------------------------------------------ */

/* Collectives always: without them numbers would differ between ranks. */
static int wanted_mask(void) { return nc_session() ? nc_session_mask() | NC_COLL : NC_COLL; }

/* With the lock. What another one has stored since we did is what the other plug-in wants. */
static void update_mask(nc_mask *m)
{
    int *at = atomic_load(&m->at);
    if (!at)
        return;
    int now = __atomic_load_n(at, __ATOMIC_RELAXED);
    if (now != atomic_load(&m->written))
        atomic_store(&m->of_next, now);
    int wanted = atomic_load(&m->of_next) | wanted_mask();
    atomic_store(&m->written, wanted);
    __atomic_store_n(at, wanted, __ATOMIC_RELAXED);
}

void nc_masks_update(void)
{
    (void)pthread_mutex_lock(&comms_lock);
    for (size_t i = 0; i < MAX_MASKS; i++)
        if (masks[i].users)
            update_mask(&masks[i]);
    (void)pthread_mutex_unlock(&comms_lock);
}

/* Without the lock only to see that nothing has changed, which is nearly always so. */
void nc_mask_check(nc_comm *comm)
{
    int *at = atomic_load_explicit(&comm->mask->at, memory_order_relaxed);
    if (at && __atomic_load_n(at, __ATOMIC_RELAXED) != atomic_load_explicit(&comm->mask->written, memory_order_relaxed))
        nc_masks_update();
}

/* With the lock. The last one stays if there are too many, which needs as many copies of NCCL. */
static nc_mask *use_mask(int *at)
{
    nc_mask *m = NULL;
    for (size_t i = 0; i < MAX_MASKS && !m; i++)
        if (atomic_load(&masks[i].at) == at)
            m = &masks[i];
    for (size_t i = 0; i < MAX_MASKS && !m; i++)
        if (!masks[i].users) {
            m = &masks[i];
            atomic_store(&m->written, __atomic_load_n(at, __ATOMIC_RELAXED));
            atomic_store(&m->of_next, 0);
            atomic_store(&m->at, at);
        }
    if (m)
        m->users++;
    return m;
}

/* With the lock. Nothing is stored any more: NCCL may be unloaded. */
static void release_mask(nc_mask *m)
{
    if (--m->users == 0)
        atomic_store(&m->at, NULL);
}

/* ---- the rank of the process ------------------------------------------------------------------ */

static long read_env_number(const char *name)
{
    const char *text = secure_getenv(name);
    char *end;
    long n = text && *text ? strtol(text, &end, 10) : -1;
    return text && *text && !*end ? n : -1;
}

/* How many processes the launcher has started; -1: not known. */
static long world_size(void)
{
    static const char *const names[] = {"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"};
    long size = -1;
    for (size_t i = 0; i < NC_COUNT(names) && size < 0; i++)
        size = read_env_number(names[i]);
    return size;
}

/* Sources of MPI know the rank, too, and also of ranks without NCCL. */
static bool has_mpi_source(void)
{
    const char *preloaded = secure_getenv("LD_PRELOAD");
    return preloaded && strstr(preloaded, "libckineto-mpi");
}

/* By which ranks of one host are known to have one clock. */
static void set_host_name(void)
{
    char name[256] = "", text[sizeof name + 2];
    if (gethostname(name, sizeof name - 1) || !name[0] || strpbrk(name, "\"\\"))
        return;
    snprintf(text, sizeof text, "\"%s\"", name);
    (void)kineto_process_set_metadata("host_name", text);
}

/* Has the process another rank of the same communicator? With the lock. */
static bool has_other_rank(const nc_comm *c)
{
    for (size_t i = 0; i < NC_MAX_COMMS; i++)
        if (atomic_load(&comms[i].state) != COMM_FREE && nc_get(&comms[i].id) == nc_get(&c->id) &&
            comms[i].rank != c->rank)
            return true;
    return false;
}

/* By the largest communicator so far, unless the process has several of its ranks. With the lock. */
static void announce_rank(const nc_comm *c)
{
    static int largest;
    static char last[160];
    char text[sizeof last];
    if (c->rank < 0 || c->ranks < largest || has_mpi_source())
        return;
    if (has_other_rank(c))
        snprintf(text, sizeof text, "{\"backend\":\"nccl\",\"world_size\":%d}", c->ranks);
    else if (c->ranks > largest)
        snprintf(text, sizeof text, "{\"backend\":\"nccl\",\"rank\":%d,\"world_size\":%d}", c->rank, c->ranks);
    else
        return;
    largest = c->ranks;
    if (strcmp(text, last) == 0)
        return;
    memcpy(last, text, sizeof last);
    set_host_name();
    (void)kineto_process_set_metadata("ckineto_rank", text);
}

/* ---- adding and removing ---------------------------------------------------------------------- */

/* Names go into the trace as they are: control characters are replaced. */
static void copy_name(char *to, const char *name)
{
    snprintf(to, NC_NAME_BYTES, "%s", name ? name : "");
    for (char *at = to; *at; at++)
        if ((unsigned char)*at < 0x20 || (unsigned char)*at == 0x7f)
            *at = '?';
}

/* With the lock, before the state lets others see it. */
static void describe_comm(nc_comm *c, unsigned version, const nc_comm_facts *facts)
{
    c->version = version;
    c->next = NULL;
    c->next_context = NULL;
    c->number = comm_count++;
    nc_set(&c->id, facts->id);
    c->nodes = facts->nodes;
    c->ranks = facts->ranks;
    c->rank = facts->rank;
    c->gpu = nc_current_gpu();
    c->is_world = facts->ranks > 0 && facts->ranks == world_size();
    copy_name(c->name, facts->name);
    nc_set(&c->sequence, 0);
    nc_set(&c->last_begin, kineto_record_ticks());
    nc_set(&c->last_launch, 0);
    atomic_store(&c->rows_session, 0);
    memset(c->sets, 0, sizeof c->sets);
    c->launch.is_open = false;
    atomic_flag_clear(&c->is_busy);
}

/* It is open when the other plug-in has been called, too. */
nc_comm *nc_comm_add(unsigned version, const nc_comm_facts *facts)
{
    nc_comm *c = NULL;
    (void)pthread_mutex_lock(&comms_lock);
    for (size_t i = 0; i < NC_MAX_COMMS && !c; i++)
        if (atomic_load(&comms[i].state) == COMM_FREE)
            c = &comms[i];
    nc_mask *mask = c ? use_mask(facts->mask) : NULL;
    if (mask) {
        describe_comm(c, version, facts);
        c->mask = mask;
        announce_rank(c);
        atomic_store_explicit(&c->state, COMM_BEGUN, memory_order_release);
    }
    (void)pthread_mutex_unlock(&comms_lock);
    return mask ? c : NULL;
}

void nc_comm_open(nc_comm *comm)
{
    atomic_store_explicit(&comm->state, COMM_OPEN, memory_order_release);
    nc_masks_update();
}

/* By the address alone, so that a wrong pointer is never read. */
nc_comm *nc_comm_of(void *context)
{
    uintptr_t first = (uintptr_t)comms, at = (uintptr_t)context;
    if (at < first || at >= first + sizeof comms || (at - first) % sizeof *comms)
        return NULL;
    nc_comm *c = context;
    return atomic_load_explicit(&c->state, memory_order_acquire) == COMM_OPEN ? c : NULL;
}

/* Its memory stays, for events that end later. */
void nc_comm_remove(nc_comm *comm)
{
    (void)pthread_mutex_lock(&comms_lock);
    unsigned open = COMM_OPEN;
    if (atomic_compare_exchange_strong(&comm->state, &open, COMM_FREE))
        release_mask(comm->mask);
    (void)pthread_mutex_unlock(&comms_lock);
}

/* The number of ranks stays unknown in these versions. */
NC_COLD static void learn_comm(nc_comm *comm, const nc_event *e)
{
    (void)pthread_mutex_lock(&comms_lock);
    if (!comm->name[0] && e->comm_name)
        copy_name(comm->name, e->comm_name);
    comm->rank = e->rank;
    nc_set(&comm->id, e->comm_id);
    (void)pthread_mutex_unlock(&comms_lock);
}

void nc_comm_learn(nc_comm *comm, const nc_event *e)
{
    if (comm->version <= 3 && e->comm_id && nc_get(&comm->id) == 0)
        learn_comm(comm, e);
}

void nc_comms_visit(void (*visit)(nc_comm *comm))
{
    for (size_t i = 0; i < NC_MAX_COMMS; i++)
        if (atomic_load_explicit(&comms[i].state, memory_order_acquire) == COMM_OPEN)
            visit(&comms[i]);
}

/* The child of a fork has no NCCL that works, and one thread. */
void nc_comms_after_fork(void)
{
    (void)pthread_mutex_init(&comms_lock, NULL);
    for (size_t i = 0; i < NC_MAX_COMMS; i++) {
        atomic_flag_clear(&comms[i].is_busy);
        comms[i].launch.is_open = false;
    }
}

/* ---- rows ------------------------------------------------------------------------------------- */

/* The rows of nccl.h, by their numbers. */
static void write_row_name(int32_t row, char *to, size_t size)
{
    static const char *const names[] = {"collectives", "groups", "copy engine", "proxy", "network"};
    if (row < (int32_t)NC_COUNT(names))
        snprintf(to, size, "%s", names[row]);
    else if (row < NC_ROW_PROXY_SEND)
        snprintf(to, size, "channel %d", (int)(row - NC_ROW_CHANNEL));
    else if (row < NC_ROW_PROXY_RECV)
        snprintf(to, size, "proxy send, channel %d", (int)(row - NC_ROW_PROXY_SEND));
    else
        snprintf(to, size, "proxy receive, channel %d", (int)(row - NC_ROW_PROXY_RECV));
}

/* The device row. Its number is that of the communicator, which is never given again. */
static void announce_comm(const KinetoPlugin_TraceBuilder *builder, const nc_comm *c)
{
    char name[NC_NAME_BYTES + 48], label[64];
    if (c->name[0])
        snprintf(name, sizeof name, "NCCL communicator %s", c->name);
    else
        snprintf(name, sizeof name, "NCCL communicator %llx", (unsigned long long)nc_get(&c->id));
    if (c->rank >= 0 && c->ranks > 0)
        snprintf(label, sizeof label, "rank %d of %d", c->rank, c->ranks);
    else
        snprintf(label, sizeof label, "rank %d", c->rank);
    KinetoPlugin_ProfileDeviceInfo info = {
        .unpaddedStructSize = KINETO_PLUGIN_SIZE(KinetoPlugin_ProfileDeviceInfo, pLabel),
        .deviceId = NC_FIRST_DEVICE + (int64_t)c->number,
        .sortIndex = 6000000 + (int64_t)c->number,
        .pName = name,
        .pLabel = label};
    (void)builder->addDeviceInfo(builder->pTraceBuilderHandle, &info);
}

/* A row of the device. */
static void announce_resource(const KinetoPlugin_TraceBuilder *builder, const nc_comm *c, int32_t row)
{
    char name[64];
    write_row_name(row, name, sizeof name);
    KinetoPlugin_ProfileResourceInfo info = {
        .unpaddedStructSize = KINETO_PLUGIN_SIZE(KinetoPlugin_ProfileResourceInfo, pName),
        .deviceId = NC_FIRST_DEVICE + (int32_t)c->number,
        .resourceId = row,
        .displayOrder = row,
        .pName = name};
    (void)builder->addResourceInfo(builder->pTraceBuilderHandle, &info);
}

/* Another thread may have announced it since the caller looked. */
NC_COLD static void announce_new_row(const KinetoPlugin_TraceBuilder *builder, nc_comm *c, int32_t row)
{
    uint32_t session = nc_session();
    (void)pthread_mutex_lock(&comms_lock);
    if (atomic_load(&c->rows_session) != session) {
        for (size_t i = 0; i < NC_COUNT(c->rows); i++)
            nc_set(&c->rows[i], 0);
        announce_comm(builder, c);
        atomic_store(&c->rows_session, session);
    }
    uint64_t bit = UINT64_C(1) << row % 64;
    if (!(atomic_fetch_or(&c->rows[row / 64], bit) & bit))
        announce_resource(builder, c, row);
    (void)pthread_mutex_unlock(&comms_lock);
}

void nc_announce_row(const KinetoPlugin_TraceBuilder *builder, const nc_facts *f, int32_t row)
{
    nc_comm *c = f->comm;
    bool is_known = atomic_load_explicit(&c->rows_session, memory_order_relaxed) == nc_session() &&
                    (nc_get(&c->rows[row / 64]) >> row % 64 & 1);
    if (!is_known && c->number == f->comm_number)
        announce_new_row(builder, c, row);
}
