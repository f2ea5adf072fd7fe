/* Messages: an id that sender and receiver compute alike, from the communicator, both ranks, the tag and
 * a number, and a table of open requests that receive.
 *
 * MPI delivers messages of one communicator, pair of ranks and tag in order, so that the n-th that is
 * sent is the n-th that is received. Receives for a stated rank and tag are numbered when they are
 * posted, those for any rank or tag when they complete: where a program mixes both and completes
 * them in another order, ids may be exchanged.
 *
 * Both tables are hashed, of fixed size, and searched in a window of slots: adding is a compare and
 * swap, removing one store, nothing is moved. */
#include "mpi.h"

/* ---- numbers --------------------------------------------------------------------------------- */

#define COUNTERS       (1u << 16)
#define COUNTER_WINDOW 32u

typedef struct counter {
    atomic_uint_fast64_t key, count; /* key 0: free */
} counter;
static counter counters[COUNTERS];

/* A step of splitmix64 over both. */
uint64_t cx_mix(uint64_t a, uint64_t b)
{
    uint64_t x = a * UINT64_C(0x9e3779b97f4a7c15) + b + UINT64_C(0x632be59bd9b4e019);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

uint64_t cx_count_next(uint64_t key)
{
    key += key == 0;
    for (uint32_t i = 0; i < COUNTER_WINDOW; i++) {
        counter *c = &counters[(key + i) % COUNTERS];
        uint_fast64_t there = atomic_load_explicit(&c->key, memory_order_relaxed);
        if (there == 0 && atomic_compare_exchange_strong(&c->key, &there, key))
            there = key;
        if (there == key)
            return atomic_fetch_add_explicit(&c->count, 1, memory_order_relaxed);
    }
    cx_count(CX_TALLY_MESSAGES);
    return UINT64_MAX;
}

/* Readers of JSON read larger numbers inexactly. */
#define MESSAGE_BITS 52

uint64_t cx_message_next(const cx_comm *comm, int from, int to, int tag, bool received)
{
    if (!comm || from < 0 || to < 0)
        return 0;
    uint64_t pair = (uint64_t)(uint32_t)from << 32 | (uint32_t)to;
    uint64_t key = cx_mix(cx_mix(comm->id, pair), (uint32_t)tag);
    uint64_t number = cx_count_next(key ^ (received ? UINT64_C(0x5851f42d4c957f2d) : 0));
    if (number == UINT64_MAX)
        return 0;
    uint64_t id = cx_mix(key, number) >> (64 - MESSAGE_BITS);
    return id ? id : 1;
}

/* ---- requests -------------------------------------------------------------------------------- */

#define REQUESTS       (1u << 14)
#define REQUEST_WINDOW 32u

static cx_request requests[REQUESTS];

static uint32_t first_request_slot(cx_word handle)
{
    return (uint32_t)(cx_mix(handle, 0) % REQUESTS);
}

/* The slot of a handle; NULL: none. */
static cx_request *find_request_slot(cx_word handle)
{
    uint32_t first = first_request_slot(handle);
    for (uint32_t i = 0; i < REQUEST_WINDOW && handle; i++) {
        cx_request *r = &requests[(first + i) % REQUESTS];
        if (atomic_load_explicit(&r->handle, memory_order_acquire) == handle)
            return r;
    }
    return NULL;
}

bool cx_request_find(cx_word handle, cx_pending *out)
{
    out->handle = handle;
    out->slot = find_request_slot(handle);
    if (out->slot)
        out->exchange = out->slot->exchange;
    return out->slot != NULL;
}

static cx_request *claim_request_slot(cx_word handle)
{
    uint32_t first = first_request_slot(handle);
    for (uint32_t i = 0; i < REQUEST_WINDOW; i++) {
        cx_request *r = &requests[(first + i) % REQUESTS];
        cx_word none = 0;
        if (atomic_load_explicit(&r->handle, memory_order_relaxed) == 0 &&
            atomic_compare_exchange_strong(&r->handle, &none, handle))
            return r;
    }
    return NULL;
}

/* The program has the handle when our caller returns, so no other call looks for it until then. */
void cx_request_add(cx_word handle, const cx_exchange *exchange)
{
    cx_request *r = find_request_slot(handle);
    if (!r)
        r = claim_request_slot(handle);
    if (r)
        r->exchange = *exchange;
    else
        cx_count(CX_TALLY_MESSAGES);
}

void cx_request_remove(const cx_pending *pending)
{
    if (pending->slot)
        atomic_store_explicit(&pending->slot->handle, 0, memory_order_release);
}
