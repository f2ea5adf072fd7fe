/* Events as activities. Calls and launches are ranges of their thread; all else is on rows below the communicator. Times are
 * the host's at which NCCL reported them, except of kernels' channels, and of collectives whose channels are known: these
 * are the GPU's. */
#include "nccl.h"

#define MAX_ITEMS 10u

typedef struct row {
    KinetoPlugin_Activity activity;
    KinetoPlugin_Metadata items[MAX_ITEMS];
} row;

/* MAX_ITEMS covers all that a row adds. */
static void add_item(row *r, const char *key, int32_t type, uint64_t value)
{
    KinetoPlugin_Metadata *m = &r->items[r->activity.metadataCount++];
    *m = (KinetoPlugin_Metadata){.pKey = key, .valueType = type, .count = 1, .u = value};
}

static void add_row_number(row *r, const char *key, int64_t value)
{
    add_item(r, key, KINETO_PLUGIN_VALUE_INT, (uint64_t)value);
}

/* Times are the host's until use_gpu_times replaces them. */
static void begin_row(row *r, const nc_facts *f, int32_t type, uint64_t end)
{
    r->activity = (KinetoPlugin_Activity){
        .unpaddedStructSize = KINETO_PLUGIN_SIZE(KinetoPlugin_Activity, metadataSet),
        .event = {.unpaddedStructSize = KINETO_PLUGIN_SIZE(KinetoPlugin_ProfileEvent, resourceId),
                  .eventType = type,
                  .startTimeUtcNs = (int64_t)f->begin,
                  .endTimeUtcNs = (int64_t)(end > f->begin ? end : f->begin)},
        .clock = KINETO_PLUGIN_CLOCK_TICKS,
        .pMetadata = r->items,
        .metadataSet = f->set,
    };
}

static void set_name(row *r, const char *name, uint32_t size)
{
    r->activity.pName = name;
    r->activity.nameSize = size;
}
#define SET_NAME(r, literal) set_name(r, literal, sizeof(literal) - 1)

/* The host copies all before it returns, names too. */
static void emit_row(const KinetoPlugin_TraceBuilder *builder, row *r)
{
    (void)builder->emit(builder->pTraceBuilderHandle, &r->activity); /* the host counts what it refuses */
}

/* ---- ranges of threads ------------------------------------------------------------------------ */

static void begin_thread_row(row *r, const nc_facts *f, int32_t type, uint64_t end)
{
    begin_row(r, f, type, end);
    r->activity.event.processId = (int32_t)nc_process_id();
    r->activity.event.threadId = (int32_t)f->thread;
}

/* By this number the analyses join the rows of all ranks. */
static void add_sequence(row *r, const nc_facts *f)
{
    if (f->sequence == NC_NO_SEQUENCE)
        return;
    add_row_number(r, "Seq", (int64_t)f->sequence);
}

/* A rank of the communicator is one of the job only where both have the same ranks. */
static void add_peer(row *r, const nc_facts *f, bool is_sent)
{
    if (f->peer < 0)
        return;
    add_row_number(r, !f->comm->is_world ? "Peer Rank" : is_sent ? "Dst Rank" : "Src Rank", f->peer);
}

static bool is_sending(const nc_facts *f) { return f->func->size && f->func->text[0] == 'S'; }

/* A call of the program: ncclAllReduce, ncclSend, or a group of them. */
static void describe_call(row *r, const nc_facts *f, uint64_t end)
{
    begin_thread_row(r, f, KINETO_PLUGIN_PROFILE_EVENT_TYPE_RUNTIME, end);
    r->activity.metadataSet = 0;
    if (f->type == NC_GROUP_API) {
        SET_NAME(r, "ncclGroup");
    } else {
        set_name(r, f->func->call, f->func->call_size);
        add_row_number(r, "count", (int64_t)f->count);
        add_item(r, "stream handle", KINETO_PLUGIN_VALUE_UINT, f->value);
    }
    if (f->is_captured)
        add_item(r, "captured", KINETO_PLUGIN_VALUE_BOOL, 1);
}

/* The name and arguments of a range by which device kernels are joined with their collective. */
static void describe_operation(row *r, const nc_facts *operation)
{
    set_name(r, operation->func->name, operation->func->name_size);
    r->activity.metadataSet = operation->set;
    add_sequence(r, operation);
    if (operation->type == NC_P2P)
        add_peer(r, operation, is_sending(operation));
}

/* Several messages in one kernel are of both directions and of several peers. */
static void describe_messages(row *r)
{
    static const char name[] = "send_recv";
    SET_NAME(r, "nccl:send_recv");
    KinetoPlugin_Metadata *m = &r->items[r->activity.metadataCount++];
    *m = (KinetoPlugin_Metadata){.pKey = "Collective name",
                                 .valueType = KINETO_PLUGIN_VALUE_STRING,
                                 .count = sizeof name - 1,
                                 .pointer = name};
}

