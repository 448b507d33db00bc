#!/usr/bin/env python3
"""`lockstep parity`: sweeps through the real binary.

Equal arms, arms that differ and where they part, arms that fail and why, dumps of others; every figure of a differing
arm against this script's own computation over the two sets of logits; a sweep that is killed and goes on; what is
refused. --long adds the ready sweeps of configs/sweeps (the layout sweep has 50 arms).
"""
import json
import math
import os
import pathlib
import shutil
import signal
import struct
import subprocess
import sys
import time
import xml.etree.ElementTree

import harness
from parity_figures import check_comparison, read_logits

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PROMPTS = [
    {"custom_id": "sum", "prompt": "Q: What is 12+9?\nA:", "max_tokens": 5},
    {"custom_id": "ids", "tokens": [5, 6, 7, 8, 9, 10, 11], "max_tokens": 0},
    {"custom_id": "several", "prompt": ["12+9=", "17 is"], "n": 2, "max_tokens": 3, "temperature": 0.9, "seed": 4},
    {"custom_id": "broken", "prompt": 5},
    {"custom_id": "scored", "request_type": "loglikelihood", "context": "17 is", "continuation": " seventeen"},
    {"custom_id": "long", "prompt": "The opposite of hot is", "max_tokens": 24},
]


def parity(folder, sweep, *words, code=0, start=True, **extra):
    """Writes the sweep as JSON, which is YAML, and runs it in `folder`."""
    path = folder / (sweep["name"] + ".yaml")
    path.write_text(json.dumps(sweep))
    command = [harness.binary(), "parity", "--config", path.name, *map(str, words)]
    options = dict(cwd=folder, env={**os.environ, **harness.MPI_ENVIRONMENT}, stdin=subprocess.DEVNULL,
                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **extra)
    if not start:
        return subprocess.Popen(command, **options)
    return harness.must(subprocess.run(command, timeout=300, check=False, **options), code)


def report_of(folder, name):
    return json.loads((folder / name / "report.json").read_text())


def sweep_of(name, **more):
    return {"name": name, "prompts": "prompts.jsonl", "output": name, "defaults": {"model": "demo", "max-tokens": 4},
            "reference": {"name": "one", "threads": 1}, **more}


def expect(what, value, wanted):
    if value != wanted:
        sys.exit("%s: %r, expected %r" % (what, value, wanted))


# ---- arms ----------------------------------------------------------------------------------------------------------

def small(folder):
    """Equal, different and failing arms, two at a time; all figures; the files; the same again is all there."""
    waits = folder / "never.sh"
    waits.write_text("#!/bin/sh\nexec sleep 1000\n")
    waits.chmod(0o755)
    sweep = sweep_of("small", slots=3, timeout=20, arms=[
        {"name": "two ranks", "stages": 2}, {"name": "f32 <&>", "dtype": "f32"}, {"name": "too many", "stages": 20},
        {"name": "none", "binary": "./none"}, {"name": "own environment", "env": {"LOCKSTEP_TEST": "x=y"}}],
        grid={"budget": [16, 64], "chunk": [8, 32], "exclude": [{"budget": 16, "chunk": 32}],
              "include": [{"layers": "0-0,1-7", "link": "plain"}]})
    said = parity(folder, sweep, code=11)
    report = report_of(folder, "small")
    status = {arm["name"]: arm["status"] for arm in report["arms"]}
    expect("statuses", status, {
        "two ranks": "equal", "f32 <&>": "different", "too many": "failed", "none": "failed",
        "own environment": "equal",
        "budget=16 chunk=8": "equal", "budget=64 chunk=8": "equal", "budget=64 chunk=32": "equal",
        "layers=0-0,1-7 link=plain": "equal"})
    expect("verdict", (report["verdict"], report["counts"]),
           ("failed", {"arms": 9, "equal": 6, "different": 1, "failed": 2}))
    by_name = {arm["name"]: arm for arm in report["arms"]}
    if "20 ranks but the model has only 8 layers" not in by_name["too many"]["reason"]:
        sys.exit("reason: " + by_name["too many"]["reason"])
    expect("reason", by_name["none"]["reason"], "./none cannot be started: No such file or directory")
    if said.stdout.count("equal") < 12 or "6 of 9 arms equal, 1 different, 2 failed" not in said.stdout:
        sys.exit("table:\n" + said.stdout)
    check_junit(folder / "small" / "junit.xml")
    timings = json.loads((folder / "small" / "timings.json").read_text())
    expect("timings", [arm["name"] for arm in timings["arms"]], ["one"] + list(status))
    if not all(arm["free"]["wall_s"] > 0 for arm in timings["arms"] if status.get(arm["name"]) != "failed"):
        sys.exit("timings: %r" % timings)
    check_store(folder, "small", report)
    check_figures(folder, "small", by_name["f32 <&>"])
    repeat(folder, by_name["two ranks"])
    before = (folder / "small" / "report.json").read_bytes()
    stamps = {p.name: p.stat().st_mtime_ns for p in (folder / "small" / "results").iterdir()}
    parity(folder, sweep, code=11)
    expect("report of the same again", (folder / "small" / "report.json").read_bytes(), before)
    expect("results", {p.name: p.stat().st_mtime_ns for p in (folder / "small" / "results").iterdir()}, stamps)


