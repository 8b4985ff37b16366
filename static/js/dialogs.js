// Native dialogs: `data-opens="id"` opens, `data-closes` closes, a click beside the dialog closes too.
// An opened one is told so by `dialog:open`: its `[data-fields]` may come only then, and nothing is sent before.
// A closed one asks for them no longer: what is still on its way is not what the next opening shows.
// While a dialog is open, the part of the page that it stands in is not replaced under the person's hands.
import { gettext } from "slipway/texts";

import * as faults from "slipway/faults";

export function start() {
  document.addEventListener("click", (event) => {
    const opener = event.target.closest("[data-opens]");
    if (opener) {
      const dialog = document.getElementById(opener.dataset.opens);
      opener.closest("details.menu")?.removeAttribute("open");
      if (dialog && !dialog.open) {
        dialog.showModal();
        expectFields(dialog);
        dialog.dispatchEvent(new CustomEvent("dialog:open"));
      }
      return;
    }
    if (event.target.closest("[data-closes]")) {
      event.target.closest("dialog")?.close();
      return;
    }
    if (event.target instanceof HTMLDialogElement && event.target.open) {
      const box = event.target.getBoundingClientRect();
      const inside =
        event.clientX >= box.left && event.clientX <= box.right && event.clientY >= box.top && event.clientY <= box.bottom;
      const byKeyboard = event.clientX === 0 && event.clientY === 0;
      if (!inside && !byKeyboard) event.target.close();
    }
  });
  document.addEventListener("htmx:beforeRequest", ({ target }) => {
    if (target.matches("[data-fields]")) target.setAttribute("aria-busy", "true");
  });
  document.addEventListener("htmx:afterSwap", ({ target }) => {
    if (target.matches("dialog[open] [data-fields]")) fieldsHaveCome(target);
  });
  // However it ends: they have come, they are refused, or nobody waits for them any more.
  document.addEventListener("htmx:afterRequest", ({ target }) => {
    if (target.matches("[data-fields]")) target.removeAttribute("aria-busy");
  });
  // `close` does not bubble.
  document.addEventListener(
    "close",
    (event) => {
      if (!(event.target instanceof HTMLDialogElement)) return;
      if (!event.target.open) expectNoFields(event.target);
      event.target.querySelector("[data-problem]")?.replaceChildren();
      faults.clear(event.target);
      if (waiting.delete(event.target.id)) {
        document.body.dispatchEvent(new CustomEvent("live:refresh", { bubbles: true }));
      }
    },
    true,
  );
}

function expectFields(dialog) {
  const fields = dialog.querySelector("[data-fields]");
  if (!fields) return;
  fields.replaceChildren();
  dialog.querySelector("[type=submit]").disabled = true;
}

function expectNoFields(dialog) {
  const fields = dialog.querySelector("[data-fields]");
  fields?.dispatchEvent(new CustomEvent("htmx:abort", { bubbles: true, detail: { elt: fields } }));
}

function fieldsHaveCome(fields) {
  fields.closest("dialog").querySelector("[type=submit]").disabled = false;
  // They stand above those that were there, so one begins with them; unless somebody has begun already.
  if (!document.activeElement?.value) fields.querySelector("input:not([type=hidden]), select, textarea")?.focus();
}

// What a person does about a request that failed, where it was for the fields of a dialog.
export function advice(element) {
  return element?.matches("[data-fields]") ? gettext("Close this and open it again.") : "";
}

const waiting = new Set();

// True when `target` must stay as it is: it holds an open dialog, which asks for the refresh when it closes.
export function holds(target) {
  const dialog = target.querySelector?.("dialog[open]");
  if (!dialog) return false;
  waiting.add(dialog.id);
  return true;
}
