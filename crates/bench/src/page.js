// Draws the figures of the page, and again when the width of the window changes.
const figures = JSON.parse(document.getElementById("figures").textContent);
const STYLE = `text { font: 13px sans-serif; fill: #3b4252 } .grid { stroke: #d5d9e0 } .rule { stroke: #3b4252 }
@media (prefers-color-scheme: dark) { text { fill: #e6e9ef } .grid { stroke: #3a4150 } .rule { stroke: #a2abba } }`;

function drawFigures() {
  for (const place of document.querySelectorAll("[data-figure]")) {
    const figure = figures[place.dataset.figure];
    const width = Math.min(1000, Math.max(380, place.clientWidth - 8));
    const names = figure.series.map(({ name, color }) =>
      textElement("li", {}, textElement("span", { style: `background:${color}` }), name));
    const saved = plot(textElement, { ...figure, legend: true }, { width: 860, style: STYLE }).markup;
    const link = { download: "plot.svg", href: `data:image/svg+xml,${encodeURIComponent(saved)}` };
    place.innerHTML = textElement("ul", { class: "legend" }, names).markup
      + plot(textElement, figure, { width }).markup + textElement("a", link, "Save as SVG").markup;
  }
}

drawFigures();
addEventListener("resize", drawFigures);
