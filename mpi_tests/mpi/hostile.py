#!/usr/bin/env python3
"""One rank of a real job is hostile: at every place in the pipeline, in every phase, with the job's secret and without.

    hostile.py [ONLY...]      (LOCKSTEP_BIN: the binary; LOCKSTEP_HOSTILE: the module that makes a rank hostile)

Whatever it does, the job ends on all ranks within 10 s more than a good one takes, rank 0 says one line that names
both ranks of the link, and the rows that are out are those that a good run gives. LOCKSTEP_LONG tries every case, else
a seeded sample of each group. ONLY: words that a case's name must hold.
"""
import functools
import os
import random
import re
import subprocess
import sys
import tempfile
import time

import harness

RANKS, LIMIT_S = 3, 10
MODEL = harness.FIXTURES / "families" / "llama-bf16"
LONG = [{"id": "long%d" % i, "tokens": list(range(3, 103)), "max_tokens": 1} for i in range(2)]
REQUESTS = LONG + [{"id": "r%d" % i, "tokens": [3 + i, 5, 7], "max_tokens": 12, "ignore_eos": True, "temperature": 0}
            for i in range(10)]
CONTROL, STEP_TAG, RESULT_TAG, HELLO = 1, 2, 3, 4
STEP, RESULT, ERROR, PLAN, VOTE, STATS, STOP = 1, 2, 3, 4, 5, 8, 10


@functools.cache
def module():
    """The folder and the path of the module for the loader's list, which is split at spaces and colons."""
    folder = tempfile.TemporaryDirectory(prefix="hostile-", dir="/tmp")
    link = os.path.join(folder.name, "hostile.so")
    os.symlink(os.environ["LOCKSTEP_HOSTILE"], link)
    return folder, link


def links():
    """(rank, tag, nth, name): every kind of message that a rank above 0, or rank 0, sends."""
    for rank in (1, 2):
        for nth, name in ((1, "offer"), (2, "first hello"), (3, "second hello")):
            yield rank, HELLO, nth, name
        for nth, name in ((1, "first vote"), (2, "second vote"), (3, "third vote")):
            yield rank, CONTROL, nth, name
    yield 0, STEP_TAG, 1, "first step"
    yield 0, STEP_TAG, 9, "later step"
    yield 1, STEP_TAG, 1, "first step"
    yield 1, STEP_TAG, 9, "later step"
    yield 2, RESULT_TAG, 1, "first result"
    yield 2, RESULT_TAG, 9, "later result"
    yield 0, CONTROL, 1, "wish"
    yield 0, CONTROL, 4, "plan"
    yield 0, HELLO, 2, "hello"


def outsider_cases():
    for rank, tag, nth, name in links():
        for what in ("flip,at=49", "flip,at=300", "flip,at=1100", "garbage", "cut", "extend"):
            if tag == HELLO and what.startswith("flip") and (name == "offer" or what == "flip,at=1100"):
                continue  # a card is not authentic, what follows from it is; a hello has 768 bits
            yield ("without the secret: rank %d, %s, %s" % (rank, name, what), rank,
                   "%s,tag=%d,nth=%d" % (what, tag, nth))
        if tag == HELLO:
            yield "without the secret: rank %d, silent from %s on" % (rank, name), rank, "silent,tag=4,nth=%d" % nth
        if tag in (STEP_TAG, RESULT_TAG) and nth > 1:
            for what in ("replay", "again", "drop", "swap"):
                yield ("without the secret: rank %d, %s, %s" % (rank, name, what), rank,
                       "%s,tag=%d,nth=%d" % (what, tag, nth))
            yield ("without the secret: rank %d, %s, extend far" % (rank, name), rank,
                   "extend,by=40000000,tag=%d,nth=%d" % (tag, nth))


FIELDS = [("kind out of the table", 6, 1, 11), ("another kind", 6, 1, STOP), ("version", 4, 2, 7),
          ("flags", 7, 1, 0x82), ("run id", 8, 8, 1), ("source", 24, 4, 9), ("destination", 28, 4, 9),
          ("sequence", 32, 8, 1 << 40),
          ("length 2^40", 96, 8, 1 << 40), ("ndim 5", 65, 1, 5), ("reserved", 66, 2, 1),
          ("tensor 2^40", 88, 8, 1 << 40), ("epoch", 104, 4, 5), ("chunk", 108, 8, 64)]
TENSOR_FIELDS = [("dtype", 64, 1, 2), ("zero dim", 68, 4, 0), ("overflowing dims", 68, 8, 0xffffffffffffffff),
                 ("infinite rows", 68, 4, 0xffffffff), ("table", 84, 4, 4), ("rows", 60, 4, 77), ("step", 56, 4, 7777),
                 ("id", 40, 8, 7777), ("id before", 40, 8, 0)]


