#!/usr/bin/env python3
"""Memory that does not grow with the number of lines, a start that does not wait for the whole file, logits of a large
vocabulary in a few megabytes.

    scale.py [ONLY...]      30,000 and 100,000 lines, 512 positions; long form: 100,000 and 1,000,000, 8,192
"""
import filecmp
import json
import pathlib
import random
import struct
import subprocess
import sys
import time

import harness
import jobs

FAULTS = []
FEW, MANY = (100000, 1000000) if harness.LONG else (30000, 100000)
POSITIONS = 8192 if harness.LONG else 512
LARGE_VOCAB = 151936


def say(good, what):
    if not good:
        FAULTS.append(what)
        print("WRONG: %s" % what, flush=True)


def peak_of(ranks, arguments, timeout=7200):
    """Runs a job; (exit code, peak resident bytes of rank 0, what was said)."""
    job, peak, deadline = jobs.Started(ranks, arguments), 0, time.monotonic() + timeout
    while job.process.poll() is None and time.monotonic() < deadline:
        for pid in job.ranks():
            try:
                environment = pathlib.Path("/proc/%d/environ" % pid).read_bytes()
                if ranks and b"OMPI_COMM_WORLD_RANK=0\0" not in environment + b"\0":
                    continue
                for line in pathlib.Path("/proc/%d/status" % pid).read_text().splitlines():
                    if line.startswith("VmHWM:"):
                        peak = max(peak, 1024 * int(line.split()[1]))
            except OSError:
                pass
        time.sleep(0.05)
    code, said = job.end(timeout=30)
    return code, peak, said


def own_bytes(out):
    """Of rank 0's weights and KV cache."""
    stage = jobs.manifest(out)["stages"][0]
    return stage["weights_bytes"] + stage["kv_bytes"]


def write_lines(path, n):
    rng = random.Random(n)
    with open(path, "w", encoding="utf-8") as out:
        for i in range(n):
            out.write(json.dumps({"custom_id": "request-%d" % i, "tokens": [rng.randrange(3, 64) for _ in range(
                rng.randint(1, 6))], "max_tokens": rng.randint(1, 2)}) + "\n")


def check_lines():
    folder, out, peaks = harness.work_folder(), None, {}
    model = harness.make_llama(folder / "model", 2, hidden=8, heads=1, intermediate=8, vocab=64)
    for n in (FEW, MANY):
        source, out = folder / ("in%d.jsonl" % n), folder / ("out%d.jsonl" % n)
        write_lines(source, n)
        began = time.monotonic()
        code, peak, said = peak_of(2, jobs.command(source, out, model=model))
        say(code == 0, "%d lines: exit code %d: %s" % (n, code, said[-1500:]))
        peaks[n] = peak - own_bytes(out)
        with open(out, encoding="utf-8") as rows:
            for i, row in enumerate(rows):
                say(json.loads(row)["custom_id"] == "request-%d" % i, "row %d is out of place" % (i + 1))
                if len(FAULTS) > 5:
                    return
        say(i + 1 == n, "%d rows for %d lines" % (i + 1, n))
        print("%d lines: %.1f s, %.1f MB beyond weights and cache" % (
            n, time.monotonic() - began, peaks[n] / 1e6), flush=True)
    say(peaks[MANY] < 300e6, "%d lines: %.1f MB" % (MANY, peaks[MANY] / 1e6))
    # 2 MB: what one process differs from the next by, whatever it does
    say(peaks[MANY] < 1.1 * peaks[FEW] + 2e6, "memory grows with lines: %s" % peaks)
    # once more with everything done: reading a journal costs no memory either
    code, peak, said = peak_of(2, jobs.command(source, out, model=model))
    say(code == 0 and peak - own_bytes(out) < 1.2 * peaks[FEW] + 4e6, "resuming %d rows: %d, %.1f MB: %s" % (
        MANY, code, peak / 1e6, said[-500:]))


