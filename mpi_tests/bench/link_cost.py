#!/usr/bin/env python3
"""What sealing costs a whole job: sealed, signed and plain runs of one job, in turn, with a second plain arm that shows
the noise.

    link_cost.py MODEL [--repeats N] [--ranks N] [--tokens N]     (LOCKSTEP_BIN: the binary)

Prints the machine, then for each arm the median and p10..p90 of the run's seconds, and of the time in the cipher as a
share of the time in which stages computed.
"""
import argparse
import json
import os
import pathlib
import random
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "mpi"))
import harness  # noqa: E402

ARMS = [("plain", ["--link", "plain"]), ("sealed", []), ("signed", ["--link", "signed"]),
        ("plain again", ["--link", "plain"])]


def spread(values):
    ordered = sorted(values)
    return statistics.median(ordered), ordered[len(ordered) // 10], ordered[-1 - len(ordered) // 10]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--requests", type=int, default=16)
    parser.add_argument("--prompt", type=int, default=100)
    parser.add_argument("--tokens", type=int, default=32)
    options = parser.parse_args()
    folder, rng = harness.work_folder(), random.Random(1)
    vocab = json.loads((pathlib.Path(options.model) / "config.json").read_text())["vocab_size"]
    harness.write_requests(folder / "in.jsonl", [
        {"id": "r%d" % i, "tokens": [rng.randrange(8, vocab) for _ in range(options.prompt)],
         "max_tokens": options.tokens, "ignore_eos": True, "temperature": 0} for i in range(options.requests)])
    seconds, shares, outputs = {}, {}, set()
    for repeat in range(options.repeats + 1):
        for name, extra in ARMS:
            out = folder / "out.jsonl"
            harness.must(harness.run(options.ranks, "run", "--model", options.model, "--input", folder / "in.jsonl",
                                     "--output", out, "--progress", "none", "--threads", 1, *extra))
            manifest = json.loads((folder / "out.jsonl.lockstep" / "manifest.json").read_text())
            outputs.add(out.read_bytes())
            if repeat:  # the first round warms up
                seconds.setdefault(name, []).append(manifest["times"]["run_s"])
                compute = sum(stage["compute_us"] for stage in manifest["stages"])
                cipher = sum(stage["links"]["crypto_us"] for stage in manifest["stages"])
                shares.setdefault(name, []).append(100 * cipher / compute)
    cpu = next(line.split(": ")[1] for line in open("/proc/cpuinfo", encoding="utf-8") if line.startswith("model name"))
    print("%s, %d cores, load %s; %s, %d ranks, %d prompts of %d tokens, %d tokens each, %d runs of each arm" % (
        cpu.strip(), os.cpu_count(), open("/proc/loadavg", encoding="utf-8").read().split()[0],
        pathlib.Path(options.model).name, options.ranks, options.requests, options.prompt, options.tokens,
        options.repeats))
    base = statistics.median(seconds["plain"] + seconds["plain again"])
    for name, _ in ARMS:
        print("%-12s %.3f s (%.3f .. %.3f)  %+.1f %% of plain; cipher %.2f %% (%.2f .. %.2f) of compute" % (
            name, *spread(seconds[name]), 100 * (statistics.median(seconds[name]) / base - 1), *spread(shares[name])))
    if len(outputs) != 1:
        sys.exit("the arms gave different rows")


if __name__ == "__main__":
    main()
