// Runs in the report: uses it as a person would, and tells in #seen what came of it.
const seen = {};
const $ = (selector) => document.querySelector(selector);
const section = $("section:not([hidden])");
const drawn = (node) => {
  const pixels = node.getContext("2d").getImageData(0, 0, node.width, node.height).data;
  const cells = Array.from({ length: pixels.length / 4 }, (_, at) => pixels.slice(4 * at, 4 * at + 3));
  return new Set(cells.map((cell) => cell.join())).size;
};
const over = (node, share) => {
  const box = node.getBoundingClientRect();
  const at = { clientX: box.left + share * box.width, clientY: box.top + box.height / 2, bubbles: true };
  node.dispatchEvent(new PointerEvent("pointermove", at));
  return [$("#tip").hidden, $("#tip").textContent];
};
seen.shades = Math.max(...[...document.querySelectorAll("canvas")].map(drawn));
seen.chartTip = over(section.querySelector(".chart svg"), 0.6);
seen.heatTip = over(section.querySelector("canvas"), 0.3);
section.querySelector(".legend button").click();
const isOff = () => section.querySelector('.chart .line[data-policy="fifo"]').classList.contains("off");
seen.hiddenLine = isOff();
section.querySelector(".legend button").click();
seen.shownLine = !isOff();
const sort = () => section.querySelectorAll("thead button")[2].click();
const order = () => [...section.querySelector("tbody").children].map((row) => row.dataset.policy);
sort(); seen.ascending = order();
sort(); seen.descending = order();
section.querySelector("tbody tr").dispatchEvent(new PointerEvent("pointerenter"));
seen.lit = section.querySelectorAll(".line.lit").length;
document.querySelectorAll("#loads button")[1].click();
seen.sections = [...document.querySelectorAll("section")].map((one) => one.hidden);
document.querySelectorAll("#loads button")[0].click();
const told = document.createElement("pre");
told.id = "seen";
told.textContent = JSON.stringify(seen);
document.body.append(told);
