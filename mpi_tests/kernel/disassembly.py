#!/usr/bin/env python3
"""The inner loops of the AVX2 register blocks keep everything in registers.

usage: disassembly.py OBJECT_OR_ARCHIVE...
A block of R rows x 16 outputs multiplies 4 R times in one iteration; an operand on the stack
there halves its speed and shows nowhere else. Needs objdump; skips (77) without it, and where the
build is not an optimised one (the blocks then have no such loop).
"""
import re
import shutil
import subprocess
import sys

BLOCK = re.compile(r'block_WIDE_(F32|F16|BF16)_([456])_1$')


def functions(path):
    """(name, [(address, text)]) of every function."""
    out = subprocess.run(['objdump', '-d', '--no-show-raw-insn', path], check=True, text=True,
                         capture_output=True).stdout
    name, body = None, []
    for line in out.splitlines():
        start = re.match(r'[0-9a-f]+ <(.+)>:$', line)
        code = re.match(r'\s+([0-9a-f]+):\s+(.*)', line)
        if start:
            if name:
                yield name, body
            name, body = start.group(1), []
        elif code:
            body.append((int(code.group(1), 16), code.group(2)))
    if name:
        yield name, body


def loops(body):
    """Instruction lists of the loops, told by a jump backwards."""
    index = {address: i for i, (address, _) in enumerate(body)}
    for i, (_, text) in enumerate(body):
        jump = re.match(r'j\w+\s+([0-9a-f]+)', text)
        target = index.get(int(jump.group(1), 16)) if jump else None
        if target is not None and target <= i:
            yield [t for _, t in body[target:i + 1]]


def main(paths):
    if not shutil.which('objdump'):
        print('skipped: no objdump')
        return 77
    checked = failed = 0
    for path in paths:
        for name, body in functions(path):
            block = BLOCK.match(name)
            if not block:
                continue
            want = 4 * int(block.group(2))
            for loop in loops(body):
                if sum('vfmadd' in t for t in loop) != want:
                    continue
                checked += 1
                on_stack = [t for t in loop if re.search(r'\(%r[sb]p', t) and 'lea' not in t]
                vectors = [t for t in on_stack if re.search(r'%[xy]mm', t)]
                failed += bool(vectors)
                print('%-22s %3d instructions, %d stack operands, %d of vectors' %
                      (name, len(loop), len(on_stack), len(vectors)))
    if not checked:
        print('skipped: no loop of %s found, not an optimised build' % BLOCK.pattern)
        return 77
    print('%d loops, %d with vectors on the stack' % (checked, failed))
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
