// C++'s mutexes and conditions: 5 waits for a mutex whose holder sleeps, 5 for a condition.
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <shared_mutex>
#include <thread>

static std::mutex mutex;
static std::condition_variable condition;
static int ready;

int main()
{
    for (int i = 0; i < 5; i++) {
        std::thread other([i] {
            std::lock_guard<std::mutex> hold(mutex);
            ready = i + 1;
            condition.notify_one();
        });
        std::unique_lock<std::mutex> hold(mutex);
        condition.wait_for(hold, std::chrono::hours(1), [i] { return ready > i; });
        hold.unlock();
        other.join();
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    std::puts("pthread_join 5");
    return 0;
}
