/* What devices can do at most, by name. */
#ifndef KA_DEVICE_PEAKS_H
#define KA_DEVICE_PEAKS_H

#include "analyze/scope.h"

typedef struct ka_peaks {
    const char *words;                        /* NULL: the device is not in the table */
    double fp64, fp32, tf32, fp16, bf16, fp8; /* TFLOPS */
    double memory_gbps, link_gbps;
} ka_peaks;

/** By its name, else by the compute capability (major, minor) of a device of NVIDIA's. */
const ka_peaks *ka_peaks_of(kineto_string name, int64_t major, int64_t minor);
/** TFLOPS of a precision (ka_precision); 0: none known. */
double ka_peak_tflops(const ka_peaks *p, uint32_t precision);
/** By process: how many devices it used, of those whose launches are known. False: out of memory. */
bool ka_devices_by_process(const ka_scope *s, uint32_t *devices);
/** Of the device that did most of the scope's work; name may be empty. */
const ka_peaks *ka_peaks_of_scope(const ka_scope *s, kineto_string *name, uint32_t *devices);
#endif
