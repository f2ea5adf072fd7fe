/* The bridge between PyTorch and ckineto: what its parts share, and what Python calls.
 *
 * A bridge is one shared library for one minor version of PyTorch. It has three clients:
 *   recorder  a ckineto plug-in that records PyTorch's operators (RecordFunction callbacks);
 *   seat      ckineto in the place of libkineto's profiler: torch.profiler runs on it;
 *   guest     a child profiler of libkineto: torch.profiler keeps libkineto, our sources join it.
 * The recorder delivers operators; seat and guest deliver device work. Seat and guest exclude each
 * other, so that an activity has one owner.
 *
 * The bridge needs libckineto-rt. Seat and guest need libckineto too, which is opened when one of
 * them is attached (library.h). */
#ifndef CKINETO_TORCH_BRIDGE_H
#define CKINETO_TORCH_BRIDGE_H

#include "facts.h"

#include <cstddef>
#include <cstdint>

#define CKT_LIKELY(x) __builtin_expect(!!(x), 1)
#define CKT_UNLIKELY(x) __builtin_expect(!!(x), 0)

extern "C" {

/** Name of the ledger lines of the bridge. */
#define CKT_SOURCE "PyTorch"

/** The minor version that this bridge was built for: 200 + N for 2.N, 113 for 1.13. */
__attribute__((visibility("default"))) int ckineto_torch_minor(void);

/** What a bridge can do: a mask of CKINETO_TORCH_…. */
#define CKINETO_TORCH_RECORDER 1u
#define CKINETO_TORCH_SEAT 2u
#define CKINETO_TORCH_GUEST 4u
__attribute__((visibility("default"))) uint32_t ckineto_torch_features(void);

/** Called with Python's lock, in the main thread, soon after recording of operators began (1) or
 *  ended (0). */
typedef void (*ckineto_torch_observer)(int recording);

/** Run the self-test and register the recorder as a plug-in of ckineto; once per process.
 *  @param observer  may be NULL.
 *  @param text      receives the reason of a failure, NUL-terminated.
 *  @return 0, or -1: the self-test failed, or the host refused. Nothing is recorded then. */
__attribute__((visibility("default"))) int
ckineto_torch_attach_recorder(ckineto_torch_observer observer, char *text, size_t text_bytes);

/** The observer is not called any more: for the end of the interpreter. */
__attribute__((visibility("default"))) void ckineto_torch_detach_observer(void);

/** Counts of the recorder since the process started, in the order of ckt::Counts (recorder.h). For
 *  tests. */
__attribute__((visibility("default"))) void ckineto_torch_counts(uint64_t *out, size_t count);

/** Record memory in every recording (1), or only in those that run when the recorder is attached
 *  (0, the default): PyTorch warns on standard error about freed blocks whose allocation it has not
 *  seen. */
__attribute__((visibility("default"))) void ckineto_torch_want_memory(int wanted);

/** An iteration ends and the next one begins when the innermost operator or range that runs on the
 *  calling thread ends, now if none does: a step of an optimizer is counted within its own range.
 *  threads: any. */
__attribute__((visibility("default"))) void ckineto_torch_step_after(void);

/** Remove the recorder's memory hook from the calling thread, for a profiler that needs its place;
 *  it returns with the thread's next operator once that profiler has gone. */
__attribute__((visibility("default"))) void ckineto_torch_release_memory(void);

#if CKINETO_TORCH_HAS_KINETO
/** Take libkineto's place. @param libckineto  path of libckineto.so.0. The rest as above.
 *  @return 0; -1 with the reason: a profile is active, libckineto cannot be opened. */
__attribute__((visibility("default"))) int ckineto_torch_attach_seat(const char *libckineto,
                                                                     char *text, size_t text_bytes);
/** Stop the thread of libkineto that polls a daemon (KINETO_USE_DAEMON); once per process.
 *  @return 0; -1 with the reason: this PyTorch has no such functions, and its client goes on. */
__attribute__((visibility("default"))) int ckineto_torch_stop_daemon_client(char *text,
                                                                            size_t text_bytes);
/** Join libkineto as a child profiler. */
__attribute__((visibility("default"))) int ckineto_torch_attach_guest(const char *libckineto,
                                                                      char *text,
                                                                      size_t text_bytes);
#endif
}

#endif
