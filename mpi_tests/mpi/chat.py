#!/usr/bin/env python3
"""Chats through the real binary: what is refused and by what name, what a missing or dying Python costs, and that
nothing stays behind. The text of templates is templates.py's business. LOCKSTEP_BIN: the binary.
"""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

import harness

DEMO = harness.FIXTURES.parent.parent / "configs" / "demo"
TOOLS = harness.FIXTURES.parent.parent / "src" / "tools"
FAULTS = []
HELLO = [{"role": "user", "content": "12+9="}]
# A Python that dies, sleeps or has no jinja2 when told to, in front of the real one.
FAKE = """#!%s
import os, sys, time
sys.argv = sys.argv[1:]
sys.path.insert(0, os.path.dirname(sys.argv[0]))
import render_chat
real = render_chat.Renderer.render
def render(self, messages, *words):
    if messages[-1]["content"] == "die":
        os.kill(os.getpid(), 9)
    if messages[-1]["content"] == "sleep":
        time.sleep(600)
    return real(self, messages, *words)
render_chat.Renderer.render = render
if os.path.exists(__file__ + ".no-jinja"):
    sys.modules["jinja2"] = None
render_chat.serve()
"""


def say(ok, text):
    if not ok:
        FAULTS.append(text)
        print("WRONG: " + text, flush=True)


def line(identity, **body):
    return {
        "custom_id": identity,
        "method": "POST",
        "url": "/v1/chat/completions",
        "body": {"messages": HELLO, "temperature": 0, "max_tokens": 4, **body},
    }


def run(folder, requests, *arguments, ranks=0, code=0, env=None, model="demo"):
    harness.write_requests(folder / "in.jsonl", requests)
    result = harness.run(
        ranks,
        "run",
        "--model",
        model,
        "--input",
        folder / "in.jsonl",
        "--output",
        folder / "out.jsonl",
        "--progress",
        "none",
        "--fresh",
        *arguments,
        env=env
    )
    harness.must(result, code)
    return harness.rows(folder / "out.jsonl")


def fake_python(folder):
    path = folder / "bin" / "python3"
    path.parent.mkdir()
    path.write_text(FAKE % sys.executable, encoding="utf-8")
    path.chmod(0o755)
    return path, {"PATH": "%s:%s" % (path.parent, os.environ["PATH"])}


