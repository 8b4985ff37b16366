// Puts live values into the page: cells in place, charts at their end, the rest as DOM events for htmx.
import { FORMATS, percent } from "slipway/format";
import { Live } from "slipway/live";
import { isPast } from "slipway/past";
import { gettext, interpolate } from "slipway/texts";
import { toast } from "slipway/toasts";

const WORDS = {
  connecting: gettext("Connecting"),
  live: gettext("Live"),
  lost: gettext("Reconnecting"),
  stale: gettext("Not live"),
  "signed-out": gettext("Signed out"),
  "right-gone": gettext("No permission"),
  off: "",
};

const busyLevel = (share) =>
  share === null || share === undefined ? "" : String(Math.max(0, Math.min(10, Math.round(share * 10))));

// Of cells of the heat map: their title is written when somebody points at one, not for thousands each second.
const shares = new WeakMap();

function entitle({ target }) {
  const cell = target.closest?.(".heat");
  if (!cell || !shares.has(cell) || isPast()) return;
  const share = shares.get(cell);
  cell.title = `${cell.dataset.label}: ${share === null ? gettext("not known") : percent(share)}`;
}

const PAINTERS = {
  busy(cell, share) {
    const points = Math.round((share ?? 0) * 100);
    cell.querySelector("rect").setAttribute("width", `${points}%`);
    cell.dataset.busy = busyLevel(share);
    cell.setAttribute("aria-valuenow", points);
    cell.setAttribute("aria-valuetext", share === null ? gettext("not known") : percent(share));
    const number = cell.querySelector(".busy-number");
    if (number) number.textContent = percent(share);
  },
  heat(cell, share) {
    if (isPast()) return;
    const level = busyLevel(share);
    if (cell.dataset.busy !== level) cell.dataset.busy = level;
    shares.set(cell, share);
  },
  // One of several things that are already there; what stands in `data-choice` is shown for that value.
  choice(cell, value) {
    for (const option of cell.children) {
      if ("choice" in option.dataset) option.hidden = option.dataset.choice !== String(value);
    }
  },
  progress(cell, value) {
    if (value === null) cell.removeAttribute("value");
    else cell.value = value;
  },
};

export function paint(cell, value) {
  const how = cell.dataset.liveAs ?? "text";
  if (how in PAINTERS) return PAINTERS[how](cell, value ?? null);
  const text = (FORMATS[how] ?? FORMATS.text)(value);
  if (cell.textContent !== text) cell.textContent = text;
}

let live = null;
let index = new Map(); // topic -> path -> cells

function scan() {
  index = new Map();
  for (const scope of document.querySelectorAll("[data-live-topic]")) {
    if (!index.has(scope.dataset.liveTopic)) index.set(scope.dataset.liveTopic, new Map());
  }
  for (const cell of document.querySelectorAll("[data-live]")) {
    const cells = index.get(cell.closest("[data-live-topic]")?.dataset.liveTopic);
    if (!cells) continue;
    for (const path of cell.dataset.live.split(" ")) cells.get(path)?.push(cell) ?? cells.set(path, [cell]);
  }
}

const due = new Map();
let frame = 0;

const isOfMany = (cell) => cell.dataset.live.includes(" ");

// Of a cell that shows many machines: the share of all their slots at work.
function shareOf(cell, values) {
  let atWork = 0;
  let slots = 0;
  for (const path of cell.dataset.live.split(" ")) {
    const own = values[path.replace(/busy$/, "slots")] ?? 0;
    atWork += (values[path] ?? 0) * own;
    slots += own;
  }
  return slots ? atWork / slots : null;
}

function flush() {
  frame = 0;
  for (const [cell, { topic, value }] of due) paint(cell, isOfMany(cell) ? shareOf(cell, live.values(topic)) : value);
  due.clear();
}

function put(topic, values) {
  const cells = index.get(topic);
  if (!cells) return;
  // A second of thousands of machines has ten thousand values, of which a page shows some: nothing is made for the rest.
  for (const path in values) {
    const found = cells.get(path);
    if (found) for (const cell of found) due.set(cell, { topic, value: values[path] });
  }
  if (due.size && !frame) frame = requestAnimationFrame(flush);
}

// `release:12` is told as `live:release` and as `live:release:12`; `changes:models` asks all parts to look again.
function tell(topic) {
  const kind = topic.split(":")[0];
  if (kind === "changes") return document.body.dispatchEvent(new CustomEvent("live:refresh", { bubbles: true }));
  for (const name of new Set([kind, topic])) {
    document.body.dispatchEvent(new CustomEvent(`live:${name}`, { bubbles: true, detail: { topic } }));
  }
}

export function adopt() {
  if (!live) return;
  scan();
  live.want(index.keys());
  for (const topic of index.keys()) put(topic, live.values(topic));
}

export function start() {
  const path = document.body.dataset.liveUrl;
  if (!path) return;
  const url = new URL(path, location.href);
  url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
  live = new Live(url.href);
  for (const event of ["pointerover", "focusin"]) document.addEventListener(event, entitle);
  const sign = document.querySelector("[data-live-state]");
  live.addEventListener("state", ({ detail }) => {
    if (sign) {
      sign.dataset.liveState = detail.state;
      sign.querySelector(".live-word").textContent = WORDS[detail.state] ?? "";
      sign.title = detail.state === "stale" ? interpolate(gettext("%(part)s does not respond: reload the page to see what is new"), { part: detail.part }) : "";
    }
    if (detail.state === "signed-out") toast(gettext("You are signed out. Sign in again to see live values."), "bad");
    if (detail.state === "right-gone") {
      toast(gettext("You no longer have permission to see this page, so it is no longer updated. Ask an admin of the team."), "bad");
    }
  });
  live.addEventListener("values", ({ detail }) => {
    put(detail.topic, detail.values);
    if (detail.gone.length) put(detail.topic, Object.fromEntries(detail.gone.map((gone) => [gone, null])));
    const held = live.values(detail.topic);
    document.body.dispatchEvent(new CustomEvent("live:values", { detail: { ...detail, held } }));
  });
  live.addEventListener("look", ({ detail }) => tell(detail.topic));
  live.addEventListener("regained", () => {
    document.body.dispatchEvent(new CustomEvent("live:refresh", { bubbles: true }));
    for (const topic of index.keys()) tell(topic);
  });
  live.addEventListener("refused", ({ detail }) => toast(detail.detail || gettext("You don't have permission to follow this live."), "warn"));
  adopt();
}
