"use strict";
// The first run. What is done is asked of the gateway each time: this page remembers its session, and what was typed and not saved.
const $ = id => document.getElementById(id);
let facts = null, token = null;
// The token stands behind the #, and leaves the address as soon as the page has it.
function takeToken() {
  const found = /^#([0-9a-f]{32})$/.exec(location.hash)?.[1] ?? null;
  if (!found) return;
  token = found;
  history.replaceState(null, "", location.pathname);
}
takeToken();

const detailed = problem => problem.hint ? t("detailed", problem) : problem.message;
// A refusal with what to do about it, in the words that the steps show.
function worded(error) {
  if (!(error instanceof Refused)) return new Error(reasonFor(error));
  error.message = error.problem ? detailed(error.problem) : t("status", {n: error.status});
  return error;
}
// A document of the API, or lines of documents.
async function api(path, method = "GET", body = undefined) {
  let text;
  try {
    text = method === "GET" ? await textOf(path, undefined, shortAnswer) : await (await call(path, {method, body})).text();
  } catch (error) { throw worded(error); }
  try { return text ? JSON.parse(text) : text; } catch { return text; }
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
  const state = await api("/setup/state");
  const session = state.claimed ? await api("/api/v1/session") : null;
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
    const answer = await api("/setup/claim", "POST", {token: token ?? $("token").value.trim(), name: "set-up"});
    keepKey(answer.key);
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
  try {
    await showSession();
    if ($("steps").hidden) $("state").textContent = "";
  } catch (error) {
    $("state").textContent = error.message;
    const wait = waitAfter(error);
    if (wait !== null) setTimeout(begin, wait);
  }
  document.documentElement.dataset.ready = "true";
}
