// Uses the page as a person would, and tells what came of it. Served beside the page by the test.
"use strict";

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const all = (selector) => [...document.querySelectorAll(selector)];
const text = (id) => document.getElementById(id).textContent;
const colour = (element, name = "backgroundColor") => getComputedStyle(element)[name];

async function until(done) {
  for (let turn = 0; turn < 200 && !done(); turn++) await pause(50);
}

function widths() {
  return { window: innerWidth, needed: document.documentElement.scrollWidth };
}

async function visit() {
  const seen = {};
  await until(() => document.documentElement.dataset.drawn);
  seen.tiles = all("[data-node]").length;
  seen.cells = all(".tile > i").length;
  seen.links = all(".ring .link").length;
  seen.widths = widths();
  seen.title = document.title;
  seen.modes = text("modes");
  seen.queue = all("#queue tbody tr").length;
  seen.placed = all("#placed tbody tr").length;
  seen.timers = text("timers");
  seen.alerts = document.getElementById("faults").hidden;
  seen.faults = text("faults");
  seen.waiting = text("queue");

  seen.views = {};
  for (const button of all("#views button")) {
    const name = button.textContent;
    all("#views button").find((one) => one.textContent === name).click();
    const marks = all(".tile > i, .ring .gpu");
    seen.views[name] = {
      kinds: new Set(marks.map((mark) => mark.className.baseVal ?? mark.className)).size,
      legend: text("legend"), checked: all('#views [aria-checked="true"]').map((one) => one.textContent),
    };
  }
  all("#views button")[0].click();

  const theme = document.getElementById("theme");
  seen.themes = {};
  for (let turn = 0; turn < 3; turn++) {
    theme.click();
    await pause(20);
    seen.themes[document.documentElement.dataset.theme] = [colour(document.body), colour(document.body, "color")];
  }

  all("[data-node]")[0].click();
  await until(() => all("#detail tbody tr").length);
  seen.node = { title: all("#detail h2")[0].textContent, rows: all("#detail tbody tr").length, hash: location.hash, rings: all("#detail .ring .gpu").length, widths: widths() };
  dispatchEvent(new KeyboardEvent("keydown", { key: "Escape" }));
  document.dispatchEvent(new KeyboardEvent("keydown", { key: "Escape" }));
  seen.closed = document.getElementById("detail").hidden;

  all("#placed [data-job]")[0].click();
  await until(() => all("#detail h3").length);
  seen.job = { title: all("#detail h2")[0].textContent, chosen: all("#detail .chosen-row").length, text: text("detail"), widths: widths() };
  all("#detail button")[0].click();

  document.querySelector("#report summary").click();
  await until(() => all("#report tbody tr").length);
  seen.report = {
    about: text("report-about"), text: text("report-body"), hash: location.hash, widths: widths(),
    values: all("#report .value").map((one) => one.textContent), rows: all("#report table")[0] ? all("#report table")[0].tBodies[0].rows.length : 0,
  };
  document.querySelector("#report summary").click();

  const find = document.getElementById("find");
  find.value = all("[data-node]")[1].dataset.node;
  find.dispatchEvent(new Event("input"));
  seen.found = all("[data-node]:not(.unfit)").map((tile) => tile.dataset.node);

  seen.foreign = performance.getEntriesByType("resource").filter((one) => !one.name.startsWith(location.origin)).map((one) => one.name);
  seen.unnamed = all("button").filter((one) => !(one.textContent.trim() || one.getAttribute("aria-label"))).length;
  const told = document.createElement("pre");
  told.id = "seen";
  told.textContent = JSON.stringify(seen);
  document.body.append(told);
}

visit();
