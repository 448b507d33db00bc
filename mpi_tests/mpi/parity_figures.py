"""The figures of a comparison, computed by the definitions and not by the program: plain Python, exact sums."""
import json
import math
import struct
import sys

import harness


def read_logits(folder):
    """{name: (shape, values)} of a folder of --logits."""
    index, files, out = json.loads((folder / "index.json").read_text()), {}, {}
    for custom_id, place in index.items():
        for k, choice in enumerate(place.get("choices", [place])):
            if choice["file"] not in files:
                files[choice["file"]] = harness.read_safetensors(folder / choice["file"])
            name = custom_id if not k else "%s [choice %d]" % (custom_id, k)
            out[name] = files[choice["file"]][choice["tensor"]]
    return out


def order(x):
    (bits,) = struct.unpack("<I", struct.pack("<f", x))
    return -(bits & 0x7fffffff) if bits >> 31 else bits


def lse(row):
    top = max(row)
    return top + math.log(math.fsum(math.exp(x - top) for x in row))


def top(row, n):
    return sorted(range(len(row)), key=lambda i: (-row[i], i))[:n]


def close(what, got, wanted):
    """1e-9 relative or 1e-13 absolute."""
    if got is None or wanted is None:
        if got is not wanted:
            sys.exit("%s: %r, expected %r" % (what, got, wanted))
        return
    if abs(got - wanted) > max(1e-13, 1e-9 * abs(wanted)):
        sys.exit("%s: %.17g, expected %.17g (%.2g apart)" % (what, got, wanted, got - wanted))


def same(what, got, wanted):
    if got != wanted:
        sys.exit("%s: %r, expected %r" % (what, got, wanted))


def rows_of(folder, phase, logits, arm_rows):
    """(name, position, reference row, arm row, target), in the reference's order; and the rows that stand apart."""
    forced = {r["custom_id"]: r["tokens"] for r in harness.rows(folder / "forced.jsonl")}
    said = generated(folder / "arms" / "000" / "free" / "rows.jsonl")
    reference, apart, out = read_logits(folder / "logits" / ("000-" + phase)), 0, []
    for name, (shape, data) in reference.items():
        (rows, columns), (arm_shape, arm_data) = shape, logits[name]
        new = said.get(name, [])
        ids = forced[name] + new[-1:]
        limit = arm_shape[0]
        if phase == "free" and name in arm_rows and name != "scored":
            common = 0
            while common < min(len(new), len(arm_rows[name])) and new[common] == arm_rows[name][common]:
                common += 1
            limit = min(limit, len(ids) - len(new) + common)
        apart += arm_shape[0] - limit
        for r in range(min(limit, rows)):
            target = ids[r + 1] if r + 1 < len(ids) else None
            out.append((name, r, data[r * columns:(r + 1) * columns], arm_data[r * columns:(r + 1) * columns], target))
    return out, apart


def generated(path):
    out = {}
    for row in harness.rows(path):
        if row["error"]:
            continue
        for k, facts in enumerate(row["lockstep"].get("choices", [row["lockstep"]])):
            out[row["custom_id"] if not k else "%s [choice %d]" % (row["custom_id"], k)] = facts["token_ids"]
    return out


def elements(rows, c):
    different, squares, bins, worst, worst_ulp = 0, [], {}, 0.0, 0
    for _, _, x, y, _ in rows:
        for a, b in zip(x, y):
            different += struct.pack("<f", a) != struct.pack("<f", b)
            ulps = abs(order(a) - order(b))
            bin_ = 0 if not ulps else 1 + (ulps - 1).bit_length()
            bins[bin_] = bins.get(bin_, 0) + 1
            worst, worst_ulp = max(worst, abs(b - a)), max(worst_ulp, ulps)
            if a != b:
                squares.append((b - a) ** 2)
    n = sum(len(x) for _, _, x, _, _ in rows)
    same("elements", (c["elements"], c["elements_different"]), (n, different))
    same("max_abs, max_ulp", (c["max_abs"], c["max_ulp"]), (worst, worst_ulp))
    close("rms", c["rms"], math.sqrt(math.fsum(squares) / n))
    same("ulp histogram", c["ulp_histogram"]["counts"], [bins.get(i, 0) for i in range(max(bins) + 1)])
    same("ulp bins", c["ulp_histogram"]["upper"], [0] + [1 << i for i in range(max(bins))])


