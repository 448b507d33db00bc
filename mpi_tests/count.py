#!/usr/bin/env python3
"""Counts the verdicts of meson's test logs; the last line is 'N passed, N failed, N skipped'.

    count.py TESTLOG.json...

Exit status 1 when a test failed, when a log is missing, or when nothing was run.
"""
import json
import pathlib
import sys

PASSED, SKIPPED = {"OK", "EXPECTEDFAIL"}, {"SKIP", "IGNORED"}


def main():
    passed, failed, skipped = 0, [], []
    for name in sys.argv[1:]:
        path = pathlib.Path(name)
        if not path.exists():
            failed.append("no log %s" % name)
            continue
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            test = json.loads(line)
            if test["result"] in PASSED:
                passed += 1
            elif test["result"] in SKIPPED:
                skipped.append(test["name"])
            else:
                failed.append("%s: %s" % (test["name"], test["result"]))
    for name in skipped:
        print("skipped: %s" % name)
    for what in failed:
        print("FAILED: %s" % what)
    print("%d passed, %d failed, %d skipped" % (passed, len(failed), len(skipped)), flush=True)
    sys.exit(1 if failed or not passed else 0)


if __name__ == "__main__":
    main()
