// Keyboard shortcuts. Silent while one types, while a dialog is open, and with Ctrl, Alt or Meta held
// (but for Ctrl+Enter and Ctrl+K).
const CHORD_MS = 1200;

function isTyping(element) {
  return (
    element instanceof HTMLElement &&
    (element.isContentEditable || element.matches("input:not([type=radio]):not([type=checkbox]), textarea, select"))
  );
}

function moveRow(step) {
  const links = [...document.querySelectorAll("main .row-link")];
  if (!links.length) return false;
  const at = links.indexOf(document.activeElement);
  const next = at === -1 ? (step > 0 ? 0 : links.length - 1) : Math.min(links.length - 1, Math.max(0, at + step));
  links[next].focus();
  links[next].scrollIntoView({ block: "nearest" });
  return true;
}

// Ctrl+Enter (on a Mac Cmd+Enter) sends the form that one types in, as its main button would.
function submits(event) {
  if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey) || event.isComposing || !isTyping(event.target)) return false;
  const form = event.target.form;
  const button = form?.querySelector("[type=submit].btn-primary, [type=submit].btn-danger") ?? form?.querySelector("[type=submit]");
  if (!form || form.method !== "post" || !button || button.disabled) return false;
  form.requestSubmit(button);
  return true;
}

function focusSearch(event) {
  const box = document.querySelector("[data-find] input");
  if (!box) return;
  event.preventDefault();
  box.focus();
  box.select();
}

// The buttons of this page that have a key: `data-shortcut="a"`.
function pressed(key) {
  const button = document.querySelector(`[data-shortcut="${CSS.escape(key)}"]:not(:disabled)`);
  button?.click();
  return Boolean(button);
}

function tellKeysOfThePage() {
  const list = document.querySelector("#keys [data-page-keys]");
  const entries = [...document.querySelectorAll("main [data-shortcut]")].map((button) => {
    const entry = document.createElement("div");
    const what = document.createElement("dt");
    const key = document.createElement("dd");
    what.textContent = button.textContent.trim();
    key.append(Object.assign(document.createElement("kbd"), { textContent: button.dataset.shortcut }));
    entry.append(what, key);
    return entry;
  });
  list?.replaceChildren(...entries);
}

export function start() {
  let chordUntil = 0;
  // Opened from the menu, too.
  document.getElementById("keys")?.addEventListener("dialog:open", tellKeysOfThePage);
  document.addEventListener("keydown", (event) => {
    if (submits(event)) return event.preventDefault();
    if (event.key.toLowerCase() === "k" && (event.ctrlKey || event.metaKey) && !document.querySelector("dialog[open]")) return focusSearch(event);
    if (event.defaultPrevented || event.ctrlKey || event.altKey || event.metaKey || event.isComposing) return;
    if (event.key === "Escape") {
      for (const menu of document.querySelectorAll("details.menu[open]")) {
        menu.removeAttribute("open");
        menu.querySelector("summary")?.focus();
      }
      // Out of a field, to where the shortcuts are heard.
      if (isTyping(event.target) && !document.querySelector("dialog[open]")) event.target.blur();
      return;
    }
    if (isTyping(event.target) || document.querySelector("dialog[open]")) return;
    const inChord = performance.now() < chordUntil;
    chordUntil = 0;
    if (inChord) {
      const place = document.querySelector(`.place[data-key="${CSS.escape(event.key.toLowerCase())}"]`);
      if (place) {
        event.preventDefault();
        place.click();
      }
      return;
    }
    if (event.key === "g") chordUntil = performance.now() + CHORD_MS;
    else if (event.key === "/") focusSearch(event);
    else if (event.key === "?") {
      event.preventDefault();
      tellKeysOfThePage();
      document.getElementById("keys")?.showModal();
    } else if (pressed(event.key)) event.preventDefault();
    else if ((event.key === "j" && moveRow(1)) || (event.key === "k" && moveRow(-1))) event.preventDefault();
  });
}
