/* Names of Rust's functions: those of the documented grammars, and what is malformed. */
#include "trace/from_recording/symbols.h"

#include "unit.h"

typedef struct name_pair {
    const char *mangled, *readable;
} name_pair;

static const name_pair paths[] = {
    {"_RNvC6_123foo3bar", "123foo::bar"},
    {"_RC3foo.llvm.9D1C9369", "foo"},
    {"_RNvC9backtrace3foo.llvm.A5310EB9", "backtrace::foo"},
    {"_RNvC9backtrace3foo.cold", "backtrace::foo.cold"},
    {"_RNCNCNgCs6DXkGYLi8lr_2cc5spawn00B5_", "cc::spawn::{closure#0}::{closure#0}"},
    {"_RNSNvC3foo3bar6vtable", "foo::bar::{shim:vtable#0}"},
    {"_RNvMs_Cs4Cv8Wi1oAIB_13const_genericINtB4_3FooKpE3foo", "<const_generic::Foo<_>>::foo"},
    {"_RNvXC3fooNtB2_1SNtNtC4core5clone5Clone5clone", "<foo::S as core::clone::Clone>::clone"},
    {"_RNvYNtC3foo1SNtNtC4core5clone5Clone10clone_from", "<foo::S as core::clone::Clone>::clone_from"},
    {"_RNCINkXs25_NgCsbmNqQUJIY6D_4core5sliceINyB9_4IterhENuNgNoBb_4iter8iterator8Iterator9rpositionNCNgNpB9_6memchr7"
     "memrchrs_0E0Bb_",
     "<core::slice::Iter<u8> as core::iter::iterator::Iterator>::rposition::<core::slice::memchr::memrchr::{closure#1}>"
     "::{closure#0}"},
    {"_RINbNbCskIICzLVDPPb_5alloc5alloc8box_freeDINbNiB4_5boxed5FnBoxuEp6OutputuEL_ECs1iopQbuBiw2_3std",
     "alloc::alloc::box_free::<dyn alloc::boxed::FnBox<(), Output = ()>>"},
    {"_RNqCs4fqI2P2rA04_11utf8_identsu30____7hkackfecea1cbdathfdh9hlq6y",
     "utf8_idents::\u10e1\u10d0\u10ed\u10db\u10d4\u10da\u10d0\u10d3_\u10d2\u10d4\u10db\u10e0\u10d8\u10d4\u10da\u10d8_"
     "\u10e1\u10d0\u10d3\u10d8\u10da\u10d8"},
};

/* As the argument of a crate without a name: "_RIC0" … "E". */
static const name_pair types[] = {
    {"a", "i8"},
    {"z", "!"},
    {"u", "()"},
    {"Aj7b_", ""},
    {"AhKj7b_", ""},
    {"Ahj7b_", "[u8; 123]"},
    {"Sh", "[u8]"},
    {"ThE", "(u8,)"},
    {"ThbE", "(u8, bool)"},
    {"Re", "&str"},
    {"QSc", "&mut [char]"},
    {"Pu", "*const ()"},
    {"OOh", "*mut *mut u8"},
    {"FEu", "fn()"},
    {"FUKCjEb", "unsafe extern \"C\" fn(usize) -> bool"},
    {"FK8fastcallmE", ""},
    {"FK8fastcallmEu", "extern \"fastcall\" fn(u32)"},
    {"FG_RL0_hEu", "for<'a> fn(&'a u8)"},
    {"FG0_RL0_hRL1_hEu", "for<'a, 'b> fn(&'b u8, &'a u8)"},
    {"FG0_RL1_hRL0_hEu", "for<'a, 'b> fn(&'a u8, &'b u8)"},
    {"L_", "'_"},
    {"DNtC3foo3BarEL_", "dyn foo::Bar"},
    {"DNtC3foo3BarNtC3foo4SendEL_", "dyn foo::Bar + foo::Send"},
    {"DINtC3foo3BarhEp1AmEL_", "dyn foo::Bar<u8, A = u32>"},
    {"INtC3foo3VecNtC3foo1TE", "foo::Vec<foo::T>"},
};

/* The same after a "K". */
static const name_pair constants[] = {
    {"j7b_", "123"},
    {"s98_", "152"},
    {"anb_", "-11"},
    {"b1_", "true"},
    {"b0_", "false"},
    {"c76_", "'v'"},
    {"c27_", "'\\''"},
    {"c2202_", "'\u2202'"},
    {"cd800_", ""},
    {"p", "_"},
    {"o123456789abcdef01_", "0x123456789abcdef01"},
    {"Re616263_", "\"abc\""},
    {"e616263_", "{*\"abc\"}"},
    {"Re61626_", ""},
    {"RAj1_j2_E", "{&[1, 2]}"},
    {"Th1_c78_E", "{(1, 'x')}"},
    {"VNtINtNtC4core6option6OptionjE4NoneU", "{core::option::Option::<usize>::None}"},
    {"VNtINtNtC4core6option6OptionjE4SomeTj0_E", "{core::option::Option::<usize>::Some(0)}"},
    {"VNtC3foo3BarS1sRe616263_2chc78_5sliceRAh1_h2_EE",
     "{foo::Bar { s: \"abc\", ch: 'x', slice: &[1, 2] }}"},
};

