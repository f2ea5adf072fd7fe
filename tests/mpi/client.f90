! The Fortran entry points: two ranks; prints what each has called.
program client
  implicit none
  include 'mpif.h'
  integer :: ierr, rank, ranks, half, other, request(2), status(MPI_STATUS_SIZE), file, i, kind
  integer(MPI_OFFSET_KIND) :: at
  double precision :: x(8), total(8)
  integer :: message(4)
  logical :: flag
  character(len=200) :: path
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierr)
  call MPI_Comm_split(MPI_COMM_WORLD, 0, rank, half, ierr)
  x = rank + 1
  call MPI_Allreduce(x, total, 8, MPI_DOUBLE_PRECISION, MPI_SUM, half, ierr)
  if (abs(total(1) - 3d0) > 1d-9) call MPI_Abort(MPI_COMM_WORLD, 3, ierr)
  call MPI_Bcast(message, 4, MPI_INTEGER, 0, MPI_COMM_WORLD, ierr)
  other = 1 - rank
  message = rank
  do i = 1, 3
    call MPI_Irecv(message(2), 1, MPI_INTEGER, MPI_ANY_SOURCE, i, half, request(1), ierr)
    call MPI_Isend(message, 1, MPI_INTEGER, other, i, half, request(2), ierr)
    call MPI_Waitall(2, request, MPI_STATUSES_IGNORE, ierr)
    if (message(2) /= other) call MPI_Abort(MPI_COMM_WORLD, 4, ierr)
  end do
  call MPI_Irecv(message(2), 1, MPI_INTEGER, other, 9, half, request(1), ierr)
  call MPI_Isend(message, 1, MPI_INTEGER, other, 9, half, request(2), ierr)
  do i = 1, 2
    call MPI_Waitany(2, request, kind, MPI_STATUS_IGNORE, ierr)
  end do
  if (rank == 0) then
    call MPI_Send(message, 2, MPI_INTEGER, 1, 7, MPI_COMM_WORLD, ierr)
  else
    call MPI_Recv(message, 4, MPI_INTEGER, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, status, ierr)
    if (status(MPI_TAG) /= 7) call MPI_Abort(MPI_COMM_WORLD, 5, ierr)
  end if
  call get_command_argument(1, path)
  if (len_trim(path) > 0) then
    call MPI_File_open(MPI_COMM_WORLD, trim(path), MPI_MODE_CREATE + MPI_MODE_WRONLY, MPI_INFO_NULL, file, ierr)
    at = 16 * rank
    call MPI_File_write_at(file, at, message, 4, MPI_INTEGER, MPI_STATUS_IGNORE, ierr)
    call MPI_File_close(file, ierr)
  end if
  call MPI_Barrier(MPI_COMM_WORLD, ierr)
  if (rank == 0) print '(A)', '{"rank":0,"counts":{"MPI_Init":[1,0],"MPI_Comm_split":[1,0],"MPI_Allreduce":[1,64],'// &
    '"MPI_Bcast":[1,16],"MPI_Irecv":[4,16],"MPI_Isend":[4,16],"MPI_Waitall":[3,0],"MPI_Waitany":[2,0],'// &
    '"MPI_Send":[1,8],"MPI_File_open":[1,0],"MPI_File_write_at":[1,16],"MPI_File_close":[1,0],'// &
    '"MPI_Barrier":[1,0],"MPI_Finalize":[1,0]}}'
  if (rank == 1) print '(A)', '{"rank":1,"counts":{"MPI_Init":[1,0],"MPI_Comm_split":[1,0],"MPI_Allreduce":[1,64],'// &
    '"MPI_Bcast":[1,16],"MPI_Irecv":[4,16],"MPI_Isend":[4,16],"MPI_Waitall":[3,0],"MPI_Waitany":[2,0],'// &
    '"MPI_Recv":[1,8],"MPI_File_open":[1,0],"MPI_File_write_at":[1,16],"MPI_File_close":[1,0],'// &
    '"MPI_Barrier":[1,0],"MPI_Finalize":[1,0]}}'
  call MPI_Finalize(ierr)
end program
