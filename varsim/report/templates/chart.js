// The charts of a page: lines with bands, and points, on axes in plain units; by pointer and keys.
// {mark, names, colors, said, table, views}, a view: {across, up, clip, target, who: whose name each row has, and columns}.
// Columns of lines: x, mean, low, high, ring; of points: front, hollow, ring, and axes: [{head, unit, values}], at: the first two.
"use strict";
// The marks of strategies: corners, where the first is, how far in every third is; the area of a circle.
const SHAPES = [[24, 0], [4, 0.25], [3, 0], [4, 0], [3, 1], [12, 1 / 12, 0.37], [12, 1 / 3, 0.37], [3, 1.5], [3, 0.5], [5, 0], [6, 0]];
const shape = (place, radius) => {
  const [corners, turn, dent = 1] = SHAPES[place % SHAPES.length], size = radius * Math.sqrt(Math.PI / ((corners / 2) * Math.sin((2 * Math.PI) / corners)));
  const at = (i) => [Math.PI * (turn + (2 * i) / corners), i % 3 === 1 ? size * dent : size];
  return `M${[...Array(corners)].map((_, i) => at(i)).map(([angle, far]) => `${far * Math.sin(angle)},${-far * Math.cos(angle)}`).join("L")}z`;
};

// Where values lie along an axis, from 0 to 1, the ticks there, and how they are told.
function scale({ head, unit = "" }, values, { up = false, logs = true } = {}) {
  const known = values.filter((value) => value !== null), texts = [...new Set(known)];
  if (texts.some((value) => typeof value === "string")) {
    const at = (value) => (texts.indexOf(value) + 0.5) / texts.length;
    return { at, ticks: texts.map((text) => [at(text), `${text}`.slice(0, 14)]), title: head, said: String };
  }
  const low = Math.min(...known), high = Math.max(...known), [worth, own] = unitOf(unit, high);
  const wide = logs && low > 0 && high >= 16 * low && texts.length > 2, of = (value) => (wide ? Math.log(value) : value);
  const from = of(wide ? low : up || low < high / 4 ? Math.min(0, low) : low), to = of(high);
  const at = (value) => 0.015 + (0.955 * (of(value) - from)) / (to - from || 1);
  // Few values across are the ticks themselves.
  const few = !up && texts.length <= 8, ticks = few ? texts.map((value) => value / worth).sort((a, b) => a - b) : [], step = rung((to - from) / worth / 6 || 1);
  if (!few) for (let n = wide ? rung(low / worth) : Math.ceil(from / worth / step) * step; n <= (high / worth) * 1.001 && ticks.length < 99; n = wide ? rung(n * 1.5) : n + step) ticks.push(n);
  const notes = [own, wide && "logarithmic"].filter(Boolean);
  return {
    at, ticks: ticks.filter((_, i) => i % Math.ceil(ticks.length / 8) === 0).map((n) => [at(n * worth), number(n)]),
    title: head + (notes.length ? ` (${notes.join(", ")})` : ""), said: (value) => `${number(value / worth)}${own && ` ${own}`}`,
  };
}

// A picture with its grid; what lies where.
function grid(svg, x, y, right) {
  const width = Math.max(svg.parentNode.clientWidth, 280), height = width < 600 ? 260 : 340, left = 58, bottom = 40, top = 14;
  const px = (part) => left + part * (width - left - right), py = (part) => height - bottom - part * (height - bottom - top);
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.replaceChildren();
  const write = (x, y, text, anchor = "end") => make("text", svg, { x, y, "text-anchor": anchor }, text);
  make("path", svg, { class: "grid", d: `M${left},${top}V${height - bottom}H${width - right}` });
  let free = 0; // from there on a label covers none before it
  for (const [part, text] of x.ticks) {
    make("path", svg, { class: "grid", d: `M${px(part)},${top}V${height - bottom}` });
    const label = write(px(part), height - bottom + 16, text, "middle"), half = label.getComputedTextLength() / 2;
    if (px(part) - half < free) label.remove();
    else free = px(part) + half + 6;
  }
  for (const [part, text] of y.ticks) {
    make("path", svg, { class: "grid", d: `M${left},${py(part)}H${width - right}` });
    write(left - 6, py(part) + 4, text);
  }
  write(width - right, height - 4, x.title);
  write(4, 10, y.title, "start");
  const wanted = (at, target) => {
    make("path", svg, { class: "grid", d: `M${left},${at}H${width - right}`, "stroke-dasharray": "5 4" });
    write(width - right - 4, at - 4, `target ${y.said(target)}`).setAttribute("class", "target");
  };
  return { width, height, left, bottom, top, px, py, write, wanted };
}

