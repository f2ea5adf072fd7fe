"""The Python SDK of the Model Context Protocol talks to `ckineto mcp`, in both kinds of the protocol.

test_mcp_client.py CKINETO FOLDER TRACE: FOLDER is the virtual environment of fetch_mcp.sh; without it this is
skipped."""

import json
import os
import subprocess
import sys

LIMIT = 4096


async def use(mode, command, trace, folder):
    """Every tool once, as a client of the SDK: it checks each answer against the types of the protocol."""
    from mcp import StdioServerParameters
    from mcp.client import Client
    from mcp.client.stdio import stdio_client

    server = StdioServerParameters(command=command, args=["mcp", "--output-dir", folder])
    async with Client(stdio_client(server), mode=mode) as client:
        assert client.server_info.name == "ckineto", client.server_info
        assert "findings" in client.instructions
        tools = (await client.list_tools()).tools
        names = [tool.name for tool in tools]
        assert names == ["open", "findings", "analyze", "query", "diff", "timeline_picture", "slice"], names
        calls = [("open", {}), ("findings", {"evidence": 2}), ("analyze", {"table": "operators", "limit": 3}),
                 ("analyze", {}), ("query", {"sql": "SELECT count(*) FROM activities"}), ("query", {}),
                 ("timeline_picture", {"time": "0%:50%"}), ("timeline_picture", {"format": "text"}),
                 ("slice", {"name": f"{mode}.json", "top": 3})]
        calls = [(name, {"path": trace, **more}) for name, more in calls]
        calls.append(("diff", {"before": trace, "after": trace}))
        for name, arguments in calls:
            result = await client.call_tool(name, arguments)
            assert not result.is_error, (name, result.content[0].text)
            text = result.content[0].text
            assert len(text.encode()) <= LIMIT and json.loads(text)["schema"].startswith("ckineto."), text
            if name == "timeline_picture" and "format" not in arguments:
                assert (result.content[1].type, result.content[1].mime_type) == ("image", "image/png")
        wrong = await client.call_tool("open", {"path": "/no/such/trace"})
        assert wrong.is_error and "/no/such/trace" in wrong.content[0].text, wrong
        print(f"{client.protocol_version}: {len(calls)} calls of {len(tools)} tools")


def main():
    command, folder, trace = sys.argv[1:4]
    python = os.path.join(folder, "bin", "python")
    if len(sys.argv) == 4:
        if not os.path.exists(python):
            print("the SDK is not there (make test-peers fetches it): skipped")
            return 77
        return subprocess.run([python, "-B", __file__, command, folder, trace, "inside"], timeout=120).returncode
    import anyio
    import tempfile
    with tempfile.TemporaryDirectory() as out:
        for mode in ("legacy", "auto"):
            anyio.run(use, mode, command, trace, out)
    return 0


sys.exit(main())
