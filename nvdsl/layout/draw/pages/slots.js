"use strict";
// What is current at a step, from the data that nvdsl/sim/timeline.py wrote. Times are steps; a state holds up to the next.

const data = JSON.parse(document.getElementById("data").textContent);
const $ = (id) => document.getElementById(id);
const number = (n) => n.toLocaleString("en-US");
const many = (n, word) => `${number(n)} ${word}${n === 1 ? "" : "s"}`;

// --- the facts

/** The last of `items` that begins at or before step `t`, each with its step at `key`; null for none. */
function last(items, key, t) {
  let found = null;
  for (const item of items) { if (item[key] > t) break; found = item; }
  return found;
}

function slotAt(slot, t) {
  const fill = last(slot.fills, "start", t);
  if (!fill) return { state: "empty", k: null, came: 0, bytes: 0, readers: [] };
  const came = fill.loads.reduce((sum, [end, bytes]) => sum + (end <= t ? bytes : 0), 0);
  const readers = fill.readers.filter(([, start, end]) => start <= t && t < end).map(([lane]) => lane);
  let state = "full";
  if (t < fill.full) state = "filling";
  else if (readers.length) state = "read";
  else if (fill.readers.length && t >= fill.end) state = "empty";
  return { state, k: fill.k, came, bytes: fill.bytes, readers };
}

function mbarrierAt(bar, t) {
  const state = last(bar.states, 0, t);
  if (!state) return null; // not initialized yet
  const [since, phase, arrivals, bytes] = state;
  return { since, phase, parity: phase & 1, arrivals, bytes, count: bar.count };
}

function warpAt(ops, t) {
  const op = last(ops, 0, t);
  if (!op) return { state: "starts", what: "", line: -1 };
  const [start, end, kind, what, line] = op;
  if (t >= end && !what.startsWith("stuck")) return { state: "done", what: "done", line: -1 };
  // One step of a wait is the asking itself; what is longer is spent waiting.
  return { state: kind === "wait" && end - start > 1 ? "wait" : "op", what, line, until: end };
}

/** All that the page shows at step `t`: tests compare it with the recording. */
function stateAt(t) {
  return {
    slots: data.slots.map((slot) => slotAt(slot, t)),
    mbarriers: data.mbarriers.map((bar) => mbarrierAt(bar, t)),
    warps: data.warps.map((ops) => warpAt(ops, t)),
  };
}

// Steps at which a slot changes its state.
const changes = [...new Set(data.slots.flatMap((slot) => slot.fills.flatMap((fill) =>
  [fill.start, fill.full, ...fill.readers.flatMap(([, start, end]) => [start, end])])))].filter((t) => t <= data.end).sort((a, b) => a - b);

// --- drawing

