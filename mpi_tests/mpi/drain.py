#!/usr/bin/env python3
"""Stopping on request: SIGUSR1, --time-limit and Slurm's end time finish what runs, make it durable and end with 75;
SIGTERM and SIGINT through mpirun, which kills a second later, keep what is finished. Each is resumed on another layout.

    drain.py [ONLY...]      (LOCKSTEP_BIN: the binary; names of checks to run)
"""
import os
import pathlib
import random
import shutil
import signal
import sys
import time

import harness
import jobs

FAULTS = []


def say(good, what):
    if not good:
        FAULTS.append(what)
        print("WRONG: %s" % what, flush=True)


class Case:
    def __init__(self, seed, n=500, tokens=60):
        self.folder = harness.work_folder()
        self.source, self.out = self.folder / "in.jsonl", self.folder / "out.jsonl"
        self.source.write_text(jobs.requests(random.Random(seed), n, tokens))
        harness.must(harness.run(0, *jobs.command(self.source, self.folder / "whole.jsonl")), 10)
        self.whole = (self.folder / "whole.jsonl").read_bytes()

    def start(self, ranks, *extra, env=None):
        self.out.unlink(missing_ok=True)
        shutil.rmtree(str(self.out) + ".lockstep", ignore_errors=True)
        return jobs.Started(ranks, jobs.command(self.source, self.out, *jobs.SLOW, *extra), env=env)

    def is_drained(self, what, code, said, seconds, limit, codes=(75,)):
        say(code in codes, "%s: exit code %d: %s" % (what, code, said[-1500:]))
        say(seconds < limit, "%s: took %.1f s" % (what, seconds))
        if 75 in codes and code == 75:
            say("the same command goes on" in said, "%s: not said: %s" % (what, said))
            record = jobs.manifest(self.out)
            say(not record["complete"] and record["exit_code"] == 75 and 0 < record["rows"] < 500,
                "%s: manifest %s" % (what, {k: record[k] for k in ("complete", "exit_code", "rows")}))
        say(self.whole.startswith(self.out.read_bytes()) and self.out.read_bytes() != self.whole,
            "%s: the output is not the beginning of the whole one" % what)

    def goes_on(self, what, ranks):
        result = harness.run(ranks, *jobs.command(self.source, self.out), fresh=False)
        say(result.returncode == 10 and self.out.read_bytes() == self.whole,
            "%s, resumed: exit code %d, %s" % (what, result.returncode, result.stderr[-1500:]))
        say(jobs.manifest(self.out)["resumed_rows"] > 0, "%s: nothing was resumed" % what)


def check_signals():
    """To the job alone, and to mpirun, which forwards them."""
    case = Case(1)
    for sign, ranks in ((signal.SIGUSR1, 0), (signal.SIGUSR1, 3), (signal.SIGTERM, 0), (signal.SIGINT, 0),
                        (signal.SIGTERM, 3), (signal.SIGINT, 2)):
        job = case.start(ranks)
        jobs.wait_for_rows(job, case.out)
        begin = time.monotonic()
        job.kill([job.process.pid], sign)
        code, said = job.end()
        what = "%s on %d ranks" % (sign.name, ranks)
        # mpirun ends with a code of its own after a signal that ends it
        codes = (75,) if ranks == 0 or sign == signal.SIGUSR1 else (75, 1, 128 + sign, -sign)
        case.is_drained(what, code, said, time.monotonic() - begin, 20, codes)
        case.goes_on(what, random.choice([0, 2, 4]))


def rank_of(pid):
    words = pathlib.Path("/proc/%d/environ" % pid).read_bytes().split(b"\0")
    return next((int(w.split(b"=")[1]) for w in words if w.startswith(b"OMPI_COMM_WORLD_RANK=")), -1)


def pid_of(job, rank):
    """The first: rank 0 has forked a process for chats."""
    return min((pid for pid in job.ranks() if rank_of(pid) == rank), default=0)


