// Functions of C++ whose names test_cpu.py knows: of a namespace, a template, a class with virtual functions.
#include <cstdint>
#include <ctime>
#include <stdexcept>

namespace work
{
volatile uint64_t sink;

static double cpu_seconds() { return double(std::clock()) / CLOCKS_PER_SEC; }

struct Base {
    virtual ~Base() {}
    virtual void spin(int ms) = 0;
    __attribute__((noinline)) void call(int ms)
    {
        spin(ms);
        sink = sink + 1;
    }
};

template <typename T> struct Spinner : Base {
    __attribute__((noinline)) void spin(int ms) override
    {
        double end = cpu_seconds() + ms / 1e3;
        T x = 0;
        do {
            for (int i = 0; i < 100000; i++)
                sink = sink * 31 + 7;
            x += 1;
        } while (cpu_seconds() < end);
        sink = sink + uint64_t(x);
    }
};

namespace
{
__attribute__((noinline)) void run_for(int ms)
{
    Spinner<int> a;
    Spinner<double> b;
    Base *both[] = {&a, &b};
    for (Base *s : both) {
        try { // tables for exceptions are part of the tables for unwinding
            s->call(ms);
            throw std::runtime_error("done");
        } catch (const std::exception &) {
            sink = sink + 1;
        }
    }
}
} // namespace
} // namespace work

int main()
{
    work::run_for(300);
    return 0;
}
