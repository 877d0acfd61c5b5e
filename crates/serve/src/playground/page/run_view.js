/** The view of a running generation: its tokens by origin, its forwards as rungs, its statistics. */

import { el, errorBox, table } from "./dom.js";
import { chip, originOf, tokenNode } from "./origins.js";

/** Forwards with more positions than this show their number only. */
const CELLS = 40;

/** A generation that is shown while it runs. */
export class RunView {
  /** The tokens so far. */
  tokens = [];
  /** The event `end`, once it came. */
  end = null;

  /**
   * @param {string} title
   * @param {(run: RunView, index: number) => void} onToken called when a token is chosen
   */
  constructor(title, onToken) {
    this.onToken = onToken;
    this.status = el("p", { class: "status", role: "status" }, "Waiting\u2026");
    this.text = el("div", {
      class: "output", role: "group", tabindex: -1,
      "aria-label": `${title}: tokens of the output. Arrow keys move, Enter shows the state before a token.`,
      onkeydown: (event) => this.#byKey(event), onclick: (event) => this.#byClick(event),
    });
    this.rungs = el("ol", { class: "rungs", "aria-label": `${title}: forwards` });
    this.numbers = el("div", {});
    this.prompt = el("pre", { class: "prompt" });
    this.warnings = el("ul", { class: "warnings", hidden: true });
    this.nodes = [];
    this.node = el("section", { class: "card run", "aria-label": title },
      el("h2", {}, title), this.status, this.text, this.warnings, this.numbers);
    this.ladder = el("section", { class: "card", "aria-label": `${title}: forwards` },
      el("h2", {}, "Forwards"), el("p", { class: "note" }, "One row for each forward of the model, with the tokens that came from it."),
      this.rungs,
      el("details", {}, el("summary", {}, "The prompt as the model reads it"), this.prompt));
  }

  /** Takes an event of the stream. */
  take(event) {
    if (event.event === "start") this.#start(event);
    if (event.event === "forward") this.#forward(event);
    if (event.event === "end") this.#end(event);
  }

  /** Shows that the run ended with an error or was stopped. */
  fail(error) {
    if (error.name === "AbortError") this.status.textContent = `Stopped after ${count(this.tokens.length, "token")}.`;
    else this.status.replaceChildren(errorBox(error));
  }

  #start(event) {
    this.prompt.textContent = event.prompt;
    this.status.textContent = "Running\u2026";
    this.warnings.hidden = event.warnings.length === 0;
    this.warnings.replaceChildren(...event.warnings.map((text) => el("li", {}, text)));
  }

  #forward(step) {
    for (const token of step.tokens) {
      const index = this.tokens.length;
      const node = tokenNode(token, {
        role: "button", tabindex: index === 0 ? 0 : -1, data: { index: String(index) },
        "aria-label": `${token.text === "" ? "nothing" : token.text}, ${originOf(token.source).name}, forward ${step.forward}`,
      });
      this.tokens.push(token);
      this.nodes.push(node);
    }
    this.#place(step);
    if (step.taken_back > 0) this.#takeBack(step.taken_back);
    this.rungs.append(rung(step));
    this.status.textContent = `Running: ${count(this.tokens.length, "token")} in ${count(step.forward, "forward")}`;
  }

  /** Appends the new tokens, with rejected drafts where they were proposed. */
  #place(step) {
    const end = this.nodes.length;
    for (let i = step.begin; i <= end; i += 1) {
      const here = step.rejected.filter((draft) => Math.min(draft.after, end) === i);
      this.text.append(...here.map((draft) => el("span", { class: "fallen" }, draft.tokens.map((token) => tokenNode(token, {}, true)))));
      if (i < end) this.text.append(this.nodes[i]);
    }
  }

  #takeBack(number) {
    const gone = this.nodes.splice(this.nodes.length - number, number);
    for (const [i, node] of gone.entries()) {
      const token = this.tokens[this.nodes.length + i];
      node.replaceWith(tokenNode(token, {}, true));
    }
    this.tokens.length = this.nodes.length;
  }

  #end(event) {
    this.end = event;
    const { stats, finish, complete } = event;
    const end = finish.reason === "stop" ? "" : ` It ended by ${finish.reason}.`;
    const satisfied = complete ? "The output satisfies the constraint." : "The output is not complete.";
    this.status.textContent = `${count(stats.tokens, "token")} in ${count(stats.forwards, "forward")}. ${satisfied}${end}`;
    this.numbers.replaceChildren(statistics(stats));
  }

  /** Marks the token whose state is shown. */
  mark(index) {
    this.nodes.forEach((node, i) => node.classList.toggle("marked", i === index));
  }

  #byClick(event) {
    const index = event.target.closest?.("[data-index]")?.dataset.index;
    if (index !== undefined) this.#choose(Number(index));
  }

  #byKey(event) {
    const at = this.nodes.indexOf(document.activeElement);
    if (at < 0) return;
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      this.#choose(at);
      return;
    }
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: this.nodes.length - 1 }[event.key];
    if (to === undefined || !this.nodes[to]) return;
    event.preventDefault();
    this.#focus(to);
  }

  #focus(index) {
    this.nodes.forEach((node, i) => { node.tabIndex = i === index ? 0 : -1; });
    this.nodes[index].focus();
  }

  #choose(index) {
    this.#focus(index);
    this.onToken(this, index);
  }
}

function count(number, word) {
  return `${number} ${word}${number === 1 ? "" : "s"}`;
}

/** Returns the rung of a forward: what it read, and what came from it. */
function rung(step) {
  const drafted = step.rejected.reduce((sum, draft) => sum + draft.tokens.length, 0);
  const head = step.positions === 0
    ? el("span", { class: "rung-head" }, el("b", {}, "no forward"))
    : el("span", { class: "rung-head" }, el("b", {}, `#${step.forward}`),
      el("span", { class: "note" }, ` ${count(step.positions, "position")} \u2192 ${count(step.tokens.length, "token")}`
        + (step.draft_forwards ? `, draft model \u00d7${step.draft_forwards}` : "")
        + (step.taken_back ? `, ${step.taken_back} taken back` : "")));
  const body = step.tokens.length + drafted === 0
    ? el("span", { class: "note" }, "a part of the prompt")
    : el("span", { class: "chips" }, step.tokens.map((token) => chip(token)),
      step.rejected.flatMap((draft) => draft.tokens.slice(0, CELLS).map((token) => chip(token, true))));
  return el("li", { class: "rung" }, head, body);
}

/** Returns the statistics of a finished run. */
function statistics(stats) {
  const facts = [
    ["Forwards", stats.forwards], ["Tokens", stats.tokens],
    ["Tokens a forward", stats.tokens_per_forward.toFixed(2)],
    ["Forced share", `${(100 * stats.deterministic_fraction).toFixed(0)} %`],
    ["Draft forwards", stats.draft_forwards],
    ["Prompt tokens", stats.prompt_cached ? `${stats.prompt_tokens} (${stats.prompt_cached} known)` : stats.prompt_tokens],
    ["Milliseconds", (1000 * stats.seconds).toFixed(1)],
  ];
  const names = { forced: "forced", lookup: "copied", draft_model: "draft model" };
  const rows = Object.entries(stats.drafted_by_source).filter(([, drafted]) => drafted > 0)
    .map(([source, drafted]) => [names[source] ?? source, drafted, stats.accepted_by_source[source] ?? 0]);
  return el("div", { class: "stack tight" },
    el("dl", { class: "facts" }, facts.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value)))),
    rows.length > 0 && table("Drafts by source", ["Source", "Drafted", "Accepted"], rows, { class: "small" }));
}
