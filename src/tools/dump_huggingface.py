#!/usr/bin/env python3
"""Logits and hidden states of a checkpoint as Hugging Face's transformers computes them, for `lockstep parity`.

    python3 dump_huggingface.py --model DIR --input REQUESTS --output DUMP [--dtype float32|bfloat16|float16]

needs torch and transformers. REQUESTS is a file of JSON lines with "prompt" (text) or "tokens" (ids), also as OpenAI
batch lines. DUMP gets

    requests.jsonl       the same requests as ids with nothing to generate: the sweep's `prompts`
    logits.safetensors   logits.<id> [tokens][vocab], float32
    hidden.safetensors   hidden.<layer>.<id> [tokens][width] in the model's dtype: 0 is the embedding, n what layer
                         n - 1 gives; hidden.norm.<id> is the last layer's behind the final norm, the only form in
                         which transformers hands that one out
    mapping.yaml         what lies where, for the arm's `mapping`

Every request is computed alone, in one forward pass over all its tokens. --max-tokens N lets the model continue each
prompt greedily by N tokens first. configs/sweeps/huggingface.yaml is the sweep that goes with it.
"""
import argparse
import json
import pathlib
import struct

MAPPING = """logits: {file: logits.safetensors, tensor: "logits.{id}", first_position: 0}
"""
HIDDEN = """hidden: {file: hidden.safetensors, tensor: "hidden.{layer}.{id}"}
"""
CODES = {"float32": ("F32", 4), "bfloat16": ("BF16", 2), "float16": ("F16", 2)}


class Writer:
    """A safetensors file written tensor by tensor, all shapes said beforehand."""

    def __init__(self, path, tensors):
        """tensors: {name: (dtype, shape)}, in the order in which they will come."""
        header, at = {}, 0
        for name, (dtype, shape) in tensors.items():
            code, size = CODES[dtype]
            for n in shape:
                size *= n
            header[name] = {"dtype": code, "shape": shape, "data_offsets": [at, at + size]}
            at += size
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        self.out = open(path, "wb")  # pylint: disable=consider-using-with
        self.out.write(struct.pack("<Q", len(text)) + text)

    def put(self, tensor):
        import torch
        tensor = tensor.detach().contiguous().cpu()
        if tensor.dtype != torch.float32:
            tensor = tensor.view(torch.int16)
        self.out.write(tensor.numpy().tobytes())

    def close(self):
        self.out.close()


def prompts_of(path):
    """(id, text or ids) of each line."""
    for number, line in enumerate(open(path, encoding="utf-8"), 1):  # pylint: disable=consider-using-with
        request = json.loads(line)
        body = request.get("body", request)
        prompt = body.get("tokens", body.get("prompt"))
        if prompt is None:
            raise SystemExit("%s: line %d has neither prompt nor tokens" % (path, number))
        yield request.get("custom_id", request.get("id", "line-%d" % number)), prompt


def encode(arguments, model, torch):
    tokenizer, out = None, []
    for custom_id, prompt in prompts_of(arguments.input):
        if isinstance(prompt, str):
            if tokenizer is None:
                from transformers import AutoTokenizer
                tokenizer = AutoTokenizer.from_pretrained(arguments.model)
            prompt = tokenizer(prompt)["input_ids"]
        if arguments.max_tokens:
            ids = torch.tensor([prompt])
            with torch.no_grad():
                prompt = model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False,
                                        max_new_tokens=arguments.max_tokens)[0].tolist()
        out.append((custom_id, prompt))
    return out


def dump(arguments, model, requests, torch):
    folder, config = arguments.output, model.config.get_text_config()
    width, vocab, layers = config.hidden_size, config.vocab_size, config.num_hidden_layers
    names = [*map(str, range(layers)), "norm"]
    logits = Writer(folder / "logits.safetensors",
                    {"logits." + i: ("float32", [len(ids), vocab]) for i, ids in requests})
    hidden = None
    if not arguments.no_hidden:
        hidden = Writer(folder / "hidden.safetensors", {
            "hidden.%s.%s" % (name, i): (arguments.dtype, [len(ids), width]) for i, ids in requests for name in names})
    for custom_id, ids in requests:
        with torch.no_grad():
            out = model(torch.tensor([ids]), output_hidden_states=hidden is not None, use_cache=False)
        logits.put(out.logits[0].float())
        for state in out.hidden_states if hidden else ():
            hidden.put(state[0])
        print("%s: %d tokens" % (custom_id, len(ids)))
    logits.close()
    if hidden:
        hidden.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--model", required=True)
    parser.add_argument("--input", required=True)
    parser.add_argument("--output", required=True, type=pathlib.Path)
    parser.add_argument("--dtype", default="float32", choices=sorted(CODES))
    parser.add_argument("--max-tokens", type=int, default=0)
    parser.add_argument("--no-hidden", action="store_true")
    arguments = parser.parse_args()
    import torch
    from transformers import AutoModelForCausalLM
    model = AutoModelForCausalLM.from_pretrained(arguments.model, dtype=getattr(torch, arguments.dtype),
                                                 attn_implementation="eager").eval()
    arguments.output.mkdir(parents=True, exist_ok=True)
    requests = encode(arguments, model, torch)
    with open(arguments.output / "requests.jsonl", "w", encoding="utf-8") as out:
        for custom_id, ids in requests:
            out.write(json.dumps({"custom_id": custom_id, "tokens": ids, "max_tokens": 0}) + "\n")
    dump(arguments, model, requests, torch)
    (arguments.output / "mapping.yaml").write_text(MAPPING + ("" if arguments.no_hidden else HIDDEN))


if __name__ == "__main__":
    main()
