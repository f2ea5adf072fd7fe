/* Who hears of traces besides those that asked: the program's observers, the log, and the program as
 * a recorder of its own (what Kineto calls its client). */
#ifndef KO_OBSERVERS_H
#define KO_OBSERVERS_H

#include "ondemand/controller/controller.h"

/* ---- watchers for ko_controller_watch; the context is NULL ---------------------------------------- */
/** Tells the program's observers (kineto_control_add_observer). */
void ko_observers_watch(void *context, const ko_stage_note *note);
/** Tells the log, a line for each stage, at level KINETO_LOG_STAGE. */
void ko_log_watch(void *context, const ko_stage_note *note);

/* ---- client.c: the program's callbacks (kineto_control_set_client), for drivers ------------------
 * Nothing happens where none is set. Each call at most once between prepare and its end; what comes
 * out of order is an invariant that does not hold. */
/** A trace begins; the client that is set now is called until ko_client_stop or ko_client_drop. */
void ko_client_prepare(const ko_request *request);
void ko_client_start(void);
/** After the window; also ends what prepare began. */
void ko_client_stop(void);
/** Instead of ko_client_stop, or after it (nothing happens then): stops if it was started. */
void ko_client_drop(void);
/** Does a client take memory snapshots itself? */
bool ko_client_takes_snapshots(void);
void ko_client_snapshot_start(void);
/** Export to `path`, safely, then stop. */
kineto_status ko_client_snapshot_stop(ko_request_source source, const char *path, uint64_t *bytes,
                                      kineto_error *err);
/** … without a file: it is given up. */
void ko_client_snapshot_drop(void);
/** In a fork's child: what was under way is the parent's. */
void ko_observers_forked(void);

/* ---- what must not happen, and did ---------------------------------------------------------------- */
/** Says so in the log and in the ledger of what is recorded in this process, and counts. `what` is
 *  static: "stop without start". threads: any. */
void ko_invariant(const char *what);
/** How often since the process began. */
uint64_t ko_invariants(void);
#endif
