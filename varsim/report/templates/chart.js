// Lines with bands: what a chart's JSON holds, on axes in plain units, each line named at its end.
// A chart is {y, views: [{x, unit}], series: [{name, color, views: [{x, mean, low, high}]}], target}.
"use strict";
document.querySelectorAll(".chart").forEach((box) => {
  const data = JSON.parse(box.nextElementSibling.textContent);
  const number = (value) => Number(value.toPrecision(3)).toLocaleString("en", { maximumFractionDigits: 9 });
  let view = 0;
  const buttons = data.views.length < 2 ? [] : data.views.map(({ x }, i) => {
    const button = make("button", box, { type: "button", "aria-pressed": i === 0 }, x);
    on(button, "click", () => {
      view = i;
      buttons.forEach((one, j) => one.setAttribute("aria-pressed", i === j));
      draw();
    });
    return button;
  });
  box.insertAdjacentHTML("beforeend", `<svg role="img" tabindex="0" aria-label="${data.y} of each strategy, a line each; the numbers are under Details"></svg>`);
  const svg = box.lastChild;

  // Times in the unit of the longest.
  const unitOf = (most) => (data.views[view].unit !== "s" ? [1, ""] : [[1, " (s)"], [1e-3, " (ms)"], [1e-6, " (us)"]].find(([one]) => most >= one) || [1e-9, " (ns)"]);

  function ticks(low, high, count) {
    const step = rung((high - low) / count || 1), found = [];
    for (let n = Math.ceil(low / step) * step; n <= high * 1.0001; n += step) found.push(Number(n.toPrecision(9)));
    return found;
  }

  function draw() {
    const lines = data.series.map((one) => ({ ...one, ...one.views[view] })).filter(({ x }) => x.length);
    const width = Math.max(box.clientWidth, 280), height = width < 600 ? 260 : 340;
    const room = Math.min(width / 3, 8 + 7 * Math.max(...lines.map(({ name }) => name.length))), left = 54, bottom = 40, top = 12;
    const starts = lines.map(({ mean }) => mean[0]), all = lines.flatMap(({ mean }) => mean);
    const high = Math.min(Math.max(...all), 1.05 * Math.max(...starts)), low = Math.min(0, ...all);
    const ends = lines.map(({ x }) => x.at(-1)), most = Math.max(...ends), [worth, unit] = unitOf(most);
    const px = (x) => left + (x / most) * (width - left - room), py = (y) => top + ((high - y) / (high - low || 1)) * (height - top - bottom);
    const shown = (y) => clamp(py(y), top - 6, height - bottom);
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.replaceChildren();
    const write = (x, y, text, anchor) => make("text", svg, { x, y, "text-anchor": anchor }, text);
    for (const tick of ticks(0, most / worth, width / 110)) {
      make("path", svg, { class: "grid", d: `M${px(tick * worth)},${top}V${height - bottom}` });
      write(px(tick * worth), height - bottom + 16, number(tick), "middle");
    }
    for (const tick of ticks(low, high, 5)) {
      make("path", svg, { class: "grid", d: `M${left},${py(tick)}H${width - room}` });
      write(left - 6, py(tick) + 4, number(tick), "end");
    }
    write(width - room, height - 4, data.views[view].x + unit, "end");
    write(4, 10, data.y, "start");
    if (data.target) {
      make("path", svg, { class: "grid", d: `M${left},${py(data.target)}H${width - room}`, "stroke-dasharray": "5 4" });
      write(width - room - 4, py(data.target) - 4, `target ${number(data.target)}`, "end");
    }
    const labels = [];
    for (const { name, color, x, mean, low: under, high: over } of lines) {
      if (under) {
        const band = [...x.map((at, i) => `${px(at)},${shown(over[i])}`), ...x.map((at, i) => `${px(at)},${shown(under[i])}`).reverse()];
        make("path", svg, { d: `M${band.join("L")}z`, fill: color, "fill-opacity": 0.18 });
      }
      make("path", svg, { d: `M${x.map((at, i) => `${px(at)},${shown(mean[i])}`).join("L")}`, fill: "none", stroke: color, "stroke-width": 2 });
      labels.push({ name, color, x: px(x.at(-1)), y: shown(mean.at(-1)) });
    }
    // Names at the ends, moved apart; those of one height from the lowest up.
    labels.sort((a, b) => b.y - a.y);
    labels.forEach((one, i) => { one.place = Math.min(one.y, i ? labels[i - 1].place - 14 : height - bottom); });
    for (const { name, color, x, y, place } of labels) {
      make("path", svg, { d: `M${x + 2},${y}L${width - room + 4},${place}`, stroke: color, "stroke-opacity": 0.4, fill: "none" });
      const text = make("text", svg, { x: width - room + 7, y: place + 4 }, name);
      text.style.fill = color;
    }
    const rule = make("path", svg, { class: "grid", d: "" });
    svg.onpointermove = (event) => {
      const at = clamp(((event.offsetX * width) / svg.clientWidth - left) / (width - left - room), 0, 1) * most;
      rule.setAttribute("d", `M${px(at)},${top}V${height - bottom}`);
      const said = lines.map(({ name, x, mean }) => {
        const i = x.findLastIndex((one) => one <= at);
        return i < 0 || at > x.at(-1) ? "" : `${name}: ${number(mean[i])}`;
      });
      tell([`${number(at / worth)}${unit.replace(/[()]/g, "")}`, ...said], { left: event.clientX + 14, bottom: event.clientY + 10 });
    };
    svg.onpointerleave = () => { hush(); rule.setAttribute("d", ""); };
  }
  redrawn(box, draw);
});
