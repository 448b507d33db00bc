#!/usr/bin/env python3
"""Journal and resume through the binary: what is resumed and what is refused, standard input, a finished job, full
disks.

    resume.py [ONLY...]      (LOCKSTEP_BIN: the binary; names of checks to run)
"""
import json
import os
import pathlib
import random
import resource
import shutil
import signal
import subprocess
import sys
import time

import harness
import jobs

FAULTS = []


def say(good, what):
    if not good:
        FAULTS.append(what)
        print("WRONG: %s" % what, flush=True)


def our_lines(said):
    return [line for line in said.splitlines() if line.startswith("lockstep: ")]


def expect(code, part, ranks, *arguments, env=None):
    result = harness.run(ranks, *arguments, fresh=False, env=env)
    what = "%s on %d ranks" % (" ".join(map(str, arguments)), ranks)
    say(result.returncode == code, "%s: exit code %d, expected %d: %s" % (
        what, result.returncode, code, result.stderr[-1500:]))
    lines = our_lines(result.stderr)
    say(not part or any(part in line for line in lines), "%s: '%s' is not in %s" % (what, part, lines))
    return result


def job_folder(n=60, bad=False, seed=5):
    folder = harness.work_folder()
    (folder / "in.jsonl").write_text(jobs.requests(random.Random(seed), n, bad=bad))
    return folder, folder / "in.jsonl", folder / "out.jsonl"


def stop_early(source, out, *extra):
    """A job that is stopped when some rows are in its journal."""
    job = jobs.Started(0, jobs.command(source, out, *jobs.SLOW, *extra))
    jobs.wait_for_rows(job, out)
    job.kill([job.process.pid], signal.SIGTERM)
    code, said = job.end()
    say(code == 75, "stopped early: exit code %d, %s" % (code, said))
    return code


def check_identity():
    folder, source, out = job_folder(400)
    harness.must(harness.run(0, *jobs.command(source, folder / "whole.jsonl")))
    whole = (folder / "whole.jsonl").read_bytes()
    stop_early(source, out)
    for option, value, name in (("--seed", 3, "seed: 0, now 3"), ("--dtype", "f32", "activations: bf16, now f32"),
                                ("--context", 64, "context"), ("--digest", "none", "digest: all, now none"),
                                ("--temperature", 0.7, "temperature: not set, now 0.7;"),
                                ("--max-tokens", 3, "max-tokens"), ("--ignore-eos", None, "ignore-eos"),
                                ("--logits", folder / "logits", "logits: none, now all, safetensors")):
        words = [option] if value is None else [option, value]
        expect(3, "the journal of %s was made with another %s" % (out, name), 0, *jobs.command(source, out, *words))
    other = shutil.copytree(jobs.MODEL, folder / "model")
    config = json.loads((other / "config.json").read_text())
    (other / "config.json").write_text(json.dumps({**config, "rms_norm_eps": 2 * config["rms_norm_eps"]}))
    expect(3, "another ", 2, *jobs.command(source, out, model=other))
    expect(2, "--resume and --fresh", 0, *jobs.command(source, out, "--resume", "--fresh"))
    # nothing of this has harmed the journal, and no layout is part of the identity
    expect(0, None, 3, *jobs.command(source, out, "--budget", 33, "--kv-memory", "8M", "--link", "plain", "--resume"))
    say(out.read_bytes() == whole, "the resumed output differs")
    say(0 < jobs.manifest(out)["resumed_rows"] < 400, "nothing was resumed: %s" % jobs.manifest(out)["resumed_rows"])
    expect(0, None, 0, *jobs.command(source, out, "--seed", 3, "--fresh"))
    say(out.read_bytes() != whole, "--fresh did not start over")


def check_lines():
    folder, source, out = job_folder(20)
    lines = source.read_text().splitlines(keepends=True)
    harness.must(harness.run(0, *jobs.command(source, out)))
    whole = out.read_bytes()
    changed = folder / "changed.jsonl"
    changed.write_text("".join(lines[:6] + [lines[6].replace('"temperature": 0', '"temperature":  0')] + lines[7:]))
    expect(3, "line 7 of %s is not the one" % changed, 0, *jobs.command(changed, out))
    changed.write_text("".join(lines[:-3]))
    expect(3, "ends after line 17", 2, *jobs.command(changed, out))
    say(out.read_bytes() == whole, "a refused job changed a finished output")
    changed.write_text("".join(lines) + '{"tokens": [9, 10], "max_tokens": 2}\n')
    expect(0, None, 0, *jobs.command(changed, out))
    say(out.read_bytes().startswith(whole) and out.read_bytes().count(b"\n") == 21, "a line more is a row more")
    say(jobs.manifest(out)["resumed_rows"] == 20, "the earlier rows were not taken")


