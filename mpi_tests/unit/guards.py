#!/usr/bin/env python3
"""The checks of the wire, one by one: with a check switched off, the test that watches it must fail.

    guards.py NAME=PROGRAM...      (test programs of a build with -Dmutants=true)

Each program must pass with every check on. docs/testing.md shows how to run it.
"""
import os
import subprocess
import sys

GUARDS = {
    # check switched off: the test program that must fail
    "size-max": "ut_frame", "size-min": "ut_frame", "plain-tag": "ut_frame", "magic": "ut_frame",
    "version": "ut_frame", "reserved": "ut_frame", "flags": "ut_frame", "level": "ut_seal", "run-id": "ut_frame",
    "ranks": "ut_frame", "sequence": "ut_frame", "kind-known": "ut_frame", "kind-allowed": "ut_frame",
    "length-limit": "ut_frame", "length-arrived": "ut_frame", "tensor-bytes": "ut_frame_shape",
    "chunk": "ut_frame_shape", "chunk-full": "ut_frame_shape", "chunk-same": "ut_frame_shape",
    "dtype": "ut_frame_shape", "dims": "ut_frame_shape", "zero-dim": "ut_frame_shape", "table": "ut_frame_shape",
    "id": "ut_frame_shape", "nonce": "ut_frame_shape", "rows": "ut_frame_shape",
    "tag": "ut_seal", "rekey": "ut_seal", "suite": "ut_seal",
    "proof": "ut_keys", "hello-size": "ut_keys", "hello-run": "ut_keys", "hello-ranks": "ut_keys",
    "hello-level": "ut_keys", "hello-once": "ut_keys", "secret-constant": "ut_keys", "secret-once": "ut_keys",
    "secret-size": "ut_keys",
    "packed": "ut_frame_shape", "packed-allowed": "ut_frame_shape", "unpacked-size": "ut_pack",
    "card-kind": "ut_card", "card-fields": "ut_card", "card-text": "ut_card",
    "secret-regular": "ut_secret_file", "secret-owner": "ut_secret_file", "secret-mode": "ut_secret_file",
    "secret-overwrite": "ut_secret_file",
    "result-place": "ut_result", "result-counts": "ut_result", "result-row": "ut_result", "result-layer": "ut_result",
    "plan-digest": "ut_plan", "opened-epoch": "ut_channel", "opened-more": "ut_channel",
    "certificate-size": "ut_certificate", "certificate-part": "ut_certificate", "certificate-block": "ut_certificate",
}


def passes(program, guard):
    environment = dict(os.environ)
    environment.pop("LOCKSTEP_GUARD_OFF", None)
    if guard:
        environment["LOCKSTEP_GUARD_OFF"] = guard
    result = subprocess.run([program], capture_output=True, env=environment, timeout=120, check=False)
    return result.returncode == 0


def main():
    programs = dict(word.split("=", 1) for word in sys.argv[1:])
    faults = 0
    for name in sorted(set(GUARDS.values())):
        if not passes(programs[name], None):
            print("%s fails with every check on" % name)
            faults += 1
    for guard, name in GUARDS.items():
        if guard == "secret-owner" and os.geteuid() != 0:
            print("%-16s not root: not tried" % guard)
            continue
        caught = not passes(programs[name], guard)
        print("%-16s %s: %s" % (guard, name, "caught" if caught else "NOT CAUGHT"), flush=True)
        faults += not caught
    print("%d checks, %d faults" % (len(GUARDS), faults))
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
