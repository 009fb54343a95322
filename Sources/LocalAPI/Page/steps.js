"use strict";
// The steps of the set-up, each with what the gateway says of it.
let settings = null;
const rowOf = key => settings.settings.find(row => row.key === key);
const fixedAt = key => { const row = rowOf(key); return row?.fixed ? row.place ?? "the administrator’s settings" : null; };
const fixedNote = key => fixedAt(key) ? make("p", {class: "note"}, `This is set in ${fixedAt(key)} and can only be changed there.`) : null;
const kindName = kind => ({glucose: "Blood glucose", blood_pressure: "Blood pressure", heart_rate: "Heart rate", hrv: "Heart-rate variability",
  spo2: "Oxygen saturation", temperature: "Temperature", weight: "Weight", body_composition: "Body composition"})[kind] ?? kind.replaceAll("_", " ");

// Waits for a gateway that starts anew; it has another secret for its tokens then.
async function comeBack(isBack, tries = 240) {
  while (tries-- > 0) {
    await pause(500);
    try {
      csrf = (await call("/api/v1/session")).csrf_token;
      const stand = await call("/api/v1/setup");
      if (isBack(stand)) return stand;
    } catch (error) { if (error.status && error.status < 500) throw error; }
  }
  throw new Error("The gateway has not come back yet. Reload this page in a minute.");
}
async function restart(tell) {
  tell("The gateway starts anew …");
  await call("/api/v1/restart", "POST");
  await comeBack(stand => stand.after_restart.length === 0);
}
async function change(body, tell) {
  const outcome = await call("/api/v1/settings", "PATCH", {...body, digest: settings.digest});
  if (outcome.after_restart.length > 0) await restart(tell);
}

// A form whose button does something and tells how it went.
function form(id, button, action, ...parts) {
  const told = make("p", {id: id + "-told", class: "told", role: "status"}), wrong = make("p", {id: id + "-error", role: "alert"});
  const submit = make("button", {type: "submit", id: id + "-go"}, button);
  return make("form", {id: id + "-form", on: ["submit", async event => {
    event.preventDefault();
    wrong.textContent = told.textContent = "";
    submit.disabled = true;
    try {
      const words = await action(text => { told.textContent = text; });
      await showSteps(id === "passphrase" ? "backup" : id.startsWith("test-") ? "destination" : id);
      if (words && $(id + "-told")) $(id + "-told").textContent = words;
    } catch (error) {
      wrong.textContent = error.message;
      if (error.code === "settings_changed") {
        await call("/api/v1/settings/reload", "POST").catch(() => {});
        settings = await call("/api/v1/settings");
        wrong.textContent += " They have been read again.";
      }
    } finally { submit.disabled = false; }
  }]}, ...parts, submit, told, wrong);
}
const typed = id => $(id).value.trim();

const person = {
  id: "person", title: "You and your time zone",
  stand: () => facts.person ? [true, `${facts.person}, ${facts.time_zone}`] : [false, "nobody yet"],
  body: () => {
    const zones = Intl.supportedValuesOf?.("timeZone") ?? [];
    if (!zones.includes(facts.time_zone)) zones.unshift(facts.time_zone);
    return [fixedNote("user.client_user_id"), fixedNote("user.time_zone"), form("person", "Save", async tell => {
      const set = {};
      if (!fixedAt("user.client_user_id")) set["user.client_user_id"] = typed("person-name");
      if (!fixedAt("user.time_zone")) set["user.time_zone"] = typed("person-zone");
      await change({set}, tell);
      return "Saved.";
    }, field("person-name", "A short name for the person whose readings these are", {required: true, maxlength: 64, value: facts.person ?? "", disabled: !!fixedAt("user.client_user_id")}),
    choice("person-zone", "Time zone", zones.map(zone => [zone, zone.replaceAll("_", " ")]), facts.time_zone))];
  },
};