def check_one_rank():
    """To one rank only, whichever it is: rank 0 hears of it and ends the run; a second signal ends that process."""
    case = Case(5)
    for sign, ranks, rank in ((signal.SIGTERM, 3, 1), (signal.SIGINT, 2, 1),
                              (signal.SIGTERM, 3, 0)):
        job = case.start(ranks)
        jobs.wait_for_rows(job, case.out)
        begin = time.monotonic()
        job.kill([pid_of(job, rank)], sign)
        code, said = job.end()
        what = "%s to rank %d of %d" % (sign.name, rank, ranks)
        case.is_drained(what, code, said, time.monotonic() - begin, 10)
        say("stopped by %s" % sign.name in said and (rank == 0 or "to rank %d" % rank in said), "%s: %s" % (what, said))
        case.goes_on(what, random.choice([0, 2, 4]))
    job = case.start(3)
    jobs.wait_for_rows(job, case.out)
    ranks = {rank: pid_of(job, rank) for rank in (0, 2)}
    job.kill([ranks[0]], signal.SIGSTOP)  # nobody can answer the first signal
    job.kill([ranks[2]], signal.SIGTERM)
    time.sleep(0.5)
    say(ranks[2] in job.ranks(), "the first signal ended rank 2 before rank 0 could know")
    job.kill([ranks[2]], signal.SIGTERM)
    deadline = time.monotonic() + 5
    while ranks[2] in job.ranks() and time.monotonic() < deadline:
        time.sleep(0.02)
    say(ranks[2] not in job.ranks(), "the second signal did not end rank 2")
    job.kill([ranks[0]], signal.SIGCONT)
    job.end()
    case.goes_on("a second signal", 2)


def check_one_rank_early():
    """The same before the run: rank 0 may be reading its input, looking, or loading."""
    case = Case(6, n=50)
    fifo = case.folder / "slow.jsonl"
    os.mkfifo(fifo)
    for rank in (1, 2):
        job = jobs.Started(3, jobs.command(fifo, case.folder / "slow.out"))
        deadline = time.monotonic() + 20
        while len(job.ranks()) < 3 and time.monotonic() < deadline:
            time.sleep(0.02)
        time.sleep(1.5)
        begin = time.monotonic()
        job.kill([pid_of(job, rank)], signal.SIGTERM)
        code, said = job.end()
        say(code == 75 and said.count("stopped by SIGTERM to rank %d" % rank) == 1 and time.monotonic() - begin < 10,
            "SIGTERM to rank %d while rank 0 reads: %d, %s" % (rank, code, said[-800:]))


def check_finishes_what_runs():
    """SIGUSR1 begins nothing new and loses nothing: every sequence that was begun has its row."""
    case = Case(2, n=400)
    job = case.start(2)
    jobs.wait_for_rows(job, case.out)
    job.kill([job.process.pid], signal.SIGUSR1)
    job.end()
    record = jobs.manifest(case.out)
    prompts = record["sequences"]
    say(0 <= prompts - record["rows"] <= 60, "%d sequences began, %d rows" % (prompts, record["rows"]))
    case.goes_on("finishing", 3)


def check_early():
    """Signals before the run: nothing is begun, nothing is broken."""
    case = Case(3, n=50)
    for ranks in (0, 3):
        for delay in (0.02, 0.15, 0.3):
            job = case.start(ranks)
            time.sleep(delay)
            job.kill(job.ranks(), signal.SIGUSR1)
            code, said = job.end()
            say(code in (75, 10) or (ranks and code > 0) or code == -signal.SIGUSR1,
                "SIGUSR1 after %.2f s on %d ranks: %d, %s" % (delay, ranks, code, said[-800:]))
    harness.must(harness.run(2, *jobs.command(case.source, case.out), fresh=False), 10)
    say(case.out.read_bytes() == case.whole, "after early signals the output differs")


def check_time_limit():
    case = Case(4)
    for what, ranks, extra, env in (
            ("--time-limit 2", 0, ["--time-limit", "2"], {}), ("--time-limit 3s", 2, ["--time-limit", "3s"], {}),
            ("Slurm's end", 2, [], {"SLURM_JOB_END_TIME": str(int(time.time()) + 3600)})):
        if env:
            env = {"SLURM_JOB_END_TIME": str(int(time.time()) + 34)}
        begin = time.monotonic()
        job = case.start(ranks, "--max-sequences", 1, "--budget", 1, *extra, env=env)
        code, said = job.end()
        case.is_drained(what, code, said, time.monotonic() - begin, 12)
        case.goes_on(what, 3)
    for text in ("0", "x", "1:2:3:4", "5w", "-3", "1e3", "99999999999"):
        result = harness.run(0, *jobs.command(case.source, case.out, "--time-limit", text))
        say(result.returncode == 2 and "is no time" in result.stderr, "--time-limit %s: %s" % (text, result.stderr))
    for text in ("1:00:00", "90m", "2d", "5:00"):
        harness.must(harness.run(0, *jobs.command(case.source, case.out, "--time-limit", text), fresh=False), 10)


def main():
    checks = {name[6:]: check for name, check in globals().items() if name.startswith("check_")}
    for name in sys.argv[1:] or checks:
        began = time.monotonic()
        checks[name]()
        print("%s: %.1f s" % (name, time.monotonic() - began), flush=True)
    print("%d wrong" % len(FAULTS))
    sys.exit(1 if FAULTS else 0)


if __name__ == "__main__":
    main()
