#!/usr/bin/env python3
"""What a user can get wrong, and what must come of it: one line of ours on standard error, the documented exit code,
no stuck rank, no core. And the commands that only print.

    usage.py [ONLY...]      (LOCKSTEP_BIN: the binary; names of checks to run)
"""
import json
import os
import pathlib
import resource
import shutil
import signal
import stat
import subprocess
import sys
import time

import harness

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
DEMO = ROOT / "configs" / "demo"
QWEN = harness.FIXTURES / "families" / "qwen3"
COMMANDS = ["run", "plan", "inspect", "compare", "show", "status", "selftest", "verify", "version"]
FAULTS = []


def say(good, what):
    if not good:
        FAULTS.append(what)
        print("WRONG: %s" % what, flush=True)


def our_lines(result):
    """Without warnings: more ranks than cores are one, and tests start many."""
    return [line for line in result.stderr.splitlines()
            if line.startswith("lockstep: ") and not line.startswith("lockstep: warning: ")]


def refused(code, part, ranks, *arguments, env=None):
    """The run ends with `code` and says exactly one line of ours, which holds `part`."""
    started = time.monotonic()
    result = harness.run(ranks, *arguments, timeout=120, env=env)
    lines, what = our_lines(result), "%s on %d ranks" % (" ".join(map(str, arguments)), ranks)
    say(result.returncode == code, "%s: exit code %d, expected %d\n%s" % (
        what, result.returncode, code, result.stderr[-1500:]))
    say(len(lines) == 1, "%s: %d lines of ours: %s" % (what, len(lines), lines))
    say(any(part in line for line in lines), "%s: '%s' is not in %s" % (what, part, lines))
    say("Signal" not in result.stderr and "core dumped" not in result.stderr, "%s: crashed" % what)
    say(time.monotonic() - started < 60, "%s: took over a minute" % what)


def job(folder, *arguments, model=DEMO, name="out.jsonl"):
    return ["run", "--model", model, "--input", folder / "in.jsonl", "--output", folder / name, "--progress", "none",
            *arguments]


def folder_with_input(requests=None):
    folder = harness.work_folder()
    harness.write_requests(folder / "in.jsonl", requests or [
        {"prompt": "12+9=", "max_tokens": 2}, {"tokens": [1, 2, 3], "max_tokens": 3}])
    return folder


# ---- wrong words ---------------------------------------------------------------------------------------------------

def check_words():
    folder = folder_with_input()
    for ranks in (0, 2):
        refused(2, "unknown option '--thread' of run; the nearest known one is '--threads'", ranks, "run", "--thread",
                3)
        refused(2, "unknown command 'rum'; the nearest known one is 'run'", ranks, "rum")
        refused(2, "--dtype: 'bf15' is not one of auto|f32", ranks, *job(folder, "--dtype", "bf15"))
        refused(2, "run needs --model DIR", ranks, "run", "--input", "x", "--output", "y")
    refused(2, "unexpected word 'more'", 0, *job(folder), "more")
    refused(2, "--top-k is an option of run, not of plan", 0, "plan", "--model", "demo", "--top-k", 3)
    refused(2, "--threads: 'two' is not a whole number", 0, *job(folder, "--threads", "two"))
    refused(2, "--kv-memory", 0, *job(folder, "--kv-memory", "1.5X"))
    refused(2, "--temperature: 3 is outside 0 to 2", 0, *job(folder, "--temperature", "3"))
    refused(2, "top-p is 0", 0, *job(folder, "--top-p", "0"))
    refused(2, "compare needs A B, found 1 of 2", 0, "compare", DEMO / "model.safetensors")
    refused(2, "inspect needs a checkpoint folder", 0, "inspect")
    refused(2, "--max-tokens: 2147483648 is outside 0 to 2147483647", 0, *job(folder, "--max-tokens", 1 << 31))
    for ranks in (0, 2):
        refused(2, "--json needs --dry-run", ranks, *job(folder, "--json"))
    say(not (folder / "out.jsonl").exists(), "a refused run left an output")
    result = harness.run(0)
    say(result.returncode == 2 and "Usage:" in result.stderr, "no command: usage on standard error, exit code 2")