def check_start():
    """The first row of a large file does not wait for its end."""
    folder = harness.work_folder()
    model = harness.make_llama(folder / "model", 2, hidden=8, heads=1, intermediate=8, vocab=64)
    source, out, first = folder / "in.jsonl", folder / "out.jsonl", {}
    for n in (1000, 10 * MANY):
        if n > 1000:  # a gigabyte and more by repetition; ids that come twice cost their own rows
            block = source.read_bytes() * 100
            with open(source, "wb") as large:
                for _ in range(n // 100000):
                    large.write(block)
        else:
            write_lines(source, n)
        out.unlink(missing_ok=True)
        began = time.monotonic()
        job = jobs.Started(0, jobs.command(source, out, "--fresh", model=model))
        while job.process.poll() is None and (not out.exists() or out.stat().st_size == 0):
            time.sleep(0.005)
        first[n] = time.monotonic() - began
        job.kill(job.pids())
        job.end()
    print("first row after %s s" % first)
    say(first[10 * MANY] < first[1000] + 2, "the first row comes late: %s" % first)


def header_of(path):
    with open(path, "rb") as data:
        (length,) = struct.unpack("<Q", data.read(8))
        return json.loads(data.read(length))


def check_logits():
    folder = harness.work_folder()
    model = harness.make_llama(folder / "model", 3, hidden=16, heads=1, kv_heads=1, intermediate=16, vocab=LARGE_VOCAB,
                               tied=True, max_position_embeddings=POSITIONS)
    source, rng = folder / "in.jsonl", random.Random(1)
    source.write_text(json.dumps({"id": "long", "tokens": [rng.randrange(LARGE_VOCAB) for _ in range(POSITIONS)],
                                  "max_tokens": 1, "ignore_eos": True}) + "\n")
    for ranks in (1, 3):
        out = folder / ("out%d.jsonl" % ranks)
        code, peak, said = peak_of(ranks, jobs.command(source, out, "--logits", folder / ("logits%d" % ranks),
                                                       "--max-sequences", 1, model=model))
        say(code == 0, "%d ranks: %d: %s" % (ranks, code, said[-1500:]))
        extra = peak - own_bytes(out)
        print("%d ranks: %.1f MB beyond weights and cache for %.1f MB of logits" % (
            ranks, extra / 1e6, POSITIONS * LARGE_VOCAB * 4 / 1e6))
        say(extra < 256e6, "%d ranks: %.1f MB" % (ranks, extra / 1e6))
    index = json.loads((folder / "logits1" / "index.json").read_text())
    name = index["long"]["file"]
    entry = header_of(folder / "logits1" / name)["long"]
    say(entry["dtype"] == "F32" and entry["shape"] == [POSITIONS, LARGE_VOCAB] and index["long"]["rows"] == POSITIONS,
        "header: %s" % entry)
    say(filecmp.cmp(folder / "logits1" / name, folder / "logits3" / name, shallow=False), "1 and 3 ranks differ")
    say((folder / "out1.jsonl").read_bytes() == (folder / "out3.jsonl").read_bytes(), "rows of 1 and 3 ranks differ")
    code = ("import numpy, sys\nd = numpy.memmap(sys.argv[1], '<f4', 'r', offset=int(sys.argv[2]), shape=(%d, %d))\n"
            "assert numpy.isfinite(d[-1]).all() and numpy.ptp(d[-1]) > 0" % (POSITIONS, LARGE_VOCAB))
    with open(folder / "logits1" / name, "rb") as data:
        offset = 8 + struct.unpack("<Q", data.read(8))[0]
    seen = subprocess.run([sys.executable, "-c", code, str(folder / "logits1" / name), str(offset)],
                          capture_output=True, text=True, check=False)
    if "No module named" in seen.stderr:
        print("numpy is not here: its view of the file is not tried")
    else:
        say(seen.returncode == 0, "numpy: %s" % seen.stderr)


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
