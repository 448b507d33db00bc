#!/usr/bin/env python3
"""Two hosts with 5 ms and 100 Mbit/s between them: equal output, and steps in flight that keep the link busy.

    slow_link.py            (LOCKSTEP_BIN; root, /dev/net/tun)

The link is a pair of TUN devices and a queue in this program, which hands each packet over when a line of that rate and
delay would have. What it allows is measured with a plain TCP stream, just before and just after.
"""
import ctypes
import fcntl
import heapq
import json
import os
import random
import select
import shutil
import signal
import statistics
import struct
import subprocess
import sys
import time

import lab
import harness

WAN = "10.78.0"
DELAY_S, BYTES_PER_S, MTU, QUEUE_S = 0.005, 100e6 / 8, 9000, 0.1
TUNSETIFF, IFF_TUN, IFF_NO_PI, CLONE_NEWNET = 0x400454CA, 1, 0x1000, 0x40000000
STREAM = """import socket, sys, time
at, n = (sys.argv[1], 7777), int(sys.argv[2])
if len(sys.argv) > 3:
    s = socket.create_connection(at); s.sendall(bytes(n)); s.shutdown(socket.SHUT_WR); s.recv(1)
else:
    l = socket.create_server(at); print("up", flush=True); s, _ = l.accept(); s.recv(1, socket.MSG_PEEK)
    begin = time.monotonic(); left = n
    while left: left -= len(s.recv(1 << 20))
    print(n / (time.monotonic() - begin))
"""


def open_end(namespace, address):
    """A TUN device wan0 in a namespace; this process sees its packets."""
    libc, home = ctypes.CDLL(None, use_errno=True), os.open("/proc/self/ns/net", os.O_RDONLY)
    there = os.open("/run/netns/" + namespace, os.O_RDONLY)
    try:
        if libc.setns(there, CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "setns")
        end = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        fcntl.ioctl(end, TUNSETIFF, struct.pack("16sH22x", b"wan0", IFF_TUN | IFF_NO_PI))
        lab.ip("addr", "add", address + "/24", "dev", "wan0")
        lab.ip("link", "set", "wan0", "mtu", str(MTU), "up")
    finally:
        libc.setns(home, CLONE_NEWNET)
        os.close(home)
        os.close(there)
    return end


def carry(ends):
    """Until it is killed: packets from each end to the other, at the line's rate, after its delay."""
    free, due, number = {end: 0.0 for end in ends}, [], 0
    other = {ends[0]: ends[1], ends[1]: ends[0]}
    while True:
        now = time.monotonic()
        while due and due[0][0] <= now:
            _, _, end, packet = heapq.heappop(due)
            try:
                os.write(end, packet)
            except BlockingIOError:
                pass  # lost, as a full queue loses it
        ready, _, _ = select.select(ends, [], [], max(0.0, due[0][0] - now) if due else None)
        for end in ready:
            for _ in range(16):
                try:
                    packet = os.read(end, 65536)
                except BlockingIOError:
                    break
                now = time.monotonic()
                begin = max(free[end], now)
                if begin - now > QUEUE_S:
                    continue
                free[end] = begin + len(packet) / BYTES_PER_S
                number += 1
                heapq.heappush(due, (free[end] + DELAY_S, number, other[end], packet))


def stream(hosts, n=12_000_000):
    """Bytes a second of a TCP connection over the slow link."""
    server = hosts.start(1, [sys.executable, "-c", STREAM, WAN + ".2", n], stdout=subprocess.PIPE, text=True)
    server.stdout.readline()
    client = hosts.start(0, [sys.executable, "-c", STREAM, WAN + ".2", n, "send"])
    rate = float(server.communicate(timeout=60)[0])
    client.wait(timeout=60)
    return rate