def check_junit(path):
    suite = xml.etree.ElementTree.parse(path).getroot()
    expect("junit", (suite.get("tests"), suite.get("failures"), suite.get("errors")), ("9", "1", "2"))
    failed = [case.get("name") for case in suite if case.find("failure") is not None]
    expect("junit's failures", failed, ["f32 <&>"])


def check_figures(folder, name, arm):
    """Every figure of both phases, from the two sets of logits."""
    index = "%03d" % (1 + [a["name"] for a in report_of(folder, name)["arms"]].index(arm["name"]))
    for phase in ("free", "forced"):
        run = repeat_arm(folder, name, arm, phase)
        check_comparison(arm[phase], folder / name, phase, index, read_logits(run / "logits"))


def repeat_arm(folder, name, arm, phase):
    """The arm's own command, as the report says it."""
    again = folder / ("again " + phase)
    words = [word.replace("{output}/again", str(again)).replace("{output}", str(folder / name))
             for word in arm["command"][phase]]
    again.mkdir(exist_ok=True)
    result = subprocess.run(words, cwd=folder, env={**os.environ, **harness.MPI_ENVIRONMENT}, capture_output=True,
                            text=True, check=False, timeout=120)
    if result.returncode not in (0, 10):
        sys.exit("%r: %s" % (words, result.stderr))
    return again


def repeat(folder, arm):
    expect("command", arm["command"]["free"][:3], ["mpirun", "-n", "2"])


def check_store(folder, name, report):
    """An equal arm costs next to nothing; one that differs reads back as it was."""
    logits = folder / name / "logits"
    for i, arm in enumerate(report["arms"], 1):
        if arm["status"] == "failed":
            continue
        for phase in ("free", "forced"):
            path = logits / ("%03d-%s.diff" % (i, phase))
            expect("place", arm["logits"][phase], "logits/" + path.name)
            size, code = path.stat().st_size, 0 if arm["status"] == "equal" else 10
            if arm["status"] == "equal" and size > 1000:
                sys.exit("%s: %d bytes for an equal arm" % (path, size))
            harness.must(harness.run(0, "compare", path, logits / ("000-" + phase)), code)
            if code:
                again = repeat_arm(folder, name, arm, phase)
                harness.must(harness.run(0, "compare", path, again / "logits"))
                export(folder, path, again / "logits")


