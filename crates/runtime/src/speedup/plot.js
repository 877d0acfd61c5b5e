/**
 * Draws lines and marks over two axes as SVG: the plots of `ffwd bench` and of the playground.
 *
 * @typedef {{x: number, y: number, low?: number, high?: number, size?: number, title?: string}} Point
 *   quartiles, the radius of a circle and the title are optional
 * @typedef {{label: string, low: number, high: number, log?: boolean, percent?: boolean}} Axis
 * @typedef {{name: string, kind?: string, color?: string, dash?: string, line?: boolean, shape?: string, points: Point[]}} Series
 *   `line` joins the points; `shape` marks each of them with a circle, square or triangle
 * @typedef {{label: string, x: Axis, y: Axis, series: Series[], names?: string[], rule?: number, legend?: boolean}} Figure
 *   with `names`, y counts named lines from the top and quartiles lie along x; `rule` is an upright line
 */

const TICKS = 8;
const ROW = 18;

const escaped = (text) => String(text).replace(/[&<>"]/g, (c) => `&#${c.charCodeAt(0)};`);

/** Makes an element as a text: a tag, its attributes, and its content. */
export function textElement(tag, attributes, ...content) {
  const given = Object.entries(attributes).filter(([, value]) => value !== undefined && value !== null);
  const open = [tag, ...given.map(([name, value]) => `${name}="${escaped(value)}"`)].join(" ");
  const inner = content.flat(Infinity).map((part) => (part?.markup === undefined ? escaped(part ?? "") : part.markup));
  return { markup: `<${open}>${inner.join("")}</${tag}>` };
}

/** Returns values within an axis at round steps; 1, 2 and 5 of each power of ten on a logarithmic one. */
export function ticks({ low, high, log }) {
  const found = [];
  if (log) {
    for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power += 1) {
      found.push(...[1, 2, 5].map((digit) => digit * 10 ** power));
    }
  } else {
    const power = 10 ** Math.floor(Math.log10((high - low) / TICKS));
    const step = [1, 2, 5, 10].find((digit) => digit * power * TICKS >= high - low - 1e-9) * power;
    for (let n = Math.ceil(low / step - 1e-9); n * step <= high + 1e-9; n += 1) found.push(n * step);
  }
  return found.filter((value) => value >= low - 1e-9 && value <= high + 1e-9).map((value) => Number(value.toPrecision(6)));
}

/** Returns the place of a value on an axis, in pixels between two ends; values outside are clipped. */
const scale = ({ low, high, log }, from, to) => (value) => {
  const clipped = Math.min(Math.max(value, Math.min(low, high)), Math.max(low, high));
  const share = log ? Math.log(clipped / low) / Math.log(high / low) : (clipped - low) / (high - low);
  return Number((from + share * (to - from)).toFixed(2));
};

/**
 * Returns the plot.
 * @param {(tag: string, attributes: object, ...content) => any} make makes an element of SVG
 * @param {Figure} figure
 * @param {{width: number, class?: string, style?: string}} options
 */
export function plot(make, figure, { width, ...options }) {
  const { x: across, y: up, series, names } = figure;
  // Over named lines the legend has a place of its own.
  const top = names && figure.legend ? 16 + series.length * ROW : 12;
  const [left, right, bottom] = [names ? Math.min(170, width / 4) : 52, width - 18, 44];
  const height = names ? top + bottom + names.length * (series.length * 12 + 12) : Math.min(470, Math.max(300, width / 2));
  const place = { x: scale(across, left, right), y: scale(up, height - bottom, top) };
  const shown = (axis, value) => (axis.percent ? `${Math.round(value * 100)} %` : value);
  const line = (x1, y1, x2, y2, attributes) => make("line", { x1, y1, x2, y2, ...attributes });
  const grid = [
    ticks(across).map((value) => [
      line(place.x(value), top, place.x(value), height - bottom, { class: "grid" }),
      make("text", { x: place.x(value), y: height - bottom + 18, "text-anchor": "middle" }, shown(across, value)),
    ]),
    (names ? [] : ticks(up)).map((value) => [
      line(left, place.y(value), right, place.y(value), { class: "grid" }),
      make("text", { x: left - 8, y: place.y(value) + 4, "text-anchor": "end" }, shown(up, value)),
    ]),
    (names ?? []).map((name, at) => {
      const most = Math.floor(left / 7);
      const short = name.length > most ? `${name.slice(0, most - 1)}…` : name;
      return [line(left, place.y(at), right, place.y(at), { class: "grid" }),
        make("text", { x: left - 8, y: place.y(at + 0.5) + 4, "text-anchor": "end" }, short)];
    }),
    make("text", { class: "name", x: (left + right) / 2, y: height - 8, "text-anchor": "middle" }, across.label),
    make("text", { class: "name", x: 12, y: height / 2, "text-anchor": "middle", transform: `rotate(-90 12 ${height / 2})` }, up.label),
    figure.rule === undefined ? [] : line(place.x(figure.rule), top, place.x(figure.rule), height - bottom, { class: "rule" }),
  ];
  const mark = ({ kind, color, shape, name }, point) => {
    const [x, y] = [place.x(point.x), place.y(point.y)];
    const attributes = { class: `mark-${kind}`, fill: color };
    const title = make("title", {}, point.title ?? `${name}: ${point.x}, ${point.y}`);
    if (shape === "circle") return make("circle", { ...attributes, cx: x, cy: y, r: point.size ?? 4 }, title);
    if (shape === "square") return make("rect", { ...attributes, x: x - 4, y: y - 4, width: 8, height: 8 }, title);
    return make("path", { ...attributes, d: `M${x} ${y - 7}l6 11h-12z` }, title);
  };
  const quartiles = ({ color }, { x, y, low, high }) => {
    if (low === undefined || low === null) return [];
    const ends = names ? [place.x(low), place.y(y), place.x(high), place.y(y)] : [place.x(x), place.y(low), place.x(x), place.y(high)];
    return line(...ends, { stroke: color, "stroke-width": 2 });
  };
  const drawn = series.map((one) => [
    one.line && one.points.length > 0
      ? make("path", {
        class: `line ${one.kind ?? ""}`, stroke: one.color, "stroke-dasharray": one.dash, fill: "none", "stroke-width": 2,
        d: `M${one.points.map((point) => `${place.x(point.x)} ${place.y(point.y)}`).join("L")}`,
      }, make("title", {}, one.name))
      : [],
    one.shape ? one.points.map((point) => [quartiles(one, point), mark(one, point)]) : [],
  ]);
  const legend = figure.legend
    ? series.map((one, at) => [
      line(left + 14, 12 + (at + 0.5) * ROW, left + 36, 12 + (at + 0.5) * ROW, { stroke: one.color, "stroke-width": 3, "stroke-dasharray": one.dash }),
      make("text", { x: left + 44, y: 16 + (at + 0.5) * ROW }, one.name),
    ])
    : [];
  const style = options.style ? make("style", {}, options.style) : [];
  return make("svg", {
    xmlns: "http://www.w3.org/2000/svg", class: options.class, width, height, viewBox: `0 0 ${width} ${height}`, role: "img",
    "aria-label": figure.label,
  }, style, grid, drawn, legend);
}
