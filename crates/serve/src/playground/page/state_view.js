/** The state at a position of an output: what may come there, how probable it is, and why. */

import { el, errorBox, field, percent, table, visible } from "./dom.js";

/** Returns bytes as short ranges of characters. */
export function byteRanges(bytes) {
  const name = (byte) => (byte > 0x20 && byte < 0x7f ? String.fromCharCode(byte) : `0x${byte.toString(16).padStart(2, "0")}`);
  const ranges = [];
  for (const byte of bytes) {
    const last = ranges.at(-1);
    if (last && last[1] === byte - 1) last[1] = byte;
    else ranges.push([byte, byte]);
  }
  return ranges.map(([from, to]) => (from === to ? name(from) : `${name(from)}${to === from + 1 ? " " : "\u2013"}${name(to)}`)).join(" ");
}

function bar(share, style) {
  const fill = el("span", { class: `fill ${style}` });
  fill.style.width = `${Math.max(0, Math.min(100, 100 * share))}%`;
  return el("span", { class: "bar", "aria-hidden": true }, fill);
}

function shownToken(entry) {
  const text = el("code", {}, visible(entry.text));
  return entry.end ? [text, " (end)"] : text;
}

/** The panel of a state. */
export class StateView {
  /** @param {import("./api.js").Api} api */
  constructor(api) {
    this.api = api;
    this.body = el("div", { class: "stack" });
    this.node = el("section", { class: "card state", "aria-label": "State", "aria-live": "polite" }, el("h2", {}, "State before a token"), this.body);
    this.clear();
  }

  /** Shows no state. */
  clear() {
    this.latest = null;
    this.body.replaceChildren(el("p", { class: "muted" },
      "Choose a token of the output: click it, or move with the arrow keys and press Enter."));
  }

  /**
   * Shows the state before token `index` of a run.
   * @param {object} request the fields that describe prompt and constraint
   * @param {{id: number, text: string}[]} tokens those of the run
   * @param {{why?: string, why_token?: number}} [question] a text or a token to be explained
   */
  async show(request, tokens, index, question = {}) {
    const prefix = tokens.slice(0, index).map((token) => token.id);
    this.latest = prefix;
    try {
      const state = await this.api.post("state", { ...request, tokens: prefix, ...question });
      // Another token may have been chosen meanwhile.
      if (this.latest === prefix) this.#fill(state, tokens[index], (other) => this.show(request, tokens, index, other));
    } catch (error) {
      this.body.replaceChildren(errorBox(error));
    }
  }

  #fill(state, chosen, ask) {
    const before = visible(state.prefix).slice(-60);
    this.body.replaceChildren(
      el("p", {}, "After ", el("code", {}, before || "nothing"), chosen && [" came ", el("code", {}, visible(chosen.text))], "."),
      this.#facts(state),
      this.#probabilities(state, chosen, ask),
      state.state && this.#why(state, ask));
  }

  #facts(state) {
    const facts = [["Legal tokens", `${state.legal} of ${state.vocabulary}`], ["Rejected mass", percent(state.rejected_mass)]];
    if (state.state) {
      const { forced, may_end: mayEnd, must_end: mustEnd, path, completion } = state.state;
      facts.push(
        ["Forced ahead", forced.bytes ? [el("code", {}, visible(forced.text)), ` (${forced.tokens.length} ${forced.tokens.length === 1 ? "token" : "tokens"})`] : "nothing"],
        ["May end here", mustEnd ? "yes, it must" : mayEnd ? "yes" : "no"],
        ["JSON pointer", path ? el("code", {}, path) : "the whole value"]);
      if (completion) facts.push(["Shortest end", el("code", {}, visible(completion))]);
    }
    const wide = (name) => (name === "Shortest end" ? "wide" : undefined);
    return el("dl", { class: "facts" },
      facts.map(([name, value]) => el("div", { class: wide(name) }, el("dt", {}, name), el("dd", {}, value))));
  }

  #probabilities(state, chosen, ask) {
    const row = (entry) => [
      el("span", {}, shownToken(entry), entry.id === chosen?.id ? el("b", { class: "chosen" }, " \u2190 chosen") : null),
      el("span", { class: "measure" }, bar(entry.raw, entry.legal ? "raw" : "bad"), percent(entry.raw)),
      el("span", { class: "measure" }, bar(entry.masked, "good"), entry.legal ? percent(entry.masked) : "\u2014"),
      entry.legal ? "\u2713 legal" : state.state
        ? el("button", { type: "button", class: "quiet small", onclick: () => ask({ why_token: entry.id }) }, "\u2717 why not?") : "\u2717",
    ];
    const known = new Set(state.top.map((entry) => entry.id));
    const entries = [...state.top, ...state.top_legal.filter((entry) => !known.has(entry.id)).slice(0, 6)];
    const head = ["Token", "Raw", "After the mask", ""];
    return el("div", {}, el("h3", {}, "Most probable tokens"), table("Most probable tokens", head, entries.map(row)));
  }

  #why(state, ask) {
    const best = state.top.find((entry) => !entry.legal);
    const input = el("input", { type: "text", value: state.why?.text ?? best?.text ?? "", spellcheck: "false", autocomplete: "off" });
    const go = () => { if (input.value) ask({ why: input.value }); };
    input.addEventListener("keydown", (event) => { if (event.key === "Enter") go(); });
    const button = el("button", { type: "button", class: "quiet", onclick: go }, "Explain");
    return el("div", { class: "stack tight" },
      el("div", { class: "ask" }, field("Why may this text follow, or not?", input), button),
      state.why && explanation(state.why));
  }
}

function explanation(why) {
  const examples = why.expected.slice(0, 8).map((token) => [el("code", {}, visible(token.text)), " "]);
  const bytes = why.expected_bytes.length > 0 && ["the bytes ", el("code", {}, byteRanges(why.expected_bytes))];
  const expected = [
    bytes || (examples.length === 0 && !why.may_end && "nothing"),
    examples.length > 0 && [bytes ? ", such as " : "", examples],
    why.may_end && (bytes || examples.length > 0 ? " or the end" : "the end"),
  ];
  return el("div", { class: why.legal ? "verdict yes" : "verdict no" },
    el("p", {}, el("b", {}, why.legal ? "\u2713 " : "\u2717 "), el("code", {}, visible(why.text)), ": ", why.reason, "."),
    !why.legal && why.bytes > 0 && el("p", {}, `Of its ${why.bytes} bytes ${why.fits} fit`, why.fits > 0 ? [": ", el("code", {}, visible(why.fitting))] : "", "."),
    el("p", {}, why.legal ? "After it may come: " : "There may come: ", expected),
    why.path && el("p", { class: "note" }, "at ", el("code", {}, why.path)));
}