const units = {
  id: "units", title: "Units and your own lines",
  stand: () => { const rows = settings.settings.filter(row => row.key.startsWith(`users.${facts.person}.reports.`)); return rows.length
    ? [true, rows.map(row => row.value).join(", ")] : [false, "mg/dL, mmHg, kg; no lines of your own"]; },
  body: () => !facts.person ? [make("p", {}, "Name the person first.")] : [fixedNote(`users.${facts.person}.time_zone`), form("units", "Save", async tell => {
    const at = key => `users.${facts.person}.reports.${key}`, set = {}, unset = [];
    for (const key of ["glucose_unit", "pressure_unit", "weight_unit", "glucose_ranges", "pressure_line"]) {
      if (typed("units-" + key)) set[at(key)] = typed("units-" + key); else if (rowOf(at(key))) unset.push(at(key));
    }
    await change({set, unset}, tell);
    return "Saved.";
  }, ...[["glucose_unit", "Glucose in", ["mg/dL", "mmol/L"]], ["pressure_unit", "Blood pressure in", ["mmHg", "kPa"]], ["weight_unit", "Weight in", ["kg", "lb"]]]
    .map(([key, label, choices]) => choice("units-" + key, label, choices.map(each => [each, each]), rowOf(`users.${facts.person}.reports.${key}`)?.value)),
  field("units-glucose_ranges", "Your glucose range in mg/dL, such as 70-180 (may stay empty)", {value: rowOf(`users.${facts.person}.reports.glucose_ranges`)?.value ?? ""}),
  field("units-pressure_line", "Your line of blood pressure in mmHg, such as 135/85 (may stay empty)", {value: rowOf(`users.${facts.person}.reports.pressure_line`)?.value ?? ""}))],
};

// Finding and pairing a meter.
const meter = {
  id: "meter", title: "Your first meter",
  stand: () => facts.devices.length ? [true, facts.devices.map(each => each.name ?? each.model ?? each.address).join(", ")] : [false, "none yet"],
  body: () => {
    const list = make("ul", {id: "meter-found", "aria-label": "Meters in reach"}), question = make("div", {id: "meter-question"});
    const told = make("p", {id: "meter-told", role: "status"}), wrong = make("p", {id: "meter-error", role: "alert"});
    const tell = text => { if (told.textContent !== text) told.textContent = text; };
    let scanning = null;
    async function look() {
      wrong.textContent = "";
      list.replaceChildren();
      question.replaceChildren();
      tell("Looking for meters …");
      scanning = new AbortController();
      const seen = new Set();
      try {
        const answer = await fetch("/api/v1/scan", {method: "POST", signal: scanning.signal, credentials: "same-origin", body: JSON.stringify({seconds: 30}),
          headers: {"Content-Type": "application/json", "X-CSRF-Token": csrf, ...(key ? {"X-Session-Key": key} : {})}});
        if (!answer.ok) throw new Refused(answer.status, (await answer.json()).error);
        const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
        for (let rest = "";;) {
          const {value, done} = await reader.read();
          if (done) break;
          const lines = (rest + value).split("\n");
          rest = lines.pop();
          for (const line of lines.filter(Boolean)) {
            const device = JSON.parse(line);
            if (device.error) { wrong.textContent = device.error.message; continue; }
            if (!device.address || seen.has(device.address)) continue;
            seen.add(device.address);
            list.append(make("li", {}, make("button", {type: "button", class: "quiet", on: ["click", () => chosen(device)]},
              `${device.name ?? device.address}${device.model ? ` (${device.model.replaceAll("_", " ")})` : ""}`)));
          }
        }
        if (!seen.size && !wrong.textContent) tell("No meter was heard. Put it into its pairing mode, near the gateway, and look again.");
      } catch (error) { if (error.name !== "AbortError") wrong.textContent = error.message; }
    }
    async function chosen(device) {
      scanning?.abort();
      list.replaceChildren();
      if (!device.choose_from) return pair(device, null);
      try {
        const models = (await call("/api/v1/models")).models.filter(each => each.brand === device.choose_from);
        question.replaceChildren(make("form", {on: ["submit", event => { event.preventDefault(); pair(device, typed("meter-model")); }]},
          choice("meter-model", "The number on the meter’s label", [...models.map(each => [each.id, each.name]), ["none", "None of these"]]), make("button", {}, "Pair")));
      } catch (error) { wrong.textContent = error.message; }
    }
    async function pair(device, model) {
      question.replaceChildren();
      tell(`Pairing with ${device.name ?? device.address} …`);
      try {
        let pairing = await call("/api/v1/pairings", "POST", model ? {address: device.address, model} : {address: device.address}), asked = null;
        while (pairing.state === "running" || pairing.state === "question") {
          const mark = pairing.question ? JSON.stringify(pairing.question) : null;
          if (mark !== asked) { asked = mark; ask(pairing); }
          const last = pairing.notes.at(-1);
          if (last && !pairing.question) tell(last);
          await pause(500);
          pairing = await call("/api/v1/pairings/" + pairing.id);
        }
        question.replaceChildren();
        if (pairing.state === "failed") throw new Refused(0, pairing.error);
        await showSteps("meter");
        $("meter-told").textContent = pairing.proven ? "Paired. The gateway reads it when it shows up." : pairing.notes.at(-1) ?? "Paired.";
      } catch (error) { tell(""); wrong.textContent = error.message; }
    }
    function ask(pairing) {
      const asks = pairing.question;
      question.replaceChildren();
      if (!asks) return;
      const answer = async body => {
        question.replaceChildren();
        try { await call(`/api/v1/pairings/${pairing.id}/answer`, "POST", body); } catch (error) { wrong.textContent = error.message; }
      };
      if (asks.kind === "passkey") {
        question.append(make("form", {on: ["submit", event => { event.preventDefault(); answer({passkey: typed("meter-passkey").replaceAll(" ", "")}); }]},
          field("meter-passkey", `The six digits that ${asks.device} shows`, {inputmode: "numeric", required: true, maxlength: 9}), make("button", {}, "Pair")));
        $("meter-passkey").focus();
      } else {
        question.append(make("p", {}, asks.kind === "comparison" ? `Does ${asks.device} show ${asks.digits}?` : `${asks.device} asks for no digits, so nothing proves which device it is. Pair it?`),
          make("button", {type: "button", on: ["click", () => answer({confirmed: true})]}, "Yes"), " ",
          make("button", {type: "button", class: "quiet", on: ["click", () => answer({confirmed: false})]}, "No"));
      }
    }
    return [make("p", {}, "Put the meter into its pairing mode, near the gateway."),
      make("button", {type: "button", id: "meter-look", on: ["click", look]}, "Look for meters"), list, question, told, wrong];
  },
};

