// The page of one environment: the log, its findings and files. It follows log.js.

  const REST = { findings: "je-tools doctor --format jsonl", files: "je-tools files" };
  let theme = "";

  function showLog() {
    const row = JSON.parse(byId("data-row").textContent);
    const more = JSON.parse(byId("data-more").textContent);
    byId("log").append(facts(row), timeline(row, more));
    byId("findings").append(...findings(row, more));
    byId("files").append(fileTable(row, more));
    for (const draw of waiting.splice(0)) draw();
  }

  for (const command of document.querySelectorAll(".steps .command")) {
    const button = copyButton(command.textContent);
    if (button) command.append(button);
  }
  byId("theme").addEventListener("click", () => {
    theme = nextTheme(theme);
    applyTheme(theme);
  });
  byId("theme").hidden = false;
  applyTheme(theme);
  if (byId("log")) showLog();
