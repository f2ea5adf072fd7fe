/* ckineto export: the old name of `convert` with several outputs. Its options "--FORMAT OUT" become
 * "-o FORMAT:OUT". */
#include "cli/cli.h"

#include <ckineto/export.h>

/* The format that an option names; NULL: it is another option. @param value  receives what follows a '='. */
static const char *find_format_option(const char *word, const char **value)
{
    kineto_export_format f = {.size = sizeof f};
    for (uint32_t i = 0; strncmp(word, "--", 2) == 0 && kineto_export_format_get(i, &f); i++) {
        size_t size = strlen(f.name);
        if (strncmp(word + 2, f.name, size) != 0 || (word[2 + size] && word[2 + size] != '='))
            continue;
        *value = word[2 + size] ? word + 3 + size : NULL;
        return f.name;
    }
    return NULL;
}

/* Fills `to` with the arguments of `convert`. @return their number; -1: a value is missing, or out of memory. */
static int translate_arguments(int argc, char **argv, char **to)
{
    int count = 0;
    for (int i = 1; i < argc; i++) {
        const char *value, *format = find_format_option(argv[i], &value);
        if (!format) {
            to[count++] = argv[i];
            continue;
        }
        if (!value && ++i == argc)
            return -1;
        if (asprintf(&to[count++], "-o%s:%s", format, value ? value : argv[i]) < 0)
            return -1;
    }
    to[count] = NULL;
    return count;
}

/* The texts of the new arguments live as long as the process. */
int kc_export(int argc, char **argv)
{
    char name[] = "convert", **words = calloc((size_t)argc + 2, sizeof *words);
    kc_notice_renamed("ckineto export TRACE --csv OUT", "ckineto convert TRACE -o csv:OUT");
    int count = words ? translate_arguments(argc, argv, words + 1) : -1;
    if (count < 0) {
        free(words);
        (void)kc_usage_error("convert", "the last option needs a value: OUT");
        return KC_EXIT_USAGE;
    }
    words[0] = name;
    int result = kc_convert(count + 1, words);
    free(words);
    return result;
}
