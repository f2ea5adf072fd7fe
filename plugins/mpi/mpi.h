/* The MPI source: interposes the functions of MPI (calls.def) of an unmodified program and records
 * each call with its size, its partners and its communicator.
 *
 *   calls.def    the functions, and which of their arguments are read
 *   calls.c      the entry points of C
 *   fortran.c    the entry points of Fortran
 *   begin.c      what is known of a call before it is passed on
 *   end.c        what is known after it: partners of receives, completed requests, communicators
 *   arguments.c  values of arguments, for C and for Fortran
 *   library.c    the MPI library of the process: its functions and what differs between libraries
 *   comms.c      communicators, with names and ids that are equal on all ranks
 *   messages.c   ids of messages, which are equal on both sides; open receives by their request
 *   types.c      sizes and names of datatypes, names of operations
 *   tally.c      notes in the ledger
 *
 * No header of MPI is used, because one library serves them all: every argument is a machine word
 * that is passed on untouched (a 32-bit handle of MPICH in a register, a pointer of Open MPI). Only a
 * status that the program ignores may be replaced by one of ours.
 *
 * A call of MPI within another one of the same thread is passed on (cx_thread.inside): libraries
 * implement files, and MPICH its Fortran functions, with their own exported functions. Sequence
 * numbers are counted also while nothing is recorded, so that all ranks agree about them. */
#ifndef CX_MPI_H
#define CX_MPI_H

#include <ckineto/record.h>

#include <stdatomic.h>
#include <stddef.h>

#define CX_TLS         __attribute__((tls_model("initial-exec")))
#define CX_COLD        __attribute__((noinline, cold))
#define CX_COUNT_OF(a) (sizeof(a) / sizeof((a)[0]))
#define CX_HIDDEN      __attribute__((visibility("hidden")))

/** An argument. */
typedef uintptr_t cx_word;

/* ---- the table of functions (calls.c) -------------------------------------------------------- */

typedef enum cx_how {
    CX_HOW_PLAIN, /* only begin and end */
    CX_HOW_BYTES, /* also bytes: one-sided, files */
    CX_HOW_OPEN,  /* a file, by name */
    CX_HOW_INIT,
    CX_HOW_FINALIZE,
    CX_HOW_SEND,
    CX_HOW_SEND_INIT,
    CX_HOW_RECV,
    CX_HOW_IRECV,
    CX_HOW_RECV_INIT,
    CX_HOW_SENDRECV,
    CX_HOW_MPROBE,
    CX_HOW_MRECV,
    CX_HOW_IMRECV,
    CX_HOW_START,
    CX_HOW_REQUEST_FREE,
    CX_HOW_IF_FLAG, /* recorded if it found something */
    CX_HOW_WAIT,    /* these four also for tests, which have a FLAG or DONE */
    CX_HOW_WAIT_ALL,
    CX_HOW_WAIT_ANY,
    CX_HOW_WAIT_SOME,
    CX_HOW_COLLECTIVE,
    CX_HOW_COMM_NEW,
    CX_HOW_COMM_FREE,
    CX_HOW_TYPE_FREE
} cx_how;

/** Elements that a rank puts into a collective and gets out of it, by its arguments. */
typedef enum cx_sizes {
    CX_SIZES_0,
    CX_SIZES_NONE,
    CX_SIZES_SAME,
    CX_SIZES_GATHER,
    CX_SIZES_GATHERV,
    CX_SIZES_SCATTER,
    CX_SIZES_SCATTERV,
    CX_SIZES_ALLGATHER,
    CX_SIZES_ALLGATHERV,
    CX_SIZES_ALLTOALL,
    CX_SIZES_ALLTOALLV,
    CX_SIZES_REDUCE_SCATTER,
    CX_SIZES_REDUCE_SCATTER_BLOCK
} cx_sizes;

