/* Open events: a ring of slots. A handle is a slot's number with its generation, never a pointer, so that a handle that
 * is stopped twice, or long after, is recognised. A slot keeps its facts after its event has ended, until it is reused,
 * because NCCL starts the parts of a collective after it has stopped it.
 *
 * The ring is larger than what NCCL has open at once, also with a proxy that is late by hundreds of collectives, so that
 * a parent is hardly ever reused before its parts come. If it is, they are recorded without their collective.
 *
 * Phases: FREE → FILLING → OPEN → CLOSING → FREE, or OPEN → AWAITING (stopped, channels run) → CLOSING → FREE. Only
 * the thread that changes a phase to FILLING or CLOSING writes or delivers. Facts are words that are read without a lock:
 * a reader compares the generation before and after, and a thread that sees a new word (release) sees the new generation. */
#include "nccl.h"

#include <string.h>

enum { FREE, FILLING, OPEN, AWAITING, CLOSING, PHASES = 8 };
#define MAX_PROBES 64u

static nc_slot slots[NC_SLOTS];
static atomic_uint_fast64_t next_slot;

static unsigned phase_of(uint64_t state) { return (unsigned)(state % PHASES); }
static uint64_t with_phase(uint64_t state, unsigned phase) { return state - state % PHASES + phase; }

/* ---- handles ---------------------------------------------------------------------------------- */

/* Never 0 or NC_NO_EVENT: generations of handles begin at 1, and one bit is always set. */
static void *make_handle(uint64_t state, uint32_t index)
{
    return (void *)(uintptr_t)(state / PHASES * 2 * NC_SLOTS + NC_SLOTS + index);
}

/* The slot of a handle; NULL: no such. *generation is that of the handle, as in its state. */
static nc_slot *find_slot(void *handle, uint64_t *generation)
{
    uint64_t number = (uint64_t)(uintptr_t)handle, index = number % NC_SLOTS;
    *generation = number / (2 * NC_SLOTS) * PHASES;
    return number / NC_SLOTS % 2 && *generation ? &slots[index] : NULL;
}

/* The slot is in FILLING, and no other thread writes. */
static void store_facts(nc_slot *slot, const nc_facts *facts)
{
    uint64_t words[NC_FACT_WORDS];
    memcpy(words, facts, sizeof words);
    for (size_t i = 0; i < NC_FACT_WORDS; i++)
        atomic_store_explicit(&slot->words[i], words[i], memory_order_release);
}

/* The caller compares generations around it, or has the slot in CLOSING. */
static void load_facts(nc_slot *slot, nc_facts *out)
{
    uint64_t words[NC_FACT_WORDS];
    for (size_t i = 0; i < NC_FACT_WORDS; i++)
        words[i] = atomic_load_explicit(&slot->words[i], memory_order_acquire);
    memcpy(out, words, sizeof words);
}

/* ---- opening ---------------------------------------------------------------------------------- */

/* The only way in which phases change while several threads may want to. */
static bool change_phase(nc_slot *slot, uint64_t *state, unsigned phase)
{
    return atomic_compare_exchange_strong_explicit(&slot->state, state, with_phase(*state, phase), memory_order_acq_rel,
                                                   memory_order_relaxed);
}

/* A slot whose channels were expected for a whole round of the ring: deliver what is known. */
static void give_up_channels(nc_slot *slot, uint64_t state)
{
    nc_facts f;
    if (!change_phase(slot, &state, CLOSING))
        return;
    load_facts(slot, &f);
    nc_deliver(slot, &f, kineto_record_ticks(), false);
    nc_slot_close(slot);
}

#define RUN 16u
static __thread uint64_t run_of_thread; /* the rest of a run of slots, which this thread tries first */

/* Threads take runs, so that they do not meet at the counter for each event. */
static uint64_t next_in_run(void)
{
    if (run_of_thread % RUN == 0)
        run_of_thread = atomic_fetch_add_explicit(&next_slot, RUN, memory_order_relaxed);
    return run_of_thread++;
}