def distributions(rows, c):
    kls, flips, five = [], [], 0
    for name, position, x, y, _ in rows:
        lx, ly = lse(x), lse(y)
        kl = math.fsum(math.exp(a - lx) * ((a - lx) - (b - ly)) for a, b in zip(x, y)) if x != y else 0.0
        kls.append((kl, name, position))
        tx, ty = top(x, 5), top(y, 5)
        five += len(set(tx) & set(ty))
        if tx[0] != ty[0]:
            flips.append((name, position, tx[0], ty[0], x[tx[0]] - x[ty[0]], y[ty[0]] - y[tx[0]]))
    values = sorted(kl for kl, _, _ in kls)
    h = 0.99 * (len(values) - 1)
    low = int(h)
    high = min(low + 1, len(values) - 1)
    same("kl rows", (c["kl"]["rows"], c["kl"]["infinite_rows"]), (len(kls), 0))
    close("kl mean", c["kl"]["mean"], math.fsum(values) / len(values))
    close("kl p99", c["kl"]["p99"], values[low] + (h - low) * (values[high] - values[low]))
    close("kl max", c["kl"]["max"], values[-1])
    same("top-1", c["top1_agreement"], (len(rows) - len(flips)) / len(rows))
    same("top-5", c["top5_agreement"], five / (5 * len(rows)))
    same("flips", c["flips"]["count"], len(flips))
    flips.sort(key=lambda f: -f[4])
    for got, wanted in zip(c["flips"]["listed"], flips):
        same("flip", (got["request"], got["position"], got["reference"]["id"], got["arm"]["id"],
                      got["reference_margin"], got["arm_margin"]), wanted)
    for first, last, n, mean, largest in c["kl_by_position"]:
        bin_ = [kl for kl, _, position in kls if first <= position <= last]
        same("kl by position", n, len(bin_))
        close("kl by position", mean, math.fsum(bin_) / n)
        close("kl by position", largest, max(bin_))


def perplexities(rows, c):
    pairs = [(lse(x) - x[t], lse(y) - y[t]) for _, _, x, y, t in rows if t is not None]
    n, p = len(pairs), c["perplexity"]
    mean_x, mean_y = math.fsum(x for x, _ in pairs) / n, math.fsum(y for _, y in pairs) / n
    ppl_x, ppl_y = math.exp(mean_x), math.exp(mean_y)

    def error(values):
        mean = math.fsum(values) / n
        return math.sqrt(math.fsum((v - mean) ** 2 for v in values) / (n - 1) / n)
    same("tokens", p["tokens"], n)
    for key, wanted in (("nll_reference", mean_x), ("nll_arm", mean_y), ("reference", ppl_x), ("arm", ppl_y),
                        ("nll_delta", math.fsum(y - x for x, y in pairs) / n), ("delta", ppl_y - ppl_x),
                        ("nll_delta_se", error([y - x for x, y in pairs])),
                        ("delta_se", error([ppl_y * y - ppl_x * x for x, y in pairs]))):
        close(key, p[key], wanted)


def check_comparison(c, folder, phase, index, logits):
    """c: the comparison; folder: the sweep's; index: of the arm's own rows, or None."""
    arm_rows = generated(folder / "arms" / index / phase / "rows.jsonl") if index and phase == "free" else {}
    rows, apart = rows_of(folder, phase, logits, arm_rows)
    same("rows", (c["rows"], c["rows_apart"], c["requests"]), (len(rows), apart, len(logits)))
    same("rows_different", c["rows_different"],
         sum(struct.pack("<%df" % len(x), *x) != struct.pack("<%df" % len(y), *y) for _, _, x, y, _ in rows))
    for name, position, x, y, _ in rows:
        bits = [i for i, (a, b) in enumerate(zip(x, y)) if struct.pack("<f", a) != struct.pack("<f", b)]
        if bits:
            same("first difference", c["first_difference"],
                 {"request": name, "position": position, "element": bits[0], "reference": x[bits[0]],
                  "arm": y[bits[0]]})
            break
    elements(rows, c)
    distributions(rows, c)
    perplexities(rows, c)