function make(tag, attributes = {}, ...children) {
  const svg = ["svg", "rect", "line", "text", "title", "g", "defs", "pattern"].includes(tag);
  const element = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

const LEFT = 8 * Math.max(...data.slots.map((slot) => slot.name.length), 14) + 12, WIDTH = 1160, ROW = 26;
const x = (t) => LEFT + Math.min(t, data.end) * (WIDTH - LEFT - 10) / Math.max(data.end, 1);

function bar(svg, y, height, from, to, state, tip, label) {
  if (to <= from) return;
  svg.append(make("rect", { x: x(from), y, width: x(to) - x(from), height, class: state }, make("title", {}, tip)));
  if (label && x(to) - x(from) > 7 * label.length + 4)
    svg.append(make("text", { x: (x(from) + x(to)) / 2, y: y + height / 2 + (height < 14 ? 3 : 4), "text-anchor": "middle",
      class: ({ full: "on-full", read: "on-read" }[state] || "") + (height < 14 ? " small" : "") }, label));
}

function overview() {
  const svg = $("overview");
  const pattern = make("pattern", { id: "filling", width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
    make("rect", { width: 6, height: 6, style: "fill:var(--pale)" }), make("rect", { width: 2, height: 6, style: "fill:var(--hatch)" }));
  svg.append(make("defs", {}, pattern));
  let y = 4;
  const lane = (name, mono) => {
    svg.append(make("text", { x: LEFT - 8, y: y + 15, "text-anchor": "end", class: mono ? "mono" : "grey" }, name));
    if (mono) svg.append(make("rect", { x: LEFT, y, width: x(data.end) - LEFT, height: ROW - 6, class: "lane" }));
  };
  for (const slot of data.slots) {
    lane(slot.name, true);
    slot.fills.forEach((fill, i) => {
      const high = ROW - 6, after = slot.fills[i + 1]?.start ?? data.end, k = `fill ${fill.k}`;
      const read = fill.readers.length ? Math.min(...fill.readers.map(([, start]) => start)) : after;
      bar(svg, y, high, fill.start, fill.full, "filling", `${k}: TMA, steps ${fill.start} to ${fill.full}`, `${fill.k}`);
      bar(svg, y, high, fill.full, read, "full", `${k}: full since step ${fill.full}`);
      const part = high / fill.readers.length;
      fill.readers.forEach(([who, start, end], j) => {
        bar(svg, y + j * part, part, read, start, "full", `${k}: full since step ${fill.full}`);
        bar(svg, y + j * part, part, start, end, "read", `${k}: ${who}, steps ${start} to ${end}`, fill.readers.length < 3 ? `${fill.k}` : "");
      });
    });
    y += ROW;
  }
  for (const group of data.groups) {
    const members = group.warps.map((w) => `warp ${w}`), stores = data.stores.filter(([, , who]) => members.includes(who));
    if (stores.length) {
      lane(`${group.name} stores`);
      for (const [start, end, , bytes] of stores) bar(svg, y + 3, 12, start, end, "store", `TMA store of ${number(bytes)} bytes, steps ${start} to ${end}`);
      y += ROW - 4;
    }
  }
  for (const group of data.groups) {
    const waits = group.warps.flatMap((w) => data.warps[w]).filter(([start, end, kind]) => kind === "wait" && end - start > 1);
    lane(`${group.badge} waits`);
    const seen = new Set();
    for (const [start, end, , what] of waits) {
      if (seen.has(`${start} ${end}`)) continue; // warps that wait together
      seen.add(`${start} ${end}`);
      bar(svg, y + 3, 12, start, end, "wait", `${what}, steps ${start} to ${end}`);
    }
    y += ROW - 4;
  }
  svg.setAttribute("viewBox", `0 0 ${WIDTH} ${y + 4}`);
  svg.style.minWidth = "40rem";
  svg.append(make("line", { id: "playhead", class: "now", y1: 0, y2: y + 4 }));
  svg.addEventListener("pointerdown", (event) => {
    const box = svg.getBoundingClientRect(), at = (event.clientX - box.left) * WIDTH / box.width;
    if (at >= LEFT - 4) show(Math.round((at - LEFT) * data.end / (WIDTH - LEFT - 10)));
  });
}

const WORDS = { empty: "empty", filling: "being filled by TMA", full: "full", read: "read by wgmma" };

function mbarrierRows(list, index, state, t) {
  const name = data.mbarriers[index].name;
  const changed = state && state.since === t ? "changed" : "";
  list.append(make("dt", { class: changed }, name));
  if (!state) { list.append(make("dd", {}, "not initialized")); return; }
  const dots = state.count <= 32 ? "\u25cf".repeat(state.count - state.arrivals) + "\u25cb".repeat(state.arrivals) + " " : "";
  list.append(make("dd", { class: changed }, `phase ${state.phase} (parity ${state.parity}), pending: `, make("br"),
    make("span", { "aria-hidden": "true" }, dots), `${state.arrivals} of ${many(state.count, "arrival")}, ${number(state.bytes)} bytes`));
}

function slotCards(state, t) {
  $("slots").replaceChildren(...data.slots.map((slot, i) => {
    const { state: now, k, came, bytes, readers } = state.slots[i];
    const list = make("dl");
    for (const index of slot.mbarriers) mbarrierRows(list, index, state.mbarriers[index], t);
    let more = "";
    if (now === "filling") more = `fill ${k}: ${number(came)} of ${number(bytes)} bytes are there`;
    else if (now !== "empty") more = `fill ${k}: ${number(bytes)} bytes${readers.length ? ", read by " + readers.join(" and ") : ""}`;
    else more = k === null ? "nothing was loaded yet" : `fill ${k} has been read`;
    return make("div", { class: `card ${now}`, "data-slot": slot.name, "data-state": now },
      make("h3", {}, `slot ${slot.name}`, make("span", { class: "state" }, WORDS[now])), more, list);
  }));
  const shown = new Set(data.slots.flatMap((slot) => slot.mbarriers));
  const rest = data.mbarriers.map((_, i) => i).filter((i) => !shown.has(i));
  const list = make("dl");
  for (const index of rest) mbarrierRows(list, index, state.mbarriers[index], t);
  $("others").replaceChildren(...(rest.length ? [make("div", { class: "card" }, make("h3", {}, "other mbarriers"), list)] : []));
}

const textOf = new Map();
for (const { file, first, text } of data.source) text.forEach((line, i) => textOf.set(`${file}:${first + i}`, line.trim()));
const placeOf = (line) => line < 0 ? "" : `${data.source[data.lines[line][0]].file}:${data.lines[line][1]}`;

function roles(state) {
  $("roles").replaceChildren(...data.groups.map((group) => {
    const together = new Map(); // what and where -> warps
    for (const warp of group.warps) {
      const { state: now, what, line } = state.warps[warp], key = `${now}|${what}|${line}`;
      together.set(key, [...(together.get(key) || []), warp]);
    }
    const list = make("ul", { class: "plain" });
    let waiting = false;
    for (const [key, warps] of together) {
      const { state: now, what, line, until } = state.warps[warps[0]], place = placeOf(line);
      waiting ||= now === "wait";
      const who = warps.length === 1 ? `warp ${warps[0]}` : `warps ${warps[0]}-${warps.at(-1)}`;
      const says = what.startsWith("wait") || what.startsWith("stuck") ? what : `waits: ${what}`;
      list.append(make("li", { "data-line": place }, `${who}: `, now !== "wait" ? what : what.startsWith("stuck") ? what : `${says} (until step ${until})`,
        place ? make("div", { class: "note mono" }, `${place}  ${textOf.get(place) || ""}`) : ""));
    }
    const span = group.warps.length > 1 ? `warps ${group.warps[0]}-${group.warps.at(-1)}` : `warp ${group.warps[0]}`;
    return make("div", { class: `card ${waiting ? "wait" : ""}` },
      make("h3", {}, make("span", {}, make("span", { class: "badge" }, group.badge), ` ${group.name}`), span), list);
  }));
}

function sourceOnce() {
  const indent = (text) => Math.min(...text.filter((line) => line.trim()).map((line) => line.search(/\S/)));
  $("source").append(...data.source.filter(({ text }) => text.length).flatMap(({ file, first, text }) => [
    make("div", { class: "note mono" }, file),
    make("pre", { tabindex: "0", "aria-label": `source of ${file}` }, ...text.map((line, i) => make("span", { class: "row", "data-place": `${file}:${first + i}` },
      make("span", { class: "who" }), make("span", { class: "number" }, `${first + i}`), line.slice(indent(text)) || " "))),
  ]));
}

function light(state) {
  const at = new Map(); // place -> badge -> waits?
  data.groups.forEach((group) => group.warps.forEach((warp) => {
    const { state: now, line } = state.warps[warp];
    if (line < 0) return;
    const here = at.get(placeOf(line)) || new Map();
    here.set(group.badge, (here.get(group.badge) ?? true) && now === "wait");
    at.set(placeOf(line), here);
  }));
  for (const row of document.querySelectorAll(".source .row")) {
    const here = at.get(row.dataset.place);
    row.classList.toggle("lit", Boolean(here));
    row.firstChild.replaceChildren(...[...(here || [])].map(([badge, waits]) => make("span", { class: waits ? "badge wait" : "badge" }, badge)));
  }
  for (const pre of document.querySelectorAll(".source pre")) {
    const rows = [...pre.querySelectorAll(".lit")];
    if (!rows.length || rows.some((row) => row.offsetTop >= pre.scrollTop && row.offsetTop + row.offsetHeight <= pre.scrollTop + pre.clientHeight)) continue;
    pre.scrollTop = rows[0].offsetTop - pre.clientHeight / 3;
  }
}

function events(t) {
  const begins = new Map();
  data.warps.forEach((ops, warp) => ops.forEach(([start, , kind, what]) => {
    if (start === t) begins.set(what, [...(begins.get(what) || []), warp]);
  }));
  return [...begins].map(([what, warps]) => `${warps.length === 1 ? `warp ${warps[0]}` : many(warps.length, "warp")}: ${what}`).join("; ")
    || "no warp begins anything here: copies arrive, or wgmmas are carried out";
}

// --- the slider

let step = 0, timer = 0;

function show(t) {
  step = Math.max(0, Math.min(data.end, Number.isFinite(t) ? t : 0));
  const state = stateAt(step);
  $("time").value = step;
  $("now").textContent = `step ${step} of ${data.end}`;
  $("time").setAttribute("aria-valuetext", `step ${step} of ${data.end}`);
  $("playhead").setAttribute("x1", x(step));
  $("playhead").setAttribute("x2", x(step));
  const strip = $("overview").parentElement, left = x(step) * $("overview").clientWidth / WIDTH;
  if (left < strip.scrollLeft || left > strip.scrollLeft + strip.clientWidth) strip.scrollLeft = left - strip.clientWidth / 2;
  $("events").textContent = `Begins: ${events(step)}`;
  slotCards(state, step);
  roles(state);
  light(state);
  if (fragment() !== step) history.replaceState(null, "", `#t=${step}`);
}

const fragment = () => Number(new URLSearchParams(location.hash.slice(1)).get("t") ?? NaN);
const next = () => show(changes.find((t) => t > step) ?? data.end);
const previous = () => show(changes.findLast((t) => t < step) ?? 0);

function play(on) {
  clearInterval(timer);
  timer = on ? setInterval(() => (step < data.end ? show(step + 1) : play(false)), 250) : 0;
  $("play").textContent = on ? "Pause" : "Play";
  $("play").setAttribute("aria-pressed", String(on));
}

$("title").textContent = data.title;
document.title = data.title;
$("about").textContent = `Simulated: ${data.schedule}. Time is logical: a step is an operation of a warp, not a number of `
  + `nanoseconds.${data.cut ? ` Shown: ${data.cut}.` : ""}${data.stopped ? ` The simulation stopped: ${data.stopped}` : ""}`;
$("time").max = data.end;
$("stores-key").hidden = !data.stores.length;
overview();
sourceOnce();
$("time").addEventListener("input", () => show($("time").valueAsNumber));
$("forward").addEventListener("click", next);
$("back").addEventListener("click", previous);
$("play").addEventListener("click", () => play(!timer));
addEventListener("hashchange", () => show(fragment()));
addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const keys = { n: next, p: previous };
  // The slider itself has the other keys; elsewhere on the page they move it too, but in the source they scroll.
  if (event.target === document.body) Object.assign(keys, { ArrowRight: () => show(step + 1), ArrowLeft: () => show(step - 1),
    Home: () => show(0), End: () => show(data.end) });
  if (keys[event.key]) { event.preventDefault(); keys[event.key](); }
});
show(fragment());
