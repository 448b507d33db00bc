#!/usr/bin/env python3
"""Counts the verdicts of meson's test logs; the last line is 'N passed, N failed, N skipped'.

    count.py TESTLOG.json...

Above it stand, of what each failed test printed, its first complaints and its last lines. Exit status 1 when a test
failed, when a log is missing, or when nothing was run.
"""
import json
import pathlib
import sys

LAST_LINES = 6
COMPLAINTS, COMPLAINT_LINES = ("WRONG", "FAIL"), 12
PASSED, SKIPPED = {"OK", "EXPECTEDFAIL"}, {"SKIP", "IGNORED"}


def telling(lines):
    first = next((i for i, line in enumerate(lines) if any(word in line for word in COMPLAINTS)), None)
    end = 0 if first is None else first + COMPLAINT_LINES
    return lines[first or 0:end] + lines[max(end, len(lines) - LAST_LINES):]


def main():
    passed, failed, skipped, said = 0, [], [], []
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
                lines = (test.get("stdout", "") + test.get("stderr", "")).splitlines()
                said += ["%s | %s" % (test["name"], line[:400]) for line in telling(lines)]
    for name in skipped:
        print("skipped: %s" % name)
    for line in said:
        print(line)
    for what in failed:
        print("FAILED: %s" % what)
    print("%d passed, %d failed, %d skipped" % (passed, len(failed), len(skipped)), flush=True)
    sys.exit(1 if failed or not passed else 0)


if __name__ == "__main__":
    main()
