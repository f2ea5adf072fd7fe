/* A trace with its critical path in it. */
#ifndef KA_CRITICAL_OVERLAY_H
#define KA_CRITICAL_OVERLAY_H

#include "analyze/critical.h"

kineto_status ka_path_overlay(const ka_path *p, kineto_trace **out, kineto_error *err);
#endif
