"use strict";
// The first run. What is done is asked of the gateway each time: this page remembers nothing but its session.
const $ = id => document.getElementById(id);
const keyName = "healthrelay-session-key";
let key = null, csrf = null, facts = null, token = null;
try { key = localStorage.getItem(keyName); } catch { /* storage is off: the session ends with the page */ }
// The token stands behind the #, and leaves the address as soon as the page has it.
function takeToken() {
  const found = /^#([0-9a-f]{32})$/.exec(location.hash)?.[1] ?? null;
  if (!found) return;
  token = found;
  history.replaceState(null, "", location.pathname);
}
takeToken();

const detailed = problem => problem.hint ? t("detailed", problem) : problem.message;
class Refused extends Error {
  constructor(status, problem) {
    super(problem ? detailed(problem) : t("status", {n: status}));
    this.status = status; this.code = problem?.code;
  }
}
async function call(path, method = "GET", body = undefined) {
  const headers = {};
  if (key) headers["X-Session-Key"] = key;
  if (method !== "GET") { headers["Content-Type"] = "application/json"; if (csrf) headers["X-CSRF-Token"] = csrf; }
  const answer = await fetch(path, {method, headers, credentials: "same-origin",
    body: method === "GET" || method === "DELETE" ? undefined : JSON.stringify(body ?? {})});
  const text = await answer.text();
  let document = null;
  try { document = text ? JSON.parse(text) : null; } catch { /* lines of documents, or none */ }
  if (!answer.ok) throw new Refused(answer.status, document?.error);
  return document ?? text;
}
const pause = milliseconds => new Promise(done => setTimeout(done, milliseconds));

// Elements are made of text alone: nothing that anybody typed is ever markup.
function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [attribute, value] of Object.entries(attributes)) {
    if (attribute === "on") element.addEventListener(...value);
    else if (value === true) element.setAttribute(attribute, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(attribute, value);
  }
  element.append(...children.filter(child => child !== null && child !== undefined));
  return element;
}
const field = (id, label, attributes = {}) => make("p", {}, make("label", {for: id}, label), make("input", {id, autocomplete: "off", dir: "auto", ...attributes}));
const choice = (id, label, options, value) => make("p", {}, make("label", {for: id}, label),
  make("select", {id}, ...options.map(([code, name]) => make("option", {value: code, selected: code === value}, name))));

// Texts that are listed, and a sentence with elements in it.
const listed = texts => texts.reduceRight((rest, first) => rest === null ? first : t("listed", {first, rest}), null);
const sentence = (name, ...elements) => withElements(phraseOf(name), elements);

// Says everything in another language, and what the steps hold too.
async function changeLanguage(name) {
  await learn(name);
  translate();
  $("language").replaceChildren(...languageOptions());
}
$("language").addEventListener("change", async () => {
  const name = $("language").value;
  keepLanguage(name);
  await changeLanguage(name);
});

async function showSession() {
  const state = await call("/setup/state");
  const session = state.claimed ? await call("/api/v1/session") : null;
  csrf = session?.csrf_token ?? null;
  $("claim").hidden = state.claimed;
  $("token-part").hidden = token !== null;
  $("owned").hidden = !state.claimed || session.scope === "owner";
  $("steps").hidden = !(state.claimed && session.scope === "owner");
  $("language-choice").hidden = !$("steps").hidden;
  if (!$("steps").hidden && typeof showSteps === "function") await showSteps();
}
$("claim-form").addEventListener("submit", async event => {
  event.preventDefault();
  $("claim-error").textContent = "";
  try {
    const answer = await call("/setup/claim", "POST", {token: token ?? $("token").value.trim(), name: "set-up"});
    key = answer.key;
    try { localStorage.setItem(keyName, key); } catch { /* as above */ }
    token = null;
    await showSession();
    $("steps").querySelector("summary")?.focus();
  } catch (error) {
    // The link was used or replaced: another one can be typed.
    token = null;
    $("claim-error").textContent = error.message;
    if (error.code === "already_claimed") await showSession().catch(() => {}); else $("token-part").hidden = false;
  }
});
window.addEventListener("hashchange", () => { takeToken(); showSession().catch(() => {}); });
async function begin() {
  await wordsReady;
  $("language").replaceChildren(...languageOptions());
  try { await showSession(); } catch (error) { $("state").textContent = error.message; }
  document.documentElement.dataset.ready = "true";
}
