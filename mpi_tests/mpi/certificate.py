#!/usr/bin/env python3
"""Certificates: the same bytes on every layout and after every stop, what stands in them recomputed here with hashlib,
and planted faults that verify must find and name.

    certificate.py [--flips N] [--seed S]      20 flipped bits, 100 in the long form (LOCKSTEP_LONG)

Each flipped bit is in a weight, in a request line, in a logits file or in the certificate, in turn.
"""
import argparse
import hashlib
import json
import random
import shutil
import struct
import sys

import harness
import jobs

HEAD, BLOCK, PART, LEAF = 320, 160, 40, 32
REQUESTS = [
    {"custom_id": "a", "prompt": "The capital of France is", "max_tokens": 12},
    {"custom_id": "b", "prompt": "12+9=", "max_tokens": 4, "n": 2, "temperature": 0.8, "seed": 3},
    {"nothing": 1},
    {"custom_id": "d", "tokens": [5, 6, 7], "max_tokens": 0},
    {"custom_id": "e", "prompt": ["In the beginning", "In the beginning was"], "max_tokens": 30},
    {"custom_id": "f", "tokens": [9] * 40, "max_tokens": 9, "logprobs": 2, "echo": True},
]
LAYOUTS = [(0, []), (1, ["--threads", "3", "--cpu", "ref"]), (2, ["--chunk", "5", "--budget", "7"]),
           (3, ["--layers", "0-0,1-6,7-7", "--pack", "lz4", "--max-sequences", "1"]),
           (4, ["--replicas", "2", "--chunk", "9"]),
           (4, ["--link", "signed", "--placement-seed", "9", "--window", "1", "--logits"])]


def digest(data):
    return hashlib.blake2b(data, digest_size=32).digest()


def leaf(data):
    return digest(b"\0" + data)


def tree(leaves):
    if len(leaves) < 2:
        return leaves[0] if leaves else digest(b"")
    k = 1
    while 2 * k < len(leaves):
        k *= 2
    return digest(b"\1" + tree(leaves[:k]) + tree(leaves[k:]))


class Certificate:
    """What docs/formats.md says of the bytes."""

    def __init__(self, data):
        self.data = data
        assert data[:8] == b"LKSCERT1"
        (self.version, self.layers, self.vocab, self.hidden, self.context) = struct.unpack_from("<5I", data, 8)
        self.n_lines, self.n_blocks, self.n_positions, self.n_parts, self.parts_bytes, self.blocks_bytes = \
            struct.unpack_from("<Q8x5Q", data, 48)
        self.parts, self.blocks, at = {}, [], HEAD
        leaves = []
        while at < HEAD + self.parts_bytes:
            kind, n = struct.unpack_from("<2I", data, at)
            size = PART + (n + 7) // 8 * 8
            self.parts[kind, data[at + PART:at + PART + n].decode()] = data[at + 8:at + PART]
            leaves.append(leaf(data[at:at + size]))
            at += size
        assert tree(leaves) == data[112:144] and len(self.parts) == self.n_parts
        leaves = []
        while at < len(data):
            block, size = self.block(at)
            self.blocks.append(block)
            leaves.append(block["digest"])
            at += size
        assert tree(leaves) == data[144:176] and len(self.blocks) == self.n_blocks
        assert leaf(data[:192]) == data[192:224]

    def block(self, at):
        data = self.data
        line, choice, n_choices, n_prompt, n = struct.unpack_from("<Q4I", data, at)
        tokens = at + BLOCK
        leaves = tokens + (4 * n + 7) // 8 * 8
        per = self.layers + 1
        end = leaves + n * per * LEAF
        rows = [data[i:i + LEAF] for i in range(leaves, end, LEAF)]
        assert tree(rows) == data[at + 96:at + 128]
        assert leaf(data[at:at + 128] + data[tokens:leaves]) == data[at + 128:at + BLOCK]
        return {"line": line, "choice": choice, "n_choices": n_choices, "n_prompt": n_prompt, "leaves_at": leaves,
                "line_digest": data[at + 32:at + 64], "row_digest": data[at + 64:at + 96],
                "digest": data[at + 128:at + BLOCK], "tokens": list(struct.unpack_from("<%di" % n, data, tokens)),
                "leaves": [rows[i:i + per] for i in range(0, len(rows), per)]}, end - at


def run(folder, name, ranks, arguments, code=10, model="demo", fresh=True):
    if "--logits" in arguments:
        arguments = [*arguments, folder / "logits"]
    return harness.must(harness.run(ranks, "run", "--model", model, "--input", folder / "in.jsonl", "--output",
                                    folder / (name + ".jsonl"), "--certificate", folder / (name + ".cert"),
                                    "--sign-key", folder / "key", "--progress", "none", *arguments, fresh=fresh), code)