def processes_with(text):
    """Ids of the processes whose command line holds this text."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and text.encode() in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
        except OSError:
            pass
    return found


def wait_until_gone(text, seconds):
    end = time.monotonic() + seconds
    while processes_with(text) and time.monotonic() < end:
        time.sleep(0.1)
    return not processes_with(text)


# ---- requests ------------------------------------------------------------------------------------------------------


def check_fields():
    """Every refusal names its field; what has no effect is accepted and changes nothing."""
    image = [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]
    refused = [
        ({"tools": [{"type": "function"}]}, "tools"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"modalities": ["audio"]}, "modalities"),
        ({"audio": {}}, "audio"),
        ({"prediction": {}}, "prediction"),
        ({"reasoning_effort": "low"}, "reasoning_effort"),
        ({"web_search_options": {}}, "web_search_options"),
        ({"messages": image}, "messages[0].content[0]"),
        ({"messages": []}, "messages"),
        ({"messages": "x"}, "messages"),
        ({"messages": [1]}, "messages[0]"),
        ({"messages": [{"content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user"}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content"),
        ({"messages": HELLO + [{"role": "tool", "content": "x"}]}, "messages[1].role tool"),
        ({"messages": [{"role": "assistant", "content": "x", "tool_calls": [{}]}]}, "messages[0].tool_calls"),
        ({"top_logprobs": 2}, "top_logprobs"),
        ({"logprobs": 2}, "logprobs"),
        ({"logprobs": True, "top_logprobs": 21}, "top"),
        ({"max_completion_tokens": 5}, "max_completion_tokens"),
        ({"prompt": "x"}, "prompt"),
        ({"echo": True}, "echo"),
        ({"chat_template": "x"}, "chat_template"),
        ({"chat_template_kwargs": 1}, "chat_template_kwargs"),
        ({"continue_final_message": True}, "continue_final_message"),
        ({"n": 0}, "n is 0"),
        ({"stream": 1}, "stream"),
    ]
    accepted = {
        "tools": [],
        "tool_choice": "none",
        "response_format": {"type": "text"},
        "modalities": ["text"],
        "user": "u",
        "metadata": {"a": "b"},
        "stream": True,
        "store": False,
        "service_tier": "auto",
        "seed": 5,
        "parallel_tool_calls": True,
        "max_completion_tokens": 4,
        "functions": None,
        "n": 1,
        "logprobs": None,
    }
    folder = harness.work_folder()
    requests = [line("r%d" % i, **body) for i, (body, _) in enumerate(refused)]
    rows = run(folder, [line("plain"), line("all", **accepted), *requests], code=10)
    say(
        rows[0]["response"]["body"]["choices"] == rows[1]["response"]["body"]["choices"],
        "accepted fields: %s" % rows[1],
    )
    for (body, name), row in zip(refused, rows[2:]):
        error = row["error"] or {"message": "no error"}
        say(name in error["message"] and row["response"] is None, "%s: %s" % (body, error))


def check_shape():
    """One chat in every spelling gives one answer; the completion of its text has the same tokens and scores."""
    folder = harness.work_folder()
    parts = [{"role": "user", "content": [{"type": "text", "text": "12+9="}]}]
    text = "<bos>Q: 12+9=\nA:"
    rows = run(
        folder,
        [
            line("a", logprobs=True, top_logprobs=3),
            line("b", messages=parts, logprobs=True, top_logprobs=3),
            {"id": "c", "messages": HELLO, "max_tokens": 4, "logprobs": True, "top_logprobs": 3},
            {"id": "d", "prompt": text, "max_tokens": 4, "logprobs": 3, "add_special_tokens": False},
            line("e", n=2, temperature=1, seed=7),
        ],
    )
    bodies = [row["response"]["body"] for row in rows]
    first = bodies[0]["choices"][0]
    say(first == bodies[1]["choices"][0] == bodies[2]["choices"][0], "three spellings of one chat differ")
    say(
        first["message"]["role"] == "assistant" and first["message"]["content"] == bodies[3]["choices"][0]["text"],
        "the completion says %s" % bodies[3],
    )
    content, flat = first["logprobs"]["content"], bodies[3]["choices"][0]["logprobs"]
    say(
        [t["logprob"] for t in content] == flat["token_logprobs"] and [t["token"] for t in content] == flat["tokens"],
        "log-probabilities of chat and completion differ",
    )
    say(
        all(len(t["top_logprobs"]) == 3 and bytes(t["bytes"]).decode() == t["token"] for t in content),
        "content: %s" % content,
    )
    say(bodies[0]["object"] == "chat.completion" and bodies[0]["id"].startswith("chatcmpl-"), "object and id")
    say(
        len(bodies[4]["choices"]) == 2 and rows[0]["lockstep"]["token_ids"] == rows[3]["lockstep"]["token_ids"], "n = 2"
    )
    rows2 = run(folder, [line("a"), line("b", n=3, temperature=1)], ranks=2)
    rows3 = run(folder, [line("a"), line("b", n=3, temperature=1)], ranks=3)
    say(rows2 == rows3, "chats depend on the number of ranks")


def check_limit():
    """A chat that names no limit goes on to the end of the context."""
    folder = harness.work_folder()
    request = line("a", ignore_eos=True)
    del request["body"]["max_tokens"]
    usage = run(folder, [request], "--context", 40)[0]["response"]["body"]["usage"]
    say(usage["total_tokens"] == 41, "prompt and answer in a context of 40: %s" % usage)
    usage = run(folder, [request], "--context", 40, "--max-tokens", 3)[0]["response"]["body"]["usage"]
    say(usage["completion_tokens"] == 3, "--max-tokens 3: %s" % usage)


# ---- Python --------------------------------------------------------------------------------------------------------


def check_missing():
    """Without python3, without jinja2, without a template: each chat says what is missing, other lines are done."""
    folder = harness.work_folder()
    requests = [line("a"), {"id": "b", "prompt": "x", "max_tokens": 2}, line("c")]
    (folder / "empty").mkdir()
    for tool in ("mpirun", "orted", "env", "ssh"):
        if shutil.which(tool):
            (folder / "empty" / tool).symlink_to(shutil.which(tool))
    path, env = fake_python(folder)
    pathlib.Path(str(path) + ".no-jinja").touch()
    bare = folder / "bare model"
    shutil.copytree(DEMO, bare)
    config = json.loads((bare / "tokenizer_config.json").read_text())
    (bare / "tokenizer_config.json").write_text(json.dumps({k: v for k, v in config.items() if k != "chat_template"}))
    broken = folder / "broken.jinja"
    broken.write_text("{% for %}")
    for model, environment, words, arguments in (
        ("demo", {"PATH": str(folder / "empty")}, ["python3 is not on the PATH"], []),
        ("demo", env, ["jinja2"], []),
        (bare, {}, ["no chat template", "--chat-template"], []),
        ("demo", {}, ["does not compile"], ["--chat-template", broken]),
    ):
        for ranks in (0, 2):
            began = time.monotonic()
            rows = run(folder, requests, *arguments, ranks=ranks, code=10, env=environment, model=model)
            say(time.monotonic() - began < 30, "what is missing takes long")
            say(
                rows[1]["error"] is None
                and all(
                    rows[i]["error"]["code"] == "chat_unavailable"
                    and all(word in rows[i]["error"]["message"] for word in words)
                    for i in (0, 2)
                ),
                "%s: %s" % (words, rows),
            )
    result = harness.run(
        0, "render", "--model", bare, "--input", folder / "in.jsonl", "--output", folder / "ahead.jsonl"
    )
    say(
        result.returncode == 3 and "no chat template" in result.stderr and not (folder / "ahead.jsonl").exists(),
        "render without a template: %d %s" % (result.returncode, result.stderr),
    )
    result = harness.run(
        0,
        "run",
        "--model",
        "demo",
        "--input",
        folder / "in.jsonl",
        "--output",
        folder / "x.jsonl",
        "--chat-template",
        folder / "nothing.jinja",
    )
    say(result.returncode == 2 and "nothing.jinja" in result.stderr, "a template file that is not there: %s" % result)
    result = harness.run(
        0,
        "run",
        "--model",
        "demo",
        "--input",
        folder / "in.jsonl",
        "--output",
        folder / "x.jsonl",
        "--chat-time",
        "noon",
    )
    say(result.returncode == 2 and "--chat-time" in result.stderr, "a time that is none: %s" % result)


def check_refusal():
    folder = harness.work_folder()
    template = folder / "t.jinja"
    template.write_text(
        "{% if messages|length > 1 %}{{ raise_exception('one at a time') }}{% endif %}{{ messages[0].content }}"
    )
    rows = run(folder, [line("a"), line("b", messages=HELLO * 2), line("c")], "--chat-template", template, code=10)
    say(
        rows[1]["error"]["code"] == "chat_template_error"
        and "one at a time" in rows[1]["error"]["message"]
        and rows[0]["response"]["body"]["choices"] == rows[2]["response"]["body"]["choices"],
        "%s" % rows,
    )


def check_names():
    """What the reference's environment has beside jinja2's own is there: a template may use any of it."""
    folder = harness.work_folder()
    template = folder / "t.jinja"
    template.write_text(
        "{% set n = namespace(x=dict(a=1)) %}{{ n.x.a }}{{ dict.fromkeys(['b'], 2).b }}{{ {'c': 3} | tojson }}"
    )
    rows = run(folder, [line("a"), {"id": "b", "prompt": '12{"c": 3}', "add_special_tokens": False,
                                    "max_tokens": 4}], "--chat-template", template)
    say(rows[0]["lockstep"] == rows[1]["lockstep"], "names of a template: %s" % rows)


def check_death():
    """A Python that dies or does not answer costs one chat; the next has a new one; nothing is left behind."""
    folder = harness.work_folder()
    path, env = fake_python(folder)
    requests = [
        line("a"),
        line("b", messages=[{"role": "user", "content": "die"}]),
        line("c"),
        line("d", messages=[{"role": "user", "content": "sleep"}]),
        line("e"),
    ]
    rows = run(folder, requests, code=10, env=env)
    good = [rows[i]["response"]["body"]["choices"] for i in (0, 2, 4)]
    say(good[0] == good[1] == good[2], "chats behind a death: %s" % rows)
    say("killed by signal 9" in rows[1]["error"]["message"] and "in time" in rows[3]["error"]["message"], "%s" % rows)
    say(wait_until_gone(str(path), 5), "Python is left behind: %s" % processes_with(str(path)))


def check_killed():
    """kill -9 and SIGTERM of lockstep, with Python up: nothing of it stays."""
    for number in (signal.SIGKILL, signal.SIGTERM):
        folder = harness.work_folder()
        path, env = fake_python(folder)
        harness.write_requests(
            folder / "in.jsonl", [line("a%d" % i, max_tokens=600, ignore_eos=True) for i in range(64)]
        )
        process = subprocess.Popen(
            [
                harness.binary(),
                "run",
                "--model",
                "demo",
                "--input",
                str(folder / "in.jsonl"),
                "--output",
                str(folder / "out.jsonl"),
                "--progress",
                "none",
            ],
            env={**os.environ, **env},
            stdin=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        end = time.monotonic() + 30
        while not processes_with(str(path)) and time.monotonic() < end:
            time.sleep(0.05)
        say(processes_with(str(path)), "Python did not come up")
        process.send_signal(number)
        process.wait(timeout=60)
        say(wait_until_gone(str(path), 10), "after signal %d Python stays" % number)


def check_render():
    """Rendered ahead: the same answers without Python, refusals keep their reason, other lines their bytes."""
    folder = harness.work_folder()
    template = folder / "t.jinja"
    template.write_text(
        "{{ bos_token }}{% for m in messages %}{% if m.role == 'x' %}{{ raise_exception('no x') }}"
        "{% endif %}{{ m.content }}{% endfor %}{{ strftime_now('%Y') }}"
    )
    requests = [
        line("a", logprobs=True),
        line("b", messages=[{"role": "x", "content": "y"}]),
        line("c", n=2, temperature=1),
        {"id": "d", "messages": HELLO},
        line("e", tools=[1]),
        {"prompt": "x", "max_tokens": 2},
    ]
    common = ["--chat-template", template, "--chat-time", "2031-05-06"]
    direct = run(folder, requests, *common, code=10)
    odd = '  {"prompt" :"x","max_tokens":2.0}\n{broken\n\n'
    with open(folder / "in.jsonl", "a", encoding="utf-8") as out:
        out.write(odd)
    result = harness.run(
        0, "render", "--model", "demo", "--input", folder / "in.jsonl", "--output", folder / "ahead.jsonl", *common
    )
    say(
        result.returncode == 10 and "4 chats rendered, 1 that cannot be" in result.stdout and "no x" in result.stderr,
        "render: %d %s %s" % (result.returncode, result.stdout, result.stderr),
    )
    ahead = (folder / "ahead.jsonl").read_text(encoding="utf-8")
    say(
        ahead.endswith(odd) and json.loads(ahead.split("\n")[0])["body"]["rendered_prompt"] == "<bos>12+9=2031",
        "%s" % ahead,
    )
    again = run(
        folder,
        [json.loads(one) for one in ahead.split("\n")[: len(requests)]],
        code=10,
        env={"PATH": str(folder / "nowhere")},
    )
    for a, b in zip(direct, again):
        strip = (
            lambda row: row["error"]
            and row["error"]["message"].split(": ")[-1]
            or (row["response"]["body"]["choices"], row["response"]["body"]["usage"], row["lockstep"])
        )
        say(strip(a) == strip(b), "rendered ahead: %s\ndirectly: %s" % (b, a))


def main():
    try:
        import jinja2  # noqa: F401  what renders the templates of these tests
    except ImportError:
        print("SKIP: jinja2 is not installed")
        sys.exit(harness.SKIP)
    checks = {name[6:]: check for name, check in globals().items() if name.startswith("check_")}
    for name in sys.argv[1:] or checks:
        began = time.monotonic()
        checks[name]()
        print("%s: %.1f s" % (name, time.monotonic() - began), flush=True)
    print("%d wrong" % len(FAULTS))
    sys.exit(1 if FAULTS else 0)


if __name__ == "__main__":
    main()
