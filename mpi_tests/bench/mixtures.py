#!/usr/bin/env python3
"""What routing costs: the feed-forward of random mixtures of experts beside a dense one of equal work for a token, one
thread.

    mixtures.py [--rounds N]     (LOCKSTEP_BIN: the binary)

Writes three checkpoints (1 GB) into a temporary folder and runs `bench model` on them in turn. Prints the machine, and
for each number of rows the tokens a second that the feed-forward of all layers alone would allow (the experts with
their router; gate, up and down of the dense one): the median of the rounds, and its share of the dense one's rate
within each round.
"""
import argparse
import json
import math
import os
import pathlib
import random
import statistics
import struct
import subprocess
import sys
import tempfile

HIDDEN, FFN, LAYERS, VOCAB, HEADS, KV_HEADS, HEAD = 1024, 3072, 4, 4096, 16, 8, 64
COMMON = {"hidden_size": HIDDEN, "intermediate_size": FFN, "num_hidden_layers": LAYERS, "vocab_size": VOCAB,
          "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS, "head_dim": HEAD, "hidden_act": "silu",
          "max_position_embeddings": 1024, "rms_norm_eps": 1e-6, "rope_theta": 1e6, "attention_bias": False,
          "bos_token_id": 1, "eos_token_id": 2, "tie_word_embeddings": True, "torch_dtype": "bfloat16"}
MODELS = [("dense", 0, 0), ("2 of 8", 8, 2), ("4 of 32", 32, 4)]  # name, experts, chosen ones
ROWS = {"decode, batch 1": 1, "decode, batch 64": 64, "prefill 512": 512}
FEED_FORWARD = ("gate, up", "down", "experts")


def config_of(experts, chosen):
    if not experts:
        return {**COMMON, "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3"}
    return {**COMMON, "architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "num_experts": experts,
            "num_experts_per_tok": chosen, "moe_intermediate_size": FFN // chosen, "decoder_sparse_step": 1,
            "mlp_only_layers": [], "norm_topk_prob": True}


def feed_forward(width):
    return {"gate_proj": (width, HIDDEN), "up_proj": (width, HIDDEN), "down_proj": (HIDDEN, width)}


def shapes_of(experts, chosen):
    """{name: shape} of every tensor."""
    layer = {"input_layernorm": (HIDDEN,), "self_attn.q_norm": (HEAD,), "self_attn.k_norm": (HEAD,),
             "self_attn.q_proj": (HEADS * HEAD, HIDDEN), "self_attn.k_proj": (KV_HEADS * HEAD, HIDDEN),
             "self_attn.v_proj": (KV_HEADS * HEAD, HIDDEN), "self_attn.o_proj": (HIDDEN, HEADS * HEAD),
             "post_attention_layernorm": (HIDDEN,)}
    if experts:
        layer["mlp.gate"] = (experts, HIDDEN)
        layer.update({"mlp.experts.%d.%s" % (e, name): shape for e in range(experts)
                      for name, shape in feed_forward(FFN // chosen).items()})
    else:
        layer.update({"mlp." + name: shape for name, shape in feed_forward(FFN).items()})
    names = {"model.layers.%d.%s.weight" % (i, name): shape for i in range(LAYERS) for name, shape in layer.items()}
    return {"model.embed_tokens.weight": (VOCAB, HIDDEN), **names, "model.norm.weight": (HIDDEN,)}


def bf16(rng, shape):
    """Norms of one; else numbers of either sign between 2^-7 and 2^-5."""
    n = math.prod(shape)
    if len(shape) == 1:
        return b"\x80\x3f" * n
    bits = bytearray(rng.randbytes(2 * n))
    bits[1::2] = bits[1::2].translate(bytes(0x3c | byte & 0x80 for byte in range(256)))
    return bits


def write_checkpoint(folder, experts, chosen):
    shapes, header, offset, rng = shapes_of(experts, chosen), {}, 0, random.Random(1)
    for name, shape in shapes.items():
        size = 2 * math.prod(shape)
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config_of(experts, chosen)))
    with open(folder / "model.safetensors", "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        for shape in shapes.values():
            out.write(bf16(rng, shape))


def rate(folder, case):
    """(the machine, tokens a second of the feed-forward)"""
    done = subprocess.run([os.environ["LOCKSTEP_BIN"], "bench", "model", "--model", str(folder), "--threads", "1",
                           "--cpu-time", "--seconds", "0", "--match", "x1 " + case, "--json"],
                          stdout=subprocess.PIPE, check=True)
    said = json.loads(done.stdout)
    phases = ["  x1 %s: %s" % (case, phase) for phase in FEED_FORWARD]
    seconds = [1 / one["median"] for one in said["results"] if one["name"] in phases]
    return said["machine"], 1 / sum(seconds)


def main():
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--rounds", type=int, default=2)
    options = words.parse_args()
    if "LOCKSTEP_BIN" not in os.environ:
        sys.exit("LOCKSTEP_BIN is not set: the path of the binary")
    with tempfile.TemporaryDirectory() as parent:
        folders = {name: pathlib.Path(parent, name.replace(" ", "-")) for name, _, _ in MODELS}
        for name, experts, chosen in MODELS:
            write_checkpoint(folders[name], experts, chosen)
        for case, rows in ROWS.items():
            rates = {name: [] for name in folders}
            for _ in range(options.rounds):
                for name, folder in folders.items():
                    machine, one = rate(folder, case)
                    rates[name].append(one)
            if rows == 1:
                print(json.dumps(machine))
            for name, values in rates.items():
                shares = [100 * one / dense for one, dense in zip(values, rates["dense"])]
                print("%4d rows  %-8s %9.1f tokens/s  %4.0f %% of the dense rate (%.0f..%.0f)" % (
                    rows, name, statistics.median(values), statistics.median(shares), min(shares), max(shares)),
                    flush=True)


if __name__ == "__main__":
    main()
