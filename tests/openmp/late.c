/* With WORK: a library with regions. Without: a program that is compiled without OpenMP, forks, and loads that
 * library in both processes, visible to nothing else, as Python does with extensions. late LIBRARY */
#ifdef WORK
int work(void);
int work(void)
{
    int sum = 0;
    for (int r = 0; r < 5; r++) {
#pragma omp parallel num_threads(2) reduction(+ : sum)
        sum += 1;
    }
    /* Optimised bodies jump to the construct that they end with: its return address is not in this library. */
#pragma omp parallel num_threads(2)
    {
#pragma omp task
        {
#pragma omp atomic
            sum += 1;
#pragma omp taskwait
        }
#pragma omp barrier
    }
    return sum;
}
#else
#include <dlfcn.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int (*work)(void), status = 0;
    pid_t child = argc > 1 ? fork() : -1;
    void *library = child >= 0 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    *(void **)&work = library ? dlsym(library, "work") : NULL;
    int sum = work ? work() : 0;
    if (child == 0)
        return sum != 12;
    (void)waitpid(child, &status, 0);
    printf("%d %d\n", sum, status);
    return 0;
}
#endif
