"use strict";

const $ = (id) => document.getElementById(id);
const cursors = { payments: "", events: "" };

// The key lives as long as the browser's tab and is sent to this API alone.
$("key").value = sessionStorage.getItem("paylatch-key") || "";

async function call(method, path, body) {
  const response = await fetch(path, {
    method,
    headers: {
      Authorization: "Bearer " + $("key").value,
      ...(body ? { "Content-Type": "application/json" } : {}),
    },
    body: body && JSON.stringify(body),
  });
  const answer = await response.json();
  if (!response.ok) throw new Error(answer.code + ": " + (answer.detail || answer.title));
  return answer;
}

// Intl knows how many decimals a currency has.
function money(amount, currency) {
  if (amount == null) return "";
  try {
    const digits = new Intl.NumberFormat("en", { style: "currency", currency }).resolvedOptions().maximumFractionDigits;
    const text = String(Math.abs(amount)).padStart(digits + 1, "0");
    const whole = digits ? text.slice(0, -digits) + "." + text.slice(-digits) : text;
    return (amount < 0 ? "-" : "") + whole + " " + currency;
  } catch {
    return amount + " (minor units) " + currency;
  }
}

const time = (text) => (text ? new Date(text).toLocaleString() : "");

function row(table, cells) {
  const tr = $(table).tBodies[0].insertRow();
  for (const cell of cells) {
    const td = tr.insertCell();
    if (cell instanceof Node) td.append(cell);
    else if (cell && typeof cell === "object") { td.textContent = cell.text; td.className = cell.className || ""; }
    else td.textContent = cell ?? "";
  }
  return tr;
}

function link(text, href) {
  if (!href) return document.createTextNode(text);
  const a = document.createElement("a");
  a.textContent = text;
  a.href = href;
  a.rel = "noreferrer";
  return a;
}

function button(text, act) {
  const b = document.createElement("button");
  b.textContent = text;
  b.addEventListener("click", () => guarded(act));
  return b;
}

async function page(name, query, show, fresh) {
  if (fresh) { cursors[name] = ""; $(name).tBodies[0].replaceChildren(); }
  const answer = await call("GET", `/v1/${name}?limit=25&${query}&cursor=${encodeURIComponent(cursors[name])}`);
  answer.items.forEach(show);
  cursors[name] = answer.next_cursor || "";
  $(name + "-more").hidden = !cursors[name];
}

const payments = (fresh) => page("payments", "state=" + $("payment-state").value, (p) => row("payments", [
  p.out_trade_no,
  { text: money(p.amount, p.currency), className: "number" },
  { text: p.state, className: p.state },
  time(p.created_at),
  link(p.temporal_ui ? "open" : p.workflow_id, p.temporal_ui),
]), fresh);

const events = (fresh) => page("events", "state=" + $("event-state").value, (e) => {
  const outcome = document.createElement("span");
  outcome.textContent = e.outcome || "";
  const reason = document.createElement("div");
  reason.className = "reason";
  reason.textContent = e.reason || "";
  outcome.append(reason);
  const exits = document.createElement("span");
  if (e.state === "PARKED") {
    exits.append(
      button("Replay", () => call("POST", `/v1/events/${e.id}/replay`)),
      button("To suspense", () => withReason(`/v1/events/${e.id}/suspense`)),
      button("Reject", () => withReason(`/v1/events/${e.id}/reject`)),
    );
  }
  row("events", [
    e.event_key, e.out_trade_no,
    { text: money(e.amount, e.currency), className: "number" },
    { text: e.state, className: e.state },
    outcome, time(e.received_at), exits,
  ]);
}, fresh);

async function withReason(path) {
  const reason = prompt("Why? It is kept with the event.");
  if (reason) await call("POST", path, { reason });
}

async function load() {
  sessionStorage.setItem("paylatch-key", $("key").value);
  const account = await call("GET", "/v1/accounts/merchant");
  $("balance").textContent = "merchant balance " + money(account.balance, account.currency);
  await payments(true);
  await events(true);
}

// Every action ends with what is true now, or with what went wrong.
async function guarded(act) {
  $("message").textContent = "";
  try {
    await act();
    if (act !== load && $("key").value) await load();
  } catch (error) {
    $("message").textContent = error.message;
  }
}

$("load").addEventListener("click", () => guarded(load));
$("key").addEventListener("keydown", (e) => { if (e.key === "Enter") guarded(load); });
$("payment-state").addEventListener("change", () => guarded(load));
$("event-state").addEventListener("change", () => guarded(load));
for (const [name, more] of [["payments", payments], ["events", events]]) {
  $(name + "-more").addEventListener("click", async () => {
    try { await more(false); } catch (error) { $("message").textContent = error.message; }
  });
}
if ($("key").value) guarded(load);
