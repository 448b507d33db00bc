#!/usr/bin/env python3
"""lockstep bench: its parts, what it prints and writes, a former run beside it, and what a user can get wrong.

    bench.py      (LOCKSTEP_BIN: the binary)
"""
import json
import os
import pathlib

import harness

FAULTS = []
QUICK = ["--seconds", "0", "--threads", "2"]


def say(good, what):
    if not good:
        print("FAULT: " + what)
        FAULTS.append(what)


def bench(*arguments, code=0, env=None):
    return harness.must(harness.run(0, "bench", *arguments, env=env), code)


def check_numbers(document, least):
    """Every result is a whole one: its name once, ten repeats, percentiles around the median."""
    machine = document["machine"]
    say(set(machine) == {"cpu", "flags", "cpus", "caches", "kernel"}, "the machine: %s" % machine)
    names = [(one["part"], one["name"]) for one in document["results"]]
    say(len(set(names)) == len(names), "a name twice")
    for one in document["results"]:
        where = "%s, %s" % (one["part"], one["name"])
        say(one["repeats"] >= least, "%s: %d repeats" % (where, one["repeats"]))
        say(one["p10"] <= one["median"] <= one["p90"], "%s: %s" % (where, one))
        say(one["null_ratio"] > 0 or one["median"] == 0, "%s: null arm %s" % (where, one["null_ratio"]))
    return {name: one for (_, name), one in zip(names, document["results"])}


def check_kernels(folder):
    saved = folder / "a.json"
    table = bench("machine", "kernels", "--match", "rmsnorm", "--cpu", "avx2", "--save", saved, *QUICK).stdout
    results = check_numbers(json.loads(saved.read_text()), 10)
    kernels = [name for name, one in results.items() if one["part"] == "kernels"]
    say(kernels == ["avx2 x1 rmsnorm", "avx2 x2 rmsnorm"], "--match rmsnorm: %s" % kernels)
    peaks = ["FMA, 256 bits, 1 thread", "read, L2, 2 threads", "read, memory, 1 thread", "read, memory, 2 threads"]
    say(all(results[name]["median"] > 0 for name in peaks), "peaks: %s" % list(results))
    say(all(name in table for name in results), "the table lacks a result")
    both = bench("kernels", "--match", "bf16 8 x 576 x 1536", "--cpu", "avx2", "--json", *QUICK).stdout
    one = check_numbers(json.loads(both), 10)["avx2 x2 bf16 8 x 576 x 1536"]
    say(one["bound"] > 0 and one["unit"] == "GFLOP/s", "a product without its bound: %s" % one)


def check_compare(folder):
    """The former run here is one with known numbers."""
    former = folder / "former.json"
    former.write_text(json.dumps({"results": [{"part": "kernels", "name": "avx2 x1 rmsnorm", "median": 1e30}]}))
    table = bench("kernels", "--match", "rmsnorm", "--cpu", "avx2", "--compare", former, *QUICK).stdout.splitlines()
    head = [line for line in table if line.startswith("kernels")][0].split()
    say(head[-4:] == ["null", "cpu%", "former", "ratio"], "head of the table: %s" % head)
    lines = {line[:15]: line.split() for line in table if "rmsnorm" in line}
    say(lines["avx2 x1 rmsnorm"][-2:] == ["1e+21", "0.00"], "beside the former run: %s" % lines)
    say("1e+21" not in lines["avx2 x2 rmsnorm"], "no former number, but one is shown: %s" % lines)


def check_model(folder):
    harness.make_llama(folder / "model", 2, max_position_embeddings=256)
    wanted = check_numbers(json.loads(bench("model", "--model", folder / "model", "--match", "x2 ", "--json",
                                            *QUICK).stdout), 10)
    names = ["x2 load, from the page cache", "x2 prefill 32", "x2 prefill 128", "x2 scoring 256",
             "x2 decode, batch 256"]
    phases = ["rows", "q, k, v", "rope, cache", "attention", "o", "gate, up", "down", "head"]
    names += ["  x2 decode, batch 1: " + phase for phase in phases]
    for name in names:
        say(name in wanted and wanted[name]["median"] > 0, "bench model: no %s" % name)
    say("x2 prefill 512" not in wanted, "a prompt longer than the context")


def check_runs(folder):
    requests, temporary = folder / "in.jsonl", folder / "tmp"
    temporary.mkdir()
    harness.write_requests(requests, [{"tokens": [5, 6, 7, i % 60], "max_tokens": 4} for i in range(20)])
    model = harness.FIXTURES / "families" / "llama-bf16"
    document = json.loads(bench("job", "pipeline", "--model", model, "--input", requests, "--repeats", 2, "--ranks", 2,
                                "--json", *QUICK, env={"TMPDIR": str(temporary)}).stdout)
    results = check_numbers(document, 2)
    for name in ["start: processes, checkpoint, load", "steps with prompts in them", "steps of decoding alone",
                 "tokens made, whole process", "peak memory", "1 rank: tokens fed and made",
                 "2 ranks: tokens fed and made"]:
        say(name in results and results[name]["median"] > 0, "bench job, pipeline: no %s" % name)
    say("  stage 1 of 2: waits for work" in results, "waits of stage 1: %s" % list(results))
    say(0 < results["2 ranks: tokens fed and made"]["bound"], "a pipeline without its bound")
    missing = bench("job", "--model", model, "--input", folder / "none", *QUICK, code=4, env={"TMPDIR": str(temporary)})
    say("the run that was to be measured ended with 2" in missing.stderr, "no input: %s" % missing.stderr)
    say(not os.listdir(temporary), "left behind: %s" % os.listdir(temporary))