const slots = {
  id: "slots", title: "Who uses which slot of the cuff",
  stand: () => { const rows = settings.settings.filter(row => /^users\..*\.devices$/.test(row.key) && Object.keys(row.value).length);
    return rows.length ? [true, rows.map(row => `${row.key.slice(6, -8)}: ${Object.values(row.value).join(", ")}`).join("; ")] : [false, "all readings are yours"]; },
  body: () => !facts.devices.length ? [make("p", {}, "Pair a meter first. Cuffs with slots keep two people’s readings apart.")] : [form("slots", "Save", async tell => {
    const at = `users.${typed("slots-name")}.devices`;
    await change({set: {[at]: {...Object.fromEntries(Object.entries(rowOf(at)?.value ?? {}).map(([device, slot]) => [device, String(slot)])), [typed("slots-device")]: typed("slots-slot")}}}, tell);
    return "Saved.";
  }, choice("slots-device", "Device", facts.devices.filter(each => each.address).map(each => [each.address, `${each.name ?? each.model ?? ""} ${each.address}`])),
  field("slots-name", "Person", {required: true, maxlength: 64}),
  choice("slots-slot", "Slot", [["1", "1"], ["2", "2"], ["3", "3"], ["4", "4"], ["all", "all of the device"]]))],
};

const kinds = {
  nightscout: ["Nightscout", [["url", "Address, such as https://example.net"]], [["secret", "API secret"]]],
  vital: ["Vital-compatible server", [["base_url", "Address"]], [["api_key", "API key"]]],
  mqtt: ["MQTT broker, Home Assistant", [["url", "Address, such as mqtts://broker:8883"], ["username", "User name"]], [["password", "Password"]]],
  influxdb: ["InfluxDB", [["url", "Address"], ["database", "Database"], ["org", "Organisation"], ["bucket", "Bucket"]], [["token", "Token"]]],
  fhir: ["FHIR server", [["url", "Address"]], [["token", "Token"]]],
  webhook: ["Webhook", [["url", "Address"]], [["secret", "Signing secret"]]],
};
const destination = {
  id: "destination", title: "Where readings go",
  stand: () => facts.destinations.length ? [true, facts.destinations.join(", ")] : [false, "nowhere: they are kept here"],
  body: () => {
    const parts = make("div", {});
    const draw = () => {
      const [, fields, secrets] = kinds[$("destination-kind")?.value ?? "nightscout"];
      parts.replaceChildren(...fields.map(([name, label]) => field("destination-" + name, label, {maxlength: 2048, spellcheck: "false", required: ["url", "base_url"].includes(name)})),
        ...secrets.map(([name, label]) => field("destination-" + name, `${label} (typed once, never shown again)`, {type: "password", autocomplete: "new-password"})));
    };
    const select = choice("destination-kind", "Kind", Object.entries(kinds).map(([code, [name]]) => [code, name]), "nightscout");
    select.querySelector("select").addEventListener("change", draw);
    draw();
    const tests = facts.destinations.map((name, index) => form(`test-${index}`, `Test ${name}`, async tell => {
      tell(`Testing ${name} …`);
      const {checks} = await call(`/api/v1/destinations/${encodeURIComponent(name)}/test`, "POST");
      const bad = checks.find(check => check.ok === false);
      if (bad) throw new Error([`${bad.name}: ${bad.found}`, bad.mend].filter(Boolean).join(". "));
      return `${name} answers and accepts what the gateway presents.`;
    }));
    return [form("destination", "Save", async tell => {
      const name = typed("destination-name"), [, fields, secrets] = kinds[typed("destination-kind")];
      const body = {set: {[`destinations.${name}.kind`]: typed("destination-kind")}, secrets: {}};
      for (const [each] of fields) if (typed("destination-" + each)) body.set[`destinations.${name}.${each}`] = typed("destination-" + each);
      for (const [each] of secrets) if ($("destination-" + each).value) body.secrets[`destinations.${name}.${each}`] = $("destination-" + each).value;
      if ($("destination-insecure").checked) body.set[`destinations.${name}.insecure`] = true;
      await change(body, tell);
      return `Saved. Now test ${name}.`;
    }, select, field("destination-name", "A short name: small letters, digits, - and _", {required: true, pattern: "[a-z0-9][a-z0-9_\\-]*", maxlength: 64}), parts,
    make("label", {class: "line"}, make("input", {type: "checkbox", id: "destination-insecure"}), "It is on this network and speaks without TLS")), ...tests];
  },
};

