/* The script's records, at the call that it names. */
#include "standin.h"

#include <string.h>

static uint64_t moved(uint64_t value, const si_clock *clock, uint64_t now)
{
    const si_script *s = &si_plan;
    if (s->options.replay_anchor == SI_ANCHOR_NONE)
        return value;
    if (s->options.replay_anchor == SI_ANCHOR_BEGIN)
        return si_stamp(clock, now + (value - s->first_ns));
    return si_stamp(clock, now - (s->last_ns - value));
}

static void write_item(const si_item *item, const si_clock *clock, uint64_t now)
{
    uint8_t bytes[SI_MAX_RECORD];
    memcpy(bytes, item->bytes, item->size);
    for (unsigned word = 0; word < 64 && item->times >> word; word++) {
        uint64_t value;
        if (!(item->times >> word & 1))
            continue;
        memcpy(&value, bytes + (size_t)8 * word, 8);
        value = moved(value, clock, now);
        memcpy(bytes + (size_t)8 * word, &value, 8);
    }
    si_write(bytes, item->size, false);
}

static void play(const si_item *item, const si_clock *clock, uint64_t now)
{
    switch (item->what) {
    case SI_ITEM_BUFFER:
        si_writer_seal();
        break;
    case SI_ITEM_EMPTY:
        si_writer_seal_empty();
        break;
    case SI_ITEM_DROP:
        si_drop(item->size);
        break;
    default:
        if (item->size)
            write_item(item, clock, now);
    }
}

void si_replay(void)
{
    si_clock clock = si_clock_read();
    uint64_t now = si_now_ns();
    for (uint32_t n = 0; n < si_plan.options.replay_times; n++)
        for (size_t i = 0; i < si_plan.item_count; i++)
            play(&si_plan.items[i], &clock, now);
}
