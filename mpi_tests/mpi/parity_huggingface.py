#!/usr/bin/env python3
"""A sweep against Hugging Face's transformers in float32 and bfloat16, and all its figures computed again by numpy from
the two dumps: equal to 1e-9 relative or 1e-13 absolute. On the demo model; with --long also on SmolLM2-135M where
LOCKSTEP_MODELS has it. Skips without numpy, torch and transformers.
"""
import json
import os
import pathlib
import subprocess
import sys

import harness

try:
    import numpy
    import torch  # noqa: F401  pylint: disable=unused-import
    import transformers  # noqa: F401  pylint: disable=unused-import
except ImportError as error:
    print("SKIP: %s" % error)
    sys.exit(harness.SKIP)

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
WORST = {}


def close(what, got, wanted):
    off = abs(got - wanted)
    WORST[what] = max(WORST.get(what, 0.0), off / max(abs(wanted), 1e-4))
    if off > max(1e-13, 1e-9 * abs(wanted)):
        sys.exit("%s: %.17g, numpy has %.17g" % (what, got, wanted))


def tensors(path):
    with open(path, "rb") as f:
        header = json.loads(f.read(int.from_bytes(f.read(8), "little")))
        begin = f.tell()
    return {name: numpy.memmap(path, "<f4", "r", begin + e["data_offsets"][0], tuple(e["shape"]))
            for name, e in header.items()}


def steps(x):
    bits = numpy.ascontiguousarray(x).view(numpy.int32).astype(numpy.int64)
    return numpy.where(bits < 0, -(bits & 0x7fffffff), bits)


def log_softmax(x):
    x = x.astype(numpy.float64)
    x = x - x.max(axis=1, keepdims=True)
    return x - numpy.log(numpy.exp(x).sum(axis=1, keepdims=True))


def figures(reference, arm, requests):
    """All figures of an arm."""
    kl, agree, five, nll, squares, n, worst, bins = [], [], 0, [], 0.0, 0, 0.0, numpy.zeros(40, dtype=numpy.int64)
    for request in requests:
        name, ids = request["custom_id"], request["tokens"]
        x, y = numpy.asarray(reference[name]), numpy.asarray(arm["logits." + name])
        lx, ly = log_softmax(x), log_softmax(y)
        kl.append((numpy.exp(lx) * (lx - ly)).sum(axis=1))
        agree.append(x.argmax(axis=1) == y.argmax(axis=1))
        tx, ty = (numpy.argsort(-z, axis=1, kind="stable")[:, :5] for z in (x, y))
        five += sum(len(set(a) & set(b)) for a, b in zip(tx, ty))
        rows = numpy.arange(len(ids) - 1)
        nll.append(numpy.stack([-lx[rows, ids[1:]], -ly[rows, ids[1:]]]))
        d = y.astype(numpy.float64) - x
        squares, n, worst = squares + (d * d).sum(), n + d.size, max(worst, numpy.abs(d).max())
        ulps = numpy.abs(steps(x) - steps(y))
        exponent = numpy.ceil(numpy.log2(numpy.maximum(ulps, 1))).astype(int)
        bins += numpy.bincount(numpy.where(ulps == 0, 0, exponent + 1).ravel(), minlength=40)
    kl, agree, nll = numpy.concatenate(kl), numpy.concatenate(agree), numpy.concatenate(nll, axis=1)
    return kl, agree, five, nll, squares, n, worst, bins


def check(c, reference, arm, requests):
    kl, agree, five, nll, squares, n, worst, bins = figures(reference, arm, requests)
    close("kl mean", c["kl"]["mean"], kl.mean())
    close("kl p99", c["kl"]["p99"], numpy.percentile(kl, 99))
    close("kl max", c["kl"]["max"], kl.max())
    close("rms", c["rms"], numpy.sqrt(squares / n))
    close("max_abs", c["max_abs"], worst)
    close("top-1", c["top1_agreement"], agree.mean())
    close("top-5", c["top5_agreement"], five / (5 * len(kl)))
    counts = c["ulp_histogram"]["counts"]
    if counts != bins[:len(counts)].tolist() or bins.sum() != sum(counts):
        sys.exit("ulp histogram: %r, numpy has %r" % (counts, bins.tolist()))
    p, m = c["perplexity"], nll.shape[1]
    ppl = numpy.exp(nll.mean(axis=1))
    close("perplexity", p["reference"], ppl[0])
    close("perplexity", p["arm"], ppl[1])
    close("delta", p["delta"], ppl[1] - ppl[0])
    close("nll delta", p["nll_delta"], (nll[1] - nll[0]).mean())
    close("nll delta se", p["nll_delta_se"], (nll[1] - nll[0]).std(ddof=1) / numpy.sqrt(m))
    close("delta se", p["delta_se"], (ppl[1] * nll[1] - ppl[0] * nll[0]).std(ddof=1) / numpy.sqrt(m))


def try_model(folder, model, prompts):
    dumps = {}
    for dtype in ("float32", "bfloat16"):
        dumps[dtype] = folder / dtype
        subprocess.run([sys.executable, str(ROOT / "src/tools/dump_huggingface.py"), "--model", str(model), "--input",
                        str(prompts), "--output", str(dumps[dtype]), "--dtype", dtype], check=True,
                       stdout=subprocess.DEVNULL)
    (folder / "s.yaml").write_text(json.dumps({
        "prompts": str(dumps["float32"] / "requests.jsonl"), "output": str(folder / "sweep"), "mode": "forced",
        "defaults": {"model": str(model)}, "reference": {"dtype": "f32"},
        "arms": [{"name": dtype, "dump": str(path), "mapping": str(path / "mapping.yaml")}
                 for dtype, path in dumps.items()]}))
    harness.must(harness.run(0, "parity", "--config", folder / "s.yaml", timeout=900), 10)
    report = json.loads((folder / "sweep" / "report.json").read_text())
    reference = {}
    for path in (folder / "sweep" / "logits" / "000-forced").glob("*.safetensors"):
        reference.update(tensors(path))
    requests = harness.rows(dumps["float32"] / "requests.jsonl")
    for arm in report["arms"]:
        check(arm["forced"], reference, tensors(dumps[arm["name"]] / "logits.safetensors"), requests)
        print("%s, %s: mean KL %.2e, top-1 %.4f, perplexity %.4f and %.4f" % (
            pathlib.Path(model).name, arm["name"], arm["forced"]["kl"]["mean"], arm["forced"]["top1_agreement"],
            arm["forced"]["perplexity"]["reference"], arm["forced"]["perplexity"]["arm"]))


def main():
    prompts = ROOT / "configs" / "demo" / "prompts.jsonl"
    try_model(harness.work_folder(), ROOT / "configs" / "demo", prompts)
    real = pathlib.Path(os.environ.get("LOCKSTEP_MODELS", "")) / "smollm2-135m"
    if harness.LONG and (real / "config.json").exists():
        try_model(harness.work_folder(), real, prompts)
    for what, off in sorted(WORST.items()):
        print("%-14s %.1e apart at most" % (what, off))


if __name__ == "__main__":
    main()
