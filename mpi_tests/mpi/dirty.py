#!/usr/bin/env python3
"""A dirty file: every good row equals that of a clean file, every bad line costs its own error row with line number
and reason, order is kept, exit code 10. First one line of each kind, then mutated lines among many.

    dirty.py [--lines N] [--seed S]      2,000 fuzzed lines, 100,000 in the long form (LOCKSTEP_LONG)
"""
import argparse
import json
import random
import sys
import time

import harness
import jobs

DEMO = harness.FIXTURES.parent.parent / "configs" / "demo"
CONTEXT = json.loads((DEMO / "config.json").read_text())["max_position_embeddings"]
BATCH = '{"custom_id": "%s", "method": "POST", "url": "/v1/completions", "body": {%s}}'
FAULTS = []


def say(good, what):
    if not good:
        FAULTS.append(what)
        print("WRONG: %s" % what, flush=True)


def good_lines():
    return [(BATCH % ("good-%d" % i, '"model": "m", "prompt": "%d+%d=", "max_tokens": 3, "temperature": 0' % (i, i + 1))
             ).encode() for i in range(12)]


def bad(custom_id, body):
    return (BATCH % (custom_id, body)).encode()


def bad_lines():
    """(name, line, part of the code or message)"""
    text = '"prompt": "1+1="'
    yield "blank", b"", "blank"
    yield "spaces", b" \t ", "blank"
    yield "broken", b'{"custom_id": "x1", "method"', "broken JSON"
    yield "trailing text", bad("x2", text) + b" more", "broken JSON"
    yield "not an object", b"[1, 2]", "not a JSON object"
    yield "a number", b"17", "JSON"
    yield "unknown url", bad("x3", text).replace(b"completions", b"embeddings"), "url"
    yield "duplicate", bad("good-0", text), "came in an earlier line"
    yield "missing body", b'{"custom_id": "x4", "method": "POST", "url": "/v1/completions"}', "body"
    yield "missing prompt", bad("x5", '"max_tokens": 3'), "prompt"
    yield "missing custom_id", b'{"method": "POST", "url": "/v1/completions", "body": {"prompt": "a"}}', "custom_id"
    yield "over-long", bad("x6", '"prompt": [%s]' % ", ".join(["5"] * (CONTEXT + 1))), "context"
    yield "too much", bad("x7", text + ', "max_tokens": %d' % (CONTEXT + 1)), "context"
    yield "lone surrogate", bad("x8", '"prompt": "a\\ud800b"'), ""
    yield "invalid UTF-8", bad("x9", '"prompt": "a\xff"').decode("utf-8").encode("latin-1"), "UTF-8"
    yield "NUL byte", bad("x10", text)[:-3] + b"\0" + bad("x10", text)[-3:], "JSON"
    yield "NUL in the id", bad("x\\u0000y", text), "zero character"
    yield "64 MiB", bad("x11", '"prompt": "%s"' % ("a" * (64 << 20))), "longer than"
    yield "prompt of a wrong type", bad("x12", '"prompt": {"a": 1}'), "prompt"
    yield "max_tokens of a wrong type", bad("x13", text + ', "max_tokens": "3"'), "max_tokens"
    yield "temperature of a wrong type", bad("x14", text + ', "temperature": [1]'), "temperature"
    yield "max_tokens -1", bad("x15", text + ', "max_tokens": -1'), "max_tokens"
    yield "n 0", bad("x16", text + ', "n": 0'), "n is 0"
    yield "empty list", bad("x17", '"prompt": []'), "no tokens"
    yield "token out of vocabulary", bad("x18", '"prompt": [1, 99999999]'), "token id"
    yield "negative token", bad("x19", '"prompt": [-1]'), "token id"
    yield "duplicate key", bad("x20", text + ', "n": 1, "n": 2'), "JSON"
    yield "tools", bad("x21", text + ', "tools": []'), "tools"
    yield "response_format", bad("x22", text + ', "response_format": {"type": "json_object"}'), "response_format"
    yield "unknown field", bad("x23", text + ', "nonsense": 1'), "nonsense"
    yield "deep", b'{"custom_id": "x24", "body": ' + b"[" * 100000, "JSON"
    yield "method", bad("x25", text).replace(b"POST", b"GET"), "method"
    yield "huge number", bad("x26", text + ', "max_tokens": 1' + "0" * 400), ""


def run(folder, name, data, ranks, code, *extra):
    source, out = folder / ("%s.jsonl" % name), folder / ("%s.out" % name)
    source.write_bytes(data)
    result = harness.run(ranks, *jobs.command(source, out, *extra, model=DEMO))
    say(result.returncode == code, "%s: exit code %d, expected %d: %s" % (
        name, result.returncode, code, result.stderr[-1500:]))
    return out.read_bytes().split(b"\n")[:-1]


