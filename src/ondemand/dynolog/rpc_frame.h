/* What the two files of the RPC's asking end share: one frame each way (rpc_client.c), and what is
 * in them (rpc_calls.c). */
#ifndef KO_RPC_FRAME_H
#define KO_RPC_FRAME_H

#include "ondemand/dynolog/rpc_client.h"

#define KO_RPC_MOST_BYTES (1u << 20) /* more a daemon does not take */

/** @param answer  receives JSON, with a NUL behind it, to be freed. */
kineto_status ko_rpc_exchange(const ko_rpc_daemon *d, kineto_string question, char **answer,
                              size_t *bytes, kineto_error *err);
#endif
