"""`ckineto view`: what its server answers and refuses, whom it waits for, and that nothing of it is left."""

import gzip
import json
import os
import random
import re
import resource
import signal
import socket
import time
import unittest

from command import CommandTest, main, until

PERFETTO = "https://ui.perfetto.dev"
EVENTS = [{"ph": "X", "cat": "cpu_op", "name": f"op{n}", "pid": 1, "tid": 1, "ts": 10 * n, "dur": 5} for n in range(50)]


def is_free(port):
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            s.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


class Answer:
    def __init__(self, data):
        head, _, self.body = data.partition(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        self.status = int(lines[0].split()[1]) if lines[0].startswith("HTTP/1.1 ") else None
        self.headers = {}
        for line in lines[1:]:
            name, _, value = line.partition(": ")
            assert name.lower() not in self.headers, line
            self.headers[name.lower()] = value


class View(CommandTest):
    """A trace, a place for temporary files of its own, and a server that is stopped."""

    def setUp(self):
        super().setUp()
        self.trace = self.put("trace.json", EVENTS)
        self.temporary = self.path("tmp")
        os.mkdir(self.temporary)
        self.environment = {**os.environ, "TMPDIR": self.temporary}
        self.servers = []

    def tearDown(self):
        for server in self.servers:
            if server.poll() is None:
                server.kill()
            server.communicate()
        super().tearDown()

    def put(self, name, events):
        with open(self.path(name), "w", encoding="utf-8") as file:
            json.dump({"traceEvents": events}, file)
        return self.path(name)

    def view(self, *arguments, **how):
        server = self.start("view", *arguments, env=self.environment, **how)
        self.servers.append(server)
        return server

    def serve(self, *arguments, trace=None, **how):
        """Sets where it is served."""
        self.server = self.view(trace or self.trace, *arguments, **how)
        self.url = self.server.stdout.readline().decode().strip()
        found = re.search(r"http://127\.0\.0\.1:(\d+)(/[0-9a-f]{32}/)", self.url)
        self.assertTrue(found, (self.url, self.server.poll()))
        self.port, self.path_served = int(found[1]), found[2]
        self.host = f"127.0.0.1:{self.port}"
        return self.server

    def connect(self):
        s = socket.create_connection(("127.0.0.1", self.port), timeout=60)
        self.addCleanup(s.close)
        return s

    def send(self, data):
        """What comes back until the server closes."""
        s = self.connect()
        s.sendall(data)
        return self.read(s)

    def read(self, s):
        data = b""
        while True:
            some = s.recv(65536)
            if not some:
                return Answer(data)
            data += some

    def ask(self, path=None, method="GET", host=None, **headers):
        lines = [f"{method} {self.path_served if path is None else path} HTTP/1.1"]
        if host != "":
            lines.append(f"Host: {host or self.host}")
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        return self.send("\r\n".join(lines + ["", ""]).encode())

    def stop(self, how=signal.SIGINT):
        self.server.send_signal(how)
        self.assertEqual(self.server.wait(60), 0)
        self.assertEqual(os.listdir(self.temporary), [])


class Documents(View):
    def test_the_report_and_the_trace_are_served(self):
        self.serve()
        page = self.ask()
        self.assertEqual(page.status, 200)
        self.assertEqual(page.headers["content-type"], "text/html; charset=utf-8")
        self.assertEqual(int(page.headers["content-length"]), len(page.body))
        done = self.run_command("report", self.trace, "-o", "-")
        self.assertEqual(page.body, done.out)
        trace = self.ask(self.path_served + "trace.json.gz")
        self.assertEqual(trace.status, 200)
        events = json.loads(gzip.decompress(trace.body))["traceEvents"]
        self.assertEqual(len([e for e in events if e["ph"] == "X"]), len(EVENTS))
        self.stop()

    def test_head_has_the_same_headers_and_no_body(self):
        self.serve()
        get, head = self.ask(), self.ask(method="HEAD")
        self.assertEqual((head.status, head.headers, head.body), (get.status, get.headers, b""))

    def test_pages_of_others_may_read_nothing(self):
        self.serve()
        for answer in (self.ask(Origin="https://evil.example"), self.ask(Origin=PERFETTO)):
            self.assertFalse([h for h in answer.headers if h.startswith("access-control")])
        for answer in (self.ask(), self.ask("/")):
            self.assertEqual(answer.headers["x-content-type-options"], "nosniff")
            self.assertEqual(answer.headers["cache-control"], "no-store")
            self.assertEqual(answer.headers["referrer-policy"], "no-referrer")
            self.assertEqual(answer.headers["connection"], "close")

    def test_a_query_after_the_path_is_accepted(self):
        self.serve()
        self.assertEqual(self.ask(self.path_served + "?a=b").status, 200)

    def test_a_client_without_the_token_gets_nothing(self):
        self.serve()
        token = self.path_served.strip("/")
        last = "0" if token[-1] != "0" else "1"
        for path in ("/", "/trace.json.gz", f"/{token}", f"/{token[:-1]}{last}/", f"/{token[:-1]}/", f"//{token}/",
                     f"/{token}//", f"/{token}/..", f"/{token}/../{token}/", f"/{token}/report.html",
                     f"/{token}/../../etc/passwd", f"/{token}/%2e%2e/", f"/{token.upper()}x/", "/etc/passwd",
                     "/" + "a" * 7000):
            self.assertEqual(self.ask(path).status, 404, path)

    def test_each_server_has_a_token_of_its_own(self):
        self.serve()
        first = self.path_served
        self.serve()
        self.assertNotEqual(first, self.path_served)

    def test_a_request_that_names_another_host_is_refused(self):
        self.serve()
        for host in ("evil.example", f"evil.example:{self.port}", "127.0.0.1", f"127.0.0.1:{self.port + 1}",
                     f"127.0.0.1:{self.port}.evil.example", f"127.0.0.1:{self.port} evil.example",
                     f"[::1]:{self.port}", f"0.0.0.0:{self.port}", ""):
            self.assertEqual(self.ask(host=host).status, 403, host)
        self.assertEqual(self.ask(host=f"localhost:{self.port}").status, 200)

    def test_only_this_machine_is_listened_to(self):
        self.serve()
        with open("/proc/net/tcp", encoding="ascii") as file:
            bound = [line.split()[1] for line in file if line.split()[1].endswith(f":{self.port:04X}")]
        self.assertIn(f"0100007F:{self.port:04X}", bound)
        self.assertNotIn(f"00000000:{self.port:04X}", bound)


class Nonsense(View):
    def test_what_is_not_a_request_is_refused(self):
        self.serve()
        host = f"Host: {self.host}\r\n"
        path = self.path_served
        for request, status in (
                ("\r\n\r\n", 400), ("GET\r\n\r\n", 400), (f"GET {path}\r\n{host}\r\n", 400),
                (f"GET {path} HTTP/2.0\r\n{host}\r\n", 400), (f"GET {path} HTTP/1.1 x\r\n{host}\r\n", 400),
                (f"GET {path}  HTTP/1.1\r\n{host}\r\n", 400), (f"GET  {path} HTTP/1.1\r\n{host}\r\n", 400),
                (f" GET {path} HTTP/1.1\r\n{host}\r\n", 400), (f"GET http://{self.host}{path} HTTP/1.1\r\n{host}\r\n", 400),
                (f"GET * HTTP/1.1\r\n{host}\r\n", 400), (f"CONNECT {self.host} HTTP/1.1\r\n{host}\r\n", 400),
                (f"get {path} HTTP/1.1\r\n{host}\r\n", 405), (f"POST {path} HTTP/1.1\r\n{host}Content-Length: 3\r\n\r\nabc", 405),
                (f"PUT {path} HTTP/1.1\r\n{host}\r\n", 405), (f"DELETE {path} HTTP/1.1\r\n{host}\r\n", 405),
                (f"GETGET {path} HTTP/1.1\r\n{host}\r\n", 405), (f"GET {path} HTTP/1.0\r\n{host}\r\n", 200)):
            self.assertEqual(self.send(request.encode()).status, status, request)
        self.assertEqual(self.ask(method="POST").headers["allow"], "GET, HEAD, OPTIONS")
        self.stop()

    def test_two_hosts_are_none(self):
        self.serve()
        for other in ("evil.example", self.host):
            request = f"GET {self.path_served} HTTP/1.1\r\nHost: {self.host}\r\nHost: {other}\r\n\r\n"
            self.assertEqual(self.send(request.encode()).status, 403)

    def test_a_host_that_is_not_a_header_does_not_count(self):
        self.serve()
        for lines in (f"X: y\r\n\r\nHost: {self.host}\r\n\r\n", f"XHost: {self.host}\r\n\r\n",
                      f"Host : {self.host}\r\n\r\n", f"X: Host: {self.host}\r\n\r\n"):
            self.assertEqual(self.send(f"GET {self.path_served} HTTP/1.1\r\n{lines}".encode()).status, 403, lines)

    def test_a_second_request_after_the_first_is_not_answered(self):
        self.serve()
        one = f"GET / HTTP/1.1\r\nHost: {self.host}\r\nContent-Length: 400\r\nTransfer-Encoding: chunked\r\n\r\n"
        two = f"GET {self.path_served} HTTP/1.1\r\nHost: {self.host}\r\n\r\n"
        answer = self.send((one + two).encode())
        self.assertEqual((answer.status, answer.body), (404, b""))

    def test_long_heads_and_zero_bytes_are_refused(self):
        self.serve()
        self.assertEqual(self.ask(X="y" * 20000).status, 431)
        self.assertEqual(self.send(b"\x00" * 100).status, 431)
        self.assertEqual(self.send(b"GET /\x00 HTTP/1.1\r\nHost: x\r\n\r\n").status, 431)
        self.assertEqual(self.send(b"A" * 30000).status, 431)
        self.assertEqual(self.ask().status, 200)

    def test_any_bytes_at_all_do_no_harm(self):
        self.serve()
        some = random.Random(8)
        for _ in range(200):
            s = self.connect()
            s.sendall(some.randbytes(some.randrange(1, 300)) + some.choice([b"", b"\r\n\r\n"]))
            s.close()
        self.assertEqual(self.ask().status, 200)
        self.stop()


class Clients(View):
    def test_silent_clients_block_no_other(self):
        self.serve()
        silent = [self.connect() for _ in range(100)]
        for _ in range(3):
            self.assertEqual(self.ask().status, 200)
        for s in silent:
            s.close()
        self.stop()

    def test_a_request_may_come_in_pieces(self):
        self.serve()
        s = self.connect()
        for byte in f"GET {self.path_served} HTTP/1.1\r\nHost: {self.host}\r\n\r\n".encode():
            s.sendall(bytes([byte]))
        self.assertEqual(self.read(s).status, 200)

    def test_a_client_that_reads_slowly_gets_all_of_it(self):
        self.serve()
        wanted = self.ask().body
        s = self.connect()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        s.sendall(f"GET {self.path_served} HTTP/1.1\r\nHost: {self.host}\r\n\r\n".encode())
        data = b""
        while some := s.recv(3000):
            data += some
            time.sleep(0.001)
        self.assertEqual(Answer(data).body, wanted)

    def test_a_client_that_leaves_in_the_middle_does_not_end_it(self):
        self.trace = self.put("large.json", [{**e, "name": os.urandom(200).hex()} for e in EVENTS * 100])
        self.serve()
        for _ in range(20):
            s = self.connect()
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            s.sendall(f"GET {self.path_served} HTTP/1.1\r\nHost: {self.host}\r\n\r\n".encode())
            s.recv(1)
            s.close()
        self.assertEqual(self.ask(method="HEAD").status, 200)
        self.stop()

    def test_many_at_once_are_all_answered(self):
        self.serve()
        request = f"GET {self.path_served} HTTP/1.1\r\nHost: {self.host}\r\n\r\n".encode()
        for _ in range(5):
            several = [self.connect() for _ in range(15)]
            for s in several:
                s.sendall(request)
            sizes = {len(self.read(s).body) for s in several}
            self.assertEqual(len(sizes), 1)
            self.assertGreater(sizes.pop(), 1000)

    def test_an_idle_server_uses_no_processor(self):
        self.serve()
        s = self.connect()  # half closed, and one that was answered but does not close
        s.sendall(f"GET / HTTP/1.1\r\nHost: {self.host}\r\n\r\n".encode())
        self.assertEqual(self.read(s).status, 404)
        self.connect()

        def used():
            with open(f"/proc/{self.server.pid}/stat", encoding="ascii") as file:
                return sum(map(int, file.read().rpartition(")")[2].split()[11:13]))
        before = used()
        time.sleep(1)
        self.assertLessEqual(used() - before, 20)

    def test_a_file_that_vanished_is_not_found(self):
        self.serve()
        directory, = os.listdir(self.temporary)
        os.unlink(os.path.join(self.temporary, directory, "report.html"))
        self.assertEqual(self.ask().status, 404)
        self.assertEqual(self.ask(self.path_served + "trace.json.gz").status, 200)
        self.stop()


class Ending(View):
    def test_each_signal_ends_it_and_nothing_is_left(self):
        for how in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            self.serve()
            self.assertEqual(len(os.listdir(self.temporary)), 1)
            self.stop(how)

    def test_what_is_served_is_for_its_user_only(self):
        self.serve()
        directory, = os.listdir(self.temporary)
        self.assertEqual(os.stat(os.path.join(self.temporary, directory)).st_mode & 0o777, 0o700)

    def test_stopping_it_while_the_page_is_made_leaves_nothing(self):
        self.trace = self.put("large.json", EVENTS * 4000)
        for wait in (lambda: os.listdir(self.temporary),
                     lambda: any(files for _, _, files in os.walk(self.temporary))):
            for how in (signal.SIGINT, signal.SIGTERM):
                server = self.view(self.trace)
                self.assertTrue(until(wait))
                server.send_signal(how)
                self.assertIn(server.wait(60), (0, 128 + how))
                self.assertEqual(os.listdir(self.temporary), [])

    def test_a_trace_comes_through_a_pipe(self):
        read, write = os.pipe()
        with open(self.trace, "rb") as file:
            os.write(write, file.read())
        os.close(write)
        self.serve(trace="-", stdin=read)
        os.close(read)
        events = json.loads(gzip.decompress(self.ask(self.path_served + "trace.json.gz").body))["traceEvents"]
        self.assertEqual(len([e for e in events if e["ph"] == "X"]), len(EVENTS))
        self.assertEqual(self.ask().status, 200)
        self.stop()

    def test_a_trace_that_cannot_be_read_is_an_error_and_leaves_nothing(self):
        with open(self.path("bad.json"), "w", encoding="utf-8") as file:
            file.write("no trace")
        for path in (self.path("bad.json"), self.path("absent.json")):
            server = self.view(path)
            self.assertEqual(server.wait(60), 2)
            self.assertIn(os.path.basename(path).encode(), server.stderr.read())
            self.assertEqual(os.listdir(self.temporary), [])

    def test_a_disk_that_fills_up_is_an_error_and_leaves_nothing(self):
        server = self.start("view", self.trace, env=self.environment,
                            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (50000, 50000)))
        self.servers.append(server)
        self.assertEqual(server.wait(60), 1)
        self.assertIn(b"report.html", server.stderr.read())
        self.assertEqual(os.listdir(self.temporary), [])

    def test_nowhere_to_put_files_is_an_error(self):
        self.environment["TMPDIR"] = self.path("absent")
        server = self.view(self.trace)
        self.assertEqual(server.wait(60), 1)
        self.assertIn(b"cannot make a directory", server.stderr.read())

    def test_a_closed_standard_output_ends_it(self):
        reader, writer = os.pipe()
        os.close(reader)
        server = self.start("view", self.trace, env=self.environment, stdout=writer)
        self.servers.append(server)
        os.close(writer)
        self.assertEqual(server.wait(60), 1)
        self.assertEqual(os.listdir(self.temporary), [])


