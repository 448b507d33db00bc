#!/usr/bin/env python3
"""What a plan predicts beside what a run then takes: peak memory of each rank within 5 %, and time.

    forecast.py [MODEL...]      (LOCKSTEP_BIN: the binary; MODEL: folders of checkpoints in the demo's place)

The demo as one process and as 1 and 2 ranks; in the long form also as 3, and with it SmolLM2 (from LOCKSTEP_MODELS) and
random weights of the shape of Llama 3.2 1B. Times are printed only: they are right on a machine that does nothing else.
"""
import json
import os
import pathlib
import random
import sys

import harness

TOLERANCE = 0.05
# A heap that is filled on purpose, as meson has it in tests, has more in memory.
PLAIN_HEAP = {"MALLOC_PERTURB_": "0"}


def requests(model):
    """Random tokens: more than one step of prompts, then decoding; few for a large model."""
    config = json.loads((model / "config.json").read_text())
    n, prompt, new = (8, 32, 4) if config["hidden_size"] >= 2048 else (48, 64, 16)
    rng = random.Random(1)
    most = config["vocab_size"] * 3 // 4
    return [{"tokens": [rng.randrange(8, most) for _ in range(prompt)], "max_tokens": new, "ignore_eos": True,
             "temperature": 0} for _ in range(n)]


def predict(options, ranks, folder):
    """Of the plan of this process, or of a dry run under the launcher."""
    how = ("run", "--dry-run", "--output", folder / "none") if ranks else ("plan",)
    return json.loads(harness.must(harness.run(ranks, *how, *options, "--json", env=PLAIN_HEAP)).stdout)["prediction"]


def check(model, source, folder, ranks):
    """Predicts, runs, and returns how many ranks' memory was predicted wrongly."""
    options = ["--model", model, "--input", source, "--threads", 1]
    predicted, out = predict(options, ranks, folder), folder / "out.jsonl"
    harness.must(harness.run(ranks, "run", *options, "--output", out, "--progress", "none", env=PLAIN_HEAP))
    manifest = json.loads((folder / "out.jsonl.lockstep" / "manifest.json").read_text())
    wrong, name = 0, "%s, %s" % (model.name, "%d ranks" % ranks if ranks else "no launcher")
    for rank, (said, got) in enumerate(zip(predicted["ranks"], manifest["stages"], strict=True)):
        off = said["peak_bytes"] / got["peak_bytes"] - 1
        wrong += abs(off) > TOLERANCE
        print("%s, rank %d: predicted %.1f MiB, measured %.1f, %+.1f %%%s" % (
            name, rank, said["peak_bytes"] / 2 ** 20, got["peak_bytes"] / 2 ** 20, 100 * off,
            "  WRONG" * (abs(off) > TOLERANCE)))
    times = manifest["times"]
    print("%s: %d and %d steps; run %.2f s predicted, %.2f measured, %+.1f %%; start %.2f and %.2f" % (
        name, predicted["steps"], manifest["steps"], predicted["run_s"], times["run_s"],
        100 * (predicted["run_s"] / times["run_s"] - 1), predicted["load_s"], times["start_s"]))
    return wrong


def models(folder):
    if sys.argv[1:]:
        return [pathlib.Path(a) for a in sys.argv[1:]]
    demo = harness.FIXTURES.parent.parent / "configs" / "demo"
    if not harness.LONG:
        return [demo]
    real = pathlib.Path(os.environ.get("LOCKSTEP_MODELS", "none")) / "smollm2-135m"
    if not real.is_dir():
        print("SKIP: LOCKSTEP_MODELS names no folder with smollm2-135m")
    large = harness.make_llama(folder / "shape-1b", 16, hidden=2048, heads=32, kv_heads=8, intermediate=8192,
                               vocab=128256, tied=True, max_position_embeddings=2048)
    return [demo] + [real] * real.is_dir() + [large]


def main():
    folder, wrong = harness.work_folder(), 0
    source = folder / "in.jsonl"
    for model in models(folder):
        harness.write_requests(source, requests(model))
        for ranks in (0, 1, 2, 3) if harness.LONG else (0, 1, 2):
            wrong += check(model, source, folder, ranks)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
