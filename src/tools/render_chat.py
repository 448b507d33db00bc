#!/usr/bin/env python3
"""Renders chats with a checkpoint's chat template, as Hugging Face's reference does.

    render_chat.py MODEL_DIR [TEMPLATE_FILE] < messages.json     prints the text, for people
    render_chat.py --serve                                       what lockstep runs; frames on stdin and stdout

The environment is the reference's: jinja2's immutable sandbox, trim_blocks and lstrip_blocks, break and continue, the
generation tag, a tojson that escapes no HTML, raise_exception, strftime_now, and the special tokens as variables. The
template is TEMPLATE_FILE, else chat_template.jinja (with additional_chat_templates/), else what tokenizer_config.json
says (a text, or a list of named ones of which "default" is taken), else chat_template.json.

A frame is a length (4 bytes, little-endian) and that many bytes of JSON. The first frame in is {"folder", "template"
or null, "now" (ISO time for strftime_now) or null}; the answer {"ready": true} or {"fatal": reason}. Every later frame
is {"messages", "add_generation_prompt", "variables"}; the answer {"text"} or {"error"}.
"""
import datetime
import json
import os
import pathlib
import struct
import sys

MAX_FRAME = 256 << 20
MAX_MEMORY = 8 << 30  # bytes of address space: a template must not take the node down
REASONING = ("reasoning_content", "thinking", "reasoning")


class Unusable(Exception):
    """There is nothing to render with: no jinja2, no template, a template that does not compile."""


def import_jinja():
    try:
        import jinja2
        import jinja2.ext
        import jinja2.sandbox
    except ImportError as reason:
        raise Unusable("chat templates need the Python package jinja2, which %s does not have (%s)" % (
            sys.executable, reason)) from reason
    numbers = tuple(int(part) for part in jinja2.__version__.split(".")[:2] if part.isdigit())
    if numbers < (3, 1):
        raise Unusable("chat templates need jinja2 3.1 or later, %s has %s" % (sys.executable, jinja2.__version__))
    return jinja2


# ---- the environment -----------------------------------------------------------------------------------------------

