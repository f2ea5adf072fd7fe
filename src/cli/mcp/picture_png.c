/* A picture as PNG: a palette of 16 colours, four bits a pixel, compressed by the gzip of sinks without its frame.
 * Lanes have numbers; names and labels are in the text of the answer. Format: https://www.w3.org/TR/png-3/ */
#include "cli/mcp/picture.h"

#include <stdlib.h>

#define LEFT_PIXELS  24u
#define ROW_PIXELS   10u
#define GAP_PIXELS   6u
#define SCALE        2u /* of digits */
#define FRAME_BYTES  10u /* of a gzip header without options */
#define TRAILER_BYTES 8u

/* Numbers of the palette: names, then others, white, black, grid. */
enum { OTHER = KC_PICTURE_NAMES, WHITE, BLACK, GRID };

typedef struct canvas {
    uint32_t width, height;
    uint8_t *pixels; /* one byte each */
} canvas;

static void fill_rectangle(canvas *c, uint32_t x, uint32_t y, uint32_t width, uint32_t height, uint8_t colour)
{
    for (uint32_t row = y; row < KB_MIN(y + height, c->height); row++)
        for (uint32_t at = x; at < KB_MIN(x + width, c->width); at++)
            c->pixels[(size_t)row * c->width + at] = colour;
}

/* Three columns and five rows each, the first row in the highest three bits. */
static void draw_number(canvas *c, uint32_t x, uint32_t y, uint32_t number)
{
    static const uint16_t digits[] = {075557, 022222, 071747, 071717, 055711, 074717, 074757, 071111, 075757, 075717};
    char text[12];
    int size = snprintf(text, sizeof text, "%u", number);
    for (int i = 0; i < size; i++, x += 4 * SCALE)
        for (uint32_t bit = 0; bit < 15; bit++)
            if (digits[text[i] - '0'] >> (14 - bit) & 1)
                fill_rectangle(c, x + bit % 3 * SCALE, y + bit / 3 * SCALE, SCALE, SCALE, BLACK);
}

static void draw_picture(const kc_picture *p, canvas *c)
{
    uint32_t y = GAP_PIXELS;
    memset(c->pixels, WHITE, (size_t)c->width * c->height);
    for (uint32_t i = 0; i <= 10; i++) /* a line at each tenth of the time */
        fill_rectangle(c, LEFT_PIXELS + i * (p->width - 1) / 10, 0, 1, c->height, GRID);
    for (uint32_t i = 0; i < p->lane_count; i++) {
        draw_number(c, 2, y, i + 1);
        for (uint32_t k = 0; k < p->lanes[i].levels; k++, y += ROW_PIXELS)
            for (uint32_t x = 0; x < p->width; x++) {
                uint32_t name = kc_picture_name_at(p, p->lanes[i].row + k, x);
                if (name != UINT32_MAX)
                    fill_rectangle(c, LEFT_PIXELS + x, y, 1, ROW_PIXELS - 1, (uint8_t)name);
            }
        y += GAP_PIXELS;
    }
}

/* ---- the file -------------------------------------------------------------------------------- */

static uint32_t add_crc(uint32_t crc, const void *data, size_t size)
{
    const uint8_t *at = data;
    for (size_t i = 0; i < size; i++) {
        crc ^= at[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? UINT32_C(0xedb88320) : 0);
    }
    return crc;
}

static uint32_t sum_adler(const uint8_t *data, size_t size)
{
    uint32_t a = 1, b = 0;
    for (size_t i = 0; i < size; i++) {
        a = (a + data[i]) % 65521;
        b = (b + a) % 65521;
    }
    return b << 16 | a;
}

static void store_big_endian(uint8_t *to, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        to[i] = (uint8_t)(value >> (24 - 8 * i));
}

