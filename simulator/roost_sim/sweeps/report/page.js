// Puts the page together from the document in the script element "data".

const DATA = JSON.parse(document.getElementById("data").textContent);
const MANY = 8; // lines that a chart shows at first
const INDEX = new Map(DATA.policies.map((policy, index) => [policy.name, index]));
const REGIMES = {
  oracle: "is told the true run time of every job",
  predicted: "is told predictions of run times",
  limit: "knows the time limits that users ask for",
  none: "knows nothing of run times",
};
// isPlain: a count that is neither good nor bad, and is left off where it is 0 everywhere.
const COLUMNS = [
  { key: "avg_jct_s", head: "Avg JCT", text: asTime, isTime: true, hasRange: true },
  { key: "times_bound", head: "× limit", text: asFactor },
  { key: "p95_jct_s", head: "p95", text: asTime, isTime: true },
  { key: "p99_jct_s", head: "p99", text: asTime, isTime: true },
  { key: "avg_queue_s", head: "Queue", text: asTime, isTime: true },
  { key: "longest_queue_s", head: "Longest queue", text: asTime, isTime: true },
  { key: "worst_user_slowdown", head: "Worst user", text: asFactor },
  { key: "makespan_s", head: "Makespan", text: asTime, isTime: true },
  { key: "occupancy", head: "Occupancy", text: asPercent, isPlain: true }, // who waits for the network is busy too
  { key: "comm_share", head: "Comm.", text: asPercent },
  { key: "preemptions", head: "Preempt.", text: asCount, isPlain: true },
];
const MORE_COLUMNS = [
  { key: "median_jct_s", head: "Median JCT", text: asTime, isTime: true },
  { key: "avg_comm_s", head: "Comm. time", text: asTime, isTime: true },
  { key: "occupancy_loss", head: "Lost", text: asPercent },
  { key: "fairness_mean", head: "Fairness", text: asFactor },
  { key: "fairness_max", head: "Worst job", text: asFactor },
  { key: "fairness_jain", head: "Jain", text: asFactor, isMoreBetter: true },
  { key: "user_jain", head: "Users' Jain", text: asFactor, isMoreBetter: true },
  { key: "completed", head: "Completed", text: asCount, isPlain: true },
  { key: "decisions", head: "Decisions", text: asCount, isPlain: true },
  { key: "decision_p50_ms", head: "Decide p50", text: asMilliseconds },
  { key: "decision_p99_ms", head: "Decide p99", text: asMilliseconds },
];
const charts = [];
const strips = [];

const loadText = (load) => (load === null ? "load of the trace" : `load ${load}`);
const meanOf = (line, key) => line.metrics[key]?.[0] ?? null;
const quantileOf = (line, frac) => line.jct_s[Math.min(line.jct_s.length - 1, Math.floor(frac * line.jct_s.length))];

/** The baseline, then from the lowest average completion time to the highest. */
function ranked(panel) {
  const rank = (line) => (line.policy === DATA.baseline ? -1 : meanOf(line, "avg_jct_s") ?? Infinity);
  return [...panel.policies].sort((a, b) => rank(a) - rank(b)).map((line) => line.policy);
}

// Colours by rank: the lines that are drawn at first differ in more than their dashes.
const HUE = new Map([...new Set([...ranked(DATA.loads[0]), ...INDEX.keys()])].map((name, index) => [name, index]));

/** Those that completed most jobs: who leaves jobs out is not the best of anything. */
function complete(panel) {
  const most = Math.max(...panel.policies.map((line) => meanOf(line, "completed") ?? 0));
  return panel.policies.filter((line) => (meanOf(line, "completed") ?? 0) === most);
}

function card(title, note, ...children) {
  return make("div", { class: "card" }, make("h2", {}, title), note ? make("p", { class: "sub" }, note) : null, ...children);
}

// -- the head ------------------------------------------------------------------------------

