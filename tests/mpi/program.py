"""An mpi4py program, which loads the MPI library with local scope."""
from mpi4py import MPI

world = MPI.COMM_WORLD
rank = world.Get_rank()
assert world.allreduce(rank) == 1
for n in range(3):
    if rank == 0:
        world.send({"n": n}, 1, tag=n)
    else:
        assert world.recv(source=MPI.ANY_SOURCE, tag=MPI.ANY_TAG) == {"n": n}
world.Barrier()
