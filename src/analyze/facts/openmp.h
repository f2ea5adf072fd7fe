/* Parallel regions of OpenMP, added up by their place in the program: for the table openmp_regions and the
 * rule openmp.imbalance. */
#ifndef KA_OPENMP_H
#define KA_OPENMP_H

#include "analyze/dataset/dataset.h"

typedef struct ka_openmp_region {
    uint32_t name; /* string id of its rows, "omp parallel …" */
    uint32_t count, threads;     /* how often it ran; its largest team */
    int64_t ns;                  /* sum of its durations */
    int64_t mean_ns, longest_ns; /* sums over its runs: work of the mean, and of the busiest thread */
    int64_t waiting_ns;          /* at barriers, of all threads */
    int64_t savings_ns;          /* what runs would be shorter if all threads came to barriers at once, but no
                                    shorter than their work takes on the CPUs that threads ran on */
    kineto_row worst;            /* the run with the largest savings */
    int64_t worst_ns;            /* … and those */
} ka_openmp_region;
typedef KB_VEC(ka_openmp_region) ka_openmp_regions;

/** What a table shows of a region's name: without "omp parallel ". */
kineto_string ka_openmp_place(const ka_dataset *s, uint32_t name);
/** Appends the times in which parallel regions ran, of all threads, and unites them. False: out of memory. */
bool ka_openmp_region_spans(const ka_dataset *s, ka_spans *out);
/** Is a function the body of a parallel region, as compilers name it: "heat._omp_fn.0", "main.omp_outlined"? */
bool ka_is_openmp_body(kineto_string function);
/** The regions of a trace, by the time of their first run. `out` is to be freed in any case. False: out of
 *  memory. */
bool ka_openmp_regions_find(const ka_dataset *s, ka_openmp_regions *out);
#endif
