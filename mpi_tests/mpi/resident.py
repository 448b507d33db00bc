#!/usr/bin/env python3
"""Every rank touches only its own tensors: bytes of weights resident per rank, from the manifest.

A checkpoint of about 80 MB is cut unevenly over 1, 2 and 3 ranks; each rank's resident bytes must lie within 10 % of
what its layers and head need, computed here from the shapes. The first rank reads rows of the embedding where they lie
in the file: the kernel may map more around each row, at most the whole table.
"""
import json
import sys

import harness

LAYERS, HIDDEN, INTERMEDIATE, VOCAB = 8, 640, 2048, 2048


def layer_bytes():
    attention = 2 * HIDDEN * HIDDEN + 2 * (HIDDEN // 2) * HIDDEN
    return 2 * (attention + 3 * HIDDEN * INTERMEDIATE)


def main():
    folder, wrong = harness.work_folder(), 0
    model = harness.make_llama(folder / "model", LAYERS, hidden=HIDDEN, heads=4, kv_heads=2,
                               intermediate=INTERMEDIATE, vocab=VOCAB)
    source, out = folder / "in.jsonl", folder / "out.jsonl"
    harness.write_requests(source, [{"tokens": list(range(8, 40)), "max_tokens": 4, "temperature": 0}])
    for cuts in ([8], [5, 3], [1, 5, 2]):
        begin, ranges = 0, []
        for n in cuts:
            ranges.append("%d-%d" % (begin, begin + n - 1))
            begin += n
        harness.must(harness.run(len(cuts), "run", "--model", model, "--input", source, "--output", out, "--layers",
                                 ",".join(ranges), "--progress", "none"))
        manifest = json.loads((folder / "out.jsonl.lockstep" / "manifest.json").read_text())
        for rank, n in enumerate(cuts):
            table = 2 * VOCAB * HIDDEN
            need = n * layer_bytes() + (table if rank == len(cuts) - 1 else 0)
            got = manifest["stages"][rank]["resident_bytes"]
            ok = 0.9 * need <= got <= 1.1 * need + (table if rank == 0 else 0)
            wrong += not ok
            print("%d ranks, rank %d, %d layers: need %d, resident %d%s" % (
                len(cuts), rank, n, need, got, "" if ok else "  WRONG"))
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
