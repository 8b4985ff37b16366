// Keeps `data-ago`, `data-due`, `data-elapsed` and `data-at` times true while the page is open.
import { absolute, due, relative, span } from "slipway/format";
import { timeZone } from "slipway/texts";

function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// By the moment of beginning, when that was by this browser's clock: the server's clock may be another, and what
// was drawn has been under way for a while. The earliest that any drawing tells, so that no redraw sets it back.
const began = new Map();

function elapsed(element, now) {
  const start = began.get(element.dateTime);
  return start === undefined ? element.textContent : span((now - start) / 1000);
}

// Fields for a time are in the same zone as the times on the page: the person's, which the server knows, or this
// browser's, which it does not.
function localFields(root) {
  if (timeZone) return;
  for (const field of root.querySelectorAll("input[data-moment]")) {
    const moment = new Date(field.dataset.moment);
    field.value = new Date(moment - moment.getTimezoneOffset() * 60000).toISOString().slice(0, 19);
    delete field.dataset.moment;
  }
}

// A time by the clock of a zone that the form itself names (`data-wall`) goes as it was typed.
function sendExact({ target, formData }) {
  if (timeZone) return;
  for (const { name, value } of target.querySelectorAll("input[type=datetime-local]:not([data-wall])")) {
    if (value) formData.set(name, new Date(value).toISOString());
  }
}

export function adopt(root, now = Date.now()) {
  localFields(root);
  for (const element of root.querySelectorAll("time[data-elapsed]:not([data-adopted])")) {
    const start = now - Number(element.dataset.elapsed) * 1000;
    began.set(element.dateTime, Math.min(began.get(element.dateTime) ?? start, start));
    write(element, elapsed(element, now));
    element.dataset.adopted = "";
  }
  for (const element of root.querySelectorAll("time[data-at]:not([data-adopted])")) {
    write(element, absolute(new Date(element.dateTime)));
    element.dataset.adopted = "";
  }
  for (const element of root.querySelectorAll("time:is([data-ago], [data-due]):not([data-adopted])")) {
    element.title = absolute(new Date(element.dateTime));
    element.dataset.adopted = "";
  }
}

export function tick(now = Date.now()) {
  for (const element of document.querySelectorAll("time[data-ago]")) {
    write(element, relative(Date.parse(element.dateTime), now));
  }
  for (const element of document.querySelectorAll("time[data-due]")) {
    write(element, due(Date.parse(element.dateTime), now));
  }
  for (const element of document.querySelectorAll("time[data-elapsed]")) {
    write(element, elapsed(element, now));
  }
}

export function start() {
  adopt(document);
  document.addEventListener("formdata", sendExact);
  setInterval(() => document.hidden || tick(), 1000);
  document.addEventListener("visibilitychange", () => document.hidden || tick());
}
