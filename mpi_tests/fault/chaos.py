#!/usr/bin/env python3
"""One fault after the other, at random, on one job that goes on each time with another layout, until it is done; then
the next job. 5 faults, or 200 in the long form (LOCKSTEP_LONG), from a seed that is printed.

    chaos.py [N]            (LOCKSTEP_BIN: a binary built with -Dmutants=true; LOCKSTEP_SEED repeats a run)

Never a hang, a process left behind, a row that is not the reference's, or exit code 0 without all rows.
"""
import os
import random
import signal
import sys
import time

import matrix
from matrix import harness

LAYOUTS = [(1, []), (2, []), (3, []), (4, ["--replicas", "2"]), (3, ["--replicas", "3"]), (2, ["--replicas", "2"])]
LIMIT = 90


class Job(matrix.Job):
    seconds = 0.0  # what a run that nobody disturbs takes, so that a signal finds it running

    def start_with(self, layout, fault):
        ranks, arguments = layout
        return self.launch(
            ["mpirun", "-n", str(ranks), harness.binary(), "run", "--model", str(matrix.MODEL), "--input",
             str(self.input), "--output", str(self.output), "--silence", str(matrix.SILENCE), "--max-sequences", "2",
             "--budget", "16", "--progress", "none", "--threads", "1", *arguments],
            {**os.environ, **harness.MPI_ENVIRONMENT, "LOCKSTEP_FAULT": fault})


def disturb(job, process, rng, ranks):
    """A signal to one rank, at a random time; what was done."""
    time.sleep(rng.uniform(0, job.seconds))
    sign = rng.choice([signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP][:2 + (ranks > 1)])
    found = [pid for pid, words in job.left_behind() if " run --model " in words and not words.startswith("mpirun")]
    if not found or process.poll() is not None:
        return "nothing, it was over"
    pid = rng.choice(found)
    try:
        os.kill(pid, sign)
    except ProcessLookupError:
        pass
    return "%s to one of %d ranks" % (sign.name, ranks)


def stopped_alone(stuck):
    """The one hang that no rank can end: the last rank that is there is stopped, in the end of MPI."""
    launchers = [pid for pid, words, _, _ in stuck if words.startswith("mpirun")]
    return [state for _, _, state, parent in stuck if parent in launchers] == ["T"]


def one_fault(job, rng):
    """(what was done, seconds, code, faults found)."""
    layout, faults = rng.choice(LAYOUTS), []
    at_phase = rng.random() < 0.6
    kinds = [kind for kind in matrix.LOCAL if kind != "stop" or layout[0] > 1]  # who is alone is missed by nobody
    fault = "%s:%d:%s" % (rng.choice(kinds), rng.randrange(layout[0]), rng.choice(matrix.PHASES))
    process = job.start_with(layout, fault if at_phase else "")
    what = fault if at_phase else disturb(job, process, rng, layout[0])
    seconds, said, code = matrix.finish(job, process, LIMIT)
    end = time.monotonic() + 5
    while job.left_behind() and time.monotonic() < end:
        time.sleep(0.1)
    for pid, words in job.left_behind():
        faults.append("left behind: %s" % words)
        os.kill(pid, signal.SIGKILL)
    if any(map(os.path.exists, job.segments)):
        faults.append("shared memory is left")
    complete = matrix.right_rows(job, faults)
    if code is None and stopped_alone(job.stuck):
        what += ", was stopped when it was the last rank,"
    elif code is None:
        faults.append("hung: %s" % job.stuck)
    if code == 0 and not complete:
        faults.append("exit code 0 without all rows")
    if faults:
        faults.append(said[-1500:])
    return "%d ranks %s, %s" % (layout[0], " ".join(layout[1]), what), seconds, code, faults


def main():
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 200 if harness.LONG else 5
    seed = int(os.environ.get("LOCKSTEP_SEED") or random.randrange(1 << 30))
    print("seed %d, %d faults" % (seed, n), flush=True)
    rng, job, wrong, whole, longest = random.Random(seed), Job(), 0, 0, 0.0
    job.seconds, said, code = matrix.finish(job, job.start_with(LAYOUTS[0], ""), LIMIT)
    if code != 0:
        sys.exit("the undisturbed run: %s\n%s" % (code, said))
    job.reference = job.output.read_bytes()
    job.clear()
    for i in range(n):
        what, seconds, code, faults = one_fault(job, rng)
        longest = max(longest, seconds)
        print("%3d %-60s code %-4s %5.1f s%s" % (i, what, code, seconds, "".join("\n    WRONG: " + f for f in faults)),
              flush=True)
        wrong += bool(faults)
        if code == 0 or faults:
            whole += code == 0
            job.clear()
    _, said, code = matrix.finish(job, job.start_with(rng.choice(LAYOUTS), ""), LIMIT)
    if code != 0 or job.output.read_bytes() != job.reference:
        sys.exit("the run after the last fault: %s\n%s" % (code, said[-1500:]))
    print("%d faults, %d wrong, the longest run took %.1f s, %d times the job was done" % (n, wrong, longest, whole))
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
