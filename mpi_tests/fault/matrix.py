#!/usr/bin/env python3
"""What comes of a rank that fails: {kind} x {rank of 3} x {phase}, through the real binary under mpirun; and some of it
with two replicas of two stages.

    matrix.py [CELL...]     a cell is kind:rank:phase, or kind:rank:phase:2 with two replicas; without one, a seeded
                            sample (LOCKSTEP_SEED repeats it), or with LOCKSTEP_LONG=1 all of them. LOCKSTEP_BIN: a
                            binary built with -Dmutants=true. --table FILE writes what was seen as a table.

Every cell must end by itself within its deadline, with the exit code and the line that docs/testing.md promises; leave
no process and no shared memory behind; leave only whole, right rows; call itself complete only when it is; and a
second run without the fault must give what an undisturbed run gives.
"""
import collections
import itertools
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import time
import uuid

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "mpi"))
import harness  # noqa: E402
import lab  # noqa: E402

LOCAL = ("kill", "stop", "abort", "exit", "disk", "malloc", "error")
KINDS = LOCAL + ("cut",)
PHASES = ("start", "vote", "load", "prefill", "decode", "gather", "shutdown")
RANKS = 3
REPLICAS, REPLICA_KINDS, REPLICA_PHASES = 2, ("kill", "stop", "error"), ("load", "decode")
RUNNING = ("prefill", "decode", "gather")
SILENCE = 4  # seconds; the default is 10
# What the launcher needs to notice and to kill, and a loaded test machine on top.
LAUNCHER = 12
# The launcher's own code for a rank that died.
DIED = {"kill": 137, "abort": 134, "exit": None}
Cell = collections.namedtuple("Cell", "kind rank phase replicas", defaults=[1])
MODEL = harness.FIXTURES.parent.parent / "configs" / "demo"


def ranks_of(replicas):
    return RANKS if replicas == 1 else 2 * replicas


def replica_cells():
    return [Cell(*c, REPLICAS) for c in itertools.product(REPLICA_KINDS, range(ranks_of(REPLICAS)), REPLICA_PHASES)]


def cells():
    return [Cell(*c) for c in itertools.product(KINDS, range(RANKS), PHASES)] + replica_cells()


def sample(seed):
    """One cell of each kind, each phase at least once, and one with replicas."""
    rng, phases = random.Random(seed), list(PHASES)
    rng.shuffle(phases)
    return [Cell(kind, rng.randrange(RANKS), phases[i % len(phases)]) for i, kind in enumerate(KINDS)] + [
        rng.choice(replica_cells())]


def parse(text):
    kind, rank, phase, *replicas = text.split(":")
    return Cell(kind, int(rank), phase, *map(int, replicas))


def name(cell):
    return "%s:%d:%s" % cell[:3] + (":%d" % cell.replicas if cell.replicas > 1 else "")


def deadline(cell):
    return {"stop": 3 * SILENCE, "cut": 30}.get(cell.kind, 0) + LAUNCHER


class Job:
    silence = SILENCE

    def __init__(self):
        self.folder = harness.work_folder()
        self.input, self.output = self.folder / "in.jsonl", self.folder / "out.jsonl"
        rng = random.Random(5)
        harness.write_requests(self.input, [
            {"id": "r%d" % i, "tokens": [rng.randrange(3, 500) for _ in range(rng.randrange(2, 60))],
             "max_tokens": rng.randrange(2, 24), "ignore_eos": True} for i in range(24)])
        self.reference = None
        self.said = self.folder / "said"

    def start(self, fault="", replicas=1):
        env = {**os.environ, **harness.MPI_ENVIRONMENT, "LOCKSTEP_FAULT": fault}
        return self.launch(self.command(env, replicas), env)

    def launch(self, words, env):
        """Its own mark in the environment finds what is left behind. What it says goes to a file: a pipe would be open
        for as long as anything is."""
        self.mark, self.segments = uuid.uuid4().hex, set()
        with open(self.said, "wb") as said:
            return subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=said, stdin=subprocess.DEVNULL,
                                    env={**env, "LOCKSTEP_CELL": self.mark})

    def words(self):
        return [harness.binary(), "run", "--model", str(MODEL), "--input", str(self.input), "--output",
                str(self.output), "--silence", str(self.silence), "--max-sequences", "6", "--budget", "64",
                "--progress", "none", "--threads", "1"]

    def command(self, env, replicas):
        more = ["--replicas", str(replicas)] if replicas > 1 else []
        return ["mpirun", "-n", str(ranks_of(replicas)), *self.words(), *more]

    def tend(self):
        """What is to be done while it runs."""

    def launcher_ended(self, cell):
        """What is to be done when the launcher has ended."""

    def clear(self):
        if self.output.exists():
            self.output.unlink()
        for path in sorted((self.folder / "out.jsonl.lockstep").glob("*")):
            path.unlink()

    def manifest(self):
        path = self.folder / "out.jsonl.lockstep" / "manifest.json"
        return json.loads(path.read_text()) if path.exists() else None

    def note_shared_memory(self):
        """The segments that this run's processes have mapped."""
        for pid, _ in self.left_behind():
            try:
                text = pathlib.Path("/proc/%d/maps" % pid).read_text()
            except OSError:
                continue
            self.segments |= set(re.findall(r"/dev/shm/\S+", text))

    def left_behind(self):
        """Processes that carry this run's mark: [(pid, command line)]."""
        return [(pid, words) for pid, words, _, _ in self.processes()]

    def processes(self):
        """The same with their states, as the kernel's letters, and their parents."""
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                if self.mark.encode() in (entry / "environ").read_bytes():
                    state, parent = (entry / "stat").read_text().rsplit(")", 1)[1].split()[:2]
                    if state != "Z":
                        words = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                        found.append((int(entry.name), words, state, int(parent)))
            except OSError:
                continue
        return found