bool nc_deliver_launch(const nc_launch *l)
{
    row r;
    const KinetoPlugin_TraceBuilder *builder = nc_builder_enter();
    bool is_wanted =
        l->launch.session == nc_session() && nc_session_wants(KINETO_PLUGIN_PROFILE_EVENT_TYPE_USER_ANNOTATION);
    if (!builder)
        return false;
    if (is_wanted) {
        begin_thread_row(&r, &l->launch, KINETO_PLUGIN_PROFILE_EVENT_TYPE_USER_ANNOTATION, l->end);
        if (!l->operations)
            SET_NAME(&r, "nccl launch");
        else if (l->operations > 1 && l->first.type == NC_P2P)
            describe_messages(&r);
        else
            describe_operation(&r, &l->first);
        if (l->operations > 1)
            add_row_number(&r, "operations", l->operations);
        add_item(&r, "stream handle", KINETO_PLUGIN_VALUE_UINT, l->launch.value);
        emit_row(builder, &r);
    }
    nc_builder_leave();
    return is_wanted;
}

/* By the thread that has the slot in CLOSING, so that no atomic addition is needed. */
static void count_emitted(nc_slot *slot)
{
    unsigned n = atomic_load_explicit(&slot->emitted, memory_order_relaxed);
    atomic_store_explicit(&slot->emitted, n + 1, memory_order_relaxed);
}

void nc_deliver_task_range(nc_slot *slot, const nc_facts *f, uint64_t end)
{
    row r;
    bool is_wanted = nc_session_wants(KINETO_PLUGIN_PROFILE_EVENT_TYPE_USER_ANNOTATION);
    const KinetoPlugin_TraceBuilder *builder = is_wanted ? nc_builder_enter() : NULL;
    if (!builder)
        return;
    begin_thread_row(&r, f, KINETO_PLUGIN_PROFILE_EVENT_TYPE_USER_ANNOTATION, end);
    describe_operation(&r, f);
    count_emitted(slot);
    emit_row(builder, &r);
    nc_builder_leave();
}

/* ---- rows below the communicator -------------------------------------------------------------- */

/* Channels beyond the last row share it. */
static int32_t channel_row(int32_t first, int32_t channel)
{
    return first + (channel >= 0 && channel < (int32_t)NC_CHANNELS ? channel : (int32_t)NC_CHANNELS - 1);
}

/* By type and channel. */
static int32_t row_of(const nc_facts *f)
{
    switch (f->type) {
    case NC_COLL:
    case NC_P2P:
        return NC_ROW_COLLECTIVES;
    case NC_KERNEL_CH:
        return channel_row(NC_ROW_CHANNEL, f->channel);
    case NC_PROXY_OP:
    case NC_PROXY_STEP:
        return channel_row(f->is_send ? NC_ROW_PROXY_SEND : NC_ROW_PROXY_RECV, f->channel);
    case NC_PROXY_CTRL:
        return NC_ROW_PROXY;
    case NC_NET_PLUGIN:
        return NC_ROW_NETWORK;
    case NC_GROUP:
        return NC_ROW_GROUPS;
    default:
        return NC_ROW_COPY_ENGINE;
    }
}

/* Times of the GPU, if they and its clock are known. */
static void use_gpu_times(row *r, const nc_facts *f, uint64_t first, uint64_t last)
{
    int32_t clock = first && last >= first ? nc_gpu_clock(f->comm->gpu) : -1;
    if (clock < 0)
        return;
    r->activity.clock = clock;
    r->activity.event.startTimeUtcNs = (int64_t)first;
    r->activity.event.endTimeUtcNs = (int64_t)last;
}

/* A collective or message as a whole. */
static void describe_task_row(row *r, nc_slot *slot, const nc_facts *f, bool is_open)
{
    set_name(r, f->func->name, f->func->name_size);
    add_sequence(r, f);
    if (f->type == NC_COLL)
        add_row_number(r, "NCCL Seq", (int64_t)f->its_sequence);
    else
        add_peer(r, f, is_sending(f));
    if (!is_open)
        use_gpu_times(r, f, nc_get(&slot->first_timer), nc_get(&slot->last_timer));
}

static void describe_channel(row *r, nc_slot *slot, const nc_facts *f, bool is_open)
{
    set_name(r, f->func->name, f->func->name_size);
    add_sequence(r, f);
    if (!is_open)
        use_gpu_times(r, f, f->timer, nc_get(&slot->last_timer));
}

