#!/usr/bin/env python3
"""Scoring through the real binary: the harness's own tokens at every border, one number by every path, equal bytes in
every company and layout, and texts in windows. LOCKSTEP_BIN: the binary. A real model is used where LOCKSTEP_MODELS has
it.
"""

import json
import math
import os
import pathlib
import random
import shutil
import sys
import time

import harness

DEMO = harness.FIXTURES.parent.parent / "configs" / "demo"
FAULTS = []
TEXT = (
    "Ada counted the apples twice: 12+9=21, and then 7+8=15. The river was cold. "
    "Qui dort dine, said the cat; \u00fcber den Wolken.\n"
) * 6


def say(ok, text):
    if not ok:
        FAULTS.append(text)
        print("WRONG: " + text, flush=True)


def run(folder, requests, *arguments, ranks=0, code=(0, 10), model="demo", command="run"):
    if isinstance(requests, str):
        (folder / "in").write_bytes(requests.encode())
    else:
        harness.write_requests(folder / "in", requests)
    result = harness.run(
        ranks,
        command,
        "--model",
        model,
        "--input",
        folder / "in",
        "--output",
        folder / "out.jsonl",
        "--progress",
        "none",
        "--fresh",
        *arguments
    )
    if result.returncode not in code:
        harness.must(result)
    return harness.rows(folder / "out.jsonl")


def body(row):
    return row["response"]["body"] if row["response"] else {"error": row["error"]}


def logprobs(row):
    return body(row)["choices"][0]["logprobs"]["token_logprobs"]


# ---- the harness's rules -------------------------------------------------------------------------------------------


def model_with(folder, name):
    if name == "demo":
        return DEMO
    model = folder / name
    shutil.copytree(DEMO, model)
    for file in (harness.FIXTURES / "tokenizers" / name).iterdir():
        shutil.copy(file, model)
    return model


def as_ids(expected):
    """The same request with the harness's tokens in it."""
    whole = expected["input"] + expected["scored"][-1:]
    cut = len(whole) - len(expected["scored"])
    return {"context": whole[:cut], "continuation": whole[cut:], "logprobs": 0}


def by_length(cases):
    return {length: [case for case in cases if case["length"] == length] for length in {c["length"] for c in cases}}


def compare_pairs(folder, name, model, cases):
    compared, refused = 0, 0
    for length, group in by_length(cases).items():
        rows = run(
            folder,
            [{"request_type": "loglikelihood", "arguments": c["arguments"], "logprobs": 0} for c in group],
            "--context",
            length,
            model=model,
        )
        wanted = [case["expected"] for case in group]
        ids = iter(run(folder, [as_ids(w) for w in wanted if w], model=model))
        for case, row, expected in zip(group, rows, wanted):
            what = "%s, length %d, %s" % (name, length, case["arguments"])
            compared += 1
            refused += expected is None
            if not expected:
                say(
                    row["error"] and row["error"]["code"] in ("empty_continuation", "context_length_exceeded"),
                    "%s: the harness gives up, here %s" % (what, body(row)),
                )
                continue
            other = next(ids)
            say(
                row["response"]
                and row["lockstep"]["token_ids"] == expected["scored"]
                and row["lockstep"]["context_tokens"] == len(expected["input"]) + 1 - len(expected["scored"])
                and body(row)["truncated"] == expected["truncated"],
                "%s: %s, expected %s" % (what, row, expected),
            )
            say(
                logprobs(row) == logprobs(other) and body(row)["is_greedy"] == body(other)["is_greedy"],
                "%s: other numbers than for its tokens" % what,
            )
    print("%s: %d pairs, %d of them given up by the harness" % (name, compared, refused))
    say(compared - refused > 50 and refused > 10, "%s: too few pairs of one kind" % name)


def compare_rolling(folder, name, model, cases):
    for length, group in by_length(cases).items():
        rows = run(
            folder,
            [{"request_type": "loglikelihood_rolling", "text": c["text"], "logprobs": 0} for c in group],
            "--context",
            length,
            model=model,
        )
        windows = iter(run(folder, [as_ids(w) for c in group for w in c["expected"]], model=model))
        for case, row in zip(group, rows):
            expected = [x for _ in case["expected"] for x in logprobs(next(windows))]
            total = 0.0
            for x in expected:
                total += x
            say(
                row["response"]
                and logprobs(row) == expected
                and body(row)["loglikelihood"] == total
                and body(row)["windows"] == len(case["expected"]),
                "%s, length %d, rolling %r: %s" % (name, length, case["text"], body(row)),
            )


