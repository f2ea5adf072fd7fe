/* Memory for what grows with the number of events: the heap, or, with a limit, files that have no
 * name, mapped. A thread watches how much of the process is resident; above the limit it gives
 * back all mapped pages, which the system writes to disk and brings back when they are looked at.
 */
#ifndef KT_STORE_H
#define KT_STORE_H

#include "base/base.h"

struct kt_input;
typedef struct kt_store kt_store;

/** @param limit_bytes  resident, of the whole process.
 *  @return KINETO_E_IO and such if no directory takes the file. */
kineto_status kt_store_create(uint64_t limit_bytes, kt_store **out, kineto_error *err);
kt_store *kt_store_retain(kt_store *store); /* NULL is fine in all of these: the heap */
void kt_store_release(kt_store *store);

/** As malloc, calloc, realloc and free. Where the file has no room, memory is taken. Any thread. */
void *kt_store_alloc(kt_store *store, size_t bytes);
void *kt_store_zeroed(kt_store *store, size_t bytes);
void *kt_store_resize(kt_store *store, void *memory, size_t old_bytes, size_t bytes);
void kt_store_free(kt_store *store, void *memory);
/** Room for n items in a KB_VEC, by doubling, as kb_vec_reserve. */
#define kt_store_reserve(store, v, n)                                                              \
    ((n) <= (v)->capacity ||                                                                       \
     kt_store_grow((store), (void **)&(v)->data, &(v)->capacity, (n), sizeof *(v)->data))
#define kt_store_push(store, v, ...)                                                               \
    (kt_store_reserve((store), (v), (v)->count + 1)                                                \
         ? ((v)->data[(v)->count++] = (__VA_ARGS__), true)                                         \
         : false)
bool kt_store_grow(kt_store *store, void **data, size_t *capacity, size_t need, size_t item_bytes);

/** Look now whether the limit is kept; for those who fill memory fast. */
void kt_store_check(kt_store *store);
/** Also give back what can be given back of this text, which is retained. */
void kt_store_watch(kt_store *store, struct kt_input *input);
#endif
