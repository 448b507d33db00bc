#!/usr/bin/env python3
"""lockstep parity --locate: planted faults are named by layer and operation, and its other answers.

    locate.py             altered checkpoints, dumps, refusals; prints the table of docs/testing.md
    locate.py --mutants   faults of the mutant build (LOCKSTEP_BIN is one), each against the same program without it
"""
import json
import random
import shutil
import stat
import sys

import harness

FAMILIES = harness.FIXTURES / "families"
SEED = 20260303
END = "end"  # behind the last layer
RIGHT_SHARE = 0.9

# ---- alterations of a checkpoint folder ------------------------------------------------------------------------------


def weights(folder):
    path = folder / "model.safetensors"
    blob = bytearray(path.read_bytes())
    length = int.from_bytes(blob[:8], "little")
    return path, blob, length, json.loads(blob[8:8 + length])


def change(name, alter):
    """alter(bytes, shape, element size) -> bytes of the same length."""
    def apply(folder):
        path, blob, length, header = weights(folder)
        entry = header[name]
        begin, end = (8 + length + at for at in entry["data_offsets"])
        size = {"F32": 4, "BF16": 2, "F16": 2}[entry["dtype"]]
        new = alter(bytes(blob[begin:end]), entry["shape"], size)
        assert len(new) == end - begin and new != blob[begin:end], name
        blob[begin:end] = new
        path.write_bytes(blob)
    return apply


def element(name, index):
    """One element, by the highest bit of its fraction."""
    def alter(data, _shape, size):
        at, bit = (index + 1) * size - 2, 0x40
        return data[:at] + bytes([data[at] ^ bit]) + data[at + 1:]
    return change(name, alter)


def row(name, index):
    """One row of a matrix, reversed."""
    def alter(data, shape, size):
        n = shape[-1] * size
        part = data[index * n:(index + 1) * n]
        new = b"".join(part[i:i + size] for i in range(n - size, -1, -size))
        return data[:index * n] + new + data[(index + 1) * n:]
    return change(name, alter)


def swap(name, rows, first=0):
    """Two neighbouring groups of rows change places: heads."""
    def alter(data, shape, size):
        n = rows * shape[1] * size
        at = first * n
        return data[:at] + data[at + n:at + 2 * n] + data[at:at + n] + data[at + 2 * n:]
    return change(name, alter)


def zero(name):
    return change(name, lambda data, _shape, _size: bytes(len(data)))


def setting(key, value):
    def apply(folder):
        path = folder / "config.json"
        config = json.loads(path.read_text())
        assert key in config and config[key] != value, key
        config[key] = value
        path.write_text(json.dumps(config))
    return apply


def plain_rope(folder):
    path = folder / "config.json"
    config = json.loads(path.read_text())
    config["rope_parameters"] = {"rope_type": "default", "rope_theta": config["rope_parameters"]["rope_theta"]}
    path.write_text(json.dumps(config))


def layer(number, rest):
    return "model.layers.%d.%s.weight" % (number, rest)


