/* Linked into a bridge to PyTorch for a wheel: what headers of a new libstdc++ call and an old one lacks. The
 * version script of the bridge hides these definitions. */
#include <new>
#include <sstream>

namespace std {
/* Since GCC 11. */
[[noreturn]] void __throw_bad_array_new_length();
void __throw_bad_array_new_length()
{
    throw bad_array_new_length();
}
}

/* Since GCC 9 the library has it; headers of GCC 12 call it. */
template std::basic_ostringstream<char>::basic_ostringstream();

/* Since glibc 2.32: false is always right, reference counts are then atomic. */
extern "C" {
extern char __libc_single_threaded;
char __libc_single_threaded = 0;
}