function picture(box, role, label) {
  box.insertAdjacentHTML("beforeend", `<svg role="${role}"${role === "img" ? ' tabindex="0"' : ""}></svg>`);
  box.lastChild.setAttribute("aria-label", label);
  return box.lastChild;
}

function lines(box, data) {
  const heads = data.views.map(({ across, up }) => [across.head, up.head]), kind = heads.every(([, y]) => y === heads[0][1]) ? 0 : 1;
  let view = 0, cursor = -1, move;
  const buttons = heads.length < 2 ? [] : heads.map((head, i) => {
    const button = make("button", box, { type: "button", "aria-pressed": i === 0 }, head[kind]);
    on(button, "click", () => {
      view = i;
      buttons.forEach((one, j) => one.setAttribute("aria-pressed", i === j));
      draw();
    });
    return button;
  });
  const svg = picture(box, "img", `${heads[0][1]} of each strategy, a line each; left and right arrow keys tell its values`);

  function draw() {
    const { across, up, clip, target, who, ...columns } = data.views[view];
    const of = (key, own) => (columns[key] || []).filter((_, row) => who[row] === own);
    const shown = data.names.map((name, own) => ({ name, color: data.colors[own], ...Object.fromEntries(["x", "mean", "low", "high", "ring"].map((key) => [key, of(key, own)])) })).filter(({ x }) => x.length);
    const xs = [...new Set(columns.x)], means = [...columns.mean, ...columns.high].filter((value) => value !== null);
    if (typeof xs[0] === "number") xs.sort((a, b) => a - b);
    const most = clip ? Math.min(Math.max(...means), 1.05 * Math.max(...shown.map(({ mean }) => mean[0]))) : Math.max(...means);
    const x = scale(across, xs), y = scale(up, [...means.filter((value) => value <= most), most], { up: true, logs: false });
    const right = Math.min(box.clientWidth / 3, 14 + 7 * Math.max(...shown.map(({ name }) => name.length)));
    const { width, height, left, bottom, top, px, py, write, wanted } = grid(svg, x, y, right);
    const at = (value) => px(x.at(value)), over = (value) => clamp(py(y.at(value)), -9e3, height - bottom);
    const path = (one, values) => one.x.map((value, i) => (values[i] === null ? "" : `${at(value)},${over(values[i])}`)).filter(Boolean);
    // What is too high is cut off.
    const labels = [], tall = height - top + 6, inside = make("svg", svg, { y: top - 6, width, height: tall, viewBox: `0 ${top - 6} ${width} ${tall}` });
    for (const one of shown) {
      const { name, color, mean, low, high, ring } = one, line = path(one, mean);
      if (low.some((value, i) => value !== null && value < high[i])) make("path", inside, { d: `M${[...path(one, high), ...path(one, low).reverse()].join("L")}z`, fill: color, "fill-opacity": 0.18 });
      make("path", inside, { d: `M${line.join("L")}`, fill: "none", stroke: color, "stroke-width": 2 });
      if (line.length <= 40) line.forEach((place, i) => { make("path", inside, { d: shape(0, 3), transform: `translate(${place})`, fill: color }); });
      ring.forEach((found, i) => { if (found) make("circle", svg, { cx: at(one.x[i]), cy: over(mean[i]), r: 7, class: "ring" }); });
      labels.push({ name, color, end: line.at(-1).split(",").map(Number) });
    }
    // Names at the ends, moved apart; those of one height from the lowest up.
    labels.sort((a, b) => b.end[1] - a.end[1]);
    labels.forEach((one, i) => { one.place = Math.min(one.end[1], i ? labels[i - 1].place - 14 : height - bottom); });
    for (const { name, color, end: [end, own], place } of labels) {
      make("path", svg, { d: `M${end + 2},${own}L${width - right + 4},${place}`, stroke: color, "stroke-opacity": 0.4, fill: "none" });
      const room = Math.floor((right - 8) / 6.6);
      write(width - right + 7, place + 4, name.length > room ? `${name.slice(0, room - 1)}\u2026` : name, "start").style.fill = color;
    }
    if (target) wanted(over(target), target);
    const rule = make("path", svg, { class: "grid", d: "" });
    // What the lines are at one place of the axis.
    move = (to, place) => {
      cursor = clamp(to, 0, xs.length - 1);
      const here = xs[cursor], found = shown.map((one) => {
        const i = typeof here === "string" || here > one.x.at(-1) ? one.x.indexOf(here) : one.x.findLastIndex((value) => value <= here);
        return i < 0 || one.mean[i] === null ? "" : `${one.name}: ${y.said(one.mean[i])}`;
      });
      const said = [`${across.head} ${x.said(here)}`, ...found].filter(Boolean);
      rule.setAttribute("d", `M${at(here)},${top}V${height - bottom}`);
      svg.setAttribute("aria-label", said.join(", "));
      const { left: edge, top: above } = svg.getBoundingClientRect();
      tell(said, place || { left: edge + at(here) + 14, bottom: above + top });
    };
    svg.onpointermove = (event) => {
      const reached = (event.offsetX * width) / svg.clientWidth, far = xs.map((value) => Math.abs(at(value) - reached));
      move(far.indexOf(Math.min(...far)), { left: event.clientX + 14, bottom: event.clientY + 10 });
    };
    svg.onpointerleave = svg.onblur = () => { hush(); rule.setAttribute("d", ""); };
  }
  on(svg, "keydown", (event) => {
    const way = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!way) return;
    move(cursor + way);
    event.preventDefault();
  });
  redrawn(box, draw);
}

