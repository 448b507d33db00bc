#!/usr/bin/env python3
"""Who may include whom: the arrows of docs/architecture.md as a table.

A module may include its own headers and those of every module that it reaches by arrows. Outside libraries are held
to the modules that need them; MPI is named in src/comm and src/app/main.c only. With --self-test, shows that the
check notices a forbidden edge.
"""
import re
import sys

import tree

ARROWS = {
    "kernels": [],
    "base": [],
    "tensor": ["base"],
    "wire": ["base", "tensor"],  # tensor views of received bytes
    "comm": ["base"],
    "text": ["base"],
    "model": ["tensor", "kernels"],
    "stage": ["model", "kernels"],
    "pipeline": ["stage", "wire", "comm", "tensor"],
    "jobs": ["pipeline", "text"],
    "parity": ["pipeline"],
    "bench": ["stage", "text"],
    "app": ["jobs", "parity", "bench"],
}
LIBRARIES = {
    "mpi.h": {"comm", "app"},
    "sodium.h": {"wire", "tensor", "stage", "pipeline", "jobs", "parity", "app"},
    "jansson.h": {"tensor", "model", "text", "jobs", "parity", "bench", "app"},
    "pcre2.h": {"text"},
    "utf8proc.h": {"text"},
    "yaml.h": {"base"},
    "lz4.h": {"wire"},
    "hwloc.h": {"pipeline"},
    "immintrin.h": {"kernels", "comm", "model"},  # a pause while spinning; single f16 conversions
    "cpuid.h": {"kernels"},
    "x86intrin.h": {"kernels"},
}
LIBC = re.compile(r"^(assert|ctype|errno|fcntl|float|ftw|inttypes|limits|locale|math|poll|pthread|pwd|sched|setjmp|"
                  r"signal|spawn|stdalign|stdarg|stdatomic|stdbool|stddef|stdint|stdio|stdlib|string|strings|time|"
                  r"unistd|dirent|gnu/libc-version|sys/[a-z]+|linux/[a-z]+)\.h$")
INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]', re.M)
MPI_NAME = re.compile(r"\bMPI_[A-Z]\w*")


def reachable(module):
    seen, queue = set(), [module]
    while queue:
        for target in ARROWS[queue.pop()]:
            if target not in seen:
                seen.add(target)
                queue.append(target)
    return seen | {module}


def module_of(path):
    return path.parts[1] if path.parts[0] == "src" else path.parts[0]


def check_include(path, module, kind, name):
    if kind == '"':
        target = name.split("/")[0]
        if "/" not in name or ".." in name or target not in ARROWS:
            return '%s: "%s" is not written from src' % (path, name)
        if target not in reachable(module):
            return "%s: %s may not include %s (%s)" % (path, module, target, name)
    elif name in LIBRARIES:
        if module not in LIBRARIES[name]:
            return "%s: %s may not use <%s>" % (path, module, name)
    elif not LIBC.match(name):
        return "%s: <%s> is not in the table of libraries" % (path, name)
    elif module == "kernels" and "/" in name:
        return "%s: kernels use libc only (<%s>)" % (path, name)
    return None


def without_comments(source):
    return re.sub(r"/\*.*?\*/|//[^\n]*", "", source, flags=re.S)


def check(path, source):
    module, faults = module_of(path), []
    if module not in ARROWS:
        return ["%s: no such module in the table" % path]
    for kind, name in INCLUDE.findall(source):
        fault = check_include(path, module, kind, name)
        if fault:
            faults.append(fault)
    code = without_comments(source)
    if module != "comm" and path.name != "main.c":
        faults += ["%s: names %s" % (path, name) for name in sorted(set(MPI_NAME.findall(code)))
                   if not (module == "app" and name in ("MPI_Get_library_version", "MPI_MAX_LIBRARY_VERSION_STRING"))]
    if module not in ("app",) and path.name not in ("mutant.c", "fault.c"):
        faults += ["%s: calls %s()" % (path, call)
                   for call in re.findall(r"(?<![\w.>])(exit|_exit|quick_exit|abort)\s*\(", code)]
    return faults


def self_test():
    path = tree.pathlib.PurePath("src/tensor/x.c")
    kernel = tree.pathlib.PurePath("kernels/ref/x.c")
    assert check(path, '#include "base/status.h"\n#include <string.h>\n') == []
    assert len(check(path, '#include "model/arch.h"\n')) == 1
    assert len(check(path, "#include <mpi.h>\n")) == 1
    assert len(check(path, "int rank = MPI_COMM_WORLD; exit(1);\n")) == 2
    assert check(path, "/* MPI_Abort, exit(1) */\n") == []
    assert len(check(path, '#include "dtype.h"\n')) == 1
    assert len(check(kernel, '#include "base/size.h"\n')) == 1
    assert check(tree.pathlib.PurePath("src/app/x.c"), '#include "kernels/kernels.h"\n') == []


def main():
    self_test()
    if "--self-test" in sys.argv:
        print("the check notices what it should")
        return
    faults = []
    for path in tree.files(".c", ".h", under=["src", "kernels"]):
        faults += check(path, tree.text(path))
    tree.finish(faults)


if __name__ == "__main__":
    main()
