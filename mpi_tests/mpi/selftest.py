#!/usr/bin/env python3
"""lockstep selftest on the demo model and on every family of the fixtures: each part's verdict, and what it refuses.

That a part can fail at all is shown by mutants.py.
"""
import sys
import time

import harness

PARTS = ["repeat", "causality", "neighbours", "window"]
LIMIT_S = 60
# window or chunk by the words of the verdict; {} of the others
EDGES = {"mistral": "window", "gemma3": "window", "gpt_oss": "window", "llama4": "chunk"}


def verdicts(result):
    words = (line.split(None, 2) for line in result.stdout.splitlines() if line.split()[0] in PARTS)
    return {name: (verdict, text) for name, verdict, text in words}


def check_model(name, model, *arguments):
    begin = time.monotonic()
    result = harness.must(harness.run(0, "selftest", "--model", model, *arguments))
    seconds = time.monotonic() - begin
    found = verdicts(result)
    assert list(found) == PARTS and all(v == "good" for v, _ in found.values()), result.stdout
    assert result.stdout.endswith("all good\n"), result.stdout
    edge = EDGES.get(name, "")
    assert edge in found["window"][1], "%s: %s" % (name, found["window"])
    print("%-24s %.2f s  window: %s" % (name, seconds, found["window"][1]), flush=True)
    return seconds


def main():
    assert check_model("demo", "demo") < LIMIT_S
    folders = sorted(f for f in (harness.FIXTURES / "families").iterdir() if (f / "config.json").exists())
    assert len(folders) > 20, folders
    assert set(EDGES) <= {f.name for f in folders}
    for folder in folders if harness.LONG else [f for f in folders if f.name in EDGES] + folders[::6]:
        check_model(folder.name, folder)
    check_model("f32, ref", harness.FIXTURES / "families" / "llama-bf16", "--dtype", "f32", "--threads", "3",
                "--cpu", "ref")
    plain = harness.must(harness.run(0, "selftest"))
    assert not verdicts(plain) and plain.stdout.endswith("all good\n"), plain.stdout
    missing = harness.must(harness.run(0, "selftest", "--model", "/nowhere"), 2)
    assert "/nowhere" in missing.stderr and missing.stderr.count("\n") == 1, missing.stderr
    broken = harness.work_folder()
    (broken / "config.json").write_text("{}")
    harness.must(harness.run(0, "selftest", "--model", broken), 3)


if __name__ == "__main__":
    main()
    sys.exit(0)
