/* What rules about recorded waits of threads share. */
#ifndef KA_FIND_WAITS_H
#define KA_FIND_WAITS_H

#include "analyze/findings/finding.h"

/** Does the trace have rows of this kind? */
bool ka_has_rows_of(const kineto_trace *t, kineto_kind kind);

/** Does a function sleep for a given time: usleep, nanosleep? */
bool ka_is_sleep(kineto_string function);

typedef KB_VEC(kineto_row) ka_wait_rows;
/** The waits of reported deadlocks, which other rules do not repeat. *rows is freed by the caller. */
void ka_deadlock_waits(ka_finder *f, ka_wait_rows *rows);
#endif