def check_words_of_one():
    """Words that are wrong on rank 1 only (after mpirun's colon): it is named, and rank 0 does not wait for it."""
    folder = folder_with_input()
    words = list(map(str, job(folder)))
    for wrong, part in ([*words, "--thread", "3"], "unknown option '--thread' of run"), (["rum"], "unknown command"), (
            [], "no command"):
        began = time.monotonic()
        result = harness.run(1, *words, ":", "-n", 1, harness.binary(), *wrong, fresh=False)
        lines = our_lines(result)
        say(result.returncode == 2 and len(lines) == 1 and lines[0].startswith("lockstep: rank 1 on ") and
            part in lines[0], "rank 1 with %s: exit code %d, %s" % (wrong, result.returncode, result.stderr[-1500:]))
        say(time.monotonic() - began < 30, "rank 1 with %s: %.0f s" % (wrong, time.monotonic() - began))


def check_config():
    folder = folder_with_input()
    config = folder / "run.yaml"

    def with_text(text, code, part, *extra, ranks=0):
        config.write_text(text)
        refused(code, part, ranks, "run", "--config", config, *extra)

    for ranks in (0, 2):
        with_text("model: demo\nthread: 3\n", 2, "run.yaml:2: unknown key 'thread'; the nearest known one is 'threads'",
                  ranks=ranks)
    with_text("model: demo\nmodel: demo\n", 2, "run.yaml:2: 'model' is given a second time")
    with_text("threads: many\n", 2, "run.yaml:1: threads: 'many' is not a whole number")
    with_text("model: [a]\n", 2, "run.yaml:1: model is not a single value")
    with_text("model: demo\n", 2, "run needs --input FILE")
    refused(2, "--config %s" % (folder / "absent.yaml"), 2, "run", "--config", folder / "absent.yaml")
    config.write_text("model: demo\ninput: %s\noutput: %s\nprogress: none\nseed: 7\n" % (
        json.dumps(str(folder / "in.jsonl")), json.dumps(str(folder / "out.jsonl"))))
    harness.must(harness.run(2, "run", "--config", config, "--seed", 8))
    manifest = json.loads((folder / "out.jsonl.lockstep" / "manifest.json").read_text())
    say(manifest["seed"] == 8, "the command line does not win over the file")
    config.write_text("model: demo\ndry-run: true\n")
    for ranks in (0, 2):
        result = harness.must(harness.run(ranks, "run", "--config", config))
        say(result.stdout.count("\n rank replica ") == 1, "dry-run in a file: one plan, not\n%s" % result.stdout)


def check_print_config():
    folder = folder_with_input()
    (folder / "a.yaml").write_text("threads: 2\nkv-memory: 512M\n")
    for ranks in (0, 2):
        first = harness.must(harness.run(ranks, "run", "--config", folder / "a.yaml", "--print-config", "--model",
                                         'odd "name"\\: #x', "--top-p", "0.5")).stdout
        say("threads: 2  # %s:1" % (folder / "a.yaml") in first, "no source of threads in\n%s" % first)
        say("top-p: 0.5  # command line" in first, "no source of top-p")
        say("dtype: auto  # default" in first, "no source of dtype")
        (folder / "b.yaml").write_text(first)
        second = harness.must(harness.run(ranks, "run", "--config", folder / "b.yaml", "--print-config")).stdout

        def values(text):
            return [line.split("  # ")[0] for line in text.splitlines()[1:] if not line.startswith("#")]
        say(values(first) == values(second), "--print-config does not round-trip:\n%s\n%s" % (first, second))


# ---- files ---------------------------------------------------------------------------------------------------------

def check_files():
    folder = folder_with_input()
    for ranks in (0, 2):
        refused(2, "absent.jsonl: No such file", ranks, "run", "--model", "demo", "--input", folder / "absent.jsonl",
                "--output", folder / "o.jsonl")
        refused(2, "absent: No such file", ranks, *job(folder, model=folder / "absent"))
        refused(2, "cannot make folder", ranks, *job(folder, name="no/such/folder/o.jsonl"))
    refused(2, "no config.json", 0, *job(folder, model=folder))
    refused(2, "not a folder", 0, *job(folder, model=folder / "in.jsonl"))
    refused(2, "cannot make folder /proc/", 0, "run", "--model", "demo", "--input", folder / "in.jsonl", "--output",
            "/proc/o.jsonl")
    (folder / "dir.jsonl").mkdir()
    refused(2, "is a folder", 0, *job(folder, name="dir.jsonl"))
    refused(2, "is a folder", 0, "run", "--model", "demo", "--input", folder, "--output", folder / "o.jsonl")
    say(not (folder / "o.jsonl.lockstep").exists(), "a refused run left a folder")
    refused(2, "absent.npy", 0, "compare", folder / "absent.npy", folder / "absent.npy")
    refused(2, "absent.jsonl", 0, "show", folder / "absent.jsonl")