const consent = {
  id: "consent", title: "What may be delivered",
  stand: () => { const decided = facts.kinds.filter(each => each.decided); return decided.length ? [true, `${facts.kinds.filter(each => each.granted).length} of ${facts.kinds.length} kinds`]
    : [false, facts.kinds.every(each => each.granted) ? "everything, unless you decide otherwise" : "nothing"]; },
  body: () => [form("consent", "Save", async () => {
    for (const granted of [true, false]) {
      const chosen = facts.kinds.map(each => each.kind).filter(kind => $("consent-" + kind).checked === granted);
      if (chosen.length) await call("/api/v1/consent", "POST", {kinds: chosen, granted});
    }
    return "Saved.";
  }, ...facts.kinds.map(each => make("label", {class: "line"}, make("input", {type: "checkbox", id: "consent-" + each.kind, checked: each.granted}), kindName(each.kind))))],
};

const backup = {
  id: "backup", title: "Backups",
  stand: () => facts.newest_backup ? [true, `the newest is of ${facts.newest_backup}, read back whole`] : facts.backups ? [false, "none was made yet"] : [false, "none"],
  body: () => [make("p", {}, facts.backups ? `They are written to ${facts.backups}.` : "They are written to the gateway’s own disk, which protects against mistakes, not against a broken disk: copy them elsewhere. The administrator can set another directory (backup.to)."),
    fixedNote("backup.passphrase_file"), ...(facts.backups ? [] : [form("passphrase", "Save", async tell => {
      if ($("backup-passphrase").value !== $("backup-repeat").value) throw new Error("The passphrases differ.");
      await change({secrets: {"backup.passphrase": $("backup-passphrase").value}}, tell);
    }, field("backup-passphrase", "A passphrase of at least 8 characters. Without it no backup can be opened: keep it elsewhere, too", {type: "password", autocomplete: "new-password", minlength: 8, required: true}),
    field("backup-repeat", "Repeat it", {type: "password", autocomplete: "new-password", required: true}))]),
    ...(facts.backups ? [form("backup", "Make one now and read it back", async tell => {
      tell("Writing the backup and reading it back …");
      let made = null;
      // The gateway makes its first one by itself, and one at a time.
      for (let tries = 0; !made; tries++) {
        try { made = await call("/api/v1/backups", "POST"); } catch (error) { if (error.code !== "backup_running" || tries > 60) throw error; await pause(1000); }
      }
      return `${made.name} was written and read back whole: a store with ${made.restored.readings} readings was made of it on trial.`;
    })] : [])],
};

