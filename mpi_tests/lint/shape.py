#!/usr/bin/env python3
"""The house style's numbers: lengths of files, functions and lines; names; words that must not be there."""
import re
import sys

import tree

MAX_FILE, MAX_FUNCTION, SHORT_FUNCTION, SHORT_SHARE, MAX_COLUMNS = 600, 60, 40, 0.9, 96
MAX_SCRIPT_COLUMNS = 120
NAMES = re.compile(r"(^|[_\-.])(utils?|helpers?|common|managers?|misc)([_\-.]|$)", re.I)
IDENTIFIER = re.compile(r"\bls_\w*?(util|helper|common|manager)\w*")
# Spelled in halves, so that this file does not hold what it looks for.
WORDS = re.compile(r"\b(" + "|".join(["TO" "DO", "FIX" "ME", "XX" "X", "HA" "CK"]) + r")\b")
PLACES = re.compile("(" + "|".join(["/wo" "rk/", "/tmp/" "b-", "/ro" "ot/", "/ho" "me/"]) + ")")
# Data that others made, and lists of strings that a tokenizer must survive.
DATA = re.compile(r"^(configs/demo/|mpi_tests/fixtures/|mpi_tests/fuzz/corpus/|LICENSE$)")


def functions(source):
    """(name, lines) of every function body that begins and ends at column 0."""
    lines, start, name = source.split("\n"), None, "?"
    for number, line in enumerate(lines):
        if line == "{" and number and re.search(r"\)\s*$|\)\s*__attribute__.*$", lines[number - 1]):
            start = number
            for back in range(number - 1, max(-1, number - 12), -1):
                found = re.match(r"^\w[^;={}]*?\b(\w+)\s*\(", lines[back])
                if found:
                    name = found.group(1)
                    break
        elif line == "}" and start is not None:
            yield name, number - start + 1
            start = None


def check_c(path, source):
    faults, lengths = [], []
    n_lines = source.count("\n")
    if n_lines > MAX_FILE:
        faults.append("%s: %d lines, at most %d" % (path, n_lines, MAX_FILE))
    for name, n in functions(source):
        lengths.append(n)
        if n > MAX_FUNCTION:
            faults.append("%s: %s has %d lines, at most %d" % (path, name, n, MAX_FUNCTION))
    for found in sorted(set(m.group(0) for m in IDENTIFIER.finditer(source))):
        faults.append("%s: the name %s says nothing" % (path, found))
    return faults, lengths


def check_text(path, source, columns):
    faults = []
    for number, line in enumerate(source.split("\n"), 1):
        if columns and len(line) > columns:
            faults.append("%s:%d: %d columns, at most %d" % (path, number, len(line), columns))
        for pattern in (WORDS, PLACES):
            found = pattern.search(line)
            if found:
                faults.append("%s:%d: holds '%s'" % (path, number, found.group(0)))
    if NAMES.search(path.name):
        faults.append("%s: the file's name says nothing" % path)
    return faults


def self_test():
    path = tree.pathlib.PurePath("src/base/x.c")
    long_one = "static int f(int a,\n             int b)\n{\n" + "    a++;\n" * 60 + "}\n"
    assert check_c(path, long_one)[0] == ["%s: f has 62 lines, at most 60" % path]
    assert len(check_c(path, "int x;\n" * 601)[0]) == 1
    assert len(check_c(path, "void ls_x_helper(void);\n")[0]) == 1
    assert len(check_text(path, "/* " "TO" "DO */\n", 96)) == 1
    assert len(check_text(path, "x" * 97, 96)) == 1
    assert len(check_text(path, 'char *p = "/wo' 'rk/x";\n', 96)) == 1
    assert len(check_text(tree.pathlib.PurePath("src/base/utils.c"), "", 96)) == 1
    assert check_text(path, "int x; /* fine */\n", 96) == []


def main():
    self_test()
    if "--self-test" in sys.argv:
        print("the check notices what it should")
        return
    faults, lengths = [], []
    for path in tree.files():
        if DATA.match(path.as_posix()) or b"\0" in (tree.ROOT / path).read_bytes()[:4096]:
            continue
        source = tree.text(path)
        is_c = path.suffix in (".c", ".h")
        columns = MAX_COLUMNS if is_c else MAX_SCRIPT_COLUMNS if path.suffix in (".py", ".sh") else 0
        faults += check_text(path, source, columns)
        if is_c:
            more, n = check_c(path, source)
            faults += more
            lengths += n
    short = sum(n <= SHORT_FUNCTION for n in lengths) / max(1, len(lengths))
    print("%d functions, median %d lines, %.1f %% of at most %d" % (
        len(lengths), sorted(lengths)[len(lengths) // 2], 100 * short, SHORT_FUNCTION))
    if short < SHORT_SHARE:
        faults.append("only %.1f %% of the functions have at most %d lines" % (100 * short, SHORT_FUNCTION))
    tree.finish(faults)


if __name__ == "__main__":
    main()