/* Slots whose facts are not needed any more: the next event of the thread finds one in its cache. Others may take them. */
#define SPARE 8u
static __thread uint32_t spare_slots[SPARE];
static __thread uint32_t spare_count;

/* False: it is not free, or another thread was faster. */
static bool claim_free(nc_slot *slot, uint64_t now, uint64_t *state)
{
    *state = now - phase_of(now) + PHASES + FILLING;
    return phase_of(now) == FREE && atomic_compare_exchange_strong(&slot->state, &now, *state);
}

/* The next slot that is free, in phase FILLING of a new generation. */
static nc_slot *claim_slot(uint64_t *state)
{
    while (spare_count) {
        nc_slot *slot = &slots[spare_slots[--spare_count]];
        if (claim_free(slot, atomic_load_explicit(&slot->state, memory_order_acquire), state))
            return slot;
    }
    for (uint32_t i = 0; i < MAX_PROBES; i++) {
        nc_slot *slot = &slots[next_in_run() % NC_SLOTS];
        uint64_t now = atomic_load_explicit(&slot->state, memory_order_acquire);
        if (phase_of(now) == AWAITING) {
            give_up_channels(slot, now);
            now = atomic_load_explicit(&slot->state, memory_order_acquire);
        }
        if (claim_free(slot, now, state))
            return slot;
    }
    return NULL;
}

nc_slot *nc_slot_open(const nc_facts *facts, void **handle)
{
    uint64_t state;
    nc_slot *slot = claim_slot(&state);
    if (!slot)
        return NULL;
    store_facts(slot, facts);
    nc_set(&slot->first_timer, 0);
    nc_set(&slot->last_timer, 0);
    nc_set(&slot->value, 0);
    nc_set(&slot->waited, 0);
    nc_set(&slot->waits_from, 0);
    atomic_store_explicit(&slot->channels_left, facts->channels, memory_order_relaxed);
    atomic_store_explicit(&slot->delivered, 0, memory_order_relaxed);
    atomic_store_explicit(&slot->state, with_phase(state, OPEN), memory_order_release);
    *handle = make_handle(state, (uint32_t)(slot - slots));
    return slot;
}

/* ---- reading and ending ----------------------------------------------------------------------- */

/* A slot in FILLING has a new generation already and the facts of the old one: it is not read. */
nc_slot *nc_slot_read(void *handle, nc_facts *out)
{
    uint64_t generation;
    nc_slot *slot = find_slot(handle, &generation);
    uint64_t before = slot ? atomic_load_explicit(&slot->state, memory_order_acquire) : 0;
    if (!slot || before - phase_of(before) != generation || phase_of(before) == FILLING)
        return NULL;
    load_facts(slot, out);
    uint64_t after = atomic_load_explicit(&slot->state, memory_order_relaxed);
    return after - phase_of(after) == generation ? slot : NULL;
}

#define WORD_OF(slot, member)                                                                                          \
    atomic_load_explicit(&(slot)->words[offsetof(nc_facts, member) / 8], memory_order_acquire)

/* Four words of the facts, which two members of 32 bits share in one of them. */
nc_slot *nc_slot_peek(void *handle, nc_brief *out)
{
    uint64_t generation;
    nc_slot *slot = find_slot(handle, &generation);
    uint64_t before = slot ? atomic_load_explicit(&slot->state, memory_order_acquire) : 0;
    if (!slot || before - phase_of(before) != generation || phase_of(before) == FILLING)
        return NULL;
    uint64_t kind = WORD_OF(slot, type);
    out->comm = (nc_comm *)(uintptr_t)WORD_OF(slot, comm);
    out->next = (void *)(uintptr_t)WORD_OF(slot, next);
    memcpy(&out->type, &kind, sizeof kind);
    uint64_t after = atomic_load_explicit(&slot->state, memory_order_relaxed);
    return after - phase_of(after) == generation ? slot : NULL;
}

