#!/usr/bin/env python3
"""Links between ranks through the real binary: the same bits at every level, secrets and their refusals, what the
manifest says, and nothing secret where it does not belong.

    link.py [ONLY...]      (LOCKSTEP_BIN: the binary; names of checks to run)
"""
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import time

import harness
import property as bits

FAULTS = []
FAMILIES = harness.FIXTURES / "families"


def say(good, what):
    if not good:
        FAULTS.append(what)
        print("WRONG: %s" % what, flush=True)


def ours(result):
    return [line for line in result.stderr.splitlines() if line.startswith("lockstep: ")]


def make_job(model="llama-bf16", requests=None):
    folder = harness.work_folder()
    harness.write_requests(folder / "in.jsonl", requests or bits.make_requests(random.Random(5), 320))
    return folder, ["run", "--model", FAMILIES / model, "--input", folder / "in.jsonl", "--output",
                    folder / "out.jsonl", "--digest", "all", "--progress", "none", "--threads", 1]


def manifest(folder):
    return json.loads((folder / "out.jsonl.lockstep" / "manifest.json").read_text())


def on_each_rank(base, per_rank, prefixes=None):
    """One rank per list of extra arguments, each with its own; prefixes: words before the binary."""
    command = ["mpirun"]
    for i, extra in enumerate(per_rank):
        prefix = prefixes[i] if prefixes else []
        command += ([":"] if i else []) + ["-n", "1", *prefix, harness.binary(), *map(str, [*base, *extra])]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False,
                          env={**os.environ, **harness.MPI_ENVIRONMENT}, stdin=subprocess.DEVNULL)


def refused(result, code, *parts):
    lines = ours(result)
    say(result.returncode == code, "%s: exit code %d, expected %d\n%s" % (
        parts, result.returncode, code, result.stderr[-1500:]))
    say(len(lines) == 1 and all(part in lines[0] for part in parts),
        "%s are not in the one line of %s" % (parts, lines))


def key_file(folder, name="job.key"):
    harness.must(harness.run(0, "keygen", folder / name))
    return folder / name


# ---- bits and counters ---------------------------------------------------------------------------------------------

def links_of(folder):
    return [stage["links"] for stage in manifest(folder)["stages"]]


def check_bits():
    can_pack = harness.can_pack()
    for model in ("llama-bf16", "llama-f16", "llama-f32", "gemma2"):
        folder, job = make_job(model)
        key = key_file(folder)
        harness.must(harness.run(0, *job))
        expected = (folder / "out.jsonl").read_bytes()
        for ranks, extra in [(1, []), (3, []), (2, ["--link", "signed"]), (3, ["--link", "plain"]),
                             (3, ["--secret-file", key]), (3, ["--rekey-frames", 1]),
                             (2, ["--link", "signed", "--rekey-frames", 3]), (2, ["--budget", 300, "--chunk", 97]),
                             (3, ["--frame", "4K"]), (2, ["--frame", "4K", "--budget", 400, "--rekey-frames", 2]),
                             (3, ["--frame", "4K", "--pack", "lz4", "--threads", 3, "--budget", 400]),
                             (2, ["--frame", "8K", "--link", "plain"]), (2, ["--frame", "4K", "--link", "signed"]),
                             (3, ["--pack", "lz4"]), (2, ["--pack", "lz4", "--link", "plain"]),
                             (2, ["--pack", "auto"])]:
            if "--pack" in extra and not can_pack:
                continue
            harness.must(harness.run(ranks, *job, *extra))
            say((folder / "out.jsonl").read_bytes() == expected, "%s, %d ranks, %s: other bits" % (model, ranks, extra))


