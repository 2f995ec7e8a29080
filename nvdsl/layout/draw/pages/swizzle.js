"use strict";
// Where the elements of a tile lie in shared memory: the same rules as nvdsl.layout's TileLayout and conflicts_at, with which
// the tests compare them.

const data = JSON.parse(document.getElementById("data").textContent);
const $ = (id) => document.getElementById(id);
const number = (n) => n.toLocaleString("en-US");
const UNIT = 16, LINE = 128, BANKS = 32, WORD = 4;

// --- the facts

/** Why there is no such tile; "" where there is one. Sizes in elements, the swizzle in bytes. */
function refuse(rows, cols, itemsize, swizzle) {
  const row = cols * itemsize;
  if (!(Number.isInteger(rows) && Number.isInteger(cols) && rows > 0 && cols > 0)) return "rows and columns are whole numbers from 1 on";
  if (row % UNIT) return `a row of ${cols} elements is ${row} bytes, not a multiple of 16`;
  if (swizzle && row < swizzle) return `a row of ${cols} elements is ${row} bytes, narrower than the ${swizzle}-byte swizzle`;
  if (swizzle && row % swizzle) return `a row of ${cols} elements is ${row} bytes, not a multiple of the ${swizzle}-byte swizzle`;
  if (rows * row > data.most) return `${rows} rows of ${row} bytes are ${number(rows * row)} bytes: this page shows ${number(data.most)}`;
  return "";
}

/** The way to an element's byte: panel, offset before the swizzle, the bits that it exchanges, offset. */
function place(tile, row, col) {
  const width = tile.swizzle || tile.cols * tile.itemsize, columns = width / tile.itemsize;
  const panel = Math.floor(col / columns), linear = panel * tile.rows * width + row * width + (col % columns) * tile.itemsize;
  const mask = tile.swizzle > 16 ? tile.swizzle / 16 - 1 : 0, by = (linear >> 7) & mask;
  return { panel, panels: tile.cols / columns, linear, mask, by, offset: linear ^ (by << 4) };
}

const offset = (tile, row, col) => place(tile, row, col).offset;
const bank = (byte) => Math.floor(byte / WORD) % BANKS;

/** For each bank how many different words of it the lanes need that access `bytes` each from `starts` on. */
function wordsOfBanks(starts, bytes) {
  const words = new Set();
  for (const start of starts) for (let i = 0; i < bytes; i++) words.add(Math.floor((start + i) / WORD));
  const banks = Array(BANKS).fill(0);
  for (const word of words) banks[word % BANKS]++;
  return banks;
}

/** How many times longer the access takes than it has to. Accesses of 8 and 16 bytes take a half and a quarter of the lanes
 *  at a time. */
function conflictsAt(starts, bytes) {
  const group = BANKS * WORD / Math.max(bytes, WORD);
  let worst = 0;
  for (let i = 0; i < starts.length; i += group) worst = Math.max(worst, ...wordsOfBanks(starts.slice(i, i + group), bytes));
  return worst;
}

const upTo = (first, count, end) => Array.from({ length: Math.max(0, Math.min(count, end - first)) }, (_, i) => first + i);

/** What the accesses touch around an element: [row, column] of each lane, and the bytes of a lane. */
const ACCESSES = {
  matrix: { name: "ldmatrix: 8 rows of 16 bytes", bytes: () => UNIT, lanes: (tile, row, col) => {
    const per = UNIT / tile.itemsize, left = col - col % per;
    return upTo(row - row % 8, 8, tile.rows).map((r) => [r, left]);
  } },
  column: { name: "down a column: a lane a row", bytes: (tile) => tile.itemsize,
    lanes: (tile, row, col) => upTo(row - row % 32, 32, tile.rows).map((r) => [r, col]) },
  row: { name: "along a row: a lane an element", bytes: (tile) => tile.itemsize,
    lanes: (tile, row, col) => upTo(col - col % 32, 32, tile.cols).map((c) => [row, c]) },
};

function touched(tile, access, row, col) {
  const { bytes, lanes } = ACCESSES[access];
  return { bytes: bytes(tile), lanes: lanes(tile, row, col), starts: lanes(tile, row, col).map(([r, c]) => offset(tile, r, c)) };
}

function conflicts(tile, access, row, col) {
  const { starts, bytes } = touched(tile, access, row, col);
  return conflictsAt(starts, bytes);
}

// --- drawing