def verify(folder, *arguments, cert="0.cert", model="demo", source="in.jsonl"):
    return harness.run(0, "verify", folder / cert, "--model", model, "--input", folder / source, *arguments)


def say(condition, text):
    if not condition:
        sys.exit("FAILED: %s" % text)


# ---- the certificate itself ----------------------------------------------------------------------------------------

def check_layouts(folder):
    can_pack = harness.can_pack()
    for i, (ranks, arguments) in enumerate(LAYOUTS):
        if "--pack" in arguments and not can_pack:
            continue
        run(folder, str(i), ranks, arguments)
        for end in (".cert", ".jsonl"):
            say((folder / (str(i) + end)).read_bytes() == (folder / ("0" + end)).read_bytes(),
                "%s of %d ranks %s is another" % (end, ranks, arguments))
        say(jobs.manifest(folder / (str(i) + ".jsonl"))["certificate"] == str(folder / (str(i) + ".cert")),
            "the manifest names the certificate")
    size = (folder / "0.cert").stat().st_size
    print("the same certificate of %d bytes on all layouts" % size, flush=True)


def check_contents(folder):
    """Every digest from the files it speaks of; the leaves of logits from --logits."""
    cert = Certificate((folder / "0.cert").read_bytes())
    demo = harness.FIXTURES.parent.parent / "configs" / "demo"
    tensors = {name: part for (kind, name), part in cert.parts.items() if kind == 1}
    raw = (demo / "model.safetensors").read_bytes()
    n = struct.unpack_from("<Q", raw)[0]
    header = {k: v for k, v in json.loads(raw[8:8 + n]).items() if k != "__metadata__"}
    say(set(tensors) == set(header), "the tensors: %s" % (set(tensors) ^ set(header)))
    first = sorted(header)[0]
    about, (begin, end) = header[first], header[first]["data_offsets"]
    codes = {about["dtype"]: code for code in range(32) for about in [header[first]]
             if leaf(struct.pack("<2Q", code, len(about["shape"])) + struct.pack("<%dQ" % len(about["shape"]),
                     *about["shape"]) + raw[8 + n + begin:8 + n + end]) == tensors[first]}
    say(len(codes) == 1, "the digest of %s" % first)
    for name in ("config.json", "tokenizer.json"):
        say(cert.parts[2, name] == leaf((demo / name).read_bytes()), "the digest of %s" % name)
    lines = (folder / "in.jsonl").read_bytes().split(b"\n")
    rows = (folder / "0.jsonl").read_bytes().split(b"\n")
    index = json.loads((folder / "logits" / "index.json").read_text())
    shard = harness.read_safetensors(folder / "logits" / "logits-00001.safetensors")
    compared = 0
    for block in cert.blocks:
        say(block["line_digest"] == digest(lines[block["line"] - 1]), "line %d" % block["line"])
        say(block["row_digest"] == digest(rows[block["line"] - 1]), "row %d" % block["line"])
        row = json.loads(rows[block["line"] - 1])
        if not block["tokens"]:
            say(row["response"] is None and block["n_choices"] == 0, "an error line")
            continue
        choices = row["lockstep"].get("choices", [row["lockstep"]])
        fed = block["tokens"][block["n_prompt"]:]
        say(choices[block["choice"]]["token_ids"][:len(fed)] == fed, "tokens of line %d" % block["line"])
        place = index[row["custom_id"]]
        place = place.get("choices", [place])[block["choice"]]
        data, width = shard[place["tensor"]], 4 * cert.vocab
        data = bytes(data if isinstance(data, (bytes, bytearray, memoryview)) else data[-1])
        say(place["rows"] == len(block["leaves"]), "rows of line %d" % block["line"])
        for p, leaves in enumerate(block["leaves"]):
            say(leaves[-1] == leaf(data[p * width:(p + 1) * width]), "logits of line %d, %d" % (block["line"], p))
            say(len(set(leaves)) == len(leaves), "each layer has its own leaf")
            compared += 1
    print("%d tensors, %d lines, %d rows of logits, digested here" % (len(tensors), cert.n_lines, compared), flush=True)