def to_json(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def make_environment(jinja2, now):
    class Generation(jinja2.ext.Extension):
        """{% generation %} marks what the model wrote; for the text it is only its contents."""
        tags = {"generation"}

        def parse(self, parser):
            line = next(parser.stream).lineno
            body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
            return jinja2.nodes.CallBlock(self.call_method("contents"), [], [], body).set_lineno(line)

        def contents(self, caller):
            return caller()

    class Namespace(jinja2.utils.Namespace):
        """Attributes whose names begin with an underscore are not a template's to set."""
        def __init__(*words, **attributes):
            jinja2.utils.Namespace.__init__(*words, **attributes)
            for name in dict(*words[1:], **attributes):
                refuse_name(name)

        def __setitem__(self, name, value):
            refuse_name(name)
            jinja2.utils.Namespace.__setitem__(self, name, value)

    class Dict:
        """What a template may ask of dict: no more of Python than this."""
        __call__ = staticmethod(dict)
        fromkeys = staticmethod(dict.fromkeys)

    def refuse_name(name):
        if isinstance(name, str) and name.startswith("_"):
            raise jinja2.exceptions.SecurityError("a chat template cannot store the name %r" % name)

    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def strftime_now(layout):
        return (now or datetime.datetime.now()).strftime(layout)

    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
    environment.filters["tojson"] = to_json
    environment.globals.update(raise_exception=raise_exception, strftime_now=strftime_now, namespace=Namespace,
                               dict=Dict())
    return environment


def loops_over_content(jinja2, environment, source):
    """True when the template goes through the parts of a message's content itself."""
    names = {"content"}

    def is_content(node):
        while isinstance(node, jinja2.nodes.Filter):
            node = node.node
        if isinstance(node, jinja2.nodes.Getattr):
            return node.attr == "content"
        if isinstance(node, jinja2.nodes.Getitem):
            return isinstance(node.arg, jinja2.nodes.Const) and node.arg.value == "content"
        return isinstance(node, jinja2.nodes.Name) and node.name in names
    tree = environment.parse(source)
    for node in tree.find_all(jinja2.nodes.Assign):
        if isinstance(node.target, jinja2.nodes.Name) and is_content(node.node):
            names.add(node.target.name)
    return any(is_content(node.iter) for node in tree.find_all(jinja2.nodes.For))


# ---- a checkpoint --------------------------------------------------------------------------------------------------

def read_json(path):
    if not path.exists():
        return {}
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as reason:
        raise Unusable("%s: %s" % (path, reason)) from reason
    return value if isinstance(value, dict) else {}


def special_tokens(folder, config):
    """{name: text} of bos_token, eos_token and the like."""
    found = {}
    for source in (read_json(folder / "special_tokens_map.json"), config.get("extra_special_tokens") or {}, config):
        for name, value in source.items() if isinstance(source, dict) else ():
            if isinstance(value, dict):
                value = value.get("content")
            if name.endswith("_token") and isinstance(value, str):
                found[name] = value
    return found


def default_of(templates, where):
    if isinstance(templates, list):
        templates = {entry.get("name"): entry.get("template") for entry in templates if isinstance(entry, dict)}
    if isinstance(templates, dict):
        if not isinstance(templates.get("default"), str):
            raise Unusable("%s has the chat templates %s and none called default; --chat-template FILE chooses one" % (
                where, ", ".join(sorted(map(str, templates)))))
        return templates["default"]
    return templates if isinstance(templates, str) else None


def find_template(folder, file, config):
    """(text, where it is from)."""
    if file:
        return pathlib.Path(file).read_text(encoding="utf-8"), str(file)
    if (folder / "chat_template.jinja").exists():
        return (folder / "chat_template.jinja").read_text(encoding="utf-8"), "chat_template.jinja"
    for where, source in (("tokenizer_config.json", config),
                          ("chat_template.json", read_json(folder / "chat_template.json"))):
        text = default_of(source.get("chat_template"), where)
        if text is not None:
            return text, where
    named = sorted((folder / "additional_chat_templates").glob("*.jinja"))
    if named:
        return default_of({path.stem: path.read_text(encoding="utf-8") for path in named}, "additional_chat_templates")
    raise Unusable("%s has no chat template; --chat-template FILE gives one" % folder)


class Renderer:
    """A checkpoint's template, compiled."""

    def __init__(self, folder, file=None, now=None):
        jinja2 = import_jinja()
        folder = pathlib.Path(folder)
        try:
            config = read_json(folder / "tokenizer_config.json")
            source, self.where = find_template(folder, file, config)
            self.source, self.special = source, special_tokens(folder, config)
            environment = make_environment(jinja2, datetime.datetime.fromisoformat(now) if now else None)
            self.template = environment.from_string(source)
            self.takes_parts = loops_over_content(jinja2, environment, source)
        except (OSError, UnicodeDecodeError) as reason:
            raise Unusable("the chat template cannot be read: %s" % reason) from reason
        except jinja2.exceptions.TemplateError as reason:
            raise Unusable("%s: the chat template does not compile: %s" % (self.where, reason)) from reason

    def prepare(self, message):
        """As the reference does: no keys without a value, reasoning under all its names. Texts in parts are joined by
        line ends for a template that knows whole texts only."""
        message = {key: value for key, value in message.items() if value is not None}
        thought = next((message[key] for key in REASONING if key in message), None)
        if thought is not None:
            message = {"thinking": thought, **message, "reasoning_content": thought}
        parts = message.get("content")
        if isinstance(parts, list) and not self.takes_parts:
            message["content"] = "\n".join(part["text"] for part in parts)
        return message

    def render(self, messages, add_generation_prompt=True, variables=None):
        named = {"tools": None, "documents": None, **self.special, **(variables or {})}
        named.update(messages=[self.prepare(message) for message in messages],
                     add_generation_prompt=add_generation_prompt)
        return self.template.render(**named)


# ---- frames --------------------------------------------------------------------------------------------------------

def read_frame(source):
    """The next frame's value; None at the end."""
    head = source.read(4)
    if len(head) < 4:
        return None
    (size,) = struct.unpack("<I", head)
    body = source.read(size) if size <= MAX_FRAME else b""
    return json.loads(body) if len(body) == size else None


def write_frame(sink, value):
    body = json.dumps(value, ensure_ascii=False).encode("utf-8")
    sink.write(struct.pack("<I", len(body)) + body)
    sink.flush()


def one_line(reason):
    text = " ".join(str(reason).split()) or type(reason).__name__
    return text[:600].encode("utf-8", "replace").decode("utf-8")


def answer(renderer, request):
    try:
        text = renderer.render(request["messages"], request["add_generation_prompt"], request["variables"])
        text.encode("utf-8")
        return {"text": text}
    except Exception as reason:  # a template may raise anything, and the next request must not suffer
        return {"error": one_line(reason)}


def serve():
    source, sink = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what anything prints must not come between frames
    try:
        import resource
        resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, MAX_MEMORY))
    except (ImportError, ValueError, OSError):
        pass
    setting = read_frame(source)
    if setting is None:
        return
    try:
        renderer = Renderer(setting["folder"], setting["template"], setting["now"])
    except Exception as reason:  # whatever it is, it is the answer to every request
        write_frame(sink, {"fatal": one_line(reason)})
        return
    write_frame(sink, {"ready": True})
    while (request := read_frame(source)) is not None:
        write_frame(sink, answer(renderer, request))


def main():
    if sys.argv[1:] == ["--serve"]:
        serve()
    elif len(sys.argv) in (2, 3) and not sys.argv[1].startswith("-"):
        try:
            print(Renderer(*sys.argv[1:]).render(json.load(sys.stdin)), end="")
        except Unusable as reason:
            sys.exit(str(reason))
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
