#!/usr/bin/env python3
"""Several pipelines in one job: the output of one replica, byte for byte; one copy of the weights on a host; beginnings
of prompts computed once in each; a drain, a killed rank and going on with another layout; what plan advises.

    replicas.py [ONLY...]      (LOCKSTEP_BIN: the binary; names of checks to run)
"""
import json
import os
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


class Case:
    def __init__(self, seed, n):
        self.folder = harness.work_folder()
        self.source, self.out = self.folder / "in.jsonl", self.folder / "out.jsonl"
        self.source.write_text(jobs.requests(random.Random(seed), n))
        harness.must(harness.run(0, *jobs.command(self.source, self.folder / "whole.jsonl")), 10)
        self.whole = (self.folder / "whole.jsonl").read_bytes()

    def run(self, ranks, *arguments, fresh=True):
        result = harness.run(ranks, *jobs.command(self.source, self.out, *arguments), fresh=fresh)
        what = "%d ranks, %s" % (ranks, " ".join(map(str, arguments)))
        say(result.returncode == 10, "%s: exit code %d: %s" % (what, result.returncode, result.stderr[-1500:]))
        say(self.out.read_bytes() == self.whole, "%s: another output" % what)
        return jobs.manifest(self.out)


def check_equal():
    case = Case(1, 60)
    for ranks, stages, arguments in [(2, 1, ["--replicas", 2]), (4, 2, ["--replicas", 2, "--layers", "0-0,1-4"]),
                                     (4, 1, ["--replicas", "auto", "--max-sequences", 3]),
                                     (4, 2, ["--replicas", 2, "--share-weights", "off", "--window", 1])]:
        manifest = case.run(ranks, *arguments)
        parts, n = manifest["stages"], ranks // stages
        say([(p["replica"], p["stage"]) for p in parts] == [(r // stages, r % stages) for r in range(ranks)],
            "places of ranks: %s" % parts)
        say(all(p["steps"] > 3 for p in parts), "an idle replica: %s" % [p["steps"] for p in parts])
        say(sum(p["tokens"] for p in parts if p["stage"] == 0) == manifest["tokens"], "tokens of replicas")
        say(all(p["step_allocations"] == 0 and p["links"]["payload_copies"] == 0 for p in parts[1:]),
            "allocations or copies: %s" % parts)
        shares = "off" not in arguments
        for p in parts:
            owner = p["stage"] if shares else p["rank"]
            say(p["weights_rank"] == owner, "rank %d has the weights of rank %d" % (p["rank"], p["weights_rank"]))
            say(p["shared_weights_bytes"] == (p["weights_bytes"] if owner != p["rank"] else 0), "shared: %s" % p)
        run_us = 1e6 * manifest["times"]["run_s"]
        for key, values in ("efficiency", [p["compute_us"] / run_us for p in parts]), (
                "ideal", [p["steps"] / (p["steps"] + stages - 1) for p in parts]):
            say(abs(manifest["pipeline"][key] - sum(values) / ranks) < 1e-4, "%s: %s" % (key, manifest["pipeline"]))
        say(0 < manifest["pipeline"]["efficiency"] <= 1, "efficiency: %s" % manifest["pipeline"])
        say(manifest["plan"]["n_replicas"] == n, "plan: %s" % manifest["plan"])
        for planned, made in zip(manifest["plan"]["stages"], parts):
            say(all(planned[key] == made[key] for key in ("weights_bytes", "kv_bytes", "scratch_bytes", "link_bytes")),
                "planned %s, made %s" % (planned, made))


def check_reuse():
    folder, rng = harness.work_folder(), random.Random(3)
    header = [rng.randrange(8, jobs.VOCAB) for _ in range(64)]
    source = folder / "in.jsonl"
    harness.write_requests(source, [{"id": "r%d" % i, "tokens": header + [9 + i], "max_tokens": 5} for i in range(12)])
    harness.must(harness.run(0, *jobs.command(source, folder / "whole.jsonl")))
    harness.must(harness.run(3, *jobs.command(source, folder / "out.jsonl", "--replicas", 3, "--digest", "generated")))
    harness.must(harness.run(0, *jobs.command(source, folder / "one.jsonl", "--digest", "generated")))
    say((folder / "out.jsonl").read_bytes() == (folder / "one.jsonl").read_bytes(), "reuse changes rows")
    reused = jobs.manifest(folder / "out.jsonl")["reused_kv_blocks"]
    say(reused == 2 * (12 - 3), "12 prompts on 3 replicas took %d blocks over, expected 18" % reused)


def stopped(case, ranks, arguments, stop):
    """Starts a slow job, stops it by stop(job) after some rows; seconds until the end, its code and what it said."""
    job = jobs.Started(ranks, jobs.command(case.source, case.out, *jobs.SLOW, *arguments))
    jobs.wait_for_rows(job, case.out)
    begin = time.monotonic()
    stop(job)
    code, said = job.end()
    return time.monotonic() - begin, code, said


def check_drain():
    case = Case(5, 300)
    _, code, said = stopped(case, 4, ["--replicas", 2], lambda job: job.kill([job.process.pid], signal.SIGUSR1))
    say(code == 75, "drain: exit code %s: %s" % (code, said[-1500:]))
    say(jobs.manifest(case.out)["rows"] > 0, "nothing was done before the drain")
    say(case.run(3, "--replicas", 3, fresh=False)["resumed_rows"] > 0, "nothing was resumed")


def check_killed():
    """A rank of the second replica, which has the weights of the first one's."""
    for victim, ranks, arguments in [(3, 4, ["--replicas", 2]), (1, 2, ["--replicas", 2])][:1 + harness.LONG]:
        case = Case(7 + victim, 300)
        segments = set()

        def kill(job):
            for pid in job.ranks():
                segments.update(re.findall(r"/dev/shm/\S+", open("/proc/%d/maps" % pid, encoding="utf-8").read()))
                words = open("/proc/%d/environ" % pid, "rb").read().split(b"\0")
                if b"OMPI_COMM_WORLD_RANK=%d" % victim in words:
                    job.kill([pid])
        seconds, code, said = stopped(case, ranks, arguments, kill)
        say(code not in (0, 10, 75) and seconds < 15, "killed: code %s after %.1f s" % (code, seconds))
        say("rank %d on " % victim in said and "its process is gone" in said, "killed: no line: %s" % said[-1500:])
        say(not any(map(os.path.exists, segments)), "killed: shared memory is left: %s" % segments)
        say(case.run(2, "--replicas", 2, fresh=False)["resumed_rows"] > 0, "killed: nothing was resumed")


def check_plan():
    def plan(*words):
        return harness.run(0, "plan", "--model", jobs.MODEL, *words)
    say("--replicas 4 would be faster" in harness.must(plan("--stages", 4)).stdout, "no advice on replicas")
    say("would be faster" not in harness.must(plan("--replicas", 4)).stdout, "advice where there is none")
    shape = json.loads(harness.must(plan("--stages", 2, "--replicas", 2, "--json")).stdout)
    say((shape["n_stages"], shape["n_replicas"], len(shape["stages"])) == (2, 2, 4), "2 x 2: %s" % shape)
    for code, says, words in [(2, "expected 1 to 1024, or auto", ["--replicas", "two"]),
                              (2, "expected 1 to 1024, or auto", ["--replicas", 0])]:
        result = plan(*words)
        say(result.returncode == code and says in result.stderr, "%s: %s" % (words, result.stderr))
    case = Case(9, 9)
    result = harness.run(4, *jobs.command(case.source, case.out, "--replicas", 3))
    say(result.returncode == 3 and "cannot be divided into 3 pipelines" in result.stderr, "4 / 3: %s" % result.stderr)


def main():
    checks = {name[6:]: check for name, check in globals().items() if name.startswith("check_")}
    for name in sys.argv[1:] or checks:
        begin = time.monotonic()
        checks[name]()
        print("%s: %.1f s" % (name, time.monotonic() - begin), flush=True)
    sys.exit("%d faults" % len(FAULTS) if FAULTS else 0)


if __name__ == "__main__":
    main()
