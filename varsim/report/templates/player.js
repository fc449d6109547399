// The timeline to walk through: all strategies of a run on one clock, drawn on a canvas.
// It reads its data (report/charts/timeline.py says what is in them), and nothing else.
"use strict";
const player = (root, data) => {
  const ROW = 13, LANE = 6, HEAD = 24, GAP = 8, LEFT = 52, RIGHT = 34, CURVE = 74, AXIS = 22;
  const WAITS = ["barrier", "token", "lock", "queue"];
  // What is shown of the data: a stretch of time, a cursor, a chosen gradient; if it plays, its frame.
  const view = { from: 0, to: clamp(data.window || data.end, 1, data.end), cursor: 0, chosen: null, playing: 0 };

  // Of a sorted list the first index at which a test holds; what goes on at a time; what was the last before.
  const first = (list, test) => {
    let low = 0, high = list.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (test(list[middle])) high = middle; else low = middle + 1;
    }
    return low;
  };
  const during = (list, moment) => list[first(list, ({ end }) => end > moment)];
  const passed = (list, moment, when) => list[first(list, (one) => when(one) > moment) - 1];

  // Texts: a time, a count, what became of a gradient, workers.
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
      if (runs.at(-1)?.at(-1) === rank - 1) runs.at(-1).push(rank); else runs.push([rank]);
    }
    return `worker${runs.flat().length > 1 ? "s" : ""} ${runs.map((run) => (run.length > 2 ? `${run[0]} to ${run.at(-1)}` : run.join(", "))).join(", ")}`;
  };
  const round = (value) => {
    const text = `${Number(value.toPrecision(3))}`;
    return text.length > 7 ? value.toExponential(1) : text;
  };
  // What is said of whom: the same once, of all.
  const grouped = (pairs) => {
    const found = new Map();
    for (const [said, rank] of pairs) found.set(said, [...(found.get(said) || []), rank]);
    return [...found];
  };
  const curveOf = ({ loss }) => loss.filter(([, value]) => Number.isFinite(value));

  // What is drawn of a strategy: once for each, as a page may show it again.
  const read = (one) => {
    if (one.rowOf) return;
    const phases = data.phases.map((phase) => ({ ...phase, said: one.said[phase.name] || phase.said }));
    one.rowOf = new Map(one.workers.map(({ rank }, row) => [rank, row]));
    for (const worker of one.workers) {
      // Of a span its end is given, of what is sent beside it the start, too.
      let before = 0;
      const spans = (list, size) => Array.from({ length: list.length / size }, (_, i) => {
        const row = list.slice(size * i, size * (i + 1)), [end, iteration] = row.slice(-2);
        const start = size === 4 ? row[1] : before, phase = phases[row[0]];
        before = end;
        return { rank: worker.rank, phase, use: phase.name, start, end, iteration };
      });
      worker.spans = spans(worker.spans, 3);
      worker.sends = spans(worker.sends, 4);
      // Who shares a link uses it meanwhile.
      worker.spans.forEach((span, i) => { if (one.shares && span.use === "queue") span.use = worker.spans[i + 1]?.use; });
    }
    one.gradients = one.gradients.map((row) => Object.fromEntries(data.gradient.map((name, i) => [name, row[i]])));
    one.gradientOf = new Map(one.gradients.map((g) => [`${g.worker}/${g.iteration}`, g]));
    for (const g of one.gradients) g.outcome = data.outcomes[g.outcome];
    one.pitch = one.workers.some(({ sends }) => sends.length) ? ROW + LANE : ROW;
    one.rows = one.workers.length * one.pitch;
  };

  // What is told of it: when what happens to whom.
  const momentsOf = (one) => {
    if (one.moments) return one.moments;
    const found = one.moments = [];
    const add = (at, said, rank) => { if (at >= 0 && at <= data.end) found.push({ at, said, rank }); };
    const of = (name) => one.workers.flatMap((worker) => worker[name]), sends = of("sends");
    const beside = new Set(sends.map(({ use }) => use)); // all of that is on the lanes
    for (const { rank, phase, start } of [...sends, ...of("spans").filter(({ use }) => !beside.has(use))]) {
      if (phase.name === "write") add(start, `${phase.said}, begun by %`, rank);
    }
    // Micro-batches, and workers with a cache, go on with what was read for the gradient before.
    const keptFrom = (g) => {
      const before = one.gradientOf.get(`${g.worker}/${g.iteration - 1}`);
      return before?.read === g.read ? before : null;
    };
    for (const g of one.gradients) {
      let from = g;
      while (keptFrom(from)) from = keptFrom(from);
      const made = g.read_step - from.read_step, own = `gradient ${g.iteration}`, tell = (at, said) => add(at, said, g.worker);
      g.kept = from !== g;
      g.variables = `the variables of step ${from.read_step}${made ? `, and ${count(made, "update")} of its own since` : ""}`;
      if (g.read < g.begun && !g.kept) tell(g.read, `${g.variables} are read by %`);
      tell(g.begun, `${own} is begun by %, with ${g.variables}`);
      tell(g.computed, `${own} has been computed by %`);
      if (g.arrived > g.computed) tell(g.arrived, `${own} of % has arrived`);
      if (g.outcome !== "pending") tell(g.ended, `${own} of % is ${fate(g)}`);
    }
    one.updates.forEach((at, index) => add(at, `global_step rises to ${index + 1}`));
    return found.sort((a, b) => a.at - b.at);
  };
  data.strategies.forEach(read);

  // The page: buttons, each of which does what its key does, strategies to choose, a key, a canvas, words.
  const part = (name, more = {}) => make("div", root, { class: name, ...more });
  const bar = part("player-bar", { role: "toolbar", "aria-label": "Timeline" }), key = part("player-bar player-key");
  const canvas = make("canvas", part("player-view"), { tabindex: 0, role: "img", "aria-label": "Timeline of all workers; arrow keys go from event to event, told below" });
  const story = part("player-story", { "aria-live": "polite" }), paint = canvas.getContext("2d"), buttons = {};
  for (const [name, sign, said] of [["ArrowLeft", "\u2039", "one event back (left arrow)"], [" ", "\u25b6", "play or stop (space)"], ["ArrowRight", "\u203a", "one event on (right arrow)"], ["+", "+", "zoom in (+)"], ["-", "\u2212", "zoom out (-)"], ["0", "all", "show all (0)"]]) {
    buttons[name] = make("button", bar, { type: "button", title: said, "aria-label": said }, sign);
    on(buttons[name], "click", () => { KEYS[name](); canvas.focus(); });
  }
  const legend = make("span", bar, { class: "player-legend" });
  data.strategies.forEach((one, index) => {
    const label = make("label", legend), tick = make("input", label, { type: "checkbox" });
    tick.checked = !data.open || data.open.includes(one.name);
    one.hidden = !tick.checked;
    one.dot = make("span", label, { class: `dot c${index}` });
    if (curveOf(one).length > 1) label.insertAdjacentHTML("beforeend", `<svg><path d="M0,4H28" stroke-width="2" stroke-dasharray="${one.dash}"/></svg>`);
    label.append(one.name);
    on(tick, "change", () => {
      data.strategies[index].hidden = !tick.checked;
      arrange();
      draw();
    });
  });
  const dots = {}, colors = {}, fills = {}, seen = data.phases.filter((phase) => phase.seen);
  for (const { name, said } of seen) {
    const entry = make("span", key, { title: said });
    dots[name] = make("span", entry, { class: `dot p-${name}` });
    entry.append(name);
  }
  for (const said of data.marks) make("span", key, {}, said);
  if (data.cut) make("p", root, { class: "caption" }, data.cut);

  // Colour never stands alone: what is not computing is hatched, each in its way.
  function hatched({ name, hatch }) {
    const tile = new OffscreenCanvas(12, 12), pen = tile.getContext("2d");
    pen.fillStyle = getComputedStyle(dots[name]).backgroundColor;
    pen.fillRect(0, 0, 12, 12);
    pen.strokeStyle = "rgb(255 255 255 / 0.7)";
    pen.lineWidth = 2;
    for (const [marks, ...ends] of [["/x", 0, 12, 12, 0], ["\\x", 0, 0, 12, 12], ["|+", 6, 0, 6, 12], ["-+", 0, 6, 12, 6]]) {
      if ([...marks].some((one) => hatch.includes(one))) for (const shift of [-12, 0, 12]) {
        pen.moveTo(ends[0] + shift, ends[1]);
        pen.lineTo(ends[2] + shift, ends[3]);
      }
    }
    pen.stroke();
    fills[name] = paint.createPattern(tile, "repeat");
    fills[name].setTransform(new DOMMatrix([0.5, 0, 0, 0.5, 0, 0]));
  }

  let width = 0, height = 0, places = [];
  const shown = () => data.strategies.filter(({ hidden }) => !hidden);
  const x = (at) => LEFT + ((at - view.from) / (view.to - view.from)) * (width - LEFT - RIGHT);
  const at = (px) => view.from + ((px - LEFT) / (width - LEFT - RIGHT)) * (view.to - view.from);

  // After a change of size or of theme: colours, and where everything stands.
  function layout() {
    const style = getComputedStyle(document.documentElement);
    for (const name of ["ink", "faint", "line", "paper", "accent"]) colors[name] = style.getPropertyValue(`--${name}`).trim();
    for (const one of data.strategies) one.color = one.dot.parentNode.style.stroke = getComputedStyle(one.dot).backgroundColor;
    seen.forEach(hatched);
    width = Math.max(root.clientWidth, 280);
    arrange();
    draw();
  }

  // Where everything stands: of the strategies shown, one below the other.
  function arrange() {
    const ratio = devicePixelRatio || 1;
    places = [];
    height = AXIS;
    const put = (place, high) => {
      places.push({ ...place, top: height + HEAD, bottom: height + HEAD + high });
      height += HEAD + high + GAP;
    };
    for (const one of shown()) put({ one }, one.rows);
    const of = shown().filter((one) => curveOf(one).length > 1), all = of.flatMap(curveOf).map(([, value]) => value);
    if (all.length) put({ of, high: Math.max(...all), low: Math.min(...all) }, CURVE);
    const size = [Math.round(width * ratio), Math.round(height * ratio)];
    if (canvas.width !== size[0] || canvas.height !== size[1]) [canvas.width, canvas.height, canvas.style.height] = [...size, `${height}px`];
    paint.setTransform(ratio, 0, 0, ratio, 0, 0);
  }

  function draw(told = true) {
    paint.clearRect(0, 0, width, height);
    paint.font = "12px system-ui, sans-serif";
    paint.textBaseline = "middle";
    const tick = Math.max(rung(((view.to - view.from) * 90) / (width - LEFT - RIGHT)), 1);
    for (let mark = Math.ceil(view.from / tick) * tick; mark <= view.to; mark += tick) {
      line(mark, AXIS - 4, height, colors.line, 1);
      if (x(mark) < width - 24) write(mark ? time(mark) : "0", x(mark), AXIS / 2, "center");
    }
    for (const place of places) (place.one ? panel : curve)(place);
    line(view.cursor, 0, height, colors.accent, 1.5);
    if (told) tellStory();
  }

  // --- drawing ---------------------------------------------------------------------------------
  function write(text, px, y, align, color = colors.faint) {
    paint.fillStyle = color;
    paint.textAlign = align;
    paint.fillText(text, px, y, width);
  }
  function box(color, left, top, wide, high) {
    paint.fillStyle = color;
    paint.fillRect(left, top, wide, high);
  }
  function path(points) {
    paint.beginPath();
    for (const point of points) paint.lineTo(...point);
  }
  function stroke(color, thick, points) {
    [paint.strokeStyle, paint.lineWidth] = [color, thick];
    path(points);
    paint.stroke();
  }
  function fill(color, points) {
    paint.fillStyle = color;
    path(points);
    paint.fill();
  }
  function line(moment, top, bottom, color, thick) {
    if (moment >= view.from && moment <= view.to) stroke(color, thick, [[x(moment), top], [x(moment), bottom]]);
  }
  function clipped({ top, bottom }, act) {
    paint.save();
    path([[LEFT, top - 4], [width - RIGHT, top - 4], [width - RIGHT, bottom + 4], [LEFT, bottom + 4]]);
    paint.clip();
    act();
    paint.restore();
  }
  function heading(name, color, top, remark = "") {
    box(color, LEFT, top - 17, 9, 9);
    write(name, LEFT + 14, top - 12, "left", colors.ink);
    const end = LEFT + 24 + paint.measureText(name).width;
    if (end + paint.measureText(remark).width < width - RIGHT) write(remark, width - RIGHT, top - 12, "right");
    return end;
  }
  // While it plays, what is yet to happen is not seen; where now is.
  function cover({ top, bottom }) {
    const now = clamp(x(view.cursor), LEFT, width - RIGHT);
    box(colors.paper, now, top - 5, width - RIGHT - now, bottom - top + 6);
    return now + 10;
  }

  function panel(place) {
    const { one, top, bottom } = place, some = one.workers.length < one.of ? `; ${one.workers.length} of ${count(one.of, "worker")} shown` : "";
    heading(one.name, one.color, top, `${count(first(one.updates, (moment) => moment > view.cursor), "update")} so far${some}`);
    clipped(place, () => {
      one.workers.forEach(({ spans, sends }, row) => {
        boxes(one, spans, top + row * one.pitch + 1, ROW - 2);
        boxes(one, sends, top + row * one.pitch + ROW - 1, LANE - 1);
      });
      const updates = one.updates.filter((moment) => moment > view.from && moment <= view.to);
      if (updates.length < (width - LEFT) / 3) for (const update of updates) {
        line(update, top - 4, bottom, colors.ink, 0.8);
        fill(colors.ink, [[x(update) - 3, top - 4], [x(update) + 3, top - 4], [x(update), top + 1]]);
      }
      if (view.chosen?.one === one) way(one, view.chosen.gradient, top);
    });
    one.workers.forEach(({ rank }, row) => {
      if (one.workers.length <= 16 || row % 2 === 0) write(rank, LEFT - 6, top + row * one.pitch + ROW / 2, "right");
    });
    if (view.playing) reveal(place);
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
      box(fills[phase.name], left, y, wide, high);
      paint.globalAlpha = 1;
      if (wasted && wide > 5) for (const [a, b] of [[y, y + high], [y + high, y]]) stroke(colors.ink, 1, [[left, a], [left + wide, b]]);
      if ((computes || high < LANE) && wide > 3) box(colors.paper, left, y, 0.8, high);
    }
  }

  // The way of the chosen gradient: from its read to its end.
  function way(one, g, top) {
    const y = top + one.rowOf.get(g.worker) * one.pitch, start = x(g.read), end = Math.max(x(Math.max(g.ended, g.arrived, g.computed, g.begun)), start + 2);
    stroke(colors.accent, 2, [[start, y], [end, y], [end, y + ROW], [start, y + ROW], [start, y]]);
    for (const mark of [g.begun, g.computed, g.arrived, g.ended]) if (mark >= 0) line(mark, y - 3, y + ROW + 3, colors.accent, 2);
  }

  // As it happens: gradients rise to the model, tokens come down from it to those who waited for one.
  function reveal(place) {
    const { one, top } = place, now = cover(place), of = (row) => top + (row + 0.5) * one.pitch;
    const dot = (color, y, corners) => fill(color, [...Array(corners)].map((_, i) => [now + 4 * Math.sin((i * 2 * Math.PI) / corners), y + 4 * Math.cos((i * 2 * Math.PI) / corners)]));
    for (const g of one.gradients) {
      const until = g.arrived >= 0 ? Math.max(g.arrived, g.computed + 1) : data.end, part = (view.cursor - g.computed) / (until - g.computed);
      if (g.computed >= 0 && part >= 0 && part <= 1 && one.rowOf.has(g.worker)) dot(one.color, of(one.rowOf.get(g.worker)) * (1 - part) + (top - 12) * part, 12);
    }
    one.workers.forEach(({ spans }, row) => {
      const span = passed(spans, view.cursor, ({ end }) => end), part = span?.phase.name === "token" ? (50 * (view.cursor - span.end)) / (view.to - view.from) : 2;
      if (part <= 1) dot(colors.ink, (top - 12) * (1 - part) + of(row) * part, 4);
    });
  }

  function curve(place) {
    const { of, high, low, top, bottom } = place, y = (value) => bottom - ((value - low) / (high - low || 1)) * CURVE;
    const end = heading("loss", colors.faint, top);
    let right = width - RIGHT; // of the values at the cursor, in the order and colours of the legend
    for (const one of [...of].reverse()) {
      const value = passed(one.loss, view.cursor, ([moment]) => moment)?.[1];
      if (!Number.isFinite(value) || right < end + 15) continue;
      write(round(value), right, top - 12, "right", one.color);
      right -= paint.measureText(round(value)).width + 10;
    }
    write(round(high), LEFT - 4, top + 4, "right");
    write(round(low), LEFT - 4, bottom - 4, "right");
    clipped(place, () => {
      for (const one of of) {
        paint.setLineDash(one.dash);
        stroke(one.color, 1.5, curveOf(one).map(([moment, value]) => [x(moment), y(value)]));
      }
    });
    if (view.playing) cover(place);
  }

  // --- words -----------------------------------------------------------------------------------
  // What happens at the cursor, in every strategy shown.
  function tellStory() {
    const lines = [`At ${time(view.cursor)}:`];
    for (const one of shown()) {
      const { name, workers, updates } = one, moments = momentsOf(one);
      const latest = passed(moments, view.cursor, (one) => one.at)?.at;
      const said = latest === undefined ? "nothing yet" : (latest < view.cursor ? `since ${time(latest)}: ` : "") + happens(moments, latest);
      lines.push(`${name}: ${said}. Now ${state(workers, updates)}.`);
    }
    if (view.chosen) lines.push(`Chosen in ${view.chosen.one.name}: ${told(view.chosen.gradient)}`);
    story.replaceChildren();
    for (const said of lines) make("p", story, {}, said);
  }

  // What happens at a moment, each event once for all workers to whom it happens.
  function happens(moments, moment) {
    const events = moments.slice(first(moments, ({ at }) => at >= moment), first(moments, ({ at }) => at > moment));
    const all = grouped(events.map(({ said, rank }) => [said, rank])).map(([said, ranks]) => said.replace("%", named(ranks)));
    return all.slice(0, 3).join("; ") + (all.length > 3 ? `; and ${all.length - 3} more` : "");
  }

  // Who is doing what at the cursor, and until when whoever waits does.
  function state(workers, updates) {
    const doing = workers.filter(({ spans }) => during(spans, view.cursor)).map(({ rank, spans, sends }) => {
      const span = during(spans, view.cursor), beside = during(sends, view.cursor), cause = until(workers, updates, span);
      const meanwhile = beside?.start <= view.cursor && span.phase.name === "compute";
      return [span.phase.said + (cause && `, ${cause}`) + (meanwhile ? ` and ${beside.phase.said}` : ""), rank];
    });
    return grouped(doing).map(([said, ranks]) => `${named(ranks)}: ${said}`).join("; ") || "it is over";
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

  const told = (g) => `gradient ${g.iteration} of worker ${g.worker} ` + (g.kept ? `went on with ${g.variables}` : `read ${g.variables} at ${time(g.read)}`) +
    [["begun", "was begun"], ["computed", "computed"], ["arrived", "had arrived"]].map(([name, said]) => (g[name] >= 0 ? `, ${said} at ${time(g[name])}` : "")).join("") +
    (g.outcome === "pending" ? ", and is on its way when the run ends." : `, and at ${time(g.ended)} was ${fate(g)}.`);

  // What is under the pointer: a span of a worker, what it sends beside that, or nothing.
  function under({ offsetX, offsetY }) {
    const { one, top, bottom } = places.findLast((place) => offsetY >= place.top) || {};
    if (!one || offsetY >= bottom || offsetX < LEFT || offsetX > width - RIGHT) return null;
    const row = Math.floor((offsetY - top) / one.pitch), { spans, sends } = one.workers[row];
    const span = during(offsetY - top - row * one.pitch < ROW ? spans : sends, at(offsetX));
    return span?.start <= at(offsetX) ? { one, span, gradient: one.gradientOf.get(`${span.rank}/${span.iteration}`) } : null;
  }

  function hover(event) {
    const found = under(event);
    if (!found) { hush(); return; }
    const { one, span, gradient } = found, { rank, iteration, phase, start, end } = span;
    const lines = [`worker ${rank}, iteration ${iteration}: ${phase.said}`, `${time(start)} to ${time(end)} (${time(end - start, 4)})`];
    if (WAITS.includes(phase.name)) lines.push(until(one.workers, one.updates, span));
    else if (gradient && gradient.outcome !== "pending") lines.push(`this gradient is ${fate(gradient)}`);
    tell(lines, { left: event.clientX + 14, bottom: event.clientY + 10 });
  }

  // --- walking ---------------------------------------------------------------------------------
  function show(from, to) {
    const span = clamp(to - from, Math.min(100, data.end), data.end);
    view.from = clamp(from, 0, data.end - span);
    view.to = view.from + span;
    draw();
  }
  const zoom = (factor, around = clamp(view.cursor, view.from, view.to)) => show(around - (around - view.from) * factor, around + (view.to - around) * factor);

  function go(moment) {
    view.cursor = clamp(moment, 0, data.end);
    const span = view.to - view.from;
    if (view.cursor < view.from || view.cursor > view.to) show(view.cursor - span / 4, view.cursor + (3 * span) / 4);
    else draw();
  }

  // To the next or the previous moment at which anything happens in a strategy shown.
  function step(way) {
    const ahead = (at) => (way > 0 ? at > view.cursor : at >= view.cursor);
    const found = shown().map(momentsOf).map((moments) => moments[first(moments, ({ at }) => ahead(at)) - (way < 0)]).filter(Boolean);
    if (found.length) go(way * Math.min(...found.map(({ at }) => way * at)));
  }

  // What is in view passes in twelve seconds.
  function toggle() {
    cancelAnimationFrame(view.playing);
    buttons[" "].textContent = view.playing ? "\u25b6" : "\u275a\u275a";
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
  redrawn(root, layout);
  layout();

  // The same strategies in another run, from its beginning; told when no other follows at once.
  let later = 0;
  const replay = (other) => {
    if (view.playing) toggle();
    other.strategies.forEach((one, i) => {
      const { hidden, dot, color } = data.strategies[i];
      read(Object.assign(one, { hidden, dot, color }));
    });
    Object.assign(data, other);
    Object.assign(view, { from: 0, to: clamp(data.window || data.end, 1, data.end), cursor: 0, chosen: null });
    arrange();
    draw(false);
    clearTimeout(later);
    later = setTimeout(tellStory, 150);
  };

  // The frame that a notebook shows it in is as high as what is told, and shrinks only where it gets another width, not while one steps through.
  const frame = window.frameElement, around = frame?.ownerDocument.body;
  if (!frame) return replay;
  let high, wide;
  new ResizeObserver(() => {
    const { offsetWidth, offsetHeight } = document.documentElement;
    high = Math.max(offsetHeight, offsetWidth === wide ? high : 0);
    wide = offsetWidth;
    frame.height = high;
  }).observe(document.body);
  // JupyterLab says whether it is light or dark; without it, that is as the browser has it.
  const dark = [...document.styleSheets[0].cssRules].find(({ media }) => media?.mediaText.includes("dark")).media, own = dark.mediaText;
  const follow = () => {
    const light = around.dataset.jpThemeLight;
    dark.mediaText = { true: "not all", false: "screen" }[light] || own;
    document.documentElement.style.colorScheme = { true: "light", false: "dark" }[light] || "";
    document.dispatchEvent(new Event("recolored"));
  };
  new MutationObserver(follow).observe(around, { attributeFilter: ["data-jp-theme-light"] });
  follow();
  return replay;
};
const played = document.getElementById("player-data");
if (played) player(document.getElementById("player"), JSON.parse(played.textContent));
