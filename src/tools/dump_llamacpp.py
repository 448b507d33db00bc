#!/usr/bin/env python3
"""Logits of a GGUF model as llama.cpp computes them, for `lockstep parity`.

    python3 dump_llamacpp.py --model FILE.gguf --input REQUESTS --output DUMP

needs llama-cpp-python and numpy. REQUESTS is a file of JSON lines with "tokens" (ids), as requests.jsonl of
dump_huggingface.py or forced.jsonl of a sweep: ids, since two tokenizers need not agree. DUMP gets

    requests.jsonl    the same requests with nothing to generate: the sweep's `prompts`
    <number>.npy      logits of the request on that line, [tokens][vocab], float32
    mapping.yaml      what lies where, for the arm's `mapping`

Every request is computed alone. configs/sweeps/llamacpp.yaml is the sweep that goes with it.
"""
import argparse
import json
import pathlib

MAPPING = """logits: {file: "{number}.npy", first_position: 0}
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--model", required=True)
    parser.add_argument("--input", required=True)
    parser.add_argument("--output", required=True, type=pathlib.Path)
    parser.add_argument("--threads", type=int, default=None)
    arguments = parser.parse_args()
    import llama_cpp
    import numpy
    with open(arguments.input, encoding="utf-8") as lines:
        requests = [json.loads(line) for line in lines]
    for number, request in enumerate(requests, 1):
        if not isinstance(request.get("tokens"), list):
            raise SystemExit("%s: line %d has no tokens" % (arguments.input, number))
    context = max(len(request["tokens"]) for request in requests)
    model = llama_cpp.Llama(arguments.model, n_ctx=context, n_batch=context, n_ubatch=context, logits_all=True,
                            n_threads=arguments.threads, flash_attn=False, verbose=False)
    arguments.output.mkdir(parents=True, exist_ok=True)
    with open(arguments.output / "requests.jsonl", "w", encoding="utf-8") as out:
        for number, request in enumerate(requests, 1):
            custom_id, ids = request.get("custom_id", "line-%d" % number), request["tokens"]
            model.reset()
            model.eval(ids)
            rows = numpy.asarray(model.scores[:len(ids)], dtype="<f4")
            numpy.save(arguments.output / ("%d.npy" % number), numpy.ascontiguousarray(rows))
            out.write(json.dumps({"custom_id": custom_id, "tokens": ids, "max_tokens": 0}) + "\n")
            print("%s: %d tokens" % (custom_id, len(ids)))
    (arguments.output / "mapping.yaml").write_text(MAPPING)


if __name__ == "__main__":
    main()
