"""`ckineto mcp` with a small client of our own: the protocol, tools, pages of answers, and input that is no message."""

import base64
import json
import math
import os
import random
import shutil
import struct
import subprocess
import unittest
import xml.etree.ElementTree
import zlib

from command import COMMAND, CommandTest, main

try:
    import jsonschema
except ImportError:
    jsonschema = None

HERE = os.path.dirname(os.path.abspath(__file__))
DOCS = os.path.join(HERE, "..", "..", "docs")
TRAINING = os.path.join(HERE, "..", "data", "torch-2.5.1", "training.json.gz")
HANDSHAKES = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
MODERN = "2026-07-28"
META = "io.modelcontextprotocol/"
LIMIT = 4096


class Client:
    """Sends lines and reads answers."""

    def __init__(self, *options):
        self.process = subprocess.Popen([COMMAND, "mcp", *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE)
        self.number = 0

    def send(self, line):
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def raw(self, line):
        """The answer to a line that gets one."""
        self.send(line if isinstance(line, bytes) else line.encode())
        return json.loads(self.process.stdout.readline())

    def request(self, method, params=None, **more):
        self.number += 1
        message = {"jsonrpc": "2.0", "id": self.number, "method": method, **more}
        if params is not None:
            message["params"] = params
        answer = self.raw(json.dumps(message))
        assert answer["jsonrpc"] == "2.0" and answer["id"] == self.number, answer
        return answer

    def call(self, tool, **arguments):
        return self.request("tools/call", {"name": tool, "arguments": arguments})["result"]

    def close(self):
        """The exit status and the standard error, after the end of the input."""
        out, err = self.process.communicate(timeout=100)
        assert out == b"", out
        return self.process.returncode, err


class Mcp(CommandTest):
    def setUp(self):
        super().setUp()
        self.clients = []

    def client(self, *options):
        self.clients.append(Client(*options))
        return self.clients[-1]

    def tearDown(self):
        for client in self.clients:
            if client.process.returncode is None:
                self.assertEqual(client.close(), (0, b""))
        super().tearDown()

    def answer(self, client, tool, **arguments):
        """The object of an answer, which is small and as its schema says."""
        result = client.call(tool, **arguments)
        text = result["content"][0]["text"]
        self.assertFalse(result["isError"], text)
        self.assertLessEqual(len(text.encode()), LIMIT)
        value = json.loads(text)
        self.assertEqual(next(iter(value)), "schema")
        if jsonschema:
            with open(os.path.join(DOCS, value["schema"][8:-2] + ".schema.json"), encoding="utf-8") as file:
                jsonschema.Draft202012Validator(json.load(file)).validate(value)
        return value

    def mistake(self, client, tool, **arguments):
        result = client.call(tool, **arguments)
        self.assertTrue(result["isError"], result)
        self.assertEqual(len(result["content"]), 1)
        return result["content"][0]["text"]

    def pages(self, client, tool, key, **arguments):
        """All items, part by part."""
        items, offset = [], 0
        while True:
            part = self.answer(client, tool, offset=offset, **arguments)
            self.assertTrue(part[key] or not offset)
            items += part[key]
            if "more" not in part:
                return items
            self.assertEqual(part["more"]["offset"], len(items))
            offset = part["more"]["offset"]


class Protocol(Mcp):
    def test_the_version_of_the_client_is_spoken_if_it_is_known(self):
        for wanted, spoken in [(v, v) for v in HANDSHAKES] + [("1999-01-01", HANDSHAKES[0]), (MODERN, HANDSHAKES[0])]:
            client = self.client()
            result = client.request("initialize", {"protocolVersion": wanted, "capabilities": {},
                                                   "clientInfo": {"name": "test", "version": "1"}})["result"]
            self.assertEqual(result["protocolVersion"], spoken)
            self.assertEqual(result["serverInfo"]["name"], "ckineto")
            self.assertIn("tools", result["capabilities"])
            client.send(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
            self.assertEqual(client.request("ping")["result"], {})

    def test_requests_may_carry_the_version_instead(self):
        client = self.client()
        meta = {META + "protocolVersion": MODERN, META + "clientCapabilities": {}}
        found = client.request("server/discover", {"_meta": meta})["result"]
        self.assertEqual(found["supportedVersions"][0], MODERN)
        for result in (found, client.request("tools/list", {"_meta": meta})["result"]):
            self.assertEqual((result["resultType"], result["cacheScope"]), ("complete", "private"))
            self.assertEqual(result["_meta"][META + "serverInfo"]["name"], "ckineto")
        error = client.request("tools/list", {"_meta": {**meta, META + "protocolVersion": "2031-01-01"}})["error"]
        self.assertEqual((error["code"], error["data"]["requested"]), (-32022, "2031-01-01"))
        self.assertIn(MODERN, error["data"]["supported"])
        for bad in ({META + "protocolVersion": MODERN}, {META + "protocolVersion": 7, META + "clientCapabilities": {}}):
            self.assertEqual(client.request("tools/list", {"_meta": bad})["error"]["code"], -32602)
        self.assertEqual(client.request("server/discover")["error"]["code"], -32602)

    def test_messages_that_are_none_get_the_errors_of_json_rpc(self):
        client = self.client()
        for line, code in ((b"nonsense", -32700), (b'{"jsonrpc":"2.0","id":1', -32700), (b"\xff\xfe", -32700),
                           (b'"text"', -32600), (b"1", -32600), (b"null", -32600), (b"[]", -32600), (b"{}", -32600),
                           (b'{"jsonrpc":"1.0","id":1,"method":"ping"}', -32600),
                           (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600),
                           (b'{"jsonrpc":"2.0","id":{},"method":"ping"}', -32600),
                           (b'{"jsonrpc":"2.0","id":1,"method":5}', -32600),
                           (b'{"jsonrpc":"2.0","id":1,"method":"no/such"}', -32601),
                           (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}', -32602),
                           (b'{"jsonrpc":"2.0","id":1,"method":"initialize"}', -32602),
                           (b'{"jsonrpc":"2.0","id":1,"method":"tools/call"}', -32602),
                           (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"none"}}', -32602),
                           (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"open","arguments":[]}}', -32602),
                           (b"[" * 200000 + b"]" * 200000, -32700), (b'{"a":' * 200 + b"1" + b"}" * 200, -32700),
                           (b" " * (5 << 20), -32700), (b'"' + b"a" * (3 << 20) + b'"', -32600)):
            answer = client.raw(line)
            self.assertEqual(answer["error"]["code"], code, line[:80])
            self.assertIn("id", answer)

    def test_what_asks_nothing_gets_no_answer(self):
        client = self.client()
        for line in (b"", b"  \t\r", b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}',
                     b'{"jsonrpc":"2.0","method":"no/such"}', b'{"jsonrpc":"2.0","id":9,"result":{}}',
                     b'{"jsonrpc":"2.0","id":9,"error":{"code":1,"message":"x"}}',
                     b'[{"jsonrpc":"2.0","method":"notifications/initialized"}]'):
            client.send(line)
        self.assertEqual(client.raw('{"jsonrpc":"2.0","id":"a \\u00e9 id","method":"ping"}'),
                         {"jsonrpc": "2.0", "id": "a é id", "result": {}})

    def test_a_batch_is_answered_as_one(self):
        answers = self.client().raw('[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"x"},7,'
                                    '{"jsonrpc":"2.0","id":2,"method":"ping"}]')
        self.assertEqual([a.get("id") for a in answers], [1, None, 2])

    def test_a_last_line_without_an_end_is_answered(self):
        done = self.run_command("mcp", data=b'{"jsonrpc":"2.0","id":1,"method":"ping"}')
        self.assertEqual((done.returncode, json.loads(done.out)["result"]), (0, {}))

    def test_no_input_ends_the_server(self):
        """Random bytes and requests with random changes; the seed is fixed, so that a failure comes again."""
        chance = random.Random(20260728)
        client = self.client()
        good = [json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
            "name": name, "arguments": {"path": TRAINING, "offset": 3, "limit": 5, "text_limit": 7, "sql": "select 1",
                                        "time": "10%:20%", "before": TRAINING}}}).encode()
                for name in ("open", "findings", "analyze", "query", "diff", "timeline_picture")]
        lines = []
        for _ in range(300):
            lines.append(bytes(chance.randrange(256) for _ in range(chance.randrange(60))).replace(b"\n", b""))
            line = bytearray(chance.choice(good))
            for _ in range(chance.randrange(4)):
                at = chance.randrange(len(line))
                line[at:at + chance.randrange(3)] = bytes([chance.randrange(11, 256)])
            lines.append(bytes(line))
        process = client.process
        out, err = process.communicate(b"\n".join(lines) + b'\n{"jsonrpc":"2.0","id":"last","method":"ping"}\n', timeout=200)
        self.assertEqual((process.returncode, err), (0, b""))
        self.assertEqual([json.loads(line) for line in out.splitlines()][-1]["id"], "last")


