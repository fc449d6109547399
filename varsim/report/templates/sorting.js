// The main table is sorted by a click on a heading, by the numbers that stand in its cells.
"use strict";
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