def check_link(folder):
    """Alone it starts its ranks; under a launcher it measures between them: neighbours, and the last with rank 0."""
    temporary = folder / "link"
    temporary.mkdir()
    words = ["link", "--match", " 1 KiB", "--repeats", 10, "--seconds", 0]
    alone = bench(*words, "--json", env={"TMPDIR": str(temporary)})
    results = check_numbers(json.loads(alone.stdout), 10)
    say(not os.listdir(temporary), "left behind: %s" % os.listdir(temporary))
    for level in ("plain", "signed", "sealed"):
        stream, one_way = results["0-1 1 KiB %s: stream" % level], results["0-1 1 KiB %s: one way" % level]
        say(stream["median"] > 0 and stream["bound"] > 0 and one_way["median"] > 0, "%s: %s" % (level, stream))
        share = results.get("0-1 1 KiB %s:   in the cipher" % level, {"median": 0})["median"]
        say(share == 0 if level == "plain" else 0 < share < 1, "%s: %s of the time in the cipher" % (level, share))
        packed = results.get("0-1 1 KiB %s, lz4:   packed to" % level)
        say(packed is None or 0.5 < packed["median"] < 1, "%s: packed to %s" % (level, packed))
    own = [one["median"] for name, one in results.items() if ", sealed, 1 KiB" in name]
    say(len(own) == 2 and min(own) == results["0-1 1 KiB sealed: stream"]["bound"], "libsodium's own rates: %s" % own)
    both = [results["0-1 1 KiB sealed:   cipher alone, %s" % end]["median"] for end in ("sender", "receiver")]
    say(min(both) > 0 and 0 < results["0-1 1 KiB sealed:   of the slower one"]["median"], "both ends: %s" % both)
    say("0-1 1 KiB plain:   of the slower one" not in results, "plain has no cipher")
    say(0 < results["0-1 1 KiB sealed:   of cipher behind MPI"]["median"], "the share of what both allow")
    say(results["0-1 1 KiB plain: stream"]["bound"] == results["0-1 1 KiB MPI: stream"]["median"], "MPI's own rate")
    say(not any("KiB" in name and " 1 KiB" not in name for name in results), "--match: %s" % list(results))
    table = harness.must(harness.run(3, "bench", "link", "--match", " 1 KiB sealed", "--repeats", 2, "--seconds", 0,
                                     "--threads", 2))
    pairs = [line.split()[0] for line in table.stdout.splitlines() if line.endswith("100") and "one way" in line]
    say(list(dict.fromkeys(pairs)) == ["0-1", "1-2", "2-0"], "pairs: %s" % table.stdout)
    say("MPI:" not in table.stdout and " 0-1 1 KiB plain" not in table.stdout, "--match sealed: %s" % table.stdout)
    split = harness.must(harness.run(2, "bench", "link", "--match", "0-1 16 KiB sealed", "--repeats", 2, "--seconds", 0,
                                     "--threads", 2, "--frame", "4K"))
    say("0-1 16 KiB sealed: stream" in split.stdout, "frames of 4 KiB on two threads: %s" % split.stdout)


def check_link_refusals(folder):
    key = folder / "key"
    key.write_text("no key")
    key.chmod(0o600)
    for ranks, words, code, part in [
            (2, ["link", "machine"], 2, "it is measured alone"), (1, ["link"], 4, "one rank has no link"),
            (2, ["link", "--secret-file", key], 4, "--secret-file"),
            (0, ["link", "--ranks", 1], 2, "one rank has no link"),
            (0, ["link", "--secret-fd", 3], 2, "--secret-fd is for ranks that a launcher started"),
            (0, ["link", "--frame", 5000], 2, "expected a multiple of 4096")]:
        result = harness.must(harness.run(ranks, "bench", *words), code)
        said = [line for line in result.stderr.splitlines() if line.startswith("lockstep: ")]
        say(len(said) == 1 and part in said[0], "%s: %s" % (words, result.stderr))


def check_refusals(folder):
    (folder / "other.json").write_text('{"results": 3}')
    (folder / "broken.json").write_text('{"results": [')
    for words, code, part in [
            (["nothing"], 2, "bench nothing: no such part"),
            (["model"], 2, "need --model"),
            (["machine", "--compare", folder / "absent.json"], 2, "absent.json"),
            (["machine", "--compare", folder / "broken.json"], 2, "broken.json"),
            (["machine", "--compare", folder / "other.json"], 3, "it has no list of results"),
            (["machine", "--save", folder / "no" / "such", *QUICK], 4, "cannot be written"),
            (["job", "--model", folder / "nowhere"], 2, "nowhere")]:
        result = bench(*words, code=code)
        lines = result.stderr.splitlines()
        say(len(lines) == 1 and part in lines[0], "%s: %s" % (words, lines))


def main():
    folder = pathlib.Path(harness.work_folder())
    for check in (check_refusals, check_link_refusals, check_link, check_kernels, check_compare, check_model,
                  check_runs):
        check(folder)
        print("%s: done" % check.__name__, flush=True)
    print("%d faults" % len(FAULTS))
    raise SystemExit(1 if FAULTS else 0)


if __name__ == "__main__":
    main()