def run(hosts, folder, name, requests, *extra):
    """The manifest of a run over the slow link, which gives what one rank gives."""
    source, model = folder / "in.jsonl", folder / "model"
    harness.write_requests(source, requests)
    words = ["run", "--model", model, "--input", source, "--progress", "none", "--threads", 1, "--digest", "none",
             "--secret-file", folder / "secret", *extra, "--output"]
    harness.must(harness.run(0, *words, folder / "one.jsonl"))
    out = folder / (name + ".jsonl")
    words.insert(-1, "--fresh")
    result = hosts.mpirun([(1, 0), (1, 1)], [folder / "lockstep", *words, out], data=WAN)
    harness.must(result)
    manifest = json.loads((folder / (name + ".jsonl.lockstep") / "manifest.json").read_text())
    if out.read_bytes() != (folder / "one.jsonl").read_bytes():
        sys.exit("%s: another output over the slow link" % name)
    return manifest


def measure(hosts, folder, prompts):
    """What part of the link's rate a run of prompts uses."""
    before = stream(hosts)
    manifest = run(hosts, folder, "prompts", prompts, "--prefix-reuse", "off")
    allowed = statistics.mean([before, stream(hosts)])
    seconds, sent = manifest["times"]["run_s"], manifest["stages"][0]["bytes_sent"]
    share = sent / seconds / allowed
    print("link: %.1f Mbit/s for one stream; run: %.1f MB in %.2f s, %.0f %% of that" % (
        allowed * 8e-6, sent * 1e-6, seconds, 100 * share), flush=True)
    return share


def check_packing(hosts, folder, prompts):
    """On a link as slow as this, auto takes packing behind its eight trials."""
    stage = run(hosts, folder, "packed", prompts, "--prefix-reuse", "off", "--pack", "auto")["stages"][0]
    links = stage["links"]
    print("auto: %d tensors packed, %d bytes before, %d after, %d us" % (
        links["tensors_packed"], links["bytes_before_packing"], links["bytes_after_packing"], links["packing_us"]))
    if not 0 < links["bytes_after_packing"] < 0.9 * links["bytes_before_packing"]:
        sys.exit("auto does not pack on a slow link: %s" % links)


def main():
    lab.require()
    if not os.path.exists("/dev/net/tun"):
        print("SKIP: no /dev/net/tun")
        sys.exit(harness.SKIP)
    folder, rng = harness.work_folder(), random.Random(11)
    shutil.copy(harness.binary(), folder / "lockstep")
    harness.must(harness.run(0, "keygen", folder / "secret"))
    # Wide and thin: much to send, little to compute.
    harness.make_llama(folder / "model", 2, hidden=2048, heads=2, kv_heads=1, intermediate=16, head_dim=16,
                       max_position_embeddings=1024)
    prompts = [{"id": "r%d" % i, "tokens": [rng.randrange(3, 64) for _ in range(400)], "max_tokens": 1,
                "ignore_eos": True} for i in range(80 if harness.LONG else 40)]
    with lab.Hosts(2) as hosts:
        ends = [open_end(hosts.names[i], "%s.%d" % (WAN, i + 1)) for i in range(2)]
        carrier = os.fork()
        if carrier == 0:
            carry(ends)
        try:
            share = measure(hosts, folder, prompts)
            for _ in range(2):  # a busy test machine is not a slow pipeline
                share = share if share >= 0.8 else measure(hosts, folder, prompts)
            if share < 0.8:
                sys.exit("the pipeline uses %.0f %% of the link, expected 80 or more" % (100 * share))
            if harness.can_pack():
                check_packing(hosts, folder, prompts)
            few = run(hosts, folder, "decode", [dict(p, tokens=p["tokens"][:5], max_tokens=20) for p in prompts[:16]])
            print("decoding: %.1f ms a step, %d steps" % (few["times"]["run_s"] * 1e3 / few["steps"], few["steps"]))
        finally:
            os.kill(carrier, signal.SIGKILL)
            os.waitpid(carrier, 0)


if __name__ == "__main__":
    main()
