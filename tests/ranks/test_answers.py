"""What ckineto says of generated jobs of many ranks: who is blamed, what it would save, what is damaged.

test_answers.py, with CKINETO in the environment
"""
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "helpers"))
import slow_tests  # noqa: E402

if not os.environ.get("CKINETO"):
    print("run by ctest, which says where the command is: skipped")
    sys.exit(77)
try:
    import numpy  # noqa: F401
except ImportError:
    print("numpy is missing (python3-numpy): skipped")
    sys.exit(77)


class Answers(unittest.TestCase):
    def ask(self, kind, count, ranks, seed):
        """The summary of the suite. Everything is seeded: the same every time."""
        with tempfile.TemporaryDirectory(prefix="ckineto-ranks-") as folder:
            done = subprocess.run([sys.executable, "-B", os.path.join(HERE, "suite.py"), folder, "--kind", kind, "--count",
                                   str(count), "--ranks", str(ranks), "--seed", str(seed), "--command",
                                   f"{sys.executable} -B {os.path.join(HERE, 'answer.py')} {{traces}} {{answer}}"],
                                  capture_output=True, text=True, timeout=900, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def test_who_is_slow(self):
        said = self.ask("plants", 8, 16, 5000)
        plants, right, wrong = map(int, re.search(r"(\d+) plants: (\d+) right, \d+ as another kind, (\d+) wrong", said).groups())
        self.assertGreaterEqual(right, plants - 1, said)
        self.assertEqual(wrong, 0, said)
        self.assertRegex(said, "false alarms 0;", said)

    def test_nobody_is_blamed_where_nothing_is_wrong(self):
        self.assertRegex(self.ask("healthy", 8, 16, 6000), "false alarms 0; on healthy sets 0 of 8")

    def test_what_is_damaged(self):
        said = self.ask("damage", 8, 16, 3)
        named, all_ = map(int, re.search(r"damage named (\d+) of (\d+)", said).groups())
        self.assertGreaterEqual(named, 0.9 * all_, said)

    def make(self, folder, *options):
        run = os.path.join(folder, "run")
        subprocess.run([sys.executable, "-B", os.path.join(HERE, "generate.py"), run, "--set", "ranks_per_host=4", "--seed", "1",
                        *options], check=True, capture_output=True)
        return run

    def say(self, *arguments, status=0):
        done = subprocess.run([os.environ["CKINETO"], *arguments], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, status, (arguments, done.stdout + done.stderr))
        return " ".join(done.stdout.split())

    def test_a_fault_is_a_finding_although_a_rank_is_damaged(self):
        plant = "device:rank=11,phase=forward,factor=1.5"
        for damage in "missing:rank=7", "other_run:rank=3", "wrong_op:rank=10":
            for plants in [], ["--plant", plant]:
                with self.subTest(damage=damage, plants=plants), tempfile.TemporaryDirectory(prefix="ckineto-ranks-") as folder:
                    run = self.make(folder, "--program", "ddp", "--set", "ranks=16", "--damage", damage, *plants)
                    said = self.say("analyze", run, status=3 if "other" in damage else 0)
                    named = re.findall(r"Straggler: rank 11 \(host \w+, GPU 3\) computes longer than the ranks of its role", said)
                    self.assertEqual(len(named), len(plants) // 2)
                    self.assertEqual(said.count("Straggler"), len(plants) // 2)
                    self.assertEqual("Collectives differ" in said, "wrong" in damage)

    def find(self, run):
        """Findings in their order, and the first screen."""
        self.say("analyze", "--findings", "--json", run + ".findings.json", run)
        with open(run + ".findings.json", encoding="utf-8") as file:
            return json.load(file)["findings"], self.say("analyze", run)

    def lasts(self, folder, name, *options):
        """Length of a run in us, its folder, and steps."""
        run = os.path.join(folder, name)
        subprocess.run([sys.executable, "-B", os.path.join(HERE, "generate.py"), run, *options], check=True, capture_output=True)
        with open(run + ".truth.json", encoding="utf-8") as file:
            truth = json.load(file)
        return truth["makespan_ns"] / 1000, run

    def test_a_finding_of_all_ranks_saves_what_the_run_gains(self):
        """The data loader: with a slow host alone the run waits for it, with a slow device elsewhere it does not."""
        for number, (program, device) in enumerate(((p, d) for p in ("ddp", "hsdp") for d in (False, True))):
            sizes = ["--program", program, "--set", "ranks=16", "--seed", str(8100 + number)]
            slow = ["--plant", "device:rank=3,factor=1.3"] if device else []
            with self.subTest(program=program, device=device), tempfile.TemporaryDirectory(prefix="ckineto-ranks-") as folder:
                now, run = self.lasts(folder, "now", *sizes, *slow, "--plant", "host:rank=12,ns=500000")
                gone, _ = self.lasts(folder, "gone", *sizes, *slow, "--set", "loader_us=1")
                found = [f for f in self.find(run)[0] if f["id"] == "input.data_loader"][0]
                self.assertEqual((found["rank"], found["ranks"]), (12, 16))
                self.assertLess(found["worth_us"], 1.1 * (now - gone) / 4)
                self.assertGreater(found["worth_us"], 0.7 * (now - gone) / 4)

    def test_a_cause_comes_before_what_it_explains(self):
        for plant, words, later in (
                ("host:rank=5,ns=300000", "rank 5 (host node000, GPU 5) is late on the host", "input.data_loader"),
                ("step:rank=4,step=3,cause=gc,ns=3000000", "rank 4 (host node000, GPU 4) is slow in step 13", "step.outliers")):
            with self.subTest(plant), tempfile.TemporaryDirectory(prefix="ckineto-ranks-") as folder:
                _, run = self.lasts(folder, "run", "--program", "ddp", "--set", "ranks=16", "--set", "steps=8", "--seed", "8200",
                                    "--plant", plant)
                found, screen = self.find(run)
                ids = [f["id"] for f in found]
                self.assertLess(ids.index("communication.imbalance"), ids.index(later))
                for one in "communication.imbalance", later:
                    self.assertIs(found[ids.index(one)]["additive"], False)
                self.assertIn("Straggler: " + words, screen)
                self.assertIn("savings overlap", screen)

    def test_a_cause_has_one_percentage(self):
        with tempfile.TemporaryDirectory(prefix="ckineto-ranks-") as folder:
            _, run = self.lasts(folder, "run", "--program", "tpep", "--seed", "8300", "--plant", "link:group=ep:1,factor=3")
            found, screen = self.find(run)
            link = [f for f in found if f["id"] == "communication.slow_link"][0]
            self.assertIn(f" {link['worth_pct']:.1f} % Slow link", screen)
            self.assertRegex(self.say("analyze", "--only", "rank_causes", run), rf" {link['worth_pct']:.1f} % ")

    def test_what_makes_a_run_hang_is_said_first(self):
        for damage, sentence in (("wrong_op:rank=10", "rank 10 calls another collective than its group: group 0, number"),
                                 ("wrong_size:rank=10", "rank 10 calls a collective with another size than its group: group 0, number"),
                                 ("hole:rank=10", "rank 10 lacks a collective that its group calls: group 0, number"),
                                 ("duplicate:rank=10", "rank 10 has a number of its group twice: group 0, number"),
                                 ("seq_shift:rank=10", "rank 10 numbers its collectives differently than its group: group 0, number")):
            with self.subTest(damage), tempfile.TemporaryDirectory(prefix="ckineto-ranks-") as folder:
                run = self.make(folder, "--program", "ddp", "--set", "ranks=16", "--damage", damage)
                self.assertTrue(self.say("analyze", run).startswith("16 ranks. Collectives differ: " + sentence))
                self.assertIn("Collectives differ: " + sentence, self.say("report", "--text", run))
                self.assertIn("warning ranks.collectives: " + sentence, self.say("verify", run, status=1))
                ranks = json.loads(self.say("verify", "--json", run, status=1))["ranks"]
                self.assertEqual([rank["id"] for rank in ranks], ["ranks.collectives"])
                self.say("facts", run, "-o", folder + "/facts")
                self.say("reduce", folder + "/facts", "-o", folder + "/run.ckrun")
                self.assertIn(sentence, self.say("verify", folder + "/facts", status=1))
                self.assertIn(sentence, self.say("verify", folder + "/run.ckrun", status=1))

    def test_clocks_that_cannot_be_aligned_do_not_read_as_healthy(self):
        with tempfile.TemporaryDirectory(prefix="ckineto-ranks-") as folder:
            run = self.make(folder, "--program", "ddp", "--set", "ranks=32", "--damage", "clock_step:host=3,ns=5000000")
            sentence = "anks were not compared: clocks cannot be aligned: the clock of host node003"
            self.assertTrue(self.say("analyze", run).startswith("32 ranks. R" + sentence))
            self.assertIn(sentence, self.say("report", "--text", run)[:200])
            self.assertIn("warning ranks.clocks: r" + sentence, self.say("verify", run, status=1))
            table = json.loads(self.say("analyze", "--only", "rank_clocks", "--json", run))["tables"]["rank_clocks"]
            self.assertEqual({tuple(row[2:]) for row in table["rows"]}, {(None, None, None)})

    def test_links_that_cannot_be_evaluated_are_named(self):
        """No group has these links, or all groups have them; in the table, in the headline, and by facts."""
        for sizes, plant, named in ((["fsdp", "--set", "ranks=16"], "nic:host=3,factor=2", "mesh_dp_shard"),
                                    (["hsdp", "--set", "ranks=16"], "link:hosts=1+2,factor=3", "mesh_dp_replicate"),
                                    (["fsdp", "--set", "ranks=16", "--set", "shard=4"], "nic:host=1", "mesh_dp_replicate"),
                                    (["ddp", "--old", "--set", "ranks=16"], "nic:host=1", r"a group without a name \(ranks 0-15\)")):
            with self.subTest(sizes), tempfile.TemporaryDirectory(prefix="ckineto-ranks-") as folder:
                run = self.make(folder, "--program", *sizes, "--plant", plant)
                rows, note = self.causes_of(run)
                self.assertEqual(rows, [])
                said = (rf"no rank makes the run longer by more than noise; links of {named} cannot be evaluated from this run alone: "
                        r"their transfers take [0-9.]+ [um]s a step; compare with a good run: 'ckineto diff GOOD THIS'")
                self.assertRegex(note, f"^{said}$")
                self.assertRegex(self.say("analyze", run), said.replace("no rank", "No rank"))
                self.say("facts", run, "-o", folder + "/facts")
                self.assertRegex(self.say("reduce", folder + "/facts", "-o", folder + "/run.ckrun"), said)

    def test_a_slow_link_that_nothing_shows_is_not_denied(self):
        """Of each program, links and network cards: a run without a cause says that no link is slow only if its links can be compared."""
        for program in ("ddp", "fsdp", "hsdp", "ep", "tpep", "tpd", "decode") if slow_tests.WANTED else ("fsdp", "tpd"):
            for plant in "nic:host=1,factor=3", "link:hosts=0+1,factor=3":
                with self.subTest((program, plant)), tempfile.TemporaryDirectory(prefix="ckineto-ranks-") as folder:
                    run = self.make(folder, "--program", program, "--plant", plant)
                    with open(run + ".truth.json", encoding="utf-8") as file:
                        truth = json.load(file)["plants"][0]
                    rows, note = self.causes_of(run)
                    if truth["of_step_percent"] >= 1 and not truth["comparable"] and not rows:
                        self.assertIn("cannot be evaluated from this run alone", note)

    def test_old_traces_name_no_groups_so_that_none_is_slow(self):
        """PyTorch before 2.2 writes neither groups nor sizes. Three seeds here, each program; more were run by hand."""
        programs = "ddp", "fsdp", "hsdp", "ep", "tpep", "tpd", "pp1f1b", "decode"
        seeds = (51, 71) if slow_tests.WANTED else (51,)
        for program, seed in [(program, seed) for program in programs for seed in seeds] + [("ddp", 72)]:
            sizes = ["--set", "ranks=16" if seed == 51 else "ranks=8"] if program in ("ddp", "fsdp", "hsdp") else []
            with self.subTest((program, seed)), tempfile.TemporaryDirectory(prefix="ckineto-ranks-") as folder:
                run = self.make(folder, "--old", "--program", program, "--seed", str(seed), *sizes)
                rows, note = self.causes_of(run)
                self.assertEqual(rows, [], note)
                found = json.loads(self.say("analyze", "--findings", "--json", run))["findings"]
                ours = [f for f in found if f["id"] in ("communication.slow_link", "communication.imbalance")]
                self.assertEqual(ours, [])

    def test_no_name_is_blank(self):
        """Groups and hosts that traces do not name; a clock that is refused, too."""
        for damage in [], ["--damage", "clock_step:host=1,ns=5000000"], ["--damage", "wrong_op:rank=5"]:
            with self.subTest(damage), tempfile.TemporaryDirectory(prefix="ckineto-ranks-") as folder:
                run = self.make(folder, "--old", "--program", "ddp", "--set", "ranks=8", *damage)
                self.say("facts", run, "-o", folder + "/facts")
                said = [self.causes_of(run)[1], self.say("analyze", run), self.say("analyze", "--only", "rank_clocks,rank_damage", run)]
                said.append(self.say("reduce", folder + "/facts", "-o", folder + "/run.ckrun"))
                for text in said:
                    self.assertNotRegex(text, r"(host|group|links of)  |(host|group|links of) (gains|cannot|was|\(|,|\.)")

    def test_what_slow_transfers_have_in_common_is_named(self):
        """The link between two hosts, the network card of one, or all pairs of a process group."""
        pipeline = ["--program", "tpd", "--set", "tp=2", "--set", "pp=4", "--set", "dp=2", "--set", "ranks_per_host=4"]
        for plant, place in (("link:hosts=1+2,factor=4", ("", "node001, node002")), ("nic:host=1,factor=3", ("", "node001")),
                             ("link:group=pp:1,factor=4", (None, "")), (None, None)):
            with self.subTest(plant), tempfile.TemporaryDirectory(prefix="ckineto-ranks-") as folder:
                run = self.make(folder, *pipeline, *(["--plant", plant] if plant else []))
                rows, note = self.causes_of(run)
                self.assertEqual([row["kind"] for row in rows], ["link"] if plant else [], note)
                for row in rows:
                    group, host = place
                    self.assertEqual(row["host"], host)
                    self.assertEqual(row["group"] == "", group == "", row)
                    self.assertIn("Slow link", self.say("analyze", "--findings", run))

    def test_a_link_that_may_be_any_of_several_is_not_named(self):
        """All groups of four hosts are slow: it may be any link of them."""
        with tempfile.TemporaryDirectory(prefix="ckineto-ranks-") as folder:
            run = self.make(folder, "--program", "tpd", "--set", "tp=4", "--set", "pp=2", "--set", "dp=4", "--plant", "link:hosts=0+3,factor=3.4")
            rows, note = self.causes_of(run)
            self.assertEqual([(row["kind"], row["host"]) for row in rows], [("link", "")], note)
            self.assertIn("others of its hosts", note)

    def test_delays_that_come_once_are_of_their_steps(self):
        steps = ["--plant", "step:rank=5,step=1,cause=loader,ns=4000000", "--plant", "step:rank=5,step=3,cause=gc,ns=6000000"]
        often = ["--plant", "host:rank=5,ns=3000000"]
        for plants, kinds in (steps, [("step", 11), ("step", 13)]), (often, [("host", None)]), (often + steps[2:], [("host", None), ("step", 13)]):
            with self.subTest(plants), tempfile.TemporaryDirectory(prefix="ckineto-ranks-") as folder:
                rows, _ = self.causes_of(self.make(folder, "--program", "fsdp", "--set", "ranks=8", *plants))
                self.assertEqual(sorted((row["kind"], row["step"]) for row in rows), sorted(kinds, key=str))
                self.assertEqual({row["rank"] for row in rows}, {5})

    def test_damage_does_not_hide_what_a_fault_costs(self):
        for damage in [], ["seq_shift:rank=3"], ["seq_shift:rank=3", "duplicate:rank=5"], ["wrong_op:rank=10"], ["missing:rank=4"]:
            with self.subTest(damage), tempfile.TemporaryDirectory(prefix="ckineto-ranks-") as folder:
                run = self.make(folder, "--program", "hsdp", "--set", "ranks=16", "--plant", "device:rank=6,factor=1.3",
                                *[word for kind in damage for word in ("--damage", kind)])
                rows, note = self.causes_of(run)
                with open(run + ".truth.json", encoding="utf-8") as file:
                    gain = json.load(file)["plants"][0]["gain_ns"]
                self.assertEqual([(row["kind"], row["rank"]) for row in rows[:1]], [("device", 6)], note)
                self.assertAlmostEqual(rows[0]["saved_us"] * 1000, gain, delta=0.15 * gain)

    def test_a_rank_of_another_run_does_not_refuse_clocks(self):
        with tempfile.TemporaryDirectory(prefix="ckineto-ranks-") as folder:
            run = self.make(folder, "--program", "decode", "--set", "ranks=16", "--damage", "other_run:rank=2", "--damage", "corrupt:rank=12")
            self.assertNotIn("cannot be aligned", self.say("analyze", run, status=3))

    def test_few_numbers_out_of_order_are_refused(self):
        with tempfile.TemporaryDirectory(prefix="ckineto-ranks-") as folder:
            run = self.make(folder, "--program", "tpd", "--set", "tp=2", "--set", "pp=2", "--set", "dp=2", "--damage",
                            "seq_shuffle:rank=2,group=dp:0")
            self.assertIn("out of order", self.say("analyze", run))

    def test_percents_are_of_the_steps_whatever_clocks_differ_by(self):
        with tempfile.TemporaryDirectory(prefix="ckineto-ranks-") as folder:
            run = self.make(folder, "--program", "ddp", "--set", "ranks=16", "--clock", "offset_ms=2000", "--plant",
                            "device:rank=11,phase=forward,factor=1.5")
            rows, _ = self.causes_of(run)
            found = json.loads(self.say("analyze", "--findings", "--json", run))["findings"]
            percent = [f["worth_pct"] for f in found if f["id"] == "communication.imbalance"]
            self.assertEqual([(row["kind"], row["rank"]) for row in rows], [("device", 11)])
            self.assertAlmostEqual(rows[0]["saved_pct"], percent[0], delta=0.03 * percent[0])

    def causes_of(self, path):
        done = subprocess.run([os.environ["CKINETO"], "analyze", "--only", "rank_causes", "--json", path], check=True,
                              capture_output=True, text=True)
        table = json.loads(done.stdout)["tables"]["rank_causes"]
        return [dict(zip(table["columns"], row)) for row in table["rows"]], table["note"]

    def test_a_job_without_a_device(self):
        """As PyTorch writes it with gloo: no groups and no numbers."""
        for rest, rank in (["--plant", "host:rank=3,ns=3000000"], 3), (["--plant", "device:rank=3,factor=1.3"], 3), ([], None):
            for program in "ddp", "tpd":
                sizes = ["--set", "ranks=8"] if program == "ddp" else ["--set", "tp=2", "--set", "pp=1", "--set", "dp=4"]
                with tempfile.TemporaryDirectory(prefix="ckineto-ranks-") as folder:
                    subprocess.run([sys.executable, "-B", os.path.join(HERE, "generate.py"), folder + "/run", "--gloo", "--program",
                                    program, *sizes, "--set", "ranks_per_host=8", *rest], check=True, capture_output=True)
                    rows, note = self.causes_of(folder + "/run")
                    subprocess.run([os.environ["CKINETO"], "facts", folder + "/run", "-o", folder + "/facts"], check=True,
                                   capture_output=True)
                    self.assertEqual(self.causes_of(folder + "/facts"), (rows, note), (program, rest))
                self.assertNotIn("does not explain", note, (program, rest))
                found = [(row["kind"], row["rank"]) for row in rows]
                self.assertEqual(found, [] if rank is None else [("host", rank)], (program, rest, note))


if __name__ == "__main__":
    unittest.main()
