/* What the test clients share: a context with one device, a small program, and words. */
#ifndef CLIENT_H
#define CLIENT_H

#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_0_APIS
#define CL_USE_DEPRECATED_OPENCL_1_1_APIS
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>

#include <stdbool.h>
#include <stddef.h>

#define N 1024u

typedef struct client {
    cl_platform_id platform;
    cl_device_id device;
    cl_context context;
    cl_program program;
    cl_mem a, b;
} client;

/** Set up; exits with 77 if this machine has no OpenCL device. */
void client_open(client *c);
void client_close(client *c);
/** A kernel of the program: "scale", "spin" or "with_a_rather_long_name…". */
cl_kernel client_kernel(const client *c, const char *name);
/** Enqueue over N items; exits on failure. */
void client_launch(cl_command_queue queue, cl_kernel kernel, cl_event *event);
cl_command_queue client_queue(const client *c, cl_command_queue_properties properties);
/** Exit with a message if a call failed. */
void client_check(cl_int status, const char *what);

/* Parts of the client (client_api.c): what the API tells a program, printed. */
void client_say_queues(const client *c);
void client_say_events(const client *c);
void client_say_errors(const client *c);
/** One command of every sort (client_commands.c). */
void client_all_commands(const client *c);
/** Functions that are requested by name (client_extensions.c). */
void client_use_extensions(const client *c);
#endif
