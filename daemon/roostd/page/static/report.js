// The report of the last week: asked for while its panel is open. Another process reads it from the journal.
"use strict";

const REPORT_MS = 2000, REPORT_AGAIN_MS = 60000;

const share = (estimate) => (estimate.value === null ? "–" : `${Math.round(100 * estimate.value)} %`);
const tenths = (value) => value.toLocaleString("en", { maximumFractionDigits: value < 10 ? 1 : 0 });

function points({ value, low, high }) {
  if (value === null) return "–";
  const signed = (one) => `${one < 0 ? "−" : "+"}${Math.abs(Math.round(100 * one))}`;
  return low === null ? `${signed(value)} points` : `${signed(value)} points (${signed(low)} to ${signed(high)})`;
}

function watchedFigures(found) {
  const asTheyWere = found.chosen_count - found.sooner_count, links = found.planned_link_frac.value;
  return [
    figure("Jobs that Roost watched", found.job_count.toLocaleString("en"), "", `${found.started_count.toLocaleString("en")} ran, ${tenths(found.gpu_hours)} GPU-hours`, null),
    figure("Started on the chosen GPUs", share(found.same_frac), "", `of ${found.chosen_count.toLocaleString("en")} jobs`, found.same_frac.value),
    figure("Links of Roost's places", share(found.planned_link_frac), "", `Slurm's ${share(found.real_link_frac)}: ${points(found.planned_gain_frac)}`, links, "var(--good)"),
    figure("Would have started sooner", found.sooner_count.toLocaleString("en"), found.sooner_s.value === null ? "" : `by ${duration(found.sooner_s.value)}`, `${asTheyWere.toLocaleString("en")} as they were, ${found.later_count.toLocaleString("en")} later`, null),
    figure("GPU-hours of waiting", tenths(found.waiting_gpu_hours.value ?? 0), "", "would have been spared", null),
  ];
}

function enforcedFigures(found) {
  return [
    figure("Jobs that Roost placed", found.job_count.toLocaleString("en"), "", `${found.started_count.toLocaleString("en")} ran, ${tenths(found.gpu_hours)} GPU-hours`, null),
    figure("Started as chosen", share(found.same_frac), "", `of ${found.chosen_count.toLocaleString("en")} jobs`, found.same_frac.value),
    figure("Links", share(found.real_link_frac), "", `plain Slurm takes ${share(found.stock_link_frac)} on the same nodes: ${points(found.stock_gain_frac)}`, found.real_link_frac.value, "var(--good)"),
  ];
}

function groupRows(groups) {
  return groups.flatMap((group) => [["watched", group.watched], ["enforced", group.enforced]].filter(([, found]) => found)
    .map(([mode, found]) => ({
      cells: [group.name || "–", mode, found.job_count.toLocaleString("en"), tenths(found.gpu_hours), share(found.same_frac), share(found.real_link_frac),
        share(mode === "watched" ? found.planned_link_frac : found.stock_link_frac), points(mode === "watched" ? found.planned_gain_frac : found.stock_gain_frac)],
    })));
}

function reportParts(report) {
  if (!report.job_count) return [make("p", { className: "empty" }, "The journal has no job that ended in this time.")];
  const parts = [];
  if (report.watched) parts.push(make("h3", {}, "Watched: Slurm chose the GPUs (modes shadow and advise)"), make("div", { className: "figures" }, ...watchedFigures(report.watched)));
  if (report.enforced) parts.push(make("h3", {}, "Enforced: Roost chose the GPUs"), make("div", { className: "figures" }, ...enforcedFigures(report.enforced)));
  const wide = (table) => make("div", { className: "wide" }, table);
  parts.push(make("h3", {}, "Partitions"), wide(grid(["Partition", "Mode", "#Jobs", "#GPU-hours", "#Same GPUs", "#Links", "#Beside", "#Gain"], groupRows(report.partitions))));
  if (report.limits.length) {
    parts.push(make("h3", {}, "Limits of Slurm's that kept jobs waiting"),
      wide(grid(["Limit", "#Jobs", "#Waited"], report.limits.map((one) => ({ cells: [one.limit, String(one.job_count), duration(one.wait_s)] })))));
  }
  if (report.left.length) {
    parts.push(make("h3", {}, "Left to Slurm"), wide(grid(["Why", "#Jobs"], report.left.map((one) => ({ cells: [[one.reason, "wide"], String(one.job_count)] })))));
  }
  parts.push(make("p", { className: "dim" }, "Intervals hold 95 %. Links are those that the jobs got; beside them Roost's where it watched, plain Slurm's where it chose. By user: roostctl report."));
  return parts;
}

let reportTimer = 0;

async function showReport() {
  if (!$("report").open) return;
  const wait = document.hidden ? REPORT_MS : await readReport();
  clearTimeout(reportTimer);
  reportTimer = setTimeout(showReport, wait);
}

async function readReport() {
  try {
    const found = await ask("/api/report");
    const age = found.age_s === null ? "" : `read ${duration(found.age_s)} ago`;
    $("report-about").textContent = found.is_reading ? "roostd reads the journal" : found.fault || age;
    if (found.report) $("report-body").replaceChildren(...reportParts(found.report));
    return found.is_reading ? REPORT_MS : REPORT_AGAIN_MS;
  } catch (error) {
    $("report-about").textContent = error.message;
    return REPORT_MS;
  }
}

$("report").addEventListener("toggle", () => {
  remember({ report: $("report").open ? "open" : "" });
  showReport();
});
if (wish.report) $("report").open = true;
