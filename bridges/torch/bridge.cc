/* The whole bridge as one translation unit: most of the time to compile it goes into PyTorch's
 * headers, which are read only once this way. */
#include "recorder.cc"
#include "thread_state.cc"
#include "inputs.cc"
#include "memory.cc"
#include "collectives.cc"
#include "python.cc"
#include "selftest.cc"
#if CKINETO_TORCH_HAS_KINETO
#include "library.cc"
#include "into_trace.cc"
#include "from_trace.cc"
#include "seat_trace.cc"
#include "seat.cc"
#include "guest.cc"
#include "daemon.cc"
#endif
