(() => {
  "use strict";
  const controls = document.querySelector(".controls");
  const longest = Number(controls.dataset.draft);
  const input = (id) => document.getElementById(id);
  const plots = [...document.querySelectorAll(".plot svg")];
  const element = (svg, name, attributes) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    Object.entries(attributes).forEach(([key, value]) => made.setAttribute(key, value));
    svg.append(made);
    return made;
  };
  const color = "#e0316b";
  const drawn = plots.map((svg) => ({
    data: Object.fromEntries(Object.entries(svg.dataset).map(([key, value]) => [key, Number(value)])),
    line: element(svg, "path", { fill: "none", stroke: color, "stroke-width": 3 }),
    dot: element(svg, "circle", { r: 6, fill: color }),
  }));

  // A forward verifies a run together with the free token after it. Runs that are longer than a
  // draft take several forwards. Where free tokens are rare, runs are longer.
  const cost = (fraction, run, row) => {
    if (fraction <= 0) return { speed: 1, forwards: 1 };
    const free = (1 - fraction) / fraction;
    const length = Math.max(run, 1 / free);
    const between = length * free;
    const rows = length + 1;
    const forwards = Math.ceil(rows / (longest + 1) - 1e-9);
    const time = Math.min(forwards * (1 - row) + row * rows, rows);
    const tokens = length + between;
    return { speed: tokens / (time + between - 1), forwards: (forwards + between - 1) / tokens };
  };

  const update = () => {
    const [fraction, run, row] = ["fraction", "run", "row"].map((id) => Number(input(id).value));
    for (const id of ["fraction", "run", "row"]) {
      input(id).parentElement.querySelector("output").textContent = input(id).value;
    }
    for (const { data, line, dot } of drawn) {
      const x = (f) => data.x0 + (data.x1 - data.x0) * f;
      const clip = (y) => Math.min(Math.max(y, data.low), data.high);
      const share = (y) => Math.log(clip(y) / data.low) / Math.log(data.high / data.low);
      const y = (speed) => data.y0 + (data.y1 - data.y0) * share(speed);
      const points = Array.from({ length: 99 }, (_, i) => i / 100);
      const at = (f) => `${x(f).toFixed(1)},${y(cost(f, run, row).speed).toFixed(1)}`;
      line.setAttribute("d", "M" + points.map(at).join("L"));
      dot.setAttribute("cx", x(fraction));
      dot.setAttribute("cy", y(cost(fraction, run, row).speed));
    }
    const { speed, forwards } = cost(fraction, run, row);
    input("answer").textContent =
      `${speed.toFixed(2)} times the speed of off, with ${(100 * forwards).toFixed(0)} forwards for 100 tokens. ` +
      `If rows cost nothing: ${(1 / (1 - fraction)).toFixed(2)} times.`;
  };
  controls.addEventListener("input", update);
  update();
})();
