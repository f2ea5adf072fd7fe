/* Runs kernels on this thread, or queues them on the software accelerator together with a copy of
 * their arguments. */
#include "device.h"

#include <ckineto/host.h>
#include <sim.h>

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Ring of argument copies. A queue of sim holds 64 pieces of work and runs one more, so the work of
 * a slot has finished when the slot is used again. */
enum { SLOTS = 128, SLOT_BYTES = 512 };
static _Alignas(16) unsigned char slots[SLOTS][SLOT_BYTES];
static uint32_t next_slot;
static bool on_sim;

bool device_is_sim(void) { return on_sim; }

/* Loads the plug-in: the library that contains sim is the plug-in as well. */
static bool load_plugin(void)
{
    kineto_error err;
    Dl_info library;
    if (!dladdr((void *)(uintptr_t)sim_launch, &library) || !library.dli_fname) {
        fprintf(stderr, "transformer: cannot find the accelerator's library\n");
        return false;
    }
    kineto_status status = kineto_plugin_load(library.dli_fname, NULL, &err);
    if (status != KINETO_OK && status != KINETO_E_STATE) { /* KINETO_E_STATE: loaded already */
        fprintf(stderr, "transformer: %s\n", err.message);
        return false;
    }
    return true;
}

/* The accelerator is linked into the program; only its plug-in has to be loaded. */
bool device_open(const char *name)
{
    on_sim = strcmp(name, "sim") == 0;
    if (on_sim)
        return load_plugin();
    if (strcmp(name, "none") == 0)
        return true;
    fprintf(stderr, "transformer: unknown device '%s'; use none or sim\n", name);
    return false;
}

/* An example has no use for a device that fails: it exits. */
static void exit_on_failure(int result)
{
    if (result == 0)
        return;
    fprintf(stderr, "transformer: the device refused the work\n");
    exit(1);
}

/* Copies the arguments to a slot, where they stay until the work has finished. */
void device_launch(const char *name, uint32_t grid, device_kernel kernel, const void *arguments,
                   size_t bytes)
{
    unsigned char *slot = slots[next_slot];
    if (bytes > SLOT_BYTES)
        exit_on_failure(-1);
    next_slot = (next_slot + 1) % SLOTS;
    memcpy(slot, arguments, bytes);
    if (on_sim) {
        exit_on_failure(sim_launch(SIM_COMPUTE_0, name, grid, kernel, slot));
        return;
    }
    for (uint32_t item = 0; item < grid; item++)
        kernel(slot, item);
}

/* Copies use a queue of their own, as on real devices. */
void device_upload(void *to, const void *from, size_t bytes)
{
    if (on_sim)
        exit_on_failure(sim_copy(SIM_COPIES, to, from, (uint32_t)bytes));
    else
        memcpy(to, from, bytes);
}

void device_download(void *to, const void *from, size_t bytes) { device_upload(to, from, bytes); }

void device_synchronize(void)
{
    if (!on_sim)
        return;
    sim_synchronize(SIM_COMPUTE_0);
    sim_synchronize(SIM_COPIES);
}
