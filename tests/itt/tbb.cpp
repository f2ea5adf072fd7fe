// A program of oneTBB's: parallel_for N times, a flow graph with a name, and a lock that a thread waits for.
// Prints N.
#define TBB_USE_PROFILING_TOOLS 2
#include <oneapi/tbb.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

using namespace oneapi;

static void wait_for_a_lock()
{
    tbb::queuing_mutex lock;
    std::atomic<bool> started{false};
    tbb::profiling::set_name(lock, "the lock");
    tbb::queuing_mutex::scoped_lock held(lock);
    std::thread waiter([&] {
        started = true;
        tbb::queuing_mutex::scoped_lock waited(lock);
    });
    while (!started)
        std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    held.release();
    waiter.join();
}

int main(int argc, char **argv)
{
    int n = argc > 1 ? std::atoi(argv[1]) : 10;
    std::atomic<int> count{0};
    for (int i = 0; i < n; i++)
        tbb::parallel_for(0, 10, [&](int) { count++; });
    tbb::flow::graph graph;
    tbb::flow::function_node<int, int> node(graph, 1, [](int x) { return x + 1; });
    tbb::profiling::set_name(node, "the node");
    for (int i = 0; i < 3; i++)
        node.try_put(i);
    graph.wait_for_all();
    wait_for_a_lock();
    std::printf("%d\n", count.load() / 10);
}
