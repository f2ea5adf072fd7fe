/* Maps launches to the operator that was innermost when they were made. CUPTI counts launches up,
 * so that ids of the same time are adjacent: a table of pages indexed by id, in which a new page
 * replaces the one of a million launches ago. */
#include "cuda.h"

#include <stdlib.h>
#include <string.h>

#define PAGE_IDS UINT32_C(4096)
#define PAGES    256u

typedef struct correlation_page {
    uint32_t number; /* id / PAGE_IDS */
    uint64_t operators[PAGE_IDS];
} correlation_page;

struct cp_correlations {
    correlation_page *pages[PAGES];
    uint64_t forgotten;
};

cp_correlations *cp_correlations_create(void) { return calloc(1, sizeof(cp_correlations)); }

void cp_correlations_destroy(cp_correlations *c)
{
    for (uint32_t i = 0; c && i < PAGES; i++)
        free(c->pages[i]);
    free(c);
}

/* True if page `a` has later launches than `b`. Numbers wrap around with the ids. */
static bool is_later_page(uint32_t a, uint32_t b)
{
    const uint32_t all = UINT32_MAX / PAGE_IDS;
    uint32_t ahead = (a - b) & all;
    return ahead != 0 && ahead <= all / 2;
}

/* The page to write to, which replaces an older one; NULL: out of memory, or the launch is too long
 * ago. */
static correlation_page *get_page(cp_correlations *c, uint32_t number)
{
    correlation_page **place = &c->pages[number % PAGES];
    if (!*place) {
        *place = calloc(1, sizeof **place);
        if (*place)
            (*place)->number = number;
    } else if (is_later_page(number, (*place)->number)) {
        (*place)->number = number;
        memset((*place)->operators, 0, sizeof(*place)->operators);
    }
    return *place && (*place)->number == number ? *place : NULL;
}

/* A known operator is never replaced by "none". */
void cp_correlations_put(cp_correlations *c, uint32_t correlation_id, uint64_t external_id)
{
    correlation_page *p = get_page(c, correlation_id / PAGE_IDS);
    if (!p)
        return;
    uint64_t *there = &p->operators[correlation_id % PAGE_IDS];
    if (!*there || external_id != CP_NO_OPERATOR)
        *there = external_id;
}

uint64_t cp_correlations_get(cp_correlations *c, uint32_t correlation_id)
{
    uint32_t number = correlation_id / PAGE_IDS;
    const correlation_page *p = c->pages[number % PAGES];
    if (!p)
        return 0;
    if (p->number == number)
        return p->operators[correlation_id % PAGE_IDS];
    c->forgotten += is_later_page(p->number, number);
    return 0;
}

uint64_t cp_correlations_forgotten(const cp_correlations *c) { return c->forgotten; }
