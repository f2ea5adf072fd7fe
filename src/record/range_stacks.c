/* Stacks of ranges that several libraries keep on one thread (NVTX, ITT, ROCTX): the recording has one
 * stack for each thread. Where a range ends within which a range of another stack is open, the recording
 * ends both; the other one is begun again, by its library.
 *
 * Tokens of a thread's first cursor are its depths, so their order is that of the ranges. */
#include "record/cursor.h"

#define MAX_STACKS 8u

/* Each is stored once and stays; an entry below the count may still be NULL. */
static const kineto_range_stack *stacks[MAX_STACKS];
static uint32_t stack_count;

bool kineto_range_stack_add(const kineto_range_stack *stack)
{
    if (!stack || !stack->next || !stack->begin_again)
        return false;
    uint32_t at = kb_load_relaxed(&stack_count);
    while (at < MAX_STACKS && !kb_cas_acqrel(&stack_count, &at, at + 1))
        ;
    if (at >= MAX_STACKS)
        return false;
    kb_store_release(&stacks[at], stack);
    return true;
}

/* The open range with the smallest token above `after`, and its stack. NULL: there is none. */
static const kineto_range_stack *find_next_range(kineto_range after, kineto_range *next)
{
    const kineto_range_stack *found = NULL;
    uint32_t count = kb_load_relaxed(&stack_count);
    for (uint32_t i = 0; i < count; i++) {
        const kineto_range_stack *stack = kb_load_acquire(&stacks[i]);
        kineto_range range = stack ? stack->next(after) : 0;
        if (range > after && !(range & KR_RANGE_SIGNAL) && (!found || range < *next)) {
            *next = range;
            found = stack;
        }
    }
    return found;
}

bool kineto_range_is_alone(const kineto_range_stack *stack)
{
    uint32_t count = kb_load_relaxed(&stack_count);
    if (!stack)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        const kineto_range_stack *other = kb_load_acquire(&stacks[i]);
        if (other && other != stack && other->next(0))
            return false;
    }
    return true;
}

/* From the outermost inwards: each gets a token below its old one, so no range comes twice. The innermost
 * range, which most are, has none within it. */
void kineto_range_end_crossing(kineto_range range)
{
    kineto_range next = range;
    bool is_innermost = kr_me->depth == range;
    if (!range)
        return;
    kr_range_end(range);
    if (is_innermost || range & KR_RANGE_SIGNAL)
        return;
    for (const kineto_range_stack *stack; (stack = find_next_range(next, &next));)
        stack->begin_again(next);
}
