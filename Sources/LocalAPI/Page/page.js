"use strict";
const $ = id => document.getElementById(id);
const shown = 25, pageSize = 10000;
let csrf = null, rowsShown = shown, mayChange = false;
// Whom the session is for; null: the household. Whom the page shows, and by which clocks.
let person = null, chosen = null, zone = "UTC";

// The session's token has two halves: a cookie, which no script reads and every port of this host is sent, and this
// key, which the browser keeps for this origin. Neither opens anything without the other.
const keyName = "healthrelay-session-key";
let key = null;
try { key = localStorage.getItem(keyName); } catch { /* storage is off: the session ends with the page */ }
function keepKey(text) {
  key = text;
  try { text ? localStorage.setItem(keyName, text) : localStorage.removeItem(keyName); } catch { /* as above */ }
}
// The one-time code of a link stands behind the #, and leaves the address as soon as the page has it.
let link = null;
// The secret of a read-only link stays behind the #, so that the page can be reloaded and kept as a bookmark.
let viewer = null;
function takeLink() {
  viewer = /^#([0-9a-f]{64})$/.exec(location.hash)?.[1] ?? null;
  link = /^#([0-9a-f]{32})$/.exec(location.hash)?.[1] ?? null;
  if (link) history.replaceState(null, "", location.pathname);
}
takeLink();

// Numbers are shown with the digits the device sent, which JSON.parse would drop.
const parse = text => JSON.parse(text.replace(/"value":(-?[0-9.]+)/g, '"value":$1,"text":"$1"'));
const quantity = q => q ? leftToRight(`${digits(q.text)} ${q.unit}`) : "–";
// The main value of each kind.
const mains = {
  glucose: r => r.glucose, blood_pressure: r => r.blood_pressure.systolic, heart_rate: r => r.heart_rate,
  hrv: r => r.hrv.rmssd === null ? null : {value: r.hrv.rmssd, text: String(r.hrv.rmssd), unit: "ms"},
  spo2: r => r.spo2, temperature: r => r.temperature, weight: r => r.weight, body_composition: r => r.body_composition,
};
const main = r => mains[r.kind]?.(r) ?? null;
// What another program sent and nobody interprets.
const kept = r => ["activity", "sleep", "other"].includes(r.kind) ? r[r.kind] : null;
const pressures = (r, between) => digits(r.blood_pressure.systolic?.text ?? "–") + between + digits(r.blood_pressure.diastolic?.text ?? "–");
const pressure = r => leftToRight(`${pressures(r, " / ")} ${r.blood_pressure.systolic?.unit ?? ""}`);
// HI and LO are what a meter shows instead of a number.
const beyond = r => r.status.includes("result_too_high") ? "HI" : r.status.includes("result_too_low") ? "LO" : null;
function value(r) {
  const text = r.kind === "blood_pressure" ? pressure(r) : kept(r) ? `${kept(r).type} ${quantity(kept(r))}`
    : r.kind === "glucose" && beyond(r) ? beyond(r) : quantity(main(r));
  return r.pulse ? t("with_pulse", {value: text, pulse: digits(r.pulse.text)}) : text;
}
const outcomeOf = d => t("delivery_" + d.state, {reason: d.state === "held" ? words(d.reason) : d.reason});
// With one destination its name says nothing.
const outcome = r => r.excluded ? t("excluded", {reason: words(r.excluded)}) : !r.deliveries.length ? t("stored")
  : r.deliveries.map(d => r.deliveries.length > 1 ? t("delivery_of", {destination: d.destination, outcome: outcomeOf(d)}) : outcomeOf(d)).join("; ");
const isHeldUp = r => r.excluded || r.deliveries.some(d => d.state === "held" || d.state === "refused");
// Days and times are those of the person, wherever the browser is.
const moment = time => new Intl.DateTimeFormat(locale, {dateStyle: "medium", timeStyle: "short", timeZone: zone}).format(new Date(time));
const dayOf = time => new Intl.DateTimeFormat("en-CA", {timeZone: zone}).format(time);
const when = time => time ? moment(time) : t("never");
const readingTime = r => r.time ? moment(r.time) : (r.device_time ?? t("unknown")).replace("T", " ");

