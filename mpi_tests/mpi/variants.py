#!/usr/bin/env python3
"""The same output from every compiler and optimisation level.

    variants.py SOURCE_DIR WORK_DIR     (LOCKSTEP_BIN: the binary to compare with)

Builds the product with gcc and clang at -O0 and -O3 in WORK_DIR and compares their output files, digests of all logits
included, with LOCKSTEP_BIN's, for every instruction set of this CPU. A compiler that is missing is counted and said.
"""
import os
import pathlib
import shutil
import subprocess
import sys

import harness
import property as bits

VARIANTS = [("gcc", 0), ("gcc", 3), ("clang", 0), ("clang", 3)]
MODELS = [("llama-bf16", []), ("llama-f16", []), ("mistral", []), ("qwen3", ["--dtype", "f32"])]


def build(source, work, compiler, level):
    folder = work / ("%s-O%d" % (compiler, level))
    if not (folder / "build.ninja").exists():
        subprocess.run(["meson", "setup", str(folder), str(source), "-Dtests=false", "-Dbuildtype=plain",
                        "-Doptimization=%d" % level], check=True, stdout=subprocess.DEVNULL,
                       env={**os.environ, "CC": compiler})
    subprocess.run(["ninja", "-C", str(folder), "-j", str(os.cpu_count() or 1)], check=True, stdout=subprocess.DEVNULL)
    return folder / "lockstep"


def output(folder, program, model, requests, arguments):
    source, out = folder / "in.jsonl", folder / "out.jsonl"
    harness.write_requests(source, requests)
    harness.must(harness.run(0, "run", "--model", harness.FIXTURES / "families" / model, "--input", source, "--output",
                             out, "--digest", "all", "--progress", "none", *arguments, program=str(program)))
    return out.read_bytes()


def main():
    source, work = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    work.mkdir(parents=True, exist_ok=True)
    folder, missing, compared, different = harness.work_folder(), [], 0, 0
    import random
    requests = bits.make_requests(random.Random(1), 320)
    expected = {model: output(folder, harness.binary(), model, requests, extra) for model, extra in MODELS}
    for compiler, level in VARIANTS:
        if not shutil.which(compiler):
            missing.append(compiler)
            continue
        program = build(source, work, compiler, level)
        for model, extra in MODELS:
            for path in bits.cpu_paths():
                compared += 1
                if output(folder, program, model, requests, [*extra, "--cpu", path]) != expected[model]:
                    different += 1
                    print("DIFFERENT: %s -O%d %s --cpu %s" % (compiler, level, model, path))
        print("%s -O%d: compared" % (compiler, level), flush=True)
    print("%d outputs compared, %d different, missing compilers: %s" % (compared, different, missing or "none"))
    sys.exit(1 if different or not compared else 0)


if __name__ == "__main__":
    main()
