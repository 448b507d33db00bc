#!/usr/bin/env python3
"""Negative controls: each deliberate fault of the mutant build makes the test that should see it fail.

    mutants.py      (LOCKSTEP_BIN: the binary of a build with -Dmutants=true)

For every mutant two runs through the mutant binary itself: with the fault off the check must hold, with the fault on it
must not. So a check that can never fail is found as surely as one that always does.
"""
import json
import sys

import harness
import truth


def token_requests(name):
    reference = truth.Reference(name)
    return [{"id": "p%d" % i, "tokens": ids, "max_tokens": 20, "ignore_eos": True, "temperature": 0}
            for i, ids in enumerate(reference.ids)]


def run(folder, mutant, ranks, model, requests, *arguments):
    """The output file's bytes; None when the run itself failed, which is a way to notice, too."""
    source, out = folder / "in.jsonl", folder / "out.jsonl"
    harness.write_requests(source, requests)
    result = harness.run(ranks, "run", "--model", model, "--input", source, "--output", out, "--digest", "all",
                         "--progress", "none", *arguments, env={"LOCKSTEP_MUTANT": mutant})
    return out.read_bytes() if result.returncode == 0 else None


def fixture(name):
    return harness.FIXTURES / "families" / name


def greedy_is_reference(folder, mutant, name, ranks=1, *arguments):
    reference = truth.Reference(name)
    requests = truth.prompt_requests(reference, range(truth.PROMPTS), truth.STEPS)
    if run(folder, mutant, ranks, fixture(name), requests, "--dtype", "f32", *arguments) is None:
        return False
    rows = harness.rows(folder / "out.jsonl")
    return all(row["lockstep"]["token_ids"] == reference.greedy[i] for i, row in enumerate(rows))


def split_equals_whole(folder, mutant, name, ranks, *arguments):
    whole = run(folder, mutant, 1, fixture(name), token_requests(name))
    split = run(folder, mutant, ranks, fixture(name), token_requests(name), *arguments)
    return whole is not None and whole == split


def bits_are_sound(folder, mutant, name):
    """Without a fault the same build is the definition of the bits."""
    expected = run(folder, "none", 1, fixture(name), token_requests(name))
    return expected is not None and run(folder, mutant, 1, fixture(name), token_requests(name)) == expected


def bos_is_once(folder, mutant):
    demo = harness.FIXTURES.parent.parent / "configs" / "demo"
    expected = json.loads((demo / "reference.json").read_text())["requests"][0]
    request = {"id": "x", "prompt": "12+9=", "max_tokens": 2, "temperature": 0}
    if run(folder, mutant, 1, demo, [request], "--dtype", "f32") is None:
        return False
    row = harness.rows(folder / "out.jsonl")[0]
    return row["response"]["body"]["usage"]["prompt_tokens"] == len(expected["prompt_ids"])


def selftest_is_good(folder, mutant, name, part):
    """The word of `lockstep selftest` itself on this part; a crash is no such word."""
    result = harness.run(0, "selftest", "--model", fixture(name) if name != "demo" else name,
                         env={"LOCKSTEP_MUTANT": mutant})
    failed = [line.split()[0] for line in result.stdout.splitlines() if " FAILED (" in line or " FAILED: " in line]
    return result.returncode in (0, 4) and part not in failed


CHECKS = {
    # smollm3's layer 3 has no rope and qwen2-window's layers differ: a local index picks the wrong ones
    "local-layer": lambda f, m: split_equals_whole(f, m, "qwen2-window", 3),
    "window": lambda f, m: greedy_is_reference(f, m, "mistral"),
    "f16-widen": lambda f, m: split_equals_whole(f, m, "llama-f16", 2),
    "even-first": lambda f, m: bits_are_sound(f, m, "llama-bf16"),
    "tie-ignored": lambda f, m: greedy_is_reference(f, m, "llama-tied-bf16", 2),
    # mistral frees blocks behind its window, so what is left of a sequence no longer begins at position 0
    "local-position": lambda f, m: greedy_is_reference(f, m, "mistral"),
    "bos-doubled": bos_is_once,
    "drift": lambda f, m: selftest_is_good(f, m, "demo", "repeat"),
    "future": lambda f, m: selftest_is_good(f, m, "demo", "causality"),
    "neighbour": lambda f, m: selftest_is_good(f, m, "demo", "neighbours"),
}
def certificate_holds(folder, mutant, named):
    """What a faulty program certified, to the eyes of one without the fault; caught when the leaf is named."""
    source, out, cert = folder / "in.jsonl", folder / "out.jsonl", folder / "out.cert"
    harness.write_requests(source, [{"id": "p", "tokens": list(range(5, 30)), "max_tokens": 4}])
    harness.must(harness.run(2, "run", "--model", "demo", "--input", source, "--output", out, "--certificate", cert,
                             "--progress", "none", env={"LOCKSTEP_MUTANT": mutant}))
    result = harness.run(0, "verify", cert, "--model", "demo", "--input", source, "--output", out, "--random", "60",
                         env={"LOCKSTEP_MUTANT": "none"})
    return not (result.returncode == 10 and named in result.stdout)


# a second check that should see a mutant
AGAIN = {
    "future": lambda f, m: certificate_holds(f, m, "leaf of line 1, choice 0, position 0, layer 0\n"),
    "drift": lambda f, m: certificate_holds(f, m, ", logits\n"),
    "window": lambda f, m: selftest_is_good(f, m, "mistral", "window"),
}


def main():
    folder, failed = harness.work_folder(), 0
    for mutant, holds in [*CHECKS.items(), *AGAIN.items()]:
        sound, caught = holds(folder, "none"), not holds(folder, mutant)
        print("%-16s check holds without it: %s; caught: %s" % (mutant, sound, caught), flush=True)
        failed += not (sound and caught)
    print("%d checks of %d mutants, %d did not catch theirs" % (len(CHECKS) + len(AGAIN), len(CHECKS), failed))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
