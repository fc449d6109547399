// The timeline to walk through: all strategies of a run on one clock, drawn on a canvas.
// It reads the JSON beside it (report/charts/timeline.py says what is in that), and nothing else.
"use strict";
(() => {
  const root = document.getElementById("player");
  const data = JSON.parse(document.getElementById("player-data").textContent);
  const ROW = 13, LANE = 6, HEAD = 24, GAP = 8, LEFT = 52, RIGHT = 34, CURVE = 74, AXIS = 22;
  const WAITS = ["barrier", "token", "lock", "queue"];

  // Of a sorted list the first index at which a test holds.
  const first = (list, test) => {
    let low = 0, high = list.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (test(list[middle])) high = middle; else low = middle + 1;
    }
    return low;
  };
  const time = (ns, digits = 6) => {
    const [name, worth] = [["s", 1e9], ["ms", 1e6], ["us", 1e3], ["ns", 1]].find(([, one]) => Math.abs(ns) >= one) || ["s", 1e9];
    return `${Number((ns / worth).toPrecision(digits))} ${name}`;
  };
  const count = (n, noun) => `${n.toLocaleString("en")} ${noun}${n === 1 ? "" : "s"}`;
  const fate = (g) => {
    const stale = g.ended_step - g.read_step;
    return g.outcome.replace("partly", "partly applied") + (g.ended_step < 0 ? "" : `, ${stale ? `${count(stale, "update")} stale` : "not stale"}`);
  };
  const named = (ranks) => {
    const runs = [];
    for (const rank of [...new Set(ranks)].sort((a, b) => a - b)) {
      if (runs.length && runs.at(-1).at(-1) === rank - 1) runs.at(-1).push(rank); else runs.push([rank]);
    }
    return `worker${runs.flat().length > 1 ? "s" : ""} ${runs.map((run) => (run.length > 2 ? `${run[0]} to ${run.at(-1)}` : run.join(", "))).join(", ")}`;
  };
  // Of a curve its value at a time, and what of it is in view.
  const valueAt = (points, at) => points[first(points, ([moment]) => moment > at) - 1]?.[1];
  const inView = (points) => points.slice(Math.max(first(points, ([at]) => at > view.from) - 1, 0), first(points, ([at]) => at > view.to) + 1);

  const lossesOf = ({ loss }) => loss.map(([, value]) => value).filter(Number.isFinite);

  // A number in the room left of a panel.
  const round = (value) => {
    const text = `${Number(value.toPrecision(3))}`;
    return text.length > 7 ? value.toExponential(1) : text;
  };

  // What is shown of the data: a stretch of time, a cursor, a chosen gradient; if it plays, its frame.
  const view = { from: 0, to: data.end, cursor: 0, chosen: null, playing: 0 };

  for (const one of data.strategies) {
    const phases = data.phases.map((phase) => ({ ...phase, said: one.said[phase.name] || phase.said }));
    one.moments = [];
    const add = (at, said, rank) => { if (at >= 0 && at <= data.end) one.moments.push({ at, said, rank }); };
    for (const worker of one.workers) {
      // Of a span its end is given, of what is sent beside it the start, too.
      let before = 0;
      const read = (list, size) => Array.from({ length: list.length / size }, (_, i) => {
        const row = list.slice(size * i, size * (i + 1)), [end, iteration] = row.slice(-2);
        const start = size === 4 ? row[1] : before, phase = phases[row[0]];
        before = end;
        return { rank: worker.rank, phase, use: phase.name, start, end, iteration };
      });
      worker.spans = read(worker.spans, 3);
      worker.sends = read(worker.sends, 4);
      // Who shares a link uses it meanwhile.
      worker.spans.forEach((span, i) => { if (one.shares && span.use === "queue") span.use = worker.spans[i + 1]?.use; });
    }
    const of = (name) => one.workers.flatMap((worker) => worker[name]), sends = of("sends");
    const beside = new Set(sends.map(({ use }) => use)); // all of that is on the lanes
    const used = [...sends, ...of("spans").filter(({ use }) => !beside.has(use))];
    one.gradients = one.gradients.map((row) => Object.fromEntries(data.gradient.map((name, i) => [name, row[i]])));
    one.gradientOf = new Map(one.gradients.map((g) => [`${g.worker}/${g.iteration}`, g]));
    // Micro-batches, and workers with a cache, go on with what was read for the gradient before.
    const keptFrom = (g) => {
      const before = one.gradientOf.get(`${g.worker}/${g.iteration - 1}`);
      return before?.read === g.read ? before : null;
    };
    const variables = (g) => {
      let from = g;
      while (keptFrom(from)) from = keptFrom(from);
      const own = g.read_step - from.read_step;
      return `the variables of step ${from.read_step}` + (own ? `, and ${own} update${own > 1 ? "s" : ""} of its own since` : "");
    };
    for (const g of one.gradients) {
      g.outcome = data.outcomes[g.outcome];
      [g.variables, g.kept] = [variables(g), Boolean(keptFrom(g))];
      const own = `gradient ${g.iteration}`, tell = (at, said) => add(at, said, g.worker);
      if (g.read < g.begun && !g.kept) tell(g.read, `${g.variables} are read by %`);
      tell(g.begun, `${own} is begun by %, with ${g.variables}`);
      tell(g.computed, `${own} has been computed by %`);
      if (g.arrived > g.computed) tell(g.arrived, `${own} of % has arrived`);
      if (g.outcome !== "pending") tell(g.ended, `${own} of % is ${fate(g)}`);
    }
    for (const { rank, phase, start } of used) if (phase.name === "write") add(start, `${phase.said}, begun by %`, rank);
    one.updates.forEach((at, index) => add(at, `global_step rises to ${index + 1}`));
    one.moments.sort((a, b) => a.at - b.at);
    one.pitch = sends.length ? ROW + LANE : ROW;
    one.rows = one.workers.length * one.pitch;
  }
  // The page around the canvas; a button does what its key does.
  const [bar, key, box, story] = root.children, canvas = box.firstElementChild, buttons = bar.querySelectorAll("button"), legend = bar.lastElementChild;
  for (const button of buttons) on(button, "click", () => { KEYS[button.dataset.key](); canvas.focus(); });
  data.strategies.forEach((one, index) => {
    const label = make("label", legend);
    const tick = make("input", label, { type: "checkbox" });
    one.hidden = data.open ? !data.open.includes(one.name) : false;
    tick.checked = !one.hidden;
    one.dot = make("span", label, { class: `dot c${index}` });
    if (lossesOf(one).length > 1) label.insertAdjacentHTML("beforeend", `<svg><path d="M0,4H28" stroke-width="2" stroke-dasharray="${one.dash}"/></svg>`); // its curve
    label.append(one.name);
    on(tick, "change", () => {
      one.hidden = !tick.checked;
      layout();
    });
  });
  const dots = {};
  for (const { name, said } of data.phases.filter(({ seen }) => seen)) {
    const entry = make("span", key, { title: said });
    dots[name] = make("span", entry, { class: `dot p-${name}` });
    entry.append(name);
  }
  for (const said of data.marks) make("span", key, {}, said);
  if (data.cut) make("p", root, { class: "caption" }, data.cut);
  const paint = canvas.getContext("2d");
  const colors = {}, fills = {};
  let width = 0, height = 0, places = [];

  // Colour never stands alone: what is not computing is hatched, each in its way.
  const hatched = () => { for (const { name, hatch } of data.phases.filter(({ seen }) => seen)) {
    const tile = new OffscreenCanvas(12, 12), pen = tile.getContext("2d");
    pen.fillStyle = getComputedStyle(dots[name]).backgroundColor;
    pen.fillRect(0, 0, 12, 12);
    pen.strokeStyle = "rgb(255 255 255 / 0.7)";
    pen.lineWidth = 2;
    for (const shift of [-12, 0, 12]) {
      for (const [mark, from, to] of [["/x", [0, 12], [12, 0]], ["\\x", [0, 0], [12, 12]], ["|+", [6, 0], [6, 12]], ["-+", [0, 6], [12, 6]]]) {
        if (![...mark].some((one) => hatch.includes(one))) continue;
        pen.moveTo(from[0] + shift, from[1]);
        pen.lineTo(to[0] + shift, to[1]);
      }
    }
    pen.stroke();
    fills[name] = paint.createPattern(tile, "repeat");
    fills[name].setTransform(new DOMMatrix([0.5, 0, 0, 0.5, 0, 0]));
  } };

  const shown = () => data.strategies.filter(({ hidden }) => !hidden);
  const x = (at) => LEFT + ((at - view.from) / (view.to - view.from)) * (width - LEFT - RIGHT);
  const at = (px) => view.from + ((px - LEFT) / (width - LEFT - RIGHT)) * (view.to - view.from);

  // Where everything stands: after a change of size, of theme, or of the strategies shown.
  function layout() {
    const style = getComputedStyle(document.documentElement);
    for (const name of ["ink", "faint", "line", "paper", "accent"]) colors[name] = style.getPropertyValue(`--${name}`).trim();
    for (const one of data.strategies) one.color = one.dot.parentNode.style.stroke = getComputedStyle(one.dot).backgroundColor;
    hatched();
    width = Math.max(root.clientWidth, 280);
    places = [];
    height = AXIS;
    const put = (place, high) => {
      places.push({ ...place, top: height + HEAD });
      height += HEAD + high + GAP;
    };
    for (const one of shown()) put({ one }, one.rows);
    const of = shown().filter((one) => lossesOf(one).length > 1), all = of.flatMap(lossesOf).sort((a, b) => a - b);
    if (all.length) put({ of, high: all.at(-1), low: all[0] }, CURVE);
    const ratio = devicePixelRatio || 1;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.height = `${height}px`;
    paint.setTransform(ratio, 0, 0, ratio, 0, 0);
    draw();
  }

  function draw() {
    paint.clearRect(0, 0, width, height);
    paint.font = "12px system-ui, sans-serif";
    paint.textBaseline = "middle";
    axis();
    for (const place of places) (place.one ? panel : curve)(place);
    line(view.cursor, 0, height, colors.accent, 1.5);
    tellStory();
  }

  const write = (text, px, y, align, color = colors.faint) => {
    paint.fillStyle = color;
    paint.textAlign = align;
    paint.fillText(text, px, y, width);
  };

  // Lines from point to point; nothing that is out of view matters.
  function stroke(color, thick, ...lines) {
    paint.strokeStyle = color;
    paint.lineWidth = thick;
    paint.beginPath();
    for (const points of lines) points.forEach(([px, y], i) => (i ? paint.lineTo(px, y) : paint.moveTo(px, y)));
    paint.stroke();
  }

  function fill(color, points, edge = 0) {
    paint.fillStyle = color;
    if (edge) stroke(color, edge, points);
    else {
      paint.beginPath();
      for (const point of points) paint.lineTo(...point);
    }
    paint.fill();
  }

  function line(moment, top, bottom, color, thick) {
    if (moment >= view.from && moment <= view.to) stroke(color, thick, [[x(moment), top], [x(moment), bottom]]);
  }

  function clipped(top, bottom, act) {
    paint.save();
    paint.beginPath();
    paint.rect(LEFT, top - 4, width - LEFT - RIGHT, bottom - top + 8);
    paint.clip();
    act();
    paint.restore();
  }

  function axis() {
    const tick = Math.max(rung(((view.to - view.from) * 90) / (width - LEFT - RIGHT)), 1);
    for (let mark = Math.ceil(view.from / tick) * tick; mark <= view.to; mark += tick) {
      line(mark, AXIS - 4, height, colors.line, 1);
      if (x(mark) < width - 24) write(mark ? time(mark) : "0", x(mark), AXIS / 2, "center");
    }
  }

  function panel({ one, top }) {
    const bottom = top + one.rows;
    heading(one.name, one.color, top, `${count(first(one.updates, (moment) => moment > view.cursor), "update")} so far${
      one.workers.length < one.of ? `; ${one.workers.length} of ${count(one.of, "worker")} shown` : ""}`);
    clipped(top, bottom, () => {
      one.workers.forEach(({ spans, sends }, row) => {
        boxes(one, spans, top + row * one.pitch + 1, ROW - 2);
        boxes(one, sends, top + row * one.pitch + ROW - 1, LANE - 1);
      });
      const updates = one.updates.filter((moment) => moment > view.from && moment <= view.to);
      if (updates.length < (width - LEFT) / 3) for (const update of updates) {
        line(update, top - 4, bottom, colors.ink, 0.8);
        fill(colors.ink, [[x(update) - 3, top - 4], [x(update) + 3, top - 4], [x(update), top + 1]]);
      }
      if (view.chosen && view.chosen.one === one) way(one, view.chosen.gradient, top);
    });
    one.workers.forEach(({ rank }, row) => {
      if (one.workers.length <= 16 || row % 2 === 0) write(rank, LEFT - 6, top + row * one.pitch + ROW / 2, "right");
    });
    if (view.playing) reveal(one, top, bottom);
  }

  // What is yet to happen is not seen; where now is.
  function cover(top, bottom) {
    const now = clamp(x(view.cursor), LEFT, width - RIGHT);
    paint.fillStyle = colors.paper;
    paint.fillRect(now, top - 5, width - RIGHT - now, bottom - top + 6);
    return now;
  }

  // What plays is seen as it happens: the future is covered; gradients rise to the model, tokens come down from it.
  function reveal(one, top, bottom) {
    const now = cover(top, bottom);
    for (const g of one.gradients) {
      if (g.computed > view.cursor || g.computed < 0) continue;
      const until = g.arrived >= 0 ? Math.max(g.arrived, g.computed + 1) : data.end, way = (view.cursor - g.computed) / (until - g.computed);
      const row = one.workers.findIndex(({ rank }) => rank === g.worker);
      if (way > 1 || row < 0) continue;
      const from = top + (row + 0.5) * one.pitch, y = from + (top - 12 - from) * way;
      fill(one.color, [...Array(12)].map((_, i) => [now + 10 + 4 * Math.cos(i * Math.PI / 6), y + 4 * Math.sin(i * Math.PI / 6)]));
    }
    // And tokens come down from the model to those who waited for one.
    one.workers.forEach(({ spans }, row) => {
      const span = spans[first(spans, ({ end }) => end > view.cursor) - 1], passed = span ? (view.cursor - span.end) / (view.to - view.from) : 1;
      if (span?.phase.name !== "token" || passed > 0.02) return;
      const to = top + (row + 0.5) * one.pitch, y = top - 12 + (to - top + 12) * (passed / 0.02);
      fill(colors.ink, [[now + 10, y - 4], [now + 14, y], [now + 10, y + 4], [now + 6, y]]);
    });
  }

  function heading(name, color, top, remark) {
    paint.fillStyle = color;
    paint.fillRect(LEFT, top - 17, 9, 9);
    write(name, LEFT + 14, top - 12, "left", colors.ink);
    const end = LEFT + 24 + paint.measureText(name).width;
    if (end + paint.measureText(remark).width < width - RIGHT) write(remark, width - RIGHT, top - 12, "right");
    return end;
  }

  // Spans in a row; what is narrower than half a pixel is drawn once per pixel.
  function boxes(one, spans, y, high) {
    let last = -1;
    for (let i = first(spans, ({ end }) => end > view.from); i < spans.length && spans[i].start < view.to; i += 1) {
      const { rank, phase, iteration, start, end } = spans[i], left = Math.max(x(start), LEFT), right = Math.min(x(end), width - RIGHT);
      if (right - left < 0.5 && Math.floor(left) === last) continue;
      last = Math.floor(left);
      const wide = Math.max(right - left, 0.7), computes = phase.name === "compute";
      const wasted = computes && ["dropped", "lost"].includes(one.gradientOf.get(`${rank}/${iteration}`)?.outcome);
      paint.globalAlpha = wasted ? 0.35 : 1;
      paint.fillStyle = fills[phase.name];
      paint.fillRect(left, y, wide, high);
      paint.globalAlpha = 1;
      if (wasted && wide > 5) stroke(colors.ink, 1, [[left, y], [left + wide, y + high]], [[left, y + high], [left + wide, y]]);
      if ((computes || high < LANE) && wide > 3) {
        paint.fillStyle = colors.paper;
        paint.fillRect(left, y, 0.8, high);
      }
    }
  }

  // The way of the chosen gradient: from its read to its end.
  function way(one, g, top) {
    const y = top + one.workers.findIndex(({ rank }) => rank === g.worker) * one.pitch;
    const end = Math.max(g.ended, g.arrived, g.computed, g.begun);
    paint.strokeStyle = colors.accent;
    paint.lineWidth = 2;
    paint.strokeRect(x(g.read), y, Math.max(x(end) - x(g.read), 2), ROW);
    for (const mark of [g.begun, g.computed, g.arrived, g.ended]) if (mark >= 0) line(mark, y - 3, y + ROW + 3, colors.accent, 2);
  }

  function curve({ of, high, low, top }) {
    const y = (value) => top + CURVE - ((value - low) / (high - low || 1)) * CURVE;
    const end = heading("loss", colors.faint, top, "");
    let right = width - RIGHT; // of the values at the cursor, in the order and colours of the legend
    for (const one of [...of].reverse()) {
      const value = valueAt(one.loss, view.cursor);
      if (!Number.isFinite(value) || right < end + 15) continue;
      write(round(value), right, top - 12, "right", one.color);
      right -= paint.measureText(round(value)).width + 10;
    }
    write(round(high), LEFT - 4, top + 4, "right");
    write(round(low), LEFT - 4, top + CURVE - 4, "right");
    clipped(top, top + CURVE, () => {
      for (const one of of) {
        paint.setLineDash(one.dash);
        stroke(one.color, 1.5, inView(one.loss.filter(([, value]) => Number.isFinite(value))).map(([moment, value]) => [x(moment), y(value)]));
      }
    });
    if (view.playing) cover(top, top + CURVE);
  }

  // In words: what happens at the cursor, in every strategy shown.
  function tellStory() {
    const lines = [`At ${time(view.cursor)}:`];
    for (const { name, moments, workers, updates } of shown()) {
      const latest = moments[first(moments, ({ at }) => at > view.cursor) - 1];
      const said = !latest ? "nothing yet" : (latest.at < view.cursor ? `since ${time(latest.at)}: ` : "") + happens(moments, latest.at);
      lines.push(`${name}: ${said}. Now ${state(workers, updates)}.`);
    }
    if (view.chosen) lines.push(`Chosen in ${view.chosen.one.name}: ${path(view.chosen.gradient)}`);
    story.replaceChildren();
    for (const said of lines) make("p", story, {}, said);
  }

  // What happens at a moment, each event once for all workers to whom it happens.
  function happens(moments, moment) {
    const events = new Map();
    for (const { said, rank } of moments.slice(first(moments, ({ at }) => at >= moment), first(moments, ({ at }) => at > moment))) {
      events.set(said, [...(events.get(said) || []), rank]);
    }
    const told = [...events].map(([said, ranks]) => said.replace("%", named(ranks)));
    return told.slice(0, 3).join("; ") + (told.length > 3 ? `; and ${told.length - 3} more` : "");
  }

  // Who is doing what at the cursor, and until when whoever waits does.
  function state(workers, updates) {
    const groups = new Map();
    for (const { rank, spans, sends } of workers) {
      const found = spans[first(spans, ({ end }) => end > view.cursor)], beside = sends[first(sends, ({ end }) => end > view.cursor)];
      if (!found) continue;
      const cause = until(workers, updates, found), meanwhile = beside && beside.start <= view.cursor && found.phase.name === "compute";
      const said = found.phase.said + (cause && `, ${cause}`) + (meanwhile ? ` and ${beside.phase.said}` : "");
      groups.set(said, [...(groups.get(said) || []), rank]);
    }
    return [...groups].map(([said, ranks]) => `${named(ranks)}: ${said}`).join("; ") || "it is over";
  }

  // What ends a wait: what another worker ends at that moment, or an update.
  function until(workers, updates, { rank, phase, end }) {
    if (!WAITS.includes(phase.name)) return "";
    for (const { spans } of workers) {
      const other = spans[first(spans, (span) => span.end >= end)];
      if (other?.end === end && other.rank !== rank && !WAITS.includes(other.phase.name)) return `until worker ${other.rank} ends ${other.phase.said}`;
    }
    const next = first(updates, (moment) => moment >= end);
    return updates[next] === end ? `until global_step rises to ${next + 1}` : "";
  }

  const path = (g) => `gradient ${g.iteration} of worker ${g.worker} ` + (g.kept ? `went on with ${g.variables}` : `read ${g.variables} at ${time(g.read)}`) +
    [["begun", "was begun"], ["computed", "computed"], ["arrived", "had arrived"]].map(([name, said]) => (g[name] >= 0 ? `, ${said} at ${time(g[name])}` : "")).join("") +
    (g.outcome === "pending" ? ", and is on its way when the run ends." : `, and at ${time(g.ended)} was ${fate(g)}.`);

  // What is under the pointer: a span of a worker, what it sends beside that, or nothing.
  function under({ offsetX, offsetY }) {
    const place = places.findLast(({ top }) => offsetY >= top);
    if (!place?.one || offsetX < LEFT || offsetX > width - RIGHT) return null;
    const { one, top } = place;
    if (offsetY >= top + one.rows) return null;
    const row = Math.floor((offsetY - top) / one.pitch), { spans, sends } = one.workers[row];
    const list = offsetY - top - row * one.pitch < ROW ? spans : sends, moment = at(offsetX);
    const span = list[first(list, ({ end }) => end > moment)];
    return span && span.start <= moment ? { one, span, gradient: one.gradientOf.get(`${span.rank}/${span.iteration}`) } : null;
  }

  function hover(event) {
    const found = under(event);
    const place = { left: event.clientX + 14, bottom: event.clientY + 10 };
    if (!found?.span) { hush(); return; }
    const { one, span, gradient } = found;
    const { rank, iteration, phase, start, end } = span;
    const lines = [`worker ${rank}, iteration ${iteration}: ${phase.said}`, `${time(start)} to ${time(end)} (${time(end - start, 4)})`];
    if (WAITS.includes(phase.name)) lines.push(until(one.workers, one.updates, span));
    else if (gradient && gradient.outcome !== "pending") lines.push(`this gradient is ${fate(gradient)}`);
    tell(lines, place);
  }

  function show(from, to) {
    const span = clamp(to - from, Math.min(100, data.end), data.end);
    view.from = clamp(from, 0, data.end - span);
    view.to = view.from + span;
    draw();
  }

  function zoom(factor, around = clamp(view.cursor, view.from, view.to)) {
    show(around - (around - view.from) * factor, around + (view.to - around) * factor);
  }

  function go(moment) {
    view.cursor = clamp(moment, 0, data.end);
    const span = view.to - view.from;
    if (view.cursor < view.from || view.cursor > view.to) show(view.cursor - span / 4, view.cursor + (3 * span) / 4);
    else draw();
  }

  // To the next or the previous moment at which anything happens in a strategy shown.
  function step(way) {
    const ahead = (at) => (way > 0 ? at > view.cursor : at >= view.cursor);
    const found = shown().map(({ moments }) => moments[first(moments, ({ at }) => ahead(at)) - (way < 0)]).filter(Boolean);
    if (found.length) go(way * Math.min(...found.map(({ at }) => way * at)));
  }

  // What is in view passes in twelve seconds.
  function toggle() {
    cancelAnimationFrame(view.playing);
    buttons[1].textContent = view.playing ? "\u25b6" : "\u275a\u275a";
    if (view.playing) { view.playing = 0; return; }
    if (view.cursor >= data.end) view.cursor = view.from;
    let before = 0;
    const frame = (now) => {
      if (before) go(view.cursor + ((now - before) / 12000) * (view.to - view.from));
      before = now;
      view.playing = requestAnimationFrame(frame);
      if (view.cursor >= data.end) toggle();
    };
    view.playing = requestAnimationFrame(frame);
  }

  const KEYS = {
    ArrowRight: () => step(1), ArrowLeft: () => step(-1), " ": toggle, Home: () => go(0), End: () => go(data.end),
    "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2), 0: () => show(0, data.end),
    Escape: () => { view.chosen = null; draw(); },
  };
  on(canvas, "keydown", (event) => {
    if (!KEYS[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    KEYS[event.key]();
  });
  canvas.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.shiftKey && document.activeElement !== canvas) return; // the page scrolls
    event.preventDefault();
    zoom(event.deltaY > 0 ? 1.25 : 0.8, at(event.offsetX));
  }, { passive: false });

  let held = null;
  on(canvas, "pointerdown", (event) => {
    held = { px: event.offsetX, from: view.from, to: view.to, moved: false };
    canvas.setPointerCapture(event.pointerId);
  });
  on(canvas, "pointermove", (event) => {
    if (!held) { hover(event); return; }
    const shift = ((event.offsetX - held.px) / (width - LEFT - RIGHT)) * (held.to - held.from);
    held.moved ||= Math.abs(event.offsetX - held.px) > 3;
    if (held.moved) show(held.from - shift, held.to - shift);
  });
  on(canvas, "pointerup", (event) => {
    if (held && !held.moved) {
      const found = under(event);
      view.chosen = found?.gradient ? found : null;
      go(at(clamp(event.offsetX, LEFT, width - RIGHT)));
    }
    held = null;
  });
  on(canvas, "pointercancel", () => { held = null; }); // a finger that scrolls the page
  on(canvas, "pointerleave", hush);
  on(canvas, "dblclick", () => show(0, data.end));

  root.hidden = false;
  view.to = clamp(data.window || data.end, 1, data.end);
  redrawn(root, layout);
  layout();
})();
