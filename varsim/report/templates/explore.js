// A sweep to explore: sliders choose a point of it; everything that is shown lies in the page.
"use strict";
const explore = (root, data) => {
  const { axes, columns, names, colors, points, loss } = data;
  const place = axes.map(({ at }) => at);
  let ghost = null, now = null, shownBet = !data.bet;

  const part = (name, parent = root, more = {}) => make("div", parent, { class: name, ...more });
  const found = (where) => points[where.join(" ")];

  // The address names the point, so that a link opens it: #workers=8&backups=1.
  const address = () => `#${axes.map(({ name, texts }, i) => `${name}=${encodeURIComponent(texts[place[i]])}`).join("&")}`;
  const goTo = (hash) => {
    for (const pair of hash.slice(1).split("&")) {
      const [name, text = ""] = pair.split("="), i = axes.findIndex((axis) => axis.name === name);
      const value = i < 0 ? -1 : axes[i].texts.indexOf(decodeURIComponent(text));
      if (value >= 0) place[i] = value;
    }
  };

  // The bet comes first: what came out is hidden until one is made.
  const betting = part("bet"), answers = part("answers");
  if (data.bet) {
    const form = make("form", betting), label = make("label", form, {}, "Your bet: ");
    const bet = make("input", label, { type: "text", required: "", maxlength: 200, autocomplete: "off" });
    make("button", form, {}, "show what happens");
    on(form, "submit", (event) => {
      event.preventDefault();
      betting.replaceChildren();
      make("p", betting, { class: "others" }, `Your bet: ${bet.value}`);
      shownBet = true;
      choose();
      sliders[0].focus();
    });
  }

  const controls = part("sliders", answers);
  const sliders = axes.map(({ title, texts }, i) => {
    const label = make("label", controls), said = make("span", label, {}, title);
    const slider = make("input", label, { type: "range", min: 0, max: texts.length - 1, step: 1 });
    slider.said = make("output", said);
    on(slider, "input", () => { place[i] = Number(slider.value); choose(); });
    on(slider, "pointerdown keydown", () => { ghost = now; });
    return slider;
  });
  const headline = make("p", answers, { class: "first", "aria-live": "polite" });
  const table = make("table", part("scroll", answers, { tabindex: 0, role: "region", "aria-label": "The main numbers" }), { class: "main bars" });
  const head = make("tr", make("thead", table)), body = make("tbody", table);
  make("th", head, { scope: "col" }, "strategy");
  for (const { head: said } of columns) make("th", head, { scope: "col" }, said);
  const rows = names.map((name, i) => {
    const row = make("tr", body), title = make("th", row, { scope: "row" });
    make("span", title, { class: `dot c${i}` });
    title.append(name);
    return { row, cells: columns.map(() => {
      const cell = make("td", row), bar = make("div", cell, { class: "bar" }), track = make("span", bar);
      return { track, bar: make("i", track), ghost: make("b", track), text: make("em", bar) };
    }) };
  });
  make("p", answers, { class: "caption" }, "The thin line is the point before.");
  const curve = loss ? make("h2", answers, { id: "loss" }, loss.head) : null;
  const curves = loss ? part("chart", answers) : null;
  make("h2", answers, { id: "timeline" }, "Timeline");
  const timeline = part("timeline", answers);
  let stop = new AbortController();

  function choose() {
    const point = found(place);
    answers.hidden = !shownBet;
    sliders.forEach((slider, i) => {
      const text = axes[i].texts[place[i]];
      slider.value = place[i];
      slider.setAttribute("aria-valuetext", text);
      slider.said.textContent = text;
    });
    history.replaceState(null, "", address());
    headline.textContent = point ? point.headline : "This combination is left out of the sweep.";
    if (!point || !shownBet) return;
    ghost ||= now;
    now = point;
    names.forEach((name, r) => {
      const row = point.rows[r], old = ghost && ghost !== point ? ghost.rows[r] : null;
      rows[r].row.classList.toggle("best", Boolean(row?.best));
      columns.forEach(({ most }, c) => {
        const { track, bar, ghost: line, text } = rows[r].cells[c], value = row?.values[c] ?? null, was = old?.values[c] ?? null;
        text.textContent = row ? row.texts[c] : "-";
        track.hidden = !most;
        bar.style.width = `${most ? (100 * (value || 0)) / most : 0}%`;
        line.hidden = was === null || !most;
        line.style.left = `${most ? (100 * (was || 0)) / most : 0}%`;
      });
    });
    if (loss) drawLoss(point, ghost === point ? null : ghost);
    stop.abort();
    stop = new AbortController();
    timeline.replaceChildren();
    player(make("div", timeline, { class: "player" }), structuredClone({ ...data.played, ...point.played }), stop.signal);
  }

  // Axes are those of all points, so that curves move and not their frame.
  function drawLoss(point, old) {
    const width = Math.max(curves.clientWidth, 280), height = 220, left = 52, bottom = 24, top = 8;
    const px = (x) => left + (x / loss.x) * (width - left - 8), py = (y) => height - bottom - (Math.min(y, loss.y) / loss.y) * (height - bottom - top);
    curves.replaceChildren();
    curves.insertAdjacentHTML("beforeend", `<svg role="img" viewBox="0 0 ${width} ${height}"></svg>`);
    const svg = curves.lastChild, write = (x, y, text, anchor) => make("text", svg, { x, y, "text-anchor": anchor }, text);
    svg.setAttribute("aria-label", `${loss.head}: ${names.map((name, i) => (point.loss[i]?.length ? `${name} ends at ${number(point.loss[i].at(-1)[1])}` : "")).filter(Boolean).join(", ")}`);
    make("path", svg, { class: "grid", d: `M${left},${top}V${height - bottom}H${width - 8}` });
    for (const share of [0, 0.5, 1]) {
      write(px(loss.x * share), height - 6, `${number(loss.x * share)} ${loss.unit}`, share === 1 ? "end" : "middle");
      write(left - 6, py(loss.y * share) + 4, number(loss.y * share), "end");
    }
    const draw = (lists, look) => lists.forEach((list, i) => {
      if (list.length > 1) make("path", svg, { d: `M${list.map(([x, y]) => `${px(x)},${py(y)}`).join("L")}`, fill: "none", stroke: colors[i], ...look });
    });
    if (old) draw(old.loss, { "stroke-width": 1, "stroke-opacity": 0.4, "stroke-dasharray": "4 3" });
    draw(point.loss, { "stroke-width": 2 });
  }

  on(window, "hashchange", () => { ghost = now; goTo(location.hash); choose(); });
  goTo(location.hash);
  choose();
};
explore(document.getElementById("explore"), JSON.parse(document.getElementById("explore-data").textContent));
