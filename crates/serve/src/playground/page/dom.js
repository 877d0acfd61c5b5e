/** Helpers that build elements. A text always becomes a text node, never markup. */

const SVG = "http://www.w3.org/2000/svg";

/**
 * Sets attributes, properties and listeners of an element.
 *
 * `class`, `aria-...` and all others are attributes; `true` sets an empty one, and `false`, `null`
 * and `undefined` set none. A function under a name such as `onclick` is a listener. `value`,
 * `checked` and `hidden` are properties, and `data` is an object of data attributes.
 */
function assign(node, options) {
  for (const [name, value] of Object.entries(options)) {
    if (value === undefined || value === null || value === false) continue;
    if (typeof value === "function") node.addEventListener(name.replace(/^on/, ""), value);
    else if (name === "data") Object.assign(node.dataset, value);
    else if (name === "value" || name === "checked" || name === "hidden") node[name] = value;
    else node.setAttribute(name, value === true ? "" : String(value));
  }
}

function build(node, options, children) {
  assign(node, options);
  const present = children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false);
  node.append(...present.map((child) => (child instanceof Node ? child : String(child))));
  return node;
}

/**
 * Returns a new element of HTML.
 * @param {string} tag
 * @param {object} [options] see `assign`
 * @param {...(Node|string|number|null|Array)} children
 */
export function el(tag, options = {}, ...children) {
  return build(document.createElement(tag), options, children);
}

/** Returns a new element of SVG; the parameters are those of `el`. */
export function svg(tag, options = {}, ...children) {
  return build(document.createElementNS(SVG, tag), options, children);
}

let fields = 0;

/**
 * Returns a control with its label above it.
 * @param {string} text the label
 * @param {HTMLElement} control
 * @param {string} [note] a line of explanation
 */
export function field(text, control, note) {
  fields += 1;
  control.id ||= `field-${fields}`;
  const parts = [el("label", { for: control.id }, text), control];
  if (note) {
    control.setAttribute("aria-describedby", `${control.id}-note`);
    parts.push(el("p", { class: "note", id: `${control.id}-note` }, note));
  }
  return el("div", { class: "field" }, parts);
}

/** Returns a check box with its label. */
export function checkbox(text, options = {}) {
  const box = el("input", { type: "checkbox", ...options });
  return { box, node: el("label", { class: "check" }, box, text) };
}

/**
 * Returns a list of choices.
 * @param {[string, string][]} entries values with their texts
 */
export function select(entries, options = {}) {
  return el("select", options, entries.map(([value, text]) => el("option", { value }, text)));
}

/**
 * Returns a table.
 * @param {string} caption for screen readers
 * @param {string[]} head
 * @param {Array[]} rows cells: texts, numbers or nodes
 */
export function table(caption, head, rows, options = {}) {
  const cell = (content) => el("td", { class: typeof content === "number" ? "number" : undefined }, content);
  return el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": caption },
    el("table", options,
      el("caption", { class: "unseen" }, caption),
      el("thead", {}, el("tr", {}, head.map((text, i) => el("th", { scope: "col", class: typeof rows[0]?.[i] === "number" ? "number" : undefined }, text)))),
      el("tbody", {}, rows.map((cells) => el("tr", {}, cells.map(cell))))));
}

/** Shows an error of an endpoint: message, place and hint. */
export function errorBox(error) {
  return el("div", { class: "error", role: "alert" },
    el("p", {}, error.message),
    error.pointer && el("p", {}, "at ", el("code", {}, error.pointer)),
    error.hint && el("p", { class: "hint" }, error.hint));
}

/** Returns a text in which blanks, line ends and other invisible characters can be seen. */
export function visible(text) {
  return text.replace(/[\s\p{Cc}\p{Cf}]/gu, (c) => ({ " ": "\u2423", "\n": "\u23ce", "\t": "\u21e5", "\r": "\u240d" })[c]
    ?? `\\u${c.codePointAt(0).toString(16).padStart(4, "0")}`);
}

/** Returns a probability in percent. */
export function percent(p) {
  if (p === 0) return "0 %";
  if (p >= 0.9995 && p < 1) return "> 99.9 %";
  return p < 0.001 ? "< 0.1 %" : `${(100 * p).toFixed(1)} %`;
}
