#!/usr/bin/env python3
"""Documents say what the program does: every option and exit code is in docs/formats.md, every option that a document
names exists, the manual page has all options, and files that documents point at are there. LOCKSTEP_BIN: the binary.
"""
import os
import re
import subprocess

import tree

DOCUMENTS = ["README.md"] + ["docs/%s.md" % name for name in
                             ("architecture", "arithmetic", "wire", "formats", "running", "security", "testing")]
# Options of other programs that the documents show.
FOREIGN = {"long", "mpi", "ntasks", "nodes", "print-errorlogs", "suite", "benchmark", "version", "man", "oversubscribe",
           "buildtype", "help", "name", "no-suite", "bind-to", "cpu-bind", "cpus-per-task", "mca", "parsable", "signal",
           "requeue", "time", "page", "array", "export", "kill-on-bad-exit", "nodelist", "bind", "host", "map-by",
           "hostfile", "ntasks-per-node", "timeout", "requests", "tokens"}  # the last two: link_cost.py's


def options_of_the_program():
    binary = os.environ["LOCKSTEP_BIN"]
    options = set()
    overview = subprocess.run([binary, "--help"], capture_output=True, text=True, check=True).stdout
    for command in re.findall(r"^  (\w+) ", overview, re.M):
        text = subprocess.run([binary, command, "--help"], capture_output=True, text=True, check=True).stdout
        options |= set(re.findall(r"^  --([a-z0-9-]+)", text, re.M))
    return options


def main():
    faults, options = [], options_of_the_program()
    formats = tree.text("docs/formats.md")
    man = subprocess.run([os.environ["LOCKSTEP_BIN"], "--man"], capture_output=True, text=True, check=True).stdout
    for option in sorted(options):
        if not re.search(r"--%s\b(?!-)" % option, formats):
            faults.append("docs/formats.md: --%s is not described" % option)
        if "\\fB\\-\\-%s\\fR" % option.replace("-", "\\-") not in man:
            faults.append("manual page: --%s is missing" % option)
    for document in DOCUMENTS:
        source = tree.text(document)
        for option in sorted(set(re.findall(r"(?<![\w-])--([a-z][a-z0-9-]*)", source)) - options - FOREIGN):
            faults.append("%s: names --%s, which is no option" % (document, option))
        for path in sorted(set(re.findall(r"`((?:src|kernels|mpi_tests|docs|configs|slurm)/[\w./-]+)`", source))):
            if not (tree.ROOT / path).exists():
                faults.append("%s: points at %s, which is not there" % (document, path))
    for code in (0, 10, 2, 3, 4, 75):
        if not re.search(r"\|\s*%d\s*\|" % code, formats):
            faults.append("docs/formats.md: exit code %d is not described" % code)
    print("%d options" % len(options))
    if len(options) < 20:
        faults.append("only %d options were found in --help" % len(options))
    tree.finish(faults)


if __name__ == "__main__":
    main()
