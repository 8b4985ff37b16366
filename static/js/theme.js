// Runs before the first paint, so that the page never flashes in the other theme. Not a module: modules wait.
(() => {
  const root = document.documentElement;
  const system = window.matchMedia("(prefers-color-scheme: dark)");

  const chosen = () => {
    try {
      const choice = localStorage.getItem("slipway.theme");
      return choice === "light" || choice === "dark" ? choice : "auto";
    } catch {
      return "auto"; // Storage is blocked: follow the system.
    }
  };
  const apply = (choice = chosen()) => {
    root.dataset.theme = choice;
    root.dataset.bsTheme = choice === "auto" ? (system.matches ? "dark" : "light") : choice;
  };

  apply();
  system.addEventListener("change", () => apply());
  window.addEventListener("storage", (event) => event.key === "slipway.theme" && apply());
  window.addEventListener("slipway:theme", (event) => {
    try {
      if (event.detail === "auto") localStorage.removeItem("slipway.theme");
      else localStorage.setItem("slipway.theme", event.detail);
    } catch {
      // Not remembered, but shown.
    }
    apply(event.detail);
  });
})();
