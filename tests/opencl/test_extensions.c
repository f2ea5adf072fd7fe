/* Functions that a program requests by name, and names of SYCL's kernels: the layer between a
 * scripted driver, with two platforms, and a scripted host. */
#include "fake_cl.h"
#include "fake_host.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

typedef cl_int CL_API_CALL copy_function(cl_command_queue, cl_bool, void *, const void *, size_t,
                                         cl_uint, const cl_event *, cl_event *);
typedef cl_int CL_API_CALL fill_function(cl_command_queue, void *, const void *, size_t, size_t,
                                         cl_uint, const cl_event *, cl_event *);
typedef void *CL_API_CALL allocate_function(cl_context, cl_device_id, const cl_ulong *, size_t,
                                            cl_uint, cl_int *);
typedef void *CL_API_CALL create_function(cl_uint, const cl_command_queue *, const cl_ulong *,
                                          cl_int *);
typedef cl_int CL_API_CALL add_function(void *, cl_command_queue, const cl_ulong *, cl_kernel,
                                        cl_uint, const size_t *, const size_t *, const size_t *,
                                        cl_uint, const cl_uint *, cl_uint *, void **);
typedef cl_int CL_API_CALL run_function(cl_uint, cl_command_queue *, void *, cl_uint,
                                        const cl_event *, cl_event *);
typedef cl_int CL_API_CALL release_function(void *);

static const cl_icd_dispatch *cl;
static cl_command_queue queue;

static int set_up(void **state)
{
    const fake_cl_behaviour plain = {.clock = CLOCK_MONOTONIC_RAW};
    cl_uint entries = 0;

    (void)state;
    fake_cl_reset(&plain);
    (void)clInitLayer(sizeof(cl_icd_dispatch) / sizeof(void *), fake_cl_table(), &entries, &cl);
    fake_host_clear();
    queue = cl->clCreateCommandQueue(fake_cl_context(), fake_cl_device(), 0, NULL);
    return fake_host_open() && queue ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    fake_host_close();
    assert_int_equal(fake_cl_misuses(), 0);
    assert_int_equal(fake_cl_events(), 0);
    assert_int_equal(fake_host_late_calls(), 0);
    return 0;
}

/* The function that a program gets; `function` is a pointer to a pointer to a function. */
static void request(int platform, const char *name, void *function)
{
    void *address =
        cl->clGetExtensionFunctionAddressForPlatform(fake_cl_platform(platform), name);

    assert_non_null(address);
    memcpy(function, &address, sizeof address);
}

static void copies_are_named_by_their_direction(void **state)
{
    char host[64];
    copy_function *copy;

    (void)state;
    request(0, "clEnqueueMemcpyINTEL", &copy);
    assert_int_equal(copy(queue, CL_TRUE, fake_cl_device_memory, host, 11, 0, NULL, NULL), 0);
    assert_int_equal(copy(queue, CL_TRUE, host, fake_cl_device_memory, 12, 0, NULL, NULL), 0);
    assert_int_equal(copy(queue, CL_TRUE, host, host, 13, 0, NULL, NULL), 0);
    assert_int_equal(copy(queue, CL_TRUE, fake_cl_device_memory, fake_cl_shared_memory, 14, 0, NULL,
                          NULL),
                     0);
    assert_int_equal(copy(NULL, CL_TRUE, host, host, 15, 0, NULL, NULL), CL_INVALID_COMMAND_QUEUE);
    fake_host_close();
    assert_int_equal(fake_host_activities(), 4);
    static const char *const names[] = {
        "Memcpy HtoD (clEnqueueMemcpyINTEL)", "Memcpy DtoH (clEnqueueMemcpyINTEL)",
        "Memcpy HtoH (clEnqueueMemcpyINTEL)", "Memcpy (clEnqueueMemcpyINTEL)"};
    for (uint32_t i = 0; i < 4; i++) {
        const fake_activity *a = fake_host_activity(i);
        assert_string_equal(a->name, names[i]);
        assert_int_equal(a->type, KINETO_PLUGIN_PROFILE_EVENT_TYPE_GPU_MEMCPY);
        assert_int_equal(a->bytes, 11 + i);
        assert_int_equal(a->flow, a->correlation);
    }
    assert_int_equal(fake_cl_extension_calls(0), 5);
}

static void events_of_the_program_are_its_own(void **state)
{
    fill_function *fill;
    cl_event event = NULL;
    cl_ulong time;

    (void)state;
    request(0, "clEnqueueMemFillINTEL", &fill);
    assert_int_equal(fill(queue, fake_cl_device_memory, "", 1, 64, 0, NULL, &event), CL_SUCCESS);
    assert_int_equal(cl->clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_START, sizeof time,
                                                 &time, NULL),
                     CL_PROFILING_INFO_NOT_AVAILABLE);
    assert_int_equal(cl->clReleaseEvent(event), CL_SUCCESS);
    fake_host_close();
    assert_int_equal(fake_host_activities(), 1);
    assert_string_equal(fake_host_activity(0)->name, "Memset (clEnqueueMemFillINTEL)");
    assert_int_equal(fake_host_activity(0)->type, KINETO_PLUGIN_PROFILE_EVENT_TYPE_GPU_MEMSET);
}