class JobOfHosts(Job):
    """Each rank on a host of its own. At the fault the rank waits until its host's link has been cut.
    The launcher is to notice first: its keepalive says nothing any more once it has tried to report a rank's end."""

    silence = 2 * SILENCE

    def __init__(self, hosts):
        super().__init__()
        self.hosts, self.rank, self.cut = hosts, None, self.folder / "cut"
        harness.must(harness.run(0, "keygen", self.folder / "secret"))

    def start(self, fault="", replicas=1):
        for i in range(RANKS):
            self.hosts.mend(i)
        self.rank = int(fault.split(":")[1]) if fault else None
        return super().start(fault, replicas)

    def command(self, env, replicas):
        env["LOCKSTEP_FAULT_FILE"] = str(self.cut)
        for name in ("OMPI_MCA_btl_tcp_if_include", "OMPI_MCA_oob_tcp_if_include"):
            env.pop(name)
        return self.hosts.mpirun_command(
            [(1, i) for i in range(RANKS)], [*self.words(), "--secret-file", str(self.folder / "secret")],
            mca=lab.KEEPALIVE)

    def tend(self):
        if self.rank is not None and self.cut.exists():
            self.hosts.cut(self.rank)
            self.cut.unlink()
            self.rank = None

    def launcher_ended(self, cell):
        """A launcher's daemon that has something to report gives up when its network does, or as soon as that is back:
        so it is with those on hosts that were cut off while MPI started. The ranks there have to end before."""
        if cell.phase == "start":
            end = time.monotonic() + self.silence + 2 * RANKS
            while any(" run --model " in words for _, words in self.left_behind()) and time.monotonic() < end:
                time.sleep(0.1)
            if time.monotonic() < end:
                self.hosts.mend(cell.rank)


def our_lines(text):
    return [line for line in text.splitlines()
            if line.startswith("lockstep: ") and not line.startswith("lockstep: warning: ")]


def finish(job, process, seconds):
    """(seconds, stderr, code); a launcher that is not over in time is ended, and its code is None. job.stuck is then
    who was still there."""
    began, code = time.monotonic(), None
    while code is None and time.monotonic() < began + seconds:
        job.note_shared_memory()
        job.tend()
        try:
            code = process.wait(timeout=0.1)
        except subprocess.TimeoutExpired:
            continue
    took = time.monotonic() - began
    if code is None:
        job.stuck = job.processes()
        for pid, *_ in job.stuck:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        process.wait()
    return took, job.said.read_text(errors="replace"), code


def right_rows(job, faults):
    """What stands in the output is the beginning of what must."""
    seen = job.output.read_bytes() if job.output.exists() else b""
    whole = seen[:seen.rfind(b"\n") + 1]
    if not job.reference.startswith(whole):
        faults.append("rows that are not those of the reference")
    if whole != seen and not job.reference.startswith(seen):
        faults.append("a torn row that is not the beginning of the right one")
    return whole == job.reference


def judge_code(cell, code, complete, faults):
    """The documented codes. A rank that died gives the launcher's."""
    if cell.kind in DIED:
        good = code != 0 and (DIED[cell.kind] is None or code == DIED[cell.kind])
    elif cell.kind == "stop":
        good = code in ((0, 4) if cell.phase == "shutdown" else (4,))
    elif cell.kind == "cut":
        good = code != 0 or cell.phase == "shutdown"
    elif cell.kind == "disk" and cell.rank > 0:
        # but memory that replicas share is a file to a limit on those
        good = code == 0 or (code == 3 and cell.replicas > 1 and cell.phase in ("start", "vote", "load"))
    elif cell.kind == "error":
        good = code in ({"start": (1, 4), "vote": (3,), "load": (3,), "shutdown": (0, 4)}.get(cell.phase, (4,)))
    else:
        good = code in (0, 2, 3, 4)
    if not good:
        faults.append("exit code %s" % code)
    if code == 0 and not complete:
        faults.append("exit code 0 without all rows")


