"""Tests that take long are left out by default: `make test-full` sets CKINETO_SLOW_TESTS and runs all."""

import os
import unittest

WANTED = bool(os.environ.get("CKINETO_SLOW_TESTS"))
slow = unittest.skipUnless(WANTED, "slow: make test-full runs it")
