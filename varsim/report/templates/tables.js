// Tables to work with: sorted by a click, and cells that say what they are.
// It reads the tables of the page, and nothing else; points.js goes on with what is read here.
"use strict";
const UNITS = {
  s: { ns: 1e-9, us: 1e-6, ms: 1e-3, s: 1, min: 60, h: 3600, d: 86400 },
  B: { B: 1, kB: 1e3, MB: 1e6, GB: 1e9, TB: 1e12, KiB: 1024, MiB: 1024 ** 2, GiB: 1024 ** 3 },
  "bit/s": { "kbit/s": 1e3, "Mbit/s": 1e6, "Gbit/s": 1e9, "Tbit/s": 1e12 },
};
const said = (cell) => (cell.firstChild ? cell.querySelector(".told") || cell : cell).textContent.replaceAll("\u00a0", " ").trim();
// A number in s, bytes or bit/s, where that is its unit, and the unit it has; NaN where a cell has words.
const parsed = (text) => {
  const found = /^(-?[\d,]*\.?\d+(?:e[-+]?\d+)?)(?: ± [\d.,]+)?(?: ?([a-zA-Z%/]+))?/.exec(text) || [];
  const own = found[2] || "", base = Object.keys(UNITS).find((name) => own in UNITS[name]), worth = base ? UNITS[base][own] : 1;
  return { value: Number((found[1] || "NaN").replaceAll(",", "")) * worth, unit: base || own, own, worth };
};

// What a cell is: its row and column, what the number means, and its interval.
const about = (table, cell) => {
  const row = cell.parentNode, head = table.tHead.rows[0].cells[cell.cellIndex], label = row.cells[0];
  const lines = [`${said(label)} · ${said(head)}: ${said(cell)}`];
  lines.push(head.dataset.meaning || label.querySelector("small")?.textContent);
  const spread = /^(-?[\d.,]+) ± ([\d.,]+)(.*)$/.exec(said(cell));
  if (spread) {
    const [mean, half] = [spread[1], spread[2]].map((text) => Number(text.replaceAll(",", "")));
    const digits = (spread[2].split(".")[1] || "").length;
    const [low, high] = [mean - half, mean + half].map((end) =>
      end.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits }));
    lines.push(`95 % confidence interval: ${low} to ${high}${spread[3]}`);
  } else if (/\(.* to .*\)/.test(said(cell))) lines.push("in brackets: 95 % confidence interval");
  return lines;
};

for (const table of document.querySelectorAll("table")) {
  const head = table.tHead.rows[0], body = table.tBodies[0];
  const sideways = table.dataset.marked === "columns"; // its columns are compared, so these are sorted, by a row
  for (const title of head.querySelectorAll("th[title]")) {
    title.dataset.meaning = title.title;
    title.removeAttribute("title");
  }
  const several = sideways ? head.cells.length > 2 : body.rows.length > 1;
  const keys = !table.dataset.marked || !several ? [] : sideways ? [...body.rows].map((row) => row.cells[0]) : [...head.cells].slice(1);
  for (const key of keys) {
    const button = make("button", key, { type: "button", class: "sort" });
    const label = make("span", button, { class: "told" });
    for (const node of [...key.childNodes]) if (node !== button && node.nodeName !== "SMALL") label.append(node);
    if (key.dataset.meaning) button.dataset.meaning = key.dataset.meaning;
    key.prepend(button);
    on(button, "click", () => sort(key));
  }
  const sort = (key) => {
    const down = key.getAttribute("aria-sort") !== "descending"; // first the largest
    for (const other of keys) other.removeAttribute("aria-sort");
    key.setAttribute("aria-sort", down ? "descending" : "ascending");
    const things = sideways ? [...head.cells].slice(1).map(({ cellIndex }) => cellIndex) : [...body.rows];
    const ranked = things.map((thing) => {
      const text = said(sideways ? key.parentNode.cells[thing] : thing.cells[key.cellIndex]);
      return { thing, text, ...parsed(text) };
    });
    ranked.sort((a, b) => {
      if (isNaN(a.value) !== isNaN(b.value)) return isNaN(a.value) ? 1 : -1;
      const order = isNaN(a.value) ? a.text.localeCompare(b.text) : a.value - b.value;
      return down ? -order : order;
    });
    if (!sideways) body.append(...ranked.map(({ thing }) => thing));
    else for (const row of table.rows) {
      const cells = [...row.cells];
      row.append(...ranked.map(({ thing }) => cells[thing]));
    }
  };
  on(table, "mouseover focusin", ({ target }) => {
    const cell = target.closest("td, th[data-meaning]");
    if (!cell || !said(cell)) hush();
    else tell(cell.nodeName === "TD" ? about(table, cell) : [cell.dataset.meaning], cell);
  });
  on(table, "mouseleave focusout", hush);
  // One cell is in the order of tabs; from there arrow keys go on.
  body.querySelector("td")?.setAttribute("tabindex", "0");
  on(table, "keydown", (event) => {
    const move = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    const from = event.target.closest("td");
    if (!move || !from) return;
    const to = table.rows[from.parentNode.rowIndex + move[0]]?.cells[from.cellIndex + move[1]];
    if (to?.nodeName !== "TD" || !body.contains(to)) return;
    event.preventDefault();
    from.tabIndex = -1;
    to.tabIndex = 0;
    to.focus();
  });
}
