#!/usr/bin/env python3
"""Watching a job: `lockstep status` while it runs, when it was killed and when it is complete, --metrics, --trace.

    watch.py [ONLY...]      (LOCKSTEP_BIN: the binary; names of checks to run)
"""
import json
import random
import re
import signal
import sys
import time

import harness
import jobs

FAULTS = []


def say(good, what):
    if not good:
        FAULTS.append(what)
        print("WRONG: %s" % what, flush=True)


def make(n=300):
    folder = harness.work_folder()
    (folder / "in.jsonl").write_text(jobs.requests(random.Random(8), n))
    return folder, folder / "in.jsonl", folder / "out.jsonl"


def status(out):
    return json.loads(harness.must(harness.run(0, "status", "--json", out)).stdout)


def until(condition, seconds=60):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.02)
    return False


def check_status():
    folder, source, out = make(600)
    result = harness.run(0, "status", out)
    say(result.returncode == 2 and "no job has this output" in result.stderr, "no job: %s" % result.stderr)
    job = jobs.Started(2, jobs.command(source, out, *jobs.SLOW))
    jobs.wait_for_rows(job, out)
    seen = [status(out) for _ in range(5)]
    pids = job.ranks()
    say(all(s["state"] == "running" and s["manifest"] is None for s in seen), "while it runs: %s" % seen[0])
    say(any("pid %d" % pid in seen[0]["owner"] for pid in pids), "owner %s, ranks %s" % (seen[0]["owner"], pids))
    rows = [s["rows"] for s in seen]
    say(rows == sorted(rows) and rows[0] > 0, "rows while it runs: %s" % rows)
    say(seen[0]["identity"]["profile"] == "exact-1", "identity: %s" % seen[0]["identity"])
    job.kill(job.pids())
    job.end()
    killed = status(out)
    say(killed["state"] == "stopped" and killed["owner"] is None and killed["rows"] >= rows[-1], "killed: %s" % killed)
    text = harness.must(harness.run(0, "status", out)).stdout
    say("stopped" in text and "give the same command again" in text, "text of a killed job:\n%s" % text)
    harness.must(harness.run(3, *jobs.command(source, out), fresh=False), 10)
    done = status(out)
    n = len(source.read_text().splitlines())
    say(done["state"] == "complete" and done["rows"] == n == done["last_line"] and done["manifest"]["exit_code"] == 10,
        "complete: %s" % {k: v for k, v in done.items() if k != "manifest"})


def numbers(path):
    found = dict(re.findall(r'^lockstep_(\w+)\{output="[^"]*"\} (\S+)$', path.read_text(), re.M))
    return {name: float(value) for name, value in found.items()}


def check_metrics():
    folder, source, out = make(600)
    file = folder / "lockstep.prom"
    job = jobs.Started(2, jobs.command(source, out, "--metrics", file, *jobs.SLOW))
    say(until(lambda: file.exists() and numbers(file).get("rows_total", 0) > 0), "no rows in the metrics")
    first = numbers(file)
    say(first["state"] == 0 and first["sequences_running"] >= 0 and first["lines_read_total"] > 0, "%s" % first)
    say(until(lambda: numbers(file)["rows_total"] > first["rows_total"]), "the metrics stand still")
    job.kill([job.process.pid], signal.SIGUSR1)
    job.end()
    stopped = numbers(file)
    say(stopped["state"] == 1 and stopped["rows_total"] >= first["rows_total"], "stopped: %s" % stopped)
    harness.must(harness.run(0, *jobs.command(source, out, "--metrics", file), fresh=False), 10)
    done, n = numbers(file), len(source.read_text().splitlines())
    say(done["state"] == 2 and done["rows_total"] == n and done["resumed_rows"] == stopped["rows_total"] and
        done["output_bytes"] == out.stat().st_size and done["error_rows_total"] > 0, "complete: %s" % done)
    for line in file.read_text().splitlines():
        say(re.match(r'^# (HELP|TYPE) lockstep_\w+ .+$|^lockstep_\w+\{output="[^"]+"\} [0-9.e+-]+$', line), line)
    say(not list(folder.glob("*.part")), "a part was left behind")
    result = harness.run(0, *jobs.command(source, out, "--metrics", folder / "no" / "file"))
    say(result.returncode == 2 and "cannot write metrics" in result.stderr, "no folder: %s" % result.stderr)


def check_trace():
    folder, source, out = make(30)
    plain = harness.must(harness.run(0, *jobs.command(source, out)), 10) and out.read_bytes()
    for ranks in (0, 1, 3):
        file = folder / ("trace%d.json" % ranks)
        harness.must(harness.run(ranks, *jobs.command(source, out, "--trace", file)), 10)
        say(out.read_bytes() == plain, "a trace changes rows")
        events = json.loads(file.read_text())["traceEvents"]
        record, stages = jobs.manifest(out), max(1, ranks)
        say(all(s["step_allocations"] == 0 for s in record["stages"]), "steps allocate when they are traced")
        lanes = {e["tid"]: e["args"]["name"] for e in events if e["ph"] == "M"}
        say(lanes == {s: "stage %d" % s for s in range(stages)}, "lanes: %s" % lanes)
        for stage in range(stages):
            own = sorted((e for e in events if e["ph"] == "X" and e["tid"] == stage), key=lambda e: (e["ts"], e["dur"]))
            say({e["name"] for e in own} <= {"compute", "send", "wait", "idle"}, "names: %s" % {e["name"] for e in own})
            say(all(a["ts"] + a["dur"] <= b["ts"] for a, b in zip(own, own[1:])), "stage %d: events overlap" % stage)
            steps = [e["args"]["step"] for e in own if e["name"] == "compute"]
            say(sorted(set(steps)) == list(range(record["steps"])), "stage %d: steps %s.." % (stage, steps[:5]))
            busy = sum(e["dur"] for e in own if e["name"] == "compute")
            known = record["stages"][stage]["compute_us"]
            say(abs(busy - known) <= 0.02 * known + 1000, "stage %d: %d us in the trace, %d counted" % (
                stage, busy, known))
    result = harness.run(0, *jobs.command(source, out, "--trace", folder / "no" / "file"))
    say(result.returncode == 2 and "cannot write trace" in result.stderr, "no folder: %s" % result.stderr)


def main():
    checks = {name[6:]: check for name, check in globals().items() if name.startswith("check_")}
    for name in sys.argv[1:] or checks:
        began = time.monotonic()
        checks[name]()
        print("%s: %.1f s" % (name, time.monotonic() - began), flush=True)
    print("%d wrong" % len(FAULTS))
    sys.exit(1 if FAULTS else 0)


if __name__ == "__main__":
    main()
