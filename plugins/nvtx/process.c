/* Ranges with ids. An id says which description its begin had, so that its end finds the same site;
 * a table of what is open tells ends that belong to nothing. */
#include "nvtx.h"

/* id: description + 1 : 15, is it not in the table : 1, number : 48 */
#define NUMBER_BITS 48
#define IS_LOOSE    (UINT64_C(1) << NUMBER_BITS)
#define SHAPE_SHIFT (NUMBER_BITS + 1)
#define OPEN_SLOTS  4096u
#define TRIES       8u

static atomic_uint_fast64_t next_number = 1;
static atomic_uint_fast64_t open_ids[OPEN_SLOTS];

/* A number whose slot is free, or one that is not in the table. */
static uint64_t id_take(uint64_t shape_bits)
{
    uint64_t number = 0;
    for (uint32_t i = 0; i < TRIES; i++) {
        uint_fast64_t none = 0;
        number = atomic_fetch_add_explicit(&next_number, 1, memory_order_relaxed) & (IS_LOOSE - 1);
        if (atomic_compare_exchange_strong(&open_ids[number % OPEN_SLOTS], &none,
                                           shape_bits | number))
            return shape_bits | number;
    }
    return shape_bits | IS_LOOSE | number;
}

uint64_t cn_start(const cn_event *e)
{
    uint64_t id = id_take((uint64_t)(e->shape->index + 1) << SHAPE_SHIFT);
    kineto_props props = cn_event_props(e);
    kineto_async_begin(cn_shape_site(e->shape), id, &props);
    return id;
}

static bool id_give(uint64_t id)
{
    uint_fast64_t expected = id;
    if (id & IS_LOOSE)
        return true;
    return atomic_compare_exchange_strong(&open_ids[id % OPEN_SLOTS], &expected, 0);
}

/* What was begun while somebody recorded is ended whatever the gate says now, or its slot would
 * stay taken. */
void cn_end(uint64_t id)
{
    const cn_shape *shape =
        id >> SHAPE_SHIFT ? cn_shape_at((uint32_t)(id >> SHAPE_SHIFT) - 1) : NULL;
    if (CN_LIKELY(shape && id_give(id)))
        kineto_async_end(cn_shape_site(shape), id);
    else if (id != CN_NOT_RECORDED && cn_recording())
        cn_count(CN_TALLY_END_ALONE);
}

void cn_process_forked(void)
{
    for (uint32_t i = 0; i < OPEN_SLOTS; i++)
        atomic_store_explicit(&open_ids[i], 0, memory_order_relaxed);
}
