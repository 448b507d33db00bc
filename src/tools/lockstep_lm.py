#!/usr/bin/env python3
"""Lets lm-evaluation-harness measure a model with lockstep.

    lockstep_lm.py run --model lockstep --model_args model=DIR,launcher="mpirun -n 2" --tasks TASK ...

is lm_eval with one more model, "lockstep"; `import lockstep_lm` does the same for a program. The model's arguments:

    model            checkpoint folder, or demo
    lockstep         the program (default: lockstep on the PATH)
    launcher         what stands in front of it, as in "srun -n 4 --mpi=pmix" (default: nothing, one process)
    options          more options of lockstep, as in "--dtype f32 --threads 4"
    folder           where requests and answers lie (default: a temporary folder that is removed)
    mode             run; or export, which only writes the requests; or import, which only reads the answers
    max_length, max_gen_toks, add_bos_token, prefix_token_id, chat_template    as in the harness's own models

Without a network between here and the cluster: mode=export writes FOLDER/NAME.jsonl, `lockstep run --input NAME.jsonl
--output NAME.out.jsonl` answers them there, and the same lm_eval command with mode=import reads the answers. The scores
of an export are placeholders.

batch_size means nothing here: lockstep's answers do not depend on any batch.
"""
import hashlib
import json
import math
import pathlib
import shlex
import subprocess
import sys
import tempfile

from lm_eval.api.model import LM
from lm_eval.api.registry import register_model

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import render_chat  # noqa: E402  (it lies beside this file)

PLACEHOLDER = {"loglikelihood": (0.0, False), "loglikelihood_rolling": 0.0, "generate_until": ""}
TAG = "\uf8ffEND OF THE LAST MESSAGE\uf8ff"


class LockstepError(RuntimeError):
    """lockstep could not answer."""


def as_flag(value):
    return value if isinstance(value, bool) or value is None else str(value).lower() in ("1", "true", "yes")


