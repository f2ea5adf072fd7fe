/* ckineto mcp: a server of the Model Context Protocol on the standard streams, for programs that use language models.
 * It opens only traces whose paths the client names, and writes only below --output-dir. The server is in src/cli/mcp. */
#include "cli/mcp/mcp.h"
#include "cli/open_many.h"

#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *output_dir;
static const kc_option option_list[] = {
    {"output-dir", 0, KC_TEXT, &output_dir, "DIR",
     "allow the tool slice, and let it write new files in this folder;\nwithout it the server writes nothing"},
    KC_READING_OPTIONS,
};
static const kc_options options = {
    "mcp",
    "[options]",
    "Serve traces to programs that use language models, by the Model Context Protocol: JSON-RPC on\n"
    "the standard input and output. A client starts it, for example by this configuration:\n\n"
    "  {\"mcpServers\": {\"ckineto\": {\"command\": \"ckineto\", \"args\": [\"mcp\"]}}}\n\n"
    "Its tools are open, findings, analyze, query, diff, timeline_picture and slice. Each answer is\n"
    "JSON of at most 4 KB. Only traces that the client names are read.",
    "ckineto mcp --output-dir slices",
    option_list,
    KB_COUNT(option_list),
    false};

/* The folder as an absolute path, so that answers are clear. */
static kineto_status resolve_output_dir(char path[PATH_MAX])
{
    struct stat s;
    if (!realpath(output_dir, path) || stat(path, &s) != 0 || !S_ISDIR(s.st_mode))
        return kc_usage_error("mcp", "--output-dir: %s is not a folder", output_dir);
    if (access(path, W_OK) != 0)
        return kc_usage_error("mcp", "--output-dir: %s cannot be written", output_dir);
    return KINETO_OK;
}

int kc_mcp(int argc, char **argv)
{
    int operands;
    char path[PATH_MAX];
    kc_mcp_server server = {.output_dir = NULL};
    kineto_error err = {0};
    kineto_status status = kc_parse_options(&options, argc, argv, &operands);
    if (status == KINETO_E_NOT_FOUND)
        return kc_finish_stdout("mcp", 0);
    if (status == KINETO_OK && operands)
        status = kc_usage_error("mcp", "unexpected operand '%s': the client names the traces", argv[1]);
    if (status == KINETO_OK && output_dir)
        status = resolve_output_dir(path);
    if (status)
        return KC_EXIT_USAGE;
    server.output_dir = output_dir ? path : NULL;
    status = kc_mcp_serve(&server, &err);
    if (status)
        kc_complain_of("mcp", &err);
    kc_mcp_close_all(&server);
    kc_forget_bad_files();
    return status ? KC_EXIT_FAILURE : 0;
}
