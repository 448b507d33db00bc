#!/usr/bin/env python3
"""Neighbours and prefix reuse: a probe's row is the same bytes alone and among others of other lengths at any position,
with reuse on and off, on any layout; beginnings are computed once, which the manifest counts; positions whose logits
are wanted are computed; what was generated greedily is scored the same afterwards, bit for bit.

    reuse.py [ONLY...]      (LOCKSTEP_BIN: the binary; names of checks to run)
"""
import json
import random
import sys
import time

import harness
import jobs

FAULTS = []
FAMILIES = harness.FIXTURES / "families"
CROWDS = [1, 3, 7, 43] + ([255] if harness.LONG else [])


def say(good, what):
    if not good:
        FAULTS.append(what)
        print("WRONG: %s" % what, flush=True)


def run(folder, model, requests, ranks, *arguments, code=0):
    source, out = folder / "in.jsonl", folder / "out.jsonl"
    harness.write_requests(source, requests)
    result = harness.run(ranks, "run", "--model", model, "--input", source, "--output", out, "--progress", "none",
                         *arguments)
    say(result.returncode == code, "exit code %d: %s" % (result.returncode, result.stderr[-1500:]))
    with open(out, encoding="utf-8") as lines:
        return {json.loads(line)["custom_id"]: line for line in lines}


def vocab_of(model):
    return json.loads((model / "config.json").read_text())["vocab_size"]


def draw_tokens(rng, vocab, n):
    return [rng.randrange(8, vocab) for _ in range(n)]


def check_neighbours():
    for name in ("llama-bf16", "mistral", "qwen3"):
        model, folder, rng = FAMILIES / name, harness.work_folder(), random.Random(7)
        vocab = vocab_of(model)
        header = draw_tokens(rng, vocab, 70)
        probe = {"id": "probe", "tokens": header + draw_tokens(rng, vocab, 20), "max_tokens": 12, "ignore_eos": True,
                 "logprobs": 3, "temperature": 0.8}
        for digest in ("generated", "all"):
            alone = run(folder, model, [probe], 0, "--digest", digest, "--prefix-reuse", "off")["probe"]
            for crowd in CROWDS:
                others = [{"id": "o%d" % i, "tokens": header[:rng.choice([0, 0, 32, 69, 70])] +
                           draw_tokens(rng, vocab, rng.randint(1, 40)), "max_tokens": rng.randint(1, 10),
                           "ignore_eos": True} for i in range(crowd)]
                for reuse in ("on", "off"):
                    at = rng.randint(0, crowd)
                    ranks, arguments = jobs.layout(rng)
                    rows = run(folder, model, others[:at] + [probe] + others[at:], ranks, "--digest", digest,
                               "--prefix-reuse", reuse, *arguments[:-2] if "--layers" in arguments else arguments)
                    say(rows.get("probe") == alone, "%s: among %d others, reuse %s, digest %s, %d ranks %s" % (
                        name, crowd, reuse, digest, ranks, arguments))


def record_of(folder):
    return jobs.manifest(folder / "out.jsonl")


