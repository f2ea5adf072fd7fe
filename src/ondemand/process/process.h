/* The running process as something that can be asked for traces: its one controller, the thread
 * that turns it, and the driver that records.
 *
 *     control.c      what the program calls
 *     life.c         begins and ends, and what a fork or the end of the program does to it
 *     environment.c  what the environment says
 *     autostart.c    in the shared library: before main
 *     process.c      the driver */
#ifndef KO_CONTROL_H
#define KO_CONTROL_H

#include "ondemand/listen/listeners.h"
#include <ckineto/control.h>

/* ---- life.c ----------------------------------------------------------------------------------- */

/** The controller of this process, which stays until ko_control_put; NULL: there is none, and
 * nothing to put. threads: any. */
ko_controller *ko_control_get(void);
void ko_control_put(void);
/** Make the thread look again at what ko_process_tend has to do. threads: any. */
void ko_control_wake(void);

/* An iteration of the program: when it began, and what the controller was told. */
typedef struct ko_iteration {
    uint64_t number, ticks;
    int64_t reported_ns;
} ko_iteration;
/** The iteration, of the last ones, that began last before this time. threads: any. */
bool ko_control_iteration_at(int64_t ns, ko_iteration *out);
/** Has it begun, and is it one of the last? threads: any. */
bool ko_control_iteration(uint64_t number, ko_iteration *out);

/* Whom to listen to; owns its texts. */
typedef struct ko_settings {
    kineto_control_options options; /* texts point into what follows */
    char file[KO_REQUEST_PATH_BYTES], dump_path[KO_REQUEST_PATH_BYTES];
    uint64_t poll_interval_ns; /* of Dynolog; 0: the usual */
} ko_settings;
/** Copy the texts of the options, which fit, and point to the copies. */
void ko_settings_own(ko_settings *s);

/** Begin, with nobody to listen to if the settings name nobody.
 *  @param lenient  whoever cannot be listened to is left out, with a warning.
 *  @return KINETO_E_STATE if it listens already. threads: any. */
kineto_status ko_life_start(const ko_settings *settings, bool lenient, kineto_error *err);
/** What the environment says, once, and only if it says something. threads: any. */
void ko_life_start_from_environment(void);
/** Make sure that there is a controller. threads: any. */
kineto_status ko_life_ensure(kineto_error *err);
void ko_life_stop(void);
bool ko_life_listens(void);

/* ---- environment.c ------------------------------------------------------------------------------- */

/** Add what CKINETO_CONTROL, CKINETO_RING, KINETO_USE_DAEMON and the configuration file switch on.
 *  Words that are none are left out, with a warning. Nothing in a program with raised privileges.
 */
void ko_environment_add(ko_settings *s);

/* ---- process.c: what records --------------------------------------------------------------------- */

/** The driver of this process; there is one. */
void ko_process_driver(ko_driver *out);
/** What windows need and nobody should wait for: memory is touched, warm-ups are given up. A few
 *  milliseconds at most. @return whether there is more to do. threads: the controller's. */
bool ko_process_tend(void);
/** In a fork's child: what was under way is the parent's. */
void ko_process_forked(void);
#endif
