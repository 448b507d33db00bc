#!/usr/bin/env python3
"""The official openai package's types take every row: completions and chats, with and without log-probabilities,
scores and error rows. Strictly validated, not only constructed. Without the package: skipped (77).
"""

import json
import sys

import harness

ENVELOPE = {"id", "custom_id", "response", "error"}


def requests():
    def completion(identity, **fields):
        return {
            "custom_id": identity,
            "method": "POST",
            "url": "/v1/completions",
            "body": {"model": "demo", "prompt": "12+9=", "max_tokens": 6, **fields},
        }

    def chat(identity, **fields):
        return {
            "custom_id": identity,
            "method": "POST",
            "url": "/v1/chat/completions",
            "body": {
                "model": "demo",
                "messages": [{"role": "user", "content": "12+9= \u00fc"}],
                "max_tokens": 6,
                **fields,
            },
        }

    return [
        completion("a"),
        completion("b", logprobs=3),
        completion("c", n=2, stop=["1"], seed=4, logprobs=0),
        completion("d", prompt=["x", "y"]),
        completion("e", max_tokens=0),
        completion("f", prompt=[1, 2, 3], ignore_eos=True),
        chat("g"),
        chat("h", logprobs=True),
        chat("i", logprobs=True, top_logprobs=5, n=3, temperature=1.5),
        chat("j", ignore_eos=True, logprobs=True, top_logprobs=20, temperature=2, max_tokens=60),
        chat("k", tools=[{}]),
        completion("l", prompt=""),
        {"custom_id": "m"},
        completion("n", prompt=[99999]),
        {"id": "o", "request_type": "loglikelihood", "context": "12+9=", "continuation": "21", "logprobs": 2},
        {"id": "p", "request_type": "loglikelihood", "context": "12+9=", "continuation": "21"},
        {"id": "q", "request_type": "loglikelihood_rolling", "text": "The river was cold.", "logprobs": 0},
        {"id": "r", "request_type": "generate_until", "context": "12+9=", "gen_kwargs": {"until": ["\n"]}},
    ]


def check(row, completion_type, chat_type):
    assert ENVELOPE <= set(row), "fields %s" % sorted(row)
    assert isinstance(row["id"], str) and row["id"] and isinstance(row["custom_id"], str)
    if row["error"]:
        assert row["response"] is None and row["error"]["code"] and row["error"]["message"]
        return "error"
    response = row["response"]
    assert response["status_code"] == 200 and isinstance(response["request_id"], str)
    kind = chat_type if response["body"]["object"] == "chat.completion" else completion_type
    parsed = kind.model_validate(response["body"], strict=True)
    assert parsed.usage.total_tokens == parsed.usage.prompt_tokens + parsed.usage.completion_tokens
    assert parsed.choices and all(c.finish_reason in ("stop", "length") for c in parsed.choices)
    again = json.loads(parsed.model_dump_json(exclude_unset=True))
    assert again == response["body"], "the types change the row"
    return parsed.object


def main():
    try:
        from openai.types import Completion
        from openai.types.chat import ChatCompletion
    except ImportError:
        print("SKIP: openai is not installed")
        sys.exit(harness.SKIP)
    folder = harness.work_folder()
    harness.write_requests(folder / "in.jsonl", requests())
    harness.must(
        harness.run(
            2,
            "run",
            "--model",
            "demo",
            "--input",
            folder / "in.jsonl",
            "--output",
            folder / "out.jsonl",
            "--progress",
            "none",
        ),
        10,
    )
    seen = {}
    for row in harness.rows(folder / "out.jsonl"):
        try:
            kind = check(row, Completion, ChatCompletion)
        except Exception as reason:
            sys.exit("%s: %s\n%s" % (row["custom_id"], reason, json.dumps(row)))
        seen[kind] = seen.get(kind, 0) + 1
    print(seen)
    sys.exit(0 if seen == {"text_completion": 11, "chat.completion": 4, "error": 3} else 1)


if __name__ == "__main__":
    main()
