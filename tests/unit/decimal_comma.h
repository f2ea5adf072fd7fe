/* A locale that writes 0,5: what a program that speaks German has set. */
#ifndef CKINETO_TESTS_DECIMAL_COMMA_H
#define CKINETO_TESTS_DECIMAL_COMMA_H

#include "unit.h"

#include <locale.h>
#include <stdbool.h>

/* One that is installed, or one built for the occasion in a directory, which is not needed later:
 * of few characters, which takes a third of the time. */
static inline bool set_decimal_comma(const char *directory)
{
    char command[512];
    if (setlocale(LC_NUMERIC, "de_DE.UTF-8"))
        return true;
    snprintf(command, sizeof command,
             "localedef -c -i de_DE -f ANSI_X3.4-1968 %s/de_DE >/dev/null 2>&1", directory);
    (void)!system(command); /* it warns of what those characters cannot say */
    setenv("LOCPATH", directory, 1);
    bool done = setlocale(LC_NUMERIC, "de_DE") != NULL;
    unsetenv("LOCPATH");
    return done;
}

/* From here on, until end_decimal_comma. False: there is none on this machine. */
static inline bool begin_decimal_comma(void)
{
    char directory[200], command[300], text[8];
    assert_non_null(make_directory(directory, sizeof directory));
    bool is_set = set_decimal_comma(directory);
    snprintf(command, sizeof command, "rm -rf %s", directory);
    assert_int_equal(system(command), 0);
    if (!is_set) {
        print_message("no locale with a decimal comma is installed\n");
        return false;
    }
    snprintf(text, sizeof text, "%.1f", 0.5);
    assert_string_equal(text, "0,5");
    return true;
}

static inline void end_decimal_comma(void) { setlocale(LC_NUMERIC, "C"); }
#endif
