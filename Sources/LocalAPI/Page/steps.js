"use strict";
// The steps of the set-up, each with what the gateway says of it.
let settings = null;
const rowOf = key => settings.settings.find(row => row.key === key);
const isFixed = key => !!rowOf(key)?.fixed;
const fixedNote = key => isFixed(key) ? make("p", {class: "note"}, rowOf(key).place ? t("fixed", {place: rowOf(key).place}) : t("fixed_elsewhere")) : null;
const nameOf = device => device.name ?? device.model ?? device.address;

// Waits for a gateway that starts anew; it has another secret for its tokens then.
async function comeBack(isBack, tries = 240) {
  while (tries-- > 0) {
    await pause(500);
    try {
      csrf = (await api("/api/v1/session")).csrf_token;
      const stand = await api("/api/v1/setup");
      if (isBack(stand)) return stand;
    } catch (error) { if (error.status && error.status < 500) throw error; }
  }
  throw new Error(t("not_back"));
}
async function restart(tell) {
  tell(t("restarting"));
  await api("/api/v1/restart", "POST");
  await comeBack(stand => stand.after_restart.length === 0);
}
async function change(body, tell) {
  if (!["set", "secrets", "unset"].some(each => body[each]?.length || Object.keys(body[each] ?? {}).length)) return;
  const outcome = await api("/api/v1/settings", "PATCH", {...body, digest: settings.digest});
  if (outcome.after_restart.length > 0) await restart(tell);
}

// A form whose button does something and tells how it went.
function form(id, button, action, ...parts) {
  const told = make("p", {id: id + "-told", class: "told", role: "status"}), wrong = make("p", {id: id + "-error", role: "alert"});
  const submit = make("button", {type: "submit", id: id + "-go", "aria-describedby": `${id}-told ${id}-error`}, button);
  return make("form", {id: id + "-form", on: ["submit", async event => {
    event.preventDefault();
    const held = document.activeElement;
    wrong.textContent = told.textContent = "";
    submit.disabled = true;
    try {
      const words = await action(text => { told.textContent = text; });
      await showSteps(id);
      if (words && $(id + "-told")) $(id + "-told").textContent = words;
    } catch (error) {
      wrong.textContent = error.message;
      if (error.code === "settings_changed") await readAgain(id, t("read_again", {message: error.message})).catch(again => { wrong.textContent = again.message; });
    } finally {
      submit.disabled = false;
      // A button that cannot be pressed, or is gone, has lost the focus; who is elsewhere by now stays there.
      if (held !== document.body && document.activeElement === document.body) ($(held.id) ?? $(stepOf(id)).querySelector("summary")).focus();
    }
  }]}, ...parts, submit, told, wrong);
}
// What somebody has entered in a field and nobody has saved: other than what stood there.
const formerly = element => element.type === "checkbox" ? element.defaultChecked
  : element.options ? ([...element.options].find(each => each.defaultSelected) ?? element.options[0])?.value ?? "" : element.defaultValue;
const currently = element => element.type === "checkbox" ? element.checked : element.value;
const isEntered = element => !["file", "submit"].includes(element.type) && currently(element) !== formerly(element);
const formOf = element => element.form.id.slice(0, -"-form".length);
// What is added is of what is chosen beside it, which is kept with it.
const isChosen = element => element.options && !comparable.includes(formOf(element)) && [...element.form.elements].some(each => each.id && isEntered(each));
// A URL may hold a name, a password or a token, which the gateway does not show either.
const isSecret = element => element.type === "password" || /url$/.test(element.id) && /[@?]/.test(element.value);
const draftOf = each => ({id: each.id, form: formOf(each), isSecret: isSecret(each), before: formerly(each), value: currently(each),
  text: each.type === "checkbox" ? t(each.checked ? "yes" : "no") : each.options ? each.selectedOptions[0]?.textContent : each.value || t("none")});
// What stands in the fields, and what stands beside one in which nothing else was entered since.
const entered = () => [...[...$("list").querySelectorAll("form[id] :is(input, select)")].filter(each => each.id && (isEntered(each) || isChosen(each))).map(draftOf),
  ...[...$("list").querySelectorAll("p.note")].map(each => each.draft)].filter((each, at, all) => each && all.findIndex(other => other?.id === each.id) === at);
