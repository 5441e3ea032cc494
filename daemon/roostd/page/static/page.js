// Asks roostd every few seconds, and shows the answer. It changes nothing: roostd takes no changes here.
"use strict";

const REFRESH_MS = 5000;
const LARGE_COUNT = 48, MIDDLE_COUNT = 300; // nodes, up to which they are drawn as cards and as larger tiles
const $ = (id) => document.getElementById(id);

let state = null, quality = new Map(), tiles = new Map(), layout = "", readAt = 0, fault = "";
const wish = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
let view = wish.view in VIEWS ? wish.view : "jobs";

function remember(changes) {
  Object.assign(wish, changes);
  for (const [name, value] of Object.entries(wish)) if (!value) delete wish[name];
  history.replaceState(null, "", `#${new URLSearchParams(wish)}`);
}

// -- asking ------------------------------------------------------------------------------------

async function ask(path) {
  const answer = await fetch(path, { cache: "no-store" });
  const found = await answer.json();
  if (!answer.ok) throw new Error(found.error);
  return found;
}

async function refresh() {
  try {
    state = await ask("/api/state");
    readAt = Date.now();
    fault = "";
    show();
  } catch (error) {
    fault = `roostd does not answer: ${error.message}`;
  }
  tellAge();
}

function tellAge() {
  const age = Math.round((Date.now() - readAt) / 1000);
  $("dot").className = `dot ${fault ? "late" : ""}`;
  $("age").textContent = fault || (readAt ? (age < 2 ? "live" : `${age} s ago`) : "connecting");
}

// -- the whole page ----------------------------------------------------------------------------

function show() {
  quality = new Map(Object.entries(state.link_scores).map(([id, [score, best]]) => [id, score / best]));
  showTop();
  showFigures();
  showMap();
  showQueue();
  showPlaced();
  showTimers();
  if (wish.node || wish.job) showDetail();
  if (!document.documentElement.dataset.drawn) {
    document.documentElement.dataset.drawn = String(Math.round(performance.now()));
    performance.mark("roost-drawn");
  }
}

function showTop() {
  const status = state.status;
  document.title = `${status.cluster || "Roost"} · Roost`;
  $("cluster").textContent = status.cluster || "Roost";
  $("about").textContent = `Slurm ${status.slurm_version || "not seen yet"}, roostd ${status.version}, up ${duration(status.uptime_s)}`;
  const chips = state.partitions.map(({ partition, mode }) =>
    make("span", { className: `chip ${mode}` }, partition, make("b", {}, mode)));
  $("modes").replaceChildren(...chips);
  const faults = [
    status.slurm_fault && `Slurm: ${status.slurm_fault}`,
    status.policy_fault && `Policy: ${status.policy_fault}`,
    ...status.slots.filter((slot) => slot.fault_count > 0 && slot.last_fault)
      .map((slot) => `The policy of ${slot.slot} failed ${slot.fault_count} times, the heuristic answered: ${slot.last_fault}`),
  ].filter(Boolean);
  $("faults").hidden = !faults.length;
  $("faults").replaceChildren(...faults.map((text) => make("p", {}, text)));
}

function figure(name, value, unit, note, part, tint) {
  const box = make("div", { className: "figure" }, make("p", { className: "name" }, name),
    make("p", { className: "value" }, value, make("small", {}, unit ? ` ${unit}` : "")),
    make("p", { className: "note" }, note));
  if (part !== null) box.append(bar("track", part, tint));
  return box;
}

function bar(className, part, tint) {
  const inner = make("i");
  inner.style.setProperty("--part", `${Math.max(0, Math.min(100, 100 * part)).toFixed(1)}%`);
  if (tint) inner.style.setProperty("--tint", tint);
  return make(className === "track" ? "div" : "span", { className }, inner);
}