class Tools(Mcp):
    def test_every_tool_is_described_and_its_schema_is_valid(self):
        tools = self.client().request("tools/list")["result"]["tools"]
        self.assertEqual([t["name"] for t in tools],
                         ["open", "findings", "analyze", "query", "diff", "timeline_picture"])
        for tool in tools:
            schema = tool["inputSchema"]
            self.assertTrue(tool["description"] and tool["title"] and tool["annotations"]["readOnlyHint"])
            self.assertTrue(set(schema["required"]) <= set(schema["properties"]))
            if jsonschema:
                jsonschema.Draft202012Validator.check_schema(schema)

    def test_open_is_the_brief_overview(self):
        brief = self.run_command("analyze", "--brief", TRAINING).out
        self.assertEqual(self.answer(self.client(), "open", path=TRAINING), json.loads(brief))

    def test_pages_together_are_what_the_command_writes(self):
        client = self.client()
        found = json.loads(self.run_command("analyze", "--findings", "--json", "-", TRAINING).out)["findings"]
        for limit in (1, 2, 1000):
            pages = self.pages(client, "findings", "findings", path=TRAINING, limit=limit)
            self.assertEqual([f["id"] for f in pages], [f["id"] for f in found])
        tables = json.loads(self.run_command("analyze", "--series", "--json", "-", TRAINING).out)["tables"]
        listed = {t["table"]: t.get("rows") for t in self.pages(client, "analyze", "tables", path=TRAINING)}
        for name, table in tables.items():
            self.assertIn(listed[name], (len(table["rows"]), None))
        for name in ("operators", "kernels", "critical_path_edges"):
            for text_limit, limit in ((3000, 1000), (10, 7)):
                rows = self.pages(client, "analyze", "rows", path=TRAINING, table=name, text_limit=text_limit, limit=limit)
                whole = tables[name]["rows"]
                self.assertEqual(len(rows), len(whole))
                for row, expected in zip(rows, whole):
                    self.assertEqual(len(row), len(expected))
                    for cell, value in zip(row, expected):
                        if isinstance(value, (int, float)):
                            self.assertTrue(math.isclose(cell, value, rel_tol=1e-5), (name, cell, value))
                        elif value is None or text_limit == 3000:
                            self.assertEqual(cell, value)

    def test_facts_in_place_of_traces(self):
        """The same answers, and what facts cannot answer is an error that names what to do."""
        client = self.client()
        for option, name in ((["--all"], "all.facts"), ([], "some.facts")):
            self.run_command("facts", *option, TRAINING, "-o", name)
        everything, some = self.path("all.facts"), self.path("some.facts")
        of_trace, of_facts = (json.dumps(self.answer(client, "open", path=p)) for p in (TRAINING, everything))
        self.assertEqual(of_trace.replace(TRAINING, everything), of_facts)
        for tool, key, more in (("findings", "findings", {}), ("analyze", "rows", {"table": "kernels"}),
                                ("analyze", "rows", {"table": "idle_named"})):
            self.assertEqual(self.pages(client, tool, key, path=TRAINING, **more),
                             self.pages(client, tool, key, path=everything, **more))
        listed = {t["table"]: t["rows"] for t in self.pages(client, "analyze", "tables", path=some)}
        self.assertIn("steps", listed)
        self.assertNotIn("kernels", listed)
        self.assertIn("--findings", self.answer(client, "findings", path=some)["note"])
        self.assertNotIn("note", self.answer(client, "findings", path=everything))
        self.assertIn("facts --all", self.mistake(client, "analyze", path=some, table="kernels"))
        self.assertIn("facts --all", self.mistake(client, "open", path=some))
        for tool, more in (("query", {"sql": "SELECT 1"}), ("timeline_picture", {})):
            self.assertIn("needs the traces", self.mistake(client, tool, path=everything, **more))
        self.assertEqual([t["table"] for t in self.pages(client, "diff", "tables", before=some, after=everything)], ["diff_ranks"])
        self.assertIn("only be compared with facts", self.mistake(client, "diff", before=some, after=TRAINING))
        os.utime(os.path.join(some, os.listdir(some)[0]), (1, 1))
        self.assertIn("note", self.answer(client, "findings", path=some))

    def test_queries_are_pages_of_rows(self):
        client = self.client()
        sql = "SELECT row, name, dur_ns FROM activities ORDER BY row LIMIT 150"
        whole = json.loads(self.run_command("query", "--json", TRAINING, sql).out)
        for limit in (40, 1000):
            self.assertEqual(self.pages(client, "query", "rows", path=TRAINING, sql=sql, limit=limit, text_limit=3000),
                             whole["rows"])
        tables = [t["table"] for t in self.pages(client, "query", "tables", path=TRAINING)]
        self.assertIn("activities", tables)
        long = self.answer(client, "query", path=TRAINING, text_limit=3000,
                           sql="SELECT printf('%.20000c', 'x'), printf('%.3000c', 'y'), x'ff00'")
        self.assertTrue(long["rows"][0][0].startswith("xxx") and long["rows"][0][2] == "ff00")
        for bad, words in (("SELECT nme FROM activities", "activities has row"), ("SELECT * FROM activitys", "tables are"),
                           ("DELETE FROM activities", "modified"), ("SELECT 1; SELECT 2", "one statement"),
                           ("ATTACH 'x.db' AS x", ""), ("-- nothing", "empty"), ("PRAGMA writable_schema = 1", "")):
            self.assertIn(words, self.mistake(client, "query", path=TRAINING, sql=bad))

    def test_two_traces_are_compared(self):
        client = self.client()
        tables = self.pages(client, "diff", "tables", before=TRAINING, after=TRAINING)
        self.assertIn("diff_summary", [t["table"] for t in tables])
        rows = self.pages(client, "diff", "rows", before=TRAINING, after=TRAINING, table="operators")
        self.assertEqual(rows, self.pages(client, "diff", "rows", before=TRAINING, after=TRAINING, table="diff_operators"))
        self.assertIn("unknown table", self.mistake(client, "diff", before=TRAINING, after=TRAINING, table="x"))

    def test_pictures_are_images_with_a_legend(self):
        client = self.client()
        for time in (None, "10%:20%", "+1us:"):
            result = client.call("timeline_picture", path=TRAINING, **({"time": time} if time else {}))
            legend = json.loads(result["content"][0]["text"])
            image = result["content"][1]
            data = base64.b64decode(image["data"])
            self.assertEqual((image["type"], image["mimeType"], data[:8]), ("image", "image/png", b"\x89PNG\r\n\x1a\n"))
            self.assertLess(len(data), 40000)
            width, height = struct.unpack(">II", data[16:24])
            at, pixels = 8, b""
            while at < len(data):
                size, = struct.unpack(">I", data[at:at + 4])
                self.assertEqual(struct.unpack(">I", data[at + 8 + size:at + 12 + size])[0],
                                 zlib.crc32(data[at + 4:at + 8 + size]))
                pixels += data[at + 8:at + 8 + size] if data[at + 4:at + 8] == b"IDAT" else b""
                at += 12 + size
            self.assertEqual(len(zlib.decompress(pixels)), height * (1 + (width + 1) // 2))
            self.assertTrue(legend["names"] and legend["lanes"])
        image = client.call("timeline_picture", path=TRAINING, format="svg")["content"][1]
        self.assertEqual(image["mimeType"], "image/svg+xml")
        xml.etree.ElementTree.fromstring(base64.b64decode(image["data"]))
        text = self.answer(client, "timeline_picture", path=TRAINING, format="text", lanes=2)
        self.assertEqual({len(row) for lane in text["lanes"] for row in lane["rows"]}, {72})
        self.assertLessEqual(len(text["lanes"]), 2)

    def test_mistakes_say_what_is_wrong(self):
        client = self.client()
        os.mkfifo(self.path("pipe"))
        with open(self.path("text.json"), "w", encoding="utf-8") as file:
            file.write("not a trace")
        for tool, arguments, words in (
                ("open", {}, "'path' is missing"), ("open", {"path": 7}, "must be a string"),
                ("open", {"path": ""}, "must not be empty"), ("open", {"path": "a\0b"}, "NUL"),
                ("open", {"path": "x" * 5000}, "longer"), ("open", {"path": TRAINING, "pth": 1}, "unknown argument 'pth'"),
                ("open", {"path": "/no/such/file"}, "/no/such/file"), ("open", {"path": "-"}, "'-'"),
                ("open", {"path": self.path("pipe")}, "neither a file nor a folder"),
                ("open", {"path": "/dev/zero"}, "neither a file nor a folder"),
                ("open", {"path": self.path("text.json")}, "text.json"), ("open", {"path": self.path("")}, ""),
                ("analyze", {"path": TRAINING, "table": "kernls"}, "did you mean 'kernels'"),
                ("analyze", {"path": TRAINING, "offset": -1}, "whole number"),
                ("analyze", {"path": TRAINING, "limit": 0}, "from 1 to 1000"),
                ("findings", {"path": TRAINING, "id": "no.rule"}, "unknown rule"),
                ("timeline_picture", {"path": TRAINING, "format": "gif"}, "png|svg|text"),
                ("timeline_picture", {"path": TRAINING, "time": "5"}, "A:B"),
                ("timeline_picture", {"path": TRAINING, "time": "+100s:+200s"}, "empty"),
                ("timeline_picture", {"path": TRAINING, "steps": "x"}, "N..M"),
                ("timeline_picture", {"path": TRAINING, "steps": "1", "time": ":"}, "not both")):
            self.assertIn(words, self.mistake(client, tool, **arguments), (tool, arguments))

    def test_only_slice_writes_and_only_new_files_of_the_folder(self):
        self.assertEqual(self.client().request("tools/call", {"name": "slice", "arguments": {}})["error"]["code"], -32602)
        folder = self.path("out")
        os.mkdir(folder)
        client = self.client("--output-dir", folder)
        self.assertEqual(client.request("tools/list")["result"]["tools"][-1]["name"], "slice")
        part = self.answer(client, "slice", path=TRAINING, name="part.json", top=5)
        self.assertEqual((part["path"], part["activities"]), (os.path.realpath(folder) + "/part.json", 5))
        self.assertEqual(json.loads(self.run_command("info", "--json", part["path"]).out)["activities"], 5)
        for name, words in (("part.json", "exists"), ("../x.json", "without '/'"), ("/tmp/x.json", "without '/'"),
                            (".x.json", "not beginning"), ("x.unknown", "x.unknown")):
            self.assertIn(words, self.mistake(client, "slice", path=TRAINING, name=name))
        self.assertIn("no activity", self.mistake(client, "slice", path=TRAINING, name="y.json", names="^nothing$"))
        for bad in ({"time": "x"}, {"steps": "x"}, {"kinds": "x"}, {"names": "("}, {"min_duration": "x"}):
            self.assertTrue(self.mistake(client, "slice", path=TRAINING, name="z.json", **bad))
        self.assertEqual(os.listdir(folder), ["part.json"])
        self.assertEqual(self.run_command("mcp", "--output-dir", self.path("none")).returncode, 2)

    def test_a_trace_that_changes_is_read_again(self):
        client = self.client()
        path = self.path("t.json")
        event = {"ph": "X", "name": "a", "cat": "cpu_op", "pid": 1, "tid": 1, "ts": 1, "dur": 5}
        for count in (1, 2, 3):
            with open(path + ".new", "w", encoding="utf-8") as file:
                json.dump({"traceEvents": [{**event, "ts": 10 * i} for i in range(count)]}, file)
            os.rename(path + ".new", path)
            rows = self.answer(client, "query", path=path, sql="SELECT count(*) FROM activities")["rows"]
            self.assertEqual(rows, [[count]])

    def test_answers_stay_small_whatever_the_names_are(self):
        """Control characters take six bytes each in JSON, and bytes that are not UTF-8 three."""
        client = self.client()
        path = self.path("names.json")
        events = []
        for step in range(4):
            events.append({"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{step}", "pid": 1, "tid": 1,
                           "ts": 1000 * step, "dur": 1000})
            for i, name in enumerate(("\x01" * 3000, "é" * 3000, '"\\' * 2000, "\ud800" * 500, "")):
                events.append({"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": 1, "ts": 1000 * step + 100 * i,
                               "dur": 90, "args": {"Input Dims": [[1] * 500]}})
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"traceEvents": events}, file)
        self.answer(client, "open", path=path)
        for text_limit in (0, 120, 3000):
            more = {"path": path, "text_limit": text_limit}
            self.pages(client, "findings", "findings", evidence=20, **more)
            self.assertEqual(len(self.pages(client, "query", "rows", sql="SELECT name, name, name FROM activities", **more)),
                             len(events))
            for table in ("operators", "steps", "critical_path_edges"):
                self.pages(client, "analyze", "rows", table=table, **more)
        for image in ("png", "svg", "text"):
            self.answer(client, "timeline_picture", path=path, format=image)
        self.pages(client, "diff", "tables", before=path, after=path)

    def test_more_traces_than_stay_open_and_a_limit_of_memory(self):
        for options in ((), ("--mem", "256M")):
            client = self.client(*options)
            for number in list(range(6)) + [0, 5, 3]:
                path = self.path(f"{number}.json.gz")
                if not os.path.exists(path):
                    shutil.copy(TRAINING, path)
                self.answer(client, "open", path=path)
            self.answer(client, "diff", before=self.path("1.json.gz"), after=self.path("2.json.gz"))


if __name__ == "__main__":
    main()