/* From OPEN only: an event whose channels are awaited was stopped before. */
nc_slot *nc_slot_stop(void *handle, nc_facts *out)
{
    uint64_t generation;
    nc_slot *slot = find_slot(handle, &generation);
    uint64_t state = generation + OPEN;
    if (!slot || !change_phase(slot, &state, CLOSING))
        return NULL;
    load_facts(slot, out);
    return slot;
}

/* The caller has it in CLOSING. Only the thread that changes AWAITING to CLOSING again delivers it. */
static bool finish_channels(nc_slot *slot)
{
    uint64_t state = atomic_load(&slot->state);
    return phase_of(state) == AWAITING && atomic_load(&slot->channels_left) == 0 && change_phase(slot, &state, CLOSING);
}

/* The last channel may end between the check and the change of phase: both sides look again. */
bool nc_slot_await_channels(nc_slot *slot)
{
    uint64_t state = atomic_load_explicit(&slot->state, memory_order_relaxed);
    if (atomic_load(&slot->channels_left) == 0)
        return false;
    atomic_store(&slot->state, with_phase(state, AWAITING));
    return !finish_channels(slot);
}

/* More ends than channels change nothing. */
bool nc_slot_end_channel(nc_slot *slot)
{
    unsigned left = atomic_load(&slot->channels_left);
    while (left && !atomic_compare_exchange_weak(&slot->channels_left, &left, left - 1))
        ;
    return left == 1 && finish_channels(slot);
}

void nc_slot_close(nc_slot *slot)
{
    uint64_t state = atomic_load_explicit(&slot->state, memory_order_relaxed);
    atomic_store_explicit(&slot->state, with_phase(state, FREE), memory_order_release);
}

void nc_slot_recycle(nc_slot *slot)
{
    nc_slot_close(slot);
    if (spare_count < SPARE)
        spare_slots[spare_count++] = (uint32_t)(slot - slots);
}

bool nc_slot_claim_delivery(nc_slot *slot, uint32_t session)
{
    return atomic_exchange_explicit(&slot->delivered, session, memory_order_relaxed) != session;
}

/* An event that ends meanwhile is delivered by one of both threads. */
void nc_slots_visit(uint32_t session, void (*visit)(nc_slot *slot, const nc_facts *facts))
{
    uint64_t used = atomic_load(&next_slot);
    nc_facts f;
    for (uint32_t i = 0; i < NC_SLOTS && i < used; i++) {
        uint64_t state = atomic_load_explicit(&slots[i].state, memory_order_acquire);
        if (phase_of(state) != OPEN && phase_of(state) != AWAITING)
            continue;
        if (nc_slot_read(make_handle(state, i), &f) && f.session == session)
            visit(&slots[i], &f);
    }
}

void nc_slots_release(const nc_comm *comm, void (*visit)(nc_slot *slot, const nc_facts *facts))
{
    uint64_t used = atomic_load(&next_slot);
    nc_facts f;
    for (uint32_t i = 0; i < NC_SLOTS && i < used; i++) {
        uint64_t state = atomic_load_explicit(&slots[i].state, memory_order_acquire);
        bool is_open = phase_of(state) == OPEN || phase_of(state) == AWAITING;
        if (!is_open || !nc_slot_read(make_handle(state, i), &f) || f.comm != comm || !change_phase(&slots[i], &state, CLOSING))
            continue;
        visit(&slots[i], &f);
        nc_slot_close(&slots[i]);
    }
}

uint64_t nc_slots_take_emitted(void)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < NC_SLOTS; i++)
        if (atomic_load_explicit(&slots[i].state, memory_order_relaxed))
            sum += atomic_exchange_explicit(&slots[i].emitted, 0, memory_order_relaxed);
    return sum;
}
