#!/usr/bin/env python3
"""What sealing costs a whole job: sealed, signed and plain runs of one job, in turn, with a second plain arm that shows
the noise.

    link_cost.py MODEL [--repeats N] [--ranks N] [--tokens N]     (LOCKSTEP_BIN: the binary)

Prints the machine, then for each arm the median and p10..p90 of the run's seconds, and of the time in the cipher as a
share of the time in which stages computed. Last what a step of one token costs, from the difference of a longer and a
shorter run: how many of its bytes are header and tag, and the cipher's time, both ends and the logits included.
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


FRAME = 128 + 16  # bytes of header and tag
STEPS = 64


def run(options, folder, *extra):
    """A run's rows and manifest."""
    out = folder / "out.jsonl"
    harness.must(harness.run(options.ranks, "run", "--model", options.model, "--input", folder / "in.jsonl", "--output",
                             out, "--progress", "none", "--threads", 1, *extra))
    return out.read_bytes(), json.loads((folder / "out.jsonl.lockstep" / "manifest.json").read_text())


def total(stages, name):
    return sum(stage["links"][name] for stage in stages)


def frame_share(pair):
    """Of the bytes that the longer of two runs sent more, in percent."""
    few, many = pair
    frames, sent = [total(many, name) - total(few, name) for name in ("frames_sealed", "bytes_sealed")]
    return 100 * FRAME * frames / sent


def one_token_steps(options, folder):
    manifests = []
    for tokens in (STEPS, 2 * STEPS):
        harness.write_requests(folder / "in.jsonl", [{"id": "one", "tokens": [9, 10, 11], "max_tokens": tokens,
                                                      "ignore_eos": True, "temperature": 0}])
        manifests.append(run(options, folder, "--fresh")[1])
    few, many = manifests
    step_us = 1e6 * (many["times"]["run_s"] - few["times"]["run_s"]) / STEPS
    cipher_us = (total(many["stages"], "crypto_us") - total(few["stages"], "crypto_us")) / STEPS
    print("a step of one token: header and tag are %.1f %% of what the first stage sends, %.2f %% of what all send; "
          "%.0f us, of them in the cipher %.0f: %.2f %%" % (
              frame_share([m["stages"][:1] for m in manifests]), frame_share([m["stages"] for m in manifests]), step_us,
              cipher_us, 100 * cipher_us / step_us))


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
            rows, manifest = run(options, folder, *extra)
            outputs.add(rows)
            if repeat:  # the first round warms up
                seconds.setdefault(name, []).append(manifest["times"]["run_s"])
                compute = sum(stage["compute_us"] for stage in manifest["stages"])
                shares.setdefault(name, []).append(100 * total(manifest["stages"], "crypto_us") / compute)
    cpu = next(line.split(": ")[1] for line in open("/proc/cpuinfo", encoding="utf-8") if line.startswith("model name"))
    print("%s, %d cores, load %s; %s, %d ranks, %d prompts of %d tokens, %d tokens each, %d runs of each arm" % (
        cpu.strip(), os.cpu_count(), open("/proc/loadavg", encoding="utf-8").read().split()[0],
        pathlib.Path(options.model).name, options.ranks, options.requests, options.prompt, options.tokens,
        options.repeats))
    base = statistics.median(seconds["plain"] + seconds["plain again"])
    for name, _ in ARMS:
        print("%-12s %.3f s (%.3f .. %.3f)  %+.1f %% of plain; cipher %.2f %% (%.2f .. %.2f) of compute" % (
            name, *spread(seconds[name]), 100 * (statistics.median(seconds[name]) / base - 1), *spread(shares[name])))
    one_token_steps(options, folder)
    if len(outputs) != 1:
        sys.exit("the arms gave different rows")


if __name__ == "__main__":
    main()
