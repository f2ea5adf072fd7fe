/* A synthetic job of any size as rows of ranks, computed when they are read: no memory and no files. Hosts have eight
 * ranks, which are a group; the ranks with the same number in their hosts are a group, too. A step has collectives of
 * the host, one after the other, and ends with one across hosts. Each collective ends when its slowest member, another one
 * each time, has computed and the transfer is done. One rank can compute longer than the others. Clocks of hosts have
 * offsets and drifts. */
#ifndef RANK_ROWS_H
#define RANK_ROWS_H

#include "analyze/ranks/rank_source.h"

typedef struct rank_job {
    uint32_t ranks;     /* multiple of 8 */
    uint32_t steps, rows_of_step;
    int64_t work_ns, transfer_ns;
    uint32_t slow_rank; /* KA_NONE: none */
    double slow_share;  /* of its work, more */
    bool on_host;       /* without a device: work is of the host */
} rank_job;

typedef struct rank_generator {
    rank_job job;
    ka_rank_facts head;
    uint32_t rank;
} rank_generator;

/** Heads and sources of all ranks. @param of, sources  room for job->ranks; of is to be freed by rank_generators_free. */
void rank_generators_start(const rank_job *job, rank_generator *of, ka_rank_source *sources);
void rank_generators_free(rank_generator *of, uint32_t count);
/** Facts with all rows in memory, to be released. NULL: out of memory. */
ka_rank_facts *rank_generator_facts(rank_generator *g);
/** By how much the slow rank makes the run longer. */
int64_t rank_job_gain_ns(const rank_job *job);
#endif
