#!/usr/bin/env python3
"""The batch scripts under a real Slurm of three nodes.

    slurm.py [ONLY...]      (LOCKSTEP_BIN; root; Debian's Slurm packages. One node is a network namespace.)
"""
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import time

import lab
import harness

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
MODEL = ROOT / "configs" / "demo"
SIZE = ["-N", "3", "-n", "3", "--ntasks-per-node=1", "--cpus-per-task=2"]
FAULTS = []


def say(good, what):
    if not good:
        FAULTS.append(what)
        print("WRONG: %s" % what, flush=True)


class Site:
    """One folder for input and outputs, and the outputs of one rank to compare with."""

    def __init__(self, slurm):
        self.slurm, self.folder = slurm, harness.work_folder()
        self.input = self.folder / "in.jsonl"
        self.references = {}

    def requests(self, n, max_tokens):
        """What one rank makes of n random requests, which are the input from now on."""
        rng = random.Random(n)
        harness.write_requests(self.input, [
            {"id": "r%d" % i, "tokens": [rng.randrange(3, 500) for _ in range(rng.randrange(4, 40))],
             "max_tokens": max_tokens, "ignore_eos": True} for i in range(n)])
        one = self.folder / "one.jsonl"
        if (n, max_tokens) not in self.references:
            harness.must(harness.run(0, "run", "--model", MODEL, "--input", self.input, "--output", one, "--fresh",
                                     "--progress", "none"))
            self.references[n, max_tokens] = one.read_bytes()
        return self.references[n, max_tokens]

    def submit(self, script, name, *options, sbatch=(), **variables):
        env = {"MODEL": str(MODEL), "INPUT": str(self.input), "OUTPUT": str(self.folder / name),
               "LOCKSTEP": harness.binary(), "SITE": "debian", **variables}
        result = self.slurm.run("sbatch", "--parsable", *SIZE, "-o", str(self.folder / "log-%j"), *sbatch, str(script),
                                *options, env=env, cwd=ROOT)
        harness.must(result)
        return result.stdout.strip()

    def log(self, job):
        path = self.folder / ("log-%s" % job)
        return path.read_text() if path.exists() else ""

    def rows(self, name):
        path = self.folder / name
        return path.read_bytes() if path.exists() else b""

    def manifest(self, name):
        path = self.folder / (name + ".lockstep") / "manifest.json"
        return json.loads(path.read_text()) if path.exists() else {}

    def no_secret_left(self):
        say(not list(self.folder.glob(".lockstep-secret-*")), "a secret was left")


def check_run(site):
    """Three nodes give the bytes of one rank."""
    reference = site.requests(12, 8)
    job = site.submit("slurm/run.sbatch", "run.jsonl", "--digest", "generated")
    state = site.slurm.wait_job(job)
    manifest = site.manifest("run.jsonl")
    say(state["JobState"] == "COMPLETED" and site.rows("run.jsonl") == reference,
        "run.sbatch: %s, equal %s\n%s" % (state["JobState"], site.rows("run.jsonl") == reference, site.log(job)))
    say(len({s["host"] for s in manifest.get("stages", [])}) == 3 and manifest.get("link") == "sealed" and
        manifest.get("secret") == "file", "manifest: %s" % str(manifest)[:1500])
    say([s["threads"] for s in manifest.get("stages", [])] == [2, 2, 2], "threads of the allocation: %s" % manifest)
    site.no_secret_left()


def check_unequal(site):
    """Nodes with unequal numbers of tasks: a pipeline over 2 and 1, and two of two stages over 2, 1 and 1."""
    reference = site.requests(12, 8)
    for nodes, tasks, options, hosts in ((2, 3, [], [2, 1]), (3, 4, ["--replicas", "2"], [2, 1, 1])):
        job = site.submit("slurm/run.sbatch", "uneven.jsonl", "--digest", "generated", "--fresh", *options, sbatch=[
            "-N", str(nodes), "-n", str(tasks), "--ntasks-per-node=2", "--cpus-per-task=1"])
        state = site.slurm.wait_job(job)
        stages = site.manifest("uneven.jsonl").get("stages", [])
        say(state["JobState"] == "COMPLETED" and site.rows("uneven.jsonl") == reference,
            "%d tasks: %s\n%s" % (tasks, state["JobState"], site.log(job)))
        counts = sorted(([s["host"] for s in stages].count(h) for h in {s["host"] for s in stages}), reverse=True)
        say(counts == hosts, "%d tasks: %s on the hosts" % (tasks, counts))


