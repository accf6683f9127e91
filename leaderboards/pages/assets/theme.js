// In the head and not deferred, so that the first paint has the reader's colours.
(() => {
  "use strict";
  const root = document.documentElement;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  root.classList.add("js");
  let chosen = null;
  try { chosen = localStorage.getItem("ftw-theme"); } catch { /* storage is off: as the system */ }
  if (chosen === "dark" || chosen === "light") root.dataset.theme = chosen;

  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : dark.matches);

  addEventListener("DOMContentLoaded", () => {
    const button = document.querySelector(".theme");
    const tell = () => {
      button.setAttribute("aria-pressed", String(isDark()));
      dispatchEvent(new Event("themechange"));
    };
    button.addEventListener("click", () => {
      root.dataset.theme = isDark() ? "light" : "dark";
      try { localStorage.setItem("ftw-theme", root.dataset.theme); } catch { /* for this page */ }
      tell();
    });
    dark.addEventListener("change", tell);
    tell();
  });
})();