def check_finished():
    """A job that is complete computes nothing and is left alone, whatever the layout."""
    folder, source, out = job_folder(20)
    logits = folder / "logits"
    harness.must(harness.run(0, *jobs.command(source, out, "--logits", logits)))
    files = [out, *sorted(logits.iterdir())]
    before = [(f.read_bytes(), f.stat().st_mtime_ns, f.stat().st_ino) for f in files]
    expect(0, None, 3, *jobs.command(source, out, "--logits", logits))
    for f, (data, when, inode) in zip(files, before):
        say(f.read_bytes() == data, "%s changed" % f.name)
        if f.name != "index.json":
            say((f.stat().st_mtime_ns, f.stat().st_ino) == (when, inode), "%s was written again" % f.name)
    say(jobs.manifest(out)["steps"] == 0 and jobs.manifest(out)["complete"], "a finished job computed something")
    out.write_bytes(before[0][0][:-100] + b"garbage\n")
    expect(0, None, 0, *jobs.command(source, out, "--logits", logits))
    say(out.read_bytes() == before[0][0], "a damaged output was not mended from the journal")
    out.unlink()
    expect(0, None, 0, *jobs.command(source, out, "--logits", logits))
    say(out.read_bytes() == before[0][0], "a lost output was not made again")
    shutil.rmtree(str(out) + ".lockstep")
    expect(3, "--fresh replaces it", 0, *jobs.command(source, out))
    say(out.read_bytes() == before[0][0], "an output without a journal was touched")


def check_torn():
    _, source, out = job_folder(20)
    harness.must(harness.run(0, *jobs.command(source, out)))
    whole, journal = out.read_bytes(), pathlib.Path(str(out) + ".lockstep") / "journal"
    data = journal.read_bytes()
    journal.write_bytes(data[:-33])
    expect(0, "ended in a torn record", 2, *jobs.command(source, out))
    say(out.read_bytes() == whole and journal.stat().st_size == len(data), "a torn record was not made again")
    journal.write_bytes(b"something else")
    expect(3, "does not begin as a journal does", 0, *jobs.command(source, out))
    say(journal.read_bytes() == b"something else" and out.read_bytes() == whole, "another's file was touched")


def check_held():
    _, source, out = job_folder(400)
    job = jobs.Started(0, jobs.command(source, out, *jobs.SLOW))
    deadline = time.monotonic() + 30
    lock = pathlib.Path(str(out) + ".lockstep") / "lock"
    while not (jobs.is_locked(out) and lock.read_text()) and time.monotonic() < deadline:
        time.sleep(0.01)
    for ranks in (0, 2):
        expect(3, "is held by another job (host ", ranks, *jobs.command(source, out))
    job.kill([job.process.pid])
    job.end()
    say(not jobs.is_locked(out), "the lock of a killed job stays")
    expect(0, None, 0, *jobs.command(source, out))


def check_standard_input():
    folder, source, out = job_folder(400)
    harness.must(harness.run(0, *jobs.command(source, folder / "whole.jsonl")))
    whole, text = (folder / "whole.jsonl").read_bytes(), source.read_bytes()

    def piped(ranks, data, *extra):
        words = [harness.binary(), *map(str, jobs.command("-", out, *extra))]
        return subprocess.run((["mpirun", "-n", str(ranks)] if ranks else []) + words, input=data, capture_output=True,
                              env={**os.environ, **harness.MPI_ENVIRONMENT}, timeout=120, check=False)
    for ranks in (0, 2):
        result = piped(ranks, text, "--fresh")
        say(result.returncode == 0 and out.read_bytes() == whole, "standard input: %s" % result.stderr)
    job = jobs.Started(0, jobs.command("-", out, *jobs.SLOW, "--fresh"), stdin=open(source))
    jobs.wait_for_rows(job, out)
    job.kill(job.pids())
    job.end()
    result = piped(2, b"")
    say(result.returncode == 0 and out.read_bytes() == whole, "the copy of standard input: %s" % result.stderr)
    result = piped(0, text)
    say(result.returncode == 0 and out.read_bytes() == whole, "standard input again: %s" % result.stderr)
    result = piped(0, text.replace(b'"r1"', b'"q1"'))
    say(result.returncode == 3 and b"line 2 of standard input" in result.stderr, "another input: %s" % result.stderr)


# ---- full disks ----------------------------------------------------------------------------------------------------

class Tiny:
    """A small file system of its own, or None where it may not be made."""

    def __init__(self, where, kilobytes):
        self.where = where
        where.mkdir()
        self.is_there = os.geteuid() == 0 and subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=%dk" % kilobytes, "tmpfs", str(where)], capture_output=True,
            check=False).returncode == 0

    def resize(self, kilobytes):
        subprocess.run(["mount", "-o", "remount,size=%dk" % kilobytes, str(self.where)], check=True)

    def drop(self):
        if self.is_there:
            subprocess.run(["umount", str(self.where)], check=True)


