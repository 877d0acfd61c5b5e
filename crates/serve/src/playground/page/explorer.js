/** The tab "Mask Explorer": one position at a time; predict first, then see what the mask does. */

import { checkbox, el, errorBox, field, select } from "./dom.js";
import { positionCard } from "./explorer_position.js";

export const title = "Mask Explorer";

const SCHEMA = `{
  "type": "object",
  "properties": {
    "vendor": {"type": "string"},
    "total": {"type": "number"},
    "paid": {"type": "boolean"}
  },
  "required": ["vendor", "total", "paid"]
}`;
const TEXT = "Acme Ltd. Total: 12.50 EUR, paid by card.";

const PROFILES = [
  ["friendly", "Schema-friendly: prefers legal words"],
  ["confused", "Format-confused: prefers words that are never legal"],
  ["mismatch", "Semantic mismatch: prefers a legal, wrong source"],
  ["model", "The chosen model, with a schema of yours"],
];

/** The answers to the question before the mask is shown. */
const GUESSES = [
  ["survives", "It survives"], ["replaced", "The best legal token replaces it"], ["nothing", "Nothing legal is left"],
];

/** Counts of a walk: how often a naive decoder and one with cached masks test a token. */
class Counters {
  naive = 0;
  cached = 0;
  guesses = 0;
  right = 0;
  #known = new Set();

  /** Counts a position that is reached for the first time in this walk. */
  visit(key, vocabulary) {
    this.naive += vocabulary;
    if (this.#known.has(key)) return;
    this.#known.add(key);
    this.cached += vocabulary;
  }
}

class ExplorerTab {
  #tokens = [];
  #position = null;
  #revealed = false;
  #guess = null;
  #counters = new Counters();
  /** The longest walk so far: going back and forth counts nothing twice. */
  #counted = 0;
  #asked = 0;

  constructor(root, api) {
    this.api = api;
    this.root = root;
    const changed = () => this.reset();
    this.profile = select(PROFILES, { id: "explorer-profile", onchange: changed });
    this.mask = checkbox("Mask on", { id: "explorer-mask", checked: true, onchange: () => this.ask() });
    this.first = checkbox("Top-p before the mask", { id: "explorer-first", onchange: () => this.ask() });
    this.topP = el("input", { type: "range", id: "explorer-top-p", min: 50, max: 100, value: "90", onchange: () => this.ask() });
    this.schema = el("textarea", { id: "explorer-schema", rows: 8, spellcheck: "false", value: SCHEMA, onchange: changed });
    this.text = el("textarea", { id: "explorer-text", rows: 3, value: TEXT, onchange: changed });
    this.own = el("div", { class: "stack", hidden: true }, field("Schema", this.schema), field("Text", this.text));
    this.view = el("div", { class: "stack" });
    this.counts = el("div", { class: "card counts", "aria-live": "polite" });
  }

  node() {
    return el("div", { class: "split" },
      el("div", { class: "stack" },
        el("p", {}, "The mask removes tokens that cannot lead to an end. Look at the raw probabilities, predict, then reveal. ",
          "The masks are those of the engine; the logits of the first three profiles are made up."),
        field("Profile", this.profile), this.own,
        el("fieldset", {}, el("legend", {}, "Sampling"), el("div", { class: "stack" }, this.mask.node, this.first.node,
          field("Top-p, in per cent", this.topP))),
        this.counts,
        el("p", { class: "note" }, "Keys: 1, 2, 3 predict, R reveals, N takes the token, B goes back, 0 begins again.")),
      this.view);
  }

  /** Begins again; the counts of cached masks stay. */
  reset() {
    this.own.hidden = this.profile.value !== "model";
    this.#tokens = [];
    this.#counted = 0;
    this.ask();
  }

