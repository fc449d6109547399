// What the scripts of a page share: elements, and what is told at the pointer or the focus.
"use strict";
const make = (name, parent, attributes = {}, text = "") => {
  const made = document.createElementNS(parent.namespaceURI, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.textContent = text;
  parent.append(made);
  return made;
};
const on = (target, events, act) => { for (const name of events.split(" ")) target.addEventListener(name, act); };
const clamp = (value, low, high) => Math.max(Math.min(value, high), low);
// The least of 1, 2, 5, 10, 20, ... that is not below a number.
const rung = (number) => {
  const power = 10 ** Math.floor(Math.log10(number) + 1e-9);
  return [1, 2, 5, 10].find((n) => n * power >= number * 0.999) * power;
};
const number = (value) => Number(value.toPrecision(3)).toLocaleString("en", { maximumFractionDigits: 9 });
const PREFIXES = { s: [[1, "s"], [1e-3, "ms"], [1e-6, "us"], [1e-9, "ns"]], share: [[0.01, "%"]] };
for (const unit of ["B", "bit/s", "FLOP/s"]) PREFIXES[unit] = [..."PTGMk"].map((prefix, i) => [10 ** (15 - 3 * i), prefix + unit]);
// A range of values is told in the unit of its largest.
const unitOf = (unit, most) => PREFIXES[unit]?.find(([worth]) => most >= worth) || PREFIXES[unit]?.at(-1) || [1, unit];
const tip = make("div", document.body, { class: "tip", role: "tooltip", id: "tip", hidden: "" });
// Told under an element, or under a place of the window.
const tell = (lines, place) => {
  const { left, bottom } = place.getBoundingClientRect?.() || place;
  place.setAttribute?.("aria-describedby", "tip");
  tip.replaceChildren();
  for (const line of lines) if (line) make("p", tip, {}, line);
  tip.hidden = false;
  tip.style.left = `${clamp(left, 8, document.documentElement.clientWidth - tip.offsetWidth - 8) + scrollX}px`;
  tip.style.top = `${bottom + 6 + scrollY}px`;
};
const hush = () => { tip.hidden = true; };
on(document, "keydown", ({ key }) => { if (key === "Escape") hush(); });
// Drawn anew in another width, or on a page of other colours.
const redrawn = (box, draw) => {
  new ResizeObserver(draw).observe(box);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  document.addEventListener("recolored", draw);
};

// The main table is sorted by a click on a heading, by the numbers that stand in its cells.
for (const table of document.querySelectorAll("table.main")) {
  const body = table.tBodies[0], heads = [...table.tHead.rows[0].cells].slice(1);
  if (body.rows.length > 1) for (const head of heads) {
    const button = make("button", head, { type: "button", class: "sort" });
    for (const node of [...head.childNodes]) if (node !== button) button.append(node);
    on(button, "click", () => {
      const down = head.getAttribute("aria-sort") !== "descending"; // first the largest
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const value = (row) => Number(row.cells[head.cellIndex].dataset.value || NaN);
      const rows = [...body.rows].sort((a, b) => {
        if (isNaN(value(a)) || isNaN(value(b))) return isNaN(value(a)) - isNaN(value(b));
        return down ? value(b) - value(a) : value(a) - value(b);
      });
      body.append(...rows);
    });
  }
}
