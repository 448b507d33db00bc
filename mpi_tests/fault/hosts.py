#!/usr/bin/env python3
"""Several hosts under mpirun: equal output, what must agree between them, and a network that is cut.

    hosts.py [ONLY...]      (LOCKSTEP_BIN; root. One host is a network namespace with a host name of its own.)
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

import lab
import harness

MODEL = harness.FIXTURES.parent.parent / "configs" / "demo"
FAULTS = []


def say(good, what):
    if not good:
        FAULTS.append(what)
        print("WRONG: %s" % what, flush=True)


def our_lines(text):
    return [line for line in text.splitlines()
            if line.startswith("lockstep: ") and not line.startswith("lockstep: warning: ")]


class Fixture:
    def __init__(self, hosts):
        self.hosts = hosts
        self.folder = harness.work_folder()
        self.program = self.folder / "lockstep"
        shutil.copy(harness.binary(), self.program)
        self.model = self.folder / "model"
        shutil.copytree(MODEL, self.model)
        self.secret = self.folder / "secret"
        harness.must(harness.run(0, "keygen", self.secret))
        self.requests([{"id": "r%d" % i, "tokens": list(range(5 + i, 25 + 2 * i)), "max_tokens": 12,
                        "ignore_eos": True} for i in range(10)])
        harness.must(harness.run(0, *self.words("one.jsonl", secret=None), program=str(self.program)))
        self.reference = (self.folder / "one.jsonl").read_bytes()

    def requests(self, requests):
        harness.write_requests(self.folder / "in.jsonl", requests)

    def words(self, name, *extra, secret="secret"):
        return ["run", "--model", str(self.model), "--input", str(self.folder / "in.jsonl"), "--output",
                str(self.folder / name), "--progress", "none", "--digest", "all", "--threads", "1", "--silence", "8",
                *(["--secret-file", str(self.folder / secret)] if secret else []), *map(str, extra)]

    def run(self, ranks, *extra, secret="secret", name="out.jsonl", **more):
        for stale in (self.folder / name, self.folder / (name + ".lockstep")):
            shutil.rmtree(stale, ignore_errors=True) if stale.is_dir() else stale.unlink(missing_ok=True)
        return self.hosts.mpirun(ranks, [self.program, *self.words(name, *extra, secret=secret)], **more)

    def output(self, name="out.jsonl"):
        path = self.folder / name
        return path.read_bytes() if path.exists() else b""

    def refused(self, code, part, result):
        lines = our_lines(result.stderr)
        say(result.returncode == code, "exit code %d, expected %d: %s" % (result.returncode, code,
                                                                         result.stderr[-1500:]))
        say(len(lines) == 1 and part in lines[0], "'%s' is not the one line of ours: %s" % (part, lines))
        say(not self.output(), "rows although the run was refused")


def check_equal(f):
    for ranks in ([(1, 0), (1, 1), (1, 2)], [(2, 0), (1, 1)], [(1, 2), (1, 0)]):
        result = f.run(ranks)
        say(result.returncode == 0 and f.output() == f.reference, "%s: exit code %d, equal %s: %s" % (
            ranks, result.returncode, f.output() == f.reference, result.stderr[-1500:]))


def check_auto(f):
    """Packing by measure: tried on every link between hosts, and left alone, for this network is as fast as memory."""
    if not harness.can_pack():
        return
    result = f.run([(1, 0), (1, 1), (1, 2)], "--pack", "auto", "--max-sequences", 1)
    say(result.returncode == 0 and f.output() == f.reference, "--pack auto: exit code %d, equal %s: %s" % (
        result.returncode, f.output() == f.reference, result.stderr[-1500:]))
    said = json.loads((f.folder / "out.jsonl.lockstep" / "manifest.json").read_text())
    say(said["packing"] == "auto", "the manifest says %s" % said["packing"])
    for rank, stage in enumerate(said["stages"]):
        links = stage["links"]
        say(links["packing_us"] > 0, "rank %d tried nothing: %s" % (rank, links))
        say(links["tensors_packed"] == links["tensors_unpacked"] == 0, "rank %d packs: %s" % (rank, links))


def check_trace(f):
    """A host whose clock runs 5000 s ahead: in the trace its stage computes each step after the one in front did."""
    file = f.folder / "trace.json"
    words = [f.program, *f.words("out.jsonl", "--trace", file)]
    ahead = ["unshare", "--time", "--monotonic", "5000", "--fork", "--kill-child"]
    result = f.run([(1, 0), (1, 1)], "--trace", file, other_words={1: [*ahead, *words]})
    say(result.returncode == 0 and f.output() == f.reference, "trace: %d, %s" % (
        result.returncode, result.stderr[-1500:]))
    if not file.exists():
        say(False, "no trace")
        return
    events = json.loads(file.read_text())["traceEvents"]
    error_us = [e["args"]["clock_error_us"] for e in events if e["ph"] == "M"]
    steps = [{e["args"]["step"]: e for e in events if e["name"] == "compute" and e["tid"] == s} for s in (0, 1)]
    say(error_us[0] == 0 and 0 < error_us[1] < 200000, "clocks are %s us apart" % error_us)
    say(len(steps[0]) > 5 and steps[0].keys() == steps[1].keys(), "steps: %s" % [len(s) for s in steps])
    for step, before in steps[0].items():
        late = steps[1][step]["ts"] - before["ts"] - before["dur"]
        say(-error_us[1] <= late < 5000000, "step %d begins %d us after the first stage's end" % (step, late))
    print("clocks brought together to within %d us" % error_us[1])


def check_secret(f):
    """Without a secret, or with two of them, ranks on several hosts do not start."""
    f.refused(3, "keygen", f.run([(1, 0), (1, 1)], secret=None))
    harness.must(harness.run(0, "keygen", f.folder / "other"))
    other = [f.program, *f.words("out.jsonl", secret="other")]
    result = f.run([(1, 0), (1, 1)], other_words={1: other})
    say(result.returncode == 3 and "secret" in " ".join(our_lines(result.stderr)),
        "two secrets: %d, %s" % (result.returncode, result.stderr[-1500:]))


def check_program(f):
    """A byte more at the end of the file still runs, and is another build."""
    other = f.folder / "lockstep-other"
    other.write_bytes(f.program.read_bytes() + b"\0")
    other.chmod(0o755)
    result = f.run([(1, 0), (1, 1)], other_words={1: [other, *f.words("out.jsonl")]})
    f.refused(3, "rank 1 on %s runs another build of lockstep than rank 0" % f.hosts.names[1], result)


def check_checkpoint(f):
    """Host 1 has another folder at the same path: one tensor changed in shape, none at all, one byte changed."""
    other = f.folder / "model-other"
    shutil.copytree(harness.FIXTURES / "families" / "qwen3", other)
    f.hosts.at_start(1, "mount --bind '%s' '%s'" % (other, f.model))
    result = f.run([(1, 0), (1, 1)])
    f.refused(3, "rank 1 on %s sees another checkpoint than rank 0" % f.hosts.names[1], result)
    empty = f.folder / "empty"
    empty.mkdir()
    f.hosts.at_start(1, "mount --bind '%s' '%s'" % (empty, f.model))
    result = f.run([(1, 0), (1, 1)])
    f.refused(3, "rank 1 on %s" % f.hosts.names[1], result)
    shutil.rmtree(other)
    shutil.copytree(MODEL, other)
    blob = bytearray((other / "model.safetensors").read_bytes())
    blob[-1] ^= 1
    (other / "model.safetensors").write_bytes(blob)
    f.hosts.at_start(1, "mount --bind '%s' '%s'" % (other, f.model))
    f.refused(3, "sees another checkpoint", f.run([(1, 0), (1, 1)], "--check-bytes"))
    f.hosts.at_start(1, "")


def check_gone_model(f):
    f.hosts.at_start(2, "mount -t tmpfs none '%s'" % f.model)
    result = f.run([(1, 0), (1, 1), (1, 2)])
    f.refused(3, "rank 2 on %s: " % f.hosts.names[2], result)
    f.hosts.at_start(2, "")


def start_to_cut(f, words):
    """A run that has finished a row, and has many to go; what it says goes to a file, for a pipe would be open as long
    as a launcher's daemon on the other side is."""
    journal = f.folder / "cut.jsonl.lockstep" / "journal"
    shutil.rmtree(journal.parent, ignore_errors=True)
    (f.folder / "cut.jsonl").unlink(missing_ok=True)
    environment = {**os.environ, **harness.MPI_ENVIRONMENT}
    environment.pop("OMPI_MCA_btl_tcp_if_include")
    environment.pop("OMPI_MCA_oob_tcp_if_include")
    with open(f.folder / "said", "wb") as said:
        process = subprocess.Popen(f.hosts.mpirun_command([(1, 0), (1, 1), (1, 2)], words, mca=lab.KEEPALIVE),
                                   stdout=subprocess.DEVNULL, stderr=said, env=environment, stdin=subprocess.DEVNULL)
    deadline, has_row = time.monotonic() + 60, False
    while time.monotonic() < deadline and process.poll() is None and not has_row:
        time.sleep(0.05)
        has_row = journal.exists() and journal.stat().st_size > 3000
    say(process.poll() is None and has_row, "no row, or the run was over before the link was cut: %s, %s" % (
        process.poll(), (f.folder / "said").read_text(errors="replace")[-1500:]))
    return process