def check_counters():
    folder, job = make_job()
    harness.must(harness.run(3, *job, "--rekey-frames", 4))
    said = manifest(folder)
    say((said["link"], said["secret"], said["one_host"]) == ("sealed", "ephemeral", True), "terms: %s" % said["link"])
    say(said["suite"] in ("aes-256-gcm", "chacha20-poly1305-ietf"), "suite %s" % said["suite"])
    say(len(said["run_id"]) == 32, "run id %s" % said["run_id"])
    for stage in said["stages"]:
        links = stage["links"]
        say(links["frames_sealed"] >= stage["steps"] and links["frames_opened"] >= stage["steps"], "frames: %s" % links)
        say(links["bytes_sealed"] > 0 and links["bytes_opened"] > 0, "bytes: %s" % links)
        say(links["rekeys"] >= stage["steps"] // 4 - 1, "%d keys begun in %d steps" % (links["rekeys"], stage["steps"]))
        say(links["payload_copies"] == 0 and stage["step_allocations"] == 0, "copies or allocations: %s" % stage)
        say(not any(links["refused"].values()), "refused frames: %s" % links)
    sealed, opened = (sum(links[what] for links in links_of(folder)) for what in ("frames_sealed", "frames_opened"))
    say(opened - 2 <= sealed <= opened + 20, "%d frames sealed, %d opened" % (sealed, opened))  # the last words
    first = said["run_id"]
    harness.must(harness.run(3, *job, "--link", "plain"))
    said = manifest(folder)
    say((said["link"], said["suite"], said["secret"]) == ("plain", "none", "none"), "terms of plain: %s" % said["link"])
    say(said["run_id"] != first, "two runs with one id")
    for links in links_of(folder):
        say(links["frames_sealed"] + links["frames_opened"] + links["crypto_us"] == 0, "plain sealed: %s" % links)
    harness.must(harness.run(0, *job))
    say(manifest(folder)["link"] == "sealed" and links_of(folder)[0]["frames_sealed"] == 0,
        "one process has no link to seal")


def check_packing():
    """Packed links count what they save; auto never packs within a host, and measures between hosts."""
    if not harness.can_pack():
        return
    folder, job = make_job("llama-bf16")
    harness.must(harness.run(3, *job, "--pack", "lz4"))
    said = manifest(folder)
    say(said["packing"] == "lz4", "packing %s" % said["packing"])
    for rank, links in enumerate(links_of(folder)):
        say(links["tensors_packed"] > 0 and links["tensors_unpacked"] > 0, "rank %d packs nothing: %s" % (rank, links))
        say(0 < links["bytes_after_packing"] < links["bytes_before_packing"], "nothing is saved: %s" % links)
        say(links["payload_copies"] == 0, "copies: %s" % links)
    harness.must(harness.run(3, *job, "--pack", "auto"))
    say(not any(links["tensors_packed"] for links in links_of(folder)), "auto packs within a host")
    elsewhere = other_host()
    if elsewhere:
        expected = (folder / "out.jsonl").read_bytes()
        extra = ["--pack", "auto", "--secret-file", key_file(folder)]
        harness.must(on_each_rank(job + ["--fresh"], [extra, extra], [[], elsewhere]))
        say(any(links["packing_us"] for links in links_of(folder)), "auto tries nothing between hosts")
        say((folder / "out.jsonl").read_bytes() == expected, "auto between hosts: other bits")


def check_frames():
    """Large payloads travel as several frames, in the buffers that the plan gave them."""
    folder, job = make_job("llama-bf16", [{"tokens": [1 + i % 300 for i in range(n)], "max_tokens": 3}
                                          for n in (1, 14, 15, 16, 30, 31, 60, 61, 62, 63, 64, 65, 90, 119, 120, 200)])
    harness.must(harness.run(0, *job))
    expected = (folder / "out.jsonl").read_bytes()
    packed = [(["--frame", "4K", "--pack", "lz4"], True)] if harness.can_pack() else []
    for extra, several in (([], False), (["--frame", "4K"], True), *packed, (["--frame", "4K", "--threads", 2], True),
                           (["--frame", "4K", "--link", "signed"], True)):
        harness.must(harness.run(3, *job, "--budget", 256, "--chunk", 256, *extra))
        say((folder / "out.jsonl").read_bytes() == expected, "%s: other bits" % extra)
        said = manifest(folder)
        for planned, stage in zip(said["plan"]["stages"], said["stages"]):
            links = stage["links"]
            say((links["payloads_of_several_frames"] > 0) == several, "rank %d, %s: %s" % (stage["rank"], extra, links))
            say(links["payload_copies"] == 0 and stage["step_allocations"] == 0, "copies or allocations: %s" % stage)
            say(planned["link_bytes"] == stage["link_bytes"], "buffers: %s, %s" % (planned, stage))
    refused(harness.run(0, *job, "--frame", 5000), 2, "--frame 5000", "multiple of 4096")
    refused(harness.run(0, *job, "--frame", "1K"), 2, "--frame")


def check_provenance():
    folder, job = make_job()
    harness.must(harness.run(2, *job))
    made = manifest(folder)["made_by"]
    say(made["program"] == "lockstep" and made["command"] == "run" and made["user"] and made["host"] and made["time"],
        "made_by: %s" % made)
    say(made["command_line"][1:len(job) + 1] == [str(word) for word in job], "command line: %s" % made["command_line"])
    harness.must(harness.run(2, *job, "--trace", folder / "trace.json", "--fresh"))
    made = json.loads((folder / "trace.json").read_text())["otherData"]["made_by"]
    say(made["command"] == "run" and "--trace" in made["command_line"], "trace made by %s" % made)
    plan = harness.must(harness.run(0, "plan", "--model", FAMILIES / "llama-bf16", "--json"))
    made = json.loads(plan.stdout)["made_by"]
    say(made["command"] == "plan" and made["command_line"][1] == "plan", "plan made by %s" % made)
    text = key_file(folder).read_text()
    say(text.startswith("# lockstep ") and "lockstep keygen %s" % (folder / "job.key") in text.splitlines()[0],
        "key file: %s" % text.splitlines()[0])


# ---- secrets -------------------------------------------------------------------------------------------------------

def check_keygen():
    folder = harness.work_folder()
    key = key_file(folder)
    say(key.stat().st_mode & 0o7777 == 0o600, "mode %o" % key.stat().st_mode)
    before = key.read_bytes()
    refused(harness.run(0, "keygen", key), 2, "job.key", "never overwritten")
    say(key.read_bytes() == before, "keygen touched a file that was there")
    (folder / "link").symlink_to(folder / "elsewhere")
    refused(harness.run(0, "keygen", folder / "link"), 2, "never overwritten")
    say(not (folder / "elsewhere").exists(), "keygen wrote through a link")
    refused(harness.run(0, "keygen", folder / "no" / "such"), 2, "No such file")
    printed = [harness.must(harness.run(0, "keygen")).stdout.splitlines() for _ in range(2)]
    say(printed[0][-1] != printed[1][-1] and len(printed[0][-1]) == 64 and len(printed[0]) == 2, "keygen: %s" % printed)
    say(before.split()[-1].decode() not in (printed[0][-1], printed[1][-1]), "keygen: a key twice")


def check_secret_files():
    folder, job = make_job(requests=[{"tokens": [1, 2], "max_tokens": 2}])
    key = key_file(folder)
    words = key.read_text().split()
    good = {"text": key.read_bytes(), "bare": words[-1].encode(), "raw": bytes(range(32)),
            "crlf": (words[-1] + "\r\n").encode()}
    for name, data in good.items():
        path = folder / name
        path.write_bytes(data)
        path.chmod(0o600)
        harness.must(harness.run(2, *job, "--secret-file", path))
        say(manifest(folder)["secret"] == "file", "secret of a file")
    bad = {"short": words[-1][:-1].encode(), "long": words[-1].encode() + b"0", "empty": b"", "zero": bytes(32),
           "31 bytes": bytes(range(31)), "33 bytes": bytes(range(33)), "two": (words[-1] + "\n").encode() * 2,
           "large": b"\n" * 5000, "hex zero": b"0" * 64, "words": b"hello\n"}
    for name, data in bad.items():
        path = folder / "bad"
        path.write_bytes(data)
        path.chmod(0o600)
        result = harness.run(2 if name == "short" else 0, *job, "--secret-file", path)
        refused(result, 3, "--secret-file: ", "bad: key file")
        say(words[-1][:8] not in result.stderr, "%s: quoted" % name)
    for mode in (0o644, 0o640, 0o604, 0o660, 0o700, 0o620):
        key.chmod(mode)
        refused(harness.run(0, *job, "--secret-file", key), 3, "mode %04o, expected 0600" % mode)
    key.chmod(0o400)
    harness.must(harness.run(2, *job, "--secret-file", key))
    os.mkfifo(folder / "fifo", 0o600)
    refused(harness.run(0, *job, "--secret-file", folder / "fifo"), 3, "not a regular file")
    refused(harness.run(0, *job, "--secret-file", folder), 3, "not a regular file")
    refused(harness.run(0, *job, "--secret-file", folder / "absent"), 2, "absent: No such file")
    refused(harness.run(0, *job, "--secret-file", key, "--secret-fd", 3), 2, "give one of them")
    if os.geteuid() == 0:
        os.chown(key, 65534, 65534)
        refused(harness.run(0, *job, "--secret-file", key), 3, "belongs to user 65534")


def check_descriptor():
    folder, job = make_job(requests=[{"tokens": [1, 2], "max_tokens": 2}])
    key = key_file(folder)
    for text in ('exec "$0" "$@" 7<"$KEY"', 'cat "$KEY" | { exec 7<&0 </dev/null; exec "$0" "$@"; }'):
        command = ["mpirun", "-n", "2", "sh", "-c", text, harness.binary(), *map(str, job), "--secret-fd", "7"]
        harness.must(subprocess.run(command, capture_output=True, text=True, timeout=60, check=False,
                                    env={**os.environ, **harness.MPI_ENVIRONMENT, "KEY": str(key)}))
        say(manifest(folder)["secret"] == "fd", "secret of a descriptor")
    refused(harness.run(2, *job, "--secret-fd", 99), 2, "--secret-fd: descriptor 99")
    if harness.LONG:  # a pipe that never ends, though something comes all the time
        text = 'while sleep 1 && echo "#"; do :; done | { exec 7<&0 </dev/null; exec "$0" "$@"; }'
        command = ["sh", "-c", text, harness.binary(), *map(str, job), "--secret-fd", "7"]
        result = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
        refused(result, 2, "no end of it in 10 s")


def check_agreement():
    """Each rank was told something else: nothing starts, and rank 0 says who differs."""
    folder, job = make_job(requests=[{"tokens": [1, 2], "max_tokens": 2}])
    key, other = key_file(folder), key_file(folder, "other.key")
    (folder / "open.key").write_bytes(key.read_bytes())
    with_key = ["--secret-file", key]
    refused(on_each_rank(job, [with_key, []]), 3, "rank 1 on ", "was given no secret, rank 0 was given one")
    refused(on_each_rank(job, [[], with_key]), 3, "rank 1 on ", "was given a secret, rank 0 was given none")
    refused(on_each_rank(job, [["--link", "signed"], []]), 3, "rank 1 on ", "has link level sealed, rank 0 has signed")
    refused(on_each_rank(job, [[], [], ["--link", "plain"]]), 3, "rank 2 on ",
            "has link level plain, rank 0 has sealed")
    refused(on_each_rank(job, [with_key, ["--secret-file", folder / "open.key"]]), 3, "rank 1 on ", "mode 0644")
    refused(on_each_rank(job, [with_key, ["--secret-file", folder / "absent"]]), 3, "rank 1 on ", "No such file")
    begin = time.monotonic()
    for ranks in ([with_key, ["--secret-file", other]], [with_key, with_key, ["--secret-file", other]]):
        refused(on_each_rank(job, ranks), 3, "rank 0 with rank %d" % (len(ranks) - 1), "another secret")
    say(time.monotonic() - begin < 20, "another secret: %.1f s for two runs" % (time.monotonic() - begin))
    say(not (folder / "out.jsonl").exists() or not (folder / "out.jsonl").read_bytes(), "a refused run left rows")
    config = folder / "run.yaml"
    config.write_text("link: signed\nsecret-file: %s\n" % json.dumps(str(key)))
    harness.must(harness.run(2, *job, "--config", config))
    say((manifest(folder)["link"], manifest(folder)["secret"]) == ("signed", "file"), "options of a file")


def other_host():
    """Words that give a program a host name of its own; None where that is not allowed."""
    words = ["unshare", "--uts", "sh", "-c", 'hostname elsewhere; exec "$0" "$@"']
    if shutil.which("unshare") and subprocess.run([*words[:2], "true"], capture_output=True,
                                                  check=False).returncode == 0:
        return words
    print("unshare --uts is not allowed here: several hosts are not tried")
    return None


def check_hosts():
    """Ranks with names of their own count as several hosts."""
    elsewhere = other_host()
    if not elsewhere:
        return
    folder, job = make_job(requests=[{"tokens": [1, 2], "max_tokens": 2}])
    key = key_file(folder)
    for prefixes in ([[], elsewhere], [elsewhere, []]):
        refused(on_each_rank(job, [[], []], prefixes), 3, "several hosts", "no secret", "lockstep keygen")
        plain = ["--link", "plain"]
        refused(on_each_rank(job, [plain, plain], prefixes), 3, "--allow-plain-across-hosts")
        plain.append("--allow-plain-across-hosts")
        harness.must(on_each_rank(job, [plain, plain], prefixes))
        say(not manifest(folder)["one_host"], "one host although the names differ")
        harness.must(on_each_rank(job, [["--secret-file", key]] * 2, prefixes))


# ---- what must not be seen -----------------------------------------------------------------------------------------

def check_nothing_secret():
    folder, job = make_job()
    key = key_file(folder)
    digits = key.read_text().split()[-1]
    forms = [digits.encode(), digits.upper().encode(), bytes.fromhex(digits)]
    ran = harness.must(harness.run(3, *job, "--secret-file", key))
    printed = harness.must(harness.run(0, *job, "--secret-file", key, "--print-config"))
    places = {"stdout": ran.stdout.encode(), "stderr": ran.stderr.encode(), "config": printed.stdout.encode()}
    for path in folder.rglob("*"):
        if path.is_file() and path != key:
            places[path.name] = path.read_bytes()
    for name, data in places.items():
        say(not any(form in data for form in forms), "the secret is in %s" % name)
    say(not [n for n in os.listdir("/dev/shm") if n.startswith("lockstep-")], "an ephemeral secret lies about")


def core_limit(pid):
    for line in pathlib.Path("/proc/%d/limits" % pid).read_text().splitlines():
        if line.startswith("Max core file size"):
            return line.split()[4:6]
    return None


def check_no_core():
    """While a sealed run goes on, its ranks cannot leave a core file."""
    requests = [{"tokens": [1, 2, 3], "max_tokens": 120, "ignore_eos": True} for _ in range(400)]
    folder, job = make_job(requests=requests)
    for level, expected in (("sealed", ["1", "1"]), ("plain", None)):
        with subprocess.Popen(["sh", "-c", 'ulimit -c "$(ulimit -H -c)"; exec "$0" "$@"', harness.binary(),
                               *map(str, job), "--link", level], stderr=subprocess.PIPE) as process:
            seen, deadline = None, time.monotonic() + 20
            while time.monotonic() < deadline and process.poll() is None and seen != ["1", "1"]:
                try:
                    seen = core_limit(process.pid) or seen
                except OSError:
                    break
                time.sleep(0.005)
            process.kill()
        say((seen == ["1", "1"]) == (expected is not None), "%s: core limits %s" % (level, seen))


CHECKS = {name[6:]: check for name, check in list(globals().items()) if name.startswith("check_")}


def main():
    for name in sys.argv[1:] or CHECKS:
        before, begin = len(FAULTS), time.monotonic()
        CHECKS[name]()
        print("%-16s %s, %.1f s" % (name, "ok" if len(FAULTS) == before else "WRONG", time.monotonic() - begin),
              flush=True)
    print("%d faults" % len(FAULTS))
    sys.exit(1 if FAULTS else 0)


if __name__ == "__main__":
    main()
