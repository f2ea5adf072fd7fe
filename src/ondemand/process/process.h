/* The running process as traceable on demand: its one controller, the thread that runs it, and the
 * driver that records.
 *
 *     control.c      the public functions of <ckineto/control.h>
 *     life.c         start and stop; forks and the end of the program
 *     environment.c  settings from the environment
 *     autostart.c    in the shared library: before main
 *     process.c      the driver */
#ifndef KO_CONTROL_H
#define KO_CONTROL_H

#include "ondemand/listen/listeners.h"
#include <ckineto/control.h>

/* ---- life.c ---------------------------------------------------------------------------------- */

/** The controller of this process, which is not destroyed before ko_control_put; NULL: none, and no
 *  put. threads: any. */
ko_controller *ko_control_get(void);
void ko_control_put(void);
/** Wake the control thread, so that it calls ko_process_tend. threads: any. */
void ko_control_wake(void);

/* An iteration of the program: when it began, in ticks, and the time that was reported to the
 * controller. */
typedef struct ko_iteration {
    uint64_t number, ticks;
    int64_t reported_ns;
} ko_iteration;
/** Of the recent iterations, the last that began before this time. threads: any. */
bool ko_control_iteration_at(int64_t ns, ko_iteration *out);
/** Iteration `number`, if it has begun and is one of the recent ones. threads: any. */
bool ko_control_iteration(uint64_t number, ko_iteration *out);

/* Which listeners to start, and their settings; owns its texts. */
typedef struct ko_settings {
    kineto_control_options options; /* texts point into what follows */
    char file[KO_REQUEST_PATH_BYTES], dump_path[KO_REQUEST_PATH_BYTES];
    uint64_t poll_interval_ns; /* of Dynolog; 0: default */
} ko_settings;
/** Copy the texts of the options, which must fit, and point the options to the copies. */
void ko_settings_own(ko_settings *s);

/** Start with the listeners of the settings; without any, nothing is started.
 *  @param lenient  listeners that cannot be started are skipped with a warning.
 *  @return KINETO_E_STATE if it listens already. threads: any. */
kineto_status ko_life_start(const ko_settings *settings, bool lenient, kineto_error *err);
/** Start with the settings of the environment, if it has any; only once. threads: any. */
void ko_life_start_from_environment(void);
/** Start a controller if there is none. threads: any. */
kineto_status ko_life_ensure(kineto_error *err);
void ko_life_stop(void);
bool ko_life_listens(void);

/* ---- environment.c --------------------------------------------------------------------------- */

/** Add the settings of CKINETO_CONTROL, CKINETO_RING, KINETO_USE_DAEMON and the configuration file.
 *  Unknown words are skipped with a warning. No effect in a program with raised privileges. */
void ko_environment_add(ko_settings *s);

/* ---- process_driver.c: the driver ------------------------------------------------------------ */

/** The driver of this process; there is one. */
void ko_process_driver(ko_driver *out);
/** Background work for windows: prefault memory, destroy warm-up sessions. Takes a few milliseconds
 *  at most.
 *  @return whether there is more to do. threads: the controller's. */
bool ko_process_tend(void);
/** In a fork's child: windows under way belong to the parent. */
void ko_process_forked(void);
#endif
