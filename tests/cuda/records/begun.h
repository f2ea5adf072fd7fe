/* What a test of records begins with: a host, a buffer that is written, and a decoder between them.
 */
#ifndef TESTS_CUDA_BEGUN_H
#define TESTS_CUDA_BEGUN_H

#include "written.h"

#define CUDA_12_4 22
#define CUDA_12_8 26
#define CUDA_13_1 130100

static keeping_host *host;
static written *w;
static cp_decoder d;

static void begin(uint32_t version)
{
    host = host_new();
    w = written_new(version);
    decoder_new(&d, version);
}

static void end(void)
{
    cp_decoder_finish(&d);
    cp_decoder_free(&d);
    host_free();
}

#endif
