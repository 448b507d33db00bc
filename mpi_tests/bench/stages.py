#!/usr/bin/env python3
"""Stages that share the cores, beside one rank with all threads: several jobs, in turns.

    stages.py MODEL [--rounds N] [--jobs generation,scoring,prompts,decoding] [--before BINARY] [--also-four]
                                                                           (LOCKSTEP_BIN: the binary)

Arms: one rank of two threads, two ranks of one thread, with --before the same of an older program, with
--also-four four ranks. Prints the machine, and for each job and arm the seconds of the run, its rate as a share of the
first arm's within each round, and of each stage what it computes and waits. Ends with an error when two arms give
different rows.
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

JOBS = {"generation": (64, 32), "prompts": (128, 1), "decoding": (4, 48), "scoring": (96, 0)}  # tokens in, out
REQUESTS = 32


def write_job(path, name, vocab):
    rng, (fed, made) = random.Random(1), JOBS[name]
    requests = []
    for i in range(REQUESTS):
        ids = [rng.randrange(8, vocab) for _ in range(fed)]
        what = {"tokens": ids, "max_tokens": made, "ignore_eos": True, "temperature": 0} if made else {
            "context": ids[:1], "continuation": ids[1:]}
        requests.append({"id": "r%d" % i, **what})
    harness.write_requests(path, requests)


def run(options, folder, job, arm):
    """Rows and manifest."""
    ranks, threads, program = arm
    out = folder / "out.jsonl"
    harness.must(harness.run(ranks if ranks > 1 else 0, "run" if JOBS[job][1] else "score", "--model", options.model,
                             "--input", folder / "in.jsonl", "--output", out, "--progress", "none", "--threads",
                             threads, program=program))
    return out.read_bytes(), json.loads((folder / "out.jsonl.lockstep" / "manifest.json").read_text())


def tell(name, manifests, first):
    seconds = [m["times"]["run_s"] for m in manifests]
    shares = [100 * one["times"]["run_s"] / m["times"]["run_s"] for one, m in zip(first, manifests)]
    print("  %-22s %.2f s (%.2f .. %.2f), %.0f %% (%.0f .. %.0f)" % (
        name, statistics.median(seconds), min(seconds), max(seconds), statistics.median(shares), min(shares),
        max(shares)))
    for s, stage in enumerate(manifests[0]["stages"]):
        of_run = [statistics.median(1e-4 * m["stages"][s][key] / m["times"]["run_s"] for m in manifests)
                  for key in ("compute_us", "wait_us", "send_us")]
        print("    layers %d-%d: computes %.0f %%, waits for work %.0f %%, to send %.0f %%" % (
            stage["first_layer"], stage["last_layer"], *of_run), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--jobs", default=",".join(JOBS))
    parser.add_argument("--before")
    parser.add_argument("--also-four", action="store_true")
    options = parser.parse_args()
    arms = {"1 rank of 2 threads": (1, 2, None)}
    for ranks in (2, 4) if options.also_four else (2,):
        if options.before:
            arms["%d ranks, before" % ranks] = (ranks, 1, options.before)
        arms["%d ranks of 1 thread" % ranks] = (ranks, 1, None)
    folder = harness.work_folder()
    vocab = json.loads((pathlib.Path(options.model) / "config.json").read_text())["vocab_size"]
    cpu = next(line.split(": ")[1] for line in open("/proc/cpuinfo", encoding="utf-8") if line.startswith("model name"))
    print("%s, %d cores; %d requests, %d rounds" % (cpu.strip(), os.cpu_count(), REQUESTS, options.rounds))
    for job in options.jobs.split(","):
        write_job(folder / "in.jsonl", job, vocab)
        print("%s: %d tokens in, %d out" % (job, *JOBS[job]))
        told, rows = {name: [] for name in arms}, set()
        for turn in range(options.rounds + 1):
            for name in (list(arms) if turn % 2 else list(arms)[::-1]):
                row, manifest = run(options, folder, job, arms[name])
                rows.add(row)
                if turn:  # the first round warms up
                    told[name].append(manifest)
        for name in arms:
            tell(name, told[name], told["1 rank of 2 threads"])
        if len(rows) != 1:
            sys.exit("%s: the arms gave different rows" % job)


if __name__ == "__main__":
    main()