function fillHead() {
  const { setting, seeds, policies } = DATA;
  const title = `${plural(policies.length, "policy", "policies")} on ${setting.trace}`;
  document.title = `${title} · Roost`;
  document.getElementById("title").textContent = title;
  const ofAll = `per seed, of ${setting.trace_jobs.toLocaleString("en")}`;
  const jobs = setting.sample_jobs
    ? `${plural(setting.sample_jobs, "job")} drawn ${ofAll}`
    : setting.window_jobs
      ? `${plural(setting.window_jobs, "consecutive job")} ${ofAll}`
      : plural(setting.trace_jobs, "job");
  document.getElementById("setting").textContent =
    `${jobs}; cluster ${setting.cluster}: ${plural(setting.gpus, "GPU")} in ${plural(setting.nodes, "node")} and ` +
    `${plural(setting.racks, "rack")}; ${plural(seeds.length, "seed")}, ${plural(DATA.runs, "run")}.`;
  const notices = [];
  if (DATA.is_interrupted) notices.push("The comparison was stopped before its end; what had finished is shown.");
  if (DATA.failed.length) notices.push(`${plural(DATA.failed.length, "run")} failed: ${DATA.failed.slice(0, 3).join(" · ")}`);
  document.getElementById("notices").append(...notices.map((text) => make("p", { class: "notice" }, text)));
}

function finding(panel) {
  const lines = complete(panel).filter((line) => meanOf(line, "avg_jct_s") !== null)
    .sort((a, b) => meanOf(a, "avg_jct_s") - meanOf(b, "avg_jct_s"));
  if (!lines.length) return null;
  const told = (line) => {
    const bound = meanOf(line, "times_bound");
    return `${line.policy}, ${asTime(meanOf(line, "avg_jct_s"))}${bound === null ? "" : ` (${asFactor(bound)} × the limit)`}`;
  };
  const blind = lines.find((line) => DATA.policies[INDEX.get(line.policy)].regime === "none");
  const also = blind && blind !== lines[0] ? ` Lowest without knowing run times: ${told(blind)}.` : "";
  return make("p", { class: "finding" }, `Lowest average completion time at ${loadText(panel.load)}: ${told(lines[0])}.${also}`);
}

// -- the table -----------------------------------------------------------------------------

function rangeText(column, interval, mean) {
  if (!interval) return "";
  const half = interval[1] - mean;
  return ` ± ${column.isTime ? asTime(half, timeUnit(mean)).split(" ")[0] : column.text(half)}`;
}

function metricCell(column, line, best) {
  const found = line.metrics[column.key];
  if (!found) return make("td", {}, "–");
  const [mean, interval, [least, most]] = found;
  const text = column.isTime ? asTime(mean, timeUnit(mean)) : column.text(mean);
  return make(
    "td",
    { class: mean === best && !column.isPlain ? "best" : null, title: `${column.text(least)} to ${column.text(most)} over seeds` },
    text, column.hasRange ? make("span", { class: "range" }, rangeText(column, interval, mean)) : null,
  );
}

function ratioCell(line) {
  if (!line.ratio) return make("td", { title: line.not_comparable }, line.not_comparable ? "–*" : "–");
  const [mean, interval, [least, most]] = line.ratio;
  const range = interval ? ` [${asFactor(interval[0])}, ${asFactor(interval[1])}]` : "";
  return make(
    "td", { title: `${asFactor(least)} to ${asFactor(most)} over seeds` },
    asFactor(mean), make("span", { class: "range" }, range),
  );
}

/** Mean and interval of the average JCT on a scale that all rows share. */
function whisker(line, high) {
  const found = line.metrics.avg_jct_s;
  if (!found) return make("td", {});
  const x = linear(0, high, 2, 146);
  const [mean, interval] = found;
  const [low, top] = interval ?? [mean, mean];
  const colour = strokeOf(HUE.get(line.policy)).stroke;
  const bound = meanOf(line, "bound_avg_jct_s");
  return make("td", { class: "left" }, draw(
    "svg", { class: "whisker", viewBox: "0 0 150 18", role: "img", "aria-label": `${asTime(Math.max(0, low))} to ${asTime(top)}` },
    draw("line", { x1: 2, x2: 146, y1: 9, y2: 9, stroke: "var(--faint)" }),
    bound === null ? null : draw("line", { x1: x(bound), x2: x(bound), y1: 3, y2: 15, stroke: "var(--soft)", "stroke-dasharray": "2 2" }),
    draw("line", { x1: x(Math.max(0, low)), x2: x(top), y1: 9, y2: 9, stroke: colour, "stroke-width": 3, opacity: 0.45 }),
    draw("circle", { cx: x(mean), cy: 9, r: 4, fill: colour }),
  ));
}

/** A column of a metric: its head, what it is sorted by, and its cell. */
function metricColumn(column, panel) {
  const means = complete(panel).map((line) => meanOf(line, column.key)).filter((mean) => mean !== null);
  const best = (column.isMoreBetter ? Math.max : Math.min)(...means);
  return { head: column.head, value: (line) => meanOf(line, column.key), cell: (line) => metricCell(column, line, best) };
}

