// Keeps `data-ago`, `data-due`, `data-elapsed` and `data-at` times true while the page is open.
import { due, relative, span } from "slipway/format";

const local = new Intl.DateTimeFormat("en-GB", {
  year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit",
  hour12: false, timeZoneName: "short",
});

function inLocalTime(moment) {
  const part = Object.fromEntries(local.formatToParts(moment).map(({ type, value }) => [type, value]));
  return `${part.year}-${part.month}-${part.day} ${part.hour}:${part.minute}:${part.second} ${part.timeZoneName}`;
}

function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function adopt(root) {
  for (const element of root.querySelectorAll("time[data-at]:not([data-adopted])")) {
    write(element, inLocalTime(new Date(element.dateTime)));
    element.dataset.adopted = "";
  }
  for (const element of root.querySelectorAll("time:is([data-ago], [data-due]):not([data-adopted])")) {
    element.title = inLocalTime(new Date(element.dateTime));
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
    write(element, span((now - Date.parse(element.dateTime)) / 1000));
  }
}

export function start() {
  adopt(document);
  setInterval(() => document.hidden || tick(), 1000);
  document.addEventListener("visibilitychange", () => document.hidden || tick());
}
