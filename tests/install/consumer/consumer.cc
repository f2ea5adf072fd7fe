// The same from C++17; what is open also ends when an exception leaves the block.
#include <ckineto/ckineto.h>
#include <ckineto/ckineto.hpp>

#include <cstdio>
#include <stdexcept>

KINETO_FUNCTION_SITE(step_site, KINETO_SCOPE_USER_SCOPE, "a step");

static void throws()
{
    kineto::function step(step_site, kineto::tensor(KINETO_DTYPE_FLOAT, {2, 3}));
    throw std::runtime_error("left by an exception");
}

int main(int argc, char **argv)
{
    kineto_session_options options = kineto::session_options();
    options.buffer_bytes = 4 << 20;
    kineto::session session(options);

    if (argc != 2 || !session)
        return 2;
    for (int i = 0; i < 5; i++) {
        try {
            throws();
        } catch (const std::exception &) {
        }
    }
    kineto::trace trace = session.stop();
    if (!trace)
        return 3;
    std::printf("%d activities\n", static_cast<int>(trace.size()));
    return trace.save(argv[1]) == KINETO_OK ? 0 : 1;
}
