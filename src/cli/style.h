/* Colours on terminals: bold titles, dim remarks, red and yellow for what is bad. `--color` and
 * NO_COLOR decide; a file or a pipe gets none unless it is asked for. */
#ifndef KC_STYLE_H
#define KC_STYLE_H

#include "cli/cli.h"

typedef enum kc_style { KC_PLAIN, KC_BOLD, KC_DIM, KC_RED, KC_YELLOW, KC_GREEN, KC_CYAN } kc_style;

/** Value of --color; NULL: "auto". */
extern const char *kc_color_choice;
#define KC_COLOR_OPTION                                                                            \
    {                                                                                              \
        "color", 0, KC_TEXT, &kc_color_choice, "auto|always|never",                                \
            "colour the output (auto: on terminals, unless NO_COLOR is\nset)"                      \
    }
/** Refuses other values; the mistake is explained on stderr. */
kineto_status kc_check_color(const char *verb);
/** Does `out` get colours? */
bool kc_has_colors(FILE *out);
/** The sequence that begins a style; "" without colours. KC_PLAIN ends all styles. */
const char *kc_paint(FILE *out, kc_style style);
#endif