class Ports(View):
    def test_a_port_can_be_chosen(self):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        self.serve("--port", str(port))
        self.assertEqual(self.port, port)
        self.stop()

    def test_a_port_that_is_taken_is_named(self):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            s.listen()
            port = s.getsockname()[1]
            server = self.view(self.trace, "--port", str(port))
            self.assertEqual(server.wait(60), 1)
            said = server.stderr.read().decode()
        self.assertIn(f"port {port} of 127.0.0.1 is in use", said)
        self.assertIn("--port", said)
        self.assertEqual(os.listdir(self.temporary), [])

    def test_wrong_usage_is_said(self):
        for arguments in ((), (self.trace, "--port", "65536"), (self.trace, "--perfetto", "--port", "9002")):
            self.assertEqual(self.view(*arguments).wait(60), 2)


@unittest.skipUnless(is_free(9001), "port 9001 is taken: skipped")
class Perfetto(View):
    def test_only_the_perfetto_ui_may_fetch_the_trace(self):
        self.serve("--perfetto")
        self.assertTrue(self.url.startswith(f"{PERFETTO}/#!/?url=http://127.0.0.1:9001/"), self.url)
        path = self.path_served + "trace.json.gz"
        self.assertTrue(self.url.endswith(path))
        answer = self.ask(path, Origin=PERFETTO)
        self.assertEqual(answer.status, 200)
        self.assertEqual(answer.headers["access-control-allow-origin"], PERFETTO)
        events = json.loads(gzip.decompress(answer.body))["traceEvents"]
        self.assertEqual(len([e for e in events if e["ph"] == "X"]), len(EVENTS))
        self.assertEqual(self.ask(path, Origin="https://evil.example").headers["access-control-allow-origin"], PERFETTO)
        self.assertEqual(self.ask().status, 404, "there is no report then")
        self.stop()

    def test_a_browser_may_ask_before(self):
        self.serve("--perfetto")
        path = self.path_served + "trace.json.gz"
        answer = self.ask(path, method="OPTIONS", Origin=PERFETTO, Access_Control_Request_Method="GET",
                          Access_Control_Request_Private_Network="true")
        self.assertEqual((answer.status, answer.body), (200, b""))
        self.assertEqual(answer.headers["access-control-allow-origin"], PERFETTO)
        self.assertEqual(answer.headers["access-control-allow-private-network"], "true")
        self.assertIn("GET", answer.headers["access-control-allow-methods"])
        self.assertEqual(answer.headers["vary"], "Origin")
        self.assertEqual(self.ask("/x", method="OPTIONS").status, 404)
        self.stop()

    def test_its_port_taken_is_said(self):
        with socket.socket() as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            s.bind(("127.0.0.1", 9001))
            s.listen()
            server = self.view(self.trace, "--perfetto")
            self.assertEqual(server.wait(60), 1)
            self.assertIn(b"the Perfetto UI fetches from no other", server.stderr.read())


if __name__ == "__main__":
    main()
