#!/usr/bin/env python3
"""lm-evaluation-harness itself measures the demo model through src/tools/lockstep_lm.py: tasks made from local files,
by log-likelihood, rolling log-likelihood and generation, with and without the chat template. The numbers are the same
for every launcher, rank count and batch size, and for export and import. Without the package: skipped (77).
"""

import json
import math
import os
import random
import subprocess
import sys

import harness

TOOLS = harness.FIXTURES.parent.parent / "src" / "tools"
TASKS = {
    "sums_choice": {
        "output_type": "multiple_choice",
        "doc_to_text": "{{question}}",
        "doc_to_target": "{{label}}",
        "doc_to_choice": "{{choices}}",
        "target_delimiter": "",
        "metric_list": [
            {"metric": "acc", "aggregation": "mean", "higher_is_better": True},
            {"metric": "acc_norm", "aggregation": "mean", "higher_is_better": True},
        ],
    },
    "sums_written": {
        "output_type": "generate_until",
        "doc_to_text": "{{question}}",
        "doc_to_target": "{{answer}}",
        "generation_kwargs": {"until": ["\n"], "max_gen_toks": 8, "do_sample": False},
        "metric_list": [{"metric": "exact_match", "aggregation": "mean", "higher_is_better": True}],
    },
    "sums_rolling": {
        "output_type": "loglikelihood_rolling",
        "doc_to_text": "",
        "doc_to_target": "{{text}}",
        "metric_list": [{"metric": "word_perplexity"}, {"metric": "bits_per_byte"}],
    },
}
# No network: only files of this test's own.
OFFLINE = {
    "HF_HUB_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false",
}


def make_tasks(folder):
    rng = random.Random(8)
    docs = []
    for _ in range(24):
        a, b = rng.randrange(2, 40), rng.randrange(2, 40)
        wrong = [str(a + b + d) for d in (1, 10)]
        docs.append(
            {
                "question": "%d+%d=" % (a, b),
                "answer": str(a + b),
                "label": 1,
                "choices": [wrong[0], str(a + b), wrong[1]],
                "text": "%d+%d=%d\nThe river was cold. " % (a, b, a + b),
            }
        )
    harness.write_requests(folder / "docs.jsonl", docs)
    for name, task in TASKS.items():
        (folder / (name + ".yaml")).write_text(
            json.dumps(
                {
                    "task": name,
                    "dataset_path": "json",
                    "test_split": "test",
                    "num_fewshot": 0,
                    "metadata": {"version": 1},
                    "dataset_kwargs": {"data_files": {"test": str(folder / "docs.jsonl")}},
                    **task,
                }
            ),
            encoding="utf-8",
        )
    return folder


def evaluate(folder, label, arguments, extra=()):
    """The numbers of all tasks."""
    out = folder / label
    words = ",".join("%s=%s" % (k, v) for k, v in {"model": "demo", "lockstep": harness.binary(), **arguments}.items())
    command = [
        sys.executable,
        str(TOOLS / "lockstep_lm.py"),
        "run",
        "--model",
        "lockstep",
        "--model_args",
        words,
        "--include_path",
        str(folder),
        "--tasks",
        *TASKS,
        "--output_path",
        str(out),
        *extra,
    ]
    environment = {**os.environ, **harness.MPI_ENVIRONMENT, **OFFLINE, "HF_HOME": str(folder / "home")}
    result = subprocess.run(
        command, capture_output=True, text=True, timeout=600, env=environment, stdin=subprocess.DEVNULL, check=False
    )
    if result.returncode:
        sys.exit("%s: %d\n%s\n%s" % (label, result.returncode, result.stdout[-2000:], result.stderr[-4000:]))
    files = list(out.rglob("results_*.json"))
    return {
        name: {k: v for k, v in numbers.items() if isinstance(v, (int, float))}
        for name, numbers in json.loads(files[0].read_text())["results"].items()
    }


def offline(folder):
    """export here, lockstep by hand, import: as on a cluster without the package."""
    place = folder / "exchange"
    evaluate(folder, "export", {"mode": "export", "folder": place})
    sources = sorted(place.glob("*.jsonl"))
    for source in sources:
        harness.must(
            harness.run(
                2,
                "run",
                "--model",
                "demo",
                "--input",
                source,
                "--output",
                source.with_suffix(".out.jsonl"),
                "--progress",
                "none",
            )
        )
    if len(sources) != 3:
        sys.exit("an export of three kinds of request wrote %s" % sources)
    return evaluate(folder, "import", {"mode": "import", "folder": place})


def by_hand(folder):
    """The three tasks' numbers from plain runs of lockstep, by this test's own arithmetic."""
    docs = harness.rows(folder / "docs.jsonl")
    lines = [{"context": d["question"], "continuation": c} for d in docs for c in d["choices"]]
    lines += [{"request_type": "loglikelihood_rolling", "text": d["text"]} for d in docs]
    lines += [{"prompt": d["question"], "max_tokens": 8, "stop": "\n"} for d in docs]
    harness.write_requests(folder / "hand.jsonl", lines)
    harness.must(
        harness.run(
            0,
            "run",
            "--model",
            "demo",
            "--input",
            folder / "hand.jsonl",
            "--output",
            folder / "hand.out",
            "--progress",
            "none",
        )
    )
    bodies = [row["response"]["body"] for row in harness.rows(folder / "hand.out")]
    likely = [b["loglikelihood"] for b in bodies[:72]]
    right = sum(max(range(3), key=lambda c: likely[3 * i + c]) == d["label"] for i, d in enumerate(docs))
    written = sum(b["choices"][0]["text"] == d["answer"] for b, d in zip(bodies[96:], docs))
    rolled = sum(b["loglikelihood"] for b in bodies[72:96])
    n_bytes = sum(len(d["text"].encode()) for d in docs)
    return {"sums_choice": right / 24, "sums_written": written / 24, "sums_rolling": -rolled / n_bytes / math.log(2)}


def main():
    try:
        import lm_eval
    except ImportError:
        print("SKIP: lm_eval is not installed")
        sys.exit(harness.SKIP)
    folder = make_tasks(harness.work_folder())
    options = {"options": "--progress none"}
    first = evaluate(folder, "one", options)
    runs = {
        "three ranks, batches": evaluate(
            folder,
            "three",
            {"launcher": "mpirun -n 3", "options": "--progress none --max-sequences 2 --budget 9"},
            ["--batch_size", "7"],
        ),
        "export and import": offline(folder),
    }
    wrong = ["%s: %s, expected %s" % (name, got, first) for name, got in runs.items() if got != first]
    hand = by_hand(folder)
    for task, name in (
        ("sums_choice", "acc,none"),
        ("sums_written", "exact_match,none"),
        ("sums_rolling", "bits_per_byte,none"),
    ):
        if abs(first[task][name] - hand[task]) > 1e-9:
            wrong.append("%s: %s, by hand %s" % (task, first[task], hand[task]))
    chat = evaluate(folder, "chat", options, ["--apply_chat_template"])
    if chat == first or not 0 <= chat["sums_choice"]["acc,none"] <= 1:
        wrong.append("the chat template changes nothing: %s" % chat)
    print("\n".join(wrong) or "lm_eval %s: all equal: %s" % (lm_eval.__version__, first))
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
