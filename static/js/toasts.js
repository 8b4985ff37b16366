// Short messages that do not ask anything. Problems stay until they are closed; the rest leaves by itself.
import { gettext } from "slipway/texts";

const STAYS_MS = 6000;
const TONES = ["idle", "good", "warn", "bad"];

function drawn(name) {
  return document.getElementById("toast-icons")?.content.querySelector(name)?.cloneNode(true);
}

function dress(note, tone) {
  const mark = drawn(`.tone-${TONES.includes(tone) ? tone : "idle"}`);
  if (mark) note.prepend(mark);
  const close = document.createElement("button");
  close.type = "button";
  close.className = "toast-close";
  close.setAttribute("aria-label", gettext("Close"));
  const cross = drawn(".close");
  if (cross) close.append(cross);
  close.addEventListener("click", () => note.remove());
  note.append(close);
  if (tone !== "bad") {
    let left = setTimeout(() => note.remove(), STAYS_MS);
    note.addEventListener("pointerenter", () => clearTimeout(left));
    note.addEventListener("pointerleave", () => (left = setTimeout(() => note.remove(), STAYS_MS)));
  }
}

// Nobody can hear or close what stands behind an open dialog: it is said in the dialog.
function sayInDialog(slot, text, tone) {
  const words = document.createElement("p");
  words.className = "problem-title";
  words.textContent = text;
  const box = document.createElement("div");
  box.append(words);
  const problem = document.createElement("div");
  problem.className = `problem tone-${tone}`;
  problem.setAttribute("role", "alert");
  problem.append(drawn(`.tone-${tone}`) ?? "", box);
  slot.replaceChildren(problem);
}

export function toast(text, tone = "idle") {
  const slot = document.querySelector("dialog[open] [data-problem]");
  if (slot) return sayInDialog(slot, text, tone);
  const area = document.getElementById("toasts");
  if (!area) return;
  const same = [...area.children].find((note) => note.dataset.text === text);
  same?.remove();
  const note = document.createElement("div");
  note.className = `toast-note tone-${tone}`;
  note.dataset.text = text;
  const words = document.createElement("span");
  words.textContent = text;
  note.append(words);
  dress(note, tone);
  area.append(note);
}

export function start() {
  for (const note of document.querySelectorAll("[data-toast]")) {
    const words = document.createElement("span");
    words.textContent = note.textContent;
    note.replaceChildren(words);
    dress(note, TONES.find((tone) => note.classList.contains(`tone-${tone}`)) ?? "idle");
  }
}
