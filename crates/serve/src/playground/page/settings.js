/** Settings of decoding: the mode, each source of drafts, and limits. */

import { checkbox, el, field, select } from "./dom.js";

const MODES = [
  ["exact", "exact: drafts, each token verified"],
  ["off", "off: one forward for each token"],
  ["canonical", "canonical: forced text unverified"],
  ["longest", "longest: forced text by longest tokens, unverified"],
];

const SOURCES = [
  ["forced_runs", "Forced runs"],
  ["lookup", "Copies from the prompt"],
  ["draft_model", "Draft model"],
];

/**
 * Controls of one setting.
 * @param {string} title
 * @param {object} chosen the first values: `mode`, and `false` for sources that are off
 */
export function settingControls(title, chosen = {}) {
  const mode = select(MODES);
  mode.value = chosen.mode ?? "exact";
  const boxes = SOURCES.map(([name, text]) => [name, checkbox(text, { checked: chosen[name] ?? true })]);
  const sources = el("div", { class: "checks", role: "group", "aria-label": `${title}: sources of drafts` },
    boxes.map(([, { node }]) => node));
  // Without drafts their sources have no meaning.
  const update = () => boxes.forEach(([, { box }]) => { box.disabled = mode.value === "off"; });
  mode.addEventListener("change", update);
  update();
  const node = el("fieldset", {}, el("legend", {}, title), el("div", { class: "stack tight" }, field("Mode", mode), sources));
  const read = () => ({ mode: mode.value, ...Object.fromEntries(boxes.map(([name, { box }]) => [name, box.checked])) });
  return { node, read };
}

/** Returns a setting in a few words. */
export function settingText(setting) {
  if (setting.mode === "off") return "off";
  const off = SOURCES.filter(([name]) => !setting[name]).map(([, text]) => text.toLowerCase());
  return off.length ? `${setting.mode}, without ${off.join(", ")}` : setting.mode;
}

/** Controls of sampling and length. */
export function samplingControls() {
  const most = el("input", { type: "number", min: 1, max: 4096, value: "200" });
  const temperature = el("input", { type: "number", min: 0, max: 5, step: 0.1, value: "0" });
  const seed = el("input", { type: "number", min: 0, step: 1, value: "0" });
  const node = el("div", { class: "triple" }, field("Most tokens", most), field("Temperature", temperature), field("Seed", seed));
  const read = () => ({
    max_tokens: Number.parseInt(most.value, 10) || 200,
    temperature: Number(temperature.value) || 0,
    seed: Number.parseInt(seed.value, 10) || 0,
  });
  return { node, read };
}
