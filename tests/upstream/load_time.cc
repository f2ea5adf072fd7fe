// The same as C++, where the check of the type is another one.
#include "load_time.c"
