// Benchmark of PyTorch's RecordFunction, which records its operators: an empty one while no profiler
// is active, and one recorded by its Kineto observer on the CPU; with the floor of bench_peers.
//
//     peer_torch        one JSON line per result
#include "bench.h"

#include <ATen/record_function.h>
#include <torch/csrc/autograd/profiler_kineto.h>

#include <x86intrin.h>

namespace
{
const int PAIRS = 20000, ROUNDS = 30;

uint64_t floor_buffer[4];

void run_floor()
{
    for (int i = 0; i < PAIRS; i++) {
        floor_buffer[0] = __rdtsc();
        floor_buffer[1] = (uint64_t)i;
        BENCH_BARRIER();
        floor_buffer[2] = __rdtsc();
        floor_buffer[3] = (uint64_t)i;
        BENCH_BARRIER();
    }
}

void run_torch()
{
    for (int i = 0; i < PAIRS; i++) {
        RECORD_FUNCTION("pair", c10::ArrayRef<const c10::IValue>());
        BENCH_BARRIER();
    }
}

double time_ns(void (*run)())
{
    double start = bench_thread_ns();
    run();
    return (bench_thread_ns() - start) / PAIRS;
}

void rounds(const char *name, bool recorded)
{
    namespace p = torch::profiler::impl;
    bench_series own = {}, floor = {};
    const std::set<p::ActivityType> activities = {p::ActivityType::CPU};
    const p::ProfilerConfig config(p::ProfilerState::KINETO);
    run_torch(); // warm
    for (int round = 0; round < ROUNDS; round++) {
        bench_add(&floor, time_ns(run_floor));
        if (recorded) { // a profile for each round: its memory is not bounded
            torch::autograd::profiler::prepareProfiler(config, activities);
            torch::autograd::profiler::enableProfiler(config, activities);
            run_torch();
        }
        bench_add(&own, time_ns(run_torch));
        if (recorded)
            torch::autograd::profiler::disableProfiler();
    }
    bench_print(name, "ns/pair", &own, &floor);
}
} // namespace

int main()
{
    rounds("torch_off", false);
    rounds("torch_kineto", true);
    return 0;
}
