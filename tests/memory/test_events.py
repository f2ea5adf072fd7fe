"""Every event, the totals and the peak are what the program and a library of the test counted for
themselves; a sample estimates what was."""

import collections
import json
import math
import os

from memory_test import HOOK, MARKER, TARGET, MemoryTest, main, program


class Events(MemoryTest):
    def count(self, mode, option):
        """Record the target with memory_count in front of the hook."""
        if os.path.exists(self.path("count")):
            os.unlink(self.path("count"))
        self.run_command("record", "-q", "-o", "t.json", option, "--", "env", f"MEMORY_COUNT={self.path('count')}",
                         f"LD_PRELOAD={program('memory_count.so')}:{HOOK}", TARGET, mode)

    def counted(self):
        """What memory_count saw: totals at markers, and the peak."""
        with open(self.path("count")) as f:
            words = [line.split() for line in f]
        return [int(n) for word, n in words if word == "marker"], max(int(n) for word, n in words if word == "peak")

    def markers(self, events):
        return [e["args"]["Total Allocated"] for e in events if e["args"]["Bytes"] >= MARKER]

    def test_every_call_of_every_thread_is_an_event(self):
        done = self.watch(TARGET, "log")
        wanted = collections.defaultdict(list)
        for line in done.out.decode().splitlines():
            tid, address, size = map(int, line.split())
            wanted[tid].append((address, size))
        self.assertEqual(len(wanted), 4)
        seen = collections.defaultdict(list)
        for e in self.events():
            seen[e["tid"]].append((e["args"]["Addr"], e["args"]["Bytes"]))
        for tid, calls in wanted.items():
            self.assertGreater(len(calls), 3000)
            self.assertEqual(seen[tid], calls)
        self.assert_nothing_inside()

    def test_events_look_like_those_of_PyTorch(self):
        self.watch(TARGET, "peak")
        for e in self.events():
            self.assertEqual((e["ph"], e["s"], e["cat"]), ("i", "t", "cpu_instant_event"))
            self.assertEqual(list(e["args"]), ["Device Type", "Device Id", "Addr", "Bytes", "Total Allocated",
                                               "Total Reserved"])
            self.assertEqual((e["args"]["Device Type"], e["args"]["Device Id"]), (0, -1))
        self.assertEqual(self.load()["ckineto_memory_sampling_bytes"], 1)

    def test_totals_and_peak_are_exact(self):
        self.count("peak", "--memory=1")
        events = self.events()
        totals, peak = self.counted()
        self.assertEqual(self.markers(events), totals)
        self.assertEqual(max(e["args"]["Total Allocated"] for e in events), peak)
        self.assert_nothing_inside()
        info = json.loads(self.run_command("info", "--json", "t.json").out)["memory"]
        self.assertEqual(info[-1]["peak_bytes"], peak)  # before it, env was the program
        self.assertEqual(sum(p["allocations"] + p["releases"] for p in info), len(events))

    def test_a_total_is_the_one_before_and_its_bytes(self):
        self.watch(TARGET, "corners", "-")
        events = [e["args"] for e in self.events()]
        first = next(i for i, e in enumerate(events) if e["Bytes"] == -e["Total Allocated"] or i == 0)
        differences = [(b["Total Allocated"] - a["Total Allocated"], b["Bytes"])
                       for a, b in zip(events[first:], events[first + 1:])]
        # Blocks from before the hook's start are released without an event of their own.
        odd = [d for d in differences if d[0] != d[1]]
        self.assertLessEqual(len(odd), 3, odd)

    def test_totals_of_a_sample_are_exact_too(self):
        for mode in ("peak", "exits"):
            with self.subTest(mode):
                self.count(mode, "--memory")
                totals, peak = self.counted()
                # Threads that are alive keep some to themselves; those that ended do not.
                exact = totals[-1:]
                self.assertEqual(self.markers(self.events())[-1:], exact)
                for ours, theirs in zip(self.markers(self.events()), totals):
                    self.assertLess(abs(ours - theirs), 5 * 65536)
                self.assertEqual(self.line("mean bytes between sampled allocations"), 524288)

    def test_a_sample_estimates_what_was(self):
        rate = 65536
        done = self.watch_same(TARGET, "estimate", rate="64K")
        truth = dict(tuple(map(int, line.split())) for line in done.out.decode().splitlines())
        seen = collections.Counter(e["args"]["Bytes"] for e in self.events() if e["args"]["Bytes"] > 0)
        all_count = all_bytes = count_variance = byte_variance = 0
        for size, count in truth.items():
            chance = 1 - math.exp(-size / rate)
            self.assertLess(abs(seen[size] / chance - count), 5 * math.sqrt(count * (1 - chance)) / math.sqrt(chance) + 2,
                            f"{count} blocks of {size}")
            all_count += count
            all_bytes += count * size
            count_variance += count * (1 - chance) / chance
            byte_variance += size * size * count * (1 - chance) / chance
        self.assertGreater(sum(seen.values()), 3000)
        info = json.loads(self.run_command("info", "--json", "t.json").out)
        self.assertEqual(info["memory_sampling_bytes"], rate)
        ours = info["memory"][0]
        self.assertLess(abs(ours["allocated_bytes_estimate"] - all_bytes), 5 * math.sqrt(byte_variance) + (1 << 20))
        self.assertLess(abs(ours["allocations_estimate"] - all_count), 5 * math.sqrt(count_variance) + 2000)
        # Every sampled block's release was seen.
        alive = collections.Counter()
        for e in self.events():
            alive[e["args"]["Addr"]] += 1 if e["args"]["Bytes"] > 0 else -1
        self.assertLessEqual(sum(alive.values()), 5)
        self.assertGreaterEqual(min(alive.values()), 0)
        self.assert_nothing_inside()

    def test_blocks_beyond_what_can_be_followed_are_counted(self):
        """The table cannot grow beyond its first 4096 blocks here: a library of the test refuses the memory."""
        self.watch_same(TARGET, "many", libraries=["memory_refuse.so"])
        lost = self.line("no room to follow more blocks")
        taken = [e for e in self.events() if 50 <= e["args"]["Bytes"] < 80]
        given = [e for e in self.events() if -80 < e["args"]["Bytes"] <= -50]
        self.assertEqual(len(taken) + lost, 10000)
        self.assertEqual(sorted(e["args"]["Addr"] for e in taken), sorted(e["args"]["Addr"] for e in given))
        self.assertGreater(len(taken), 4096 * 6 // 10)
        lines = [l for l in self.ledger() if l["reason"] == "no room to follow more blocks"]
        self.assertEqual([(l["loss"], l["count"]) for l in lines], [(True, lost)])
        # The totals count them all the same.
        self.assertGreater(max(e["args"]["Total Allocated"] for e in taken + given), 10000 * 50)


if __name__ == "__main__":
    main()