def compare_generate(folder, name, model, cases):
    for length, group in by_length(cases).items():
        lines = [
            {"request_type": "generate_until", "context": c["context"], "gen_kwargs": {"max_gen_toks": c["limit"]}}
            for c in group
        ]
        rows = run(folder, lines, "--context", length, "--digest", "all", model=model)
        plain = [{"tokens": c["expected"], "max_tokens": c["limit"]} for c in group if c["expected"]]
        others = iter(run(folder, plain, "--digest", "all", model=model))
        for case, row in zip(group, rows):
            if not case["expected"]:
                say(row["error"] and row["error"]["code"] == "context_length_exceeded", "generate: %s" % body(row))
                continue
            other = next(others)
            say(
                row["response"] and row["lockstep"] == other["lockstep"] and body(row)["usage"] == body(other)["usage"],
                "%s, length %d, generate %r: %s, its tokens %s" % (name, length, case["context"], row, other),
            )


def check_harness():
    cases = json.loads((harness.FIXTURES / "score" / "cases.json").read_text(encoding="utf-8"))
    for name, kinds in cases.items():
        folder = harness.work_folder()
        model = model_with(folder, name)
        compare_pairs(folder, name, model, kinds["pairs"])
        compare_rolling(folder, name, model, kinds["rolling"])
        compare_generate(folder, name, model, kinds["generate"])


def check_spellings():
    """Every spelling of a request is the same request; what is wrong is refused by name."""
    folder = harness.work_folder()
    pair = {"request_type": "loglikelihood", "context": "12+9=", "continuation": "21"}
    rows = run(
        folder,
        [
            pair,
            {**pair, "doc": {"q": 1}, "doc_id": 3, "idx": 0, "metadata": [None], "repeats": 1},
            {"context": "12+9=", "continuation": "21"},
            {"request_type": "loglikelihood", "arguments": ["12+9=", "21"]},
            {"request_type": "loglikelihood", "arguments": {"gen_args_0": {"arg_0": "12+9=", "arg_1": "21"}}},
        ],
    )
    say(
        all(body(r)["loglikelihood"] == body(rows[0])["loglikelihood"] for r in rows) and body(rows[0])["is_greedy"],
        "spellings: %s" % rows,
    )
    until = run(
        folder,
        [
            {"request_type": "generate_until", "arguments": ["12+9=", kwargs]}
            for kwargs in (
                {"until": ["\n"], "max_gen_toks": 8},
                {"until": "\n", "max_new_tokens": 8, "do_sample": False, "temperature": 0.9},
                {"until": ["", "\n"], "max_tokens": 8, "num_beams": 1},
                {"until": ["<eos>", "\n"], "max_completion_tokens": 8},
            )
        ],
    )
    say(all(body(r)["choices"][0]["text"] == "21" for r in until), "until: %s" % until)
    special = run(
        folder,
        [
            {
                "request_type": "generate_until",
                "context": "Q: 12+9=\nA:",
                "gen_kwargs": {"until": ["<bos>"], "max_gen_toks": 20},
            },
            {"prompt": "Q: 12+9=\nA:", "max_tokens": 20},
        ],
    )
    say(body(special[0])["choices"] == body(special[1])["choices"], "a stop that is a special token: %s" % special)
    refused = [
        ({**pair, "request_type": "x"}, "request_type"),
        ({**pair, "context": 5}, "context"),
        ({"request_type": "loglikelihood", "context": "a"}, "continuation"),
        ({**pair, "foo": 1}, "foo"),
        ({"request_type": "loglikelihood_rolling"}, "text"),
        ({**pair, "prefix_token_id": 9999}, "prefix_token_id"),
        ({"request_type": "generate_until", "context": "a", "gen_kwargs": {"frob": 1}}, "frob"),
        ({"request_type": "generate_until", "context": "a", "gen_kwargs": {"until": 5}}, "until"),
        ({"request_type": "generate_until", "context": "a", "gen_kwargs": 7}, "gen_kwargs"),
        ({**pair, "logprobs": 21}, "logprobs"),
        ({"context": [1], "continuation": [5000]}, "continuation"),
        ({"request_type": "loglikelihood_rolling", "text": "", "add_bos_token": False}, "no token"),
        ({"request_type": "loglikelihood", "arguments": ["a", "b", "c"]}, "arguments"),
    ]
    for (request, name), row in zip(refused, run(folder, [request for request, _ in refused])):
        say(row["error"] and name in row["error"]["message"], "%s: %s" % (request, body(row)))


# ---- one number by every path --------------------------------------------------------------------------------------


