/* Names of Rust's functions: what the reference (the crate rustc-demangle 0.1, without hashes) makes of symbols of
 * rustc 1.95 and its libraries; of damaged ones, nothing is read outside of them. */
#include "trace/from_recording/rust_names.h"

#include "unit.h"

static const struct {
    const char *symbol, *name;
} v0[] = {
    {"_RNvXs1g_NtCsgEmfK2I1SDS_4core3fmtRDNtB6_5DebugEL_Bx_3fmtB8_",
     "<&dyn core::fmt::Debug as core::fmt::Debug>::fmt"},
    {"_RINvNtCsgEmfK2I1SDS_4core3ptr13drop_in_placeINtNtCslNYArtu3iFV_5alloc5boxed3BoxDINtNtNt"
     "B4_3ops8function6FnOnceuEp6OutputuNtNtB4_6marker4SendEL_EECsbFYJioi4cCO_2rs",
     "core::ptr::drop_in_place::<alloc::boxed::Box<dyn core::ops::function::FnOnce<(), Output "
     "= ()> + core::marker::Send>>"},
    {"_RNvXs1_NtCsfoXig8kEbyV_12simd_adler324hashAhj1_NtB7_11Adler32Hash4hash",
     "<[u8; 1] as simd_adler32::Adler32Hash>::hash"},
    {"_RNvXs0_CshkXY8FcjN5v_12wasm_encoderShNtB5_6Encode6encode",
     "<[u8] as wasm_encoder::Encode>::encode"},
    {"_RNCNvNtNtCsjrHSEGnQ3l9_3std3sys9backtrace10__print_fmts_0B7_",
     "std::sys::backtrace::_print_fmt::{closure#1}"},
    {"_RNvXs1h_NtCsgEmfK2I1SDS_4core3fmtQShNtB6_5Debug3fmtCsgY6Mt91CT9J_14rustc_demangle",
     "<&mut [u8] as core::fmt::Debug>::fmt"},
    {"_RINvNtCsgEmfK2I1SDS_4core9panicking13assert_failedPuBM_ECsjdZfHBviKpM_9dyn_clone",
     "core::panicking::assert_failed::<*const (), *const ()>"},
    {"_RNvXsq_NtCsgEmfK2I1SDS_4core3fmtONtNtB7_3ffi6c_voidNtB5_5Debug3fmtCsjrHSEGnQ3l9_3std",
     "<*mut core::ffi::c_void as core::fmt::Debug>::fmt"},
    {"_RNvYNvNtNtNtCsjrHSEGnQ3l9_3std3sys2fs4unix4statINtNtNtCsgEmfK2I1SDS_4core3ops8function2"
     "FnTRNtNtNtBQ_3ffi5c_str4CStrEE4callBa_",
     "<std::sys::fs::unix::stat as core::ops::function::Fn<(&core::ffi::c_str::CStr,)>>::call"},
    {"_RINvNtNtNtNtCsgEmfK2I1SDS_4core5slice4sort6stable9quicksort9quicksortTNtNtCsdoLGDhjbLAL"
     "_13rustc_type_ir7ty_kind5TyVidB16_ENCINvMNtCslNYArtu3iFV_5alloc5sliceSB15_11sort_by_keyB"
     "15_NCNvMNtNtCs3MG2ofusW15_21rustc_data_structures5graph9vec_graphINtB2V_8VecGraphB16_Kb1"
     "_E3news0_0E0ECsjargyg6XnQl_16rustc_hir_typeck",
     "core::slice::sort::stable::quicksort::quicksort::<(rustc_type_ir::ty_kind::TyVid, rustc_"
     "type_ir::ty_kind::TyVid), <[(rustc_type_ir::ty_kind::TyVid, rustc_type_ir::ty_kind::TyVi"
     "d)]>::sort_by_key<(rustc_type_ir::ty_kind::TyVid, rustc_type_ir::ty_kind::TyVid), <rustc"
     "_data_structures::graph::vec_graph::VecGraph<rustc_type_ir::ty_kind::TyVid, true>>::new:"
     ":{closure#2}>::{closure#0}>"},
    {"_RNSNvYNCNvNtNtNtCsjrHSEGnQ3l9_3std3sys11personality3gcc14find_eh_action0INtNtNtCsgEmfK2"
     "I1SDS_4core3ops8function6FnOnceuE9call_once6vtableBe_",
     "<std::sys::personality::gcc::find_eh_action::{closure#0} as core::ops::function::FnOnce<"
     "()>>::call_once::{shim:vtable#0}"},
    {"_RNvNvMs_NtCslNYArtu3iFV_5alloc3vecINtB6_3VecppE6remove13assert_failed",
     "<alloc::vec::Vec<_, _>>::remove::assert_failed"},
    {"_RNvMNtCsgEmfK2I1SDS_4core3stre9from_utf8",
     "<str>::from_utf8"},
    {"_RNvNvMNtCsgEmfK2I1SDS_4core5sliceSp16align_to_offsets3gcd",
     "<[_]>::align_to_offsets::gcd"},
    {"_RINvNtCsgEmfK2I1SDS_4core6escape14escape_unicodeKja_ECsgY6Mt91CT9J_14rustc_demangle",
     "core::escape::escape_unicode::<10>"},
    {"_RNvNvMs0_NtNtNtCsjrHSEGnQ3l9_3std3sys6thread4unixNtB7_6Thread3new12thread_start",
     "<std::sys::thread::unix::Thread>::new::thread_start"},
};

