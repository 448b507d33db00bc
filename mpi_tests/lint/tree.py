"""The project's own files, for the lint tests: whatever is here but build output and version control."""
import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TOP = ["src", "kernels", "mpi_tests", "docs", "configs", "slurm", ".ci"]


def ignored_by_git(paths):
    """Files that a checkout would not have (made by a running test or an editor). None without git."""
    try:
        result = subprocess.run(["git", "-C", str(ROOT), "check-ignore", "-z", "--stdin"], capture_output=True,
                                input="\0".join(map(str, paths)).encode(), check=False)
    except OSError:
        return set()
    return {pathlib.Path(os.fsdecode(p)) for p in result.stdout.split(b"\0") if p}


def files(*suffixes, under=None):
    """Sorted paths, relative to the root, that end in one of the suffixes."""
    found = [] if under else [p for p in ROOT.iterdir() if p.is_file() and p.name != ".git"]
    for top in under or TOP:
        found += [p for p in (ROOT / top).rglob("*") if p.is_file()]
    found = [p for p in found if not suffixes or p.name.endswith(suffixes)]
    found = [p for p in found if "__pycache__" not in p.parts]
    ignored = ignored_by_git(found)
    return sorted(p.relative_to(ROOT) for p in found if p not in ignored)


def text(path):
    return (ROOT / path).read_text(encoding="utf-8", errors="replace")


def finish(faults):
    for fault in faults:
        print(fault)
    print("%d faults" % len(faults))
    raise SystemExit(1 if faults else 0)
