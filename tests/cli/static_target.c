/* A program that nothing can be loaded into; it stays long enough to be seen, or with an argument ends
 * at once. */
#include <time.h>

int main(int argc, char **argv)
{
    struct timespec time = {0, 400000000};
    (void)argv;
    if (argc == 1)
        nanosleep(&time, NULL);
    return 0;
}
