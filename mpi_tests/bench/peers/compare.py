#!/usr/bin/env python3
"""Lockstep beside other engines: the same token ids, one after the other in turns, and the ratios.

    compare.py --model DIR --work DIR [--threads 2] [--rounds 3] [--jobs prefill,decode,generation,scoring]
               [--engine NAME=PYTHON[,MODEL]]...      (LOCKSTEP_BIN: the binary)

NAME is one of hf, hf-bf16, llama, openvino; PYTHON the interpreter that has its packages; MODEL what it loads when
that is not --model. See README.md. Not part of the tests: the peers come from elsewhere.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import work

HERE = pathlib.Path(__file__).resolve().parent
SCRIPTS = {"hf": ["peer_hf.py"], "hf-bf16": ["peer_hf.py", "bf16"], "llama": ["peer_llama.py"],
           "openvino": ["peer_openvino.py"]}


def measured(command, environment=None):
    """(standard output, seconds from start to exit, peak resident MB)"""
    begin = time.perf_counter()
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                             env={**os.environ, **(environment or {})})
    out = child.stdout.read()
    _, status, usage = os.wait4(child.pid, 0)
    if status:
        sys.exit("%s ended with %d" % (" ".join(command), os.waitstatus_to_exitcode(status)))
    return out, time.perf_counter() - begin, usage.ru_maxrss * 1024 / 1e6


def lockstep_bench(options, name):
    out, _, peak = measured([os.environ["LOCKSTEP_BIN"], "bench", "model", "--model", options.model, "--threads",
                             str(options.threads), "--match", "x%d %s" % (options.threads, name), "--json"])
    rates = [one["median"] for one in json.loads(out)["results"] if one["name"].endswith(" " + name)]
    return rates[0], peak


def lockstep_run(options, command, requests):
    """One whole run: (its manifest, its rows, seconds, peak MB)."""
    with tempfile.TemporaryDirectory() as folder:
        given, out = pathlib.Path(folder, "in.jsonl"), pathlib.Path(folder, "out.jsonl")
        given.write_text("".join(json.dumps(line) + "\n" for line in requests))
        _, seconds, peak = measured([os.environ["LOCKSTEP_BIN"], command, "--model", options.model, "--input",
                                     str(given), "--output", str(out), "--threads", str(options.threads),
                                     "--digest", "none", "--progress", "none"])
        manifest = json.loads(pathlib.Path(str(out) + ".lockstep", "manifest.json").read_text())
        return manifest, [json.loads(line) for line in out.read_text().splitlines()], seconds, peak


def lockstep(options, job):
    """(tokens a second, peak MB)"""
    if job == "prefill":
        return lockstep_bench(options, "prefill 512")
    if job == "decode":
        tokens = work.generation(options.work)[0][0]
        manifest, _, _, peak = lockstep_run(options, "run", [
            {"tokens": tokens, "max_tokens": work.DECODE + 1, "ignore_eos": True, "temperature": 0}])
        prompt = manifest["stages"][0]["compute_prompt_us"] / 1e6
        return work.DECODE / (manifest["times"]["run_s"] - prompt), peak
    if job == "generation":
        requests = [{"tokens": tokens, "max_tokens": n, "ignore_eos": True, "temperature": 0}
                    for tokens, n in work.generation(options.work)]
        manifest, _, seconds, peak = lockstep_run(options, "run", requests)
        return manifest["generated_tokens"] / seconds, peak
    texts = work.scoring(options.work)
    requests = [{"context": tokens[:1], "continuation": tokens[1:]} for tokens in texts]
    _, _, seconds, peak = lockstep_run(options, "score", requests)
    return sum(len(tokens) - 1 for tokens in texts) / seconds, peak


def peer(options, engine, job):
    name, python, model = engine
    script, *words = SCRIPTS[name]
    out, seconds, peak = measured([python, str(HERE / script), job, model, options.work, str(options.threads), *words],
                                  {"OMP_NUM_THREADS": str(options.threads)})
    said = json.loads(out.splitlines()[-1])
    return said["tokens"] / said.get("seconds", seconds), peak


def engine_of(text, model):
    name, _, rest = text.partition("=")
    python, _, other = rest.partition(",")
    if name not in SCRIPTS or not python:
        sys.exit("--engine %s: expected one of %s, =, an interpreter" % (text, ", ".join(SCRIPTS)))
    return name, python, other or model


def main():
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--model", required=True)
    words.add_argument("--work", required=True)
    words.add_argument("--threads", type=int, default=2)
    words.add_argument("--rounds", type=int, default=3)
    words.add_argument("--jobs", default="prefill,decode,generation,scoring")
    words.add_argument("--engine", action="append", default=[])
    options = words.parse_args()
    engines = [engine_of(text, options.model) for text in options.engine]
    if "LOCKSTEP_BIN" not in os.environ:
        sys.exit("LOCKSTEP_BIN is not set: the path of the binary")
    for job in options.jobs.split(","):
        rates, peaks = {}, {}
        able = [engine for engine in engines if (engine[0], job) != ("openvino", "scoring")]
        for _ in range(options.rounds):
            for name, run in [("lockstep", lambda: lockstep(options, job))] + [
                    (engine[0], lambda engine=engine: peer(options, engine, job)) for engine in able]:
                rate, peak = run()
                rates.setdefault(name, []).append(rate)
                peaks.setdefault(name, []).append(peak)
        for name, values in rates.items():
            ratios = [ours / theirs for ours, theirs in zip(rates["lockstep"], values)]
            print("%-11s %-9s %8.1f tokens/s (%.1f..%.1f)  lockstep is %.2f times it (%.2f..%.2f)  peak %.0f MB" % (
                job, name, statistics.median(values), min(values), max(values), statistics.median(ratios), min(ratios),
                max(ratios), statistics.median(peaks[name])), flush=True)


if __name__ == "__main__":
    main()
