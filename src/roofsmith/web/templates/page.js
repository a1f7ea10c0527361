// Fills in what is new. What a ledger says is only ever text here.
"use strict";
const main = document.querySelector("main");
const said = document.getElementById("said");
const trouble = document.getElementById("unreadable");

const number = (value) => String(Number(value.toPrecision(3)));
// An end of 1000, or of a thousandth, is an open one: too few pairs for it.
const within = ([low, high]) =>
  high >= 1000 ? `at least ${number(low)}` : low <= 0.001 ? `at most ${number(high)}` : `${number(low)}, ${number(high)}`;
const figure = (f, form = (v) => `${number(v)}x`) =>
  f.value === null ? `UNKNOWN: ${f.reason}` : form(f.value) + (f.interval ? ` [${within(f.interval)}]` : "");

function figureNodes(f) {
  const value = document.createElement("b"), interval = document.createElement("span");
  value.textContent = `${number(f.value)}x`;
  interval.className = "soft";
  interval.textContent = `[${within(f.interval)}]`;
  return [value, " ", interval];
}

function fill(row) {
  const newer = document.getElementById("newer");
  if (newer && !document.querySelector(`[data-campaign="${CSS.escape(row.id)}"]`)) newer.hidden = false;
  for (const place of document.querySelectorAll("[data-campaign]")) {
    if (place.dataset.campaign !== row.id) continue;
    const texts = {
      ...row, speedup: figure(row.speedup), counts: `${row.tried} / ${row.kept} / ${row.failed}`,
      fraction: figure(row.fraction, (v) => `${Math.round(100 * v)}%`), cost_usd: figure(row.cost_usd, (v) => v.toFixed(2)),
    };
    for (const field of place.querySelectorAll("[data-field]")) {
      const name = field.dataset.field, known = row[name] && row[name].interval && place.matches("tr");
      field.replaceChildren(...(known ? figureNodes(row[name]) : [String(texts[name])]));
    }
    for (const field of place.querySelectorAll(".phase")) field.dataset.state = row.state;
    const line = place.querySelector("polyline");
    if (line) line.setAttribute("points", points(row.trend));
    if (line) line.parentNode.classList.toggle("flat", !(row.trend.at(-1) >= 1.005));
  }
}

function points(trend) {
  const low = Math.min(...trend), high = Math.max(...trend), last = Math.max(trend.length - 1, 1);
  return trend.map((v, i) => `${(2 + 116 * i / last).toFixed(1)},${(26 - 24 * (v - low) / (high - low || 1)).toFixed(1)}`).join(" ");
}

// The parts of this page as they are now, in place of those that changed.
let wanted = false, busy = false;
async function refresh() {
  wanted = true;
  if (busy) return;
  busy = true;
  while (wanted) {
    wanted = false;
    try {
      const answer = await fetch(location.href);
      if (answer.ok) show(new DOMParser().parseFromString(await answer.text(), "text/html"));
    } catch { said.textContent = "not connected; trying again"; }
  }
  busy = false;
}

function show(fresh) {
  for (const part of fresh.querySelectorAll("[data-part]")) {
    const here = document.querySelector(`[data-part="${part.dataset.part}"]`);
    if (!here || here.dataset.was === part.innerHTML) continue;
    part.dataset.was = part.innerHTML;
    const open = new Set([...here.querySelectorAll("details[open] > summary")].map((one) => one.textContent));
    for (const one of part.querySelectorAll("details")) one.open = open.has(one.querySelector("summary").textContent);
    here.replaceWith(document.adoptNode(part));
  }
  document.title = fresh.title;
  offer();
  tick();
}

function offer() {
  for (const button of document.querySelectorAll(".command button[hidden]")) button.hidden = false;
}

document.addEventListener("click", async (event) => {
  if (!event.target.matches(".command button")) return;
  const line = event.target.parentElement.querySelector("pre");
  try { await navigator.clipboard.writeText(line.textContent); event.target.textContent = "copied"; }
  catch { getSelection().selectAllChildren(line); }
});

// What is asked of a campaign bears the token of this page's address.
document.addEventListener("submit", async (event) => {
  const form = event.target;
  if (!form.dataset.post) return;
  event.preventDefault();
  const filled = [...new FormData(form, event.submitter)].filter(([, value]) => value);
  const headers = { "Content-Type": "application/json", "X-Roofsmith-Token": location.pathname.split("/")[1] };
  const body = JSON.stringify(Object.fromEntries(filled.map(([name, value]) => [name, Number(value)])));
  const answered = document.getElementById("answered");
  try {
    const answer = await (await fetch(form.dataset.post, { method: "POST", headers, body })).json();
    answered.textContent = answer.said || answer.reason;
  } catch { answered.textContent = "not answered: is the server there?"; }
});

// Times are the server's: how far its clock is off is known from when the page was made.
const moment = (text) => Date.parse(`${text.replace(" ", "T")}Z`);
const skews = new WeakMap();
function tick() {
  for (const clock of document.querySelectorAll("[data-clock]")) {
    if (!skews.has(clock)) skews.set(clock, moment(clock.dataset.at) - Date.now());
    const since = Math.max(0, Math.round((Date.now() + skews.get(clock) - moment(clock.dataset.clock)) / 1000));
    if (Number.isNaN(since)) continue;
    const parts = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]].map(([size, name], n, all) => [Math.floor((n ? since % all[n - 1][0] : since) / size), name]);
    const first = Math.min(parts.findIndex(([count]) => count) >>> 0, 3);
    clock.textContent = `for ${parts.slice(first, first + 2).map(([count, name]) => `${count} ${name}`).join(" ")}`;
    const stall = document.querySelector("[data-stall]");
    if (stall) stall.hidden = since < Number(clock.dataset.patience);
  }
}
for (const part of document.querySelectorAll("[data-part]")) part.dataset.was = part.innerHTML;
offer();
tick();
setInterval(tick, 1000);

if (main.dataset.events) {
  const source = new EventSource(`${main.dataset.events}${main.dataset.events.includes("?") ? "&" : "?"}since=${Number(main.dataset.since || 1)}`);
  source.onopen = () => { said.textContent = "live"; said.className = "on"; };
  source.onerror = () => { said.textContent = "not connected; trying again"; said.className = ""; };
  source.onmessage = (event) => {
    const news = JSON.parse(event.data);
    const broken = news.unreadable || (news.reason ? [news] : []);
    trouble.textContent = broken.map((one) => `${one.directory}: ${one.reason}`).join("\n");
    trouble.className = broken.length ? "trouble" : "";
    if (main.dataset.whole) refresh();
    else (news.campaigns || []).forEach(fill);
  };
}
