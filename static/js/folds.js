// A fold that a person opened, `<details id="…">`, stays open when news replace its part of the page.
const opened = new Set(); // ids

export function adopt(root) {
  for (const fold of root.querySelectorAll("details[id]")) if (opened.has(fold.id)) fold.open = true;
}

export function start() {
  // Keys click, too. It is still as it was: the click is about to turn it.
  document.addEventListener("click", ({ target }) => {
    const fold = target.closest("summary")?.parentElement;
    if (fold?.id) opened[fold.open ? "delete" : "add"](fold.id);
  });
}
