#!/usr/bin/env node
// Writes the first plot of a page of `ffwd bench`, or a plot as JSON, as a picture for the documentation.
//
//     benches/picture.mjs PAGE.html|PLOT.json PICTURE.svg

import { readFileSync, writeFileSync } from "node:fs";

const [from, picture] = process.argv.slice(2);
if (!picture) {
  console.error("usage: benches/picture.mjs PAGE.html|PLOT.json PICTURE.svg");
  process.exit(2);
}
const near = (path) => new URL(`../crates/${path}`, import.meta.url);
const { plot, textElement } = await import(near("runtime/src/speedup/plot.js"));
const style = readFileSync(near("bench/src/page.js"), "utf8").match(/const STYLE = `(.*?)`;/s)[1];
const text = readFileSync(from, "utf8");
const figures = text.match(/<script type="application\/json" id="figures">(.*?)<\/script>/s);
const figure = figures ? JSON.parse(figures[1])[0] : JSON.parse(text);
writeFileSync(picture, `${plot(textElement, { ...figure, legend: true }, { width: 860, style }).markup}\n`);
