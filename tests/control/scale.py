"""Many processes that ask one daemon: of the requests that it says it has given to a process, each arrives
there, once, and nothing else does. Requests come without a pause, so that many meet processes that have not
fetched the last one yet."""

import os
import re
import resource
import subprocess
import sys
import threading
import time
import unittest

from daemon import Daemon
from dynolog import trigger, until

CLIENT = os.environ.get("CKINETO_DYNO_CLIENT", "")
FULL = "--full" in sys.argv
PROCESSES, TRIGGERS = (200, 100) if FULL else (40, 5)
MOST_SECONDS = 300  # against hanging


class Crowd:
    """Client processes that write what they get into one pipe."""

    def __init__(self, daemon, processes):
        environment = dict(os.environ, KINETO_IPC_SOCKET_DIR=daemon.directory)
        environment.pop("SLURM_JOB_ID", None)
        self.process = subprocess.Popen([CLIENT, "--processes", str(processes), "--interval-ms", "50"],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
        self.got, self.ends = [], []
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            words = line.split()
            if words[0] == b"text":
                self.got.append((int(words[1]), int(re.search(rb"\| +N=(\d+)\|", line).group(1))))
            else:
                self.ends.append([int(w) for w in words[1:]])

    def end(self):
        self.process.stdin.close()
        self.reader.join()
        self.process.stdout.close()
        return self.process.wait()


class Scale(unittest.TestCase):
    def test_no_request_is_lost_and_none_comes_twice(self):
        if not CLIENT:
            self.skipTest("run by ctest, which says where the client is")
        daemon = Daemon()
        self.addCleanup(daemon.abandon)
        crowd = Crowd(daemon, PROCESSES)
        self.addCleanup(crowd.process.kill)
        listed = lambda: daemon.rpc({"fn": "listProcesses"})["processes"]
        self.assertTrue(until(lambda: len(listed()) == PROCESSES, MOST_SECONDS))
        given, each, busy, number, begin = [], {}, 0, 0, time.monotonic()
        while len(each) < PROCESSES or min(each.values()) < TRIGGERS:
            self.assertLess(time.monotonic() - begin, MOST_SECONDS)
            number += 1
            answer = trigger(daemon.port, f"N={number}")
            self.assertEqual(len(answer["processesMatched"]), PROCESSES)
            busy += answer["activityProfilersBusy"]
            for pid in answer["activityProfilersTriggered"]:
                given.append((pid, number))
                each[pid] = each.get(pid, 0) + 1
            time.sleep(0.005)
        self.assertTrue(until(lambda: not any(p["waits"] for p in listed()), MOST_SECONDS))
        took = time.monotonic() - begin
        self.assertTrue(until(lambda: len(crowd.got) >= len(given)))
        memory = daemon.memory_kib()
        self.assertEqual(crowd.end(), 0)
        status, said, left = daemon.end()
        self.assertEqual((status, said, left), (0, "", []))
        self.assertEqual(sorted(crowd.got), sorted(given))
        self.assertEqual(len(crowd.ends), PROCESSES)
        cpu = resource.getrusage(resource.RUSAGE_CHILDREN)
        print(f"{PROCESSES} processes, {number} requests in {took:.2f} s: {len(given)} texts given and received, "
              f"{busy} times busy; the longest call of a client took {max(e[1] for e in crowd.ends) / 1000:.2f} ms, "
              f"stopping {max(e[2] for e in crowd.ends) / 1000:.2f} ms; the daemon has {memory} KiB, all took "
              f"{cpu.ru_utime + cpu.ru_stime:.2f} s of a processor", flush=True)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
