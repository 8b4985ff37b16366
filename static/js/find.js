// The search box as a combobox: arrows move through what was found, Enter opens it, Escape leaves.
export function start() {
  const form = document.querySelector("[data-find]");
  if (!form) return;
  const box = form.querySelector("input");
  const panel = form.querySelector(".found-panel");
  const hits = () => [...panel.querySelectorAll("[role=option]")];
  let shut = true;

  const show = () => {
    const open = !shut && box.value.trim() !== "" && panel.querySelector(".found")?.childElementCount > 0;
    box.setAttribute("aria-expanded", String(open));
    panel.classList.toggle("is-open", open);
    if (!open) choose(null);
  };
  const choose = (hit) => {
    for (const other of hits()) other.setAttribute("aria-selected", String(other === hit));
    if (hit) {
      box.setAttribute("aria-activedescendant", hit.id);
      hit.scrollIntoView({ block: "nearest" });
    } else box.removeAttribute("aria-activedescendant");
  };
  const chosen = () => panel.querySelector("[aria-selected=true]");

  box.addEventListener("input", () => { shut = false; show(); });
  box.addEventListener("focus", () => { shut = false; show(); });
  form.addEventListener("focusout", (event) => {
    if (!form.contains(event.relatedTarget)) { shut = true; show(); }
  });
  panel.addEventListener("mousedown", (event) => event.preventDefault()); // keep the focus in the box
  document.body.addEventListener("htmx:afterSwap", () => show());
  box.addEventListener("keydown", (event) => {
    const all = hits();
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      if (!all.length) return;
      event.preventDefault();
      shut = false;
      show();
      const at = all.indexOf(chosen());
      const step = event.key === "ArrowDown" ? 1 : -1;
      choose(all[at === -1 ? (step > 0 ? 0 : all.length - 1) : (at + step + all.length) % all.length]);
    } else if (event.key === "Enter" && chosen()) {
      event.preventDefault();
      chosen().click();
    } else if (event.key === "Escape") {
      event.preventDefault();
      if (box.value && !shut) { shut = true; show(); } else { box.value = ""; box.blur(); }
    }
  });
}