// Sends a file piece by piece; the gateway takes so many a minute.
async function send(file, tell) {
  const most = 65536;
  for (let at = 0; at < file.size;) {
    const piece = file.slice(at, at + most);
    const answer = await fetch(`/api/v1/restore/pieces?offset=${at}&length=${file.size}`, {method: "POST", credentials: "same-origin", body: piece,
      headers: {"Content-Type": "application/octet-stream", "X-CSRF-Token": csrf, ...(key ? {"X-Session-Key": key} : {})}});
    if (answer.status === 429) { await pause(1000 * Number(answer.headers.get("Retry-After") ?? 1)); continue; }
    if (!answer.ok) throw new Refused(answer.status, (await answer.json()).error);
    at += piece.size;
    tell(`Sending the backup: ${Math.floor(100 * at / file.size)} %`);
  }
}
let sent = null;
const restore = {
  id: "restore", title: "New, or from a backup",
  stand: () => { const ended = facts.restore.outcome; return ended?.error ? [false, "the backup could not be put back"]
    : ended ? [true, `${ended.readings} readings were put back`] : [false, facts.restore.possible ? "new, unless you have a backup of another gateway" : "new: it has readings of its own"]; },
  body: () => {
    const ended = facts.restore.outcome;
    const wrong = ended?.error ? make("p", {role: "alert"}, [ended.error.message, ended.error.hint].filter(Boolean).join(": ")) : null;
    if (ended && !ended.error) return [make("p", {}, "The backup’s people, devices and readings are here. Bonds stay with the machine that made them: pair each meter again. Settings are in no backup.")];
    if (!facts.restore.possible) return [wrong, make("p", {}, "A backup can only be put back into a gateway without readings.")];
    return [wrong, make("p", {}, "A new gateway begins with the next step. A backup, or what ", make("code", {}, "healthrelay store export"), " wrote, is put back here while this gateway is empty."),
      form("restore", "Put it back", async tell => {
        const file = $("restore-file").files[0];
        if (sent !== file) { await send(file, tell); sent = file; }
        tell("Checking the whole backup …");
        await call("/api/v1/restore", "POST", {passphrase: $("restore-passphrase").value});
        $("restore-passphrase").value = "";
        tell("The gateway makes its store of the backup …");
        const {outcome} = (await comeBack(stand => stand.restore.outcome !== null, 7200)).restore;
        sent = null;
        if (outcome.error) throw new Error([outcome.error.message, outcome.error.hint].filter(Boolean).join(": "));
        return "Put back.";
      }, field("restore-file", "The file", {type: "file", required: true}),
      field("restore-passphrase", "Its passphrase (typed once, never kept)", {type: "password", required: true}))];
  },
};

const paper = {
  id: "paper", title: "A page to print",
  stand: () => [false, "keep it with your papers"],
  body: () => [make("dl", {}, make("dt", {}, "The page"), make("dd", {}, facts.address), make("dt", {}, "To open it in another browser"), make("dd", {}, make("code", {}, "healthrelay page"), " on the gateway’s machine"),
    make("dt", {}, "Person and time zone"), make("dd", {}, `${facts.person ?? "–"}, ${facts.time_zone}`),
    make("dt", {}, "Devices"), make("dd", {}, facts.devices.map(each => each.name ?? each.model ?? each.address).join(", ") || "–"),
    make("dt", {}, "Readings go to"), make("dd", {}, facts.destinations.join(", ") || "–"),
    make("dt", {}, "Backups"), make("dd", {}, facts.backups ?? "–"),
    make("dt", {}, "To put a backup back"), make("dd", {}, "in the set-up of a new gateway, or with ", make("code", {}, "healthrelay store import FILE"), "; with the passphrase")),
    make("button", {type: "button", on: ["click", () => print()]}, "Print"), " ", make("a", {href: "/"}, "Go to the page")],
};

const steps = [restore, person, units, meter, slots, destination, consent, backup, paper];
async function showSteps(open = null) {
  [facts, settings] = [await call("/api/v1/setup"), await call("/api/v1/settings")];
  const shut = step => { const [done] = step.stand(); return done; };
  const first = open ?? steps.find(step => step !== restore && !shut(step))?.id;
  $("list").replaceChildren(...steps.map(step => {
    const [done, text] = step.stand();
    return make("li", {class: step === paper ? "printed" : ""}, make("details", {id: step.id, name: "step", open: step.id === first},
      make("summary", {}, step.title + " ", make("span", {class: done ? "stand done" : "stand"}, (done ? "✓ " : "") + text)), ...step.body().filter(Boolean)));
  }));
  $("state").textContent = `${steps.filter(shut).length} of ${steps.length - 2} steps are done.`;
}
begin();