def check_cut(f):
    """The link of a host is cut in the middle of a run: no packet says so. The limit is 30 seconds."""
    f.requests([{"id": "r%d" % i, "tokens": list(range(5 + i, 25 + i)), "max_tokens": 400, "ignore_eos": True}
                for i in range(60)])
    for host in (1, 0):
        process = start_to_cut(f, [f.program, *f.words("cut.jsonl", "--max-sequences", 4, "--cpu", "ref")])
        f.hosts.cut(host)
        began = time.monotonic()
        try:
            process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            say(False, "link of host %d cut: no end after 60 s" % host)
            process.kill()
            process.wait()
        took, said = time.monotonic() - began, (f.folder / "said").read_text(errors="replace")
        print("link of host %d cut: %.1f s, code %s, %s" % (host, took, process.returncode, our_lines(said)))
        say(took < 30 and process.returncode != 0, "link of host %d cut: %.1f s, code %s" % (host, took,
                                                                                         process.returncode))
        say(any("no sign of life" in line for line in our_lines(said)) or host == 0,
            "no line on the cut link: %s" % said[-1500:])
        end, left = time.monotonic() + 20, True
        while left and time.monotonic() < end:
            time.sleep(0.2)
            left = [p for p in f.hosts.processes() if "cut.jsonl" in p[2]]
        say(not left, "left behind: %s" % left)
        for _, pid, _ in left:
            os.kill(pid, 9)
        f.hosts.mend(host)


def main():
    lab.require()
    checks = {name[6:]: check for name, check in globals().items() if name.startswith("check_")}
    with lab.Hosts(3) as hosts:
        fixture = Fixture(hosts)
        for name in sys.argv[1:] or checks:
            began = time.monotonic()
            checks[name](fixture)
            print("%s: %.1f s" % (name, time.monotonic() - began), flush=True)
    print("%d wrong" % len(FAULTS))
    sys.exit(1 if FAULTS else 0)


if __name__ == "__main__":
    main()
