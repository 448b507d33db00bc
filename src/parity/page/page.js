"use strict";
// Draws the report from the JSON in the page. Texts become text nodes only, never markup.

const data = JSON.parse(document.getElementById("data").textContent);
const report = data.report;
const PHASES = ["free", "forced"];
const SVG = "http://www.w3.org/2000/svg";

function element(space, tag, attributes, children) {
    const made = space ? document.createElementNS(space, tag) : document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {}))
        made.setAttribute(name, value);
    for (const child of children.flat(Infinity))
        if (child !== null && child !== undefined)
            made.append(child);
    return made;
}
const h = (tag, attributes, ...children) => element(null, tag, attributes, children);
const s = (tag, attributes, ...children) => element(SVG, tag, attributes, children);

// ---- numbers as words ----------------------------------------------------------------------

function figure(x, digits = 3) {
    if (x === null || x === undefined)
        return "–";
    if (Number.isInteger(x))
        return x.toLocaleString("en-US");
    const size = Math.abs(x);
    return size !== 0 && (size < 1e-3 || size >= 1e6) ? x.toExponential(digits - 1) : x.toPrecision(digits);
}
const percent = (x) => (x === null || x === undefined ? "–" : (100 * x).toFixed(2) + " %");
const seconds = (x) => (x === null || x === undefined ? "–" : x.toFixed(2) + " s");
const settingsOf = (arm) => Object.entries(arm.settings).map(([key, value]) => key + " " + value);

function differing(arm) {
    const usual = report.reference.settings;
    const own = Object.entries(arm.settings).filter(([key, value]) => usual[key] !== value);
    const gone = Object.keys(usual).filter((key) => !(key in arm.settings));
    return [...own.map(([key, value]) => key + " " + value), ...gone.map((key) => key + " not set"),
            ...Object.entries(arm.env).map(([key, value]) => key + "=" + value),
            ...(arm.binary ? ["binary " + arm.binary] : []), ...(arm.dump ? ["dump " + arm.dump] : [])].join(", ");
}

function tokenWords(token) {
    if (!token)
        return "(end)";
    return token.text === null ? "id " + token.id : JSON.stringify(token.text) + " (" + token.id + ")";
}

// ---- charts --------------------------------------------------------------------------------

const W = 520, H = 230, LEFT = 62, RIGHT = 12, TOP = 12, BOTTOM = 40;