class Refused extends Error {
  constructor(status, problem) { super(problem?.message ?? `status ${status}`); this.status = status; this.problem = problem; }
}
async function call(path, options = {}) {
  const headers = {...options.headers};
  if (viewer) headers.Authorization = "Bearer " + viewer; else if (key) headers["X-Session-Key"] = key;
  if (options.method && options.method !== "GET") { headers["Content-Type"] = "application/json"; if (csrf) headers["X-CSRF-Token"] = csrf; }
  const answer = await fetch(path, {...options, headers, credentials: "same-origin"});
  if (answer.ok) return answer;
  let problem = null;
  try { problem = (await answer.json()).error; } catch { /* no document came with it */ }
  throw new Refused(answer.status, problem);
}
// A path with its parameters, and the person that the page shows.
function place(path, parameters = {}) {
  const query = new URLSearchParams(parameters);
  if (chosen) query.set("person", chosen);
  return query.size ? `${path}?${query}` : path;
}
const read = async path => parse(await (await call(path)).text());

function cell(row, text, name, label) {
  const td = document.createElement("td");
  td.textContent = text;
  if (name) td.className = name;
  if (label) td.dataset.name = label;
  row.append(td);
}
function readingRow(r) {
  const row = document.createElement("tr");
  cell(row, readingTime(r));
  cell(row, value(r), "value");
  cell(row, [r.device.model, r.device.address].filter(Boolean).join(" "), "quiet", t("device"));
  cell(row, [r.entry?.note, r.left_out && (r.left_out.reason ? t("left_out_because", {reason: r.left_out.reason}) : t("left_out"))].filter(Boolean).join("; "), "", t("note"));
  cell(row, outcome(r), isHeldUp(r) ? "quiet" : "delivered", t("delivery"));
  return row;
}

let asked = 0;
async function refreshReadings() {
  const mine = ++asked;
  const page = await read(place("/api/v1/readings", {limit: Math.min(rowsShown, pageSize), series: "false"}));
  // The answer to a later question is newer, and may be longer.
  if (mine !== asked) return;
  $("readings").replaceChildren(...page.readings.map(readingRow));
  $("none").hidden = page.readings.length > 0;
  $("older").hidden = !page.more || rowsShown >= pageSize;
}
$("older").addEventListener("click", async () => {
  const first = $("readings").rows.length;
  rowsShown += shown;
  try { await refreshReadings(); } catch (error) { return failed(error); }
  const row = $("readings").rows[first];
  if (row) { row.tabIndex = -1; row.focus(); }
});

function card(title, big, unit, below, warn) {
  const box = document.createElement("div"), dt = document.createElement("dt"), dd = document.createElement("dd"), note = document.createElement("dd");
  dt.textContent = title;
  dd.className = "big";
  dd.append(big);
  if (unit) { const small = document.createElement("small"); small.textContent = " " + unit; dd.append(small); }
  note.textContent = below;
  note.className = warn ? "warn" : "quiet";
  box.append(dt, dd, note);
  return box;
}
function ago(time) {
  const minutes = Math.round((Date.now() - new Date(time)) / 60000);
  return minutes < 1 ? t("just_now") : minutes < 60 ? t("minutes_ago", {n: minutes})
    : minutes < 2880 ? t("hours_ago", {n: Math.round(minutes / 60)}) : t("days_ago", {n: Math.round(minutes / 1440)});
}

async function refreshGlance() {
  const [gateway, latest, devices, sync] = await Promise.all([
    read(place("/api/v1/gateway")), read(place("/api/v1/readings", {series: "false", latest: "true"})), read(place("/api/v1/devices")),
    // What waits is told for the whole household only.
    person === null ? read("/api/v1/sync") : {destinations: []}]);
  const of = kind => latest.readings.find(r => r.kind === kind);
  const glucose = of("glucose"), last = of("blood_pressure");
  const cards = [];
  if (glucose) cards.push(card(t("last_glucose"), beyond(glucose) ?? digits(glucose.glucose?.text ?? "–"), glucose.glucose?.unit, readingTime(glucose)));
  if (last) cards.push(card(t("last_pressure"),
    pressures(last, "/"),
    last.blood_pressure.systolic?.unit, readingTime(last)));
  const waiting = sync.destinations.flatMap(d => d.waiting.map(w => ({...w, destination: d.name})));
  const refused = sync.destinations.filter(d => d.refused.length);
  const held = waiting.filter(w => w.held).map(w => words(w.held));
  cards.push(card(t("waiting"), String(gateway.waiting), t("readings_unit", {n: gateway.waiting}),
    !gateway.delivers ? t("no_key") : held.length ? [...new Set(held)].join(", ")
      : gateway.last_delivery ? t("last_delivered", {ago: ago(gateway.last_delivery)}) : t("nothing_delivered"), held.length > 0 && gateway.delivers));
  const failing = devices.devices.filter(d => d.last_contact?.error).length;
  const weak = devices.devices.filter(d => d.battery_percent !== null && d.battery_percent <= 15).length;
  cards.push(card(t("devices"), String(gateway.devices), "", failing ? t("devices_failing", {n: failing}) : weak ? t("batteries_low", {n: weak})
    : gateway.devices ? t("devices_well") : t("no_device"), failing + weak > 0));
  $("glance").replaceChildren(...cards);
  refreshDevices(devices.devices);
  $("waiting").replaceChildren(...(waiting.length ? waiting.map(w => item(
    t("waits_for", {n: w.count, kind: words(w.kind), provider: w.provider, destination: w.destination, outcome: w.held ? words(w.held) : t("delivery_waiting")})))
    : [item(t("nothing_waits"))]),
    ...refused.map(d => item(t("refused_by", {n: d.refused.length, destination: d.name}))),
    ...sync.destinations.filter(d => d.left_behind.count).map(d => item(t("still_at", {n: d.left_behind.count, destination: d.name}))));
}
function item(text) { const li = document.createElement("li"); li.textContent = text; return li; }

