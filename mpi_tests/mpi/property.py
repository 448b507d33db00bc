#!/usr/bin/env python3
"""The bits test: whatever the layout, the output file is the same, byte for byte.

    property.py [--draws N] [--seed S] [--only MODEL]

The default is 300 draws, 6000 in the long form (LOCKSTEP_LONG). Draws a model, a layout (stages, replicas, uneven
cuts, token budget, chunk, steps in flight, threads, instruction set, placement of slots and KV blocks, prefix reuse),
an order and a company of requests, runs the real binary under mpirun, and compares every row with the row that one
rank with the plainest settings gave, digests of all logits included. The seed is printed and repeats a run.
"""
import argparse
import collections
import concurrent.futures
import json
import random
import shutil
import subprocess
import sys
import time

import harness

MODELS = [
    # name, fixture or None, layers, extra arguments
    ("llama-f32", "llama-f32", 5, []),
    ("llama-f16", "llama-f16", 4, []),
    ("llama-bf16", "llama-bf16", 5, []),
    ("llama-bf16 in f32", "llama-bf16", 5, ["--dtype", "f32"]),
    ("llama-f16 in f32", "llama-f16", 4, ["--dtype", "f32"]),
    ("llama-tied-bf16", "llama-tied-bf16", 6, []),
    ("mistral", "mistral", 5, []),
    ("mistral in f32", "mistral", 5, ["--dtype", "f32"]),
    ("qwen2-window", "qwen2-window", 5, []),
    ("qwen3", "qwen3", 5, []),
    ("smollm3", "smollm3", 5, []),
    ("gemma2", "gemma2", 5, []),
    ("gemma3", "gemma3", 5, []),
    ("cohere2", "cohere2", 5, []),
    ("mixtral", "mixtral", 4, []),
    ("qwen2_moe", "qwen2_moe", 4, []),
    ("glm4_moe", "glm4_moe-groups", 5, []),
    ("gpt_oss", "gpt_oss-mxfp4", 4, []),
    ("llama4", "llama4", 5, []),
    ("gemma4", "gemma4", 6, []),
    ("gemma4-moe", "gemma4-moe", 5, []),
    ("61 layers", None, 61, []),
    ("30 layers", None, 30, []),
    ("36 layers", None, 36, []),
]
# Places where a stage may begin, for models whose layers read the keys and values of others.
CUTS = {"gemma4": [1]}
FIXED_STAGES = {"61 layers": [2, 3, 7], "30 layers": [4, 7], "36 layers": [5, 8]}


def make_requests(rng, vocab):
    """Prompts longer and shorter than a window, a KV block, a chunk and a tile; greedy and sampled."""
    requests = []
    header = [rng.randrange(8, vocab) for _ in range(97)]
    for i, length in enumerate([1, 2, 7, 31, 32, 33, 70, 97, 40, 65, 97, 96]):
        same = [0, 33, 64, 96, 64][max(0, i - 7)]  # some begin with the tokens that others begin with
        body = {"tokens": header[:same] + [rng.randrange(8, vocab) for _ in range(length - same)], "id": "r%d" % i,
                "max_tokens": rng.choice([1, 3, 9, 20]), "ignore_eos": True, "temperature": 0}
        if i % 3 == 1:
            body.update(temperature=0.9, top_k=40, top_p=0.95, seed=i)
        if i == 4:
            body.update(n=2, temperature=1.0)
        if i == 6:
            body.update(repetition_penalty=1.2, presence_penalty=0.5)
        requests.append(body)
    return requests


def cpu_paths():
    text = open("/proc/cpuinfo", encoding="utf-8").read()
    return ["ref", "avx2"] + (["avx512"] if "avx512f" in text else [])


def draw_layout(rng, name, layers):
    places = CUTS.get(name) or list(range(1, layers))
    stages = rng.choice(FIXED_STAGES.get(name) or list(range(1, len(places) + 2)))
    arguments = []
    if rng.random() < 0.7 and stages > 1:
        cuts = [0] + sorted(rng.sample(places, stages - 1)) + [layers]
        arguments += ["--layers", ",".join("%d-%d" % (a, b - 1) for a, b in zip(cuts, cuts[1:]))]
    budget = rng.choice([1, 2, 5, 16, 17, 64, 333])
    arguments += ["--budget", budget, "--chunk", rng.randint(1, budget)]
    arguments += ["--threads", rng.randint(1, 4), "--cpu", rng.choice(cpu_paths())]
    arguments += ["--window", rng.randint(1, 2 * stages + 1), "--placement-seed", rng.randrange(1, 1 << 30)]
    arguments += ["--max-sequences", rng.choice([1, 2, 3, 16]), "--prefix-reuse", rng.choice(["on", "on", "off"])]
    replicas = rng.choice([1, 1, 2, 3])
    if stages * replicas > max(4, stages):
        replicas = 1
    if replicas > 1:
        arguments += ["--replicas", rng.choice([replicas, replicas, "auto"]), "--stages", stages]
        arguments += ["--share-weights", rng.choice(["on", "on", "off"])]
    return stages * replicas, arguments


