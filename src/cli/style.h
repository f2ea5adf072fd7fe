/* Colours on terminals: bold titles, dim hints, red for errors and what became slower, yellow for warnings, green
 * for success and what became faster. `--color` and NO_COLOR decide; a file or a pipe gets none unless it is asked
 * for. Without its sequences a text with colours is the text without colours. */
#ifndef KC_STYLE_H
#define KC_STYLE_H

#include "cli/cli.h"

typedef enum kc_style { KC_PLAIN, KC_BOLD, KC_DIM, KC_RED, KC_YELLOW, KC_GREEN, KC_CYAN } kc_style;

/** Value of --color, which kc_parse_options checks; NULL: "auto". */
extern const char *kc_color_choice;
#define KC_COLOR_OPTION                                                                            \
    {                                                                                              \
        "color", 0, KC_TEXT, &kc_color_choice, "auto|always|never",                                \
            "colour the output (auto: on terminals, unless NO_COLOR is\nset)"                      \
    }
/** Refuses other values; the mistake is explained on stderr. */
kineto_status kc_check_color(const char *verb);
/** Does `out` get colours? A stream in memory has those of the stream where its text appears (kc_shown_on). */
bool kc_has_colors(FILE *out);
/** The sequence that begins a style; "" without colours. KC_PLAIN ends all styles. */
const char *kc_paint(FILE *out, kc_style style);
/** A text in a style. Texts of traces go through kc_put_name instead. */
void kc_put_styled(FILE *out, kc_style style, const char *fmt, ...) KINETO_PRINTF(3, 4);
/** Bytes of a sequence of kc_paint at the beginning of a text; 0: there is none. */
size_t kc_style_bytes(const char *text, size_t size);
/** Red for errors, yellow for warnings, dim for notes (kineto_severity). */
kc_style kc_severity_style(uint32_t severity);
#endif