def check_paths():
    """One file, or folder, for two things."""
    folder = folder_with_input()
    source, out = folder / "in.jsonl", folder / "out.jsonl"
    kept = source.read_bytes()
    (folder / "link.jsonl").symlink_to(source)
    (folder / "lg").mkdir()
    same = "are one and the same"
    for ranks in (0, 2):
        refused(2, same, ranks, *job(folder, "--logits", out))
    refused(2, same, 0, *job(folder, "--logits", "%s/../%s/out.jsonl/" % (folder, folder.name)))
    refused(2, same, 0, *job(folder, name="in.jsonl"))
    refused(2, same, 0, *job(folder, "--fresh", name="link.jsonl"))
    refused(2, same, 0, *job(folder, "--metrics", out))
    refused(2, same, 0, *job(folder, "--trace", source))
    refused(2, same, 0, *job(folder, "--trace", folder / "t", "--metrics", folder / "t"))
    refused(2, "keeps beside itself", 0, *job(folder, "--logits", str(out) + ".lockstep"))
    refused(2, "lies in the folder of --logits", 0, *job(folder, "--logits", folder / "lg", name="lg/o.jsonl"))
    refused(2, "lies in the folder of --logits", 0, *job(folder, "--logits", folder / "lg", "--trace",
                                                         folder / "lg" / "t"))
    refused(2, same, 0, "render", "--model", DEMO, "--input", source, "--output", source)
    say(source.read_bytes() == kept and sorted(p.name for p in folder.iterdir()) == ["in.jsonl", "lg", "link.jsonl"],
        "a refused run left or changed something: %s" % list(folder.iterdir()))
    try:
        os.mknod(folder / "device", 0o600 | stat.S_IFCHR, os.makedev(1, 3))
    except OSError:
        print("no device may be made here: none is written to")
        return
    device = folder / "device"
    harness.must(harness.run(0, *job(folder, "--trace", device, "--metrics", device)))
    harness.must(harness.run(0, "render", "--model", DEMO, "--input", source, "--output", device))
    say(stat.S_ISCHR(device.stat().st_mode), "a device was replaced by a file")


def waits_until_stopped(folder, words, part, stdin=subprocess.DEVNULL):
    """The run waits for input, and the first SIGTERM ends it with one line."""
    waiting = subprocess.Popen([harness.binary(), *map(str, words)], stdin=stdin, stderr=subprocess.PIPE, text=True)
    caught = pathlib.Path("/proc/%d/status" % waiting.pid)
    while "SigCgt:\t0000000000000000" in caught.read_text():  # no handler yet
        time.sleep(0.01)
    time.sleep(0.3)
    alive = waiting.poll() is None
    waiting.terminate()
    try:
        said = waiting.communicate(timeout=10)[1]
    except subprocess.TimeoutExpired:
        waiting.kill()
        said = "still waiting after SIGTERM"
    say(alive and said.count("\n") == 1 and part in said, "%s: %s" % (words, said))
    say(not (folder / "out.jsonl").exists(), "%s: an output" % words)


def check_fifos():
    """Nobody at the other end: an output is refused, an input is waited for until a signal comes."""
    folder = folder_with_input()
    fifo = folder / "fifo"
    os.mkfifo(fifo)
    for ranks in (0, 2):
        refused(2, "cannot write output", ranks, *job(folder, name="fifo"))
    for option in ("--trace", "--metrics"):
        refused(2, "cannot write %s" % option[2:], 0, *job(folder, option, fifo))
    for words, what in ((["--input", fifo], "cannot open input"), (["--config", fifo], "--config")):
        waits_until_stopped(folder, [*job(folder), *words], what)
    read, write = os.pipe()
    waits_until_stopped(folder, [*job(folder), "--input", "-"], "cannot read standard input", stdin=read)
    os.close(read)
    os.close(write)
    writer = subprocess.Popen(["sh", "-c", 'cat "$1" >"$2"', "sh", folder / "in.jsonl", fifo])
    harness.must(harness.run(0, *job(folder, "--input", fifo)))
    writer.wait(timeout=10)
    harness.must(harness.run(0, *job(folder, name="plain.jsonl")))
    say((folder / "out.jsonl").read_bytes() == (folder / "plain.jsonl").read_bytes(), "requests from a FIFO")