def check_generated():
    """A greedily generated text scored afterwards, and by prompt_logprobs: the same numbers, bit for bit."""
    folder = harness.work_folder()
    rng = random.Random(3)
    prompts = [[rng.randrange(2, 2048) for _ in range(n)] for n in (1, 2, 31, 32, 33, 70)]
    made = run(folder, [{"tokens": p, "max_tokens": 40, "ignore_eos": True, "logprobs": 2} for p in prompts])
    ids = [row["lockstep"]["token_ids"] for row in made]
    for ranks, arguments in ((0, []), (3, ["--budget", 7, "--chunk", 3])):
        scored = run(
            folder,
            [{"context": p, "continuation": new, "logprobs": 2} for p, new in zip(prompts, ids)],
            *arguments,
            ranks=ranks
        )
        forced = run(
            folder,
            [{"tokens": p + new, "max_tokens": 0, "prompt_logprobs": 0} for p, new in zip(prompts, ids)],
            *arguments,
            ranks=ranks
        )
        for p, a, b, c in zip(prompts, made, scored, forced):
            once = body(a)["choices"][0]["logprobs"]
            again = body(b)["choices"][0]["logprobs"]
            third = [
                next(iter(place.values()))["logprob"] for place in body(c)["choices"][0]["prompt_logprobs"][len(p) :]
            ]
            say(
                once["token_logprobs"] == again["token_logprobs"] == third
                and once["top_logprobs"] == again["top_logprobs"],
                "%d ranks, prompt of %d: scores differ from those of generation" % (ranks, len(p)),
            )
            say(body(b)["is_greedy"], "a greedy text is not greedy")


def check_neighbours():
    """A probe alone, then among others of other lengths at any place: equal bytes, on several layouts."""
    folder = harness.work_folder()
    rng = random.Random(11)
    probes = [
        {
            "id": "probe0",
            "request_type": "loglikelihood",
            "context": TEXT[:200],
            "continuation": TEXT[200:260],
            "logprobs": 3,
        },
        {"id": "probe1", "request_type": "loglikelihood_rolling", "text": TEXT[:150], "logprobs": 0},
        {"id": "probe2", "request_type": "loglikelihood", "context": "", "continuation": "12"},
    ]
    alone = [run(folder, [probe], "--digest", "all") for probe in probes]
    plain = {row["custom_id"]: row for rows in alone for row in rows}
    for count, ranks, arguments in (
        (1, 2, []),
        (3, 0, ["--threads", 2]),
        (7, 3, ["--budget", 16, "--chunk", 5]),
        (43, 2, ["--max-sequences", 9]),
        (255 if harness.LONG else 90, 0, []),
    ):
        others = []
        for i in range(count):
            at, n = rng.randrange(300), rng.choice([1, 5, 30, 120])
            others.append(
                rng.choice(
                    [
                        {"context": TEXT[at : at + n], "continuation": " x" * rng.randrange(1, 9)},
                        {"text": TEXT[at : at + n]},
                        {"context": TEXT[:200], "continuation": TEXT[200 : 200 + n]},
                        {"prompt": TEXT[at : at + n], "max_tokens": rng.randrange(1, 12), "ignore_eos": True},
                    ]
                )
            )
        company = [{"id": "o%d" % i, **other} for i, other in enumerate(others)]
        for probe in probes:
            company.insert(rng.randrange(len(company) + 1), probe)
        rows = run(folder, company, "--digest", "all", *arguments, ranks=ranks)
        for row in rows:
            if row["custom_id"] in plain:
                say(
                    row == plain[row["custom_id"]],
                    "%s among %d others on %d ranks: another row" % (row["custom_id"], count, ranks),
                )


def check_rows():
    """Only rows that are scored are computed: a long context with a short continuation needs few."""
    folder = harness.work_folder()

    def computed(requests):
        run(folder, requests, ranks=2)
        manifest = json.loads((folder / "out.jsonl.lockstep" / "manifest.json").read_text())
        return manifest["stages"][-1]["logits_rows"]

    say(computed([{"context": list(range(2, 302)), "continuation": [5, 6, 7]}]) == 3, "rows of a short continuation")
    say(computed([{"text": TEXT[:100]}]) == len(run(folder, [{"text": TEXT[:100], "logprobs": 0}])[0]["lockstep"]
        ["token_ids"]), "rows of a text")


# ---- texts ---------------------------------------------------------------------------------------------------------


def windows_of(n_stream, length, stride):
    """(first token fed, tokens fed, tokens scored), by the definition: every token once, all windows full."""
    done, out = 0, []
    while done < n_stream - 1:
        step = min(length if not done else stride, n_stream - 1 - done)
        done += step
        out.append((max(0, done - length), min(done, length), step))
    return out