typedef enum cx_role {
    CX_COUNT,
    CX_TYPE,
    CX_PEER,
    CX_TAG,
    CX_COUNT2,
    CX_TYPE2,
    CX_PEER2,
    CX_TAG2,
    CX_COMM,
    CX_ROOT,
    CX_OP,
    CX_REQUEST,  /* one, or an array of CX_REQUESTS */
    CX_REQUESTS, /* how many */
    CX_STATUS,
    CX_FLAG,
    CX_INDEX,
    CX_DONE, /* how many completed */
    CX_MESSAGE,
    CX_NEW_COMM,
    CX_FILE_NAME,
    CX_ROLE_COUNT
} cx_role;

typedef enum cx_number {
#define CALL(name, ...) CX_CALL_##name,
#include "calls.def"
    CX_CALL_COUNT
} cx_number;

typedef struct cx_spec {
    const char *name, *fortran; /* "MPI_Send", "mpi_send_" */
    uint8_t argument_count, how, sizes;
    uint8_t at[CX_ROLE_COUNT]; /* 1 + index of the argument with a role; 0: it has none */
} cx_spec;
extern const cx_spec cx_specs[CX_CALL_COUNT];

/** How a call came: its counts are int, MPI_Count, or behind pointers as all of Fortran's. */
typedef enum cx_language {
    CX_C,
    CX_C_LARGE,
    CX_FORTRAN,
    CX_FORTRAN_2008,
    CX_LANGUAGE_COUNT
} cx_language;

/* ---- communicators (comms.c) ----------------------------------------------------------------- */

#define CX_NAME_BYTES 48
typedef struct cx_comm {
    _Atomic(cx_word) handle; /* 0: free */
    uint64_t id;             /* the same on all ranks */
    int rank, size;          /* of this process; of the (remote) group */
    bool is_inter;
    int32_t *world_ranks; /* of the ranks that messages go to; NULL: they are those of the world */
    atomic_uint_fast64_t sequence; /* of collectives */
    char name[CX_NAME_BYTES];
} cx_comm;

/** NULL: none, unknown MPI library, or no room. Registers it at first use. */
cx_comm *cx_comm_find(cx_word handle);
/** Register a communicator that was just created. NULL as above, and for the null handle. */
cx_comm *cx_comm_add(cx_word handle);
void cx_comm_remove(cx_word handle);
/** Rank and size of the world become part of the header. */
void cx_comms_start(void);
/** Rank in the world of a rank of the communicator; -1: none (MPI_PROC_NULL, another job). */
int cx_world_rank(const cx_comm *comm, int rank);
int cx_my_world_rank(void);

/* ---- messages (messages.c) ------------------------------------------------------------------- */

/** Id of the next message from one rank of the world to another; never 0. `received`: count the side
 *  that receives. 0: no id, which is counted. */
uint64_t cx_message_next(const cx_comm *comm, int from, int to, int tag, bool received);
/** A number that grows with each call for the key, from 0. UINT64_MAX: the table is full. */
uint64_t cx_count_next(uint64_t key);
uint64_t cx_mix(uint64_t a, uint64_t b);

/** What is known of an open request, or of a matched message, whose completion is the arrival of a
 *  message. */
typedef struct cx_exchange {
    uint64_t message; /* 0: known when it completes */
    cx_comm *comm;
    int peer, tag; /* ranks of the world; peer -1: any */
    bool is_persistent, is_send, is_active;
} cx_exchange;

typedef struct cx_request {
    _Atomic(cx_word) handle; /* 0: free */
    cx_exchange exchange;
} cx_request;

/** A request at the begin of a call that may complete it. */
typedef struct cx_pending {
    cx_request *slot; /* NULL: not followed */
    cx_word handle;
    cx_exchange exchange;
} cx_pending;

/** Follow a request. Counted if there is no room. */
void cx_request_add(cx_word handle, const cx_exchange *exchange);
/** False: it is not followed. */
bool cx_request_find(cx_word handle, cx_pending *out);
/** Stop following it. Called before the call that completes it: the library may give its handle to
 *  another thread as soon as it has completed. */