def check_max_tokens():
    """0 and every other number mean the same on the command line and in a request."""
    folder = folder_with_input()
    (folder / "in.jsonl").write_text('{"tokens": [1, 2, 3]}\n')
    for number in (0, 1, 5, 1 << 20, (1 << 31) - 1):
        result = harness.run(0, *job(folder, "--max-tokens", number))
        given = harness.rows(folder / "out.jsonl")
        harness.write_requests(folder / "said.jsonl", [{"tokens": [1, 2, 3], "max_tokens": number}])
        said = harness.run(0, "run", "--model", DEMO, "--input", folder / "said.jsonl", "--output",
                           folder / "said.out", "--progress", "none")
        other = harness.rows(folder / "said.out")
        for row in (*given, *other):
            row.pop("id"), (row.get("response") or {}).pop("request_id", 0)
            (row.get("response") or {}).get("body", {}).pop("id", 0)
        say(result.returncode == said.returncode and given == other,
            "max-tokens %d: %s and %s" % (number, given, other))


def check_permission():
    if os.geteuid() == 0:
        drop = shutil.which("setpriv")
        if not drop:
            print("setpriv is not here: permissions are not tried as root")
            return
        prefix = [drop, "--reuid=65534", "--regid=65534", "--clear-groups"]
    else:
        prefix = []
    folder = folder_with_input()
    folder.chmod(0o555)
    binary = folder.parent / ("lockstep-%d" % os.getpid())  # where anybody may reach it
    shutil.copy(harness.binary(), binary)
    try:
        result = subprocess.run([*prefix, str(binary), *map(str, job(folder, model="demo"))], capture_output=True,
                                text=True, timeout=60, stdin=subprocess.DEVNULL, check=False)
        if "not beside this program" in result.stderr or "--model demo" in result.stderr:
            print("the source tree is not readable by others: permissions are not tried")
            return
        say(result.returncode == 2 and "Permission denied" in result.stderr,
            "no write permission: exit code %d, %s" % (result.returncode, result.stderr))
    finally:
        folder.chmod(0o755)
        binary.unlink()


def check_disk_full():
    """A limit on the size of files, and the device that is always full."""
    folder = folder_with_input([{"tokens": [1, 2, 3], "max_tokens": 20, "ignore_eos": True} for _ in range(40)])

    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
    result = subprocess.run([harness.binary(), *map(str, job(folder, "--threads", 1))], capture_output=True, text=True,
                            timeout=120, preexec_fn=limit, stdin=subprocess.DEVNULL, check=False)
    say(result.returncode in (3, 4) and len(our_lines(result)) == 1, "files of 4096 bytes at most: exit code %d, %s" % (
        result.returncode, result.stderr))
    manifest = folder / "out.jsonl.lockstep" / "manifest.json"
    say(not manifest.exists() or not json.loads(manifest.read_text())["complete"], "a failed run is called complete")
    full = folder / "full.jsonl"
    full.symlink_to("/dev/full")
    for ranks in (0, 2):
        refused(4, "No space left", ranks, *job(folder, name="full.jsonl"))
    with open("/dev/full", "w", encoding="utf-8") as out:
        result = subprocess.run([harness.binary(), "--help"], stdout=out, stderr=subprocess.PIPE, text=True,
                                check=False)
    say(result.returncode == 4 and "cannot be written" in result.stderr, "--help to a full disk is called good")


# ---- layouts -------------------------------------------------------------------------------------------------------