def check_stopped(folder):
    """Killed and resumed on other layouts: the same bytes. A journal without leaves is refused."""
    source = folder / "long.jsonl"
    source.write_text(jobs.requests(random.Random(7), 60))
    command = jobs.command(source, folder / "killed.jsonl", "--certificate", folder / "killed.cert")
    harness.must(harness.run(0, *command), 10)
    expected = (folder / "killed.cert").read_bytes()
    (folder / "killed.cert").unlink()
    shutil.rmtree(folder / "killed.jsonl.lockstep")
    (folder / "killed.jsonl").unlink()
    kept = 0
    for ranks, layout in ((3, ["--chunk", "5", "--budget", "16"]), (1, ["--threads", "2"]),
                          (2, ["--max-sequences", "3"])):
        job = jobs.Started(ranks, [*command, *layout])
        jobs.wait_for_rows(job, folder / "killed.jsonl", 10 + kept)
        job.kill(job.pids())
        job.end()
        kept += 10
    leaves = folder / "killed.jsonl.lockstep" / "leaves"
    with open(leaves, "ab") as torn:
        torn.write(b"\1" + b"\0" * 300)
    harness.must(harness.run(2, *command, fresh=False), 10)
    say((folder / "killed.cert").read_bytes() == expected, "the certificate of a job that was killed is another")
    refused = harness.run(0, *[w for w in command if w not in ("--certificate", folder / "killed.cert")], fresh=False)
    say(refused.returncode == 3 and "another certificate" in refused.stderr, refused.stderr)
    leaves.write_bytes(leaves.read_bytes()[:2000])
    refused = harness.run(0, *command, fresh=False)
    say(refused.returncode == 3 and "lacks the leaves of line" in refused.stderr, refused.stderr)
    print("killed three times and resumed: the same certificate", flush=True)


def check_score(folder):
    text = folder / "text.txt"
    text.write_text("It was the best of times,\nit was the worst of times.\n" * 3)
    command = ["score", "--model", "demo", "--input", text, "--progress", "none", "--context", "32", "--stride", "16"]
    for ranks in (0, 2):
        harness.must(harness.run(ranks, *command, "--output", folder / "score.jsonl", "--certificate",
                                 folder / ("score%d.cert" % ranks)))
    say((folder / "score0.cert").read_bytes() == (folder / "score2.cert").read_bytes(), "a scored text's certificate")
    result = harness.must(verify(folder, "--output", folder / "score.jsonl", cert="score2.cert", source="text.txt"))
    say("not signed" in result.stdout and result.stdout.endswith("yes: all of it holds\n"), result.stdout)


def check_dtype(folder):
    """float32 over a bf16 checkpoint, and a declared context, are the certificate's to say."""
    model = harness.FIXTURES / "families" / "llama-bf16"
    source = folder / "tokens.jsonl"
    harness.write_requests(source, [{"tokens": [7, 8, 9], "max_tokens": 3}])
    certs = []
    for i, arguments in enumerate(([], ["--dtype", "f32"], ["--context", "40"])):
        cert = folder / ("dtype%d.cert" % i)
        harness.must(harness.run(0, "run", "--model", model, "--input", source, "--output", folder / "dtype.jsonl",
                                 "--certificate", cert, "--progress", "none", *arguments))
        harness.must(verify(folder, "--output", folder / "dtype.jsonl", cert=cert.name, model=model,
                            source="tokens.jsonl"))
        certs.append(cert.read_bytes())
    say(len(set(certs)) == 3, "dtype and context are part of a certificate")


def check_words(folder):
    """What verify is asked, and what it refuses."""
    good = ["--output", folder / "0.jsonl", "--logits", folder / "logits", "--key", folder / "key.pub"]
    result = harness.must(verify(folder, *good, "--random", "30", "--seed", "5"))
    say(result.stdout.endswith("yes: all of it holds\n"), result.stdout)
    say("leaves       30 asked for" in result.stdout, result.stdout)
    result = harness.must(verify(folder, "--leaf", "5#1,3,logits/1,0,2"))
    say("leaves       2 asked for" in result.stdout, result.stdout)
    for text in ("5#7,3,0", "1,9999,0", "1,0,9", "3,0,0", "1,0", "x", "1,0,0/"):
        result = harness.must(verify(folder, "--leaf", text), 2)
        say(result.stderr.startswith("lockstep: --leaf '%s" % text) and result.stderr.count("\n") == 1, result.stderr)
    harness.must(harness.run(0, "keygen", "--sign", folder / "other"))
    result = harness.must(verify(folder, "--key", folder / "other.pub"), 10)
    say("DIFFERENT    certificate: signed with another key" in result.stdout, result.stdout)
    harness.must(harness.run(0, "keygen", "--sign", folder / "other"), 2)
    harness.must(harness.run(0, "keygen", "--sign"), 2)
    for arguments, word in ((["--certificate", folder / "x.cert", "--digest", "generated"], "--digest is generated"),
                            (["--sign-key", folder / "key"], "give --certificate"),
                            (["--certificate", folder / "0.jsonl"], "one and the same")):
        result = harness.run(0, "run", "--model", "demo", "--input", folder / "in.jsonl",
                             "--output", folder / "0.jsonl", *arguments)
        say(result.returncode == 2 and word in result.stderr, result.stderr)
    (folder / "none.cert").write_bytes(b"LKSCERT")
    result = harness.must(verify(folder, cert="none.cert"), 3)
    say("certificate, byte 0" in result.stderr, result.stderr)
    short = folder / "short.jsonl"
    short.write_bytes(b"\n".join((folder / "in.jsonl").read_bytes().split(b"\n")[:-2]) + b"\n")
    result = harness.must(verify(folder, source="short.jsonl"), 10)
    say("DIFFERENT    line 6" in result.stdout, result.stdout)