  async ask() {
    this.#asked += 1;
    const mine = this.#asked;
    const own = this.profile.value === "model";
    try {
      const position = await this.api.post("explorer", {
        profile: this.profile.value, tokens: this.#tokens, top_p: Number(this.topP.value) / 100,
        ...(own && { model: this.api.model, schema: this.schema.value, text: this.text.value }),
      });
      if (mine !== this.#asked) return;
      this.#position = position;
      this.#revealed = false;
      this.#guess = null;
      if (position.tokens && this.#tokens.length >= this.#counted) {
        this.#counted = this.#tokens.length + 1;
        const key = own ? `${this.schema.value}${position.mask}` : position.state;
        this.#counters.visit(key, position.vocabulary);
      }
      this.draw();
    } catch (error) {
      if (mine === this.#asked) this.view.replaceChildren(errorBox(error));
    }
  }

  /** Returns what happens to the token with the highest raw probability, and what is taken. */
  outcome() {
    const { best, top_p: topP, tokens } = this.#position;
    if (!this.mask.box.checked) return { kind: "unmasked", token: best.raw };
    const legal = tokens.find((token) => token.id === best.raw)?.legal;
    if (this.first.box.checked && topP.before.legal === 0) return { kind: "nothing", token: null };
    const token = this.first.box.checked ? topP.before.best : best.legal;
    return { kind: legal ? "survives" : "replaced", token };
  }

  guess(kind) {
    if (!this.#position?.tokens || this.#revealed || !this.mask.box.checked) return;
    this.#guess = kind;
    this.draw();
  }

  reveal() {
    if (!this.#position?.tokens || this.#revealed) return;
    this.#revealed = true;
    if (this.#guess && this.mask.box.checked) {
      this.#counters.guesses += 1;
      if (this.#guess === this.outcome().kind) this.#counters.right += 1;
    }
    this.draw();
    this.view.querySelector("#explorer-next")?.focus();
  }

  next() {
    if (!this.#position?.tokens) return;
    if (!this.#revealed) {
      this.reveal();
      return;
    }
    const { token } = this.outcome();
    if (token === null) return;
    this.#tokens = [...this.#tokens, token];
    this.ask();
  }

  back() {
    if (this.#tokens.length === 0) return;
    this.#tokens = this.#tokens.slice(0, -1);
    this.ask();
  }

  draw() {
    const button = (id, text, run, options = {}) => el("button", { type: "button", id, onclick: run, ...options }, text);
    const live = Boolean(this.#position.tokens);
    const guesses = GUESSES.map(([kind, text], at) => el("button", {
      type: "button", class: "quiet guess", "aria-pressed": String(this.#guess === kind), disabled: this.#revealed || !this.mask.box.checked,
      onclick: () => this.guess(kind), data: { guess: kind },
    }, `${at + 1} `, text));
    const stuck = this.#revealed && this.outcome().token === null;
    this.view.replaceChildren(...[
      live && el("div", { class: "card" },
        el("p", { class: "legend" }, this.mask.box.checked ? "What happens to the token with the highest raw probability?"
          : "The mask is off: the token with the highest raw probability is taken."),
        el("div", { class: "actions" }, guesses)),
      el("div", { class: "actions" },
        live && button("explorer-reveal", "Reveal", () => this.reveal(), { disabled: this.#revealed }),
        live && button("explorer-next", "Take the token", () => this.next(), { disabled: !this.#revealed || stuck }),
        button("explorer-back", "Back", () => this.back(), { class: "quiet", disabled: this.#tokens.length === 0 }),
        button("explorer-reset", "Begin again", () => this.reset(), { class: "quiet" })),
      positionCard(this.#position, { revealed: this.#revealed, outcome: live ? this.outcome() : null, guess: this.#guess,
        masked: this.mask.box.checked, topPFirst: this.first.box.checked })].filter(Boolean));
    this.#count();
  }

  #count() {
    const { naive, cached, guesses, right } = this.#counters;
    this.counts.replaceChildren(
      el("h3", {}, "Counted"),
      el("p", {}, "Tests of a token against the state, one by one at each step: ", el("strong", { id: "explorer-naive" }, naive)),
      el("p", {}, "With a mask kept for each state: ", el("strong", { id: "explorer-cached" }, cached)),
      el("p", { class: "note" }, "Begin again: a state that was met costs nothing more. These are counts, not times."),
      el("p", {}, `Predictions: ${right} of ${guesses} right`));
  }

  key(event) {
    const typing = event.target.closest("input, textarea, select");
    if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
    const runs = {
      1: () => this.guess("survives"), 2: () => this.guess("replaced"), 3: () => this.guess("nothing"),
      r: () => this.reveal(), n: () => this.next(), b: () => this.back(), 0: () => this.reset(),
    };
    const run = runs[event.key.toLowerCase()];
    if (!run) return;
    event.preventDefault();
    run();
  }
}

/**
 * Builds the tab when it is first shown.
 * @param {HTMLElement} root the empty panel
 * @param {import("./api.js").Api} api
 */
export function mount(root, api) {
  const tab = new ExplorerTab(root, api);
  root.append(tab.node());
  document.addEventListener("keydown", (event) => { if (!root.hidden) tab.key(event); });
  window.addEventListener("model", () => { if (tab.profile.value === "model") tab.reset(); });
  tab.reset();
}
