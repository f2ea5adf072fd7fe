"""What tests of time do on a machine that has other things to do, too.

Paced: windows that are tens of milliseconds long hold nothing of a program that did not get a processor
meanwhile. A test that failed is played again with all its times six, and then thirty-six times as long; what is
wrong fails at any pace. Times that are to grow are written self.ms(40) or self.s(0.4).

waited_s: how long the first thread of a process has waited for a processor. Time that passed, less this, is
time that it took."""

import unittest

PACES = (1, 6, 36)


def waited_s(pid):
    try:
        with open(f"/proc/{pid}/schedstat", encoding="ascii") as file:
            return int(file.read().split()[1]) / 1e9
    except (OSError, IndexError):
        return 0.0


class Paced(unittest.TestCase):
    pace = 1

    def ms(self, number):
        return int(number * self.pace)

    def s(self, number):
        return number * self.pace

    def run(self, result=None):
        result = result or self.defaultTestResult()
        for self.pace in PACES:
            trial = unittest.TestResult()
            super().run(trial)
            if trial.wasSuccessful():
                break
            print(f"{self.id()} failed with its times {self.pace} fold:",
                  (trial.failures + trial.errors)[0][1].splitlines()[-1], flush=True)
        result.startTest(self)
        result.failures += trial.failures
        result.errors += trial.errors
        for _, reason in trial.skipped:
            result.addSkip(self, reason)
        if trial.wasSuccessful() and not trial.skipped:
            result.addSuccess(self)
        result.stopTest(self)
        return result