# ---- planted faults ------------------------------------------------------------------------------------------------

def flip(path, bit):
    data = bytearray(path.read_bytes())
    data[bit // 8] ^= 1 << bit % 8
    path.write_bytes(data)


class Planter:
    def __init__(self, folder, rng):
        self.folder, self.rng = folder, rng
        self.cert = Certificate((folder / "0.cert").read_bytes())
        demo = harness.FIXTURES.parent.parent / "configs" / "demo"
        self.model = folder / "model"
        shutil.copytree(demo, self.model)
        self.weights = self.model / "model.safetensors"
        raw = self.weights.read_bytes()
        n = struct.unpack_from("<Q", raw)[0]
        self.tensors = [(8 + n + v["data_offsets"][0], 8 + n + v["data_offsets"][1], k)
                        for k, v in json.loads(raw[8:8 + n]).items() if k != "__metadata__"]

    def weight(self):
        begin, end, name = self.rng.choice(self.tensors)
        return self.weights, self.rng.randrange(8 * begin, 8 * end), "tensor %s\n" % name

    def line(self):
        path = self.folder / "in.jsonl"
        data = path.read_bytes()
        bit = self.rng.randrange(8 * len(data) - 8)
        return path, bit, "DIFFERENT    line %d (" % (data[:bit // 8].count(b"\n") + 1)

    def logits(self):
        path = self.folder / "logits" / "logits-00001.safetensors"
        raw = path.read_bytes()
        n = struct.unpack_from("<Q", raw)[0]
        header = {k: v for k, v in json.loads(raw[8:8 + n]).items() if k != "__metadata__"}
        name = self.rng.choice(sorted(header))
        (rows, vocab), (begin, _) = header[name]["shape"], header[name]["data_offsets"]
        row = self.rng.randrange(rows)
        at = 8 + n + begin + 4 * (row * vocab + self.rng.randrange(vocab))
        shown = name.replace("#", " [choice ") + "]" if "#" in name else name
        return path, 8 * at + self.rng.randrange(32), "logits of '%s', position %d\n" % (shown, row)

    def certificate(self):
        """Half of them in a leaf, which must be named to the layer."""
        path = self.folder / "0.cert"
        if self.rng.random() < 0.5:
            return path, self.rng.randrange(8 * len(self.cert.data)), "ertificate"
        block = self.rng.choice([b for b in self.cert.blocks if b["tokens"]])
        pos, layer = self.rng.randrange(len(block["tokens"])), self.rng.randrange(self.cert.layers + 1)
        at = block["leaves_at"] + (pos * (self.cert.layers + 1) + layer) * LEAF
        name = "logits" if layer == self.cert.layers else "layer %d" % layer
        return path, 8 * at + self.rng.randrange(8 * LEAF), "leaf of line %d, choice %d, position %d, %s\n" % (
            block["line"], block["choice"], pos, name)


def check_flips(folder, n, rng):
    planter = Planter(folder, rng)
    found = 0
    for i in range(n):
        path, bit, named = [planter.weight, planter.line, planter.logits, planter.certificate][i % 4]()
        flip(path, bit)
        result = verify(folder, "--logits", folder / "logits", "--key", folder / "key.pub", "--random", "2",
                        model=planter.model)
        flip(path, bit)
        good = result.returncode in (3, 10) and named in result.stdout + result.stderr
        found += good
        if not good:
            print("NOT FOUND: bit %d of %s, expected %r:\n%s%s" % (bit, path.name, named, result.stdout, result.stderr))
    harness.must(verify(folder, "--logits", folder / "logits", "--key", folder / "key.pub", model=planter.model))
    print("%d of %d flipped bits found and named" % (found, n), flush=True)
    say(found == n, "a flipped bit was not found, or not named")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--flips", type=int, default=100 if harness.LONG else 20)
    parser.add_argument("--seed", type=int, default=20261130)
    options = parser.parse_args()
    print("seed", options.seed, flush=True)
    folder = harness.work_folder()
    harness.write_requests(folder / "in.jsonl", REQUESTS)
    harness.must(harness.run(0, "keygen", "--sign", folder / "key"))
    check_layouts(folder)
    check_contents(folder)
    check_words(folder)
    check_score(folder)
    check_dtype(folder)
    check_flips(folder, options.flips, random.Random(options.seed))
    check_stopped(folder)


if __name__ == "__main__":
    main()
