/* Names as people read them. */
#include "base/base.h"

/* The length of " at 0x7f26934d1d00" at the beginning; 0: something else. */
static size_t measure_address(const char *at, const char *end)
{
    static const char begin[] = " at 0x";
    const char *digits = at + sizeof begin - 1, *c = digits;
    if ((size_t)(end - at) <= sizeof begin - 1 || memcmp(at, begin, sizeof begin - 1) != 0)
        return 0;
    while (c < end && (kb_is_digit(*c) || (*c >= 'a' && *c <= 'f') || (*c >= 'A' && *c <= 'F')))
        c++;
    return c > digits ? (size_t)(c - at) : 0;
}

kineto_string kb_drop_address(kineto_string name, char *buffer, size_t size)
{
    const char *end = name.data + name.size;
    if (name.size > size || !name.size || name.data[0] != '<')
        return name;
    for (const char *at = name.data; (at = memchr(at, ' ', (size_t)(end - at))); at++) {
        size_t length = measure_address(at, end), front = (size_t)(at - name.data);
        if (!length)
            continue;
        memcpy(buffer, name.data, front);
        memcpy(buffer + front, at + length, name.size - front - length);
        return (kineto_string){buffer, name.size - length};
    }
    return name;
}
