// The audit's page: a table of environments, each opened on demand. It follows log.js.

  const PAGE_ROWS = 50;
  const REST = { findings: "the table findings", files: "the table files" };
  // What is at stake follows the fields of a log.
  const STAKE = Object.fromEntries(("outcome verdict lostCommits lostKeys missingKeys lostRecords fill used " +
    "commit commitVlsn node kind").split(" ").map((name, i) => [name, Object.keys(ENV).length + i]));
  const OPENS = { "no-log": "no log", unsafe: "unsafe", refuses: "refuses", fails: "fails",
    "does not start": "does not start", stops: "stops", loses: "loses", "starts with losses": "loses",
    unclear: "unclear", locked: "locked", opens: "yes", starts: "yes" };
  const isStore = (row) => row[STAKE.kind] === "ignite";
  const rows = JSON.parse(byId("data-environments").textContent);
  const details = byId("data-details").textContent.trim().split("\n");
  const searched = rows.map((row) =>
    [row[ENV.name], row[STAKE.kind], ...row[ENV.codes].map((found) => found[0])].join("\n").toLowerCase());

  const natural = new Intl.Collator("en", { numeric: true });

  // The view: what the address says behind its #

  const COLUMNS = [
    { id: "worst", title: "Severity", by: null },
    { id: "name", title: "Environment", by: (row) => row[ENV.name] },
    { id: "opens", title: "Opens", by: (row) => row[STAKE.outcome] === null ? null
      : Object.keys(OPENS).indexOf(row[STAKE.outcome]) },
    { id: "lost", title: "Lost", number: true,
      by: (row) => isStore(row) ? row[STAKE.lostRecords]
        : row[STAKE.lostCommits] === null ? null
        : Number(row[STAKE.lostCommits]) * 1e6 + lostKeys(row) },
    { id: "findings", title: "Findings", number: true,
      by: (row) => row[ENV.errors] * 1e12 + row[ENV.warnings] * 1e6 + row[ENV.notes] },
    { id: "files", title: "Files", number: true, by: (row) => row[ENV.files] },
    { id: "size", title: "Size", number: true, by: (row) => row[ENV.size] },
    { id: "version", title: "Log version", number: true, by: (row) => row[ENV.versions].at(-1) },
    { id: "vlsn", title: "Last VLSN", number: true, by: (row) => row[ENV.lastVlsn] },
    { id: "fill", title: "In use", number: true, by: (row) => row[STAKE.fill] },
    { id: "age", title: "Last Commit", by: (row) => row[STAKE.commit] },
    { id: "time", title: "Last checkpoint", by: (row) => row[ENV.checkpoint] },
  ];
  const lostKeys = (row) => Number(row[STAKE.lostKeys] ?? 0) + Number(row[STAKE.missingKeys] ?? 0);
  const view = { q: "", severity: new Set(), code: "", sort: "worst", descending: false, page: 1,
    open: new Set(), theme: "" };

  function readView() {
    const given = new URLSearchParams(location.hash.slice(1));
    view.q = given.get("q") ?? "";
    view.code = given.get("code") ?? "";
    view.severity = new Set((given.get("severity") ?? "").split(",")
      .filter((name) => SEVERITIES.includes(name)));
    view.sort = COLUMNS.find((column) => column.id === given.get("sort"))?.id ?? "worst";
    const isNumber = COLUMNS.find((column) => column.id === view.sort).number ?? false;
    view.descending = given.has("dir") ? given.get("dir") === "desc" : isNumber;
    view.page = Math.max(1, Number.parseInt(given.get("page"), 10) || 1);
    view.open = new Set(given.getAll("open"));
    view.theme = ["light", "dark"].includes(given.get("theme")) ? given.get("theme") : view.theme;
  }

  function viewHash() {
    const given = new URLSearchParams();
    if (view.q) given.set("q", view.q);
    if (view.severity.size) given.set("severity", [...view.severity].join(","));
    if (view.code) given.set("code", view.code);
    const isNumber = COLUMNS.find((column) => column.id === view.sort).number ?? false;
    if (view.sort !== "worst" || view.descending) given.set("sort", view.sort);
    if (view.descending !== isNumber) given.set("dir", view.descending ? "desc" : "asc");
    if (view.page > 1) given.set("page", view.page);
    for (const name of view.open) given.append("open", name);
    return given.toString();
  }

  function keepView() {
    // Not every browser lets a page from a file change its address.
    try { history.replaceState(null, "", `#${viewHash()}`); } catch { /* it stays as it is */ }
  }

  function found() {
    const words = view.q.toLowerCase().split(/\s+/).filter(Boolean);
    const kept = [];
    rows.forEach((row, i) => {
      if (view.severity.size && !view.severity.has(SEVERITIES[row[ENV.severity]])) return;
      if (view.code && !row[ENV.codes].some((one) => one[0] === view.code)) return;
      if (words.every((word) => searched[i].includes(word))) kept.push(i);
    });
    const column = COLUMNS.find((one) => one.id === view.sort);
    const way = view.descending ? -1 : 1;
    if (!column.by) return view.descending ? kept.reverse() : kept;
    const keys = new Map(kept.map((i) => [i, column.by(rows[i]) ?? null]));
    const compare = column.id === "name" ? natural.compare : (a, b) => Number(a) - Number(b);
    return kept.sort((i, j) => {
      const a = keys.get(i), b = keys.get(j);
      // Those without a value are last both ways.
      if (a === null || b === null) return (a === null) - (b === null) || i - j;
      return way * compare(a, b) || i - j;
    });
  }

  // The table

  function show() {
    const kept = found();
    const last = Math.max(1, Math.ceil(kept.length / PAGE_ROWS));
    view.page = Math.min(view.page, last);
    const start = (view.page - 1) * PAGE_ROWS;
    const shown = kept.slice(start, start + PAGE_ROWS);
    byId("q").value = view.q;
    for (const box of byId("severities").querySelectorAll("input")) box.checked = view.severity.has(box.value);
    const code = view.code ? ` with ${view.code}` : "";
    const which = kept.length > PAGE_ROWS ? `; rows ${start + 1} to ${start + shown.length}` : "";
    byId("status").textContent =
      `${count(kept.length)} of ${counted(rows.length, "environment")}${code}${which}`;
    byId("clear").hidden = !(view.q || view.severity.size || view.code);
    byId("table").tHead.replaceChildren(headRow());
    byId("table").tBodies[0].replaceChildren(...shown.flatMap(tableRows));
    byId("pages").replaceChildren(...pageButtons(last));
    for (const draw of waiting.splice(0)) draw();
  }

  const headRow = () => element("tr", {}, ...COLUMNS.map((column) => {
    const isSorted = view.sort === column.id;
    const arrow = isSorted ? (view.descending ? " ↓" : " ↑") : "";
    return element("th", { scope: "col", class: column.number ? "number" : null,
      "aria-sort": isSorted ? (view.descending ? "descending" : "ascending") : null },
      element("button", { type: "button", "data-sort": column.id, onclick: () => sortBy(column) },
        column.title + arrow));
  }));

  function sortBy(column) {
    view.descending = view.sort === column.id ? !view.descending : Boolean(column.number);
    view.sort = column.id;
    view.page = 1;
    changed();
    document.querySelector(`[data-sort="${column.id}"]`).focus();
  }

  function tableRows(i) {
    const row = rows[i], severity = SEVERITIES[row[ENV.severity]];
    const isOpen = view.open.has(row[ENV.name]);
    const name = element("button", { type: "button", class: "open", "aria-expanded": String(isOpen),
      title: row[ENV.name], onclick: () => toggle(i) }, element("bdi", { class: "name" }, row[ENV.name]));
    const codes = row[ENV.codes].slice(0, 4).map((one) => `${one[0]} × ${count(one[2])}`).join(", ");
    const more = row[ENV.codes].length > 4 ? `, ${row[ENV.codes].length - 4} more codes` : "";
    const cells = [
      element("td", { class: "wide severity" }, sign(severity), severity),
      element("td", { class: "wide" }, name, isStore(row) ? element("span", { class: "kind" }, "Ignite") : null, codes ? element("div", { class: "codes" }, codes + more) : null),
      labelled("opens", OPENS[row[STAKE.outcome]] ?? "–", null, row[STAKE.verdict]),
      labelled("lost", lostText(row), "number lost"),
      labelled("findings", count(row[ENV.errors] + row[ENV.warnings] + row[ENV.notes]), "number"),
      labelled("files", count(row[ENV.files]), "number"),
      labelled("size", bytes(row[ENV.size]), "number", `${count(row[ENV.size])} bytes`),
      labelled("version", versionsOf(row), "number"),
      labelled("last VLSN", count(row[ENV.lastVlsn]), "number"),
      labelled("in use", row[STAKE.fill] === null ? "–" : `${row[STAKE.fill]} %`, "number",
        row[STAKE.used] === null ? null : `${count(row[STAKE.used])} bytes`),
      labelled("last Commit", time(row[STAKE.commit]), "time"),
      labelled("last checkpoint", time(row[ENV.checkpoint]), "time"),
    ];
    const made = [element("tr", { "data-env": row[ENV.name] }, ...cells)];
    if (isOpen) made.push(detailsRow(i));
    return made;
  }

  function lostText(row) {
    if (isStore(row)) {
      // A start can lose pages and partitions too, which are not counted in records.
      if (Number(row[STAKE.lostRecords])) return counted(row[STAKE.lostRecords], "record");
      return row[STAKE.outcome] === "starts" ? "0" : "–";
    }
    if (row[STAKE.lostCommits] === null) return lostKeys(row) ? counted(lostKeys(row), "key") : "–";
    if (!Number(row[STAKE.lostCommits]) && !lostKeys(row)) return "0";
    return `${counted(row[STAKE.lostCommits], "Commit")}, ${counted(lostKeys(row), "key")}`;
  }

  const labelled = (label, text, kind, title = null) =>
    element("td", { class: kind, "data-label": label, title }, text);

  function toggle(i) {
    const name = rows[i][ENV.name];
    if (!view.open.delete(name)) view.open.add(name);
    const at = [...byId("table").tBodies[0].children].findIndex((one) => one.dataset.env === name);
    changed();
    byId("table").tBodies[0].children[at].querySelector("button.open").focus();
  }

  function pageButtons(last) {
    if (last === 1) return [];
    const button = (text, page) => element("button", { type: "button", disabled: page < 1 || page > last,
      onclick: () => { view.page = page; changed(); byId("environments").scrollIntoView(); } }, text);
    return [button("Previous", view.page - 1), `Page ${view.page} of ${last}`, button("Next", view.page + 1)];
  }

  // One environment, built when it is opened

  function detailsRow(i) {
    const row = rows[i], more = JSON.parse(details[i]);
    const cell = element("div", { class: "inside" });
    cell.append(...stakes(row));
    if (isStore(row)) {
      cell.append(storeFacts(row), element("h3", {}, "Findings"), ...findings(row, more));
    } else {
      cell.append(facts(row), element("h3", {}, "The log"), timeline(row, more));
      cell.append(element("h3", {}, "Findings"), ...findings(row, more));
      const two = element("div", { class: "two" });
      two.append(bars("Bytes by entry type", more.types, (one) => one[2], (one) => `${bytes(one[2])}, ${counted(one[1], "entry", "entries")}`));
      two.append(bars("Transactions", more.outcomes, (one) => one[1], (one) => `${count(one[1])}, ${bytes(one[2])}`));
      cell.append(two, element("h3", {}, "Files"), fileTable(row, more));
    }
    return element("tr", { class: "details" }, element("td", { colspan: COLUMNS.length }, cell));
  }

  const storeFacts = (row) => element("dl", { class: "facts" }, ...[
    ["Kind", "store of Apache Ignite"],
    ["Files", count(row[ENV.files])],
    ["Size", `${bytes(row[ENV.size])}, ${counted(row[ENV.entries], "good record")}`],
    ["Damaged", row[ENV.damaged] ? bytes(row[ENV.damaged]) : "nothing"],
    ["Checkpoints", `${count(row[ENV.checkpoints])}, the last ${time(row[ENV.checkpoint])}`],
  ].map(([title, text]) => element("div", {}, element("dt", {}, title), element("dd", {}, text))));

  function stakes(row) {
    if (row[STAKE.verdict] === null) return [];
    const texts = [row[STAKE.verdict], row[STAKE.node]].filter(Boolean);
    return [element("h3", {}, "What would be lost"),
      ...texts.map((text) => element("p", { class: "stake" }, element("bdi", {}, text)))];
  }

  // What people do

  function changed() { show(); keepView(); }

  byId("theme").addEventListener("click", () => {
    view.theme = nextTheme(view.theme);
    applyTheme(view.theme);
  });
  byId("q").addEventListener("input", () => { view.q = byId("q").value; view.page = 1; changed(); });
  byId("severities").addEventListener("change", (event) => {
    if (event.target.checked) view.severity.add(event.target.value);
    else view.severity.delete(event.target.value);
    view.page = 1;
    changed();
  });
  byId("filter").addEventListener("submit", (event) => event.preventDefault());
  byId("filter").addEventListener("reset", (event) => {
    event.preventDefault();
    Object.assign(view, { q: "", code: "", page: 1 });
    view.severity.clear();
    changed();
    byId("q").focus();
  });
  addEventListener("hashchange", () => {
    if (location.hash === "#environments") return;
    readView();
    applyTheme(view.theme);
    show();
    byId("environments").scrollIntoView();
  });

  byId("view").hidden = false;
  byId("theme").hidden = false;
  readView();
  applyTheme(view.theme);
  show();