function showFigures() {
  const status = state.status, held = status.gpu_count - status.gpu_free_count;
  const scores = Object.values(state.link_scores);
  const reached = scores.reduce((sum, [score]) => sum + score, 0), best = scores.reduce((sum, [, score]) => sum + score, 0);
  const loads = state.nodes.flatMap((node) => node.gpus.filter((gpu) => gpu[JOB] && gpu[SM] !== null).map((gpu) => gpu[SM]));
  const load = loads.length ? loads.reduce((sum, one) => sum + one, 0) / loads.length : null;
  const waits = state.jobs.filter((job) => job.state === "JOB_STATE_WAITING").map((job) => job.waited_s);
  $("figures").replaceChildren(
    figure("GPUs in use", held.toLocaleString("en"), `of ${status.gpu_count.toLocaleString("en")}`, `${status.gpu_free_count.toLocaleString("en")} are free`, status.gpu_count ? held / status.gpu_count : 0),
    figure("Load of GPUs in use", load === null ? "–" : `${Math.round(load)} %`, "", load === null ? "no probe reports it" : `mean of ${loads.length.toLocaleString("en")} GPUs`, load === null ? 0 : load / 100, "var(--middle)"),
    figure("Links of running jobs", best ? `${Math.round((100 * reached) / best)} %` : "–", "", scores.length ? `of the best score, ${scores.length.toLocaleString("en")} jobs` : "no job on several GPUs runs", best ? reached / best : 0, "var(--good)"),
    figure("Waiting jobs", status.waiting_job_count.toLocaleString("en"), "", waits.length ? `the longest waits ${duration(Math.max(...waits))}` : "none waits for Roost", null),
    figure("Running jobs", status.running_job_count.toLocaleString("en"), "", `${Number(status.decision_count).toLocaleString("en")} decisions in this run`, null),
    figure("Nodes", state.nodes.length.toLocaleString("en"), "", `${status.probe_count.toLocaleString("en")} with a live probe`, null),
  );
}

// -- the map -----------------------------------------------------------------------------------

function size() {
  return state.nodes.length <= LARGE_COUNT ? "large" : state.nodes.length <= MIDDLE_COUNT ? "middle" : "small";
}

function showMap() {
  const wanted = `${size()}|${state.nodes.map((node) => `${node.name}/${node.rack}/${node.gpus.length}`).join()}`;
  if (wanted !== layout) {
    layout = wanted;
    buildMap();
  }
  for (const node of state.nodes) paint(node);
  $("nodes-title").textContent = state.nodes.length === 1 ? "1 node" : `${state.nodes.length.toLocaleString("en")} nodes`;
  filter();
}

function buildMap() {
  tiles = new Map();
  const racks = new Map();
  for (const node of state.nodes) {
    if (!racks.has(node.rack)) racks.set(node.rack, []);
    racks.get(node.rack).push(node);
  }
  const isLarge = size() === "large";
  const groups = [...racks].map(([rack, nodes]) => {
    const row = make("div", { className: "tiles" });
    for (const node of nodes) {
      const tile = make("button", { className: isLarge ? "card" : "tile", type: "button" });
      tile.dataset.node = node.name;
      if (!isLarge) for (let gpu = 0; gpu < node.gpus.length; gpu++) tile.append(document.createElement("i"));
      tiles.set(node.name, { tile, drawn: "" });
      row.append(tile);
    }
    const isNarrow = !isLarge && racks.size > 1 && nodes.length <= 32;
    const section = make("section", { className: `rack ${size()} ${isNarrow ? "narrow" : ""}` });
    if (racks.size > 1 || rack) section.append(make("h3", {}, `${rack || "no rack"} · ${nodes.length === 1 ? "1 node" : `${nodes.length} nodes`}`));
    section.append(row);
    return section;
  });
  $("map").replaceChildren(...groups);
  if (!groups.length) $("map").append(make("p", { className: "empty" }, "Slurm has named no node with GPUs yet."));
}

function paint(node) {
  const entry = tiles.get(node.name), table = node.links === null ? null : state.links[node.links];
  const classes = node.gpus.map((gpu) => gpuClass(view, gpu, quality));
  const looks = `${view}|${node.usable}|${node.slurm_state}|${node.links}|${classes}|${node.gpus.map((gpu) => gpu[JOB])}`;
  if (looks === entry.drawn) return;
  entry.drawn = looks;
  entry.tile.classList.toggle("shut", !node.usable);
  if (size() === "large") {
    entry.tile.replaceChildren(ring(node, table, view, quality), make("div", { className: "host" }, node.name),
      make("div", { className: "state" }, `${node.slurm_state || "unknown"} · ${busyCount(node)}/${node.gpus.length}`));
    return;
  }
  entry.tile.title = spoken(node, table);
  entry.tile.setAttribute("aria-label", spoken(node, table));
  classes.forEach((name, gpu) => { entry.tile.children[gpu].className = name; });
}

