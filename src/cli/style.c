/* Colours on terminals. */
#include "cli/style.h"

#include <ckineto/analyze.h>

#include <unistd.h>

const char *kc_color_choice;

kineto_status kc_check_color(const char *verb)
{
    const char *choice = kc_color_choice;
    if (!choice || strcmp(choice, "auto") == 0 || strcmp(choice, "always") == 0 ||
        strcmp(choice, "never") == 0)
        return KINETO_OK;
    return kc_usage_error(verb, "--color is auto, always or never, not '%s'", choice);
}

bool kc_has_colors(FILE *out)
{
    if (kc_color_choice && strcmp(kc_color_choice, "auto") != 0)
        return strcmp(kc_color_choice, "always") == 0;
    int fd = fileno(kc_shown_on(out));
    return fd >= 0 && isatty(fd) && !kb_setting("NO_COLOR"); /* https://no-color.org */
}

static const char *const sequences[] = {[KC_PLAIN] = "\033[0m",   [KC_BOLD] = "\033[1m",
                                        [KC_DIM] = "\033[2m",     [KC_RED] = "\033[31m",
                                        [KC_YELLOW] = "\033[33m", [KC_GREEN] = "\033[32m",
                                        [KC_CYAN] = "\033[36m"};

const char *kc_paint(FILE *out, kc_style style) { return kc_has_colors(out) ? sequences[style] : ""; }

void kc_put_styled(FILE *out, kc_style style, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    fputs(kc_paint(out, style), out);
    vfprintf(out, fmt, args);
    fputs(kc_paint(out, KC_PLAIN), out);
    va_end(args);
}

size_t kc_style_bytes(const char *text, size_t size)
{
    for (size_t i = 0; i < KB_COUNT(sequences); i++) {
        size_t bytes = strlen(sequences[i]);
        if (bytes <= size && memcmp(text, sequences[i], bytes) == 0)
            return bytes;
    }
    return 0;
}

kc_style kc_severity_style(uint32_t severity)
{
    return severity == KINETO_SEVERITY_ERROR     ? KC_RED
           : severity == KINETO_SEVERITY_WARNING ? KC_YELLOW
                                                 : KC_DIM;
}
