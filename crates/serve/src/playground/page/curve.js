/** The tab "Curve": the speedup by the share of forced tokens. */

import { el, errorBox, field, svg, table } from "./dom.js";
import { plot } from "./plot.js";

export const title = "Curve";

const COMMAND = "ffwd bench fraction --html fraction.html --json fraction.json";
const STEPS = 50;
const MOST = 0.98;
const WIDTH = 640;
const AXES = {
  x: { label: "deterministic fraction f", low: 0, high: 1 },
  y: { label: "speedup", low: 0.7, high: 40, log: true },
};
const SHAPES = { here: "circle", exact: "square", file: "triangle" };

/** Returns the cost of m rows in forwards of one row, with straight lines between measured sizes. */
export function costOf(points, m) {
  if (points.length === 0) return 1;
  const at = points.findIndex((point) => point.rows >= m);
  if (at === 0) return points[0].ratio;
  if (at < 0) {
    const last = points[points.length - 1];
    return (last.ratio * m) / last.rows;
  }
  const [low, high] = [points[at - 1], points[at]];
  return low.ratio + ((high.ratio - low.ratio) * (m - low.rows)) / (high.rows - low.rows);
}

/** Returns the least cost of verifying `tokens` tokens, cut into forwards in the best way. */
export function leastCost(points, tokens) {
  const best = [0];
  for (let n = 1; n <= tokens; n += 1) {
    best[n] = Infinity;
    for (let rows = 1; rows <= n; rows += 1) best[n] = Math.min(best[n], best[n - rows] + costOf(points, rows));
  }
  return best[tokens];
}

/** Returns the speedup if each forced token costs `ratio` forwards. */
export function withPrefill(f, ratio) {
  return 1 / (1 - f + f * ratio);
}

/**
 * Returns the speedup if forced runs of `run` tokens are verified with the free token after them, by
 * the forwards of this machine. Runs are longer where free tokens are too few.
 */
export function withForwards(points, f, run) {
  if (f <= 0) return 1;
  const length = Math.max(run, Math.floor(f / (1 - f)));
  const free = (length * (1 - f)) / f;
  return (length + free) / (leastCost(points, length + 1) + Math.max(0, free - 1));
}

/** Returns the points of a file of `ffwd bench fraction --json`. */
export function pointsOfFile(text) {
  const report = JSON.parse(text);
  if (!Array.isArray(report.points)) throw new Error("this is no file of ffwd bench fraction --json");
  const points = [];
  for (const point of report.points) {
    for (const arm of point.arms) {
      const speedup = Number(arm.speedup?.median);
      if (arm.arm !== "off" && Number.isFinite(speedup)) {
        points.push({ f: Number(point.fraction), y: speedup, name: `file: ${arm.arm}`, kind: arm.arm === "exact" ? "exact" : "file" });
      }
    }
  }
  return points;
}

/** The sliders, the curves and the points. */
class CurveTab {
  #measured = [];
  #file = [];
  #costs = [];
  #model = null;
  #stop = null;

