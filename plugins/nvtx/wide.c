/* Texts of wide characters, and of units of 1, 2 or 4 bytes, as UTF-8. */
#include "nvtx.h"

/* Writes a character as UTF-8 and returns the number of bytes, at most 4. Invalid ones become
 * U+FFFD. */
static size_t encode_utf8(uint32_t c, char out[4])
{
    if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
        c = 0xfffd;
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    size_t more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    static const unsigned char first[] = {0, 0xc0, 0xe0, 0xf0};
    out[0] = (char)(first[more] | c >> (6 * more));
    for (size_t i = 1; i <= more; i++)
        out[i] = (char)(0x80 | (c >> (6 * (more - i)) & 0x3f));
    return more + 1;
}

/* Unit i of a text of units of 1, 2 or 4 bytes, which need not be aligned. */
static uint32_t load_unit(const char *from, size_t i, unsigned width)
{
    uint16_t half;
    uint32_t whole;
    if (width == 1)
        return (unsigned char)from[i];
    if (width == 2) {
        memcpy(&half, from + 2 * i, sizeof half);
        return half;
    }
    memcpy(&whole, from + 4 * i, sizeof whole);
    return whole;
}

bool cn_text_from_units(const void *from, size_t count, unsigned width, char *to, size_t room)
{
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        char bytes[4];
        uint32_t c = load_unit(from, i, width);
        if (!c)
            break;
        if (width == 2 && c >= 0xd800 && c < 0xdc00 && i + 1 < count) {
            uint32_t low = load_unit(from, i + 1, width);
            if (low >= 0xdc00 && low < 0xe000) {
                c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
                i++;
            }
        }
        size_t size = encode_utf8(c, bytes);
        if (used + size >= room) {
            to[used] = 0;
            return false;
        }
        memcpy(to + used, bytes, size);
        used += size;
    }
    to[used] = 0;
    return true;
}

bool cn_text_from_wide(const wchar_t *from, char *to, size_t room)
{
    size_t count = 0; /* not beyond what fits */
    while (count < room && from[count])
        count++;
    return cn_text_from_units(from, count, sizeof *from, to, room);
}
