#!/usr/bin/env python3
"""What `lockstep plan --input` predicts, beside what a run then takes: peak memory of each rank, 5 %.

    forecast.py [MODEL...]      (LOCKSTEP_BIN: the binary; folders of checkpoints, in the place of the demo)

Each model runs as one process and as 1, 2 and 3 ranks. Times are printed, too; whether they are right can only be
said on a machine that does nothing else. Run by hand: no test of the build calls it.
"""
import json
import pathlib
import sys

import harness

TOLERANCE = 0.05


def requests(model):
    """Random tokens: more than one step of prompts, then decoding; few for a large model."""
    config = json.loads((model / "config.json").read_text())
    large = config["hidden_size"] >= 2048
    n, prompt, new = (8, 32, 4) if large else (48, 64, 16)
    rng = harness.random.Random(1)
    most = config["vocab_size"] * 3 // 4
    return [{"tokens": [rng.randrange(8, most) for _ in range(prompt)], "max_tokens": new, "ignore_eos": True,
             "temperature": 0} for _ in range(n)]


def check(model, source, folder, ranks):
    stages = max(ranks, 1)
    options = ["--model", model, "--input", source, "--threads", 1]
    plan = json.loads(harness.must(harness.run(
        0, "plan", *options, "--json", "--stages", stages)).stdout)["prediction"]
    if ranks:
        plan = json.loads(harness.must(harness.run(
            ranks, "run", *options, "--output", folder / "none", "--dry-run", "--json")).stdout)["prediction"]
    harness.must(harness.run(ranks, "run", *options, "--output", folder / "out.jsonl", "--progress", "none"))
    manifest = json.loads((folder / "out.jsonl.lockstep" / "manifest.json").read_text())
    wrong = manifest["steps"] != plan["steps"] and ranks < 2
    for rank, predicted in enumerate(plan["ranks"]):
        got, said = manifest["stages"][rank]["peak_bytes"], predicted["peak_bytes"]
        off = said / got - 1
        wrong += abs(off) > TOLERANCE
        print("%s, %d ranks, rank %d: predicted %.1f MiB, measured %.1f, %+.1f %%%s" % (
            model.name, ranks, rank, said / 2 ** 20, got / 2 ** 20, 100 * off, "  WRONG" * (abs(off) > TOLERANCE)))
    times = manifest["times"]
    print("%s, %d ranks: %d and %d steps; run %.2f s predicted, %.2f measured, %+.1f %%; load %.2f, start %.2f" % (
        model.name, ranks, plan["steps"], manifest["steps"], plan["run_s"], times["run_s"],
        100 * (plan["run_s"] / times["run_s"] - 1), plan["load_s"], times["start_s"]))
    return wrong


def main():
    folder, wrong = harness.work_folder(), 0
    models = [pathlib.Path(a) for a in sys.argv[1:]] or [harness.FIXTURES.parent.parent / "configs" / "demo"]
    for model in models:
        source = folder / "in.jsonl"
        harness.write_requests(source, requests(model))
        for ranks in (0, 1, 2, 3):
            wrong += check(model, source, folder, ranks)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
