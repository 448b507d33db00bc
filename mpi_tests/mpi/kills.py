#!/usr/bin/env python3
"""Nothing is lost when killed: kill -9 of a rank, of the launcher, of everything at once, at random instants, while
the journal grows, and at the end; then resumed on another layout, often killed again, and at last run to the end: the
output (and with --logits every file) equals that of a run that was never interrupted, byte for byte.

    kills.py [--kills N] [--seed S]      10 kills, 100 in the long form (LOCKSTEP_LONG)
"""
import argparse
import pathlib
import random
import shutil
import sys
import time

import harness
import jobs

WHO = ["rank 0", "a rank", "launcher", "everything"]
WHEN = ["at random", "at random", "at random", "as the journal grows", "as the journal grows", "at the end"]


def size(path):
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return -1


def wait_for(job, rng, when, seconds, out, n_bytes):
    """Until the instant at which to kill; at once when the job is over."""
    deadline = time.monotonic() + (rng.uniform(0, seconds) if when == "at random" else 60)
    journal = pathlib.Path(str(out) + ".lockstep") / "journal"
    grown, seen = rng.randint(1, 8), size(journal)
    while time.monotonic() < deadline and job.process.poll() is None:
        if when == "as the journal grows" and size(journal) != seen:
            seen, grown = size(journal), grown - 1
            if grown == 0:
                return
        if when == "at the end" and size(out) >= n_bytes:
            return
        time.sleep(0.001)


def kill(job, rng, who):
    ranks = job.ranks()
    if who == "everything" or (who == "launcher" and job.process.pid in ranks):
        job.kill(job.pids())
    elif who == "launcher":
        job.kill([job.process.pid])
    elif ranks:
        job.kill([min(ranks) if who == "rank 0" else rng.choice(ranks)])


def journal_rows(out):
    """Lines that the journal has a row for; twice is an error."""
    data, at, lines = (pathlib.Path(str(out) + ".lockstep") / "journal").read_bytes(), 0, []
    while at + 32 <= len(data) and data[at:at + 4] == b"LSJ1":
        kind, length = int.from_bytes(data[at + 4:at + 8], "little"), int.from_bytes(data[at + 8:at + 12], "little")
        if at + 32 + length > len(data):
            break
        if kind == 2:
            lines.append(int.from_bytes(data[at + 32:at + 40], "little"))
        at += 32 + length
    assert len(lines) == len(set(lines)), "a row is in the journal twice"
    return len(lines)


class Cycle:
    """One job, from its start over some kills to its end."""

    def __init__(self, rng, folder, expected, logits):
        self.rng, self.folder, self.expected, self.logits = rng, folder, expected, logits
        self.out = folder / "out.jsonl"

    def clear(self):
        self.out.unlink(missing_ok=True)
        shutil.rmtree(str(self.out) + ".lockstep", ignore_errors=True)
        shutil.rmtree(self.folder / "logits", ignore_errors=True)

    def arguments(self, layout):
        extra = ["--logits", self.folder / "logits", "--logits-format", self.logits] if self.logits else []
        return jobs.command(self.folder / "in.jsonl", self.out, *layout, *extra)

    def killed_run(self, seconds):
        """A run that is killed, if it does not end before. Returns what was done, or None."""
        ranks, layout = jobs.layout(self.rng)
        who, when = self.rng.choice(WHO), self.rng.choice(WHEN)
        job = jobs.Started(ranks, self.arguments(layout))
        wait_for(job, self.rng, when, seconds, self.out, len(self.expected["out.jsonl"]))
        alive = job.process.poll() is None
        if alive:
            kill(job, self.rng, who)
        code, said = job.end()
        if not alive and code not in (0, 10):
            sys.exit("a run that nobody killed ended with %d: %s" % (code, said[-2000:]))
        rows = journal_rows(self.out) if size(pathlib.Path(str(self.out) + ".lockstep/journal")) > 0 else 0
        return "%d ranks, %s %s, %d rows kept" % (ranks, who, when, rows) if alive else None

    def finish(self):
        ranks, layout = jobs.layout(self.rng)
        result = harness.run(ranks, *self.arguments(layout), fresh=False)
        harness.must(result, 10)
        got = {"out.jsonl": self.out.read_bytes()}
        if self.logits:
            got.update(jobs.folder_bytes(self.folder / "logits"))
        for name in sorted(set(got) | set(self.expected)):
            if got.get(name) != self.expected.get(name):
                sys.exit("%s differs after %d ranks %s" % (name, ranks, layout))


def uninterrupted(cycle):
    """What the job gives, and the seconds that it takes under the launcher."""
    cycle.clear()
    harness.must(harness.run(0, *cycle.arguments([])), 10)
    expected = {"out.jsonl": cycle.out.read_bytes()}
    if cycle.logits:
        expected.update(jobs.folder_bytes(cycle.folder / "logits"))
    begin = time.monotonic()
    harness.must(harness.run(3, *cycle.arguments([])), 10)
    return expected, time.monotonic() - begin


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=100 if harness.LONG else 10)
    parser.add_argument("--seed", type=int, default=20261129)
    options = parser.parse_args()
    rng = random.Random(options.seed)
    print("seed", options.seed, flush=True)
    folder = harness.work_folder()
    (folder / "in.jsonl").write_text(jobs.requests(random.Random(options.seed), 400))
    truth, n_kills, n_cycles = {}, 0, 0
    while n_kills < options.kills:
        logits = [None, None, "safetensors", "npy"][n_cycles % 4]
        cycle = Cycle(rng, folder, truth.get(logits, ({},))[0], logits)
        if logits not in truth:
            truth[logits] = uninterrupted(cycle)
        cycle.expected, seconds = truth[logits]
        cycle.clear()
        for _ in range(rng.randint(1, 4)):
            done = cycle.killed_run(seconds)
            n_kills += done is not None
            print("kill %d: %s" % (n_kills, done) if done else "it ended first", flush=True)
        cycle.finish()
        n_cycles += 1
    print("%d kills in %d jobs, all ended in the same bytes" % (n_kills, n_cycles))


if __name__ == "__main__":
    main()
