/* Watchers of all requests: the program's observers and the log. Also the program's client
 * (Kineto's term): callbacks with which the program records something of its own during a trace. */
#ifndef KO_OBSERVERS_H
#define KO_OBSERVERS_H

#include "ondemand/controller/controller.h"

/* ---- watchers for ko_controller_watch; the context is NULL ----------------------------------- */
/** Calls the program's observers (kineto_control_add_observer). */
void ko_observers_watch(void *context, const ko_stage_note *note);
/** Logs a line for each stage, at level KINETO_LOG_STAGE. */
void ko_log_watch(void *context, const ko_stage_note *note);

/* ---- client.c: the program's callbacks (kineto_control_set_client), for drivers -----------------
 * Without a client nothing happens. Order of calls: prepare, start, stop; drop at any time. Another
 * order is reported as a violated invariant. */
/** A trace begins; the client that is set now is called until ko_client_stop or ko_client_drop. */
void ko_client_prepare(const ko_request *request);
void ko_client_start(void);
/** After the window; also ends what prepare began. */
void ko_client_stop(void);
/** Instead of ko_client_stop, or after it (without effect): stops the client if it was started. */
void ko_client_drop(void);
/** Does a client take memory snapshots itself? */
bool ko_client_takes_snapshots(void);
void ko_client_snapshot_start(void);
/** Export to `path`, safely, then stop. */
kineto_status ko_client_snapshot_stop(ko_request_source source, const char *path, uint64_t *bytes,
                                      kineto_error *err);
/** Stop without exporting. */
void ko_client_snapshot_drop(void);
/** In a fork's child: traces under way belong to the parent. */
void ko_observers_forked(void);

/* ---- violated invariants --------------------------------------------------------------------- */
/** Report a violated invariant in the log and in the ledger of this process, and count it. @param
 *  what  static text: "stop without start". threads: any. */
void ko_report_violation(const char *what);
/** Number of violations since the process began. */
uint64_t ko_violation_count(void);
#endif