def export(folder, path, logits):
    """The same as one safetensors file."""
    out = folder / "exported.safetensors"
    harness.must(harness.run(0, "export", path, out))
    for name, (shape, data) in read_logits(logits).items():
        got = harness.read_safetensors(out)[name]
        expect(name, (got[0], bytes(got[1])), (shape, bytes(data)))
    harness.must(harness.run(0, "compare", out, path), 0)
    damaged = folder / "damaged.diff"
    image = bytearray(path.read_bytes())
    image[len(image) // 2] ^= 4
    damaged.write_bytes(image)
    if "digest" not in harness.must(harness.run(0, "compare", damaged, path), 3).stderr:
        sys.exit("a damaged store was read")
    moved = folder / "moved.diff"
    moved.write_bytes(path.read_bytes())
    harness.must(harness.run(0, "compare", moved, path), 2)  # its reference is not beside it


# ---- dumps ---------------------------------------------------------------------------------------------------------

def npy(path, shape, data, code):
    head = "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }" % (code, ", ".join(map(str, shape)))
    head += " " * (-(len(head) + 11) % 64) + "\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + data)


def dumps(folder):
    """Logits of another program: moved a little, in 16 bits, in npy files, with tensors that are missing."""
    sweep = sweep_of("base", mode="forced", arms=[{"name": "two", "stages": 2}])
    parity(folder, sweep)
    logits = read_logits(folder / "base" / "logits" / "000-forced")
    for name in ("moved", "halved", "arrays", "short"):
        (folder / name).mkdir()
    moved = {}
    for name, (shape, data) in logits.items():
        values = [x + (0.75 * math.sin(i * 0.37) if i // shape[1] % 2 else 0.0) for i, x in enumerate(data)]
        values[3] = -0.0
        moved["l." + name] = ("F32", [1] + shape, harness.float_bytes(values, "F32"))
        npy(folder / "arrays" / (name + ".npy"), shape, harness.float_bytes(values, "F16"), "<f2")
    harness.write_safetensors(folder / "moved" / "all.safetensors", moved)
    halved = {name: ("BF16", shape, harness.float_bytes(data, "BF16")) for name, (shape, data) in logits.items()}
    harness.write_safetensors(folder / "halved.safetensors", halved)
    del halved["long"]
    harness.write_safetensors(folder / "short" / "x.safetensors", halved)
    (folder / "moved.map").write_text("logits: {file: all.safetensors, tensor: 'l.{id}'}\n")
    (folder / "arrays.map").write_text('{"logits": {"file": "{id}.npy"}}')
    (folder / "short.map").write_text("logits: {file: x.safetensors, tensor: '{id}'}\n")
    sweep = sweep_of("dumps", mode="forced", arms=[
        {"name": "moved", "dump": "moved", "mapping": "moved.map"}, {"name": "halved", "dump": "halved.safetensors"},
        {"name": "arrays", "dump": "arrays", "mapping": "arrays.map"},
        {"name": "short", "dump": "short", "mapping": "short.map"},
        {"name": "same", "dump": "base/logits/000-forced"}, {"name": "none", "dump": "nowhere"}])
    parity(folder, sweep, code=11)
    arms = {arm["name"]: arm for arm in report_of(folder, "dumps")["arms"]}
    expect("statuses", [arm["status"] for arm in arms.values()],
           ["different", "different", "different", "failed", "equal", "failed"])
    if "no tensor 'long'" not in arms["short"]["reason"]:
        sys.exit(arms["short"]["reason"])
    values = harness.read_safetensors(folder / "moved" / "all.safetensors")
    check_comparison(arms["moved"]["forced"], folder / "dumps", "forced", None,
                     {name[2:]: (shape[1:], data) for name, (shape, data) in values.items()})
    expect("a dump's location", json.loads((folder / "dumps" / "locate" / "001.json").read_text()),
           {"why": "it is a dump"})
    if not arms["moved"]["forced"]["flips"]["count"]:
        sys.exit("the moved logits flip nothing: the test shows nothing")
    words = harness.read_safetensors(folder / "halved.safetensors")
    check_comparison(arms["halved"]["forced"], folder / "dumps", "forced", None,
                     {name: (shape, [struct.unpack("<f", struct.pack("<I", w << 16))[0] for w in data])
                      for name, (shape, data) in words.items()})
    reference_dump(folder)


def reference_dump(folder):
    """The dump as the reference: its tokens are the prompts'."""
    sweep = sweep_of("turned", mode="forced", prompts="base/forced.jsonl", arms=[{"name": "run"}])
    sweep["reference"] = {"name": "others", "dump": "base/logits/000-forced"}
    parity(folder, sweep)
    arm = report_of(folder, "turned")["arms"][0]
    expect("a dump for reference", (arm["status"], arm["forced"]["requests"]), ("equal", 8))


# ---- endings -------------------------------------------------------------------------------------------------------

def waiting_binary(folder):
    """The program itself, as soon as the file `go` is there: what is to be killed is never over too early."""
    script = folder / "waiting.sh"
    script.write_text("#!/bin/sh\necho $$ >waits.pid\nwhile [ ! -e go ]; do sleep 0.1; done\nexec '%s' \"$@\"\n" %
                      harness.binary())
    script.chmod(0o755)


def has_ended(pid):
    try:
        return "Z" in pathlib.Path("/proc/%d/stat" % pid).read_text().split(")")[1][:3]
    except FileNotFoundError:
        return True


def wait_for_end(pid, what):
    for _ in range(100):
        if has_ended(pid):
            return
        time.sleep(0.1)
    sys.exit("%s goes on without its sweep" % what)


def wait_for(path, process):
    for _ in range(600):
        if path.exists():
            return
        if process.poll() is not None:
            sys.exit("ended early: %s" % (process.communicate(),))
        time.sleep(0.1)
    sys.exit("%s did not appear" % path)


def wait_for_arm(path, process):
    """The process of the arm that waits; the file that says it is taken away."""
    for _ in range(600):
        if path.exists() and path.read_text().endswith("\n"):
            break
        wait_for(path, process)
        time.sleep(0.02)
    pid = int(path.read_text())
    path.unlink()
    return pid


def killed(folder):
    """Killed and stopped in the middle, resumed: the report of a sweep that nobody disturbed."""
    waiting_binary(folder)
    arms = [{"name": "f32", "dtype": "f32"}, {"name": "waits", "binary": "./waiting.sh"}, {"name": "two", "stages": 2}]
    for name, how, code in (("killed", signal.SIGKILL, -9), ("stopped", signal.SIGTERM, 75)):
        process = parity(folder, sweep_of(name, arms=arms), start=False)
        wait_for(folder / name / "results" / "001-forced", process)
        pid = wait_for_arm(folder / "waits.pid", process)
        process.send_signal(how)
        process.communicate(timeout=60)
        expect("exit code", process.returncode, code)
        wait_for_end(pid, "the arm")
        if (folder / name / "report.json").exists():
            sys.exit("a report before the end")
    stamp = (folder / "killed" / "results" / "001-free").stat().st_mtime_ns
    (folder / "go").touch()
    for name in ("killed", "stopped", "whole"):
        parity(folder, sweep_of(name, arms=arms, locate=name != "stopped"), code=10)
        expect("locations of " + name, [path.name for path in (folder / name / "locate").iterdir()],
               [] if name == "stopped" else ["001.json"])
    expect("an arm that was done", (folder / "killed" / "results" / "001-free").stat().st_mtime_ns, stamp)
    texts = [(folder / name / "report.json").read_text().replace('"name": "%s"' % name, "") for name in
             ("killed", "stopped", "whole")]
    if not texts[0] == texts[1] == texts[2]:
        sys.exit("the report of a sweep that was disturbed is another one")
    changed(folder, arms)


def changed(folder, arms):
    """A folder of another sweep is refused by name; a program that was replaced is another sweep, too."""
    sweep = sweep_of("whole", arms=arms + [{"name": "more"}])
    if "'arms' has changed" not in parity(folder, sweep, code=3).stderr:
        sys.exit("another sweep's folder was taken")
    os.utime(folder / "waiting.sh", (1, 1))
    if "'programs' has changed" not in parity(folder, sweep_of("whole", arms=arms), code=3).stderr:
        sys.exit("another program's results were taken")
    parity(folder, sweep_of("whole", arms=arms), "--fresh", code=10)


def slow(folder):
    """An arm that does not end is stopped, and what it started with it."""
    script = folder / "stuck.sh"
    script.write_text("#!/bin/sh\nsleep 1234 &\necho $! >stuck.pid\nsleep 1234\n")
    script.chmod(0o755)
    parity(folder, sweep_of("slow", timeout=2, mode="free", arms=[{"name": "stuck", "binary": "./stuck.sh"}]), code=11)
    expect("reason", report_of(folder, "slow")["arms"][0]["reason"], "did not end within 2 s")
    if not has_ended(int((folder / "stuck.pid").read_text())):
        sys.exit("what the arm started is left behind")


def reasons(folder):
    """A reason is what the program says, else the launcher's first words, whatever rules are drawn around them."""
    rule = "-" * 70
    said = {"launcher": [rule, "No slots are left.", "More about it.", rule],
            "program": [rule, "A rank failed.", "lockstep: warning: slow", "lockstep: no such thing", rule],
            "nothing": [rule, "", "1234"]}
    for name, lines in said.items():
        script = folder / (name + ".sh")
        script.write_text("#!/bin/sh\ncat <<'END'\n%s\nEND\nexit 9\n" % "\n".join(lines))
        script.chmod(0o755)
    parity(folder, sweep_of("reasons", mode="free", arms=[{"name": n, "binary": "./%s.sh" % n} for n in said]), code=11)
    expect("reasons", [arm["reason"] for arm in report_of(folder, "reasons")["arms"]],
           ["exit code 9: No slots are left.", "exit code 9: no such thing", "exit code 9"])


def spoiled(folder):
    """The demo model with one weight of a norm in layer 1 doubled or halved."""
    shutil.copytree(ROOT / "configs" / "demo", folder)
    path = folder / "model.safetensors"
    image = bytearray(path.read_bytes())
    size = struct.unpack("<Q", image[:8])[0]
    at = json.loads(image[8:8 + size])["model.layers.1.input_layernorm.weight"]["data_offsets"][0]
    image[8 + size + at] ^= 0x80
    path.write_bytes(image)


def located(folder):
    """Where differing arms part: at the request and row that the comparison names; or why it is not known."""
    for name, line in (("same", ""), ("mute", "[ $1 = run ] || { echo lockstep: no taps; exit 3; }\n")):
        (folder / (name + ".sh")).write_text("#!/bin/sh\n%sexec '%s' \"$@\"\n" % (line, harness.binary()))
        (folder / (name + ".sh")).chmod(0o755)
    spoiled(folder / "other model")
    harness.write_requests(folder / "two.jsonl", [PROMPTS[1], PROMPTS[0]])
    sweep = sweep_of("located", prompts="two.jsonl", mode="forced", arms=[
        {"name": "longer", "dtype": "f32", "context": 300}, {"name": "f32", "dtype": "f32"},
        {"name": "two", "stages": 2}, {"name": "other", "model": "other model", "stages": 2},
        {"name": "script", "dtype": "f32", "binary": "./same.sh"},
        {"name": "mute", "dtype": "f32", "binary": "./mute.sh"}],
        grid={"model": "other model", "budget": [8, 9, 10, 11]})
    parity(folder, sweep, code=10)
    arms = report_of(folder, "located")["arms"]
    files = {path.name: path.read_bytes() for path in (folder / "located" / "locate").iterdir()}
    found = [json.loads(files["%03d.json" % i]) if arm["status"] == "different" else None
             for i, arm in enumerate(arms, 1)]
    expect("locations", len(files), 9)
    expect("why not", [f and f.get("why") for f in found],
           ["its context is not the reference's", None, None, None, None,
            "exit code 4: ./mute.sh ended with 3, expected 0: lockstep: no taps", None, None, None,
            "only the first 8 differing arms are located"])
    for arm, place in zip(arms, found):
        if place and "why" not in place:
            first = arm["forced"]["first_difference"]
            expect(arm["name"], (place["request"], place["row"]), (first["request"], first["position"]))
            expect(arm["name"], len(place["growth"]), place["layers"] + 2)
    expect("another model", (found[3]["layer"], found[3]["operation"]), (1, "attn_norm"))
    expect("another program", (found[4]["layer"], found[4]["operation"]), (found[1]["layer"], found[1]["operation"]))
    page = (folder / "located" / "report.html").read_text()
    if "attn_norm" not in page.rsplit("<script", 2)[1]:
        sys.exit("the page has no location")
    before = (folder / "located" / "report.json").read_bytes()
    (folder / "located" / "locate" / "004.json").unlink()
    stamp = (folder / "located" / "locate" / "002.json").stat().st_mtime_ns
    parity(folder, sweep, code=10)
    expect("report of the same again", (folder / "located" / "report.json").read_bytes(), before)
    expect("locations of the same again", {path.name: path.read_bytes() for path in
                                           (folder / "located" / "locate").iterdir()}, files)
    expect("a location that was there", (folder / "located" / "locate" / "002.json").stat().st_mtime_ns, stamp)


def interrupted(folder):
    """A locator ends with its sweep, and the next one locates what is missing."""
    script = folder / "hang.sh"
    script.write_text("#!/bin/sh\n[ $1 = run ] || [ -e free ] || { echo $$ >hang.pid; exec sleep 1234; }\n"
                      "exec '%s' \"$@\"\n" % harness.binary())
    script.chmod(0o755)
    sweep = sweep_of("interrupted", prompts="two.jsonl", mode="forced",
                     arms=[{"name": "f32", "dtype": "f32", "binary": "./hang.sh"}])
    for how, code in ((signal.SIGKILL, -9), (signal.SIGTERM, 75)):
        process = parity(folder, sweep, start=False)
        pid = wait_for_arm(folder / "hang.pid", process)
        process.send_signal(how)
        process.communicate(timeout=60)
        expect("exit code", process.returncode, code)
        wait_for_end(pid, "the locator")
        expect("locations", list((folder / "interrupted" / "locate").iterdir()), [])
    (folder / "free").touch()
    parity(folder, sweep, code=10)
    expect("layer", json.loads((folder / "interrupted" / "locate" / "001.json").read_text())["layer"], 0)


HEAD = "prompts: prompts.jsonl\ndefaults: {model: demo}\nreference: {}\n"
BAD = [
    ("prompts: prompts.jsonl\nreference: {model: demo}\n", "no arm beside the reference"),
    ("reference: {model: demo}\narms: [{name: a}]\n", "no 'prompts'"),
    ("prompts: prompts.jsonl\narms: [{name: a}]\n", "no 'reference'"),
    ("prompts: p\nreference: {model: demo}\narms: [{name: a, model: demo}]\noutput: x\n", "prompts p: "),
    ("prompts: prompts.jsonl\nreferense: {model: demo}\n",
     "2: unknown key 'referense'; the nearest known one is 'reference'"),
    (HEAD + "arms: [{name: a, bugdet: 3}]\n", "unknown key 'bugdet'; the nearest known one is 'budget'"),
    (HEAD + "arms: [{name: a, output: 3}]\n", "'output' is set by the sweep itself"),
    (HEAD + "arms: [{name: a, budget: -3}]\n", "4: budget"),
    (HEAD + "arms: [{budget: 3}]\n", "an arm without a name"),
    (HEAD + "arms: [{name: reference}]\n", "a second arm"),
    (HEAD + "arms: [{name: a, dump: x}]\n", "needs 'mode: forced'"),
    (HEAD + "arms: [{name: a, threads: 2}]\n", "no output"),
    (HEAD + "grid: {budget: []}\n", "the axis 'budget' has no values"),
    (HEAD + "grid: {budget: [1], exclude: [{bugdet: 1}]}\n",
     "unknown key 'bugdet'; the nearest known one is 'budget'"),
    ("prompts: prompts.jsonl\nreference: {model: demo}\narms: [{name: a}]\n", "arm 'a' has no model"),
    ("prompts: prompts.jsonl\nmode: all\n", "mode is 'all', expected both, forced or free"),
    ("prompts: prompts.jsonl\nslots: 0\n", "slots is '0', expected a number"),
    ("prompts: prompts.jsonl\nprompts: x\n", "'prompts' is given a second time"),
    ("prompts: &a x\n", "a tag or an anchor"),
    ("prompts: [\n", "bad.yaml:"),
    ("- a\n", "expected 'key: value' lines"),
]


def refused(folder):
    for text, wanted in BAD:
        (folder / "bad.yaml").write_text(text)
        result = subprocess.run([harness.binary(), "parity", "--config", "bad.yaml"], cwd=folder, capture_output=True,
                                text=True, check=False, timeout=60)
        if result.returncode != 2 or wanted not in result.stderr or result.stderr.count("\n") != 1:
            sys.exit("%r: code %d, %r, expected %r" % (text, result.returncode, result.stderr, wanted))
    words = ["mpirun", "-n", "2", harness.binary(), "parity", "--config", "bad.yaml"]
    ranks = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False, timeout=60,
                           env={**os.environ, **harness.MPI_ENVIRONMENT})
    if ranks.returncode != 2 or "start it without mpirun or srun" not in ranks.stderr:
        sys.exit("under mpirun: %d %s" % (ranks.returncode, ranks.stderr))


def ready_sweeps(folder):
    """The sweeps that people find: all arms equal, but where they are meant to differ."""
    for name, code in (("layout", 0), ("cpu", 0), ("link", 0), ("dtype", 10)):
        began = time.monotonic()
        words = [harness.binary(), "parity", "--config", "configs/sweeps/%s.yaml" % name,
                 "--output", str(folder / name)]
        result = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False, timeout=900,
                                env={**os.environ, **harness.MPI_ENVIRONMENT})
        took = time.monotonic() - began
        report = report_of(folder, name)
        lacking = [arm for arm in report["arms"] if "this CPU lacks it" in (arm["reason"] or "")]
        harness.must(result, 11 if lacking else code)
        if report["counts"]["failed"] > len(lacking) or (report["counts"]["different"] and not code):
            sys.exit("%s: %s" % (name, report["counts"]))
        print("%s: %d arms in %.0f s" % (name, len(report["arms"]), took))
        if name == "layout":
            if len(report["arms"]) < 40:
                sys.exit("only %d arms" % len(report["arms"]))
            sizes = {p.name: sum(f.stat().st_size for f in ([p] if p.is_file() else p.iterdir()))
                     for p in (folder / name / "logits").iterdir()}
            one = sizes["000-free"] + sizes["000-forced"]
            print("store: %.4f of one run" % (sum(sizes.values()) / one))
            if sum(sizes.values()) >= 1.05 * one:
                sys.exit("the store is too large")


def main():
    folder = harness.work_folder()
    harness.write_requests(folder / "prompts.jsonl", PROMPTS)
    refused(folder)
    small(folder)
    dumps(folder)
    killed(folder)
    slow(folder)
    reasons(folder)
    located(folder)
    interrupted(folder)
    if harness.LONG:
        ready_sweeps(folder)


if __name__ == "__main__":
    main()
