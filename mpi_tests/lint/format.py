#!/usr/bin/env python3
"""clang-format over every C file. Another version than 14 lays out a few constructs otherwise: skipped (77)."""
import re
import shutil
import subprocess

import tree

VERSION = 14


def find():
    for name in ("clang-format-%d" % VERSION, "clang-format"):
        path = shutil.which(name)
        if path:
            said = subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout
            found = re.search(r"version (\d+)", said)
            if found and int(found.group(1)) == VERSION:
                return path
    print("SKIP: clang-format %d is not here" % VERSION)
    raise SystemExit(77)


def main():
    program = find()
    paths = [str(p) for p in tree.files(".c", ".h", under=["src", "kernels", "mpi_tests"])]
    result = subprocess.run([program, "--style=file", "--dry-run", "--Werror", *paths], cwd=tree.ROOT,
                            capture_output=True, text=True, check=False)
    faulty = sorted(set(re.findall(r"^(\S+?):\d+:\d+: error: ", result.stderr, re.M)))
    faults = ["%s: run clang-format on it" % path for path in faulty]
    if result.returncode and not faults:
        faults.append(result.stderr[-2000:])
    print("%d files" % len(paths))
    tree.finish(faults)


if __name__ == "__main__":
    main()
