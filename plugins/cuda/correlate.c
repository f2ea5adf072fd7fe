/* From a launch to the operator that was on top when it was made. CUPTI counts launches up, so that
 * those of one time lie together: pages of a table by id, where a new page takes the place of the
 * one of a million launches ago. */
#include "cuda.h"

#include <stdlib.h>
#include <string.h>

#define PAGE_IDS UINT32_C(4096)
#define PAGES    256u

typedef struct page {
    uint32_t number; /* id / PAGE_IDS */
    uint64_t operators[PAGE_IDS];
} page;

struct cp_correlations {
    page *pages[PAGES];
    uint64_t forgotten;
};

cp_correlations *cp_correlations_create(void) { return calloc(1, sizeof(cp_correlations)); }

void cp_correlations_destroy(cp_correlations *c)
{
    for (uint32_t i = 0; c && i < PAGES; i++)
        free(c->pages[i]);
    free(c);
}

/* Is page `a` of later launches than `b`? Numbers wrap with the ids. */
static bool is_later(uint32_t a, uint32_t b)
{
    const uint32_t all = UINT32_MAX / PAGE_IDS;
    uint32_t ahead = (a - b) & all;
    return ahead != 0 && ahead <= all / 2;
}

/* The page to write to; NULL: out of memory, or too long ago. */
static page *page_for(cp_correlations *c, uint32_t number)
{
    page **place = &c->pages[number % PAGES];
    if (!*place) {
        *place = calloc(1, sizeof **place);
        if (*place)
            (*place)->number = number;
    } else if (is_later(number, (*place)->number)) {
        (*place)->number = number;
        memset((*place)->operators, 0, sizeof(*place)->operators);
    }
    return *place && (*place)->number == number ? *place : NULL;
}

void cp_correlations_put(cp_correlations *c, uint32_t correlation_id, uint64_t external_id)
{
    page *p = page_for(c, correlation_id / PAGE_IDS);
    if (!p)
        return;
    uint64_t *there = &p->operators[correlation_id % PAGE_IDS];
    if (!*there || external_id != CP_NO_OPERATOR)
        *there = external_id;
}

uint64_t cp_correlations_get(cp_correlations *c, uint32_t correlation_id)
{
    uint32_t number = correlation_id / PAGE_IDS;
    const page *p = c->pages[number % PAGES];
    if (!p)
        return 0;
    if (p->number == number)
        return p->operators[correlation_id % PAGE_IDS];
    c->forgotten += is_later(p->number, number);
    return 0;
}

uint64_t cp_correlations_forgotten(const cp_correlations *c) { return c->forgotten; }
