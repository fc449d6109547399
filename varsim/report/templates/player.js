// The timeline to walk through: all strategies of a run on one clock, drawn on a canvas.
// It reads the JSON beside it (report/player.py says what is in that), and nothing else.
"use strict";
(() => {
  const root = document.getElementById("player");
  const data = JSON.parse(document.getElementById("player-data").textContent);
  const [PHASE, END, ITERATION] = [0, 1, 2]; // of three numbers of a worker's spans
  const WAITS = new Set(["barrier", "token", "lock", "queue"]), NETWORK = new Set(["read", "write", "queue"]);
  const ROW = 13, HEAD = 24, GAP = 8, LEFT = 52, RIGHT = 10, CURVE = 74, AXIS = 22;

  const element = (name, parent, attributes = {}, text = "") => {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.textContent = text;
    parent.append(made);
    return made;
  };
  const clamp = (value, low, high) => Math.min(Math.max(value, low), high);
  // The first index of a sorted list whose value is above (or at) x.
  const after = (list, x, at = false) => {
    let low = 0, high = list.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (at ? list[middle] >= x : list[middle] > x) high = middle; else low = middle + 1;
    }
    return low;
  };
  const UNITS = [["s", 1e9], ["ms", 1e6], ["us", 1e3], ["ns", 1]];
  const time = (ns, digits = 4) => {
    const [name, worth] = UNITS.find(([, one]) => Math.abs(ns) >= one) || ["s", 1e9];
    return `${Number((ns / worth).toPrecision(digits))} ${name}`;
  };
  const count = (n, noun) => `${n.toLocaleString("en")} ${noun}${n === 1 ? "" : "s"}`;

  // What is shown, beside the data: a stretch of time, a cursor, strategies left out, a gradient.
  const view = { from: 0, to: data.end, cursor: 0, hidden: new Set(), chosen: null, playing: null };

  for (const one of data.strategies) {
    for (const worker of one.workers) worker.ends = worker.spans.filter((_, i) => i % 3 === END);
    one.rowOf = new Map(one.workers.map((worker, row) => [worker.rank, row]));
    one.gradients = one.gradients.map((row) => {
      const gradient = Object.fromEntries(data.gradient.map((name, i) => [name, row[i]]));
      return { ...gradient, outcome: data.outcomes[gradient.outcome] };
    });
    one.byWorker = new Map(one.gradients.map((gradient) => [`${gradient.worker}/${gradient.iteration}`, gradient]));
    one.staleness = one.gradients
      .filter(({ outcome }) => outcome === "applied" || outcome === "partly")
      .map(({ ended, ended_step, read_step }) => [ended, ended_step - read_step]);
    one.network = onNetwork(one);
    one.moments = happenings(one);
    one.times = one.moments.map((moment) => moment.at);
  }

  // How many workers send, receive or wait for the network, from when on.
  function onNetwork(one) {
    const changes = new Map([[0, 0]]);
    for (const { spans, ends } of one.workers) {
      ends.forEach((end, i) => {
        if (!NETWORK.has(data.phases[spans[3 * i + PHASE]].name)) return;
        for (const [at, by] of [[i ? ends[i - 1] : 0, 1], [end, -1]]) changes.set(at, (changes.get(at) || 0) + by);
      });
    }
    let busy = 0;
    return [...changes].sort((a, b) => a[0] - b[0]).map(([at, by]) => [at, (busy += by)]);
  }

  // Everything that happens in a strategy, in order of time, each in a sentence.
  function happenings(one) {
    const found = [];
    const add = (at, said) => { if (at >= 0 && at <= data.end) found.push({ at, said }); };
    for (const g of one.gradients) {
      const whose = `worker ${g.worker}`;
      if (g.read < g.begun) add(g.read, `${whose} reads the variables of step ${g.read_step}`);
      add(g.begun, `${whose} begins gradient ${g.iteration}, with the variables of step ${g.read_step}`);
      add(g.computed, `${whose} has computed gradient ${g.iteration}`);
      if (g.arrived > g.computed) add(g.arrived, `gradient ${g.iteration} of ${whose} has arrived`);
      if (g.outcome !== "pending") add(g.ended, `gradient ${g.iteration} of ${whose} is ${fate(g)}`);
    }
    for (const { rank, spans, ends } of one.workers) {
      ends.forEach((_, i) => {
        if (data.phases[spans[3 * i + PHASE]].name === "write") add(i ? ends[i - 1] : 0, `worker ${rank} sends gradient ${spans[3 * i + ITERATION]}`);
      });
    }
    one.updates.forEach((at, index) => add(at, `global_step rises to ${index + 1}`));
    found.sort((a, b) => a.at - b.at);
    return found;
  }

  function fate(g) {
    if (g.outcome === "lost") return "lost";
    const stale = g.ended_step - g.read_step;
    const age = g.ended_step < 0 ? "" : `, ${stale === 0 ? "not stale" : `${count(stale, "update")} stale`}`;
    return { applied: "applied", dropped: "dropped", partly: "partly applied" }[g.outcome] + age;
  }

  // The page around the canvas.
  const bar = element("div", root, { class: "player-bar", role: "toolbar", "aria-label": "Timeline" });
  const button = (label, title, act) => {
    const made = element("button", bar, { type: "button", title, "aria-label": title }, label);
    made.addEventListener("click", () => { act(); canvas.focus(); });
    return made;
  };
  button("\u2039", "one event back (left arrow)", () => step(-1));
  const play = button("\u25b6", "play or stop (space)", () => toggle());
  button("\u203a", "one event on (right arrow)", () => step(1));
  button("+", "zoom in (+)", () => zoom(0.5));
  button("\u2212", "zoom out (-)", () => zoom(2));
  button("all", "the whole of it (0)", () => show(0, data.end));
  const legend = element("span", bar, { class: "player-legend" });
  data.strategies.forEach((one, index) => {
    const label = element("label", legend);
    const box = element("input", label, { type: "checkbox", checked: "" });
    element("span", label, { class: `dot c${index}` });
    label.append(one.name);
    box.addEventListener("change", () => {
      if (box.checked) view.hidden.delete(one); else view.hidden.add(one);
      layout();
    });
  });
  const used = new Set(data.strategies.flatMap((one) => one.workers.flatMap(({ spans }) => spans.filter((_, i) => i % 3 === PHASE))));
  const key = element("div", root, { class: "player-bar player-key" });
  for (const phase of [...used].sort((a, b) => a - b).map((index) => data.phases[index])) {
    const entry = element("span", key, { title: phase.said });
    element("span", entry, { class: "dot" }).style.background = phase.color;
    entry.append(phase.name);
  }
  element("span", key, {}, "\u2573 dropped or lost");
  const canvas = element("canvas", root, {
    tabindex: "0", role: "img",
    "aria-label": "Timeline of all workers; arrow keys go from event to event, told below",
  });
  const story = element("div", root, { class: "player-story", "aria-live": "polite" });
  const tip = element("div", root, { class: "player-tip", hidden: "" });
  if (data.cut) element("p", root, { class: "caption" }, data.cut);
  const paint = canvas.getContext("2d");
  let colors = {}, width = 0, height = 0, places = [];

  const shown = () => data.strategies.filter((one) => !view.hidden.has(one));
  const x = (at) => LEFT + ((at - view.from) / (view.to - view.from)) * (width - LEFT - RIGHT);
  const at = (px) => view.from + ((px - LEFT) / (width - LEFT - RIGHT)) * (view.to - view.from);

  // Where everything stands: after a change of size, of theme, or of the strategies shown.
  function layout() {
    const style = getComputedStyle(document.documentElement);
    for (const name of ["ink", "faint", "line", "paper", "accent"]) {
      colors[name] = style.getPropertyValue(`--${name}`).trim();
    }
    data.strategies.forEach((one, index) => {
      one.color = getComputedStyle(legend.children[index].children[1]).backgroundColor;
    });
    width = Math.max(root.clientWidth, 280);
    places = [];
    let y = AXIS;
    for (const one of shown()) {
      places.push({ one, top: y + HEAD });
      y += HEAD + one.workers.length * ROW + GAP;
    }
    for (const curve of curves()) {
      curve.top = y + HEAD;
      places.push({ curve, top: curve.top });
      y += HEAD + CURVE + GAP;
    }
    height = y;
    const ratio = window.devicePixelRatio || 1;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.height = `${height}px`;
    paint.setTransform(ratio, 0, 0, ratio, 0, 0);
    draw();
  }

  // Lines over the same clock: the loss, the staleness of what was applied, and who uses the network.
  function curves() {
    const loss = shown().filter((one) => one.loss.filter(([, value]) => value !== null).length > 1);
    const stale = shown().filter((one) => one.staleness.some(([, value]) => value > 0));
    const busy = shown().filter((one) => one.network.length > 1);
    return [
      ...(loss.length ? [{ title: "loss", key: "loss", of: loss, joined: true }] : []),
      ...(stale.length ? [{ title: "staleness of applied gradients (updates)", key: "staleness", of: stale }] : []),
      ...(busy.length ? [{ title: "workers that send, receive or wait for the network", key: "network", of: busy, joined: true, steps: true }] : []),
    ];
  }

  function draw() {
    paint.clearRect(0, 0, width, height);
    paint.font = "12px system-ui, sans-serif";
    paint.textBaseline = "middle";
    axis();
    for (const place of places) (place.one ? panel : curve)(place);
    line(view.cursor, 0, height, colors.accent, 1.5);
    tell();
  }

  function line(moment, top, bottom, color, thick) {
    if (moment < view.from || moment > view.to) return;
    paint.strokeStyle = color;
    paint.lineWidth = thick;
    paint.beginPath();
    paint.moveTo(x(moment), top);
    paint.lineTo(x(moment), bottom);
    paint.stroke();
  }

  function axis() {
    const span = view.to - view.from;
    const rough = (span * 90) / (width - LEFT - RIGHT);
    const power = 10 ** Math.floor(Math.log10(rough));
    const tick = Math.max([1, 2, 5, 10].find((n) => n * power >= rough) * power, 1);
    paint.fillStyle = colors.faint;
    paint.textAlign = "center";
    for (let mark = Math.ceil(view.from / tick) * tick; mark <= view.to; mark += tick) {
      line(mark, AXIS - 4, height, colors.line, 1);
      if (x(mark) < width - 24) paint.fillText(mark ? time(mark, 6) : "0", x(mark), AXIS / 2);
    }
  }

  function panel({ one, top }) {
    const bottom = top + one.workers.length * ROW;
    const updates = after(one.updates, view.cursor);
    heading(one.name, one.color, top, `${count(updates, "update")} so far${
      one.workers.length < one.of ? `; ${one.workers.length} of ${count(one.of, "worker")} shown` : ""}`);
    paint.save();
    paint.beginPath();
    paint.rect(LEFT, top - 4, width - LEFT - RIGHT, bottom - top + 8);
    paint.clip();
    one.workers.forEach((worker, row) => spans(one, worker, top + row * ROW));
    const first = after(one.updates, view.from, true), last = after(one.updates, view.to);
    if (last - first < (width - LEFT) / 3) {
      for (const update of one.updates.slice(first, last)) line(update, top - 4, bottom, colors.ink, 0.8);
    }
    if (view.chosen && view.chosen.one === one) way(one, view.chosen.gradient, top);
    paint.restore();
    paint.fillStyle = colors.faint;
    paint.textAlign = "right";
    for (const [row, worker] of one.workers.entries()) {
      if (one.workers.length <= 16 || row % 2 === 0) paint.fillText(worker.rank, LEFT - 6, top + row * ROW + ROW / 2);
    }
  }

  function heading(name, color, top, remark) {
    paint.fillStyle = color;
    paint.fillRect(LEFT, top - 17, 9, 9);
    paint.fillStyle = colors.ink;
    paint.textAlign = "left";
    paint.fillText(name, LEFT + 14, top - 12);
    const end = LEFT + 24 + paint.measureText(name).width;
    paint.fillStyle = colors.faint;
    if (end + paint.measureText(remark).width < width) {
      paint.textAlign = "right";
      paint.fillText(remark, width - RIGHT, top - 12);
    }
  }

  // The spans of one worker; what is narrower than half a pixel is drawn once per pixel.
  function spans(one, worker, y) {
    let last = -1;
    for (let i = after(worker.ends, view.from); i < worker.ends.length; i += 1) {
      const start = i ? worker.ends[i - 1] : 0, end = worker.ends[i];
      if (start >= view.to) break;
      const left = Math.max(x(start), LEFT), right = Math.min(x(end), width - RIGHT);
      if (right - left < 0.5 && Math.floor(left) === last) continue;
      last = Math.floor(left);
      const phase = data.phases[worker.spans[3 * i + PHASE]];
      const wide = Math.max(right - left, 0.7);
      const gradient = one.byWorker.get(`${worker.rank}/${worker.spans[3 * i + ITERATION]}`);
      const wasted = phase.name === "compute" && gradient && ["dropped", "lost"].includes(gradient.outcome);
      paint.globalAlpha = wasted ? 0.35 : 1;
      paint.fillStyle = phase.color;
      paint.fillRect(left, y + 1, wide, ROW - 2);
      paint.globalAlpha = 1;
      if (wide > 7 && phase.name !== "compute") stripes(phase, left, y + 1, wide);
      if (wasted && wide > 5) cross(left, y + 1, wide);
      if (phase.name === "compute" && wide > 3) {
        paint.fillStyle = colors.paper;
        paint.fillRect(left, y + 1, 0.8, ROW - 2);
      }
    }
  }

  // Colour never stands alone: what is not computing is hatched, each in its way.
  function stripes(phase, left, y, wide) {
    const high = ROW - 2;
    const ways = new Set([...phase.hatch].flatMap((mark) => ({ x: ["/", "\\"], "+": ["|", "-"] })[mark] || [mark]));
    paint.save();
    paint.beginPath();
    paint.rect(left, y, wide, high);
    paint.clip();
    paint.strokeStyle = "rgb(255 255 255 / 0.7)";
    paint.lineWidth = 1;
    paint.beginPath();
    for (const way of ways) {
      if (way === "-") {
        for (let row = y + 2.5; row < y + high; row += 4) { paint.moveTo(left, row); paint.lineTo(left + wide, row); }
        continue;
      }
      const [low, up] = { "/": [0, high], "\\": [high, 0], "|": [0, 0] }[way];
      for (let s = left - high; s < left + wide; s += 6) { paint.moveTo(s + low, y + high); paint.lineTo(s + up, y); }
    }
    paint.stroke();
    paint.restore();
  }

  function cross(left, y, wide) {
    paint.strokeStyle = colors.ink;
    paint.lineWidth = 1;
    paint.beginPath();
    paint.moveTo(left, y);
    paint.lineTo(left + wide, y + ROW - 2);
    paint.moveTo(left, y + ROW - 2);
    paint.lineTo(left + wide, y);
    paint.stroke();
  }

  // The way of the chosen gradient: from its read to its end.
  function way(one, gradient, top) {
    const row = one.rowOf.get(gradient.worker);
    const y = top + row * ROW;
    const end = Math.max(gradient.ended, gradient.arrived, gradient.computed, gradient.begun);
    paint.strokeStyle = colors.accent;
    paint.lineWidth = 2;
    paint.strokeRect(x(gradient.read), y, Math.max(x(end) - x(gradient.read), 2), ROW);
    for (const mark of [gradient.begun, gradient.computed, gradient.arrived, gradient.ended]) {
      if (mark >= 0) line(mark, y - 3, y + ROW + 3, colors.accent, 2);
    }
  }

  function curve({ curve: { title, key, of, joined, steps }, top }) {
    const now = of.map((one) => {
      const value = (one[key][after(one[key].map(([at]) => at), view.cursor) - 1] || [])[1];
      return Number.isFinite(value) ? `${one.name} ${Number(value.toPrecision(3))}` : "";
    });
    heading(title, colors.faint, top, now.filter(Boolean).join(" \u00b7 "));
    const points = of.flatMap((one) => one[key]).map(([, value]) => value).filter(Number.isFinite);
    const high = Math.max(...points), low = Math.min(...points, joined && !steps ? high : 0);
    const y = (value) => top + CURVE - ((value - low) / (high - low || 1)) * CURVE;
    paint.fillStyle = colors.faint;
    paint.textAlign = "right";
    paint.fillText(Number(high.toPrecision(3)), LEFT - 4, top + 4);
    paint.fillText(Number(low.toPrecision(3)), LEFT - 4, top + CURVE - 4);
    paint.save();
    paint.beginPath();
    paint.rect(LEFT, top - 3, width - LEFT - RIGHT, CURVE + 6);
    paint.clip();
    for (const one of of) {
      paint.strokeStyle = paint.fillStyle = one.color;
      paint.lineWidth = steps ? 1.2 : 1.8;
      paint.setLineDash(joined ? one.dash : []);
      paint.beginPath();
      let begun = false, before = 0;
      for (const [moment, value] of one[key]) {
        if (!Number.isFinite(value)) continue;
        if (!joined) paint.fillRect(x(moment) - 1.5, y(value) - 1.5, 3, 3);
        else if (begun) {
          if (steps) paint.lineTo(x(moment), y(before));
          paint.lineTo(x(moment), y(value));
        } else paint.moveTo(x(moment), y(value));
        begun = true;
        before = value;
      }
      if (joined) paint.stroke();
    }
    paint.setLineDash([]);
    paint.restore();
  }

  // In words: what happens at the cursor, in every strategy shown.
  function tell() {
    const lines = [`At ${time(view.cursor, 6)}:`];
    for (const one of shown()) {
      const from = after(one.times, view.cursor, true), to = after(one.times, view.cursor);
      const now = one.moments.slice(from, to).map((moment) => moment.said);
      const latest = from ? one.moments[from - 1] : null;
      const more = now.length > 3 ? `; and ${now.length - 3} more` : "";
      const said = now.length ? now.slice(0, 3).join("; ") + more
        : latest ? `since ${time(latest.at, 6)}: ${latest.said}` : "nothing yet";
      lines.push(`${one.name}: ${said}. Now ${state(one)}.`);
    }
    if (view.chosen) lines.push(`Chosen in ${view.chosen.one.name}: ${path(view.chosen.gradient)}`);
    story.replaceChildren();
    for (const said of lines) element("p", story, {}, said);
  }

  // Who is doing what at the cursor, and until when whoever waits does.
  function state(one) {
    const groups = new Map();
    for (const { rank, spans, ends } of one.workers) {
      const i = after(ends, view.cursor);
      if (i >= ends.length) continue;
      const phase = data.phases[spans[3 * i + PHASE]];
      const cause = WAITS.has(phase.name) ? until(one, rank, ends[i]) : "";
      const said = cause ? `${phase.said}, ${cause}` : phase.said;
      groups.set(said, [...(groups.get(said) || []), rank]);
    }
    const named = (ranks) => {
      const runs = [];
      for (const rank of ranks) {
        if (runs.length && runs.at(-1)[1] === rank - 1) runs.at(-1)[1] = rank; else runs.push([rank, rank]);
      }
      return `worker${ranks.length > 1 ? "s" : ""} ${runs.map(([a, b]) => (a === b ? a : `${a} to ${b}`)).join(", ")}`;
    };
    return [...groups].map(([said, ranks]) => `${named(ranks)}: ${said}`).join("; ") || "it is over";
  }

  // What ends a wait: what another worker ends at that moment, or an update.
  function until(one, rank, end) {
    for (const other of one.workers) {
      const i = after(other.ends, end, true), phase = other.ends[i] === end && data.phases[other.spans[3 * i + PHASE]];
      if (other.rank !== rank && phase && !WAITS.has(phase.name)) return `until worker ${other.rank} ends ${phase.said}`;
    }
    const next = after(one.updates, end, true);
    return one.updates[next] === end ? `until global_step rises to ${next + 1}` : "";
  }

  const path = (g) => `gradient ${g.iteration} of worker ${g.worker} read the variables of step ${g.read_step} at ${time(g.read, 6)}` +
    `, was begun at ${time(g.begun, 6)}` +
    (g.computed >= 0 ? `, computed at ${time(g.computed, 6)}` : "") +
    (g.arrived >= 0 ? `, had arrived at ${time(g.arrived, 6)}` : "") +
    (g.outcome === "pending" ? ", and is on its way when the run ends." : `, and at ${time(g.ended, 6)} was ${fate(g)}.`);

  // What is under the pointer: a span of a worker, or nothing.
  function under(px, py) {
    const place = places.find(({ one, top }) => one && py >= top && py < top + one.workers.length * ROW);
    if (!place || px < LEFT || px > width - RIGHT) return null;
    const { one } = place;
    const worker = one.workers[Math.floor((py - place.top) / ROW)];
    const i = after(worker.ends, at(px));
    if (i >= worker.ends.length) return null;
    const [phase, end, iteration] = worker.spans.slice(3 * i, 3 * i + 3);
    return { one, rank: worker.rank, phase: data.phases[phase], start: i ? worker.ends[i - 1] : 0, end, iteration };
  }

  function describe({ one, rank, phase, start, end, iteration }) {
    const gradient = one.byWorker.get(`${rank}/${iteration}`);
    const lines = [`worker ${rank}, iteration ${iteration}: ${phase.said}`, `${time(start, 6)} to ${time(end, 6)} (${time(end - start)})`];
    if (WAITS.has(phase.name)) lines.push(until(one, rank, end));
    else if (gradient && gradient.outcome !== "pending") lines.push(`this gradient is ${fate(gradient)}`);
    return lines;
  }

  function hover(event) {
    const found = under(event.offsetX, event.offsetY);
    tip.hidden = !found;
    if (!found) return;
    tip.replaceChildren();
    for (const said of describe(found)) element("p", tip, {}, said);
    tip.style.left = `${clamp(event.offsetX + 14, 0, Math.max(width - 260, 0))}px`;
    tip.style.top = `${canvas.offsetTop + event.offsetY + 16}px`;
  }

  function show(from, to) {
    const least = Math.min(100, data.end);
    const span = clamp(to - from, least, data.end);
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
    const found = shown().map(({ times }) => times[way > 0 ? after(times, view.cursor) : after(times, view.cursor, true) - 1]);
    const known = found.filter((moment) => moment !== undefined);
    if (known.length) go(way > 0 ? Math.min(...known) : Math.max(...known));
  }

  // What is in view passes in twelve seconds.
  function toggle() {
    if (view.playing !== null) cancelAnimationFrame(view.playing);
    view.playing = view.playing === null ? 0 : null;
    play.textContent = view.playing === null ? "\u25b6" : "\u275a\u275a";
    if (view.playing === null) return;
    if (view.cursor >= data.end) view.cursor = view.from;
    let before = null;
    const frame = (now) => {
      if (before !== null) go(view.cursor + ((now - before) / 12000) * (view.to - view.from));
      before = now;
      if (view.cursor < data.end) view.playing = requestAnimationFrame(frame);
      else toggle();
    };
    view.playing = requestAnimationFrame(frame);
  }

  const KEYS = {
    ArrowRight: () => step(1), ArrowLeft: () => step(-1), " ": toggle, Home: () => go(0), End: () => go(data.end),
    "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2), 0: () => show(0, data.end),
    Escape: () => { view.chosen = null; draw(); },
  };
  canvas.addEventListener("keydown", (event) => {
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
  canvas.addEventListener("pointerdown", (event) => {
    held = { px: event.offsetX, from: view.from, to: view.to, moved: false };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!held) { hover(event); return; }
    const shift = ((event.offsetX - held.px) / (width - LEFT - RIGHT)) * (held.to - held.from);
    held.moved ||= Math.abs(event.offsetX - held.px) > 3;
    if (held.moved) show(held.from - shift, held.to - shift);
  });
  canvas.addEventListener("pointerup", (event) => {
    if (held && !held.moved) {
      const found = under(event.offsetX, event.offsetY);
      const gradient = found && found.one.byWorker.get(`${found.rank}/${found.iteration}`);
      view.chosen = gradient ? { one: found.one, gradient } : null;
      go(at(clamp(event.offsetX, LEFT, width - RIGHT)));
    }
    held = null;
  });
  canvas.addEventListener("pointerleave", () => { tip.hidden = true; });
  canvas.addEventListener("dblclick", () => show(0, data.end));
  new ResizeObserver(layout).observe(root);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", layout);

  root.hidden = false;
  const first = data.window || data.end;
  view.to = clamp(first, 1, data.end);
  layout();
})();
