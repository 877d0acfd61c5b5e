/** Draws the graph of an automaton as SVG: closed runs are one edge. */

import { svg, visible } from "./dom.js";
import { layered } from "./layered.js";

const RADIUS = 15;
const MARGIN = 46;
const ROW = 66;
const GAP = 84;
const CHARACTER = 7.3;
const LONGEST = 26;

function shortened(text) {
  const characters = [...text];
  return characters.length > LONGEST ? `${characters.slice(0, LONGEST - 1).join("")}\u2026` : text;
}

/** Returns the states and edges that are drawn, by their numbers in the drawing. */
function drawn(found, open) {
  const hidden = new Set();
  const edges = [];
  found.runs.forEach((run, at) => {
    if (open.has(at)) return;
    run.states.slice(0, -1).forEach((state) => hidden.add(state));
    hidden.delete(run.states[0]);
    edges.push({ from: run.states[0], to: run.states[run.states.length - 1], run: at,
      label: shortened(visible(run.text)), full: `run of ${run.bytes} bytes: ${visible(run.text)}` });
  });
  const closed = new Set(found.runs.filter((_, at) => !open.has(at)).flatMap((run) => run.states.slice(0, -1)));
  const runOf = new Map();
  found.runs.forEach((run, at) => { if (open.has(at)) runOf.set(run.states[0], at); });
  found.states.forEach((state, from) => {
    if (closed.has(from)) return;
    for (const edge of state.edges) {
      edges.push({ from, to: edge.to, run: runOf.get(from), opened: runOf.has(from), label: shortened(edge.label),
        full: `${edge.label} from ${from} to ${edge.to === null ? "a state not shown" : edge.to}` });
    }
  });
  const states = [...found.states.keys()].filter((state) => !hidden.has(state));
  const number = new Map(states.map((state, at) => [state, at]));
  return { states, edges: edges.map((edge) => ({ ...edge, a: number.get(edge.from), b: number.get(edge.to) })) };
}

/** Returns the path of an edge through the points of its route, up to the rims of the circles. */
function path(route) {
  const points = route.map((p) => ({ ...p }));
  const pull = (point, other, by) => {
    const length = Math.hypot(other.x - point.x, other.y - point.y) || 1;
    return { x: point.x + ((other.x - point.x) * by) / length, y: point.y + ((other.y - point.y) * by) / length };
  };
  const last = points.length - 1;
  const ends = [pull(points[0], points[1], RADIUS), pull(points[last], points[last - 1], RADIUS + 6)];
  [points[0], points[last]] = ends;
  let d = `M ${points[0].x} ${points[0].y}`;
  for (let i = 1; i < points.length; i += 1) {
    const [from, to] = [points[i - 1], points[i]];
    const middle = (from.x + to.x) / 2;
    d += ` C ${middle} ${from.y}, ${middle} ${to.y}, ${to.x} ${to.y}`;
  }
  return d;
}

/** Returns an element that acts as a button. */
function act(node, run) {
  node.setAttribute("tabindex", "0");
  node.setAttribute("role", "button");
  node.addEventListener("click", run);
  node.addEventListener("keydown", (event) => {
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      run();
    }
  });
  return node;
}

/** Returns a label at a place, or below the labels that are there. */
function label(edge, x, wanted, placed) {
  const width = [...edge.label].length * CHARACTER + 8;
  const isTaken = (at) => placed.some((other) => Math.abs(other.x - x) < (other.width + width) / 2 && Math.abs(other.y - at) < 19);
  let y = wanted;
  while (isTaken(y)) y += 6;
  placed.push({ x, y, width });
  return [svg("rect", { class: "edge-label", x: x - width / 2, y: y - 10, width, height: 18, rx: 4 }),
    svg("text", { class: "edge-text", x, y: y + 4, "text-anchor": "middle" }, edge.label)];
}

/** Returns a route with a bend below its middle. */
function below([from, to]) {
  return [from, { x: (from.x + to.x) / 2, y: Math.max(from.y, to.y) + ROW / 2 }, to];
}

