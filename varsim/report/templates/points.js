// Rows of tables as points, on axes of one's choice.
"use strict";
document.querySelectorAll("table[data-axes]").forEach(points);

// Every row a point; a click on it opens the row.
function points(table) {
  const head = [...table.tHead.rows[0].cells], rows = [...table.tBodies[0].rows];
  const usual = table.dataset.axes.split("|"), box = make("div", document.body, { class: "points" });
  table.parentNode.before(box);
  const [across, up] = ["across", "upwards"].map((name, i) => {
    const select = make("select", make("label", box, {}, `${name} `));
    head.forEach((cell, place) => { if (place) make("option", select, { value: place }, said(cell)); });
    select.value = head.findIndex((cell) => said(cell) === usual[i]);
    on(select, "change", draw);
    return select;
  });
  box.insertAdjacentHTML("beforeend", '<svg role="group" aria-label="Every row of the table below, a point each"></svg>');
  const svg = box.lastChild;
  // The marks of the pictures (MARKERS in looks.py): corners, where the first is, how far in every third is.
  const SHAPES = [[24, 0], [4, 0.25], [3, 0], [4, 0], [3, 1], [12, 1 / 12, 0.37], [12, 1 / 3, 0.37], [3, 1.5], [3, 0.5], [5, 0], [6, 0]];
  // All have the area of a circle of this radius.
  const shape = ([corners, turn, dent = 1], radius) => `M${[...Array(corners)].map((_, i) => {
    const size = radius * Math.sqrt(Math.PI / ((corners / 2) * Math.sin((2 * Math.PI) / corners)));
    const angle = Math.PI * (turn + (2 * i) / corners), far = i % 3 === 1 ? size * dent : size;
    return `${far * Math.sin(angle)},${-far * Math.cos(angle)}`;
  }).join("L")}z`;

  // Where the rows lie by a column, between 0 and 1, the ticks there, and what it is called.
  const scale = (place, upwards) => {
    const found = rows.map((row) => [row, said(row.cells[place])]).filter(([, text]) => text && text !== "-");
    const texts = [...new Set(found.map(([, text]) => text))], numbers = found.map(([, text]) => parsed(text));
    if (numbers.some(({ value }) => isNaN(value))) {
      const at = (text) => (texts.indexOf(text) + 0.5) / texts.length;
      return { at: new Map(found.map(([row, text]) => [row, at(text)])), ticks: texts.map((text) => [at(text), text.slice(0, 14)]), title: said(head[place]) };
    }
    // On an axis in the unit of its largest number.
    const most = numbers.reduce((one, other) => (other.value > one.value ? other : one), { value: -Infinity }), same = new Set(numbers.map(({ unit }) => unit)).size === 1;
    const values = numbers.map(({ value }) => value / (same ? most.worth : 1)), low = Math.min(...values), high = Math.max(...values);
    const wide = low > 0 && high >= 16 * low, from = wide ? Math.log(low) : upwards || low < high / 2 ? Math.min(0, low) : low, to = wide ? Math.log(high) : high || 1;
    const at = (value) => 0.015 + (0.955 * ((wide ? Math.log(value) : value) - from)) / (to - from || 1);
    const ticks = [], step = rung((to - from) / 6 || 1);
    for (let n = wide ? rung(low) : Math.ceil(from / step) * step; n <= high * 1.001; n = wide ? rung(n * 1.5) : n + step) ticks.push(n);
    const every = Math.ceil(ticks.length / 8), notes = [same && most.own, wide && "logarithmic"].filter(Boolean);
    return {
      at: new Map(found.map(([row], i) => [row, at(values[i])])),
      ticks: ticks.filter((_, i) => i % every === 0).map((value) => [at(value), Number(value.toPrecision(6)).toLocaleString("en")]),
      title: said(head[place]) + (notes.length ? ` (${notes.join(", ")})` : ""),
    };
  };

  const open = (row) => {
    for (const other of rows) other.classList.toggle("chosen", other === row);
    for (let around = row; around; around = around.parentElement) if (around.nodeName === "DETAILS") around.open = true;
    row.scrollIntoView({ block: "center" });
    row.cells[1].tabIndex = 0;
    row.cells[1].focus({ preventScroll: true });
  };

  function draw() {
    const width = Math.max(box.clientWidth, 280), height = 320, left = 62, bottom = 44, top = 12;
    const [x, y] = [across, up].map(({ value }, i) => scale(Number(value), i));
    const px = (part) => left + part * (width - left - 14), py = (part) => height - bottom - part * (height - bottom - top);
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.replaceChildren();
    const write = (x, y, text, anchor = "end") => make("text", svg, { x, y, "text-anchor": anchor }, text);
    let free = 0; // from there on a label covers none before it
    for (const [part, text] of x.ticks) {
      make("path", svg, { class: "grid", d: `M${px(part)},${top}V${height - bottom}` });
      const label = write(px(part), height - bottom + 16, text, "middle"), half = label.getComputedTextLength() / 2;
      if (px(part) - half < free) label.remove();
      else free = px(part) + half + 6;
    }
    for (const [part, text] of y.ticks) {
      make("path", svg, { class: "grid", d: `M${left},${py(part)}H${width - 14}` });
      write(left - 6, py(part) + 4, text);
    }
    write(width - 14, height - 6, x.title);
    write(4, 10, y.title, "start");
    const front = rows.filter((row) => row.dataset.front).map((row) => [x.at.get(row), y.at.get(row)]).sort((a, b) => a[0] - b[0]);
    if (front.length && [across, up].every(({ value }, i) => said(head[value]) === usual[i])) {
      make("path", svg, { class: "front", d: front.map(([a, b], i) => (i ? `H${px(a)}V${py(b)}` : `M${px(a)},${py(b)}`)).join("") });
    }
    const made = [];
    for (const row of rows) {
      const [a, b] = [x.at.get(row), y.at.get(row)];
      if (a === undefined || b === undefined) continue;
      const [name, ...cells] = [...row.cells].map(said), dot = row.cells[0].querySelector(".dot");
      const d = shape(SHAPES[/\d+/.exec(dot.className) % SHAPES.length], row.dataset.front ? 6 : 4.4);
      const lines = cells.map((text, i) => text && text !== "-" && `${said(head[i + 1])}: ${text}`).filter(Boolean);
      const point = make("path", svg, { d, transform: `translate(${px(a)},${py(b)})`, role: "button", tabindex: made.length ? "-1" : "0",
        "aria-label": [name, ...lines].join(", "), ...(row.dataset.missed && { class: "missed" }) });
      point.style.color = getComputedStyle(dot).backgroundColor;
      on(point, "mouseenter focus", () => tell([name, ...lines], point));
      on(point, "mouseleave blur", hush);
      on(point, "click", () => open(row));
      const place = made.push(point) - 1;
      on(point, "keydown", (event) => {
        const to = made[place + { ArrowRight: 1, ArrowLeft: -1 }[event.key]];
        if (event.key === "Enter" || event.key === " ") open(row);
        else if (!to) return;
        else to.focus();
        event.preventDefault();
      });
    }
  }
  redrawn(box, draw);
}
