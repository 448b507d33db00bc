"""What the tests of long jobs share: a job that takes a while, layouts, starting without waiting, killing, locks."""
import fcntl
import json
import os
import pathlib
import random
import signal
import struct
import subprocess
import time

import harness

MODEL = harness.FIXTURES / "families" / "llama-bf16"
LAYERS = 5
VOCAB = json.loads((MODEL / "config.json").read_text())["vocab_size"]


# As slow as a job can be made: what is to be stopped must still run then, on a fast machine, too.
SLOW = ["--max-sequences", 1, "--budget", 1, "--cpu", "ref", "--threads", 1]


def requests(rng, n, tokens=60, bad=True):
    """Short and long ones, greedy and sampled, several choices, and (bad) lines that cost their own row."""
    lines = []
    for i in range(n):
        body = {"tokens": [rng.randrange(8, VOCAB) for _ in range(rng.randint(1, 40))], "id": "r%d" % i,
                "max_tokens": rng.randint(1, tokens), "ignore_eos": True, "temperature": 0}
        if i % 3 == 1:
            body.update(temperature=0.9, top_p=0.95)
        if i % 17 == 4:
            body.update(n=3, temperature=1.0)
        lines.append(json.dumps(body))
        if bad and i % 29 == 7:
            lines.append(rng.choice(["", "{", '{"tokens": []}', '{"id": "r0", "tokens": [9]}']))
    return "\n".join(lines) + "\n"


def layout(rng, most_ranks=4):
    """(ranks, arguments); no rank count twice as likely as another."""
    ranks = rng.randint(0, most_ranks)
    budget = rng.choice([5, 17, 64, 512])
    arguments = ["--budget", budget, "--chunk", rng.randint(1, budget), "--window", rng.randint(1, 6), "--threads", 1,
                 "--max-sequences", rng.choice([2, 7, 32, 64]), "--placement-seed", rng.randrange(1 << 20)]
    if ranks > 1 and rng.random() < 0.5:
        cuts = [0] + sorted(rng.sample(range(1, LAYERS), ranks - 1)) + [LAYERS]
        arguments += ["--layers", ",".join("%d-%d" % (a, b - 1) for a, b in zip(cuts, cuts[1:]))]
    return ranks, arguments


def command(source, out, *arguments, model=MODEL):
    return ["run", "--model", model, "--input", source, "--output", out, "--digest", "all", "--progress", "none",
            *arguments]


class Started:
    """A job in a session of its own, whose processes can be found and killed."""

    def __init__(self, ranks, arguments, env=None, preexec=None, stdin=subprocess.DEVNULL):
        words = [harness.binary(), *map(str, arguments)]
        if ranks:
            words = ["mpirun", "-n", str(ranks), *words]
        self.mark = "LOCKSTEP_TEST_MARK=%d.%d" % (os.getpid(), random.getrandbits(60))
        environment = {**os.environ, **harness.MPI_ENVIRONMENT, **(env or {}),
                       "LOCKSTEP_TEST_MARK": self.mark.split("=")[1]}
        self.process = subprocess.Popen(words, stdin=stdin, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                        text=True, env=environment, start_new_session=True, preexec_fn=preexec)

    def pids(self, name=None):
        """Of this job's living processes; those called `name` only."""
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                if self.mark.encode() not in (entry / "environ").read_bytes().split(b"\0"):
                    continue
                if " Z " in (entry / "stat").read_text():
                    continue
                if name and (entry / "comm").read_text().strip() != name:
                    continue
            except OSError:
                continue
            found.append(int(entry.name))
        return found

    def ranks(self):
        return self.pids("lockstep")

    def kill(self, pids, sign=signal.SIGKILL):
        for pid in pids:
            try:
                os.kill(pid, sign)
            except ProcessLookupError:
                pass

    def end(self, timeout=60):
        """Waits for everything to be gone; returns (exit code, standard error)."""
        try:
            _, said = self.process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            self.kill(self.pids())
            _, said = self.process.communicate()
            raise AssertionError("a job did not end within %d s: %s" % (timeout, said[-2000:])) from None
        deadline = time.monotonic() + 30
        while self.pids() and time.monotonic() < deadline:
            time.sleep(0.02)
        self.kill(self.pids())
        return self.process.returncode, said


def wait_for_rows(job, out, n=5):
    """Until about n rows of a started job are in its journal, or it is over."""
    journal, deadline = pathlib.Path(str(out) + ".lockstep") / "journal", time.monotonic() + 60
    while time.monotonic() < deadline and job.process.poll() is None:
        if journal.exists() and journal.stat().st_size > 700 * n:
            return
        time.sleep(0.005)


def is_locked(out):
    """Whether a job holds the folder beside `out`."""
    try:
        with open(str(out) + ".lockstep/lock", "rb+") as lock:
            region = fcntl.fcntl(lock, 36, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 0, 0))  # F_OFD_GETLK
            return struct.unpack("hhqqi4x", region)[0] != fcntl.F_UNLCK
    except FileNotFoundError:
        return False


def manifest(out):
    return json.loads((pathlib.Path(str(out) + ".lockstep") / "manifest.json").read_text())


def folder_bytes(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}