/* As C++'s demangler gives them. */
static const struct {
    const char *text, *name;
} legacy[] = {
    {"rs::count_range::h1cbe06d7541fb795", "rs::count_range"},
    {"std::sync::poison::mutex::Mutex$LT$T$GT$::lock::ha40cfa7d2b72d386", "std::sync::poison::mutex::Mutex<T>::lock"},
    {"_$LT$std..io..Error$u20$as$u20$core..fmt..Debug$GT$::fmt::h0123456789abcdef",
     "<std::io::Error as core::fmt::Debug>::fmt"},
    {"core::ops::function::FnOnce::call_once$u7b$$u7b$vtable.shim$u7d$$u7d$::h0123456789abcdef",
     "core::ops::function::FnOnce::call_once{{vtable.shim}}"},
    {"cxx::h0123456789abcde", ""},   /* too short */
    {"cxx::h0123456789ABCDEF", ""}, /* not a hash of Rust */
    {"std::vector<int>::push_back(int const&)", ""},
};

static void names_of_v0_are_those_of_the_reference(void **state)
{
    (void)state;
    char out[1024];
    for (size_t i = 0; i < KB_COUNT(v0); i++) {
        size_t bytes = kt_rust_v0_name(kb_string(v0[i].symbol), out, sizeof out);
        if (bytes != strlen(v0[i].name) || memcmp(out, v0[i].name, bytes) != 0)
            fail_msg("%s: %.*s", v0[i].symbol, (int)bytes, out);
    }
}

static void legacy_names_lose_their_hash(void **state)
{
    (void)state;
    char out[256];
    for (size_t i = 0; i < KB_COUNT(legacy); i++) {
        size_t bytes = kt_rust_legacy_name(kb_string(legacy[i].text), out, sizeof out);
        if (bytes != strlen(legacy[i].name) || memcmp(out, legacy[i].name, bytes) != 0)
            fail_msg("%s: %.*s", legacy[i].text, (int)bytes, out);
    }
}

/* Copies of their exact size, so that tools see a read behind the end. */
static void name_copy(const char *symbol, size_t bytes, size_t room)
{
    char *copy = malloc(bytes ? bytes : 1), *out = malloc(room ? room : 1);
    assert_non_null(copy);
    assert_non_null(out);
    memcpy(copy, symbol, bytes);
    assert_true(kt_rust_v0_name((kineto_string){copy, bytes}, out, room) <= room);
    assert_true(kt_rust_legacy_name((kineto_string){copy, bytes}, out, room) <= room);
    free(out);
    free(copy);
}

static void damaged_and_long_names_are_left_alone(void **state)
{
    (void)state;
    char changed[512];
    for (size_t i = 0; i < KB_COUNT(v0); i++) {
        size_t size = strlen(v0[i].symbol);
        for (size_t bytes = 0; bytes <= size; bytes++) {
            name_copy(v0[i].symbol, bytes, 1024);
            name_copy(v0[i].symbol, size, bytes);
        }
        for (size_t at = 2; at < size; at++)
            for (const char *c = "0_BCDEIKMNRXYpsz"; *c; c++) {
                memcpy(changed, v0[i].symbol, size);
                changed[at] = *c;
                name_copy(changed, size, 1024);
            }
    }
}

/* References to references double what is read: there is a limit. */
static void nested_references_end(void **state)
{
    (void)state;
    char out[4096], symbol[512] = "_RINvC1a1bTyyE", reference[16];
    for (char digit = '6'; digit < 'Z' && strlen(symbol) < 480; digit++) {
        snprintf(reference, sizeof reference, "TB%c_B%c_E", digit, digit);
        strcat(symbol, reference);
    }
    (void)kt_rust_v0_name(kb_string(symbol), out, sizeof out);
    memset(symbol, 'R', sizeof symbol - 1);
    memcpy(symbol, "_RIC1a", 6);
    symbol[sizeof symbol - 1] = '\0';
    assert_int_equal(kt_rust_v0_name(kb_string(symbol), out, sizeof out), 0); /* too deep */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_of_v0_are_those_of_the_reference),
        cmocka_unit_test(legacy_names_lose_their_hash),
        cmocka_unit_test(damaged_and_long_names_are_left_alone),
        cmocka_unit_test(nested_references_end),
    };
    return RUN_TESTS(tests);
}
