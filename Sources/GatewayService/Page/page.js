"use strict";
const shown = 200;
const rows = document.getElementById("readings"), none = document.getElementById("none"), state = document.getElementById("state");
const quantity = q => q ? `${q.text} ${q.unit}` : "–";
// Numbers are shown with the digits the device sent, which JSON.parse would drop.
const parse = text => JSON.parse(text.replace(/"value":(-?[0-9.]+)/g, '"text":"$1"'));
const value = r => r.kind === "glucose" ? quantity(r.glucose)
  : `${r.blood_pressure.systolic?.text ?? "–"} / ${r.blood_pressure.diastolic?.text ?? "–"} ${r.blood_pressure.systolic?.unit ?? ""}` + (r.pulse ? `, pulse ${r.pulse.text}` : "");
const outcome = r => r.excluded ? `kept, not sent: ${r.excluded.replaceAll("_", " ")}` : r.held ? `waits: ${r.held.replaceAll("_", " ")}` : "stored";
function cell(row, text, name) { const td = document.createElement("td"); td.textContent = text; if (name) td.className = name; row.append(td); }
async function refresh() {
  const answer = await fetch("/api/v1/readings?limit=" + shown);
  if (!answer.ok) throw new Error(answer.status);
  const page = parse(await answer.text());
  rows.replaceChildren(...page.readings.map(r => {
    const row = document.createElement("tr");
    cell(row, r.time ? new Date(r.time).toLocaleString(undefined, {dateStyle: "medium", timeStyle: "short"}) : (r.device_time ?? "unknown").replace("T", " "), "");
    cell(row, value(r), "value");
    cell(row, [r.device.model, r.device.address].filter(Boolean).join(" "), "quiet");
    cell(row, outcome(r), r.excluded || r.held ? "quiet" : "delivered");
    return row;
  }));
  none.hidden = page.readings.length > 0;
  state.textContent = page.more ? `The newest ${shown} readings; there are more.` : `${page.readings.length} readings.`;
}
const when = t => t ? new Date(t).toLocaleString(undefined, {dateStyle: "medium", timeStyle: "short"}) : "never";
const clock = c => { const minutes = c ? Math.round(c.difference_seconds / 60) : 0; return !c ? "–" : Math.abs(c.difference_seconds) < 120 ? "right" : `${Math.abs(minutes)} min ${minutes > 0 ? "ahead" : "behind"}`; };
const contact = c => !c ? "none yet" : `${when(c.began)}: ` + (!c.ended ? "goes on, or was cut" : c.error ? c.error.replaceAll("_", " ") : c.complete ? "all came" : "records are missing");
async function refreshDevices() {
  const answer = await fetch("/api/v1/devices");
  if (!answer.ok) throw new Error(answer.status);
  const devices = (await answer.json()).devices;
  document.getElementById("devices").replaceChildren(...devices.map(d => {
    const row = document.createElement("tr");
    cell(row, [d.name, d.model, d.address].filter(Boolean).join(" "), "");
    cell(row, d.paired ? (d.proven ? "paired" : "paired, not proven yet") : "not paired", d.paired ? "" : "quiet");
    cell(row, d.battery_percent === null ? "–" : d.battery_percent + " %", "");
    cell(row, clock(d.clock), "");
    cell(row, contact(d.last_contact), d.last_contact?.error ? "" : "quiet");
    return row;
  }));
  document.getElementById("device-table").hidden = devices.length === 0;
}
let pending = false;
async function refreshSoon() { if (pending) return; pending = true; setTimeout(() => { pending = false; refreshAll(); }, 150); }
function refreshAll() { refresh().then(refreshDevices).catch(lost); }
function lost() { state.textContent = "The gateway does not answer; trying again …"; }
const events = new EventSource("/api/v1/events");
events.addEventListener("open", refreshSoon);
events.addEventListener("readings", refreshSoon);
events.addEventListener("error", lost);
refreshAll();
// A contact that brought nothing new is no event.
setInterval(() => refreshDevices().catch(() => {}), 60000);