# what is wrong, fixture, how, layer, operation, cause ("": none is asked for)
ALTERED = [
    ("one weight of a norm", "llama-bf16", element(layer(2, "input_layernorm"), 5), 2, "attn_norm", "weights"),
    ("one weight of the second norm", "qwen2", element(layer(1, "post_attention_layernorm"), 9), 1, "ffn_norm",
     "weights"),
    ("one weight of the final norm", "llama-bf16", element("model.norm.weight", 63), END, "final_norm", "weights"),
    ("two query heads swapped", "llama-bf16", swap(layer(3, "self_attn.q_proj"), 16), 3, "q", "heads-swapped"),
    ("two value heads swapped", "qwen2", swap(layer(2, "self_attn.v_proj"), 16), 2, "v", "weights"),
    ("a key bias dropped", "qwen2", zero("model.layers.2.self_attn.k_proj.bias"), 2, "k", "weights"),
    ("a row of values", "llama-bf16", row(layer(1, "self_attn.v_proj"), 17), 1, "v", "weights"),
    ("one weight behind attention", "llama-bf16", element(layer(4, "self_attn.o_proj"), 100), 4, "attn_out", "weights"),
    ("a row of the gate", "llama-bf16", row(layer(0, "mlp.gate_proj"), 3), 0, "gate", "weights"),
    ("a row of up", "qwen2", row(layer(2, "mlp.up_proj"), 30), 2, "up", "weights"),
    ("one weight of down", "llama-bf16", element(layer(3, "mlp.down_proj"), 77), 3, "ffn_out", "weights"),
    ("the embedding of one token", "llama-bf16", row("model.embed_tokens.weight", 11), 0, "embedding", "weights"),
    ("a row of the head", "llama-bf16", row("lm_head.weight", 200), END, "head", "weights"),
    ("one weight of the query norm", "qwen3", element(layer(1, "self_attn.q_norm"), 2), 1, "q_norm", "weights"),
    ("one weight of the key norm", "qwen3", element(layer(4, "self_attn.k_norm"), 20), 4, "k_norm", "weights"),
    ("a row of a router", "mixtral", row(layer(1, "block_sparse_moe.gate"), 2), 1, "router", "weights"),
    ("down of one expert", "mixtral", row(layer(2, "block_sparse_moe.experts.3.w2"), 7), 2, "expert_out", "weights"),
    ("up of one expert", "mixtral", row(layer(0, "block_sparse_moe.experts.1.w3"), 1), 0, "expert_gated", "weights"),
    ("a norm behind attention", "gemma2", element(layer(1, "post_attention_layernorm"), 0), 1, "attn_post_norm",
     "weights"),
    ("a norm behind the feed-forward", "gemma2", element(layer(3, "post_feedforward_layernorm"), 40), 3,
     "ffn_post_norm", "weights"),
    ("one sink of attention", "gpt_oss", element("model.layers.1.self_attn.sinks", 2), 1, "attention", "weights"),
    ("base of rope", "qwen2", setting("rope_theta", 10000.0), 0, "q_rope", "rope"),
    ("rope type ignored", "llama-rope-llama3", plain_rope, 0, "q_rope", "rope"),
    ("window of 13 for 12", "mistral", setting("sliding_window", 13), 0, "scores", "window"),
    ("window of 7 for 8", "gemma2", setting("sliding_window", 7), 0, "scores", "window"),
    ("epsilon of norms", "qwen2", setting("rms_norm_eps", 1e-5), 0, "attn_norm", "epsilon"),
    ("softcap of scores", "gemma2", setting("attn_logit_softcapping", None), 0, "scores", "attention-softcap"),
    ("softcap of logits", "gemma2", setting("final_logit_softcapping", None), END, "logits", "logit-softcap"),
    ("scale of scores", "gemma3", setting("query_pre_attn_scalar", 24), 0, "scores", "attention-scale"),
    ("multiplier of scores", "granite", setting("attention_multiplier", 0.25), 0, "scores", "attention-scale"),
    ("multiplier of branches", "granite", setting("residual_multiplier", 1.0), 0, "attn_residual", "residual-scale"),
    ("multiplier of the embedding", "granite", setting("embedding_multiplier", 1.0), 0, "embedding",
     "embedding-scale"),
    ("scale of logits", "granite", setting("logits_scaling", 1.0), END, "logits", "logit-scale"),
    ("weights of experts not renormalised", "qwen3_moe", setting("norm_topk_prob", False), 1, "expert_weight",
     "expert-weights"),
    ("one expert for two", "mixtral", setting("num_experts_per_tok", 1), 0, "expert_choice", "experts-chosen"),
]

# mutant, fixture, layer, operation, cause
MUTANTS = [
    ("embed-scale", "gemma4", 0, "embedding", "embedding-scale"),
    ("plus-one", "gemma2", 0, "attn_norm", "one-plus-rounded"),
    ("wide-residual", "llama-bf16", 0, "attn_residual", "not-rounded"),
    ("next-expert", "mixtral", 0, "expert_choice", "expert-misrouted"),
    ("kv-head", "llama-bf16", 0, "attention", "heads-swapped"),
    ("rope-late", "llama-bf16", 0, "q_rope", "position"),
    ("gate-up", "llama-bf16", 0, "activation", ""),
    ("window", "mistral", 0, "scores", "window"),
    ("even-first", "llama-f32", 0, "q", "order-of-sums"),
    ("tie-ignored", "llama-tied-bf16", END, "head", "tie-ignored"),
    ("future", "llama-bf16", 0, "attention", "looks-ahead"),
]

# ---- runs ------------------------------------------------------------------------------------------------------------


def requests(path):
    rng = random.Random(SEED)
    harness.write_requests(path, [
        {"custom_id": "r%d" % i, "tokens": [11] + [rng.randrange(3, 300) for _ in range(15 + 20 * i)]}
        for i in range(3)])
    return path


def locate(folder, model, *arguments, code=10):
    result = harness.run(0, "parity", "--locate", "--json", "--threads", "1", "--model", model, "--input",
                         folder / "in.jsonl", *arguments)
    harness.must(result, code)
    return json.loads(result.stdout)


def place(found):
    return (END if found.get("layer") == found.get("layers") else found.get("layer")), found.get("operation")


def causes(found):
    return [c["name"] + ("" if c["verified"] else "?") for c in found.get("causes", [])]


