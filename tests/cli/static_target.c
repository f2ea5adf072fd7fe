/* A program that nothing can be loaded into; it stays long enough to be seen. */
#include <time.h>

int main(void)
{
    struct timespec time = {0, 400000000};
    nanosleep(&time, NULL);
    return 0;
}