// It outlives a reload of this tab, but for what is secret.
function keepDrafts() {
  try { sessionStorage.setItem(draftsName, JSON.stringify(entered().filter(each => !each.isSecret))); } catch { /* storage is off: it ends with the page */ }
}
function keptDrafts() {
  try { return JSON.parse(sessionStorage.getItem(draftsName)) ?? []; } catch { return []; }
}
for (const each of ["input", "change"]) $("list").addEventListener(each, keepDrafts);
// Enters it again. Where the setting is another one by now, what was entered stands beside the field, to be entered again or not.
function enterAgain(draft, isOther) {
  const {id, form, isSecret, value, text} = draft, element = $(id);
  if (!element || element.disabled || element.options && ![...element.options].some(each => each.value === value)) return;
  const enter = () => { element[element.type === "checkbox" ? "checked" : "value"] = value; element.dispatchEvent(new Event("change")); };
  // What nobody sees cannot be compared, and what is added stands nowhere yet.
  if (!isOther || isSecret || !comparable.includes(form)) return enter();
  if (currently(element) === value) return;
  const note = make("p", {class: "note", id: id + "-entered"}, t("you_entered", {value: text}), " ",
    make("button", {type: "button", class: "quiet", on: ["click", () => { enter(); note.remove(); element.focus(); keepDrafts(); }]}, t("enter_again")));
  note.draft = draft;
  element.closest("p, label").after(note);
}
// Draws the step anew with the settings as they are now.
async function readAgain(id, message) {
  const mine = entered().filter(each => each.form === id);
  await api("/api/v1/settings/reload", "POST").catch(() => {});
  await showSteps(id);
  $(id + "-error").textContent = message;
  for (const each of mine) enterAgain(each, true);
  keepDrafts();
}
const comparable = ["speech", "person", "units", "consent"];
const stepOf = id => id === "passphrase" ? "backup" : id.startsWith("test-") ? "destination" : id;
const typed = id => $(id).value.trim();

// The language of the set-up, kept by this browser, and of the person's reports as soon as there is a person.
const languageKey = name => `users.${name}.reports.language`;
// An entry of the administrator's fixes the whole person.
const isPersonFixed = name => isFixed(`users.${name}.time_zone`);
const isLanguageKept = () => { try { return localStorage.getItem(languageName) !== null; } catch { return false; } };
const speech = {
  id: "speech", title: () => t("language"),
  stand: () => [facts.person && !isPersonFixed(facts.person) ? rowOf(languageKey(facts.person)) !== undefined : isLanguageKept(), languages[spoken].name],
  body: () => [fixedNote(`users.${facts.person}.time_zone`), form("speech", t("save"), async tell => {
    const name = typed("speech-language");
    if (facts.person && !isPersonFixed(facts.person)) await change({set: {[languageKey(facts.person)]: name}}, tell);
    keepLanguage(name);
    await changeLanguage(name);
    return t("saved");
  }, make("p", {}, t("language_about")),
  make("p", {}, make("label", {for: "speech-language"}, t("language")), make("select", {id: "speech-language"}, ...languageOptions())))],
};

const person = {
  id: "person", title: () => t("person_title"),
  stand: () => facts.person ? [true, t("person_stand", {person: facts.person, zone: facts.time_zone})] : [false, t("person_nobody")],
  body: () => {
    const zones = Intl.supportedValuesOf?.("timeZone") ?? [];
    if (!zones.includes(facts.time_zone)) zones.unshift(facts.time_zone);
    return [fixedNote("user.client_user_id"), fixedNote("user.time_zone"), form("person", t("save"), async tell => {
      // A person who is new gets both as they are shown.
      const set = {}, name = typed("person-name"), isNews = id => !facts.person || isEntered($(id));
      if (!isFixed("user.client_user_id") && isNews("person-name")) set["user.client_user_id"] = name;
      if (!isFixed("user.time_zone") && isNews("person-zone")) set["user.time_zone"] = typed("person-zone");
      // A language that was chosen before there was a person.
      if (name && isLanguageKept() && !isPersonFixed(name) && !rowOf(languageKey(name))) set[languageKey(name)] = spoken;
      await change({set}, tell);
      return t("saved");
    }, field("person-name", t("person_name"), {required: true, maxlength: 64, value: facts.person ?? "", disabled: isFixed("user.client_user_id")}),
    choice("person-zone", t("person_zone"), zones.map(zone => [zone, zone.replaceAll("_", " ")]), facts.time_zone))];
  },
};