def altered(folder, fixture, alter):
    other = folder / "altered"
    shutil.rmtree(other, ignore_errors=True)
    shutil.copytree(FAMILIES / fixture, other)
    for path in other.iterdir():
        path.chmod(path.stat().st_mode | stat.S_IWUSR)
    alter(other)
    return locate(folder, FAMILIES / fixture, "--against-model", other)


def mutated(folder, fixture, mutant):
    """The other program is this one, told by a script of its own to be faulty."""
    program = folder / "faulty"
    program.write_text("#!/bin/sh\nLOCKSTEP_MUTANT=%s exec '%s' \"$@\"\n" % (mutant, harness.binary()))
    program.chmod(0o755)
    return locate(folder, FAMILIES / fixture, "--against-program", program)


def judge(what, fixture, found, expected, cause):
    right = place(found) == expected
    proposed = any(name.rstrip("?") == cause for name in causes(found)) if cause else True
    print("| %s | %s | %s, %s | %s | %s | %s |" % (
        what, fixture, *expected, "right" if right else "WRONG: %s, %s" % place(found),
        ", ".join(causes(found)) or "-", "" if proposed else "expected " + cause), flush=True)
    return right, proposed


def check(results):
    right, proposed = sum(r for r, _ in results), sum(p for _, p in results)
    print("%d faults, %d right by layer and operation, %d with the expected cause" % (len(results), right, proposed))
    assert right >= RIGHT_SHARE * len(results) and proposed >= RIGHT_SHARE * len(results), "too many are wrong"


def altered_checkpoints(folder):
    return [judge(what, fixture, altered(folder, fixture, alter), (at, op), cause)
            for what, fixture, alter, at, op, cause in ALTERED]


def mutants(folder):
    results = [judge("mutant " + mutant, fixture, mutated(folder, fixture, mutant), (at, op), cause)
               for mutant, fixture, at, op, cause in MUTANTS]
    doubled = folder / "text.jsonl"
    harness.write_requests(doubled, [{"prompt": "12+9="}])
    (folder / "faulty").write_text("#!/bin/sh\nLOCKSTEP_MUTANT=bos-doubled exec '%s' \"$@\"\n" % harness.binary())
    found = locate(folder, "demo", "--against-program", folder / "faulty", "--input", doubled)
    assert found["apart"] == "tokens" and found["row"] == 1 and found["tokens"][1] != found["tokens"][0], found
    none = folder / "faulty"
    none.write_text("#!/bin/sh\nLOCKSTEP_MUTANT=none exec '%s' \"$@\"\n" % harness.binary())
    assert locate(folder, FAMILIES / "mistral", "--against-program", none, code=0)["equal"]
    return results


# ---- other answers ---------------------------------------------------------------------------------------------------


def equal_arms(folder):
    model = FAMILIES / "gemma2"
    assert locate(folder, model, "--against-cpu", "ref", code=0) == {"equal": True, "apart": "equal"}
    copy = folder / "copy"
    shutil.copytree(model, copy)
    assert locate(folder, model, "--against-model", copy, code=0)["equal"]


def details(folder):
    """The element named is the one that was changed, and the numbers are those of the tap's own files."""
    kept = folder / "kept"
    other = folder / "details"
    shutil.copytree(FAMILIES / "llama-bf16", other)
    (other / "model.safetensors").chmod(0o644)
    element(layer(2, "input_layernorm"), 5)(other)
    found = locate(folder, FAMILIES / "llama-bf16", "--against-model", other, "--output", kept)
    difference = found["difference"]
    assert found["request"] == "r0" and difference["element"] == 5, found
    a, b = (harness.read_safetensors(kept / ("operations.%d" % arm))["attn_norm"] for arm in (1, 2))
    at = difference["position"] * a[0][1] + difference["element"]
    assert difference["a"] == a[1][at] and difference["b"] == b[1][at], difference
    assert sum(x != y for x, y in zip(a[1], b[1])) == difference["different"]
    assert difference["ulp_of"] == "bf16" and difference["ulps"] > 0, difference
    growth = found["growth"]
    assert [g["layer"] for g in growth] == ["embedding", 0, 1, 2, 3, 4, "final_norm"], growth
    assert [g["different"] > 0 for g in growth] == [False] * 3 + [True] * 4, growth
    n = (found["row"] + 1) * a[0][1]
    states = [harness.read_safetensors(kept / ("layers.%d" % arm))["hidden_states.3"][1][:n] for arm in (1, 2)]
    assert growth[3]["max_abs"] == max(abs(x - y) for x, y in zip(*states)), growth[3]
    text = harness.run(0, "parity", "--locate", "--model", FAMILIES / "llama-bf16", "--input", folder / "in.jsonl",
                       "--against-model", other, "--request", "r1")
    harness.must(text, 10)
    assert "attn_norm: norm before attention" in text.stdout and "'r1'" in text.stdout, text.stdout


