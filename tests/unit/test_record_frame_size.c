/* Frames of code without frame pointer, from entries of .eh_frame that are written here by hand:
 * every instruction that an unwinder may meet is followed, or the frame is not reported. */
#include "unit.h"

#include "record/unwind.h"

#if defined(__x86_64__)

#define START UINT64_C(0x1000)

/* One entry for what functions have in common, one for a function. */
typedef struct tables {
    uint8_t bytes[256];
    size_t size, entry;
} tables;

static void put(tables *t, const void *data, size_t size)
{
    memcpy(t->bytes + t->size, data, size);
    t->size += size;
}
static void put_byte(tables *t, uint8_t byte) { put(t, &byte, 1); }
static void put_word(tables *t, uint32_t word) { put(t, &word, 4); }

static void end_entry(tables *t, size_t begin)
{
    uint32_t size = (uint32_t)(t->size - begin - 4);
    memcpy(t->bytes + begin, &size, 4);
}

typedef struct head {
    uint8_t version, address, encoding;
    const char *letters;
} head;
static const head usual = {1, 16, 0x1b, "zR"};

/* Where a function begins its stack pointer is 8 below its caller's, and the address lies there. */
static void put_common(tables *t, const head *h)
{
    static const uint8_t initial[] = {0x0c, 7, 8, 0x90, 1};
    size_t begin = t->size;
    put_word(t, 0);
    put_word(t, 0);
    put_byte(t, h->version);
    put(t, h->letters, strlen(h->letters) + 1);
    put_byte(t, 1);    /* code */
    put_byte(t, 0x78); /* data: -8 */
    put_byte(t, h->address);
    uint8_t size = (uint8_t)(strlen(h->letters) - 1 + (strchr(h->letters, 'P') ? 4 : 0));
    put_byte(t, size);
    for (const char *c = h->letters + 1; *c; c++) {
        put_byte(t, *c == 'P' ? 0x1b : h->encoding);
        if (*c == 'P')
            put_word(t, 0x1234);
    }
    put(t, initial, sizeof initial);
    end_entry(t, begin);
}

static void put_function(tables *t, const uint8_t *code, size_t size)
{
    t->entry = t->size;
    put_word(t, 0);
    put_word(t, (uint32_t)t->size); /* back to the common one, which is the first */
    put_word(t, 0);
    put_word(t, 0x100);
    put_byte(t, 0);
    put(t, code, size);
    end_entry(t, t->entry);
}

static bool size_with(const head *h, const uint8_t *code, size_t size, uint64_t at,
                      kr_frame_size *out)
{
    tables t = {.size = 0};
    put_common(&t, h);
    put_function(&t, code, size);
    return kr_frame_size_of(t.bytes + t.entry, START, START + at, out);
}

static void assert_frame(const uint8_t *code, size_t size, uint64_t at, uint64_t bytes,
                         uint64_t frame_at)
{
    kr_frame_size f;
    if (!size_with(&usual, code, size, at, &f))
        fail_msg("not reported, at %u", (unsigned)at);
    assert_int_equal(f.bytes, bytes);
    assert_int_equal(f.frame_at, frame_at);
}

static void assert_not_reported(const uint8_t *code, size_t size)
{
    kr_frame_size f;
    assert_false(size_with(&usual, code, size, 0x80, &f));
}
#define FRAME(at, bytes, frame_at, ...)                                                            \
    assert_frame((const uint8_t[]){__VA_ARGS__}, sizeof(uint8_t[]){__VA_ARGS__}, at, bytes,        \
                 frame_at)
#define NOT_TOLD(...)                                                                              \
    assert_not_reported((const uint8_t[]){__VA_ARGS__}, sizeof(uint8_t[]){__VA_ARGS__})

static void frames_grow_where_the_code_says(void **state)
{
    (void)state;
    FRAME(0, 8, 0, 0x00);
    FRAME(0, 8, 0, 0x44, 0x0e, 16); /* from 4 on */
    FRAME(3, 8, 0, 0x44, 0x0e, 16);
    FRAME(4, 16, 0, 0x44, 0x0e, 16);
    FRAME(4, 16, 16, 0x41, 0x0e, 16, 0x86, 2, 0x00); /* push rbp */
    FRAME(9, 0x190, 0, 0x02, 9, 0x0e, 0x90, 3);      /* LEB128 of two bytes */
    FRAME(0x7f, 8, 0, 0x03, 0x80, 0, 0x0e, 16);
    FRAME(0x80, 16, 0, 0x03, 0x80, 0, 0x0e, 16);
    FRAME(0x81, 16, 0, 0x04, 0x80, 0, 0, 0, 0x0e, 16);
}