def check_pays():
    """Twenty requests with one header of ten blocks: the header is computed once."""
    model, folder, rng = FAMILIES / "llama-bf16", harness.work_folder(), random.Random(3)
    vocab = vocab_of(model)
    header = draw_tokens(rng, vocab, 100)
    requests = [{"id": "r%d" % i, "tokens": header + draw_tokens(rng, vocab, 5), "max_tokens": 3, "ignore_eos": True}
                for i in range(20)]
    tokens = {}
    for ranks in (0, 3):
        for reuse in ("on", "off"):
            rows = run(folder, model, requests, ranks, "--prefix-reuse", reuse)
            tokens[reuse] = rows, record_of(folder)["tokens"], record_of(folder)["reused_kv_blocks"]
        say(tokens["on"][0] == tokens["off"][0], "rows differ")
        say(tokens["off"][2] == 0 and tokens["on"][2] == 19 * 3, "reused blocks: %s" % str(tokens["on"][2]))
        say(tokens["off"][1] - tokens["on"][1] == 19 * 96, "tokens computed: %d and %d" % (
            tokens["on"][1], tokens["off"][1]))
    # several choices of one prompt, and what wants every position's logits
    rows = run(folder, model, [{**requests[0], "n": 4, "temperature": 1}], 2)
    say(record_of(folder)["reused_kv_blocks"] == 9, "choices: %d" % record_of(folder)["reused_kv_blocks"])
    run(folder, model, requests, 2, "--digest", "all")
    say(record_of(folder)["reused_kv_blocks"] == 0, "positions that are digested were not computed")
    both = [run(folder, model, [{**r, "prompt_logprobs": 2} for r in requests], 2, "--prefix-reuse", r)
            for r in ("on", "off")]
    say(record_of(folder)["reused_kv_blocks"] == 0 and both[0] == both[1], "scored positions were not computed")
    # little memory: kept blocks give way
    rows = run(folder, model, requests + [{"id": "x%d" % i, "tokens": draw_tokens(rng, vocab, 110), "max_tokens": 2,
                                           "ignore_eos": True} for i in range(12)], 0, "--max-sequences", 2)
    say({k: rows[k] for k in tokens["on"][0]} == tokens["on"][0], "rows under little memory differ")


def check_nan():
    """A sequence with NaN offers nothing to others, and its row is the same with reuse on and off."""
    folder, rng = harness.work_folder(), random.Random(5)
    model = harness.make_llama(folder / "model", 4, vocab=64)
    tensors = harness.read_safetensors(model / "model.safetensors")
    shape, data = tensors["model.embed_tokens.weight"]
    data[9 * shape[1]] = 0x7fc0  # token 9 is NaN from the embedding on
    harness.write_safetensors(model / "model.safetensors", {
        name: ("BF16", s, d.tobytes()) for name, (s, d) in tensors.items()})
    header = [t for t in draw_tokens(rng, 64, 60) if t != 9]
    requests = []
    for i in range(12):
        bad = header[:40] + ([9] if i % 3 == 1 else [10]) + header[41:]
        requests.append({"id": "r%d" % i, "tokens": bad + [11 + i], "max_tokens": 2, "ignore_eos": True})
    rows = {reuse: run(folder, model, requests, ranks, "--prefix-reuse", reuse, code=10)
            for ranks, reuse in ((2, "on"), (0, "off"))}
    say(rows["on"] == rows["off"], "rows with NaN differ")
    say(sum("nan_logits" in row for row in rows["on"].values()) == 4, "NaN rows: %s" % rows["on"].values())


def check_scored_again():
    """Generated greedily, then scored as a prompt's continuation: the same log-probabilities, bit for bit."""
    model, folder, rng = FAMILIES / "llama-bf16", harness.work_folder(), random.Random(11)
    vocab = vocab_of(model)
    header = draw_tokens(rng, vocab, 64)
    prompts = [header + draw_tokens(rng, vocab, 3 + i) for i in range(6)]
    rows = run(folder, model, [{"id": "g%d" % i, "tokens": p, "max_tokens": 20, "ignore_eos": True, "logprobs": 1}
                               for i, p in enumerate(prompts)], 2, "--max-sequences", 3)
    again = []
    for i, prompt in enumerate(prompts):
        row = json.loads(rows["g%d" % i])
        ids = row["lockstep"]["token_ids"]
        again.append({"id": "s%d" % i, "tokens": prompt + ids, "max_tokens": 0, "echo": True, "logprobs": 1})
    scored = run(folder, model, again, 3, "--budget", 17)
    for i, prompt in enumerate(prompts):
        first = json.loads(rows["g%d" % i])["response"]["body"]["choices"][0]["logprobs"]["token_logprobs"]
        second = json.loads(scored["s%d" % i])["response"]["body"]["choices"][0]["logprobs"]["token_logprobs"]
        say(second[len(prompt):] == first, "prompt %d: %s and %s" % (i, first, second[len(prompt):]))


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
