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

function paint() {
  for (const cell of document.querySelectorAll('.heat[data-live^="node."]')) {
    const [busy, mark] = shown.machines[cell.dataset.live.split(".")[1]] ?? [null, 0];
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

export function adopt() {
  if (shown && document.querySelector("[data-past]")) paint();
}

function moves(event) {
  const cell = event.target.closest?.(".heat-map a.heat");
  if (!cell) return;
  const cells = [...cell.parentElement.querySelectorAll("a.heat")];
  const at = cells.indexOf(cell);
  const row = cells.filter((one) => one.offsetTop === cells[0].offsetTop).length;
  const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: row, ArrowUp: -row, Home: -at, End: cells.length - 1 - at };
  if (!(event.key in steps)) return;
  event.preventDefault();
  cells[Math.max(0, Math.min(cells.length - 1, at + steps[event.key]))].focus();
}

let timer = 0;
document.addEventListener("input", (event) => {
  if (!event.target.matches("[data-past-url]")) return;
  clearTimeout(timer);
  timer = setTimeout(look, 80, event.target);
});
document.addEventListener("keydown", moves);