function metricColumns(columns, panel) {
  const isTold = ({ key, isPlain }) => panel.policies.some((line) => (isPlain ? meanOf(line, key) : meanOf(line, key) !== null));
  return columns.filter(isTold).map((column) => metricColumn(column, panel));
}

const POLICY = {
  head: "Policy", value: (line) => INDEX.get(line.policy),
  cell: (line) => make("td", {}, swatch(HUE.get(line.policy)), line.policy),
};

function tableCard(panel) {
  const high = Math.max(...panel.policies.map((line) => line.metrics.avg_jct_s?.[1]?.[1] ?? meanOf(line, "avg_jct_s") ?? 0));
  const regimeOf = (line) => DATA.policies[INDEX.get(line.policy)].regime;
  const knows = {
    head: "Knows", value: regimeOf,
    cell: (line) => make("td", { class: "left" }, make("span", { class: "badge", title: REGIMES[regimeOf(line)] }, regimeOf(line))),
  };
  const scale = { head: null, label: "Interval of the average JCT", cell: (line) => whisker(line, high) };
  const ratio = { head: `÷ ${DATA.baseline}`, value: (line) => line.ratio?.[0] ?? null, cell: ratioCell };
  const [first, ...others] = metricColumns(COLUMNS, panel);
  return card(
    "Figures",
    "Means over seeds; ± and brackets are 95 % intervals, paired by seed. JCT: from submission to end. " +
      "Dashed mark and × limit: a lower bound that no scheduler can beat. Worst user: completion times of the user who " +
      "fared worst over the run times. Comm.: share of run time that waits for communication. Bold: best of a column. Click a heading to sort.",
    sortableTable("Table of figures", panel, [POLICY, knows, first, scale, ratio, ...others]),
    ...panel.policies.filter((line) => line.not_comparable)
      .map((line) => make("p", { class: "sub" }, `* ${line.policy}: ${line.not_comparable}`)),
  );
}

function moreCard(panel) {
  return card(
    "More figures",
    "Comm. time: of one job. Lost: GPU time idle while jobs waited for as many. Fairness: completion time over what a " +
      "job would have had with its share of the cluster to itself, its mean and its worst; Jain's index is 1 where all jobs, " +
      "or all users, fare alike. " +
      "Decide: wall time of one placement.",
    sortableTable("Table of more figures", panel, [POLICY, ...metricColumns(MORE_COLUMNS, panel)]),
  );
}

function sortableTable(label, panel, columns) {
  const body = make("tbody");
  const show = (lines) => body.replaceChildren(...lines.map((line) => make(
    "tr",
    { "data-policy": line.policy, pointerenter: () => light(line.policy), pointerleave: () => light(null) },
    columns.map((column) => column.cell(line)),
  )));
  const heads = columns.map((column) => sortHead(column, panel.policies, show));
  show(panel.policies);
  const table = make("table", {}, make("thead", {}, make("tr", {}, heads)), body);
  return make("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": label }, table);
}

function sortHead(column, lines, show) {
  if (column.head === null) return make("th", { "aria-label": column.label });
  const head = make("th", { scope: "col" });
  const sort = () => {
    const sign = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
    for (const other of head.parentNode.children) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", sign === 1 ? "ascending" : "descending");
    const value = (line) => column.value(line) ?? Infinity;
    show([...lines].sort((a, b) => sign * (value(a) > value(b) ? 1 : value(a) < value(b) ? -1 : 0)));
  };
  head.append(make("button", { type: "button", click: sort }, column.head));
  return head;
}

// -- charts --------------------------------------------------------------------------------

const firstShown = (panel) => new Set(ranked(panel).slice(0, MANY));

function legend(names, shown, redrawn) {
  return make("div", { class: "legend", role: "group", "aria-label": "Lines to show" }, names.map((name) => make(
    "button",
    {
      type: "button", "aria-pressed": String(shown.has(name)),
      click: (event) => {
        if (!shown.delete(name)) shown.add(name);
        event.currentTarget.setAttribute("aria-pressed", String(shown.has(name)));
        redrawn().forEach((chart) => chart.redraw(widthOf(chart)));
      },
      pointerenter: () => light(name), pointerleave: () => light(null),
    },
    swatch(HUE.get(name)), name,
  )));
}

function chartCard(title, note, spec, names, shown) {
  const chart = new LineChart(spec, shown);
  charts.push(chart);
  const more = shown.size < names.length ? ` Click a name to show its line: ${shown.size} of ${names.length} are drawn at first.` : "";
  return card(title, note + more, legend(names, shown, () => [chart]), chart.node);
}

