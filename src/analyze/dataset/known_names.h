/* Meanings of names that frameworks and vendors give their activities. */
#ifndef KA_KNOWN_NAMES_H
#define KA_KNOWN_NAMES_H

#include "base/base.h"

#include <ckineto/trace.h>

struct ka_dataset;

/** Is the trace of a program that uses PyTorch? Advice then names its functions and the options of its profiler. */
bool ka_is_torch(const kineto_trace *t);
/** A wait for the next batch: "enumerate(DataLoader)#….__next__". */
bool ka_is_dataloader(kineto_string name);
/** A range of a host thread that communicates: a call of MPI, but not those that begin and end MPI. */
bool ka_is_mpi_call(const struct ka_dataset *s, uint32_t slice);
/** A collective of MPI that returns when it is done ("MPI_Allreduce", not "MPI_Iallreduce"), so that
 *  what the others wait for the last rank is in its duration. */
bool ka_is_mpi_collective(const struct ka_dataset *s, uint32_t slice);
/** Its communicator, if it is not the whole world: then part of the collective's identity. "": the
 *  world, or not known. */
kineto_string ka_mpi_group(const struct ka_dataset *s, uint32_t slice);
/** The process group of a kernel that communicates, by its name, which is the same on all its ranks; empty: all ranks, or not known.
 *  @param ranks  receives its size; 0. */
kineto_string ka_device_group(const struct ka_dataset *s, kineto_row row, int64_t *ranks);
/** Operators that multiply matrices, convolve, attend or are recurrent, whatever their library. */
bool ka_is_eligible(kineto_string op);
/** Can the call not have waited for what it launched? True of copies and memsets whose call is Async,
 *  unless they move pageable memory: copies within a device or between devices, and from and to pinned
 *  memory, as far as their names show. */
bool ka_cannot_block(const struct ka_dataset *s, uint32_t slice);
#endif
