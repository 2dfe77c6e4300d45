// One log: facts, timeline, findings and files, for the pages of an audit and of a diagnosis.
// Everything shown here is text of others: it is only ever put into text nodes and attributes
// that hold no code, never parsed as markup. A page's own script follows, and sets REST.

  const SEVERITIES = ["error", "warning", "note", "ok"];
  const FILE_ROWS = 50, LARGEST_TIME = 8.64e15;
  const names = (text) => Object.fromEntries(text.split(" ").map((name, i) => [name, i]));
  const ENV = names("name severity errors warnings notes files size entries damaged firstFile " +
    "lastFile firstCreated lastCreated firstVlsn lastVlsn checkpoints checkpoint txn versions codes");
  const BAR = names("first last files size entries damage low high created firstVlsn lastVlsn " +
    "checkpoints runs deltas name used state");
  const FOUND = names("code severity file offset length lsn resume expected found hint command place");

  const byId = (id) => document.getElementById(id);

  // Elements

  function element(tag, given = {}, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(given)) {
      if (name === "onclick") made.addEventListener("click", value);
      else if (value !== null && value !== false) made.setAttribute(name, value === true ? "" : value);
    }
    made.append(...children.filter((child) => child !== null));
    return made;
  }

  function drawn(tag, given = {}, ...children) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(given)) made.setAttribute(name, value);
    made.append(...children);
    return made;
  }

  const titled = (text) => {
    const title = drawn("title");
    title.textContent = text;
    return title;
  };

  const sign = (severity, given = { "aria-hidden": "true" }) =>
    drawn("svg", { class: `sign ${severity}`, viewBox: "0 0 16 16", ...given },
      drawn("use", { href: `#sign-${severity}` }));

  // Numbers as text

  const count = (number) => number === null ? "–"
    : String(number).replace(/\B(?=(\d{3})+$)/g, ",");
  const counted = (number, one, many = `${one}s`) => `${count(number)} ${number === 1 ? one : many}`;

  function bytes(size) {
    let value = size, unit = 0;
    const units = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"];
    while (value >= 1024 && unit < units.length - 1) { value /= 1024; unit += 1; }
    return unit ? `${value.toFixed(1)} ${units[unit]}` : counted(size, "byte");
  }

  function time(ms, parts = 19) {
    if (ms === null) return "–";
    if (Math.abs(Number(ms)) > LARGEST_TIME) return `${ms} ms`;
    const text = new Date(Number(ms)).toISOString();
    return /^\d{4}-/.test(text) ? text.slice(0, parts).replace("T", " ") : `${ms} ms`;
  }

  const file = (number) => number === null ? "?" : number.toString(16).padStart(8, "0");
  const range = (first, last) => first === null ? "–"
    : first === last ? count(first) : `${count(first)} – ${count(last)}`;
  const versionsOf = (row) => row[ENV.versions].join(", ") || "–";

  // One environment

  const waiting = [];  // drawings that need the width of their place

  function facts(row) {
    const list = element("dl", { class: "facts" });
    const fact = (title, text) => list.append(element("div", {}, element("dt", {}, title), element("dd", {}, text)));
    const last = row[ENV.lastFile] === row[ENV.firstFile] ? "" : ` to ${file(row[ENV.lastFile])}`;
    fact("Files", `${count(row[ENV.files])}: ${file(row[ENV.firstFile])}${last}`);
    fact("Size", `${bytes(row[ENV.size])}, ${counted(row[ENV.entries], "good entry", "good entries")}`);
    fact("Damaged", row[ENV.damaged] ? bytes(row[ENV.damaged]) : "nothing");
    const created = [...new Set([time(row[ENV.firstCreated]), time(row[ENV.lastCreated])])];
    fact("Created", created.join(" to "));
    fact("VLSNs", range(row[ENV.firstVlsn], row[ENV.lastVlsn]));
    if (row[ENV.checkpoints] !== null) {
      fact("Last transaction", time(row[ENV.txn]));
      fact("Checkpoints", `${count(row[ENV.checkpoints])}, the last ${time(row[ENV.checkpoint])}`);
    }
    fact("Log versions", versionsOf(row));
    return list;
  }

  function bars(title, all, value, text) {
    const most = Math.max(1, ...all.map(value));
    const list = element("ul", { class: "bars" }, ...all.map((one) => {
      const length = value(one) ? Math.max(0.8, 100 * value(one) / most) : 0;
      return element("li", {}, element("span", { class: "label", title: one[0] }, element("bdi", {}, one[0])),
        drawn("svg", { class: "bar", "aria-hidden": "true" },
          drawn("rect", { class: "ground", width: "100%", height: "100%", rx: 3 }),
          drawn("rect", { class: "fill", width: `${length}%`, height: "100%", rx: 3 })),
        element("span", { class: "value" }, text(one)));
    }));
    return element("div", {}, element("h3", {}, title), all.length ? list : element("p", { class: "empty" }, "None."));
  }

  function findings(row, more) {
    const total = row[ENV.codes].reduce((sum, one) => sum + one[2], 0);
    const shown = more.findings.map(finding);
    if (!total) return [element("p", { class: "empty" }, "None.")];
    const left = total - shown.length;
    if (left > 0) shown.push(element("p", { class: "soft" },
      `${count(shown.length)} of ${counted(total, "finding")} are shown, the worst first; the others are in `,
      element("code", {}, REST.findings), "."));
    return shown;
  }

  function finding(one) {
    const where = one[FOUND.lsn] !== null ? `at ${one[FOUND.lsn]}`
      : one[FOUND.file] !== null ? `in ${file(one[FOUND.file])}.jdb`
      : one[FOUND.place] !== null ? `in ${one[FOUND.place]}` : "";
    const length = one[FOUND.length] !== null ? `, ${counted(one[FOUND.length], "byte")}` : "";
    const list = element("dl");
    for (const [title, text] of [["expected", one[FOUND.expected]], ["found", one[FOUND.found]],
      ["goes on", one[FOUND.resume] && `at ${one[FOUND.resume]}`]]) {
      if (text) list.append(element("dt", {}, title), element("dd", {}, element("bdi", {}, text)));
    }
    return element("article", { class: `finding ${one[FOUND.severity]}` },
      element("h4", {}, sign(one[FOUND.severity]), `${one[FOUND.severity]}: ${one[FOUND.code]}`,
        element("span", { class: "where" }, element("bdi", {}, where), length)),
      list.children.length ? list : null,
      one[FOUND.hint] ? element("p", {}, element("bdi", {}, one[FOUND.hint])) : null,
      element("div", { class: "command" }, element("code", {}, one[FOUND.command]), copyButton(one[FOUND.command])));
  }

  function copyButton(text) {
    if (!navigator.clipboard) return null;
    const button = element("button", { type: "button", onclick: () => navigator.clipboard.writeText(text)
      .then(() => { button.textContent = "Copied"; }, () => { button.textContent = "Not allowed"; }) }, "Copy");
    return button;
  }

  const barNames = (bar) => bar[BAR.files] === 1 ? bar[BAR.name] || `${file(bar[BAR.first])}.jdb`
    : `${counted(bar[BAR.files], "file")} ${file(bar[BAR.first])} to ${file(bar[BAR.last])}`;
  const barVersions = (bar) => bar[BAR.high] === null ? "?"
    : bar[BAR.low] === bar[BAR.high] ? String(bar[BAR.high]) : `${bar[BAR.low]} to ${bar[BAR.high]}`;

  const usedText = (bar) => (bar[BAR.used] ?? null) === null ? "–"
    : `${(100 * bar[BAR.used] / Math.max(1, bar[BAR.size])).toFixed(0)} %`;

  function fileTable(row, more) {
    const isUsed = more.bars.some((bar) => (bar[BAR.state] ?? null) !== null);
    const last = isUsed ? ["In use", "State"] : ["VLSN runs", "Checkpoints"];
    const titles = ["File", "Version", "Created", "Size", "Good entries", "Damage", "VLSNs", ...last];
    const numbers = new Set([1, 3, 4, 5, 6, 7, ...(isUsed ? [] : [8])]);
    const body = element("tbody");
    const table = element("table", {}, element("thead", {}, element("tr", {}, ...titles.map((title, i) =>
      element("th", { scope: "col", class: numbers.has(i) ? "number" : null }, element("span", {}, title))))), body);
    const add = (stop) => {
      for (const bar of more.bars.slice(body.children.length, stop)) {
        const cells = [element("bdi", { class: "name", title: barNames(bar) }, barNames(bar)), barVersions(bar) + (bar[BAR.deltas] ? " (old BIN-deltas)" : ""),
          time(bar[BAR.created]), count(bar[BAR.size]), count(bar[BAR.entries]), bar[BAR.damage] ? count(bar[BAR.damage]) : "–",
          range(bar[BAR.firstVlsn], bar[BAR.lastVlsn]),
          ...(isUsed ? [usedText(bar), bar[BAR.state] ?? "–"] : [count(bar[BAR.runs]), count(bar[BAR.checkpoints])])];
        body.append(element("tr", { class: bar[BAR.damage] ? "hurt" : null },
          ...cells.map((cell, i) => element("td", { class: numbers.has(i) ? "number" : "mono" }, cell))));
      }
    };
    add(FILE_ROWS);
    const box = element("div", {}, element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Files" }, table));
    if (more.bars.length > FILE_ROWS) {
      const all = element("button", { type: "button", class: "rest", onclick: () => { add(Infinity); all.remove(); } },
        `Show all ${count(more.bars.length)} rows`);
      box.append(all);
    }
    if (more.bars.some((bar) => bar[BAR.files] > 1)) {
      box.append(element("p", { class: "soft" }, "Neighbouring files share a row; each has its own in ", element("code", {}, REST.files), "."));
    }
    if (!more.bars.length) return element("p", { class: "empty" }, row[ENV.files] ? `No room in this page: they are in ${REST.files}.` : "None.");
    return box;
  }

  // The timeline: files by number along the line, their bytes as bars, what happened below

  const LANES = { marks: 14, top: 30, base: 122, checkpoints: 137, vlsnTop: 152, vlsnBase: 188, axis: 204, axisWithout: 158, below: 24 };

  function timeline(row, more) {
    const box = element("div", { class: "timeline" });
    if (!more.bars.length) return element("p", { class: "empty" }, "No files to draw.");
    let width = 0;
    const draw = () => {
      const now = Math.max(280, Math.floor(box.clientWidth - 22));
      if (now === width) return;
      width = now;
      box.querySelector("svg.line")?.remove();
      box.prepend(timelineDrawing(row, more, width));
    };
    box.append(keys(row, more));
    waiting.push(() => { draw(); new ResizeObserver(draw).observe(box); });
    return box;
  }

  function timelineDrawing(row, more, width) {
    const all = more.bars, left = width < 560 ? 4 : 92, right = 8;
    const step = (width - left - right) / all.length;
    const thick = Math.max(0.8, step * (all.length === 1 ? 1 : step > 6 ? 0.82 : 0.94));
    const most = Math.max(1, ...all.map((bar) => bar[BAR.size]));
    const hasVlsns = row[ENV.firstVlsn] !== null, axis = hasVlsns ? LANES.axis : LANES.axisWithout;
    const place = { left, step, thick, most, axis, at: (i) => left + i * step + (step - thick) / 2 };
    const damage = more.findings.filter((one) => one[FOUND.severity] === "error").length;
    const svg = drawn("svg", { class: "line", viewBox: `0 0 ${width} ${axis + LANES.below}`, width, height: axis + LANES.below, role: "img",
      "aria-label": `Timeline of ${counted(row[ENV.files], "file")} from ${file(row[ENV.firstFile])} to ${file(row[ENV.lastFile])}, ` +
        `${bytes(row[ENV.size])}; ${counted(damage, "error")} marked. The findings and files below say the same.` });
    const hasCheckpoints = all.some((bar) => bar[BAR.checkpoints] !== null);
    if (left > 10) lanes(svg, most, hasVlsns, hasCheckpoints);
    const newest = row[ENV.versions].at(-1) ?? null;
    svg.append(drawn("line", { class: "base", x1: left, x2: left + all.length * step, y1: LANES.base, y2: LANES.base }));
    all.forEach((bar, i) => drawBar(svg, place, bar, i, newest));
    drawVlsns(svg, place, all);
    drawFindings(svg, place, all, more.findings);
    drawAxis(svg, place, all, width);
    return svg;
  }

  function lanes(svg, most, hasVlsns, hasCheckpoints) {
    const label = (y, text) => {
      const made = drawn("text", { x: 0, y });
      made.textContent = text;
      svg.append(made);
    };
    label(LANES.marks + 4, "findings");
    label(LANES.top + 8, bytes(most));
    label(LANES.base, "files");
    if (hasCheckpoints) label(LANES.checkpoints + 4, "checkpoints");
    if (hasVlsns) label((LANES.vlsnTop + LANES.vlsnBase) / 2 + 4, "VLSNs");
  }

  function drawBar(svg, place, bar, i, newest) {
    const height = Math.max(2, (LANES.base - LANES.top) * bar[BAR.size] / place.most);
    const kind = bar[BAR.high] === null ? "unknown" : newest !== null && bar[BAR.low] < newest ? "old" : "size";
    const used = (bar[BAR.used] ?? null) === null ? "" : `, ${usedText(bar)} in use`;
    const text = `${barNames(bar)}: ${count(bar[BAR.size])} bytes${used}, ${counted(bar[BAR.entries], "good entry", "good entries")}, ` +
      `version ${barVersions(bar)}, created ${time(bar[BAR.created])}` + (bar[BAR.damage] ? `, ${counted(bar[BAR.damage], "error")}` : "") +
      (bar[BAR.firstVlsn] === null ? "" : `, VLSN ${range(bar[BAR.firstVlsn], bar[BAR.lastVlsn])}`);
    const hurt = bar[BAR.damage] ? " hurt" : "";
    if (used) {
      const part = height * Math.min(1, bar[BAR.used] / Math.max(1, bar[BAR.size]));
      svg.append(drawn("rect", { class: `unused${hurt}`, x: place.at(i), y: LANES.base - height, width: place.thick, height }, titled(text)));
      svg.append(drawn("rect", { class: kind, x: place.at(i), y: LANES.base - part, width: place.thick, height: part }, titled(text)));
    } else {
      svg.append(drawn("rect", { class: kind + hurt, x: place.at(i), y: LANES.base - height, width: place.thick, height }, titled(text)));
    }
    if (bar[BAR.checkpoints]) {
      const x = place.at(i) + place.thick / 2, y = LANES.checkpoints, r = Math.max(1.5, Math.min(4, place.thick / 2));
      svg.append(drawn("path", { class: "checkpoint", d: `M${x} ${y - r}L${x + r} ${y}L${x} ${y + r}L${x - r} ${y}z` },
        titled(`${counted(bar[BAR.checkpoints], "checkpoint")} in ${barNames(bar)}`)));
    }
  }

  function drawVlsns(svg, place, all) {
    const spans = all.filter((bar) => bar[BAR.firstVlsn] !== null);
    if (!spans.length) return;
    const low = Math.min(...spans.map((bar) => Number(bar[BAR.firstVlsn])));
    const high = Math.max(...spans.map((bar) => Number(bar[BAR.lastVlsn])));
    const y = (vlsn) => LANES.vlsnBase - (LANES.vlsnBase - LANES.vlsnTop) * (Number(vlsn) - low) / Math.max(1, high - low);
    all.forEach((bar, i) => {
      if (bar[BAR.firstVlsn] === null) return;
      svg.append(drawn("line", { class: "vlsn", x1: place.at(i), x2: place.at(i) + place.thick,
        y1: y(bar[BAR.firstVlsn]), y2: y(bar[BAR.lastVlsn]) },
      titled(`${barNames(bar)}: VLSN ${range(bar[BAR.firstVlsn], bar[BAR.lastVlsn])}`)));
    });
  }

  function drawFindings(svg, place, all, every) {
    const taken = new Map();
    const mark = (x, one) =>
      taken.set(Math.round(x / 12), [x, one, (taken.get(Math.round(x / 12))?.[2] ?? 0) + 1]);
    for (const one of [...every].reverse()) {  // the worst are drawn last, on top
      if (one[FOUND.file] === null) continue;
      const i = all.findIndex((bar) => bar[BAR.first] <= one[FOUND.file] && one[FOUND.file] <= bar[BAR.last]);
      if (i < 0) {  // no such file: its place is between its neighbours
        const next = all.findIndex((bar) => bar[BAR.first] > one[FOUND.file]);
        const gap = place.left + (next < 0 ? all.length : next) * place.step;
        svg.append(drawn("line", { class: `place lacking ${one[FOUND.severity]}`, x1: gap, x2: gap, y1: LANES.marks + 8, y2: LANES.base }));
        mark(gap, one);
        continue;
      }
      const bar = all[i];
      const part = bar[BAR.files] > 1
        ? (one[FOUND.file] - bar[BAR.first]) / Math.max(1, bar[BAR.last] - bar[BAR.first])
        : Number(one[FOUND.offset] ?? 0) / Math.max(1, bar[BAR.size]);
      const x = place.at(i) + place.thick * Math.min(1, Math.max(0, part));
      if (one[FOUND.offset] !== null) {
        svg.append(drawn("line", { class: `place ${one[FOUND.severity]}`, x1: x, x2: x, y1: LANES.marks + 8, y2: LANES.base }));
      }
      mark(x, one);
    }
    for (const [x, one, times] of taken.values()) {
      const more = times > 1 ? ` and ${counted(times - 1, "other")} here` : "";
      const made = sign(one[FOUND.severity], { x: x - 7, y: LANES.marks - 8, width: 14, height: 14 });
      made.append(titled(`${one[FOUND.severity]}: ${one[FOUND.code]} at ${one[FOUND.lsn] ?? file(one[FOUND.file])}${more}`));
      svg.append(made);
    }
  }

  function drawAxis(svg, place, all, width) {
    const least = 110;  // pixels between two labels
    let free = -Infinity;
    all.forEach((bar, i) => {
      const x = place.left + i * place.step;
      const before = all[i - 1];
      if (before && bar[BAR.first] > before[BAR.last] + 1) {
        svg.append(drawn("line", { class: "hole", x1: x, x2: x, y1: LANES.top - 4, y2: place.axis - 10 },
          titled(`no files ${file(before[BAR.last] + 1)} to ${file(bar[BAR.first] - 1)}`)));
      }
      if (x < free || x + 70 > width) return;
      free = x + least;
      [[file(bar[BAR.first]), place.axis], [time(bar[BAR.created], 10), place.axis + 15]].forEach(([text, y]) => {
        const made = drawn("text", { x, y });
        made.textContent = text;
        svg.append(made);
      });
    });
  }

  function keys(row, more) {
    const key = (shape, text) => element("li", {}, drawn("svg", { viewBox: "0 0 16 12", "aria-hidden": "true" }, shape), text);
    const list = element("ul", { class: "keys" });
    if (more.bars.some((bar) => (bar[BAR.used] ?? null) !== null)) {
      list.append(key(drawn("rect", { class: "size", width: 12, height: 12 }), "bytes in use"));
      list.append(key(drawn("rect", { class: "unused", width: 12, height: 12 }), "obsolete bytes"));
    } else {
      list.append(key(drawn("rect", { class: "size", width: 12, height: 12 }), "bytes of a file"));
    }
    if (row[ENV.versions].length > 1) list.append(key(drawn("rect", { class: "old", width: 12, height: 12 }), "older log version"));
    if (more.bars.some((bar) => bar[BAR.high] === null)) list.append(key(drawn("rect", { class: "unknown", x: 1, y: 1, width: 11, height: 10 }), "header not readable"));
    if (more.findings.some((one) => one[FOUND.offset] !== null)) list.append(key(drawn("line", { class: "place", x1: 6, x2: 6, y1: 0, y2: 12 }), "place of a finding"));
    if (more.bars.some((bar) => bar[BAR.checkpoints])) list.append(key(drawn("path", { class: "checkpoint", d: "M6 2l4 4-4 4-4-4z" }), "checkpoint"));
    if (row[ENV.firstVlsn] !== null) list.append(key(drawn("line", { class: "vlsn", x1: 1, x2: 12, y1: 10, y2: 2 }), "VLSNs, lowest to highest"));
    if (more.bars.some((bar, i) => i && bar[BAR.first] > more.bars[i - 1][BAR.last] + 1)) {
      list.append(key(drawn("line", { class: "hole", x1: 6, x2: 6, y1: 0, y2: 12 }), "numbers without a file"));
    }
    return list;
  }

  // Light and dark

  const THEMES = { "": "automatic", light: "light", dark: "dark" };

  function applyTheme(theme) {
    if (theme) document.documentElement.dataset.theme = theme;
    else delete document.documentElement.dataset.theme;
    byId("theme").textContent = `Theme: ${THEMES[theme]}`;
  }

  function nextTheme(theme) {
    const order = Object.keys(THEMES);
    return order[(order.indexOf(theme) + 1) % order.length];
  }
