/** Origins of tokens: names, letters and explanations. Colour is never their only sign. */

import { el, visible } from "./dom.js";

/** @type {Object<string, {letter: string, name: string, text: string}>} */
export const ORIGINS = {
  sampled: { letter: "S", name: "sampled", text: "chosen by the model at its own forward" },
  forced: { letter: "F", name: "forced", text: "the constraint allowed no other bytes" },
  copied: { letter: "C", name: "copied", text: "copied from the prompt, and the model agreed" },
  drafted: { letter: "D", name: "draft model", text: "proposed by the draft model, and the model agreed" },
  unverified: { letter: "U", name: "unverified", text: "emitted without a forward" },
};

/** Returns the origin of a token; sources that the page does not know look like drafts. */
export function originOf(source) {
  return ORIGINS[source] ?? { ...ORIGINS.drafted, name: source };
}

function classOf(source) {
  return `o-${Object.hasOwn(ORIGINS, source) ? source : "drafted"}`;
}

/** Returns the text of a token as it is shown: line ends get a sign, empty ones a name. */
function shown(text) {
  return text === "" ? "\u2205" : text.replace(/\n/g, "\u23ce\n");
}

/**
 * Returns the element of a token.
 * @param {{id: number, text: string, source: string}} token
 * @param {object} options further attributes and listeners
 */
export function tokenNode(token, options = {}, rejected = false) {
  const origin = originOf(token.source);
  const words = rejected ? `${origin.name}, rejected` : origin.name;
  const tag = rejected ? "del" : "span";
  return el(tag, {
    class: `tok ${rejected ? "o-rejected" : classOf(token.source)}`,
    title: `${visible(token.text)} \u2014 ${words}, token ${token.id}`, ...options,
  }, rejected ? visible(token.text) : shown(token.text));
}

/** Returns a chip: the token with the letter of its origin. */
export function chip(token, rejected = false) {
  const letter = rejected ? "\u2717" : originOf(token.source).letter;
  return el("span", { class: "chip" }, el("span", { class: "letter", "aria-hidden": true }, letter),
    tokenNode({ ...token, text: visible(token.text) }, {}, rejected));
}

/** Returns the legend. */
export function legend() {
  const entry = (name, letter, text, style) => el("li", {},
    el("span", { class: "letter" }, letter), el("span", { class: `tok ${style}` }, name), el("span", { class: "note" }, text));
  return el("ul", { class: "legend-list", "aria-label": "Origins of tokens" },
    Object.entries(ORIGINS).map(([key, origin]) => entry(origin.name, origin.letter, origin.text, classOf(key))),
    entry("rejected", "\u2717", "drafted, and the model chose otherwise", "o-rejected"));
}