def check_layouts():
    folder = folder_with_input()
    refused(3, "9 ranks but the model has only 8 layers", 9, *job(folder))
    refused(3, "stages", 2, *job(folder, "--stages", 3))
    refused(2, "layers", 2, *job(folder, "--layers", "0-3,5-7"))
    for ranks in (0, 2):
        wrong = ("--layers", "0-3,4-7", "2 ranges for 1 stage;")
        if ranks:
            wrong = ("--layers", "0-7", "1 range for 2 stages;")
        refused(3, wrong[2], ranks, *job(folder, *wrong[:2]))
        refused(3, wrong[2], ranks, "run", "--dry-run", "--model", "demo", *wrong[:2], "--stages", max(ranks, 1))
        refused(3, "stages: 3 wanted", ranks, *job(folder, "--stages", 3))
    refused(3, "2 ranges for 3 stages", 0, "plan", "--model", "demo", "--layers", "0-3,4-7", "--stages", 3)
    for arguments in (["plan"], ["run", "--dry-run"]):
        plan = json.loads(harness.must(harness.run(0, *arguments, "--model", "demo", "--layers", "0-0,1-4,5-7",
                                                   "--json")).stdout)
        say([s["last_layer"] for s in plan["stages"]] == [0, 4, 7], "stages of --layers alone: %s" % plan["stages"])
    harness.must(harness.run(2, *job(folder, "--layers", "0-0,1-7")))
    refused(3, "kv-memory allows 1 byte; raise kv-memory to at least 2048K", 0, *job(folder, "--kv-memory", "1"))
    harness.must(harness.run(0, *job(folder, "--kv-memory", "2048K")))
    refused(3, "raise kv-memory to at least 2048K, or lower context to 992", 0, *job(folder, "--kv-memory", "2047K"))
    refused(3, "9 ", 0, "plan", "--model", "demo", "--stages", 9)
    flags = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8")
    if "avx512f" not in flags:
        refused(3, "--cpu avx512: this CPU lacks it", 2, *job(folder, "--cpu", "avx512"))
    for variables in ({"PMI_SIZE": "4", "PMI_RANK": "0"}, {"SLURM_STEP_NUM_TASKS": "4", "SLURM_PROCID": "0"}):
        refused(3, "started 4 processes", 0, *job(folder), env=variables)


def check_nodes():
    """A plan for machines that are not here: memory decides, and what cannot be read is named by line."""
    folder = harness.work_folder()
    nodes = folder / "nodes.txt"

    def plan(*lines):
        nodes.write_text("# name memory cores ranks\n" + "".join(line + "\n" for line in lines))
        return harness.run(0, "plan", "--model", DEMO, "--nodes", nodes, "--json", "--budget", 32)
    stages = json.loads(harness.must(plan("a 4G 8 2", "b 4G 4")).stdout)["stages"]
    say([s["threads"] for s in stages] == [4, 4, 4], "threads of nodes: %s" % stages)
    even = [s["last_layer"] for s in stages]
    need = [s["weights_bytes"] + s["scratch_bytes"] + s["link_bytes"] for s in stages]
    for c in range(need[2] + (2 << 20), 0, -(64 << 10)):  # ever less memory on the last one
        result = plan("a 64M 4", "b 64M 4", "c %d 4" % c)
        if result.returncode:
            break
        last = json.loads(result.stdout)["stages"][2]
        if last["first_layer"] > even[1] + 1:
            break
    say(result.returncode == 0 and last["first_layer"] == even[1] + 2, "little memory, fewer layers: %s" % result)
    for line, part in (("a 4G", "nodes.txt:2: 2 words"), ("a 4X 8", "memory '4X'"), ("a 4G 0", "cores '0'"),
                       ("a 4G 8 9999", "ranks '9999'"), ("", "no node"), ("a 1M 8", "no number of hosts")):
        result = plan(line)
        say(result.returncode in (2, 3) and part in result.stderr, "%s: %d, %s" % (line, result.returncode,
                                                                                   result.stderr))
    refused(2, "absent.txt: No such file", 0, "plan", "--model", DEMO, "--nodes", folder / "absent.txt")
    refused(2, "Is a directory", 0, "plan", "--model", DEMO, "--nodes", folder)
    for text, part in (("a 4G 8\0\n", "nodes.txt:1: a zero byte"),
                       ("a " * 300 + "\n", "nodes.txt:1: a line of over 510"),
                       ("a 4G 8\n" * 1025, "nodes.txt:1025: more than 1024 ranks")):
        nodes.write_text(text)
        refused(2, part, 0, "plan", "--model", DEMO, "--nodes", nodes)


