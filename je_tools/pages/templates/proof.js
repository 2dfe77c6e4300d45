// The page of a proof of erasure: only the choice of a theme. It follows log.js.

  const REST = {};
  let theme = "";

  byId("theme").addEventListener("click", () => {
    theme = nextTheme(theme);
    applyTheme(theme);
  });
  byId("theme").hidden = false;
  applyTheme(theme);