function filter() {
  const text = $("find").value.trim().toLowerCase();
  for (const node of state.nodes) {
    const fits = !text || node.name.toLowerCase().includes(text) || node.gpus.some((gpu) => gpu[JOB] === text);
    const { tile } = tiles.get(node.name);
    tile.classList.toggle("unfit", !fits);
    tile.classList.toggle("chosen", node.name === wish.node || Boolean(wish.job && node.gpus.some((gpu) => gpu[JOB] === wish.job)));
  }
}

function showViews() {
  const buttons = Object.entries(VIEWS).map(([name, one]) => {
    const button = make("button", { type: "button", role: "radio" }, one.title);
    button.setAttribute("aria-checked", String(name === view));
    button.addEventListener("click", () => {
      view = name;
      remember({ view: name === "jobs" ? "" : name });
      showViews();
      if (state) show();
    });
    return button;
  });
  $("views").replaceChildren(...buttons);
  showLegend();
}

function showLegend() {
  const swatch = (name, text) => make("span", {}, make("i", { className: `swatch ${name}` }), text);
  const ends = [swatch("bad", "faulty")];
  const { low, high } = VIEWS[view];
  let parts = [swatch("free", "free"), make("span", {}, scale((step) => `held j${step}`), "one colour a job")];
  if (low) parts = [make("span", {}, low, scale((step) => `h${step}`, 11), high), swatch("unknown", "not reported")];
  if (view === "links") {
    parts = [swatch("q3", "the best links"), swatch("q2", "70 % or more of their score"), swatch("q1", "40 % or more"), swatch("q0", "less"), swatch("alone", "one GPU, or not placed by Roost"), swatch("free", "free")];
  }
  $("legend").replaceChildren(...parts, ...ends, make("span", {}, "pale: Slurm starts no jobs there"));
}

function scale(name, count = 6) {
  return make("span", { className: "scale" }, ...Array.from({ length: count }, (_, step) => make("i", { className: name(step) })));
}

// -- lists -------------------------------------------------------------------------------------

function jobButton(id, isPlaced) {
  const button = make("button", { className: "job", type: "button" }, make("i", { className: isPlaced ? jobClass(id) : "" }), id);
  button.dataset.job = id;
  return button;
}

function grid(heads, rows) {
  const cell = (tag) => (value, column) => {
    const [text, name] = Array.isArray(value) ? value : [value, ""];
    const kind = heads[column].startsWith("#") ? "number" : name;
    return make(tag, { className: kind }, ...[text].flat());
  };
  const titles = heads.map((head) => head.replace("#", ""));
  return make("table", {}, make("thead", {}, make("tr", {}, ...titles.map(cell("th")))),
    make("tbody", {}, ...rows.map(({ cells, name = "" }) => make("tr", { className: name }, ...cells.map(cell("td"))))));
}

function list(id, rows, heads, empty) {
  const top = $(id).scrollTop;
  $(id).replaceChildren(rows.length ? grid(heads, rows) : make("p", { className: "empty" }, empty));
  $(id).scrollTop = top;
}

const isWaiting = (job) => job.state === "JOB_STATE_WAITING" || job.state === "JOB_STATE_CLEARING";

function showQueue() {
  const jobs = state.jobs.filter(isWaiting);
  $("queue-count").textContent = state.waiting_left_out ? `the first ${jobs.length} of ${jobs.length + state.waiting_left_out}` : "";
  list("queue", jobs.map((job) => ({
    cells: [
      job.turn ? String(job.turn.position) : "–",
      jobButton(job.job_id, false),
      job.gpu_count ? String(job.gpu_count) : "–",
      job.gpu_count ? duration(job.waited_s) : "–",
      [[job.reason || "–", small(job.standing ? `waits in Slurm for ${placeText(job.standing.shares)}` : "")], "wide"],
    ],
  })), ["#", "Job", "#GPUs", "#Waited", "Why"], "No job waits for Roost.");
}

function small(text) {
  return text ? make("span", { className: "small-dim" }, text) : "";
}

function linkCell(job) {
  if (!quality.has(job.job_id)) return "–";
  const part = quality.get(job.job_id), meter = bar("quality", part);
  meter.firstChild.className = part >= 0.999 ? "q3" : part >= 0.7 ? "q2" : part >= 0.4 ? "q1" : "q0";
  return [[meter, `${job.link_score}/${job.best_link_score}`], ""];
}