def check_kinds():
    folder, good, wrong = harness.work_folder(), good_lines(), list(bad_lines())
    clean = run(folder, "clean", b"\n".join(good) + b"\n", 0, 0)
    rng = random.Random(3)
    lines = [(None, line, None) for line in good[:-1]]
    for entry in wrong:
        lines.insert(rng.randint(1, len(lines)), entry)
    # fields that change nothing, an empty prompt (the BOS alone), and zero tokens are no errors
    fine = [bad("f%d" % i, '"prompt": "1+1=", "max_tokens": 2, "temperature": 0, ' + extra) for i, extra in enumerate((
        '"user": "u"', '"metadata": {"a": "b"}', '"stream": true', '"stream": false', '"max_tokens": 2'.replace(
            "max_tokens", "best_of").replace("2", "1")))] + [
        bad("f8", '"prompt": "", "max_tokens": 2'), bad("f9", '"prompt": "1+1=", "max_tokens": 0')]
    lines += [("fine", line, None) for line in fine] + [(None, good[-1], None)]
    # a mark in front, CRLF on some lines, none at the end
    data = b"\xef\xbb\xbf" + b"".join(line + rng.choice([b"\n", b"\r\n"]) for _, line, _ in lines[:-1]) + lines[-1][1]
    for ranks, extra in ((0, []), (3, ["--max-sequences", 2, "--budget", 5])):
        rows = run(folder, "dirty", data, ranks, 10, *extra)
        say(len(rows) == len(lines), "%d rows for %d lines" % (len(rows), len(lines)))
        expected = iter(clean)
        for number, ((name, line, part), row) in enumerate(zip(lines, rows), 1):
            shown = json.loads(row)
            if name is None:
                say(row == next(expected), "line %d: a good row differs" % number)
            elif name == "fine":
                say(shown["error"] is None, "line %d: %s is an error: %s" % (number, line, shown["error"]))
            else:
                error = shown["error"]
                say(shown["response"] is None and error and error["line"] == number and
                    part in error["message"] + " " + error["code"], "%s, line %d: %s" % (name, number, error))


def mutate(rng, line):
    """Some bytes changed, cut, doubled or swapped; never a line end."""
    data = bytearray(line)
    for _ in range(rng.choice([1, 1, 1, 2, 5])):
        at, kind = rng.randrange(len(data)), rng.randrange(5)
        if kind == 0:
            data[at] = rng.randrange(256)
        elif kind == 1:
            del data[at:at + rng.randint(1, 9)]
        elif kind == 2:
            data[at:at] = data[at:at + rng.randint(1, 9)]
        elif kind == 3:
            data[at:at] = rng.choice([b"\0", b"\xff", b"\\ud800", b"null", b"1e999", b"-1", b"{", b"]", b'"'])
        else:
            other = rng.randrange(len(data))
            data[at], data[other] = data[other], data[at]
        if not data:
            data = bytearray(b"{")
    return bytes(data).replace(b"\n", b" ")


def check_fuzz(options):
    """One line in a hundred is mutated; a mutated one may still be good, the others must not notice."""
    folder, rng = harness.work_folder(), random.Random(options.seed)
    model = harness.make_llama(folder / "model", 2, hidden=8, heads=1, intermediate=8, vocab=64)
    good = [json.dumps({"custom_id": "g%d" % i, "method": "POST", "url": "/v1/completions", "body": {
        "prompt": [rng.randrange(3, 64) for _ in range(rng.randint(1, 6))], "max_tokens": rng.randint(1, 2),
        "temperature": rng.choice([0, 1]), "stream": rng.random() < 0.5}}).encode() for i in range(options.lines)]
    rows = {}
    for name in ("clean", "fuzzed"):
        source, out = folder / ("%s.jsonl" % name), folder / ("%s.out" % name)
        lines = list(good)
        if name == "fuzzed":
            bad_at = set(rng.sample(range(options.lines), max(20, options.lines // 100)))
            for at in bad_at:  # an id of its own, so that the mutation cannot take another line's
                lines[at] = mutate(rng, good[at].replace(b'"g%d"' % at, b'"bad %d"' % at))
        source.write_bytes(b"\n".join(lines) + b"\n")
        result = harness.run(2 if name == "fuzzed" else 0, *jobs.command(source, out, model=model), timeout=3600)
        say(result.returncode == (10 if name == "fuzzed" else 0), "%s: exit code %d: %s" % (
            name, result.returncode, result.stderr[-1000:]))
        rows[name] = out.read_bytes().split(b"\n")[:-1]
    say(len(rows["fuzzed"]) == options.lines, "%d rows for %d lines" % (len(rows["fuzzed"]), options.lines))
    n_errors = 0
    for at, (clean, fuzzed) in enumerate(zip(rows["clean"], rows["fuzzed"])):
        if at not in bad_at:
            say(clean == fuzzed, "line %d: a good row differs" % (at + 1))
            continue
        error = json.loads(fuzzed)["error"]
        n_errors += error is not None
        say(error is None or (error["line"] == at + 1 and error["message"]), "line %d: %s" % (at + 1, error))
    say(n_errors > len(bad_at) // 3, "only %d of %d mutated lines are errors" % (n_errors, len(bad_at)))
    print("%d lines, %d mutated, %d error rows" % (options.lines, len(bad_at), n_errors))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--lines", type=int, default=100000 if harness.LONG else 2000)
    parser.add_argument("--seed", type=int, default=20261129)
    options = parser.parse_args()
    print("seed", options.seed, flush=True)
    for check in (check_kinds, lambda: check_fuzz(options)):
        began = time.monotonic()
        check()
        print("%.1f s" % (time.monotonic() - began), flush=True)
    print("%d wrong" % len(FAULTS))
    sys.exit(1 if FAULTS else 0)


if __name__ == "__main__":
    main()