function make(tag, attributes = {}, ...children) {
  const svg = ["rect", "text", "g"].includes(tag);
  const element = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

const HIGH = 24, LEFT = 84, TOP = 20;
let CELL = 70; // wide enough for the labels
let tile = null, at = { row: 0, col: 0 };

/** The units of a picture as [x, y, row, first column]; `inArray`: as the array has them. */
function units(inArray) {
  const per = UNIT / tile.itemsize, found = [];
  for (let row = 0; row < tile.rows; row++)
    for (let place = 0; place * per < tile.cols; place++) {
      const byte = offset(tile, row, place * per);
      found.push(inArray ? [place, row, row, place * per] : [byte % LINE / UNIT, Math.floor(byte / LINE), row, place * per]);
    }
  return found;
}

function labelOf(row, col) {
  const per = UNIT / tile.itemsize;
  return per > 1 ? `r${row} c${col}-${col + per - 1}` : `r${row} c${col}`;
}

function grid(id, inArray) {
  const svg = $(id), all = units(inArray), per = UNIT / tile.itemsize;
  const columns = inArray ? tile.cols / per : 8, lines = 1 + Math.max(...all.map(([, y]) => y));
  const width = LEFT + columns * CELL + 4, height = TOP + lines * HIGH + 4;
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.style.width = `${width}px`;
  svg.style.maxWidth = "none";
  svg.replaceChildren();
  for (let i = 0; i < columns; i++)
    svg.append(make("text", { x: LEFT + (i + 0.5) * CELL, y: 14, "text-anchor": "middle", class: "grey" },
      inArray ? `c${i * per}` + (per > 1 ? `-${i * per + per - 1}` : "") : `${4 * i}-${4 * i + 3}`));
  if (!inArray) svg.append(make("text", { x: LEFT - 8, y: 14, "text-anchor": "end", class: "grey" }, "banks"));
  for (let y = 0; y < lines; y++)
    svg.append(make("text", { x: LEFT - 8, y: TOP + y * HIGH + 16, "text-anchor": "end", class: "grey" }, inArray ? `row ${y}` : `byte ${number(y * LINE)}`));
  for (const [x, y, row, col] of all) {
    const cell = make("g", { "data-row": row, "data-col": col },
      make("rect", { x: LEFT + x * CELL + 1, y: TOP + y * HIGH + 1, width: CELL - 2, height: HIGH - 2, style: `fill:var(--unit${col / per % 8})` }),
      make("text", { x: LEFT + (x + 0.5) * CELL, y: TOP + y * HIGH + 16, "text-anchor": "middle", class: "mono on-full", style: "font-size:11px" }, labelOf(row, col)));
    svg.append(cell);
  }
  svg.append(make("g", { class: "marks" }));
}

/** Marks what the access touches, and the element itself: in its unit, where its bytes are. */
function mark(id, inArray, lanes, bytes) {
  const svg = $(id), marks = svg.querySelector(".marks"), per = UNIT / tile.itemsize;
  marks.replaceChildren();
  const box = (row, col, bytes, style) => {
    const byte = offset(tile, row, col), inUnit = col % per * tile.itemsize / UNIT;
    const x = inArray ? Math.floor(col / per) : Math.floor(byte % LINE / UNIT), y = inArray ? row : Math.floor(byte / LINE);
    marks.append(make("rect", { x: LEFT + x * CELL + 1 + inUnit * (CELL - 2), y: TOP + y * HIGH + 1,
      width: bytes / UNIT * (CELL - 2), height: HIGH - 2, style: `fill:none;pointer-events:none;${style}` }));
  };
  for (const [row, col] of lanes) box(row, col, bytes, "stroke:#1d1f21;stroke-width:2.5");
  box(at.row, at.col, tile.itemsize, "stroke:var(--red);stroke-width:3.5");
}

const binary = (n, digits) => n.toString(2).padStart(digits, "0");
const row = (name, ...cells) => make("tr", {}, make("th", { scope: "row" }, name), ...cells.map((cell) => make("td", {}, `${cell}`)));

function element() {
  const { panel, panels, linear, mask, by, offset: byte } = place(tile, at.row, at.col), digits = binary(mask, 1).length;
  $("element-title").textContent = `Row ${at.row}, column ${at.col}: byte ${number(byte)}, bank ${bank(byte)}`;
  const facts = [
    ["panel", `${panel} of ${panels}`],
    ["before", `byte ${number(linear)} without the swizzle`],
    ["swizzle", mask ? `bits ${digits > 1 ? `4 to ${3 + digits}` : "4"} XOR bits ${digits > 1 ? `7 to ${6 + digits}` : "7"}: `
      + `${binary(linear >> 4 & mask, digits)} XOR ${binary(by, digits)} = ${binary(byte >> 4 & mask, digits)}` : "permutes nothing"],
    ["address", `byte ${number(byte)} of the tile (0x${byte.toString(16)})`],
    ["line", `${number(Math.floor(byte / LINE))}, 16-byte unit ${Math.floor(byte % LINE / UNIT)} of 8`],
    ["bank", `${bank(byte)} of 32`],
  ];
  $("element").replaceChildren(...facts.flatMap(([name, words]) => [make("dt", {}, name), make("dd", {}, words)]));
}

function access() {
  const chosen = $("access").value, { lanes, starts, bytes } = touched(tile, chosen, at.row, at.col);
  const ways = conflictsAt(starts, bytes), group = BANKS * WORD / Math.max(bytes, WORD);
  $("access-title").textContent = `${ACCESSES[chosen].name}: ${ways === 1 ? "no bank conflicts" : `${ways} times as long as without bank conflicts`}`;
  const banks = wordsOfBanks(starts.slice(0, group), bytes), svg = $("banks");
  svg.replaceChildren(...banks.flatMap((count, i) => [
    make("rect", { x: 6 + i * 20, y: 2, width: 18, height: 24, class: count === 0 ? "lane" : count === 1 ? "read" : "wait" }),
    make("text", { x: 15 + i * 20, y: 18, "text-anchor": "middle", class: count ? "on-read" : "" }, count ? `${count}` : ""),
    make("text", { x: 15 + i * 20, y: 40, "text-anchor": "middle", class: "grey", style: "font-size:10px" }, i % 4 ? "" : `${i}`),
  ]));
  const head = make("tr", {}, make("th", {}, "conflicts with a swizzle of"), ...data.swizzles.map((s) => make("th", { scope: "col" }, s ? `${s}` : "none")));
  $("compare").replaceChildren(head, ...Object.keys(ACCESSES).map((name) => row(ACCESSES[name].name, ...data.swizzles.map((swizzle) =>
    refuse(tile.rows, tile.cols, tile.itemsize, swizzle) ? "\u2013" : conflicts({ ...tile, swizzle }, name, at.row, at.col)))));
  mark("array", true, lanes, bytes);
  mark("memory", false, lanes, bytes);
}

function move(row, col) {
  at = { row: Math.max(0, Math.min(tile.rows - 1, row)), col: Math.max(0, Math.min(tile.cols - 1, col)) };
  element();
  access();
}

function change() {
  const itemsize = data.dtypes[$("dtype").value], rows = $("rows").valueAsNumber, cols = $("cols").valueAsNumber;
  const swizzle = Number($("swizzle").value), why = refuse(rows, cols, itemsize, swizzle);
  $("refused").textContent = why ? `There is no such tile: ${why}.` : "";
  $("shown").hidden = Boolean(why);
  if (why) return;
  tile = { rows, cols, itemsize, swizzle };
  CELL = 7 * labelOf(rows - 1, cols - UNIT / itemsize).length + 2;
  grid("array", true);
  grid("memory", false);
  move(at.row, at.col);
}

function under(event, svg) {
  const cell = event.target.closest("g[data-row]");
  if (!cell) return;
  const box = cell.firstChild.getBoundingClientRect(), per = UNIT / tile.itemsize;
  const within = Math.max(0, Math.min(per - 1, Math.floor((event.clientX - box.left) / box.width * per)));
  move(Number(cell.dataset.row), Number(cell.dataset.col) + within);
}

for (const name of Object.keys(data.dtypes)) $("dtype").append(make("option", { value: name }, name));
for (const swizzle of data.swizzles) $("swizzle").append(make("option", { value: swizzle },
  { 0: "none", 16: "16 (wgmma's none)" }[swizzle] ?? `${swizzle} bytes`));
for (const [key, { name }] of Object.entries(ACCESSES)) $("access").append(make("option", { value: key }, name));
for (const name of ["dtype", "rows", "cols", "swizzle"]) $(name).value = data[name];
for (const name of ["dtype", "rows", "cols", "swizzle"]) $(name).addEventListener("input", change);
$("access").addEventListener("input", access);
for (const id of ["array", "memory"]) {
  $(id).addEventListener("pointermove", (event) => under(event, $(id)));
  $(id).addEventListener("pointerdown", (event) => under(event, $(id)));
  $(id).addEventListener("keydown", (event) => {
    const by = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0], Home: [0, -at.col], End: [0, tile.cols] }[event.key];
    if (by) { event.preventDefault(); move(at.row + by[0], at.col + by[1]); }
  });
}
change();
