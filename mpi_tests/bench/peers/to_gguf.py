#!/usr/bin/env python3
"""A llama checkpoint as GGUF, its weights as they are (bf16) or as f16: to_gguf.py FOLDER OLD.gguf NEW.gguf bf16|f16

Metadata and vocabulary come from OLD.gguf, which is any GGUF of the same model; its tensors are not read. With - for
OLD.gguf they are those of config.json, and there is no vocabulary: enough for requests of token ids."""
import json
import pathlib
import struct
import sys

import gguf
import numpy as np

NAMES = {"input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "self_attn.q_proj": "attn_q",
         "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
         "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}
OUTER = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight",
         "lm_head.weight": "output.weight"}


def name_of(name):
    if name in OUTER:
        return OUTER[name]
    _, _, layer, rest = name.split(".", 3)
    return "blk.%s.%s.weight" % (layer, NAMES[rest.removesuffix(".weight")])


def tensors(folder):
    """(name, bf16 bits) of every tensor."""
    blob = np.memmap(folder / "model.safetensors", dtype=np.uint8, mode="r")
    (length,) = struct.unpack("<Q", blob[:8].tobytes())
    for name, entry in json.loads(blob[8:8 + length].tobytes()).items():
        if name != "__metadata__":
            begin, end = (8 + length + at for at in entry["data_offsets"])
            yield name, blob[begin:end].view(np.uint16).reshape(entry["shape"])


def interleaved(bits, heads):
    """The two halves of each head's rows for RoPE, as llama.cpp wants them."""
    return bits.reshape(heads, 2, -1, bits.shape[1]).swapaxes(1, 2).reshape(bits.shape)


def copy_metadata(writer, old):
    for key, field in gguf.GGUFReader(old).fields.items():
        if key.startswith("GGUF.") or key in ("general.architecture", "general.file_type",
                                              "general.quantization_version"):
            continue
        kind = field.types[0]
        writer.add_key_value(key, field.contents(), kind, field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None)


def make_metadata(writer, config):
    heads = config["num_attention_heads"]
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(heads)
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(config["rope_theta"])
    writer.add_rope_dimension_count(config.get("head_dim", config["hidden_size"] // heads))
    writer.add_vocab_size(config["vocab_size"])
    writer.add_tokenizer_model("no_vocab")


def main():
    folder, old, new, form = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4]
    config = json.loads((folder / "config.json").read_text())
    writer = gguf.GGUFWriter(new, "llama")
    if old == "-":
        make_metadata(writer, config)
    else:
        copy_metadata(writer, old)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_BF16 if form == "bf16" else gguf.LlamaFileType.MOSTLY_F16)
    for name, bits in tensors(folder):
        heads = {"q_proj": "num_attention_heads", "k_proj": "num_key_value_heads"}
        for projection, key in heads.items():
            if projection in name:
                bits = interleaved(bits, config[key])
        values = (bits.astype(np.uint32) << 16).view(np.float32)
        if bits.ndim == 1:
            writer.add_tensor(name_of(name), values)
        elif form == "f16":
            writer.add_tensor(name_of(name), values.astype(np.float16))
        else:
            writer.add_tensor(name_of(name), np.ascontiguousarray(bits).view(np.uint8),
                              raw_dtype=gguf.GGMLQuantizationType.BF16)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main()
