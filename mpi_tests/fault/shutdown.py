#!/usr/bin/env python3
"""Start and end of a job on three ranks, over and over: 30 times, or 1000 with LOCKSTEP_LONG=1. None may hang.

    shutdown.py [TIMES]      (LOCKSTEP_BIN)
"""
import pathlib
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "mpi"))
import harness  # noqa: E402

TIMES = int(sys.argv[1]) if len(sys.argv) > 1 else 1000 if harness.LONG else 30
LIMIT = 40


def main():
    folder, longest = harness.work_folder(), 0.0
    harness.write_requests(folder / "in.jsonl", [{"tokens": [5, 6, 7], "max_tokens": 2, "ignore_eos": True}])
    for i in range(TIMES):
        began = time.monotonic()
        try:
            result = harness.run(3, "run", "--model", harness.FIXTURES.parent.parent / "configs" / "demo", "--input",
                                 folder / "in.jsonl", "--output", folder / "out.jsonl", "--fresh", "--progress",
                                 "none", timeout=LIMIT)
        except subprocess.TimeoutExpired:
            sys.exit("run %d of %d hung" % (i + 1, TIMES))
        harness.must(result)
        longest = max(longest, time.monotonic() - began)
    print("%d runs, the longest took %.1f s" % (TIMES, longest))


if __name__ == "__main__":
    main()