  constructor(api) {
    this.api = api;
    const slider = (id, options) => el("input", { type: "range", id, oninput: () => this.draw(), ...options });
    this.fraction = slider("curve-fraction", { min: 0, max: 98, value: "60" });
    this.ratio = slider("curve-ratio", { min: 0, max: 100, value: "10" });
    this.run = slider("curve-run", { min: 1, max: 24, value: "8" });
    this.readout = el("div", { class: "readout", "aria-live": "polite", id: "curve-readout" });
    this.plot = el("div", { class: "scroll graph", tabindex: 0, role: "region", "aria-label": "Plot of the speedup" });
    this.numbers = el("details", { class: "card" });
    this.notes = el("div", { class: "stack" });
    this.measureButton = el("button", { type: "button", id: "curve-measure", onclick: () => this.measure() }, "Measure here");
    this.stopButton = el("button", { type: "button", class: "quiet", disabled: true, onclick: () => this.#stop?.abort() }, "Stop");
  }

  node() {
    const file = el("input", { type: "file", accept: ".json,application/json", id: "curve-file", onchange: () => this.read(file.files[0]) });
    const copied = el("span", { class: "note", role: "status" });
    const copy = async () => {
      try {
        await navigator.clipboard.writeText(COMMAND);
        copied.textContent = "copied";
      } catch {
        copied.textContent = "select it and copy it by hand";
      }
    };
    return el("div", { class: "split" },
      el("div", { class: "stack" },
        el("p", {}, "Where a constraint leaves no choice, tokens need no forward of their own. So the share of forced tokens, ",
          "the deterministic fraction f, bounds what can be gained."),
        field("Deterministic fraction f", this.fraction),
        field("Cost of a forced token, in per cent of a forward", this.ratio, "Forced text is read like a prompt: cheap, not free."),
        field("Tokens in a forced run", this.run),
        el("div", { class: "actions" }, this.measureButton, this.stopButton),
        el("p", { class: "note" }, "Measures five small records of rising fraction with the chosen model, each with and without drafts of forced runs."),
        field("Results of ffwd bench fraction", file, "A JSON file; it stays in this page."),
        el("div", { class: "row" }, el("code", { id: "curve-command" }, COMMAND),
          el("button", { type: "button", class: "quiet", onclick: copy }, "Copy"), copied)),
      el("div", { class: "stack" }, this.readout, this.plot, this.notes, this.numbers));
  }

  get #f() {
    return Number(this.fraction.value) / 100;
  }

  draw() {
    const [f, ratio, run] = [this.#f, Number(this.ratio.value) / 100, Number(this.run.value)];
    const xs = Array.from({ length: STEPS + 1 }, (_, at) => (MOST * at) / STEPS);
    const curves = [
      { kind: "ceiling", name: "1/(1-f): forced tokens cost nothing", of: (x) => 1 / (1 - x) },
      { kind: "prefill", name: `a forced token costs ${(100 * ratio).toFixed(0)} % of a forward`, of: (x) => withPrefill(x, ratio) },
    ];
    if (this.#costs.length > 0) {
      curves.push({ kind: "machine", name: `forwards of this machine, runs of ${run}`, of: (x) => withForwards(this.#costs, x, run) });
    }
    const lines = curves.map((curve) => ({ ...curve, line: true, points: xs.map((x) => ({ x, y: curve.of(x) })) }));
    const points = [...this.#file, ...this.#measured];
    const marks = points.map(({ f: x, y, name, kind }) => ({
      name, kind, shape: SHAPES[kind], points: [{ x, y, title: `${name}: f ${x.toFixed(3)}, ${y.toFixed(2)} times` }],
    }));
    const label = "Speedup by the deterministic fraction; the numbers are in the table below";
    this.plot.replaceChildren(plot(svg, { label, ...AXES, rule: f, series: [...lines, ...marks] }, { width: WIDTH, class: "curve" }));
    this.readout.replaceChildren(
      el("p", {}, el("strong", {}, `f = ${f.toFixed(2)}`), `: of 100 tokens, ${Math.round(100 * f)} are forced.`),
      el("ul", {}, curves.map((curve) => el("li", { class: `key ${curve.kind}` }, `${curve.name}: `,
        el("strong", {}, `${curve.of(f).toFixed(2)} times`)))));
    this.#table(lines, points);
  }

  #table(lines, points) {
    const rows = [0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95].map((f) =>
      [f, ...lines.map((line) => line.of(f).toFixed(2))]);
    const measured = points.map((point) => [point.f.toFixed(3), point.y.toFixed(2), point.name, point.note ?? ""]);
    const costs = this.#costs.map((point) => [point.rows, point.ms.toFixed(3), point.ratio.toFixed(2)]);
    const open = this.numbers.open;
    this.numbers.replaceChildren(el("summary", {}, "The numbers"),
      el("h3", {}, "Curves"), table("Speedup by curve", ["f", ...lines.map((line) => line.name)], rows),
      el("h3", {}, "Points"), table("Measured points", ["f", "Speedup", "From", "Details"], measured),
      el("h3", {}, "Forwards"), table("Forwards by rows", ["Tokens", "Milliseconds", "Forwards of one token"], costs));
    this.numbers.open = open;
  }

  /** Asks what forwards of the chosen model cost. */
  async load() {
    const model = this.api.model;
    if (this.#model === model) return;
    this.#model = model;
    this.#measured = [];
    try {
      this.#costs = (await this.api.post("curve", { model })).points;
      this.notes.replaceChildren();
    } catch (error) {
      this.#costs = [];
      this.#model = null;
      this.notes.replaceChildren(errorBox(error));
    }
    this.draw();
  }

  /** Measures one schema after the other, and shows each point as it comes. */
  async measure() {
    this.#stop = new AbortController();
    this.#measured = [];
    this.measureButton.disabled = true;
    this.stopButton.disabled = false;
    try {
      for (let schema = 0; schema < 5; schema += 1) {
        const got = await this.api.post("curve/measure", { model: this.api.model, schema }, this.#stop.signal);
        const [off, forced] = got.forwards;
        this.#measured.push({ f: got.fraction, y: got.speedup, kind: "here", name: `measured here, schema ${schema + 1}`,
          note: `${got.tokens} tokens, ${off} forwards without drafts, ${forced} with; ${got.same_text ? "same text" : "other text"}` });
        this.draw();
      }
      this.notes.replaceChildren(el("p", { class: "note", role: "status" }, "5 points measured."));
    } catch (error) {
      if (error.name !== "AbortError") this.notes.replaceChildren(errorBox(error));
    } finally {
      this.measureButton.disabled = false;
      this.stopButton.disabled = true;
    }
  }

  async read(file) {
    if (!file) return;
    try {
      this.#file = pointsOfFile(await file.text());
      this.notes.replaceChildren(el("p", { class: "note", role: "status" }, `${this.#file.length} points of ${file.name}.`));
    } catch (error) {
      this.#file = [];
      this.notes.replaceChildren(errorBox(error));
    }
    this.draw();
  }
}

/**
 * Builds the tab when it is first shown.
 * @param {HTMLElement} root the empty panel
 * @param {import("./api.js").Api} api
 */
export function mount(root, api) {
  const tab = new CurveTab(api);
  root.append(tab.node());
  tab.draw();
  tab.load();
  window.addEventListener("model", () => tab.load());
}
