/* Jobs of several processes (MPI, Slurm, torchrun): the rank of this process, names of files for each
 * rank, and whether a program is likely to use MPI. */
#ifndef KC_JOB_H
#define KC_JOB_H

#include "base/base.h"

#include <limits.h>

#define KC_RANK_PLACEHOLDER "{rank}"

/** From the environment variables of launchers; -1: this process was not started by one that ckineto
 *  knows. */
int64_t kc_job_rank(void);
/** How many processes the job has; 0: not known. */
int64_t kc_job_size(void);

/** Replace each {rank} of a path by this process's rank.
 *  @return KINETO_E_ARGUMENT without a rank. */
kineto_status kc_job_expand_path(const char *path, char out[PATH_MAX], kineto_error *err);

/** Does MPI's launcher start this process, is the program such a launcher, or does its file need an MPI
 *  library? */
bool kc_job_uses_mpi(const char *program);
#endif
