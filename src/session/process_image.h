/* One program image of a process, examined from outside: its identity, and why it may not record.
 * Each exec gives the process a new image. Used by children.c. */
#ifndef KS_PROCESS_IMAGE_H
#define KS_PROCESS_IMAGE_H

#include "session/session.h"

#include <sys/types.h>

/* X(NAME, text of the ledger) */
#define KS_UNRECORDED_MAP(X)                                                                       \
    X(UNUSED, "used no recorded interface")                                                        \
    X(TORCH, "runs PyTorch, and Python did not import ckineto's package (python -I, -E or -S, "    \
             "TORCH_DEVICE_BACKEND_AUTOLOAD=0, a PYTHONPATH that was replaced): run it without "   \
             "these, or install ckineto by pip and import it in the program")                      \
    X(PYTHON, "runs Python, and it did not import ckineto's package, so its functions are not "    \
              "recorded (python -I, -E or -S, a PYTHONPATH that was replaced, Python before 3.5), "\
              "or it ended before that")                                                           \
    X(TORCH_LEFT_OUT, "runs PyTorch, and --no-torch or CKINETO_TORCH=0 leaves it out")             \
    X(OPENCL,                                                                                      \
      "an OpenCL library is loaded, and ckineto's layer is not (nothing of OpenCL was "            \
      "called yet, or this loader does not read OPENCL_LAYERS: 'ckineto doctor' tries it)")        \
    X(VULKAN,                                                                                      \
      "a Vulkan library is loaded, and ckineto's layer is not (no instance of Vulkan was "         \
      "created yet, or this loader does not read VK_ADD_LAYER_PATH: 'ckineto doctor' tries it)")   \
    X(MPI, "an MPI library is loaded, and ckineto's is not: use --mpi on")                         \
    X(STATIC, KT_REASON_STATIC)                                                                   \
    X(WORD_SIZE, KT_REASON_WORD_SIZE)                                                             \
    X(SET_ID, KT_REASON_SET_ID)                                                                   \
    X(NAMESPACE, "in another pid or mount namespace")                                              \
    X(INVISIBLE, "cannot see the recording's buffer: another root directory (chroot)")             \
    X(REFUSED, "may not open the recording's buffer: runs as another user than the recorder")      \
    X(NO_MEMORY,                                                                                   \
      "has no room for the recording's buffer: its address space is limited (ulimit -v)")          \
    X(ENVIRONMENT, "was started without the recording's environment: CKINETO_SESSION is not set")  \
    X(OTHER_RECORDING, "belongs to another recording: CKINETO_SESSION names another buffer")       \
    X(OTHER_VERSION, "has a library of another version of ckineto, which cannot read the "         \
                     "recording's buffer: link it with the version of the command")                \
    X(NOT_ATTACHED, "has the recorder loaded, which did not attach: KINETO_LOG_LEVEL=1 shows why") \
    X(HIDDEN, "belongs to another user: cannot be looked at")                                      \
    X(CLOSED, "does not let itself be looked at: its program file cannot be read, or it called "   \
              "prctl(PR_SET_DUMPABLE)")                                                            \
    X(BRIEF, "ended too soon to be looked at")
typedef enum ks_unrecorded {
#define X(name, text) KS_UNRECORDED_##name,
    KS_UNRECORDED_MAP(X)
#undef X
        KS_UNRECORDED_COUNT
} ks_unrecorded;

/** The text for the ledger. */
const char *ks_unrecorded_text(ks_unrecorded why);

/* What a process needs in order to attach, and the namespaces of the recorder. */
typedef struct ks_surroundings {
    char pool_path[KS_PATH_BYTES];
    uint64_t pool_bytes;
    dev_t pool_device; /* of its file; with the inode, 0: not known */
    ino_t pool_inode;
    uid_t pool_owner;
    bool python_left_out; /* by the command: Python processes are excluded on purpose */
    bool python_functions; /* by the command: every Python process attaches */
    char pid_namespace[64], mount_namespace[64];
} ks_surroundings;

/** @param pool_path  of the recording's buffer; NULL: there is none to attach to. */
void ks_surroundings_init(ks_surroundings *s, const char *pool_path, uint64_t pool_bytes);

/* A process between two execs. */
typedef struct ks_image {
    uint32_t pid;
    uint32_t pass;                /* the caller's: pass in which it was last examined */
    uint64_t first_ns, last_ns;   /* first and last examination; CLOCK_MONOTONIC, 0: none */
    uint64_t start_time, exec_id; /* as in kf_process_entry; exec_id 0: cannot be read */
    uint64_t random_at;           /* address of the bytes that exec_id is computed from */
    ks_unrecorded why;            /* if it is not recorded */
    bool was_searched;            /* for libraries */
    bool has_recorder;            /* libckineto-rt is loaded into it */
    bool is_python;               /* its program file is an interpreter of Python */
    bool has_functions;           /* the recorder of Python functions is loaded into it */
    bool secure;                  /* the kernel raised its privileges at its exec */
    bool replaced;                /* by another image of its process */
    bool gone;                    /* the process has ended */
    dev_t device;                 /* of the program file, with its inode */
    ino_t inode;
    uint64_t cpu_ns;         /* of the process, at the last examination */
    uint64_t next_search_ns; /* CPU time at which its libraries are searched again */
    uint64_t searched_ns;    /* CPU time at the last search */
    char name[32];
} ks_image;

/** Was it replaced at once, like a shell that executes the program? */
bool ks_image_is_transient(const ks_image *it);
/** Does it run Python without the recorder of functions, although that was requested? True only after
 *  enough CPU time for it to be loaded. */
bool ks_image_lacks_functions(const ks_surroundings *s, const ks_image *it);
/** Does the process still run this image? An unreadable process counts as unchanged. */
bool ks_image_is_current(ks_image *it);
/** Examine the process again: first its program, later the libraries that it loaded. */
void ks_image_examine(const ks_surroundings *s, ks_image *it);
/** kb_os_exec_id of another process; 0: it cannot be read. */
uint64_t ks_process_exec_id(uint32_t pid);
#endif