function drawEdge(edge, route, isBack, actions, placed) {
  const kinds = ["edge", edge.run !== undefined && !edge.opened && "run", edge.opened && "opened", isBack && "back"];
  const group = svg("g", { class: kinds.filter(Boolean).join(" ") }, svg("title", {}, edge.full));
  const from = route.at(0);
  if (route.length === 1) {
    // A loop, above its state; or an arrow to a state that is not shown.
    const d = edge.to === null
      ? `M ${from.x} ${from.y + RADIUS} v 18`
      : `M ${from.x - 8} ${from.y - RADIUS + 2} C ${from.x - 26} ${from.y - 46}, ${from.x + 26} ${from.y - 46}, ${from.x + 9} ${from.y - RADIUS - 3}`;
    group.append(svg("path", { d, "marker-end": "url(#arrow)" }));
    if (edge.to !== null) group.append(...label(edge, from.x, from.y - 40, placed));
  } else {
    // A short way back would lie on the way there.
    const bent = isBack && route.length === 2 ? below(route) : route;
    group.append(svg("path", { d: path(bent), "marker-end": "url(#arrow)" }));
    const middle = (bent.length - 1) / 2;
    const [a, b] = [bent[Math.floor(middle)], bent[Math.ceil(middle)]];
    group.append(...label(edge, (a.x + b.x) / 2, (a.y + b.y) / 2, placed));
  }
  if (edge.run === undefined) return group;
  group.dataset.run = edge.run;
  group.setAttribute("aria-expanded", String(Boolean(edge.opened)));
  group.setAttribute("aria-label", edge.opened ? `Close the run that begins here` : `Open the ${edge.full}`);
  return act(group, () => actions.onRun(edge.run));
}

function drawState(found, state, spot, actions) {
  const { accepting, legal_tokens: legal } = found.states[state];
  const group = svg("g", { class: accepting ? "state accepting" : "state", data: { state } },
    svg("title", {}, `state ${state}, ${legal} legal tokens${accepting ? ", the output may end" : ""}`),
    svg("circle", { cx: spot.x, cy: spot.y, r: RADIUS }),
    accepting && svg("circle", { cx: spot.x, cy: spot.y, r: RADIUS - 4, class: "inner" }),
    svg("text", { x: spot.x, y: spot.y + 4, "text-anchor": "middle" }, state),
    svg("text", { x: spot.x, y: spot.y + RADIUS + 13, "text-anchor": "middle", class: "count" }, legal));
  group.setAttribute("aria-label", `State ${state}${accepting ? ", the output may end" : ""}, ${legal} legal tokens`);
  return act(group, () => actions.onState(state));
}

/**
 * Returns the drawing.
 * @param {object} found the answer of the endpoint
 * @param {Set<number>} open the runs that are drawn state by state
 * @param {{onState: function(number), onRun: function(number)}} actions
 */
export function drawGraph(found, open, actions) {
  const { states, edges } = drawn(found, open);
  const inner = edges.filter((edge) => edge.b !== undefined);
  const sized = inner.map((edge) => ({ from: edge.a, to: edge.b, width: [...edge.label].length * CHARACTER + 62 }));
  const place = layered(states.length, sized, { row: ROW, gap: GAP });
  const shift = (p) => ({ x: p.x + MARGIN, y: p.y + MARGIN + 14 });
  const spots = place.nodes.map(shift);
  const [width, height] = [place.width + 2 * MARGIN, place.height + 2 * MARGIN + 24];
  const placed = [];
  const lines = inner.map((edge, at) => {
    const route = place.routes[at].map(shift);
    return drawEdge(edge, route.length > 1 ? route : [spots[edge.a]], place.back.has(at), actions, placed);
  });
  const further = edges.filter((edge) => edge.b === undefined).map((edge) => drawEdge(edge, [spots[edge.a]], false, actions, placed));
  const marker = svg("defs", {}, svg("marker", {
    id: "arrow", viewBox: "0 0 10 10", refX: 8, refY: 5, markerWidth: 8, markerHeight: 8, orient: "auto-start-reverse",
    markerUnits: "userSpaceOnUse",
  }, svg("path", { d: "M 0 0 L 10 5 L 0 10 z" })));
  return svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "group",
    "aria-label": `Graph with ${states.length} states` },
  marker, lines, further, states.map((state, at) => drawState(found, state, spots[at], actions)));
}