function showPlaced() {
  const jobs = state.jobs.filter((job) => !isWaiting(job));
  $("placed-count").textContent = !jobs.length ? "" : state.placed_left_out ? `the newest ${jobs.length} of ${jobs.length + state.placed_left_out}` : "the newest first";
  list("placed", jobs.map((job) => ({
    cells: [
      jobButton(job.job_id, job.allocated.length > 0),
      [[placeText(job.allocated.length ? job.allocated : job.planned), small(job.reason)], "wide"],
      linkCell(job),
      job.run_s === null ? "starts" : duration(job.run_s),
    ],
  })), ["Job", "GPUs", "#Links", "#Runs for"], "No job runs.");
}

function showTimers() {
  $("timers-count").textContent = `the gate is ${state.gate}`;
  list("timers", state.timers.map((timer) => ({
    cells: [timer.name, duration(timer.node_timer_s), duration(timer.rack_timer_s), String(timer.sample_count),
      timer.pinned_s !== undefined ? "pinned" : timer.tuned_ago_s === undefined ? "–" : `${duration(timer.tuned_ago_s)} ago`],
  })), ["Class", "#One node", "#One rack", "#Waits", "Tuned"],
  state.gate === "open" ? "Every offer is taken at once: the gate has no timers." : "No job has waited for closer GPUs yet.");
}

// -- one node, one job -------------------------------------------------------------------------

function openDetail(changes) {
  remember({ node: "", job: "", ...changes });
  $("detail").replaceChildren();
  showDetail();
  if (state) filter();
}

async function showDetail() {
  const detail = $("detail");
  detail.hidden = !(wish.node || wish.job);
  if (wish.node && state) {
    const node = state.nodes.find((one) => one.name === wish.node);
    detail.replaceChildren(...(node ? nodeDetail(node) : head(wish.node, "Slurm has no such node.")));
  } else if (wish.job) {
    const wanted = wish.job;
    let parts;
    try {
      parts = jobDetail(await ask(`/api/jobs/${encodeURIComponent(wanted)}`));
    } catch (error) {
      parts = head(`Job ${wanted}`, error.message);
    }
    if (wish.job === wanted) detail.replaceChildren(...parts);
  }
}

function head(title, text) {
  const close = make("button", { type: "button", className: "quiet", title: "Close (Esc)" }, "Close");
  close.addEventListener("click", () => openDetail({}));
  return [make("div", { className: "bar" }, make("div", {}, make("h2", {}, title), make("p", { className: "dim" }, text)), close)];
}

function facts(pairs) {
  const known = pairs.filter(([, value]) => value !== "" && value !== null && value !== undefined);
  return make("dl", {}, ...known.flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, ...[value].flat())]));
}

function nodeDetail(node) {
  const table = node.links === null ? null : state.links[node.links];
  const percent = (value) => (value === null ? "–" : `${value} %`);
  const rows = node.gpus.map((gpu, index) => ({
    cells: [String(index), gpu[FAULT] ? make("span", { className: "problem" }, gpu[FAULT]) : gpu[JOB] ? jobButton(gpu[JOB], true) : "free",
      percent(gpu[SM]), percent(gpu[MEMORY]), gpu[TEMPERATURE] === null ? "–" : `${gpu[TEMPERATURE]} °C`],
  }));
  return [
    ...head(node.name, `${node.slurm_state || "unknown"}, ${busyCount(node)} of ${node.gpus.length} GPUs in use`),
    ring(node, table, view, quality),
    facts([["Rack", node.rack], ["Partitions", node.partitions.join(", ")], ["CPUs", `${node.cpus[0]} of ${node.cpus[1]} free`],
      ["Probe", node.sample_age_s === null ? "none has reported" : `reported ${node.sample_age_s} s ago`],
      ["Links", table ? linkWords(table) : "unknown"],
      ["Problems", node.problems.length ? make("span", { className: "problem" }, node.problems.join("; ")) : ""]]),
    grid(["GPU", "Job", "#Load", "#Memory", "#Temperature"], rows),
  ];
}

function linkWords([, pairs]) {
  const counts = new Map();
  for (const [, , symbol] of pairs) counts.set(symbol, (counts.get(symbol) || 0) + 1);
  return [...counts].map(([symbol, count]) => `${symbol} between ${count} ${count === 1 ? "pair" : "pairs"}`).join(", ") || "one GPU";
}