@register_model("lockstep")
class LockstepLM(LM):
    def __init__(self, model, lockstep="lockstep", launcher="", options="", folder=None, mode="run", max_length=None,
                 max_gen_toks=256, add_bos_token=None, prefix_token_id=None, chat_template=None, **ignored):
        super().__init__()
        if mode not in ("run", "export", "import"):
            raise ValueError("mode is %r, expected run, export or import" % mode)
        if mode != "run" and not folder:
            raise ValueError("mode=%s needs folder=DIR" % mode)
        self.model, self.mode = str(model), mode
        self.command = [*shlex.split(str(launcher)), str(lockstep), "run", "--model", self.model]
        self.options = shlex.split(str(options))
        if max_length:
            self.options += ["--context", str(max_length)]
        self.max_gen_toks = int(max_gen_toks)
        self.extra = {}
        if add_bos_token is not None:
            self.extra["add_bos_token"] = as_flag(add_bos_token)
        if prefix_token_id is not None:
            self.extra["prefix_token_id"] = int(prefix_token_id)
        self.template_file, self.renderer = chat_template, None
        self.temporary = None if folder else tempfile.TemporaryDirectory(prefix="lockstep-lm-")
        self.folder = pathlib.Path(folder or self.temporary.name)
        self.folder.mkdir(parents=True, exist_ok=True)

    # ---- requests and answers --------------------------------------------------------------------------------------

    def answers(self, kind, lines):
        """The rows of the requests, in their order; None for an export."""
        text = "".join(json.dumps({"custom_id": str(i), "request_type": kind, **line, **self.extra}) + "\n"
                       for i, line in enumerate(lines))
        name = "%s-%s" % (kind, hashlib.blake2b(text.encode(), digest_size=8).hexdigest())
        source, out = self.folder / (name + ".jsonl"), self.folder / (name + ".out.jsonl")
        if self.mode != "import":
            source.write_text(text, encoding="utf-8")
        if self.mode == "export":
            print("lockstep: wrote %s; answer it into %s" % (source, out.name), file=sys.stderr)
            return None
        if self.mode == "run":
            self.run(source, out)
        if not out.exists():
            raise LockstepError("%s is not there: these requests were not answered yet" % out)
        return self.read(out, len(lines))

    def run(self, source, out):
        command = [*self.command, "--input", str(source), "--output", str(out), *self.options]
        code = subprocess.run(command, stdin=subprocess.DEVNULL, check=False).returncode
        if code not in (0, 10):  # 10: error rows, which say more than the code
            raise LockstepError("exit code %d: %s" % (code, shlex.join(command)))

    @staticmethod
    def read(out, expected):
        rows = [None] * expected
        with open(out, encoding="utf-8") as lines:
            for line in lines:
                row = json.loads(line)
                if row["error"]:
                    raise LockstepError("request %s of %s: %s" % (row["custom_id"], out, row["error"]["message"]))
                rows[int(row["custom_id"])] = row["response"]["body"]
        if None in rows:
            raise LockstepError("%s has no answer to request %d" % (out, rows.index(None)))
        return rows

    def finish(self, kind, requests, places, bodies, value):
        """Puts the answers where their requests stood."""
        results = [PLACEHOLDER[kind]] * len(requests)
        for place, body in zip(places, bodies or ()):
            results[place] = value(body)
        if bodies is not None:
            for request, result in zip(requests, results):
                self.cache_hook.add_partial(kind, request.args, result)
        return results

    # ---- what the harness asks -------------------------------------------------------------------------------------

    def loglikelihood(self, requests, disable_tqdm=False):
        lines = [{"context": r.args[0], "continuation": r.args[1]} for r in requests]
        bodies = self.answers("loglikelihood", lines) if lines else []
        return self.finish("loglikelihood", requests, range(len(lines)), bodies,
                           lambda body: (number(body["loglikelihood"]), body["is_greedy"]))

    def loglikelihood_rolling(self, requests, disable_tqdm=False):
        places = [i for i, r in enumerate(requests) if r.args[0]]  # an empty text has probability one
        lines = [{"text": requests[i].args[0]} for i in places]
        bodies = self.answers("loglikelihood_rolling", lines) if lines else []
        return self.finish("loglikelihood_rolling", requests, places, bodies,
                           lambda body: number(body["loglikelihood"]))

    def generate_until(self, requests, disable_tqdm=False):
        lines = [{"context": r.args[0], "gen_kwargs": self.limited(r.args[1])} for r in requests]
        bodies = self.answers("generate_until", lines) if lines else []
        return self.finish("generate_until", requests, range(len(lines)), bodies,
                           lambda body: body["choices"][0]["text"])

    def limited(self, kwargs):
        named = {"max_gen_toks", "max_new_tokens", "max_tokens", "max_completion_tokens"}
        return kwargs if named & set(kwargs) else {**kwargs, "max_gen_toks": self.max_gen_toks}

    # ---- chats -----------------------------------------------------------------------------------------------------

    @property
    def tokenizer_name(self):
        return self.model.replace("/", "__")

    def chat_template(self, chat_template=False):
        """What the harness notes beside its results."""
        return self.rendering().source if chat_template else None

    def rendering(self):
        if self.renderer is None:
            here = pathlib.Path(__file__).resolve().parent
            demo = next((p for p in (here.parent.parent / "configs" / "demo", here / "demo") if p.is_dir()), "demo")
            self.renderer = render_chat.Renderer(demo if self.model == "demo" else self.model, self.template_file)
        return self.renderer

    def apply_chat_template(self, chat_history, add_generation_prompt=True):
        renderer = self.rendering()
        try:
            return open_ended(renderer, chat_history, add_generation_prompt)
        except Exception:  # a template that knows no system role
            users = [message for message in chat_history if message["role"] != "system"]
            if len(users) == len(chat_history):
                raise
            return open_ended(renderer, users, add_generation_prompt)


def open_ended(renderer, history, add_generation_prompt):
    """The rendered chat; without the prompt for an answer it ends with the last message, to be continued."""
    if add_generation_prompt:
        return renderer.render(history)
    last = {**history[-1], "content": history[-1]["content"] + TAG}
    text = renderer.render([*history[:-1], last], False)
    return text[:text.rindex(TAG)]


def number(value):
    return -math.inf if value == -9999.0 else value


def main():
    from lm_eval.__main__ import cli_evaluate
    cli_evaluate()


if __name__ == "__main__":
    # one module, not a second copy of it under another name
    sys.modules["lockstep_lm"] = sys.modules["__main__"]
    main()