def full_then_resumed(what, folder, source, ranks, tiny, whole, extra=(), grown=4096):
    out = folder / "out.jsonl"
    result = harness.run(ranks, *jobs.command(source, out, *extra), fresh=False)
    say(result.returncode == 4 and len(our_lines(result.stderr)) == 1 and "No space left" in result.stderr,
        "%s full on %d ranks: exit code %d, %s" % (what, ranks, result.returncode, result.stderr[-1500:]))
    record = pathlib.Path(str(out) + ".lockstep") / "manifest.json"
    say(not record.exists() or not record.read_text() or not json.loads(record.read_text())["complete"],
        "%s full: called complete" % what)
    tiny.resize(grown)
    result = harness.run(3 - ranks, *jobs.command(source, out, *extra), fresh=False)
    say(result.returncode == 0, "%s after space was made: %d, %s" % (what, result.returncode, result.stderr[-1500:]))
    say(out.read_bytes() == whole, "%s: the output differs" % what)


def check_disk_full():
    """Journal, output and logits run out of space one by one; with space made, the same command goes on."""
    folder, source, out = job_folder(150)
    logits = folder / "logits"
    harness.must(harness.run(0, *jobs.command(source, out, "--logits", logits)))
    whole, tensors, journal = out.read_bytes(), jobs.folder_bytes(logits), pathlib.Path(str(out) + ".lockstep")
    beside = out.with_suffix(".jsonl.lockstep")

    def clean():
        for path in (out, beside, logits):
            if path.is_symlink() or path.is_file():
                path.unlink()
            elif path.exists():
                shutil.rmtree(path)
    clean()
    half = max(8, len(whole) // 2048)
    for what in ("journal", "output", "logits"):
        tiny = Tiny(folder / ("tiny " + what), half if what != "logits" else 400)
        if not tiny.is_there:
            print("no small file system may be mounted: a limit on file sizes is tried instead")
            check_file_limit(source, out, whole)
            clean()
            return
        try:
            if what == "journal":
                journal.symlink_to(tiny.where)
            elif what == "output":
                out.symlink_to(tiny.where / "out.jsonl")
            else:
                logits.symlink_to(tiny.where)
            full_then_resumed(what, folder, source, 1 if what == "output" else 2, tiny, whole,
                              ("--logits", logits) if what == "logits" else (), 1 << 18 if what == "logits" else 4096)
            if what == "logits":
                say(jobs.folder_bytes(logits) == tensors, "the logits files differ")
            clean()
        finally:
            tiny.drop()


def check_full_before_start():
    """However little space there is: code 4 and one line that names a file; what was made in vain is not left."""
    folder, source, _ = job_folder(40)
    tiny = Tiny(folder / "tiny disk", 24)
    if not tiny.is_there:
        print("no small file system may be mounted: nothing is tried")
        return
    try:
        for pages in range(6):
            for what in ("output", "standard input", "logits", "npy"):
                fill, out, extra = tiny.where / "fill", tiny.where / "out.jsonl", []
                fill.write_bytes(b"x" * 4096 * (6 - pages))
                if what in ("logits", "npy"):
                    out = folder / "out.jsonl"
                    extra = ["--logits", tiny.where / "lg", "--logits-format",
                             "npy" if what == "npy" else "safetensors"]
                words = jobs.command("-" if what == "standard input" else source, out, *extra)
                result = subprocess.run([harness.binary(), *map(str, words)], capture_output=True, text=True,
                                        input=source.read_text(), timeout=60, check=False)
                name = "%s with %d pages free" % (what, pages)
                lines = our_lines(result.stderr)
                say(result.returncode == 4 and len(lines) == 1 and lines[0].endswith(": No space left on device") and
                    str(tiny.where) in lines[0] and (not extra or "/lg" in lines[0]),
                    "%s: %d, %s" % (name, result.returncode, lines))
                beside = pathlib.Path(str(out) + ".lockstep")
                say(not beside.exists() or any(beside.iterdir()), "%s: an empty folder is left" % name)
                say(not (beside / "lock").exists(), "%s: a lock is left" % name)
                say(not (tiny.where / "lg").exists() or any((tiny.where / "lg").iterdir()),
                    "%s: an empty folder for logits is left" % name)
                say(not (tiny.where / "lg" / "lock").exists(), "%s: a lock is left" % name)
                for path in [*tiny.where.iterdir(), beside, out]:
                    if path.is_dir():
                        shutil.rmtree(path)
                    elif path.exists():
                        path.unlink()
    finally:
        tiny.drop()


def check_file_limit(source=None, out=None, whole=None):
    if not source:
        folder, source, out = job_folder(150)
        harness.must(harness.run(0, *jobs.command(source, folder / "whole.jsonl")))
        whole = (folder / "whole.jsonl").read_bytes()
    for kilobytes in (8, 40):
        def limit(n=kilobytes * 1024):
            resource.setrlimit(resource.RLIMIT_FSIZE, (n, n))
        job = jobs.Started(0, jobs.command(source, out), preexec=limit)
        code, said = job.end()
        say(code == 4 and len(our_lines(said)) == 1 and "File too large" in said,
            "files of %d KiB at most: %d, %s" % (kilobytes, code, said))
    expect(0, None, 2, *jobs.command(source, out))
    say(out.read_bytes() == whole, "after a limit on file sizes: the output differs")


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