static void each_platform_keeps_its_functions(void **state)
{
    copy_function *copies[2], *again;
    allocate_function *allocate;
    void *address;

    (void)state;
    for (int p = 0; p < 2; p++) {
        request(p, "clEnqueueMemcpyINTEL", &copies[p]);
        for (int n = 0; n <= p; n++)
            assert_int_equal(copies[p](queue, CL_TRUE, NULL, NULL, 1, 0, NULL, NULL), CL_SUCCESS);
    }
    assert_true(copies[0] != copies[1]);
    assert_int_equal(fake_cl_extension_calls(0), 1);
    assert_int_equal(fake_cl_extension_calls(1), 2);
    request(0, "clEnqueueMemcpyINTEL", &again);
    assert_true(again == copies[0]);
    address = cl->clGetExtensionFunctionAddress("clEnqueueMemcpyINTEL");
    memcpy(&again, &address, sizeof address);
    assert_true(again == copies[0]);
    request(1, "clDeviceMemAllocINTEL", &allocate);
    assert_ptr_equal(allocate(fake_cl_context(), fake_cl_device(), NULL, 64, 0, NULL),
                     fake_cl_device_memory);
    assert_int_equal(fake_cl_extension_calls(1), 3);
}

static void other_functions_are_the_drivers(void **state)
{
    const cl_icd_dispatch *driver = fake_cl_table();
    static const char *const names[] = {"clUnwrappedVENDOR", "clGetMemAllocInfoINTEL", "clNone"};

    (void)state;
    for (size_t i = 0; i < 3; i++)
        assert_ptr_equal(
            cl->clGetExtensionFunctionAddressForPlatform(fake_cl_platform(0), names[i]),
            driver->clGetExtensionFunctionAddressForPlatform(fake_cl_platform(0), names[i]));
}

static void nothing_happens_while_no_window_is_open(void **state)
{
    copy_function *copy;

    (void)state;
    request(0, "clEnqueueMemcpyINTEL", &copy);
    fake_host_close();
    assert_int_equal(copy(queue, CL_TRUE, NULL, NULL, 1, 0, NULL, NULL), CL_SUCCESS);
    assert_int_equal(fake_host_activities(), 0);
    assert_int_equal(fake_cl_events_made(), 0);
}

static void a_command_buffer_is_one_activity(void **state)
{
    create_function *create;
    add_function *add;
    run_function *run;
    release_function *release;
    const size_t n = 64;

    (void)state;
    request(0, "clCreateCommandBufferKHR", &create);
    request(0, "clCommandNDRangeKernelKHR", &add);
    request(0, "clEnqueueCommandBufferKHR", &run);
    request(0, "clReleaseCommandBufferKHR", &release);
    assert_null(create(0, NULL, NULL, NULL));
    void *buffer = create(1, &queue, NULL, NULL);
    for (int i = 0; i < 3; i++)
        assert_int_equal(add(buffer, NULL, NULL, fake_cl_kernel("a"), 1, NULL, &n, NULL, 0, NULL,
                             NULL, NULL),
                         CL_SUCCESS);
    assert_int_equal(add(buffer, NULL, NULL, NULL, 1, NULL, &n, NULL, 0, NULL, NULL, NULL),
                     CL_INVALID_VALUE);
    assert_int_equal(run(0, NULL, buffer, 0, NULL, NULL), CL_SUCCESS);
    assert_int_equal(run(1, &queue, buffer, 0, NULL, NULL), CL_SUCCESS);
    assert_int_equal(release(buffer), CL_SUCCESS);
    assert_int_equal(run(0, NULL, buffer, 0, NULL, NULL), CL_INVALID_VALUE);
    buffer = create(1, &queue, NULL, NULL); /* the same handle again */
    assert_int_equal(run(0, NULL, buffer, 0, NULL, NULL), CL_SUCCESS);
    assert_int_equal(release(buffer), CL_SUCCESS);
    fake_host_close();
    assert_int_equal(fake_host_activities(), 3);
    static const int kernels[] = {3, 3, 0};
    for (uint32_t i = 0; i < 3; i++) {
        assert_string_equal(fake_host_activity(i)->name,
                            "Command buffer (clEnqueueCommandBufferKHR)");
        assert_int_equal(fake_host_activity(i)->type,
                         KINETO_PLUGIN_PROFILE_EVENT_TYPE_CONCURRENT_KERNEL);
        assert_int_equal(fake_host_activity(i)->kernels, kernels[i]);
    }
}

static void kernels_of_sycl_have_names_of_types(void **state)
{
    static const char *const names[][2] = {
        {"_ZTSN4dpnp6tensor7kernels3sumIdEE", "dpnp::tensor::kernels::sum<double>"},
        {"_ZTSN4dpnp6tensor7kernels3sumIdEE", "dpnp::tensor::kernels::sum<double>"},
        {"_ZTSbad", "_ZTSbad"},
        {"_Z4workPf", "_Z4workPf"}, /* a name of OpenCL C may begin like that */
        {"_ZTS", "_ZTS"}};
    const size_t n = 64;

    (void)state;
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(cl->clEnqueueNDRangeKernel(queue, fake_cl_kernel(names[i][0]), 1, NULL, &n,
                                                    NULL, 0, NULL, NULL),
                         CL_SUCCESS);
    fake_host_close();
    assert_int_equal(fake_host_activities(), 5);
    for (uint32_t i = 0; i < 5; i++)
        assert_string_equal(fake_host_activity(i)->name, names[i][1]);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(copies_are_named_by_their_direction),
        TEST(events_of_the_program_are_its_own),
        TEST(each_platform_keeps_its_functions),
        TEST(other_functions_are_the_drivers),
        TEST(nothing_happens_while_no_window_is_open),
        TEST(a_command_buffer_is_one_activity),
        TEST(kernels_of_sycl_have_names_of_types),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
