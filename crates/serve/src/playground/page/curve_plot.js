/** Draws the speedup by the deterministic fraction as SVG, on a logarithmic axis. */

import { svg } from "./dom.js";

const WIDTH = 640;
const HEIGHT = 380;
const LEFT = 48;
const RIGHT = 18;
const TOP = 16;
const BOTTOM = 44;
const LOWEST = 0.7;
const HIGHEST = 40;
const TICKS = [1, 1.5, 2, 3, 5, 10, 20, 40];

const x = (f) => LEFT + f * (WIDTH - LEFT - RIGHT);
const y = (speedup) => {
  const place = Math.log(Math.min(Math.max(speedup, LOWEST), HIGHEST) / LOWEST) / Math.log(HIGHEST / LOWEST);
  return HEIGHT - BOTTOM - place * (HEIGHT - TOP - BOTTOM);
};

function axes() {
  const across = TICKS.map((tick) => [
    svg("line", { class: tick === 1 ? "axis" : "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: y(tick), y2: y(tick) }),
    svg("text", { x: LEFT - 8, y: y(tick) + 4, "text-anchor": "end" }, tick),
  ]);
  const down = [0, 0.2, 0.4, 0.6, 0.8, 1].map((tick) => [
    svg("line", { class: "grid", x1: x(tick), x2: x(tick), y1: TOP, y2: HEIGHT - BOTTOM }),
    svg("text", { x: x(tick), y: HEIGHT - BOTTOM + 18, "text-anchor": "middle" }, tick),
  ]);
  return [across, down,
    svg("text", { class: "name", x: x(0.5), y: HEIGHT - 8, "text-anchor": "middle" }, "deterministic fraction f"),
    svg("text", { class: "name", x: 12, y: (HEIGHT - BOTTOM) / 2, "text-anchor": "middle",
      transform: `rotate(-90 12 ${(HEIGHT - BOTTOM) / 2})` }, "speedup")];
}

/** Returns a mark whose form differs by the kind of the point. */
function mark(point) {
  const [cx, cy] = [x(point.f), y(point.y)];
  const text = svg("title", {}, `${point.name}: f ${point.f.toFixed(3)}, ${point.y.toFixed(2)} times`);
  const options = { class: `mark-${point.kind}` };
  if (point.kind === "here") return svg("circle", { ...options, cx, cy, r: 6 }, text);
  if (point.kind === "exact") return svg("rect", { ...options, x: cx - 4, y: cy - 4, width: 8, height: 8 }, text);
  return svg("path", { ...options, d: `M ${cx} ${cy - 5} l 5 9 h -10 z` }, text);
}

/**
 * Returns the plot.
 * @param {{kind: string, name: string, points: {f: number, y: number}[]}[]} lines
 * @param {{kind: string, name: string, f: number, y: number}[]} points
 * @param {number} chosen the fraction of the slider
 */
export function drawCurve(lines, points, chosen) {
  const path = (line) => svg("path", {
    class: `line ${line.kind}`, d: line.points.map((p, at) => `${at === 0 ? "M" : "L"} ${x(p.f)} ${y(p.y)}`).join(" "),
  }, svg("title", {}, line.name));
  return svg("svg", { class: "curve", width: WIDTH, height: HEIGHT, viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img",
    "aria-label": "Speedup by the deterministic fraction; the numbers are in the table below" },
  axes(), lines.map(path),
  svg("line", { class: "chosen", x1: x(chosen), x2: x(chosen), y1: TOP, y2: HEIGHT - BOTTOM }),
  points.map(mark));
}
