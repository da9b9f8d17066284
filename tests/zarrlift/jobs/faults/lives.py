"""Let jobs live at random, and say what came of it.

    python tests/zarrlift/jobs/faults/lives.py --lives 300 --kills 1000 [--seed N] [--only TEXT]
    python tests/zarrlift/jobs/faults/lives.py --replay "N 17" [--shrink]
    python tests/zarrlift/jobs/faults/lives.py --life "copy; 0 migrate ~1; 0 grow ~2; 0 update ~3 @change 40"

A life is a sequence of what users do to a source and to its result, and of commands, each of which may be
killed before one of its system calls (`system_calls.c`). Job files, results and whole folders are copied,
moved, and put back as they were. After every command each visible array must have the values of one version
of its source (`visible_arrays.py`), and nothing of others may be lost; at the end everything is undone
(`site.py`). The seed is printed, and each failure as the commands that led to it, with the text that
`--life` repeats. With `--shrink`, steps are left out as long as it still fails. The exit code is 1 if
anything was wrong.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[4]))

from tests.zarrlift.jobs.faults.driving import drive
from tests.zarrlift.jobs.faults.life import Life
from tests.zarrlift.jobs.faults.life_steps import drawn

if __name__ == "__main__":
    sys.exit(
        drive(
            __doc__,
            lives=300,
            drawn=drawn,
            played=lambda stage, variant, steps: Life(stage, variant, steps).run(),
        )
    )
