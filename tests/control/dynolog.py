"""Dynolog's wire as its bytes were seen, for scripts that play either end. Nothing here is ours: it is what
our own code is held against."""

import json
import os
import socket
import struct
import tempfile
import time

NAME_BYTES = 32


def head(size, kind=b"req"):
    return struct.pack("=Q", size) + kind.ljust(NAME_BYTES, b"\0")


def message(payload, kind=b"req"):
    return head(len(payload), kind) + payload


def ask(pids, wants=2, job=0):
    return message(struct.pack(f"=iiq{len(pids)}i", wants, len(pids), job, *pids))


def context(pid, gpu=0, job=0):
    return message(struct.pack("=iiq", gpu, pid, job), b"ctxt")


class Endpoint:
    """A socket with a name: in a directory, or abstract with the NUL at its end that is part of it."""

    def __init__(self, directory, name="dynoconfigclient-test"):
        self.directory, self.name = directory, name
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.settimeout(60)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        if directory and os.path.exists(self.address(name)):
            os.unlink(self.address(name))
        self.socket.bind(self.address(name))
        if directory:
            os.chmod(self.address(name), 0o666)

    def address(self, name):
        return os.path.join(self.directory, name) if self.directory else f"\0{name}\0"

    def send(self, data, to="dynolog"):
        self.socket.sendto(data, self.address(to))

    def answer(self, data, to):
        self.socket.sendto(data, to)

    def receive(self, seconds=60):
        self.socket.settimeout(seconds)
        return self.socket.recvfrom(1 << 21)

    def text(self, seconds=60):
        """The configuration in an answer."""
        data, _ = self.receive(seconds)
        assert data == message(data[40:]), data
        return data[40:]

    def poll(self, pids, wants=2, job=0):
        self.send(ask(pids, wants, job))
        return self.text()

    def silent(self):
        self.socket.setblocking(False)
        try:
            self.socket.recv(1)
            return False
        except BlockingIOError:
            return True

    def close(self):
        self.socket.close()
        if self.directory:
            try:
                os.unlink(self.address(self.name))
            except FileNotFoundError:
                pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def frame(request):
    data = request if isinstance(request, bytes) else json.dumps(request).encode()
    return struct.pack("=i", len(data)) + data


def connect(port):
    return socket.create_connection(("127.0.0.1", port), 10)


def hear(connection):
    """The answer up to its end; None: closed without one."""
    data = b""
    try:
        while piece := connection.recv(65536):
            data += piece
    except ConnectionResetError:
        pass
    if not data:
        return None
    assert struct.unpack("=i", data[:4])[0] == len(data) - 4, data
    return json.loads(data[4:])


def rpc(port, request):
    with connect(port) as connection:
        connection.sendall(frame(request))
        return hear(connection)


def trigger(port, config, pids=(), job=0, limit=1000, **more):
    return rpc(port, {"fn": "setKinetOnDemandRequest", "config": config, "pids": list(pids), "job_id": job,
                      "process_limit": limit, **more})


def until(condition, seconds=30):
    """Wait for what must come; the limit is only against hanging."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.002)
    return False


def short_directory():
    """Paths of sockets have 107 bytes at most."""
    return tempfile.mkdtemp(prefix="ck-", dir="/tmp")