/* A chunk of up to three parts. */
static void write_chunk(kb_sink *sink, const char *type, const kineto_string *parts, size_t count)
{
    uint8_t number[4];
    uint32_t crc = add_crc(UINT32_MAX, type, 4);
    size_t size = 0;
    for (size_t i = 0; i < count; i++)
        size += parts[i].size;
    store_big_endian(number, (uint32_t)size);
    kb_sink_write(sink, number, sizeof number);
    kb_sink_write(sink, type, 4);
    for (size_t i = 0; i < count; i++) {
        kb_sink_write(sink, parts[i].data, parts[i].size);
        crc = add_crc(crc, parts[i].data, parts[i].size);
    }
    store_big_endian(number, ~crc);
    kb_sink_write(sink, number, sizeof number);
}

static void write_header(const canvas *c, kb_sink *sink)
{
    static const char signature[] = "\x89PNG\r\n\x1a\n";
    static const char *const others[] = {"#ffffff", "#000000", "#dddddd"};
    uint8_t header[13] = {[8] = 4, [9] = 3}; /* bits; colours by palette */
    uint8_t palette[(GRID + 1) * 3];
    store_big_endian(header, c->width);
    store_big_endian(header + 4, c->height);
    for (uint32_t i = 0; i <= GRID; i++) {
        const char *colour = i <= OTHER ? kc_picture_colour(i) : others[i - WHITE];
        unsigned long rgb = strtoul(colour + 1, NULL, 16);
        for (uint32_t k = 0; k < 3; k++)
            palette[3 * i + k] = (uint8_t)(rgb >> (16 - 8 * k));
    }
    kb_sink_write(sink, signature, sizeof signature - 1);
    write_chunk(sink, "IHDR", &(kineto_string){(const char *)header, sizeof header}, 1);
    write_chunk(sink, "PLTE", &(kineto_string){(const char *)palette, sizeof palette}, 1);
}

/* Lines of the file, each after a byte for its filter, which is none; two pixels a byte. */
static uint8_t *pack_lines(const canvas *c, size_t *size)
{
    size_t line = 1 + (c->width + 1) / 2;
    uint8_t *bytes = calloc(c->height, line);
    *size = line * c->height;
    for (uint32_t y = 0; y < c->height && bytes; y++)
        for (uint32_t x = 0; x < c->width; x++)
            bytes[y * line + 1 + x / 2] |=
                (uint8_t)(c->pixels[(size_t)y * c->width + x] << (x % 2 ? 0 : 4));
    return bytes;
}

/* zlib's frame in place of gzip's around the same compressed bytes. */
static kineto_status write_pixels(const uint8_t *lines, size_t size, kb_sink *sink, kineto_error *err)
{
    kb_sink *gzip;
    char *data = NULL;
    size_t bytes = 0;
    uint8_t sum[4];
    kineto_status status = kb_sink_open_memory(KB_COMPRESS_GZIP, &gzip, err);
    if (status)
        return status;
    kb_sink_write(gzip, lines, size);
    status = kb_sink_take(gzip, &data, &bytes, err);
    kb_sink_abort(gzip);
    if (!status && (bytes < FRAME_BYTES + TRAILER_BYTES || data[3]))
        status = kb_fail(err, KINETO_E_STATE, "the gzip header has options");
    store_big_endian(sum, sum_adler(lines, size));
    if (!status)
        write_chunk(sink, "IDAT",
                    (const kineto_string[]){{"\x78\x01", 2},
                                            {data + FRAME_BYTES, bytes - FRAME_BYTES - TRAILER_BYTES},
                                            {(const char *)sum, sizeof sum}},
                    3);
    free(data);
    return status;
}

kineto_status kc_picture_write_png(const kc_picture *p, kb_sink *sink, kineto_error *err)
{
    size_t size = 0;
    canvas c = {.width = LEFT_PIXELS + p->width,
                .height = p->row_count * ROW_PIXELS + (p->lane_count + 2) * GAP_PIXELS};
    c.pixels = malloc((size_t)c.width * c.height);
    if (c.pixels)
        draw_picture(p, &c);
    uint8_t *lines = c.pixels ? pack_lines(&c, &size) : NULL;
    kineto_status status = lines ? KINETO_OK : kb_fail_memory(err, NULL);
    if (!status) {
        write_header(&c, sink);
        status = write_pixels(lines, size, sink, err);
        write_chunk(sink, "IEND", NULL, 0);
    }
    free(lines);
    free(c.pixels);
    return status;
}
