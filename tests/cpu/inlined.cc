// The same in C++: templates, lambdas, methods, functions of the standard library and of an unnamed namespace.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <map>
#include <numeric>
#include <string>
#include <vector>

namespace work
{
template <typename T> struct Mixer {
    T state;
    inline __attribute__((always_inline)) T next()
    {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        return state * T(0x9e3779b97f4a7c15ull);
    }
};

namespace
{
inline __attribute__((always_inline)) uint64_t hidden(uint64_t x) { return x * 31 + (x >> 3); }
} // namespace

__attribute__((noinline)) uint64_t spin(uint64_t seed, int rounds)
{
    Mixer<uint64_t> m{seed | 1};
    auto step = [&](uint64_t x) __attribute__((always_inline)) { return hidden(x) ^ m.next(); };
    uint64_t sum = 0;
    for (int i = 0; i < rounds; i++)
        sum = step(sum);
    return sum;
}

__attribute__((noinline)) size_t containers(uint64_t seed)
{
    std::vector<uint32_t> v(1000);
    std::map<uint32_t, std::string> names;
    for (auto &x : v)
        x = uint32_t(seed = seed * 6364136223846793005ull + 1);
    std::sort(v.begin(), v.end(), [](uint32_t a, uint32_t b) { return (a ^ 5) < (b ^ 5); });
    for (size_t i = 0; i < 20; i++)
        names[v[i]] = std::to_string(v[i]);
    return names.size() + std::accumulate(v.begin(), v.end(), size_t(0));
}
} // namespace work

int main(int argc, char **argv)
{
    double end = double(std::clock()) / CLOCKS_PER_SEC + (argc > 1 ? atof(argv[1]) : 100) / 1000;
    uint64_t sum = 1;
    while (double(std::clock()) / CLOCKS_PER_SEC < end) {
        sum += work::spin(sum, 200000);
        sum += work::containers(sum);
    }
    std::printf("%llu\n", (unsigned long long)sum);
}
