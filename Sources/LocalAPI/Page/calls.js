"use strict";
// What the pages ask of the gateway, and how it refuses.
// The session's token has two halves: a cookie, which no script reads and every port of this host is sent, and this
// key, which the browser keeps for this origin. Neither opens anything without the other.
const keyName = "healthrelay-session-key";
let key = null, csrf = null;
try { key = localStorage.getItem(keyName); } catch { /* storage is off: the session ends with the page */ }
// What was typed in the set-up and nobody has saved: this tab has it over a reload, for the session in which it was typed.
const draftsName = "healthrelay-setup-drafts";
function keepKey(text) {
  key = text;
  try { sessionStorage.removeItem(draftsName); } catch { /* as above */ }
  try { text ? localStorage.setItem(keyName, text) : localStorage.removeItem(keyName); } catch { /* as above */ }
}
// The secret of a read-only link stays behind the #, so that the page can be reloaded and kept as a bookmark.
const linkSecret = () => /^#([0-9a-f]{64})$/.exec(location.hash)?.[1] ?? null;
let viewer = linkSecret();

class Refused extends Error {
  constructor(answer, problem) {
    super(problem?.message ?? `status ${answer.status}`);
    [this.status, this.problem, this.code, this.headers] = [answer.status, problem, problem?.code, answer.headers];
  }
}
// The answer to a request, or an error of the gateway's. A body is sent as JSON unless its headers say otherwise.
async function call(path, {method = "GET", body, headers = {}, signal} = {}) {
  headers = {...headers};
  if (viewer) headers.Authorization = "Bearer " + viewer; else if (key) headers["X-Session-Key"] = key;
  if (method !== "GET") { headers["Content-Type"] ??= "application/json"; if (csrf) headers["X-CSRF-Token"] = csrf; }
  const isJSON = headers["Content-Type"] === "application/json" && method !== "DELETE";
  const answer = await fetch(path, {method, headers, signal, credentials: "same-origin", body: isJSON ? JSON.stringify(body ?? {}) : body});
  if (answer.ok) return answer;
  let problem = null;
  try { problem = (await answer.json()).error ?? null; } catch { /* no document came with it */ }
  // A gateway that started anew has another secret for its tokens, while sessions go on.
  if (problem?.code === "csrf_token_needed") {
    csrf = (await (await call("/api/v1/session", {signal})).json()).csrf_token;
    if (csrf && csrf !== headers["X-CSRF-Token"]) return call(path, {method, body, headers, signal});
  }
  throw new Refused(answer, problem);
}
// The text of an answer. A connection that broke may never say so: what does not come in time counts as not answered. Reports
// of many years take long.
const longestAnswer = 120000;
async function textOf(path, signal, limit = longestAnswer) {
  const over = new AbortController(), stop = () => over.abort();
  let isLate = false;
  const timer = setTimeout(() => { isLate = true; stop(); }, limit);
  signal?.addEventListener("abort", stop);
  try {
    signal?.throwIfAborted();
    return await (await call(path, {signal: over.signal})).text();
  } catch (error) {
    throw isLate ? new Error("no answer in time") : error;
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener("abort", stop);
  }
}
// How long an answer may take that the gateway has at once.
const shortAnswer = 20000;
// What a person is told of a request that failed. What the browser says of a connection is for nobody.
const reasonFor = error => error instanceof Refused ? error.message : t("no_answer");
// A path with its parameters. A space is %20: the gateway takes a plus for what it is.
function addressed(path, parameters) {
  const query = new URLSearchParams(parameters).toString().replaceAll("+", "%20");
  return query ? `${path}?${query}` : path;
}
// How long to wait until what failed is asked again, in milliseconds; null where the same answer would come again. A key
// that is missing may be away for long.
function waitAfter(error) {
  if (error.status === 423) return 15000;
  if (error.status >= 400 && error.status < 500 && ![408, 429].includes(error.status)) return null;
  return Math.max(3000, 1000 * (Number(error.headers?.get("Retry-After")) || 0));
}
// Takes an answer's lines as they come.
async function eachLine(answer, take) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let rest = "";;) {
    const {value: part, done} = await reader.read();
    if (done) return;
    const lines = (rest + part).split("\n");
    rest = lines.pop();
    for (const line of lines) take(line);
  }
}