# What the site has and a test has not: modules; and, but for the long form, the time for a second build.
STAND_INS = """set -eu
module() { test "$1" = load; }
meson() { test "$1" = setup && mkdir "$2"; }
ninja() { test "$1" = -C && cp "$BUILT" "$2/lockstep"; }
"""


def blocks(path):
    """The shell commands that a document shows."""
    return re.findall(r"^```sh\n(.*?)^```", path.read_text(), re.MULTILINE | re.DOTALL)


def check_document(site):
    """docs/running.md, word for word: from git clone to a result, and the runs of the configuration file."""
    quick, = [text for text in blocks(ROOT / "docs" / "running.md") if text.startswith("git clone URL ")]
    others = [text for text in blocks(ROOT / "docs" / "running.md") if text.startswith("build/lockstep run --config ")]
    home = site.folder / "home"
    home.mkdir()
    (home / ".gitconfig").write_text("[safe]\n\tdirectory = *\n")
    env = {"HOME": str(home), "BUILT": harness.binary()}
    if not (ROOT / ".git").exists():
        print("SKIP: the document's commands: this is no clone, and there is nothing to clone from")
        return
    stand_ins = STAND_INS if not harness.LONG else "\n".join(STAND_INS.splitlines()[:2]) + "\n"
    words = stand_ins + quick.replace("git clone URL", "git clone -q '%s'" % ROOT)
    result = site.slurm.run("bash", "-c", words, env=env, cwd=home, timeout=600)
    say(result.returncode == 0, "the quick start: %d\n%s%s" % (result.returncode, result.stdout, result.stderr))
    submitted = re.search(r"Submitted batch job (\d+)", result.stdout)
    if result.returncode != 0 or not submitted:
        return
    clone = home / "lockstep"
    state = site.slurm.wait_job(submitted[1])
    log = clone / ("lockstep-%s.log" % submitted[1])
    say(state["JobState"] == "COMPLETED", "the quick start's job: %s\n%s" % (
        state["JobState"], log.read_text() if log.exists() else "no log"))
    harness.must(harness.run(0, "run", "--model", "demo", "--input", clone / "prompts.jsonl", "--output",
                             home / "one.jsonl", "--max-tokens", 64, program=str(clone / "build" / "lockstep")))
    say((clone / "out.jsonl").read_bytes() == (home / "one.jsonl").read_bytes(), "the quick start's rows are others")
    say(len(others) == 1, "%d blocks on the configuration file" % len(others))
    for text in others:
        result = site.slurm.run("bash", "-euc", text, env=env, cwd=clone)
        say(result.returncode == 0, "%s: %d\n%s" % (text, result.returncode, result.stderr))


def check_no_pmi(site):
    """srun without PMI starts processes that know nothing of each other: refused, once, with the remedy. Nor does a
    rank that starts late change the exit code, here or after bad usage."""
    late = site.folder / "late"
    late.write_text('#!/bin/sh\n[ "${SLURM_PROCID:-0}" -ne 2 ] || sleep 0.7\nexec "%s" "$@"\n' % harness.binary())
    late.chmod(0o755)
    job = site.submit("slurm/run.sbatch", "none.jsonl", "--dtype", "f7", LOCKSTEP=str(late))
    state = site.slurm.wait_job(job)
    say(state["ExitCode"] == "2:0", "bad usage: %s\n%s" % (state["ExitCode"], site.log(job)))
    for kind in ("none", "pmi2"):
        job = site.submit("slurm/run.sbatch", "none.jsonl", SITE="", MPI_TYPE=kind, LOCKSTEP=str(late))
        state = site.slurm.wait_job(job)
        lines = [line for line in site.log(job).splitlines() if "lockstep: " in line]
        say(state["ExitCode"] == "3:0" and len(lines) == 1 and "srun started 3 processes" in lines[0] and
            "--mpi=pmix" in lines[0] and "MPI_ERRORS" not in site.log(job),
            "srun --mpi=%s: %s\n%s" % (kind, state["ExitCode"], site.log(job)))
    say(not site.rows("none.jsonl"), "rows although the run was refused")


