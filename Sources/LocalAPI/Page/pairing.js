"use strict";
// Pairing a meter: what is in reach, the digits it shows, and how it went.
const Pairing = (() => {
  const found = new Map();
  const sureness = {from_code: "pair_not_tried", from_documents: "pair_documents"};
  let current = null, timer = null, scanning = null, isPairing = false, models = null, chosen = null;
  // What is said while it goes on; the last of it that was said.
  let begun = "", said = null;

  function tell(text) { if ($("pair-state").textContent !== text) $("pair-state").textContent = text; }
  const worded = problem => radioFaults[problem.code]?.() ?? problem.message + (problem.hint ? ` (${problem.hint})` : "");
  function reset() {
    clearTimeout(timer);
    scanning?.abort();
    found.clear();
    $("pair-found").replaceChildren();
    $("passkey-form").hidden = $("model-form").hidden = $("confirm").hidden = $("pair-again").hidden = true;
    $("pair-found").hidden = $("pair-help").hidden = false;
    current = null;
    isPairing = false;
    chosen = null;
  }

  function offer(device) {
    if (device.error) { tell(worded(device.error)); return; }
    if (!device.address || found.has(device.address)) return;
    found.set(device.address, device);
    const li = document.createElement("li"), button = document.createElement("button");
    const what = device.choose_from ?? (device.model ? modelName(device.model) : null);
    let offer = t(what ? "pair_offer_model" : "pair_offer", {name: device.name ?? device.address, model: what});
    if (device.pairing_mode) offer = t("pair_in_mode", {offer});
    if (device.paired) offer = t("pair_already", {offer});
    button.textContent = offer;
    button.addEventListener("click", () => device.choose_from ? choose(device) : start(device));
    li.append(button);
    $("pair-found").append(li);
  }

  async function scan() {
    reset();
    tell(t("pair_looking"));
    scanning = new AbortController();
    try {
      const answer = await call("/api/v1/scan", {method: "POST", body: {seconds: 30}, signal: scanning.signal});
      await eachLine(answer, line => { if (line) offer(JSON.parse(line)); });
      if ($("pair-state").textContent === t("pair_looking")) tell(found.size === 0 ? t("pair_none") : "");
    } catch (error) {
      if (error.name !== "AbortError") tell(reasonFor(error));
    }
    if (!isPairing) $("pair-again").hidden = false;
  }

  // Models that no name tells apart: the person reads the number on the label.
  async function choose(device) {
    isPairing = true;
    scanning?.abort();
    $("pair-found").hidden = $("pair-help").hidden = $("pair-again").hidden = true;
    try {
      models ??= (await (await call("/api/v1/models")).json()).models;
    } catch (error) { tell(reasonFor(error)); $("pair-again").hidden = false; return; }
    chosen = device;
    $("model").replaceChildren(new Option(t("pair_choose"), ""), ...models.filter(each => each.brand === device.choose_from)
      .map(each => new Option(sureness[each.certainty] ? t(sureness[each.certainty], {name: each.name}) : each.name, each.id)),
      new Option(t("pair_no_model"), "none"));
    $("model-help").textContent = t(device.pairing_mode === false ? "pair_not_in_mode" : "pair_places", {brand: device.choose_from});
    tell("");
    $("model-form").hidden = false;
    $("model").focus();
  }

  async function start(device, model) {
    isPairing = true;
    scanning?.abort();
    $("pair-found").hidden = $("pair-help").hidden = $("pair-again").hidden = $("model-form").hidden = true;
    begun = said = t("pair_with", {name: device.name ?? device.address});
    tell(begun);
    try {
      current = await (await call("/api/v1/pairings", {method: "POST", body: model ? {address: device.address, model} : {address: device.address}})).json();
      poll();
    } catch (error) { tell(reasonFor(error)); $("pair-again").hidden = false; }
  }

  async function poll() {
    if (!current) return;
    const {id} = current;
    let pairing;
    try {
      pairing = JSON.parse(await textOf("/api/v1/pairings/" + id, undefined, shortAnswer));
    } catch (error) {
      if (current?.id !== id) return;
      // The pairing goes on without this answer, and may have a question.
      const wait = waitAfter(error);
      if (wait !== null) { said = null; tell(t("silent")); timer = setTimeout(poll, wait); return; }
      tell(error.message);
      $("pair-again").hidden = false;
      current = null;
      return;
    }
    // Somebody may have closed it meanwhile.
    if (current?.id === id) show(pairing);
  }

  function show(pairing) {
    const question = pairing.question;
    const wantsDigits = question?.kind === "passkey", wantsWord = question && !wantsDigits;
    if ($("passkey-form").hidden === wantsDigits) {
      $("passkey-form").hidden = !wantsDigits;
      if (wantsDigits) {
        $("passkey-label").textContent = t("pair_digits", {name: question.device});
        $("passkey").value = "";
        $("passkey").focus();
      }
    }
    if ($("confirm").hidden === wantsWord) {
      $("confirm").hidden = !wantsWord;
      if (wantsWord) {
        $("confirm-text").textContent = question.kind === "comparison"
          ? t("pair_comparison", {name: question.device, digits: question.digits})
          : t("pair_without", {name: question.device});
        $("confirm-yes").focus();
      }
    }
    if (pairing.state === "done") {
      tell(t(pairing.proven ? "pair_proven" : "pair_unproven"));
      current = null;
      $("pair-again").hidden = false;
      refreshSoon();
    } else if (pairing.state === "failed") {
      tell(worded(pairing.error));
      current = null;
      $("pair-again").hidden = false;
    } else {
      // Once each: what is said of an answer that was refused stays until there is more to say.
      const last = pairing.notes[pairing.notes.length - 1] ?? begun;
      if (last !== said) { said = last; tell(last); }
      timer = setTimeout(poll, 400);
    }
  }

  async function answer(body) {
    if (!current) return;
    $("passkey-form").hidden = $("confirm").hidden = true;
    try { await call(`/api/v1/pairings/${current.id}/answer`, {method: "POST", body}); } catch (error) { tell(reasonFor(error)); }
  }

  $("pair-open").addEventListener("click", () => { $("pair").showModal(); scan(); });
  $("pair-again").addEventListener("click", scan);
  $("pair-close").addEventListener("click", () => $("pair").close());
  $("pair").addEventListener("close", () => {
    if (current) call("/api/v1/pairings/" + current.id, {method: "DELETE"}).catch(() => {});
    reset();
    tell("");
  });
  $("model-form").addEventListener("submit", event => {
    event.preventDefault();
    if (chosen) start(chosen, $("model").value === "none" ? null : $("model").value);
  });
  $("passkey-form").addEventListener("submit", event => { event.preventDefault(); answer({passkey: $("passkey").value}); });
  $("confirm-yes").addEventListener("click", () => answer({confirmed: true}));
  $("confirm-no").addEventListener("click", () => answer({confirmed: false}));
  return {scan};
})();
