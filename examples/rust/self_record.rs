// A Rust program that records itself: plain calls of libckineto.so.
use std::ffi::{c_char, c_void, CString};
use std::ptr;

#[link(name = "ckineto")]
extern "C" {
    fn kineto_session_create(options: *const c_void, out: *mut *mut c_void, err: *mut c_void) -> i32;
    fn kineto_session_start(session: *mut c_void, err: *mut c_void) -> i32;
    fn kineto_session_stop(session: *mut c_void, out: *mut *mut c_void, err: *mut c_void) -> i32;
    fn kineto_session_destroy(session: *mut c_void);
    fn kineto_trace_save(trace: *const c_void, path: *const c_char, err: *mut c_void) -> i32;
    fn kineto_trace_release(trace: *mut c_void);
}

#[link(name = "ckineto-rt")]
extern "C" {
    static mut kineto_gate: *const u64; // the library writes it: points to the mask of kinds that are recorded now
    fn kineto_function_site(name: *const c_char, overload: *const c_char, scope: u32) -> *mut c_void;
    fn kineto_record_begin(site: *mut c_void) -> u32;
    fn kineto_record_end(range: u32);
}

const USER_SCOPE: u32 = 7;
const USER_ANNOTATION: u64 = 1 << 1;

/// A place in the program; made once, valid until the process ends.
#[derive(Clone, Copy)]
struct Site(*mut c_void);

impl Site {
    fn new(name: &str) -> Site {
        let name = CString::new(name).expect("a name without NUL");
        Site(unsafe { kineto_function_site(name.as_ptr(), ptr::null(), USER_SCOPE) })
    }
}

/// A range until it is dropped, on this thread.
struct Range(u32, std::marker::PhantomData<*const ()>);

impl Range {
    fn new(site: Site) -> Range {
        let wanted = unsafe { ptr::read_volatile(kineto_gate) } & USER_ANNOTATION != 0;
        let range = if wanted && !site.0.is_null() { unsafe { kineto_record_begin(site.0) } } else { 0 };
        Range(range, std::marker::PhantomData)
    }
}

impl Drop for Range {
    fn drop(&mut self) {
        if self.0 != 0 {
            unsafe { kineto_record_end(self.0) }
        }
    }
}

fn main() {
    let (mut session, mut trace) = (ptr::null_mut(), ptr::null_mut());
    assert_eq!(unsafe { kineto_session_create(ptr::null(), &mut session, ptr::null_mut()) }, 0);
    assert_eq!(unsafe { kineto_session_start(session, ptr::null_mut()) }, 0);
    let step = Site::new("step");
    for number in 0..3 {
        let _range = Range::new(step);
        println!("step {number}");
    }
    let path = CString::new("self_record.json").unwrap();
    let status = unsafe {
        let stopped = kineto_session_stop(session, &mut trace, ptr::null_mut());
        kineto_session_destroy(session);
        let saved = if stopped == 0 { kineto_trace_save(trace, path.as_ptr(), ptr::null_mut()) } else { stopped };
        kineto_trace_release(trace);
        saved
    };
    std::process::exit(if status == 0 { 0 } else { 1 });
}