void cx_request_remove(const cx_pending *pending);

/* ---- datatypes (types.c) --------------------------------------------------------------------- */

typedef struct cx_type {
    cx_word handle;
    uint64_t version;
    int64_t bytes;     /* of one element */
    const char *dtype; /* as PyTorch spells it; "byte" for all that it does not have */
    bool is_plain;     /* false: counts are to be multiplied with `bytes` for "byte" */
} cx_type;
cx_type cx_type_find(cx_word handle);
void cx_types_forget(void);
const char *cx_op_name(cx_word handle);

/* ---- the MPI library (library.c) ------------------------------------------------------------- */

/** What differs between libraries. */
typedef struct cx_library {
    bool is_known;
    bool has_int_handles;      /* 32 bits, and Fortran's are the same */
    uint8_t source_at, tag_at; /* bytes, in a status */
    uint8_t status_bytes;
    int any_source, any_tag;
    cx_word world, self, null_comm, ignored_status;
    char name[64];
} cx_library;
extern cx_library cx_library_facts;

/** Functions of MPI that we call ourselves. All are set if the library is known. */
typedef struct cx_functions {
    int (*type_size)(cx_word, int *);
    int (*type_get_name)(cx_word, char *, int *);
    int (*comm_size)(cx_word, int *);
    int (*comm_rank)(cx_word, int *);
    int (*comm_group)(cx_word, cx_word *);
    int (*comm_test_inter)(cx_word, int *);
    int (*comm_remote_group)(cx_word, cx_word *);
    int (*group_size)(cx_word, int *);
    int (*group_translate_ranks)(cx_word, int, const int *, cx_word, int *);
    int (*group_free)(cx_word *);
    int (*get_count)(const void *, cx_word, int *);
    int (*get_library_version)(char *, int *);
    /* Handles of Fortran; NULL: they are those of C. */
    cx_word (*comm_f2c)(int);
    cx_word (*type_f2c)(int);
    cx_word (*request_f2c)(int);
    cx_word (*op_f2c)(int);
    cx_word (*message_f2c)(int);
} cx_functions;
extern cx_functions cx_mpi;

/** Finds the library's functions and facts. Called once, in MPI_Init. */
void cx_library_find(void);
/** The function that a call of this name is passed on to: the next library's, which may be another
 *  tool's; never NULL. */
void *cx_next(cx_number number, cx_language language);
/** Libraries before MPI 4 have no functions with MPI_Count, but with us a program that tests for one
 *  (by a weak reference, as mpi4py does) finds it: then the function with int is called, if the counts
 *  fit. True: they do not. */
bool cx_is_too_large(cx_number number, const cx_word *words);
#define CX_ERROR_COUNT 2 /* MPI_ERR_COUNT, in all libraries */
/** A data symbol of the library; NULL: it has none. */
void *cx_find_data(const char *name);

/* ---- a call (arguments.c, begin.c, end.c) ---------------------------------------------------- */

#define CX_INLINE_PENDING 32
#define CX_STATUS_BYTES   32 /* of the largest status */

typedef struct cx_call {
    const cx_spec *spec;
    cx_word *words; /* arguments; of Fortran addresses of them */
    uint8_t language;
    bool is_recorded;
    bool is_test;   /* its range begins when it has found something */
    uint8_t number; /* cx_number */
    kineto_range range;
    cx_comm *comm;
    uint64_t message; /* that it receives; 0: not known yet, or none */
    bool is_receiving;
    int peer, tag; /* of a receive; peer -1: any */
    int64_t bytes; /* room of a receive */
    uint32_t pending_count;
    cx_pending *pending; /* requests before the call */
    void *statuses;   /* replace those that the program ignores; NULL: not needed */
    cx_pending inline_pending[CX_INLINE_PENDING];
    char inline_status[CX_STATUS_BYTES];
} cx_call;
_Static_assert(CX_CALL_COUNT <= 256, "cx_call.number has a byte");