def run_once(folder, model, requests, ranks, arguments):
    source, out = folder / "in.jsonl", folder / "out.jsonl"
    harness.write_requests(source, requests)
    result = harness.run(ranks, "run", "--model", model, "--input", source, "--output", out, "--progress", "none",
                         *arguments)
    harness.must(result)
    return {json.loads(line)["custom_id"]: line for line in open(out, encoding="utf-8")}


class Draws:
    """Draws run two at a time, since most of a short run is the launcher's waiting; what is drawn depends on the seed
    alone."""

    def __init__(self, seed):
        self.seed, self.rng, self.folder = seed, random.Random(seed), harness.work_folder()
        self.plain = {}

    def expected(self, name, fixture, layers, model, settings):
        """The requests of a model, and the rows that one rank with the plainest settings gives."""
        key = (name, *settings)
        if key not in self.plain:
            if not fixture and not model.exists():
                harness.make_llama(model, layers, hidden=16, intermediate=24, max_position_embeddings=160)
            vocab = json.load(open(model / "config.json", encoding="utf-8"))["vocab_size"]
            requests = make_requests(random.Random(self.seed + len(self.plain)), vocab)
            self.plain[key] = requests, run_once(self.folder, model, requests, 0, [
                "--cpu", "ref", "--threads", 1, "--prefix-reuse", "off", *settings])
        return self.plain[key]

    def draw(self, number, chosen):
        name, fixture, layers, extra = chosen
        model = harness.FIXTURES / "families" / fixture if fixture else self.folder / name
        settings = ["--digest", self.rng.choice(["all", "generated"]), *extra]
        requests, expected = self.expected(name, fixture, layers, model, settings)
        company = self.rng.sample(requests, self.rng.randint(1, len(requests)))
        ranks, arguments = draw_layout(self.rng, name, layers)
        return lambda: self.run(number, name, model, company, expected, ranks, [*arguments, *settings])

    def run(self, number, name, model, company, expected, ranks, arguments):
        folder = self.folder / ("draw %d" % number)
        folder.mkdir()
        what = "draw %d, %s, %d ranks: %s" % (number, name, ranks, " ".join(map(str, arguments)))
        try:
            got = run_once(folder, model, company, ranks, arguments)
        except subprocess.TimeoutExpired:
            sys.exit("%s: hung" % what)
        for request in company:
            if got.get(request["id"]) != expected[request["id"]]:
                sys.exit("%s: differs at %s\nexpected %sgot      %s" % (
                    what, request["id"], expected[request["id"]], got.get(request["id"])))
        manifest = json.loads((folder / "out.jsonl.lockstep" / "manifest.json").read_text())
        shutil.rmtree(folder)
        return ranks, manifest["reused_kv_blocks"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--draws", type=int, default=6000 if harness.LONG else 300)
    parser.add_argument("--seed", type=int, default=20261129)
    parser.add_argument("--only")
    options = parser.parse_args()
    print("seed", options.seed, flush=True)
    models = [m for m in MODELS if not options.only or m[0] == options.only]
    draws, begin = Draws(options.seed), time.time()
    running, done = collections.deque(), []
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for number in range(options.draws):
            running.append(pool.submit(draws.draw(number, models[number % len(models)])))
            if len(running) > 3:
                done.append(running.popleft().result())
            if number % 25 == 24:
                print("%d draws, %.0f s" % (number + 1, time.time() - begin), flush=True)
    done += [draw.result() for draw in running]
    reused = sum(blocks for _, blocks in done)
    print("%d draws, all equal; %d KV blocks taken over; ranks drawn: %s" % (
        len(done), reused, dict(sorted(collections.Counter(ranks for ranks, _ in done).items()))))
    if not reused and options.draws > 30:
        sys.exit("no prefix was ever reused")


if __name__ == "__main__":
    main()