def check_plans():
    """Every fixture on 1 stage to one more than it has layers: a plan that covers every layer once, or one line."""
    for folder in sorted((harness.FIXTURES / "families").iterdir()):
        config = json.loads((folder / "config.json").read_text())
        layers = config.get("text_config", config)["num_hidden_layers"]
        for stages in range(1, layers + 2):
            result = harness.run(0, "plan", "--model", folder, "--stages", stages, "--json")
            what = "plan of %s on %d stages" % (folder.name, stages)
            lines = our_lines(result)
            if result.returncode == 3:
                say(len(lines) == 1 and not result.stdout and stages > 1, "%s: %s" % (what, result.stderr))
                continue
            say(result.returncode == 0 and not lines, "%s: %d, %s" % (what, result.returncode, result.stderr))
            parts = json.loads(result.stdout or '{"stages": []}')["stages"]
            covered = [l for s in parts for l in range(s["first_layer"], s["last_layer"] + 1)]
            say(covered == list(range(layers)) and len(parts) == stages, "%s covers %s" % (what, covered))
        say(result.returncode == 3, "%s: %d stages for %d layers are a plan" % (folder.name, stages, layers))


def check_placement():
    """Ranks that share a core: a warning with its remedy, counted in the manifest; or refused."""
    folder = folder_with_input()
    core = min(os.sched_getaffinity(0))
    command = ["mpirun", "-n", "3", "taskset", "-c", str(core), harness.binary()]

    def run(*arguments):
        return subprocess.run([*command, *map(str, job(folder, *arguments))], capture_output=True, text=True,
                              timeout=120, env={**os.environ, **harness.MPI_ENVIRONMENT}, stdin=subprocess.DEVNULL,
                              check=False)
    result = harness.must(run())
    manifest = json.loads((folder / "out.jsonl.lockstep" / "manifest.json").read_text())
    say("3 ranks share 1 core;" in result.stderr, "no warning of shared cores: %s" % result.stderr)
    say(manifest["placement_warnings"] >= 1 and any("3 ranks share 1 core;" in t for t in manifest["placement"]),
        "manifest of shared cores: %s" % str(manifest)[:2000])
    say(all(s["threads"] == 1 for s in manifest["stages"]), "threads on a shared core: %s" % manifest["stages"])
    result = run("--strict-placement")
    say(result.returncode == 3 and len(our_lines(result)) == 1 and "strict-placement: " in our_lines(result)[0],
        "--strict-placement: %d, %s" % (result.returncode, result.stderr))
    cores = len(os.sched_getaffinity(0))
    result = harness.must(harness.run(0, *job(folder, "--threads", cores + 1)))
    say("%d threads for %d core" % (cores + 1, cores) in result.stderr, "threads over cores: %s" % result.stderr)


def check_broken_checkpoint():
    folder = folder_with_input()
    broken = folder / "broken model"
    shutil.copytree(QWEN, broken)
    data = (broken / "model.safetensors").read_bytes()
    (broken / "model.safetensors").write_bytes(data[:len(data) // 2])
    for ranks in (0, 3):
        refused(3, "model.safetensors", ranks, *job(folder, model=broken))
    (broken / "model.safetensors").write_bytes(data)
    config = json.loads((broken / "config.json").read_text())
    (broken / "config.json").write_text(json.dumps({**config, "model_type": "no_such_family"}))
    for ranks in (0, 3):
        refused(3, "no_such_family", ranks, *job(folder, model=broken))
    result = harness.run(0, "inspect", broken)
    say(result.returncode == 3 and "supported      no: " in result.stdout and "no_such_family" in result.stdout,
        "inspect of an unknown family: %d\n%s" % (result.returncode, result.stdout))
    shutil.copy(DEMO / "tokenizer.json", broken)
    (broken / "config.json").write_text(json.dumps(config))
    (broken / "tokenizer.json").write_text("{")
    refused(3, "tokenizer", 2, *job(folder, model=broken))


def check_unused_tensors():
    """Tensors that config.json has no place for are counted and named once, and refused where they would take part."""
    folder = folder_with_input([{"tokens": [5, 6, 7], "max_tokens": 2, "ignore_eos": True}])
    fewer = harness.make_llama(folder / "fewer", 4)
    config = json.loads((fewer / "config.json").read_text())
    (fewer / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 3}))
    line = "lockstep: warning: 9 tensors of the checkpoint have no part in this config.json, the first is " \
        "'model.layers.3."
    for ranks in (0, 3):
        result = harness.must(harness.run(ranks, *job(folder, model=fewer)))
        said = [text for text in result.stderr.splitlines() if "have no part" in text]
        say(len(said) == 1 and said[0].startswith(line), "unused tensors on %d ranks: %s" % (ranks, result.stderr))
        model = json.loads((folder / "out.jsonl.lockstep" / "manifest.json").read_text())["model"]
        say(model["unused_tensors"] == 9 and model["first_unused"].startswith("model.layers.3."), "%s" % model)
        say("have no part" in harness.must(harness.run(ranks, "plan", "--model", fewer)).stderr, "plan says nothing")
    say("  not used     9, the first is model.layers.3." in harness.must(harness.run(0, "inspect", fewer)).stdout,
        "inspect says nothing of unused tensors")
    facts = json.loads(harness.must(harness.run(0, "inspect", "--json", fewer)).stdout)
    say(facts["unused_tensors"]["n"] == 9, "inspect --json: %s" % facts["unused_tensors"])
    result = harness.must(harness.run(0, *job(folder)))
    say("have no part" not in result.stderr, "a whole checkpoint: %s" % result.stderr)
    manifest = json.loads((folder / "out.jsonl.lockstep" / "manifest.json").read_text())
    model = manifest["model"]
    say(model["unused_tensors"] == 0 and model["first_unused"] is None, "%s" % model)
    text = manifest["text"]
    say(all(part[0].isdigit() for part in (text["pcre2"], text["utf8proc"], *text["unicode"].values())), "%s" % text)