function cdfCard(panel) {
  const lines = panel.policies.map((line) => ({
    ...line, index: HUE.get(line.policy),
    points: line.jct_s.map((x, at) => [x, (at + 1) / line.jct_s.length]),
  }));
  return chartCard(
    "Completion times",
    "Share of jobs that are done within a time after their submission; all seeds together. Farther left is better.",
    {
      label: `Cumulative distribution of completion times at ${loadText(panel.load)}; median ` +
        panel.policies.filter((line) => line.jct_s.length).map((line) => `${line.policy} ${asTime(quantileOf(line, 0.5))}`).join(", "),
      xLabel: "from submission to end, logarithmic", yLabel: "jobs done", isLog: true, yMax: 1,
      yText: (share) => `${Math.round(100 * share)} %`, lines,
      at: (line, x) => asPercent(line.jct_s.filter((value) => value <= x).length / (line.jct_s.length || 1)),
    },
    panel.policies.map((line) => line.policy), firstShown(panel),
  );
}

function queueCard(panel) {
  const lines = panel.policies.map((line) => ({
    ...line, index: HUE.get(line.policy),
    points: line.queue.map((y, at) => [((at + 0.5) / line.queue.length) * line.end_s, y]),
  }));
  return chartCard(
    "Queue",
    `Jobs that waited for GPUs, stopped ones too, over the time of the simulation; seed ${panel.policies[0].shown_seed}.`,
    {
      label: `Waiting jobs over time at ${loadText(panel.load)}; most ` +
        panel.policies.map((line) => `${line.policy} ${asCount(Math.max(...line.queue))}`).join(", "),
      xLabel: "since the first submission", yLabel: "jobs waiting", isLog: false, yText: asCount, lines,
      at: (line, x) => asCount(line.queue[Math.floor((x / line.end_s) * line.queue.length)] ?? 0),
    },
    panel.policies.map((line) => line.policy), firstShown(panel),
  );
}

function heatCard(panel) {
  const own = panel.policies.map((line) => new HeatStrip(line, DATA.heat_digits));
  strips.push(...own);
  return card(
    "Cluster",
    make("span", {}, "Nodes from top to bottom, time from left to right; GPUs busy: 0 ", make("i", { class: "scale" }),
      ` 100 %. Seed ${panel.policies[0].shown_seed}; each strip spans its own makespan.`),
    make("div", { class: "strips" }, own.map((strip) => strip.node)),
  );
}

function tierCard(panel) {
  const names = DATA.tier_names;
  const key = make("div", { class: "key" }, names.map((name, tier) =>
    make("span", {}, make("i", { style: `background: var(--tier-${tier})` }), name)));
  const rows = panel.policies.flatMap((line) => {
    const total = line.tiers.reduce((sum, count) => sum + count, 0) || 1;
    const told = line.tiers.map((count, tier) => `${asPercent(count / total)} ${names[tier]}`).join(", ");
    return [
      make("span", { class: "name" }, line.policy),
      make("div", { class: "bar", role: "img", "aria-label": told, title: told }, line.tiers.map((count, tier) =>
        make("span", { style: `width: ${(100 * count) / total}%; background: var(--tier-${tier})` }))),
    ];
  });
  return card("Placements", "How far apart the GPUs of each job were at its last start; all seeds together.", key, make("div", { class: "tiers" }, rows));
}

function leftOutCard(panel) {
  const told = panel.policies.filter((line) => line.left_out.length);
  if (!told.length) return null;
  const text = (line) => line.left_out.map(([reason, count]) => `${plural(count, "job")}: ${reason}`).join("; ");
  const isSame = told.length === panel.policies.length && new Set(told.map(text)).size === 1;
  const rows = isSame ? [["every policy", text(told[0])]] : told.map((line) => [line.policy, text(line)]);
  return card(
    "Jobs left out", "They did not complete, and are in no job time; all seeds together.",
    make("ul", {}, rows.map(([name, reasons]) => make("li", {}, make("b", {}, name), ` – ${reasons}`))),
  );
}

// -- loads, and the whole ------------------------------------------------------------------

