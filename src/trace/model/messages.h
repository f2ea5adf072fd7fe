/* Messages between processes. A call that sends or receives has the ids of its messages as arguments;
 * sender and receiver have the same one (plugins/mpi/messages.c). Both may be in different files. */
#ifndef KT_MESSAGES_H
#define KT_MESSAGES_H

#include "trace/model/model.h"

/* One side of a message. `part` is the caller's: which trace it is from. */
typedef struct kt_message_end {
    int64_t id;
    kineto_row row;
    uint32_t part;
    bool is_received;
} kt_message_end;
typedef KB_VEC(kt_message_end) kt_message_ends;

/** Called for each message of a row. */
typedef bool kt_message_visitor(void *context, int64_t id, bool is_received);
/** Visits messages of a row until the visitor returns false. False: it did. */
bool kt_visit_messages(const kineto_trace *t, kineto_row row, kt_message_visitor *visit,
                       void *context);

/** Appends the messages of all rows; row numbers are raised by `first`. False: out of memory. */
bool kt_list_messages(const kineto_trace *t, kineto_row first, uint32_t part, kt_message_ends *out);

/** A pair of ends of one message. */
typedef void kt_message_joiner(void *context, const kt_message_end *sent,
                               const kt_message_end *received);
/** Sorts the ends, and calls `join` for each message that has one sender and one receiver. */
void kt_join_messages(kt_message_ends *ends, kt_message_joiner *join, void *context);
#endif