/* Operations and their steps nest on one row. */
static void describe_proxy(row *r, nc_slot *slot, const nc_facts *f)
{
    if (f->type == NC_PROXY_OP) {
        set_name(r, f->func->name, f->func->name_size);
        add_row_number(r, "peer", f->peer);
        add_row_number(r, "steps", (int64_t)f->count);
        add_row_number(r, "chunk bytes", (int64_t)f->value);
        if (f->is_foreign)
            add_item(r, "of another process", KINETO_PLUGIN_VALUE_BOOL, 1);
    } else {
        SET_NAME(r, "step");
        add_row_number(r, "step", (int64_t)f->count);
        add_row_number(r, "bytes", (int64_t)nc_get(&slot->value));
        add_row_number(r, "network ns", (int64_t)nc_get(&slot->waited));
    }
    add_sequence(r, f);
}

/* Named by the last state that was reported. */
static void describe_proxy_thread(row *r, nc_slot *slot)
{
    static const char *const names[] = {"proxy idle", "proxy active", "proxy sleeps", "proxy wakes up",
                                        "proxy appends", "proxy appended"};
    uint64_t state = nc_get(&slot->value) - NC_STATE_CTRL_FIRST;
    const char *name = state < NC_COUNT(names) ? names[state] : "proxy";
    uint32_t size = 0;
    while (name[size])
        size++;
    set_name(r, name, size);
}

/* What copy engines do for a collective; times are of the calls. */
static void describe_copies(row *r, const nc_facts *f)
{
    if (f->type == NC_CE_COLL) {
        set_name(r, f->func->name, f->func->name_size);
        add_row_number(r, "NCCL Seq", (int64_t)f->its_sequence);
    } else if (f->type == NC_CE_SYNC) {
        SET_NAME(r, "synchronize ranks");
        add_row_number(r, "ranks", (int64_t)f->count);
    } else {
        SET_NAME(r, "batch of copies");
        add_row_number(r, "operations", (int64_t)f->count);
        add_row_number(r, "bytes", (int64_t)f->value);
    }
}

static void describe_row(row *r, nc_slot *slot, const nc_facts *f, bool is_open)
{
    switch (f->type) {
    case NC_COLL:
    case NC_P2P:
        describe_task_row(r, slot, f, is_open);
        return;
    case NC_KERNEL_CH:
        describe_channel(r, slot, f, is_open);
        return;
    case NC_PROXY_OP:
    case NC_PROXY_STEP:
        describe_proxy(r, slot, f);
        return;
    case NC_PROXY_CTRL:
        describe_proxy_thread(r, slot);
        return;
    case NC_NET_PLUGIN:
        SET_NAME(r, "network");
        add_row_number(r, "plug-in id", (int64_t)f->value);
        return;
    case NC_GROUP:
        SET_NAME(r, "group");
        return;
    default:
        describe_copies(r, f);
    }
}

/* The row is announced with its first activity in a session. */
static void deliver_comm_row(const KinetoPlugin_TraceBuilder *builder, nc_slot *slot, const nc_facts *f, uint64_t end,
                             bool is_open)
{
    row r;
    int32_t number = row_of(f);
    if (!nc_session_wants_rows())
        return;
    nc_announce_row(builder, f, number);
    begin_row(&r, f, nc_rows_type(), end);
    r.activity.event.deviceId = NC_FIRST_DEVICE + (int32_t)f->comm_number;
    r.activity.event.resourceId = number;
    describe_row(&r, slot, f, is_open);
    if (is_open)
        add_item(&r, "not ended", KINETO_PLUGIN_VALUE_BOOL, 1);
    count_emitted(slot);
    emit_row(builder, &r);
}

static void deliver_call(const KinetoPlugin_TraceBuilder *builder, nc_slot *slot, const nc_facts *f, uint64_t end, bool is_open)
{
    row r;
    if (!nc_session_wants(KINETO_PLUGIN_PROFILE_EVENT_TYPE_RUNTIME))
        return;
    describe_call(&r, f, end);
    if (is_open)
        add_item(&r, "not ended", KINETO_PLUGIN_VALUE_BOOL, 1);
    count_emitted(slot);
    emit_row(builder, &r);
}

/* A launch is delivered by launches.c. An event that ends while the session does may come here twice. */
void nc_deliver(nc_slot *slot, const nc_facts *f, uint64_t end, bool is_open)
{
    bool is_call = f->type == NC_GROUP_API || f->type == NC_COLL_API || f->type == NC_P2P_API;
    const KinetoPlugin_TraceBuilder *builder = f->session ? nc_builder_enter() : NULL;
    if (!builder)
        return;
    if (f->session == nc_session() && f->type != NC_KERNEL_LAUNCH && nc_slot_claim_delivery(slot, f->session)) {
        if (is_call)
            deliver_call(builder, slot, f, end, is_open);
        else
            deliver_comm_row(builder, slot, f, end, is_open);
    }
    nc_builder_leave();
}