def check_batch_script(site):
    """A program that a batch script starts by itself is one rank, whatever the job's size."""
    reference = site.requests(4, 4)
    script = site.folder / "plain.sh"
    script.write_text('#!/bin/bash\nexec "$LOCKSTEP" run --model "$MODEL" --input "$INPUT" --output "$OUTPUT" '
                      '--progress none\n')
    job = site.submit(script, "plain.jsonl")
    state = site.slurm.wait_job(job)
    say(state["JobState"] == "COMPLETED" and site.rows("plain.jsonl") == reference and
        site.manifest("plain.jsonl").get("ranks") == 1 and site.manifest("plain.jsonl").get("backend") == "self",
        "in a batch script: %s\n%s" % (state["JobState"], site.log(job)))
    script.write_text('#!/bin/bash\nexport OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1\n'
                      '"$LOCKSTEP" keygen "$OUTPUT.secret"\n'
                      'exec mpirun "$LOCKSTEP" run --model "$MODEL" --input "$INPUT" --output "$OUTPUT" '
                      '--progress none --secret-file "$OUTPUT.secret"\n')
    job = site.submit(script, "mpirun.jsonl")
    state = site.slurm.wait_job(job)
    say(state["JobState"] == "COMPLETED" and site.rows("mpirun.jsonl") == reference and
        site.manifest("mpirun.jsonl").get("ranks") == 3, "mpirun in a job: %s\n%s" % (state["JobState"], site.log(job)))


def wait_for_rows(site, name, job):
    journal = site.folder / (name + ".lockstep") / "journal"
    site.slurm.wait_for(lambda: journal.exists() and journal.stat().st_size > 3000 or
                        site.slurm.job(job)["JobState"] == "FAILED", 90, "finished rows")


def check_requeue(site):
    """The signal in front of the time limit: the run drains, the job goes back into the queue and finishes."""
    reference = site.requests(100, 100)
    sbatch = ["--time=1", "--signal=USR1@45"] if harness.LONG else []
    job = site.submit("slurm/resume.sbatch", "resume.jsonl", "--max-sequences", "8", sbatch=sbatch)
    wait_for_rows(site, "resume.jsonl", job)
    if not harness.LONG:  # the same signal, sooner
        harness.must(site.slurm.run("scancel", "--signal=USR1", job))
    site.slurm.wait_for(lambda: "back into the queue" in site.log(job), 90, "the drained attempt")
    say("ended with 75" in site.log(job), "drained: %s" % site.log(job))
    before = site.rows("resume.jsonl")
    state = site.slurm.wait_job(job, seconds=300)
    say(state["JobState"] == "COMPLETED" and int(state["Restarts"]) >= 1 and site.rows("resume.jsonl") == reference and
        0 < len(before) < len(reference) and reference.startswith(before),
        "requeued: %s, %s restarts, %d of %d bytes before\n%s" % (
            state["JobState"], state["Restarts"], len(before), len(reference), site.log(job)))
    site.no_secret_left()


