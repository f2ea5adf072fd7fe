"""`python -m ckineto` is the command `ckineto`."""
import sys

from ._command import main

sys.exit(main())