# ---- good runs -----------------------------------------------------------------------------------------------------

def check_prints():
    for ranks in (0, 2):
        for command in COMMANDS:
            text = harness.must(harness.run(ranks, command, "--help")).stdout
            say(text.count("Usage: lockstep %s" % command) == 1, "%s --help on %d ranks:\n%s" % (command, ranks, text))
        text = harness.must(harness.run(ranks, "--help")).stdout
        say(all("  %s " % command in text for command in COMMANDS), "--help lists the commands")
        say(harness.must(harness.run(ranks, "version")).stdout.count("lockstep ") == 1, "version on %d ranks" % ranks)
        say(harness.must(harness.run(ranks, "help", "plan")).stdout.count("Usage: lockstep plan") == 1, "help plan")
    say("good" in harness.must(harness.run(0, "selftest")).stdout, "selftest")
    plan = json.loads(harness.must(harness.run(0, "plan", "--model", "demo", "--stages", 3, "--json")).stdout)
    say([s["first_layer"] for s in plan["stages"]][0] == 0 and plan["stages"][-1]["last_layer"] == 7,
        "the plan covers all layers: %s" % plan)
    table = harness.must(harness.run(3, "run", "--dry-run", "--model", "demo")).stdout
    say(table.count("\n rank replica ") == 1 and "\n    2       0     2  " in table,
        "run --dry-run on 3 ranks:\n%s" % table)
    facts = json.loads(harness.must(harness.run(0, "inspect", "demo", "--json")).stdout)
    say(facts["supported"] and len(facts["architecture"]["layers"]) == 8 and len(facts["tensors"]) == 74 and
        facts["tokenizer"]["n_ids"] == 2048, "inspect --json: %s" % str(facts)[:500])


def check_run():
    """A run with an error row, its manifest, and its output on other layouts."""
    folder = folder_with_input([{"prompt": "12+9=", "max_tokens": 2}, {"nothing": 1}, {"tokens": [5], "max_tokens": 4}])
    outputs = []
    for ranks in (0, 1, 3):
        result = harness.must(harness.run(ranks, *job(folder)), 10)
        say(our_lines(result) == ["lockstep: 1 of 3 rows are error rows"], "error rows are told: %s" % result.stderr)
        outputs.append((folder / "out.jsonl").read_bytes())
        manifest = json.loads((folder / "out.jsonl.lockstep" / "manifest.json").read_text())
        say(manifest["complete"] and manifest["exit_code"] == 10 and manifest["rows"] == 3 and
            manifest["error_rows"] == 1 and len(manifest["stages"]) == max(1, ranks) and
            manifest["backend"] == ("mpi" if ranks else "self") and manifest["profile"] == "exact-1" and
            all(s["step_allocations"] == 0 for s in manifest["stages"]), "manifest: %s" % str(manifest)[:3000])
        for planned, made in zip(manifest["plan"]["stages"], manifest["stages"]):
            for part in ("weights_bytes", "kv_bytes", "scratch_bytes", "link_bytes"):
                say(planned[part] == made[part] > 0, "%s on %d ranks: %d planned, %d made" % (
                    part, ranks, planned[part], made[part]))
    say(outputs[0] == outputs[1] == outputs[2], "the output depends on the layout")
    text = harness.must(harness.run(0, "show", "--input", folder / "in.jsonl", folder / "out.jsonl")).stdout
    say('"12+9=" => "21"' in text and "error: " in text and "[1 token ids] => " in text, "show:\n%s" % text)


