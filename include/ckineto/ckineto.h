/** @file
 *  All of ckineto: record, sessions, traces, analysing them.
 */
#ifndef CKINETO_CKINETO_H
#define CKINETO_CKINETO_H

#include <ckineto/analyze.h>
#include <ckineto/arrow.h>
#include <ckineto/base.h>
#include <ckineto/builder.h>
#include <ckineto/control.h>
#include <ckineto/diff.h>
#include <ckineto/export.h>
#include <ckineto/facts.h>
#include <ckineto/files.h>
#include <ckineto/findings.h>
#include <ckineto/overview.h>
#include <ckineto/flops.h>
#include <ckineto/host.h>
#include <ckineto/profile_run.h>
#include <ckineto/record.h>
#include <ckineto/schedule.h>
#include <ckineto/session.h>
#include <ckineto/stubs.h>
#include <ckineto/summary.h>
#include <ckineto/trace.h>

#endif
