// What is wrong with the fields of a form that stays open, each at its field: `{"plan": ["Choose one."]}`.

// Shows them, with the focus on the first; returns whether every one has found its field.
export function place(form, faults) {
  clear(form);
  let first = null;
  let areAllPlaced = true;
  for (const [name, sentences] of Object.entries(faults)) {
    const control = form.querySelector(`[name="${CSS.escape(name)}"]:not([type=hidden])`);
    if (!control) {
      areAllPlaced = false;
      continue;
    }
    const words = document.createElement("span");
    words.className = "field-error";
    words.id = `fault-${control.id || name}`;
    words.dataset.fault = "";
    words.textContent = sentences.join(" ");
    (control.closest(".field") ?? control.parentElement).append(words);
    control.setAttribute("aria-invalid", "true");
    control.setAttribute("aria-errormessage", words.id);
    first ??= control;
  }
  first?.focus();
  return areAllPlaced;
}

export function clear(form) {
  for (const words of form.querySelectorAll("[data-fault]")) words.remove();
  for (const control of form.querySelectorAll("[aria-errormessage]")) {
    control.removeAttribute("aria-invalid");
    control.removeAttribute("aria-errormessage");
  }
}