def check_cancel(site):
    """scancel leaves what can be gone on from."""
    reference = site.requests(100, 100)
    words = ["--max-sequences", "8"]
    job = site.submit("slurm/run.sbatch", "cancel.jsonl", *words)
    wait_for_rows(site, "cancel.jsonl", job)
    harness.must(site.slurm.run("scancel", job))
    state = site.slurm.wait_job(job)
    site.slurm.wait_for(lambda: not [p for p in site.slurm.hosts.processes() if "cancel.jsonl" in p[2]], 20,
                        "the end of all ranks")
    say(state["JobState"] == "CANCELLED" and not site.manifest("cancel.jsonl").get("complete"),
        "cancelled: %s\n%s" % (state["JobState"], site.log(job)))
    again = site.submit("slurm/run.sbatch", "cancel.jsonl", "--max-sequences", "8")
    state = site.slurm.wait_job(again, seconds=300)
    say(state["JobState"] == "COMPLETED" and site.rows("cancel.jsonl") == reference and
        "going on after" in site.log(again), "after scancel: %s\n%s" % (state["JobState"], site.log(again)))


def check_attempts(site):
    """resume.sbatch gives up after attempts in a row that finished no row; a finished row starts the count anew. With
    a stand-in for what it calls, since each real requeue takes seconds."""
    folder = site.folder / "attempts"
    folder.mkdir()
    (folder / "run.sbatch").write_text('test -e "$OUTPUT.progress" && echo row >>"$OUTPUT" && rm "$OUTPUT.progress"\n'
                                       'exit 4\n')
    (folder / "scontrol").write_text("#!/bin/sh\necho requeued >>'%s/requeues'\nkill $PPID\n" % folder)
    (folder / "scontrol").chmod(0o755)
    script = harness.FIXTURES.parent.parent / "slurm" / "resume.sbatch"
    env = {**os.environ, "SCRIPTS": str(folder), "OUTPUT": str(folder / "out"), "ATTEMPTS": "2", "SLURM_JOB_ID": "1",
           "PATH": "%s:%s" % (folder, os.environ["PATH"])}
    ends = []
    for progress in (False, True, False, False):
        if progress:
            (folder / "out.progress").touch()
        ends.append(subprocess.run(["bash", script], env=env, capture_output=True, text=True, timeout=20, check=False))
    requeues = (folder / "requeues").read_text().count("requeued")
    say([e.returncode for e in ends[:3]] == [-15] * 3 and requeues == 3, "requeues: %d, %s" % (requeues, ends))
    say(ends[3].returncode == 4 and "2 attempts in a row finished no row" in ends[3].stderr, "the limit: %s" % ends[3])


def check_sweep(site):
    """Arms in one allocation are compared; as an array each is a job."""
    site.requests(6, 6)
    arms = site.folder / "arms.txt"
    arms.write_text("# layouts\n--budget 64\n\n--layers 0-1,2-4,5-7 --window 1\n")
    job = site.submit("slurm/sweep.sbatch", "sweep.jsonl", ARMS=str(arms))
    state = site.slurm.wait_job(job)
    say(state["JobState"] == "COMPLETED" and "arm 2: the same bytes as arm 1" in site.log(job),
        "sweep: %s\n%s" % (state["JobState"], site.log(job)))
    arms.write_text("--budget 64\n--dtype f32\n")
    job = site.submit("slurm/sweep.sbatch", "differ.jsonl", ARMS=str(arms))
    state = site.slurm.wait_job(job)
    say(state["ExitCode"] == "10:0", "arms that differ: %s\n%s" % (state["ExitCode"], site.log(job)))
    job = site.submit("slurm/sweep.sbatch", "array.jsonl", ARMS=str(arms), sbatch=["--array=1-2"])
    site.slurm.wait_for(lambda: all(site.manifest("array.arm%d.jsonl" % i).get("complete") for i in (1, 2)), 60,
                        "both arms of the array")


def main():
    lab.require(slurm=True)
    checks = {name[6:]: check for name, check in globals().items() if name.startswith("check_")}
    with lab.Hosts(4) as hosts, lab.Slurm(hosts, cpus=32) as slurm:  # as many as docs/running.md asks for
        site = Site(slurm)
        for name in sys.argv[1:] or checks:
            began = time.monotonic()
            checks[name](site)
            print("%s: %.1f s" % (name, time.monotonic() - began), flush=True)
    print("%d wrong" % len(FAULTS))
    sys.exit(1 if FAULTS else 0)


if __name__ == "__main__":
    main()
