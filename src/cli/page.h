/* A page of text: its lines are written into memory and appear wrapped at the width of the terminal. */
#ifndef KC_PAGE_H
#define KC_PAGE_H

#include "cli/print.h"

typedef struct kc_page {
    FILE *to, *text;
    char *data;
    size_t size;
} kc_page;

/** @return the stream to write to; `to` itself if there is no memory. */
FILE *kc_page_begin(kc_page *p, FILE *to);
/** Lines that are wider than the page of `to` are continued below, indented. Colours follow the indent of a line. */
void kc_page_end(kc_page *p);
#endif