def judge_line(cell, code, said, faults):
    """One line of ours that names the rank and what happened to it."""
    lines = our_lines(said)
    if code != 0 and cell.kind in ("stop", "error") and cell.phase != "start" and cell.phase != "shutdown":
        what = "no sign of life" if cell.kind == "stop" else "a fault of the test"
        if not any(what in line and ("rank %d" % cell.rank in line or cell.rank == 0) for line in lines):
            faults.append("no line with '%s' of rank %d: %s" % (what, cell.rank, lines))
    if cell.kind == "cut" and cell.rank > 0 and cell.phase in RUNNING and not any(
            "rank %d on lsh" % cell.rank in line and "no sign of life" in line for line in lines):
        faults.append("no line that names the rank that was cut off: %s" % lines)
    if cell.kind in DIED and cell.phase in RUNNING and not any(
            re.search(r"rank %d on \S+: its process is gone, last heard in" % cell.rank, line) for line in lines):
        faults.append("no line that names the dead rank: %s" % lines)
    if cell.kind in ("stop", "cut") and cell.phase == "start" and "MPI has not started" not in said and (
            cell.kind == "stop" or "lost communication with a remote daemon" not in said):
        faults.append("no line on MPI's start")
    if len(lines) > 1:
        faults.append("%d lines of ours: %s" % (len(lines), lines))
    if re.search(r"MPI_ABORT was invoked on rank [1-9][^.]*errorcode 0", said):
        faults.append("a rank that is not 0 ended the job as a success, whatever rank 0 had still to write")
    if cell.kind != "abort" and "Signal: " in said:
        faults.append("crashed: %s" % said[-800:])


def try_cell(job, cell):
    job.clear()
    faults = []
    process = job.start("%s:%d:%s" % cell[:3], cell.replicas)
    seconds, said, code = finish(job, process, 90)
    job.launcher_ended(cell)
    if code is None:
        faults.append("hung")
    elif seconds > deadline(cell):
        faults.append("took %.1f s of %d" % (seconds, deadline(cell)))
    end = time.monotonic() + (20 if cell.kind == "cut" else 3)
    while job.left_behind() and time.monotonic() < end:
        time.sleep(0.1)
    for pid, words in job.left_behind():
        faults.append("left behind: %s" % words)
        os.kill(pid, signal.SIGKILL)
    litter = sorted(name for name in job.segments if os.path.exists(name))
    if litter:
        faults.append("shared memory left: %s" % litter)
    complete = right_rows(job, faults)
    manifest = job.manifest()
    if manifest and manifest["complete"] and not complete:
        faults.append("called complete without all rows")
    if code is not None:
        judge_code(cell, code, complete, faults)
        judge_line(cell, code, said, faults)
    rows = job.output.read_bytes().count(b"\n") if job.output.exists() else 0
    _, again, second = finish(job, job.start(), 90)
    if second != 0 or job.output.read_bytes() != job.reference:
        faults.append("the run after it: code %s, %s" % (second, again[-500:]))
    return seconds, code, rows, our_lines(said), faults


def write_table(path, results):
    with open(path, "w", encoding="utf-8") as out:
        out.write("| fault | rank | " + " | ".join(PHASES) + " |\n|---|---|" + "---|" * len(PHASES) + "\n")
        for kind in KINDS:
            for rank, replicas in [(r, 1) for r in range(RANKS)] + [(r, REPLICAS) for r in range(ranks_of(REPLICAS))]:
                row = [results.get(Cell(kind, rank, phase, replicas)) for phase in PHASES]
                if replicas == 1 or any(row):
                    out.write("| %s | %d%s | %s |\n" % (kind, rank, " of 2 x 2" if replicas > 1 else "", " | ".join(
                        "-" if r is None else "%s, %.1f s%s" % (r[1], r[0], " WRONG" if r[4] else "") for r in row)))


def try_cells(job, chosen, results):
    """How many went wrong."""
    wrong = 0
    if not chosen:
        return wrong
    _, said, code = finish(job, job.start(), 120)
    if code != 0:
        sys.exit("the undisturbed run: %s\n%s" % (code, said))
    job.reference = job.output.read_bytes()
    for cell in chosen:
        results[cell] = try_cell(job, cell)
        seconds, code, rows, lines, faults = results[cell]
        print("%-22s code %-4s %5.1f s, %2d rows%s" % (name(cell), code, seconds, rows, "".join(
            "\n    " + line for line in lines)), flush=True)
        for fault in faults:
            print("    WRONG: %s" % fault, flush=True)
        wrong += bool(faults)
    return wrong


def main():
    arguments, table = sys.argv[1:], None
    if arguments[:1] == ["--table"]:
        table, arguments = arguments[1], arguments[2:]
    seed = int(os.environ.get("LOCKSTEP_SEED") or random.randrange(1 << 30))
    chosen = [parse(c) for c in arguments] or (cells() if harness.LONG else sample(seed))
    print("seed %d, %d cells" % (seed, len(chosen)), flush=True)
    results = {}
    wrong = try_cells(Job(), [c for c in chosen if c.kind != "cut"], results)
    cuts, reason = [c for c in chosen if c.kind == "cut"], lab.unavailable()
    if cuts and reason:
        print("SKIP: no network to cut: %s" % reason)
    elif cuts:
        with lab.Hosts(RANKS) as hosts:
            wrong += try_cells(JobOfHosts(hosts), cuts, results)
    if table:
        write_table(table, results)
    print("%d of %d cells wrong" % (wrong, len(chosen)))
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
