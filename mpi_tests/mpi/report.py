#!/usr/bin/env python3
"""The page of a sweep: what parity writes and `lockstep report` makes again, that it stands alone, and that no text of
a sweep becomes markup.

    report.py [browser]      (LOCKSTEP_BIN; browser: open it in headless Chromium at three widths, skipped without one)
"""
import html.parser
import json
import re
import shutil
import subprocess
import sys

import harness

FAULTS = []
HOSTILE = "</script><b id=planted>&\"'<!--"


def say(good, what):
    if not good:
        FAULTS.append(what)
        print("WRONG: %s" % what, flush=True)


class Page(html.parser.HTMLParser):
    """The tags of a page, the words of its attributes, and its data."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.links, self.data, self.inside = [], [], "", False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.tags.append(tag)
        self.links += [v for k, v in attrs if k in ("src", "href")]
        self.inside = attributes.get("type") == "application/json"

    def handle_endtag(self, tag):
        self.inside = False

    def handle_data(self, data):
        if self.inside:
            self.data += data


def sweep():
    """An equal arm, a differing one, and one that fails; the second request has a name that would be markup."""
    folder = harness.work_folder()
    harness.write_requests(folder / "in.jsonl", [
        {"id": "first", "tokens": list(range(5, 40)), "max_tokens": 4},
        {"id": HOSTILE, "tokens": list(range(9, 60)), "max_tokens": 8}])
    (folder / "sweep.yaml").write_text("""
name: three arms
prompts: %s
output: %s
mode: both
defaults: {model: %s, threads: 1}
reference: {name: own}
arms:
  - {name: small steps, budget: 7}
  - {name: float32, dtype: f32}
  - {name: "gone %s", binary: "/nowhere/lockstep"}
""" % (json.dumps(str(folder / "in.jsonl")), json.dumps(str(folder / "sweep")),
       json.dumps(str(harness.FIXTURES / "families" / "llama-bf16")), HOSTILE.replace('"', '\\"')))
    harness.must(harness.run(0, "parity", "--config", folder / "sweep.yaml"), 11)
    return folder / "sweep"


def check_alone(text, what):
    page = Page(text)
    say(page.tags.count("script") == 2 and "b" not in page.tags and "img" not in page.tags, "%s: tags %s" % (
        what, [t for t in page.tags if t in ("script", "b", "img")]))
    say(page.links == ["data:,"], "%s: links %s" % (what, page.links))
    addresses = set(re.findall(r"https?://[^\s\"'`)]+", text)) - {"http://www.w3.org/2000/svg"}
    say(not addresses, "%s: addresses %s" % (what, addresses))
    return json.loads(page.data)


def check_page():
    folder = sweep()
    report = json.loads((folder / "report.json").read_text())
    data = check_alone((folder / "report.html").read_text(), "of parity")
    say(data["report"] == report and data["timings"] == json.loads((folder / "timings.json").read_text()),
        "the page has other numbers than the files")
    say(set(data["manifests"]) == {"arms/%03d/%s/manifest.json" % (i, p) for i in range(3) for p in ("free", "forced")},
        "manifests %s" % sorted(data["manifests"]))
    located = json.loads((folder / "locate" / "002.json").read_text())
    say(located["layer"] == 0 and located["growth"] and data["locate"] == [None, None, located, None],
        "locations %s" % data["locate"])
    (folder / "locate" / "002.json").write_text(json.dumps({"equal": False, "layer": 3}))
    other = folder.parent / "other.html"
    harness.must(harness.run(0, "report", folder, "--output", other))
    data = check_alone(other.read_text(), "made again")
    say(data["locate"][2] == {"equal": False, "layer": 3} and data["report"] == report,
        "made again: %s" % data["locate"])
    return folder


def check_large(folder):
    """40 arms, 200 requests, everything that a report lists at its longest: below 3 MB."""
    big = folder.parent / "big"
    shutil.copytree(folder, big)
    report = json.loads((big / "report.json").read_text())
    arm = report["arms"][1]
    for phase in ("free", "forced"):
        flip = {"request": "request-100", "position": 1000, "reference": {"id": 10000, "text": " reference"},
                "arm": {"id": 20000, "text": " another"}, "reference_margin": 0.0312345678901,
                "arm_margin": 0.0123456789012}
        arm[phase]["flips"] = {"count": 200, "listed": [flip] * 64}
        arm[phase]["kl_by_position"] = [[8 * i, 8 * i + 7, 200, 1.23456789012e-5, 1.23456789012e-3] for i in range(128)]
    report["arms"] = [dict(arm, name="arm %d" % i, manifest={p: "arms/%03d/%s/manifest.json" % (i + 1, p)
                                                                 for p in ("free", "forced")}) for i in range(40)]
    for i in range(3, 41):
        shutil.copytree(big / "arms" / "002", big / "arms" / ("%03d" % i), dirs_exist_ok=True)
    (big / "report.json").write_text(json.dumps(report))
    harness.must(harness.run(0, "report", big))
    size = (big / "report.html").stat().st_size
    print("40 arms: %.2f MB" % (size / 1e6))
    say(size < 3e6, "40 arms take %d bytes" % size)


def refused(code, part, *arguments):
    result = harness.run(0, "report", *arguments)
    say(result.returncode == code and part in result.stderr and result.stderr.count("\n") == 1,
        "%s: %d, %s" % (arguments, result.returncode, result.stderr))


def check_refusals(folder):
    refused(2, "no report.json of a sweep", folder.parent)
    refused(2, "report", )
    refused(4, "No such file", folder, "--output", folder / "no" / "page.html")
    whole = (folder / "report.json").read_text()
    for text, part in (("{", "report.json: line 1"), ("{}", "format is not given, expected lockstep-parity-1"),
                       (whole.replace("lockstep-parity-1", "x-2"), "format is x-2"), ("[]", "format is not given")):
        (folder / "report.json").write_text(text)
        refused(3, part, folder)
    (folder / "report.json").write_text(whole)
    (folder / "locate" / "001.json").write_text("nothing")
    refused(3, "locate/001.json", folder)
    (folder / "locate" / "001.json").unlink()


def check_browser():
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if not chromium:
        print("SKIP: Chromium is not installed")
        sys.exit(harness.SKIP)
    page = sweep() / "report.html"
    for width in (1400, 800, 400):
        result = subprocess.run([chromium, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
                                 "--window-size=%d,2000" % width, "--dump-dom", page.as_uri()], capture_output=True,
                                text=True, timeout=120, check=False)
        errors = [line for line in result.stderr.splitlines() if "CONSOLE" in line]
        say(not errors, "%d px: %s" % (width, errors))
        drawn = Page(result.stdout)
        say(drawn.tags.count("details") >= 4 and drawn.tags.count("svg") >= 4 and drawn.tags.count("b") == 0,
            "%d px: %d details, %d drawings" % (width, drawn.tags.count("details"), drawn.tags.count("svg")))
        say("gone &lt;/script&gt;&lt;b id=planted&gt;" in result.stdout, "%d px: a name is not there" % width)


def main():
    if sys.argv[1:] == ["browser"]:
        check_browser()
    else:
        folder = check_page()
        check_large(folder)
        check_refusals(folder)
    print("%d wrong" % len(FAULTS))
    sys.exit(1 if FAULTS else 0)


if __name__ == "__main__":
    main()
