/* Readable names of Rust's functions, without hashes. */
#ifndef KT_RUST_NAMES_H
#define KT_RUST_NAMES_H

#include "base/base.h"

/** The name of a symbol that begins with "_R". @return bytes written; 0: it is none, or longer than `room`. */
size_t kt_rust_v0_name(kineto_string name, char *out, size_t room);
/** The same for a name that C++'s demangler has read: "rs::main::h0123456789abcdef". */
size_t kt_rust_legacy_name(kineto_string name, char *out, size_t room);
#endif
