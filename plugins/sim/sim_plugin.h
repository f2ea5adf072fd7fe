/* Between the parts of the plug-in. A plug-in for today's hosts needs neither. */
#ifndef SIM_PLUGIN_H
#define SIM_PLUGIN_H

#include <ckineto/plugin.h>
#include <stdbool.h>

/* ---- sim_old_host.c: for hosts of the interface's first revisions, that take events at the end ---- */

/** A builder that keeps what it is given, as the one of today's hosts would take it. */
const KinetoPlugin_TraceBuilder *sim_old_host_begin(void);
/** Hand that over, with times in UTC. Nothing to do if the session did not begin so. */
void sim_old_host_end(const KinetoPlugin_TraceBuilder *host);

/* ---- sim_faults.c: misbehaviour on demand, for tests of hosts -------------------------------------- */

/** Read CKINETO_SIM_FAULT; false: start shall fail. */
bool sim_faults_begin(void);
/** The builder, or one with faults in front of it. */
const KinetoPlugin_TraceBuilder *sim_faults_between(const KinetoPlugin_TraceBuilder *host);
/** Deliver something when the session is over. */
void sim_faults_end(void);

#endif
