// Keeps the page as the hub sees it, without a reload, and posts without leaving it. Everything works without this, too.
"use strict";

const EVERY_MS = 800;
// An answer that never comes must not keep the page from asking again.
const PATIENCE_MS = 10000;
const asked = (address, more) => fetch(address, { ...more, signal: AbortSignal.timeout(PATIENCE_MS) });
const composer = document.getElementById("composer");
const body = document.getElementById("body");
const trouble = document.getElementById("trouble");
const draft = `draft ${location.pathname}`;
let changes = document.body.dataset.changes;
let busy = false;
let missed = 0;

// What the server sent last for each part: only what it changed is touched, so that nobody's reading is disturbed.
const sent = new Map();
const parts = (root) => [...root.querySelectorAll("[data-live]"), ...root.querySelectorAll("[data-list] > *")];
const remember = (root) => parts(root).forEach((part) => sent.set(part.id, part.outerHTML));
remember(document);

function replace(old, fresh) {
  const opened = [...old.querySelectorAll("details")].map((one) => one.open);
  const within = [...old.querySelectorAll("a, button, summary, [tabindex]")];
  const focused = within.indexOf(document.activeElement);
  const known = sent.get(fresh.id);
  old.replaceWith(fresh);
  const details = [...fresh.querySelectorAll("details")];
  if (known && details.length === opened.length) details.forEach((one, at) => { one.open = opened[at]; });
  if (focused >= 0) fresh.querySelectorAll("a, button, summary, [tabindex]")[focused]?.focus();
}

function arrived(part) {
  if (!part.dataset.by) return;
  const words = `${part.dataset.by} ${part.dataset.did}`;
  part.classList.add("fresh");
  document.getElementById("news").textContent = words;
  const place = part.getBoundingClientRect();
  if (place.top > innerHeight || place.bottom < 0) {
    const note = document.getElementById("fresh");
    note.textContent = `${words} ${place.top > 0 ? "↓" : "↑"}`;
    note.href = `#${part.id}`;
    note.hidden = false;
  }
}

function take(list, fresh) {
  let before = null;
  for (const one of [...fresh.children]) {
    const html = one.outerHTML;
    const here = document.getElementById(one.id);
    const part = document.importNode(one, true);
    if (!here) {
      if (before) before.after(part); else list.prepend(part);
      arrived(part);
    } else if (sent.get(one.id) !== html) {
      replace(here, part);
    }
    sent.set(one.id, html);
    before = document.getElementById(one.id);
  }
  const wanted = new Set([...fresh.children].map((one) => one.id));
  [...list.children].forEach((one) => { if (!wanted.has(one.id)) one.remove(); });
}

async function refresh() {
  const answer = await asked(location.pathname, { headers: { Accept: "text/html" } });
  if (!answer.ok) return;
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  for (const part of fresh.querySelectorAll("[data-live]")) {
    const here = document.getElementById(part.id);
    const html = part.outerHTML;
    if (here && sent.get(part.id) !== html) replace(here, document.importNode(part, true));
    sent.set(part.id, html);
  }
  fresh.querySelectorAll("[data-list]").forEach((list) => take(document.getElementById(list.id), list));
  changes = fresh.body.dataset.changes;
  tick();
}

async function look() {
  if (busy) return;
  busy = true;
  try {
    const answer = await asked("/-/changes");
    const now = String((await answer.json()).changes);
    if (now !== changes) await refresh();
    missed = 0;
  } catch {
    missed += 1;
  } finally {
    busy = false;
  }
  document.getElementById("lost").hidden = missed < 4;
}

function tick() {
  for (const clock of document.querySelectorAll("[data-since]")) {
    const past = Math.max(0, Math.round((Date.now() - Date.parse(clock.dataset.since)) / 1000));
    clock.textContent = past < 60 ? `${past} s` : `${Math.floor(past / 60)} min ${past % 60} s`;
  }
}

// Writing

function fit() {
  const author = composer.querySelector("[data-author]");
  const own = Boolean(author && author.checked);
  composer.querySelectorAll("[data-judges]").forEach((button) => { button.disabled = own; });
  sessionStorage.setItem("as", composer.querySelector("[name=as]:checked").value);
}

function complain(words) {
  trouble.textContent = words;
  trouble.hidden = !words;
}

async function post(event) {
  event.preventDefault();
  const form = new FormData(composer);
  form.set("event", event.submitter ? event.submitter.value : "");
  const buttons = composer.querySelectorAll(".buttons button");
  buttons.forEach((button) => { button.disabled = true; });
  try {
    const answer = await fetch(composer.action, {
      method: "POST", body: new URLSearchParams(form), headers: { Accept: "application/json" },
    });
    if (answer.ok) {
      body.value = "";
      sessionStorage.removeItem(draft);
      complain("");
      await refresh();
    } else {
      const told = await answer.json().catch(() => ({}));
      complain(told.why || "That could not be posted; what you typed is still here. Load the page again and retry.");
    }
  } catch {
    complain("The embedded GitHub does not answer; what you typed is still here.");
  }
  buttons.forEach((button) => { button.disabled = false; });
  fit();
  body.focus({ preventScroll: true });
}

if (composer) {
  const last = sessionStorage.getItem("as");
  const again = last && trouble.hidden && composer.querySelector(`[name=as][value="${CSS.escape(last)}"]`);
  if (again) again.checked = true;
  if (!body.value) body.value = sessionStorage.getItem(draft) || "";
  body.addEventListener("input", () => sessionStorage.setItem(draft, body.value));
  body.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      composer.requestSubmit(composer.querySelector("button.primary"));
    }
  });
  composer.addEventListener("change", fit);
  composer.addEventListener("submit", post);
  composer.addEventListener("click", (event) => {
    const chip = event.target.closest("[data-insert]");
    if (!chip) return;
    body.value = body.value ? `${body.value.trimEnd()}\n${chip.dataset.insert}` : chip.dataset.insert;
    body.dispatchEvent(new Event("input"));
    body.focus();
  });
  fit();
}

document.getElementById("fresh").addEventListener("click", (event) => { event.currentTarget.hidden = true; });
addEventListener("scroll", () => { document.getElementById("fresh").hidden = true; }, { passive: true });
setInterval(() => { if (!document.hidden) look(); }, EVERY_MS);
document.addEventListener("visibilitychange", () => { if (!document.hidden) look(); });
setInterval(tick, 1000);
tick();