const units = {
  id: "units", title: () => t("units_title"),
  stand: () => { const begin = `users.${facts.person}.reports.`, rows = settings.settings.filter(row => row.key.startsWith(begin) && row.key !== begin + "language");
    return rows.length ? [true, listed(rows.map(row => row.value))] : [false, t("units_default")]; },
  body: () => !facts.person ? [make("p", {}, t("person_first"))] : [fixedNote(`users.${facts.person}.time_zone`), form("units", t("save"), async tell => {
    const at = key => `users.${facts.person}.reports.${key}`, set = {}, unset = [];
    for (const key of ["glucose_unit", "pressure_unit", "weight_unit", "glucose_ranges", "pressure_line"]) {
      // What nobody has entered stays as it is.
      if (!isEntered($("units-" + key))) continue;
      if (typed("units-" + key)) set[at(key)] = typed("units-" + key); else if (rowOf(at(key))) unset.push(at(key));
    }
    await change({set, unset}, tell);
    return t("saved");
  }, ...[["glucose_unit", t("units_glucose_unit"), ["mg/dL", "mmol/L"]], ["pressure_unit", t("units_pressure_unit"), ["mmHg", "kPa"]], ["weight_unit", t("units_weight_unit"), ["kg", "lb"]]]
    .map(([key, label, choices]) => choice("units-" + key, label, [["", t("units_as_measured")], ...choices.map(each => [each, each])], rowOf(`users.${facts.person}.reports.${key}`)?.value ?? "")),
  field("units-glucose_ranges", t("units_glucose_ranges"), {value: rowOf(`users.${facts.person}.reports.glucose_ranges`)?.value ?? ""}),
  field("units-pressure_line", t("units_pressure_line"), {value: rowOf(`users.${facts.person}.reports.pressure_line`)?.value ?? ""}))],
};

