#!/usr/bin/env python3
"""shellcheck over every shell script; skipped (77) where it is absent."""
import shutil
import subprocess

import tree


def is_shell(path):
    first = tree.text(path).split("\n", 1)[0]
    return first.startswith("#!") and first.rstrip().endswith(("/sh", "/bash", " sh", " bash"))


def main():
    program = shutil.which("shellcheck")
    if not program:
        print("SKIP: shellcheck is not here")
        raise SystemExit(77)
    scripts = [p for p in tree.files() if p.suffix not in (".c", ".h", ".py", ".safetensors") and is_shell(p)]
    print("%d scripts" % len(scripts))
    result = subprocess.run([program, "-x", "-P", "SCRIPTDIR", *map(str, scripts)], cwd=tree.ROOT, check=False)
    raise SystemExit(1 if result.returncode or len(scripts) < 3 else 0)


if __name__ == "__main__":
    main()
