/* Memory for data that grows with the number of events: the heap, or, with a memory limit,
 * a mapped temporary file without a name. A thread watches the resident size of the
 * process. Above the limit it releases all mapped pages, which the kernel writes to disk
 * and loads again when they are read. */
#ifndef KT_STORE_H
#define KT_STORE_H

#include "base/base.h"

struct kt_input;
typedef struct kt_store kt_store;

/** @param limit_bytes  limit for the resident size of the whole process.
 *  @return KINETO_E_IO or similar if the file cannot be created. */
kineto_status kt_store_create(uint64_t limit_bytes, kt_store **out, kineto_error *err);
/* In all of these functions, store NULL means the heap. */
kt_store *kt_store_retain(kt_store *store);
void kt_store_release(kt_store *store);

/** As malloc, calloc, realloc and free. If the file has no room, the heap is used. Any thread. */
void *kt_store_alloc(kt_store *store, size_t bytes);
void *kt_store_zeroed(kt_store *store, size_t bytes);
void *kt_store_resize(kt_store *store, void *memory, size_t old_bytes, size_t bytes);
void kt_store_free(kt_store *store, void *memory);
/** Reserves room for n items in a KB_VEC, by doubling, as kb_vec_reserve. */
#define kt_store_reserve(store, v, n)                                                              \
    ((n) <= (v)->capacity ||                                                                       \
     kt_store_grow((store), (void **)&(v)->data, &(v)->capacity, (n), sizeof *(v)->data))
#define kt_store_push(store, v, ...)                                                               \
    (kt_store_reserve((store), (v), (v)->count + 1)                                                \
         ? ((v)->data[(v)->count++] = (__VA_ARGS__), true)                                         \
         : false)
bool kt_store_grow(kt_store *store, void **data, size_t *capacity, size_t need, size_t item_bytes);

/** Checks the limit now: for callers that fill memory faster than the thread watches it. */
void kt_store_check(kt_store *store);
/** Includes a text in what is released above the limit (kt_input_trim). The store retains it. */
void kt_store_watch(kt_store *store, struct kt_input *input);
#endif
