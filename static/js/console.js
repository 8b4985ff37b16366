// Everything that every page of the console needs; each module starts once and adopts what htmx adds later.
import * as cells from "slipway/cells";
import * as dialogs from "slipway/dialogs";
import * as faults from "slipway/faults";
import * as find from "slipway/find";
import * as folds from "slipway/folds";
import * as keys from "slipway/keys";
import * as parts from "slipway/parts";
import * as past from "slipway/past";
import { gettext, interpolate } from "slipway/texts";
import * as tables from "slipway/tables";
import * as times from "slipway/times";
import * as toasts from "slipway/toasts";

function copyButtons() {
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy]");
    if (!button) return;
    try {
      await navigator.clipboard.writeText(button.dataset.copy);
      button.classList.add("is-copied");
      setTimeout(() => button.classList.remove("is-copied"), 1500);
    } catch {
      toasts.toast(gettext("The browser does not let this page copy. Select the text and copy it by hand."), "warn");
    }
  });
}

// `data-ticks="read models.write "`: ticks these boxes of its fieldset, and no others.
function tickingButtons() {
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-ticks]");
    if (!button) return;
    const ticked = new Set(button.dataset.ticks.split(" "));
    for (const box of button.closest("fieldset").querySelectorAll("input[type=checkbox]")) {
      box.checked = ticked.has(box.value);
    }
  });
}

function themeChoice() {
  const current = document.documentElement.dataset.theme;
  for (const choice of document.querySelectorAll("[data-theme-choice]")) {
    choice.checked = choice.value === current;
    choice.addEventListener("change", () =>
      window.dispatchEvent(new CustomEvent("slipway:theme", { detail: choice.value })),
    );
  }
}

function menus() {
  document.addEventListener("click", (event) => {
    for (const menu of document.querySelectorAll("details.menu[open]")) {
      if (!menu.contains(event.target)) menu.removeAttribute("open");
    }
    const toggle = event.target.closest("[data-toggles]");
    if (toggle) {
      const open = document.getElementById(toggle.dataset.toggles).classList.toggle("is-open");
      document.querySelector(`[aria-controls="${toggle.dataset.toggles}"]`)?.setAttribute("aria-expanded", String(open));
    }
  });
}

// The page that one comes back to may be from before a change: its parts look again.
function comingBack() {
  window.addEventListener("pageshow", ({ persisted }) => {
    const [arrival] = performance.getEntriesByType("navigation");
    if (persisted || arrival?.type === "back_forward") {
      document.body.dispatchEvent(new CustomEvent("live:refresh", { bubbles: true }));
    }
  });
}

// Who signs out is led to their identity provider. What the page has asked for by itself comes back meanwhile as
// from somebody who is not signed in, and would lead to the sign-in page in its place.
function signingOut() {
  let isLeaving = false;
  document.addEventListener("submit", ({ target }) => {
    if (target.getAttribute("action") === "/accounts/logout/") isLeaving = true;
  });
  window.addEventListener("pageshow", () => {
    isLeaving = false;
  });
  document.body.addEventListener("htmx:beforeOnLoad", (event) => {
    if (isLeaving) event.preventDefault();
  });
}

// What an answer will replace is marked until the answer is there: what it says is of an earlier question.
function awaitedResults() {
  const results = (asker) => {
    const id = asker?.getAttribute("hx-target") ?? "";
    return id.startsWith("#") ? document.querySelector(id) : null;
  };
  document.addEventListener("input", ({ target }) =>
    results(target.closest('[hx-trigger^="input delay"]'))?.classList.add("is-awaited"),
  );
  document.body.addEventListener("htmx:beforeRequest", ({ detail }) => {
    if (detail.elt.matches('[hx-trigger^="input"]')) results(detail.elt)?.classList.add("is-awaited");
  });
  document.body.addEventListener("htmx:afterSwap", ({ detail }) => detail.target.classList.remove("is-awaited"));
}

// A form that came back: to the first field that is wrong, wherever on the page it is.
function firstFault() {
  const fault = document.querySelector("main form[method=post] .field-error");
  fault?.closest(".field")?.querySelector("input, select, textarea")?.focus();
  fault?.scrollIntoView({ block: "nearest" });
}

