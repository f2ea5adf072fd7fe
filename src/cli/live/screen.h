/* The terminal of a live view: a screen of its own, keys without Enter, and the size, which may change. */
#ifndef KC_SCREEN_H
#define KC_SCREEN_H

#include "base/base.h"

#include <termios.h>

typedef struct kc_screen {
    int fd; /* -1: there is none */
    struct termios usual;
} kc_screen;

/** Take over the terminal of this process. @return KINETO_E_UNSUPPORTED: it has none. */
kineto_status kc_screen_open(kc_screen *s, kineto_error *err);
/** Rows and columns now. */
void kc_screen_size(const kc_screen *s, size_t *rows, size_t *columns);
/** Show lines that end with '\n'; what does not fit is left out. */
void kc_screen_show(const kc_screen *s, const char *text);
/** The next key that was pressed; 0: none. Special keys are left out. */
int kc_screen_key(const kc_screen *s);
/** Give the terminal back. Twice is fine. */
void kc_screen_close(kc_screen *s);
#endif
