// The heat map of the fleet: a slider through the last day, and arrow keys from machine to machine.
import { percent } from "slipway/format";
import { gettext, interpolate } from "slipway/texts";

// As `clusters.history.HistoryMark` numbers them: a sign, the tone of the cell, the word in its title.
const MARKS = [
  ["", "", ""],
  ["\u2013", "", gettext("cordoned")],
  ["?", "warn", gettext("agent silent")],
  ["\u00d7", "warn", gettext("gone")],
  ["!", "bad", gettext("stuck")],
  ["!", "bad", gettext("lost or not ready")],
  ["*", "bad", gettext("faulty")],
];

let shown = null; // {at, machines}, while the slider is not at its end
let asked = 0;

export const isPast = () => shown !== null;

// Of a cell of many machines: their mean, and the worst that needs somebody.
function stateOf(cell) {
  const paths = cell.dataset.live.split(" ");
  const found = paths.map((path) => shown.machines[path.split(".")[1]] ?? [null, 0]);
  const shares = found.map(([busy]) => busy).filter((busy) => busy !== null);
  const mark = Math.max(...found.map(([, one]) => one));
  return {
    busy: shares.length ? shares.reduce((sum, one) => sum + one, 0) / shares.length : null,
    mark: paths.length > 1 && !MARKS[mark][1] ? 0 : mark,
  };
}

function paint() {
  for (const cell of document.querySelectorAll('.heat[data-live^="node."]')) {
    const { busy, mark } = stateOf(cell);
    const [sign, tone, word] = MARKS[mark];
    cell.className = tone ? `heat tone-${tone}` : "heat";
    cell.dataset.busy = busy === null ? "" : String(Math.round(busy * 10));
    cell.dataset.sign = sign;
    const name = cell.dataset.label.split(",")[0];
    cell.title = [name, busy === null ? gettext("not known") : percent(busy), word].filter(Boolean).join(", ");
  }
}

async function look(slider) {
  const minutes = -Number(slider.value);
  const number = ++asked;
  const label = slider.closest("[data-past]").querySelector("output");
  if (!minutes) {
    shown = null;
    label.textContent = gettext("Now");
    document.body.dispatchEvent(new CustomEvent("live:refresh", { bubbles: true }));
    return;
  }
  const response = await fetch(`${slider.dataset.pastUrl}?minutes=${minutes}`, { headers: { accept: "application/json" } });
  if (number !== asked || !response.ok) return;
  shown = await response.json();
  const time = new Date(shown.at).toLocaleTimeString(document.documentElement.lang, { hour: "2-digit", minute: "2-digit" });
  const empty = !Object.keys(shown.machines).length;
  label.textContent = empty ? interpolate(gettext("%(time)s: nothing was kept"), { time }) : time;
  paint();
}

// One stop of the Tab key for a cluster's machines, however many they are: arrows go on from there.
const mapOf = (cell) => cell.closest(".heat-groups") ?? cell.closest(".heat-map");

function stopAt(cell) {
  for (const one of mapOf(cell).querySelectorAll('a.heat[tabindex="0"]')) one.tabIndex = -1;
  cell.tabIndex = 0;
}

let focused = null; // the address of the machine whose cell has the focus while the map is loaded again

export function adopt() {
  for (const map of document.querySelectorAll(".heat-groups")) {
    const cells = map.querySelectorAll("a.heat");
    if (!cells.length || map.querySelector("a.heat[tabindex]")) continue;
    for (const cell of cells) cell.tabIndex = -1;
    const before = focused && map.querySelector(`a.heat[href="${CSS.escape(focused)}"]`);
    (before ?? cells[0]).tabIndex = 0;
    if (before && document.activeElement === document.body) before.focus({ preventScroll: true });
  }
  if (shown && document.querySelector("[data-past]")) paint();
}

// The cell of the next row above or below that is nearest.
function across(cells, cell, isDown) {
  const from = cell.getBoundingClientRect();
  const way = ({ top }) => (isDown ? top - from.top : from.top - top);
  let best = null;
  for (const one of cells) {
    const to = one.getBoundingClientRect();
    const distance = [way(to), Math.abs(to.left - from.left)];
    if (distance[0] < 1) continue;
    if (!best || distance[0] < best.distance[0] || (distance[0] === best.distance[0] && distance[1] < best.distance[1])) best = { one, distance };
  }
  return best?.one;
}

function moves(event) {
  const cell = event.target.closest?.(".heat-map a.heat");
  if (!cell || event.altKey || event.ctrlKey || event.metaKey) return;
  const cells = [...mapOf(cell).querySelectorAll("a.heat")];
  const at = cells.indexOf(cell);
  const targets = {
    ArrowRight: () => cells[at + 1],
    ArrowLeft: () => cells[at - 1],
    ArrowDown: () => across(cells, cell, true),
    ArrowUp: () => across(cells, cell, false),
    Home: () => cells[0],
    End: () => cells.at(-1),
  };
  if (!(event.key in targets)) return;
  event.preventDefault();
  targets[event.key]()?.focus();
}

// Filters change the address, and these links stand outside of what they load: a grouping keeps what the address says.
function keepFilters() {
  for (const link of document.querySelectorAll("[data-past] .spans > a")) {
    const query = new URLSearchParams(location.search);
    query.set("by", new URLSearchParams(link.search).get("by"));
    query.delete("page");
    link.search = query;
  }
}

let timer = 0;
document.addEventListener("input", (event) => {
  if (!event.target.matches("[data-past-url]")) return;
  clearTimeout(timer);
  timer = setTimeout(look, 80, event.target);
});
document.addEventListener("keydown", moves);
document.addEventListener("htmx:pushedIntoHistory", keepFilters);
document.addEventListener("focusin", ({ target }) => target.matches(".heat-map a.heat") && stopAt(target));
document.addEventListener("htmx:beforeSwap", () => {
  focused = document.activeElement?.closest(".heat-map a.heat")?.getAttribute("href") ?? null;
});