// Finding and pairing a meter. What goes on there goes on while the steps are drawn anew.
let meterWork = 0;
const meter = {
  id: "meter", title: () => t("meter_title"),
  isBusy: () => meterWork > 0 || ["meter-found", "meter-question"].some(each => $(each)?.childElementCount),
  stand: () => facts.devices.length ? [true, listed(facts.devices.map(nameOf))] : [false, t("none_yet")],
  body: () => {
    const list = make("ul", {id: "meter-found", "aria-label": t("meter_found")}), question = make("div", {id: "meter-question"});
    const told = make("p", {id: "meter-told", role: "status"}), wrong = make("p", {id: "meter-error", role: "alert"});
    const tell = text => { if (told.textContent !== text) told.textContent = text; };
    let scanning = null;
    async function look() {
      wrong.textContent = "";
      list.replaceChildren();
      question.replaceChildren();
      tell(t("meter_looking"));
      scanning = new AbortController();
      const seen = new Set();
      meterWork++;
      try {
        await eachLine(await call("/api/v1/scan", {method: "POST", signal: scanning.signal, body: {seconds: 30}}), line => {
          if (!line) return;
          const device = JSON.parse(line);
          if (device.error) { wrong.textContent = detailed(device.error); return; }
          if (!device.address || seen.has(device.address)) return;
          seen.add(device.address);
          list.append(make("li", {}, make("button", {type: "button", class: "quiet", on: ["click", () => chosen(device)]},
            device.model ? t("meter_offer", {name: device.name ?? device.address, model: device.model.replaceAll("_", " ")}) : device.name ?? device.address)));
        });
        if (!seen.size && !wrong.textContent) tell(t("meter_none"));
      } catch (error) { if (error.name !== "AbortError") wrong.textContent = worded(error).message; } finally { meterWork--; }
    }
    async function chosen(device) {
      scanning?.abort();
      list.replaceChildren();
      if (!device.choose_from) return pair(device, null);
      try {
        const models = (await api("/api/v1/models")).models.filter(each => each.brand === device.choose_from);
        question.replaceChildren(make("form", {on: ["submit", event => { event.preventDefault(); pair(device, typed("meter-model")); }]},
          choice("meter-model", t("meter_model"), [...models.map(each => [each.id, each.name]), ["none", t("meter_no_model")]]), make("button", {}, t("pair"))));
      } catch (error) { wrong.textContent = error.message; }
    }
    async function pair(device, model) {
      question.replaceChildren();
      tell(t("meter_pairing", {name: device.name ?? device.address}));
      meterWork++;
      let pairing;
      try {
        pairing = await api("/api/v1/pairings", "POST", model ? {address: device.address, model} : {address: device.address});
        for (let asked = null; pairing.state === "running" || pairing.state === "question";) {
          const mark = pairing.question ? JSON.stringify(pairing.question) : null;
          if (mark !== asked) { asked = mark; ask(pairing); }
          const last = pairing.notes.at(-1);
          if (last && !pairing.question) tell(last);
          await pause(500);
          pairing = await next(pairing.id);
        }
        question.replaceChildren();
        if (pairing.state === "failed") throw worded(new Refused({status: 0}, pairing.error));
      } catch (error) { tell(""); wrong.textContent = error.message; return; } finally { meterWork--; }
      try {
        await showSteps();
        $("meter-told").textContent = pairing.proven ? t("meter_proven") : pairing.notes.at(-1) ?? t("meter_paired");
      } catch (error) { tell(""); wrong.textContent = error.message; }
    }
    // How a pairing stands. It goes on without an answer that does not come, and may have a question.
    async function next(id) {
      for (let isTroubled = false;;) {
        try {
          const pairing = await api("/api/v1/pairings/" + id);
          if (isTroubled) wrong.textContent = "";
          return pairing;
        } catch (error) {
          const wait = waitAfter(error);
          if (wait === null) throw error;
          isTroubled = true;
          wrong.textContent = error.message;
          await pause(wait);
        }
      }
    }
    function ask(pairing) {
      const asks = pairing.question;
      question.replaceChildren();
      if (!asks) return;
      const answer = async body => {
        wrong.textContent = "";
        question.replaceChildren();
        try {
          await api(`/api/v1/pairings/${pairing.id}/answer`, "POST", body);
        } catch (error) {
          // The question still stands, unless it is over.
          if (error.code !== "nothing_asked") ask(pairing);
          wrong.textContent = error.message;
        }
      };
      if (asks.kind === "passkey") {
        question.append(make("form", {on: ["submit", event => { event.preventDefault(); answer({passkey: typed("meter-passkey").replaceAll(" ", "")}); }]},
          field("meter-passkey", t("meter_digits", {name: asks.device}), {inputmode: "numeric", required: true, maxlength: 9}), make("button", {}, t("pair"))));
        $("meter-passkey").focus();
      } else {
        question.append(make("p", {}, asks.kind === "comparison" ? t("meter_comparison", {name: asks.device, digits: asks.digits}) : t("meter_without", {name: asks.device})),
          make("button", {type: "button", on: ["click", () => answer({confirmed: true})]}, t("yes")), " ",
          make("button", {type: "button", class: "quiet", on: ["click", () => answer({confirmed: false})]}, t("no")));
      }
    }
    return [make("p", {}, t("meter_help")),
      make("button", {type: "button", id: "meter-look", on: ["click", look]}, t("meter_look")), list, question, told, wrong];
  },
};

