// A SYCL program with known counts, for the conformance run of the Intel source: 100 kernels "scale", 10
// kernels "spin", one copy in each direction, one fill.
#include <sycl/sycl.hpp>

#include <cstdio>
#include <vector>

class scale;
class spin;

int main()
{
    const size_t n = 1 << 20;
    sycl::queue q{sycl::gpu_selector_v, sycl::property::queue::in_order()};
    std::vector<float> host(n, 1.0f);
    float *x = sycl::malloc_device<float>(n, q);
    q.fill(x, 0.0f, n).wait();
    q.memcpy(x, host.data(), n * sizeof(float)).wait();
    for (int i = 0; i < 100; i++)
        q.parallel_for<scale>(sycl::range<1>(n), [=](sycl::id<1> k) { x[k] *= 1.01f; });
    for (int i = 0; i < 10; i++)
        q.single_task<spin>([=] {
            float y = x[0];
            for (int k = 0; k < 1000000; k++)
                y = y * 0.999f + 1.0f;
            x[0] = y;
        });
    q.wait();
    q.memcpy(host.data(), x, n * sizeof(float)).wait();
    sycl::free(x, q);
    std::printf("%s: %g\n", q.get_device().get_info<sycl::info::device::name>().c_str(), host[1]);
    return 0;
}
