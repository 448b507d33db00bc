#!/usr/bin/env python3
"""The whole program under AddressSanitizer and UndefinedBehaviorSanitizer, at 1 and 3 ranks, leaks included.

    sanitize.py SOURCE_DIR WORK_DIR

Builds a sanitized variant with its tests in WORK_DIR, runs the variant's unit and kernel tests, and real jobs through
its binary: good ones on 0, 1 and 3 ranks over several families, and every kind of refusal. Any report fails.
"""
import os
import pathlib
import random
import re
import subprocess
import sys

import harness
import property as bits

# What MPI and the libraries below it never free; a leak of ours is named in none of these.
SUPPRESSIONS = "".join("leak:%s\n" % name for name in (
    "libmpi", "libopen-pal", "libopen-rte", "libpmix", "libhwloc", "libevent", "mca_", "libucp", "libucs", "libuct",
    "libfabric", "libpsm2", "libibverbs", "libcrypto"))
REPORT = re.compile(r"ERROR: (Address|Leak)Sanitizer|runtime error:")


def build(source, folder):
    if not (folder / "build.ninja").exists():
        subprocess.run(["meson", "setup", str(folder), str(source), "-Db_sanitize=address,undefined",
                        "-Db_lundef=false", "-Doptimization=1", "-Dbuildtype=plain", "-Ddebug=true"], check=True,
                       stdout=subprocess.DEVNULL)
    subprocess.run(["ninja", "-C", str(folder), "-j", str(os.cpu_count() or 1)], check=True, stdout=subprocess.DEVNULL)


def environment(folder):
    (folder / "leaks.txt").write_text(SUPPRESSIONS)
    return {"ASAN_OPTIONS": "detect_leaks=1:fast_unwind_on_malloc=0:halt_on_error=1:abort_on_error=0",
            "LSAN_OPTIONS": "print_suppressions=0:suppressions='%s'" % (folder / "leaks.txt"),
            "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1"}


def jobs(folder):
    """(name, ranks, expected exit code, arguments)"""
    source = folder / "in.jsonl"
    harness.write_requests(source, bits.make_requests(random.Random(1), 320) + [{"nothing": 1}, {"tokens": [999999]}])
    base = ["run", "--input", source, "--output", folder / "out.jsonl", "--digest", "all", "--progress", "none",
            "--logits", folder / "logits", "--model"]
    families = harness.FIXTURES / "families"
    for model in ("llama-bf16", "mistral", "qwen3", "llama-f16", "llama-sharded"):
        for ranks in (0, 1, 3):
            yield model, ranks, 10, [*base, families / model, "--threads", 2, "--budget", 33, "--chunk", 16]
    for ranks in (0, 1, 3):
        yield "no such model", ranks, 2, [*base, folder / "absent"]
        yield "unknown option", ranks, 2, [*base, families / "qwen3", "--no-such-option"]
        yield "bad dtype", ranks, 2, [*base, families / "qwen3", "--dtype", "f8"]
        yield "inspect", ranks, 0, ["inspect", "--model", families / "qwen3"]
        yield "plan", ranks, 0, ["plan", "--model", families / "qwen3", "--stages", "2"]
        yield "help", ranks, 0, ["--help"]


def main():
    if not harness.LONG:
        print("only in the long form (LOCKSTEP_LONG): its build alone takes minutes")
        sys.exit(harness.SKIP)
    source, build_folder = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    build_folder.mkdir(parents=True, exist_ok=True)
    build(source, build_folder)
    folder, wrong = harness.work_folder(), 0
    env = environment(folder)
    tests = subprocess.run(["meson", "test", "-C", str(build_folder), "--no-rebuild", "--suite", "unit", "--suite",
                            "kernel", "--suite", "fuzz", "--timeout-multiplier", "4"], text=True, capture_output=True,
                           env={**os.environ, **env})
    print("\n".join(tests.stdout.splitlines()[-12:]))
    wrong += tests.returncode != 0
    count = 0
    for name, ranks, code, arguments in jobs(folder):
        result = harness.run(ranks, *arguments, program=str(build_folder / "lockstep"), env=env)
        count += 1
        if REPORT.search(result.stderr) or result.returncode != code:
            wrong += 1
            print("WRONG: %s at %d ranks: exit %d, expected %d\n%s" % (
                name, ranks, result.returncode, code, result.stderr[-3000:]))
    print("%d jobs sanitized, %d wrong" % (count, wrong))
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