function frame(label, xTitle, yTicks, y) {
    const svg = s("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": label });
    for (const [value, text] of yTicks) {
        svg.append(s("line", { class: "grid", x1: LEFT, x2: W - RIGHT, y1: y(value), y2: y(value) }),
                   s("text", { x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" }, text));
    }
    svg.append(s("text", { x: (LEFT + W - RIGHT) / 2, y: H - 4, "text-anchor": "middle" }, xTitle));
    return svg;
}

function captioned(title, note, svg) {
    return h("figure", {}, h("figcaption", {}, title, " ", h("span", { class: "soft" }, note)), svg);
}

function histogram(ulps) {
    const total = ulps.counts.reduce((a, b) => a + b, 0);
    const top = Math.max(...ulps.counts) / total;
    const y = (v) => H - BOTTOM - (v / top) * (H - TOP - BOTTOM);
    const svg = frame("ULP histogram", "distance in steps of float32 (at most)",
                      [0, top / 2, top].map((v) => [v, (100 * v).toPrecision(2) + " %"]), y);
    const step = (W - LEFT - RIGHT) / ulps.counts.length;
    ulps.counts.forEach((count, i) => {
        const x = LEFT + i * step, bound = ulps.upper[i];
        const name = bound < 1024 ? String(bound) : "2^" + Math.round(Math.log2(bound));
        svg.append(s("rect", { class: "bar", x: x + 1, width: Math.max(1, step - 2), y: y(count / total),
                               height: H - BOTTOM - y(count / total) }));
        if (i % Math.ceil(ulps.counts.length / 8) === 0)
            svg.append(s("text", { x: x + step / 2, y: H - BOTTOM + 16, "text-anchor": "middle" }, name));
        svg.append(s("rect", { class: "hit", x, width: step, y: TOP, height: H - TOP - BOTTOM },
                     s("title", {}, `at most ${name}: ${figure(count)} elements, ${percent(count / total)}`)));
    });
    return captioned("ULP histogram", "share of elements", svg);
}

// points: [{x, values: [first, second], title, name}]; y is logarithmic, and zeros are left out.
function curves(title, note, xTitle, points) {
    const all = points.flatMap((p) => p.values).filter((v) => v > 0);
    if (!all.length)
        return null;
    const low = Math.floor(Math.log10(Math.min(...all))), high = Math.max(low + 1, Math.ceil(Math.log10(Math.max(...all))));
    const y = (v) => H - BOTTOM - ((Math.log10(v) - low) / (high - low)) * (H - TOP - BOTTOM);
    const first = points[0].x, last = points[points.length - 1].x;
    const x = (v) => (last > first ? LEFT + 8 + ((v - first) / (last - first)) * (W - LEFT - RIGHT - 16) : (LEFT + W - RIGHT) / 2);
    const every = Math.ceil((high - low) / 6);
    const ticks = Array.from({ length: high - low + 1 }, (_, i) => low + i).filter((e) => (e - low) % every === 0);
    const svg = frame(title, xTitle, ticks.map((e) => [10 ** e, "1e" + e]), y);
    ["curve second", "curve"].forEach((kind, back) => {
        const own = points.map((p) => [x(p.x), p.values[1 - back]]).filter(([, v]) => v > 0);
        svg.append(s("path", { class: kind, d: own.map(([at, v], i) => (i ? "L" : "M") + at.toFixed(1) + " " + y(v).toFixed(1)).join("") }));
        own.forEach(([at, v]) => svg.append(s("circle", { class: back ? "dot" : "dot second", cx: at, cy: y(v), r: points.length > 40 ? 1.5 : 3 })));
    });
    const width = Math.max(4, (W - LEFT - RIGHT) / points.length);
    points.forEach((p, i) => {
        if (i % Math.ceil(points.length / 8) === 0)
            svg.append(s("text", { x: x(p.x), y: H - BOTTOM + 16, "text-anchor": "middle" }, p.name));
        svg.append(s("rect", { class: "hit", x: x(p.x) - width / 2, width, y: TOP, height: H - TOP - BOTTOM }, s("title", {}, p.title)));
    });
    return captioned(title, note, svg);
}

const legend = (first, second) =>
    [h("span", { class: "key" }), first, h("span", { class: "key second" }), second];

function klByPosition(bins) {
    return curves("KL divergence by position", legend("mean", "largest"), "position",
                  bins.map(([from, to, rows, mean, max]) => ({
                      x: from, values: [mean, max], name: String(from),
                      title: `positions ${from} to ${to}: mean ${figure(mean)}, largest ${figure(max)}, ${rows} rows` })));
}

function growth(located) {
    const layers = (located.growth || []).map((g, i) => ({
        x: i, values: [g.rms, g.max_abs], name: g.layer === "embedding" ? "emb" : g.layer === "final_norm" ? "norm" : String(g.layer),
        title: `${g.layer}: rms ${figure(g.rms)}, largest ${figure(g.max_abs)}, ${figure(g.different)} of ${figure(g.elements)} elements differ` }));
    return layers.length ? curves("Error by layer", legend("rms", "largest"), "output of layer", layers) : null;
}

// ---- the parts of the page -----------------------------------------------------------------

function banner() {
    const words = { equal: "Equal, bit for bit", different: "Different", failed: "An arm failed" };
    const c = report.counts;
    return h("div", { class: "card verdict " + report.verdict },
             h("strong", { class: "status " + report.verdict }, words[report.verdict]),
             h("span", {}, `${c.equal} of ${c.arms} arms equal, ${c.different} different, ${c.failed} failed`));
}

function facts() {
    const model = report.model;
    return h("p", { class: "soft" },
             `Reference: ${report.reference.name} (${settingsOf(report.reference).join(", ")}). `,
             model ? `Model: ${model.name}, ${model.family}. ` : null,
             `${figure(report.prompts.requests)} requests of ${report.prompts.file}. Mode: ${report.mode}. lockstep ${report.version}.`);
}

const COLUMNS = [
    ["rows that differ", (c) => `${figure(c.rows_different)} of ${figure(c.rows)}`],
    ["largest", (c) => figure(c.max_abs)],
    ["max ULP", (c) => figure(c.max_ulp)],
    ["mean KL", (c) => figure(c.kl.mean)],
    ["largest KL", (c) => figure(c.kl.max)],
    ["top-1", (c) => percent(c.top1_agreement)],
    ["flips", (c) => figure(c.flips.count)],
    ["perplexity ±", (c) => (c.perplexity ? `${figure(c.perplexity.delta)} ± ${figure(c.perplexity.delta_se, 2)}` : "–")],
    ["texts", (c) => (c.generated ? `${figure(c.generated.equal)} of ${figure(c.generated.texts)}` : "–")],
];

function armRow(arm, i, phase) {
    const cell = (label, text, kind) => h("td", { "data-label": label, class: kind || "" }, text);
    const c = arm[phase];
    const status = !c ? arm.status : c.equal ? "equal" : "different";
    return h("tr", { class: status }, h("td", { class: "text" }, h("a", { href: "#arm-" + (i + 1) }, arm.name)), cell("mode", phase, "left"),
             h("td", { "data-label": "result", class: "left" }, h("span", { class: "status " + status }, status)),
             COLUMNS.map(([label, of]) => cell(label, c ? of(c) : "–")));
}

function armTable() {
    const rows = report.arms.flatMap((arm, i) => {
        const own = PHASES.filter((phase) => arm[phase]);
        return (own.length ? own : ["–"]).map((phase) => armRow(arm, i, phase));
    });
    const head = ["arm", "mode", "result", ...COLUMNS.map(([label]) => label)];
    return h("div", { class: "card scroll" },
             h("table", { class: "arms" }, h("thead", {}, h("tr", {}, head.map((label, i) => h("th", i < 3 ? { class: "left" } : {}, label)))),
               h("tbody", {}, rows)));
}

function times() {
    const list = (data.timings ? data.timings.arms : []).map((arm) => ({
        name: arm.name, total: PHASES.reduce((sum, phase) => sum + (arm[phase] ? arm[phase].wall_s : 0), 0),
        parts: PHASES.filter((phase) => arm[phase]).map((phase) => `${phase} ${seconds(arm[phase].wall_s)}`).join(", ") }));
    const longest = Math.max(...list.map((arm) => arm.total));
    if (!(longest > 0))
        return [];
    return [h("h2", {}, "Time by arm"), h("p", { class: "soft" }, "From start to end of each arm's runs, in seconds."),
            h("div", { class: "card" }, list.map((arm) =>
                h("div", { class: "time", title: arm.parts }, h("span", { class: "name" }, arm.name),
                  h("div", { class: "track" }, h("div", { class: "fill", style: `width: ${(100 * arm.total / longest).toFixed(2)}%` })),
                  h("span", { class: "value" }, arm.total ? seconds(arm.total) : "–"))))];
}

function flipTable(flips) {
    if (!flips.listed.length)
        return null;
    const head = ["request", "position", "reference", "its margin", "arm", "its margin"];
    return [h("h3", {}, `Top-1 flips (${figure(flips.count)}` + (flips.count > flips.listed.length ? `, the ${flips.listed.length} with the largest margins)` : ")")),
            h("div", { class: "scroll" }, h("table", {}, h("thead", {}, h("tr", {}, head.map((t, i) => h("th", i % 2 ? {} : { class: "left" }, t)))),
              h("tbody", {}, flips.listed.map((f) => h("tr", {}, h("td", { class: "text" }, f.request), h("td", {}, figure(f.position)),
                  h("td", { class: "left" }, h("code", {}, tokenWords(f.reference))), h("td", {}, figure(f.reference_margin)),
                  h("td", { class: "left" }, h("code", {}, tokenWords(f.arm))), h("td", {}, figure(f.arm_margin)))))))];
}

function comparisonWords(c) {
    const lines = [];
    const first = c.first_difference;
    if (first)
        lines.push(`First difference: request ${JSON.stringify(first.request)}, position ${first.position}, element ${first.element}: ` +
                   `${first.reference} in the reference, ${first.arm} in the arm.`);
    if (c.kl.max_at)
        lines.push(`KL: mean ${figure(c.kl.mean)}, 99th percentile ${figure(c.kl.p99)}, largest ${figure(c.kl.max)} at position ` +
                   `${c.kl.max_at.position} of ${JSON.stringify(c.kl.max_at.request)}. RMS ${figure(c.rms)}. Top-5 agreement ${percent(c.top5_agreement)}.`);
    if (c.first_mismatch)
        lines.push(`Not comparable: ${c.first_mismatch}.`);
    if (c.only_reference || c.only_arm || c.errors_different)
        lines.push(`Requests in the reference alone: ${c.only_reference}; in the arm alone: ${c.only_arm}; other errors: ${c.errors_different}.`);
    if (c.rows_apart)
        lines.push(`${figure(c.rows_apart)} rows were not compared: the texts had parted before them.`);
    for (const d of (c.generated ? c.generated.diverged : []).slice(0, 8))
        lines.push(`Text of ${JSON.stringify(d.request)} parts at generated token ${d.index}: ${tokenWords(d.reference)}, arm ${tokenWords(d.arm)}.`);
    return lines.map((line) => h("p", {}, line));
}

function comparison(arm, phase) {
    const c = arm[phase];
    if (!c)
        return null;
    if (c.equal)
        return h("p", {}, h("strong", {}, phase + ": "), `equal, ${figure(c.rows)} rows of logits, ${figure(c.elements)} elements.`);
    return [h("h3", {}, phase), comparisonWords(c),
            h("div", { class: "charts" }, c.elements_different ? histogram(c.ulp_histogram) : null, klByPosition(c.kl_by_position)), flipTable(c.flips)];
}

function whereTheyPart(located) {
    if (!located)
        return null;
    if (located.why)
        return [h("h3", {}, "Where they part"), h("p", {}, `Not located: ${located.why}.`)];
    const d = located.difference;
    const where = located.equal ? "Located: equal, bit for bit."
        : `Located: request ${JSON.stringify(located.request)}` + (located.layer !== undefined ? `, layer ${located.layer}` : "") +
          (located.operation ? `, ${located.operation} (${located.words})` : "") +
          (d ? `, position ${d.position}, element ${d.element}: ${d.a} and ${d.b}` + (d.ulps !== null ? `, ${figure(d.ulps)} ulp of ${d.ulp_of}.` : ".") : ".");
    return [h("h3", {}, "Where they part"), h("p", {}, where),
            (located.causes || []).map((cause) => h("p", {}, `${cause.verified ? "Cause, verified" : "Possible cause"}: ${cause.name}: ${cause.text}`)),
            h("div", { class: "charts" }, growth(located))];
}

const quoted = (word) => (/^[\w\-./:=,{}@%+]+$/.test(word) ? word : "'" + word.replaceAll("'", "'\\''") + "'");
const commandOf = (words) => words.map((word) => quoted(word.replaceAll("{output}", data.folder))).join(" ");

function repeat(arm) {
    return PHASES.filter((phase) => arm.command[phase]).map((phase) =>
        [h("p", { class: "soft" }, `To repeat (${phase}):`), h("pre", {}, commandOf(arm.command[phase]))]);
}

function repeatSweep() {
    if (!data.timings || !data.timings.config)
        return [];
    return [h("h2", {}, "Repeat the sweep"),
            h("pre", {}, commandOf(["lockstep", "parity", "--config", data.timings.config, "--output", "{output}", "--fresh"]))];
}

function manifests(arm) {
    return PHASES.filter((phase) => data.manifests[arm.manifest[phase]]).map((phase) =>
        h("details", {}, h("summary", {}, `Manifest (${phase})`), h("pre", {}, JSON.stringify(data.manifests[arm.manifest[phase]], null, 1))));
}

function armDetails(arm, i) {
    return h("details", { class: "card arm", id: "arm-" + i, ...(arm.status && arm.status !== "equal" ? { open: "" } : {}) },
             h("summary", {}, arm.name, " ", arm.status ? h("span", { class: "status " + arm.status }, arm.status) : h("span", { class: "soft" }, "reference")),
             arm.reason ? h("p", { class: "status failed" }, arm.reason) : null,
             h("p", { class: "soft" }, i && differing(arm) ? "Other than the reference: " + differing(arm) : settingsOf(arm).join(", ")),
             arm.status ? PHASES.map((phase) => comparison(arm, phase)) : null, whereTheyPart(data.locate[i]), repeat(arm), manifests(arm));
}

function openTarget() {
    const target = document.getElementById(window.location.hash.slice(1));
    if (target && target.tagName === "DETAILS")
        target.open = true;
}

document.title = `${report.name}: ${report.verdict}`;
document.querySelector("main").append(
    h("h1", {}, "Parity of " + report.name), banner(), facts(), h("h2", {}, "Arms"), armTable(), ...times(),
    h("h2", {}, "Each arm"), ...[report.reference, ...report.arms].map(armDetails), ...repeatSweep());
window.addEventListener("hashchange", openTarget);
window.addEventListener("beforeprint", () => document.querySelectorAll("details.arm").forEach((d) => { d.open = true; }));
openTarget();