def dtypes(folder):
    found = locate(folder, FAMILIES / "llama-bf16", "--against-dtype", "f32")
    assert place(found) == (0, "attn_norm") and "dtype" in causes(found), found


def hidden_dump(folder):
    """Another program's hidden states: this one's own, equal, and then with a fault in layer 2's output."""
    model, own, bad = FAMILIES / "qwen2", folder / "own.safetensors", folder / "bad.safetensors"
    harness.must(harness.run(0, "parity", "--tap", own, "--model", model, "--input", folder / "in.jsonl", "--request",
                             "r1", "--threads", "1"))
    assert locate(folder, model, "--against-hidden", own, "--request", "r1", code=0)["equal"]
    tensors = harness.read_safetensors(own)
    hidden = {name: value for name, value in tensors.items() if name.startswith("hidden_states.")}
    rng = random.Random(SEED)
    for name in ("hidden_states.1", "hidden_states.2", "hidden_states.3", "hidden_states.4"):
        noise = 1e-3 if int(name[-1]) < 3 else 0.5
        shape, data = hidden[name]
        for i in range(shape[1], len(data)):
            data[i] *= 1 + noise * rng.uniform(-1, 1)
    harness.write_safetensors(bad, {"h." + name.split(".")[1]: ("F32", shape, data.tobytes())
                                    for name, (shape, data) in hidden.items()})
    found = locate(folder, model, "--against-hidden", bad, "--request", "r1", "--hidden-tensor", "h.{layer}")
    assert found["apart"] == "layer" and found["layer"] == 0 and not found["in_embedding"], found
    assert found["difference"]["position"] == 1 and found["jump"]["layer"] == 2, found
    assert len(found["growth"]) == 5, found["growth"]
    short = folder / "short.safetensors"
    harness.write_safetensors(short, {"hidden_states.0": ("F32", [1, 4], bytes(16))})
    result = harness.must(harness.run(0, "parity", "--locate", "--model", model, "--input", folder / "in.jsonl",
                                      "--request", "r1", "--against-hidden", short), 3)
    assert "hidden_states.0" in result.stderr and "[1][4]" in result.stderr, result.stderr


def refusals(folder):
    model, source = FAMILIES / "qwen2", folder / "in.jsonl"
    broken, silent = folder / "broken", folder / "silent"
    broken.write_text("#!/bin/sh\necho out of luck >&2\nexit 7\n")
    silent.write_text("#!/bin/sh\nexit 0\n")
    broken.chmod(0o755)
    silent.chmod(0o755)
    base = ["parity", "--locate", "--model", model, "--input", source]
    for words, code, said in [
            (["parity"], 2, "--config, --locate and --tap"),
            (["parity", "--config", "x.yaml", "--model", model], 2, "--model"),
            (base, 2, "--against-"),
            (["parity", "--locate", "--model", model], 2, "--input"),
            ([*base, "--against-cpu", "ref", "--request", "nobody"], 2, "nobody"),
            ([*base, "--against-hidden", source], 2, "--request"),
            ([*base, "--against-hidden", source, "--request", "r0", "--against-cpu", "ref"], 2, "--against-hidden"),
            ([*base, "--against-program", folder / "absent"], 2, "absent"),
            ([*base, "--against-program", broken], 4, "ended with 7, expected 0: out of luck"),
            ([*base, "--against-program", silent], 2, "rows.2"),
            ([*base, "--against-model", "/nowhere"], 2, "/nowhere"),
            (["parity", "--tap", folder / "t", "--model", model, "--input", source, "--tap-layer", "1"], 2,
             "--request"),
            (["parity", "--tap", folder / "t", "--model", model, "--input", source, "--request", "r0", "--tap-layer",
              "99"], 2, "99")]:
        result = harness.must(harness.run(0, *words), code)
        assert said in result.stderr and result.stderr.count("\n") == 1, (words, result.stderr)
    tokens = folder / "two.jsonl"
    harness.write_requests(tokens, [{"prompt": "a text"}])
    result = harness.must(harness.run(0, "parity", "--tap", folder / "t", "--model", model, "--input", tokens), 3)
    assert "line 1" in result.stderr, result.stderr


def main():
    folder = harness.work_folder()
    requests(folder / "in.jsonl")
    if "--mutants" in sys.argv:
        check(mutants(folder))
        return
    check(altered_checkpoints(folder))
    for test in (equal_arms, details, dtypes, hidden_dump, refusals):
        test(folder)
        print("%s: good" % test.__name__, flush=True)


if __name__ == "__main__":
    main()
    sys.exit(0)
