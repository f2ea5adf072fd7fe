/* Where slow transfers may have their cause: one group, all pairs of a process group, the link between two hosts, or
 * the network card of a host. A slow transfer alone does not say which: what else is slow, and what is not, does. */
#ifndef KA_LINK_PLACES_H
#define KA_LINK_PLACES_H

#include "analyze/ranks/rank_model.h"

typedef enum ka_place_kind {
    KA_PLACE_GROUP,         /* one group of the model: of messages, one direction of a pair */
    KA_PLACE_PROCESS_GROUP, /* all groups of the model that are of one process group */
    KA_PLACE_HOST_SET,      /* groups of the same three hosts or more: if these alone are slow, no link of them is known to be it */
    KA_PLACE_HOST_PAIR,     /* groups in whose ring two hosts are neighbours */
    KA_PLACE_HOST           /* groups of a host and others */
} ka_place_kind;

typedef struct ka_link_place {
    ka_place_kind kind;
    uint32_t a, b;         /* index of a group; of clocks, b: KA_NONE if there is one only; of a set: its hash */
    uint32_t first, count; /* of ka_link_places.groups */
} ka_link_place;

/** All places of a model; the first ones are its groups, in their order. */
typedef struct ka_link_places {
    KB_VEC(ka_link_place) list;
    KB_VEC(uint32_t) groups; /* of each place, ascending */
    uint32_t *host_first, *hosts; /* by group: its first host, and the end; indices of clocks */
    bool is_made;
} ka_link_places;

/** How the transfers of a group compare with those of its like. */
typedef struct ka_link_use {
    double lone_ns;     /* of transfers that are like those of no other group, or of groups that all have a host in common */
    double compared_ns; /* of the others */
    double usual_ns;    /* that transfers should take that are like those of another group */
    double slow_ns;     /* by how much the slow ones take longer */
} ka_link_use;

/** @param m  with clocks. @param p  to be freed, also on failure. False: out of memory. */
bool ka_list_link_places(const ka_rank_model *m, ka_link_places *p);
void ka_link_places_free(ka_link_places *p);
static inline const uint32_t *ka_place_groups(const ka_link_places *p, uint32_t place)
{
    return p->groups.data + p->list.data[place].first;
}
bool ka_place_has_group(const ka_link_places *p, uint32_t place, uint32_t group);
bool ka_group_has_host(const ka_link_places *p, uint32_t group, uint32_t clock);
/** What its groups take longer, ns. */
double ka_place_excess(const ka_link_places *p, uint32_t place, const ka_link_use *use);

/** The fewest places that explain all slow transfers: each time the one whose groups are all slow, and that explains most of
 *  what is left; of equal ones the narrowest.
 *  @param out  of `most` places; most excess first. @return how many; UINT32_MAX: out of memory. */
uint32_t ka_explain_slow_links(const ka_link_places *p, const ka_link_use *use, uint32_t group_count, uint32_t *out, uint32_t most);
#endif
