// The sliders of the page: the curve of the reader's own figures over the measured ones.
const controls = document.querySelector(".controls");
const longest = Number(controls.dataset.draft);
const input = (id) => document.getElementById(id);
const own = { name: "your figures", color: "#e0316b", line: true, points: [] };
const chosen = { name: "your fraction", color: "#e0316b", shape: "circle", points: [] };
figures[0].series.push(own, chosen);

// A forward verifies a run together with the free token after it. Runs that are longer than a draft
// take several forwards. Where free tokens are rare, runs are longer.
function cost(fraction, run, row) {
  if (fraction <= 0) return { speed: 1, forwards: 1 };
  const free = (1 - fraction) / fraction;
  const length = Math.max(run, 1 / free);
  const between = length * free;
  const rows = length + 1;
  const forwards = Math.ceil(rows / (longest + 1) - 1e-9);
  const time = Math.min(forwards * (1 - row) + row * rows, rows);
  const tokens = length + between;
  return { speed: tokens / (time + between - 1), forwards: (forwards + between - 1) / tokens };
}

function update() {
  const [fraction, run, row] = ["fraction", "run", "row"].map((id) => Number(input(id).value));
  for (const id of ["fraction", "run", "row"]) {
    input(id).parentElement.querySelector("output").textContent = input(id).value;
  }
  own.points = Array.from({ length: 99 }, (_, i) => ({ x: i / 100, y: cost(i / 100, run, row).speed }));
  const { speed, forwards } = cost(fraction, run, row);
  chosen.points = [{ x: fraction, y: speed }];
  input("answer").textContent =
    `${speed.toFixed(2)} times the speed of off, with ${(100 * forwards).toFixed(0)} forwards for 100 tokens. ` +
    `If rows cost nothing: ${(1 / (1 - fraction)).toFixed(2)} times.`;
  drawFigures();
}
controls.addEventListener("input", update);
update();
