#!/usr/bin/env python3
"""The same output from every compiler and optimisation level.

    variants.py SOURCE_DIR WORK_DIR     (LOCKSTEP_BIN: the binary to compare with)

Builds the product with gcc and clang at -O0 and -O3 in WORK_DIR and compares their output files, digests of all logits
included, with LOCKSTEP_BIN's, for every instruction set of this CPU. A compiler that is missing is counted and said.
The first one is built without liblz4 too, and must refuse to pack.
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


def build(source, work, compiler, level, *options, targets=()):
    folder = work / "".join(["%s-O%d" % (compiler, level), *options])
    if not (folder / "build.ninja").exists():
        subprocess.run(["meson", "setup", str(folder), str(source), "-Dtests=false", "-Dbuildtype=plain",
                        "-Doptimization=%d" % level, *options], check=True, stdout=subprocess.DEVNULL,
                       env={**os.environ, "CC": compiler})
    subprocess.run(["ninja", "-C", str(folder), "-j", str(os.cpu_count() or 1), *targets], check=True,
                   stdout=subprocess.DEVNULL)
    return folder / "lockstep"


def refuses_to_pack(source, folder, work, compiler):
    """What is wrong with a build without liblz4: options and plans that want packing are refused in it."""
    target = "mpi_tests/unit/ut_plan"
    program = build(source, work, compiler, 0, "-Dlz4=disabled", "-Dtests=true", targets=("lockstep", target))
    model, wrong = harness.FIXTURES / "families" / "llama-bf16", []
    for pack in ("lz4", "auto"):
        for words in (["run", "--input", folder / "in.jsonl", "--output", folder / "none.jsonl"], ["plan"]):
            said = harness.run(0, *words, "--model", model, "--pack", pack, program=str(program))
            if said.returncode != 2 or "--pack %s: this program was built without liblz4" % pack not in said.stderr:
                wrong.append("%s --pack %s: %d, %s" % (words[0], pack, said.returncode, said.stderr))
    if subprocess.run([program.parent / target], check=False, capture_output=True).returncode:
        wrong.append("ut_plan fails without liblz4")
    return wrong


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
    present = [compiler for compiler, _ in VARIANTS if compiler not in missing]
    packing = refuses_to_pack(source, folder, work, present[0]) if present else []
    for fault in packing:
        print("WRONG: without liblz4: %s" % fault)
    print("%d outputs compared, %d different, missing compilers: %s" % (compared, different, missing or "none"))
    sys.exit(1 if different or packing or not compared else 0)


if __name__ == "__main__":
    main()