def insider_cases():
    for rank, kind, nth, name in ((1, VOTE, 1, "first vote"), (1, VOTE, 3, "third vote"), (1, STEP, 7, "step"),
                                  (2, VOTE, 2, "second vote"), (2, RESULT, 7, "result"), (0, STEP, 7, "step"),
                                  (0, PLAN, 3, "plan")):
        for field, at, size, value in FIELDS + (TENSOR_FIELDS if kind in (STEP, RESULT) else []):
            yield ("with the secret: rank %d, %s, %s" % (rank, name, field), rank,
                   "set,kind=%d,nth=%d,at=%d,size=%d,value=%d" % (kind, nth, at, size, value))
        for at, size in ((0, 4), (4, 16), (0, 64)):
            if kind in (STEP, RESULT, VOTE):
                yield ("with the secret: rank %d, %s, table of 255 at %d" % (rank, name, at), rank,
                       "fill,kind=%d,nth=%d,at=%d,size=%d,value=255" % (kind, nth, at, size))
    for rank, kind, name in ((1, STEP, "step"), (2, RESULT, "result")):
        for at, size, value in ((84, 4, 4), (84, 4, 96), (60, 4, 77), (68, 4, 1 << 20)):
            yield ("with the secret: rank %d, certified %s, %d at %d" % (rank, name, value, at), rank,
                   "set,kind=%d,nth=7,at=%d,size=%d,value=%d" % (kind, at, size, value))
    yield "with the secret: rank 2, result, nonce", 2, "set,kind=2,nth=7,at=48,size=8,value=1"


def frames_cases():
    """Payloads of several frames, with frames of 4 KiB: the second frame of the first one."""
    for rank in (0, 1):
        for what in ("drop", "again", "replay", "swap", "flip,at=49", "flip,at=6000", "cut", "extend"):
            yield ("several frames, without the secret: rank %d, %s" % (rank, what), rank,
                   "%s,tag=%d,nth=2" % (what, STEP_TAG))
        for field, at, size, value in [("more", 7, 1, 6), ("packed", 7, 1, 7), ("offset 0", 108, 8, 0),
                                       ("offset of the next", 108, 8, 2 * 3952), ("dims", 68, 4, 65),
                                       ("tensor", 88, 8, 4096), ("table", 84, 4, 16), ("id", 40, 8, 1),
                                       ("nonce", 48, 8, 1), ("rows", 60, 4, 2), ("dtype", 64, 1, 1),
                                       ("length", 96, 8, 100)]:
            yield ("several frames, with the secret: rank %d, %s" % (rank, field), rank,
                   "set,kind=%d,nth=2,at=%d,size=%d,value=%d" % (STEP, at, size, value))


def run(folder, hostile_rank, spec, name=""):
    """The run of that case as (seconds, exit code, our lines, rows that are out)."""
    command = ["mpirun", "--mca", "orte_abort_on_non_zero_status", "1"]
    job = ["run", "--model", str(MODEL), "--input", str(folder / "in.jsonl"), "--output", str(folder / "out.jsonl"),
           "--digest", "all", "--progress", "none", "--max-sequences", "2", "--frame", "4K", "--fresh"]
    job += ["--threads", "2" if "several frames" in name else "1"]  # two open frames side by side
    job += ["--certificate", str(folder / "cert")] if "certified" in name else []
    for rank in range(RANKS):
        prefix = ["env", "LD_PRELOAD=%s" % module()[1], "HOSTILE=%s" % spec]
        command += ([":"] if rank else []) + ["-n", "1", *(prefix if rank == hostile_rank else []), harness.binary()]
        command += job
    begin = time.monotonic()
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, stdin=subprocess.DEVNULL,
                            env={**os.environ, **harness.MPI_ENVIRONMENT})
    seconds = time.monotonic() - begin
    lines = [line for line in result.stderr.splitlines() if line.startswith("lockstep: ") and "warning: " not in line]
    out = (folder / "out.jsonl").read_bytes() if (folder / "out.jsonl").exists() else b""
    return seconds, result.returncode, lines, out, result.stderr


def names_a_pair(line, rank):
    named = set(re.findall(r"rank (\d+)", line))
    return str(rank) in named and len(named) >= 2


def judge(case, outcome, good_seconds, expected):
    name, rank, _ = case
    seconds, code, lines, out, stderr = outcome
    faults = []
    if code not in (3, 4):
        faults.append("exit code %d" % code)
    if seconds > good_seconds + LIMIT_S:
        faults.append("took %.1f s, a good run %.1f s" % (seconds, good_seconds))
    if len(lines) != 1 or not names_a_pair(lines[0], rank):
        faults.append("not one line that names the link's ranks: %s" % lines)
    if not expected.startswith(out) or out and not out.endswith(b"\n"):
        faults.append("rows that are not those of a good run")
    if "core dumped" in stderr or "Segmentation" in stderr or "Assertion" in stderr:
        faults.append("crashed")
    return ["%s: %s\n%s" % (name, fault, stderr[-800:] if "crash" in fault else "") for fault in faults]


def main():
    folder = harness.work_folder()
    harness.write_requests(folder / "in.jsonl", REQUESTS)
    good_seconds, code, _, expected, stderr = run(folder, -1, "")
    if code:
        sys.exit("a good run fails: %s" % stderr)
    rng = random.Random(20261129)
    cases = []
    for group in (list(outsider_cases()), list(insider_cases()), list(frames_cases())):
        chosen = [case for case in group if all(word in case[0] for word in sys.argv[1:])]
        few = len(chosen) if harness.LONG or sys.argv[1:] else min(len(chosen), 12)
        cases += rng.sample(chosen, few)
    faults, slowest = [], 0.0
    for case in cases:
        outcome = run(folder, case[1], case[2], case[0])
        slowest = max(slowest, outcome[0])
        found = judge(case, outcome, good_seconds, expected)
        faults += found
        print("%-70s %4.1f s, %d: %s" % (case[0], outcome[0], outcome[1], (outcome[2] or ["-"])[0][10:]), flush=True)
        for fault in found:
            print("WRONG: " + fault, flush=True)
    print("%d cases, slowest %.1f s, a good run %.1f s, %d faults" % (len(cases), slowest, good_seconds, len(faults)))
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
