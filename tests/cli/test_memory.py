"""A limit of memory: sizes, the same results, and what is said when there is nowhere to put things."""

import json
import os
import re
import unittest

from command import CommandTest, main


class Limits(CommandTest):
    def trace(self, count=20000):
        path = self.path("t.json")
        with open(path, "w", encoding="utf-8") as f:
            f.write('{"traceEvents":[\n')
            for n in range(count):
                f.write('{"ph":"X","cat":"cpu_op","name":"op %d","pid":1,"tid":%d,"ts":%d.5,"dur":3,'
                        '"args":{"External id":%d,"Input Dims":[[%d,3],[]]}},\n'
                        % (n % 99, n % 3, n ^ 7, n, n))
            f.write('{"ph":"M","name":"process_name","pid":1,"args":{"name":"python"}}]}\n')
        return path

    def out_of(self, *arguments):
        done = self.run_command(*arguments)
        self.assertEqual(done.returncode, 0, done.err.decode())
        return done.out.decode()

    def test_every_verb_gives_the_same(self):
        path = self.trace()
        for verb in (["info", "--json", path], ["verify", "--json", path],
                     ["analyze", "--all", "--json", path],
                     ["query", "--format", "csv", path,
                      "SELECT name, sum(dur_ns), max(self_ns) FROM activities GROUP BY name"]):
            limited = [verb[0], "--mem", "1M", *verb[1:]]
            a, b = self.run_command(*limited), self.run_command(*verb)
            self.assertEqual((a.returncode, a.out, a.err), (b.returncode, b.out, b.err), verb[0])
            self.assertNotEqual(a.out, b"", a.err)
        for verb in (["convert"], ["slice", "--name", "op 1"], ["scrub", "--salt", "sixteen letters."]):
            texts = []
            for more in ([], ["--mem", "1M"]):
                out = self.path("out.json")
                self.out_of(*verb, *more, path, "-o", out)
                with open(out, encoding="utf-8") as f:
                    texts.append(re.sub(r'"traceName": ?"[^"]*"', "", f.read()))
                os.unlink(out)
            self.assertEqual(texts[0], texts[1], verb[0])

    def test_sizes_are_understood_or_refused(self):
        path = self.trace(10)
        for size in ("1", "4096", "64K", "64k", "1M", "1MiB", "1MB", "2G", "1T"):
            self.out_of("info", "--mem", size, path)
        for size in ("", "M", "-1", "1Q", "1MM", "1.5G", "99999999999T", "0x10"):
            done = self.run_command("info", f"--mem={size}", path)
            self.assertEqual((done.returncode, done.out), (2, b""), size)
            self.assertIn(b"--mem", done.err)

    def test_a_directory_that_is_not_there_is_named(self):
        path = self.trace(10)
        done = self.run_command("info", "--mem", "1M", path, env={**os.environ, "TMPDIR": "/not/there"})
        self.assertEqual((done.returncode, done.out), (2, b""))
        self.assertIn(b"TMPDIR '/not/there'", done.err)

    def test_nothing_is_left_in_the_directory(self):
        path, place = self.trace(), self.path("place")
        os.mkdir(place)
        done = self.run_command("info", "--json", "--mem", "1M", path, env={**os.environ, "TMPDIR": place})
        self.assertEqual(json.loads(done.out)["activities"], 20000)
        self.assertEqual(os.listdir(place), [])


if __name__ == "__main__":
    main()