// Every row of a table a point; a click on it opens the row.
function points(box, data) {
  const rows = document.querySelectorAll(`#${data.table} tbody tr`), [{ axes, at: usual, who, front, hollow, ring, target }] = data.views;
  const [across, up] = ["across", "upwards"].map((name, i) => {
    const select = make("select", make("label", box, {}, `${name} `));
    axes.forEach(({ head }, place) => make("option", select, { value: place }, head));
    select.value = usual[i];
    on(select, "change", draw);
    return select;
  });
  const key = make("p", box, { class: "key" });
  data.names.forEach((name, i) => {
    const entry = make("span", key);
    entry.insertAdjacentHTML("beforeend", `<svg viewBox="-7 -7 14 14"><path d="${shape(i, 5)}" fill="${data.colors[i]}"/></svg>`);
    entry.append(name);
  });
  for (const [which, said] of Object.entries(data.said)) if (data.views[0][which].some(Boolean)) make("span", key, {}, `${which}: ${said}`);
  const svg = picture(box, "group", "Every row of the table under Details, a point each; arrow keys go from point to point");

  const open = (row) => {
    for (const other of rows) other.classList.toggle("chosen", other === row);
    for (let around = row; around; around = around.parentElement) if (around.nodeName === "DETAILS") around.open = true;
    row.scrollIntoView({ block: "center" });
    row.cells[1].tabIndex = 0;
    row.cells[1].focus({ preventScroll: true });
  };

  function draw() {
    const [a, b] = [across, up].map(({ value }) => axes[value]), x = scale(a, a.values), y = scale(b, b.values, { up: true });
    const { px, py, wanted } = grid(svg, x, y, 14), there = who.map((_, i) => i).filter((i) => a.values[i] !== null && b.values[i] !== null);
    data.names.forEach((_, own) => { key.children[own].hidden = !there.some((i) => who[i] === own); });
    const at = (i) => [px(x.at(a.values[i])), py(y.at(b.values[i]))];
    const best = there.filter((i) => front[i]).map(at).sort((one, other) => one[0] - other[0]);
    const own = [across, up].map(({ value }, i) => Number(value) === usual[i]);
    if (best.length && own[0] && own[1]) make("path", svg, { class: "front", d: best.map(([h, v], i) => (i ? `H${h}V${v}` : `M${h},${v}`)).join("") });
    const made = [];
    for (const i of there) {
      if (ring[i]) make("circle", svg, { cx: at(i)[0], cy: at(i)[1], r: 10, class: "ring" });
      const name = who[i], said = axes.map(({ head, values, unit }) => values[i] !== null && `${head}: ${typeof values[i] === "number" ? scale({ head, unit }, [values[i]]).said(values[i]) : values[i]}`);
      const told = [data.names[name], ...said].filter(Boolean);
      const point = make("path", svg, { d: shape(name, front[i] ? 6 : 4.4), transform: `translate(${at(i)})`, role: "button", tabindex: made.length ? "-1" : "0", "aria-label": told.join(", "), class: hollow[i] ? "missed" : "" });
      point.style.color = data.colors[name];
      on(point, "mouseenter focus", () => tell(told, point));
      on(point, "mouseleave blur", hush);
      on(point, "click", () => open(rows[i]));
      const place = made.push(point) - 1;
      on(point, "keydown", (event) => {
        const to = made[place + { ArrowRight: 1, ArrowLeft: -1 }[event.key]];
        if (event.key === "Enter" || event.key === " ") open(rows[i]);
        else if (!to) return;
        else to.focus();
        event.preventDefault();
      });
    }
    if (own[1] && target) wanted(py(y.at(target)), target);
  }
  redrawn(box, draw);
}

document.querySelectorAll(".chart").forEach((box) => {
  const data = JSON.parse(box.nextElementSibling.textContent);
  (data.mark === "points" ? points : lines)(box, data);
});
