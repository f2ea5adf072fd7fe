/* The list of tools. Its order is fixed, so that clients can cache it. */
#include "cli/mcp/mcp.h"

static const kc_mcp_tool *const tools[] = {&kc_mcp_open_tool,  &kc_mcp_findings_tool, &kc_mcp_analyze_tool,
                                           &kc_mcp_query_tool, &kc_mcp_diff_tool,     &kc_mcp_picture_tool,
                                           &kc_mcp_slice_tool};

/* Tools that write come last. */
const kc_mcp_tool *kc_mcp_tool_at(const kc_mcp_server *server, size_t index)
{
    return index < KB_COUNT(tools) && (server->output_dir || !tools[index]->writes) ? tools[index] : NULL;
}

const kc_mcp_tool *kc_mcp_find_tool(const kc_mcp_server *server, kineto_string name)
{
    for (size_t i = 0; kc_mcp_tool_at(server, i); i++)
        if (kb_string_equal(name, kb_string(tools[i]->name)))
            return tools[i];
    return NULL;
}
