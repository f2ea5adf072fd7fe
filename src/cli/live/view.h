/* The text of a live view: what a program did in the last interval, from a trace of it. */
#ifndef KC_VIEW_H
#define KC_VIEW_H

#include <ckineto/trace.h>

#include <stdio.h>

/* By what threads are sorted. */
typedef enum kc_view_sort { KC_SORT_RUNNING, KC_SORT_WAITING, KC_SORT_BLOCKED, KC_SORT_NAME } kc_view_sort;
#define KC_SORT_COUNT 4u
extern const char *const kc_view_sorts[KC_SORT_COUNT]; /* names, as options have them */

typedef struct kc_view_options {
    size_t rows, columns; /* 0 rows: as many as there are lines; 0 columns: lines are not cut */
    kc_view_sort sort;
    bool by_total;      /* functions by their time with callees */
    bool is_paused;
    const char *title;  /* of the program */
    const char *keys;   /* what keys do; NULL: there are none */
    uint64_t passed_ns; /* since the beginning */
    int64_t interval_ns;
} kc_view_options;

/** Write the view of a trace. */
kineto_status kc_view_write(const kineto_trace *trace, const kc_view_options *options, FILE *out,
                            kineto_error *err);
#endif
