/* Where kernels run: on this thread, or on the software accelerator of plugins/sim, whose work is
 * queued while the program goes on. Both give the same numbers. */
#ifndef TRANSFORMER_DEVICE_H
#define TRANSFORMER_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One item of a grid; items of a launch do not depend on each other. */
typedef void (*device_kernel)(void *arguments, uint32_t item);

/* "none" or "sim". False: there is no such device; the reason was printed. */
bool device_open(const char *name);
bool device_is_sim(void);

/* The arguments are copied; the name must be static. In order with all other launches. */
void device_launch(const char *name, uint32_t grid, device_kernel kernel, const void *arguments,
                   size_t bytes);
/* To the device, from it. What is copied must stay until the next device_synchronize. */
void device_upload(void *to, const void *from, size_t bytes);
void device_download(void *to, const void *from, size_t bytes);
void device_synchronize(void);

#endif
