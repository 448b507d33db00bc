"""What the end-to-end tests share: launching the real binary, reading and writing safetensors.

Python's standard library only. The launcher's settings for root, few cores and shared cores live here, in the
test's environment; the product sets none of them for a test's sake.
"""
import array
import json
import os
import pathlib
import random
import shutil
import struct
import subprocess
import sys
import tempfile

SKIP = 77
LONG = bool(os.environ.get("LOCKSTEP_LONG"))
MPI_ENVIRONMENT = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_hwloc_base_binding_policy": "none",
    "OMPI_MCA_mpi_yield_when_idle": "1",
    "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
    "OMPI_MCA_btl": "self,vader,tcp",
    "OMPI_MCA_btl_tcp_if_include": "lo",
    "OMPI_MCA_oob_tcp_if_include": "lo",
}
FIXTURES = pathlib.Path(__file__).resolve().parent.parent / "fixtures"


def binary():
    path = os.environ.get("LOCKSTEP_BIN")
    if not path:
        sys.exit("LOCKSTEP_BIN is not set: the path of the binary under test")
    return path


def run(ranks, *arguments, timeout=300, env=None, program=None, fresh=True):
    """Runs lockstep on `ranks` MPI ranks (0: without a launcher). Returns the CompletedProcess. A job starts over,
    whatever an earlier one left beside its output, unless fresh is False."""
    command = [program or binary(), *map(str, arguments)]
    if fresh and arguments and arguments[0] in ("run", "score") and "--resume" not in arguments:
        command += ["--fresh"]
    if ranks:
        command = ["mpirun", "-n", str(ranks), *command]
    environment = {**os.environ, **MPI_ENVIRONMENT, **(env or {})}
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, env=environment,
                          stdin=subprocess.DEVNULL)


def must(result, code=0):
    if result.returncode != code:
        sys.exit("exit code %d, expected %d: %s\n%s\n%s" % (
            result.returncode, code, " ".join(result.args), result.stdout[-2000:], result.stderr[-4000:]))
    return result


def can_pack():
    """Whether this build has liblz4; says so when it has not, since what needs it is then left out."""
    result = run(0, "plan", "--model", "demo", "--pack", "lz4")
    without = "built without liblz4" in result.stderr
    if without:
        print("SKIP: packing: %s" % result.stderr.strip())
    return not without


def work_folder():
    """A folder of this test's own, removed at the end; its name has a space, as a user's may."""
    path = pathlib.Path(tempfile.mkdtemp(prefix="lockstep test "))
    import atexit
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path


def write_requests(path, requests):
    with open(path, "w", encoding="utf-8") as out:
        for request in requests:
            out.write(json.dumps(request) + "\n")


def rows(path):
    with open(path, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


# ---- safetensors ---------------------------------------------------------------------------------------------------

CODES = {"F32": "f", "I32": "i", "I64": "q"}


def read_safetensors(path):
    """{name: (shape, array)}; 16-bit floats come as raw unsigned 16-bit words."""
    blob = pathlib.Path(path).read_bytes()
    (length,) = struct.unpack_from("<Q", blob)
    header = json.loads(blob[8:8 + length])
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        data = array.array(CODES.get(entry["dtype"], "H"))
        data.frombytes(blob[8 + length + begin:8 + length + end])
        tensors[name] = (entry["shape"], data)
    return tensors


def write_safetensors(path, tensors):
    """tensors: {name: (dtype, shape, bytes)}."""
    header, offset = {}, 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [offset, offset + len(data)]}
        offset += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        for _, _, data in tensors.values():
            out.write(data)


def float_bytes(values, dtype):
    """Packs floats as F32, F16 or BF16 (truncated: any bf16 number does for random weights)."""
    if dtype == "F16":
        return struct.pack("<%de" % len(values), *values)
    data = array.array("f", values)
    if dtype == "F32":
        return data.tobytes()
    words = array.array("H", data.tobytes())
    return words[1::2].tobytes()


def make_llama(folder, layers, dtype="BF16", hidden=32, heads=2, kv_heads=1, intermediate=48, vocab=64, seed=1,
               tied=False, head_dim=None, **config):
    """A tiny random checkpoint of any depth, for layouts that no fixture has."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    names = {"BF16": "bfloat16", "F16": "float16", "F32": "float32"}
    rng = random.Random(seed)
    if head_dim:
        config["head_dim"] = head_dim
    head_dim = head_dim or hidden // heads
    (folder / "config.json").write_text(json.dumps({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": vocab, "hidden_size": hidden,
        "intermediate_size": intermediate, "num_hidden_layers": layers, "num_attention_heads": heads,
        "num_key_value_heads": kv_heads, "hidden_act": "silu", "max_position_embeddings": 128,
        "rms_norm_eps": 1e-5, "bos_token_id": 1, "eos_token_id": 2, "tie_word_embeddings": tied,
        "rope_theta": 10000.0, "torch_dtype": names[dtype], **config}))

    def matrix(rows_, columns):
        """Rows are slices of one random pool: cheap, and no two rows are alike."""
        scale, size = 1.5 / columns ** 0.5, 2 if dtype != "F32" else 4
        pool = float_bytes([rng.gauss(0, scale) for _ in range(columns + 4096)], dtype)
        starts = [size * rng.randrange(4096) for _ in range(rows_)]
        return dtype, [rows_, columns], b"".join(pool[at:at + size * columns] for at in starts)

    def ones(n):
        return dtype, [n], float_bytes([1 + rng.gauss(0, 0.1) for _ in range(n)], dtype)

    tensors = {"model.embed_tokens.weight": matrix(vocab, hidden), "model.norm.weight": ones(hidden)}
    if not tied:
        tensors["lm_head.weight"] = matrix(vocab, hidden)
    for layer in range(layers):
        p = "model.layers.%d." % layer
        tensors[p + "input_layernorm.weight"] = ones(hidden)
        tensors[p + "post_attention_layernorm.weight"] = ones(hidden)
        tensors[p + "self_attn.q_proj.weight"] = matrix(heads * head_dim, hidden)
        tensors[p + "self_attn.k_proj.weight"] = matrix(kv_heads * head_dim, hidden)
        tensors[p + "self_attn.v_proj.weight"] = matrix(kv_heads * head_dim, hidden)
        tensors[p + "self_attn.o_proj.weight"] = matrix(hidden, heads * head_dim)
        tensors[p + "mlp.gate_proj.weight"] = matrix(intermediate, hidden)
        tensors[p + "mlp.up_proj.weight"] = matrix(intermediate, hidden)
        tensors[p + "mlp.down_proj.weight"] = matrix(hidden, intermediate)
    write_safetensors(folder / "model.safetensors", tensors)
    return folder