/** One column a load, one row a policy; cellOf answers what stands there. */
function loadCard(title, note, loads, cellOf) {
  const heads = ["Policy", ...loads.map((panel) => `load ${panel.load}`)];
  const cell = (panel, name) => {
    const line = panel.policies.find(({ policy }) => policy === name);
    const [text, range] = (line && cellOf(line)) ?? ["–", ""];
    return make("td", {}, text, make("span", { class: "range" }, ` ${range}`));
  };
  const table = make(
    "table", { class: "slim" }, make("thead", {}, make("tr", {}, heads.map((head) => make("th", { scope: "col" }, head)))),
    make("tbody", {}, DATA.policies.map(({ name }) =>
      make("tr", {}, make("td", {}, swatch(HUE.get(name)), name), loads.map((panel) => cell(panel, name))))),
  );
  return card(title, note, make("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": title }, table));
}

function overview() {
  const loads = DATA.loads.filter((panel) => panel.load !== null);
  if (loads.length < 2) return;
  const jct = (line) => {
    const [mean, bound] = [meanOf(line, "avg_jct_s"), meanOf(line, "times_bound")];
    return mean === null ? null : [asTime(mean), bound === null ? "" : `${asFactor(bound)} ×`];
  };
  const ratio = (line) => {
    if (!line.ratio) return line.not_comparable ? ["–*", ""] : null;
    const [mean, interval] = line.ratio;
    return [asFactor(mean), interval ? `[${interval.map(asFactor).join(", ")}]` : ""];
  };
  document.getElementById("overview").append(
    loadCard("Average completion time by load", "And how many times the lower bound that is.", loads, jct),
    loadCard(`The same, relative to ${DATA.baseline}`, "Below 1 is faster; 95 % intervals, paired by seed.", loads, ratio),
  );
}

function fillPanels() {
  const sections = DATA.loads.map((panel, index) => make(
    "section", { "aria-label": loadText(panel.load), hidden: index ? "" : null },
    finding(panel), tableCard(panel), make("div", { class: "pair" }, cdfCard(panel), queueCard(panel)),
    heatCard(panel), make("div", { class: "pair" }, tierCard(panel), leftOutCard(panel)), moreCard(panel),
  ));
  document.getElementById("panels").append(...sections);
  if (sections.length < 2) return;
  const buttons = DATA.loads.map((panel, index) => make("button", {
    type: "button", "aria-pressed": String(index === 0),
    click: () => {
      sections.forEach((section, other) => { section.hidden = other !== index; });
      buttons.forEach((button, other) => button.setAttribute("aria-pressed", String(other === index)));
      redrawAll();
    },
  }, panel.load === null ? "trace" : `load ${panel.load}`));
  document.getElementById("loads").append(...buttons);
}

function fillAbout() {
  const { setting, versions } = DATA;
  const percent = (frac) => `${Math.round(100 * frac)} %`;
  const rows = [
    ["Command", make("pre", {}, make("code", {}, DATA.command))],
    ["Trace", `${setting.trace}: ${plural(setting.trace_jobs, "job")} in ${asTime(setting.trace_span_s)}`],
    ["Cluster", `${setting.cluster}: ${setting.cluster_source}`],
    ["World", setting.world],
    ["Seeds", DATA.seeds.join(", ")],
    ["Job times", `of completed jobs, less the first ${percent(setting.warm_up_frac)} and the last ${percent(setting.cool_down_frac)} to arrive`],
    ["Intervals", "means: Student's t over seeds; ratios: mean of the seeds' ratios, percentile bootstrap of the seeds with 10,000 resamples"],
    ["Versions", Object.entries(versions).map(([name, value]) => `${name} ${value}`).join(", ")],
    ...DATA.policies.map((policy) => [policy.name, `${policy.source}. It ${REGIMES[policy.regime]}.`]),
  ];
  document.getElementById("about").append(card("How this was made", null,
    make("dl", {}, rows.flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]))));
}

function light(policy) {
  charts.forEach((chart) => chart.light(policy));
  for (const row of document.querySelectorAll("tr[data-policy]")) row.classList.toggle("lit", row.dataset.policy === policy);
}

/** Of a hidden panel, what it would be: so that it can be printed without having been looked at. */
function widthOf(chart) {
  const own = chart.node.clientWidth;
  if (own) return own;
  const seen = charts.find((other) => other.node.clientWidth);
  return seen ? seen.node.clientWidth : 600;
}

function redrawAll() {
  charts.forEach((chart) => chart.redraw(widthOf(chart)));
  strips.forEach((strip) => strip.redraw());
}

fillHead();
overview();
fillPanels();
fillAbout();
redrawAll();
let pending = 0;
addEventListener("resize", () => { cancelAnimationFrame(pending); pending = requestAnimationFrame(redrawAll); });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redrawAll);
addEventListener("beforeprint", redrawAll);
