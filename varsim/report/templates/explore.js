// A sweep to explore: sliders choose a point of it; everything that is shown lies in the page.
"use strict";
const explore = (root, data) => {
  const { axes, columns, names, colors, points, loss } = data;
  const place = axes.map(({ at }) => at);
  let ghost = null, now = null, shownBet = !data.bet;

  const part = (name, parent = root, more = {}) => make("div", parent, { class: name, ...more });
  const found = (where) => points[where.join(" ")];
  const say = (node, text) => { if (node.textContent !== text) node.textContent = text; };

  // The address names the point, so that a link opens it: #workers=8&backups=1.
  const address = () => `#${axes.map(({ name, texts }, i) => `${name}=${encodeURIComponent(texts[place[i]])}`).join("&")}`;
  const plain = (text) => { try { return decodeURIComponent(text); } catch { return text; } };
  const goTo = (hash) => {
    for (const pair of hash.slice(1).split("&")) {
      const [name, text = ""] = pair.split("="), i = axes.findIndex((axis) => axis.name === name);
      const value = i < 0 ? -1 : axes[i].texts.indexOf(plain(text));
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
    return { row, cells: columns.map(({ most }) => {
      const cell = make("td", row), bar = make("div", cell, { class: "bar" }), track = make("span", bar);
      track.hidden = !most;
      return { bar: make("i", track), ghost: make("b", track), text: make("em", bar) };
    }) };
  });
  make("p", answers, { class: "caption" }, "The thin line is the point before.");
  const drawLoss = loss && losses(answers, data);
  make("h2", answers, { id: "timeline" }, "Timeline");
  const timeline = make("div", answers, { class: "player" });
  let replay = null, named = 0;

  // A drag passes many points, and browsers count how often a page names its place.
  function name() {
    clearTimeout(named);
    named = setTimeout(() => history.replaceState(null, "", address()), 100);
  }

  function choose() {
    const point = found(place);
    answers.hidden = !shownBet;
    sliders.forEach((slider, i) => {
      const text = axes[i].texts[place[i]];
      slider.value = place[i];
      slider.setAttribute("aria-valuetext", text);
      say(slider.said, text);
    });
    name();
    say(headline, point ? point.headline : "This combination is left out of the sweep.");
    if (!point || !shownBet) return;
    ghost ||= now;
    now = point;
    names.forEach((name, r) => {
      const row = point.rows[r], old = ghost && ghost !== point ? ghost.rows[r] : null;
      rows[r].row.classList.toggle("best", Boolean(row?.best));
      columns.forEach(({ most }, c) => {
        const { bar, ghost: line, text } = rows[r].cells[c], value = row?.values[c] ?? null, was = old?.values[c] ?? null;
        say(text, row ? row.texts[c] : "-");
        if (!most) return;
        bar.style.transform = `scaleX(${(value || 0) / most})`;
        line.hidden = was === null;
        line.style.transform = `translateX(calc(${(100 * (was || 0)) / most}% - 2px))`;
      });
    });
    drawLoss?.(point, ghost === point ? null : ghost);
    if (replay) replay(point.played); else replay = player(timeline, { ...data.played, ...point.played });
  }

  on(window, "hashchange", () => { ghost = now; goTo(location.hash); choose(); });
  goTo(location.hash);
  choose();
};

// Curves of the loss; axes are those of all points, so that curves move and not their frame.
const losses = (parent, { loss, names, colors }) => {
  make("h2", parent, { id: "loss" }, loss.head);
  const box = make("div", parent, { class: "chart" }), height = 220, left = 52, bottom = 24, top = 8;
  box.insertAdjacentHTML("beforeend", `<svg role="img"></svg>`);
  const svg = box.firstChild, path = (look) => make("path", svg, { fill: "none", ...look });
  const grid = make("path", svg, { class: "grid" }), marks = [0, 0.5, 1].map((share) => {
    const x = make("text", svg, { y: height - 6, "text-anchor": share === 1 ? "end" : "middle" }, `${number(loss.x * share)} ${loss.unit}`);
    const y = make("text", svg, { x: left - 6, "text-anchor": "end" }, number(loss.y * share));
    return { share, x, y };
  });
  const old = colors.map((stroke) => path({ stroke, "stroke-width": 1, "stroke-opacity": 0.4, "stroke-dasharray": "4 3" }));
  const lines = colors.map((stroke) => path({ stroke, "stroke-width": 2 }));
  let width = 0, shown = null;
  const px = (x) => left + (x / loss.x) * (width - left - 8), py = (y) => height - bottom - (Math.min(y, loss.y) / loss.y) * (height - bottom - top);
  const draw = (paths, curves) => paths.forEach((one, i) => {
    const list = curves?.[i] || [];
    one.setAttribute("d", list.length > 1 ? `M${list.map(([x, y]) => `${px(x).toFixed(1)},${py(y).toFixed(1)}`).join("L")}` : "");
  });
  const show = (point, ghost) => {
    shown = [point, ghost];
    if (!width) return;
    draw(old, ghost?.loss);
    draw(lines, point.loss);
    svg.setAttribute("aria-label", `${loss.head}: ${names.map((name, i) => (point.loss[i]?.length ? `${name} ends at ${number(point.loss[i].at(-1)[1])}` : "")).filter(Boolean).join(", ")}`);
  };
  redrawn(box, () => {
    if (width === box.clientWidth || !box.clientWidth) return;
    width = Math.max(box.clientWidth, 280);
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    grid.setAttribute("d", `M${left},${top}V${height - bottom}H${width - 8}`);
    for (const { share, x, y } of marks) {
      x.setAttribute("x", px(loss.x * share));
      y.setAttribute("y", py(loss.y * share) + 4);
    }
    if (shown) show(...shown);
  });
  return show;
};

// The data lie in the page compressed.
const packed = atob(document.getElementById("explore-data").textContent), root = document.getElementById("explore");
const bytes = new Blob([Uint8Array.from(packed, (one) => one.charCodeAt(0))]).stream();
new Response(bytes.pipeThrough(new DecompressionStream("gzip"))).json().then((data) => explore(root, data));