// On a narrow screen the tabs scroll: the one that is open comes into sight.
function openTab() {
  document.querySelector(".tab[aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
}

function logs(root) {
  for (const log of root.querySelectorAll("[data-follow]")) log.scrollTop = log.scrollHeight;
}

// What scrolls sideways can be reached by the keyboard, also when nothing in it can.
const FOCUSABLE = "a[href], button, input, select, textarea, summary, [tabindex]";
function scrollers(root) {
  for (const box of root.querySelectorAll(".table-box, .scrolls")) {
    const scrolls = box.scrollWidth > box.clientWidth && !box.querySelector(FOCUSABLE);
    if (scrolls) box.tabIndex = 0;
    else box.removeAttribute("tabindex");
  }
}

async function charts(root) {
  const found = root.querySelectorAll("[data-chart]:not([data-drawn])");
  if (found.length) (await import("slipway/charts")).draw(found);
}

async function playground() {
  const form = document.querySelector("[data-playground]");
  if (!form) return;
  form.addEventListener("submit", (event) => event.preventDefault());
  (await import("slipway/playground")).start(form);
}

function adopt(root) {
  times.adopt(root);
  tables.adopt(root);
  folds.adopt(root);
  logs(root);
  scrollers(root);
  charts(root);
  cells.adopt();
  past.adopt();
}

// What htmx may swap, and what a person hears of the rest.
function answers() {
  document.body.addEventListener("htmx:beforeSwap", ({ detail }) => {
    const { xhr } = detail;
    if (xhr.getResponseHeader("HX-Slipway-Refused")) {
      const form = detail.requestConfig.elt.closest("form, dialog") ?? detail.requestConfig.elt;
      const slot = form.querySelector("[data-problem]");
      const fields = JSON.parse(xhr.getResponseHeader("HX-Slipway-Faults") ?? "{}");
      detail.isError = false;
      if (faults.place(form, fields) && Object.keys(fields).length) {
        slot?.replaceChildren();
        detail.shouldSwap = false;
      } else if (slot) Object.assign(detail, { shouldSwap: true, target: slot, swapOverride: "innerHTML" });
      else {
        detail.shouldSwap = false;
        const words = new DOMParser().parseFromString(xhr.responseText, "text/html").body.textContent;
        toasts.toast(words.replace(/\s+/g, " ").trim(), "bad");
      }
      return;
    }
    if (detail.shouldSwap && detail.requestConfig.verb === "get" && dialogs.holds(detail.target)) {
      detail.shouldSwap = false;
    }
  });
  document.body.addEventListener("htmx:oobBeforeSwap", ({ detail }) => {
    if (dialogs.holds(detail.target)) detail.shouldSwap = false;
  });
  document.body.addEventListener("htmx:responseError", ({ detail }) => {
    const { status } = detail.xhr;
    const because =
      status === 403 ? gettext("You don't have permission to do this.") :
      status === 404 ? gettext("This no longer exists. Reload the page.") :
      status === 429 ? gettext("Too many requests. Wait a moment.") :
      interpolate(gettext("The server could not do this (%(status)s)."), { status });
    toasts.toast(`${because} ${dialogs.advice(detail.elt)}`.trim(), "bad");
  });
  for (const name of ["htmx:sendError", "htmx:timeout"]) {
    document.body.addEventListener(name, ({ detail }) => {
      const then = dialogs.advice(detail.elt) || gettext("What the page shows may be out of date.");
      toasts.toast(`${gettext("The server does not respond.")} ${then}`, "warn");
    });
  }
  document.body.addEventListener("slipway:done", ({ target, detail }) => {
    target.closest?.("dialog")?.close();
    target.closest?.("form")?.reset();
    toasts.toast(detail.text, detail.tone);
    document.body.dispatchEvent(new CustomEvent("live:refresh", { bubbles: true }));
  });
}

window.addEventListener("resize", () => scrollers(document));
toasts.start();
times.start();
parts.start();
keys.start();
dialogs.start();
find.start();
folds.start();
copyButtons();
tickingButtons();
themeChoice();
menus();
answers();
awaitedResults();
signingOut();
comingBack();
openTab();
firstFault();
logs(document);
tables.adopt(document);
charts(document);
playground();
cells.start();
document.body.addEventListener("htmx:load", ({ target, detail }) => adopt((detail.elt ?? target).parentElement ?? document));
