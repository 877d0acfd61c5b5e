/** Draws one position of the Mask Explorer: the tokens so far, and the probabilities. */

import { el, percent, visible } from "./dom.js";

const SHOWN = 14;

function bar(probability, kind) {
  const fill = el("span", { class: `bar-fill ${kind}` });
  fill.style.setProperty("width", `${100 * probability}%`);
  return el("span", { class: "bar", "aria-hidden": "true" }, fill);
}

/** Returns the words that say what the mask does with a token. */
function fate(token, options) {
  const marks = [];
  if (!token.legal) marks.push(token.leads_nowhere ? "illegal: no end can be reached" : "illegal");
  else marks.push("legal");
  const { outcome, topPFirst } = options;
  if (topPFirst && !token.top_p_before) marks.push("cut by top-p");
  if (!topPFirst && token.legal && !token.top_p_after) marks.push("cut by top-p");
  if (outcome.token === token.id) marks.push("taken");
  return marks.join(", ");
}

function row(token, options) {
  const { revealed, masked, outcome } = options;
  const taken = revealed && outcome.token === token.id;
  const kinds = ["position-row", revealed && masked && !token.legal && "illegal", taken && "taken"];
  return el("tr", { class: kinds.filter(Boolean).join(" "), data: { token: token.id } },
    el("td", {}, el("code", {}, visible(token.text))),
    el("td", { class: "number" }, token.logit.toFixed(2)),
    el("td", {}, bar(token.raw, "raw"), el("span", { class: "share" }, percent(token.raw))),
    revealed && masked && el("td", {}, bar(token.masked, "masked"), el("span", { class: "share" }, percent(token.masked))),
    revealed && el("td", { class: "fate" }, fate(token, options)));
}

function probabilities(position, options) {
  const { revealed, masked } = options;
  const shown = revealed ? position.tokens.slice(0, 20) : position.tokens.slice(0, SHOWN);
  const head = ["Token", "Logit", "Raw", revealed && masked && "Masked", revealed && "Fate"].filter(Boolean);
  return el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Probabilities of the next token" },
    el("table", { class: "position" },
      el("caption", { class: "unseen" }, "Probabilities of the next token"),
      el("thead", {}, el("tr", {}, head.map((text) => el("th", { scope: "col" }, text)))),
      el("tbody", {}, shown.map((token) => row(token, options)))));
}

const OUTCOMES = {
  survives: "It survives: the model's first choice is legal.",
  replaced: "It is replaced: the mask removes it, and the best legal token is taken.",
  nothing: "Nothing is left: top-p kept only tokens that the mask removes. Apply the mask first.",
  unmasked: "No mask: the model's first choice is taken, whatever it is.",
};

function revealed(position, options) {
  const { outcome, guess, masked } = options;
  const { best, top_p: topP } = position;
  const cut = options.topPFirst
    ? `Top-p keeps ${topP.before.tokens} tokens, of which ${topP.before.legal} are legal.`
    : `After the mask, top-p keeps ${topP.after.tokens} of ${position.legal} legal tokens.`;
  const verdict = guess && masked && (guess === outcome.kind ? "Predicted. " : "Not as predicted. ");
  return el("div", { class: "stack", role: "status", id: "explorer-outcome" },
    el("p", {}, verdict && el("strong", {}, verdict), OUTCOMES[outcome.kind]),
    masked && el("p", {}, `${position.legal} of ${position.vocabulary} tokens are legal. The mask rejects `,
      el("strong", { id: "explorer-rejected" }, percent(position.rejected)), " of the model's probability. ", cut),
    best.why && el("p", {}, "Why the first choice may not stand here: ", best.why.reason, ". Possible: ",
      best.why.expected.map((text) => [el("code", {}, visible(text)), " "])));
}

function ending(position) {
  if (position.broken) {
    const { broken } = position;
    return el("div", { class: "error", role: "alert", id: "explorer-broken" },
      el("p", {}, "Token ", el("code", {}, visible(broken.token)), " breaks the prefix: ", broken.reason, ". ",
        "Whatever follows, the output can no longer satisfy the constraint."),
      el("p", {}, "Possible there: ", broken.expected.map((text) => [el("code", {}, visible(text)), " "])));
  }
  if (!position.finished) return null;
  const wrong = position.as_asked === false;
  return el("div", { class: wrong ? "error" : "card", role: "status", id: "explorer-end" },
    el("p", {}, el("strong", {}, wrong ? "Valid, and wrong. " : "Valid. "),
      "Every token was legal and the output ended in an accepting state, so it satisfies the schema. ",
      wrong ? `The task was: ${position.task} It needed ${position.wanted}. No mask can know that.`
        : "That it is also true, no mask can promise."));
}

/**
 * Returns the description of a position.
 * @param {object} position the answer of the endpoint
 * @param {{revealed: boolean, masked: boolean, topPFirst: boolean, guess: ?string, outcome: ?object}} options
 */
export function positionCard(position, options) {
  const prefix = position.prefix.map((token, at) => el("span", {
    class: position.broken && at >= position.broken.at ? "token broken" : "token",
  }, visible(token.text)));
  return el("div", { class: "card" },
    position.task && el("p", { class: "note" }, `Task: ${position.task}`),
    el("p", { class: "tokens", "aria-label": "Output so far", id: "explorer-prefix" },
      prefix.length > 0 ? prefix : el("span", { class: "muted" }, "nothing yet")),
    el("p", { class: "note" }, "State: ", el("code", { id: "explorer-state" }, position.state),
      position.may_end && !position.finished ? "; the output may end here" : ""),
    position.tokens && options.revealed && revealed(position, options),
    position.tokens && probabilities(position, options),
    ending(position),
    position.warnings.map((warning) => el("p", { class: "note" }, "At compile time: ", warning)));
}