#define HASH "17h05af221e174051e9E"
static const name_pair legacy[] = {
    {"_ZN3foo" HASH, "foo"},
    {"_ZN3foo3bar" HASH ".llvm.1234", "foo::bar"},
    {"_ZN13test$u20$test4foob" HASH, "test test::foob"},
    {"_ZN35Bar$LT$$u5b$u32$u3b$$u20$4$u5d$$GT$" HASH, "Bar<[u32; 4]>"},
    {"_ZN71_$LT$Test$u20$$u2b$$u20$$u27$static$u20$as$u20$foo..Bar$LT$Test$GT$$GT$3bar" HASH,
     "<Test + 'static as foo::Bar<Test>>::bar"},
    {"_ZN4work4spinEmi", ""},                   /* C++ */
    {"_ZN3foo16h05af221e174051eE", ""},         /* too short for a hash */
    {"_ZN3foo17h05af221e174051xxE", ""},
};

/* `readable` empty: it is not a name of Rust. */
static void check_name(const char *mangled, const char *readable)
{
    char out[512];
    bool is_one = kt_rust_name(kb_string(mangled), out, sizeof out);
    if (is_one != (readable[0] != '\0') || (is_one && strcmp(out, readable) != 0))
        fail_msg("%s: %s, not %s", mangled, is_one ? out : "no name", readable);
}

static void check_arguments(const name_pair *list, size_t count, const char *before)
{
    for (size_t i = 0; i < count; i++) {
        char mangled[512], readable[512] = "";
        snprintf(mangled, sizeof mangled, "_RIC0%s%sE", before, list[i].mangled);
        if (list[i].readable[0])
            snprintf(readable, sizeof readable, "::<%s>", list[i].readable);
        check_name(mangled, readable);
    }
}

static void names_of_the_grammar_are_as_in_the_source(void **state)
{
    (void)state;
    for (size_t i = 0; i < KB_COUNT(paths); i++)
        check_name(paths[i].mangled, paths[i].readable);
    check_arguments(types, KB_COUNT(types), "");
    check_arguments(constants, KB_COUNT(constants), "K");
    for (size_t i = 0; i < KB_COUNT(legacy); i++)
        check_name(legacy[i].mangled, legacy[i].readable);
}

static void names_without_end_are_refused(void **state)
{
    (void)state;
    char deep[3000] = "_R", out[256];
    memset(deep + 2, 'S', sizeof deep - 3);
    assert_false(kt_rust_name(kb_string(deep), out, sizeof out));
    memcpy(deep, "_RIC0", 5);
    assert_false(kt_rust_name(kb_string(deep), out, sizeof out));
    check_name("_RB_", "");
    check_name("_RNvB_3foo", "");
    check_name("_RIC0B1_E", "");
    check_name("_RNvC99999999999999999999999foo3bar", "");
    check_name("_R", "");
    check_name("_R1NvC3foo3bar", ""); /* a later version */
}

/* "B…_" for a position. */
static size_t append_back_reference(char *to, size_t position)
{
    static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    size_t number = position - 1, at = 0;
    to[at++] = 'B';
    if (number >= 62)
        to[at++] = digits[number / 62];
    to[at++] = digits[number % 62];
    to[at++] = '_';
    return at;
}

/* Back references that double what they refer to: the output is limited, and so is the time. */
static void names_that_grow_without_end_are_refused(void **state)
{
    (void)state;
    char mangled[800] = "_RIC0TuuE", out[4096];
    size_t at = strlen(mangled), last = strlen("IC0");
    for (int i = 0; i < 40; i++) {
        size_t here = at - 2;
        mangled[at++] = 'T';
        at += append_back_reference(mangled + at, last);
        at += append_back_reference(mangled + at, last);
        mangled[at++] = 'E';
        last = here;
        mangled[at] = 'E';
        assert_int_equal(kt_rust_name((kineto_string){mangled, at + 1}, out, sizeof out), i < 7);
    }
}

/* Every beginning of a name, and every name with another byte somewhere: no crash, and text that fits. */
static void check_damaged(const char *mangled)
{
    char text[512], out[300];
    size_t size = strlen(mangled);
    assert_true(size < sizeof text);
    for (size_t i = 0; i < size; i++) {
        size_t room = 1 + i * 7 % sizeof out;
        memset(out, 'x', sizeof out);
        if (kt_rust_name((kineto_string){mangled, i}, out, room))
            assert_true(strlen(out) < room);
        for (const char *c = "BE_0aISTKNs9R\xff"; *c; c++) {
            memcpy(text, mangled, size + 1);
            text[i] = *c;
            if (kt_rust_name((kineto_string){text, size}, out, sizeof out))
                assert_true(strlen(out) < sizeof out);
        }
    }
}

static void damaged_names_are_refused_or_read(void **state)
{
    (void)state;
    for (size_t i = 0; i < KB_COUNT(paths); i++)
        check_damaged(paths[i].mangled);
    for (size_t i = 0; i < KB_COUNT(legacy); i++)
        check_damaged(legacy[i].mangled);
    for (size_t i = 0; i < KB_COUNT(constants); i++) {
        char mangled[512];
        snprintf(mangled, sizeof mangled, "_RIC0K%sE", constants[i].mangled);
        check_damaged(mangled);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_of_the_grammar_are_as_in_the_source),
        cmocka_unit_test(names_without_end_are_refused),
        cmocka_unit_test(names_that_grow_without_end_are_refused),
        cmocka_unit_test(damaged_names_are_refused_or_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