typedef struct cx_thread {
    uint32_t inside; /* in one of our functions */
} cx_thread;
extern __thread cx_thread cx_this_thread CX_TLS;
/** MPI is initialised, and its library known enough to be asked. */
extern atomic_bool cx_is_ready;

/** False: pass the call on and do nothing else. May replace words. */
bool cx_begin(cx_call *c, cx_number number, cx_language language, cx_word *words);
void cx_end(cx_call *c, int error);
/** For tests, which begin their range when they have found something. */
void cx_begin_range(cx_call *c, const kineto_value *values);
/** Statuses of ours in place of those that the program ignores. */
void cx_replace_status(cx_call *c);

/* Values of arguments with a role; the call must have it. */
static inline bool cx_has(const cx_call *c, cx_role role) { return c->spec->at[role] != 0; }
static inline cx_word cx_word_of(const cx_call *c, cx_role role)
{
    return c->words[c->spec->at[role] - 1];
}
static inline bool cx_is_fortran(const cx_call *c) { return c->language >= CX_FORTRAN; }
int cx_int(const cx_call *c, cx_role role);
int64_t cx_size(const cx_call *c, cx_role role);
/** Sum of an array of as many counts as the communicator has ranks; element `only` of it if that is
 *  not negative. */
int64_t cx_sizes_sum(const cx_call *c, cx_role role, int ranks, int only);
typedef enum cx_handle_kind {
    CX_KIND_COMM,
    CX_KIND_TYPE,
    CX_KIND_REQUEST,
    CX_KIND_OP,
    CX_KIND_MESSAGE
} cx_handle_kind;
/** A handle that is passed by value. */
cx_word cx_handle(const cx_call *c, cx_role role, cx_handle_kind kind);
/** Element `index` of handles that are passed by address. */
cx_word cx_handle_at(const cx_call *c, cx_role role, cx_handle_kind kind, size_t index);
/** An int that the call wrote, for example a flag or an index; `index` of an array. */
int cx_result(const cx_call *c, cx_role role, size_t index);
/** Does the program not want the status? */
bool cx_ignores_status(const cx_call *c);
/** Called once, in MPI_Init. */
void cx_find_ignored_statuses(void);
/** Copies requests before the call completes them. False: out of memory. */
bool cx_copy_requests(cx_call *c);
void cx_free_requests(cx_call *c);
/** A file's name of C or Fortran, without its trailing blanks. */
void cx_file_name(const cx_call *c, char *out, size_t size);

/* ---- the ledger (tally.c) -------------------------------------------------------------------- */

/* X(NAME, is a loss, reason, detail) */
#define CX_TALLY_MAP(X)                                                                            \
    X(TESTS, false, "tests and probes that found nothing",                                         \
      "passed on and not recorded, because programs repeat them until something is there")         \
    X(MESSAGES, false, "messages without an arrow",                                                \
      "more pairs of ranks and tags, or open receives, than can be followed")                      \
    X(COMMS, false, "communicators that are not named",                                            \
      "more communicators exist at a time than can be followed")                                   \
    X(LIBRARY, false, "unknown MPI library",                                                       \
      "calls are recorded without sizes, partners and ranks")                                      \
    X(OWN, false, "MPI is part of the program itself",                                             \
      "statically linked, or another tool's: its calls cannot be interposed")                      \
    X(MISSING, false, "MPI functions that were not found",                                         \
      "the program called a function that its MPI library does not have")
typedef enum cx_tally {
#define CX_X(name, is_loss, reason, detail) CX_TALLY_##name,
    CX_TALLY_MAP(CX_X)
#undef CX_X
        CX_TALLY_COUNT
} cx_tally;
void cx_count(cx_tally what);

#endif
