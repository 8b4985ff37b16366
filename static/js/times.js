// Keeps `data-ago`, `data-due`, `data-elapsed` and `data-at` times true while the page is open.
import { absolute, due, relative, span } from "slipway/format";

function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function adopt(root) {
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
    write(element, span((now - Date.parse(element.dateTime)) / 1000));
  }
}

export function start() {
  adopt(document);
  setInterval(() => document.hidden || tick(), 1000);
  document.addEventListener("visibilitychange", () => document.hidden || tick());
}
