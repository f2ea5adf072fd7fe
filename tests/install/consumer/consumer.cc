// The same from C++17; the range also ends when an exception leaves the block.
#include <ckineto/ckineto.h>

#include <cstdio>
#include <stdexcept>

static void throws()
{
    KINETO_SCOPED("a step");
    throw std::runtime_error("left by an exception");
}

int main(int argc, char **argv)
{
    kineto_session *session = nullptr;
    kineto_trace *trace = nullptr;
    kineto_session_options options;
    kineto_session_options_init(&options);
    options.buffer_bytes = 4 << 20;

    if (argc != 2 || kineto_session_begin(&options, &session, nullptr) != KINETO_OK)
        return 2;
    for (int i = 0; i < 5; i++) {
        try {
            throws();
        } catch (const std::exception &) {
        }
    }
    if (kineto_session_end(session, &trace, nullptr) != KINETO_OK)
        return 3;
    kineto_status status = kineto_trace_save(trace, argv[1], nullptr);
    std::printf("%d activities\n", static_cast<int>(kineto_trace_count(trace)));
    kineto_trace_release(trace);
    return status == KINETO_OK ? 0 : 1;
}