static void every_way_to_name_a_distance_is_followed(void **state)
{
    (void)state;
    FRAME(0, 32, 0, 0x0c, 7, 32);
    FRAME(0, 32, 0, 0x12, 7, 0x7c); /* signed: -4 of -8 */
    FRAME(0, 40, 0, 0x13, 0x7b);
    FRAME(0, 16, 0, 0x0d, 7, 0x0e, 16);  /* the register again */
    FRAME(0, 8, 24, 0x05, 6, 3);         /* rbp, with a number as long as one likes */
    FRAME(0, 8, 24, 0x11, 6, 3);         /* signed */
    FRAME(0, 8, 0, 0x86, 2, 0x08, 6);    /* the same as before */
    FRAME(0, 8, 0, 0x86, 2, 0x06, 6);    /* as at the beginning */
    FRAME(0, 8, 0, 0x86, 2, 0xc6);       /* the same, short */
    FRAME(0, 8, 0, 0x83, 2, 0x05, 3, 9); /* rbx: not needed */
    FRAME(0, 8, 0, 0x2e, 16);            /* arguments on the stack */
    FRAME(0, 8, 0, 0x08, 16, 0x06, 16);  /* the address: away and back */
    FRAME(0, 8, 0, 0x08, 16, 0xd0);
}

static void states_are_kept_and_come_back(void **state)
{
    (void)state;
    FRAME(2, 16, 0, 0x0a, 0x0e, 16, 0x43, 0x0b);
    FRAME(3, 8, 0, 0x0a, 0x0e, 16, 0x43, 0x0b);
    NOT_TOLD(0x0b); /* none was kept */
    NOT_TOLD(0x0a, 0x0a, 0x0a, 0x0a, 0x0a, 0x0a, 0x0a, 0x0a, 0x0a);
}

static void registers_that_are_kept_otherwise_only_matter_if_they_are_ours(void **state)
{
    (void)state;
    FRAME(0, 8, 0, 0x10, 3, 2, 0xff, 0xff); /* rbx, by an expression */
    FRAME(0, 8, 0, 0x16, 3, 1, 0xff);
    FRAME(0, 8, 0, 0x09, 3, 12);
    FRAME(0, 8, 0, 0x14, 3, 12, 0x15, 3, 12);
    FRAME(0, 8, 0, 0x07, 3);
    NOT_TOLD(0x10, 6, 1, 0xff);
    NOT_TOLD(0x16, 16, 1, 0xff);
    NOT_TOLD(0x09, 6, 12);
    NOT_TOLD(0x07, 16); /* where a thread begins */
}

static void complex_frames_are_not_reported(void **state)
{
    kr_frame_size f;
    (void)state;
    NOT_TOLD(0x0f, 1, 0xff);    /* the distance by an expression */
    NOT_TOLD(0x0c, 6, 16);      /* from rbp */
    NOT_TOLD(0x90, 2);          /* the address elsewhere */
    NOT_TOLD(0x11, 6, 0x7f);    /* rbp above the caller's */
    NOT_TOLD(0x13, 1);          /* less than nothing */
    NOT_TOLD(0x3f);             /* no instruction */
    NOT_TOLD(0x0e);             /* cut off */
    NOT_TOLD(0x10, 3, 9, 0xff); /* longer than what there is */
    NOT_TOLD(0x0e, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01);
    uint32_t nothing[2] = {0, 0}, far[2] = {UINT32_MAX, 0};
    assert_false(kr_frame_size_of(nothing, START, START, &f));
    assert_false(kr_frame_size_of(far, START, START, &f));
}

static void heads_are_read_as_far_as_they_are_known(void **state)
{
    static const uint8_t code[] = {0x0e, 16};
    kr_frame_size f;
    static const head known[] = {
        {3, 16, 0x1b, "zR"}, {1, 16, 0x03, "zR"}, {1, 16, 0x1b, "zPLR"}, {1, 16, 0x1b, "zRL"}};
    static const head other[] = {{4, 16, 0x1b, "zR"}, {1, 15, 0x1b, "zR"},  {1, 16, 0x1b, "R"},
                                 {1, 16, 0x01, "zR"}, {1, 16, 0x1b, "zRQ"}, {1, 16, 0x1b, "zS"}};
    (void)state;
    for (size_t i = 0; i < KB_COUNT(known); i++)
        if (!size_with(&known[i], code, sizeof code, 0, &f) || f.bytes != 16)
            fail_msg("not reported: %s", known[i].letters);
    for (size_t i = 0; i < KB_COUNT(other); i++)
        if (size_with(&other[i], code, sizeof code, 0, &f))
            fail_msg("reported: %u %u %s", other[i].version, other[i].encoding, other[i].letters);
    tables t = {.size = 0};
    put_function(&t, code, sizeof code); /* its common entry is itself: no common one */
    assert_false(kr_frame_size_of(t.bytes, START, START, &f));
}

#else

static void nothing_is_reported_on_other_processors(void **state)
{
    kr_frame_size f;
    (void)state;
    assert_false(kr_frame_size_of("", 0, 0, &f));
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
#if defined(__x86_64__)
        cmocka_unit_test(frames_grow_where_the_code_says),
        cmocka_unit_test(every_way_to_name_a_distance_is_followed),
        cmocka_unit_test(states_are_kept_and_come_back),
        cmocka_unit_test(registers_that_are_kept_otherwise_only_matter_if_they_are_ours),
        cmocka_unit_test(complex_frames_are_not_reported),
        cmocka_unit_test(heads_are_read_as_far_as_they_are_known),
#else
        cmocka_unit_test(nothing_is_reported_on_other_processors),
#endif
    };
    return RUN_TESTS(tests);
}