const slots = {
  id: "slots", title: () => t("slots_title"),
  stand: () => { const rows = settings.settings.filter(row => /^users\..*\.devices$/.test(row.key) && Object.keys(row.value).length);
    return rows.length ? [true, listed(rows.map(row => t("slots_stand", {person: row.key.slice(6, -8), slots: listed(Object.values(row.value).map(String))})))] : [false, t("slots_all_yours")]; },
  body: () => !facts.devices.length ? [make("p", {}, t("slots_first"))] : [form("slots", t("save"), async tell => {
    const at = `users.${typed("slots-name")}.devices`;
    await change({set: {[at]: {...Object.fromEntries(Object.entries(rowOf(at)?.value ?? {}).map(([device, slot]) => [device, String(slot)])), [typed("slots-device")]: typed("slots-slot")}}}, tell);
    return t("saved");
  }, choice("slots-device", t("slots_device"), facts.devices.filter(each => each.address).map(each => [each.address, `${each.name ?? each.model ?? ""} ${each.address}`])),
  field("slots-name", t("slots_person"), {required: true, maxlength: 64}),
  choice("slots-slot", t("slots_slot"), [["1", "1"], ["2", "2"], ["3", "3"], ["4", "4"], ["all", t("slots_all")]]))],
};

// The kinds of destinations: their names, and the phrases of their settings and of their secrets.
const kinds = {
  nightscout: [() => "Nightscout", {url: "destination_url_web"}, {secret: "destination_api_secret"}],
  vital: [() => t("destination_vital"), {base_url: "destination_url"}, {api_key: "destination_api_key"}],
  mqtt: [() => t("destination_mqtt"), {url: "destination_url_mqtt", username: "destination_username"}, {password: "destination_password"}],
  influxdb: [() => "InfluxDB", {url: "destination_url", database: "destination_database", org: "destination_org", bucket: "destination_bucket"}, {token: "destination_token"}],
  fhir: [() => t("destination_fhir"), {url: "destination_url"}, {token: "destination_token"}],
  webhook: [() => "Webhook", {url: "destination_url"}, {secret: "destination_signing_secret"}],
};
const destination = {
  id: "destination", title: () => t("destination_title"),
  stand: () => facts.destinations.length ? [true, listed(facts.destinations)] : [false, t("destination_nowhere")],
  body: () => {
    const parts = make("div", {});
    const draw = () => {
      const [, fields, secrets] = kinds[$("destination-kind")?.value ?? "nightscout"];
      parts.replaceChildren(...Object.entries(fields).map(([name, label]) => field("destination-" + name, t(label), {maxlength: 2048, spellcheck: "false", required: ["url", "base_url"].includes(name)})),
        ...Object.entries(secrets).map(([name, label]) => field("destination-" + name, t(label), {type: "password", autocomplete: "new-password"})));
    };
    const select = choice("destination-kind", t("destination_kind"), Object.entries(kinds).map(([code, [name]]) => [code, name()]), "nightscout");
    select.querySelector("select").addEventListener("change", draw);
    draw();
    const tests = facts.destinations.map((name, index) => form(`test-${index}`, t("destination_test", {name}), async tell => {
      tell(t("destination_testing", {name}));
      const {checks} = await api(`/api/v1/destinations/${encodeURIComponent(name)}/test`, "POST");
      const bad = checks.find(check => check.ok === false);
      if (bad) throw new Error([`${bad.name}: ${bad.found}`, bad.mend].filter(Boolean).join(". "));
      return t("destination_well", {name});
    }));
    return [form("destination", t("save"), async tell => {
      const name = typed("destination-name"), [, fields, secrets] = kinds[typed("destination-kind")];
      const body = {set: {[`destinations.${name}.kind`]: typed("destination-kind")}, secrets: {}};
      for (const each of Object.keys(fields)) if (typed("destination-" + each)) body.set[`destinations.${name}.${each}`] = typed("destination-" + each);
      for (const each of Object.keys(secrets)) if ($("destination-" + each).value) body.secrets[`destinations.${name}.${each}`] = $("destination-" + each).value;
      if ($("destination-insecure").checked) body.set[`destinations.${name}.insecure`] = true;
      await change(body, tell);
      return t("destination_saved", {name});
    }, select, field("destination-name", t("destination_name"), {required: true, pattern: "[a-z0-9][a-z0-9_\\-]*", maxlength: 64}), parts,
    make("label", {class: "line"}, make("input", {type: "checkbox", id: "destination-insecure"}), t("destination_insecure"))), ...tests];
  },
};

