#!/usr/bin/env python3
"""Chat templates: what `lockstep render` makes of them, side by side with transformers.

Every template of fixtures/chat (and those of the demo model and of LOCKSTEP_MODELS) with every chat of cases.json, from
chat_template.jinja, from tokenizer_config.json as a text and as a list of named ones, and by --chat-template. A chat
that the reference refuses must be refused, all others must give its text. Then ids: a chat equals the same ids that the
reference's apply_chat_template makes, bit for bit, BOS included. Without transformers: skipped (77).
"""

import datetime
import json
import os
import pathlib
import shutil
import sys

import harness

CHATS = harness.FIXTURES / "chat"
DEMO = harness.FIXTURES.parent.parent / "configs" / "demo"
NOW = "2026-02-03T04:05:06"
TOKENS = {
    "bos_token": "<bos>",
    "eos_token": "<eos>",
    "pad_token": {
        "__type": "AddedToken",
        "content": "<pad>",
        "lstrip": False,
        "rstrip": False,
        "normalized": False,
        "special": True,
        "single_word": False,
    },
}


class FixedClock(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls.fromisoformat(NOW)


def reference():
    try:
        import transformers
        from transformers.utils import chat_template_utils
    except ImportError:
        print("SKIP: transformers is not installed")
        sys.exit(harness.SKIP)
    chat_template_utils.datetime = FixedClock
    return transformers


def all_templates():
    found = {path.stem: path.read_text(encoding="utf-8") for path in sorted(CHATS.glob("*.jinja"))}
    models = os.environ.get("LOCKSTEP_MODELS")
    folders = [DEMO, *(pathlib.Path(models).iterdir() if models else ())]
    for folder in folders:
        config = folder / "tokenizer_config.json"
        template = json.loads(config.read_text()).get("chat_template") if config.exists() else None
        if isinstance(template, str):
            found["real:" + folder.name] = template
    return found


def make_model(folder, template, place):
    """A folder with the demo's tokenizer and this template in one of the places where it may be."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(DEMO, folder)
    config = json.loads((DEMO / "tokenizer_config.json").read_text())
    config.pop("chat_template")
    config.update(TOKENS)
    if place == "file":
        (folder / "chat_template.jinja").write_text(template, encoding="utf-8", newline="")
    elif place == "text":
        config["chat_template"] = template
    elif place == "list":
        config["chat_template"] = [{"name": "other", "template": "no"}, {"name": "default", "template": template}]
    (folder / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    return folder


def in_parts(case):
    return any(isinstance(message["content"], list) for message in case["messages"])


def joined(case):
    flat = [
        {
            **m,
            "content": (
                m["content"] if isinstance(m["content"], str) else "\n".join(part["text"] for part in m["content"])
            ),
        }
        for m in case["messages"]
    ]
    return {**case, "messages": flat}


def expected_of(tokenizer, case, takes_parts):
    case = case if takes_parts or not in_parts(case) else joined(case)
    try:
        return tokenizer.apply_chat_template(
            case["messages"],
            tokenize=False,
            **case.get("variables", {}),
            add_generation_prompt=case.get("add_generation_prompt", True)
        )
    except Exception:  # the reference refuses it, by whatever error
        return None


def requests_of(cases):
    return [
        {
            "custom_id": "c%d" % i,
            "method": "POST",
            "url": "/v1/chat/completions",
            "body": {
                "messages": case["messages"],
                "chat_template_kwargs": case.get("variables", {}),
                "add_generation_prompt": case.get("add_generation_prompt", True),
                "temperature": 0,
                "max_tokens": 3,
            },
        }
        for i, case in enumerate(cases)
    ]


def rendered(folder, model, cases, *arguments):
    harness.write_requests(folder / "in.jsonl", requests_of(cases))
    result = harness.run(
        0,
        "render",
        "--model",
        model,
        "--input",
        folder / "in.jsonl",
        "--output",
        folder / "out.jsonl",
        "--chat-time",
        NOW,
        *arguments
    )
    if result.returncode not in (0, 10):
        sys.exit("render: %d %s" % (result.returncode, result.stderr))
    return [row["body"] for row in harness.rows(folder / "out.jsonl")]


def compare_texts(transformers, folder, cases):
    faults, compared, refused = [], 0, 0
    for name, template in all_templates().items():
        for place in ("file", "text", "list", "option"):
            model = make_model(folder / "model", template, place)
            tokenizer = transformers.AutoTokenizer.from_pretrained(model)
            extra = []
            if place == "option":
                (folder / "given.jinja").write_text(template, encoding="utf-8", newline="")
                tokenizer.chat_template, extra = template, ["--chat-template", folder / "given.jinja"]
            for i, body in enumerate(rendered(folder, model, cases, *extra)):
                expected = expected_of(tokenizer, cases[i], name == "gemma3-kind")
                got = body.get("rendered_prompt")
                compared += 1
                refused += expected is None
                if got != expected or (expected is None) != ("rendered_error" in body):
                    faults.append(
                        "%s from %s, chat %d:\n  expected %r\n  got      %r (%s)"
                        % (name, place, i, expected, got, body.get("rendered_error"))
                    )
    print("%d texts compared, %d of them refusals" % (compared, refused))
    return faults + ([] if refused and compared > 2 * refused else ["too few chats of one kind"])


def compare_ids(transformers, folder, cases):
    """The chat itself, the chat rendered ahead, and the reference's ids: the same rows of logits."""
    faults = []
    for name in ("llama3-kind", "chatml", "mistral1-kind"):
        model = make_model(folder / "model", (CHATS / (name + ".jinja")).read_text(encoding="utf-8"), "file")
        tokenizer = transformers.AutoTokenizer.from_pretrained(model)
        good = [case for case in cases[:4] if expected_of(tokenizer, case, False) is not None]
        ids = [
            tokenizer.apply_chat_template(
                case["messages"], return_dict=False, add_generation_prompt=case.get("add_generation_prompt", True)
            )
            for case in good
        ]
        rendered(folder, model, good)
        harness.write_requests(folder / "ids.jsonl", [{"tokens": list(map(int, one)), "max_tokens": 3} for one in ids])
        found = []
        for source in ("in.jsonl", "out.jsonl", "ids.jsonl"):
            harness.must(
                harness.run(
                    0,
                    "run",
                    "--model",
                    model,
                    "--input",
                    folder / source,
                    "--output",
                    folder / "rows.jsonl",
                    "--digest",
                    "all",
                    "--progress",
                    "none",
                )
            )
            found.append([row["lockstep"] for row in harness.rows(folder / "rows.jsonl")])
        if not found[0] == found[1] == found[2]:
            faults.append("%s: a chat, the rendered chat and the reference's ids differ:\n%s" % (name, found))
    return faults


def main():
    transformers = reference()
    cases = json.loads((CHATS / "cases.json").read_text(encoding="utf-8"))
    folder = harness.work_folder()
    faults = compare_texts(transformers, folder, cases) + compare_ids(transformers, folder, cases)
    print("\n".join(faults) or "transformers %s: all equal" % transformers.__version__)
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
