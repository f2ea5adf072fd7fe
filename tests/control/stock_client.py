"""A process as upstream's library makes one that can be traced: it asks Dynolog's socket, and writes a
file when it has been handed a request. A program of its own, since the number of the process counts.

usage: stock_client.py '{"interval": 0.1, …}'    JSON lines on stdout say what it does
  interval  seconds between two questions (5)
  busy      N seconds it takes nothing: a profile of its own
  tick, slack, warmup, length   as upstream's: 1, 2, 5, what the request says; seconds
  nothing   it takes the request and does nothing
  elsewhere it writes where upstream writes what it may not write where it was asked to
  die       it ends in its window
  empty     its first N traces have no activities, as while it loads its libraries
"""

import errno
import json
import os
import socket
import sys
import time
import uuid

import dynolog

HEAD_BYTES = 40
ACTIVITIES = 2


def say(**what):
    print(json.dumps(what), flush=True)


def address(directory, name):
    return f"{directory}/{name}" if directory else f"\0{name}\0"


def ancestors():
    pids, pid = [], os.getpid()
    while pid > 1 and len(pids) < 11:
        pids.append(pid)
        with open(f"/proc/{pid}/stat") as f:
            pid = int(f.read().rpartition(")")[2].split()[1])
    return pids


class Client:
    def __init__(self, options):
        self.options = options
        self.directory = os.environ.get("KINETO_IPC_SOCKET_DIR", "")
        self.job = int(os.environ.get("SLURM_JOB_ID", "0"))
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.setblocking(False)
        self.socket.bind(address(self.directory, f"dynoconfigclient{uuid.uuid4()}"))
        self.pids = ancestors()
        self.born = time.monotonic()
        self.trace = None

    def busy(self):
        if self.options.get("busy", 0) > time.monotonic() - self.born:
            return True
        return self.trace is not None and time.time() >= self.trace["warm"]

    def question(self):
        return dynolog.ask(self.pids, 0 if self.busy() else ACTIVITIES, self.job)

    def send(self):
        """Eleven tries, of which the last one counts as failed even if it went well."""
        question = self.question()
        for k in range(11):
            try:
                self.socket.sendto(question, address(self.directory, "dynolog"))
                if k < 10:
                    return True
            except OSError as e:
                if e.errno not in (errno.EAGAIN, errno.ECONNREFUSED):
                    return False
            if k < 10:
                time.sleep(0.01 * 2 ** k)
        return False

    def receive(self):
        for _ in range(9):
            try:
                data = self.socket.recv(1 << 20)
                return data[HEAD_BYTES:].decode()
            except BlockingIOError:
                time.sleep(0.01)
        return ""

    def take(self, text):
        config, wrong = {}, False
        for line in text.splitlines():
            pair = line.partition("#")[0].strip().split("=")
            if len(pair) == 2:
                config[pair[0].strip()] = pair[1].strip()
            elif pair != [""]:
                wrong = True
        say(config=config, text=text, at=time.time(), wrong=wrong)
        if wrong or self.trace or self.options.get("nothing"):
            return
        warmup = float(config.get("ACTIVITIES_WARMUP_PERIOD_SECS", self.options.get("warmup", 5)))
        start = int(config.get("PROFILE_START_TIME", "0")) / 1e3
        if not start:
            start = time.time() + warmup + self.options.get("slack", 2)
        elif start - time.time() < warmup:
            say(refused="insufficient time for warmup")
            return
        length = self.options.get("length", int(config.get("ACTIVITIES_DURATION_MSECS", "500")) / 1e3)
        self.trace = {"config": config, "start": start, "warm": start - warmup, "end": start + length}

    def path(self, wanted):
        if self.options.get("elsewhere"):
            return f"/tmp/libkineto_activities_{os.getpid()}.json"
        for mark in (".pt.trace.json", ".json"):
            before, found, after = wanted.partition(mark)
            if found:
                return f"{before}_{os.getpid()}{found}{after}"
        return wanted

    def events(self):
        if self.options.get("empty", 0) > 0:
            self.options["empty"] -= 1
            return [{"ph": "i", "s": "g", "name": "Record Window End", "pid": "", "tid": "",
                     "ts": self.trace["end"] * 1e6}]
        return [{"ph": "X", "cat": "cpu_op", "name": "work", "pid": os.getpid(), "tid": 1,
                 "ts": self.trace["start"] * 1e6, "dur": 10}]

    def go_on(self):
        if self.trace is None or time.time() < self.trace["end"]:
            return
        if self.options.get("die"):
            sys.exit(3)
        path = self.path(self.trace["config"]["ACTIVITIES_LOG_FILE"])
        with open(path + ".tmp", "w") as f:
            json.dump({"traceEvents": self.events(), "start": self.trace["start"]}, f)
        os.rename(path + ".tmp", path)
        say(written=path, at=time.time())
        self.trace = None

    def run(self):
        interval = self.options.get("interval", 5)
        say(ready=os.getpid())
        while True:
            began = time.monotonic()
            if self.send():
                text = self.receive()
                if text:
                    self.take(text)
            while time.monotonic() < began + interval:
                self.go_on()
                time.sleep(min(0.01, interval / 4))


if __name__ == "__main__":
    Client(json.loads(sys.argv[1]) if len(sys.argv) > 1 else {}).run()