const consent = {
  id: "consent", title: () => t("consent_title"),
  stand: () => { const decided = facts.kinds.filter(each => each.decided); return facts.kinds.some(each => each.from_backup) ? [false, t("consent_from_backup")] : decided.length ? [true, t("consent_stand", {n: facts.kinds.filter(each => each.granted).length, all: facts.kinds.length})]
    : [false, facts.kinds.every(each => each.granted) ? t("consent_everything") : t("consent_nothing")]; },
  body: () => [form("consent", t("save"), async () => {
    for (const granted of [true, false]) {
      // What was decided and nobody has entered otherwise stays as it is.
      const chosen = facts.kinds.filter(each => !each.decided || isEntered($("consent-" + each.kind))).map(each => each.kind)
        .filter(kind => $("consent-" + kind).checked === granted);
      if (chosen.length) await api("/api/v1/consent", "POST", {kinds: chosen, granted});
    }
    return t("saved");
  }, ...facts.kinds.map(each => make("label", {class: "line"}, make("input", {type: "checkbox", id: "consent-" + each.kind, checked: each.granted}), t("kind_" + each.kind))))],
};

const backup = {
  id: "backup", title: () => t("backup_title"),
  stand: () => facts.newest_backup ? [true, t("backup_newest", {time: facts.newest_backup})] : facts.backups ? [false, t("backup_not_made")] : [false, t("none")],
  body: () => [make("p", {}, facts.backups ? t("backup_to", {place: facts.backups}) : t("backup_about")),
    fixedNote("backup.passphrase_file"), ...(facts.backups ? [] : [form("passphrase", t("save"), async tell => {
      if ($("backup-passphrase").value !== $("backup-repeat").value) throw new Error(t("backup_differ"));
      await change({secrets: {"backup.passphrase": $("backup-passphrase").value}}, tell);
    }, field("backup-passphrase", t("backup_passphrase"), {type: "password", autocomplete: "new-password", minlength: 8, required: true}),
    field("backup-repeat", t("backup_repeat"), {type: "password", autocomplete: "new-password", required: true}))]),
    ...(facts.backups ? [form("backup", t("backup_make"), async tell => {
      tell(t("backup_making"));
      let made = null;
      // The gateway makes its first one by itself, and one at a time.
      for (let tries = 0; !made; tries++) {
        try { made = await api("/api/v1/backups", "POST"); } catch (error) { if (error.code !== "backup_running" || tries > 60) throw error; await pause(1000); }
      }
      return t("backup_made", {name: made.name, n: made.restored.readings});
    })] : [])],
};

// Sends a file piece by piece; the gateway takes so many a minute.
async function send(file, tell) {
  const most = 65536;
  for (let at = 0; at < file.size;) {
    const piece = file.slice(at, at + most);
    try {
      await call(`/api/v1/restore/pieces?offset=${at}&length=${file.size}`, {method: "POST", body: piece, headers: {"Content-Type": "application/octet-stream"}});
    } catch (error) {
      if (error.status !== 429) throw worded(error);
      await pause(1000 * Number(error.headers.get("Retry-After") ?? 1));
      continue;
    }
    at += piece.size;
    tell(t("restore_sending", {n: Math.floor(100 * at / file.size)}));
  }
}
let sent = null;
const restore = {
  id: "restore", title: () => t("restore_title"),
  stand: () => { const ended = facts.restore.outcome; return ended?.error ? [false, t("restore_failed")]
    : ended ? [true, t("restore_done", {n: ended.readings})] : [false, facts.restore.possible ? t("restore_new") : t("restore_not_new")]; },
  body: () => {
    const ended = facts.restore.outcome;
    const wrong = ended?.error ? make("p", {role: "alert"}, detailed(ended.error)) : null;
    if (ended && !ended.error) return [make("p", {}, t("restore_is_done")), make("p", {}, ...sentence("restore_since", make("code", {}, "healthrelay destination redeliver NAME")))];
    if (!facts.restore.possible) return [wrong, make("p", {}, t("restore_impossible"))];
    return [wrong, make("p", {}, ...sentence("restore_about", make("code", {}, "healthrelay store export"))),
      form("restore", t("restore_go"), async tell => {
        const file = $("restore-file").files[0];
        if (sent !== file) { await send(file, tell); sent = file; }
        tell(t("restore_checking"));
        await api("/api/v1/restore", "POST", {passphrase: $("restore-passphrase").value});
        $("restore-passphrase").value = "";
        tell(t("restore_making"));
        const {outcome} = (await comeBack(stand => stand.restore.outcome !== null, 7200)).restore;
        sent = null;
        if (outcome.error) throw new Error(detailed(outcome.error));
        return t("restore_told");
      }, field("restore-file", t("restore_file"), {type: "file", required: true}),
      field("restore-passphrase", t("restore_passphrase"), {type: "password", required: true}))];
  },
};

