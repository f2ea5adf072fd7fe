/* The device that kernels run on: this thread, or the software accelerator of plugins/sim, which
 * executes queued work in parallel to the program. Both give the same numbers. */
#ifndef TRANSFORMER_DEVICE_H
#define TRANSFORMER_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One item of a grid; items of a launch do not depend on each other. */
typedef void (*device_kernel)(void *arguments, uint32_t item);

/* Select "none" or "sim". False: it cannot be used; the reason was printed. */
bool device_open(const char *name);
bool device_is_sim(void);

/* The arguments are copied; the name must be static. In order with all other launches. */
void device_launch(const char *name, uint32_t grid, device_kernel kernel, const void *arguments,
                   size_t bytes);
/* Copy to the device and from it. Both buffers must stay valid until the next
 * device_synchronize. */
void device_upload(void *to, const void *from, size_t bytes);
void device_download(void *to, const void *from, size_t bytes);
void device_synchronize(void);

#endif
