/* A program with CUDA that knows nothing of recording: client WAY [N] */
#include "client.h"

#include <stdio.h>

int main(int argc, char **argv)
{
    int status = client_run(argc - 1, argv + 1);
    printf("sum %lu\n", client_sum);
    return status;
}
