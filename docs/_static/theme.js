// Timelines within a page ask it, as they ask JupyterLab, whether it is light.
const dark = matchMedia("(prefers-color-scheme: dark)");
const tell = () => {
  const { theme } = document.body.dataset;
  document.body.dataset.jpThemeLight = theme === "light" || (theme !== "dark" && !dark.matches);
};
document.addEventListener("DOMContentLoaded", () => {
  new MutationObserver(tell).observe(document.body, { attributeFilter: ["data-theme"] });
  dark.addEventListener("change", tell);
  tell();
});
