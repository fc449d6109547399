// Rows of tables as points, on axes of one's choice.
"use strict";
document.querySelectorAll("table[data-axes]").forEach(points);

// Every row a point; a click on it opens the row.
function points(table) {
  const head = [...table.tHead.rows[0].cells], rows = [...table.tBodies[0].rows];
  const [first, second] = table.dataset.axes.split("|");
  const box = make("div", document.body, { class: "points" });
  table.parentNode.before(box);
  const choose = (name, start) => {
    const select = make("select", make("label", box, {}, `${name} `));
    head.forEach((cell, place) => {
      if (place) make("option", select, { value: place }, said(cell));
    });
    select.value = head.findIndex((cell) => said(cell) === start);
    select.addEventListener("change", draw);
    return select;
  };
  const across = choose("across", first), up = choose("upwards", second);
  box.insertAdjacentHTML("beforeend", '<svg role="group" aria-label="Every row of the table below, a point each"></svg>');
  const svg = box.lastChild;
  const SHAPES = [(r) => `M-${r},0a${r},${r} 0 1,0 ${2 * r},0a${r},${r} 0 1,0 -${2 * r},0`, (r) => `M-${r},-${r}h${2 * r}v${2 * r}h-${2 * r}z`,
    (r) => `M0,-${r}L${r},${r}H-${r}z`, (r) => `M0,-${r + 1}L${r + 1},0L0,${r + 1}L-${r + 1},0z`, (r) => `M0,${r}L${r},-${r}H-${r}z`];
  const marks = [...new Set(rows.map((row) => said(row.cells[0])))];

  // Where the rows lie by a column, between 0 and 1, and the ticks there.
  const scale = (place) => {
    const found = rows.map((row) => ({ row, text: said(row.cells[place]), ...parsed(said(row.cells[place])) }))
      .filter(({ text }) => text && text !== "-");
    const done = (at, ticks, unit = "") => ({ at: new Map(found.map((one) => [one.row, at(one)])), ticks, unit });
    const texts = [...new Set(found.map(({ text }) => text))], numbers = found.map(({ value }) => value);
    if (numbers.some(isNaN)) {
      const at = ({ text }) => (texts.indexOf(text) + 0.5) / texts.length;
      return done(at, texts.map((text) => [at({ text }), text.slice(0, 14)]));
    }
    const low = Math.min(...numbers), high = Math.max(...numbers), wide = low > 0 && high >= 16 * low;
    const from = wide ? Math.log(low) : Math.min(0, low), to = wide ? Math.log(high) : high || 1;
    const at = ({ value }) => 0.015 + (0.955 * ((wide ? Math.log(value) : value) - from)) / (to - from || 1);
    const power = 10 ** Math.floor(Math.log10((to - from) / 5 || 1));
    const step = [1, 2, 5, 10].find((n) => n * power * 6 >= to - from) * power, from0 = Math.ceil(from / step);
    const marks = (wide ? [...Array(60)].flatMap((_, i) => [1, 2, 5].map((n) => n * 10 ** (i - 30))) : [...Array(9)].map((_, i) => (from0 + i) * step))
      .filter((n) => n <= high * 1.001 && (!wide || n >= low * 0.999));
    const every = Math.ceil(marks.length / 8), units = new Set(found.map(({ unit }) => unit));
    return done(at, marks.filter((_, i) => i % every === 0).map((value) => [at({ value }), Number(value.toPrecision(6)).toLocaleString("en")]),
      units.size === 1 && found[0].unit ? ` (${found[0].unit})` : "");
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
    const [x, y] = [scale(Number(across.value)), scale(Number(up.value))];
    const px = (part) => left + part * (width - left - 14), py = (part) => height - bottom - part * (height - bottom - top);
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.replaceChildren();
    for (const [part, text] of x.ticks) {
      make("path", svg, { class: "grid", d: `M${px(part)},${top}V${height - bottom}` });
      make("text", svg, { x: px(part), y: height - bottom + 16, "text-anchor": "middle" }, text);
    }
    for (const [part, text] of y.ticks) {
      make("path", svg, { class: "grid", d: `M${left},${py(part)}H${width - 14}` });
      make("text", svg, { x: left - 6, y: py(part) + 4, "text-anchor": "end" }, text);
    }
    make("text", svg, { x: width - 14, y: height - 6, "text-anchor": "end" }, said(head[across.value]) + x.unit);
    make("text", svg, { x: 4, y: 10 }, said(head[up.value]) + y.unit);
    const usual = said(head[across.value]) === first && said(head[up.value]) === second;
    const front = usual ? rows.filter((row) => row.dataset.front).map((row) => [x.at.get(row), y.at.get(row)]).sort((a, b) => a[0] - b[0]) : [];
    if (front.length) make("path", svg, { class: "front", d: front.map(([a, b], i) => (i ? `H${px(a)}V${py(b)}` : `M${px(a)},${py(b)}`)).join("") });
    let before = null;
    for (const row of rows) {
      const [a, b] = [x.at.get(row), y.at.get(row)];
      if (!Number.isFinite(a) || !Number.isFinite(b)) continue;
      const shape = SHAPES[marks.indexOf(said(row.cells[0])) % SHAPES.length](row.dataset.front ? 6 : 4.5);
      const label = head.slice(1).map((cell, i) => [said(cell), said(row.cells[i + 1])]).filter(([, text]) => text && text !== "-");
      const point = make("path", svg, { d: shape, transform: `translate(${px(a)},${py(b)})`, role: "button", tabindex: before ? "-1" : "0",
        "aria-label": `${said(row.cells[0])}, ${label.map((pair) => pair.join(" ")).join(", ")}` });
      point.style.fill = getComputedStyle(row.cells[0].querySelector(".dot")).backgroundColor;
      const show = () => tell(point, [said(row.cells[0]), ...label.map((pair) => pair.join(": "))]);
      for (const name of ["mouseenter", "focus"]) point.addEventListener(name, show);
      for (const name of ["mouseleave", "blur"]) point.addEventListener(name, hush);
      point.addEventListener("click", () => open(row));
      const last = before;
      if (last) last.next = point;
      point.last = last;
      point.addEventListener("keydown", (event) => {
        const to = { ArrowRight: point.next, ArrowLeft: point.last }[event.key];
        if (event.key === "Enter" || event.key === " ") open(row);
        else if (!to) return;
        else to.focus();
        event.preventDefault();
      });
      before = point;
    }
  }
  new ResizeObserver(draw).observe(box);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
}