function startWords(start) {
  const until = start.high_s === undefined ? "or later" : `to ${duration(start.high_s)}`;
  return start.median_s === undefined ? `in ${duration(start.low_s)} at the earliest` : `in ${duration(start.median_s)} (four in five: ${duration(start.low_s)} ${until})`;
}

function jobDetail(found) {
  const job = found.job, start = found.expected_start;
  const word = job.state === "JOB_STATE_LET_GO" ? "left to Slurm" : job.state.replace("JOB_STATE_", "").toLowerCase();
  const waits = isWaiting(job);
  const facts1 = facts([
    ["Partition", job.partition], ["GPUs", job.gpu_count || ""], ["User id", job.user_id], [waits ? "Has waited" : "Waited", job.gpu_count ? duration(job.waited_s) : ""],
    ["Chosen", job.planned.length ? placeText(job.planned) + (job.slurm_chooses_gpus ? " (likely: Slurm chooses the GPUs)" : "") : ""],
    ["Allocated", job.allocated.length ? placeText(job.allocated) : ""],
    ["Links", job.best_link_score ? `${job.link_score} of the ${job.best_link_score} points possible` : ""],
    ["Decided", found.policy ? `${duration(found.decided_ago_s)} ago by ${found.policy}` : ""],
    ["Model failed", found.fallback_reason],
    ["Standing pin", job.standing ? `waits in Slurm for ${placeText(job.standing.shares)}` : ""],
    ["Decided within", job.wait_left_s === undefined ? "" : duration(job.wait_left_s)],
    ["Position", found.turn ? `${found.turn.position} of ${found.turn.of_count} in the order ${found.turn.order}; ${found.turn.slurm_position} by Slurm's priority` : ""],
    ["Expected start", start ? startWords(start) : ""],
    ["Expected run", found.expected_run ? `${duration(found.expected_run.median_s)} (four in five: ${duration(found.expected_run.low_s)} to ${duration(found.expected_run.high_s)})` : ""],
    ["If apart", found.sensitivity ? `speed ${Math.round(100 * found.sensitivity.rack_frac)} % in one rack, ${Math.round(100 * found.sensitivity.across_frac)} % across racks (${found.sensitivity.source})` : ""],
    ["Speed now", found.achieved && found.achieved.speed_frac !== undefined ? `${Math.round(100 * found.achieved.speed_frac)} % of its closest GPUs' (${found.achieved.source})` : ""],
    ["Comment", found.comment ? found.comment.problems.join("; ") || `model ${found.comment.model || "not stated"}` : ""],
  ]);
  const parts = [...head(`Job ${job.job_id}`, word), ...(job.reason ? [make("p", { className: "sentence" }, job.reason)] : []), facts1];
  if (found.candidates.length) {
    const rows = found.candidates.map((one) => ({
      name: one.why_not ? "" : "chosen-row",
      cells: [[[one.nodes.map((name) => `${name}:${indices(one.gpu_indices)}`).join(", "), small(one.why_not || "chosen")], "wide"], one.score.toFixed(3), String(one.link_score)],
    }));
    parts.push(make("h3", {}, "Candidates, best first"), grid(["Place", "#Score", "#Links"], rows));
  }
  if (found.exclusions.length) {
    const rows = found.exclusions.map((one) => ({ cells: [[one.reason, "wide"], String(one.node_count)] }));
    parts.push(make("h3", {}, "Nodes ruled out before scoring"), grid(["Why", "#Nodes"], rows));
  }
  return parts;
}

// -- start -------------------------------------------------------------------------------------

const THEMES = ["system", "dark", "light"];

function setTheme(name) {
  document.documentElement.dataset.theme = name;
  $("theme").textContent = `Theme: ${name}`;
}

$("theme").addEventListener("click", () => {
  const next = THEMES[(THEMES.indexOf(document.documentElement.dataset.theme) + 1) % THEMES.length];
  setTheme(next);
  remember({ theme: next === "system" ? "" : next });
});
document.addEventListener("click", (event) => {
  const job = event.target.closest("[data-job]"), tile = event.target.closest("[data-node]");
  if (job) openDetail({ job: job.dataset.job });
  else if (tile) openDetail({ node: tile.dataset.node });
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && !$("detail").hidden) openDetail({});
});
$("find").addEventListener("input", () => state && filter());

setTheme(THEMES.includes(wish.theme) ? wish.theme : "system");
showViews();
refresh();
setInterval(() => document.hidden || refresh(), REFRESH_MS);
setInterval(tellAge, 1000);
