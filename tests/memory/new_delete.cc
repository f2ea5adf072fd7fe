// new and delete of the C++ library, plain, aligned and in containers.
#include <cstdio>
#include <new>
#include <string>
#include <vector>

struct alignas(64) Wide {
    char bytes[4096];
};

int main()
{
    std::vector<std::string> all;
    for (int i = 0; i < 2000; i++)
        all.push_back(std::string(200, 'x'));
    for (int i = 0; i < 100; i++) {
        Wide *volatile wide = new Wide; // volatile: an unused pair may be optimised away
        wide->bytes[0] = 1;
        delete wide;
    }
    try {
        volatile std::size_t huge = static_cast<std::size_t>(-1) / 2;
        char *none = new char[huge];
        delete[] none;
    } catch (const std::bad_alloc &) {
        std::puts("bad_alloc");
    }
    std::printf("%zu\n", all.size());
    return 0;
}