def check_text():
    """A text as one document, by lines, as JSON; strides; with and without a prefix."""
    folder = harness.work_folder()
    whole = run(folder, TEXT, "--token-logprobs", command="score")[0]
    ids = whole["lockstep"]["token_ids"]
    total = body(whole)["loglikelihood"]
    say(
        abs(body(whole)["perplexity"] - math.exp(-total / len(ids))) < 1e-9 * body(whole)["perplexity"]
        and abs(body(whole)["bits_per_byte"] + total / math.log(2) / len(TEXT.encode())) < 1e-12
        and body(whole)["bytes"] == len(TEXT.encode())
        and whole["custom_id"] == "line-1",
        "sums: %s" % {k: v for k, v in body(whole).items() if k != "choices"},
    )
    again = run(folder, [{"text": TEXT, "logprobs": 0}], command="score")[0]
    say(body(again)["choices"] == body(whole)["choices"], "a text and its JSON differ")
    lines = run(folder, TEXT, "--documents", "lines", command="score", code=(0,))
    say(len(lines) == TEXT.count("\n") and body(lines[0])["loglikelihood"] == body(lines[1])["loglikelihood"], "lines")
    for prefix, length, stride in ((True, 64, 64), (True, 64, 10), (True, 50, 1), (False, 64, 16), (False, 1000, 1000)):
        arguments = ["--context", length, "--stride", stride, "--token-logprobs", *([] if prefix else ["--no-prefix"])]
        row = run(folder, TEXT, *arguments, command="score")[0]
        stream = [0] + ids if prefix else ids
        windows = windows_of(len(stream), length, stride)
        pairs = [
            {
                "context": stream[first : first + n + 1 - k],
                "continuation": stream[first + n + 1 - k : first + n + 1],
                "logprobs": 0,
            }
            for first, n, k in windows
        ]
        expected = [x for other in run(folder, pairs) for x in logprobs(other)]
        say(
            logprobs(row) == expected and body(row)["windows"] == len(windows) and len(expected) == len(stream) - 1,
            "prefix %s, length %d, stride %d: windows differ" % (prefix, length, stride),
        )
    outputs = {
        json.dumps(run(folder, TEXT, "--context", 64, "--stride", 16, *more, ranks=ranks, command="score"))
        for ranks, more in ((0, []), (2, ["--budget", 9]), (3, ["--max-sequences", 2]))
    }
    say(len(outputs) == 1, "a text's row depends on the layout")
    say(run(folder, "", command="score") == [], "an empty text has rows")
    bad = run(folder, TEXT * 40, "--context", 2, "--stride", 1, "--no-prefix", command="score")
    say(body(bad[0]).get("windows", 0) == body(bad[0]).get("scored_tokens", 0) - 1, "small windows: %s" % body(bad[0]))


def check_real():
    """SmolLM2-135M against its float32 reference, and perplexity over it."""
    root = os.environ.get("LOCKSTEP_MODELS")
    model = pathlib.Path(root, "smollm2-135m") if root else None
    if not model or not model.is_dir():
        print("real: SmolLM2-135M is not here (LOCKSTEP_MODELS)")
        return
    passage = json.loads((harness.FIXTURES / "models" / "smollm2-135m.json").read_text())["passage"]
    folder = harness.work_folder()
    for dtype, bound, slack in (("f32", 10 * 3.75e-05, 1e-4), ("auto", 0.219, 0.01)):
        row = run(
            folder, passage["text"], "--no-prefix", "--token-logprobs", "--dtype", dtype, model=model, command="score"
        )[0]
        errors = sorted(abs(a - b) for a, b in zip(logprobs(row), passage["logprobs"]))
        at99 = errors[int(0.99 * len(errors))]
        print(
            "real, %s: perplexity %.6f (reference %.6f), 99th percentile of the errors %.3g"
            % (dtype, body(row)["perplexity"], passage["perplexity"], at99)
        )
        say(
            row["lockstep"]["token_ids"] == passage["ids"][1:]
            and at99 <= bound
            and abs(body(row)["perplexity"] / passage["perplexity"] - 1) < slack,
            "%s: off the reference" % dtype,
        )


def main():
    checks = {name[6:]: check for name, check in globals().items() if name.startswith("check_")}
    for name in sys.argv[1:] or checks:
        began = time.monotonic()
        checks[name]()
        print("%s: %.1f s" % (name, time.monotonic() - began), flush=True)
    print("%d wrong" % len(FAULTS))
    sys.exit(1 if FAULTS else 0)


if __name__ == "__main__":
    main()
