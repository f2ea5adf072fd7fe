/* A program of oneDNN's: a matrix product N times. Prints N. */
#include <oneapi/dnnl/dnnl.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(call)                                                                                \
    do {                                                                                           \
        int status = (int)(call);                                                                  \
        if (status) {                                                                              \
            fprintf(stderr, "%s: %d\n", #call, status);                                            \
            exit(77);                                                                              \
        }                                                                                          \
    } while (0)

int main(int argc, char **argv)
{
    int n = argc > 1 ? atoi(argv[1]) : 10;
    dnnl_dims_t dims = {32, 32};
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_memory_desc_t desc;
    dnnl_primitive_desc_t primitive_desc;
    dnnl_primitive_t product;
    dnnl_memory_t memory[3];
    CHECK(dnnl_engine_create(&engine, dnnl_cpu, 0));
    CHECK(dnnl_stream_create(&stream, engine, dnnl_stream_default_flags));
#if DNNL_VERSION_MAJOR >= 3
    CHECK(dnnl_memory_desc_create_with_tag(&desc, 2, dims, dnnl_f32, dnnl_ab));
    CHECK(dnnl_matmul_primitive_desc_create(&primitive_desc, engine, desc, desc, NULL, desc, NULL));
    for (int i = 0; i < 3; i++)
        CHECK(dnnl_memory_create(&memory[i], desc, engine, DNNL_MEMORY_ALLOCATE));
#else
    dnnl_matmul_desc_t operation;
    CHECK(dnnl_memory_desc_init_by_tag(&desc, 2, dims, dnnl_f32, dnnl_ab));
    CHECK(dnnl_matmul_desc_init(&operation, &desc, &desc, NULL, &desc));
    CHECK(dnnl_primitive_desc_create(&primitive_desc, &operation, NULL, engine, NULL));
    for (int i = 0; i < 3; i++)
        CHECK(dnnl_memory_create(&memory[i], &desc, engine, DNNL_MEMORY_ALLOCATE));
#endif
    CHECK(dnnl_primitive_create(&product, primitive_desc));
    dnnl_exec_arg_t args[] = {
        {DNNL_ARG_SRC, memory[0]}, {DNNL_ARG_WEIGHTS, memory[1]}, {DNNL_ARG_DST, memory[2]}};
    for (int i = 0; i < n; i++)
        CHECK(dnnl_primitive_execute(product, stream, 3, args));
    CHECK(dnnl_stream_wait(stream));
    printf("%d\n", n);
    return 0;
}