def check_stop():
    """SIGTERM ends a run within seconds: finished rows are there, the manifest is not complete, code 75."""
    folder = folder_with_input([{"tokens": [1, 2, 3], "max_tokens": 900, "ignore_eos": True} for _ in range(400)])
    process = subprocess.Popen([harness.binary(), *map(str, job(folder, "--max-sequences", 4, "--cpu", "ref"))],
                               stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not (folder / "out.jsonl").exists():
        time.sleep(0.05)
    time.sleep(1)
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=60)
    manifest = json.loads((folder / "out.jsonl.lockstep" / "manifest.json").read_text())
    say(process.returncode == 75 and "stopped by SIGTERM" in said, "SIGTERM: %d, %s" % (process.returncode, said))
    say(not manifest["complete"] and manifest["exit_code"] == 75, "manifest after SIGTERM: %s" % str(manifest)[-500:])


# ---- compare -------------------------------------------------------------------------------------------------------

def check_compare():
    folder = folder_with_input([{"tokens": [1, 2, 3], "max_tokens": 3, "ignore_eos": True},
                                {"tokens": [9, 8], "max_tokens": 2, "ignore_eos": True, "n": 2}])
    for name, extra in (("a", []), ("b", ["--logits-format", "npy"]), ("c", ["--dtype", "f32"])):
        harness.must(harness.run(0, *job(folder, "--logits", folder / name, *extra)))
    result = harness.must(harness.run(0, "compare", folder / "a", folder / "b"))
    say("equal, bit for bit" in result.stdout and "3 compared" in result.stdout, "a and b: %s" % result.stdout)
    result = harness.must(harness.run(0, "compare", "--json", folder / "a", folder / "c"), 10)
    facts = json.loads(result.stdout)
    say(not facts["equal"] and facts["different_elements"] > 0 and facts["first_difference"]["position"] == 0 and
        0 < facts["rms"] <= facts["max_abs"] and facts["max_ulp"] > 0, "a and c: %s" % facts)
    result = harness.must(harness.run(0, "compare", folder / "a", folder / "c"), 10)
    say("largest ulp        %d\n" % facts["max_ulp"] in result.stdout, "a and c: %s" % result.stdout)
    zeros = []
    for name, value in (("plus", 0), ("minus", 1 << 31)):
        zeros.append(folder / name)
        harness.write_safetensors(zeros[-1], {"x": ("F32", [1], value.to_bytes(4, "little"))})
    result = harness.must(harness.run(0, "compare", *zeros), 10)
    say("largest difference -\n" in result.stdout and "largest ulp        -\n" in result.stdout and
        "+0 and -0          1\n" in result.stdout, "signs of zero: %s" % result.stdout)
    facts = json.loads(harness.must(harness.run(0, "compare", "--json", *zeros), 10).stdout)
    say(facts["max_ulp"] is None and facts["max_abs"] is None and facts["signs_of_zero"] == 1, "zeros: %s" % facts)
    refused(2, "%s is a folder without index.json" % folder, 0, "compare", folder / "a", folder)
    refused(2, "/dev/null: not a regular file", 0, "compare", "/dev/null", folder / "a")
    refused(2, "%s: cannot open" % (folder / "gone"), 0, "compare", folder / "gone", folder / "a")
    one = next((folder / "a").glob("*.safetensors"))
    say(harness.must(harness.run(0, "compare", one, one)).stdout.startswith("equal"), "a file equals itself")
    broken = folder / "broken.npy"
    broken.write_bytes(b"\x93NUMPY\x01\x00\x10\x00garbage")
    refused(3, "broken.npy", 0, "compare", broken, broken)
    index = json.loads((folder / "a" / "index.json").read_text())
    next(iter(index.values()))["file"] = "../in.jsonl"
    (folder / "a" / "index.json").write_text(json.dumps(index))
    refused(3, "names the file", 0, "compare", folder / "a", folder / "b")


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
