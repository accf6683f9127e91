// One large plot with a cursor in place of the small pictures that stand there without scripts.
"use strict";

for (const figure of document.querySelectorAll(".curves")) {
  const data = JSON.parse(figure.querySelector("script[type='application/json']").textContent);
  const plot = figure.querySelector(".plot");
  const readout = figure.querySelector(".readout");
  const buttons = [...figure.querySelectorAll(".axes button")];
  const probe = figure.querySelector(".probe");
  const dashes = [[], [7, 4]];
  let axis = data.axes.some((one) => one.key === State.get("axis")) ? State.get("axis") : data.axes[0].key;
  let drawn = null;

  // A custom property is text; the colour it means here and now is that of an element.
  function colour(name, alpha = 1) {
    probe.className = `probe ${name}`;
    const [r, g, b] = getComputedStyle(probe).color.match(/[\d.]+/g);
    return `rgba(${r}, ${g}, ${b}, ${alpha})`;
  }

  const short = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });
  const percent = (share) => (share === null || share === undefined ? "–" : (100 * share).toFixed(1));

  function draw() {
    const about = data.axes.find((one) => one.key === axis);
    const stepped = uPlot.paths.stepped({ align: 1 });
    const columns = [about.x];
    const series = [{}];
    const bands = [];
    const means = [];
    about.lines.forEach((line, i) => {
      const name = `c${i + 1}`;
      const add = (values, options) => {
        columns.push(values);
        series.push({ paths: stepped, points: { show: false }, ...options });
        return series.length - 1;
      };
      const edge = { stroke: "transparent", width: 0 };
      const high = add(line.high, edge);
      const low = add(line.low, edge);
      bands.push({ series: [high, low], fill: colour(name, 0.16) });
      for (const run of line.runs) add(run, { stroke: colour(name, 0.4), width: 1 });
      const mean = add(line.mean, { stroke: colour(name), width: 2.5, dash: dashes[i] });
      means.push({ name: line.name, mean, low, high });
    });
    const axes = {
      stroke: colour("soft"),
      font: "12px system-ui, sans-serif",
      labelFont: "12px system-ui, sans-serif",
      grid: { stroke: colour("line"), width: 1 },
      ticks: { stroke: colour("line"), width: 1 },
    };
    drawn?.destroy();
    drawn = new uPlot(
      {
        width: plot.clientWidth,
        height: 340,
        legend: { show: false },
        cursor: { drag: { x: false, y: false }, points: { show: false } },
        scales: { x: { time: false }, y: { range: [0, 1] } },
        series,
        bands,
        axes: [
          { ...axes, label: about.label, labelSize: 22, space: 80, values: (_, ticks) => ticks.map((x) => short.format(x)) },
          { ...axes, label: "solve rate on valid, %", labelSize: 22, size: 44,
            values: (_, ticks) => ticks.map((y) => `${Math.round(100 * y)}`) },
        ],
        hooks: {
          setCursor: [
            (u) => {
              const i = u.cursor.idx;
              if (i === null || i === undefined) return;
              readout.textContent = `${about.label} ${short.format(u.data[0][i])}: ` + means.map((one) =>
                `${one.name} ${percent(u.data[one.mean][i])} % [${percent(u.data[one.low][i])}, ` +
                `${percent(u.data[one.high][i])}]`).join(" · ");
            },
          ],
        },
      },
      columns,
      plot,
    );
    for (const button of buttons) button.setAttribute("aria-pressed", String(button.value === axis));
  }

  for (const button of buttons) {
    button.addEventListener("click", () => {
      axis = button.value;
      State.set({ axis: axis === data.axes[0].key ? null : axis });
      readout.textContent = readout.dataset.hint;
      draw();
    });
  }
  addEventListener("themechange", draw);
  new ResizeObserver(() => {
    if (drawn && drawn.width !== plot.clientWidth) drawn.setSize({ width: plot.clientWidth, height: 340 });
  }).observe(plot);
  draw();
}