function clock(c) {
  if (!c) return "–";
  if (Math.abs(c.difference_seconds) < 120) return t("clock_right");
  const minutes = Math.round(c.difference_seconds / 60);
  return t(minutes > 0 ? "clock_ahead" : "clock_behind", {n: Math.abs(minutes)});
}
const contact = c => !c ? t("no_contact") : t(!c.ended ? "contact_goes_on" : c.error ? "contact_error" : c.complete ? "contact_complete" : "contact_gaps",
  {time: when(c.began), error: c.error ? words(c.error) : ""});
function refreshDevices(devices) {
  $("devices").replaceChildren(...devices.map(d => {
    const row = document.createElement("tr");
    cell(row, [d.name, d.model, d.address].filter(Boolean).join(" "));
    cell(row, t(d.paired ? (d.proven ? "paired" : "paired_unproven") : "not_paired"), d.paired ? "" : "quiet", t("bond"));
    cell(row, d.battery_percent === null ? "–" : d.battery_percent + " %", "", t("battery"));
    cell(row, clock(d.clock), "", t("clock"));
    cell(row, contact(d.last_contact), d.last_contact?.error ? "warn" : "quiet", t("contact"));
    return row;
  }));
  $("device-table").hidden = devices.length === 0;
  $("no-devices").hidden = devices.length > 0;
}