const paper = {
  id: "paper", title: () => t("paper_title"),
  stand: () => [false, t("paper_stand")],
  body: () => {
    const lines = [["paper_page", [make("bdi", {}, facts.address)]], ["paper_open", sentence("paper_open_how", make("code", {}, "healthrelay page"))],
      ["paper_person", [t("person_stand", {person: facts.person ?? "–", zone: facts.time_zone})]], ["paper_devices", [listed(facts.devices.map(nameOf)) ?? "–"]],
      ["paper_destinations", [listed(facts.destinations) ?? "–"]], ["paper_backups", [make("bdi", {}, facts.backups ?? "–")]],
      ["paper_restore", sentence("paper_restore_how", make("code", {}, "healthrelay store import FILE"))]];
    return [make("dl", {}, ...lines.flatMap(([name, what]) => [make("dt", {}, t(name)), make("dd", {}, ...what)])),
      make("button", {type: "button", on: ["click", () => print()]}, t("print")), " ", make("a", {href: "/"}, t("go_to_page"))];
  },
};

const steps = [speech, restore, person, units, meter, slots, destination, consent, backup, paper];
// Draws the steps as the gateway says they stand. What was entered and not saved stays, but in the form that was saved.
async function showSteps(saved = null) {
  [facts, settings] = [await api("/api/v1/setup"), await api("/api/v1/settings")];
  // Whoever goes on in another browser goes on in the language that the person was given.
  const given = facts.person && rowOf(languageKey(facts.person))?.value;
  if (given && given !== spoken && !isLanguageKept()) await changeLanguage(given);
  const shut = step => { const [done] = step.stand(); return done; };
  const list = $("list"), isFirst = list.childElementCount === 0;
  // Browsers that do not close one step when another one is opened have several open.
  const open = isFirst ? [steps.find(step => step !== restore && !shut(step))?.id] : [...list.querySelectorAll("details[open]")].map(each => each.id);
  const drafts = (isFirst ? keptDrafts() : entered()).filter(each => each.form !== saved);
  const files = $("restore-file")?.files, held = list.contains(document.activeElement) ? document.activeElement : null;
  list.replaceChildren(...steps.map(step => {
    const [done, text] = step.stand();
    const body = step.isBusy?.() ? [...$(step.id).children].slice(1) : step.body().filter(Boolean);
    return make("li", {class: step === paper ? "printed" : ""}, make("details", {id: step.id, name: "step", open: open.includes(step.id)},
      make("summary", {}, step.title(), " ", make("span", {class: done ? "stand done" : "stand"}, done ? t("stand_done", {text}) : text)), ...body));
  }));
  for (const each of drafts) if ($(each.id)) enterAgain(each, formerly($(each.id)) !== each.before);
  if (files?.length && saved !== "restore" && $("restore-file")) $("restore-file").files = files;
  keepDrafts();
  if (held) (held.isConnected ? held : held.id ? $(held.id) : $(held.closest("details")?.id)?.querySelector("summary"))?.focus();
  $("state").textContent = t("steps_done", {n: steps.filter(shut).length, all: steps.length - 2});
}
begin();