const eventsShown = ["reading", "left", "pruned", "erased", "sync", "connection", "resync"];
let consented = [], pending = false, again = false, source = null;
async function refreshAll() {
  try {
    if (viewer) await Reports.soon(consented); else await Promise.all([refreshReadings(), refreshGlance(), Reports.soon(consented)]);
    document.documentElement.dataset.ready = "true";
  } catch (error) { failed(error); }
}
// Readings come in bursts; the page is drawn anew once a burst.
function refreshSoon() {
  if (pending) { again = true; return; }
  pending = true;
  setTimeout(async () => { await refreshAll(); pending = false; if (again) { again = false; refreshSoon(); } }, 200);
}
function failed(error) {
  if (viewer && error instanceof Refused && error.status === 401) return ended();
  if (error instanceof Refused && error.status === 401) return begin();
  if (error instanceof Refused && error.status === 423) return say(t("locked"));
  if (error instanceof Refused && error.status === 403) return say(error.message + ".");
  say(t("silent"));
}
function say(text) { if ($("state").textContent !== text) $("state").textContent = text; }
// Events by fetch: an EventSource cannot send the session's key.
async function listen() {
  source?.abort();
  const mine = source = new AbortController();
  const end = new Promise(resolve => mine.signal.addEventListener("abort", resolve));
  for (let last = null; source === mine && !mine.signal.aborted;) {
    try {
      const answer = await call("/api/v1/events", {signal: mine.signal, headers: last ? {"Last-Event-ID": last} : {}});
      say(t("live"));
      refreshSoon();
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      for (let rest = "", name = "", data = "";;) {
        const {value: part, done} = await reader.read();
        if (done) break;
        const lines = (rest + part).split("\n");
        rest = lines.pop();
        for (const line of lines) {
          if (line.startsWith("id: ")) last = line.slice(4);
          else if (line.startsWith("event: ")) name = line.slice(7);
          else if (line.startsWith("data: ")) data = line.slice(6);
          else if (line === "" && name) { if (name === "reading") Measure.notice(parse(data)); if (eventsShown.includes(name)) refreshSoon(); name = ""; }
        }
      }
    } catch (error) {
      if (mine.signal.aborted) return;
      if (error instanceof Refused && error.status === 401) return viewer ? ended() : begin();
    }
    if (mine.signal.aborted) return;
    say(t("silent"));
    await Promise.race([end, new Promise(resolve => setTimeout(resolve, 3000))]);
  }
}
// A read-only link has ended: nothing of the person stays on the screen.
function ended() {
  source?.abort();
  Reports.forget();
  for (const each of ["content", "sign-in", "whose", "sign-out"]) $(each).hidden = true;
  say(t("link_ended"));
  document.documentElement.dataset.ready = "true";
}
// A read-only link shows figures and charts of one person over its days, and nothing else.
async function look(session) {
  const view = await read("/api/v1/view");
  [person, zone, consented, mayChange] = [view.person, view.time_zone, view.kinds, false];
  Reports.fix(session.link.days);
  for (const each of ["device-part", "delivery", "reading-part", "glance-part", "range", "own", "sign-in", "sign-out", "choice"]) $(each).hidden = true;
  $("content").hidden = false;
  $("whose").hidden = false;
  $("whose").textContent = t("link_shows", {person: view.person ?? t("the_user"), n: session.link.days, until: moment(session.link.until)});
  listen();
}
async function begin() {
  let session;
  try { session = await read("/api/v1/session"); } catch { say(t("silent")); return setTimeout(begin, 3000); }
  if (viewer) {
    if (!session.link) return ended();
    try { return await look(session); } catch (error) { return failed(error); }
  }
  csrf = session.csrf_token;
  if (link && !session.signed_in) { const code = link; link = null; return signIn({link: code}); }
  link = null;
  $("sign-in").hidden = session.signed_in;
  $("content").hidden = !session.signed_in;
  $("sign-out").hidden = !session.signed_in || session.trusted;
  // The gateway refuses what a scope does not allow; the page does not offer it.
  person = session.person;
  $("whose").textContent = person === null ? "" : t("signed_in_for", {person});
  $("whose").hidden = person === null;
  $("delivery").hidden = person !== null;
  mayChange = session.signed_in && session.scope !== "read";
  $("pair-open").hidden = session.scope === "read";
  if (!session.signed_in) { source?.abort(); say(t("signed_out")); $("code").focus(); document.documentElement.dataset.ready = "true"; return; }
  try { await choose(chosen); } catch (error) { return failed(error); }
  listen();
}
// Whom the page shows: a household has one of its people at a time.
async function choose(name) {
  const house = await read("/api/v1/gateway"), people = person === null ? house.people : [];
  chosen = people.length > 1 ? name ?? house.user : null;
  $("choice").hidden = people.length < 2;
  $("person").replaceChildren(...people.map(each => new Option(each.id ?? t("the_user"), each.id ?? "")));
  $("person").value = chosen ?? "";
  const gateway = chosen ? await read(place("/api/v1/gateway")) : house;
  zone = gateway.time_zone;
  try { dayOf(new Date()); } catch { zone = "UTC"; /* a browser without this zone */ }
  consented = gateway.consent;
}
$("person").addEventListener("change", async () => {
  Reports.forget();
  try { await choose($("person").value || null); } catch (error) { return failed(error); }
  refreshSoon();
});
async function signIn(proof) {
  $("sign-in-error").textContent = "";
  try {
    const answer = await call("/api/v1/session", {method: "POST", body: JSON.stringify({...proof, name: navigator.userAgent.slice(0, 60)})});
    keepKey((await answer.json()).key);
    $("code").value = "";
  } catch (error) {
    await begin();
    $("sign-in-error").textContent = error.message;
    return $("code").select();
  }
  return begin();
}
$("sign-in-form").addEventListener("submit", event => { event.preventDefault(); signIn({code: $("code").value.trim()}); });
// A link that is opened where the page is open already changes nothing but what is behind the #.
addEventListener("hashchange", () => { const before = viewer; takeLink(); if (viewer !== before) location.reload(); else if (link) begin(); });
$("sign-out").addEventListener("click", async () => { try { await call("/api/v1/session", {method: "DELETE"}); } finally { keepKey(null); begin(); } });
// Ages grow without an event.
setInterval(() => { if (!viewer && !$("content").hidden && !document.hidden) refreshGlance().catch(failed); }, 60000);
document.addEventListener("visibilitychange", () => { if (!document.hidden && !$("content").hidden) refreshSoon(); });
$("language").addEventListener("change", () => { keepLanguage($("language").value); location.reload(); });
wordsReady.then(() => { $("language").append(...languageOptions()); return begin(); });
